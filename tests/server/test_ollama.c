// Ollama's API: requests that are read, and answers that are written, without a connection and
// without an engine.
#include "calls.h"

#include "ollama.h"

// A template that thinks, in marks that are known.
#define THINKING_TEMPLATE                                                                          \
    "{% for m in messages %}<{{ m.role }}{% if m.name %}:{{ m.name }}{% endif %}>"                 \
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"              \
    "{{ m.content }}\n{% endfor %}{% if tools %}{{ tools }}{% endif %}"                            \
    "{% if add_generation_prompt %}<assistant>"                                                    \
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"           \
    "{% endif %}{% if reasoning_effort %}{{ reasoning_effort }}{% endif %}{% endif %}"

static int setup(void **state) {
    const int failed = server_open(state, THINKING_TEMPLATE);
    route.api = API_OLLAMA;
    server.served = &served;
    server.n_served = 1;
    return failed;
}

static void refusal_expect(call_handler handler, const char *body, int status, const char *part) {
    const char *message = string_at(answered(handler, body, status), "error");
    char *quoted = json_quoted(part);
    check(message && (strstr(message, part) || strstr(message, quoted)), "%.200s: '%s' lacks '%s'",
          body, message, quoted);
    free(quoted);
}

#define MESSAGES "'messages':[{'role':'user','content':'hi'}]"

// ---------------------------------------------------------------- requests

// The text that the prompt of a call stands for.
static void prompt_expect(const struct call *call, const char *expected) {
    char *text = NULL;
    size_t len;
    check(call->generation && call->generation->n_prompts == 1, "%.*s", (int)call->out.len,
          call->out.data ? call->out.data : "");
    const struct generation_prompt *prompt = &call->generation->prompt[0];
    assert_int_equal(rn_detokenize(model, prompt->ids, prompt->n_ids, true, &text, &len, NULL), 0);
    check(strstr(text, expected), "'%s' lacks '%s'", text, expected);
    rn_free(text);
}

