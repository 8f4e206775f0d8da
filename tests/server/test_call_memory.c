// Every allocation of reading a request, of the reader of answers and of the writers is made to
// fail once. The call is refused with 503, or its answer is marked as failed, or all is as without
// the failure. No text is lost, and nothing leaks.
#include "calls.h"

#include <time.h>

#include "chat_messages.h"
#include "failing_malloc.h"
#include "tool_shapes.h"
#include "turns.h"

static int setup(void **state) {
    tzset(); // the memory of the C library's time zone is not a handler's
    return server_open(state, PLAIN_TEMPLATE);
}

// ---------------------------------------------------------------- requests

// Reading the conversation alone: rendering it has tests of its own. Results are complete.
static void conversation_read(struct call *call) {
    struct chat_messages chat;
    if (!chat_messages_read(call, call_json(call), &chat)) return;
    const long rest = fail_at;
    fail_at = -1;
    for (size_t i = 0; i < 4; i++) {
        const json_t *one = json_array_get(chat.messages, i);
        check(json_object_size(one) == (i == 2 ? 3 : 2), "message %zu is not whole", i);
    }
    assert_int_equal(json_object_size(chat.variables), 2);
    chat_messages_deinit(&chat);
    fail_at = rest;
}

static void parameters_read(struct call *call) {
    struct params params;
    if (!params_read(call, call_json(call), FAMILY_CHAT, &params)) return;
    assert_true(params.sampling.n_logit_bias == 2 && params.n_stop == 2);
}

// The shape of an answer with tools, up to its source: what is compiled is kept by the model.
static void shapes_read(struct call *call) {
    struct shape shape;
    struct tool_choice choice;
    struct jbuf source = {0};
    size_t index;
    const json_t *body = call_json(call);
    if (!shape_read(call, body, FAMILY_CHAT, &shape)) return;
    if (tool_choice_read(call, body, FAMILY_CHAT, &choice)) {
        const struct tool_shape wish = {&served.marks, "<function=", json_object_get(body, "tools"),
                                        &choice, &shape};
        assert_true(tool_shape_put(&wish, &source, &index));
        if (source.failed) call_refuse(call, 503, NULL, "out_of_memory", "out of memory");
        tool_choice_deinit(&choice);
    }
    shape_deinit(&shape);
    jbuf_deinit(&source);
}

struct request {
    call_handler handler;
    enum call_api api;
    int refused_min;
    const char *body;
};

#define MESSAGES_BODY                                                                              \
    "{'max_tokens':9,'stream':true,'system':'be kind','messages':[{'role':'user','content':'w?'}," \
    "{'role':'assistant','content':[{'type':'thinking','thinking':'hm'},{'type':'tool_use',"       \
    "'id':'t','name':'get','input':{'x':1}}]},{'role':'user','content':[{'type':'tool_result',"    \
    "'tool_use_id':'t','content':'sun'},{'type':'text','text':'go'}]}],"                           \
    "'thinking':{'type':'disabled'},'tools':[{'name':'get','description':'d','input_schema':{}}]}"
#define RESPONSES_BODY                                                                             \
    "{'stream':true,'instructions':'be kind','input':[{'role':'user','content':'w?'},{'type':"     \
    "'reasoning','content':[{'type':'reasoning_text','text':'hm'}]},{'type':'function_call',"      \
    "'call_id':'c','name':'get','arguments':'{}'},{'type':'function_call_output','call_id':'c',"   \
    "'output':'sun'}],'metadata':{'k':'v'},'tools':[{'type':'function','name':'get'}]}"

