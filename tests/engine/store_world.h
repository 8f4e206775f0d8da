// A world for page stores: a backend whose pages are arrays here, pages whose bytes follow from
// their names, and calls to the system that fail or end at a chosen one, as a killed process does.
#ifndef RN_TESTS_STORE_WORLD_H
#define RN_TESTS_STORE_WORLD_H

#include <errno.h>

#include <limits.h>

#include "engine/store/page_store_internal.h"
#include "store_folder.h"
#include "weights/weights.h"

enum { WORLD_GROUPS = 2, WORLD_SLOTS = 64, WORLD_MOST_BYTES = 3000, WORLD_BLOCKS = 64 };
static const uint64_t world_bytes[WORLD_GROUPS] = {3000, 1000};

struct store_world {
    struct backend backend; // first
    uint8_t page[WORLD_GROUPS][WORLD_SLOTS][WORLD_MOST_BYTES];
    struct weights *weights;
    struct store_folder folder;
    _Atomic int n_notes;
    char note[256]; // the last
    uint64_t random;
};

static inline uint64_t world_random(struct store_world *w) {
    w->random = (w->random ^ w->random >> 29) * 0x9e3779b97f4a7c15u + 0x1234567;
    return w->random >> 17;
}

static inline rn_status world_read(struct backend *backend, int group, uint32_t page, void *to,
                                   rn_error *err) {
    (void)err;
    struct store_world *w = (struct store_world *)backend;
    memcpy(to, w->page[group][page], world_bytes[group]);
    return RN_OK;
}

static inline rn_status world_write(struct backend *backend, int group, uint32_t page,
                                    const void *from, rn_error *err) {
    (void)err;
    struct store_world *w = (struct store_world *)backend;
    memcpy(w->page[group][page], from, world_bytes[group]);
    return RN_OK;
}

static const struct backend_class world_class = {.name = "world",
                                                 .page_read = world_read,
                                                 .page_write = world_write};

static inline void world_note(void *ctx, const char *line) {
    struct store_world *w = ctx;
    snprintf(w->note, sizeof w->note, "%s", line);
    w->n_notes++;
}

static inline struct store_world *world_make(uint64_t seed) {
    rn_error err = {0};
    struct store_world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->backend.cls = &world_class;
    w->random = seed * 0x9e3779b97f4a7c15u + 1;
    w->folder = store_folder_make();
    check(!weights_open(TEST_DATA "/golden/llama/model.gguf", &w->weights, &err), "%s",
          err.message);
    return w;
}

static inline void world_free(struct store_world *w) {
    weights_close(w->weights);
    store_folder_remove(&w->folder);
    free(w);
}

// max_bytes 0: without files.
static inline struct page_store *world_open_with(struct store_world *w, const char *identity,
                                                 uint64_t max_bytes, uint64_t memory_bytes,
                                                 const struct page_io *io) {
    rn_error err = {0};
    struct page_store *store;
    const struct page_store_config config = {.path = max_bytes ? w->folder.path : NULL,
                                             .max_bytes = max_bytes,
                                             .memory_bytes = memory_bytes,
                                             .backend = &w->backend,
                                             .n_group = WORLD_GROUPS,
                                             .page_bytes = {world_bytes[0], world_bytes[1]},
                                             .weights = w->weights,
                                             .identity = identity,
                                             .max_blocks = WORLD_BLOCKS,
                                             .note = world_note,
                                             .note_ctx = w,
                                             .io = io};
    check(page_store_create(&config, &store, &err) == RN_OK, "%s", err.message);
    return store;
}

static inline struct page_store *world_open_as(struct store_world *w, const char *identity,
                                               uint64_t max_bytes, const struct page_io *io) {
    return world_open_with(w, identity, max_bytes, 0, io);
}

static inline struct page_store *world_open(struct store_world *w) {
    return world_open_as(w, "toy", 1 << 20, NULL);
}

// The name of the n-th page of a chain; its block before is that of n - 1.
static inline struct page_name world_name(const struct page_store *store, int chain, int n) {
    struct page_name name = {.key = *page_store_root(store), .group = chain % WORLD_GROUPS};
    for (int i = 0; i <= n; i++)
        name.key = page_key_block(&name.key, (const int32_t[]){chain, i, 7}, 3);
    return name;
}

// The path of a page's file.
static inline void world_path(const struct store_world *w, const struct page_name *name,
                              char out[400]) {
    int n = snprintf(out, 400, "%s/%02x/", w->folder.path, name->key.at[0]);
    for (int i = 0; i < SHA256_BYTES; i++)
        n += snprintf(out + n, 400 - (size_t)n, "%02x", name->key.at[i]);
    snprintf(out + n, 400 - (size_t)n, "-%d", name->group);
}

// The bytes that a page of that name has.
static inline void world_fill(const struct page_name *name, uint8_t *out) {
    uint64_t state;
    memcpy(&state, name->key.at, sizeof state);
    for (uint64_t i = 0; i < world_bytes[name->group]; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        out[i] = (uint8_t)(state >> 56);
    }
}

static inline bool world_is_right(const struct page_name *name, const uint8_t *bytes) {
    uint8_t want[WORLD_MOST_BYTES];
    world_fill(name, want);
    return memcmp(want, bytes, world_bytes[name->group]) == 0;
}

