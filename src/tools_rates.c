// The rates of this machine for predictions (plan/predict.h), measured on small synthetic matrices
// that run through the backend: a product of each format at several numbers of rows, from memory
// and from the cache; attention; the ops over rows. No model's step is measured. Times are medians,
// so that a core that the system took away for a while does not show.
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cost_rates.h"
#include "runnel_model.h"
#include "tools.h"
#include "weights/synthetic.h"

enum {
    REPETITIONS = 7,
    FEW_REPETITIONS = 3,         // where a turn takes longer than
    LONG_TURN_NS = 1000000000,   // this
    N_VOCAB = 16,                // rows of the probe's embedding and head
    CACHED_BYTES_MAX = 16 << 20, // of matrices that stay in the cache
    STREAM_BYTES = 64 << 20,
    STREAM_BYTES_MAX = 1 << 30,
    STREAM_ROWS = 4096, // of its matrices
    STREAM_COLS = 2048,
    ROUGH_BYTES = 1 << 20, // instead, for tests
    BANDWIDTH_BYTES = 512 << 20,
    BANDWIDTH_MS = 200,
    SET_MS = 60,         // of each working set
    AROUND_MS = 20,      // around a product
    STREAM_ROWS_MAX = 8, // products of more rows are limited by arithmetic
    SHORT_DEPTH = 32,    // of attention, for its time per op and per sequence
    MEDIUM_DEPTH = 512,  // for its time per byte in the cache
    LONG_DEPTH = 2048,   // in memory
    PROMPT_DEPTH = 512,  // for its time per operation
    PROMPT_TOKENS = 128,
    START_TOKENS = 64, // of a prompt's start
    OP_ROWS = 16,
    OP_WIDTH = 2048,
    MAX_SEQS = 64,
};

// ---------------------------------------------------------------- plans

// A plan that stands in for a model, and the memory behind its weights.
struct probe {
    rn_model model;
    struct weights *weights; // the matrices' values; NULL: none
    float *floats;           // of the embedding, the head and vectors
};

static void probe_deinit(struct probe *probe) {
    plan_deinit(&probe->model.model.plan);
    weights_close(probe->weights);
    free(probe->floats);
}

static rn_status probe_init(struct probe *probe, int n_floats, rn_error *err) {
    *probe = (struct probe){.model = {.has_plan = true}};
    probe->model.info = (rn_model_info){.path = "probe", .n_ctx_train = INT32_MAX / 2};
    plan_init(&probe->model.model.plan);
    probe->floats = malloc((size_t)n_floats * sizeof *probe->floats);
    if (!probe->floats) return err_set(err, RN_ERR_NOMEM, "no memory for %d floats", n_floats);
    for (int i = 0; i < n_floats; i++) probe->floats[i] = 0.01f * (float)(i % 13 - 6);
    return RN_OK;
}

static struct plan *plan_of(struct probe *probe) { return &probe->model.model.plan; }

static int add_floats(struct probe *probe, const char *name, int64_t rows, int64_t cols) {
    const struct plan_weight weight = {.name = name,
                                       .format = FORMAT_F32,
                                       .rows = rows,
                                       .cols = cols,
                                       .data = probe->floats,
                                       .bytes = (uint64_t)(rows * cols) * sizeof(float)};
    return plan_add_weight(plan_of(probe), &weight);
}

static struct op op_make(const struct plan *plan, enum op_kind kind, int in, int out) {
    return (struct op){.kind = kind,
                       .rows = out == PLAN_NONE ? ROWS_TOKENS : plan->buffer[out].rows,
                       .in = {in, PLAN_NONE},
                       .out = out,
                       .weight = PLAN_NONE,
                       .bias = PLAN_NONE};
}

static void add_product(struct plan *plan, int in, int out, int weight) {
    struct op op = op_make(plan, OP_MATMUL, in, out);
    op.weight = weight;
    op.matmul.scale = 1;
    plan_add_op(plan, &op);
}

// x, the rows that every probe starts from.
static int add_embedding(struct probe *probe, int width) {
    struct plan *plan = plan_of(probe);
    const int x = plan_add_buffer(plan, "x", width, ROWS_TOKENS);
    struct op op = op_make(plan, OP_EMBED, PLAN_NONE, x);
    op.weight = add_floats(probe, "token_embd.weight", N_VOCAB, width);
    op.embed.scale = 1;
    plan_add_op(plan, &op);
    return x;
}

