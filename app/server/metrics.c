// The server's counters, I/O thread only. The engine's counters are not kept twice: a scrape reads
// them from the engine (metrics_text.c writes it). Facts that only events tell (times of requests
// and tokens) are counted here as they come. Callers: generation.c with events, http.c at a call's
// end, live.c for two of the histograms.
#include "metrics.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "access_log.h"
#include "helpers.h"
#include "metrics_state.h"
#include "otlp_span.h"

// ---------------------------------------------------------------- histograms

// vLLM's bounds, where it has the histogram.
static const double ttft_bounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                     0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                     20,    40,    80,   160,  640,  2560};
static const double token_bounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                      0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
static const double request_bounds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                        30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
static const double length_bounds[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                       1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
static const double gap_bounds[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                    0.2,   0.5,   1,     2,    5,    10,   30};

// OpenTelemetry's, for GenAI servers.
static const double gen_ai_duration_bounds[] = {0.01, 0.02, 0.04, 0.08,  0.16,  0.32,  0.64,
                                                1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92};
static const double gen_ai_ttft_bounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                            0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10};
static const double gen_ai_token_bounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                             0.3,  0.4,   0.5,  0.75,  1,   2.5};

#define BOUNDS(list) list, sizeof(list) / sizeof(*(list))
struct histogram_kind {
    const double *bound;
    size_t n_bounds;
};
static const struct histogram_kind gen_ai_kind[GEN_AI_COUNT] = {
    [GEN_AI_DURATION] = {BOUNDS(gen_ai_duration_bounds)},
    [GEN_AI_TTFT] = {BOUNDS(gen_ai_ttft_bounds)},
    [GEN_AI_PER_TOKEN] = {BOUNDS(gen_ai_token_bounds)},
};
static const struct histogram_kind histogram_kind[HISTOGRAM_COUNT] = {
    [HISTOGRAM_TTFT] = {BOUNDS(ttft_bounds)},
    [HISTOGRAM_ITL] = {BOUNDS(token_bounds)},
    [HISTOGRAM_PER_TOKEN] = {BOUNDS(token_bounds)},
    [HISTOGRAM_E2E] = {BOUNDS(request_bounds)},
    [HISTOGRAM_QUEUE] = {BOUNDS(request_bounds)},
    [HISTOGRAM_INFERENCE] = {BOUNDS(request_bounds)},
    [HISTOGRAM_PREFILL] = {BOUNDS(request_bounds)},
    [HISTOGRAM_DECODE] = {BOUNDS(request_bounds)},
    [HISTOGRAM_PROMPT_TOKENS] = {BOUNDS(length_bounds)},
    [HISTOGRAM_OUTPUT_TOKENS] = {BOUNDS(length_bounds)},
    [HISTOGRAM_MAX_TOKENS] = {BOUNDS(length_bounds)},
};
#undef BOUNDS

static void histogram_init(struct metrics_histogram *own, const double *bound, size_t n_bounds) {
    assert(n_bounds <= HISTOGRAM_BOUNDS_MAX);
    own->shown.bound = bound;
    own->shown.n_bounds = (int)n_bounds;
    own->shown.count = own->count;
}

static void observe(struct metrics_histogram *own, double value) {
    struct histogram *histogram = &own->shown;
    int at = 0;
    while (at < histogram->n_bounds && value > histogram->bound[at]) at++;
    histogram->count[at]++;
    histogram->sum += value;
    histogram->total++;
}

// ---------------------------------------------------------------- life

struct metrics *metrics_create(const struct server *server) {
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics) return NULL;
    metrics->server = server;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    metrics->start_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    return metrics;
}

struct model_metrics *model_metrics_create(void) {
    struct model_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics) return NULL;
    metrics->n_work = 1; // the start, when nothing had been done
    for (int i = 0; i < HISTOGRAM_COUNT; i++)
        histogram_init(&metrics->histogram[i], histogram_kind[i].bound, histogram_kind[i].n_bounds);
    for (int i = 0; i < RN_CAUSE_COUNT; i++)
        histogram_init(&metrics->gap[i], gap_bounds, sizeof gap_bounds / sizeof *gap_bounds);
    return metrics;
}

void metrics_destroy(struct metrics *metrics) {
    if (!metrics) return;
    free(metrics->answer);
    jbuf_deinit(&metrics->line);
    free(metrics);
}

