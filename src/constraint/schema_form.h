// The ways to write the values of a schema: JSON, and those in which models write the arguments of
// a call. A form says how strings, names and words are written, and which form the values inside of
// an object have.
#ifndef RN_CONSTRAINT_SCHEMA_FORM_H
#define RN_CONSTRAINT_SCHEMA_FORM_H

#include "constraint/front.h"
#include "constraint/json.h"

enum form_kind {
    FORM_JSON,
    FORM_PYTHON,    // True, "...", '...', {"name": value}
    FORM_PAIRS,     // {name:value}, strings between marks, without escapes
    FORM_ARGUMENTS, // an object: name=value, name=value; values are Python's
    FORM_TAGS,      // an object: members between tags; values are FORM_RAW
    FORM_RAW,       // a string without quotes, or JSON; with the text around it
};

struct form_text {
    const char *text;
    size_t len;
};

struct form {
    enum form_kind kind;
    struct form *inner; // of values inside; NULL: this one
    struct form_text key_open;
    struct form_text key_close, text_close; // that no name may contain
    // around a string: of FORM_RAW and FORM_PAIRS
    const struct node *open, *after;
    struct form_text until;  // the string's end, before `after`
    struct form_text forbid; // not in a string
    bool trims;              // a reader drops a line feed at either end of a string
    const struct node *other_open, *other_close; // around values that are no strings: FORM_RAW
    bool guards; // JSON between tags: "</" in a string is written "<\/", since readers look for a
                 // tag

    // made once
    bool is_ready;
    const struct node *space, *text; // between tokens; a string as far as it is free
    uint32_t string, value, object, array;
};

struct schema;
// The rules for any value, once.
bool form_ready(struct schema *s, struct form *form);
static inline struct form *form_inner(struct form *form) {
    return form->inner ? form->inner : form;
}

// A string that is a text of a grammar in Lark. Where strings have no quotes, it has no '<', which
// starts the text behind it.
const struct node *form_grammar(struct schema *s, struct form *form, const char *text, size_t len);
regex_class_fn form_class(const struct form *form); // the characters of strings and names
const struct node *form_word(struct schema *s, const struct form *form, const char *word);
// One JSON value.
const struct node *form_literal(struct schema *s, struct form *form, const struct json *value);

// --- strings; content is in the alphabet of the form ---
const struct node *form_string(struct schema *s, struct form *form, const struct node *content);
const struct node *form_counted(struct schema *s, struct form *form, int64_t min, int64_t max);
// A value that is no string, with the text around it.
const struct node *form_other(struct schema *s, const struct form *form, const struct node *value);

// --- names of members ---
// The characters of a name, as they stand between the quotes; NULL: an error or a name that the
// form cannot write.
const struct node *form_name(struct schema *s, const struct form *form, const char *name,
                             size_t len);
const struct node *form_any_name(struct schema *s, const struct form *form);
// The text before the value, from the characters of its name.
const struct node *form_key(struct schema *s, const struct form *form, const struct node *name);
// Around all members, and between them.
const struct node *form_object_text(struct schema *s, const struct form *form, char which);

#endif