static void add_norm(struct probe *probe, int in, int out, int width) {
    struct op op = op_make(plan_of(probe), OP_NORM, in, out);
    op.weight = add_floats(probe, "norm.weight", 1, width);
    op.norm.kind = NORM_RMS;
    op.norm.group = width;
    op.norm.eps = 1e-5f;
    plan_add_op(plan_of(probe), &op);
}

static rn_status add_head(struct probe *probe, int x, int width, rn_error *err) {
    struct plan *plan = plan_of(probe);
    const int out = plan_add_buffer(plan, "out", width, ROWS_OUT);
    plan->n_vocab = N_VOCAB;
    plan->hidden = PLAN_NONE;
    plan->logits = plan_add_buffer(plan, "logits", N_VOCAB, ROWS_LOGITS);
    const struct op gather = op_make(plan, OP_GATHER, x, out);
    plan_add_op(plan, &gather);
    add_product(plan, out, plan->logits, add_floats(probe, "output.weight", N_VOCAB, width));
    return plan_finish(plan, err);
}

// ---------------------------------------------------------------- runs

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at_least(double value, double least) { return value > least ? value : least; }

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

// A product so small that only the time of its stage shows.
#define SMALL_PRODUCT "small"

// The median times of each kind of op in a step, of all its ops together.
struct stage_times {
    double kind_ns[OP_COUNT]; // of products, the small one's
    double rest_ns;           // of the step, beside its stages
};

static void stages_add(const struct tools_stage *stage, int n, double *kind_ns) {
    for (int i = 0; i < n; i++) {
        const size_t len = strcspn(stage[i].name, " ");
        const bool is_small = strstr(stage[i].name, SMALL_PRODUCT) != NULL;
        if (!is_small && !strncmp(stage[i].name, "matmul", len)) continue;
        for (int kind = 0; kind < OP_COUNT; kind++)
            if (strlen(op_name((enum op_kind)kind)) == len &&
                !strncmp(stage[i].name, op_name((enum op_kind)kind), len))
                kind_ns[kind] += (double)stage[i].ns;
    }
}

// Before each repetition flush_bytes are read, so that nothing of the step is in the cache.
static rn_status stage_times(struct tools_runner *runner, const struct tools_work *work,
                             uint64_t flush_bytes, bool (*stop)(void), struct stage_times *out,
                             rn_error *err) {
    double sample[OP_COUNT + 1][REPETITIONS];
    for (int i = -1; i < REPETITIONS; i++) { // the first one warms up
        struct tools_stage *stage;
        double kind_ns[OP_COUNT] = {0}, all_ns = 0;
        uint64_t total;
        int n;
        if (flush_bytes) tools_runner_bandwidth(runner, flush_bytes, 1);
        const rn_status status = tools_runner_stages(runner, work, stop, &stage, &n, &total, err);
        if (status) return status;
        stages_add(stage, n, kind_ns);
        for (int s = 0; s < n; s++) all_ns += (double)stage[s].ns;
        free(stage);
        if (i < 0) continue;
        for (int kind = 0; kind < OP_COUNT; kind++) sample[kind][i] = kind_ns[kind];
        sample[OP_COUNT][i] = (double)total - all_ns;
    }
    for (int kind = 0; kind < OP_COUNT; kind++)
        out->kind_ns[kind] = median(sample[kind], REPETITIONS);
    out->rest_ns = median(sample[OP_COUNT], REPETITIONS);
    return RN_OK;
}

// ---------------------------------------------------------------- products

static struct tools_work rows_work(int rows) {
    return (
        struct tools_work){.n_seqs = 1, .n_positions = rows, .step_tokens = rows, .advance = rows};
}

// A matrix of each shape has as many weights. Differences of their times are times of outputs and
// of inputs.
enum { SQUARE, TALL, FLAT, SHAPES };
static const struct {
    int rows, cols;
} shapes[SHAPES] = {[SQUARE] = {2048, 1024}, [TALL] = {8192, 256}, [FLAT] = {512, 4096}};

#define PRODUCT "ffn_up"

