// How the readers of JSON vocabularies reach into a file: members of an object by name, strings as
// spans. Nothing is built: a member is the reader's state where its value begins, so that it can be
// read later, and more than once. Internal to vocab_json.c, vocab_pipeline.c and vocab_config.c.
#ifndef RN_TEXT_VOCAB_FIELDS_H
#define RN_TEXT_VOCAB_FIELDS_H

#include "base/jread.h"
#include "text/vocab.h"

#define VOCAB_MARKER "\xe2\x96\x81" // U+2581, for a space

enum { VOCAB_MAX_TOKENS = 1 << 19 }; // and merges

struct vocab_file {
    const char *name; // for messages
    struct arena *arena;
    rn_error *err;
};

struct vocab_field {
    const char *key;
    bool is_found; // and not null
    struct jread at;
};

// Finds the fields that the object has, moving behind it; a key that comes twice is an error. When
// `within` is set, the object that it names is searched for its own fields on the way.
struct vocab_within {
    const char *key;
    struct vocab_field *field;
    int count;
};
bool vocab_fields_walk(struct jread *r, struct vocab_field *field, int count,
                       const struct vocab_within *within);
// The same for the object at `at`.
rn_status vocab_fields_read(const struct vocab_file *file, struct jread at,
                            struct vocab_field *field, int count);
// Values of fields; *out keeps its value where the field is not found.
rn_status vocab_field_bool(const struct vocab_file *file, const struct vocab_field *field,
                           bool *out);
rn_status vocab_field_span(const struct vocab_file *file, const struct vocab_field *field,
                           struct text_span *out);

// The string that comes next: borrowed from the text, or resolved into the arena where it has
// escapes.
rn_status vocab_span_read(const struct vocab_file *file, struct jread *r, struct text_span *out);
bool vocab_span_equals(struct text_span span, const char *literal);
bool vocab_span_has_marker(struct text_span span);
// Copies the text with spaces where it has markers: decoding leaves added tokens as they are.
rn_status vocab_span_unmark(const struct vocab_file *file, struct text_span *span);
int vocab_span_shown(struct text_span span); // its length in a message

// The flags of an added token, in either of the two files that have them.
rn_status vocab_added_read(const struct vocab_file *file, struct jread at, struct vocab_added *out);
// "NAME: offset 17: "content" is missing"
rn_status vocab_missing(const struct vocab_file *file, const struct jread *object, const char *key);
rn_status vocab_no_memory(const struct vocab_file *file);

#endif
