// The cores that this process may use and their shared caches and memory, as hwloc sees them. Read
// once at start; constant afterwards. A wrong guess here costs speed, never correctness, so only a
// lack of memory is an error. Without hwloc's help the cores are those of the affinity mask, in no
// domain.
#ifndef RN_BASE_TOPOLOGY_H
#define RN_BASE_TOPOLOGY_H

#include <pthread.h>

#include "base/status.h"

// Neighbouring cores with one last-level cache, or one memory node where that is smaller or the
// last cache belongs to one core.
struct topology_domain {
    int n_cores;
    int n_cpus;
    int *cpu; // [n_cpus] the system's numbers of their hardware threads
    int node; // the system's number of the memory that is near; -1: unknown
};

struct topology {
    int n_threads; // to compute with: one for each core, within the cgroup's quota
    int n_cores;   // physical cores that may be used; on a hybrid CPU the performance cores
    int n_cpus;    // their hardware threads that may be used
    int n_nodes;   // memory nodes they belong to; 0: unknown
    int n_domains; // 0: unknown
    struct topology_domain *domain;
    uint64_t core_cache_bytes; // of the largest cache that one core has to itself; 0: unknown
    uint64_t cache_bytes;      // of one last-level cache; 0: unknown
    uint64_t cache_bytes_all;  // of all that the cores have
    int *cpu;                  // memory of the domains' lists
};

// Where to read. All NULL, or no source: this machine and this process.
struct topology_source {
    const char *xml;                       // a file as `lstopo --of xml` writes
    const char *synthetic;                 // or hwloc's description, "pack:2 core:8 pu:2"
    const char *allowed;                   // instead of the affinity mask, a list such as "0-3,8"
    const char *cgroup_root, *cgroup_self; // see cores_in_quota
};

rn_status topology_create(const struct topology_source *source, struct topology **out,
                          rn_error *err);
void topology_destroy(struct topology *topology); // NULL is fine

// The domain of a hardware thread, 0 if it is in none.
int topology_domain_of(const struct topology *topology, int cpu);

// Lets the thread run on the domain's hardware threads only. Where the system refuses, it stays
// free.
void topology_bind(const struct topology *topology, int domain, pthread_t thread);

#endif
