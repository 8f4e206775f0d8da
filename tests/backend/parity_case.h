// Random plans around one op. Inputs are rows of F32 tables that tokens choose, so every backend
// has the same ones. The op's output is seen as hidden rows and as logits. A case is its op and its
// number. parity_feed.h makes the batches; test_parity.c compares the results.
#ifndef RN_TESTS_PARITY_CASE_H
#define RN_TESTS_PARITY_CASE_H

#include <math.h>
#include <stdio.h>

#include "parts.h"

enum {
    PARITY_VOCAB = 61,   // tokens
    PARITY_PAGED = 448,  // positions of a sequence that has pages
    PARITY_FAR = 200000, // positions of a sequence without pages
    PARITY_TABLE = 512,  // positions of one whose position chooses a row
    PARITY_MAX_WEIGHTS = 24,
    PARITY_MAX_EXPERTS = 130,
};

struct parity_case {
    enum op_kind kind;
    int index;
    uint64_t random;
    struct plan plan;
    int n_positions; // of a sequence, at most
    float *input;    // [PARITY_VOCAB, width] rows of the op INPUT; NULL: the plan has none
    int input_width;
    char shape[160]; // for people
    void *data[PARITY_MAX_WEIGHTS];
    int n_data;
    bool weighs_input; // as in op.experts
    const void *expert[PARITY_MAX_WEIGHTS][PARITY_MAX_EXPERTS];
};

#define PARITY_PICK(c, list) ((list)[parity_below(c, COUNT(list))])

static inline int parity_below(struct parity_case *c, int n) { return random_below(&c->random, n); }

static inline void parity_say(struct parity_case *c, const char *text, int value) {
    const size_t used = strlen(c->shape);
    snprintf(c->shape + used, sizeof c->shape - used, "%s%s %d", used ? ", " : "", text, value);
}

// Odd ones, and those around the lengths of vectors.
static inline int parity_width(struct parity_case *c) {
    static const int widths[] = {1,  2,  3,  7,  8,  15, 16,  17,  31,  32, 33,
                                 48, 63, 64, 65, 80, 96, 100, 128, 130, 200};
    return PARITY_PICK(c, widths);
}

static inline enum format_id parity_format(struct parity_case *c) {
    return (enum format_id)parity_below(c, FORMAT_COUNT);
}

static inline int parity_cols(struct parity_case *c, enum format_id format) {
    const int block = format_at(format)->block;
    if (block == 1) return parity_width(c);
    return block * (1 + parity_below(c, block > 32 ? 2 : 7));
}

// ---------------------------------------------------------------- parts of plans

// n_expert 0: one matrix.
static inline int parity_weight(struct parity_case *c, enum format_id format, int64_t rows,
                                int64_t cols, int n_expert) {
    const uint64_t bytes = format_row_bytes(format, cols) * (uint64_t)rows;
    const int n = n_expert ? n_expert : 1, at = c->n_data++;
    check(at < PARITY_MAX_WEIGHTS && n <= PARITY_MAX_EXPERTS, "%d weights", at);
    uint8_t *data = malloc(bytes * (uint64_t)n); // exact size: sanitizers see any further read
    assert_non_null(data);
    c->data[at] = data;
    blocks_fill(format, data, bytes * (uint64_t)n, &c->random);
    for (int e = 0; e < n_expert; e++) c->expert[at][e] = data + bytes * (uint64_t)e;
    const struct plan_weight weight = {.name = "w",
                                       .format = format,
                                       .rows = rows,
                                       .cols = cols,
                                       .data = n_expert ? NULL : data,
                                       .bytes = bytes * (uint64_t)n,
                                       .n_expert = n_expert,
                                       .expert_data = n_expert ? c->expert[at] : NULL};
    return plan_add_weight(&c->plan, &weight);
}

static inline int parity_vector(struct parity_case *c, int n) {
    static const enum format_id formats[] = {FORMAT_F32, FORMAT_F16, FORMAT_BF16};
    return parity_weight(c, PARITY_PICK(c, formats), 1, n, 0);
}

static inline int parity_buffer(struct parity_case *c, int width, enum row_domain rows) {
    return plan_add_buffer(&c->plan, "b", width, rows);
}

static inline int parity_gather(struct parity_case *c, int in, enum row_domain rows) {
    const int out = parity_buffer(c, c->plan.buffer[in].width, rows);
    op_add(&c->plan, OP_GATHER, in, PLAN_NONE, out, PLAN_NONE);
    return out;
}

