// A plan with a draft block on the CUDA backend: hidden rows of all out rows, those that are not
// among the out rows of their sequence included, and the block's own ops on rows that the batch
// brings. Results are near the CPU's, and have the same bits in every chunking.
#include <math.h>

#include "backend/parts.h"
#include "cuda_engine.h"
#include "plan/batch.h"

enum {
    WIDTH = 64,
    DIM = 32,
    LATENT_K = 48,
    HEADS = 2,
    VOCAB = 40,
    SEQS = 2,
    MOST = 44,
    BLOCKS = 2
};
static const int lengths[SEQS] = {MOST, 5};

// ---------------------------------------------------------------- the plan

static uint64_t seed;

static int product(struct plan *p, int in, int width, int into) {
    const enum row_domain rows = p->buffer[in].rows;
    const int out = into == PLAN_NONE ? plan_add_buffer(p, "y", width, rows) : into;
    struct op op = op_of(p, OP_MATMUL, in, PLAN_NONE, out);
    op.weight = weight_draw(p, FORMAT_BF16, width, p->buffer[in].width, &seed);
    op.matmul.add = into != PLAN_NONE && p->buffer[into].rows != ROWS_LOGITS;
    op.matmul.scale = 0.1f;
    plan_add_op(p, &op);
    return out;
}

static void norm(struct plan *p, int in, int out) {
    struct op op = op_of(p, OP_NORM, in, PLAN_NONE, out);
    op.norm.group = WIDTH;
    op.norm.eps = 1e-5f;
    plan_add_op(p, &op);
}

static int gathered(struct plan *p, int in) {
    const int out = plan_add_buffer(p, "out", p->buffer[in].width, ROWS_OUT);
    op_add(p, OP_GATHER, in, PLAN_NONE, out, PLAN_NONE);
    return out;
}

// Adds attention to the stream; the last layer's rows are out rows. Returns the stream.
static int layer_add(struct plan *p, int x, int group, int layer, bool is_last) {
    const int h = plan_add_buffer(p, "h", WIDTH, ROWS_TOKENS);
    norm(p, x, h);
    const struct plan_kv_group *g = &p->group[group];
    int q = product(p, h, HEADS * g->dim_k, PLAN_NONE);
    const int k = product(p, h, g->dim_k, PLAN_NONE);
    const int v = g->is_latent ? PLAN_NONE : product(p, h, DIM, PLAN_NONE);
    struct op op = op_of(p, OP_KV_APPEND, k, v, PLAN_NONE);
    op.kv.group = group;
    op.kv.layer = layer;
    plan_add_op(p, &op);
    if (is_last) {
        x = gathered(p, x);
        q = gathered(p, q);
    }
    const int out = plan_add_buffer(p, "a", HEADS * DIM, p->buffer[q].rows);
    op = op_of(p, OP_ATTENTION, q, PLAN_NONE, out);
    op.kv.group = group;
    op.kv.layer = layer;
    op.kv.n_head = HEADS;
    op.kv.scale = 0.2f;
    plan_add_op(p, &op);
    product(p, out, WIDTH, x);
    return x;
}

static void plan_make(struct plan *p, bool is_latent) {
    const struct plan_kv_group group = {.kind = KV_FULL,
                                        .n_layer = 2,
                                        .n_head_kv = 1,
                                        .dim_k = is_latent ? LATENT_K : DIM,
                                        .dim_v = DIM,
                                        .is_latent = is_latent};
    seed = 7;
    plan_init(p);
    p->n_vocab = VOCAB;
    p->hidden = plan_add_buffer(p, "hidden", WIDTH, ROWS_OUT);
    p->logits = plan_add_buffer(p, "logits", VOCAB, ROWS_LOGITS);
    const int table = weight_draw(p, FORMAT_BF16, VOCAB, WIDTH, &seed);
    const int x = plan_add_buffer(p, "x", WIDTH, ROWS_TOKENS);
    for (int is_draft = 0; is_draft < 2; is_draft++) {
        if (is_draft) plan_begin_draft(p);
        const int own = plan_add_kv_group(p, &group);
        op_add(p, OP_EMBED, PLAN_NONE, PLAN_NONE, x, table);
        if (is_draft) {
            const int in = plan_add_buffer(p, "in", WIDTH, ROWS_TOKENS);
            op_add(p, OP_INPUT, PLAN_NONE, PLAN_NONE, in, PLAN_NONE);
            product(p, in, WIDTH, x);
        }
        const int last = layer_add(p, layer_add(p, x, own, 0, false), own, 1, true);
        norm(p, last, p->hidden);
        product(p, p->hidden, VOCAB, p->logits);
    }
    assert_int_equal(plan_finish(p, NULL), RN_OK);
}

