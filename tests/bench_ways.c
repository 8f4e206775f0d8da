// The share of a bare read loop that the kernels of one token reach, for each way of requesting
// weights (matmul_ways), as a table for people. All threads of the pool read matrices from a
// buffer, round and round. Passes of all ways take turns, so all of them meet the same machine; a
// cell is the median. Asserts nothing; run it on a quiet machine:
//   bench_ways [format or all [threads [isa or all [columns [rounds [MiB of the buffer]]]]]]
// "all" as instruction set means the best one. Threads 0: as many as an engine would have. The
// buffer is four times larger than the caches, unless its size is given.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/region.h"
#include "backend/cpu/tune.h"
#include "base/clock.h"
#include "base/pool.h"

enum {
    COLS = 2048,
    PASS_BYTES = 8 << 20, // of a pass, for each thread
    BUFFER_MIN = 512 << 20,
    ROUNDS = 15,
    MAX_ROUNDS = 128,
    READS = 3, // bare reads, by how far ahead they request lines
};
static const int64_t distances[READS] = {0, 1024, 4096};

struct reading {
    struct pool *pool;
    const struct cpu_ops *ops;
    const struct matmul_kernel *kernel;
    const uint8_t *data;
    int64_t n_pieces, piece_bytes, piece_groups, next, n_pass; // of the buffer, of a pass
    int64_t cols;
    struct matmul_way way;
    int64_t ahead; // of a bare read
    float *x, *y;  // y: [threads, rows of a piece]
    uint8_t *scratch;
    uint64_t sink[POOL_MAX_THREADS][8];
};

static void fail(const char *what) {
    fprintf(stderr, "bench_ways: %s\n", what);
    exit(1);
}

static void read_pieces(void *ctx, int64_t begin, int64_t end, int worker) {
    struct reading *r = ctx;
    for (int64_t i = begin; i < end; i++) {
        const uint8_t *at = r->data + (r->next + i) % r->n_pieces * r->piece_bytes;
        r->sink[worker][0] ^= r->ops->stream_read(at, r->piece_bytes, r->ahead);
    }
}

static void multiply_pieces(void *ctx, int64_t begin, int64_t end, int worker) {
    struct reading *r = ctx;
    const int64_t rows = r->piece_groups * MATMUL_GROUP;
    for (int64_t i = begin; i < end; i++) {
        const uint8_t *at = r->data + (r->next + i) % r->n_pieces * r->piece_bytes;
        const struct matmul_args args = {.w = at,
                                         .rows = rows,
                                         .cols = r->cols,
                                         .n = 1,
                                         .x = r->x,
                                         .xq = (const int8_t *)(r->x + r->cols),
                                         .xd = r->x + 2 * r->cols,
                                         .xsum = (const int16_t *)(r->x + 3 * r->cols),
                                         .y = r->y + worker * rows,
                                         .scale = 1,
                                         .way = r->way,
                                         .scratch = r->scratch + worker * MATMUL_SCRATCH_BYTES};
        r->kernel->run[SHAPE_ONE](&args, 0, r->piece_groups);
    }
}

// GB/s of a pass, which goes on where the last one ended.
static double pass(struct reading *r, pool_fn fn) {
    const uint64_t begin = clock_ns();
    pool_run(r->pool, fn, r, r->n_pass, 1);
    const uint64_t took = clock_ns() - begin;
    r->next = (r->next + r->n_pass) % r->n_pieces;
    return (double)(r->n_pass * r->piece_bytes) / (double)(took ? took : 1);
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *rate, int n) {
    qsort(rate, (size_t)n, sizeof *rate, compare_doubles);
    return rate[n / 2];
}

