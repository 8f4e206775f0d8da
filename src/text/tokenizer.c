// The tokenizer in use: text is cut at added tokens, the stretches between them are normalized and
// split into words, the words become ids. Nothing here changes a tokenizer, so any thread may
// encode. The state of a call is on its stack and in its scratch. Made by tokenizer_create.c.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "text/guard.h"
#include "text/tokenizer_data.h"
#include "text/word_cache.h"

struct encoder {
    const struct tokenizer *tokenizer;
    struct token_list *out;
    bool control; // control tokens are sought in the text
    const char *text;
    struct guard_list guards; // places of the text
    struct word_cache cache;
    const uint8_t *end; // of the stretch that the words are in
    struct chain_scratch chain;
    struct split_scratch split;
    struct normal_scratch normal;
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

// ---------------------------------------------------------------- words

// The token whose string is the word, without regard to merges; -1: none.
static int32_t whole_word(const struct tokenizer *tokenizer, const uint8_t *word, size_t len) {
    const struct text_span whole = {(const char *)word, len};
    return token_map_find(&tokenizer->map, whole, (struct text_span){0});
}

// Byte level: every byte is a symbol. A byte without a token, and without an unknown token to stand
// for it, is left out before anything is merged, as in Hugging Face. Falcon has no token for most
// control characters.
static rn_status bytes_encode(struct encoder *e, const uint8_t *word, size_t len, int32_t *out,
                              size_t *count) {
    const struct tokenizer *const tokenizer = e->tokenizer;
    if (tokenizer->whole_words && (out[0] = whole_word(tokenizer, word, len)) >= 0) {
        *count = 1;
        return RN_OK;
    }
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        out[n] = tokenizer->byte_id[word[i]];
        n += out[n] >= 0;
    }
    *count = n;
    return n > 0 ? bpe_merge(&tokenizer->bpe, &e->chain, out, count, e->err) : RN_OK;
}

// A word, or a piece of a word that can be merged alone.
static rn_status piece_encode(struct encoder *e, const uint8_t *piece, size_t len) {
    const struct tokenizer *const tokenizer = e->tokenizer;
    rn_status status = list_reserve(e->out, len, e->err);
    if (status != RN_OK) return status;
    int32_t *const out = e->out->id + e->out->count;
    struct word_key key;
    struct word_entry *entry = NULL;
    bool found = false;
    if (e->cache.entry && len <= WORD_CACHE_BYTES)
        entry = word_cache_find(&e->cache, piece, len, (size_t)(e->end - piece), &key, &found);
    if (found) {
        for (int32_t i = 0; i < entry->count; i++) out[i] = entry->id[i];
        e->out->count += (size_t)entry->count;
        return RN_OK;
    }
    size_t count = 0;
    if (tokenizer->model == VOCAB_BYTE_LEVEL) {
        status = bytes_encode(e, piece, len, out, &count);
    } else {
        const struct bpe *const pairs = tokenizer->model == VOCAB_SPM_RANK ? &tokenizer->bpe : NULL;
        status = spm_encode(&tokenizer->spm, pairs, piece, len, &e->chain, out, &count, e->err);
    }
    if (status != RN_OK) return status;
    if (entry && count <= WORD_CACHE_IDS) {
        *entry = (struct word_entry){.key = key, .count = (int32_t)count};
        memcpy(entry->id, out, count * sizeof *out);
    }
    e->out->count += count;
    return RN_OK;
}

// Several unknown tokens in a row are one, also where a piece ends between them.
static void unknown_fuse(struct encoder *e, size_t at) {
    struct token_list *const out = e->out;
    const int32_t unknown = e->tokenizer->spm.unknown;
    if (unknown < 0 || at == out->count || out->id[at - 1] != unknown || out->id[at] != unknown)
        return;
    memmove(out->id + at, out->id + at + 1, (out->count - at - 1) * sizeof *out->id);
    out->count--;
}

