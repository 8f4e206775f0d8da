// The counters: metrics.c updates them, metrics_text.c writes them.
#ifndef RN_SERVER_METRICS_STATE_H
#define RN_SERVER_METRICS_STATE_H

#include "metrics.h"

enum metrics_histogram_id {
    HISTOGRAM_TTFT,
    HISTOGRAM_ITL,
    HISTOGRAM_PER_TOKEN,
    HISTOGRAM_E2E,
    HISTOGRAM_QUEUE,
    HISTOGRAM_INFERENCE,
    HISTOGRAM_PREFILL,
    HISTOGRAM_DECODE,
    HISTOGRAM_PROMPT_TOKENS,
    HISTOGRAM_OUTPUT_TOKENS,
    HISTOGRAM_MAX_TOKENS,
    HISTOGRAM_COUNT
};

enum { HISTOGRAM_BOUNDS_MAX = 22 };

struct metrics_histogram {
    struct histogram shown;
    uint64_t count[HISTOGRAM_BOUNDS_MAX + 1];
};

// Histograms of OpenTelemetry's conventions for GenAI.
enum metrics_gen_ai_id { GEN_AI_DURATION, GEN_AI_TTFT, GEN_AI_PER_TOKEN, GEN_AI_COUNT };

// One of them for the requests with the same labels.
struct metrics_gen_ai {
    enum metrics_gen_ai_id id;
    const char *operation;
    char error[GENERATION_ERROR_SIZE + 16]; // "": none
    struct metrics_histogram histogram;
};

enum { GEN_AI_SERIES_MAX = 64 };

// Calls that ended so.
struct metrics_answer {
    const struct route *route; // NULL: of an unknown path
    int status;
    uint64_t count;
};

// The engine's work up to a moment, or between two.
struct metrics_work {
    uint64_t run_ns, steps, bytes;
};

enum { WORK_COUNT = 8, WORK_SPAN_NS = 500000000 };

struct metrics {
    const struct server *server;
    double start_s;                // since 1970
    struct metrics_answer *answer; // [n_answers]
    int n_answers, answer_capacity;
    uint64_t gone;    // clients that hung up
    struct jbuf line; // of the access log
};

struct model_metrics {
    struct metrics_histogram histogram[HISTOGRAM_COUNT];
    struct metrics_histogram gap[RN_CAUSE_COUNT];    // NONE's stays empty
    struct metrics_gen_ai gen_ai[GEN_AI_SERIES_MAX]; // [n_gen_ai]
    int n_gen_ai;
    struct metrics_work work[WORK_COUNT]; // moments, [n_work], at least one
    int n_work;
    uint64_t work_ns; // when a moment was last looked at
};

// Work of the last seconds in which the engine ran.
struct metrics_work metrics_recent_work(const struct model_metrics *metrics,
                                        const rn_engine_stats *stats);

// The answer's, or 499, as others have it, where the client was gone before there was one.
int metrics_status(const struct call *call);

#endif
