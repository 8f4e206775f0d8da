// The tables of marks. A model's markup is in its template, which has to write earlier calls and to
// drop earlier reasoning. A new way to write reasoning or calls is a row.
#include "answer_marks.h"

#include <string.h>

static const struct tag_marks tags_function = {.name_open = "<function=",
                                               .name_close = ">",
                                               .key_open = "<parameter=",
                                               .key_close = ">",
                                               .value_open = "",
                                               .value_close = "</parameter>",
                                               .end = "</function>"};
static const struct tag_marks tags_arg = {.name_open = "",
                                          .key_open = "<arg_key>",
                                          .key_close = "</arg_key>",
                                          .value_open = "<arg_value>",
                                          .value_close = "</arg_value>",
                                          .end = "</tool_call>"};
static const struct tag_marks tags_invoke = {.name_open = "<invoke name=\"",
                                             .name_close = "\">",
                                             .key_open = "<parameter name=\"",
                                             .key_close = "\">",
                                             .value_open = "",
                                             .value_close = "</parameter>",
                                             .end = "</invoke>"};

static const struct tag_marks tags_param = {.name_open = "<function name=\"",
                                            .name_close = "\">",
                                            .key_open = "<param name=\"",
                                            .key_close = "\">",
                                            .value_open = "",
                                            .value_close = "</param>",
                                            .end = "</function>"};
#define DSML "\uFF5CDSML\uFF5C"
static const struct tag_marks tags_dsml = {.name_open = "<" DSML "invoke name=\"",
                                           .name_close = "\">",
                                           .key_open = "<" DSML "parameter name=\"",
                                           .key_close = "\" string=\"false\">",
                                           .text_close = "\" string=\"true\">",
                                           .value_open = "",
                                           .value_close = "</" DSML "parameter>",
                                           .end = "</" DSML "invoke>"};

#define TOOLS_LFM2                                                                                 \
    { .open = {"<|tool_call_start|>"}, .close = {"<|tool_call_end|>"}, .python = true }

#define TOOLS_LLAMA4                                                                               \
    {                                                                                              \
        .open = {"<|python_start|>"}, .inner = {"<|python_end|>"}, .close = {"<|python_end|>"},    \
        .bare = true, .python = true                                                               \
    }

