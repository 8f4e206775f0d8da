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

struct value jinja_raise(struct render *r, const char *message, size_t len) {
    char quoted[sizeof((rn_error *)0)->message];
    unicode_quote(message, len, quoted, sizeof quoted);
    error_set(r, RN_ERR_ARG, false, quoted);
    return value_error();
}

struct value jinja_fail_undefined(struct render *r, struct value v) {
    const int len = v.s->len > 120 ? 120 : (int)v.s->len;
    const char *text = v.s->data, *owner = jinja_type_text(v.owner);
    switch (v.flag) {
    case UNDEFINED_NAME:
        return jinja_fail(r, "'%.*s' is undefined", len, text);
    case UNDEFINED_ATTRIBUTE:
        return jinja_fail(r, "'%s' object has no attribute '%.*s'", owner, len, text);
    case UNDEFINED_UNSAFE:
        return jinja_fail(r, "access to attribute '%.*s' of '%s' object is unsafe", len, text,
                          owner);
    default:
        return jinja_fail(r, "%.*s", len, text);
    }
}

bool jinja_charge(struct render *r, uint64_t steps) {
    r->steps += steps;
    if (r->steps <= r->limits.steps) return true;
    jinja_fail(r, "the template takes more than %llu steps", (unsigned long long)r->limits.steps);
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
        jinja_fail(r, "the values take more than %zu bytes", r->limits.memory);
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

bool jinja_frame_enter(struct render *r) {
    if (r->n_frames == JINJA_MAX_FRAMES) {
        jinja_fail(r, "calls and blocks are nested too deep");
        return false;
    }
    r->n_frames++;
    return jinja_charge(r, 1);
}

void jinja_frame_leave(struct render *r) { r->n_frames--; }

// ---------------------------------------------------------------- output

bool jinja_write_fits(struct render *r, uint64_t more) {
    if (more <= r->limits.output - r->out_len) return true;
    jinja_fail(r, "the output is longer than %zu bytes", r->limits.output);
    return false;
}

static bool out_grow(struct render *r, size_t more) {
    if (!jinja_write_fits(r, more)) return false;
    if (r->out_cap - r->out_len > more) return true; // one byte stays for a NUL
    size_t cap = r->out_cap ? r->out_cap * 2 : 4096;
    if (cap <= r->out_len + more) cap = r->out_len + more + 1;
    char *out = realloc(r->out, cap);
    if (out) r->out = out;
    uint8_t *marks = out ? realloc(r->marks, cap) : NULL;
    if (!marks) {
        error_set(r, RN_ERR_NOMEM, false, "no memory for the template's output");
        return false;
    }
    r->marks = marks;
    r->out_cap = cap;
    return true;
}

// marks: of each byte, or NULL and then `mark` for all.
static bool write_bytes(struct render *r, const char *data, size_t len, const uint8_t *marks,
                        uint8_t mark) {
    if (!out_grow(r, len) || !jinja_work(r, len)) return false;
    if (len == 0) return true;
    memcpy(r->out + r->out_len, data, len);
    if (marks)
        memcpy(r->marks + r->out_len, marks, len);
    else
        memset(r->marks + r->out_len, mark, len);
    r->out_len += len;
    return true;
}

bool jinja_write(struct render *r, const char *data, size_t len) {
    return write_bytes(r, data, len, NULL, 0);
}

bool jinja_write_text(struct render *r, const char *text) {
    return jinja_write(r, text, strlen(text));
}

bool jinja_write_as(struct render *r, const char *data, size_t len, uint8_t mark) {
    return write_bytes(r, data, len, NULL, mark);
}

bool jinja_write_str(struct render *r, const struct str *s, size_t from, size_t to) {
    return write_bytes(r, s->data + from, to - from, s->marks ? s->marks + from : NULL, 0);
}

bool jinja_write_fill(struct render *r, char c, int64_t n) {
    if (n <= 0) return true;
    if (!jinja_write_fits(r, (uint64_t)n)) return false;
    for (; n > 0; n--) {
        if (!jinja_write(r, &c, 1)) return false;
    }
    return true;
}

struct value jinja_take(struct render *r, size_t from) {
    const size_t len = r->out_len - from;
    struct value v = jinja_str(r, r->out + from, len);
    bool is_marked = false;
    for (size_t i = 0; i < len && !is_marked; i++) is_marked = r->marks[from + i] != 0;
    if (is_marked && !is_error(v)) {
        uint8_t *marks = jinja_alloc(r, len);
        if (!marks) return value_error();
        memcpy(marks, r->marks + from, len);
        v.s->marks = marks;
    }
    r->out_len = from;
    return v;
}
