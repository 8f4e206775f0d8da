// Answers: calls that are JSON, and calls of a name, a separator and JSON.
#include "answer_text.h"

CASE(hermes_calls) {
    expect(HERMES,
           "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\"}}\n</tool_call>",
           "T0(f)A0({\"a\": \"</tool_call>\"})");
    expect(HERMES,
           "One \n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
           "<tool_call>{\"arguments\":{\"b\":[1,{}]},\"name\":\"g\"}</tool_call>\n",
           "C(One)T0(f)A0({})T1(g)A1({\"b\":[1,{}]})");
    expect(HERMES, "<tool_call>{\"name\":\"f\"}</tool_call> then", "T0(f)A0({})C(then)");
    // cut within the next mark
    expect(HERMES, "<tool_call>{\"name\":\"f\"}</tool_call>\n<tool_ca", "T0(f)A0({})");
    expect(HERMES, "<tool_call>{\"name\":\"f\"}</tool_call>\n<tool c", "T0(f)A0({})C(<tool c)");
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

// A token that continues no call is content, though the start of it could be let out.
CASE(tokens_of_python_are_taken_whole_or_not_at_all) {
    char text[512], want[640], name[300];
    expect(HERMES, "<tool_call>{'name':'f','arguments':'{\"a\": \"x\" @ y'}",
           "T0(f)A0({\"a\": \"x\"~)C( @ y'})");
    snprintf(text, sizeof text, "<tool_call>{'name':'f','arguments':{'b':1,'a':('x', %s%s)}}",
             brackets_open, brackets_close);
    snprintf(want, sizeof want, "T0(f)A0({\"b\":1~)C(,'a':('x', %s%s)}})", brackets_open,
             brackets_close);
    expect(HERMES, text, want);
    // marks within it are content too, or a text of such marks would be read again for each
    expect(HERMES, "<tool_call>{'name': (\"<tool_call>{'name': 'f'}</tool_call>\", @)",
           "C(<tool_call>{'name': (\"<tool_call>{'name': 'f'}</tool_call>\", @))");
    // a name that is too long ends the call at the same byte for all pieces
    memset(name, 'a', sizeof name);
    snprintf(text, sizeof text, "<tool_call>{'name': '<tool_call>[{}]%.*s", (int)sizeof name, name);
    snprintf(want, sizeof want, "C(%s)", text);
    expect(HERMES, text, want);
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
        "<tool_call>[1]</tool_call>",
        "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":b}}</tool_call>",
        "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":12",
        "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":01}}",
        "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":[}}",
        "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"\\x\"}}",
        "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"\\ud83d\"}}",
        "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"\\udc00\"}}",
        "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"\\ud83d\\u0041\"}}",
        "<tool_call>{\"name\":\"f\",\"arguments\":[{\"a\":1}]}",
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

