// Records and their arithmetic.
#include "load/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool load_records_add(struct load_records *records, struct load_record *record) {
    if (records->n == records->capacity) {
        const int capacity = records->capacity ? 2 * records->capacity : 64;
        struct load_record *grown = realloc(records->item, (size_t)capacity * sizeof *grown);
        if (!grown) return false;
        records->item = grown;
        records->capacity = capacity;
    }
    records->item[records->n++] = *record;
    records->n_failed += !record->ok;
    record->gap_ms = NULL;
    return true;
}

// A longer text ends with "...".
static void fault_write(char out[LOAD_FAULT_SIZE], const char *text) {
    if (snprintf(out, LOAD_FAULT_SIZE, "%s", text) >= LOAD_FAULT_SIZE)
        memcpy(out + LOAD_FAULT_SIZE - 4, "...", 4);
}

void load_records_fault(struct load_records *records, const char *text) {
    int i = 0;
    char shown[LOAD_FAULT_SIZE];
    fault_write(shown, text);
    while (i < records->n_faults && strcmp(records->fault[i].text, shown) != 0) i++;
    if (i == LOAD_FAULTS) i--;
    if (i == records->n_faults) {
        records->n_faults++;
        const bool others = i == LOAD_FAULTS - 1;
        fault_write(records->fault[i].text, others ? "other errors" : text);
    }
    records->fault[i].count++;
}

void load_records_free(struct load_records *records) {
    for (int i = 0; i < records->n; i++) free(records->item[i].gap_ms);
    free(records->item);
    *records = (struct load_records){0};
}

// ---------------------------------------------------------------- spreads

static int value_compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double percentile_of(const double *sorted, size_t n, double p) {
    const double at = p / 100 * (double)(n - 1);
    const size_t below = (size_t)at;
    if (below + 1 >= n) return sorted[n - 1];
    return sorted[below] + (sorted[below + 1] - sorted[below]) * (at - (double)below);
}

void spread_of(double *values, size_t n, struct spread *out) {
    static const double wanted[] = {
#define X(p) p,
        LOAD_PERCENTILES(X)
#undef X
    };
    *out = (struct spread){.n = (int)n};
    if (n == 0) return;
    qsort(values, n, sizeof *values, value_compare);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sum += values[i];
    out->mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) squares += (values[i] - out->mean) * (values[i] - out->mean);
    out->std = sqrt(squares / (double)n);
    out->min = values[0];
    out->max = values[n - 1];
    for (int i = 0; i < LOAD_PERCENTILE_COUNT; i++) out->p[i] = percentile_of(values, n, wanted[i]);
}

// ---------------------------------------------------------------- figures

static double ms_between(uint64_t from, uint64_t to) {
    return to > from ? (double)(to - from) * 1e-6 : 0;
}

static int output_of(const struct load_record *r) {
    return r->output_tokens >= 0 ? r->output_tokens : r->n_pieces;
}

// NaN: a request of one token has none.
static double tpot_of(const struct load_record *r) {
    const int tokens = output_of(r);
    return tokens > 1 ? ms_between(r->first_ns, r->last_ns) / (tokens - 1) : (double)NAN;
}

static bool is_good(const struct load_record *r, const struct load_slo *slo) {
    const double tpot = tpot_of(r); // without one: 0, as vLLM has it
    if (slo->ttft_ms > 0 && ms_between(r->start_ns, r->first_ns) > slo->ttft_ms) return false;
    if (slo->tpot_ms > 0 && isfinite(tpot) && tpot > slo->tpot_ms) return false;
    return !(slo->e2el_ms > 0) || ms_between(r->start_ns, r->last_ns) <= slo->e2el_ms;
}

static void add_known(int64_t *sum, int value) {
    if (value >= 0) *sum = (*sum < 0 ? 0 : *sum) + value;
}

static void sums_of(const struct load_records *records, const struct load_slo *slo,
                    struct load_figures *out) {
    out->cached_tokens = out->draft_tokens = out->draft_accepted = -1;
    for (int i = 0; i < records->n; i++) {
        const struct load_record *r = &records->item[i];
        if (!r->ok) {
            out->failed++;
            continue;
        }
        out->completed++;
        out->by_pieces += r->output_tokens < 0;
        out->by_plan += r->input_tokens < 0;
        out->output_tokens += output_of(r);
        out->input_tokens += r->input_tokens >= 0 ? r->input_tokens : r->planned_input;
        out->good += is_good(r, slo);
        add_known(&out->cached_tokens, r->cached_tokens);
        add_known(&out->draft_tokens, r->draft_tokens);
        add_known(&out->draft_accepted, r->draft_accepted);
    }
    out->duration_s = records->duration_s;
    const double per_second = records->duration_s > 0 ? 1 / records->duration_s : 0;
    out->request_rate = out->completed * per_second;
    out->request_goodput = out->good * per_second;
    out->output_rate = (double)out->output_tokens * per_second;
    out->total_rate = (double)(out->input_tokens + out->output_tokens) * per_second;
}

// A value of each request, or none of it (NaN).
typedef double (*record_value)(const struct load_record *r);

