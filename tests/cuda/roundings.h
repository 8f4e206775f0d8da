// The 16-bit numbers that a backend makes of a plan's values: inputs of products, queries, keys and
// values. The backend contract shows none of them, so they are read by plans that have taps. A tap
// is a product with a matrix of ones and zeros. It copies its rounded input to a place of the
// logits, without any further rounding.
#ifndef RN_TESTS_CUDA_ROUNDINGS_H
#define RN_TESTS_CUDA_ROUNDINGS_H

#include "backend/backend.h"

struct roundings {
    // [n_op] by in[0] and in[1] of an op: [n, width], of slots [n, n_expert, width]; NULL: none
    const float **in[2];
    float **owned; // the same, each once
    int n_owned;
};

// One sequence of n tokens from position 0, as one step. kv_type: "f16" or "bf16". The plan's
// weights are read in place. A failure fails the test.
void roundings_read(struct roundings *out, const struct backend_class *cls, const struct plan *plan,
                    const char *kv_type, const int32_t *token, int n);
void roundings_free(struct roundings *r);

// The logits of the same sequence, [n, n_vocab]. Nothing of the plan is changed.
void roundings_run(const struct backend_class *cls, const struct plan *plan, const char *kv_type,
                   const int32_t *token, int n, float *logits);

#endif
