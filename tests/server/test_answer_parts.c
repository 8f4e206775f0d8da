// Answers: the parts of the formats in use. The parts never depend on how a text is cut, no text is
// lost, and requests without tools never get calls.
#include "check.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "answer_parts.h"
#include "answer_types.h"
#include "data_file.h"
#include "helpers.h"

// ---------------------------------------------------------------- parts as one text

// "R(...)C(...)T0(name)A0(...)": neighbours of one kind are joined.
struct joined {
    struct jbuf text;
    int last; // kind and tool of the last part; -1: none
    int n_tools;
    bool arguments_ok;
    struct jbuf content, arguments;
};

static void end_arguments(struct joined *joined) {
    if (!joined->arguments.len) return;
    json_error_t error;
    json_t *json = json_loadb(joined->arguments.data, joined->arguments.len, 0, &error);
    joined->arguments_ok = joined->arguments_ok && json_is_object(json);
    json_decref(json);
    jbuf_clear(&joined->arguments);
}

static void on_part(void *ctx, enum answer_part part, int tool, const char *text, size_t len) {
    struct joined *joined = ctx;
    const int kind = (int)part * 1000 + tool;
    check(len > 0, "an empty part");
    if (part == PART_CONTENT) jbuf_bytes(&joined->content, text, len);
    if (kind != joined->last) {
        if (joined->last >= 0) jbuf_text(&joined->text, ")");
        jbuf_printf(&joined->text, "%c", "CRTA"[part]);
        if (part >= PART_TOOL) jbuf_printf(&joined->text, "%d", tool);
        jbuf_text(&joined->text, "(");
        end_arguments(joined);
    }
    if (part == PART_TOOL) {
        check(tool == joined->n_tools, "call %d after %d", tool, joined->n_tools);
        joined->n_tools++;
    }
    if (part == PART_TOOL_ARGUMENTS) {
        check(tool == joined->n_tools - 1, "arguments of call %d of %d", tool, joined->n_tools);
        jbuf_bytes(&joined->arguments, text, len);
    }
    joined->last = kind;
    jbuf_bytes(&joined->text, text, len);
}

struct job {
    struct answer_marks marks;
    bool tools, in_reasoning;
    const char *text;
    size_t len;
    const json_t *types; // NULL: not known
};

static struct joined joined_end(struct joined joined) {
    if (joined.last >= 0) jbuf_text(&joined.text, ")");
    end_arguments(&joined);
    jbuf_bytes(&joined.text, "", 1);
    return joined;
}

// Fed in pieces of at most `most` bytes, 0: all at once.
static struct joined run(const struct job *job, size_t most) {
    struct joined joined = {.last = -1, .arguments_ok = true};
    struct answer_parts parts;
    parts_init(&parts, job->marks, job->tools, job->types, job->in_reasoning);
    size_t at = 0;
    while (most && at < job->len) {
        size_t n = 1 + (size_t)rand() % most;
        if (n > job->len - at) n = job->len - at;
        parts_feed(&parts, job->text + at, n, false, on_part, &joined);
        at += n;
    }
    parts_feed(&parts, job->text + at, job->len - at, true, on_part, &joined);
    parts_deinit(&parts);
    return joined_end(joined);
}

static void joined_deinit(struct joined *joined) {
    jbuf_deinit(&joined->text);
    jbuf_deinit(&joined->content);
    jbuf_deinit(&joined->arguments);
}

// In two pieces, the first of `at` bytes.
static struct joined run_cut(const struct job *job, size_t at) {
    struct joined joined = {.last = -1, .arguments_ok = true};
    struct answer_parts parts;
    parts_init(&parts, job->marks, job->tools, job->types, job->in_reasoning);
    parts_feed(&parts, job->text, at, false, on_part, &joined);
    parts_feed(&parts, job->text + at, job->len - at, true, on_part, &joined);
    parts_deinit(&parts);
    return joined_end(joined);
}

static void expect_text(const struct job *job, struct joined joined, const char *pieces,
                        size_t size, const char *want) {
    check(!strcmp(joined.text.data, want), "%s %zu: '%s' gave\n%s\nexpected\n%s", pieces, size,
          job->text, joined.text.data, want);
    joined_deinit(&joined);
}

// Whole, in pieces of several sizes, and at every cut in two.
static void expect_job(const struct job *job, const char *want) {
    static const size_t most[] = {0, 1, 2, 3, 7, 40};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++)
        expect_text(job, run(job, most[i]), "pieces of", most[i], want);
    for (size_t at = 0; at <= job->len; at++)
        expect_text(job, run_cut(job, at), "cut at", at, want);
}

static void expect(const char *tmpl, const char *text, const char *want) {
    expect_job(&(struct job){answer_marks_of(tmpl), true, false, text, strlen(text), NULL}, want);
}

// ---------------------------------------------------------------- formats

#define HERMES       "<tool_call>"
#define THINK        "<think> </think>"
#define CODER        "<tool_call><function="
#define GLM          "<tool_call><arg_key><think>"
#define MISTRAL      "[TOOL_CALLS]"
#define LLAMA        "<|python_tag|>"
#define HARMONY      "<|channel|>"
#define NEMOTRON     "<TOOLCALL>"
#define LFM2         "<|tool_list_start|>"
#define LFM2_OPEN    "<|tool_call_start|>"
#define LFM2_CLOSE   "<|tool_call_end|>"
#define MINIMAX      "<minimax:tool_call><think>"
#define SEED         "<seed:tool_call><function=<seed:think>"
#define HUNYUAN      "<tool_calls><think><answer>"
#define GEMMA4       "<|channel>thought <|tool_call>"
#define G4_QUOTE     "<|\"|>"
#define COHERE       "<|START_THINKING|><|START_ACTION|><|START_RESPONSE|>"
#define APERTUS      "<|inner_prefix|><|tools_prefix|>"
#define OLMO3        "<function_calls>"
#define LLAMA4       "<|python_start|>"
#define ERNIE        "<think><tool_call>'<response>\\n'"
#define GRANITE3     "<think></think> <response></response> <|tool_call|>"
#define DSML         "\uFF5CDSML\uFF5C"
#define MINICPM5     "<function name=\""
#define KIMI         "<|tool_call_begin|>"
#define DS_CALLS     "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>"
#define DS_CALLS_END "<\uFF5Ctool\u2581calls\u2581end\uFF5C>"
#define DS_CALL      "<\uFF5Ctool\u2581call\u2581begin\uFF5C>"
#define DS_CALL_END  "<\uFF5Ctool\u2581call\u2581end\uFF5C>"
#define DS_SEP       "<\uFF5Ctool\u2581sep\uFF5C>"

CASE(content_alone_stays_as_it_is) {
    expect(NULL, " a <think> [TOOL_CALLS] \n", "C( a <think> [TOOL_CALLS] \n)");
    expect("plain", "<tool_call>{}", "C(<tool_call>{})");
    expect(HERMES, " a < b \n", "C( a < b \n)");
    expect(HERMES, "", "");
    expect(THINK HERMES, " \n", "C( \n)");
}

CASE(reasoning_is_told_apart) {
    expect(THINK, "<think>\nhm <b>\n</think>\n\nYes </think>", "R(hm <b>)C(Yes </think>)");
    expect(THINK, "\n<think>a\n\nb</think>c", "R(a\n\nb)C(c)");
    expect(THINK, "<think>\n\n</think>\n\nYes", "C(Yes)");
    expect(THINK, "Yes <think>a</think>", "C(Yes <think>a</think>)");
    expect(THINK, "<think>never ends \n</thin", "R(never ends \n</thin)");
    expect(THINK, "<thin", "C(<thin)");
    expect("[THINK]", "[THINK]a[/THINK]b", "R(a)C(b)");
    expect_job(&(struct job){answer_marks_of(THINK), false, true, "\na</think>b", 11, NULL},
               "R(a)C(b)");
}

static bool opens(const char *tmpl, const char *prompt) {
    const struct answer_marks marks = answer_marks_of(tmpl);
    return answer_marks_opened(&marks, prompt, strlen(prompt));
}

CASE(the_prompt_may_open_the_reasoning) {
    check(opens(THINK, "a<think>\n"), "<think>");
    check(!opens(THINK, "a<think>\n</think>\n"), "</think>");
    check(!opens(THINK, "nk>"), "short");
    check(!opens(NULL, "<think>"), "no marks");
}

