// The table of backends, best first, and what every backend's users share.
#include "backend/table.h"

#include <stdio.h>
#include <string.h>

static const struct backend_class *const backends[] = {&backend_cpu};
enum { N_BACKENDS = sizeof backends / sizeof *backends };

rn_status backend_find(const char *name, const struct backend_class **out,
                       struct backend_device *out_device, rn_error *err) {
    rn_status status = RN_ERR_ARG;
    for (int i = 0; i < N_BACKENDS; i++) {
        if (name && strcmp(name, backends[i]->name) != 0) continue;
        status = backends[i]->device(out_device, err);
        *out = backends[i];
        if (name || status != RN_ERR_UNSUPPORTED) return status;
    }
    if (!name) return status; // of the last one tried
    return err_set(err, RN_ERR_ARG, "backend: '%.64s' is not known (known: %s)", name,
                   backends[0]->name);
}

rn_status backend_kv_type(const struct backend_class *cls, const char *name, const char **out,
                          rn_error *err) {
    char known[128] = "";
    size_t at = 0;
    *out = cls->kv_default;
    if (!name) return RN_OK;
    for (const char *const *type = cls->kv_types; *type; type++) {
        *out = *type;
        if (strcmp(*type, name) == 0) return RN_OK;
        if (at < sizeof known)
            at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", *type);
    }
    return err_set(err, RN_ERR_ARG, "KV type '%.64s' is unknown (known: %s)", name, known);
}

void backend_destroy(struct backend *backend) {
    if (backend) backend->cls->destroy(backend);
}

rn_status backend_run(struct backend *backend, const struct batch *batch, struct step_result *out,
                      rn_error *err) {
    const rn_status status = backend->cls->submit(backend, batch, err);
    return status ? status : backend->cls->wait(backend, out, err);
}
