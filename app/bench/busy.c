// See busy.h.
#define _GNU_SOURCE 1
#include "bench/busy.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "app.h"

enum { STAT_BYTES = 1 << 18 };
static const double busy_from = 0.1;  // of the cores' time
static const double least_s = 0.2;    // 20 ticks of each processor
static const double margin_s = 0.005; // clocks of processors are a little apart

static double clock_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double seconds(const struct timeval *time) {
    return (double)time->tv_sec + (double)time->tv_usec * 1e-6;
}

// Of all threads, and of children that were waited for.
static double own_s(void) {
    struct rusage self = {0}, children = {0};
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    return seconds(&self.ru_utime) + seconds(&self.ru_stime) + seconds(&children.ru_utime) +
           seconds(&children.ru_stime);
}

// "cpu3 user nice system idle iowait irq softirq steal ..."
static bool line_read(const char *line, int *cpu, struct busy_ticks *out) {
    uint64_t t[8] = {0};
    if (strncmp(line, "cpu", 3) != 0 || line[3] < '0' || line[3] > '9') return false; // the sum too
    const int n = sscanf(line,
                         "cpu%d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                         " %" SCNu64 " %" SCNu64 " %" SCNu64,
                         cpu, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]);
    out->used = t[0] + t[1] + t[2] + t[5] + t[6] + t[7];
    out->all = out->used + t[3] + t[4];
    return n >= 5;
}

bool busy_ticks_read(const char *stat, bool (*has)(int cpu), struct busy_ticks *out) {
    *out = (struct busy_ticks){0};
    for (const char *line = stat; line && *line;) {
        struct busy_ticks one;
        int cpu;
        if (line_read(line, &cpu, &one) && has(cpu)) {
            out->used += one.used;
            out->all += one.all;
        }
        line = strchr(line, '\n');
        if (line) line++;
    }
    return out->all > 0;
}

// Processors that this process may use.
static bool is_ours(int cpu) {
    cpu_set_t set;
    return cpu >= 0 && cpu < CPU_SETSIZE && sched_getaffinity(0, sizeof set, &set) == 0 &&
           CPU_ISSET((size_t)cpu, &set);
}

static bool now_read(struct busy_ticks *out) {
    FILE *file = fopen("/proc/stat", "re");
    char *text = file ? malloc(STAT_BYTES) : NULL;
    const size_t len = text ? fread(text, 1, STAT_BYTES - 1, file) : 0;
    if (file) fclose(file);
    if (text) text[len] = '\0';
    const bool ok = len > 0 && busy_ticks_read(text, is_ours, out);
    free(text);
    return ok;
}

void busy_begin(struct busy *busy) {
    *busy = (struct busy){.own_s = own_s(), .since_s = clock_s()};
    busy->is_known = now_read(&busy->ticks);
}

double busy_share(const struct busy *busy) {
    struct busy_ticks now;
    const double rest = busy->since_s + least_s - clock_s();
    if (!busy->is_known) return -1;
    if (rest > 0) usleep((useconds_t)(rest * 1e6));
    if (!now_read(&now) || now.all <= busy->ticks.all) return -1;
    const double tick_s = 1 / (double)sysconf(_SC_CLK_TCK);
    const double own = own_s() - busy->own_s + margin_s;
    const double used = (double)(now.used - busy->ticks.used) * tick_s - own;
    const double share = used / ((double)(now.all - busy->ticks.all) * tick_s);
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

bool busy_is(double share) { return share >= busy_from; }

void busy_warn(double share, const char *effect) {
    if (busy_is(share))
        app_fail(APP_OK, "warning: other programs took %.0f%% of the cores' time meanwhile, so %s",
                 100 * share, effect);
}
