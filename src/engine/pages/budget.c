// The arithmetic of budget.h. Sizes of a plan are in ranges that the model checked, so a product of
// two of them fits 64 bits. Sizes that callers ask for go through checked arithmetic.
#include "engine/pages/budget.h"

#include <stdio.h>

#include "base/checked.h"

enum {
    MAX_SEQS = 4096,
    MAX_BATCH_TOKENS = 1 << 16,
    LOGIT_BYTES = 256 << 20, // of logit rows, where as many as fit are asked for
    STEP_DIVISOR = 16,       // of the memory beside the weights, for a step of a device's own size
    RESERVE_DIVISOR = 20,    // of the free memory, for uses that are not counted here
    // the same of addresses, which are taken before they are touched: for all, and for each
    // sequence
    ADDRESS_RESERVE = 16 << 20,
    ADDRESS_RESERVE_SEQ = 3 << 19,
    ADDRESS_RESERVE_MAX = 64 << 20,
    ADEQUATE_CONTEXTS = 2,                // for each sequence: its own, and one more for prefixes
    INTERVAL_MAX = 1024 / KV_PAGE_TOKENS, // blocks from a checkpoint of states to the next
};

// ---------------------------------------------------------------- sizes

static rn_status check_limit(const char *name, int value, int min, int max, rn_error *err) {
    if (value >= min && value <= max) return RN_OK;
    return err_set(err, RN_ERR_ARG, "%s is %d, expected %d to %d", name, value, min, max);
}

static int larger(int a, int b) { return a > b ? a : b; }

// Logit rows of steps of that many tokens.
static int logit_rows_of(const struct budget_request *request, const struct budget_sizes *s,
                         int tokens) {
    const int fitting = LOGIT_BYTES / (int)sizeof(float) / request->plan->n_vocab;
    if (s->logit_rows == -1) return larger(fitting < tokens ? fitting : tokens, s->max_seqs);
    return s->logit_rows ? s->logit_rows : s->max_seqs + request->draft_rows;
}

// Adds the needs of a plan for steps of that many tokens. Failures are left to need_of.
static void needs_add(const struct backend_class *cls, const struct plan *plan, const char *kv_type,
                      const struct backend_sizes *sizes, uint64_t *weights, uint64_t *step) {
    struct backend_need need;
    if (cls->need(plan, sizes, kv_type, &need, NULL)) return;
    *weights += need.weights;
    *step += need.step;
}

// Whether the buffers of a step of that many tokens leave the memory to weights and KV.
static bool step_is_small(const struct budget_request *request, const struct budget_sizes *s,
                          int tokens) {
    const struct budget_beside *beside = &request->beside;
    struct backend_sizes sizes = {.max_tokens = tokens,
                                  .max_logits = logit_rows_of(request, s, tokens),
                                  .max_seqs = s->max_seqs,
                                  .bf16_states = request->bf16_states};
    uint64_t weights = 0, step = 0;
    if (!request->available) return true;
    needs_add(request->cls, request->plan, request->kv_type, &sizes, &weights, &step);
    sizes.max_logits = s->max_seqs;
    sizes.bf16_states = false;
    if (beside->plan && !beside->is_apart)
        needs_add(beside->cls, beside->plan, beside->kv_type, &sizes, &weights, &step);
    return weights < request->available && step <= (request->available - weights) / STEP_DIVISOR;
}

// The device's own number, halved while its buffers take too much of the free memory.
static int batch_tokens_of(const struct budget_request *request, const struct budget_sizes *s) {
    int tokens = request->step_tokens;
    while (tokens > RN_DEFAULT_BATCH_TOKENS && !step_is_small(request, s, tokens)) tokens /= 2;
    return larger(larger(tokens, RN_DEFAULT_BATCH_TOKENS), s->max_seqs);
}

