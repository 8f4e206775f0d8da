// The speed of attention, as tables for people. On one thread: the kernels' decode beside a plain
// read of the same pages, and their prefill beside the peak of fused multiply-adds. Then the
// program's stage on all threads. Arguments: an instruction set, and the index of a shape; without
// them all. Asserts nothing; run it on a quiet machine.
#define _GNU_SOURCE 1
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/region.h"
#include "base/clock.h"
#include "base/half.h"

enum { N_LAYER = 8, N_RUNS = 21, TILE_QUERIES = 128 };

struct shape {
    const char *name;
    int n_head, n_head_kv, dim, window;
    int latent; // of a latent group: the size of values; 0: it is none
};

static uint32_t rng(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}
static float rng_float(void) { return (float)(int32_t)rng() * 0x1p-31f; }

// Some layers of a sequence in shuffled pages.
struct cache {
    struct region region;
    uint32_t *table;
    int n_pages, n_layer;
    uint64_t page_bytes, head_bytes;
    struct attention_args args;
};

static void fail(const char *what) {
    fprintf(stderr, "bench_attention: %s\n", what);
    exit(1);
}

static void pages_fill(struct cache *c, enum kv_type type) {
    float some[4096];
    uint16_t half[4096];
    for (int i = 0; i < 4096; i++) some[i] = rng_float();
    for (int i = 0; i < 4096; i++) half[i] = f32_to_f16(some[i]);
    // halves also where codes are: any byte is a code
    const void *from = type == KV_F32 ? (const void *)some : (const void *)half;
    const uint64_t size = type == KV_F32 ? sizeof some : sizeof half;
    for (uint64_t at = 0; at < c->region.bytes; at += size)
        memcpy(c->region.base + at, from,
               at + size < c->region.bytes ? size : c->region.bytes - at);
}

