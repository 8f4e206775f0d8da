// The shapes of generations: every route compiles what its request asks for, and an error names the
// field and the place that the client wrote.
#include "calls.h"

#define HERMES "{% if tools %}{{ tools | tojson }}<tool_call>\\n{% endif %}" PLAIN_TEMPLATE

static int setup(void **state) { return server_open(state, HERMES); }

#define CHAT     "'messages':[{'role':'user','content':'Hi'}]"
#define MESSAGES "'max_tokens':9," CHAT
#define SCHEMA   "{'type':'object','properties':{'a':{'type':'integer'}}}"
#define BAD      "{'type':'object','properties':{'a':{'not':{}}}}"
#define FUNCTION(name, more, schema)                                                               \
    "{'type':'function','function':{'name':'" name "'" more ",'parameters':" schema "}}"
#define FLAT(name, more, key, schema)                                                              \
    "{'type':'function','name':'" name "'" more ",'" key "':" schema "}"
#define FORMAT(schema)                                                                             \
    "'response_format':{'type':'json_schema','json_schema':{'name':'x','schema':" schema "}}"

CASE(every_route_compiles_its_shape) {
    static const struct {
        call_handler handler;
        const char *body;
        bool is_shaped;
    } rows[] = {
        {chat_prepare, "{" CHAT "}", false},
        {chat_prepare, "{" CHAT "," FORMAT(SCHEMA) "}", true},
        {chat_prepare, "{" CHAT ",'response_format':{'type':'text'}}", false},
        {completions_prepare, "{'prompt':'a','guided_regex':'a+'}", true},
        {completions_prepare, "{'prompt':'a'}", false},
        {native_prepare, "{'prompt':'a','grammar':'root ::= [a-z]+'}", true},
        {native_prepare, "{'prompt':'a','json_schema':{}}", true},
        {responses_prepare,
         "{'input':'a','text':{'format':{'type':'json_schema','name':'x','schema':" SCHEMA "}}}",
         true},
        {messages_prepare,
         "{" MESSAGES ",'output_config':{'format':{'type':'json_schema','schema':" SCHEMA "}}}",
         true},
        {chat_prepare, "{" CHAT ",'tools':[" FUNCTION("f", "", SCHEMA) "]}", false},
        {chat_prepare,
         "{" CHAT ",'tools':[" FUNCTION("f", "", SCHEMA) "],'tool_choice':'required'}", true},
        {chat_prepare, "{" CHAT ",'tools':[" FUNCTION("f", ",'strict':true", SCHEMA) "]}", true},
        {chat_prepare,
         "{" CHAT ",'tools':[" FUNCTION("f", ",'strict':true", SCHEMA) "],'tool_choice':'none'}",
         false},
        {chat_prepare,
         "{" CHAT ",'tools':[" FUNCTION("f", "", SCHEMA) "],'parallel_tool_calls':false}", true},
        {chat_prepare, "{" CHAT ",'tools':[" FUNCTION("f", "", SCHEMA) "]," FORMAT(SCHEMA) "}",
         true},
        {responses_prepare,
         "{'input':'a','tools':[" FLAT("f", "", "parameters",
                                       SCHEMA) "],'tool_choice':"
                                               "{'type':'function','name':'f'}}",
         true},
        {messages_prepare,
         "{" MESSAGES ",'tools':[{'name':'f','input_schema':" SCHEMA "}],'tool_choice':"
         "{'type':'any'}}",
         true},
        // a schema that is not supported, of a tool that may be called and is not strict
        {chat_prepare,
         "{" CHAT
         ",'tools':[" FUNCTION("f", "", BAD) "," FUNCTION("g", ",'strict':true", SCHEMA) "]}",
         true},
        {chat_prepare,
         "{" CHAT ",'tools':[" FUNCTION("f", ",'strict':false", BAD) "],'tool_choice':'required'}",
         true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct call *call = call_prepared(rows[i].handler, rows[i].body);
        check((call->generation->compiled != NULL) == rows[i].is_shaped, "%s", rows[i].body);
    }
}

// A call whose shape was compiled for an earlier call does not wait for compilations.
CASE(a_kept_shape_is_there_when_the_handler_has_run) {
    static const char *const bodies[] = {
        "{" CHAT ",'guided_regex':'kept[0-9]+'}",
        "{" CHAT ",'tools':[" FUNCTION("kept", ",'strict':true", SCHEMA) "]}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct call *first = call_new(bodies[i]), *second = call_new(bodies[i]);
        chat_prepare(first);
        assert_true(generation_shape_due(first) > 0 && !first->generation->compiled);
        generation_shape_compile(first);
        chat_prepare(second);
        assert_true(!generation_shape_due(second) && second->generation->compiled);
    }
}

CASE(errors_name_the_place_that_the_client_wrote) {
    static const struct refusal chat[] = {
        {"{" CHAT "," FORMAT(BAD) "}", "response_format.json_schema.schema",
         "response_format.json_schema.schema: /properties/a/not: "},
        {"{" CHAT ",'guided_regex':'(?=a)'}", "guided_regex", "guided_regex: offset "},
        {"{" CHAT
         ",'tools':[" FUNCTION("g", "", SCHEMA) "," FUNCTION("f", ",'strict':true", BAD) "]}",
         "tools[1].function.parameters", "tools[1].function.parameters: /properties/a/not: "},
        {"{" CHAT ",'tools':[" FUNCTION("g", "", SCHEMA) "," FUNCTION(
             "f", "", BAD) "],'tool_choice':{'type':'function','function':{'name':'f'}}}",
         "tools[1].function.parameters", ": /properties/a/not: "},
        {"{" CHAT ",'tools':[" FUNCTION("f", "", SCHEMA) "]," FORMAT(BAD) "}",
         "response_format.json_schema.schema", "schema: /properties/a/not: "},
        {"{" CHAT
         ",'tools':[" FUNCTION("f", "",
                               SCHEMA) "],'response_format':"
                                       "{'type':'structural_tag','structures':[],'triggers':[]}}",
         "response_format", "needs a format"},
    };
    static const struct refusal responses[] = {
        {"{'input':'a','tools':[" FLAT("f", ",'strict':true", "parameters", BAD) "]}",
         "tools[0].parameters", ": /properties/a/not: "},
    };
    expect_refusals(chat_prepare, chat);
    expect_refusals(responses_prepare, responses);
}

// The server's template is another one until the next use.
static void template_use(const char *source) {
    rn_chat_template_destroy(tmpl);
    assert_int_equal(rn_chat_template_create(model, source, &tmpl, NULL), RN_OK);
    served.tmpl = tmpl;
    served.tmpl_source = source;
    served.marks = answer_marks_of(source);
}

CASE(tools_need_a_template_that_knows_them) {
    static const struct refusal unknown[] = {
        {"{" CHAT ",'tools':[" FUNCTION("f", "", SCHEMA) "]}", "tools", "knows no tools"},
        {"{" CHAT ",'tools':[" FUNCTION("f", "", SCHEMA) "],'tool_choice':'required'}", "tools",
         "knows no tools"},
    };
    static const struct refusal unread[] = {
        {"{" CHAT ",'tools':[" FUNCTION("f", "", SCHEMA) "],'tool_choice':'required'}",
         "tool_choice", "a form that is not known"},
        {"{" CHAT ",'tools':[" FUNCTION("f", ",'strict':true", SCHEMA) "]}", "tools",
         "a form that is not known"},
    };
    template_use("{% for m in messages %}{{ m.content }}{% endfor %}");
    expect_refusals(chat_prepare, unknown);
    call_prepared(chat_prepare,
                  "{" CHAT ",'tools':[" FUNCTION("f", "", SCHEMA) "],'tool_choice':'none'}");
    template_use(PLAIN_TEMPLATE);
    expect_refusals(chat_prepare, unread);
    struct call *call = call_prepared(
        chat_prepare,
        "{" CHAT
        ",'tools':[" FUNCTION("f", "", SCHEMA) "],'parallel_tool_calls':false," FORMAT(SCHEMA) "}");
    assert_non_null(call->generation->compiled);
    template_use(HERMES);
}

CASE(the_prompt_may_have_closed_the_reasoning) {
    static const char body[] = "{" CHAT "," FORMAT(SCHEMA) "}";
    template_use(PLAIN_TEMPLATE "{% if false %}<think>{% endif %}");
    assert_false(call_prepared(chat_prepare, body)->generation->has_reasoned);
    template_use(PLAIN_TEMPLATE "<think>\n\n</think>\n\n");
    assert_true(call_prepared(chat_prepare, body)->generation->has_reasoned);
    template_use(HERMES);
}

// In every style of arguments.
CASE(tools_that_are_not_strict_take_any_object_where_their_schema_is_not_supported) {
    static const char *const templates[] = {
        PLAIN_TEMPLATE "{# <tool_call> <function= #}",
        PLAIN_TEMPLATE "{# <|tool_call_start|> #}",
        PLAIN_TEMPLATE "{# <|tool_call> #}",
    };
    static const char body[] =
        "{" CHAT ",'tools':[" FUNCTION("f", "", BAD) "],'parallel_tool_calls':false}";
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        template_use(templates[i]);
        assert_non_null(call_prepared(chat_prepare, body)->generation->compiled);
    }
    template_use(HERMES);
}