// A buffer that has a row of a table in each of its rows, with numbers up to `scale`.
static inline int parity_input(struct parity_case *c, int width, enum row_domain rows,
                               float scale) {
    const int x = parity_buffer(c, width, ROWS_TOKENS);
    struct op op = op_of(&c->plan, OP_EMBED, PLAN_NONE, PLAN_NONE, x);
    op.weight = parity_weight(c, FORMAT_F32, PARITY_VOCAB, width, 0);
    op.embed.scale = scale;
    plan_add_op(&c->plan, &op);
    return rows == ROWS_TOKENS ? x : parity_gather(c, x, rows);
}

// A product with F32 weights; the output is a new buffer.
static inline int parity_product(struct parity_case *c, int in, int n, enum row_domain rows) {
    const int out = parity_buffer(c, n, rows);
    struct op op = op_of(&c->plan, OP_MATMUL, in, PLAN_NONE, out);
    op.weight = parity_weight(c, FORMAT_F32, n, c->plan.buffer[in].width, 0);
    plan_add_op(&c->plan, &op);
    return out;
}

// Makes `out` seen. `other`, where out has the rows of tokens: is seen as the logits.
static inline void parity_finish(struct parity_case *c, int out, int other) {
    struct plan *p = &c->plan;
    switch (p->buffer[out].rows) {
    case ROWS_TOKENS:
        p->hidden = parity_gather(c, out, ROWS_OUT);
        p->logits = parity_gather(c, other, ROWS_LOGITS);
        break;
    case ROWS_OUT:
        p->hidden = out;
        p->logits = parity_product(c, out, 5, ROWS_LOGITS);
        break;
    case ROWS_LOGITS:
        p->logits = out;
        break;
    }
    p->n_vocab = p->buffer[p->logits].width;
    check(plan_finish(p, NULL) == RN_OK, "%s %d: no plan", op_name(c->kind), c->index);
}

static inline enum row_domain parity_rows(struct parity_case *c, int n_domains) {
    static const char *const names[] = {"rows of tokens", "rows out", "rows of logits"};
    const int rows = parity_below(c, n_domains);
    parity_say(c, names[rows], rows);
    return (enum row_domain)rows;
}

static inline float parity_factor(struct parity_case *c) {
    return parity_below(c, 2) ? 1.0f : 0.5f + random_unit(&c->random);
}

// ---------------------------------------------------------------- one op each

static inline void parity_embed(struct parity_case *c) {
    const enum format_id format = (enum format_id)(c->index % FORMAT_COUNT);
    const int width = parity_cols(c, format);
    const bool positions = parity_below(c, 3) == 0, add = parity_below(c, 3) == 0;
    if (positions) c->n_positions = PARITY_TABLE;
    parity_say(c, format_at(format)->name, width);
    parity_say(c, add ? "add" : "set", positions);
    const int x =
        add ? parity_input(c, width, ROWS_TOKENS, 1) : parity_buffer(c, width, ROWS_TOKENS);
    struct op op = op_of(&c->plan, OP_EMBED, PLAN_NONE, PLAN_NONE, x);
    op.weight = parity_weight(c, format, positions ? PARITY_TABLE : PARITY_VOCAB, width, 0);
    op.embed.scale = parity_factor(c);
    op.embed.positions = positions;
    op.embed.add = add;
    plan_add_op(&c->plan, &op);
    parity_finish(c, x, x);
}

static inline void parity_gather_rows(struct parity_case *c) {
    const int width = parity_width(c), x = parity_input(c, width, ROWS_TOKENS, 1);
    parity_say(c, "width", width);
    parity_finish(c, x, parity_input(c, parity_width(c), ROWS_TOKENS, 1));
}

