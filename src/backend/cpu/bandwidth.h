// How single reads become the bandwidth that is reported; apart from the reading, so that tests can
// bring reads of their own.
#ifndef RN_BACKEND_CPU_BANDWIDTH_H
#define RN_BACKEND_CPU_BANDWIDTH_H

#include <stdint.h>

enum { BANDWIDTH_MAX_CONFIGS = 16 };

// One pass of a configuration, [0, n_configs); returns the nanoseconds that it took.
typedef uint64_t (*bandwidth_pass_fn)(void *ctx, int config);

// Calls the configurations in turn until the next pass, if it took as long as the longest one yet,
// would end behind the budget; at least once. The result in bytes/s is the best configuration's: of
// its median pass, or of all its passes together where that is more.
double bandwidth_sustained(bandwidth_pass_fn pass, void *ctx, int n_configs, uint64_t pass_bytes,
                           uint64_t budget_ns);

#endif
