// A render's memory, limits and output. Everything a template can make large goes through
// jinja_alloc or jinja_write, which charge for it; the rest charges itself with jinja_work.
#include "jinja/render.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jinja/parser.h"
#include "unicode/unicode.h"

// The first error is the one that is kept: what follows is its consequence.
static void error_set(struct render *r, rn_status status, bool has_place, const char *message) {
    if (r->status != RN_OK) return;
    r->status = status;
    if (!has_place) {
        err_set(r->err, status, "%s", message);
        return;
    }
    size_t line, column;
    jinja_position(r->tmpl, r->at, &line, &column);
    err_set(r->err, status, "line %zu, column %zu: %s", line, column, message);
}

struct value jinja_fail(struct render *r, const char *fmt, ...) {
    char message[400], quoted[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    unicode_quote(message, strlen(message), quoted, sizeof quoted); // a value may be cut anywhere
    error_set(r, RN_ERR_MODEL, true, quoted);
    return value_error();
}

struct value jinja_limit(struct render *r, const char *fmt, ...) {
    char message[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    error_set(r, RN_ERR_MODEL, true, message);
    return value_error();
}

struct value jinja_raise(struct render *r, const char *message, size_t len) {
    char quoted[sizeof((rn_error *)0)->message];
    unicode_quote(message, len, quoted, sizeof quoted);
    error_set(r, RN_ERR_ARG, false, quoted);
    return value_error();
}

static const char *owner_name(struct value v) {
    struct seq q = {.flavor = v.owner_flavor};
    struct value owner = {.kind = v.owner};
    if (owner.kind == V_SEQ) owner.q = &q;
    return jinja_type_name(owner);
}

struct value jinja_fail_undefined(struct render *r, struct value v) {
    const int len = v.s->len > 120 ? 120 : (int)v.s->len;
    switch (v.flag) {
    case UNDEFINED_NAME:
        return jinja_fail(r, "'%.*s' is undefined", len, v.s->data);
    case UNDEFINED_ATTRIBUTE:
        return jinja_fail(r, "'%s' object has no attribute '%.*s'", owner_name(v), len, v.s->data);
    case UNDEFINED_UNSAFE:
        return jinja_fail(r, "access to attribute '%.*s' of '%s' object is unsafe", len, v.s->data,
                          owner_name(v));
    default:
        return jinja_fail(r, "%.*s", len, v.s->data);
    }
}

bool jinja_charge(struct render *r, uint64_t steps) {
    r->steps += steps;
    if (r->steps <= r->limits.steps) return true;
    jinja_limit(r, "the template takes more than %llu steps", (unsigned long long)r->limits.steps);
    return false;
}

bool jinja_work(struct render *r, size_t bytes) {
    const size_t crumbs = r->crumbs + bytes % JINJA_STEP_BYTES;
    r->crumbs = crumbs % JINJA_STEP_BYTES;
    return jinja_charge(r, bytes / JINJA_STEP_BYTES + crumbs / JINJA_STEP_BYTES);
}

bool jinja_work_chars(struct render *r, size_t bytes) {
    return jinja_work(r, bytes > SIZE_MAX / 8 ? SIZE_MAX : bytes * 8);
}

void *jinja_alloc(struct render *r, size_t bytes) {
    if (bytes > r->limits.memory - r->memory) {
        jinja_limit(r, "the values take more than %zu bytes", r->limits.memory);
        return NULL;
    }
    if (!jinja_work(r, bytes)) return NULL;
    r->memory += (bytes + 15) & ~(size_t)15;
    if (r->memory > r->limits.memory) r->memory = r->limits.memory;
    void *memory = arena_alloc(&r->arena, bytes);
    if (!memory) error_set(r, RN_ERR_NOMEM, false, "no memory for the template's values");
    return memory;
}

void *jinja_array(struct render *r, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
    return jinja_alloc(r, bytes);
}

bool jinja_write_fits(struct render *r, uint64_t more) {
    if (more <= r->limits.output - r->out_len) return true;
    jinja_limit(r, "the output is longer than %zu bytes", r->limits.output);
    return false;
}

static bool out_grow(struct render *r, size_t more) {
    if (!jinja_write_fits(r, more)) return false;
    if (r->out_cap - r->out_len > more) return true; // one byte stays for a NUL
    size_t cap = r->out_cap ? r->out_cap * 2 : 4096;
    if (cap <= r->out_len + more) cap = r->out_len + more + 1;
    char *out = realloc(r->out, cap);
    if (!out) {
        error_set(r, RN_ERR_NOMEM, false, "no memory for the template's output");
        return false;
    }
    r->out = out;
    r->out_cap = cap;
    return true;
}

bool jinja_write(struct render *r, const char *data, size_t len) {
    if (!out_grow(r, len) || !jinja_work(r, len)) return false;
    if (len) memcpy(r->out + r->out_len, data, len);
    r->out_len += len;
    return true;
}

bool jinja_write_text(struct render *r, const char *text) {
    return jinja_write(r, text, strlen(text));
}

bool jinja_write_char(struct render *r, uint32_t cp) {
    uint8_t bytes[4];
    return jinja_write(r, (const char *)bytes, unicode_encode(cp, bytes));
}

struct value jinja_take(struct render *r, size_t mark) {
    const struct value v = jinja_str(r, r->out + mark, r->out_len - mark);
    r->out_len = mark;
    return v;
}

bool jinja_frame_enter(struct render *r) {
    if (r->n_frames == JINJA_MAX_FRAMES) {
        jinja_limit(r, "calls and blocks are nested too deep");
        return false;
    }
    r->n_frames++;
    return jinja_charge(r, 1);
}

void jinja_frame_leave(struct render *r) { r->n_frames--; }
