// The hook of bare_engine.h, and models that do not come from a file.
#include "bare_engine.h"

#include "engine_hook.h"
#include "fake/fake_backend.h"
#include "recurrent_model.h"

struct engine_clock bare_clock;
const struct backend_class *bare_class, *bare_draft_class;
int64_t bare_mask_units;
const struct page_io *bare_store_io;
bool bare_store_always;

#ifdef TEST_ASYNC
static const struct backend_class *const by_default = &backend_fake;
#else
static const struct backend_class *const by_default = NULL;
#endif

rn_status __wrap_engine_init(struct engine *engine, const struct model *model,
                             const struct tokenizer *tokenizer, const struct engine_config *config,
                             rn_error *err) {
    struct engine_config bare = *config;
    bare.self_check = true;
    bare.clock = bare_clock;
    bare.mask_units = bare_mask_units;
    bare.draft_place.cls = bare_draft_class;
    bare.store.io = bare_store_io;
    bare.store.always = bare_store_always;
    if (!bare.place.name) bare.place.cls = bare_class ? bare_class : by_default;
    return __real_engine_init(engine, model, tokenizer, &bare, err);
}

rn_model *bare_open(const char *path) {
    rn_error err = {0};
    rn_model *model;
    check(rn_model_open(path, &model, &err) == RN_OK, "%s", err.message);
    return model;
}

rn_model *bare_open_vocab(int n_vocab) {
    rn_error err = {0};
    rn_model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    check(!weights_open(TEST_DATA "/golden/gemma3/model.gguf", &model->weights, &err) &&
              !vocab_load(model->weights, n_vocab, &model->tokenizer, NULL, &err) &&
              !model_shapes_create(&model->shapes, &err),
          "%s", err.message);
    return model;
}

void bare_fill_info(rn_model *model, int n_ctx) {
    model->has_plan = true;
    model->model.hp.n_ctx = n_ctx;
    model->info = (rn_model_info){.n_vocab = model->model.plan.n_vocab,
                                  .n_embd = model->model.hp.n_embd,
                                  .n_ctx_train = n_ctx};
}

rn_model *bare_open_states(int n_vocab, int n_ctx, int n_state) {
    rn_error err = {0};
    rn_model *model = bare_open_vocab(n_vocab);
    check(!recurrent_model_init_large(&model->model, n_vocab, FORMAT_F32, n_state, &err), "%s",
          err.message);
    bare_fill_info(model, n_ctx);
    return model;
}

rn_model *bare_open_recurrent(int n_vocab, int n_ctx) {
    return bare_open_states(n_vocab, n_ctx, 2);
}
