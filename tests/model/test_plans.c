// Pins the plans of every reference model, as a GGUF file and as a folder, and of every synthetic
// shape. A hash covers its metadata, its tensors and its plan down to operands, weights' bytes and
// rope frequencies. A change of the builders that is meant to change no plan leaves these hashes
// alone. After an intended change `PRINT_PLANS=1 test_model plans` prints the new rows of
// plan_hashes.def.
// label: no-address
#define _GNU_SOURCE 1
#include <inttypes.h>

#include "golden_folder.h"
#include "model/model.h"
#include "weights/synthetic.h"

static const struct {
    const char *name;
    uint64_t hash;
} pinned[] = {
#include "plan_hashes.def"
};

static bool is_printing;

// --- text of everything that a model says ---

static void dump_metas(FILE *out, const struct weights *weights) {
    for (int i = 0; i < weights_meta_count(weights); i++) {
        const struct meta_view *meta = weights_meta_at(weights, i);
        if (strcmp(meta->key, "general.name") == 0) continue; // a temporary folder's
        fprintf(out, "meta %s %d %d %" PRIu64 " %016" PRIx64 "\n", meta->key, meta->type,
                meta->item_type, meta->count, data_checksum(meta->data, meta->bytes));
    }
}

static void dump_tensors(FILE *out, const struct weights *weights) {
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const struct tensor_view *t = weights_tensor_at(weights, i);
        fprintf(out, "tensor %s %d %d [%lld %lld %lld %lld] %" PRIu64 " %d\n", t->name, t->format,
                t->n_dims, (long long)t->dim[0], (long long)t->dim[1], (long long)t->dim[2],
                (long long)t->dim[3], t->bytes, t->parts != NULL);
    }
}

static uint64_t weight_checksum(const struct plan *plan, const void *data, uint64_t bytes) {
    uint8_t *room = malloc(bytes);
    const void *at;
    assert_non_null(room);
    assert_int_equal(plan->fetch(plan->fetch_ctx, data, bytes, room, &at, NULL), RN_OK);
    const uint64_t sum = data_checksum(at, bytes);
    free(room);
    return sum;
}

// Synthetic shapes have no bytes.
static void dump_weights(FILE *out, const struct plan *plan, bool has_bytes) {
    for (int i = 0; i < plan->n_weight; i++) {
        const struct plan_weight *w = &plan->weight[i];
        uint64_t sum = 0;
        if (has_bytes && !w->n_expert) sum = weight_checksum(plan, w->data, w->bytes);
        for (int e = 0; has_bytes && e < w->n_expert; e++)
            sum = sum * 31 +
                  weight_checksum(plan, w->expert_data[e], w->bytes / (uint64_t)w->n_expert);
        fprintf(out, "weight %d %s %d [%lld %lld] %" PRIu64 " %d %016" PRIx64 "\n", i, w->name,
                w->format, (long long)w->rows, (long long)w->cols, w->bytes, w->n_expert, sum);
        if (w->is_cold) fprintf(out, "weight %d is cold\n", i);
    }
}

static void dump_ropes(FILE *out, const struct plan *plan) {
    for (int i = 0; i < plan->n_rope; i++) {
        const struct plan_rope *rope = &plan->rope[i];
        fprintf(out, "rope %d %d %d %a", i, rope->style, rope->n_rot, (double)rope->magnitude);
        for (int k = 0; k < rope->n_rot / 2; k++) fprintf(out, " %a", (double)rope->inv_freq[k]);
        fprintf(out, "\n");
    }
}