static inline void parity_norm(struct parity_case *c) {
    static const float epsilons[] = {1e-5f, 1e-6f, 0.1f};
    const enum row_domain rows = parity_rows(c, 2);
    const int group = parity_width(c), n = parity_below(c, 2) ? 1 : 1 + parity_below(c, 5);
    const int x = parity_input(c, group * n, rows, 3);
    struct op op = op_of(&c->plan, OP_NORM, x, PLAN_NONE, x);
    op.norm.kind = (enum norm_kind)parity_below(c, 2);
    op.norm.group = group;
    op.norm.eps = PARITY_PICK(c, epsilons);
    op.norm.add = parity_below(c, 3) == 0;
    if (op.norm.add) op.out = parity_input(c, group * n, rows, 1);
    if (!op.norm.add && parity_below(c, 2)) op.out = parity_buffer(c, group * n, rows);
    const bool is_whole = n > 1 && op.norm.kind == NORM_RMS && parity_below(c, 2);
    op.weight = is_whole ? parity_weight(c, FORMAT_F32, n, group, 0) : parity_vector(c, group);
    if (op.norm.kind == NORM_LAYER) op.bias = parity_vector(c, group);
    if (op.norm.kind == NORM_LAYER && c->index % 3 == 0) {
        op.norm.kind = NORM_LAYER_PLAIN;
        op.bias = PLAN_NONE;
    }
    if (c->index % 4 == 0) op.weight = PLAN_NONE;
    if (c->index % 5 == 1) op.norm.scale = -0.375f;
    parity_say(c, op.norm.scale != 0 ? "scaled" : "plain", 0);
    parity_say(c, op.norm.kind == NORM_RMS ? "rms norm of" : "layer norm of", group);
    if (op.weight == PLAN_NONE) parity_say(c, "no weight", 0);
    parity_say(c, op.norm.add ? "add" : op.out == x ? "in place" : "set", n);
    plan_add_op(&c->plan, &op);
    parity_finish(c, op.out, op.out);
}

// One of the products that share the input.
static inline int parity_matmul_one(struct parity_case *c, enum format_id format, int in,
                                    enum row_domain rows) {
    static const int counts[] = {1, 2, 3, 7, 15, 16, 17, 33, 64, 100, 130};
    const int n = PARITY_PICK(c, counts);
    const bool add = rows == ROWS_TOKENS && parity_below(c, 3) == 0;
    const int out = add ? parity_input(c, n, rows, 1) : parity_buffer(c, n, rows);
    struct op op = op_of(&c->plan, OP_MATMUL, in, PLAN_NONE, out);
    op.weight = parity_weight(c, format, n, c->plan.buffer[in].width, 0);
    if (parity_below(c, 3) == 0) op.bias = parity_vector(c, n);
    op.matmul.add = add;
    op.matmul.scale = parity_factor(c);
    parity_say(c, format_at(format)->name, n);
    parity_say(c, add ? "add" : "set", op.bias != PLAN_NONE);
    plan_add_op(&c->plan, &op);
    return out;
}

static inline void parity_matmul(struct parity_case *c) {
    const enum format_id format = (enum format_id)(c->index % FORMAT_COUNT);
    const enum row_domain rows = parity_rows(c, 3);
    const int cols = parity_cols(c, format);
    const int in = parity_input(c, cols, rows == ROWS_TOKENS ? ROWS_TOKENS : ROWS_OUT, 2);
    parity_say(c, "columns", cols);
    const int out = parity_matmul_one(c, format, in, rows);
    int other = out;
    if (rows == ROWS_LOGITS) c->plan.hidden = in;
    for (int n = parity_below(c, 3); rows == ROWS_TOKENS && n > 0; n--) {
        const enum format_id more = parity_format(c);
        if (cols % format_at(more)->block == 0) other = parity_matmul_one(c, more, in, rows);
    }
    parity_finish(c, out, other);
}

static inline void parity_rope(struct parity_case *c) {
    static const int dims[] = {2, 4, 6, 8, 16, 18, 32, 34, 64, 80, 128};
    const enum row_domain rows = parity_rows(c, 2);
    const int dim = PARITY_PICK(c, dims), n_head = 1 + parity_below(c, 6);
    const int n_rot = parity_below(c, 2) ? dim : 2 + 2 * parity_below(c, dim / 2);
    float inv_freq[64], f = 1;
    for (int i = 0; i < n_rot / 2; i++, f *= 0.9f - 0.1f * (float)parity_below(c, 4))
        inv_freq[i] = f;
    const struct plan_rope rope = {.style = parity_below(c, 2) ? ROPE_HALVES : ROPE_INTERLEAVED,
                                   .n_rot = n_rot,
                                   .inv_freq = inv_freq,
                                   .magnitude = parity_below(c, 3) ? 1.0f : 1.3f};
    const int x = parity_input(c, n_head * dim, rows, 2);
    struct op op = op_of(&c->plan, OP_ROPE, PLAN_NONE, PLAN_NONE, x);
    op.rope.rope = plan_add_rope(&c->plan, &rope);
    op.rope.n_head = n_head;
    op.rope.dim = dim;
    if (c->index % 4 == 3) op.rope.from = dim - n_rot;
    parity_say(c, rope.style == ROPE_HALVES ? "halves, heads" : "interleaved, heads", n_head);
    parity_say(c, "of", dim);
    parity_say(c, "rotated", n_rot);
    plan_add_op(&c->plan, &op);
    parity_finish(c, x, x);
}

