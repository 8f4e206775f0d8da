// The speed of the matmul kernels, as a table for people. For each format and instruction set of
// this machine, and for several numbers of tokens: GB/s of the file's bytes, and below them 10^9
// multiply-adds per second. One thread reads matrices of 4096 x 4096 from a buffer that is larger
// than the cache, over and over, in a thread's usual pieces. The best of several passes is shown.
// Asserts nothing; run it on a quiet machine:
//   bench_matmul [format or all] [isa or all]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/ops.h"
#include "backend/cpu/region.h"
#include "matmul_evex.h"

enum {
    ROWS = 4096,
    COLS = 4096,
    N_MAX = 512,
    GROUPS = ROWS / MATMUL_GROUP,
    PIECE = 8, // groups that a thread takes at a time
    N_PASSES = 15,
    PASS_NS = 2000000,
    READ_BYTES = 1 << 20,
};
static const uint64_t buffer_bytes = 256u << 20;

static const int token_counts[] = {1, 2, 4, 8, 16, 32, 128, 512};
enum { N_COUNTS = sizeof token_counts / sizeof *token_counts };

static void fail(const char *what) {
    fprintf(stderr, "bench_matmul: %s\n", what);
    exit(1);
}

// Of this thread: a process that takes the core away for a while does not count.
static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *allocate(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) fail("out of memory");
    return p;
}

static uint32_t random_next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

// Tokens as floats, and quantized as for each count of them.
struct activations {
    float *x;
    int8_t *xq[N_COUNTS];
    float *xd[N_COUNTS];
    int16_t *xsum[N_COUNTS];
};

static void activations_init(struct activations *a) {
    uint64_t state = 1;
    a->x = allocate((size_t)N_MAX * COLS * sizeof *a->x);
    for (int i = 0; i < N_MAX * COLS; i++)
        a->x[i] = (float)((int)random_next(&state) >> 8) * 0x1p-22f - 1.0f;
    for (int i = 0; i < N_COUNTS; i++) {
        const int n = token_counts[i];
        a->xq[i] = allocate((size_t)n * COLS);
        a->xd[i] = allocate((size_t)n * COLS / 32 * sizeof(float));
        a->xsum[i] = allocate((size_t)n * COLS / 16 * sizeof(int16_t));
        for (int t = 0; t < n; t++) {
            const struct matmul_x at = matmul_x_of(n, t, COLS);
            quantize_reference(a->x + (int64_t)t * COLS, COLS, a->xq[i] + at.first * MATMUL_SPAN,
                               a->xd[i] + at.first, a->xsum[i] + at.first * 2, at.stride);
        }
    }
}

static void activations_deinit(struct activations *a) {
    free(a->x);
    for (int i = 0; i < N_COUNTS; i++) {
        free(a->xq[i]);
        free(a->xd[i]);
        free(a->xsum[i]);
    }
}

// Matrices one after another in the buffer, all alike. Every half float in them is an ordinary one.
static int64_t matrices_fill(const struct matmul_kernel *kernel, const struct region *buffer) {
    uint64_t state = 2;
    const uint64_t file_bytes = ROWS * format_row_bytes(kernel->format, COLS);
    const uint64_t packed = (uint64_t)(GROUPS * kernel->group_bytes(COLS));
    uint8_t *file = allocate(file_bytes);
    for (uint64_t i = 0; i < file_bytes; i++) file[i] = (random_next(&state) & 15) | 0x30;
    const struct plan_weight weight = {.name = "w",
                                       .format = kernel->format,
                                       .rows = ROWS,
                                       .cols = COLS,
                                       .data = file,
                                       .bytes = file_bytes};
    kernel->pack(&weight, 0, GROUPS, buffer->base);
    free(file);
    const int64_t count = (int64_t)(buffer->bytes / packed);
    for (int64_t i = 1; i < count; i++)
        memcpy(buffer->base + (uint64_t)i * packed, buffer->base, packed);
    return count;
}

