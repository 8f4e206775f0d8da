// /v1/chat/completions: accepted conversations and the templates' view of them; the contents of
// streams and whole answers, which must agree.
// label: memory
#include "calls.h"

#include "answer_types.h"
#include "chat_messages.h"
#include "helpers.h"

// ---------------------------------------------------------------- conversations

struct reading {
    const char *body, *messages, *tools, *variables; // tools, variables NULL: none
    bool add, go_on;
};

#define USER    "{\"role\":\"user\",\"content\":\"Hi\"}"
#define TOOL    "{'type':'function','function':{'name':'f','parameters':{'a':1}}}"
#define MSGS(x) "{'messages':[" x "]}"
#define WITH(x) "{'messages':[" USER "]," x "}"
#define SAID(x) "{'role':'assistant','content':'So'" x "}"

static const struct reading readings[] = {
    {MSGS(USER), "[" USER "]", NULL, NULL, true, false},
    {MSGS("{'role':'developer','content':'Be brief'}," USER),
     "[{'role':'system','content':'Be brief'}," USER "]", NULL, NULL, true, false},
    {MSGS("{'role':'user','name':'Ann','content':[{'type':'text','text':'one'},{'type':'input_text'"
          ",'text':'two'}]}"),
     "[{'role':'user','name':'Ann','content':'one\\ntwo'}]", NULL, NULL, true, false},
    {MSGS("{'role':'user','content':'a\\u0000b'},{'role':'user','content':[{'type':'text','text':'"
          "\\u0000'}]}"),
     "[{'role':'user','content':'a\\u0000b'},{'role':'user','content':'\\u0000'}]", NULL, NULL,
     true, false},
    // calls of custom tools are those of functions
    {MSGS("{'role':'assistant','content':'','tool_calls':[{'id':'1','type':'custom','custom':{'"
          "name':'p','input':'a\\u0000b'}}]}"),
     "[{'role':'assistant','content':'','tool_calls':[{'id':'1','type':'function','function':{'"
     "name':'p','arguments':{'input':'a\\u0000b'}}}]}]",
     NULL, NULL, true, false},
    {MSGS("{'role':'user','content':[]}"), "[{'role':'user','content':''}]", NULL, NULL, true,
     false},
    {MSGS("{'role':'assistant','content':[{'type':'refusal','refusal':'No'},{'type':'output_text',"
          "'text':'I'}]}," USER),
     "[{'role':'assistant','content':'No\\nI'}," USER "]", NULL, NULL, true, false},
    {MSGS("{'role':'function','name':'f','content':'3'}"),
     "[{'role':'tool','name':'f','content':'3'}]", NULL, NULL, true, false},
    // ids that a result may have where calls have none, or the result has none
    {MSGS("{'role':'assistant','content':'','tool_calls':[{'function':{'name':'f'}}]},{'role':'"
          "tool','tool_call_id':'x','content':'a'}," USER ",{'role':'tool','content':'b'}"),
     "[{'role':'assistant','content':'','tool_calls':[{'function':{'name':'f','arguments':{}}}]},{'"
     "role':'tool','tool_call_id':'x','content':'a'}," USER ",{'role':'tool','content':'b'}]",
     NULL, NULL, true, false},
    // other members that templates read stay
    {MSGS(SAID(",'reasoning_content':'why','tool_calls':[]") "," USER),
     "[" SAID(",'reasoning_content':'why'") "," USER "]", NULL, NULL, true, false},
    // arguments become an object where they are one
    {MSGS("{'role':'assistant','content':null,'tool_calls':[{'id':'1','type':'function','function':"
          "{'name':'f','arguments':'{\\\"x\\\":[1,null]}'}},{'function':{'name':'g','arguments':''}"
          "},{'function':{'name':'h','arguments':'{broken'}},{'function':{'name':'i','arguments':{'"
          "y':2}}},{'function':{'name':'j'}}]},{'role':'tool','tool_call_id':'1','content':'ok'}"),
     "[{'role':'assistant','content':'','tool_calls':[{'id':'1','type':'function','function':{'"
     "name':'f','arguments':{'x':[1,null]}}},{'function':{'name':'g','arguments':{}}},{'function':{"
     "'name':'h','arguments':'{broken'}},{'function':{'name':'i','arguments':{'y':2}}},{'function':"
     "{'name':'j','arguments':{}}}]},{'role':'tool','tool_call_id':'1','content':'ok'}]",
     NULL, NULL, true, false},
    // tools
    {WITH("'tools':[" TOOL "]"), "[" USER "]", "[" TOOL "]", NULL, true, false},
    {WITH("'tools':[" TOOL "],'tool_choice':'auto'"), "[" USER "]", "[" TOOL "]", NULL, true,
     false},
    {WITH("'tools':[" TOOL "],'tool_choice':'none'"), "[" USER "]", NULL, NULL, true, false},
    {WITH("'tools':[]"), "[" USER "]", NULL, NULL, true, false},
    // the template's variables
    {WITH("'chat_template_kwargs':{'enable_thinking':false},'reasoning_effort':'low'"),
     "[" USER "]", NULL, "{'enable_thinking':false,'reasoning_effort':'low'}", true, false},
    {WITH("'chat_template_kwargs':{'reasoning_effort':1},'reasoning_effort':'low'"), "[" USER "]",
     NULL, "{'reasoning_effort':1}", true, false},
    // how it ends
    {WITH("'add_generation_prompt':false"), "[" USER "]", NULL, NULL, false, false},
    {MSGS(USER "," SAID("")), "[" USER "," SAID("") "]", NULL, NULL, false, true},
    {"{'continue_final_message':true,'messages':[" SAID("") "]}", "[" SAID("") "]", NULL, NULL,
     false, true},
    {"{'add_generation_prompt':false,'messages':[" SAID("") "]}", "[" SAID("") "]", NULL, NULL,
     false, true},
    {"{'add_generation_prompt':true,'messages':[" SAID("") "]}", "[" SAID("") "]", NULL, NULL, true,
     false},
    {"{'continue_final_message':false,'messages':[" SAID("") "]}", "[" SAID("") "]", NULL, NULL,
     true, false},
};