// ---------------------------------------------------------------- runs

struct rows {
    float hidden[SEQS][MOST][WIDTH], logits[SEQS][MOST][VOCAB];
    bool has_hidden[SEQS][MOST], has_logits[SEQS][MOST];
};

// The next n tokens of a sequence; its last n_out rows are out rows, n_hidden before them are
// wanted too.
struct part {
    int seq, n, n_out, n_hidden;
};

struct world {
    struct backend *backend;
    struct pool *pool;
    const struct plan *plan;
    struct batch_builder builder;
    uint32_t page[SEQS][2][BLOCKS];
    int length[SEQS];
};

static void world_init(struct world *w, const struct backend_class *cls, const struct plan *plan) {
    struct backend_config config = {.sizes = {SEQS * MOST, SEQS * MOST, SEQS, false},
                                    .n_pages = {SEQS * BLOCKS, SEQS * BLOCKS}};
    rn_error err = {0};
    *w = (struct world){.plan = plan};
    assert_int_equal(pool_create_here(1, false, &w->pool, NULL), RN_OK);
    config.pool = w->pool;
    check(cls->create(plan, &config, &w->backend, &err) == RN_OK, "%s", err.message);
    assert_int_equal(batch_builder_init(&w->builder, 1, SEQS * MOST, SEQS * MOST, SEQS, NULL),
                     RN_OK);
    for (int s = 0; s < SEQS; s++)
        for (int i = 0; i < 2 * BLOCKS; i++)
            w->page[s][i / BLOCKS][i % BLOCKS] = (uint32_t)((SEQS - 1 - s) * BLOCKS + i % BLOCKS);
}

static void world_deinit(struct world *w) {
    batch_builder_deinit(&w->builder);
    backend_destroy(w->backend);
    pool_destroy(w->pool);
}

static void row_keep(const struct world *w, const struct step_result *result, int out,
                     struct rows *rows) {
    const struct batch *batch = &w->builder.batch;
    const int row = batch->out_row[out];
    int s = 0;
    while (row >= batch->seq[s].first_row + batch->seq[s].n_tokens) s++;
    const int of = batch->seq[s].page_table[batch->is_draft] == w->page[1][batch->is_draft];
    const int pos = batch->seq[s].first_pos + row - batch->seq[s].first_row;
    memcpy(rows->hidden[of][pos], result->hidden[out], sizeof rows->hidden[of][pos]);
    rows->has_hidden[of][pos] = true;
    if (out >= batch->n_logits) return;
    memcpy(rows->logits[of][pos], result->logits[out], sizeof rows->logits[of][pos]);
    rows->has_logits[of][pos] = true;
}

// input: hidden rows for the draft block; NULL: the model runs.
static void run(struct world *w, const struct part *part, int n, const struct rows *input,
                struct rows *out) {
    const bool is_draft = input != NULL;
    const float *rows[SEQS * MOST];
    struct step_result result;
    rn_error err = {0};
    w->builder.first_group = is_draft;
    batch_begin(&w->builder, NULL);
    for (int i = 0; i < n; i++) {
        const int s = part[i].seq, first = w->length[s];
        int32_t token[MOST];
        for (int k = 0; k < part[i].n; k++) {
            token[k] = (s * 11 + (first + k) * 7) % VOCAB;
            if (is_draft) rows[w->builder.batch.n_tokens + k] = input->hidden[s][first + k];
        }
        batch_add(&w->builder,
                  &(struct batch_rows){.page_table = (uint32_t *[]){w->page[s][is_draft]},
                                       .first_pos = first,
                                       .n_tokens = part[i].n,
                                       .token = token,
                                       .n_out = part[i].n_out});
        w->length[s] += part[i].n;
    }
    for (int i = 0; i < n; i++)
        if (part[i].n_hidden)
            batch_add_hidden(&w->builder, i, part[i].n - part[i].n_out - part[i].n_hidden,
                             part[i].n_hidden);
    w->builder.batch.is_draft = is_draft;
    w->builder.batch.input = is_draft ? rows : NULL;
    check(backend_run(w->backend, &w->builder.batch, &result, &err) == RN_OK, "%s", err.message);
    for (int i = 0; i < w->builder.batch.n_out; i++) row_keep(w, &result, i, out);
}

