// Rendering with limits of the caller's choice; for tests and fuzzing. template_render has the
// public ones.
#ifndef RN_JINJA_LIMITS_H
#define RN_JINJA_LIMITS_H

#include "jinja/render.h"
#include "jinja/template.h"

rn_status jinja_render(const struct template *tmpl, const char *globals, size_t globals_len,
                       int64_t now, const struct jinja_limits *limits, char **text, size_t *len,
                       rn_error *err);

#endif
