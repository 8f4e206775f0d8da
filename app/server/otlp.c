// The exporter's queue and its thread. Records (the spans of one request) are a list under the
// mutex. The thread takes a batch of them off the list and posts it without the mutex; until then
// they are held. Exactly one side frees the exporter: otlp_close after the thread's end, or the
// thread where otlp_close had to leave it.
#include "otlp.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "helpers.h"
#include "jbuf.h"
#include "runnel.h"

enum {
    BATCH_BYTES = 4 << 20, // of a post; a single record may be larger
    STOP_MS = 100,         // for a stopped post to return
};

struct record {
    struct record *next;
    int n_spans;
    size_t len;
    char data[];
};

struct otlp {
    struct otlp_config config; // constant
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t more; // for the thread: spans, the end
    pthread_cond_t less; // for close: the thread has ended
    // under the mutex
    struct record *first, **last;
    int n_waiting;     // spans of the list
    uint64_t since_ns; // when the list's first record came
    uint64_t submitted, held_bytes;
    struct otlp_counts counts;
    bool closing, ended, left;
    uint64_t close_ns; // closing: when the rest is dropped
    // the thread's
    struct jbuf head; // of every body, up to the first span
    struct jbuf body;
    int n_batch;            // spans of the body
    size_t batch_bytes;     // of the records in the body
    int n_tries;            // since the last post that was answered
    uint64_t not_before_ns; // no post is made before
    uint64_t random;
};

static const char body_end[] = "]}]}]}";

const char *otlp_drop_text(enum otlp_drop drop) {
    static const char *const text[] = {
#define X(name, text) text,
        OTLP_DROP_LIST(X)
#undef X
    };
    return text[drop];
}

struct otlp_config otlp_config_usual(void) {
    return (struct otlp_config){.queue_spans = 2048,
                                .batch_spans = 512,
                                .queue_bytes = 16 << 20,
                                .delay_ms = 5000,
                                .post_ms = 10000,
                                .backoff_ms = 1000,
                                .backoff_ms_max = 30000,
                                .retry_ms = 60000};
}

// ---------------------------------------------------------------- rules

enum otlp_verdict otlp_verdict_of(int status) {
    if (status >= 200 && status < 300) return OTLP_SENT;
    const bool again = !status || status == 429 || (status >= 502 && status <= 504);
    return again ? OTLP_RETRY : OTLP_FINAL;
}

// "Sun, 06 Nov 1994 08:49:37 GMT" as seconds since 1970; -1: it is none.
static int64_t date_parse(const char *text) {
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm tm = {0};
    char month[4] = "", zone[4] = "";
    if (strlen(text) != 29 || sscanf(text + 3, ", %2d %3s %4d %2d:%2d:%2d %3s", &tm.tm_mday, month,
                                     &tm.tm_year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, zone) != 7)
        return -1;
    const char *at = strstr(months, month);
    if (!at || (at - months) % 3 || strlen(month) != 3 || strcmp(zone, "GMT")) return -1;
    tm.tm_mon = (int)(at - months) / 3;
    tm.tm_year -= 1900;
    return (int64_t)timegm(&tm);
}

int otlp_retry_after(const char *value, int64_t now) {
    enum { SECONDS_MAX = 3600 };
    const size_t n_digits = strspn(value, "0123456789");
    if (n_digits && !value[n_digits]) {
        const long seconds = n_digits > 6 ? SECONDS_MAX : strtol(value, NULL, 10);
        return seconds < SECONDS_MAX ? (int)seconds : SECONDS_MAX;
    }
    const int64_t date = date_parse(value);
    if (date < 0) return -1;
    return date <= now ? 0 : date - now < SECONDS_MAX ? (int)(date - now) : SECONDS_MAX;
}

// 64-bit numbers of the protocol's JSON are strings; numbers are taken too.
uint64_t otlp_rejected(const char *body, size_t len) {
    json_t *json = json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *value = json_object_get(json_object_get(json, "partialSuccess"), "rejectedSpans");
    long long rejected = json_is_string(value) ? strtoll(json_string_value(value), NULL, 10)
                                               : (long long)json_integer_value(value);
    json_decref(json);
    return rejected > 0 ? (uint64_t)rejected : 0;
}

// ---------------------------------------------------------------- counting, under the mutex

