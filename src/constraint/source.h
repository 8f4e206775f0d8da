// What the readers of grammars share: errors with the line and column of their place, and a table
// of names.
#ifndef RN_CONSTRAINT_SOURCE_H
#define RN_CONSTRAINT_SOURCE_H

#include "constraint/grammar.h"

struct source {
    struct grammar *g;
    const uint8_t *text;
    size_t len;
};

// "line 2, column 5: " before the message. Returns false.
bool source_fail(const struct source *source, size_t at, const char *fmt, ...) RN_PRINTF(3, 4);
// The same place for the messages of another reader.
enum { SOURCE_PLACE_BYTES = 64 };
void source_place(const struct source *source, size_t at, char out[SOURCE_PLACE_BYTES]);

// The character at a place, and its bytes; 0: an error, since none is there.
size_t source_char(const struct source *source, size_t at, uint32_t *out);

struct name {
    const char *text; // of the source
    size_t len;
};

struct names {
    struct name *at; // [n] in the order of their first use
    uint32_t n, capacity;
    uint32_t *slot, n_slot; // by hash: index + 1
};

// The index of a name, which is added where it is new; UINT32_MAX: an error of the grammar.
uint32_t names_index(struct grammar *g, struct names *names, const char *text, size_t len);

#endif
