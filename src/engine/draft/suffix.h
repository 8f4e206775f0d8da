// Finds the tokens that followed an earlier occurrence of a text's last tokens. The index has its
// positions by the hash of the tokens that end there, as chains from the latest to the earlier
// ones. The tokens are the caller's; the index holds positions. Adding a token takes constant time,
// and so does finding, by a bound on the chain.
#ifndef RN_ENGINE_DRAFT_SUFFIX_H
#define RN_ENGINE_DRAFT_SUFFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    SUFFIX_LEAST = 2,        // tokens that have to agree
    SUFFIX_MOST = 64,        // tokens that are compared
    SUFFIX_CHAIN = 32,       // places that are looked at
    SUFFIX_TEXT_TOKENS = 64, // of the ring of recent texts, for each text that it has room for
};

struct suffix_index {
    uint32_t *head; // [n_head], a power of two: the latest position + 1 of each hash; 0: none
    uint32_t *prev; // [max_tokens] the position before it in its chain
    int n_head, max_tokens;
    int n_token; // tokens that are indexed
};

struct suffix_match {
    int length; // tokens that agree, up to SUFFIX_MOST; 0: nothing was found
    int at;     // position of the token that followed them
};

// Memory for a text of max_tokens; nothing of it is touched before tokens are added.
rn_status suffix_init(struct suffix_index *index, int max_tokens, rn_error *err);
void suffix_deinit(struct suffix_index *index); // zeroed is fine

// Indexes further tokens, so that n_token are; at most `most` of them, so that a long prompt does
// not hold a step up.
void suffix_add(struct suffix_index *index, const int32_t *token, int n_token, int most);

// The place before the end of token[n_token], all of which is indexed, whose past agrees longest
// with the last tokens; among equals the latest.
struct suffix_match suffix_find(const struct suffix_index *index, const int32_t *token,
                                int n_token);

// --- texts of recent requests ---

// A ring of tokens; a text that is added drops the oldest ones. The result depends only on the kept
// texts of the same salt. Other texts matter only for how long a text is kept.
struct suffix_texts;

rn_status suffix_texts_create(int max_tokens, struct suffix_texts **out, rn_error *err);
void suffix_texts_destroy(struct suffix_texts *texts); // NULL is fine

void suffix_texts_forget(struct suffix_texts *texts); // all of them

// The text's last tokens, as many as a quarter of the ring holds. A text takes one token more than
// it has.
void suffix_texts_add(struct suffix_texts *texts, const int32_t *token, int n_token,
                      const char *salt, size_t n_salt);

// Writes to out the tokens that followed the last tokens in texts of the same salt, up to `most`
// and to the text's end. Returns their number, 0 when there is nothing. *length: tokens that agree.
// Of the latest SUFFIX_CHAIN places where two agree, the place with the longest agreement is taken,
// among equals the latest.
int suffix_texts_find(const struct suffix_texts *texts, const int32_t *token, int n_token,
                      const char *salt, size_t n_salt, int32_t *out, int most, int *length);

#endif
