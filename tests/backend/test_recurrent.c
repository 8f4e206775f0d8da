// A model with recurrent, full and windowed layers through the backend's interface. A row's result
// depends on its sequence alone. States pass from chunk to chunk and from page to page. An op with
// a state is its definition. The vocabulary's product reads the hidden rows. label: threads
#include <math.h>
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "backend_here.h"
#include "recurrent_model.h"

enum {
    VOCAB = 50,
    TOKENS = 100,
    BLOCKS = TOKENS / KV_PAGE_TOKENS + 1,
    SEQS = 2,
    SPARE_PAGES = SEQS * BLOCKS, // the first ones, which no sequence has
    PAGES = SPARE_PAGES + SEQS * BLOCKS,
    ROWS = SEQS * TOKENS,
};

struct results {
    float logits[TOKENS][VOCAB], hidden[TOKENS][RECURRENT_EMBD];
};

// A sequence as an engine keeps it: its tables name only what may still be seen.
struct sequence {
    int32_t token[TOKENS];
    uint32_t page[RECURRENT_GROUPS][BLOCKS]; // that it owns
    uint32_t entry[RECURRENT_GROUPS][BLOCKS], *table[RECURRENT_GROUPS];
    int n_done, n_page;
    struct results *out;
};

// A backend, sequences, and a batch of their next tokens.
struct world {
    struct here here;
    struct batch_builder builder;
    struct batch_page page[RECURRENT_GROUPS * BLOCKS * SEQS];
    struct sequence seq[SEQS];
};

static void world_begin(struct world *w) {
    batch_begin(&w->builder, NULL);
    w->builder.batch.page = w->page;
}

static void world_init(struct world *w, const struct plan *plan, const char *variant, int threads) {
    const struct backend_config config = {.variant = variant,
                                          .sizes = {ROWS, ROWS, SEQS, false},
                                          .n_pages = {PAGES, PAGES, PAGES}};
    here_create(&w->here, plan, &config, threads);
    assert_int_equal(batch_builder_init(&w->builder, RECURRENT_GROUPS, ROWS, ROWS, SEQS, NULL),
                     RN_OK);
    world_begin(w);
}

static void world_deinit(struct world *w) {
    batch_builder_deinit(&w->builder);
    here_destroy(&w->here);
}

static struct sequence *sequence_start(struct world *w, int index, struct results *out) {
    struct sequence *s = &w->seq[index];
    *s = (struct sequence){.out = out};
    for (int i = 0; i < TOKENS; i++)
        s->token[i] = (int32_t)(((unsigned)(i + 7 * index) * 2654435761u >> 9) % VOCAB);
    for (int g = 0; g < RECURRENT_GROUPS; g++) {
        s->table[g] = s->entry[g];
        for (int i = 0; i < BLOCKS; i++) s->page[g][i] = (uint32_t)(PAGES - 1 - SEQS * i - index);
    }
    // a state goes on in its page
    s->page[RECURRENT_GROUP_STATE][2] = s->page[RECURRENT_GROUP_STATE][1];
    return s;
}

// The first block that a row at pos or later sees.
static int first_seen(int group, int pos) {
    const int back = group == RECURRENT_GROUP_STATE ? 1 : RECURRENT_WINDOW - 1;
    return group == RECURRENT_GROUP_FULL || pos < back ? 0 : (pos - back) / KV_PAGE_TOKENS;
}