// The first row whose sign is in the template is the model's.
enum { TOOLS_HARMONY }; // its index
static const struct {
    const char *sign;
    struct tool_marks marks;
} tools[] = {
    [TOOLS_HARMONY] = {.sign = "<|channel|>"},
    // DeepSeek V3.2 and V4
    {DSML,
     {.open = {"<" DSML "function_calls>", "<" DSML "tool_calls>", "<" DSML "invoke name=\""},
      .close = {"</" DSML "function_calls>", "</" DSML "tool_calls>"},
      .tags = &tags_dsml,
      .in_reasoning = true}},
    // GLM 4.5 to 4.7, Laguna
    {"<arg_key>", {.open = {"<tool_call>"}, .close = {"</tool_call>"}, .tags = &tags_arg}},
    // Seed-OSS
    {"<seed:tool_call>",
     {.open = {"<seed:tool_call>", "<function="},
      .close = {"</seed:tool_call>"},
      .tags = &tags_function}},
    // Qwen3-Coder, which forgets the outer mark at times; Qwen 3.5 and Nemotron 3
    {"<function=",
     {.open = {"<tool_call>", "<function="},
      .close = {"</tool_call>"},
      .tags = &tags_function,
      .in_reasoning = true}},
    // MiniCPM 5
    {"<function name=\"", {.open = {"<function name=\""}, .tags = &tags_param}},
    // Hunyuan, Apriel, MiniMax M1
    {"<tool_calls>",
     {.open = {"<tool_calls>"},
      .inner = {"<tool_call>"},
      .close = {"</tool_calls>", "</tool_call>"},
      .lines = true}},
    // Hermes, Qwen 2.5 and 3, EXAONE 4, ERNIE 4.5, Granite 4, Falcon H1, and many others
    {"<tool_call>", {.open = {"<tool_call>"}, .close = {"</tool_call>"}, .in_reasoning = true}},
    // Mistral, old and new
    {"[TOOL_CALLS]", {.open = {"[TOOL_CALLS]"}, .separator = "[ARGS]"}},
    // DeepSeek
    {"<\uFF5Ctool\u2581call\u2581begin\uFF5C>",
     {.open = {"<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
               "<\uFF5Ctool\u2581call\u2581begin\uFF5C>"},
      .inner = {"<\uFF5Ctool\u2581call\u2581begin\uFF5C>"},
      .close = {"```", "<\uFF5Ctool\u2581call\u2581end\uFF5C>",
                "<\uFF5Ctool\u2581calls\u2581end\uFF5C>"},
      .separator = "<\uFF5Ctool\u2581sep\uFF5C>"}},
    // Kimi K2
    {"<|tool_call_begin|>",
     {.open = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"},
      .inner = {"<|tool_call_begin|>"},
      .close = {"<|tool_call_end|>", "<|tool_calls_section_end|>"},
      .separator = "<|tool_call_argument_begin|>",
      .in_reasoning = true}},
    // MiniMax M2
    {"<minimax:tool_call>",
     {.open = {"<minimax:tool_call>", "<invoke name=\""},
      .close = {"</minimax:tool_call>"},
      .tags = &tags_invoke}},
    // Gemma 4
    {"<|tool_call>",
     {.open = {"<|tool_call>"},
      .inner = {"call:"},
      .close = {"<tool_call|>"},
      .quote = "<|\"|>",
      .in_reasoning = true}},
    // FunctionGemma
    {"<start_function_call>",
     {.open = {"<start_function_call>"},
      .inner = {"call:"},
      .close = {"<end_function_call>"},
      .quote = "<escape>"}},
    // GigaChat 3.1
    {"<|function_call|>", {.open = {"<|function_call|>"}}},
    // Command A, Command R7B
    {"<|START_ACTION|>",
     {.open = {"<|START_ACTION|>"}, .close = {"<|END_ACTION|>"}, .in_reasoning = true}},
    // Apertus
    {"<|tools_prefix|>",
     {.open = {"<|tools_prefix|>"},
      .close = {"<|tools_suffix|>"},
      .keyed = true,
      .in_reasoning = true}},
    // OLMo 3
    {"<function_calls>",
     {.open = {"<function_calls>"}, .close = {"</function_calls>"}, .python = true, .lines = true}},
    // Granite 3, Phi 4 mini
    {"<|tool_call|>", {.open = {"<|tool_call|>"}, .close = {"<|/tool_call|>"}}},
    // Nemotron Nano 2
    {"<TOOLCALL>", {.open = {"<TOOLCALL>"}, .close = {"</TOOLCALL>"}}},
    // LFM2; some of its templates write no calls, and the lists of tools tell them
    {"<|tool_call_start|>", TOOLS_LFM2},
    {"<|tool_list_start|>", TOOLS_LFM2},
    {"List of tools: [", TOOLS_LFM2},
    // Llama 4; templates that write calls as Python does have no mark
    {"<|python_start|>", TOOLS_LLAMA4},
    {"[func_name1(param", TOOLS_LLAMA4},
    // Llama 3
    {"<|python_tag|>", {.open = {"<|python_tag|>"}, .bare = true}},
    {"\"parameters\": dictionary of argument", {.open = {"<|python_tag|>"}, .bare = true}},
};
enum { TOOLS_COUNT = sizeof tools / sizeof *tools };

static const struct reasoning_marks reasonings[] = {
    {.open = "<think>", .close = "</think>"},
    {.open = "[THINK]", .close = "[/THINK]"},
    {.open = "<seed:think>", .close = "</seed:think>"},
    {.open = "<mm:think>", .close = "</mm:think>"},
    {.open = "\u25C1think\u25B7", .close = "\u25C1/think\u25B7"},
    {.open = "<|channel>thought",
     .close = "<channel|>",
     .stray = {"<|channel>", "<channel|>"},
     .again = true},
    {.open = "<|inner_prefix|>",
     .close = "<|inner_suffix|>",
     .stray = {"<|inner_suffix|>"},
     .again = true},
    {.open = "<|START_THINKING|>",
     .close = "<|END_THINKING|>",
     .stray = {"<|END_THINKING|>"},
     .again = true},
    {.open = "<thought>", .close = "</thought>"},
};
enum { REASONING_COUNT = sizeof reasonings / sizeof *reasonings };

