// The families of a model in /metrics: the counters of metrics.c and of the engine, in Prometheus'
// text form 0.0.4. Families of one kind are tables, so that a name is in one place. vLLM's names
// carry its labels; before the model is there its families are at zero.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "helpers.h"
#include "kv_events.h"
#include "scrape.h"

// ---------------------------------------------------------------- lines

// Quotes, backslashes and line ends are escaped; invalid UTF-8 becomes U+FFFD.
void scrape_label(struct jbuf *out, const char *name, const char *value) {
    jbuf_printf(out, "%s=\"", name);
    for (size_t n, left = strlen(value); left; value += n, left -= n) {
        const bool sound = unicode_decode((const uint8_t *)value, left, &n) >= 0;
        if (!sound) {
            jbuf_text(out, "\xEF\xBF\xBD");
        } else if (*value == '\n') {
            jbuf_text(out, "\\n");
        } else {
            if (*value == '"' || *value == '\\') jbuf_text(out, "\\");
            jbuf_bytes(out, value, n);
        }
    }
    jbuf_text(out, "\"");
}

void scrape_family(struct jbuf *out, const char *name, const char *type, const char *help) {
    jbuf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void scrape_value(struct jbuf *out, double value) {
    if (isnan(value)) {
        jbuf_text(out, " NaN\n");
    } else {
        jbuf_printf(out, " %.15g\n", value);
    }
}

// name{labels,key="text"} value; key NULL: without.
void scrape_sample(struct scrape *scrape, const char *name, const char *key, const char *text,
                   double value) {
    struct jbuf *out = scrape->out;
    jbuf_printf(out, "%s{", name);
    jbuf_bytes(out, scrape->labels.data, scrape->labels.len);
    if (key) {
        jbuf_text(out, ",");
        scrape_label(out, key, text);
    }
    jbuf_text(out, "}");
    scrape_value(out, value);
}

// A family of one sample.
void scrape_single(struct scrape *scrape, const char *name, const char *type, const char *help,
                   double value) {
    scrape_family(scrape->out, name, type, help);
    scrape_sample(scrape, name, NULL, NULL, value);
}

// A bound as vLLM's client library writes it: 1 is "1.0".
static void put_bound(struct jbuf *out, double bound) {
    char text[32];
    snprintf(text, sizeof text, "%g", bound);
    jbuf_printf(out, ",le=\"%s%s\"} ", text, strpbrk(text, ".e") ? "" : ".0");
}

// The samples of a histogram; labels: the text in the braces before le.
static void put_histogram(struct jbuf *out, const char *name, const struct jbuf *labels,
                          const struct histogram *histogram) {
    uint64_t below = 0;
    for (int i = 0; i <= histogram->n_bounds; i++) {
        jbuf_printf(out, "%s_bucket{", name);
        jbuf_bytes(out, labels->data, labels->len);
        if (i < histogram->n_bounds) {
            put_bound(out, histogram->bound[i]);
        } else {
            jbuf_text(out, ",le=\"+Inf\"} ");
        }
        below += histogram->count[i];
        jbuf_uint(out, below);
        jbuf_text(out, "\n");
    }
    jbuf_printf(out, "%s_sum{", name);
    jbuf_bytes(out, labels->data, labels->len);
    jbuf_printf(out, "} %.15g\n%s_count{", histogram->sum, name);
    jbuf_bytes(out, labels->data, labels->len);
    jbuf_text(out, "} ");
    jbuf_uint(out, histogram->total);
    jbuf_text(out, "\n");
}

// ---------------------------------------------------------------- vLLM's

static const struct {
    const char *name, *help;
} histogram_text[HISTOGRAM_COUNT] = {
    [HISTOGRAM_TTFT] = {"vllm:time_to_first_token_seconds", "Time to first token."},
    [HISTOGRAM_ITL] = {"vllm:inter_token_latency_seconds",
                       "Time between two tokens of a request, by engine step."},
    [HISTOGRAM_PER_TOKEN] = {"vllm:request_time_per_output_token_seconds",
                             "Time per output token after the first, by request."},
    [HISTOGRAM_E2E] = {"vllm:e2e_request_latency_seconds", "Time of a request to its end."},
    [HISTOGRAM_QUEUE] = {"vllm:request_queue_time_seconds", "Time a request waited to start."},
    [HISTOGRAM_INFERENCE] = {"vllm:request_inference_time_seconds",
                             "Time from a request's first step to its last."},
    [HISTOGRAM_PREFILL] = {"vllm:request_prefill_time_seconds",
                           "Time from a request's first step to its first token."},
    [HISTOGRAM_DECODE] = {"vllm:request_decode_time_seconds",
                          "Time from a request's first token to its last."},
    [HISTOGRAM_PROMPT_TOKENS] = {"vllm:request_prompt_tokens", "Tokens of a request's prompt."},
    [HISTOGRAM_OUTPUT_TOKENS] = {"vllm:request_generation_tokens",
                                 "Tokens that a request was given."},
    [HISTOGRAM_MAX_TOKENS] = {"vllm:request_max_num_generation_tokens",
                              "Tokens of a request's longest choice."},
};

static void put_histograms(struct scrape *scrape) {
    static const char old[] = "vllm:time_per_output_token_seconds";
    const struct metrics_histogram *histogram = scrape->served->metrics->histogram;
    for (int i = 0; i < HISTOGRAM_COUNT; i++) {
        scrape_family(scrape->out, histogram_text[i].name, "histogram", histogram_text[i].help);
        put_histogram(scrape->out, histogram_text[i].name, &scrape->labels, &histogram[i].shown);
    }
    scrape_family(scrape->out, old, "histogram",
                  "The same as vllm:inter_token_latency_seconds, for older dashboards.");
    put_histogram(scrape->out, old, &scrape->labels, &histogram[HISTOGRAM_ITL].shown);
}

// The engine counts its steps by size.
static void put_step_tokens(struct scrape *scrape) {
    static const char name[] = "vllm:iteration_tokens_total";
    static const double bound[RN_STEP_SIZES - 1] = {1,   8,    16,   32,   64,   128,  256,
                                                    512, 1024, 2048, 4096, 8192, 16384};
    rn_engine_stats *stats = &scrape->stats;
    scrape_family(scrape->out, name, "histogram", "Tokens that a step of the engine evaluated.");
    put_histogram(scrape->out, name, &scrape->labels,
                  &(struct histogram){.bound = bound,
                                      .n_bounds = RN_STEP_SIZES - 1,
                                      .count = stats->steps_of,
                                      .sum = (double)stats->step_tokens,
                                      .total = stats->steps});
}

// ---------------------------------------------------------------- OpenTelemetry's

static void put_gen_ai_series(struct scrape *scrape, const char *name,
                              const struct metrics_gen_ai *series) {
    const char *model = scrape->served->name;
    struct jbuf labels = {0};
    scrape_label(&labels, "gen_ai_operation_name", series->operation);
    jbuf_text(&labels, ",gen_ai_provider_name=\"runnel\",");
    scrape_label(&labels, "gen_ai_request_model", model);
    jbuf_text(&labels, ",");
    scrape_label(&labels, "gen_ai_response_model", model);
    if (*series->error) {
        jbuf_text(&labels, ",");
        scrape_label(&labels, "error_type", series->error);
    }
    if (labels.failed) scrape->out->failed = true;
    put_histogram(scrape->out, name, &labels, &series->histogram.shown);
    jbuf_deinit(&labels);
}

static void put_gen_ai(struct scrape *scrape) {
    static const struct {
        const char *name, *help;
    } text[GEN_AI_COUNT] = {
        [GEN_AI_DURATION] = {"gen_ai_server_request_duration_seconds",
                             "Time of a request to its last byte."},
        [GEN_AI_TTFT] = {"gen_ai_server_time_to_first_token_seconds",
                         "Time to the first token of a request without an error."},
        [GEN_AI_PER_TOKEN] = {"gen_ai_server_time_per_output_token_seconds",
                              "Time per output token after the first, without errors."},
    };
    const struct model_metrics *metrics = scrape->served->metrics;
    for (int id = 0; id < GEN_AI_COUNT; id++) {
        scrape_family(scrape->out, text[id].name, "histogram", text[id].help);
        for (int i = 0; i < metrics->n_gen_ai; i++)
            if ((int)metrics->gen_ai[i].id == id)
                put_gen_ai_series(scrape, text[id].name, &metrics->gen_ai[i]);
    }
}

static void put_requests(struct scrape *scrape) {
    const rn_engine_stats *stats = &scrape->stats;
    scrape_single(scrape, "vllm:num_requests_running", "gauge", "Requests' choices that run now.",
                  stats->running);
    // requests that wait for their model have no choices yet
    scrape_single(scrape, "vllm:num_requests_waiting", "gauge", "Requests' choices that wait now.",
                  stats->waiting + scrape->served->n_waiting);
    const double held =
        scrape->info.kv_bytes ? (double)stats->kv_held_bytes / (double)scrape->info.kv_bytes : 0;
    scrape_single(scrape, "vllm:kv_cache_usage_perc", "gauge",
                  "Share of the memory for KV pages and states that requests hold, 1 is all of it.",
                  held);
    scrape_single(scrape, "vllm:gpu_cache_usage_perc", "gauge",
                  "The same as vllm:kv_cache_usage_perc, for older dashboards.", held);
    static const char name[] = "vllm:request_success_total";
    scrape_family(scrape->out, name, "counter", "Requests' choices by how they ended.");
    scrape_sample(scrape, name, "finished_reason", "stop", (double)stats->stopped);
    scrape_sample(scrape, name, "finished_reason", "length", (double)stats->lengthy);
    scrape_sample(scrape, name, "finished_reason", "abort", (double)stats->cancelled);
    scrape_sample(scrape, name, "finished_reason", "error", (double)stats->failed);
}

static void put_counters(struct scrape *scrape) {
    const rn_engine_stats *stats = &scrape->stats;
    const rn_draft_stats drafts = metrics_drafts(stats);
    const struct {
        const char *name, *help;
        uint64_t value;
    } counter[] = {
        {"vllm:prompt_tokens_total", "Tokens of prompts.", stats->prompt_tokens},
        {"vllm:generation_tokens_total", "Tokens that were generated.", stats->output_tokens},
        {"vllm:prefix_cache_queries_total", "Tokens of prompts that were looked up.",
         stats->prompt_tokens},
        {"vllm:prefix_cache_hits_total", "Tokens of prompts that were found.",
         stats->cached_tokens},
        {"vllm:gpu_prefix_cache_queries_total", "vllm:prefix_cache_queries_total, as it was once.",
         stats->prompt_tokens},
        {"vllm:gpu_prefix_cache_hits_total", "vllm:prefix_cache_hits_total, as it was once.",
         stats->cached_tokens},
        {"vllm:num_preemptions_total", "Times that a request gave its pages to others.",
         stats->preemptions},
        {"vllm:spec_decode_num_drafts_total", "Drafts that were verified.", drafts.drafts},
        {"vllm:spec_decode_num_draft_tokens_total", "Tokens that were drafted and verified.",
         drafts.tokens},
        {"vllm:spec_decode_num_accepted_tokens_total", "Drafted tokens that were accepted.",
         drafts.accepted},
        {"runnel:steps_total", "Steps of the engine.", stats->steps},
        {"runnel:computed_tokens_total", "Tokens that were evaluated, of prompts and outputs.",
         stats->computed_tokens},
        {"runnel:kv_evictions_total", "Cached KV pages that were given to others.",
         stats->evictions},
        {"runnel:state_evictions_total",
         "Cached states of recurrent layers whose memory was given to others.",
         stats->state_evictions},
    };
    for (size_t i = 0; i < sizeof counter / sizeof *counter; i++)
        scrape_single(scrape, counter[i].name, "counter", counter[i].help,
                      (double)counter[i].value);
}

static void put_store(struct scrape *scrape) {
    const rn_store_stats *store = &scrape->store;
    if (!scrape->has_store && scrape->alone) return; // all models have the same families
    const struct {
        const char *name, *help;
        uint64_t value;
        bool is_gauge;
    } row[] = {
        {"runnel:store_bytes", "Bytes of the pages in the page store.", store->bytes, true},
        {"runnel:store_pages", "Pages in the page store.", store->pages, true},
        {"runnel:store_ready", "1 when pages are stored and found.", store->is_ready, true},
        {"runnel:store_stopped", "1 while the disk is full or fails, and nothing is written.",
         store->is_stopped, true},
        {"runnel:store_hits_total", "Pages that were read from the store and used.", store->hits,
         false},
        {"runnel:store_misses_total", "Prompts of which the store had nothing more than memory.",
         store->misses, false},
        {"runnel:store_refused_total", "Prompts that computing was expected to be faster for.",
         store->refused, false},
        {"runnel:store_read_bytes_total", "Bytes of pages that were read.", store->read_bytes,
         false},
        {"runnel:store_written_total", "Pages that were written.", store->written, false},
        {"runnel:store_written_bytes_total", "Bytes of pages that were written.",
         store->written_bytes, false},
        {"runnel:store_evictions_total", "Pages that made room for others.", store->evictions,
         false},
        {"runnel:store_dropped_total",
         "Pages that were not written, because the writer was behind.", store->dropped, false},
        {"runnel:store_removed_total", "Files with wrong bytes that were removed.", store->removed,
         false},
        {"runnel:store_errors_total", "Failures of the disk.", store->errors, false},
        {"runnel:store_memory_bytes", "Bytes of stored pages in the host's memory.",
         store->memory_bytes, true},
        {"runnel:store_memory_pages", "Stored pages in the host's memory.", store->memory_pages,
         true},
        {"runnel:store_memory_hits_total", "Of the hits, pages that came from the host's memory.",
         store->memory_hits, false},
        {"runnel:store_memory_evictions_total",
         "Pages in the host's memory that made room for others.", store->memory_evictions, false},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        scrape_single(scrape, row[i].name, row[i].is_gauge ? "gauge" : "counter", row[i].help,
                      (double)row[i].value);
}

// By place in the draft, as far as drafts may go.
static void put_accepted(struct scrape *scrape) {
    static const char name[] = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
    scrape_family(scrape->out, name, "counter",
                  "Drafted tokens that were accepted, by their position in the draft.");
    const int most = served_drafts(scrape->served) ? scrape->info.draft_max : 0;
    for (int i = 0; i < most && i < RN_MAX_DRAFT; i++) {
        char position[16];
        snprintf(position, sizeof position, "%d", i);
        scrape_sample(scrape, name, "position", position, (double)scrape->stats.accepted_at[i]);
    }
}

// The block size and count that load balancers look for.
static void put_cache_config(struct scrape *scrape) {
    static const char name[] = "vllm:cache_config_info";
    // a model of states alone has no KV pages
    const uint32_t pages = scrape->stats.pages_total;
    const uint32_t blocks = pages ? pages : scrape->stats.states_total;
    struct jbuf *out = scrape->out;
    scrape_family(out, name, "gauge", "The KV pages, as labels.");
    jbuf_printf(out, "%s{", name);
    jbuf_bytes(out, scrape->labels.data, scrape->labels.len);
    jbuf_printf(out, ",block_size=\"%d\",num_gpu_blocks=\"%u\",", RN_PAGE_TOKENS, blocks);
    scrape_label(out, "cache_dtype", scrape->ready ? scrape->info.kv_type : "");
    jbuf_text(out, "} 1\n");
}

// No adapter is ever loaded; the value is the time of the scrape.
static void put_adapters(struct scrape *scrape) {
    static const char name[] = "vllm:lora_requests_info";
    scrape_family(scrape->out, name, "gauge",
                  "Adapters of running and waiting requests, as labels.");
    jbuf_printf(scrape->out, "%s{", name);
    jbuf_bytes(scrape->out, scrape->labels.data, scrape->labels.len);
    jbuf_text(scrape->out,
              ",max_lora=\"0\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"}");
    scrape_value(scrape->out, (double)time(NULL));
}

// ---------------------------------------------------------------- runnel's own

static void put_bytes(struct scrape *scrape) {
    const rn_engine_stats *stats = &scrape->stats;
    const struct metrics_work recent = metrics_recent_work(scrape->served->metrics, stats);
    const double steps = (double)recent.steps, seconds = (double)recent.run_ns * 1e-9;
    scrape_single(scrape, "runnel:step_bytes", "gauge",
                  "Bytes that a step had to read, mean over the last seconds of work.",
                  recent.steps ? (double)recent.bytes / steps : 0);
    const double measured = scrape->ready ? scrape->served->bandwidth : 0;
    const double share = recent.run_ns ? (double)recent.bytes / seconds / measured : 0;
    scrape_single(scrape, "runnel:bandwidth_share", "gauge",
                  "Bytes read per second of work, over the last seconds of it, as a share of the "
                  "machine's measured bandwidth.",
                  measured > 0 ? fmin(share, 1) : (double)NAN);
    scrape_single(scrape, "runnel:bandwidth_bytes_per_second", "gauge",
                  "The machine's measured read bandwidth, 0 when unknown.", measured);
    static const char name[] = "runnel:read_bytes_total";
    scrape_family(scrape->out, name, "counter",
                  "Bytes that steps had to read. Kind kv includes states, which are written too.");
    scrape_sample(scrape, name, "kind", "weights", (double)stats->weight_bytes);
    scrape_sample(scrape, name, "kind", "kv", (double)stats->kv_bytes);
}

static void put_pages(struct scrape *scrape) {
    const rn_engine_stats *stats = &scrape->stats;
    static const char pages[] = "runnel:kv_pages";
    // states take the memory of pages
    const double states = (double)(stats->state_held_bytes + stats->state_cached_bytes);
    const double taken =
        (double)stats->pages_held + (double)stats->pages_cached +
        (states > 0 ? ceil(stats->pages_total * states / (double)scrape->info.kv_bytes) : 0);
    scrape_family(scrape->out, pages, "gauge", "KV pages by state.");
    scrape_sample(scrape, pages, "state", "held", stats->pages_held);
    scrape_sample(scrape, pages, "state", "cached", stats->pages_cached);
    scrape_sample(scrape, pages, "state", "free", fmax((double)stats->pages_total - taken, 0));
    scrape_single(scrape, "runnel:kv_pages_shared", "gauge",
                  "KV pages that are held more than once.", stats->pages_shared);
    static const char bytes[] = "runnel:kv_bytes";
    scrape_family(scrape->out, bytes, "gauge", "Memory of KV pages by state, without states.");
    scrape_sample(scrape, bytes, "state", "held",
                  (double)(stats->kv_held_bytes - stats->state_held_bytes));
    scrape_sample(scrape, bytes, "state", "cached",
                  (double)(stats->kv_cached_bytes - stats->state_cached_bytes));
    scrape_single(scrape, "runnel:kv_capacity_bytes", "gauge",
                  "Memory of the engine for KV pages and states.", (double)scrape->info.kv_bytes);
}

// Of recurrent layers; all 0 where a model has none.
static void put_states(struct scrape *scrape) {
    const rn_engine_stats *stats = &scrape->stats;
    static const char states[] = "runnel:states", bytes[] = "runnel:state_bytes";
    scrape_family(scrape->out, states, "gauge",
                  "States of recurrent layers: held by requests, cached for prefixes.");
    scrape_sample(scrape, states, "state", "held", stats->states_held);
    scrape_sample(scrape, states, "state", "cached", stats->states_cached);
    scrape_family(scrape->out, bytes, "gauge", "Memory of these states.");
    scrape_sample(scrape, bytes, "state", "held", (double)stats->state_held_bytes);
    scrape_sample(scrape, bytes, "state", "cached", (double)stats->state_cached_bytes);
    scrape_single(scrape, "runnel:state_sequence_bytes", "gauge",
                  "Memory of the states of one sequence, whatever its length.",
                  (double)scrape->info.state_bytes);
}

static void put_engine(struct scrape *scrape) {
    const rn_engine_stats *stats = &scrape->stats;
    scrape_single(scrape, "runnel:queue_capacity", "gauge", "Requests' choices that may wait.",
                  served_waiting_max(&scrape->info));
    scrape_single(scrape, "runnel:sequence_capacity", "gauge", "Requests' choices that may run.",
                  scrape->info.max_seqs);
    static const char name[] = "runnel:step_phase_seconds_total";
    scrape_family(scrape->out, name, "counter", "Time of the steps by what they did.");
    scrape_sample(scrape, name, "phase", "schedule", (double)stats->schedule_ns * 1e-9);
    scrape_sample(scrape, name, "phase", "draft", (double)stats->draft_ns * 1e-9);
    scrape_sample(scrape, name, "phase", "batch", (double)stats->batch_ns * 1e-9);
    scrape_sample(scrape, name, "phase", "run", (double)stats->run_ns * 1e-9);
    scrape_sample(scrape, name, "phase", "sample", (double)stats->sample_ns * 1e-9);
    scrape_sample(scrape, name, "phase", "publish", (double)stats->publish_ns * 1e-9);
    scrape_single(scrape, "runnel:device_idle_seconds_total", "counter",
                  "Time of the device between steps that followed each other; 0: it does not say.",
                  (double)stats->idle_ns * 1e-9);
    scrape_single(scrape, "runnel:late_steps_total", "counter",
                  "Steps that were handed over when the step before had ended.",
                  (double)stats->late_steps);
}

// The server has no drafter of its own.
static void put_drafts(struct scrape *scrape) {
    static const char tokens[] = "runnel:draft_tokens_total";
    static const char accepted[] = "runnel:accepted_tokens_total";
    const rn_engine_stats *stats = &scrape->stats;
    scrape_family(scrape->out, tokens, "counter",
                  "Tokens that were drafted and verified, by drafter.");
    for (int i = 0; i < RN_DRAFTER_CUSTOM; i++)
        scrape_sample(scrape, tokens, "drafter", rn_drafter_text((rn_drafter)i),
                      (double)stats->draft[i].tokens);
    scrape_family(scrape->out, accepted, "counter",
                  "Drafted tokens that were accepted, by drafter.");
    for (int i = 0; i < RN_DRAFTER_CUSTOM; i++)
        scrape_sample(scrape, accepted, "drafter", rn_drafter_text((rn_drafter)i),
                      (double)stats->draft[i].accepted);
    scrape_single(scrape, "runnel:draft_seconds_total", "counter", "Time that drafting took.",
                  (double)stats->draft_ns * 1e-9);
    scrape_single(scrape, "runnel:draft_speedup", "gauge",
                  "How many times faster streams got their tokens than without drafts.",
                  stats->stream_ns ? (double)stats->undrafted_ns / (double)stats->stream_ns
                                   : (double)NAN);
}

static void put_gaps(struct scrape *scrape) {
    static const char name[] = "runnel:gap_seconds";
    scrape_family(scrape->out, name, "histogram",
                  "Time between two tokens of a request, by what it was mostly spent on.");
    const size_t len = scrape->labels.len;
    for (int i = RN_CAUSE_NONE + 1; i < RN_CAUSE_COUNT; i++) {
        jbuf_text(&scrape->labels, ",");
        scrape_label(&scrape->labels, "cause", rn_cause_name((rn_cause)i));
        put_histogram(scrape->out, name, &scrape->labels, &scrape->served->metrics->gap[i].shown);
        scrape->labels.len = len;
    }
}

// The ledger's sums: time by cause, work by class of ops.
static void put_causes(struct scrape *scrape) {
    static const char between[] = "runnel:stream_seconds_total";
    static const char before[] = "runnel:first_token_seconds_total";
    const rn_engine_stats *stats = &scrape->stats;
    scrape_family(scrape->out, between, "counter",
                  "Time between tokens of all streams, divided among its causes.");
    for (int i = RN_CAUSE_NONE + 1; i < RN_CAUSE_COUNT; i++)
        scrape_sample(scrape, between, "cause", rn_cause_name((rn_cause)i),
                      (double)stats->cause_ns[i] * 1e-9);
    scrape_family(scrape->out, before, "counter",
                  "Time to the first tokens of all streams, divided among its causes.");
    for (int i = RN_CAUSE_NONE + 1; i < RN_CAUSE_COUNT; i++)
        scrape_sample(scrape, before, "cause", rn_cause_name((rn_cause)i),
                      (double)stats->first_ns[i] * 1e-9);
}

static void put_ops_family(struct scrape *scrape, const char *name, const char *help,
                           const double value[RN_OPS_COUNT]) {
    scrape_family(scrape->out, name, "counter", help);
    for (int i = 0; i < RN_OPS_COUNT; i++)
        scrape_sample(scrape, name, "ops", rn_op_class_name((rn_op_class)i), value[i]);
}

static void put_ops(struct scrape *scrape) {
    const rn_engine_stats *stats = &scrape->stats;
    double seconds[RN_OPS_COUNT], bytes[RN_OPS_COUNT];
    for (int i = 0; i < RN_OPS_COUNT; i++) {
        seconds[i] = (double)stats->ops_ns[i] * 1e-9;
        bytes[i] = (double)stats->ops_bytes[i];
    }
    put_ops_family(scrape, "runnel:op_seconds_total", "Time of steps by class of operations.",
                   seconds);
    put_ops_family(scrape, "runnel:op_bytes_total",
                   "Bytes of weights and KV that steps had to move, by class.", bytes);
    put_ops_family(scrape, "runnel:op_flops_total",
                   "Operations that steps had to compute, by class.", stats->ops_flops);
}

void scrape_submitted(struct scrape *scrape) {
    scrape_single(scrape, "runnel:choices_submitted", "gauge",
                  "Requests' choices that the engine has, running or waiting.",
                  scrape->served->load);
}

// ---------------------------------------------------------------- models

void scrape_begin(struct scrape *scrape, const struct served *served) {
    const struct server *server = served->server;
    scrape->served = served;
    scrape->ready = atomic_load(&server->phase) != PHASE_LOADING && served->engine;
    if (scrape->ready) scrape->info = served->engine_info;
    if (scrape->ready || served->source) {
        served_stats(served, &scrape->stats);
        scrape->has_store = served_store_stats(served, &scrape->store);
    }
    scrape_label(&scrape->labels, "model_name", served->name);
    jbuf_text(&scrape->labels, ",engine=\"0\"");
}

void scrape_model(struct scrape *scrape) {
    put_requests(scrape);
    put_counters(scrape);
    put_accepted(scrape);
    put_histograms(scrape);
    put_step_tokens(scrape);
    put_gen_ai(scrape);
    put_cache_config(scrape);
    put_adapters(scrape);
    if (scrape->ready && scrape->served->kv_events)
        kv_events_metrics(scrape->served->kv_events, scrape->labels.data, scrape->labels.len,
                          scrape->out);
    put_bytes(scrape);
    put_pages(scrape);
    put_states(scrape);
    put_store(scrape);
    put_engine(scrape);
    put_drafts(scrape);
    put_gaps(scrape);
    put_causes(scrape);
    put_ops(scrape);
    if (!scrape->alone) scrape_submitted(scrape);
}
