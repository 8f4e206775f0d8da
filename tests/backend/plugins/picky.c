// A plug-in whose device refuses every plan. The build gives its name.
#include "class.h"

static rn_status refuse(const struct plan *plan, const struct backend_sizes *sizes,
                        const char *kv_type, struct backend_need *out, rn_error *err) {
    (void)plan, (void)sizes, (void)kv_type, (void)out;
    return err_set(err, RN_ERR_UNSUPPORTED,
                   PLUGIN_NAME ": the op embed is not there yet; --backend cpu has it");
}

static const struct backend_class picky = {.name = PLUGIN_NAME,
                                           .kv_types = kv_types,
                                           .kv_default = "f16",
                                           .device = class_device,
                                           .need = refuse,
                                           .create = class_create,
                                           .destroy = class_destroy,
                                           .submit = class_submit,
                                           .wait = class_wait,
                                           .describe = class_describe};

BACKEND_PLUGIN(picky);
