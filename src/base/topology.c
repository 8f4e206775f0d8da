// Reads hwloc's tree once and keeps the few numbers that the pool and the backend ask for. The
// order of cores is the tree's: neighbours share caches. RUNNEL_HWLOC is defined wherever hwloc is
// linked; a build for another architecture may have only libc, and then does the same as after a
// failure of hwloc.
#define _GNU_SOURCE 1
#include "base/topology.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/cores.h"
#include "base/pool.h"

#ifdef RUNNEL_HWLOC
#include <hwloc.h>

// ---------------------------------------------------------------- which cores

// A LITTLE core's capacity is below half of a big one's; a core that only clocks lower is above.
enum { LITTLE_DIVISOR = 2 };

struct kind {
    hwloc_bitmap_t cpus;
    bool is_efficient; // by name
    long capacity;     // 0: unknown
};

static const char *info_find(const struct hwloc_info_s *info, unsigned n, const char *name) {
    for (unsigned i = 0; i < n; i++)
        if (strcmp(info[i].name, name) == 0) return info[i].value;
    return "";
}

static bool kind_read(hwloc_topology_t tree, unsigned index, struct kind *kind) {
    struct hwloc_info_s *info;
    unsigned n_info;
    if (hwloc_cpukinds_get_info(tree, index, kind->cpus, NULL, &n_info, &info, 0)) return false;
    kind->is_efficient = strcmp(info_find(info, n_info, "CoreType"), "IntelAtom") == 0;
    kind->capacity = strtol(info_find(info, n_info, "LinuxCapacity"), NULL, 10);
    return true;
}

// On a hybrid CPU takes the efficient cores out of cpus, unless only those may be used. Threads of
// one step wait for each other. An efficient core beside a performance core would do a small part
// of the work, but take a full part of the power and of the memory queues. At the end of a run the
// others would wait for its share. Peers count performance cores, too. Kinds that differ in their
// clock only (favoured cores, compact ones) all count: stealing evens them out.
static void efficient_remove(hwloc_topology_t tree, hwloc_bitmap_t cpus) {
    const int n_kinds = hwloc_cpukinds_get_nr(tree, 0);
    struct kind kind = {.cpus = hwloc_bitmap_alloc()};
    hwloc_bitmap_t rest = hwloc_bitmap_dup(cpus);
    bool has_performance = false;
    long capacity = 0;
    for (int i = 0; i < n_kinds && kind.cpus && rest; i++) {
        if (!kind_read(tree, (unsigned)i, &kind) || !hwloc_bitmap_intersects(kind.cpus, cpus))
            continue;
        has_performance |= !kind.is_efficient;
        if (kind.capacity > capacity) capacity = kind.capacity;
    }
    for (int i = 0; i < n_kinds && kind.cpus && rest; i++) {
        if (!kind_read(tree, (unsigned)i, &kind)) continue;
        const bool is_little = kind.capacity > 0 && kind.capacity < capacity / LITTLE_DIVISOR;
        if ((kind.is_efficient && has_performance) || is_little)
            hwloc_bitmap_andnot(rest, rest, kind.cpus);
    }
    if (rest && !hwloc_bitmap_iszero(rest)) hwloc_bitmap_copy(cpus, rest);
    hwloc_bitmap_free(rest);
    hwloc_bitmap_free(kind.cpus);
}

// The hardware threads to compute on: NULL when they cannot be found out.
static hwloc_bitmap_t cpus_find(hwloc_topology_t tree, const char *allowed) {
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    if (!cpus) return NULL;
    const int code = allowed ? hwloc_bitmap_list_sscanf(cpus, allowed)
                             : hwloc_get_cpubind(tree, cpus, HWLOC_CPUBIND_THREAD);
    if (code >= 0) hwloc_bitmap_and(cpus, cpus, hwloc_topology_get_allowed_cpuset(tree));
    if (code < 0 || hwloc_bitmap_iszero(cpus)) {
        hwloc_bitmap_free(cpus);
        return NULL;
    }
    efficient_remove(tree, cpus);
    return cpus;
}

// ---------------------------------------------------------------- what they share

static uint64_t cache_bytes_of(hwloc_obj_t cache) { return cache ? cache->attr->cache.size : 0; }

static hwloc_obj_t cache_last(hwloc_obj_t core) {
    hwloc_obj_t last = NULL;
    for (hwloc_obj_t obj = core; obj; obj = obj->parent)
        if (hwloc_obj_type_is_dcache(obj->type)) last = obj;
    return last;
}

