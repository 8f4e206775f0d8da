// The shape of tool calls in every form: random texts of it are read back as calls of the allowed
// tools, with arguments of their schemas, and nothing else. Marks are plain text first, then
// special tokens.
#include "tool_shapes.h"

#include <stdlib.h>
#include <string.h>

#include "answer_parts.h"
#include "answer_types.h"
#include "check.h"
#include "constraint/constraint.h"
#include "json_at.h"

// ---------------------------------------------------------------- a vocabulary

enum { TOKENS_MAX = 400, TEXT_MAX = 1 << 14, STEPS_MAX = 1500 };

static struct {
    const char *text;
    size_t len;
    bool is_special;
} token[TOKENS_MAX];
static int n_token, n_byte;
static char byte_text[256];
static struct constraint_vocab *vocab;
static uint64_t seed = 88172645463325252u;

static int below(int n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int)((uint32_t)(seed >> 32) % (uint32_t)n);
}

static struct constraint_token token_at(void *ctx, int32_t id) {
    (void)ctx;
    return (struct constraint_token){.data = token[id].text,
                                     .len = token[id].len,
                                     .is_special = token[id].is_special,
                                     .is_end = id == n_token - 1};
}

static void token_add(const char *text, size_t len, bool is_special) {
    assert_true(n_token < TOKENS_MAX);
    token[n_token].text = text;
    token[n_token].len = len;
    token[n_token++].is_special = is_special;
}

#define DSML     "\uFF5CDSML\uFF5C"
#define DS(name) "<\uFF5Ctool\u2581" name "\uFF5C>"
static const char *const marks_list[] = {
    "<tool_call>",
    "</tool_call>",
    "<seed:tool_call>",
    "</seed:tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
    DS("calls\u2581begin"),
    DS("calls\u2581end"),
    DS("call\u2581begin"),
    DS("call\u2581end"),
    DS("sep"),
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_end|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|\"|>",
    "<start_function_call>",
    "<end_function_call>",
    "<escape>",
    "<|function_call|>",
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    "<|tools_prefix|>",
    "<|tools_suffix|>",
    "<|tool_call|>",
    "<|/tool_call|>",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "<|python_start|>",
    "<|python_tag|>",
    "<|channel|>",
    "<|message|>",
    "<|start|>",
    "<|constrain|>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "<function_calls>",
    "</function_calls>",
};
// Ends of values, so that random texts come to an end.
static const char *const pieces[] = {
    "\"",       "\"}",    "</parameter>", "\n</parameter>\n", "</param>", "</" DSML "parameter>",
    "}",        "]",      "</function>",  "</invoke>\n",      "\")",      "\", ",
    "<escape>", "<|\"|>", "</arg_value>", "e\": \"",
};

static void vocab_open(bool special) {
    n_token = 0;
    for (int i = 0; i < 256; i++) {
        byte_text[i] = (char)i;
        token_add(&byte_text[i], 1, false);
    }
    n_byte = n_token;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        token_add(pieces[i], strlen(pieces[i]), false);
    for (size_t i = 0; special && i < sizeof marks_list / sizeof *marks_list; i++)
        token_add(marks_list[i], strlen(marks_list[i]), true);
    token_add("<end>", 5, true);
    rn_error err;
    check(!constraint_vocab_create(n_token, token_at, NULL, &vocab, &err), "%s", err.message);
}

static bool has(const uint64_t *bits, int id) { return bits[id / 64] >> (id % 64) & 1; }

// One of the allowed tokens from `from` on; -1: there is none.
static int pick(const uint64_t *bits, int from) {
    int n = 0, best = -1;
    for (int i = from; i < n_token; i++)
        if (has(bits, i) && below(++n) == 0) best = i;
    return best;
}

