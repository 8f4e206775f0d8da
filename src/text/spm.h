// SentencePiece's BPE: a word is a row of characters, merged by score (spm.c) or by rank (bpe.c).
// Characters that are in no token become their bytes' tokens, or the unknown token. Immutable after
// spm_init; the scratch belongs to one encode call.
#ifndef RN_TEXT_SPM_H
#define RN_TEXT_SPM_H

#include "text/bpe.h"

struct spm {
    const struct token_map *map; // of the ordinary tokens' strings
    // The token of a single character: page[cp / 256] is a row of `single`, row 0 is all -1.
    uint16_t *page;         // [0x1100]
    int32_t (*single)[256]; // -1: no token
    int32_t byte_id[256];   // the token of <0xNN>, -1: none
    int32_t unknown;        // -1: none
    bool fuse_unknown;      // several in a row are one
    // Which bytes some token has next to each other: bit b % 8 of joined[a][b / 8]. A word may be
    // cut between characters that are never joined: the pieces are merged one by one, which gives
    // the same.
    uint8_t joined[256][32];
    // By score only:
    uint32_t *rank;  // [n_token] by falling score; equal scores are equal
    size_t longest;  // bytes of the longest ordinary token
    uint64_t *power; // [longest + 1] of the map's base
};

// Takes the tokens of map. byte_id, unknown and fuse_unknown are the caller's to set before.
rn_status spm_init(struct spm *spm, const struct vocab_source *source, const struct token_map *map,
                   const uint8_t *ordinary, struct arena *arena, rn_error *err);

// The length of the first piece of a word that can be merged alone: 1 to len.
size_t spm_piece(const struct spm *spm, const uint8_t *word, size_t len);

// Writes the ids of a piece (len from 1 to BPE_WORD_MAX) to out, which must hold len of them, and
// their number to count. With pairs it merges by rank, else by score.
rn_status spm_encode(const struct spm *spm, const struct bpe *pairs, const uint8_t *piece,
                     size_t len, struct chain_scratch *scratch, int32_t *out, size_t *count,
                     rn_error *err);

#endif
