// JSON Schema by tables in the manner of the JSON Schema Test Suite: instances walked through the
// automaton. Instances have their properties in the declared order, as every text made here has.
#include "kit.h"

static const char *const pieces[] = {"{",   "}",        "[",        "]",    "\"",   "\":",
                                     "\",", "\"a\":",   ": ",       ", ",   "1",    "23",
                                     "-",   ".5",       "e",        "true", "null", "false",
                                     "abc", "\\n",      "\\u00",    "\n",   "  ",   "foo",
                                     "bar", "\xc3\xa9", "\xf0\x9f", " "};
enum { N_PIECES = sizeof pieces / sizeof *pieces };

static const struct table {
    const char *schema;
    const char *valid[12], *invalid[12];
} tables[] = {
    {"{\"type\":\"integer\"}",
     {"0", "1", "-12", "12345678901234567890"},
     {"1.5", "\"1\"", "01", "+1", "", "-", "1e2", "null"}},
    {"{\"type\":\"number\"}",
     {"0", "1.5", "-0.25", "1e2", "1.5E-07", "-0"},
     {"\"1\"", ".5", "1.", "1e", "1e999", "NaN", "true"}},
    {"{\"type\":\"string\"}",
     {"\"\"", "\"a\"", "\"\xc3\xa9\"", "\"\\u00e9\\n\"", "\"\\ud83d\\ude00\\uDBFF\\udfff\"",
      "\"\xf0\x9f\x98\x80\""},
     {"1", "\"", "\"a", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\xff\"", "\"a\"\"",
      "'a'"}},
    {"{\"type\":[\"null\",\"boolean\"]}",
     {"null", "true", "false"},
     {"0", "\"\"", "nul", "truefalse"}},
    {"{\"type\":\"array\"}",
     {"[]", "[1]", "[1, \"a\",[{}]]", "[\n  1,\n  2\n]"},
     {"{}", "[1,]", "[,1]", "[1 ,2]", "["}},
    {"{\"type\":\"object\"}",
     {"{}", "{\"a\":1}", "{\"a\": {\"b\":[]}, \"c\": null}"},
     {"[]", "{a:1}", "{\"a\"}", "{\"a\":1,}"}},
    {"true", {"1", "\"a\"", "{\"a\":[]}", "null"}, {"", "a"}},
    {"{}", {"1", "{}"}, {"x"}},
    {"{\"properties\":{\"foo\":{\"type\":\"integer\"},\"bar\":{\"type\":\"string\"}},\"type\":"
     "\"object\"}",
     {"{}", "{\"foo\":1}", "{\"bar\":\"x\"}", "{\"foo\":1,\"bar\":\"x\"}", "{\"quux\":[]}",
      "{\"foo\":1,\"fo\":[]}", "{\"bar\":\"\",\"foobar\":0}", "{\"\":0}"},
     {"{\"foo\":\"x\"}", "{\"bar\":1}", "{\"foo\":1,\"foo\":\"x\"}", "{\"bar\":\"\",\"foo\":[]}",
      "{\"quux\":1,\"bar\":2}"}},
    {"{\"properties\":{\"foo\":{},\"bar\":{}},\"type\":\"object\",\"additionalProperties\":false,"
     "\"required\":[\"bar\"]}",
     {"{\"bar\":1}", "{\"foo\":0,\"bar\":[1]}", "{\"foo\":{\"bar\":1}, \"bar\":\"x\"}"},
     {"{}", "{\"foo\":1}", "{\"bar\":1,\"x\":2}", "{\"bar\":1,\"bar\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"additionalProperties\":{"
     "\"type\":\"boolean\"},\"required\":[\"z\"]}",
     {"{\"z\":true}", "{\"a\":null,\"z\":false,\"b\":true}"},
     {"{\"a\":null}", "{\"z\":1}", "{\"z\":true,\"b\":1}", "{\"b\":true,\"z\":true,\"a\":true}"}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"integer\"},\"y$\":{\"type\":["
     "\"integer\",\"null\"]}},\"additionalProperties\":false}",
     {"{}", "{\"x\":1}", "{\"y\":null}", "{\"xy\":1,\"zy\":null}", "{\"xab\":2}"},
     {"{\"x\":null}", "{\"xy\":null}", "{\"z\":1}", "{\"yz\":1}", "{\"\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"foo\":{\"type\":\"array\",\"maxItems\":3}},"
     "\"patternProperties\":{\"f.o\":{\"minItems\":2}},\"additionalProperties\":{\"type\":"
     "\"integer\"}}",
     {"{\"foo\":[1,2]}", "{\"fxo\":[1,2]}", "{\"bar\":3}", "{\"fxo\":\"a\"}"},
     {"{\"foo\":[]}", "{\"foo\":[1,2,3,4]}", "{\"fxo\":[]}", "{\"bar\":[]}"}},
    {"{\"enum\":[1,\"a\",null,{\"b\":[1,2]},\"\\u00e9\\n\"]}",
     {"1", "\"a\"", "null", "{\"b\":[1,2]}", "{\"b\": [1, 2]}", "\"\xc3\xa9\\n\""},
     {"2", "\"b\"", "{}", "[1,2]", "{\"b\":[1]}"}},
    {"{\"const\":\"x\\\"y\"}", {"\"x\\\"y\""}, {"\"x\"y\"", "1"}},
    {"{\"enum\":[1,\"a\",2],\"type\":\"integer\"}", {"1", "2"}, {"\"a\"", "3"}},
    {"{\"enum\":[1,2.5,3,-4,\"a\",\"abc\",null],\"exclusiveMinimum\":1,\"maximum\":3,\"minLength\":"
     "2}",
     {"2.5", "3", "\"abc\"", "null"},
     {"1", "-4", "\"a\""}},
    {"{\"enum\":[\"a-1\",\"b\",\"\\u00e9-22\"],\"pattern\":\"-\\\\d+$\",\"maxLength\":3,\"items\":"
     "1}",
     {"\"a-1\""},
     {"\"b\"", "\"\xc3\xa9-22\""}},
    {"{\"allOf\":[{\"enum\":[1,2,3]},{\"enum\":[2,3,4]}]}", {"2", "3"}, {"1", "4"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":4}",
     {"[1,2]", "[1, 2, 3, 4]"},
     {"[]", "[1]", "[1,2,3,4,5]", "[1,\"a\"]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":"
     "{\"type\":\"null\"}}",
     {"[]", "[1]", "[1,\"a\"]", "[1,\"a\",null,null]"},
     {"[\"a\"]", "[1,2]", "[1,\"a\",1]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{},{}],\"items\":false,\"minItems\":1}",
     {"[1]", "[1,2]"},
     {"[]", "[1,2,3]"}},
    {"{\"type\":\"array\",\"items\":[{\"type\":\"integer\"}],\"additionalItems\":false}",
     {"[]", "[1]"},
     {"[1,2]", "[null]"}},
    {"{\"type\":\"array\",\"minItems\":3}", {"[1,2,3]", "[1,2,3,4]"}, {"[1,2]", "[]"}},
    {"{\"type\":\"array\",\"maxItems\":0}", {"[]", "[ ]"}, {"[1]"}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"abc\"", "\"\xc3\xa9\xf0\x9f\x98\x80\"", "\"\\ud83d\\ude00a\"", "\"\\n\\n\\n\""},
     {"\"a\"", "\"abcd\"", "\"\xf0\x9f\x98\x80\"", "\"\\ud83d\\ude00\"", "\"\\n\\n\\n\\n\""}},
    {"{\"type\":\"string\",\"maxLength\":100000}", {"\"\"", "\"ab\""}, {"1"}},
    {"{\"type\":\"string\",\"pattern\":\"^a*$\"}", {"\"\"", "\"aaa\""}, {"\"ab\"", "\"b\""}},
    {"{\"type\":\"string\",\"pattern\":\"a+\"}",
     {"\"xxaayy\"", "\"a\"", "\"\\na\""},
     {"\"\"", "\"b\""}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\"\\\\\\\\\\n.$\"}",
     {"\"\\\"\\\\\\nx\""},
     {"\"\"\\\\\\nx\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"minLength\":2,\"maxLength\":4}",
     {"\"ab\"", "\"abcd\""},
     {"\"a\"", "\"abcde\"", "\"AB\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(ab)*$\",\"minLength\":3,\"maxLength\":5}",
     {"\"abab\""},
     {"\"ab\"", "\"aba\"", "\"ababab\""}},
    {"{\"type\":\"string\",\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}]}",
     {"\"ab\"", "\"xbya\""},
     {"\"a\"", "\"b\""}},
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-02-29\"", "\"1998-12-31\"", "\"2000-02-29\""},
     {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-13-01\"", "\"2024-1-1\""}},
    {"{\"type\":\"string\",\"format\":\"date-time\"}",
     {"\"1963-06-19T08:30:06.283185Z\"", "\"1990-12-31T15:59:50-08:00\""},
     {"\"1990-02-31T15:59:59Z\"", "\"1990-12-31T15:59:59-24:00\"", "\"1990-12-31\"",
      "\"1990-12-31T24:00:00Z\""}},
    {"{\"type\":\"string\",\"format\":\"uuid\"}",
     {"\"2EB8AA08-aa98-11ea-b4aa-73b441d16380\""},
     {"\"2eb8aa08aa9811eab4aa73b441d16380\"", "\"2eb8-aa08-aa98-11ea-b4aa73b44-1d16380\""}},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}",
     {"\"192.168.0.1\"", "\"0.0.0.0\""},
     {"\"256.1.1.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
    {"{\"type\":\"string\",\"format\":\"ipv6\"}",
     {"\"::1\"", "\"::\"", "\"fe80::a\"", "\"1:2:3:4:5:6:7:8\"", "\"1::8\""},
     {"\"12345::\"", "\"1:1:1:1:1:1:1:1:1\"", "\"1::2::3\"", "\":1\""}},
    {"{\"type\":\"string\",\"format\":\"email\"}",
     {"\"joe.bloggs@example.com\"", "\"a+b~@x.y\""},
     {"\"2962\"", "\".a@x.y\"", "\"a..b@x.y\"", "\"a@-x.y\""}},
    {"{\"type\":\"string\",\"format\":\"uri\"}",
     {"\"http://foo.bar/?baz=qux#quux\"", "\"https://x/%20\""},
     {"\"/abc\"", "\"\\\\\\\\WINDOWS\"", "\"http:// a\""}},
#define TEN  "a.a.a.a.a.a.a.a.a.a"
#define L63  "aaaaaaaaaaaaaaa-aaaaaaaaaaaaaaa-aaaaaaaaaaaaaaa-aaaaaaaaaaaaaaa"
#define L23  "aaaaaaaaaaa-aaaaaaaaaaa"
#define FIVE L23 "." L23 "." L23 "." L23 "." L23
    {"{\"type\":\"string\",\"format\":\"hostname\"}",
     {"\"a\"", "\"" TEN "\"", "\"www.ex-ample.com\"", "\"" L63 "." L63 "." L63 "\"",
      "\"" FIVE "." FIVE "\""},
     {"\"\"", "\"a.\"", "\"-a\"", "\"a--b\"", "\"" L63 "a\"", "\"" L63 "." L63 "." L63 "." L63 "\"",
      "\"" FIVE "." FIVE "." L23 "\"",
      "\"" TEN "." TEN "." TEN "." TEN "." TEN "." TEN "." TEN "." TEN "." TEN "." TEN "." TEN
      "." TEN "." TEN "\""}},
    {"{\"type\":\"string\",\"format\":\"colour\"}", {"\"x\""}, {"1"}},
    {"{\"type\":\"integer\",\"minimum\":-5,\"maximum\":12}",
     {"-5", "-1", "0", "9", "10", "12"},
     {"-6", "13", "100", "-10", "-0", "1.5", "05"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":99,\"exclusiveMaximum\":1000}",
     {"100", "999", "555"},
     {"99", "1000", "98", "-100"}},
    {"{\"type\":\"integer\",\"minimum\":1.5}", {"2", "10", "123456"}, {"1", "0", "-3"}},
    {"{\"type\":\"integer\",\"maximum\":-3}", {"-3", "-4", "-10", "-99"}, {"-2", "0", "5"}},
    {"{\"type\":\"number\",\"minimum\":1.25,\"maximum\":3.5}",
     {"1.25", "1.26", "1.3", "2", "2.9", "3.5", "3.50", "3", "3.49", "1.250"},
     {"1.2", "1.24", "1", "3.51", "4", "-2", "0.9", "3.501"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":1}",
     {"0.5", "0.01", "0.99"},
     {"0", "1", "0.0", "1.0", "-0.5"}},
    {"{\"type\":\"number\",\"minimum\":-1.5,\"exclusiveMaximum\":2e1}",
     {"-1.5", "-1.4", "-0.1", "0", "19.9", "7"},
     {"-1.6", "20", "20.0", "-2", "21"}},
    {"{\"type\":\"number\",\"minimum\":0.5,\"maximum\":0.5}",
     {"0.5", "0.50"},
     {"0.4", "0.51", "0"}},
    {"{\"type\":\"integer\",\"multipleOf\":7}",
     {"0", "7", "-14", "700"},
     {"1", "8", "-6", "70000000000000"}},
    {"{\"type\":\"integer\",\"multipleOf\":5,\"minimum\":12,\"maximum\":31}",
     {"15", "20", "30"},
     {"10", "35", "16", "5"}},
    {"{\"type\":\"number\",\"multipleOf\":0.25}",
     {"0", "0.5", "1.25", "-3.75", "2", "0.50"},
     {"0.1", "1.3", "0.255"}},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1}]}",
     {"1", "\"a\""},
     {"1.5", "\"ab\""}},
    {"{\"oneOf\":[{\"const\":1},{\"const\":2}]}", {"1", "2"}, {"3"}},
    {"{\"type\":\"string\",\"anyOf\":[{\"maxLength\":2},{\"minLength\":4}]}",
     {"\"ab\"", "\"abcd\""},
     {"\"abc\"", "1"}},
    {"{\"anyOf\":[{\"minimum\":2}],\"oneOf\":[{\"maximum\":5}],\"type\":\"integer\"}",
     {"2", "5"},
     {"1", "6"}},
    {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":["
     "\"a\"]},{\"properties\":{\"a\":{\"minimum\":3},\"b\":{\"type\":\"null\"}},\"required\":["
     "\"b\"]}]}",
     {"{\"a\":3,\"b\":null}", "{\"a\":10,\"b\":null,\"c\":1}"},
     {"{\"a\":2,\"b\":null}", "{\"a\":3}", "{\"b\":null}"}},
    {"{\"allOf\":[{\"type\":\"integer\"},false]} ", {NULL}, {NULL}},
    {"{\"$ref\":\"#/$defs/"
     "node\",\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
     "\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/"
     "node\"},{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"],\"additionalProperties\":false}}"
     "}",
     {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3,\"next\":null}}}"},
     {"{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2}}", "{\"v\":1,\"next\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"x\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
     {"{}", "{\"x\":{\"x\":{}}}"},
     {"{\"y\":{}}", "{\"x\":1}"}},
    {"{\"type\":\"array\",\"items\":{\"$ref\":\"#/definitions/a~1b%25\"},\"definitions\":{\"a/"
     "b%\":{\"const\":1}}}",
     {"[1]"},
     {"[2]"}},
    {"{\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/a\"}},\"$ref\":\"#/"
     "$defs/a\",\"type\":\"null\"}",
     {"null"},
     {"1"}},
    {"{\"$defs\":{\"a\":{\"type\":\"integer\"}},\"$ref\":\"#/$defs/a\",\"minimum\":7}",
     {"7", "70"},
     {"6", "\"7\""}},
    {"{\"maximum\":3}", {"3", "\"abc\"", "{}", "null", "2.5"}, {"4", "3.5"}},
    {"{\"type\":\"object\",\"properties\":{\"a\\nb\":{\"const\":1}},\"additionalProperties\":"
     "false}",
     {"{\"a\\nb\":1}"},
     {"{\"ab\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":true,\"b\":false}}",
     {"{\"a\":1}", "{\"c\":1}"},
     {"{\"b\":1}", "{\"a\":1,\"b\":2}"}},
};

CASE(instances_are_decided_as_the_table_says) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const struct table *t = &tables[i];
        if (!t->valid[0]) {
            struct constraint *c;
            check(constraint_compile(kit_vocab, CONSTRAINT_SCHEMA, t->schema, strlen(t->schema),
                                     NULL, &c, NULL) == RN_ERR_ARG,
                  "%s", t->schema);
            continue;
        }
        struct constraint *c = kit_compile(CONSTRAINT_SCHEMA, t->schema);
        for (int k = 0; k < 12 && t->valid[k]; k++)
            check(kit_accepts(c, t->valid[k], strlen(t->valid[k])), "%s refuses %s", t->schema,
                  t->valid[k]);
        for (int k = 0; k < 12 && t->invalid[k]; k++)
            check(!kit_accepts(c, t->invalid[k], strlen(t->invalid[k])), "%s accepts %s", t->schema,
                  t->invalid[k]);
        constraint_release(c);
    }
}

CASE(samples_of_every_schema_are_accepted_and_masks_are_exact) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (!tables[i].valid[0]) continue;
        struct constraint *c = kit_compile(CONSTRAINT_SCHEMA, tables[i].schema);
        struct constraint_run *run;
        check(!constraint_open(c, 1, &run, NULL), "open");
        for (int k = 0; k < 12 && tables[i].valid[k]; k++) {
            const char *text = tables[i].valid[k];
            const int len = (int)strlen(text);
            for (int at = 0; at <= len; at += 1 + kit_below(4)) {
                check(constraint_feed(run, 0, text, (size_t)at), "%s", text);
                kit_check_mask(run, tables[i].schema);
                constraint_hook(run).rollback(run, 0, 1);
            }
        }
        constraint_close(run);
        char text[600];
        size_t size;
        for (int k = 0; k < 6; k++)
            if (kit_sample(c, text, sizeof text, &size, 60))
                check(kit_accepts(c, text, size), "%s", tables[i].schema);
        constraint_release(c);
    }
}