static const struct {
    const char *sign;
    struct wrap_marks marks;
} wraps[] = {
    {"<|START_RESPONSE|>", {"<|START_RESPONSE|>", "<|END_RESPONSE|>", true}},
    {"<|START_TEXT|>", {"<|START_TEXT|>", "<|END_TEXT|>", true}},
    {"<response></response>", {"<response>", "</response>", false}}, // Granite 3
    {"<response>\\n", {"<response>", "</response>", false}},         // ERNIE 4.5
    {"<answer>", {"<answer>", "</answer>", false}},                  // Hunyuan
};
enum { WRAP_COUNT = sizeof wraps / sizeof *wraps };

static void answers_fill(struct answer_marks *marks) {
    int n = 0;
    for (int i = 0; marks->tools.in_reasoning && marks->tools.open[i]; i++)
        marks->answer[n++] = marks->tools.open[i];
    marks->n_calls = n;
    if (marks->wrap.is_token) marks->answer[n++] = marks->wrap.open;
}

struct answer_marks answer_marks_of(const char *tmpl) {
    struct answer_marks out = {0};
    int tool = 0;
    if (!tmpl) return out;
    while (tool < TOOLS_COUNT && !strstr(tmpl, tools[tool].sign)) tool++;
    out.harmony = tool == TOOLS_HARMONY;
    out.knows_effort = strstr(tmpl, "reasoning_effort") != NULL;
    if (out.harmony) return out;
    if (tool < TOOLS_COUNT) out.tools = tools[tool].marks;
    for (int i = 0; i < REASONING_COUNT && !out.reasoning.open; i++) {
        if (strstr(tmpl, reasonings[i].open) || strstr(tmpl, reasonings[i].close))
            out.reasoning = reasonings[i];
    }
    for (int i = 0; i < WRAP_COUNT && !out.wrap.open; i++)
        if (strstr(tmpl, wraps[i].sign)) out.wrap = wraps[i].marks;
    answers_fill(&out);
    return out;
}

bool answer_marks_special(const struct answer_marks *marks, bool tools_given) {
    return marks->harmony || marks->reasoning.open || marks->wrap.is_token ||
           (tools_given && marks->tools.open[0] != NULL);
}

#define HARMONY_OPEN  "<|channel|>analysis<|message|>"
#define HARMONY_CLOSE "<|end|>"

bool answer_marks_bound(const struct answer_marks *marks, bool opened, bool tools_given,
                        rn_reasoning *out) {
    *out = (rn_reasoning){.open = marks->reasoning.open,
                          .close = marks->reasoning.close,
                          .answer = answer_marks_ends(marks, tools_given)};
    if (marks->harmony)
        *out =
            (rn_reasoning){.open = HARMONY_OPEN,
                           .close = HARMONY_CLOSE,
                           .last = HARMONY_CLOSE "<|start|>assistant<|channel|>final<|message|>"};
    if (opened) out->open = NULL;
    return out->close != NULL;
}

// Blanks behind the mark do not matter.
static bool ends_with(const char *text, size_t len, const char *mark) {
    const size_t n = mark ? strlen(mark) : 0;
    while (len > 0 && answer_is_blank(text[len - 1])) len--;
    return n > 0 && len >= n && memcmp(text + len - n, mark, n) == 0;
}

bool answer_marks_opened(const struct answer_marks *marks, const char *prompt, size_t len) {
    return ends_with(prompt, len, marks->harmony ? HARMONY_OPEN : marks->reasoning.open);
}

bool answer_marks_closed(const struct answer_marks *marks, const char *prompt, size_t len) {
    return ends_with(prompt, len, marks->reasoning.close);
}
