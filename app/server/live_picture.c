// The picture's JSON. Its size is bounded: pages by LIVE_CELLS, streams by LIVE_SHOWN_MAX, tokens
// by the tokens that live_streams.c keeps. The page's names are part of its interface (web/).
// Caller: live.c.
#include "live_picture.h"

#include <math.h>
#include <string.h>

#include "helpers.h"
#include "metrics.h"

enum { LIVE_CELLS = 4096, LIVE_SHOWN_MAX = 256 };

// ---------------------------------------------------------------- rates

void live_moments_add(struct live_moments *moments, uint64_t time_ns,
                      const rn_engine_stats *stats) {
    const uint64_t second = 1000000000;
    while (moments->n == LIVE_MOMENTS ||
           (moments->n > 1 && moments->moment[1].time_ns + second <= time_ns)) {
        moments->n--;
        memmove(moments->moment, moments->moment + 1, (size_t)moments->n * sizeof *moments->moment);
    }
    const rn_draft_stats drafts = metrics_drafts(stats);
    struct live_moment *moment = &moments->moment[moments->n++];
    *moment = (struct live_moment){
        .time_ns = time_ns,
        .steps = stats->steps,
        .output_tokens = stats->output_tokens,
        .computed_tokens = stats->computed_tokens,
        .run_ns = stats->run_ns,
        .busy_ns = stats->schedule_ns + stats->draft_ns + stats->batch_ns + stats->run_ns +
                   stats->sample_ns + stats->publish_ns,
        .refused_tokens = drafts.tokens - drafts.accepted,
        .bytes = stats->weight_bytes + stats->kv_bytes,
    };
    memcpy(moment->cause_ns, stats->cause_ns, sizeof moment->cause_ns);
}

static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

static struct live_moment moment_first(const struct live_moments *moments) {
    return moments->n ? moments->moment[0] : (struct live_moment){0};
}

static struct live_moment moment_last(const struct live_moments *moments) {
    return moments->n ? moments->moment[moments->n - 1] : (struct live_moment){0};
}

// The streams' time between their tokens in the last second, added up, by its causes.
static void put_causes(struct jbuf *out, const struct live_moments *moments) {
    const struct live_moment from = moment_first(moments), to = moment_last(moments);
    jbuf_key(out, "causes_ms");
    jbuf_text(out, "{");
    for (int i = 0; i < RN_CAUSE_COUNT; i++) {
        const uint64_t ns = to.cause_ns[i] - from.cause_ns[i];
        if (ns) jbuf_put_real(out, rn_cause_name((rn_cause)i), (double)ns * 1e-6, 3);
    }
    jbuf_text(out, "}");
}

// [operations, bytes, nanoseconds, prompt tokens, other tokens] of the last steps, for a roofline.
static void put_steps(struct jbuf *out, const struct live_picture *picture) {
    int n = 0;
    jbuf_put_real(out, "peak", picture->served->peak, 0);
    jbuf_key(out, "last_steps");
    jbuf_text(out, "[");
    for (size_t i = 0; i < picture->n_steps; i++) {
        const rn_step *step = &picture->step[i];
        uint64_t flops = 0, bytes = 0;
        for (int ops = 0; ops < RN_OPS_COUNT; ops++) {
            flops += step->ops_flops[ops];
            bytes += step->ops_bytes[ops];
        }
        if (!flops || !bytes || !step->run_ns) continue;
        jbuf_printf(out, "%s[%llu,%llu,%llu,%u,%u]", n++ ? "," : "", (unsigned long long)flops,
                    (unsigned long long)bytes, (unsigned long long)step->run_ns,
                    step->prompt_tokens,
                    step->stream_tokens + step->draft_tokens + step->again_tokens);
    }
    jbuf_text(out, "]");
}

