// The public interface: sources become templates, templates and variables become text.
#include "jinja/template.h"

#include <stdlib.h>
#include <string.h>

#include "jinja/limits.h"
#include "jinja/parser.h"
#include "unicode/unicode.h"

// Copies the source with every line end as \n, without the one at its end.
static bool source_copy(struct template *tmpl, const char *source, size_t len) {
    tmpl->source = arena_alloc(&tmpl->arena, len + 1);
    if (!tmpl->source) return false;
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (source[i] == '\r' && i + 1 < len && source[i + 1] == '\n') continue;
        tmpl->source[n++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (n && tmpl->source[n - 1] == '\n') n--;
    tmpl->source[n] = 0;
    tmpl->len = n;
    return true;
}

rn_status template_create(const char *source, size_t len, struct template **out, rn_error *err) {
    *out = NULL;
    if (len > TEMPLATE_MAX_SOURCE) {
        return err_set(err, RN_ERR_MODEL, "the template has %zu bytes, more than %d", len,
                       TEMPLATE_MAX_SOURCE);
    }
    if (!unicode_is_valid(source, len)) {
        return err_set(err, RN_ERR_MODEL, "the template is not valid UTF-8");
    }
    struct template *tmpl = calloc(1, sizeof *tmpl);
    if (!tmpl || !source_copy(tmpl, source, len)) {
        template_destroy(tmpl);
        return err_set(err, RN_ERR_NOMEM, "no memory for a template of %zu bytes", len);
    }
    const rn_status status = jinja_parse(tmpl, err);
    if (status != RN_OK) {
        template_destroy(tmpl);
        return status;
    }
    *out = tmpl;
    return RN_OK;
}

void template_destroy(struct template *tmpl) {
    if (!tmpl) return;
    arena_deinit(&tmpl->arena);
    free(tmpl);
}

static bool render_run(struct render *r, const char *globals, size_t globals_len) {
    return jinja_write(r, "", 0) && jinja_read_globals(r, globals, globals_len) &&
           jinja_scope_push(r, NULL, r->tmpl->shadow) && jinja_exec(r, r->tmpl->body) != FLOW_ERROR;
}

rn_status jinja_render(const struct template *tmpl, const char *globals, size_t globals_len,
                       int64_t now, const struct jinja_limits *limits, char **text, size_t *len,
                       rn_error *err) {
    *text = NULL;
    *len = 0;
    struct render r = {.tmpl = tmpl, .limits = *limits, .now = now, .status = RN_OK, .err = err};
    const bool is_ok = render_run(&r, globals, globals_len);
    arena_deinit(&r.arena);
    if (!is_ok) {
        free(r.out);
        return r.status;
    }
    r.out[r.out_len] = 0;
    *text = r.out;
    *len = r.out_len;
    return RN_OK;
}

rn_status template_render(const struct template *tmpl, const char *globals, size_t globals_len,
                          int64_t now, char **text, size_t *len, rn_error *err) {
    const struct jinja_limits limits = {
        .steps = TEMPLATE_MAX_STEPS,
        .output = TEMPLATE_MAX_OUTPUT,
        .memory = (size_t)TEMPLATE_MAX_OUTPUT * 4,
    };
    return jinja_render(tmpl, globals, globals_len, now, &limits, text, len, err);
}
