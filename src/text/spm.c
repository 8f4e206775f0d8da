// Encoding of a piece. A symbol is the id of a token, or below 0 a character without a token: ~cp,
// or for an ill-formed byte ~(BYTE + byte). By score, a pair is merged if its joined string is a
// token. The string's hash comes from the hashes of the piece's prefixes, so the time of a pair
// does not depend on its length.
#include "text/spm.h"

#include <assert.h>
#include <string.h>

#include "unicode/unicode.h"

enum { BYTE = 0x110000 }; // ill-formed bytes are numbered behind the characters

static int32_t symbol_of(const struct spm *spm, const uint8_t *text, size_t len, size_t *n) {
    const int32_t cp = unicode_decode(text, len, n);
    if (cp < 0) return ~(BYTE + text[0]);
    const int32_t id = spm->single[spm->page[cp >> 8]][cp & 0xFF];
    return id >= 0 ? id : ~cp;
}

size_t spm_piece(const struct spm *spm, const uint8_t *word, size_t len) {
    for (size_t at = 1; at < len; at++) {
        const uint8_t byte = word[at];
        const bool begins = (byte & 0xC0) != 0x80; // a character
        if (begins && !(spm->joined[word[at - 1]][byte / 8] >> byte % 8 & 1)) return at;
    }
    return len;
}

// ---------------------------------------------------------------- merging by score

// The hash of each prefix that ends before a symbol, and where it ends.
struct prefixes {
    const struct spm *spm;
    const uint8_t *text;
    const uint64_t *hash;  // [symbols + 1]
    const uint32_t *begin; // [symbols + 1]
};

static uint32_t pair_rank(const void *context, const struct chain *chain, uint32_t at,
                          int32_t *made) {
    const struct prefixes *const p = context;
    const struct spm *const spm = p->spm;
    const uint32_t end = chain->next[chain->next[at]];
    const size_t len = p->begin[end] - p->begin[at];
    if (len > spm->longest) return CHAIN_NONE;
    const uint64_t before = token_map_multiply(p->hash[at], spm->power[len]);
    const uint64_t hash =
        p->hash[end] >= before ? p->hash[end] - before : p->hash[end] + TOKEN_MAP_PRIME - before;
    const struct text_span text = {(const char *)p->text + p->begin[at], len};
    *made = token_map_find_hash(spm->map, hash, text);
    return *made < 0 ? CHAIN_NONE : spm->rank[*made];
}

static rn_status merge_by_score(const struct spm *spm, const uint8_t *text, size_t len,
                                struct chain_scratch *scratch, int32_t *id, size_t *count,
                                rn_error *err) {
    const size_t n = *count;
    const size_t extra = (n + 1) * (sizeof(uint64_t) + sizeof(uint32_t));
    const rn_status status = chain_reserve(scratch, n, extra, err);
    if (status != RN_OK) return status;
    uint64_t *const hash = scratch->memory;
    uint32_t *const begin = (uint32_t *)(hash + n + 1);
    uint64_t sum = 0;
    size_t symbol = 0, size = 0;
    for (size_t at = 0; at < len; at++) {
        if (size == 0) { // a symbol begins
            unicode_decode(text + at, len - at, &size);
            hash[symbol] = sum;
            begin[symbol++] = (uint32_t)at;
        }
        sum = token_map_hash_add(spm->map, sum, text[at]);
        size--;
    }
    assert(symbol == n && size == 0);
    hash[n] = sum;
    begin[n] = (uint32_t)len;
    const struct prefixes prefixes = {spm, text, hash, begin};
    chain_merge(scratch, extra, id, n, pair_rank, &prefixes, count);
    return RN_OK;
}

// ---------------------------------------------------------------- symbols without a token

// The bytes of a symbol without a token.
static size_t symbol_bytes(int32_t symbol, uint8_t bytes[4]) {
    const int32_t cp = ~symbol;
    if (cp < BYTE) return unicode_encode((uint32_t)cp, bytes);
    bytes[0] = (uint8_t)(cp - BYTE);
    return 1;
}

static rn_status no_token(int32_t symbol, rn_error *err) {
    const int32_t cp = ~symbol;
    if (cp < BYTE)
        return err_set(err, RN_ERR_MODEL, "the vocabulary has no token for the character U+%04X",
                       (unsigned)cp);
    return err_set(err, RN_ERR_MODEL, "the vocabulary has no token for the byte 0x%02X",
                   (unsigned)(cp - BYTE));
}

// Writes the tokens of a symbol without its own; at most as many as it has bytes.
static rn_status symbol_put(const struct spm *spm, int32_t symbol, int32_t *out, size_t *count,
                            bool *was_unknown, rn_error *err) {
    uint8_t bytes[4];
    const size_t n = symbol_bytes(symbol, bytes);
    int32_t all = 0;
    for (size_t i = 0; i < n; i++) all |= spm->byte_id[bytes[i]];
    if (all >= 0) {
        for (size_t i = 0; i < n; i++) out[(*count)++] = spm->byte_id[bytes[i]];
        *was_unknown = false;
        return RN_OK;
    }
    if (spm->unknown < 0) return no_token(symbol, err);
    if (!*was_unknown || !spm->fuse_unknown) out[(*count)++] = spm->unknown;
    *was_unknown = true;
    return RN_OK;
}

// Replaces symbols below 0 in the first *count of out, which holds len.
static rn_status symbols_replace(const struct spm *spm, size_t len, int32_t *out, size_t *count,
                                 rn_error *err) {
    const size_t n = *count;
    int32_t all = 0;
    for (size_t i = 0; i < n; i++) all |= out[i];
    if (all >= 0) return RN_OK;
    // From the end of out to its front: a symbol becomes at most as many ids as it has bytes. Each
    // symbol not yet read has at least one byte, so writing never overtakes reading.
    int32_t *const symbol = out + len - n;
    memmove(symbol, out, n * sizeof *out);
    bool was_unknown = false;
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        if (symbol[i] >= 0) {
            was_unknown = false;
            out[(*count)++] = symbol[i];
            continue;
        }
        const rn_status status = symbol_put(spm, symbol[i], out, count, &was_unknown, err);
        if (status != RN_OK) return status;
    }
    return RN_OK;
}

rn_status spm_encode(const struct spm *spm, const struct bpe *pairs, const uint8_t *piece,
                     size_t len, struct chain_scratch *scratch, int32_t *out, size_t *count,
                     rn_error *err) {
    assert(len > 0 && len <= BPE_WORD_MAX);
    *count = 0;
    for (size_t at = 0, n; at < len; at += n)
        out[(*count)++] = symbol_of(spm, piece + at, len - at, &n);
    rn_status status = pairs ? bpe_merge(pairs, scratch, out, count, err)
                             : merge_by_score(spm, piece, len, scratch, out, count, err);
    if (status == RN_OK) status = symbols_replace(spm, len, out, count, err);
    return status;
}