static void put_rates(struct jbuf *out, const struct live_picture *picture) {
    const struct live_moment first = moment_first(picture->moments), *from = &first;
    const struct live_moment last = moment_last(picture->moments), *to = &last;
    const double seconds = (double)(to->time_ns - from->time_ns) * 1e-9;
    const double outputs = (double)(to->output_tokens - from->output_tokens);
    // Evaluated tokens are output tokens (without a text's last one), rejected drafts and prompt
    // tokens. The prompt tokens are the remainder.
    const double prompts = (double)(to->computed_tokens - from->computed_tokens) - outputs -
                           (double)(to->refused_tokens - from->refused_tokens);
    const double busy_ns = (double)(to->busy_ns - from->busy_ns);
    const double rate =
        ratio((double)(to->bytes - from->bytes) * 1e9, (double)(to->run_ns - from->run_ns));
    const double measured = picture->served->bandwidth;
    jbuf_put_real(out, "tokens_per_s", ratio(outputs, seconds), 2);
    jbuf_put_real(out, "prompt_tokens_per_s", ratio(fmax(prompts, 0), seconds), 2);
    jbuf_put_real(out, "step_ms", ratio(busy_ns * 1e-6, (double)(to->steps - from->steps)), 3);
    jbuf_put_real(out, "busy", fmin(ratio(busy_ns * 1e-9, seconds), 1), 3);
    jbuf_key(out, "bandwidth");
    jbuf_text(out, "{");
    jbuf_put_real(out, "measured", measured, 0);
    jbuf_put_real(out, "now", rate, 0);
    jbuf_put_real(out, "share", fmin(ratio(rate, measured), 1), 4);
    jbuf_text(out, "}");
}

// ---------------------------------------------------------------- pages

// A cell shows one page, or the fullest of several.
struct cell {
    uint8_t state;
    uint16_t holders;
    uint64_t owner; // a request
};

static int fullness(uint8_t state) {
    return state == RN_PAGE_HELD ? 2 : state == RN_PAGE_CACHED ? 1 : 0;
}

static bool is_fuller(const rn_page_view *page, const rn_page_view *than) {
    const int more = fullness(page->state) - fullness(than->state);
    return more > 0 || (!more && page->holders > than->holders);
}

static void put_run(struct jbuf *out, const struct live_streams *streams, struct cell cell,
                    size_t count) {
    const char last = out->data ? out->data[out->len - 1] : '[';
    jbuf_printf(out, "%s[%d,%llu,%d,%zu]", last == '[' ? "" : ",", cell.state,
                (unsigned long long)(cell.owner ? live_streams_number(streams, cell.owner) : 0),
                cell.holders, count);
}

// The pages of one kind in order, `scale` of them to a cell, as runs of equal cells.
static void put_cells(struct jbuf *out, const struct live_streams *streams,
                      const rn_page_view *page, size_t n_pages, bool is_state, size_t scale) {
    struct cell run = {0};
    size_t count = 0, i = 0;
    for (;;) {
        const rn_page_view *fullest = NULL;
        for (size_t n = 0; i < n_pages && n < scale; i++) {
            if (page[i].is_state != is_state) continue;
            n++;
            if (!fullest || is_fuller(&page[i], fullest)) fullest = &page[i];
        }
        if (!fullest) break;
        const struct cell cell = {.state = fullest->state,
                                  .holders = fullest->holders,
                                  .owner = fullest->owner};
        const bool same = count && cell.state == run.state && cell.holders == run.holders &&
                          cell.owner == run.owner;
        if (!same && count) put_run(out, streams, run, count);
        count = same ? count + 1 : 1;
        run = cell;
    }
    if (count) put_run(out, streams, run, count);
}

static size_t scale_of(size_t n_pages) {
    return n_pages ? (n_pages + LIVE_CELLS - 1) / LIVE_CELLS : 1;
}

void live_picture_pages(struct jbuf *out, const struct live_streams *streams,
                        const rn_page_view *page, size_t n_pages) {
    size_t n_states = 0;
    for (size_t i = 0; i < n_pages; i++) n_states += page[i].is_state;
    const size_t scale = scale_of(n_pages - n_states), state_scale = scale_of(n_states);
    jbuf_text(out, "\"pages\":[");
    put_cells(out, streams, page, n_pages, false, scale);
    jbuf_printf(out, "],\"page_scale\":%zu,\"states\":[", scale);
    put_cells(out, streams, page, n_pages, true, state_scale);
    jbuf_printf(out, "],\"state_scale\":%zu", state_scale);
}