static double value_ttft(const struct load_record *r) {
    return ms_between(r->start_ns, r->first_ns);
}
static double value_e2el(const struct load_record *r) {
    return ms_between(r->start_ns, r->last_ns);
}
static double value_output(const struct load_record *r) { return output_of(r); }
static double value_input(const struct load_record *r) {
    return r->input_tokens >= 0 ? r->input_tokens : r->planned_input;
}
static double value_ttst(const struct load_record *r) {
    return r->n_pieces > 1 ? (double)r->gap_ms[0] : (double)NAN;
}
// A request without a time between tokens has no speed: one token, or all of them at one time.
static double value_user(const struct load_record *r) {
    const double tpot = tpot_of(r);
    return tpot > 0 ? 1000 / tpot : (double)NAN;
}

static void spread_make(const struct load_records *records, record_value value, double *room,
                        struct spread *out) {
    size_t n = 0;
    for (int i = 0; i < records->n; i++) {
        const double x = records->item[i].ok ? value(&records->item[i]) : (double)NAN;
        if (isfinite(x)) room[n++] = x;
    }
    spread_of(room, n, out);
}

static size_t gaps_gather(const struct load_records *records, double *room) {
    size_t n = 0;
    for (int i = 0; i < records->n; i++) {
        const struct load_record *r = &records->item[i];
        for (int j = 0; r->ok && j + 1 < r->n_pieces; j++, n++)
            if (room) room[n] = (double)r->gap_ms[j];
    }
    return n;
}

static double arrival_gap(const double *gaps, size_t n) {
    double sum = 0;
    size_t above = 0;
    for (size_t i = 0; i < n; i++) {
        sum += gaps[i];
        above += gaps[i] > 0;
    }
    return above ? sum / (double)above : 0;
}

// ---------------------------------------------------------------- the busiest second

static void seconds_fill(const struct load_records *records, uint64_t from, int n, int *pieces,
                         int *requests) {
    for (int i = 0; i < records->n; i++) {
        const struct load_record *r = &records->item[i];
        if (!r->ok) continue;
        double at = ms_between(from, r->first_ns);
        for (int j = 0; j < r->n_pieces; j++) {
            const int second = (int)(at / 1000);
            if (second < n) pieces[second]++;
            if (j + 1 < r->n_pieces) at += (double)r->gap_ms[j];
        }
        const int last = (int)(ms_between(from, r->last_ns) / 1000);
        for (int s = (int)(ms_between(from, r->start_ns) / 1000); s <= last && s < n; s++)
            requests[s]++;
    }
}

static bool busiest_second(const struct load_records *records, struct load_figures *out) {
    uint64_t from = UINT64_MAX, to = 0;
    for (int i = 0; i < records->n; i++) {
        const struct load_record *r = &records->item[i];
        if (!r->ok) continue;
        if (r->start_ns < from) from = r->start_ns;
        if (r->last_ns > to) to = r->last_ns;
    }
    if (to <= from) return true;
    const int n = (int)(ms_between(from, to) / 1000) + 1;
    int *counts = calloc(2 * (size_t)n, sizeof *counts);
    if (!counts) return false;
    seconds_fill(records, from, n, counts, counts + n);
    for (int i = 0; i < n; i++) {
        if (counts[i] > out->output_rate_max) out->output_rate_max = counts[i];
        if (counts[n + i] > out->concurrent_max) out->concurrent_max = counts[n + i];
    }
    free(counts);
    return true;
}

bool load_figures_of(const struct load_records *records, const struct load_slo *slo,
                     struct load_figures *out) {
    *out = (struct load_figures){0};
    sums_of(records, slo, out);
    const size_t n_gaps = gaps_gather(records, NULL);
    const size_t most = n_gaps > (size_t)records->n ? n_gaps : (size_t)records->n;
    double *room = malloc((most + 1) * sizeof *room);
    if (!room) return false;
    const struct {
        record_value value;
        struct spread *out;
    } spreads[] = {
        {value_ttft, &out->ttft_ms},      {tpot_of, &out->tpot_ms},
        {value_e2el, &out->e2el_ms},      {value_ttst, &out->ttst_ms},
        {value_user, &out->user_rate},    {value_input, &out->input_len},
        {value_output, &out->output_len},
    };
    for (size_t i = 0; i < sizeof spreads / sizeof *spreads; i++)
        spread_make(records, spreads[i].value, room, spreads[i].out);
    gaps_gather(records, room);
    spread_of(room, n_gaps, &out->itl_ms);
    out->arrival_gap_ms = arrival_gap(room, n_gaps);
    free(room);
    return busiest_second(records, out);
}

// ---------------------------------------------------------------- two sides

// Half the width of the 95 % interval in standard errors, for n - 1 degrees of freedom.
static double t_quantile(int degrees) {
    static const double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                   2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                   2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                   2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
    const int n = (int)(sizeof table / sizeof *table);
    if (degrees <= n) return table[degrees - 1];
    return 1.960 + 2.46 / degrees; // within 0.001 of the true value
}

struct difference difference_of(const double *a, const double *b, int n) {
    struct difference out = {0};
    for (int i = 0; i < n; i++) {
        out.a += a[i] / n;
        out.b += b[i] / n;
    }
    out.mean = out.b - out.a;
    double squares = 0;
    for (int i = 0; i < n; i++) {
        const double d = b[i] - a[i] - out.mean;
        squares += d * d;
    }
    out.error = t_quantile(n - 1) * sqrt(squares / (n - 1) / n);
    return out;
}
