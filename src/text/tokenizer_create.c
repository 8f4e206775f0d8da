// Makes a tokenizer from a model's files. They are not trusted: every id, type, string and merge is
// checked here, once, so that encoding and decoding need no checks. Merges may make ordinary tokens
// only. Control, unknown and unused tokens are not ordinary, so no plain text becomes one.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/alphabet.h"
#include "text/tokenizer_data.h"
#include "unicode/unicode.h"

static rn_status check_id(const struct vocab_source *source, const char *name, int32_t id,
                          rn_error *err) {
    if (id < -1) return err_set(err, RN_ERR_MODEL, "%s_token_id %d is negative", name, id);
    if (id >= source->n_token)
        return err_set(err, RN_ERR_MODEL, "%s_token_id %d is not below the vocabulary's size, %d",
                       name, id, source->n_token);
    return RN_OK;
}

static rn_status check_source(const struct vocab_source *source, rn_error *err) {
    if ((unsigned)source->model > VOCAB_SPM_RANK)
        return err_set(err, RN_ERR_UNSUPPORTED, "tokenizer model %d is not supported",
                       (int)source->model);
    if (source->n_token < 1) return err_set(err, RN_ERR_MODEL, "the vocabulary has no tokens");
    if (source->n_end < 0 || source->n_end > VOCAB_MAX_ENDS)
        return err_set(err, RN_ERR_MODEL, "%d end tokens, expected at most %d", source->n_end,
                       VOCAB_MAX_ENDS);
    rn_status status = check_id(source, "bos", source->bos, err);
    if (status == RN_OK) status = check_id(source, "eos", source->eos, err);
    if (status == RN_OK) status = check_id(source, "unk", source->unk, err);
    if (status == RN_OK) status = check_id(source, "eot", source->eot, err);
    for (int32_t i = 0; i < source->n_end && status == RN_OK; i++) {
        status = check_id(source, "end", source->end[i], err);
        if (status == RN_OK && source->end[i] < 0)
            status = err_set(err, RN_ERR_MODEL, "end_token_id %d is negative", source->end[i]);
    }
    return status;
}

static rn_status no_memory(const struct vocab_source *source, rn_error *err) {
    return err_set(err, RN_ERR_NOMEM, "out of memory for %d tokens", source->n_token);
}

// ---------------------------------------------------------------- splits and normalization

static rn_status pipeline_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                               rn_error *err) {
    struct pretokenizer_traits traits;
    char unsupported[sizeof traits.unsupported] = "";
    rn_status status =
        pretokenizer_init(&tokenizer->splitter, source, &tokenizer->arena, &traits, err);
    if (status == RN_OK)
        status = normalizer_init(&tokenizer->normalizer, source, &tokenizer->arena, unsupported,
                                 sizeof unsupported, err);
    if (status != RN_OK) return status;
    // A name can imply settings that GGUF has no key for.
    if (traits.nfc && tokenizer->normalizer.n_step == 0)
        tokenizer->normalizer.step[tokenizer->normalizer.n_step++].kind = NORMAL_NFC;
    tokenizer->whole_words = source->ignore_merges || traits.ignore_merges;
    const char *const why = unsupported[0] ? unsupported : traits.unsupported;
    if (why[0])
        snprintf(tokenizer->unsupported, sizeof tokenizer->unsupported, "%.64s%s%s",
                 source->name ? source->name : "", source->name ? ": " : "", why);
    return RN_OK;
}

// ---------------------------------------------------------------- models

static int32_t unknown_of(const struct tokenizer *tokenizer, const struct vocab_source *source) {
    if (source->unk >= 0) return source->unk;
    for (int32_t id = 0; id < source->n_token; id++)
        if (tokenizer->type[id] == TOKEN_UNKNOWN) return id;
    return -1;
}

