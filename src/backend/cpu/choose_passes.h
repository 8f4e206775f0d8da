// The chooser's passes over many logits, one table of functions per instruction set. Every table
// gives the same bits: masses are sums of integers, other floats are summed in eight lanes, in a
// fixed order, and no operation is fused. The one definition is choose_passes_simd.h, compiled
// several times.
//
// Logits are looked at in blocks of 64, whose largest logits (peaks) are known: a block that
// cannot matter is not read again.
#ifndef RN_BACKEND_CPU_CHOOSE_PASSES_H
#define RN_BACKEND_CPU_CHOOSE_PASSES_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/cpu/ops.h"

enum { CHOOSE_BLOCK = 64 }; // a multiple of the eight lanes

static inline int choose_blocks(int n) { return n / CHOOSE_BLOCK + (n % CHOOSE_BLOCK != 0); }

// Logits as the filters see them: (logit[i] - shift) / scale, i < n. Borrowed.
struct run {
    const float *logit; // [n] no NaN
    const float *peak;  // [choose_blocks(n)] of logit
    const int32_t *id;  // [n] or NULL: i is the id of logit i
    int n;
    float shift, scale;
};

// The units of a run's members: their weights in units of 2^-30, or 1 each.
enum measure { MEASURE_MASS, MEASURE_COUNT };

enum { CHOOSE_DIGITS = 2048 };

// How a run is measured. Blocks that are below `reach` as a whole are left out. The first digit of
// a distance with those bits is (bits - low) >> shift, within 0..CHOOSE_DIGITS - 1.
struct ruler {
    float centre, reach;
    enum measure measure;
    int32_t low;
    int shift;
};

// Those among which a run of the nearest ends; room for whole blocks.
struct near {
    uint32_t *distance; // their bits; distances are not negative, so these are in their order
    uint32_t *units;    // of the same candidates
    int32_t *id;
};

struct choose_passes {
    const char *name;
    bool (*is_here)(void); // whether this machine can run them

    // Fills peak and returns the largest logit; a NaN never is. -INFINITY when there is no other.
    // *holes: one is a NaN or -INFINITY.
    float (*peaks)(const float *logit, int n, float *peak, bool *holes);
    // The logits that are neither, with their ids, of the tokens in the set `allowed` (NULL: all);
    // `out` may be `logit`.
    int (*gather)(const float *logit, int n, const uint64_t *allowed, float *out, int32_t *id);
    // How many are at most so far from the centre.
    int (*count_within)(const struct run *run, float centre, float distance);
    // The sum of their units of mass.
    uint64_t (*mass_within)(const struct run *run, float centre, float distance);
    // Those, in their order, with their ids, but of the ones at that very distance no id above
    // last_id; the arrays may be the run's own.
    int (*keep_within)(const struct run *run, float centre, float distance, int32_t last_id,
                       float *out, int32_t *id);
    // Writes the distance and the units of each into its place. If sum[CHOOSE_DIGITS] is not NULL,
    // it adds the units there by the first digit of the distance; some beyond reach may be missing.
    // Returns the units of mass of the blocks that are not left out.
    uint64_t (*measure)(const struct run *run, const struct ruler *ruler, const struct near *near,
                        uint64_t *sum);
    // The units of mass of the blocks that are left out.
    uint64_t (*mass_left_out)(const struct run *run, float centre, float reach);
    // Moves measured candidates with units above 0 and that first digit of the distance (-1: any)
    // to the front, in their order, with their ids.
    int (*list)(const struct run *run, const struct ruler *ruler, int digit,
                const struct near *near);
    // The mean of the logits under their own distribution; the best one's weight is 1. *units: the
    // sum of their units of mass.
    float (*mean)(const struct run *run, uint64_t *units);
    // The standard deviation of the finite ones of any logits; the sums are of logit - shift.
    double (*deviation)(const float *logit, int n, float shift);
    // The id with the largest sum of logit and noise; n > 0.
    int32_t (*choose)(const struct run *run, uint64_t key);
};

extern const struct choose_passes choose_passes_base;
#if defined(__x86_64__)
extern const struct choose_passes choose_passes_avx2, choose_passes_avx512bw;
#endif

// The tables of this program, from the slowest to the fastest; NULL at the end.
extern const struct choose_passes *const choose_passes_all[];
// The table of a backend with that instruction set, which this machine has.
const struct choose_passes *choose_passes_for(enum cpu_isa isa);

#endif
