// DRY: the length of repetitions by hand, against a quadratic search, and in linear work.
#define VOCAB 64
#include <float.h>
#include <stdlib.h>

#include "check.h"
#include "choose_reference.h"
#include "sampler_chain.h"

static uint32_t random_state = 99;
static int below(int n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((uint64_t)(random_state >> 8) * (uint64_t)n >> 24);
}

// Logits of 0 after DRY.
static void dry_logits(const rn_sampling *s, const struct sampler_view *view, float out[VOCAB]) {
    static const float zero[VOCAB];
    sampler_edit(&sampler, s, view, zero, out);
    for (int id = 0; id < VOCAB; id++) assert_int_equal(sampler.scratch.row[id], 0);
}

// Penalties are 2^(length - 1): the length can be read off.
static rn_sampling sampling_of_powers(void) {
    rn_sampling s = rn_sampling_neutral();
    s.dry_multiplier = 1;
    s.dry_base = 2;
    s.dry_allowed_length = 1;
    return s;
}

// Letters are tokens, from 'A' on. expected: pairs of a letter and the length of the repetition
// that it continues; all others have none.
static void check_lengths(const char *history, const char *breakers, int last_n,
                          const char *expected) {
    int32_t token[64];
    uint64_t bits[1] = {0};
    const int n = (int)strlen(history);
    for (int i = 0; i < n; i++) token[i] = history[i] - 'A';
    for (const char *at = breakers; *at; at++) bits[0] |= UINT64_C(1) << (*at - 'A');
    int length[VOCAB] = {0};
    for (const char *at = expected; *at; at += 2) length[at[0] - 'A'] = at[1] - '0';
    rn_sampling s = sampling_of_powers();
    s.dry_penalty_last_n = last_n;
    const struct sampler_view view = {.token = token, .n_token = n, .breakers = {bits}};
    float logits[VOCAB];
    dry_logits(&s, &view, logits);
    for (int id = 0; id < VOCAB; id++) {
        const float penalty = length[id] ? ldexpf(1, length[id] - 1) : 0;
        check(logits[id] == -penalty, "%s: %c loses %g, not %g", history, 'A' + id,
              (double)-logits[id], (double)penalty);
    }
}

CASE(lengths_computed_by_hand) {
    check_lengths("", "", -1, "");
    check_lengths("A", "", -1, "");
    check_lengths("AB", "", -1, "");
    check_lengths("ABA", "", -1, "B1");   // A was followed by B
    check_lengths("ABCAB", "", -1, "C2"); // AB by C
    check_lengths("ABCXABDYAB", "", -1, "C2D2");
    check_lengths("ABCZBDXAB", "", -1, "C2D1"); // AB by C, B alone by D
    check_lengths("AAAA", "", -1, "A3");        // repetitions may overlap
    check_lengths("ABABAB", "", -1, "A4");
    check_lengths("ABCDABCDABC", "", -1, "D7");
    check_lengths("ABCABDAB", "", -1, "C2D2");
    check_lengths("XABYAB", "", -1, "Y2"); // X and Y differ: not three
}

CASE(a_repetition_does_not_cross_a_breaker) {
    check_lengths("ABsABCABsAB", "", -1, "s2C5");
    check_lengths("ABsABCABsAB", "s", -1, "C2"); // and a breaker is never penalized
    check_lengths("XAsBCXAsB", "", -1, "C4");
    check_lengths("XAsBCXAsB", "s", -1, "C1"); // B alone is behind the breaker
    check_lengths("ABsAB", "s", -1, "");
    check_lengths("ABCABsABs", "s", -1, ""); // nothing after a breaker
}

CASE(the_window_shows_the_last_tokens_alone) {
    check_lengths("ABCXABDYAB", "", 10, "C2D2");
    check_lengths("ABCXABDYAB", "", 9, "C1D2"); // BCX...: B alone was followed by C
    check_lengths("ABCXABDYAB", "", 6, "D2");
    check_lengths("ABCXABDYAB", "", 5, "D1");
    check_lengths("ABCXABDYAB", "", 4, "");
    check_lengths("ABCXABDYAB", "", 0, "");
    check_lengths("ABCXABDYAB", "", INT32_MAX, "C2D2");
}