// Reasoning that is cut and closed by its last text is followed by the answer.
CASE(bounded_reasoning_is_told_apart) {
    static const char *const tmpls[] = {THINK, "[THINK]", SEED, HARMONY, GEMMA4, COHERE, APERTUS};
    for (size_t i = 0; i < sizeof tmpls / sizeof *tmpls; i++) {
        const struct answer_marks marks = answer_marks_of(tmpls[i]);
        rn_reasoning cut, open;
        char text[256];
        assert_true(answer_marks_bound(&marks, false, &open));
        snprintf(text, sizeof text, "%s%sa b%sYes", open.open, marks.harmony ? "" : "\n",
                 open.last ? open.last : open.close);
        expect(tmpls[i], text, "R(a b)C(Yes)");
        assert_true(answer_marks_bound(&marks, true, &cut));
        assert_null(cut.open);
        const char *rest = text + strlen(open.open);
        expect_job(&(struct job){marks, false, true, rest, strlen(rest), NULL}, "R(a b)C(Yes)");
        assert_true(!cut.last || !strncmp(cut.last, cut.close, strlen(cut.close)));
    }
    rn_reasoning none;
    const struct answer_marks marks = answer_marks_of(HERMES);
    assert_false(answer_marks_bound(&marks, false, &none));
}

static bool shows_special(const char *tmpl, bool tools) {
    const struct answer_marks marks = answer_marks_of(tmpl);
    return answer_marks_special(&marks, tools);
}

CASE(marks_that_are_looked_for_are_shown) {
    check(!shows_special("x", true), "no marks");
    check(shows_special(THINK, false), "reasoning");
    check(shows_special(HARMONY, false), "channels");
    check(shows_special(MISTRAL, true), "calls");
    check(!shows_special(MISTRAL, false), "calls, and no tools");
}

CASE(hermes_calls) {
    expect(HERMES,
           "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\"}}\n</tool_call>",
           "T0(f)A0({\"a\": \"</tool_call>\"})");
    expect(HERMES,
           "One \n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
           "<tool_call>{\"arguments\":{\"b\":[1,{}]},\"name\":\"g\"}</tool_call>\n",
           "C(One)T0(f)A0({})T1(g)A1({\"b\":[1,{}]})");
    expect(HERMES, "<tool_call>{\"name\":\"f\"}</tool_call> then", "T0(f)A0({})C(then)");
    expect(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}",
           "T0(f)A0({\"a\":1})");
    expect(THINK HERMES, "<think>a</think>\n<tool_call>{\"name\":\"\\u0066\"}</tool_call>",
           "R(a)T0(f)A0({})");
}

// Prompts that show a call as Python's dictionary get such dictionaries.
CASE(hermes_calls_with_the_quotes_of_python) {
    expect(HERMES,
           "<tool_call>\n{'arguments': {'a': 'it's', 'b': [True, None, \"x\"]}, 'name': 'f'}\n"
           "</tool_call>",
           "T0(f)A0({\"a\":\"it's\",\"b\":[true,null,\"x\"]})");
    expect(NEMOTRON, "<TOOLCALL>[ { 'name': 'f' }, {'name': 'g', 'arguments': {}} ]</TOOLCALL>",
           "T0(f)A0({})T1(g)A1({})");
    expect(HERMES, "<tool_call>{'name': f}</tool_call>", "C(<tool_call>{'name': f}</tool_call>)");
    expect(HERMES, "<tool_call>{'name': 'f', 1: 2}", "C(<tool_call>{'name': 'f', 1: 2})");
    expect(HERMES, "<tool_call>['f']", "C(<tool_call>['f'])");
    expect(HERMES, "<tool_call>{'name': 'f'", "C(<tool_call>{'name': 'f')");
}

CASE(what_is_no_call_is_content) {
    static const char *const texts[] = {
        "<tool_call>",
        " <tool_call> x",
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1",
        "<tool_call>{\"name\": 1}</tool_call>",
        "<tool_call>{\"name\": \"\"}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": 1}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"{\"}</tool_call>",
        "<tool_call>{\"name\": \"f\",}</tool_call>",
        "<tool_call>[]</tool_call>",
        "<tool_call>[{\"name\":\"f\"}, 1]</tool_call>",
        "<tool_call>{\"a\": \"\n\"}",
        "a <tool_cal",
        "</tool_call>",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char want[256];
        snprintf(want, sizeof want, "C(%s)", texts[i]);
        expect(HERMES, texts[i], want);
    }
    expect(HERMES, "<tool_call>{\"name\": <tool_call>{\"name\":\"f\"}</tool_call>",
           "C(<tool_call>{\"name\": )T0(f)A0({})");
}

CASE(coder_calls) {
    expect(CODER,
           "<tool_call>\n<function=f>\n<parameter=a>\n1.50\n</parameter>\n<parameter=b>\n\"x\" "
           "</function>\n\n</parameter>\n</function>\n</tool_call>",
           "T0(f)A0({\"a\":1.50,\"b\":\"\\\"x\\\" </function>\\n\"})");
    expect(CODER, "<function=f></function><function=g><parameter=a>[1]</parameter></function>",
           "T0(f)A0({})T1(g)A1({\"a\":[1]})");
    expect(CODER, "<tool_call>{\"name\":\"f\"}</tool_call>", "T0(f)A0({})");
    expect(CODER, "<function=f>junk</function> y", "C(<function=f>junk</function> y)");
    expect(CODER, "<tool_call><function=", "C(<tool_call><function=)");
    expect("<minimax:tool_call>",
           "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">x</parameter>\n"
           "</invoke>\n<invoke name=\"g\"></invoke></minimax:tool_call>",
           "T0(f)A0({\"a\":\"x\"})T1(g)A1({})");
}

// ---------------------------------------------------------------- types

static json_t *types_make(const char *properties) {
    char text[2048];
    snprintf(text, sizeof text,
             "[{\"type\":\"function\",\"function\":{\"name\":\"g\"}},"
             "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{"
             "\"type\":\"object\",\"properties\":{%s},\"$defs\":{\"unit\":{\"enum\":[\"1\",\"2\"]},"
             "\"loop\":{\"$ref\":\"#/$defs/loop\"}},"
             "\"definitions\":{\"n\":{\"type\":\"number\"}}}}}]",
             properties);
    json_t *tools = json_loads(text, 0, NULL);
    check(tools != NULL, "%s", text);
    json_t *types = answer_types_of(tools);
    json_decref(tools);
    assert_non_null(types);
    return types;
}

static unsigned kinds_of(const char *schema) {
    char text[512];
    snprintf(text, sizeof text, "\"a\":%s", schema);
    json_t *types = types_make(text);
    const unsigned kinds = answer_types_kinds(answer_types_function(types, "fx", 1), "ab", 1);
    json_decref(types);
    return kinds;
}

