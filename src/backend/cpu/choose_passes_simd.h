// The passes themselves. Included once per instruction set, by a file that says in is_here()
// whether the machine has it, and that makes the table. The width of a vector follows from the
// file's instruction set.
//
// Sums of floats have eight lanes: element i of a run goes to lane i % 8, in order. Elements behind
// the last whole eight go to lane 0. The lanes are added in order. Skipping a block whose terms are
// all zero changes no bit. Shifting and dividing keep the order of logits, so a peak bounds its
// block.
#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backend/cpu/choose_passes.h"
#include "base/half.h"
#include "plan/noise.h"

#define BLOCK     CHOOSE_BLOCK
#define IN_BLOCKS static inline __attribute__((always_inline))

// Calls a block function with a constant size where the block is whole, so that its loops have
// known lengths.
#define WITH_SIZE(at, n, function, ...)                                                            \
    ((n) - (at) >= BLOCK ? function(__VA_ARGS__, BLOCK) : function(__VA_ARGS__, (n) - (at)))

// ---------------------------------------------------------------- vectors

enum { LANES = 8 };
#if defined(__AVX512F__)
enum { WIDTH = 16 };
#elif defined(__AVX2__)
enum { WIDTH = 8 };
#else
enum { WIDTH = 4 };
#endif
typedef float vfloat __attribute__((vector_size(4 * WIDTH)));
typedef float vlanes __attribute__((vector_size(4 * LANES)));
typedef int32_t vlane_ints __attribute__((vector_size(4 * LANES)));
typedef double vdouble __attribute__((vector_size(8 * LANES)));
typedef int32_t vint __attribute__((vector_size(4 * WIDTH)));
typedef uint32_t vuint __attribute__((vector_size(4 * WIDTH)));
typedef uint64_t vsum __attribute__((vector_size(4 * WIDTH)));

IN_BLOCKS vfloat vector_load(const float *x) {
    vfloat v;
    memcpy(&v, x, sizeof v);
    return v;
}

IN_BLOCKS void vector_store(float *x, vfloat v) { memcpy(x, &v, sizeof v); }

// a > b ? a : b; b where a is a NaN.
IN_BLOCKS vfloat vector_most(vfloat a, vfloat b) {
#if defined(__AVX512F__)
    return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
    return _mm256_max_ps(a, b);
#elif defined(__x86_64__)
    return _mm_max_ps(a, b);
#else
    const vint more = a > b;
    return (vfloat)(((vint)a & more) | ((vint)b & ~more));
#endif
}

// The largest of the elements, none of which is a NaN.
IN_BLOCKS float vector_peak(vfloat v) {
#if defined(__x86_64__)
#if defined(__AVX512F__)
    const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif defined(__AVX2__)
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
#else
    const __m128 four = v;
#endif
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
#else
    float most = v[0];
    for (int j = 1; j < WIDTH; j++) most = v[j] > most ? v[j] : most;
    return most;
#endif
}

// A bit for each element with |v| <= most.
IN_BLOCKS uint64_t vector_within(vfloat v, float most) {
    const vint magnitude = (vint)v & INT32_MAX;
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((vfloat)magnitude, _mm512_set1_ps(most), _CMP_LE_OQ);
#elif defined(__AVX2__)
    return (uint64_t)_mm256_movemask_ps((vfloat)((vfloat)magnitude <= most));
#elif defined(__x86_64__)
    return (uint64_t)_mm_movemask_ps((vfloat)((vfloat)magnitude <= most));
#else
    const vint within = (vfloat)magnitude <= most;
    uint64_t bits = 0;
    for (int j = 0; j < WIDTH; j++) bits |= (uint64_t)(within[j] & 1) << j;
    return bits;
#endif
}

// A bit for each element with v > least.
IN_BLOCKS uint64_t vector_over(vfloat v, float least) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask(v, _mm512_set1_ps(least), _CMP_GT_OQ);
#elif defined(__AVX2__)
    return (uint64_t)_mm256_movemask_ps((vfloat)(v > least));
#elif defined(__x86_64__)
    return (uint64_t)_mm_movemask_ps((vfloat)(v > least));
#else
    const vint over = v > least;
    uint64_t bits = 0;
    for (int j = 0; j < WIDTH; j++) bits |= (uint64_t)(over[j] & 1) << j;
    return bits;
#endif
}

