// From the text of an answer to what it is made of: content, reasoning, tool calls. A streaming
// parser: what it lets out is certain, what may yet become markup is held back. The format is found
// once, from the model's template; a request without tools never sees tool calls.
#ifndef RN_SERVER_SPLIT_H
#define RN_SERVER_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "jbuf.h"

enum part {
    PART_CONTENT,
    PART_REASONING,
    PART_TOOL,           // a tool call begins: text is its name
    PART_TOOL_ARGUMENTS, // more of its arguments, JSON text
};

// text is borrowed for the call; tool counts tool calls of the choice from 0.
typedef void (*split_fn)(void *ctx, enum part part, int tool, const char *text, size_t len);

struct split_format; // how a model writes these

// Never NULL: a template without known markup gives content alone. tmpl NULL: the same.
const struct split_format *split_format_of(const char *tmpl);
// Whether the marks are special tokens, which the engine shows only when asked for.
bool split_needs_special(const struct split_format *format);

struct split {
    const struct split_format *format;
    bool tools;  // the request brought tools
    int n_tools; // calls so far
    int state;
    struct jbuf held;
    struct jbuf scratch;
};

// in_reasoning: the prompt ended inside of the reasoning, as templates that open it do.
void split_init(struct split *split, const struct split_format *format, bool tools,
                bool in_reasoning);
bool split_prompt_opens_reasoning(const struct split_format *format, const char *prompt,
                                  size_t len);
void split_deinit(struct split *split);
// final: no more text comes, what is held back is let out.
void split_feed(struct split *split, const char *text, size_t len, bool final, split_fn fn,
                void *ctx);

#endif
