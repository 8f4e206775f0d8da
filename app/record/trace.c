// Events are written as ",\n{...}" behind the names of the two groups of lanes, which come first.
// Invariant of a lane: a slice is inside its parent, and begins where the one before it ended, or
// later. Figures that would break this are clamped.
#include "record/trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "helpers.h"

enum { ENGINE_PID = 1, STREAMS_PID = 2, CHOICE_LANES = RN_MAX_CHOICES, STEPS_AT_ONCE = 256 };
enum { END_BYTES = 64 }; // kept free for the end of the document

// ---------------------------------------------------------------- events

static void put_us(struct jbuf *out, const char *key, uint64_t ns) {
    jbuf_printf(out, ",\"%s\":%llu.%03u", key, (unsigned long long)(ns / 1000),
                (unsigned)(ns % 1000));
}

static void put_name(struct jbuf *out, const char *what, int pid, uint64_t tid, const char *name) {
    jbuf_printf(out,
                "{\"ph\":\"M\",\"pid\":%d,\"tid\":%llu,\"name\":\"%s\",\"args\":{\"name\":", pid,
                (unsigned long long)tid, what);
    jbuf_cstring(out, name);
    jbuf_text(out, "}}");
}

static void put_head(struct jbuf *out) {
    jbuf_text(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    put_name(out, "process_name", ENGINE_PID, 0, "engine");
    jbuf_text(out, ",\n");
    put_name(out, "process_name", STREAMS_PID, 0, "streams");
}

// A place on a lane.
struct lane {
    int pid;
    uint64_t tid;
};

// Its args object stays open; slice_end closes it.
static void slice_begin(struct jbuf *out, struct lane lane, const char *name, uint64_t from_ns,
                        uint64_t to_ns) {
    jbuf_printf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%llu,\"name\":", lane.pid,
                (unsigned long long)lane.tid);
    jbuf_cstring(out, name);
    put_us(out, "ts", from_ns);
    put_us(out, "dur", to_ns - from_ns);
    jbuf_text(out, ",\"args\":{");
}

static void slice_end(struct jbuf *out) { jbuf_text(out, "}}"); }

static void put_slice(struct jbuf *out, struct lane lane, const char *name, uint64_t from_ns,
                      uint64_t to_ns) {
    if (to_ns <= from_ns) return;
    slice_begin(out, lane, name, from_ns, to_ns);
    slice_end(out);
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

// ---------------------------------------------------------------- streams

// The causes of a share one after the other: first those that a request meets first, its own prompt
// last.
static void put_share(struct jbuf *out, struct lane lane, const rn_share *share, uint64_t from_ns,
                      uint64_t to_ns) {
    static const rn_cause order[] = {RN_CAUSE_QUEUE,  RN_CAUSE_PAGES,     RN_CAUSE_PREEMPTED,
                                     RN_CAUSE_STORE,  RN_CAUSE_PROMPTS,   RN_CAUSE_WEIGHTS,
                                     RN_CAUSE_KV,     RN_CAUSE_STREAMS,   RN_CAUSE_DRAFTS,
                                     RN_CAUSE_CHOICE, RN_CAUSE_HOST,      RN_CAUSE_READER,
                                     RN_CAUSE_SLOWER, RN_CAUSE_OWN_PROMPT};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const uint64_t end_ns = least(from_ns + share->cause_ns[order[i]], to_ns);
        put_slice(out, lane, rn_cause_text(order[i]), from_ns, end_ns);
        from_ns = end_ns;
    }
}

static void put_gap(struct jbuf *out, struct lane lane, const rn_slow_gap *gap, uint64_t from_ns) {
    const uint64_t begin_ns = most(gap->end_ns - least(gap->share.ns, gap->end_ns), from_ns);
    if (gap->end_ns <= begin_ns) return;
    slice_begin(out, lane, "slow gap", begin_ns, gap->end_ns);
    jbuf_put_int(out, "token", gap->token);
    for (int i = 0; i < RN_CAUSE_COUNT; i++)
        if (gap->share.cause_ns[i])
            jbuf_put_real(out, rn_cause_name((rn_cause)i), (double)gap->share.cause_ns[i] * 1e-6,
                          6);
    slice_end(out);
    put_share(out, lane, &gap->share, begin_ns, gap->end_ns);
}