static void count_drop(struct otlp *otlp, uint64_t n_spans, enum otlp_drop why) {
    otlp->counts.dropped[why] += n_spans;
}

// The batch is over: `rejected` of its spans were not taken.
static void batch_count(struct otlp *otlp, uint64_t rejected, enum otlp_drop why) {
    const uint64_t n = (uint64_t)otlp->n_batch;
    pthread_mutex_lock(&otlp->mutex);
    if (!otlp->left) { // otherwise otlp_close has counted it
        if (rejected > n) rejected = n;
        count_drop(otlp, rejected, why);
        otlp->counts.exported += n - rejected;
        otlp->counts.held -= n;
        otlp->held_bytes -= otlp->batch_bytes;
    }
    pthread_mutex_unlock(&otlp->mutex);
    otlp->n_batch = 0;
}

// ---------------------------------------------------------------- the thread

static struct timespec timespec_of(uint64_t ns) {
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

static uint64_t after_ms(int ms) { return clock_ns() + (uint64_t)ms * 1000000u; }

// Waits for spans: for a whole batch, or until the first of them has waited long enough. False: the
// thread is to end.
static bool batch_wait(struct otlp *otlp) {
    const uint64_t delay_ns = (uint64_t)otlp->config.delay_ms * 1000000u;
    pthread_mutex_lock(&otlp->mutex);
    while (!otlp->closing && otlp->n_waiting < otlp->config.batch_spans) {
        const uint64_t due_ns = otlp->since_ns + delay_ns;
        if (!otlp->n_waiting) {
            pthread_cond_wait(&otlp->more, &otlp->mutex);
        } else if (clock_ns() < due_ns) {
            const struct timespec until = timespec_of(due_ns);
            pthread_cond_timedwait(&otlp->more, &otlp->mutex, &until);
        } else {
            break;
        }
    }
    const bool some = otlp->n_waiting > 0 && !otlp->left;
    pthread_mutex_unlock(&otlp->mutex);
    return some;
}

static bool fits(const struct otlp *otlp, const struct record *record) {
    if (!record) return false;
    return !otlp->n_batch || (otlp->n_batch + record->n_spans <= otlp->config.batch_spans &&
                              otlp->batch_bytes + record->len <= BATCH_BYTES);
}

// Moves records from the list into the body of a post.
static void batch_take(struct otlp *otlp) {
    struct jbuf *body = &otlp->body;
    jbuf_clear(body);
    jbuf_bytes(body, otlp->head.data, otlp->head.len);
    otlp->n_batch = 0;
    otlp->batch_bytes = 0;
    for (;;) {
        pthread_mutex_lock(&otlp->mutex);
        struct record *record = fits(otlp, otlp->first) ? otlp->first : NULL;
        if (record) {
            otlp->first = record->next;
            if (!otlp->first) otlp->last = &otlp->first;
            otlp->n_waiting -= record->n_spans;
        }
        otlp->since_ns = clock_ns();
        pthread_mutex_unlock(&otlp->mutex);
        if (!record) break;
        if (otlp->n_batch) jbuf_bytes(body, ",", 1);
        jbuf_bytes(body, record->data, record->len);
        otlp->n_batch += record->n_spans;
        otlp->batch_bytes += record->len;
        free(record);
    }
    jbuf_text(body, body_end);
}

// Until no post is forbidden. False: that is too late, for the end of the exporter.
static bool post_wait(struct otlp *otlp) {
    pthread_mutex_lock(&otlp->mutex);
    bool in_time = !otlp->left;
    while (in_time && clock_ns() < otlp->not_before_ns) {
        const struct timespec until = timespec_of(otlp->not_before_ns);
        in_time = !otlp->closing || otlp->not_before_ns < otlp->close_ns;
        if (in_time) pthread_cond_timedwait(&otlp->more, &otlp->mutex, &until);
        in_time &= !otlp->left;
    }
    if (otlp->closing && clock_ns() >= otlp->close_ns) in_time = false;
    pthread_mutex_unlock(&otlp->mutex);
    return in_time;
}

static int post_ms(struct otlp *otlp) {
    int ms = otlp->config.post_ms;
    pthread_mutex_lock(&otlp->mutex);
    if (otlp->closing) {
        const uint64_t now = clock_ns();
        const uint64_t left_ms =
            otlp->close_ns > now ? (otlp->close_ns - now + 999999) / 1000000 : 1;
        if (left_ms < (uint64_t)ms) ms = (int)left_ms;
    }
    pthread_mutex_unlock(&otlp->mutex);
    return ms;
}

// xorshift64: waits of many servers shall not end together, nothing more.
static double random_share(struct otlp *otlp) {
    uint64_t x = otlp->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    otlp->random = x;
    return (double)(x >> 11) * 0x1p-53;
}

// The wait after a failed try. It doubles each time, and up to half of it is left out at random. A
// collector may ask for another wait; it is never asked again at once.
static uint64_t backoff_ns(struct otlp *otlp, const struct otlp_reply *reply) {
    double ms = otlp->config.backoff_ms;
    if (reply->retry_after_ms >= 0) return (uint64_t)(fmax(reply->retry_after_ms, 0.1 * ms) * 1e6);
    for (int i = 1; i < otlp->n_tries && ms < otlp->config.backoff_ms_max; i++) ms *= 2;
    if (ms > otlp->config.backoff_ms_max) ms = otlp->config.backoff_ms_max;
    return (uint64_t)(ms * 1e6 * (1 - 0.5 * random_share(otlp)));
}

// Posts the body until it is taken, refused for good, or too old.
static void batch_send(struct otlp *otlp) {
    const uint64_t give_up_ns = after_ms(otlp->config.retry_ms);
    if (otlp->body.failed) {
        batch_count(otlp, UINT64_MAX, OTLP_DROP_MEMORY);
        return;
    }
    while (post_wait(otlp)) {
        struct otlp_reply reply = {.retry_after_ms = -1};
        otlp->config.post(otlp->config.post_ctx, otlp->body.data, otlp->body.len, post_ms(otlp),
                          &reply);
        const enum otlp_verdict verdict = otlp_verdict_of(reply.status);
        if (verdict != OTLP_RETRY) {
            otlp->n_tries = 0;
            batch_count(otlp, verdict == OTLP_SENT ? reply.n_rejected : UINT64_MAX,
                        OTLP_DROP_REJECTED);
            return;
        }
        otlp->n_tries++;
        otlp->not_before_ns = clock_ns() + backoff_ns(otlp, &reply);
        if (otlp->not_before_ns > give_up_ns) {
            batch_count(otlp, UINT64_MAX, OTLP_DROP_UNSENT);
            return;
        }
    }
    batch_count(otlp, UINT64_MAX, OTLP_DROP_SHUTDOWN);
}

static void records_free(struct otlp *otlp) {
    while (otlp->first) {
        struct record *record = otlp->first;
        otlp->first = record->next;
        free(record);
    }
}

static void otlp_free(struct otlp *otlp) {
    records_free(otlp);
    jbuf_deinit(&otlp->head);
    jbuf_deinit(&otlp->body);
    pthread_mutex_destroy(&otlp->mutex);
    pthread_cond_destroy(&otlp->more);
    pthread_cond_destroy(&otlp->less);
    if (otlp->config.post_free) otlp->config.post_free(otlp->config.post_ctx);
    free(otlp);
}

static void *thread_run(void *ctx) {
    struct otlp *otlp = ctx;
    while (batch_wait(otlp)) {
        batch_take(otlp);
        batch_send(otlp);
    }
    pthread_mutex_lock(&otlp->mutex);
    otlp->ended = true;
    const bool left = otlp->left;
    pthread_cond_broadcast(&otlp->less);
    pthread_mutex_unlock(&otlp->mutex);
    if (left) otlp_free(otlp);
    return NULL;
}

// ---------------------------------------------------------------- callers

// The process's signals are for other threads; SIGPIPE would be this one's, and becomes EPIPE.
static int thread_start(struct otlp *otlp) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int why = pthread_create(&otlp->thread, NULL, thread_run, otlp);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return why;
}