CASE(messages_become_those_of_templates) {
    static const char *const cases[][2] = {
        {"{" MESSAGES "}", "<user>hi\n<assistant>"},
        {"{'messages':[{'role':'system','content':'be kind'},{'role':'user','content':'hi'},{"
         "'role':'assistant','content':'yes','thinking':'hm'},{'role':'tool','tool_name':'get',"
         "'content':'sun'},{'role':'user','content':'so'}]}",
         "<system>be kind\n<user>hi\n<assistant><think>hm</think>yes\n<tool:get>sun\n<user>so\n"},
        {"{'messages':[{'role':'assistant','tool_calls':[{'function':{'name':'get','arguments':{"
         "'x':1}}}]},{'role':'user','content':'so','images':[]}]}",
         "<assistant>\n<user>so\n"},
        {"{" MESSAGES ",'think':false}", "<assistant><think>"},
        {"{" MESSAGES ",'think':'low'}", "<assistant>low"},
        {"{" MESSAGES ",'think':true,'chat_template_kwargs':{'reasoning_effort':'much'}}",
         "<assistant>much"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        prompt_expect(call_prepared(ollama_chat, cases[i][0]), cases[i][1]);
}

CASE(a_prompt_is_a_turn_or_a_text_as_it_is) {
    prompt_expect(call_prepared(ollama_generate, "{'prompt':'hi','system':'be kind'}"),
                  "<system>be kind\n<user>hi\n<assistant>");
    const struct call *raw = call_prepared(ollama_generate, "{'prompt':'hi','raw':true}");
    prompt_expect(raw, "hi");
    assert_false(raw->generation->keep_tokens);
    const struct call *after = call_prepared(ollama_generate, "{'prompt':'hi','context':[5,6,7]}");
    const struct generation_prompt *prompt = &after->generation->prompt[0];
    assert_true(prompt->n_ids > 3 && prompt->ids[0] == 5 && prompt->ids[2] == 7);
    assert_true(prompt->ids[3] != rn_token_bos(model) && after->generation->keep_tokens);
}

CASE(options_are_the_samplings_fields) {
    const struct call *call = call_prepared(
        ollama_chat,
        "{" MESSAGES ",'temperature':9,'options':{'temperature':0.5,'top_k':40,'top_p':0.25,"
        "'min_p':0.125,'repeat_penalty':1.5,'repeat_last_n':33,'presence_penalty':1,"
        "'frequency_penalty':0.5,'typical_p':0.75,'seed':-1,'num_predict':12,'stop':['a','b'],"
        "'num_ctx':4096,'num_keep':4,'mirostat':0,'mirostat_tau':5,'tfs_z':1.0,'num_gpu':1,"
        "'use_mmap':true,'numa':false,'penalize_newline':true,'draft_num_predict':0}}");
    const struct params *params = &call->generation->params;
    const rn_sampling *sampling = &params->sampling;
    assert_true(params->stream); // unless it says otherwise
    assert_true(sampling->temperature == 0.5f && sampling->top_k == 40 &&
                sampling->top_p == 0.25f && sampling->min_p == 0.125f);
    assert_true(sampling->repetition_penalty == 1.5f && sampling->repeat_last_n == 33 &&
                sampling->presence_penalty == 1 && sampling->frequency_penalty == 0.5f &&
                sampling->typical_p == 0.75f && !sampling->has_seed);
    assert_true(params->max_tokens == 12 && params->n_stop == 2 && params->draft_max == -1);
    const struct call *other =
        call_prepared(ollama_chat,
                      "{" MESSAGES ",'stream':false,'options':{'num_predict':-2,'seed':7}}");
    assert_true(!other->generation->params.stream && other->generation->params.max_tokens == -1);
    assert_true(other->generation->params.sampling.has_seed &&
                other->generation->params.sampling.seed == 7);
}

CASE(fields_that_would_change_the_answer_are_refused_by_name) {
    static const char *const chat[][2] = {
        {"{'messages':{}}", "messages: expected an array"},
        {"{'messages':[5]}", "messages[0]: expected an object"},
        {"{'messages':[{'role':'user','content':'x','images':['aGk=']}]}", "messages[0].images: "},
        {"{'messages':[{'role':'king','content':'x'}]}", "messages[0].role: "},
        {"{'messages':[{'role':'user','content':5}]}", "messages[0].content: "},
        {"{" MESSAGES ",'format':'xml'}", "format: expected 'json' or a JSON schema, got 'xml'"},
        {"{" MESSAGES ",'format':5}", "format: "},
        {"{" MESSAGES ",'format':'json','grammar':'root ::= x'}", "grammar: "},
        {"{" MESSAGES ",'think':'some'}", "think: "},
        {"{" MESSAGES ",'think':5}", "think: "},
        {"{" MESSAGES ",'keep_alive':'long'}", "keep_alive: expected seconds or a duration"},
        {"{" MESSAGES ",'keep_alive':true}", "keep_alive: "},
        {"{" MESSAGES ",'options':5}", "options: "},
        {"{" MESSAGES ",'options':{'mirostat':2}}", "options.mirostat: "},
        {"{" MESSAGES ",'options':{'tfs_z':0.5}}", "options.tfs_z: "},
        {"{" MESSAGES ",'options':{'top_p':2}}", "options.top_p: "},
        {"{" MESSAGES ",'options':{'num_predict':-3}}", "options.num_predict: "},
        {"{" MESSAGES ",'logprobs':true,'top_logprobs':21}", "top_logprobs: "},
    };
    static const char *const generate[][2] = {
        {"{'prompt':5}", "prompt: "},
        {"{'prompt':'x','suffix':'y'}", "suffix: "},
        {"{'prompt':'x','template':'y'}", "template: "},
        {"{'prompt':'x','images':['y']}", "images: "},
        {"{'prompt':'x','context':[99999999]}", "context[0]: 99999999 is not a token id"},
        {"{'prompt':'x','context':'y'}", "context: "},
        {"{'prompt':'x','raw':true,'context':[1]}", "raw mode does not support"},
        {"{'prompt':'x','raw':5}", "raw: "},
    };
    for (size_t i = 0; i < sizeof chat / sizeof *chat; i++)
        refusal_expect(ollama_chat, chat[i][0], 400, chat[i][1]);
    for (size_t i = 0; i < sizeof generate / sizeof *generate; i++)
        refusal_expect(ollama_generate, generate[i][0], 400, generate[i][1]);
    refusal_expect(ollama_show, "{'model':'nobody'}", 404, "model 'nobody' not found");
    refusal_expect(ollama_show, "{'name':'nobody'}", 404, "model 'nobody' not found");
    server.config.strict_model = true;
    refusal_expect(ollama_chat, "{'model':'nobody'}", 404, "model 'nobody' not found");
    server.config.strict_model = false;
    refusal_expect(ollama_embed, "{'input':{}}", 400, "input: ");
    refusal_expect(ollama_embed, "{'input':'x','dimensions':3}", 400, "dimensions: ");
    refusal_expect(ollama_chat, "{", 400, "the body is not valid JSON");
}

CASE(durations_are_gos) {
    static const char *const good[] = {"0", "5m", "1h30m", "1.5s", "-1m", "300ms", "10us"};
    static const char *const bad[] = {"", "5", "m", "5 m", "5x", "1h30", "-", "0x5m", "infs"};
    char body[128];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(body, sizeof body, "{" MESSAGES ",'keep_alive':'%s'}", good[i]);
        call_prepared(ollama_chat, body);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(body, sizeof body, "{" MESSAGES ",'keep_alive':'%s'}", bad[i]);
        refusal_expect(ollama_chat, body, 400, "keep_alive: ");
    }
    call_prepared(ollama_chat, "{" MESSAGES ",'keep_alive':-1}");
}

CASE(a_model_without_marks_does_not_think) {
    const struct answer_marks marks = served.marks;
    served.marks = (struct answer_marks){0};
    refusal_expect(ollama_chat, "{" MESSAGES ",'think':true}", 400,
                   "'tale' does not support thinking");
    call_prepared(ollama_chat, "{" MESSAGES ",'think':false}");
    served.marks = marks;
}

CASE(a_template_without_tools_takes_none) {
    const char *source = served.tmpl_source;
    served.tmpl_source = "{{ messages[0].content }}";
    refusal_expect(ollama_chat,
                   "{" MESSAGES ",'tools':[{'type':'function','function':{'name':'f'}}]}", 400,
                   "'tale' does not support tools");
    served.tmpl_source = source;
}

CASE(names_have_the_tag_latest_or_none) {
    static const char *const good[] = {"tale", "tale:latest", "org/third:latest", ""};
    static const char *const bad[] = {"tale:", "tale:late", "tal", "tale:latest:latest", ":latest"};
    char body[128];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(body, sizeof body, "{'model':'%s'}", good[i]);
        answered(ollama_show, body, 200);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(body, sizeof body, "{'name':'%s'}", bad[i]);
        answered(ollama_show, body, 404);
    }
}

