// Texts of recent requests in a ring of tokens, each text followed by the token NONE, which no text
// has: comparing and copying end there by themselves. A *key* is a salt and two tokens. The places
// of a key are the slots that end in those tokens, with a token behind them. They form a chain from
// the latest to the earlier ones; the latest is in the list of its bucket. Invariants:
//  1. a chain has the places of one key alone, salts compared byte by byte. So a result depends on
//     the kept texts of the salt; other texts matter only for how long those are kept.
//  2. lists name kept places only; a chain's link to a dropped place is recognised by its age.
//  3. NONE always stands before the oldest text.
// The hash is seeded, so no client can aim at a bucket. Called by the step's thread.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/entropy.h"
#include "engine/draft/suffix.h"
#include "runnel.h"

enum { NONE = -1, TOKENS_MOST = 1 << 28 };

struct place {
    uint32_t back; // slots to the key's place before this one; 0: there is none
    uint32_t next; // 1 + the slot of another key of the bucket; of a key's latest place alone
    uint32_t text;
};

struct text {
    uint32_t begin, n_token; // without the NONE behind it
    uint64_t salt_hash;
    uint32_t n_salt;
    char salt[RN_MAX_SALT_BYTES];
};

struct suffix_texts {
    int32_t *token;      // [n_slot]
    struct place *place; // [n_slot]
    uint32_t *bucket;    // [n_slot] 1 + the latest place of its first key; 0: none
    struct text *text;   // [max_texts] a ring too
    uint32_t n_slot;     // a power of two, at least max_tokens
    uint32_t max_tokens, max_texts;
    uint32_t end, used;          // the slot after the last text; slots of texts, before it
    uint32_t first_text, n_text; // the oldest
    uint64_t seed;
};

static uint32_t slot_of(const struct suffix_texts *texts, uint32_t at) {
    return at & (texts->n_slot - 1);
}

// The slots written since.
static uint32_t age_of(const struct suffix_texts *texts, uint32_t slot) {
    return slot_of(texts, texts->end - 1 - slot);
}

rn_status suffix_texts_create(int max_tokens, struct suffix_texts **out, rn_error *err) {
    assert(max_tokens > 0);
    *out = NULL;
    if (max_tokens > TOKENS_MOST)
        return err_set(err, RN_ERR_ARG, "%d tokens of recent texts are more than %d", max_tokens,
                       TOKENS_MOST);
    struct suffix_texts *const texts = calloc(1, sizeof *texts);
    if (!texts) return err_set(err, RN_ERR_NOMEM, "no memory for recent texts");
    texts->max_tokens = (uint32_t)max_tokens;
    texts->max_texts = (texts->max_tokens + SUFFIX_TEXT_TOKENS - 1) / SUFFIX_TEXT_TOKENS;
    texts->n_slot = 1;
    while (texts->n_slot < texts->max_tokens) texts->n_slot *= 2;
    texts->token = calloc(texts->n_slot, sizeof *texts->token);
    texts->place = malloc(texts->n_slot * sizeof *texts->place);
    texts->bucket = calloc(texts->n_slot, sizeof *texts->bucket);
    texts->text = malloc(texts->max_texts * sizeof *texts->text);
    if (!texts->token || !texts->place || !texts->bucket || !texts->text) {
        suffix_texts_destroy(texts);
        return err_set(err, RN_ERR_NOMEM, "no memory for %d tokens of recent texts", max_tokens);
    }
    texts->token[texts->n_slot - 1] = NONE;
    texts->seed = entropy_u64();
    *out = texts;
    return RN_OK;
}

void suffix_texts_destroy(struct suffix_texts *texts) {
    if (!texts) return;
    free(texts->token);
    free(texts->place);
    free(texts->bucket);
    free(texts->text);
    free(texts);
}

void suffix_texts_forget(struct suffix_texts *texts) {
    memset(texts->bucket, 0, texts->n_slot * sizeof *texts->bucket);
    texts->used = texts->n_text = 0;
}

// --- keys ---

struct key {
    int32_t token[SUFFIX_LEAST];
    const char *salt;
    uint32_t n_salt;
    uint64_t salt_hash;
};

static uint64_t salt_hash(const struct suffix_texts *texts, const char *salt, size_t n_salt) {
    return XXH3_64bits_withSeed(salt, n_salt, texts->seed);
}

static uint32_t *bucket_of(const struct suffix_texts *texts, const struct key *key) {
    const uint64_t hash = XXH3_64bits_withSeed(key->token, sizeof key->token, key->salt_hash);
    return &texts->bucket[hash & (texts->n_slot - 1)];
}

static bool is_key(const struct suffix_texts *texts, uint32_t slot, const struct key *key) {
    if (texts->token[slot] != key->token[1] ||
        texts->token[slot_of(texts, slot - 1)] != key->token[0])
        return false;
    const struct text *const text = &texts->text[texts->place[slot].text];
    if (text->n_salt != key->n_salt) return false;
    return key->n_salt == 0 || memcmp(text->salt, key->salt, key->n_salt) == 0;
}

