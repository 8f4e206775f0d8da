// Makes a tokenizer from what a model file says. The file is not trusted: every id, type, string
// and merge is checked here, once, so that encoding and decoding need no checks.
// Ordinary tokens are those that merges may make. Control, unknown and unused tokens are not among
// them, so no plain text can become one of these.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "text/alphabet.h"
#include "text/tokenizer_data.h"
#include "text/unicode.h"

static rn_status check_ids(const struct vocab_source *source, rn_error *err) {
    const struct {
        const char *name;
        int32_t id;
    } ids[] = {{"bos", source->bos},
               {"eos", source->eos},
               {"eot", source->eot},
               {"eom", source->eom}};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (ids[i].id < -1)
            return err_set(err, RN_ERR_MODEL, "tokenizer.ggml.%s_token_id %d is negative",
                           ids[i].name, ids[i].id);
        if (ids[i].id >= source->n_token)
            return err_set(err, RN_ERR_MODEL,
                           "tokenizer.ggml.%s_token_id %d is not below the vocabulary's size, %d",
                           ids[i].name, ids[i].id, source->n_token);
    }
    return RN_OK;
}

static rn_status check_source(const struct vocab_source *source, rn_error *err) {
    const struct text_span *const model = &source->model;
    if (model->len != 4 || memcmp(model->data, "gpt2", 4) != 0) {
        char quoted[64];
        unicode_quote(model->data, model->len, quoted, sizeof quoted);
        return err_set(err, RN_ERR_UNSUPPORTED, "tokenizer model '%s' is not supported", quoted);
    }
    if (source->n_token < 1) return err_set(err, RN_ERR_MODEL, "the vocabulary has no tokens");
    for (int32_t id = 0; source->type && id < source->n_token; id++) {
        if (source->type[id] < 0 || source->type[id] > TOKEN_BYTE)
            return err_set(err, RN_ERR_MODEL,
                           "tokenizer.ggml.token_type[%d] is %d; 0 to %d are known", id,
                           source->type[id], TOKEN_BYTE);
    }
    return check_ids(source, err);
}

// 0 is what files write for tokens of no declared type.
static enum token_type type_of(const struct vocab_source *source, int32_t id) {
    if (!source->type || source->type[id] == 0) return TOKEN_NORMAL;
    return (enum token_type)source->type[id];
}

// Only these are written in the byte-level alphabet; the strings of others are plain text.
static bool in_alphabet(enum token_type type) { return type == TOKEN_NORMAL || type == TOKEN_BYTE; }

// The bytes that a string in the alphabet stands for; what is not of the alphabet stands for
// itself.
static bool alphabet_decode(struct text_span text, char *out, size_t *out_len) {
    *out_len = 0;
    for (size_t at = 0, n; at < text.len; at += n) {
        const int32_t cp = unicode_decode((const uint8_t *)text.data + at, text.len - at, &n);
        if (cp < 0) return false;
        const int byte = alphabet_byte(cp);
        if (byte >= 0) {
            out[(*out_len)++] = (char)byte;
        } else {
            memcpy(out + *out_len, text.data + at, n);
            *out_len += n;
        }
    }
    return true;
}

static rn_status bytes_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                            rn_error *err) {
    const size_t n_token = (size_t)source->n_token;
    uint64_t total = 0;
    for (size_t id = 0; id < n_token; id++) {
        if (!ck_add(total, source->token[id].len, &total) || total > SIZE_MAX)
            return err_set(err, RN_ERR_MODEL, "the vocabulary's strings are too long");
    }
    char *text = arena_alloc(&tokenizer->arena, (size_t)total);
    tokenizer->bytes = arena_array(&tokenizer->arena, n_token, sizeof *tokenizer->bytes);
    tokenizer->type = arena_array(&tokenizer->arena, n_token, sizeof *tokenizer->type);
    if (!text || !tokenizer->bytes || !tokenizer->type)
        return err_set(err, RN_ERR_NOMEM, "out of memory for %zu tokens", n_token);
    for (size_t id = 0; id < n_token; id++) {
        const struct text_span token = source->token[id];
        const enum token_type type = type_of(source, (int32_t)id);
        size_t len = token.len;
        if (!in_alphabet(type)) {
            if (len > 0) memcpy(text, token.data, len);
        } else if (!alphabet_decode(token, text, &len)) {
            return err_set(err, RN_ERR_MODEL, "tokenizer.ggml.tokens[%zu] is not valid UTF-8", id);
        }
        tokenizer->bytes[id] = (struct text_span){text, len};
        tokenizer->type[id] = (uint8_t)type;
        text += len;
    }
    return RN_OK;
}

