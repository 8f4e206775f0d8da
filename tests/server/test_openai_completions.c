// /v1/completions: prompts in all their forms, echoes, legacy logprobs, and streams with the
// content of the whole answer.
// label: memory
#define _GNU_SOURCE // memmem, asprintf
#define RANDOM_SEED 43
#include "openai_world.h"

#include "helpers.h"

static struct call *prepare(const char *body) {
    struct call *call = call_new(body);
    completions_prepare(call);
    return call;
}

// ---------------------------------------------------------------- prompts

static void prompts_are_texts_or_ids_one_or_several(void **state) {
    (void)state;
    int32_t *ids;
    size_t n_ids;
    const int flags = RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL;
    assert_int_equal(rn_tokenize(model, "Once upon", 9, flags, &ids, &n_ids, NULL), RN_OK);
    char list[256] = "";
    for (size_t i = 0; i < n_ids; i++) sprintf(list + strlen(list), "%s%d", i ? "," : "", ids[i]);
    static const struct {
        const char *form;
        int n_prompts;
    } forms[] = {{"\"Once upon\"%.0s%.0s", 1},
                 {"[%s]%.0s", 1},
                 {"[\"Once upon\",\"Once upon\"]%.0s%.0s", 2},
                 {"[[%s],[%s]]", 2},
                 {"[[%s],\"Once upon\"]%.0s", 2}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char prompt[600], body[700];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(prompt, sizeof prompt, forms[i].form, list, list);
#pragma GCC diagnostic pop
        snprintf(body, sizeof body, "{\"prompt\":%s}", prompt);
        struct call *call = prepare(body);
        check(!call->status, "%s: %.*s", body, (int)call->out.len, call->out.data);
        assert_int_equal(call->generation->n_prompts, forms[i].n_prompts);
        for (int j = 0; j < forms[i].n_prompts; j++) {
            assert_int_equal(call->generation->prompt[j].n_ids, n_ids);
            assert_memory_equal(call->generation->prompt[j].ids, ids, n_ids * sizeof *ids);
        }
        call_free(call);
    }
    rn_free(ids);
}

static void a_prompt_may_hold_a_nul(void **state) {
    (void)state;
    int32_t *ids;
    size_t n_ids;
    const int flags = RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL;
    assert_int_equal(rn_tokenize(model, "a\0b", 3, flags, &ids, &n_ids, NULL), RN_OK);
    struct call *call = prepare("{\"prompt\":\"a\\u0000b\",\"echo\":true}");
    check(!call->status, "%.*s", (int)call->out.len, call->out.data);
    const struct generation_prompt *prompt = &call->generation->prompt[0];
    assert_int_equal(prompt->n_ids, n_ids);
    assert_memory_equal(prompt->ids, ids, n_ids * sizeof *ids);
    assert_int_equal(prompt->text_len, 3);
    assert_memory_equal(prompt->text, "a\0b", 3);
    call_free(call);
    rn_free(ids);
}

static void an_empty_prompt_is_the_token_that_begins_texts(void **state) {
    (void)state;
    struct call *call = prepare("{\"prompt\":\"\"}");
    assert_int_equal(call->status, 0);
    assert_int_equal(call->generation->prompt[0].n_ids, 1);
    assert_int_equal(call->generation->prompt[0].ids[0], rn_token_bos(model));
    call_free(call);
}

static const struct {
    const char *body, *param, *message;
} refusals[] = {
    {"{}", "prompt", "missing"},
    {"{\"prompt\":null}", "prompt", "missing"},
    {"{\"prompt\":[]}", "prompt", "empty"},
    {"{\"prompt\":3}", "prompt", "got 3"},
    {"{\"prompt\":{\"a\":[]}}", "prompt", "{\"a\":[]}"},
    {"{\"prompt\":[1,-1]}", "prompt[1]", "-1 is not"},
    {"{\"prompt\":[4096]}", "prompt[0]", "4096 is not a token id, an integer from 0 to 4095"},
    {"{\"prompt\":[9223372036854775807]}", "prompt[0]", "9223372036854775807"},
    {"{\"prompt\":[-9223372036854775808]}", "prompt[0]", "-9223372036854775808"},
    {"{\"prompt\":[1.5]}", "prompt[0]", "1.5 is not"},
    {"{\"prompt\":[1,\"a\"]}", "prompt[1]", "\"a\" is not"},
    {"{\"prompt\":[\"a\",1]}", "prompt[1]", "got 1"},
    {"{\"prompt\":[[1],[]]}", "prompt[1]", "empty"},
    {"{\"prompt\":[[1],[2,[3]]]}", "prompt[1][1]", "[3] is not"},
    {"{\"prompt\":[[1],null]}", "prompt[1]", "got null"},
    {"{\"prompt\":\"a\",\"echo\":1}", "echo", "1"},
    {"{\"prompt\":\"a\",\"echo\":true,\"logprobs\":1}", "echo", "logprobs"},
};