static hwloc_obj_t domain_find(hwloc_topology_t tree, hwloc_obj_t core, int core_depth) {
    const hwloc_obj_t last = cache_last(core);
    for (hwloc_obj_t obj = core->parent; obj; obj = obj->parent) {
        const bool is_shared =
            obj == last &&
            hwloc_get_nbobjs_inside_cpuset_by_depth(tree, obj->cpuset, core_depth) > 1;
        if (is_shared || obj->memory_arity > 0) return obj;
    }
    return hwloc_get_root_obj(tree);
}

static uint64_t core_cache_find(hwloc_topology_t tree, hwloc_obj_t core, int core_depth) {
    uint64_t bytes = 0;
    for (hwloc_obj_t obj = core; obj; obj = obj->parent) {
        if (hwloc_get_nbobjs_inside_cpuset_by_depth(tree, obj->cpuset, core_depth) > 1) break;
        if (hwloc_obj_type_is_dcache(obj->type)) bytes = cache_bytes_of(obj);
    }
    return bytes;
}

// ---------------------------------------------------------------- the tree

struct reading {
    hwloc_topology_t tree;
    hwloc_bitmap_t cpus;
    int core_depth;
    struct topology *out;
};

// Adds the core to the last domain, or to a new one.
static void core_add(const struct reading *r, hwloc_obj_t core, bool is_new) {
    struct topology *t = r->out;
    if (is_new) {
        t->domain[t->n_domains].cpu = t->cpu + t->n_cpus;
        t->domain[t->n_domains++].node = core->nodeset ? hwloc_bitmap_first(core->nodeset) : -1;
    }
    struct topology_domain *domain = &t->domain[t->n_domains - 1];
    for (int cpu = -1; (cpu = hwloc_bitmap_next(core->cpuset, cpu)) >= 0;) {
        if (!hwloc_bitmap_isset(r->cpus, (unsigned)cpu)) continue;
        domain->cpu[domain->n_cpus++] = cpu;
        t->n_cpus++;
    }
    domain->n_cores++;
    t->n_cores++;
}

// Cores of one domain or cache are neighbours in the tree's order, so a new one begins where the
// object changes.
static void cores_read(const struct reading *r) {
    struct topology *t = r->out;
    hwloc_obj_t core = NULL, domain = NULL, cache = NULL;
    while ((core = hwloc_get_next_obj_by_depth(r->tree, r->core_depth, core))) {
        if (!hwloc_bitmap_intersects(core->cpuset, r->cpus)) continue;
        const hwloc_obj_t core_domain = domain_find(r->tree, core, r->core_depth);
        const hwloc_obj_t core_cache = cache_last(core);
        const uint64_t own_bytes = core_cache_find(r->tree, core, r->core_depth);
        core_add(r, core, core_domain != domain);
        if (core_cache != cache) t->cache_bytes_all += cache_bytes_of(core_cache);
        if (cache_bytes_of(core_cache) > t->cache_bytes)
            t->cache_bytes = cache_bytes_of(core_cache);
        if (own_bytes > t->core_cache_bytes) t->core_cache_bytes = own_bytes;
        domain = core_domain;
        cache = core_cache;
    }
}

static int nodes_count(const struct reading *r) {
    hwloc_obj_t node = NULL;
    int n = 0;
    while ((node = hwloc_get_next_obj_by_type(r->tree, HWLOC_OBJ_NUMANODE, node)))
        n += hwloc_bitmap_intersects(node->cpuset, r->cpus);
    return n;
}

// Cores where hwloc knows them, else hardware threads.
static rn_status tree_read(struct reading *r, rn_error *err) {
    struct topology *t = r->out;
    r->core_depth = hwloc_get_type_or_below_depth(r->tree, HWLOC_OBJ_CORE);
    const unsigned n_max = hwloc_get_nbobjs_by_depth(r->tree, r->core_depth);
    t->domain = calloc(n_max + 1, sizeof *t->domain);
    t->cpu = calloc((size_t)hwloc_bitmap_weight(r->cpus) + 1, sizeof *t->cpu);
    if (!t->domain || !t->cpu) return err_set(err, RN_ERR_NOMEM, "topology: out of memory");
    cores_read(r);
    t->n_nodes = nodes_count(r);
    return RN_OK;
}

// Where it finds none of these, hwloc's reader of /sys writes to standard error and gives up.
static bool sysfs_is_there(void) {
    static const char *const names[] = {"package_cpus", "core_cpus", "core_siblings",
                                        "thread_siblings"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[96];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/topology/%s", names[i]);
        if (access(path, R_OK) == 0) return true;
    }
    return false;
}

