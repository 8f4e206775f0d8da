// The store's writer: the hash of the model, then the pages that were offered, one after the other.
// It makes room for them, and looks now and then for pages of other servers.
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/store/page_store_internal.h"
#include "weights/weights.h"

enum { POLL_MS = 1000, POLL_OFTEN_MS = 20, NICE = 10, TICK_NS = 20000000 };

// ---------------------------------------------------------------- the model

bool page_store_identify(struct page_store *store, bool only_remembered) {
    if (!page_store_has_files(store)) { // the pages end with this model's engine
        store->root = page_key_root((const uint8_t *)"", 0, store->identity);
        return true;
    }
    uint8_t stamp[WEIGHTS_STAMP], hash[WEIGHTS_HASH];
    char name[PAGE_SMALL_NAME];
    rn_error err = {0};
    const bool has_stamp = weights_stamp(store->weights, stamp);
    if (has_stamp) {
        struct page_key key;
        _Static_assert(sizeof key.at == sizeof stamp, "a stamp is a name");
        memcpy(key.at, stamp, sizeof key.at);
        page_small_name("models", &key, name);
    }
    if (!has_stamp ||
        page_small_get(&store->dir, name, hash, sizeof hash) != (ssize_t)sizeof hash) {
        if (only_remembered) return false;
        const rn_status status = weights_hash(store->weights, &store->is_ending, hash, &err);
        if (status == RN_ERR_CANCELLED) return false;
        if (status) {
            page_count(&store->count.errors, 1);
            page_store_say(store, "page store: not used, %s", err.message);
            return false;
        }
        if (has_stamp) page_small_put(&store->dir, name, hash, sizeof hash);
    }
    store->root = page_key_root(hash, sizeof hash, store->identity);
    return true;
}

// ---------------------------------------------------------------- the folder

static void publish_sizes(struct page_store *store) { // the lock is held
    atomic_store_explicit(&store->n_files, store->index.n_page, memory_order_relaxed);
    atomic_store_explicit(&store->file_bytes, store->index.bytes, memory_order_relaxed);
}

static void found(void *ctx, const struct page_name *name, uint64_t bytes, int64_t used_ns) {
    struct page_store *store = ctx;
    if (name->group >= PLAN_MAX_KV_GROUPS) return;
    pthread_mutex_lock(&store->lock);
    const uint32_t n = store->index.n_page;
    const uint32_t at = page_index_add(&store->index, name, bytes, NULL);
    if (at != PAGE_NONE) store->index.entry[at].is_seen = true;
    if (at != PAGE_NONE && store->index.n_page > n) {
        store->index.entry[at].used_ns = used_ns;
        page_known_add(&store->known, name);
        publish_sizes(store);
    }
    pthread_mutex_unlock(&store->lock);
}

// Pages of these parts that were not seen are gone: another server evicted them, or a person did.
static void drop_unseen(struct page_store *store, const bool *is_part) {
    pthread_mutex_lock(&store->lock);
    for (uint32_t at = 0; at < store->index.n_entry; at++) {
        struct page_entry *entry = &store->index.entry[at];
        if (!entry->is_used || !is_part[entry->name.key.at[0]]) continue;
        const bool is_gone = !entry->is_seen;
        entry->is_seen = false; // for the next scan
        if (!is_gone) continue;
        page_known_remove(&store->known, &entry->name);
        page_index_remove(&store->index, at);
    }
    publish_sizes(store);
    pthread_mutex_unlock(&store->lock);
}

// A folder that was changed just now may change again within the same tick of its clock, so it is
// looked at again.
void page_store_scan(struct page_store *store) {
    if (!page_store_has_files(store)) return;
    bool is_part[PAGE_DIR_PARTS] = {false}, is_any = false;
    const int64_t now = page_dir_now();
    for (int part = 0; part < PAGE_DIR_PARTS; part++) {
        const int64_t changed = page_dir_changed(&store->dir, part);
        if (changed == store->part_changed[part]) continue;
        is_part[part] = page_dir_scan(&store->dir, part, found, store);
        is_any |= is_part[part];
        store->part_changed[part] = !is_part[part] || now - changed < TICK_NS ? -1 : changed;
    }
    if (is_any) drop_unseen(store, is_part);
}