static void wrong_prompts_are_refused_by_the_name_of_what_is_wrong(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct call *call = prepare(refusals[i].body);
        expect_refusal(call, refusals[i].param, refusals[i].message);
        call_free(call);
    }
}

static void a_call_has_at_most_64_prompts(void **state) {
    (void)state;
    for (int n = 64; n <= 65; n++) {
        char body[512] = "{\"prompt\":[";
        for (int i = 0; i < n; i++) strcat(body, i ? ",\"a\"" : "\"a\"");
        strcat(body, "]}");
        struct call *call = prepare(body);
        assert_int_equal(call->status, n == 64 ? 0 : 400);
        call_free(call);
    }
}

static void a_prompt_beyond_the_context_gets_the_sentence_that_clients_match(void **state) {
    (void)state;
    struct jbuf body = {0};
    jbuf_text(&body, "{\"prompt\":[");
    for (int i = 0; i < 300; i++) jbuf_text(&body, i ? ",5" : "5");
    jbuf_bytes(&body, "]}", 3);
    struct call *call = prepare(body.data);
    expect_refusal(call, "prompt",
                   "This model's maximum context length is 256 tokens. However, your messages "
                   "resulted in 300 tokens. Please reduce the length of the messages.");
    call_free(call);
    jbuf_deinit(&body);
}

// ---------------------------------------------------------------- answers

static const struct script scripts[] = {
    {{{PART_CONTENT, " a time \xC3\xA9\xE2\x82\xAC \"x\""}}, RN_FINISH_STOP, "\n\n"},
    {{{PART_CONTENT, " a hill\n"}}, RN_FINISH_LENGTH, NULL},
    {{{PART_CONTENT, NULL}}, RN_FINISH_STOP, NULL},
};
enum { N_SCRIPTS = sizeof scripts / sizeof *scripts };

static struct call *answer(const char *fields) {
    char body[512];
    snprintf(body, sizeof body, "{\"prompt\":[\"Once\",\"Up\"]%s}", fields);
    struct call *call = prepare(body);
    check(!call->status, "%s: %.*s", body, (int)call->out.len, call->out.data);
    generation_tell(call, scripts, N_SCRIPTS);
    return call;
}

static void logprobs_join(json_t *choice, const json_t *part) {
    const json_t *more = json_object_get(part, "logprobs");
    if (json_is_null(more)) return;
    json_t *all = json_object_get(choice, "logprobs");
    if (!all) json_object_set_new(choice, "logprobs", all = json_object());
    const char *key;
    json_t *list;
    expect_keys(more, "tokens token_logprobs top_logprobs text_offset");
    json_object_foreach((json_t *)more, key, list) {
        if (!json_object_get(all, key)) json_object_set_new(all, key, json_array());
        json_array_extend(json_object_get(all, key), list);
    }
}

static json_t *stream_join(const struct call *call, int n_choices) {
    json_t *events = events_of(call, true), *choices = json_array();
    for (int i = 0; i < n_choices; i++)
        json_array_append_new(choices, json_pack("{ss}", "text", ""));
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *chunk = json_array_get(events, i);
        assert_string_equal(string_at(chunk, "object"), "text_completion");
        assert_string_equal(string_at(chunk, "id"), "cmpl-abcdefghijklmnop");
        const json_t *part = json_array_get(json_object_get(chunk, "choices"), 0);
        if (!part) continue;
        const json_int_t index = json_integer_value(json_object_get(part, "index"));
        json_t *choice = json_array_get(choices, (size_t)index);
        assert_null(json_object_get(choice, "finish_reason"));
        string_append(choice, "text", string_at(part, "text"));
        logprobs_join(choice, part);
        if (json_is_null(json_object_get(part, "finish_reason"))) {
            expect_keys(part, "index text logprobs finish_reason");
            continue;
        }
        expect_keys(part, "index text logprobs finish_reason stop_reason");
        json_object_set(choice, "finish_reason", json_object_get(part, "finish_reason"));
        json_object_set(choice, "stop_reason", json_object_get(part, "stop_reason"));
    }
    json_decref(events);
    return choices;
}

