// Builds the table of pairs from a vocabulary and its merges, and refuses merges that make no
// sense. After this, every id in the table is an ordinary token, and every merged token's string is
// its parts' strings.
#include <assert.h>
#include <string.h>

#include "base/entropy.h"
#include "text/bpe.h"
#include "unicode/unicode.h"

static rn_status merge_error(rn_error *err, const struct vocab_source *source, int32_t index,
                             const char *what) {
    const struct vocab_merge *const merge = &source->merge[index];
    char left[64], right[64];
    unicode_quote(merge->left.data, merge->left.len, left, sizeof left);
    unicode_quote(merge->right.data, merge->right.len, right, sizeof right);
    return err_set(err, RN_ERR_MODEL, "merges[%d] '%s' '%s' %s", index, left, right, what);
}

// If a pair comes twice, its lower rank is used.
static void pair_put(struct bpe *bpe, struct bpe_pair new) {
    size_t at = bpe_pair_hash(bpe->seed, new.left, new.right) & bpe->mask;
    for (; bpe->pair[at].rank >= 0; at = (at + 1) & bpe->mask) {
        if (bpe->pair[at].left == new.left && bpe->pair[at].right == new.right) return;
    }
    bpe->pair[at] = new;
}

static rn_status merge_add(struct bpe *bpe, const struct vocab_source *source,
                           const struct token_map *map, const uint8_t *ordinary, int32_t rank,
                           rn_error *err) {
    const struct text_span none = {0};
    const struct vocab_merge *const merge = &source->merge[rank];
    if (merge->left.len == 0 || merge->right.len == 0)
        return merge_error(err, source, rank, "is not two tokens");
    const int32_t left = token_map_find(map, merge->left, none);
    if (left < 0) return merge_error(err, source, rank, "begins with what is no token");
    const int32_t right = token_map_find(map, merge->right, none);
    if (right < 0) return merge_error(err, source, rank, "ends with what is no token");
    const int32_t made = token_map_find(map, merge->left, merge->right);
    if (made < 0) return merge_error(err, source, rank, "makes what is no token");
    if (ordinary[left] && ordinary[right] && ordinary[made])
        pair_put(bpe, (struct bpe_pair){left, right, rank, made});
    return RN_OK;
}

rn_status bpe_init(struct bpe *bpe, const struct vocab_source *source, const struct token_map *map,
                   const uint8_t *ordinary, struct arena *arena, rn_error *err) {
    assert(source->n_merge >= 0);
    size_t size = 16;
    while (size < 2 * (size_t)source->n_merge) size *= 2;
    bpe->mask = size - 1;
    bpe->seed = entropy_u64();
    bpe->pair = arena_array(arena, size, sizeof *bpe->pair);
    if (!bpe->pair)
        return err_set(err, RN_ERR_NOMEM, "out of memory for %d merges", source->n_merge);
    for (size_t i = 0; i < size; i++) bpe->pair[i].rank = -1;
    for (int32_t rank = 0; rank < source->n_merge; rank++) {
        const rn_status status = merge_add(bpe, source, map, ordinary, rank, err);
        if (status != RN_OK) return status;
    }
    return RN_OK;
}
