// Attention's partitions: for any tiles, ranges of splits, threads and instruction set, the bits
// are the scalar reference's. The kernels run on random shapes. The stage runs in a program of one
// attention op, whose tiles must have been cut.
// label: threads
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/latent.h"
#include "backend/cpu/reference.h"
#include "backend_here.h"
#include "matmul_amx_model.h"
#include "parts.h"

static void numbers_fill(uint8_t *at, uint64_t bytes, bool half) {
    for (uint64_t i = 0; i < bytes / (half ? 2 : 4); i++) {
        const float x = rng_float();
        const uint16_t h = f32_to_f16(x);
        if (half)
            memcpy(at + 2 * i, &h, 2);
        else
            memcpy(at + 4 * i, &x, 4);
    }
}

static void codes_fill(uint8_t *at, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i++) at[i] = (uint8_t)(rng() >> 24);
}

// The heads of some pages with random numbers, or codes and scales. Not every byte is an element's.
static void heads_fill(uint8_t *at, uint64_t bytes, enum kv_type type, const struct kv_layout *of) {
    const struct kv_layout layout = *of;
    for (const uint8_t *end = at + bytes; at < end; at += layout.bytes) {
        if (!layout.is_coded) {
            numbers_fill(at, layout.bytes, type == KV_F16);
            continue;
        }
        codes_fill(at, layout.scale_k);
        if (layout.is_latent) {
            numbers_fill(at + layout.scale_k, layout.bytes - layout.scale_k, true);
            for (uint32_t i = layout.scale_k; i < layout.bytes && type == KV_INT8; i += 2)
                at[i + 1] &= 0x7f; // a scale is not negative
            continue;
        }
        numbers_fill(at + layout.scale_k, layout.v - layout.scale_k, true);
        codes_fill(at + layout.v, layout.scale_v - layout.v);
        numbers_fill(at + layout.scale_v, layout.bytes - layout.scale_v, true);
    }
}

// ---------------------------------------------------------------- kernels

enum { MAX_ROWS = 40, MAX_HEADS = 64, MAX_DIM = 256 };

// Rows of random shape over a cache of random numbers.
struct task {
    struct attention_args args;
    int32_t pos[MAX_ROWS];
    float sinks[MAX_HEADS];
    float *q, *want, *got;
    uint8_t *pages;
    uint32_t *table;
};

static size_t out_bytes(const struct task *t) {
    return (size_t)(t->args.n_rows * t->args.n_head * t->args.dim_v) * sizeof(float);
}

// Task i of many: every dimension meets every KV type in 64 of them, the rest is random.
static void task_shape(struct task *t, int i, int most_pos) {
    static const int heads_kv[] = {1, 1, 2, 3}, ratios[] = {1, 2, 3, 4, 6, 7, 8};
    static const int dims[] = {16, 32, 64, 128, 80, 48, 7, 33, 130, 96, 112, 256, 5, 17, 72, 100};
    static const int windows[] = {0, 0, 1, 40, 256, 700}, rows[] = {1, 1, 2, 5, 9, 17, 33, 40};
    struct attention_args *a = &t->args;
    a->n_head_kv = PICK(heads_kv);
    a->n_head = a->n_head_kv * PICK(ratios);
    a->dim_k = dims[i / 2 % COUNT(dims)];
    a->dim_v = rng_below(2) ? a->dim_k : PICK(dims);
    a->window = PICK(windows);
    a->is_chunked = i % 5 < 2;
    a->softcap = rng_below(4) ? 0.0f : 5.0f;
    a->sinks = rng_below(3) ? NULL : t->sinks;
    a->type = (enum kv_type)((i + i / 32 * 2) % KV_TYPE_COUNT);
    a->n_rows = PICK(rows);
    // ascending, mostly one after the other; sometimes spread as the rows of logits may be
    const int spread = rng_below(4) ? 1 : 90;
    int last = rng_below(most_pos) + a->n_rows * spread;
    for (int r = a->n_rows - 1; r >= 0; r--, last -= 1 + rng_below(spread)) t->pos[r] = last;
}

