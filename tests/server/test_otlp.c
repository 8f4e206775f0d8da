// The exporter against collectors that are played by a function: spans are exported once, in
// batches; what a collector does decides whether they are sent again or dropped; every span is
// counted; nobody who pushes waits.
// label: threads
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "helpers.h"
#include "json_at.h"
#include "otlp.h"

enum { POSTS_MAX = 64, PATIENCE_MS = 60000 };

// A collector that answers as the table says, and then with its last row.
struct played {
    struct otlp_reply reply[8];
    int n_replies;
    bool hangs; // it never answers, until it is stopped
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stopped, freed;
    int n_posts, n_spans[POSTS_MAX];
    uint64_t at_ns[POSTS_MAX];
    int timeout_ms[POSTS_MAX];
};

static void played_init(struct played *played) {
    *played = (struct played){.n_replies = 1, .reply = {{.status = 200, .retry_after_ms = -1}}};
    pthread_mutex_init(&played->mutex, NULL);
    pthread_cond_init(&played->changed, NULL);
}

static void play(void *ctx, const char *body, size_t len, int timeout_ms, struct otlp_reply *out) {
    struct played *played = ctx;
    json_t *json = json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *spans = at_path(json, "resourceSpans.0.scopeSpans.0.spans");
    pthread_mutex_lock(&played->mutex);
    const int i = played->n_posts++;
    if (i < POSTS_MAX) {
        played->n_spans[i] = json ? (int)json_array_size(spans) : -1;
        played->at_ns[i] = clock_ns();
        played->timeout_ms[i] = timeout_ms;
    }
    pthread_cond_broadcast(&played->changed);
    while (played->hangs && !played->stopped) pthread_cond_wait(&played->changed, &played->mutex);
    if (!played->hangs) *out = played->reply[i < played->n_replies ? i : played->n_replies - 1];
    pthread_mutex_unlock(&played->mutex);
    json_decref(json);
}

static void play_stop(void *ctx) {
    struct played *played = ctx;
    pthread_mutex_lock(&played->mutex);
    played->stopped = true;
    pthread_cond_broadcast(&played->changed);
    pthread_mutex_unlock(&played->mutex);
}

static void play_free(void *ctx) { ((struct played *)ctx)->freed = true; }

static struct otlp_config config_of(struct played *played) {
    static const struct otlp_pair resource[] = {{"service.name", "a \"name\""}};
    struct otlp_config config = otlp_config_usual();
    config.post = play;
    config.post_stop = play_stop;
    config.post_free = play_free;
    config.post_ctx = played;
    config.resource = resource;
    config.n_resource = 1;
    config.delay_ms = 1;
    config.backoff_ms = config.backoff_ms_max = 2;
    config.retry_ms = 60000;
    return config;
}

// A record of n spans.
static bool push(struct otlp *otlp, int n) {
    char text[256] = "";
    for (int i = 0; i < n; i++) strcat(text, i ? ",{}" : "{}");
    return otlp_push(otlp, text, strlen(text), n);
}

static uint64_t dropped_of(const struct otlp_counts *counts) {
    uint64_t sum = 0;
    for (int i = 0; i < OTLP_DROP_COUNT; i++) sum += counts->dropped[i];
    return sum;
}

