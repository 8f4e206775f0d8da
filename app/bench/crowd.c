// An engine, requests on it, moments of a run. Only errors are printed here.
#include "bench/crowd.h"

#include <math.h>
#include <stdlib.h>

#include "run/engine.h"
#include "terminal/interrupt.h"

// ---------------------------------------------------------------- engine

int crowd_engine_create(struct bench_place *place, const rn_engine_options *special,
                        rn_engine **out) {
    const struct bench_config *config = place->bench->config;
    struct progress progress;
    rn_engine_options options = *special;
    options.backend = config->place.backend;
    options.device = config->place.device;
    options.draft_backend = config->draft_backend;
    options.draft_device = config->draft_device;
    options.isa = config->isa;
    options.kv_type = config->kv_type;
    options.no_pin = config->no_pin;
    options.max_waiting = options.max_seqs;
    options.batch_tokens =
        config->batch_tokens > options.max_seqs ? config->batch_tokens : options.max_seqs;
    options.kv_bytes = config->memory.kv_bytes;
    options.kv_pages = config->memory.kv_pages;
    options.progress = progress_update;
    options.progress_ctx = &progress;
    if (options.n_ctx > place->info->n_ctx_train)
        return app_fail(APP_USAGE, "requests of %d positions are more than the model's context, %d",
                        options.n_ctx, place->info->n_ctx_train);
    rn_error err = {0};
    progress_begin(&progress, place->bench->term, config->quiet, "loading");
    const rn_status status = rn_engine_create(place->model, &options, out, &err);
    progress_end(&progress);
    if (status) return app_engine_fail(place->model, options.draft, &err);
    rn_engine_info info;
    rn_engine_get_info(*out, &info);
    bench_place_set(place, info.backend, info.isa, info.kv_type, info.n_threads);
    bench_warn_slow(place->bench, info.slow_formats, info.isa);
    interrupt_watch(); // from now on there may be rows to show
    return APP_OK;
}

// ---------------------------------------------------------------- requests

