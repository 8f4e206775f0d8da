// Structures: tables of texts, and free text against its definition on random strings. In these
// texts a special token stands between \xff and \xfe.
#include "kit.h"

#define S(text) "\xff" text "\xfe"

static const char *const pieces[] = {"<",  ">",    "<f",  "=a>", "<call>", "</call>",  "a", "b",
                                     "ab", "\":1", "{\"", "}",   "</f>",   "\xc3\xa9", "\n"};

struct expected {
    const char *structure, *text;
    bool is_valid;
};

static void check_texts(const struct expected *table, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct constraint *c = kit_compile(CONSTRAINT_STRUCTURE, table[i].structure);
        check(kit_accepts(c, table[i].text, strlen(table[i].text)) == table[i].is_valid,
              "%s: \"%s\": expected %d", table[i].structure, table[i].text, table[i].is_valid);
        struct constraint_run *run;
        check(!constraint_open(c, 1, &run, NULL), "open");
        const size_t half = strlen(table[i].text) / 2;
        if (constraint_feed(run, 0, table[i].text, half)) kit_check_mask(run, table[i].structure);
        constraint_close(run);
        constraint_release(c);
    }
}
#define CHECK_TEXTS(table) check_texts(table, sizeof table / sizeof *table)

CASE(formats_one_by_one) {
#define F(text) "{\"type\":\"structural_tag\",\"format\":" text "}"
    static const struct expected table[] = {
        {F("{\"type\":\"const_string\",\"value\":\"ab\"}"), "ab", true},
        {F("{\"type\":\"const_string\",\"value\":\"ab\"}"), "a", false},
        {F("{\"type\":\"const_string\",\"value\":\"a<call></s>\"}"), "a" S("<call>"), true},
        {F("{\"type\":\"const_string\",\"value\":\"a<call></s>\"}"), "a<call>", false},
        {"{\"type\":\"regex\",\"pattern\":\"[ab]{2}\"}", "ba", true},
        {"{\"type\":\"regex\",\"pattern\":\"[ab]{2}\"}", "bab", false},
        {"{\"type\":\"grammar\",\"grammar\":\"root ::= x x\\nx ::= [ab]\"}", "ab", true},
        {"{\"type\":\"json_schema\",\"json_schema\":{\"type\":\"integer\"}}", "12", true},
        {"{\"type\":\"json_schema\",\"json_schema\":{\"type\":\"integer\"}}", "\"a\"", false},
        {"{\"type\":\"token\",\"token\":\"<call>\"}", S("<call>"), true},
        {"{\"type\":\"token\",\"token\":97}", "a", true},
        {"{\"type\":\"sequence\",\"elements\":[{\"type\":\"const_string\",\"value\":\"a\"},"
         "{\"type\":\"or\",\"elements\":[{\"type\":\"const_string\",\"value\":\"b\"},"
         "{\"type\":\"const_string\",\"value\":\"<s>\"}]}]}",
         "a" S("<s>"), true},
        {"{\"type\":\"repeat\",\"min\":1,\"max\":2,\"content\":{\"type\":\"const_string\","
         "\"value\":\"a\"}}",
         "aaa", false},
        {"{\"type\":\"plus\",\"content\":{\"type\":\"const_string\",\"value\":\"a\"}}", "aaa",
         true},
        {"{\"type\":\"star\",\"content\":{\"type\":\"const_string\",\"value\":\"a\"}}", "", true},
        {"{\"type\":\"optional\",\"content\":{\"type\":\"const_string\",\"value\":\"a\"}}", "aa",
         false},
    };
    CHECK_TEXTS(table);
}

