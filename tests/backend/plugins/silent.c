// A plug-in whose device is not on this machine. It does not say why.
#include "class.h"

static rn_status no_device(int index, struct backend_device *out, rn_error *err) {
    (void)index, (void)out, (void)err;
    return RN_ERR_UNSUPPORTED;
}

static const struct backend_class silent = {CLASS_OF_TEST("silent", no_device)};

BACKEND_PLUGIN(silent);