// Each refusal costs a compilation: behind a few of them no schema is tried that need not be.
CASE(many_schemas_that_are_not_supported_cost_few_compilations) {
#define TWO FUNCTION("f", "", BAD) "," FUNCTION("g", "", BAD)
#define WITH(more)                                                                                 \
    "{" CHAT ",'tools':[" FUNCTION("e", "", SCHEMA) "," TWO more "],'parallel_tool_calls':false}"
    template_use(PLAIN_TEMPLATE "{# <tool_call> #}"); // the prompt stays short
    const struct call *few = call_prepared(chat_prepare, WITH(""));
    assert_false(few->generation->tool_choice.rule[0].loose);
    const struct call *many = call_prepared(chat_prepare, WITH("," TWO "," TWO));
    assert_true(many->generation->tool_choice.rule[0].loose);
    template_use(HERMES);
#undef TWO
#undef WITH
}

// A strict schema without properties is no word for the empty object.
CASE(schemas_without_properties_are_kept) {
#define STRICT(schema)                                                                             \
    "{" CHAT ",'tools':[" FUNCTION("f", ",'strict':true", schema) "],'tool_choice':'required'}"
    static const struct refusal cases[] = {
        {STRICT("{'type':'string'}"), "tools[0].function.parameters", ": /type: "},
        {STRICT("{'not':{'type':'object'}}"), "tools[0].function.parameters", ": /not: "},
    };
    expect_refusals(chat_prepare, cases);
    call_prepared(chat_prepare, STRICT("{'type':['object','null'],'properties':{}}"));
    call_prepared(chat_prepare, STRICT("{'const':{'a':1}}"));
#undef STRICT
}

// Marks around the text are ours: an error shows the client's part of the pointer.
CASE(shapes_between_marks_have_the_clients_pointers) {
    static const struct refusal bad[] = {
        {"{" CHAT "," FORMAT(BAD) "}", "response_format.json_schema.schema",
         "schema: /properties/a/not: "},
    };
    template_use(PLAIN_TEMPLATE "{# <|channel|> #}");
    expect_refusals(chat_prepare, bad);
    assert_non_null(
        call_prepared(chat_prepare, "{" CHAT "," FORMAT(SCHEMA) "}")->generation->compiled);
    template_use(HERMES);
}

TEST_PROGRAM(generation_shape) { return cases_run(setup, close_server); }