static void expect_part(const json_t *got, const char *want, const char *body) {
    check(!want == !got, "%s: got %s, not %s", body, got ? "one" : "none", want ? want : "none");
    if (want) expect_json(got, "", want);
}

CASE(conversations_become_what_templates_take) {
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
        const struct reading *reading = &readings[i];
        struct call *call = call_new(reading->body);
        struct chat_messages chat;
        const bool ok = chat_messages_read(call, body_of(call), &chat);
        check(ok, "%s: %.*s", reading->body, (int)call->out.len, call->out.data);
        expect_part(chat.messages, reading->messages, reading->body);
        expect_part(chat.tools, reading->tools, reading->body);
        expect_part(chat.variables, reading->variables, reading->body);
        check(chat.add_generation_prompt == reading->add && chat.continue_final == reading->go_on,
              "%s: add %d, continue %d", reading->body, chat.add_generation_prompt,
              chat.continue_final);
        chat_messages_deinit(&chat);
    }
}

static const struct refusal refusals[] = {
    {"{}", "messages", "missing"},
    {"{'messages':null}", "messages", "missing"},
    {"{'messages':[]}", "messages", "empty"},
    {"{'messages':'Hi'}", "messages", "'Hi'"},
    {MSGS("3"), "messages[0]", "got 3"},
    {MSGS(USER ",[1]"), "messages[1]", "got [1]"},
    {MSGS("{'content':'x'}"), "messages[0].role", "missing"},
    {MSGS("{'role':'wizard','content':'x'}"), "messages[0].role", "wizard"},
    {MSGS("{'role':7,'content':'x'}"), "messages[0].role", "7"},
    {MSGS("{'role':'user'}"), "messages[0].content", "missing"},
    {MSGS("{'role':'user','content':null,'tool_calls':[{}]}"), "messages[0].content", "missing"},
    {MSGS("{'role':'assistant','content':null}"), "messages[0].content", "missing"},
    {MSGS("{'role':'user','content':{'a':1}}"), "messages[0].content", "{'a':1}"},
    {MSGS("{'role':'user','content':['x']}"), "messages[0].content[0]", "'x'"},
    {MSGS("{'role':'user','content':[{'text':'x'}]}"), "messages[0].content[0].type", "missing"},
    {MSGS("{'role':'user','content':[{'type':'txt','text':'x'}]}"), "messages[0].content[0].type",
     "expected one of text|input_text|output_text|refusal, got 'txt'"},
    {MSGS("{'role':'user','content':[{'type':'text'}]}"), "messages[0].content[0].text", "missing"},
    {MSGS(USER ",{'role':'user','content':[{'type':'text','text':'x'},{'type':'image_url','image_"
               "url':{'url':'data:'}}]}"),
     "messages[1].content[1].type", "'image_url' is not supported: the model reads text alone"},
    {"{'messages':[" USER "],'functions':[{'name':'f'}]}", "functions",
     "is not supported: use tools"},
    {"{'messages':[" USER "],'function_call':{'name':'f'}}", "function_call", "use tool_choice"},
    {MSGS("{'role':'user','content':[{'type':'input_audio','input_audio':{}}]}"),
     "messages[0].content[0].type", "input_audio"},
    {MSGS("{'role':'user','content':'x','name':1}"), "messages[0].name", "1"},
    {MSGS("{'role':'tool','content':'x','tool_call_id':{}}"), "messages[0].tool_call_id", "{}"},
    {MSGS(USER ",{'role':'tool','content':'x','tool_call_id':'1'}"), "messages[1].role",
     "must be a response to a preceding message"},
    {MSGS(SAID(",'tool_calls':[]") ",{'role':'tool','content':'x'}"), "messages[1].role",
     "must be a response to a preceding message"},
    {MSGS(SAID(",'tool_calls':[{'id':'1','function':{'name':'f'}}]") ",{'role':'tool','content':'x'"
                                                                     ",'tool_call_id':'2'}"),
     "messages[1].tool_call_id", "'2' is the id of no call before this result"},
    {MSGS(SAID(",'function_call':{'name':'f'}")), "messages[0].function_call", "tool_calls"},
    {MSGS(SAID(",'tool_calls':[1]")), "messages[0].tool_calls[0]", "got 1"},
    {MSGS(SAID(",'tool_calls':[{'type':'mcp'}]")), "messages[0].tool_calls[0].type", "mcp"},
    {MSGS(SAID(",'tool_calls':[{'type':'custom'}]")), "messages[0].tool_calls[0].custom",
     "missing"},
    {MSGS(SAID(",'tool_calls':[{'type':'custom','custom':{'name':'p'}}]")),
     "messages[0].tool_calls[0].custom.input", "missing"},
    {MSGS(SAID(",'tool_calls':[{}]")), "messages[0].tool_calls[0].function", "missing"},
    {MSGS(SAID(",'tool_calls':[{'function':{}}]")), "messages[0].tool_calls[0].function.name",
     "missing"},
    {MSGS(SAID(",'tool_calls':[{'function':{'name':'f','arguments':[1]}}]")),
     "messages[0].tool_calls[0].function.arguments", "[1]"},
    {WITH("'tools':{}"), "tools", "{}"},
    {WITH("'tools':[0]"), "tools[0]", "got 0"},
    {WITH("'tools':[{'type':'web_search'}]"), "tools[0].type", "web_search"},
    {WITH("'tools':[{'function':{}}]"), "tools[0].type", "missing"},
    {WITH("'tools':[{'type':'function'}]"), "tools[0].function", "missing"},
    {WITH("'tools':[" TOOL ",{'type':'function','function':{}}]"), "tools[1].function.name",
     "missing"},
    {WITH("'tools':[{'type':'function','function':{'name':''}}]"), "tools[0].function.name",
     "empty"},
    {WITH("'tools':[{'type':'function','function':{'name':'"
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'}}]"),
     "tools[0].function.name", "64"},
    {WITH("'tools':[{'type':'function','function':{'name':'f','parameters':3}}]"),
     "tools[0].function.parameters", "3"},
    {WITH("'chat_template':'{{ messages }}'"), "chat_template", "template"},
    {WITH("'chat_template_kwargs':[]"), "chat_template_kwargs", "[]"},
    {WITH("'chat_template_kwargs':{'tools':1}"), "chat_template_kwargs", "tools"},
    {WITH("'documents':[{'text':'x'}]"), "documents", "chat template takes none"},
    {WITH("'documents':7"), "documents", "7"},
    {WITH("'lora':[{'id':0,'scale':1}]"), "lora", "merge the adapter into the model first"},
    {WITH("'lora_path':'a'"), "lora_path", "merge the adapter into the model first"},
    {WITH("'num_beams':4"), "num_beams", "4 is not supported; 1 is"},
    {WITH("'images':['aGk=']"), "images", "the model reads text alone"},
    {WITH("'tfs_z':0.5"), "tfs_z", "0.5 is not supported; 1 is"},
    {WITH("'reasoning_format':'none'"), "reasoning_format", "'none' is not supported; 'auto' is"},
    {WITH("'add_generation_prompt':1"), "add_generation_prompt", "1"},
    {WITH("'continue_final_message':true"), "continue_final_message", "assistant"},
    {"{'messages':[" SAID("") "],'continue_final_message':true,'add_generation_prompt':true}",
     "continue_final_message", "add_generation_prompt"},
};

CASE(wrong_conversations_are_refused_by_the_name_of_what_is_wrong) {
    expect_refusals(chat_prepare, refusals);
}

static unsigned kinds_asked(const char *source, const char *fields) {
    char body[512];
    snprintf(body, sizeof body, "{'messages':[" USER "]%s}", fields);
    const struct answer_marks marks = served.marks;
    served.marks = answer_marks_of(source);
    struct call *call = call_prepared(chat_prepare, body);
    served.marks = marks;
    const json_t *function = answer_types_function(call->generation->types, "f", 1);
    return answer_types_kinds(function, "zip", 3);
}

CASE(tools_tell_the_types_of_their_parameters) {
    static const char tools[] =
        ",'tools':[{'type':'function','function':{'name':'f','parameters':{'type':'object',"
        "'properties':{'zip':{'type':'string'}}}}}]";
    assert_int_equal(kinds_asked("<function=", tools), 1 << JREAD_STRING);
    assert_int_equal(kinds_asked("<tool_call>", tools), 0); // JSON has types
    assert_int_equal(kinds_asked("<function=", ""), 0);
}

CASE(a_conversation_has_at_most_4096_messages) {
    for (int n = 4096; n <= 4097; n++) {
        struct jbuf body = {0};
        jbuf_text(&body, "{'messages':[");
        for (int i = 0; i < n; i++) jbuf_text(&body, i ? "," USER : USER);
        jbuf_bytes(&body, "]}", 3); // with its NUL
        struct call *call = call_new(body.data);
        struct chat_messages chat;
        assert_int_equal(chat_messages_read(call, body_of(call), &chat), n == 4096);
        if (n == 4096) chat_messages_deinit(&chat);
        jbuf_deinit(&body);
    }
}

// ---------------------------------------------------------------- answers

static const struct script scripts[] = {
    {{{PART_CONTENT, "Once \"upon\" a\n\ttime \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 \\ \x01 end"}},
     RN_FINISH_STOP,
     "STOP\n"},
    {{{PART_REASONING, "Let me think\xE2\x80\xA6"}, {PART_CONTENT, "Three."}},
     RN_FINISH_LENGTH,
     NULL},
    {{{PART_CONTENT, "I call:"},
      {PART_TOOL, "get_weather"},
      {PART_TOOL_ARGUMENTS, "{\"city\":\"K\xC3\xB6ln\"}"},
      {PART_TOOL, "f"},
      {PART_TOOL_ARGUMENTS, "{}"}},
     RN_FINISH_STOP,
     NULL},
    {{{PART_TOOL, "alone"}}, RN_FINISH_STOP, NULL},
    {{{PART_CONTENT, NULL}}, RN_FINISH_STOP, NULL},
};
enum { N_SCRIPTS = sizeof scripts / sizeof *scripts };

static struct call *answer(const char *fields, int n_scripts) {
    char body[512];
    snprintf(body, sizeof body, "{'messages':[" USER "]%s}", fields);
    struct call *call = call_prepared(chat_prepare, body);
    scripts_tell(call, scripts, n_scripts);
    return call;
}

// Puts a delta's tool calls together.
static void tools_join(json_t *message, const json_t *deltas) {
    json_t *tools = json_object_get(message, "tool_calls");
    if (!tools) json_object_set_new(message, "tool_calls", tools = json_array());
    for (size_t i = 0; i < json_array_size(deltas); i++) {
        json_t *delta = json_array_get(deltas, i);
        const size_t index = (size_t)number_at(delta, "index");
        if (index == json_array_size(tools)) {
            expect_keys(delta, "index id type function");
            expect_keys(at_path(delta, "function"), "name arguments");
            json_object_del(delta, "index");
            json_array_append(tools, delta);
        } else {
            expect_keys(delta, "index function");
            expect_keys(at_path(delta, "function"), "arguments");
            assert_true(index < json_array_size(tools));
            string_append(at_path(json_array_get(tools, index), "function"), "arguments",
                          string_at(delta, "function.arguments"));
        }
    }
}

static void delta_join(json_t *choice, const json_t *delta, bool first) {
    json_t *message = json_object_get(choice, "message");
    if (first) {
        expect_json(delta, "", "{'role':'assistant','content':''}");
        return;
    }
    assert_true(json_object_size(delta) <= 1);
    string_append(message, "content", string_at(delta, "content"));
    string_append(message, "reasoning_content", string_at(delta, "reasoning_content"));
    if (at_path(delta, "tool_calls")) tools_join(message, at_path(delta, "tool_calls"));
}

static void chunk_join(json_t *choices, const json_t *chunk) {
    const json_t *part = at_path(chunk, "choices.0");
    const size_t index = (size_t)number_at(part, "index");
    json_t *choice = json_array_get(choices, index);
    const bool first = !json_object_get(choice, "message");
    if (first) json_object_set_new(choice, "message", json_pack("{ss}", "role", "assistant"));
    check(!json_object_get(choice, "finish_reason"), "choice %zu goes on after its end", index);
    delta_join(choice, at_path(part, "delta"), first);
    json_t *logprobs = at_path(part, "logprobs.content");
    if (logprobs) {
        json_t *all = json_object_get(choice, "logprobs");
        if (!all) json_object_set_new(choice, "logprobs", all = json_array());
        json_array_extend(all, logprobs);
    }
    if (json_is_null(at_path(part, "finish_reason"))) {
        expect_keys(part, "index delta logprobs finish_reason");
    } else {
        expect_keys(part, "index delta logprobs finish_reason stop_reason");
        json_object_set(choice, "finish_reason", at_path(part, "finish_reason"));
        json_object_set(choice, "stop_reason", at_path(part, "stop_reason"));
    }
}

// The joined chunks say what the whole answer says.
static void expect_same_choice(const json_t *joined, const json_t *whole) {
    static const char *const paths[][2] = {{"message.reasoning_content", NULL},
                                           {"message.tool_calls", NULL},
                                           {"finish_reason", NULL},
                                           {"stop_reason", NULL},
                                           {"logprobs", "logprobs.content"}};
    const char *a = string_at(joined, "message.content"), *b = string_at(whole, "message.content");
    assert_string_equal(a ? a : "", b ? b : "");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const json_t *x = at_path(joined, paths[i][0]);
        const json_t *y = at_path(whole, paths[i][paths[i][1] != NULL]);
        check(!x == !y && (!x || json_equal(x, y)), "%s differs", paths[i][0]);
    }
}

