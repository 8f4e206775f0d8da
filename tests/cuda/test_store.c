// Pages of the device survive in a page store: a request on a new engine takes them from there, and
// gives the tokens of the engine that computed them. Full attention, windows and states.
#include "cuda_engine.h"
#include "store_folder.h"
#include "streams.h"

static void run(const rn_model *model, const char *store, int n_prompt, struct stream *out) {
    int32_t text[160];
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = 1,
                                                                   .n_ctx = 256,
                                                                   .speculate = "off",
                                                                   .page_store = store});
    for (int i = 0; i < n_prompt; i++) text[i] = (i * 37 + i * i * 5 + 3) % 250;
    const rn_request request = {.prompt = text,
                                .n_prompt = (size_t)n_prompt,
                                .max_tokens = 6,
                                .ignore_eos = true};
    streams_run(engine, &request, out);
    rn_engine_destroy(engine);
    assert_int_equal(out->status, RN_OK);
}

static void check_model(const char *name, int n_stored) {
    static struct stream first, second;
    struct store_folder folder = store_folder_make();
    char path[400];
    rn_model *model;
    rn_error err = {0};
    snprintf(path, sizeof path, "%s/golden/%s/model.gguf", TEST_DATA, name);
    check(rn_model_open(path, &model, &err) == RN_OK, "%s", err.message);
    run(model, folder.path, 100, &first);
    assert_int_equal(first.timings.cached_tokens, 0);
    run(model, folder.path, 100, &second);
    check(second.timings.stored_tokens == n_stored, "%s: %d tokens came from the store", name,
          second.timings.stored_tokens);
    streams_check_same(&first, &second);
    rn_model_close(model);
    store_folder_remove(&folder);
}

CASE(full_attention) { check_model("llama", 96); }
CASE(windows) { check_model("gemma3", 96); }
CASE(states) { check_model("qwen3_5", 64); } // the last checkpoint 8 tokens before the end

TEST_PROGRAM(store) { return cases_run(NULL, NULL); }
