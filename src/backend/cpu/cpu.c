// The CPU backend behind backend.h: create, destroy and the small calls. The work is in program.c.
#include "backend/cpu/cpu.h"

#include <assert.h>
#include <stdlib.h>

#include "backend/table.h"
#include "base/topology.h"

static struct cpu_backend *cpu_of(struct backend *backend) { return (struct cpu_backend *)backend; }
static const struct cpu_backend *cpu_of_const(const struct backend *backend) {
    return (const struct cpu_backend *)backend;
}

static void cpu_destroy(struct backend *backend) {
    struct cpu_backend *b = cpu_of(backend);
    if (b->lender == b)
        pool_destroy(b->pool);
    else
        cpu_ahead_leave(b);
    cpu_choose_deinit(b);
    region_unmap(&b->packed);
    region_unmap(&b->memory);
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) region_unmap(&b->kv[g]);
    arena_deinit(&b->arena);
    free(b);
}

static rn_status check_config(const struct backend_config *config, rn_error *err) {
    const struct {
        const char *name;
        int value, least;
    } fields[] = {
        {"threads", config->n_threads, 0},
        {"max_tokens", config->max_tokens, 1},
        {"max_logits", config->max_logits, 1},
        {"max_seqs", config->max_seqs, 1},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < fields[i].least)
            return err_set(err, RN_ERR_ARG, "%s: %d is below %d", fields[i].name, fields[i].value,
                           fields[i].least);
    return RN_OK;
}

static void threads_borrow(struct cpu_backend *b, struct cpu_backend *lender) {
    b->lender = lender;
    b->pool = lender->pool;
    b->cache_bytes = lender->cache_bytes;
    b->cache_bytes_all = lender->cache_bytes_all;
}

static rn_status threads_start(struct cpu_backend *b, const struct backend_config *config,
                               rn_error *err) {
    if (b->lender != b) return RN_OK;
    struct topology *topology;
    rn_status s = topology_create(NULL, &topology, err);
    if (s) return s;
    s = pool_create(config->n_threads ? config->n_threads : topology->n_threads, &b->pool, err);
    if (!s && !config->no_pin) pool_bind(b->pool, topology);
    b->cache_bytes = topology->cache_bytes;
    b->cache_bytes_all = topology->cache_bytes_all;
    topology_destroy(topology);
    return s;
}

static rn_status cpu_init(struct cpu_backend *b, const struct backend_config *config,
                          rn_error *err) {
    rn_status s;
    if ((s = ops_find(config->isa, &b->ops, err))) return s;
    if ((s = threads_start(b, config, err))) return s;
    if ((s = cpu_layout(b, config, err))) return s;
    if ((s = cpu_pack(b, config, err))) return s;
    if ((s = cpu_program_compile(b, err))) return s;
    if ((s = cpu_choose_init(b, err))) return s;
    if (b->lender == b) pool_set_ahead(b->pool, cpu_ahead_fetch, b);
    return RN_OK;
}

static rn_status cpu_create(const struct plan *plan, const struct backend_config *config,
                            struct backend **out, rn_error *err) {
    *out = NULL;
    rn_status status = check_config(config, err);
    if (status) return status;
    assert(!config->threads_of || config->threads_of->cls == &backend_cpu);
    struct cpu_backend *b = calloc(1, sizeof *b);
    if (!b)
        return err_set(err, RN_ERR_NOMEM, "cannot allocate %zu bytes for the backend", sizeof *b);
    b->base.cls = &backend_cpu;
    b->plan = plan;
    b->max_tokens = config->max_tokens;
    b->max_logits = config->max_logits;
    b->max_seqs = config->max_seqs;
    b->kv_type = config->kv_type;
    b->lender = b;
    if (config->threads_of) threads_borrow(b, cpu_of(config->threads_of)->lender);
    status = cpu_init(b, config, err);
    if (status) {
        cpu_destroy(&b->base);
        return status;
    }
    *out = &b->base;
    return RN_OK;
}

static void cpu_run(struct backend *backend, const struct batch *batch) {
    cpu_program_run(cpu_of(backend), batch);
    cpu_choose_rows(cpu_of(backend), batch);
}

static const int32_t *cpu_tokens(const struct backend *backend) {
    return cpu_of_const(backend)->token;
}

static uint64_t cpu_choose_ns(const struct backend *backend) {
    return cpu_of_const(backend)->choose_ns;
}

static const float *cpu_logits(const struct backend *backend, int row) {
    const struct cpu_backend *b = cpu_of_const(backend);
    assert(row >= 0 && row < b->max_logits && b->has_logits[row]);
    return cpu_row_at(b, b->plan->logits, row);
}

static const float *cpu_hidden(const struct backend *backend, int row) {
    const struct cpu_backend *b = cpu_of_const(backend);
    assert(b->plan->hidden != PLAN_NONE && row >= 0 && row < b->max_tokens);
    return cpu_row_at(b, b->plan->hidden, row);
}

static void cpu_parallel(struct backend *backend, pool_fn fn, void *ctx, int64_t n_items,
                         int64_t chunk) {
    pool_run(cpu_of(backend)->pool, fn, ctx, n_items, chunk);
}

static uint64_t cpu_expert_bytes(const struct backend *backend) {
    return cpu_of_const(backend)->expert_bytes;
}

static uint64_t cpu_cache_bytes(const struct backend *backend) {
    return cpu_of_const(backend)->cache_bytes;
}

static const char *cpu_slow(const struct backend *backend) { return cpu_of_const(backend)->slow; }

static const char *cpu_isa_name(const struct backend *backend) {
    return cpu_of_const(backend)->ops->name;
}

static int cpu_threads(const struct backend *backend) {
    return pool_size(cpu_of_const(backend)->pool);
}

const struct backend_class backend_cpu = {
    .name = "cpu",
    .create = cpu_create,
    .destroy = cpu_destroy,
    .run = cpu_run,
    .tokens = cpu_tokens,
    .choose_ns = cpu_choose_ns,
    .logits = cpu_logits,
    .hidden = cpu_hidden,
    .expert_bytes = cpu_expert_bytes,
    .kv_forget = cpu_page_forget,
    .parallel = cpu_parallel,
    .bandwidth = cpu_bandwidth,
    .peak_macs = cpu_peak_macs,
    .profile = cpu_profile_switch,
    .stage_time = cpu_profile_at,
    .cache_bytes = cpu_cache_bytes,
    .slow = cpu_slow,
    .isa = cpu_isa_name,
    .threads = cpu_threads,
};