static json_t *stream_join(const struct call *call, int n_choices) {
    json_t *events = events_of(call, true), *choices = json_keep(json_array());
    for (int i = 0; i < n_choices; i++) json_array_append_new(choices, json_object());
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *chunk = json_array_get(events, i);
        if (size_at(chunk, "choices")) chunk_join(choices, chunk);
    }
    return choices;
}

CASE(a_stream_cut_anywhere_says_what_the_whole_answer_says) {
    static const char *const fields[] = {"", ",'logprobs':true,'top_logprobs':3",
                                         ",'stream_options':{'include_usage':true}",
                                         ",'logprobs':true"};
    for (int round = 0; round < 40; round++) {
        char more[128];
        snprintf(more, sizeof more, ",'n':%d%s", (int)N_SCRIPTS, fields[round % 4]);
        const json_t *body = answer_of(answer(more, N_SCRIPTS));
        strcat(more, ",'stream':true");
        const json_t *joined = stream_join(answer(more, N_SCRIPTS), N_SCRIPTS);
        for (size_t i = 0; i < N_SCRIPTS; i++)
            expect_same_choice(json_array_get(joined, i),
                               json_array_get(at_path(body, "choices"), i));
    }
}

static void expect_head(const json_t *answer, const char *object) {
    assert_string_equal(string_at(answer, "object"), object);
    expect_rows(answer, {"id", "'chatcmpl-0123456789abcdef01234567'"}, {"created", "1700000001"},
                {"model", "'tale'"}, {"system_fingerprint", "'fp_test'"});
}

