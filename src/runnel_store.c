// Texts by name in the page store: a list of tokens, beside the pages that they are the names of.
// For programs that save and restore conversations. Names are hashed, so they never become paths.
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <string.h>

#include "runnel_model.h"

enum { WAIT_MS = 5000, NAME_MOST = 1024 };

// How a text is stored.
struct text_head {
    uint32_t n_salt, n_token;
    char salt[RN_MAX_SALT_BYTES];
};

static rn_status store_find(const rn_engine *engine, const char *name, struct page_store **out,
                            rn_error *err) {
    *out = engine->engine.store;
    rn_store_stats stats = {0};
    if (*out) page_store_get_stats(*out, &stats);
    if (!stats.max_bytes)
        return err_set(err, RN_ERR_UNSUPPORTED, "the engine has no page store in files");
    if (!page_store_is_ready(*out))
        return err_set(err, RN_ERR_FULL, "the page store is not ready: the model is being hashed");
    const size_t n = strlen(name);
    if (n == 0 || n > NAME_MOST)
        return err_set(err, RN_ERR_ARG, "a name of %zu bytes, expected 1 to %d", n, NAME_MOST);
    return RN_OK;
}

rn_status rn_engine_save_text(rn_engine *engine, const char *owner, const char *name,
                              const char *salt, const int32_t *token, size_t n_token,
                              size_t *n_stored, rn_error *err) {
    struct page_store *store;
    const rn_status status = store_find(engine, name, &store, err);
    *n_stored = 0;
    if (status) return status;
    const size_t n_salt = salt ? strlen(salt) : 0, bytes = n_token * sizeof *token;
    if (n_salt > RN_MAX_SALT_BYTES || n_token > (size_t)engine->engine.n_ctx)
        return err_set(err, RN_ERR_ARG, "%zu tokens with a salt of %zu bytes are too many", n_token,
                       n_salt);
    struct text_head *text = calloc(1, sizeof *text + bytes);
    if (!text) return err_set(err, RN_ERR_NOMEM, "no memory for %zu tokens", n_token);
    text->n_salt = (uint32_t)n_salt;
    text->n_token = (uint32_t)n_token;
    if (n_salt) memcpy(text->salt, salt, n_salt);
    if (bytes) memcpy(text + 1, token, bytes);
    page_store_settle(store, WAIT_MS);
    *n_stored = page_store_covers(store, salt, n_salt, token, n_token);
    const int code = page_store_save(store, owner, name, text, sizeof *text + bytes);
    free(text);
    if (!code) return RN_OK;
    char reason[128];
    return err_set(err, RN_ERR_IO, "page store: %s", strerror_r(code, reason, sizeof reason));
}

rn_status rn_engine_load_text(rn_engine *engine, const char *owner, const char *name,
                              char salt[RN_MAX_SALT_BYTES + 1], int32_t **token, size_t *n_token,
                              rn_error *err) {
    struct page_store *store;
    rn_status status = store_find(engine, name, &store, err);
    *token = NULL;
    *n_token = 0;
    if (status) return status;
    const size_t most = sizeof(struct text_head) + (size_t)engine->engine.n_ctx * sizeof **token;
    struct text_head *text = malloc(most);
    if (!text) return err_set(err, RN_ERR_NOMEM, "no memory for a text of %zu bytes", most);
    const ssize_t n = page_store_load(store, owner, name, text, most);
    const bool is_fine = n >= (ssize_t)sizeof *text && text->n_salt <= RN_MAX_SALT_BYTES &&
                         (size_t)n == sizeof *text + (size_t)text->n_token * sizeof **token &&
                         text->n_token > 0;
    if (is_fine) *token = malloc((size_t)text->n_token * sizeof **token);
    if (!is_fine)
        status = err_set(err, RN_ERR_ARG, "there is no text of the name '%.64s'", name);
    else if (!*token)
        status = err_set(err, RN_ERR_NOMEM, "no memory for %u tokens", text->n_token);
    if (!status) {
        memcpy(salt, text->salt, text->n_salt);
        salt[text->n_salt] = 0;
        memcpy(*token, text + 1, (size_t)text->n_token * sizeof **token);
        *n_token = text->n_token;
    }
    free(text);
    return status;
}

bool rn_engine_erase_text(rn_engine *engine, const char *owner, const char *name) {
    struct page_store *store;
    return store_find(engine, name, &store, NULL) == RN_OK && page_store_erase(store, owner, name);
}