// Without /sys the processor itself is asked, which is what hwloc does next.
static bool sysfs_spare(hwloc_topology_t tree) {
    return sysfs_is_there() ||
           hwloc_topology_set_components(tree, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "linux") ==
               0;
}

// An answer about another machine (hwloc's own environment variables can ask for one) is none.
static bool tree_load(const struct topology_source *source, hwloc_topology_t *out) {
    const bool is_given = source->xml || source->synthetic;
    hwloc_topology_t tree;
    if (hwloc_topology_init(&tree)) return false;
    const bool is_set =
        (is_given || sysfs_spare(tree)) &&
        (!source->xml || hwloc_topology_set_xml(tree, source->xml) == 0) &&
        (!source->synthetic || hwloc_topology_set_synthetic(tree, source->synthetic) == 0);
    if (is_set && hwloc_topology_load(tree) == 0 &&
        (is_given || hwloc_topology_is_thissystem(tree))) {
        *out = tree;
        return true;
    }
    hwloc_topology_destroy(tree);
    return false;
}

static rn_status source_read(const struct topology_source *source, struct topology *out,
                             rn_error *err) {
    struct reading r = {.out = out};
    rn_status status = RN_OK;
    if (!tree_load(source, &r.tree)) return RN_OK;
    r.cpus = cpus_find(r.tree, source->allowed);
    if (r.cpus) status = tree_read(&r, err);
    hwloc_bitmap_free(r.cpus);
    hwloc_topology_destroy(r.tree);
    return status;
}

#else

static rn_status source_read(const struct topology_source *source, struct topology *out,
                             rn_error *err) {
    (void)source;
    (void)out;
    (void)err;
    return RN_OK;
}

#endif

// ---------------------------------------------------------------- create, destroy

rn_status topology_create(const struct topology_source *source, struct topology **out,
                          rn_error *err) {
    static const struct topology_source here = {0};
    if (!source) source = &here;
    *out = NULL;
    struct topology *t = calloc(1, sizeof *t);
    if (!t) return err_set(err, RN_ERR_NOMEM, "topology: out of memory");
    const rn_status status = source_read(source, t, err);
    if (status) {
        topology_destroy(t);
        return status;
    }
    if (t->n_cores == 0) t->n_cores = t->n_cpus = cores_in_affinity();
    const int quota = cores_in_quota(source->cgroup_root ? source->cgroup_root : CGROUP_ROOT,
                                     source->cgroup_self ? source->cgroup_self : CGROUP_SELF);
    t->n_threads = quota > 0 && quota < t->n_cores ? quota : t->n_cores;
    if (t->n_threads > POOL_MAX_THREADS) t->n_threads = POOL_MAX_THREADS;
    *out = t;
    return RN_OK;
}

void topology_destroy(struct topology *topology) {
    if (!topology) return;
    free(topology->domain);
    free(topology->cpu);
    free(topology);
}

// ---------------------------------------------------------------- binding

int topology_domain_of(const struct topology *topology, int cpu) {
    for (int d = 0; d < topology->n_domains; d++)
        for (int i = 0; i < topology->domain[d].n_cpus; i++)
            if (topology->domain[d].cpu[i] == cpu) return d;
    return 0;
}

void topology_bind(const struct topology *topology, int domain, pthread_t thread) {
    const struct topology_domain *d = &topology->domain[domain];
    size_t n = 0;
    for (int i = 0; i < d->n_cpus; i++)
        if ((size_t)d->cpu[i] >= n) n = (size_t)d->cpu[i] + 1;
    const size_t bytes = CPU_ALLOC_SIZE(n);
    cpu_set_t *set = CPU_ALLOC(n);
    if (!set) return;
    CPU_ZERO_S(bytes, set);
    for (int i = 0; i < d->n_cpus; i++) CPU_SET_S((size_t)d->cpu[i], bytes, set);
    pthread_setaffinity_np(thread, bytes, set);
    CPU_FREE(set);
}

int pool_default_threads(void) {
    struct topology *topology;
    if (topology_create(NULL, &topology, NULL)) return 1;
    const int n_threads = topology->n_threads;
    topology_destroy(topology);
    return n_threads;
}

uint64_t pool_stack_bytes(int n_threads) {
    pthread_attr_t attr;
    size_t bytes = 0;
    if (pthread_attr_init(&attr)) return 0;
    pthread_attr_getstacksize(&attr, &bytes);
    pthread_attr_destroy(&attr);
    return (uint64_t)bytes * (uint64_t)(n_threads > 0 ? n_threads : pool_default_threads());
}
