// See roundings.h. The taps of a layer are in one plan: the ops up to the last tap, with the taps
// among them. All rows are rows of tokens there, so that one kind of tap is enough.
//
// A tap must not change how a backend fuses ops, so that bits stay the same. An input is tapped in
// front of a product that reads it, and values behind their product. Attention itself may norm and
// turn queries and keys. So they are computed once more, in a buffer beside theirs.
//
// An input with slots has a row for each expert of a token. Its tap is an op EXPERTS, whose matrix
// puts the row at a place of the expert's own, and COMBINE, which multiplies it by the weight w of
// the expert. A bias of 1 at a further place gives w itself. A 16-bit number times w, divided by w,
// is again nearest to that number.
#include "roundings.h"

#include "base/half.h"
#include "check.h"
#include "tensor_bytes.h"

enum { MAX_SITES = 512 };

// An input that is rounded.
struct site {
    int op, in;      // the first op that reads it, and which of its inputs it is
    int part;        // the plan that has its tap
    int before;      // op that the tap is in front of
    int buffer;      // that is tapped
    int first, end;  // of queries, keys and values: ops [first, end) that write it are among these
    bool is_single;  // the same: one head, which is normed
    int at, width;   // place in the logits of that plan; width: of the input
    int n_expert;    // of an input with slots; 0: it has none
    bool is_bf16;    // its type
    float *value;    // [n, width] or [n, n_expert, width]
    uint16_t *ones;  // of the tap: a matrix, or one for each expert
    uint16_t **each; // [n_expert] these
    float *bias;     // of a tap with experts
    uint8_t *twice[2]; // of a single head: weights and biases of two
};

struct reading {
    const struct plan *plan;
    const struct backend_class *cls;
    const char *kv_type;
    const int32_t *token;
    int n;
    struct site site[MAX_SITES];
    int n_site, n_part;
};

static void *zeros(size_t n, size_t size) {
    void *memory = calloc(n, size);
    assert_non_null(memory);
    return memory;
}

// ---------------------------------------------------------------- where values are rounded

static bool is_product(const struct op *op) {
    return op->kind == OP_MATMUL || op->kind == OP_EXPERTS;
}

static bool is_bf16_of(const struct reading *d, const struct op *op) {
    if (!is_product(op)) return strcmp(d->kv_type, "bf16") == 0;
    return d->plan->weight[op->weight].format == FORMAT_BF16;
}

// The site of an earlier product with the same input; NULL: none. The buffer was not written since.
static struct site *site_shared(struct reading *d, int index) {
    const struct op *op = &d->plan->op[index];
    for (int i = index - 1; i >= 0; i--) {
        const struct op *before = &d->plan->op[i];
        if (before->out == op->in[0]) return NULL;
        if (!is_product(before) || before->in[0] != op->in[0]) continue;
        for (int s = 0; s < d->n_site; s++)
            if (d->site[s].op == i && d->site[s].is_bf16 == is_bf16_of(d, op)) return &d->site[s];
    }
    return NULL;
}

static struct site *site_add(struct reading *d, int index, int in, int part) {
    const struct op *op = &d->plan->op[index];
    const struct plan_buffer *buffer = &d->plan->buffer[op->in[in]];
    check(d->n_site < MAX_SITES, "more than %d inputs", MAX_SITES);
    struct site *s = &d->site[d->n_site++];
    *s = (struct site){.op = index,
                       .in = in,
                       .part = part,
                       .before = index,
                       .buffer = op->in[in],
                       .width = buffer->width,
                       .is_bf16 = is_bf16_of(d, op)};
    if (buffer->slots > 1) s->n_expert = d->plan->weight[op->weight].n_expert;
    const size_t rows = (size_t)d->n * (size_t)(s->n_expert ? s->n_expert : 1);
    s->value = zeros(rows * (size_t)s->width, sizeof *s->value);
    return s;
}