// ---------------------------------------------------------------- streams

static const char *state_text(const struct live_stream *stream) {
    static const char *const text[] = {[RN_STREAM_WAITING] = "waiting",
                                       [RN_STREAM_PROMPT] = "prompt",
                                       [RN_STREAM_DECODE] = "decode",
                                       [RN_STREAM_PAUSED] = "paused"};
    return stream->ended ? "done" : text[stream->state];
}

static void put_tokens(struct jbuf *out, const struct live_stream *stream, uint64_t start_ns) {
    jbuf_key(out, "tokens");
    jbuf_text(out, "[");
    for (int i = 0; i < stream->n_tokens; i++) {
        const struct live_token *token = &stream->token[i];
        jbuf_printf(out, "%s[%.1f,\"%s\"]", i ? "," : "",
                    (double)(int64_t)(token->time_ns - start_ns) * 1e-6,
                    token->cause == RN_CAUSE_NONE ? "first" : rn_cause_name(token->cause));
    }
    jbuf_text(out, "]");
}

static void put_stream(struct jbuf *out, const struct live_stream *stream, struct owner owner,
                       uint64_t start_ns) {
    jbuf_text(out, "{");
    jbuf_put_uint(out, "n", stream->number);
    jbuf_key(out, "id");
    jbuf_cstring(out, owner_is(stream->owner, owner) ? stream->id : "");
    jbuf_put_uint(out, "request", stream->request);
    jbuf_put_uint(out, "choice", (uint64_t)stream->index);
    jbuf_key(out, "state");
    jbuf_cstring(out, state_text(stream));
    jbuf_put_uint(out, "prompt", (uint64_t)stream->prompt_tokens);
    jbuf_put_uint(out, "cached", (uint64_t)stream->cached_tokens);
    jbuf_put_uint(out, "done", (uint64_t)stream->done_tokens);
    jbuf_put_uint(out, "output", (uint64_t)stream->output_tokens);
    jbuf_put_uint(out, "drafted", (uint64_t)stream->draft_tokens);
    jbuf_put_uint(out, "accepted", (uint64_t)stream->accepted_tokens);
    jbuf_put_uint(out, "pages", stream->pages);
    put_tokens(out, stream, start_ns);
    jbuf_text(out, "}");
}

static bool waits(const struct live_stream *stream) {
    return !stream->ended && stream->state == RN_STREAM_WAITING;
}

// Waiting streams come last: they are left out first where there are too many.
static void put_streams(struct jbuf *out, const struct live_picture *picture) {
    int shown = 0;
    jbuf_key(out, "streams");
    jbuf_text(out, "[");
    for (int waiting = 0; waiting < 2; waiting++) {
        for (int i = 0; i < picture->streams->n && shown < LIVE_SHOWN_MAX; i++) {
            const struct live_stream *stream = &picture->streams->stream[i];
            if (!(stream->pictured || stream->ended) || waits(stream) != waiting) continue;
            if (shown++) jbuf_text(out, ",");
            put_stream(out, stream, picture->owner, picture->start_ns);
        }
    }
    jbuf_text(out, "]");
}

// ---------------------------------------------------------------- the whole

static void put_histogram(struct jbuf *out, const char *key, const struct histogram *histogram) {
    jbuf_key(out, key);
    jbuf_text(out, "{\"le\":[");
    for (int i = 0; i < histogram->n_bounds; i++) {
        jbuf_printf(out, "%s%g", i ? "," : "", histogram->bound[i]);
    }
    jbuf_text(out, "],\"count\":[");
    uint64_t below = 0;
    for (int i = 0; i <= histogram->n_bounds; i++) {
        below += histogram->count[i];
        jbuf_printf(out, "%s%llu", i ? "," : "", (unsigned long long)below);
    }
    jbuf_text(out, "]}");
}

