// The ring between the step's thread and the reader of events: nothing is lost, reordered or
// overwritten while the reader may look at it.
// label: threads
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engine/choice/logprobs.h"
#include "engine/door/event_ring.h"
#include "engine/request/seq.h"

enum { TEXT_MAX = 100, N_MANY = 20000 };

static struct event_ring new_ring(uint64_t n_event) {
    struct event_ring ring;
    rn_error err = {0};
    check(event_ring_init(&ring, n_event, LOGPROBS_MAX, TEXT_MAX, &err) == RN_OK, "%s",
          err.message);
    return ring;
}

// The text of event i is a function of i.
static size_t text_len(uint64_t i) { return (size_t)(i * 2654435761u % (TEXT_MAX + 1)); }
static char text_byte(uint64_t i, size_t at) { return (char)('a' + (i * 7 + at) % 26); }

// So are its logprobs, which every other event has.
static int logprobs_count(uint64_t i) { return i % 2 ? (int)(i * 40503 % (LOGPROBS_MAX + 1)) : 0; }
static rn_logprob logprob_at(uint64_t i, int at) {
    return (rn_logprob){.token = (int32_t)(i * 21 + (uint64_t)at), .logprob = -(float)at};
}

static bool put(struct event_ring *ring, uint64_t i) {
    char text[TEXT_MAX];
    rn_logprob logprob[LOGPROBS_MAX];
    const int n = logprobs_count(i);
    for (int k = 0; k < n; k++) logprob[k] = logprob_at(i, k);
    const size_t len = text_len(i);
    for (size_t k = 0; k < len; k++) text[k] = text_byte(i, k);
    const rn_event event = {.request = i,
                            .text = text,
                            .text_len = len,
                            .logprob = n ? logprob : NULL,
                            .n_logprobs = n};
    const bool fits = event_ring_put(ring, &event, NULL);
    memset(text, '!', sizeof text);
    memset(logprob, '!', sizeof logprob);
    return fits;
}

static bool is_event(const rn_event *event, uint64_t i) {
    if (event->request != i || event->text_len != text_len(i)) return false;
    if (event->n_logprobs != logprobs_count(i) || (event->n_logprobs == 0) != !event->logprob)
        return false;
    for (int k = 0; k < event->n_logprobs; k++) {
        const rn_logprob want = logprob_at(i, k);
        if (memcmp(&event->logprob[k], &want, sizeof want) != 0) return false;
    }
    for (size_t k = 0; k < event->text_len; k++)
        if (event->text[k] != text_byte(i, k)) return false;
    return true;
}

CASE(events_come_out_as_they_went_in) {
    struct event_ring ring = new_ring(8);
    rn_event out[5];
    uint64_t in = 0, seen = 0;
    for (int round = 0; round < 2000; round++) {
        const uint64_t before = in;
        assert_null(event_ring_release(&ring));
        while (put(&ring, in)) in++;
        // an empty ring takes at least one event, of any text
        check(in > before || event_ring_waits(&ring), "round %d", round);
        const int n = event_ring_take(&ring, out, 1 + round % 5);
        // events that were given out stay while the writer fills the rest
        while (put(&ring, in)) in++;
        for (int i = 0; i < n; i++) check(is_event(&out[i], seen + (uint64_t)i), "event %d", i);
        seen += (uint64_t)n;
    }
    check(seen > 2000, "%llu", (unsigned long long)seen);
    assert_null(event_ring_release(&ring));
    while (event_ring_take(&ring, out, 1) == 1) {
        check(is_event(&out[0], seen), "%llu", (unsigned long long)seen);
        seen++;
        event_ring_release(&ring);
    }
    assert_true(seen == in);
    assert_false(event_ring_waits(&ring));
    event_ring_deinit(&ring);
}

CASE(room_comes_back_with_the_release_not_with_the_take) {
    struct event_ring ring = new_ring(4);
    const rn_event event = {.text = ""};
    rn_event out[4];
    for (int i = 0; i < 4; i++) assert_true(event_ring_put(&ring, &event, NULL));
    assert_false(event_ring_put(&ring, &event, NULL));
    assert_int_equal(event_ring_take(&ring, out, 3), 3);
    assert_false(event_ring_put(&ring, &event, NULL));
    event_ring_release(&ring);
    for (int i = 0; i < 3; i++) assert_true(event_ring_put(&ring, &event, NULL));
    assert_false(event_ring_put(&ring, &event, NULL));
    event_ring_deinit(&ring);
}

