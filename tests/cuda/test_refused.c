// Plans that the CUDA backend has no kernels for are refused before memory is taken. The refusal
// names the op. The CPU's name is in it, because that backend has every op.
#include "backend/cuda/stage.h"
#include "backend/parity_case.h"
#include "cuda_engine.h"

static const struct backend_sizes sizes = {.max_tokens = 8, .max_logits = 8, .max_seqs = 2};

static void check_message(const rn_error *err, const char *name) {
    check(strstr(err->message, name) && strstr(err->message, "--backend cpu"), "%s: %s", name,
          err->message);
}

// What is needed for the plan, and a backend for it: both are refused.
static void check_refused(const struct plan *plan, const char *name) {
    const struct backend_class *cls = cuda_class();
    struct backend_config config = {.sizes = sizes};
    struct backend_need need;
    struct backend *backend;
    rn_error err = {0};
    for (int g = 0; g < plan->n_group; g++) config.n_pages[g] = 2;
    for (int i = 0; cls->kv_types[i]; i++) {
        check(cls->need(plan, &sizes, cls->kv_types[i], &need, &err) == RN_ERR_UNSUPPORTED,
              "need of %s, %s", name, cls->kv_types[i]);
        check_message(&err, name);
    }
    err = (rn_error){0};
    assert_int_equal(pool_create_here(1, false, &config.pool, &err), RN_OK);
    check(cls->create(plan, &config, &backend, &err) == RN_ERR_UNSUPPORTED, "%s", name);
    assert_null(backend);
    check_message(&err, name);
    pool_destroy(config.pool);
}

// A plan of which only that op differs from one that is supported.
static struct op *op_of_kind(struct plan *plan, enum op_kind kind) {
    for (int i = 0; i < plan->n_op; i++)
        if (plan->op[i].kind == kind) return &plan->op[i];
    return NULL;
}

CASE(a_router_of_many_groups_is_refused) {
    const struct backend_class *cls = cuda_class();
    int n = 0;
    for (int i = 0; i < 24; i++) {
        struct parity_case *c = parity_case_create(OP_ROUTE, i);
        struct backend_need need;
        if (cls->need(&c->plan, &sizes, cls->kv_types[0], &need, NULL) == RN_OK) {
            op_of_kind(&c->plan, OP_ROUTE)->route.n_group = 33;
            check_refused(&c->plan, "the op route with more than 32 groups");
            n++;
        }
        parity_case_destroy(c);
    }
    assert_true(n > 0);
}

// The rows of a head's state are in registers.
CASE(a_state_of_too_many_rows_is_refused) {
    static const enum op_kind kinds[] = {OP_DELTA, OP_SCAN};
    for (int i = 0; i < COUNT(kinds); i++) {
        char name[96];
        struct parity_case *c = parity_case_create(kinds[i], 0);
        op_of_kind(&c->plan, kinds[i])->state.dim_k = STATE_DIM_MAX + 1;
        snprintf(name, sizeof name, "the op %s of heads with more than 256 rows of state",
                 op_name(kinds[i]));
        check_refused(&c->plan, name);
        parity_case_destroy(c);
    }
}

// Even if no op reads its pages.
CASE(a_group_of_large_latents_is_refused) {
    static const float rows[4 * 4];
    const struct plan_kv_group group = {.kind = KV_FULL,
                                        .n_layer = 1,
                                        .n_head_kv = 1,
                                        .dim_k = 640,
                                        .dim_v = 512,
                                        .is_latent = true};
    struct plan plan;
    plan_init(&plan);
    plan_add_kv_group(&plan, &group);
    plan_end_with_rows(&plan, rows, 4, 4);
    check_refused(&plan, "a latent of 640 elements");
    plan_deinit(&plan);
}

TEST_PROGRAM(refused) { return cases_run(NULL, NULL); }
