// See predict.h.
#include "plan/predict.h"

const int predict_rows[PREDICT_POINTS] = {1, 2, 4, 8, 16, 32, 64, 256};

const char *predict_bound_name(enum predict_bound bound) {
    static const char *const names[] = {[BOUND_WEIGHTS] = "bandwidth",
                                        [BOUND_KV] = "KV",
                                        [BOUND_MATH] = "arithmetic",
                                        [BOUND_HOST] = "host"};
    return names[bound];
}

// The time of an op was measured as a whole, and that of its bytes on other matrices. The margin is
// the noise between both.
bool predict_is_math(double bytes_ns, double ns) { return ns > 1.5 * bytes_ns; }

double predict_product_ns(const double point[PREDICT_POINTS], double rows) {
    const int last = PREDICT_POINTS - 1;
    if (rows <= predict_rows[0]) return point[0];
    if (rows >= predict_rows[last]) return point[last] * rows / predict_rows[last];
    int i = 0;
    while (rows > predict_rows[i + 1]) i++;
    const double share = (rows - predict_rows[i]) / (predict_rows[i + 1] - predict_rows[i]);
    return point[i] + share * (point[i + 1] - point[i]);
}

static double larger(double a, double b) { return a > b ? a : b; }

static double rows_of(const struct batch_shape *shape, enum row_domain rows) {
    return (double)(rows == ROWS_TOKENS ? shape->n_tokens
                    : rows == ROWS_OUT  ? shape->n_out
                                        : shape->n_logits);
}

// The step at hand.
struct step {
    const struct plan *plan;
    const struct predict_machine *machine;
    const struct batch_shape *shape;
    bool in_cache; // all that the step reads
    struct prediction *out;
};

// An op that reads bytes and takes ns.
static void spend(struct step *step, enum predict_bound memory, double bytes_ns, double ns) {
    step->out->part_ns[predict_is_math(bytes_ns, ns) ? BOUND_MATH : memory] += ns;
}

static bool is_product(const struct op *op) {
    return op->kind == OP_MATMUL || op->kind == OP_EXPERTS;
}

// Products that share an input are one stage.
static bool starts_stage(const struct plan *plan, int i) {
    const struct op *op = &plan->op[i], *before = op - 1;
    if (op->kind == OP_ATTENTION || op->kind == OP_RECUR) return true;
    if (!is_product(op)) return false;
    return i == 0 || before->kind != op->kind || before->in[0] != op->in[0];
}

// ---------------------------------------------------------------- figures

static void figure_op(struct step *step, int i, const struct cost *cost) {
    const struct predict_machine *m = step->machine;
    const double kv = (double)(cost->kv_read_bytes + cost->kv_write_bytes);
    const double bytes_ns = ((double)cost->weight_bytes + kv) / m->bandwidth * 1e9;
    const double math_ns = (double)cost->flops / m->flops * 1e9;
    const double ns = larger(bytes_ns, math_ns);
    step->out->part_ns[math_ns > bytes_ns ? BOUND_MATH : kv > 0 ? BOUND_KV : BOUND_WEIGHTS] += ns;
    if (starts_stage(step->plan, i)) step->out->part_ns[BOUND_HOST] += m->stage_ns;
}

// ---------------------------------------------------------------- rates

static void rate_product(struct step *step, const struct op *op, const struct cost *cost) {
    const struct predict_rates *rates = step->machine->rates;
    const struct plan_weight *weight = &step->plan->weight[op->weight];
    const struct predict_product *product = &rates->product[weight->format];
    const double bytes = (double)cost->weight_bytes;
    double rows = rows_of(step->shape, op->rows);
    if (op->kind == OP_EXPERTS) { // of each expert that the batch touches
        const int used = step->plan->buffer[op->out].slots;
        rows = rows * used / cost_experts_touched(weight->n_expert, used, (int64_t)rows);
    }
    const double byte_ns =
        predict_product_ns(step->in_cache ? product->cached : product->stream, rows);
    spend(step, BOUND_WEIGHTS, bytes / rates->bandwidth * 1e9, bytes * byte_ns);
}

static void rate_attention(struct step *step, const struct cost *cost) {
    const struct predict_rates *rates = step->machine->rates;
    const struct predict_attention *a = &rates->attention;
    const double bytes = (double)cost->kv_read_bytes;
    const double ns = larger(bytes * a->byte_ns, (double)cost->flops * a->flop_ns);
    spend(step, BOUND_KV, bytes / rates->bandwidth * 1e9, ns);
    step->out->part_ns[BOUND_HOST] += a->fixed_ns;
}

static void rate_op(struct step *step, int i, const struct cost *cost) {
    const struct op *op = &step->plan->op[i];
    const struct predict_op *rate = &step->machine->rates->op[op->kind];
    if (is_product(op)) {
        rate_product(step, op, cost);
        if (starts_stage(step->plan, i)) step->out->part_ns[BOUND_HOST] += rate->fixed_ns;
    } else if (op->kind == OP_ATTENTION) {
        rate_attention(step, cost);
    } else {
        const double floats =
            (double)(cost->act_bytes + cost->kv_read_bytes + cost->kv_write_bytes) / sizeof(float);
        step->out->part_ns[BOUND_HOST] += rate->fixed_ns + floats * rate->float_ns;
    }
}

// ---------------------------------------------------------------- the step

static void total(struct prediction *out, double step_ns) {
    out->part_ns[BOUND_HOST] += step_ns;
    for (int i = 0; i < BOUND_COUNT; i++) {
        out->ns += out->part_ns[i];
        if (out->part_ns[i] > out->part_ns[out->bound]) out->bound = (enum predict_bound)i;
    }
}

void predict_step(const struct plan *plan, const struct kv_bytes *kv,
                  const struct predict_machine *machine, const struct batch_shape *shape,
                  struct prediction *out) {
    *out = (struct prediction){.cost = plan_cost(plan, kv, shape)};
    struct step step = {.plan = plan, .machine = machine, .shape = shape, .out = out};
    const struct predict_rates *rates = machine->rates;
    step.in_cache =
        rates && out->cost.weight_bytes + out->cost.kv_read_bytes <= rates->cache_bytes / 2;
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        if (rows_of(shape, op->rows) == 0) continue;
        const struct cost cost = op_cost(plan, op, kv, shape);
        if (rates)
            rate_op(&step, i, &cost);
        else
            figure_op(&step, i, &cost);
    }
    total(out, rates ? rates->step_ns : machine->step_ns);
}
