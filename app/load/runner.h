// Runs one level of load on a server, in one thread and one epoll loop, and records each request.
#ifndef RN_APP_LOAD_RUNNER_H
#define RN_APP_LOAD_RUNNER_H

#include "load/target.h"

struct load_job {
    const struct load_config *config;
    const struct load_target *target;
    int concurrency; // requests at a time; of an open load, the most
    double rate;  // arrivals a second; 0: a request follows the end of another (closed), or a trace
    bool trace;   // arrivals are the configuration's trace
    int requests; // in all, turns of conversations included
    uint64_t seed;             // of prompts, lengths and arrivals
    struct progress *progress; // NULL: none
};

// Ctrl-C ends it: the records hold the requests that were complete.
int load_run(const struct load_job *job, struct load_records *out);

#endif