// A bit for each element above that.
IN_BLOCKS uint64_t vector_above(vint v, int32_t least) {
#if defined(__AVX512F__)
    return _mm512_cmpgt_epi32_mask((__m512i)v, _mm512_set1_epi32(least));
#elif defined(__AVX2__)
    return (uint64_t)_mm256_movemask_ps((vfloat)(v > least));
#elif defined(__x86_64__)
    return (uint64_t)_mm_movemask_ps((vfloat)(v > least));
#else
    const vint above = v > least;
    uint64_t bits = 0;
    for (int j = 0; j < WIDTH; j++) bits |= (uint64_t)(above[j] & 1) << j;
    return bits;
#endif
}

// weight_of, bit for bit.
IN_BLOCKS vfloat vector_weight(vfloat x) {
    const vfloat y = x * 1.44269504f;
    const vfloat bounded = vector_most(y, (vfloat){0} - 126.0f);
    const vint k = __builtin_convertvector(bounded - 0.5f, vint);
    const vfloat f = bounded - __builtin_convertvector(k, vfloat);
    vfloat p = 1.5403530e-4f * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    const vfloat weight = p * (vfloat)((k + 127) << 23);
    return (vfloat)((vint)weight & (y > -126.0f));
}

// weight_units, element by element; a weight is at most 1, so they fit.
IN_BLOCKS vint vector_units(vfloat weight) {
    return __builtin_convertvector(weight * WEIGHT_ONE, vint);
}

// Adds elements, as numbers without a sign, in pairs.
IN_BLOCKS void vector_add(vsum *sum, vint v) { *sum += ((vsum)v & UINT32_MAX) + ((vsum)v >> 32); }

static inline uint64_t vector_total(const vsum *sum) {
    uint64_t total = 0;
    for (int j = 0; j < WIDTH / 2; j++) total += (*sum)[j];
    return total;
}

// The bits of the distances.
IN_BLOCKS vint vector_distance(vfloat v, float centre) { return (vint)(v - centre) & INT32_MAX; }

// Writes the elements whose bit is set, in their order; returns how many.
#if defined(__AVX512F__)
IN_BLOCKS int vector_compress(float *out, vfloat v, uint64_t bits) {
    const int n = __builtin_popcountll(bits);
    _mm512_mask_storeu_ps(out, (__mmask16)((1u << n) - 1),
                          _mm512_maskz_compress_ps((__mmask16)bits, v));
    return n;
}
#endif

// ---------------------------------------------------------------- blocks

static inline float value_of(const struct run *run, float logit) {
    return (logit - run->shift) / run->scale;
}

// The values of a block; behind the run's end there are more, without weight.
static inline void block_values(const struct run *run, int at, float *x) {
    const float *logit = run->logit + at;
    if (run->n - at < BLOCK) {
        for (int j = 0; j < BLOCK; j++)
            x[j] = at + j < run->n ? value_of(run, logit[j]) : -INFINITY;
        return;
    }
    for (int j = 0; j < BLOCK; j += WIDTH) {
        vfloat v = vector_load(logit + j) - run->shift;
        if (run->scale != 1) v /= run->scale;
        vector_store(x + j, v);
    }
}

static inline int block_size(const struct run *run, int at) {
    return run->n - at < BLOCK ? run->n - at : BLOCK;
}

// A bit for each element of the block that is at most so far from the centre.
static inline uint64_t block_within(const float *x, float centre, float distance, int n) {
    uint64_t bits = 0;
    for (int j = 0; j < BLOCK; j += WIDTH)
        bits |= vector_within(vector_load(x + j) - centre, distance) << j;
    return n < BLOCK ? bits & ((UINT64_C(1) << n) - 1) : bits;
}

static inline void block_weights(const float *x, float *weight) {
    for (int j = 0; j < BLOCK; j += WIDTH)
        vector_store(weight + j, vector_weight(vector_load(x + j)));
}

// Adds a block to the lanes.
IN_BLOCKS void block_sum(const float *x, vlanes *sum, int n) {
    for (int i = 0; i + LANES <= n; i += LANES) {
        vlanes next;
        memcpy(&next, x + i, sizeof next);
        *sum += next;
    }
    for (int i = n - n % LANES; i < n; i++) (*sum)[0] += x[i];
}

static inline double lanes_total(const vlanes *sum) {
    double total = 0;
    for (int j = 0; j < LANES; j++) total += (double)(*sum)[j];
    return total;
}

// Whether even the peak is too low to be within the distance.
static inline bool block_below(const struct run *run, int at, float centre, float distance) {
    return value_of(run, run->peak[at / BLOCK]) - centre < -distance;
}

