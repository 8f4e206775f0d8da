// Slot i holds the timers that are due i slots past a multiple of the wheel's length. Timers of
// later rounds stay when their slot comes by. Invariant: bit i of filled is set where slot i holds
// a timer, and perhaps where it no longer does.
#include "wheel.h"

#include <stddef.h>

static uint64_t slot_of(uint64_t ns) { return ns >> WHEEL_SLOT_BITS; }

static void filled_set(struct wheel *wheel, unsigned slot, bool on) {
    const uint64_t bit = UINT64_C(1) << slot % 64;
    if (on) {
        wheel->filled[slot / 64] |= bit;
    } else {
        wheel->filled[slot / 64] &= ~bit;
    }
}

void wheel_init(struct wheel *wheel, uint64_t now_ns) {
    *wheel = (struct wheel){.now = slot_of(now_ns)};
    for (int i = 0; i < WHEEL_SLOTS; i++) {
        wheel->slot[i].next = wheel->slot[i].prev = &wheel->slot[i];
    }
}

void wheel_unset(struct wheel *wheel, struct timer *timer) {
    (void)wheel;
    if (!timer->next) return;
    timer->next->prev = timer->prev;
    timer->prev->next = timer->next;
    timer->next = timer->prev = NULL;
}

// A slot is looked at when it is over, so that nothing in it is early.
void wheel_set(struct wheel *wheel, struct timer *timer, uint64_t due_ns) {
    wheel_unset(wheel, timer);
    uint64_t slot = slot_of(due_ns);
    if (slot < wheel->now) slot = wheel->now;
    struct timer *head = &wheel->slot[slot % WHEEL_SLOTS];
    timer->due_ns = due_ns;
    timer->next = head;
    timer->prev = head->prev;
    head->prev->next = timer;
    head->prev = timer;
    filled_set(wheel, slot % WHEEL_SLOTS, true);
}

struct timer *wheel_due(struct wheel *wheel, uint64_t now_ns) {
    const uint64_t end = slot_of(now_ns);
    if (end - wheel->now > WHEEL_SLOTS) wheel->now = end - WHEEL_SLOTS;
    for (; wheel->now < end; wheel->now++) {
        const unsigned slot = wheel->now % WHEEL_SLOTS;
        struct timer *head = &wheel->slot[slot];
        for (struct timer *at = head->next; at != head; at = at->next) {
            if (at->due_ns >= now_ns) continue;
            wheel_unset(wheel, at);
            return at;
        }
        filled_set(wheel, slot, head->next != head);
    }
    return NULL;
}

int wheel_wait_ms(const struct wheel *wheel, uint64_t now_ns) {
    for (uint64_t i = 0; i < WHEEL_SLOTS; i++) {
        const unsigned slot = (wheel->now + i) % WHEEL_SLOTS;
        if (!(wheel->filled[slot / 64] >> slot % 64 & 1)) {
            if (slot % 64 == 0 && !wheel->filled[slot / 64]) i += 63;
            continue;
        }
        const uint64_t over_ns = (wheel->now + i + 1) << WHEEL_SLOT_BITS;
        return over_ns <= now_ns ? 0 : (int)((over_ns - now_ns) / 1000000 + 1);
    }
    return -1;
}