static const struct request requests[] = {
    {conversation_read, API_OPENAI, 6,
     "{'messages':[{'role':'system','content':[{'type':'text','text':'Be'},{'type':'text','text':'"
     "brief'}]},{'role':'user','content':'Hi'},{'role':'assistant','content':null,'tool_calls':[{'"
     "id':'1','type':'function','function':{'name':'f','arguments':'{\\\"a\\\":1}'}}]},{'role':'"
     "user','content':'x'}],'tools':[{'type':'function','function':{'name':'f'}}],'chat_template_"
     "kwargs':{'x':1},'reasoning_effort':'low','stream':true,'n':2}"},
    {parameters_read, API_OPENAI, 6,
     "{'logit_bias':[['a',2],[3,false]],'response_format':{'type':'text'},'tool_choice':'auto','"
     "modalities':['text'],'min_tokens':0,'stop':['a','b'],'stream_options':{'include_usage':true},"
     "'dry_sequence_breakers':['x']}"},
    {chat_prepare, API_OPENAI, 20,
     "{'messages':[{'role':'user','content':'Hi'}],'tools':[{'type':'function','function':{'name':'"
     "f','parameters':{'properties':{'a':{'type':'string'},'b':{'type':'integer'}}}}}]}"},
    {shapes_read, API_OPENAI, 8,
     "{'guided_choice':['a','b'],'tools':[{'type':'function','function':{'name':'f','strict':true,"
     "'parameters':{'properties':{'a':{'type':'string'},'b':{'type':'integer'}}}}}]}"},
    {completions_prepare, API_OPENAI, 6, "{'prompt':['Once',[1,2,3],''],'echo':true,'n':2}"},
    {embeddings_prepare, API_OPENAI, 6, "{'input':['Once',[1,2,3]]}"},
    {responses_prepare, API_OPENAI, 20, RESPONSES_BODY},
    {messages_prepare, API_ANTHROPIC, 20, MESSAGES_BODY},
    {messages_prepare, API_ANTHROPIC, 20,
     "{'max_tokens':9,'thread':{'type':'create'},'system':'s','messages':[{'role':'user','content':"
     "[{'type':'document','title':'t','source':{'type':'text','data':'a'}}]}]}"},
    {responses_count, API_OPENAI, 20, "{'input':'hi'}"},
    {messages_count, API_ANTHROPIC, 20, "{'messages':[{'role':'user','content':'hi'}]}"},
    {ollama_chat, API_OLLAMA, 20,
     "{'messages':[{'role':'user','content':'w?'},{'role':'assistant','thinking':'hm'},{'role':'"
     "user','content':'Hi'}],'format':'','options':{'stop':['a']},'think':false}"},
    {ollama_generate, API_OLLAMA, 20, "{'prompt':'Hi','system':'be kind','context':[1,2,3]}"},
    {ollama_embed, API_OLLAMA, 5, "{'input':['Once','upon']}"},
    {ollama_show, API_OLLAMA, 2, "{'model':'tale'}"},
    {tokens_tokenize, API_OPENAI, 2, "{'content':['Once upon',3,' a time'],'with_pieces':true}"},
    {tokens_tokenize, API_OPENAI, 2, "{'prompt':'Once upon a time','return_token_strs':true}"},
    {tokens_detokenize, API_OPENAI, 2, "{'tokens':[43,76,3,131,106]}"},
    {native_prepare, API_OPENAI, 2, "{'prompt':['Once',[3,'x'],{'prompt_string':'y'}],'n_cmpl':2}"},
    {native_props, API_OPENAI, 2, "{}"},
    {models_list, API_OPENAI, 1, "{}"},
    {chat_count, API_OPENAI, 20, "{'messages':[{'role':'user','content':'Hi'}]}"},
    {chat_prepare, API_OPENAI, 6,
     "{'messages':[{'role':'user','content':'Hi'}],'return_token_ids':true,'kv_transfer_params':{'"
     "prompt_token_ids':[43,76,3]}}"},
    {derender_chat, API_OPENAI, 20,
     "{'generate_response':{'request_id':'a','choices':[{'token_ids':[43,76,3],'finish_reason':'"
     "stop','stop_reason':"
     "'x','logprobs':{'content':[{'token':'token_id:43','logprob':-1,'top_logprobs':[{'token':'"
     "token_id:5','logprob':-2}]}]}}],'prompt_logprobs':[null]},'chat_request':{'messages':[{'role'"
     ":'user','content':'Hi'}]}}"},
    {derender_completions, API_OPENAI, 6,
     "{'generate_responses':[{'request_id':'a','choices':[{'token_ids':[43]},{'token_ids':[76]}]}],"
     "'prompt_tokens':[3]}"},
};

