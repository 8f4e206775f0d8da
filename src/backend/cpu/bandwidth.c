// The machine's read bandwidth, which the efficiency of a step is measured against: all threads
// (on small machines one thread, too) read a buffer on huge pages through prefetching vector loads,
// for several prefetch distances, and the best pass within the budget counts. Page faults are part
// of the budget, not of a pass; packed weights that are large enough are read in place.
#define _GNU_SOURCE 1
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "base/clock.h"

enum {
    CHUNK_BYTES = 256 << 10,  // what a thread takes at a time
    SMALL_CHUNK = 16 << 10,   // of a buffer that fits the cache
    TOUCH_BYTES = 2 << 20,    // a huge page
    TOUCH_STEP = 4,           // huge pages per thread between looks at the clock
    PASS_BYTES = 64 << 20,    // of a timed pass: long beside its start, short beside the budget
    MEMORY_BYTES = 256 << 20, // least buffer for main memory
    FEW_THREADS = 4,
};

static const int64_t distances[] = {0, 8192, 4096, 2048, 1024, 512};
enum { N_DISTANCES = sizeof distances / sizeof *distances };

struct reading {
    const struct cpu_ops *ops;
    uint8_t *data;
    int64_t chunk, n_chunks; // of the buffer, which is read round and round
    int64_t first;           // chunk that the pass begins with
    int64_t ahead;
    _Atomic uint64_t sink; // keeps the reads alive
};

static void read_chunks(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    struct reading *r = ctx;
    uint64_t sum = 0;
    for (int64_t i = begin; i < end; i++)
        sum ^= r->ops->stream_read(r->data + (r->first + i) % r->n_chunks * r->chunk, r->chunk,
                                   r->ahead);
    atomic_fetch_xor_explicit(&r->sink, sum, memory_order_relaxed);
}

static void touch_pages(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    memset((uint8_t *)ctx + begin * TOUCH_BYTES, 1, (size_t)(end - begin) * TOUCH_BYTES);
}

// Faults the buffer in until the deadline; returns the bytes that are there, whole huge pages.
static uint64_t touch(struct pool *pool, struct region *region, uint64_t deadline) {
    const int64_t n = (int64_t)(region->bytes / TOUCH_BYTES), step = TOUCH_STEP * pool_size(pool);
    int64_t done = 0;
    while (done < n && clock_ns() < deadline) {
        const int64_t part = n - done < step ? n - done : step;
        pool_run(pool, touch_pages, region->base + done * TOUCH_BYTES, part, 1);
        done += part;
    }
    return (uint64_t)done * TOUCH_BYTES;
}

// A pass goes on where the last one stopped, so in a large buffer it finds nothing in the cache.
static double sweep(struct pool *pool, struct reading *r, uint64_t deadline) {
    const int64_t n_items = PASS_BYTES / r->chunk, per_take = CHUNK_BYTES / r->chunk;
    double best = 0;
    uint64_t now = clock_ns(), longest = 0;
    for (int i = 0; now + longest < deadline || i == 0; i++) {
        // On a small machine one thread may saturate the memory, and better without company.
        const bool alone = pool_size(pool) <= FEW_THREADS && i / N_DISTANCES % 2 == 1;
        r->ahead = distances[i % N_DISTANCES];
        pool_run(pool, read_chunks, r, n_items, alone ? n_items : per_take);
        const uint64_t end = clock_ns(), took = end - now;
        const double speed = (double)(n_items * r->chunk) * 1e9 / (double)(took ? took : 1);
        if (speed > best) best = speed;
        if (took > longest) longest = took;
        r->first = (r->first + n_items) % r->n_chunks;
        now = end;
    }
    return best;
}

static uint64_t memory_bytes(const struct cpu_backend *b) {
    const uint64_t wanted = 4 * b->cache_bytes_all;
    const long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = wanted > MEMORY_BYTES ? wanted : MEMORY_BYTES;
    if (pages > 0 && page > 0 && bytes > (uint64_t)pages * (uint64_t)page / 2)
        bytes = (uint64_t)pages * (uint64_t)page / 2;
    return bytes / TOUCH_BYTES * TOUCH_BYTES;
}