// Ordinary tokens come first, so that among equal strings theirs is found.
static rn_status merges_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                             const uint8_t *ordinary, rn_error *err) {
    struct token_map map;
    if (token_map_init(&map, source->token, source->n_token) != RN_OK)
        return no_memory(source, err);
    for (int pass = 1; pass >= 0; pass--) {
        for (int32_t id = 0; id < source->n_token; id++)
            if (ordinary[id] == pass) token_map_put(&map, id);
    }
    const rn_status status =
        bpe_init(&tokenizer->bpe, source, &map, ordinary, &tokenizer->arena, err);
    const int32_t unknown = unknown_of(tokenizer, source);
    for (int byte = 0; byte < 256; byte++) {
        uint8_t text[4];
        const size_t n = unicode_encode(alphabet_char((uint8_t)byte), text);
        const int32_t id =
            token_map_find(&map, (struct text_span){(const char *)text, n}, (struct text_span){0});
        tokenizer->byte_id[byte] = id >= 0 && ordinary[id] ? id : unknown;
    }
    token_map_deinit(&map);
    return status;
}

// Whether a string has characters of the byte-level alphabet only, as the words of a text do.
static bool in_alphabet(struct text_span text) {
    for (size_t at = 0, n; at < text.len; at += n)
        if (alphabet_byte(unicode_decode((const uint8_t *)text.data + at, text.len - at, &n)) < 0)
            return false;
    return true;
}

// The map that words are looked up in: by their bytes at byte level, else by the tokens' strings.
static rn_status words_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                            const uint8_t *ordinary, rn_error *err) {
    const bool level = source->model == VOCAB_BYTE_LEVEL;
    tokenizer->string = tokenizer->bytes;
    if (!level) {
        const size_t n_token = (size_t)source->n_token;
        tokenizer->string = arena_array(&tokenizer->arena, n_token, sizeof *tokenizer->string);
        if (!tokenizer->string) return no_memory(source, err);
        for (size_t id = 0; id < n_token; id++) {
            const struct text_span token = source->token[id];
            if (!ordinary[id]) continue;
            tokenizer->string[id].data = arena_strdup(&tokenizer->arena, token.data, token.len);
            tokenizer->string[id].len = token.len;
            if (!tokenizer->string[id].data) return no_memory(source, err);
        }
    }
    if (token_map_init(&tokenizer->map, tokenizer->string, source->n_token) != RN_OK)
        return no_memory(source, err);
    for (int32_t id = 0; id < source->n_token; id++) {
        if (ordinary[id] && (!level || in_alphabet(source->token[id])))
            token_map_put(&tokenizer->map, id);
    }
    return RN_OK;
}

static rn_status characters_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                                 const uint8_t *ordinary, rn_error *err) {
    struct spm *const spm = &tokenizer->spm;
    spm->unknown = unknown_of(tokenizer, source);
    spm->fuse_unknown = source->fuse_unk;
    for (int byte = 0; byte < 256; byte++) spm->byte_id[byte] = -1;
    for (int32_t id = source->n_token - 1; id >= 0 && source->byte_fallback; id--) {
        const int byte = tokenizer_byte_of(source->token[id]);
        const uint8_t type = tokenizer->type[id];
        if (byte >= 0 && (type == TOKEN_BYTE || type == TOKEN_NORMAL)) spm->byte_id[byte] = id;
    }
    return spm_init(spm, source, &tokenizer->map, ordinary, &tokenizer->arena, err);
}

static rn_status model_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                            rn_error *err) {
    uint8_t *const ordinary = malloc((size_t)source->n_token);
    if (!ordinary) return no_memory(source, err);
    tokenizer_tokens_ordinary(tokenizer, source, ordinary);
    const bool level = source->model == VOCAB_BYTE_LEVEL;
    rn_status status = RN_OK;
    if (source->model != VOCAB_SPM_SCORE) status = merges_init(tokenizer, source, ordinary, err);
    if (status == RN_OK && (!level || tokenizer->whole_words))
        status = words_init(tokenizer, source, ordinary, err);
    if (status == RN_OK && !level) status = characters_init(tokenizer, source, ordinary, err);
    free(ordinary);
    return status;
}

// ---------------------------------------------------------------- added tokens

// Searching costs the text's length times this at worst, for every vocabulary.
enum { SPECIAL_BYTES_MAX = 1024 };

