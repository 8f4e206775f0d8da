// Fair share between users: the least served user goes first. Service is counted in tokens that
// were evaluated. A new or returning user starts at the virtual time, which is the service of the
// user chosen last. So no user saves up a claim by being away, or pays for the time before. The
// step's thread alone calls it; nothing is allocated after init.
#ifndef RN_ENGINE_REQUEST_USERS_H
#define RN_ENGINE_REQUEST_USERS_H

#include <stdint.h>

#include "base/status.h"

struct user {
    uint64_t key;
    uint64_t served;
    int n_seqs; // waiting or running; 0: the entry is free
    int next;   // in its bucket, or in the list of free entries; -1: none
};

struct users {
    struct user *user; // [capacity]
    int *bucket;       // [n_bucket] a power of two; -1: empty
    int capacity, n_bucket, first_free;
    uint64_t now; // virtual time
};

rn_status users_init(struct users *users, int capacity, rn_error *err);
void users_deinit(struct users *users);

// One more sequence of that user; returns the user's index. There is always room: no more
// sequences live than the capacity.
int users_enter(struct users *users, uint64_t key);
void users_leave(struct users *users, int index);

static inline uint64_t users_served(const struct users *users, int index) {
    return users->user[index].served;
}
static inline void users_charge(struct users *users, int index, int n_tokens) {
    users->user[index].served += (uint64_t)n_tokens;
}
// The user was chosen to go first.
static inline void users_chosen(struct users *users, int index) {
    if (users->user[index].served > users->now) users->now = users->user[index].served;
}

#endif
