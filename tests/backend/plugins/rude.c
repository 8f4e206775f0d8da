// A plug-in whose device is not on this machine. Its reason fills the error without an end, and has
// control characters.
#include <string.h>

#include "class.h"

static rn_status no_device(int index, struct backend_device *out, rn_error *err) {
    (void)index;
    memset(out->name, 'x', sizeof out->name);
    memset(err->message, '\n', sizeof err->message);
    return RN_ERR_UNSUPPORTED;
}

static const struct backend_class rude = {CLASS_OF_TEST("rude", no_device)};

BACKEND_PLUGIN(rude);
