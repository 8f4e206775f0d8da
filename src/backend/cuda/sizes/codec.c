// Packs weights into units (codec.h) and gives the numbers that the device makes of them. A
// format's blocks are unpacked for 16 rows and up to 256 columns at a time; a function of the codec
// then writes the units. The layouts of units are stated in codec.cuh. Called by weights.c on every
// thread of the pool, so there is no state.
#include "backend/cuda/codec.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/half.h"

enum {
    ROWS = 16,
    COLS = 32,
    PART_COLS = FORMAT_MAX_BLOCK,
    PART_SPANS = FORMAT_MAX_SPANS,
};

static const struct codec codecs[CODEC_COUNT] = {
#define X(id, bytes, bf16) [CODEC_##id] = {.name = #id, .unit_bytes = bytes, .is_bf16 = bf16},
    CODEC_LIST(X)
#undef X
};

#define X(id, bytes, bf16) _Static_assert((bytes) % 16 == 0, "units are aligned");
CODEC_LIST(X)
#undef X

static const enum codec_id codec_of_format[FORMAT_COUNT] = {
    [FORMAT_F32] = CODEC_F16,    [FORMAT_F16] = CODEC_F16,   [FORMAT_BF16] = CODEC_BF16,
    [FORMAT_Q8_0] = CODEC_Q8,    [FORMAT_Q4_0] = CODEC_Q4,   [FORMAT_Q4_1] = CODEC_Q4O,
    [FORMAT_Q5_0] = CODEC_Q5O,   [FORMAT_Q5_1] = CODEC_Q5O,  [FORMAT_Q2_K] = CODEC_F16,
    [FORMAT_Q3_K] = CODEC_Q6,    [FORMAT_Q4_K] = CODEC_Q4O,  [FORMAT_Q5_K] = CODEC_Q5O,
    [FORMAT_Q6_K] = CODEC_Q6,    [FORMAT_IQ4_NL] = CODEC_T4, [FORMAT_IQ4_XS] = CODEC_T4,
    [FORMAT_MXFP4] = CODEC_E2M1,
};
_Static_assert(FORMAT_COUNT == 16, "a new format needs a codec");

const struct codec *codec_at(enum codec_id id) {
    assert((unsigned)id < CODEC_COUNT);
    return &codecs[id];
}

enum codec_id codec_of(enum format_id format) {
    assert((unsigned)format < FORMAT_COUNT);
    return codec_of_format[format];
}

int64_t codec_units(int64_t cols) { return (cols + COLS - 1) / COLS; }

uint64_t codec_tile_bytes(enum codec_id id, int64_t cols) {
    return (uint64_t)codec_units(cols) * (uint64_t)codec_at(id)->unit_bytes;
}

// ---------------------------------------------------------------- numbers

// To nearest even. A finite number beyond the range becomes the largest one.
static uint16_t f16_bounded(float value) {
    const uint16_t bits = f32_to_f16(value);
    return (bits & 0x7fffu) == 0x7c00u && !isinf(value) ? bits - 1 : bits;
}

// To nearest even in one rounding; beyond the range: infinity.
static uint16_t f16_of_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 48 & 0x8000u);
    bits &= UINT64_MAX >> 1;
    if (bits > 0x7ff0000000000000u) return sign | 0x7e00u;
    if (bits >= 0x40effe0000000000u) return sign | 0x7c00u; // 65520
    if (bits < 0x3f10000000000000u) {                       // below 2^-14: a multiple of 2^-24
        const double shifted = fabs(value) + 0x1p28;        // whose last bit is 2^-24
        memcpy(&bits, &shifted, sizeof bits);
        return (uint16_t)(sign | (uint16_t)bits);
    }
    bits += (UINT64_C(1) << 41) - 1 + (bits >> 42 & 1);
    return (uint16_t)(sign | (uint16_t)((bits >> 42) - (1008u << 10)));
}

// A block as the device has it: w = f16(scale * (q + base) + offset), or without base and offset.
struct block {
    int8_t q[PART_COLS];
    uint16_t scale[PART_SPANS], offset[PART_SPANS]; // f16
};

