// What choose.cu and choose_filter.cuh share: the arithmetic of a choice, reductions of a block,
// and the best logit of a row. The arithmetic is that of plan/noise.h and
// backend/cpu/choose_edits.c, in the same precision and order, so a token is the same on every
// backend.
//
// Sums of units and counts are of integers, and maxima are of keys that no two candidates share:
// neither depends on the order of threads.
#ifndef RN_BACKEND_CUDA_CHOOSE_CUH
#define RN_BACKEND_CUDA_CHOOSE_CUH

#include "backend/cuda/device.cuh"

#include <float.h>
#include <string.h>

#include "backend/cuda/choose.h"

// The functions of these headers run on the device as they are.
#define inline __host__ __device__ inline
#include "plan/noise.h"
#undef inline

constexpr uint32_t ALL_LANES = 0xffffffff;
enum {
    ROOM = 32,                         // words that a reduction needs
    PEAK_LOADS = CHOOSE_PEAK_IDS / 32, // of a warp, for the ids of a peak
};

// A function that is called: several places use it, and a smaller kernel starts sooner.
#define CALLED static __device__ __noinline__

// ---------------------------------------------------------------- floats as integers

// In the order of the floats; the two zeros are equal. Never 0, unless x is a NaN.
DEV uint32_t order_of(float x) {
    const uint32_t bits = f32_to_bits(x + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

DEV float order_float(uint32_t order) {
    return f32_from_bits(order & 0x80000000u ? order & 0x7fffffffu : ~order);
}

// Larger for a larger x, of equals for a lower id. 0 is less than all.
DEV uint64_t best_key(float x, int32_t id) {
    return (uint64_t)order_of(x) << 32 | (0xffffffffu - (uint32_t)id);
}
DEV float best_float(uint64_t key) { return order_float((uint32_t)(key >> 32)); }
DEV int32_t best_id(uint64_t key) { return key ? (int32_t)(0xffffffffu - (uint32_t)key) : -1; }

// The bits of the distance; a distance is not negative, so they are in its order.
DEV uint32_t distance_bits(float x, float centre) { return f32_to_bits(x - centre) & 0x7fffffffu; }

// The step of a distance, which ascends with it: a 64th each up to 24, then relative ones. Beyond
// 21 no candidate has a unit of mass.
DEV int distance_step(float distance) {
    if (distance < 24.0f) return (int)(distance * 64.0f);
    const uint32_t far = (f32_to_bits(distance) - f32_to_bits(24.0f)) >> 17;
    return far < CHOOSE_STEPS - 1536 ? 1536 + (int)far : CHOOSE_STEPS - 1;
}

// Adds to a sum in shared memory. Two words, since the hardware adds 32 bits at once. No thread
// reads the sum before all have added.
DEV void step_add(uint64_t *sum, uint32_t units) {
    uint32_t *word = (uint32_t *)sum;
    const uint32_t before = atomicAdd(word, units);
    if (before + units < before) atomicAdd(word + 1, 1u);
}

// ---------------------------------------------------------------- edits

DEV float edit_bounded(double logit) {
    return (float)(logit > (double)FLT_MAX    ? (double)FLT_MAX
                   : logit < (double)-FLT_MAX ? (double)-FLT_MAX
                                              : logit);
}

DEV float edit_bias(const struct choice_edit &edit, float logit) {
    if (edit.bias <= CHOICE_BAN) return -INFINITY;
    if (edit.bias == 0 || !isfinite(logit)) return logit;
    return edit_bounded((double)logit + (double)edit.bias);
}

DEV float edit_penalties(const struct choice_numbers &numbers, const struct choice_edit &edit,
                         float logit) {
    const double factor = (double)numbers.repetition_penalty;
    if (edit.repeats && factor != 0 && factor != 1 && isfinite(logit)) {
        const double x = (double)logit;
        logit = edit_bounded(x > 0 ? x / factor : x * factor);
    }
    if (edit.n_output > 0 && isfinite(logit)) {
        const double penalty = (double)numbers.presence_penalty +
                               (double)numbers.frequency_penalty * (double)edit.n_output;
        logit = edit_bounded((double)logit - penalty);
    }
    return logit;
}

DEV float edit_dry(const struct choice_numbers &numbers, const struct choice_edit &edit,
                   float logit) {
    if (edit.dry < 0 || numbers.dry_multiplier == 0 || !isfinite(logit)) return logit;
    double base = (double)numbers.dry_base, power = 1;
    for (int exponent = edit.dry; exponent > 0; exponent /= 2, base *= base)
        if (exponent % 2) power *= base;
    return edit_bounded((double)logit - (double)numbers.dry_multiplier * power);
}

DEV float edit_logit(const struct choice_numbers &numbers, const struct choice_edit &edit,
                     float logit) {
    return edit_dry(numbers, edit, edit_penalties(numbers, edit, edit_bias(edit, logit)));
}

// ---------------------------------------------------------------- masses

DEV uint32_t units_of(float x) { return weight_units(weight_of(x)); }

DEV uint64_t units_wanted(uint64_t total, float share) {
    const double product = (double)total * (double)share;
    const uint64_t wanted = (uint64_t)product + ((double)(uint64_t)product < product);
    return wanted > 0 ? wanted : 1;
}

// The distance from the best that surely contains every candidate of at least this weight.
DEV float weight_distance(double weight) {
    return weight < (double)FLT_MIN ? INFINITY : (float)(0.001 - rmath_log(weight));
}

// ---------------------------------------------------------------- the draw

// The largest sum of logit and noise, so far.
struct best {
    uint64_t key; // 0: none yet
    float bound;  // no candidate with a lower sum is chosen
};

// A sum x + g passes the bound b only if 1 - u <= exp(x - b), since g < -log(1 - u): most
// candidates cannot, which is seen without logarithms. The factor covers weight_of's error and the
// rounding of sums down to -500; below that all are computed.
DEV bool draw_is_short(float x, float bound, uint64_t bits) {
    const float below = x - bound;
    return bound > -500.0f && below < 0 &&
           (float)(0x1fffffffffffffu - bits) * 0x1p-53f > weight_of(below) * 1.0001f;
}

DEV float draw_sum(float x, uint64_t bits) { return x + noise_gumbel(noise_uniform(bits)); }

DEV void draw_see(struct best &best, float x, int32_t id, uint64_t key) {
    const uint64_t bits = noise_bits(key, (uint32_t)id);
    if (draw_is_short(x, best.bound, bits)) return;
    const float sum = draw_sum(x, bits);
    const uint64_t sum_key = best_key(sum, id);
    if (sum_key > best.key) best.key = sum_key;
    if (sum > best.bound) best.bound = sum;
}

// ---------------------------------------------------------------- reductions of a block

// The same for every thread: of all threads' values, in any order. room: [ROOM].
// The block has a power of two of warps.
template <class T, class F> DEV T block_fold(T x, T *room, F fold) {
    const int n_warps = (int)blockDim.x / 32, lane = (int)threadIdx.x % 32;
    UNROLL for (int d = 16; d > 0; d /= 2) x = fold(x, __shfl_xor_sync(ALL_LANES, x, d));
    __syncthreads();
    if (lane == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    x = room[lane % n_warps];
    for (int d = n_warps / 2; d > 0; d /= 2) x = fold(x, __shfl_xor_sync(ALL_LANES, x, d));
    return x;
}

CALLED uint64_t block_max(uint64_t x, uint64_t *room) {
    return block_fold(x, room, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
}

CALLED uint64_t block_sum(uint64_t x, uint64_t *room) {
    return block_fold(x, room, [](uint64_t a, uint64_t b) { return a + b; });
}

// The sum of the values of the threads before this one; *total: of all. room: [ROOM].
CALLED uint64_t block_before(uint64_t x, uint64_t *room, uint64_t *total) {
    const int n_warps = (int)blockDim.x / 32, warp = (int)threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    uint64_t sum = x;
    UNROLL for (int d = 1; d < 32; d *= 2) {
        const uint64_t other = __shfl_up_sync(ALL_LANES, sum, d);
        if (lane >= d) sum += other;
    }
    __syncthreads();
    if (lane == 31) room[warp] = sum;
    __syncthreads();
    uint64_t warps = lane < n_warps ? room[lane] : 0;
    UNROLL for (int d = 1; d < 32; d *= 2) {
        const uint64_t other = __shfl_up_sync(ALL_LANES, warps, d);
        if (lane >= d) warps += other;
    }
    *total = __shfl_sync(ALL_LANES, warps, 31);
    const uint64_t before = __shfl_sync(ALL_LANES, warps, warp > 0 ? warp - 1 : 0);
    return (warp > 0 ? before : 0) + sum - x;
}

// ---------------------------------------------------------------- a row

DEV int row_parts(const struct choose_row &row) {
    return (row.n_vocab + CHOOSE_PART_IDS - 1) / CHOOSE_PART_IDS;
}

// The logits after the edits.
DEV const float *row_logits(const struct choose_args &args, const struct choose_row &row, int at) {
    return row.flags & CHOOSE_EDITED ? args.at.value + at * args.at.stride
                                     : args.logits + at * args.ld;
}

// The best logit of the row, as an earlier launch found it. *n: its candidates. Every warp folds
// the parts by itself, which is sooner done than a barrier.
DEV uint64_t row_top(const struct choose_args &args, const struct choose_row &row, int at, int *n) {
    const int n_parts = row_parts(row);
    const int64_t first = at * args.at.parts;
    uint64_t top = 0;
    int count = 0;
    for (int i = (int)threadIdx.x % 32; i < n_parts; i += 32) {
        const uint64_t key = args.at.top[first + i];
        if (key > top) top = key;
        count += args.at.count[first + i];
    }
    UNROLL for (int d = 16; d > 0; d /= 2) {
        const uint64_t key = __shfl_xor_sync(ALL_LANES, top, d);
        if (key > top) top = key;
        count += __shfl_xor_sync(ALL_LANES, count, d);
    }
    *n = count;
    return top;
}

#endif
