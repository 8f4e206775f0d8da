// How much other programs take of this machine while something is measured. plan, bench and bench
// serve ask here, so that all mean the same by a busy machine.
#ifndef RN_APP_BENCH_BUSY_H
#define RN_APP_BENCH_BUSY_H

#include <stdbool.h>
#include <stdint.h>

// Time that processors spent, in ticks of /proc/stat.
struct busy_ticks {
    uint64_t used, all; // used: by anybody, other virtual machines included
};

struct busy {
    struct busy_ticks ticks;
    double own_s, since_s;
    bool is_known;
};

void busy_begin(struct busy *busy);
// The share of the cores' time that other programs took since then, 0 to 1. Children that have
// ended count as our own. -1 if the system does not say. A period that is too short to tell is
// waited for.
double busy_share(const struct busy *busy);
// Whether a share makes measured figures wrong: THE rule.
bool busy_is(double share);
// A warning if it does, with what follows from it: "rates are too low".
void busy_warn(double share, const char *effect);

// The ticks of the processors of a set, which is given as a function, in the text of /proc/stat.
// False: the text has none of them.
bool busy_ticks_read(const char *stat, bool (*has)(int cpu), struct busy_ticks *out);

#endif
