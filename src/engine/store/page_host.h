// Stored pages in the host's memory: in front of the folder, or alone. The same records, checksums
// and order of eviction as on disk. The store's threads add and get pages; the step's thread asks
// for names, without a lock.
#ifndef RN_ENGINE_STORE_PAGE_HOST_H
#define RN_ENGINE_STORE_PAGE_HOST_H

#include <pthread.h>

#include "engine/store/page_known.h"

// A page with its record. It is freed when the last of its holders releases it.
struct page_blob {
    struct page_record record;
    uint64_t n_bytes;
    _Atomic int holders;
    _Alignas(16) uint8_t bytes[]; // [n_bytes]
};

struct page_host {
    uint64_t max_bytes; // 0: there is none
    pthread_mutex_t lock;
    struct page_index index;
    struct page_blob **blob; // [n_blob] by the index's entry
    uint32_t n_blob;
    struct page_known known;
    _Atomic uint64_t n_pages, bytes, evictions; // any thread reads them
};

// least: bytes of the smallest page. If it fails, page_host_deinit frees what there is.
rn_status page_host_init(struct page_host *host, uint64_t max_bytes, uint64_t least, rn_error *err);
void page_host_deinit(struct page_host *host);

struct page_blob *page_blob_create(uint64_t n_bytes); // with one holder; NULL: no memory
void page_blob_release(struct page_blob *blob);       // NULL is fine

// Any thread.
static inline bool page_host_has(const struct page_host *host, const struct page_name *name) {
    return host->max_bytes && page_known_has(&host->known, name);
}
// Holds a page whose record is filled. Pages that are worth less make room. False: it is not held,
// for it is too large, or there is no memory.
bool page_host_add(struct page_host *host, struct page_blob *blob);
// The page, held for the caller, and used now; NULL: there is none. Its bytes are not tested.
struct page_blob *page_host_get(struct page_host *host, const struct page_name *name);
void page_host_remove(struct page_host *host, const struct page_name *name);

#endif