// Whether the block surely has no unit of mass: the weight of its peak is below half of one.
static inline bool block_unitless(const struct run *run, int at) {
    return !(value_of(run, run->peak[at / BLOCK]) * 1.44269504f > -31.0f);
}

// Whether even the peak has no weight.
static inline bool block_weightless(const struct run *run, int at) {
    return !(value_of(run, run->peak[at / BLOCK]) * 1.44269504f > -126.0f); // as weight_of has it
}

// ---------------------------------------------------------------- the model's logits

static float peaks(const float *logit, int n, float *peak, bool *holes) {
    const vfloat lowest = (vfloat){0} - INFINITY;
    vfloat broken = {0}; // a product with zero is zero, unless there was no number to begin with
    float most = -INFINITY;
    for (int at = 0; at < n; at += BLOCK) {
        float rest[BLOCK];
        const float *x = logit + at;
        if (n - at < BLOCK) {
            for (int j = 0; j < BLOCK; j++) rest[j] = at + j < n ? x[j] : logit[at];
            x = rest;
        }
        vfloat here = lowest, zero = {0};
        for (int j = 0; j < BLOCK; j += WIDTH) {
            const vfloat v = vector_load(x + j);
            here = vector_most(v, here);
            zero += v * 0.0f;
        }
        broken += zero;
        peak[at / BLOCK] = vector_peak(here);
        most = peak[at / BLOCK] > most ? peak[at / BLOCK] : most;
    }
    *holes = false;
    for (int j = 0; j < WIDTH; j++) *holes |= !(broken[j] == 0);
    return most;
}

// Running sums over the finite logits, less the shift.
struct moments {
    vdouble sum, squares;
    vlane_ints minus_count; // a comparison that holds is -1
};

IN_BLOCKS void moments_add(struct moments *moments, const vlanes *lanes, float shift) {
    vlanes x = *lanes;
    const vlane_ints finite = x - x == 0;
    const vlane_ints shifts = (vlane_ints)((vlanes){0} + shift);
    x = (vlanes)(((vlane_ints)x & finite) | (shifts & ~finite)); // adds nothing
    const vdouble d = __builtin_convertvector(x, vdouble) - (double)shift;
    moments->sum += d;
    moments->squares += d * d;
    moments->minus_count += finite;
}

static double deviation(const float *logit, int n, float shift) {
    struct moments moments = {0};
    vlanes x;
    for (int i = 0; i + LANES <= n; i += LANES) {
        memcpy(&x, logit + i, sizeof x);
        moments_add(&moments, &x, shift);
    }
    for (int i = n - n % LANES; i < n; i++) {
        x = (vlanes){0} + NAN;
        x[0] = logit[i];
        moments_add(&moments, &x, shift);
    }
    double sum = 0, squares = 0;
    int count = 0;
    for (int j = 0; j < LANES; j++) {
        sum += moments.sum[j];
        squares += moments.squares[j];
        count -= moments.minus_count[j];
    }
    const double mean_shifted = sum / count;
    const double variance = squares / count - mean_shifted * mean_shifted;
    return sqrt(variance > 0 ? variance : 0);
}

// ---------------------------------------------------------------- runs

static int count_within(const struct run *run, float centre, float distance) {
    float x[BLOCK];
    int count = 0;
    for (int at = 0; at < run->n; at += BLOCK) {
        if (block_below(run, at, centre, distance)) continue;
        block_values(run, at, x);
        count += __builtin_popcountll(block_within(x, centre, distance, block_size(run, at)));
    }
    return count;
}

// The units of two vectors fit into one: a pair is at most 2^31.
static inline void block_mass(const struct run *run, int at, float centre, float distance,
                              vsum *sum) {
    float x[BLOCK];
    block_values(run, at, x);
    for (int j = 0; j < BLOCK; j += 2 * WIDTH) {
        const vfloat a = vector_load(x + j), b = vector_load(x + j + WIDTH);
        const vint a_within = (vfloat)vector_distance(a, centre) <= distance;
        const vint b_within = (vfloat)vector_distance(b, centre) <= distance;
        const vint a_units = vector_units(vector_weight(a)) & a_within;
        const vint b_units = vector_units(vector_weight(b)) & b_within;
        vector_add(sum, (vint)((vuint)a_units + (vuint)b_units));
    }
}

