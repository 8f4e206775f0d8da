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

#define TOOLS_LFM2                                                                                 \
    { .open = {"<|tool_call_start|>"}, .close = {"<|tool_call_end|>"}, .python = true }

// The first row whose sign is in the template is the model's.
enum { TOOLS_HARMONY }; // its index
static const struct {
    const char *sign;
    struct tool_marks marks;
} tools[] = {
    [TOOLS_HARMONY] = {.sign = "<|channel|>"},
    // GLM 4.5
    {"<arg_key>", {.open = {"<tool_call>"}, .close = {"</tool_call>"}, .tags = &tags_arg}},
    // Qwen3-Coder, which forgets the outer mark at times; Qwen 3.5 and Nemotron 3
    {"<function=",
     {.open = {"<tool_call>", "<function="}, .close = {"</tool_call>"}, .tags = &tags_function}},
    // Hermes, Qwen 2.5 and 3, Granite 4, Falcon H1, and many others
    {"<tool_call>", {.open = {"<tool_call>"}, .close = {"</tool_call>"}}},
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
      .separator = "<|tool_call_argument_begin|>"}},
    // MiniMax M2
    {"<minimax:tool_call>",
     {.open = {"<minimax:tool_call>", "<invoke name=\""},
      .close = {"</minimax:tool_call>"},
      .tags = &tags_invoke}},
    // Granite 3, Phi 4 mini
    {"<|tool_call|>", {.open = {"<|tool_call|>"}, .close = {"<|/tool_call|>"}}},
    // Nemotron Nano 2
    {"<TOOLCALL>", {.open = {"<TOOLCALL>"}, .close = {"</TOOLCALL>"}}},
    // LFM2; some of its templates write no calls, and the lists of tools tell them
    {"<|tool_call_start|>", TOOLS_LFM2},
    {"<|tool_list_start|>", TOOLS_LFM2},
    {"List of tools: [", TOOLS_LFM2},
    // Llama 3
    {"<|python_tag|>", {.open = {"<|python_tag|>"}, .bare = true}},
    {"\"parameters\": dictionary of argument", {.open = {"<|python_tag|>"}, .bare = true}},
};
enum { TOOLS_COUNT = sizeof tools / sizeof *tools };

static const struct reasoning_marks reasonings[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"\u25C1think\u25B7", "\u25C1/think\u25B7"},
};
enum { REASONING_COUNT = sizeof reasonings / sizeof *reasonings };

struct answer_marks answer_marks_of(const char *tmpl) {
    struct answer_marks out = {0};
    int tool = 0;
    if (!tmpl) return out;
    while (tool < TOOLS_COUNT && !strstr(tmpl, tools[tool].sign)) tool++;
    out.harmony = tool == TOOLS_HARMONY;
    if (out.harmony) return out;
    if (tool < TOOLS_COUNT) out.tools = tools[tool].marks;
    for (int i = 0; i < REASONING_COUNT && !out.reasoning.open; i++) {
        if (strstr(tmpl, reasonings[i].open) || strstr(tmpl, reasonings[i].close))
            out.reasoning = reasonings[i];
    }
    return out;
}

bool answer_marks_special(const struct answer_marks *marks, bool tools_given) {
    return marks->harmony || marks->reasoning.open || (tools_given && marks->tools.open[0] != NULL);
}

bool answer_marks_opened(const struct answer_marks *marks, const char *prompt, size_t len) {
    const char *const open =
        marks->harmony ? "<|channel|>analysis<|message|>" : marks->reasoning.open;
    if (!open) return false;
    while (len > 0 && answer_is_blank(prompt[len - 1])) len--;
    const size_t n = strlen(open);
    return len >= n && memcmp(prompt + len - n, open, n) == 0;
}
