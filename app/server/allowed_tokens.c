// A set that does not change, so it has nothing to follow: any thread may ask for it.
#include "allowed_tokens.h"

#include <stdlib.h>

#include "generation.h"

static void set_mask(void *ctx, int choice, uint64_t *allowed, int n_vocab) {
    const uint64_t *set = ctx;
    (void)choice;
    for (int i = 0; i < (n_vocab + 63) / 64; i++) allowed[i] &= set[i];
}

static void set_advance(void *ctx, int choice, int32_t token) {
    (void)ctx;
    (void)choice;
    (void)token;
}

static void set_rollback(void *ctx, int choice, int n_tokens) {
    (void)ctx;
    (void)choice;
    (void)n_tokens;
}

bool allowed_make(const struct call *call, uint64_t **out) {
    const json_t *ids = call->generation->params.allowed;
    const size_t n_vocab = (size_t)call->served->info->n_vocab;
    *out = ids ? calloc((n_vocab + 63) / 64, sizeof **out) : NULL;
    for (size_t i = 0; *out && i < json_array_size(ids); i++) {
        const json_int_t id = json_integer_value(json_array_get(ids, i));
        (*out)[id / 64] |= 1ull << (id % 64);
    }
    return *out || !ids;
}

rn_constraint allowed_constraint(uint64_t *set) {
    if (!set) return (rn_constraint){0};
    return (rn_constraint){.ctx = set,
                           .mask = set_mask,
                           .advance = set_advance,
                           .rollback = set_rollback};
}
