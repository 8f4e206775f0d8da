// A plug-in that takes more addresses than a limited process has.
#include "class.h"

enum { GIB = 1 << 30 };

static volatile char room[GIB];

static rn_status device(int index, struct backend_device *out, rn_error *err) {
    (void)out;
    room[index] = 1;
    return err_set(err, RN_ERR_UNSUPPORTED, "no driver");
}

static const struct backend_class large = {CLASS_OF_TEST(PLUGIN_NAME, device)};

BACKEND_PLUGIN(large);
