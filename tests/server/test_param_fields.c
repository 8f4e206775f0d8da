// Single generation fields: what each one means, which of several wins, and what it refuses.
#include <stdio.h>

#include "params_world.h"

CASE(a_model_is_one_that_is_served) {
    static const char *const fine[] = {"{}", "{\"model\":null}", "{\"model\":\"\"}",
                                       "{\"model\":\"first\"}", "{\"model\":\"third\"}"};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        struct world *world = world_of(fine[i], FAMILY_CHAT);
        check(world->ok, "%s", fine[i]);
        world_destroy(world);
    }
    expect_refusal("{\"model\":\"fourth\"}", FAMILY_CHAT, 404, "model",
                   "The model `fourth` does not exist.");
    expect_refusal("{\"model\":5}", FAMILY_CHAT, 400, "model", "expected a string, got 5");
}

CASE(what_is_absent_is_the_servers) {
    struct world *world = world_of("{\"top_p\":null,\"max_tokens\":null}", FAMILY_CHAT);
    assert_true(world->ok);
    const struct params *params = &world->params;
    assert_true(params->sampling.temperature == 0.25f && params->sampling.top_p == 1);
    assert_int_equal(params->max_tokens, 77);
    assert_int_equal(params->n, 1);
    assert_false(params->stream || params->logprobs || params->ignore_eos || params->include_usage);
    assert_false(params->sampling.has_seed);
    assert_null(params->user);
    assert_null(params->cache_salt);
    assert_null(params->sampling.dry_sequence_breakers);
    world_destroy(world);
}

CASE(embedded_prompts_are_refused) {
    expect_refusal("{\"prompt_embeds\":\"gASV\"}", FAMILY_COMPLETIONS, 400, "prompt_embeds",
                   "\"gASV\" is not supported");
    struct world *world = world_of("{\"prompt_embeds\":null}", FAMILY_COMPLETIONS);
    assert_true(world->ok);
    world_destroy(world);
}

CASE(the_later_name_of_a_limit_wins) {
    struct world *world = world_of("{\"max_completion_tokens\":5,\"max_tokens\":9}", FAMILY_CHAT);
    assert_int_equal(world->params.max_tokens, 5);
    world_destroy(world);
    world = world_of("{\"n_predict\":-1,\"repeat_penalty\":1.5}", FAMILY_NATIVE);
    assert_true(world->ok && world->params.max_tokens == -1);
    assert_true(world->params.sampling.repetition_penalty == 1.5f);
    world_destroy(world);
    world = world_of("{\"max_tokens\":-1}", FAMILY_CHAT); // as LM Studio's and llama.cpp's clients
    assert_true(world->ok && world->params.max_tokens == -1);
    world_destroy(world);
    static const unsigned also[] = {FAMILY_CHAT, FAMILY_COMPLETIONS, FAMILY_RESPONSES};
    for (int i = 0; i < 3; i++) { // as llama.cpp
        world = world_of("{\"n_predict\":3,\"max_tokens\":5,\"max_output_tokens\":6}", also[i]);
        assert_true(world->ok && world->params.max_tokens == 3);
        world_destroy(world);
    }
    world = world_of("{\"n_predict\":0}", FAMILY_CHAT);
    assert_true(world->ok && world->params.max_tokens == 0);
    world_destroy(world);
    expect_refusal("{\"n_predict\":-2}", FAMILY_COMPLETIONS, 400, "n_predict", "-2 is not");
    expect_refusal("{\"max_tokens\":-2}", FAMILY_CHAT, 400, "max_tokens", "-2 is not between -1");
    expect_refusal("{}", FAMILY_MESSAGES, 400, "max_tokens", "max_tokens: field required");
    expect_refusal("{\"max_tokens\":null}", FAMILY_MESSAGES, 400, "max_tokens", "field required");
    expect_refusal("{\"max_tokens\":0}", FAMILY_MESSAGES, 400, "max_tokens", "0 is not between 1");
}

