// See cost_rates.h.
#include "plan/cost_rates.h"

#include <assert.h>

static void add_times(struct cost *sum, const struct cost *one, uint64_t n) {
    sum->weight_bytes += one->weight_bytes * n;
    sum->expert_bytes += one->expert_bytes * n;
    sum->kv_read_bytes += one->kv_read_bytes * n;
    sum->kv_write_bytes += one->kv_write_bytes * n;
    sum->act_bytes += one->act_bytes * n;
    sum->flops += one->flops * n;
}

static struct cost minus(struct cost a, const struct cost *b) {
    add_times(&a, b, UINT64_MAX); // -1: unsigned arithmetic wraps
    return a;
}

static int64_t domain_rows(const struct batch_shape *shape, int rows) {
    return rows == ROWS_TOKENS ? shape->n_tokens
           : rows == ROWS_OUT  ? shape->n_out
                               : shape->n_logits;
}

static void add_experts(struct cost_rates *rates, const struct cost_experts *experts) {
    struct cost_experts *same = NULL, *alike = NULL;
    for (int i = 0; i < rates->n_experts; i++) {
        struct cost_experts *e = &rates->experts[i];
        if (e->rows != experts->rows || e->total != experts->total || e->used != experts->used)
            continue;
        alike = e;
        if (e->bytes == experts->bytes) same = e;
    }
    if (same) {
        same->count++;
    } else if (alike && rates->n_experts >= COST_MAX_EXPERTS - COST_DOMAINS) {
        // nearly full, and other domains need a place too: as one product of all their bytes
        alike->bytes = alike->bytes * alike->count + experts->bytes;
        alike->count = 1;
    } else {
        assert(rates->n_experts < COST_MAX_EXPERTS); // a model has one router
        rates->experts[rates->n_experts++] = *experts;
    }
}

static void add_op(struct cost_rates *rates, const struct plan *plan, const struct op *op,
                   const struct kv_bytes *kv) {
    struct batch_shape shape = {.n_tokens = 2, .n_out = 2, .n_logits = 2};
    struct cost two = op_cost(plan, op, kv, &shape);
    shape.n_tokens = shape.n_out = shape.n_logits = 1;
    struct cost one = op_cost(plan, op, kv, &shape);
    for (int g = 0; g < plan->n_group; g++) {
        for (int rows = 0; rows < 2; rows++) {
            struct batch_shape unit = shape;
            unit.kv_read[g][rows] = 1;
            const struct cost read = op_cost(plan, op, kv, &unit);
            unit.kv_pairs[g][rows] = 1;
            const struct cost pair = op_cost(plan, op, kv, &unit);
            const struct cost more = minus(read, &one), paired = minus(pair, &read);
            add_times(&rates->read[g][rows], &more, 1);
            add_times(&rates->pair[g][rows], &paired, 1);
        }
    }
    if (op->kind == OP_EXPERTS) {
        const struct plan_weight *weight = &plan->weight[op->weight];
        const uint64_t bias = op->bias == PLAN_NONE ? 0 : plan->weight[op->bias].bytes;
        const struct cost_experts experts = {.rows = op->rows,
                                             .total = weight->n_expert,
                                             .used = plan->buffer[op->out].slots,
                                             .bytes = weight->bytes + bias,
                                             .count = 1};
        add_experts(rates, &experts);
        one.weight_bytes = one.expert_bytes = two.weight_bytes = two.expert_bytes = 0;
    }
    const struct cost slope = minus(two, &one), fixed = minus(one, &slope);
    add_times(&rates->row[op->rows], &slope, 1);
    add_times(&rates->fixed[op->rows], &fixed, 1);
}

void cost_rates_init(struct cost_rates *rates, const struct plan *plan, const struct kv_bytes *kv) {
    *rates = (struct cost_rates){.n_group = plan->n_group};
    for (int i = 0; i < plan->n_op; i++) add_op(rates, plan, &plan->op[i], kv);
}

void cost_rates_init_class(struct cost_rates *rates, const struct plan *plan,
                           const struct kv_bytes *kv, enum op_class ops) {
    *rates = (struct cost_rates){.n_group = plan->n_group, .is_empty = true};
    for (int i = 0; i < plan->n_op; i++) {
        if (op_class_of(plan->op[i].kind) != ops) continue;
        add_op(rates, plan, &plan->op[i], kv);
        rates->is_empty = false;
    }
}

