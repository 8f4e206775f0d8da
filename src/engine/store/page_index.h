// The pages that a store has, their bytes, and which one goes next. Eviction is GreedyDual-Size: a
// page's rank is the store's floor when it was last used, plus the time that a byte of it saves.
// The page of the lowest rank goes, and its rank becomes the floor. So pages that are expensive to
// compute stay longer, and pages that nobody uses go in the end. A page that others continue stays:
// they would be unreachable. Not thread-safe: page_store.c has the lock.
#ifndef RN_ENGINE_STORE_PAGE_INDEX_H
#define RN_ENGINE_STORE_PAGE_INDEX_H

#include "engine/store/page_file.h"

enum { PAGE_INDEX_MOST = 1 << 22 }; // pages

struct page_entry {
    struct page_name name;
    uint32_t next;   // in its bucket, or of the free ones
    uint32_t parent; // PAGE_NONE: not here
    uint32_t n_child;
    uint32_t turn; // changes with every use of the entry, so that old ranks in the heap are noticed
    uint64_t born, parent_born; // numbers of pages, so that a parent that has gone is noticed
    uint64_t again_ns; // the system failed to read it: when it is tried again; 0: it is not
    uint64_t bytes;
    int64_t used_ns;
    double worth, rank; // ns that a byte saves
    bool is_used;       // the entry
    bool is_seen;       // a scan has found its file
    bool is_known;      // its facts were read: worth and parent
};

struct page_rank {
    double rank;
    uint32_t at, turn;
};

#define PAGE_NONE UINT32_MAX

struct page_index {
    struct page_entry *entry; // [n_entry]
    uint32_t n_entry, cap_entry, n_page, free_entry;
    uint32_t *bucket; // [n_bucket], a power of two
    uint32_t n_bucket;
    struct page_rank *heap; // [n_heap] the lowest first
    uint32_t n_heap, cap_heap;
    uint64_t bytes, n_born;
    double floor;
};

rn_status page_index_init(struct page_index *index, rn_error *err);
void page_index_deinit(struct page_index *index);
uint32_t page_index_find(const struct page_index *index, const struct page_name *name);
// Adds a page whose facts are known, or whose file was found (facts NULL); PAGE_NONE: no memory.
// One that is there already is used.
uint32_t page_index_add(struct page_index *index, const struct page_name *name, uint64_t bytes,
                        const struct page_facts *facts);
void page_index_use(struct page_index *index, uint32_t at); // its rank is that of a new one
void page_index_remove(struct page_index *index, uint32_t at);
// The page that goes next; PAGE_NONE: there is none.
uint32_t page_index_victim(struct page_index *index);

// Facts of a page that was found.
void page_index_learn(struct page_index *index, uint32_t at, const struct page_facts *facts);
// All facts were learned. The pages rank by their worth and by when they were used.
void page_index_order(struct page_index *index);

#endif
