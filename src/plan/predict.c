// See predict.h.
#include "plan/predict.h"

const int predict_rows[PREDICT_POINTS] = {1, 2, 4, 8, 9, 12, 16, 32, 33, 64, 256};
const double predict_sets[PREDICT_SETS] = {0.5, 0.75, 1, 1.5, 2, 3};

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

// Between two points in proportion; beyond the last one its value, that many times.
static double between(const double point[PREDICT_POINTS], double rows, double times_beyond) {
    const int last = PREDICT_POINTS - 1;
    if (rows <= predict_rows[0]) return point[0];
    if (rows >= predict_rows[last]) return point[last] * times_beyond;
    int i = 0;
    while (rows > predict_rows[i + 1]) i++;
    const double share = (rows - predict_rows[i]) / (predict_rows[i + 1] - predict_rows[i]);
    return point[i] + share * (point[i + 1] - point[i]);
}

double predict_rate(const double point[PREDICT_POINTS], double rows) {
    return between(point, rows, rows / predict_rows[PREDICT_POINTS - 1]);
}

static double overlap_at(const struct predict_product *product, double rows) {
    return between(product->overlap, rows, 1);
}

static double larger(double a, double b) { return a > b ? a : b; }

static double memory_share(const struct predict_rates *rates, double working_set) {
    const double *share = rates->memory_share;
    const double set = working_set / (double)rates->cache_bytes;
    if (rates->cache_bytes == 0 || set >= predict_sets[PREDICT_SETS - 1]) return 1;
    if (set <= predict_sets[0]) return share[0];
    int i = 0;
    while (set > predict_sets[i + 1]) i++;
    return share[i] + (set - predict_sets[i]) / (predict_sets[i + 1] - predict_sets[i]) *
                          (share[i + 1] - share[i]);
}

static double smaller(double a, double b) { return a < b ? a : b; }

// Inputs are made before weights are read.
double predict_product_ns(const struct predict_rates *rates, enum format_id format, double rows,
                          const struct predict_matrix *matrix, double working_set) {
    const struct predict_product *product = &rates->product[format];
    const double byte_ns = 1e9 / (product->share * rates->bandwidth);
    const double read_ns = matrix->bytes * byte_ns * memory_share(rates, working_set);
    const double compute_ns = matrix->bytes * predict_rate(product->cached, rows) +
                              matrix->outputs * predict_rate(product->output, rows);
    return read_ns + compute_ns - overlap_at(product, rows) * smaller(read_ns, compute_ns) +
           matrix->inputs * predict_rate(product->input, rows);
}

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
    double working_set; // bytes that the step reads
    struct prediction *out;
};

// An op that reads bytes and takes ns.
static void spend(struct step *step, enum predict_bound memory, double bytes_ns, double ns) {
    step->out->part_ns[predict_is_math(bytes_ns, ns) ? BOUND_MATH : memory] += ns;
}

