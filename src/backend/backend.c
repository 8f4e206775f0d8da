// The table of backends, best first.
#include "backend/table.h"

#include <string.h>

static const struct backend_class *const backends[] = {&backend_cpu};
enum { N_BACKENDS = sizeof backends / sizeof *backends };

rn_status backend_create(const struct plan *plan, const struct backend_config *config,
                         struct backend **out, rn_error *err) {
    *out = NULL;
    rn_status status = RN_OK;
    for (int i = 0; i < N_BACKENDS; i++) {
        if (config->name && strcmp(config->name, backends[i]->name) != 0) continue;
        status = backends[i]->create(plan, config, out, err);
        if (status == RN_OK || config->name) return status;
    }
    if (status) return status; // of the last one tried
    return err_set(err, RN_ERR_ARG, "backend: '%.64s' is not known (known: %s)", config->name,
                   backends[0]->name);
}

void backend_destroy(struct backend *backend) {
    if (backend) backend->cls->destroy(backend);
}
