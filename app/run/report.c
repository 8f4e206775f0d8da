// Figures of a run. A rate is a number of tokens over a time, both from the engine. The share of
// the bandwidth is the rate at which decode steps read bytes over the machine's rate for a working
// set of that size. The machine's rate is measured right after the run.
#include "run/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "models/name.h"
#include "terminal/wrap.h"

// Half of the budget may go into page faults; the rest is dozens of passes of each way to read.
enum { BANDWIDTH_BUDGET_MS = 300, SHARE_BAR_WIDTH = 20, SHARE_BAR_MIN = 4 };
enum { LABEL_COLUMNS = 10, TOKENS_COLUMNS = 12 };

// Undefined (NaN) where there is nothing to divide by.
static double ratio(double a, double b) { return b > 0 ? a / b : (double)NAN; }

// Of the evaluated tokens: cached ones cost nothing.
static double prompt_rate(const struct report *r) {
    return ratio(1000.0 * (r->timings.prompt_tokens - r->timings.cached_tokens),
                 r->timings.prompt_ms);
}

// Tokens after the first: the first one comes out of the prompt's last step.
static int decoded(const struct report *r) {
    return r->timings.output_tokens > 1 ? r->timings.output_tokens - 1 : 0;
}

static double output_rate(const struct report *r) {
    return decoded(r) ? ratio(1000.0 * decoded(r), r->timings.decode_ms) : (double)NAN;
}

static double bytes_per_token(const struct report *r) {
    return ratio((double)r->timings.decode_bytes, decoded(r));
}

static double tokens_per_step(const struct report *r) {
    return ratio(decoded(r), (double)r->timings.decode_steps);
}

// Of drafts; undefined where there were none.
static double accepted_share(const struct report *r) {
    return ratio(r->timings.accepted_tokens, r->timings.draft_tokens);
}

static double draft_speedup(const struct report *r) {
    const rn_timings *t = &r->timings;
    return t->draft_tokens && t->undrafted_ms > 0 ? ratio(t->undrafted_ms, t->decode_ms)
                                                  : (double)NAN;
}

static double ms_per_token(const struct report *r) {
    return decoded(r) ? r->timings.decode_ms / decoded(r) : (double)NAN;
}

// Without drafts each step would have written one token. A step that verifies a draft reads the
// weights once too, so its bytes are those of that token. (A mixture of experts reads a few more
// experts for a draft.) Undefined where drafts saved no step.
static double undrafted_bytes_per_token(const struct report *r) {
    return tokens_per_step(r) > 1
               ? ratio((double)r->timings.decode_bytes, (double)r->timings.decode_steps)
               : (double)NAN;
}

static double undrafted_ms_per_token(const struct report *r) {
    return ms_per_token(r) * draft_speedup(r);
}

static double saved_share(const struct report *r) {
    return 1 - bytes_per_token(r) / undrafted_bytes_per_token(r);
}

static double read_rate(const struct report *r) { // bytes/s
    return output_rate(r) * bytes_per_token(r);
}

static double read_share(const struct report *r) { return ratio(read_rate(r), r->bandwidth); }

void report_measure(struct report *report, rn_engine *engine) {
    if (!decoded(report)) return; // nothing to compare it with
    const uint64_t tokens =
        (uint64_t)report->timings.prompt_tokens + (uint64_t)report->timings.output_tokens;
    const uint64_t working_set = report->engine.weight_bytes + report->engine.state_bytes +
                                 tokens * report->engine.kv_token_bytes;
    report->bandwidth = rn_engine_bandwidth(engine, working_set, BANDWIDTH_BUDGET_MS);
    // On a shared machine the bandwidth changes from second to second. The rate of decode itself is
    // also a measurement of the bandwidth, so the share is never over 100%.
    if (report->bandwidth > 0 && read_rate(report) > report->bandwidth)
        report->bandwidth = read_rate(report);
    report->in_cache = report->bandwidth > 0 && report->engine.cache_bytes &&
                       working_set <= report->engine.cache_bytes;
}

