// A render's memory, limits and output. Everything a template can make large goes through
// jinja_alloc or jinja_write, which charge for it; the rest charges itself with jinja_work.
#include "jinja/render.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "jinja/parser.h"
#include "unicode/unicode.h"

void jinja_fail(struct render *r, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    r->status = jinja_error(r->tmpl, r->at, r->err, fmt, args);
    va_end(args);
    longjmp(r->failed, 1);
}

void jinja_fail_with(struct render *r, rn_status status, const char *text, size_t len) {
    char quoted[sizeof((rn_error *)0)->message];
    unicode_quote(text, len, quoted, sizeof quoted);
    r->status = err_set(r->err, status, "%s", quoted);
    longjmp(r->failed, 1);
}

void jinja_fail_undefined(struct render *r, struct value v) {
    const int len = v.s->len > 120 ? 120 : (int)v.s->len;
    const char *text = v.s->data, *owner = jinja_type_text(v.owner);
    if (v.flag == UNDEFINED_NAME) jinja_fail(r, "'%.*s' is undefined", len, text);
    if (v.flag == UNDEFINED_ATTRIBUTE) {
        jinja_fail(r, "'%s' object has no attribute '%.*s'", owner, len, text);
    }
    if (v.flag == UNDEFINED_UNSAFE) {
        jinja_fail(r, "access to attribute '%.*s' of '%s' object is unsafe", len, text, owner);
    }
    jinja_fail(r, "%.*s", len, text);
}

void jinja_charge(struct render *r, uint64_t steps) {
    r->steps += steps;
    if (r->steps <= r->limits.steps) return;
    jinja_fail(r, "the template takes more than %llu steps", (unsigned long long)r->limits.steps);
}

void jinja_work(struct render *r, size_t bytes) {
    const size_t crumbs = r->crumbs + bytes % JINJA_STEP_BYTES;
    r->crumbs = crumbs % JINJA_STEP_BYTES;
    jinja_charge(r, bytes / JINJA_STEP_BYTES + crumbs / JINJA_STEP_BYTES);
}

void jinja_work_chars(struct render *r, size_t bytes) { jinja_work(r, 8 * bytes); }

static _Noreturn void fail_memory(struct render *r) {
    static const char text[] = "no memory for the template's values";
    jinja_fail_with(r, RN_ERR_NOMEM, text, sizeof text - 1);
}

static void memory_take(struct render *r, size_t bytes) {
    if (bytes > r->limits.memory - r->memory) {
        jinja_fail(r, "the values take more than %zu bytes", r->limits.memory);
    }
    r->memory += (bytes + 15) & ~(size_t)15;
    if (r->memory > r->limits.memory) r->memory = r->limits.memory;
}

void *jinja_alloc(struct render *r, size_t bytes) {
    memory_take(r, bytes);
    jinja_work(r, bytes);
    void *memory = arena_alloc(&r->arena, bytes);
    if (!memory) fail_memory(r);
    return memory;
}

void *jinja_array(struct render *r, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
    return jinja_alloc(r, bytes);
}

void *jinja_array_grow(struct render *r, const void *old, size_t n, size_t *cap, size_t size) {
    *cap = *cap ? *cap * 2 : 4;
    void *grown = jinja_array(r, *cap, size);
    if (n) memcpy(grown, old, n * size);
    return grown;
}

void jinja_frame_enter(struct render *r) {
    if (r->n_frames++ == JINJA_MAX_FRAMES) jinja_fail(r, "calls and blocks are nested too deep");
    jinja_charge(r, 1);
}

void jinja_frame_leave(struct render *r) { r->n_frames--; }

// ---------------------------------------------------------------- output

void jinja_write_check(struct render *r, uint64_t more) {
    if (more <= r->limits.output - r->out_len) return;
    jinja_fail(r, "the output is longer than %zu bytes", r->limits.output);
}

static void out_grow(struct render *r, size_t more) {
    jinja_write_check(r, more);
    if (r->out_cap - r->out_len > more) return; // one byte stays for a NUL
    size_t cap = r->out_cap ? r->out_cap * 2 : 4096;
    if (cap <= r->out_len + more) cap = r->out_len + more + 1;
    memory_take(r, 2 * (cap - r->out_cap)); // of the text and its marks
    char *out = realloc(r->out, cap);
    if (!out) fail_memory(r);
    r->out = out;
    uint8_t *marks = realloc(r->marks, cap);
    if (!marks) fail_memory(r);
    r->marks = marks;
    r->out_cap = cap;
}

// marks: of each byte, or NULL and then `mark` for all.
static void write_bytes(struct render *r, const char *data, size_t len, const uint8_t *marks,
                        uint8_t mark) {
    out_grow(r, len);
    jinja_work(r, len);
    if (len == 0) return;
    memcpy(r->out + r->out_len, data, len);
    if (marks) {
        memcpy(r->marks + r->out_len, marks, len);
    } else {
        memset(r->marks + r->out_len, mark, len);
    }
    r->out_len += len;
}

void jinja_write(struct render *r, const char *data, size_t len) {
    write_bytes(r, data, len, NULL, 0);
}

void jinja_write_text(struct render *r, const char *text) { jinja_write(r, text, strlen(text)); }

void jinja_write_as(struct render *r, const char *data, size_t len, uint8_t mark) {
    write_bytes(r, data, len, NULL, mark);
}

void jinja_write_str(struct render *r, const struct str *s, size_t from, size_t to) {
    write_bytes(r, s->data + from, to - from, s->marks ? s->marks + from : NULL, 0);
}

struct value jinja_take(struct render *r, size_t from) {
    const size_t len = r->out_len - from;
    const struct value v = jinja_str(r, r->out + from, len);
    bool is_marked = false;
    for (size_t i = 0; i < len && !is_marked; i++) is_marked = r->marks[from + i] != 0;
    if (is_marked) {
        uint8_t *marks = jinja_alloc(r, len);
        memcpy(marks, r->marks + from, len);
        v.s->marks = marks;
    }
    r->out_len = from;
    return v;
}