// Products of at least that many bytes together; all write y, so each is a stage.
static rn_status product_probe(struct probe *probe, enum format_id format, int rows, int cols,
                               uint64_t bytes, rn_error *err) {
    char spec[64];
    snprintf(spec, sizeof spec, "probe:%s", format_at(format)->name);
    rn_status status = probe_init(probe, N_VOCAB * cols, err);
    if (!status) status = weights_open_synthetic(spec, &probe->weights, err);
    if (status) return status;
    const struct tensor_view *matrix =
        weights_tensor_find(probe->weights, "blk.0." PRODUCT ".weight");
    struct plan *plan = plan_of(probe);
    // whole blocks of random weights are random weights of any shape
    const struct plan_weight weight = {.name = matrix->name,
                                       .format = matrix->format,
                                       .rows = rows,
                                       .cols = cols,
                                       .data = matrix->data,
                                       .bytes = format_row_bytes(format, cols) * (uint64_t)rows};
    assert(weight.bytes <= matrix->bytes);
    const int n = (int)(bytes / weight.bytes) + 1;
    const int x = add_embedding(probe, (int)weight.cols);
    const int h = plan_add_buffer(plan, "h", (int)weight.cols, ROWS_TOKENS);
    const int y = plan_add_buffer(plan, "y", (int)weight.rows, ROWS_TOKENS);
    add_norm(probe, x, h, (int)weight.cols);
    // x and h by turns, because rows that are quantized already would not be quantized again
    for (int i = 0; i < n; i++) add_product(plan, i % 2 ? h : x, y, plan_add_weight(plan, &weight));
    return add_head(probe, x, (int)weight.cols, err);
}

static int products_count(const struct plan *plan) {
    int n = 0;
    for (int i = 0; i < plan->n_op; i++)
        n += plan->op[i].kind == OP_MATMUL && plan->op[i].rows == ROWS_TOKENS;
    return n;
}

static rn_status runner_make(const struct probe *probe, const struct tools_rates_options *options,
                             const struct tools_work *works, int n, struct tools_runner **out,
                             rn_error *err) {
    const struct tools_runner_options runner = {.place = options->place,
                                                .isa = options->isa,
                                                .n_threads = options->n_threads,
                                                .no_pin = options->no_pin,
                                                .kv_type = options->kv_type};
    return tools_runner_create(&probe->model, &runner, works, n, out, err);
}

static rn_status step_ns(struct tools_runner *runner, const struct tools_work *work,
                         bool (*stop)(void), double *out, rn_error *err) {
    uint64_t ns, experts;
    const rn_status status = tools_runner_run(runner, work, 0, stop, &ns, &experts, err);
    *out = (double)ns;
    return status;
}

// Of the products alone: beside small ones, the step's other ops would show.
static rn_status products_ns(struct tools_runner *runner, const struct tools_work *work,
                             bool (*stop)(void), double *out, rn_error *err) {
    struct tools_stage *stage;
    uint64_t total;
    int n;
    const rn_status status = tools_runner_stages(runner, work, stop, &stage, &n, &total, err);
    if (status) return status;
    *out = 0;
    for (int i = 0; i < n; i++)
        if (strstr(stage[i].name, PRODUCT)) *out += (double)stage[i].ns;
    free(stage);
    return *out > 0 ? RN_OK
                    : err_set(err, RN_ERR_UNSUPPORTED, "this backend does not time its stages");
}

// The time of one product, without the fixed time of its stage, at each number of rows. All points
// in turn: a slow moment of the machine falls on one sample of several points, not on all samples
// of one.
struct samples {
    int n;
    double ns[PREDICT_POINTS][REPETITIONS];
    double bandwidth[PREDICT_POINTS][REPETITIONS]; // around the sample, where it is wanted
};

// A turn: the times of all points.
struct point_turn {
    double ns[PREDICT_POINTS], bandwidth[PREDICT_POINTS];
};

static rn_status bandwidth_fail(rn_error *err) {
    return err_set(err, RN_ERR_NOMEM,
                   "too little free memory to measure its bandwidth; --bandwidth takes a figure");
}

static rn_status bandwidth_now(struct tools_runner *runner,
                               const struct tools_rates_options *options, double *out,
                               rn_error *err) {
    *out = options->is_rough ? 1e10 : tools_runner_bandwidth(runner, BANDWIDTH_BYTES, AROUND_MS);
    return *out > 0 ? RN_OK : bandwidth_fail(err);
}

// The bandwidth of a shared machine changes within seconds. So it is measured before and after each
// product that it may limit, and the larger one applies.
static rn_status stream_turn(struct tools_runner *runner, const struct tools_work *works,
                             const struct tools_rates_options *options, struct point_turn *out,
                             rn_error *err) {
    double before;
    rn_status status = bandwidth_now(runner, options, &before, err);
    for (int i = 0; i < PREDICT_POINTS && !status; i++) {
        double after = before;
        status = step_ns(runner, &works[i], options->stop, &out->ns[i], err);
        if (!status && predict_rows[i] <= STREAM_ROWS_MAX)
            status = bandwidth_now(runner, options, &after, err);
        out->bandwidth[i] = at_least(after, before);
        before = after;
    }
    return status;
}

