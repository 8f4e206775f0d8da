// llama.cpp's /completion, /props and /slots: prompts in all their forms, and answers whole and in
// pieces. Choices are filled by hand, as the engine's events would.
// label: memory
#include "served.h"

#include <stdio.h>

#include "generation.h"
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

// A call that was prepared; its choices are there, without a token.
static struct call *prepared(struct served *served, const char *body) {
    struct call *call = call_new(served, body);
    native_prepare(call);
    check(!call_refused(call), "%s: %.*s", body, (int)call->out.len, call->out.data);
    struct generation *generation = call->generation;
    assert_non_null(generation);
    const int n = generation->params.n;
    generation->n_choices = generation->n_live = generation->n_prompts * n;
    generation->choice = calloc((size_t)generation->n_choices, sizeof *generation->choice);
    for (int i = 0; i < generation->n_choices; i++) {
        generation->choice[i].index = i;
        generation->choice[i].prompt = i / n;
    }
    return call;
}

// The choice's next token. Streams hand its text on, answers keep it.
static void token_come(struct call *call, int index, int32_t token, const char *text) {
    struct generation *generation = call->generation;
    struct generation_choice *choice = &generation->choice[index];
    if (generation->keep_tokens) {
        choice->token = realloc(choice->token, (size_t)(choice->n_tokens + 1) * sizeof(int32_t));
        choice->token[choice->n_tokens++] = token;
    }
    if (generation->params.logprobs) {
        const int n_top = generation->params.top_logprobs;
        choice->logprob =
            realloc(choice->logprob, (size_t)(choice->n_logprob + 1) * sizeof *choice->logprob);
        choice->top = realloc(choice->top, (size_t)(choice->n_top + n_top) * sizeof *choice->top);
        choice->logprob[choice->n_logprob++] = (struct token_logprob){.token = token,
                                                                      .logprob = -0.5f,
                                                                      .first_top = choice->n_top,
                                                                      .n_top = n_top};
        for (int i = 0; i < n_top; i++)
            choice->top[choice->n_top++] = (rn_logprob){.token = token + i, .logprob = -1.0f - i};
    }
    choice->timings.output_tokens++;
    if (generation->params.stream) {
        const struct delta delta = {.choice = choice, .text = text, .len = strlen(text)};
        if (*text) generation->writer->delta(call, &delta);
    } else {
        jbuf_text(&choice->text, text);
    }
}

static void choice_finish(struct call *call, int index, rn_finish finish, const char *stop) {
    struct generation *generation = call->generation;
    struct generation_choice *choice = &generation->choice[index];
    choice->ended = true;
    choice->finish = finish;
    choice->stop = stop ? strdup(stop) : NULL;
    choice->seed = 77;
    choice->timings.prompt_tokens = (int)generation->prompt[choice->prompt].n_ids;
    choice->timings.cached_tokens = 1;
    if (generation->params.stream) generation->writer->choice_end(call, choice);
    if (--generation->n_live > 0) return;
    generation_write_end(call);
    call_fill(call, SIZE_MAX);
}

// The events of a stream, an array to be given back. Each must be whole.
static json_t *events_of(const struct call *call) {
    json_t *events = json_array();
    const char *at = call->out.data, *end = at + call->out.len;
    while (at < end) {
        check(!strncmp(at, "data: ", 6), "'%.40s' is no event", at);
        const char *stop = at; // JSON on one line holds no line break
        while (stop + 1 < end && memcmp(stop, "\n\n", 2) != 0) stop++;
        if (stop + 1 >= end) stop = NULL;
        check(stop, "'%.40s' does not end", at);
        json_t *json = json_loadb(at + 6, (size_t)(stop - at) - 6, 0, NULL);
        check(json, "'%.*s' is not JSON", (int)(stop - at), at);
        json_array_append_new(events, json);
        at = stop + 2;
    }
    return events;
}

static const char *string_at(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    check(text, "%s is no string", key);
    return text;
}

static int64_t int_at(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    check(json_is_integer(value), "%s is no integer", key);
    return json_integer_value(value);
}

// ---------------------------------------------------------------- prompts

struct prompt_case {
    const char *prompt;
    int n_prompts;
    const char *ids; // of all prompts, one after the other
};

