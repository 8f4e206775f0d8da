// Reads a tokenizer.json of Hugging Face into a vocab_source. One pass finds the sections and
// checks the JSON, one sizes the vocabulary and the merges, one reads them; no tree is built.
// Strings are borrowed from the file, those with escapes are resolved into the arena. The
// pipeline's parts are read by vocab_pipeline.c. Called by load/vocab_folder.c.
#include <stdlib.h>
#include <string.h>

#include "text/vocab_pipeline.h"

enum { VOCAB, MERGES, TYPE, UNK, FUSE_UNK, BYTE_FALLBACK, IGNORE_MERGES, PREFIX, SUFFIX, N_MODEL };

struct json_reader {
    struct vocab_file file;
    struct vocab_source *out;
    struct vocab_field model[N_MODEL];
    struct vocab_pipeline pipeline;
    struct text_span *token; // [n_token]; data is NULL where the id is not taken
    int32_t *type;           // [n_token]
    struct vocab_merge *merge;
    struct vocab_added *added;
    int32_t n_added;
};

static rn_status bad_json(const struct json_reader *c, const struct jread *r) {
    return jread_status(r, c->file.name, c->file.err);
}

static rn_status bad_text(const struct json_reader *c, struct jread *r, const char *literal) {
    jread_fail(r, literal);
    return bad_json(c, r);
}

static rn_status bad_id(const struct json_reader *c, const struct jread *r, int64_t id) {
    return err_set(c->file.err, RN_ERR_MODEL, "%s: offset %zu: token id %lld, expected 0 to %d",
                   c->file.name, (size_t)(r->at - r->begin), (long long)id, VOCAB_MAX_TOKENS - 1);
}

// --- the added tokens ---

static rn_status added_count(struct json_reader *c, const struct vocab_field *field) {
    if (!field->is_found) return RN_OK;
    struct jread r = field->at;
    if (!jread_enter_array(&r)) return bad_json(c, &r);
    while (jread_next_item(&r)) {
        if (++c->n_added > VOCAB_MAX_TOKENS) return bad_text(c, &r, "too many added tokens");
        if (!jread_skip(&r)) break;
    }
    return bad_json(c, &r);
}

static rn_status added_item(struct json_reader *c, struct jread at, struct vocab_added *out) {
    struct vocab_field id = {.key = "id"};
    int64_t value;
    rn_status s = vocab_fields_read(&c->file, at, &id, 1);
    if (s) return s;
    if (!id.is_found) return vocab_missing(&c->file, &at, "id");
    if (!jread_i64(&id.at, &value)) return bad_json(c, &id.at);
    if (value < 0 || value >= VOCAB_MAX_TOKENS) return bad_id(c, &id.at, value);
    out->id = (int32_t)value;
    return vocab_added_read(&c->file, at, out);
}

static rn_status added_read(struct json_reader *c, const struct vocab_field *field,
                            int32_t *n_token) {
    rn_status s = added_count(c, field);
    if (s || !c->n_added) return s;
    c->added = arena_array(c->file.arena, (size_t)c->n_added, sizeof *c->added);
    if (!c->added) return vocab_no_memory(&c->file);
    struct jread r = field->at;
    jread_enter_array(&r);
    for (struct vocab_added *at = c->added; jread_next_item(&r); at++) {
        if ((s = added_item(c, r, at))) return s;
        if (at->id >= *n_token) *n_token = at->id + 1;
        jread_skip(&r);
    }
    return RN_OK;
}

// Over the model's own: the text of an added token is plain, and decoding gives that text.
static rn_status added_put(struct json_reader *c) {
    for (int32_t i = 0; i < c->n_added; i++) {
        const struct vocab_added *const added = &c->added[i];
        int32_t *const type = &c->type[added->id];
        if (*type == TOKEN_CONTROL || *type == TOKEN_USER_DEFINED)
            return err_set(c->file.err, RN_ERR_MODEL, "%s: two added tokens have the id %d",
                           c->file.name, added->id);
        *type = added->special ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
        c->token[added->id] = added->text;
    }
    c->out->added = c->added;
    c->out->n_added = c->n_added;
    return RN_OK;
}

// --- the model ---

