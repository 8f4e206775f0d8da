// tools_runner_*: the costs that bench divides by its times. The costs of a work are compared with
// the plan's for the same batches, or with sums that are written out here.
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "tools.h"

#define FLOATS  MODELS_DIR "/tale-1m-f16.gguf"
#define BLOCKS  MODELS_DIR "/tale-20m-q4_k_m.gguf"
#define EXPERTS TEST_DATA "/golden/mixtral/model.gguf"

struct fixture {
    rn_model *model;
    const struct plan *plan;
    struct tools_runner *runner;
    struct kv_bytes kv; // pages of f16
};

static const struct tools_work decode = {
    .n_seqs = 1, .depth = 40, .n_positions = 5, .step_tokens = 1, .advance = 1, .all_logits = true};
static const struct tools_work streams = {
    .n_seqs = 3, .depth = 40, .n_positions = 5, .step_tokens = 1, .advance = 1, .all_logits = true};
static const struct tools_work prefill = {
    .n_seqs = 1, .depth = 10, .n_positions = 50, .step_tokens = 16, .advance = 16};
// as drafts of 3 are verified in 5 steps
static const struct tools_work verify = {
    .n_seqs = 1, .depth = 40, .n_positions = 8, .step_tokens = 4, .advance = 1, .all_logits = true};

static void setup(struct fixture *of, const char *path) {
    const struct tools_work works[] = {decode, streams, prefill, verify};
    const struct tools_runner_options options = {.n_threads = 2, .kv_type = "f16"};
    rn_error err = {0};
    check(rn_model_open(path, &of->model, &err) == RN_OK, "%s", err.message);
    check(tools_runner_create(of->model, &options, works, 4, &of->runner, &err) == RN_OK, "%s",
          err.message);
    of->plan = tools_plan(of->model);
    check(tools_kv_bytes(of->model, &options.place, "f16", &of->kv, &err) == RN_OK, "%s",
          err.message);
}

static void teardown(struct fixture *of) {
    tools_runner_destroy(of->runner);
    rn_model_close(of->model);
}

static struct fixture f; // of FLOATS, for most tests

static int setup_floats(void **state) {
    (void)state;
    setup(&f, FLOATS);
    return 0;
}

static int teardown_floats(void **state) {
    (void)state;
    teardown(&f);
    return 0;
}

static void expect(const char *what, uint64_t want, uint64_t got) {
    check(want == got, "%s: expected %llu, got %llu", what, (unsigned long long)want,
          (unsigned long long)got);
}

CASE(decoding_costs_what_the_plan_says_of_each_position) {
    struct tools_cost cost;
    uint64_t weights = 0, kv = 0, macs = 0;
    tools_runner_cost(f.runner, &decode, &cost);
    for (int pos = 40; pos < 45; pos++) {
        struct batch_shape shape;
        batch_shape_decode(f.plan, pos, &shape);
        const struct cost one = plan_cost(f.plan, &f.kv, &shape);
        weights += one.weight_bytes;
        kv += one.kv_read_bytes;
        for (int i = 0; i < f.plan->n_op; i++) {
            const enum op_kind kind = f.plan->op[i].kind;
            if (kind == OP_MATMUL || kind == OP_ATTENTION)
                macs += op_cost(f.plan, &f.plan->op[i], &f.kv, &shape).flops / 2;
        }
    }
    expect("steps", 5, cost.steps);
    expect("tokens", 5, cost.tokens);
    expect("weights", weights, cost.weight_bytes);
    expect("KV", kv, cost.kv_bytes);
    expect("products of floats", macs, cost.float_macs);
    expect("products of bytes", 0, cost.int_macs);
    expect("experts", 0, cost.expert_bytes);
}

CASE(streams_share_the_weights_and_not_the_cache) {
    struct tools_cost one, three;
    tools_runner_cost(f.runner, &decode, &one);
    tools_runner_cost(f.runner, &streams, &three);
    expect("steps", one.steps, three.steps);
    expect("tokens", 3 * one.tokens, three.tokens);
    expect("KV", 3 * one.kv_bytes, three.kv_bytes);
    const struct op *embed = &f.plan->op[0];
    assert_int_equal(embed->kind, OP_EMBED);
    const struct plan_weight *table = &f.plan->weight[embed->weight];
    const uint64_t row = format_row_bytes(table->format, table->cols);
    expect("weights, but for the rows looked up", one.weight_bytes + 5 * 2 * row,
           three.weight_bytes);
}

CASE(a_prompt_reads_its_weights_once_per_chunk) {
    struct tools_cost cost;
    tools_runner_cost(f.runner, &prefill, &cost);
    expect("chunks of 16, 16, 16 and 2", 4, cost.steps);
    expect("tokens", 50, cost.tokens);
    // The last layer's attention is for rows with logits only: none but in the last chunk.
    const uint64_t layers = (uint64_t)f.plan->group[0].n_layer;
    const uint64_t token = plan_kv_token_bytes(f.plan, &f.kv);
    expect("KV", (26 + 42 + 58) * token / layers * (layers - 1) + 60 * token, cost.kv_bytes);
}