// The product that wrote the buffer, in front of `index`.
static int product_of(const struct plan *plan, int index, int buffer) {
    for (int i = index - 1; i >= 0; i--)
        if (plan->op[i].kind == OP_MATMUL && plan->op[i].out == buffer) return i;
    check(false, "op %d reads what no product wrote", index);
    return PLAN_NONE;
}

// A query, key or value of attention. append: the op that stores keys and values. The tap is behind
// the last product in front of it.
static struct site *entry_add(struct reading *d, int index, int in, int append, int part) {
    const struct plan *plan = d->plan;
    const int dim = plan->group[plan->op[append].kv.group].dim_k;
    struct site *s = site_add(d, index, in, part);
    for (int i = index - 1; i > append; i--)
        if (plan->op[i].kind == OP_GATHER && plan->op[i].out == s->buffer)
            s->buffer = plan->op[i].in[0];
    s->first = product_of(plan, append, s->buffer);
    s->end = append;
    s->before = append;
    while (plan->op[s->before - 1].kind != OP_MATMUL) s->before--;
    for (int i = s->first; i < append; i++)
        s->is_single |= plan->op[i].kind == OP_NORM && plan->op[i].out == s->buffer &&
                        s->width == dim && plan->op[i].norm.group == dim;
    return s;
}

// All sites of the plan. A layer is a part; ops before and behind the layers belong to the next
// one.
static void sites_find(struct reading *d, struct roundings *out) {
    int layer = -1, part = 0, append = -1;
    for (int i = 0; i < d->plan->n_op; i++) {
        const struct op *op = &d->plan->op[i];
        if (op->layer >= 0 && op->layer != layer) part += layer >= 0, layer = op->layer;
        if (op->kind == OP_KV_APPEND) {
            append = i;
            out->in[1][i] = entry_add(d, i, 1, append, part)->value;
        }
        // attention over another layer's keys has no append in front of it
        if (op->kind == OP_ATTENTION && d->plan->op[append].layer != op->layer) append = i;
        if (op->kind == OP_KV_APPEND || op->kind == OP_ATTENTION)
            out->in[0][i] = entry_add(d, i, 0, append, part)->value;
        if (!is_product(op)) continue;
        struct site *s = site_shared(d, i);
        out->in[0][i] = (s ? s : site_add(d, i, 0, part))->value;
    }
    d->n_part = part + 1;
}

// ---------------------------------------------------------------- plans with taps

struct tapped {
    struct plan plan;
    int *buffer; // of the plan's buffers here
    int tap;     // buffer
    int n;       // numbers of a row of the tap
    bool is_written;
};

static int mapped(const struct tapped *t, int buffer) {
    return buffer == PLAN_NONE ? PLAN_NONE : t->buffer[buffer];
}

// Columns of a tap's matrix.
static int cols_of(const struct site *s) { return s->is_single ? 2 * s->width : s->width; }

// Ones of a tap: row `at + i` of the matrix takes element i.
static void ones_put(const struct site *s, uint16_t *matrix, int at) {
    for (int i = 0; i < s->width; i++)
        matrix[(size_t)(at + i) * (size_t)cols_of(s) + (size_t)i] = s->is_bf16 ? 0x3f80 : 0x3c00;
}

static int ones_add(struct tapped *t, struct site *s) {
    const size_t size = (size_t)t->n * (size_t)cols_of(s);
    const int n_expert = s->n_expert, n = n_expert ? n_expert : 1;
    s->ones = zeros(size * (size_t)n, sizeof *s->ones);
    s->each = zeros((size_t)n, sizeof *s->each);
    for (int k = 0; k < n; k++) {
        s->each[k] = s->ones + size * (size_t)k;
        ones_put(s, s->each[k], s->at + k * s->width);
    }
    return plan_add_weight(&t->plan,
                           &(struct plan_weight){.name = "tap",
                                                 .format = s->is_bf16 ? FORMAT_BF16 : FORMAT_F16,
                                                 .rows = t->n,
                                                 .cols = cols_of(s),
                                                 .data = n_expert ? NULL : s->ones,
                                                 .bytes = size * (size_t)n * sizeof *s->ones,
                                                 .n_expert = n_expert,
                                                 .expert_data = n_expert
                                                                    ? (const void *const *)s->each
                                                                    : NULL});
}

