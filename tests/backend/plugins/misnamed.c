// A plug-in whose class has another name than its file.
#include "class.h"

static const struct backend_class misnamed = {CLASS_OF_TEST("good", class_device)};

BACKEND_PLUGIN(misnamed);