// Rows per second for token_counts[c] tokens.
static double rate(const struct matmul_kernel *kernel, const struct activations *a, int c,
                   const struct region *buffer, int64_t n_matrices, float *y) {
    const int64_t matrix_bytes = GROUPS * kernel->group_bytes(COLS);
    const matmul_fn run = kernel->run[matmul_shape_of(token_counts[c])];
    struct matmul_args args = {.rows = ROWS,
                               .cols = COLS,
                               .n = token_counts[c],
                               .x = a->x,
                               .ldx = COLS,
                               .xq = a->xq[c],
                               .xd = a->xd[c],
                               .xsum = a->xsum[c],
                               .y = y,
                               .ldy = ROWS,
                               .scale = 1.0f,
                               .scratch = aligned_alloc(64, MATMUL_SCRATCH_BYTES)};
    if (!args.scratch) fail("out of memory");
    double best = 0;
    int64_t group = 0, matrix = 0;
    for (int pass = 0; pass < N_PASSES; pass++) {
        const uint64_t begin = clock_ns();
        uint64_t now = begin;
        int64_t rows = 0;
        for (; now - begin < PASS_NS; now = clock_ns()) {
            args.w = buffer->base + matrix * matrix_bytes;
            run(&args, group, group + PIECE);
            rows += PIECE * MATMUL_GROUP;
            group += PIECE;
            if (group == GROUPS) group = 0, matrix = (matrix + 1) % n_matrices;
        }
        const double rows_per_s = (double)rows * 1e9 / (double)(now - begin);
        if (rows_per_s > best) best = rows_per_s;
    }
    free(args.scratch);
    return best;
}

static void kernel_print(const struct matmul_kernel *kernel, const char *isa,
                         const struct activations *a, const struct region *buffer, float *y) {
    const int64_t n_matrices = matrices_fill(kernel, buffer);
    const double row_bytes = (double)format_row_bytes(kernel->format, COLS);
    double rows_per_s[N_COUNTS];
    printf("%-7s %-9s GB/s  ", format_at(kernel->format)->name, isa);
    for (int c = 0; c < N_COUNTS; c++) {
        rows_per_s[c] = rate(kernel, a, c, buffer, n_matrices, y);
        printf(" %7.2f", rows_per_s[c] * row_bytes * 1e-9);
        fflush(stdout);
    }
    printf("\n%-7s %-9s GMAC/s", "", "");
    for (int c = 0; c < N_COUNTS; c++)
        printf(" %7.1f", rows_per_s[c] * COLS * token_counts[c] * 1e-9);
    printf("\n");
}

// The rate of a plain read of the buffer.
static double read_rate(const struct cpu_ops *ops, const struct region *buffer, int64_t ahead) {
    volatile uint64_t sink = 0;
    double best = 0;
    for (uint64_t at = 0; at + READ_BYTES * 16 <= buffer->bytes; at += READ_BYTES * 16) {
        const uint64_t begin = clock_ns();
        for (uint64_t i = 0; i < 16; i++)
            sink ^= ops->stream_read(buffer->base + at + i * READ_BYTES, READ_BYTES, ahead);
        const double bytes_per_s = READ_BYTES * 16 * 1e9 / (double)(clock_ns() - begin);
        if (bytes_per_s > best) best = bytes_per_s;
    }
    return best;
}

static bool is_asked(const char *asked, const char *name) {
    return !asked || !strcmp(asked, "all") || !strcmp(asked, name);
}

int main(int argc, char **argv) {
    const char *format_asked = argc > 1 ? argv[1] : NULL, *isa_asked = argc > 2 ? argv[2] : NULL;
    struct activations activations;
    struct region buffer;
    const struct cpu_ops *ops;
    if (region_map(buffer_bytes, false, "buffer", &buffer, NULL)) fail("out of memory");
    if (ops_find(NULL, &ops, NULL)) fail("no instruction set");
    memset(buffer.base, 1, buffer.bytes);
    activations_init(&activations);
    float *y = allocate((size_t)N_MAX * ROWS * sizeof *y);
    printf("plain read: %.2f GB/s, %.2f with prefetch\n", read_rate(ops, &buffer, 0) * 1e-9,
           read_rate(ops, &buffer, 8192) * 1e-9);
    printf("%-7s %-9s tokens", "format", "isa");
    for (int c = 0; c < N_COUNTS; c++) printf(" %7d", token_counts[c]);
    printf("\n");
    for (int format = 0; format < FORMAT_COUNT; format++) {
        if (!is_asked(format_asked, format_at((enum format_id)format)->name)) continue;
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            const struct cpu_ops *here = ops_at((enum cpu_isa)isa);
            const struct matmul_kernel *kernel =
                here ? matmul_kernel_find((enum format_id)format, (enum cpu_isa)isa) : NULL;
            if (kernel && is_asked(isa_asked, here->name))
                kernel_print(kernel, here->name, &activations, &buffer, y);
        }
        const struct matmul_kernel *evex = matmul_evex_find((enum format_id)format);
        if (evex && is_asked(isa_asked, "evex")) // AVX-VNNI's kernels, nearly
            kernel_print(evex, "evex", &activations, &buffer, y);
    }
    free(y);
    activations_deinit(&activations);
    region_unmap(&buffer);
    return 0;
}
