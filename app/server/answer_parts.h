// Takes the text of an answer apart: content, reasoning, tool calls. A streaming parser: it lets
// out text whose part is certain and holds back text that may become markup (answer_marks.h). A
// request without tools never sees tool calls.
//
// A call is let out as it is written: its name, its arguments in pieces, its end (answer_call.h).
// Text that turns out to be no part of a call is content, as it was written. A call that was let
// out in part has no end then, and its arguments are the start of a JSON object. However a text is
// cut into pieces, the parts joined are the same. White space around reasoning and calls is
// dropped. Text behind a call in the reasoning is reasoning still, up to its closing mark.
#ifndef RN_SERVER_ANSWER_PARTS_H
#define RN_SERVER_ANSWER_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "answer_call.h"
#include "answer_marks.h"
#include "jbuf.h"

enum answer_part {
    PART_CONTENT,
    PART_REASONING,
    PART_TOOL,           // a tool call starts: text is its name
    PART_TOOL_ARGUMENTS, // more of its arguments, JSON text
    PART_TOOL_END,       // they are whole: one JSON object; no text
};

// text is borrowed for the call; tool numbers the tool calls of the choice from 0.
typedef void (*parts_fn)(void *ctx, enum answer_part part, int tool, const char *text, size_t len);

struct answer_parts {
    struct answer_marks marks;
    bool tools;          // the request brought tools
    const json_t *types; // of their parameters (answer_types.h); NULL: not known
    int n_tools;         // calls so far
    int state;
    bool is_blank;   // all was white space so far, which is dropped
    bool is_wrapped; // the content's closing mark is dropped (wrap_marks)
    bool is_open;    // more calls may come without a mark (tool_marks.lines)
    bool thinks;     // the last call came before the reasoning was closed
    int channel;     // of the message that is read (harmony)
    size_t scan;     // bytes of a call's message that were searched for its end (harmony)
    struct parts_call call;
    struct jbuf held;
};

// types: of the tools' parameters; borrowed, NULL: not known. in_reasoning: the prompt ended inside
// of the reasoning (answer_marks_opened).
void parts_init(struct answer_parts *parts, struct answer_marks marks, bool tools,
                const json_t *types, bool in_reasoning);
void parts_deinit(struct answer_parts *parts);
// final: no more text comes, held text is let out.
void parts_feed(struct answer_parts *parts, const char *text, size_t len, bool final, parts_fn fn,
                void *ctx);

// Whether a token that let nothing out may belong to the content, or to a call. has_text: it is not
// the start of a character, and not the answer's end.
bool parts_in_content(const struct answer_parts *parts, bool has_text);
bool parts_in_call(const struct answer_parts *parts);

#endif
