// Matrix products: every tuned kernel that this machine can run gives the reference's bits, and the
// reference is the numerics contract. Buffers have exact sizes, so that the address sanitizer sees
// a read or a write past them.
#include <math.h>

#include "backend/cpu/ops.h"
#include "matmul_amx_model.h"
#include "matmul_evex.h"
#include "parts.h"
#include "upper_halves.h"

// TAME: finite and of ordinary size. EXTREME: quants and activations at the ends of their ranges,
// where short integers would saturate. WILD: any bits in the weights; NaN, infinities, outliers,
// denormals and zeros in the activations. SCALES: the weights' scales at the ends of their ranges.
enum fill { FILL_TAME, FILL_EXTREME, FILL_WILD, FILL_SCALES, FILL_COUNT };

static const char *const fill_names[FILL_COUNT] = {"tame", "extreme", "wild", "scales"};
// More than the instruction sets: AVX-VNNI's kernels as matmul_evex.h has them, and AMX's over the
// model of matmul_amx_model.h.
enum { KERNELS_EVEX = ISA_COUNT, KERNELS_AMX_MODEL, KERNELS_COUNT };
static const char *const isa_names[KERNELS_COUNT] = {"scalar",        "avx2",
                                                     "avxvnni",       "avx512bw",
                                                     "avx512",        "amx",
                                                     "neon",          "avxvnni as evex",
                                                     "amx as a model"};
static const int row_counts[] = {1, 3, 15, 16, 17, 33, 100};
static const int token_counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,
                                   14, 15, 16, 17, 31, 32, 33, 47, 97, 98, 99, 258};

// Of the shapes: at 4 a format meets each shape once, with one of the four fills.
#define SHAPE_STEP test_scale(4, 4, 1)

// --- random problems ---

static void *allocate(size_t bytes) {
    void *p = malloc(bytes);
    assert_non_null(p);
    return p;
}

struct problem {
    struct plan_weight weight;
    struct matmul_args args; // of the reference: w is the file's rows
    uint8_t *file;
    float *x, *xd, *bias, *y;
    int8_t *xq;
    int16_t *xsum;
    void *scratch;
    size_t y_bytes;
};

// Gives it scales at the ends of their range: zeros, denormals, the largest.
static void block_scale_extreme(enum format_id format, uint8_t *block, uint64_t *state) {
    static const uint16_t halves[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff,
                                      0x0400, 0x7bff, 0xfbff, 0x3c00};
    static const uint8_t exponents[] = {0, 1, 2, 3, 126, 127, 253, 254, 255};
    const struct scale_fields *fields = &scale_fields[format];
    if (format == FORMAT_MXFP4) {
        block[offsetof(struct mxfp4_block, e)] = exponents[random_below(state, COUNT(exponents))];
        return;
    }
    memcpy(block + fields->d, &halves[random_below(state, COUNT(halves))], 2);
    if (fields->m >= 0) memcpy(block + fields->m, &halves[random_below(state, COUNT(halves))], 2);
}

// Rows of one extreme everywhere: the largest dot products that signed and unsigned quants have,
// and those of MXFP4, whose largest level is in the middle of its codes.
static void rows_extreme(struct problem *p, uint64_t *state) {
    static const uint8_t row[] = {0x80, 0xff, 0x77};
    const uint64_t block_bytes = (uint64_t)format_at(p->weight.format)->block_bytes;
    const uint64_t row_bytes = format_row_bytes(p->weight.format, p->weight.cols);
    for (uint64_t at = 0; at < COUNT(row) * row_bytes && at < p->weight.bytes; at += block_bytes) {
        memset(p->file + at, row[at / row_bytes], block_bytes);
        block_tame(p->weight.format, p->file + at, state);
    }
}

static void weights_fill(struct problem *p, enum fill fill, uint64_t *state) {
    static const uint8_t edges[] = {0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0};
    const struct format *format = format_at(p->weight.format);
    for (uint64_t i = 0; i < p->weight.bytes; i++) {
        p->file[i] = fill == FILL_EXTREME ? edges[random_below(state, COUNT(edges))]
                                          : (uint8_t)random_next(state);
    }
    if (fill == FILL_WILD) return;
    for (uint64_t at = 0; at < p->weight.bytes; at += (uint64_t)format->block_bytes) {
        uint8_t *block = p->file + at;
        if (format->span == 0) {
            element_tame(p->weight.format, block, state);
        } else if (fill == FILL_SCALES) {
            block_scale_extreme(p->weight.format, block, state);
        } else {
            block_tame(p->weight.format, block, state);
        }
    }
    if (fill == FILL_EXTREME && format->span) rows_extreme(p, state);
}

