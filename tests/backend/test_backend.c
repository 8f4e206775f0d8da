// The CPU backend through its interface, on a small random plan that has every op. The logits of a
// token depend on its sequence alone, not on chunks, neighbours, threads or instruction set. A run
// allocates nothing, and create fails cleanly.
// label: threads
#define _GNU_SOURCE 1
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "backend/table.h"
#include "backend_here.h"
#include "base/topology.h"
#include "parts.h"

// ---------------------------------------------------------------- counting allocations

static _Atomic int n_allocations;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
enum { COUNTS_ALLOCATIONS = 1 };

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

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
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    n_allocations++;
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
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
    N_BLOCKS = N_TOKENS / KV_PAGE_TOKENS + 1,
    N_GROUPS = 2,
    N_PAGES = 16,
};

struct fixture {
    struct plan plan;
    enum format_id format; // of the matrices
    uint64_t random;
};

static int draw(struct fixture *f, enum format_id format, int64_t rows, int64_t cols) {
    return weight_draw(&f->plan, format, rows, cols, &f->random);
}

static void add_norm(struct fixture *f, int in, int out, int group) {
    struct op op = op_of(&f->plan, OP_NORM, in, PLAN_NONE, out);
    op.weight = draw(f, FORMAT_F16, 1, group);
    op.norm.group = group;
    op.norm.eps = 1e-5f;
    plan_add_op(&f->plan, &op);
}

static void add_matmul(struct fixture *f, int in, int out, bool bias, bool add, float scale) {
    struct op op = op_of(&f->plan, OP_MATMUL, in, PLAN_NONE, out);
    op.weight = draw(f, f->format, f->plan.buffer[out].width, f->plan.buffer[in].width);
    if (bias) op.bias = draw(f, FORMAT_F32, 1, f->plan.buffer[out].width);
    op.matmul.add = add;
    op.matmul.scale = scale;
    plan_add_op(&f->plan, &op);
}

static void add_rope(struct fixture *f, int buffer, int rope, int n_head) {
    struct op op = op_of(&f->plan, OP_ROPE, PLAN_NONE, PLAN_NONE, buffer);
    op.rope.rope = rope;
    op.rope.n_head = n_head;
    op.rope.dim = DIM;
    plan_add_op(&f->plan, &op);
}

static void add_gather(struct fixture *f, int in, int out) {
    op_add(&f->plan, OP_GATHER, in, PLAN_NONE, out, PLAN_NONE);
}

static void add_kv(struct fixture *f, enum op_kind kind, int in0, int in1, int out, int layer) {
    struct op op = op_of(&f->plan, kind, in0, in1, out);
    op.kv.group = layer == 1;
    op.kv.layer = layer == 2;
    op.kv.n_head = N_HEAD;
    op.kv.scale = 0.25f;
    op.kv.softcap = layer == 1 ? 2.0f : 0.0f;
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
    op_add(&f->plan, OP_GATE, t.gate, t.up, t.gate, PLAN_NONE);
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
        add_norm(f, tokens.x, tokens.h, N_EMBD);
        add_matmul(f, tokens.h, tokens.q, true, false, 1);
        add_matmul(f, tokens.h, k, false, false, 1);
        add_matmul(f, tokens.h, v, false, false, 1);
        add_norm(f, k, k, DIM);
        add_rope(f, k, rope, N_HEAD_KV);
        add_kv(f, OP_KV_APPEND, k, v, PLAN_NONE, layer);
        if (is_last) {
            add_gather(f, tokens.x, last.x);
            add_gather(f, tokens.q, last.q);
        }
        add_rope(f, t.q, rope, N_HEAD);
        add_kv(f, OP_ATTENTION, t.q, PLAN_NONE, t.a, layer);
        add_matmul(f, t.a, t.x, false, true, 1);
        add_ffn(f, t);
    }
}