// Numbers for the shape.
static void task_fill(struct task *t) {
    struct attention_args *a = &t->args;
    const int n_pages = t->pos[a->n_rows - 1] / KV_PAGE_TOKENS + 1;
    a->scale = 0.2f + 0.1f * rng_float();
    a->ldq = (int64_t)a->n_head * a->dim_k + 3;
    a->ldo = (int64_t)a->n_head * a->dim_v;
    const struct kv_layout layout = attention_layout(a);
    a->page_bytes = (uint64_t)a->n_head_kv * layout.bytes;
    t->pages = lines_alloc((uint64_t)n_pages * a->page_bytes);
    t->table = malloc((size_t)n_pages * sizeof *t->table);
    assert_non_null(t->table);
    heads_fill(t->pages, (uint64_t)n_pages * a->page_bytes, a->type, &layout);
    table_shuffle(t->table, n_pages);
    for (int i = 0; i < MAX_HEADS; i++) t->sinks[i] = rng_float() * 4;
    t->q = floats(a->n_rows * a->ldq);
    t->want = floats(a->n_rows * a->ldo);
    t->got = floats(a->n_rows * a->ldo);
    a->q = t->q;
    a->pos = t->pos;
    a->pages = t->pages;
    a->page_table = t->table;
}

static void task_deinit(struct task *t) {
    free(t->q), free(t->want), free(t->got), free(t->pages), free(t->table);
}

// Of any content.
static float *task_scratch(const struct attention_args *a) {
    const int64_t n =
        (a->is_latent ? attention_scratch_latent
                      : attention_scratch)((int64_t)a->n_rows * (a->n_head / a->n_head_kv),
                                           a->dim_k, a->dim_v);
    float *scratch = lines_alloc((uint64_t)n * sizeof *scratch);
    memset(scratch, 0xff, (size_t)n * sizeof *scratch);
    return scratch;
}

// One KV head, its splits in random ranges, in a random order.
static void attend_in_parts(const struct cpu_ops *ops, struct attention_args *a, float *scratch) {
    const int begin = attention_split_begin(a), end = attention_split_end(a), n = end - begin;
    const int64_t queries = (int64_t)a->n_rows * (a->n_head / a->n_head_kv);
    const int64_t part = attention_part_floats(queries, a->dim_v);
    a->parts = floats(part * n);
    memset(a->parts, 0xff, (size_t)(part * n) * sizeof(float)); // NaN where nothing is written
    uint32_t *order = malloc((size_t)n * sizeof *order);
    int *ends = malloc((size_t)n * sizeof *ends), n_ranges = 0;
    assert_true(order && ends);
    for (int at = begin; at < end;) {
        const int left = end - at;
        at += 1 + rng_below(left < 3 ? left : 3);
        ends[n_ranges++] = at;
    }
    table_shuffle(order, n_ranges);
    for (int i = 0; i < n_ranges; i++) {
        a->split_begin = order[i] ? ends[order[i] - 1] : begin;
        a->split_end = ends[order[i]];
        ops->attention(a, scratch);
    }
    ops->attention_fold(a, scratch);
    free(a->parts), free(order), free(ends);
    a->parts = NULL;
}

static void attend(const struct cpu_ops *ops, const struct attention_args *base, float *out,
                   bool in_parts) {
    struct attention_args a = *base;
    float *scratch = task_scratch(&a);
    a.out = out;
    for (a.head_kv = 0; a.head_kv < a.n_head_kv; a.head_kv++) {
        a.head_at = (uint64_t)a.head_kv * a.page_bytes / (uint64_t)a.n_head_kv;
        if (in_parts)
            attend_in_parts(ops, &a, scratch);
        else
            ops->attention(&a, scratch);
    }
    free(scratch);
}

