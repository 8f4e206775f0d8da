// Layers that differ: one architecture, made of the blocks that all have, whose layers have other
// heads, head sizes, windows, ropes and feed-forwards. The plan has them as they are; more kinds of
// KV than a plan can hold are refused.
#include "layered_model.h"

static struct layered_model layered;

static int open_model(void **state) {
    layered_open(&layered, 128);
    return 0;
}

static int close_model(void **state) {
    layered_close(&layered);
    return 0;
}

CASE(layers_of_one_kind_and_width_share_a_group) {
    static const struct plan_kv_group expected[LAYERED_GROUPS] = {
        [LAYERED_FULL_NARROW] = {KV_FULL, 1, 2, 16, 16, 0, 0},
        [LAYERED_FULL_WIDE] = {KV_FULL, 1, 2, 32, 32, 0, 0},
        [LAYERED_WINDOW_40] = {KV_WINDOW, 3, 1, 32, 16, 40, 0},
        [LAYERED_WINDOW_24] = {KV_WINDOW, 1, 4, 16, 16, 24, 0},
    };
    static const int group_of[LAYERED_LAYERS] = {0, 2, 1, 2, 3, 2};
    static const int place_of[LAYERED_LAYERS] = {0, 0, 0, 1, 0, 2};
    const struct plan *plan = &layered.model.plan;
    assert_int_equal(plan->n_group, LAYERED_GROUPS);
    for (int g = 0; g < LAYERED_GROUPS; g++)
        assert_memory_equal(&plan->group[g], &expected[g], sizeof *expected);
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind != OP_KV_APPEND && op->kind != OP_ATTENTION) continue;
        assert_int_equal(op->kv.group, group_of[op->layer]);
        assert_int_equal(op->kv.layer, place_of[op->layer]);
    }
}

CASE(every_layer_has_its_own_widths) {
    const struct plan *plan = &layered.model.plan;
    int attentions = 0;
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind != OP_ATTENTION) continue;
        const struct layer *l = &layered_layers[op->layer];
        assert_int_equal(op->kv.n_head, l->n_head);
        assert_int_equal(plan->buffer[op->in[0]].width, l->n_head * l->dim_k);
        assert_int_equal(plan->buffer[op->out].width, l->n_head * l->dim_v);
        assert_true(op->kv.scale == 1 / sqrtf((float)l->dim_k));
        attentions++;
    }
    assert_int_equal(attentions, LAYERED_LAYERS);
}

CASE(ropes_are_those_of_the_layers) {
    const struct plan *plan = &layered.model.plan;
    int ropes = 0;
    assert_int_equal(plan->n_rope, 2);
    for (int i = 0; i < plan->n_op; i++) {
        if (plan->op[i].kind != OP_ROPE) continue;
        assert_int_equal(plan->op[i].rope.rope, layered_layers[plan->op[i].layer].rope);
        ropes++;
    }
    assert_int_equal(ropes, 2 * 4); // q and k of layers 0, 1, 3 and 5
}

CASE(a_layer_is_dense_or_has_experts) {
    const struct plan *plan = &layered.model.plan;
    int routes[LAYERED_LAYERS] = {0}, experts[LAYERED_LAYERS] = {0};
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind == OP_EXPERTS) {
            experts[op->layer]++;
            assert_int_equal(plan->weight[op->weight].n_expert, layered_layers[op->layer].n_expert);
        }
        if (op->kind != OP_ROUTE) continue;
        routes[op->layer]++;
        assert_int_equal(op->route.n_used, layered_layers[op->layer].n_expert_used);
        assert_int_equal(op->route.normalize, layered_layers[op->layer].normalize_experts);
    }
    for (int i = 0; i < LAYERED_LAYERS; i++) {
        assert_int_equal(routes[i], layered_layers[i].n_expert ? 1 : 0);
        assert_int_equal(experts[i], layered_layers[i].n_expert ? 3 : 0);
    }
}

CASE(only_out_rows_pass_the_last_kv_append) {
    const struct plan *plan = &layered.model.plan;
    int last = 0;
    for (int i = 0; i < plan->n_op; i++)
        if (plan->op[i].kind == OP_KV_APPEND) last = i;
    for (int i = 0; i < plan->n_op; i++) {
        if (i <= last) assert_int_equal(plan->op[i].rows, ROWS_TOKENS);
        if (i > last) assert_int_not_equal(plan->op[i].rows, ROWS_TOKENS);
    }
}

// As the toy, but the layer before the last has a width of its own: a fifth group.
static rn_status read_five_kinds(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const rn_status status = layered_read(hp, weights, err);
    hp->layer[3].window = 41;
    return status;
}

CASE(more_kinds_than_a_plan_holds_are_refused) {
    struct arch arch = layered_arch;
    struct model model;
    rn_error err = {0};
    arch.read = read_five_kinds;
    assert_int_equal(model_init_arch(&model, &arch, layered.weights, &err), RN_ERR_UNSUPPORTED);
    check(strstr(err.message, "layered.gguf: layer 4 "), "%s", err.message);
}

TEST_PROGRAM(layers) { return cases_run(open_model, close_model); }