static float activation(enum fill fill, uint64_t *state) {
    if (fill == FILL_EXTREME) return random_below(state, 64) ? 3.0f : -3.0f;
    if (fill != FILL_WILD) return random_unit(state) * 4.0f;
    switch (random_below(state, 400)) {
    case 0:
        return NAN;
    case 1:
        return -INFINITY;
    case 2:
        return 3e38f;
    case 3:
        return 1e-42f;
    case 4:
        return -0.0f;
    case 5:
        return 0.0f;
    case 6:
        return random_unit(state) * 1e6f;
    default:
        return random_unit(state);
    }
}

static void activations_fill(struct problem *p, enum fill fill, uint64_t *state) {
    const struct matmul_args *args = &p->args;
    for (int t = 0; t < args->n; t++) {
        // Whole tokens of zeros and of denormals, too.
        const int kind = fill == FILL_WILD ? random_below(state, 8) : 7;
        for (int64_t k = 0; k < args->ldx; k++) {
            const float value = activation(fill, state);
            p->x[t * args->ldx + k] = kind == 0 ? 0.0f : kind == 1 ? value * 1e-37f : value;
        }
        if (format_at(p->weight.format)->span == 0) continue;
        const struct matmul_x at = matmul_x_of(args->n, t, args->cols);
        quantize_reference(p->x + t * args->ldx, args->cols, p->xq + at.first * MATMUL_SPAN,
                           p->xd + at.first, p->xsum + at.first * 2, at.stride);
    }
}

static void problem_init(struct problem *p, enum format_id format, int rows, int64_t cols, int n,
                         enum fill fill, uint64_t *state) {
    const uint64_t bytes = (uint64_t)rows * format_row_bytes(format, cols);
    const int64_t ldx = cols + random_below(state, 4), ldy = rows + random_below(state, 20);
    const bool block = format_at(format)->span > 0;
    *p = (struct problem){.file = allocate(bytes),
                          .x = allocate((size_t)(n * ldx) * sizeof(float)),
                          .bias = allocate((size_t)rows * sizeof(float)),
                          .y_bytes = (size_t)(n * ldy) * sizeof(float)};
    p->y = allocate(p->y_bytes);
    p->scratch = aligned_alloc(64, MATMUL_SCRATCH_BYTES);
    assert_non_null(p->scratch);
    memset(p->scratch, 0xff, MATMUL_SCRATCH_BYTES); // NaN: a kernel reads what it wrote
    if (block) {
        p->xq = allocate((size_t)(n * cols));
        p->xd = allocate((size_t)(n * cols / 32) * sizeof(float));
        p->xsum = allocate((size_t)(n * cols / 16) * sizeof(int16_t));
    }
    p->weight = (struct plan_weight){
        .name = "w", .format = format, .rows = rows, .cols = cols, .data = p->file, .bytes = bytes};
    p->args = (struct matmul_args){.w = p->file,
                                   .rows = rows,
                                   .cols = cols,
                                   .n = n,
                                   .x = block ? NULL : p->x,
                                   .ldx = ldx,
                                   .xq = p->xq,
                                   .xd = p->xd,
                                   .xsum = p->xsum,
                                   .y = p->y,
                                   .ldy = ldy,
                                   .bias = random_below(state, 2) ? p->bias : NULL,
                                   .scale = random_below(state, 2) ? 0.3f : 1.0f,
                                   .add = random_below(state, 2),
                                   .scratch = p->scratch};
    weights_fill(p, fill, state);
    activations_fill(p, fill, state);
    for (int i = 0; i < rows; i++) p->bias[i] = random_unit(state);
    for (size_t i = 0; i < p->y_bytes / sizeof(float); i++) p->y[i] = random_unit(state);
}

static void problem_deinit(struct problem *p) {
    free(p->file);
    free(p->x);
    free(p->bias);
    free(p->y);
    free(p->xq);
    free(p->xd);
    free(p->xsum);
    free(p->scratch);
}

