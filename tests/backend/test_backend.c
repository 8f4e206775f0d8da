// The CPU backend through its interface, on a small random plan that has every op. The logits of a
// token depend on its sequence alone, not on chunks, neighbours, threads or instruction set. A run
// allocates nothing, and create fails cleanly.
// label: threads
#define _GNU_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

#include "backend/cpu/cpu.h"
#include "backend_here.h"
#include "base/half.h"
#include "base/topology.h"

// ---------------------------------------------------------------- counting allocations

static _Atomic int n_allocations;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
enum { COUNTS_ALLOCATIONS = 1 };

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

void *malloc(size_t n) {
    n_allocations++;
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    n_allocations++;
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    n_allocations++;
    return __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n) {
    n_allocations++;
    return __libc_memalign(align, n);
}
void free(void *p) {
    n_allocations++;
    __libc_free(p);
}
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    n_allocations++;
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}
int munmap(void *at, size_t n) {
    n_allocations++;
    return (int)syscall(SYS_munmap, at, n);
}
#else
enum { COUNTS_ALLOCATIONS = 0 };
#endif

// ---------------------------------------------------------------- the plan

enum {
    N_EMBD = 64,
    N_HEAD = 4,
    N_HEAD_KV = 2,
    DIM = 16,
    N_FF = 96,
    N_VOCAB = 77,
    N_WIDE = 16384,
    N_LAYER = 3,
    N_TOKENS = 70,
    N_PAGES = 16,
    MAX_WEIGHTS = 64,
};

struct fixture {
    struct plan plan;
    void *data[MAX_WEIGHTS];
    int n_data;
    enum format_id format; // of the matrices
    uint64_t matmul_bytes; // of all matrices that are multiplied
};

static uint64_t rng_state = 3;

static uint32_t rng(void) {
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 32);
}
static float rng_float(void) { return (float)(int32_t)rng() * 0x1p-31f; }

static void fill_weight(enum format_id format, uint8_t *data, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (format == FORMAT_F32) {
            ((float *)data)[i] = rng_float() * 0.3f;
        } else if (format == FORMAT_F16) {
            ((uint16_t *)data)[i] = f32_to_f16(1.0f + rng_float() * 0.5f);
        } else { // Q8_0: an f16 scale and 32 bytes
            uint8_t *block = data + i / 32 * 34;
            const uint16_t scale = f32_to_f16(0.002f + 0.001f * rng_float());
            if (i % 32 == 0) memcpy(block, &scale, 2);
            block[2 + i % 32] = (uint8_t)rng();
        }
    }
}

static int add_weight(struct fixture *f, enum format_id format, int64_t rows, int64_t cols) {
    const uint64_t bytes = format_row_bytes(format, cols) * (uint64_t)rows;
    void *data = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(data);
    assert_true(f->n_data < MAX_WEIGHTS);
    f->data[f->n_data++] = data;
    fill_weight(format, data, rows * cols);
    const struct plan_weight weight = {
        .name = "w", .format = format, .rows = rows, .cols = cols, .data = data, .bytes = bytes};
    return plan_add_weight(&f->plan, &weight);
}

static struct op new_op(const struct fixture *f, enum op_kind kind, int in, int out) {
    return (struct op){.kind = kind,
                       .rows = out == PLAN_NONE ? ROWS_TOKENS : f->plan.buffer[out].rows,
                       .in = {in, PLAN_NONE},
                       .out = out,
                       .weight = PLAN_NONE,
                       .bias = PLAN_NONE};
}

static void add_norm(struct fixture *f, int in, int out, int group) {
    struct op op = new_op(f, OP_NORM, in, out);
    op.weight = add_weight(f, FORMAT_F16, 1, group);
    op.norm.group = group;
    op.norm.eps = 1e-5f;
    plan_add_op(&f->plan, &op);
}

static void add_matmul(struct fixture *f, int in, int out, bool bias, bool add, float scale) {
    struct op op = new_op(f, OP_MATMUL, in, out);
    op.weight = add_weight(f, f->format, f->plan.buffer[out].width, f->plan.buffer[in].width);
    f->matmul_bytes += f->plan.weight[op.weight].bytes;
    if (bias) op.bias = add_weight(f, FORMAT_F32, 1, f->plan.buffer[out].width);
    op.matmul.add = add;
    op.matmul.scale = scale;
    plan_add_op(&f->plan, &op);
}

static void add_rope(struct fixture *f, int buffer, int rope, int n_head) {
    struct op op = new_op(f, OP_ROPE, PLAN_NONE, buffer);
    op.rope.rope = rope;
    op.rope.n_head = n_head;
    op.rope.dim = DIM;
    plan_add_op(&f->plan, &op);
}