static void expect_usage(const json_t *answer, const struct call *call, int output) {
    const int prompt = (int)call->generation->prompt[0].n_ids;
    char want[256];
    snprintf(want, sizeof want,
             "{'prompt_tokens':%d,'completion_tokens':%d,'total_tokens':%d,'prompt_tokens_details':"
             "{'cached_tokens':3},'completion_tokens_details':{'reasoning_tokens':%d}}",
             prompt, output, prompt + output, 2 * call->generation->n_choices);
    expect_json(answer, "usage", want);
}

CASE(a_whole_answer_has_the_keys_of_the_reference) {
    struct call *call = answer(",'n':5", N_SCRIPTS);
    const json_t *body = answer_of(call);
    expect_keys(body, "id object created model system_fingerprint choices usage timings");
    expect_head(body, "chat.completion");
    expect_usage(body, call, 35);
    assert_int_equal(size_at(body, "choices"), 5);
    const char *const keys[] = {"role content refusal", "role content refusal reasoning_content",
                                "role content refusal tool_calls",
                                "role content refusal tool_calls", "role content refusal"};
    const char *const reasons[] = {"stop", "length", "tool_calls", "tool_calls", "stop"};
    for (size_t i = 0; i < 5; i++) {
        const json_t *choice = json_array_get(at_path(body, "choices"), i);
        expect_keys(choice, "index message logprobs finish_reason stop_reason");
        assert_int_equal(number_at(choice, "index"), i);
        expect_keys(at_path(choice, "message"), keys[i]);
        assert_string_equal(string_at(choice, "finish_reason"), reasons[i]);
        expect_json(choice, "logprobs", "null");
    }
    expect_json(body, "choices.0.stop_reason", "'STOP\\n'");
    expect_json(body, "choices.3.message.content", "null");
}

