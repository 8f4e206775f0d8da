// A queue of block changes from the step's thread to the publisher's. One writer, one reader, no
// lock.
#ifndef RN_SERVER_KV_RING_H
#define RN_SERVER_KV_RING_H

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runnel.h"

struct kv_slot {
    rn_block_event event; // token and salt point into the slot
    int32_t token[RN_PAGE_TOKENS];
    char salt[RN_MAX_SALT_BYTES];
};

struct kv_ring {
    struct kv_slot *slot; // [n]
    uint64_t n;
    _Atomic uint64_t written, read; // of all time
};

static inline bool kv_ring_init(struct kv_ring *ring, int n) {
    *ring = (struct kv_ring){.n = (uint64_t)n};
    ring->slot = malloc((size_t)n * sizeof *ring->slot);
    return ring->slot != NULL;
}

static inline void kv_ring_deinit(struct kv_ring *ring) { free(ring->slot); }

// False: it is full.
static inline bool kv_ring_put(struct kv_ring *ring, const rn_block_event *event) {
    const uint64_t at = atomic_load_explicit(&ring->written, memory_order_relaxed);
    if (at - atomic_load_explicit(&ring->read, memory_order_acquire) == ring->n) return false;
    struct kv_slot *const slot = &ring->slot[at % ring->n];
    slot->event = *event;
    if (event->token) memcpy(slot->token, event->token, sizeof slot->token);
    if (event->n_salt) memcpy(slot->salt, event->salt, event->n_salt);
    slot->event.token = event->token ? slot->token : NULL;
    slot->event.salt = slot->salt;
    atomic_store_explicit(&ring->written, at + 1, memory_order_release);
    return true;
}

// The oldest change, until kv_ring_drop; NULL: none.
static inline const rn_block_event *kv_ring_first(struct kv_ring *ring) {
    const uint64_t at = atomic_load_explicit(&ring->read, memory_order_relaxed);
    if (at == atomic_load_explicit(&ring->written, memory_order_acquire)) return NULL;
    return &ring->slot[at % ring->n].event;
}

static inline void kv_ring_drop(struct kv_ring *ring) {
    atomic_fetch_add_explicit(&ring->read, 1, memory_order_release);
}

#endif