// An empty plan with the two groups.
static void fixture_begin(struct fixture *f, enum format_id format) {
    *f = (struct fixture){.format = format, .random = 3};
    plan_init(&f->plan);
    const struct plan_kv_group full = {KV_FULL, 2, N_HEAD_KV, DIM, DIM, 0, 0, 0, false};
    const struct plan_kv_group window = {KV_WINDOW, 1, N_HEAD_KV, DIM, DIM, 20, 0, 0, false};
    plan_add_kv_group(&f->plan, &full);
    plan_add_kv_group(&f->plan, &window);
}

static void fixture_end(struct fixture *f, int logits) {
    f->plan.n_vocab = N_VOCAB;
    f->plan.logits = logits;
    assert_int_equal(plan_finish(&f->plan, NULL), RN_OK);
}

static void add_embed(struct fixture *f, int out) {
    struct op op = op_of(&f->plan, OP_EMBED, PLAN_NONE, PLAN_NONE, out);
    op.weight = draw(f, f->format, N_VOCAB, N_EMBD);
    op.embed.scale = 1.5f;
    plan_add_op(&f->plan, &op);
}

// Embedded tokens, of which the out rows are gathered: their buffer.
static int add_last(struct fixture *f) {
    const int x = plan_add_buffer(&f->plan, "x", N_EMBD, ROWS_TOKENS);
    const int last = plan_add_buffer(&f->plan, "last", N_EMBD, ROWS_OUT);
    add_embed(f, x);
    add_gather(f, x, last);
    return last;
}

// Products of inputs so wide that a batch of N_TOKENS is cut into tiles; two of them, of two
// formats, are one stage.
static void fixture_init_wide(struct fixture *f, enum format_id format, enum format_id other) {
    fixture_begin(f, format);
    const int last = add_last(f);
    const int wide = plan_add_buffer(&f->plan, "wide", N_WIDE, ROWS_OUT);
    const int side = plan_add_buffer(&f->plan, "side", N_VOCAB, ROWS_LOGITS);
    const int logits = plan_add_buffer(&f->plan, "logits", N_VOCAB, ROWS_LOGITS);
    add_matmul(f, last, wide, false, false, 1);
    add_matmul(f, wide, logits, false, false, 1);
    f->format = other;
    add_matmul(f, wide, side, false, false, 1);
    op_add(&f->plan, OP_GATE, logits, side, logits, PLAN_NONE);
    fixture_end(f, logits);
}

// Logits of out rows. `before`: after another product of all of them, which leaves its input
// quantized. `norm`: a norm rewrites the rows, and a product of all of them comes in between.
static void fixture_init_head(struct fixture *f, bool before, bool norm) {
    fixture_begin(f, FORMAT_Q8_0);
    const int last = add_last(f);
    const int side = plan_add_buffer(&f->plan, "side", N_FF, ROWS_OUT);
    const int logits = plan_add_buffer(&f->plan, "logits", N_VOCAB, ROWS_LOGITS);
    if (before) add_matmul(f, last, side, false, false, 1);
    f->random = 5; // the same weights
    if (norm) add_norm(f, last, last, N_EMBD);
    const int mid = norm ? plan_add_buffer(&f->plan, "mid", N_EMBD, ROWS_OUT) : last;
    if (norm) add_matmul(f, last, mid, false, false, 1);
    add_matmul(f, mid, logits, false, false, 1);
    fixture_end(f, logits);
}

static void fixture_init(struct fixture *f, enum format_id format) {
    fixture_begin(f, format);
    const struct buffers tokens = add_buffers(f, ROWS_TOKENS), last = add_buffers(f, ROWS_OUT);
    const int logits = plan_add_buffer(&f->plan, "logits", N_VOCAB, ROWS_LOGITS);
    float inv_freq[DIM / 2];
    for (int i = 0; i < DIM / 2; i++) inv_freq[i] = 1.0f / (float)(1 << i);
    const struct plan_rope rope = {ROPE_HALVES, DIM, inv_freq, 1, 0};
    add_embed(f, tokens.x);
    add_layers(f, tokens, last, plan_add_rope(&f->plan, &rope));
    add_norm(f, last.x, last.h, N_EMBD);
    add_matmul(f, last.h, logits, false, false, 1.25f);
    fixture_end(f, logits);
}