// The next n tokens, as many as there are; of them the rows from first_wanted on have results. New
// pages are cleared but those of states, which rows write whole.
static void sequence_add(struct world *w, int index, int n, int first_wanted) {
    struct sequence *s = &w->seq[index];
    if (n > TOKENS - s->n_done) n = TOKENS - s->n_done;
    if (n == 0) return;
    const int n_page = (s->n_done + n + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    for (int g = 0; g < RECURRENT_GROUPS; g++) {
        for (int i = s->n_page; g != RECURRENT_GROUP_STATE && i < n_page; i++)
            w->page[w->builder.batch.n_pages++] = (struct batch_page){g, s->page[g][i], BATCH_ZERO};
        for (int i = 0; i < BLOCKS; i++)
            s->entry[g][i] =
                i < first_seen(g, s->n_done) || i >= n_page ? UINT32_MAX : s->page[g][i];
    }
    s->n_page = n_page;
    batch_add(&w->builder, &(struct batch_rows){.page_table = s->table,
                                                .first_pos = s->n_done,
                                                .n_tokens = n,
                                                .token = s->token + s->n_done,
                                                .n_out = n - first_wanted});
}

// Runs the batch; the sequences keep its results.
static void world_run(struct world *w) {
    const struct batch *batch = &w->builder.batch;
    here_run(&w->here, batch);
    for (int i = 0; i < batch->n_seqs; i++) {
        const struct batch_seq *seq = &batch->seq[i];
        struct sequence *s = &w->seq[seq->page_table[0] == w->seq[1].entry[0]];
        for (int row = seq->first_out; row < seq->first_out + seq->n_out; row++) {
            const int pos = batch->pos[batch->out_row[row]];
            memcpy(s->out->hidden[pos], w->here.result.hidden[row], sizeof s->out->hidden[pos]);
            if (row < batch->n_logits)
                memcpy(s->out->logits[pos], w->here.result.logits[row], sizeof s->out->logits[pos]);
        }
        s->n_done += seq->n_tokens;
    }
    world_begin(w);
}

static void run_chunks(struct world *w, int index, int chunk, struct results *out) {
    memset(out, 0, sizeof *out);
    for (const struct sequence *s = sequence_start(w, index, out); s->n_done < TOKENS;) {
        sequence_add(w, index, chunk, 0);
        world_run(w);
    }
}

static const enum format_id formats[] = {FORMAT_F32, FORMAT_Q8_0};

CASE(rows_do_not_depend_on_chunks_threads_or_isa) {
    static const int chunks[] = {7, TOKENS, 32, 1, 33, 5}; // one thread, two, one, two, ...
    static struct results want, got;
    for (int f = TEST_FOR_RACES; f < 2; f++) {
        struct model model;
        assert_int_equal(recurrent_model_init(&model, VOCAB, formats[f], NULL), RN_OK);
        struct world w;
        world_init(&w, &model.plan, "scalar", 1);
        run_chunks(&w, 0, TOKENS, &want);
        world_deinit(&w);
        for (int i = 0; i < VOCAB; i++) assert_true(isfinite(want.logits[TOKENS - 1][i]));
        assert_memory_not_equal(want.logits[98], want.logits[99], sizeof want.logits[0]);
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            if (!ops_at((enum cpu_isa)isa) || (TEST_IS_SLOW && isa == ISA_SCALAR && f)) continue;
            for (int threads = 1 + TEST_FOR_RACES; threads <= 2; threads++) {
                world_init(&w, &model.plan, ops_name((enum cpu_isa)isa), threads);
                for (size_t c = (size_t)threads - 1; c < sizeof chunks / sizeof *chunks; c += 2) {
                    run_chunks(&w, 0, chunks[c], &got); // over the pages of the one before
                    check(memcmp(&got, &want, sizeof got) == 0, "%s, %d threads, chunks of %d",
                          ops_name((enum cpu_isa)isa), threads, chunks[c]);
                }
                world_deinit(&w);
            }
        }
        recurrent_model_deinit(&model);
    }
}

CASE(rows_do_not_depend_on_neighbours) {
    static struct results want[SEQS], got[SEQS];
    struct model model;
    struct world w;
    assert_int_equal(recurrent_model_init(&model, VOCAB, FORMAT_Q8_0, NULL), RN_OK);
    world_init(&w, &model.plan, NULL, 2);
    for (int i = 0; i < SEQS; i++) run_chunks(&w, i, TOKENS, &want[i]);
    assert_memory_not_equal(&want[0], &want[1], sizeof want[0]);
    for (int i = 0; i < SEQS; i++) sequence_start(&w, i, &got[i]);
    while (w.seq[0].n_done < TOKENS || w.seq[1].n_done < TOKENS) {
        sequence_add(&w, 0, 5, 0);
        sequence_add(&w, 1, 37, 0);
        world_run(&w);
    }
    assert_memory_equal(got, want, sizeof got);
    world_deinit(&w);
    recurrent_model_deinit(&model);
}

