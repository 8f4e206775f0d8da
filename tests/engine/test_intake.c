// The intake under concurrent submitters, cancellers and reapers, beside the step's thread.
// label: threads
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "check.h"
#include "engine/request/intake.h"
#include "load/vocab.h"

// Sanitizers bring an allocator of their own: there allocations neither fail nor are counted.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEMORY_IS_OURS 0
static long fail_at = -1, live;
#else
#define MEMORY_IS_OURS 1
#include "failing_malloc.h"
#endif

static struct tokenizer *tokenizer;
static const int32_t prompt[] = {1, 2, 3};
static const rn_request plain = {.prompt = prompt, .n_prompt = 3, .max_tokens = 4};

static uint64_t now(void *ctx) {
    (void)ctx;
    return clock_ns();
}

static int load_tokenizer(void **state) {
    (void)state;
    struct weights *weights;
    rn_error err;
    if (weights_open(MODELS_DIR "/tale-1m-f16.gguf", &weights, &err)) return 1;
    const rn_status status = vocab_load(weights, 0, &tokenizer, NULL, &err);
    weights_close(weights);
    return status != RN_OK;
}

static int free_tokenizer(void **state) {
    (void)state;
    tokenizer_destroy(tokenizer);
    return 0;
}

static void init(struct intake *intake, int max_waiting) {
    const struct seq_limits limits = {.tokenizer = tokenizer,
                                      .n_ctx = 64,
                                      .n_group = 1,
                                      .n_embd = 8,
                                      .token_bytes_max = 32,
                                      .now = now};
    rn_error err = {0};
    check(intake_init(intake, &limits, max_waiting, &err) == RN_OK, "%s", err.message);
}

static uint64_t submit(struct intake *intake, int n) {
    rn_request request = plain;
    request.n = n;
    uint64_t id = 0;
    rn_error err = {0};
    check(intake_submit(intake, &request, &id, &err) == RN_OK, "%s", err.message);
    return id;
}

CASE(choices_of_a_request_are_one_family_in_order) {
    struct intake intake;
    init(&intake, 16);
    const uint64_t first = submit(&intake, 3), second = submit(&intake, 0);
    check(second > first && first > 0, "%llu, %llu", (unsigned long long)first,
          (unsigned long long)second);
    assert_int_equal(intake.n_waiting, 4);
    const struct seq *seq = intake_take(&intake), *leader = seq;
    for (int i = 0; i < 3; i++, seq = seq->next) {
        assert_non_null(seq);
        check(seq->id == first && seq->choices.index == i, "choice %d of %llu", seq->choices.index,
              (unsigned long long)seq->id);
        assert_ptr_equal(seq->family, leader->family);
        assert_true(seq->choices.sampling.seed == leader->choices.sampling.seed);
    }
    assert_ptr_equal(leader->family->leader, leader);
    assert_int_equal(leader->family->n_live, 3);
    assert_int_equal(leader->family->n_alive, 3);
    assert_true(seq->id == second && seq->choices.index == 0 && !seq->next);
    assert_ptr_not_equal(seq->family, leader->family);
    assert_null(intake_take(&intake));
    intake_deinit(&intake);
}

