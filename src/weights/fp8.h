// Matrices of 8-bit floats (E4M3) with scales, as folders have them: a weight is its code times the
// scale of its block, row or matrix. They become BF16 while they are read; see derived.h.
#ifndef RN_WEIGHTS_FP8_H
#define RN_WEIGHTS_FP8_H

#include "weights/hf.h"

// A tensor of n matrices [rows, cols], one after the other.
struct fp8 {
    int64_t n, rows, cols;
    // Of each matrix [scale_rows, scale_cols], in that format; a scale is that of block_rows rows
    // and block_cols columns. scale_rows is 0 where all matrices have one and the same.
    const uint8_t *scale; // in the weights' arena
    enum format_id scale_format;
    bool is_exponent; // a scale is a byte, 2^(byte - 127) or of 255 NaN; scale_format is not used
    int64_t scale_rows, scale_cols, block_rows, block_cols;
};

// Before tensors are mapped: finds the scales of all such tensors, makes the tensors BF16, and
// marks scales as known. Does nothing where the config has no such codes.
rn_status fp8_adopt(struct hf_config *c, struct st_table *table);

// The bytes from `at` on of the tensor in BF16, into out.
struct derived;
rn_status fp8_read(const struct weights *weights, const struct derived *derived, uint64_t at,
                   uint64_t bytes, void *out, rn_error *err);
void fp8_numbers(const struct fp8 *fp8, uint64_t *out); // see derived_numbers

#endif