static rn_status word_encode(void *context, const uint8_t *word, size_t len) {
    struct encoder *const e = context;
    const struct tokenizer *const tokenizer = e->tokenizer;
    if (len > BPE_WORD_MAX)
        return err_set(e->err, RN_ERR_ARG, "a word of %zu bytes; at most %d", len, BPE_WORD_MAX);
    if (tokenizer->model == VOCAB_BYTE_LEVEL) return piece_encode(e, word, len);
    if (tokenizer->whole_words) {
        const int32_t id = whole_word(tokenizer, word, len);
        if (id >= 0) return list_push(e->out, id, e->err);
    }
    rn_status status = RN_OK;
    for (size_t at = 0, n; at < len && status == RN_OK; at += n) {
        n = spm_piece(&tokenizer->spm, word + at, len - at);
        const size_t before = e->out->count;
        status = piece_encode(e, word + at, n);
        if (at > 0 && status == RN_OK && tokenizer->spm.fuse_unknown) unknown_fuse(e, before);
    }
    return status;
}

// ---------------------------------------------------------------- stretches

static rn_status words_encode(struct encoder *e, const uint8_t *text, size_t len, bool is_first) {
    const rn_status status =
        normalizer_prefix(&e->tokenizer->normalizer, &e->normal, is_first, &text, &len, e->err);
    if (status != RN_OK) return status;
    e->end = text + len;
    return split_run(&e->tokenizer->splitter, &e->split, text, len, word_encode, e, e->err);
}

// The guards of a stretch in its normalized text, part by part. False in *known: the text on both
// sides of a guard was normalized together, so its place is not known.
static rn_status guards_move(const struct encoder *e, const uint8_t *text, size_t len,
                             struct guard_view from, struct text_span normal, struct guard_list *to,
                             bool *known) {
    struct normal_scratch scratch = {0};
    rn_status status = RN_OK;
    size_t begin = 0, at = 0;
    *known = true;
    for (size_t i = 0; i <= from.count && *known && status == RN_OK; i++) {
        const size_t end = i < from.count ? from.at[i] - from.base : len;
        const uint8_t *part = text;
        size_t n = end - begin;
        if (n > 0)
            status = normalizer_run(&e->tokenizer->normalizer, &scratch, text + begin, n,
                                    begin == 0 ? NORMAL_TEXT : NORMAL_BARE, &part, &n, e->err);
        if (status != RN_OK) break;
        *known = n <= normal.len - at && memcmp(part, normal.data + at, n) == 0;
        at += n;
        begin = end;
        if (i < from.count && *known && !guard_list_put(to, at))
            status = err_set(e->err, RN_ERR_NOMEM, "out of memory for %zu guards", from.count);
    }
    *known = *known && at == normal.len;
    normal_scratch_deinit(&scratch);
    return status;
}

static rn_status normal_encode(struct encoder *e, const uint8_t *text, size_t len, bool is_first,
                               bool control, struct guard_view guards) {
    const struct special_set *const set = &e->tokenizer->normalized[control];
    rn_status status = RN_OK;
    size_t begin = 0;
    struct special_match match;
    while (status == RN_OK && special_next(set, (const char *)text, len, begin, guards, &match)) {
        status = words_encode(e, text + begin, match.begin - begin, is_first && begin == 0);
        if (status == RN_OK) status = list_push(e->out, match.id, e->err);
        begin = match.end;
    }
    if (status != RN_OK) return status;
    return words_encode(e, text + begin, len - begin, is_first && begin == 0);
}

// A stretch between the tokens that are found in the text as it is.
static rn_status stretch_encode(struct encoder *e, size_t begin, size_t end, bool is_first) {
    if (begin == end) return RN_OK;
    const uint8_t *const text = (const uint8_t *)e->text + begin, *normal;
    const struct special_set *const set = e->tokenizer->normalized;
    size_t len;
    rn_status status = normalizer_run(&e->tokenizer->normalizer, &e->normal, text, end - begin,
                                      NORMAL_TEXT, &normal, &len, e->err);
    if (status != RN_OK) return status;
    const struct guard_view guards = guard_list_view(&e->guards, begin, end);
    const bool is_same = normal == text && len == end - begin;
    if (guards.count == 0 || !e->control || set[0].count == set[1].count || is_same)
        return normal_encode(e, normal, len, is_first, e->control, guards);
    // Where guards have no known place in the normalized text no control token is sought in it.
    struct guard_list moved = {0};
    bool known;
    status = guards_move(e, text, end - begin, guards,
                         (struct text_span){(const char *)normal, len}, &moved, &known);
    if (status == RN_OK)
        status = normal_encode(e, normal, len, is_first, known,
                               (struct guard_view){moved.at, known ? moved.count : 0, 0});
    guard_list_deinit(&moved);
    return status;
}

