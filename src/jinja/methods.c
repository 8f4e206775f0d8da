// Methods of strings, lists and dictionaries, as Python has them.
#include <string.h>

#include "jinja/render.h"
#include "jinja/text.h"

#define CASE_METHOD(name, to)                                                                      \
    static struct value str_##name(struct render *r, struct value self, const struct call *c) {    \
        (void)c;                                                                                   \
        return jinja_text_case(r, self.s, to);                                                     \
    }
CASE_METHOD(upper, TEXT_UPPER)
CASE_METHOD(lower, TEXT_LOWER)
CASE_METHOD(title, TEXT_TITLE)
CASE_METHOD(capitalize, TEXT_CAPITALIZE)

#define STRIP_METHOD(name, sides)                                                                  \
    static struct value str_##name(struct render *r, struct value self, const struct call *c) {    \
        return jinja_text_strip(r, self.s, jinja_arg_str(r, c, 0), sides);                         \
    }
STRIP_METHOD(strip, TEXT_LEFT | TEXT_RIGHT)
STRIP_METHOD(lstrip, TEXT_LEFT)
STRIP_METHOD(rstrip, TEXT_RIGHT)

// A required argument that must be a string.
static const struct str *needed(struct render *r, const struct call *c, int i) {
    const struct str *s = jinja_arg_str(r, c, i);
    if (!s) jinja_fail(r, "%s: argument %d must be a string", c->name, i + 1);
    return s;
}

static struct value str_find(struct render *r, struct value self, const struct call *c) {
    const size_t at = jinja_find(r, self.s, needed(r, c, 0), 0, self.s->len);
    if (at == SIZE_MAX) return value_int(-1);
    struct str before = {.data = self.s->data, .len = at, .n_chars = SIZE_MAX};
    jinja_work(r, at);
    return value_int((int64_t)jinja_n_chars(&before));
}

static bool has_affix(const struct str *s, const struct str *affix, bool is_end) {
    if (s->len < affix->len) return false;
    return affix->len == 0 ||
           memcmp(s->data + (is_end ? s->len - affix->len : 0), affix->data, affix->len) == 0;
}

// One string, or a tuple of several.
static struct value affix_test(struct render *r, struct value self, const struct call *c,
                               bool is_end) {
    const bool is_tuple = is_seq(c->arg[0], SEQ_TUPLE);
    const struct value *affixes = is_tuple ? c->arg[0].q->items : &c->arg[0];
    const size_t n = is_tuple ? c->arg[0].q->n : 1;
    for (size_t i = 0; i < n; i++) {
        if (affixes[i].kind != V_STR) {
            jinja_fail(r, "%s needs a string or a tuple of strings, not '%s'", c->name,
                       jinja_type_name(affixes[i]));
        }
        jinja_charge(r, 1);
        jinja_work(r, affixes[i].s->len);
        if (has_affix(self.s, affixes[i].s, is_end)) return value_bool(true);
    }
    return value_bool(false);
}

static struct value str_startswith(struct render *r, struct value self, const struct call *c) {
    return affix_test(r, self, c, false);
}
static struct value str_endswith(struct render *r, struct value self, const struct call *c) {
    return affix_test(r, self, c, true);
}

static struct value str_removeprefix(struct render *r, struct value self, const struct call *c) {
    const struct str *affix = needed(r, c, 0);
    if (!has_affix(self.s, affix, false)) return self;
    return jinja_substr(r, self.s, affix->len, self.s->len);
}
static struct value str_removesuffix(struct render *r, struct value self, const struct call *c) {
    const struct str *affix = needed(r, c, 0);
    if (!has_affix(self.s, affix, true)) return self;
    return jinja_substr(r, self.s, 0, self.s->len - affix->len);
}

static struct value str_replace(struct render *r, struct value self, const struct call *c) {
    const struct str *from = needed(r, c, 0), *to = needed(r, c, 1);
    return jinja_text_replace(r, self.s, from, to, jinja_arg_int(r, c, 2, -1));
}

static struct value str_join(struct render *r, struct value self, const struct call *c) {
    struct seq *q = jinja_iterate(r, c->arg[0]);
    for (size_t i = 0; i < q->n; i++) {
        if (q->items[i].kind == V_STR) continue;
        jinja_fail(r, "join: item %zu is '%s' and no string", i, jinja_type_name(q->items[i]));
    }
    return jinja_text_join(r, self.s, value_seq(q), value_missing());
}

static struct value str_format(struct render *r, struct value self, const struct call *c) {
    return jinja_format(r, self.s, c->raw);
}