static void dump_detail(FILE *out, const struct op *op) {
    switch (op->kind) {
    case OP_EMBED:
        fprintf(out, "%a %d %d", (double)op->embed.scale, op->embed.positions, op->embed.add);
        break;
    case OP_NORM:
        fprintf(out, "%d %d %a %d", op->norm.kind, op->norm.group, (double)op->norm.eps,
                op->norm.add);
        if (op->norm.scale != 0) fprintf(out, " scale %a", (double)op->norm.scale);
        break;
    case OP_MATMUL:
        fprintf(out, "%d %a", op->matmul.add, (double)op->matmul.scale);
        break;
    case OP_ROPE:
        fprintf(out, "%d %d %d", op->rope.rope, op->rope.n_head, op->rope.dim);
        if (op->rope.from) fprintf(out, " %d", op->rope.from);
        break;
    case OP_KV_APPEND:
    case OP_ATTENTION:
        fprintf(out, "%d %d %d %a %a", op->kv.group, op->kv.layer, op->kv.n_head,
                (double)op->kv.scale, (double)op->kv.softcap);
        break;
    case OP_GATE:
        fprintf(out, "%d", op->gate);
        if (op->gate == GATE_XIELU)
            fprintf(out, " %a %a %a %a", (double)op->xielu.above, (double)op->xielu.below,
                    (double)op->xielu.linear, (double)op->xielu.eps);
        break;
    case OP_ROUTE:
        fprintf(out, "%d %d", op->route.n_used, op->route.normalize);
        if (op->route.n_group > 0)
            fprintf(out, " groups %d %d %d", op->route.n_group, op->route.n_group_used,
                    op->route.group_best);
        if (op->route.score == ROUTE_SPARSEMIXER)
            fprintf(out, " jitter %a", (double)op->route.jitter);
        break;
    case OP_EXPERTS:
    case OP_COMBINE:
        if (op->experts.weighs_input) fprintf(out, "weighs input");
        if (op->kind == OP_COMBINE && op->experts.set) fprintf(out, "set");
        break;
    case OP_CONV:
    case OP_DELTA:
    case OP_SCAN:
        fprintf(out, "%d %d %d %d %d %d %d %d %d %d %a %a %a", op->state.group, op->state.layer,
                op->state.at, op->state.n_head, op->state.n_key, op->state.dim_k, op->state.dim_v,
                op->state.taps, op->state.silu, op->state.is_tiled, (double)op->state.eps,
                (double)op->state.dt_min, (double)op->state.dt_max);
        break;
    case OP_COLUMNS:
        fprintf(out, "%d %d %d %d %d %d", op->columns.n, op->columns.len, op->columns.from,
                op->columns.stride_from, op->columns.to, op->columns.stride_to);
        break;
    case OP_HEADS:
        fprintf(out, "%d %d %d %d %d", op->heads.n, op->heads.from, op->heads.stride_from,
                op->heads.to, op->heads.stride_to);
        break;
    case OP_SOFTCAP:
        fprintf(out, "%a", (double)op->softcap.cap);
        break;
    case OP_TEMPER:
        fprintf(out, "%d %d %a", op->temper.length, op->temper.offset, (double)op->temper.factor);
        break;
    default:
        break;
    }
}

static void dump_plan(FILE *out, const struct plan *plan) {
    for (int i = 0; i < plan->n_buffer; i++)
        fprintf(out, "buffer %d %s %d %d %d\n", i, plan->buffer[i].name, plan->buffer[i].width,
                plan->buffer[i].rows, plan->buffer[i].slots);
    for (int i = 0; i < plan->n_group; i++) {
        const struct plan_kv_group *g = &plan->group[i];
        fprintf(out, "group %d %d %d %d %d %d %d %d%s\n", i, g->kind, g->n_layer, g->n_head_kv,
                g->dim_k, g->dim_v, g->window, g->state, g->is_latent ? " latent" : "");
    }
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        fprintf(out, "op %d %s %d %d %d %d %d %d %d: ", i, op_name(op->kind), op->rows, op->layer,
                op->in[0], op->in[1], op->out, op->weight, op->bias);
        dump_detail(out, op);
        fprintf(out, "\n");
    }
    fprintf(out, "plan %d %d %d\n", plan->n_vocab, plan->logits, plan->hidden);
}