// A sequence ends in the middle of a block; another one continues from there in copies of its
// pages, while the first writes its own.
CASE(a_copied_page_carries_the_state) {
    enum { PART = 40 };
    static struct results want, got, other;
    struct model model;
    struct world w;
    assert_int_equal(recurrent_model_init(&model, VOCAB, FORMAT_F32, NULL), RN_OK);
    world_init(&w, &model.plan, NULL, 2);
    run_chunks(&w, 0, TOKENS, &want);
    struct sequence *to = sequence_start(&w, 0, &got), *from = sequence_start(&w, 1, &other);
    memcpy(from->token, to->token, PART * sizeof *to->token);
    sequence_add(&w, 1, PART, 0);
    world_run(&w);
    to->n_done = PART;
    to->n_page = 2;
    for (int g = 0; g < RECURRENT_GROUPS; g++) { // block 0 is shared, block 1 will be written
        to->page[g][0] = from->page[g][0];
        w.page[w.builder.batch.n_pages++] =
            (struct batch_page){g, to->page[g][1], from->page[g][1]};
    }
    for (int i = 0; i < SEQS; i++) sequence_add(&w, i, TOKENS - PART, 0);
    world_run(&w);
    assert_memory_equal(got.logits[PART], want.logits[PART], (TOKENS - PART) * sizeof *want.logits);
    assert_memory_not_equal(other.logits[PART], want.logits[PART], sizeof *want.logits);
    world_deinit(&w);
    recurrent_model_deinit(&model);
}

// ---------------------------------------------------------------- an op alone

// An op with a state whose inputs are embeddings of a token, and whose rows are the logits. The
// definition (docs/HYBRID.md) is computed in double precision: its rows, and its state behind each.
struct alone {
    struct plan plan;
    struct op op;
    const float *in[3]; // [VOCAB, width]: x, steps, beta
    int width_in[3];
    const float *weight, *bias, *skip;
    int width, n_state; // of a row of the result, floats of a state
    double *row, *state;
};

enum { ALONE_LAYERS = 3, ALONE_LAYER = 1, ALONE_AT = 5, ALONE_BEHIND = 3 };

static const float *vector_of(const struct alone *a, int weight) {
    return weight == PLAN_NONE ? NULL : a->plan.weight[weight].data;
}

static int alone_input(struct alone *a, struct recurrent_builder *b, int i, int width,
                       float scale) {
    const int buffer = plan_add_buffer(&a->plan, "in", width, ROWS_TOKENS);
    struct op op = recurrent_op(b, OP_EMBED, PLAN_NONE, buffer);
    op.weight = recurrent_weight(b, FORMAT_F32, "in", VOCAB, width, 0, scale);
    op.embed.scale = 1;
    plan_add_op(&a->plan, &op);
    a->in[i] = vector_of(a, op.weight);
    a->width_in[i] = width;
    return buffer;
}

static void alone_conv(struct alone *a, struct recurrent_builder *b, const struct op *shape) {
    const int n = shape->state.dim_v, x = alone_input(a, b, 0, n, 2);
    a->width = n;
    a->op = recurrent_op(b, OP_CONV, x, plan_add_buffer(&a->plan, "y", n, ROWS_TOKENS));
    a->op.state = shape->state;
    a->op.weight = recurrent_weight(b, FORMAT_F32, "w", n, a->op.state.taps, 0, 1);
    if (n % 2) a->op.bias = recurrent_weight(b, FORMAT_F32, "bias", 1, n, 0, 1);
}