static void put_server(struct jbuf *out, const struct live_picture *picture) {
    const struct served *served = picture->served;
    const rn_engine_info *info = &served->engine_info;
    jbuf_put_real(out, "time_ms", (double)(int64_t)(picture->time_ns - picture->start_ns) * 1e-6,
                  0);
    jbuf_key(out, "model");
    jbuf_cstring(out, served->name);
    jbuf_key(out, "phase");
    jbuf_cstring(out, atomic_load(&served->server->phase) == PHASE_DRAINING ? "draining" : "ready");
    jbuf_put_uint(out, "n_ctx", (uint64_t)info->n_ctx);
    jbuf_put_uint(out, "max_seqs", (uint64_t)info->max_seqs);
    jbuf_put_uint(out, "max_waiting", (uint64_t)served_waiting_max(info));
    jbuf_key(out, "kv_type");
    jbuf_cstring(out, info->kv_type);
}

static void put_counts(struct jbuf *out, const struct live_picture *picture) {
    const rn_engine_stats *stats = picture->stats;
    const rn_draft_stats drafts = metrics_drafts(stats);
    uint64_t paused = 0;
    for (int i = 0; i < picture->streams->n; i++) {
        const struct live_stream *stream = &picture->streams->stream[i];
        paused += !stream->ended && stream->state == RN_STREAM_PAUSED;
    }
    jbuf_put_uint(out, "steps", stats->steps);
    jbuf_put_uint(out, "running", (uint64_t)stats->running);
    jbuf_put_uint(out, "waiting", (uint64_t)stats->waiting);
    jbuf_put_uint(out, "paused", paused);
    jbuf_put_uint(out, "output_tokens", stats->output_tokens);
    jbuf_put_uint(out, "prompt_tokens", stats->prompt_tokens);
    jbuf_put_uint(out, "cached_tokens", stats->cached_tokens);
    jbuf_put_uint(out, "preemptions", stats->preemptions);
    jbuf_put_uint(out, "draft_tokens", drafts.tokens);
    jbuf_put_uint(out, "accepted_tokens", drafts.accepted);
    jbuf_key(out, "kv");
    jbuf_text(out, "{");
    jbuf_put_uint(out, "page_tokens", RN_PAGE_TOKENS);
    jbuf_put_uint(out, "total", stats->pages_total);
    jbuf_put_uint(out, "held", stats->pages_held);
    jbuf_put_uint(out, "shared", stats->pages_shared);
    jbuf_put_uint(out, "cached", stats->pages_cached);
    jbuf_put_uint(out, "bytes_held", stats->kv_held_bytes);
    jbuf_put_uint(out, "bytes_total", picture->served->engine_info.kv_bytes);
    jbuf_key(out, "states"); // of recurrent layers, in the same memory
    jbuf_text(out, "{");
    jbuf_put_uint(out, "total", stats->states_total);
    jbuf_put_uint(out, "held", stats->states_held);
    jbuf_put_uint(out, "cached", stats->states_cached);
    jbuf_put_uint(out, "bytes_held", stats->state_held_bytes);
    jbuf_put_uint(out, "bytes_cached", stats->state_cached_bytes);
    jbuf_put_uint(out, "bytes_sequence", picture->served->engine_info.state_bytes);
    jbuf_text(out, "}}");
}

void live_picture_write(struct jbuf *out, const struct live_picture *picture) {
    jbuf_text(out, "{");
    put_server(out, picture);
    put_counts(out, picture);
    put_rates(out, picture);
    put_causes(out, picture->moments);
    put_steps(out, picture);
    jbuf_text(out, ",");
    if (picture->pages->len) {
        jbuf_bytes(out, picture->pages->data, picture->pages->len);
    } else {
        live_picture_pages(out, picture->streams, NULL, 0);
    }
    put_streams(out, picture);
    put_histogram(out, "ttft", metrics_ttft(picture->served->metrics));
    put_histogram(out, "itl", metrics_itl(picture->served->metrics));
    jbuf_text(out, "}");
}
