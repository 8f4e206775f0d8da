// A bell that one or more threads sleep at. Ringing costs no system call while no thread sleeps. A
// sleeper reads the bell, looks for work, and sleeps only if the bell was not rung since it was
// read. So no work that was left before a ring is missed.
#ifndef RN_BASE_BELL_H
#define RN_BASE_BELL_H

#include <stdatomic.h>
#include <stdint.h>

// Zeroed it is ready.
struct bell {
    _Atomic uint32_t rings; // the futex word
    _Atomic uint32_t sleepers;
};

static inline uint32_t bell_read(struct bell *bell) { return atomic_load(&bell->rings); }
void bell_ring(struct bell *bell);
// Sleeps until the bell is rung after `seen` was read, for at most timeout_ns (UINT64_MAX: as long
// as it takes), or for no reason.
void bell_wait(struct bell *bell, uint32_t seen, uint64_t timeout_ns);

#endif
