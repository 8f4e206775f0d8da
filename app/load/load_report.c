// Figures of a load for people (a table, a row for each level) and for programs: one JSON object
// with the names of vllm bench serve, and those of aiperf below "aiperf". A terminal shows the
// columns that fit its width.
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/plot.h"
#include "helpers.h"
#include "load/target.h"
#include "terminal/json.h"

// ---------------------------------------------------------------- the table

void load_report_head(const struct load_config *config, const struct load_target *target) {
    if (config->quiet) return;
    const struct load_words *words = &target->words;
    printf("%s, model ", target->name);
    term_print_escaped(stdout, target->model, strlen(target->model), sizeof target->model);
    printf(", %s\n", config->chat         ? "/v1/chat/completions"
                     : config->prompt_ids ? "/v1/completions with token ids"
                                          : "/v1/completions");
    if (words->tokens_per_word > 0)
        printf("prompts: %d words%s, %.4g token%s a word, %.0f tokens of template\n", words->n,
               words->exact ? " of one token each" : "", words->tokens_per_word,
               words->tokens_per_word == 1 ? "" : "s", words->overhead);
    else
        puts("prompts: the server gives no usage; a word is taken for a token");
    putchar('\n');
}

// The columns in their order; a lower rank is more important.
enum {
    COLUMN_LOAD,
    COLUMN_REQUESTS,
    COLUMN_FAILED,
    COLUMN_REQUEST_RATE,
    COLUMN_TOKENS,
    COLUMN_USER,
    COLUMN_TTFT,
    COLUMN_TTFT_P99,
    COLUMN_TPOT,
    COLUMN_ITL_P99,
    COLUMN_E2EL,
    COLUMN_GOOD,
    COLUMN_COUNT
};
struct column {
    const char *title; // NULL: it depends on the load
    int width, rank;
};
static const struct column columns[COLUMN_COUNT] = {
    [COLUMN_LOAD] = {NULL, 9, 0},         [COLUMN_REQUESTS] = {"requests", 8, 7},
    [COLUMN_FAILED] = {"failed", 6, 5},   [COLUMN_REQUEST_RATE] = {"req/s", 8, 8},
    [COLUMN_TOKENS] = {"tokens/s", 8, 1}, [COLUMN_USER] = {"per user", 8, 2},
    [COLUMN_TTFT] = {"TTFT ms", 9, 3},    [COLUMN_TTFT_P99] = {"p99", 9, 9},
    [COLUMN_TPOT] = {"TPOT ms", 8, 4},    [COLUMN_ITL_P99] = {"ITL p99", 8, 10},
    [COLUMN_E2EL] = {"E2EL ms", 9, 11},   [COLUMN_GOOD] = {"good/s", 8, 6},
};

// A column takes three more: a border and two blanks. The most important one is always shown.
static unsigned columns_fit(const struct column *column, int n, int room, unsigned wanted) {
    unsigned shown = 0;
    for (int rank = 0; rank < n; rank++) {
        for (int i = 0; i < n; i++) {
            const int width = column[i].width + 3;
            if (column[i].rank != rank || !(wanted & 1u << i) || (rank && width > room)) continue;
            shown |= 1u << i;
            room -= width;
        }
    }
    return shown;
}

unsigned load_report_columns(const struct load_config *config, int room) {
    const unsigned all = (1u << COLUMN_COUNT) - 1;
    return columns_fit(columns, COLUMN_COUNT, room - 1,
                       config->slo.any ? all : all & ~(1u << COLUMN_GOOD));
}

static void rule_print(int width) {
    fputs(" ", stdout);
    for (int i = 1; i < width; i++) putchar('-');
    fputs(": |", stdout);
}

void load_report_row_head(const struct load_config *config, unsigned shown) {
    const char *load = config->trace.n ? "trace" : config->open ? "arrive/s" : "at a time";
    putchar('|');
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (shown & 1u << i)
            printf(" %*s |", columns[i].width, columns[i].title ? columns[i].title : load);
    fputs("\n|", stdout);
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (shown & 1u << i) rule_print(columns[i].width);
    putchar('\n');
}

static void load_text(const struct load_config *config, const struct load_level *level,
                      char out[16]) {
    if (config->trace.n)
        snprintf(out, 16, "x%g", config->speedup);
    else if (level->rate > 0)
        snprintf(out, 16, "%g", level->rate);
    else
        snprintf(out, 16, "%d", level->concurrency);
}