static struct value split(struct render *r, struct value self, const struct call *c,
                          bool from_right) {
    const struct str *separator = jinja_arg_str(r, c, 0);
    if (separator && separator->len == 0) jinja_fail(r, "%s: the separator is empty", c->name);
    return jinja_text_split(r, self.s, separator, jinja_arg_int(r, c, 1, -1), from_right);
}

static struct value str_split(struct render *r, struct value self, const struct call *c) {
    return split(r, self, c, false);
}
static struct value str_rsplit(struct render *r, struct value self, const struct call *c) {
    return split(r, self, c, true);
}

static struct value str_splitlines(struct render *r, struct value self, const struct call *c) {
    (void)c;
    size_t n = 0, i = 0, from, to;
    jinja_work_chars(r, 2 * self.s->len);
    for (size_t at = 0; jinja_text_line(self.s, &at, &from, &to);) n++;
    struct seq *list = jinja_seq_new(r, SEQ_LIST, n);
    jinja_charge(r, n);
    for (size_t at = 0; jinja_text_line(self.s, &at, &from, &to);) {
        list->items[i++] = jinja_substr(r, self.s, from, to);
    }
    return jinja_seq_close(r, list);
}

static const struct entry str_methods[] = {
    {"capitalize", str_capitalize, "", 0},
    {"endswith", str_endswith, "suffix", 1},
    {"find", str_find, "sub", 1},
    {"format", str_format, "*", 0},
    {"join", str_join, "iterable", 1},
    {"lower", str_lower, "", 0},
    {"lstrip", str_lstrip, "chars", 0},
    {"removeprefix", str_removeprefix, "prefix", 1},
    {"removesuffix", str_removesuffix, "suffix", 1},
    {"replace", str_replace, "old new count", 2},
    {"rsplit", str_rsplit, "sep maxsplit", 0},
    {"rstrip", str_rstrip, "chars", 0},
    {"split", str_split, "sep maxsplit", 0},
    {"splitlines", str_splitlines, "", 0},
    {"startswith", str_startswith, "prefix", 1},
    {"strip", str_strip, "chars", 0},
    {"title", str_title, "", 0},
    {"upper", str_upper, "", 0},
};
const struct table jinja_str_methods = {
    str_methods, sizeof str_methods / sizeof str_methods[0],
    " casefold center count encode expandtabs format_map index isalnum isalpha isascii isdecimal "
    "isdigit isidentifier islower isnumeric isprintable isspace istitle isupper ljust maketrans "
    "partition rfind rindex rjust rpartition swapcase translate zfill ",
    ""};

// ---------------------------------------------------------------- lists and dictionaries

const struct table jinja_list_methods = {NULL, 0, " copy count index ",
                                         " append clear extend insert pop remove reverse sort "};
const struct table jinja_tuple_methods = {NULL, 0, " count index ", ""};

static struct value dict_get(struct render *r, struct value self, const struct call *c) {
    if (!jinja_is_key(r, c->arg[0])) {
        jinja_fail(r, "'%s' cannot be a key", jinja_type_name(c->arg[0]));
    }
    const struct value *found = jinja_dict_find(r, self.d, c->arg[0]);
    if (found) return *found;
    return is_missing(c->arg[1]) ? value_none() : c->arg[1];
}

static struct value dict_walk(struct render *r, const struct dict *d, enum seq_flavor flavor) {
    struct seq *q = jinja_seq_new(r, flavor, d->n);
    jinja_charge(r, d->n);
    for (size_t i = 0; i < d->n; i++) {
        const struct dict_entry *entry = &d->entries[i];
        q->items[i] = flavor == SEQ_KEYS     ? entry->key
                      : flavor == SEQ_VALUES ? entry->value
                                             : jinja_pair(r, entry->key, entry->value);
    }
    return jinja_seq_close(r, q);
}

#define WALK_METHOD(name, flavor)                                                                  \
    static struct value dict_##name(struct render *r, struct value self, const struct call *c) {   \
        (void)c;                                                                                   \
        return dict_walk(r, self.d, flavor);                                                       \
    }
WALK_METHOD(items, SEQ_ITEMS)
WALK_METHOD(keys, SEQ_KEYS)
WALK_METHOD(values, SEQ_VALUES)

static const struct entry dict_methods[] = {
    {"get", dict_get, "key default", 1},
    {"items", dict_items, "", 0},
    {"keys", dict_keys, "", 0},
    {"values", dict_values, "", 0},
};
const struct table jinja_dict_methods = {dict_methods, sizeof dict_methods / sizeof dict_methods[0],
                                         " copy fromkeys ",
                                         " clear pop popitem setdefault update "};