static void format_print(struct reading *r, uint64_t bytes, int rounds) {
    static double bare[READS][MAX_ROUNDS], rate[MATMUL_WAYS][MAX_ROUNDS];
    const int64_t group_bytes = r->kernel->group_bytes(r->cols);
    const bool is_float = !format_at(r->kernel->format)->span;
    const int64_t groups =
        (is_float ? CPU_CHUNK_BYTES_FLOAT : CPU_CHUNK_BYTES) / group_bytes / 2 * 2;
    r->piece_groups = groups < 2 ? 2 : groups;
    r->piece_bytes = r->piece_groups * group_bytes;
    r->n_pieces = (int64_t)bytes / r->piece_bytes;
    r->n_pass = PASS_BYTES / r->piece_bytes * pool_size(r->pool);
    r->next = 0;
    r->y = calloc((size_t)(pool_size(r->pool) * r->piece_groups), MATMUL_GROUP * sizeof(float));
    if (!r->y) fail("out of memory");
    for (int round = -1; round < rounds; round++) {
        const int at = round < 0 ? 0 : round; // the first round warms up
        for (int i = 0; i < READS; i++) {
            r->ahead = distances[i];
            bare[i][at] = pass(r, read_pieces);
        }
        for (int i = 0; i < MATMUL_WAYS; i++) {
            const int w = (i + at) % MATMUL_WAYS;
            r->way = matmul_ways[w];
            rate[w][at] = pass(r, multiply_pieces);
        }
    }
    double best = 0;
    for (int i = 0; i < READS; i++) {
        const double read = median(bare[i], rounds);
        if (read > best) best = read;
    }
    printf("%-8s %6.1f %6.1f", format_at(r->kernel->format)->name, best, median(rate[0], rounds));
    for (int w = 0; w < MATMUL_WAYS; w++) printf(" %5.0f%%", 100 * median(rate[w], rounds) / best);
    printf("\n");
    fflush(stdout);
    free(r->y);
}

// The names of the ways stand over their columns, each in two lines.
static void head_print(void) {
    char name[MATMUL_WAYS][32];
    for (int w = 0; w < MATMUL_WAYS; w++) tune_name(&matmul_ways[w], name[w], sizeof name[w]);
    printf("%-8s %6s %6s", "", "read", "way 0");
    for (int w = 0; w < MATMUL_WAYS; w++) printf(" %6.*s", (int)strcspn(name[w], " "), name[w]);
    printf("\n%-8s %6s %6s", "format", "GB/s", "GB/s");
    for (int w = 0; w < MATMUL_WAYS; w++) {
        const char *rest = name[w] + strcspn(name[w], " ");
        printf(" %6s", *rest ? rest + 1 : "");
    }
    printf("\n");
}

int main(int argc, char **argv) {
    const char *format_asked = argc > 1 ? argv[1] : "all", *isa = argc > 3 ? argv[3] : "all";
    const int threads = argc > 2 ? atoi(argv[2]) : 0, rounds = argc > 5 ? atoi(argv[5]) : ROUNDS;
    static struct reading r;
    struct region buffer, scratch;
    rn_error err = {0};
    r.cols = argc > 4 ? atoi(argv[4]) : COLS;
    if (r.cols < 256 || r.cols % 256 || rounds < 1 || rounds > MAX_ROUNDS ||
        (argc > 6 && atoi(argv[6]) < 16))
        fail("usage: bench_ways [FORMAT|all [THREADS [ISA|all [COLUMNS [ROUNDS [MIB]]]]]]: columns "
             "are a multiple of 256, rounds 1 to 128, and the buffer has at least 16 MiB");
    if (pool_create_here(threads, false, &r.pool, &err)) fail(err.message);
    if (ops_find(strcmp(isa, "all") ? isa : NULL, &r.ops, &err)) fail(err.message);
    const uint64_t caches = 4 * pool_caches(r.pool).all;
    const uint64_t large = caches > BUFFER_MIN ? caches : BUFFER_MIN;
    const uint64_t bytes = argc > 6 ? (uint64_t)atoi(argv[6]) << 20 : large;
    const uint64_t scratch_bytes = (uint64_t)pool_size(r.pool) * MATMUL_SCRATCH_BYTES;
    if (region_map(bytes, false, "the buffer", &buffer, &err) ||
        region_map(scratch_bytes, false, "the scratch", &scratch, &err))
        fail(err.message);
    memset(buffer.base, 0x35, buffer.bytes); // ordinary half floats
    r.data = buffer.base;
    r.scratch = scratch.base;
    r.x = calloc((size_t)r.cols * 4, sizeof *r.x);
    if (!r.x) fail("out of memory");
    printf("%d threads, %s, rows of %d columns\n", pool_size(r.pool), r.ops->name, (int)r.cols);
    head_print();
    for (int format = 0; format < FORMAT_COUNT; format++) {
        if (strcmp(format_asked, "all") &&
            strcmp(format_asked, format_at((enum format_id)format)->name))
            continue;
        r.kernel = matmul_kernel_find((enum format_id)format, r.ops->isa);
        if (r.kernel && r.kernel->has_ways) format_print(&r, buffer.bytes, rounds);
    }
    free(r.x);
    region_unmap(&scratch);
    region_unmap(&buffer);
    pool_destroy(r.pool);
    return 0;
}