// After the instruction sets: AMX over the model of its tiles.
enum { TABLE_AMX_MODEL = ISA_COUNT, TABLE_COUNT };

#if defined(__x86_64__)
static void attention_amx_model(const struct attention_args *args, float *scratch) {
    attention_avx512_tiles(args, scratch, &latent_amx_model);
    assert_null(amx_model_fault());
}
static bool model_was_used(void) { return amx_model_dots() > 0; }
#else
static bool model_was_used(void) { return false; }
#endif

// NULL: this machine cannot run it.
static const struct cpu_ops *ops_of(int index) {
#if defined(__x86_64__)
    static struct cpu_ops model;
    if (index == TABLE_AMX_MODEL) {
        if (!ops_at(ISA_AVX512)) return NULL;
        model = ops_avx512;
        model.name = "amx as a model";
        model.attention = attention_amx_model;
        return &model;
    }
#endif
    return index < ISA_COUNT ? ops_at((enum cpu_isa)index) : NULL;
}

static void check_task(struct task *t, int index) {
    const struct attention_args *a = &t->args;
    attend(&ops_scalar, a, t->want, false);
    for (int isa = ISA_SCALAR + 1; isa < TABLE_COUNT; isa++) {
        const struct cpu_ops *ops = ops_of(isa);
        for (int parts = 0; ops && parts < (ops->attention_fold ? 2 : 1); parts++) {
            memset(t->got, 0xff, out_bytes(t));
            attend(ops, a, t->got, parts);
            check(memcmp(t->got, t->want, out_bytes(t)) == 0,
                  "%s %s, task %d%s: heads %d/%d, dims %d %d, window %d, rows %d to position %d",
                  ops->name, kv_type_names[a->type], index, parts ? " in parts" : "", a->n_head,
                  a->n_head_kv, a->dim_k, a->dim_v, a->window, a->n_rows, a->pos[a->n_rows - 1]);
        }
    }
}

#define N_TASKS     test_scale(16, 64, 64)
#define N_ODD_TASKS test_scale(5, 15, 15)
enum { THREADS_STEP = TEST_IS_SLOW ? 3 : 1 };

CASE(whole_rows_and_folded_parts_equal_the_reference) {
    if (TEST_FOR_RACES) skip();
    rng_state = 11;
    for (int i = 0; i < N_TASKS; i++) {
        struct task t = {0};
        task_shape(&t, i, i % 16 ? 400 >> TEST_IS_SLOW : 3000 >> TEST_IS_SLOW);
        task_fill(&t);
        check_task(&t, i);
        task_deinit(&t);
    }
}

// Task i over a latent group: many queries share one row, and values are a part of keys.
static void latent_shape(struct task *t, int i, enum kv_type type) {
    static const int dims[][2] = {{576, 512}, {24, 16}, {40, 32}, {96, 64}, {7, 5},
                                  {130, 100}, {32, 24}, {80, 80}, {65, 1},  {200, 192}};
    static const int heads[] = {16, 20, 1, 7, 8, 9, 64}, rows[] = {1, 1, 2, 3, 9};
    struct attention_args *a = &t->args;
    *a = (struct attention_args){.n_head_kv = 1, .is_latent = true, .type = type};
    a->dim_k = dims[i % COUNT(dims)][0];
    a->dim_v = dims[i % COUNT(dims)][1];
    a->n_head = PICK(heads);
    a->sinks = rng_below(4) ? NULL : t->sinks;
    a->softcap = rng_below(4) ? 0.0f : 5.0f;
    a->n_rows = PICK(rows);
    const int spread = rng_below(3) ? 1 : 300;
    int last = rng_below(a->dim_k > 100 ? 300 : 900) + a->n_rows * spread;
    for (int r = a->n_rows - 1; r >= 0; r--, last -= 1 + rng_below(spread)) t->pos[r] = last;
}

