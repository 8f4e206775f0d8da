// Builds the tables of a bpe from a vocabulary and its merges, and refuses merges that make no
// sense: after this, every id in the tables is a token, and every merged token's bytes are its
// parts' bytes.
#include <assert.h>
#include <string.h>

#include "base/entropy.h"
#include "text/alphabet.h"
#include "text/bpe.h"
#include "text/unicode.h"

static rn_status merge_error(rn_error *err, int32_t index, struct text_span merge,
                             const char *what) {
    char quoted[128];
    unicode_quote(merge.data, merge.len, quoted, sizeof quoted);
    return err_set(err, RN_ERR_MODEL, "tokenizer.ggml.merges[%d] '%s' %s", index, quoted, what);
}

// "left right" at the first space that is not the first character. A space inside a token is
// written as another character in the byte-level alphabet, so there is no doubt which one it is.
static bool merge_split(struct text_span merge, struct text_span *left, struct text_span *right) {
    if (merge.len < 3) return false;
    const char *const space = memchr(merge.data + 1, ' ', merge.len - 1);
    if (!space) return false;
    *left = (struct text_span){merge.data, (size_t)(space - merge.data)};
    *right = (struct text_span){space + 1, merge.len - left->len - 1};
    return right->len > 0;
}

// Of a pair that comes twice the lower rank holds.
static void pair_put(struct bpe *bpe, int32_t left, int32_t right, int32_t rank) {
    size_t at = bpe_pair_hash(bpe->seed, left, right) & bpe->mask;
    for (; bpe->pair[at].rank >= 0; at = (at + 1) & bpe->mask) {
        if (bpe->pair[at].left == left && bpe->pair[at].right == right) return;
    }
    bpe->pair[at] = (struct bpe_pair){left, right, rank};
}

static rn_status merge_add(struct bpe *bpe, const struct token_map *map, int32_t rank,
                           struct text_span merge, rn_error *err) {
    const struct text_span none = {0};
    struct text_span left, right;
    if (!merge_split(merge, &left, &right))
        return merge_error(err, rank, merge, "is not two tokens with a space between them");
    const int32_t left_id = token_map_find(map, left, none);
    if (left_id < 0) return merge_error(err, rank, merge, "begins with what is no ordinary token");
    const int32_t right_id = token_map_find(map, right, none);
    if (right_id < 0) return merge_error(err, rank, merge, "ends with what is no ordinary token");
    const int32_t merged = token_map_find(map, left, right);
    if (merged < 0) return merge_error(err, rank, merge, "makes what is no ordinary token");
    bpe->merged[rank] = merged;
    pair_put(bpe, left_id, right_id, rank);
    return RN_OK;
}

static void bytes_init(struct bpe *bpe, const struct token_map *map, int32_t unknown) {
    for (int byte = 0; byte < 256; byte++) {
        uint8_t text[4];
        const size_t n = unicode_encode(alphabet_char((uint8_t)byte), text);
        const int32_t id =
            token_map_find(map, (struct text_span){(const char *)text, n}, (struct text_span){0});
        bpe->byte_id[byte] = id >= 0 ? id : unknown;
    }
}

rn_status bpe_init(struct bpe *bpe, const struct vocab_source *source, const struct token_map *map,
                   int32_t unknown, struct arena *arena, rn_error *err) {
    assert(source->n_merge >= 0);
    size_t size = 16;
    while (size < 2 * (size_t)source->n_merge) size *= 2;
    bpe->mask = size - 1;
    bpe->seed = entropy_u64();
    bpe->pair = arena_array(arena, size, sizeof *bpe->pair);
    bpe->merged = arena_array(arena, (size_t)source->n_merge, sizeof *bpe->merged);
    if (!bpe->pair || !bpe->merged)
        return err_set(err, RN_ERR_NOMEM, "out of memory for %d merges", source->n_merge);
    for (size_t i = 0; i < size; i++) bpe->pair[i].rank = -1;
    bytes_init(bpe, map, unknown);
    for (int32_t rank = 0; rank < source->n_merge; rank++) {
        const rn_status status = merge_add(bpe, map, rank, source->merge[rank], err);
        if (status != RN_OK) return status;
    }
    return RN_OK;
}