// Q5_0 has no offset, its codec has: levels begin at 0 and the offset is -16 scales.
static int level_base(enum format_id format) { return format == FORMAT_Q5_0 ? 16 : 0; }

static bool has_offset(enum format_id format) {
    return format_at(format)->has_offset || level_base(format);
}

// One block of the file; its q, scales and offsets go to those of the block.
static void block_unpack(enum format_id format, const void *from, int8_t *q, uint16_t *scale,
                         uint16_t *offset) {
    const struct format *f = format_at(format);
    float s[PART_SPANS], o[PART_SPANS];
    f->unpack(from, q, s, o);
    for (int i = 0; i < f->block / f->span; i++) {
        scale[i] = f16_bounded(s[i]);
        if (level_base(format)) o[i] = (float)-level_base(format) * f16_to_f32(scale[i]);
        if (has_offset(format)) offset[i] = f16_bounded(o[i]);
    }
}

// Sums of these are exact in double: a product of f16 and 8 bits, and an f16.
static uint16_t weight_of(enum format_id format, int q, uint16_t scale, uint16_t offset) {
    const double s = (double)f16_to_f32(scale);
    if (!has_offset(format)) return f16_of_f64(s * q);
    return f16_of_f64(s * (q + level_base(format)) + (double)f16_to_f32(offset));
}

void codec_decode_row(enum format_id format, const void *row, int64_t cols, float *out) {
    const struct format *f = format_at(format);
    assert(cols % f->block == 0);
    if (f->to_f32 || codec_of(format) == CODEC_F16) {
        format_decode(format, row, out, cols);
        if (codec_of(format) != CODEC_F16) return;
        for (int64_t i = 0; i < cols; i++) out[i] = f16_to_f32(f16_bounded(out[i]));
        return;
    }
    struct block block = {0};
    const uint8_t *from = row;
    for (int64_t at = 0; at < cols; at += f->block, from += f->block_bytes) {
        block_unpack(format, from, block.q, block.scale, block.offset);
        for (int i = 0; i < f->block; i++) {
            const int span = i / f->span;
            out[at + i] =
                f16_to_f32(weight_of(format, block.q[i], block.scale[span], block.offset[span]));
        }
    }
}

static bool f16_holds(float value) {
    return !isfinite(value) || (f32_to_f16(value) & 0x7fffu) < 0x7c00u;
}

bool codec_row_fits(enum format_id format, const void *row, int64_t cols) {
    const struct format *f = format_at(format);
    const int n = f->span ? f->block : 1;
    float value[PART_COLS], scale[PART_SPANS], offset[PART_SPANS] = {0};
    int8_t q[PART_COLS];
    const uint8_t *from = row;
    bool fits = true;
    if (format == FORMAT_F16 || format == FORMAT_BF16) return true;
    for (int64_t at = 0; at < cols; at += n, from += f->block_bytes) {
        format_decode(format, from, value, n);
        for (int i = 0; i < n; i++) fits &= f16_holds(value[i]);
        if (codec_of(format) == CODEC_F16) continue;
        f->unpack(from, q, scale, offset);
        for (int i = 0; i < n / f->span; i++) {
            const float base = (float)-level_base(format) * scale[i];
            fits &= f16_holds(scale[i]) && f16_holds(f->has_offset ? offset[i] : base);
        }
    }
    return fits;
}

// ---------------------------------------------------------------- 16-bit codecs

// row: 64 bytes of each.
static void unit_pack_16(const uint8_t *const row[ROWS], uint8_t *out) {
    for (int g = 0; g < 8; g++) {
        for (int i = 0; i < 8; i++) { // columns 4 i to 4 i + 3
            uint32_t a[2], b[2];
            memcpy(a, row[g] + i * 8, sizeof a);
            memcpy(b, row[g + 8] + i * 8, sizeof b);
            const uint32_t word[4] = {a[0], b[0], a[1], b[1]};
            memcpy(out + i % 2 * 512 + (g * 4 + i / 2) * 16, word, sizeof word);
        }
    }
}