// The expert's weight is put behind the rows of all experts.
static int bias_add(struct tapped *t, struct site *s) {
    const size_t size = (size_t)t->n * (size_t)s->n_expert;
    s->bias = zeros(size, sizeof *s->bias);
    for (int k = 0; k < s->n_expert; k++)
        s->bias[k * t->n + s->at + s->n_expert * s->width + k] = 1;
    return plan_add_weight(&t->plan, &(struct plan_weight){.name = "tap",
                                                           .format = FORMAT_F32,
                                                           .rows = s->n_expert,
                                                           .cols = t->n,
                                                           .data = s->bias,
                                                           .bytes = size * sizeof *s->bias});
}

// Two times the rows of a matrix, or a vector two times; PLAN_NONE stays.
static int twice_add(struct tapped *t, int weight, uint8_t **data) {
    if (weight == PLAN_NONE) return PLAN_NONE;
    struct plan_weight w = t->plan.weight[weight];
    *data = zeros(2, w.bytes);
    const void *at = weight_brought(&t->plan, w.data, w.bytes, *data);
    if (at != *data) memcpy(*data, at, w.bytes);
    memcpy(*data + w.bytes, *data, w.bytes);
    *(w.rows == 1 ? &w.cols : &w.rows) *= 2;
    w.bytes *= 2;
    w.data = *data;
    return plan_add_weight(&t->plan, &w);
}

// Queries or keys in a buffer of their own, by copies of the ops that write them. Norms of whole
// rows and of heads have different sums, so a single head gets a second one beside it.
static int beside_add(const struct reading *d, struct tapped *t, struct site *s) {
    const int beside = plan_add_buffer(&t->plan, "beside", cols_of(s), ROWS_TOKENS);
    for (int i = s->first; i < s->end; i++) {
        struct op op = d->plan->op[i];
        if (op.out != s->buffer) continue;
        op.in[0] = op.in[0] == s->buffer ? beside : mapped(t, op.in[0]);
        op.out = beside;
        op.rows = ROWS_TOKENS;
        if (s->is_single && op.kind == OP_MATMUL) {
            op.weight = twice_add(t, op.weight, &s->twice[0]);
            op.bias = twice_add(t, op.bias, &s->twice[1]);
        }
        if (s->is_single && op.kind == OP_ROPE) op.rope.n_head = 2;
        plan_add_op(&t->plan, &op);
    }
    return beside;
}

// Whether other ops than a product write it.
static bool is_changed(const struct reading *d, const struct site *s) {
    for (int i = s->first + 1; i < s->end; i++)
        if (d->plan->op[i].out == s->buffer) return true;
    return false;
}

static void tap_add(const struct reading *d, struct tapped *t, struct site *s) {
    const struct op *op = &d->plan->op[s->op];
    const int from = is_changed(d, s) ? beside_add(d, t, s) : mapped(t, s->buffer);
    struct op tap = {.kind = OP_MATMUL,
                     .layer = op->layer,
                     .in = {from, PLAN_NONE},
                     .out = t->tap,
                     .weight = ones_add(t, s),
                     .bias = PLAN_NONE};
    if (s->n_expert) {
        const int slots = d->plan->buffer[op->in[s->in]].slots;
        tap.kind = OP_EXPERTS;
        tap.in[1] = mapped(t, op->in[1]);
        tap.out = plan_add_slots(&t->plan, "slots", t->n, ROWS_TOKENS, slots);
        tap.bias = bias_add(t, s);
        plan_add_op(&t->plan, &tap);
        tap = (struct op){.kind = OP_COMBINE,
                          .layer = op->layer,
                          .in = {tap.out, tap.in[1]},
                          .out = t->tap,
                          .weight = PLAN_NONE,
                          .bias = PLAN_NONE};
        check(t->is_written, "the first tap of layer %d has slots", op->layer);
    } else {
        tap.matmul.scale = 1;
        tap.matmul.add = t->is_written;
    }
    plan_add_op(&t->plan, &tap);
    t->is_written = true;
}

