// Rows of 16-bit numbers in both orders of struct rows16.
#ifndef RN_BACKEND_CUDA_ROWS16_CUH
#define RN_BACKEND_CUDA_ROWS16_CUH

#include "device.cuh"
#include "stage.h"

// The place of an element: a pair of columns is two neighbours in both orders.
DEV int64_t rows16_at(const struct rows16 &r, int64_t row, int column) {
    if (r.n_groups == 0) return row * r.ld + column;
    const int in_unit = column % UNIT_COLS;
    return ((column / UNIT_COLS * (int64_t)r.n_groups + row / 8) * 4 + in_unit % 8 / 2) * 64 +
           row % 8 * 8 + in_unit / 8 * 2 + in_unit % 2;
}
DEV void rows16_put(const struct rows16 &r, int64_t row, int column, float y) {
    r.at[rows16_at(r, row, column)] = r.is_bf16 ? bf16_of(y) : f16_of(y);
}

#endif