static uint64_t mass_within(const struct run *run, float centre, float distance) {
    vsum sum = {0};
    for (int at = 0; at < run->n; at += BLOCK)
        if (!block_below(run, at, centre, distance) && !block_unitless(run, at))
            block_mass(run, at, centre, distance, &sum);
    return vector_total(&sum);
}

static uint64_t mass_left_out(const struct run *run, float centre, float reach) {
    vsum sum = {0};
    for (int at = 0; at < run->n; at += BLOCK)
        if (block_below(run, at, centre, reach) && !block_unitless(run, at))
            block_mass(run, at, centre, INFINITY, &sum);
    return vector_total(&sum);
}

// Without the elements at that very distance whose id is above last_id.
static inline uint64_t block_before(const struct run *run, int at, const float *x, uint64_t within,
                                    float centre, float distance, int32_t last_id) {
    for (uint64_t left = within; left; left &= left - 1) {
        const int j = __builtin_ctzll(left);
        const int32_t id = run->id ? run->id[at + j] : at + j;
        if (id > last_id && fabsf(x[j] - centre) == distance) within &= ~(UINT64_C(1) << j);
    }
    return within;
}

// The largest distance below; nothing is within that of 0.
static inline float distance_below(float distance) {
    return distance > 0 ? f32_from_bits(f32_to_bits(distance) - 1) : -1.0f;
}

// The overwritten entries were read before: a candidate never moves to a later place.
IN_BLOCKS int block_keep(const struct run *run, int at, const float *x, uint64_t within, float *out,
                         int32_t *id) {
    int kept = 0;
#if defined(__AVX512F__)
    vint places;
    for (int j = 0; j < WIDTH; j++) places[j] = j;
    for (int j = 0; j < BLOCK && within >> j; j += WIDTH) {
        const uint64_t bits = within >> j & ((1 << WIDTH) - 1);
        vint ids = places + (at + j);
        if (run->id) ids = (vint)_mm512_maskz_loadu_epi32((__mmask16)bits, run->id + at + j);
        vector_compress(out + kept, vector_load(x + j), bits);
        kept += vector_compress((float *)id + kept, (vfloat)ids, bits);
    }
#else
    if (__builtin_popcountll(within) > BLOCK / 4) { // without branches
        for (int j = 0; j < BLOCK && within >> j; j++) {
            out[kept] = x[j];
            id[kept] = run->id ? run->id[at + j] : at + j;
            kept += (int)(within >> j & 1);
        }
        return kept;
    }
    for (; within; within &= within - 1) {
        const int j = __builtin_ctzll(within);
        out[kept] = x[j];
        id[kept++] = run->id ? run->id[at + j] : at + j;
    }
#endif
    return kept;
}

// A bit for each element of the block that is neither a NaN nor -INFINITY.
static inline uint64_t block_candidates(const float *x) {
    uint64_t bits = 0;
    for (int j = 0; j < BLOCK; j += WIDTH) bits |= vector_over(vector_load(x + j), -INFINITY) << j;
    return bits;
}

static int gather(const float *logit, int n, const uint64_t *allowed, float *out, int32_t *id) {
    const struct run all = {.n = n};
    int kept = 0;
    for (int at = 0; at < n; at += BLOCK) {
        float rest[BLOCK];
        const float *x = logit + at;
        const uint64_t word = allowed ? allowed[at / BLOCK] : UINT64_MAX;
        if (word == 0) continue;
        if (n - at < BLOCK) {
            for (int j = 0; j < BLOCK; j++) rest[j] = at + j < n ? x[j] : -INFINITY;
            x = rest;
        }
        kept += block_keep(&all, at, x, word & block_candidates(x), out + kept, id + kept);
    }
    return kept;
}

static int keep_within(const struct run *run, float centre, float distance, int32_t last_id,
                       float *out, int32_t *id) {
    const float below = distance_below(distance);
    float x[BLOCK];
    int kept = 0;
    for (int at = 0; at < run->n; at += BLOCK) {
        if (block_below(run, at, centre, distance)) continue;
        block_values(run, at, x);
        uint64_t within = block_within(x, centre, distance, block_size(run, at));
        if (last_id < INT32_MAX && within & ~block_within(x, centre, below, BLOCK))
            within = block_before(run, at, x, within, centre, distance, last_id);
        kept += block_keep(run, at, x, within, out + kept, id + kept);
    }
    return kept;
}