// A random text of the shape; false: it did not come to an end.
static bool sample(struct constraint *constraint, struct jbuf *text) {
    struct constraint_run *run;
    check(!constraint_open(constraint, 1, &run, NULL), "open");
    const rn_constraint hook = constraint_hook(run);
    bool is_complete = false;
    jbuf_clear(text);
    for (int step = 0; step < STEPS_MAX && !is_complete; step++) {
        uint64_t bits[(TOKENS_MAX + 63) / 64];
        memset(bits, 0xff, sizeof bits);
        hook.mask(hook.ctx, 0, bits, n_token);
        int id = below(4) ? -1 : pick(bits, n_byte);
        if (id < 0) id = pick(bits, 0);
        check(id >= 0, "no token left behind %.*s", (int)text->len, text->data);
        is_complete = id == n_token - 1;
        if (is_complete) break;
        jbuf_bytes(text, token[id].text, token[id].len);
        hook.advance(hook.ctx, 0, id);
    }
    constraint_close(run);
    return is_complete;
}

// ---------------------------------------------------------------- arguments

// The keywords of the tools below.
static bool is_valid(const json_t *schema, const json_t *value);

static bool object_is_valid(const json_t *schema, const json_t *object) {
    const json_t *properties = json_object_get(schema, "properties"), *item;
    const char *key;
    size_t i;
    if (!json_is_object(object)) return false;
    json_array_foreach(json_object_get(schema, "required"), i, item) {
        if (!json_object_get(object, json_string_value(item))) return false;
    }
    json_object_foreach((json_t *)(uintptr_t)object, key, item) {
        const json_t *inner = json_object_get(properties, key);
        const bool is_closed = json_is_false(json_object_get(schema, "additionalProperties")) ||
                               !json_object_size(properties);
        if (!inner && is_closed) return false;
        if (inner && !is_valid(inner, item)) return false;
    }
    return true;
}

static bool type_is(const char *type, const json_t *value) {
    if (!strcmp(type, "string")) return json_is_string(value);
    if (!strcmp(type, "integer")) return json_is_integer(value);
    if (!strcmp(type, "number")) return json_is_number(value);
    if (!strcmp(type, "boolean")) return json_is_boolean(value);
    if (!strcmp(type, "null")) return json_is_null(value);
    if (!strcmp(type, "array")) return json_is_array(value);
    return json_is_object(value);
}

static bool is_valid(const json_t *schema, const json_t *value) {
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum");
    const json_t *item;
    bool fits = !type || (json_is_string(type) && type_is(json_string_value(type), value));
    size_t i;
    json_array_foreach(type, i, item) fits = fits || type_is(json_string_value(item), value);
    if (!fits) return false;
    if (json_is_object(value) && !object_is_valid(schema, value)) return false;
    json_array_foreach(value, i, item) {
        if (!is_valid(json_object_get(schema, "items"), item)) return false;
    }
    if (!list) return true;
    json_array_foreach(list, i, item) {
        if (json_equal((json_t *)(uintptr_t)item, (json_t *)(uintptr_t)value)) return true;
    }
    return false;
}

// ---------------------------------------------------------------- answers

enum { CALLS_MAX = 200 };

struct answer {
    struct jbuf content;
    struct jbuf name[CALLS_MAX], arguments[CALLS_MAX];
    int n;
};

static void on_part(void *ctx, enum answer_part part, int tool, const char *text, size_t len) {
    struct answer *answer = ctx;
    if (part == PART_CONTENT) jbuf_bytes(&answer->content, text, len);
    if (part != PART_TOOL && part != PART_TOOL_ARGUMENTS) return;
    assert_true(tool < CALLS_MAX);
    if (tool >= answer->n) answer->n = tool + 1;
    jbuf_bytes(part == PART_TOOL ? &answer->name[tool] : &answer->arguments[tool], text, len);
}

static void answer_read(struct answer *answer, const struct answer_marks *marks,
                        const json_t *tools, const struct jbuf *text) {
    struct answer_parts parts;
    json_t *types = answer_types_of(tools);
    memset(answer, 0, sizeof *answer);
    parts_init(&parts, *marks, true, types, false);
    parts_feed(&parts, text->data ? text->data : "", text->len, true, on_part, answer);
    parts_deinit(&parts);
    json_decref(types);
}

