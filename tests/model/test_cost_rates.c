// The precomputed rates against the costs that they stand for, on the plans of every architecture.
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "model/model.h"
#include "plan/cost_rates.h"
#include "recurrent_model.h"
#include "weights/synthetic.h"

enum { MAX_SEQS = 6, MAX_ROWS = 256, SHAPES = 200 };

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static int random_below(uint32_t *state, int n) { return (int)(next_random(state) % (uint32_t)n); }

static void same_cost(const char *name, const struct cost *a, const struct cost *b) {
#define SAME(field)                                                                                \
    check(a->field == b->field, "%s: " #field " is %llu, expected %llu", name,                     \
          (unsigned long long)a->field, (unsigned long long)b->field)
    SAME(weight_bytes);
    SAME(expert_bytes);
    SAME(kv_read_bytes);
    SAME(kv_write_bytes);
    SAME(act_bytes);
    SAME(flops);
#undef SAME
}

// Adds the rows of one sequence at positions [first, first + n): KV is read once for all of them,
// from the first one's oldest key on. Each row attends to every key that it sees.
static void add_rows(const struct plan_kv_group *group, int64_t first, int64_t n, int64_t *read,
                     int64_t *pairs) {
    if (n == 0) return;
    if (group->kind == KV_RECURRENT) {
        *read += 1;
        return;
    }
    for (int64_t pos = first; pos < first + n; pos++) {
        const bool cut = group->kind == KV_WINDOW && pos + 1 > group->window;
        const int64_t sees = group->kind == KV_CHUNK ? pos % group->window + 1
                             : cut                   ? group->window
                                                     : pos + 1;
        *read += pos == first ? sees : 1;
        *pairs += sees;
    }
}

// A batch of a few sequences: decoding ones, chunks, chunks that end their prompt, and chunks all
// of whose rows give logits.
static void random_shape(const struct plan *plan, uint32_t *state, const char *name,
                         struct batch_shape *out) {
    struct batch_shape added = {0};
    *out = (struct batch_shape){0};
    for (int s = 1 + random_below(state, MAX_SEQS); s > 0; s--) {
        const int n_tokens = random_below(state, 2) ? 1 : 1 + random_below(state, MAX_ROWS);
        const int first_pos = random_below(state, 3) ? random_below(state, 3000) : 0;
        const int n_out = (const int[]){0, 1, n_tokens}[random_below(state, 3)];
        batch_shape_add(plan, &added, first_pos, n_tokens, n_out);
        out->n_tokens += n_tokens;
        out->n_out += n_out;
        out->n_logits += n_out;
        out->n_seqs++;
        for (int g = 0; g < plan->n_group; g++) {
            add_rows(&plan->group[g], first_pos, n_tokens, &out->kv_read[g][ROWS_TOKENS],
                     &out->kv_pairs[g][ROWS_TOKENS]);
            add_rows(&plan->group[g], first_pos + n_tokens - n_out, n_out,
                     &out->kv_read[g][ROWS_OUT], &out->kv_pairs[g][ROWS_OUT]);
        }
    }
    check(memcmp(out, &added, sizeof added) == 0, "%s: the parts are not the whole", name);
}

// Pages of any size, as a backend would have them: a number of bytes per token in each layer.
static struct kv_bytes random_pages(const struct plan *plan, uint32_t *state) {
    struct kv_bytes kv = {{0}};
    for (int g = 0; g < plan->n_group; g++)
        kv.page[g] = (uint64_t)plan->group[g].n_layer * KV_PAGE_TOKENS *
                     (uint64_t)(1 + random_below(state, 3000));
    return kv;
}

static void check_plan(const char *name, const struct plan *plan) {
    uint32_t state = 7;
    for (int round = 0; round < 4; round++) {
        struct cost_rates rates;
        const struct kv_bytes kv = random_pages(plan, &state);
        cost_rates_init(&rates, plan, &kv);
        for (int i = 0; i < SHAPES; i++) {
            struct batch_shape shape;
            random_shape(plan, &state, name, &shape);
            const struct cost fast = cost_rates_apply(&rates, &shape);
            const struct cost exact = plan_cost(plan, &kv, &shape);
            same_cost(name, &fast, &exact);
        }
        const struct batch_shape empty = {0};
        const struct cost fast = cost_rates_apply(&rates, &empty), none = {0};
        same_cost(name, &fast, &none);
    }
}

