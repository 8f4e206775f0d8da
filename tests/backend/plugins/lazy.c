// A plug-in that gives pages back, and has no function for it.
#include "class.h"

static rn_status lazy_device(int index, struct backend_device *out, rn_error *err) {
    const rn_status status = class_device(index, out, err);
    out->pages = PAGES_LAZY;
    return status;
}

static const struct backend_class lazy = {CLASS_OF_TEST("lazy", lazy_device)};

BACKEND_PLUGIN(lazy);
