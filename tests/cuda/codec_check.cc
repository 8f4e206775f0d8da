// Weight codecs: packs random rows of every format on the host, decodes them with the kernel's own
// codec_fragments lane by lane, and compares every number with codec_decode_row to the bit. Needs
// no device. Usage: codec_check [seed]. Exit 1: a number differs.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
#include "quant/format.h"
}

#include "backend/cuda/codec.cuh"

namespace {

uint64_t state = 1;
int n_failed, n_compared;

uint32_t random_next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state ^ state >> 31) * 0x9e3779b97f4a7c15u >> 32);
}

void fail(const char *name, const char *what, int64_t a, int64_t b) {
    if (n_failed++ < 20)
        fprintf(stderr, "%s: %s (%lld, %lld)\n", name, what, (long long)a, (long long)b);
}

// A unit in the memory of the host.
struct host_unit {
    const uint8_t *at;
    template <class T> T load(int offset) const {
        if (offset < 0 || offset % (int)sizeof(T)) fail("load", "not aligned", offset, sizeof(T));
        T v;
        memcpy(&v, at + offset, sizeof v);
        return v;
    }
    uint32_t u32(int offset) const { return load<uint32_t>(offset); }
    uint2 u64(int offset) const { return load<uint2>(offset); }
    uint4 u128(int offset) const { return load<uint4>(offset); }
};

// Offsets of the f16 scale and the f16 offset of a block; -1: none.
struct fields {
    int scale, offset;
};
fields fields_of(int format) {
    switch (format) {
    case FORMAT_Q4_1:
    case FORMAT_Q5_1:
    case FORMAT_Q4_K:
    case FORMAT_Q5_K:
        return {0, 2};
    case FORMAT_Q2_K:
        return {80, 82};
    case FORMAT_Q3_K:
        return {108, -1};
    case FORMAT_Q6_K:
        return {208, -1};
    case FORMAT_MXFP4:
        return {-1, -1};
    default:
        return {0, -1};
    }
}

// Random bytes; `tame`: with numbers and scales of ordinary size.
void row_fill(int format, uint8_t *row, uint64_t bytes, bool tame) {
    const struct format *f = format_at((enum format_id)format);
    for (uint64_t i = 0; i < bytes; i++) row[i] = (uint8_t)random_next();
    if (!tame) return;
    for (uint64_t at = 0; at < bytes; at += (uint64_t)f->block_bytes) {
        const float unit = (float)(int32_t)random_next() * 0x1p-31f;
        const uint16_t half = f16_of(f->span ? unit * 0.01f : unit);
        if (format == FORMAT_F32) {
            memcpy(row + at, &unit, sizeof unit);
        } else if (format == FORMAT_BF16) {
            const uint16_t bits = bf16_of(unit);
            memcpy(row + at, &bits, sizeof bits);
        } else if (format == FORMAT_MXFP4) {
            row[at] = (uint8_t)(110 + random_next() % 16);
        } else {
            const fields where = fields_of(format);
            memcpy(row + at + where.scale, &half, sizeof half);
            const uint16_t offset = f16_of((float)(int32_t)random_next() * 0x1p-31f * 0.01f);
            if (where.offset >= 0) memcpy(row + at + where.offset, &offset, sizeof offset);
        }
    }
}

template <int CODEC> void unit_decode(const uint8_t *unit, float out[16][32]) {
    static_assert(codec_unit_bytes<CODEC>() % 16 == 0, "units are aligned");
    if (codec_at((enum codec_id)CODEC)->unit_bytes != codec_unit_bytes<CODEC>() ||
        codec_at((enum codec_id)CODEC)->is_bf16 != codec_is_bf16<CODEC>())
        fail(codec_at((enum codec_id)CODEC)->name, "the tables differ", CODEC, 0);
    for (int lane = 0; lane < 32; lane++) {
        uint32_t a[2][4];
        codec_fragments<CODEC>(host_unit{unit}, lane, a);
        for (int i = 0; i < 16; i++) {
            const int h = i / 8, j = i / 2 % 4, second = i % 2;
            const uint16_t bits = (uint16_t)(a[h][j] >> 16 * second);
            out[lane / 4 + 8 * (j & 1)][lane % 4 * 8 + 4 * h + 2 * (j >> 1) + second] =
                codec_is_bf16<CODEC>() ? f32_of_bf16(bits) : f32_of_f16(bits);
        }
    }
}

void unit_decode(int codec, const uint8_t *unit, float out[16][32]) {
    switch (codec) {
#define X(id, unit_bytes, is_bf16)                                                                 \
    case CODEC_##id:                                                                               \
        unit_decode<CODEC_##id>(unit, out);                                                        \
        break;
        CODEC_LIST(X)
#undef X
    }
}