CASE(each_failed_allocation_of_a_handler_is_a_503_and_leaks_nothing) {
    const struct answer_marks marks = served.marks;
    served.marks = answer_marks_of("<function="); // which needs the types of parameters
    server.turns = turns_create(4, 1 << 20);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const long before = live;
        int refused = 0;
        bool failed = true;
        route.api = requests[i].api;
        for (long at = 0; failed; at++) {
            struct call *call = call_make(requests[i].body);
            // the body's own parsing is not tested here: jansson takes some failures for bad syntax
            assert_non_null(call_json(call));
            fail_at = at;
            handle(requests[i].handler, call);
            failed = fail_at < 0;
            fail_at = -1;
            check(call->status < 400 || (failed && call->status == 503),
                  "%s, allocation %ld: status %d, %.*s", requests[i].body, at, call->status,
                  (int)call->out.len, call->out.data);
            refused += call->status == 503;
            call_free(call);
            check(live == before, "allocation %ld: %ld blocks leak", at, live - before);
        }
        check(refused >= requests[i].refused_min, "%s: %d failed", requests[i].body, refused);
    }
    served.marks = marks;
    turns_destroy(server.turns);
    server.turns = NULL;
}

// ---------------------------------------------------------------- answers

// The text is longer than a buffer's first memory.
static const struct piece pieces[] = {
    {PART_CONTENT,
     "a text that is long enough to let the buffers of this answer grow more than once, which "
     "takes a sentence or two; so this is the second one, and with a third one, that says no more "
     "than the others did, it should be more than two hundred and fifty-six bytes long"},
    {PART_REASONING, "hm"},
    {PART_TOOL, "get"},
    {PART_TOOL_ARGUMENTS, "{}"},
};

#define CHAT "'messages':[{'role':'user','content':'Hi'}]"
static const struct {
    call_handler prepare;
    enum call_api api;
    int n_pieces;
    const char *body;
} answers[] = {
    {completions_prepare, API_OPENAI, 1, "{'prompt':'Once','n':2}"},
    {completions_prepare, API_OPENAI, 1, "{'prompt':'Once','n':2,'stream':true}"},
    {chat_prepare, API_OPENAI, 4, "{" CHAT ",'n':2}"},
    {chat_prepare, API_OPENAI, 4, "{" CHAT ",'n':2,'stream':true}"},
    {native_prepare, API_OPENAI, 1, "{'prompt':'Once'}"},
    {native_prepare, API_OPENAI, 1, "{'prompt':'Once','stream':true}"},
    {native_prepare, API_OPENAI, 1,
     "{'prompt':'Once','response_fields':['content','generation_settings/stop']}"},
    {messages_prepare, API_ANTHROPIC, 4, MESSAGES_BODY},
    {responses_prepare, API_OPENAI, 4, RESPONSES_BODY},
    {ollama_chat, API_OLLAMA, 4, "{" CHAT "}"},
    {ollama_generate, API_OLLAMA, 1, "{'prompt':'Once','stream':false}"},
};

// A call whose choices have all that the I/O thread keeps for them: a call of a tool, and the text
// of an answer that is no stream.
static struct call *answer_make(size_t i) {
    route.api = answers[i].api;
    struct call *call = call_make(answers[i].body);
    handle(answers[i].prepare, call);
    choices_make(call);
    for (int c = 0; c < call->generation->n_choices; c++) {
        struct generation_choice *choice = &call->generation->choice[c];
        choice->finish = RN_FINISH_STOP;
        choice->tool = grown(NULL, 1, sizeof *choice->tool);
        *choice->tool = (struct tool_call){.id = "call_0"};
        choice->n_tools = answers[i].n_pieces > 1;
        if (choice->n_tools) jbuf_text(&choice->tool->name, "get");
        if (!call->generation->params.stream) jbuf_text(&choice->text, pieces[0].text);
    }
    return call;
}

