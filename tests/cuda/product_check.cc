// Products on the emulator: a row has the same bits alone, among eight and among forty, whether
// each block norms the input or a stage prepares it, by the kernel of its codec, by the one of any
// codec and by those of larger steps, on grids of different sizes, whole and in parts.
#include <string.h>

#include "codec.h"
#include "kernel_check.h"
#include "step.h"

namespace {

struct shape {
    int codec, cols, n_tiles[2], n_products;
    bool has_gate, adds;
};

enum { MOST_ROWS = 40, MOST_PLACES = 256 };

struct bench {
    shape c;
    device_memory m;
    stage_product s = {};
    int ld_out, rows_out;
    std::vector<float> residual;
    float *out;
    uint16_t *x16, *out16, *tiled;
    float *sums;
    uint32_t *counters;

    explicit bench(const shape &from) : c(from) {
        const int n_units = (c.cols + UNIT_COLS - 1) / UNIT_COLS;
        const int unit_bytes = codec_at((enum codec_id)c.codec)->unit_bytes;
        const bool is_bf16 = c.codec == CODEC_BF16;
        std::vector<float> x(MOST_ROWS * (size_t)c.cols), weight((size_t)c.cols);
        for (float &v : x) v = 8.0f * draw.number();
        for (float &v : weight) v = draw.number();
        s.x = m.put(x), s.ldx = c.cols, s.cols = c.cols, s.n_units = n_units;
        x16 = m.put(std::vector<uint16_t>((size_t)(MOST_ROWS * n_units * UNIT_COLS)));
        s.x16 = {x16, n_units * UNIT_COLS, 0, is_bf16, 0};
        s.norm.weight = m.put(weight), s.norm.eps = 1e-5f;
        s.n_products = c.n_products;
        rows_out = 0;
        for (int i = 0; i < c.n_products; i++) rows_out += c.n_tiles[i] * UNIT_ROWS;
        ld_out = rows_out;
        residual.resize((size_t)(MOST_ROWS * ld_out));
        for (float &v : residual) v = draw.number();
        out = m.put(residual);
        out16 = m.put(std::vector<uint16_t>((size_t)(MOST_PLACES * (ld_out + UNIT_COLS))));
        tiled = m.put(std::vector<uint16_t>((size_t)(MOST_ROWS * n_units * UNIT_COLS)));
        sums = m.put(std::vector<float>(16 * many_sums_bytes(MANY_WIDE) / 4));
        counters = m.put(std::vector<uint32_t>(256));
        int first = 0;
        for (int i = 0; i < c.n_products; i++) {
            product &p = s.product[i];
            std::vector<uint16_t> units((size_t)(c.n_tiles[i] * n_units) * unit_bytes / 2);
            for (size_t k = 0; k < units.size(); k++) {
                const size_t at = k * 2 % (size_t)unit_bytes;
                const bool is_half = unit_bytes == 1024 || at >= (size_t)(unit_bytes - 32);
                units[k] = is_half ? draw.half(is_bf16) : (uint16_t)draw.below(65536);
            }
            p.weight = (const uint8_t *)m.put(units);
            p.codec = c.codec, p.unit_bytes = unit_bytes, p.n_tiles = c.n_tiles[i];
            p.n_rows = c.has_gate ? c.n_tiles[i] * 8 : c.n_tiles[i] * UNIT_ROWS - 3;
            p.ld = ld_out, p.scale = 1.0f, p.add = c.adds;
            p.gate = c.has_gate ? 1 : 0;
            p.out = c.has_gate ? nullptr : out + first;
            p.out16 = {c.has_gate ? out16 + first : nullptr, ld_out, 0, is_bf16, 0};
            first += c.n_tiles[i] * UNIT_ROWS;
            s.n_tiles += c.n_tiles[i];
        }
        prepare(s.x16, 0, MOST_ROWS);
    }

    // All rows, by the stage that prepares them; in the order of small steps, or tiled.
    void prepare(const rows16 &to, int first, int n) {
        prepare_args args = {};
        args.stage.in = s.x + (int64_t)first * s.ldx, args.stage.ld_in = s.ldx,
        args.stage.width = c.cols;
        args.stage.out16 = to, args.stage.input = INPUT_RMS, args.stage.norm = s.norm;
        args.n_rows = n;
        launch(prepare_kernel(INPUT_RMS), 3, BLOCK_THREADS, 2 * N_WARPS * sizeof(float), &args);
    }

    // The outputs of n rows from `first` on, as bytes.
    std::vector<uint8_t> run(int codec, int first, int n, int form) {
        product_args args = {};
        const int tiles = form == PRODUCT_PAIRS ? 2 : 1;
        const bool is_staged = form != PRODUCT_READ;
        args.stage = s, args.n_rows = n, args.n_items = product_items(&s, tiles);
        args.stage.x += (int64_t)first * s.ldx;
        args.stage.x16.at += (int64_t)first * s.x16.ld;
        args.stage.input = is_staged ? INPUT_RMS : INPUT_16;
        CUDA(cudaMemcpy(out, residual.data() + (size_t)(first * ld_out),
                        (size_t)(n * ld_out) * sizeof(float), cudaMemcpyHostToDevice));
        CUDA(cudaMemset(out16, 0, (size_t)(MOST_ROWS * ld_out) * 2));
        args.n_slots = 1 + draw.below(4);
        args.n_early = is_staged ? draw.below(args.n_slots + 1) : args.n_slots;
        args.slot_bytes = tiles * SLOT_UNITS(s.product[0].unit_bytes) * s.product[0].unit_bytes;
        const uint32_t x_bytes = is_staged ? (uint32_t)(s.n_units * n * 64) : 0;
        launch(product_small(codec, form), 1 + draw.below(4),
               form >= PRODUCT_ASKED ? ASKED_THREADS : PRODUCT_THREADS,
               product_shared_bytes(args.n_slots, args.slot_bytes, tiles, x_bytes), &args);
        const size_t bytes = (size_t)(n * ld_out) * (c.has_gate ? 2 : 4);
        std::vector<uint8_t> got(bytes);
        CUDA(cudaMemcpy(got.data(), c.has_gate ? (void *)out16 : (void *)out, bytes,
                        cudaMemcpyDeviceToHost));
        return got;
    }

