// The memory of a number of users, by the engine's own arithmetic: what a backend needs for the
// weights and a step (backend_class.need), the pages of each KV group that a sequence holds
// (kv_need), and the reserve of the budget. Nothing is allocated. Called by `runnel plan`.
#include "engine/pages/place.h"
#include "tools.h"

enum { RESERVE_DIVISOR = 20 }; // as budget.c has it

struct sizing {
    const struct plan *plan;
    const struct tools_memory_wanted *wanted;
    struct backend_place place;
    struct kv_config kv;
    struct tools_memory *out;
};

static int larger(int a, int b) { return a > b ? a : b; }

// Full pages of the prefix that all users hold together. Windows end, so their pages are not
// shared for long.
static uint64_t shared_bytes(const struct sizing *s) {
    uint64_t bytes = 0;
    for (int g = 0; g < s->plan->n_group; g++)
        if (s->plan->group[g].kind == KV_FULL)
            bytes +=
                s->kv.group[g].page_bytes * (uint64_t)(s->wanted->shared_tokens / KV_PAGE_TOKENS);
    return bytes;
}

// The states of a user, as kv_need has them.
static uint64_t state_need(const struct sizing *s) {
    struct kv_config states = {0};
    for (int g = 0; g < s->kv.n_group; g++)
        if (s->kv.group[g].kind == KV_RECURRENT) states.group[states.n_group++] = s->kv.group[g];
    return kv_need(&states, s->wanted->n_ctx, 1);
}

int tools_state_interval(const rn_model *model, const struct kv_bytes *kv) {
    return budget_state_interval(tools_plan(model), kv);
}

bool tools_memory_fits(const struct tools_memory *parts, uint64_t memory) {
    return !memory || parts->total_bytes + memory / RESERVE_DIVISOR <= memory;
}

// The draft model has rows of logits for each sequence alone: it drafts a token at a time.
static rn_status draft_fill(const struct sizing *s, int users, struct tools_memory *out,
                            rn_error *err) {
    const struct tools_memory_wanted *w = s->wanted;
    if (!w->draft) return RN_OK;
    const struct plan *plan = tools_plan(w->draft);
    const int most = rn_model_get_info(w->draft)->n_ctx_train;
    const struct backend_sizes sizes = {.max_tokens = larger(w->batch_tokens, users),
                                        .max_logits = users,
                                        .max_seqs = users};
    struct backend_need need;
    const rn_status status = s->place.cls->need(plan, &sizes, s->place.kv_type, &need, err);
    if (status) return status;
    const struct kv_config kv = budget_kv_config(plan, &need.kv);
    out->draft_kv = need.kv;
    out->draft_weight_bytes = need.weights;
    out->draft_step_bytes = need.step;
    out->draft_kv_bytes = kv_need(&kv, w->n_ctx < most ? w->n_ctx : most, 1) * (uint64_t)users;
    return RN_OK;
}

// The memory of that many users.
static rn_status parts_fill(const struct sizing *s, int users, struct tools_memory *out,
                            rn_error *err) {
    const struct tools_memory_wanted *w = s->wanted;
    struct backend_need need;
    const int rows = users * (1 + w->draft_tokens);
    const struct backend_sizes sizes = {.max_tokens = larger(w->batch_tokens, rows),
                                        .max_logits = rows,
                                        .max_seqs = users};
    rn_status status = s->place.cls->need(s->plan, &sizes, s->place.kv_type, &need, err);
    if (!status) status = draft_fill(s, users, out, err);
    if (status) return status;
    out->weight_bytes = need.weights;
    out->step_bytes = need.step;
    out->shared_bytes = shared_bytes(s);
    out->user_bytes = kv_need(&s->kv, w->n_ctx, 1) - out->shared_bytes;
    out->kv_bytes = out->shared_bytes + out->user_bytes * (uint64_t)users;
    out->state_user_bytes = state_need(s);
    out->mtp_bytes = s->place.device.runs_blocks
                         ? budget_block_bytes(s->plan, &need.kv, out->kv_bytes, w->n_ctx)
                         : 0;
    out->reserve_bytes = w->memory / RESERVE_DIVISOR;
    out->total_bytes = out->weight_bytes + out->step_bytes + out->kv_bytes + out->mtp_bytes +
                       out->draft_weight_bytes + out->draft_step_bytes + out->draft_kv_bytes;
    out->fits = tools_memory_fits(out, w->memory);
    return RN_OK;
}

// Memory grows with users, so the largest number that fits is found by halving.
static rn_status users_fit(const struct sizing *s, int *out, rn_error *err) {
    int fits = 0, beyond = TOOLS_MOST_USERS + 1;
    while (beyond - fits > 1) {
        const int middle = fits + (beyond - fits) / 2;
        struct tools_memory parts = {0};
        const rn_status status = parts_fill(s, middle, &parts, err);
        if (status) return status;
        if (parts.fits)
            fits = middle;
        else
            beyond = middle;
    }
    *out = fits;
    return RN_OK;
}

rn_status tools_memory(const rn_model *model, const struct tools_memory_wanted *wanted,
                       struct tools_memory *out, rn_error *err) {
    const struct place_wanted place = {.name = wanted->place.backend,
                                       .device = wanted->place.device,
                                       .is_absent = wanted->place.is_absent,
                                       .kv_type = wanted->kv_type,
                                       .plan = tools_plan(model)};
    struct sizing s = {.plan = tools_plan(model), .wanted = wanted, .out = out};
    *out = (struct tools_memory){0};
    rn_status status = place_find(&place, &s.place, err);
    if (!status) status = tools_kv_bytes(model, &wanted->place, wanted->kv_type, &out->kv, err);
    if (status) return status;
    s.kv = budget_kv_config(s.plan, &out->kv);
    out->kv_type = s.place.kv_type;
    out->here_total = s.place.device.memory_total;
    out->here_free = s.place.device.memory_free;
    out->kv_token_bytes = plan_kv_token_bytes(s.plan, &out->kv);
    out->state_bytes = plan_state_bytes(s.plan, &out->kv);
    // other devices copy such tables with the weights
    if (s.place.device.on_host) out->table_bytes = plan_cold_bytes(s.plan);
    out->state_interval = budget_state_interval(s.plan, &out->kv);
    status = parts_fill(&s, wanted->users, out, err);
    if (!status && wanted->memory) status = users_fit(&s, &out->most_users, err);
    return status;
}
