// SHA-256 (FIPS 180-4), for names that nobody must be able to collide: keys of stored pages.
#ifndef RN_BASE_SHA256_H
#define RN_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

struct sha256 {
    uint32_t state[8];
    uint64_t n; // bytes so far
    uint8_t block[64];
};

void sha256_init(struct sha256 *sha);
void sha256_add(struct sha256 *sha, const void *data, size_t n);
void sha256_end(struct sha256 *sha, uint8_t out[SHA256_BYTES]);

#endif