// Rows are whole blocks; the count is odd and even in turn, as some layouts pair blocks.
static int64_t random_cols(enum format_id format, uint64_t *state) {
    const int block = format_at(format)->block;
    if (block == 1) return 1 + random_below(state, 300);
    return block * (1 + random_below(state, block == 32 ? 9 : 2));
}

static int64_t group_count(int64_t rows) { return (rows + MATMUL_GROUP - 1) / MATMUL_GROUP; }

// --- kernels ---

static const struct matmul_kernel *kernel_find(int format, int isa) {
    if (isa == KERNELS_EVEX) return matmul_evex_find((enum format_id)format);
    if (isa == KERNELS_AMX_MODEL) return matmul_amx_model_find((enum format_id)format);
    return ops_at((enum cpu_isa)isa) ? matmul_kernel_find((enum format_id)format, (enum cpu_isa)isa)
                                     : NULL;
}

// The packed weight, in memory that held `before` everywhere. The last groups come first, so that a
// call that writes past its own is seen. The caller frees it.
static void *packed_dup(const struct matmul_kernel *kernel, const struct plan_weight *weight,
                        int before, int64_t groups_per_call) {
    const int64_t groups = group_count(weight->rows), bytes = kernel->group_bytes(weight->cols);
    assert_int_equal(bytes % 64, 0);
    const int64_t more = bytes - MATMUL_GROUP * (int64_t)weight->bytes / weight->rows;
    const bool is_small = format_at(weight->format)->block == MATMUL_SPAN;
    assert_true(more >= 0 && (!is_small || more < 128)); // no gap between groups
    void *packed = aligned_alloc(64, (size_t)(groups * bytes));
    assert_non_null(packed);
    memset(packed, before, (size_t)(groups * bytes));
    for (int64_t left = groups; left > 0; left -= groups_per_call)
        kernel->pack(weight, left > groups_per_call ? left - groups_per_call : 0, left, packed);
    return packed;
}

// y of a run over ranges of at most groups_per_call groups. The caller frees it.
static float *result_dup(const struct problem *p, const struct matmul_kernel *kernel,
                         int64_t groups_per_call) {
    const int64_t groups = group_count(p->weight.rows);
    struct matmul_args args = p->args;
    args.y = allocate(p->y_bytes);
    memcpy(args.y, p->y, p->y_bytes);
    void *packed = kernel ? packed_dup(kernel, &p->weight, 0xa5, groups) : NULL;
    if (packed) args.w = packed;
    for (int64_t g = 0; g < groups; g += groups_per_call) {
        const int64_t end = g + groups_per_call < groups ? g + groups_per_call : groups;
        if (kernel) {
            kernel->run[matmul_shape_of(args.n)](&args, g, end);
            check(!uppers_are_used(), "%s %s, %d tokens: wide registers are in use",
                  format_at(kernel->format)->name, ops_name(kernel->isa), args.n);
        } else {
            matmul_reference(p->weight.format, &args, g, end);
        }
    }
    free(packed);
    return args.y;
}

// The same bits; any NaN equals any other, since its payload is not part of the contract.
static bool same(const float *a, const float *b, size_t bytes) {
    if (!memcmp(a, b, bytes)) return true;
    for (size_t i = 0; i < bytes / sizeof *a; i++) {
        if (memcmp(&a[i], &b[i], sizeof *a) && !(isnan(a[i]) && isnan(b[i]))) return false;
    }
    return true;
}

static void parity_check(const struct problem *p, enum fill fill) {
    float *expected = result_dup(p, NULL, group_count(p->weight.rows));
    for (int isa = 0; isa < KERNELS_COUNT; isa++) {
        const struct matmul_kernel *kernel = kernel_find((int)p->weight.format, isa);
        if (!kernel) continue;
        float *y = result_dup(p, kernel, group_count(p->weight.rows));
        const bool exact = fill == FILL_TAME || fill == FILL_EXTREME;
        if (exact ? memcmp(y, expected, p->y_bytes) != 0 : !same(y, expected, p->y_bytes)) {
            fail_msg("%s %s %s: rows %d, cols %d, n %d, bias %d, scale %g, add %d",
                     format_at(p->weight.format)->name, isa_names[isa], fill_names[fill],
                     (int)p->args.rows, (int)p->args.cols, p->args.n, p->args.bias != NULL,
                     (double)p->args.scale, p->args.add);
        }
        free(y);
    }
    free(expected);
}

