// A growing buffer of bytes, and the JSON that is written into it by hand: replies and streams are
// formatted once per token, so no tree is built for them. Running out of memory is remembered
// (`failed`) and checked once, at the end. So is a buffer that would become too large (`full`).
#ifndef RN_SERVER_JBUF_H
#define RN_SERVER_JBUF_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jbuf {
    char *data; // not NUL-terminated; NULL while empty
    size_t len, capacity;
    size_t most; // bytes that it may take; 0: any number
    bool failed; // out of memory: later bytes are lost
    bool full;   // the same, because more than `most` were to be added
};

void jbuf_deinit(struct jbuf *buf);
void jbuf_clear(struct jbuf *buf);             // keeps its memory
void jbuf_drop(struct jbuf *buf, size_t n);    // the first n bytes
bool jbuf_reserve(struct jbuf *buf, size_t n); // room for n more
void jbuf_bytes(struct jbuf *buf, const char *data, size_t len);
void jbuf_text(struct jbuf *buf, const char *text); // as it is
void jbuf_printf(struct jbuf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// A JSON string with its quotes; invalid UTF-8 becomes U+FFFD.
void jbuf_string(struct jbuf *buf, const char *data, size_t len);
void jbuf_escape(struct jbuf *buf, const char *data, size_t len); // the same without the quotes
void jbuf_cstring(struct jbuf *buf, const char *text);            // NULL: null
void jbuf_int(struct jbuf *buf, int64_t value);
void jbuf_uint(struct jbuf *buf, uint64_t value);
void jbuf_real(struct jbuf *buf, double value, int digits); // digits after the point; null where
                                                            // it is not finite
void jbuf_bool(struct jbuf *buf, bool value);
// Any value, compact. jansson's own dump continues where memory ran out, and loses keys.
void jbuf_json(struct jbuf *buf, const json_t *value);
// ,"key": with the comma left out right after '{' or at the buffer's start.
void jbuf_key(struct jbuf *buf, const char *key);
// The key and its value.
void jbuf_put_int(struct jbuf *buf, const char *key, int64_t value);
void jbuf_put_ids(struct jbuf *buf, const char *key, const int32_t *id, size_t n);
void jbuf_put_uint(struct jbuf *buf, const char *key, uint64_t value);
void jbuf_put_real(struct jbuf *buf, const char *key, double value, int digits);

#endif