// vLLM's: the answer starts with the last message, if it is an assistant's, too.
CASE(an_answer_may_echo_the_last_message) {
    static const struct {
        const char *body, *content;
    } cases[] = {
        {MSGS(USER "," SAID("")), "Three."},
        {"{'echo':true,'messages':[" USER "]}", "Three."},
        {"{'echo':true,'messages':[" USER ",{'role':'assistant','content':'So \u00e9:'}]}",
         "So \u00e9:Three."},
        {"{'echo':true,'continue_final_message':false,'messages':[" USER
         ",{'role':'assistant','content':'So:'}]}",
         "So:Three."},
        {"{'echo':true,'messages':[{'role':'assistant','content':'So:'}," USER "]}", "Three."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int stream = 0; stream < 2; stream++) {
            char body[512], text[64] = "", want[64];
            snprintf(body, sizeof body, "{'stream':%s,%s", stream ? "true" : "false",
                     cases[i].body + 1);
            snprintf(want, sizeof want, "'%s'", cases[i].content);
            struct call *call = call_prepared(chat_prepare, body);
            scripts_tell(call, &scripts[1], 1);
            if (!stream) {
                expect_json(answer_of(call), "choices.0.message.content", want);
                continue;
            }
            json_t *events = events_of(call, true);
            for (size_t e = 0; e < json_array_size(events); e++) {
                const char *piece = string_at(json_array_get(events, e), "choices.0.delta.content");
                if (piece) strcat(text, piece);
            }
            json_t *joined = json_keep(json_string(text));
            expect_json(joined, "", want);
        }
    }
    expect_refusal(chat_prepare, "{'echo':1,'messages':[" USER "]}", "echo", "1");
}

