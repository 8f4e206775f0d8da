// The life of a store, and the calls of the step's thread: they touch atomic words and the two
// rings alone. See page_store.h.
#define _GNU_SOURCE 1
#include "engine/store/page_store.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "engine/store/page_store_internal.h"
#include "weights/weights.h"

enum {
    TEXTS_MOST = 4096,
    OWNER_TEXTS_MOST = 1024,
    DRAIN_MS = 5000,
    PAUSE_MS =
        30000, // a full disk, or a page that the system did not read, is not tried more often
    OFTEN_MS = 60000,
    AT_ONCE = 256 << 20, // bytes of a model that are hashed first
};
// Before anything was read: 1 GB/s and 5 GB/s.
static const double usual_ns_per_byte[TIER_COUNT] = {[TIER_FILES] = 1, [TIER_MEMORY] = 0.2};

// ---------------------------------------------------------------- life

// Signals belong to the program's own threads.
static int start_thread(pthread_t *thread, void *(*main)(void *), struct page_store *store) {
    sigset_t all, saved;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    const int code = pthread_create(thread, NULL, main, store);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return code;
}

static rn_status allocate(struct page_store *store, const struct page_store_config *config,
                          rn_error *err) {
    uint64_t least = UINT64_MAX;
    for (int g = 0; g < config->n_group; g++) {
        const uint64_t bytes = config->page_bytes[g];
        store->page_bytes[g] = bytes;
        if (bytes > store->max_page_bytes) store->max_page_bytes = bytes;
        if (bytes < least) least = bytes;
    }
    store->identity = strdup(config->identity);
    store->offer = calloc(STORE_OFFERS, sizeof *store->offer);
    store->write_buffer = page_blob_create(store->max_page_bytes);
    store->read_buffer = page_blob_create(store->max_page_bytes);
    bool is_fine = store->identity && store->offer && store->write_buffer && store->read_buffer;
    for (int i = 0; i < STORE_FETCHES; i++) {
        const size_t n = (size_t)config->n_group * (size_t)config->max_blocks;
        store->fetch[i].item = calloc(n, sizeof *store->fetch[i].item);
        is_fine &= store->fetch[i].item != NULL;
    }
    if (!is_fine) return err_set(err, RN_ERR_NOMEM, "no memory for the page store");
    rn_status status = page_host_init(&store->host, config->memory_bytes, least, err);
    if (!status) status = page_index_init(&store->index, err);
    if (!status) status = page_known_init(&store->known, store->max_bytes / least, err);
    return status;
}

// The disk takes nothing. A folder that is there is read, and written to when that is over.
static void refused(struct page_store *store, const char *path) {
    char text[128];
    if (page_store_has_files(store)) {
        page_store_pause(store, store->dir.refusal);
        return;
    }
    page_store_say(store, "page store %s: %s; it is not used", err_path(path),
                   strerror_r(store->dir.refusal, text, sizeof text));
    page_count(&store->count.errors, 1);
    atomic_store(&store->is_full, true);
}

rn_status page_store_create(const struct page_store_config *config, struct page_store **out,
                            rn_error *err) {
    *out = NULL;
    struct page_store *store = calloc(1, sizeof *store);
    if (!store) return err_set(err, RN_ERR_NOMEM, "no memory for the page store");
    store->dir.fd = -1;
    store->max_texts = TEXTS_MOST;
    store->max_owner_texts = OWNER_TEXTS_MOST;
    store->pause_ms = PAUSE_MS;
    store->backend = config->backend;
    store->weights = config->weights;
    store->n_group = config->n_group;
    store->max_bytes = config->path ? config->max_bytes : 0;
    store->note = config->note;
    store->note_ctx = config->note_ctx;
    pthread_mutex_init(&store->lock, NULL);
    rn_status status =
        config->path ? page_dir_open(config->path, config->io, &store->dir, err) : RN_OK;
    if (!status && config->path && page_dir_is_open_to_all(&store->dir))
        page_store_say(store, "page store: any user may write to %s; its pages are trusted",
                       err_path(config->path));
    if (!status && store->dir.refusal) refused(store, config->path);
    if (!status) status = allocate(store, config, err);
    const bool is_large = weights_bytes(config->weights) > AT_ONCE;
    if (!status && page_store_identify(store, is_large)) {
        page_store_scan(store);
        atomic_store(&store->is_ready, true);
    }
    if (!status) {
        const int code = start_thread(&store->writer, page_writer_main, store);
        store->has_writer = code == 0;
        const int other = code ? code : start_thread(&store->reader, page_reader_main, store);
        store->has_reader = other == 0;
        if (other) status = err_set(err, RN_ERR_NOMEM, "a thread of the page store cannot start");
    }
    if (status) {
        page_store_destroy(store);
        return status;
    }
    *out = store;
    return RN_OK;
}

