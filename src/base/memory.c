// Reads /proc/meminfo, the process's memory cgroups and RLIMIT_AS. Called when an engine is planned
// or created. A limit that cannot be read is taken as "no limit".
#define _GNU_SOURCE 1
#include "base/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/checked.h"

// Version 1 writes a limit that no machine has where there is none.
static const uint64_t LIMIT_NONE = 1ull << 60;

// The smaller of two amounts; 0 is unknown.
static uint64_t tighter(uint64_t a, uint64_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

// The rest of a limit, at least 1, because 0 would mean that there is no limit.
static uint64_t room_of(uint64_t limit, uint64_t used) { return limit > used ? limit - used : 1; }

// A whole number in decimal digits, followed by a blank or the end.
static bool number_parse(const char *text, uint64_t *out) {
    text += strspn(text, " \t");
    if (*text < '0' || *text > '9') return false;
    char *end;
    *out = strtoull(text, &end, 10);
    return *end == 0 || *end == '\n' || *end == ' ';
}

// The number behind a name at the start of one of the file's lines: "MemAvailable:   23645248 kB",
// "inactive_file 1234".
static bool field_read(const char *path, const char *name, uint64_t *out) {
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const size_t len = strlen(name);
    char line[256];
    bool is_found = false;
    while (!is_found && fgets(line, sizeof line, file))
        is_found = strncmp(line, name, len) == 0 && strchr(" \t", line[len]) && line[len] &&
                   number_parse(line + len, out);
    fclose(file);
    return is_found;
}

static uint64_t meminfo_bytes(const struct memory_source *source, const char *name) {
    uint64_t kib, bytes;
    if (!field_read(source->meminfo ? source->meminfo : "/proc/meminfo", name, &kib)) return 0;
    return ck_mul(kib, 1024, &bytes) ? bytes : 0;
}

// ---------------------------------------------------------------- cgroups

struct group_limits {
    uint64_t limit, room; // 0: none
};

// 0: no limit, or no such file.
static uint64_t limit_read(const char *folder, const char *name) {
    char line[64];
    uint64_t limit;
    if (!cgroup_line(folder, name, line, sizeof line) || !number_parse(line, &limit)) return 0;
    if (limit >= LIMIT_NONE) return 0;
    return limit ? limit : 1;
}

// File cache that was not used lately: the system gives it up before anything else.
static uint64_t cache_read(const char *folder, int version) {
    char path[4096];
    uint64_t bytes;
    const int len = snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (len < 0 || len >= (int)sizeof path) return 0;
    // in version 1 only the fields that start with total_ include the groups below
    if (version == 1 && field_read(path, "total_inactive_file", &bytes)) return bytes;
    return field_read(path, "inactive_file", &bytes) ? bytes : 0;
}

static void group_visit(void *ctx, int version, const char *folder) {
    struct group_limits *limits = ctx;
    const uint64_t limit =
        version == 2 ? tighter(limit_read(folder, "memory.max"), limit_read(folder, "memory.high"))
                     : limit_read(folder, "memory.limit_in_bytes");
    if (limit == 0) return;
    char line[64];
    uint64_t used = 0;
    const char *usage = version == 2 ? "memory.current" : "memory.usage_in_bytes";
    if (!cgroup_line(folder, usage, line, sizeof line) || !number_parse(line, &used)) used = 0;
    const uint64_t cache = cache_read(folder, version);
    limits->limit = tighter(limits->limit, limit);
    limits->room = tighter(limits->room, room_of(limit, used > cache ? used - cache : 0));
}

static struct group_limits groups_read(const struct memory_source *source) {
    struct group_limits limits = {0};
    cgroup_walk(source->cgroup_root ? source->cgroup_root : CGROUP_ROOT,
                source->cgroup_self ? source->cgroup_self : CGROUP_SELF, "memory", group_visit,
                &limits);
    return limits;
}

// ---------------------------------------------------------------- the process

uint64_t memory_address_room_from(const struct memory_source *source) {
    uint64_t limit = source->address_limit;
    if (!limit) {
        struct rlimit as;
        if (getrlimit(RLIMIT_AS, &as) || as.rlim_cur == RLIM_INFINITY) return 0;
        limit = as.rlim_cur;
    }
    const char *path = source->statm ? source->statm : "/proc/self/statm";
    FILE *file = fopen(path, "re");
    if (!file) return limit;
    unsigned long long pages = 0;
    const long page_bytes = sysconf(_SC_PAGESIZE);
    if (fscanf(file, "%llu", &pages) != 1) pages = 0;
    fclose(file);
    uint64_t used;
    if (!ck_mul(pages, page_bytes > 0 ? (uint64_t)page_bytes : 4096, &used)) used = UINT64_MAX;
    return room_of(limit, used);
}

uint64_t memory_available_from(const struct memory_source *source) {
    const uint64_t bytes =
        tighter(meminfo_bytes(source, "MemAvailable:"), groups_read(source).room);
    return tighter(bytes, memory_address_room_from(source));
}

uint64_t memory_total_from(const struct memory_source *source) {
    return tighter(meminfo_bytes(source, "MemTotal:"), groups_read(source).limit);
}

static const struct memory_source here;

uint64_t memory_available(void) { return memory_available_from(&here); }
uint64_t memory_total(void) { return memory_total_from(&here); }
uint64_t memory_address_room(void) { return memory_address_room_from(&here); }
