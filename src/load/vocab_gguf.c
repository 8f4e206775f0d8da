// Reads tokenizer.ggml.* of a file into a vocab_source. Every key is checked for its type here; the
// tokenizer checks ids, merges and strings. An absent key means what it means to llama.cpp, because
// files are written for it.
#include <string.h>

#include "load/vocab_files.h"
#include "model/model.h"

#define MARKER "\xe2\x96\x81" // U+2581

static rn_status bad_type(const struct vocab_files *l, const struct meta_view *meta,
                          const char *wanted) {
    return err_set(l->err, RN_ERR_MODEL, "%s: key %s at offset %llu is not %s",
                   weights_name(l->weights), meta->key, (unsigned long long)meta->offset, wanted);
}

static rn_status missing(const struct vocab_files *l, const char *key) {
    return err_set(l->err, RN_ERR_MODEL, "%s: key %s is missing", weights_name(l->weights), key);
}

static rn_status no_memory(const struct vocab_files *l, uint64_t count) {
    return err_set(l->err, RN_ERR_NOMEM, "%s: no memory for %llu tokens", weights_name(l->weights),
                   (unsigned long long)count);
}

static rn_status read_string(struct vocab_files *l, const char *key, struct text_span *out) {
    const struct meta_view *meta = weights_meta_find(l->weights, key);
    if (!meta) return RN_OK;
    return meta_get_string(meta, &out->data, &out->len) ? RN_OK : bad_type(l, meta, "a string");
}

// *out keeps its value where the key is absent.
static rn_status read_id(struct vocab_files *l, const char *key, int32_t *out) {
    const struct meta_view *meta = weights_meta_find(l->weights, key);
    int64_t value;
    if (!meta) return RN_OK;
    *out = -1;
    if (!meta_get_i64(meta, &value)) return bad_type(l, meta, "an integer below 2^63");
    // some files write 2^32 - 1 for "none"
    if (value == -1 || value == UINT32_MAX) return RN_OK;
    if (value < 0 || value >= l->source.n_token)
        return err_set(l->err, RN_ERR_MODEL, "%s: key %s is %lld, expected 0 to %d",
                       weights_name(l->weights), key, (long long)value, l->source.n_token - 1);
    *out = (int32_t)value;
    return RN_OK;
}

static rn_status read_bool(struct vocab_files *l, const char *key, bool *out) {
    const struct meta_view *meta = weights_meta_find(l->weights, key);
    if (!meta) return RN_OK;
    return meta_get_bool(meta, out) ? RN_OK : bad_type(l, meta, "a bool");
}

static rn_status begin_strings(struct vocab_files *l, const struct meta_view *meta,
                               struct meta_cursor *cursor) {
    if (!meta_strings_begin(meta, cursor)) return bad_type(l, meta, "a list of strings");
    if (meta->count > MODEL_MAX_VOCAB)
        return err_set(l->err, RN_ERR_MODEL, "%s: key %s has %llu items, expected at most %d",
                       weights_name(l->weights), meta->key, (unsigned long long)meta->count,
                       MODEL_MAX_VOCAB);
    return RN_OK;
}

static rn_status read_tokens(struct vocab_files *l) {
    static const char key[] = "tokenizer.ggml.tokens";
    const struct meta_view *meta = weights_meta_find(l->weights, key);
    struct meta_cursor cursor;
    if (!meta) return missing(l, key);
    const rn_status s = begin_strings(l, meta, &cursor);
    if (s) return s;
    struct text_span *token = arena_array(&l->arena, meta->count, sizeof *token);
    if (!token) return no_memory(l, meta->count);
    for (uint64_t i = 0; i < meta->count; i++)
        if (!meta_strings_next(&cursor, &token[i].data, &token[i].len))
            return bad_type(l, meta, "a list of strings");
    l->source.token = token;
    l->source.n_token = (int32_t)meta->count;
    return RN_OK;
}

