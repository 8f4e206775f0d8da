// Calls that a model writes before it has closed its reasoning, over HTTP with a real engine: the
// call has the shape that was asked for, the answer ends, and every route tells the reasoning from
// the call. The model is a reference model that has Gemma 4's mark of a call as a special token.
// label: threads
static const char *model_path(void);
#define SERVE_MODEL model_path()
#define SERVE_TURN  "{% if tools %}{# <|tool_call> #}{% endif %}<|channel>thought\n"
#include "data_file.h"
#include "gguf_copy.h"
#include "json_at.h"
#include "serve.h"
#include "tensor_bytes.h"

enum { MARK_ID = 510 }; // the result of the last merge

static struct data_folder folder;
static char path[DATA_PATH_BYTES];

static const char *model_path(void) { return path; }

// The array without its last merge, with the mark as a control token.
static void array_put(struct writer *writer, const struct meta_view *meta) {
    struct meta_cursor cursor;
    const char *text;
    size_t len;
    int32_t types[MARK_ID + 2];
    if (strcmp(meta->key, "tokenizer.ggml.token_type") == 0) {
        memcpy(types, meta->data, sizeof types);
        types[MARK_ID] = 3;
        writer_kv_i32_array(writer, meta->key, types, meta->count);
        return;
    }
    const bool is_merges = strcmp(meta->key, "tokenizer.ggml.merges") == 0;
    const uint64_t n = meta->count - is_merges;
    assert_true(meta_strings_begin(meta, &cursor));
    writer_kv_array(writer, meta->key, WRITER_STRING, n);
    for (uint64_t i = 0; i < n && meta_strings_next(&cursor, &text, &len); i++) {
        const bool is_mark = !is_merges && i == MARK_ID;
        writer_put_string(&writer->kv, is_mark ? "<|tool_call>" : text, is_mark ? 12 : len);
    }
}

static void model_write(void) {
    struct writer writer = writer_begin(3);
    struct weights *from;
    size_t size;
    assert_int_equal(weights_open(TEST_DATA "/golden/llama/model.gguf", &from, NULL), RN_OK);
    for (int i = 0; i < weights_meta_count(from); i++) {
        const struct meta_view *meta = weights_meta_at(from, i);
        if (meta->type == META_ARRAY)
            array_put(&writer, meta);
        else
            writer_kv_copy(&writer, meta);
    }
    for (int i = 0; i < weights_tensor_count(from); i++) {
        const struct tensor_view brought = tensor_brought(from, i), *t = &brought;
        uint64_t dims[WEIGHTS_MAX_DIMS];
        for (int d = 0; d < t->n_dims; d++) dims[d] = (uint64_t)t->dim[d];
        writer_tensor(&writer, t->name, (uint32_t)t->n_dims, dims, 0, t->data, t->bytes);
    }
    weights_close(from);
    uint8_t *image = writer_finish(&writer, &size);
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    data_file_write(folder.path, "model.gguf", image, size);
    free(image);
}

static int start(void **state) {
    folder = data_folder_make();
    model_write();
    return serve_setup(state);
}

static int stop(void **state) {
    json_kept_free();
    const int failed = serve_teardown(state);
    data_folder_remove(&folder);
    return failed;
}

// ---------------------------------------------------------------- requests

#define HOW(seed) "'temperature':1,'logit_bias':{'510':6},'seed':" seed
#define SAID      "'messages':[{'role':'user','content':'a'}]"
#define SCHEMA                                                                                     \
    "{'type':'object','properties':{'a':{'enum':['x','y']}},'required':['a'],"                     \
    "'additionalProperties':false}"
#define FUNCTION "'name':'f','strict':true,'parameters':" SCHEMA
#define TOOLS    "'tools':[{'type':'function','function':{" FUNCTION "}}]"

static const json_t *ask(const struct serve *serve, const char *to, const char *body) {
    char *quoted = json_quoted(body);
    struct reply reply = serve_finish(serve_ask(serve, "HTTP/1.0", to, quoted, false));
    free(quoted);
    check(reply.status == 200, "%s: %.400s", body, reply.data);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return json;
}

