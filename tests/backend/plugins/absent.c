// A plug-in whose device is not on this machine. The build gives its name.
#include "class.h"

static rn_status no_device(int index, struct backend_device *out, rn_error *err) {
    (void)index, (void)out;
    return err_set(err, RN_ERR_UNSUPPORTED, "no driver");
}

static const struct backend_class absent = {CLASS_OF_TEST(PLUGIN_NAME, no_device)};

BACKEND_PLUGIN(absent);
