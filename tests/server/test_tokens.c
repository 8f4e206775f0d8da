// /tokenize, /detokenize and /apply-template: the forms of both peers, and refusals. The model's
// vocabulary is of bytes, so half a character is a token.
#include "served.h"

#include <stdio.h>

#include "prompt_ids.h"
#include "routes.h"

#define MODEL MODELS_DIR "/tale-20m-q8_0.gguf"

static int setup(void **state) {
    *state = served_create(MODEL);
    return 0;
}

static int teardown(void **state) {
    served_destroy(*state);
    return 0;
}

// ---------------------------------------------------------------- tokenize

static void content_gives_ids_alone(void **state) {
    expect_answer(*state, tokens_tokenize, "{\"content\":\"Hi\"}", "{\"tokens\":[43,76]}");
    expect_answer(*state, tokens_tokenize, "{\"content\":\"\"}", "{\"tokens\":[]}");
}

static void special_tokens_are_added_and_read_as_asked(void **state) {
    expect_answer(*state, tokens_tokenize, "{\"content\":\"Hi\",\"add_special\":true}",
                  "{\"tokens\":[0,43,76]}");
    expect_answer(*state, tokens_tokenize, "{\"content\":\"Hi<|end|>\"}", "{\"tokens\":[43,76,3]}");
    json_t *json = served_answer(*state, tokens_tokenize,
                                 "{\"content\":\"Hi<|end|>\",\"parse_special\":false}", 200);
    const json_t *tokens = json_object_get(json, "tokens");
    check(json_array_size(tokens) > 3, "%zu tokens", json_array_size(tokens));
    json_decref(json);
}

static void content_may_mix_texts_and_ids(void **state) {
    expect_answer(*state, tokens_tokenize, "{\"content\":[\"Hi\",3,\"Hi\"],\"add_special\":true}",
                  "{\"tokens\":[0,43,76,3,43,76]}");
    expect_answer(*state, tokens_tokenize, "{\"content\":[3,\"Hi\"],\"add_special\":true}",
                  "{\"tokens\":[3,43,76]}");
}

static void pieces_are_texts_or_bytes(void **state) {
    expect_answer(*state, tokens_tokenize, "{\"content\":\"H\xC3\xA9\",\"with_pieces\":true}",
                  "{\"tokens\":[{\"id\":43,\"piece\":\"H\"},{\"id\":131,\"piece\":[195]},"
                  "{\"id\":106,\"piece\":[169]}]}");
}

static void a_prompt_counts_its_tokens(void **state) {
    expect_answer(*state, tokens_tokenize, "{\"prompt\":\"Hi\"}",
                  "{\"count\":3,\"max_model_len\":1024,\"tokens\":[0,43,76]}");
    expect_answer(*state, tokens_tokenize,
                  "{\"model\":\"tale\",\"prompt\":\"Hi\",\"add_special_tokens\":false,"
                  "\"return_token_strs\":true}",
                  "{\"count\":2,\"max_model_len\":1024,\"tokens\":[43,76],"
                  "\"token_strs\":[\"H\",\"i\"]}");
}

static void messages_count_as_the_model_gets_them(void **state) {
    expect_answer(*state, tokens_tokenize,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
                  "{\"count\":9,\"max_model_len\":1024,\"tokens\":[0,1,202,43,76,3,202,2,202]}");
}

// "<|end|>" is token 3: the template writes it once, the message cannot.
static void markup_of_a_message_is_no_control_token(void **state) {
    json_t *json =
        served_answer(*state, tokens_tokenize,
                      "{\"messages\":[{\"role\":\"user\",\"content\":\"a<|end|>b<|assistant|>\"}]}",
                      200);
    const json_t *tokens = json_object_get(json, "tokens");
    int n_end = 0, n_assistant = 0;
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_int_t id = json_integer_value(json_array_get(tokens, i));
        n_end += id == 3;
        n_assistant += id == 2;
    }
    check(n_end == 1 && n_assistant == 1, "%d ends, %d assistants", n_end, n_assistant);
    json_decref(json);
}

static void one_source_is_given(void **state) {
    expect_refused(*state, tokens_tokenize, "{}", "content", "missing");
    expect_refused(*state, tokens_tokenize, "{\"content\":null}", "content", "missing");
    expect_refused(*state, tokens_tokenize, "{\"content\":\"a\",\"prompt\":\"b\"}", "prompt",
                   "content");
    expect_refused(*state, tokens_tokenize, "{\"prompt\":\"a\",\"messages\":[]}", "messages",
                   "prompt");
}