    // The same by a kernel of larger steps, of few or many columns. Items from n_whole on have
    // parts.
    std::vector<uint8_t> run_many(int first, int n, int columns, int n_whole, int parts_log) {
        many_args args = {};
        const int groups = (MOST_ROWS + 7) / 8;
        args.stage = s, args.n_rows = n, args.n_whole = n_whole, args.parts_log = parts_log;
        args.stage.x16 = {tiled, 0, groups, s.x16.is_bf16, 0};
        prepare(args.stage.x16, first, n);
        for (int i = 0; i < c.n_products && c.has_gate; i++)
            args.stage.product[i].out16 = {out16, 0, groups, s.x16.is_bf16, 0};
        CUDA(cudaMemcpy(out, residual.data() + (size_t)(first * ld_out),
                        (size_t)(n * ld_out) * sizeof(float), cudaMemcpyHostToDevice));
        args.sums = sums, args.counters = counters;
        args.n_stages = 2 + draw.below(3);
        const int unit_bytes = s.product[0].unit_bytes;
        const uint32_t stage = many_stage_bytes(columns, unit_bytes);
        launch(product_many(c.codec, columns), 1 + draw.below(4), MANY_THREADS,
               MANY_HEAD + (uint32_t)args.n_stages * stage, &args);
        if (!c.has_gate) {
            std::vector<uint8_t> got((size_t)(n * ld_out) * 4);
            CUDA(cudaMemcpy(got.data(), out, got.size(), cudaMemcpyDeviceToHost));
            return got;
        }
        const int units = (s.product[0].n_rows + UNIT_COLS - 1) / UNIT_COLS;
        std::vector<uint16_t> all((size_t)(units * groups * 256));
        CUDA(cudaMemcpy(all.data(), out16, all.size() * 2, cudaMemcpyDeviceToHost));
        std::vector<uint8_t> got((size_t)(n * ld_out) * 2);
        for (int row = 0; row < n; row++)
            for (int i = 0; i < s.product[0].n_rows; i++) {
                const int unit = i / UNIT_COLS, t = i % UNIT_COLS / 8, j = i % 8 / 2, e = i % 2;
                const int at = ((unit * groups + row / 8) * 4 + j) * 64 + row % 8 * 8 + t * 2 + e;
                memcpy(got.data() + (size_t)(row * ld_out + i) * 2, &all[(size_t)at], 2);
            }
        return got;
    }
};

void case_run(const shape &c) {
    bench b(c);
    const size_t row_bytes = (size_t)b.ld_out * (c.has_gate ? 2 : 4);
    std::vector<uint8_t> alone;
    for (int r = 0; r < MOST_ROWS; r++) {
        const std::vector<uint8_t> row = b.run(c.codec, r, 1, PRODUCT_STAGED);
        alone.insert(alone.end(), row.begin(), row.end());
    }
    const auto same = [&](const std::vector<uint8_t> &got, int first, const char *what) {
        if (memcmp(got.data(), alone.data() + (size_t)first * row_bytes, got.size()) == 0) return;
        printf("%s of %s: rows from %d on differ\n", what, codec_at((enum codec_id)c.codec)->name,
               first);
        exit(1);
    };
    const int n = 2 + draw.below(7), first = draw.below(MOST_ROWS - 8);
    same(b.run(c.codec, first, n, PRODUCT_STAGED), first, "staged rows");
    same(b.run(c.codec, first, n, PRODUCT_READ), first, "prepared rows");
    if (b.s.product[0].unit_bytes <= ASKED_UNIT_MOST) {
        same(b.run(c.codec, first, n, PRODUCT_ASKED), first, "weights that a warp asks for");
        same(b.run(c.codec, first, n, PRODUCT_PAIRS), first, "pairs of tiles");
    }
    if (c.codec != CODEC_BF16) // whose stages have one codec
        same(b.run(CODEC_COUNT, first, n, PRODUCT_STAGED), first, "any, staged");
    same(b.run(CODEC_COUNT, first, n, PRODUCT_READ), first, "any, prepared");
    for (int columns : {(int)MANY_FEW, (int)MANY_MIDDLE, (int)MANY_WIDE}) {
        const int log = draw.below(4), more = 9 + draw.below(MOST_ROWS - 8 - 9);
        same(b.run_many(first, n, columns, INT32_MAX, 0), first, "few rows of a warpgroup");
        same(b.run_many(0, more, columns, INT32_MAX, 0), 0, "rows of a warpgroup");
        same(b.run_many(0, more, columns, draw.below(3), log), 0, "rows of a warpgroup in parts");
    }
}

} // namespace

int main() {
    static const int codecs[] = {CODEC_F16, CODEC_BF16, CODEC_Q8, CODEC_Q4};
    static const int widths[] = {96, 1312, 4096};
    for (int i = 0; i < 12; i++) {
        shape c = {};
        c.codec = codecs[i % 4], c.cols = widths[i / 4];
        c.has_gate = draw.below(3) == 0, c.adds = !c.has_gate && draw.below(2);
        c.n_products = c.has_gate ? 1 : 1 + draw.below(2);
        c.n_tiles[0] = 1 + draw.below(9), c.n_tiles[1] = 1 + draw.below(3);
        case_run(c);
    }
    printf("ok\n");
    return 0;
}