// A call that was let out in part stays one, without its end. The text from there on is content, or
// nothing, where the answer ends.
CASE(broken_calls_keep_their_beginning) {
#define BEGIN "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"x\\n"
#define OUT   "T0(f)A0({\"a\":\"x\\n"
    expect(HERMES, BEGIN, OUT "~)");
    expect(HERMES, BEGIN "\\u00", OUT "~)");
    expect(HERMES, BEGIN "\\ud83d\\ude0", OUT "~)");
    expect(HERMES, BEGIN "\xE2\x82", OUT "~)");
    expect(HERMES, BEGIN "\xE2\x82\xAC\\ud83d\\ude00", OUT "\xE2\x82\xAC\\ud83d\\ude00~)");
    expect(HERMES, BEGIN "\xE2\x82 ", OUT "~)C(\xE2\x82 )");
    expect(HERMES, BEGIN "\", \"b\": 12", OUT "\"~)");
    expect(HERMES, BEGIN "\", \"b\": 12,", OUT "\", \"b\": 12~)");
    expect(HERMES, BEGIN "\", \"b\": [tru", OUT "\"~)");
    expect(HERMES, BEGIN "\", \"b\": [true", OUT "\", \"b\": [true~)");
    expect(HERMES, BEGIN "\", \"b\": 1 2}}</tool_call> y",
           OUT "\", \"b\": 1~)C( 2}}</tool_call> y)");
    expect(HERMES, BEGIN "\n</tool_call>", OUT "~)C(\n</tool_call>)");
    expect(HERMES, BEGIN "\"<tool_call>{\"name\":\"g\"}</tool_call>", OUT "\"~)T1(g)A1({})");
    // whole arguments make a whole call
    expect(HERMES, BEGIN "\"}", OUT "\"})");
    expect(HERMES, BEGIN "\"}</tool_call>y", OUT "\"})C(y)");
    expect(HERMES, BEGIN "\"}, \"id\": 1", OUT "\"})");
    // the start of its closing mark is no content, where the answer ends
    expect(HERMES, BEGIN "\"}}\n</", OUT "\"})");
    expect(HERMES, BEGIN "\"}}</tool", OUT "\"})");
    expect(HERMES, BEGIN "\"}}</tools", OUT "\"})C(</tools)");
    expect(HERMES, BEGIN "\"}, \"id\": x}</tool_call>", OUT "\"})C(, \"id\": x}</tool_call>)");
    expect(NEMOTRON, "<TOOLCALL>[{\"name\":\"f\"}, {\"name\":\"g\"",
           "T0(f)A0({})C(, {\"name\":\"g\")");
#undef BEGIN
#undef OUT
}

CASE(members_come_in_any_order) {
    expect(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"x\"},\"name\":\"g\"}",
           "T0(f)A0({\"a\":\"x\"})");
    expect(HERMES,
           "<tool_call>{\"name\":\"e\",\"name\":\"f\",\"arguments\":{},\"arguments\":{\"a\":1}}",
           "T0(f)A0({})");
    expect(HERMES, "<tool_call>{\"arguments\":{\"a\":\"x\"},\"id\":1,\"name\":\"f\"}",
           "T0(f)A0({\"a\":\"x\"})");
    expect(HERMES, "<tool_call>{\"arguments\":\" {\\\"a\\\":\\\"\\u00e9\\\"} \",\"name\":\"f\"}",
           "T0(f)A0({\"a\":\"\u00E9\"})");
    expect(HERMES,
           "<tool_call>{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"name\":"
           "\"x\"}},\"id\":\"1\"}",
           "T0(f)A0({\"name\":\"x\"})");
    expect(HERMES, "<tool_call>{\"id\":{\"name\":\"x\",\"arguments\":{}},\"name\":\"f\"}",
           "T0(f)A0({})");
    expect(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":\\\"x\\\"\"}</tool_call>",
           "T0(f)A0({\"a\":\"x\"~)C(\"}</tool_call>)");
    expect(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":\"{} x\"}", "T0(f)A0({})C(x\"})");
}

// Text behind such a call, and text that is no call, is reasoning up to its closing mark.
CASE(calls_may_come_before_the_reasoning_is_closed) {
    expect(HERMES THINK, "<think>hm\n<tool_call>{\"name\": \"f\"}</tool_call>", "R(hm)T0(f)A0({})");
    expect(HERMES THINK, "<think>a<tool_call>{\"name\":\"f\"}</tool_call>\nb\n</think>\nc",
           "R(a)T0(f)A0({})R(b)C(c)");
    expect(HERMES THINK, "<think>a <tool_call>s are JSON.</think>b",
           "R(a <tool_call>s are JSON.)C(b)");
    expect(HERMES THINK, "<think>a <tool_call>{", "R(a <tool_call>{)");
    expect(HERMES THINK, "<think>a<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}]</think>b",
           "R(a)T0(f)A0({\"a\":1})R(])C(b)");
    expect(HERMES THINK,
           "<think>a</think>b<tool_call>{\"name\":\"f\"}</tool_call>c<think>d</think>",
           "R(a)C(b)T0(f)A0({})C(c<think>d</think>)");
    expect(CODER THINK, "<think>hm<tool_call>\n<function=f>\n</function>\n</tool_call>",
           "R(hm)T0(f)A0({})");
    expect(KIMI THINK,
           "<think>hm<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
           "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|></think>",
           "R(hm)T0(f)A0({})");
    expect(DSML THINK,
           "<think>hm<" DSML "tool_calls>\n<" DSML "invoke name=\"f\">\n</" DSML "invoke>",
           "R(hm)T0(f)A0({})");
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
    expect(COHERE, "<|START_THINKING|>hm <|START_RESPONSE|>Yes.<|END_RESPONSE|>", "R(hm)C(Yes.)");
    expect(COHERE,
           "<|START_THINKING|>hm<|START_ACTION|>[{\"tool_name\": \"f\"}]<|END_ACTION|>"
           "<|START_RESPONSE|>Yes.<|END_RESPONSE|>",
           "R(hm)T0(f)A0({})C(Yes.)");
}