// Products that share an input are one stage.
static bool starts_stage(const struct plan *plan, int i) {
    const struct op *op = &plan->op[i], *before = op - 1;
    if (op->kind == OP_ATTENTION || op_has_state(op->kind)) return true;
    if (!op_is_product(op->kind)) return false;
    return i == 0 || op->kind == OP_HEADS || before->kind != op->kind || before->in[0] != op->in[0];
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

// Products that share an input make it once: is_first.
static void rate_product(struct step *step, const struct op *op, const struct cost *cost,
                         bool is_first) {
    const struct predict_rates *rates = step->machine->rates;
    const struct plan_weight *weight = &step->plan->weight[op->weight];
    double rows = rows_of(step->shape, op->rows);
    struct predict_matrix matrix = {.bytes = (double)cost->weight_bytes,
                                    .outputs = (double)weight->rows,
                                    .inputs = is_first ? (double)weight->cols : 0};
    if (op->kind == OP_EXPERTS) { // of each expert that the batch touches
        const int used = step->plan->buffer[op->out].slots;
        const double touched = cost_experts_touched(weight->n_expert, used, (int64_t)rows);
        rows = rows * used / touched;
        matrix.outputs *= touched;
        matrix.inputs *= touched;
    }
    if (op->kind == OP_HEADS) {
        matrix.outputs *= op->heads.n;
        matrix.inputs *= op->heads.n;
    }
    const double ns = predict_product_ns(rates, weight->format, rows, &matrix, step->working_set);
    spend(step, BOUND_WEIGHTS, matrix.bytes / rates->bandwidth * 1e9, ns);
}

// Of a step whose working set is in the cache in part.
static double mixed(const struct step *step, double cached, double memory) {
    return cached + memory_share(step->machine->rates, step->working_set) * (memory - cached);
}

static void rate_attention(struct step *step, const struct cost *cost) {
    const struct predict_rates *rates = step->machine->rates;
    const struct predict_attention *a = &rates->attention;
    const double bytes = (double)cost->kv_read_bytes;
    const double byte_ns = mixed(step, a->cached.byte_ns, a->memory.byte_ns);
    const double seq_ns = mixed(step, a->cached.seq_ns, a->memory.seq_ns);
    const double ns = larger(bytes * byte_ns, (double)cost->flops * a->flop_ns) +
                      (double)step->shape->n_seqs * seq_ns +
                      (double)(step->shape->n_tokens - step->shape->n_seqs) * a->row_ns;
    spend(step, BOUND_KV, bytes / rates->bandwidth * 1e9, ns);
    step->out->part_ns[BOUND_HOST] += a->fixed_ns;
}

// A state streams through the caches; its rows are arithmetic.
static void rate_state(struct step *step, const struct op *op, const struct cost *cost) {
    const struct predict_rates *rates = step->machine->rates;
    const struct predict_op *like = &rates->op[op->kind];
    const double bytes_ns = (double)cost->kv_read_bytes / rates->bandwidth * 1e9;
    const double rows_ns = (double)cost->act_bytes / sizeof(float) * like->float_ns +
                           (double)cost->flops / rates->float_flops * 1e9;
    spend(step, BOUND_KV, bytes_ns, larger(bytes_ns, rows_ns));
    step->out->part_ns[BOUND_HOST] += like->fixed_ns;
}

static void rate_op(struct step *step, int i, const struct cost *cost) {
    const struct op *op = &step->plan->op[i];
    const struct predict_op *rate = &step->machine->rates->op[op->kind];
    if (op_is_product(op->kind)) {
        const bool is_first = starts_stage(step->plan, i);
        rate_product(step, op, cost, is_first);
        if (is_first) step->out->part_ns[BOUND_HOST] += rate->fixed_ns;
    } else if (op->kind == OP_ATTENTION) {
        rate_attention(step, cost);
    } else if (op_has_state(op->kind)) {
        rate_state(step, op, cost);
    } else {
        const double floats =
            (double)(cost->act_bytes + cost->kv_read_bytes + cost->kv_write_bytes) / sizeof(float);
        step->out->part_ns[BOUND_HOST] += rate->fixed_ns + floats * rate->float_ns;
        if (op->kind == OP_KV_APPEND)
            step->out->part_ns[BOUND_HOST] +=
                (double)step->shape->n_seqs *
                mixed(step, step->machine->rates->attention.cached.append_ns,
                      step->machine->rates->attention.memory.append_ns);
    }
}

// ---------------------------------------------------------------- the step

static double parts_sum(const struct prediction *out) {
    double sum = 0;
    for (int i = 0; i < BOUND_COUNT; i++) sum += out->part_ns[i];
    return sum;
}

static void total(struct prediction *out, double step_ns) {
    out->part_ns[BOUND_HOST] += step_ns;
    out->ns = parts_sum(out);
    for (int i = 0; i < BOUND_COUNT; i++)
        if (out->part_ns[i] > out->part_ns[out->bound]) out->bound = (enum predict_bound)i;
}

// Products read the bytes that the machine stores.
static void stored_apply(struct step *step, const struct op *op, struct cost *cost) {
    const double stored =
        op_is_product(op->kind) ? step->machine->stored[step->plan->weight[op->weight].format] : 0;
    if (stored == 0) return;
    const uint64_t file_bytes = cost->weight_bytes;
    cost->weight_bytes = (uint64_t)((double)file_bytes * stored);
    step->out->cost.weight_bytes += cost->weight_bytes - file_bytes;
}

void predict_step(const struct plan *plan, const struct kv_bytes *kv,
                  const struct predict_machine *machine, const struct batch_shape *shape,
                  struct prediction *out) {
    *out = (struct prediction){.cost = plan_cost(plan, kv, shape)};
    struct step step = {.plan = plan, .machine = machine, .shape = shape, .out = out};
    const struct predict_rates *rates = machine->rates;
    step.working_set = (double)(out->cost.weight_bytes + out->cost.kv_read_bytes);
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        if (rows_of(shape, op->rows) == 0) continue;
        struct cost cost = op_cost(plan, op, kv, shape);
        stored_apply(&step, op, &cost);
        const double before = parts_sum(out);
        if (rates)
            rate_op(&step, i, &cost);
        else
            figure_op(&step, i, &cost);
        out->kind_ns[op->kind] += parts_sum(out) - before;
    }
    total(out, rates ? rates->step_ns : machine->step_ns);
}