// The highest id of the vocabulary + 1.
static rn_status vocab_size(struct json_reader *c, int32_t *n_token) {
    struct jread r = c->model[VOCAB].at;
    struct jread_text key;
    int64_t id;
    if (!jread_enter_object(&r)) return bad_json(c, &r);
    while (jread_next_key(&r, &key) && jread_i64(&r, &id)) {
        if (id < 0 || id >= VOCAB_MAX_TOKENS) return bad_id(c, &r, id);
        if (id >= *n_token) *n_token = (int32_t)id + 1;
    }
    return bad_json(c, &r);
}

// Values between 0 and n_token: vocab_size has seen them.
static rn_status vocab_read(struct json_reader *c) {
    struct jread r = c->model[VOCAB].at;
    struct jread_text key;
    int64_t id;
    jread_enter_object(&r);
    while (jread_next_key(&r, &key) && jread_i64(&r, &id)) {
        struct text_span *const token = &c->token[id];
        if (c->type[id] != TOKEN_UNUSED)
            return err_set(c->file.err, RN_ERR_MODEL,
                           "%s: offset %zu: \"%.*s\" and \"%.*s\" have the id %lld", c->file.name,
                           (size_t)(r.at - r.begin), vocab_span_shown(*token), token->data,
                           (int)(key.len < 100 ? key.len : 100), key.data, (long long)id);
        c->type[id] = TOKEN_NORMAL;
        *token = (struct text_span){key.data, key.len};
        if (!key.has_escape) continue;
        char *const resolved = arena_alloc(c->file.arena, key.len);
        if (!resolved) return vocab_no_memory(&c->file);
        *token = (struct text_span){resolved, jread_unescape(&key, resolved)};
    }
    return bad_json(c, &r);
}

static rn_status tokens_read(struct json_reader *c, const struct vocab_field *added) {
    int32_t n = 0;
    rn_status s = vocab_size(c, &n);
    if (s) return s;
    if ((s = added_read(c, added, &n))) return s;
    c->token = arena_array(c->file.arena, (size_t)n, sizeof *c->token);
    c->type = arena_array(c->file.arena, (size_t)n, sizeof *c->type);
    if (!c->token || !c->type) return vocab_no_memory(&c->file);
    for (int32_t i = 0; i < n; i++) {
        c->token[i].data = "";
        c->type[i] = TOKEN_UNUSED;
    }
    if ((s = vocab_read(c))) return s;
    c->out->token = c->token;
    c->out->type = c->type;
    c->out->n_token = n;
    return added_put(c);
}

// "a b"
static rn_status merge_split(struct json_reader *c, struct jread *r, struct vocab_merge *out) {
    struct text_span both;
    const struct jread at = *r;
    const rn_status s = vocab_span_read(&c->file, r, &both);
    if (s) return s;
    const char *const blank = memchr(both.data, ' ', both.len);
    const size_t len = blank ? (size_t)(blank - both.data) : 0;
    if (!blank || memchr(blank + 1, ' ', both.len - len - 1)) {
        *r = at;
        return bad_text(c, r, "expected a merge of two tokens with one space between them");
    }
    out->left = (struct text_span){both.data, len};
    out->right = (struct text_span){blank + 1, both.len - len - 1};
    return RN_OK;
}

// ["a", "b"]
static rn_status merge_pair(struct json_reader *c, struct jread *r, struct vocab_merge *out) {
    rn_status s = RN_OK;
    if (!jread_enter_array(r)) return bad_json(c, r);
    if (jread_next_item(r) && (s = vocab_span_read(&c->file, r, &out->left))) return s;
    if (jread_next_item(r) && (s = vocab_span_read(&c->file, r, &out->right))) return s;
    if (r->error || !out->left.data || !out->right.data || jread_next_item(r))
        return bad_text(c, r, "expected a merge of two tokens");
    return RN_OK;
}

static rn_status merges_count(struct json_reader *c, int32_t *count) {
    struct jread r = c->model[MERGES].at;
    if (!jread_enter_array(&r)) return bad_json(c, &r);
    while (jread_next_item(&r)) {
        if (++*count > VOCAB_MAX_TOKENS) return bad_text(c, &r, "more than 524288 merges");
        if (!jread_skip(&r)) break;
    }
    return bad_json(c, &r);
}

