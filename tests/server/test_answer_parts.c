// Answers: the parts of the formats in use. The parts never depend on how a text is cut, no text is
// lost, and requests without tools never get calls.
#include "answer_text.h"

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
        assert_true(answer_marks_bound(&marks, false, false, &open));
        snprintf(text, sizeof text, "%s%sa b%sYes", open.open, marks.harmony ? "" : "\n",
                 open.last ? open.last : open.close);
        expect(tmpls[i], text, "R(a b)C(Yes)");
        assert_true(answer_marks_bound(&marks, true, false, &cut));
        assert_null(cut.open);
        const char *rest = text + strlen(open.open);
        expect_job(&(struct job){marks, false, true, rest, strlen(rest), NULL}, "R(a b)C(Yes)");
        assert_true(!cut.last || !strncmp(cut.last, cut.close, strlen(cut.close)));
    }
    rn_reasoning none;
    const struct answer_marks marks = answer_marks_of(HERMES);
    assert_false(answer_marks_bound(&marks, false, false, &none));
}

static int count_answers(const char *tmpl, bool tools) {
    const struct answer_marks marks = answer_marks_of(tmpl);
    rn_reasoning bound;
    int n = 0;
    assert_true(answer_marks_bound(&marks, false, tools, &bound));
    while (bound.answer && bound.answer[n]) n++;
    assert_true(n <= RN_MAX_ANSWER_MARKS);
    return n;
}