static void check_arguments(const json_t *arguments) {
    const char *a = string_at(arguments, "a");
    check(!strcmp(a, "x") || !strcmp(a, "y"), "%s", a);
}

static void check_text(const json_t *answer, const char *at) {
    const char *text = string_at(answer, at);
    check_arguments(json_of(text, strlen(text)));
}

// The budget is spent within the call: it does not cut it.
CASE(a_call_in_the_reasoning_has_its_shape) {
    static const char *const choices[] = {
        "'tool_choice':'required','parallel_tool_calls':false",
        "'tool_choice':{'type':'function','function':{'name':'f'}}",
        "'tool_choice':'auto','parallel_tool_calls':false",
        "'tool_choice':'required','parallel_tool_calls':false,'thinking_token_budget':14",
    };
    int thoughts = 0;
    for (int i = 0; i < 12; i++) {
        char body[1024];
        snprintf(body, sizeof body, "{" SAID "," TOOLS ",%s,'max_tokens':120," HOW("%d") "}",
                 choices[i % 4], i);
        const json_t *answer = ask(*state, "/v1/chat/completions", body);
        expect_json(answer, "choices.0.finish_reason", "'tool_calls'");
        expect_json(answer, "choices.0.message.content", "null");
        expect_json(answer, "choices.0.message.tool_calls.0.function.name", "'f'");
        check_text(answer, "choices.0.message.tool_calls.0.function.arguments");
        thoughts += at_path(answer, "choices.0.message.reasoning_content") != NULL;
    }
    check(thoughts > 6, "%d of the answers have a reasoning", thoughts);
}

CASE(every_route_tells_the_reasoning_from_the_call) {
    const json_t *chat =
        ask(*state, "/v1/chat/completions",
            "{" SAID "," TOOLS
            ",'tool_choice':'required','parallel_tool_calls':false,'max_tokens':120," HOW("0") "}");
    const char *thought = string_at(chat, "choices.0.message.reasoning_content");
    assert_true(strlen(thought) > 0);
    const json_t *responses =
        ask(*state, "/v1/responses",
            "{'input':'a','max_output_tokens':120,'tools':[{'type':'function'," FUNCTION
            "}],'tool_choice':'required','parallel_tool_calls':false," HOW("0") "}");
    assert_string_equal(string_at(responses, "output.0.content.0.text"), thought);
    expect_json(responses, "output.1.type", "'function_call'");
    expect_json(responses, "status", "'completed'");
    check_text(responses, "output.1.arguments");
    const json_t *messages =
        ask(*state, "/v1/messages",
            "{" SAID ",'max_tokens':120,'tools':[{'name':'f','input_schema':" SCHEMA
            "}],'tool_choice':{'type':'any','disable_parallel_tool_use':true}," HOW("0") "}");
    assert_string_equal(string_at(messages, "content.0.thinking"), thought);
    expect_json(messages, "content.1.type", "'tool_use'");
    expect_json(messages, "stop_reason", "'tool_use'");
    check_arguments(at_path(messages, "content.1.input"));
    const json_t *ollama =
        ask(*state, "/api/chat",
            "{'stream':false," SAID "," TOOLS
            ",'options':{'num_predict':120,'temperature':1,'seed':0,'logit_bias':{'510':6}}}");
    assert_string_equal(string_at(ollama, "message.thinking"), thought);
    check_arguments(at_path(ollama, "message.tool_calls.0.function.arguments"));
}

