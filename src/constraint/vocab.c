// The trie is made from the tokens in the order of their bytes.
#define _GNU_SOURCE
#include "constraint/vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "constraint/summary.h"

enum { MAX_TOKEN_BYTES = 65535 }; // a depth fits a node

static int compare_tokens(const void *a, const void *b, void *ctx) {
    const struct constraint_token *token = ctx;
    const int32_t i = *(const int32_t *)a, k = *(const int32_t *)b;
    const size_t len = token[i].len < token[k].len ? token[i].len : token[k].len;
    const int order = memcmp(token[i].data, token[k].data, len);
    if (order) return order;
    if (token[i].len != token[k].len) return token[i].len < token[k].len ? -1 : 1;
    return i < k ? -1 : i > k;
}

// Bytes of symbols are no text: a token with one of them would be taken for a part of a symbol.
static bool can_come(const struct constraint_token *token) {
    if (token->is_end || token->len == 0 || token->len > MAX_TOKEN_BYTES - 2) return false;
    return !memchr(token->data, SPECIAL_OPEN, token->len) &&
           !memchr(token->data, SPECIAL_CLOSE, token->len);
}

// Reads the tokens; special ones get their brackets.
static bool read_tokens(struct constraint_vocab *v, constraint_token_fn token, void *ctx) {
    size_t bytes = 0, at = 0;
    for (int32_t i = 0; i < v->n_vocab; i++) {
        v->token[i] = token(ctx, i);
        v->same[i] = -1;
        if (v->token[i].is_end)
            v->end[v->n_end++] = i;
        else if (!can_come(&v->token[i]))
            v->token[i].len = 0;
        else if (v->token[i].is_special)
            bytes += v->token[i].len + 2;
    }
    v->specials = malloc(bytes + 1);
    if (!v->specials) return false;
    for (int32_t i = 0; i < v->n_vocab; i++) {
        struct constraint_token *t = &v->token[i];
        if (t->is_end || !t->is_special || t->len == 0) continue;
        char *copy = v->specials + at;
        copy[0] = (char)SPECIAL_OPEN;
        memcpy(copy + 1, t->data, t->len);
        copy[t->len + 1] = (char)SPECIAL_CLOSE;
        t->data = copy;
        t->len += 2;
        at += t->len;
    }
    return true;
}

// Bytes that a token has in common with the one before it.
static size_t common(const struct constraint_token *a, const struct constraint_token *b) {
    size_t n = 0;
    while (n < a->len && n < b->len && a->data[n] == b->data[n]) n++;
    return n;
}

static size_t count_nodes(const struct constraint_token *token, const int32_t *id, int32_t n) {
    size_t nodes = 0;
    for (int32_t i = 0; i < n; i++)
        nodes += token[id[i]].len - (i ? common(&token[id[i - 1]], &token[id[i]]) : 0);
    return nodes;
}

// path: the open node of each depth.
static void fill(struct constraint_vocab *v, const int32_t *id, int32_t n, uint32_t *path) {
    size_t depth = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct constraint_token *token = &v->token[id[i]];
        const size_t kept = i ? common(&v->token[id[i - 1]], token) : 0;
        if (i && kept == token->len && token->len == v->token[id[i - 1]].len) {
            v->same[id[i - 1]] = id[i]; // equal bytes: behind the one before
            v->node[path[depth]].has_same = true;
            continue;
        }
        while (depth > kept) v->node[path[depth--]].skip = v->n_node;
        while (depth < token->len) {
            path[++depth] = v->n_node;
            v->node[v->n_node++] = (struct trie_node){.token = -1,
                                                      .depth = (uint16_t)depth,
                                                      .byte = (uint8_t)token->data[depth - 1]};
        }
        v->node[path[depth]].token = id[i];
    }
    while (depth > 0) v->node[path[depth--]].skip = v->n_node;
}

static bool vocab_init(struct constraint_vocab *v, constraint_token_fn token, void *ctx) {
    const size_t n = (size_t)v->n_vocab;
    v->token = calloc(n + 1, sizeof *v->token);
    v->same = calloc(n + 1, sizeof *v->same);
    v->end = calloc(n + 1, sizeof *v->end);
    int32_t *id = calloc(n + 1, sizeof *id);
    bool ok = v->token && v->same && v->end && id && read_tokens(v, token, ctx);
    if (ok) {
        int32_t n_text = 0;
        for (int32_t i = 0; i < v->n_vocab; i++) {
            if (v->token[i].is_end || v->token[i].len == 0) continue;
            id[n_text++] = i;
            if (v->token[i].len > v->max_depth) v->max_depth = (uint32_t)v->token[i].len;
        }
        qsort_r(id, (size_t)n_text, sizeof *id, compare_tokens, v->token);
        const size_t n_node = count_nodes(v->token, id, n_text);
        v->node = n_node < UINT32_MAX ? calloc(n_node + 1, sizeof *v->node) : NULL;
        uint32_t *path = calloc(v->max_depth + 1, sizeof *path);
        ok = v->node && path;
        if (ok) fill(v, id, n_text, path);
        assert(!ok || v->n_node <= n_node);
        free(path);
        while (ok && v->special < v->n_node && v->node[v->special].byte != SPECIAL_OPEN)
            v->special = v->node[v->special].skip;
    }
    free(id);
    return ok;
}