// The first digits of distances.
IN_BLOCKS vint vector_digits(vint distance, const struct ruler *ruler) {
    const vint above = distance - ruler->low, digit = (above & ~(above >> 31)) >> ruler->shift;
    const vint past = digit > CHOOSE_DIGITS - 1;
    return (digit & ~past) | ((CHOOSE_DIGITS - 1) & past);
}

// Measures a block; behind the run's end there are more elements, whose units are 0. Returns a bit
// for each within reach.
static inline uint64_t block_measure(const struct run *run, int at, const struct ruler *ruler,
                                     const struct near *near, int32_t *digits, vsum *total) {
    float x[BLOCK];
    const int n = block_size(run, at);
    block_values(run, at, x);
    for (int j = 0; j < BLOCK; j += WIDTH) {
        const vfloat v = vector_load(x + j);
        const vint distance = vector_distance(v, ruler->centre);
        const vint digit = vector_digits(distance, ruler);
        const vint units =
            ruler->measure == MEASURE_MASS ? vector_units(vector_weight(v)) : (vint){0} + 1;
        memcpy(digits + j, &digit, sizeof digit);
        memcpy(near->distance + at + j, &distance, sizeof distance);
        memcpy(near->units + at + j, &units, sizeof units);
        vector_add(total, units);
    }
    for (int j = n; j < BLOCK; j++) near->units[at + j] = 0;
    return block_within(x, ruler->centre, ruler->reach, n);
}

static inline void block_digits(const int32_t *digit, const uint32_t *units, uint64_t within,
                                uint64_t *sum) {
    if (__builtin_popcountll(within) > BLOCK / 8) { // without branches
        for (int j = 0; j < BLOCK; j++) sum[digit[j]] += units[j];
        return;
    }
    for (; within; within &= within - 1) {
        const int j = __builtin_ctzll(within);
        sum[digit[j]] += units[j];
    }
}

static inline bool block_counts(const struct run *run, int at, const struct ruler *ruler) {
    return !block_below(run, at, ruler->centre, ruler->reach) &&
           !(ruler->measure == MEASURE_MASS && block_unitless(run, at));
}

static uint64_t measure(const struct run *run, const struct ruler *ruler, const struct near *near,
                        uint64_t *sum) {
    int32_t digit[BLOCK];
    vsum total = {0};
    for (int at = 0; at < run->n; at += BLOCK) {
        if (!block_counts(run, at, ruler)) continue;
        const uint64_t within = block_measure(run, at, ruler, near, digit, &total);
        if (sum) block_digits(digit, near->units + at, within, sum);
    }
    return vector_total(&total);
}

// A bit for each of a block's distances that has that first digit; -1: any.
static inline uint64_t block_of_digit(const uint32_t *distance, const struct ruler *ruler,
                                      int digit) {
    if (digit < 0) return UINT64_MAX;
    const int32_t first = ruler->low + (digit << ruler->shift);
    const int32_t before = digit > 0 ? first - 1 : -1;
    const int32_t last = digit < CHOOSE_DIGITS - 1 ? first + ((1 << ruler->shift) - 1) : INT32_MAX;
    uint64_t bits = 0;
    for (int j = 0; j < BLOCK; j += WIDTH) {
        vint v;
        memcpy(&v, distance + j, sizeof v);
        bits |= (vector_above(v, before) & ~vector_above(v, last)) << j;
    }
    return bits;
}

// The overwritten entries were read before: none moves to a later place.
static int list(const struct run *run, const struct ruler *ruler, int digit,
                const struct near *near) {
    int n = 0;
    for (int at = 0; at < run->n; at += BLOCK) {
        if (!block_counts(run, at, ruler)) continue;
        uint64_t listed = block_of_digit(near->distance + at, ruler, digit);
        for (; listed; listed &= listed - 1) {
            const int i = at + __builtin_ctzll(listed);
            if (near->units[i] == 0) continue; // behind the run's end, too
            near->distance[n] = near->distance[i];
            near->units[n] = near->units[i];
            near->id[n++] = run->id ? run->id[i] : i;
        }
    }
    return n;
}