CASE(rows_over_a_latent_equal_the_reference) {
    if (TEST_FOR_RACES) skip();
    rng_state = 29;
    model_was_used();
    for (int i = 0; i < test_scale(8, 40, 40); i++) {
        struct task t = {0};
        latent_shape(&t, i / KV_TYPE_COUNT, (enum kv_type)(i % KV_TYPE_COUNT));
        task_fill(&t);
        check_task(&t, i);
        task_deinit(&t);
        const bool tiles = i % KV_TYPE_COUNT == KV_INT8 && ops_of(TABLE_AMX_MODEL);
        assert_int_equal(model_was_used(), tiles);
    }
}

// Splits that end in any page of a pair, and windows that begin in one, which no model has so far.
CASE(the_ends_of_a_latents_pages_do_not_show) {
    if (TEST_FOR_RACES) skip();
    static const int contexts[] = {1, 31, 32, 33, 64, 65, 96, 97, 161, 255, 256, 257, 330};
    static const int windows[] = {0, 40, 100};
    rng_state = 37;
    for (int i = 0; i < COUNT(contexts) * COUNT(windows); i += test_scale(5, 1, 1)) {
        struct task t = {.args = {.n_head = 20, .n_head_kv = 1, .dim_k = 96, .dim_v = 80}};
        t.args.is_latent = true;
        t.args.type = KV_INT8;
        t.args.window = windows[i % COUNT(windows)];
        const int context = contexts[i / COUNT(windows)];
        t.args.n_rows = context < 3 ? 1 : 3;
        for (int r = 0; r < t.args.n_rows; r++) t.pos[r] = context - t.args.n_rows + r;
        task_fill(&t);
        check_task(&t, i);
        task_deinit(&t);
    }
}

// A latent's sum over 300 positions of equal weight is the mean of its values.
CASE(whole_weights_of_a_latent_cost_little) {
    if (TEST_FOR_RACES) skip();
    enum { N = 300 };
    struct task t = {
        .args = {.n_head = 3, .n_head_kv = 1, .dim_k = 67, .dim_v = 65}}; // not rotated
    rng_state = 41;
    t.args.is_latent = true;
    t.args.type = KV_INT8;
    t.args.n_rows = 1;
    t.pos[0] = N - 1;
    task_fill(&t);
    t.args.scale = 0;
    attend(&ops_scalar, &t.args, t.want, false);
    const struct kv_layout layout = attention_layout(&t.args);
    for (int d = 0; d < t.args.dim_v; d++) {
        double mean = 0;
        for (int i = 0; i < N; i++) {
            const uint8_t *page = attention_page(&t.args, i / KV_PAGE_TOKENS);
            const int slot = i % KV_PAGE_TOKENS;
            uint16_t scale;
            memcpy(&scale, page + layout.scale_v + (d / 64 * KV_PAGE_TOKENS + slot) * 2, 2);
            const int8_t code = (int8_t)page[(d / 4 * KV_PAGE_TOKENS + slot) * 4 + d % 4];
            mean += (double)f16_to_f32(scale) * code / N;
        }
        const double error = fabs((double)t.want[d] - mean);
        check(error < 127.0 / 32766 / 8, "element %d: %g instead of %g", d, (double)t.want[d],
              mean);
    }
    task_deinit(&t);
}

static void check_odd(struct task *t, int index) {
    attend(&ops_scalar, &t->args, t->want, false);
    for (int isa = ISA_SCALAR + 1; isa < TABLE_COUNT; isa++) {
        const struct cpu_ops *ops = ops_of(isa);
        if (!ops) continue;
        attend(ops, &t->args, t->got, ops->attention_fold != NULL);
        for (size_t j = 0; j < out_bytes(t) / sizeof(float); j++)
            check(t->got[j] != t->got[j] ? t->want[j] != t->want[j]
                                         : memcmp(&t->got[j], &t->want[j], 4) == 0,
                  "%s, task %d, element %zu: %g instead of %g", ops->name, index, j,
                  (double)t->got[j], (double)t->want[j]);
    }
}

