// Reads the pipeline of a tokenizer.json into steps. Each of its four parts is null, one object
// with a "type", or a Sequence of such; a part has a table of the types known here. An unknown part
// that only encoding needs becomes an UNSUPPORTED step; an unknown decoder or post-processor fails.
// Called by vocab_json.c, after the whole file was found to be valid JSON. Sequences nest as deep
// as the JSON may, which bounds the recursion.
#include "text/vocab_pipeline.h"

#include <string.h>

struct pipeline {
    const struct vocab_file *file;
    struct vocab_pipeline *out;
};

typedef rn_status (*part_fn)(struct pipeline *p, struct jread at);
typedef rn_status (*unknown_fn)(struct pipeline *p, struct text_span type);

struct part {
    const char *type;
    part_fn read;
};

static struct text_span span_of(const char *text) { return (struct text_span){text, strlen(text)}; }

static rn_status bad_json(const struct pipeline *p, const struct jread *r) {
    return jread_status(r, p->file->name, p->file->err);
}

static rn_status unsupported(const struct pipeline *p, const char *what, struct text_span name) {
    return err_set(p->file->err, RN_ERR_UNSUPPORTED, "%s: %s %.*s is not supported", p->file->name,
                   what, vocab_span_shown(name), name.data);
}

// Calls the reader of the object's type, or `unknown` with a type that the table has not.
static rn_status part_read(struct pipeline *p, struct jread at, const struct part *table,
                           unknown_fn unknown) {
    struct vocab_field field = {.key = "type"};
    struct text_span type = {0};
    rn_status s = vocab_fields_read(p->file, at, &field, 1);
    if (s) return s;
    if (!field.is_found) return vocab_missing(p->file, &at, "type");
    if ((s = vocab_field_span(p->file, &field, &type))) return s;
    for (; table->type; table++)
        if (vocab_span_equals(type, table->type)) return table->read ? table->read(p, at) : RN_OK;
    return unknown(p, type);
}

// Calls `each` for the members of a Sequence's list.
static rn_status sequence_read(struct pipeline *p, struct jread at, const char *key, part_fn each) {
    struct vocab_field field = {.key = key};
    rn_status s = vocab_fields_read(p->file, at, &field, 1);
    if (s) return s;
    if (!field.is_found) return vocab_missing(p->file, &at, key);
    struct jread r = field.at;
    if (!jread_enter_array(&r)) return bad_json(p, &r);
    while (jread_next_item(&r)) {
        if ((s = each(p, r))) return s;
        if (!jread_skip(&r)) break;
    }
    return bad_json(p, &r);
}

// {"String": "..."} or {"Regex": "..."}.
static rn_status pattern_read(struct pipeline *p, struct jread at,
                              const struct vocab_field *pattern, bool *is_regex,
                              struct text_span *out) {
    if (!pattern->is_found) return vocab_missing(p->file, &at, "pattern");
    struct vocab_field field[] = {{.key = "String"}, {.key = "Regex"}};
    const rn_status s = vocab_fields_read(p->file, pattern->at, field, 2);
    if (s) return s;
    *is_regex = field[1].is_found;
    if (field[0].is_found == field[1].is_found) {
        struct jread r = pattern->at;
        jread_fail(&r, "expected a pattern that is a String or a Regex");
        return bad_json(p, &r);
    }
    return vocab_field_span(p->file, &field[*is_regex], out);
}

// --- normalizers ---

static rn_status normal_add(struct pipeline *p, struct vocab_normal step) {
    if (p->out->n_normal == VOCAB_MAX_STEPS)
        return unsupported(p, "a normalizer of", span_of("more than 32 steps"));
    p->out->normal[p->out->n_normal++] = step;
    return RN_OK;
}

#define NORMALIZER_OF_ONE_STEP(name, step_kind)                                                    \
    static rn_status name(struct pipeline *p, struct jread at) {                                   \
        (void)at;                                                                                  \
        return normal_add(p, (struct vocab_normal){.kind = step_kind});                            \
    }
