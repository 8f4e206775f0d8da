// See evaluate64.h. An interpreter of the op list: a buffer of the plan is an array of doubles, and
// an op works on all rows of the sequence before the next op begins. Weights are decoded row by row
// where they are used.
#include "evaluate64.h"

#include <math.h>

#include "check.h"
#include "tensor_bytes.h"

enum { SPLIT = 256 }; // positions of attention whose weights share a maximum

// Next to the middle of two 16-bit numbers: this part of the row's largest number. It is at most a
// 16th of the distance between two f16 numbers there. The emulator's errors are half of it.
#define NEAR 0x1p-15

struct evaluation {
    const struct plan *plan;
    enum evaluate64_mode mode;
    const struct roundings *device; // NULL: none
    struct evaluate64_ties ties;
    const int32_t *token;
    int n;           // rows
    double **buffer; // [n_buffer] of [n, slots, width]
    double **keys;   // [n_op] of an append: [n, n_head_kv, dim_k], rounded
    double **values; // [n_op] of an append: [n, n_head_kv, dim_v], rounded
};

static double *doubles_make(int64_t n) {
    double *values = calloc((size_t)n, sizeof *values);
    assert_non_null(values);
    return values;
}

// ---------------------------------------------------------------- roundings

// To the nearest number of `digits` binary digits, of equally near ones to the even one. Numbers
// below 2^least have fewer digits. Finite numbers beyond `most` become `most`.
static double rounded(double x, int digits, int least, double most) {
    int exponent;
    if (!isfinite(x) || x == 0) return x;
    frexp(x, &exponent); // 2^(exponent - 1) <= |x| < 2^exponent
    if (exponent <= least) exponent = least + 1;
    const double y = ldexp(rint(ldexp(x, digits - exponent)), exponent - digits);
    return fabs(y) > most ? copysign(most, x) : y;
}

static double f16_rounded(double x) { return rounded(x, 11, -14, 65504); }
static double bf16_rounded(double x) { return rounded(x, 8, -126, HUGE_VAL); }

static double of_16_bits(const struct evaluation *e, double x, bool is_bf16) {
    if (e->mode == EVALUATE64_EXACT) return x;
    return is_bf16 ? bf16_rounded(x) : f16_rounded(x);
}

// ---------------------------------------------------------------- weights

struct matrix {
    const struct plan_weight *weight;
    const uint8_t *data; // rows of the file, in room or where they were
    void *room;
    uint64_t row_bytes;
    float *row; // one row, decoded
};

// expert: PLAN_NONE where the weight has none. matrix_close frees it.
static struct matrix matrix_open(const struct evaluation *e, int index, int expert) {
    const struct plan_weight *weight = &e->plan->weight[index];
    struct matrix m = {.weight = weight};
    m.row_bytes = format_row_bytes(weight->format, weight->cols);
    m.row = calloc((size_t)weight->cols, sizeof *m.row);
    const uint64_t bytes = m.row_bytes * (uint64_t)weight->rows;
    m.room = malloc((size_t)bytes);
    assert_true(m.row && m.room);
    m.data = weight_brought(e->plan, weight->n_expert ? weight->expert_data[expert] : weight->data,
                            bytes, m.room);
    return m;
}

static void matrix_close(struct matrix *m) {
    free(m->room);
    free(m->row);
}

// A row of a vector's weight: the numbers of the file.
static void vector_row(const struct matrix *m, int64_t row, double *out) {
    const int64_t cols = m->weight->cols;
    format_decode(m->weight->format, m->data + (uint64_t)row * m->row_bytes, m->row, cols);
    for (int64_t i = 0; i < cols; i++) out[i] = (double)m->row[i];
}

