// The machine's read bandwidth B, which the efficiency of a step is measured against. Shared
// machines give memory in short bursts that no step could live on, so B is the best *sustained*
// rate. Threads (all; on small machines one, too) and prefetch distances make configurations. Their
// passes are interleaved over the whole budget. A configuration's rate is its median pass, or its
// mean where that is more. All read vectors on huge pages. Page faults are part of the budget, not
// of a pass. Packed weights that are large enough are read in place. A working set that a cache may
// hold is measured in a buffer of its size.
#define _GNU_SOURCE 1
#include "backend/cpu/bandwidth.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "base/clock.h"

enum {
    CHUNK_BYTES = 16 << 10,   // buffers are whole chunks
    TAKE_CHUNKS = 16,         // that a thread takes at a time
    TOUCH_BYTES = 2 << 20,    // a huge page
    TOUCH_STEP = 4,           // huge pages per thread between looks at the clock
    PASS_BYTES = 32 << 20,    // of a pass, at least: long beside its start, short beside the budget
    THREAD_BYTES = 16 << 20,  // of a pass for each thread, at least
    MEMORY_BYTES = 256 << 20, // least buffer for main memory
    FEW_THREADS = 4,
    MAX_PASSES = 128, // of a configuration that are looked at, the last ones
};

// ---------------------------------------------------------------- folding

struct passes {
    uint64_t ns[MAX_PASSES];
    uint64_t n, total_ns;
};