// Scales that stand for no numbers, zeros and denormals; queries that are not finite.
CASE(odd_numbers_of_a_latent_spread_as_in_the_reference) {
    if (TEST_FOR_RACES) skip();
    static const uint16_t odd[] = {0, 0, 1, KV_SCALE_NAN, 0x7bff};
    rng_state = 43;
    int n_nan = 0, n_number = 0;
    for (int i = 0; i < test_scale(10, 40, 40); i++) {
        struct task t = {0};
        latent_shape(&t, i, KV_INT8);
        task_fill(&t);
        struct attention_args *a = &t.args;
        const struct kv_layout layout = attention_layout(a);
        const int n_pages = t.pos[a->n_rows - 1] / KV_PAGE_TOKENS + 1;
        for (int page = 0; page < n_pages; page++) {
            uint8_t *at = t.pages + (uint64_t)page * a->page_bytes;
            if (i % 3 == 1) memset(at + layout.scale_k, 0, layout.bytes - layout.scale_k);
            if (rng_below(3)) continue;
            const int n = (int)(layout.bytes - layout.scale_k) / 2;
            memcpy(at + layout.scale_k + rng_below(n) * 2, &odd[rng_below(COUNT(odd))], 2);
        }
        // slots behind the last position may have anything
        const uint16_t any = 0x7e01;
        uint8_t *last = t.pages + t.table[n_pages - 1] * a->page_bytes + layout.scale_k;
        for (int at = 0; at < (int)(layout.bytes - layout.scale_k) / 2; at++)
            if (at % KV_PAGE_TOKENS > t.pos[a->n_rows - 1] % KV_PAGE_TOKENS)
                memcpy(last + 2 * at, &any, 2);
        if (i % 4 == 3) t.q[rng_below((int)a->ldq - 3)] = INFINITY;
        check_odd(&t, i);
        for (size_t j = 0; j < out_bytes(&t) / sizeof(float); j++)
            *(t.want[j] != t.want[j] ? &n_nan : &n_number) += 1;
        task_deinit(&t);
    }
    assert_true(n_nan > 100 && n_number > 100);
}

// As Gemma 4's full layers have them.
CASE(heads_of_512_equal_the_reference) {
    if (TEST_FOR_RACES) skip();
    rng_state = 31;
    for (int i = 0; i < 4 * KV_TYPE_COUNT; i++) {
        struct task t = {.args = {.n_head = 8, .n_head_kv = 2, .dim_k = 512, .dim_v = 512}};
        t.args.type = (enum kv_type)(i % KV_TYPE_COUNT);
        t.args.window = i / KV_TYPE_COUNT % 2 ? 40 : 0;
        t.args.n_rows = i / KV_TYPE_COUNT < 2 ? 1 : 9;
        for (int r = 0; r < t.args.n_rows; r++) t.pos[r] = 290 + r;
        task_fill(&t);
        check_task(&t, i);
        task_deinit(&t);
    }
}

// Contexts around the ends of pages and splits, decode and chunks of rows, with windows and caps.
CASE(the_ends_of_pages_and_splits_do_not_show) {
    if (TEST_FOR_RACES) skip();
    static const int contexts[] = {1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 600};
    static const int windows[] = {0, 1, 5, 32, 100, 256, 297};
    static const int row_counts[] = {1, 2, 3, 8, 13, 17, 40};
    enum { WAYS = COUNT(windows) * COUNT(row_counts) };
    rng_state = 13;
    for (int i = 0; i < COUNT(contexts) * WAYS; i += test_scale(9, 1, 1)) {
        const int context = contexts[i / WAYS], w = i % COUNT(windows);
        const int n = row_counts[i % WAYS / COUNT(windows)];
        if (n > context) continue;
        struct task t = {.args = {.n_head = 4, .n_head_kv = 2, .dim_k = 32, .dim_v = 32}};
        t.args.type = (enum kv_type)(i % KV_TYPE_COUNT);
        t.args.window = windows[w];
        t.args.is_chunked = i % 4 == 1;
        t.args.softcap = w % 2 ? 3.0f : 0.0f;
        t.args.n_rows = n;
        for (int r = 0; r < n; r++) t.pos[r] = context - n + r;
        task_fill(&t);
        check_task(&t, i);
        task_deinit(&t);
    }
}