// ---------------------------------------------------------------- for people

static void line_begin(const struct term *term, const char *label) {
    fprintf(stderr, "  %s%-*s%s", term_dim(term->err_color), LABEL_COLUMNS - 2, label,
            term_reset(term->err_color));
}

static const char *plural(int count) { return count == 1 ? "" : "s"; }

// With the blanks that keep the next figure in its column.
static void print_tokens(int count) {
    fprintf(stderr, "%5d token%s%s", count, plural(count), count == 1 ? " " : "");
}

// Columns of a text with colours.
static int columns_of(const char *text) {
    int n = 0;
    for (; *text; text++) {
        if (*text == '\033')
            while (*text != 'm') text++;
        else
            n++;
    }
    return n;
}

// A further part of a line behind the mark. On a terminal it starts a line where it does not fit;
// *used is the number of columns so far.
__attribute__((format(printf, 3, 4))) static void part_put(int *used, char mark, const char *fmt,
                                                           ...) {
    char text[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const int len = columns_of(text);
    const bool fits = *used + 2 + len < term_columns(STDERR_FILENO);
    if (fits)
        fprintf(stderr, "%c %s", mark, text);
    else
        fprintf(stderr, "%c\n%*s%s", mark, LABEL_COLUMNS, "", text);
    *used = fits ? *used + 2 + len : LABEL_COLUMNS + len;
}

static void print_output(const struct report *report, const struct term *term) {
    line_begin(term, "output");
    print_tokens(report->timings.output_tokens);
    if (isfinite(output_rate(report))) {
        fprintf(stderr, "  %s%8.1f tokens/s%s", term_bold(term->err_color), output_rate(report),
                term_reset(term->err_color));
    }
    fprintf(stderr, "  %s%s, seed %llu%s\n", term_dim(term->err_color),
            rn_finish_text(report->finish), (unsigned long long)report->seed,
            term_reset(term->err_color));
}

// "of 82.2 GB/s (in cache)".
struct limit {
    char text[64];
};

static struct limit limit_of(const struct report *report) {
    struct limit out;
    snprintf(out.text, sizeof out.text, "of %.1f GB/s%s", report->bandwidth / 1e9,
             report->in_cache ? " (in cache)" : "");
    return out;
}

// A bar and "13% WHAT". The bar takes the columns beside the figures, or is left out.
static void print_share(const struct term *term, int used, double share, const char *what) {
    char percent[16], bar[3 * SHARE_BAR_WIDTH + 1];
    const int len =
        snprintf(percent, sizeof percent, "%.0f%%", 100 * share) + 1 + (int)strlen(what);
    const int room = term_columns(STDERR_FILENO) - used - 2 - 1 - len;
    const int width = room < SHARE_BAR_WIDTH ? room : SHARE_BAR_WIDTH;
    fputs("  ", stderr);
    if (width >= SHARE_BAR_MIN) fprintf(stderr, "%s ", term_bar(term, share, width, bar));
    fprintf(stderr, "%s%s%s %s\n", term_bold(term->err_color), percent, term_reset(term->err_color),
            what);
}

static void print_drafts(const struct report *report, const struct term *term) {
    if (!report->timings.draft_tokens) return;
    line_begin(term, "drafts");
    print_tokens(report->timings.draft_tokens);
    int used = LABEL_COLUMNS + TOKENS_COLUMNS +
               fprintf(stderr, "  %7.1f%% accepted", 100 * accepted_share(report));
    if (isfinite(tokens_per_step(report)))
        part_put(&used, ',', "%.2f tokens a step", tokens_per_step(report));
    if (isfinite(draft_speedup(report))) {
        part_put(&used, ',', "%s%.2fx%s the speed without", term_bold(term->err_color),
                 draft_speedup(report), term_reset(term->err_color));
    }
    fputc('\n', stderr);
}

// Drafts save reads, so their steps use less of the bandwidth: the figures are the cost of a token,
// and what it would have been.
static void print_saved(const struct report *report, const struct term *term) {
    char bytes[32], undrafted[32];
    line_begin(term, "memory");
    int used = LABEL_COLUMNS + fprintf(stderr, "%9s/token instead of %s",
                                       human_bytes(bytes_per_token(report), bytes),
                                       human_bytes(undrafted_bytes_per_token(report), undrafted));
    print_share(term, used, saved_share(report), "of the reads saved");
    line_begin(term, "time");
    used = LABEL_COLUMNS + fprintf(stderr, "%6.3g ms/token", ms_per_token(report));
    if (isfinite(undrafted_ms_per_token(report)))
        used += fprintf(stderr, " instead of %.3g ms", undrafted_ms_per_token(report));
    if (isfinite(read_share(report)))
        part_put(&used, ';', "steps at %.0f%% %s", 100 * read_share(report), limit_of(report).text);
    fputc('\n', stderr);
}

static void print_memory(const struct report *report, const struct term *term) {
    if (!isfinite(read_rate(report))) return;
    if (isfinite(undrafted_bytes_per_token(report))) {
        print_saved(report, term);
        return;
    }
    char bytes[32];
    line_begin(term, "memory");
    const int used = LABEL_COLUMNS + fprintf(stderr, "%9s/token   %8.2f GB/s",
                                             human_bytes(bytes_per_token(report), bytes),
                                             read_rate(report) / 1e9);
    if (isfinite(read_share(report)))
        print_share(term, used, read_share(report), limit_of(report).text);
    else
        fputs("  bandwidth not measured\n", stderr);
}

void report_print(const struct report *report, const struct term *term) {
    const rn_engine_info *engine = &report->engine;
    // A terminal's line was ended on stdout; a pipe gets the text as it is, so end its line here.
    fputs(term->out_tty ? "\n" : "\n\n", stderr);
    line_begin(term, "model");
    term_print_escaped(stderr, report->name, strlen(report->name), SIZE_MAX);
    fprintf(stderr, ", %s; %s\n", report->model->format,
            app_place(engine->backend, engine->isa, engine->device, engine->n_threads,
                      engine->kv_type)
                .text);
    line_begin(term, "load");
    fprintf(stderr, "%5.0f ms\n", report->load_ms);
    line_begin(term, "prompt");
    print_tokens(report->timings.prompt_tokens);
    if (isfinite(prompt_rate(report))) {
        fprintf(stderr, "  %8.1f tokens/s", prompt_rate(report));
    }
    if (report->timings.ttft_ms > 0) {
        fprintf(stderr, "  first token after %.1f ms", report->timings.ttft_ms);
    }
    if (report->timings.cached_tokens)
        fprintf(stderr, ", %d cached", report->timings.cached_tokens);
    fputc('\n', stderr);
    print_output(report, term);
    print_drafts(report, term);
    print_memory(report, term);
    if (report->conversation_tokens) {
        line_begin(term, "context");
        fprintf(stderr, "%5d token%s of %d\n", report->conversation_tokens,
                plural(report->conversation_tokens), engine->n_ctx);
    }
}

void report_print_line(const struct report *report, const struct term *term) {
    const rn_timings *timings = &report->timings;
    const int count = timings->output_tokens;
    char text[256];
    FILE *line = fmemopen(text, sizeof text, "w");
    if (!line) return;
    fprintf(line, "  %d token%s", count, plural(count));
    if (isfinite(output_rate(report))) fprintf(line, ", %.1f tokens/s", output_rate(report));
    if (timings->ttft_ms > 0) fprintf(line, ", first token after %.1f ms", timings->ttft_ms);
    if (timings->cached_tokens)
        fprintf(line, " (%d of %d cached)", timings->cached_tokens, timings->prompt_tokens);
    if (report->finish == RN_FINISH_CANCELLED) fputs(", stopped", line);
    if (report->finish == RN_FINISH_LENGTH) fputs(", cut off", line);
    fclose(line);
    wrap_note(term, 2, text);
}

// The size of a token is left out where the terminal is too narrow for it.
void report_print_plan(const rn_memory_plan *plan, const struct term *term) {
    char weights[32], kv[32], free_bytes[32] = "", share[160] = "", token[32], count[32], line[512];
    char bytes[32], draft[64] = "", mtp[64] = "", state[64] = "";
    if (plan->draft_weight_bytes) {
        snprintf(draft, sizeof draft, ", draft %s",
                 human_bytes((double)(plan->draft_weight_bytes + plan->draft_kv_bytes), bytes));
    }
    if (plan->mtp_kv_bytes)
        snprintf(mtp, sizeof mtp, ", mtp %s", human_bytes((double)plan->mtp_kv_bytes, bytes));
    if (plan->state_bytes)
        snprintf(state, sizeof state, " and states of %s",
                 human_bytes((double)plan->state_bytes, bytes));
    if (plan->available) {
        human_bytes((double)plan->available, free_bytes);
        // only where an amount was asked for
        const bool is_too_much = plan->kv_bytes > plan->available;
        snprintf(share, sizeof share,
                 is_too_much ? ", more than the %s that are free%s%s" : " of %s free%s%s",
                 free_bytes, *plan->device ? " on " : "", plan->device);
    }
    int len = snprintf(line, sizeof line, "  memory: weights %s, KV %s%s%s%s: %s tokens of %s%s",
                       human_bytes((double)plan->weight_bytes, weights),
                       human_bytes((double)plan->kv_bytes, kv), draft, mtp, share,
                       human_count(plan->kv_tokens, count), plan->kv_type, state);
    const int end = len + snprintf(line + len, sizeof line - (size_t)len,
                                   plan->state_bytes ? " (%s a token)" : " (%s each)",
                                   human_bytes((double)plan->kv_token_bytes, token));
    if (end <= term_columns(STDERR_FILENO)) len = end;
    fprintf(stderr, "%s%.*s%s\n", term_dim(term->err_color), len, line,
            term_reset(term->err_color));
}

void report_print_serving(const rn_memory_plan *plan, int max_seqs, const struct term *term) {
    char weights[32], token[32], context[32], kv[32], free_bytes[32], count[32], users[32];
    const char *dim = term_dim(term->err_color), *reset = term_reset(term->err_color);
    fprintf(stderr, "%s  weights      %s%s\n", dim,
            human_bytes((double)plan->weight_bytes, weights), reset);
    fprintf(stderr, "%s  KV cache     %s a token (%s), %s a full context of %d%s\n", dim,
            human_bytes((double)plan->kv_token_bytes, token), plan->kv_type,
            human_bytes((double)plan->kv_context_bytes, context), plan->n_ctx, reset);
    fprintf(stderr, "%s               %s are set aside: %s tokens, %s full context%s%s\n", dim,
            human_bytes((double)plan->kv_bytes, kv), human_count(plan->kv_tokens, count),
            human_count(plan->n_contexts, users), plan->n_contexts == 1 ? "" : "s", reset);
    if (plan->state_bytes) {
        fprintf(stderr,
                "%s  states       %s a sequence, in the same memory; kept for prefixes every %s "
                "tokens%s\n",
                dim, human_bytes((double)plan->state_bytes, kv),
                human_count((uint64_t)plan->state_interval, count), reset);
    }
    const uint64_t n_ctx = (uint64_t)plan->n_ctx;
    uint64_t share = plan->kv_tokens / (uint64_t)max_seqs;
    if (share > n_ctx) share = n_ctx;
    fprintf(stderr,
            "%s  users        %s at a time, each with up to %s token%s when all are there%s\n", dim,
            human_count((uint64_t)max_seqs, users), human_count(share, count),
            share == 1 ? "" : "s", reset);
    if (plan->draft_weight_bytes) {
        fprintf(stderr, "%s  draft model  %s, and %s of KV cache%s\n", dim,
                human_bytes((double)plan->draft_weight_bytes, weights),
                human_bytes((double)plan->draft_kv_bytes, kv), reset);
    }
    if (plan->mtp_kv_bytes) {
        fprintf(stderr, "%s  draft block  %s of KV cache (mtp)%s\n", dim,
                human_bytes((double)plan->mtp_kv_bytes, kv), reset);
    }
    if (plan->available) {
        fprintf(stderr, "%s  memory free  %s%s%s%s\n", dim,
                human_bytes((double)plan->available, free_bytes), *plan->device ? " on " : "",
                plan->device, reset);
    }
}

void report_print_drafters(const rn_engine_info *engine, const rn_model_info *model,
                           const rn_model_info *draft, const struct term *term) {
    const rn_model_info of_block = {.path = model->block_path, .name = ""};
    const bool has_block = model->block_path != NULL;
    fprintf(stderr, "%s  drafts       ", term_dim(term->err_color));
    if (*engine->drafters) {
        fprintf(stderr, "up to %d token%s, by %s", engine->draft_max, plural(engine->draft_max),
                engine->drafters);
    } else {
        fputs("none", stderr);
    }
    if (draft || has_block) {
        const struct model_name name = model_name_short(NULL, draft ? draft : &of_block);
        fputs(draft ? "; the model is " : "; the block is ", stderr);
        term_print_escaped(stderr, name.text, strlen(name.text), SIZE_MAX);
    }
    fprintf(stderr, "%s\n", term_reset(term->err_color));
}

// ---------------------------------------------------------------- for programs

static json_t *json_whole(double value) {
    return isfinite(value) ? json_integer((json_int_t)llround(value)) : json_null();
}

bool report_json(const struct report *report, json_t *object) {
    const rn_timings *timings = &report->timings;
    const double gb = 1e9;
    json_t *figures = json_pack(
        "{s:s, s:s?, s:I, s:f, s:i, s:i, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:i, "
        "s:s, s:s, s:s, s:s?, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "finish_reason", rn_finish_text(report->finish), "stop", report->stop, "seed",
        (json_int_t)report->seed, "load_ms", report->load_ms, "prompt_tokens",
        timings->prompt_tokens, "cached_tokens", timings->cached_tokens, "prompt_per_second",
        json_number(prompt_rate(report)), "ttft_ms",
        timings->ttft_ms > 0 ? json_number(timings->ttft_ms) : json_null(), "output_tokens",
        timings->output_tokens, "output_per_second", json_number(output_rate(report)),
        "bytes_per_token", json_whole(bytes_per_token(report)), "read_gbs",
        json_number(read_rate(report) / gb), "bandwidth_gbs",
        json_number(ratio(report->bandwidth, report->bandwidth > 0 ? gb : 0)), "bandwidth_share",
        json_number(read_share(report)), "in_cache",
        report->bandwidth > 0 ? json_boolean(report->in_cache) : json_null(), "threads",
        report->engine.n_threads, "isa", report->engine.isa, "kv_type", report->engine.kv_type,
        "backend", report->engine.backend, "device",
        *report->engine.device ? report->engine.device : NULL, "draft_tokens",
        timings->draft_tokens, "accepted_tokens", timings->accepted_tokens, "accepted_share",
        json_number(accepted_share(report)), "tokens_per_step",
        json_number(tokens_per_step(report)), "draft_speedup", json_number(draft_speedup(report)),
        "ms_per_token", json_number(ms_per_token(report)), "undrafted_ms_per_token",
        json_number(undrafted_ms_per_token(report)), "undrafted_bytes_per_token",
        json_whole(undrafted_bytes_per_token(report)), "reads_saved_share",
        json_number(saved_share(report)));
    if (!figures) return false;
    const int failed = json_object_update(object, figures);
    json_decref(figures);
    return !failed;
}