static int compare_ns(const void *a, const void *b) {
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

// The time of a pass that stands for all: the median, or the mean where that is less. Sorts them.
static double passes_fold(struct passes *p) {
    const size_t n = p->n < MAX_PASSES ? (size_t)p->n : MAX_PASSES;
    qsort(p->ns, n, sizeof *p->ns, compare_ns);
    const double median = ((double)p->ns[(n - 1) / 2] + (double)p->ns[n / 2]) / 2;
    const double mean = (double)p->total_ns / (double)p->n;
    return mean < median ? mean : median;
}

double bandwidth_sustained(bandwidth_pass_fn pass, void *ctx, int n_configs, uint64_t pass_bytes,
                           uint64_t budget_ns) {
    assert(n_configs > 0 && n_configs <= BANDWIDTH_MAX_CONFIGS);
    struct passes passes[BANDWIDTH_MAX_CONFIGS];
    for (int c = 0; c < n_configs; c++) passes[c].n = passes[c].total_ns = 0;
    uint64_t spent = 0, longest = 0;
    for (int64_t i = 0; i == 0 || spent + longest <= budget_ns; i++) {
        // Each round begins with another configuration, so that none keeps step with a neighbour's
        // load.
        const int c = (int)((i + i / n_configs) % n_configs);
        const uint64_t took = pass(ctx, c), ns = took ? took : 1;
        passes[c].ns[passes[c].n++ % MAX_PASSES] = ns;
        passes[c].total_ns += ns;
        spent += ns;
        if (ns > longest) longest = ns;
    }
    double best = 0;
    for (int c = 0; c < n_configs; c++) {
        const double rate = passes[c].n ? (double)pass_bytes * 1e9 / passes_fold(&passes[c]) : 0;
        if (rate > best) best = rate;
    }
    return best;
}

// ---------------------------------------------------------------- reading

// Few: the best of many medians would be the luckiest one.
static const int64_t distances[] = {0, 4096, 1024};
enum { N_DISTANCES = sizeof distances / sizeof *distances };
_Static_assert(2 * N_DISTANCES <= BANDWIDTH_MAX_CONFIGS, "with one thread, too");

struct reading {
    const struct cpu_ops *ops;
    struct pool *pool;
    uint8_t *data;
    int64_t n_chunks; // of the buffer, which is read round and round
    int64_t n_pass;   // chunks of a pass
    int64_t first;    // chunk that the pass begins with
    int64_t ahead;
    _Atomic uint64_t sink; // keeps the reads alive
};

static void read_chunks(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    struct reading *r = ctx;
    uint64_t sum = 0;
    while (begin < end) {
        const int64_t at = (r->first + begin) % r->n_chunks, there = r->n_chunks - at;
        const int64_t n = end - begin < there ? end - begin : there;
        sum ^= r->ops->stream_read(r->data + at * CHUNK_BYTES, n * CHUNK_BYTES, r->ahead);
        begin += n;
    }
    atomic_fetch_xor_explicit(&r->sink, sum, memory_order_relaxed);
}

// A pass continues where the last one stopped, so in a large buffer it finds nothing in the cache.
static uint64_t read_pass(void *ctx, int config) {
    struct reading *r = ctx;
    // On a small machine one thread may saturate the memory, and better without company.
    const bool alone = config >= N_DISTANCES;
    r->ahead = distances[config % N_DISTANCES];
    const uint64_t start = clock_ns();
    pool_run(r->pool, read_chunks, r, r->n_pass, alone ? r->n_pass : TAKE_CHUNKS);
    const uint64_t took = clock_ns() - start;
    r->first = (r->first + r->n_pass) % r->n_chunks;
    return took;
}

static double read_buffer(struct cpu_backend *b, uint8_t *data, uint64_t bytes, uint64_t deadline) {
    const int n_threads = pool_size(b->pool);
    const int64_t of_threads = (int64_t)THREAD_BYTES * n_threads;
    struct reading reading = {.ops = b->ops,
                              .pool = b->pool,
                              .data = data,
                              .n_chunks = (int64_t)(bytes / CHUNK_BYTES),
                              .n_pass = (of_threads > PASS_BYTES ? of_threads : PASS_BYTES) /
                                        CHUNK_BYTES};
    const uint64_t now = clock_ns();
    assert(reading.n_chunks > 0);
    const bool few = n_threads > 1 && n_threads <= FEW_THREADS;
    return bandwidth_sustained(read_pass, &reading, few ? 2 * N_DISTANCES : N_DISTANCES,
                               (uint64_t)reading.n_pass * CHUNK_BYTES,
                               deadline > now ? deadline - now : 0);
}

// ---------------------------------------------------------------- buffers

static void touch_pages(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    memset((uint8_t *)ctx + begin * TOUCH_BYTES, 1, (size_t)(end - begin) * TOUCH_BYTES);
}

// Faults the buffer in until the deadline, and `least` bytes of it in any case: a busy system, or
// one without huge pages, may need longer. Returns the bytes that are there, whole huge pages.
static uint64_t touch(struct pool *pool, struct region *region, uint64_t least, uint64_t deadline) {
    const int64_t n = (int64_t)(region->bytes / TOUCH_BYTES), step = TOUCH_STEP * pool_size(pool);
    int64_t done = 0;
    while (done < n && ((uint64_t)done * TOUCH_BYTES < least || clock_ns() < deadline)) {
        const int64_t part = n - done < step ? n - done : step;
        pool_run(pool, touch_pages, region->base + done * TOUCH_BYTES, part, 1);
        done += part;
    }
    return (uint64_t)done * TOUCH_BYTES;
}

// Bytes that the system could give. File cache that it would give up is included where the system
// reports it: after a large model was loaded, little else is left.
static uint64_t memory_available(void) {
    unsigned long long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
    if (file) fclose(file);
    if (kib) return (uint64_t)kib << 10;
    const long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
}

// Of a buffer for main memory.
static uint64_t memory_bytes(const struct cpu_backend *b) {
    const uint64_t wanted = 4 * b->cache_bytes_all, most = memory_available() / 2;
    const uint64_t bytes = wanted > MEMORY_BYTES ? wanted : MEMORY_BYTES;
    return (bytes < most ? bytes : most) / TOUCH_BYTES * TOUCH_BYTES;
}

// In a buffer of its own: of the working set's size, which caches may hold in part, or where that
// is larger, far larger than the caches. If the system is late with the pages, the present ones are
// enough as long as the caches do not hold them. Reading still gets half of the budget.
static double read_mapped(struct cpu_backend *b, uint64_t working_set, uint64_t start,
                          uint64_t budget) {
    const uint64_t large = memory_bytes(b), beyond = 2 * b->cache_bytes_all + TOUCH_BYTES;
    const uint64_t wanted =
        working_set < large ? (working_set / CHUNK_BYTES + 1) * CHUNK_BYTES : large;
    struct region region;
    if (working_set >= large && large < beyond) return 0; // it would be the caches' bandwidth
    if (region_map((wanted / TOUCH_BYTES + 1) * TOUCH_BYTES, true, "the bandwidth test", &region,
                   NULL))
        return 0;
    const uint64_t least = wanted < beyond ? wanted : beyond;
    const uint64_t there = touch(b->pool, &region, least, start + budget / 2);
    assert(there >= least);
    const uint64_t end = start + budget, half = clock_ns() + budget / 2;
    const double rate =
        read_buffer(b, region.base, there < wanted ? there : wanted, end > half ? end : half);
    region_unmap(&region);
    return rate;
}

double cpu_bandwidth(struct backend *backend, uint64_t working_set, int budget_ms) {
    struct cpu_backend *b = (struct cpu_backend *)backend;
    const uint64_t start = clock_ns(), budget = (uint64_t)budget_ms * 1000000u;
    if (budget_ms <= 0) return 0;
    // Large weights are a present buffer: no time is spent on page faults.
    if (working_set > b->cache_bytes && b->packed.bytes >= 4 * b->cache_bytes_all &&
        b->packed.bytes >= MEMORY_BYTES)
        return read_buffer(b, b->packed.base, b->packed.bytes, start + budget);
    return read_mapped(b, working_set, start, budget);
}