CASE(kernels_equal_the_reference_for_all_shapes) {
    static const uint64_t seeds[FILL_COUNT] = {1, 2, 3, 13};
    for (int i = 0; i < FILL_COUNT * FORMAT_COUNT; i++) {
        const enum fill fill = (enum fill)(i / FORMAT_COUNT);
        const enum format_id format = (enum format_id)(i % FORMAT_COUNT);
        uint64_t random = seeds[fill] + (uint64_t)format;
        for (int r = 0; r < COUNT(row_counts); r++) {
            for (int t = 0; t < COUNT(token_counts); t++) {
                if (((int)format + 3 * (int)fill + r + t) % SHAPE_STEP) continue;
                struct problem p;
                problem_init(&p, format, row_counts[r], random_cols(format, &random),
                             token_counts[t], fill, &random);
                parity_check(&p, fill);
                problem_deinit(&p);
            }
        }
    }
}

// With these numbers of tokens, even passes would leave less than a tile to the last one.
CASE(many_passes_end_with_a_whole_tile) {
    static const int counts[] = {3841, 4097, 4111};
    uint64_t random = 77;
    for (int i = 0; i < COUNT(counts); i++) {
        struct problem p;
        problem_init(&p, i ? FORMAT_Q4_K : FORMAT_Q4_0, 17, 256, counts[i], FILL_TAME, &random);
        parity_check(&p, FILL_TAME);
        problem_deinit(&p);
    }
}

// Calls of a few groups at a time, so that runs side by side leave some groups over.
static void ways_check(struct problem *p) {
    float *expected = result_dup(p, NULL, group_count(p->weight.rows));
    for (int i = 0; i < KERNELS_COUNT * MATMUL_WAYS; i++) {
        const int isa = i / MATMUL_WAYS, way = i % MATMUL_WAYS;
        const struct matmul_kernel *kernel = kernel_find((int)p->weight.format, isa);
        if (!kernel) continue;
        p->args.way = matmul_ways[way];
        float *y = result_dup(p, kernel, 1 + way);
        if (memcmp(y, expected, p->y_bytes))
            fail_msg("%s %s, way %d: rows %d, cols %d", format_at(p->weight.format)->name,
                     isa_names[isa], way, (int)p->args.rows, (int)p->args.cols);
        free(y);
    }
    free(expected);
}

CASE(every_way_to_read_the_weights_gives_the_same_bits) {
    uint64_t random = 5;
    for (int format = 0; format < FORMAT_COUNT; format++) {
        struct problem p;
        problem_init(&p, (enum format_id)format, 16 * 13 + 5, random_cols(format, &random), 1,
                     FILL_TAME, &random);
        ways_check(&p);
        problem_deinit(&p);
        problem_init(&p, (enum format_id)format, 16 * 7, 2048, 1, FILL_EXTREME, &random);
        ways_check(&p);
        problem_deinit(&p);
    }
}

CASE(kernels_equal_the_reference_for_long_rows) {
    uint64_t random = 4;
    for (int format = 0; format < FORMAT_COUNT; format++) {
        // Also many columns for many tokens, so that a panel leaves some to the next one.
        static const int counts[] = {11, 37, 101};
        for (int i = 0; i < COUNT(counts); i++) {
            struct problem p;
            problem_init(&p, (enum format_id)format, 20, 4096 + 256, counts[i], FILL_TAME, &random);
            parity_check(&p, FILL_TAME);
            problem_deinit(&p);
        }
    }
}

#if defined(__x86_64__)

static void amx_check(const struct problem *p, const struct matmul_kernel *kernel) {
    float *expected = result_dup(p, NULL, group_count(p->weight.rows));
    for (int step = 1; step <= 3; step++) {
        float *y = result_dup(p, kernel, step);
        assert_memory_equal(y, expected, p->y_bytes);
        assert_null(amx_model_fault());
        free(y);
    }
    free(expected);
}