static uint64_t expert_bytes(const struct cost_rates *rates, const struct batch_shape *shape) {
    uint64_t sum = 0;
    double touched = 0;
    for (int i = 0; i < rates->n_experts; i++) {
        const struct cost_experts *e = &rates->experts[i], *before = e - 1;
        const int64_t rows = domain_rows(shape, e->rows);
        if (rows == 0) continue;
        // the expectation takes a loop over the rows; products of a model mostly share it
        if (touched == 0 || e->rows != before->rows || e->total != before->total ||
            e->used != before->used)
            touched = cost_experts_touched(e->total, e->used, rows);
        sum += e->count * (uint64_t)((double)e->bytes * (touched / e->total) + 0.5);
    }
    return sum;
}

struct cost cost_rates_apply(const struct cost_rates *rates, const struct batch_shape *shape) {
    struct cost sum = {0};
    for (int rows = 0; rows < COST_DOMAINS; rows++) {
        const int64_t n = domain_rows(shape, rows);
        if (n == 0) continue;
        add_times(&sum, &rates->fixed[rows], 1);
        add_times(&sum, &rates->row[rows], (uint64_t)n);
    }
    for (int g = 0; g < rates->n_group; g++) {
        for (int rows = 0; rows < 2; rows++) {
            add_times(&sum, &rates->read[g][rows], (uint64_t)shape->kv_read[g][rows]);
            add_times(&sum, &rates->pair[g][rows], (uint64_t)shape->kv_pairs[g][rows]);
        }
    }
    const uint64_t experts = expert_bytes(rates, shape);
    sum.weight_bytes += experts;
    sum.expert_bytes += experts;
    return sum;
}

// The positions that queries at [first, first + n) of one sequence read: from the first query's
// oldest key to the last query's own; of a recurrent group the state, once.
static int64_t queries_read(const struct plan_kv_group *group, int64_t first, int64_t n) {
    if (n == 0) return 0;
    if (group->kind == KV_RECURRENT) return 1;
    return first + n - kv_first_seen(group->kind, group->window, first);
}

// The pairs of the positions before n: in each chunk they are a sum over 1, 2, ...
static int64_t chunk_pairs(int64_t chunk, int64_t n) {
    const int64_t rest = n % chunk;
    return n / chunk * (chunk * (chunk + 1) / 2) + rest * (rest + 1) / 2;
}

// Their pairs with keys are a sum over 1, 2, ... up to the window.
static int64_t queries_pairs(const struct plan_kv_group *group, int64_t first, int64_t n) {
    if (n == 0 || group->kind == KV_RECURRENT) return 0;
    if (group->kind == KV_CHUNK)
        return chunk_pairs(group->window, first + n) - chunk_pairs(group->window, first);
    const int64_t window = group->kind == KV_WINDOW ? group->window : INT64_MAX;
    const int64_t visible = first + 1 < window ? first + 1 : window;
    const int64_t rising =
        n < window - visible ? n : window - visible; // rows before the window is full
    return n * visible + rising * (rising - 1) / 2 + (n - rising) * rising;
}

uint64_t cost_rates_kv_bytes(const struct cost_rates *rates, const struct plan *plan, int first_pos,
                             int n_tokens, int n_out) {
    uint64_t bytes = 0;
    for (int g = 0; g < rates->n_group; g++) {
        const struct plan_kv_group *group = &plan->group[g];
        const int64_t read = queries_read(group, first_pos, n_tokens);
        const int64_t out =
            n_out == n_tokens ? read : queries_read(group, first_pos + n_tokens - n_out, n_out);
        bytes += (uint64_t)read * rates->read[g][ROWS_TOKENS].kv_read_bytes +
                 (uint64_t)out * rates->read[g][ROWS_OUT].kv_read_bytes;
    }
    return bytes;
}

void batch_shape_add(const struct plan *plan, struct batch_shape *shape, int first_pos,
                     int n_tokens, int n_out) {
    assert(n_out <= n_tokens);
    shape->n_tokens += n_tokens;
    shape->n_out += n_out;
    shape->n_logits += n_out;
    shape->n_seqs++;
    for (int g = 0; g < plan->n_group; g++) {
        const struct plan_kv_group *group = &plan->group[g];
        const int first_out = first_pos + n_tokens - n_out;
        const int64_t read = queries_read(group, first_pos, n_tokens);
        const int64_t pairs = queries_pairs(group, first_pos, n_tokens);
        const bool all_out = n_out == n_tokens; // as a stream's rows are
        shape->kv_read[g][ROWS_TOKENS] += read;
        shape->kv_pairs[g][ROWS_TOKENS] += pairs;
        shape->kv_read[g][ROWS_OUT] += all_out ? read : queries_read(group, first_out, n_out);
        shape->kv_pairs[g][ROWS_OUT] += all_out ? pairs : queries_pairs(group, first_out, n_out);
    }
}
