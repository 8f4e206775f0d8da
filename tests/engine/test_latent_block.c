// A model over a latent whose file has a block that drafts: the block's keys are a latent group of
// their own. The reference model glm4_moe_lite with its last layer once more behind the layers.
// label: no-address
#define MIX_MAX_OUTPUT   40
#define MIX_MAX_REQUESTS 12

#include "backend_here.h"
#include "bare_engine.h"
#include "hybrid_mixes.h"
#include "tensor_bytes.h"

enum { LAYERS = 3, EMBD = 64 };
#define ARCH "deepseek2"

static struct data_folder folder;
static char path[DATA_PATH_BYTES];

// "blk.2.NAME" as "blk.3.NAME".
static void block_copy(struct writer *writer, const struct tensor_view *t) {
    char name[128];
    uint64_t dims[WEIGHTS_MAX_DIMS];
    for (int d = 0; d < t->n_dims; d++) dims[d] = (uint64_t)t->dim[d];
    writer_tensor(writer, t->name, (uint32_t)t->n_dims, dims, 0, t->data, t->bytes);
    if (strncmp(t->name, "blk.2.", 6) != 0) return;
    snprintf(name, sizeof name, "blk.%d.%s", LAYERS, t->name + 6);
    writer_tensor(writer, name, (uint32_t)t->n_dims, dims, 0, t->data, t->bytes);
}

static void block_add(struct writer *writer, const char *name, int rows) {
    static float data[2 * EMBD * EMBD];
    char full[128];
    const uint64_t dims[2] = {rows ? 2 * EMBD : EMBD, (uint64_t)rows};
    uint64_t seed = (uint64_t)strlen(name);
    for (int i = 0; i < 2 * EMBD * EMBD; i++)
        data[i] = rows ? mtp_random(&seed) * 0.15f : 1 + mtp_random(&seed) * 0.2f;
    snprintf(full, sizeof full, "blk.%d.nextn.%s.weight", LAYERS, name);
    writer_tensor(writer, full, rows ? 2 : 1, dims, 0, data,
                  (size_t)dims[0] * (size_t)(rows ? rows : 1) * sizeof(float));
}

static int file_make(void **state) {
    (void)state;
    struct writer writer = writer_begin(3);
    struct weights *from;
    size_t size;
    assert_int_equal(weights_open(TEST_DATA "/golden/glm4_moe_lite/model.gguf", &from, NULL), 0);
    for (int i = 0; i < weights_meta_count(from); i++) {
        const struct meta_view *meta = weights_meta_at(from, i);
        if (strcmp(meta->key, ARCH ".block_count") != 0) writer_kv_copy(&writer, meta);
    }
    writer_kv_u32(&writer, ARCH ".block_count", LAYERS + 1);
    writer_kv_u32(&writer, ARCH ".nextn_predict_layers", 1);
    for (int i = 0; i < weights_tensor_count(from); i++) {
        const struct tensor_view tensor = tensor_brought(from, i);
        block_copy(&writer, &tensor);
    }
    block_add(&writer, "eh_proj", EMBD);
    block_add(&writer, "enorm", 0);
    block_add(&writer, "hnorm", 0);
    weights_close(from);
    uint8_t *image = writer_finish(&writer, &size);
    folder = data_folder_make();
    data_file_write(folder.path, "model.gguf", image, size);
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    free(image);
    return 0;
}

static int file_remove(void **state) {
    (void)state;
    data_folder_remove(&folder);
    return 0;
}

CASE(the_blocks_keys_are_a_latent_group) {
    struct weights *weights;
    struct model model;
    rn_error err = {0};
    assert_int_equal(weights_open(path, &weights, NULL), RN_OK);
    check(model_init(&model, weights, &err) == RN_OK, "%s", err.message);
    const struct plan *plan = &model.plan;
    assert_int_equal(plan->n_group, 1);
    assert_int_equal(plan->n_group_all, 2);
    for (int g = 0; g < 2; g++)
        assert_true(plan->group[g].is_latent && plan->group[g].n_head_kv == 1 &&
                    plan->group[g].dim_k == 40 && plan->group[g].dim_v == 32);
    assert_int_equal(plan->group[0].n_layer, LAYERS);
    assert_int_equal(plan->group[1].n_layer, 1);
    assert_true(plan->n_op_all > plan->n_op);
    model_deinit(&model);
    weights_close(weights);
}