// "a b", the space not in front.
static bool merge_split(const char *text, size_t len, struct vocab_merge *out) {
    const char *const blank = len > 1 ? memchr(text + 1, ' ', len - 1) : NULL;
    if (!blank) return false;
    const size_t n = (size_t)(blank - text);
    *out = (struct vocab_merge){{text, n}, {blank + 1, len - n - 1}};
    return true;
}

static rn_status read_merges(struct vocab_files *l) {
    const struct meta_view *meta = weights_meta_find(l->weights, "tokenizer.ggml.merges");
    struct meta_cursor cursor;
    if (!meta) return RN_OK;
    const rn_status s = begin_strings(l, meta, &cursor);
    if (s) return s;
    struct vocab_merge *merge = arena_array(&l->arena, meta->count, sizeof *merge);
    if (!merge) return no_memory(l, meta->count);
    for (uint64_t i = 0; i < meta->count; i++) {
        const char *text;
        size_t len;
        if (!meta_strings_next(&cursor, &text, &len)) return bad_type(l, meta, "a list of strings");
        if (!merge_split(text, len, &merge[i]))
            return err_set(l->err, RN_ERR_MODEL,
                           "%s: %s[%llu] is not two tokens with a space between them",
                           weights_name(l->weights), meta->key, (unsigned long long)i);
    }
    l->source.merge = merge;
    l->source.n_merge = (int32_t)meta->count;
    return RN_OK;
}

// A list of as many items as there are tokens; NULL where the key is absent.
static rn_status find_list(struct vocab_files *l, const char *key, const struct meta_view **out) {
    const struct meta_view *meta = *out = weights_meta_find(l->weights, key);
    if (!meta) return RN_OK;
    if (meta->type != META_ARRAY) return bad_type(l, meta, "a list");
    if (meta->count == (uint64_t)l->source.n_token) return RN_OK;
    return err_set(l->err, RN_ERR_MODEL, "%s: key %s has %llu items, expected %d",
                   weights_name(l->weights), key, (unsigned long long)meta->count,
                   l->source.n_token);
}

static rn_status read_types(struct vocab_files *l) {
    const struct meta_view *meta;
    const rn_status s = find_list(l, "tokenizer.ggml.token_type", &meta);
    if (s || !meta) return s;
    int32_t *type = arena_array(&l->arena, meta->count, sizeof *type);
    if (!type) return no_memory(l, meta->count);
    for (uint64_t i = 0; i < meta->count; i++) {
        int64_t value;
        if (!meta_item_i64(meta, i, &value)) return bad_type(l, meta, "a list of integers");
        // the tokenizer checks the value; a number that does not fit is as wrong as -1
        type[i] = value < INT32_MIN || value > INT32_MAX ? -1 : (int32_t)value;
    }
    l->source.type = type;
    return RN_OK;
}

static rn_status read_scores(struct vocab_files *l) {
    static const char key[] = "tokenizer.ggml.scores";
    const struct meta_view *meta;
    const rn_status s = find_list(l, key, &meta);
    if (s) return s;
    if (!meta) return missing(l, key);
    float *score = arena_array(&l->arena, meta->count, sizeof *score);
    if (!score) return no_memory(l, meta->count);
    for (uint64_t i = 0; i < meta->count; i++) {
        double value;
        if (!meta_item_f64(meta, i, &value)) return bad_type(l, meta, "a list of numbers");
        if (!(value >= -3e38 && value <= 3e38))
            return err_set(l->err, RN_ERR_MODEL, "%s: %s[%llu] is %g, expected a finite number",
                           weights_name(l->weights), key, (unsigned long long)i, value);
        score[i] = (float)value;
    }
    l->source.score = score;
    return RN_OK;
}

static bool span_is(struct text_span span, const char *text) {
    return span.len == strlen(text) && !memcmp(span.data, text, span.len);
}