static void alone_heads(struct alone *a, struct recurrent_builder *b, const struct op *shape) {
    const int n = shape->state.n_head, keys = shape->state.n_key * shape->state.dim_k;
    a->width = n * shape->state.dim_v;
    const int x = alone_input(a, b, 0, a->width + 2 * keys, 1);
    a->op = recurrent_op(b, shape->kind, x, plan_add_buffer(&a->plan, "y", a->width, ROWS_TOKENS));
    a->op.state = shape->state;
    a->op.in[1] = alone_input(a, b, 1, n, 4);
    a->op.weight = recurrent_weight(b, FORMAT_F32, "a", 1, n, -0.5f, 0.45f);
    a->op.bias = recurrent_weight(b, FORMAT_F32, "dt", 1, n, -1, 0.5f);
    if (shape->kind == OP_DELTA) {
        a->op.state.beta = alone_input(a, b, 2, n, 4);
        a->op.state.eps = 1e-6f;
    } else {
        a->op.state.skip = recurrent_weight(b, FORMAT_F32, "d", 1, n, 0, 2);
        a->op.state.dt_min = 0.05f;
        a->op.state.dt_max = 2.5f;
    }
}

static void alone_init(struct alone *a, const struct op *shape, uint64_t seed) {
    *a = (struct alone){.width = 0};
    plan_init(&a->plan);
    struct recurrent_builder b = {.plan = &a->plan, .random = seed, .layer = -1};
    (shape->kind == OP_CONV ? alone_conv : alone_heads)(a, &b, shape);
    a->n_state = (int)op_state_floats(&a->plan, &a->op);
    const struct plan_kv_group group = {.kind = KV_RECURRENT,
                                        .n_layer = ALONE_LAYERS,
                                        .state = ALONE_AT + a->n_state + ALONE_BEHIND,
                                        .exact =
                                            ALONE_AT + (shape->kind == OP_CONV ? a->n_state : 0)};
    a->op.state.group = plan_add_kv_group(&a->plan, &group);
    a->op.state.layer = ALONE_LAYER;
    a->op.state.at = ALONE_AT;
    plan_add_op(&a->plan, &a->op);
    a->plan.logits = plan_add_buffer(&a->plan, "logits", a->width, ROWS_LOGITS);
    a->plan.n_vocab = a->width;
    recurrent_gather(&b, a->op.out, a->plan.logits);
    assert_int_equal(plan_finish(&a->plan, NULL), RN_OK);
    a->weight = vector_of(a, a->op.weight);
    a->bias = vector_of(a, a->op.bias);
    if (shape->kind == OP_SCAN) a->skip = vector_of(a, a->op.state.skip);
    a->row = calloc((size_t)(TOKENS * a->width), sizeof *a->row);
    a->state = calloc((size_t)((TOKENS + 1) * a->n_state), sizeof *a->state);
    assert_true(a->row && a->state);
}

static void alone_deinit(struct alone *a) {
    free(a->row);
    free(a->state);
    plan_deinit(&a->plan);
}

// ---------------------------------------------------------------- its definition

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return log1p(exp(x)); }

static double input_of(const struct alone *a, int which, int token, int i) {
    return (double)a->in[which][token * a->width_in[which] + i];
}

// state: the last taps - 1 inputs before the row, then those behind it.
static void define_conv(const struct alone *a, int token, double *row, double *state) {
    const int taps = a->op.state.taps, n = a->width;
    for (int c = 0; c < n; c++) {
        const double x = input_of(a, 0, token, c);
        double sum = a->bias ? (double)a->bias[c] : 0;
        for (int t = 0; t < taps - 1; t++)
            sum += (double)a->weight[c * taps + t] * state[t * n + c];
        sum += (double)a->weight[c * taps + taps - 1] * x;
        row[c] = a->op.state.silu ? sum * sigmoid(sum) : sum;
        for (int t = 0; t < taps - 2; t++) state[t * n + c] = state[(t + 1) * n + c];
        state[(taps - 2) * n + c] = x;
    }
}

// Where q and k of a head, or its B and C, begin in the input's row: [0] writes, [1] reads.
static void keys_of(const struct alone *a, int head, int at[2]) {
    const int n_key = a->op.state.n_key, dim_k = a->op.state.dim_k;
    const int key = a->op.state.is_tiled ? head % n_key : head / (a->op.state.n_head / n_key);
    const int first = a->op.kind == OP_SCAN ? a->width : 0;
    at[a->op.kind == OP_DELTA] = first + key * dim_k;
    at[a->op.kind == OP_SCAN] = first + (n_key + key) * dim_k;
}