// The numbers of a block that the device multiplies with: f16(s * q + o), s and o being f16.
static void block_of(const struct format *format, const uint8_t *from, double *out) {
    int8_t q[FORMAT_MAX_BLOCK];
    float scale[FORMAT_MAX_SPANS], offset[FORMAT_MAX_SPANS] = {0};
    format->unpack(from, q, scale, offset);
    for (int i = 0; i < format->block; i++) {
        const double s = f16_rounded((double)scale[i / format->span]);
        const double o = format->has_offset ? f16_rounded((double)offset[i / format->span]) : 0;
        out[i] = f16_rounded(s * q[i] + o);
    }
}

// A row of a matrix or table. BF16 and F16 are as they are, other floats and Q2_K become f16.
static void matrix_row(const struct evaluation *e, const struct matrix *m, int64_t row,
                       double *out) {
    const struct format *format = format_at(m->weight->format);
    const int64_t cols = m->weight->cols;
    const uint8_t *from = m->data + (uint64_t)row * m->row_bytes;
    assert_true(row >= 0 && row < m->weight->rows);
    vector_row(m, row, out);
    if (e->mode == EVALUATE64_EXACT || m->weight->format == FORMAT_BF16) return;
    for (int64_t i = 0; i < cols; i++) out[i] = f16_rounded(out[i]);
    if (!format->unpack || m->weight->format == FORMAT_Q2_K) return;
    for (int64_t i = 0; i < cols; i += format->block, from += format->block_bytes)
        block_of(format, from, out + i);
}

// All numbers of a vector; NULL: there is none. The caller frees them.
static double *vector_make(const struct evaluation *e, int index) {
    if (index == PLAN_NONE) return NULL;
    struct matrix m = matrix_open(e, index, PLAN_NONE);
    double *out = doubles_make(m.weight->rows * m.weight->cols);
    for (int64_t r = 0; r < m.weight->rows; r++) vector_row(&m, r, out + r * m.weight->cols);
    matrix_close(&m);
    return out;
}

// ---------------------------------------------------------------- buffers

static int width_of(const struct evaluation *e, int buffer) {
    return e->plan->buffer[buffer].width;
}
static int slots_of(const struct evaluation *e, int buffer) {
    return e->plan->buffer[buffer].slots;
}
static int64_t size_of(const struct evaluation *e, int buffer) {
    return (int64_t)e->n * slots_of(e, buffer) * width_of(e, buffer);
}
// A row of a buffer with one slot.
static double *row_of(const struct evaluation *e, int buffer, int row) {
    return e->buffer[buffer] + (int64_t)row * width_of(e, buffer);
}

// ---------------------------------------------------------------- rows

static void embed(struct evaluation *e, const struct op *op) {
    struct matrix table = matrix_open(e, op->weight, PLAN_NONE);
    const int width = width_of(e, op->out);
    double *y = doubles_make(width);
    for (int r = 0; r < e->n; r++) {
        double *out = row_of(e, op->out, r);
        matrix_row(e, &table, op->embed.positions ? r : e->token[r], y);
        for (int i = 0; i < width; i++)
            out[i] = (op->embed.add ? out[i] : 0) + y[i] * (double)op->embed.scale;
    }
    free(y);
    matrix_close(&table);
}

// Each row is an out row, so rows stay where they are.
static void gather(struct evaluation *e, const struct op *op) {
    memcpy(e->buffer[op->out], e->buffer[op->in[0]], (size_t)size_of(e, op->out) * sizeof(double));
}