static void answer_free(struct answer *answer) {
    jbuf_deinit(&answer->content);
    for (int i = 0; i < answer->n; i++) {
        jbuf_deinit(&answer->name[i]);
        jbuf_deinit(&answer->arguments[i]);
    }
}

// Each is of an allowed tool, with arguments of its schema.
static void calls_check(const struct answer *answer, const json_t *tools,
                        const struct tool_choice *choice, const char *what,
                        const struct jbuf *text) {
    for (int i = 0; i < answer->n; i++) {
        const struct jbuf *name = &answer->name[i], *given = &answer->arguments[i];
        json_t *arguments =
            json_loadb(given->data ? given->data : "", given->len, JSON_ALLOW_NUL, NULL);
        bool found = false;
        for (size_t j = 0; j < choice->n; j++) {
            const json_t *function = json_object_get(json_array_get(tools, j), "function");
            const char *own = json_string_value(json_object_get(function, "name"));
            if (strlen(own) != name->len || memcmp(own, name->data, name->len)) continue;
            found = true;
            check(choice->rule[j].allowed, "%s: %s in %.*s", what, own, (int)text->len, text->data);
            check(is_valid(json_object_get(function, "parameters"), arguments),
                  "%s: arguments %.*s in\n%.*s", what, (int)given->len, given->data, (int)text->len,
                  text->data);
        }
        check(found, "%s: no tool %.*s", what, (int)name->len, name->data);
        json_decref(arguments);
    }
}

// ---------------------------------------------------------------- every form

#define STRING "{'type':'string'}"
#define OBJECT(properties, required)                                                               \
    "{'type':'object','properties':{" properties "},'required':[" required "],"                    \
    "'additionalProperties':false}"
#define TOOL(name, parameters)                                                                     \
    "{'type':'function','function':{'name':'" name "','parameters':" parameters "}}"
#define DEEP OBJECT("'text':" STRING ",'on':{'type':'boolean'}", "'text','on'")
#define CITY                                                                                       \
    "'city':" STRING ",'days':{'type':'integer','minimum':0,'maximum':30},"                        \
    "'unit':{'enum':['c','f']},'metric':{'type':'boolean'}"
#define NOTE                                                                                       \
    "'note':{'type':['string','null']},'at':{'type':'array','items':{'type':'number','minimum':-"  \
    "9,'maximum':9}},"                                                                             \
    "'deep':" DEEP
#define WEATHER                                                                                    \
    TOOL("get_weather", "{'properties':{" CITY "},'required':['city','unit'],"                     \
                        "'additionalProperties':false}")
#define CLOCK TOOL("clock", "{'type':'object','properties':{}}")
#define STORE TOOL("store-it", OBJECT(NOTE, "'note','at','deep'"))
#define TOOLS "{'tools':[" WEATHER "," CLOCK "," STORE "]"