static const struct refusal {
    const char *schema, *message;
} refusals[] = {
    {"{\"properties\":{\"a/b\":{\"items\":{\"not\":{}}}}}",
     "/properties/a~1b/items/not: the keyword is not supported"},
    {"{\"anyOf\":[{\"type\":\"object\"},{\"if\":{}}]}",
     "/anyOf/1/if: the keyword is not supported"},
    {"{\"type\":\"array\",\"uniqueItems\":true}", "/uniqueItems: the keyword is not supported"},
    {"{\"$ref\":\"http://x/y\"}",
     "/$ref: expected a reference inside the schema (\"#/...\"), not \"http://x/y\""},
    {"{\"$ref\":\"#/$defs/x\"}", "/$ref: the reference \"#/$defs/x\" leads nowhere"},
    {"{\"type\":\"strin\"}", "/type: expected the name of a type, not \"strin\""},
    {"{\"type\":\"string\",\"pattern\":\"(?=a)\"}",
     "/pattern: offset 0: lookaround is not supported"},
    {"{\"type\":\"string\",\"format\":\"regex\"}",
     "/format: the format \"regex\" is not supported"},
    {"{\"type\":\"object\",\"minProperties\":2}", "/minProperties: not supported above"},
    {"{\"properties\":1}", "/properties: expected an object, not 1"},
    {"{\"properties\":[]}", "/properties: expected an object, not an array"},
    {"{\"required\":[\"a\",null]}", "/required: expected strings in an array, not null"},
    {"{\"items\":3}", "/items: expected a schema: an object, true or false, not 3"},
    {"{\"minLength\":-1}", "/minLength: expected a whole number that is not negative, not -1"},
    {"{\"type\":\"0123456789012345678901234567890123456789ab\"}",
     "/type: expected the name of a type, not \"0123456789012345678901234567890123456789...\""},
    {"{\"type\":\"012345678901234567890123456789012345678\u00e9\"}",
     "/type: expected the name of a type, not \"012345678901234567890123456789012345678...\""},
    {"{\"type\":\"number\",\"multipleOf\":false}",
     "/multipleOf: expected a number above 0 of at most 18 digits, not false"},
    {"{\"properties\":{\"a\":{\"enum\":[1,{}],\"required\":[]}}}",
     "/properties/a/required: the keyword is not supported beside a list of such values"},
    {"{\"enum\":[1],\"multipleOf\":1}", "/multipleOf: not supported beside a list of numbers"},
    {"{\"type\":\"number\",\"minimum\":1e30}",
     "/minimum: expected a number of at most 18 digits before and behind the point, not 1e30"},
    {"{\"type\":\"integer\",\"multipleOf\":12345}",
     "/multipleOf: the divisor 12345 needs more than"},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
     "the constraint allows no text"},
    {"{\"a\":", "the schema: offset 5"},
    {"[]", "the schema: expected a schema"},
};

