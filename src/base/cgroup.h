// The control groups that this process is in, and their ancestors: a limit of any of them holds.
// Version 2 (one hierarchy) and version 1 (one for each controller). In a container the root is the
// container's own group. A limit that cannot be read is left out: cores.c and memory.c take it as
// "no limit".
#ifndef RN_BASE_CGROUP_H
#define RN_BASE_CGROUP_H

#include <stdbool.h>

#define CGROUP_ROOT "/sys/fs/cgroup"
#define CGROUP_SELF "/proc/self/cgroup"

// Called with the folder of a group; version is 1 or 2.
typedef void (*cgroup_visit)(void *ctx, int version, const char *folder);

// Visits the groups for that controller ("cpu"), each from the process's own up to the root. root
// is where the cgroup file systems are mounted (CGROUP_ROOT), self the process's list
// (CGROUP_SELF).
void cgroup_walk(const char *root, const char *self, const char *controller, cgroup_visit visit,
                 void *ctx);

// The first line of folder/name; false when there is no such file.
bool cgroup_line(const char *folder, const char *name, char *line, int size);

#endif