// All rows: at once; in small steps, most rows of them hidden ones; one by one.
static void run_way(struct world *w, int way, const struct rows *input, struct rows *out) {
    memset(out, 0, sizeof *out);
    for (int s = 0; s < SEQS; s++) w->length[s] = 0;
    if (way == 0) {
        const struct part all[SEQS] = {{0, lengths[0], 2, lengths[0] - 4},
                                       {1, lengths[1], 1, lengths[1] - 1}};
        run(w, all, SEQS, input, out);
        return;
    }
    const int most = way == 1 ? 3 : 1;
    while (w->length[0] < lengths[0] || w->length[1] < lengths[1]) {
        struct part part[SEQS];
        int n = 0;
        for (int s = SEQS - 1; s >= 0; s--) {
            const int left = lengths[s] - w->length[s], rows = left < most ? left : most;
            if (rows > 0) part[n++] = (struct part){s, rows, 1, rows - 1};
        }
        run(w, part, n, input, out);
    }
}

static void check_same(const struct rows *a, const struct rows *b) {
    int n = 0;
    for (int s = 0; s < SEQS; s++) {
        for (int i = 0; i < lengths[s]; i++) {
            if (a->has_hidden[s][i] && b->has_hidden[s][i]) {
                assert_memory_equal(a->hidden[s][i], b->hidden[s][i], sizeof a->hidden[s][i]);
                n++;
            }
            if (a->has_logits[s][i] && b->has_logits[s][i])
                assert_memory_equal(a->logits[s][i], b->logits[s][i], sizeof a->logits[s][i]);
        }
    }
    check(n >= 40, "%d rows are in both", n);
}

static void rows_near(const float *a, const float *b, int n, const char *what, int pos) {
    for (int i = 0; i < n; i++)
        check(fabsf(a[i] - b[i]) < 0.06f, "%s of position %d, %d: %g, not %g", what, pos, i,
              (double)a[i], (double)b[i]);
}

static void check_all_near(const struct rows *a, const struct rows *b) {
    for (int s = 0; s < SEQS; s++) {
        for (int i = 0; i < lengths[s]; i++) {
            assert_int_equal(a->has_hidden[s][i], b->has_hidden[s][i]);
            rows_near(a->hidden[s][i], b->hidden[s][i], WIDTH, "the hidden row", i);
            rows_near(a->logits[s][i], b->logits[s][i], VOCAB, "the logits", i);
        }
    }
}

static void check_plan(bool is_latent) {
    static struct rows hidden, want, got[3];
    const struct backend_class *cpu;
    struct backend_device device;
    struct plan plan;
    struct world of_cpu, of_cuda;
    plan_make(&plan, is_latent);
    assert_int_equal(backend_find("cpu", 0, &cpu, &device, NULL), RN_OK);
    world_init(&of_cpu, cpu, &plan);
    world_init(&of_cuda, cuda_class(), &plan);
    run_way(&of_cpu, 2, NULL, &hidden);
    for (int is_draft = 0; is_draft < 2; is_draft++) {
        const struct rows *input = is_draft ? &hidden : NULL;
        run_way(&of_cpu, 0, input, &want);
        for (int way = 0; way < 3; way++) run_way(&of_cuda, way, input, &got[way]);
        check_all_near(&got[0], &want);
        check_same(&got[0], &got[1]);
        check_same(&got[0], &got[2]);
    }
    world_deinit(&of_cpu);
    world_deinit(&of_cuda);
    plan_deinit(&plan);
}

CASE(hidden_rows_and_the_block_are_near_the_cpu_with_the_same_bits_in_every_chunking) {
    check_plan(false);
}

CASE(the_same_over_latents) { check_plan(true); }

TEST_PROGRAM(block) { return cases_run(NULL, NULL); }
