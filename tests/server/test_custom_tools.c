// Custom tools: functions that stand for them, and the texts that their calls become.
#include "calls.h"
#include "chat_messages.h"
#include "responses.h"

static int setup(void **state) {
    return server_open(state, PLAIN_TEMPLATE "{% if tools %}{{ tools }}<tool_call>{% endif %}");
}

#define HI     "'messages':[{'role':'user','content':'hi'}]"
#define NESTED "{'type':'custom','custom':{'name':'patch','description':'d','format':"
#define FUNCTION                                                                                   \
    "{'type':'function','function':{'name':'patch','description':'d','parameters':{'type':'"       \
    "object','properties':{'input':{'type':'string'"
#define REST "}},'required':['input'],'additionalProperties':false}}}"

CASE(custom_tools_become_functions) {
    static const char *const cases[][3] = {
        // of chat, of Responses
        {"{'type':'text'}}}", "{'type':'text'}}", FUNCTION REST},
        {"null}}", "null}", FUNCTION REST},
        {"{'type':'grammar','grammar':{'syntax':'regex','definition':'a|b'}}}}",
         "{'type':'grammar','syntax':'regex','definition':'a|b'}}",
         FUNCTION ",'pattern':'^(?:a|b)$'" REST},
        {"{'type':'grammar','grammar':{'syntax':'lark','definition':'start: \\'a\\'+'}}}}",
         "{'type':'grammar','syntax':'lark','definition':'start: \\'a\\'+'}}",
         FUNCTION ",'x-lark':'start: \\'a\\'+'" REST},
        // anchors at the ends are for the whole input as well
        {"{'type':'grammar','grammar':{'syntax':'regex','definition':'^^[0-9^$(]{3}$$|^(a|b)\\\\$'}"
         "}}"
         "}",
         "{'type':'grammar','syntax':'regex','definition':'^[0-9^$(]{3}$|^(a|b)\\\\$'}}",
         FUNCTION ",'pattern':'^(?:[0-9^$(]{3}|(a|b)\\\\$)$'" REST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[1024];
        struct chat_messages chat;
        struct conversation conversation;
        snprintf(body, sizeof body, "{" HI ",'tools':[" NESTED "%s]}", cases[i][0]);
        struct call *call = call_new(body);
        check(chat_messages_read(call, body_of(call), &chat), "%s", body);
        expect_json(json_array_get(chat.tools, 0), "", cases[i][2]);
        check(custom_tool_is(chat.custom, "patchwork", 5), "chat");
        chat_messages_deinit(&chat);
        snprintf(body, sizeof body,
                 "{'input':'hi','tools':[{'type':'custom','name':'patch','description':'d','format'"
                 ":%s]}",
                 cases[i][1]);
        call = call_new(body);
        check(responses_input(call, body_of(call), NULL, &conversation), "%s", body);
        expect_json(json_array_get(conversation.tools, 0), "", cases[i][2]);
        check(custom_tool_is(conversation.custom, "patch", 5), "responses");
        check(!custom_tool_is(conversation.custom, "patch", 4), "another name");
        conversation_deinit(&conversation);
    }
}

CASE(wrong_formats_are_refused_by_field) {
#define WITH(format) "{" HI ",'tools':[" NESTED format "}}]}"
#define AT           "tools[0].custom.format"
    static const struct refusal cases[] = {
        {WITH("{}"), AT ".type", "missing"},
        {WITH("{'type':'xml'}"), AT ".type", "'xml'"},
        {WITH("{'type':'grammar','grammar':{}}"), AT ".grammar.syntax", "missing"},
        {WITH("{'type':'grammar','grammar':{'syntax':'lark','definition':'start: a'}}"),
         AT ".grammar.definition", "definition: line 1, column 8: the rule"},
        {WITH("{'type':'grammar','grammar':{'syntax':'ebnf','definition':'a'}}"),
         AT ".grammar.syntax", "ebnf"},
        {WITH("{'type':'grammar','grammar':{'syntax':'regex','definition':'(a)\\\\1'}}"),
         AT ".grammar.definition", "definition: offset 3: "},
        {WITH("{'type':'grammar','grammar':{'syntax':'regex','definition':'a)|(?:b'}}"),
         AT ".grammar.definition", "offset 1: ')'"},
        {WITH("{'type':'grammar','grammar':{'syntax':'regex','definition':'a(b(c)'}}"),
         AT ".grammar.definition", "offset 1: '('"},
        {WITH("{'type':'grammar','grammar':{'syntax':'regex'}}"), AT ".grammar.definition",
         "missing"},
        {"{" HI ",'tools':[{'type':'custom','custom':{}}]}", "tools[0].custom.name", "missing"},
        {"{" HI ",'tools':[{'type':'custom'}]}", "tools[0].custom", "missing"},
    };
    expect_refusals(chat_prepare, cases);
}

// However the arguments are cut.
CASE(arguments_become_the_input) {
    static const char *const cases[][2] = {
        {"{\"input\": \"a\\n\\\"b\\\" \\ud83d\\ude00 \\u00e9\"}", "a\n\"b\" \U0001F600 \u00E9"},
        {"{\"input\":\"\"}", ""},
        {"{\"x\":{\"input\":\"n\"},\"input\":\"y\"}", "y"},
        {"{\"input\":\"y\",\"input\":\"z\",\"k\":[\"w\"]}", "y"},
        {"{\"inputs\":\"y\"}", "{\"inputs\":\"y\"}"},
        {"{\"input\":[\"y\"]}", "{\"input\":[\"y\"]}"},
        {"{}", "{}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t len = strlen(cases[i][0]);
        for (size_t cut = 0; cut <= len; cut++) {
            struct custom_input input = {0};
            struct jbuf out = {0};
            custom_input_read(&input, cases[i][0], cut, false, &out);
            custom_input_read(&input, cases[i][0] + cut, len - cut, false, &out);
            custom_input_read(&input, "", 0, true, &out);
            check(out.len == strlen(cases[i][1]) && !memcmp(out.data, cases[i][1], out.len),
                  "%s, cut at %zu: %.*s", cases[i][0], cut, (int)out.len, out.data);
            custom_input_deinit(&input);
            jbuf_deinit(&out);
        }
    }
}

static const struct piece pieces[] = {{PART_TOOL, "patch"},       {PART_TOOL_ARGUMENTS, "a\""},
                                      {PART_TOOL_ARGUMENTS, "b"}, {PART_TOOL_END, ""},
                                      {PART_TOOL, "f"},           {PART_TOOL_ARGUMENTS, "{}"},
                                      {PART_TOOL_END, ""}};

CASE(chat_tells_custom_calls) {
#define TOOLS "'tools':[{'type':'custom','custom':{'name':'patch'}}]"
    struct call *call = call_prepared(chat_prepare, "{" HI "," TOOLS "}");
    expect_json(answer_of(answer_play(call, pieces, 7, RN_FINISH_STOP, NULL)),
                "choices.0.message.tool_calls",
                "[{'id':'call_0','type':'custom','custom':{'name':'patch','input':'a\\\"b'}},{'id':"
                "'call_1','type':'function','function':{'name':'f','arguments':'{}'}}]");
    call = call_prepared(chat_prepare, "{" HI ",'stream':true," TOOLS "}");
    const json_t *events = events_of(answer_play(call, pieces, 7, RN_FINISH_STOP, NULL), true);
    expect_rows(events,
                {"1.choices.0.delta.tool_calls.0", "{'index':0,'id':'call_0','type':'custom','"
                                                   "custom':{'name':'patch','input':''}}"},
                {"2.choices.0.delta.tool_calls.0", "{'index':0,'custom':{'input':'a\\\"'}}"},
                {"3.choices.0.delta.tool_calls.0", "{'index':0,'custom':{'input':'b'}}"},
                {"4.choices.0.delta.tool_calls.0.function.name", "'f'"});
}

CASE(responses_tell_custom_calls) {
#define ITEM                                                                                       \
    "{'id':'ctc_0123456789abcdef01234567_0','type':'custom_tool_call','call_id':'call_0','name':'" \
    "patch','input':'a\\\"b','status':'completed'}"
    struct call *call = call_prepared(responses_prepare,
                                      "{'input':'hi','tools':[{'type':'custom','name':'patch'}]}");
    expect_json(answer_of(answer_play(call, pieces, 7, RN_FINISH_STOP, NULL)), "output.0", ITEM);
    call = call_prepared(responses_prepare,
                         "{'input':'hi','stream':true,'tools':[{'type':'custom','name':'patch'}]}");
    const json_t *events = events_of(answer_play(call, pieces, 7, RN_FINISH_STOP, NULL), false);
    expect_rows(events, {"2.item.input", "''"},
                {"3.type", "'response.custom_tool_call_input.delta'"}, {"3.delta", "'a\\\"'"},
                {"3.item_id", "'ctc_0123456789abcdef01234567_0'"},
                {"5.type", "'response.custom_tool_call_input.done'"}, {"5.input", "'a\\\"b'"},
                {"6.item", ITEM}, {"7.item.type", "'function_call'"});
    const json_t *last = json_array_get(events, json_array_size(events) - 1);
    expect_json(last, "response.output.0", ITEM);
}

TEST_PROGRAM(custom_tools) { return cases_run(setup, close_server); }
