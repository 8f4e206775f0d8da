// A plug-in whose class lacks a function.
#include "class.h"

static const struct backend_class partial = {.name = "partial",
                                             .kv_types = kv_types,
                                             .kv_default = "f16",
                                             .device = class_device,
                                             .need = class_need,
                                             .create = class_create,
                                             .destroy = class_destroy,
                                             .submit = class_submit,
                                             .describe = class_describe};

BACKEND_PLUGIN(partial);
