// JSON text to values. Keys keep their order, and strings without escapes are borrowed from the
// text. If a key comes twice, its last value is used, as in Python.
#include <math.h>
#include <string.h>

#include "base/jread.h"
#include "jinja/render.h"
#include "jinja/text.h"

struct reader {
    struct jread json;
    const uint8_t *marks; // as many as the text has bytes; NULL: none
    const char *what;     // names the text in errors
};

static _Noreturn void read_fail(struct render *r, const struct reader *in) {
    r->status = err_set(r->err, RN_ERR_ARG, "%s: offset %zu: %s", in->what, in->json.error_at,
                        in->json.error);
    longjmp(r->failed, 1);
}

static bool is_word(const struct str *s) {
    static const char others[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    for (size_t i = 0; i < s->len; i++) {
        if (!s->data[i] || !strchr(others, s->data[i])) return false;
    }
    return true;
}

// is_name: a key, a role or a type. Templates make markup of them ("<|" + role + "|>"), so a plain
// word stays unmarked.
static struct value read_text(struct render *r, const struct reader *in,
                              const struct jread_text *text, bool is_name) {
    const char *data = text->data;
    size_t len = text->len;
    if (text->has_escape) {
        char *out = jinja_alloc(r, len);
        len = jread_unescape(text, out);
        data = out;
    }
    const struct value v = jinja_str_borrow(r, data, len);
    if (!is_name || !is_word(v.s)) v.s->marks = in->marks;
    return v;
}

// Integers stay integers; one past 64 bits keeps its digits.
static struct value read_number(struct render *r, struct reader *in) {
    const char *text;
    size_t len;
    int64_t i;
    if (!jread_raw(&in->json, &text, &len)) read_fail(r, in);
    if (memchr(text, '.', len) || memchr(text, 'e', len) || memchr(text, 'E', len)) {
        struct jread number;
        double f;
        jread_init(&number, text, len);
        if (!jread_f64(&number, &f)) f = text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
        return value_float(f);
    }
    if (number_parse_int(text, len, &i) == NUMBER_OK) return value_int(i);
    struct value big = jinja_str_borrow(r, text, len);
    big.kind = V_BIG;
    return big;
}

static struct value read_value(struct render *r, struct reader *in, bool is_name);

static struct value read_array(struct render *r, struct reader *in) {
    struct seq *q = jinja_seq_new(r, SEQ_LIST, 0);
    for (jread_enter_array(&in->json); jread_next_item(&in->json);) {
        jinja_seq_add(r, q, read_value(r, in, false));
    }
    if (in->json.error) read_fail(r, in);
    return jinja_seq_close(r, q);
}

static struct value read_object(struct render *r, struct reader *in) {
    struct dict *d = jinja_dict_new(r);
    struct jread_text name;
    for (jread_enter_object(&in->json); jread_next_key(&in->json, &name);) {
        const struct value key = read_text(r, in, &name, true);
        const bool is_name = str_equals(key.s, "role") || str_equals(key.s, "type");
        jinja_dict_set(r, d, key, read_value(r, in, is_name));
    }
    if (in->json.error) read_fail(r, in);
    return value_dict(d);
}

static struct value read_value(struct render *r, struct reader *in, bool is_name) {
    bool b = false;
    struct jread_text text;
    jinja_charge(r, 1);
    const enum jread_kind kind = jread_peek(&in->json);
    if (kind == JREAD_NULL && jread_null(&in->json)) return value_none();
    if (kind == JREAD_BOOL && jread_bool(&in->json, &b)) return value_bool(b);
    if (kind == JREAD_NUMBER) return read_number(r, in);
    if (kind == JREAD_STRING && jread_string(&in->json, &text)) {
        return read_text(r, in, &text, is_name);
    }
    if (kind == JREAD_ARRAY) return read_array(r, in);
    if (kind == JREAD_OBJECT) return read_object(r, in);
    read_fail(r, in);
}

struct value jinja_read_json(struct render *r, const char *what, const char *json, size_t len,
                             uint8_t mark) {
    struct reader in = {.what = what};
    if (mark) {
        uint8_t *marks = jinja_alloc(r, len);
        memset(marks, mark, len);
        in.marks = marks;
    }
    jread_init(&in.json, json, len);
    const struct value v = read_value(r, &in, false);
    if (!jread_finish(&in.json)) read_fail(r, &in);
    return v;
}