// The link to the key's latest place, or the link that ends the bucket's list.
static uint32_t *link_of(struct suffix_texts *texts, const struct key *key) {
    uint32_t *link = bucket_of(texts, key);
    while (*link != 0 && !is_key(texts, *link - 1, key)) link = &texts->place[*link - 1].next;
    return link;
}

static struct key key_at(const struct suffix_texts *texts, const struct text *text, uint32_t slot) {
    return (struct key){
        .token = {texts->token[slot_of(texts, slot - 1)], texts->token[slot]},
        .salt = text->salt,
        .n_salt = text->n_salt,
        .salt_hash = text->salt_hash,
    };
}

// --- texts ---

// The places of a text: from its second token to the one before its last.
static void drop_oldest(struct suffix_texts *texts) {
    const struct text *const text = &texts->text[texts->first_text];
    for (uint32_t i = SUFFIX_LEAST - 1; i + 1 < text->n_token; i++) {
        const uint32_t slot = slot_of(texts, text->begin + i);
        const struct key key = key_at(texts, text, slot);
        uint32_t *const link = link_of(texts, &key);
        // a key that has a later place stays
        if (*link == slot + 1) *link = texts->place[slot].next;
    }
    texts->used -= text->n_token + 1;
    texts->n_text--;
    texts->first_text = (texts->first_text + 1) % texts->max_texts;
}

static void index_place(struct suffix_texts *texts, uint32_t at_text, uint32_t slot) {
    const struct key key = key_at(texts, &texts->text[at_text], slot);
    uint32_t *const link = link_of(texts, &key);
    struct place *const place = &texts->place[slot];
    *place = (struct place){.text = at_text};
    if (*link != 0) {
        place->back = slot_of(texts, slot - (*link - 1));
        place->next = texts->place[*link - 1].next;
    }
    *link = slot + 1;
}

void suffix_texts_add(struct suffix_texts *texts, const int32_t *token, int n_token,
                      const char *salt, size_t n_salt) {
    assert(n_token >= 0 && n_salt <= RN_MAX_SALT_BYTES);
    uint32_t n = (uint32_t)n_token;
    if (n > texts->max_tokens / 4) n = texts->max_tokens / 4;
    if (n <= SUFFIX_LEAST) return; // nothing follows two tokens
    token += (uint32_t)n_token - n;
    while (texts->used + n + 1 > texts->max_tokens || texts->n_text == texts->max_texts)
        drop_oldest(texts);

    const uint32_t at_text = (texts->first_text + texts->n_text) % texts->max_texts;
    struct text *const text = &texts->text[at_text];
    text->begin = texts->end;
    text->n_token = n;
    text->n_salt = (uint32_t)n_salt;
    text->salt_hash = salt_hash(texts, salt, n_salt);
    if (n_salt > 0) memcpy(text->salt, salt, n_salt);
    texts->n_text++;
    for (uint32_t i = 0; i < n; i++) {
        assert(token[i] != NONE);
        texts->token[slot_of(texts, text->begin + i)] = token[i];
    }
    texts->end = slot_of(texts, text->begin + n + 1);
    texts->token[slot_of(texts, text->begin + n)] = NONE;
    texts->used += n + 1;
    for (uint32_t i = SUFFIX_LEAST - 1; i + 1 < n; i++)
        index_place(texts, at_text, slot_of(texts, text->begin + i));
}

// How many of the tokens that end at the slot agree with the last ones of token[n_token].
static int agree(const struct suffix_texts *texts, uint32_t slot, const int32_t *token, int n_token,
                 int most) {
    int n = 0;
    while (n < most && texts->token[slot_of(texts, slot - (uint32_t)n)] == token[n_token - 1 - n])
        n++;
    return n;
}

int suffix_texts_find(const struct suffix_texts *texts, const int32_t *token, int n_token,
                      const char *salt, size_t n_salt, int32_t *out, int most, int *length) {
    *length = 0;
    if (n_token < SUFFIX_LEAST || texts->n_text == 0) return 0;
    const struct key key = {
        .token = {token[n_token - 2], token[n_token - 1]},
        .salt = salt,
        .n_salt = (uint32_t)n_salt,
        .salt_hash = salt_hash(texts, salt, n_salt),
    };
    uint32_t at = *bucket_of(texts, &key);
    while (at != 0 && !is_key(texts, at - 1, &key)) at = texts->place[at - 1].next;
    if (at == 0) return 0;

    const int longest = n_token < SUFFIX_MOST ? n_token : SUFFIX_MOST;
    uint32_t slot = at - 1, best = slot, age = age_of(texts, slot);
    for (int i = 0; i < SUFFIX_CHAIN && *length < longest; i++) {
        if (texts->token[slot_of(texts, slot - (uint32_t)*length)] ==
            token[n_token - 1 - *length]) {
            const int n = agree(texts, slot, token, n_token, longest);
            if (n > *length) *length = n, best = slot;
        }
        const uint32_t back = texts->place[slot].back;
        age += back;
        if (back == 0 || age >= texts->used) break;
        slot = slot_of(texts, slot - back);
    }
    int n = 0;
    for (; n < most; n++) {
        out[n] = texts->token[slot_of(texts, best + 1 + (uint32_t)n)];
        if (out[n] == NONE) break;
    }
    return n;
}