static const uint8_t zeros[COLS * 2];

static void tile_pack_16(const void *const row[ROWS], int64_t cols, uint8_t *out) {
    const uint8_t *at[ROWS];
    int64_t step[ROWS];
    for (int r = 0; r < ROWS; r++) {
        at[r] = row[r] ? row[r] : zeros;
        step[r] = row[r] ? COLS * 2 : 0;
    }
    for (int64_t unit = 0; unit < cols / COLS; unit++, out += 1024) {
        unit_pack_16(at, out);
        for (int r = 0; r < ROWS; r++) at[r] += step[r];
    }
    if (cols % COLS) {
        uint8_t last[ROWS][COLS * 2] = {0};
        for (int r = 0; r < ROWS; r++) {
            if (row[r]) memcpy(last[r], at[r], (size_t)(cols % COLS) * 2);
            at[r] = last[r];
        }
        unit_pack_16(at, out);
    }
}

// Formats that are rounded to f16, in parts.
static void tile_pack_rounded(enum format_id format, const void *const row[ROWS], int64_t cols,
                              uint8_t *out) {
    const struct format *f = format_at(format);
    uint16_t half[ROWS][PART_COLS];
    const void *at[ROWS];
    for (int r = 0; r < ROWS; r++) at[r] = row[r] ? half[r] : NULL;
    for (int64_t first = 0; first < cols; first += PART_COLS) {
        const int n = (int)(cols - first < PART_COLS ? cols - first : PART_COLS);
        for (int r = 0; r < ROWS; r++) {
            if (!row[r]) continue;
            float value[PART_COLS];
            const int64_t block = first / f->block;
            format_decode(format, (const uint8_t *)row[r] + block * f->block_bytes, value, n);
            for (int i = 0; i < n; i++) half[r][i] = f16_bounded(value[i]);
        }
        tile_pack_16(at, n, out);
        out += codec_tile_bytes(CODEC_F16, n);
    }
}

// ---------------------------------------------------------------- codecs of integers

// Columns of 16 rows. Rows that are not there have q = 0 and scales and offsets of 0.
struct part {
    int8_t q[ROWS][PART_COLS];
    uint16_t scale[ROWS][PART_SPANS], offset[ROWS][PART_SPANS]; // f16, by spans of the format
};

// {scale[g], scale[g + 8]} of a span.
static void scales_pack(const struct part *part, int span, uint8_t *out) {
    for (int g = 0; g < 8; g++) {
        const uint16_t pair[2] = {part->scale[g][span], part->scale[g + 8][span]};
        memcpy(out + g * 4, pair, sizeof pair);
    }
}

static void scales_offsets_pack(const struct part *part, int span, uint8_t *out) {
    for (int g = 0; g < 8; g++) {
        const uint16_t four[4] = {part->scale[g][span], part->scale[g + 8][span],
                                  part->offset[g][span], part->offset[g + 8][span]};
        memcpy(out + g * 8, four, sizeof four);
    }
}

// Nibbles of rows g and g + 8, q + base each.
static void nibbles_pack(const struct part *part, int unit, int base, uint8_t *out) {
    for (int g = 0; g < 8; g++) {
        const int8_t *a = part->q[g] + unit * COLS, *b = part->q[g + 8] + unit * COLS;
        for (int i = 0; i < COLS; i++)
            out[g * COLS + i] = (uint8_t)((a[i] + base) | (b[i] + base) << 4);
    }
}

static void q8_pack(const struct part *part, int unit, uint8_t *out) {
    for (int r = 0; r < ROWS; r++) {
        for (int t = 0; t < 4; t++) {
            uint64_t eight;
            memcpy(&eight, part->q[r] + unit * COLS + t * 8, sizeof eight);
            eight ^= UINT64_C(0x8080808080808080); // q + 128
            memcpy(out + (r % 8 * 4 + t) * 16 + r / 8 * 8, &eight, sizeof eight);
        }
    }
    scales_pack(part, unit, out + 512);
}

