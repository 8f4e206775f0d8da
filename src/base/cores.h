// How many cores the process may really use, from the system's files alone. These functions are
// combined by topology.c; tests call them with files of their own.
#ifndef RN_BASE_CORES_H
#define RN_BASE_CORES_H

// Cores in the affinity mask, at least 1.
int cores_in_affinity(void);

// The tightest cgroup limit, rounded up to whole cores; 0 when there is none. root is where the
// cgroup file systems are mounted ("/sys/fs/cgroup"), self the process's list
// ("/proc/self/cgroup"). Version 2 (cpu.max) and version 1 (cpu.cfs_quota_us) are read, each from
// the process's own group up to the root, because a limit of any ancestor holds.
int cores_in_quota(const char *root, const char *self);

// The smaller one of the two for this process. A core with two hardware threads is two here.
int cores_usable(void);

#endif
