// A second tier of KV pages and states: files that survive the process, the host's memory, or this
// in front of those. The step's thread offers pages, asks for pages and looks up names; it never
// waits, takes no lock and touches no file. Two threads of the store do the rest: the writer
// (page_writer.c) and the reader (page_reader.c).
//
// Invariants:
//  1. a name determines the bytes (page_key.h); a file's checksum is tested before its bytes are
//     used. So a page is right or missing.
//  2. an offer never changes what the step may do with a page. Before a page's bytes change,
//     page_store_withdraw takes its offer back, and waits for a copy that is being made at most.
//  3. a fetch writes only pages that it was given, and none after page_fetch_leave.
//  4. nothing is offered or found before the model's hash is known (page_store_is_ready).
//  5. a failure of the disk is a page that is not stored, or not found. It never ends a request.
//
//   page_store_offer           writer                          reader          page_fetch_ask
//   ----> QUEUED ----> COPYING ----> (free; page is stored)    <---- ASKED <----
//            | withdraw                                          | page after page
//            +----> WITHDRAWN ----> (free)                       +----> DONE, FAILED, REFUSED; wake
#ifndef RN_ENGINE_STORE_PAGE_STORE_H
#define RN_ENGINE_STORE_PAGE_STORE_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "engine/store/page_file.h"
#include "runnel.h"

struct weights;

struct page_store_config {
    const char *path;      // of the folder; NULL: memory alone
    uint64_t max_bytes;    // of all pages in it
    uint64_t memory_bytes; // of pages in memory; 0: none
    struct backend *backend;
    int n_group;
    uint64_t page_bytes[PLAN_MAX_KV_GROUPS];
    const struct weights *weights;             // outlive the store, as the backend does
    const char *identity;                      // what else determines pages; copied
    int max_blocks;                            // of a sequence
    void (*note)(void *ctx, const char *line); // for people, by any thread; NULL: none
    void *note_ctx;
    const struct page_io *io; // NULL: the system's
};

struct page_store;

// Opens the folder, or makes it. Where the model's hash was remembered, or the model is small, the
// store is ready then.
rn_status page_store_create(const struct page_store_config *config, struct page_store **out,
                            rn_error *err);
// Writes the pages that were offered, for at most a few seconds. NULL is fine.
void page_store_destroy(struct page_store *store);
void page_store_get_stats(const struct page_store *store, rn_store_stats *out); // any thread

// --- the step's thread ---

// wake is called by the store's threads when a fetch has ended, or the store became ready.
void page_store_set_wake(struct page_store *store, void (*wake)(void *ctx), void *ctx);
bool page_store_is_ready(const struct page_store *store);
const struct page_key *page_store_root(const struct page_store *store); // when it is ready
bool page_store_has(const struct page_store *store, const struct page_name *name);
// The time to read this page, by the last reads.
double page_store_read_ns(const struct page_store *store, const struct page_name *name);

// The page may be copied from now on, until it is withdrawn. Returns the number of the offer, 0:
// there is no room, and the page is dropped.
uint16_t page_store_offer(struct page_store *store, const struct page_facts *facts, uint32_t page);
// Whether an offer of that number is still waiting for the writer, and is this page's.
bool page_store_is_offered(const struct page_store *store, uint16_t offer, int group,
                           uint32_t page);
// The page's bytes are about to change, or its memory to go: an offer of that number, if it is
// still this page's, ends.
void page_store_withdraw(struct page_store *store, uint16_t offer, int group, uint32_t page);
// Pages of other servers are looked for every few ms from now on, for a minute.
void page_store_look_often(struct page_store *store);
// For the statistics: a prompt found nothing; computing it is faster.
void page_store_missed(struct page_store *store);
void page_store_refused(struct page_store *store);

// A fetch: pages of a sequence that the reader fills.
struct page_item {
    struct page_name name;
    uint32_t page, block; // block: the caller's
};
// FAILED: a page was missing or wrong, and is forgotten; or the system failed to read it, and it is
// not found for a while. REFUSED: computing is faster.
enum page_fetch_state { FETCH_FREE, FETCH_ASKED, FETCH_DONE, FETCH_FAILED, FETCH_REFUSED };
struct page_fetch {
    struct page_item *item; // [n_group * max_blocks]
    int n_item;
    bool is_priced;    // the caller knows that reading is faster; else the pages' own costs decide
    _Atomic int state; // enum page_fetch_state
    _Atomic int gate;  // 0; 1: a page is being written; 2: closed
    bool is_taken;     // a caller has it
};
// A fetch to fill; NULL: all are in use.
struct page_fetch *page_fetch_take(struct page_store *store);
void page_fetch_ask(struct page_store *store, struct page_fetch *fetch);
// The caller has seen DONE or FAILED, or does not want to wait any more: no page is written from
// now on. Waits for one that is being written at most.
void page_fetch_leave(struct page_store *store, struct page_fetch *fetch);

// --- any thread ---

// Waits until the pages that were offered before are written, or will not be; for wait_ms at most.
void page_store_settle(const struct page_store *store, int wait_ms);
// The tokens, from the first on, whose pages are stored: whole blocks of the first group, and a
// tail. Of a group of states, those up to the last one that is stored.
size_t page_store_covers(const struct page_store *store, const char *salt, size_t n_salt,
                         const int32_t *token, size_t n_token);

// Lists of tokens by owner (NULL: none) and name, for slots. 0, or the error of the system.
// ENOTSUP: the store is not ready, or has no folder. A new text beyond the bounds takes the place
// of the one that was used least recently, of its owner or of all.
int page_store_save(struct page_store *store, const char *owner, const char *name, const void *data,
                    size_t n);
ssize_t page_store_load(struct page_store *store, const char *owner, const char *name, void *to,
                        size_t max);
bool page_store_erase(struct page_store *store, const char *owner, const char *name);

#endif
