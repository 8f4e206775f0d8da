// A plug-in whose default KV type is none of its KV types.
#include "class.h"

static const char *const others[] = {"int8", NULL};
static const struct backend_class typeless = {.name = "typeless",
                                              .kv_types = others,
                                              .kv_default = "f16",
                                              .device = class_device,
                                              .need = class_need,
                                              .create = class_create,
                                              .destroy = class_destroy,
                                              .submit = class_submit,
                                              .wait = class_wait,
                                              .describe = class_describe};

BACKEND_PLUGIN(typeless);