CASE(calls_end_the_reasoning_of_requests_with_tools) {
    static const struct {
        const char *tmpl;
        int without, with;
    } rows[] = {{HERMES THINK, 0, 1}, {CODER THINK, 0, 2}, {KIMI THINK, 0, 2},
                {DSML THINK, 0, 3},   {GEMMA4, 0, 1},      {COHERE, 1, 2},
                {APERTUS, 0, 1},      {HARMONY, 0, 0},     {THINK, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check(count_answers(rows[i].tmpl, false) == rows[i].without, "%s", rows[i].tmpl);
        check(count_answers(rows[i].tmpl, true) == rows[i].with, "%s with tools", rows[i].tmpl);
    }
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

// ---------------------------------------------------------------- types

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
    expect_job(&(struct job){answer_marks_of(HARMONY), true, true, "a<|end|> b", 10, NULL},
               "R(a)C( b)");
    expect(HARMONY, "<|channel|>commentary to=f<|message|> {\"a\":\"x\"} \n<|call|>",
           "T0(f)A0({\"a\":\"x\"})");
    expect(HARMONY, "<|channel|>commentary to=f<|message|>{\"a\":\"x<|end|>y", // no end of its own
           "T0(f)A0({\"a\":\"x~)C(y)");
    expect(HARMONY, "<|channel|>commentary to=f<|message|>{\"a\":\"x\",b}<|end|>",
           "T0(f)A0({\"a\":\"x\"~)C(,b})");
}

// ---------------------------------------------------------------- calls that templates write

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

// Text that no call starts with is content at last. Arguments are let out, however many there are,
// and an answer has so many calls at most.
CASE(long_things_are_let_out) {
    enum { CONTENT, ARGUMENTS, CALLS };
    static const struct {
        const char *tmpl, *begin, *more;
        int gives;
    } rows[] = {
        {HERMES, "<tool_call>{\"a\":\"", "abcdefgh", CONTENT},
        {HERMES, "<tool_call>", "         ", CONTENT},
        {HERMES, "<tool_call>", "[[[[[[[[", CONTENT},
        {HERMES, "x", "\n\n\n\n\n\n\n\n", CONTENT},
        {CODER, "<function=f><parameter=a>", "</function>", ARGUMENTS},
        {CODER, "<function=", "aaaaaaaa", CONTENT},
        {MISTRAL, "[TOOL_CALLS]", "name name", CONTENT},
        {LLAMA, "{", "{\"a\":{\"b\":", CONTENT},
        {GLM, "<tool_call>f<arg_key>a</arg_key><arg_value>", "</tool_call>", ARGUMENTS},
        {HERMES, "", "<tool_call>{", CONTENT},
        {KIMI, "<|tool_call_begin|>f<|tool_call_argument_begin|>{", "       ", CONTENT},
        {NEMOTRON, "<TOOLCALL>[", "{\"name\":\"f\"},", CALLS},
        {HERMES, "<tool_call>{'name': 'f', 'arguments': {", "'a': 'b', ", ARGUMENTS},
        {HERMES, "<tool_call>", "{[ ", CONTENT},
        {HERMES, "<tool_call>[", "         ", CONTENT},
        {LFM2, LFM2_OPEN "[f(a='", "abcdefgh", ARGUMENTS},
        {LFM2, LFM2_OPEN "[f(a='", "' ", ARGUMENTS},
        {LFM2, LFM2_OPEN "[f(a='", "'                    ", ARGUMENTS},
        {LFM2, LFM2_OPEN "[f(a='''", "''", ARGUMENTS},
        {LFM2, LFM2_OPEN "[f(", "a=1, ", ARGUMENTS},
        {LFM2, LFM2_OPEN "[", "        ", CONTENT},
        {LFM2, LFM2_OPEN, "ffffffff", CONTENT},
        {LFM2, LFM2_OPEN "[f(a=", "[{([", CONTENT},
        {LFM2, "", LFM2_OPEN "[", CONTENT},
        {GEMMA4, "<|tool_call>call:f{a:" G4_QUOTE, "abcdefgh", ARGUMENTS},
        {GEMMA4, "<|tool_call>call:f{", "a:1,", ARGUMENTS},
        {GEMMA4, "<|tool_call>call:f{a:", "[{a:", CONTENT},
        {GEMMA4, "<|tool_call>", "call:", CONTENT},
        {GEMMA4, "<|tool_call>call:", "ffffffff", CONTENT},
        {OLMO3, "<function_calls>", "f f f f ", CONTENT},
        {LLAMA4, "[f(", "a=1, ", ARGUMENTS},
        {APERTUS, "<|tools_prefix|>[", "{\"f\":{}},", CALLS},
        {DSML, "<" DSML "invoke name=\"f\"><" DSML "parameter name=\"", "aaaaaaaa", CONTENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct jbuf text = {0};
        jbuf_text(&text, rows[i].begin);
        while (text.len < (3 << 19)) jbuf_text(&text, rows[i].more);
        const struct job job = {
            answer_marks_of(rows[i].tmpl), true, false, text.data, text.len, NULL};
        struct joined whole = run(&job, 0), cut = run(&job, 20);
        const size_t n = whole.content.len;
        check(!strcmp(whole.text.data, cut.text.data), "row %zu: %.200s, cut: %.200s", i,
              whole.text.data, cut.text.data);
        check(whole.n_tools == (rows[i].gives == CALLS ? 128 : rows[i].gives == ARGUMENTS),
              "row %zu: %d calls", i, whole.n_tools);
        if (rows[i].gives == CONTENT)
            check(n == text.len && !memcmp(whole.content.data, text.data, n), "row %zu: %zu", i, n);
        else if (rows[i].gives == ARGUMENTS)
            check(whole.text.len > text.len / 2, "row %zu: %zu", i, whole.text.len);
        else
            check(n > text.len - 128 * 16, "row %zu: %zu of content", i, n);
        joined_deinit(&whole);
        joined_deinit(&cut);
        jbuf_deinit(&text);
    }
}

// White space where a call is due is held in part only, also by the formats whose calls have a mark
// of their own.
CASE(blanks_behind_a_mark_are_let_out) {
    static const char *const rows[][2] = {
        {HERMES, "<tool_call>"},
        {HUNYUAN, "<tool_calls>"},
        {KIMI, "<|tool_calls_section_begin|>"},
        {DS_CALL, DS_CALLS},
        {GEMMA4, "<|tool_call>call:"},
        {LLAMA4, "<|python_start|>"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct joined joined = {.last = -1};
        struct answer_parts parts;
        parts_init(&parts, answer_marks_of(rows[i][0]), true, NULL, false);
        parts_feed(&parts, rows[i][1], strlen(rows[i][1]), false, on_part, &joined);
        for (int k = 0; k < 1000; k++) parts_feed(&parts, "\n", 1, false, on_part, &joined);
        check(parts.held.len < 600, "row %zu: %zu bytes are held", i, parts.held.len);
        parts_deinit(&parts);
        joined_deinit(&joined);
    }
}

TEST_PROGRAM(answer_parts) { return cases_run(NULL, NULL); }
