// Timers in a wheel of slots. Setting one and taking it away cost the same however many there are.
// A timer is never early, and at most one slot late. I/O thread only.
#ifndef RN_SERVER_WHEEL_H
#define RN_SERVER_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

enum { WHEEL_SLOTS = 512, WHEEL_SLOT_BITS = 24 }; // a slot is 2^24 ns, 17 ms

struct timer {
    struct timer *next, *prev; // NULL: not set
    uint64_t due_ns;
};

struct wheel {
    struct timer slot[WHEEL_SLOTS]; // heads of lists
    uint64_t filled[WHEEL_SLOTS / 64];
    uint64_t now; // the slot, counted from the clock's start, up to which timers were handled
};

void wheel_init(struct wheel *wheel, uint64_t now_ns);
// Moves the timer if it is set already.
void wheel_set(struct wheel *wheel, struct timer *timer, uint64_t due_ns);
void wheel_unset(struct wheel *wheel, struct timer *timer);
// The next timer that is due, taken out; NULL: none.
struct timer *wheel_due(struct wheel *wheel, uint64_t now_ns);
// The time until wheel_due may find a timer; -1: no timer is set.
int wheel_wait_ms(const struct wheel *wheel, uint64_t now_ns);

#endif
