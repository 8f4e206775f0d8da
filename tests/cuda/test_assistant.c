// The assistant of Gemma 4 on the CUDA backend: its logits and hidden rows are near the CPU's, and
// texts with its drafts are those without.
#include <math.h>

#include "assistant_model.h"
#include "block_texts.h"
#include "cuda_engine.h"
#include "plan/batch.h"

enum { TOKENS = 70, BLOCKS = TOKENS / KV_PAGE_TOKENS + 1, WIDEST = 128, VOCAB = 512 };
// 16-bit inputs of products move logits by less than a tenth. Another position, or a window that
// begins elsewhere, moves them by more.
#define MOST 0.15f

static const int last[] = {0, 3, 8, 11, 12, 31, 32, 45, TOKENS - 2};
enum { ROWS = sizeof last / sizeof *last };

struct results {
    float logits[ROWS][VOCAB], hidden[ROWS][WIDEST], model[ROWS][WIDEST];
};

static void add(struct batch_builder *builder, uint32_t *const *table, const int32_t *token,
                int first, int n) {
    batch_add(builder, &(struct batch_rows){.page_table = table,
                                            .first_pos = first,
                                            .n_tokens = n,
                                            .token = token,
                                            .n_out = n});
}

// The model's rows, then one row of the block at each of these positions. The block's inputs are
// those of `input`.
static void run(const struct plan *plan, const struct backend_class *cls,
                const struct results *input, struct results *out) {
    uint32_t page[BLOCKS] = {0, 1, 2}, *table[PLAN_MAX_KV_GROUPS];
    int32_t token[TOKENS];
    const float *rows[ROWS];
    struct pool *pool;
    struct backend *backend;
    struct batch_builder builder;
    struct step_result result;
    rn_error err = {0};
    const int width = plan->buffer[plan->hidden].width;
    assert_int_equal(pool_create_here(1, false, &pool, NULL), RN_OK);
    const struct backend_config config = {.kv_type = "f16",
                                          .sizes = {TOKENS, TOKENS, TOKENS, false},
                                          .n_pages = {BLOCKS, BLOCKS, BLOCKS, BLOCKS},
                                          .pool = pool};
    check(cls->create(plan, &config, &backend, &err) == RN_OK, "%s", err.message);
    assert_int_equal(batch_builder_init(&builder, plan->n_group, TOKENS, TOKENS, TOKENS, NULL),
                     RN_OK);
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) table[g] = page;
    for (int i = 0; i < TOKENS; i++) token[i] = (i * 37 + 11) % VOCAB;
    batch_begin(&builder, NULL);
    add(&builder, table, token, 0, TOKENS);
    check(backend_run(backend, &builder.batch, &result, &err) == RN_OK, "%s", err.message);
    for (int i = 0; i < ROWS; i++)
        memcpy(out->model[i], result.hidden[last[i]], (size_t)width * sizeof(float));
    batch_begin(&builder, NULL);
    builder.batch.is_draft = true;
    builder.batch.input = rows;
    for (int i = 0; i < ROWS; i++) {
        add(&builder, table, &token[last[i] + 1], last[i], 1);
        rows[i] = input->model[i];
    }
    check(backend_run(backend, &builder.batch, &result, &err) == RN_OK, "%s", err.message);
    for (int i = 0; i < ROWS; i++) {
        memcpy(out->logits[i], result.logits[i], sizeof out->logits[i]);
        memcpy(out->hidden[i], result.hidden[i], (size_t)width * sizeof(float));
    }
    batch_builder_deinit(&builder);
    backend_destroy(backend);
    pool_destroy(pool);
}

static float furthest(const float *a, const float *b, int n) {
    float most = 0;
    for (int i = 0; i < n; i++) most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

CASE(logits_of_the_assistant_are_near_the_cpus) {
    static struct results want, got;
    const struct backend_class *cpu;
    struct backend_device device;
    struct assistant a = assistant_make("gemma4-31b", false);
    rn_model *model = assistant_open(&a);
    assert_int_equal(backend_find("cpu", 0, &cpu, &device, NULL), RN_OK);
    run(&model->model.plan, cpu, &want, &want);
    run(&model->model.plan, cuda_class(), &want, &got);
    for (int i = 0; i < ROWS; i++) {
        const float logits = furthest(got.logits[i], want.logits[i], VOCAB);
        const float hidden = furthest(got.hidden[i], want.hidden[i], a.n_model);
        check(logits < MOST && hidden < MOST, "behind %d: %g, hidden row %g", last[i],
              (double)logits, (double)hidden);
    }
    rn_model_close(model);
    assistant_remove(&a);
}

static rn_draft_stats check_model(const char *name, bool is_echo) {
    static struct stream got[N_TEXTS];
    struct assistant a = assistant_make(name, is_echo);
    rn_model *model = assistant_open(&a);
    const rn_draft_stats stats = block_texts_check(model, got);
    rn_model_close(model);
    assistant_remove(&a);
    return stats;
}

CASE(texts_with_drafts_of_the_assistant_are_those_without) {
    assert_true(check_model("gemma4-31b", false).tokens > 60);
    assert_true(check_model("gemma4-e2b", false).tokens > 60);
}

// Some texts are sampled, and the assistant's logits have no cap.
CASE(right_drafts_of_the_assistant_are_accepted) {
    const rn_draft_stats stats = check_model("gemma4-31b", true);
    check(stats.tokens > 60 && stats.accepted * 4 > stats.tokens * 3, "%llu of %llu",
          (unsigned long long)stats.accepted, (unsigned long long)stats.tokens);
}

TEST_PROGRAM(assistant) { return cases_run(NULL, NULL); }
