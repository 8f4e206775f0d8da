// See event_ring.h.
#include "engine/event_ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/seq.h"

enum { TEXT_BYTES_EACH = 32 }; // on average; longer ones only mean that fewer find room

rn_status event_ring_init(struct event_ring *ring, uint64_t n_event, uint64_t text_max,
                          rn_error *err) {
    memset(ring, 0, sizeof *ring);
    ring->n_slot = 1;
    while (ring->n_slot < n_event && ring->n_slot < UINT32_MAX) ring->n_slot *= 2;
    ring->text_max = text_max;
    // a text that does not fit before the end of the ring leaves that end empty: up to text_max
    // bytes of it
    uint64_t text_least, bytes;
    bool fits = ck_mul(text_max, 2, &text_least);
    fits = fits && ck_mul(ring->n_slot, TEXT_BYTES_EACH, &ring->n_text);
    fits = fits && ck_mul(ring->n_slot, sizeof *ring->slot, &bytes);
    if (fits) {
        if (ring->n_text < text_least) ring->n_text = text_least;
        ring->slot = calloc(1, bytes);
        ring->text = malloc(ring->n_text);
    }
    if (ring->slot && ring->text) return RN_OK;
    event_ring_deinit(ring);
    return err_set(err, RN_ERR_NOMEM, "no memory for a queue of %llu events",
                   (unsigned long long)n_event);
}

void event_ring_deinit(struct event_ring *ring) {
    free(ring->slot);
    free(ring->text);
    memset(ring, 0, sizeof *ring);
}

static struct event_slot *slot_at(const struct event_ring *ring, uint64_t index) {
    return &ring->slot[index & (ring->n_slot - 1)];
}

// Room for len bytes in one piece; NULL: not now.
static char *put_text(struct event_ring *ring, size_t len) {
    assert(len <= ring->text_max);
    const uint64_t at = ring->text_head % ring->n_text, rest = ring->n_text - at;
    const uint64_t skip = rest < len ? rest : 0;
    const uint64_t used =
        ring->text_head - atomic_load_explicit(&ring->text_tail, memory_order_acquire);
    if (skip + len > ring->n_text - used) return NULL;
    ring->text_head += skip + len;
    return ring->text + (skip ? 0 : at);
}

bool event_ring_put(struct event_ring *ring, const rn_event *event, struct seq *over) {
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head - atomic_load_explicit(&ring->tail, memory_order_acquire) == ring->n_slot)
        return false;
    struct event_slot *slot = slot_at(ring, head);
    const bool copies = event->finish == RN_FINISH_NONE && event->text_len > 0;
    char *text = NULL;
    if (copies) {
        text = put_text(ring, event->text_len);
        if (!text) return false;
        memcpy(text, event->text, event->text_len);
    }
    slot->event = *event;
    if (event->finish == RN_FINISH_NONE) slot->event.text = copies ? text : "";
    slot->text_end = ring->text_head;
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
        atomic_store_explicit(&ring->text_tail, slot_at(ring, ring->given - 1)->text_end,
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
