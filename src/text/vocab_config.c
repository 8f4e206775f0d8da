// Reads the vocabulary's settings in tokenizer_config.json and puts them over those of the
// vocabulary's own file. special_tokens_map.json has the same members, so it can be read as well.
// Members that nothing here needs are skipped, with any content. Called by load/vocab_folder.c.
#include <string.h>

#include "text/vocab_fields.h"

static rn_status bad_json(const struct vocab_file *file, const struct jread *r) {
    return jread_status(r, file->name, file->err);
}

// "<s>" or {"content": "<s>", ...}.
static rn_status token_read(const struct vocab_file *file, const struct vocab_field *field,
                            struct text_span *out) {
    if (!field->is_found) return RN_OK;
    struct jread r = field->at;
    if (jread_peek(&r) != JREAD_OBJECT) return vocab_span_read(file, &r, out);
    struct vocab_field content = {.key = "content"};
    const rn_status s = vocab_fields_read(file, r, &content, 1);
    return s ? s : vocab_field_span(file, &content, out);
}

static rn_status choice_read(const struct vocab_file *file, const struct vocab_field *field,
                             int *out) {
    bool value = false;
    const rn_status s = vocab_field_bool(file, field, &value);
    if (!s && field->is_found) *out = value;
    return s;
}

// A text, or a list of {"name": ..., "template": ...}: the entry named "default", or the first.
static rn_status template_read(const struct vocab_file *file, const struct vocab_field *field,
                               struct text_span *out) {
    if (!field->is_found) return RN_OK;
    struct jread r = field->at;
    if (jread_peek(&r) == JREAD_STRING) return vocab_span_read(file, &r, out);
    if (!jread_enter_array(&r)) return bad_json(file, &r);
    for (bool is_first = true; jread_next_item(&r); is_first = false) {
        struct vocab_field item[] = {{.key = "name"}, {.key = "template"}};
        struct text_span name = {0};
        rn_status s = vocab_fields_read(file, r, item, 2);
        if (s) return s;
        if ((s = vocab_field_span(file, &item[0], &name))) return s;
        if (is_first || vocab_span_equals(name, "default"))
            if ((s = vocab_field_span(file, &item[1], out))) return s;
        if (!jread_skip(&r)) break;
    }
    return bad_json(file, &r);
}

// --- added_tokens_decoder: {"32000": {"content": ..., flags}, ...} ---

static bool id_parse(const struct jread_text *key, int32_t *out) {
    if (key->len == 0 || key->len > 7 || key->has_escape) return false;
    *out = 0;
    for (size_t i = 0; i < key->len; i++) {
        if (key->data[i] < '0' || key->data[i] > '9') return false;
        *out = *out * 10 + (key->data[i] - '0');
    }
    return *out < VOCAB_MAX_TOKENS;
}

static rn_status added_count(const struct vocab_file *file, const struct vocab_field *field,
                             int32_t *count) {
    struct jread r = field->at;
    struct jread_text key;
    int32_t id;
    if (!jread_enter_object(&r)) return bad_json(file, &r);
    while (jread_next_key(&r, &key)) {
        if (!id_parse(&key, &id)) jread_fail(&r, "expected a token id from 0 to 524287 as key");
        if (++*count > VOCAB_MAX_TOKENS) jread_fail(&r, "more than 524288 added tokens");
        if (!jread_skip(&r)) break;
    }
    return bad_json(file, &r);
}

static rn_status added_read(const struct vocab_file *file, const struct vocab_field *field,
                            struct vocab_config *out) {
    if (!field->is_found) return RN_OK;
    int32_t count = 0;
    rn_status s = added_count(file, field, &count);
    if (s) return s;
    struct vocab_added *const added = arena_array(file->arena, (size_t)count, sizeof *added);
    if (!added) return vocab_no_memory(file);
    struct jread r = field->at;
    struct jread_text key;
    jread_enter_object(&r);
    for (struct vocab_added *at = added; jread_next_key(&r, &key); at++) {
        id_parse(&key, &at->id);
        if ((s = vocab_added_read(file, r, at))) return s;
        jread_skip(&r);
    }
    out->added = added;
    out->n_added = count;
    return RN_OK;
}

