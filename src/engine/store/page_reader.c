// The store's reader: the pages that a sequence waits for, one fetch after the other. A page is
// taken from memory or read into a buffer, and tested there; only then its bytes go to the page
// that waits for them.
#define _GNU_SOURCE 1
#include <sched.h>

#include "base/clock.h"
#include "engine/store/page_store_internal.h"

// The time that the pages save, as their writer knew it, against the time of reading them. A page
// whose facts are not known yet saves enough.
static bool is_worth(struct page_store *store, const struct page_fetch *fetch) {
    double saved_ns = 0, read_ns = 0;
    bool is_known = true;
    for (int i = 0; i < fetch->n_item; i++) {
        const struct page_name *name = &fetch->item[i].name;
        read_ns += page_store_read_ns(store, name);
        struct page_blob *blob = page_host_get(&store->host, name);
        if (blob) {
            saved_ns += (double)page_record_facts(&blob->record).cost_ns;
            page_blob_release(blob);
            continue;
        }
        pthread_mutex_lock(&store->lock);
        const uint32_t at = page_index_find(&store->index, name);
        if (at != PAGE_NONE) {
            const struct page_entry *entry = &store->index.entry[at];
            is_known &= entry->is_known;
            saved_ns += entry->worth * (double)entry->bytes;
        }
        pthread_mutex_unlock(&store->lock);
    }
    return !is_known || saved_ns == 0 || read_ns < saved_ns;
}

// The page from memory; NULL: it has none, or a wrong one, which is removed.
static struct page_blob *from_memory(struct page_store *store, const struct page_name *name) {
    struct page_blob *blob = page_host_get(&store->host, name);
    if (!blob || page_record_has(&blob->record, blob->bytes, (size_t)blob->n_bytes)) return blob;
    page_host_remove(&store->host, name);
    page_blob_release(blob);
    page_count(&store->count.removed, 1);
    return NULL;
}

// The page from its file; NULL: there is none, or a wrong one, which is removed, or the system
// failed. Memory keeps it.
static struct page_blob *from_file(struct page_store *store, const struct page_name *name) {
    if (!page_store_has_files(store)) return NULL;
    struct page_blob *blob = page_store_blob(store, name->group, store->read_buffer);
    const enum page_file_status status =
        page_file_get(&store->dir, name, store->page_bytes[name->group], &blob->record,
                      blob->bytes);
    if (status == PAGE_FILE_OK) {
        if (blob != store->read_buffer) page_host_add(&store->host, blob);
        return blob;
    }
    if (status == PAGE_FILE_BAD) page_file_remove(&store->dir, name);
    if (status == PAGE_FILE_BAD) page_count(&store->count.removed, 1);
    if (status == PAGE_FILE_ERROR) {
        page_count(&store->count.errors, 1);
        page_store_hide(store, name);
    } else {
        page_store_forget(store, name);
    }
    if (blob != store->read_buffer) page_blob_release(blob);
    return NULL;
}

// A page is one of many, so it changes the speed a little.
static void measure(struct page_store *store, enum page_tier tier, uint64_t bytes, uint64_t ns) {
    const double now = (double)ns / (double)bytes;
    const double before = atomic_load(&store->ns_per_byte[tier]);
    atomic_store(&store->ns_per_byte[tier], before > 0 ? before + (now - before) / 16 : now);
}

// One page; false: it cannot be had, or nobody waits any more.
static bool read_page(struct page_store *store, struct page_fetch *fetch,
                      const struct page_item *item) {
    if (atomic_load(&fetch->gate) == 2 || atomic_load(&store->is_ending)) return false;
    const uint64_t begin = clock_ns();
    struct page_blob *blob = from_memory(store, &item->name);
    const enum page_tier tier = blob ? TIER_MEMORY : TIER_FILES;
    if (!blob) blob = from_file(store, &item->name);
    int open = 0;
    bool is_read = false;
    if (blob && atomic_compare_exchange_strong(&fetch->gate, &open, 1)) {
        is_read = store->backend->cls->page_write(store->backend, item->name.group, item->page,
                                                  blob->bytes, NULL) == RN_OK;
        atomic_store(&fetch->gate, 0);
        page_count(&store->count.read_bytes, store->page_bytes[item->name.group]);
        page_count(&store->count.memory_hits, tier == TIER_MEMORY);
        if (!is_read) page_count(&store->count.errors, 1);
    }
    if (blob != store->read_buffer) page_blob_release(blob);
    if (is_read) measure(store, tier, store->page_bytes[item->name.group], clock_ns() - begin);
    return is_read;
}

// The last pages first: a page is used after the pages that continue it.
static void use_pages(struct page_store *store, const struct page_fetch *fetch) {
    for (int i = fetch->n_item; i-- > 0 && page_store_has_files(store);) {
        page_file_touch(&store->dir, &fetch->item[i].name);
        pthread_mutex_lock(&store->lock);
        const uint32_t at = page_index_find(&store->index, &fetch->item[i].name);
        if (at != PAGE_NONE) page_index_use(&store->index, at);
        pthread_mutex_unlock(&store->lock);
    }
}

static enum page_fetch_state run(struct page_store *store, struct page_fetch *fetch) {
    if (!fetch->is_priced && !is_worth(store, fetch)) {
        page_count(&store->count.refused, 1);
        return FETCH_REFUSED;
    }
    for (int i = 0; i < fetch->n_item; i++)
        if (!read_page(store, fetch, &fetch->item[i])) return FETCH_FAILED;
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
