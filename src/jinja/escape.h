// Text with &, <, >, ' and " as HTML entities.
#ifndef RN_JINJA_ESCAPE_H
#define RN_JINJA_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

struct render;

bool jinja_write_escaped(struct render *r, const char *data, size_t len);

#endif
