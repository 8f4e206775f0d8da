// Which tools an answer may or must call: `tool_choice`, `parallel_tool_calls` and the tools'
// `strict`, in the forms of the three APIs that have tools. Workers only.
#ifndef RN_SERVER_TOOL_CHOICE_H
#define RN_SERVER_TOOL_CHOICE_H

#include "params.h"

enum tool_mode {
    TOOLS_AUTO,     // text, calls or both
    TOOLS_NONE,     // the model does not see the tools
    TOOLS_REQUIRED, // calls alone, at least one
};

struct tool_rule {
    bool allowed; // it may be called
    bool strict;  // its arguments must have its schema
    bool loose;   // "strict": false: any object will do
};

// A struct of zeros is "auto" without tools.
struct tool_choice {
    enum tool_mode mode;
    bool parallel;          // several calls may come
    bool is_narrow;         // not all tools are allowed
    struct tool_rule *rule; // [n], in the order of the body's `tools`
    size_t n;
};

void tool_choice_deinit(struct tool_choice *choice);
// False: refused, and there is nothing to free. Tools themselves are checked by their readers.
bool tool_choice_read(struct call *call, const json_t *body, enum family family,
                      struct tool_choice *out);
// Whether the answer's calls need a shape.
bool tool_choice_shapes(const struct tool_choice *choice);
// Whether it asks for more than that there is one call at most.
bool tool_choice_is_binding(const struct tool_choice *choice);

#endif