CASE(free_text_ends_with_its_tag) {
#define TAG(content, end)                                                                          \
    "{\"type\":\"tag\",\"begin\":\"<f>\",\"content\":" content ",\"end\":" end "}"
#define TEXT "{\"type\":\"any_text\",\"excludes\":[\"ab\"]}"
    static const struct expected table[] = {
        {TAG(TEXT, "\"</f>\""), "<f>b</f</f>", true},
        {TAG(TEXT, "\"</f>\""), "<f></f>a</f>", false},
        {TAG(TEXT, "\"</f>\""), "<f>ab</f>", false},
        {TAG(TEXT, "\"</f>\""), "<f>a" S("<s>") "b</f>", true},
        {TAG(TEXT, "\"</call>\""), "<f>\xc3\xa9" S("<call>") S("</call>"), true},
        {TAG(TEXT, "\"</call>\""), "<f>" S("</call>") S("</call>"), false},
        {TAG(TEXT, "\"</call>\""), "<f></call>" S("</call>"), false}, // not in plain tokens either
        {TAG(TEXT, "[\"</f>\",\"x\"]"), "<f>bx", true},
        {TAG(TEXT, "[\"</f>\",\"x\"]"), "<f>bxx", false},
        {TAG(TEXT, "\"\""), "<f>b", true},
        {TAG(TEXT, "\"</s>\""), "<f>b", true},
        {TAG(TEXT, "\"x</s>\""), "<f>bx", true},
        {TAG(TEXT, "\"x</s>\""), "<f>b", false},
        {TAG("{\"type\":\"sequence\",\"elements\":[{\"type\":\"const_string\",\"value\":\"a\"}"
             "," TEXT "]}",
             "\"</f>\""),
         "<f>a</f></f>", false},
        {TAG("{\"type\":\"sequence\",\"elements\":[{\"type\":\"const_string\",\"value\":\"a\"}"
             "," TEXT "]}",
             "\"</f>\""),
         "<f>ax</f>", true},
        {"{\"type\":\"any_text\"}", S("<call>") "ab\n", true},
        {"{\"type\":\"any_text\",\"excludes\":[\"<call>\"]}", S("<call>"), false},
        {"{\"type\":\"any_text\",\"excludes\":[\"<call>\"]}", "<call>", false},
        {"{\"type\":\"any_text\",\"excludes\":[\"<call>\"]}", S("<s>") "<call", true},
    };
    CHECK_TEXTS(table);
}

CASE(tags_are_triggered) {
#define TRIGGERED(more)                                                                            \
    "{\"type\":\"triggered_tags\",\"triggers\":[\"<f=\",\"<call>\"],\"tags\":["                    \
    "{\"begin\":\"<f=a>\",\"content\":{\"type\":\"json_schema\",\"json_schema\":{\"type\":"        \
    "\"integer\"}},\"end\":\"</f>\"},"                                                             \
    "{\"begin\":\"<f=b>\",\"content\":{\"type\":\"any_text\"},\"end\":\"</f>\"},"                  \
    "{\"begin\":\"<call>x\",\"content\":{\"type\":\"regex\",\"pattern\":\"[ab]*\"},\"end\":"       \
    "\"</call>\"}]" more "}"
    static const struct expected table[] = {
        {TRIGGERED(""), "", true},
        {TRIGGERED(""), "some <f text", true},
        {TRIGGERED(""), "a<f=a>12</f>b<f=b>x</f>" S("<call>") "xab" S("</call>") "c", true},
        {TRIGGERED(""), "<f=c>", false},
        {TRIGGERED(""), "<f=a>1", false},
        {TRIGGERED(""), "<call>", false},
        {TRIGGERED(""), S("<s>") S("</call>"), true},
        {TRIGGERED(""), S("<call>") "y", false},
        {TRIGGERED(",\"at_least_one\":true"), "", false},
        {TRIGGERED(",\"at_least_one\":true"), "a<f=a>1</f>", false},
        {TRIGGERED(",\"at_least_one\":true"), "<f=a>1</f>a<f=a>2</f>b", true},
        {TRIGGERED(",\"stop_after_first\":true"), "a<f=a>1</f>", true},
        {TRIGGERED(",\"stop_after_first\":true"), "a<f=a>1</f>b", false},
        {TRIGGERED(",\"stop_after_first\":true"), "ab", true},
        {TRIGGERED(",\"stop_after_first\":true,\"at_least_one\":true"), "<f=b>z</f>", true},
        {TRIGGERED(",\"stop_after_first\":true,\"at_least_one\":true"), "", false},
        {TRIGGERED(",\"excludes\":[\"no\"]"), "no", false},
        {TAG(TRIGGERED(""), "\"</x>\""), "<f>a<f=a>1</f>b</x>", true},
        {TAG(TRIGGERED(""), "\"</x>\""), "<f>a</x>b</x>", false},
        {TAG(TRIGGERED(",\"stop_after_first\":true"), "\"</x>\""), "<f>a<f=a>1</f></x>", true},
        {"{\"structures\":[{\"begin\":\"<f=a>\",\"schema\":{\"type\":\"null\"},\"end\":\"</f>\"}],"
         "\"triggers\":[\"<f=\"]}",
         "ab<f=a>null</f>", true},
    };
    CHECK_TEXTS(table);
}

