// The options of speculation: enabled drafters, refusals with their reasons, and a plan of memory
// that agrees with the engine.
// label: async
#include "check.h"
#include "tale.h"

// The plan of memory refuses what the engine does, in the same words.
static rn_status create(const rn_engine_options *options, rn_engine **out) {
    rn_error err = {0}, plan_err = {0};
    rn_memory_plan plan;
    const rn_status planned = rn_engine_plan_memory(model, options, &plan, &plan_err);
    const rn_status status = rn_engine_create(model, options, out, &err);
    if (status == RN_ERR_ARG) {
        assert_int_equal(planned, status);
        assert_string_equal(err.message, plan_err.message);
    }
    assert_true((status == RN_OK) == (*out != NULL));
    assert_true(status == RN_OK || err.message[0]);
    return status;
}

static void check_drafters(const rn_engine_options *options, const char *names) {
    rn_engine *engine;
    rn_engine_info info;
    const rn_status status = create(options, &engine);
    check(status == RN_OK, "'%s': status %d", options->speculate, (int)status);
    rn_engine_get_info(engine, &info);
    assert_string_equal(info.drafters, names);
    rn_engine_destroy(engine);
}

static void check_refused(const rn_engine_options *options, rn_status status) {
    rn_engine *engine;
    assert_int_equal(create(options, &engine), status);
}

static int no_draft(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                    int32_t *out, int most) {
    (void)ctx, (void)data, (void)choice, (void)token, (void)n_token, (void)out, (void)most;
    return 0;
}

CASE(lists_name_the_drafters) {
#define OPTIONS(...) &(rn_engine_options){.n_threads = 1, .n_ctx = 64, __VA_ARGS__}
    check_drafters(OPTIONS(.speculate = NULL), "lookup, shared, shape");
    check_drafters(OPTIONS(.speculate = "auto"), "lookup, shared, shape");
    check_drafters(OPTIONS(.speculate = "auto", .draft = model), "model, lookup, shared, shape");
    check_drafters(OPTIONS(.speculate = "off", .draft = model), "");
    check_drafters(OPTIONS(.speculate = "shared"), "shared");
    check_drafters(OPTIONS(.speculate = "lookup,lookup"), "lookup");
    check_drafters(OPTIONS(.speculate = "lookup,model", .draft = model), "model, lookup");
    check_drafters(OPTIONS(.speculate = "custom", .draft_fn = no_draft), "custom");
    static const char *const wrong[] = {"",        ",",
                                        "lookup,", ",lookup",
                                        "Lookup",  "lookup,,auto",
                                        "off,off", "lookup shared",
                                        "auto,",   "lookup, model"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_refused(OPTIONS(.speculate = wrong[i]), RN_ERR_ARG);
    check_refused(OPTIONS(.speculate = "model"), RN_ERR_ARG);
    check_refused(OPTIONS(.speculate = "custom,lookup"), RN_ERR_ARG);
}

CASE(lengths_have_bounds) {
    check_refused(OPTIONS(.draft_max = -1), RN_ERR_ARG);
    check_refused(OPTIONS(.draft_max = RN_MAX_DRAFT + 1), RN_ERR_ARG);
    check_refused(OPTIONS(.draft_min = -1), RN_ERR_ARG);
    check_refused(OPTIONS(.draft_min = 16), RN_ERR_ARG);
    check_refused(OPTIONS(.draft_max = 4, .draft_min = 5), RN_ERR_ARG);
    check_drafters(OPTIONS(.draft_max = RN_MAX_DRAFT, .draft_min = RN_MAX_DRAFT),
                   "lookup, shared, shape");
}

CASE(draft_models_are_of_the_same_vocabulary) {
    rn_model *other, *vocab;
    assert_int_equal(rn_model_open(TEST_DATA "/golden/gemma3/model.gguf", &other, NULL), RN_OK);
    assert_int_equal(rn_model_open_vocab(MODELS_DIR "/tale-1m-f16.gguf", &vocab, NULL), RN_OK);
    check_refused(OPTIONS(.draft = other), RN_ERR_MODEL);
    check_drafters(OPTIONS(.draft = other, .speculate = "lookup"), "lookup");
    check_refused(OPTIONS(.draft = vocab), RN_ERR_ARG);
    rn_model_close(vocab);
    rn_model_close(other);
}

// From a context of one token to as many sequences as there may be.
CASE(engines_of_odd_sizes_have_drafters) {
    const rn_engine_options sizes[] = {
        {.n_ctx = 1},
        {.n_ctx = 2, .kv_pages = 1, .batch_tokens = 1},
        {.n_ctx = 33, .logit_rows = 1, .kv_type = "int4", .draft = model},
        {.n_ctx = 33, .logit_rows = -1, .kv_type = "int8", .draft = model},
        {.n_ctx = 32, .max_seqs = 4096, .draft_max = RN_MAX_DRAFT, .draft_min = 1},
        {.n_ctx = 32, .max_seqs = 4096, .batch_tokens = 4096, .kv_pages = 64, .draft = model},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_drafters(&sizes[i],
                       sizes[i].draft ? "model, lookup, shared, shape" : "lookup, shared, shape");
}

CASE(the_plan_of_memory_is_the_engines) {
    const rn_engine_options options = {.n_ctx = 100, .max_seqs = 3, .draft = model, .kv_pages = 40};
    rn_memory_plan with, without;
    rn_engine_options off = options;
    off.speculate = "off";
    assert_int_equal(rn_engine_plan_memory(model, &options, &with, NULL), RN_OK);
    assert_int_equal(rn_engine_plan_memory(model, &off, &without, NULL), RN_OK);
    assert_true(with.draft_kv_bytes > 0 && with.draft_weight_bytes > 0 &&
                with.draft_step_bytes > 0);
    assert_true(!without.draft_kv_bytes && !without.draft_weight_bytes);
    assert_true(with.step_bytes > without.step_bytes); // rows of logits for drafts
    rn_engine *engine;
    rn_engine_info info;
    assert_int_equal(rn_engine_create(model, &options, &engine, NULL), RN_OK);
    rn_engine_get_info(engine, &info);
    assert_true(info.kv_bytes == with.kv_bytes && info.n_ctx == with.n_ctx);
    rn_engine_destroy(engine);
}

TEST_PROGRAM(draft_options) { return cases_run(open_model, close_model); }