enum { TOKENS = 40, HIDDEN_FIRST = 5, HIDDEN = 12 };

// The hidden rows of two sequences, [2][TOKENS][EMBD]. is_late: of each sequence the last row wants
// logits, and the rows [HIDDEN_FIRST, HIDDEN_FIRST + HIDDEN) are asked for behind them.
static void hidden_run(struct backend *backend, bool is_late, float *out) {
    struct batch_builder builder;
    struct step_result result;
    int32_t token[TOKENS];
    int at[2];
    assert_int_equal(batch_builder_init(&builder, 1, 2 * TOKENS, 2 * TOKENS, 2, NULL), RN_OK);
    batch_begin(&builder, NULL);
    for (int s = 0; s < 2; s++) {
        static uint32_t pages[2][2] = {{0, 1}, {2, 3}};
        uint32_t *table = pages[s];
        for (int i = 0; i < TOKENS; i++) token[i] = (i * 37 + s * 11) % MTP_VOCAB;
        batch_add(&builder, &(struct batch_rows){.page_table = &table,
                                                 .n_tokens = TOKENS,
                                                 .token = token,
                                                 .n_out = is_late ? 1 : TOKENS});
    }
    for (int s = 0; is_late && s < 2; s++)
        at[s] = batch_add_hidden(&builder, s, HIDDEN_FIRST, HIDDEN);
    assert_int_equal(backend_run(backend, &builder.batch, &result, NULL), RN_OK);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < (is_late ? HIDDEN : TOKENS); i++)
            memcpy(out + (s * TOKENS + i) * EMBD,
                   result.hidden[is_late ? at[s] + i : s * TOKENS + i], EMBD * sizeof(float));
    batch_builder_deinit(&builder);
}

// The last layer attends the rows that a block needs beside the rows that want logits.
CASE(hidden_rows_of_a_prompt_are_those_of_out_rows) {
    static float all[2][TOKENS][EMBD], late[2][TOKENS][EMBD];
    struct weights *weights;
    struct model model;
    struct here here;
    assert_int_equal(weights_open(path, &weights, NULL), RN_OK);
    assert_int_equal(model_init(&model, weights, NULL), RN_OK);
    const struct backend_config config = {.sizes = {2 * TOKENS, 2 * TOKENS, 2},
                                          .kv_type = "f16",
                                          .n_pages = {4, 4}};
    here_create(&here, &model.plan, &config, 2);
    hidden_run(here.backend, false, all[0][0]);
    hidden_run(here.backend, true, late[0][0]);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < HIDDEN; i++)
            check(memcmp(late[s][i], all[s][HIDDEN_FIRST + i], sizeof late[s][i]) == 0,
                  "sequence %d, row %d", s, HIDDEN_FIRST + i);
    here_destroy(&here);
    model_deinit(&model);
    weights_close(weights);
}

static void drafts_leave_the_text(const char *kv_type, uint64_t seed) {
    static struct mix_random now;
    struct mix_totals totals = {0};
    rn_model *model = bare_open(path);
    now.state = seed;
    bare_clock = (struct engine_clock){hybrid_now, &now};
    hybrid_run(model, true, kv_type, seed, 1, test_scale(8, 30, 200), 0, &totals);
    bare_clock = (struct engine_clock){0};
    rn_model_close(model);
    hybrid_print(kv_type, &totals);
    assert_int_equal(totals.mismatches, 0);
    assert_true(totals.by[RN_DRAFTER_MTP].drafts > 0);
}

CASE(its_drafts_leave_the_text_as_it_is) { drafts_leave_the_text("f16", 41); }

CASE(its_drafts_leave_the_text_of_codes_as_it_is) { drafts_leave_the_text("int8", 42); }

TEST_PROGRAM(latent_block) { return cases_run(file_make, file_remove); }