static void add_gather(struct fixture *f, int in, int out) {
    const struct op op = new_op(f, OP_GATHER, in, out);
    plan_add_op(&f->plan, &op);
}

static void add_attention(struct fixture *f, int q, int k, int v, int out, int group, int layer) {
    if (k != PLAN_NONE) {
        struct op append = new_op(f, OP_KV_APPEND, k, PLAN_NONE);
        append.in[1] = v;
        append.kv.group = group;
        append.kv.layer = layer;
        plan_add_op(&f->plan, &append);
    }
    if (q == PLAN_NONE) return;
    struct op op = new_op(f, OP_ATTENTION, q, out);
    op.kv.group = group;
    op.kv.layer = layer;
    op.kv.n_head = N_HEAD;
    op.kv.scale = 0.25f;
    op.kv.softcap = group == 1 ? 2.0f : 0.0f;
    plan_add_op(&f->plan, &op);
}

struct buffers {
    int x, h, q, a, gate, up;
};

static struct buffers add_buffers(struct fixture *f, enum row_domain rows) {
    return (struct buffers){
        .x = plan_add_buffer(&f->plan, "x", N_EMBD, rows),
        .h = plan_add_buffer(&f->plan, "h", N_EMBD, rows),
        .q = plan_add_buffer(&f->plan, "q", N_HEAD * DIM, rows),
        .a = plan_add_buffer(&f->plan, "a", N_HEAD * DIM, rows),
        .gate = plan_add_buffer(&f->plan, "gate", N_FF, rows),
        .up = plan_add_buffer(&f->plan, "up", N_FF, rows),
    };
}

static void add_ffn(struct fixture *f, struct buffers t) {
    add_norm(f, t.x, t.h, N_EMBD);
    add_matmul(f, t.h, t.gate, false, false, 1);
    add_matmul(f, t.h, t.up, false, false, 1);
    struct op gate = new_op(f, OP_GATE, t.gate, t.gate);
    gate.in[1] = t.up;
    plan_add_op(&f->plan, &gate);
    add_matmul(f, t.gate, t.x, false, true, 0.5f);
}

// Layers 0 and 2 are in a full group, layer 1 in a windowed one; the last layer gathers, and
// rotates its queries in the domain of the logit rows.
static void add_layers(struct fixture *f, struct buffers tokens, struct buffers last, int rope) {
    const int k = plan_add_buffer(&f->plan, "k", N_HEAD_KV * DIM, ROWS_TOKENS);
    const int v = plan_add_buffer(&f->plan, "v", N_HEAD_KV * DIM, ROWS_TOKENS);
    for (int layer = 0; layer < N_LAYER; layer++) {
        const bool is_last = layer == N_LAYER - 1;
        const struct buffers t = is_last ? last : tokens;
        const int group = layer == 1 ? 1 : 0, group_layer = layer == 2 ? 1 : 0;
        add_norm(f, tokens.x, tokens.h, N_EMBD);
        add_matmul(f, tokens.h, tokens.q, true, false, 1);
        add_matmul(f, tokens.h, k, false, false, 1);
        add_matmul(f, tokens.h, v, false, false, 1);
        add_norm(f, k, k, DIM);
        add_rope(f, k, rope, N_HEAD_KV);
        add_attention(f, PLAN_NONE, k, v, PLAN_NONE, group, group_layer);
        if (is_last) {
            add_gather(f, tokens.x, last.x);
            add_gather(f, tokens.q, last.q);
        }
        add_rope(f, t.q, rope, N_HEAD);
        add_attention(f, t.q, PLAN_NONE, PLAN_NONE, t.a, group, group_layer);
        add_matmul(f, t.a, t.x, false, true, 1);
        add_ffn(f, t);
    }
}

// An empty plan with the two groups.
static void fixture_begin(struct fixture *f, enum format_id format) {
    memset(f, 0, sizeof *f);
    f->format = format;
    plan_init(&f->plan);
    rng_state = 3;
    const struct plan_kv_group full = {KV_FULL, 2, N_HEAD_KV, DIM, DIM, 0, 0};
    const struct plan_kv_group window = {KV_WINDOW, 1, N_HEAD_KV, DIM, DIM, 20, 0};
    plan_add_kv_group(&f->plan, &full);
    plan_add_kv_group(&f->plan, &window);
}

static void fixture_end(struct fixture *f, int logits) {
    f->plan.n_vocab = N_VOCAB;
    f->plan.logits = logits;
    assert_int_equal(plan_finish(&f->plan, NULL), RN_OK);
}

static void add_embed(struct fixture *f, int out) {
    struct op op = new_op(f, OP_EMBED, PLAN_NONE, out);
    op.weight = add_weight(f, f->format, N_VOCAB, N_EMBD);
    op.embed.scale = 1.5f;
    plan_add_op(&f->plan, &op);
}

