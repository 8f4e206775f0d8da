// From the text of an answer to what it is made of: content, reasoning, tool calls. A streaming
// parser: what it lets out is certain, what may yet become markup is held back. The format is found
// once, from the model's template; a request without tools never sees tool calls.
//
// A call is let out when it is complete: its name, then its arguments, one JSON object. What turns
// out to be none is content, as it was written. However a text is cut into pieces, the parts joined
// are the same. White space around reasoning and calls is dropped.
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
// Whether the engine is to show special tokens: marks are such tokens in many models, and one that
// is not shown is never found. Other special tokens that a model writes are content then; those
// that end an answer are never shown. tools: the request brought some.
bool split_needs_special(const struct split_format *format, bool tools);

// How far the search for the end of a call has come, so that no byte is looked at twice.
struct split_scan {
    size_t at;    // of the call's text, looked at so far
    size_t begin; // of its JSON, once in_json
    int depth;    // of brackets
    bool in_json, in_string, escaped;
    int tries; // ends that were none
};

struct split {
    const struct split_format *format;
    bool tools;  // the request brought tools
    int n_tools; // calls so far
    int state;
    bool is_blank;   // of the reasoning only white space came so far
    size_t mark_len; // held begins with so many bytes before the call's text
    int channel;     // of the message that is read (harmony)
    struct split_scan scan;
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
