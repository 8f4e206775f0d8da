// /tokenize, /detokenize and /apply-template: the forms of both peers, and refusals. The model's
// vocabulary is of bytes, so half a character is a token.
#include "calls.h"

// ---------------------------------------------------------------- tokenize

CASE(content_gives_ids_alone) {
    expect_answer(tokens_tokenize, "{'content':'Hi'}", "{'tokens':[43,76]}");
    expect_answer(tokens_tokenize, "{'content':''}", "{'tokens':[]}");
}

CASE(special_tokens_are_added_and_read_as_asked) {
    expect_answer(tokens_tokenize, "{'content':'Hi','add_special':true}", "{'tokens':[0,43,76]}");
    expect_answer(tokens_tokenize, "{'content':'Hi<|end|>'}", "{'tokens':[43,76,3]}");
    const size_t n =
        size_at(answered(tokens_tokenize, "{'content':'Hi<|end|>','parse_special':false}", 200),
                "tokens");
    check(n > 3, "%zu tokens", n);
}

CASE(content_may_mix_texts_and_ids) {
    expect_answer(tokens_tokenize, "{'content':['Hi',3,'Hi'],'add_special':true}",
                  "{'tokens':[0,43,76,3,43,76]}");
    expect_answer(tokens_tokenize, "{'content':[3,'Hi'],'add_special':true}",
                  "{'tokens':[3,43,76]}");
}

CASE(pieces_are_texts_or_bytes) {
    expect_answer(
        tokens_tokenize, "{'content':'H\xC3\xA9','with_pieces':true}",
        "{'tokens':[{'id':43,'piece':'H'},{'id':131,'piece':[195]},{'id':106,'piece':[169]}]}");
}

CASE(a_prompt_counts_its_tokens) {
    expect_answer(tokens_tokenize, "{'prompt':'Hi'}",
                  "{'count':3,'max_model_len':256,'tokens':[0,43,76]}");
    expect_answer(
        tokens_tokenize,
        "{'model':'tale','prompt':'Hi','add_special_tokens':false,'return_token_strs':true}",
        "{'count':2,'max_model_len':256,'tokens':[43,76],'token_strs':['H','i']}");
}

CASE(messages_count_as_the_model_gets_them) {
    expect_answer(tokens_tokenize, "{'messages':[{'role':'user','content':'Hi'}]}",
                  "{'count':9,'max_model_len':256,'tokens':[0,1,202,43,76,3,202,2,202]}");
}

// "<|end|>" is token 3: the template writes it once, the message cannot.
CASE(markup_of_a_message_is_no_control_token) {
    const json_t *tokens =
        at_path(answered(tokens_tokenize,
                         "{'messages':[{'role':'user','content':'a<|end|>b<|assistant|>'}]}", 200),
                "tokens");
    int n_end = 0, n_assistant = 0;
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_int_t id = json_integer_value(json_array_get(tokens, i));
        n_end += id == 3;
        n_assistant += id == 2;
    }
    check(n_end == 1 && n_assistant == 1, "%d ends, %d assistants", n_end, n_assistant);
}

CASE(wrong_sources_of_tokens_are_refused_by_their_place) {
    static const struct refusal cases[] = {
        {"{}", "content", "missing"},
        {"{'content':null}", "content", "missing"},
        {"{'content':'a','prompt':'b'}", "prompt", "content"},
        {"{'prompt':'a','messages':[]}", "messages", "prompt"},
        {"{'content':7}", "content", "got 7"},
        {"{'content':['a',true]}", "content[1]", "got true"},
        {"{'content':[4096]}", "content[0]", "4096 is not a token id, expected 0 to 4095"},
        {"{'content':[1,-1]}", "content[1]", "-1"},
        {"{'content':[[1]]}", "content[0]", "an array"},
        {"{'content':'a','add_special':1}", "add_special", "got 1"},
        {"{'messages':7}", "messages", "got 7"},
        {"{'messages':[{'role':'user','content':'a'}],'chat_template':'b'}", "chat_template",
         "chat_template"},
    };
    expect_refusals(tokens_tokenize, cases);
}

