// How the values of a schema in a structure are written.
#ifndef RN_CONSTRAINT_STRUCTURE_STYLE_H
#define RN_CONSTRAINT_STRUCTURE_STYLE_H

#include "constraint/schema.h"

struct style;
// The form that a format asks for with `style`; NULL: JSON. `known` is the list of a structure's
// styles, which grows. False: an error.
bool style_read(struct schema *s, struct style **known, const struct json *format,
                struct form **out);

#endif