// RMS: x / sqrt(mean of squares + eps) * w. Layer: the same of x less its mean, plus the bias.
// Without a weight w is 1, without a bias it is 0.
static void norm_group(const double *x, int n, const struct op *op, const double *weight,
                       const double *bias, double *out) {
    const bool is_layer = op->norm.kind != NORM_RMS;
    double mean = 0, squares = 0;
    for (int i = 0; i < n && is_layer; i++) mean += x[i] / n;
    for (int i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    const double root = sqrt(squares / n + (double)op->norm.eps);
    for (int i = 0; i < n; i++) {
        const double y = (x[i] - mean) / root * (weight ? weight[i] : 1) + (bias ? bias[i] : 0);
        out[i] = op->norm.add ? out[i] + y : y;
        if (op->norm.scale != 0) out[i] *= (double)op->norm.scale;
    }
}

static void norm(struct evaluation *e, const struct op *op) {
    double *weight = vector_make(e, op->weight), *bias = vector_make(e, op->bias);
    const struct plan_weight *of = op->weight == PLAN_NONE ? NULL : &e->plan->weight[op->weight];
    const int64_t n_weight = of ? of->rows * of->cols : 1;
    for (int64_t at = 0; at < size_of(e, op->out); at += op->norm.group)
        norm_group(e->buffer[op->in[0]] + at, op->norm.group, op,
                   weight ? weight + at % n_weight : NULL, bias, e->buffer[op->out] + at);
    free(weight);
    free(bias);
}

// Turns pairs of a head by an angle that is the position times the pair's frequency.
static void rope_head(const struct plan_rope *rope, int pos, double *x) {
    const int n_pairs = rope->n_rot / 2;
    for (int i = 0; i < n_pairs; i++) {
        const double angle = pos * (double)rope->inv_freq[i];
        const double c = cos(angle) * (double)rope->magnitude;
        const double s = sin(angle) * (double)rope->magnitude;
        double *first = x + (rope->style == ROPE_HALVES ? i : 2 * i);
        double *second = rope->style == ROPE_HALVES ? first + n_pairs : first + 1;
        const double a = *first, b = *second;
        *first = a * c - b * s;
        *second = a * s + b * c;
    }
}

static void rope(struct evaluation *e, const struct op *op) {
    for (int r = 0; r < e->n; r++)
        for (int h = 0; h < op->rope.n_head; h++)
            rope_head(&e->plan->rope[op->rope.rope], r,
                      row_of(e, op->out, r) + (int64_t)h * op->rope.dim);
}

static double activation(enum gate_kind kind, double g) {
    if (kind == GATE_GELU) return 0.5 * g * (1 + tanh(sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)));
    if (kind == GATE_SILU) return g / (1 + exp(-g));
    if (kind == GATE_SIGMOID) return 1 / (1 + exp(-g));
    if (kind == GATE_RELU2) return g < 0 ? 0 : g * g;
    if (kind == GATE_NONE) return g;
    const double a = fmin(g, (double)GATE_OAI_LIMIT);
    return a / (1 + exp(-(double)GATE_OAI_ALPHA * a));
}

static double xielu(const struct gate_xielu *gate, double x) {
    const double low = fmin(x, (double)gate->eps), linear = (double)gate->linear * x;
    return linear + (x > 0 ? (double)gate->above * x * x : (double)gate->below * (expm1(low) - x));
}

static void gate(struct evaluation *e, const struct op *op) {
    const double *up = op->in[1] == PLAN_NONE ? NULL : e->buffer[op->in[1]];
    const double limit = (double)GATE_OAI_LIMIT;
    const int per_factor = width_of(e, op->out) / width_of(e, op->in[0]); // 1, or a row by one
    for (int64_t i = 0; i < size_of(e, op->out); i++) {
        const double g = e->buffer[op->in[0]][i / per_factor];
        double y = op->gate == GATE_XIELU ? xielu(&op->xielu, g) : activation(op->gate, g);
        if (up && op->gate == GATE_SWIGLU_OAI)
            y *= fmax(fmin(up[i], limit), -limit) + 1;
        else if (up)
            y *= up[i];
        e->buffer[op->out][i] = y;
    }
}

static double capped(double x, double cap) { return cap * tanh(x / cap); }

static void softcap(struct evaluation *e, const struct op *op) {
    double *x = e->buffer[op->out];
    for (int64_t i = 0; i < size_of(e, op->out); i++) x[i] = capped(x[i], (double)op->softcap.cap);
}

static void temper(struct evaluation *e, const struct op *op) {
    for (int r = 0; r < e->n; r++) {
        const double periods = floor((r + op->temper.offset) / (double)op->temper.length);
        double *x = row_of(e, op->out, r);
        for (int i = 0; i < e->plan->buffer[op->out].width; i++)
            x[i] *= log(periods + 1) * (double)op->temper.factor + 1;
    }
}

