// Counts usable cores: affinity mask and cgroup CPU quota. Called once at start. A limit that
// cannot be read is taken as "no limit": a wrong guess here costs speed, never correctness.
#define _GNU_SOURCE 1
#include "base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cgroup.h"

enum { CORES_MAX = 1 << 16 };

int cores_in_affinity(void) {
    // The kernel's mask may be wider than cpu_set_t (1,024 cores); it then answers EINVAL.
    for (int n_cpus = 1024; n_cpus <= CORES_MAX; n_cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)n_cpus);
        if (!set) break;
        const size_t bytes = CPU_ALLOC_SIZE((size_t)n_cpus);
        const bool is_read = sched_getaffinity(0, bytes, set) == 0;
        const int count = is_read ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (is_read) return count > 0 ? count : 1;
    }
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < INT_MAX ? (int)online : 1;
}

static int quota_to_cores(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0;
    const long long cores = quota / period + (quota % period != 0);
    return cores < CORES_MAX ? (int)cores : CORES_MAX;
}

// "200000 100000" or "max 100000"
static int group_quota_v2(const char *folder) {
    char line[128];
    long long quota, period;
    if (!cgroup_line(folder, "cpu.max", line, sizeof line)) return 0;
    return sscanf(line, "%lld %lld", &quota, &period) == 2 ? quota_to_cores(quota, period) : 0;
}

static int group_quota_v1(const char *folder) {
    char quota[64], period[64];
    if (!cgroup_line(folder, "cpu.cfs_quota_us", quota, sizeof quota)) return 0;
    if (!cgroup_line(folder, "cpu.cfs_period_us", period, sizeof period)) return 0;
    return quota_to_cores(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

static void quota_tighten(void *ctx, int version, const char *folder) {
    int *cores = ctx;
    const int quota = version == 2 ? group_quota_v2(folder) : group_quota_v1(folder);
    if (quota && (*cores == 0 || quota < *cores)) *cores = quota;
}

int cores_in_quota(const char *root, const char *self) {
    int cores = 0;
    cgroup_walk(root, self, "cpu", quota_tighten, &cores);
    return cores;
}

int cores_usable(void) {
    const int affine = cores_in_affinity(), quota = cores_in_quota(CGROUP_ROOT, CGROUP_SELF);
    return quota > 0 && quota < affine ? quota : affine;
}