// Two calls, or the one that the form has, as the template writes them.
#define W_ARGS "{\"city\": \"a b\", \"unit\": \"c\"}"
#define W_JSON "{\"name\": \"get_weather\", \"arguments\": " W_ARGS "}"
#define C_JSON "{\"name\": \"clock\", \"arguments\": {}}"
static const struct {
    const char *name, *tmpl, *calls;
} families[] = {
    {"hermes", "<tool_call>\\n",
     "<tool_call>\n" W_JSON "\n</tool_call>\n<tool_call>\n" C_JSON "\n</tool_call>"},
    {"exaone", "<tool_call>",
     "<tool_call>" W_JSON "</tool_call>\n<tool_call>" C_JSON "</tool_call>"},
    {"qwen-coder", "<tool_call> <function=",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\na "
     "b\n</parameter>\n<parameter=unit>\nc\n"
     "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=clock>\n</function>\n"
     "</tool_call>"},
    {"seed", "<seed:tool_call> <function=",
     "<seed:tool_call>\n<function=get_weather>\n<parameter=city>a b</parameter>\n<parameter=unit>c"
     "</parameter>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=clock>\n</"
     "function>\n"
     "</seed:tool_call>"},
    {"glm", "<arg_key></arg_key>\n",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>a b</arg_value>\n<arg_key>unit"
     "</arg_key>\n<arg_value>c</arg_value>\n</tool_call>\n<tool_call>clock\n</tool_call>"},
    {"glm 4.7", "<arg_key>",
     "<tool_call>get_weather<arg_key>city</arg_key><arg_value>a "
     "b</arg_value><arg_key>unit</arg_key>"
     "<arg_value>c</arg_value></tool_call><tool_call>clock</tool_call>"},
    {"minimax", "<minimax:tool_call>",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">a "
     "b</parameter>\n"
     "<parameter name=\"unit\">c</parameter>\n</invoke>\n<invoke name=\"clock\">\n</invoke>\n"
     "</minimax:tool_call>"},
    {"minicpm", "<function name=\"",
     "<function name=\"get_weather\"><param name=\"city\">a b</param><param name=\"unit\">c</param>"
     "</function>\n<function name=\"clock\"></function>"},
    {"deepseek 3.2", DSML,
     "<" DSML "function_calls>\n<" DSML "invoke name=\"get_weather\">\n<" DSML
     "parameter name=\"city\" string=\"true\">a b</" DSML "parameter>\n<" DSML
     "parameter name=\"unit\" string=\"true\">c</" DSML "parameter>\n</" DSML "invoke>\n</" DSML
     "function_calls>"},
    {"deepseek 4", DSML "tool_calls>",
     "<" DSML "tool_calls>\n<" DSML "invoke name=\"clock\">\n</" DSML "invoke>\n<" DSML
     "invoke name=\"clock\">\n</" DSML "invoke>\n</" DSML "tool_calls>"},
    {"gemma 4", "<|tool_call>",
     "<|tool_call>call:get_weather{city:<|\"|>a b<|\"|>,unit:<|\"|>c<|\"|>}<tool_call|>"
     "<|tool_call>call:clock{}<tool_call|>"},
    {"functiongemma", "<start_function_call>",
     "<start_function_call>call:get_weather{city:<escape>a b<escape>,unit:<escape>c<escape>}"
     "<end_function_call>"},
    {"gigachat", "<|function_call|>", "<|function_call|>" W_JSON},
    {"command", "<|START_ACTION|>",
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", "
     "\"parameters\": " W_ARGS "},\n    {\"tool_call_id\": \"12\", \"tool_name\": \"clock\", "
     "\"parameters\": {}}\n]<|END_ACTION|>"},
    {"apertus", "<|tools_prefix|>",
     "<|tools_prefix|>[{\"get_weather\": " W_ARGS "}, {\"clock\": {}}]<|tools_suffix|>"},
    {"hunyuan", "<tool_calls>", "<tool_calls>[" W_JSON ", " C_JSON "]</tool_calls>"},
    {"olmo", "<function_calls>",
     "<function_calls>get_weather(city=\"a b\", unit=\"c\")\nclock()</function_calls>"},
    {"nemotron", "<TOOLCALL>", "<TOOLCALL>[" W_JSON ", " C_JSON "]</TOOLCALL>"},
    {"lfm2", "<|tool_call_start|>",
     "<|tool_call_start|>[get_weather(city=\"a b\", unit=\"c\", metric=True), clock()]"
     "<|tool_call_end|>"},
    {"mistral", "[TOOL_CALLS]", "[TOOL_CALLS][" W_JSON ", " C_JSON "]"},
    {"mistral, new", "[TOOL_CALLS] [ARGS]",
     "[TOOL_CALLS]get_weather[ARGS]" W_ARGS "[TOOL_CALLS]clock[ARGS]{}"},
    {"granite 3", "<|tool_call|>", "<|tool_call|>[" W_JSON ", " C_JSON "]"},
    {"phi 4", "<|tool_call|> <|/tool_call|>",
     "<|tool_call|>[" W_JSON ", " C_JSON "]<|/tool_call|>"},
    {"llama 3", "<|python_tag|>", "{\"name\": \"get_weather\", \"parameters\": " W_ARGS "}"},
    {"llama 4", "<|python_start|>",
     "{\"name\": \"clock\", \"parameters\": {}}{\"name\": \"get_weather\", \"parameters\": " W_ARGS
     "}"},
    {"llama 4, python", "[func_name1(param", "[get_weather(city=\"a b\", unit=\"c\"), clock()]"},
    {"deepseek r1", DS("call\u2581begin") "```json",
     DS("calls\u2581begin") DS("call\u2581begin") "function" DS(
         "sep") "get_weather\n```json\n" W_ARGS
                "\n```" DS("call\u2581end") "\n" DS("call\u2581begin") "function" DS(
                    "sep") "clock\n```json\n{}\n```" DS("call\u2581end") DS("calls\u2581end")},
    {"deepseek 3.1", DS("call\u2581begin"),
     DS("calls\u2581begin") DS("call\u2581begin") "get_weather" DS("sep") W_ARGS DS("call\u2581end")
         DS("call\u2581begin") "clock" DS("sep") "{}" DS("call\u2581end") DS("calls\u2581end")},
    {"kimi", "<|tool_call_begin|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
     "<|tool_call_argument_begin|>" W_ARGS "<|tool_call_end|><|tool_call_begin|>functions.clock:1"
     "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"},
    {"gpt-oss", "<|channel|>",
     "<|start|>assistant<|channel|>commentary to=functions.get_weather "
     "<|constrain|>json<|message|>" W_ARGS "<|call|>"},
};
enum { FAMILIES = sizeof families / sizeof *families };