rn_status vocab_config_read(const char *json, size_t len, struct arena *arena,
                            struct vocab_config *out, rn_error *err) {
    const struct vocab_file file = {"tokenizer_config.json", arena, err};
    struct vocab_field field[] = {{.key = "bos_token"},
                                  {.key = "eos_token"},
                                  {.key = "unk_token"},
                                  {.key = "add_bos_token"},
                                  {.key = "add_eos_token"},
                                  {.key = "chat_template"},
                                  {.key = "added_tokens_decoder"},
                                  {.key = "pad_token"}};
    *out = (struct vocab_config){.add_bos = -1, .add_eos = -1};
    struct jread r;
    rn_status s;
    jread_init(&r, json, len);
    if (!vocab_fields_walk(&r, field, 8, NULL) || !jread_finish(&r)) return bad_json(&file, &r);
    if ((s = token_read(&file, &field[0], &out->bos))) return s;
    if ((s = token_read(&file, &field[1], &out->eos))) return s;
    if ((s = token_read(&file, &field[2], &out->unk))) return s;
    if ((s = token_read(&file, &field[7], &out->pad))) return s;
    if ((s = choice_read(&file, &field[3], &out->add_bos))) return s;
    if ((s = choice_read(&file, &field[4], &out->add_eos))) return s;
    if ((s = template_read(&file, &field[5], &out->chat_template))) return s;
    return added_read(&file, &field[6], out);
}

// --- apply ---

struct applier {
    struct vocab_file file;
    struct vocab_source *source;
    struct text_span *token; // copies, long enough for the ids of added tokens
    int32_t *type;
    float *score;
    struct vocab_added *added;
    int32_t n_added;
};

// Copies of the source's arrays that can be changed; new tokens in them are unused.
static rn_status arrays_copy(struct applier *a, const struct vocab_config *config) {
    struct vocab_source *const source = a->source;
    const int32_t n_old = source->n_token;
    int32_t n = n_old;
    for (int32_t i = 0; i < config->n_added; i++)
        if (config->added[i].id >= n) n = config->added[i].id + 1;
    const size_t n_added = (size_t)source->n_added + (size_t)config->n_added;
    a->token = arena_array(a->file.arena, (size_t)n, sizeof *a->token);
    a->type = arena_array(a->file.arena, (size_t)n, sizeof *a->type);
    a->score = arena_array(a->file.arena, (size_t)n, sizeof *a->score);
    a->added = arena_array(a->file.arena, n_added, sizeof *a->added);
    if (!a->token || !a->type || !a->score || !a->added) return vocab_no_memory(&a->file);
    for (int32_t i = 0; i < n; i++) {
        a->token[i] = i < n_old ? source->token[i] : (struct text_span){"", 0};
        a->type[i] = i >= n_old ? TOKEN_UNUSED : source->type ? source->type[i] : TOKEN_NORMAL;
        if (i < n_old && source->score) a->score[i] = source->score[i];
    }
    for (int32_t i = 0; i < source->n_added; i++) a->added[i] = source->added[i];
    a->n_added = source->n_added;
    source->token = a->token;
    source->type = a->type;
    if (source->score) source->score = a->score;
    source->n_token = n;
    return RN_OK;
}

// One added token over the pieces of a tokenizer.model. `place` says where ids already have theirs
// in a->added, + 1.
static rn_status added_put(struct applier *a, const struct vocab_added *new, int32_t *place) {
    int32_t *const type = &a->type[new->id];
    if (place[new->id] && *type == TOKEN_USER_DEFINED && !new->special) {
        struct vocab_added *const old = &a->added[place[new->id] - 1]; // sought as the model does
        old->lstrip = new->lstrip;
        old->rstrip = new->rstrip;
        old->single_word = new->single_word;
        return RN_OK;
    }
    if (!place[new->id]) place[new->id] = ++a->n_added;
    a->added[place[new->id] - 1] = *new;
    if (*type != TOKEN_UNKNOWN) *type = new->special ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
    a->token[new->id] = new->text;
    return vocab_span_unmark(&a->file, &a->token[new->id]);
}