uint64_t crowd_hash(uint64_t value) {
    uint64_t x = value + 0x9e3779b97f4a7c15u; // splitmix64
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

int32_t crowd_prompt_id(int request, int position, int n_vocab) {
    const uint64_t place = (uint64_t)(uint32_t)request << 32 | (uint32_t)position;
    return (int32_t)(crowd_hash(place) % (uint64_t)n_vocab);
}

rn_sampling crowd_sampling(const rn_model_info *info, bool sample, int request) {
    rn_sampling sampling = rn_sampling_neutral();
    sampling.temperature = sample ? info->temperature : 0;
    sampling.top_k = info->top_k;
    sampling.top_p = info->top_p;
    sampling.min_p = info->min_p;
    if (sample) sampling.repetition_penalty = info->repeat_penalty;
    sampling.has_seed = true;
    sampling.seed = (uint64_t)request;
    return sampling;
}

int crowd_init(struct crowd *crowd, rn_engine *engine, int n, size_t max_gaps, int kept) {
    *crowd = (struct crowd){.engine = engine,
                            .n = n,
                            .kept = kept,
                            .stream = calloc((size_t)n, sizeof *crowd->stream),
                            .token = kept ? calloc((size_t)n * (size_t)kept, sizeof *crowd->token)
                                          : NULL,
                            .gap_ms = calloc(max_gaps ? max_gaps : 1, sizeof *crowd->gap_ms),
                            .max_gaps = max_gaps};
    if (!crowd->stream || !crowd->gap_ms || (kept && !crowd->token)) {
        crowd_deinit(crowd);
        return app_fail(APP_FAILED, "out of memory");
    }
    for (int i = 0; i < n && kept; i++)
        crowd->stream[i].token = crowd->token + (size_t)i * (size_t)kept;
    return APP_OK;
}

void crowd_deinit(struct crowd *crowd) {
    free(crowd->stream);
    free(crowd->token);
    free(crowd->gap_ms);
}

int crowd_submit(struct crowd *crowd, int index, const rn_request *request) {
    struct crowd_stream *stream = &crowd->stream[index];
    rn_request whole = *request;
    uint64_t id;
    rn_error err = {0};
    whole.data = stream;
    whole.ignore_eos = true;
    *stream = (struct crowd_stream){.submit_ns = clock_ns(), .token = stream->token};
    const rn_status status = rn_engine_submit(crowd->engine, &whole, &id, &err);
    return status ? app_fail_error(&err) : APP_OK;
}

static void token_note(struct crowd *crowd, struct crowd_stream *stream, int32_t token) {
    if (stream->n_out < crowd->kept) stream->token[stream->n_out] = token;
    if (stream->n_out++ == 0) {
        stream->first_ns = crowd->now_ns;
        crowd->n_started++;
    } else if (crowd->n_gaps < crowd->max_gaps) {
        crowd->gap_ms[crowd->n_gaps++] = (double)(crowd->now_ns - stream->last_ns) * 1e-6;
    }
    stream->last_ns = crowd->now_ns;
    crowd->n_out++;
}

static void finish_note(struct crowd *crowd, struct crowd_stream *stream, const rn_timings *t) {
    struct crowd_sums *sums = crowd->sums;
    stream->done = true;
    crowd->n_done++;
    if (!sums) return;
    sums->tokens += t->output_tokens > 0 ? (uint64_t)t->output_tokens - 1 : 0;
    sums->steps += t->decode_steps;
    sums->bytes += t->decode_bytes;
    sums->drafted += (uint64_t)t->draft_tokens;
    sums->accepted += (uint64_t)t->accepted_tokens;
    sums->draft_steps += (uint64_t)t->draft_steps;
    sums->decode_ms += t->decode_ms;
    sums->undrafted_ms += t->undrafted_ms;
}

int crowd_step(struct crowd *crowd) {
    if (interrupt_seen()) return APP_INTERRUPTED;
    bool busy = false;
    rn_status status = rn_engine_step(crowd->engine, &busy);
    crowd->now_ns = clock_ns();
    for (rn_event event; !status && rn_engine_next_event(crowd->engine, &event);) {
        if (event.token >= 0) token_note(crowd, event.data, event.token);
        if (event.finish == RN_FINISH_ERROR) status = event.status;
        if (event.finish != RN_FINISH_NONE) finish_note(crowd, event.data, event.timings);
    }
    if (status) return app_fail(APP_FAILED, "%s", rn_status_text(status));
    if (!busy && crowd->n_done < crowd->n) return app_fail(APP_FAILED, "the engine lost a request");
    return APP_OK;
}

// ---------------------------------------------------------------- moments

void crowd_mark_set(const struct crowd *crowd, struct crowd_mark *out) {
    out->ns = crowd->now_ns;
    out->n_out = crowd->n_out;
    rn_engine_get_stats(crowd->engine, &out->stats);
}

void crowd_window_begin(struct crowd *crowd, struct crowd_window *out) {
    *out = (struct crowd_window){0};
    crowd->now_ns = clock_ns();
    crowd_mark_set(crowd, &out->start);
}

static void window_look(const struct crowd *crowd, struct crowd_window *w) {
    if (crowd->n_out > 0 && w->first.ns == 0) crowd_mark_set(crowd, &w->first);
    if (crowd->n_done > 0 && w->ended.ns == 0) crowd_mark_set(crowd, &w->ended);
    if (crowd->n_started == crowd->n && w->all.ns == 0) crowd_mark_set(crowd, &w->all);
}

int crowd_finish(struct crowd *crowd, struct crowd_window *window) {
    while (crowd->n_done < crowd->n) {
        const int code = crowd_step(crowd);
        if (code) return code;
        window_look(crowd, window);
    }
    crowd_mark_set(crowd, &window->end);
    return APP_OK;
}

bool crowd_window_ends(const struct crowd_window *window, const struct crowd_mark **from,
                       const struct crowd_mark **to) {
    const bool decode_only = window->ended.ns > window->all.ns;
    *from = decode_only ? &window->all : &window->first;
    *to = decode_only ? &window->ended : &window->end;
    return decode_only;
}

double crowd_rate(const struct crowd_mark *from, const struct crowd_mark *to) {
    const double ns = (double)(to->ns - from->ns);
    return ns > 0 ? (double)(to->n_out - from->n_out) * 1e9 / ns : (double)NAN;
}