// Every number of tokens that a last tile can have, and block counts that leave a panel or a pass
// incomplete. The tiles are real where the machine has them.
CASE(amx_kernels_equal_the_reference_for_all_numbers_of_tokens) {
    uint64_t random = 14;
    const bool real = ops_at(ISA_AMX);
    if (!matmul_amx_model_find(FORMAT_Q4_0)) {
        print_message("AMX: the model of the tiles needs AVX-512\n");
        skip();
    }
    print_message("AMX: %s\n", real ? "real tiles, and the model" : "the model of the tiles");
    for (int n = 9; n <= 70; n++) {
        // four formats for each width of the last tile
        const enum format_id format = (enum format_id)((n + 3 * (n / MATMUL_TILE)) % FORMAT_COUNT);
        const struct matmul_kernel *model = matmul_amx_model_find(format);
        if (!model) continue;
        struct problem p;
        const int block = format_at(format)->block, most = block == 32 ? 19 : 3;
        problem_init(&p, format, 1 + random_below(&random, 90),
                     block * (1 + random_below(&random, most)), n, FILL_TAME, &random);
        amx_model_dots();
        amx_check(&p, model);
        assert_int_equal(amx_model_dots() > 0, n >= 12); // fewer are AVX-512's
        if (real) amx_check(&p, matmul_kernel_find(format, ISA_AMX));
        problem_deinit(&p);
    }
    peak_amx_model_int8.run(2);
    assert_null(amx_model_fault());
    assert_int_equal(amx_model_dots() * 16 * 16 * 64, 2 * peak_amx_model_int8.round_macs);
}

#endif

CASE(ranges_of_groups_give_what_all_at_once_gives) {
    uint64_t random = 5;
    for (int format = 0; format < FORMAT_COUNT; format++) {
        for (int isa = 0; isa < KERNELS_COUNT; isa++) {
            const struct matmul_kernel *kernel = kernel_find(format, isa);
            if (isa != ISA_SCALAR && !kernel) continue;
            struct problem p;
            problem_init(&p, (enum format_id)format, 100,
                         random_cols((enum format_id)format, &random), 3, FILL_TAME, &random);
            float *all = result_dup(&p, kernel, 7);
            for (int64_t step = 1; step < 4; step++) {
                float *parts = result_dup(&p, kernel, step);
                assert_memory_equal(parts, all, p.y_bytes);
                free(parts);
            }
            free(all);
            problem_deinit(&p);
        }
    }
}

CASE(cells_past_the_rows_and_other_groups_stay_untouched) {
    uint64_t random = 6;
    for (int format = 0; format < FORMAT_COUNT; format++) {
        for (int isa = 0; isa < KERNELS_COUNT; isa++) {
            const struct matmul_kernel *kernel = kernel_find(format, isa);
            if (isa != ISA_SCALAR && !kernel) continue;
            struct problem p;
            problem_init(&p, (enum format_id)format, 37, 256, 5, FILL_TAME, &random);
            void *packed = kernel ? packed_dup(kernel, &p.weight, 0, 3) : NULL;
            for (int64_t group = 0; group < 3; group++) {
                struct matmul_args args = p.args;
                args.y = allocate(p.y_bytes);
                memcpy(args.y, p.y, p.y_bytes);
                if (packed) args.w = packed;
                if (kernel) kernel->run[matmul_shape_of(args.n)](&args, group, group + 1);
                if (!kernel) matmul_reference((enum format_id)format, &args, group, group + 1);
                for (int64_t i = 0; i < args.n * args.ldy; i++) {
                    const int64_t row = i % args.ldy;
                    const bool inside = row < 37 && row / MATMUL_GROUP == group;
                    if (!inside) assert_memory_equal(&args.y[i], &p.y[i], sizeof(float));
                    // A random sum that equals the random cell it replaces would be a surprise.
                    if (inside) assert_memory_not_equal(&args.y[i], &p.y[i], sizeof(float));
                }
                free(args.y);
            }
            free(packed);
            problem_deinit(&p);
        }
    }
}