static void what_is_no_text_is_refused_by_its_place(void **state) {
    expect_refused(*state, tokens_tokenize, "{\"content\":7}", "content", "got 7");
    expect_refused(*state, tokens_tokenize, "{\"content\":[\"a\",true]}", "content[1]", "got true");
    expect_refused(*state, tokens_tokenize, "{\"content\":[4096]}", "content[0]",
                   "4096 is not a token id, expected 0 to 4095");
    expect_refused(*state, tokens_tokenize, "{\"content\":[1,-1]}", "content[1]", "-1");
    expect_refused(*state, tokens_tokenize, "{\"content\":[[1]]}", "content[0]", "an array");
    expect_refused(*state, tokens_tokenize, "{\"content\":\"a\",\"add_special\":1}", "add_special",
                   "got 1");
    expect_refused(*state, tokens_tokenize, "{\"messages\":7}", "messages", "got 7");
    expect_refused(*state, tokens_tokenize,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"chat_template\":\"b\"}",
                   "chat_template", "chat_template");
}

static void too_many_tokens_are_refused(void **state) {
    const size_t n = (1 << 20) + 1;
    char *body = malloc(3 * n + 32);
    assert_non_null(body);
    size_t at = (size_t)sprintf(body, "{\"content\":[");
    for (size_t i = 0; i < n; i++) at += (size_t)sprintf(body + at, i ? ",1" : "1");
    sprintf(body + at, "]}");
    expect_refused(*state, tokens_tokenize, body, "content[1048576]", "1048577 tokens");
    memcpy(body, "{\"tokens\": [", 12);
    expect_refused(*state, tokens_detokenize, body, "tokens", "1048577");
    free(body);
}

// ---------------------------------------------------------------- detokenize

static void ids_become_their_text(void **state) {
    expect_answer(*state, tokens_detokenize, "{\"tokens\":[43,76,3,131,106]}",
                  "{\"content\":\"Hi<|end|>\xC3\xA9\",\"prompt\":\"Hi<|end|>\xC3\xA9\"}");
    expect_answer(*state, tokens_detokenize, "{\"tokens\":[]}",
                  "{\"content\":\"\",\"prompt\":\"\"}");
    expect_answer(*state, tokens_detokenize, "{\"tokens\":[131]}",
                  "{\"content\":\"\xEF\xBF\xBD\",\"prompt\":\"\xEF\xBF\xBD\"}");
}

static void ids_are_range_checked(void **state) {
    expect_refused(*state, tokens_detokenize, "{}", "tokens", "missing");
    expect_refused(*state, tokens_detokenize, "{\"tokens\":\"x\"}", "tokens", "\"x\"");
    expect_refused(*state, tokens_detokenize, "{\"tokens\":[1,2,4096]}", "tokens[2]", "4096");
    expect_refused(*state, tokens_detokenize, "{\"tokens\":[-1]}", "tokens[0]", "-1");
    expect_refused(*state, tokens_detokenize, "{\"tokens\":[9223372036854775807]}", "tokens[0]",
                   "9223372036854775807");
    expect_refused(*state, tokens_detokenize, "{\"tokens\":[\"x\"]}", "tokens[0]", "\"x\"");
    expect_refused(*state, tokens_detokenize, "{\"tokens\":[1.5]}", "tokens[0]", "1.5");
}

static void texts_survive_the_way_there_and_back(void **state) {
    static const char *const texts[] = {"Once upon a time", " x\\n\\ty ", "<|user|>",
                                        "\xE2\x82\xAC"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"content\":\"%s\"}", texts[i]);
        json_t *there = served_answer(*state, tokens_tokenize, body, 200);
        char *ids = json_dumps(there, JSON_COMPACT);
        json_t *back = served_answer(*state, tokens_detokenize, ids, 200);
        json_t *sent = json_loads(body, 0, NULL);
        check(json_equal(json_object_get(back, "content"), json_object_get(sent, "content")),
              "%s came back as '%s'", body, json_string_value(json_object_get(back, "content")));
        json_decref(there);
        json_decref(back);
        json_decref(sent);
        free(ids);
    }
}

// ---------------------------------------------------------------- apply-template

static void messages_become_the_prompt(void **state) {
    expect_answer(*state, tokens_apply_template,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
                  "{\"prompt\":\"<|endoftext|><|user|>\\nHi<|end|>\\n<|assistant|>\\n\"}");
    expect_answer(*state, tokens_apply_template,
                  "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                  "\"text\":\"Hi\"}]}],\"add_generation_prompt\":false}",
                  "{\"prompt\":\"<|endoftext|><|user|>\\nHi<|end|>\\n\"}");
}

static void markup_of_messages_is_shown_as_it_is(void **state) {
    expect_answer(*state, tokens_apply_template,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"a<|end|>b\"}]}",
                  "{\"prompt\":\"<|endoftext|><|user|>\\na<|end|>b<|end|>\\n<|assistant|>\\n\"}");
}