struct wish {
    struct call call;
    struct server server;
    struct tool_choice choice;
    struct shape shape;
    const json_t *tools;
};

// rest: members behind the tools.
static struct wish *wish_of(const char *rest) {
    struct wish *wish = calloc(1, sizeof *wish);
    assert_non_null(wish);
    char body[4096];
    snprintf(body, sizeof body, TOOLS "%s}", rest);
    wish->call.server = &wish->server;
    wish->call.body = json_quoted(body);
    wish->call.body_len = strlen(body);
    const json_t *json = call_json(&wish->call);
    check(json && tool_choice_read(&wish->call, json, FAMILY_CHAT, &wish->choice) &&
              shape_read(&wish->call, json, FAMILY_CHAT, &wish->shape),
          "%s", body);
    wish->tools = json_object_get(json, "tools");
    return wish;
}

static void wish_free(struct wish *wish) {
    tool_choice_deinit(&wish->choice);
    shape_deinit(&wish->shape);
    json_decref(wish->call.json);
    jbuf_deinit(&wish->call.out);
    free(wish->call.body);
    free(wish);
}

static struct constraint *compiled(const struct wish *wish, const struct answer_marks *marks,
                                   const char *tmpl) {
    struct jbuf source = {0};
    struct constraint *constraint = NULL;
    rn_error err = {0};
    size_t index;
    check(tool_shape_known(marks, tmpl), "%s", tmpl);
    check(tool_shape_put(&(struct tool_shape){marks, tmpl, wish->tools, &wish->choice,
                                              &wish->shape},
                         &source, &index) &&
              !source.failed,
          "%s", tmpl);
    check(!constraint_compile(vocab, CONSTRAINT_STRUCTURE, source.data, source.len, NULL,
                              &constraint, &err),
          "%s: %s in %.*s", tmpl, err.message, (int)source.len, source.data);
    jbuf_deinit(&source);
    return constraint;
}

typedef void (*answer_check)(const struct answer *answer, const char *what,
                             const struct jbuf *text);