CASE(a_token_does_not_depend_on_its_neighbours) {
    uint64_t random = 7;
    for (int format = 0; format < FORMAT_COUNT; format++) {
        struct problem p;
        problem_init(&p, (enum format_id)format, 5, 512, 150, FILL_TAME, &random);
        float *together = result_dup(&p, NULL, 1);
        for (int t = 0; t < 150; t++) {
            struct problem one = p;
            int8_t xq[512];
            float xd[512 / 32];
            int16_t xsum[512 / 16];
            one.args.n = 1;
            one.args.x = p.args.x ? p.args.x + t * p.args.ldx : NULL;
            if (p.xq) {
                quantize_reference(p.x + t * p.args.ldx, 512, xq, xd, xsum, 1);
                one.args.xq = xq, one.args.xd = xd, one.args.xsum = xsum;
            }
            one.y = p.y + t * p.args.ldy;
            one.y_bytes = (size_t)p.args.ldy * sizeof(float);
            float *alone = result_dup(&one, NULL, 1);
            assert_memory_equal(alone, together + t * p.args.ldy, one.y_bytes);
            free(alone);
        }
        free(together);
        problem_deinit(&p);
    }
}

// --- packing and the table ---

CASE(packing_writes_every_byte_and_ranges_agree) {
    uint64_t random = 8;
    for (int format = 0; format < FORMAT_COUNT; format++) {
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            const struct matmul_kernel *kernel =
                matmul_kernel_find((enum format_id)format, (enum cpu_isa)isa);
            for (int i = 0; kernel && i < 8; i++) {
                struct problem p;
                problem_init(&p, (enum format_id)format, 1 + random_below(&random, 70),
                             random_cols((enum format_id)format, &random), 1, FILL_WILD, &random);
                const int64_t bytes =
                    group_count(p.weight.rows) * kernel->group_bytes(p.weight.cols);
                void *a = packed_dup(kernel, &p.weight, 0x00, 100);
                void *b = packed_dup(kernel, &p.weight, 0xff, 2);
                assert_memory_equal(a, b, (size_t)bytes);
                free(a);
                free(b);
                problem_deinit(&p);
            }
        }
    }
}

#if defined(__x86_64__)
static matmul_fn run_of(int format, int isa, int shape) {
    return matmul_kernel_find((enum format_id)format, (enum cpu_isa)isa)->run[shape];
}
#endif

CASE(the_table_has_every_format_and_leaves_scalar_to_the_reference) {
    for (int format = 0; format < FORMAT_COUNT; format++) {
        assert_null(matmul_kernel_find((enum format_id)format, ISA_SCALAR));
#if defined(__x86_64__)
        for (int isa = ISA_AVX2; isa <= ISA_AMX; isa++) {
            const struct matmul_kernel *kernel =
                matmul_kernel_find((enum format_id)format, (enum cpu_isa)isa);
            assert_non_null(kernel);
            assert_int_equal(kernel->format, format);
            assert_int_equal(kernel->isa, isa);
            assert_true(kernel->has_ways);
            for (int shape = 0; shape < SHAPE_COUNT; shape++) {
                assert_non_null(kernel->run[shape]);
                assert_non_null(kernel->name[shape]);
            }
        }
        // Products of bytes are compiled for each set, so that one without VNNI does not meet it.
        for (int shape = 0; shape < SHAPE_COUNT && format_at((enum format_id)format)->span;
             shape++) {
            assert_ptr_not_equal(run_of(format, ISA_AVX2, shape),
                                 run_of(format, ISA_AVXVNNI, shape));
            for (int isa = ISA_AVX2; isa <= ISA_AMX; isa++)
                if (isa != ISA_AVX512BW)
                    assert_ptr_not_equal(run_of(format, ISA_AVX512BW, shape),
                                         run_of(format, isa, shape));
        }
        // A matrix is packed once for all of them.
        assert_ptr_equal(matmul_kernel_find((enum format_id)format, ISA_AVX2)->pack,
                         matmul_kernel_find((enum format_id)format, ISA_AVX512)->pack);
#endif
    }
}

// --- the reference ---

// Computed in double from the decoded weights: `exact` with the quantized activations, `error` the
// most that the quantization of x can add, `size` the sum of magnitudes.
struct truth {
    double exact, ideal, error, size;
};