// Products of inputs so wide that a batch of N_TOKENS is cut into tiles; two of them, of two
// formats, are one stage.
static void fixture_init_wide(struct fixture *f, enum format_id format, enum format_id other) {
    fixture_begin(f, format);
    const int x = plan_add_buffer(&f->plan, "x", N_EMBD, ROWS_TOKENS);
    const int last = plan_add_buffer(&f->plan, "last", N_EMBD, ROWS_OUT);
    const int wide = plan_add_buffer(&f->plan, "wide", N_WIDE, ROWS_OUT);
    const int side = plan_add_buffer(&f->plan, "side", N_VOCAB, ROWS_LOGITS);
    const int logits = plan_add_buffer(&f->plan, "logits", N_VOCAB, ROWS_LOGITS);
    add_embed(f, x);
    add_gather(f, x, last);
    add_matmul(f, last, wide, false, false, 1);
    add_matmul(f, wide, logits, false, false, 1);
    f->format = other;
    add_matmul(f, wide, side, false, false, 1);
    struct op gate = new_op(f, OP_GATE, logits, logits);
    gate.in[1] = side;
    plan_add_op(&f->plan, &gate);
    fixture_end(f, logits);
}

// A product of a row, which a norm then rewrites, and the logits of the result; `before`: whether
// there is that first product.
static void fixture_init_rewritten(struct fixture *f, bool before) {
    fixture_begin(f, FORMAT_Q8_0);
    const int x = plan_add_buffer(&f->plan, "x", N_EMBD, ROWS_TOKENS);
    const int last = plan_add_buffer(&f->plan, "last", N_EMBD, ROWS_OUT);
    const int side = plan_add_buffer(&f->plan, "side", N_FF, ROWS_OUT);
    const int logits = plan_add_buffer(&f->plan, "logits", N_VOCAB, ROWS_LOGITS);
    add_embed(f, x);
    add_gather(f, x, last);
    if (before) add_matmul(f, last, side, false, false, 1);
    rng_state = 5; // the same weights
    add_norm(f, last, last, N_EMBD);
    add_matmul(f, last, logits, false, false, 1);
    fixture_end(f, logits);
}

// Logits of some out rows; `before`: after another product of all of them, which leaves its input
// quantized.
static void fixture_init_some(struct fixture *f, bool before) {
    fixture_begin(f, FORMAT_Q8_0);
    const int x = plan_add_buffer(&f->plan, "x", N_EMBD, ROWS_TOKENS);
    const int last = plan_add_buffer(&f->plan, "last", N_EMBD, ROWS_OUT);
    const int side = plan_add_buffer(&f->plan, "side", N_FF, ROWS_OUT);
    const int logits = plan_add_buffer(&f->plan, "logits", N_VOCAB, ROWS_LOGITS);
    add_embed(f, x);
    add_gather(f, x, last);
    if (before) add_matmul(f, last, side, false, false, 1);
    rng_state = 5; // the same weights
    add_matmul(f, last, logits, false, false, 1);
    fixture_end(f, logits);
}

static void fixture_init(struct fixture *f, enum format_id format) {
    fixture_begin(f, format);
    const struct buffers tokens = add_buffers(f, ROWS_TOKENS), last = add_buffers(f, ROWS_OUT);
    const int logits = plan_add_buffer(&f->plan, "logits", N_VOCAB, ROWS_LOGITS);
    float inv_freq[DIM / 2];
    for (int i = 0; i < DIM / 2; i++) inv_freq[i] = 1.0f / (float)(1 << i);
    const struct plan_rope rope = {ROPE_HALVES, DIM, inv_freq, 1};
    add_embed(f, tokens.x);
    add_layers(f, tokens, last, plan_add_rope(&f->plan, &rope));
    add_norm(f, last.x, last.h, N_EMBD);
    add_matmul(f, last.h, logits, false, false, 1.25f);
    fixture_end(f, logits);
}

static void fixture_deinit(struct fixture *f) {
    plan_deinit(&f->plan);
    for (int i = 0; i < f->n_data; i++) free(f->data[i]);
}

// ---------------------------------------------------------------- running it

static struct backend_config new_config(const char *variant, const char *kv_type) {
    return (struct backend_config){.variant = variant,
                                   .kv_type = kv_type,
                                   .sizes = {2 * N_TOKENS, 2 * N_TOKENS, 2},
                                   .n_pages = {N_PAGES, N_PAGES}};
}

// A sequence as the engine would keep it.
struct sequence {
    int32_t token[N_TOKENS];
    uint32_t pages[2][N_TOKENS / KV_PAGE_TOKENS + 1];
    int n_done;
    float *logits; // [N_TOKENS, N_VOCAB]
};

