// The models of families.def with prefix reuse, forks, drafts, preemption and batching all on at
// once: random requests give the same tokens, text, logprobs, vectors and logits as alone, to the
// bit. The engine's invariants are tested after every step. mix_long.c has the long form.
// label: async-long no-address
#define MIX_MAX_OUTPUT   72 // longer than a block, and than the longest draft twice
#define MIX_MAX_REQUESTS 24

#include "bare_engine.h"
#include "family_mixes.h"

#define N_REQUESTS test_scale(12, 60, 100)

static struct mix_random now;

#ifdef TEST_ASYNC // that backend runs no block
enum { RUNS_BLOCKS = 0 };
#else
enum { RUNS_BLOCKS = 1 };
#endif

// Closes the model.
static void run(const char *name, rn_model *model, bool has_block) {
    const uint64_t seed = family_seed(name);
    struct mix_totals totals = {0};
    now.state = seed;
    bare_clock = (struct engine_clock){hybrid_now, &now};
    hybrid_run(model, has_block, family_kv_type(name), seed, (int)seed, N_REQUESTS, 0, &totals);
    bare_clock = (struct engine_clock){0};
    rn_model_close(model);
    hybrid_print(name, &totals);
    assert_int_equal(totals.mismatches, 0);
    if (TEST_IS_SLOW) return; // too few for any of these
    assert_true(totals.hits > 0 && totals.cached_tokens > 0);
    assert_true(totals.accepted > 0);
    if (!test_is_whole()) return;
    assert_true(totals.accepted < totals.draft_tokens);
    assert_true(totals.preemptions > 0 && totals.cancelled > 0 && totals.forks > 0);
}

static void gives_the_same_in_company(void **state) { run(*state, family_open(*state), false); }

CASE(windows_of_several_pages_give_the_same_in_company) {
    for (int i = 0; i < FAMILY_VARIANTS; i++)
        run(family_variants[i].label, family_open_variant(&family_variants[i]), false);
}

CASE(models_with_an_assistant_give_the_same_in_company) {
    for (int i = 0; i < FAMILY_ASSISTED; i++)
        run(family_assisted[i].label, family_open_assisted(&family_assisted[i]), RUNS_BLOCKS);
}

TEST_PROGRAM(family_mix) {
    return golden_run_families("gives_the_same_in_company", gives_the_same_in_company) |
           cases_run(NULL, NULL);
}