// The node below `at` with the byte; n_node: none.
static uint32_t child_of(const struct constraint_vocab *v, uint32_t at, uint8_t byte) {
    for (uint32_t i = at + 1; i < v->node[at].skip; i = v->node[i].skip)
        if (v->node[i].byte == byte) return i;
    return v->n_node;
}

size_t vocab_special(const struct constraint_vocab *v, const char *text, size_t len, bool *is_end) {
    size_t longest = 0;
    *is_end = false;
    uint32_t at = v->special;
    for (size_t i = 0; at < v->n_node && i <= len; i++) {
        if (i && child_of(v, at, SPECIAL_CLOSE) < v->n_node) longest = i;
        at = i < len ? child_of(v, at, (uint8_t)text[i]) : v->n_node;
    }
    for (int32_t i = 0; i < v->n_end; i++) {
        const struct constraint_token *token = &v->token[v->end[i]];
        if (token->len < longest + !*is_end || token->len > len || token->len == 0 ||
            memcmp(token->data, text, token->len) != 0)
            continue;
        longest = token->len;
        *is_end = true;
    }
    return longest;
}

int32_t vocab_token(const struct constraint_vocab *v, const char *text, size_t len) {
    for (int32_t i = 0; i < v->n_end; i++) {
        const struct constraint_token *token = &v->token[v->end[i]];
        if (token->len == len && memcmp(token->data, text, len) == 0) return v->end[i];
    }
    for (int is_text = 0; is_text < 2 && len; is_text++) {
        uint32_t at = is_text ? 0 : v->special;
        size_t i = 0;
        if (is_text) {
            while (at < v->n_node && v->node[at].byte != (uint8_t)text[0]) at = v->node[at].skip;
            i = 1;
        }
        for (; at < v->n_node && i < len; i++) at = child_of(v, at, (uint8_t)text[i]);
        if (at < v->n_node && !is_text) at = child_of(v, at, SPECIAL_CLOSE);
        if (at < v->n_node && v->node[at].token >= 0) return v->node[at].token;
    }
    return -1;
}

static void vocab_destroy(struct constraint_vocab *v) {
    shares_destroy(v);
    free(v->token);
    free(v->same);
    free(v->end);
    free(v->specials);
    free(v->node);
    pthread_mutex_destroy(&v->mutex);
    pthread_mutex_destroy(&v->summary_mutex);
    free(v);
}

rn_status constraint_vocab_create(int32_t n_vocab, constraint_token_fn token, void *ctx,
                                  struct constraint_vocab **out, rn_error *err) {
    *out = NULL;
    if (n_vocab < 1) return err_set(err, RN_ERR_ARG, "a vocabulary of %d tokens", (int)n_vocab);
    struct constraint_vocab *v = calloc(1, sizeof *v);
    if (!v) return err_set(err, RN_ERR_NOMEM, "out of memory for a vocabulary's trie");
    pthread_mutex_init(&v->mutex, NULL);
    pthread_mutex_init(&v->summary_mutex, NULL);
    v->summary_bytes_max = SUMMARY_BYTES_MAX;
    v->refs = 1;
    v->n_vocab = n_vocab;
    v->n_words = ((size_t)n_vocab + 63) / 64;
    if (!vocab_init(v, token, ctx)) {
        vocab_destroy(v);
        return err_set(err, RN_ERR_NOMEM, "out of memory for a vocabulary's trie of %d tokens",
                       (int)n_vocab);
    }
    *out = v;
    return RN_OK;
}

void vocab_unref(struct constraint_vocab *vocab) {
    if (atomic_fetch_sub(&vocab->refs, 1) == 1) vocab_destroy(vocab);
}

void constraint_vocab_release(struct constraint_vocab *vocab) {
    if (!vocab) return;
    constraint_kept_drop(vocab); // they refer to the vocabulary
    vocab_unref(vocab);
}