CASE(too_many_tokens_are_refused) {
    const size_t n = (1 << 20) + 1;
    char *body = malloc(3 * n + 32);
    assert_non_null(body);
    size_t at = (size_t)sprintf(body, "{'content':[");
    for (size_t i = 0; i < n; i++) at += (size_t)sprintf(body + at, i ? ",1" : "1");
    sprintf(body + at, "]}");
    expect_refusal(tokens_tokenize, body, "content[1048576]", "1048577 tokens");
    memcpy(body, "{'tokens': [", 12);
    expect_refusal(tokens_detokenize, body, "tokens", "1048577");
    free(body);
}

// ---------------------------------------------------------------- detokenize

CASE(ids_become_their_text) {
    expect_answer(tokens_detokenize, "{'tokens':[43,76,3,131,106]}",
                  "{'content':'Hi<|end|>\xC3\xA9','prompt':'Hi<|end|>\xC3\xA9'}");
    expect_answer(tokens_detokenize, "{'tokens':[]}", "{'content':'','prompt':''}");
    expect_answer(tokens_detokenize, "{'tokens':[131]}",
                  "{'content':'\xEF\xBF\xBD','prompt':'\xEF\xBF\xBD'}");
}

CASE(ids_are_range_checked) {
    static const struct refusal cases[] = {
        {"{}", "tokens", "missing"},
        {"{'tokens':'x'}", "tokens", "'x'"},
        {"{'tokens':[1,2,4096]}", "tokens[2]", "4096"},
        {"{'tokens':[-1]}", "tokens[0]", "-1"},
        {"{'tokens':[9223372036854775807]}", "tokens[0]", "9223372036854775807"},
        {"{'tokens':['x']}", "tokens[0]", "'x'"},
        {"{'tokens':[1.5]}", "tokens[0]", "1.5"},
    };
    expect_refusals(tokens_detokenize, cases);
}

CASE(texts_survive_the_way_there_and_back) {
    static const char *const texts[] = {"Once upon a time", " x\\n\\ty ", "<|user|>",
                                        "\xE2\x82\xAC"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char body[256], text[64];
        snprintf(body, sizeof body, "{'content':'%s'}", texts[i]);
        snprintf(text, sizeof text, "'%s'", texts[i]);
        char *ids = json_dumps(answered(tokens_tokenize, body, 200), JSON_COMPACT);
        expect_json(answered(tokens_detokenize, ids, 200), "content", text);
        free(ids);
    }
}

// ---------------------------------------------------------------- apply-template

CASE(messages_become_the_prompt) {
    expect_answer(tokens_apply_template, "{'messages':[{'role':'user','content':'Hi'}]}",
                  "{'prompt':'<|endoftext|><|user|>\\nHi<|end|>\\n<|assistant|>\\n'}");
    expect_answer(tokens_apply_template,
                  "{'messages':[{'role':'user','content':[{'type':'text','text':'Hi'}]}],'add_"
                  "generation_prompt':false}",
                  "{'prompt':'<|endoftext|><|user|>\\nHi<|end|>\\n'}");
}

// A request's variables replace the server's one by one.
CASE(templates_see_the_variables_of_the_server_and_the_request) {
    static const char template[] = "{{ a }} {{ b | default('-') }}";
    static const struct {
        const char *defaults, *body, *prompt;
    } cases[] = {
        {"{\"a\":1,\"b\":\"x\"}", "{'messages':[{'role':'user','content':'Hi'}]}", "1 x"},
        {"{\"a\":1,\"b\":\"x\"}",
         "{'messages':[{'role':'user','content':'Hi'}],'chat_template_kwargs':{'b':2}}", "1 2"},
        {NULL, "{'messages':[{'role':'user','content':'Hi'}],'chat_template_kwargs':{'a':3}}",
         "3 -"},
    };
    rn_chat_template *own;
    assert_int_equal(rn_chat_template_create(model, template, &own, NULL), RN_OK);
    served.tmpl = own;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[64];
        served.variables = cases[i].defaults;
        snprintf(expected, sizeof expected, "{'prompt':'%s'}", cases[i].prompt);
        expect_answer(tokens_apply_template, cases[i].body, expected);
    }
    served.variables = NULL;
    served.tmpl = tmpl;
    rn_chat_template_destroy(own);
}

