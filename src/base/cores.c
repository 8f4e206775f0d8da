// Counts usable cores: affinity mask and cgroup CPU quota. Called once at start. Whatever cannot be
// read is taken as "no limit": a wrong guess here costs speed, never correctness.
#define _GNU_SOURCE 1
#include "base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CORES_MAX = 1 << 16, PATH_BYTES = 4096 };

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

// The first line of root + group + name; false when there is no such file.
static bool line_read(const char *root, const char *group, const char *name, char *line, int size) {
    char path[PATH_BYTES];
    const int len = snprintf(path, sizeof path, "%s%s/%s", root, group, name);
    if (len < 0 || len >= (int)sizeof path) return false;
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const bool is_read = fgets(line, size, file) != NULL;
    fclose(file);
    return is_read;
}

static int quota_to_cores(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0;
    const long long cores = quota / period + (quota % period != 0);
    return cores < CORES_MAX ? (int)cores : CORES_MAX;
}

// "200000 100000" or "max 100000"
static int group_quota_v2(const char *root, const char *group) {
    char line[128];
    long long quota, period;
    if (!line_read(root, group, "cpu.max", line, sizeof line)) return 0;
    return sscanf(line, "%lld %lld", &quota, &period) == 2 ? quota_to_cores(quota, period) : 0;
}

static int group_quota_v1(const char *root, const char *group) {
    char quota[64], period[64];
    if (!line_read(root, group, "cpu.cfs_quota_us", quota, sizeof quota)) return 0;
    if (!line_read(root, group, "cpu.cfs_period_us", period, sizeof period)) return 0;
    return quota_to_cores(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

static int tighter(int a, int b) { return a == 0 || (b != 0 && b < a) ? b : a; }

// From group up to "", the root. In a container the root is the container's own group.
static int ancestors_quota(const char *root, char *group,
                           int (*group_quota)(const char *, const char *)) {
    int cores = 0;
    for (;;) {
        cores = tighter(cores, group_quota(root, group));
        char *slash = strrchr(group, '/');
        if (!slash) return cores;
        *slash = 0;
    }
}

// Whether the comma-separated list of a version 1 hierarchy contains "cpu".
static bool controllers_have_cpu(const char *list, const char *end) {
    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        const char *stop = comma ? comma : end;
        if (stop - list == 3 && memcmp(list, "cpu", 3) == 0) return true;
        list = stop + 1;
    }
    return false;
}

// One line of the process's list, "id:controllers:path".
static int hierarchy_quota(const char *root, char *line) {
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) return 0;
    char *group = path + 1;
    if (path == controllers + 1) return ancestors_quota(root, group, group_quota_v2);
    if (!controllers_have_cpu(controllers + 1, path)) return 0;
    char mount[PATH_BYTES];
    const int len = snprintf(mount, sizeof mount, "%s/cpu", root);
    if (len < 0 || len >= (int)sizeof mount) return 0;
    return ancestors_quota(mount, group, group_quota_v1);
}

int cores_in_quota(const char *root, const char *self) {
    FILE *file = fopen(self, "re");
    if (!file) return 0;
    char line[PATH_BYTES];
    int cores = 0;
    while (fgets(line, sizeof line, file)) cores = tighter(cores, hierarchy_quota(root, line));
    fclose(file);
    return cores;
}
