// Memory nodes: a stage's weights are near the workers that read them, in whole huge pages and
// without a gap. Wishes for memory reach the system.
#define _GNU_SOURCE 1
#include "check.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "base/topology.h"

enum { HUGE = 2 << 20, GROUP_BYTES = 100 << 10, MAX_RANGES = 16 };

static int64_t group_bytes(int64_t cols) { return cols; }

struct ranges {
    struct {
        const uint8_t *begin, *end;
        int node;
    } range[MAX_RANGES];
    int n;
};

static void note_range(void *ctx, const uint8_t *begin, const uint8_t *end, int node) {
    struct ranges *ranges = ctx;
    assert_true(ranges->n < MAX_RANGES && begin < end);
    assert_int_equal((uintptr_t)begin % HUGE, 0);
    assert_int_equal((uintptr_t)end % HUGE, 0);
    ranges->range[ranges->n].begin = begin;
    ranges->range[ranges->n].end = end;
    ranges->range[ranges->n++].node = node;
}

static bool is_near(const uint8_t *a, const uint8_t *b) {
    return a - b <= HUGE / 2 && b - a <= HUGE / 2;
}

// Two products of 300 and 100 groups, at addresses that are not read.
static void check_place(int n_workers) {
    static const struct matmul_kernel kernel = {.group_bytes = group_bytes};
    static int cpu[4] = {0, 1, 2, 3};
    static struct topology_domain domain[2] = {{2, 2, &cpu[0], 0}, {2, 2, &cpu[2], 1}};
    const struct topology topology = {.n_cores = 4, .n_domains = 2, .domain = domain};
    uint8_t *const at = (uint8_t *)((uintptr_t)HUGE * 1000);
    struct cpu_matmul matmul[2] = {{.kernel = &kernel, .group_first = 0, .group_end = 300},
                                   {.kernel = &kernel, .group_first = 300, .group_end = 400}};
    for (int i = 0; i < 2; i++) matmul[i].args.cols = GROUP_BYTES;
    matmul[0].args.w = at;
    matmul[1].args.w = at + 300 * GROUP_BYTES;
    const struct cpu_stage stage = {
        .n = 2, .matmul = matmul, .n_groups = 400, .group_chunk = 2, .n_workers = n_workers};
    struct ranges ranges = {.n = 0};
    struct pool *pool;
    assert_int_equal(pool_create(4, &pool, NULL), RN_OK);
    pool_nodes_set(pool, &topology);
    pool_bind(pool, &topology);
    cpu_place_stage(pool, &stage, note_range, &ranges);
    // neighbours, from the first group to the last
    for (int i = 1; i < ranges.n; i++)
        assert_ptr_equal(ranges.range[i].begin, ranges.range[i - 1].end);
    assert_ptr_equal(ranges.range[0].begin, at);
    assert_true(is_near(ranges.range[ranges.n - 1].end, at + 400 * GROUP_BYTES));
    if (n_workers == 4) {
        assert_int_equal(ranges.n, 3);
        for (int i = 0; i < 3; i++)
            assert_int_equal(ranges.range[i].node, pool_node(pool, i == 0 ? 0 : 3));
        assert_true(pool_node(pool, 0) != pool_node(pool, 3));
        assert_true(is_near(ranges.range[0].end, at + 200 * GROUP_BYTES));
    } else { // two workers are on the caller's node, and read both products
        assert_int_equal(ranges.n, 2);
        for (int i = 0; i < 2; i++) assert_int_equal(ranges.range[i].node, pool_node(pool, 0));
    }
    pool_destroy(pool);
}

CASE(weights_are_near_the_workers_that_read_them) {
    check_place(4);
    check_place(2);
}

static bool mode_of(const void *at, int *mode) {
    return syscall(SYS_get_mempolicy, mode, NULL, 0, at, MPOL_F_ADDR) == 0;
}

CASE(wishes_reach_the_system) {
    struct region region;
    int mode = -1;
    assert_int_equal(region_map(3 * HUGE, true, "a test", &region, NULL), RN_OK);
    region_place(&region, 0, region.mapped, 0); // no node is known
    if (mode_of(region.base, &mode)) {
        assert_int_equal(mode, MPOL_DEFAULT);
        const unsigned long one = 1;
        const bool may =
            syscall(SYS_mbind, region.base + 2 * HUGE, HUGE, MPOL_PREFERRED, &one, 65, 0) == 0;
        region_place(&region, HUGE, HUGE, 1);
        assert_true(mode_of(region.base + HUGE, &mode));
        assert_int_equal(mode, may ? MPOL_PREFERRED : MPOL_DEFAULT);
        assert_true(mode_of(region.base, &mode));
        assert_int_equal(mode, MPOL_DEFAULT);
    }
    region.base[HUGE] = 1; // it can be used in any case
    region_unmap(&region);
}

TEST_PROGRAM(place) { return cases_run(NULL, NULL); }
