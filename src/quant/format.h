// The formats that weights are stored in. formats.def is THE list; each block format has a header
// of its own.
//
// Every quantized format says the same thing in its own layout: w = scale * q + offset, q in int8,
// scale and offset per span of 16 or 32 elements. `unpack` gives these; decode and the reference
// matmul follow from it for every format. Scales are powers of two or products of short
// mantissas, exact in f32.
#ifndef RN_QUANT_FORMAT_H
#define RN_QUANT_FORMAT_H

#include "base/status.h"

enum { FORMAT_MAX_BLOCK = 256, FORMAT_MAX_SPANS = 16 };

enum format_id {
#define FORMAT(id, ...) FORMAT_##id,
#include "quant/formats.def"
#undef FORMAT
    FORMAT_COUNT
};

struct format {
    const char *name;   // "Q4_K", as people write it
    uint32_t gguf_type; // number in a GGUF tensor table
    int block;          // elements per block; rows are whole blocks
    int block_bytes;    // bytes per block in the file
    int span;           // elements per scale, 16 or 32; 0: a plain float format
    bool has_offset;    // offset is not always 0
    // float formats: n elements to f32
    void (*to_f32)(const void *src, float *dst, int64_t n);
    // block formats: one block to q[block], scale[block / span], offset[block / span] (untouched
    // unless has_offset)
    void (*unpack)(const void *src, int8_t *q, float *scale, float *offset);
    // one block (float formats: one element) from f32; NULL: runnel reads this format only
    void (*encode)(const float *src, void *dst);
};

const struct format *format_at(enum format_id id);
// -1 when runnel does not know the number.
int format_find_gguf(uint32_t gguf_type);
// The name that the number has in the GGUF format even if runnel cannot read it ("IQ2_XS"), or "?".
const char *format_gguf_name(uint32_t gguf_type);
// What to do with a file in a format that runnel cannot read; NULL if nothing is known.
const char *format_gguf_advice(uint32_t gguf_type);
// Bytes of a row of n elements; n must be a multiple of the block.
uint64_t format_row_bytes(enum format_id id, int64_t n);
// A row of n elements to f32: fmaf(scale, q, offset), or scale * q without offset.
void format_decode(enum format_id id, const void *row, float *out, int64_t n);
bool format_can_encode(enum format_id id);
// A row of n elements from f32; n must be a multiple of the block, and the format must have an
// encoder. Finite values stay finite: a value that is too large becomes the largest that fits. NaN
// and infinities stay in float formats; in block formats NaN becomes 0, an infinity the largest.
void format_encode(enum format_id id, const float *row, void *out, int64_t n);

#endif
