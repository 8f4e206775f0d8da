// The inside of a store, for the files of this folder.
#ifndef RN_ENGINE_STORE_PAGE_STORE_INTERNAL_H
#define RN_ENGINE_STORE_PAGE_STORE_INTERNAL_H

#include "base/bell.h"
#include "engine/store/page_host.h"
#include "engine/store/page_index.h"
#include "engine/store/page_store.h"

enum {
    STORE_OFFERS = 8192, // that may wait; a power of two below 65536
    STORE_FETCHES = 8,
};

enum page_tier { TIER_FILES, TIER_MEMORY, TIER_COUNT };

enum offer_state { OFFER_FREE, OFFER_QUEUED, OFFER_COPYING, OFFER_WITHDRAWN };

struct page_offer {
    _Atomic int state;
    struct page_facts facts;
    uint32_t page;
};

// Counters of both threads; any thread reads them.
struct page_counts {
    _Atomic uint64_t hits, memory_hits, misses, read_bytes, written, written_bytes, evictions,
        errors, dropped, removed, refused;
};

struct page_store {
    struct page_dir dir; // fd -1: none, and nothing about files below is used
    struct page_host host;
    struct backend *backend;
    const struct weights *weights;
    int n_group, max_texts, max_owner_texts;
    int pause_ms; // when the disk has failed: without writing, and until a page is read again
    uint64_t page_bytes[PLAN_MAX_KV_GROUPS], max_page_bytes, max_bytes;
    char *identity;
    void (*note)(void *ctx, const char *line);
    void *note_ctx;
    void (*_Atomic wake)(void *ctx);
    void *wake_ctx;
    struct page_key root; // when ready
    _Atomic bool is_ready, is_ending;
    struct page_known known;
    struct page_counts count;
    _Atomic double ns_per_byte[TIER_COUNT]; // of reading; 0: not measured
    _Atomic uint64_t often_ns;              // until then the folder is looked at often
    _Atomic bool is_full;                   // the disk is, or fails: nothing is written for a while

    pthread_mutex_t lock; // of index, known and has_hidden; the step never takes it
    struct page_index index;
    bool has_hidden;                      // some pages may be hidden
    _Atomic uint64_t n_files, file_bytes; // of the index
    int64_t part_changed[PAGE_DIR_PARTS]; // the writer's, as of the last scan

    struct page_offer *offer;    // [STORE_OFFERS] a ring
    uint32_t first_offer;        // the writer's
    _Atomic uint32_t next_offer; // the step's
    _Atomic uint32_t n_handled;  // offers that are written, or will not be
    struct bell writer_bell, reader_bell;
    pthread_t writer, reader;
    bool has_writer, has_reader;
    uint64_t retry_ns;                            // the writer's: when it writes again
    uint64_t end_ns;                              // when the writer gives up, once is_ending
    struct page_blob *write_buffer, *read_buffer; // a page of any group, for want of another

    struct page_fetch fetch[STORE_FETCHES];
    struct page_fetch *_Atomic asked[STORE_FETCHES]; // a ring: a fetch is in it once
    uint32_t first_asked, next_asked;                // the reader's; the step's
};

static inline void page_count(_Atomic uint64_t *counter, uint64_t n) {
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline bool page_store_has_files(const struct page_store *store) {
    return store->dir.fd >= 0;
}

// A blob for a page: one that memory may keep, or the buffer.
static inline struct page_blob *page_store_blob(const struct page_store *store, int group,
                                                struct page_blob *buffer) {
    struct page_blob *own =
        store->host.max_bytes ? page_blob_create(store->page_bytes[group]) : NULL;
    return own ? own : buffer;
}

void page_store_say(const struct page_store *store, const char *format, ...) RN_PRINTF(2, 3);
void page_store_wake(struct page_store *store);
// The file is gone, or is to go: it is forgotten.
void page_store_forget(struct page_store *store, const struct page_name *name);
// The system failed to read the file, which may be all right: nobody finds it for a while.
void page_store_hide(struct page_store *store, const struct page_name *name);
void *page_writer_main(void *store);
void *page_reader_main(void *store);
// page_writer.c: the hash of the model, remembered or computed; false: it was stopped, or failed.
bool page_store_identify(struct page_store *store, bool only_remembered);
// page_writer.c: the disk failed with that error. Nothing is written for a while, which people are
// told once.
void page_store_pause(struct page_store *store, int code);
// page_writer.c: the files that are there.
void page_store_scan(struct page_store *store);

#endif