static void columns(struct evaluation *e, const struct op *op) {
    for (int r = 0; r < e->n; r++) {
        const double *x = row_of(e, op->in[0], r) + op->columns.from;
        double *y = row_of(e, op->out, r) + op->columns.to;
        for (int i = 0; i < op->columns.n; i++)
            memcpy(y + (int64_t)i * op->columns.stride_to, x + (int64_t)i * op->columns.stride_from,
                   (size_t)op->columns.len * sizeof *y);
    }
}

// ---------------------------------------------------------------- rounded inputs

// The row of the device's numbers for a row of the input: of slots by expert. NULL: none.
static const float *device_row(const struct evaluation *e, int index, int in, int64_t row) {
    const struct op *op = &e->plan->op[index];
    const int width = width_of(e, op->in[in]), slots = slots_of(e, op->in[in]);
    const float *device = e->device ? e->device->in[in][index] : NULL;
    if (!device) return NULL;
    if (slots == 1) return device + row * width;
    const int expert = (int)row_of(e, op->in[1], (int)(row / slots))[row % slots];
    return device + (row / slots * e->plan->weight[op->weight].n_expert + expert) * width;
}

// Rounds a row. Where the device has the other neighbour of a number next to the middle, so has x.
static void row_round(struct evaluation *e, int index, double *x, int n, bool is_bf16,
                      const float *device) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    for (int i = 0; i < n; i++) {
        const double y = of_16_bits(e, x[i], is_bf16), other = device ? (double)device[i] : y;
        const bool is_near = fabs(x[i] - (y + other) / 2) <= NEAR * most;
        x[i] = is_near ? other : y;
        e->ties.n_rounded++;
        if (y == other) continue;
        if (!is_near && e->ties.n_far++ == 0) e->ties.far_op = index;
        e->ties.n_other += is_near;
    }
}

// An op's input in 16 bits. The caller frees it.
static double *input_make(struct evaluation *e, int index, int in, bool is_bf16) {
    const int buffer = e->plan->op[index].in[in], width = width_of(e, buffer);
    double *x = doubles_make(size_of(e, buffer));
    memcpy(x, e->buffer[buffer], (size_t)size_of(e, buffer) * sizeof *x);
    if (e->mode == EVALUATE64_EXACT) return x;
    for (int64_t r = 0; r < (int64_t)e->n * slots_of(e, buffer); r++)
        row_round(e, index, x + r * width, width, is_bf16, device_row(e, index, in, r));
    return x;
}

// Of a product, in the type that the weights' format asks for.
static double *factor_make(struct evaluation *e, int index) {
    const struct op *op = &e->plan->op[index];
    return input_make(e, index, 0, e->plan->weight[op->weight].format == FORMAT_BF16);
}

// Of attention, in the type of pages.
static double *entry_make(struct evaluation *e, int index, int in) {
    return input_make(e, index, in, e->mode == EVALUATE64_BF16);
}

// ---------------------------------------------------------------- products

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void matmul(struct evaluation *e, int index) {
    const struct op *op = &e->plan->op[index];
    struct matrix m = matrix_open(e, op->weight, PLAN_NONE);
    const int64_t rows = m.weight->rows, cols = m.weight->cols;
    double *bias = vector_make(e, op->bias), *x = factor_make(e, index), *w = doubles_make(cols);
    for (int64_t i = 0; i < rows; i++) {
        matrix_row(e, &m, i, w);
        for (int r = 0; r < e->n; r++) {
            double *out = row_of(e, op->out, r) + i;
            const double y = dot(w, x + r * cols, cols) * (double)op->matmul.scale;
            *out = (op->matmul.add ? *out : 0) + y + (bias ? bias[i] : 0);
        }
    }
    free(bias);
    free(x);
    free(w);
    matrix_close(&m);
}