static double length_of(const struct alone *a, int token, int at) {
    double sum = (double)a->op.state.eps;
    for (int i = 0; i < a->op.state.dim_k; i++)
        sum += input_of(a, 0, token, at + i) * input_of(a, 0, token, at + i);
    return sqrt(sum);
}

// A head's row. state: [dim_k, dim_v].
static void define_head(const struct alone *a, int token, int head, double *row, double *state) {
    const bool is_delta = a->op.kind == OP_DELTA;
    const int dim_k = a->op.state.dim_k, dim_v = a->op.state.dim_v;
    const int values = is_delta ? 2 * a->op.state.n_key * dim_k : 0;
    int at[2];
    keys_of(a, head, at);
    double dt = softplus(input_of(a, 1, token, head) + (double)a->bias[head]);
    if (!is_delta) dt = fmin(fmax(dt, (double)a->op.state.dt_min), (double)a->op.state.dt_max);
    const double keep = exp((double)a->weight[head] * dt);
    const double by_k = is_delta ? 1 / length_of(a, token, at[0]) : 1;
    const double by_q = is_delta ? 1 / length_of(a, token, at[1]) / sqrt(dim_k) : 1;
    for (int c = 0; c < dim_v; c++) {
        const double x = input_of(a, 0, token, values + head * dim_v + c);
        double known = 0, sum = is_delta ? 0 : (double)a->skip[head] * x;
        for (int i = 0; i < dim_k; i++) {
            state[i * dim_v + c] *= keep;
            known += state[i * dim_v + c] * input_of(a, 0, token, at[0] + i) * by_k;
        }
        const double write = is_delta ? sigmoid(input_of(a, 2, token, head)) * (x - known) : dt * x;
        for (int i = 0; i < dim_k; i++) {
            state[i * dim_v + c] += input_of(a, 0, token, at[0] + i) * by_k * write;
            sum += state[i * dim_v + c] * input_of(a, 0, token, at[1] + i) * by_q;
        }
        row[c] = sum;
    }
}

static void alone_define(struct alone *a, const int32_t *token) {
    const int dim_v = a->op.state.dim_v, head_floats = a->op.state.dim_k * dim_v;
    for (int t = 0; t < TOKENS; t++) {
        double *row = a->row + t * a->width, *state = a->state + (t + 1) * a->n_state;
        memcpy(state, state - a->n_state, (size_t)a->n_state * sizeof *state);
        if (a->op.kind == OP_CONV) define_conv(a, token[t], row, state);
        for (int h = 0; a->op.kind != OP_CONV && h < a->op.state.n_head; h++)
            define_head(a, token[t], h, row + h * dim_v, state + h * head_floats);
    }
}

// ---------------------------------------------------------------- the op against it

static void check_close(const struct alone *a, const float *got, const double *want, int n,
                        const char *what, int index) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(want[i]));
    for (int i = 0; i < n; i++)
        check(fabs((double)got[i] - want[i]) <= 1e-4 * most + 1e-5,
              "%s of %d, %s %d: element %d is %g, not %g", op_name(a->op.kind), a->width, what,
              index, i, (double)got[i], want[i]);
}

// Bytes that no state has before it is written: NaN.
enum { DIRT = 0xff };

// The states that blocks leave in their pages. All other bytes of the pages stay.
static void check_states(const struct alone *a, const struct cpu_backend *b,
                         const struct sequence *s) {
    const int64_t floats = (int64_t)(b->page_bytes[0] / sizeof(float));
    const int64_t at = ALONE_LAYER * (floats / ALONE_LAYERS) + ALONE_AT;
    const uint32_t *page = s->page[RECURRENT_GROUP_STATE];
    for (int block = 0; block < BLOCKS; block++) {
        const int end = (block + 1) * KV_PAGE_TOKENS, n = end < TOKENS ? end : TOKENS;
        if (block + 1 < BLOCKS && page[block + 1] == page[block]) continue; // it went on
        check_close(a, (const float *)b->kv[0].base + page[block] * floats + at,
                    a->state + n * a->n_state, a->n_state, "block", block);
    }
    for (int64_t i = 0; i < PAGES * floats; i++) {
        const bool is_state = i % floats >= at && i % floats < at + a->n_state;
        for (size_t k = 0; !is_state && k < sizeof(float); k++)
            check(b->kv[0].base[(size_t)i * sizeof(float) + k] == DIRT, "%s of %d, float %d",
                  op_name(a->op.kind), a->width, (int)(i % floats));
    }
}