static void a_stream_cut_anywhere_says_what_the_whole_answer_says(void **state) {
    (void)state;
    static const char *const fields[] = {",\"n\":3", ",\"n\":3,\"logprobs\":2",
                                         ",\"n\":3,\"echo\":true",
                                         ",\"stream_options\":{\"include_usage\":true}"};
    for (int round = 0; round < 40; round++) {
        const int n = round % 4 == 3 ? 2 : 6;
        char more[128];
        strcpy(more, fields[round % 4]);
        struct call *whole = answer(more);
        strcat(more, ",\"stream\":true");
        struct call *stream = answer(more);
        json_t *joined = stream_join(stream, n), *body = json_of(whole->out.data, whole->out.len);
        expect_keys(body, "id object created model system_fingerprint choices usage timings");
        const json_t *choices = json_object_get(body, "choices");
        assert_int_equal(json_array_size(choices), n);
        for (int i = 0; i < n; i++) {
            json_t *one = json_array_get(choices, (size_t)i);
            expect_keys(one, "index text logprobs finish_reason stop_reason");
            assert_int_equal(json_integer_value(json_object_get(one, "index")), i);
            json_object_del(one, "index");
            if (json_is_null(json_object_get(one, "logprobs"))) json_object_del(one, "logprobs");
            check(json_equal(one, json_array_get(joined, (size_t)i)), "round %d, choice %d", round,
                  i);
        }
        json_decref(joined);
        json_decref(body);
        call_free(whole);
        call_free(stream);
    }
}

static void an_echo_puts_the_prompt_before_each_of_its_choices(void **state) {
    (void)state;
    struct call *call = answer(",\"n\":2,\"echo\":true");
    json_t *body = json_of(call->out.data, call->out.len);
    for (size_t i = 0; i < 4; i++) {
        char expected[64];
        const char *own = scripts[i % N_SCRIPTS].piece[0].text;
        snprintf(expected, sizeof expected, "%s%s", i < 2 ? "Once" : "Up", own ? own : "");
        assert_string_equal(string_at(json_array_get(json_object_get(body, "choices"), i), "text"),
                            expected);
    }
    json_decref(body);
    call_free(call);
}

static void ids_are_echoed_as_what_they_stand_for(void **state) {
    (void)state;
    int32_t *ids;
    size_t n_ids;
    assert_int_equal(rn_tokenize(model, "Once upon", 9, 0, &ids, &n_ids, NULL), RN_OK);
    char body[256] = "{\"echo\":true,\"prompt\":[";
    for (size_t i = 0; i < n_ids; i++) sprintf(body + strlen(body), "%s%d", i ? "," : "", ids[i]);
    strcat(body, "]}");
    struct call *call = prepare(body);
    assert_int_equal(call->status, 0);
    assert_string_equal(call->generation->prompt[0].text, "Once upon");
    rn_free(ids);
    call_free(call);
}

// ---------------------------------------------------------------- logprobs

// A call whose one choice wrote these tokens, each with `top` as its rivals.
static json_t *logprobs_of(const int32_t *token, size_t n, const int32_t *top, int n_top) {
    struct call *call = prepare("{\"prompt\":\"a\",\"logprobs\":2}");
    choices_create(call->generation);
    struct generation_choice *choice = &call->generation->choice[0];
    for (size_t i = 0; i < n; i++) {
        token_add(call, choice, (int)i);
        choice->logprob[i].token = token[i];
        choice->logprob[i].n_top = n_top;
        for (int j = 0; j < n_top; j++)
            choice->top[choice->logprob[i].first_top + j] = (rn_logprob){top[j], -1.0f - (float)j};
    }
    generation_write_end(call);
    call_fill(call, SIZE_MAX);
    json_t *body = json_of(call->out.data, call->out.len); // refuses equal keys
    json_t *logprobs = json_incref(
        json_object_get(json_array_get(json_object_get(body, "choices"), 0), "logprobs"));
    json_decref(body);
    call_free(call);
    return logprobs;
}

