// Two models on the same tokens, for `runnel eval --reference`: row by row the reference's
// probabilities, then the model's. Nothing here runs a model.
#ifndef RN_APP_COMPARE_H
#define RN_APP_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Sums of a value that is measured once for each token.
struct moments {
    uint64_t n;
    double sum, squares;
};
void moments_add(struct moments *moments, double value);
double moments_mean(const struct moments *moments);
// The standard error of the mean, where tokens are taken as independent; NaN: fewer than two.
double moments_error(const struct moments *moments);

// The largest logit's index; *log_sum: the logarithm of the sum of exp(logit), so that the log
// probability of a token is its logit less *log_sum.
int logits_top(const float *logits, int n_vocab, double *log_sum);

struct comparison {
    float *rows;      // [n_rows][n_vocab] logits of the reference in the chunk at hand
    double *log_sums; // [n_rows] theirs, see logits_top
    double *kl;       // [n_kl] of every token so far
    size_t n_rows, n_vocab, n_kl, n_kl_most;
    struct moments loss;       // the reference's
    struct moments difference; // the model's loss less the reference's
    struct moments kl_sums;
    struct moments same_top; // 1: both find the same token likeliest
};

// For n_chunks chunks of n_rows rows each. False: out of memory.
bool comparison_init(struct comparison *comparison, size_t n_chunks, size_t n_rows, size_t n_vocab);
void comparison_deinit(struct comparison *comparison);
void comparison_reference(struct comparison *comparison, size_t row, const float *logits,
                          int32_t next);
// The model's row, after the reference's; `next` is the token that follows in the text.
void comparison_model(struct comparison *comparison, size_t row, const float *logits, int32_t next);
// The value that `share` of all tokens do not exceed. Sorts them.
double comparison_kl_at(struct comparison *comparison, double share);

#endif
