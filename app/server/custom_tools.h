// Custom tools of OpenAI's APIs, whose input is a text and no JSON. The model sees a function with
// one string, `input`, and calls it in its own format; a regular expression becomes that string's
// pattern, and a grammar its keyword "x-lark". On the way out the arguments become the text again,
// piece by piece.
#ifndef RN_SERVER_CUSTOM_TOOLS_H
#define RN_SERVER_CUSTOM_TOOLS_H

#include "answer_json.h"
#include "fields.h"

// The function that stands for a tool, as OpenAI's chat has it, from the object that has the tool's
// name, description and format. NULL: refused.
json_t *custom_tool_function(const struct fields *tool, size_t name_max);
// The definition of a tool's grammar, from the tool as a request has it. NULL: none.
const char *custom_tool_definition(const json_t *tool, size_t *len, bool *is_lark);
// The arguments that stand for an input. NULL: out of memory.
json_t *custom_tool_arguments(const char *input, size_t len);
// Remembers the tool's name in *names, an object; NULL: none yet. False: out of memory.
bool custom_tool_note(json_t **names, const json_t *function);
// names may be NULL.
bool custom_tool_is(const json_t *names, const char *name, size_t len);

// The input within arguments that come in pieces. Zeros: nothing was read.
struct custom_input {
    struct json_walk walk;
    char key[8];
    size_t key_len;  // more than fits: it is another
    bool is_found;   // `input` has begun
    bool is_reading; // and has not ended
    struct jbuf raw; // the arguments while it is not found
};

void custom_input_deinit(struct custom_input *input);
// More of the arguments; adds the text to *out. is_end: they are whole. Arguments that have no
// string `input` are the text themselves.
void custom_input_read(struct custom_input *input, const char *json, size_t len, bool is_end,
                       struct jbuf *out);

#endif