static void offsets_count_characters_of_the_text(void **state) {
    (void)state;
    const char text[] = "A \xF0\x9F\x98\x80 caf\xC3\xA9";
    int32_t *ids;
    size_t n_ids;
    assert_int_equal(rn_tokenize(model, text, strlen(text), 0, &ids, &n_ids, NULL), RN_OK);
    json_t *logprobs = logprobs_of(ids, n_ids, NULL, 0);
    json_int_t expected = 0;
    for (size_t i = 0; i < n_ids; i++) {
        const json_int_t offset =
            json_integer_value(json_array_get(json_object_get(logprobs, "text_offset"), i));
        assert_int_equal(offset, expected);
        size_t len;
        const char *bytes = rn_token_bytes(model, ids[i], &len);
        for (size_t j = 0; j < len; j++) expected += ((unsigned char)bytes[j] & 0xC0) != 0x80;
    }
    assert_int_equal(expected, 8);
    json_decref(logprobs);
    rn_free(ids);
}

static void half_characters_are_told_apart_by_their_bytes(void **state) {
    (void)state;
    int32_t *ids;
    size_t n_ids;
    assert_int_equal(rn_tokenize(model, "\xF0\x9F\x98\x80", 4, 0, &ids, &n_ids, NULL), RN_OK);
    assert_true(n_ids > 1);
    // a token that is among its own rivals, and one twice
    const int32_t top[] = {ids[0], ids[1], ids[0]};
    json_t *logprobs = logprobs_of(ids, 1, top, 3);
    const char *token = json_string_value(json_array_get(json_object_get(logprobs, "tokens"), 0));
    check(!strncmp(token, "bytes:\\xf0", 10), "%s", token);
    const json_t *map = json_array_get(json_object_get(logprobs, "top_logprobs"), 0);
    assert_int_equal(json_object_size(map), 2);
    assert_true(json_number_value(json_object_get(map, token)) == -1.0);
    json_decref(logprobs);
    rn_free(ids);
}

static void the_chosen_token_is_among_the_likeliest(void **state) {
    (void)state;
    int32_t *ids;
    size_t n_ids;
    assert_int_equal(rn_tokenize(model, "abc", 3, 0, &ids, &n_ids, NULL), RN_OK);
    const int32_t top[] = {(ids[0] + 1) % 256 + 1000};
    json_t *logprobs = logprobs_of(ids, 1, top, 1);
    const char *token = json_string_value(json_array_get(json_object_get(logprobs, "tokens"), 0));
    const json_t *map = json_array_get(json_object_get(logprobs, "top_logprobs"), 0);
    assert_int_equal(json_object_size(map), 2);
    assert_non_null(json_object_get(map, token));
    json_decref(logprobs);
    rn_free(ids);
}

TEST_PROGRAM(openai_completions) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_are_texts_or_ids_one_or_several),
        cmocka_unit_test(a_prompt_may_hold_a_nul),
        cmocka_unit_test(an_empty_prompt_is_the_token_that_begins_texts),
        cmocka_unit_test(wrong_prompts_are_refused_by_the_name_of_what_is_wrong),
        cmocka_unit_test(a_call_has_at_most_64_prompts),
        cmocka_unit_test(a_prompt_beyond_the_context_gets_the_sentence_that_clients_match),
        cmocka_unit_test(a_stream_cut_anywhere_says_what_the_whole_answer_says),
        cmocka_unit_test(an_echo_puts_the_prompt_before_each_of_its_choices),
        cmocka_unit_test(ids_are_echoed_as_what_they_stand_for),
        cmocka_unit_test(offsets_count_characters_of_the_text),
        cmocka_unit_test(half_characters_are_told_apart_by_their_bytes),
        cmocka_unit_test(the_chosen_token_is_among_the_likeliest),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