void load_report_row(const struct load_config *config, const struct load_level *level,
                     unsigned shown) {
    const struct load_figures *f = &level->figures;
    const struct {
        double value;
        int digits;
    } cell[COLUMN_COUNT] = {
        [COLUMN_REQUESTS] = {f->completed, 0},           [COLUMN_FAILED] = {f->failed, 0},
        [COLUMN_REQUEST_RATE] = {f->request_rate, 2},    [COLUMN_TOKENS] = {f->output_rate, 1},
        [COLUMN_USER] = {f->user_rate.mean, 1},          [COLUMN_TTFT] = {f->ttft_ms.mean, 2},
        [COLUMN_TTFT_P99] = {f->ttft_ms.p[LOAD_P99], 2}, [COLUMN_TPOT] = {f->tpot_ms.mean, 2},
        [COLUMN_ITL_P99] = {f->itl_ms.p[LOAD_P99], 2},   [COLUMN_E2EL] = {f->e2el_ms.mean, 1},
        [COLUMN_GOOD] = {f->request_goodput, 2},
    };
    char load[16];
    load_text(config, level, load);
    printf("| %*s |", columns[COLUMN_LOAD].width, load);
    for (int i = COLUMN_LOAD + 1; i < COLUMN_COUNT; i++)
        if (shown & 1u << i) printf(" %*.*f |", columns[i].width, cell[i].digits, cell[i].value);
    printf("%s\n", level->interrupted ? " interrupted" : "");
}

static void notes_print(const struct load_config *config, const struct load_level *level) {
    const struct load_figures *f = &level->figures;
    printf("\n%.2f s, %lld tokens in, %lld out; at most %.0f pieces and %d requests in a second\n",
           f->duration_s, (long long)f->input_tokens, (long long)f->output_tokens,
           f->output_rate_max, f->concurrent_max);
    if (f->cached_tokens > 0)
        printf("%.1f%% of the input came from the server's prefix cache\n",
               100.0 * (double)f->cached_tokens / (double)f->input_tokens);
    if (level->drafts.tokens > 0)
        printf("drafts: %.1f%% of %lld tokens were accepted\n",
               100.0 * (double)level->drafts.accepted / (double)level->drafts.tokens,
               (long long)level->drafts.tokens);
    if (config->slo.any)
        printf("goodput: %d of %d requests were within the bounds\n", f->good, f->completed);
    if (f->completed > f->user_rate.n)
        printf("per user: %d of %d requests are left out, with one token or all tokens at one "
               "time\n",
               f->completed - f->user_rate.n, f->completed);
    if (f->by_pieces)
        printf("%d requests had no usage: their tokens are the pieces of their streams\n",
               f->by_pieces);
}

// "4 at a time", "40 arrivals/s".
static const char *level_name(const struct load_config *config, const struct load_level *level,
                              char out[32]) {
    if (config->trace.n)
        snprintf(out, 32, "trace");
    else if (level->rate > 0)
        snprintf(out, 32, "%g arrivals/s", level->rate);
    else
        snprintf(out, 32, "%d at a time", level->concurrency);
    return out;
}

void load_report_faults(const struct load_config *config, const struct load_level *level) {
    char name[32];
    for (int i = 0; i < level->n_faults; i++) {
        const char *text = level->fault[i].text; // a server's
        printf("%s: %d failed: ", level_name(config, level, name), level->fault[i].count);
        term_print_escaped(stdout, text, strlen(text), LOAD_FAULT_SIZE);
        putchar('\n');
    }
}

enum { SPREAD_COUNT = 6, SPREAD_NAME = 24 };
static const struct column spread_columns[SPREAD_COUNT] = {
    {"mean", 10, 0}, {"median", 10, 1}, {"p90", 10, 4},
    {"p99", 10, 2},  {"max", 10, 3},    {"std", 10, 5},
};

static void spread_row(const char *name, const struct spread *s, unsigned shown) {
    if (s->n == 0) return;
    const double value[SPREAD_COUNT] = {s->mean,        s->p[LOAD_P50], s->p[LOAD_P90],
                                        s->p[LOAD_P99], s->max,         s->std};
    printf("| %-*s |", SPREAD_NAME, name);
    for (int i = 0; i < SPREAD_COUNT; i++)
        if (shown & 1u << i) printf(" %*.2f |", spread_columns[i].width, value[i]);
    putchar('\n');
}