NORMALIZER_OF_ONE_STEP(nfc_read, NORMAL_NFC)
NORMALIZER_OF_ONE_STEP(nfd_read, NORMAL_NFD)
NORMALIZER_OF_ONE_STEP(nfkc_read, NORMAL_NFKC)
NORMALIZER_OF_ONE_STEP(nfkd_read, NORMAL_NFKD)
NORMALIZER_OF_ONE_STEP(lowercase_read, NORMAL_LOWERCASE)
#undef NORMALIZER_OF_ONE_STEP

static rn_status replace_read(struct pipeline *p, struct jread at) {
    struct vocab_field field[] = {{.key = "pattern"}, {.key = "content"}};
    struct vocab_normal step = {.kind = NORMAL_REPLACE};
    bool is_regex;
    rn_status s = vocab_fields_read(p->file, at, field, 2);
    if (s) return s;
    if ((s = pattern_read(p, at, &field[0], &is_regex, &step.from))) return s;
    if (!field[1].is_found) return vocab_missing(p->file, &at, "content");
    if ((s = vocab_field_span(p->file, &field[1], &step.to))) return s;
    if (is_regex) step.kind = NORMAL_REPLACE_REGEX;
    if (vocab_span_has_marker(step.to)) p->out->has_marker = true;
    return normal_add(p, step);
}

static rn_status prepend_read(struct pipeline *p, struct jread at) {
    struct vocab_field field = {.key = "prepend"};
    struct vocab_normal step = {.kind = NORMAL_PREPEND};
    rn_status s = vocab_fields_read(p->file, at, &field, 1);
    if (s) return s;
    if (!field.is_found) return vocab_missing(p->file, &at, "prepend");
    if ((s = vocab_field_span(p->file, &field, &step.to))) return s;
    return normal_add(p, step);
}

static rn_status strip_read(struct pipeline *p, struct jread at) {
    struct vocab_field field[] = {{.key = "strip_left"}, {.key = "strip_right"}};
    bool left = true, right = true;
    rn_status s = vocab_fields_read(p->file, at, field, 2);
    if (s) return s;
    if ((s = vocab_field_bool(p->file, &field[0], &left))) return s;
    if ((s = vocab_field_bool(p->file, &field[1], &right))) return s;
    if (left && (s = normal_add(p, (struct vocab_normal){.kind = NORMAL_STRIP_LEFT}))) return s;
    return right ? normal_add(p, (struct vocab_normal){.kind = NORMAL_STRIP_RIGHT}) : RN_OK;
}

static rn_status normalizer_read(struct pipeline *p, struct jread at);

static rn_status normalizers_read(struct pipeline *p, struct jread at) {
    return sequence_read(p, at, "normalizers", normalizer_read);
}

static rn_status normalizer_unknown(struct pipeline *p, struct text_span type) {
    return normal_add(p, (struct vocab_normal){.kind = NORMAL_UNSUPPORTED, .from = type});
}

static rn_status normalizer_read(struct pipeline *p, struct jread at) {
    static const struct part table[] = {
        {"NFC", nfc_read},
        {"NFD", nfd_read},
        {"NFKC", nfkc_read},
        {"NFKD", nfkd_read},
        {"Replace", replace_read},
        {"Lowercase", lowercase_read},
        {"Prepend", prepend_read},
        {"Strip", strip_read},
        {"Sequence", normalizers_read},
        {NULL, NULL},
    };
    return part_read(p, at, table, normalizer_unknown);
}

// --- pre-tokenizers ---

static rn_status split_put(struct pipeline *p, struct vocab_split split) {
    if (p->out->n_split == VOCAB_MAX_STEPS)
        return unsupported(p, "a pre-tokenizer of", span_of("more than 32 steps"));
    p->out->split[p->out->n_split++] = split;
    return RN_OK;
}

static rn_status split_add(struct pipeline *p, struct vocab_split split) {
    if (p->out->has_cut_bytes) {
        p->out->has_cut_bytes = false;
        const rn_status s = split_put(p, (struct vocab_split){.kind = SPLIT_BYTE_LEVEL});
        if (s) return s;
    }
    return split_put(p, split);
}

static rn_status split_unsupported(struct pipeline *p, struct text_span name) {
    return split_add(p, (struct vocab_split){.kind = SPLIT_UNSUPPORTED, .pattern = name});
}