// Until nothing is held.
static struct otlp_counts settle(struct otlp *otlp) {
    for (int ms = 0; ms < PATIENCE_MS; ms++) {
        const struct otlp_counts counts = otlp_get_counts(otlp);
        if (!counts.held) return counts;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    fail_msg("spans are still held");
    return (struct otlp_counts){0};
}

static void until_posts(struct played *played, int n) {
    pthread_mutex_lock(&played->mutex);
    while (played->n_posts < n) pthread_cond_wait(&played->changed, &played->mutex);
    pthread_mutex_unlock(&played->mutex);
}

CASE(test_answers_are_final_or_not) {
    static const int again[] = {0, 429, 502, 503, 504};
    static const int final[] = {-1, 100, 301, 400, 401, 404, 408, 413, 415, 500, 501, 505};
    for (size_t i = 0; i < sizeof again / sizeof *again; i++)
        check(otlp_verdict_of(again[i]) == OTLP_RETRY, "%d", again[i]);
    for (size_t i = 0; i < sizeof final / sizeof *final; i++)
        check(otlp_verdict_of(final[i]) == OTLP_FINAL, "%d", final[i]);
    assert_int_equal(otlp_verdict_of(200), OTLP_SENT);
    assert_int_equal(otlp_verdict_of(202), OTLP_SENT);
}

CASE(test_retry_after_is_a_number_or_a_date) {
    const int64_t now = 784111777; // Sun, 06 Nov 1994 08:49:37 GMT
    static const struct {
        const char *value;
        int seconds;
    } row[] = {
        {"0", 0},
        {"17", 17},
        {"3600", 3600},
        {"99999", 3600},
        {"99999999999999999999", 3600},
        {"Sun, 06 Nov 1994 08:49:37 GMT", 0},
        {"Sun, 06 Nov 1994 08:50:37 GMT", 60},
        {"Sat, 05 Nov 1994 08:49:37 GMT", 0},
        {"Sun, 06 Nov 2094 08:49:37 GMT", 3600},
        {"", -1},
        {"-1", -1},
        {"1.5", -1},
        {"soon", -1},
        {"Sun, 06 Nov 1994 08:49:37 CET", -1},
        {"Sun, 06 Foo 1994 08:49:37 GMT", -1},
        {"Sun, 06 ovD 1994 08:49:37 GMT", -1},
        {"Sunday, 06-Nov-94 08:49:37 GMT", -1},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const int got = otlp_retry_after(row[i].value, now);
        check(got == row[i].seconds, "'%s' is %d s, not %d", row[i].value, got, row[i].seconds);
    }
}

CASE(test_rejected_spans_are_read_from_the_answer) {
    static const struct {
        const char *body;
        uint64_t n;
    } row[] = {{"", 0},
               {"{}", 0},
               {"{\"partialSuccess\":{}}", 0},
               {"{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"x\"}}", 3},
               {"{\"partialSuccess\":{\"rejectedSpans\":4}}", 4},
               {"{\"partialSuccess\":{\"rejectedSpans\":\"-3\"}}", 0},
               {"{\"partialSuccess\":{\"rejectedSpans\":null}}", 0},
               {"{\"partialSuccess\":7}", 0},
               {"[]", 0},
               {"\xff\xfe", 0}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        check(otlp_rejected(row[i].body, strlen(row[i].body)) == row[i].n, "%s", row[i].body);
}

CASE(test_spans_are_exported_in_batches) {
    struct played played;
    played_init(&played);
    struct otlp_config config = config_of(&played);
    config.delay_ms = 600000; // only full batches, and the end
    config.batch_spans = 10;
    struct otlp *otlp = otlp_create(&config);
    assert_non_null(otlp);
    for (int i = 0; i < 7; i++) assert_true(push(otlp, 3)); // 3 records fill a batch
    until_posts(&played, 1);
    assert_int_equal(otlp_close(otlp, PATIENCE_MS), 0); // posts the rest without its delay
    int sum = 0;
    for (int i = 0; i < played.n_posts; i++) {
        check(played.n_spans[i] >= 3 && played.n_spans[i] <= 10, "post %d has %d spans", i,
              played.n_spans[i]);
        sum += played.n_spans[i];
    }
    assert_int_equal(sum, 21);
    assert_int_equal(played.timeout_ms[0], config.post_ms);
    assert_true(played.freed);
}

CASE(test_a_failed_post_is_repeated_until_it_is_taken) {
    struct played played;
    played_init(&played);
    const struct otlp_reply reply[] = {{.status = 0, .retry_after_ms = -1},
                                       {.status = 503, .retry_after_ms = -1},
                                       {.status = 429, .retry_after_ms = 0},
                                       {.status = 200, .n_rejected = 2}};
    memcpy(played.reply, reply, sizeof reply);
    played.n_replies = 4;
    const struct otlp_config config = config_of(&played);
    struct otlp *otlp = otlp_create(&config);
    assert_true(push(otlp, 5));
    const struct otlp_counts counts = settle(otlp);
    assert_int_equal(counts.exported, 3);
    assert_int_equal(counts.dropped[OTLP_DROP_REJECTED], 2);
    assert_int_equal(dropped_of(&counts), 2);
    assert_int_equal(played.n_posts, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(played.n_spans[i], 5); // the same body each time
    check(played.at_ns[1] - played.at_ns[0] >= 1000000, "it did not wait before it tried again");
    assert_int_equal(otlp_close(otlp, PATIENCE_MS), 2);
}

// No post is made before the time that the collector asked for, not even of the next batch.
CASE(test_retry_after_holds_for_later_batches_too) {
    struct played played;
    played_init(&played);
    played.reply[0] = (struct otlp_reply){.status = 429, .retry_after_ms = 60};
    played.reply[1] = (struct otlp_reply){.status = 200, .retry_after_ms = -1};
    played.n_replies = 2;
    struct otlp_config config = config_of(&played);
    config.retry_ms = 20; // less than the collector asks for: the batch is given up
    struct otlp *otlp = otlp_create(&config);
    assert_true(push(otlp, 1));
    until_posts(&played, 1);
    assert_true(push(otlp, 2));
    const struct otlp_counts counts = settle(otlp);
    assert_int_equal(counts.dropped[OTLP_DROP_UNSENT], 1);
    assert_int_equal(counts.exported, 2);
    check(played.at_ns[1] - played.at_ns[0] >= 60000000, "posted %f ms after 429",
          (double)(played.at_ns[1] - played.at_ns[0]) * 1e-6);
    otlp_close(otlp, PATIENCE_MS);
}

CASE(test_final_answers_drop_the_batch) {
    static const int final[] = {-1, 400, 500};
    for (size_t i = 0; i < sizeof final / sizeof *final; i++) {
        struct played played;
        played_init(&played);
        played.reply[0].status = final[i];
        const struct otlp_config config = config_of(&played);
        struct otlp *otlp = otlp_create(&config);
        assert_true(push(otlp, 4));
        const struct otlp_counts counts = settle(otlp);
        assert_int_equal(counts.dropped[OTLP_DROP_REJECTED], 4);
        assert_int_equal(played.n_posts, 1);
        otlp_close(otlp, PATIENCE_MS);
    }
}

// The collector accepts and never answers: the queue fills, the newest are dropped, and the end
// comes in time.
CASE(test_a_collector_that_hangs_costs_only_spans) {
    struct played played;
    played_init(&played);
    played.hangs = true;
    struct otlp_config config = config_of(&played);
    config.queue_spans = 10;
    config.batch_spans = 4;
    struct otlp *otlp = otlp_create(&config);
    int taken = 0;
    for (int i = 0; i < 100; i++) taken += push(otlp, 2);
    until_posts(&played, 1);
    struct otlp_counts counts = otlp_get_counts(otlp);
    assert_int_equal(taken, 5);
    assert_int_equal(counts.held, 10);
    assert_int_equal(counts.dropped[OTLP_DROP_FULL], 190);
    assert_int_equal(otlp_close(otlp, 50), 200); // stops the post: the thread ends with it
    assert_true(played.freed);
}

CASE(test_bytes_are_bounded_too) {
    struct played played;
    played_init(&played);
    played.hangs = true;
    struct otlp_config config = config_of(&played);
    config.queue_bytes = 20; // of "{}" ten
    struct otlp *otlp = otlp_create(&config);
    int taken = 0;
    for (int i = 0; i < 30; i++) taken += push(otlp, 1);
    assert_int_equal(taken, 10);
    otlp_drop(otlp, 3, OTLP_DROP_MEMORY);
    const struct otlp_counts counts = otlp_get_counts(otlp);
    assert_int_equal(counts.dropped[OTLP_DROP_FULL], 20);
    assert_int_equal(counts.dropped[OTLP_DROP_MEMORY], 3);
    assert_int_equal(otlp_close(otlp, 20), 33);
}

// A collector that is down at the end: its spans are dropped when the time is up.
CASE(test_the_end_waits_for_a_collector_no_longer_than_it_may) {
    struct played played;
    played_init(&played);
    played.reply[0].status = 0;
    const struct otlp_config config = config_of(&played);
    struct otlp *otlp = otlp_create(&config);
    assert_true(push(otlp, 3));
    until_posts(&played, 1);
    const uint64_t begin = clock_ns();
    assert_int_equal(otlp_close(otlp, 30), 3);
    check(clock_ns() - begin < (uint64_t)PATIENCE_MS * 1000000, "it took too long");
    assert_true(played.freed);
    for (int i = 1; i < played.n_posts && i < POSTS_MAX; i++)
        check(played.timeout_ms[i] <= config.post_ms, "post %d may take %d ms", i,
              played.timeout_ms[i]);
}

CASE(test_an_idle_exporter_ends_at_once) {
    struct played played;
    played_init(&played);
    const struct otlp_config config = config_of(&played);
    assert_int_equal(otlp_close(otlp_create(&config), PATIENCE_MS), 0);
    assert_int_equal(played.n_posts, 0);
    assert_int_equal(otlp_close(NULL, 0), 0);
}

// ---------------------------------------------------------------- threads

enum { PUSHERS = 3, PUSHES = 300 };

static void *pusher(void *otlp) {
    for (int i = 0; i < PUSHES; i++) push(otlp, 1 + i % 3);
    return NULL;
}

CASE(test_every_span_of_many_threads_is_counted) {
    struct played played;
    played_init(&played);
    struct otlp_config config = config_of(&played);
    config.queue_spans = 64;
    config.batch_spans = 16;
    struct otlp *otlp = otlp_create(&config);
    pthread_t thread[PUSHERS];
    for (int i = 0; i < PUSHERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, pusher, otlp), 0);
    for (int i = 0; i < PUSHERS; i++) pthread_join(thread[i], NULL);
    const struct otlp_counts counts = settle(otlp);
    assert_int_equal(counts.exported + dropped_of(&counts), PUSHERS * PUSHES * 2);
    assert_true(counts.exported > 0);
    otlp_close(otlp, PATIENCE_MS);
}

TEST_PROGRAM(otlp) { return cases_run(NULL, NULL); }