CASE(tags_with_a_separator) {
#define SEPARATED(more)                                                                            \
    "{\"type\":\"tags_with_separator\",\"separator\":\"<s>,\",\"tags\":[{\"begin\":\"[\","         \
    "\"content\":{\"type\":\"any_text\"},\"end\":\"]\"},{\"begin\":\"(\",\"content\":{\"type\":"   \
    "\"const_string\",\"value\":\"a\"},\"end\":\")\"}]" more "}"
    static const struct expected table[] = {
        {SEPARATED(""), "", true},
        {SEPARATED(""), "[x]" S("<s>") ",(a)", true},
        {SEPARATED(""), "[x](a)", false},
        {SEPARATED(""), "[x]" S("<s>") ",", false},
        {SEPARATED(",\"at_least_one\":true"), "", false},
        {SEPARATED(",\"at_least_one\":true"), "(a)", true},
        {SEPARATED(",\"stop_after_first\":true"), "(a)" S("<s>") ",(a)", false},
    };
    CHECK_TEXTS(table);
}

#define STYLED(style, schema)                                                                      \
    "{\"type\":\"json_schema\"," style ",\"json_schema\":{\"type\":\"object\"," schema "}}"
#define AB                                                                                         \
    "\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"type\":[\"integer\",\"null\"]},\"c\":{"  \
    "\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":2}},\"d\":{\"enum\":[\"x\","  \
    "true,"                                                                                        \
    "{\"k\":\"v\"}]},\"e\":{\"type\":\"string\",\"maxLength\":3,\"minLength\":1},\"f\":{\"type\":" \
    "\"string\",\"pattern\":\"^[<a-z/>]+$\"}},\"additionalProperties\":false"