static rn_status cached_turn(struct tools_runner *runner, const struct tools_work *works,
                             const struct tools_rates_options *options, struct point_turn *out,
                             rn_error *err) {
    rn_status status = RN_OK;
    for (int i = 0; i < PREDICT_POINTS && !status; i++)
        status = products_ns(runner, &works[i], options->stop, &out->ns[i], err);
    return status;
}

// Of a slow machine, or the reference without SIMD.
static bool is_long(const double ns[PREDICT_POINTS]) {
    double sum = 0;
    for (int i = 0; i < PREDICT_POINTS; i++) sum += ns[i];
    return sum > LONG_TURN_NS;
}

static rn_status points_measure(struct probe *probe, const struct tools_rates_options *options,
                                double stage_ns, bool is_stream, struct samples *out,
                                rn_error *err) {
    struct tools_work works[PREDICT_POINTS];
    struct tools_runner *runner;
    const double n_products = products_count(plan_of(probe));
    for (int i = 0; i < PREDICT_POINTS; i++) works[i] = rows_work(predict_rows[i]);
    rn_status status = runner_make(probe, options, works, PREDICT_POINTS, &runner, err);
    if (status) return status;
    out->n = options->is_rough ? 1 : REPETITIONS;
    for (int at = -1; at < out->n && !status; at++) { // the first turn warms up
        struct point_turn turn = {0};
        status = (is_stream ? stream_turn : cached_turn)(runner, works, options, &turn, err);
        if (at < 0 && is_long(turn.ns) && out->n > FEW_REPETITIONS) out->n = FEW_REPETITIONS;
        for (int i = 0; i < PREDICT_POINTS && at >= 0; i++) {
            const double ns = turn.ns[i] / n_products;
            out->ns[i][at] = at_least(ns - stage_ns, ns / 2);
            out->bandwidth[i][at] = turn.bandwidth[i];
        }
    }
    tools_runner_destroy(runner);
    return status;
}

// Fewer rows never take longer than more; where they seem to, something slowed them down.
static void medians_take(struct samples *samples, double out[PREDICT_POINTS]) {
    for (int i = PREDICT_POINTS - 1; i >= 0; i--) {
        out[i] = median(samples->ns[i], samples->n);
        if (i + 1 < PREDICT_POINTS && out[i] > out[i + 1]) out[i] = out[i + 1];
    }
}

static rn_status product_measure(const struct tools_rates_options *options,
                                 const struct predict_rates *base, enum format_id format, int rows,
                                 int cols, uint64_t bytes, bool is_stream, struct samples *out,
                                 rn_error *err) {
    struct probe probe;
    rn_status status = product_probe(&probe, format, rows, cols, bytes, err);
    if (!status)
        status = points_measure(&probe, options, base->op[OP_MATMUL].fixed_ns, is_stream, out, err);
    probe_deinit(&probe);
    return status;
}

// The times of the three shapes are bytes * cached + rows * output + columns * input. A rate below
// 0 is noise.
static void shapes_solve(enum format_id format, double square, double tall, double flat,
                         double *cached, double *output, double *input) {
    const double rows = shapes[TALL].rows - shapes[SQUARE].rows;
    const double rows_less = shapes[SQUARE].rows - shapes[FLAT].rows;
    const double cols = shapes[FLAT].cols - shapes[SQUARE].cols;
    const double cols_less = shapes[SQUARE].cols - shapes[TALL].cols;
    const double more = tall - square;  // = rows * output - cols_less * input
    const double wider = flat - square; // = cols * input - rows_less * output
    const double det = rows * cols - rows_less * cols_less;
    *output = (more * cols + wider * cols_less) / det;
    *input = (wider * rows + more * rows_less) / det;
    if (*input < 0) {
        *input = 0;
        *output = more / rows;
    }
    if (*output < 0) {
        *output = 0;
        *input = at_least(wider / cols, 0);
    }
    const double bytes =
        (double)format_row_bytes(format, shapes[SQUARE].cols) * shapes[SQUARE].rows;
    const double rest = square - *output * shapes[SQUARE].rows - *input * shapes[SQUARE].cols;
    *cached = at_least(rest, square / 2) / bytes;
}

// What the product of one row reaches of the bandwidth around it.
static double share_solve(const struct samples *stream, double bytes) {
    double value[REPETITIONS];
    for (int turn = 0; turn < stream->n; turn++)
        value[turn] = bytes / stream->ns[0][turn] * 1e9 / stream->bandwidth[0][turn];
    return median(value, stream->n);
}