static void put_spans(struct jbuf *out, struct lane lane, const rn_account *account) {
    uint64_t at_ns = account->first_ns;
    for (int i = 0; i < account->n_spans; i++) {
        const rn_span *span = &account->span[i];
        const uint64_t from_ns = most(at_ns, span->end_ns - least(span->ns, span->end_ns));
        if (span->end_ns <= from_ns) continue;
        slice_begin(out, lane, rn_cause_text((rn_cause)span->cause), from_ns, span->end_ns);
        jbuf_put_uint(out, "tokens", span->n_tokens);
        jbuf_put_real(out, "longest_gap_ms", (double)span->max_ns * 1e-6, 6);
        slice_end(out);
        for (int gap = 0; gap < account->n_slow; gap++) {
            const rn_slow_gap *slow = &account->slow[gap];
            if (slow->end_ns > from_ns && slow->end_ns <= span->end_ns)
                put_gap(out, lane, slow, from_ns);
        }
        at_ns = span->end_ns;
    }
}

static void lane_name(char *out, size_t size, uint64_t request, int index) {
    snprintf(out, size, "request %llu%s", (unsigned long long)request,
             index ? ", a further choice" : "");
}

static void put_lane_name(struct jbuf *out, uint64_t request, int index) {
    char name[64];
    lane_name(name, sizeof name, request, index);
    jbuf_text(out, ",\n");
    put_name(out, "thread_name", STREAMS_PID, request * CHOICE_LANES + (uint64_t)index, name);
}

static void put_choice(struct jbuf *out, uint64_t request, const char *id, int index,
                       rn_finish finish, const rn_timings *timings, const rn_account *account) {
    const struct lane lane = {STREAMS_PID, request * CHOICE_LANES + (uint64_t)index};
    const uint64_t last_ns = account->submit_ns + account->first.ns + account->decode.ns;
    const uint64_t end_ns = most(most(account->end_ns, account->last_ns), last_ns);
    const uint64_t first_ns =
        account->first_ns ? account->first_ns : account->submit_ns + account->first.ns;
    char name[64];
    lane_name(name, sizeof name, request, index);
    put_lane_name(out, request, index);
    slice_begin(out, lane, name, account->submit_ns, end_ns);
    jbuf_key(out, "id");
    jbuf_cstring(out, id);
    jbuf_put_int(out, "choice", index);
    jbuf_key(out, "finish");
    jbuf_cstring(out, finish == RN_FINISH_NONE ? NULL : rn_finish_text(finish));
    jbuf_put_int(out, "prompt_tokens", timings->prompt_tokens);
    jbuf_put_int(out, "cached_tokens", timings->cached_tokens);
    jbuf_put_int(out, "output_tokens", timings->output_tokens);
    slice_end(out);
    put_slice(out, lane, account->first_ns ? "to first token" : "no token", account->submit_ns,
              first_ns);
    put_share(out, lane, &account->first, account->submit_ns, first_ns);
    put_spans(out, lane, account);
    if (account->first_ns && end_ns > account->last_ns) {
        put_slice(out, lane, "after the last token", account->last_ns, end_ns);
        put_share(out, lane, &account->rest, account->last_ns, end_ns);
    }
}

void trace_record(struct jbuf *out, const struct record *record) {
    put_head(out);
    for (int i = 0; i < record->n_choices; i++) {
        const struct record_choice *choice = &record->choice[i];
        put_choice(out, record->request, record->id, choice->index, choice->finish,
                   &choice->timings, &choice->account);
    }
    jbuf_text(out, TRACE_TAIL);
}