// Fills in the defaults and checks the ranges.
static rn_status resolve(const struct budget_request *request, struct budget_sizes *s,
                         rn_error *err) {
    *s = request->wanted;
    if (!s->n_ctx) s->n_ctx = request->n_ctx_max;
    if (!s->max_seqs) s->max_seqs = 1;
    if (!s->batch_tokens) s->batch_tokens = batch_tokens_of(request, s);
    s->logit_rows = logit_rows_of(request, s, s->batch_tokens);
    rn_status status = check_limit("context", s->n_ctx, 1, request->n_ctx_max, err);
    if (!status) status = check_limit("max_seqs", s->max_seqs, 1, MAX_SEQS, err);
    // every sequence gets a token and a row of logits in each step
    if (!status)
        status = check_limit("batch_tokens", s->batch_tokens, s->max_seqs, MAX_BATCH_TOKENS, err);
    if (!status)
        status = check_limit("logit_rows", s->logit_rows, s->max_seqs, MAX_BATCH_TOKENS, err);
    return status;
}

// ---------------------------------------------------------------- weights and buffers

// Rows that are kept for the plan's draft block.
static uint64_t hidden_bytes(const struct plan *plan, int max_seqs) {
    if (!plan_has_block(plan)) return 0;
    const uint64_t rows = plan_block_reads(plan) ? 1 : BUDGET_HIDDEN_ROWS;
    return (uint64_t)max_seqs * rows * (uint64_t)plan->buffer[plan->hidden].width * sizeof(float);
}

// As the backend says.
static rn_status need_of(const struct budget_request *request, struct budget *out, rn_error *err) {
    const struct backend_sizes sizes = {.max_tokens = out->sizes.batch_tokens,
                                        .max_logits = out->sizes.logit_rows,
                                        .max_seqs = out->sizes.max_seqs,
                                        .bf16_states = request->bf16_states};
    struct backend_need need;
    const rn_status status =
        request->cls->need(request->plan, &sizes, request->kv_type, &need, err);
    if (status) return status;
    out->weight_bytes = need.weights;
    out->step_bytes = need.step;
    if (!request->no_block) out->step_bytes += hidden_bytes(request->plan, out->sizes.max_seqs);
    out->kv = need.kv;
    return RN_OK;
}

// Its rows of logits are one for each sequence: it drafts a token at a time.
static rn_status beside_need(const struct budget_request *request, struct budget *out,
                             rn_error *err) {
    const struct budget_beside *beside = &request->beside;
    const struct backend_sizes sizes = {.max_tokens = out->sizes.batch_tokens,
                                        .max_logits = out->sizes.max_seqs,
                                        .max_seqs = out->sizes.max_seqs};
    struct backend_need need;
    if (!beside->plan) return RN_OK;
    const rn_status status = beside->cls->need(beside->plan, &sizes, beside->kv_type, &need, err);
    if (status) return status;
    out->beside.n_ctx = out->sizes.n_ctx < beside->n_ctx_max ? out->sizes.n_ctx : beside->n_ctx_max;
    out->beside.weight_bytes = need.weights;
    out->beside.step_bytes = need.step;
    out->beside.kv = need.kv;
    return RN_OK;
}

// The blocks whose KV takes as many bytes as the states: checkpoints then take no more than the KV
// of their tokens. All recurrent groups have the same, for a prefix needs a state of each.
static int interval_of(const struct plan *plan, const struct kv_bytes *kv) {
    uint64_t states = 0, block = 0;
    for (int g = 0; g < plan->n_group; g++)
        *(plan->group[g].kind == KV_RECURRENT ? &states : &block) += kv->page[g];
    if (block == 0) return INTERVAL_MAX;
    const uint64_t n = (states + block - 1) / block;
    return n < 1 ? 1 : n < INTERVAL_MAX ? (int)n : INTERVAL_MAX;
}

struct kv_config budget_kv_config(const struct plan *plan, const struct kv_bytes *kv) {
    struct kv_config config = {.n_group = plan->n_group};
    for (int g = 0; g < plan->n_group; g++) {
        config.group[g].kind = plan->group[g].kind;
        config.group[g].window = plan->group[g].window;
        config.group[g].page_bytes = kv->page[g];
        if (plan->group[g].kind == KV_RECURRENT) config.group[g].interval = interval_of(plan, kv);
    }
    return config;
}