CASE(an_event_that_finds_no_room_takes_none) {
    struct event_ring ring = new_ring(1024);
    ring.n_bytes = 2 * ring.bytes_max;
    char text[TEXT_MAX];
    const rn_logprob logprob[LOGPROBS_MAX] = {{0}};
    memset(text, 'x', sizeof text);
    const rn_event longest = {.text = text,
                              .text_len = TEXT_MAX,
                              .logprob = logprob,
                              .n_logprobs = LOGPROBS_MAX};
    const rn_event none = {.text = ""};
    rn_event out[8];
    assert_true(event_ring_put(&ring, &longest, NULL));
    assert_true(event_ring_put(&ring, &longest, NULL));
    for (int i = 0; i < 3; i++) assert_false(event_ring_put(&ring, &longest, NULL));
    assert_true(event_ring_put(&ring, &none, NULL));
    assert_int_equal(event_ring_take(&ring, out, 8), 3);
    event_ring_release(&ring);
    // from any place in the ring of bytes
    for (size_t len = 1; len < TEXT_MAX; len++) {
        const rn_event some = {.text = text, .text_len = len};
        assert_true(event_ring_put(&ring, &some, NULL));
        assert_int_equal(event_ring_take(&ring, out, 8), 1);
        event_ring_release(&ring);
        check(event_ring_put(&ring, &longest, NULL), "after %zu bytes", len);
        assert_int_equal(event_ring_take(&ring, out, 8), 1);
        event_ring_release(&ring);
    }
    event_ring_deinit(&ring);
}

CASE(sequences_that_are_over_outlive_their_last_event) {
    struct event_ring ring = new_ring(8);
    struct seq *seq = calloc(3, sizeof *seq);
    assert_non_null(seq);
    const rn_timings timings = {.output_tokens = 3};
    const rn_event token = {.text = "a", .text_len = 1};
    const rn_event last = {.text = "end",
                           .text_len = 3,
                           .finish = RN_FINISH_STOP,
                           .timings = &timings};
    seq[0].next = &seq[1];
    assert_true(event_ring_put(&ring, &token, NULL));
    assert_true(event_ring_put(&ring, &last, &seq[0]));
    assert_true(event_ring_put(&ring, &last, &seq[2]));
    rn_event out[2];
    assert_int_equal(event_ring_take(&ring, out, 1), 1);
    assert_null(event_ring_release(&ring));
    assert_int_equal(event_ring_take(&ring, out, 2), 2);
    // pointers of a last event are its sequence's
    assert_ptr_equal(out[0].text, last.text);
    assert_ptr_equal(out[0].timings, &timings);
    int n = 0;
    for (struct seq *over = event_ring_release(&ring); over; over = over->next) n++;
    assert_int_equal(n, 3);
    assert_null(event_ring_release(&ring));
    event_ring_deinit(&ring);
    free(seq);
}

static void *write_many(void *arg) {
    struct event_ring *ring = arg;
    for (uint64_t i = 0; i < N_MANY; i++)
        while (!put(ring, i)) sched_yield();
    return NULL;
}

CASE(a_writer_and_a_reader_do_not_disturb_each_other) {
    struct event_ring ring = new_ring(64);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_many, &ring), 0);
    rn_event out[16];
    for (uint64_t seen = 0; seen < N_MANY;) {
        event_ring_release(&ring);
        const int n = event_ring_take(&ring, out, 1 + (int)(seen % 16));
        if (n == 0) sched_yield();
        for (int i = 0; i < n; i++, seen++)
            check(is_event(&out[i], seen), "event %llu", (unsigned long long)seen);
    }
    pthread_join(writer, NULL);
    event_ring_deinit(&ring);
}

TEST_PROGRAM(event_ring) { return cases_run(NULL, NULL); }
