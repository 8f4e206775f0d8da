// Random requests with a page store that all engines of a test share, one after the other: tokens,
// text, logprobs, vectors and logits are those of each request alone, to the bit. Pages are read
// wherever the store has them, whatever it costs. Models: full attention, windows, states of two
// kinds, states alone. The engine's invariants are tested after every step.
// label: threads async no-address
#define MIX_MAX_OUTPUT   72
#define MIX_MAX_REQUESTS 24

#include "bare_engine.h"
#include "engine/store/page_store_internal.h"
#include "hybrid_mixes.h"
#include "store_folder.h"

#define N_REQUESTS test_scale(12, 60, 300)

static struct mix_random now;

static void settle(rn_engine *engine) {
    struct page_store *store = engine->engine.store;
    while (atomic_load(&store->n_handled) != store->next_offer) usleep(100);
}

static void run(const char *name, const char *path, const char *kv_type, uint64_t seed) {
    struct store_folder folder = store_folder_make();
    struct mix_totals totals = {0};
    struct mix_cases cases;
    int32_t noise[HYBRID_NOISE];
    rn_model *model = bare_open(path);
    now.state = seed;
    bare_clock = (struct engine_clock){hybrid_now, &now};
    bare_store_always = true;
    const struct mix_text text = hybrid_noise(noise, rn_model_get_info(model)->n_vocab);
    mix_cases_create_all(&cases, model, kv_type, text, true, seed, N_REQUESTS / 2);
    cases.page_store = folder.path;
    cases.settle = settle;
    hybrid_run_cases(&cases, false, seed, (int)seed, N_REQUESTS, 0, &totals);
    mix_cases_destroy(&cases);
    rn_model_close(model);
    bare_clock = (struct engine_clock){0};
    bare_store_always = false;
    print_message("%s: %llu requests, %llu of %llu cached tokens came from the store, %llu pages "
                  "written, %llu preemptions, %llu mismatches\n",
                  name, (unsigned long long)totals.requests,
                  (unsigned long long)totals.stored_tokens,
                  (unsigned long long)totals.cached_tokens, (unsigned long long)totals.stored_pages,
                  (unsigned long long)totals.preemptions, (unsigned long long)totals.mismatches);
    store_folder_remove(&folder);
    assert_int_equal(totals.mismatches, 0);
    if (TEST_IS_SLOW) return;
    assert_true(totals.stored_pages > 0 && totals.stored_tokens > 0);
}

CASE(full_attention) { run("llama", TEST_DATA "/golden/llama/model.gguf", "f16", 51); }
CASE(windows) { run("gemma3", TEST_DATA "/golden/gemma3/model.gguf", "int8", 52); }
CASE(delta_rule) { run("qwen3_5", TEST_DATA "/golden/qwen3_5/model.gguf", "f16", 53); }
CASE(scans_with_attention) {
    run("nemotron_h", TEST_DATA "/golden/nemotron_h/model.gguf", "int4", 54);
}
CASE(scans_alone) { run("mamba2", TEST_DATA "/golden/mamba2/model.gguf", "f32", 55); }

TEST_PROGRAM(store_mix) { return cases_run(NULL, NULL); }
