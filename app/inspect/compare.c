// The arithmetic of `runnel eval --reference`, in double.
#include "inspect/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void moments_add(struct moments *moments, double value) {
    moments->n++;
    moments->sum += value;
    moments->squares += value * value;
}

double moments_mean(const struct moments *moments) { return moments->sum / (double)moments->n; }

double moments_error(const struct moments *moments) {
    if (moments->n < 2) return (double)NAN;
    const double mean = moments_mean(moments);
    const double variance = moments->squares / (double)moments->n - mean * mean;
    return sqrt((variance > 0 ? variance : 0) / (double)(moments->n - 1));
}

int logits_top(const float *logits, int n_vocab, double *log_sum) {
    int top = 0;
    double sum = 0;
    for (int i = 1; i < n_vocab; i++) top = logits[i] > logits[top] ? i : top;
    for (int i = 0; i < n_vocab; i++) sum += exp((double)(logits[i] - logits[top]));
    *log_sum = log(sum) + (double)logits[top];
    return top;
}

bool comparison_init(struct comparison *comparison, size_t n_chunks, size_t n_rows,
                     size_t n_vocab) {
    *comparison = (struct comparison){.n_rows = n_rows,
                                      .n_vocab = n_vocab,
                                      .n_kl_most = n_chunks * n_rows,
                                      .rows = malloc(n_rows * n_vocab * sizeof(float)),
                                      .log_sums = malloc(n_rows * sizeof(double)),
                                      .kl = malloc(n_chunks * n_rows * sizeof(double))};
    if (comparison->rows && comparison->log_sums && comparison->kl) return true;
    comparison_deinit(comparison);
    return false;
}

void comparison_deinit(struct comparison *comparison) {
    free(comparison->rows);
    free(comparison->log_sums);
    free(comparison->kl);
    *comparison = (struct comparison){0};
}

void comparison_reference(struct comparison *comparison, size_t row, const float *logits,
                          int32_t next) {
    double *log_sum = &comparison->log_sums[row];
    logits_top(logits, (int)comparison->n_vocab, log_sum);
    memcpy(comparison->rows + row * comparison->n_vocab, logits,
           comparison->n_vocab * sizeof *logits);
    moments_add(&comparison->loss, *log_sum - (double)logits[next]);
}

void comparison_model(struct comparison *comparison, size_t row, const float *logits,
                      int32_t next) {
    const float *reference = comparison->rows + row * comparison->n_vocab;
    const double reference_sum = comparison->log_sums[row];
    double log_sum, kl = 0;
    int likeliest = 0;
    const int top = logits_top(logits, (int)comparison->n_vocab, &log_sum);
    for (size_t i = 0; i < comparison->n_vocab; i++) {
        const double log_p = (double)reference[i] - reference_sum, p = exp(log_p);
        if (p > 0) kl += p * (log_p - ((double)logits[i] - log_sum));
        if (reference[i] > reference[likeliest]) likeliest = (int)i;
    }
    kl = kl > 0 ? kl : 0; // rounding
    moments_add(&comparison->kl_sums, kl);
    if (comparison->n_kl < comparison->n_kl_most) comparison->kl[comparison->n_kl++] = kl;
    moments_add(&comparison->same_top, top == likeliest);
    moments_add(&comparison->difference,
                (log_sum - (double)logits[next]) - (reference_sum - (double)reference[next]));
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double comparison_kl_at(struct comparison *comparison, double share) {
    const size_t n = comparison->n_kl;
    if (!n) return (double)NAN;
    qsort(comparison->kl, n, sizeof *comparison->kl, compare);
    const size_t rank = (size_t)ceil(share * (double)n);
    return comparison->kl[rank ? rank - 1 : 0];
}
