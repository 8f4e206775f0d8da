// Whether a draft model's tokens are the target's: the same bytes and the same meaning for every id
// that both have. Vocabularies are padded to sizes of the trainer's choice, so a few ids more or
// less are fine. The draft model never drafts such ids, and reads another id in their place.
#include <stdio.h>
#include <string.h>

#include "engine/draft/drafter.h"
#include "text/tokenizer.h"
#include "unicode/unicode.h"

enum { MOST_PADDING = 1024, PADDING_DIVISOR = 64, QUOTE_BYTES = 24 };

struct quote {
    char text[4 * QUOTE_BYTES + 1];
};

// A token's text for a message: its first bytes, control characters as \xNN.
static struct quote quote_of(struct text_span bytes) {
    char plain[QUOTE_BYTES + 1];
    struct quote quote;
    size_t n = 0;
    unicode_quote(bytes.data, bytes.len, plain, sizeof plain);
    for (const char *c = plain; *c; c++) {
        const unsigned char byte = (unsigned char)*c;
        if (byte < 0x20 || byte == 0x7f)
            n += (size_t)snprintf(quote.text + n, sizeof quote.text - n, "\\x%02x", byte);
        else
            quote.text[n++] = *c;
    }
    quote.text[n] = 0;
    return quote;
}

static rn_status check_sizes(int n_draft, int n_target, rn_error *err) {
    const int larger = n_draft > n_target ? n_draft : n_target;
    const int apart = n_draft > n_target ? n_draft - n_target : n_target - n_draft;
    if (apart <= MOST_PADDING && apart <= larger / PADDING_DIVISOR) return RN_OK;
    return err_set(err, RN_ERR_MODEL,
                   "the draft model has another vocabulary: %d tokens, the model has %d", n_draft,
                   n_target);
}

static rn_status refuse_kind(int32_t id, const char *kind, bool of_draft, struct text_span bytes,
                             rn_error *err) {
    return err_set(err, RN_ERR_MODEL,
                   "the draft model has another vocabulary: token %d, '%s', is %s token %s",
                   (int)id, quote_of(bytes).text, kind,
                   of_draft ? "there, but not in the model" : "in the model, but not there");
}

static rn_status check_token(const struct tokenizer *draft, const struct tokenizer *target,
                             int32_t id, rn_error *err) {
    const struct text_span a = tokenizer_bytes(draft, id), b = tokenizer_bytes(target, id);
    if (!a.len != !b.len) return RN_OK; // padding here, and named padding there
    if (a.len != b.len || (a.len && memcmp(a.data, b.data, a.len) != 0))
        return err_set(err, RN_ERR_MODEL,
                       "the draft model has another vocabulary: token %d is '%s' there, '%s' in "
                       "the model",
                       (int)id, quote_of(a).text, quote_of(b).text);
    const bool ends = tokenizer_is_end(draft, id);
    if (ends != tokenizer_is_end(target, id)) return refuse_kind(id, "an end", ends, a, err);
    const bool special = tokenizer_is_special(draft, id);
    if (special != tokenizer_is_special(target, id))
        return refuse_kind(id, "a special", special, a, err);
    return RN_OK;
}

rn_status drafter_model_check(const struct tokenizer *draft, const struct tokenizer *target,
                              rn_error *err) {
    const int32_t n_draft = tokenizer_size(draft), n_target = tokenizer_size(target);
    rn_status status = check_sizes(n_draft, n_target, err);
    for (int32_t id = 0; id < n_draft && id < n_target && !status; id++)
        status = check_token(draft, target, id, err);
    return status;
}