CASE(the_last_chunk_and_no_other_has_timings_and_usage_where_asked) {
    for (int usage = 0; usage < 2; usage++) {
        struct call *call =
            answer(usage ? ",'n':2,'stream':true,'stream_options':{'include_usage':true}"
                         : ",'n':2,'stream':true",
                   2);
        json_t *events = events_of(call, true);
        const size_t n = json_array_size(events);
        for (size_t i = 0; i < n; i++) {
            const json_t *chunk = json_array_get(events, i);
            const bool last = i + 1 == n, is_usage = usage && last;
            char keys[128];
            snprintf(keys, sizeof keys, "id object created model system_fingerprint choices%s%s",
                     usage ? " usage" : "", last ? " timings" : "");
            expect_head(chunk, "chat.completion.chunk");
            expect_keys(chunk, keys);
            assert_int_equal(size_at(chunk, "choices"), !is_usage);
            if (is_usage) expect_usage(chunk, call, 14);
            if (usage && !last) expect_json(chunk, "usage", "null");
        }
    }
}

#define LOGPROBS "{'messages':[" USER "],'logprobs':true,'top_logprobs':0"

CASE(half_a_character_has_exact_bytes_and_valid_text) {
    int32_t *ids;
    size_t n_ids;
    assert_int_equal(rn_tokenize(model, "\xF0\x9F\x98\x80", 4, 0, &ids, &n_ids, NULL), RN_OK);
    assert_true(n_ids > 1); // no token of its own
    struct call *call = call_prepared(chat_prepare, LOGPROBS ",'stream':true}");
    struct generation_choice *choice = &call->generation->choice[0];
    for (size_t i = 0; i < n_ids; i++) token_add(call, choice, ids[i]);
    choice_finish(call, choice, RN_FINISH_STOP, NULL);
    const json_t *list = at_path(events_of(call, false), "1.choices.0.logprobs.content");
    char bytes[8];
    size_t n = 0;
    for (size_t i = 0; i < n_ids; i++) {
        const json_t *token = json_array_get(list, i), *array = json_object_get(token, "bytes");
        expect_keys(token, "token logprob bytes top_logprobs");
        assert_non_null(strstr(string_at(token, "token"), "\xEF\xBF\xBD"));
        for (size_t j = 0; j < json_array_size(array) && n < sizeof bytes; j++)
            bytes[n++] = (char)json_integer_value(json_array_get(array, j));
    }
    assert_int_equal(n, 4);
    assert_memory_equal(bytes, "\xF0\x9F\x98\x80", 4);
    rn_free(ids);
}

