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

static bool is_text(const struct constraint_token *token) {
    return !token->is_special && !token->is_end && token->len > 0 && token->len <= MAX_TOKEN_BYTES;
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
    bool ok = v->token && v->same && v->end && id;
    if (ok) {
        int32_t n_text = 0;
        for (int32_t i = 0; i < v->n_vocab; i++) {
            v->token[i] = token(ctx, i);
            v->same[i] = -1;
            if (v->token[i].is_end) v->end[v->n_end++] = i;
            if (!is_text(&v->token[i])) continue;
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
    }
    free(id);
    return ok;
}

static void vocab_destroy(struct constraint_vocab *v) {
    shares_destroy(v);
    free(v->token);
    free(v->same);
    free(v->end);
    free(v->node);
    pthread_mutex_destroy(&v->mutex);
    free(v);
}

rn_status constraint_vocab_create(int32_t n_vocab, constraint_token_fn token, void *ctx,
                                  struct constraint_vocab **out, rn_error *err) {
    *out = NULL;
    if (n_vocab < 1) return err_set(err, RN_ERR_ARG, "a vocabulary of %d tokens", (int)n_vocab);
    struct constraint_vocab *v = calloc(1, sizeof *v);
    if (!v) return err_set(err, RN_ERR_NOMEM, "out of memory for a vocabulary's trie");
    pthread_mutex_init(&v->mutex, NULL);
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