// Pre-tokenizers with which a text begins with BOS where add_bos_token is absent.
static bool pre_adds_bos(struct text_span pre) {
    static const char *const names[] = {"llama-bpe", "llama3",    "llama-v3",    "falcon3",
                                        "falcon-h1", "pixtral",   "midm-2.0",    "lfm2",
                                        "tekken",    "chameleon", "jina-v5-nano"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (span_is(pre, names[i])) return true;
    return false;
}

static rn_status put_split(struct vocab_files *l, struct text_span pre) {
    struct vocab_split *split = arena_array(&l->arena, 1, sizeof *split);
    if (!split) return no_memory(l, 1);
    *split = (struct vocab_split){.kind = SPLIT_NAMED, .pattern = pre};
    l->source.split = split;
    l->source.n_split = 1;
    return RN_OK;
}

// Strings as SentencePiece writes them, and merges by rank.
static rn_status read_ranked(struct vocab_files *l, struct text_span pre) {
    static const char key[] = "tokenizer.ggml.merges";
    struct vocab_source *const source = &l->source;
    if (!weights_meta_find(l->weights, key)) return missing(l, key);
    struct vocab_normal *step = arena_array(&l->arena, 1, sizeof *step);
    if (!step) return no_memory(l, 1);
    *step = (struct vocab_normal){.kind = NORMAL_REPLACE,
                                  .from = {" ", 1},
                                  .to = {MARKER, strlen(MARKER)}};
    source->model = VOCAB_SPM_RANK;
    source->normal = step;
    source->n_normal = 1;
    source->byte_fallback = source->fuse_unk = true;
    const rn_status s = put_split(l, pre);
    return s ? s : read_merges(l);
}

static rn_status read_byte_level(struct vocab_files *l) {
    struct vocab_source *const source = &l->source;
    struct text_span pre = {"", 0};
    rn_status s = read_string(l, "tokenizer.ggml.pre", &pre);
    if (s) return s;
    if (!pre.len) pre = (struct text_span){"gpt-2", 5};
    if (span_is(pre, "sarvam-moe")) return read_ranked(l, pre);
    source->model = VOCAB_BYTE_LEVEL;
    source->add_bos = pre_adds_bos(pre);
    s = put_split(l, pre);
    return s ? s : read_merges(l);
}

// Tokens whose type in a file of Gemma 4 is not the type in its tokenizer.json. The marks of
// channels and tools are control tokens: no text of a user becomes one. The converter calls them
// user-defined. Two line ends or more are found before anything else happens to a text.
static int32_t gemma4_type(struct text_span token, int32_t type) {
    static const char *const marks[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                        "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                        "<|\"|>"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (span_is(token, marks[i])) return TOKEN_CONTROL;
    size_t n = 0;
    while (n < token.len && token.data[n] == '\n') n++;
    return n > 1 && n == token.len ? TOKEN_USER_DEFINED : type;
}

static rn_status read_gemma4(struct vocab_files *l) {
    struct vocab_source *const source = &l->source;
    int32_t *type = arena_array(&l->arena, (size_t)source->n_token, sizeof *type);
    if (!type) return no_memory(l, (uint64_t)source->n_token);
    for (int32_t id = 0; id < source->n_token; id++)
        type[id] = gemma4_type(source->token[id], source->type ? source->type[id] : TOKEN_NORMAL);
    source->type = type;
    source->add_bos = true;
    return read_ranked(l, (struct text_span){"gemma4", 6});
}

static rn_status read_spm(struct vocab_files *l) {
    struct vocab_source *const source = &l->source;
    bool add_prefix = true;
    rn_status s = read_bool(l, "tokenizer.ggml.add_space_prefix", &add_prefix);
    if (s) return s;
    struct vocab_normal *step = arena_array(&l->arena, 2, sizeof *step);
    if (!step) return no_memory(l, 1);
    const struct text_span space = {" ", 1}, marker = {MARKER, strlen(MARKER)};
    int32_t n = 0;
    if (add_prefix) step[n++] = (struct vocab_normal){.kind = NORMAL_PREPEND, .to = marker};
    step[n++] = (struct vocab_normal){.kind = NORMAL_REPLACE, .from = space, .to = marker};
    source->model = VOCAB_SPM_SCORE;
    source->normal = step;
    source->n_normal = n;
    source->strip_space = add_prefix;
    source->byte_fallback = source->fuse_unk = true;
    source->add_bos = true;
    if (source->n_token > 2) {
        source->unk = 0;
        source->bos = 1;
        source->eos = 2;
    }
    return read_scores(l);
}

typedef rn_status (*read_fn)(struct vocab_files *l);

// The readers of the rest, by the tokenizer's type.
static rn_status find_model(struct vocab_files *l, read_fn *out) {
    static const char key[] = "tokenizer.ggml.model";
    static const struct {
        const char *name;
        read_fn read;
    } table[] = {{"gpt2", read_byte_level}, {"llama", read_spm}, {"gemma4", read_gemma4}};
    struct text_span model = {"", 0};
    if (!weights_meta_find(l->weights, key)) return missing(l, key);
    const rn_status s = read_string(l, key, &model);
    if (s) return s;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (!span_is(model, table[i].name)) continue;
        *out = table[i].read;
        return RN_OK;
    }
    return err_set(l->err, RN_ERR_UNSUPPORTED,
                   "%s: a tokenizer of type \"%.*s\" is not supported, only gpt2, llama and gemma4",
                   weights_name(l->weights), (int)(model.len < 100 ? model.len : 100), model.data);
}

static rn_status read_ends(struct vocab_files *l) {
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (int i = 0; i < 2; i++) {
        int32_t id = -1;
        const rn_status s = read_id(l, keys[i], &id);
        if (s) return s;
        if (id >= 0) l->source.end[l->source.n_end++] = id;
        if (i == 0) l->source.eot = id;
    }
    return RN_OK;
}

// Nothing here uses it, so a value that is no token is no fault of the file.
static void read_padding(struct vocab_files *l) {
    const struct meta_view *meta = weights_meta_find(l->weights, "tokenizer.ggml.padding_token_id");
    int64_t id;
    if (meta && meta_get_i64(meta, &id) && id >= 0 && id < l->source.n_token)
        l->source.pad = (int32_t)id;
}

rn_status vocab_read_gguf(struct vocab_files *l) {
    struct vocab_source *const source = &l->source;
    *source = (struct vocab_source){
        .name = "tokenizer.ggml", .bos = -1, .eos = -1, .unk = -1, .eot = -1, .pad = -1};
    read_fn read_rest = NULL;
    rn_status s;
    if ((s = find_model(l, &read_rest))) return s;
    if ((s = read_tokens(l))) return s;
    if ((s = read_types(l))) return s;
    if ((s = read_rest(l))) return s;
    if ((s = read_id(l, "tokenizer.ggml.bos_token_id", &source->bos))) return s;
    if ((s = read_id(l, "tokenizer.ggml.eos_token_id", &source->eos))) return s;
    if ((s = read_id(l, "tokenizer.ggml.unknown_token_id", &source->unk))) return s;
    if ((s = read_ends(l))) return s;
    read_padding(l);
    if ((s = read_bool(l, "tokenizer.ggml.add_bos_token", &source->add_bos))) return s;
    if ((s = read_bool(l, "tokenizer.ggml.add_eos_token", &source->add_eos))) return s;
    // Published files of Gemma 4 say false, but its tokenizer.json adds it.
    if (read_rest == read_gemma4) source->add_bos = true;
    if (source->bos < 0) source->add_bos = false;
    if (source->eos < 0) source->add_eos = false;
    return read_string(l, "tokenizer.chat_template", &l->chat_template);
}