// A score that is not a number, or infinite, stays where it belongs.
CASE(odd_numbers_spread_as_in_the_reference) {
    if (TEST_FOR_RACES) skip();
    rng_state = 5;
    for (int i = 0; i < N_ODD_TASKS; i++) {
        struct task t = {0};
        task_shape(&t, i, 400);
        task_fill(&t);
        struct attention_args *a = &t.args;
        const float odd[] = {INFINITY, -INFINITY, -0.0f, 1e-42f, 6e4f};
        for (int j = 0; j < 5; j++) t.q[rng_below((int)(a->n_rows * a->ldq))] = odd[j] * 1e-3f;
        check_odd(&t, i);
        task_deinit(&t);
    }
}

// ---------------------------------------------------------------- the stage

enum { MAX_SEQS = 6, MAX_TOKENS = 64, N_TOKEN = 50 };

struct shape {
    int n_head, n_head_kv, dim, window;
};

// A program of one attention op: tokens are embedded as queries, the output is the logits.
struct stage {
    struct plan plan;
    struct shape shape;
    float *embedding, *sinks;
    struct here here;
};

static void stage_plan(struct stage *s) {
    const struct shape *shape = &s->shape;
    const int width = shape->n_head * shape->dim;
    const struct plan_kv_group group = {shape->window ? KV_WINDOW : KV_FULL,
                                        2,
                                        shape->n_head_kv,
                                        shape->dim,
                                        shape->dim,
                                        shape->window,
                                        0,
                                        0,
                                        false};
    s->embedding = floats((int64_t)N_TOKEN * width);
    s->sinks = floats(shape->n_head);
    plan_init(&s->plan);
    plan_add_kv_group(&s->plan, &group);
    const int q = plan_add_buffer(&s->plan, "q", width, ROWS_TOKENS);
    const int a = plan_add_buffer(&s->plan, "a", width, ROWS_TOKENS);
    const int logits = plan_add_buffer(&s->plan, "logits", width, ROWS_LOGITS);
    op_add(&s->plan, OP_EMBED, PLAN_NONE, PLAN_NONE, q,
           weight_add(&s->plan, FORMAT_F32, N_TOKEN, width, s->embedding));
    struct op op = op_of(&s->plan, OP_ATTENTION, q, PLAN_NONE, a);
    op.weight = weight_add(&s->plan, FORMAT_F32, 1, shape->n_head, s->sinks);
    op.kv.layer = 1;
    op.kv.n_head = shape->n_head;
    op.kv.scale = 0.3f;
    plan_add_op(&s->plan, &op);
    op_add(&s->plan, OP_GATHER, a, PLAN_NONE, logits, PLAN_NONE);
    s->plan.n_vocab = width;
    s->plan.logits = logits;
    assert_int_equal(plan_finish(&s->plan, NULL), RN_OK);
}

static void stage_backend(struct stage *s, const char *variant, int threads, enum kv_type type,
                          int n_pages) {
    const struct backend_config config = {.variant = variant,
                                          .sizes = {MAX_TOKENS, MAX_TOKENS, MAX_SEQS},
                                          .kv_type = kv_type_names[type],
                                          .n_pages = {(uint32_t)n_pages}};
    here_create(&s->here, &s->plan, &config, threads);
    struct cpu_backend *b = (struct cpu_backend *)s->here.backend;
    rng_state = 99; // the same pages for every run
    const struct kv_layout layout = kv_layout_of(type, s->shape.dim, s->shape.dim);
    heads_fill(b->kv[0].base, b->page_bytes[0] * (uint64_t)n_pages, type, &layout);
}

