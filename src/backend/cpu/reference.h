// The definition of every op but the matrix product (matmul_reference), a row at a time, in plain
// scalar code. The "scalar" instruction set runs it, and tuned kernels are compared with it. The
// same in words: docs/NUMERICS.md.
#ifndef RN_BACKEND_CPU_REFERENCE_H
#define RN_BACKEND_CPU_REFERENCE_H

#include "backend/cpu/ops.h"
#include "backend/cpu/reference_route.h"

enum { REFERENCE_LANES = 16 }; // of a reduction

// Folds the lanes by halves: l += l + 8, then 4, 2, 1.
float reference_fold(float lane[REFERENCE_LANES]);

void reference_norm_rms(const float *x, const float *w, float *y, int n, float eps, bool add);
void reference_norm_layer(const float *x, const float *w, const float *bias, float *y, int n,
                          float eps, bool add);
void reference_rope_table(const struct plan_rope *rope, int32_t pos, float *table);
void reference_rope(const struct plan_rope *rope, const float *table, int n_head, int dim,
                    float *x);
void reference_gate_silu(const float *g, const float *u, float *y, int64_t n);
void reference_gate_gelu(const float *g, const float *u, float *y, int64_t n);
void reference_gate_swiglu_oai(const float *g, const float *u, float *y, int64_t n);
void reference_gate_sigmoid(const float *g, const float *u, float *y, int64_t n);
void reference_gate_relu2(const float *g, const float *u, float *y, int64_t n);
void reference_gate_none(const float *g, const float *u, float *y, int64_t n);
void reference_xielu(const struct gate_xielu *gate, const float *x, float *y, int64_t n);
void reference_combine(const float *const *x, const float *w, int k, float *y, int64_t n);
void reference_conv(const struct conv_args *args);
void reference_delta(const struct delta_args *args);
void reference_scan(const struct scan_args *args);
void reference_softcap(float *x, float cap, int64_t n);
void reference_temper(float *x, float factor, int64_t n); // of all instruction sets
void reference_kv_append(const struct kv_append_args *args);
void reference_attention(const struct attention_args *args, float *scratch);
// These are the same for every instruction set.
// The row of a token, decoded from the file's layout.
void reference_embed(const struct plan_weight *weight, int32_t row, float scale, float *y);
void reference_embed_add(const struct plan_weight *weight, int32_t row, float scale, float *y);

#endif
