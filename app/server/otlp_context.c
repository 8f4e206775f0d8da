// Reading traceparent and tracestate to the letter; drawing ids.
#include "otlp_context.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "helpers.h"

// ---------------------------------------------------------------- ids

static void id_draw(char *out, size_t bytes) {
    static const char digits[] = "0123456789abcdef";
    unsigned char random[16];
    if (getrandom(random, bytes, 0) != (ssize_t)bytes) {
        const uint64_t now = clock_ns();
        for (size_t i = 0; i < bytes; i++) random[i] = (unsigned char)(now >> (i % 8 * 8));
    }
    random[0] |= 1; // all zeros would be no id
    for (size_t i = 0; i < bytes; i++) {
        out[2 * i] = digits[random[i] >> 4];
        out[2 * i + 1] = digits[random[i] & 15];
    }
    out[2 * bytes] = '\0';
}

void otlp_span_id_draw(char out[OTLP_SPAN_ID_SIZE]) { id_draw(out, 8); }

// ---------------------------------------------------------------- traceparent

// Lower case only: another case is invalid, not another form of the same id.
static bool is_hex(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
    }
    return true;
}

static bool is_zero(const char *text, size_t len) { return strspn(text, "0") >= len; }

// 00-TRACE-PARENT-FLAGS. Later versions may add fields behind a further dash.
bool otlp_traceparent_parse(const char *text, struct otlp_context *out) {
    enum { TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53, LEN = 55 };
    const size_t len = strlen(text);
    if (len < LEN || text[2] != '-' || text[PARENT_AT - 1] != '-' || text[FLAGS_AT - 1] != '-')
        return false;
    const char *trace = text + TRACE_AT, *parent = text + PARENT_AT, *flags = text + FLAGS_AT;
    if (!is_hex(text, 2) || !is_hex(trace, 32) || !is_hex(parent, 16) || !is_hex(flags, 2))
        return false;
    if (!strncmp(text, "ff", 2) || is_zero(trace, 32) || is_zero(parent, 16)) return false;
    if (!strncmp(text, "00", 2) ? len != LEN : len > LEN && text[LEN] != '-') return false;
    snprintf(out->trace_id, sizeof out->trace_id, "%.32s", trace);
    snprintf(out->parent_id, sizeof out->parent_id, "%.16s", parent);
    out->sampled = hex_digit(flags[1]) & 1;
    return true;
}

// The value of the only field of that name; NULL: there is none, or several.
static const char *only_field(const struct head *head, const char *wanted) {
    const char *value = NULL;
    for (const char *name = head_next(head, NULL); name; name = head_next(head, name)) {
        if (strcasecmp(name, wanted)) continue;
        if (value) return NULL;
        value = field_value(name);
    }
    return value;
}

void otlp_context_read(const struct head *head, bool starts, struct otlp_context *out) {
    *out = (struct otlp_context){0};
    const char *parent = head->text ? only_field(head, "traceparent") : NULL;
    out->remote = parent && otlp_traceparent_parse(parent, out);
    out->known = out->remote || starts;
    if (!out->known) return;
    otlp_span_id_draw(out->span_id);
    if (out->remote) return;
    id_draw(out->trace_id, 16);
    out->sampled = true;
}

// ---------------------------------------------------------------- tracestate

static bool is_key(const char *text, size_t len) {
    if (len < 1 || len > 256) return false;
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!plain && (!i || !strchr("_-*/@", c))) return false;
    }
    return true;
}

static bool is_value(const char *text, size_t len) {
    if (len < 1 || len > 256 || text[len - 1] == ' ') return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] < 0x20 || text[i] > 0x7e || text[i] == '=') return false;
    return true;
}

// One member, without the blanks around it. An empty member is allowed.
static bool is_member(const char *text, size_t len) {
    const char *equals = memchr(text, '=', len);
    if (!len) return true;
    if (!equals) return false;
    const size_t key_len = (size_t)(equals - text);
    return is_key(text, key_len) && is_value(equals + 1, len - key_len - 1);
}

// Whether a member before `end` has the key of the member at `end`.
static bool is_repeated(const char *list, const char *end) {
    const size_t key_len = strcspn(end, "=") + 1;
    for (const char *at = list; at < end; at += strcspn(at, ",") + 1)
        if (!strncmp(at, end, key_len)) return true;
    return false;
}

// Adds the members of a field to the list in out. False: one breaks the rules, or all are too long.
static bool members_add(const char *value, char *out, size_t *used, int *count) {
    enum { MEMBERS_MAX = 32 };
    for (const char *at = value;;) {
        size_t len = strcspn(at, ",");
        const char *next = at + len;
        while (len && strchr(" \t", *at)) at++, len--;
        while (len && strchr(" \t", at[len - 1])) len--;
        if (!is_member(at, len)) return false;
        if (len) {
            const size_t comma = *used > 0;
            if (++*count > MEMBERS_MAX || *used + comma + len > OTLP_STATE_BYTES) return false;
            char *to = out + *used + comma;
            if (comma) out[*used] = ',';
            memcpy(to, at, len);
            to[len] = '\0';
            *used += comma + len;
            if (is_repeated(out, to)) return false;
        }
        if (!*next) return true;
        at = next + 1;
    }
}

void otlp_tracestate_read(const struct head *head, char out[OTLP_STATE_BYTES + 1]) {
    size_t used = 0;
    int count = 0;
    out[0] = '\0';
    for (const char *name = head->text ? head_next(head, NULL) : NULL; name;
         name = head_next(head, name)) {
        if (strcasecmp(name, "tracestate")) continue;
        if (members_add(field_value(name), out, &used, &count)) continue;
        out[0] = '\0';
        return;
    }
}
