// Linked into the programs of the engine's tests once more: every engine that names no backend runs
// on the fake one. The linker hands each call of engine_init to the function here.
#include "engine/step/engine.h"
#include "fake/fake_backend.h"

rn_status __real_engine_init(struct engine *engine, const struct model *model,
                             const struct tokenizer *tokenizer, const struct engine_config *config,
                             rn_error *err);
rn_status __wrap_engine_init(struct engine *engine, const struct model *model,
                             const struct tokenizer *tokenizer, const struct engine_config *config,
                             rn_error *err);

rn_status __wrap_engine_init(struct engine *engine, const struct model *model,
                             const struct tokenizer *tokenizer, const struct engine_config *config,
                             rn_error *err) {
    struct engine_config fake = *config;
    fake.self_check = true;
    if (!fake.place.name && !fake.place.cls) fake.place.cls = &backend_fake;
    return __real_engine_init(engine, model, tokenizer, &fake, err);
}
