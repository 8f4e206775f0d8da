// Takes the text of an answer apart: content, reasoning, tool calls. A streaming parser: it lets
// out text whose part is certain and holds back text that may become markup (answer_marks.h). A
// request without tools never sees tool calls.
//
// A call is let out when it is complete: its name, then its arguments, one JSON object. Text that
// turns out to be no call is content, as it was written. However a text is cut into pieces, the
// parts joined are the same. White space around reasoning and calls is dropped.
#ifndef RN_SERVER_ANSWER_PARTS_H
#define RN_SERVER_ANSWER_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "answer_marks.h"
#include "jbuf.h"

enum answer_part {
    PART_CONTENT,
    PART_REASONING,
    PART_TOOL,           // a tool call starts: text is its name
    PART_TOOL_ARGUMENTS, // more of its arguments, JSON text
};

// text is borrowed for the call; tool numbers the tool calls of the choice from 0.
typedef void (*parts_fn)(void *ctx, enum answer_part part, int tool, const char *text, size_t len);

// How far the search for the end of a call has come, so that no byte is looked at twice.
struct parts_scan {
    size_t at;    // of the call's text, looked at so far
    size_t begin; // of its JSON or its Python, once in_json
    int depth;    // of brackets
    bool in_json, in_string, escaped;
    char quote; // of a string of Python's; with is_triple three of them
    bool is_triple;
    int tries; // ends that were none
};

struct answer_parts {
    struct answer_marks marks;
    bool tools;          // the request brought tools
    const json_t *types; // of their parameters (answer_types.h); NULL: not known
    int n_tools;         // calls so far
    int state;
    bool is_blank;   // the reasoning was white space so far
    bool is_wrapped; // the content's closing mark is dropped (wrap_marks)
    bool is_open;    // more calls may come without a mark (tool_marks.lines)
    size_t mark_len; // bytes at the start of held, before the call's text
    int channel;     // of the message that is read (harmony)
    struct parts_scan scan;
    struct jbuf held;
    struct jbuf scratch, strings; // of calls that are read
};

// types: of the tools' parameters; borrowed, NULL: not known. in_reasoning: the prompt ended inside
// of the reasoning (answer_marks_opened).
void parts_init(struct answer_parts *parts, struct answer_marks marks, bool tools,
                const json_t *types, bool in_reasoning);
void parts_deinit(struct answer_parts *parts);
// final: no more text comes, held text is let out.
void parts_feed(struct answer_parts *parts, const char *text, size_t len, bool final, parts_fn fn,
                void *ctx);

#endif