static void spread_head(unsigned shown) {
    printf("\n| %-*s |", SPREAD_NAME, "");
    for (int i = 0; i < SPREAD_COUNT; i++)
        if (shown & 1u << i) printf(" %*s |", spread_columns[i].width, spread_columns[i].title);
    fputs("\n| ------------------------ |", stdout);
    for (int i = 0; i < SPREAD_COUNT; i++)
        if (shown & 1u << i) rule_print(spread_columns[i].width);
    putchar('\n');
}

void load_report_level(const struct load_config *config, const struct load_level *level, int room) {
    const struct load_figures *f = &level->figures;
    const unsigned shown =
        columns_fit(spread_columns, SPREAD_COUNT, room - SPREAD_NAME - 4, (1u << SPREAD_COUNT) - 1);
    if (f->completed) {
        spread_head(shown);
        spread_row("TTFT, ms", &f->ttft_ms, shown);
        spread_row("TPOT, ms", &f->tpot_ms, shown);
        spread_row("ITL, ms", &f->itl_ms, shown);
        spread_row("E2EL, ms", &f->e2el_ms, shown);
        spread_row("tokens/s of one request", &f->user_rate, shown);
        spread_row("input tokens", &f->input_len, shown);
        spread_row("output tokens", &f->output_len, shown);
    }
    notes_print(config, level);
}

// ---------------------------------------------------------------- JSON

static const int percents[LOAD_PERCENTILE_COUNT] = {
#define X(p) p,
    LOAD_PERCENTILES(X)
#undef X
};

// {mean,median,std,p90,...}_NAME_ms.
static bool vllm_spread(json_t *out, const char *name, const struct spread *s) {
    char key[48];
    bool ok = true;
    const struct {
        const char *name;
        double value;
    } plain[] = {{"mean", s->mean}, {"median", s->p[LOAD_P50]}, {"std", s->std}};
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "%s_%s_ms", plain[i].name, name);
        ok &= json_put(out, key, json_number(plain[i].value));
    }
    for (int i = LOAD_P90; i <= LOAD_P99; i++) {
        snprintf(key, sizeof key, "p%d_%s_ms", percents[i], name);
        ok &= json_put(out, key, json_number(s->p[i]));
    }
    return ok;
}

static bool vllm_figures(json_t *out, const struct load_config *config,
                         const struct load_figures *f) {
    bool ok = json_put(out, "duration", json_number(f->duration_s));
    ok &= json_put(out, "completed", json_integer(f->completed));
    ok &= json_put(out, "failed", json_integer(f->failed));
    ok &= json_put(out, "total_input_tokens", json_integer(f->input_tokens));
    ok &= json_put(out, "total_output_tokens", json_integer(f->output_tokens));
    ok &= json_put(out, "request_throughput", json_number(f->request_rate));
    ok &= json_put(out, "request_goodput",
                   config->slo.any ? json_number(f->request_goodput) : json_null());
    ok &= json_put(out, "output_throughput", json_number(f->output_rate));
    ok &= json_put(out, "total_token_throughput", json_number(f->total_rate));
    ok &= json_put(out, "max_output_tokens_per_s", json_number(f->output_rate_max));
    ok &= json_put(out, "max_concurrent_requests", json_integer(f->concurrent_max));
    ok &= vllm_spread(out, "ttft", &f->ttft_ms) && vllm_spread(out, "tpot", &f->tpot_ms) &&
          vllm_spread(out, "itl", &f->itl_ms) && vllm_spread(out, "e2el", &f->e2el_ms);
    return ok;
}

static bool vllm_drafts(json_t *out, const struct load_drafts *d) {
    if (d->tokens <= 0) return true;
    const double rate = 100.0 * (double)d->accepted / (double)d->tokens; // vLLM's unit is percent
    bool ok = json_put(out, "spec_decode_acceptance_rate", json_number(rate)) &&
              json_put(out, "spec_decode_draft_tokens", json_integer(d->tokens)) &&
              json_put(out, "spec_decode_accepted_tokens", json_integer(d->accepted));
    if (d->drafts <= 0) return ok;
    const double length = 1 + (double)d->accepted / (double)d->drafts; // with the model's own token
    return ok && json_put(out, "spec_decode_num_drafts", json_integer(d->drafts)) &&
           json_put(out, "spec_decode_acceptance_length", json_number(length));
}

