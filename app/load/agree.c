// Reads four histograms of /metrics and compares their means with the load's own.
#include "load/agree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { METRICS_MS = 10000, METRICS_LIMIT = 16 << 20 };

static const struct {
    const char *name, *metric;
} figures_of[AGREE_COUNT] = {
    [AGREE_TTFT] = {"TTFT", "vllm:time_to_first_token_seconds"},
    [AGREE_ITL] = {"ITL", "vllm:inter_token_latency_seconds"},
    [AGREE_TPOT] = {"TPOT", "vllm:request_time_per_output_token_seconds"},
    [AGREE_E2EL] = {"E2EL", "vllm:e2e_request_latency_seconds"},
};

// The value of a sample NAME{...} VALUE or NAME VALUE of this line; NaN: it is another line.
static double sample_value(const char *line, const char *end, const char *metric,
                           const char *suffix) {
    char name[96], number[64];
    const size_t len = (size_t)snprintf(name, sizeof name, "%s%s", metric, suffix);
    if ((size_t)(end - line) <= len || memcmp(line, name, len) != 0) return (double)NAN;
    const char *at = line + len;
    if (*at == '{') { // values of labels have quotes, which may hold braces
        bool quoted = false;
        for (; at < end && (quoted || *at != '}'); at++) {
            if (*at == '\\' && quoted)
                at++;
            else if (*at == '"')
                quoted = !quoted;
        }
        if (at >= end) return (double)NAN;
        at++;
    }
    if (at >= end || *at != ' ') return (double)NAN;
    const size_t room = (size_t)(end - at) < sizeof number ? (size_t)(end - at) : sizeof number - 1;
    memcpy(number, at, room);
    number[room] = '\0';
    return strtod(number, NULL);
}

static void counter_take(const char *line, const char *end, const char *name, double *to,
                         struct agree_state *out) {
    const double value = sample_value(line, end, name, "_total");
    if (!isfinite(value)) return;
    *to += value;
    out->has_drafts = true;
}

static void line_take(const char *line, const char *end, struct agree_state *out) {
    counter_take(line, end, "vllm:spec_decode_num_drafts", &out->drafts, out);
    counter_take(line, end, "vllm:spec_decode_num_draft_tokens", &out->draft_tokens, out);
    counter_take(line, end, "vllm:spec_decode_num_accepted_tokens", &out->draft_accepted, out);
    for (int i = 0; i < AGREE_COUNT; i++) {
        const double sum = sample_value(line, end, figures_of[i].metric, "_sum");
        const double count = sample_value(line, end, figures_of[i].metric, "_count");
        if (isfinite(sum)) out->figure[i].sum_s += sum;
        if (isfinite(count)) {
            out->figure[i].count += count;
            out->figure[i].has = true;
        }
    }
}

void agree_parse(const char *text, size_t len, struct agree_state *out) {
    *out = (struct agree_state){0};
    for (const char *at = text, *all = text + len; at < all;) {
        const char *lf = memchr(at, '\n', (size_t)(all - at));
        const char *end = lf ? lf : all;
        line_take(at, end, out);
        at = end + 1;
    }
}

void agree_ask(const struct load_target *target, struct agree_state *out) {
    struct client_url url;
    struct client_reply reply;
    *out = (struct agree_state){0};
    if (!client_url_join(&target->base, "/metrics", &url) ||
        client_fetch_url(&url, "GET", target->headers, NULL, 0, METRICS_MS, METRICS_LIMIT, &reply,
                         NULL))
        return;
    if (reply.status == 200) agree_parse(reply.body, reply.body_len, out);
    client_reply_free(&reply);
}

bool agree_is_known(const struct agree_state *state) {
    bool any = state->has_drafts;
    for (int i = 0; i < AGREE_COUNT; i++) any |= state->figure[i].has;
    return any;
}

void agree_compare(const struct agree_state *before, const struct agree_state *after,
                   const struct load_figures *figures, struct agree_row rows[AGREE_COUNT]) {
    // tokens of one step have no gap between them in the server's ITL
    const double here[AGREE_COUNT] = {figures->ttft_ms.mean, figures->arrival_gap_ms,
                                      figures->tpot_ms.mean, figures->e2el_ms.mean};
    for (int i = 0; i < AGREE_COUNT; i++) {
        const double count = after->figure[i].count - before->figure[i].count;
        const double sum = after->figure[i].sum_s - before->figure[i].sum_s;
        rows[i] = (struct agree_row){.name = figures_of[i].name, .here_ms = here[i]};
        rows[i].has = before->figure[i].has && count > 0 && here[i] > 0;
        if (!rows[i].has) continue;
        rows[i].server_ms = 1000 * sum / count;
        rows[i].agrees =
            fabs(rows[i].here_ms - rows[i].server_ms) <= 1 + 0.1 * fabs(rows[i].server_ms);
    }
}

bool agree_drafts(const struct agree_state *before, const struct agree_state *after,
                  struct load_drafts *out) {
    if (!before->has_drafts || !after->has_drafts) return false;
    out->drafts = (int64_t)(after->drafts - before->drafts);
    out->tokens = (int64_t)(after->draft_tokens - before->draft_tokens);
    out->accepted = (int64_t)(after->draft_accepted - before->draft_accepted);
    return out->tokens > 0;
}

bool agree_print(const struct agree_row rows[AGREE_COUNT]) {
    bool any = false, agree = true;
    for (int i = 0; i < AGREE_COUNT; i++) {
        if (!rows[i].has) continue;
        if (!any) printf("\nthe server's own means (/metrics):");
        printf("%s %s %.2f ms (here %.2f%s)", any ? "," : "", rows[i].name, rows[i].server_ms,
               rows[i].here_ms, rows[i].agrees ? "" : ", which differs");
        any = true;
        agree &= rows[i].agrees;
    }
    if (any) printf("\n");
    return any && agree;
}
