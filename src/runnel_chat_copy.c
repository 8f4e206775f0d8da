// Copies of what a caller gives to a chat. Strings are taken out of their escapes, guarded and
// written anew; everything else is copied as it stands. The mark of a text to be continued is two
// characters that are none, and a blank: whether the blank is still there tells if the template
// trims contents.
#define _GNU_SOURCE // memmem
#include "runnel_chat.h"

#include <string.h>

#include "unicode/unicode.h"

#define MARK       "\xEF\xB7\x91\xEF\xB7\x92" // U+FDD1, U+FDD2
#define MARK_BLANK "\xE2\x80\x83"             // U+2003, which no template writes by itself

void chat_copy_deinit(struct chat_copy *copy) {
    text_buffer_deinit(&copy->plain);
    text_buffer_deinit(&copy->guarded);
}

void chat_write_string(const char *text, size_t len, FILE *out) {
    fputc('"', out);
    for (size_t i = 0, n = 1; i < len; i += n) {
        const unsigned char c = (unsigned char)text[i];
        if (unicode_scan((const uint8_t *)text + i, len - i, &n) != UNICODE_WELL) {
            fputs("\xef\xbf\xbd", out);
        } else if (c < 0x20) {
            fprintf(out, "\\u%04x", c);
        } else {
            if (c == '"' || c == '\\') fputc('\\', out);
            fwrite(text + i, 1, n, out);
        }
    }
    fputc('"', out);
}

// ---------------------------------------------------------------- values

static size_t blank_bytes_of(const char *text, size_t len) {
    size_t blanks = 0;
    for (size_t at = 0, n; at < len; at += n) {
        const bool is_blank =
            unicode_traits_at((const uint8_t *)text + at, len - at, &n) & UNICODE_SPACE;
        blanks = is_blank ? blanks + n : 0;
    }
    return blanks;
}

static rn_status copy_text(struct chat_copy *copy, const struct jread_text *text,
                           enum guard_role role, bool mark) {
    struct text_buffer *const plain = &copy->plain, *const guarded = &copy->guarded;
    plain->len = guarded->len = 0;
    const bool ok = text_buffer_reserve(plain, text->len + 1) &&
                    text_buffer_reserve(guarded, sizeof MARK MARK_BLANK);
    if (!ok) return err_set(copy->err, RN_ERR_NOMEM, "no memory for %zu bytes of text", text->len);
    plain->len = jread_unescape(text, (char *)plain->data);
    struct text_buffer *written = plain;
    if (copy->guard_for) {
        const rn_status status = guard_put(copy->guard_for, (const char *)plain->data, plain->len,
                                           role, guarded, copy->err);
        if (status) return status;
        written = guarded;
    }
    if (mark) {
        copy->blank_bytes = blank_bytes_of((const char *)plain->data, plain->len);
        if (!text_buffer_put(written, MARK MARK_BLANK, strlen(MARK MARK_BLANK)))
            return err_set(copy->err, RN_ERR_NOMEM, "no memory for %zu bytes of text", text->len);
    }
    chat_write_string((const char *)written->data, written->len, copy->out);
    return RN_OK;
}

static rn_status copy_key(struct chat_copy *copy, const struct jread_text *key, bool is_first) {
    if (!is_first) fputc(',', copy->out);
    const rn_status status = copy_text(copy, key, GUARD_NAME, false);
    fputc(':', copy->out);
    return status;
}

// Templates compare roles and types with names.
static enum guard_role role_of(const struct jread_text *key) {
    return jread_equals(key, "role") || jread_equals(key, "type") ? GUARD_NAME : GUARD_STRING;
}

static rn_status copy_value(struct chat_copy *copy, struct jread *r, enum guard_role role);

static rn_status copy_object(struct chat_copy *copy, struct jread *r) {
    struct jread_text key;
    rn_status status = RN_OK;
    bool is_first = true;
    fputc('{', copy->out);
    for (jread_enter_object(r); !status && jread_next_key(r, &key); is_first = false) {
        status = copy_key(copy, &key, is_first);
        if (!status) status = copy_value(copy, r, role_of(&key));
    }
    fputc('}', copy->out);
    return status;
}

static rn_status copy_array(struct chat_copy *copy, struct jread *r) {
    rn_status status = RN_OK;
    bool is_first = true;
    fputc('[', copy->out);
    for (jread_enter_array(r); !status && jread_next_item(r); is_first = false) {
        if (!is_first) fputc(',', copy->out);
        status = copy_value(copy, r, GUARD_STRING);
    }
    fputc(']', copy->out);
    return status;
}

// The reader's depth is bounded, and so is this.
static rn_status copy_value(struct chat_copy *copy, struct jread *r, enum guard_role role) {
    struct jread_text text;
    const char *raw;
    size_t len;
    const enum jread_kind kind = jread_peek(r);
    switch (copy->guard_for ? kind : JREAD_NULL) { // without guards all is as it stands
    case JREAD_OBJECT:
        return copy_object(copy, r);
    case JREAD_ARRAY:
        return copy_array(copy, r);
    case JREAD_STRING:
        jread_string(r, &text);
        return copy_text(copy, &text, role, false);
    default:
        if (jread_raw(r, &raw, &len)) fwrite(raw, 1, len, copy->out);
        return RN_OK;
    }
}

rn_status chat_copy_member(struct chat_copy *copy, struct jread *r) {
    return copy_value(copy, r, GUARD_STRING);
}