static struct truth truth_of(const struct problem *p, int64_t row, int token) {
    const int64_t cols = p->weight.cols;
    const bool block = format_at(p->weight.format)->span > 0;
    float *w = allocate((size_t)cols * sizeof *w);
    format_decode(p->weight.format,
                  p->file + (uint64_t)row * format_row_bytes(p->weight.format, cols), w, cols);
    const struct matmul_x place = matmul_x_of(p->args.n, token, cols);
    struct truth truth = {0};
    for (int64_t k = 0; k < cols; k++) {
        const double x = (double)p->x[token * p->args.ldx + k];
        const int64_t at = place.first + k / MATMUL_SPAN * place.stride;
        const double d = block ? (double)p->xd[at] : 0.0;
        const double xq = block ? d * p->xq[at * MATMUL_SPAN + k % MATMUL_SPAN] : x;
        truth.exact += (double)w[k] * xq;
        truth.ideal += (double)w[k] * x;
        truth.error += fabs((double)w[k]) * d * 0.5;
        truth.size += fabs((double)w[k] * xq) + fabs((double)w[k]) * d;
    }
    free(w);
    return truth;
}

CASE(reference_is_the_product_of_the_decoded_weights) {
    uint64_t random = 9;
    for (int format = 0; format < FORMAT_COUNT; format++) {
        struct problem p;
        problem_init(&p, (enum format_id)format, 19, 1024, 3, FILL_TAME, &random);
        p.args.bias = NULL, p.args.scale = 1.0f, p.args.add = false;
        float *y = result_dup(&p, NULL, 2);
        double error = 0.0, size = 0.0;
        for (int64_t row = 0; row < 19; row++) {
            for (int token = 0; token < 3; token++) {
                const struct truth truth = truth_of(&p, row, token);
                const double got = (double)y[token * p.args.ldy + row];
                // 1024 roundings at most, of sums no larger than 9 times the size: an offset and
                // its scale may cancel in the decoded weight.
                const double rounding = 0x1p-24 * 1024 * 9 * truth.size;
                assert_true(fabs(got - truth.exact) <= rounding);
                assert_true(fabs(got - truth.ideal) <= truth.error * 1.001 + rounding);
                error += fabs(got - truth.ideal), size += fabs(truth.ideal);
            }
        }
        assert_true(error <= 0.02 * size); // and far better than the bound, on average
        free(y);
        problem_deinit(&p);
    }
}

CASE(the_end_is_scale_then_bias_then_add) {
    const float w[2] = {0.1f, 0.7f}, x[2] = {3.3f, -1.7f}, bias = 0.3f, scale = 1.1f, before = 9.1f;
    float y = before;
    const struct matmul_args args = {.w = w,
                                     .rows = 1,
                                     .cols = 2,
                                     .n = 1,
                                     .x = x,
                                     .ldx = 2,
                                     .y = &y,
                                     .ldy = 1,
                                     .bias = &bias,
                                     .scale = scale,
                                     .add = true};
    matmul_reference(FORMAT_F32, &args, 0, 1);
    const float acc = fmaf(w[1], x[1], fmaf(w[0], x[0], 0.0f));
    const float scaled = acc * scale, biased = scaled + bias, expected = before + biased;
    assert_memory_equal(&y, &expected, sizeof y);
}

CASE(offsets_follow_the_dot_product_of_their_span) {
    uint64_t random = 10;
    for (int id = 0; id < FORMAT_COUNT; id++) {
        const struct format *format = format_at((enum format_id)id);
        if (!format->has_offset) continue;
        struct problem p;
        problem_init(&p, (enum format_id)id, 1, format->block, 1, FILL_TAME, &random);
        p.args.bias = NULL, p.args.scale = 1.0f, p.args.add = false;
        int8_t q[FORMAT_MAX_BLOCK];
        float scale[FORMAT_MAX_SPANS], offset[FORMAT_MAX_SPANS], acc = 0.0f;
        format->unpack(p.file, q, scale, offset);
        for (int begin = 0; begin < format->block; begin += format->span) {
            const int span = begin / format->span;
            int dot = 0, sum = 0;
            for (int i = begin; i < begin + format->span; i++) {
                dot += q[i] * p.xq[i], sum += p.xq[i];
            }
            acc = fmaf((float)dot, scale[span] * p.xd[begin / 32], acc);
            acc = fmaf(offset[span], p.xd[begin / 32] * (float)sum, acc);
        }
        float *y = result_dup(&p, NULL, 1);
        assert_memory_equal(y, &acc, sizeof acc);
        free(y);
        problem_deinit(&p);
    }
}

