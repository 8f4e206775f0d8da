// Answers: the parts of the formats in use. The parts never depend on how a text is cut, no text is
// lost, and requests without tools never get calls.
#include "check.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "answer_parts.h"
#include "data_file.h"

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
};

// Fed in pieces of at most `most` bytes, 0: all at once.
static struct joined run(const struct job *job, size_t most) {
    struct joined joined = {.last = -1, .arguments_ok = true};
    struct answer_parts parts;
    parts_init(&parts, job->marks, job->tools, job->in_reasoning);
    size_t at = 0;
    while (most && at < job->len) {
        size_t n = 1 + (size_t)rand() % most;
        if (n > job->len - at) n = job->len - at;
        parts_feed(&parts, job->text + at, n, false, on_part, &joined);
        at += n;
    }
    parts_feed(&parts, job->text + at, job->len - at, true, on_part, &joined);
    parts_deinit(&parts);
    if (joined.last >= 0) jbuf_text(&joined.text, ")");
    end_arguments(&joined);
    jbuf_bytes(&joined.text, "", 1);
    return joined;
}

static void joined_deinit(struct joined *joined) {
    jbuf_deinit(&joined->text);
    jbuf_deinit(&joined->content);
    jbuf_deinit(&joined->arguments);
}

static void expect_job(const struct job *job, const char *want) {
    static const size_t most[] = {0, 1, 2, 3, 7, 40};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        struct joined joined = run(job, most[i]);
        check(!strcmp(joined.text.data, want), "pieces of %zu: '%s' gave\n%s\nexpected\n%s",
              most[i], job->text, joined.text.data, want);
        joined_deinit(&joined);
    }
}

static void expect(const char *tmpl, const char *text, const char *want) {
    expect_job(&(struct job){answer_marks_of(tmpl), true, false, text, strlen(text)}, want);
}

// ---------------------------------------------------------------- formats

#define HERMES       "<tool_call>"
#define THINK        "<think> </think>"
#define CODER        "<tool_call><function="
#define GLM          "<tool_call><arg_key><think>"
#define MISTRAL      "[TOOL_CALLS]"
#define LLAMA        "<|python_tag|>"
#define HARMONY      "<|channel|>"
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
    expect_job(&(struct job){answer_marks_of(THINK), false, true, "\na</think>b", 11}, "R(a)C(b)");
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

CASE(glm_calls) {
    expect(
        GLM,
        "<think>a</think>\n<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x y</arg_value>\n"
        "<arg_key>b</arg_key>\n<arg_value>true</arg_value>\n</tool_call>\n<tool_call>g</tool_call>",
        "R(a)T0(f)A0({\"a\":\"x y\",\"b\":true})T1(g)A1({})");
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
    expect_job(&(struct job){answer_marks_of(HARMONY), false, false, call, strlen(call)}, "C({})");
    expect_job(&(struct job){answer_marks_of(HARMONY), true, true, "a<|end|>", 8}, "R(a)");
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

CASE(without_tools_there_are_no_calls) {
    static const char *const cases[][2] = {
        {HERMES, "<tool_call>{\"name\":\"f\"}</tool_call>"},
        {CODER, "<function=f></function>"},
        {MISTRAL, "[TOOL_CALLS]f[ARGS]{}"},
        {LLAMA, "{\"name\": \"f\", \"parameters\": {}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[128];
        snprintf(want, sizeof want, "C(%s)", cases[i][1]);
        expect_job(&(struct job){answer_marks_of(cases[i][0]), false, false, cases[i][1],
                                 strlen(cases[i][1])},
                   want);
    }
}

// ---------------------------------------------------------------- any text at all

static const char *const templates[] = {NULL,    THINK, HERMES,  THINK HERMES,
                                        CODER,   GLM,   MISTRAL, LLAMA THINK,
                                        HARMONY, KIMI,  DS_CALL, "<minimax:tool_call>"};
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
};

CASE(any_cut_gives_the_same_parts) {
    srand(1);
    for (int round = 0; round < 60000; round++) {
        struct jbuf text = {0};
        for (int n = rand() % 14; n > 0; n--) {
            const char *fragment =
                fragments[(size_t)rand() % (sizeof fragments / sizeof *fragments)];
            const size_t len = strlen(fragment);
            jbuf_bytes(&text, fragment, rand() % 8 ? len : (size_t)rand() % len);
        }
        const char *tmpl = templates[(size_t)rand() % (sizeof templates / sizeof *templates)];
        const struct job job = {answer_marks_of(tmpl), rand() % 4 != 0, rand() % 4 == 0,
                                text.data ? text.data : "", text.len};
        struct joined whole = run(&job, 0), cut = run(&job, 1 + (size_t)rand() % 12);
        check(!strcmp(whole.text.data, cut.text.data), "%s: '%.*s' gave\n%s\nand cut\n%s", tmpl,
              (int)text.len, job.text, whole.text.data, cut.text.data);
        check(whole.arguments_ok, "'%.*s' gave %s", (int)text.len, job.text, whole.text.data);
        check(job.tools || !whole.n_tools, "calls without tools: %s", whole.text.data);
        const bool is_content =
            !strchr("RT", whole.text.data[0]) && !whole.n_tools && !strstr(whole.text.data, ")R(");
        if (is_content && tmpl && strcmp(tmpl, HARMONY) && !strstr(tmpl, "think"))
            check(whole.content.len == text.len && !memcmp(whole.content.data, text.data, text.len),
                  "'%.*s' lost something: %s", (int)text.len, job.text, whole.text.data);
        joined_deinit(&whole);
        joined_deinit(&cut);
        jbuf_deinit(&text);
    }
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
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct jbuf text = {0};
        jbuf_text(&text, parts[i][1]);
        while (text.len < (3 << 19)) jbuf_text(&text, parts[i][2]);
        const struct job job = {answer_marks_of(parts[i][0]), true, false, text.data, text.len};
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