static bool behavior_find(struct text_span name, enum vocab_split_behavior *out) {
    static const char *const names[] = {[SPLIT_ISOLATED] = "Isolated",
                                        [SPLIT_REMOVED] = "Removed",
                                        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
                                        [SPLIT_CONTIGUOUS] = "Contiguous"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!vocab_span_equals(name, names[i])) continue;
        *out = (enum vocab_split_behavior)i;
        return true;
    }
    return false;
}

static rn_status split_read(struct pipeline *p, struct jread at) {
    struct vocab_field field[] = {{.key = "pattern"}, {.key = "behavior"}, {.key = "invert"}};
    struct vocab_split split = {0};
    struct text_span behavior = {0};
    bool is_regex;
    rn_status s = vocab_fields_read(p->file, at, field, 3);
    if (s) return s;
    if ((s = pattern_read(p, at, &field[0], &is_regex, &split.pattern))) return s;
    if (!field[1].is_found) return vocab_missing(p->file, &at, "behavior");
    if ((s = vocab_field_span(p->file, &field[1], &behavior))) return s;
    if ((s = vocab_field_bool(p->file, &field[2], &split.invert))) return s;
    if (!behavior_find(behavior, &split.behavior))
        return unsupported(p, "a Split whose behavior is", behavior);
    split.kind = is_regex ? SPLIT_REGEX : SPLIT_LITERAL;
    return split_add(p, split);
}

static rn_status digits_read(struct pipeline *p, struct jread at) {
    struct vocab_field field = {.key = "individual_digits"};
    bool is_individual = false;
    rn_status s = vocab_fields_read(p->file, at, &field, 1);
    if (s) return s;
    if ((s = vocab_field_bool(p->file, &field, &is_individual))) return s;
    return split_add(
        p, (struct vocab_split){.kind = is_individual ? SPLIT_DIGITS_INDIVIDUAL : SPLIT_DIGITS,
                                .behavior = is_individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS});
}

static rn_status punctuation_read(struct pipeline *p, struct jread at) {
    struct vocab_field field = {.key = "behavior"};
    struct vocab_split split = {.kind = SPLIT_PUNCTUATION};
    struct text_span behavior = span_of("Isolated");
    rn_status s = vocab_fields_read(p->file, at, &field, 1);
    if (s) return s;
    if ((s = vocab_field_span(p->file, &field, &behavior))) return s;
    if (!behavior_find(behavior, &split.behavior))
        return unsupported(p, "a Punctuation whose behavior is", behavior);
    return split_add(p, split);
}

static rn_status whitespace_read(struct pipeline *p, struct jread at) {
    (void)at;
    return split_add(p, (struct vocab_split){.kind = SPLIT_WHITESPACE,
                                             .behavior = SPLIT_REMOVED,
                                             .invert = true});
}

static rn_status whitespace_split_read(struct pipeline *p, struct jread at) {
    (void)at;
    return split_add(p,
                     (struct vocab_split){.kind = SPLIT_WHITESPACE_ALL, .behavior = SPLIT_REMOVED});
}

// Changes of the text are steps of normalization, which come before all splits.
static rn_status byte_level_read(struct pipeline *p, struct jread at) {
    struct vocab_field field[] = {{.key = "add_prefix_space"}, {.key = "use_regex"}};
    bool add_space = true, use_regex = true;
    rn_status s = vocab_fields_read(p->file, at, field, 2);
    if (s) return s;
    if ((s = vocab_field_bool(p->file, &field[0], &add_space))) return s;
    if ((s = vocab_field_bool(p->file, &field[1], &use_regex))) return s;
    if (p->out->is_byte_level) return split_unsupported(p, span_of("ByteLevel, twice"));
    p->out->is_byte_level = true;
    if (add_space && p->out->n_split)
        return split_unsupported(p, span_of("ByteLevel with add_prefix_space behind another"));
    if (add_space) {
        s = normal_add(p, (struct vocab_normal){.kind = NORMAL_PREPEND_ONCE, .to = span_of(" ")});
        if (s) return s;
    }
    if (use_regex) {
        s = split_add(p, (struct vocab_split){.kind = SPLIT_NAMED, .pattern = span_of("gpt-2")});
        if (s) return s;
    }
    p->out->has_cut_bytes = true;
    return RN_OK;
}

