// How weights are stored on the device: in units of 16 rows x 32 columns, packed so that the A
// operands of two mma.m16n8k16 are a few wide loads of each lane. sizes/codec.c packs; codec.cuh
// decodes and states the layouts. A unit begins at a multiple of 16 bytes and holds its own scales.
//
// A quantized weight becomes one f16 number: f16(s * q), or f16(s * q + o) with a single rounding.
// s and o are the scale and offset in f16: a finite number beyond the range becomes the largest
// one. F32 and Q2_K become F16 in the same way. codec_decode_row gives exactly these numbers.
#ifndef RN_BACKEND_CUDA_CODEC_H
#define RN_BACKEND_CUDA_CODEC_H

#include "quant/format.h"

#ifdef __cplusplus
extern "C" {
#endif

// id, bytes of a unit, whether the numbers are bf16
#define CODEC_LIST(X)                                                                              \
    X(F16, 1024, false)          /* as they are */                                                 \
    X(BF16, 1024, true)          /* as they are */                                                 \
    X(Q8, 512 + 32, false)       /* int8; a scale for 32 columns */                                \
    X(Q4, 256 + 32, false)       /* 4 bits, q - 8; a scale for 32 columns */                       \
    X(Q4O, 256 + 64, false)      /* 4 bits; scale and offset for 32 columns */                     \
    X(Q5O, 256 + 64 + 64, false) /* 5 bits; scale and offset for 32 columns */                     \
    X(Q6, 256 + 128 + 64, false) /* 6 bits, q - 32; a scale for 16 columns */                      \
    X(T4, 256 + 32, false)       /* 4 bits that number IQ4_NL's levels; a scale for 32 */          \
    X(E2M1, 256 + 32, false)     /* floats of 4 bits; a scale for 32 columns */

enum codec_id {
#define X(id, unit_bytes, is_bf16) CODEC_##id,
    CODEC_LIST(X)
#undef X
        CODEC_COUNT
};

struct codec {
    const char *name;
    int unit_bytes;
    bool is_bf16;
};

const struct codec *codec_at(enum codec_id id);
enum codec_id codec_of(enum format_id format);

// Units of a row of that many columns.
int64_t codec_units(int64_t cols);
// Bytes of 16 rows.
uint64_t codec_tile_bytes(enum codec_id id, int64_t cols);

// Packs 16 rows into codec_tile_bytes(codec_of(format), cols). A row that is NULL is a row of
// zeros. Rows may be at any address. Columns are a multiple of the format's block; in float formats
// the last unit is filled up with zeros.
void codec_pack_tile(enum format_id format, const void *const row[16], int64_t cols, uint8_t *out);

// The numbers that the device computes with, to the bit.
void codec_decode_row(enum format_id format, const void *row, int64_t cols, float *out);

// Whether the device's numbers are close to the row's: false where a finite number, scale or offset
// is beyond the range of f16.
bool codec_row_fits(enum format_id format, const void *row, int64_t cols);

#ifdef __cplusplus
}
#endif

#endif
