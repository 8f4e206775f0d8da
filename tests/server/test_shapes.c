// The fields that ask for a shape, and those that say which tools are called: what each becomes,
// and the name in every refusal.
#include "shapes.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "json_at.h"
#include "tool_choice.h"

enum { ALL = FAMILY_ANY };

struct world {
    struct server server;
    struct call call;
    bool ok;
    struct shape shape;
    struct tool_choice choice;
};

// The body has ' for ".
static struct world *world_of(const char *body) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->call.server = &world->server;
    world->call.body = json_quoted(body);
    world->call.body_len = strlen(body);
    check(call_json(&world->call), "%s", body);
    return world;
}

static void world_destroy(struct world *world) {
    shape_deinit(&world->shape);
    tool_choice_deinit(&world->choice);
    json_decref(world->call.json);
    jbuf_deinit(&world->call.out);
    free(world->call.body);
    free(world);
}

static struct world *shape_world(const char *body, unsigned family) {
    struct world *world = world_of(body);
    world->ok = shape_read(&world->call, world->call.json, (enum family)family, &world->shape);
    return world;
}

static struct world *choice_world(const char *body, unsigned family) {
    struct world *world = world_of(body);
    world->ok =
        tool_choice_read(&world->call, world->call.json, (enum family)family, &world->choice);
    return world;
}

// Refused with 400: this param, and these words in the message.
static void expect_refused(struct world *world, const char *param, const char *words) {
    const char *body = world->call.body;
    check(!world->ok && world->call.status == 400, "%s: status %d", body, world->call.status);
    json_t *answer = json_loadb(world->call.out.data, world->call.out.len, 0, NULL);
    const json_t *error = json_object_get(answer, "error");
    const char *got = json_string_value(json_object_get(error, "param"));
    const char *message = json_string_value(json_object_get(error, "message"));
    check(got && !strcmp(got, param), "%s: param %s", body, got);
    check(message && strstr(message, words), "%s: %s", body, message);
    json_decref(answer);
    world_destroy(world);
}

// ---------------------------------------------------------------- shapes

#define SCHEMA "{'type':'object','properties':{'a':{'multipleOf':0.1,'maximum':1e30}}}"
#define DUMPED "{\"type\":\"object\",\"properties\":{\"a\":{\"multipleOf\":0.1,\"maximum\":1e+30}}}"

