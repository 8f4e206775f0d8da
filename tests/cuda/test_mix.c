// Random requests give the same tokens, text and logits alone and in any mix with others, on a GPU:
// chunks, cached prefixes, preemption, drafts, two steps in flight. The emulator would take hours.
#define TALE_ANY
#include "cuda_engine.h"
#include "mix.h"
#include "tale.h"

enum { SEED = 11, N_MIXES = 60 };

CASE(mixes_give_the_tokens_of_alone_runs) {
    static const char *const kv_types[] = {"f16", "int8", "bf16", "fp8"};
    struct mix_totals totals = {0};
    (void)state;
    if (!cuda_wanted()) skip();
    for (int i = 0; i < 4; i++) {
        struct mix_cases cases;
        const int n = i == 0 ? N_MIXES : N_MIXES / 4;
        mix_cases_create(&cases, model, kv_types[i], SEED + (uint64_t)i, n / 2);
        mix_run_many(&cases, SEED + (uint64_t)i, n, 0, &totals);
        mix_cases_destroy(&cases);
    }
    mix_print_totals("tale-1m", &totals);
    assert_int_equal(totals.mismatches, 0);
    assert_true(totals.preemptions > 0 && totals.hits > 0);
}

TEST_PROGRAM(mix) { return cases_run(open_model, close_model); }
