// Experts of small steps on the emulator: the two launches of experts.cuh have the bits of the
// launches that they replace (input, route, products by the kernel of any codec, sum), in every
// codec, staged or not, on grids and rings of different sizes.
#include <string.h>

#include "codec.h"
#include "experts.h"
#include "kernel_check.h"

namespace {

struct bench {
    device_memory m;
    stage_experts up = {}, down = {};
    step batch = {};
    const step *on_device;
    int n_rows, cols, width, middle, n_expert, n_used, ld_middle, ld_out;
    std::vector<float> before; // the rows that are added to

    float *floats(size_t n) {
        std::vector<float> data(n);
        for (float &v : data) v = draw.number();
        return m.put(data);
    }

    void product_make(stage_product &s, int codec, int cols_in, int n_out, bool is_pair) {
        const int unit_bytes = codec_at((enum codec_id)codec)->unit_bytes;
        product &p = s.product[0];
        s.cols = cols_in, s.n_units = (cols_in + UNIT_COLS - 1) / UNIT_COLS;
        s.x16.is_bf16 = codec == CODEC_BF16;
        s.n_products = 1, s.is_routed = 1;
        p.n_rows = n_out, p.n_tiles = is_pair ? (n_out + 7) / 8 : (n_out + 15) / 16;
        p.codec = codec, p.unit_bytes = unit_bytes, p.scale = 1.0f;
        s.n_tiles = p.n_tiles;
        const size_t bytes = (size_t)(p.n_tiles * s.n_units) * (size_t)unit_bytes;
        std::vector<uint16_t> units(bytes * (size_t)n_expert / 2);
        for (size_t k = 0; k < units.size(); k++) {
            const size_t at = k * 2 % (size_t)unit_bytes;
            const bool is_half = unit_bytes == 1024 || at >= (size_t)(unit_bytes - 32);
            units[k] = is_half ? draw.half(codec == CODEC_BF16) : (uint16_t)draw.below(65536);
        }
        p.weight = (const uint8_t *)m.put(units);
        std::vector<const uint8_t *> table;
        for (int e = 0; e < n_expert; e++) table.push_back(p.weight + bytes * (size_t)e);
        p.expert = m.put(table);
        if (draw.below(2)) p.bias = floats((size_t)(n_expert * n_out * (is_pair ? 2 : 1)));
    }

    bench(int codec_up, int codec_down) {
        static const int widths[] = {64, 192, 1056, 2112};
        n_rows = draw.below(3) ? 1 + draw.below(8) : 1;
        n_expert = 1 + draw.below(draw.below(4) ? 20 : 300);
        n_used = 1 + draw.below(n_expert < 6 ? n_expert : 6);
        cols = widths[draw.below(4)], middle = 8 * (1 + draw.below(20));
        width = 16 * (1 + draw.below(6)) - 5;
        ld_middle = (middle + 31) / 32 * 32, ld_out = (width + 31) / 32 * 32;
        stage_route &r = up.route;
        const size_t pairs = (size_t)(n_rows * n_used);
        r.logit = floats((size_t)(n_rows * n_expert)), r.ld_in = n_expert;
        r.out = floats(pairs * 2), r.ld_out = 2 * n_used;
        r.normalize = 1, r.expert_bytes = 100;
        r.table.n_expert = n_expert, r.table.n_used = n_used;
        r.table.first = m.put(std::vector<int32_t>((size_t)n_expert + 1));
        r.table.active = m.put(std::vector<int32_t>((size_t)n_expert));
        r.table.first_padded = m.put(std::vector<int32_t>((size_t)n_expert + 1));
        r.table.pair = m.put(std::vector<int32_t>(pairs));
        r.table.position = m.put(std::vector<int32_t>(pairs));
        r.table.n_active = m.put(std::vector<int32_t>(1));
        r.table.arrived = m.put(std::vector<uint32_t>(1));
        batch.n_tokens = n_rows, batch.touched = m.put(std::vector<uint64_t>(1));
        on_device = m.put(std::vector<step>(1, batch));
        product_make(up.product, codec_up, cols, middle, true);
        stage_product &s = up.product;
        s.x = floats((size_t)(n_rows * cols)), s.ldx = cols;
        s.x16.at = m.put(std::vector<uint16_t>((size_t)(n_rows * s.n_units * UNIT_COLS)));
        s.x16.ld = s.n_units * UNIT_COLS;
        s.norm.weight = floats((size_t)cols), s.norm.eps = 1e-5f, s.input = INPUT_RMS;
        s.route = r.table;
        product_make(down.product, codec_down, middle, width, false);
        s.product[0].gate = 1;
        s.product[0].out16.at = m.put(std::vector<uint16_t>(pairs * (size_t)ld_middle));
        s.product[0].out16.ld = ld_middle;
        s.product[0].out16.is_bf16 = codec_down == CODEC_BF16;
        down.product.x16 = s.product[0].out16;
        down.product.input = INPUT_16, down.product.slots_in = 1, down.product.route = r.table;
        down.product.product[0].ld = ld_out;
        down.product.product[0].out = floats(pairs * (size_t)ld_out);
        down.route = r;
        for (int i = 0; i < n_rows * ld_out; i++) before.push_back(draw.number());
        down.sum = m.put(before), down.ld_sum = ld_out, down.add = draw.below(4) != 0;
    }

