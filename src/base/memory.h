// How much memory this process can take without swapping, as far as the system says so: the
// machine's, the limits of its cgroups, the limit on its address space. The figures are of the
// moment: other processes may take memory meanwhile.
#ifndef RN_BASE_MEMORY_H
#define RN_BASE_MEMORY_H

#include <stdint.h>

// Where to read. A NULL or 0 field: this machine and this process.
struct memory_source {
    const char *meminfo;                   // "/proc/meminfo"
    const char *cgroup_root, *cgroup_self; // see cgroup.h
    const char *statm;                     // "/proc/self/statm"
    uint64_t address_limit;                // instead of RLIMIT_AS
};

// Bytes that can be taken now; never more than memory_address_room. File cache is taken as free
// where the system gives it up first. 0: unknown; where nothing is left it is 1.
uint64_t memory_available(void);
// Bytes that the machine has, or that the process's cgroups may have. 0: unknown.
uint64_t memory_total(void);
// Bytes of addresses that can be mapped, whether they are touched or not. 0: no limit.
uint64_t memory_address_room(void);

uint64_t memory_available_from(const struct memory_source *source);
uint64_t memory_total_from(const struct memory_source *source);
uint64_t memory_address_room_from(const struct memory_source *source);

#endif
