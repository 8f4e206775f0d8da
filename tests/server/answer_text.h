// Answers as one text, for the tests of answer_parts.h: an answer is cut in every way, and its
// parts are joined. And the signs of the formats in use.
#ifndef RN_TESTS_SERVER_ANSWER_TEXT_H
#define RN_TESTS_SERVER_ANSWER_TEXT_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "answer_parts.h"
#include "answer_types.h"
#include "check.h"

// ---------------------------------------------------------------- parts as one text

// "R(...)C(...)T0(name)A0(...)": neighbours of one kind are joined. A call without its end has a ~
// behind its arguments.
struct joined {
    struct jbuf text;
    int last; // kind and tool of the last part; -1: none
    int n_tools;
    bool has_end;   // the last call
    bool is_broken; // one of the calls
    struct jbuf content, arguments;
};

// What a client shows of a call that is still written: the text with its string and its brackets
// closed must be an object. Each piece ends behind a value, so nothing else is to be done.
static inline void expect_completes(const char *text, size_t len) {
    char closing[128];
    size_t n = sizeof closing;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        if (in_string && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            in_string = !in_string;
        else if (!in_string && (text[i] == '{' || text[i] == '['))
            closing[--n] = text[i] == '{' ? '}' : ']';
        else if (!in_string && (text[i] == '}' || text[i] == ']'))
            n++;
    }
    struct jbuf whole = {0};
    jbuf_bytes(&whole, text, len);
    if (in_string) jbuf_bytes(&whole, "\"", 1);
    jbuf_bytes(&whole, closing + n, sizeof closing - n);
    json_t *json = json_loadb(whole.data, whole.len, JSON_ALLOW_NUL, NULL);
    check(json_is_object(json), "no start of an object: %.*s", (int)len, text);
    json_decref(json);
    jbuf_deinit(&whole);
}

// The last call has got its end, or never will.
static inline void end_arguments(struct joined *joined) {
    if (!joined->arguments.len) return;
    json_t *json = json_loadb(joined->arguments.data, joined->arguments.len, JSON_ALLOW_NUL, NULL);
    check(json_is_object(json) == joined->has_end, "%s: %.*s",
          joined->has_end ? "an end, but no object" : "an object, but no end",
          (int)joined->arguments.len, joined->arguments.data);
    if (!joined->has_end) jbuf_text(&joined->text, "~");
    joined->is_broken |= !joined->has_end;
    json_decref(json);
    jbuf_clear(&joined->arguments);
}

static inline void on_tool_part(struct joined *joined, enum answer_part part, int tool,
                                const char *text, size_t len) {
    if (part == PART_TOOL) {
        check(tool == joined->n_tools, "call %d after %d", tool, joined->n_tools);
        joined->n_tools++;
        joined->has_end = false;
        return;
    }
    check(tool == joined->n_tools - 1, "arguments of call %d of %d", tool, joined->n_tools);
    check(!joined->has_end, "something behind the end of call %d", tool);
    joined->has_end = part == PART_TOOL_END;
    jbuf_bytes(&joined->arguments, text, len);
    if (len && joined->arguments.len < 4096)
        expect_completes(joined->arguments.data, joined->arguments.len);
}

static inline void on_part(void *ctx, enum answer_part part, int tool, const char *text,
                           size_t len) {
    struct joined *joined = ctx;
    const int kind = (int)part * 1000 + tool;
    check((len > 0) == (part != PART_TOOL_END), "a part of %zu bytes", len);
    if (part == PART_TOOL_END) {
        on_tool_part(joined, part, tool, text, len);
        return;
    }
    if (part == PART_CONTENT) jbuf_bytes(&joined->content, text, len);
    if (kind != joined->last) {
        end_arguments(joined);
        if (joined->last >= 0) jbuf_text(&joined->text, ")");
        jbuf_printf(&joined->text, "%c", "CRTA"[part]);
        if (part >= PART_TOOL) jbuf_printf(&joined->text, "%d", tool);
        jbuf_text(&joined->text, "(");
    }
    if (part >= PART_TOOL) on_tool_part(joined, part, tool, text, len);
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

static inline struct joined joined_end(struct joined joined) {
    end_arguments(&joined);
    if (joined.last >= 0) jbuf_text(&joined.text, ")");
    jbuf_bytes(&joined.text, "", 1);
    return joined;
}

// Fed in pieces of at most `most` bytes, 0: all at once.
static inline struct joined run(const struct job *job, size_t most) {
    struct joined joined = {.last = -1};
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

static inline void joined_deinit(struct joined *joined) {
    jbuf_deinit(&joined->text);
    jbuf_deinit(&joined->content);
    jbuf_deinit(&joined->arguments);
}

// In two pieces, the first of `at` bytes.
static inline struct joined run_cut(const struct job *job, size_t at) {
    struct joined joined = {.last = -1};
    struct answer_parts parts;
    parts_init(&parts, job->marks, job->tools, job->types, job->in_reasoning);
    parts_feed(&parts, job->text, at, false, on_part, &joined);
    parts_feed(&parts, job->text + at, job->len - at, true, on_part, &joined);
    parts_deinit(&parts);
    return joined_end(joined);
}

static inline void expect_text(const struct job *job, struct joined joined, const char *pieces,
                               size_t size, const char *want) {
    check(!strcmp(joined.text.data, want), "%s %zu: '%s' gave\n%s\nexpected\n%s", pieces, size,
          job->text, joined.text.data, want);
    joined_deinit(&joined);
}

// Whole, in pieces of several sizes, and at every cut in two.
static inline void expect_job(const struct job *job, const char *want) {
    static const size_t most[] = {0, 1, 2, 3, 7, 40};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++)
        expect_text(job, run(job, most[i]), "pieces of", most[i], want);
    for (size_t at = 0; at <= job->len; at++)
        expect_text(job, run_cut(job, at), "cut at", at, want);
}

static inline void expect(const char *tmpl, const char *text, const char *want) {
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

static const char brackets_open[] =
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[";
static const char brackets_close[] =
    "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]";

// ---------------------------------------------------------- types

// Of f, whose parameters have these schemas, and of g, which has none.
static inline json_t *types_make(const char *properties) {
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

static inline void expect_typed(const char *tmpl, const json_t *types, const char *text,
                                const char *want) {
    expect_job(&(struct job){answer_marks_of(tmpl), true, false, text, strlen(text), types}, want);
}

#endif
