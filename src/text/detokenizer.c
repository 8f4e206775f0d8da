// The streaming UTF-8 decoder. Invariant: held is empty or a proper prefix of some well-formed
// character, so it has at most 3 bytes and is one ill-formed part if nothing follows.
#include "text/detokenizer.h"

#include <assert.h>
#include <string.h>

#include "unicode/unicode.h"

static const char replacement[] = "\xEF\xBF\xBD"; // U+FFFD

// Copies the whole characters of text to out and holds an incomplete one at its end.
static size_t decode(struct detokenizer *state, const uint8_t *text, size_t len, char *out) {
    size_t used = 0;
    for (size_t at = 0, n; at < len; at += n) {
        if (text[at] < 0x80) { // most of a text
            out[used++] = (char)text[at];
            n = 1;
            continue;
        }
        switch (unicode_scan(text + at, len - at, &n)) {
        case UNICODE_WELL:
            memcpy(out + used, text + at, n);
            used += n;
            break;
        case UNICODE_ILL:
            memcpy(out + used, replacement, 3);
            used += 3;
            break;
        case UNICODE_PARTIAL:
            memcpy(state->held, text + at, n);
            state->n_held = (int)n;
            break;
        }
    }
    return used;
}

size_t detokenizer_feed(struct detokenizer *state, const char *bytes, size_t len, char *out) {
    assert(state->n_held >= 0 && state->n_held < 4);
    const uint8_t *text = (const uint8_t *)bytes;
    size_t used = 0;
    // Bytes join the held ones one at a time until nothing is held; the rest goes in one piece.
    while (state->n_held > 0 && len > 0) {
        uint8_t joined[4];
        const size_t n = (size_t)state->n_held;
        memcpy(joined, state->held, n);
        joined[n] = *text++;
        len--;
        state->n_held = 0;
        used += decode(state, joined, n + 1, out + used);
    }
    return used + decode(state, text, len, out + used);
}

size_t detokenizer_finish(struct detokenizer *state, char *out) {
    if (state->n_held == 0) return 0;
    state->n_held = 0;
    memcpy(out, replacement, 3);
    return 3;
}