// ---------------------------------------------------------------- experts

// Ids by rank, then weights. Of equal logits the lower id has the better rank.
static void route_row(const double *logit, int n, const struct op *op, double *out) {
    const int used = op->route.n_used;
    double sum = 0;
    for (int k = 0; k < used; k++) {
        int best = -1;
        for (int i = 0; i < n; i++) {
            bool is_taken = false;
            for (int t = 0; t < k; t++) is_taken |= (int)out[t] == i;
            if (!is_taken && (best < 0 || logit[i] > logit[best])) best = i;
        }
        out[k] = best;
        out[used + k] = exp(logit[best] - logit[(int)out[0]]);
        sum += out[used + k];
    }
    if (!op->route.normalize) sum = 0;
    for (int i = 0; i < n && !op->route.normalize; i++) sum += exp(logit[i] - logit[(int)out[0]]);
    for (int k = 0; k < used; k++) out[used + k] /= sum;
}

static void route(struct evaluation *e, const struct op *op) {
    for (int r = 0; r < e->n; r++)
        route_row(row_of(e, op->in[0], r), width_of(e, op->in[0]), op, row_of(e, op->out, r));
}

// Rows whose route has the expert at a rank, and that rank's slot of the output.
static void expert(struct evaluation *e, const struct op *op, int id, const double *x,
                   const double *bias) {
    struct matrix m = matrix_open(e, op->weight, id);
    const int64_t rows = m.weight->rows, cols = m.weight->cols;
    const int used = slots_of(e, op->out), slots_in = slots_of(e, op->in[0]);
    double *w = doubles_make(cols);
    for (int64_t i = 0; i < rows; i++) {
        matrix_row(e, &m, i, w);
        for (int slot = 0; slot < e->n * used; slot++) {
            const int r = slot / used;
            if ((int)row_of(e, op->in[1], r)[slot % used] != id) continue;
            const double *from = x + (slots_in == 1 ? r : slot) * cols;
            e->buffer[op->out][slot * rows + i] =
                dot(w, from, cols) + (bias ? bias[id * rows + i] : 0);
        }
    }
    free(w);
    matrix_close(&m);
}

static void experts(struct evaluation *e, int index) {
    const struct op *op = &e->plan->op[index];
    double *x = factor_make(e, index), *bias = vector_make(e, op->bias);
    for (int id = 0; id < e->plan->weight[op->weight].n_expert; id++) expert(e, op, id, x, bias);
    free(x);
    free(bias);
}

static void combine(struct evaluation *e, const struct op *op) {
    const int used = slots_of(e, op->in[0]), width = width_of(e, op->out);
    for (int slot = 0; slot < e->n * used; slot++) {
        const double weight = row_of(e, op->in[1], slot / used)[used + slot % used];
        for (int i = 0; i < width; i++)
            row_of(e, op->out, slot / used)[i] +=
                weight * e->buffer[op->in[0]][(int64_t)slot * width + i];
    }
}

// ---------------------------------------------------------------- attention

static void append(struct evaluation *e, int index) {
    e->keys[index] = entry_make(e, index, 0);
    e->values[index] = entry_make(e, index, 1);
}

// The append of the same layer.
static int append_of(const struct evaluation *e, const struct op *op) {
    for (int i = 0; i < e->plan->n_op; i++) {
        const struct op *other = &e->plan->op[i];
        if (other->kind == OP_KV_APPEND && other->kv.group == op->kv.group &&
            other->kv.layer == op->kv.layer)
            return i;
    }
    check(false, "attention of layer %d has no append", op->layer);
    return PLAN_NONE;
}

// A head of a row: its weights by position, and what they multiply.
struct head {
    const struct plan_kv_group *group;
    int low, pos;                // positions that it sees
    const double *query;         // [dim_k]
    const double *keys, *values; // of the KV head at position 0
    double *weight;              // [pos + 1] relative to the largest of the split
    double *factor;              // [pos + 1] what multiplies it: of the split, and 1 / sum
};