CASE(impossible_tokens_have_a_number_as_logprob) {
    struct call *call = call_prepared(chat_prepare, LOGPROBS "}");
    struct generation_choice *choice = &call->generation->choice[0];
    token_add(call, choice, 1);
    choice->logprob[0].logprob = -1.0f / 0.0f;
    answer_end(call);
    expect_json(answer_of(call), "choices.0.logprobs.content.0.logprob", "-9999");
}

// The template's text may name them; only a tag that reads them takes them.
CASE(documents_reach_templates_that_read_them) {
    static const char some[] = WITH("'documents':[{'title':'a','text':'b'}]");
    static const struct refusal wrong[] = {
        {WITH("'documents':['x']"), "documents[0]", "'x'"},
        {WITH("'documents':[{}],'chat_template_kwargs':{'documents':[]}"), "documents",
         "chat_template_kwargs"},
    };
    static const struct {
        const char *source;
        bool reads;
    } templates[] = {
        {"{%- if documents %}{{ documents[0].text }}{% endif %}{{ messages[0].content }}", true},
        {"{{messages[0].content}}{{documents}}", true},
        {"Use documents. {{ messages[0].content }}{% if tools %}documents{% endif %}", false},
    };
    const char *own = served.tmpl_source;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct chat_messages chat;
        struct call *call = call_new(some);
        served.tmpl_source = templates[i].source;
        const bool ok = chat_messages_read(call, call_json(call), &chat);
        check(ok == templates[i].reads, "%s", templates[i].source);
        if (ok) expect_json(chat.variables, "documents", "[{'title':'a','text':'b'}]");
        if (ok) chat_messages_deinit(&chat);
    }
    served.tmpl_source = templates[0].source;
    expect_refusals(chat_prepare, wrong);
    served.tmpl_source = own;
    call_prepared(chat_prepare, WITH("'documents':[]"));
}

