// See cuda_engine.h. Every engine tests its invariants after each step.
#include "cuda_engine.h"

#include <stdlib.h>

#include "check.h"
#include "engine_hook.h"

const char *cuda_wanted(void) { return getenv("RUNNEL_TEST_BACKEND"); }

const struct backend_class *cuda_class(void) {
    const struct backend_class *cls = cuda_emulated();
    struct backend_device device;
    rn_error err = {0};
    if (cuda_wanted())
        check(backend_find(cuda_wanted(), 0, &cls, &device, &err) == RN_OK, "%s", err.message);
    return cls;
}

rn_status __wrap_engine_init(struct engine *engine, const struct model *model,
                             const struct tokenizer *tokenizer, const struct engine_config *config,
                             rn_error *err) {
    struct engine_config own = *config;
    own.self_check = true;
    if (!own.place.name) own.place.cls = cuda_class();
    return __real_engine_init(engine, model, tokenizer, &own, err);
}
