// Linked into the runners of tests that use the public calls: every engine tests its invariants
// after each step.
#include "engine_hook.h"

rn_status __wrap_engine_init(struct engine *engine, const struct model *model,
                             const struct tokenizer *tokenizer, const struct engine_config *config,
                             rn_error *err) {
    struct engine_config checked = *config;
    checked.self_check = true;
    return __real_engine_init(engine, model, tokenizer, &checked, err);
}