CASE(shorter_repetitions_than_allowed_are_free) {
    const int32_t token[] = {0, 1, 2, 9, 0, 1, 2}; // 9 continues a repetition of three, 0 1 2
    float logits[VOCAB];
    const struct sampler_view view = {.token = token, .n_token = 7};
    rn_sampling s = rn_sampling_neutral();
    s.dry_multiplier = 0.5f;
    s.dry_base = 3;
    const float expected[] = {-13.5f, -4.5f, -1.5f, -0.5f, 0, 0};
    for (int allowed = 0; allowed < 6; allowed++) {
        s.dry_allowed_length = allowed;
        dry_logits(&s, &view, logits);
        check(logits[9] == expected[allowed], "allowed %d: %g", allowed, (double)logits[9]);
    }
    s.dry_allowed_length = INT32_MAX;
    dry_logits(&s, &view, logits);
    assert_true(logits[9] == 0);
}

CASE(random_histories_agree_with_a_quadratic_search) {
    enum { MOST = 200 };
    for (int i = 0; i < 5000; i++) {
        int32_t token[MOST];
        uint64_t bits[1] = {0};
        const int n = below(MOST + 1), kinds = 1 + below(5);
        for (int k = 0; k < n; k++) token[k] = below(kinds);
        for (int k = n / 2; i % 3 == 0 && k < n; k++) token[k] = token[k - n / 2]; // twice the same
        if (below(3) == 0) bits[0] = UINT64_C(1) << below(kinds);
        const struct sampler_view view = {.token = token, .n_token = n, .breakers = {bits}};
        rn_sampling s = sampling_of_powers();
        s.dry_base = 1; // the multiplier tells that there is one, the lengths come next
        s.dry_penalty_last_n = below(2) ? -1 : below(MOST);
        for (int allowed = 1; allowed < 40; allowed += 1 + allowed / 2) {
            s.dry_allowed_length = allowed;
            float logits[VOCAB];
            dry_logits(&s, &view, logits);
            for (int id = 0; id < VOCAB; id++) {
                const int len = reference_dry_length(&view, s.dry_penalty_last_n, id);
                check((logits[id] == -1) == (len >= allowed), "case %d: token %d, length %d", i, id,
                      len);
            }
        }
    }
}

// Histories that make a naive search quadratic.
static void history_fill(int32_t *token, int n, int kind) {
    for (int i = 0; i < n; i++) token[i] = 0;
    if (kind == 1) // one other token in the middle of all equal ones
        token[n / 2] = 1;
    if (kind == 2) // long equal runs, each ended once
        for (int i = 0; i < n; i += 700) token[i] = 1;
    if (kind == 3) // a period
        for (int i = 0; i < n; i++) token[i] = i % 3;
    if (kind == 4) // Fibonacci's word: self-similar at every length
        for (int i = 0, a = 1, b = 2; i < n; i++) {
            while (i >= b) b += a, a = b - a;
            token[i] = i < 2 ? i : token[i - a];
        }
    if (kind == 5)
        for (int i = 0; i < n; i++) token[i] = below(2);
}

CASE(work_is_linear_in_the_history) {
    enum { N = 100000 };
    int32_t *token = malloc(N * sizeof *token);
    assert_non_null(token);
    const rn_sampling s = sampling_of_powers();
    for (int kind = 0; kind < 6; kind++) {
        history_fill(token, N, kind);
        const struct sampler_view view = {.token = token, .n_token = N};
        float logits[VOCAB];
        dry_logits(&s, &view, logits);
        check(sampler.scratch.compares >= N - 1 && sampler.scratch.compares <= 2 * N,
              "history %d: %llu compares", kind, (unsigned long long)sampler.scratch.compares);
    }
    free(token);
}

CASE(repetitions_beyond_the_longest_count_as_the_longest) {
    enum { N = 3 * CHOICE_DRY_MATCH };
    static int32_t token[N];
    rn_sampling s = sampling_of_powers();
    s.dry_base = 1;
    for (int i = 0; i < N; i++) token[i] = i % 2;
    const struct sampler_view view = {.token = token, .n_token = N};
    float logits[VOCAB];
    s.dry_allowed_length = CHOICE_DRY_MATCH;
    dry_logits(&s, &view, logits);
    assert_true(logits[0] == -1 && logits[1] == 0); // ...010101: the next is 0
    s.dry_allowed_length = CHOICE_DRY_MATCH + 1;
    dry_logits(&s, &view, logits);
    assert_true(logits[0] == 0);
    // a base that overflows, and a base that vanishes
    s = sampling_of_powers();
    s.dry_base = 100;
    dry_logits(&s, &view, logits);
    assert_true(logits[0] == -FLT_MAX);
    s.dry_base = 0;
    dry_logits(&s, &view, logits);
    assert_true(logits[0] == 0);
}

TEST_PROGRAM(sampler_dry) { return cases_run(sampler_setup, sampler_teardown); }
