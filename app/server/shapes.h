// The shape that a request asks for: a JSON Schema, any JSON object, a regular expression, a
// grammar, a list of choices or a structural tag. Several APIs have fields for it; all become one
// source, which the library compiles (rn_shape_compile). Workers only.
#ifndef RN_SERVER_SHAPES_H
#define RN_SERVER_SHAPES_H

#include "params.h"

enum shape_kind { // of a source, in the order of rn_shape_kind behind the first
    SHAPE_NONE,
    SHAPE_SCHEMA,
    SHAPE_OBJECT,
    SHAPE_REGEX,
    SHAPE_GRAMMAR,
    SHAPE_CHOICES,
    SHAPE_STRUCTURE,
};

enum { SHAPE_FIELD_BYTES = 64 };

// A struct of zeros asks for nothing.
struct shape {
    enum shape_kind kind;
    struct jbuf text;              // the source
    char field[SHAPE_FIELD_BYTES]; // that holds the source: "response_format.json_schema.schema"
};

void shape_deinit(struct shape *shape);
// Reads the fields of the family. Two that ask for a shape are refused by their names. False:
// refused, and there is nothing to free.
bool shape_read(struct call *call, const json_t *body, enum family family, struct shape *out);
// The shape as a `format` of a structural tag. False: there is none; a structural tag of the older
// form has none.
bool shape_format_put(const struct shape *shape, struct jbuf *out);
// Any JSON value, compact, with the fewest digits that give a number back: 0.1 stays 0.1.
void shape_json_put(const json_t *value, struct jbuf *out);

#endif
