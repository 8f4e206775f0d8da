// See sizing.h.
#include "plan/sizing.h"

#include <math.h>

// Whether an op before it has the same weight: a table that is embedding and head counts as head.
static bool is_counted(const struct plan *plan, int index) {
    for (int i = 0; i < index; i++)
        if (plan->op[i].kind != OP_EMBED && plan->op[i].weight == plan->op[index].weight)
            return true;
    return false;
}

uint64_t sizing_active_params(const rn_model *model) {
    const struct plan *plan = tools_plan(model);
    uint64_t sum = 0;
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        if (op->weight == PLAN_NONE || op->kind == OP_EMBED || is_counted(plan, i)) continue;
        const struct plan_weight *w = &plan->weight[op->weight];
        const int n = op->kind == OP_EXPERTS ? plan->buffer[op->out].slots
                      : op->kind == OP_HEADS ? op->heads.n
                                             : 1;
        sum += (uint64_t)(w->rows * w->cols) * (uint64_t)n;
    }
    return sum;
}

struct workload workload_on(const struct workload *workload, const struct machine *machine) {
    struct workload out = *workload;
    out.place = machine->place;
    if (!out.has_batch_tokens) out.batch_tokens = machine_step_tokens(machine);
    return out;
}

double workload_step_tokens(const struct workload *workload) {
    const double a = workload->acceptance;
    if (!workload->n_draft) return 1;
    if (a >= 1) return workload->n_draft + 1;
    return (1 - pow(a, workload->n_draft + 1)) / (1 - a);
}

// Rows of the users that decode, each with its drafts.
static void streams_add(const struct plan *plan, const struct workload *w, int users,
                        struct batch_shape *shape) {
    const int depth = w->n_prompt + w->n_gen / 2, rows = 1 + w->n_draft;
    for (int i = 0; i < users; i++) batch_shape_add(plan, shape, depth, rows, rows);
}

// The last token of a prompt is always evaluated, because its result is wanted.
static int shared_of(const struct workload *w) {
    return w->n_shared < w->n_prompt ? w->n_shared : w->n_prompt - 1;
}

// The draft model's time for the drafts of that many users. It runs once for each token, with a row
// for each user.
static double drafts_ns(const struct tools_memory *memory, const struct machine *machine,
                        const struct workload *w, int users) {
    if (!w->draft || !w->n_draft || !users) return 0;
    const struct plan *plan = tools_plan(w->draft);
    struct batch_shape shape = {0};
    struct prediction step;
    for (int i = 0; i < users; i++) batch_shape_add(plan, &shape, w->n_prompt + w->n_gen / 2, 1, 1);
    predict_step(plan, &memory->draft_kv, &machine->predict, &shape, &step);
    return step.ns * w->n_draft;
}

enum { MAX_CHUNKS = 32 }; // that are predicted one by one

// The draft model reads the prompt, too.
static double draft_chunk_ns(const struct tools_memory *memory, const struct machine *machine,
                             const struct workload *w, int at, int n) {
    struct batch_shape shape = {0};
    struct prediction step;
    if (!w->draft) return 0;
    batch_shape_add(tools_plan(w->draft), &shape, at, n, 0);
    predict_step(tools_plan(w->draft), &memory->draft_kv, &machine->predict, &shape, &step);
    return step.ns;
}

// The time of the step with the chunk of the prompt that starts there, beside the streams.
static double chunk_ns(const struct plan *plan, const struct tools_memory *memory,
                       const struct machine *machine, const struct workload *w, int streams, int at,
                       int room) {
    const int left = w->n_prompt - at, n = left < room ? left : room;
    struct batch_shape shape = {0};
    struct prediction step;
    streams_add(plan, w, streams, &shape);
    batch_shape_add(plan, &shape, at, n, n == left ? 1 : 0);
    predict_step(plan, &memory->kv, &machine->predict, &shape, &step);
    return step.ns + draft_chunk_ns(memory, machine, w, at, n);
}

