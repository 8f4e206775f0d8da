// A hostile description of a tokenizer and a hostile text, both from the input. If they are
// accepted, ids are in range and no plain text becomes a control token. Where nothing is removed or
// replaced, decode(encode(text)) == text.
//
// Input: flags, the model, bytes for bos, eos, unk (signed) and the number of ends, these; the
// number of tokens, tokens (type, score, string); merges (left and right as token numbers; or,
// where left is 255, two strings); normalizers (kind, two strings); splits (kind, behavior and
// invert, a string or the number of a known pattern); added tokens (id, flags, string); then the
// text. A string is a length and bytes.
#include <stdlib.h>
#include <string.h>

#include "text/alphabet.h"
#include "text/detokenizer.h"
#include "text/guard.h"
#include "text/tokenizer.h"
#include "unicode/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    WITH_BYTES = 1, // a token for every byte comes first
    WITH_SPECIAL = 2,
    WITH_BOS = 4,
    WITH_EOS = 8,
    NO_TYPES = 16,
    IGNORE_MERGES = 32,
    BYTE_FALLBACK = 64,
    FUSE_UNKNOWN = 128,
    TOKENS_MAX = 1024,
    LIST_MAX = 32,         // of normalizers, splits and added tokens
    STORE_BYTES = 1 << 16, // strings that no longer fit are empty
};

struct input {
    const uint8_t *at;
    size_t left;
};

struct vocab {
    struct text_span token[TOKENS_MAX];
    struct vocab_merge merge[256];
    struct vocab_normal normal[LIST_MAX];
    struct vocab_split split[LIST_MAX];
    struct vocab_added added[LIST_MAX];
    int32_t type[TOKENS_MAX];
    float score[TOKENS_MAX];
    char store[STORE_BYTES];
    size_t stored;
    struct vocab_source source;
};

static uint8_t take(struct input *input) {
    if (input->left == 0) return 0;
    input->left--;
    return *input->at++;
}

static struct text_span take_span(struct input *input) {
    size_t len = take(input);
    if (len > input->left) len = input->left;
    const struct text_span span = {(const char *)input->at, len};
    input->at += len;
    input->left -= len;
    return span;
}

static void token_add(struct vocab *vocab, struct text_span text, int32_t type, float score) {
    const int32_t id = vocab->source.n_token;
    if (id == TOKENS_MAX) return;
    vocab->token[id] = text;
    vocab->type[id] = type;
    vocab->score[id] = score;
    vocab->source.n_token++;
}

// left and right joined in the store; empty when it is full.
static struct text_span join(struct vocab *vocab, struct text_span left, struct text_span right) {
    const size_t len = left.len + right.len;
    if (len > STORE_BYTES - vocab->stored) return (struct text_span){0};
    char *const out = vocab->store + vocab->stored;
    if (left.len) memcpy(out, left.data, left.len);
    if (right.len) memcpy(out + left.len, right.data, right.len);
    vocab->stored += len;
    return (struct text_span){out, len};
}

static void bytes_add(struct vocab *vocab) {
    static const char digit[] = "0123456789ABCDEF";
    const bool level = vocab->source.model == VOCAB_BYTE_LEVEL;
    for (int byte = 0; byte < 256; byte++) {
        uint8_t text[8] = {'<', '0', 'x', (uint8_t)digit[byte >> 4], (uint8_t)digit[byte & 15],
                           '>'};
        size_t n = 6;
        if (level) n = unicode_encode(alphabet_char((uint8_t)byte), text);
        const struct text_span span = {(const char *)text, n};
        token_add(vocab, join(vocab, span, (struct text_span){0}),
                  level ? TOKEN_NORMAL : TOKEN_BYTE, 0);
    }
}

static void merge_take(struct vocab *vocab, struct input *input) {
    const uint8_t left = take(input);
    struct vocab_merge merge;
    if (left == 255) {
        merge.left = take_span(input);
        merge.right = take_span(input);
    } else {
        const uint8_t right = take(input);
        if (left >= vocab->source.n_token || right >= vocab->source.n_token) return;
        merge = (struct vocab_merge){vocab->token[left], vocab->token[right]};
        token_add(vocab, join(vocab, merge.left, merge.right), TOKEN_NORMAL, (int8_t)right);
    }
    vocab->merge[vocab->source.n_merge++] = merge;
}

