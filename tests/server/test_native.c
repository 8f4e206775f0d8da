// llama.cpp's /completion, /props and /slots: prompts in all their forms, and answers whole and in
// pieces. Choices are filled by hand, as the engine's events would.
#include "calls.h"

static struct call *prepared(const char *body) { return call_prepared(native_prepare, body); }

// The choice's next token.
static void token_come(struct call *call, int index, int32_t token, const char *text) {
    struct generation_choice *choice = &call->generation->choice[index];
    token_add(call, choice, token);
    choice->timings.output_tokens++;
    if (*text) part_feed(call, choice, PART_CONTENT, text, strlen(text));
}

static void finish(struct call *call, int index, rn_finish finish, const char *stop) {
    choice_finish(call, &call->generation->choice[index], finish, stop);
    if (!call->generation->n_live) answer_end(call);
}

// The answer to a request whose text is "H".
static const json_t *told(const char *body, rn_finish ended, const char *stop) {
    struct call *call = prepared(body);
    token_come(call, 0, 43, "H");
    finish(call, 0, ended, stop);
    return answer_of(call);
}

// ---------------------------------------------------------------- prompts

struct prompt_case {
    const char *prompt;
    int n_prompts;
    const char *ids; // of all prompts, one after the other
};

CASE(prompts_come_in_every_form) {
    static const struct {
        const char *prompt, *ids; // of all prompts
    } cases[] = {
        {"'Hi'", "[[0,43,76]]"},
        {"[43,76]", "[[43,76]]"},
        {"[3,'Hi',4]", "[[3,43,76,4]]"},
        {"['Hi',3]", "[[0,43,76,3]]"},
        {"['Hi','H']", "[[0,43,76],[0,43]]"},
        {"['Hi',[43],[3,'i']]", "[[0,43,76],[43],[3,76]]"},
        {"{'prompt_string':'Hi'}", "[[0,43,76]]"},
        {"[{'prompt_string':'H'},'i']", "[[0,43],[0,76]]"},
        {"''", "[[0]]"},
        {"'<|user|>'", "[[0,1]]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[128];
        snprintf(body, sizeof body, "{'prompt':%s}", cases[i].prompt);
        const struct generation *generation = prepared(body)->generation;
        json_t *all = json_keep(json_array());
        for (int p = 0; p < generation->n_prompts; p++) {
            json_t *ids = json_array();
            json_array_append_new(all, ids);
            for (size_t j = 0; j < generation->prompt[p].n_ids; j++)
                json_array_append_new(ids, json_integer(generation->prompt[p].ids[j]));
        }
        expect_json(all, "", cases[i].ids);
    }
}

CASE(prompts_that_are_none_are_refused) {
    static const struct refusal cases[] = {
        {"{}", "prompt", "missing"},
        {"{'prompt':null}", "prompt", "missing"},
        {"{'prompt':7}", "prompt", "got 7"},
        {"{'prompt':true}", "prompt", "got true"},
        {"{'prompt':[]}", "prompt", "empty"},
        {"{'prompt':[4096]}", "prompt[0]", "4096"},
        {"{'prompt':[1,-1]}", "prompt[1]", "-1"},
        {"{'prompt':[1,1.5]}", "prompt[1]", "1.5"},
        {"{'prompt':[1,[2]]}", "prompt[1]", "an array"},
        {"{'prompt':['a',[4097]]}", "prompt[1][0]", "4097"},
        {"{'prompt':['a',null]}", "prompt[1]", "null"},
        {"{'prompt':{}}", "prompt.prompt_string", "expected a string"},
        {"{'prompt':{'prompt_string':'a','multimodal_data':['x']}}", "prompt.multimodal_data",
         "text"},
        {"{'prompt':{'prompt_string':'a','multimodal_data':'iVBO'}}", "prompt.multimodal_data",
         "text"},
        {"{'prompt':'a','n_predict':-2}", "n_predict", "-2"},
        {"{'prompt':'a','n_cmpl':0}", "n_cmpl", "0"},
        {"{'prompt':'a','return_tokens':1}", "return_tokens", "1"},
        {"{'prompt':'a','response_fields':[1]}", "response_fields", "item 0"},
    };
    expect_refusals(native_prepare, cases);
}

CASE(too_many_prompts_are_refused) {
    char body[1024] = "{'prompt':['a'";
    for (int i = 1; i < 65; i++) strcat(body, ",'a'");
    expect_refusal(native_prepare, strcat(body, "]}"), "prompt", "65");
}

CASE(a_prompt_beyond_the_context_is_refused_in_the_words_that_clients_know) {
    served.engine_info.n_ctx = 2;
    expect_json(answered(native_prepare, "{'prompt':'Hi'}", 400), "error.code",
                "'context_length_exceeded'");
    served.engine_info.n_ctx = 256;
}

// ---------------------------------------------------------------- answers

CASE(an_answer_tells_all_about_its_text) {
    struct call *call = prepared(
        "{'prompt':'Hi','n_predict':5,'return_tokens':true,'temperature':0.5,'stop':['zz']}");
    token_come(call, 0, 43, "H");
    token_come(call, 0, 202, "\n");
    finish(call, 0, RN_FINISH_STOP, NULL);
    const json_t *json = answer_of(call);
    expect_rows(json, {"content", "'H\\n'"}, {"stop_type", "'eos'"}, {"stopping_word", "''"},
                {"model", "'tale'"}, {"prompt", "'<|endoftext|>Hi'"}, {"stop", "true"},
                {"has_new_line", "true"}, {"truncated", "false"}, {"tokens_predicted", "2"},
                {"tokens_evaluated", "3"}, {"tokens_cached", "3"}, {"tokens", "[43,202]"},
                {"generation_settings.n_predict", "5"}, {"generation_settings.seed", "77"},
                {"generation_settings.temperature", "0.5"},
                {"generation_settings.repeat_penalty", "1"},
                {"generation_settings.stop", "['zz']"});
    assert_int_equal(size_at(json, "generation_settings.dry_sequence_breakers"), 4);
    assert_true(json_is_object(at_path(json, "timings")));
    assert_null(at_path(json, "completion_probabilities")); // nobody asked
}

CASE(ends_are_named_and_tokens_are_given_when_asked_for) {
    expect_rows(told("{'prompt':'Hi'}", RN_FINISH_LENGTH, NULL), {"tokens", "[]"},
                {"stop_type", "'limit'"});
    expect_rows(told("{'prompt':'Hi','stop':'zz'}", RN_FINISH_STOP, "zz"), {"stop_type", "'word'"},
                {"stopping_word", "'zz'"});
    served.engine_info.n_ctx = 4; // which is full then
    expect_json(told("{'prompt':'Hi'}", RN_FINISH_LENGTH, NULL), "truncated", "true");
    served.engine_info.n_ctx = 256;
}

CASE(several_results_are_an_array_in_order) {
    struct call *call = prepared("{'prompt':['Hi','H'],'n_cmpl':2}");
    assert_int_equal(call->generation->n_choices, 4);
    for (int i = 3; i >= 0; i--) {
        token_come(call, i, 43, "H");
        finish(call, i, RN_FINISH_STOP, NULL);
    }
    const json_t *json = answer_of(call);
    assert_int_equal(json_array_size(json), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *one = json_array_get(json, i);
        assert_int_equal(number_at(one, "index"), i);
        assert_int_equal(number_at(one, "tokens_evaluated"), i < 2 ? 3 : 2);
        expect_json(one, "timings.predicted_n", "1"); // its own
    }
}

CASE(probabilities_have_ids_texts_and_bytes) {
    struct call *call = prepared("{'prompt':'Hi','n_probs':2}");
    token_come(call, 0, 131, "");
    finish(call, 0, RN_FINISH_LENGTH, NULL);
    const json_t *list = at_path(answer_of(call), "completion_probabilities");
    assert_int_equal(json_array_size(list), 1);
    // half a character is shown as one
    expect_rows(list, {"0.id", "131"}, {"0.token", "'\xEF\xBF\xBD'"}, {"0.bytes", "[195]"},
                {"0.logprob", "-1.25"}, {"0.top_logprobs.1.id", "132"});
    assert_int_equal(size_at(list, "0.top_logprobs"), 2);
}

CASE(response_fields_pick_and_keep_their_names) {
    struct call *call =
        prepared("{'prompt':'Hi','n_predict':3,'stop':['a}',']\\\"'],'response_fields':['content','"
                 "generation_settings/n_predict','content','generation_settings/stop','nothing/at/"
                 "all','nor_this','content/x','tokens/0','stop','','/']}");
    token_come(call, 0, 43, "H\"},{\\");
    finish(call, 0, RN_FINISH_STOP, NULL);
    expect_json(answer_of(call), "",
                "{'content':'H\\\"},{\\\\','generation_settings/n_predict':3,"
                "'generation_settings/stop':['a}',']\\\"'],'stop':true}");
}

// ---------------------------------------------------------------- streams

CASE(a_streams_pieces_make_the_whole) {
    struct call *call = prepared("{'prompt':'Hi','stream':true,'n_probs':1,'return_tokens':true}");
    static const struct {
        int32_t token;
        const char *text;
    } tokens[] = {{43, "H"}, {131, ""}, {106, "\xC3\xA9"}, {202, "\n"}, {3, ""}};
    for (size_t i = 0; i < 5; i++) token_come(call, 0, tokens[i].token, tokens[i].text);
    finish(call, 0, RN_FINISH_STOP, NULL);
    const json_t *events = events_of(call, false);
    const size_t n_events = json_array_size(events);
    json_t *joined = json_keep(json_pack("{s:s,s:[]}", "text", "", "tokens"));
    size_t n_probs = 0;
    for (size_t i = 0; i < n_events; i++) {
        const json_t *event = json_array_get(events, i);
        assert_non_null(string_at(event, "content"));
        string_append(joined, "text", string_at(event, "content"));
        json_array_extend(at_path(joined, "tokens"), at_path(event, "tokens"));
        n_probs += size_at(event, "completion_probabilities");
        expect_json(event, "stop", i + 1 == n_events ? "true" : "false");
    }
    expect_json(joined, "", "{'text':'H\xC3\xA9\\n','tokens':[43,131,106,202,3]}");
    assert_int_equal(n_probs, 5);
    expect_rows(json_array_get(events, n_events - 1), {"has_new_line", "true"},
                {"stop_type", "'eos'"}, {"tokens_predicted", "5"});
}

CASE(timings_come_with_every_piece_when_asked_for) {
    struct call *call = prepared("{'prompt':'Hi','stream':true,'timings_per_token':true}");
    call->generation->prompt[0].done = 3; // as the engine tells before the first token
    token_come(call, 0, 43, "H");
    expect_rows(events_of(call, false), {"0.timings.predicted_n", "1"},
                {"0.timings.prompt_n", "3"});
}

CASE(an_error_in_a_stream_is_an_event) {
    struct call *call = prepared("{'prompt':'Hi','stream':true}");
    const struct failure failure = {500, NULL, NULL, "it \"broke\""};
    call->generation->writer->error(call, &failure);
    expect_json(events_of(call, false), "0.error.message", "'it \\\"broke\\\"'");
}

// ---------------------------------------------------------------- props and slots

CASE(props_tell_what_the_server_is) {
    const json_t *json = answered(native_props, "", 200);
    expect_rows(json, {"total_slots", "4"}, {"model_path", "'tale-1m-f16.gguf'"},
                {"bos_token", "'<|endoftext|>'"}, {"default_generation_settings.n_ctx", "256"},
                {"modalities.vision", "false"}, {"page_store", "null"});
    assert_non_null(strstr(string_at(json, "chat_template"), "<|assistant|>"));
    assert_true(json_is_object(at_path(json, "default_generation_settings.params")));
}

CASE(a_running_choice_takes_a_slot) {
    const json_t *json = answered(native_slots, "", 200);
    assert_int_equal(json_array_size(json), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(number_at(json_array_get(json, i), "id"), i);
        expect_json(json_array_get(json, i), "is_processing", "false");
    }
    struct call *call = prepared("{'prompt':'Hi','n_cmpl':2,'n_predict':5}");
    call_state_set(call, CALL_RUNNING);
    call->generation->stream = calloc(1, sizeof *call->generation->stream);
    call->generation->choice[1].ended = true;
    json = answered(native_slots, "", 200);
    assert_int_equal(json_array_size(json), 4);
    expect_rows(json, {"0.is_processing", "true"}, {"0.params.n_predict", "5"},
                {"1.is_processing", "false"}); // a choice that ended has no slot
    server.calls = NULL;
}

TEST_PROGRAM(native) { return cases_run(open_server, close_server); }
