// OpenAI's Responses API: requests that are read, and answers that are written, without a
// connection and without an engine.
#include "calls.h"

#include "responses.h"

static int setup(void **state) { return server_open(state, PLAIN_TEMPLATE); }

// ---------------------------------------------------------------- requests

// What the template gets: messages or tools; NULL: none.
static void conversation_expect(const char *body, bool tools, const char *expected) {
    struct conversation conversation;
    struct call *call = call_new(body);
    check(responses_input(call, body_of(call), NULL, &conversation), "%.*s", (int)call->out.len,
          call->out.data);
    const json_t *part = tools ? conversation.tools : conversation.messages;
    assert_int_equal(!part, !expected);
    if (expected) expect_json(part, "", expected);
    conversation_deinit(&conversation);
}

CASE(items_become_chat_messages) {
    static const char *const cases[][2] = {
        {"{'input':'hi'}", "[{'role':'user','content':'hi'}]"},
        {"{'instructions':'be "
         "kind','input':[{'role':'developer','content':'b'},{'role':'user','content':[{'type':'"
         "input_text','text':'c'},{'type':'input_text','text':'d'}]}]}",
         "[{'role':'system','content':'be kind\\nb'},{'role':'user','content':'c\\nd'}]"},
        // the items of one turn are one message
        {"{'input':[{'type':'message','role':'user','content':'w?'},{'type':'reasoning','id':'rs','"
         "summary':[],'content':[{'type':'reasoning_text','text':'hm'}]},{'type':'message','role':'"
         "assistant','id':'m','status':'completed','content':[{'type':'output_text','text':'so','"
         "annotations':[]}]},{'type':'function_call','call_id':'c1','name':'get','arguments':'{"
         "\\\"x\\\":1}'},{'type':'function_call','call_id':'c2','name':'put','arguments':''},{'"
         "type':'function_call','call_id':'c3','name':'cut','arguments':'{'},{'type':'function_"
         "call_output','call_id':'c1','output':'sun'},{'type':'function_call_output','call_id':'c3'"
         ",'output':[{'type':'input_text','text':'e'}]},{'type':'reasoning','summary':[{'type':'"
         "summary_text','text':'s'}]},{'role':'assistant','content':'end'}]}",
         "[{'role':'user','content':'w?'},{'role':'assistant','content':'so','reasoning_content':'"
         "hm','tool_calls':[{'id':'c1','type':'function','function':{'name':'get','arguments':{'x':"
         "1}}},{'id':'c2','type':'function','function':{'name':'put','arguments':{}}},{'id':'c3','"
         "type':'function','function':{'name':'cut','arguments':'{'}}]},{'role':'tool','content':'"
         "sun','tool_call_id':'c1','name':'get'},{'role':'tool','content':'e','tool_call_id':'c3','"
         "name':'cut'},"
         "{'role':'assistant','content':'end','reasoning_content':'s'}]"},
        {"{'input':[{'type':'custom_tool_call','call_id':'c1','name':'p','input':'a'},{'type':'"
         "custom_tool_call_output','call_id':'c1','output':'b'}]}",
         "[{'role':'assistant','content':'','tool_calls':[{'id':'c1','type':'function','function':"
         "{'name':'p','arguments':{'input':'a'}}}]},{'role':'tool','content':'b','tool_call_id':'"
         "c1','name':'p'}]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        conversation_expect(cases[i][0], false, cases[i][1]);
}

CASE(flat_tools_become_functions) {
    conversation_expect("{'input':'hi','tools':[{'type':'function','name':'get','description':'d','"
                        "parameters':{'type':'object'},'strict':true},{'type':'function','name':'"
                        "now','parameters':null,'strict':null}]}",
                        true,
                        "[{'type':'function','function':{'name':'get','description':'d','"
                        "parameters':{'type':'object'}}},{'type':'function','function':{'name':'"
                        "now','parameters':{'type':'object','properties':{}}}}]");
    conversation_expect(
        "{'input':'hi','tool_choice':'none','tools':[{'type':'function','name':'get'}]}", true,
        NULL);
}

CASE(wrong_requests_are_refused_by_field) {
    static const struct refusal cases[] = {
        {"{'model':null}", "input", "is required"},
        {"{'input':7}", "input", "got 7"},
        {"{'input':[]}", "input", "empty"},
        {"{'input':[7]}", "input[0]", "got 7"},
        {"{'input':[{'content':'a'}]}", "input[0].role", "is required"},
        {"{'input':[{'role':'tool','content':'a'}]}", "input[0].role", "'tool'"},
        {"{'input':[{'role':'user'}]}", "input[0].content", "is required"},
        {"{'input':[{'role':'user','content':[{'type':'input_image'}]}]}",
         "input[0].content[0].type", "'input_image' is not supported: the model reads text alone"},
        {"{'input':[{'role':'user','content':[{'type':'input_text'}]}]}",
         "input[0].content[0].text", "is required"},
        {"{'input':[{'type':'item_reference'}]}", "input[0].id", "is required"},
        {"{'input':[{'type':'function_call','name':'x'}]}", "input[0].call_id", "is required"},
        {"{'input':[{'type':'function_call','call_id':'x','name':'f','arguments':''},{'type':'"
         "function_call_output','call_id':'x'}]}",
         "input[1].output", "is required"},
        {"{'input':[{'type':'function_call_output','call_id':'x','output':'a'}]}",
         "input[0].call_id", "'x' is the id of no call before this result"},
        {"{'input':[{'type':'custom_tool_call_output','call_id':'y','output':'a'}]}",
         "input[0].call_id", "'y' is the id of no call before this result"},
        {"{'input':[{'type':'reasoning','summary':[3]}]}", "input[0].summary[0]", "got 3"},
        {"{'input':'a','instructions':[]}", "instructions", "expected a string"},
        {"{'input':'a','tools':[{'type':'web_search'}]}", "tools[0].type", "'web_search'"},
        {"{'input':'a','tools':[{'type':'function'}]}", "tools[0].name", "is required"},
        {"{'input':'a','tools':[{'type':'custom'}]}", "tools[0].name", "missing"},
        {"{'input':'a','tool_choice':'required'}", "tool_choice", "there are no tools"},
        {"{'input':'a','tool_choice':{'type':'mcp'}}", "tool_choice.type", "'mcp'"},
        {"{'input':'a','previous_response_id':1}", "previous_response_id", "expected a string"},
        {"{'input':'a','conversation':'conv_1'}", "conversation", "conv_1"},
        {"{'input':'a','background':true}", "background", "true"},
        {"{'input':'a','prompt':{'id':'p'}}", "prompt", "not supported"},
        {"{'input':'a','truncation':'auto'}", "truncation", "'auto'"},
        {"{'input':'a','text':{'format':{'type':'xml'}}}", "text.format.type", "'xml'"},
        {"{'input':'a','text':{'format':{'type':'json_schema','schema':{'not':{}}}}}",
         "text.format.schema", "text.format.schema: /not: "},
        {"{'input':'a','metadata':{'k':1}}", "metadata.k", "got 1"},
        {"{'input':'a','reasoning':'high'}", "reasoning", "'high'"},
        {"{'input':'a','reasoning':{'summary':'long'}}", "reasoning.summary", "got 'long'"},
        {"{'input':'a','include':[1]}", "include[0]", "got 1"},
        {"{'input':'a','max_output_tokens':0}", "max_output_tokens", "0 "},
    };
    expect_refusals(responses_prepare, cases);
    const json_t *unknown =
        answered(responses_prepare, "{'input':'a','previous_response_id':'resp_1','store':true}",
                 404);
    expect_json(unknown, "error.code", "'previous_response_not_found'");
    unknown = answered(responses_prepare, "{'input':[{'type':'item_reference','id':'x'}]}", 404);
    assert_string_equal(string_at(unknown, "error.message"), "Item with id 'x' not found.");
}

// ---------------------------------------------------------------- answers

static struct call *prepare(const char *body) { return call_prepared(responses_prepare, body); }

CASE(whole_answers_have_items_by_kind) {
    static const struct piece pieces[] = {
        {PART_REASONING, "hm"}, {PART_CONTENT, "a\"b"},
        {PART_TOOL, "get"},     {PART_TOOL_ARGUMENTS, "{\"x\":1}"},
        {PART_TOOL_END, ""},
    };
    struct call *call = prepare("{'input':'hi'}");
    const int n_ids = (int)call->generation->prompt[0].n_ids;
    const json_t *answer = answer_of(answer_play(call, pieces, 5, RN_FINISH_STOP, NULL));
    expect_rows(answer, {"id", "'resp_0123456789abcdef01234567'"}, {"object", "'response'"},
                {"created_at", "1700000001"}, {"status", "'completed'"}, {"error", "null"},
                {"incomplete_details", "null"},
                {"output.0",
                 "{'id':'rs_0123456789abcdef01234567_0','type':'reasoning','summary':[],'content':["
                 "{'type':'reasoning_text','text':'hm'}],'status':'completed'}"},
                {"output.1", "{'id':'msg_0123456789abcdef01234567_1','type':'message','role':'"
                             "assistant','status':'completed','content':[{'type':'output_text','"
                             "annotations':[],'logprobs':[],'text':'a\\\"b'}]}"},
                {"output.2",
                 "{'id':'fc_0123456789abcdef01234567_2','type':'function_call','call_id':'call_0','"
                 "name':'get','arguments':'{\\\"x\\\":1}','status':'completed'}"},
                {"usage.input_tokens_details.cached_tokens", "3"}, {"usage.output_tokens", "7"},
                {"usage.output_tokens_details.reasoning_tokens", "2"});
    assert_int_equal(size_at(answer, "output"), 3);
    assert_int_equal(number_at(answer, "usage.input_tokens"), n_ids);
    assert_int_equal(number_at(answer, "usage.total_tokens"), n_ids + 7);
    assert_true(json_is_object(at_path(answer, "timings")));
}

// The summary is the reasoning itself.
CASE(a_summary_takes_the_place_of_the_reasoning) {
    static const struct piece pieces[] = {{PART_REASONING, "h"},
                                          {PART_REASONING, "m"},
                                          {PART_CONTENT, "a"}};
    static const char *const asks[] = {"'summary':'auto'", "'generate_summary':'concise'"};
    char body[128];
    for (int i = 0; i < 2; i++) {
        snprintf(body, sizeof body, "{'input':'hi','reasoning':{%s}}", asks[i]);
        expect_json(answer_of(answer_play(prepare(body), pieces, 3, RN_FINISH_STOP, NULL)),
                    "output.0",
                    "{'id':'rs_0123456789abcdef01234567_0','type':'reasoning','summary':[{'type':"
                    "'summary_text','text':'hm'}],'content':[],'status':'completed'}");
    }
    struct call *call = prepare("{'input':'hi','stream':true,'reasoning':{'summary':'detailed'}}");
    const json_t *events = events_of(answer_play(call, pieces, 3, RN_FINISH_STOP, NULL), false);
    expect_rows(events, {"2.item.summary", "[]"}, {"2.item.content", "[]"},
                {"3.type", "'response.reasoning_summary_part.added'"},
                {"3.part", "{'type':'summary_text','text':''}"}, {"3.summary_index", "0"},
                {"4.type", "'response.reasoning_summary_text.delta'"}, {"4.delta", "'h'"},
                {"5.delta", "'m'"}, {"5.summary_index", "0"},
                {"6.type", "'response.reasoning_summary_text.done'"}, {"6.text", "'hm'"},
                {"7.type", "'response.reasoning_summary_part.done'"}, {"7.part.text", "'hm'"},
                {"8.item.summary.0.text", "'hm'"});
    assert_null(json_object_get(json_array_get(events, 4), "content_index"));
    expect_json(json_array_get(events, json_array_size(events) - 1), "response.reasoning.summary",
                "'detailed'");
}

// References may leave out their type. All of a request's search no more than a body may have.
CASE(a_reference_is_the_item_of_a_kept_response) {
    static const char input[] = "{\"id\":\"item_kept_0\",\"type\":\"message\",\"role\":\"user\","
                                "\"content\":\"q\"}\n",
                      output[] =
                          "{\"id\":\"rs_kept_0\",\"type\":\"reasoning\",\"summary\":[{\"type\":"
                          "\"summary_text\",\"text\":\"hm\"}],\"content\":[]}\n";
    static const char body[] = "{'input':[{'id':'item_kept_0'},{'id':'rs_kept_0','type':"
                               "'item_reference'},{'role':'assistant','content':'a'}]}";
    struct turn turn = {.id = "resp_kept",
                        .input_len = sizeof input - 1,
                        .output_len = sizeof output - 1};
    jbuf_text(&turn.text, input);
    jbuf_text(&turn.text, output);
    server.turns = turns_create(2, 1 << 20);
    turns_keep(server.turns, &turn);
    server.config.body_bytes_max = sizeof input + sizeof output;
    struct call *call = call_new(body);
    assert_true(responses_references(call, call_json(call)));
    expect_rows(call_json(call), {"input.0.content", "'q'"}, {"input.1.summary.0.text", "'hm'"},
                {"input.2.content", "'a'"});
    server.config.body_bytes_max = sizeof input;
    expect_refusal(responses_prepare, body, "input[1].id", "too large");
    turns_destroy(server.turns);
    server.turns = NULL;
}

CASE(counted_tokens_are_those_of_the_prompt) {
    const size_t n_ids = prepare("{'input':'hi'}")->generation->prompt[0].n_ids;
    const json_t *answer = answered(responses_count, "{'input':'hi'}", 200);
    expect_json(answer, "object", "'response.input_tokens'");
    assert_int_equal(number_at(answer, "input_tokens"), n_ids);
    expect_refusal(responses_count, "{'input':7}", "input", "got 7");
    expect_refusal(responses_count, "{'input':'a','conversation':'c'}", "conversation", "c");
}

CASE(answers_that_are_cut_are_incomplete) {
    static const struct piece pieces[] = {{PART_REASONING, "hm"}, {PART_CONTENT, "a"}};
    struct call *call = prepare("{'input':'hi'}");
    expect_rows(answer_of(answer_play(call, pieces, 2, RN_FINISH_LENGTH, NULL)),
                {"status", "'incomplete'"},
                {"incomplete_details", "{'reason':'max_output_tokens'}"},
                {"output.0.status", "'completed'"}, {"output.1.status", "'incomplete'"});
}

CASE(empty_answers_have_an_empty_message) {
    struct call *call = prepare("{'input':'hi'}");
    const json_t *answer = answer_of(answer_play(call, NULL, 0, RN_FINISH_STOP, NULL));
    assert_int_equal(size_at(answer, "output"), 1);
    expect_json(answer, "output.0.content.0.text", "''");
}

CASE(responses_repeat_what_was_asked_for) {
    struct call *call = prepare(
        "{'input':'hi','instructions':'be "
        "kind','metadata':{'k':'v'},'max_output_tokens':99,'parallel_tool_calls':false,'"
        "temperature':0.5,'top_p':0.25,'tool_choice':'none','tools':[{'type':'function','name':'"
        "get','parameters':{'x':[1]}}],'reasoning':{'effort':'low'},'text':{'format':{'type':'text'"
        "},'verbosity':'low'},'store':true,'prompt_cache_key':'key','user':'me'}");
    assert_int_equal(call->generation->params.max_tokens, 99);
    expect_rows(answer_of(answer_play(call, NULL, 0, RN_FINISH_STOP, NULL)),
                {"instructions", "'be kind'"}, {"metadata", "{'k':'v'}"},
                {"max_output_tokens", "99"}, {"parallel_tool_calls", "false"},
                {"temperature", "0.5"}, {"top_p", "0.25"}, {"tool_choice", "'none'"},
                {"tools", "[{'type':'function','name':'get','parameters':{'x':[1]}}]"},
                {"reasoning", "{'effort':'low','summary':null}"},
                {"text", "{'format':{'type':'text'},'verbosity':'low'}"},
                {"prompt_cache_key", "'key'"}, {"user", "'me'"}, {"store", "false"});
    call = prepare("{'input':'hi','text':{'format':{'type':'json_object'}}}");
    expect_rows(answer_of(answer_play(call, NULL, 0, RN_FINISH_STOP, NULL)),
                {"text", "{'format':{'type':'json_object'}}"}, {"tool_choice", "'auto'"});
}

// ---------------------------------------------------------------- streams

// A client's record of the open item.
struct snapshot {
    json_t *output; // items that are done
    const char *id; // of the open item; NULL: none
    int index;
    struct jbuf text;
    struct jbuf parts[PART_TOOL_ARGUMENTS + 1]; // all deltas by their kind
};

static void added_apply(struct snapshot *snapshot, const json_t *event) {
    check(!snapshot->id, "an item begins in another");
    assert_int_equal(number_at(event, "output_index"), snapshot->index);
    expect_json(event, "item.status", "'in_progress'");
    snapshot->id = json_string_value(at_path(event, "item.id"));
    assert_non_null(snapshot->id);
}

static void delta_apply(struct snapshot *snapshot, const json_t *event, enum answer_part part) {
    const char *delta = json_string_value(json_object_get(event, "delta"));
    check(delta && *delta, "an empty delta");
    jbuf_text(&snapshot->text, delta);
    jbuf_text(&snapshot->parts[part], delta);
}

// The text that an event repeats must be the deltas'.
static void text_check(const struct snapshot *snapshot, const json_t *text) {
    check(json_is_string(text) && json_string_length(text) == snapshot->text.len &&
              !memcmp(json_string_value(text), snapshot->text.len ? snapshot->text.data : "",
                      snapshot->text.len),
          "%s: %s", snapshot->id, json_string_value(text));
}

static void item_done_apply(struct snapshot *snapshot, const json_t *event) {
    json_t *item = at_path(event, "item");
    const bool is_call = !strcmp(json_string_value(at_path(item, "type")), "function_call");
    check(!strcmp(json_string_value(at_path(item, "id")), snapshot->id), "%s", snapshot->id);
    text_check(snapshot, at_path(item, is_call ? "arguments" : "content.0.text"));
    json_array_append(snapshot->output, item);
    jbuf_clear(&snapshot->text);
    snapshot->id = NULL;
    snapshot->index++;
}

static void event_apply(struct snapshot *snapshot, const json_t *event) {
    static const struct {
        const char *type;
        enum answer_part part;
    } deltas[] = {
        {"response.output_text.delta", PART_CONTENT},
        {"response.reasoning_text.delta", PART_REASONING},
        {"response.function_call_arguments.delta", PART_TOOL_ARGUMENTS},
    };
    const char *type = json_string_value(json_object_get(event, "type"));
    const char *id = json_string_value(json_object_get(event, "item_id"));
    check(!id || (snapshot->id && !strcmp(id, snapshot->id)), "%s: of %s", type, id);
    if (id) assert_int_equal(number_at(event, "output_index"), snapshot->index);
    for (int i = 0; i < 3; i++) {
        if (strcmp(type, deltas[i].type) != 0) continue;
        delta_apply(snapshot, event, deltas[i].part);
        return;
    }
    if (!strcmp(type, "response.output_item.added")) {
        added_apply(snapshot, event);
    } else if (!strcmp(type, "response.content_part.added")) {
        expect_json(event, "part.text", "''");
    } else if (!strcmp(type, "response.content_part.done")) {
        text_check(snapshot, at_path(event, "part.text"));
    } else if (!strcmp(type, "response.output_text.done") ||
               !strcmp(type, "response.reasoning_text.done")) {
        text_check(snapshot, at_path(event, "text"));
    } else if (!strcmp(type, "response.function_call_arguments.done")) {
        text_check(snapshot, at_path(event, "arguments"));
    } else {
        check(!strcmp(type, "response.output_item.done"), "unexpected %s", type);
        item_done_apply(snapshot, event);
    }
}

// Any row of pieces: every event in its order, deltas joined are what the done events and the final
// response say, and no piece is lost or moved.
CASE(streams_say_the_same_in_deltas_items_and_response) {
    for (int round = 0; round < 200; round++) {
        struct piece pieces[PIECES_MAX];
        const size_t n = pieces_draw(pieces);
        struct call *call = prepare("{'input':'hi','stream':true}");
        const json_t *events = events_of(answer_play(call, pieces, n, RN_FINISH_STOP, NULL), false);
        const size_t n_events = json_array_size(events);
        struct snapshot snapshot = {.output = json_keep(json_array())};
        for (size_t i = 0; i < n_events; i++) {
            const json_t *event = json_array_get(events, i);
            assert_int_equal(number_at(event, "sequence_number"), i);
            if (i > 1 && i + 1 < n_events) event_apply(&snapshot, event);
        }
        const json_t *last = json_array_get(events, n_events - 1);
        expect_rows(events, {"0.type", "'response.created'"}, {"1.type", "'response.in_progress'"});
        expect_json(last, "type", "'response.completed'");
        check(!snapshot.id, "%s was not closed", snapshot.id);
        assert_true(json_equal(at_path(last, "response.output"), snapshot.output));
        assert_true(json_array_size(snapshot.output) > 0);
        expect_joined(pieces, n, PART_CONTENT, &snapshot.parts[PART_CONTENT]);
        expect_joined(pieces, n, PART_REASONING, &snapshot.parts[PART_REASONING]);
        expect_joined(pieces, n, PART_TOOL_ARGUMENTS, &snapshot.parts[PART_TOOL_ARGUMENTS]);
        jbuf_deinit(&snapshot.text);
    }
}

// Pieces in the order that models write them give the same response both ways.
CASE(final_response_of_a_stream_is_the_whole_one) {
    static const struct piece pieces[] = {
        {PART_REASONING, "h"},      {PART_REASONING, "m"},
        {PART_CONTENT, "a"},        {PART_CONTENT, "b"},
        {PART_TOOL, "get"},         {PART_TOOL_ARGUMENTS, "{}"},
        {PART_TOOL_END, ""},        {PART_TOOL, "put"},
        {PART_TOOL_ARGUMENTS, "{"}, {PART_TOOL_ARGUMENTS, "\"x\""},
    };
    static const rn_finish finishes[] = {RN_FINISH_STOP, RN_FINISH_LENGTH};
    for (int i = 0; i < 2; i++) {
        struct call *call = prepare("{'input':'hi'}");
        json_t *whole = (json_t *)answer_of(answer_play(call, pieces, 10, finishes[i], NULL));
        call = prepare("{'input':'hi','stream':true}");
        const json_t *events = events_of(answer_play(call, pieces, 10, finishes[i], NULL), false);
        const json_t *last = json_array_get(events, json_array_size(events) - 1);
        expect_json(last, "type", i ? "'response.incomplete'" : "'response.completed'");
        json_t *response = at_path(last, "response");
        expect_rows(response, {"output.2.status", "'completed'"},
                    {"output.3.status", "'incomplete'"}); // its arguments have no end
        json_object_del(response, "completed_at");
        json_object_del(whole, "completed_at");
        assert_true(json_equal(response, whole));
    }
}

CASE(a_function_call_is_done_when_its_arguments_are) {
    static const struct piece pieces[] = {{PART_TOOL, "get"},
                                          {PART_TOOL_ARGUMENTS, "{}"},
                                          {PART_TOOL_END, ""}};
    struct call *call = prepare("{'input':'hi','stream':true}");
    for (int i = 0; i < 3; i++)
        part_feed(call, &call->generation->choice[0], pieces[i].part, pieces[i].text,
                  strlen(pieces[i].text));
    expect_rows(events_of(call, false), {"0.type", "'response.output_item.added'"},
                {"1.delta", "'{}'"}, {"2.type", "'response.function_call_arguments.done'"},
                {"2.arguments", "'{}'"}, {"3.type", "'response.output_item.done'"},
                {"3.item.status", "'completed'"});
}

CASE(logprobs_are_those_of_the_message) {
    struct call *call = prepare(
        "{'input':'hi','stream':true,'top_logprobs':1,'include':['message.output_text.logprobs']}");
    assert_true(call->generation->params.logprobs);
    assert_int_equal(call->generation->params.top_logprobs, 1);
    struct generation_choice *choice = &call->generation->choice[0];
    static const struct piece pieces[] = {{PART_REASONING, "hm"},
                                          {PART_CONTENT, "a"},
                                          {PART_CONTENT, "b"}};
    for (int i = 0; i < 3; i++) {
        token_add(call, choice, 40 + 2 * i);
        token_add(call, choice, 41 + 2 * i);
        part_feed(call, choice, pieces[i].part, pieces[i].text, strlen(pieces[i].text));
        assert_int_equal(choice->n_logprob, 0);
    }
    token_add(call, choice, 60); // the end's token has no text
    const json_t *events = events_of(answer_play(call, NULL, 0, RN_FINISH_STOP, NULL), false);
    json_t *joined = json_keep(json_array());
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event) {
        const char *type = string_at(event, "type");
        json_t *logprobs = json_object_get(event, "logprobs");
        if (!strcmp(type, "response.output_text.delta")) json_array_extend(joined, logprobs);
        if (strcmp(type, "response.output_text.done") != 0) continue;
        assert_int_equal(json_array_size(joined), 4);
        json_array_append(joined, json_array_get(logprobs, 4));
        assert_true(json_equal(joined, logprobs));
        expect_rows(logprobs, {"0.logprob", "-1.5"}, {"0.top_logprobs.0.logprob", "-0.5"});
    }
    assert_true(json_equal(joined, at_path(json_array_get(events, i - 1),
                                           "response.output.1.content.0.logprobs")));
    assert_false(prepare("{'input':'hi','top_logprobs':5}")->generation->params.logprobs);
}

CASE(errors_end_a_stream_as_a_failed_response) {
    struct call *call = prepare("{'input':'hi','stream':true}");
    answer_begin(call);
    const struct failure failure = {500, NULL, NULL, "it \"broke\""};
    call->generation->writer->error(call, &failure);
    expect_rows(events_of(call, false), {"2.type", "'response.failed'"},
                {"2.response.status", "'failed'"},
                {"2.response.error", "{'code':'server_error','message':'it \\\"broke\\\"'}"});
}

TEST_PROGRAM(responses) { return cases_run(setup, close_server); }
