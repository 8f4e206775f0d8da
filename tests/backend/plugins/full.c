// A plug-in whose device is here and has no memory left.
#include "class.h"

static rn_status no_memory(int index, struct backend_device *out, rn_error *err) {
    (void)index, (void)out;
    return err_set(err, RN_ERR_NOMEM, "no memory for a context");
}

static const struct backend_class full = {CLASS_OF_TEST("full", no_memory)};

BACKEND_PLUGIN(full);
