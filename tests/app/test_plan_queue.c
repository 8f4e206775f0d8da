// The simulated queue of `runnel plan --replay`, on a machine whose steps take times that can be
// added up by hand: each stage takes 1 ms, and bytes and operations take none.
#include <math.h>

#include "check.h"
#include "plan/queue.h"

enum { MAX_SEQS = 4, BATCH = 256 };

static rn_model *model;
static struct tools_memory memory;
static double step_ms; // of any step with logits; a model's stages do not depend on its rows

static int setup(void **state) {
    rn_error err = {0};
    const struct tools_memory_wanted wanted = {.n_ctx = 64, .users = 1, .batch_tokens = BATCH};
    (void)state;
    return tools_model_describe("tiny:F16", NULL, &model, &err) ||
           tools_memory(model, &wanted, &memory, &err);
}

static int teardown(void **state) {
    (void)state;
    rn_model_close(model);
    return 0;
}

static const struct predict_machine machine = {.bandwidth = HUGE_VAL,
                                               .flops = HUGE_VAL,
                                               .step_ns = 10e6};

static struct queue_totals run(struct queue_request *requests, int n, uint64_t kv_bytes) {
    const struct queue_config config = {.plan = tools_plan(model),
                                        .kv = &memory.kv,
                                        .machine = &machine,
                                        .max_seqs = MAX_SEQS,
                                        .batch_tokens = BATCH,
                                        .kv_bytes = kv_bytes};
    for (int i = 0; i < n; i++) { // whole pages
        const int pages =
            (requests[i].n_prompt + requests[i].n_output + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
        requests[i].kv_bytes = (uint64_t)(pages * KV_PAGE_TOKENS) * memory.kv_token_bytes;
    }
    struct queue_totals totals;
    assert_true(queue_run(&config, requests, n, &totals));
    step_ms = 10;
    return totals;
}

static void near(const char *what, double value, double wanted) {
    check(fabs(value - wanted) < 1e-6, "%s: %f instead of %f", what, value, wanted);
}

CASE(a_prompt_takes_a_step_for_each_chunk) {
    struct queue_request one = {.arrive_ms = 5, .n_prompt = 600, .n_output = 4};
    const struct queue_totals totals = run(&one, 1, 0);
    near("three chunks", one.first_ms, 5 + 3 * step_ms);
    near("a step for each further token", one.end_ms, 5 + 6 * step_ms);
    assert_int_equal(totals.n_steps, 6);
    assert_int_equal(totals.n_tokens, 4);
}

CASE(streams_get_their_token_and_prompts_the_rest) {
    struct queue_request r[] = {{.arrive_ms = 0, .n_prompt = 10, .n_output = 10},
                                {.arrive_ms = 1, .n_prompt = 510, .n_output = 1},
                                {.arrive_ms = 1, .n_prompt = 1, .n_output = 1}};
    run(r, 3, 0);
    near("the first", r[0].first_ms, step_ms);
    near("a stream is not delayed", r[0].end_ms, 10 * step_ms);
    // steps 2 and 3 have 255 tokens beside the stream: exactly this prompt
    near("its prompt", r[1].first_ms, 3 * step_ms);
    near("the step was full", r[2].first_ms, 4 * step_ms);
}

CASE(places_are_given_in_order) {
    struct queue_request r[MAX_SEQS + 1];
    for (int i = 0; i <= MAX_SEQS; i++)
        r[i] = (struct queue_request){.n_prompt = 8, .n_output = 1 + i};
    const struct queue_totals totals = run(r, MAX_SEQS + 1, 0);
    assert_int_equal(totals.most_running, MAX_SEQS);
    near("the last one waits for a place", r[MAX_SEQS].first_ms, 2 * step_ms);
}

CASE(requests_wait_for_kv_memory) {
    struct queue_request r[] = {{.n_prompt = 32, .n_output = 32}, {.n_prompt = 32, .n_output = 32}};
    const struct queue_totals both = run(r, 2, 128 * memory.kv_token_bytes);
    assert_int_equal(both.most_running, 2);
    const struct queue_totals one = run(r, 2, 127 * memory.kv_token_bytes);
    assert_int_equal(one.most_running, 1);
    near("one after the other", r[1].first_ms, 33 * step_ms);
}

CASE(equal_blocks_are_computed_once) {
    static const int64_t a[] = {7, 8}, b[] = {7, 9};
    struct queue_request r[] = {
        {.arrive_ms = 0, .n_prompt = 1100, .n_output = 1, .block = a, .n_block = 2},
        {.arrive_ms = 900, .n_prompt = 1100, .n_output = 1, .block = b, .n_block = 2},
        {.arrive_ms = 1800, .n_prompt = 1024, .n_output = 1, .block = a, .n_block = 2},
    };
    run(r, 3, 0);
    assert_int_equal(r[0].n_cached, 0);
    assert_int_equal(r[1].n_cached, QUEUE_BLOCK);
    near("588 tokens in 3 chunks", r[1].first_ms, 900 + 3 * step_ms);
    assert_int_equal(r[2].n_cached, 1023); // the last token is always evaluated
    near("one step", r[2].first_ms, 1800 + step_ms);
    // together: the second waits for the block that the first computes
    for (int i = 0; i < 2; i++) r[i].arrive_ms = 0, r[i].n_cached = 0, r[i].block = a;
    run(r, 2, 0);
    assert_int_equal(r[1].n_cached, 2 * QUEUE_BLOCK);
}

TEST_PROGRAM(plan_queue) { return cases_run(setup, teardown); }