static const double *value_at(const struct head *h, int t) {
    return h->values + (int64_t)t * h->group->n_head_kv * h->group->dim_v;
}

static double score_at(const struct head *h, const struct op *op, int t) {
    const double *key = h->keys + (int64_t)t * h->group->n_head_kv * h->group->dim_k;
    const double s = dot(h->query, key, h->group->dim_k) * (double)op->kv.scale;
    return op->kv.softcap > 0 ? capped(s, (double)op->kv.softcap) : s;
}

// The softmax. sink: NULL where there is none.
static void weights_fill(const struct head *h, const struct op *op, const double *sink) {
    double top = sink ? *sink : -HUGE_VAL, most = -HUGE_VAL, sum = 0;
    for (int t = h->low; t <= h->pos; t++) top = fmax(top, h->weight[t] = score_at(h, op, t));
    for (int t = h->low; t <= h->pos; t++) {
        if (t == h->low || t % SPLIT == 0) {
            most = -HUGE_VAL;
            for (int i = t; i <= h->pos && i / SPLIT == t / SPLIT; i++)
                most = fmax(most, h->weight[i]);
        }
        h->weight[t] = exp(h->weight[t] - most);
        h->factor[t] = exp(most - top);
        sum += h->weight[t] * h->factor[t];
    }
    if (sink) sum += exp(*sink - top);
    for (int t = h->low; t <= h->pos; t++) h->factor[t] /= sum;
}

// How far a head's result is from results that round to the device's numbers.
static double result_misses(const struct evaluation *e, const double *x, int n, bool is_bf16,
                            const float *device) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        const double y = of_16_bits(e, x[i], is_bf16);
        if (y != (double)device[i]) sum += fabs(x[i] - (y + (double)device[i]) / 2);
    }
    return sum;
}

// The device's weights cannot be read. A weight next to the middle of two 16-bit numbers takes the
// one that brings the result nearer to the device's. device: [dim_v], and its type.
static void weights_turn(struct evaluation *e, const struct head *h, double *out,
                         const float *device, bool is_bf16) {
    const int dim = h->group->dim_v;
    double misses = result_misses(e, out, dim, is_bf16, device), *turned = doubles_make(dim);
    for (int t = h->low; t <= h->pos && misses > 0; t++) {
        const double p = h->weight[t], y = of_16_bits(e, p, e->mode == EVALUATE64_BF16);
        const double other = of_16_bits(e, 2 * p - y, e->mode == EVALUATE64_BF16);
        if (other == y || fabs(p - (y + other) / 2) > NEAR * p) continue;
        for (int d = 0; d < dim; d++)
            turned[d] = out[d] + (other - y) * h->factor[t] * value_at(h, t)[d];
        const double now = result_misses(e, turned, dim, is_bf16, device);
        if (now >= misses) continue;
        memcpy(out, turned, (size_t)dim * sizeof *out);
        misses = now;
        e->ties.n_other++;
    }
    free(turned);
}

static void attend(struct evaluation *e, const struct head *h, double *out) {
    const int dim = h->group->dim_v;
    for (int d = 0; d < dim; d++) out[d] = 0;
    for (int t = h->low; t <= h->pos; t++) {
        const double p = of_16_bits(e, h->weight[t], e->mode == EVALUATE64_BF16) * h->factor[t];
        for (int d = 0; d < dim; d++) out[d] += p * value_at(h, t)[d];
        e->ties.n_rounded++;
    }
}

// The first product that reads the result of the op; PLAN_NONE: none does.
static int reader_of(const struct evaluation *e, int index) {
    for (int i = index + 1; i < e->plan->n_op; i++)
        if (e->plan->op[i].kind == OP_MATMUL && e->plan->op[i].in[0] == e->plan->op[index].out)
            return i;
    return PLAN_NONE;
}