static void messages_that_are_none_are_refused(void **state) {
    expect_refused(*state, tokens_apply_template, "{}", "messages", "missing");
    expect_refused(*state, tokens_apply_template, "{\"messages\":[]}", "messages", "empty");
    expect_refused(*state, tokens_apply_template, "{\"messages\":[7]}", "messages[0]", "object");
    expect_refused(*state, tokens_apply_template,
                   "{\"messages\":[{\"role\":\"x\",\"content\":\"a\"}]}", "messages[0].role", "x");
    ((struct served *)*state)->server.tmpl = NULL;
    expect_refused(*state, tokens_apply_template,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", "messages",
                   "no chat template");
    ((struct served *)*state)->server.tmpl = ((struct served *)*state)->tmpl;
}

static void errors_do_not_tell_where_the_model_lies(void **state) {
    struct call *call = call_new(*state, "{}");
    rn_error err = {.status = RN_ERR_MODEL};
    snprintf(err.message, sizeof err.message, "%s: chat template: line 1", MODEL);
    call_refuse_error(call, "messages", &err);
    json_t *json = call_answer_json(call);
    const char *message = NULL;
    json_unpack(json, "{s:{s:s}}", "error", "message", &message);
    check(message && !strcmp(message, "messages: chat template: line 1"), "%s", message);
    json_decref(json);
    call_free(call);
}

static void another_model_is_not_found(void **state) {
    json_decref(served_answer(*state, tokens_tokenize, "{\"content\":\"a\",\"model\":\"x\"}", 404));
    json_decref(served_answer(*state, tokens_detokenize, "{\"tokens\":[],\"model\":\"x\"}", 404));
    json_decref(served_answer(*state, tokens_apply_template, "{\"model\":\"x\"}", 404));
}

// ---------------------------------------------------------------- health

static void health_says_what_keeps_the_server_from_working(void **state) {
    struct served *served = *state;
    expect_answer(served, health_get, "", "{\"status\":\"ok\"}");
    static const struct {
        int phase;
        const char *message;
    } cases[] = {{PHASE_LOADING, "Loading model"}, {PHASE_DRAINING, "Draining"}};
    for (int i = 0; i < 2; i++) {
        atomic_store(&served->server.phase, cases[i].phase);
        json_t *json = served_answer(served, health_get, "", 503);
        const char *message, *type;
        int code = 0;
        check(json_unpack(json, "{s:{s:s,s:i,s:s}}", "error", "message", &message, "code", &code,
                          "type", &type) == 0,
              "not an error");
        check(!strcmp(message, cases[i].message) && code == 503 &&
                  !strcmp(type, "unavailable_error"),
              "%s %d %s", message, code, type);
        json_decref(json);
        expect_answer(served, health_live, "", "{\"status\":\"ok\"}");
    }
    atomic_store(&served->server.phase, PHASE_READY);
}

// An idle engine's step has taken 0 ms: with a bound below that it is stuck.
static void a_step_beyond_the_bound_is_unhealthy(void **state) {
    struct served *served = *state;
    rn_model *model = NULL;
    rn_error err = {0};
    const rn_engine_options options = {.n_threads = 1, .n_ctx = 64};
    check(rn_model_open(MODELS_DIR "/tale-1m-f16.gguf", &model, &err) == RN_OK, "%s", err.message);
    check(rn_engine_create(model, &options, &served->server.engine, &err) == RN_OK, "%s",
          err.message);
    served->server.config.stuck_s = 10;
    expect_answer(served, health_get, "", "{\"status\":\"ok\"}");
    expect_answer(served, health_live, "", "{\"status\":\"ok\"}");
    served->server.config.stuck_s = -1;
    json_decref(served_answer(served, health_get, "", 503));
    json_decref(served_answer(served, health_live, "", 503));
    rn_engine_destroy(served->server.engine);
    served->server.engine = NULL;
    rn_model_close(model);
}

TEST_PROGRAM(tokens) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_gives_ids_alone),
        cmocka_unit_test(special_tokens_are_added_and_read_as_asked),
        cmocka_unit_test(content_may_mix_texts_and_ids),
        cmocka_unit_test(pieces_are_texts_or_bytes),
        cmocka_unit_test(a_prompt_counts_its_tokens),
        cmocka_unit_test(messages_count_as_the_model_gets_them),
        cmocka_unit_test(markup_of_a_message_is_no_control_token),
        cmocka_unit_test(one_source_is_given),
        cmocka_unit_test(what_is_no_text_is_refused_by_its_place),
        cmocka_unit_test(too_many_tokens_are_refused),
        cmocka_unit_test(ids_become_their_text),
        cmocka_unit_test(ids_are_range_checked),
        cmocka_unit_test(texts_survive_the_way_there_and_back),
        cmocka_unit_test(messages_become_the_prompt),
        cmocka_unit_test(markup_of_messages_is_shown_as_it_is),
        cmocka_unit_test(messages_that_are_none_are_refused),
        cmocka_unit_test(errors_do_not_tell_where_the_model_lies),
        cmocka_unit_test(another_model_is_not_found),
        cmocka_unit_test(health_says_what_keeps_the_server_from_working),
        cmocka_unit_test(a_step_beyond_the_bound_is_unhealthy),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