CASE(arguments_between_tags) {
#define QWEN          STYLED("\"style\":\"qwen_xml\"", AB)
#define P(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"
    static const struct expected table[] = {
        {QWEN, "", true},
        {QWEN, P("a", "any \"text\"\n</param>\n<b") P("b", "12"), true},
        {QWEN, P("a", "x</parameter>"), false},
        {QWEN, P("a", "x</parameter>y"), false},
        {QWEN, P("a", ""), true},
        {QWEN, P("b", "12") P("a", ""), false},
        {QWEN, P("b", "null") P("c", "[\"ab\", \"\"]"), true},
        {QWEN, P("b", "x"), false},
        {QWEN, P("c", "[\"abc\"]"), false},
        {QWEN, P("c", "[\"</\"]"), false}, // a reader would look for a tag
        {QWEN, P("c", "[\"<\\/\"]"), true},
        {STYLED("\"style\":\"qwen_xml\"",
                "\"properties\":{\"o\":{\"type\":\"object\",\"properties\":{"
                "\"</k\":{\"enum\":[\"</v\"]}}}}"),
         P("o", "{\"<\\/k\":\"<\\/v\",\"x\":\"<\\/\"}"), true},
        {STYLED("\"style\":\"qwen_xml\"", "\"properties\":{\"o\":{\"type\":\"object\"}}"),
         P("o", "{\"x</\":1}"), false},
        {STYLED("\"style\":\"qwen_xml\"", "\"properties\":{\"o\":{\"type\":\"object\"}}"),
         P("o", "{\"x\":\"</\"}"), false},
        {QWEN, P("d", "x"), true},
        {QWEN, P("d", "true"), true},
        {QWEN, P("d", "{\"k\":\"v\"}"), true},
        {QWEN, P("d", "\"x\""), false},
        {QWEN, P("e", "abc"), true},
        {QWEN, P("e", "\xc3\xa9</"), true},
        {QWEN, P("e", "abcd"), false},
        {QWEN, P("e", ""), false},
        {QWEN, P("f", "<a/>"), true},
        {QWEN, P("f", "a b"), false},
        {QWEN, P("f", "</parameter>"), false},
        {QWEN, P("a", S("<call>")), false},
        {STYLED("\"style\":\"qwen_xml\"", "\"additionalProperties\":{\"type\":\"boolean\"}"),
         P("any_name", "true"), true},
        {"{\"type\":\"qwen_xml_parameter\",\"json_schema\":{}}", P("x", "1") P("y", "z"), true},
        {STYLED("\"style\":\"qwen_xml\"",
                "\"properties\":{\"r\":{\"$ref\":\"#\"}},\"additionalProperties\":false"),
         P("r", "{\"r\":{\"r\":{}}}"), true}, // the same schema between tags and as JSON
        {STYLED("\"style\":\"glm_xml\"", AB),
         "<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n<arg_key>b</arg_key>\n<arg_value>1"
         "</arg_value>\n",
         true},
        {STYLED("\"style\":\"minimax_xml\"", AB), "<parameter name=\"e\">ab</parameter>\n", true},
        {STYLED("\"style\":\"minimax_xml\"", AB), "<parameter name=\"e\">\n</parameter>\n",
         false}, // the reader drops the line feed
        {STYLED("\"style\":\"deepseek_xml\"", AB),
         "<\xef\xbd\x9c"
         "DSML\xef\xbd\x9cparameter name=\"a\" string=\"true\">1</\xef\xbd\x9c"
         "DSML\xef\xbd\x9cparameter>\n<\xef\xbd\x9c"
         "DSML\xef\xbd\x9cparameter name=\"b\" "
         "string=\"false\">1</\xef\xbd\x9c"
         "DSML\xef\xbd\x9cparameter>\n",
         true},
        {STYLED("\"style\":\"deepseek_xml\"", AB),
         "<\xef\xbd\x9c"
         "DSML\xef\xbd\x9cparameter name=\"a\" string=\"false\">1</\xef\xbd\x9c"
         "DSML\xef\xbd\x9cparameter>\n",
         false},
        {STYLED("\"style\":\"tags\",\"marks\":{\"key_open\":\"(\",\"key_close\":\")\","
                "\"value_close\":\"</call>\"}",
                AB),
         "(a)x<" S("</call>") "(e)ab" S("</call>"), true},
        {STYLED("\"style\":\"tags\",\"marks\":{\"key_open\":\"(\",\"key_close\":\")\","
                "\"value_close\":\"</call>\"}",
                AB),
         "(a)</call>" S("</call>"), false},
    };
    CHECK_TEXTS(table);
}