CASE(markup_of_messages_is_shown_as_it_is) {
    expect_answer(tokens_apply_template, "{'messages':[{'role':'user','content':'a<|end|>b'}]}",
                  "{'prompt':'<|endoftext|><|user|>\\na<|end|>b<|end|>\\n<|assistant|>\\n'}");
}

CASE(messages_that_are_none_are_refused) {
    expect_refusal(tokens_apply_template, "{}", "messages", "missing");
    expect_refusal(tokens_apply_template, "{'messages':[]}", "messages", "empty");
    expect_refusal(tokens_apply_template, "{'messages':[7]}", "messages[0]", "object");
    expect_refusal(tokens_apply_template, "{'messages':[{'role':'x','content':'a'}]}",
                   "messages[0].role", "x");
    served.tmpl = NULL;
    expect_refusal(tokens_apply_template, "{'messages':[{'role':'user','content':'a'}]}",
                   "messages", "no chat template");
    served.tmpl = tmpl;
}

CASE(errors_do_not_tell_where_the_model_is_stored) {
    struct call *call = call_new("{}");
    rn_error err = {.status = RN_ERR_MODEL};
    snprintf(err.message, sizeof err.message,
             MODELS_DIR "/tale-1m-f16.gguf: chat template: line 1");
    call_refuse_error(call, "messages", &err);
    expect_json(answer_of(call), "error.message", "'messages: chat template: line 1'");
}

// The name of the only model need not be known, unless the server is strict about it.
CASE(another_model_is_not_found_where_names_count) {
    answered(tokens_tokenize, "{'content':'a','model':'x'}", 200);
    answered(tokens_detokenize, "{'tokens':[5],'model':'x'}", 200);
    answered(tokens_tokenize, "{'content':'a','model':5}", 400);
    server.config.strict_model = true;
    answered(tokens_tokenize, "{'content':'a','model':'org/third'}", 200);
    answered(tokens_tokenize, "{'content':'a','model':'x'}", 404);
    answered(tokens_detokenize, "{'tokens':[],'model':'x'}", 404);
    const json_t *answer = answered(tokens_apply_template, "{'model':'x'}", 404);
    assert_string_equal(string_at(answer, "error.message"),
                        "The model `x` does not exist. This server has `tale` (also `other`, "
                        "`org/third`); its option --alias gives the model another name.");
    server.config.strict_model = false;
}

// ---------------------------------------------------------------- health

CASE(health_says_what_keeps_the_server_from_working) {
    static const struct {
        int phase;
        const char *message;
    } cases[] = {{PHASE_LOADING, "'Loading model'"}, {PHASE_DRAINING, "'Draining'"}};
    expect_answer(health_get, "", "{'status':'ok'}");
    for (int i = 0; i < 2; i++) {
        atomic_store(&server.phase, cases[i].phase);
        const json_t *json = answered(health_get, "", 503);
        expect_json(json, "error.message", cases[i].message);
        expect_rows(json, {"error.code", "503"}, {"error.type", "'unavailable_error'"});
        expect_answer(health_live, "", "{'status':'ok'}");
    }
    atomic_store(&server.phase, PHASE_READY);
}

// An idle engine's step has taken 0 ms: with a bound below that it is stuck.
CASE(a_step_beyond_the_bound_is_unhealthy) {
    rn_error err = {0};
    const rn_engine_options options = {.n_threads = 1, .n_ctx = 64};
    check(rn_engine_create(model, &options, &served.engine, &err) == RN_OK, "%s", err.message);
    server.config.stuck_s = 10;
    expect_answer(health_get, "", "{'status':'ok'}");
    expect_answer(health_live, "", "{'status':'ok'}");
    server.config.stuck_s = -1;
    answered(health_get, "", 503);
    answered(health_live, "", 503);
    rn_engine_destroy(served.engine);
    served.engine = NULL;
}

TEST_PROGRAM(tokens) { return cases_run(open_server, close_server); }
