// The exporter of spans: OTLP over HTTP, as JSON. Callers hand ended spans over and continue; a
// thread of the exporter's own collects batches and posts them.
//
//   1. otlp_push copies or drops. It waits for no collector, only for a mutex that is held briefly.
//   2. The spans of a request are exported together or dropped together. When the queue is full the
//      newest are dropped, as SDKs do it.
//   3. submitted == exported + dropped + held. Held spans wait or are being posted; their number
//      and their bytes are bounded.
//   4. One batch is posted at a time. 429, 502, 503, 504 and a lost or refused connection are tried
//      again, with growing waits or as Retry-After says; every other answer is final.
//   5. otlp_close ends in time: it stops the post that runs. A post inside the system's resolver
//      cannot be stopped; then the thread is left alone, and frees the exporter.
#ifndef RN_SERVER_OTLP_H
#define RN_SERVER_OTLP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct otlp;

#define OTLP_DROP_LIST(X)                                                                          \
    X(FULL, "queue_full")   /* too many spans were held */                                         \
    X(REJECTED, "rejected") /* the collector's answer was final, or named rejected spans */        \
    X(UNSENT, "unsent")     /* the collector could not be reached for retry_ms */                  \
    X(SHUTDOWN, "shutdown") /* they were left at the end */                                        \
    X(MEMORY, "out_of_memory")

enum otlp_drop {
#define X(name, text) OTLP_DROP_##name,
    OTLP_DROP_LIST(X)
#undef X
        OTLP_DROP_COUNT
};
const char *otlp_drop_text(enum otlp_drop drop);

struct otlp_counts {
    uint64_t exported, dropped[OTLP_DROP_COUNT], held;
};

// The collector's answer to a post.
struct otlp_reply {
    int status;          // 0: there was none; -1: it was not HTTP, or too large
    int retry_after_ms;  // -1: not given
    uint64_t n_rejected; // of a partial success: spans that the collector did not take
};

// Posts a body and waits for the answer, at most timeout_ms. Runs on the exporter's thread.
typedef void otlp_post(void *ctx, const char *body, size_t len, int timeout_ms,
                       struct otlp_reply *out);

struct otlp_pair {
    const char *key, *value;
};

struct otlp_config {
    otlp_post *post;
    void (*post_stop)(void *ctx);     // any thread: the post that runs, and later ones, end at once
    void (*post_free)(void *ctx);     // also when otlp_create fails
    void *post_ctx;                   // owned by the exporter
    const struct otlp_pair *resource; // [n_resource], attributes of the process, service.name first
    int n_resource;
    int queue_spans, batch_spans;   // most spans that are held, and of a post
    size_t queue_bytes;             // most bytes of held spans
    int delay_ms;                   // a batch waits this long for more spans
    int post_ms;                    // most time of a post
    int backoff_ms, backoff_ms_max; // waits between tries: the first, and the longest
    int retry_ms;                   // a batch that fails for longer is dropped
};

// Fields that OpenTelemetry's environment variables can change have its defaults.
struct otlp_config otlp_config_usual(void);

struct otlp *otlp_create(const struct otlp_config *config); // NULL: errno says why
// Spans as JSON objects, separated by commas. False: they were dropped and counted.
bool otlp_push(struct otlp *otlp, const char *spans, size_t len, int n_spans);
// Spans that could not be written down.
void otlp_drop(struct otlp *otlp, int n_spans, enum otlp_drop why);
struct otlp_counts otlp_get_counts(struct otlp *otlp);
// Posts held spans for at most this time, then drops the rest. Returns the dropped spans of its
// whole life. NULL is fine.
uint64_t otlp_close(struct otlp *otlp, int wait_ms);

// --- rules of the protocol, for posts and tests ---

enum otlp_verdict { OTLP_SENT, OTLP_RETRY, OTLP_FINAL };
enum otlp_verdict otlp_verdict_of(int status);
// The seconds of a Retry-After field, a number or a date; -1: it is neither. now: since 1970.
int otlp_retry_after(const char *value, int64_t now);
// The number of rejected spans that the body of a 200 names.
uint64_t otlp_rejected(const char *body, size_t len);

#endif
