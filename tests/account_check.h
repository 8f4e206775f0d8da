// The account of a choice closes: its parts add up to the times of its tokens, to the nanosecond.
// For every test that has the last event of a choice.
#ifndef RN_TESTS_ACCOUNT_CHECK_H
#define RN_TESTS_ACCOUNT_CHECK_H

#include "check.h"
#include "runnel.h"

static inline void account_check_share(const char *name, const rn_share *share, uint64_t ns) {
    uint64_t sum = 0;
    for (int i = 0; i < RN_CAUSE_COUNT; i++) sum += share->cause_ns[i];
    check(share->cause_ns[RN_CAUSE_NONE] == 0, "%s: time without a cause", name);
    check(sum == ns && share->ns == ns, "%s: the causes add up to %llu ns of %llu", name,
          (unsigned long long)sum, (unsigned long long)ns);
}

static inline void account_check(const rn_event *event) {
    const rn_account *a = event->account;
    const uint64_t end_ns = a->first_ns ? a->last_ns : event->time_ns;
    assert_non_null(a);
    assert_true(a->end_ns == event->time_ns);
    account_check_share("first", &a->first, (a->first_ns ? a->first_ns : end_ns) - a->submit_ns);
    account_check_share("decode", &a->decode, a->first_ns ? a->last_ns - a->first_ns : 0);
    account_check_share("rest", &a->rest, a->first_ns ? a->end_ns - a->last_ns : 0);
    uint64_t span_ns = 0, n_tokens = 0;
    for (int i = 0; i < a->n_spans; i++) {
        span_ns += a->span[i].ns;
        n_tokens += a->span[i].n_tokens;
        assert_true(a->span[i].max_ns <= a->span[i].ns);
    }
    assert_int_equal(n_tokens, event->timings->output_tokens);
    if (a->first_ns) assert_int_equal(span_ns, a->first.ns + a->decode.ns);
    for (int i = 0; i < a->n_slow; i++) {
        const rn_share *share = &a->slow[i].share;
        account_check_share("slow gap", share, share->ns);
        if (i > 0) assert_true(share->ns <= a->slow[i - 1].share.ns);
        assert_true(a->slow[i].token > 0 && a->slow[i].token < event->timings->output_tokens);
    }
    if (a->n_slow > 0)
        check_near((double)a->slow[0].share.ns * 1e-6, event->timings->gap_ms_max, 1e-6);
}

#endif
