// See event_ring.h.
#include "engine/door/event_ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/request/seq.h"

enum {
    BYTES_EACH = 64, // on average; longer ones only mean that fewer find room
    ALIGN = alignof(rn_logprob),
};

// The bytes that a piece takes in the ring.
static uint64_t piece_bytes(const rn_event *event) {
    const uint64_t n = (uint64_t)event->n_logprobs * sizeof(rn_logprob) + event->text_len;
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

rn_status event_ring_init(struct event_ring *ring, uint64_t n_event, uint64_t logprobs_max,
                          uint64_t text_max, rn_error *err) {
    memset(ring, 0, sizeof *ring);
    ring->n_slot = 1;
    while (ring->n_slot < n_event && ring->n_slot < UINT32_MAX) ring->n_slot *= 2;
    // a piece that does not fit before the end of the ring leaves that end empty: up to bytes_max
    // bytes of it
    uint64_t least, slots, logprobs;
    bool fits = ck_mul(logprobs_max, sizeof(rn_logprob), &logprobs) &&
                ck_add(logprobs, ALIGN, &logprobs) && ck_add(text_max, logprobs, &ring->bytes_max);
    ring->bytes_max -= ring->bytes_max % ALIGN;
    fits = fits && ck_mul(ring->bytes_max, 2, &least);
    fits = fits && ck_mul(ring->n_slot, BYTES_EACH, &ring->n_bytes);
    fits = fits && ck_mul(ring->n_slot, sizeof *ring->slot, &slots);
    if (fits) {
        if (ring->n_bytes < least) ring->n_bytes = least;
        ring->slot = calloc(1, slots);
        ring->bytes = malloc(ring->n_bytes);
    }
    if (ring->slot && ring->bytes) return RN_OK;
    event_ring_deinit(ring);
    return err_set(err, RN_ERR_NOMEM, "no memory for a queue of %llu events",
                   (unsigned long long)n_event);
}

void event_ring_deinit(struct event_ring *ring) {
    free(ring->slot);
    free(ring->bytes);
    memset(ring, 0, sizeof *ring);
}

static struct event_slot *slot_at(const struct event_ring *ring, uint64_t index) {
    return &ring->slot[index & (ring->n_slot - 1)];
}

// Room for len bytes in one piece; NULL: not now.
static char *put_piece(struct event_ring *ring, uint64_t len) {
    assert(len <= ring->bytes_max && len % ALIGN == 0);
    const uint64_t at = ring->bytes_head % ring->n_bytes, rest = ring->n_bytes - at;
    const uint64_t skip = rest < len ? rest : 0;
    const uint64_t used =
        ring->bytes_head - atomic_load_explicit(&ring->bytes_tail, memory_order_acquire);
    if (skip + len > ring->n_bytes - used) return NULL;
    ring->bytes_head += skip + len;
    return ring->bytes + (skip ? 0 : at);
}

// Copies the bytes at `from` into a piece of the ring, and `to` then points to them; false: no room
// now.
static bool copy_bytes(struct event_ring *ring, const rn_event *from, rn_event *to) {
    const uint64_t len = piece_bytes(from);
    char *const piece = len > 0 ? put_piece(ring, len) : NULL;
    if (len > 0 && !piece) return false;
    *to = *from;
    to->text = "";
    if (!piece) return true;
    char *at = piece;
    if (from->n_logprobs > 0) {
        const size_t bytes = (size_t)from->n_logprobs * sizeof *from->logprob;
        to->logprob = memcpy(at, from->logprob, bytes);
        at += bytes;
    }
    if (from->text_len > 0) to->text = memcpy(at, from->text, from->text_len);
    return true;
}

bool event_ring_put(struct event_ring *ring, const rn_event *event, struct seq *over) {
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head - atomic_load_explicit(&ring->tail, memory_order_acquire) == ring->n_slot)
        return false;
    struct event_slot *slot = slot_at(ring, head);
    if (event->finish != RN_FINISH_NONE)
        slot->event = *event;
    else if (!copy_bytes(ring, event, &slot->event))
        return false;
    slot->bytes_end = ring->bytes_head;
    slot->over = over;
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return true;
}

struct seq *event_ring_release(struct event_ring *ring) {
    struct seq *over = NULL;
    const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    for (uint64_t i = tail; i < ring->given; i++) {
        struct seq *list = slot_at(ring, i)->over;
        while (list) {
            struct seq *next = list->next;
            list->next = over;
            over = list;
            list = next;
        }
    }
    if (ring->given > tail) {
        atomic_store_explicit(&ring->bytes_tail, slot_at(ring, ring->given - 1)->bytes_end,
                              memory_order_release);
        atomic_store_explicit(&ring->tail, ring->given, memory_order_release);
    }
    return over;
}

int event_ring_take(struct event_ring *ring, rn_event *out, int max) {
    assert(ring->given == atomic_load_explicit(&ring->tail, memory_order_relaxed));
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    int n = 0;
    for (; n < max && ring->given < head; n++) out[n] = slot_at(ring, ring->given++)->event;
    return n;
}

bool event_ring_waits(const struct event_ring *ring) {
    return atomic_load_explicit(&ring->head, memory_order_acquire) != ring->given;
}
