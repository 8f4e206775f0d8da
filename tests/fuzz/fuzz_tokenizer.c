// A hostile vocabulary and a hostile text, both from the input. What is accepted must hold: ids in
// range, and with a token for every byte, decode(encode(text)) == text.
//
// Input: flags, 4 signed bytes for bos, eos, eot, eom, the number of tokens, tokens (type, length,
// bytes), the number of merges, merges (left and right as token numbers; or, where left is 255,
// length and bytes), then the text.
#include <stdlib.h>
#include <string.h>

#include "text/alphabet.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    WITH_BYTES = 1, // a normal token for every byte comes first
    WITH_SPECIAL = 2,
    WITH_BOS = 4,
    WITH_EOS = 8,
    NO_TYPES = 16,
    OTHER_PRE = 32,
    TOKENS_MAX = 1024,
    STORE_BYTES = 1 << 16, // strings that no longer fit are empty
};

struct input {
    const uint8_t *at;
    size_t left;
};

struct vocab {
    struct text_span token[TOKENS_MAX], merge[256];
    int32_t type[TOKENS_MAX];
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

static void token_add(struct vocab *vocab, struct text_span text, int32_t type) {
    if (vocab->source.n_token == TOKENS_MAX) return;
    vocab->token[vocab->source.n_token] = text;
    vocab->type[vocab->source.n_token++] = type;
}

// left, middle and right joined in the store; empty when it is full.
static struct text_span join(struct vocab *vocab, struct text_span left, const char *middle,
                             struct text_span right) {
    const size_t gap = strlen(middle), len = left.len + gap + right.len;
    if (len > STORE_BYTES - vocab->stored) return (struct text_span){0};
    char *const out = vocab->store + vocab->stored;
    if (left.len) memcpy(out, left.data, left.len);
    memcpy(out + left.len, middle, gap);
    if (right.len) memcpy(out + left.len + gap, right.data, right.len);
    vocab->stored += len;
    return (struct text_span){out, len};
}

static void bytes_add(struct vocab *vocab) {
    for (int byte = 0; byte < 256; byte++) {
        uint8_t text[4];
        const size_t n = unicode_encode(alphabet_char((uint8_t)byte), text);
        const struct text_span span = {(const char *)text, n};
        token_add(vocab, join(vocab, span, "", (struct text_span){0}), TOKEN_NORMAL);
    }
}

static void merge_add(struct vocab *vocab, struct input *input) {
    const uint8_t left = take(input);
    struct text_span merge;
    if (left == 255) {
        merge = take_span(input);
    } else {
        const uint8_t right = take(input);
        if (left >= vocab->source.n_token || right >= vocab->source.n_token) return;
        merge = join(vocab, vocab->token[left], " ", vocab->token[right]);
        token_add(vocab, join(vocab, vocab->token[left], "", vocab->token[right]), TOKEN_NORMAL);
    }
    vocab->merge[vocab->source.n_merge++] = merge;
}

static void vocab_take(struct vocab *vocab, struct input *input, int flags) {
    struct vocab_source *const source = &vocab->source;
    source->model = (struct text_span){"gpt2", 4};
    if (flags & OTHER_PRE) source->pre = (struct text_span){"other", 5};
    source->bos = (int8_t)take(input);
    source->eos = (int8_t)take(input);
    source->eot = (int8_t)take(input);
    source->eom = (int8_t)take(input);
    source->add_bos = flags & WITH_BOS;
    source->add_eos = flags & WITH_EOS;
    if (flags & WITH_BYTES) bytes_add(vocab);
    for (int n = take(input); n > 0 && input->left > 0; n--) {
        const int32_t type = (int8_t)take(input);
        token_add(vocab, take_span(input), type);
    }
    for (int n = take(input); n > 0 && input->left > 0; n--) merge_add(vocab, input);
    source->token = vocab->token;
    source->type = flags & NO_TYPES ? NULL : vocab->type;
    source->merge = vocab->merge;
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

static void check_encode(const struct tokenizer *tokenizer, const struct input *text, int flags) {
    const int special = flags & WITH_SPECIAL ? ENCODE_SPECIAL : 0;
    struct token_list list = {0};
    rn_error err = {0};
    rn_status status = tokenizer_encode(tokenizer, (const char *)text->at, text->left,
                                        special | ENCODE_BOS, &list, &err);
    require((status == RN_OK) == (err.message[0] == '\0'));
    if (flags & OTHER_PRE) require(status == RN_ERR_UNSUPPORTED);
    for (size_t i = 0; i < list.count; i++) {
        require(list.id[i] >= 0 && list.id[i] < tokenizer_size(tokenizer));
        tokenizer_is_end(tokenizer, list.id[i]);
        require(special || i == 0 || i + 1 == list.count ||
                !tokenizer_is_special(tokenizer, list.id[i]) || !(flags & WITH_BYTES));
    }
    check_stream(tokenizer, &list);
    list.count = 0;
    status = tokenizer_encode(tokenizer, (const char *)text->at, text->left, special, &list, &err);
    if (flags & WITH_BYTES && !(flags & OTHER_PRE)) {
        require(status == RN_OK);
        check_text(tokenizer, &list, text);
    }
    token_list_deinit(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = {data, size};
    struct vocab *const vocab = calloc(1, sizeof *vocab);
    require(vocab != NULL);
    const int flags = take(&input);
    vocab_take(vocab, &input, flags);
    struct tokenizer *tokenizer = NULL;
    rn_error err = {0};
    if (tokenizer_create(&vocab->source, &tokenizer, &err) == RN_OK) {
        free(vocab); // nothing of it may be needed any more
        check_encode(tokenizer, &input, flags);
        tokenizer_destroy(tokenizer);
    } else {
        require(tokenizer == NULL && err.message[0] != '\0');
        free(vocab);
    }
    return 0;
}