// Closes the weights.
static void check_weights(const char *name, struct weights *weights) {
    struct model model;
    rn_error err = {0};
    check(model_init(&model, weights, &err) == RN_OK, "%s: %s", name, err.message);
    check_plan(name, &model.plan);
    model_deinit(&model);
    weights_close(weights);
}

CASE(rates_equal_the_plans_cost_with_recurrent_state) {
    struct model model;
    assert_int_equal(recurrent_model_init(&model, 64, FORMAT_Q8_0, NULL), RN_OK);
    check_plan("recurrent", &model.plan);
    recurrent_model_deinit(&model);
}

CASE(rates_equal_the_plans_cost_on_every_architecture) {
    static const char *const names[] = {"llama",  "mixtral", "qwen2", "qwen3", "qwen3moe",
                                        "gemma2", "gemma3",  "phi3",  "gpt2",  "granite",
                                        "olmo2",  "smollm3", "gptoss"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", names[i]);
        struct weights *weights;
        rn_error err = {0};
        check(weights_open(path, &weights, &err) == RN_OK, "%s", err.message);
        check_weights(names[i], weights);
    }
}

CASE(rates_equal_the_plans_cost_with_windows_in_chunks) {
    static const int chunks[] = {1, 24, 256, 8192};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        struct weights *weights;
        struct model model;
        rn_error err = {0};
        check(weights_open(TEST_DATA "/golden/gemma2/model.gguf", &weights, &err) == RN_OK, "%s",
              err.message);
        check(model_init(&model, weights, &err) == RN_OK, "%s", err.message);
        assert_int_equal(model.plan.group[1].kind, KV_WINDOW);
        model.plan.group[1].kind = KV_CHUNK;
        model.plan.group[1].window = chunks[i];
        check_plan("chunks", &model.plan);
        model_deinit(&model);
        weights_close(weights);
    }
}

// Formats that differ from layer to layer, and the numbers of real models.
CASE(rates_equal_the_plans_cost_of_large_mixtures) {
    static const char *const specs[] = {"1b:Q4_0", "qwen3-30b-a3b:Q4_K_M", "gpt-oss-20b:MXFP4_MOE"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct weights *weights;
        assert_int_equal(weights_describe_synthetic(specs[i], &weights, NULL), RN_OK);
        check_weights(specs[i], weights);
    }
}

// A model with more kinds of expert products than there is room for loses no more than fractions of
// a byte.
CASE(too_many_sizes_of_experts_are_summed) {
    enum { SIZES = 3 * COST_MAX_EXPERTS, EXPERTS = 7, USED = 2, WIDTH = 32 };
    const void *data[EXPERTS] = {NULL};
    struct plan plan;
    plan_init(&plan);
    const int x = plan_add_buffer(&plan, "x", WIDTH, ROWS_TOKENS);
    const int route = plan_add_buffer(&plan, "route", 2 * USED, ROWS_TOKENS);
    for (int i = 0; i < SIZES; i++) {
        const int up = plan_add_slots(&plan, "up", i + 1, ROWS_TOKENS, USED);
        const struct plan_weight weight = {.name = "e",
                                           .format = FORMAT_F32,
                                           .rows = i + 1,
                                           .cols = WIDTH,
                                           .bytes =
                                               (uint64_t)EXPERTS * (uint64_t)(i + 1) * WIDTH * 4,
                                           .n_expert = EXPERTS,
                                           .expert_data = data};
        plan_add_op(&plan, &(struct op){.kind = OP_EXPERTS,
                                        .rows = ROWS_TOKENS,
                                        .layer = -1,
                                        .in = {x, route},
                                        .out = up,
                                        .weight = plan_add_weight(&plan, &weight),
                                        .bias = PLAN_NONE});
    }
    const struct kv_bytes none = {{0}};
    struct cost_rates rates;
    cost_rates_init(&rates, &plan, &none);
    for (int n = 1; n < 20; n++) {
        const struct batch_shape shape = {.n_tokens = n};
        const double fast = (double)cost_rates_apply(&rates, &shape).expert_bytes;
        const double exact = (double)plan_cost(&plan, &none, &shape).expert_bytes;
        check(fast > exact - SIZES && fast < exact + SIZES, "%d tokens: %.0f instead of %.0f", n,
              fast, exact);
    }
    plan_deinit(&plan);
}

TEST_PROGRAM(cost_rates) { return cases_run(NULL, NULL); }