CASE(apertus_calls) {
    expect(APERTUS,
           "<|inner_prefix|>hm<|tools_prefix|>[{\"f\": {\"a\": 1}}, {\"g\": {}}]<|tools_suffix|>",
           "R(hm)T0(f)A0({\"a\": 1})T1(g)A1({})");
    expect(APERTUS, "<|inner_prefix|>hm<|inner_suffix|>Yes", "R(hm)C(Yes)");
    expect(APERTUS, "Yes<|inner_suffix|> and<|inner_prefix|>hm<|inner_suffix|>no",
           "C(Yes and)R(hm)C(no)");
    expect(APERTUS,
           "<|inner_prefix|>a<|tools_prefix|>[{\"f\": {}}]<|tools_suffix|>b<|inner_suffix|>c",
           "R(a)T0(f)A0({})R(b)C(c)");
    expect(APERTUS, "<|tools_prefix|>[{\"f\": 1}]", "C(<|tools_prefix|>[{\"f\": 1}])");
    expect(APERTUS, "<|tools_prefix|>[{\"f\": {}, \"g\": {}}]", "T0(f)A0({})C(, \"g\": {}}])");
    expect(APERTUS, "<|tools_prefix|>[{\"name\": \"f\", \"arguments\": {}}]", "T0(f)A0({})");
    expect(HERMES, "<tool_call>{\"f\": {}}", "C(<tool_call>{\"f\": {}})");
}

CASE(nemotron_calls) {
    expect(NEMOTRON THINK,
           "<think>\nhm\n</think>\n\n<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": [1]}}, "
           "{\"name\": \"g\", \"arguments\": \"{}\"}]</TOOLCALL>",
           "R(hm)T0(f)A0({\"a\": [1]})T1(g)A1({})");
    expect(NEMOTRON, "So:\n<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}]</TOOLCALL>\nDone.",
           "C(So:)T0(f)A0({})C(Done.)");
    expect(NEMOTRON, "<TOOLCALL>[{\"name\": \"f\"}, 1]</TOOLCALL>",
           "T0(f)A0({})C(, 1]</TOOLCALL>)");
    const char *opened = "hm\n</think>\n<TOOLCALL>[{\"name\": \"f\"}]</TOOLCALL>";
    expect_job(&(struct job){answer_marks_of(NEMOTRON THINK), true, true, opened, strlen(opened),
                             NULL},
               "R(hm)T0(f)A0({})");
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

// ---------------------------------------------------------------- as they are written

// The parts so far of a text that is fed byte by byte.
static struct joined fed(const struct job *job, size_t len, struct answer_parts *parts,
                         struct joined joined) {
    for (size_t i = job->len; i < len; i++)
        parts_feed(parts, job->text + i, 1, false, on_part, &joined);
    return joined;
}