static inline int parity_group(struct parity_case *c, int most_dim) {
    static const int dims[] = {16, 32, 64, 7, 33, 48, 80, 96, 128, 8, 1};
    static const int heads[] = {1, 1, 2, 3}, windows[] = {1, 2, 31, 40, 64, 100, 257};
    struct plan_kv_group group = {.kind = parity_below(c, 2) ? KV_WINDOW : KV_FULL,
                                  .n_layer = 1 + parity_below(c, 3),
                                  .n_head_kv = PARITY_PICK(c, heads),
                                  .dim_k = PARITY_PICK(c, dims)};
    group.dim_v = parity_below(c, 2) ? group.dim_k : PARITY_PICK(c, dims);
    if (group.dim_k > most_dim) group.dim_k = most_dim;
    if (group.dim_v > most_dim) group.dim_v = most_dim;
    if (group.kind == KV_WINDOW) group.window = PARITY_PICK(c, windows);
    if (group.kind == KV_WINDOW && c->index % 3 == 0) group.kind = KV_CHUNK;
    if (c->index % 4 == 3) { // a latent: the value is a part of the key
        group.kind = KV_FULL;
        group.window = 0;
        group.is_latent = true;
        if (group.dim_v > group.dim_k) group.dim_v = group.dim_k;
    }
    c->n_positions = PARITY_PAGED;
    parity_say(c, group.kind == KV_CHUNK ? "chunk" : "window", group.window);
    parity_say(c, "KV heads", group.n_head_kv);
    parity_say(c, "of", group.dim_k);
    parity_say(c, group.is_latent ? "with" : "and", group.dim_v);
    return plan_add_kv_group(&c->plan, &group);
}

static inline void parity_append(struct parity_case *c, int group, int layer) {
    const struct plan_kv_group *g = &c->plan.group[group];
    const int k = parity_input(c, g->n_head_kv * g->dim_k, ROWS_TOKENS, 1);
    const int v =
        g->is_latent ? PLAN_NONE : parity_input(c, g->n_head_kv * g->dim_v, ROWS_TOKENS, 2);
    struct op op = op_of(&c->plan, OP_KV_APPEND, k, v, PLAN_NONE);
    op.kv.group = group;
    op.kv.layer = layer;
    plan_add_op(&c->plan, &op);
}

static inline int parity_attend(struct parity_case *c, int group, int layer, int ratio,
                                enum row_domain rows) {
    const struct plan_kv_group *g = &c->plan.group[group];
    const int n_head = g->n_head_kv * ratio;
    const int q = parity_input(c, n_head * g->dim_k, rows, 1);
    const int out = parity_buffer(c, n_head * g->dim_v, rows);
    struct op op = op_of(&c->plan, OP_ATTENTION, q, PLAN_NONE, out);
    op.kv.group = group;
    op.kv.layer = layer;
    op.kv.n_head = n_head;
    op.kv.scale = 0.2f + 0.2f * (float)parity_below(c, 4);
    op.kv.softcap = parity_below(c, 3) ? 0.0f : 3.0f;
    if (parity_below(c, 3) == 0) op.weight = parity_weight(c, FORMAT_F32, 1, n_head, 0);
    parity_say(c, "heads", n_head);
    parity_say(c, op.kv.softcap > 0 ? "cap, sinks" : "sinks", op.weight != PLAN_NONE);
    plan_add_op(&c->plan, &op);
    return out;
}

static inline void parity_attention(struct parity_case *c) {
    static const int ratios[] = {1, 1, 2, 3, 4, 5, 7, 8};
    const enum row_domain rows = parity_rows(c, 2);
    const int group = parity_group(c, 128), layer = parity_below(c, c->plan.group[group].n_layer);
    parity_append(c, group, layer);
    const int more = c->plan.group[group].is_latent ? 3 : 1; // queries share a latent
    const int out = parity_attend(c, group, layer, PARITY_PICK(c, ratios) * more, rows);
    parity_finish(c, out, out);
}