CASE(seeds_are_any_integer) {
    static const struct {
        const char *body;
        unsigned family;
        bool has_seed;
        uint64_t seed;
    } cases[] = {
        {"{\"seed\":0}", FAMILY_CHAT, true, 0},
        {"{\"seed\":-1}", FAMILY_CHAT, true, UINT64_MAX},
        {"{\"seed\":-9223372036854775808}", FAMILY_CHAT, true, (uint64_t)1 << 63},
        {"{\"seed\":9223372036854775807}", FAMILY_COMPLETIONS, true, INT64_MAX},
        {"{\"seed\":9223372036854775808}", FAMILY_CHAT, true, (uint64_t)1 << 63},
        {"{\"seed\":18446744073709551615}", FAMILY_RESPONSES, true, UINT64_MAX},
        {"{\"seed\":12345678901234567891}", FAMILY_NATIVE, true, 12345678901234567891u},
        {"{\"seed\":1e19}", FAMILY_CHAT, true, 10000000000000000000u},
        {"{\"seed\":null}", FAMILY_CHAT, false, 0},
        {"{\"seed\":-1}", FAMILY_NATIVE, false, 0},
        {"{\"seed\":4294967295}", FAMILY_NATIVE, false, 0},
        {"{\"seed\":7}", FAMILY_NATIVE, true, 7},
        {"{\"options\":{\"seed\":12345678901234567891}}", FAMILY_OLLAMA, true,
         12345678901234567891u},
        {"{\"options\":{\"seed\":18446744073709551615}}", FAMILY_OLLAMA, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = world_of(cases[i].body, cases[i].family);
        const rn_sampling *sampling = &world->params.sampling;
        check(world->ok && sampling->has_seed == cases[i].has_seed, "%s", cases[i].body);
        check(!sampling->has_seed || sampling->seed == cases[i].seed, "%s", cases[i].body);
        world_destroy(world);
    }
    expect_refusal("{\"seed\":1.5}", FAMILY_CHAT, 400, "seed", "expected an integer, got 1.5");
    expect_refusal("{\"seed\":18446744073709551616}", FAMILY_CHAT, 400, "seed",
                   "18446744073709551616 is not between -9223372036854775808 and "
                   "18446744073709551615");
    // A double cannot tell it from the least seed.
    expect_refusal("{\"seed\":-9223372036854775809}", FAMILY_NATIVE, 400, "seed",
                   "-9223372036854775809 is not between -9223372036854775808 and");
    expect_refusal("{\"options\":{\"seed\":-9223372036854775809}}", FAMILY_OLLAMA, 400,
                   "options.seed", "-9223372036854775809 is not between -9223372036854775808 and");
    expect_refusal("{\"seed\":-9223372036854775809.0e1}", FAMILY_CHAT, 400, "seed",
                   "is not between -9223372036854775808 and 18446744073709551615");
}

CASE(logprobs_mean_what_each_family_says) {
    static const struct {
        const char *body;
        unsigned family;
        bool logprobs;
        int top;
    } cases[] = {
        {"{\"logprobs\":true,\"top_logprobs\":20}", FAMILY_CHAT, true, 20},
        {"{\"logprobs\":true}", FAMILY_CHAT, true, 0},
        {"{\"top_logprobs\":0}", FAMILY_CHAT, false, 0},
        {"{\"logprobs\":true,\"top_logprobs\":-1}", FAMILY_CHAT, true, 1000},
        {"{\"logprobs\":-1}", FAMILY_COMPLETIONS, true, 1000},
        {"{\"logprobs\":0}", FAMILY_COMPLETIONS, true, 0},
        {"{\"logprobs\":5}", FAMILY_COMPLETIONS, true, 5},
        {"{\"logprobs\":null}", FAMILY_COMPLETIONS, false, 0},
        {"{\"n_probs\":3}", FAMILY_NATIVE, true, 3},
        {"{\"n_probs\":0}", FAMILY_NATIVE, false, 0},
        {"{\"top_logprobs\":4}", FAMILY_RESPONSES, true, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = world_of(cases[i].body, cases[i].family);
        check(world->ok && world->params.logprobs == cases[i].logprobs &&
                  world->params.top_logprobs == cases[i].top,
              "%s", cases[i].body);
        world_destroy(world);
    }
    expect_refusal("{\"top_logprobs\":3}", FAMILY_CHAT, 400, "top_logprobs",
                   "logprobs is not true");
    expect_refusal("{\"logprobs\":true,\"top_logprobs\":21}", FAMILY_CHAT, 400, "top_logprobs",
                   "21 is not between -1 and 20");
    expect_refusal("{\"logprobs\":true}", FAMILY_COMPLETIONS, 400, "logprobs", "got true");
    expect_refusal("{\"logprobs\":21}", FAMILY_COMPLETIONS, 400, "logprobs", "21 is not");
    expect_refusal("{\"n\":2,\"best_of\":3}", FAMILY_COMPLETIONS, 400, "best_of",
                   "best_of: 3 is not n, which is 2");
    expect_refusal("{\"n\":2,\"best_of\":1}", FAMILY_COMPLETIONS, 400, "best_of", "1 is not n");
}

CASE(biases_come_as_an_object_or_as_pairs) {
    static const char *const bodies[] = {"{\"logit_bias\":{\"5\":-100,\"999\":2.5}}",
                                         "{\"logit_bias\":[[5,-100],[999,2.5]]}",
                                         "{\"logit_bias\":[[5,false],[999.0,2.5]]}",
                                         "{\"logit_bias\":{\"5\":false,\"999\":2.5}}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct world *world = world_of(bodies[i], FAMILY_NATIVE);
        const rn_sampling *sampling = &world->params.sampling;
        check(world->ok && sampling->n_logit_bias == 2, "%s", bodies[i]);
        for (int b = 0; b < 2; b++) {
            const rn_logit_bias *bias = &sampling->logit_bias[b];
            check((bias->token == 5 && bias->bias == -100) ||
                      (bias->token == 999 && bias->bias == 2.5f),
                  "%s: %d %g", bodies[i], bias->token, (double)bias->bias);
        }
        world_destroy(world);
    }
    expect_refusal("{\"logit_bias\":{\"1000\":1}}", FAMILY_CHAT, 400, "logit_bias",
                   "\"1000\" is not the id of a token, 0 to 999");
    expect_refusal("{\"logit_bias\":{\"\":1}}", FAMILY_CHAT, 400, "logit_bias", "\"\" is not");
    expect_refusal("{\"logit_bias\":{\"-5\":1}}", FAMILY_CHAT, 400, "logit_bias", "\"-5\" is not");
    expect_refusal("{\"logit_bias\":[[\"\",1]]}", FAMILY_CHAT, 400, "logit_bias[0]", "\"\" is not");
    expect_refusal("{\"logit_bias\":{\"5\":100.5}}", FAMILY_CHAT, 400, "logit_bias.5",
                   "100.5 is not between -100 and 100");
    expect_refusal("{\"logit_bias\":[[5,1],[6]]}", FAMILY_CHAT, 400, "logit_bias[1]",
                   "expected a token's id and a number");
    expect_refusal("{\"logit_bias\":[[null,1]]}", FAMILY_CHAT, 400, "logit_bias[0]", "got null");
    expect_refusal("{\"logit_bias\":[[-1,1]]}", FAMILY_CHAT, 400, "logit_bias[0].id", "-1 is not");

    char *many = repeated("[1,1],", RN_MAX_LOGIT_BIAS, "[1,1]", "");
    char *list = repeated("[", 1, many, "]");
    char *body = body_of("logit_bias", list, FAMILY_CHAT);
    expect_refusal(body, FAMILY_CHAT, 400, "logit_bias", "1025 tokens, at most 1024");
    free(body);
    free(list);
    free(many);
}

// " fox" is one token or several, and each of them gets the bias.
CASE(biases_name_tokens_by_their_text) {
    static const char *const bodies[] = {"{\"logit_bias\":{\" Fox1\":-2,\"7\":false}}",
                                         "{\"logit_bias\":[[\" Fox1\",-2],[7,false]]}",
                                         "{\"logit_bias\":[[\" Fox1\",-2],[7,false],[7,0]]}"};
    int32_t *ids;
    size_t n;
    assert_int_equal(rn_tokenize(model, " Fox1", 5, 0, &ids, &n, NULL), RN_OK);
    assert_true(n > 1);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct world *world = world_of(bodies[i], FAMILY_COMPLETIONS);
        const rn_sampling *sampling = &world->params.sampling;
        check(world->ok && sampling->n_logit_bias == n + 1 + i / 2, "%s", bodies[i]);
        for (size_t b = 0; b < n; b++)
            assert_true(sampling->logit_bias[b].token == ids[b] &&
                        sampling->logit_bias[b].bias == -2);
        assert_true(sampling->logit_bias[n].token == 7 && sampling->logit_bias[n].bias == -100);
        world_destroy(world);
    }
    rn_free(ids);
    // digits of a pair's string are a text, digits of a key an id
    struct world *world = world_of("{\"logit_bias\":[[\"7\",1]]}", FAMILY_CHAT);
    assert_int_equal(rn_tokenize(model, "7", 1, 0, &ids, &n, NULL), RN_OK);
    assert_true(world->ok && world->params.bias[0].token == ids[0] && ids[0] != 7);
    rn_free(ids);
    world_destroy(world);
    char *many = repeated("Q1 ", RN_MAX_LOGIT_BIAS, "", "");
    char *body = repeated("{\"logit_bias\":{\"", 1, many, "\":1}}");
    expect_refusal(body, FAMILY_CHAT, 400, "logit_bias",
                   "more than 1024 tokens, the most that are allowed");
    free(body);
    free(many);
}

CASE(samplers_that_a_list_lacks_are_off) {
    static const struct {
        const char *list;
        bool temperature, top_k, top_p, typical, penalties;
    } cases[] = {
        {"[\"top_k\",\"top_p\",\"infill\"]", false, true, true, false, false},
        {"[\"min_p\",\"temperature\"]", true, false, false, false, false},
        {"[]", false, false, false, false, false},
        {"\"\"", false, false, false, false, false},
        {"\"kt\"", true, true, false, false, false},
        {"\"edskypmxt\"", true, true, true, true, true},
        {"[\"Top-K\",\"topp\",\"temp\",\"typ-p\",\"penalties\"]", true, true, true, true, true},
        {"[\"nucleus\",\"nucleus\",\"top__k\",\"topk \"]", false, false, true, false, false},
        {"null", true, true, true, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"samplers\":%s,\"temperature\":0.5,\"top_k\":7,\"top_p\":0.9,\"typical_p\":0.8,"
                 "\"repeat_penalty\":1.5,\"presence_penalty\":0.5,\"logit_bias\":{\"5\":1}}",
                 cases[i].list);
        struct world *world = world_of(body, FAMILY_NATIVE);
        const rn_sampling *sampling = &world->params.sampling;
        check(world->ok, "%s", body);
        check((sampling->temperature == 0.5f) == cases[i].temperature, "%s", body);
        check(cases[i].temperature || sampling->temperature == 1, "%s", body);
        check((sampling->top_k == 7) == cases[i].top_k, "%s", body);
        check((sampling->top_p == 0.9f) == cases[i].top_p, "%s", body);
        check((sampling->typical_p == 0.8f) == cases[i].typical, "%s", body);
        check((sampling->repetition_penalty == 1.5f) == cases[i].penalties, "%s", body);
        check((sampling->presence_penalty == 0.5f) == cases[i].penalties, "%s", body);
        assert_int_equal(sampling->n_logit_bias, 1); // no step of the list
        world_destroy(world);
    }
    expect_refusal("{\"samplers\":[7]}", FAMILY_CHAT, 400, "samplers", "item 0, 7, is not a name");
    expect_refusal("{\"samplers\":{}}", FAMILY_COMPLETIONS, 400, "samplers", "expected a list");
}

CASE(stops_and_breakers_are_bounded_lists) {
    struct world *world = world_of("{\"stop\":\"END\",\"dry_sequence_breakers\":[]}", FAMILY_CHAT);
    assert_true(world->ok && world->params.n_stop == 1);
    assert_string_equal(world->params.stop[0], "END");
    assert_non_null(world->params.sampling.dry_sequence_breakers);
    assert_int_equal(world->params.sampling.n_dry_sequence_breakers, 0);
    world_destroy(world);
    for (int n = RN_MAX_STOPS; n <= RN_MAX_STOPS + 1; n++) {
        char *items = repeated("\"a\",", n - 1, "\"a\"", "");
        char *list = repeated("[", 1, items, "]");
        for (int field = 0; field < 2; field++) {
            char *body =
                body_of(field ? "stop" : "dry_sequence_breakers", list, FAMILY_COMPLETIONS);
            world = world_of(body, FAMILY_COMPLETIONS);
            check(world->ok == (n <= RN_MAX_STOPS), "%s", body);
            world_destroy(world);
            free(body);
        }
        free(list);
        free(items);
    }
    world = world_of("{\"max_tokens\":1,\"stop_sequences\":[\"a\",\"b\"],"
                     "\"metadata\":{\"user_id\":\"u\"}}",
                     FAMILY_MESSAGES);
    assert_true(world->ok && world->params.n_stop == 2);
    assert_string_equal(world->params.user, "u");
    world_destroy(world);
}

CASE(unknown_fields_are_ignored) {
    struct world *world = world_of("{\"prediction\":{\"type\":\"content\"},\"nonsense\":[1],"
                                   "\"store\":true,\"stream_options\":{\"other\":1}}",
                                   FAMILY_CHAT);
    assert_true(world->ok);
    world_destroy(world);
    // a name of another family is unknown in this one
    world = world_of("{\"n_probs\":\"x\",\"stop_sequences\":5}", FAMILY_CHAT);
    assert_true(world->ok);
    world_destroy(world);
}

CASE(test_drafts_may_be_limited_or_refused_by_either_spelling) {
    static const struct {
        const char *body;
        int want;
    } row[] = {
        {"{}", 0},
        {"{\"speculative.n_max\":null}", 0},
        {"{\"speculative.n_max\":0}", -1},
        {"{\"speculative.n_max\":4}", 4},
        {"{\"speculative.n_max\":1000}", RN_MAX_DRAFT},
        {"{\"speculative\":{\"n_max\":0}}", -1},
        {"{\"speculative\":{\"n_max\":7}}", 7},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct world *world = world_of(row[i].body, FAMILY_NATIVE);
        check(world->ok && world->params.draft_max == row[i].want, "%s: %d", row[i].body,
              world->params.draft_max);
        world_destroy(world);
    }
    expect_refusal("{\"speculative.n_max\":-1}", FAMILY_CHAT, 400, "speculative.n_max",
                   "-1 is not between 0");
    expect_refusal("{\"speculative\":{\"n_max\":\"x\"}}", FAMILY_COMPLETIONS, 400,
                   "speculative.n_max", "expected an integer");
}

TEST_PROGRAM(param_fields) { return cases_run(open_model, close_model); }
