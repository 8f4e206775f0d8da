// Random requests give the same tokens, text, vectors and logits alone and in any mix with others.
// Mixes have each KV type, so few pages that sequences are preempted, the prefix cache or none,
// cancels, pauses, and one or two threads. The by-hand form is mix_long.c.
// label: threads async no-address
#define TALE_ANY
#include "mix.h"
#include "tale.h"

enum { SEED = 1 };
#define N_F16    test_scale(14, 250, 600)
#define N_OTHER  test_scale(6, 60, 100)
#define N_STORMS test_scale(1, 4, 8)

CASE(mixes_give_the_tokens_of_alone_runs) {
    static const char *const kv_types[] = {"f16", "f32", "int8", "int4"};
    (void)state;
    struct mix_totals totals = {0};
    for (int i = 0; i < 4; i++) {
        const int n = i == 0 ? N_F16 : N_OTHER;
        struct mix_cases cases;
        mix_cases_create(&cases, model, kv_types[i], SEED + (uint64_t)i, n / 2);
        mix_run_many(&cases, SEED + (uint64_t)i, n, 0, &totals);
        mix_cases_destroy(&cases);
    }
    mix_print_totals("tale-1m", &totals);
    assert_int_equal(totals.mismatches, 0);
    // the mixes did show their events
    assert_true(TEST_IS_SLOW || totals.preemptions > 0);
    if (MIX_IS_SHORT) return;
    assert_true(totals.preemptions > totals.mixes);
    assert_true(totals.hits > totals.mixes && totals.evictions > totals.mixes);
    assert_true(totals.shared_max > 1 && totals.running_max > 16);
    assert_true(totals.cancelled > totals.mixes / 2);
    assert_true(totals.bad_words > 0 && totals.least > 0);
    assert_true(totals.bounded > 0 && totals.scored_again > 0);
    assert_true(totals.complete > 0 && totals.shaped_later > 0 && totals.shaped_again > 0);
    assert_true(totals.by[RN_DRAFTER_SHAPE].accepted > 0);
}

// Everything is cancelled at some moment; then the engine is as new: nothing is held, and a request
// gives its tokens.
CASE(a_storm_of_cancels_gives_every_page_back) {
    struct mix_cases cases;
    mix_cases_create(&cases, model, "f16", SEED + 9, test_scale(14, 40, 40));
    struct mix_totals totals = {0};
    for (int storm = 0; storm < N_STORMS; storm++) {
        struct mix_random r = {mix_hash(SEED + (uint64_t)storm)};
        struct mix mix;
        mix_draw(&mix, &cases, mix_next(&r));
        const int moment = mix_below(&r, 12);
        for (int i = 0; i < mix.n; i++) {
            mix.live[i].arrival = mix_below(&r, 5);
            mix.live[i].cancel_after = moment + mix_below(&r, 4);
        }
        struct mix_live *after = &mix.live[mix.n - 1];
        after->arrival = 60;
        after->cancel_after = -1;
        after->pause_n = 0;
        mix_run(&mix, &totals);
    }
    mix_cases_destroy(&cases);
    assert_int_equal(totals.mismatches, 0);
    assert_true(totals.cancelled > 5 * (uint64_t)N_STORMS);
}

TEST_PROGRAM(mix) { return cases_run(open_model, close_model); }