static void stage_deinit(struct stage *s) {
    plan_deinit(&s->plan);
    free(s->embedding), free(s->sinks);
}

// Sequences of chosen lengths; each brings some tokens, and pages of its own or shared ones.
struct load {
    int n_seqs, n_pages;
    struct {
        int first_pos, n_tokens;
    } seq[MAX_SEQS];
    bool shared;
};

static int load_pages(const struct load *load, int seq) {
    return (load->seq[seq].first_pos + load->seq[seq].n_tokens - 1) / KV_PAGE_TOKENS + 1;
}

// The batch of a load; table: its pages.
static void load_batch(const struct load *load, uint32_t *table, struct batch_builder *builder) {
    assert_int_equal(batch_builder_init(builder, 1, MAX_TOKENS, MAX_TOKENS, MAX_SEQS, NULL), RN_OK);
    batch_begin(builder, NULL);
    rng_state = 7;
    table_shuffle(table, load->n_pages);
    for (int s = 0; s < load->n_seqs; s++) {
        const int n = load->seq[s].n_tokens;
        int32_t token[MAX_TOKENS];
        for (int i = 0; i < n; i++) token[i] = rng_below(N_TOKEN);
        batch_add(builder, &(struct batch_rows){.page_table = &table,
                                                .first_pos = load->seq[s].first_pos,
                                                .n_tokens = n,
                                                .token = token,
                                                .n_out = n});
        table += load->shared ? 0 : load_pages(load, s);
    }
}

// Every row alone through the reference, on the pages of the backend.
static void check_rows(const struct stage *s, const struct batch *batch, const char *what) {
    const struct cpu_backend *b = (const struct cpu_backend *)s->here.backend;
    const struct shape *shape = &s->shape;
    const int64_t width = (int64_t)shape->n_head * shape->dim;
    float *want = floats(width), *scratch = floats(2 * shape->dim);
    for (int i = 0; i < batch->n_tokens; i++) {
        const struct batch_seq *seq = batch->seq;
        while (i >= seq->first_row + seq->n_tokens) seq++;
        struct attention_args a = {.q = s->embedding + batch->token[i] * width,
                                   .out = want,
                                   .pos = &batch->pos[i],
                                   .n_rows = 1,
                                   .n_head = shape->n_head,
                                   .n_head_kv = shape->n_head_kv,
                                   .dim_k = shape->dim,
                                   .dim_v = shape->dim,
                                   .window = shape->window,
                                   .scale = 0.3f,
                                   .sinks = s->sinks,
                                   .type = b->kv_type,
                                   .pages = b->kv[0].base,
                                   .page_bytes = b->page_bytes[0],
                                   .page_table = seq->page_table[0]};
        for (; a.head_kv < a.n_head_kv; a.head_kv++) {
            const uint64_t layer = a.page_bytes / 2; // the second of two
            a.head_at = layer + layer / (uint64_t)a.n_head_kv * (uint64_t)a.head_kv;
            reference_attention(&a, scratch);
        }
        const float *got = s->here.result.logits[i];
        check(memcmp(got, want, (size_t)width * sizeof(float)) == 0, "%s: row %d at position %d",
              what, i, batch->pos[i]);
    }
    free(want), free(scratch);
}

