// The thread that loads and unloads models, one job at a time. The I/O thread gives it jobs and
// takes their results; it never waits for one.
#ifndef RN_SERVER_LOADER_H
#define RN_SERVER_LOADER_H

#include "lineup.h"

struct loader;

struct loader_result {
    struct lineup_step step; // PLAN, LOAD or UNLOAD
    rn_status status;
    rn_error err;
    struct server_need need;   // of PLAN
    struct server_model parts; // of LOAD
};

// The end of a job is announced by a write to wake_fd (an eventfd).
rn_status loader_create(const struct server_loading *loading, int wake_fd, struct loader **out,
                        rn_error *err);
void loader_destroy(struct loader *loader); // after its job
bool loader_is_busy(struct loader *loader); // it has a job, or a result to be taken
void loader_start(struct loader *loader, struct lineup_step step);  // it is not busy
bool loader_take(struct loader *loader, struct loader_result *out); // false: there is none

#endif