// All chunks of the prompt. Of many small ones some are predicted, evenly spread: their times grow
// steadily with the position.
double sizing_ttft_ms(const struct plan *plan, const struct tools_memory *memory,
                      const struct machine *machine, const struct workload *w, int users) {
    const int streams = users - 1, taken = streams * (1 + w->n_draft);
    const int room = w->batch_tokens - taken > 1 ? w->batch_tokens - taken : 1;
    const int shared = shared_of(w), n_chunks = (w->n_prompt - shared + room - 1) / room;
    const int n = n_chunks < MAX_CHUNKS ? n_chunks : MAX_CHUNKS;
    const double drafts = drafts_ns(memory, machine, w, streams);
    double ns = 0;
    for (int i = 0; i < n; i++) {
        const int64_t chunk = n < 2 ? 0 : (int64_t)i * (n_chunks - 1) / (n - 1);
        ns +=
            drafts + chunk_ns(plan, memory, machine, w, streams, shared + (int)chunk * room, room);
    }
    return n > 0 ? ns * n_chunks / n * 1e-6 : 0;
}

// The time of a token without drafts.
static double plain_ms(const struct plan *plan, const struct tools_memory *memory,
                       const struct machine *machine, const struct workload *workload, int users) {
    struct workload plain = *workload;
    struct batch_shape shape = {0};
    struct prediction step;
    plain.n_draft = 0;
    streams_add(plan, &plain, users, &shape);
    predict_step(plan, &memory->kv, &machine->predict, &shape, &step);
    return step.ns * 1e-6;
}

void sizing_step(const struct plan *plan, const struct tools_memory *memory,
                 const struct machine *machine, const struct workload *workload, int users,
                 struct sizing_row *out) {
    struct batch_shape shape = {0};
    *out = (struct sizing_row){.users = users,
                               .fits = !machine->memory || users <= memory->most_users,
                               .step_tokens = workload_step_tokens(workload)};
    streams_add(plan, workload, users, &shape);
    predict_step(plan, &memory->kv, &machine->predict, &shape, &out->step);
    const struct cost *cost = &out->step.cost;
    out->draft_ms = drafts_ns(memory, machine, workload, users) * 1e-6;
    out->token_ms = (out->step.ns * 1e-6 + out->draft_ms) / out->step_tokens;
    out->draft_gain = plain_ms(plan, memory, machine, workload, users) / out->token_ms;
    out->user_ts = 1e3 / out->token_ms;
    out->total_ts = out->user_ts * users;
    out->intensity = (double)cost->flops / (double)(cost->weight_bytes + cost->kv_read_bytes);
}

void sizing_prompt_step(const struct plan *plan, const struct tools_memory *memory,
                        const struct machine *machine, const struct workload *w,
                        struct prediction *out) {
    const int shared = shared_of(w), left = w->n_prompt - shared;
    const int n = left < w->batch_tokens ? left : w->batch_tokens;
    struct batch_shape shape = {0};
    batch_shape_add(plan, &shape, shared, n, n == left ? 1 : 0);
    predict_step(plan, &memory->kv, &machine->predict, &shape, out);
}

void sizing_row(const struct plan *plan, const struct tools_memory *memory,
                const struct machine *machine, const struct workload *workload, int users,
                struct sizing_row *out) {
    sizing_step(plan, memory, machine, workload, users, out);
    out->ttft_ms = sizing_ttft_ms(plan, memory, machine, workload, users);
}

rn_status sizing_memory(const rn_model *model, const struct workload *workload, uint64_t memory,
                        struct tools_memory *out, rn_error *err) {
    const struct tools_memory_wanted wanted = {.place = workload->place,
                                               .kv_type = workload->kv_type,
                                               .n_ctx = workload->n_ctx,
                                               .users = workload->users,
                                               .batch_tokens = workload->batch_tokens,
                                               .shared_tokens = workload->n_shared,
                                               .draft_tokens = workload->n_draft,
                                               .draft = workload->draft,
                                               .memory = memory};
    return tools_memory(model, &wanted, out, err);
}