static rn_status merges_read(struct json_reader *c) {
    int32_t count = 0;
    rn_status s = merges_count(c, &count);
    if (s) return s;
    struct vocab_merge *const merge = arena_array(c->file.arena, (size_t)count, sizeof *merge);
    if (!merge) return vocab_no_memory(&c->file);
    struct jread r = c->model[MERGES].at;
    jread_enter_array(&r);
    for (struct vocab_merge *at = merge; jread_next_item(&r); at++) {
        s = jread_peek(&r) == JREAD_ARRAY ? merge_pair(c, &r, at) : merge_split(c, &r, at);
        if (s) return s;
    }
    c->out->merge = merge;
    c->out->n_merge = count;
    return bad_json(c, &r);
}

static rn_status check_type(struct json_reader *c, const struct jread *at) {
    struct text_span type = {"BPE", 3}, prefix = {0}, suffix = {0};
    rn_status s;
    if ((s = vocab_field_span(&c->file, &c->model[TYPE], &type))) return s;
    if (!vocab_span_equals(type, "BPE"))
        return err_set(c->file.err, RN_ERR_UNSUPPORTED,
                       "%s: a tokenizer of type %.*s is not supported, only BPE", c->file.name,
                       vocab_span_shown(type), type.data);
    if (!c->model[VOCAB].is_found) return vocab_missing(&c->file, at, "vocab");
    if (!c->model[MERGES].is_found) return vocab_missing(&c->file, at, "merges");
    if ((s = vocab_field_span(&c->file, &c->model[PREFIX], &prefix))) return s;
    if ((s = vocab_field_span(&c->file, &c->model[SUFFIX], &suffix))) return s;
    if (prefix.len || suffix.len)
        return err_set(c->file.err, RN_ERR_UNSUPPORTED, "%s: %s is not supported", c->file.name,
                       prefix.len ? "continuing_subword_prefix" : "end_of_word_suffix");
    return RN_OK;
}

static rn_status flags_read(struct json_reader *c) {
    rn_status s;
    if ((s = vocab_field_bool(&c->file, &c->model[FUSE_UNK], &c->out->fuse_unk))) return s;
    if ((s = vocab_field_bool(&c->file, &c->model[BYTE_FALLBACK], &c->out->byte_fallback)))
        return s;
    return vocab_field_bool(&c->file, &c->model[IGNORE_MERGES], &c->out->ignore_merges);
}

// Needs the tokens. In the byte-level form every text has tokens, so a name without one is
// harmless.
static rn_status unk_read(struct json_reader *c) {
    struct text_span name = {0};
    const rn_status s = vocab_field_span(&c->file, &c->model[UNK], &name);
    if (s || !c->model[UNK].is_found) return s;
    for (int32_t i = 0; i < c->out->n_token; i++) {
        if (c->type[i] == TOKEN_UNUSED || c->token[i].len != name.len ||
            memcmp(c->token[i].data, name.data, name.len) != 0)
            continue;
        if (c->type[i] == TOKEN_NORMAL) c->type[i] = TOKEN_UNKNOWN;
        c->out->unk = i;
        return RN_OK;
    }
    if (c->out->model == VOCAB_BYTE_LEVEL) return RN_OK;
    return err_set(c->file.err, RN_ERR_MODEL, "%s: unk_token \"%.*s\" is not in the vocabulary",
                   c->file.name, vocab_span_shown(name), name.data);
}

// <0xNN>, where they mean bytes.
static void bytes_mark(struct json_reader *c) {
    static const char digits[] = "0123456789ABCDEF";
    if (c->out->model == VOCAB_BYTE_LEVEL) return;
    if (!c->out->byte_fallback && !c->pipeline.has_bytes) return;
    for (int32_t i = 0; i < c->out->n_token; i++) {
        const struct text_span token = c->token[i];
        if (c->type[i] != TOKEN_NORMAL || token.len != 6 || memcmp(token.data, "<0x", 3) != 0)
            continue;
        if (memchr(digits, token.data[3], 16) && memchr(digits, token.data[4], 16) &&
            token.data[5] == '>')
            c->type[i] = TOKEN_BYTE;
    }
}

// --- the whole ---