static void page_clear(struct here *here, int group, uint32_t page) {
    const struct batch_page clear = {group, page, BATCH_ZERO};
    const struct batch batch = {.n_pages = 1, .page = &clear};
    here_run(here, &batch);
}

static void sequence_init(struct sequence *s, struct here *here, int index, float *logits) {
    for (int i = 0; i < N_TOKENS; i++)
        s->token[i] =
            (int32_t)(((unsigned)(i + 1) * 2654435761u * (unsigned)(index + 1) >> 7) % N_VOCAB);
    for (int g = 0; g < 2; g++) {
        for (int i = 0; i < N_TOKENS / KV_PAGE_TOKENS + 1; i++) {
            s->pages[g][i] = (uint32_t)(N_PAGES - 1 - 2 * i - index); // neither ordered nor dense
            page_clear(here, g, s->pages[g][i]);
        }
    }
    s->n_done = 0;
    s->logits = logits;
}

struct rows {
    int32_t token[2 * N_TOKENS], pos[2 * N_TOKENS], out_row[2 * N_TOKENS];
    struct batch_seq seq[2];
    struct batch batch;
};

// Adds the next n tokens of a sequence to the batch, with logits for all of them.
static void rows_add(struct rows *r, struct sequence *s, int n) {
    struct batch *batch = &r->batch;
    batch->token = r->token;
    batch->pos = r->pos;
    batch->out_row = r->out_row;
    batch->seq = r->seq;
    struct batch_seq *seq = &r->seq[batch->n_seqs++];
    *seq = (struct batch_seq){.first_row = batch->n_tokens,
                              .n_tokens = n,
                              .first_pos = s->n_done,
                              .first_out = batch->n_out,
                              .n_out = n,
                              .page_table = {s->pages[0], s->pages[1]}};
    for (int i = 0; i < n; i++) {
        r->out_row[batch->n_out++] = batch->n_tokens;
        r->token[batch->n_tokens] = s->token[s->n_done + i];
        r->pos[batch->n_tokens++] = s->n_done + i;
    }
    batch->n_logits = batch->n_out;
}

static void rows_run(struct rows *r, struct here *here, struct sequence *const *s) {
    here_run(here, &r->batch);
    for (int i = 0; i < r->batch.n_seqs; i++) {
        for (int j = 0; j < r->seq[i].n_out; j++)
            memcpy(s[i]->logits + (s[i]->n_done + j) * N_VOCAB,
                   here->result.logits[r->seq[i].first_out + j], N_VOCAB * 4);
        s[i]->n_done += r->seq[i].n_tokens;
    }
}

// All tokens of sequence `index` in chunks; the logits of each into out.
static void run_alone(const struct plan *plan, const struct backend_config *config, int threads,
                      int index, int chunk, float *out) {
    struct here here;
    here_create(&here, plan, config, threads);
    struct sequence s, *list[1] = {&s};
    sequence_init(&s, &here, index, out);
    while (s.n_done < N_TOKENS) {
        struct rows r = {0};
        const int rest = N_TOKENS - s.n_done;
        rows_add(&r, &s, rest < chunk ? rest : chunk);
        rows_run(&r, &here, list);
    }
    here_destroy(&here);
}

static float *new_logits(void) {
    float *logits = calloc(N_TOKENS * N_VOCAB, sizeof *logits);
    assert_non_null(logits);
    return logits;
}
enum { LOGITS_BYTES = N_TOKENS * N_VOCAB * 4 };

static const enum format_id formats[] = {FORMAT_F32, FORMAT_Q8_0};

static void logits_do_not_depend_on_chunks_threads_or_isa(void **state) {
    (void)state;
    static const int chunks[] = {N_TOKENS, 1, 7, 16};
    float *want = new_logits(), *got = new_logits();
    for (int i = 0; i < 2 * KV_TYPE_COUNT; i++) {
        struct fixture f;
        fixture_init(&f, formats[i % 2]);
        struct backend_config config = new_config("scalar", kv_type_names[i / 2]);
        run_alone(&f.plan, &config, 1, 0, N_TOKENS, want);
        for (int j = 0; j < N_TOKENS * N_VOCAB; j++) assert_true(want[j] - want[j] == 0); // finite
        assert_memory_not_equal(want, want + N_VOCAB, N_VOCAB * 4);
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            const struct cpu_ops *ops = ops_at((enum cpu_isa)isa);
            if (!ops) continue;
            for (int threads = 1; threads <= 2; threads++) {
                for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
                    config = new_config(ops->name, kv_type_names[i / 2]);
                    memset(got, 0, LOGITS_BYTES);
                    run_alone(&f.plan, &config, threads, 0, chunks[c], got);
                    assert_memory_equal(got, want, LOGITS_BYTES);
                }
            }
        }
        fixture_deinit(&f);
    }
    free(want), free(got);
}

