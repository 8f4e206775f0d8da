// Matrix products of the CPU backend: the reference, the packed layouts, and the table of tuned
// kernels.
//
// A tuned kernel reads weights that were packed at load: 16 rows interleaved (a SIMD lane is a
// row), blocks in the order they are read. One packed layout per format serves every instruction
// set. Rows past the matrix are packed as zeros and never stored. Every kernel gives the bits of
// matmul_reference() for any n.
#ifndef RN_BACKEND_CPU_MATMUL_H
#define RN_BACKEND_CPU_MATMUL_H

#include "plan/plan.h"

enum cpu_isa { ISA_SCALAR, ISA_AVX2, ISA_AVX512, ISA_COUNT };

enum { MATMUL_GROUP = 16 }; // rows interleaved

struct matmul_args {
    const void *w; // the packed weight (tuned kernels), or the file's rows (reference)
    int64_t rows, cols;
    int n;          // tokens
    const float *x; // [n, ldx] activations; read by float formats
    int64_t ldx;
    const int8_t *xq;    // [n, cols] quantized activations; read by block formats
    const float *xd;     // [n, cols / 32] their scales
    const int16_t *xsum; // [n, cols / 16] exact sums of xq over each 16
    float *y;            // [n, ldy]
    int64_t ldy;
    const float *bias; // [rows] or NULL
    float scale;       // 1: none
    bool add;          // y += instead of y =
};

// Computes rows of groups [group_begin, group_end) for all n tokens; group g is rows [16 g, 16 g +
// 16).
typedef void (*matmul_fn)(const struct matmul_args *args, int64_t group_begin, int64_t group_end);

struct matmul_kernel {
    enum format_id format;
    enum cpu_isa isa;
    // Bytes of one packed group of a matrix with that many columns; a multiple of 64.
    int64_t (*group_bytes)(int64_t cols);
    // Packs groups [group_begin, group_end); dst is where group 0 begins.
    void (*pack)(const struct plan_weight *weight, int64_t group_begin, int64_t group_end,
                 void *dst);
    matmul_fn run;
};

// NULL: no tuned kernel; use matmul_reference on the file's rows.
const struct matmul_kernel *matmul_kernel_find(enum format_id format, enum cpu_isa isa);

// The definition. Reads the file's layout (args->w = weight->data).
void matmul_reference(enum format_id format, const struct matmul_args *args, int64_t group_begin,
                      int64_t group_end);

// The definition of activation quantization for one row; n is a multiple of 32.
void quantize_reference(const float *x, int64_t n, int8_t *q, float *d, int16_t *sum);

#endif