int budget_state_interval(const struct plan *plan, const struct kv_bytes *kv) {
    return plan_state_bytes(plan, kv) ? interval_of(plan, kv) * KV_PAGE_TOKENS : 0;
}

// ---------------------------------------------------------------- KV memory

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product;
    return ck_mul(a, b, &product) ? product : UINT64_MAX;
}

// The largest budget whose pages can be numbered in every group.
static uint64_t kv_bytes_max(const struct kv_config *config) {
    uint64_t bytes = UINT64_MAX;
    for (int g = 0; g < config->n_group; g++)
        bytes = least(bytes, times(config->group[g].page_bytes, KV_MAX_GROUP_PAGES));
    return bytes;
}

// KV memory that the draft model needs for each byte of the target's; 0 without a draft model.
static double beside_share(const struct budget_request *request, const struct kv_config *config,
                           const struct budget *budget) {
    if (!request->beside.plan) return 0;
    const struct kv_config beside = budget_kv_config(request->beside.plan, &budget->beside.kv);
    return (double)kv_need(&beside, budget->beside.n_ctx, 1) /
           (double)kv_need(config, budget->sizes.n_ctx, 1);
}

// KV memory of the plan's draft block for each byte of the model's; 0: there is none.
static double block_share(const struct plan *plan, const struct kv_bytes *kv) {
    uint64_t model = 0, block = 0;
    for (int g = 0; g < plan->n_group_all; g++) {
        if (g >= plan->n_group)
            block += kv->page[g];
        else if (plan->group[g].kind == KV_FULL)
            model += kv->page[g];
    }
    return model > 0 ? (double)block / (double)model : 0;
}

static uint64_t scaled(uint64_t bytes, double factor) {
    const double product = (double)bytes * factor;
    return product < 0x1p63 ? (uint64_t)product : UINT64_MAX;
}

// The memory for KV pages when no amount was asked for; share: the draft model's bytes for each
// byte of the target's.
static uint64_t kv_bytes_free(const struct budget_request *request, const struct kv_config *config,
                              const struct budget *budget, double share) {
    const struct budget_sizes *sizes = &budget->sizes;
    const uint64_t seqs =
        times(kv_need(config, sizes->n_ctx, sizes->batch_tokens), (uint64_t)sizes->max_seqs);
    if (!request->available) return least(seqs, kv_bytes_max(config));
    const double more = (request->beside.is_apart ? 0 : share) + budget->block_share;
    const uint64_t own = more > 0 ? scaled(budget->free_bytes, 1 / (1 + more)) : budget->free_bytes;
    const uint64_t bytes = least(own, times(seqs, ADEQUATE_CONTEXTS));
    return least(bytes, kv_bytes_max(config));
}

// For uses that are not counted: the engine's own lists, requests and their answers.
static uint64_t reserve_of(const struct budget_request *request, const struct budget *budget) {
    const uint64_t part = request->available / RESERVE_DIVISOR;
    const uint64_t seqs = times(ADDRESS_RESERVE_SEQ, (uint64_t)budget->sizes.max_seqs);
    const uint64_t addresses =
        least(ADDRESS_RESERVE + seqs, ADDRESS_RESERVE_MAX) + request->stack_bytes;
    return request->address_room && addresses > part ? addresses : part;
}

// The memory that weights, buffers and the reserve leave. Every group has addresses for the whole
// budget.
static uint64_t free_bytes_of(const struct budget_request *request, int n_group,
                              const struct budget *budget) {
    const bool together = request->beside.plan && !request->beside.is_apart;
    const uint64_t beside = budget->beside.weight_bytes + budget->beside.step_bytes;
    const uint64_t taken = budget->weight_bytes + budget->step_bytes + (together ? beside : 0);
    if (together && request->beside.plan->n_group > n_group)
        n_group = request->beside.plan->n_group;
    const uint64_t bytes = less(request->available, taken + request->available / RESERVE_DIVISOR);
    if (!request->address_room) return bytes;
    const uint64_t addresses = less(request->address_room, taken + reserve_of(request, budget));
    return least(bytes, n_group > 1 ? addresses / (uint64_t)n_group : addresses);
}