// ---------------------------------------------------------------- running it

static struct backend_config new_config(const char *variant, const char *kv_type) {
    return (struct backend_config){.variant = variant,
                                   .kv_type = kv_type,
                                   .sizes = {2 * N_TOKENS, 2 * N_TOKENS, 2},
                                   .n_pages = {N_PAGES, N_PAGES}};
}

struct logits {
    float row[N_TOKENS][N_VOCAB];
};

// A sequence as the engine would keep it.
struct sequence {
    int32_t token[N_TOKENS];
    uint32_t page[N_GROUPS][N_BLOCKS], *table[N_GROUPS];
    int n_done;
    struct logits *logits;
};

// A backend, up to two sequences, and a batch of their next tokens.
struct world {
    struct here here;
    struct batch_builder builder;
    struct sequence seq[2];
    struct batch_page clear[2 * N_GROUPS * N_BLOCKS];
};

static void world_init(struct world *w, const struct plan *plan,
                       const struct backend_config *config, int threads) {
    here_create(&w->here, plan, config, threads);
    assert_int_equal(batch_builder_init(&w->builder, N_GROUPS, 2 * N_TOKENS, 2 * N_TOKENS, 2, NULL),
                     RN_OK);
    batch_begin(&w->builder, NULL);
}

static void world_deinit(struct world *w) {
    batch_builder_deinit(&w->builder);
    here_destroy(&w->here);
}

// Sequence i starts; the next batch clears its pages.
static void sequence_start(struct world *w, int i, struct logits *logits) {
    struct sequence *s = &w->seq[i];
    *s = (struct sequence){.table = {s->page[0], s->page[1]}, .logits = logits};
    for (int t = 0; t < N_TOKENS; t++)
        s->token[t] =
            (int32_t)(((unsigned)(t + 1) * 2654435761u * (unsigned)(i + 1) >> 7) % N_VOCAB);
    for (int g = 0; g < N_GROUPS; g++) {
        for (int b = 0; b < N_BLOCKS; b++) {
            s->page[g][b] = (uint32_t)(N_PAGES - 1 - 2 * b - i); // neither ordered nor dense
            w->clear[w->builder.batch.n_pages++] =
                (struct batch_page){g, s->page[g][b], BATCH_ZERO};
        }
    }
    w->builder.batch.page = w->clear;
}

// Adds the next n tokens of sequence i to the batch, as many as there are, with logits for all.
static void sequence_add(struct world *w, int i, int n) {
    struct sequence *s = &w->seq[i];
    if (n > N_TOKENS - s->n_done) n = N_TOKENS - s->n_done;
    if (n == 0) return;
    batch_add(&w->builder, &(struct batch_rows){.page_table = s->table,
                                                .first_pos = s->n_done,
                                                .n_tokens = n,
                                                .token = s->token + s->n_done,
                                                .n_out = n});
}

// Runs the batch; the sequences keep their logits.
static void world_run(struct world *w) {
    const struct batch *batch = &w->builder.batch;
    here_run(&w->here, batch);
    for (int i = 0; i < batch->n_seqs; i++) {
        const struct batch_seq *seq = &batch->seq[i];
        struct sequence *s = &w->seq[seq->page_table[0] == w->seq[1].page[0]];
        for (int j = 0; j < seq->n_out; j++)
            memcpy(s->logits->row[s->n_done + j], w->here.result.logits[seq->first_out + j],
                   sizeof s->logits->row[0]);
        s->n_done += seq->n_tokens;
    }
    batch_begin(&w->builder, NULL);
}