static inline struct page_facts world_facts(const struct page_store *store, int chain, int n,
                                            uint64_t cost_ns) {
    struct page_facts facts = {.name = world_name(store, chain, n), .cost_ns = cost_ns};
    facts.bytes = world_bytes[facts.name.group];
    facts.parent = n > 0 ? world_name(store, chain, n - 1).key : *page_store_root(store);
    return facts;
}

// Offers a page from a slot, with its right bytes; the number of the offer.
static inline uint16_t world_offer(struct store_world *w, struct page_store *store, int chain,
                                   int n, uint32_t slot) {
    const struct page_facts facts = world_facts(store, chain, n, 1000000);
    world_fill(&facts.name, w->page[facts.name.group][slot]);
    return page_store_offer(store, &facts, slot);
}

// Until all offers are written, or will not be.
static inline void world_drain(struct page_store *store) {
    while (atomic_load(&store->n_handled) != store->next_offer) usleep(100);
}

// Until the folder has that many pages.
static inline void world_wait_pages(const struct store_world *w, int n) {
    for (int i = 0; i < 2000 && store_folder_pages(w->folder.path, NULL, NULL) != n; i++)
        usleep(5000);
    assert_int_equal(store_folder_pages(w->folder.path, NULL, NULL), n);
}

// Reads the first n pages of a chain to slots from 0 on; the state in which the fetch ended.
static inline enum page_fetch_state world_fetch(struct store_world *w, struct page_store *store,
                                                int chain, int n) {
    struct page_fetch *fetch = page_fetch_take(store);
    assert_non_null(fetch);
    fetch->is_priced = true;
    for (int i = 0; i < n; i++) {
        fetch->item[i] =
            (struct page_item){.name = world_name(store, chain, i), .page = (uint32_t)i};
        memset(w->page[chain % WORLD_GROUPS][i], 0, WORLD_MOST_BYTES);
    }
    fetch->n_item = n;
    page_fetch_ask(store, fetch);
    while (atomic_load(&fetch->state) == FETCH_ASKED) usleep(50);
    const enum page_fetch_state state = (enum page_fetch_state)atomic_load(&fetch->state);
    page_fetch_leave(store, fetch);
    return state;
}

// ---------------------------------------------------------------- a system that fails

struct bad_system {
    struct page_io io;                // ctx is this
    _Atomic long left;                // calls before it ends
    _Atomic bool is_over, is_full;    // the process was killed; the disk has no room
    _Atomic int open_code, read_code; // reading fails, for the time being; 0: it does not
};

// Whether a call takes place; half: it is the last one, and only a part of it does.
static inline bool bad_goes(struct bad_system *bad, bool *half) {
    *half = false;
    if (atomic_load(&bad->is_over)) return false;
    *half = atomic_fetch_sub(&bad->left, 1) == 1;
    if (*half) atomic_store(&bad->is_over, true);
    return true;
}

static inline int bad_fail(int code) {
    errno = code;
    return -1;
}

static inline int bad_open(void *ctx, int dir, const char *name, int flags) {
    struct bad_system *bad = ctx;
    bool half;
    if (bad->open_code && !(flags & O_CREAT)) return bad_fail(bad->open_code);
    return bad_goes(ctx, &half) ? page_io_system.open(NULL, dir, name, flags) : bad_fail(EIO);
}
static inline ssize_t bad_read(void *ctx, int fd, void *to, size_t n) {
    struct bad_system *bad = ctx;
    bool half;
    if (bad->read_code) return bad_fail(bad->read_code);
    return bad_goes(ctx, &half) ? page_io_system.read(NULL, fd, to, n) : bad_fail(EIO);
}
static inline ssize_t bad_write(void *ctx, int fd, const void *from, size_t n) {
    struct bad_system *bad = ctx;
    bool half;
    if (!bad_goes(bad, &half)) return bad_fail(EIO);
    if (atomic_load(&bad->is_full)) return bad_fail(ENOSPC);
    return page_io_system.write(NULL, fd, from, half ? (n + 1) / 2 : n);
}
static inline int bad_rename(void *ctx, int dir, const char *from, const char *to) {
    bool half;
    return bad_goes(ctx, &half) ? page_io_system.rename(NULL, dir, from, to) : bad_fail(EIO);
}
static inline int bad_unlink(void *ctx, int dir, const char *name) {
    bool half;
    return bad_goes(ctx, &half) ? page_io_system.unlink(NULL, dir, name) : bad_fail(EIO);
}
static inline int bad_mkdir(void *ctx, int dir, const char *name) {
    bool half;
    return bad_goes(ctx, &half) ? page_io_system.mkdir(NULL, dir, name) : bad_fail(EIO);
}

static inline void bad_init(struct bad_system *bad, long left) {
    *bad = (struct bad_system){.io = {.ctx = bad,
                                      .open = bad_open,
                                      .read = bad_read,
                                      .write = bad_write,
                                      .rename = bad_rename,
                                      .unlink = bad_unlink,
                                      .mkdir = bad_mkdir},
                               .left = left};
}

#endif