void page_store_destroy(struct page_store *store) {
    if (!store) return;
    store->end_ns = clock_ns() + (uint64_t)DRAIN_MS * 1000000u;
    atomic_store(&store->is_ending, true);
    bell_ring(&store->writer_bell);
    bell_ring(&store->reader_bell);
    if (store->has_writer) pthread_join(store->writer, NULL);
    if (store->has_reader) pthread_join(store->reader, NULL);
    page_dir_close(&store->dir);
    page_index_deinit(&store->index);
    for (int i = 0; i < STORE_FETCHES; i++) free(store->fetch[i].item);
    free(store->known.mark);
    free(store->identity);
    free(store->offer);
    page_blob_release(store->write_buffer);
    page_blob_release(store->read_buffer);
    page_host_deinit(&store->host);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

void page_store_say(const struct page_store *store, const char *format, ...) {
    char line[256];
    va_list args;
    if (!store->note) return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    store->note(store->note_ctx, line);
}

void page_store_wake(struct page_store *store) {
    void (*const wake)(void *) = atomic_load(&store->wake);
    if (wake) wake(store->wake_ctx);
}

void page_store_forget(struct page_store *store, const struct page_name *name) {
    pthread_mutex_lock(&store->lock);
    const uint32_t at = page_index_find(&store->index, name);
    if (at != PAGE_NONE) page_index_remove(&store->index, at);
    page_known_remove(&store->known, name);
    pthread_mutex_unlock(&store->lock);
}

void page_store_hide(struct page_store *store, const struct page_name *name) {
    pthread_mutex_lock(&store->lock);
    const uint32_t at = page_index_find(&store->index, name);
    if (at != PAGE_NONE) {
        struct page_entry *entry = &store->index.entry[at];
        entry->again_ns = clock_ns() + (uint64_t)store->pause_ms * 1000000u;
        if (!entry->is_known) page_index_use(&store->index, at); // it may go, as worth nothing
        store->has_hidden = true;
    }
    page_known_remove(&store->known, name);
    pthread_mutex_unlock(&store->lock);
}

void page_store_get_stats(const struct page_store *store, rn_store_stats *out) {
    const struct page_counts *count = &store->count;
    *out = (rn_store_stats){.is_ready = atomic_load(&store->is_ready),
                            .is_stopped = atomic_load(&store->is_full),
                            .max_bytes = store->max_bytes,
                            .bytes = atomic_load(&store->file_bytes),
                            .pages = atomic_load(&store->n_files),
                            .hits = atomic_load(&count->hits),
                            .misses = atomic_load(&count->misses),
                            .refused = atomic_load(&count->refused),
                            .read_bytes = atomic_load(&count->read_bytes),
                            .written = atomic_load(&count->written),
                            .written_bytes = atomic_load(&count->written_bytes),
                            .evictions = atomic_load(&count->evictions),
                            .dropped = atomic_load(&count->dropped),
                            .removed = atomic_load(&count->removed),
                            .errors = atomic_load(&count->errors),
                            .memory_max_bytes = store->host.max_bytes,
                            .memory_bytes = atomic_load(&store->host.bytes),
                            .memory_pages = atomic_load(&store->host.n_pages),
                            .memory_hits = atomic_load(&count->memory_hits),
                            .memory_evictions = atomic_load(&store->host.evictions)};
}

// ---------------------------------------------------------------- the step's thread

void page_store_set_wake(struct page_store *store, void (*wake)(void *ctx), void *ctx) {
    store->wake_ctx = ctx;
    atomic_store(&store->wake, wake);
}

bool page_store_is_ready(const struct page_store *store) {
    return atomic_load_explicit(&store->is_ready, memory_order_acquire);
}

const struct page_key *page_store_root(const struct page_store *store) {
    assert(page_store_is_ready(store));
    return &store->root;
}

bool page_store_has(const struct page_store *store, const struct page_name *name) {
    return page_known_has(&store->known, name) || page_host_has(&store->host, name);
}

double page_store_read_ns(const struct page_store *store, const struct page_name *name) {
    const enum page_tier tier = page_host_has(&store->host, name) ? TIER_MEMORY : TIER_FILES;
    const double measured = atomic_load_explicit(&store->ns_per_byte[tier], memory_order_relaxed);
    return (double)store->page_bytes[name->group] *
           (measured > 0 ? measured : usual_ns_per_byte[tier]);
}

// A full disk stops nothing where memory takes pages.
static bool is_stopped(const struct page_store *store) {
    return !store->host.max_bytes && atomic_load_explicit(&store->is_full, memory_order_relaxed);
}

uint16_t page_store_offer(struct page_store *store, const struct page_facts *facts, uint32_t page) {
    const uint32_t at =
        atomic_load_explicit(&store->next_offer, memory_order_relaxed) % STORE_OFFERS;
    struct page_offer *offer = &store->offer[at];
    if (is_stopped(store) ||
        atomic_load_explicit(&offer->state, memory_order_acquire) != OFFER_FREE) {
        page_count(&store->count.dropped, 1);
        return 0;
    }
    offer->facts = *facts;
    offer->page = page;
    atomic_store_explicit(&offer->state, OFFER_QUEUED, memory_order_release);
    atomic_fetch_add(&store->next_offer, 1);
    bell_ring(&store->writer_bell);
    return (uint16_t)(at + 1);
}

bool page_store_is_offered(const struct page_store *store, uint16_t number, int group,
                           uint32_t page) {
    if (number == 0) return false;
    const struct page_offer *offer = &store->offer[number - 1];
    const int state = atomic_load_explicit(&offer->state, memory_order_acquire);
    return (state == OFFER_QUEUED || state == OFFER_COPYING) && offer->page == page &&
           offer->facts.name.group == group; // else another page's by now
}

void page_store_withdraw(struct page_store *store, uint16_t number, int group, uint32_t page) {
    if (!page_store_is_offered(store, number, group, page)) return;
    struct page_offer *offer = &store->offer[number - 1];
    int state = OFFER_QUEUED;
    if (atomic_compare_exchange_strong(&offer->state, &state, OFFER_WITHDRAWN)) return;
    while (atomic_load_explicit(&offer->state, memory_order_acquire) == OFFER_COPYING)
        sched_yield(); // one copy in memory
}

void page_store_look_often(struct page_store *store) {
    const uint64_t now = clock_ns(), before = atomic_load(&store->often_ns);
    atomic_store(&store->often_ns, now + (uint64_t)OFTEN_MS * 1000000u);
    if (before < now) bell_ring(&store->writer_bell);
}

void page_store_missed(struct page_store *store) { page_count(&store->count.misses, 1); }
void page_store_refused(struct page_store *store) { page_count(&store->count.refused, 1); }

// One that was left before its end is free when the reader is done with it.
static bool is_free(struct page_fetch *fetch) {
    if (fetch->is_taken) return false;
    return atomic_load_explicit(&fetch->state, memory_order_acquire) != FETCH_ASKED;
}

struct page_fetch *page_fetch_take(struct page_store *store) {
    for (int i = 0; i < STORE_FETCHES; i++) {
        struct page_fetch *fetch = &store->fetch[i];
        if (!is_free(fetch)) continue;
        fetch->is_taken = true;
        fetch->n_item = 0;
        fetch->is_priced = false;
        atomic_store(&fetch->state, FETCH_FREE);
        atomic_store(&fetch->gate, 0);
        return fetch;
    }
    return NULL;
}

void page_fetch_ask(struct page_store *store, struct page_fetch *fetch) {
    const uint32_t at = store->next_asked++ % STORE_FETCHES;
    atomic_store(&fetch->state, FETCH_ASKED);
    assert(!atomic_load(&store->asked[at]));
    atomic_store(&store->asked[at], fetch);
    bell_ring(&store->reader_bell);
}

void page_fetch_leave(struct page_store *store, struct page_fetch *fetch) {
    (void)store;
    int open = 0;
    while (!atomic_compare_exchange_weak(&fetch->gate, &open, 2)) {
        if (open == 2) break;
        open = 0;
        sched_yield(); // one copy in memory
    }
    fetch->is_taken = false;
}

// ---------------------------------------------------------------- texts

void page_store_settle(const struct page_store *store, int wait_ms) {
    const uint32_t wanted = atomic_load(&store->next_offer);
    const uint64_t end = clock_ns() + (uint64_t)wait_ms * 1000000u;
    while ((int32_t)(atomic_load(&store->n_handled) - wanted) < 0 && clock_ns() < end)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

// A block of states alone is stored now and then, so the chain goes on where it is not.
size_t page_store_covers(const struct page_store *store, const char *salt, size_t n_salt,
                         const int32_t *token, size_t n_token) {
    struct page_name name = {.key = store->root};
    size_t covered = 0;
    if (n_salt) name.key = page_key_salt(&store->root, salt, n_salt);
    for (size_t at = 0; at < n_token; at += KV_PAGE_TOKENS) {
        const struct page_key parent = name.key;
        const size_t left = n_token - at;
        const int n = left < KV_PAGE_TOKENS ? (int)left : KV_PAGE_TOKENS;
        for (int i = n - 1; i > 0 && left <= KV_PAGE_TOKENS; i--) { // the last token has no page
            name.key = page_key_block(&parent, token + at, i);
            if (!page_store_has(store, &name)) continue;
            if (at + (size_t)i > covered) covered = at + (size_t)i;
            break;
        }
        name.key = page_key_block(&parent, token + at, n);
        if (n == KV_PAGE_TOKENS && page_store_has(store, &name)) covered = at + KV_PAGE_TOKENS;
    }
    return covered;
}

// Names of owners and clients are hashed: they never become paths. The files of an owner start
// alike, for all models.
static bool text_path(const struct page_store *store, const char *owner, const char *name,
                      char out[PAGE_SMALL_NAME]) {
    if (!page_store_is_ready(store) || !page_store_has_files(store)) return false;
    struct page_key key = store->root, group = {0};
    if (owner) {
        group = page_key_salt(&group, owner, strlen(owner));
        key = page_key_salt(&key, owner, strlen(owner));
    }
    key = page_key_salt(&key, name, strlen(name));
    if (owner)
        page_small_group_name("slots", &group, &key, out);
    else
        page_small_name("slots", &key, out);
    return true;
}

int page_store_save(struct page_store *store, const char *owner, const char *name, const void *data,
                    size_t n) {
    char path[PAGE_SMALL_NAME];
    if (!text_path(store, owner, name, path)) return ENOTSUP;
    const bool is_new = !page_small_has(&store->dir, path);
    const int status = page_small_put(&store->dir, path, data, n);
    if (!status && is_new) // clients choose names
        page_small_age(&store->dir, path, owner ? store->max_owner_texts : store->max_texts,
                       store->max_texts);
    return status;
}

ssize_t page_store_load(struct page_store *store, const char *owner, const char *name, void *to,
                        size_t max) {
    char path[PAGE_SMALL_NAME];
    if (!text_path(store, owner, name, path)) return -1;
    const ssize_t n_read = page_small_get(&store->dir, path, to, max);
    if (n_read >= 0) page_small_touch(&store->dir, path);
    return n_read;
}

bool page_store_erase(struct page_store *store, const char *owner, const char *name) {
    char path[PAGE_SMALL_NAME];
    return text_path(store, owner, name, path) && page_small_remove(&store->dir, path);
}