static rn_status text_encode(struct encoder *e, size_t len) {
    const struct special_set *const set = &e->tokenizer->raw[e->control];
    const struct guard_view guards = guard_list_view(&e->guards, 0, len);
    size_t begin = 0;
    rn_status status = RN_OK;
    struct special_match match;
    while (status == RN_OK && special_next(set, e->text, len, begin, guards, &match)) {
        status = stretch_encode(e, begin, match.begin, begin == 0);
        if (status == RN_OK) status = list_push(e->out, match.id, e->err);
        begin = match.end;
    }
    if (status != RN_OK || begin == len) return status;
    return stretch_encode(e, begin, len, begin == 0);
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
    if (tokenizer->unsupported[0])
        return err_set(err, RN_ERR_UNSUPPORTED, "%s: only token ids can be given",
                       tokenizer->unsupported);
    struct encoder e = {.tokenizer = tokenizer,
                        .out = out,
                        .text = text,
                        .control = (flags & ENCODE_SPECIAL) != 0,
                        .err = err};
    word_cache_init(&e.cache, len);
    const size_t start = out->count;
    struct text_buffer clean = {0};
    rn_status status = RN_OK;
    if (flags & ENCODE_GUARDED) {
        if (!guard_remove(text, len, &clean, &e.guards))
            status = err_set(err, RN_ERR_NOMEM, "out of memory for %zu bytes of text", len);
        e.text = clean.len ? (const char *)clean.data : "";
        len = clean.len;
    }
    if (status == RN_OK) status = text_encode(&e, len);
    if (status == RN_OK && flags & ENCODE_BOS) status = encode_ends(tokenizer, out, start, err);
    word_cache_deinit(&e.cache);
    guard_list_deinit(&e.guards);
    text_buffer_deinit(&clean);
    chain_scratch_deinit(&e.chain);
    split_scratch_deinit(&e.split);
    normal_scratch_deinit(&e.normal);
    if (status != RN_OK) out->count = start;
    return status;
}

int32_t tokenizer_size(const struct tokenizer *tokenizer) { return tokenizer->n_token; }
int32_t tokenizer_bos(const struct tokenizer *tokenizer) { return tokenizer->bos; }
int32_t tokenizer_eos(const struct tokenizer *tokenizer) { return tokenizer->eos; }
int32_t tokenizer_eot(const struct tokenizer *tokenizer) { return tokenizer->eot; }
int32_t tokenizer_pad(const struct tokenizer *tokenizer) { return tokenizer->pad; }
bool tokenizer_adds_bos(const struct tokenizer *tokenizer) { return tokenizer->add_bos; }
bool tokenizer_adds_eos(const struct tokenizer *tokenizer) { return tokenizer->add_eos; }
bool tokenizer_strips_space(const struct tokenizer *tokenizer) { return tokenizer->strip_space; }

bool tokenizer_is_end(const struct tokenizer *tokenizer, int32_t id) {
    return id >= 0 && id < tokenizer->n_token && tokenizer->is_end[id];
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id) {
    assert(id >= 0 && id < tokenizer->n_token);
    return tokenizer->type[id] == TOKEN_CONTROL || tokenizer->type[id] == TOKEN_UNKNOWN;
}

struct text_span tokenizer_bytes(const struct tokenizer *tokenizer, int32_t id) {
    assert(id >= 0 && id < tokenizer->n_token);
    return tokenizer->bytes[id];
}