// ---------------------------------------------------------------- answers

// The lines of a stream.
static json_t *lines_of(const struct call *call) {
    json_t *lines = json_keep(json_array());
    const char *at = call->out.data, *const end = at + call->out.len;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        check(stop && stop > at, "no line: %.*s", (int)(end - at), at);
        json_array_append(lines, json_of(at, (size_t)(stop - at)));
        at = stop + 1;
    }
    return lines;
}

static const struct piece answer[] = {
    {PART_REASONING, "hm"},       {PART_REASONING, " so"}, {PART_CONTENT, "Yes\n"},
    {PART_CONTENT, ""},           {PART_TOOL, "get"},      {PART_TOOL_ARGUMENTS, "{\"x\":\n"},
    {PART_TOOL_ARGUMENTS, " 1}"}, {PART_TOOL_END, ""},     {PART_TOOL, "now"},
    {PART_TOOL_END, ""},          {PART_TOOL, "odd"},      {PART_TOOL_ARGUMENTS, "[1]"},
    {PART_TOOL_END, ""},
};
enum { N_ANSWER = sizeof answer / sizeof *answer };

#define CALLS                                                                                      \
    "{'id':'call_0','function':{'index':0,'name':'get','arguments':{'x':1}}}",                     \
        "{'id':'call_1','function':{'index':1,'name':'now','arguments':{}}}",                      \
        "{'id':'call_2','function':{'index':2,'name':'odd','arguments':{'arguments':'[1]'}}}"