static void put_token(struct jbuf *out, const rn_event *event) {
    const uint64_t lane = event->request * CHOICE_LANES + (uint64_t)event->choice;
    if (event->cause == RN_CAUSE_NONE) // the first one: a trace may stop before the choice ends
        put_lane_name(out, event->request, event->choice);
    jbuf_printf(out, ",\n{\"ph\":\"i\",\"s\":\"t\",\"pid\":%d,\"tid\":%llu,\"name\":\"%s\"",
                STREAMS_PID, (unsigned long long)lane, event->drafted ? "drafted token" : "token");
    put_us(out, "ts", event->time_ns);
    jbuf_printf(out, ",\"args\":{\"gap_ms\":%.6f,\"cause\":\"%s\"}}", event->gap_ms,
                rn_cause_name(event->cause));
}

// ---------------------------------------------------------------- steps

static void put_ops(struct jbuf *out, struct lane lane, const rn_step *step, uint64_t from_ns,
                    uint64_t to_ns) {
    for (int i = 0; i < RN_OPS_COUNT; i++) {
        const uint64_t end_ns = least(from_ns + step->ops_ns[i], to_ns);
        if (end_ns <= from_ns) continue;
        slice_begin(out, lane, rn_op_class_name((rn_op_class)i), from_ns, end_ns);
        jbuf_put_uint(out, "bytes", step->ops_bytes[i]);
        jbuf_put_uint(out, "flops", step->ops_flops[i]);
        slice_end(out);
        from_ns = end_ns;
    }
}

// The parts of a step one after the other: the engine measures how long they take in all.
static void put_stages(struct jbuf *out, struct lane lane, const rn_step *step, uint64_t from_ns) {
    const uint64_t host_end = least(from_ns + step->host_ns, step->end_ns);
    const uint64_t draft_end = least(host_end + step->draft_ns, step->end_ns);
    const uint64_t run_end = least(draft_end + step->run_ns, step->end_ns);
    const uint64_t choice_end = least(run_end + step->choice_ns, step->end_ns);
    put_slice(out, lane, "host", from_ns, host_end);
    put_slice(out, lane, "draft", host_end, draft_end);
    put_slice(out, lane, "run", draft_end, run_end);
    put_ops(out, lane, step, draft_end, run_end);
    put_slice(out, lane, "choice", run_end, choice_end);
}

static void put_counter(struct jbuf *out, const char *name, uint64_t ns) {
    jbuf_printf(out, ",\n{\"ph\":\"C\",\"pid\":%d,\"name\":\"%s\"", ENGINE_PID, name);
    put_us(out, "ts", ns);
    jbuf_text(out, ",\"args\":{");
}

static void put_counters(struct jbuf *out, uint64_t ns, uint32_t n_streams, uint32_t n_prompts,
                         double rate) {
    put_counter(out, "streams", ns);
    jbuf_put_uint(out, "streams", n_streams);
    jbuf_put_uint(out, "prompts", n_prompts);
    slice_end(out);
    put_counter(out, "tokens/s", ns);
    jbuf_put_real(out, "output", rate, 1);
    slice_end(out);
}

static void put_step(struct trace *trace, const rn_step *step) {
    struct jbuf *out = &trace->piece;
    int lane_index = 0;
    // nothing ran since the last step, and a counter would keep its value
    const uint64_t last_ns = trace->lane_end_ns[0];
    const uint64_t idle_ns = last_ns && step->begin_ns > last_ns ? last_ns : 0;
    while (lane_index < TRACE_STEP_LANES - 1 && trace->lane_end_ns[lane_index] > step->begin_ns)
        lane_index++;
    const uint64_t begin_ns = most(step->begin_ns, trace->lane_end_ns[lane_index]);
    if (step->end_ns <= begin_ns) return;
    const struct lane lane = {ENGINE_PID, 1 + (uint64_t)lane_index};
    if (!trace->lane_end_ns[lane_index]) {
        jbuf_text(out, ",\n");
        put_name(out, "thread_name", lane.pid, lane.tid,
                 lane_index ? "steps in flight beside others" : "steps");
    }
    trace->lane_end_ns[lane_index] = step->end_ns;
    slice_begin(out, lane, "step", begin_ns, step->end_ns);
    jbuf_put_uint(out, "index", step->index);
    jbuf_put_uint(out, "prompt_tokens", step->prompt_tokens);
    jbuf_put_uint(out, "stream_tokens", step->stream_tokens);
    jbuf_put_uint(out, "draft_tokens", step->draft_tokens);
    jbuf_put_uint(out, "accepted_tokens", step->accepted_tokens);
    jbuf_put_uint(out, "again_tokens", step->again_tokens);
    jbuf_put_real(out, "usual_ms", (double)step->usual_ns * 1e-6, 6);
    slice_end(out);
    put_stages(out, lane, step, begin_ns);
    const double seconds = (double)(step->end_ns - step->begin_ns) * 1e-9;
    if (idle_ns) put_counters(out, idle_ns, 0, 0, 0);
    put_counters(out, step->end_ns, step->n_streams, step->n_prompts,
                 (double)(step->stream_tokens + step->accepted_tokens) / seconds);
}

