// See page_key.h. Each kind of name starts with a letter of its own, and lengths are hashed, so
// that no two inputs are the same bytes.
#include "engine/store/page_key.h"

static struct page_key end(struct sha256 *sha) {
    struct page_key key;
    sha256_end(sha, key.at);
    return key;
}

static void begin(struct sha256 *sha, char kind) {
    sha256_init(sha);
    sha256_add(sha, &kind, 1);
}

static void add_length(struct sha256 *sha, uint64_t n) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(n >> (8 * i));
    sha256_add(sha, bytes, sizeof bytes);
}

struct page_key page_key_root(const uint8_t *hash, size_t n_hash, const char *identity) {
    struct sha256 sha;
    begin(&sha, 'r');
    add_length(&sha, PAGE_KEY_VERSION);
    add_length(&sha, n_hash);
    sha256_add(&sha, hash, n_hash);
    add_length(&sha, strlen(identity));
    sha256_add(&sha, identity, strlen(identity));
    return end(&sha);
}

struct page_key page_key_salt(const struct page_key *root, const void *salt, size_t n_salt) {
    struct sha256 sha;
    begin(&sha, 's');
    sha256_add(&sha, root->at, sizeof root->at);
    add_length(&sha, n_salt);
    sha256_add(&sha, salt, n_salt);
    return end(&sha);
}

struct page_key page_key_block(const struct page_key *parent, const int32_t *token, int n_token) {
    struct sha256 sha;
    begin(&sha, 'b');
    sha256_add(&sha, parent->at, sizeof parent->at);
    add_length(&sha, (uint64_t)n_token);
    for (int i = 0; i < n_token; i++) {
        const uint32_t id = (uint32_t)token[i];
        const uint8_t bytes[4] = {(uint8_t)id, (uint8_t)(id >> 8), (uint8_t)(id >> 16),
                                  (uint8_t)(id >> 24)};
        sha256_add(&sha, bytes, sizeof bytes);
    }
    return end(&sha);
}