// All tokens of sequence i in chunks.
static void run_chunks(struct world *w, int i, int chunk, struct logits *out) {
    for (sequence_start(w, i, out); w->seq[i].n_done < N_TOKENS;) {
        sequence_add(w, i, chunk);
        world_run(w);
    }
}

static void run_alone(const struct plan *plan, const struct backend_config *config, int threads,
                      int i, int chunk, struct logits *out) {
    struct world w;
    world_init(&w, plan, config, threads);
    run_chunks(&w, i, chunk, out);
    world_deinit(&w);
}

static const enum format_id formats[] = {FORMAT_F32, FORMAT_Q8_0};

// Chunks and numbers of threads take turns. Where everything is slow, a KV type meets one format,
// and the reference runs in chunks with one KV type.
CASE(logits_do_not_depend_on_chunks_threads_or_isa) {
    static const int chunks[] = {N_TOKENS, 1, 16, 7};
    static struct logits want, got;
    for (int i = 0; i < 2 * KV_TYPE_COUNT; i++) {
        if ((TEST_IS_SLOW && i % 2 != i / 2 % 2) || (TEST_FOR_RACES && i != 3)) continue;
        struct fixture f;
        fixture_init(&f, formats[i % 2]);
        struct backend_config config = new_config("scalar", kv_type_names[i / 2]);
        run_alone(&f.plan, &config, 1, 0, N_TOKENS, &want);
        for (int j = 0; j < N_TOKENS * N_VOCAB; j++)
            assert_true(isfinite(want.row[j / N_VOCAB][j % N_VOCAB]));
        assert_memory_not_equal(want.row[0], want.row[1], sizeof want.row[0]);
        for (int way = 0; way < 2 * ISA_COUNT; way++) {
            const struct cpu_ops *ops = ops_at((enum cpu_isa)(way / 2));
            if (!ops || (TEST_IS_SLOW && ops == &ops_scalar && i > 0)) continue;
            struct world w;
            config.variant = ops->name;
            world_init(&w, &f.plan, &config, 1 + way % 2);
            for (int c = (way + i / 2) % 2; c < COUNT(chunks); c += 2) {
                memset(&got, 0, sizeof got);
                run_chunks(&w, 0, chunks[c], &got); // over the pages of the run before
                check(memcmp(&got, &want, sizeof got) == 0, "%s, %d threads, KV %s, chunks of %d",
                      ops->name, 1 + way % 2, config.kv_type, chunks[c]);
            }
            world_deinit(&w);
        }
        plan_deinit(&f.plan);
    }
}

CASE(logits_do_not_depend_on_the_tiles_of_wide_products) {
    static struct logits want, got;
    for (int i = TEST_IS_SLOW; i < (TEST_IS_SLOW ? 2 : 4); i++) { // slow: two formats at once
        struct fixture f;
        fixture_init_wide(&f, formats[i % 2], formats[i / 2]);
        const struct backend_config config = new_config(NULL, "f16");
        run_alone(&f.plan, &config, 2, 0, N_TOKENS, &want);
        if (!TEST_FOR_RACES) {
            run_alone(&f.plan, &config, 2, 0, 1, &got);
            assert_memory_equal(&got, &want, sizeof got);
        }
        plan_deinit(&f.plan);
    }
}

CASE(a_product_reads_what_its_input_holds_now) {
    static struct logits logits[2];
    for (int before = 0; before < 2; before++) {
        struct fixture f;
        fixture_init_head(&f, before, true);
        const struct backend_config config = new_config(NULL, "f16");
        run_alone(&f.plan, &config, 2, 0, N_TOKENS, &logits[before]);
        plan_deinit(&f.plan);
    }
    assert_memory_equal(&logits[0], &logits[1], sizeof logits[0]);
}

