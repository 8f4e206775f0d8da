// The tokenizer in use: text is cut at special tokens, the stretches between them into words, the
// words into ids. Nothing here changes a tokenizer, so any thread may encode; what a call needs
// lives on its stack and in its scratch. Made by tokenizer_create.c.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_data.h"

struct encoder {
    const struct tokenizer *tokenizer;
    struct token_list *out;
    struct bpe_scratch scratch;
    rn_error *err;
};

// Room for n more ids.
static rn_status list_reserve(struct token_list *list, size_t n, rn_error *err) {
    if (n <= list->capacity - list->count) return RN_OK;
    size_t capacity = 2 * list->capacity;
    if (capacity < list->count + n) capacity = list->count + n;
    if (capacity < 64) capacity = 64;
    int32_t *const id =
        capacity > SIZE_MAX / sizeof *id ? NULL : realloc(list->id, capacity * sizeof *id);
    if (!id) return err_set(err, RN_ERR_NOMEM, "out of memory for %zu tokens", capacity);
    list->id = id;
    list->capacity = capacity;
    return RN_OK;
}

static rn_status list_push(struct token_list *list, int32_t id, rn_error *err) {
    const rn_status status = list_reserve(list, 1, err);
    if (status == RN_OK) list->id[list->count++] = id;
    return status;
}

void token_list_deinit(struct token_list *list) {
    free(list->id);
    *list = (struct token_list){0};
}

// A stretch without special tokens.
static rn_status encode_words(struct encoder *encoder, const uint8_t *text, size_t len) {
    const struct tokenizer *const tokenizer = encoder->tokenizer;
    struct token_list *const out = encoder->out;
    for (size_t at = 0, n; at < len; at += n) {
        n = tokenizer->next_word(text + at, len - at);
        assert(n > 0 && n <= len - at);
        if (n > BPE_WORD_MAX)
            return err_set(encoder->err, RN_ERR_ARG, "a word of %zu bytes; at most %d", n,
                           BPE_WORD_MAX);
        rn_status status = list_reserve(out, n, encoder->err);
        if (status != RN_OK) return status;
        size_t count;
        status = bpe_encode(&tokenizer->bpe, text + at, n, &encoder->scratch, out->id + out->count,
                            &count, encoder->err);
        if (status != RN_OK) return status;
        out->count += count;
    }
    return RN_OK;
}

static rn_status encode_text(struct encoder *encoder, const struct special_set *specials,
                             const char *text, size_t len) {
    size_t begin = 0, at = 0;
    rn_status status = RN_OK;
    while (at < len && status == RN_OK) {
        const struct special *const special = special_find(specials, text + at, len - at);
        if (!special) {
            at++;
            continue;
        }
        status = encode_words(encoder, (const uint8_t *)text + begin, at - begin);
        if (status == RN_OK) status = list_push(encoder->out, special->id, encoder->err);
        at += special->text.len;
        begin = at;
    }
    if (status != RN_OK || begin == len) return status;
    return encode_words(encoder, (const uint8_t *)text + begin, len - begin);
}

// Puts BOS before the ids from start on and EOS behind them, unless the text brought its own.
static rn_status encode_ends(const struct tokenizer *tokenizer, struct token_list *out,
                             size_t start, rn_error *err) {
    const rn_status status = list_reserve(out, 2, err);
    if (status != RN_OK) return status;
    const size_t count = out->count - start;
    int32_t *const id = out->id + start;
    const bool has_bos = count > 0 && id[0] == tokenizer->bos;
    const bool has_eos = count > 0 && id[count - 1] == tokenizer->eos;
    if (tokenizer->add_eos && tokenizer->eos >= 0 && !has_eos) {
        id[count] = tokenizer->eos;
        out->count++;
    }
    if (tokenizer->add_bos && tokenizer->bos >= 0 && !has_bos) {
        memmove(id + 1, id, (out->count - start) * sizeof *id);
        id[0] = tokenizer->bos;
        out->count++;
    }
    return RN_OK;
}

rn_status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t len,
                           int flags, struct token_list *out, rn_error *err) {
    if (!tokenizer->next_word)
        return err_set(err, RN_ERR_UNSUPPORTED,
                       "key tokenizer.ggml.pre: pre-tokenizer '%s' is not supported: only "
                       "token ids can be given",
                       tokenizer->pre);
    struct encoder encoder = {.tokenizer = tokenizer, .out = out, .err = err};
    const struct special_set *const specials =
        flags & ENCODE_SPECIAL ? &tokenizer->special : &tokenizer->user_defined;
    const size_t start = out->count;
    rn_status status = encode_text(&encoder, specials, text, len);
    if (status == RN_OK && flags & ENCODE_BOS) status = encode_ends(tokenizer, out, start, err);
    bpe_scratch_deinit(&encoder.scratch);
    if (status != RN_OK) out->count = start;
    return status;
}

int32_t tokenizer_size(const struct tokenizer *tokenizer) { return tokenizer->n_token; }
int32_t tokenizer_bos(const struct tokenizer *tokenizer) { return tokenizer->bos; }
int32_t tokenizer_eos(const struct tokenizer *tokenizer) { return tokenizer->eos; }
bool tokenizer_adds_bos(const struct tokenizer *tokenizer) { return tokenizer->add_bos; }
bool tokenizer_adds_eos(const struct tokenizer *tokenizer) { return tokenizer->add_eos; }

bool tokenizer_is_end(const struct tokenizer *tokenizer, int32_t id) {
    return id >= 0 && (id == tokenizer->eos || id == tokenizer->eot || id == tokenizer->eom);
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id) {
    assert(id >= 0 && id < tokenizer->n_token);
    return tokenizer->type[id] == TOKEN_CONTROL || tokenizer->type[id] == TOKEN_UNKNOWN;
}

struct text_span tokenizer_bytes(const struct tokenizer *tokenizer, int32_t id) {
    assert(id >= 0 && id < tokenizer->n_token);
    return tokenizer->bytes[id];
}