static void put_pages(struct trace *trace, const rn_engine *engine, uint64_t now_ns) {
    rn_engine_stats stats;
    rn_engine_get_stats(engine, &stats);
    put_counter(&trace->piece, "KV pages", now_ns);
    jbuf_put_uint(&trace->piece, "held", stats.pages_held);
    jbuf_put_uint(&trace->piece, "cached", stats.pages_cached);
    slice_end(&trace->piece);
    if (stats.states_total == 0) return;
    put_counter(&trace->piece, "states", now_ns);
    jbuf_put_uint(&trace->piece, "held", stats.states_held);
    jbuf_put_uint(&trace->piece, "cached", stats.states_cached);
    slice_end(&trace->piece);
}

// ---------------------------------------------------------------- a trace that grows

// Writes the piece, or stops where it would be too much.
static void piece_send(struct trace *trace) {
    struct jbuf *piece = &trace->piece;
    if (trace->bytes + piece->len + END_BYTES > trace->limit) {
        trace->full = true;
        if (trace->on_full) trace->on_full(trace->ctx);
    } else if (piece->failed || !trace->write(trace->ctx, piece->data, piece->len)) {
        trace->lost++;
    } else {
        trace->bytes += piece->len;
    }
    jbuf_clear(piece);
}

bool trace_open(struct trace *trace, trace_write_fn *write, void *ctx, uint64_t limit) {
    *trace = (struct trace){.write = write, .ctx = ctx, .limit = limit};
    trace->steps = malloc(STEPS_AT_ONCE * sizeof *trace->steps);
    put_head(&trace->piece);
    if (trace->steps && !trace->piece.failed) piece_send(trace);
    if (trace->bytes) return true;
    free(trace->steps);
    jbuf_deinit(&trace->piece);
    *trace = (struct trace){0};
    return false;
}

void trace_steps(struct trace *trace, const rn_engine *engine, uint64_t interval_ns) {
    const uint64_t now_ns = clock_ns();
    if (!trace->write || trace->full || now_ns - trace->steps_ns < interval_ns) return;
    trace->steps_ns = now_ns;
    size_t n, all = 0;
    do {
        n = rn_engine_steps(engine, trace->step, trace->steps, STEPS_AT_ONCE);
        for (size_t i = 0; i < n && !trace->full; i++) {
            put_step(trace, &trace->steps[i]);
            trace->step = trace->steps[i].index;
            if (trace->piece.len) piece_send(trace);
        }
        all += n;
    } while (n == STEPS_AT_ONCE && !trace->full);
    if (!all || trace->full) return;
    put_pages(trace, engine, now_ns);
    piece_send(trace);
}

void trace_event(struct trace *trace, const char *id, const rn_event *event) {
    if (!trace->write || trace->full) return;
    if (event->token >= 0) put_token(&trace->piece, event);
    if (event->finish != RN_FINISH_NONE && event->account && event->timings)
        put_choice(&trace->piece, event->request, id, event->choice, event->finish, event->timings,
                   event->account);
    if (trace->piece.len) piece_send(trace);
}

void trace_close(struct trace *trace) {
    if (trace->write) trace->write(trace->ctx, TRACE_TAIL, sizeof TRACE_TAIL - 1);
    free(trace->steps);
    jbuf_deinit(&trace->piece);
    trace->write = NULL;
    trace->steps = NULL;
}
