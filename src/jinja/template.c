// The public interface: sources become templates, templates and variables become text.
#include "jinja/template.h"

#include <stdlib.h>
#include <string.h>

#include "jinja/parser.h"
#include "jinja/render.h"
#include "unicode/unicode.h"

// Copies the source with every line end as \n, without a line end at its end.
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

// ---------------------------------------------------------------- renders

struct render *template_begin(const struct template *tmpl, const struct template_limits *limits,
                              int64_t now, rn_error *err) {
    static const struct template_limits usual = {.steps = TEMPLATE_MAX_STEPS,
                                                 .output = TEMPLATE_MAX_OUTPUT,
                                                 .memory = TEMPLATE_MEMORY};
    struct render *r = calloc(1, sizeof *r);
    if (!r) {
        err_set(err, RN_ERR_NOMEM, "no memory for a render");
        return NULL;
    }
    r->tmpl = tmpl;
    r->limits = limits ? *limits : usual;
    r->memory_max = limits ? limits->memory : TEMPLATE_MAX_MEMORY;
    r->now = now;
    r->status = RN_OK;
    r->err = err;
    return r;
}

void template_end(struct render *r) {
    if (!r) return;
    arena_deinit(&r->arena);
    free(r->out);
    free(r->marks);
    free(r);
}

// Each function below that calls into the interpreter sets the place that failures jump to.

// Long input needs more memory, up to the most.
static void memory_allow(struct render *r, size_t len) {
    const size_t left = r->memory_max - r->limits.memory;
    r->limits.memory +=
        len < left / TEMPLATE_MEMORY_PER_BYTE ? len * TEMPLATE_MEMORY_PER_BYTE : left;
}

rn_status template_read(struct render *r, const char *what, const char *json, size_t len,
                        uint8_t mark, struct value *out) {
    *out = value_missing();
    if (r->status != RN_OK) return r->status;
    memory_allow(r, len);
    if (setjmp(r->failed) == 0) *out = jinja_read_json(r, what, json, len, mark);
    return r->status;
}

rn_status template_set(struct render *r, const char *name, size_t len, struct value v) {
    if (r->status != RN_OK) return r->status;
    if (setjmp(r->failed) == 0) jinja_dict_put(r, &r->globals, jinja_str(r, name, len), v);
    return r->status;
}

// Text with U+FFFD in place of its ill-formed bytes.
static struct value text_value(struct render *r, const char *text, size_t len) {
    const size_t mark = r->out_len;
    for (size_t i = 0, n = 1; i < len; i += n) {
        const bool is_well = unicode_scan((const uint8_t *)text + i, len - i, &n) == UNICODE_WELL;
        jinja_write(r, is_well ? text + i : "\xef\xbf\xbd", is_well ? n : 3);
    }
    return jinja_take(r, mark);
}

rn_status template_set_text(struct render *r, const char *name, const char *text, size_t len) {
    if (r->status != RN_OK) return r->status;
    if (setjmp(r->failed) != 0) return r->status;
    return template_set(r, name, strlen(name), text_value(r, text, len));
}

static struct value marked(struct render *r, const struct str *s, size_t from, uint8_t mark,
                           const char *more) {
    const struct str tail = {.data = more, .len = strlen(more)};
    const struct value v = jinja_concat(r, s, &tail);
    uint8_t *marks = jinja_alloc(r, v.s->len);
    if (v.s->marks) memcpy(marks, v.s->marks, from);
    memset(marks + from, mark, v.s->len - from);
    v.s->marks = marks;
    v.s->tail = NULL; // whose marks are the old ones
    return v;
}

rn_status template_mark(struct render *r, struct value *text, size_t from, uint8_t mark,
                        const char *more) {
    if (r->status != RN_OK) return r->status;
    if (setjmp(r->failed) == 0) *text = marked(r, text->s, from, mark, more);
    return r->status;
}

static void render_run(struct render *r) {
    jinja_write(r, "", 0); // so that there is output
    jinja_scope_push(r, NULL);
    jinja_exec(r, r->tmpl->body);
    r->out[r->out_len] = 0;
}

rn_status template_run(struct render *r, char **text, uint8_t **marks, size_t *len) {
    *text = NULL;
    if (marks) *marks = NULL;
    *len = 0;
    if (r->status != RN_OK) return r->status;
    if (setjmp(r->failed) != 0) return r->status;
    render_run(r);
    *text = r->out;
    *len = r->out_len;
    r->out = NULL;
    r->out_len = r->out_cap = 0;
    if (marks) {
        *marks = r->marks;
        r->marks = NULL;
    }
    return RN_OK;
}