struct metaspace {
    struct text_span replacement, scheme;
    bool split;
};

static rn_status metaspace_fields(struct pipeline *p, struct jread at, struct metaspace *out) {
    struct vocab_field field[] = {{.key = "replacement"},
                                  {.key = "prepend_scheme"},
                                  {.key = "add_prefix_space"},
                                  {.key = "split"}};
    *out = (struct metaspace){span_of(VOCAB_MARKER), span_of("always"), true};
    bool add_space = true; // how the scheme was written once
    rn_status s = vocab_fields_read(p->file, at, field, 4);
    if (s) return s;
    if ((s = vocab_field_span(p->file, &field[0], &out->replacement))) return s;
    if ((s = vocab_field_span(p->file, &field[1], &out->scheme))) return s;
    if ((s = vocab_field_bool(p->file, &field[2], &add_space))) return s;
    if (!add_space) out->scheme = span_of("never");
    return vocab_field_bool(p->file, &field[3], &out->split);
}

static rn_status metaspace_read(struct pipeline *p, struct jread at) {
    struct metaspace m;
    rn_status s = metaspace_fields(p, at, &m);
    if (s) return s;
    if (!vocab_span_equals(m.replacement, VOCAB_MARKER))
        return unsupported(p, "a Metaspace whose replacement is", m.replacement);
    if (p->out->n_split) return split_unsupported(p, span_of("Metaspace behind another"));
    p->out->has_marker = true;
    const struct text_span marker = span_of(VOCAB_MARKER);
    s = normal_add(p, (struct vocab_normal){NORMAL_REPLACE, .from = span_of(" "), .to = marker});
    if (s) return s;
    if (vocab_span_equals(m.scheme, "always")) {
        s = normal_add(p, (struct vocab_normal){NORMAL_PREPEND_ONCE, .to = marker});
    } else if (vocab_span_equals(m.scheme, "first")) {
        s = normal_add(p, (struct vocab_normal){NORMAL_PREPEND_FIRST, .to = marker});
    } else if (!vocab_span_equals(m.scheme, "never")) {
        s = unsupported(p, "a Metaspace whose prepend_scheme is", m.scheme);
    }
    if (s || !m.split) return s;
    return split_add(p, (struct vocab_split){.kind = SPLIT_LITERAL,
                                             .behavior = SPLIT_MERGED_WITH_NEXT,
                                             .pattern = marker});
}

static rn_status pre_tokenizer_read(struct pipeline *p, struct jread at);

static rn_status pre_tokenizers_read(struct pipeline *p, struct jread at) {
    return sequence_read(p, at, "pretokenizers", pre_tokenizer_read);
}

static rn_status pre_tokenizer_read(struct pipeline *p, struct jread at) {
    static const struct part table[] = {
        {"ByteLevel", byte_level_read},
        {"Split", split_read},
        {"Digits", digits_read},
        {"Punctuation", punctuation_read},
        {"Whitespace", whitespace_read},
        {"WhitespaceSplit", whitespace_split_read},
        {"Metaspace", metaspace_read},
        {"Sequence", pre_tokenizers_read},
        {NULL, NULL},
    };
    return part_read(p, at, table, split_unsupported);
}

// --- decoders ---

static rn_status decode_bytes_read(struct pipeline *p, struct jread at) {
    (void)at;
    p->out->is_byte_level = true;
    return RN_OK;
}

static rn_status decode_fallback_read(struct pipeline *p, struct jread at) {
    (void)at;
    p->out->has_bytes = true;
    return RN_OK;
}

static rn_status decode_replace_read(struct pipeline *p, struct jread at) {
    struct vocab_field field[] = {{.key = "pattern"}, {.key = "content"}};
    struct text_span from = {0}, to = {0};
    bool is_regex;
    rn_status s = vocab_fields_read(p->file, at, field, 2);
    if (s) return s;
    if ((s = pattern_read(p, at, &field[0], &is_regex, &from))) return s;
    if ((s = vocab_field_span(p->file, &field[1], &to))) return s;
    if (is_regex || !vocab_span_equals(from, VOCAB_MARKER) || !vocab_span_equals(to, " "))
        return unsupported(p, "a decoder that replaces", from);
    p->out->has_marker = true;
    return RN_OK;
}

