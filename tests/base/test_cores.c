// Usable cores: affinity, and the quota of made-up cgroup trees.
#define _GNU_SOURCE 1
#include "check.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/pool.h"
#include "root.h"

static int root_make(void **state) { return root_begin("test_cores"); }

CASE(no_list_or_no_files_mean_no_limit) {
    assert_int_equal(cores_in_quota(root, "test_cores.missing"), 0);
    put("self", "0::/a/b\n3:cpu:/x\nnonsense\n\n");
    assert_int_equal(cores_in_quota(root, self), 0);
}

CASE(version_2_is_rounded_up) {
    put("self", "0::/a/b\n");
    put("a/b/cpu.max", "max 100000\n");
    assert_int_equal(cores_in_quota(root, self), 0);
    put("a/b/cpu.max", "250000 100000\n");
    assert_int_equal(cores_in_quota(root, self), 3);
    put("a/b/cpu.max", "1000 100000\n");
    assert_int_equal(cores_in_quota(root, self), 1);
    put("a/b/cpu.max", "400000 100000\n");
    assert_int_equal(cores_in_quota(root, self), 4);
}

CASE(limit_of_an_ancestor_holds) {
    put("self", "0::/a/b\n");
    put("a/b/cpu.max", "400000 100000\n");
    put("a/cpu.max", "200000 100000\n");
    assert_int_equal(cores_in_quota(root, self), 2);
    put("cpu.max", "50000 100000\n");
    assert_int_equal(cores_in_quota(root, self), 1);
}

CASE(version_1_is_read) {
    put("self", "5:memory:/m\n4:cpuset:/z\n3:cpuacct,cpu:/x/y\n");
    put("cpu/x/y/cpu.cfs_quota_us", "-1\n");
    put("cpu/x/y/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cores_in_quota(root, self), 0);
    put("cpu/x/y/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(cores_in_quota(root, self), 2);
}

CASE(nonsense_is_no_limit) {
    const char *const lines[] = {"", "abc\n", "0 100000\n", "-5 100000\n", "100 0\n", "100\n"};
    put("self", "0::/n\n");
    put("cpu.max", "max 100000\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        put("n/cpu.max", lines[i]);
        assert_int_equal(cores_in_quota(root, self), 0);
    }
    put("n/cpu.max", "9223372036854775807 1\n");
    assert_true(cores_in_quota(root, self) >= 65536);
}

CASE(default_follows_the_affinity_mask) {
    cpu_set_t saved, one;
    assert_int_equal(sched_getaffinity(0, sizeof saved, &saved), 0);
    assert_int_equal(cores_in_affinity(), CPU_COUNT(&saved));
    assert_in_range(pool_default_threads(), 1, CPU_COUNT(&saved));
    int first = 0;
    while (!CPU_ISSET(first, &saved)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cores_in_affinity(), 1);
    assert_int_equal(pool_default_threads(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof saved, &saved), 0);
}

TEST_PROGRAM(cores) { return cases_run(root_make, root_remove); }