bool same(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

// decode_row against the format's own numbers: three roundings to f16 at most, of numbers that are
// no larger than the span's scale times its largest level, or its offset.
void row_check(int format, const uint8_t *row, int64_t cols, const float *decoded) {
    const struct format *f = format_at((enum format_id)format);
    std::vector<float> exact((size_t)cols);
    format_decode((enum format_id)format, row, exact.data(), cols);
    if (!codec_row_fits((enum format_id)format, row, cols))
        fail(f->name, "an ordinary row", cols, 0);
    for (int64_t i = 0; i < cols; i++) {
        double bound = std::fabs((double)exact[(size_t)i]) * 0x1p-11 + 0x1p-24;
        if (f->span) {
            int8_t q[FORMAT_MAX_BLOCK];
            float scale[FORMAT_MAX_SPANS], offset[FORMAT_MAX_SPANS] = {0};
            f->unpack(row + i / f->block * f->block_bytes, q, scale, offset);
            const int64_t span = i % f->block / f->span;
            const double level = std::abs(q[i % f->block]) + (format == FORMAT_Q5_0 ? 16 : 0);
            bound = (std::fabs((double)scale[span]) * level + std::fabs((double)offset[span])) *
                        0x1p-10 +
                    (level + 2) * 0x1p-24;
        } else if (format == FORMAT_BF16) {
            bound = 0;
        }
        if (!(std::fabs((double)decoded[i] - (double)exact[(size_t)i]) <= bound))
            fail(f->name, "decode_row is far from the format's number", i, cols);
    }
}

void tile_check(int format, int64_t cols, bool tame) {
    const struct format *f = format_at((enum format_id)format);
    const enum codec_id codec = codec_of((enum format_id)format);
    const uint64_t row_bytes = format_row_bytes((enum format_id)format, cols);
    const uint64_t bytes = codec_tile_bytes(codec, cols);
    const int64_t n_units = codec_units(cols);
    const int unit_bytes = codec_at(codec)->unit_bytes;
    if (n_units != (cols + 31) / 32 || bytes != (uint64_t)n_units * (uint64_t)unit_bytes)
        fail(f->name, "size of a tile", n_units, (int64_t)bytes);

    std::vector<std::vector<uint8_t>> data(16);
    std::vector<std::vector<float>> want(16, std::vector<float>((size_t)n_units * 32));
    const void *row[16];
    const uint32_t missing = tame ? 0 : random_next() & random_next();
    for (int r = 0; r < 16; r++) {
        data[r].resize(row_bytes + 1); // at an odd address now and then
        uint8_t *at = data[r].data() + (random_next() & 1);
        row_fill(format, at, row_bytes, tame);
        row[r] = missing >> r & 1 ? nullptr : at;
        if (!row[r]) continue;
        codec_decode_row((enum format_id)format, at, cols, want[r].data());
        if (tame) row_check(format, at, cols, want[r].data());
    }
    std::vector<uint8_t> out(bytes, 0xAA), again(bytes, 0x55);
    codec_pack_tile((enum format_id)format, row, cols, out.data());
    codec_pack_tile((enum format_id)format, row, cols, again.data());
    if (out != again) fail(f->name, "a byte of a tile is not written", cols, 0);
    for (int64_t unit = 0; unit < n_units; unit++) {
        float got[16][32];
        unit_decode(codec, out.data() + unit * unit_bytes, got);
        for (int i = 0; i < 512; i++, n_compared++)
            if (!same(got[i / 32][i % 32], want[i / 32][(size_t)(unit * 32 + i % 32)]))
                fail(f->name, "a number of (row, column) differs", i / 32, unit * 32 + i % 32);
    }
}

void fits_check() {
    const float in[] = {0, 65504, -65519.99f, 1e-30f, INFINITY, NAN}, out[] = {1, 65520};
    if (!codec_row_fits(FORMAT_F32, in, 6)) fail("F32", "a row that fits", 0, 0);
    if (codec_row_fits(FORMAT_F32, out, 2)) fail("F32", "a row that does not fit", 0, 0);
    float decoded[2];
    codec_decode_row(FORMAT_F32, out, 2, decoded);
    if (decoded[0] != 1 || decoded[1] != 65504) fail("F32", "a large number", 0, 0);
    uint8_t block[17] = {143}; // 2^15
    if (!codec_row_fits(FORMAT_MXFP4, block, 32)) fail("MXFP4", "a row that fits", 0, 0);
    block[0] = 144;
    if (codec_row_fits(FORMAT_MXFP4, block, 32)) fail("MXFP4", "a row that does not fit", 0, 0);
}

} // namespace

int main(int argc, char **argv) {
    if (argc > 1) state = strtoull(argv[1], nullptr, 0);
    for (int format = 0; format < FORMAT_COUNT; format++) {
        const int64_t block = format_at((enum format_id)format)->block;
        const int64_t floats[] = {1, 31, 32, 33, 100, 256, 257, 301, 512};
        const int64_t blocks[] = {1, 2, 7, 8, 9, 17, 1, 3, 5};
        for (int i = 0; i < 9; i++)
            for (int tame = 0; tame < 2; tame++)
                tile_check(format, block == 1 ? floats[i] : blocks[i] * block, tame);
    }
    fits_check();
    printf("codecs: %d numbers compared, %d failures\n", n_compared, n_failed);
    return n_failed != 0;
}
