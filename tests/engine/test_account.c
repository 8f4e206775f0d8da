// Accounts by themselves: divisions close to the nanosecond whatever their parts are, spans keep
// all tokens of any output, the slowest gaps are kept in order.
#include "account_check.h"
#include "engine/account/account.h"

#define RANDOM_SEED 7
#include "random.h"

static void check_open(const struct account *account, uint64_t ns) {
    account_check_share("open", &account->open, ns);
}

CASE(a_division_closes) {
    for (int i = 0; i < 20000; i++) {
        struct account account;
        double part[RN_CAUSE_COUNT] = {0}, sum = 0;
        account_init(&account, 1000);
        for (int c = 1; c < RN_CAUSE_COUNT; c++) {
            part[c] = below(4) == 0 ? 0 : uniform() * 1e7;
            sum += part[c];
        }
        const double shares[] = {0, 0.01, 0.5, 1, 1.3, 20};
        const uint64_t ns = (uint64_t)(sum * shares[below(6)]);
        account_divide(&account, part, 1000 + ns);
        check_open(&account, ns);
        assert_true(account.mark_ns == 1000 + ns);
    }
}

// Time beyond the step is the host's; a stretch shorter than the step loses the host's first.
CASE(a_stretch_differs_from_its_step) {
    const double part[RN_CAUSE_COUNT] = {[RN_CAUSE_WEIGHTS] = 600, [RN_CAUSE_HOST] = 400};
    static const struct {
        uint64_t ns, weights, host;
    } rows[] = {{1000, 600, 400}, {5000, 600, 4400}, {700, 600, 100}, {600, 600, 0}, {300, 300, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct account account;
        account_init(&account, 50);
        account_divide(&account, part, 50 + rows[i].ns);
        assert_int_equal(account.open.cause_ns[RN_CAUSE_WEIGHTS], rows[i].weights);
        assert_int_equal(account.open.cause_ns[RN_CAUSE_HOST], rows[i].host);
    }
}

CASE(a_wait_is_for_a_place_or_pages_or_a_step) {
    struct account account;
    account_init(&account, 0);
    account_wait(&account, (uint64_t[]){[ACCOUNT_PLACES] = 20, [ACCOUNT_PAGES] = 30},
                 RN_CAUSE_STREAMS, 100);
    assert_int_equal(account.open.cause_ns[RN_CAUSE_QUEUE], 20);
    assert_int_equal(account.open.cause_ns[RN_CAUSE_PAGES], 30);
    assert_int_equal(account.open.cause_ns[RN_CAUSE_STREAMS], 50);
    account_wait(&account, (uint64_t[]){[ACCOUNT_PLACES] = 0, [ACCOUNT_PAGES] = 500},
                 RN_CAUSE_STREAMS, 200); // never more than passed
    assert_int_equal(account.open.cause_ns[RN_CAUSE_PAGES], 130);
    account_add(&account, RN_CAUSE_READER, 150); // the clock was there already
    check_open(&account, 200);
}

CASE(spans_keep_all_tokens) {
    static const int lengths[] = {1, 2, RN_SPANS, RN_SPANS + 1, 1000, 100000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        enum { NS = 1100 };
        struct account account;
        int n_longer = 0, n_gaps[NS] = {0};
        uint64_t now = 10, slowest = 0, tokens = 0, total[RN_CAUSE_COUNT] = {0}, gap_ns;
        account_init(&account, now);
        for (int t = 0; t < lengths[i]; t++) {
            const uint64_t ns = t % 3 == 2 ? 0 : 100 + (uint64_t)(t * 7919 % 1000);
            account_add(&account, t % 5 ? RN_CAUSE_WEIGHTS : RN_CAUSE_KV, now += ns);
            account_token(&account, total, &gap_ns);
            assert_int_equal(gap_ns, ns);
            if (t > 0 && ns > slowest) slowest = ns;
            n_gaps[ns] += t > 0 && ns > 0;
        }
        account_end(&account);
        const rn_account *a = &account.sum;
        uint64_t ns = 0, longest = 0;
        for (int s = 0; s < a->n_spans; s++) {
            tokens += a->span[s].n_tokens;
            ns += a->span[s].ns;
            if (s > 0 && a->span[s].max_ns > longest) longest = a->span[s].max_ns;
        }
        assert_int_equal(tokens, lengths[i]);
        assert_int_equal(ns, now - 10);
        assert_int_equal(total[RN_CAUSE_WEIGHTS] + total[RN_CAUSE_KV], now - 10);
        assert_true(a->n_spans <= RN_SPANS && a->n_spans >= (lengths[i] > 300 ? RN_SPANS / 2 : 1));
        if (lengths[i] > 2) assert_int_equal(a->slow[0].share.ns, slowest);
        if (lengths[i] > 2 && lengths[i] <= RN_SPANS) assert_int_equal(longest, slowest);
        if (lengths[i] > 1) assert_int_equal(a->span[0].n_tokens, 1); // its time is no gap
        for (int s = 1; s < a->n_slow; s++)
            assert_true(a->slow[s].share.ns <= a->slow[s - 1].share.ns);
        if (a->n_slow < RN_SLOW_GAPS) continue;
        for (uint64_t n = a->slow[RN_SLOW_GAPS - 1].share.ns + 1; n < NS; n++)
            n_longer += n_gaps[n];
        assert_true(n_longer < RN_SLOW_GAPS);
    }
}

TEST_PROGRAM(account) { return cases_run(NULL, NULL); }
