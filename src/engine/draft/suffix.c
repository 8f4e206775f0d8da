// The index of one text: chains of positions that end in the same two tokens, or in two with the
// same hash. Invariants: positions [1, n_token) are in the chain of their hash, each once. A chain
// goes from later positions to earlier ones. prev is written before it is read, so only head has to
// be zeroed. Called by the step's thread; init and deinit by the sequence's creator.
#include "engine/draft/suffix.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { HEAD_LEAST = 16, HEAD_MOST = 65536 };

rn_status suffix_init(struct suffix_index *index, int max_tokens, rn_error *err) {
    assert(max_tokens > 0);
    int n_head = HEAD_LEAST;
    while (n_head < max_tokens && n_head < HEAD_MOST) n_head *= 2;
    uint64_t bytes;
    if (!ck_mul((uint64_t)max_tokens, sizeof *index->prev, &bytes) || bytes > SIZE_MAX)
        return err_set(err, RN_ERR_ARG, "a text of %d tokens is too long to index", max_tokens);
    *index = (struct suffix_index){
        .head = calloc((size_t)n_head, sizeof *index->head),
        .prev = malloc((size_t)bytes),
        .n_head = n_head,
        .max_tokens = max_tokens,
    };
    if (index->head && index->prev) return RN_OK;
    suffix_deinit(index);
    return err_set(err, RN_ERR_NOMEM, "no memory for the index of %d tokens", max_tokens);
}

void suffix_deinit(struct suffix_index *index) {
    free(index->head);
    free(index->prev);
    *index = (struct suffix_index){0};
}

// Of the tokens that end at a position of 1 or more.
static uint32_t *head_of(const struct suffix_index *index, const int32_t *token, int at) {
    const uint64_t pair = (uint64_t)(uint32_t)token[at - 1] << 32 | (uint32_t)token[at];
    // the high half of a product depends on all bits of the pair
    const uint64_t hash = (pair ^ pair >> 29) * 0x9e3779b97f4a7c15u;
    return &index->head[hash >> 40 & (uint64_t)(index->n_head - 1)];
}

void suffix_add(struct suffix_index *index, const int32_t *token, int n_token, int most) {
    assert(n_token <= index->max_tokens && index->n_token <= n_token);
    const int end = n_token - index->n_token > most ? index->n_token + most : n_token;
    for (int at = index->n_token > 0 ? index->n_token : 1; at < end; at++) {
        uint32_t *const head = head_of(index, token, at);
        index->prev[at] = *head;
        *head = (uint32_t)at + 1;
    }
    index->n_token = end;
}

// How many of the tokens that end at a and b, b being the later one, agree; at most `most`, which
// a and its past have.
static int agree(const int32_t *token, int a, int b, int most) {
    int n = 0;
    for (uint64_t x, y; n + 1 < most; n += 2) { // two at a time
        memcpy(&x, &token[a - n - 1], sizeof x);
        memcpy(&y, &token[b - n - 1], sizeof y);
        if (x != y) break;
    }
    while (n < most && token[a - n] == token[b - n]) n++;
    return n;
}

struct suffix_match suffix_find(const struct suffix_index *index, const int32_t *token,
                                int n_token) {
    assert(index->n_token == n_token);
    struct suffix_match best = {0};
    if (n_token <= SUFFIX_LEAST) return best;
    const int last = n_token - 1;
    uint32_t next = index->prev[last]; // the last position heads its chain
    for (int i = 0; next != 0 && i < SUFFIX_CHAIN && best.length < SUFFIX_MOST; i++) {
        const int at = (int)next - 1;
        next = index->prev[at];
        // the earlier the position, the shorter its past
        if (at < best.length) break;
        if (token[at - best.length] != token[last - best.length]) continue;
        const int length = agree(token, at, last, at < SUFFIX_MOST ? at + 1 : SUFFIX_MOST);
        if (length > best.length && length >= SUFFIX_LEAST)
            best = (struct suffix_match){.length = length, .at = at + 1};
    }
    return best;
}
