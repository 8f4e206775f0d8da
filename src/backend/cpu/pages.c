// Clears and copies of KV pages at the start of a run, giving their memory back, and their bytes
// for a store. Called by program.c and through backend.h.
//
// The batch's list is in order: a page may be copied to and then copied from. A byte of a page
// depends only on the same byte of another page of its group. So an item is a group and a part of
// its pages' bytes, for which one thread walks the whole list. All threads work, and none waits.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"

enum {
    LEAST_BYTES = 16 << 10,   // of a part: less is no stream
    INLINE_BYTES = 128 << 10, // of all pages: about the microseconds that a parallel run costs
    PARTS_PER_THREAD = 4,     // so that a core that is taken away stalls little
};

struct pages_job {
    const struct cpu_backend *b;
    const struct batch *batch;
    int64_t n_parts; // of the pages of each group
};

static void part_run(const struct pages_job *job, int group, int64_t part) {
    const struct cpu_backend *b = job->b;
    const uint64_t page_bytes = b->page_bytes[group], n_parts = (uint64_t)job->n_parts;
    const uint64_t lines = (page_bytes + 63) / 64; // parts begin on cache lines of the page
    const uint64_t begin = lines * (uint64_t)part / n_parts * 64;
    uint64_t end = lines * ((uint64_t)part + 1) / n_parts * 64;
    if (end > page_bytes) end = page_bytes;
    for (int i = 0; i < job->batch->n_pages; i++) {
        const struct batch_page *page = &job->batch->page[i];
        if (page->group != group) continue;
        assert(((uint64_t)page->page + 1) * page_bytes <= b->kv[group].bytes);
        assert(page->from == BATCH_ZERO ||
               ((uint64_t)page->from + 1) * page_bytes <= b->kv[group].bytes);
        uint8_t *to = b->kv[group].base + page->page * page_bytes;
        if (page->from == BATCH_ZERO)
            memset(to + begin, 0, end - begin);
        else if (page->from != page->page)
            memcpy(to + begin, b->kv[group].base + page->from * page_bytes + begin, end - begin);
    }
}

static void parts_run(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct pages_job *job = ctx;
    for (int64_t item = begin; item < end; item++)
        part_run(job, (int)(item / job->n_parts), item % job->n_parts);
}

void cpu_pages_run(struct cpu_backend *b, const struct batch *batch) {
    if (batch->n_pages == 0) return;
    uint64_t bytes = 0, largest = 0;
    for (int i = 0; i < batch->n_pages; i++) {
        const uint64_t one = b->page_bytes[batch->page[i].group];
        bytes += one;
        if (one > largest) largest = one;
    }
    struct pages_job job = {.b = b, .batch = batch, .n_parts = 1};
    const int64_t most = (int64_t)(largest / LEAST_BYTES) + 1;
    if (bytes > INLINE_BYTES) job.n_parts = (int64_t)pool_size(b->pool) * PARTS_PER_THREAD;
    if (job.n_parts > most) job.n_parts = most;
    const int64_t n_items = b->plan->n_group_all * job.n_parts;
    pool_run(b->pool, parts_run, &job, n_items, bytes > INLINE_BYTES ? 1 : n_items);
}

void cpu_page_release(struct backend *backend, int group, uint32_t page) {
    struct cpu_backend *b = (struct cpu_backend *)backend;
    region_forget(&b->kv[group], page * b->page_bytes[group], b->page_bytes[group]);
}

static uint8_t *page_at(struct cpu_backend *b, int group, uint32_t page) {
    assert(((uint64_t)page + 1) * b->page_bytes[group] <= b->kv[group].bytes);
    return b->kv[group].base + page * b->page_bytes[group];
}

rn_status cpu_page_read(struct backend *backend, int group, uint32_t page, void *to,
                        rn_error *err) {
    (void)err;
    struct cpu_backend *b = (struct cpu_backend *)backend;
    memcpy(to, page_at(b, group, page), b->page_bytes[group]);
    return RN_OK;
}

rn_status cpu_page_write(struct backend *backend, int group, uint32_t page, const void *from,
                         rn_error *err) {
    (void)err;
    struct cpu_backend *b = (struct cpu_backend *)backend;
    memcpy(page_at(b, group, page), from, b->page_bytes[group]);
    return RN_OK;
}

// One layout and one arithmetic serve every instruction set and number of threads (NUMERICS.md), so
// the sources decide. The order of bytes is the machine's.
void cpu_page_identity(const struct backend *backend, char out[BACKEND_IDENTITY]) {
    (void)backend;
    const uint16_t one = 1;
    snprintf(out, BACKEND_IDENTITY, "cpu %s %s", backend_fingerprint,
             *(const uint8_t *)&one ? "little" : "big");
}