static rn_status around_read(struct json_reader *c) {
    const int64_t id[2] = {c->pipeline.before, c->pipeline.after};
    for (int i = 0; i < 2; i++)
        if (id[i] != -1 && (id[i] < 0 || id[i] >= c->out->n_token))
            return err_set(c->file.err, RN_ERR_MODEL,
                           "%s: the post-processor's token id %lld, expected 0 to %d", c->file.name,
                           (long long)id[i], c->out->n_token - 1);
    c->out->bos = (int32_t)id[0];
    c->out->eos = (int32_t)id[1];
    c->out->add_bos = id[0] != -1;
    c->out->add_eos = id[1] != -1;
    return RN_OK;
}

static rn_status steps_copy(struct json_reader *c) {
    const struct vocab_pipeline *const p = &c->pipeline;
    struct vocab_normal *normal =
        arena_array(c->file.arena, (size_t)p->n_normal, sizeof *p->normal);
    struct vocab_split *split = arena_array(c->file.arena, (size_t)p->n_split, sizeof *p->split);
    if (!normal || !split) return vocab_no_memory(&c->file);
    memcpy(normal, p->normal, (size_t)p->n_normal * sizeof *p->normal);
    memcpy(split, p->split, (size_t)p->n_split * sizeof *p->split);
    c->out->normal = normal;
    c->out->n_normal = p->n_normal;
    c->out->split = split;
    c->out->n_split = p->n_split;
    c->out->strip_space = p->strip_space;
    return RN_OK;
}

static rn_status pipeline_read(struct json_reader *c, const struct vocab_field *section) {
    rn_status s;
    if ((s = vocab_normalizer_read(&c->file, &section[0], &c->pipeline))) return s;
    if ((s = vocab_pre_tokenizer_read(&c->file, &section[1], &c->pipeline))) return s;
    if ((s = vocab_post_processor_read(&c->file, &section[2], &c->pipeline))) return s;
    if ((s = vocab_decoder_read(&c->file, &section[3], &c->pipeline))) return s;
    if (!c->pipeline.is_byte_level && !c->pipeline.has_marker)
        return err_set(c->file.err, RN_ERR_UNSUPPORTED,
                       "%s: a vocabulary that is neither byte-level nor has U+2581 for spaces is "
                       "not supported",
                       c->file.name);
    c->out->model = c->pipeline.is_byte_level ? VOCAB_BYTE_LEVEL : VOCAB_SPM_RANK;
    return steps_copy(c);
}

static rn_status reader_run(struct json_reader *c, const char *json, size_t len) {
    struct vocab_field section[] = {{.key = "normalizer"},     {.key = "pre_tokenizer"},
                                    {.key = "post_processor"}, {.key = "decoder"},
                                    {.key = "added_tokens"},   {.key = "model"}};
    const struct vocab_field *const model = &section[5];
    const struct vocab_within within = {model->key, c->model, N_MODEL};
    struct jread r;
    rn_status s;
    jread_init(&r, json, len);
    if (!vocab_fields_walk(&r, section, 6, &within) || !jread_finish(&r)) return bad_json(c, &r);
    if (!model->is_found)
        return err_set(c->file.err, RN_ERR_MODEL, "%s: \"model\" is missing", c->file.name);
    if ((s = check_type(c, &model->at))) return s;
    if ((s = flags_read(c))) return s;
    if ((s = pipeline_read(c, section))) return s;
    if ((s = tokens_read(c, &section[4]))) return s;
    if ((s = merges_read(c))) return s;
    if ((s = unk_read(c))) return s;
    bytes_mark(c);
    return around_read(c);
}

rn_status vocab_json_read(const char *json, size_t len, struct arena *arena,
                          struct vocab_source *out, rn_error *err) {
    *out = (struct vocab_source){
        .name = "tokenizer.json", .bos = -1, .eos = -1, .unk = -1, .eot = -1, .pad = -1};
    struct json_reader c = {
        .file = {out->name, arena, err},
        .out = out,
        .model = {[VOCAB] = {.key = "vocab"},
                  [MERGES] = {.key = "merges"},
                  [TYPE] = {.key = "type"},
                  [UNK] = {.key = "unk_token"},
                  [FUSE_UNK] = {.key = "fuse_unk"},
                  [BYTE_FALLBACK] = {.key = "byte_fallback"},
                  [IGNORE_MERGES] = {.key = "ignore_merges"},
                  [PREFIX] = {.key = "continuing_subword_prefix"},
                  [SUFFIX] = {.key = "end_of_word_suffix"}},
    };
    return reader_run(&c, json, len);
}