static void q4_pack(const struct part *part, int unit, uint8_t *out) {
    nibbles_pack(part, unit, 8, out);
    scales_pack(part, unit, out + 256);
}

static void q4o_pack(const struct part *part, int unit, uint8_t *out) {
    nibbles_pack(part, unit, 0, out);
    scales_offsets_pack(part, unit, out + 256);
}

// The numbers of lane 4 g + t by registers: value[i] has both numbers of register i, one in each
// half. q + base is at most 8 bits.
static void lane_values(const struct part *part, int unit, int g, int t, int base,
                        uint32_t value[8]) {
    for (int i = 0; i < 8; i++) {
        const int8_t *q = part->q[g + 8 * (i & 1)] + unit * COLS + 8 * t + i / 2 * 2;
        value[i] = (uint32_t)(q[0] + base) | (uint32_t)(q[1] + base) << 16;
    }
}

static void q5o_pack_from(const struct part *part, int unit, int base, uint8_t *out) {
    for (int lane = 0; lane < 32; lane++) {
        uint32_t v[8];
        lane_values(part, unit, lane / 4, lane % 4, base, v);
        const uint32_t word[2] = {
            v[0] | v[1] << 5 | v[2] << 10 | (v[7] & 0x00080008) << 12,
            v[3] | v[4] << 5 | v[5] << 10 | (v[7] & 0x00100010) << 11,
        };
        const uint32_t rest = v[6] | (v[7] & 0x00070007) << 5;
        memcpy(out + lane * 8, word, sizeof word);
        out[256 + lane / 2 * 4 + lane % 2] = (uint8_t)rest;
        out[256 + lane / 2 * 4 + lane % 2 + 2] = (uint8_t)(rest >> 16);
    }
    scales_offsets_pack(part, unit, out + 320);
}

static void q5o_pack(const struct part *part, int unit, uint8_t *out) {
    q5o_pack_from(part, unit, 0, out);
}

static void q5o_pack_centred(const struct part *part, int unit, uint8_t *out) {
    q5o_pack_from(part, unit, 16, out);
}

static void q6_pack(const struct part *part, int unit, uint8_t *out) {
    for (int lane = 0; lane < 32; lane++) {
        uint32_t v[8];
        lane_values(part, unit, lane / 4, lane % 4, 32, v);
        const uint32_t word[3] = {
            v[0] | v[3] << 6 | (v[6] & 0x003c003c) << 10,
            v[1] | v[4] << 6 | (v[7] & 0x003c003c) << 10,
            v[2] | v[5] << 6 | (v[6] & 0x00030003) << 12 | (v[7] & 0x00030003) << 14,
        };
        memcpy(out + lane * 8, word, 8);
        memcpy(out + 256 + lane * 4, word + 2, 4);
        const int g = lane / 4, span = unit * 2 + lane % 4 / 2;
        const uint16_t pair[2] = {part->scale[g][span], part->scale[g + 8][span]};
        memcpy(out + 384 + lane / 2 * 4, pair, sizeof pair); // the lanes of a pair write the same
    }
}

// IQ4_NL's levels by q + 128, as in codec.cuh. No level is 0: rows of zeros have the positive level
// 1, times a scale of 0.
static const uint8_t t4_index[256] = {
    [128] = 8,       [128 - 127] = 0,  [128 - 104] = 1, [128 - 83] = 2,  [128 - 65] = 3,
    [128 - 49] = 4,  [128 - 35] = 5,   [128 - 22] = 6,  [128 - 10] = 7,  [128 + 1] = 8,
    [128 + 13] = 9,  [128 + 25] = 10,  [128 + 38] = 11, [128 + 53] = 12, [128 + 69] = 13,
    [128 + 89] = 14, [128 + 113] = 15,
};

static void t4_pack(const struct part *part, int unit, uint8_t *out) {
    for (int g = 0; g < 8; g++) {
        const int8_t *a = part->q[g] + unit * COLS, *b = part->q[g + 8] + unit * COLS;
        for (int i = 0; i < COLS; i++)
            out[g * COLS + i] = (uint8_t)(t4_index[a[i] + 128] | t4_index[b[i] + 128] << 4);
    }
    scales_pack(part, unit, out + 256);
}