// The longest sequence that fits alone, at most n_ctx positions; 0: none. A prompt with little room
// continues in small chunks, so the smallest chunk is the measure.
static int positions_fit(const struct kv_config *config, uint64_t kv_bytes, int n_ctx) {
    int fits = 0, beyond = n_ctx + 1;
    while (beyond - fits > 1) {
        const int middle = fits + (beyond - fits) / 2;
        if (kv_need(config, middle, 1) <= kv_bytes) {
            fits = middle;
        } else {
            beyond = middle;
        }
    }
    return fits;
}

// ---------------------------------------------------------------- errors

struct size_text {
    char text[32];
};

static struct size_text size_of(uint64_t bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct size_text size;
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024; unit++) value /= 1024;
    snprintf(size.text, sizeof size.text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return size;
}

// " on NVIDIA H200", behind the memory of a device that is not the host.
struct device_text {
    char text[80];
};

static struct device_text on_device(const char *name) {
    struct device_text out = {""};
    if (name && *name) snprintf(out.text, sizeof out.text, " on %.64s", name);
    return out;
}

static rn_status refuse_no_page(const struct budget_request *request, const struct budget *budget,
                                bool is_given, rn_error *err) {
    if (is_given)
        return err_set(err, RN_ERR_ARG,
                       "KV memory of %s is too little: a page of %d tokens%s takes %s",
                       size_of(budget->kv_bytes).text, KV_PAGE_TOKENS,
                       plan_state_bytes(request->plan, &budget->kv) ? ", with a state," : "",
                       size_of(budget->page_bytes).text);
    const struct device_text on = on_device(request->device);
    const bool together = !request->beside.is_apart;
    return err_set(
        err, RN_ERR_NOMEM,
        "%s of %smemory are free%s, and the weights take %s, the buffers of a step %s, "
        "%s %s: the rest holds no KV page of %s",
        size_of(request->available).text, *on.text ? "device " : "", on.text,
        size_of(budget->weight_bytes + (together ? budget->beside.weight_bytes : 0)).text,
        size_of(budget->step_bytes + (together ? budget->beside.step_bytes : 0)).text,
        *on.text ? "the reserve" : "threads and requests",
        size_of(reserve_of(request, budget)).text, size_of(budget->page_bytes).text);
}

static rn_status refuse_context(const struct budget_request *request, const struct budget *budget,
                                const struct kv_config *config, int n_fitting, bool is_given,
                                rn_error *err) {
    return err_set(err, is_given ? RN_ERR_ARG : RN_ERR_NOMEM,
                   "a context of %d needs %s of KV memory; the %s that %s%s hold %d positions",
                   budget->sizes.n_ctx, size_of(kv_need(config, budget->sizes.n_ctx, 1)).text,
                   size_of(budget->kv_bytes).text,
                   is_given ? "were asked for" : "are free beside the weights",
                   is_given ? "" : on_device(request->device).text, n_fitting);
}

static uint64_t kv_bytes_choose(const struct budget_request *request,
                                const struct kv_config *config, const struct budget *budget,
                                double share) {
    if (request->kv_bytes) return request->kv_bytes;
    if (request->kv_pages) return times(budget->page_bytes, request->kv_pages);
    return kv_bytes_free(request, config, budget, share);
}

// The sizes that are known before memory is divided.
static rn_status fill_parts(const struct budget_request *request, struct budget *out,
                            rn_error *err) {
    rn_status status = need_of(request, out, err);
    if (!status) status = beside_need(request, out, err);
    if (status) return status;
    const struct kv_config config = budget_kv_config(request->plan, &out->kv);
    for (int g = 0; g < config.n_group; g++) {
        const uint64_t bytes = config.group[g].page_bytes;
        const bool is_state = config.group[g].kind == KV_RECURRENT;
        out->page_bytes += bytes;
        out->block_bytes += is_state ? bytes / (uint64_t)config.group[g].interval : bytes;
    }
    out->free_bytes = free_bytes_of(request, request->plan->n_group, out);
    return RN_OK;
}

