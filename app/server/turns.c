// A list, the last used first, walked to find one: the table is short.
#include "turns.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct turns {
    pthread_mutex_t lock;
    int count_max, count;
    size_t bytes_max, bytes;
    struct turn *newest, *oldest;
};

struct turns *turns_create(int count_max, size_t bytes_max) {
    struct turns *store = calloc(1, sizeof *store);
    if (!store) return NULL;
    store->count_max = count_max;
    store->bytes_max = bytes_max;
    pthread_mutex_init(&store->lock, NULL);
    return store;
}

bool turns_keeps(const struct turns *store) { return store && store->count_max > 0; }

// ---------------------------------------------------------------- with the lock held

static size_t bytes_of(const struct turn *turn) { return sizeof *turn + turn->text.capacity; }

// The chain is walked, not recursed into: a conversation may have any number of turns.
static void release(struct turns *store, struct turn *turn) {
    while (turn && --turn->n_references == 0) {
        struct turn *previous = turn->previous;
        assert(!turn->is_kept);
        store->bytes -= bytes_of(turn);
        jbuf_deinit(&turn->text);
        free(turn);
        turn = previous;
    }
}

// After `newer`, or as the newest if that is NULL.
static void list_enter(struct turns *store, struct turn *turn, struct turn *newer) {
    turn->prev = newer;
    turn->next = newer ? newer->next : store->newest;
    *(turn->next ? &turn->next->prev : &store->oldest) = turn;
    *(newer ? &newer->next : &store->newest) = turn;
}

static void list_leave(struct turns *store, const struct turn *turn) {
    *(turn->prev ? &turn->prev->next : &store->newest) = turn->next;
    *(turn->next ? &turn->next->prev : &store->oldest) = turn->prev;
}

static void forget(struct turns *store, struct turn *turn) {
    list_leave(store, turn);
    turn->is_kept = false;
    store->count--;
    release(store, turn);
}

// Of a conversation the first turn is the oldest.
static void touch(struct turns *store, struct turn *turn) {
    struct turn *newer = NULL;
    for (; turn; turn = turn->previous) {
        if (!turn->is_kept) continue;
        list_leave(store, turn);
        list_enter(store, turn, newer);
        newer = turn;
    }
}

static struct turn *find(const struct turns *store, enum turn_kind kind, const char *id,
                         struct owner owner) {
    for (struct turn *at = store->newest; at; at = at->next)
        if (at->kind == kind && owner_is(at->owner, owner) && !strcmp(at->id, id)) return at;
    return NULL;
}

static void refer(struct turns *store, struct turn *turn) {
    turn->n_references++;
    touch(store, turn);
}

// ---------------------------------------------------------------- the interface

void turns_destroy(struct turns *store) {
    if (!store) return;
    while (store->oldest) forget(store, store->oldest);
    assert(!store->bytes);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

struct turn *turns_acquire(struct turns *store, enum turn_kind kind, const char *id,
                           struct owner owner) {
    if (!turns_keeps(store)) return NULL;
    pthread_mutex_lock(&store->lock);
    struct turn *turn = find(store, kind, id, owner);
    if (turn) refer(store, turn);
    pthread_mutex_unlock(&store->lock);
    return turn;
}

void turns_release(struct turns *store, struct turn *turn) {
    if (!turn) return;
    pthread_mutex_lock(&store->lock);
    release(store, turn);
    pthread_mutex_unlock(&store->lock);
}

struct turn *turns_claim(struct turns *store, const char *id, struct owner owner,
                         enum turn_next *why) {
    *why = TURN_OPEN;
    if (!turns_keeps(store)) return NULL;
    pthread_mutex_lock(&store->lock);
    struct turn *turn = find(store, TURN_MESSAGE, id, owner);
    if (turn) *why = turn->state;
    if (turn && turn->state != TURN_OPEN) turn = NULL;
    if (turn) {
        refer(store, turn);
        turn->state = TURN_CLAIMED;
    }
    pthread_mutex_unlock(&store->lock);
    return turn;
}

void turns_unclaim(struct turns *store, struct turn *turn) {
    if (!turn) return;
    pthread_mutex_lock(&store->lock);
    if (turn->state == TURN_CLAIMED) turn->state = TURN_OPEN;
    release(store, turn);
    pthread_mutex_unlock(&store->lock);
}

void turns_keep(struct turns *store, const struct turn *from) {
    struct turn *turn = malloc(sizeof *turn);
    if (!turn || from->text.failed || bytes_of(from) > store->bytes_max) {
        struct jbuf text = from->text;
        jbuf_deinit(&text);
        free(turn);
        return;
    }
    *turn = *from;
    turn->state = TURN_OPEN;
    turn->n_references = 1;
    turn->is_kept = true;
    pthread_mutex_lock(&store->lock);
    if (turn->previous) {
        refer(store, turn->previous);
        turn->previous->state = TURN_CONTINUED;
    }
    list_enter(store, turn, NULL);
    store->count++;
    store->bytes += bytes_of(turn);
    while (store->oldest && (store->count > store->count_max || store->bytes > store->bytes_max))
        forget(store, store->oldest);
    pthread_mutex_unlock(&store->lock);
}

bool turns_delete(struct turns *store, enum turn_kind kind, const char *id, struct owner owner) {
    if (!turns_keeps(store)) return false;
    pthread_mutex_lock(&store->lock);
    struct turn *turn = find(store, kind, id, owner);
    const bool is_there = turn != NULL;
    if (turn) forget(store, turn);
    pthread_mutex_unlock(&store->lock);
    return is_there;
}

void turns_count(struct turns *store, int *count, size_t *bytes) {
    *count = 0;
    *bytes = 0;
    if (!store) return;
    pthread_mutex_lock(&store->lock);
    *count = store->count;
    *bytes = store->bytes;
    pthread_mutex_unlock(&store->lock);
}
