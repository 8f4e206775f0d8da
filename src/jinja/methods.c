// Methods of strings, lists and dictionaries, as Python has them.
#include <string.h>

#include "jinja/render.h"
#include "jinja/text.h"

static struct value str_case(struct render *r, const struct call *c) {
    return jinja_text_case(r, c->self.s, (enum text_case)c->entry->option);
}

static struct value str_strip(struct render *r, const struct call *c) {
    return jinja_text_strip(r, c->self.s, jinja_arg_str(r, c, 0), c->entry->option);
}

// Whether the string starts or ends (the option) with one string, or any of a tuple.
static struct value str_has_affix(struct render *r, const struct call *c) {
    const struct str *s = c->self.s;
    const bool is_tuple = is_seq(c->arg[0], SEQ_TUPLE);
    const struct value *affixes = is_tuple ? c->arg[0].q->items : &c->arg[0];
    const size_t n = is_tuple ? c->arg[0].q->n : 1;
    bool is_there = false;
    for (size_t i = 0; i < n && !is_there; i++) {
        if (affixes[i].kind != V_STR) {
            jinja_fail(r, "%s needs a string or a tuple of strings, not '%s'", c->entry->name,
                       jinja_type_name(affixes[i]));
        }
        const struct str *affix = affixes[i].s;
        jinja_charge(r, 1);
        jinja_work(r, affix->len);
        if (affix->len > s->len) continue;
        const char *place = s->data + (c->entry->option ? s->len - affix->len : 0);
        is_there = affix->len == 0 || memcmp(place, affix->data, affix->len) == 0;
    }
    return value_bool(is_there);
}

static struct value str_replace(struct render *r, const struct call *c) {
    const struct str *from = jinja_arg_str(r, c, 0), *to = jinja_arg_str(r, c, 1);
    if (!from || !to) jinja_fail(r, "replace needs two strings");
    return jinja_text_replace(r, c->self.s, from, to, jinja_arg_int(r, c, 2, -1));
}

static struct value str_format(struct render *r, const struct call *c) {
    return jinja_format(r, c->self.s, c->raw, false);
}

static struct value str_split(struct render *r, const struct call *c) {
    const struct str *separator = jinja_arg_str(r, c, 0);
    if (separator && separator->len == 0) jinja_fail(r, "split: the separator is empty");
    return jinja_text_split(r, c->self.s, separator, jinja_arg_int(r, c, 1, -1));
}

static const struct entry str_methods[] = {
    {"capitalize", str_case, "", 0, TEXT_CAPITALIZE},
    {"endswith", str_has_affix, "suffix", 1, true},
    {"format", str_format, "*", 0, 0},
    {"lower", str_case, "", 0, TEXT_LOWER},
    {"lstrip", str_strip, "chars", 0, TEXT_LEFT},
    {"replace", str_replace, "old new count", 2, 0},
    {"rstrip", str_strip, "chars", 0, TEXT_RIGHT},
    {"split", str_split, "sep maxsplit", 0, 0},
    {"startswith", str_has_affix, "prefix", 1, false},
    {"strip", str_strip, "chars", 0, TEXT_LEFT | TEXT_RIGHT},
    {"title", str_case, "", 0, TEXT_TITLE},
    {"upper", str_case, "", 0, TEXT_UPPER},
};
const struct table jinja_str_methods = {
    "method", str_methods, sizeof str_methods / sizeof str_methods[0],
    "casefold center count encode expandtabs find format_map index isalnum isalpha isascii "
    "isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join "
    "ljust maketrans partition removeprefix removesuffix rfind rindex rjust rpartition rsplit "
    "splitlines swapcase translate zfill",
    ""};

// ---------------------------------------------------------------- lists and dictionaries

const struct table jinja_list_methods = {"method", NULL, 0, "copy count index",
                                         "append clear extend insert pop remove reverse sort"};
const struct table jinja_tuple_methods = {"method", NULL, 0, "count index", ""};

static struct value dict_get(struct render *r, const struct call *c) {
    jinja_check_key(r, c->arg[0]);
    const struct value *found = jinja_dict_find(r, c->self.d, c->arg[0]);
    if (found) return *found;
    return is_missing(c->arg[1]) ? value_none() : c->arg[1];
}

// The option is the flavor of the view.
static struct value dict_view(struct render *r, const struct call *c) {
    return jinja_dict_view(r, c->self.d, (enum seq_flavor)c->entry->option);
}

static const struct entry dict_methods[] = {
    {"get", dict_get, "key default", 1, 0},
    {"items", dict_view, "", 0, SEQ_ITEMS},
    {"keys", dict_view, "", 0, SEQ_KEYS},
    {"values", dict_view, "", 0, SEQ_VALUES},
};
const struct table jinja_dict_methods = {"method", dict_methods,
                                         sizeof dict_methods / sizeof dict_methods[0],
                                         "copy fromkeys", "clear pop popitem setdefault update"};