// Two layers, of one group or of two: neither writes where the other one reads.
static inline void parity_kv_append(struct parity_case *c) {
    const int one = parity_group(c, 40);
    const bool same = c->plan.group[one].n_layer > 1;
    const int two = same ? one : parity_group(c, 40), layer = same ? 1 : 0;
    parity_append(c, one, 0);
    parity_append(c, two, layer);
    const int out = parity_attend(c, one, 0, 1, ROWS_TOKENS);
    parity_finish(c, out, parity_attend(c, two, layer, 2, ROWS_TOKENS));
}

// Rows of the batch beside rows of a table, in a draft block.
static inline void parity_input_rows(struct parity_case *c) {
    const int width = parity_width(c);
    plan_begin_draft(&c->plan);
    const int x = parity_input(c, width, ROWS_TOKENS, 2), in = parity_buffer(c, width, ROWS_TOKENS);
    op_add(&c->plan, OP_INPUT, PLAN_NONE, PLAN_NONE, in, PLAN_NONE);
    struct op op = op_of(&c->plan, OP_GATE, in, x, x);
    op.gate = GATE_NONE;
    plan_add_op(&c->plan, &op);
    parity_weight(c, FORMAT_F32, PARITY_VOCAB, width, 0);
    c->input = c->data[c->n_data - 1];
    c->input_width = width;
    parity_say(c, "width", width);
    parity_finish(c, x, x);
}

// The last layer of a recurrent group whose states have room for the op's part behind others.
static inline void parity_state(struct parity_case *c, struct op *op) {
    const int before = parity_below(c, 2) * 5;
    const struct plan_kv_group group = {.kind = KV_RECURRENT,
                                        .n_layer = 1 + parity_below(c, 3),
                                        .state = before + (int)op_state_floats(&c->plan, op) +
                                                 parity_below(c, 2) * 3};
    op->state.group = plan_add_kv_group(&c->plan, &group);
    // the part before is f32 where heads are bf16, and a convolution's part is
    c->plan.group[op->state.group].exact =
        op->kind == OP_CONV ? before + (int)op_state_floats(&c->plan, op) : before;
    op->state.layer = parity_below(c, group.n_layer);
    op->state.at = before;
    c->n_positions = PARITY_PAGED;
    parity_say(c, "layer", op->state.layer);
    parity_say(c, "at", before);
    plan_add_op(&c->plan, op);
    parity_finish(c, op->out, op->out);
}

static inline void parity_conv(struct parity_case *c) {
    const int width = parity_below(c, 4) ? parity_width(c) : 300;
    const int x = parity_input(c, width, ROWS_TOKENS, 2);
    struct op op = op_of(&c->plan, OP_CONV, x, PLAN_NONE, parity_buffer(c, width, ROWS_TOKENS));
    static const int taps[] = {2, 3, 4, 4, 5, 16};
    static const enum format_id formats[] = {FORMAT_F32, FORMAT_F16, FORMAT_BF16};
    op.state.taps = PARITY_PICK(c, taps);
    op.state.silu = parity_below(c, 2);
    op.weight = parity_weight(c, PARITY_PICK(c, formats), width, op.state.taps, 0);
    if (parity_below(c, 2)) op.bias = parity_vector(c, width);
    parity_say(c, "channels", width);
    parity_say(c, op.state.silu ? "silu, taps" : "taps", op.state.taps);
    parity_state(c, &op);
}

// Negative numbers: a state decays.
static inline int parity_decay(struct parity_case *c, int n) {
    const int weight = parity_weight(c, FORMAT_F32, 1, n, 0);
    float *data = c->data[c->n_data - 1];
    for (int i = 0; i < n; i++) data[i] = -fabsf(data[i]) - 0.01f;
    return weight;
}

// Heads of DELTA and SCAN.
static inline struct op parity_heads(struct parity_case *c, enum op_kind kind) {
    static const int ratios[] = {1, 2, 3};
    static const int dims[] = {1, 3, 8, 16, 17, 24, 64, 65, 80};
    const int n_key = 1 + parity_below(c, 3), n_head = n_key * PARITY_PICK(c, ratios);
    const int dim_k = PARITY_PICK(c, dims), dim_v = PARITY_PICK(c, dims);
    const int in = parity_input(c, n_head * dim_v + 2 * n_key * dim_k, ROWS_TOKENS, 1);
    const int logits = parity_input(c, n_head, ROWS_TOKENS, 4);
    struct op op = op_of(&c->plan, kind, in, logits, parity_buffer(c, n_head * dim_v, ROWS_TOKENS));
    op.state.n_head = n_head;
    op.state.n_key = n_key;
    op.state.dim_k = dim_k;
    op.state.dim_v = dim_v;
    op.weight = parity_decay(c, n_head);
    op.bias = parity_vector(c, n_head);
    parity_say(c, "heads", n_head);
    parity_say(c, "of", n_key);
    parity_say(c, "state", dim_k);
    parity_say(c, "x", dim_v);
    return op;
}