// How much reading and computing overlap in products of predict_rows[i] rows. Computing was
// measured at another moment, perhaps a slower one. It takes no longer than the whole product, and
// no less than reading leaves of it; within these bounds the overlap is from 0 to 1.
static void overlap_solve(const struct samples *stream, int i, double bytes, double row_bytes,
                          struct predict_product *out) {
    double whole[REPETITIONS], rest[REPETITIONS];
    for (int turn = 0; turn < stream->n; turn++) {
        const double ns = stream->ns[i][turn];
        whole[turn] = at_least(ns - out->input[i] * STREAM_COLS, ns / 2) / bytes;
        rest[turn] = whole[turn] - 1e9 / (out->share * stream->bandwidth[i][turn]);
    }
    const double most = median(whole, stream->n), least = median(rest, stream->n);
    const double read = most - least, measured = out->cached[i] + out->output[i] / row_bytes;
    const double compute = measured > most ? most : at_least(measured, least);
    out->cached[i] *= compute / measured;
    out->output[i] *= compute / measured;
    const double overlap = (read + compute - most) / (read < compute ? read : compute);
    out->overlap[i] = overlap > 1 ? 1 : at_least(overlap, 0);
}

rn_status tools_rates_product(const struct tools_rates_options *options,
                              const struct predict_rates *base, enum format_id format,
                              struct predict_product *out, rn_error *err) {
    const uint64_t cache_bytes = base->cache_bytes, quarter = cache_bytes / 4;
    uint64_t stream_bytes = 3 * cache_bytes > STREAM_BYTES ? 3 * cache_bytes : STREAM_BYTES;
    uint64_t cached_bytes = quarter < CACHED_BYTES_MAX ? quarter : CACHED_BYTES_MAX;
    struct samples stream, shape[SHAPES];
    if (stream_bytes > STREAM_BYTES_MAX) stream_bytes = STREAM_BYTES_MAX;
    const int cut = options->is_rough ? 16 : 1;
    if (options->is_rough) stream_bytes = cached_bytes = 1;
    *out = (struct predict_product){.is_known = true};
    rn_status status = product_measure(options, base, format, STREAM_ROWS / cut, STREAM_COLS,
                                       stream_bytes, true, &stream, err);
    for (int i = 0; i < SHAPES && !status; i++)
        status = product_measure(options, base, format, shapes[i].rows / cut, shapes[i].cols,
                                 cached_bytes, false, &shape[i], err);
    if (status) return status;
    double ns[SHAPES][PREDICT_POINTS];
    for (int s = 0; s < SHAPES; s++) medians_take(&shape[s], ns[s]);
    for (int i = 0; i < PREDICT_POINTS; i++)
        shapes_solve(format, ns[SQUARE][i], ns[TALL][i], ns[FLAT][i], &out->cached[i],
                     &out->output[i], &out->input[i]);
    const double row_bytes = (double)format_row_bytes(format, STREAM_COLS);
    out->share = share_solve(&stream, row_bytes * STREAM_ROWS / cut);
    for (int i = 0; i < PREDICT_POINTS; i++)
        overlap_solve(&stream, i, row_bytes * STREAM_ROWS / cut, row_bytes, out);
    return RN_OK;
}

// ---------------------------------------------------------------- attention and ops over rows

