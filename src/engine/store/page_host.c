// See page_host.h.
#include "engine/store/page_host.h"

#include <assert.h>

rn_status page_host_init(struct page_host *host, uint64_t max_bytes, uint64_t least,
                         rn_error *err) {
    if (!max_bytes) return RN_OK;
    host->max_bytes = max_bytes;
    pthread_mutex_init(&host->lock, NULL);
    const rn_status status = page_index_init(&host->index, err);
    return status ? status : page_known_init(&host->known, max_bytes / least, err);
}

void page_host_deinit(struct page_host *host) {
    if (!host->max_bytes) return;
    for (uint32_t i = 0; i < host->n_blob; i++) page_blob_release(host->blob[i]);
    free(host->blob);
    free(host->known.mark);
    page_index_deinit(&host->index);
    pthread_mutex_destroy(&host->lock);
}

struct page_blob *page_blob_create(uint64_t n_bytes) {
    struct page_blob *blob = malloc(sizeof *blob + (size_t)n_bytes);
    if (!blob) return NULL;
    blob->n_bytes = n_bytes;
    atomic_init(&blob->holders, 1);
    return blob;
}

void page_blob_release(struct page_blob *blob) {
    if (blob && atomic_fetch_sub(&blob->holders, 1) == 1) free(blob);
}

// ---------------------------------------------------------------- with the lock

static void publish_sizes(struct page_host *host) {
    atomic_store_explicit(&host->n_pages, host->index.n_page, memory_order_relaxed);
    atomic_store_explicit(&host->bytes, host->index.bytes, memory_order_relaxed);
}

static void drop(struct page_host *host, uint32_t at) {
    page_known_remove(&host->known, &host->index.entry[at].name);
    page_index_remove(&host->index, at);
    page_blob_release(host->blob[at]);
    host->blob[at] = NULL;
}

static bool make_room(struct page_host *host, uint64_t bytes) {
    while (host->index.bytes + bytes > host->max_bytes || host->index.n_page >= PAGE_INDEX_MOST) {
        const uint32_t at = page_index_victim(&host->index);
        if (at == PAGE_NONE) return false;
        drop(host, at);
        atomic_fetch_add_explicit(&host->evictions, 1, memory_order_relaxed);
    }
    return true;
}

// A place for the blob of every entry that the index may use next.
static bool blobs_grow(struct page_host *host) {
    const uint32_t least = host->index.n_entry + 1;
    if (least <= host->n_blob) return true;
    const uint32_t n = least < 512 ? 1024 : 2 * least;
    struct page_blob **grown = realloc(host->blob, n * sizeof *grown);
    if (!grown) return false;
    for (uint32_t i = host->n_blob; i < n; i++) grown[i] = NULL;
    host->blob = grown;
    host->n_blob = n;
    return true;
}

static bool add(struct page_host *host, struct page_blob *blob) {
    const struct page_facts facts = page_record_facts(&blob->record);
    uint32_t at = page_index_find(&host->index, &facts.name);
    if (at != PAGE_NONE) { // the same bytes
        page_index_use(&host->index, at);
        return true;
    }
    if (!make_room(host, facts.bytes) || !blobs_grow(host)) return false;
    at = page_index_add(&host->index, &facts.name, facts.bytes, &facts);
    if (at == PAGE_NONE) return false;
    assert(!host->blob[at]);
    atomic_fetch_add(&blob->holders, 1);
    host->blob[at] = blob;
    page_known_add(&host->known, &facts.name);
    return true;
}

// ---------------------------------------------------------------- pages

bool page_host_add(struct page_host *host, struct page_blob *blob) {
    if (blob->n_bytes > host->max_bytes) return false;
    pthread_mutex_lock(&host->lock);
    const bool is_added = add(host, blob);
    publish_sizes(host);
    pthread_mutex_unlock(&host->lock);
    return is_added;
}

struct page_blob *page_host_get(struct page_host *host, const struct page_name *name) {
    struct page_blob *blob = NULL;
    if (!host->max_bytes) return NULL;
    pthread_mutex_lock(&host->lock);
    const uint32_t at = page_index_find(&host->index, name);
    if (at != PAGE_NONE) {
        blob = host->blob[at];
        atomic_fetch_add(&blob->holders, 1);
        page_index_use(&host->index, at);
    }
    pthread_mutex_unlock(&host->lock);
    return blob;
}

void page_host_remove(struct page_host *host, const struct page_name *name) {
    pthread_mutex_lock(&host->lock);
    const uint32_t at = page_index_find(&host->index, name);
    if (at != PAGE_NONE) drop(host, at);
    publish_sizes(host);
    pthread_mutex_unlock(&host->lock);
}