// Each family lets a string out as it comes: at most a few bytes are held, since they may be its
// end.
CASE(arguments_come_as_they_are_written) {
    static const char value[] =
        "It was a bright cold day in \u00C0pril, for \u20AC 5 \U0001F600 each";
    static const struct {
        const char *tmpl, *begin, *end;
    } rows[] = {
        {HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"", "\"}}</tool_call>"},
        {HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":\\\"", "\\\"}\"}"},
        {HERMES, "<tool_call>{'name': 'f', 'arguments': {'a': '", "'}}</tool_call>"},
        {CODER, "<function=f><parameter=a>\n", "\n</parameter></function>"},
        {GLM, "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>", "</arg_value></tool_call>"},
        {MISTRAL, "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"a\":\"", "\"}}]"},
        {MISTRAL, "[TOOL_CALLS]f[ARGS]{\"a\":\"", "\"}"},
        {LLAMA, "{\"name\":\"f\",\"parameters\":{\"a\":\"", "\"}}"},
        {HARMONY, "<|channel|>commentary to=functions.f<|message|>{\"a\":\"", "\"}<|call|>"},
        {NEMOTRON, "<TOOLCALL>[{\"name\":\"f\",\"arguments\":{\"a\":\"", "\"}}]</TOOLCALL>"},
        {LFM2, LFM2_OPEN "[f(a='", "')]" LFM2_CLOSE},
        {MINIMAX, "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">",
         "</parameter></invoke></minimax:tool_call>"},
        {SEED, "<seed:tool_call><function=f><parameter=a>", "</parameter></function>"},
        {HUNYUAN, "<tool_calls>[{\"name\":\"f\",\"arguments\":{\"a\":\"", "\"}}]</tool_calls>"},
        {GEMMA4, "<|tool_call>call:f{a:" G4_QUOTE, G4_QUOTE "}<tool_call|>"},
        {COHERE, "<|START_ACTION|>[{\"tool_name\":\"f\",\"parameters\":{\"a\":\"", "\"}}]"},
        {APERTUS, "<|tools_prefix|>[{\"f\":{\"a\":\"", "\"}}]<|tools_suffix|>"},
        {OLMO3, "<function_calls>f(a=\"", "\")</function_calls>"},
        {LLAMA4, "[f(a=\"", "\")]"},
        {DSML, "<" DSML "invoke name=\"f\"><" DSML "parameter name=\"a\" string=\"true\">",
         "</" DSML "parameter></" DSML "invoke>"},
        {MINICPM5, "<function name=\"f\"><param name=\"a\">", "</param></function>"},
        {KIMI, "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{\"a\":\"", "\"}"},
        {DS_CALL, DS_CALL "function" DS_SEP "f\n```json\n{\"a\":\"", "\"}\n```" DS_CALL_END},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        const int n = snprintf(text, sizeof text, "%s%s%s", rows[i].begin, value, rows[i].end);
        struct job job = {answer_marks_of(rows[i].tmpl), true, false, text, 0, NULL};
        struct joined joined = {.last = -1};
        struct answer_parts parts;
        parts_init(&parts, job.marks, true, NULL, false);
        const size_t begin = strlen(rows[i].begin);
        joined = fed(&job, begin, &parts, joined);
        assert_int_equal(joined.n_tools, 0); // the value may still be none
        job.len = begin;
        for (size_t k = 1; k < sizeof value; k++) {
            joined = fed(&job, begin + k, &parts, joined);
            job.len = begin + k;
            const size_t got = joined.arguments.len > 6 ? joined.arguments.len - 6 : 0;
            check(got + 3 >= k, "row %zu: %zu of %zu bytes", i, got, k); // part of a character
            check(!memcmp(joined.arguments.data, "{\"a\":\"", 6) &&
                      !memcmp(joined.arguments.data + 6, value, got) && got <= k,
                  "row %zu: %.*s", i, (int)joined.arguments.len, joined.arguments.data);
        }
        joined = fed(&job, (size_t)n, &parts, joined);
        check(joined.has_end, "row %zu: no end", i);
        parts_deinit(&parts);
        joined_deinit(&joined);
    }
}

TEST_PROGRAM(answer_calls) { return cases_run(NULL, NULL); }