rn_status chat_copy_value(struct chat_copy *copy, const char *json) {
    struct jread r;
    jread_init(&r, json, strlen(json));
    return copy_value(copy, &r, GUARD_STRING);
}

// ---------------------------------------------------------------- the message to be continued

// Looks for the key's string in the object that comes next; the reader is a copy of the caller's.
static bool find_string(struct jread r, const char *name, struct jread_text *out) {
    struct jread_text key;
    bool found = false;
    if (jread_peek(&r) != JREAD_OBJECT) return false;
    for (jread_enter_object(&r); jread_next_key(&r, &key);) {
        if (jread_equals(&key, name) && jread_peek(&r) == JREAD_STRING)
            found = jread_string(&r, out);
        else
            jread_skip(&r);
    }
    return found;
}

// The last part with a text, of the array that comes next; -1: none.
static int last_text_part(struct jread r) {
    struct jread_text text;
    int last = -1;
    jread_enter_array(&r);
    for (int i = 0; jread_next_item(&r); i++) {
        if (find_string(r, "text", &text)) last = i;
        jread_skip(&r);
    }
    return last;
}

static rn_status copy_marked(struct chat_copy *copy, struct jread *r, const char *name, bool *done);

static rn_status copy_marked_parts(struct chat_copy *copy, struct jread *r, bool *done) {
    const int last = last_text_part(*r);
    rn_status status = RN_OK;
    fputc('[', copy->out);
    jread_enter_array(r);
    for (int i = 0; !status && jread_next_item(r); i++) {
        if (i > 0) fputc(',', copy->out);
        status = i == last ? copy_marked(copy, r, "text", done) : copy_value(copy, r, GUARD_STRING);
    }
    fputc(']', copy->out);
    return status;
}

// An object whose member `name` gets the mark: a string, or its last part that has a text.
static rn_status copy_marked(struct chat_copy *copy, struct jread *r, const char *name,
                             bool *done) {
    struct jread_text key, text;
    rn_status status = RN_OK;
    bool is_first = true;
    fputc('{', copy->out);
    for (jread_enter_object(r); !status && jread_next_key(r, &key); is_first = false) {
        status = copy_key(copy, &key, is_first);
        if (status) break;
        const enum jread_kind kind = jread_peek(r);
        if (jread_equals(&key, name) && kind == JREAD_STRING) {
            jread_string(r, &text);
            status = copy_text(copy, &text, GUARD_STRING, true);
            *done = true;
        } else if (jread_equals(&key, "content") && kind == JREAD_ARRAY) {
            status = copy_marked_parts(copy, r, done);
        } else {
            status = copy_value(copy, r, role_of(&key));
        }
    }
    fputc('}', copy->out);
    return status;
}

static rn_status copy_final(struct chat_copy *copy, struct jread *r) {
    struct jread_text role;
    bool done = false;
    if (!find_string(*r, "role", &role))
        return err_set(copy->err, RN_ERR_ARG,
                       "messages: the last one has no role; only an assistant's is continued");
    if (!jread_equals(&role, "assistant")) {
        char quoted[32];
        unicode_quote(role.data, role.len, quoted, sizeof quoted);
        return err_set(copy->err, RN_ERR_ARG,
                       "messages: the last one is of role '%s'; only an assistant's is continued",
                       quoted);
    }
    const rn_status status = copy_marked(copy, r, "content", &done);
    if (status || done) return status;
    return err_set(copy->err, RN_ERR_ARG,
                   "messages: the last one has no text that could be continued");
}

rn_status chat_copy_messages(struct chat_copy *copy, const char *json, bool mark) {
    struct jread r, ahead;
    jread_init(&r, json, strlen(json));
    ahead = r;
    size_t count = 0;
    for (jread_enter_array(&ahead); jread_next_item(&ahead); count++) jread_skip(&ahead);
    if (mark && count == 0)
        return err_set(copy->err, RN_ERR_ARG, "messages: there is none that could be continued");
    rn_status status = RN_OK;
    fputc('[', copy->out);
    jread_enter_array(&r);
    for (size_t i = 0; !status && jread_next_item(&r); i++) {
        if (i > 0) fputc(',', copy->out);
        status = mark && i + 1 == count ? copy_final(copy, &r) : copy_value(copy, &r, GUARD_STRING);
    }
    fputc(']', copy->out);
    return status;
}

// ---------------------------------------------------------------- the cut

// The last mark of the text: what a template repeats of a message comes before it.
static const char *mark_find(const char *text, size_t len) {
    const char *found = NULL;
    const char *const end = text + len;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), MARK, strlen(MARK))); at++)
        found = at;
    return found;
}

rn_status chat_cut(const struct chat_copy *copy, char *text, size_t *len, rn_error *err) {
    const char *const mark = mark_find(text, *len);
    if (!mark)
        return err_set(err, RN_ERR_ARG,
                       "messages: the last one cannot be continued, the template does not write "
                       "its content as it is");
    size_t end = (size_t)(mark - text);
    const char *const behind = mark + strlen(MARK); // the text ends with a NUL
    if (strncmp(behind, MARK_BLANK, strlen(MARK_BLANK)) != 0) {
        const size_t blanks = blank_bytes_of(text, end);
        end -= blanks < copy->blank_bytes ? blanks : copy->blank_bytes;
    }
    text[end] = 0;
    *len = end;
    return RN_OK;
}