void model_metrics_destroy(struct model_metrics *metrics) { free(metrics); }

const struct histogram *metrics_ttft(const struct model_metrics *metrics) {
    return &metrics->histogram[HISTOGRAM_TTFT].shown;
}

const struct histogram *metrics_itl(const struct model_metrics *metrics) {
    return &metrics->histogram[HISTOGRAM_ITL].shown;
}

rn_draft_stats metrics_drafts(const rn_engine_stats *stats) {
    rn_draft_stats sum = {0};
    for (int i = 0; i < RN_DRAFTER_COUNT; i++) {
        sum.drafts += stats->draft[i].drafts;
        sum.tokens += stats->draft[i].tokens;
        sum.accepted += stats->draft[i].accepted;
    }
    return sum;
}

// ---------------------------------------------------------------- busy time

static struct metrics_work work_of(const rn_engine_stats *stats) {
    return (struct metrics_work){.run_ns = stats->run_ns,
                                 .steps = stats->steps,
                                 .bytes = stats->weight_bytes + stats->kv_bytes};
}

// Keeps the engine's work at moments about WORK_SPAN_NS of busy time apart; the oldest of
// them is where "the last seconds" start, however long the engine slept since.
static void remember_work(const struct served *served, uint64_t now_ns) {
    struct model_metrics *metrics = served->metrics;
    if (!served->engine || now_ns - metrics->work_ns < WORK_SPAN_NS) return;
    metrics->work_ns = now_ns;
    rn_engine_stats stats;
    served_stats(served, &stats);
    const struct metrics_work now = work_of(&stats);
    if (now.run_ns - metrics->work[metrics->n_work - 1].run_ns < WORK_SPAN_NS) return;
    if (metrics->n_work == WORK_COUNT) {
        memmove(metrics->work, metrics->work + 1, (WORK_COUNT - 1) * sizeof *metrics->work);
        metrics->n_work--;
    }
    metrics->work[metrics->n_work++] = now;
}

struct metrics_work metrics_recent_work(const struct model_metrics *metrics,
                                        const rn_engine_stats *stats) {
    struct metrics_work recent = work_of(stats);
    const struct metrics_work *from = &metrics->work[0];
    recent.run_ns -= from->run_ns;
    recent.steps -= from->steps;
    recent.bytes -= from->bytes;
    return recent;
}

// ---------------------------------------------------------------- events

void metrics_token(struct served *served, const struct generation_choice *choice,
                   const rn_event *event) {
    struct model_metrics *metrics = served->metrics;
    if (event->token < 0) return;
    remember_work(served, event->time_ns);
    if (event->cause == RN_CAUSE_NONE) {
        const int64_t ns = (int64_t)(event->time_ns - choice->start_ns);
        observe(&metrics->histogram[HISTOGRAM_TTFT], (double)ns * 1e-9);
        return;
    }
    if (!(event->gap_ms > 0)) return; // it came with the token before, from the same step
    observe(&metrics->histogram[HISTOGRAM_ITL], event->gap_ms * 1e-3);
    observe(&metrics->gap[event->cause], event->gap_ms * 1e-3);
}

void metrics_choice_end(struct model_metrics *metrics, const struct generation_choice *choice) {
    struct metrics_histogram *histogram = metrics->histogram;
    const rn_timings *timings = &choice->timings;
    const int64_t ns = (int64_t)(clock_ns() - choice->start_ns);
    observe(&histogram[HISTOGRAM_E2E], (double)ns * 1e-9);
    observe(&histogram[HISTOGRAM_QUEUE], timings->queue_ms * 1e-3);
    observe(&histogram[HISTOGRAM_PROMPT_TOKENS], timings->prompt_tokens);
    observe(&histogram[HISTOGRAM_OUTPUT_TOKENS], timings->output_tokens);
    // A request that was given up before its first token has none of the times below.
    const bool given_up =
        choice->finish == RN_FINISH_CANCELLED || choice->finish == RN_FINISH_ERROR;
    if (given_up && !timings->output_tokens) return;
    observe(&histogram[HISTOGRAM_PREFILL], timings->prompt_ms * 1e-3);
    observe(&histogram[HISTOGRAM_DECODE], timings->decode_ms * 1e-3);
    observe(&histogram[HISTOGRAM_INFERENCE], (timings->prompt_ms + timings->decode_ms) * 1e-3);
    if (timings->output_tokens < 2) return;
    observe(&histogram[HISTOGRAM_PER_TOKEN],
            timings->decode_ms * 1e-3 / (timings->output_tokens - 1));
}

