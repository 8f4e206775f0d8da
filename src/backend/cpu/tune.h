// The choice between ways to read weights, apart from the reading, so that tests can bring times of
// their own. tune.c has both.
#ifndef RN_BACKEND_CPU_TUNE_H
#define RN_BACKEND_CPU_TUNE_H

#include "backend/cpu/matmul.h"
#include "backend/cpu/region.h"
#include "base/pool.h"

enum { TUNE_PAIRS = 9 }; // of passes, before a way is chosen

// One pass of a way, by its index in matmul_ways; returns the nanoseconds that it took.
typedef uint64_t (*tune_pass_fn)(void *ctx, int way);

// The index of the way whose passes are fastest. The first way is the default: another one must be
// clearly faster. gain: the default's time over the chosen way's.
int tune_choose(tune_pass_fn pass, void *ctx, double *gain);

// The fastest way here, on memory that holds no weights: only its size matters.
rn_status tune_region(struct pool *pool, const struct matmul_kernel *kernel,
                      const struct region *packed, struct matmul_way *out, double *gain,
                      rn_error *err);

// Such as "L2 +4096 wide"; the default is "plain".
void tune_name(const struct matmul_way *way, char *out, size_t size);

#endif