static inline void parity_delta(struct parity_case *c) {
    struct op op = parity_heads(c, OP_DELTA);
    op.state.beta = parity_input(c, op.state.n_head, ROWS_TOKENS, 4);
    op.state.is_tiled = parity_below(c, 2);
    op.state.eps = 1e-6f;
    parity_say(c, "tiled", op.state.is_tiled);
    parity_state(c, &op);
}

static inline void parity_scan(struct parity_case *c) {
    struct op op = parity_heads(c, OP_SCAN);
    op.state.skip = parity_vector(c, op.state.n_head);
    op.state.dt_min = parity_below(c, 2) ? 0.0f : 0.2f;
    op.state.dt_max = parity_below(c, 2) ? INFINITY : 1.5f;
    parity_state(c, &op);
}

// Two ops leave two parts of the output; the third part stays as it was.
static inline void parity_columns(struct parity_case *c) {
    const enum row_domain rows = parity_rows(c, 2);
    const int n = 1 + parity_below(c, 5), len = 1 + parity_below(c, 20);
    const int first = parity_below(c, 4), gap = parity_below(c, 4);
    const int in = parity_input(c, n * (2 * len + gap) + first, rows, 1);
    const int out = parity_input(c, n * len * 2 + 3, rows, 1);
    struct op op = op_of(&c->plan, OP_COLUMNS, in, PLAN_NONE, out);
    op.columns.n = n;
    op.columns.len = len;
    op.columns.from = first;
    op.columns.stride_from = 2 * len + gap;
    op.columns.stride_to = len;
    plan_add_op(&c->plan, &op);
    op.columns.from = first + len;
    op.columns.to = n * len;
    plan_add_op(&c->plan, &op);
    parity_say(c, "parts", n);
    parity_say(c, "of", len);
    parity_finish(c, out, out);
}

static inline void parity_gate(struct parity_case *c) {
    const enum gate_kind kind = (enum gate_kind)(c->index % (GATE_XIELU + 1));
    const bool is_xielu = kind == GATE_XIELU;
    const enum row_domain rows = parity_rows(c, 2);
    const bool is_factor = parity_below(c, 5) == 0 && !is_xielu;
    const bool has_up = is_factor || (parity_below(c, 3) && !is_xielu);
    const int width = parity_width(c), g = parity_input(c, is_factor ? 1 : width, rows, 9);
    const int u = has_up ? parity_input(c, width, rows, 9) : PLAN_NONE;
    const int outs[] = {is_factor ? u : g, u == PLAN_NONE ? g : u, parity_buffer(c, width, rows)};
    struct op op = op_of(&c->plan, OP_GATE, g, u, PARITY_PICK(c, outs));
    op.gate = kind;
    if (is_xielu) op.xielu = (struct gate_xielu){kind, 0.75f, 1.25f, 0.5f, -0.125f};
    parity_say(c, "factor", is_factor);
    parity_say(c, "kind", (int)op.gate);
    parity_say(c, "width", width);
    plan_add_op(&c->plan, &op);
    parity_finish(c, op.out, op.out);
}

// The route of random logits over the experts; its output.
static inline int parity_routed(struct parity_case *c, int n_expert, int used,
                                enum row_domain rows) {
    const int in = parity_input(c, n_expert, rows, 4);
    const int out = parity_buffer(c, 2 * used, rows);
    float *logit = c->data[c->n_data - 1]; // of 8 bits, so that no backend rounds them
    for (int i = 0; i < PARITY_VOCAB * n_expert; i++) logit[i] = rintf(logit[i] * 128) / 128;
    struct op op = op_of(&c->plan, OP_ROUTE, in, PLAN_NONE, out);
    op.route.n_used = used;
    op.route.normalize = parity_below(c, 2);
    op.route.score = parity_below(c, 2) ? ROUTE_SIGMOID : ROUTE_SOFTMAX;
    op.route.scale = parity_below(c, 2) ? 0 : 2.5f;
    op.route.least = 1e-20f;
    if (parity_below(c, 3) == 0) op.bias = parity_vector(c, n_expert);
    if (c->index % 3 == 1) {
        op.weight = parity_vector(c, n_expert);
        parity_say(c, "a factor for each expert", 1);
    }
    if (n_expert % 2 == 0 && used <= n_expert / 2 && parity_below(c, 2)) {
        op.route.n_group = 2;
        op.route.n_group_used = 1;
        op.route.group_best = 1 + parity_below(c, 2);
        parity_say(c, "groups, best", op.route.group_best);
    }
    parity_say(c, op.route.normalize ? "normalized, experts" : "experts", n_expert);
    parity_say(c, "used", used);
    plan_add_op(&c->plan, &op);
    return out;
}