static void logits_do_not_depend_on_the_tiles_of_wide_products(void **state) {
    (void)state;
    float *want = new_logits(), *got = new_logits();
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        fixture_init_wide(&f, formats[i % 2], formats[i / 2]);
        const struct backend_config config = new_config(NULL, "f16");
        run_alone(&f.plan, &config, 2, 0, N_TOKENS, want);
        run_alone(&f.plan, &config, 2, 0, 1, got);
        assert_memory_equal(got, want, LOGITS_BYTES);
        fixture_deinit(&f);
    }
    free(want), free(got);
}

static void a_product_reads_what_its_input_holds_now(void **state) {
    (void)state;
    float *want = new_logits(), *got = new_logits();
    for (int before = 0; before < 2; before++) {
        struct fixture f;
        fixture_init_rewritten(&f, before);
        const struct backend_config config = new_config(NULL, "f16");
        run_alone(&f.plan, &config, 2, 0, N_TOKENS, before ? got : want);
        fixture_deinit(&f);
    }
    assert_memory_equal(got, want, LOGITS_BYTES);
    free(want), free(got);
}

static void a_product_of_some_rows_follows_one_of_all(void **state) {
    (void)state;
    enum { N_OUT = 43, N_LOGITS = 21 };
    float *want = new_logits(), *got = new_logits();
    for (int before = 0; before < 2; before++) {
        struct fixture f;
        fixture_init_some(&f, before);
        const struct backend_config config = new_config(NULL, "f16");
        struct here here;
        here_create(&here, &f.plan, &config, 2);
        struct sequence s;
        sequence_init(&s, &here, 0, NULL);
        struct rows r = {0};
        rows_add(&r, &s, N_TOKENS);
        r.batch.n_out = r.seq[0].n_out = N_OUT;
        r.batch.n_logits = N_LOGITS;
        here_run(&here, &r.batch);
        for (int i = 0; i < N_LOGITS; i++)
            memcpy((before ? got : want) + i * N_VOCAB, here.result.logits[i], N_VOCAB * 4);
        here_destroy(&here);
        fixture_deinit(&f);
    }
    assert_memory_equal(got, want, LOGITS_BYTES);
    free(want), free(got);
}

// Two sequences share batches, each in chunks of its own size.
static void logits_do_not_depend_on_neighbours(void **state) {
    (void)state;
    float *want[2] = {new_logits(), new_logits()}, *got[2] = {new_logits(), new_logits()};
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        fixture_init(&f, formats[i]);
        const struct backend_config config = new_config(NULL, "f16");
        for (int j = 0; j < 2; j++) run_alone(&f.plan, &config, 2, j, N_TOKENS, want[j]);
        assert_memory_not_equal(want[0], want[1], LOGITS_BYTES);
        struct here here;
        here_create(&here, &f.plan, &config, 2);
        struct sequence s[2], *list[2] = {&s[0], &s[1]};
        for (int j = 0; j < 2; j++) sequence_init(&s[j], &here, j, got[j]);
        while (s[0].n_done < N_TOKENS || s[1].n_done < N_TOKENS) {
            static const int chunks[2] = {5, 9};
            struct rows r = {0};
            for (int j = 0; j < 2; j++) {
                const int rest = N_TOKENS - s[j].n_done;
                rows_add(&r, &s[j], rest < chunks[j] ? rest : chunks[j]); // 0 at the end
            }
            rows_run(&r, &here, list);
        }
        for (int j = 0; j < 2; j++) assert_memory_equal(got[j], want[j], LOGITS_BYTES);
        here_destroy(&here);
        fixture_deinit(&f);
    }
    for (int j = 0; j < 2; j++) free(want[j]), free(got[j]);
}

// Only some rows want logits: they get the bits that they have when all rows want them.
static void logits_do_not_depend_on_which_rows_want_them(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, FORMAT_Q8_0);
    const struct backend_config config = new_config(NULL, "f16");
    float *want = new_logits();
    run_alone(&f.plan, &config, 2, 0, N_TOKENS, want);
    struct here here;
    here_create(&here, &f.plan, &config, 2);
    struct sequence s;
    sequence_init(&s, &here, 0, want);
    struct rows r = {0};
    rows_add(&r, &s, N_TOKENS);
    static const int32_t some[] = {0, 3, 31, 32, 50, N_TOKENS - 1};
    r.batch.n_logits = r.batch.n_out = r.seq[0].n_out = 6;
    memcpy(r.out_row, some, sizeof some);
    here_run(&here, &r.batch);
    for (int i = 0; i < 6; i++)
        assert_memory_equal(here.result.logits[i], want + some[i] * N_VOCAB, N_VOCAB * 4);
    r.batch.n_logits = r.batch.n_out = r.seq[0].n_out =
        0; // none at all: the KV cache is all that changes
    here_run(&here, &r.batch);
    r.batch = (struct batch){0}; // nothing to do
    here_run(&here, &r.batch);
    here_destroy(&here);
    fixture_deinit(&f);
    free(want);
}

