// The table of users: see users.h.
#include "engine/request/users.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

rn_status users_init(struct users *users, int capacity, rn_error *err) {
    *users = (struct users){.capacity = capacity, .n_bucket = 1};
    while (users->n_bucket < capacity) users->n_bucket *= 2;
    users->user = calloc((size_t)capacity, sizeof *users->user);
    users->bucket = calloc((size_t)users->n_bucket, sizeof *users->bucket);
    if (!users->user || !users->bucket) {
        users_deinit(users);
        return err_set(err, RN_ERR_NOMEM, "no memory for %d users", capacity);
    }
    for (int i = 0; i < capacity; i++) users->user[i].next = i + 1 < capacity ? i + 1 : -1;
    for (int i = 0; i < users->n_bucket; i++) users->bucket[i] = -1;
    return RN_OK;
}

void users_deinit(struct users *users) {
    free(users->user);
    free(users->bucket);
    memset(users, 0, sizeof *users);
}

static int *bucket_of(const struct users *users, uint64_t key) {
    return &users->bucket[key & (uint64_t)(users->n_bucket - 1)];
}

int users_enter(struct users *users, uint64_t key) {
    int *bucket = bucket_of(users, key);
    for (int i = *bucket; i >= 0; i = users->user[i].next)
        if (users->user[i].key == key) {
            users->user[i].n_seqs++;
            return i;
        }
    const int i = users->first_free;
    assert(i >= 0);
    users->first_free = users->user[i].next;
    users->user[i] = (struct user){.key = key, .served = users->now, .n_seqs = 1, .next = *bucket};
    *bucket = i;
    return i;
}

void users_leave(struct users *users, int index) {
    struct user *user = &users->user[index];
    assert(user->n_seqs > 0);
    if (--user->n_seqs > 0) return;
    int *link = bucket_of(users, user->key);
    while (*link != index) link = &users->user[*link].next;
    *link = user->next;
    user->next = users->first_free;
    users->first_free = index;
}