CASE(arguments_of_python_and_pairs) {
#define PYTHON STYLED("\"style\":\"python\"", AB)
#define PAIRS  STYLED("\"style\":\"pairs\",\"quote\":\"<s>\"", AB)
#define Q      S("<s>")
    static const struct expected table[] = {
        {PYTHON, "", true},
        {PYTHON, "a=\"x'y\", b=None", true},
        {PYTHON, "a='x\"y\\'', c=['a', \"b\"]", true},
        {PYTHON, "a=\"x\"y\"", false},
        {PYTHON, "a=\"x\", ", false},
        {PYTHON, "b=1, a=\"x\"", false},
        {PYTHON, "d=True", true},
        {PYTHON, "d=true", false},
        {PYTHON, "d=\"x\"", true},
        {PYTHON, "d={\"k\":\"v\"}", true},
        {PYTHON, "e='abcd'", false},
        {PYTHON, "e='\\'\\n'", true},
        {PYTHON, "f=\"<a\"", true},
        {PYTHON, "f=\"A\"", false},
        {PAIRS, "{}", true},
        {PAIRS, "{a:" Q "x\"y, {" Q ",b:12}", true},
        {PAIRS, "{a:" Q "x<s>" Q "}", false}, // the mark in plain tokens
        {PAIRS, "{a:x}", false},
        {PAIRS, "{b:null,c:[" Q "ab" Q "," Q Q "]}", true},
        {PAIRS, "{c:[" Q "abc" Q "]}", false},
        {PAIRS, "{d:{k:" Q "v" Q "}}", true},
        {PAIRS, "{d:true,e:" Q "\xc3\xa9" Q "}", true},
        {PAIRS, "{f:" Q "a/" Q "}", true},
        {PAIRS, "{f:" Q "A" Q "}", false},
        {STYLED("\"style\":\"pairs\",\"quote\":\"<s>\"", "\"properties\":{}"),
         "{x:[1,true,{y:" Q Q "}]}", true},
        {STYLED("\"style\":\"python\"", "\"properties\":{}"), "x=[1, True, {'y': \"\"}]", false},
        {STYLED("\"style\":\"python\"", "\"properties\":{}"), "x=[1, True, {\"y\": ''}]", true},
    };
    CHECK_TEXTS(table);
}

CASE(places_are_named) {
    static const char *const sources[][2] = {
        {"[]", "the structure: expected an object"},
        {"{\"type\":\"structural_tag\"}", "/format: expected a format: an object"},
        {F("{\"type\":\"thing\"}"), "/format/type: the format \"thing\" is not supported"},
        {F("{\"type\":\"sequence\",\"elements\":[{\"type\":\"regex\",\"pattern\":\"(\"}]}"),
         "/format/elements/0/pattern: offset 0: a group without its end"},
        {F("{\"type\":\"grammar\",\"grammar\":\"root ::= a\"}"), "the rule \"a\" is not defined"},
        {F("{\"type\":\"json_schema\",\"json_schema\":{\"properties\":{\"a\":{\"not\":{}}}}}"),
         "/format/json_schema/properties/a/not: the keyword is not supported"},
        {F("{\"type\":\"json_schema\",\"json_schema\":{\"$ref\":\"#/$defs/x\"}}"),
         "/format/json_schema/$ref: the reference \"#/$defs/x\" leads nowhere"},
        {F("{\"type\":\"const_string\",\"value\":\"</s>a\"}"),
         "/format/value: a token that ends the text is not at the end"},
        {F("{\"type\":\"tag\",\"begin\":\"a\",\"content\":{\"type\":\"any_text\"}}"),
         "/format/end: expected a string"},
        {F("{\"type\":\"json_schema\",\"style\":\"yaml\",\"json_schema\":{}}"),
         "/format/style: expected the name of a style, not \"yaml\""},
        {F("{\"type\":\"json_schema\",\"style\":\"pairs\",\"json_schema\":{}}"),
         "/format/quote: expected a string"},
        {F("{\"type\":\"json_schema\",\"style\":\"tags\",\"json_schema\":{}}"),
         "/format/marks: expected \"key_open\", a string"},
        {F("{\"type\":\"json_schema\",\"style\":\"python\",\"json_schema\":{\"properties\":{"
           "\"a b\":{}}}}"),
         "the property \"a b\" has a name that this style cannot write"},
        {F("{\"type\":\"json_schema\",\"style\":\"python\",\"json_schema\":{\"type\":\"null\"}}"),
         "/format/json_schema: expected the schema of an object, whose properties are arguments"},
        {F("{\"type\":\"triggered_tags\",\"triggers\":[\"x\"],\"tags\":[{\"begin\":\"a\","
           "\"content\":{\"type\":\"any_text\"},\"end\":\"b\"}]}"),
         "/format/tags/0/begin: the tag starts with none of the triggers"},
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct constraint *c;
        rn_error err = {0};
        check(constraint_compile(kit_vocab, CONSTRAINT_STRUCTURE, sources[i][0],
                                 strlen(sources[i][0]), NULL, &c, &err) == RN_ERR_ARG,
              "%s", sources[i][0]);
        assert_string_equal(err.message, sources[i][1]);
    }
}