static void a_run_allocates_nothing(void **state) {
    (void)state;
    if (!COUNTS_ALLOCATIONS) skip();
    struct fixture f;
    fixture_init(&f, FORMAT_Q8_0);
    float *logits = new_logits();
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct cpu_ops *ops = ops_at((enum cpu_isa)isa);
        if (!ops) continue;
        const struct backend_config config = new_config(ops->name, "f16");
        struct here here;
        const int before_create = n_allocations;
        here_create(&here, &f.plan, &config, 2);
        assert_true(n_allocations > before_create); // the counters work
        struct sequence s, *list[1] = {&s};
        sequence_init(&s, &here, 0, logits);
        static const int chunks[] = {40, 1, 7, 22};
        const int before = n_allocations;
        for (int i = 0; i < 4; i++) {
            struct rows r = {0};
            rows_add(&r, &s, chunks[i]);
            rows_run(&r, &here, list);
        }
        assert_int_equal(n_allocations, before);
        here_destroy(&here);
    }
    free(logits);
    fixture_deinit(&f);
}

struct progress {
    uint64_t done, total;
    int calls;
};

static void on_progress(void *ctx, uint64_t done, uint64_t total) {
    struct progress *p = ctx;
    assert_true(done >= p->done && done <= total);
    *p = (struct progress){done, total, p->calls + 1};
}

static void progress_grows_to_the_bytes_of_the_packed_weights(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, FORMAT_Q8_0);
    struct backend_config config = new_config(NULL, "f16");
    struct progress progress = {0};
    config.progress = on_progress;
    config.progress_ctx = &progress;
    struct here here;
    here_create(&here, &f.plan, &config, 1);
    const bool packs = ops_at(ISA_AVX2) || ops_at(ISA_NEON);
    assert_true(progress.done == (packs ? f.matmul_bytes : 0));
    assert_true(progress.total == progress.done);
    if (packs) assert_true(progress.calls >= 24);
    here_destroy(&here);
    fixture_deinit(&f);
}

static void check_failure(const struct plan *plan, struct backend_config config, rn_status want,
                          const char *text) {
    struct here here;
    rn_error err = {0};
    assert_int_equal(here_try(&here, plan, &config, 1, &err), want);
    assert_null(here.backend);
    assert_int_equal(err.status, want);
    assert_non_null(strstr(err.message, text));
}

static void create_fails_with_a_status_that_names_the_value(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, FORMAT_Q8_0);
    const struct backend_config good = new_config(NULL, "f16");
    struct backend_config config = good;
    config.variant = "mmx";
    check_failure(&f.plan, config, RN_ERR_ARG, "mmx");
    config = good, config.kv_type = "f15";
    check_failure(&f.plan, config, RN_ERR_ARG, "f15");
    config = good, config.sizes.max_tokens = 0;
    check_failure(&f.plan, config, RN_ERR_ARG, "max_tokens: 0");
    config = good, config.sizes.max_logits = -1;
    check_failure(&f.plan, config, RN_ERR_ARG, "max_logits: -1");
    config = good, config.sizes.max_seqs = 0;
    check_failure(&f.plan, config, RN_ERR_ARG, "max_seqs: 0");
    f.plan.group[1].n_layer = 1 << 30; // 2^77 bytes of pages, then 2^60
    config = good, config.n_pages[1] = UINT32_MAX;
    check_failure(&f.plan, config, RN_ERR_NOMEM, "KV pages");
    config.n_pages[1] = 1 << 17;
    check_failure(&f.plan, config, RN_ERR_NOMEM, "bytes");
    f.plan.group[1].n_layer = 1;
    config = good, config.sizes.max_tokens = INT32_MAX; // and a buffer of 2^63 bytes
    f.plan.buffer[0].width = 1 << 30;
    check_failure(&f.plan, config, RN_ERR_NOMEM, "bytes");
    fixture_deinit(&f);
}

static void a_backend_is_found_by_its_name_or_as_the_best_one(void **state) {
    (void)state;
    const struct backend_class *cls = NULL, *best = NULL;
    struct backend_device device = {.depth = 0};
    rn_error err = {0};
    assert_int_equal(backend_find("cpu", &cls, &device, NULL), RN_OK);
    assert_string_equal(cls->name, "cpu");
    assert_true(device.on_host && device.pages == PAGES_LAZY && device.depth == 1);
    assert_true(device.memory_total >= device.memory_free && device.name[0]);
    assert_int_equal(backend_find(NULL, &best, &device, NULL), RN_OK);
    assert_non_null(best->name);
    assert_int_equal(backend_find("abacus", &cls, &device, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "'abacus'"));
    assert_non_null(strstr(err.message, "cpu"));
}