static bool vllm_head(json_t *out, const struct load_config *config,
                      const struct load_target *target, const struct load_level *level) {
    const time_t now = time(NULL);
    struct tm parts;
    char date[32] = "";
    if (gmtime_r(&now, &parts)) strftime(date, sizeof date, "%Y%m%d-%H%M%S", &parts);
    const char *backend = config->chat ? "openai-chat" : "openai";
    const bool open = level->concurrency == 0;
    bool ok = json_put(out, "date", json_string(date));
    ok &= json_put(out, "busy_share",
                   config->busy_share < 0 ? json_null() : json_real(config->busy_share));
    ok &= json_put(out, "endpoint_type", json_string(backend));
    ok &= json_put(out, "backend", json_string(backend));
    ok &= json_put(out, "label", json_null());
    ok &= json_put(out, "model_id", json_text(target->model, strlen(target->model)));
    ok &= json_put(out, "tokenizer_id", json_text(target->model, strlen(target->model)));
    ok &= json_put(out, "num_prompts", json_integer(level->requests));
    ok &= json_put(out, "request_rate",
                   level->rate > 0 ? json_number(level->rate) : json_string("inf"));
    ok &= json_put(out, "burstiness", open && !config->poisson ? json_string("inf") : json_real(1));
    ok &= json_put(out, "max_concurrency",
                   json_integer(open ? config->most_at_once : level->concurrency));
    return ok;
}

// {"unit":..., "avg":..., "p1":..., ..., "min", "max", "std"}.
static bool aiperf_spread(json_t *out, const char *tag, const char *unit, const struct spread *s) {
    json_t *object = json_object();
    char key[8];
    bool ok = object && json_put(object, "unit", json_string(unit));
    ok = ok && json_put(object, "avg", json_number(s->mean));
    for (int i = 0; ok && i < LOAD_PERCENTILE_COUNT; i++) {
        snprintf(key, sizeof key, "p%d", percents[i]);
        ok = json_put(object, key, json_number(s->p[i]));
    }
    ok = ok && json_put(object, "min", json_number(s->min)) &&
         json_put(object, "max", json_number(s->max)) &&
         json_put(object, "std", json_number(s->std));
    return json_put(out, tag, object) && ok;
}

static bool aiperf_single(json_t *out, const char *tag, const char *unit, double value) {
    json_t *object = json_object();
    const bool ok = object && json_put(object, "unit", json_string(unit)) &&
                    json_put(object, "avg", json_number(value));
    return json_put(out, tag, object) && ok;
}

static json_t *aiperf_make(const struct load_config *config, const struct load_level *level) {
    const struct load_figures *f = &level->figures;
    json_t *out = json_object();
    bool ok = out && json_put(out, "was_cancelled", json_boolean(level->interrupted));
    ok = ok && aiperf_spread(out, "time_to_first_token", "ms", &f->ttft_ms) &&
         aiperf_spread(out, "time_to_second_token", "ms", &f->ttst_ms) &&
         aiperf_spread(out, "request_latency", "ms", &f->e2el_ms) &&
         aiperf_spread(out, "inter_token_latency", "ms", &f->tpot_ms) && // its name for TPOT
         aiperf_spread(out, "inter_chunk_latency", "ms", &f->itl_ms) &&
         aiperf_spread(out, "output_token_throughput_per_user", "tokens/sec/user", &f->user_rate) &&
         aiperf_spread(out, "output_sequence_length", "tokens", &f->output_len) &&
         aiperf_spread(out, "input_sequence_length", "tokens", &f->input_len) &&
         aiperf_single(out, "output_token_throughput", "tokens/sec", f->output_rate) &&
         aiperf_single(out, "request_throughput", "requests/sec", f->request_rate) &&
         aiperf_single(out, "request_count", "requests", f->completed) &&
         aiperf_single(out, "error_request_count", "requests", f->failed) &&
         aiperf_single(out, "benchmark_duration", "sec", f->duration_s);
    if (ok && config->slo.any)
        ok = aiperf_single(out, "goodput", "requests/sec", f->request_goodput) &&
             aiperf_single(out, "good_request_count", "requests", f->good);
    if (ok) return out;
    json_decref(out);
    return NULL;
}