static void family_check(int family, const struct wish *wish, int n, answer_check also) {
    const struct answer_marks marks = answer_marks_of(families[family].tmpl);
    const char *what = families[family].name;
    struct constraint *constraint = compiled(wish, &marks, families[family].tmpl);
    struct answer *answer = malloc(sizeof *answer);
    struct jbuf text = {0};
    int complete = 0;
    for (int i = 0; i < n; i++) {
        if (!sample(constraint, &text)) continue;
        complete++;
        answer_read(answer, &marks, wish->tools, &text);
        calls_check(answer, wish->tools, &wish->choice, what, &text);
        also(answer, what, &text);
        answer_free(answer);
    }
    check(complete > 0, "%s: no text came to an end; the last is %.*s", what, (int)text.len,
          text.data);
    free(answer);
    jbuf_deinit(&text);
    constraint_release(constraint);
}

static void families_check(const char *rest, int n, answer_check also) {
    for (int special = 0; special < 2; special++) {
        vocab_open(special);
        for (int i = 0; i < FAMILIES; i++) {
            struct wish *wish = wish_of(rest);
            family_check(i, wish, n, also);
            wish_free(wish);
        }
        constraint_vocab_release(vocab);
    }
}

static void calls_alone(const struct answer *answer, const char *what, const struct jbuf *text) {
    check(answer->n > 0 && !answer->content.len, "%s: %d calls and content %.*s in\n%.*s", what,
          answer->n, (int)answer->content.len, answer->content.data, (int)text->len, text->data);
}

static void one_call(const struct answer *answer, const char *what, const struct jbuf *text) {
    calls_alone(answer, what, text);
    check(answer->n == 1, "%s: %d calls in %.*s", what, answer->n, (int)text->len, text->data);
}

static void anything(const struct answer *answer, const char *what, const struct jbuf *text) {
    (void)answer, (void)what, (void)text;
}

// Calls, or JSON of the other shape.
static void calls_or_json(const struct answer *answer, const char *what, const struct jbuf *text) {
    if (answer->n) return;
    json_t *json = json_loadb(answer->content.data ? answer->content.data : "", answer->content.len,
                              JSON_ALLOW_NUL, NULL);
    check(json_is_integer(json_object_get(json, "number")), "%s: %.*s", what, (int)text->len,
          text->data);
    json_decref(json);
}

CASE(required_calls_are_read_back_in_every_form) {
    families_check(",'tool_choice':'required'", 8, calls_alone);
}

// Whether the shape has the whole text; the vocabulary has no special tokens.
static bool accepts(struct constraint *constraint, const char *text) {
    struct constraint_run *run;
    check(!constraint_open(constraint, 1, &run, NULL), "open");
    const bool passes = constraint_feed(run, 0, text, strlen(text)) && constraint_may_end(run, 0);
    constraint_close(run);
    return passes;
}

CASE(calls_have_the_form_of_the_template) {
    vocab_open(false);
    for (int i = 0; i < FAMILIES; i++) {
        const struct answer_marks marks = answer_marks_of(families[i].tmpl);
        struct wish *forced = wish_of(",'tool_choice':'required'");
        struct wish *free_one = wish_of(",'tool_choice':'auto','parallel_tool_calls':false");
        struct constraint *calls = compiled(forced, &marks, families[i].tmpl);
        struct constraint *text = compiled(free_one, &marks, families[i].tmpl);
        check(accepts(calls, families[i].calls), "%s: %s", families[i].name, families[i].calls);
        check(!accepts(calls, "text") && !accepts(calls, ""), "%s", families[i].name);
        if (!marks.harmony) { // its text is a message of its own
            check(accepts(text, "text") && accepts(text, ""), "%s", families[i].name);
        }
        if (marks.tools.open[0] && !marks.tools.bare) { // no call but in its form
            char other[64];
            snprintf(other, sizeof other, "text %s other", marks.tools.open[0]);
            check(!accepts(text, other), "%s: %s", families[i].name, other);
        }
        constraint_release(calls);
        constraint_release(text);
        wish_free(forced);
        wish_free(free_one);
    }
    constraint_vocab_release(vocab);
}