static void prompts_come_in_every_form(void **state) {
    static const struct prompt_case cases[] = {
        {"\"Hi\"", 1, "[0,43,76]"},
        {"[43,76]", 1, "[43,76]"},
        {"[3,\"Hi\",4]", 1, "[3,43,76,4]"},
        {"[\"Hi\",3]", 1, "[0,43,76,3]"},
        {"[\"Hi\",\"H\"]", 2, "[0,43,76,0,43]"},
        {"[\"Hi\",[43],[3,\"i\"]]", 3, "[0,43,76,43,3,76]"},
        {"{\"prompt_string\":\"Hi\"}", 1, "[0,43,76]"},
        {"[{\"prompt_string\":\"H\"},\"i\"]", 2, "[0,43,0,76]"},
        {"\"\"", 1, "[0]"},
        {"\"<|user|>\"", 1, "[0,1]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"prompt\":%s}", cases[i].prompt);
        struct call *call = prepared(*state, body);
        const struct generation *generation = call->generation;
        check(generation->n_prompts == cases[i].n_prompts, "%s: %d prompts", body,
              generation->n_prompts);
        json_t *ids = json_array(), *want = json_loads(cases[i].ids, 0, NULL);
        for (int p = 0; p < generation->n_prompts; p++) {
            for (size_t j = 0; j < generation->prompt[p].n_ids; j++)
                json_array_append_new(ids, json_integer(generation->prompt[p].ids[j]));
        }
        check(json_equal(ids, want), "%s: expected %s", body, cases[i].ids);
        json_decref(ids);
        json_decref(want);
        call_free(call);
    }
}