static rn_status decode_strip_read(struct pipeline *p, struct jread at) {
    struct vocab_field field[] = {{.key = "content"}, {.key = "start"}, {.key = "stop"}};
    struct text_span content = {0};
    int64_t count[2] = {0, 0};
    rn_status s = vocab_fields_read(p->file, at, field, 3);
    if (s) return s;
    if ((s = vocab_field_span(p->file, &field[0], &content))) return s;
    for (int i = 0; i < 2; i++) {
        struct jread r = field[i + 1].at;
        if (field[i + 1].is_found && !jread_i64(&r, &count[i])) return bad_json(p, &r);
    }
    if (count[0] == 0 && count[1] == 0) return RN_OK;
    if (!vocab_span_equals(content, " ") || count[0] != 1 || count[1] != 0)
        return unsupported(p, "a decoder that strips", content);
    p->out->strip_space = true;
    return RN_OK;
}

static rn_status decode_metaspace_read(struct pipeline *p, struct jread at) {
    struct metaspace m;
    const rn_status s = metaspace_fields(p, at, &m);
    if (s) return s;
    if (!vocab_span_equals(m.replacement, VOCAB_MARKER))
        return unsupported(p, "a Metaspace whose replacement is", m.replacement);
    p->out->has_marker = true;
    p->out->strip_space = !vocab_span_equals(m.scheme, "never");
    return RN_OK;
}

static rn_status decoder_read(struct pipeline *p, struct jread at);

static rn_status decoders_read(struct pipeline *p, struct jread at) {
    return sequence_read(p, at, "decoders", decoder_read);
}

static rn_status decoder_unknown(struct pipeline *p, struct text_span type) {
    return unsupported(p, "decoder", type);
}

static rn_status decoder_read(struct pipeline *p, struct jread at) {
    static const struct part table[] = {
        {"ByteLevel", decode_bytes_read},
        {"ByteFallback", decode_fallback_read},
        {"Fuse", NULL},
        {"Replace", decode_replace_read},
        {"Strip", decode_strip_read},
        {"Metaspace", decode_metaspace_read},
        {"Sequence", decoders_read},
        {NULL, NULL},
    };
    return part_read(p, at, table, decoder_unknown);
}

// --- post-processors: the tokens around a text ---

// ["</s>", 2]
static rn_status pair_read(struct pipeline *p, struct jread at, const struct vocab_field *field,
                           int64_t *id) {
    if (!field->is_found) return vocab_missing(p->file, &at, field->key);
    struct jread r = field->at;
    if (jread_enter_array(&r) && jread_next_item(&r) && jread_skip(&r) && jread_next_item(&r) &&
        jread_i64(&r, id))
        return RN_OK;
    jread_fail(&r, "expected a token and its id");
    return bad_json(p, &r);
}

static rn_status roberta_read(struct pipeline *p, struct jread at) {
    struct vocab_field field[] = {{.key = "cls"}, {.key = "sep"}};
    rn_status s = vocab_fields_read(p->file, at, field, 2);
    if (s) return s;
    if ((s = pair_read(p, at, &field[0], &p->out->before))) return s;
    return pair_read(p, at, &field[1], &p->out->after);
}

// The id that special_tokens gives for the name.
static rn_status special_find(struct pipeline *p, struct jread at, const struct vocab_field *map,
                              struct text_span name, int64_t *id) {
    if (!map->is_found) return vocab_missing(p->file, &at, map->key);
    struct jread r = map->at;
    struct jread_text key;
    struct vocab_field ids = {.key = "ids"};
    if (!jread_enter_object(&r)) return bad_json(p, &r);
    while (jread_next_key(&r, &key)) {
        char text[512]; // longer names are not found
        const bool fits = key.len <= sizeof text;
        const size_t len = fits ? jread_unescape(&key, text) : 0;
        if (!fits || len != name.len || memcmp(text, name.data, len) != 0) {
            jread_skip(&r);
            continue;
        }
        const rn_status s = vocab_fields_read(p->file, r, &ids, 1);
        if (s) return s;
        if (!ids.is_found) return vocab_missing(p->file, &r, "ids");
        r = ids.at;
        if (!jread_enter_array(&r) || !jread_next_item(&r) || !jread_i64(&r, id))
            return jread_fail(&r, "expected an id"), bad_json(p, &r);
        if (jread_next_item(&r)) return unsupported(p, "a template with several ids of", name);
        return RN_OK;
    }
    return err_set(p->file->err, RN_ERR_MODEL,
                   "%s: the template's token %.*s is not in special_tokens", p->file->name,
                   vocab_span_shown(name), name.data);
}