// Pages that the system failed to read can be found again when their time has come.
static void show_hidden(struct page_store *store) {
    const uint64_t now = clock_ns();
    pthread_mutex_lock(&store->lock);
    const bool is_any = store->has_hidden;
    store->has_hidden = false;
    for (uint32_t at = 0; is_any && at < store->index.n_entry; at++) {
        struct page_entry *entry = &store->index.entry[at];
        if (!entry->is_used || entry->again_ns == 0) continue;
        store->has_hidden |= entry->again_ns > now;
        if (entry->again_ns > now) continue;
        entry->again_ns = 0;
        page_known_add(&store->known, &entry->name);
    }
    pthread_mutex_unlock(&store->lock);
}

// Whether the facts of a page are to be read now.
static bool is_to_learn(const struct page_entry *entry) {
    return entry->is_used && !entry->is_known && entry->again_ns == 0;
}

// The facts of pages that were found. They decide the order of eviction alone, so they are read
// after the pages can be used. False: there were none.
static bool learn(struct page_store *store) {
    struct page_name name;
    struct page_facts facts;
    bool learned = false;
    for (uint32_t at = 0;; at++) {
        pthread_mutex_lock(&store->lock);
        while (at < store->index.n_entry && !is_to_learn(&store->index.entry[at])) at++;
        const bool is_over = at >= store->index.n_entry;
        if (!is_over) name = store->index.entry[at].name;
        pthread_mutex_unlock(&store->lock);
        if (is_over || atomic_load(&store->is_ending)) return learned;
        learned = true;
        const enum page_file_status status = page_file_facts(&store->dir, &name, &facts);
        if (status == PAGE_FILE_BAD) {
            page_file_remove(&store->dir, &name);
            page_count(&store->count.removed, 1);
        }
        if (status == PAGE_FILE_ERROR) {
            page_count(&store->count.errors, 1);
            page_store_hide(store, &name);
        } else if (status != PAGE_FILE_OK) {
            page_store_forget(store, &name);
        }
        pthread_mutex_lock(&store->lock);
        const uint32_t here = page_index_find(&store->index, &name);
        if (status == PAGE_FILE_OK && here != PAGE_NONE && !store->index.entry[here].is_known) {
            page_index_learn(&store->index, here, &facts);
            page_index_use(&store->index, here);
        }
        publish_sizes(store);
        pthread_mutex_unlock(&store->lock);
    }
}

// The lowest of all pages goes, until there is room for so many bytes. False: none is left to go,
// as where files lie about the blocks before them.
static bool make_room(struct page_store *store, uint64_t bytes) {
    for (;;) {
        struct page_name name;
        pthread_mutex_lock(&store->lock);
        const bool is_short =
            store->index.bytes + bytes > store->max_bytes || store->index.n_page >= PAGE_INDEX_MOST;
        const uint32_t at = is_short ? page_index_victim(&store->index) : PAGE_NONE;
        if (at != PAGE_NONE) {
            name = store->index.entry[at].name;
            page_index_remove(&store->index, at);
            page_known_remove(&store->known, &name);
            publish_sizes(store);
        }
        pthread_mutex_unlock(&store->lock);
        if (at == PAGE_NONE) return !is_short;
        page_file_remove(&store->dir, &name);
        page_count(&store->count.evictions, 1);
    }
}

// ---------------------------------------------------------------- pages

void page_store_pause(struct page_store *store, int code) {
    char text[128];
    page_count(&store->count.errors, 1);
    if (!store->retry_ns)
        page_store_say(store, "page store: %s; pages are not stored until that is over",
                       strerror_r(code, text, sizeof text));
    store->retry_ns = clock_ns() + (uint64_t)store->pause_ms * 1000000u;
    atomic_store(&store->is_full, true);
}