// The state is to go on in another page, which takes the place of its own in the table. Returns the
// page that has it, which the table names no more.
static uint32_t state_leaves(struct sequence *s, uint32_t to) {
    uint32_t *page = s->page[RECURRENT_GROUP_STATE];
    const int block = (s->n_done - 1) / KV_PAGE_TOKENS;
    const uint32_t from = page[block];
    for (int i = 0; i < BLOCKS; i++)
        if (page[i] == from) page[i] = to;
    return from;
}

// Chunks of 1 to most tokens; out: [TOKENS, width]. At times the state before a chunk is in a page
// that the table does not name.
static void alone_run(const struct alone *a, struct world *w, int most, float *out) {
    const struct cpu_backend *b = (const struct cpu_backend *)w->here.backend;
    memset(b->kv[0].base, DIRT, PAGES * b->page_bytes[0]);
    struct sequence *s = sequence_start(w, 0, NULL);
    for (int step = 0; s->n_done < TOKENS; step++) {
        const bool leaves = s->n_done % KV_PAGE_TOKENS && step % 3 == 2;
        const uint32_t from = leaves ? state_leaves(s, (uint32_t)step % SPARE_PAGES) : BATCH_ZERO;
        sequence_add(w, 0, most == TOKENS ? TOKENS : 1 + rand() % most, 0);
        // the one group of this plan is like the model's third
        w->builder.batch.n_pages = 0;
        w->builder.seq[0].page_table[0] = s->table[RECURRENT_GROUP_STATE];
        w->builder.seq[0].state_from[0] = from;
        here_run(&w->here, &w->builder.batch);
        for (int i = 0; i < w->builder.batch.n_out; i++)
            memcpy(out + (s->n_done + i) * a->width, w->here.result.logits[i],
                   (size_t)a->width * sizeof *out);
        s->n_done += w->builder.batch.n_tokens;
        world_begin(w);
    }
    check_states(a, b, s);
}

// Ranges of a thread's channels and columns are passed.
static const struct op alone_shapes[] = {
    {.kind = OP_CONV, .state = {.dim_v = 1, .taps = 2}},
    {.kind = OP_CONV, .state = {.dim_v = 65, .taps = 4, .silu = true}},
    {.kind = OP_CONV, .state = {.dim_v = 300, .taps = PLAN_MAX_TAPS}},
    {.kind = OP_SCAN, .state = {.n_head = 1, .n_key = 1, .dim_k = 1, .dim_v = 1}},
    {.kind = OP_SCAN, .state = {.n_head = 6, .n_key = 2, .dim_k = 7, .dim_v = 5}},
    {.kind = OP_SCAN, .state = {.n_head = 2, .n_key = 1, .dim_k = 19, .dim_v = 65}},
    {.kind = OP_DELTA, .state = {.n_head = 1, .n_key = 1, .dim_k = 3, .dim_v = 1}},
    {.kind = OP_DELTA, .state = {.n_head = 6, .n_key = 2, .dim_k = 7, .dim_v = 5}},
    {.kind = OP_DELTA,
     .state = {.n_head = 4, .n_key = 2, .dim_k = 17, .dim_v = 65, .is_tiled = true}},
};