// Norm, products, rope, append, attention and gate over heads of one shape.
static rn_status heads_probe(struct probe *probe, const struct plan_kv_group *like, int n_head,
                             rn_error *err) {
    const int q_width = n_head * like->dim_k, a_width = n_head * like->dim_v;
    const int k_width = like->n_head_kv * like->dim_k, v_width = like->n_head_kv * like->dim_v;
    const int widest = q_width > a_width ? q_width : a_width;
    static const float inv_freq[KV_DIM_MAX / 2];
    static const uint8_t zeros[32 * 34]; // a block of 32 weights for each row
    const int most = N_VOCAB > widest ? N_VOCAB : widest;
    rn_status status = probe_init(probe, most * (widest > 64 ? widest : 64), err);
    if (status) return status;
    struct plan *plan = plan_of(probe);
    const struct plan_kv_group group = {.kind = KV_FULL,
                                        .n_layer = 1,
                                        .n_head_kv = like->n_head_kv,
                                        .dim_k = like->dim_k,
                                        .dim_v = like->dim_v,
                                        .is_latent = like->is_latent};
    const struct plan_rope rope = {.n_rot = like->dim_k / 2 * 2,
                                   .inv_freq = inv_freq,
                                   .magnitude = 1};
    plan_add_kv_group(plan, &group);
    const int x = add_embedding(probe, q_width);
    const int h = plan_add_buffer(plan, "h", q_width, ROWS_TOKENS);
    const int narrow = plan_add_buffer(plan, "narrow", 32, ROWS_TOKENS);
    const int k = plan_add_buffer(plan, "k", k_width, ROWS_TOKENS);
    const int v = plan_add_buffer(plan, "v", v_width, ROWS_TOKENS);
    const int q = plan_add_buffer(plan, "q", q_width, ROWS_TOKENS);
    const int a = plan_add_buffer(plan, "a", a_width, ROWS_TOKENS);
    const int gate = plan_add_buffer(plan, "gate", q_width, ROWS_TOKENS);
    struct op op;
    add_norm(probe, x, h, q_width);
    // keys, values and queries by products from few floats, which cost little
    add_product(plan, h, narrow, add_floats(probe, "narrow.weight", 32, q_width));
    add_product(plan, narrow, k, add_floats(probe, "k.weight", k_width, 32));
    add_product(plan, narrow, v, add_floats(probe, "v.weight", v_width, 32));
    add_product(plan, narrow, q, add_floats(probe, "q.weight", q_width, 32));
    op = op_make(plan, OP_ROPE, PLAN_NONE, q);
    op.rope.rope = plan_add_rope(plan, &rope);
    op.rope.n_head = n_head;
    op.rope.dim = like->dim_k;
    plan_add_op(plan, &op);
    op = op_make(plan, OP_KV_APPEND, k, PLAN_NONE);
    if (!like->is_latent) op.in[1] = v;
    plan_add_op(plan, &op);
    const struct plan_weight small = {.name = SMALL_PRODUCT,
                                      .format = FORMAT_Q8_0,
                                      .rows = 32,
                                      .cols = 32,
                                      .data = zeros,
                                      .bytes = sizeof zeros};
    add_product(plan, narrow, plan_add_buffer(plan, "small", 32, ROWS_TOKENS),
                plan_add_weight(plan, &small));
    op = op_make(plan, OP_ATTENTION, q, a);
    op.kv.n_head = n_head;
    op.kv.scale = 0.1f;
    plan_add_op(plan, &op);
    op = op_make(plan, OP_GATE, h, gate);
    op.in[1] = q;
    op.gate = GATE_SILU;
    plan_add_op(plan, &op);
    return add_head(probe, x, q_width, err);
}

// Sequences at a depth, one query for each; their KV bytes are at least `bytes`.
static struct tools_work depth_work(uint64_t token_bytes, uint64_t bytes, int depth) {
    const uint64_t n = bytes / (token_bytes * (uint64_t)depth) + 1;
    return (struct tools_work){.n_seqs = n > MAX_SEQS ? MAX_SEQS : (int)n,
                               .depth = depth - 1,
                               .n_positions = 1,
                               .step_tokens = 1,
                               .advance = 1,
                               .all_logits = true};
}

static struct cost attention_cost(const struct plan *plan, const struct kv_bytes *kv,
                                  const struct tools_work *work) {
    struct batch_shape shape = {0};
    for (int i = 0; i < work->n_seqs; i++)
        batch_shape_add(plan, &shape, work->depth, work->step_tokens, 1);
    struct cost cost = {0};
    for (int i = 0; i < plan->n_op; i++)
        if (plan->op[i].kind == OP_ATTENTION) cost = op_cost(plan, &plan->op[i], kv, &shape);
    return cost;
}

// Pairs of works that give a line follow each other: MANY and MEDIUM, COLD_MANY and COLD_LONG. Cold
// works find nothing in the cache.
enum { SHORT, MANY, MEDIUM, START, PROMPT, COLD_MANY, COLD_LONG, WORKS };

// An op takes a fixed time, a time for each sequence or query, and a time for each byte or
// operation. Two works give both rates.
static void line_solve(double fixed_ns, const double ns[2], const double seqs[2],
                       const double bytes[2], double *seq_ns, double *byte_ns) {
    const double few = at_least(ns[0] - fixed_ns, 0), many = at_least(ns[1] - fixed_ns, 0);
    const double det = seqs[0] * bytes[1] - seqs[1] * bytes[0];
    *seq_ns = at_least((few * bytes[1] - many * bytes[0]) / det, 0);
    *byte_ns = at_least(many - seqs[1] * *seq_ns, 0) / bytes[1];
}

