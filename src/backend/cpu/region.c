// Mappings for weights, KV pages and buffers: aligned to huge pages, because the hardware
// prefetcher stops at the end of a page and small pages would stop it every 4 KiB.
#define _GNU_SOURCE 1
#include "backend/cpu/region.h"

#include <assert.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"

enum { HUGE_BYTES = 2 << 20, SLACK_BYTES = 256, PAGE_BYTES = 4096, CARVE_ALIGN = 64 };

static rn_status no_memory(uint64_t bytes, const char *what, rn_error *err) {
    return err_set(err, RN_ERR_NOMEM, "cannot allocate %llu bytes for %s",
                   (unsigned long long)bytes, what);
}

// Gives back the memory before the first huge page boundary and after the end.
static uint8_t *trim_to_huge(uint8_t *raw, uint64_t bytes) {
    const uint64_t before = (HUGE_BYTES - (uintptr_t)raw % HUGE_BYTES) % HUGE_BYTES;
    if (before) munmap(raw, before);
    munmap(raw + before + bytes, HUGE_BYTES - before);
    return raw + before;
}

rn_status region_map(uint64_t bytes, bool lazy, const char *what, struct region *out,
                     rn_error *err) {
    *out = (struct region){0};
    if (bytes == 0) return RN_OK;
    uint64_t padded, total;
    if (!ck_add(bytes, SLACK_BYTES, &padded) || !ck_pad(padded, PAGE_BYTES, &padded) ||
        !ck_add(padded, HUGE_BYTES, &total) || total > INT64_MAX)
        return no_memory(bytes, what, err);
    const bool huge = bytes >= HUGE_BYTES;
    void *raw = mmap(NULL, huge ? total : padded, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | (lazy ? MAP_NORESERVE : 0), -1, 0);
    if (raw == MAP_FAILED) return no_memory(bytes, what, err);
    uint8_t *base = raw;
    if (huge) {
        base = trim_to_huge(raw, padded);
        madvise(base, padded, MADV_HUGEPAGE); // a wish: small pages are slower, not wrong
    }
    *out = (struct region){.base = base, .bytes = bytes, .mapped = padded};
    return RN_OK;
}

void region_unmap(struct region *region) {
    if (region->base) munmap(region->base, region->mapped);
    *region = (struct region){0};
}

void region_forget(struct region *region, uint64_t first, uint64_t bytes) {
    assert(first <= region->bytes && bytes <= region->bytes - first);
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE); // the base is on such a boundary
    const uint64_t begin = (first + page - 1) / page * page, end = (first + bytes) / page * page;
    if (begin < end) madvise(region->base + begin, end - begin, MADV_DONTNEED);
}

void region_place(const struct region *region, uint64_t first, uint64_t bytes, uint64_t nodes) {
    if (bytes == 0 || nodes == 0) return;
    assert(first % PAGE_BYTES == 0 && first + bytes <= region->mapped);
    const unsigned long mask = nodes;
    const int mode = nodes & (nodes - 1) ? MPOL_INTERLEAVE : MPOL_PREFERRED;
    syscall(SYS_mbind, region->base + first, bytes, mode, &mask, sizeof mask * CHAR_BIT + 1, 0);
}

void *region_carve(struct region_carver *carver, uint64_t count, uint64_t size) {
    const uint64_t at = carver->used;
    uint64_t bytes;
    if (!ck_mul(count, size, &bytes) || !ck_add(at, bytes, &bytes) ||
        !ck_pad(bytes, CARVE_ALIGN, &bytes)) {
        carver->overflow = true;
        return NULL;
    }
    carver->used = bytes;
    return carver->base ? carver->base + at : NULL;
}