CASE(every_field_becomes_a_source) {
    static const struct {
        unsigned families;
        const char *body;
        enum shape_kind kind;
        const char *text, *field;
    } rows[] = {
        {ALL, "{}", SHAPE_NONE, "", ""},
        {ALL, "{'response_format':{'type':'text'},'grammar':'','json_schema':null}", SHAPE_NONE, "",
         ""},
        {ALL, "{'response_format':{'type':'json_object'}}", SHAPE_OBJECT, "",
         "response_format.type"},
        {ALL, "{'response_format':{'type':'json_object','schema':" SCHEMA "}}", SHAPE_SCHEMA,
         DUMPED, "response_format.schema"},
        {ALL,
         "{'response_format':{'type':'json_schema','json_schema':{'name':'x','strict':true,"
         "'schema':" SCHEMA "}}}",
         SHAPE_SCHEMA, DUMPED, "response_format.json_schema.schema"},
        {ALL, "{'response_format':{'type':'structural_tag','format':{'type':'any_text'}}}",
         SHAPE_STRUCTURE, "{\"type\":\"structural_tag\",\"format\":{\"type\":\"any_text\"}}",
         "response_format"},
        {FAMILY_RESPONSES,
         "{'text':{'format':{'type':'json_schema','name':'x','schema':" SCHEMA "}}}", SHAPE_SCHEMA,
         DUMPED, "text.format.schema"},
        {FAMILY_RESPONSES, "{'text':{'format':{'type':'json_object'},'verbosity':'low'}}",
         SHAPE_OBJECT, "", "text.format.type"},
        {FAMILY_RESPONSES, "{'text':{'format':{'type':'text'}}}", SHAPE_NONE, "", ""},
        {FAMILY_MESSAGES, "{'output_format':{'type':'json_schema','schema':" SCHEMA "}}",
         SHAPE_SCHEMA, DUMPED, "output_format.schema"},
        {FAMILY_MESSAGES,
         "{'output_config':{'effort':'low','format':{'type':'json_schema','schema':" SCHEMA "}}}",
         SHAPE_SCHEMA, DUMPED, "output_config.format.schema"},
        {ALL, "{'structured_outputs':{'json':" SCHEMA ",'disable_any_whitespace':false}}",
         SHAPE_SCHEMA, DUMPED, "structured_outputs.json"},
        {ALL, "{'structured_outputs':{'json':'{}'}}", SHAPE_SCHEMA, "{}",
         "structured_outputs.json"},
        {ALL, "{'structured_outputs':{'regex':'a+'}}", SHAPE_REGEX, "a+",
         "structured_outputs.regex"},
        {ALL, "{'structured_outputs':{'choice':['a','b']}}", SHAPE_CHOICES, "[\"a\",\"b\"]",
         "structured_outputs.choice"},
        {ALL, "{'structured_outputs':{'grammar':'root ::= x','json_object':false}}", SHAPE_GRAMMAR,
         "root ::= x", "structured_outputs.grammar"},
        {ALL, "{'structured_outputs':{'json_object':true}}", SHAPE_OBJECT, "",
         "structured_outputs.json_object"},
        {ALL, "{'structured_outputs':{'structural_tag':'{}'}}", SHAPE_STRUCTURE, "{}",
         "structured_outputs.structural_tag"},
        {ALL, "{'structured_outputs':{}}", SHAPE_NONE, "", ""},
        {ALL, "{'structured_outputs':{'json':'{}','_backend':null,'whitespace_pattern':null}}",
         SHAPE_SCHEMA, "{}", "structured_outputs.json"},
        {ALL, "{'guided_json':" SCHEMA "}", SHAPE_SCHEMA, DUMPED, "guided_json"},
        {ALL, "{'guided_regex':'a|b','guided_choice':null}", SHAPE_REGEX, "a|b", "guided_regex"},
        {ALL, "{'guided_choice':['x']}", SHAPE_CHOICES, "[\"x\"]", "guided_choice"},
        {ALL, "{'guided_grammar':'root ::= y'}", SHAPE_GRAMMAR, "root ::= y", "guided_grammar"},
        {ALL, "{'regex':'[0-9]+'}", SHAPE_REGEX, "[0-9]+", "regex"},
        {ALL, "{'ebnf':'root ::= y'}", SHAPE_GRAMMAR, "root ::= y", "ebnf"},
        {ALL, "{'grammar':'root ::= z'}", SHAPE_GRAMMAR, "root ::= z", "grammar"},
        {ALL, "{'json_schema':{}}", SHAPE_SCHEMA, "{}", "json_schema"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (unsigned family = 1; family < ALL; family *= 2) {
            if (!(rows[i].families & family)) continue;
            struct world *world = shape_world(rows[i].body, family);
            const struct shape *shape = &world->shape;
            check(world->ok && shape->kind == rows[i].kind, "%s: kind %d", rows[i].body,
                  shape->kind);
            check(!strcmp(shape->field, rows[i].field), "%s: %s", rows[i].body, shape->field);
            const size_t len = strlen(rows[i].text);
            check(shape->text.len == len && (!len || !memcmp(shape->text.data, rows[i].text, len)),
                  "%s: %.*s", rows[i].body, (int)shape->text.len, shape->text.data);
            world_destroy(world);
        }
    }
}

CASE(what_is_no_shape_is_refused_by_its_name) {
    static const struct {
        unsigned family;
        const char *body, *param, *words;
    } rows[] = {
        {FAMILY_CHAT, "{'response_format':'json'}", "response_format", "expected an object"},
        {FAMILY_CHAT, "{'response_format':{}}", "response_format.type", "missing"},
        {FAMILY_CHAT, "{'response_format':{'type':'xml'}}", "response_format.type",
         "text|json_object|json_schema|structural_tag, got \"xml\""},
        {FAMILY_CHAT, "{'response_format':{'type':'json_schema'}}", "response_format.json_schema",
         "missing"},
        {FAMILY_CHAT, "{'response_format':{'type':'json_schema','json_schema':{'name':'a'}}}",
         "response_format.json_schema.schema", "missing"},
        {FAMILY_CHAT,
         "{'response_format':{'type':'json_schema','json_schema':{'name':'a','schema':3}}}",
         "response_format.json_schema.schema", "got 3"},
        {FAMILY_CHAT,
         "{'response_format':{'type':'json_schema','json_schema':{'strict':1,'schema':{}}}}",
         "response_format.json_schema.strict", "true or false"},
        {FAMILY_RESPONSES, "{'text':{'format':{'type':'structural_tag'}}}", "text.format.type",
         "got \"structural_tag\""},
        {FAMILY_RESPONSES, "{'text':{'format':{'type':'json_schema','name':'a'}}}",
         "text.format.schema", "missing"},
        {FAMILY_MESSAGES, "{'output_format':{'type':'json_object'}}", "output_format.type",
         "json_schema, got"},
        {FAMILY_MESSAGES, "{'output_config':{'format':{'type':'json_schema'}}}",
         "output_config.format.schema", "missing"},
        {FAMILY_CHAT, "{'structured_outputs':[]}", "structured_outputs", "an object"},
        {FAMILY_CHAT, "{'structured_outputs':{'json':[1]}}", "structured_outputs.json", "got [1]"},
        {FAMILY_CHAT, "{'structured_outputs':{'regex':''}}", "structured_outputs.regex", "empty"},
        {FAMILY_CHAT, "{'structured_outputs':{'choice':[]}}", "structured_outputs.choice", "empty"},
        {FAMILY_CHAT, "{'structured_outputs':{'choice':['a',2]}}", "structured_outputs.choice[1]",
         "got 2"},
        {FAMILY_CHAT, "{'structured_outputs':{'grammar':7}}", "structured_outputs.grammar",
         "a string"},
        {FAMILY_CHAT, "{'structured_outputs':{'schema':{}}}", "structured_outputs.schema",
         "is unknown, expected one of json|json_object|regex|choice|grammar|structural_tag"},
        {FAMILY_CHAT, "{'structured_outputs':{'json':{},'foo':1}}", "structured_outputs.foo",
         "unknown"},
        {FAMILY_CHAT, "{'structured_outputs':{'json':{},'regex':'a'}}", "structured_outputs.regex",
         "together with structured_outputs.json"},
        {FAMILY_CHAT, "{'structured_outputs':{'json':{},'whitespace_pattern':' '}}",
         "structured_outputs.whitespace_pattern", "not supported"},
        {FAMILY_CHAT, "{'structured_outputs':{'json':{},'disable_any_whitespace':true}}",
         "structured_outputs.disable_any_whitespace", "not supported"},
        {FAMILY_CHAT, "{'structured_outputs':{'json':{},'disable_additional_properties':true}}",
         "structured_outputs.disable_additional_properties", "not supported"},
        {FAMILY_CHAT, "{'guided_choice':'a'}", "guided_choice", "an array"},
        {FAMILY_NATIVE, "{'grammar':'a','json_schema':{}}", "grammar", "together with json_schema"},
        {FAMILY_NATIVE, "{'grammar':{}}", "grammar", "a string"},
        {FAMILY_CHAT, "{'response_format':{'type':'json_object'},'guided_regex':'a'}",
         "guided_regex", "together with response_format.type"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_refused(shape_world(rows[i].body, rows[i].family), rows[i].param, rows[i].words);
}

static void expect_format(const char *body, const char *want) {
    struct world *world = shape_world(body, FAMILY_CHAT);
    struct jbuf out = {0};
    check(shape_format_put(&world->shape, &out) == (want != NULL), "%s", body);
    char *text = json_quoted(want ? want : "");
    check(!want || (out.len == strlen(text) && !memcmp(out.data, text, out.len)), "%s: %.*s", body,
          (int)out.len, out.data);
    free(text);
    jbuf_deinit(&out);
    world_destroy(world);
}

CASE(every_shape_can_be_a_part_of_a_structure) {
    expect_format("{'json_schema':{'a':0.25}}", "{'type':'json_schema','json_schema':{'a':0.25}}");
    expect_format("{'response_format':{'type':'json_object'}}",
                  "{'type':'json_schema','json_schema':{'type':'object'}}");
    expect_format("{'guided_regex':'a'}", "{'type':'regex','pattern':'a'}");
    expect_format("{'grammar':'a'}", "{'type':'grammar','grammar':'a'}");
    expect_format("{'guided_choice':['a','b']}",
                  "{'type':'or','elements':[{'type':'const_string','value':'a'},"
                  "{'type':'const_string','value':'b'}]}");
    expect_format("{'response_format':{'type':'structural_tag','format':{'type':'any_text'}}}",
                  "{'type':'any_text'}");
    expect_format("{'response_format':{'type':'structural_tag','structures':[],'triggers':[]}}",
                  NULL);
}

// ---------------------------------------------------------------- tools

#define FUNCTION(name) "{'type':'function','function':{'name':'" name "'}}"
#define CHAT_TOOLS                                                                                 \
    "'tools':[" FUNCTION("f") ",{'type':'function','function':{'name':'g','strict':true}}]"
#define FLAT_TOOLS "'tools':[{'type':'function','name':'f','strict':false},{'name':'g'}]"

CASE(every_choice_of_tools_is_read) {
    static const struct {
        unsigned family;
        const char *body;
        enum tool_mode mode;
        bool parallel, shapes;
        const char *allowed; // a letter for each tool: allowed, strict (s), loose (l); '-': not
    } rows[] = {
        {FAMILY_CHAT, "{}", TOOLS_AUTO, true, false, ""},
        {FAMILY_CHAT, "{" CHAT_TOOLS "}", TOOLS_AUTO, true, true, "as"},
        {FAMILY_CHAT, "{'tools':[" FUNCTION("f") "]}", TOOLS_AUTO, true, false, "a"},
        {FAMILY_CHAT, "{'tools':[" FUNCTION("f") "],'parallel_tool_calls':false}", TOOLS_AUTO,
         false, true, "a"},
        {FAMILY_CHAT, "{" CHAT_TOOLS ",'tool_choice':'none'}", TOOLS_NONE, true, false, "as"},
        {FAMILY_CHAT, "{" CHAT_TOOLS ",'tool_choice':'required'}", TOOLS_REQUIRED, true, true,
         "as"},
        {FAMILY_CHAT, "{" CHAT_TOOLS ",'tool_choice':" FUNCTION("f") "}", TOOLS_REQUIRED, false,
         true, "a-"},
        {FAMILY_CHAT,
         "{" CHAT_TOOLS ",'tool_choice':{'type':'allowed_tools','allowed_tools':{'mode':'auto',"
         "'tools':[" FUNCTION("f") "]}}}",
         TOOLS_AUTO, true, true, "a-"},
        {FAMILY_CHAT,
         "{'tools':[" FUNCTION("f") "," FUNCTION("h") "],'tool_choice':{'type':'allowed_tools',"
                                                      "'mode':'auto','tools':[" FUNCTION("h") "]}}",
         TOOLS_AUTO, true, true, "-a"},
        {FAMILY_RESPONSES, "{" FLAT_TOOLS ",'tool_choice':{'type':'function','name':'g'}}",
         TOOLS_REQUIRED, false, true, "-a"},
        {FAMILY_RESPONSES,
         "{" FLAT_TOOLS ",'tool_choice':{'type':'allowed_tools','mode':'required',"
         "'tools':[{'type':'function','name':'f'}]},'parallel_tool_calls':false}",
         TOOLS_REQUIRED, false, true, "l-"},
        {FAMILY_MESSAGES, "{" FLAT_TOOLS ",'tool_choice':{'type':'auto'}}", TOOLS_AUTO, true, false,
         "la"},
        {FAMILY_MESSAGES,
         "{" FLAT_TOOLS ",'tool_choice':{'type':'any','disable_parallel_tool_use':true}}",
         TOOLS_REQUIRED, false, true, "la"},
        {FAMILY_MESSAGES, "{" FLAT_TOOLS ",'tool_choice':{'type':'tool','name':'g'}}",
         TOOLS_REQUIRED, true, true, "-a"},
        {FAMILY_MESSAGES, "{" FLAT_TOOLS ",'tool_choice':{'type':'none'}}", TOOLS_NONE, true, false,
         "la"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct world *world = choice_world(rows[i].body, rows[i].family);
        const struct tool_choice *choice = &world->choice;
        check(world->ok && choice->mode == rows[i].mode && choice->parallel == rows[i].parallel,
              "%s: mode %d", rows[i].body, choice->mode);
        check(tool_choice_shapes(choice) == rows[i].shapes, "%s", rows[i].body);
        assert_int_equal(choice->n, strlen(rows[i].allowed));
        for (size_t j = 0; j < choice->n; j++) {
            const struct tool_rule *rule = &choice->rule[j];
            const char letter = !rule->allowed ? '-' : rule->strict ? 's' : rule->loose ? 'l' : 'a';
            check(letter == rows[i].allowed[j], "%s: tool %zu is %c", rows[i].body, j, letter);
        }
        world_destroy(world);
    }
}

CASE(a_choice_that_cannot_be_is_refused_by_its_name) {
    static const struct {
        unsigned family;
        const char *body, *param, *words;
    } rows[] = {
        {FAMILY_CHAT, "{'tool_choice':'required'}", "tool_choice", "there are no tools"},
        {FAMILY_CHAT, "{" CHAT_TOOLS ",'tool_choice':'any'}", "tool_choice", "got \"any\""},
        {FAMILY_CHAT, "{" CHAT_TOOLS ",'tool_choice':{}}", "tool_choice.type", "missing"},
        {FAMILY_CHAT, "{" CHAT_TOOLS ",'tool_choice':{'type':'file_search'}}", "tool_choice.type",
         "got \"file_search\""},
        {FAMILY_CHAT, "{" CHAT_TOOLS ",'tool_choice':{'type':'function'}}", "tool_choice.function",
         "missing"},
        {FAMILY_CHAT, "{" CHAT_TOOLS ",'tool_choice':" FUNCTION("h") "}",
         "tool_choice.function.name", "\"h\" is not one of the tools"},
        {FAMILY_CHAT, "{" CHAT_TOOLS ",'tool_choice':{'type':'allowed_tools'}}", "tool_choice.mode",
         "missing"},
        {FAMILY_CHAT, "{" CHAT_TOOLS ",'tool_choice':{'type':'allowed_tools','mode':'auto'}}",
         "tool_choice.tools", "missing"},
        {FAMILY_CHAT,
         "{" CHAT_TOOLS ",'tool_choice':{'type':'allowed_tools','mode':'auto','tools':[{}]}}",
         "tool_choice.tools[0].type", "missing"},
        {FAMILY_CHAT, "{" CHAT_TOOLS ",'parallel_tool_calls':1}", "parallel_tool_calls",
         "true or false"},
        {FAMILY_RESPONSES, "{" FLAT_TOOLS ",'tool_choice':{'type':'function','name':'h'}}",
         "tool_choice.name", "\"h\" is not one of the tools"},
        {FAMILY_MESSAGES, "{" FLAT_TOOLS ",'tool_choice':'any'}", "tool_choice", "an object"},
        {FAMILY_MESSAGES, "{" FLAT_TOOLS ",'tool_choice':{'type':'tool'}}", "tool_choice.name",
         "missing"},
        {FAMILY_MESSAGES, "{'tool_choice':{'type':'any'}}", "tool_choice", "there are no tools"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_refused(choice_world(rows[i].body, rows[i].family), rows[i].param, rows[i].words);
}

TEST_PROGRAM(shapes) { return cases_run(NULL, NULL); }
