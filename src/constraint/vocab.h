// The vocabulary as a trie of bytes, in the order of a walk in depth: the nodes below a node follow
// it, up to `skip`. A special token is a symbol: its text between two bytes that no UTF-8 has, so
// it differs from the same text in plain tokens. Tokens that end a text are not in the trie. The
// vocabulary also keeps what constraints share: summaries of equal rules (summary.h), and compiled
// constraints by their source.
#ifndef RN_CONSTRAINT_VOCAB_H
#define RN_CONSTRAINT_VOCAB_H

#include <pthread.h>
#include <stdatomic.h>

#include "constraint/constraint.h"

enum { SPECIAL_OPEN = 0xFF, SPECIAL_CLOSE = 0xFE }; // around the text of a special token

struct trie_node {
    uint32_t skip;  // the first node that is not below this one
    int32_t token;  // that ends here; -1: none
    uint16_t depth; // bytes from the root, which is no node: 1 and more
    uint8_t byte;
    bool has_same; // other tokens end here, too
};

enum { SHARE_BUCKETS = 4096 }; // a power of two

struct constraint_vocab {
    _Atomic int refs;
    int32_t n_vocab;
    size_t n_words;         // of a set of tokens
    struct trie_node *node; // [n_node]
    uint32_t n_node;
    uint32_t max_depth;
    int32_t *same;                  // [n_vocab] the next token with equal bytes; -1: none
    struct constraint_token *token; // [n_vocab] special ones with their brackets; len 0: never
                                    // comes
    char *specials;                 // their bytes
    uint32_t special;               // the node of SPECIAL_OPEN; n_node: there is none
    int32_t *end;                   // [n_end] tokens that end a text
    int32_t n_end;

    pthread_mutex_t mutex; // of the lists below
    struct share *share;   // the newest first
    struct share *same_hash[SHARE_BUCKETS];
    uint32_t n_share, n_new; // of the list; since unused ones were last looked for
    struct constraint *kept; // compiled ones; the newest first
    int n_kept;
    size_t kept_bytes; // of their machines

    pthread_mutex_t summary_mutex; // of summaries; taken after the other one
    struct summary *newest, *oldest;
    size_t summary_bytes, summary_bytes_max;
};

static inline void token_bits_set(uint64_t *bits, int32_t id) {
    bits[(uint32_t)id >> 6] |= UINT64_C(1) << (id & 63);
}
static inline bool token_bits_has(const uint64_t *bits, int32_t id) {
    return bits[(uint32_t)id >> 6] >> (id & 63) & 1;
}

// All tokens that end at a node.
static inline void trie_tokens(const struct constraint_vocab *vocab, const struct trie_node *node,
                               uint64_t *bits) {
    if (node->token < 0) return;
    token_bits_set(bits, node->token);
    if (!node->has_same) return;
    for (int32_t id = node->token; id >= 0; id = vocab->same[id]) token_bits_set(bits, id);
}

// The bytes of the longest special token, or token that ends a text, whose text starts here; 0:
// none.
size_t vocab_special(const struct constraint_vocab *vocab, const char *text, size_t len,
                     bool *is_end);

// The token with exactly this text, the lowest id of them; -1: none. Special ones come first.
int32_t vocab_token(const struct constraint_vocab *vocab, const char *text, size_t len);

// Compiled constraints hold a reference, too.
void vocab_unref(struct constraint_vocab *vocab);

#endif