static bool errors_put(json_t *out, const struct load_level *level) {
    json_t *errors = json_object();
    bool ok = errors != NULL;
    for (int i = 0; ok && i < level->n_faults; i++) {
        struct text key; // a server's bytes, which may be cut within a character
        ok = text_sound(level->fault[i].text, strlen(level->fault[i].text), &key) &&
             json_put(errors, key.data, json_integer(level->fault[i].count));
        text_free(&key);
    }
    return json_put(out, "error_counts", errors) && ok;
}

static json_t *level_make(const struct load_config *config, const struct load_target *target,
                          const struct load_level *level) {
    json_t *out = json_object();
    const struct load_figures *f = &level->figures;
    bool ok = out && vllm_head(out, config, target, level) && vllm_figures(out, config, f) &&
              vllm_drafts(out, &level->drafts);
    ok = ok && json_put(out, "per_user_left_out", json_integer(f->completed - f->user_rate.n));
    ok = ok && json_put(out, "tokens_from_usage", json_boolean(f->by_pieces == 0));
    ok = ok && json_put(out, "cached_input_tokens",
                        f->cached_tokens >= 0 ? json_integer(f->cached_tokens) : json_null());
    ok = ok && errors_put(out, level) && json_put(out, "aiperf", aiperf_make(config, level));
    if (ok) return out;
    json_decref(out);
    return NULL;
}

// One level as vLLM writes it; several in "levels".
static json_t *levels_make(const struct load_config *config, const struct load_target *target,
                           const struct load_level *levels, int n) {
    if (n == 1) return level_make(config, target, levels);
    json_t *rows = json_array(), *out = json_object();
    for (int i = 0; rows && i < n; i++) {
        json_t *row = level_make(config, target, &levels[i]);
        rows = json_append(rows, row, row != NULL);
    }
    if (rows && out && json_put(out, "levels", rows)) return out;
    json_decref(out);
    return NULL;
}

int load_report_json(const struct load_config *config, const struct load_target *target,
                     const struct load_level *levels, int n) {
    json_t *value = levels_make(config, target, levels, n);
    return load_json_write(config->json, value);
}

int load_json_write(const char *path, json_t *value) {
    if (!value) return app_fail(APP_FAILED, "out of memory");
    FILE *out = fopen(path, "wb");
    if (!out) {
        json_decref(value);
        return app_fail(APP_FAILED, "%s: %s", err_path(path), strerror(errno));
    }
    errno = 0;
    const bool dumped = json_dumpf(value, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
    json_decref(value);
    fputc('\n', out);
    const bool failed = !dumped || ferror(out);
    if (fclose(out) || failed) return app_fail_write(err_path(path), errno ? errno : EIO);
    return APP_OK;
}

// ---------------------------------------------------------------- the plot

int load_report_plot(const struct load_config *config, const struct load_target *target,
                     const struct load_level *levels, int n) {
    struct plot plot = {.title = "Throughput against the speed of one user",
                        .x_name = "tokens/s of one user (1000 / TPOT in ms, mean)",
                        .y_name = "tokens/s of all users"};
    snprintf(plot.subtitle, sizeof plot.subtitle, "%.80s; a point for each level, with its %s",
             target->model, config->open ? "arrivals a second" : "requests at a time");
    plot.item = calloc((size_t)n + 1, sizeof *plot.item);
    if (!plot.item) return app_fail(APP_FAILED, "out of memory");
    for (int i = 0; i < n; i++) {
        const struct load_figures *f = &levels[i].figures;
        if (f->user_rate.n == 0) continue;
        struct plot_item *item = &plot.item[plot.n++];
        *item = (struct plot_item){.x = round(10 * f->user_rate.mean) / 10,
                                   .y = f->output_rate,
                                   .peer = (double)NAN,
                                   .peer_share = (double)NAN};
        snprintf(item->label, sizeof item->label, "%.150s", target->name);
        snprintf(item->point, sizeof item->point, "%g",
                 levels[i].rate > 0 ? levels[i].rate : levels[i].concurrency);
    }
    const int code = plot.n ? plot_write(&plot, config->plot)
                            : app_fail(APP_FAILED, "--plot: no level has a speed of one user");
    free(plot.item);
    return code;
}