// The same batch once more, on used scratch, gives the same.
static void check_again(struct stage *s, const struct batch *batch, const char *what) {
    const size_t row_bytes = (size_t)(s->shape.n_head * s->shape.dim) * sizeof(float);
    uint8_t *first = malloc((size_t)batch->n_tokens * row_bytes);
    assert_non_null(first);
    for (int i = 0; i < batch->n_tokens; i++)
        memcpy(first + (size_t)i * row_bytes, s->here.result.logits[i], row_bytes);
    here_run(&s->here, batch);
    for (int i = 0; i < batch->n_tokens; i++)
        check(memcmp(first + (size_t)i * row_bytes, s->here.result.logits[i], row_bytes) == 0,
              "%s: row %d of the second run", what, i);
    free(first);
}

static void tiles_count(const struct stage *s, int *n_cut, int *n_whole) {
    const struct cpu_backend *b = (const struct cpu_backend *)s->here.backend;
    *n_cut = *n_whole = 0;
    for (int i = 0; i < b->n_tile; i++) ++*(b->tile[i].n_ranges > 1 ? n_cut : n_whole);
}

// Runs the load on every instruction set and 1 to 4 threads. want_*: whether several threads must
// see tiles that are cut, and tiles that stay whole.
static void check_load(const struct shape *shape, const struct load *load, bool want_cut,
                       bool want_whole) {
    struct stage s = {.shape = *shape};
    stage_plan(&s);
    struct batch_builder builder;
    const struct batch *batch = &builder.batch;
    uint32_t *table = malloc((size_t)load->n_pages * sizeof *table);
    assert_non_null(table);
    load_batch(load, table, &builder);
    for (int isa = TEST_FOR_RACES; isa < ISA_COUNT; isa++) {
        const struct cpu_ops *ops = ops_at((enum cpu_isa)isa);
        for (int threads = TEST_FOR_RACES ? 4 : 1; ops && threads <= 4; threads += THREADS_STEP) {
            int n_cut, n_whole;
            stage_backend(&s, ops->name, threads, (enum kv_type)((isa + threads) % KV_TYPE_COUNT),
                          load->n_pages);
            here_run(&s.here, batch);
            if (!TEST_FOR_RACES) check_rows(&s, batch, ops->name);
            tiles_count(&s, &n_cut, &n_whole);
            if (threads == 1 || !ops->attention_fold) assert_int_equal(n_cut, 0);
            if (threads == 4 && ops->attention_fold && want_cut) assert_true(n_cut > 0);
            if (threads == 4 && want_whole) assert_true(n_whole > 0);
            check_again(&s, batch, ops->name);
            here_destroy(&s.here);
        }
    }
    free(table);
    batch_builder_deinit(&builder);
    stage_deinit(&s);
}

CASE(a_long_sequence_is_cut_whatever_its_heads) {
    static const struct shape shapes[] = {{4, 1, 32, 0}, {6, 3, 48, 0}, {8, 2, 16, 2000}};
    for (int i = 0; i < 3; i++) {
        const struct load one = {.n_seqs = 1, .n_pages = 110, .seq = {{3456, 1}}};
        check_load(&shapes[i], &one, true, false);
    }
}

CASE(a_long_sequence_among_short_ones_is_cut) {
    static const struct shape shape = {4, 2, 32, 0};
    static const struct load load = {
        .n_seqs = 6,
        .n_pages = 130,
        .seq = {{5, 1}, {200, 3}, {3000, 2}, {0, 30}, {31, 1}, {255, 8}}};
    check_load(&shape, &load, true, true);
}

CASE(tiles_stay_whole_where_parts_find_no_room) {
    static const struct shape shape = {4, 1, 16, 0};
    static const struct load load = {.n_seqs = 1, .n_pages = 66, .seq = {{2064, 40}}};
    check_load(&shape, &load, true, true);
}

CASE(sequences_may_share_pages) {
    static const struct shape shape = {3, 1, 24, 900};
    static const struct load load = {.n_seqs = 3,
                                     .n_pages = 60,
                                     .seq = {{1800, 5}, {1799, 1}, {700, 20}},
                                     .shared = true};
    check_load(&shape, &load, true, false);
}

TEST_PROGRAM(attention) { return cases_run(NULL, NULL); }
