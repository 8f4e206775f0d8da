// The store's reader: the pages that a sequence waits for, one fetch after the other. A page is
// read into a buffer and tested there; only then its bytes go to the page that waits for them.
#define _GNU_SOURCE 1
#include <sched.h>

#include "base/clock.h"
#include "engine/store/page_store_internal.h"

// The time that the pages save, as their writer knew it, against the time of reading them.
static bool is_worth(struct page_store *store, const struct page_fetch *fetch) {
    double saved_ns = 0;
    uint64_t bytes = 0;
    pthread_mutex_lock(&store->lock);
    bool is_known = true;
    for (int i = 0; i < fetch->n_item; i++) {
        const uint32_t at = page_index_find(&store->index, &fetch->item[i].name);
        if (at == PAGE_NONE) continue;
        const struct page_entry *entry = &store->index.entry[at];
        is_known &= entry->is_known;
        saved_ns += entry->worth * (double)entry->bytes;
        bytes += entry->bytes;
    }
    pthread_mutex_unlock(&store->lock);
    return !is_known || saved_ns == 0 || (double)page_store_read_ns(store, bytes) < saved_ns;
}

// One page; false: it cannot be had, or nobody waits any more.
static bool read_page(struct page_store *store, struct page_fetch *fetch,
                      const struct page_item *item) {
    const uint64_t bytes = store->page_bytes[item->name.group];
    if (atomic_load(&fetch->gate) == 2 || atomic_load(&store->is_ending)) return false;
    const enum page_file_status status =
        page_file_get(&store->dir, &item->name, bytes, store->read_buffer);
    if (status != PAGE_FILE_OK) {
        if (status == PAGE_FILE_BAD) page_file_remove(&store->dir, &item->name);
        if (status == PAGE_FILE_BAD) page_count(&store->count.removed, 1);
        if (status == PAGE_FILE_ERROR) page_count(&store->count.errors, 1);
        page_store_forget(store, &item->name);
        return false;
    }
    int open = 0;
    if (!atomic_compare_exchange_strong(&fetch->gate, &open, 1)) return false;
    const rn_status written = store->backend->cls->page_write(store->backend, item->name.group,
                                                              item->page, store->read_buffer, NULL);
    atomic_store(&fetch->gate, 0);
    page_count(&store->count.read_bytes, bytes);
    if (written) page_count(&store->count.errors, 1);
    return written == RN_OK;
}

// The last pages first: a page is used after the pages that continue it.
static void use_pages(struct page_store *store, const struct page_fetch *fetch) {
    for (int i = fetch->n_item; i-- > 0;) {
        page_file_touch(&store->dir, &fetch->item[i].name);
        pthread_mutex_lock(&store->lock);
        const uint32_t at = page_index_find(&store->index, &fetch->item[i].name);
        if (at != PAGE_NONE) page_index_use(&store->index, at);
        pthread_mutex_unlock(&store->lock);
    }
}

static void measure(struct page_store *store, uint64_t bytes, uint64_t ns) {
    if (bytes == 0) return;
    const double now = (double)ns / (double)bytes, before = atomic_load(&store->ns_per_byte);
    atomic_store(&store->ns_per_byte, before > 0 ? before + (now - before) / 4 : now);
}

static enum page_fetch_state run(struct page_store *store, struct page_fetch *fetch) {
    if (!fetch->is_priced && !is_worth(store, fetch)) {
        page_count(&store->count.refused, 1);
        return FETCH_REFUSED;
    }
    const uint64_t begin = clock_ns();
    uint64_t bytes = 0;
    for (int i = 0; i < fetch->n_item; i++) {
        if (!read_page(store, fetch, &fetch->item[i])) return FETCH_FAILED;
        bytes += store->page_bytes[fetch->item[i].name.group];
    }
    measure(store, bytes, clock_ns() - begin);
    page_count(&store->count.hits, (uint64_t)fetch->n_item);
    return FETCH_DONE;
}

void *page_reader_main(void *arg) {
    struct page_store *store = arg;
    pthread_setname_np(pthread_self(), "runnel-store-r");
    for (;;) {
        const uint32_t seen = bell_read(&store->reader_bell);
        struct page_fetch *_Atomic *asked = &store->asked[store->first_asked % STORE_FETCHES];
        struct page_fetch *fetch = atomic_load(asked);
        if (!fetch) {
            if (atomic_load(&store->is_ending)) return NULL;
            bell_wait(&store->reader_bell, seen, UINT64_MAX);
            continue;
        }
        atomic_store(asked, NULL);
        store->first_asked++;
        const enum page_fetch_state state = run(store, fetch);
        if (state == FETCH_DONE) use_pages(store, fetch);
        atomic_store_explicit(&fetch->state, state, memory_order_release);
        page_store_wake(store);
    }
}