static inline int parity_used(struct parity_case *c, int n_expert) {
    const int most = n_expert < 10 ? n_expert : 10;
    return 1 + parity_below(c, most);
}

static inline void parity_route(struct parity_case *c) {
    static const int counts[] = {1, 2, 3, 4, 7, 8, 16, 17, 60, 64, 128, 130};
    const enum row_domain rows = parity_rows(c, 2);
    const int n = PARITY_PICK(c, counts);
    const bool all = parity_below(c, 4) == 0 && n <= PLAN_MAX_USED;
    const int out = parity_routed(c, n, all ? n : parity_used(c, n), rows);
    parity_finish(c, out, out);
}

static inline int parity_experts_one(struct parity_case *c, enum format_id format, int in,
                                     int route, int n, int n_expert, int used) {
    const int out = plan_add_slots(&c->plan, "s", n, c->plan.buffer[in].rows, used);
    struct op op = op_of(&c->plan, OP_EXPERTS, in, route, out);
    op.experts.weighs_input = c->weighs_input && !c->plan.buffer[in].has_slots;
    op.weight = parity_weight(c, format, n, c->plan.buffer[in].width, n_expert);
    if (parity_below(c, 2)) op.bias = parity_weight(c, FORMAT_F32, n_expert, n, 0);
    parity_say(c, format_at(format)->name, n);
    plan_add_op(&c->plan, &op);
    return out;
}

// Each head's columns are a part of its part of a row, and so are its rows.
static inline void parity_head_products(struct parity_case *c) {
    static const int counts[] = {1, 3, 8, 16, 17, 40, 64};
    const enum format_id format = (enum format_id)(c->index % FORMAT_COUNT);
    const enum row_domain rows = parity_rows(c, 2);
    const int n = 1 + parity_below(c, PARITY_MAX_EXPERTS), cols = parity_cols(c, format);
    const int n_rows = PARITY_PICK(c, counts);
    const int before = parity_below(c, 2) * 3, behind = parity_below(c, 2) * 5;
    const int in = parity_input(c, n * (cols + before + behind), rows, 2);
    const int out = parity_input(c, n * (n_rows + behind) + before, rows, 1);
    struct op op = op_of(&c->plan, OP_HEADS, in, PLAN_NONE, out);
    op.weight = parity_weight(c, format, n_rows, cols, n);
    op.heads.n = n;
    op.heads.from = before;
    op.heads.stride_from = cols + before + behind;
    op.heads.to = before;
    op.heads.stride_to = n_rows + behind;
    parity_say(c, format_at(format)->name, n_rows);
    parity_say(c, "by", cols);
    parity_say(c, "heads", n);
    plan_add_op(&c->plan, &op);
    parity_finish(c, out, out);
}

static inline void parity_combined(struct parity_case *c, int in, int route) {
    const struct plan_buffer slots = c->plan.buffer[in];
    const int out = parity_input(c, slots.width, slots.rows, 1);
    struct op op = op_of(&c->plan, OP_COMBINE, in, route, out);
    op.experts.weighs_input = c->weighs_input;
    if (c->weighs_input) parity_say(c, "weighs input", 1);
    op.experts.set = c->index % 4 == 1;
    if (op.experts.set) parity_say(c, "set", 1);
    plan_add_op(&c->plan, &op);
    parity_finish(c, out, out);
}