// A user-defined token may be made by merges where its plain text reads the same in the alphabet.
static bool is_ordinary(const struct tokenizer *tokenizer, int32_t id) {
    if (in_alphabet((enum token_type)tokenizer->type[id])) return true;
    if (tokenizer->type[id] != TOKEN_USER_DEFINED) return false;
    const struct text_span text = tokenizer->bytes[id];
    for (size_t i = 0; i < text.len; i++) {
        const uint8_t byte = (uint8_t)text.data[i];
        if (byte > 126 || alphabet_char(byte) != byte) return false;
    }
    return true;
}

static rn_status merges_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                             rn_error *err) {
    struct token_map map;
    if (token_map_init(&map, source->token, source->n_token) != RN_OK)
        return err_set(err, RN_ERR_NOMEM, "out of memory for %d tokens", source->n_token);
    int32_t unknown = -1;
    for (int32_t id = 0; id < source->n_token; id++) {
        if (is_ordinary(tokenizer, id)) token_map_put(&map, id);
        if (unknown < 0 && tokenizer->type[id] == TOKEN_UNKNOWN) unknown = id;
    }
    const rn_status status =
        bpe_init(&tokenizer->bpe, source, &map, unknown, &tokenizer->arena, err);
    token_map_deinit(&map);
    return status;
}

// Searching costs the text's length times this at worst, whatever the vocabulary.
enum { SPECIAL_BYTES_MAX = 1024 };

static bool is_searched(const struct tokenizer *tokenizer, int32_t id, bool control) {
    if (tokenizer->bytes[id].len == 0) return false;
    return tokenizer->type[id] == TOKEN_USER_DEFINED ||
           (control && tokenizer_is_special(tokenizer, id));
}

static rn_status specials_init(struct tokenizer *tokenizer, bool control, struct special_set *set,
                               rn_error *err) {
    size_t count = 0;
    for (int32_t id = 0; id < tokenizer->n_token; id++)
        count += is_searched(tokenizer, id, control);
    struct special *const item = arena_array(&tokenizer->arena, count + 1, sizeof *item);
    if (!item) return err_set(err, RN_ERR_NOMEM, "out of memory for %zu special tokens", count);
    count = 0;
    for (int32_t id = 0; id < tokenizer->n_token; id++) {
        if (!is_searched(tokenizer, id, control)) continue;
        if (tokenizer->bytes[id].len > SPECIAL_BYTES_MAX)
            return err_set(err, RN_ERR_MODEL,
                           "tokenizer.ggml.tokens[%d] is a special token of %zu bytes, expected at "
                           "most %d",
                           id, tokenizer->bytes[id].len, SPECIAL_BYTES_MAX);
        item[count++] = (struct special){tokenizer->bytes[id], id};
    }
    special_init(set, item, count);
    return RN_OK;
}

static rn_status fill(struct tokenizer *tokenizer, const struct vocab_source *source,
                      rn_error *err) {
    tokenizer->n_token = source->n_token;
    tokenizer->bos = source->bos;
    tokenizer->eos = source->eos;
    tokenizer->eot = source->eot;
    tokenizer->eom = source->eom;
    tokenizer->add_bos = source->add_bos;
    tokenizer->add_eos = source->add_eos;
    unicode_quote(source->pre.data, source->pre.len, tokenizer->pre, sizeof tokenizer->pre);
    tokenizer->next_word = pretokenizer_find(source->pre);
    rn_status status = bytes_init(tokenizer, source, err);
    if (status == RN_OK) status = merges_init(tokenizer, source, err);
    if (status == RN_OK) status = specials_init(tokenizer, false, &tokenizer->user_defined, err);
    if (status == RN_OK) status = specials_init(tokenizer, true, &tokenizer->special, err);
    return status;
}

rn_status tokenizer_create(const struct vocab_source *source, struct tokenizer **out,
                           rn_error *err) {
    assert(source->n_merge >= 0);
    rn_status status = check_source(source, err);
    if (status != RN_OK) return status;
    struct tokenizer *const tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer) return err_set(err, RN_ERR_NOMEM, "out of memory for a tokenizer");
    status = fill(tokenizer, source, err);
    if (status == RN_OK)
        *out = tokenizer;
    else
        tokenizer_destroy(tokenizer);
    return status;
}

void tokenizer_destroy(struct tokenizer *tokenizer) {
    if (!tokenizer) return;
    arena_deinit(&tokenizer->arena);
    free(tokenizer);
}