CASE(reasoning_is_left_out_where_it_is_not_wanted) {
    static const char *const bodies[] = {WITH("'include_reasoning':false"),
                                         WITH("'include_reasoning':false,'stream':true")};
    for (size_t i = 0; i < 2; i++) {
        struct call *call = call_prepared(chat_prepare, bodies[i]);
        struct generation_choice *choice = &call->generation->choice[0];
        part_feed(call, choice, PART_REASONING, "why", 3);
        part_feed(call, choice, PART_CONTENT, "so", 2);
        answer_end(call);
        check(!memmem(call->out.data, call->out.len, "why", 3) &&
                  memmem(call->out.data, call->out.len, "so", 2),
              "%.*s", (int)call->out.len, call->out.data);
    }
}

CASE(an_error_in_a_stream_is_an_event_and_the_last) {
    struct call *call = call_prepared(chat_prepare, "{'messages':[" USER "],'stream':true}");
    part_feed(call, &call->generation->choice[0], PART_CONTENT, "x", 1);
    const struct failure failure = {500, NULL, NULL, "It \"broke\""};
    call->generation->writer->error(call, &failure);
    json_t *events = events_of(call, false);
    assert_int_equal(json_array_size(events), 3);
    expect_json(events, "2.error.message", "'It \\\"broke\\\"'");
    expect_json(events, "2.error.type", "'server_error'");
}

static int setup(void **state) { return server_open(state, PLAIN_TEMPLATE); }

TEST_PROGRAM(openai_chat) { return cases_run(setup, close_server); }