struct collector {
    struct tokenizer *tokenizer;
    const struct vocab_source *source;
    struct special *item[2][2]; // [normalized][control]
    size_t count[2][2];
    struct normal_scratch scratch;
    rn_error *err;
};

// Adds a token to the sets that it belongs to.
static rn_status collect(struct collector *c, const struct vocab_added *added,
                         enum normal_place place) {
    const uint8_t *text = (const uint8_t *)added->text.data;
    size_t len = added->text.len;
    if (len > SPECIAL_BYTES_MAX)
        return err_set(c->err, RN_ERR_MODEL,
                       "tokens[%d] is a special token of %zu bytes, expected at most %d", added->id,
                       len, SPECIAL_BYTES_MAX);
    if (added->normalized && len > 0) {
        const rn_status status = normalizer_run(&c->tokenizer->normalizer, &c->scratch, text, len,
                                                place, &text, &len, c->err);
        if (status != RN_OK) return status;
    }
    if (len == 0 || len > SPECIAL_BYTES_MAX) return RN_OK; // nothing that a text could hold
    const char *const copy = arena_strdup(&c->tokenizer->arena, (const char *)text, len);
    if (!copy) return no_memory(c->source, c->err);
    const unsigned rules = (added->lstrip ? SPECIAL_LSTRIP : 0u) |
                           (added->rstrip ? SPECIAL_RSTRIP : 0u) |
                           (added->single_word ? SPECIAL_SINGLE_WORD : 0u);
    const struct special special = {{copy, len}, added->id, rules, added->special};
    for (int control = added->special; control < 2; control++)
        c->item[added->normalized][control][c->count[added->normalized][control]++] = special;
    return RN_OK;
}

// Control and user-defined tokens that the file does not list.
static rn_status collect_typed(struct collector *c, const uint8_t *listed) {
    for (int32_t id = 0; id < c->source->n_token; id++) {
        const uint8_t type = c->tokenizer->type[id];
        const bool user = type == TOKEN_USER_DEFINED;
        if (listed[id] || (!user && !tokenizer_is_special(c->tokenizer, id))) continue;
        // SentencePiece seeks user-defined tokens in the normalized text: "\u2581\u2581" is two
        // spaces.
        const struct vocab_added added = {.id = id,
                                          .text = c->source->token[id],
                                          .special = !user,
                                          .normalized =
                                              user && c->source->model != VOCAB_BYTE_LEVEL};
        const rn_status status = collect(c, &added, NORMAL_BARE);
        if (status != RN_OK) return status;
    }
    return RN_OK;
}

static rn_status collect_all(struct collector *c, uint8_t *listed) {
    const struct vocab_source *const source = c->source;
    rn_status status = RN_OK;
    for (int32_t i = 0; i < source->n_added && status == RN_OK; i++) {
        const struct vocab_added *const added = &source->added[i];
        listed[added->id] = 1; // in range: tokenizer_tokens.c has looked
        status = collect(c, added, added->special ? NORMAL_BARE : NORMAL_TEXT);
    }
    return status == RN_OK ? collect_typed(c, listed) : status;
}

// A file may have any number of control tokens; those of published models have 60,000 endings at
// most, and few are longer than 32 bytes.
enum { TAIL_TEXT_MAX = 128, TAIL_COUNT_MAX = 1 << 17 };

// The endings of a set's texts, as a set.
static rn_status tails_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                            struct guard_texts *texts, rn_error *err) {
    size_t most = 0, count = 0;
    for (size_t i = 0; i < texts->whole.count && most < TAIL_COUNT_MAX; i++)
        most += texts->whole.item[i].text.len;
    if (most > TAIL_COUNT_MAX) most = TAIL_COUNT_MAX;
    struct special *const tail = arena_array(&tokenizer->arena, most + 1, sizeof *tail);
    if (!tail) return no_memory(source, err);
    for (size_t i = 0; i < texts->whole.count; i++) {
        const struct text_span text = texts->whole.item[i].text;
        if (text.len > texts->max_len) texts->max_len = text.len;
        for (size_t at = 1; at < text.len && text.len <= TAIL_TEXT_MAX && count < most; at++)
            tail[count++] = (struct special){.text = {text.data + at, text.len - at}};
    }
    special_init(&texts->tail, tail, count);
    return RN_OK;
}

