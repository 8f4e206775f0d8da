// The engine's invariants (pages, tables, places of sequences) hold after every step of random
// mixes, with pages so few that sequences are preempted, through cancels and pauses.
// label: async
#include "bare_engine.h"
#include "mix.h"

#define N_REQUESTS test_scale(30, 150, 300)

static void run(const char *path, uint64_t seed) {
    rn_model *model = bare_open(path);
    struct mix_cases cases;
    struct mix_totals totals = {0};
    mix_cases_create(&cases, model, "f16", seed, N_REQUESTS / 2);
    mix_run_many(&cases, seed, N_REQUESTS, 0, &totals);
    mix_cases_destroy(&cases);
    rn_model_close(model);
    mix_print_totals(path, &totals);
    assert_int_equal(totals.mismatches, 0);
    if (MIX_IS_SHORT) return;
    assert_true(totals.preemptions > 0 && totals.hits > 0 && totals.evictions > 0);
}

CASE(they_hold_with_full_attention) { run(MODELS_DIR "/tale-1m-f16.gguf", 3); }

CASE(they_hold_with_windows) { run(TEST_DATA "/golden/gemma3/model.gguf", 4); }

TEST_PROGRAM(invariants) { return cases_run(NULL, NULL); }