static float mean(const struct run *run, uint64_t *units) {
    float x[BLOCK], weight[BLOCK];
    vlanes sum = {0}, mass = {0};
    vsum total = {0};
    for (int at = 0; at < run->n; at += BLOCK) {
        if (block_weightless(run, at)) continue;
        block_values(run, at, x);
        block_weights(x, weight);
        for (int j = 0; j < BLOCK; j += WIDTH)
            vector_add(&total, vector_units(vector_load(weight + j)));
        // a logit without weight may be -INFINITY
        for (int j = 0; j < BLOCK; j++) x[j] = weight[j] > 0 ? weight[j] * x[j] : 0.0f;
        WITH_SIZE(at, run->n, block_sum, x, &sum);
        WITH_SIZE(at, run->n, block_sum, weight, &mass);
    }
    *units = vector_total(&total);
    return (float)(lanes_total(&sum) / lanes_total(&mass));
}

// ---------------------------------------------------------------- the choice

struct best {
    int32_t id; // -1: none yet
    float sum;
    double limit; // exp(-sum), a little more
};

// An upper bound of exp(x), for any finite x: weight_of's error and the rounding of sums covered,
// and capped where it could not be represented.
static double exp_bound(float x) {
    if (x > 80) return (double)INFINITY;
    return 1.00001 * (x <= 0 ? (double)weight_of(x) : 1 / (double)weight_of(-x));
}

// To pass a best sum b, a candidate needs -log(u) < exp(logit - b), and -log(u) > 1 - u: most
// cannot win, which is seen without logarithms.
static inline void best_see(struct best *best, float x, int32_t id, uint64_t bits) {
    const double uniform = noise_uniform(bits);
    if (best->id >= 0 && 1 - uniform > (double)weight_of(x) * best->limit) return;
    const float sum = x + noise_gumbel(uniform);
    if (best->id >= 0 && (sum < best->sum || (sum == best->sum && id > best->id))) return;
    *best = (struct best){id, sum, exp_bound(-sum)};
}

// The least 53 bits that let a logit as good as the block's peak win; 0 when any might.
static inline int64_t block_least(const struct run *run, int at, const struct best *best) {
    const double most =
        1.00001 * (double)weight_of(value_of(run, run->peak[at / BLOCK])) * best->limit;
    if (best->id < 0 || !(most < 1)) return 0;
    const double least = (1 - most) * 0x1p53 - 4; // 4: more than the conversions round
    return least > 0 ? (int64_t)least : 0;
}

IN_BLOCKS void block_bits(const struct run *run, int at, uint64_t key, const uint64_t *steps,
                          int64_t *bits, int n) {
    if (run->id) {
        for (int j = 0; j < n; j++) bits[j] = (int64_t)noise_bits(key, (uint32_t)run->id[at + j]);
    } else {
        const uint64_t first = key + (uint64_t)at * NOISE_GOLDEN;
        for (int j = 0; j < n; j++) bits[j] = (int64_t)(noise_mix(first + steps[j]) >> 11);
    }
}

IN_BLOCKS void block_choose(const struct run *run, int at, uint64_t key, const uint64_t *steps,
                            struct best *best, int n) {
    float x[BLOCK];
    int64_t bits[BLOCK], any = 0;
    const int64_t least = block_least(run, at, best);
    block_bits(run, at, key, steps, bits, n);
    for (int j = 0; j < n; j++) any |= least - 1 - bits[j]; // negative: bits[j] >= least
    if (any >= 0) return;
    block_values(run, at, x);
    for (int j = 0; j < n; j++)
        if (bits[j] >= least)
            best_see(best, x[j], run->id ? run->id[at + j] : at + j, (uint64_t)bits[j]);
}

// The block of the best logit comes first: its result rules most other blocks out.
static int32_t choose(const struct run *run, uint64_t key) {
    uint64_t steps[BLOCK];
    int top = 0;
    struct best best = {.id = -1};
    for (int j = 0; j < BLOCK; j++) steps[j] = (uint64_t)j * NOISE_GOLDEN;
    for (int i = 1; i < choose_blocks(run->n); i++)
        if (run->peak[i] > run->peak[top]) top = i;
    WITH_SIZE(top * BLOCK, run->n, block_choose, run, top * BLOCK, key, steps, &best);
    for (int at = 0; at < run->n; at += BLOCK)
        if (at != top * BLOCK) WITH_SIZE(at, run->n, block_choose, run, at, key, steps, &best);
    return best.id;
}

#define PASSES_TABLE(its_name)                                                                     \
    {                                                                                              \
        .name = (its_name), .is_here = is_here, .peaks = peaks, .gather = gather,                  \
        .count_within = count_within, .mass_within = mass_within, .mass_left_out = mass_left_out,  \
        .keep_within = keep_within, .measure = measure, .list = list, .mean = mean,                \
        .deviation = deviation, .choose = choose                                                   \
    }
