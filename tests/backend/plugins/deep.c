// A plug-in with more steps in flight than there may be.
#include "class.h"

static rn_status deep_device(int index, struct backend_device *out, rn_error *err) {
    const rn_status status = class_device(index, out, err);
    out->depth = BACKEND_MAX_DEPTH + 1;
    return status;
}

static const struct backend_class deep = {CLASS_OF_TEST("deep", deep_device)};

BACKEND_PLUGIN(deep);
