// The choice between ways to read weights, apart from the reading, so that tests can bring times of
// their own. tune.c has both.
#ifndef RN_BACKEND_CPU_TUNE_H
#define RN_BACKEND_CPU_TUNE_H

#include "backend/cpu/matmul.h"
#include "backend/cpu/region.h"
#include "base/pool.h"

enum { TUNE_TURNS = 9 }; // pairs of passes, before a way is chosen

// Passes of a way, by its index in matmul_ways, with all threads or with one alone; run returns the
// nanoseconds that one took, as if all had the same bytes. Those of a turn read alike.
struct tune_passes {
    uint64_t (*run)(void *ctx, int way, bool alone, int turn);
    void *ctx;
};

// The index of the way whose passes are fastest with all threads. Of ways that are alike, it is the
// fastest with one. The first way is the default: another one must be clearly faster.
// gain: the default's time over the chosen way's, with all threads.
int tune_choose(const struct tune_passes *passes, double *gain);

// The memory that tune_region needs to tell ways apart with these threads.
uint64_t tune_bytes(const struct pool *pool);

// The fastest way here, on memory that holds no weights: only its size matters.
rn_status tune_region(struct pool *pool, const struct matmul_kernel *kernel,
                      const struct region *packed, struct matmul_way *out, double *gain,
                      rn_error *err);

// Such as "L2 +4096 wide"; the default is "plain".
void tune_name(const struct matmul_way *way, char *out, size_t size);

#endif