// The texts that input must not become: those of control tokens, also where they are sought in the
// normalized text only.
static rn_status controls_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                               rn_error *err) {
    for (int normalized = 0; normalized < 2; normalized++) {
        const struct special_set *const set[2] = {&tokenizer->normalized[1],
                                                  normalized ? NULL : &tokenizer->raw[1]};
        const size_t most = set[0]->count + (set[1] ? set[1]->count : 0);
        struct special *const item = arena_array(&tokenizer->arena, most + 1, sizeof *item);
        if (!item) return no_memory(source, err);
        size_t count = 0;
        for (int i = 0; i < 2 && set[i]; i++) {
            for (size_t k = 0; k < set[i]->count; k++)
                if (set[i]->item[k].is_control) item[count++] = set[i]->item[k];
        }
        struct guard_texts *const texts = &tokenizer->control[normalized];
        special_init(&texts->whole, item, count);
        const rn_status status = tails_init(tokenizer, source, texts, err);
        if (status != RN_OK) return status;
    }
    return RN_OK;
}

static rn_status specials_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                               rn_error *err) {
    struct collector c = {.tokenizer = tokenizer, .source = source, .err = err};
    size_t most = (size_t)source->n_added;
    for (int32_t id = 0; id < source->n_token; id++)
        most += tokenizer->type[id] == TOKEN_USER_DEFINED || tokenizer_is_special(tokenizer, id);
    for (int i = 0; i < 4; i++) {
        c.item[i / 2][i % 2] = arena_array(&tokenizer->arena, most + 1, sizeof(struct special));
        if (!c.item[i / 2][i % 2]) return no_memory(source, err);
    }
    uint8_t *const listed = calloc((size_t)source->n_token, 1);
    const rn_status status = listed ? collect_all(&c, listed) : no_memory(source, err);
    free(listed);
    normal_scratch_deinit(&c.scratch);
    if (status != RN_OK) return status;
    for (int control = 0; control < 2; control++) {
        special_init(&tokenizer->raw[control], c.item[0][control], c.count[0][control]);
        special_init(&tokenizer->normalized[control], c.item[1][control], c.count[1][control]);
    }
    return controls_init(tokenizer, source, err);
}

// ---------------------------------------------------------------- all of it

static rn_status fill(struct tokenizer *tokenizer, const struct vocab_source *source,
                      rn_error *err) {
    tokenizer->model = source->model;
    tokenizer->n_token = source->n_token;
    tokenizer->bos = source->bos;
    tokenizer->eos = source->eos;
    tokenizer->pad = source->pad < source->n_token ? source->pad : -1;
    tokenizer->add_bos = source->add_bos;
    tokenizer->add_eos = source->add_eos;
    tokenizer->strip_space = source->strip_space;
    rn_status status = check_source(source, err);
    if (status == RN_OK) status = tokenizer_tokens_init(tokenizer, source, err);
    if (status == RN_OK) status = pipeline_init(tokenizer, source, err);
    if (status == RN_OK) status = model_init(tokenizer, source, err);
    if (status == RN_OK) status = specials_init(tokenizer, source, err);
    return status;
}

rn_status tokenizer_create(const struct vocab_source *source, struct tokenizer **out,
                           rn_error *err) {
    assert(source->n_merge >= 0 && source->n_added >= 0);
    struct tokenizer *const tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer) return err_set(err, RN_ERR_NOMEM, "out of memory for a tokenizer");
    const rn_status status = fill(tokenizer, source, err);
    if (status == RN_OK) {
        *out = tokenizer;
        return RN_OK;
    }
    tokenizer_destroy(tokenizer);
    if (err && source->name) err_prefix(err, source->name);
    return status;
}

void tokenizer_destroy(struct tokenizer *tokenizer) {
    if (!tokenizer) return;
    splitter_deinit(&tokenizer->splitter);
    normalizer_deinit(&tokenizer->normalizer);
    token_map_deinit(&tokenizer->map);
    arena_deinit(&tokenizer->arena);
    free(tokenizer);
}
