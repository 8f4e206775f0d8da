// The CPU backend behind backend.h: create, destroy and the small calls. The work is in program.c.
#include "backend/cpu/cpu.h"

#include <assert.h>
#include <stdlib.h>

#include "backend/table.h"
#include "base/clock.h"
#include "base/memory.h"

static struct cpu_backend *cpu_of(struct backend *backend) { return (struct cpu_backend *)backend; }
static const struct cpu_backend *cpu_of_const(const struct backend *backend) {
    return (const struct cpu_backend *)backend;
}

static void cpu_destroy(struct backend *backend) {
    struct cpu_backend *b = cpu_of(backend);
    cpu_ahead_leave(b);
    cpu_choose_deinit(b);
    region_unmap(&b->packed);
    region_unmap(&b->rows);
    region_unmap(&b->memory);
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) region_unmap(&b->kv[g]);
    arena_deinit(&b->arena);
    free(b);
}

// ---------------------------------------------------------------- before there is one

static rn_status cpu_device(int index, struct backend_device *out, rn_error *err) {
    if (index != 0)
        return err_set(err, RN_ERR_ARG, "device is %d, expected 0: the CPU is one device", index);
    *out = (struct backend_device){.name = "cpu",
                                   .memory_total = memory_total(),
                                   .memory_free = memory_available(),
                                   .on_host = true,
                                   .pages = PAGES_LAZY,
                                   .depth = 1,
                                   .runs_blocks = true};
    return RN_OK;
}

// Weights take the bytes of the file's format, packed or not. A table that is a product's matrix as
// well is there twice, unless the file itself is in memory. A cold table stays in its file: few of
// its rows are read.
static uint64_t weight_bytes(const struct plan *plan) {
    uint64_t bytes = 0;
    for (int i = 0; i < plan->n_weight; i++) {
        const struct plan_weight *weight = &plan->weight[i];
        bool is_table = false, is_matrix = false;
        for (int k = 0; k < plan->n_op_all; k++) {
            if (plan->op[k].weight != i) continue;
            is_table |= plan->op[k].kind == OP_EMBED;
            is_matrix |= op_is_product(plan->op[k].kind);
        }
        if (!weight->is_cold) bytes += weight->bytes;
        if (is_table && is_matrix && plan_on_disk(plan, weight)) bytes += weight->bytes;
    }
    return bytes;
}

static uint64_t step_bytes(const struct plan *plan, const struct backend_sizes *sizes) {
    uint64_t bytes = 0;
    for (int i = 0; i < plan->n_buffer; i++) {
        const struct plan_buffer *buffer = &plan->buffer[i];
        const int rows = buffer->rows == ROWS_LOGITS ? sizes->max_logits : sizes->max_tokens;
        bytes += (uint64_t)rows * (uint64_t)buffer->width * (uint64_t)buffer->slots * sizeof(float);
    }
    return bytes;
}

static rn_status cpu_need(const struct plan *plan, const struct backend_sizes *sizes,
                          const char *kv_type, struct backend_need *out, rn_error *err) {
    (void)err;
    *out = (struct backend_need){.weights = weight_bytes(plan), .step = step_bytes(plan, sizes)};
    for (int g = 0; g < plan->n_group_all; g++)
        out->kv.page[g] =
            kv_page_bytes(&plan->group[g], (enum kv_type)kv_type_find(kv_type), sizes->bf16_states);
    return RN_OK;
}

// ---------------------------------------------------------------- create

static rn_status check_config(const struct backend_config *config, rn_error *err) {
    const struct {
        const char *name;
        int value;
    } fields[] = {
        {"max_tokens", config->sizes.max_tokens},
        {"max_logits", config->sizes.max_logits},
        {"max_seqs", config->sizes.max_seqs},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < 1)
            return err_set(err, RN_ERR_ARG, "%s: %d is below 1", fields[i].name, fields[i].value);
    return RN_OK;
}

static uint64_t host_now(void *ctx) {
    (void)ctx;
    return clock_ns();
}

// Where results will be, which never changes.
static rn_status point_rows(struct cpu_backend *b, rn_error *err) {
    b->logits = arena_array(&b->arena, (size_t)b->max_logits, sizeof *b->logits);
    b->hidden = arena_array(&b->arena, (size_t)b->max_tokens, sizeof *b->hidden);
    if (!b->logits || !b->hidden)
        return err_set(err, RN_ERR_NOMEM, "cannot allocate the tables of the CPU backend");
    for (int i = 0; b->plan->hidden != PLAN_NONE && i < b->max_tokens; i++)
        b->hidden[i] = cpu_row_at(b, b->plan->hidden, i);
    return RN_OK;
}