static void prompts_that_are_none_are_refused(void **state) {
    static const char *const cases[][3] = {
        {"{}", "prompt", "missing"},
        {"{\"prompt\":null}", "prompt", "missing"},
        {"{\"prompt\":7}", "prompt", "got 7"},
        {"{\"prompt\":true}", "prompt", "got true"},
        {"{\"prompt\":[]}", "prompt", "empty"},
        {"{\"prompt\":[4096]}", "prompt[0]", "4096"},
        {"{\"prompt\":[1,-1]}", "prompt[1]", "-1"},
        {"{\"prompt\":[1,1.5]}", "prompt[1]", "1.5"},
        {"{\"prompt\":[1,[2]]}", "prompt[1]", "an array"},
        {"{\"prompt\":[\"a\",[4097]]}", "prompt[1][0]", "4097"},
        {"{\"prompt\":[\"a\",null]}", "prompt[1]", "null"},
        {"{\"prompt\":{}}", "prompt.prompt_string", "expected a string"},
        {"{\"prompt\":{\"prompt_string\":\"a\",\"multimodal_data\":[\"x\"]}}",
         "prompt.multimodal_data", "text"},
        {"{\"prompt\":\"a\",\"n_predict\":-2}", "n_predict", "-2"},
        {"{\"prompt\":\"a\",\"n_cmpl\":0}", "n_cmpl", "0"},
        {"{\"prompt\":\"a\",\"return_tokens\":1}", "return_tokens", "1"},
        {"{\"prompt\":\"a\",\"response_fields\":[1]}", "response_fields", "item 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(*state, native_prepare, cases[i][0], cases[i][1], cases[i][2]);
}

static void too_many_prompts_are_refused(void **state) {
    char body[1024] = "{\"prompt\":[\"a\"";
    for (int i = 1; i < 65; i++) strcat(body, ",\"a\"");
    strcat(body, "]}");
    expect_refused(*state, native_prepare, body, "prompt", "65");
}

static void a_prompt_beyond_the_context_is_refused_in_the_words_that_clients_know(void **state) {
    struct served *served = *state;
    served->server.engine_info.n_ctx = 2;
    json_t *json = served_answer(served, native_prepare, "{\"prompt\":\"Hi\"}", 400);
    served->server.engine_info.n_ctx = 1024;
    const char *code = NULL;
    json_unpack(json, "{s:{s:s}}", "error", "code", &code);
    check(code && !strcmp(code, "context_length_exceeded"), "code %s", code ? code : "null");
    json_decref(json);
}

// ---------------------------------------------------------------- answers

static void an_answer_tells_all_about_its_text(void **state) {
    struct call *call =
        prepared(*state, "{\"prompt\":\"Hi\",\"n_predict\":5,\"return_tokens\":true,"
                         "\"temperature\":0.5,\"stop\":[\"zz\"]}");
    token_come(call, 0, 43, "H");
    token_come(call, 0, 202, "\n");
    choice_finish(call, 0, RN_FINISH_STOP, NULL);
    json_t *json = call_answer_json(call);
    check(!strcmp(string_at(json, "content"), "H\n"), "content");
    check(!strcmp(string_at(json, "stop_type"), "eos"), "stop_type");
    check(!strcmp(string_at(json, "stopping_word"), ""), "stopping_word");
    check(!strcmp(string_at(json, "model"), "tale"), "model");
    check(!strcmp(string_at(json, "prompt"), "<|endoftext|>Hi"), "prompt %s",
          string_at(json, "prompt"));
    check(json_is_true(json_object_get(json, "stop")), "stop");
    check(json_is_true(json_object_get(json, "has_new_line")), "has_new_line");
    check(json_is_false(json_object_get(json, "truncated")), "truncated");
    check(int_at(json, "tokens_predicted") == 2 && int_at(json, "tokens_evaluated") == 3 &&
              int_at(json, "tokens_cached") == 1,
          "counts");
    const json_t *tokens = json_object_get(json, "tokens");
    check(json_array_size(tokens) == 2, "%zu tokens", json_array_size(tokens));
    check(json_is_object(json_object_get(json, "timings")), "timings");
    check(!json_object_get(json, "completion_probabilities"), "probabilities without being asked");
    const json_t *settings = json_object_get(json, "generation_settings");
    check(int_at(settings, "n_predict") == 5 && int_at(settings, "seed") == 77, "settings");
    check(json_number_value(json_object_get(settings, "temperature")) == 0.5, "temperature");
    check(json_number_value(json_object_get(settings, "repeat_penalty")) == 1, "repeat_penalty");
    check(json_array_size(json_object_get(settings, "dry_sequence_breakers")) == 4, "breakers");
    check(json_array_size(json_object_get(settings, "stop")) == 1, "stop strings");
    json_decref(json);
    call_free(call);
}

static void tokens_are_given_when_asked_for(void **state) {
    struct call *call = prepared(*state, "{\"prompt\":\"Hi\"}");
    token_come(call, 0, 43, "H");
    choice_finish(call, 0, RN_FINISH_LENGTH, NULL);
    json_t *json = call_answer_json(call);
    check(json_array_size(json_object_get(json, "tokens")) == 0, "tokens");
    check(!strcmp(string_at(json, "stop_type"), "limit"), "stop_type");
    json_decref(json);
    call_free(call);
}

static void a_stop_string_is_named(void **state) {
    struct call *call = prepared(*state, "{\"prompt\":\"Hi\",\"stop\":\"zz\"}");
    token_come(call, 0, 43, "H");
    choice_finish(call, 0, RN_FINISH_STOP, "zz");
    json_t *json = call_answer_json(call);
    check(!strcmp(string_at(json, "stop_type"), "word"), "stop_type");
    check(!strcmp(string_at(json, "stopping_word"), "zz"), "stopping_word");
    json_decref(json);
    call_free(call);
}

static void a_full_context_counts_as_truncated(void **state) {
    struct served *served = *state;
    served->server.engine_info.n_ctx = 4;
    struct call *call = prepared(served, "{\"prompt\":\"Hi\"}");
    token_come(call, 0, 43, "H");
    choice_finish(call, 0, RN_FINISH_LENGTH, NULL);
    json_t *json = call_answer_json(call);
    served->server.engine_info.n_ctx = 1024;
    check(json_is_true(json_object_get(json, "truncated")), "truncated");
    json_decref(json);
    call_free(call);
}

static void several_results_are_an_array_in_order(void **state) {
    struct call *call = prepared(*state, "{\"prompt\":[\"Hi\",\"H\"],\"n_cmpl\":2}");
    check(call->generation->n_choices == 4, "%d choices", call->generation->n_choices);
    for (int i = 3; i >= 0; i--) {
        token_come(call, i, 43, "H");
        choice_finish(call, i, RN_FINISH_STOP, NULL);
    }
    json_t *json = call_answer_json(call);
    check(json_array_size(json) == 4, "%zu results", json_array_size(json));
    for (size_t i = 0; i < 4; i++) {
        const json_t *one = json_array_get(json, i);
        check(int_at(one, "index") == (int64_t)i, "index");
        check(int_at(one, "tokens_evaluated") == (i < 2 ? 3 : 2), "result %zu", i);
        check(int_at(json_object_get(one, "timings"), "predicted_n") == 1,
              "timings are not the result's own");
    }
    json_decref(json);
    call_free(call);
}

static void probabilities_have_ids_texts_and_bytes(void **state) {
    struct call *call = prepared(*state, "{\"prompt\":\"Hi\",\"n_probs\":2}");
    token_come(call, 0, 131, "");
    choice_finish(call, 0, RN_FINISH_LENGTH, NULL);
    json_t *json = call_answer_json(call);
    const json_t *list = json_object_get(json, "completion_probabilities");
    check(json_array_size(list) == 1, "%zu tokens", json_array_size(list));
    const json_t *one = json_array_get(list, 0), *bytes = json_object_get(one, "bytes");
    check(int_at(one, "id") == 131, "id");
    check(!strcmp(string_at(one, "token"), "\xEF\xBF\xBD"), "half a character shows as one");
    check(json_array_size(bytes) == 1 && json_integer_value(json_array_get(bytes, 0)) == 195,
          "bytes");
    check(json_number_value(json_object_get(one, "logprob")) == -0.5, "logprob");
    const json_t *top = json_object_get(one, "top_logprobs");
    check(json_array_size(top) == 2 && int_at(json_array_get(top, 1), "id") == 132, "top_logprobs");
    json_decref(json);
    call_free(call);
}

static void response_fields_pick_and_lift(void **state) {
    struct call *call = prepared(
        *state,
        "{\"prompt\":\"Hi\",\"n_predict\":3,\"stop\":[\"a}\",\"]\\\"\"],\"response_fields\":["
        "\"content\",\"generation_settings/n_predict\",\"generation_settings/stop\","
        "\"nothing/at/all\",\"nor_this\",\"content/x\",\"tokens/0\",\"stop\",\"\",\"/\"]}");
    token_come(call, 0, 43, "H\"},{\\");
    choice_finish(call, 0, RN_FINISH_STOP, NULL);
    json_t *json = call_answer_json(call);
    json_t *want =
        json_pack("{s:s,s:i,s:[s,s]}", "content", "H\"},{\\", "n_predict", 3, "stop", "a}", "]\"");
    check(json_equal(json, want), "%.*s", (int)call->out.len, call->out.data);
    json_decref(json);
    json_decref(want);
    call_free(call);
}

// ---------------------------------------------------------------- streams

static void a_streams_pieces_make_the_whole(void **state) {
    struct call *call =
        prepared(*state,
                 "{\"prompt\":\"Hi\",\"stream\":true,\"n_probs\":1,\"return_tokens\":true}");
    static const struct {
        int32_t token;
        const char *text;
    } tokens[] = {{43, "H"}, {131, ""}, {106, "\xC3\xA9"}, {202, "\n"}, {3, ""}};
    const size_t n = sizeof tokens / sizeof *tokens;
    for (size_t i = 0; i < n; i++) token_come(call, 0, tokens[i].token, tokens[i].text);
    choice_finish(call, 0, RN_FINISH_STOP, NULL);
    json_t *events = events_of(call);
    const size_t n_events = json_array_size(events);
    char text[64] = "";
    size_t n_tokens = 0, n_probs = 0;
    for (size_t i = 0; i < n_events; i++) {
        const json_t *event = json_array_get(events, i);
        const json_t *list = json_object_get(event, "tokens");
        strcat(text, string_at(event, "content"));
        for (size_t j = 0; j < json_array_size(list); j++, n_tokens++) {
            check(n_tokens < n &&
                      json_integer_value(json_array_get(list, j)) == tokens[n_tokens].token,
                  "token %zu", n_tokens);
        }
        n_probs += json_array_size(json_object_get(event, "completion_probabilities"));
        check(json_is_boolean(json_object_get(event, "stop")) &&
                  json_is_true(json_object_get(event, "stop")) == (i + 1 == n_events),
              "event %zu of %zu: stop", i, n_events);
    }
    check(!strcmp(text, "H\xC3\xA9\n"), "text '%s'", text);
    check(n_tokens == n && n_probs == n, "%zu tokens, %zu with probabilities", n_tokens, n_probs);
    const json_t *last = json_array_get(events, n_events - 1);
    check(json_is_true(json_object_get(last, "has_new_line")), "has_new_line");
    check(!strcmp(string_at(last, "stop_type"), "eos"), "stop_type");
    check(int_at(last, "tokens_predicted") == (int64_t)n, "tokens_predicted");
    json_decref(events);
    call_free(call);
}

static void timings_come_with_every_piece_when_asked_for(void **state) {
    struct call *call =
        prepared(*state, "{\"prompt\":\"Hi\",\"stream\":true,\"timings_per_token\":true}");
    token_come(call, 0, 43, "H");
    json_t *events = events_of(call);
    const json_t *timings = json_object_get(json_array_get(events, 0), "timings");
    check(int_at(timings, "predicted_n") == 1 && int_at(timings, "prompt_n") == 3, "timings");
    json_decref(events);
    call_free(call);
}

static void an_error_in_a_stream_is_an_event(void **state) {
    struct call *call = prepared(*state, "{\"prompt\":\"Hi\",\"stream\":true}");
    call->generation->writer->error(call, "it \"broke\"");
    json_t *events = events_of(call);
    const char *message = NULL;
    json_unpack(json_array_get(events, 0), "{s:{s:s}}", "error", "message", &message);
    check(message && !strcmp(message, "it \"broke\""), "%s", message ? message : "none");
    json_decref(events);
    call_free(call);
}

// ---------------------------------------------------------------- props and slots

static void props_tell_what_the_server_is(void **state) {
    json_t *json = served_answer(*state, native_props, "", 200);
    check(int_at(json, "total_slots") == 4, "total_slots");
    check(!strcmp(string_at(json, "model_path"), "tale-20m-q8_0.gguf"), "model_path %s",
          string_at(json, "model_path"));
    check(!strcmp(string_at(json, "bos_token"), "<|endoftext|>"), "bos_token");
    check(strstr(string_at(json, "chat_template"), "<|assistant|>"), "chat_template");
    const json_t *defaults = json_object_get(json, "default_generation_settings");
    check(int_at(defaults, "n_ctx") == 1024, "n_ctx");
    check(json_is_object(json_object_get(defaults, "params")), "params");
    check(json_is_false(json_object_get(json_object_get(json, "modalities"), "vision")), "vision");
    json_decref(json);
}

static json_t *slots_of(struct served *served) {
    struct call *call = call_new(served, "");
    native_slots(call);
    json_t *json = call_answer_json(call);
    call_free(call);
    return json;
}

static void a_running_choice_takes_a_slot(void **state) {
    struct served *served = *state;
    json_t *json = slots_of(served);
    check(json_array_size(json) == 4, "%zu slots", json_array_size(json));
    for (size_t i = 0; i < 4; i++) {
        const json_t *slot = json_array_get(json, i);
        check(int_at(slot, "id") == (int64_t)i, "id");
        check(json_is_false(json_object_get(slot, "is_processing")), "slot %zu", i);
    }
    json_decref(json);

    struct call *call = prepared(served, "{\"prompt\":\"Hi\",\"n_cmpl\":2,\"n_predict\":5}");
    call_state_set(call, CALL_RUNNING);
    call->generation->stream = calloc(1, sizeof *call->generation->stream);
    call->generation->choice[1].ended = true;
    json = slots_of(served);
    const json_t *slot = json_array_get(json, 0);
    check(json_array_size(json) == 4, "%zu slots", json_array_size(json));
    check(json_is_true(json_object_get(slot, "is_processing")), "is_processing");
    check(int_at(json_object_get(slot, "params"), "n_predict") == 5, "params");
    check(json_is_false(json_object_get(json_array_get(json, 1), "is_processing")),
          "a choice that ended has no slot");
    json_decref(json);
    served->server.calls = NULL;
    call_free(call);
}

TEST_PROGRAM(native) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_come_in_every_form),
        cmocka_unit_test(prompts_that_are_none_are_refused),
        cmocka_unit_test(too_many_prompts_are_refused),
        cmocka_unit_test(a_prompt_beyond_the_context_is_refused_in_the_words_that_clients_know),
        cmocka_unit_test(an_answer_tells_all_about_its_text),
        cmocka_unit_test(tokens_are_given_when_asked_for),
        cmocka_unit_test(a_stop_string_is_named),
        cmocka_unit_test(a_full_context_counts_as_truncated),
        cmocka_unit_test(several_results_are_an_array_in_order),
        cmocka_unit_test(probabilities_have_ids_texts_and_bytes),
        cmocka_unit_test(response_fields_pick_and_lift),
        cmocka_unit_test(a_streams_pieces_make_the_whole),
        cmocka_unit_test(timings_come_with_every_piece_when_asked_for),
        cmocka_unit_test(an_error_in_a_stream_is_an_event),
        cmocka_unit_test(props_tell_what_the_server_is),
        cmocka_unit_test(a_running_choice_takes_a_slot),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
