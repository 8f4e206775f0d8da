// Chat templates: an interpreter for the Jinja that model files carry. It has no I/O, no clock and
// no state between renders, and is bounded in steps, depth and output, so a hostile template is
// refused and never hangs. A template is parsed once; immutable then, so any thread may render.
#ifndef RN_JINJA_TEMPLATE_H
#define RN_JINJA_TEMPLATE_H

#include "base/status.h"

enum {
    TEMPLATE_MAX_SOURCE = 1 << 20,  // bytes of a template
    TEMPLATE_MAX_DEPTH = 64,        // of nested blocks, expressions, calls and values
    TEMPLATE_MAX_STEPS = 1 << 22,   // evaluated nodes of a render; work on long text counts, too
    TEMPLATE_MAX_OUTPUT = 64 << 20, // bytes that a render writes; all its values take at most 4
                                    // times as many
};

struct template;

// The language is that of Jinja 3.1 as transformers sets it up: trim_blocks, lstrip_blocks, loop
// controls, the immutable sandbox, its own tojson, {% generation %} as plain text. Not there:
// include, import, extends, block, autoescape; the filters filesizeformat, pprint, random, urlize,
// wordwrap, xmlattr; the methods encode, expandtabs, format_map, isidentifier, maketrans and
// translate of strings; characters by name in strings. Integers have 64 bits: larger ones of the
// variables can be printed and compared, and arithmetic that overflows is an error.

// An error names line and column: "line 3, column 14: expected 'endif'".
rn_status template_create(const char *source, size_t len, struct template **out, rn_error *err);
void template_destroy(struct template *tmpl);

// Renders with the global variables of `globals`, the JSON text of one object (NULL: none):
// messages, tools, documents, add_generation_prompt, bos_token, eos_token and whatever else the
// caller gives. Order of keys is kept. strftime_now formats `now`, seconds since 1970 in UTC.
// raise_exception gives RN_ERR_ARG with the template's message; an error of the template (undefined
// call, wrong types, a limit passed) RN_ERR_MODEL with line and column. *text is the caller's to
// free, NUL-terminated.
rn_status template_render(const struct template *tmpl, const char *globals, size_t globals_len,
                          int64_t now, char **text, size_t *len, rn_error *err);

#endif