// Closes the weights.
static void check_pinned(const char *name, struct weights *weights, bool has_bytes) {
    struct model model;
    rn_error err = {0};
    check(model_init(&model, weights, &err) == RN_OK, "%s: %s", name, err.message);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    dump_metas(out, weights);
    dump_tensors(out, weights);
    dump_plan(out, &model.plan);
    dump_ropes(out, &model.plan);
    dump_weights(out, &model.plan, has_bytes);
    fprintf(out, "params %" PRIu64 "\n", model.n_params);
    assert_int_equal(fclose(out), 0);
    const uint64_t hash = data_checksum(text, size);
    free(text);
    model_deinit(&model);
    weights_close(weights);
    if (is_printing) {
        printf("    {\"%s\", UINT64_C(0x%016" PRIx64 ")},\n", name, hash);
        return;
    }
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++) {
        if (strcmp(pinned[i].name, name) != 0) continue;
        check(pinned[i].hash == hash, "%s: the plan has changed: %016" PRIx64, name, hash);
        return;
    }
    fail_msg("%s has no hash", name);
}

// --- models ---

CASE(files_give_the_pinned_plans) {
    json_t *list = data_json_read(TEST_DATA "/golden/models.json");
    const json_t *entry;
    size_t index;
    json_array_foreach(list, index, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (!json_is_true(json_object_get(entry, "gguf"))) continue;
        char path[DATA_PATH_BYTES], label[64];
        struct weights *weights;
        rn_error err = {0};
        snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
        check(weights_open(path, &weights, &err) == RN_OK, "%s", err.message);
        snprintf(label, sizeof label, "%s.gguf", name);
        check_pinned(label, weights, true);
    }
    json_decref(list);
}

CASE(folders_give_the_pinned_plans) {
    json_t *list = data_json_read(TEST_DATA "/golden/models.json");
    const json_t *entry;
    size_t index;
    json_array_foreach(list, index, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const struct data_folder folder = golden_folder_make(name, "spm");
        struct weights *weights;
        rn_error err = {0};
        check(model_weights_open(folder.path, &weights, &err) == RN_OK, "%s", err.message);
        check_pinned(name, weights, true);
        data_folder_remove(&folder);
    }
    json_decref(list);
}

// Both forms of a model. The tokenizer does not matter to the plan.
static void check_forms(const char *name) {
    char path[DATA_PATH_BYTES], label[64];
    struct weights *weights;
    rn_error err = {0};
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
    if (access(path, R_OK) == 0) {
        check(weights_open(path, &weights, &err) == RN_OK, "%s", err.message);
        snprintf(label, sizeof label, "%s.gguf", name);
        check_pinned(label, weights, true);
    }
    const struct data_folder folder = golden_folder_make(name, "qwen35");
    check(model_weights_open(folder.path, &weights, &err) == RN_OK, "%s", err.message);
    check_pinned(name, weights, true);
    data_folder_remove(&folder);
}

CASE(hybrids_give_the_pinned_plans) {
#define HYBRID(name) check_forms(name);
#include "hybrids.def"
#undef HYBRID
}

CASE(families_give_the_pinned_plans) {
#define FAMILY(name) check_forms(name);
#include "families.def"
#undef FAMILY
}

CASE(synthetic_shapes_give_the_pinned_plans) {
    static const char *const specs[] = {
        "135m:Q4_K_M",
        "360m:Q8_0",
        "1b:Q4_0",
        "3b:Q5_K_M",
        "8b:F16",
        "14b:Q3_K_M",
        "32b:IQ4_XS",
        "70b:Q2_K_S",
        "qwen3-30b-a3b:Q6_K",
        "gpt-oss-20b:MXFP4_MOE",
        "qwen3.5-4b:Q4_K_M",
        "qwen3.6-35b-a3b:Q4_0",
        "deepseek-v2-lite:Q4_K_M",
        "glm-4.7-flash:Q4_K_M",
        "gemma4-e4b:Q4_K_M",
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct weights *weights;
        assert_int_equal(weights_describe_synthetic(specs[i], &weights, NULL), RN_OK);
        check_pinned(specs[i], weights, false);
    }
}

TEST_PROGRAM(plans) {
    is_printing = getenv("PRINT_PLANS") != NULL;
    return cases_run(NULL, NULL);
}
