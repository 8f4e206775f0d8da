// Usable cores: affinity, and the quota of made-up cgroup trees.
#define _GNU_SOURCE 1
#include "check.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/pool.h"
#include "root.h"

static int root_make(void **state) { return root_begin("test_cores"); }

static void no_list_or_no_files_mean_no_limit(void **state) {
    assert_int_equal(cores_in_quota(root, "test_cores.missing"), 0);
    put("self", "0::/a/b\n3:cpu:/x\nnonsense\n\n");
    assert_int_equal(cores_in_quota(root, self), 0);
}

static void version_2_is_rounded_up(void **state) {
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

static void limit_of_an_ancestor_holds(void **state) {
    put("self", "0::/a/b\n");
    put("a/b/cpu.max", "400000 100000\n");
    put("a/cpu.max", "200000 100000\n");
    assert_int_equal(cores_in_quota(root, self), 2);
    put("cpu.max", "50000 100000\n");
    assert_int_equal(cores_in_quota(root, self), 1);
}

static void version_1_is_read(void **state) {
    put("self", "5:memory:/m\n4:cpuset:/z\n3:cpuacct,cpu:/x/y\n");
    put("cpu/x/y/cpu.cfs_quota_us", "-1\n");
    put("cpu/x/y/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cores_in_quota(root, self), 0);
    put("cpu/x/y/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(cores_in_quota(root, self), 2);
}

static void nonsense_is_no_limit(void **state) {
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

static void default_follows_the_affinity_mask(void **state) {
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

TEST_PROGRAM(cores) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_list_or_no_files_mean_no_limit),
        cmocka_unit_test(version_2_is_rounded_up),
        cmocka_unit_test(limit_of_an_ancestor_holds),
        cmocka_unit_test(version_1_is_read),
        cmocka_unit_test(nonsense_is_no_limit),
        cmocka_unit_test(default_follows_the_affinity_mask),
    };
    return cmocka_run_group_tests(tests, root_make, root_remove);
}