// The buffers, weights, ropes and groups of the plan, and the tap.
static void tapped_init(const struct reading *d, struct tapped *t) {
    const struct plan *plan = d->plan;
    plan_init(&t->plan);
    t->plan.fetch = plan->fetch; // its own weights are in memory, the plan's are not
    t->plan.fetch_ctx = plan->fetch_ctx;
    t->buffer = zeros((size_t)plan->n_buffer, sizeof *t->buffer);
    for (int i = 0; i < plan->n_buffer; i++)
        t->buffer[i] = plan_add_slots(&t->plan, plan->buffer[i].name, plan->buffer[i].width,
                                      ROWS_TOKENS, plan->buffer[i].slots);
    for (int i = 0; i < plan->n_weight; i++) plan_add_weight(&t->plan, &plan->weight[i]);
    for (int i = 0; i < plan->n_rope; i++) plan_add_rope(&t->plan, &plan->rope[i]);
    for (int i = 0; i < plan->n_group; i++) plan_add_kv_group(&t->plan, &plan->group[i]);
    t->tap = plan_add_buffer(&t->plan, "tap", t->n, ROWS_TOKENS);
    t->plan.logits = plan_add_buffer(&t->plan, "logits", t->n, ROWS_LOGITS);
    t->plan.n_vocab = t->n;
}

// The ops up to the part's last tap. A gather is left out: its result is its input.
static void tapped_fill(struct reading *d, struct tapped *t, int part) {
    int last = -1;
    for (int s = 0; s < d->n_site; s++)
        if (d->site[s].part == part && d->site[s].before > last) last = d->site[s].before;
    for (int i = 0; i <= last; i++) {
        struct op op = d->plan->op[i];
        for (int s = 0; s < d->n_site; s++)
            if (d->site[s].part == part && d->site[s].before == i) tap_add(d, t, &d->site[s]);
        if (op.kind == OP_GATHER) t->buffer[op.out] = t->buffer[op.in[0]];
        if (op.kind == OP_GATHER || i == last) continue;
        op.rows = ROWS_TOKENS;
        op.out = mapped(t, op.out);
        for (int k = 0; k < 2; k++) op.in[k] = mapped(t, op.in[k]);
        plan_add_op(&t->plan, &op);
    }
    plan_add_op(&t->plan, &(struct op){.kind = OP_GATHER,
                                       .rows = ROWS_LOGITS,
                                       .layer = -1,
                                       .in = {t->tap, PLAN_NONE},
                                       .out = t->plan.logits,
                                       .weight = PLAN_NONE,
                                       .bias = PLAN_NONE});
}

// ---------------------------------------------------------------- running them

// A 16-bit number from its product with w.
static float divided(const struct site *s, float product, float w) {
    const float x = w == 0 ? 0 : product / w;
    return s->is_bf16 ? bf16_to_f32(f32_to_bf16(x)) : f16_to_f32(f32_to_f16(x));
}

static void site_take(const struct site *s, int row, const float *logits) {
    const float *from = logits + s->at;
    const int n = s->n_expert ? s->n_expert : 1;
    for (int k = 0; k < n; k++) {
        float *to = s->value + ((size_t)row * (size_t)n + (size_t)k) * (size_t)s->width;
        for (int i = 0; i < s->width; i++, from++)
            to[i] = s->n_expert ? divided(s, *from, logits[s->at + n * s->width + k]) : *from;
    }
}