static double sweep_bytes(struct cpu_backend *b, uint8_t *data, uint64_t bytes, int64_t chunk,
                          uint64_t deadline) {
    struct reading reading = {.ops = b->ops,
                              .data = data,
                              .chunk = chunk,
                              .n_chunks = (int64_t)bytes / chunk};
    return reading.n_chunks > 0 ? sweep(b->pool, &reading, deadline) : 0;
}

// In a buffer of its own: one of the working set's size, which may still be in the cache in part,
// and where the system gives the pages in time also one that is far larger than the caches.
static double sweep_mapped(struct cpu_backend *b, uint64_t working_set, uint64_t start,
                           uint64_t budget) {
    const bool cached = working_set <= b->cache_bytes;
    const uint64_t small = working_set / SMALL_CHUNK * SMALL_CHUNK + SMALL_CHUNK;
    const uint64_t large = cached ? 0 : memory_bytes(b);
    const uint64_t wanted = ((small > large ? small : large) / TOUCH_BYTES + 1) * TOUCH_BYTES;
    struct region region;
    if (region_map(wanted, true, "the bandwidth test", &region, NULL)) return 0;
    double best = 0;
    const uint64_t there = touch(b->pool, &region, start + budget / 2);
    if (there >= small) {
        const uint64_t deadline = cached ? start + budget : clock_ns() + budget / 8;
        best = sweep_bytes(b, region.base, small, SMALL_CHUNK, deadline);
    }
    if (!cached && there >= 2 * b->cache_bytes_all) {
        const double memory = sweep_bytes(b, region.base, there, CHUNK_BYTES, start + budget);
        if (memory > best) best = memory;
    }
    region_unmap(&region);
    return best;
}

double cpu_bandwidth(struct backend *backend, uint64_t working_set, int budget_ms) {
    struct cpu_backend *b = (struct cpu_backend *)backend;
    const uint64_t start = clock_ns(), budget = (uint64_t)budget_ms * 1000000u;
    if (budget_ms <= 0) return 0;
    // Large weights are a buffer that is there already: no time goes into page faults.
    if (working_set > b->cache_bytes && b->packed.bytes >= 4 * b->cache_bytes_all &&
        b->packed.bytes >= MEMORY_BYTES)
        return sweep_bytes(b, b->packed.base, b->packed.bytes, CHUNK_BYTES, start + budget);
    return sweep_mapped(b, working_set, start, budget);
}

// ---------------------------------------------------------------- cache sizes

// First line of a file of /sys/devices/system/cpu/cpuN/cache/indexM; false: there is none.
static bool cache_read(int cpu, int index, const char *name, char *line, int size) {
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, name);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const bool ok = fgets(line, size, file) != NULL;
    fclose(file);
    return ok;
}

// The largest level of a core: its size, and the first core that shares it.
static uint64_t cache_last(int cpu, int *owner) {
    char line[256];
    uint64_t bytes = 0;
    long top = 0;
    for (int index = 0; cache_read(cpu, index, "level", line, sizeof line); index++) {
        const long level = strtol(line, NULL, 10);
        if (level <= top || !cache_read(cpu, index, "size", line, sizeof line)) continue;
        char *unit;
        const uint64_t n = strtoull(line, &unit, 10);
        if (n == 0) continue;
        top = level;
        bytes = n << (*unit == 'M' ? 20 : *unit == 'K' ? 10 : 0);
        *owner = cpu;
        if (cache_read(cpu, index, "shared_cpu_list", line, sizeof line))
            *owner = (int)strtol(line, NULL, 10);
    }
    return bytes;
}

void cpu_cache_find(uint64_t *one, uint64_t *all) {
    *one = *all = 0;
    const long n_cpus = sysconf(_SC_NPROCESSORS_CONF);
    for (int cpu = 0; cpu < n_cpus; cpu++) {
        int owner = cpu;
        const uint64_t bytes = cache_last(cpu, &owner);
        if (bytes > *one) *one = bytes;
        if (owner == cpu) *all += bytes;
    }
    if (*one) return;
    const long level3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    *one = *all = level3 > 0 ? (uint64_t)level3 : 0;
}
