// Synthetic models through the public engine: every format and every kind of shape gives finite
// logits and text, and every shape that is offered becomes a plan.
// label: no-address
#include <math.h>

#include "streams.h"
#include "tools.h"

enum { N_PROMPT = 24, N_OUTPUT = 8 };

struct seen {
    int n_rows, n_vocab, n_distinct;
    bool is_finite;
};

static void see_logits(void *ctx, int position, const float *logits, int n_vocab) {
    struct seen *seen = ctx;
    (void)position;
    seen->n_rows++;
    seen->n_vocab = n_vocab;
    for (int i = 0; i < n_vocab; i++) {
        seen->is_finite = seen->is_finite && isfinite(logits[i]) && fabsf(logits[i]) < 100;
        if (logits[i] != logits[0]) seen->n_distinct++;
    }
}

static void generate(rn_model *model, const char *spec, struct seen *seen) {
    int32_t prompt[N_PROMPT];
    static struct stream stream;
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_ctx = 64, .n_threads = 2});
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = i * 11;
    const rn_request request = {.prompt = prompt,
                                .n_prompt = N_PROMPT,
                                .max_tokens = N_OUTPUT,
                                .on_logits = see_logits,
                                .on_logits_ctx = seen};
    streams_run(engine, &request, &stream);
    check(stream.finish == RN_FINISH_LENGTH, "%s: %s", spec, rn_finish_text(stream.finish));
    rn_engine_destroy(engine);
}

static void run_spec(const char *spec) {
    rn_model *model;
    rn_error err = {0};
    struct seen seen = {.is_finite = true};
    const rn_status status = tools_model_open_synthetic(spec, &model, &err);
    check(status == RN_OK, "%s: %s", spec, err.message);
    generate(model, spec, &seen);
    check(seen.is_finite, "%s: a logit is not finite, or is beyond 100", spec);
    check(seen.n_rows == N_PROMPT + N_OUTPUT - 1, "%s: %d rows", spec, seen.n_rows);
    check(seen.n_vocab == 384, "%s: %d logits", spec, seen.n_vocab);
    check(seen.n_distinct > seen.n_rows * 370, "%s: %d", spec, seen.n_distinct);
    rn_model_close(model);
}

CASE(every_format_gives_finite_logits) {
    for (int id = 0; id < FORMAT_COUNT; id++) {
        char spec[32];
        snprintf(spec, sizeof spec, "tiny:%s", format_at((enum format_id)id)->name);
        run_spec(spec);
    }
}

CASE(mixes_and_experts_give_finite_logits) {
    static const char *const specs[] = {
        "tiny:Q2_K_S",       "tiny:Q3_K_M",        "tiny:Q4_K_M",          "tiny-moe:Q4_K_M",
        "tiny-moe:F16",      "tiny-oss:Q4_K_M",    "tiny-oss:MXFP4_MOE",   "tiny-oss:BF16",
        "tiny-delta:Q4_K_M", "tiny-delta:F16",     "tiny-nemotron:Q4_K_M", "tiny-granite:Q4_0",
        "tiny-lfm2:Q8_0",    "tiny-gemma4:Q4_K_M", "tiny-latent:Q4_K_M",   "tiny-latent:BF16"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) run_spec(specs[i]);
}

CASE(a_prompt_has_a_token_for_each_byte_and_comes_back_as_it_was) {
    rn_model *model;
    int32_t *ids;
    size_t n_ids, len;
    char *text;
    static const char prompt[] = "Once, at 7 o'clock:\n\t\xc3\xa4\xe2\x82\xac \x01\x7f~";
    assert_int_equal(tools_model_open_synthetic("tiny:Q4_0", &model, NULL), RN_OK);
    assert_int_equal(rn_tokenize(model, prompt, strlen(prompt), 0, &ids, &n_ids, NULL), RN_OK);
    assert_int_equal(n_ids, strlen(prompt));
    for (size_t i = 0; i < n_ids; i++) assert_int_equal(ids[i], (uint8_t)prompt[i]);
    assert_int_equal(rn_detokenize(model, ids, n_ids, false, &text, &len, NULL), RN_OK);
    assert_string_equal(text, prompt);
    rn_free(ids);
    rn_free(text);
    rn_model_close(model);
}

CASE(an_unknown_shape_is_named) {
    rn_model *model;
    rn_error err = {0};
    assert_int_equal(tools_model_open_synthetic("9b:Q4_0", &model, &err), RN_ERR_ARG);
    assert_null(model);
    check(strstr(err.message, "'9b'") != NULL, "%s", err.message);
}

TEST_PROGRAM(synthetic_models) { return cases_run(NULL, NULL); }