// The KV memory that a device of its own leaves; UINT64_MAX: unknown.
static uint64_t beside_free(const struct budget_request *request, const struct budget *budget) {
    const uint64_t available = request->beside.available;
    if (!request->beside.is_apart || !available) return UINT64_MAX;
    return less(available, budget->beside.weight_bytes + budget->beside.step_bytes +
                               available / RESERVE_DIVISOR);
}

// After the target's KV memory and context were chosen.
static rn_status fill_beside(const struct budget_request *request, double share, struct budget *out,
                             rn_error *err) {
    if (!request->beside.plan) return RN_OK;
    const struct kv_config config = budget_kv_config(request->beside.plan, &out->beside.kv);
    if (out->beside.n_ctx > out->sizes.n_ctx) out->beside.n_ctx = out->sizes.n_ctx;
    const uint64_t context = kv_need(&config, out->beside.n_ctx, 1);
    const uint64_t bytes = scaled(out->kv_bytes, share), room = beside_free(request, out);
    const uint64_t wanted = least(bytes > context ? bytes : context, kv_bytes_max(&config));
    out->beside.kv_bytes = least(wanted, room);
    if (room >= context) return RN_OK;
    return err_set(err, RN_ERR_NOMEM,
                   "the draft model's device has %s free%s; its weights take %s, its step %s and a "
                   "context of %d %s",
                   size_of(request->beside.available).text, on_device(request->beside.device).text,
                   size_of(out->beside.weight_bytes).text, size_of(out->beside.step_bytes).text,
                   out->beside.n_ctx, size_of(context).text);
}

uint64_t budget_block_bytes(const struct plan *plan, const struct kv_bytes *kv, uint64_t kv_bytes,
                            int n_ctx) {
    const double share = block_share(plan, kv);
    if (share == 0) return 0;
    const uint64_t blocks = (uint64_t)n_ctx / KV_PAGE_TOKENS + 1;
    const uint64_t context = times(kv->page[plan->n_group], blocks);
    const uint64_t bytes = scaled(kv_bytes, share);
    return bytes > context ? bytes : context;
}

rn_status budget_choose(const struct budget_request *request, struct budget *out, rn_error *err) {
    const bool is_given = request->kv_bytes || request->kv_pages;
    *out = (struct budget){0};
    rn_status status = resolve(request, &out->sizes, err);
    if (!status) status = fill_parts(request, out, err);
    if (status) return status;
    const struct kv_config config = budget_kv_config(request->plan, &out->kv);
    const double share = beside_share(request, &config, out);
    out->block_share = request->no_block ? 0 : block_share(request->plan, &out->kv);
    out->kv_bytes = kv_bytes_choose(request, &config, out, share);
    // pages are given memory when they are used, so too much would be noticed only then
    if (is_given && request->total && out->kv_bytes > request->total)
        return err_set(err, RN_ERR_ARG, "KV memory of %s is more than there is%s, %s",
                       size_of(out->kv_bytes).text, on_device(request->device).text,
                       size_of(request->total).text);
    if (out->kv_bytes > kv_bytes_max(&config))
        return err_set(err, RN_ERR_ARG, "KV memory of %s is more than can be used, %s",
                       size_of(out->kv_bytes).text, size_of(kv_bytes_max(&config)).text);
    const int n_fitting = positions_fit(&config, out->kv_bytes, out->sizes.n_ctx);
    if (n_fitting == 0) return refuse_no_page(request, out, is_given, err);
    if (n_fitting < out->sizes.n_ctx && request->wanted.n_ctx)
        return refuse_context(request, out, &config, n_fitting, is_given, err);
    out->sizes.n_ctx = n_fitting;
    out->context_bytes = kv_need(&config, n_fitting, 1);
    out->has_block = !request->no_block && plan_has_block(request->plan);
    if (!request->no_block)
        out->block_kv_bytes =
            budget_block_bytes(request->plan, &out->kv, out->kv_bytes, out->sizes.n_ctx);
    return fill_beside(request, share, out, err);
}