static void answer_write(struct call *call, int n_pieces) {
    const struct generation *generation = call->generation;
    const struct writer *writer = generation->writer;
    answer_begin(call);
    for (int c = 0; generation->params.stream && c < generation->n_choices; c++) {
        struct generation_choice *choice = &generation->choice[c];
        for (int i = 0; i < n_pieces; i++)
            writer->delta(call, &(struct delta){choice, pieces[i].part, 0, pieces[i].text,
                                                strlen(pieces[i].text)});
        writer->choice_end(call, choice);
    }
    generation_write_end(call);
    call_fill(call, SIZE_MAX);
}

CASE(lost_memory_of_an_answer_is_remembered) {
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        size_t want_len = 0;
        const long before = live;
        bool failed = true;
        long at = -1; // first without a failure
        for (; failed; at++) {
            struct call *call = answer_make(i);
            fail_at = at;
            answer_write(call, answers[i].n_pieces);
            failed = at < 0 || fail_at < 0;
            fail_at = -1;
            if (at < 0) want_len = call->out.len;
            check(call->out.failed ? at >= 0 && failed : call->out.len == want_len,
                  "%s, allocation %ld: %zu bytes instead of %zu", answers[i].body, at,
                  call->out.len, want_len);
            call_free(call);
            check(live == before, "allocation %ld: %ld blocks leak", at, live - before);
        }
        check(at > 2, "%s: %ld allocations", answers[i].body, at);
    }
}

// ---------------------------------------------------------------- the reader of answers

struct seen {
    char content[4096];
    size_t len;
    int n_calls;
};

static void on_part(void *ctx, enum answer_part part, int tool, const char *text, size_t len) {
    struct seen *seen = ctx;
    seen->n_calls += part == PART_TOOL;
    if (part != PART_CONTENT) return;
    memcpy(seen->content + seen->len, text, len);
    seen->len += len;
}

// A call whose value is long: `before`, many bytes, `after`.
static void expect_content(const char *source, const char *open, const char *close, int n_calls) {
    char text[2048];
    snprintf(text, sizeof text, "%s", open);
    memset(text + strlen(open), 'x', 1500);
    snprintf(text + strlen(open) + 1500, sizeof text - strlen(open) - 1500, "%s", close);
    const size_t len = strlen(text);
    long n = 0;
    for (bool failed = true; failed; n++) {
        struct seen seen = {.len = 0};
        struct answer_parts parts;
        const long before = live;
        fail_at = n;
        parts_init(&parts, answer_marks_of(source), true, NULL, false);
        for (size_t at = 0; at < len; at += 7)
            parts_feed(&parts, text + at, at + 7 < len ? 7 : len - at, false, on_part, &seen);
        parts_feed(&parts, "", 0, true, on_part, &seen);
        parts_deinit(&parts);
        failed = fail_at < 0;
        fail_at = -1;
        check(seen.n_calls == (failed ? 0 : n_calls), "%s, allocation %ld: %d calls", source, n,
              seen.n_calls);
        const size_t mark = strlen("<|tool_call_end|>"); // dropped, or content behind the call
        check(!failed || (seen.len >= len - mark && !memcmp(seen.content, text, seen.len)),
              "%s, allocation %ld: %zu of %zu bytes", source, n, seen.len, len);
        check(live == before, "allocation %ld: %ld blocks are lost", n, live - before);
    }
    check(n > 3, "%s: %ld allocations", source, n); // or nothing was tested
}

CASE(without_memory_all_is_content) {
    expect_content("<function=", "<tool_call><function=f><parameter=a>",
                   "</parameter></function></tool_call>", 1);
    expect_content("<|tool_call_start|>", "<|tool_call_start|>[f(a='x'), g(a='",
                   "'), h(b=[\"y\"])]<|tool_call_end|>", 3);
    expect_content("<tool_call>", "<tool_call>{'name': 'f', 'arguments': {'a': '",
                   "'}}</tool_call>", 1);
}

TEST_PROGRAM(call_memory) { return cases_run(setup, close_server); }