// MXFP4's levels by q + 12: the number of the magnitude, and 8 for the sign.
static const uint8_t e2m1_index[25] = {
    [12] = 0,      [12 + 1] = 1,  [12 + 2] = 2,  [12 + 3] = 3,  [12 + 4] = 4,
    [12 + 6] = 5,  [12 + 8] = 6,  [12 + 12] = 7, [12 - 1] = 9,  [12 - 2] = 10,
    [12 - 3] = 11, [12 - 4] = 12, [12 - 6] = 13, [12 - 8] = 14, [12 - 12] = 15,
};

// The high bits of the nibbles of 16 bits, to bits 3, 11, 19 and 27.
static uint32_t signs_spread(uint32_t nibbles) {
    nibbles &= 0x8888;
    nibbles = (nibbles | nibbles << 8) & 0x00880088;
    return (nibbles | nibbles << 4) & 0x08080808;
}

static void e2m1_pack(const struct part *part, int unit, uint8_t *out) {
    for (int g = 0; g < 8; g++) {
        const int8_t *a = part->q[g] + unit * COLS, *b = part->q[g + 8] + unit * COLS;
        uint8_t index[COLS];
        for (int i = 0; i < COLS; i++)
            index[i] = (uint8_t)(e2m1_index[a[i] + 12] | e2m1_index[b[i] + 12] << 4);
        for (int i = 0; i < COLS; i += 4) {
            uint32_t word;
            memcpy(&word, index + i, sizeof word);
            word = (word & 0x77777777) | signs_spread(word) << 4 | signs_spread(word >> 16);
            memcpy(out + g * COLS + i, &word, sizeof word);
        }
    }
    scales_pack(part, unit, out + 256);
}

typedef void unit_pack(const struct part *part, int unit, uint8_t *out);

static unit_pack *unit_pack_of(enum format_id format) {
    if (format == FORMAT_Q5_0) return q5o_pack_centred;
    static unit_pack *const by_codec[CODEC_COUNT] = {
        [CODEC_Q8] = q8_pack,     [CODEC_Q4] = q4_pack, [CODEC_Q4O] = q4o_pack,
        [CODEC_Q5O] = q5o_pack,   [CODEC_Q6] = q6_pack, [CODEC_T4] = t4_pack,
        [CODEC_E2M1] = e2m1_pack,
    };
    return by_codec[codec_of(format)];
}

static void tile_pack_blocks(enum format_id format, const void *const row[ROWS], int64_t cols,
                             uint8_t *out) {
    const struct format *f = format_at(format);
    const int unit_bytes = codec_at(codec_of(format))->unit_bytes;
    unit_pack *const pack = unit_pack_of(format);
    struct part part;
    memset(&part, 0, sizeof part);
    for (int64_t first = 0; first < cols; first += PART_COLS) {
        const int n = (int)(cols - first < PART_COLS ? cols - first : PART_COLS);
        for (int r = 0; r < ROWS; r++) {
            if (!row[r]) continue;
            const uint8_t *from = (const uint8_t *)row[r] + first / f->block * f->block_bytes;
            for (int i = 0; i < n; i += f->block, from += f->block_bytes)
                block_unpack(format, from, part.q[r] + i, part.scale[r] + i / f->span,
                             part.offset[r] + i / f->span);
        }
        for (int unit = 0; unit < n / COLS; unit++, out += unit_bytes) pack(&part, unit, out);
    }
}

void codec_pack_tile(enum format_id format, const void *const row[16], int64_t cols, uint8_t *out) {
    assert(cols > 0 && cols % format_at(format)->block == 0);
    if (format == FORMAT_F16 || format == FORMAT_BF16)
        tile_pack_16(row, cols, out);
    else if (codec_of(format) == CODEC_F16)
        tile_pack_rounded(format, row, cols, out);
    else
        tile_pack_blocks(format, row, cols, out);
}