// A name or an expression that is known, so that an input need not contain it.
static struct text_span pattern_known(uint8_t number, bool is_name) {
    static const char *const names[] = {"gpt-2",       "llama-bpe",    "qwen2",
                                        "gpt-4o",      "tekken",       "falcon",
                                        "default",     "deepseek-llm", "deepseek-coder",
                                        "deepseek-v3", "starcoder",    "qwen35",
                                        "seed-coder"};
    static const char *const expressions[] = {"\\p{N}{1,3}",
                                              "\\s+(?!\\S)|\\s+",
                                              "\\w+|[^\\w\\s]+",
                                              "[0-9][0-9][0-9]",
                                              "\\s?\\p{L}+",
                                              "(?=(?:\\d{3})+(?!\\d))",
                                              "[^\\n]+|\\n+",
                                              " ?[^(\\s|.,!?)]+",
                                              "x*",
                                              "\\s+$"};
    const char *const text = is_name ? names[number % 13] : expressions[number % 10];
    return (struct text_span){text, strlen(text)};
}

static void lists_take(struct vocab *vocab, struct input *input) {
    struct vocab_source *const source = &vocab->source;
    for (int n = take(input) % (LIST_MAX + 1); n > 0 && input->left > 0; n--) {
        struct vocab_normal *const normal = &vocab->normal[source->n_normal++];
        normal->kind = (enum vocab_normal_kind)take(input);
        normal->from = take_span(input);
        normal->to = take_span(input);
    }
    for (int n = take(input) % (LIST_MAX + 1); n > 0 && input->left > 0; n--) {
        struct vocab_split *const split = &vocab->split[source->n_split++];
        split->kind = (enum vocab_split_kind)take(input);
        const uint8_t how = take(input);
        split->behavior = (enum vocab_split_behavior)(how & 7);
        split->invert = how & 8;
        if (how & 16)
            split->pattern = pattern_known(take(input), split->kind == SPLIT_NAMED);
        else
            split->pattern = take_span(input);
    }
    for (int n = take(input) % (LIST_MAX + 1); n > 0 && input->left > 0; n--) {
        struct vocab_added *const added = &vocab->added[source->n_added++];
        added->id = (int8_t)take(input);
        const uint8_t how = take(input);
        added->special = how & 1;
        added->lstrip = how & 2;
        added->rstrip = how & 4;
        added->single_word = how & 8;
        added->normalized = how & 16;
        if (how & 32) added->id += 256; // tokens behind the bytes
        added->text = take_span(input);
    }
}

static void vocab_take(struct vocab *vocab, struct input *input, int flags) {
    struct vocab_source *const source = &vocab->source;
    source->name = "fuzz";
    source->model = (enum vocab_model)(take(input) & 3);
    source->bos = (int8_t)take(input);
    source->eos = (int8_t)take(input);
    source->unk = (int8_t)take(input);
    source->n_end = take(input) % (VOCAB_MAX_ENDS + 2);
    for (int32_t i = 0; i < source->n_end && i < VOCAB_MAX_ENDS; i++)
        source->end[i] = (int8_t)take(input);
    source->add_bos = flags & WITH_BOS;
    source->add_eos = flags & WITH_EOS;
    source->ignore_merges = flags & IGNORE_MERGES;
    source->byte_fallback = flags & BYTE_FALLBACK;
    source->fuse_unk = flags & FUSE_UNKNOWN;
    if (flags & WITH_BYTES) bytes_add(vocab);
    for (int n = take(input); n > 0 && input->left > 0; n--) {
        const int32_t type = (int8_t)take(input);
        const int8_t score = (int8_t)take(input);
        token_add(vocab, take_span(input), type, score);
    }
    for (int n = take(input); n > 0 && input->left > 0; n--) merge_take(vocab, input);
    lists_take(vocab, input);
    source->token = vocab->token;
    source->type = flags & NO_TYPES ? NULL : vocab->type;
    source->score = vocab->score;
    source->merge = vocab->merge;
    source->normal = vocab->normal;
    source->split = vocab->split;
    source->added = vocab->added;
}

// Whether a text must come back as it was: bytes of any kind become tokens, and nothing is dropped.
static bool gives_back(const struct vocab_source *source, int flags) {
    bool back = flags & WITH_BYTES && source->model == VOCAB_BYTE_LEVEL && source->n_normal == 0 &&
                source->n_added == 0;
    for (int32_t i = 0; i < source->n_split; i++) {
        const struct vocab_split *const split = &source->split[i];
        const bool drops = split->behavior == SPLIT_REMOVED || split->kind == SPLIT_WHITESPACE ||
                           split->kind == SPLIT_WHITESPACE_ALL;
        const bool composes = split->kind == SPLIT_NAMED; // a name may imply NFC
        back = back && !drops && !composes;
    }
    return back;
}

