// Chat templates: an interpreter for the Jinja that model files carry (README.md has the language).
// It has no I/O, no clock and no state between renders. Steps, depth, memory and output are
// bounded, so a hostile template is refused and never hangs. A template is parsed once and is then
// immutable, so any thread may render it.
#ifndef RN_JINJA_TEMPLATE_H
#define RN_JINJA_TEMPLATE_H

#include "base/status.h"

enum {
    TEMPLATE_MAX_SOURCE = 1 << 20,  // bytes of a template
    TEMPLATE_MAX_DEPTH = 64,        // of nested blocks, expressions, calls and values
    TEMPLATE_MAX_STEPS = 1 << 22,   // evaluated nodes; work on long text costs steps, too
    TEMPLATE_MAX_OUTPUT = 32 << 20, // bytes of text
    // Bytes of a render, its output included: some, and some more for each byte of JSON that is
    // read. The templates of models take up to 18 times a conversation of short messages.
    TEMPLATE_MEMORY = 32 << 20,
    TEMPLATE_MEMORY_PER_BYTE = 20,
    TEMPLATE_MAX_MEMORY = 128 << 20,
};

struct template;
struct render;
struct value;

// An error names line and column: "line 3, column 14: expected 'endif'".
rn_status template_create(const char *source, size_t len, struct template **out, rn_error *err);
void template_destroy(struct template *tmpl);

// The bounds of a render; template_begin takes the values above if it gets NULL.
struct template_limits {
    uint64_t steps;
    size_t output; // bytes
    size_t memory; // bytes of all values and of the output, with its marks
};

// One render: begin, read and set variables, run, end. The first error is kept, and every call
// after it fails. strftime_now formats `now`, seconds since 1970 in UTC. NULL: no memory.
struct render *template_begin(const struct template *tmpl, const struct template_limits *limits,
                              int64_t now, rn_error *err);
void template_end(struct render *r);

// JSON text to a value (value.h); the text outlives the render. Each byte of its strings carries
// the mark (0: none), and so does the text that the template makes of it. Strings printed inside a
// list or dictionary keep only the mark's low four bits, because they are not written verbatim.
// `what` names the text in errors, which are RN_ERR_ARG: "messages: offset 17: expected ':'".
rn_status template_read(struct render *r, const char *what, const char *json, size_t len,
                        uint8_t mark, struct value *out);
// A global variable; the name is copied.
rn_status template_set(struct render *r, const char *name, size_t len, struct value v);
// The same with text as its value, copied; ill-formed bytes become U+FFFD.
rn_status template_set_text(struct render *r, const char *name, const char *text, size_t len);
// Puts a copy of a string value in its place, with `more` behind it. Its bytes from `from` on carry
// the mark.
rn_status template_mark(struct render *r, struct value *text, size_t from, uint8_t mark,
                        const char *more);

// raise_exception gives RN_ERR_ARG with the template's message. A wrong template (an undefined
// call, wrong types, a limit passed) gives RN_ERR_MODEL with line and column. *text, ended by a
// NUL, and *marks (NULL: not wanted), the marks of its bytes, are the caller's to free.
rn_status template_run(struct render *r, char **text, uint8_t **marks, size_t *len);

#endif