CASE(a_request_that_cannot_be_is_refused_and_leaves_nothing) {
    static const int32_t bad[] = {1, -5};
    struct intake intake;
    init(&intake, 4);
    const struct {
        rn_request request;
        rn_status status;
        const char *names;
    } cases[] = {
        {{.prompt = prompt, .n_prompt = 3, .n = RN_MAX_CHOICES + 1}, RN_ERR_ARG, "129"},
        {{.prompt = prompt, .n_prompt = 3, .n = -1}, RN_ERR_ARG, "-1"},
        {{.prompt = prompt, .n_prompt = 3, .n = 5}, RN_ERR_ARG, "5"},
        {{.prompt = bad, .n_prompt = 2, .n = 2}, RN_ERR_ARG, "-5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const long before = live;
        uint64_t id = 77;
        rn_error err = {0};
        const rn_status status = intake_submit(&intake, &cases[i].request, &id, &err);
        check(status == cases[i].status && strstr(err.message, cases[i].names), "case %zu: %d, %s",
              i, status, err.message);
        assert_int_equal(intake.n_waiting, 0);
        assert_true(id == 77 && live == before);
        assert_null(intake_take(&intake));
    }
    intake_deinit(&intake);
}

CASE(any_failed_allocation_leaves_the_intake_as_it_was) {
    if (!MEMORY_IS_OURS) skip();
    static const char *const stops[] = {"one", "two"};
    struct intake intake;
    init(&intake, 8);
    rn_request request = plain;
    request.n = 3;
    request.stop = stops;
    request.n_stop = 2;
    uint64_t id = 0;
    int n_failed = 0;
    for (long at = 0;; at++) {
        rn_error err = {0};
        const long before = live;
        fail_at = at;
        const rn_status status = intake_submit(&intake, &request, &id, &err);
        fail_at = -1;
        if (!status) break;
        check(status == RN_ERR_NOMEM && err.message[0], "allocation %ld: %s", at, err.message);
        check(live == before, "allocation %ld: %ld blocks were left", at, live - before);
        assert_int_equal(intake.n_waiting, 0);
        assert_null(intake_take(&intake));
        n_failed++;
    }
    check(n_failed >= 3 * 4, "%d", n_failed); // each choice takes several
    assert_int_equal(intake.n_waiting, 3);
    intake_deinit(&intake);
}

CASE(a_full_intake_takes_whole_requests_or_none) {
    struct intake intake;
    init(&intake, 4);
    submit(&intake, 3);
    rn_request request = plain;
    request.n = 2;
    uint64_t id;
    rn_error err = {0};
    assert_int_equal(intake_submit(&intake, &request, &id, &err), RN_ERR_FULL);
    assert_int_equal(intake.n_waiting, 3);
    submit(&intake, 1);
    assert_int_equal(intake_submit(&intake, &plain, &id, &err), RN_ERR_FULL);
    intake_admitted(&intake);
    submit(&intake, 1);
    intake_preempted(&intake);
    intake_admitted(&intake);
    assert_int_equal(intake_submit(&intake, &plain, &id, &err), RN_ERR_FULL);
    intake_deinit(&intake);
}

CASE(a_closed_intake_takes_nothing_until_it_is_opened) {
    struct intake intake;
    init(&intake, 4);
    intake_close(&intake, true);
    const long before = live;
    uint64_t id;
    rn_error err = {0};
    assert_int_equal(intake_submit(&intake, &plain, &id, &err), RN_ERR_CANCELLED);
    assert_true(intake.n_waiting == 0 && live == before);
    assert_null(intake_take(&intake));
    intake_close(&intake, false);
    submit(&intake, 1);
    intake_deinit(&intake);
}

CASE(flags_reach_all_choices_of_their_request_alone) {
    struct intake intake;
    init(&intake, 8);
    const uint64_t id = submit(&intake, 2);
    // in the same bucket
    intake.last_id = id + INTAKE_BUCKETS - 1;
    submit(&intake, 1);
    struct seq *seq = intake_take(&intake);
    assert_false(intake_take_flag(&intake));
    intake_cancel(&intake, id + 1);
    intake_pause(&intake, 0, true);
    assert_false(intake_take_flag(&intake)); // unknown ids
    intake_cancel(&intake, id);
    intake_pause(&intake, id, true);
    assert_true(intake_take_flag(&intake));
    assert_false(intake_take_flag(&intake));
    for (; seq; seq = seq->next) {
        assert_int_equal(seq->cancelled, seq->id == id);
        assert_int_equal(seq->paused, seq->id == id);
    }
    intake_pause(&intake, id, false);
    assert_true(intake_take_flag(&intake));
    intake_cancel_all(&intake);
    assert_true(intake_take_flag(&intake));
    intake_deinit(&intake);
}

CASE(a_flag_set_in_the_inbox_is_seen_with_the_sequence) {
    struct intake intake;
    init(&intake, 8);
    intake_cancel(&intake, submit(&intake, 1));
    assert_true(intake_take_flag(&intake)); // the step looked, but does not know the sequence yet
    assert_non_null(intake_take(&intake));
    assert_true(intake_take_flag(&intake));
    intake_pause(&intake, submit(&intake, 1), true);
    assert_true(intake_take_flag(&intake));
    assert_non_null(intake_take(&intake));
    assert_true(intake_take_flag(&intake));
    assert_false(intake_take_flag(&intake));
    intake_deinit(&intake);
}

CASE(the_buried_are_freed_by_the_next_reap_or_submit) {
    struct intake intake;
    init(&intake, 8);
    const long empty = live;
    submit(&intake, 2);
    struct seq *first = intake_take(&intake), *second = first->next;
    first->next = NULL;
    const long both = live;
    intake_bury(&intake, first);
    assert_true(live == both); // the step's thread frees nothing
    intake_reap(&intake);
    check(!MEMORY_IS_OURS || (live < both && live > empty), "%ld of %ld", live, both);
    assert_int_equal(second->family->n_alive, 1); // its brother's family lives on
    intake_cancel(&intake, second->id);
    assert_true(second->cancelled);
    intake_bury(&intake, second);
    intake_reap(&intake);
    assert_true(live == empty);
    submit(&intake, 1);
    const long one = live;
    intake_bury(&intake, intake_take(&intake));
    submit(&intake, 1);
    assert_true(live == one);
    intake_bury(&intake, NULL);
    intake_deinit(&intake);
}

CASE(deinit_frees_everything) {
    struct intake intake;
    const long before = live;
    init(&intake, 8);
    submit(&intake, 2);
    struct seq *taken = intake_take(&intake); // one running, one buried
    taken->next->next = NULL;
    intake_bury(&intake, taken->next);
    submit(&intake, 2); // reaps
    struct seq *more = intake_take(&intake);
    more->next = NULL;
    intake_bury(&intake, more);
    // two in the table alone, one in the grave
    intake_deinit(&intake);
    assert_true(live == before);
}

static void count_wake(void *ctx) { ++*(int *)ctx; }

CASE(whatever_the_step_should_see_wakes_it) {
    struct intake intake;
    int n_wakes = 0;
    init(&intake, 1);
    intake.wake = count_wake;
    intake.wake_ctx = &n_wakes;
    const uint64_t id = submit(&intake, 1);
    assert_int_equal(n_wakes, 1);
    uint64_t other;
    assert_int_equal(intake_submit(&intake, &plain, &other, NULL), RN_ERR_FULL);
    intake_cancel(&intake, id + 1);
    assert_int_equal(n_wakes, 1);
    intake_cancel(&intake, id);
    intake_pause(&intake, id, true);
    intake_pause(&intake, id, false);
    intake_cancel_all(&intake);
    assert_int_equal(n_wakes, 5);
    intake_deinit(&intake);
}

// ---------------------------------------------------------------- threads

enum { N_THREADS = 4, N_EACH = 300, MAX_WAITING = 20 };

struct crowd {
    struct intake intake;
    _Atomic int accepted, refused, finished; // choices; requests; submitters
    _Atomic int most;                        // waiting, as the step saw it
    _Atomic int disorder;                    // ids of one thread that did not increase
    _Atomic uint64_t newest;
};

static void *submit_many(void *arg) {
    struct crowd *crowd = arg;
    uint64_t last = 0;
    for (int i = 0; i < N_EACH; i++) {
        rn_request request = plain;
        request.n = 1 + i % 3;
        uint64_t id;
        if (intake_submit(&crowd->intake, &request, &id, NULL)) {
            crowd->refused++;
            continue;
        }
        crowd->disorder += id <= last;
        last = id;
        crowd->accepted += request.n;
        crowd->newest = id;
        if (i % 5 == 0) intake_cancel(&crowd->intake, id);
    }
    crowd->finished++;
    return NULL;
}

static void *cancel_many(void *arg) {
    struct crowd *crowd = arg;
    while (crowd->finished < N_THREADS) {
        intake_cancel(&crowd->intake, crowd->newest);
        intake_pause(&crowd->intake, crowd->newest - crowd->newest / 3, true);
        intake_reap(&crowd->intake);
    }
    return NULL;
}

// Plays the step's thread: takes everything, checks its order, and buries it at once.
static int bury_all(struct crowd *crowd, uint64_t *last_id, int *last_choice) {
    int n = 0;
    struct seq *list = intake_take(&crowd->intake);
    for (struct seq *seq = list; seq; seq = seq->next, n++) {
        check(seq->id > *last_id || (seq->id == *last_id && seq->choices.index == *last_choice + 1),
              "%llu after %llu", (unsigned long long)seq->id, (unsigned long long)*last_id);
        *last_id = seq->id;
        *last_choice = seq->choices.index;
        const int waiting = crowd->intake.n_waiting;
        if (waiting > crowd->most) crowd->most = waiting;
        intake_admitted(&crowd->intake);
    }
    intake_take_flag(&crowd->intake);
    intake_bury(&crowd->intake, list);
    return n;
}

CASE(many_threads_lose_nothing_and_never_overshoot) {
    struct crowd crowd;
    memset(&crowd, 0, sizeof crowd);
    init(&crowd.intake, MAX_WAITING);
    pthread_t thread[N_THREADS], canceller;
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, submit_many, &crowd), 0);
    assert_int_equal(pthread_create(&canceller, NULL, cancel_many, &crowd), 0);
    int taken = 0, last_choice = 0;
    uint64_t last_id = 0;
    while (crowd.finished < N_THREADS) taken += bury_all(&crowd, &last_id, &last_choice);
    for (int i = 0; i < N_THREADS; i++) pthread_join(thread[i], NULL);
    pthread_join(canceller, NULL);
    taken += bury_all(&crowd, &last_id, &last_choice);
    check(taken == crowd.accepted, "%d of %d", taken, crowd.accepted);
    assert_int_equal(crowd.disorder, 0);
    check(crowd.most <= MAX_WAITING, "%d were waiting", crowd.most);
    assert_int_equal(crowd.intake.n_waiting, 0);
    intake_reap(&crowd.intake);
    for (int i = 0; i < INTAKE_BUCKETS; i++) assert_null(crowd.intake.bucket[i]);
    intake_deinit(&crowd.intake);
}

CASE(a_crowd_fills_the_intake_exactly) {
    struct crowd crowd;
    memset(&crowd, 0, sizeof crowd);
    init(&crowd.intake, 100);
    pthread_t thread[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, submit_many, &crowd), 0);
    for (int i = 0; i < N_THREADS; i++) pthread_join(thread[i], NULL);
    // requests of one choice came along often enough to fill every gap
    assert_int_equal(crowd.accepted, 100);
    assert_int_equal(crowd.intake.n_waiting, 100);
    assert_true(crowd.refused > 0);
    intake_deinit(&crowd.intake);
}

TEST_PROGRAM(intake) { return cases_run(load_tokenizer, free_tokenizer); }
