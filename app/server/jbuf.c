// Bytes and JSON, added at the end. Invariant: len <= capacity; once failed nothing is added.
#include "jbuf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"

void jbuf_deinit(struct jbuf *buf) {
    free(buf->data);
    *buf = (struct jbuf){.most = buf->most};
}

void jbuf_clear(struct jbuf *buf) {
    buf->len = 0;
    buf->failed = buf->full = false;
}

void jbuf_drop(struct jbuf *buf, size_t n) {
    if (n < buf->len) memmove(buf->data, buf->data + n, buf->len - n);
    buf->len -= n;
}

bool jbuf_reserve(struct jbuf *buf, size_t n) {
    if (buf->failed) return false;
    if (n <= buf->capacity - buf->len) return true;
    if (buf->most && n > buf->most - buf->len) {
        buf->failed = buf->full = true;
        return false;
    }
    size_t capacity = buf->capacity ? buf->capacity : 256;
    while (capacity - buf->len < n) {
        if (capacity > SIZE_MAX / 2) {
            buf->failed = true;
            return false;
        }
        capacity *= 2;
    }
    char *data = realloc(buf->data, capacity);
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

void jbuf_bytes(struct jbuf *buf, const char *data, size_t len) {
    if (!len || !jbuf_reserve(buf, len)) return;
    memcpy(buf->data + buf->len, data, len);
    buf->len += len;
}

void jbuf_text(struct jbuf *buf, const char *text) { jbuf_bytes(buf, text, strlen(text)); }

void jbuf_printf(struct jbuf *buf, const char *fmt, ...) {
    va_list args;
    char small[256];
    va_start(args, fmt);
    const int len = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    if (len < 0) {
        buf->failed = true;
        return;
    }
    if ((size_t)len < sizeof small) {
        jbuf_bytes(buf, small, (size_t)len);
        return;
    }
    if (!jbuf_reserve(buf, (size_t)len + 1)) return;
    va_start(args, fmt);
    vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, args);
    va_end(args);
    buf->len += (size_t)len;
}

// ---------------------------------------------------------------- JSON

// Bytes that a string must escape: quotes, backslashes, control characters. 127 may stay.
static bool is_plain(unsigned char c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

static void put_escaped(struct jbuf *buf, unsigned char c) {
    static const char shorts[0x20] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    if (c == '"' || c == '\\') {
        jbuf_bytes(buf, (char[]){'\\', (char)c}, 2);
    } else if (shorts[c]) {
        jbuf_bytes(buf, (char[]){'\\', shorts[c]}, 2);
    } else {
        static const char digits[] = "0123456789abcdef";
        jbuf_bytes(buf, (char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6);
    }
}

void jbuf_escape(struct jbuf *buf, const char *data, size_t len) {
    size_t at = 0;
    while (at < len) {
        size_t run = at;
        while (run < len && is_plain((unsigned char)data[run])) run++;
        jbuf_bytes(buf, data + at, run - at);
        at = run;
        if (at == len) break;
        const unsigned char c = (unsigned char)data[at];
        if (c < 0x80) {
            put_escaped(buf, c);
            at++;
            continue;
        }
        size_t n;
        const bool valid = unicode_decode((const uint8_t *)data + at, len - at, &n) >= 0;
        jbuf_bytes(buf, valid ? data + at : "\xEF\xBF\xBD", valid ? n : 3);
        at += n;
    }
}

void jbuf_string(struct jbuf *buf, const char *data, size_t len) {
    jbuf_reserve(buf, len + 2);
    jbuf_bytes(buf, "\"", 1);
    jbuf_escape(buf, data, len);
    jbuf_bytes(buf, "\"", 1);
}

void jbuf_cstring(struct jbuf *buf, const char *text) {
    if (text) {
        jbuf_string(buf, text, strlen(text));
    } else {
        jbuf_text(buf, "null");
    }
}

void jbuf_uint(struct jbuf *buf, uint64_t value) {
    char digits[20];
    int at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    jbuf_bytes(buf, digits + at, sizeof digits - (size_t)at);
}

void jbuf_int(struct jbuf *buf, int64_t value) {
    if (value < 0) jbuf_bytes(buf, "-", 1);
    jbuf_uint(buf, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void jbuf_real(struct jbuf *buf, double value, int digits) {
    if (isfinite(value)) {
        jbuf_printf(buf, "%.*f", digits, value);
    } else {
        jbuf_text(buf, "null");
    }
}

void jbuf_bool(struct jbuf *buf, bool value) { jbuf_text(buf, value ? "true" : "false"); }

static int put_dumped(const char *data, size_t len, void *buf) {
    jbuf_bytes(buf, data, len);
    return ((struct jbuf *)buf)->failed ? -1 : 0;
}

void jbuf_json(struct jbuf *buf, const json_t *value) {
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
    if (json_dump_callback(value, put_dumped, buf, flags)) buf->failed = true;
}

void jbuf_key(struct jbuf *buf, const char *key) {
    if (buf->len && buf->data[buf->len - 1] != '{') jbuf_bytes(buf, ",", 1);
    jbuf_bytes(buf, "\"", 1);
    jbuf_text(buf, key);
    jbuf_bytes(buf, "\":", 2);
}

void jbuf_put_int(struct jbuf *buf, const char *key, int64_t value) {
    jbuf_key(buf, key);
    jbuf_int(buf, value);
}

void jbuf_put_uint(struct jbuf *buf, const char *key, uint64_t value) {
    jbuf_key(buf, key);
    jbuf_uint(buf, value);
}

void jbuf_put_ids(struct jbuf *buf, const char *key, const int32_t *id, size_t n) {
    jbuf_key(buf, key);
    jbuf_text(buf, "[");
    for (size_t i = 0; i < n; i++) {
        if (i) jbuf_text(buf, ",");
        jbuf_int(buf, id[i]);
    }
    jbuf_text(buf, "]");
}

void jbuf_put_real(struct jbuf *buf, const char *key, double value, int digits) {
    jbuf_key(buf, key);
    jbuf_real(buf, value, digits);
}