// --- against the definition ---

static void random_text(char *out, int max) {
    static const char *const letters[] = {"a", "b", "\xc3\xa9"};
    int n = kit_below(max + 1);
    *out = 0;
    while (n-- > 0) strcat(out, letters[kit_below(3)]);
}

// The first place where one of the strings ends; *which is a set of those that end there. NULL:
// none.
static const char *first_end(const char *text, char (*mark)[16], int n, unsigned *which) {
    for (const char *at = text; *at; at++) {
        *which = 0;
        for (int i = 0; i < n; i++) {
            const size_t len = strlen(mark[i]);
            if ((size_t)(at + 1 - text) >= len && memcmp(at + 1 - len, mark[i], len) == 0)
                *which |= 1u << i;
        }
        if (*which) return at + 1;
    }
    return NULL;
}

// Tags that start with trigger i and end with "!"; the text of a tag is the rest of its begin.
static bool is_triggered(const char *text, char (*mark)[16], char (*rest)[16], int n) {
    unsigned which;
    const char *end = first_end(text, mark, n, &which);
    if (!end) return true;
    for (int i = 0; i < n; i++) {
        const size_t len = strlen(rest[i]);
        if ((which >> i & 1) && strncmp(end, rest[i], len) == 0 && end[len] == '!' &&
            is_triggered(end + len + 1, mark, rest, n))
            return true;
    }
    return false;
}

CASE(triggers_against_their_definition) {
    int n_valid = 0;
    for (int round = 0; round < 300; round++) {
        char mark[3][16], rest[3][16], source[1000];
        const int n = 1 + kit_below(3);
        size_t at =
            (size_t)snprintf(source, sizeof source, "{\"type\":\"triggered_tags\",\"triggers\":[");
        for (int i = 0; i < n; i++) {
            do random_text(mark[i], 4);
            while (!mark[i][0]);
            random_text(rest[i], 1);
        }
        // a tag whose begin starts with a shorter trigger is of that trigger
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++)
                if (i != k && strlen(mark[k]) < strlen(mark[i]) &&
                    strncmp(mark[i], mark[k], strlen(mark[k])) == 0)
                    strcpy(mark[i], mark[k]);
        for (int i = 0; i < n; i++)
            at += (size_t)snprintf(source + at, sizeof source - at, "%s\"%s\"", i ? "," : "",
                                   mark[i]);
        at += (size_t)snprintf(source + at, sizeof source - at, "],\"tags\":[");
        for (int i = 0; i < n; i++)
            at += (size_t)snprintf(source + at, sizeof source - at,
                                   "%s{\"begin\":\"%s%s\",\"content\":{\"type\":\"const_string\","
                                   "\"value\":\"\"},\"end\":\"!\"}",
                                   i ? "," : "", mark[i], rest[i]);
        snprintf(source + at, sizeof source - at, "]}");
        // two tags may share their begin's start: the definition has to know both
        char all_rest[3][16];
        memcpy(all_rest, rest, sizeof rest);
        struct constraint *c = kit_compile(CONSTRAINT_STRUCTURE, source);
        for (int k = 0; k < 60; k++) {
            char text[200] = "", part[64];
            for (int parts = kit_below(4); parts > 0; parts--) {
                const int i = kit_below(n);
                random_text(part, 5);
                strcat(text, part);
                if (kit_below(3)) {
                    strcat(strcat(text, mark[i]), rest[i]);
                    if (kit_below(6)) strcat(text, "!");
                }
            }
            const bool want = is_triggered(text, mark, all_rest, n);
            n_valid += want;
            check(kit_accepts(c, text, strlen(text)) == want, "%s: \"%s\": expected %d", source,
                  text, want);
        }
        constraint_release(c);
    }
    check(n_valid > 2000, "%d of the texts are valid", n_valid);
}

static int open_kit(void **state) {
    kit_open(pieces, sizeof pieces / sizeof *pieces, 300);
    return 0;
}
static int close_kit(void **state) {
    kit_close();
    return 0;
}

TEST_PROGRAM(structure) { return cases_run(open_kit, close_kit); }