static void batch_run(struct backend *backend, int n_group, const int32_t *token, int n,
                      struct step_result *result) {
    enum { MAX_PAGES = 64 };
    uint32_t page[MAX_PAGES], *table[PLAN_MAX_KV_GROUPS];
    struct batch_page clear[PLAN_MAX_KV_GROUPS * MAX_PAGES];
    const int n_pages = (n + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    struct batch_builder builder;
    rn_error err = {0};
    assert_true(n_pages <= MAX_PAGES);
    assert_int_equal(batch_builder_init(&builder, n_group, n, n, 1, &err), RN_OK);
    batch_begin(&builder, NULL);
    for (int i = 0; i < n_pages; i++) page[i] = (uint32_t)i;
    for (int g = 0; g < n_group; g++) {
        table[g] = page;
        for (int i = 0; i < n_pages; i++)
            clear[g * n_pages + i] = (struct batch_page){g, page[i], BATCH_ZERO};
    }
    batch_add(&builder,
              &(struct batch_rows){.page_table = table, .n_tokens = n, .token = token, .n_out = n});
    builder.batch.page = clear;
    builder.batch.n_pages = n_group * n_pages;
    check(backend_run(backend, &builder.batch, result, &err) == RN_OK, "%s", err.message);
    batch_builder_deinit(&builder);
}

void roundings_run(const struct backend_class *cls, const struct plan *plan, const char *kv_type,
                   const int32_t *token, int n, float *logits) {
    struct backend_config config = {.kv_type = kv_type, .sizes = {n, n, 1}};
    struct backend *backend;
    struct step_result result;
    rn_error err = {0};
    for (int g = 0; g < plan->n_group; g++) config.n_pages[g] = (uint32_t)(n / KV_PAGE_TOKENS + 1);
    assert_int_equal(pool_create_here(1, true, &config.pool, NULL), RN_OK);
    check(cls->create(plan, &config, &backend, &err) == RN_OK, "%s", err.message);
    batch_run(backend, plan->n_group, token, n, &result);
    for (int r = 0; r < n; r++)
        memcpy(logits + (size_t)r * (size_t)plan->n_vocab, result.logits[r],
               (size_t)plan->n_vocab * sizeof *logits);
    backend_destroy(backend);
    pool_destroy(config.pool);
}

static void part_read(struct reading *d, int part) {
    struct tapped t = {.n = 0};
    rn_error err = {0};
    for (int i = 0; i < d->n_site; i++) {
        struct site *s = &d->site[i];
        if (s->part != part) continue;
        s->at = t.n;
        t.n += s->n_expert ? s->n_expert * (s->width + 1) : s->width;
    }
    tapped_init(d, &t);
    tapped_fill(d, &t, part);
    check(plan_finish(&t.plan, &err) == RN_OK, "%s", err.message);
    float *logits = zeros((size_t)d->n * (size_t)t.n, sizeof *logits);
    roundings_run(d->cls, &t.plan, d->kv_type, d->token, d->n, logits);
    for (int i = 0; i < d->n_site; i++) {
        struct site *s = &d->site[i];
        if (s->part != part) continue;
        for (int r = 0; r < d->n; r++) site_take(s, r, logits + (size_t)r * (size_t)t.n);
        free(s->ones);
        free(s->each);
        free(s->bias);
        free(s->twice[0]);
        free(s->twice[1]);
    }
    free(logits);
    plan_deinit(&t.plan);
    free(t.buffer);
}

void roundings_read(struct roundings *out, const struct backend_class *cls, const struct plan *plan,
                    const char *kv_type, const int32_t *token, int n) {
    struct reading *d = zeros(1, sizeof *d);
    *d = (struct reading){.plan = plan, .cls = cls, .kv_type = kv_type, .token = token, .n = n};
    for (int i = 0; i < 2; i++) out->in[i] = zeros((size_t)plan->n_op, sizeof *out->in[i]);
    sites_find(d, out);
    for (int part = 0; part < d->n_part; part++) part_read(d, part);
    out->owned = zeros((size_t)d->n_site, sizeof *out->owned);
    out->n_owned = d->n_site;
    for (int i = 0; i < d->n_site; i++) out->owned[i] = d->site[i].value;
    free(d);
}

void roundings_free(struct roundings *r) {
    for (int i = 0; i < r->n_owned; i++) free(r->owned[i]);
    free(r->owned);
    for (int i = 0; i < 2; i++) free((void *)r->in[i]);
}
