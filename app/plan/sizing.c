// See sizing.h.
#include "plan/sizing.h"

#include <math.h>

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

// Chunks of the prompt, each in a step beside the streams that decode.
static double ttft_ms(const struct plan *plan, const struct kv_bytes *kv,
                      const struct machine *machine, const struct workload *w, int streams) {
    const int taken = streams * (1 + w->n_draft);
    const int room = w->batch_tokens - taken > 1 ? w->batch_tokens - taken : 1;
    double ns = 0;
    for (int at = w->n_shared; at < w->n_prompt;) {
        const int n = w->n_prompt - at < room ? w->n_prompt - at : room;
        struct batch_shape shape = {0};
        struct prediction step;
        streams_add(plan, w, streams, &shape);
        batch_shape_add(plan, &shape, at, n, at + n == w->n_prompt ? 1 : 0);
        predict_step(plan, kv, &machine->predict, &shape, &step);
        ns += step.ns;
        at += n;
    }
    return ns * 1e-6;
}

void sizing_row(const struct plan *plan, const struct tools_memory *memory,
                const struct machine *machine, const struct workload *workload, int users,
                struct sizing_row *out) {
    struct batch_shape shape = {0};
    *out = (struct sizing_row){.users = users,
                               .fits = !machine->memory || users <= memory->most_users,
                               .step_tokens = workload_step_tokens(workload)};
    streams_add(plan, workload, users, &shape);
    predict_step(plan, &memory->kv, &machine->predict, &shape, &out->step);
    const struct cost *cost = &out->step.cost;
    out->token_ms = out->step.ns * 1e-6 / out->step_tokens;
    out->user_ts = 1e3 / out->token_ms;
    out->total_ts = out->user_ts * users;
    out->intensity = (double)cost->flops / (double)(cost->weight_bytes + cost->kv_read_bytes);
    out->ttft_ms = ttft_ms(plan, &memory->kv, machine, workload, users - 1);
}

rn_status sizing_memory(const rn_model *model, const struct workload *workload, uint64_t memory,
                        struct tools_memory *out, rn_error *err) {
    const struct tools_memory_wanted wanted = {.kv_type = workload->kv_type,
                                               .n_ctx = workload->n_ctx,
                                               .users = workload->users,
                                               .batch_tokens = workload->batch_tokens,
                                               .shared_tokens = workload->n_shared,
                                               .draft_tokens = workload->n_draft,
                                               .memory = memory};
    return tools_memory(model, &wanted, out, err);
}
