// The class of a test's plug-in: it is complete and can be found, but nothing can be created.
#ifndef RN_TESTS_PLUGINS_CLASS_H
#define RN_TESTS_PLUGINS_CLASS_H

#include "backend/plugin.h"

static const char *const kv_types[] = {"f32", "f16", NULL};

// There are two, which are alike.
static inline rn_status class_device(int index, struct backend_device *out, rn_error *err) {
    if (index > 1) return err_set(err, RN_ERR_ARG, "device is %d, expected 0 to 1", index);
    *out = (struct backend_device){.name = "a device of a test",
                                   .memory_total = 2 << 20,
                                   .memory_free = 1 << 20,
                                   .pages = PAGES_FIXED,
                                   .depth = 2};
    return RN_OK;
}

static inline rn_status class_need(const struct plan *plan, const struct backend_sizes *sizes,
                                   const char *kv_type, struct backend_need *out, rn_error *err) {
    (void)plan, (void)sizes, (void)kv_type, (void)out;
    return err_set(err, RN_ERR_NOMEM, "the device of a test has no memory");
}

static inline rn_status class_create(const struct plan *plan, const struct backend_config *config,
                                     struct backend **out, rn_error *err) {
    (void)plan, (void)config, (void)out;
    return err_set(err, RN_ERR_NOMEM, "the device of a test has no memory");
}

static inline void class_destroy(struct backend *backend) { (void)backend; }

static inline rn_status class_submit(struct backend *backend, const struct batch *batch,
                                     rn_error *err) {
    (void)backend, (void)batch, (void)err;
    return RN_ERR_STEP;
}

static inline rn_status class_wait(struct backend *backend, struct step_result *out,
                                   rn_error *err) {
    (void)backend, (void)out, (void)err;
    return RN_ERR_STEP;
}

static inline void class_describe(const struct backend *backend, struct backend_info *out) {
    (void)backend;
    *out = (struct backend_info){.variant = "", .kv_type = kv_types[0], .slow_formats = ""};
}

// The members of a class with that name and device.
#define CLASS_OF_TEST(class_name, device_of_it)                                                    \
    .name = class_name, .kv_types = kv_types, .kv_default = "f16", .device = device_of_it,         \
    .need = class_need, .create = class_create, .destroy = class_destroy, .submit = class_submit,  \
    .wait = class_wait, .describe = class_describe

#endif
