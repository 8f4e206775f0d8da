// Answers: calls between tags, and the types of their values.
#include "answer_text.h"
#include "helpers.h"

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
    expect(GLM, "<tool_call>f<arg_key>a</tool_call>x<tool_call>g</tool_call>",
           "C(<tool_call>f<arg_key>a</tool_call>x)T0(g)A0({})");
    expect(GLM, "<tool_call>f<arg_key>a</tool_call>", "C(<tool_call>f<arg_key>a</tool_call>)");
}

CASE(minimax_calls) {
    expect(MINIMAX,
           "<think>\nhm\n</think>\n\nYes.\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter "
           "name=\"a\">x y</parameter>\n<parameter name=\"b\">[1, 2]</parameter>\n</invoke>\n"
           "<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
           "R(hm)C(Yes.)T0(f)A0({\"a\":\"x y\",\"b\":[1, 2]})T1(g)A1({})");
    expect(MINIMAX, "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">1</invoke>",
           "T0(f)A0({\"a\":\"1</invoke>~)");
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

// JSON may be nested as deeply as requests may, the arguments around it included. The string before
// the brackets could be let out, but the value as a whole could not.
CASE(the_deepest_values_between_tags_end_where_the_arguments_do) {
    for (int depth = 60; depth < 68; depth++) {
        char open[80], close[80], text[512], want[512];
        snprintf(open, sizeof open, "%.*s", depth, brackets_open);
        snprintf(close, sizeof close, "%.*s", depth, brackets_close);
        snprintf(text, sizeof text, "<function=f><parameter=a>[\"x\",%s%s]</parameter></function>",
                 open, close);
        const bool is_json = depth + 2 <= 64;
        snprintf(want, sizeof want, "T0(f)A0({\"a\":%s,%s%s]%s})",
                 is_json ? "[\"x\"" : "\"[\\\"x\\\"", open, close, is_json ? "" : "\"");
        expect(CODER, text, want);
    }
}

TEST_PROGRAM(answer_tags) { return cases_run(NULL, NULL); }