    void product_launch(stage_product s) {
        product_args args = {};
        s.input = INPUT_16;
        args.stage = s, args.n_rows = n_rows, args.n_items = product_items(&s, 1);
        args.n_slots = 2, args.n_early = 2;
        args.slot_bytes = SLOT_UNITS(s.product[0].unit_bytes) * s.product[0].unit_bytes;
        launch(product_small(CODEC_COUNT, PRODUCT_READ), 3, PRODUCT_THREADS,
               product_shared_bytes(2, args.slot_bytes, 1, 0), &args);
    }

    std::vector<uint8_t> results() {
        const size_t pairs = (size_t)(n_rows * n_used);
        std::vector<uint8_t> got(before.size() * 4 + pairs * 8 + 8);
        CUDA(cudaMemcpy(got.data(), down.sum, before.size() * 4, cudaMemcpyDeviceToHost));
        CUDA(cudaMemcpy(got.data() + before.size() * 4, up.route.out, pairs * 8,
                        cudaMemcpyDeviceToHost));
        CUDA(cudaMemcpy(got.data() + got.size() - 8, batch.touched, 8, cudaMemcpyDeviceToHost));
        CUDA(cudaMemcpy(down.sum, before.data(), before.size() * 4, cudaMemcpyHostToDevice));
        CUDA(cudaMemset(up.route.out, 0, pairs * 8));
        CUDA(cudaMemset(batch.touched, 0, 8));
        return got;
    }

    std::vector<uint8_t> run_parts() {
        prepare_args input = {};
        const stage_product &s = up.product;
        input.stage.in = s.x, input.stage.ld_in = s.ldx, input.stage.width = cols;
        input.stage.out16 = s.x16, input.stage.input = INPUT_RMS, input.stage.norm = s.norm;
        input.n_rows = n_rows;
        launch(prepare_kernel(INPUT_RMS), 3, BLOCK_THREADS, 2 * N_WARPS * sizeof(float), &input);
        router_args route = {};
        route.stage = up.route, route.step = on_device, route.n_rows = n_rows;
        route.n_counting = route_counting(n_expert, n_rows * n_used, BLOCK_THREADS);
        launch(route_kernel(n_expert), 1, BLOCK_THREADS,
               route_shared_bytes(n_expert, route.n_counting), &route);
        product_launch(up.product);
        product_launch(down.product);
        prepare_args sum = {};
        sum.stage.in = down.product.product[0].out, sum.stage.ld_in = ld_out;
        sum.stage.in2 = up.route.out, sum.stage.ld_in2 = up.route.ld_out;
        sum.stage.out = down.sum, sum.stage.ld_out = ld_out, sum.stage.width = width;
        sum.stage.n_used = n_used, sum.stage.add = down.add, sum.n_rows = n_rows;
        launch(combine_kernel(), 2, COMBINE_THREADS, 0, &sum);
        return results();
    }

    // is_staged: a bit for each of the two.
    std::vector<uint8_t> run_fused(int is_staged, bool is_one) {
        for (int i = 0; i < 2; i++) {
            experts_args args = {};
            args.stage = i ? down : up;
            stage_product &s = args.stage.product;
            args.step = on_device, args.n_rows = n_rows, args.is_staged = is_staged >> i & 1;
            if (!args.is_staged) s.input = INPUT_16;
            const int most = SLOT_UNITS(s.product[0].unit_bytes);
            const int slice = (s.n_units + N_SLICES - 1) / N_SLICES;
            args.slot_bytes = (slice < most ? slice : most) * s.product[0].unit_bytes;
            args.n_slots = 1 + draw.below(RING_SLOTS_MAX);
            auto bytes = is_one ? experts_one_shared_bytes : experts_shared_bytes;
            auto kernel = is_one ? experts_one_kernel : experts_kernel;
            while (bytes(&args, i) > 232448) args.n_slots--;
            // one block has more items than it keeps the sums of
            const int blocks = is_one && !is_staged ? 1 : 1 + draw.below(9);
            launch(kernel(s.product[0].codec, i), blocks, PRODUCT_THREADS, bytes(&args, i), &args);
        }
        return results();
    }
};

} // namespace

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 2 * CODEC_COUNT;
    for (int i = 0; i < n; i++) {
        bench b(i % CODEC_COUNT, draw.below(3) ? i % CODEC_COUNT : draw.below(CODEC_COUNT));
        b.results();
        const std::vector<uint8_t> want = b.run_parts();
        for (int k = 0; k < (b.n_rows == 1 ? 8 : 4); k += k % 4 ? 1 : 3) {
            const std::vector<uint8_t> got = b.run_fused(k % 4, k >= 4);
            if (memcmp(got.data(), want.data(), want.size()) == 0) continue;
            printf("case %d: %d rows, %d of %d experts, %d -> %d -> %d: results differ, %s\n", i,
                   b.n_rows, b.n_used, b.n_expert, b.cols, b.middle, b.width,
                   k % 4 ? "staged" : "not staged");
            return 1;
        }
    }
    printf("ok\n");
    return 0;
}