CASE(a_whole_chat_is_one_object) {
    static const char *const calls[] = {CALLS};
    struct call *call =
        call_prepared(ollama_chat, "{'model':'tale:latest'," MESSAGES ",'stream':false}");
    answer_play(call, answer, N_ANSWER, RN_FINISH_STOP, NULL);
    const json_t *json = answer_of(call);
    expect_json(json, "model", "'tale:latest'");
    expect_json(json, "message.role", "'assistant'");
    expect_json(json, "message.content", "'Yes\\n'");
    expect_json(json, "message.thinking", "'hm so'");
    expect_json(json, "done", "true");
    expect_json(json, "done_reason", "'stop'");
    expect_json(json, "eval_count", "7");
    assert_true(json_is_integer(at_path(json, "total_duration")) &&
                json_integer_value(at_path(json, "eval_duration")) > 0);
    assert_int_equal(json_array_size(at_path(json, "message.tool_calls")), 3);
    for (size_t i = 0; i < 3; i++)
        expect_json(json_array_get(at_path(json, "message.tool_calls"), i), "", calls[i]);
    assert_null(memchr(call->out.data, '\n', call->out.len));
}

CASE(a_stream_has_a_line_for_each_piece_and_each_call) {
    static const char *const want[] = {
        "{'role':'assistant','content':'','thinking':'hm'}",
        "{'role':'assistant','content':'','thinking':' so'}",
        "{'role':'assistant','content':'Yes\\n'}",
    };
    static const char *const calls[] = {CALLS};
    struct call *call = call_prepared(ollama_chat, "{" MESSAGES "}");
    answer_play(call, answer, N_ANSWER, RN_FINISH_LENGTH, NULL);
    const json_t *lines = lines_of(call);
    assert_int_equal(json_array_size(lines), 7);
    for (size_t i = 0; i < 6; i++) {
        const json_t *line = json_array_get(lines, i);
        expect_json(line, "done", "false");
        if (i < 3) expect_json(line, "message", want[i]);
        if (i >= 3)
            expect_json(json_array_get(at_path(line, "message.tool_calls"), 0), "", calls[i - 3]);
    }
    expect_json(json_array_get(lines, 6), "done_reason", "'length'");
    expect_json(json_array_get(lines, 6), "message", "{'role':'assistant','content':''}");
    assert_string_equal(call->generation->writer->type, "application/x-ndjson");
    assert_string_equal(generation_ping(call->generation), " ");
}

CASE(a_call_that_was_cut_is_left_out) {
    static const struct piece cut[] = {{PART_TOOL, "get"}, {PART_TOOL_ARGUMENTS, "{\"x\":"}};
    for (int stream = 0; stream < 2; stream++) {
        struct call *call =
            call_prepared(ollama_chat, stream ? "{" MESSAGES "}" : "{" MESSAGES ",'stream':false}");
        answer_play(call, cut, 2, RN_FINISH_LENGTH, NULL);
        const json_t *json = stream ? json_array_get(lines_of(call), 0) : answer_of(call);
        assert_null(at_path(json, "message.tool_calls"));
        expect_json(json, "done_reason", "'length'");
    }
}

