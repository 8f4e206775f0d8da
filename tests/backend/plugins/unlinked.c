// A plug-in that needs an undefined function, like a plug-in that links a missing library.
#include "class.h"

void function_that_nobody_has(void);

static rn_status unlinked_device(int index, struct backend_device *out, rn_error *err) {
    function_that_nobody_has();
    return class_device(index, out, err);
}

static const struct backend_class unlinked = {CLASS_OF_TEST("unlinked", unlinked_device)};

BACKEND_PLUGIN(unlinked);