static rn_status cpu_init(struct cpu_backend *b, const struct backend_config *config,
                          rn_error *err) {
    const char *kv_type;
    rn_status s;
    if ((s = ops_find(config->variant, &b->ops, err))) return s;
    if ((s = backend_kv_type(&backend_cpu, config->kv_type, &kv_type, err))) return s;
    b->kv_type = (enum kv_type)kv_type_find(kv_type);
    if ((s = cpu_layout(b, config, err))) return s;
    if ((s = point_rows(b, err))) return s;
    cpu_place_kv(b);
    if ((s = cpu_pack(b, config, err))) return s; // compiles the program meanwhile
    if ((s = plan_check_files(b->plan, err))) return s;
    cpu_tune(b);
    if ((s = cpu_choose_init(b, err))) return s;
    cpu_ahead_enter(b);
    return RN_OK;
}

static rn_status cpu_create(const struct plan *plan, const struct backend_config *config,
                            struct backend **out, rn_error *err) {
    *out = NULL;
    rn_status status = check_config(config, err);
    if (status) return status;
    struct cpu_backend *b = calloc(1, sizeof *b);
    if (!b)
        return err_set(err, RN_ERR_NOMEM, "cannot allocate %zu bytes for the backend", sizeof *b);
    const struct pool_caches caches = pool_caches(config->pool);
    b->base.cls = &backend_cpu;
    b->plan = plan;
    b->pool = config->pool;
    b->cache_bytes = caches.one;
    b->cache_bytes_all = caches.all;
    b->max_tokens = config->sizes.max_tokens;
    b->max_logits = config->sizes.max_logits;
    b->max_seqs = config->sizes.max_seqs;
    b->bf16_states = config->sizes.bf16_states;
    b->now = config->now ? config->now : host_now;
    b->now_ctx = config->now_ctx;
    status = cpu_init(b, config, err);
    if (status) {
        cpu_destroy(&b->base);
        return status;
    }
    *out = &b->base;
    return RN_OK;
}

// ---------------------------------------------------------------- steps

// Rows of cold tables come from files. What a step read is of one model if nobody wrote to them
// until now.
static rn_status check_rows(struct cpu_backend *b, rn_error *err) {
    if (b->cold_bytes == 0) return RN_OK;
    const rn_status status = plan_check_files(b->plan, err); // it says why a row is not there
    if (status || !atomic_load(&b->has_failed)) return status;
    if (err) *err = b->fault;
    return b->failed;
}

// The step runs here: its result is ready when the engine waits for it.
static rn_status cpu_submit(struct backend *backend, const struct batch *batch, rn_error *err) {
    struct cpu_backend *b = cpu_of(backend);
    assert(!b->in_flight);
    const uint64_t begin = b->now(b->now_ctx);
    cpu_program_run(b, batch);
    const rn_status status = check_rows(b, err);
    if (status) return status;
    b->in_flight = true;
    const uint64_t end = b->now(b->now_ctx);
    cpu_choose_rows(b, batch);
    b->run_ns = end - begin;
    b->choose_ns = b->now(b->now_ctx) - end;
    return RN_OK;
}

// The run's time, divided as the ticks of its classes; the preparation before the first stage is
// divided with it.
static void fill_ops(const struct cpu_backend *b, uint64_t *ops_ns) {
    double ticks = 0;
    for (int i = 0; i < OPS_COUNT; i++) ticks += (double)b->ops_ticks[i];
    for (int i = 0; ticks > 0 && i < OPS_COUNT; i++)
        ops_ns[i] = (uint64_t)((double)b->run_ns * ((double)b->ops_ticks[i] / ticks));
}

static rn_status cpu_wait(struct backend *backend, struct step_result *out, rn_error *err) {
    (void)err;
    struct cpu_backend *b = cpu_of(backend);
    assert(b->in_flight);
    b->in_flight = false;
    *out = (struct step_result){.token = b->token,
                                .logits = b->logits,
                                .hidden = b->hidden,
                                .run_ns = b->run_ns,
                                .choose_ns = b->choose_ns,
                                .expert_bytes = b->expert_bytes,
                                .stage = b->profiling ? b->profile : NULL,
                                .n_stage = b->profiling ? b->n_stage : 0};
    fill_ops(b, out->ops_ns);
    return RN_OK;
}

static void cpu_describe(const struct backend *backend, struct backend_info *out) {
    const struct cpu_backend *b = cpu_of_const(backend);
    *out = (struct backend_info){.variant = b->ops->name,
                                 .kv_type = kv_type_names[b->kv_type],
                                 .slow_formats = b->slow,
                                 .cache_bytes = b->cache_bytes};
}

const struct backend_class backend_cpu = {
    .name = "cpu",
    .kv_types = kv_type_names,
    .kv_default = "f16",
    .device = cpu_device,
    .need = cpu_need,
    .create = cpu_create,
    .destroy = cpu_destroy,
    .submit = cpu_submit,
    .wait = cpu_wait,
    .page_release = cpu_page_release,
    .page_read = cpu_page_read,
    .page_write = cpu_page_write,
    .page_identity = cpu_page_identity,
    .describe = cpu_describe,
    .bandwidth = cpu_bandwidth,
    .peak_macs = cpu_peak_macs,
    .profile = cpu_profile_switch,
};