static void head_write(struct jbuf *out, const struct otlp_config *config) {
    jbuf_text(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    for (int i = 0; i < config->n_resource; i++) {
        jbuf_text(out, i ? ",{\"key\":" : "{\"key\":");
        jbuf_cstring(out, config->resource[i].key);
        jbuf_text(out, ",\"value\":{\"stringValue\":");
        jbuf_cstring(out, config->resource[i].value);
        jbuf_text(out, "}}");
    }
    jbuf_text(out, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"runnel\",\"version\":\"" RN_VERSION
                   "\"},\"spans\":[");
}

static void locks_init(struct otlp *otlp) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&otlp->mutex, NULL);
    pthread_cond_init(&otlp->more, &monotonic);
    pthread_cond_init(&otlp->less, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

struct otlp *otlp_create(const struct otlp_config *config) {
    struct otlp *otlp = calloc(1, sizeof *otlp);
    if (!otlp) {
        if (config->post_free) config->post_free(config->post_ctx);
        errno = ENOMEM;
        return NULL;
    }
    otlp->config = *config;
    otlp->last = &otlp->first;
    otlp->random = clock_ns() | 1;
    locks_init(otlp);
    head_write(&otlp->head, config);
    otlp->config.resource = NULL; // the caller's
    const int why = otlp->head.failed ? ENOMEM : thread_start(otlp);
    if (!why) return otlp;
    otlp_free(otlp);
    errno = why;
    return NULL;
}

bool otlp_push(struct otlp *otlp, const char *spans, size_t len, int n_spans) {
    struct record *record = malloc(sizeof *record + len);
    if (record) {
        *record = (struct record){.n_spans = n_spans, .len = len};
        memcpy(record->data, spans, len);
    }
    pthread_mutex_lock(&otlp->mutex);
    assert(!otlp->closing);
    otlp->submitted += (uint64_t)n_spans;
    const bool room = otlp->counts.held + (uint64_t)n_spans <= (uint64_t)otlp->config.queue_spans &&
                      otlp->held_bytes + len <= otlp->config.queue_bytes;
    if (room && record) {
        if (!otlp->n_waiting) otlp->since_ns = clock_ns();
        *otlp->last = record;
        otlp->last = &record->next;
        otlp->n_waiting += n_spans;
        otlp->counts.held += (uint64_t)n_spans;
        otlp->held_bytes += len;
        pthread_cond_signal(&otlp->more);
    } else {
        count_drop(otlp, (uint64_t)n_spans, record ? OTLP_DROP_FULL : OTLP_DROP_MEMORY);
    }
    pthread_mutex_unlock(&otlp->mutex);
    if (!room) free(record);
    return room && record;
}

void otlp_drop(struct otlp *otlp, int n_spans, enum otlp_drop why) {
    pthread_mutex_lock(&otlp->mutex);
    otlp->submitted += (uint64_t)n_spans;
    count_drop(otlp, (uint64_t)n_spans, why);
    pthread_mutex_unlock(&otlp->mutex);
}

struct otlp_counts otlp_get_counts(struct otlp *otlp) {
    pthread_mutex_lock(&otlp->mutex);
    const struct otlp_counts counts = otlp->counts;
    pthread_mutex_unlock(&otlp->mutex);
    return counts;
}

// Waits for the thread's end, up to a time. False: it has not ended.
static bool thread_wait(struct otlp *otlp, uint64_t until_ns) {
    const struct timespec until = timespec_of(until_ns);
    while (!otlp->ended && !pthread_cond_timedwait(&otlp->less, &otlp->mutex, &until)) continue;
    return otlp->ended;
}

static void thread_leave(struct otlp *otlp) {
    otlp->left = true;
    count_drop(otlp, otlp->counts.held, OTLP_DROP_SHUTDOWN);
    otlp->counts.held = 0;
    pthread_detach(otlp->thread);
}

uint64_t otlp_close(struct otlp *otlp, int wait_ms) {
    if (!otlp) return 0;
    pthread_mutex_lock(&otlp->mutex);
    otlp->closing = true;
    otlp->close_ns = after_ms(wait_ms);
    pthread_cond_signal(&otlp->more);
    bool ended = thread_wait(otlp, otlp->close_ns);
    if (!ended) {
        if (otlp->config.post_stop) otlp->config.post_stop(otlp->config.post_ctx);
        ended = thread_wait(otlp, otlp->close_ns + STOP_MS * 1000000u);
    }
    if (!ended) thread_leave(otlp);
    uint64_t dropped = 0;
    for (int i = 0; i < OTLP_DROP_COUNT; i++) dropped += otlp->counts.dropped[i];
    assert(otlp->submitted == otlp->counts.exported + dropped + otlp->counts.held);
    pthread_mutex_unlock(&otlp->mutex);
    if (ended) {
        pthread_join(otlp->thread, NULL);
        otlp_free(otlp);
    }
    return dropped;
}
