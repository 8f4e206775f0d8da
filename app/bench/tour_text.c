// The sentences of the tour. Two rates are called equal where they differ by less than the noise
// of a shared machine, so no sentence claims a gain that another run would not show.
#include <math.h>
#include <string.h>

#include "bench/figures.h"
#include "bench/tour.h"

#define DOUBLING_LEAST 1.5  // times the tokens/s: less is beyond the knee
#define NOISE          0.03 // of a ratio of two rates

static double at(const struct row *row, enum column_id id) { return row_number_at(row, id); }

static double percent(const struct row *row, enum column_id id) { return 100 * at(row, id); }

// "3% of B and 71% of the peak".
struct shares {
    char text[64];
};

// A row has a bound where both shares were measured: not every device measures itself.
static bool has_bound(const struct row *row) { return *row_text_at(row, COLUMN_BOUND) != '\0'; }

static struct shares shares_of(const struct row *row) {
    const double read = percent(row, COLUMN_BANDWIDTH_SHARE);
    struct shares out;
    snprintf(out.text, sizeof out.text, "%.*f%% of B and %.0f%% of the peak", read < 1 ? 1 : 0,
             read, percent(row, COLUMN_PEAK_SHARE));
    return out;
}

// "memory (80% of B and 5% of the peak)".
struct bound {
    char text[96];
};

static struct bound bound_of(const struct row *row) {
    struct bound out;
    if (has_bound(row))
        snprintf(out.text, sizeof out.text, "%s (%s)", row_text_at(row, COLUMN_BOUND),
                 shares_of(row).text);
    else
        snprintf(out.text, sizeof out.text, "not known: the device does not measure its peaks");
    return out;
}

static const char *bytes_of(const struct row *row, enum column_id id, char out[32]) {
    return human_bytes(at(row, id), out);
}

// ---------------------------------------------------------------- prompts against decoding

// FLOP per byte at which the peak and B take the same time, for the prompt's mix of products.
static double balance(const struct row *prompt, const struct row *decode) {
    const double flops = at(prompt, COLUMN_FLOPS_PER_TOKEN) * at(prompt, COLUMN_AVG_TS);
    const double peak = figure_ratio(flops, at(prompt, COLUMN_PEAK_SHARE));
    return figure_ratio(peak, at(decode, COLUMN_BANDWIDTH_GBS) * 1e9);
}

static void intensity_says(const struct row *rows, int n, struct tour_says *out) {
    const struct row *prompt = &rows[0], *decode = &rows[n - 1];
    const double even = balance(prompt, decode);
    char limits[256] = "";
    const int len = snprintf(
        out->sentence[0], sizeof out->sentence[0],
        "A prompt's token computes %.3g FLOP for each byte that is read, a decoded token %.3g",
        at(prompt, COLUMN_FLOP_PER_BYTE), at(decode, COLUMN_FLOP_PER_BYTE));
    if (isfinite(even))
        snprintf(limits, sizeof limits,
                 "; memory and arithmetic of this machine are in balance at %.3g", even);
    snprintf(out->sentence[0] + len, sizeof out->sentence[0] - (size_t)len, "%s.", limits);
    limits[0] = '\0';
    if (has_bound(prompt) && has_bound(decode))
        snprintf(limits, sizeof limits,
                 "The prompt is nearest to the limit of %s, decoding to that of %s: a",
                 bound_of(prompt).text, bound_of(decode).text);
    snprintf(out->sentence[1], sizeof out->sentence[1],
             "%s token takes %.3g ms in a prompt and %.3g ms when it is generated.",
             *limits ? limits : "A", at(prompt, COLUMN_MS_PER_TOKEN),
             at(decode, COLUMN_MS_PER_TOKEN));
}

// ---------------------------------------------------------------- KV heads

