// Anthropic's Messages API: conversations that are read, and answers that are written, without a
// connection and without an engine.
#include "calls.h"

#include "messages.h"
#include "turns.h"

#define HI     "'max_tokens':9,'messages':[{'role':'user','content':'hi'}]"
#define STREAM "{" HI ",'stream':true}"
#define TOOL_USE(id, name, input)                                                                  \
    "{'type':'tool_use','id':'toolu_" id "','name':'" name "','input':" input                      \
    ",'caller':{'type':'direct'}}"

// ---------------------------------------------------------------- requests

static int setup(void **state) {
    route.api = API_ANTHROPIC;
    route.path = "/v1/messages";
    return server_open(state, PLAIN_TEMPLATE);
}

static void conversation_expect(const char *body, const char *path, const char *expected) {
    struct conversation conversation;
    struct call *call = call_new(body);
    check(messages_input(call, body_of(call), NULL, &conversation), "%s: %.*s", body,
          (int)call->out.len, call->out.data);
    json_t *all =
        json_keep(json_pack("{s:O, s:O*, s:O*}", "messages", conversation.messages, "tools",
                            conversation.tools, "variables", conversation.variables));
    expect_json(all, path, expected);
    conversation_deinit(&conversation);
}

CASE(blocks_become_chat_messages) {
    static const char *const cases[][2] = {
        {"{'messages':[{'role':'user','content':'hi'}]}", "[{'role':'user','content':'hi'}]"},
        {"{'system':'be kind','messages':[{'role':'user','content':[]}]}",
         "[{'role':'system','content':'be kind'},{'role':'user','content':''}]"},
        {"{'system':[{'type':'text','text':'a','cache_control':{'type':'ephemeral'}},{'type':'text'"
         ",'text':'b'}],'messages':[{'role':'user','content':[{'type':'text','text':'c'},{'type':'"
         "text','text':'d'}]}]}",
         "[{'role':'system','content':'a\\nb'},{'role':'user','content':'c\\nd'}]"},
        // neighbours of one role are one message
        {"{'messages':[{'role':'user','content':'a'},{'role':'user','content':'b'},{'role':'"
         "assistant','content':'c'},{'role':'assistant','content':'d'}]}",
         "[{'role':'user','content':'a\\nb'},{'role':'assistant','content':'c\\nd'}]"},
        // a call, its result, and what the user says besides
        {"{'messages':[{'role':'user','content':'w?'},{'role':'assistant','content':[{'type':'"
         "thinking','thinking':'hm','signature':''},{'type':'redacted_thinking','data':'xyz'},{'"
         "type':'text','text':'so'},{'type':'tool_use','id':'t1','name':'get','input':{'x':1}},{'"
         "type':'tool_use','id':'t2','name':'put','input':{}}]},{'role':'user','content':[{'type':'"
         "tool_result','tool_use_id':'t1','content':'sun'},{'type':'tool_result','tool_use_id':'t2'"
         ",'is_error':true,'content':[{'type':'text','text':'e'},{'type':'text','text':'f'}]},{'"
         "type':'tool_result','tool_use_id':'t2'},{'type':'text','text':'go'}]}]}",
         "[{'role':'user','content':'w?'},{'role':'assistant','content':'so','reasoning_content':'"
         "hm','tool_calls':[{'id':'t1','type':'function','function':{'name':'get','arguments':{'x':"
         "1}}},{'id':'t2','type':'function','function':{'name':'put','arguments':{}}}]},{'role':'"
         "tool','content':'sun','tool_call_id':'t1','name':'get'},{'role':'tool','content':'e\\nf',"
         "'tool_call_id':'t2','name':'put'},{'role':'tool','content':'','tool_call_id':'t2','name':"
         "'put'},{'"
         "role':'user','content':'go'}]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        conversation_expect(cases[i][0], "messages", cases[i][1]);
    }
}

#define TEXT_SOURCE(text) "'source':{'type':'text','media_type':'text/plain','data':'" text "'}"
CASE(documents_of_text_are_text) {
    conversation_expect("{'messages':[{'role':'user','content':[{'type':'document'," TEXT_SOURCE(
                            "a") ",'title':"
                                 "'t','context':'c','citations':{'enabled':false},'cache_control':{"
                                 "'type':'ephemeral'}},"
                                 "{'type':'text','text':'q'}]}]}",
                        "messages", "[{'role':'user','content':'t\\nc\\na\\nq'}]");
    conversation_expect("{'messages':[{'role':'user','content':[{'type':'document','title':null,"
                        "'source':{'type':'content','content':[{'type':'text','text':'a'},{'type':"
                        "'text','text':'b'}]}},{'type':'document','source':{'type':'content',"
                        "'content':'c'}}]}]}",
                        "messages", "[{'role':'user','content':'a\\nb\\nc'}]");
    conversation_expect(
        "{'messages':[{'role':'assistant','content':[{'type':'tool_use','id':'t','name':'f',"
        "'input':{}}]},{'role':'user','content':[{'type':'tool_result','tool_use_id':'t',"
        "'content':[{'type':'text','text':'a'},{'type':'document'," TEXT_SOURCE("b") "}]}]}]}",
        "messages.1", "{'role':'tool','content':'a\\nb','tool_call_id':'t','name':'f'}");
}

CASE(tools_and_thinking_reach_the_template) {
    conversation_expect(
        "{" HI ",'tools':[{'name':'get','description':'d','input_schema':{'type':'object'}},{'type'"
        ":'custom','name':'put','input_schema':{}}]}",
        "tools",
        "[{'type':'function','function':{'name':'get','description':'d','parameters':{'type':'"
        "object'}}},{'type':'function','function':{'name':'put','parameters':{}}}]");
    conversation_expect("{" HI ",'thinking':{'type':'disabled'}}", "variables",
                        "{'enable_thinking':false}");
    conversation_expect("{" HI ",'thinking':{'type':'enabled','budget_tokens':1024}}", "variables",
                        "{'enable_thinking':true}");
    conversation_expect(
        "{" HI ",'tool_choice':{'type':'none'},'tools':[{'name':'get','input_schema':{}}]}", "",
        "{'messages':[{'role':'user','content':'hi'}]}");
}

CASE(wrong_conversations_are_refused_by_place) {
#define MESSAGE(rest) "{'max_tokens':9,'messages':[{'role':'user','content':'a'}," rest "]}"
    static const char *const cases[][2] = {
        {"{'max_tokens':9}", "messages: is required"},
        {"{'max_tokens':9,'messages':3}", "messages: expected an array, got 3"},
        {"{'max_tokens':9,'messages':[]}", "messages: [] is empty"},
        {"{'messages':[{'role':'user','content':'a'}]}", "max_tokens"},
        {MESSAGE("7"), "messages[1]: expected an object, got 7"},
        {MESSAGE("{'content':'a'}"), "messages[1].role: is required"},
        {MESSAGE("{'role':'tool','content':'a'}"), "messages[1].role: "},
        {MESSAGE("{'role':'user'}"), "messages[1].content: is required"},
        {MESSAGE("{'role':'user','content':{}}"), "messages[1].content: expected"},
        {MESSAGE("{'role':'user','content':['a']}"), "messages[1].content[0]: expected"},
        {MESSAGE("{'role':'user','content':[{}]}"), "messages[1].content[0].type: is required"},
        {MESSAGE(
             "{'role':'user','content':[{'type':'text','text':'a'},{'type':'image','source':{}}]}"),
         "messages[1].content[1].type: 'image' is not supported: the model reads text alone"},
        {MESSAGE("{'role':'user','content':[{'type':'wizard'}]}"),
         "messages[1].content[0].type: expected one of text|document|tool_result, got 'wizard'"},
        {MESSAGE("{'role':'user','content':[{'type':'document'}]}"),
         "messages[1].content[0].source: is required"},
        {MESSAGE("{'role':'user','content':[{'type':'document','source':{}}]}"),
         "messages[1].content[0].source.type: is required"},
        {MESSAGE("{'role':'user','content':[{'type':'document','source':{'type':'text'}}]}"),
         "messages[1].content[0].source.data: is required"},
        {MESSAGE("{'role':'user','content':[{'type':'document','source':{'type':'text',"
                 "'media_type':'text/html','data':'a'}}]}"),
         "messages[1].content[0].source.media_type: expected one of text/plain"},
        {MESSAGE("{'role':'user','content':[{'type':'document','source':{'type':'base64'}}]}"),
         "messages[1].content[0].source.type: 'base64' is not supported: the model reads text "
         "alone"},
        {MESSAGE("{'role':'user','content':[{'type':'document','source':{'type':'url'}}]}"),
         "messages[1].content[0].source.type: 'url' is not supported: the model reads text alone"},
        {MESSAGE("{'role':'user','content':[{'type':'document','source':{'type':'content',"
                 "'content':[{'type':'image'}]}}]}"),
         "messages[1].content[0].source.content[0].type: 'image' is not supported"},
        {MESSAGE("{'role':'user','content':[{'type':'document','citations':{'enabled':true}}]}"),
         "messages[1].content[0].citations.enabled: true is not supported"},
        {MESSAGE("{'role':'user','content':[{'type':'tool_use'}]}"),
         "messages[1].content[0].type: "},
        {MESSAGE("{'role':'user','content':[{'type':'tool_result'}]}"),
         "messages[1].content[0].tool_use_id: is required"},
        {MESSAGE("{'role':'user','content':[{'type':'tool_result','tool_use_id':'t9'}]}"),
         "messages[1].content[0].tool_use_id: 't9' is the id of no call before this result"},
        {MESSAGE("{'role':'assistant','content':[{'type':'tool_use','id':'t','name':'f','input':{}"
                 "}]},{'role':'user','content':[{'type':'tool_result','tool_use_id':'t','content':"
                 "[{'type':'image'}]}]}"),
         "messages[2].content[0].content[0].type: "},
        {MESSAGE(
             "{'role':'assistant','content':[{'type':'tool_use','id':'t','name':'','input':{}}]}"),
         "messages[1].content[0].name: "},
        {MESSAGE("{'role':'assistant','content':[{'type':'tool_use','id':'t','name':'get','input':"
                 "null}]}"),
         "messages[1].content[0].input: "},
        {MESSAGE("{'role':'assistant','content':[{'type':'tool_use','id':'t','name':'get','input':{"
                 "}}]}"),
         "messages[1].content: ends with a tool_use"},
        {"{" HI ",'system':[{'type':'image'}]}", "system[0].type: "},
        {"{" HI ",'system':7}", "system: expected"},
        {"{" HI ",'tools':[{'type':'bash_20250124','name':'bash'}]}", "tools[0].type: "},
        {"{" HI ",'tools':[{'name':'get'}]}", "tools[0].input_schema: is required"},
        {"{" HI ",'tools':[{'name':'get','input_schema':[]}]}", "tools[0].input_schema: "},
        {"{" HI ",'thinking':{'type':'perhaps'}}", "thinking.type: "},
        {"{" HI ",'thinking':true}", "thinking: "},
        {"{" HI ",'container':'c'}", "container: 'c' is not supported"},
        {"{" HI ",'fallbacks':[{'model':'m'}]}", "fallbacks: "},
        {"{" HI ",'compaction':{}}", "compaction: "},
        {"{" HI ",'context_management':{'edits':[{'type':'compact_20260112'}]}}",
         "context_management: "},
        {"{" HI ",'speed':'fast'}", "speed: 'fast' is not supported; 'standard' is"},
        {"{" HI ",'thread':7}", "thread: expected an object, got 7"},
        {"{" HI ",'thread':{}}", "thread.type: is required"},
        {"{" HI ",'thread':{'type':'fork'}}", "thread.type: expected one of create|continue"},
    };
#undef MESSAGE
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refusal(messages_prepare, cases[i][0], NULL, cases[i][1]);
}

CASE(a_prompt_beyond_the_context_gets_the_words_that_clients_match) {
    char body[2048] = "{'max_tokens':9,'messages':[{'role':'user','content':'";
    for (int i = 0; i < 300; i++) strcat(body, "a b ");
    strcat(body, "'}]}");
    const json_t *answer = answered(messages_prepare, body, 400);
    const char *message = string_at(answer, "error.message");
    int n_tokens = 0, n_most = 0; // of the prompt: 256 of them would leave no place for an answer
    check(sscanf(message, "prompt is too long: %d tokens > %d maximum. This", &n_tokens, &n_most) ==
                  2 &&
              n_tokens >= 600 && n_most == 255,
          "%s", message);
    check(strstr(message, "This model's maximum context length is 256 tokens."), "%s", message);
}

CASE(last_assistant_message_is_a_prefill_unless_it_is_empty) {
    static const struct {
        const char *last;
        bool prefill;
        size_t n;
    } cases[] = {
        {"{'role':'assistant','content':'Once'}", true, 2},
        {"{'role':'assistant','content':''}", false, 1},
        {"{'role':'assistant','content':[]}", false, 1},
        {"{'role':'user','content':'b'}", false, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[256];
        snprintf(body, sizeof body, "{'messages':[{'role':'user','content':'a'},%s]}",
                 cases[i].last);
        struct conversation conversation;
        struct call *call = call_new(body);
        assert_true(messages_input(call, call_json(call), NULL, &conversation));
        check(messages_prefill(&conversation) == cases[i].prefill, "%s", body);
        check(json_array_size(conversation.messages) == cases[i].n, "%s", body);
        conversation_deinit(&conversation);
    }
}

CASE(counted_tokens_are_those_of_the_prompt) {
    const size_t n_ids = call_prepared(messages_prepare, "{" HI "}")->generation->prompt[0].n_ids;
    assert_true(n_ids > 0);
    struct call *call = call_new("{'messages':[{'role':'user','content':'hi'}]}");
    messages_count(call);
    assert_int_equal(call->status, 200);
    assert_null(call->generation);
    assert_int_equal(number_at(answer_of(call), "input_tokens"), n_ids);
}

// ---------------------------------------------------------------- answers

CASE(whole_answers_have_blocks_by_kind) {
    static const struct piece pieces[] = {
        {PART_REASONING, "hm"},
        {PART_CONTENT, "a\"b"},
        {PART_TOOL, "get"},
        {PART_TOOL_ARGUMENTS, "{\"x\":"},
        {PART_TOOL_ARGUMENTS, " 0.1}"},
        {PART_TOOL, "now"},
        {PART_TOOL, "cut"},
        {PART_TOOL_ARGUMENTS, "{\"x\":"},
    };
    struct call *call = call_prepared(messages_prepare, "{" HI "}");
    const int n_ids = (int)call->generation->prompt[0].n_ids;
    const json_t *answer = answer_of(answer_play(call, pieces, 8, RN_FINISH_STOP, NULL));
    expect_rows(answer, {"id", "'msg_0123456789abcdef01234567'"}, {"type", "'message'"},
                {"role", "'assistant'"}, {"model", "'tale'"}, {"stop_reason", "'tool_use'"},
                {"stop_sequence", "null"}, {"usage.cache_read_input_tokens", "3"},
                {"usage.cache_creation_input_tokens", "0"}, {"usage.output_tokens", "7"},
                {"usage.output_tokens_details.thinking_tokens", "2"},
                {"content.0", "{'type':'thinking','thinking':'hm','signature':''}"},
                {"content.1", "{'type':'text','text':'a\\\"b'}"},
                {"content.2", TOOL_USE("0", "get", "{'x':0.1}")},
                {"content.3", TOOL_USE("1", "now", "{}")},
                {"content.4", TOOL_USE("2", "cut", "'{\\\"x\\\":'")});
    assert_int_equal(size_at(answer, "content"), 5);
    assert_int_equal(number_at(answer, "usage.input_tokens"), n_ids - 3);
    assert_true(json_is_object(at_path(answer, "timings")));
}

CASE(reasons_to_stop_have_anthropics_names) {
    static const struct piece text = {PART_CONTENT, "a"};
    static const struct {
        rn_finish finish;
        const char *stop, *reason, *sequence;
    } cases[] = {
        {RN_FINISH_STOP, NULL, "'end_turn'", "null"},
        {RN_FINISH_STOP, "END", "'stop_sequence'", "'END'"},
        {RN_FINISH_LENGTH, NULL, "'max_tokens'", "null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct call *call = call_prepared(messages_prepare, "{" HI "}");
        answer_play(call, &text, 1, cases[i].finish, cases[i].stop);
        expect_json(answer_of(call), "stop_reason", cases[i].reason);
        expect_json(answer_of(call), "stop_sequence", cases[i].sequence);
    }
}

CASE(answers_without_text_have_no_blocks) {
    struct call *call = call_prepared(messages_prepare, "{" HI "}");
    expect_json(answer_of(answer_play(call, NULL, 0, RN_FINISH_STOP, NULL)), "content", "[]");
}

// A client's record of a stream.
struct snapshot {
    bool open, ended;
    int index; // of the next block
    json_t *block;
    struct jbuf text, thinking, arguments;
};

static void delta_apply(struct snapshot *snapshot, const json_t *event) {
    const char *type = json_string_value(at_path(event, "delta.type"));
    const char *kind = json_string_value(at_path(snapshot->block, "type"));
    static const struct {
        const char *delta, *block, *key;
        size_t to;
    } kinds[] = {
        {"text_delta", "text", "text", offsetof(struct snapshot, text)},
        {"thinking_delta", "thinking", "thinking", offsetof(struct snapshot, thinking)},
        {"input_json_delta", "tool_use", "partial_json", offsetof(struct snapshot, arguments)},
    };
    size_t i = 0;
    while (i < 3 && strcmp(kinds[i].delta, type) != 0) i++;
    check(i < 3 && !strcmp(kinds[i].block, kind), "%s in a block of %s", type, kind);
    const char *text = json_string_value(json_object_get(at_path(event, "delta"), kinds[i].key));
    check(text && *text, "%s has no text", type);
    jbuf_text((struct jbuf *)((char *)snapshot + kinds[i].to), text);
}

static void event_apply(struct snapshot *snapshot, const json_t *event) {
    const char *type = json_string_value(json_object_get(event, "type"));
    const json_t *index = json_object_get(event, "index");
    check(!index || json_integer_value(index) == snapshot->index, "%s: wrong index", type);
    check(!snapshot->ended, "%s after message_delta", type);
    if (!strcmp(type, "content_block_start")) {
        check(!snapshot->open, "a block begins in another");
        snapshot->open = true;
        snapshot->block = at_path(event, "content_block");
    } else if (!strcmp(type, "content_block_delta")) {
        assert_true(snapshot->open);
        delta_apply(snapshot, event);
    } else if (!strcmp(type, "content_block_stop")) {
        assert_true(snapshot->open);
        snapshot->open = false;
        snapshot->index++;
    } else {
        check(!strcmp(type, "message_delta") && !snapshot->open, "unexpected %s", type);
        snapshot->ended = true;
    }
}

// Any row of pieces: every event in its order, no piece lost or moved.
CASE(streams_are_rows_of_blocks_that_hold_every_piece) {
    for (int round = 0; round < 200; round++) {
        struct piece pieces[PIECES_MAX];
        const size_t n = pieces_draw(pieces);
        struct call *call = call_prepared(messages_prepare, STREAM);
        const json_t *events =
            events_of(answer_play(call, pieces, n, RN_FINISH_LENGTH, NULL), false);
        const size_t n_events = json_array_size(events);
        struct snapshot snapshot = {0};
        expect_json(events, "0.type", "'message_start'");
        for (size_t i = 1; i + 1 < n_events; i++) event_apply(&snapshot, json_array_get(events, i));
        assert_true(snapshot.ended);
        expect_json(json_array_get(events, n_events - 1), "", "{'type':'message_stop'}");
        expect_joined(pieces, n, PART_CONTENT, &snapshot.text);
        expect_joined(pieces, n, PART_REASONING, &snapshot.thinking);
        expect_joined(pieces, n, PART_TOOL_ARGUMENTS, &snapshot.arguments);
    }
}

CASE(stream_begins_and_ends_with_the_message) {
    static const struct piece pieces[] = {{PART_TOOL, "get"}, {PART_TOOL_ARGUMENTS, "{}"}};
    struct call *call = call_prepared(messages_prepare, STREAM);
    const int n_ids = (int)call->generation->prompt[0].n_ids;
    const json_t *events = events_of(answer_play(call, pieces, 2, RN_FINISH_STOP, NULL), false);
    assert_int_equal(json_array_size(events), 6);
    expect_rows(events, {"0.message.content", "[]"}, {"0.message.stop_reason", "null"},
                {"0.message.usage.output_tokens", "0"},
                {"1.content_block", TOOL_USE("0", "get", "{}")},
                {"4.delta.stop_reason", "'tool_use'"}, {"4.usage.output_tokens", "7"},
                {"4.usage.cache_read_input_tokens", "3"});
    assert_int_equal(number_at(events, "0.message.usage.input_tokens"), n_ids);
    assert_int_equal(number_at(events, "4.usage.input_tokens"), n_ids - 3);
    assert_true(json_is_object(at_path(events, "4.timings")));
}

CASE(a_block_ends_with_its_arguments) {
    static const struct piece pieces[] = {{PART_TOOL, "get"},
                                          {PART_TOOL_ARGUMENTS, "{}"},
                                          {PART_TOOL_END, ""}};
    struct call *call = call_prepared(messages_prepare, STREAM);
    for (int i = 0; i < 3; i++)
        part_feed(call, &call->generation->choice[0], pieces[i].part, pieces[i].text,
                  strlen(pieces[i].text));
    expect_rows(events_of(call, false), {"1.delta.partial_json", "'{}'"},
                {"2", "{'type':'content_block_stop','index':0}"});
}

CASE(errors_and_pings_are_events) {
    struct call *call = call_prepared(messages_prepare, STREAM);
    jbuf_text(&call->out, call->generation->writer->ping);
    const struct failure failure = {500, NULL, NULL, "it \"broke\""};
    call->generation->writer->error(call, &failure);
    expect_rows(events_of(call, false), {"0", "{'type':'ping'}"},
                {"1.error", "{'type':'api_error','message':'it \\\"broke\\\"'}"});
}

// ---------------------------------------------------------------- threads

#define TOOLS  "'tools':[{'name':'get','input_schema':{'type':'object'}}]"
#define CREATE "'thread':{'type':'create'}"
#define CONTINUE                                                                                   \
    "'max_tokens':9,'thread':{'type':'continue','previous_message_id':"                            \
    "'msg_0123456789abcdef01234567'}"

// A turn of a thread, whole or as a stream.
static struct call *turn_play(const char *body, const char *id, const struct piece *pieces,
                              size_t n) {
    struct call *call = call_new(body);
    strcpy(call->id, id);
    handle(messages_prepare, call);
    choices_make(call);
    return answer_play(call, pieces, n, RN_FINISH_STOP, NULL);
}

// The prompt of a continued thread is that of the whole conversation, whatever the pieces were.
CASE(a_continued_thread_has_the_prompt_of_the_whole_conversation) {
    static const struct piece pieces[] = {{PART_REASONING, "hm"},
                                          {PART_CONTENT, "a\"b"},
                                          {PART_TOOL, "get"},
                                          {PART_TOOL_ARGUMENTS, "{\n\"x\":"},
                                          {PART_TOOL_ARGUMENTS, "1}"},
                                          {PART_TOOL_END, ""}};
    static const char *const firsts[] = {"{" HI "," TOOLS ",'system':'s'," CREATE "}",
                                         "{" HI "," TOOLS ",'system':'s','stream':true," CREATE
                                         "}"};
    static const char result[] =
        "'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'toolu_0',"
        "'content':'r'}]}]";
    static const char whole[] =
        "{'max_tokens':9,'system':'s'," TOOLS ",'messages':[{'role':'user','content':'hi'},{'role':"
        "'assistant','content':[{'type':'thinking','thinking':'hm'},{'type':'text','text':'a\\\"b'}"
        ",{'type':'tool_use','id':'toolu_0','name':'get','input':{'x':1}}]},{'role':'user',"
        "'content':[{'type':'tool_result','tool_use_id':'toolu_0','content':'r'}]}]}";
    server.turns = turns_create(8, 1 << 20);
    server.config.body_bytes_max = 1 << 20;
    for (int i = 0; i < 2; i++) {
        char body[512];
        turn_play(firsts[i], "0123456789abcdef01234567", pieces, 6);
        snprintf(body, sizeof body, "{" CONTINUE ",%s}", result);
        const struct generation_prompt *next =
            call_prepared(messages_prepare, body)->generation->prompt;
        const struct generation_prompt *all =
            call_prepared(messages_prepare, whole)->generation->prompt;
        assert_int_equal(next->n_ids, all->n_ids);
        assert_memory_equal(next->ids, all->ids, all->n_ids * sizeof *all->ids);
        call_free(kept[--n_kept]);
        call_free(kept[--n_kept]); // gives its claim back
        turns_delete(server.turns, TURN_MESSAGE, "msg_0123456789abcdef01234567", (struct owner){0});
    }
    turns_destroy(server.turns);
    server.turns = NULL;
}

static void details_expect(const char *body, int status, const char *want) {
    expect_json(answered(messages_prepare, body, status), "error.details", want);
}

CASE(threads_are_refused_with_the_codes_that_clients_know) {
    static const struct piece text = {PART_CONTENT, "a"};
    details_expect("{" HI "," CREATE "}", 400,
                   "{'error_code':'thread_unsupported_request','unsupported':['thread']}");
    server.turns = turns_create(8, 1 << 20);
    server.config.body_bytes_max = 1 << 20;
    details_expect("{" CONTINUE ",'messages':[]}", 404, "{'error_code':'thread_not_found'}");
    turn_play("{" HI ",'system':'s'," CREATE "}", "0123456789abcdef01234567", &text, 1);
    details_expect("{" CONTINUE ",'messages':[],'system':'other'}", 400,
                   "{'error_code':'thread_fingerprint_mismatch'}");
    details_expect("{" CONTINUE ",'messages':[]," TOOLS "}", 400,
                   "{'error_code':'thread_fingerprint_mismatch'}");
    struct call *call =
        call_prepared(messages_prepare, "{" CONTINUE ",'messages':[],'system':'s'}");
    details_expect("{" CONTINUE ",'messages':[]}", 400,
                   "{'error_code':'thread_continue_in_flight'}");
    strcpy(call->id, "second");
    answer_play(call, &text, 1, RN_FINISH_STOP, NULL);
    details_expect("{" CONTINUE ",'messages':[]}", 400,
                   "{'error_code':'thread_already_continued'}");
    expect_refusal(messages_count, "{" HI "," CREATE "}", NULL, "thread: ");
    expect_refusal(messages_prepare, "{" HI ",'thread':{'type':'continue'}}", NULL,
                   "thread.previous_message_id: is required");
    while (n_kept) call_free(kept[--n_kept]);
    turns_destroy(server.turns);
    server.turns = NULL;
}

TEST_PROGRAM(messages) { return cases_run(setup, close_server); }