static void require(bool holds) {
    if (!holds) abort();
}

static void check_stream(const struct tokenizer *tokenizer, const struct token_list *list) {
    struct detokenizer state = {0};
    for (size_t i = 0; i <= list->count; i++) {
        struct text_span token = {"", 0};
        if (i < list->count) token = tokenizer_bytes(tokenizer, list->id[i]);
        char *const out = malloc(3 * (token.len + 4));
        require(out != NULL);
        const size_t len = i < list->count ? detokenizer_feed(&state, token.data, token.len, out)
                                           : detokenizer_finish(&state, out);
        for (size_t at = 0, n; at < len; at += n)
            require(unicode_scan((const uint8_t *)out + at, len - at, &n) == UNICODE_WELL);
        free(out);
    }
}

static void check_text(const struct tokenizer *tokenizer, const struct token_list *list,
                       const struct input *text) {
    size_t at = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct text_span token = tokenizer_bytes(tokenizer, list->id[i]);
        require(token.len <= text->left - at);
        require(token.len == 0 || memcmp(token.data, text->at + at, token.len) == 0);
        at += token.len;
    }
    require(at == text->left);
}

static void check_encode(const struct tokenizer *tokenizer, const struct input *text, int flags,
                         bool back) {
    const int special = flags & WITH_SPECIAL ? ENCODE_SPECIAL : 0;
    struct token_list list = {0};
    rn_error err = {0};
    rn_status status = tokenizer_encode(tokenizer, (const char *)text->at, text->left,
                                        special | ENCODE_BOS, &list, &err);
    require((status == RN_OK) == (err.message[0] == '\0'));
    require(status == RN_OK || list.count == 0);
    for (size_t i = 0; i < list.count; i++) {
        require(list.id[i] >= 0 && list.id[i] < tokenizer_size(tokenizer));
        tokenizer_is_end(tokenizer, list.id[i]);
        require(special || i == 0 || i + 1 == list.count || !back ||
                !tokenizer_is_special(tokenizer, list.id[i]));
    }
    check_stream(tokenizer, &list);
    list.count = 0;
    status = tokenizer_encode(tokenizer, (const char *)text->at, text->left, special, &list, NULL);
    // an expression may run out of steps, and not all are supported
    if (back) require(status == RN_OK || status == RN_ERR_ARG || status == RN_ERR_UNSUPPORTED);
    if (back && status == RN_OK) check_text(tokenizer, &list, text);
    token_list_deinit(&list);
}

// Guards change a text in no other way, and a guarded text can be encoded.
static void check_guards(const struct tokenizer *tokenizer, const struct input *text) {
    if (!unicode_is_valid((const char *)text->at, text->left)) return;
    struct text_buffer guarded = {0}, before = {0}, behind = {0};
    struct token_list list = {0};
    const rn_status status =
        guard_put(tokenizer, (const char *)text->at, text->left, &guarded, NULL);
    require(status != RN_ERR_NOMEM);
    if (status == RN_OK) { // a normalizer may run out of steps
        const char *const out = guarded.len ? (const char *)guarded.data : "";
        require(guard_remove((const char *)text->at, text->left, &before, NULL));
        require(guard_remove(out, guarded.len, &behind, NULL));
        require(before.len == behind.len);
        require(before.len == 0 || memcmp(before.data, behind.data, before.len) == 0);
        tokenizer_encode(tokenizer, out, guarded.len, ENCODE_SPECIAL | ENCODE_GUARDED, &list, NULL);
        check_stream(tokenizer, &list);
    }
    token_list_deinit(&list);
    text_buffer_deinit(&guarded);
    text_buffer_deinit(&before);
    text_buffer_deinit(&behind);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = {data, size};
    struct vocab *const vocab = calloc(1, sizeof *vocab);
    require(vocab != NULL);
    const int flags = take(&input);
    vocab_take(vocab, &input, flags);
    const bool back = gives_back(&vocab->source, flags);
    struct tokenizer *tokenizer = NULL;
    rn_error err = {0};
    if (tokenizer_create(&vocab->source, &tokenizer, &err) == RN_OK) {
        free(vocab); // nothing of it may be needed any more
        check_encode(tokenizer, &input, flags, back);
        check_guards(tokenizer, &input);
        tokenizer_destroy(tokenizer);
    } else {
        require(tokenizer == NULL && err.message[0] != '\0');
        free(vocab);
    }
    return 0;
}
