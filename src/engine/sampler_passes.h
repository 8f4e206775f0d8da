// The sampler's passes over many logits, one table of functions per instruction set. Every table
// gives the same bits: floats are summed in eight lanes, in a fixed order, and no operation is
// fused (sampler_passes_simd.h is the one definition, compiled several times).
//
// Logits are looked at in blocks of 64, whose largest logits (peaks) are known: a block that
// cannot matter is not read again.
#ifndef RN_ENGINE_SAMPLER_PASSES_H
#define RN_ENGINE_SAMPLER_PASSES_H

#include <stdbool.h>
#include <stdint.h>

enum { SAMPLER_BLOCK = 64 }; // a multiple of the eight lanes

static inline int sampler_blocks(int n) { return n / SAMPLER_BLOCK + (n % SAMPLER_BLOCK != 0); }

// Logits as the filters see them: (logit[i] - shift) / scale, i < n. Borrowed.
struct run {
    const float *logit; // [n] no NaN
    const float *peak;  // [sampler_blocks(n)] of logit
    const int32_t *id;  // [n] or NULL: i is the id of logit i
    int n;
    float shift, scale;
};

struct sampler_passes {
    const char *name;
    bool (*is_here)(void); // whether this machine can run them

    // Fills peak and returns the largest logit; a NaN never is. -INFINITY when there is no other.
    // *holes: one is a NaN or -INFINITY.
    float (*peaks)(const float *logit, int n, float *peak, bool *holes);
    // The logits that are neither, less `shift`, with their ids; `out` may be `logit`.
    int (*fill)(const float *logit, int n, float shift, float *out, int32_t *id);
    // How many are at most so far from the centre.
    int (*count_within)(const struct run *run, float centre, float distance);
    // The sum of their weights.
    double (*mass_within)(const struct run *run, float centre, float distance);
    // Those, in their order, with their ids; the arrays may be the run's own.
    int (*keep_within)(const struct run *run, float centre, float distance, float *out,
                       int32_t *id);
    // The mean of the logits under their own distribution; the best one's weight is 1.
    float (*mean)(const struct run *run);
    // The standard deviation of the finite ones of any logits; the sums are of logit - shift.
    double (*deviation)(const float *logit, int n, float shift);
    // The id with the largest sum of logit and noise; n > 0.
    int32_t (*choose)(const struct run *run, uint64_t key);
};

extern const struct sampler_passes sampler_passes_base;
#if defined(__x86_64__)
extern const struct sampler_passes sampler_passes_avx2, sampler_passes_avx512;
#endif

// The tables of this program, from the slowest to the fastest; NULL at the end.
extern const struct sampler_passes *const sampler_passes_all[];
// The fastest that runs here.
const struct sampler_passes *sampler_passes_best(void);

#endif