// To a file.
static void write_page(struct page_store *store, const struct page_facts *facts,
                       const struct page_blob *blob) {
    if (!page_store_has_files(store) || atomic_load(&store->is_full)) return;
    if (facts->bytes > store->max_bytes || !make_room(store, facts->bytes)) {
        page_count(&store->count.dropped, 1);
        return;
    }
    const int code = page_file_put(&store->dir, facts, blob->bytes);
    if (code) {
        page_store_pause(store, code);
        return;
    }
    if (store->retry_ns) page_store_say(store, "page store: pages are stored again");
    store->retry_ns = 0;
    store->part_changed[facts->name.key.at[0]] = -1;
    pthread_mutex_lock(&store->lock);
    const uint32_t at = page_index_add(&store->index, &facts->name, facts->bytes, facts);
    if (at != PAGE_NONE) {
        store->index.entry[at].again_ns = 0;
        page_known_add(&store->known, &facts->name);
    }
    publish_sizes(store);
    pthread_mutex_unlock(&store->lock);
    page_count(&store->count.written, 1);
    page_count(&store->count.written_bytes, facts->bytes);
}

// To memory first: from there it can be read while it is written to a file.
static void store_page(struct page_store *store, const struct page_facts *facts,
                       struct page_blob *blob) {
    if (blob != store->write_buffer) {
        page_record_fill(&blob->record, PAGE_RECORD_PAGE, facts, blob->bytes);
        page_host_add(&store->host, blob);
    }
    write_page(store, facts, blob);
}

// The next offer; false: there is none.
static bool write_next(struct page_store *store) {
    struct page_offer *offer = &store->offer[store->first_offer % STORE_OFFERS];
    int state = atomic_load_explicit(&offer->state, memory_order_acquire);
    if (state == OFFER_FREE) return false;
    store->first_offer++;
    if (!atomic_compare_exchange_strong(&offer->state, &state, OFFER_COPYING) ||
        state == OFFER_WITHDRAWN) {
        atomic_store_explicit(&offer->state, OFFER_FREE, memory_order_release);
        return true;
    }
    const struct page_facts facts = offer->facts;
    const bool can_store = store->host.max_bytes || !atomic_load(&store->is_full);
    const bool is_wanted = can_store && !page_store_has(store, &facts.name);
    struct page_blob *blob =
        is_wanted ? page_store_blob(store, facts.name.group, store->write_buffer) : NULL;
    const bool is_copied =
        is_wanted && store->backend->cls->page_read(store->backend, facts.name.group, offer->page,
                                                    blob->bytes, NULL) == RN_OK;
    atomic_store_explicit(&offer->state, OFFER_FREE, memory_order_release);
    if (is_wanted && !is_copied) page_count(&store->count.errors, 1);
    if (is_copied) store_page(store, &facts, blob);
    if (blob != store->write_buffer) page_blob_release(blob);
    return true;
}

// ---------------------------------------------------------------- the thread

static void become_ready(struct page_store *store) {
    if (!page_store_identify(store, false)) return;
    page_store_scan(store);
    atomic_store_explicit(&store->is_ready, true, memory_order_release);
    page_store_wake(store);
}

static void look_around(struct page_store *store) {
    page_store_scan(store);
    show_hidden(store);
    learn(store);
    make_room(store, 0);
}

void *page_writer_main(void *arg) {
    struct page_store *store = arg;
    uint64_t looked_ns = 0;
    pthread_setname_np(pthread_self(), "runnel-store-w");
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE); // of this thread
    if (page_store_has_files(store)) page_dir_clean(&store->dir);
    if (!page_store_is_ready(store)) become_ready(store);
    if (page_store_has_files(store) && page_store_is_ready(store) && learn(store)) {
        pthread_mutex_lock(&store->lock);
        page_index_order(&store->index);
        pthread_mutex_unlock(&store->lock);
    }
    make_room(store, 0);
    const bool has_files = page_store_has_files(store);
    for (;;) {
        const uint32_t seen = bell_read(&store->writer_bell);
        const bool ends = atomic_load(&store->is_ending);
        const uint64_t now = clock_ns();
        if (ends && (!has_files || now > store->end_ns)) break; // memory is over anyway
        if (has_files && store->retry_ns && now > store->retry_ns)
            atomic_store(&store->is_full, false);
        if (write_next(store)) {
            atomic_fetch_add(&store->n_handled, 1);
            continue;
        }
        if (ends) break;
        const uint64_t poll_ns =
            1000000u * (uint64_t)(now < atomic_load(&store->often_ns) ? POLL_OFTEN_MS : POLL_MS);
        if (has_files && page_store_is_ready(store) && now - looked_ns >= poll_ns) {
            looked_ns = now;
            look_around(store);
        }
        bell_wait(&store->writer_bell, seen, poll_ns);
    }
    return NULL;
}
