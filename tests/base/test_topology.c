// The topology of made-up machines: synthetic machines, and hybrid machines that the test writes as
// XML.
#define _GNU_SOURCE 1
#include "check.h"

#include <hwloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/pool.h"
#include "base/topology.h"

static const char none[] = "test_topology.missing"; // no cgroup limit

static struct topology *read_source(struct topology_source source) {
    struct topology *topology;
    if (!source.cgroup_self) source.cgroup_self = none;
    assert_int_equal(topology_create(&source, &topology, NULL), RN_OK);
    return topology;
}

static struct topology *read_synthetic(const char *synthetic, const char *allowed) {
    return read_source((struct topology_source){.synthetic = synthetic, .allowed = allowed});
}

static void check_counts(struct topology *t, int cores, int cpus, int domains, int nodes) {
    check(t->n_cores == cores && t->n_threads == cores && t->n_cpus == cpus &&
              t->n_domains == domains && t->n_nodes == nodes,
          "%d cores, %d threads, %d cpus, %d domains, %d nodes", t->n_cores, t->n_threads,
          t->n_cpus, t->n_domains, t->n_nodes);
    int sum_cores = 0, sum_cpus = 0;
    if (domains == 0) return;
    for (int d = 0; d < t->n_domains; d++) {
        sum_cores += t->domain[d].n_cores;
        sum_cpus += t->domain[d].n_cpus;
        assert_true(t->domain[d].n_cores > 0 && t->domain[d].n_cpus >= t->domain[d].n_cores);
    }
    assert_int_equal(sum_cores, cores);
    assert_int_equal(sum_cpus, cpus);
}

static const char two_packages[] =
    "pack:2 [numa] l3:1(size=33554432) l2:8(size=1048576) l1d:1(size=32768) core:1 pu:2";

CASE(siblings_of_a_core_count_once) {
    struct topology *t = read_synthetic(two_packages, NULL);
    check_counts(t, 16, 32, 2, 2);
    assert_int_equal(t->domain[0].n_cores, 8);
    assert_int_equal(t->domain[1].n_cores, 8);
    for (int cpu = 0; cpu < 32; cpu++) assert_int_equal(topology_domain_of(t, cpu), cpu / 16);
    assert_int_equal(topology_domain_of(t, 32), 0);
    assert_int_equal(topology_domain_of(t, -1), 0);
    topology_destroy(t);
}

CASE(caches_are_those_of_the_cores_in_use) {
    struct topology *t = read_synthetic(two_packages, NULL);
    assert_int_equal(t->core_cache_bytes, 1 << 20);
    assert_int_equal(t->cache_bytes, 32 << 20);
    assert_int_equal(t->cache_bytes_all, 64 << 20);
    topology_destroy(t);
    t = read_synthetic(two_packages, "16-31");
    assert_int_equal(t->cache_bytes_all, 32 << 20);
    topology_destroy(t);
}

CASE(only_allowed_hardware_threads_count) {
    const struct {
        const char *allowed;
        int cores, cpus, domains, nodes;
    } cases[] = {
        {"0-3", 2, 4, 1, 1},     // both siblings of two cores
        {"0,2,4", 3, 3, 1, 1},   // one of each of three
        {"1", 1, 1, 1, 1},       //
        {"15-16", 2, 2, 2, 2},   // the last core of one package, the first of the other
        {"0-1000", 16, 32, 2, 2} // more than there is
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topology *t = read_synthetic(two_packages, cases[i].allowed);
        check_counts(t, cases[i].cores, cases[i].cpus, cases[i].domains, cases[i].nodes);
        topology_destroy(t);
    }
}