// The mark is one token, so a chat's logprobs tell how many come before it.
CASE(a_call_is_no_reasoning_in_the_usage) {
    static const char *const routes[] = {"/v1/responses", "/v1/messages"};
    for (int seed = 0; seed < 6; seed++) {
        char body[1024];
        snprintf(body, sizeof body,
                 "{" SAID "," TOOLS ",'tool_choice':'required','parallel_tool_calls':false,"
                 "'logprobs':true,'max_tokens':120," HOW("%d") "}",
                 seed);
        const json_t *tokens =
            at_path(ask(*state, "/v1/chat/completions", body), "choices.0.logprobs.content");
        int before = 0;
        while (strcmp(string_at(json_array_get(tokens, (size_t)before), "token"), "<|tool_call>"))
            before++;
        snprintf(body, sizeof body,
                 "{'input':'a','max_output_tokens':120,'tools':[{'type':'function'," FUNCTION
                 "}],'tool_choice':'required','parallel_tool_calls':false," HOW("%d") "}",
                 seed);
        assert_int_equal(number_at(ask(*state, routes[0], body),
                                   "usage.output_tokens_details.reasoning_tokens"),
                         before);
        snprintf(body, sizeof body,
                 "{" SAID ",'max_tokens':120,'tools':[{'name':'f','input_schema':" SCHEMA
                 "}],'tool_choice':{'type':'any','disable_parallel_tool_use':true}," HOW("%d") "}",
                 seed);
        assert_int_equal(number_at(ask(*state, routes[1], body),
                                   "usage.output_tokens_details.thinking_tokens"),
                         before);
    }
}

// Logprobs of Responses are those of the message's text and of its end.
static void check_logprobs(const json_t *content) {
    const char *text = string_at(content, "text");
    const json_t *logprobs = at_path(content, "logprobs");
    char joined[512] = "";
    for (size_t i = 0; i < json_array_size(logprobs); i++) {
        const char *token = string_at(json_array_get(logprobs, i), "token");
        snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s", token);
    }
    assert_int_equal(strlen(text), 6);
    check(!strncmp(joined, text, 6), "the tokens of '%s': '%s'", text, joined);
    check(!strchr(joined + 6, ':'), "the tokens of '%s': '%s'", text, joined);
}

CASE(logprobs_of_a_message_have_no_marks_and_no_calls) {
    static const char body[] =
        "'input':'a','max_output_tokens':160,'temperature':1,'thinking_token_budget':3,'seed':1,"
        "'include':['message.output_text.logprobs'],'tools':[{'type':'function'," FUNCTION "}],"
        "'structured_outputs':{'regex':'[a-z]{6}<\\\\|tool_call>call:f\\\\{a:1\\\\}"
        "<tool_call\\\\|>'}";
    char request[1024];
    snprintf(request, sizeof request, "{%s}", body);
    const json_t *answer = ask(*state, "/v1/responses", request);
    expect_rows(answer, {"output.0.type", "'reasoning'"}, {"output.1.type", "'message'"},
                {"output.2.type", "'function_call'"});
    check_logprobs(at_path(answer, "output.1.content.0"));
    snprintf(request, sizeof request, "{'stream':true,%s}", body);
    char *quoted = json_quoted(request);
    struct reply reply =
        serve_finish(serve_ask(*state, "HTTP/1.0", "/v1/responses", quoted, false));
    const char *last = strstr(reply.body, "event: response.completed\ndata: ");
    check(last, "%s", reply.body);
    last = strchr(last, '{');
    answer = json_of(last, strcspn(last, "\n"));
    check_logprobs(at_path(answer, "response.output.1.content.0"));
    reply_free(&reply);
    free(quoted);
}

CASE(a_stream_has_the_pieces_of_the_whole_answer) {
    char *quoted = json_quoted("{" SAID "," TOOLS
                               ",'stream':true,'max_tokens':120,'tool_choice':'required'," HOW(
                                   "0") ",'parallel_tool_calls':false}");
    struct reply reply =
        serve_finish(serve_ask(*state, "HTTP/1.0", "/v1/chat/completions", quoted, false));
    const char *thought = strstr(reply.body, "\"reasoning_content\"");
    const char *call = strstr(reply.body, "\"tool_calls\":[");
    check(thought && call && thought < call, "%s", reply.body);
    check(strstr(reply.body, "\"finish_reason\":\"tool_calls\""), "%s", reply.body);
    check(!strstr(reply.body, "<|tool_call>"), "%s", reply.body);
    reply_free(&reply);
    free(quoted);
}

TEST_PROGRAM(calls_in_reasoning) { return cases_run(start, stop); }