// The first row is MQA's and the last MHA's; the model's own row has a measured model's heads.
static void heads_says(const struct row *rows, int n, struct tour_says *out) {
    const struct row *one = &rows[0], *all = &rows[n - 1], *own = one;
    char read[32], read_one[32], read_all[32], weights[32];
    for (int i = 0; i < n; i++)
        if (strstr(row_text_at(&rows[i], COLUMN_NAME), "this model")) own = &rows[i];
    const double total = at(own, COLUMN_BYTES_PER_TOKEN);
    snprintf(out->sentence[0], sizeof out->sentence[0],
             "At a context of %d tokens this model with its %d KV head%s reads %s of KV for each "
             "token; one KV head (MQA) would read %s, one for each of %d query heads (MHA) %s.",
             row_whole_at(own, COLUMN_N_DEPTH), row_whole_at(own, COLUMN_N_HEAD_KV),
             row_whole_at(own, COLUMN_N_HEAD_KV) == 1 ? "" : "s",
             bytes_of(own, COLUMN_KV_BYTES_PER_TOKEN, read),
             bytes_of(one, COLUMN_KV_BYTES_PER_TOKEN, read_one),
             row_whole_at(all, COLUMN_N_HEAD_KV),
             bytes_of(all, COLUMN_KV_BYTES_PER_TOKEN, read_all));
    snprintf(out->sentence[1], sizeof out->sentence[1],
             "Weights are %s of every token's reads, so MHA would read %.2f times and MQA %.2f "
             "times the bytes of this model: computed from its plan, not measured.",
             human_bytes(total - at(own, COLUMN_KV_BYTES_PER_TOKEN), weights),
             at(all, COLUMN_BYTES_PER_TOKEN) / total, at(one, COLUMN_BYTES_PER_TOKEN) / total);
}

// ---------------------------------------------------------------- streams

// The gain of a doubling between two rows.
static double doubling(const struct row *from, const struct row *to) {
    const double wider =
        (double)row_whole_at(to, COLUMN_N_SEQS) / row_whole_at(from, COLUMN_N_SEQS);
    const double gain = at(to, COLUMN_AVG_TS) / at(from, COLUMN_AVG_TS);
    return pow(gain, 1 / log2(wider));
}

int tour_knee(const struct row *rows, int n) {
    int knee = 0;
    while (knee + 1 < n && doubling(&rows[knee], &rows[knee + 1]) >= DOUBLING_LEAST) knee++;
    return knee;
}

static void knee_says(const struct row *rows, int n, char *out, size_t size) {
    const int knee = tour_knee(rows, n);
    const struct row *last = &rows[knee + 1 < n ? knee + 1 : knee];
    const int streams = row_whole_at(&rows[knee], COLUMN_N_SEQS);
    if (n == 1)
        snprintf(out, size, "The nearest limit of %d stream%s is %s.", streams,
                 streams == 1 ? "" : "s", bound_of(last).text);
    else if (knee == n - 1)
        snprintf(out, size,
                 "There is no knee up to %d stream%s: each doubling brought at least %.1f times "
                 "the tokens/s, and the nearest limit is %s.",
                 streams, streams == 1 ? "" : "s", DOUBLING_LEAST, bound_of(last).text);
    else
        snprintf(out, size,
                 "The knee is at %d stream%s: the next doubling brings %.2f times the tokens/s, "
                 "and the nearest limit of %d streams is %s.",
                 streams, streams == 1 ? "" : "s", doubling(&rows[knee], last),
                 row_whole_at(last, COLUMN_N_SEQS), bound_of(last).text);
}

static void sweep_says(const struct row *rows, int n, struct tour_says *out) {
    const struct row *first = &rows[0], *best = first;
    for (int i = 1; i < n; i++)
        if (at(&rows[i], COLUMN_AVG_TS) > at(best, COLUMN_AVG_TS)) best = &rows[i];
    char text[96] = "no larger number of streams is faster", read[32];
    if (best != first)
        snprintf(text, sizeof text, "%s write %.0f, %.2f times as many, and read %s for each",
                 row_text_at(best, COLUMN_NAME), at(best, COLUMN_AVG_TS),
                 at(best, COLUMN_AVG_TS) / at(first, COLUMN_AVG_TS),
                 bytes_of(best, COLUMN_BYTES_PER_TOKEN, read));
    snprintf(out->sentence[0], sizeof out->sentence[0],
             "%s: %.0f tokens/s, with %s read for each token; %s.", row_text_at(first, COLUMN_NAME),
             at(first, COLUMN_AVG_TS), bytes_of(first, COLUMN_BYTES_PER_TOKEN, read), text);
    knee_says(rows, n, out->sentence[1], sizeof out->sentence[1]);
}

// ---------------------------------------------------------------- KV types over the context

