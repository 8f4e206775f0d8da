// The linker hands each call of engine_init to __wrap_engine_init (--wrap), which a runner's hook
// defines: bare_engine.c for tests that look inside engines, checked_engine.c for the others.
#ifndef RN_TESTS_ENGINE_HOOK_H
#define RN_TESTS_ENGINE_HOOK_H

#include "engine/step/engine.h"

rn_status __real_engine_init(struct engine *engine, const struct model *model,
                             const struct tokenizer *tokenizer, const struct engine_config *config,
                             rn_error *err);
rn_status __wrap_engine_init(struct engine *engine, const struct model *model,
                             const struct tokenizer *tokenizer, const struct engine_config *config,
                             rn_error *err);

#endif
