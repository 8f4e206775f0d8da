// Every allocation of an index's and of the free drafters' creation is made to fail once: each
// failure is reported and nothing leaks. Offers and learning allocate nothing, and an index that
// waits for its text takes no memory of the machine's.
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "engine/draft/drafter.h"
#include "engine/request/seq.h"

#include "failing_malloc.h"

static int draft_none(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                      int32_t *out, int most) {
    (void)ctx, (void)data, (void)choice, (void)token, (void)n_token, (void)out, (void)most;
    return 0;
}

static rn_status create(int which, struct drafter **out, rn_error *err) {
    if (which == 0) return drafter_lookup_create(out, err);
    if (which == 1) return drafter_shared_create(1000, out, err);
    return drafter_custom_create(draft_none, NULL, 100, out, err);
}

CASE(each_failed_allocation_of_create_is_reported) {
    const int n_allocations[] = {1, 6, 1};
    for (int which = 0; which < 3; which++) {
        const long before = live;
        for (int at = 0; at <= n_allocations[which]; at++) {
            struct drafter *drafter = NULL;
            rn_error err = {0};
            fail_at = at;
            const rn_status status = create(which, &drafter, &err);
            fail_at = -1;
            const bool failed = at < n_allocations[which];
            check(status == (failed ? RN_ERR_NOMEM : RN_OK), "%d, allocation %d", which, at);
            check(!failed == (drafter != NULL), "%d, allocation %d", which, at);
            check(!failed || err.message[0], "%d, allocation %d: no message", which, at);
            if (drafter) drafter->cls->destroy(drafter);
            check(live == before, "%d, allocation %d: blocks are left", which, at);
        }
    }
}

CASE(each_failed_allocation_of_an_index_is_reported) {
    const long before = live;
    for (int at = 0; at < 2; at++) {
        struct suffix_index index;
        rn_error err = {0};
        fail_at = at;
        assert_int_equal(suffix_init(&index, 1000, &err), RN_ERR_NOMEM);
        fail_at = -1;
        assert_true(err.message[0]);
        suffix_deinit(&index);
        assert_int_equal(live, before);
    }
}

CASE(offers_and_learning_allocate_nothing) {
    enum { N = 500 };
    int32_t token[N];
    for (int i = 0; i < N; i++) token[i] = i * i % 37;
    struct seq *const seq = calloc(1, sizeof *seq);
    struct seq_draft draft = {0};
    assert_non_null(seq);
    assert_int_equal(suffix_init(&draft.own, N, NULL), RN_OK);
    seq->token = token;
    seq->draft = &draft;
    for (int which = 0; which < 3; which++) {
        struct drafter *drafter;
        assert_int_equal(create(which, &drafter, NULL), RN_OK);
        fail_at = 0;
        for (seq->n_token = 1; seq->n_token <= N; seq->n_token++) {
            int32_t out[8];
            drafter->cls->offer(drafter, seq, 8, out);
            if (drafter->cls->learn) drafter->cls->learn(drafter, seq);
        }
        assert_int_equal(fail_at, 0);
        fail_at = -1;
        drafter->cls->destroy(drafter);
    }
    suffix_deinit(&draft.own);
    free(seq);
}

static long resident_pages(void) {
    FILE *const file = fopen("/proc/self/statm", "r");
    long all = 0, resident = 0;
    if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2) skip();
    fclose(file);
    return resident;
}

CASE(indexes_that_wait_take_no_memory) {
    enum { N = 200, PAGES_MOST = 2 * N };
    static struct suffix_index index[N];
    const long before = resident_pages();
    for (int i = 0; i < N; i++) assert_int_equal(suffix_init(&index[i], 131072, NULL), RN_OK);
    const long taken = resident_pages() - before;
    check(taken <= PAGES_MOST + 64, "%d indexes take %ld pages", N, taken);
    for (int i = 0; i < N; i++) suffix_deinit(&index[i]);
}

TEST_PROGRAM(drafters_memory) { return cases_run(NULL, NULL); }
