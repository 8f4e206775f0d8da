// A set of page names that one thread asks while another changes it, without a lock. It may forget
// a name and may know one too many: a page that is thought to be stored and is not is found missing
// when it is read. Buckets of eight fingerprints; a full bucket forgets one.
#ifndef RN_ENGINE_STORE_PAGE_KNOWN_H
#define RN_ENGINE_STORE_PAGE_KNOWN_H

#include <stdatomic.h>
#include <stdlib.h>

#include "engine/store/page_index.h"

enum { PAGE_KNOWN_BUCKET = 8 };

struct page_known {
    _Atomic uint64_t *mark; // [n_bucket][PAGE_KNOWN_BUCKET]; 0: none
    uint32_t n_bucket;      // a power of two
};

static inline rn_status page_known_init(struct page_known *known, uint64_t n_pages, rn_error *err) {
    known->n_bucket = 256;
    while (known->n_bucket < PAGE_INDEX_MOST / 4 && (uint64_t)known->n_bucket * 4 < n_pages)
        known->n_bucket *= 2;
    known->mark = calloc((size_t)known->n_bucket * PAGE_KNOWN_BUCKET, sizeof *known->mark);
    return known->mark ? RN_OK : err_set(err, RN_ERR_NOMEM, "no memory for the page store's names");
}

static inline _Atomic uint64_t *page_known_bucket(const struct page_known *known,
                                                  const struct page_name *name, uint64_t *mark) {
    uint32_t at;
    memcpy(&at, name->key.at + 8, sizeof at);
    memcpy(mark, name->key.at + 16, sizeof *mark);
    *mark += (uint64_t)name->group * 0x9e3779b97f4a7c15u;
    if (*mark == 0) *mark = 1;
    return known->mark + (size_t)(at & (known->n_bucket - 1)) * PAGE_KNOWN_BUCKET;
}

static inline bool page_known_has(const struct page_known *known, const struct page_name *name) {
    uint64_t mark;
    const _Atomic uint64_t *bucket = page_known_bucket(known, name, &mark);
    for (int i = 0; i < PAGE_KNOWN_BUCKET; i++)
        if (atomic_load_explicit(&bucket[i], memory_order_relaxed) == mark) return true;
    return false;
}

// By one thread at a time, as is page_known_remove.
static inline void page_known_add(struct page_known *known, const struct page_name *name) {
    uint64_t mark;
    _Atomic uint64_t *bucket = page_known_bucket(known, name, &mark);
    int at = (int)(mark % PAGE_KNOWN_BUCKET);
    for (int i = 0; i < PAGE_KNOWN_BUCKET; i++) {
        const uint64_t other = atomic_load_explicit(&bucket[i], memory_order_relaxed);
        if (other == mark) return;
        if (other == 0) at = i;
    }
    atomic_store_explicit(&bucket[at], mark, memory_order_relaxed);
}

static inline void page_known_remove(struct page_known *known, const struct page_name *name) {
    uint64_t mark;
    _Atomic uint64_t *bucket = page_known_bucket(known, name, &mark);
    for (int i = 0; i < PAGE_KNOWN_BUCKET; i++)
        if (atomic_load_explicit(&bucket[i], memory_order_relaxed) == mark)
            atomic_store_explicit(&bucket[i], 0, memory_order_relaxed);
}

#endif