static void attention(struct evaluation *e, int index) {
    const struct op *op = &e->plan->op[index];
    const struct plan_kv_group *group = &e->plan->group[op->kv.group];
    const int from = append_of(e, op), n_head = op->kv.n_head, reader = reader_of(e, index);
    double *queries = entry_make(e, index, 0), *sinks = vector_make(e, op->weight);
    struct head h = {.group = group};
    h.weight = doubles_make(e->n);
    h.factor = doubles_make(e->n);
    for (int i = 0; i < e->n * n_head; i++) {
        const int head = i % n_head, head_kv = head / (n_head / group->n_head_kv);
        double *out = e->buffer[op->out] + (int64_t)i * group->dim_v;
        h.pos = i / n_head;
        h.low = (int)kv_first_seen(group->kind, group->window, h.pos);
        h.query = queries + (int64_t)i * group->dim_k;
        h.keys = e->keys[from] + (int64_t)head_kv * group->dim_k;
        h.values = e->values[from] + (int64_t)head_kv * group->dim_v;
        weights_fill(&h, op, sinks ? sinks + head : NULL);
        attend(e, &h, out);
        const float *device =
            e->device && reader != PLAN_NONE ? device_row(e, reader, 0, h.pos) : NULL;
        if (device)
            weights_turn(e, &h, out, device + (int64_t)head * group->dim_v,
                         e->plan->weight[e->plan->op[reader].weight].format == FORMAT_BF16);
    }
    free(h.weight);
    free(h.factor);
    free(queries);
    free(sinks);
}

// ---------------------------------------------------------------- the list

static void run(struct evaluation *e, int index) {
    const struct op *op = &e->plan->op[index];
    switch (op->kind) {
    case OP_EMBED:
        embed(e, op);
        return;
    case OP_GATHER:
        gather(e, op);
        return;
    case OP_NORM:
        norm(e, op);
        return;
    case OP_MATMUL:
        matmul(e, index);
        return;
    case OP_ROPE:
        rope(e, op);
        return;
    case OP_KV_APPEND:
        append(e, index);
        return;
    case OP_ATTENTION:
        attention(e, index);
        return;
    case OP_GATE:
        gate(e, op);
        return;
    case OP_ROUTE:
        route(e, op);
        return;
    case OP_EXPERTS:
        experts(e, index);
        return;
    case OP_COMBINE:
        combine(e, op);
        return;
    case OP_SOFTCAP:
        softcap(e, op);
        return;
    case OP_TEMPER:
        temper(e, op);
        return;
    case OP_COLUMNS:
        columns(e, op);
        return;
    case OP_INPUT:
    case OP_CONV:
    case OP_DELTA:
    case OP_SCAN:
    case OP_HEADS:
    case OP_COUNT:
        break;
    }
    check(false, "the evaluator does not know %s", op_name(op->kind));
}

void evaluate64(const struct plan *plan, enum evaluate64_mode mode, const struct roundings *device,
                const int32_t *token, int n, double *logits, struct evaluate64_ties *ties) {
    struct evaluation e = {.plan = plan, .mode = mode, .device = device, .token = token, .n = n};
    e.buffer = calloc((size_t)plan->n_buffer, sizeof *e.buffer);
    e.keys = calloc((size_t)plan->n_op, sizeof *e.keys);
    e.values = calloc((size_t)plan->n_op, sizeof *e.values);
    assert_true(e.buffer && e.keys && e.values);
    for (int i = 0; i < plan->n_buffer; i++) e.buffer[i] = doubles_make(size_of(&e, i));
    for (int i = 0; i < plan->n_op; i++) run(&e, i);
    memcpy(logits, e.buffer[plan->logits], (size_t)n * (size_t)plan->n_vocab * sizeof *logits);
    if (ties) *ties = e.ties;
    for (int i = 0; i < plan->n_buffer; i++) free(e.buffer[i]);
    for (int i = 0; i < plan->n_op; i++) {
        free(e.keys[i]);
        free(e.values[i]);
    }
    free(e.buffer);
    free(e.keys);
    free(e.values);
}