static void cache_init(struct cache *c, const struct shape *shape, int n_pos, int n_layer,
                       enum kv_type type) {
    *c = (struct cache){.n_pages = (n_pos + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS,
                        .n_layer = n_layer};
    c->head_bytes = shape->latent ? kv_layout_latent(type, shape->dim).bytes
                                  : kv_layout_of(type, shape->dim, shape->dim).bytes;
    const int dim_v = shape->latent ? shape->latent : shape->dim;
    c->page_bytes = c->head_bytes * (uint64_t)(shape->n_head_kv * n_layer);
    c->table = malloc((size_t)c->n_pages * sizeof *c->table);
    if (!c->table ||
        region_map((uint64_t)c->n_pages * c->page_bytes, true, "pages", &c->region, NULL) != RN_OK)
        fail("out of memory");
    pages_fill(c, type);
    for (int i = 0; i < c->n_pages; i++) c->table[i] = (uint32_t)i;
    for (int i = c->n_pages - 1; i > 0; i--) {
        const int j = (int)(rng() % (uint32_t)(i + 1));
        const uint32_t page = c->table[i];
        c->table[i] = c->table[j];
        c->table[j] = page;
    }
    c->args = (struct attention_args){.n_head = shape->n_head,
                                      .n_head_kv = shape->n_head_kv,
                                      .dim_k = shape->dim,
                                      .dim_v = dim_v,
                                      .is_latent = shape->latent > 0,
                                      .window = shape->window,
                                      .scale = 1.0f / sqrtf((float)shape->dim),
                                      .type = type,
                                      .pages = c->region.base,
                                      .page_bytes = c->page_bytes,
                                      .page_table = c->table,
                                      .ldq = shape->n_head * shape->dim,
                                      .ldo = shape->n_head * dim_v};
}

static void cache_deinit(struct cache *c) {
    region_unmap(&c->region);
    free(c->table);
}

static float *floats(int64_t n) {
    float *x = aligned_alloc(64, ((size_t)n * sizeof *x + 63) / 64 * 64);
    if (!x) fail("out of memory");
    for (int64_t i = 0; i < n; i++) x[i] = rng_float();
    return x;
}

// ---------------------------------------------------------------- what the machine can do

#if defined(__x86_64__)
#include <immintrin.h>

enum { PEAK_STEPS = 2000000, PEAK_CHAINS = 10 };

static __attribute__((target("avx2,fma"))) float peak_avx2(void) {
    __m256 acc[PEAK_CHAINS], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(0.25f);
    for (int i = 0; i < PEAK_CHAINS; i++) acc[i] = _mm256_set1_ps((float)i);
    for (int n = 0; n < PEAK_STEPS; n++) {
        for (int i = 0; i < PEAK_CHAINS; i++) acc[i] = _mm256_fmadd_ps(acc[i], x, y);
        __asm__ volatile("" : "+x"(x)); // the compiler must not see through the loop
    }
    for (int i = 1; i < PEAK_CHAINS; i++) acc[0] = _mm256_add_ps(acc[0], acc[i]);
    return _mm256_cvtss_f32(acc[0]);
}

static __attribute__((target("avx512f"))) float peak_avx512(void) {
    __m512 acc[PEAK_CHAINS], x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(0.25f);
    for (int i = 0; i < PEAK_CHAINS; i++) acc[i] = _mm512_set1_ps((float)i);
    for (int n = 0; n < PEAK_STEPS; n++) {
        for (int i = 0; i < PEAK_CHAINS; i++) acc[i] = _mm512_fmadd_ps(acc[i], x, y);
        __asm__ volatile("" : "+v"(x));
    }
    for (int i = 1; i < PEAK_CHAINS; i++) acc[0] = _mm512_add_ps(acc[0], acc[i]);
    return _mm512_cvtss_f32(acc[0]);
}

// Billions of floating-point operations per second, a fused multiply-add being two.
static double peak(const struct cpu_ops *ops) {
    const bool wide = ops->isa >= ISA_AVX512BW && ops->isa <= ISA_AMX;
    volatile float sink = 0;
    double best = 0;
    for (int i = 0; i < 3; i++) {
        const uint64_t begin = clock_ns();
        sink = sink + (wide ? peak_avx512() : peak_avx2());
        const double flops = 2.0 * PEAK_STEPS * PEAK_CHAINS * (wide ? 16 : 8);
        best = fmax(best, flops / (double)(clock_ns() - begin));
    }
    return best;
}
#else
static double peak(const struct cpu_ops *ops) {
    (void)ops;
    return NAN;
}
#endif

// Seconds to read the layers' visible pages, layer after layer, as attention must.
static double read_pages(const struct cpu_ops *ops, const struct cache *c, int first_page,
                         int64_t ahead) {
    volatile uint64_t sink = 0;
    const uint64_t layer_bytes = c->head_bytes * (uint64_t)c->args.n_head_kv;
    const uint64_t begin = clock_ns();
    for (int layer = 0; layer < c->n_layer; layer++)
        for (int i = first_page; i < c->n_pages; i++)
            sink = sink ^ ops->stream_read(c->region.base + c->table[i] * c->page_bytes +
                                               (uint64_t)layer * layer_bytes,
                                           (int64_t)(layer_bytes / 512 * 512), ahead);
    return (double)(clock_ns() - begin) * 1e-9;
}

// ---------------------------------------------------------------- attention

// All KV heads of all layers, the rows in tiles as the program makes them. Seconds.
static double attend(const struct cpu_ops *ops, const struct cache *c, const float *q, float *out,
                     const int32_t *pos, int n_rows, float *scratch) {
    struct attention_args args = c->args;
    const int ratio = args.n_head / args.n_head_kv;
    const int most = ratio >= TILE_QUERIES ? 1 : TILE_QUERIES / ratio;
    const uint64_t begin = clock_ns();
    for (int layer = 0; layer < c->n_layer; layer++) {
        for (args.head_kv = 0; args.head_kv < args.n_head_kv; args.head_kv++) {
            args.head_at = c->head_bytes * (uint64_t)(layer * args.n_head_kv + args.head_kv);
            for (int row = 0; row < n_rows; row += most) {
                args.q = q + row * args.ldq;
                args.out = out + row * args.ldo;
                args.pos = pos + row;
                args.n_rows = n_rows - row < most ? n_rows - row : most;
                ops->attention(&args, scratch);
            }
        }
    }
    return (double)(clock_ns() - begin) * 1e-9;
}

static float *scratch_new(const struct cache *c) {
    const int ratio = c->args.n_head / c->args.n_head_kv;
    const int queries = ratio > TILE_QUERIES ? ratio : TILE_QUERIES;
    return floats((c->args.is_latent ? attention_scratch_latent
                                     : attention_scratch)(queries, c->args.dim_k, c->args.dim_v));
}

static void decode_row(const struct cpu_ops *ops, const struct shape *shape, int n_pos,
                       enum kv_type type) {
    static const int64_t aheads[] = {0, 1024, 4096};
    struct cache c;
    cache_init(&c, shape, n_pos, shape->n_head_kv == 1 ? 4 * N_LAYER : N_LAYER, type);
    const int32_t pos = n_pos - 1;
    const int first_page = attention_first(&c.args, pos) / KV_PAGE_TOKENS;
    const double bytes = (double)(c.n_pages - first_page) * (double)c.page_bytes;
    float *q = floats(c.args.ldq), *out = floats(c.args.ldo), *scratch = scratch_new(&c);
    double took = INFINITY, plain = INFINITY;
    for (int i = 0; i < N_RUNS; i++) {
        plain = fmin(plain, read_pages(ops, &c, first_page, aheads[i % 3]));
        took = fmin(took, attend(ops, &c, q, out, &pos, 1, scratch));
    }
    printf("%-8s %-4s %-14s %7d %7.0f %7.2f %9.1f %9.1f %7.0f%%\n", ops->name, kv_type_names[type],
           shape->name, n_pos, bytes * 1e-6, took * 1e3, bytes / took * 1e-9, bytes / plain * 1e-9,
           100 * plain / took);
    free(q), free(out), free(scratch);
    cache_deinit(&c);
}

// All heads share a row, so arithmetic is the limit: decode beside both of the machine's roofs.
static void latent_row(const struct cpu_ops *ops, const struct shape *shape, int n_rows, int n_pos,
                       enum kv_type type, double most) {
    struct cache c;
    cache_init(&c, shape, n_pos, n_rows == 1 ? N_LAYER : 1, type);
    int32_t *pos = malloc((size_t)n_rows * sizeof *pos);
    if (!pos) fail("out of memory");
    double pairs = 0;
    for (int i = 0; i < n_rows; i++) {
        pos[i] = n_pos - n_rows + i;
        pairs += (double)(pos[i] + 1) * shape->n_head * c.n_layer;
    }
    float *q = floats(n_rows * c.args.ldq), *out = floats(n_rows * c.args.ldo);
    float *scratch = scratch_new(&c);
    double took = INFINITY, plain = INFINITY;
    for (int i = 0; i < N_RUNS; i++) {
        if (n_rows == 1) plain = fmin(plain, read_pages(ops, &c, 0, i % 2 ? 4096 : 0));
        took = fmin(took, attend(ops, &c, q, out, pos, n_rows, scratch));
    }
    const double flops = pairs * 2.0 * (shape->dim + shape->latent);
    const double bytes = (double)c.n_pages * (double)c.page_bytes, math = flops / most * 1e-9;
    printf("%-8s %-4s %-14s %5d %6d %7.2f %7.2f %7.2f %8.1f %8.1f %6.0f%%\n", ops->name,
           kv_type_names[type], shape->name, n_rows, n_pos, took * 1e3,
           n_rows == 1 ? plain * 1e3 : 0.0, math * 1e3, bytes / took * 1e-9, flops / took * 1e-9,
           100 * (n_rows == 1 ? fmax(plain, math) : math) / took);
    free(pos), free(q), free(out), free(scratch);
    cache_deinit(&c);
}

static void prefill_row(const struct cpu_ops *ops, const struct shape *shape, int n_rows, int n_pos,
                        enum kv_type type, double most) {
    struct shape one = *shape; // one KV head is enough, and keeps the pages in cache
    one.n_head = shape->n_head / shape->n_head_kv;
    one.n_head_kv = 1;
    struct cache c;
    cache_init(&c, &one, n_pos, 1, type);
    int32_t *pos = malloc((size_t)n_rows * sizeof *pos);
    if (!pos) fail("out of memory");
    double pairs = 0;
    for (int i = 0; i < n_rows; i++) {
        pos[i] = n_pos - n_rows + i;
        pairs += (double)(pos[i] + 1 - attention_first(&c.args, pos[i])) * one.n_head;
    }
    float *q = floats(n_rows * c.args.ldq), *out = floats(n_rows * c.args.ldo);
    float *scratch = scratch_new(&c);
    double took = INFINITY;
    for (int i = 0; i < N_RUNS; i++)
        took = fmin(took, attend(ops, &c, q, out, pos, n_rows, scratch));
    const double rate = pairs * 4.0 * shape->dim / took * 1e-9;
    printf("%-8s %-4s %-14s %6d %7d %9.1f %9.1f %7.0f%%\n", ops->name, kv_type_names[type],
           shape->name, n_rows, n_pos, rate, most, 100 * rate / most);
    free(pos), free(q), free(out), free(scratch);
    cache_deinit(&c);
}

// ---------------------------------------------------------------- the stage

// A program of attention ops, one per layer, that share their queries.
static void plan_make(struct plan *plan, const struct shape *shape, const float *embedding) {
    const int width = shape->n_head * shape->dim;
    const struct plan_kv_group group = {KV_FULL,    N_LAYER,    shape->n_head_kv,
                                        shape->dim, shape->dim, 0,
                                        0,          0,          false};
    const struct plan_weight weight = {.name = "embedding",
                                       .format = FORMAT_F32,
                                       .rows = 1,
                                       .cols = width,
                                       .data = embedding,
                                       .bytes = (uint64_t)width * sizeof(float)};
    plan_init(plan);
    plan_add_kv_group(plan, &group);
    const int q = plan_add_buffer(plan, "q", width, ROWS_TOKENS);
    const int a = plan_add_buffer(plan, "a", width, ROWS_TOKENS);
    plan->logits = plan_add_buffer(plan, "logits", width, ROWS_LOGITS);
    plan->n_vocab = width;
    struct op op = {.kind = OP_EMBED, .in = {PLAN_NONE, PLAN_NONE}, .out = q, .bias = PLAN_NONE};
    op.weight = plan_add_weight(plan, &weight);
    op.embed.scale = 1;
    plan_add_op(plan, &op);
    for (int layer = 0; layer < N_LAYER; layer++) {
        op = (struct op){.kind = OP_ATTENTION, .in = {q, PLAN_NONE}, .out = a};
        op.weight = op.bias = PLAN_NONE;
        op.kv.layer = layer;
        op.kv.n_head = shape->n_head;
        op.kv.scale = 0.1f;
        plan_add_op(plan, &op);
    }
    op = (struct op){.kind = OP_GATHER, .rows = ROWS_LOGITS, .in = {a, PLAN_NONE}};
    op.out = plan->logits;
    op.weight = op.bias = PLAN_NONE;
    plan_add_op(plan, &op);
    if (plan_finish(plan, NULL) != RN_OK) fail("out of memory");
}

// One token of a long sequence, and with `others` each of that many short ones of 256 positions.
static void stage_row(const struct shape *shape, int n_pos, int others) {
    enum { MAX_SEQS = 16, SHORT_PAGES = 8 };
    struct plan plan;
    struct pool *pool;
    struct backend *backend;
    const struct backend_class *cls;
    struct backend_device device;
    struct backend_info info;
    struct step_result result;
    float *embedding = floats(shape->n_head * shape->dim);
    const int n_pages = n_pos / KV_PAGE_TOKENS;
    plan_make(&plan, shape, embedding);
    if (pool_create_here(0, false, &pool, NULL) != RN_OK) fail("no threads");
    const struct backend_config config = {.sizes = {MAX_SEQS, MAX_SEQS, MAX_SEQS},
                                          .kv_type = "f16",
                                          .n_pages = {(uint32_t)(n_pages + others * SHORT_PAGES)},
                                          .pool = pool};
    if (backend_find("cpu", 0, &cls, &device, NULL) || cls->create(&plan, &config, &backend, NULL))
        fail("no backend");
    cls->describe(backend, &info);
    int32_t zero[MAX_SEQS] = {0}, pos[MAX_SEQS], rows[MAX_SEQS];
    struct batch_seq seq[MAX_SEQS];
    uint32_t *table = malloc(config.n_pages[0] * sizeof *table);
    if (!table) fail("out of memory");
    for (uint32_t i = 0; i < config.n_pages[0]; i++) {
        table[i] = i * 37 % config.n_pages[0];
        const struct batch_page clear = {0, i, BATCH_ZERO}; // zeros are as fast as other numbers
        const struct batch only = {.n_pages = 1, .page = &clear};
        backend_run(backend, &only, &result, NULL);
    }
    for (int i = 0; i <= others; i++) {
        pos[i] = i ? SHORT_PAGES * KV_PAGE_TOKENS - 1 : n_pos - 1;
        rows[i] = i;
        const uint32_t *pages = i ? table + n_pages + (i - 1) * SHORT_PAGES : table;
        seq[i] = (struct batch_seq){i, 1, pos[i], i, 1, {pages}, {BATCH_ZERO}, {BATCH_ZERO}, 0};
    }
    const int n = others + 1;
    const struct batch batch = {.n_tokens = n,
                                .n_seqs = n,
                                .n_out = n,
                                .n_logits = n,
                                .token = zero,
                                .pos = pos,
                                .out_row = rows,
                                .seq = seq};
    const double bytes =
        (double)config.n_pages[0] * KV_PAGE_TOKENS * shape->n_head_kv * shape->dim * 4.0 * N_LAYER;
    double took = INFINITY, most = 0;
    for (int i = 0; i < N_RUNS; i++) {
        const uint64_t begin = clock_ns();
        backend_run(backend, &batch, &result, NULL);
        took = fmin(took, (double)(clock_ns() - begin) * 1e-9);
        if (i % 7 == 0) most = fmax(most, cls->bandwidth(backend, (uint64_t)bytes, 60));
    }
    printf("%-8s %d    %-14s %6d+%-2d %5.0f %9.1f %9.1f %7.0f%%\n", info.variant, pool_size(pool),
           shape->name, n_pos, others, bytes * 1e-6, bytes / took * 1e-9, most * 1e-9,
           most > 0 ? 100 * bytes / took / most : 0.0);
    backend_destroy(backend);
    pool_destroy(pool);
    plan_deinit(&plan);
    free(table), free(embedding);
}

static const struct shape shapes[] = {
    {"32/8 x 64", 32, 8, 64, 0, 0},        {"32/8 x 128", 32, 8, 128, 0, 0},
    {"32/32 x 64", 32, 32, 64, 0, 0},      {"64/8 x 128", 64, 8, 128, 0, 0},
    {"8/1 x 256", 8, 1, 256, 0, 0},        {"32/1 x 128", 32, 1, 128, 0, 0},
    {"8/4 x 256 w1k", 8, 4, 256, 1024, 0}, {"15/5 x 64", 15, 5, 64, 0, 0},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static const struct shape latents[] = {
    {"16 latent", 16, 1, 576, 0, 512},
    {"20 latent", 20, 1, 576, 0, 512},
    {"64 latent", 64, 1, 576, 0, 512},
    {"128 latent", 128, 1, 576, 0, 512},
};

// kv: a type alone; NULL: all.
static void latents_print(const char *isa, const char *kv) {
    printf("\nlatent  kv   shape           rows    ctx      ms    read    math     GB/s  GFLOP/s  "
           "share\n");
    for (int i = ISA_COUNT - 1; i > ISA_SCALAR; i--) {
        const struct cpu_ops *ops = ops_at((enum cpu_isa)i);
        if (!ops || (isa && strcmp(isa, ops->name) != 0)) continue;
        const double most = peak(ops);
        for (int s = 0; s < 4; s++) {
            for (int type = KV_F32; type < KV_TYPE_COUNT; type++)
                if (!kv || kv_type_find(kv) == type)
                    latent_row(ops, &latents[s], 1, 8192, (enum kv_type)type, most);
            for (int type = KV_F16; type <= KV_INT8; type++)
                if (!kv || kv_type_find(kv) == type)
                    latent_row(ops, &latents[s], 64, 2048, (enum kv_type)type, most);
        }
    }
}

// The argument latent after the instruction set prints that table alone, one KV type of it where
// one follows.
int main(int argc, char **argv) {
    const char *isa = argc > 1 ? argv[1] : NULL;    // all of them, or one
    const int only = argc > 2 ? atoi(argv[2]) : -1; // of the shapes
    if (argc > 2 && strcmp(argv[2], "latent") == 0) {
        latents_print(isa, argc > 3 ? argv[3] : NULL);
        return 0;
    }
    printf("decode  kv   shape              ctx      MB      ms      GB/s      read   share\n");
    for (int i = ISA_COUNT - 1; i > ISA_SCALAR; i--) {
        const struct cpu_ops *ops = ops_at((enum cpu_isa)i);
        if (!ops || (isa && strcmp(isa, ops->name) != 0)) continue;
        for (int s = 0; s < N_SHAPES; s++)
            if (only < 0 || only == s) decode_row(ops, &shapes[s], 4096, KV_F16);
        if (only < 0) decode_row(ops, &shapes[0], 1024, KV_F16);
        if (only < 0) decode_row(ops, &shapes[0], 4096, KV_F32);
        for (int s = 0; s < N_SHAPES; s++) {
            if (only >= 0 ? only != s : s != 1 && s != 2) continue;
            decode_row(ops, &shapes[s], 8192, KV_F16);
            decode_row(ops, &shapes[s], 8192, KV_INT8);
            decode_row(ops, &shapes[s], 8192, KV_INT4);
        }
    }
    printf("\nprefill kv   shape            rows     ctx   GFLOP/s      peak   share\n");
    for (int i = ISA_COUNT - 1; i > ISA_SCALAR; i--) {
        const struct cpu_ops *ops = ops_at((enum cpu_isa)i);
        if (!ops || (isa && strcmp(isa, ops->name) != 0)) continue;
        for (int s = 0; s < N_SHAPES; s++) {
            if (only >= 0 && only != s) continue;
            prefill_row(ops, &shapes[s], 512, 512, KV_F16, peak(ops));
            prefill_row(ops, &shapes[s], 512, 2048, KV_F16, peak(ops));
            if (s == 0) prefill_row(ops, &shapes[s], 512, 8192, KV_F16, peak(ops));
            if (s == 0) prefill_row(ops, &shapes[s], 512, 8192, KV_INT8, peak(ops));
            if (s == 0) prefill_row(ops, &shapes[s], 512, 8192, KV_INT4, peak(ops));
        }
    }
    printf("\nstage threads shape        ctx+short   MB      GB/s bandwidth   share\n");
    for (int s = 0; s < N_SHAPES; s++) {
        if ((only >= 0 && only != s) || shapes[s].window) continue;
        stage_row(&shapes[s], 8192, 0);
        if (s == 0) stage_row(&shapes[s], 8192, 15);
    }
    latents_print(isa, NULL);
    return 0;
}