static void attention_solve(const struct tools_work works[WORKS],
                            const struct stage_times times[WORKS], const struct cost cost[WORKS],
                            struct predict_attention *out) {
    double ns[WORKS], bytes[WORKS], seqs[WORKS], append_ns[WORKS];
    for (int i = 0; i < WORKS; i++) {
        ns[i] = times[i].kind_ns[OP_ATTENTION];
        append_ns[i] = times[i].kind_ns[OP_KV_APPEND];
        bytes[i] = (double)cost[i].kv_read_bytes;
        seqs[i] = works[i].n_seqs;
    }
    // one short sequence takes hardly more than the fixed time
    *out = (struct predict_attention){.fixed_ns = ns[SHORT]};
    line_solve(out->fixed_ns, &ns[MANY], &seqs[MANY], &bytes[MANY], &out->cached.seq_ns,
               &out->cached.byte_ns);
    line_solve(out->fixed_ns, &ns[COLD_MANY], &seqs[COLD_MANY], &bytes[COLD_MANY],
               &out->memory.seq_ns, &out->memory.byte_ns);
    out->cached.append_ns = at_least(append_ns[MANY] - append_ns[SHORT], 0) / seqs[MANY];
    out->memory.append_ns = at_least(append_ns[COLD_MANY] - append_ns[SHORT], 0) / seqs[COLD_MANY];
    const double prompt_ns[] = {ns[START], ns[PROMPT]};
    const double rows[] = {START_TOKENS, PROMPT_TOKENS};
    const double flops[] = {(double)cost[START].flops, (double)cost[PROMPT].flops};
    line_solve(out->fixed_ns, prompt_ns, rows, flops, &out->row_ns, &out->flop_ns);
}

static rn_status attention_run(struct probe *probe, const struct tools_rates_options *options,
                               const struct kv_bytes *kv, uint64_t cache_bytes,
                               struct predict_attention *out, rn_error *err) {
    const uint64_t token_bytes = kv->page[0] / KV_PAGE_TOKENS;
    const struct tools_work works[WORKS] = {
        [SHORT] = depth_work(token_bytes, 1, SHORT_DEPTH),
        [MANY] = depth_work(token_bytes, UINT64_MAX / 2, SHORT_DEPTH),
        [MEDIUM] = depth_work(token_bytes, cache_bytes / 8, MEDIUM_DEPTH),
        [START] = rows_work(START_TOKENS),
        [PROMPT] = {.n_seqs = 1,
                    .depth = PROMPT_DEPTH,
                    .n_positions = PROMPT_TOKENS,
                    .step_tokens = PROMPT_TOKENS,
                    .advance = PROMPT_TOKENS},
        [COLD_MANY] = depth_work(token_bytes, UINT64_MAX / 2, SHORT_DEPTH),
        [COLD_LONG] = depth_work(token_bytes, options->is_rough ? 1 : 3 * cache_bytes, LONG_DEPTH),
    };
    struct stage_times times[WORKS];
    struct cost cost[WORKS];
    struct tools_runner *runner;
    rn_status status = runner_make(probe, options, works, WORKS, &runner, err);
    if (status) return status;
    for (int i = 0; i < WORKS && !status; i++) {
        const uint64_t flush_bytes = i >= COLD_MANY && !options->is_rough ? 2 * cache_bytes : 0;
        status = stage_times(runner, &works[i], flush_bytes, options->stop, &times[i], err);
        cost[i] = attention_cost(plan_of(probe), kv, &works[i]);
    }
    tools_runner_destroy(runner);
    if (!status) attention_solve(works, times, cost, out);
    return status;
}

rn_status tools_rates_attention(const struct tools_rates_options *options,
                                const struct plan_kv_group *group, int n_head, uint64_t cache_bytes,
                                struct predict_attention *out, rn_error *err) {
    struct probe probe;
    struct kv_bytes kv;
    rn_status status = heads_probe(&probe, group, n_head, err);
    if (!status) status = tools_kv_bytes(&probe.model, &options->place, options->kv_type, &kv, err);
    if (!status) status = attention_run(&probe, options, &kv, cache_bytes, out, err);
    probe_deinit(&probe);
    return status;
}

// A line through two measurements of a kind of op.
static struct predict_op op_line(double few_ns, double few_floats, double many_ns,
                                 double many_floats) {
    const double slope = at_least(many_ns - few_ns, 0) / (many_floats - few_floats);
    return (struct predict_op){at_least(few_ns - slope * few_floats, 0), slope};
}

static void floats_of(const struct plan *plan, const struct kv_bytes *kv, int rows,
                      double out[OP_COUNT]) {
    struct batch_shape shape = {0};
    batch_shape_add(plan, &shape, 0, rows, 1);
    memset(out, 0, OP_COUNT * sizeof *out);
    for (int i = 0; i < plan->n_op; i++) {
        const struct cost cost = op_cost(plan, &plan->op[i], kv, &shape);
        out[plan->op[i].kind] +=
            (double)(cost.act_bytes + cost.kv_read_bytes + cost.kv_write_bytes) / sizeof(float);
    }
}