static void a_kv_type_is_the_classs_own_string(void **state) {
    (void)state;
    static const char *const names[] = {"wide", "narrow", NULL};
    const struct backend_class made_up = {.kv_types = names, .kv_default = names[1]};
    const struct backend_class *cpu;
    struct backend_device device;
    const char *type = NULL;
    rn_error err = {0};
    assert_int_equal(backend_find("cpu", &cpu, &device, NULL), RN_OK);
    for (const char *const *name = cpu->kv_types; *name; name++) {
        char copy[16] = "";
        strncpy(copy, *name, sizeof copy - 1);
        assert_int_equal(backend_kv_type(cpu, copy, &type, NULL), RN_OK);
        assert_ptr_equal(type, *name);
    }
    assert_int_equal(backend_kv_type(cpu, NULL, &type, NULL), RN_OK);
    assert_string_equal(type, "f16");
    assert_int_equal(backend_kv_type(&made_up, NULL, &type, NULL), RN_OK);
    assert_ptr_equal(type, names[1]);
    assert_int_equal(backend_kv_type(&made_up, "f16", &type, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "'f16'"));
    assert_non_null(strstr(err.message, "wide, narrow"));
    assert_int_equal(backend_kv_type(&made_up, "narro", &type, &err), RN_ERR_ARG);
}

static void clearing_a_page_makes_a_sequence_start_anew(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, FORMAT_F32);
    const struct backend_config config = new_config(NULL, "f32");
    float *want = new_logits(), *got = new_logits();
    run_alone(&f.plan, &config, 1, 0, N_TOKENS, want);
    struct here here;
    here_create(&here, &f.plan, &config, 1);
    for (int round = 0; round < 2; round++) { // the second time over the pages of the first
        struct sequence s, *list[1] = {&s};
        sequence_init(&s, &here, 0, got);
        struct rows r = {0};
        rows_add(&r, &s, N_TOKENS);
        rows_run(&r, &here, list);
        assert_memory_equal(got, want, LOGITS_BYTES);
    }
    here_destroy(&here);
    fixture_deinit(&f);
    free(want), free(got);
}

static void bandwidth_is_measured_for_small_and_large_working_sets(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, FORMAT_F32);
    const struct backend_config config = new_config(NULL, "f16");
    struct here here;
    here_create(&here, &f.plan, &config, 0);
    const struct backend_class *cls = here.backend->cls;
    const double small = cls->bandwidth(here.backend, 1 << 20, 20);
    // A budget too short for the page faults of a large buffer is passed, not given up on.
    const double large = cls->bandwidth(here.backend, UINT64_MAX, 1);
    assert_true(small > 1e7 && small < 1e14);
    assert_true(large > 1e7 && large < 1e14);
    assert_true(cls->bandwidth(here.backend, 1 << 20, 0) == 0);
    assert_true(pool_size(here.pool) >= 1);
    here_destroy(&here);
    backend_destroy(NULL);
    fixture_deinit(&f);
}

static void results_have_the_time_of_each_stage_while_the_profile_is_on(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, FORMAT_Q8_0);
    const struct backend_config config = new_config(NULL, "f16");
    struct here here;
    here_create(&here, &f.plan, &config, 2);
    float *logits = new_logits();
    struct sequence s, *list[1] = {&s};
    sequence_init(&s, &here, 0, logits);
    assert_int_equal(here.result.n_stage, 0);
    assert_null(here.result.stage);
    for (int i = 0; i < 4; i++) { // on, on, off, on again
        struct rows r = {0};
        if (i != 1) here.backend->cls->profile(here.backend, i != 2);
        rows_add(&r, &s, 3);
        rows_run(&r, &here, list);
        uint64_t total = 0;
        for (int n = 0; n < here.result.n_stage; n++) {
            total += here.result.stage[n].ns;
            assert_true(strlen(here.result.stage[n].name) > 0);
        }
        assert_true((here.result.n_stage > 0) == (i != 2));
        if (i == 2) continue;
        assert_true(here.result.n_stage > N_LAYER && here.result.n_stage <= f.plan.n_op);
        assert_true(total > 0 && total <= here.result.run_ns); // of this step alone
    }
    assert_string_equal(here.result.stage[2].name, "matmul w+w+w"); // after embedding and norm
    here_destroy(&here);
    fixture_deinit(&f);
    free(logits);
}

// A clock that advances by 5 whenever it is read.
static uint64_t count_now(void *ctx) { return *(uint64_t *)ctx += 5; }