static rn_status added_apply(struct applier *a, const struct vocab_config *config) {
    rn_status s = arrays_copy(a, config);
    if (s) return s;
    int32_t *const place = arena_array(a->file.arena, (size_t)a->source->n_token, sizeof *place);
    if (!place) return vocab_no_memory(&a->file);
    for (int32_t i = 0; i < a->n_added; i++) place[a->added[i].id] = i + 1;
    for (int32_t i = 0; i < config->n_added; i++)
        if ((s = added_put(a, &config->added[i], place))) return s;
    a->source->added = a->added;
    a->source->n_added = a->n_added;
    return RN_OK;
}

static bool span_is(struct text_span a, struct text_span b) {
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

// -1: no token has the text.
static int32_t token_find(const struct vocab_source *source, struct text_span text) {
    for (int32_t i = 0; i < source->n_added; i++)
        if (span_is(source->added[i].text, text)) return source->added[i].id;
    for (int32_t i = 0; i < source->n_token; i++)
        if ((!source->type || source->type[i] != TOKEN_UNUSED) && span_is(source->token[i], text))
            return i;
    return -1;
}

// Replaces *id where the file names a token. If the vocabulary's file itself says which tokens are
// put around a text, those stay; an end is then one more end.
static void id_apply(struct vocab_source *source, struct text_span name, bool is_kept, int32_t *id,
                     bool *is_lost) {
    *is_lost = false;
    if (!name.len) return;
    const int32_t found = token_find(source, name);
    *is_lost = found < 0;
    if (found < 0) return;
    if (!is_kept) {
        *id = found;
    } else if (id == &source->eos && *id != found && source->n_end < VOCAB_MAX_ENDS) {
        source->end[source->n_end++] = found;
    }
}

static rn_status lost(const struct applier *a, const char *key, struct text_span name) {
    return err_set(a->file.err, RN_ERR_MODEL, "%s: %s \"%.*s\" is not in the vocabulary",
                   a->file.name, key, vocab_span_shown(name), name.data);
}

rn_status vocab_config_apply(const struct vocab_config *config, struct arena *arena,
                             struct vocab_source *source, rn_error *err) {
    struct applier a = {.file = {"tokenizer_config.json", arena, err}, .source = source};
    bool bos_lost, eos_lost, unk_lost, pad_lost;
    // A tokenizer.json has them all itself.
    if (source->model == VOCAB_SPM_SCORE && config->n_added) {
        const rn_status s = added_apply(&a, config);
        if (s) return s;
    }
    const bool has_template = source->model != VOCAB_SPM_SCORE;
    const bool keeps_bos = has_template && source->add_bos && config->add_bos < 0;
    const bool keeps_eos = has_template && source->add_eos && config->add_eos < 0;
    id_apply(source, config->bos, keeps_bos, &source->bos, &bos_lost);
    id_apply(source, config->eos, keeps_eos, &source->eos, &eos_lost);
    // The model's own file names the token for unknown text; often the name here has no token.
    const bool keeps_unk = source->model == VOCAB_BYTE_LEVEL || source->unk >= 0;
    id_apply(source, config->unk, keeps_unk, &source->unk, &unk_lost);
    id_apply(source, config->pad, false, &source->pad, &pad_lost); // nothing here needs it
    if (config->add_bos >= 0) source->add_bos = config->add_bos;
    if (config->add_eos >= 0) source->add_eos = config->add_eos;
    // Generation would not stop, or would begin with something else than it should.
    if (eos_lost) return lost(&a, "eos_token", config->eos);
    if (bos_lost && source->add_bos) return lost(&a, "bos_token", config->bos);
    if (source->bos < 0) source->add_bos = false;
    if (source->eos < 0) source->add_eos = false;
    return RN_OK;
}
