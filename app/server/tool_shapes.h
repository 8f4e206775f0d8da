// The shape of tool calls: a structural tag that allows calls as the model's template writes them,
// and nothing that answer_parts.c would not read back as calls. Made from the request's tools and
// its tool_choice. Workers only.
#ifndef RN_SERVER_TOOL_SHAPES_H
#define RN_SERVER_TOOL_SHAPES_H

#include "answer_marks.h"
#include "shapes.h"
#include "tool_choice.h"

struct tool_shape {
    const struct answer_marks *marks;
    const char *tmpl;    // the template's source
    const json_t *tools; // as OpenAI has them, in the order of the rules
    const struct tool_choice *choice;
    const struct shape
        *content; // of an answer that calls no tool; its kind is SHAPE_NONE: any text
};

// Whether the form of the template's calls is known.
bool tool_shape_known(const struct answer_marks *marks, const char *tmpl);
// False: the type in the schema of the tool's arguments excludes objects.
bool tool_takes_object(const json_t *tool);
// The source. False: a name cannot be written in this form: *index is the tool's.
bool tool_shape_put(const struct tool_shape *shape, struct jbuf *out, size_t *index);
// The source of an answer that calls no tool, where marks stand around it. False: it needs none.
bool content_shape_put(const struct answer_marks *marks, const struct shape *content,
                       struct jbuf *out);
// From a pointer into the source to the tool that it is about, and to the place in its schema.
// False: it is about none.
bool tool_shape_place(const struct tool_choice *choice, const char *pointer, size_t *index,
                      const char **rest);

#endif
