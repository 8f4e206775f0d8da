// Linked into the runners of tests that use the public calls: every engine tests its invariants
// after each step. The linker hands each call of engine_init to the function here.
#include "engine/step/engine.h"

rn_status __real_engine_init(struct engine *engine, const struct model *model,
                             const struct tokenizer *tokenizer, const struct engine_config *config,
                             rn_error *err);
rn_status __wrap_engine_init(struct engine *engine, const struct model *model,
                             const struct tokenizer *tokenizer, const struct engine_config *config,
                             rn_error *err);

rn_status __wrap_engine_init(struct engine *engine, const struct model *model,
                             const struct tokenizer *tokenizer, const struct engine_config *config,
                             rn_error *err) {
    struct engine_config checked = *config;
    checked.self_check = true;
    return __real_engine_init(engine, model, tokenizer, &checked, err);
}