CASE(a_product_of_some_rows_follows_one_of_all) {
    enum { N_OUT = 43, N_LOGITS = 21 };
    static float logits[2][N_LOGITS][N_VOCAB];
    for (int before = 0; before < 2; before++) {
        struct fixture f;
        fixture_init_head(&f, before, false);
        const struct backend_config config = new_config(NULL, "f16");
        struct world w;
        world_init(&w, &f.plan, &config, 2);
        sequence_start(&w, 0, NULL);
        sequence_add(&w, 0, N_TOKENS);
        w.builder.batch.n_out = w.builder.seq[0].n_out = N_OUT;
        w.builder.batch.n_logits = N_LOGITS;
        here_run(&w.here, &w.builder.batch);
        for (int i = 0; i < N_LOGITS; i++)
            memcpy(logits[before][i], w.here.result.logits[i], sizeof logits[before][i]);
        world_deinit(&w);
        plan_deinit(&f.plan);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

// Two sequences share batches, each in chunks of its own size.
CASE(logits_do_not_depend_on_neighbours) {
    static struct logits want[2], got[2];
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        fixture_init(&f, formats[i]);
        const struct backend_config config = new_config(NULL, "f16");
        for (int j = 0; j < 2; j++) run_alone(&f.plan, &config, 2, j, N_TOKENS, &want[j]);
        assert_memory_not_equal(&want[0], &want[1], sizeof want[0]);
        struct world w;
        world_init(&w, &f.plan, &config, 2);
        for (int j = 0; j < 2; j++) sequence_start(&w, j, &got[j]);
        while (w.seq[0].n_done < N_TOKENS || w.seq[1].n_done < N_TOKENS) {
            sequence_add(&w, 0, 5);
            sequence_add(&w, 1, 9);
            world_run(&w);
        }
        assert_memory_equal(got, want, sizeof got);
        world_deinit(&w);
        plan_deinit(&f.plan);
    }
}

// Only some rows want logits: they get the bits that they have when all rows want them.
CASE(logits_do_not_depend_on_which_rows_want_them) {
    static const int32_t some[] = {0, 3, 31, 32, 50, N_TOKENS - 1};
    static struct logits want;
    struct fixture f;
    fixture_init(&f, FORMAT_Q8_0);
    const struct backend_config config = new_config(NULL, "f16");
    run_alone(&f.plan, &config, 2, 0, N_TOKENS, &want);
    struct world w;
    world_init(&w, &f.plan, &config, 2);
    struct batch *batch = &w.builder.batch;
    sequence_start(&w, 0, NULL);
    sequence_add(&w, 0, N_TOKENS);
    batch->n_logits = batch->n_out = w.builder.seq[0].n_out = COUNT(some);
    memcpy(w.builder.out_row, some, sizeof some);
    here_run(&w.here, batch);
    for (int i = 0; i < COUNT(some); i++)
        assert_memory_equal(w.here.result.logits[i], want.row[some[i]], sizeof want.row[0]);
    batch->n_logits = batch->n_out = w.builder.seq[0].n_out = 0; // only the KV cache changes
    here_run(&w.here, batch);
    batch_begin(&w.builder, NULL); // nothing to do
    here_run(&w.here, batch);
    world_deinit(&w);
    plan_deinit(&f.plan);
}

CASE(a_run_allocates_nothing) {
    if (!COUNTS_ALLOCATIONS) skip();
    static struct logits logits;
    struct fixture f;
    fixture_init(&f, FORMAT_Q8_0);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct cpu_ops *ops = ops_at((enum cpu_isa)isa);
        if (!ops) continue;
        const struct backend_config config = new_config(ops->name, "f16");
        struct world w;
        const int before_create = n_allocations;
        world_init(&w, &f.plan, &config, 2);
        assert_true(n_allocations > before_create); // the counters work
        sequence_start(&w, 0, &logits);
        static const int chunks[] = {40, 1, 7, 22};
        const int before = n_allocations;
        for (int i = 0; i < 4; i++) {
            sequence_add(&w, 0, chunks[i]);
            world_run(&w);
        }
        assert_int_equal(n_allocations, before);
        world_deinit(&w);
    }
    plan_deinit(&f.plan);
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

CASE(create_fails_with_a_status_that_names_the_value) {
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
    plan_deinit(&f.plan);
}

CASE(a_backend_is_found_by_its_name_or_as_the_best_one) {
    const struct backend_class *cls = NULL, *best = NULL;
    struct backend_device device = {.depth = 0};
    rn_error err = {0};
    assert_int_equal(backend_find("cpu", 0, &cls, &device, NULL), RN_OK);
    assert_string_equal(cls->name, "cpu");
    assert_true(device.on_host && device.pages == PAGES_LAZY && device.depth == 1);
    assert_true(device.memory_total >= device.memory_free && device.name[0]);
    assert_int_equal(backend_find(NULL, 0, &best, &device, NULL), RN_OK);
    assert_non_null(best->name);
    assert_int_equal(backend_find("abacus", 0, &cls, &device, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "'abacus'"));
    assert_non_null(strstr(err.message, "cpu"));
}

CASE(the_cpu_is_one_device) {
    const struct backend_class *cls = NULL;
    struct backend_device device;
    rn_error err = {0};
    assert_int_equal(backend_find("cpu", 1, &cls, &device, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "device is 1, expected 0"));
    assert_int_equal(backend_find("cpu", -1, &cls, &device, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "device is -1, expected 0 or more"));
    assert_int_equal(backend_find(NULL, 1 << 20, &cls, &device, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "1048576"));
}

CASE(a_kv_type_is_the_classs_own_string) {
    static const char *const names[] = {"wide", "narrow", NULL};
    const struct backend_class made_up = {.name = "made up",
                                          .kv_types = names,
                                          .kv_default = names[1]};
    const struct backend_class *cpu;
    struct backend_device device;
    const char *type = NULL;
    rn_error err = {0};
    assert_int_equal(backend_find("cpu", 0, &cpu, &device, NULL), RN_OK);
    for (const char *const *name = cpu->kv_types; *name; name++) {
        char copy[16] = "";
        strncpy(copy, *name, sizeof copy - 1);
        assert_int_equal(backend_kv_type(cpu, copy, &type, NULL), RN_OK);
        assert_ptr_equal(type, *name);
    }
    assert_int_equal(backend_kv_type(cpu, NULL, &type, NULL), RN_OK);
    assert_string_equal(type, "f16");
    assert_int_equal(backend_kv_type(cpu, "q8_0", &type, NULL), RN_OK); // llama.cpp's name
    assert_string_equal(type, "int8");
    assert_int_equal(backend_kv_type(cpu, "fp8_e4m3", &type, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "'fp8_e4m3'"));
    assert_int_equal(backend_kv_type(&made_up, NULL, &type, NULL), RN_OK);
    assert_ptr_equal(type, names[1]);
    assert_int_equal(backend_kv_type(&made_up, "f16", &type, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "'f16'"));
    assert_non_null(strstr(err.message, "unknown to backend 'made up' (known: wide, narrow)"));
    assert_int_equal(backend_kv_type(&made_up, "narro", &type, &err), RN_ERR_ARG);
}

CASE(bandwidth_is_measured_for_small_and_large_working_sets) {
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
    plan_deinit(&f.plan);
}

CASE(results_have_the_time_of_each_stage_while_the_profile_is_on) {
    struct fixture f;
    fixture_init(&f, FORMAT_Q8_0);
    const struct backend_config config = new_config(NULL, "f16");
    static struct logits logits;
    struct world w;
    world_init(&w, &f.plan, &config, 2);
    const struct step_result *result = &w.here.result;
    sequence_start(&w, 0, &logits);
    assert_int_equal(result->n_stage, 0);
    assert_null(result->stage);
    for (int i = 0; i < 4; i++) { // on, on, off, on again
        if (i != 1) w.here.backend->cls->profile(w.here.backend, i != 2);
        sequence_add(&w, 0, 3);
        world_run(&w);
        uint64_t total = 0;
        for (int n = 0; n < result->n_stage; n++) {
            total += result->stage[n].ns;
            assert_true(strlen(result->stage[n].name) > 0);
        }
        assert_true((result->n_stage > 0) == (i != 2));
        if (i == 2) continue;
        assert_true(result->n_stage > N_LAYER && result->n_stage <= f.plan.n_op);
        assert_true(total > 0 && total <= result->run_ns); // of this step alone
    }
    assert_string_equal(result->stage[2].name, "matmul w+w+w"); // after embedding and norm
    world_deinit(&w);
    plan_deinit(&f.plan);
}

// A clock that advances by 5 whenever it is read.
static uint64_t count_now(void *ctx) { return *(uint64_t *)ctx += 5; }

CASE(a_step_is_timed_by_the_clock_that_was_lent) {
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
    plan_deinit(&f.plan);
}

CASE(the_machine_is_described) {
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
    plan_deinit(&f.plan);
}

// Weights and buffers as the plan has them; pages as long as the layout says, which the pages of a
// backend are.
CASE(what_a_plan_needs_is_its_weights_buffers_and_pages) {
    struct fixture f;
    fixture_init(&f, FORMAT_Q8_0);
    const struct backend_class *cls;
    struct backend_device device;
    assert_int_equal(backend_find("cpu", 0, &cls, &device, NULL), RN_OK);
    uint64_t weights = 0, tokens = 0, logits = 0;
    for (int i = 0; i < f.plan.n_weight; i++) weights += f.plan.weight[i].bytes;
    for (int i = 0; i < f.plan.n_buffer; i++)
        *(f.plan.buffer[i].rows == ROWS_LOGITS ? &logits : &tokens) +=
            (uint64_t)f.plan.buffer[i].width * 4;
    for (const char *const *type = cls->kv_types; *type; type++) {
        const struct backend_sizes sizes = {70, 30, 2, false};
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
    plan_deinit(&f.plan);
}

// Plans of GPUs that are not here need no plug-in: its KV types and its bytes are in the program.
CASE(a_backend_is_planned_without_its_plug_in) {
    static const char *const types[] = {"f16", "bf16", "int8", "fp8"};
    const struct backend_class *cuda = backend_planned("cuda");
    const struct plan_kv_group group = {.n_layer = 2, .n_head_kv = 3, .dim_k = 128, .dim_v = 128};
    const struct plan plan = {.n_group = 1, .n_group_all = 1, .group = {group}, .n_vocab = 32};
    const struct backend_sizes sizes = {.max_tokens = 1, .max_logits = 1, .max_seqs = 1};
    // of a page of 32 tokens; int8 has a scale of 2 bytes for each key and value
    static const uint64_t head_bytes[] = {32 * 512, 32 * 512, 32 * 256 + 2 * 32 * 2, 32 * 256};
    double stored[FORMAT_COUNT];
    assert_non_null(cuda);
    assert_null(backend_planned("nosuch"));
    assert_string_equal(cuda->kv_default, "f16");
    for (int i = 0; i < 4; i++) {
        struct backend_need need;
        assert_string_equal(cuda->kv_types[i], types[i]);
        assert_int_equal(cuda->need(&plan, &sizes, types[i], &need, NULL), RN_OK);
        assert_int_equal(need.kv.page[0], 2 * 3 * head_bytes[i]);
    }
    assert_null(cuda->kv_types[4]);
    assert_null(backend_planned("cpu")->stored);
    assert_null(backend_planned("cpu")->block_check);
    cuda->stored(stored);
    assert_true(stored[FORMAT_F16] == 1 && stored[FORMAT_F32] == 0.5 && stored[FORMAT_Q8_0] == 1);
    assert_true(stored[FORMAT_Q4_K] > 1.1 && stored[FORMAT_Q2_K] > 6);
}

TEST_PROGRAM(backend) { return cases_run(NULL, NULL); }