CASE(a_nan_activation_reaches_its_token_and_no_other) {
    uint64_t random = 11;
    for (int format = 0; format < FORMAT_COUNT; format++) {
        struct problem p;
        problem_init(&p, (enum format_id)format, 16, 256, 2, FILL_TAME, &random);
        p.x[77] = NAN;
        if (p.xq) quantize_reference(p.x, 256, p.xq, p.xd, p.xsum, 1);
        float *y = result_dup(&p, NULL, 1);
        for (int row = 0; row < 16; row++) {
            assert_true(isnan(y[row]));
            assert_false(isnan(y[p.args.ldy + row]));
        }
        free(y);
        problem_deinit(&p);
    }
}

// --- quantize ---

CASE(quantize_is_within_half_a_step_and_uses_the_whole_range) {
    uint64_t random = 12;
    for (int i = 0; i < 2000; i++) {
        float x[64], d[2];
        int8_t q[64];
        int16_t sum[4];
        const float size = ldexpf(1.0f, random_below(&random, 200) - 100);
        for (int k = 0; k < 64; k++) x[k] = random_unit(&random) * size;
        quantize_reference(x, 64, q, d, sum, 1);
        int largest[2] = {0}, sums[4] = {0};
        for (int k = 0; k < 64; k++) {
            const double step = (double)d[k / 32];
            assert_true(fabs((double)x[k] - step * q[k]) <= 0.5001 * step);
            largest[k / 32] = abs(q[k]) > largest[k / 32] ? abs(q[k]) : largest[k / 32];
            sums[k / 16] += q[k];
        }
        for (int b = 0; b < 2; b++) assert_int_equal(largest[b], 127);
        for (int s = 0; s < 4; s++) assert_int_equal(sum[s], sums[s]);
    }
}

CASE(quantize_rounds_ties_to_even) {
    const float ties[8] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f};
    const int8_t expected[8] = {127, 0, 2, 2, 0, -2, -2, 126};
    float x[32] = {0}, d;
    int8_t q[32];
    int16_t sum[2];
    memcpy(x, ties, sizeof ties); // the largest is 127, so the step is 1
    quantize_reference(x, 32, q, &d, sum, 1);
    assert_true(d == 1.0f);
    assert_memory_equal(q, expected, sizeof expected);
    assert_int_equal(sum[0], 253);
    assert_int_equal(sum[1], 0);
}

// Quantizes 32 values that are 0 but for one, and a second block of ones.
static void quantize_one(float value, int8_t q[64], float d[2], int16_t sum[4]) {
    float x[64] = {0};
    x[13] = value;
    for (int k = 32; k < 64; k++) x[k] = 1.0f;
    memset(q, 99, 64);
    quantize_reference(x, 64, q, d, sum, 1);
    for (int k = 32; k < 64; k++) assert_int_equal(q[k], 127); // for any first block
    assert_int_equal(sum[2], 16 * 127);
    for (int k = 0; k < 32; k++) {
        if (k != 13) assert_int_equal(q[k], 0);
    }
    assert_int_equal(sum[0], q[13]);
    assert_int_equal(sum[1], 0);
}

CASE(quantize_marks_blocks_with_nan_or_infinity) {
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int i = 0; i < COUNT(bad); i++) {
        int8_t q[64];
        float d[2];
        int16_t sum[4];
        quantize_one(bad[i], q, d, sum);
        assert_true(isnan(d[0]));
        assert_int_equal(q[13], 0);
        assert_false(isnan(d[1]));
    }
}

CASE(quantize_of_zeros_and_of_what_overflows_the_inverse_is_zero) {
    const float tiny[] = {0.0f, -0.0f, 1e-45f, -1e-38f, 3.7e-37f};
    int8_t q[64];
    float d[2];
    int16_t sum[4];
    for (int i = 0; i < COUNT(tiny); i++) {
        quantize_one(tiny[i], q, d, sum);
        const float zero = 0.0f;
        assert_memory_equal(&d[0], &zero, sizeof zero);
        assert_int_equal(q[13], 0);
    }
    quantize_one(-3.8e-37f, q, d, sum); // 127 over this is finite
    assert_true(d[0] > 0.0f);
    assert_int_equal(q[13], -127);
    quantize_one(3.4e38f, q, d, sum);
    assert_int_equal(q[13], 127);
}

TEST_PROGRAM(matmul) { return cases_run(NULL, NULL); }