CASE(schemas_tell_the_kinds_of_a_value) {
    enum {
        NUL = 1 << JREAD_NULL,
        BOOL = 1 << JREAD_BOOL,
        NUMBER = 1 << JREAD_NUMBER,
        STRING = 1 << JREAD_STRING,
        ARRAY = 1 << JREAD_ARRAY,
        OBJECT = 1 << JREAD_OBJECT,
    };
    static const struct {
        const char *schema;
        unsigned kinds;
    } cases[] = {
        {"{\"type\":\"string\"}", STRING},
        {"{\"type\":\"integer\"}", NUMBER},
        {"{\"type\":\"number\"}", NUMBER},
        {"{\"type\":\"boolean\"}", BOOL},
        {"{\"type\":\"array\",\"items\":{\"type\":\"string\"}}", ARRAY},
        {"{\"type\":\"object\"}", OBJECT},
        {"{\"type\":[\"string\",\"null\"]}", STRING | NUL},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", STRING | NUL},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"const\":true}]}", NUMBER | BOOL},
        {"{\"anyOf\":[{\"type\":\"string\"},{}]}", 0},
        {"{\"enum\":[\"a\",1,null]}", STRING | NUMBER | NUL},
        {"{\"enum\":[[],{},1.5,false]}", ARRAY | OBJECT | NUMBER | BOOL},
        {"{\"$ref\":\"#/$defs/unit\"}", STRING},
        {"{\"$ref\":\"#/definitions/n\"}", NUMBER},
        {"{\"anyOf\":[{\"$ref\":\"#/$defs/unit\"},{\"type\":\"null\"}]}", STRING | NUL},
        {"{\"anyOf\":[{\"anyOf\":[{\"anyOf\":[{\"anyOf\":[{\"type\":\"null\"}]}]}]}]}", NUL},
        {"{\"anyOf\":[{\"anyOf\":[{\"anyOf\":[{\"anyOf\":[{\"anyOf\":[{\"type\":\"null\"}]}]}]}]}]"
         "}",
         0},
        {"{\"$ref\":\"#/$defs/loop\"}", 0},
        {"{\"$ref\":\"#/$defs/none\"}", 0},
        {"{\"$ref\":\"unit\"}", 0},
        {"{\"type\":\"tuple\"}", 0},
        {"{\"type\":5}", 0},
        {"{}", 0},
        {"true", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(kinds_of(cases[i].schema) == cases[i].kinds, "%s: %x", cases[i].schema,
              kinds_of(cases[i].schema));
    json_t *types = types_make("\"a\":{\"type\":\"string\"}");
    check(!answer_types_function(types, "h", 1), "a function that is not there");
    check(!answer_types_kinds(answer_types_function(types, "g", 1), "a", 1), "no parameters");
    check(!answer_types_kinds(answer_types_function(types, "f", 1), "b", 1), "no such parameter");
    check(!answer_types_kinds(answer_types_function(NULL, "f", 1), "a", 1), "no types");
    char name[400];
    memset(name, 'f', sizeof name);
    check(!answer_types_function(types, name, sizeof name), "a long name");
    json_decref(types);
}

// References that multiply: all of them would be 10^8.
CASE(schemas_are_looked_at_within_bounds) {
    json_t *list = json_array(), *again = json_array(), *definitions = json_object();
    for (int i = 0; i < 10000; i++) {
        json_array_append_new(list, json_pack("{s:s}", "$ref", "#/$defs/b"));
        json_array_append_new(again, json_pack("{s:s}", "type", "string"));
    }
    json_object_set_new(definitions, "b", json_pack("{s:o}", "anyOf", again));
    json_t *tools = json_pack("[{s:{s:s, s:{s:{s:{s:o}}, s:o}}}]", "function", "name", "f",
                              "parameters", "properties", "a", "anyOf", list, "$defs", definitions);
    json_t *types = answer_types_of(tools);
    check(!answer_types_kinds(answer_types_function(types, "f", 1), "a", 1), "known");
    json_decref(types);
    json_decref(tools);
}

static void expect_typed(const char *tmpl, const json_t *types, const char *text,
                         const char *want) {
    expect_job(&(struct job){answer_marks_of(tmpl), true, false, text, strlen(text), types}, want);
}

CASE(values_between_tags_have_the_types_of_their_schema) {
    static const struct {
        const char *schema, *value, *want;
    } cases[] = {
        {"{}", "12", "12"},
        {"{}", "x", "\"x\""},
        {"{}", "True", "\"True\""},
        {"{\"type\":\"string\"}", "12", "\"12\""},
        {"{\"type\":\"string\"}", "true", "\"true\""},
        {"{\"type\":\"string\"}", "{\"k\": [1]}", "\"{\\\"k\\\": [1]}\""},
        {"{\"type\":\"string\"}", "\"q\"", "\"\\\"q\\\"\""},
        {"{\"type\":\"string\"}", " \n two\nlines \n", "\" \\n two\\nlines \\n\""},
        {"{\"type\":\"string\"}", "", "\"\""},
        {"{\"type\":\"string\"}", "<a>&amp;</a> \\n", "\"<a>&amp;</a> \\\\n\""},
        {"{\"type\":\"integer\"}", " 12 ", "12"},
        {"{\"type\":\"integer\"}", "twelve", "\"twelve\""},
        {"{\"type\":\"integer\"}", "None", "null"},
        {"{\"type\":\"boolean\"}", "true", "true"},
        {"{\"type\":\"boolean\"}", "False", "false"},
        {"{\"type\":\"integer\"}", "True", "\"True\""},
        {"{\"type\":\"object\"}", "{'k': [True, 'it\\'s']}", "{\"k\":[true,\"it's\"]}"},
        {"{\"type\":\"array\"}", "[1, {\"a\": \"]\"}]", "[1, {\"a\": \"]\"}]"},
        {"{\"type\":\"array\"}", "('a', 1)", "[\"a\",1]"},
        {"{\"type\":\"array\"}", "[1", "\"[1\""},
        {"{\"type\":[\"string\",\"null\"]}", "null", "null"},
        {"{\"type\":[\"string\",\"null\"]}", "5", "\"5\""},
        {"{\"type\":[\"string\",\"integer\"]}", "5", "5"},
        {"{\"$ref\":\"#/$defs/unit\"}", "2", "\"2\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char properties[256], text[512], want[256];
        snprintf(properties, sizeof properties, "\"a\":%s", cases[i].schema);
        json_t *types = types_make(properties);
        snprintf(text, sizeof text,
                 "<tool_call>\n<function=f>\n<parameter=a>\n%s\n</parameter>\n</function>\n"
                 "</tool_call>",
                 cases[i].value);
        snprintf(want, sizeof want, "T0(f)A0({\"a\":%s})", cases[i].want);
        expect_typed(CODER, types, text, want);
        snprintf(text, sizeof text,
                 "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>%s</arg_value>\n</tool_call>",
                 cases[i].value);
        expect_typed(GLM, types, text, want);
        json_decref(types);
    }
    json_t *types = types_make("\"a\":{\"type\":\"string\"}"); // g has no schema
    expect_typed(CODER, types, "<function=g><parameter=a>1</parameter></function>",
                 "T0(g)A0({\"a\":1})");
    json_decref(types);
}

CASE(glm_calls) {
    expect(
        GLM,
        "<think>a</think>\n<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x y</arg_value>\n"
        "<arg_key>b</arg_key>\n<arg_value>true</arg_value>\n</tool_call>\n<tool_call>g</tool_call>",
        "R(a)T0(f)A0({\"a\":\"x y\",\"b\":true})T1(g)A1({})");
}

// GLM 4.7 writes no line ends.
CASE(glm_calls_on_one_line) {
    json_t *types = types_make("\"a\":{\"type\":\"string\"},\"b\":{\"type\":\"integer\"}");
    expect_typed(GLM, types,
                 "hm</think>Look.<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value>"
                 "<arg_key>b</arg_key><arg_value>2</arg_value></tool_call>",
                 "C(hm</think>Look.)T0(f)A0({\"a\":\"1\",\"b\":2})");
    json_decref(types);
    expect(GLM, "<tool_call>f<arg_key>a</arg_key><arg_value>\n x\n</arg_value></tool_call>",
           "T0(f)A0({\"a\":\"\\n x\\n\"})");
    expect(GLM, "<tool_call>f<arg_key>a</tool_call>", "C(<tool_call>f<arg_key>a</tool_call>)");
}

CASE(minimax_calls) {
    expect(MINIMAX,
           "<think>\nhm\n</think>\n\nYes.\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter "
           "name=\"a\">x y</parameter>\n<parameter name=\"b\">[1, 2]</parameter>\n</invoke>\n"
           "<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
           "R(hm)C(Yes.)T0(f)A0({\"a\":\"x y\",\"b\":[1, 2]})T1(g)A1({})");
    expect(MINIMAX, "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">1</invoke>",
           "C(<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">1</invoke>)");
}

CASE(seed_calls) {
    expect(SEED,
           "<seed:think>\nhm <seed:cot_budget_reflect>9</seed:cot_budget_reflect>\n</seed:think>\n"
           "Ok.\n<seed:tool_call>\n<function=f>\n<parameter=a>x\ny</parameter>\n"
           "<parameter=b>2</parameter>\n</function>\n</seed:tool_call>\n",
           "R(hm <seed:cot_budget_reflect>9</seed:cot_budget_reflect>)C(Ok.)"
           "T0(f)A0({\"a\":\"x\\ny\",\"b\":2})");
    expect(SEED, "<function=f></function>", "T0(f)A0({})");
    expect(SEED, "<seed:tool_call>f", "C(<seed:tool_call>f)");
}

CASE(hunyuan_calls) {
    expect(HUNYUAN,
           "<think>\nhm\n</think>\n<answer>\nSo.\n<tool_calls>[{\"name\": \"f\", \"arguments\": "
           "{\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]</tool_calls>\n</answer>",
           "R(hm)C(So.)T0(f)A0({\"a\": 1})T1(g)A1({})");
    expect(HUNYUAN,
           "<tool_calls>\n<tool_call>{\"name\": \"f\"}</tool_call>\n<tool_call>{\"name\": "
           "\"g\"}</tool_call>\n</tool_calls>",
           "T0(f)A0({})T1(g)A1({})");
    expect(HUNYUAN,
           "<tool_calls>\n{\"name\": \"f\"}\n{\"name\": \"g\"}\n</tool_calls>{\"name\": 1}",
           "T0(f)A0({})T1(g)A1({})C({\"name\": 1})");
    expect(HUNYUAN, "<think>\n\n</think>\n<answer>\nYes </b>\n</answer>", "C(Yes </b>)");
    expect(HUNYUAN, "It is </answer>", "C(It is </answer>)");
    expect(HUNYUAN, "x <answer>y</answer>", "C(x <answer>y</answer>)");
}

CASE(marks_around_content_are_dropped) {
    expect(GRANITE3, "<think>hm</think><response>Yes.\n</response>\n", "R(hm)C(Yes.)");
    expect(ERNIE, "<think>\nhm\n</think>\n\n<response>\nYes.\n</response>\n\n\n", "R(hm)C(Yes.)");
    expect(ERNIE, "<think>hm</think><response>a</response>b</response>", "R(hm)C(ab</response>)");
    expect(ERNIE, "<think>hm</think><response>\n<tool_call>{\"name\": \"f\"}</tool_call>",
           "R(hm)T0(f)A0({})");
    expect(ERNIE, "<respons", "C(<respons)");
    // a template that writes results of tools so
    expect(MINIMAX "\\n<response>' }}", "<response>a</response>", "C(<response>a</response>)");
    expect("<thought>", "<thought>hm</thought>Yes", "R(hm)C(Yes)");
}

CASE(cohere_calls) {
    expect(COHERE,
           "<|START_THINKING|>hm<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
           "\"tool_name\": \"f\", \"parameters\": {\"a\": 1}},\n    {\"tool_call_id\": \"1\", "
           "\"tool_name\": \"g\", \"parameters\": {}}\n]<|END_ACTION|>",
           "R(hm)T0(f)A0({\"a\": 1})T1(g)A1({})");
    expect(COHERE, "<|START_THINKING|>hm<|START_ACTION|>[{\"tool_name\": \"f\"}]<|END_ACTION|>",
           "R(hm)T0(f)A0({})");
    expect(COHERE, "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>",
           "R(hm)C(Yes.)");
    expect(COHERE, "Yes.<|END_RESPONSE|>", "C(Yes.)"); // the prompt opened it
    const char *opened = "hm<|END_THINKING|><|START_TEXT|>Yes.\n<|END_TEXT|>";
    expect_job(&(struct job){answer_marks_of("<|START_TEXT|><|START_THINKING|>"), true, true,
                             opened, strlen(opened), NULL},
               "R(hm)C(Yes.)");
    expect(COHERE, "<|START_ACTION|>[1]", "C(<|START_ACTION|>[1])");
}

CASE(apertus_calls) {
    expect(APERTUS,
           "<|inner_prefix|>hm<|tools_prefix|>[{\"f\": {\"a\": 1}}, {\"g\": {}}]<|tools_suffix|>",
           "R(hm)T0(f)A0({\"a\": 1})T1(g)A1({})");
    expect(APERTUS, "<|inner_prefix|>hm<|inner_suffix|>Yes", "R(hm)C(Yes)");
    expect(APERTUS, "Yes<|inner_suffix|> and<|inner_prefix|>hm<|inner_suffix|>no",
           "C(Yes and)R(hm)C(no)");
    expect(APERTUS, "<|tools_prefix|>[{\"f\": 1}]", "C(<|tools_prefix|>[{\"f\": 1}])");
    expect(APERTUS, "<|tools_prefix|>[{\"f\": {}, \"g\": {}}]",
           "C(<|tools_prefix|>[{\"f\": {}, \"g\": {}}])");
    expect(APERTUS, "<|tools_prefix|>[{\"name\": \"f\", \"arguments\": {}}]", "T0(f)A0({})");
    expect(HERMES, "<tool_call>{\"f\": {}}", "C(<tool_call>{\"f\": {}})");
}

CASE(gemma4_calls) {
    expect(GEMMA4,
           "<|channel>thought\nhm\n<channel|>Look.<|tool_call>call:f{a:" G4_QUOTE
           "it's {\"x\"}, ]" G4_QUOTE ",b:[1,-2.5e3,true,null," G4_QUOTE G4_QUOTE
           "],c:{k:false," G4_QUOTE "l m" G4_QUOTE
           ":{}}}<tool_call|><|tool_call>call:g{}<tool_call|>",
           "R(hm)C(Look.)T0(f)A0({\"a\":\"it's {\\\"x\\\"}, ]\",\"b\":[1,-2.5e3,true,null,\"\"],"
           "\"c\":{\"k\":false,\"l m\":{}}})T1(g)A1({})");
    expect(GEMMA4, "<|tool_call>call:f{ a : Paris , b: x.y ,c:None}<tool_call|>ok",
           "T0(f)A0({\"a\":\"Paris\",\"b\":\"x.y\",\"c\":null})C(ok)");
    expect(GEMMA4, "<|channel>thought\nhm<|tool_call>call:f{}<tool_call|>", "R(hm)T0(f)A0({})");
    // thoughts between content, and marks that are left over
    expect(GEMMA4, "<|channel>thought\n<channel|>Yes.<|channel>thought\nhm<channel|> No.<channel|>",
           "C(Yes.)R(hm)C(No.)");
    expect(GEMMA4, "<|channel><|channel>thought\nhm<channel|>a <channel|> b", "R(hm)C(a  b)");
    expect(GEMMA4, "a<|channel>", "C(a)");
    expect("<start_function_call>",
           "<start_function_call>call:f{a:<escape>x<y{<escape>,b:1}<end_function_call>",
           "T0(f)A0({\"a\":\"x<y{\",\"b\":1})");
    expect("<|function_call|>", "Ok.<|function_call|>{\"name\": \"f\", \"arguments\": {}}",
           "C(Ok.)T0(f)A0({})");
    static const char *const bad[] = {"call:f",           "call:{}",
                                      "call:f {}",        "call:f{a}",
                                      "call:f{a:}",       "call:f{a:1,}",
                                      "call:f{:1}",       "call:f{a:[1}]",
                                      "call:f{a:<b>}",    "f{a:1}}<tool_call|>x{",
                                      "call:f{a:1 2,b:3", "call:f{a:" G4_QUOTE "x}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128], want[160];
        snprintf(text, sizeof text, "<|tool_call>%s", bad[i]);
        snprintf(want, sizeof want, i == 9 ? "T0(f)A0({\"a\":1})C(}<tool_call|>x{)" : "C(%s)",
                 text);
        expect(GEMMA4, text, want);
    }
}

CASE(olmo3_calls) {
    expect(OLMO3, "Ok.\n<function_calls>\nf(a=\"x\", b=[1, true])\ng()\n</function_calls>",
           "C(Ok.)T0(f)A0({\"a\":\"x\",\"b\":[1,true]})T1(g)A1({})");
    expect(OLMO3, "<function_calls>f()</function_calls>g()", "T0(f)A0({})C(g())");
    expect(OLMO3, "<function_calls>f()\nx y\n</function_calls>",
           "T0(f)A0({})C(x y\n</function_calls>)");
}

CASE(llama4_calls) {
    expect(LLAMA4, "[f(a=\"x\"), g(b=1)]", "T0(f)A0({\"a\":\"x\"})T1(g)A1({\"b\":1})");
    expect(LLAMA4, "<|python_start|>[f()]<|python_end|>", "T0(f)A0({})");
    expect(LLAMA4,
           "<|python_start|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"g\", "
           "\"parameters\": {}}<|python_end|>",
           "T0(f)A0({\"a\": 1})T1(g)A1({})");
    expect(LLAMA4, "<|python_start|><|python_end|>{\"name\": \"f\", \"parameters\": {}}",
           "T0(f)A0({})");
    expect("Use [func_name1(param1=value1)]", " [f()]", "T0(f)A0({})");
    expect(LLAMA4, "[1] says (x=1)", "C([1] says (x=1))");
    expect(LLAMA4, "[f](http://x)", "C([f](http://x))");
    expect(LLAMA4, "See [f(a=1)]", "C(See [f(a=1)])");
    // text that is no call is let out at once
    struct joined joined = {.last = -1, .arguments_ok = true};
    struct answer_parts parts;
    parts_init(&parts, answer_marks_of(LLAMA4), true, NULL, false);
    parts_feed(&parts, "[Note: it", 9, false, on_part, &joined);
    assert_int_equal(joined.content.len, 9);
    parts_deinit(&parts);
    joined_deinit(&joined);
    expect(LLAMA, "[f(a=1)]", "C([f(a=1)])");
}

CASE(dsml_calls) {
    expect(DSML THINK,
           "<think>hm</think>\n\n<" DSML "function_calls>\n<" DSML "invoke name=\"f\">\n<" DSML
           "parameter name=\"a\" string=\"true\">1</" DSML "parameter>\n<" DSML
           "parameter name=\"b\" string=\"false\">[1]</" DSML "parameter>\n</" DSML
           "invoke>\n<" DSML "invoke name=\"g\">\n</" DSML "invoke>\n</" DSML "function_calls>",
           "R(hm)T0(f)A0({\"a\":\"1\",\"b\":[1]})T1(g)A1({})");
    expect(DSML,
           "<" DSML "tool_calls><" DSML "invoke name=\"f\"><" DSML
           "parameter name=\"a\" string=\"false\">x</" DSML "parameter></" DSML "invoke></" DSML
           "tool_calls>ok",
           "T0(f)A0({\"a\":\"x\"})C(ok)");
    expect(MINICPM5, "<function name=\"f\"><param name=\"a\">1</param></function>",
           "T0(f)A0({\"a\":1})");
}

CASE(nemotron_calls) {
    expect(NEMOTRON THINK,
           "<think>\nhm\n</think>\n\n<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": [1]}}, "
           "{\"name\": \"g\", \"arguments\": \"{}\"}]</TOOLCALL>",
           "R(hm)T0(f)A0({\"a\": [1]})T1(g)A1({})");
    expect(NEMOTRON, "So:\n<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}]</TOOLCALL>\nDone.",
           "C(So:)T0(f)A0({})C(Done.)");
    expect(NEMOTRON, "<TOOLCALL>[{\"name\": \"f\"}, 1]</TOOLCALL>",
           "C(<TOOLCALL>[{\"name\": \"f\"}, 1]</TOOLCALL>)");
    const char *opened = "hm\n</think>\n<TOOLCALL>[{\"name\": \"f\"}]</TOOLCALL>";
    expect_job(&(struct job){answer_marks_of(NEMOTRON THINK), true, true, opened, strlen(opened),
                             NULL},
               "R(hm)T0(f)A0({})");
}