static struct constraint *content_compiled(const char *tmpl) {
    const struct answer_marks marks = answer_marks_of(tmpl);
    struct wish *wish = wish_of(",'guided_choice':['a','b']");
    struct constraint *constraint = NULL;
    struct jbuf source = {0};
    rn_error err = {0};
    check(content_shape_put(&marks, &wish->shape, &source), "%s", tmpl);
    check(!constraint_compile(vocab, CONSTRAINT_STRUCTURE, source.data, source.len, NULL,
                              &constraint, &err),
          "%s: %s", tmpl, err.message);
    jbuf_deinit(&source);
    wish_free(wish);
    return constraint;
}

CASE(content_may_stand_between_marks) {
    vocab_open(false);
    struct constraint *pair = content_compiled("<answer>");
    assert_true(accepts(pair, "a") && accepts(pair, "<answer>b</answer>"));
    assert_false(accepts(pair, "a</answer>") || accepts(pair, "<answer>b") || accepts(pair, "ab"));
    constraint_release(pair);
    struct constraint *tokens = content_compiled("<|START_TEXT|>"); // the prompt may have the first
    assert_true(accepts(tokens, "a") && accepts(tokens, "b<|END_TEXT|>"));
    assert_true(accepts(tokens, "<|START_TEXT|>b<|END_TEXT|>"));
    constraint_release(tokens);
    struct constraint *harmony = content_compiled("<|channel|>");
    assert_true(accepts(harmony, "<|channel|>final<|message|>a"));
    assert_true(accepts(harmony, "<|start|>assistant<|channel|>final<|message|>b"));
    assert_false(accepts(harmony, "a") || accepts(harmony, "<|channel|>final<|message|>c"));
    constraint_release(harmony);
    constraint_vocab_release(vocab);
}

CASE(a_named_tool_is_called_once_in_every_form) {
    families_check(",'tool_choice':{'type':'function','function':{'name':'store-it'}}", 4,
                   one_call);
    families_check(",'tool_choice':{'type':'function','function':{'name':'clock'}}", 2, one_call);
    families_check(",'tool_choice':'required','parallel_tool_calls':false", 3, one_call);
}

CASE(calls_behind_text_are_read_back_in_every_form) {
    families_check(",'tool_choice':'auto','parallel_tool_calls':false", 6, anything);
}

CASE(an_answer_with_tools_may_have_the_other_shape) {
    families_check(",'json_schema':{'type':'object','properties':{'number':{'type':'integer','"
                   "minimum':0,'maximum':99}},"
                   "'required':['number'],'additionalProperties':false}",
                   4, calls_or_json);
}

CASE(names_that_a_form_cannot_write_are_found) {
    struct wish *wish = wish_of(",'tool_choice':'required'");
    json_t *function = json_object_get(json_array_get(wish->tools, 1), "function");
    json_object_set_new(function, "name", json_string("a b>"));
    const struct answer_marks marks = answer_marks_of("<tool_call> <function=");
    struct jbuf out = {0};
    size_t index = 0;
    assert_false(tool_shape_put(&(struct tool_shape){&marks, "<tool_call> <function=", wish->tools,
                                                     &wish->choice, &wish->shape},
                                &out, &index));
    assert_int_equal(index, 1);
    jbuf_deinit(&out);
    wish_free(wish);
}

CASE(errors_lead_to_the_tool) {
    struct wish *wish =
        wish_of(",'tool_choice':{'type':'function','function':{'name':'store-it'}}");
    size_t index = 0;
    const char *rest = "";
    assert_true(tool_shape_place(&wish->choice,
                                 "/format/elements/0/tags/0/content/elements/1/json_schema/not: x",
                                 &index, &rest));
    assert_int_equal(index, 2);
    assert_string_equal(rest, "/not: x");
    assert_false(
        tool_shape_place(&wish->choice, "/format/tags/1/content/json_schema: x", &index, &rest));
    assert_false(tool_shape_place(&wish->choice, "/format/type: x", &index, &rest));
    wish_free(wish);
}

TEST_PROGRAM(tool_shapes) { return cases_run(NULL, NULL); }
