// The escapes of string literals. No escape is shorter than what it stands for, so the source's
// length is room enough.
#include "jinja/unescape.h"

#include <string.h>

#include "jinja/chars.h"
#include "unicode/unicode.h"

static bool room_make(struct unescape *u, size_t more) {
    if (u->cap - u->len >= more) return true;
    const size_t cap = (u->len + more) * (u->len ? 2 : 1);
    char *data = arena_alloc(u->arena, cap);
    if (!data) {
        u->error = "no memory for the string";
        return false;
    }
    if (u->len) memcpy(data, u->data, u->len);
    u->data = data;
    u->cap = cap;
    return true;
}

// Up to max digits of the base at text; returns how many.
static size_t digits_read(const char *text, size_t len, int base, size_t max, uint32_t *value) {
    size_t n = 0;
    *value = 0;
    for (; n < max && n < len && chars_digit(text[n]) < base; n++) {
        *value = *value * (uint32_t)base + (uint32_t)chars_digit(text[n]);
    }
    return n;
}

static bool char_add(struct unescape *u, uint32_t cp) {
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) {
        u->error = "the escape is no character";
        return false;
    }
    u->len += unicode_encode(cp, (uint8_t *)u->data + u->len);
    return true;
}

// \xhh, \uhhhh, \Uhhhhhhhh: the number of characters behind the backslash, or 0.
static size_t hex_add(struct unescape *u, const char *text, size_t len) {
    const size_t n = text[0] == 'x' ? 2 : text[0] == 'u' ? 4 : 8;
    uint32_t cp;
    if (digits_read(text + 1, len - 1, 16, n, &cp) != n) {
        u->error = "the escape is cut short";
        return 0;
    }
    return char_add(u, cp) ? n + 1 : 0;
}

// The escape whose backslash stands before text: the characters it takes, or 0 when it is wrong.
static size_t escape_add(struct unescape *u, const char *text, size_t len) {
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char c = text[0];
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        u->data[u->len++] = to[simple - from];
        return 1;
    }
    if (c == '\n') return 1;
    if (c == 'x' || c == 'u' || c == 'U') return hex_add(u, text, len);
    if (c == 'N') {
        u->error = "characters by name are not supported";
        return 0;
    }
    uint32_t octal;
    const size_t n = digits_read(text, len, 8, 3, &octal);
    if (n) return char_add(u, octal) ? n : 0;
    u->data[u->len++] = '\\';
    u->data[u->len++] = c;
    return 1;
}

bool unescape_add(struct unescape *u, const char *text, size_t len) {
    if (!room_make(u, len)) return false;
    for (size_t i = 0; i < len;) {
        if (text[i] != '\\' || i + 1 == len) {
            u->data[u->len++] = text[i++];
            continue;
        }
        const size_t n = escape_add(u, text + i + 1, len - i - 1);
        if (!n) return false;
        i += n + 1;
    }
    return true;
}