// Up from the rows of tokens, at times beside another product and a gate, then down from slots.
static inline void parity_experts(struct parity_case *c) {
    static const int widths[] = {1, 3, 16, 17, 40, 64};
    const enum format_id format = (enum format_id)(c->index % FORMAT_COUNT);
    const enum row_domain rows = parity_rows(c, 2);
    c->weighs_input = parity_below(c, 3) == 0;
    const int n_expert = 1 + parity_below(c, 9), used = parity_used(c, n_expert);
    const int in = parity_input(c, parity_cols(c, format), rows, 2);
    const int route = parity_routed(c, n_expert, used, rows);
    int n = PARITY_PICK(c, widths);
    const enum format_id down = parity_format(c);
    if (parity_below(c, 2)) n = parity_cols(c, down);
    const bool goes_down = n % format_at(down)->block == 0;
    int out = parity_experts_one(c, format, in, route, n, n_expert, used);
    if (parity_below(c, 2)) {
        const int up = parity_experts_one(c, format, in, route, n, n_expert, used);
        struct op op = op_of(&c->plan, OP_GATE, out, up, out);
        op.gate = GATE_SILU;
        plan_add_op(&c->plan, &op);
    }
    if (goes_down)
        out = parity_experts_one(c, down, out, route, PARITY_PICK(c, widths), n_expert, used);
    parity_combined(c, out, route);
}

static inline void parity_combine(struct parity_case *c) {
    const enum row_domain rows = parity_rows(c, 2);
    c->weighs_input = parity_below(c, 3) == 0;
    const int n_expert = 1 + parity_below(c, 12), used = parity_used(c, n_expert);
    const int in = parity_input(c, 3, rows, 1);
    const int route = parity_routed(c, n_expert, used, rows);
    const int n = parity_width(c);
    parity_combined(c, parity_experts_one(c, FORMAT_F32, in, route, n, n_expert, used), route);
}

static inline void parity_softcap(struct parity_case *c) {
    static const float caps[] = {0.5f, 5, 30, 50};
    const enum row_domain rows = parity_rows(c, 3);
    const int width = parity_width(c), x = parity_input(c, width, rows, 40);
    struct op op = op_of(&c->plan, OP_SOFTCAP, PLAN_NONE, PLAN_NONE, x);
    op.softcap.cap = PARITY_PICK(c, caps);
    parity_say(c, "width", width);
    parity_say(c, "cap", (int)op.softcap.cap);
    plan_add_op(&c->plan, &op);
    parity_finish(c, x, x);
}

static inline void parity_temper(struct parity_case *c) {
    static const int lengths[] = {1, 7, 16, 40, 8192};
    const int width = parity_width(c), x = parity_input(c, width, ROWS_TOKENS, 2);
    struct op op = op_of(&c->plan, OP_TEMPER, PLAN_NONE, PLAN_NONE, x);
    op.temper.length = PARITY_PICK(c, lengths);
    op.temper.offset = parity_below(c, 2);
    op.temper.factor = 0.1f + 0.3f * (float)parity_below(c, 4);
    parity_say(c, "width", width);
    parity_say(c, "length", op.temper.length);
    parity_say(c, "offset", op.temper.offset);
    plan_add_op(&c->plan, &op);
    parity_finish(c, x, x);
}

// ---------------------------------------------------------------- a case

static inline void parity_case_destroy(struct parity_case *c) {
    plan_deinit(&c->plan);
    for (int i = 0; i < c->n_data; i++) free(c->data[i]);
    free(c);
}

static inline struct parity_case *parity_case_create(enum op_kind kind, int index) {
    static void (*const build[OP_COUNT])(struct parity_case *) = {
        [OP_EMBED] = parity_embed,         [OP_GATHER] = parity_gather_rows,
        [OP_NORM] = parity_norm,           [OP_MATMUL] = parity_matmul,
        [OP_ROPE] = parity_rope,           [OP_KV_APPEND] = parity_kv_append,
        [OP_ATTENTION] = parity_attention, [OP_CONV] = parity_conv,
        [OP_GATE] = parity_gate,           [OP_ROUTE] = parity_route,
        [OP_EXPERTS] = parity_experts,     [OP_COMBINE] = parity_combine,
        [OP_SOFTCAP] = parity_softcap,     [OP_INPUT] = parity_input_rows,
        [OP_DELTA] = parity_delta,         [OP_SCAN] = parity_scan,
        [OP_COLUMNS] = parity_columns,     [OP_TEMPER] = parity_temper,
        [OP_HEADS] = parity_head_products,
    };
    struct parity_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    check(build[kind], "no cases for the op %s", op_name(kind));
    c->kind = kind;
    c->index = index;
    c->random = (uint64_t)kind * 1000003 + (uint64_t)index * 7919 + 5;
    c->n_positions = PARITY_FAR;
    plan_init(&c->plan);
    build[kind](c);
    return c;
}

#endif
