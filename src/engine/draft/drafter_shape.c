// The drafter "shape": the text that the shape of a sequence's text leaves no choice about, such as
// the name of a property. Its tokens are those of the tokenizer. Other tokens of the same text may
// be legal, too: the target chooses, and accepts or refuses as with every draft. Where one token
// alone is legal, it is accepted for sure.
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/draft/drafter.h"
#include "engine/request/seq.h"

enum { FORCED_MAX = 256 }; // bytes that are looked at

struct shape_drafter {
    struct drafter base;
    const struct tokenizer *tokenizer;
    struct choice_scratch *scratch; // of the step's thread
    struct token_list list;         // of the last encoding
};

// Whether the list's tokens from `from` on are the text.
static bool is_text(const struct shape_drafter *d, size_t from, const char *text, size_t len) {
    size_t at = 0;
    for (size_t i = from; i < d->list.count; i++) {
        const struct text_span bytes = tokenizer_bytes(d->tokenizer, d->list.id[i]);
        if (bytes.len == 0 || bytes.len > len - at) return false;
        if (memcmp(bytes.data, text + at, bytes.len) != 0) return false;
        at += bytes.len;
    }
    return at == len;
}

// The tokens of the text inside of another one, and the first of them; -1: there are none. Some
// tokenizers put a space before a text's first token; then they are those behind a line break.
static int encode(struct shape_drafter *d, const char *text, size_t len) {
    char broken[1 + FORCED_MAX];
    broken[0] = '\n';
    memcpy(broken + 1, text, len);
    for (int is_broken = 0; is_broken < 2; is_broken++) {
        d->list.count = 0;
        if (tokenizer_encode(d->tokenizer, is_broken ? broken : text, len + (size_t)is_broken, 0,
                             &d->list, NULL))
            return -1;
        for (size_t from = 0; from < d->list.count && from < 3; from++)
            if (is_text(d, from, text, len)) return (int)from;
    }
    return -1;
}

// The last token may become another one with the text that follows: a word does, a quote hardly.
static bool may_grow(char last) { return isalnum((unsigned char)last) || last == ' ' || last < 0; }

// A special token is its text between two bytes that no text has; -1: it is not whole, or unknown.
static int32_t special_of(struct shape_drafter *d, const char *text, size_t len) {
    d->list.count = 0;
    if (tokenizer_encode(d->tokenizer, text, len, ENCODE_SPECIAL, &d->list, NULL)) return -1;
    if (d->list.count != 1 || !tokenizer_is_special(d->tokenizer, d->list.id[0])) return -1;
    return d->list.id[0];
}

static int add_plain(struct shape_drafter *d, const char *text, size_t len, bool is_last,
                     int32_t *out, int most) {
    const int from = encode(d, text, len);
    if (from < 0) return 0;
    int n = (int)d->list.count - from;
    if (is_last && may_grow(text[len - 1])) n--;
    if (n > most) n = most;
    if (n > 0) memcpy(out, d->list.id + from, (size_t)n * sizeof *out);
    return n;
}

static int tokens_of(struct shape_drafter *d, const char *text, size_t len, int32_t *out,
                     int most) {
    int n = 0;
    for (size_t at = 0; at < len && n < most;) {
        const char *open = memchr(text + at, '\xFF', len - at);
        const size_t plain = open ? (size_t)(open - text) - at : len - at;
        if (plain) {
            const int added = add_plain(d, text + at, plain, !open, out + n, most - n);
            if (added == 0) return n;
            n += added;
            at += plain;
            continue;
        }
        const char *close = memchr(open, '\xFE', len - at);
        const int32_t id = close ? special_of(d, open + 1, (size_t)(close - open) - 1) : -1;
        if (id < 0) return n;
        out[n++] = id;
        at = (size_t)(close - text) + 1;
    }
    return n;
}

static struct draft_offer offer(struct drafter *drafter, struct seq *seq, int most, int32_t *out) {
    struct shape_drafter *const d = (struct shape_drafter *)drafter;
    char text[FORCED_MAX];
    assert(most >= 1);
    if (!seq->choices.shape) return (struct draft_offer){0};
    const size_t len = choice_forced(d->scratch, &seq->choices, seq->n_token, text, sizeof text);
    const int n = len ? tokens_of(d, text, len, out, most) : 0;
    return (struct draft_offer){.n = n, .source = DRAFT_SHAPE};
}

static void destroy(struct drafter *drafter) {
    struct shape_drafter *const d = (struct shape_drafter *)drafter;
    token_list_deinit(&d->list);
    free(d);
}

static const struct drafter_class shape_class = {
    .id = RN_DRAFTER_SHAPE,
    .offer = offer,
    .destroy = destroy,
};

rn_status drafter_shape_create(const struct tokenizer *tokenizer, struct choice_scratch *scratch,
                               struct drafter **out, rn_error *err) {
    *out = NULL;
    struct shape_drafter *const d = calloc(1, sizeof *d);
    if (!d) return err_set(err, RN_ERR_NOMEM, "no memory for the drafter shape");
    *d = (struct shape_drafter){.base = {&shape_class}, .tokenizer = tokenizer, .scratch = scratch};
    *out = &d->base;
    return RN_OK;
}