// A stream says what the whole answer says, however its text is cut.
CASE(streams_and_whole_answers_agree) {
    static const struct script scripts[] = {
        {{{PART_REASONING, "a thought"}, {PART_CONTENT, "h\xC3\xA9 said \"no\"\n"}},
         RN_FINISH_STOP,
         NULL},
        {{{PART_CONTENT, "once upon a time"}}, RN_FINISH_LENGTH, NULL},
    };
    for (int i = 0; i < 20; i++) {
        const struct script *script = &scripts[i % 2];
        struct call *call =
            call_prepared(ollama_generate, "{'prompt':'hi','logprobs':true,'top_logprobs':1}");
        struct call *whole =
            call_prepared(ollama_generate,
                          "{'prompt':'hi','logprobs':true,'top_logprobs':1,'stream':false}");
        scripts_tell(call, script, 1);
        scripts_tell(whole, script, 1);
        const json_t *lines = lines_of(call), *line;
        json_t *joined = json_keep(json_object()), *logprobs = json_keep(json_array());
        size_t at;
        json_array_foreach(lines, at, line) {
            string_append(joined, "response", string_at(line, "response"));
            if (at_path(line, "thinking"))
                string_append(joined, "thinking", string_at(line, "thinking"));
            if (at_path(line, "logprobs")) json_array_extend(logprobs, at_path(line, "logprobs"));
        }
        const json_t *json = answer_of(whole), *last = json_array_get(lines, at - 1);
        assert_string_equal(string_at(joined, "response"), string_at(json, "response"));
        if (i % 2 == 0)
            assert_string_equal(string_at(joined, "thinking"), string_at(json, "thinking"));
        check(json_equal(logprobs, at_path(json, "logprobs")), "logprobs");
        check(json_equal(at_path(last, "context"), at_path(json, "context")), "context");
        check(json_array_size(at_path(last, "context")) ==
                  call->generation->prompt[0].n_ids + (size_t)call->generation->choice[0].n_tokens,
              "context");
    }
}

CASE(an_error_ends_a_stream_as_a_line) {
    struct call *call = call_prepared(ollama_chat, "{" MESSAGES "}");
    const struct failure failure = {.status = 503, .message = "The \"device\" was lost"};
    call->generation->writer->error(call, &failure);
    expect_json(json_array_get(lines_of(call), 0), "", "{'error':'The \\'device\\' was lost'}");
}

CASE(a_request_without_a_prompt_is_answered_at_once) {
    static const struct {
        call_handler handler;
        const char *body, *path, *want;
    } cases[] = {{ollama_chat, "{}", "message", "{'role':'assistant','content':''}"},
                 {ollama_chat, "{'messages':[]}", "done_reason", "'load'"},
                 {ollama_generate, "{'prompt':''}", "done_reason", "'load'"},
                 {ollama_generate, "{'model':'other','prompt':null}", "model", "'other'"},
                 {ollama_embed, "{'input':[]}", "embeddings", "[]"},
                 {ollama_embeddings, "{}", "", "{'embedding':[]}"},
                 {ollama_pull, "{'model':'tale','stream':false}", "status", "'success'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_json(answered(cases[i].handler, cases[i].body, 200), cases[i].path, cases[i].want);
    refusal_expect(ollama_pull, "{'model':'llama3'}", 501, "models are files here");
    refusal_expect(ollama_generate, "{'keep_alive':0}", 400, "keep_alive: ");
}

CASE(models_are_listed_with_all_their_names) {
    const json_t *tags = at_path(answered(ollama_tags, "", 200), "models");
    static const char *const names[] = {"tale:latest", "other:latest", "org/third:latest"};
    assert_int_equal(json_array_size(tags), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *tag = json_array_get(tags, i);
        assert_string_equal(string_at(tag, "name"), names[i]);
        assert_string_equal(string_at(tag, "model"), names[i]);
        assert_int_equal(strlen(string_at(tag, "digest")), 64);
        expect_json(tag, "details.families", "['llama']");
    }
    const json_t *running = at_path(answered(ollama_ps, "", 200), "models");
    assert_int_equal(json_array_size(running), 1);
    expect_json(json_array_get(running, 0), "context_length", "256");
    const json_t *shown = answered(ollama_show, "{'name':'tale'}", 200);
    expect_json(shown, "capabilities", "['completion','tools','thinking']");
    assert_string_equal(string_at(shown, "template"), THINKING_TEMPLATE);
}

TEST_PROGRAM(ollama) { return cases_run(setup, close_server); }