// Rows are types, each with all depths from the smallest to the largest.
static void contexts_says(const struct row *rows, int n, struct tour_says *out) {
    const int depth = row_whole_at(&rows[n - 1], COLUMN_N_DEPTH);
    const struct row *first = NULL, *last = &rows[n - 1];
    char *text = out->sentence[0];
    const size_t room = sizeof out->sentence[0] - 1; // for the full stop
    size_t used = (size_t)snprintf(text, room, "At a context of %d tokens", depth);
    for (int i = 0; i < n; i++) {
        char read[32], type[128];
        if (row_whole_at(&rows[i], COLUMN_N_DEPTH) != depth) continue;
        const int len =
            snprintf(type, sizeof type, "%s %.16s reads %s of KV for a token and takes %.3g ms",
                     first ? "," : "", row_text_at(&rows[i], COLUMN_TYPE_K),
                     bytes_of(&rows[i], COLUMN_KV_BYTES_PER_TOKEN, read),
                     at(&rows[i], COLUMN_MS_PER_TOKEN));
        if (!first) first = &rows[i];
        if (used + (size_t)len < room)
            used += (size_t)snprintf(text + used, room - used, "%s", type);
    }
    snprintf(text + used, sizeof out->sentence[0] - used, ".");
    const double speed = at(first, COLUMN_MS_PER_TOKEN) / at(last, COLUMN_MS_PER_TOKEN);
    const double kv_share =
        100 * at(first, COLUMN_KV_BYTES_PER_TOKEN) / at(first, COLUMN_BYTES_PER_TOKEN);
    const char *const names[] = {row_text_at(last, COLUMN_TYPE_K),
                                 row_text_at(first, COLUMN_TYPE_K)};
    if (fabs(speed - 1) < NOISE)
        snprintf(out->sentence[1], sizeof out->sentence[1],
                 "%s is as fast as %s here: KV is %.0f%% of the bytes that %s reads.", names[0],
                 names[1], kv_share, names[1]);
    else
        snprintf(out->sentence[1], sizeof out->sentence[1],
                 "%s has %.2f times the speed of %s here, which reads %.0f%% of its bytes for KV.",
                 names[0], speed, names[1], kv_share);
}

// ---------------------------------------------------------------- drafts

// rows[0] is without drafts.
static void saved_says(const struct row *rows, int n, struct tour_says *out) {
    const struct row *none = &rows[0], *with = &rows[n - 1];
    const double ratio = at(with, COLUMN_RATIO);
    const double saved =
        100 * (1 - at(with, COLUMN_BYTES_PER_TOKEN) / at(none, COLUMN_BYTES_PER_TOKEN));
    char read_none[32], read[32];
    const char *text = at(with, COLUMN_SAME_TEXT) > 0 ? "the text is the same" : "THE TEXT DIFFERS";
    snprintf(out->sentence[0], sizeof out->sentence[0],
             "Without drafts a token takes %.3g ms and %s of reads; with drafts (%s) %.3g ms and "
             "%s, at %.2f tokens a step.",
             at(none, COLUMN_MS_PER_TOKEN), bytes_of(none, COLUMN_BYTES_PER_TOKEN, read_none),
             row_text_at(with, COLUMN_DRAFTER), at(with, COLUMN_MS_PER_TOKEN),
             bytes_of(with, COLUMN_BYTES_PER_TOKEN, read), at(with, COLUMN_TOKENS_PER_STEP));
    char *second = out->sentence[1];
    const size_t size = sizeof out->sentence[1];
    if (!(at(with, COLUMN_DRAFT_TOKENS) > 0))
        snprintf(second, size, "The engine drafted nothing here: no draft promised a gain.");
    else if (ratio > 1 + NOISE)
        snprintf(second, size,
                 "Drafts saved %.0f%% of the reads and gave %.2f times the speed; %s.", saved,
                 ratio, text);
    else
        snprintf(
            second, size,
            "Drafts did not help here: %.2f times the speed, although they saved %.0f%% of the "
            "reads; %s.",
            ratio, saved, text);
}

void tour_says(const struct row *rows, int n, struct tour_says *out) {
    static void (*const says[TABLE_COUNT])(const struct row *, int, struct tour_says *) = {
        [TABLE_INTENSITY] = intensity_says, [TABLE_HEADS] = heads_says, [TABLE_SWEEP] = sweep_says,
        [TABLE_CONTEXTS] = contexts_says,   [TABLE_SAVED] = saved_says,
    };
    says[rows->table](rows, n, out);
}