static void a_step_is_timed_by_the_clock_that_was_lent(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, FORMAT_F32);
    struct backend_config config = new_config(NULL, "f16");
    uint64_t count = 0;
    config.now = count_now;
    config.now_ctx = &count;
    struct here here;
    here_create(&here, &f.plan, &config, 1);
    const struct batch nothing = {0};
    here_run(&here, &nothing);
    assert_true(here.result.run_ns > 0 && here.result.run_ns % 5 == 0);
    assert_int_equal(here.result.run_ns + here.result.choose_ns, count - 5);
    here_destroy(&here);
    fixture_deinit(&f);
}

static void the_machine_is_described(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, FORMAT_F32);
    struct topology *topology;
    assert_int_equal(topology_create(NULL, &topology, NULL), RN_OK);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct cpu_ops *ops = ops_at((enum cpu_isa)isa);
        if (!ops) continue;
        const struct backend_config config = new_config(ops->name, isa % 2 ? "int8" : "f32");
        struct here here;
        struct backend_info info;
        here_create(&here, &f.plan, &config, 1);
        here.backend->cls->describe(here.backend, &info);
        assert_string_equal(info.variant, ops->name);
        assert_string_equal(info.kv_type, config.kv_type);
        assert_non_null(info.slow_formats);
        assert_int_equal(pool_size(here.pool), 1);
        assert_int_equal(info.cache_bytes, topology->cache_bytes);
        assert_int_equal(pool_caches(here.pool).one, topology->cache_bytes);
        assert_int_equal(pool_caches(here.pool).all, topology->cache_bytes_all);
        assert_true(here.backend->cls->peak_macs(here.backend, BACKEND_INTEGERS) > 1e6);
        assert_true(here.backend->cls->peak_macs(here.backend, BACKEND_FLOATS) > 1e6);
        here_destroy(&here);
    }
    topology_destroy(topology);
    fixture_deinit(&f);
}

// Weights and buffers as the plan has them; pages as long as the layout says, which the pages of a
// backend are.
static void what_a_plan_needs_is_its_weights_buffers_and_pages(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, FORMAT_Q8_0);
    const struct backend_class *cls;
    struct backend_device device;
    assert_int_equal(backend_find("cpu", &cls, &device, NULL), RN_OK);
    uint64_t weights = 0, tokens = 0, logits = 0;
    for (int i = 0; i < f.plan.n_weight; i++) weights += f.plan.weight[i].bytes;
    for (int i = 0; i < f.plan.n_buffer; i++)
        *(f.plan.buffer[i].rows == ROWS_LOGITS ? &logits : &tokens) +=
            (uint64_t)f.plan.buffer[i].width * 4;
    for (const char *const *type = cls->kv_types; *type; type++) {
        const struct backend_sizes sizes = {70, 30, 2};
        struct backend_need need;
        assert_int_equal(cls->need(&f.plan, &sizes, *type, &need, NULL), RN_OK);
        assert_int_equal(need.weights, weights);
        assert_int_equal(need.step, 70 * tokens + 30 * logits);
        const struct backend_config config = new_config(NULL, *type);
        struct here here;
        here_create(&here, &f.plan, &config, 1);
        for (int g = 0; g < f.plan.n_group; g++)
            assert_int_equal(need.kv.page[g], ((struct cpu_backend *)here.backend)->page_bytes[g]);
        here_destroy(&here);
    }
    fixture_deinit(&f);
}

TEST_PROGRAM(backend) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_do_not_depend_on_chunks_threads_or_isa),
        cmocka_unit_test(logits_do_not_depend_on_the_tiles_of_wide_products),
        cmocka_unit_test(a_product_reads_what_its_input_holds_now),
        cmocka_unit_test(a_product_of_some_rows_follows_one_of_all),
        cmocka_unit_test(logits_do_not_depend_on_neighbours),
        cmocka_unit_test(logits_do_not_depend_on_which_rows_want_them),
        cmocka_unit_test(a_run_allocates_nothing),
        cmocka_unit_test(progress_grows_to_the_bytes_of_the_packed_weights),
        cmocka_unit_test(create_fails_with_a_status_that_names_the_value),
        cmocka_unit_test(a_backend_is_found_by_its_name_or_as_the_best_one),
        cmocka_unit_test(a_kv_type_is_the_classs_own_string),
        cmocka_unit_test(clearing_a_page_makes_a_sequence_start_anew),
        cmocka_unit_test(bandwidth_is_measured_for_small_and_large_working_sets),
        cmocka_unit_test(results_have_the_time_of_each_stage_while_the_profile_is_on),
        cmocka_unit_test(a_step_is_timed_by_the_clock_that_was_lent),
        cmocka_unit_test(the_machine_is_described),
        cmocka_unit_test(what_a_plan_needs_is_its_weights_buffers_and_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