static void expect_python(const char *calls, const char *want) {
    char text[1024];
    snprintf(text, sizeof text, LFM2_OPEN "%s" LFM2_CLOSE, calls);
    expect(LFM2, text, want);
}

CASE(lfm2_calls) {
    expect_python("[f()]", "T0(f)A0({})");
    expect_python("[f(a=1, b=\"x\")]", "T0(f)A0({\"a\":1,\"b\":\"x\"})");
    expect_python("[f(a=1), Calendar.new(b=None,)]",
                  "T0(f)A0({\"a\":1})T1(Calendar.new)A1({\"b\":null})");
    expect_python(" [ f ( a = -1.5e3 , b = [ True , False , true , null , ] ) , ] ",
                  "T0(f)A0({\"a\":-1.5e3,\"b\":[true,false,true,null]})");
    expect_python("[f(a={\"k\": {'l': []}, }, b=(1, 'x'), c=(2), d=(3,), e=())]",
                  "T0(f)A0({\"a\":{\"k\":{\"l\":[]}},\"b\":[1,\"x\"],\"c\":2,\"d\":[3],\"e\":[]})");
    expect_python("f(a=1)", "T0(f)A0({\"a\":1})");
    expect_python("[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "T0(f)A0({\"a\": 1})");
    expect_python("[gr\u00FC\u00DFe-2(\u00E4=1)]", "T0(gr\u00FC\u00DFe-2)A0({\"\u00E4\":1})");
    expect(LFM2,
           "Look.\n" LFM2_OPEN "[f(a=1)]" LFM2_CLOSE "\nThen\n" LFM2_OPEN "[g()]" LFM2_CLOSE "end",
           "C(Look.)T0(f)A0({\"a\":1})C(Then)T1(g)A1({})C(end)");
    expect(LFM2 THINK, "<think>[f()]</think>" LFM2_OPEN "[f()]", "R([f()])T0(f)A0({})");
    // the other signs of its templates
    expect("List of tools: [", LFM2_OPEN "[f()]" LFM2_CLOSE, "T0(f)A0({})");
    expect(LFM2_OPEN, LFM2_OPEN "[f()]" LFM2_CLOSE, "T0(f)A0({})");
}

CASE(lfm2_strings) {
    expect_python("[f(a='', b=\"\", c='''''')]", "T0(f)A0({\"a\":\"\",\"b\":\"\",\"c\":\"\"})");
    expect_python("[f(a='[(\"', b=\")]'\")]", "T0(f)A0({\"a\":\"[(\\\"\",\"b\":\")]'\"})");
    expect_python("[f(a='it\\'s \\\\', b=\"\\\"\\n\\t\\/\\d\")]",
                  "T0(f)A0({\"a\":\"it's \\\\\",\"b\":\"\\\"\\n\\t\\\\/\\\\d\"})");
    expect_python("[f(a='it\\', (x\\\\', b='\\\\\\'')]",
                  "T0(f)A0({\"a\":\"it', (x\\\\\",\"b\":\"\\\\'\"})");
    // quotes without escapes, as the template writes them
    expect_python("[f(a='it's', b=\"say \"hi\" now\" )]",
                  "T0(f)A0({\"a\":\"it's\",\"b\":\"say \\\"hi\\\" now\"})");
    expect_python("[f(a='two\nlines\\\n joined')]", "T0(f)A0({\"a\":\"two\\nlines joined\"})");
    expect_python("[f(a='''it's, ''\n''', b=\"\"\"x\"y\"\"\")]",
                  "T0(f)A0({\"a\":\"it's, ''\\n\",\"b\":\"x\\\"y\"})");
    expect_python(
        "[f(a='\\x41\\u00e9\\U0001F600\\101\\0', b='\\ud83d\\ude00\\ud83d!\\ude00')]",
        "T0(f)A0({\"a\":\"A\u00E9\U0001F600A\\u0000\",\"b\":\"\U0001F600\uFFFD!\uFFFD\"})");
    expect_python("[f(a='" LFM2_CLOSE "')]", "T0(f)A0({\"a\":\"" LFM2_CLOSE "\"})");
}

CASE(what_is_no_python_call_is_content) {
    static const char *const calls[] = {
        "",
        "[]",
        "[f]",
        "[f(]",
        "[f(1)]",
        "[f(a=)]",
        "[f(a=b)]",
        "[f(a=1]",
        "[f(a=1))",
        "[f(a=1}]",
        "[f(a=1) g()]",
        "[f(a=1 b=2)]",
        "[f(a='x)]",
        "[f(a='\\x4')]",
        "[(a=1)]",
        "[f(a=[1)]]",
        "[f(,)]",
        "[f(a=1,,)]",
        "[1(a=1)]",
        "[f(1a=2)]",
        "[f(a={1: 2})]",
        "[f(a=0x10)]",
        "[f(a==1)]",
        "[f(a=1+2)]",
        "[f(a=1), 5]",
        "[,f()]",
        "[f(a=g(b=1))]",
        "text",
        "[f(a=1; b=2)]",

        "[f(a={'k'})]",
        "[f(a={k: 1})]",
        "[f(a=(,))]",
        "[\"f\"]",
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char text[256], want[300];
        snprintf(text, sizeof text, LFM2_OPEN "%s" LFM2_CLOSE ".", calls[i]);
        snprintf(want, sizeof want, "C(%s)", text);
        expect(LFM2, text, want);
    }
    expect(LFM2, "[f(a=1)]", "C([f(a=1)])");
    expect(LFM2, LFM2_OPEN "f(a=1), g()", "T0(f)A0({\"a\":1})C(, g())");
    expect(LFM2, "a [link](url) " LFM2_OPEN "[f(a=", "C(a [link](url) " LFM2_OPEN "[f(a=)");
}

CASE(deep_python_is_content) {
    struct jbuf text = {0};
    jbuf_text(&text, LFM2_OPEN "[f(a=");
    for (int i = 0; i < 100; i++) jbuf_text(&text, i < 50 ? "[" : "]");
    jbuf_text(&text, ")]");
    struct job job = {answer_marks_of(LFM2), true, false, text.data, text.len, NULL};
    struct joined joined = run(&job, 3);
    check(joined.n_tools == 1, "%s", joined.text.data);
    joined_deinit(&joined);
    jbuf_clear(&text);
    jbuf_text(&text, LFM2_OPEN "[f(a=");
    for (int i = 0; i < 200; i++) jbuf_text(&text, i < 100 ? "[" : "]");
    jbuf_text(&text, ")]");
    job.text = text.data;
    job.len = text.len;
    joined = run(&job, 3);
    check(joined.content.len == text.len, "%s", joined.text.data);
    joined_deinit(&joined);
    jbuf_deinit(&text);
}

CASE(deep_values_between_tags_are_strings) {
    json_t *types = types_make("\"a\":{\"type\":\"array\"}");
    struct jbuf text = {0};
    jbuf_text(&text, "<function=f><parameter=a>('");
    for (int i = 0; i < 200000; i++) jbuf_text(&text, i ? "(" : "',");
    jbuf_text(&text, "</parameter></function>");
    const struct job job = {answer_marks_of(CODER), true, false, text.data, text.len, types};
    struct joined joined = run(&job, 0);
    check(joined.n_tools == 1 && strstr(joined.text.data, "\"('',((("), "%.60s", joined.text.data);
    joined_deinit(&joined);
    jbuf_deinit(&text);
    json_decref(types);
}

CASE(mistral_calls) {
    expect(MISTRAL,
           "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"x\"}, {\"name\": "
           "\"g\", \"arguments\": {}}]",
           "T0(f)A0({\"a\": 1})T1(g)A1({})");
    expect(MISTRAL, "Look.[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]ab1[ARGS]{}",
           "C(Look.)T0(f)A0({\"a\": 1})T1(g)A1({})");
    expect(MISTRAL, "[TOOL_CALLS]f[ARGS][]", "C([TOOL_CALLS]f[ARGS][])");
}

CASE(llama_calls) {
    expect(LLAMA, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "T0(f)A0({\"a\": 1})");
    expect(LLAMA,
           "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}; "
           "{\"name\": \"g\", \"parameters\": {}}",
           "T0(f)A0({})T1(g)A1({})");
    expect(LLAMA, "\n{\"name\": \"Bob\"} ok", "C(\n{\"name\": \"Bob\"} ok)");
    expect(LLAMA, "It is {\"name\": \"f\", \"parameters\": {}}",
           "C(It is {\"name\": \"f\", \"parameters\": {}})");
    expect(LLAMA, "<|python_tag|>f.call(1)", "C(<|python_tag|>f.call(1))");
}

CASE(deepseek_and_kimi_calls) {
    expect(DS_CALL,
           "a" DS_CALLS DS_CALL "function" DS_SEP "f\n```json\n{\"a\": 1}\n```" DS_CALL_END
           "\n" DS_CALL "function" DS_SEP "g\n```json\n{}\n```" DS_CALL_END DS_CALLS_END,
           "C(a)T0(f)A0({\"a\": 1})T1(g)A1({})");
    expect(DS_CALL, DS_CALLS DS_CALL "f" DS_SEP "{\"a\": 1}" DS_CALL_END DS_CALLS_END,
           "T0(f)A0({\"a\": 1})");
    expect(DS_CALL, DS_CALLS "no", "C(" DS_CALLS "no)");
    expect(KIMI,
           "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
           "<|tool_call_argument_begin|>{\"a\":1}<|tool_call_end|><|tool_calls_section_end|>",
           "T0(f)A0({\"a\":1})");
    expect(KIMI THINK,
           "<think>hm</think>Ok.<|tool_calls_section_begin|><|tool_call_begin|> functions.f-g:0 "
           "<|tool_call_argument_begin|> {} <|tool_call_end|><|tool_call_begin|>functions.h:1"
           "<|tool_call_argument_begin|>{\"a\": \"b\"}<|tool_call_end|><|tool_calls_section_end|>",
           "R(hm)C(Ok.)T0(f-g)A0({})T1(h)A1({\"a\": \"b\"})");
    expect("[THINK]" MISTRAL, "[THINK]hm[/THINK]Ok.[TOOL_CALLS]f[ARGS]{\"a\": {}}",
           "R(hm)C(Ok.)T0(f)A0({\"a\": {}})");
}

CASE(harmony_channels) {
    expect(HARMONY,
           "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>"
           "Yes <|x|>.",
           "R(Hm.)C(Yes <|x|>.)");
    expect(HARMONY,
           "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
           "to=functions.f <|constrain|>json<|message|>{\"a\":1}",
           "R(Hm.)T0(f)A0({\"a\":1})");
    expect(HARMONY, " to=functions.f<|channel|>commentary<|message|>{}<|call|>", "T0(f)A0({})");
    expect(HARMONY,
           "<|channel|>commentary<|message|>First<|end|><|start|>assistant<|channel|>"
           "commentary to=g<|message|>{\"a\"",
           "C(First<|start|>assistant<|channel|>commentary to=g<|message|>{\"a\")");
    expect(HARMONY, "plain", "C(plain)");
    expect(HARMONY, "<|channel|>", "C(<|channel|>)");
    const char *call = "<|channel|>commentary to=functions.f<|message|>{}";
    expect_job(&(struct job){answer_marks_of(HARMONY), false, false, call, strlen(call), NULL},
               "C({})");
    expect_job(&(struct job){answer_marks_of(HARMONY), true, true, "a<|end|>", 8, NULL}, "R(a)");
}

// The markup of published models follows from their templates.
CASE(templates_tell_the_format) {
    static const char *const cases[][3] = {
        {"chatml", "<think>a</think><tool_call>{}", "C(<think>a</think><tool_call>{})"},
        {"phi3", "{\"name\": \"f\", \"parameters\": {}}",
         "C({\"name\": \"f\", \"parameters\": {}})"},
        {"gemma", "<tool_call>{\"name\": \"f\"}", "C(<tool_call>{\"name\": \"f\"})"},
        {"hermes", "<tool_call>{\"name\": \"f\"}</tool_call>", "T0(f)A0({})"},
        {"qwen25", "<tool_call>{\"name\": \"f\"}</tool_call>", "T0(f)A0({})"},
        {"qwen3", "<think>a</think><tool_call>{\"name\": \"f\"}</tool_call>", "R(a)T0(f)A0({})"},
        {"llama3", "{\"name\": \"f\", \"parameters\": {}}", "T0(f)A0({})"},
        {"mistral", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]", "T0(f)A0({})"},
        {"deepseek", "<think>a</think>" DS_CALLS DS_CALL "f" DS_SEP "{}" DS_CALL_END,
         "R(a)T0(f)A0({})"},
        {"gptoss", "<|channel|>analysis<|message|>a<|end|>", "R(a)"},
        {"qwen35",
         "<think>a</think><tool_call><function=f><parameter=a>1</parameter></function></tool_call>",
         "R(a)T0(f)A0({\"a\":1})"},
        {"nemotron", "<think>a</think><TOOLCALL>[{\"name\": \"f\"}]</TOOLCALL>", "R(a)T0(f)A0({})"},
        {"lfm2", "<think>a</think>" LFM2_OPEN "[f(a=1)]" LFM2_CLOSE, "R(a)T0(f)A0({\"a\":1})"},
        {"apertus", "<|inner_prefix|>a<|inner_suffix|><|tools_prefix|>[{\"f\": {}}]",
         "R(a)T0(f)A0({})"},
        {"cohere", "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>",
         "R(a)C(b)"},
        {"deepseek31", DS_CALLS DS_CALL "f" DS_SEP "{}" DS_CALL_END DS_CALLS_END, "T0(f)A0({})"},
        {"ernie45",
         "<think>a</think><response>b</response><tool_call>{\"name\": \"f\"}</tool_call>",
         "R(a)C(b)T0(f)A0({})"},
        {"exaone4", "<think>a</think><tool_call>{\"name\": \"f\"}</tool_call>", "R(a)T0(f)A0({})"},
        {"gemma4", "<|channel>thought\na<channel|>b<|tool_call>call:f{a:1}<tool_call|>",
         "R(a)C(b)T0(f)A0({\"a\":1})"},
        {"glm45", "<think>a</think><tool_call>f</tool_call>", "R(a)T0(f)A0({})"},
        {"granite4", "<tool_call>{\"name\": \"f\"}</tool_call>", "T0(f)A0({})"},
        {"hunyuan",
         "<think>a</think><answer>b<tool_calls>[{\"name\": \"f\"}]</tool_calls></answer>",
         "R(a)C(b)T0(f)A0({})"},
        {"kimi", "<think>a</think><|tool_call_begin|>f:0<|tool_call_argument_begin|>{}",
         "R(a)T0(f)A0({})"},
        {"llama4", "[f(a=1)]", "T0(f)A0({\"a\":1})"},
        {"minimax", "<think>a</think><minimax:tool_call><invoke name=\"f\"></invoke>",
         "R(a)T0(f)A0({})"},
        {"ministral3", "[THINK]a[/THINK][TOOL_CALLS]f[ARGS]{}", "R(a)T0(f)A0({})"},
        {"olmo3", "<think>a</think><function_calls>f()</function_calls>", "R(a)T0(f)A0({})"},
        {"seed", "<seed:think>a</seed:think><seed:tool_call><function=f></function>",
         "R(a)T0(f)A0({})"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[DATA_PATH_BYTES];
        snprintf(path, sizeof path, TEST_DATA "/templates/%s.jinja", cases[i][0]);
        struct data_file file = data_file_find(path);
        check(file.data != NULL, "%s", path);
        expect((const char *)file.data, cases[i][1], cases[i][2]);
        free(file.data);
    }
}

// Whether the prompt of a conversation, as jinja2 rendered it, opens the reasoning.
CASE(templates_open_the_reasoning) {
    static const struct {
        const char *family, *name;
        bool opens;
    } cases[] = {{"qwen35", "one turn", true},        {"qwen35", "reasoning off", false},
                 {"qwen35", "tools called", true},    {"nemotron", "one turn", true},
                 {"lfm2", "one turn", false},         {"qwen3", "one turn", false},
                 {"qwen3", "reasoning off", false},   {"minimax", "one turn", true},
                 {"olmo3", "one turn", true},         {"ernie45", "one turn", true},
                 {"ernie45", "reasoning off", false}, {"gemma4", "one turn", false},
                 {"gemma4", "reasoning off", false},  {"deepseek31", "one turn", false},
                 {"exaone4", "one turn", false},      {"cohere", "reasoning off", false},
                 {"glm45", "one turn", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[DATA_PATH_BYTES];
        snprintf(path, sizeof path, TEST_DATA "/templates/%s.jinja", cases[i].family);
        struct data_file source = data_file_read(path);
        snprintf(path, sizeof path, TEST_DATA "/templates/expected/%s.json", cases[i].family);
        json_t *rendered = data_json_read(path);
        const char *text =
            json_string_value(json_object_get(json_object_get(rendered, cases[i].name), "text"));
        check(text && opens((const char *)source.data, text) == cases[i].opens, "%s, %s: %s",
              cases[i].family, cases[i].name, text ? text : "no text");
        json_decref(rendered);
        free(source.data);
    }
}

// ---------------------------------------------------------------- calls that templates write

// Calls as a list of {"name", "arguments"}.
static void on_call(void *ctx, enum answer_part part, int tool, const char *text, size_t len) {
    json_t *calls = ctx;
    if (part == PART_TOOL)
        json_array_append_new(calls, json_pack("{s:s%}", "name", text, len));
    else if (part == PART_TOOL_ARGUMENTS)
        json_object_set_new(json_array_get(calls, (size_t)tool), "arguments",
                            json_loadb(text, len, 0, NULL));
}

// The first calls of a conversation in that form, and tools whose schemas have their values.
static json_t *calls_of(const json_t *messages, json_t *tools) {
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(messages) && !json_array_size(calls); i++) {
        const json_t *list = json_object_get(json_array_get(messages, i), "tool_calls");
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *call = json_object_get(json_array_get(list, k), "function");
            json_t *name = json_object_get(call, "name"), *properties = json_object(), *value;
            json_t *arguments = json_object_get(call, "arguments");
            const char *key;
            json_object_foreach(arguments, key, value)
                json_object_set_new(properties, key, json_pack("{s:[O]}", "enum", value));
            json_array_append_new(tools, json_pack("{s:{s:O, s:{s:o}}}", "function", "name", name,
                                                   "parameters", "properties", properties));
            json_array_append_new(calls,
                                  json_pack("{s:O, s:O}", "name", name, "arguments", arguments));
        }
    }
    return calls;
}

// The texts around the first answer of a conversation.
struct written {
    const char *family, *begin, *end;
};

static void expect_read_back(const struct written *written, const char *source, const char *name,
                             const json_t *messages, const char *text) {
    json_t *tools = json_array(), *calls = json_array(), *want = calls_of(messages, tools);
    json_t *types = answer_types_of(tools);
    struct answer_parts parts;
    const char *begin = strstr(text, written->begin);
    if (begin) begin += strlen(written->begin);
    const char *const end = begin ? strstr(begin, written->end) : NULL;
    check(begin && end && json_array_size(want), "%s, %s: %s", written->family, name, text);
    parts_init(&parts, answer_marks_of(source), true, types, false);
    parts_feed(&parts, begin, (size_t)(end - begin), true, on_call, calls);
    parts_deinit(&parts);
    check(json_equal(calls, want), "%s, %s: %s gave %s", written->family, name, begin,
          json_dumps(calls, JSON_COMPACT));
    json_decref(types);
    json_decref(calls);
    json_decref(tools);
    json_decref(want);
}

CASE(calls_that_a_template_writes_are_read_back) {
    static const struct written families[] = {
        {"hermes", "assistant\n", "<|im_end|>"},
        {"qwen25", "assistant\n", "<|im_end|>"},
        {"qwen3", "assistant\n", "<|im_end|>"},
        {"qwen35", "assistant\n", "<|im_end|>"},
        {"nemotron", "Assistant\n", "<SPECIAL_12>"},
        {"lfm2", "assistant\n", "<|im_end|>"},
        {"apertus", "<|assistant_start|>", "<|tools_suffix|>"},
        {"cohere", "<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
        {"deepseek31", "<\uFF5CAssistant\uFF5C></think>", "<\uFF5Cend\u2581of"},
        {"ernie45", "assistant\n", "<|im_end|>"},
        {"exaone4", "[|assistant|]\n", "[|endofturn|]"},
        {"gemma4", "<|turn>model\n", "<|tool_response>"},
        {"glm45", "<|assistant|>", "<|observation|>"},
        {"granite4", "assistant<|end_of_role|>", "<|end_of_text|>"},
        {"hunyuan", "<|extra_0|>", "<|eos|>"},
        {"kimi", "assistant<|im_middle|>", "<|im_end|>"},
        {"llama4", "assistant<|header_end|>\n\n", "<|eot|>"},
        {"minimax", "]~b]ai\n", "[e~["},
        {"ministral3", "[/INST]", "</s>"},
        {"olmo3", "assistant\n", "<|im_end|>"},
        {"seed", "<seed:bos>assistant", "<seed:eos>"},
    };
    static const char *const names[] = {"tool called", "tools called", "numbers"};
    json_t *all = data_json_read(TEST_DATA "/templates/conversations.json"), *conversation;
    int n = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char path[DATA_PATH_BYTES];
        snprintf(path, sizeof path, TEST_DATA "/templates/%s.jinja", families[i].family);
        struct data_file source = data_file_read(path);
        snprintf(path, sizeof path, TEST_DATA "/templates/expected/%s.json", families[i].family);
        json_t *rendered = data_json_read(path);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            const char *text =
                json_string_value(json_object_get(json_object_get(rendered, names[k]), "text"));
            size_t at;
            json_array_foreach(json_object_get(all, "conversations"), at, conversation) {
                const json_t *name = json_object_get(conversation, "name");
                if (!text || strcmp(json_string_value(name), names[k])) continue;
                const json_t *variables = json_object_get(conversation, "variables");
                expect_read_back(&families[i], (const char *)source.data, names[k],
                                 json_object_get(variables, "messages"), text);
                n++;
            }
        }
        json_decref(rendered);
        free(source.data);
    }
    json_decref(all);
    check(n >= 46, "%d conversations", n);
}

CASE(without_tools_there_are_no_calls) {
    static const char *const cases[][2] = {
        {HERMES, "<tool_call>{\"name\":\"f\"}</tool_call>"},
        {CODER, "<function=f></function>"},
        {MISTRAL, "[TOOL_CALLS]f[ARGS]{}"},
        {LLAMA, "{\"name\": \"f\", \"parameters\": {}}"},
        {NEMOTRON, "<TOOLCALL>[{\"name\": \"f\"}]</TOOLCALL>"},
        {LFM2, LFM2_OPEN "[f()]" LFM2_CLOSE},
        {GEMMA4, "<|tool_call>call:f{}<tool_call|>"},
        {SEED, "<seed:tool_call><function=f></function></seed:tool_call>"},
        {HUNYUAN, "<tool_calls>[{\"name\":\"f\"}]</tool_calls>"},
        {COHERE, "<|START_ACTION|>[{\"tool_name\":\"f\"}]<|END_ACTION|>"},
        {APERTUS, "<|tools_prefix|>[{\"f\":{}}]<|tools_suffix|>"},
        {OLMO3, "<function_calls>f()</function_calls>"},
        {LLAMA4, "[f()]"},
        {MINIMAX, "<minimax:tool_call><invoke name=\"f\"></invoke>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[128];
        snprintf(want, sizeof want, "C(%s)", cases[i][1]);
        expect_job(&(struct job){answer_marks_of(cases[i][0]), false, false, cases[i][1],
                                 strlen(cases[i][1]), NULL},
                   want);
    }
}

// ---------------------------------------------------------------- any text at all

static const char *const templates[] = {NULL,    THINK,      HERMES,   THINK HERMES,
                                        CODER,   GLM,        MISTRAL,  LLAMA THINK,
                                        HARMONY, KIMI,       DS_CALL,  "<minimax:tool_call>",
                                        LFM2,    LFM2 THINK, NEMOTRON, MINIMAX,
                                        SEED,    HUNYUAN,    GEMMA4,   COHERE,
                                        APERTUS, OLMO3,      LLAMA4,   ERNIE,
                                        DSML};
static const char *const fragments[] = {
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<function=f>",
    "</function>",
    "<parameter=a>",
    "</parameter>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|python_tag|>",
    "<|channel|>",
    "<|message|>",
    "<|end|>",
    "<|start|>assistant",
    "analysis",
    "final",
    "commentary to=functions.f ",
    DS_CALLS,
    DS_CALL,
    DS_SEP,
    DS_CALL_END,
    "```json\n",
    "```",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "{\"name\": \"f\", \"arguments\": {\"a\": \"<\"}}",
    "{\"name\":\"g\",\"parameters\":{}}",
    "{\"a\":[1,2]}",
    "{}",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ";",
    "f",
    "f\n",
    "\n",
    " ",
    "\n\n",
    "x",
    "\u00E9",
    "<",
    "<|",
    "<t",
    "1",
    "<invoke name=\"f\">",
    "</invoke>",
    "<parameter name=\"a\">",
    "<minimax:tool_call>",
    "<TOOLCALL>",
    "</TOOLCALL>",
    "[{\"name\":\"f\"}]",
    LFM2_OPEN,
    LFM2_OPEN,
    LFM2_OPEN "[f(",
    LFM2_CLOSE,
    "f(a=",
    "g(",
    "a='",
    "b=\"",
    "'",
    "\"\"\"",
    "'''",
    ")",
    ")]",
    "), ",
    "(",
    "=",
    "True",
    "{'k': ",
    "{'name': 'f', 'arguments': {",
    "}}",
    "\\x4",
    "\\ud83d",
    ":",
    "<seed:tool_call>",
    "</seed:tool_call>",
    "<seed:think>",
    "<tool_calls>",
    "</tool_calls>",
    "<answer>",
    "</answer>",
    "<response>",
    "</response>",
    "<|channel>thought\n",
    "<|channel>",
    "<channel|>",
    "<|tool_call>call:f{",
    "<|tool_call>",
    "<tool_call|>",
    "a:" G4_QUOTE,
    G4_QUOTE,
    "b:[",
    "<|START_THINKING|>",
    "<|END_THINKING|>",
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|inner_prefix|>",
    "<|inner_suffix|>",
    "<|tools_prefix|>[{\"f\": {}}]",
    "<|tools_suffix|>",
    "<function_calls>",
    "</function_calls>",
    "<|python_start|>",
    "<|python_end|>",
    "<" DSML "invoke name=\"f\">",
    "</" DSML "invoke>",
    "<" DSML "parameter name=\"a\" string=\"true\">",
    "</" DSML "parameter>",
};

CASE(any_cut_gives_the_same_parts) {
    json_t *types = types_make("\"a\":{\"type\":[\"string\",\"array\"]}");
    srand(1);
    for (int round = 0; round < 100000; round++) {
        struct jbuf text = {0};
        for (int n = rand() % 14; n > 0; n--) {
            const char *fragment =
                fragments[(size_t)rand() % (sizeof fragments / sizeof *fragments)];
            const size_t len = strlen(fragment);
            jbuf_bytes(&text, fragment, rand() % 8 ? len : (size_t)rand() % len);
        }
        const char *tmpl = templates[(size_t)rand() % (sizeof templates / sizeof *templates)];
        const struct job job = {
            answer_marks_of(tmpl),      rand() % 4 != 0, rand() % 4 == 0,
            text.data ? text.data : "", text.len,        rand() % 2 ? types : NULL};
        struct joined whole = run(&job, 0), cut = run(&job, 1 + (size_t)rand() % 12);
        check(!strcmp(whole.text.data, cut.text.data), "%s: '%.*s' gave\n%s\nand cut\n%s", tmpl,
              (int)text.len, job.text, whole.text.data, cut.text.data);
        check(whole.arguments_ok, "'%.*s' gave %s", (int)text.len, job.text, whole.text.data);
        check(job.tools || !whole.n_tools, "calls without tools: %s", whole.text.data);
        const bool is_content =
            !strchr("RT", whole.text.data[0]) && !whole.n_tools && !strstr(whole.text.data, ")R(");
        if (is_content && tmpl && strcmp(tmpl, HARMONY) && !strstr(tmpl, "think") &&
            !job.marks.reasoning.open)
            check(whole.content.len == text.len && !memcmp(whole.content.data, text.data, text.len),
                  "'%.*s' lost something: %s", (int)text.len, job.text, whole.text.data);
        joined_deinit(&whole);
        joined_deinit(&cut);
        jbuf_deinit(&text);
    }
    json_decref(types);
}

CASE(long_things_are_let_out_whole) {
    static const char *const parts[][3] = {
        // template, beginning, what is repeated
        {HERMES, "<tool_call>{\"a\":\"", "abcdefgh"},
        {HERMES, "<tool_call>", "         "},
        {HERMES, "<tool_call>", "[[[[[[[["},
        {HERMES, "x", "\n\n\n\n\n\n\n\n"},
        {CODER, "<function=f><parameter=a>", "</function>"},
        {CODER, "<function=", "aaaaaaaa"},
        {MISTRAL, "[TOOL_CALLS]", "name name"},
        {LLAMA, "{", "{\"a\":{\"b\":"},
        {GLM, "<tool_call>f<arg_key>a</arg_key><arg_value>", "</tool_call>"},
        {HERMES, "", "<tool_call>{"},
        {KIMI, "<|tool_call_begin|>f<|tool_call_argument_begin|>{", "       "},
        {NEMOTRON, "<TOOLCALL>[", "{\"name\":\"f\"},"},
        {HERMES, "<tool_call>{'name': 'f', 'arguments': {", "'a': 'b', "},
        {HERMES, "<tool_call>", "{[ "},
        {HERMES, "<tool_call>[", "         "},
        {LFM2, LFM2_OPEN "[f(a='", "abcdefgh"},
        {LFM2, LFM2_OPEN "[f(a='", "' "},
        {LFM2, LFM2_OPEN "[f(a='", "'                    "},
        {LFM2, LFM2_OPEN "[f(a='''", "''"},
        {LFM2, LFM2_OPEN "[f(", "a=1, "},
        {LFM2, LFM2_OPEN "[", "        "},
        {LFM2, LFM2_OPEN, "ffffffff"},
        {LFM2, LFM2_OPEN "[f(a=", "[{(["},
        {LFM2, "", LFM2_OPEN "["},
        {GEMMA4, "<|tool_call>call:f{a:" G4_QUOTE, "abcdefgh"},
        {GEMMA4, "<|tool_call>call:f{", "a:1,"},
        {GEMMA4, "<|tool_call>call:f{a:", "[{a:"},
        {GEMMA4, "<|tool_call>", "call:"},
        {GEMMA4, "<|tool_call>call:", "ffffffff"},
        {OLMO3, "<function_calls>", "f f f f "},
        {LLAMA4, "[f(", "a=1, "},
        {APERTUS, "<|tools_prefix|>[", "{\"f\":{}},"},
        {DSML, "<" DSML "invoke name=\"f\"><" DSML "parameter name=\"", "aaaaaaaa"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct jbuf text = {0};
        jbuf_text(&text, parts[i][1]);
        while (text.len < (3 << 19)) jbuf_text(&text, parts[i][2]);
        const struct job job = {
            answer_marks_of(parts[i][0]), true, false, text.data, text.len, NULL};
        struct joined whole = run(&job, 0), cut = run(&job, 20);
        check(whole.content.len == text.len && !memcmp(whole.content.data, text.data, text.len),
              "row %zu: %zu of %zu bytes", i, whole.content.len, text.len);
        check(cut.content.len == text.len && !memcmp(cut.content.data, text.data, text.len),
              "row %zu, cut: %zu of %zu bytes", i, cut.content.len, text.len);
        joined_deinit(&whole);
        joined_deinit(&cut);
        jbuf_deinit(&text);
    }
}

TEST_PROGRAM(answer_parts) { return cases_run(NULL, NULL); }
