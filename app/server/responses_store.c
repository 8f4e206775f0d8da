// A list, the last used first, walked to find one: the table is short.
#include "responses_store.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct responses {
    pthread_mutex_t lock;
    int count_max, count;
    size_t bytes_max, bytes;
    struct response *newest, *oldest;
};

struct responses *responses_create(int count_max, size_t bytes_max) {
    struct responses *store = calloc(1, sizeof *store);
    if (!store) return NULL;
    store->count_max = count_max;
    store->bytes_max = bytes_max;
    pthread_mutex_init(&store->lock, NULL);
    return store;
}

bool responses_keeps(const struct responses *store) { return store && store->count_max > 0; }

// ---------------------------------------------------------------- with the lock held

static size_t bytes_of(const struct response *response) {
    return sizeof *response + response->text.capacity;
}

// The chain is walked, not recursed into: a conversation may have any number of turns.
static void release(struct responses *store, struct response *response) {
    while (response && --response->n_references == 0) {
        struct response *previous = response->previous;
        assert(!response->is_kept);
        store->bytes -= bytes_of(response);
        jbuf_deinit(&response->text);
        free(response);
        response = previous;
    }
}

// newer NULL: it becomes the newest.
static void list_enter(struct responses *store, struct response *response, struct response *newer) {
    response->prev = newer;
    response->next = newer ? newer->next : store->newest;
    *(response->next ? &response->next->prev : &store->oldest) = response;
    *(newer ? &newer->next : &store->newest) = response;
}

static void list_leave(struct responses *store, const struct response *response) {
    *(response->prev ? &response->prev->next : &store->newest) = response->next;
    *(response->next ? &response->next->prev : &store->oldest) = response->prev;
}

static void forget(struct responses *store, struct response *response) {
    list_leave(store, response);
    response->is_kept = false;
    store->count--;
    release(store, response);
}

// Of a conversation the first response is the oldest.
static void touch(struct responses *store, struct response *response) {
    struct response *newer = NULL;
    for (; response; response = response->previous) {
        if (!response->is_kept) continue;
        list_leave(store, response);
        list_enter(store, response, newer);
        newer = response;
    }
}

static struct response *find(const struct responses *store, const char *id, struct owner owner) {
    for (struct response *at = store->newest; at; at = at->next)
        if (owner_is(at->owner, owner) && !strcmp(at->id, id)) return at;
    return NULL;
}

// ---------------------------------------------------------------- the interface

void responses_destroy(struct responses *store) {
    if (!store) return;
    while (store->oldest) forget(store, store->oldest);
    assert(!store->bytes);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

struct response *responses_acquire(struct responses *store, const char *id, struct owner owner) {
    if (!responses_keeps(store)) return NULL;
    pthread_mutex_lock(&store->lock);
    struct response *response = find(store, id, owner);
    if (response) {
        response->n_references++;
        touch(store, response);
    }
    pthread_mutex_unlock(&store->lock);
    return response;
}

void responses_release(struct responses *store, struct response *response) {
    if (!response) return;
    pthread_mutex_lock(&store->lock);
    release(store, response);
    pthread_mutex_unlock(&store->lock);
}

void responses_keep(struct responses *store, const struct response *from) {
    struct response *response = malloc(sizeof *response);
    if (!response || from->text.failed || bytes_of(from) > store->bytes_max) {
        struct jbuf text = from->text;
        jbuf_deinit(&text);
        free(response);
        return;
    }
    *response = *from;
    response->n_references = 1;
    response->is_kept = true;
    pthread_mutex_lock(&store->lock);
    if (response->previous) {
        response->previous->n_references++;
        touch(store, response->previous);
    }
    list_enter(store, response, NULL);
    store->count++;
    store->bytes += bytes_of(response);
    while (store->oldest && (store->count > store->count_max || store->bytes > store->bytes_max))
        forget(store, store->oldest);
    pthread_mutex_unlock(&store->lock);
}

bool responses_delete(struct responses *store, const char *id, struct owner owner) {
    if (!responses_keeps(store)) return false;
    pthread_mutex_lock(&store->lock);
    struct response *response = find(store, id, owner);
    if (response) forget(store, response);
    pthread_mutex_unlock(&store->lock);
    return response != NULL;
}

void responses_count(struct responses *store, int *count, size_t *bytes) {
    *count = 0;
    *bytes = 0;
    if (!store) return;
    pthread_mutex_lock(&store->lock);
    *count = store->count;
    *bytes = store->bytes;
    pthread_mutex_unlock(&store->lock);
}