// Of a working set that fits the cache in part: how much slower it is read than a small one, as a
// share of how much slower memory is.
static void sets_measure(struct tools_runner *runner, int ms, struct predict_rates *out) {
    const double cache = (double)out->cache_bytes;
    if (out->cache_bytes == 0) return;
    const double small = 1 / tools_runner_bandwidth(runner, (uint64_t)(cache / 4), ms);
    const double large = 1 / tools_runner_bandwidth(runner, (uint64_t)(4 * cache), ms);
    double least = 0;
    for (int i = 0; i < PREDICT_SETS; i++) {
        const double set =
            1 / tools_runner_bandwidth(runner, (uint64_t)(predict_sets[i] * cache), ms);
        const double share = large > small && isfinite(set) ? (set - small) / (large - small) : 1;
        least = out->memory_share[i] = share < least ? least : share > 1 ? 1 : share; // it grows
    }
}

static rn_status measurable_check(const struct tools_runner_info *info, rn_error *err) {
    if (info->has_bandwidth && info->has_stages) return RN_OK;
    return err_set(err, RN_ERR_UNSUPPORTED,
                   "backend '%s' does not measure its %s, so its speed cannot be predicted; "
                   "--bandwidth takes a figure",
                   info->backend, info->has_bandwidth ? "stages" : "bandwidth");
}

static rn_status ops_run(struct probe *probe, const struct tools_rates_options *options,
                         struct predict_rates *out, rn_error *err) {
    const struct tools_work works[] = {rows_work(1), rows_work(OP_ROWS)};
    struct stage_times times[2];
    struct kv_bytes kv;
    struct tools_runner *runner;
    rn_status status = tools_kv_bytes(&probe->model, &options->place, options->kv_type, &kv, err);
    if (!status) status = runner_make(probe, options, works, 2, &runner, err);
    if (status) return status;
    struct tools_runner_info info;
    tools_runner_get_info(runner, &info);
    if ((status = measurable_check(&info, err))) {
        tools_runner_destroy(runner);
        return status;
    }
    out->cache_bytes = info.cache_bytes;
    out->bandwidth =
        tools_runner_bandwidth(runner, options->is_rough ? ROUGH_BYTES : BANDWIDTH_BYTES,
                               options->is_rough ? 1 : BANDWIDTH_MS);
    if (out->bandwidth > 0)
        sets_measure(runner, options->is_rough ? 1 : SET_MS, out);
    else
        status = bandwidth_fail(err);
    out->int_flops = 2 * tools_runner_peak(runner, true);
    out->float_flops = 2 * tools_runner_peak(runner, false);
    for (int i = 0; i < 2 && !status; i++)
        status = stage_times(runner, &works[i], 0, options->stop, &times[i], err);
    tools_runner_destroy(runner);
    if (status) return status;
    double floats[2][OP_COUNT];
    for (int i = 0; i < 2; i++) floats_of(plan_of(probe), &kv, works[i].step_tokens, floats[i]);
    for (int kind = 0; kind < OP_COUNT; kind++)
        if (floats[1][kind] > floats[0][kind])
            out->op[kind] = op_line(times[0].kind_ns[kind], floats[0][kind], times[1].kind_ns[kind],
                                    floats[1][kind]);
    out->op[OP_MATMUL] = out->op[OP_EXPERTS] = out->op[OP_HEADS] =
        (struct predict_op){.fixed_ns = times[0].kind_ns[OP_MATMUL]};
    // ops that the probe has not: as a gate
    static const enum op_kind like_gate[] = {OP_CONV,    OP_DELTA,  OP_SCAN,
                                             OP_COLUMNS, OP_ROUTE,  OP_COMBINE,
                                             OP_SOFTCAP, OP_GATHER, OP_TEMPER};
    for (size_t i = 0; i < sizeof like_gate / sizeof *like_gate; i++)
        out->op[like_gate[i]] = out->op[OP_GATE];
    out->step_ns = at_least(times[0].rest_ns, 0);
    return RN_OK;
}

rn_status tools_rates_base(const struct tools_rates_options *options, struct predict_rates *out,
                           rn_error *err) {
    static const struct plan_kv_group group = {.n_head_kv = 8, .dim_k = 64, .dim_v = 64};
    struct probe probe;
    *out = (struct predict_rates){0};
    rn_status status = heads_probe(&probe, &group, OP_WIDTH / 64, err);
    if (!status) status = ops_run(&probe, options, out, err);
    probe_deinit(&probe);
    return status;
}
