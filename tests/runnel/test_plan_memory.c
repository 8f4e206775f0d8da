// rn_engine_plan_memory against the engines that are then created.
#include "check.h"

#include <string.h>

#include "streams.h"
#include "tale.h"

static rn_memory_plan plan_of(const rn_engine_options *options) {
    rn_memory_plan plan;
    rn_error err = {0};
    const rn_status status = rn_engine_plan_memory(model, options, &plan, &err);
    check(status == RN_OK, "%s", err.message);
    return plan;
}

CASE(the_parts_are_those_of_the_model) {
    const rn_model_info *info = rn_model_get_info(model);
    const rn_memory_plan plan = plan_of(NULL);
    // the embedding is the head as well, so it is there as a table and packed
    const uint64_t table = (uint64_t)info->n_vocab * (uint64_t)info->n_embd * 2;
    assert_int_equal(plan.weight_bytes, info->weight_bytes + table);
    assert_int_equal(plan.n_ctx, info->n_ctx_train);
    assert_string_equal(plan.kv_type, "f16");
    assert_int_equal(plan.kv_context_bytes, plan.kv_token_bytes * (uint64_t)info->n_ctx_train);
    assert_int_equal(plan.kv_tokens, plan.kv_bytes / plan.kv_token_bytes);
    assert_int_equal(plan.n_contexts, 2);
    check(plan.available == 0 || plan.available <= plan.total, "%llu of %llu",
          (unsigned long long)plan.available, (unsigned long long)plan.total);
    const rn_engine_options f32 = {.kv_type = "f32"};
    assert_int_equal(plan_of(&f32).kv_token_bytes, 2 * plan.kv_token_bytes);
}

CASE(an_engine_has_the_context_and_the_memory_of_its_plan) {
    const rn_engine_options options[] = {
        {.n_threads = 1},
        {.n_threads = 1, .kv_pages = 4},
        {.n_threads = 1, .kv_pages = 5, .n_ctx = 150, .kv_type = "f32"},
        {.n_threads = 1, .kv_bytes = 1 << 20, .max_seqs = 3},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const rn_memory_plan plan = plan_of(&options[i]);
        rn_engine *engine = streams_engine(model, &options[i]);
        rn_engine_info info;
        rn_engine_get_info(engine, &info);
        check(info.n_ctx == plan.n_ctx, "options %zu: %d, %d", i, info.n_ctx, plan.n_ctx);
        check(info.kv_token_bytes == plan.kv_token_bytes, "options %zu", i);
        check(info.kv_bytes == plan.kv_bytes, "options %zu", i);
        rn_engine_destroy(engine);
    }
}

CASE(both_refuse_the_same_with_the_same_words) {
    const struct {
        rn_engine_options options;
        const char *word;
    } cases[] = {
        {{.kv_bytes = 100}, "100 bytes"}, {{.kv_pages = 2, .n_ctx = 65}, "context of 65"},
        {{.n_ctx = 1 << 24}, "16777216"}, {{.kv_bytes = UINT64_MAX}, "16.0 EiB"},
        {{.kv_type = "f7"}, "'f7'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rn_memory_plan plan;
        rn_engine *engine;
        rn_error planned = {0}, created = {0};
        check(rn_engine_plan_memory(model, &cases[i].options, &plan, &planned) == RN_ERR_ARG,
              "case %zu: %s", i, planned.message);
        check(rn_engine_create(model, &cases[i].options, &engine, &created) == RN_ERR_ARG,
              "case %zu: %s", i, created.message);
        check(strstr(planned.message, cases[i].word), "case %zu: %s", i, planned.message);
        assert_string_equal(planned.message, created.message);
    }
}

CASE(a_vocabulary_has_no_plan) {
    rn_model *vocab;
    rn_memory_plan plan;
    assert_int_equal(rn_model_open_vocab(MODELS_DIR "/tale-1m-f16.gguf", &vocab, NULL), RN_OK);
    assert_int_equal(rn_engine_plan_memory(vocab, NULL, &plan, NULL), RN_ERR_ARG);
    rn_model_close(vocab);
}

TEST_PROGRAM(plan_memory) { return cases_run(open_model, close_model); }
