// A whole render for tests: the members of one JSON object as unmarked global variables, and text
// as the result.
#ifndef RN_TESTS_RENDER_TEXT_H
#define RN_TESTS_RENDER_TEXT_H

#include <string.h>

#include "jinja/template.h"
#include "jinja/value.h"

static inline rn_status render_globals(struct render *r, const char *json) {
    struct value v;
    rn_status status = template_read(r, "variables", json, strlen(json), 0, &v);
    for (size_t i = 0; status == RN_OK && i < v.d->n; i++) {
        const struct str *name = v.d->entries[i].key.s;
        status = template_set(r, name->data, name->len, v.d->entries[i].value);
    }
    return status;
}

// globals: NULL for none; limits: NULL for the usual ones. The caller frees *text.
static inline rn_status render_text(const struct template *tmpl,
                                    const struct template_limits *limits, const char *globals,
                                    int64_t now, char **text, size_t *len, rn_error *err) {
    *text = NULL;
    struct render *r = template_begin(tmpl, limits, now, err);
    if (!r) return RN_ERR_NOMEM;
    rn_status status = globals ? render_globals(r, globals) : RN_OK;
    if (status == RN_OK) status = template_run(r, text, NULL, len);
    template_end(r);
    return status;
}

#endif