CASE(unsupported_keywords_are_refused_by_their_pointer) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        kit_refused(CONSTRAINT_SCHEMA, refusals[i].schema, refusals[i].message);
}

CASE(blanks_between_tokens_are_bounded) {
    struct constraint *c = kit_compile(CONSTRAINT_OBJECT, "");
    check(kit_accepts(c, "{\n\t\"a\": [\n    1\n]}", 18), "indented");
    check(!kit_accepts(c, "{  }", 4), "two blanks");
    check(!kit_accepts(c, "{\n\n}", 4), "two lines");
    check(!kit_accepts(c, " {}", 3) && !kit_accepts(c, "{} ", 3), "blanks around");
    check(!kit_accepts(c, "[]", 2), "an array");
    char text[100] = "{\n";
    memset(text + 2, ' ', 64);
    text[66] = '}';
    check(kit_accepts(c, text, 67), "64 blanks");
    text[66] = ' ';
    text[67] = '}';
    check(!kit_accepts(c, text, 68), "65 blanks");
    constraint_release(c);
}

static int open_kit(void **state) {
    kit_open(pieces, N_PIECES, 400);
    return 0;
}
static int close_kit(void **state) {
    kit_close();
    return 0;
}

TEST_PROGRAM(schema) { return cases_run(open_kit, close_kit); }
