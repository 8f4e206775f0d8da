// The table of formats, and how one is found from a template. A model's markup is in its template,
// which has to write earlier calls and to drop earlier reasoning.
#include "split_format.h"

#include <string.h>

static const struct tag_style tags_function = {.name_open = "<function=",
                                               .name_close = ">",
                                               .key_open = "<parameter=",
                                               .key_close = ">",
                                               .value_open = "",
                                               .value_close = "</parameter>",
                                               .end = "</function>"};
static const struct tag_style tags_arg = {.name_open = "",
                                          .key_open = "<arg_key>",
                                          .key_close = "</arg_key>",
                                          .value_open = "<arg_value>",
                                          .value_close = "</arg_value>",
                                          .end = "</tool_call>"};
static const struct tag_style tags_invoke = {.name_open = "<invoke name=\"",
                                             .name_close = "\">",
                                             .key_open = "<parameter name=\"",
                                             .key_close = "\">",
                                             .value_open = "",
                                             .value_close = "</parameter>",
                                             .end = "</invoke>"};

enum { TOOLS_NONE, TOOLS_HARMONY }; // the first rows
static const struct {
    const char *sign; // in the template; the first row that has its sign counts
    struct tool_style style;
} tools[] = {
    [TOOLS_NONE] = {.sign = NULL},
    [TOOLS_HARMONY] = {.sign = "<|channel|>"},
    // GLM 4.5
    {"<arg_key>", {.open = {"<tool_call>"}, .close = {"</tool_call>"}, .tags = &tags_arg}},
    // Qwen3-Coder, which forgets the outer mark at times
    {"<function=",
     {.open = {"<tool_call>", "<function="}, .close = {"</tool_call>"}, .tags = &tags_function}},
    // Hermes, Qwen 2.5 and 3, and many others
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
    // Llama 3
    {"<|python_tag|>", {.open = {"<|python_tag|>"}, .bare = true}},
    {"\"parameters\": dictionary of argument", {.open = {"<|python_tag|>"}, .bare = true}},
};
enum { TOOLS_COUNT = sizeof tools / sizeof *tools };

static const struct reasoning_style reasonings[] = {
    {NULL, NULL},
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"\u25C1think\u25B7", "\u25C1/think\u25B7"},
};
enum { REASONING_COUNT = sizeof reasonings / sizeof *reasonings };

#define FORMAT(r, t)                                                                               \
    { &reasonings[r], &tools[t].style, (t) == TOOLS_HARMONY }
#define FORMATS(t)                                                                                 \
    { FORMAT(0, t), FORMAT(1, t), FORMAT(2, t), FORMAT(3, t), FORMAT(4, t) }
_Static_assert(REASONING_COUNT == 5 && TOOLS_COUNT == 12, "a row for each");
static const struct split_format formats[TOOLS_COUNT][REASONING_COUNT] = {
    FORMATS(0), FORMATS(1), FORMATS(2), FORMATS(3), FORMATS(4),  FORMATS(5),
    FORMATS(6), FORMATS(7), FORMATS(8), FORMATS(9), FORMATS(10), FORMATS(11),
};

const struct split_format *split_format_of(const char *tmpl) {
    int tool = TOOLS_NONE, reasoning = 0;
    if (!tmpl) return &formats[TOOLS_NONE][0];
    for (int i = 1; i < TOOLS_COUNT && tool == TOOLS_NONE; i++)
        if (strstr(tmpl, tools[i].sign)) tool = i;
    if (tool == TOOLS_HARMONY) return &formats[TOOLS_HARMONY][0];
    for (int i = 1; i < REASONING_COUNT && reasoning == 0; i++)
        if (strstr(tmpl, reasonings[i].open) || strstr(tmpl, reasonings[i].close)) reasoning = i;
    return &formats[tool][reasoning];
}

bool split_needs_special(const struct split_format *format, bool tools_given) {
    return format->harmony || format->reasoning->open ||
           (tools_given && format->tools->open[0] != NULL);
}