// One member of a template: {"SpecialToken": {"id": ...}} or {"Sequence": {"id": "A"}}.
static rn_status template_item(struct pipeline *p, struct jread at, const struct vocab_field *map,
                               bool *is_behind) {
    struct vocab_field field[] = {{.key = "SpecialToken"}, {.key = "Sequence"}};
    struct vocab_field id = {.key = "id"};
    struct text_span name = {0};
    rn_status s = vocab_fields_read(p->file, at, field, 2);
    if (s) return s;
    if (!field[0].is_found && !field[1].is_found)
        return vocab_missing(p->file, &at, "SpecialToken");
    if (field[1].is_found) {
        *is_behind = true;
        return RN_OK;
    }
    if ((s = vocab_fields_read(p->file, field[0].at, &id, 1))) return s;
    if (!id.is_found) return vocab_missing(p->file, &field[0].at, "id");
    if ((s = vocab_field_span(p->file, &id, &name))) return s;
    int64_t *const place = *is_behind ? &p->out->after : &p->out->before;
    if (*place != -1) return unsupported(p, "a template with one more token,", name);
    return special_find(p, at, map, name, place);
}

static rn_status template_read(struct pipeline *p, struct jread at) {
    struct vocab_field field[] = {{.key = "single"}, {.key = "special_tokens"}};
    bool is_behind = false;
    rn_status s = vocab_fields_read(p->file, at, field, 2);
    if (s) return s;
    if (!field[0].is_found) return vocab_missing(p->file, &at, "single");
    struct jread r = field[0].at;
    if (!jread_enter_array(&r)) return bad_json(p, &r);
    while (jread_next_item(&r)) {
        if ((s = template_item(p, r, &field[1], &is_behind))) return s;
        if (!jread_skip(&r)) break;
    }
    return bad_json(p, &r);
}

static rn_status post_processor_read(struct pipeline *p, struct jread at);

static rn_status post_processors_read(struct pipeline *p, struct jread at) {
    return sequence_read(p, at, "processors", post_processor_read);
}

static rn_status post_processor_unknown(struct pipeline *p, struct text_span type) {
    return unsupported(p, "post-processor", type);
}

static rn_status post_processor_read(struct pipeline *p, struct jread at) {
    static const struct part table[] = {
        {"ByteLevel", NULL}, // about offsets alone
        {"TemplateProcessing", template_read},
        {"RobertaProcessing", roberta_read},
        {"BertProcessing", roberta_read},
        {"Sequence", post_processors_read},
        {NULL, NULL},
    };
    return part_read(p, at, table, post_processor_unknown);
}

// --- the calls of vocab_json.c ---

static rn_status field_read(const struct vocab_file *file, const struct vocab_field *field,
                            struct vocab_pipeline *out, part_fn read) {
    if (!field->is_found) return RN_OK;
    struct pipeline p = {file, out};
    return read(&p, field->at);
}

rn_status vocab_normalizer_read(const struct vocab_file *file, const struct vocab_field *field,
                                struct vocab_pipeline *out) {
    return field_read(file, field, out, normalizer_read);
}

rn_status vocab_pre_tokenizer_read(const struct vocab_file *file, const struct vocab_field *field,
                                   struct vocab_pipeline *out) {
    return field_read(file, field, out, pre_tokenizer_read);
}

rn_status vocab_post_processor_read(const struct vocab_file *file, const struct vocab_field *field,
                                    struct vocab_pipeline *out) {
    out->before = out->after = -1;
    return field_read(file, field, out, post_processor_read);
}

rn_status vocab_decoder_read(const struct vocab_file *file, const struct vocab_field *field,
                             struct vocab_pipeline *out) {
    return field_read(file, field, out, decoder_read);
}
