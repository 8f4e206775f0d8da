// Pages of KV memory and who owns them. The manager knows ids and counts; the bytes are the
// backend's.
//
// Invariants (kv_check_*):
//  1. every page of a group is either on its free stack or has an owner: free + owned = total;
//  2. a page is on the free stack at most once;
//  3. promised pages never exceed what is free: a sequence that was admitted can always grow to its
//  limit;
//  4. a table holds the pages of positions [0, n_page * KV_PAGE_TOKENS), in order.
//
//           kv_promise             kv_grow (zeroed by the backend)
//   free  ------------->  promised  ------------->  owned
//    ^                       |                        |
//    +-----------------------+------ kv_release ------+
#ifndef RN_ENGINE_KV_H
#define RN_ENGINE_KV_H

#include "backend/backend.h"

struct kv_group {
    uint32_t n_page;
    uint32_t n_free;
    uint32_t n_promised; // of the free ones: spoken for
    uint32_t *free;      // [n_page] stack of page ids, the first n_free are free
};

struct kv {
    struct kv_group group[PLAN_MAX_KV_GROUPS];
    int n_group;
    struct backend *backend;
    uint8_t *seen[PLAN_MAX_KV_GROUPS]; // [n_page] scratch of the check
};

// The pages of one sequence. max_page is what was promised to it, in every group.
struct kv_table {
    uint32_t *page[PLAN_MAX_KV_GROUPS]; // [max_page]
    uint32_t n_page, max_page;
};

static inline uint32_t kv_pages_for(int n_positions) {
    return (uint32_t)((n_positions + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS);
}

struct kv_config {
    int n_group;
    struct {
        enum kv_kind kind;
        int window;
        uint64_t page_bytes;
    } group[PLAN_MAX_KV_GROUPS];
};

// The bytes that a sequence of n_positions needs at once when it grows `chunk` positions at a time.
uint64_t kv_need(const struct kv_config *config, int n_positions, int chunk);

rn_status kv_init(struct kv *kv, int n_group, const uint32_t *n_page, struct backend *backend,
                  rn_error *err);
void kv_deinit(struct kv *kv);

// Memory for a table of that many positions; no page is taken yet.
rn_status kv_table_init(struct kv_table *table, int n_group, int n_positions, rn_error *err);
void kv_table_deinit(struct kv_table *table);

// Sets max_page pages aside for the table; false: there are not enough, nothing is changed.
bool kv_promise(struct kv *kv, const struct kv_table *table);
// Gives the table zeroed pages up to n_positions, out of what was promised to it: cannot fail.
void kv_grow(struct kv *kv, struct kv_table *table, int n_positions);
// Gives back the pages and the rest of the promise.
void kv_release(struct kv *kv, struct kv_table *table);

// Tests the invariants: begin, every promised table, end. False: broken. Allocates nothing.
struct kv_tally {
    uint32_t owned, promised; // in each group
    bool sound;
};
void kv_check_begin(const struct kv *kv, struct kv_tally *tally);
bool kv_check_table(const struct kv *kv, struct kv_tally *tally, const struct kv_table *table);
bool kv_check_end(const struct kv *kv, const struct kv_tally *tally);

#endif