// The definition's rows, with the same bits in any chunks, on any threads and instructions.
CASE(an_op_with_a_state_is_its_definition_in_any_chunks) {
    srand(3);
    for (size_t i = 0; i < sizeof alone_shapes / sizeof *alone_shapes; i++) {
        struct alone a;
        struct world w;
        alone_init(&a, &alone_shapes[i], i + 1);
        alone_define(&a, sequence_start(&w, 0, NULL)->token);
        const size_t n = (size_t)(TOKENS * a.width);
        float *want = calloc(n, sizeof *want), *got = calloc(n, sizeof *got);
        assert_true(want && got);
        world_init(&w, &a.plan, "scalar", 1);
        alone_run(&a, &w, TOKENS, want);
        world_deinit(&w);
        for (int t = 0; t < TOKENS; t++)
            check_close(&a, want + t * a.width, a.row + t * a.width, a.width, "row", t);
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            if (!ops_at((enum cpu_isa)isa)) continue;
            world_init(&w, &a.plan, ops_name((enum cpu_isa)isa), 1 + isa % 2);
            for (int round = 0; round < 5; round++) {
                alone_run(&a, &w, round % 2 ? 9 : 50, got);
                check(memcmp(got, want, n * sizeof *got) == 0, "%s of %d: %s", op_name(a.op.kind),
                      a.width, ops_name((enum cpu_isa)isa));
            }
            world_deinit(&w);
        }
        free(want), free(got);
        alone_deinit(&a);
    }
}

// ---------------------------------------------------------------- out rows

// The last op is the product.
static void product_of(const struct plan *plan, const float *x, float *y) {
    const struct plan_weight *weight = &plan->weight[plan->op[plan->n_op - 1].weight];
    const float *w = weight->data;
    for (int r = 0; r < VOCAB; r++, w += RECURRENT_EMBD) {
        y[r] = 0;
        for (int i = 0; i < RECURRENT_EMBD; i++) y[r] = fmaf(w[i], x[i], y[r]);
    }
}

CASE(hidden_rows_are_what_the_vocabulary_is_multiplied_with) {
    static struct results got;
    struct model model;
    struct world w;
    assert_int_equal(recurrent_model_init(&model, VOCAB, FORMAT_F32, NULL), RN_OK);
    world_init(&w, &model.plan, NULL, 2);
    run_chunks(&w, 0, 30, &got);
    for (int i = 0; i < TOKENS; i++) {
        float logits[VOCAB];
        product_of(&model.plan, got.hidden[i], logits);
        assert_memory_equal(logits, got.logits[i], sizeof logits);
    }
    world_deinit(&w);
    recurrent_model_deinit(&model);
}

// One sequence wants logits of its last rows, the other hidden states alone: its out rows come
// behind, in any order of the sequences.
CASE(only_the_first_out_rows_have_logits) {
    static struct results want[SEQS], got[SEQS];
    for (int f = 0; f < 2; f++) {
        struct model model;
        assert_int_equal(recurrent_model_init(&model, VOCAB, formats[f], NULL), RN_OK);
        struct world w;
        world_init(&w, &model.plan, NULL, 2);
        for (int i = 0; i < SEQS; i++) run_chunks(&w, i, TOKENS, &want[i]);
        memset(got, 0, sizeof got);
        for (int i = 0; i < SEQS; i++) sequence_start(&w, i, &got[i]);
        sequence_add(&w, 0, TOKENS, 10);
        sequence_add(&w, 1, TOKENS, 97);
        struct batch_seq *seq = w.builder.seq; // the out rows of the second come first
        seq[0].first_out = seq[1].n_out;
        seq[1].first_out = 0;
        for (int i = 0; i < seq[1].n_out; i++) w.builder.out_row[i] = TOKENS + 97 + i;
        for (int i = 0; i < seq[0].n_out; i++) w.builder.out_row[seq[1].n_out + i] = 10 + i;
        w.builder.batch.n_logits = seq[1].n_out;
        world_run(&w);
        assert_memory_equal(got[0].hidden[10], want[0].hidden[10], 90 * sizeof *got[0].hidden);
        assert_memory_equal(got[1].hidden[97], want[1].hidden[97], 3 * sizeof *got[1].hidden);
        assert_memory_equal(got[1].logits[97], want[1].logits[97], 3 * sizeof *got[1].logits);
        world_deinit(&w);
        recurrent_model_deinit(&model);
    }
}

TEST_PROGRAM(recurrent) { return cases_run(NULL, NULL); }
