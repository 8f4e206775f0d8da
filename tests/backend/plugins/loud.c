// A plug-in whose device has control characters in its name.
#include <string.h>

#include "class.h"

static rn_status loud_device(int index, struct backend_device *out, rn_error *err) {
    const rn_status status = class_device(index, out, err);
    strcpy(out->name, "a\033[31m device\n");
    return status;
}

static const struct backend_class loud = {CLASS_OF_TEST("loud", loud_device)};

BACKEND_PLUGIN(loud);
