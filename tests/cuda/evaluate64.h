// A plan evaluated in double precision, for tests: the logits of one sequence from position 0. The
// evaluator is written from the definitions of the ops (docs/NUMERICS.md) and of the roundings of
// the CUDA backend (docs/CUDA.md, "Numerics"). It shares no code with the kernels.
//
// Every value is a double. Values are rounded in these places only, each once, to nearest even:
//   weights of matrices and tables; inputs of products; queries, keys and values of attention;
//   the weights of attention before they multiply values.
// Roundings to f32 between ops are not made. They are the distance that the tests measure.
#ifndef RN_TESTS_CUDA_EVALUATE64_H
#define RN_TESTS_CUDA_EVALUATE64_H

#include "roundings.h"

// EVALUATE64_EXACT: nothing is rounded. The others round as the backend does, with pages of a type.
enum evaluate64_mode { EVALUATE64_EXACT, EVALUATE64_F16, EVALUATE64_BF16 };

// Roundings of an evaluation with a device's.
struct evaluate64_ties {
    int64_t n_rounded;
    int64_t n_other; // that are the device's, not the double's: next to the middle
    int64_t n_far;   // that differ from the device's too far from the middle
    int far_op;      // the first op with such a one
};

// token: [n], ids of the plan's vocabulary. logits: [n, n_vocab]. Each row is an out row. A failure
// fails the test: ops that the backend refuses are not known here.
//
// device: the roundings of a backend; NULL: none. A backend computes in f32. A double next to the
// middle of two 16-bit numbers may be on the other side of it in f32, and both numbers are right.
// There the device's number is taken. ties: NULL, or it is filled in.
void evaluate64(const struct plan *plan, enum evaluate64_mode mode, const struct roundings *device,
                const int32_t *token, int n, double *logits, struct evaluate64_ties *ties);

#endif
