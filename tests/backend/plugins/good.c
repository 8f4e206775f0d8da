// A plug-in as it should be. The build gives its name.
#include "class.h"

static const struct backend_class good = {CLASS_OF_TEST(PLUGIN_NAME, class_device)};

BACKEND_PLUGIN(good);
