// Available memory: a made-up /proc/meminfo, made-up cgroup trees, and this machine's.
#define _GNU_SOURCE 1
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"
#include "root.h"

static char meminfo[128], statm[128];
static struct memory_source source;

// A machine of 8,000 KiB with 4,000 available, in no cgroup.
static int machine_make(void **state) {
    if (root_begin("test_memory")) return -1;
    snprintf(meminfo, sizeof meminfo, "%s/meminfo", root);
    snprintf(statm, sizeof statm, "%s/statm", root);
    source = (struct memory_source){.meminfo = meminfo,
                                    .cgroup_root = root,
                                    .cgroup_self = self,
                                    .statm = statm,
                                    .address_limit = UINT64_MAX};
    put("meminfo", "MemTotal:        8000 kB\nMemFree:   100 kB\nMemAvailable:    4000 kB\n");
    put("statm", "10 5 1\n");
    put("self", "0::/a/b\n");
    return 0;
}

static void without_limits_the_machine_counts(void **state) {
    assert_int_equal(memory_available_from(&source), 4000 * 1024);
    assert_int_equal(memory_total_from(&source), 8000 * 1024);
}

static void what_cannot_be_read_is_unknown(void **state) {
    source.address_limit = 0; // RLIMIT_AS, which the test's machine may have
    const uint64_t room = memory_address_room_from(&source);
    const char *const texts[] = {"", "MemTotal 5\n", "MemAvailable: many kB\nMemTotal: -1 kB\n",
                                 "XMemAvailable: 5 kB\nMemAvailable:5 kB\nMemTotal:\n",
                                 "MemTotal: 99999999999999999999 kB\n"
                                 "MemAvailable: 18446744073709551615 kB\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put("meminfo", texts[i]);
        check(memory_available_from(&source) == room, "text %zu", i);
        check(memory_total_from(&source) == 0, "text %zu", i);
    }
    source.meminfo = "test_memory.missing";
    assert_int_equal(memory_available_from(&source), room);
}

static void version_2_subtracts_use_and_gives_inactive_files_back(void **state) {
    put("a/b/memory.max", "1000000\n");
    assert_int_equal(memory_available_from(&source), 1000000);
    put("a/b/memory.current", "700000\n");
    assert_int_equal(memory_available_from(&source), 300000);
    put("a/b/memory.stat", "anon 600000\nfile 90000\ninactive_file 50000\nactive_file 40000\n");
    assert_int_equal(memory_available_from(&source), 350000);
    put("a/b/memory.stat", "inactive_file 800000\n"); // figures of different moments
    assert_int_equal(memory_available_from(&source), 1000000);
    assert_int_equal(memory_total_from(&source), 1000000);
}

static void memory_high_counts_like_memory_max(void **state) {
    put("a/b/memory.current", "100000\n");
    put("a/b/memory.max", "max\n");
    put("a/b/memory.high", "max\n");
    assert_int_equal(memory_available_from(&source), 4000 * 1024);
    put("a/b/memory.high", "500000\n");
    assert_int_equal(memory_available_from(&source), 400000);
    put("a/b/memory.max", "300000\n");
    assert_int_equal(memory_available_from(&source), 200000);
}

static void the_tightest_ancestor_counts_with_its_own_use(void **state) {
    put("a/b/memory.max", "1000000\n");
    put("a/b/memory.current", "100000\n");
    put("a/memory.max", "2000000\n");
    put("a/memory.current", "1500000\n");
    assert_int_equal(memory_available_from(&source), 500000);
    assert_int_equal(memory_total_from(&source), 1000000);
    put("memory.max", "90000\n"); // the root: a container's own group
    assert_int_equal(memory_available_from(&source), 90000);
}

static void version_1_is_read(void **state) {
    put("self", "5:cpu:/x\n4:hugetlb,memory:/m/n\n0::/\n");
    put("memory/m/n/memory.limit_in_bytes", "9223372036854771712\n");
    put("memory/m/n/memory.usage_in_bytes", "60000\n");
    assert_int_equal(memory_available_from(&source), 4000 * 1024);
    put("memory/m/memory.limit_in_bytes", "100000\n");
    put("memory/m/memory.usage_in_bytes", "60000\n");
    put("memory/m/memory.stat", "inactive_file 1\ntotal_inactive_file 20000\n");
    assert_int_equal(memory_available_from(&source), 60000);
    assert_int_equal(memory_total_from(&source), 100000);
}

static void a_group_that_is_full_is_not_unknown(void **state) {
    put("a/b/memory.max", "1000\n");
    put("a/b/memory.current", "5000\n");
    assert_int_equal(memory_available_from(&source), 1);
    put("a/b/memory.max", "0\n");
    assert_int_equal(memory_available_from(&source), 1);
}

static void nonsense_in_a_group_is_no_limit(void **state) {
    const char *const lines[] = {"", "\n", "lots\n", "-5\n", "12x\n", "99999999999999999999999\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        put("a/b/memory.max", lines[i]);
        check(memory_available_from(&source) == 4000 * 1024, "line %zu", i);
    }
    put("a/b/memory.max", "500000\n");
    put("a/b/memory.current", "who knows\n");
    assert_int_equal(memory_available_from(&source), 500000);
}

static void the_address_limit_leaves_what_is_not_mapped(void **state) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    source.address_limit = 100 * page;
    assert_int_equal(memory_address_room_from(&source), 90 * page);
    assert_int_equal(memory_available_from(&source), 90 * page);
    source.address_limit = 5 * page;
    assert_int_equal(memory_available_from(&source), 1);
}

static void this_machine_has_some(void **state) {
    const uint64_t available = memory_available(), total = memory_total();
    check(available > 0 && total >= available / 2, "%llu of %llu", (unsigned long long)available,
          (unsigned long long)total);
    struct rlimit saved, less;
    assert_int_equal(getrlimit(RLIMIT_AS, &saved), 0);
    less = saved;
    less.rlim_cur = 1ull << 46; // sanitizers map far more addresses than memory
    if (saved.rlim_cur < less.rlim_cur || setrlimit(RLIMIT_AS, &less)) return;
    const uint64_t room = memory_address_room();
    assert_int_equal(setrlimit(RLIMIT_AS, &saved), 0);
    check(room > 0 && room < less.rlim_cur, "%llu", (unsigned long long)room);
}

#define on_machine(test) cmocka_unit_test_setup_teardown(test, machine_make, root_remove)

TEST_PROGRAM(memory) {
    const struct CMUnitTest tests[] = {
        on_machine(without_limits_the_machine_counts),
        on_machine(what_cannot_be_read_is_unknown),
        on_machine(version_2_subtracts_use_and_gives_inactive_files_back),
        on_machine(memory_high_counts_like_memory_max),
        on_machine(the_tightest_ancestor_counts_with_its_own_use),
        on_machine(version_1_is_read),
        on_machine(a_group_that_is_full_is_not_unknown),
        on_machine(nonsense_in_a_group_is_no_limit),
        on_machine(the_address_limit_leaves_what_is_not_mapped),
        cmocka_unit_test(this_machine_has_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