// ---------------------------------------------------------------- calls

// Routes and statuses are few, so a list will do. An answer that finds no memory is not counted.
static void count_answer(struct metrics *metrics, const struct route *route, int status) {
    for (int i = 0; i < metrics->n_answers; i++) {
        struct metrics_answer *answer = &metrics->answer[i];
        if (answer->route != route || answer->status != status) continue;
        answer->count++;
        return;
    }
    if (metrics->n_answers == metrics->answer_capacity) {
        const int capacity = metrics->answer_capacity ? 2 * metrics->answer_capacity : 32;
        struct metrics_answer *grown =
            realloc(metrics->answer, (size_t)capacity * sizeof *metrics->answer);
        if (!grown) return;
        metrics->answer = grown;
        metrics->answer_capacity = capacity;
    }
    metrics->answer[metrics->n_answers++] =
        (struct metrics_answer){.route = route, .status = status, .count = 1};
}

// A series that finds no place is not counted; there are places for all errors that exist.
static void gen_ai_observe(struct model_metrics *metrics, enum metrics_gen_ai_id id,
                           const char *operation, const char *error, double value) {
    for (int i = 0; i < metrics->n_gen_ai; i++) {
        struct metrics_gen_ai *series = &metrics->gen_ai[i];
        if (series->id != id || strcmp(series->operation, operation) ||
            strcmp(series->error, error))
            continue;
        observe(&series->histogram, value);
        return;
    }
    if (metrics->n_gen_ai == GEN_AI_SERIES_MAX) return;
    struct metrics_gen_ai *series = &metrics->gen_ai[metrics->n_gen_ai++];
    series->id = id;
    series->operation = operation;
    snprintf(series->error, sizeof series->error, "%s", error);
    histogram_init(&series->histogram, gen_ai_kind[id].bound, gen_ai_kind[id].n_bounds);
    observe(&series->histogram, value);
}

// Requests that reached the engine; times of tokens are those of requests without an error.
static void count_gen_ai(struct model_metrics *metrics, const struct call *call, bool gone) {
    const struct generation *generation = call->generation;
    const char *operation = otlp_operation(call->route);
    char text[GENERATION_ERROR_SIZE];
    if (!operation || !generation->began) return;
    const char *error = generation_error(call, gone, text);
    gen_ai_observe(metrics, GEN_AI_DURATION, operation, error ? error : "",
                   (double)(clock_ns() - call->start_ns) * 1e-9);
    if (error || !generation->first_ns) return;
    gen_ai_observe(metrics, GEN_AI_TTFT, operation, "",
                   (double)(generation->first_ns - call->start_ns) * 1e-9);
    for (int i = 0; i < generation->n_choices; i++) {
        const rn_timings *timings = &generation->choice[i].timings;
        if (timings->output_tokens > 1)
            gen_ai_observe(metrics, GEN_AI_PER_TOKEN, operation, "",
                           timings->decode_ms * 1e-3 / (timings->output_tokens - 1));
    }
}

// vLLM's figure of a request with several choices is its longest one.
static void count_longest(struct model_metrics *metrics, const struct generation *generation) {
    const int n = generation->params.n;
    for (int first = 0; first < generation->n_choices; first += n) {
        bool ended = !generation->pooling;
        int most = 0;
        for (int i = first; i < first + n; i++) {
            const struct generation_choice *choice = &generation->choice[i];
            ended &= choice->ended;
            if (choice->n_output > most) most = choice->n_output;
        }
        if (ended) observe(&metrics->histogram[HISTOGRAM_MAX_TOKENS], most);
    }
}

int metrics_status(const struct call *call) { return call->status ? call->status : 499; }

void metrics_call_end(struct metrics *metrics, const struct call *call, bool gone) {
    count_answer(metrics, call->route, metrics_status(call));
    if (gone) metrics->gone++;
    if (call->generation) {
        count_gen_ai(call->served->metrics, call, gone);
        if (call->generation->began) count_longest(call->served->metrics, call->generation);
    }
    struct log_sink *log = metrics->server->config.access_log;
    if (log) access_log_write(log, &metrics->line, call, gone);
    struct log_sink *terminal = metrics->server->config.request_lines;
    if (terminal) access_log_write_line(terminal, &metrics->line, call, gone);
}
