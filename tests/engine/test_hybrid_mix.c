// Hybrid models with prefix reuse, drafts, preemption and batching all on at once: random requests
// give the same tokens, text, logprobs, vectors and logits as alone, to the bit. One model has the
// delta rule and a block that drafts, in three forms. The others have Mamba-2, with attention and
// without. The engine's invariants are tested after every step. mix_long.c has the long form.
// label: async-long no-address
#define MIX_MAX_OUTPUT   72 // longer than a block, and than the longest draft twice
#define MIX_MAX_REQUESTS 24

#include "bare_engine.h"
#include "hybrid_mixes.h"

#define N_REQUESTS test_scale(12, 160, 600)

static struct mix_random now;

static void run(const char *name, const char *path, bool has_block, const char *kv_type,
                uint64_t seed, int first) {
    struct mix_totals totals = {0};
    rn_model *model = bare_open(path);
    now.state = seed;
    bare_clock = (struct engine_clock){hybrid_now, &now};
    hybrid_run(model, has_block, kv_type, seed, first, N_REQUESTS, 0, &totals);
    bare_clock = (struct engine_clock){0};
    rn_model_close(model);
    hybrid_print(name, &totals);
    assert_int_equal(totals.mismatches, 0);
    if (test_is_whole()) hybrid_check_events(name, &totals, true, has_block);
    if (TEST_IS_SLOW) return; // too few for any of these
    assert_true(totals.hits > 0 && totals.cached_tokens > 0 && totals.tails > 0);
    assert_true(totals.preemptions > 0 && totals.cancelled > 0 && totals.forks > 0);
    assert_true(totals.accepted > 0 && totals.accepted < totals.draft_tokens);
    assert_true(!has_block || totals.by[RN_DRAFTER_MTP].accepted > 0);
}

#ifdef TEST_ASYNC // that backend runs no block
enum { RUNS_BLOCKS = 0 };
#else
enum { RUNS_BLOCKS = 1 };
#endif

static void run_block(const char *name, enum mtp_form form, uint64_t seed, int first) {
    struct mtp_file file = mtp_file_make(form);
    run(name, file.path, RUNS_BLOCKS, "f16", seed, first);
    mtp_file_remove(&file);
}

CASE(delta_with_a_block_that_is_seldom_right) { run_block("delta", MTP_RANDOM, 31, 0); }

CASE(delta_with_a_block_that_is_often_right) { run_block("delta, near", MTP_NEAR, 32, 3); }

CASE(delta_with_a_block_that_is_right) { run_block("delta, echo", MTP_ECHO, 33, 6); }

CASE(scans_with_attention_and_experts) {
    run("nemotron_h-moe", TEST_DATA "/golden/nemotron_h-moe/model.gguf", false, "f16", 38, 0);
}

CASE(scans_without_attention) {
    run("mamba2", TEST_DATA "/golden/mamba2/model.gguf", false, "f32", 39, 4);
}

TEST_PROGRAM(hybrid_mix) { return cases_run(NULL, NULL); }