CASE(verifying_evaluates_several_tokens_and_advances_by_one) {
    struct tools_cost one, four;
    tools_runner_cost(f.runner, &decode, &one);
    tools_runner_cost(f.runner, &verify, &four);
    expect("steps", one.steps, four.steps);
    expect("tokens", 4 * one.tokens, four.tokens);
    // each step sees three positions more
    expect("KV", one.kv_bytes + 5 * 3 * plan_kv_token_bytes(f.plan, &f.kv), four.kv_bytes);
}

CASE(block_formats_multiply_bytes) {
    struct fixture own;
    struct tools_cost cost;
    setup(&own, BLOCKS);
    tools_runner_cost(own.runner, &decode, &cost);
    check(cost.int_macs > cost.float_macs, "%llu of bytes, %llu of floats",
          (unsigned long long)cost.int_macs, (unsigned long long)cost.float_macs);
    check(cost.float_macs > 0, "attention multiplies floats");
    teardown(&own);
}

CASE(the_working_set_is_what_the_last_step_reads) {
    struct batch_shape shape;
    batch_shape_decode(f.plan, 44, &shape);
    const struct cost last = plan_cost(f.plan, &f.kv, &shape);
    expect("bytes", last.weight_bytes + last.kv_read_bytes,
           tools_runner_working_set(f.runner, &decode));
}

CASE(every_work_runs_in_any_order) {
    const struct tools_work *works[] = {&verify, &prefill, &streams, &decode, &prefill, &verify};
    const char *const models[] = {FLOATS, EXPERTS};
    for (size_t m = 0; m < 2; m++) {
        struct fixture own;
        setup(&own, models[m]);
        for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
            uint64_t ns = 0, expert_bytes = 0;
            rn_error err = {0};
            struct tools_cost cost;
            tools_runner_cost(own.runner, works[i], &cost);
            check(tools_runner_run(own.runner, works[i], 0, NULL, &ns, &expert_bytes, &err) ==
                      RN_OK,
                  "%s", err.message);
            check(ns > 0, "no time");
            check((expert_bytes > 0) == (m == 1), "%llu bytes of experts",
                  (unsigned long long)expert_bytes);
            check((cost.expert_bytes > 0) == (m == 1), "expected %llu",
                  (unsigned long long)cost.expert_bytes);
        }
        teardown(&own);
    }
}

static bool always(void) { return true; }

CASE(a_run_and_its_stages_stop_when_asked_to) {
    uint64_t ns, expert_bytes, total;
    struct tools_stage *stages;
    int count;
    assert_int_equal(tools_runner_run(f.runner, &decode, 0, always, &ns, &expert_bytes, NULL),
                     RN_ERR_CANCELLED);
    assert_int_equal(tools_runner_stages(f.runner, &decode, always, &stages, &count, &total, NULL),
                     RN_ERR_CANCELLED);
    check(!stages && count == 0, "%d stages", count);
}

CASE(a_work_beyond_the_context_is_refused) {
    rn_model *model;
    rn_error err = {0};
    struct tools_runner *runner;
    const struct tools_runner_options options = {.n_threads = 1, .kv_type = "f16"};
    struct tools_work work = decode;
    check(rn_model_open(FLOATS, &model, &err) == RN_OK, "%s", err.message);
    work.depth = 1024 - work.n_positions;
    check(tools_runner_create(model, &options, &work, 1, &runner, &err) == RN_OK, "%s",
          err.message);
    uint64_t ns, expert_bytes;
    check(tools_runner_run(runner, &work, 0, NULL, &ns, &expert_bytes, &err) == RN_OK, "%s",
          err.message); // to the last position
    tools_runner_destroy(runner);
    work.depth++;
    assert_int_equal(tools_runner_create(model, &options, &work, 1, &runner, &err), RN_ERR_CONTEXT);
    assert_null(runner);
    check(strstr(err.message, "1020") && strstr(err.message, "1024"), "%s", err.message);
    rn_model_close(model);
}

CASE(stages_are_added_up_over_layers) {
    struct tools_stage *stages;
    int count;
    uint64_t total, sum = 0;
    rn_error err = {0};
    bool down = false;
    for (int round = 0; round < 2; round++) { // the second starts from zero
        check(tools_runner_stages(f.runner, &decode, NULL, &stages, &count, &total, &err) == RN_OK,
              "%s", err.message);
        sum = 0;
        for (int i = 0; i < count; i++) {
            sum += stages[i].ns;
            for (int j = 0; j < i; j++)
                check(strcmp(stages[i].name, stages[j].name) != 0, "%s twice", stages[i].name);
            if (strcmp(stages[i].name, "matmul ffn_down") != 0) continue;
            down = true;
            expect("runs: 5 steps of 3 layers", 5 * 3, stages[i].runs);
        }
        check(down, "no stage 'matmul ffn_down' among %d", count);
        check(sum > 0 && sum <= total, "%llu of %llu ns", (unsigned long long)sum,
              (unsigned long long)total);
        free(stages);
    }
}

CASE(the_peaks_are_measured) {
    struct tools_runner_info info;
    check(tools_runner_peak(f.runner, true) > 0 && tools_runner_peak(f.runner, false) > 0, "none");
    check(tools_runner_bandwidth(f.runner, 1 << 20, 20) > 0, "no bandwidth");
    tools_runner_get_info(f.runner, &info);
    assert_int_equal(info.n_threads, 2);
    assert_string_equal(info.backend, "cpu");
}

TEST_PROGRAM(runner) { return cases_run(setup_floats, teardown_floats); }