CASE(domain_is_a_shared_cache_or_a_memory_node) {
    const struct {
        const char *synthetic;
        int domains, nodes;
    } cases[] = {
        {"pack:1 [numa] l3:4 core:2 pu:1", 4, 1},         // four caches on one node
        {"pack:1 l3:1 group:2 [numa] core:4 pu:1", 2, 2}, // two nodes under one cache
        {"pack:2 [numa] l2:4 core:1 pu:1", 2, 2},         // no cache is shared
        {"pack:2 [numa] core:4 pu:1", 2, 2},              // no cache is known
        {"core:8 pu:1", 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topology *t = read_synthetic(cases[i].synthetic, NULL);
        check_counts(t, 8, 8, cases[i].domains, cases[i].nodes);
        topology_destroy(t);
    }
}

// Two packages of 64 cores with eight caches each, and one of them in four nodes.
CASE(large_machines_have_their_caches_and_nodes) {
    struct topology *t = read_synthetic("pack:2 [numa] l3:8(size=33554432) core:8 pu:2", NULL);
    check_counts(t, 128, 256, 16, 2);
    assert_int_equal(t->cache_bytes_all, 16ull * (32 << 20));
    for (int d = 0; d < 16; d++) {
        assert_int_equal(t->domain[d].n_cores, 8);
        assert_int_equal(t->domain[d].node, d / 8);
    }
    topology_destroy(t);
    t = read_synthetic("pack:1 group:4 [numa] l3:2 core:8 pu:2", NULL);
    check_counts(t, 64, 128, 8, 4);
    for (int d = 0; d < 8; d++) assert_int_equal(t->domain[d].node, d / 2);
    topology_destroy(t);
    // a container with one hardware thread of each of four cores, in the second package
    t = read_synthetic("pack:2 [numa] l3:8 core:8 pu:2", "128,130,132,134");
    check_counts(t, 4, 4, 1, 1);
    assert_int_equal(t->domain[0].node, 1);
    topology_destroy(t);
}

CASE(machine_without_core_objects_has_its_hardware_threads) {
    struct topology *t = read_synthetic("pack:1 pu:4", NULL);
    check_counts(t, 4, 4, 1, 1);
    topology_destroy(t);
}

// ---------------------------------------------------------------- kinds of cores

struct kind {
    const char *cpus, *name, *value;
};

// A synthetic machine, of which the listed hardware threads are kept and get kinds, as XML.
static void xml_write(const char *path, const char *synthetic, const char *kept,
                      const struct kind *kind, int n_kinds) {
    hwloc_topology_t tree;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    assert_int_equal(hwloc_topology_init(&tree), 0);
    assert_int_equal(hwloc_topology_set_synthetic(tree, synthetic), 0);
    assert_int_equal(hwloc_topology_load(tree), 0);
    assert_int_equal(hwloc_bitmap_list_sscanf(set, kept), 0);
    assert_int_equal(hwloc_topology_restrict(tree, set, 0), 0);
    for (int i = 0; i < n_kinds; i++) {
        char name[32], value[32];
        snprintf(name, sizeof name, "%s", kind[i].name);
        snprintf(value, sizeof value, "%s", kind[i].value);
        struct hwloc_info_s info = {.name = name, .value = value};
        assert_int_equal(hwloc_bitmap_list_sscanf(set, kind[i].cpus), 0);
        assert_int_equal(hwloc_cpukinds_register(tree, set, i, 1, &info, 0), 0);
    }
    assert_int_equal(hwloc_topology_export_xml(tree, path, 0), 0);
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(tree);
}

static struct topology *read_kinds(const char *synthetic, const char *kept, const struct kind *kind,
                                   int n_kinds, const char *allowed) {
    char path[] = "test_topology.XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    xml_write(path, synthetic, kept, kind, n_kinds);
    struct topology *t = read_source((struct topology_source){.xml = path, .allowed = allowed});
    unlink(path);
    return t;
}

// Six performance cores with two threads each, eight efficient ones with one.
CASE(performance_cores_count_unless_there_are_none) {
    const char *machine = "pack:1 l3:1 core:14 pu:2";
    const char *kept = "0-12,14,16,18,20,22,24,26";
    const struct kind kinds[] = {{"12,14,16,18,20,22,24,26", "CoreType", "IntelAtom"},
                                 {"0-11", "CoreType", "IntelCore"}};
    struct topology *t = read_kinds(machine, kept, kinds, 2, NULL);
    check_counts(t, 6, 12, 1, 1);
    assert_int_equal(t->domain[0].cpu[0], 0);
    assert_int_equal(t->domain[0].cpu[11], 11);
    topology_destroy(t);
    t = read_kinds(machine, kept, kinds, 2, "10-16");
    check_counts(t, 1, 2, 1, 1);
    topology_destroy(t);
    t = read_kinds(machine, kept, kinds, 2, "12-26");
    check_counts(t, 8, 8, 1, 1);
    topology_destroy(t);
}

CASE(cores_of_little_capacity_are_left_out) {
    const struct kind kinds[] = {{"0-3", "LinuxCapacity", "398"},
                                 {"4-6", "LinuxCapacity", "870"},
                                 {"7", "LinuxCapacity", "1024"}};
    struct topology *t = read_kinds("pack:1 l3:1 core:8 pu:1", "0-7", kinds, 3, NULL);
    check_counts(t, 4, 4, 1, 1);
    topology_destroy(t);
    t = read_kinds("pack:1 l3:1 core:8 pu:1", "0-7", kinds, 3, "0-2");
    check_counts(t, 3, 3, 1, 1);
    topology_destroy(t);
}

CASE(cores_of_another_clock_all_count) {
    const struct kind kinds[] = {{"0-11", "FrequencyMaxMHz", "4800"},
                                 {"12-15", "FrequencyMaxMHz", "5100"}};
    struct topology *t = read_kinds("pack:1 l3:1 core:8 pu:2", "0-15", kinds, 2, NULL);
    check_counts(t, 8, 16, 1, 1);
    topology_destroy(t);
}

// ---------------------------------------------------------------- limits and failures

CASE(quota_bounds_the_threads_and_not_the_cores) {
    char root[] = "test_topology.XXXXXX", self[64], limit[64];
    assert_non_null(mkdtemp(root));
    snprintf(self, sizeof self, "%s/self", root);
    snprintf(limit, sizeof limit, "%s/cpu.max", root);
    FILE *file = fopen(self, "w");
    assert_non_null(file);
    fputs("0::/\n", file);
    fclose(file);
    const struct {
        const char *line;
        int threads;
    } cases[] = {{"250000 100000\n", 3}, {"max 100000\n", 16}, {"9900000 100000\n", 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file = fopen(limit, "w");
        assert_non_null(file);
        fputs(cases[i].line, file);
        fclose(file);
        struct topology *t = read_source((struct topology_source){.synthetic = two_packages,
                                                                  .cgroup_root = root,
                                                                  .cgroup_self = self});
        assert_int_equal(t->n_threads, cases[i].threads);
        assert_int_equal(t->n_cores, 16);
        topology_destroy(t);
    }
    unlink(self);
    unlink(limit);
    rmdir(root);
}

CASE(threads_are_no_more_than_a_pool_may_have) {
    struct topology *t = read_synthetic("pack:2 core:1000 pu:1", NULL);
    assert_int_equal(t->n_cores, 2000);
    assert_int_equal(t->n_threads, POOL_MAX_THREADS);
    topology_destroy(t);
}

static void check_fallback(struct topology *t) {
    const int cores = cores_in_affinity();
    check_counts(t, cores, cores, 0, 0);
    topology_destroy(t);
}

CASE(without_an_answer_the_affinity_mask_counts) {
    check_fallback(read_source((struct topology_source){.xml = none}));
    check_fallback(read_synthetic("nonsense", NULL));
    check_fallback(read_synthetic(two_packages, "no list"));
    check_fallback(read_synthetic(two_packages, "100-200")); // nothing of this machine
}

// hwloc itself obeys these variables; another machine's tree says nothing about this one.
CASE(tree_of_another_machine_is_not_believed) {
    setenv("HWLOC_SYNTHETIC", two_packages, 1);
    struct topology *t = read_source((struct topology_source){0});
    unsetenv("HWLOC_SYNTHETIC");
    check_fallback(t);
}

CASE(this_machine_has_the_hardware_threads_of_the_mask) {
    cpu_set_t mask;
    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    struct topology *t = read_source((struct topology_source){0});
    assert_in_range(t->n_cores, 1, CPU_COUNT(&mask));
    for (int d = 0; d < t->n_domains; d++)
        for (int i = 0; i < t->domain[d].n_cpus; i++)
            assert_true(CPU_ISSET(t->domain[d].cpu[i], &mask));
    assert_in_range(pool_default_threads(), 1, t->n_cores);
    topology_destroy(t);
    topology_destroy(NULL);
}

TEST_PROGRAM(topology) { return cases_run(NULL, NULL); }
