// The filters of a row and its draw, by one block. choose.cu calls filter_choose.
//
// While candidates are many, they are the logits themselves or a list in memory, in the order of
// their ids. Passes over logits read only the neighbourhoods whose largest logit (peak) is high
// enough. Once candidates are few, each thread has one, and filters sort.
//
// The end of a run of the nearest is found by sums of integers over steps of the distance, then by
// a sort of the step in which the wanted sum is reached. So no way to find it changes the result.
#ifndef RN_BACKEND_CUDA_CHOOSE_FILTER_CUH
#define RN_BACKEND_CUDA_CHOOSE_FILTER_CUH

#include "backend/cuda/choose.cuh"

// ---------------------------------------------------------------- the block's state

enum {
    WARPS = CHOOSE_THREADS / 32,
    LOADS = 4, // neighbourhoods that a warp reads at a time
    TILE_BYTES = CHOOSE_STEPS * 8,
    ID_BITS = 22,
    SLOT_BITS = 10,
};
static_assert(1 << ID_BITS == CHOOSE_MAX_VOCAB, "an id fits into a key");
static_assert(CHOOSE_FEW <= 1 << SLOT_BITS, "a slot fits into a key");
static_assert(CHOOSE_THREADS >= 64 && CHOOSE_STEPS % CHOOSE_THREADS == 0, "shares of the steps");
static_assert(2 * CHOOSE_FEW <= CHOOSE_STEPS, "keys fit twice");

struct filter_memory {
    uint64_t room[ROOM];
    uint64_t found, nearer;
    int32_t n_listed;
    double total[2];
    int32_t count[2][32];
    double lane[16];
    // sums by steps of the distance; or the keys of a sort, twice; or tiles of sums of floats
    alignas(16) uint64_t sum[CHOOSE_STEPS];
    float value[CHOOSE_FEW];
    int32_t id[CHOOSE_FEW];
    uint32_t block[CHOOSE_THREADS]; // neighbourhoods that are looked at
};
static_assert(sizeof(struct filter_memory) <= CHOOSE_FILTER_SHARED, "shared memory has the room");

// The candidates while they are many. Whole: those of all ids whose logit is a candidate, as
// (logit - top) / scale. Otherwise a list, whose ids ascend.
struct run {
    const float *logit; // whole: [n_look]
    const float *peak;  // whole: of each neighbourhood
    float *value;       // the list: [n]; logit may be the same memory
    int32_t *id;
    int n, n_look; // candidates; places to look at
    bool whole;
    float top, scale;
};

DEV int run_blocks(const struct run &run) {
    return (run.n_look + CHOOSE_PEAK_IDS - 1) / CHOOSE_PEAK_IDS;
}

DEV float run_scaled(const struct run &run, float logit) { return (logit - run.top) / run.scale; }

// ---------------------------------------------------------------- passes over many

// Which of the neighbourhoods from `first` on, one for each thread, may have candidates that the
// caller wants: `has(peak)`. They go to m.block, in their order. Returns how many.
template <class F>
DEV int blocks_select(const struct run &run, struct filter_memory &m, int first, F has) {
    const int b = first + (int)threadIdx.x, n_blocks = run_blocks(run);
    const int lane = (int)threadIdx.x % 32;
    if (!run.whole) return min(n_blocks - first, (int)CHOOSE_THREADS);
    const bool yes = b < n_blocks && has(run_scaled(run, run.peak[b]));
    const uint32_t bits = __ballot_sync(ALL_LANES, yes);
    uint64_t total;
    const uint64_t before = block_before(lane == 0 ? (uint64_t)__popc(bits) : 0, m.room, &total);
    const uint64_t base = __shfl_sync(ALL_LANES, before, 0);
    if (yes) m.block[base + (uint64_t)__popc(bits & ((1u << lane) - 1))] = (uint32_t)b;
    __syncthreads();
    return (int)total;
}

// Places of the run that a lane looks at, those of LOADS neighbourhoods.
struct places {
    int at[LOADS * PEAK_LOADS]; // -1: none
    float x[LOADS * PEAK_LOADS];
};

// The selected neighbourhoods j, j + step, ... below end. All loads are in flight at once.
DEV void places_load(const struct run &run, const struct filter_memory &m, int first, int j,
                     int step, int end, struct places &p) {
    const int lane = (int)threadIdx.x % 32;
    UNROLL for (int k = 0; k < LOADS * PEAK_LOADS; k++) {
        const int b = j + k / PEAK_LOADS * step;
        const int block = b >= end ? 0 : run.whole ? (int)m.block[b] : first + b;
        const int i = block * CHOOSE_PEAK_IDS + k % PEAK_LOADS * 32 + lane;
        p.at[k] = b < end && i < run.n_look ? i : -1;
        p.x[k] = p.at[k] < 0 ? -INFINITY : run.whole ? run.logit[i] : run.value[i];
    }
    if (!run.whole) return;
    UNROLL for (int k = 0; k < LOADS * PEAK_LOADS; k++) {
        if (p.x[k] > -INFINITY)
            p.x[k] = run_scaled(run, p.x[k]);
        else
            p.at[k] = -1;
    }
}

DEV int32_t run_id(const struct run &run, int at) { return run.whole ? at : run.id[at]; }

// visit(x, at) for each candidate, in any order, where has(peak) holds for its neighbourhood.
template <class Has, class Visit>
DEV void run_visit(const struct run &all, struct filter_memory &m, Has has, Visit visit) {
    const struct run run = all; // in registers
    const int warp = (int)threadIdx.x / 32;
    for (int first = 0; first < run_blocks(run); first += CHOOSE_THREADS) {
        const int n = blocks_select(run, m, first, has);
        for (int j = warp; j < n; j += WARPS * LOADS) {
            struct places p;
            places_load(run, m, first, j, WARPS, n, p);
            UNROLL for (int k = 0; k < LOADS * PEAK_LOADS; k++) {
                if (p.at[k] >= 0) visit(p.x[k], p.at[k]);
            }
        }
        __syncthreads();
    }
}

// The candidates for which keep(x, id) holds become the list; none in neighbourhoods without
// has(peak). A candidate never moves to a later place, so the list may replace what is read.
template <class Has, class Keep>
DEV void run_keep(struct run &all, struct filter_memory &m, Has has, Keep keep) {
    const struct run run = all; // in registers
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int kept = 0, turn = 0;
    __syncthreads();
    for (int first = 0; first < run_blocks(run); first += CHOOSE_THREADS) {
        const int n = blocks_select(run, m, first, has);
        for (int base = 0; base < n; base += WARPS * LOADS, turn ^= 1) {
            struct places p;
            uint32_t bits[LOADS * PEAK_LOADS];
            int32_t id[LOADS * PEAK_LOADS];
            int count = 0;
            const int each = min((n - base + WARPS - 1) / WARPS, (int)LOADS);
            const int j = base + warp * each;
            places_load(run, m, first, j, 1, min(j + each, n), p);
            UNROLL for (int k = 0; k < LOADS * PEAK_LOADS; k++) {
                id[k] = p.at[k] < 0 ? -1 : run_id(run, p.at[k]);
                bits[k] = __ballot_sync(ALL_LANES, id[k] >= 0 && keep(p.x[k], id[k]));
                count += __popc(bits[k]);
            }
            if (lane == 0) m.count[turn][warp] = count;
            __syncthreads(); // all has been read
            int sum = lane < WARPS ? m.count[turn][lane] : 0;
            UNROLL for (int d = 1; d < 32; d *= 2) {
                const int other = __shfl_up_sync(ALL_LANES, sum, d);
                if (lane >= d) sum += other;
            }
            int to = kept + __shfl_sync(ALL_LANES, sum, warp) - count;
            kept += __shfl_sync(ALL_LANES, sum, 31);
            UNROLL for (int k = 0; k < LOADS * PEAK_LOADS; k++) {
                if (bits[k] >> lane & 1) {
                    const int place = to + __popc(bits[k] & ((1u << lane) - 1));
                    run.value[place] = p.x[k];
                    run.id[place] = id[k];
                }
                to += __popc(bits[k]);
            }
        }
        __syncthreads();
    }
    all.n = all.n_look = kept;
    all.whole = false;
}

struct any_peak {
    DEV bool operator()(float) const { return true; }
};

// All candidates as a list.
CALLED void run_list(struct run &run, struct filter_memory &m) {
    run_keep(run, m, any_peak(), [](float, int32_t) { return true; });
}

// All candidates at most so far from the best.
CALLED void run_keep_within(struct run &run, struct filter_memory &m, float distance) {
    run_keep(
        run, m, [&](float peak) { return -peak <= distance; },
        [&](float x, int32_t) { return -x <= distance; });
}

// ---------------------------------------------------------------- the end of a run

// The sum that is looked for, and the part of it that is nearer than what is looked at.
struct goal {
    uint64_t wanted, nearer; // nearer < wanted
};

DEV void sums_clear(struct filter_memory &m) {
    __syncthreads();
    for (int i = (int)threadIdx.x; i < CHOOSE_STEPS; i += CHOOSE_THREADS) m.sum[i] = 0;
    __syncthreads();
}

// The step in which the goal is reached; what is before it is nearer from now on.
CALLED int step_of_goal(struct filter_memory &m, struct goal &goal) {
    enum { EACH = CHOOSE_STEPS / CHOOSE_THREADS };
    const uint64_t *own = m.sum + (int)threadIdx.x * EACH;
    uint64_t mine = 0, total;
    __syncthreads();
    for (int i = 0; i < EACH; i++) mine += own[i];
    uint64_t sum = goal.nearer + block_before(mine, m.room, &total);
    if (sum < goal.wanted && sum + mine >= goal.wanted) {
        int i = 0;
        for (; sum + own[i] < goal.wanted; i++) sum += own[i];
        m.found = (uint64_t)((int)threadIdx.x * EACH + i);
        m.nearer = sum;
    }
    __syncthreads();
    goal.nearer = m.nearer;
    return (int)m.found;
}

enum measure { MEASURE_MASS, MEASURE_COUNT };

// The sums by steps of the distance, of units of mass or of ones.
CALLED void run_measure(const struct run &run, struct filter_memory &m, float centre,
                        enum measure measure) {
    const bool mass = measure == MEASURE_MASS;
    sums_clear(m);
    run_visit(
        run, m, [&](float peak) { return !mass || peak > -22.0f; },
        [&](float x, int) {
            const uint32_t units = mass ? units_of(x) : 1u;
            if (units) step_add(m.sum + distance_step(fabsf(x - centre)), units);
        });
}

// Of all candidates, in the order of distance and id.
DEV uint64_t place_key(uint32_t distance, int32_t id) {
    return (uint64_t)distance << ID_BITS | (uint32_t)id;
}

// The key of the candidate of a list that reaches the goal, when many are in its step: digit by
// digit of the keys.
CALLED uint64_t cut_of_many(const struct run &run, struct filter_memory &m, float centre,
                            enum measure measure, int step, struct goal goal) {
    uint64_t cut = 0;
    for (int shift = 42, bits = 11, known = 53; known > 0; known = shift, shift -= bits) {
        if (shift < 0) {
            bits += shift;
            shift = 0;
        }
        sums_clear(m);
        run_visit(run, m, any_peak(), [&](float x, int at) {
            if (distance_step(fabsf(x - centre)) != step) return;
            const uint64_t key = place_key(distance_bits(x, centre), run.id[at]);
            const uint32_t units = measure == MEASURE_MASS ? units_of(x) : 1u;
            if (key >> known == cut && units)
                step_add(m.sum + (key >> shift & ((1u << bits) - 1)), units);
        });
        cut = cut << bits | (uint64_t)step_of_goal(m, goal);
    }
    return cut;
}

// A thread's own candidate.
struct one {
    float x;
    int32_t id; // negative: none
};

// The candidate of this thread in the order of the keys, of n of them. Threads without a candidate
// have the largest key. The low bits of a key are the thread of its candidate.
CALLED struct one few_sort(struct one own, int n, uint64_t key, struct filter_memory &m) {
    const int thread = (int)threadIdx.x;
    int all = 1, turn = 0;
    while (all < n) all *= 2;
    __syncthreads();
    m.value[thread] = own.x;
    m.id[thread] = own.id;
    for (int size = 2; size <= all; size *= 2) {
        for (int by = size / 2; by > 0; by /= 2) {
            uint64_t other = 0;
            if (by >= 32) {
                m.sum[turn * CHOOSE_FEW + thread] = key;
                __syncthreads();
                other = m.sum[turn * CHOOSE_FEW + (thread ^ by)];
                turn ^= 1;
            }
            if (thread / 32 * 32 >= all) continue; // a warp without candidates
            if (by < 32) other = __shfl_xor_sync(ALL_LANES, key, by);
            const bool takes_less = ((thread & size) == 0) == ((thread & by) == 0);
            key = (other < key) == takes_less ? other : key;
        }
    }
    __syncthreads();
    const int slot = (int)(key & ((1u << SLOT_BITS) - 1));
    return thread < n ? one{m.value[slot], m.id[slot]} : own;
}

DEV uint64_t slot_key(uint64_t order, const struct one &own) {
    if (own.id < 0) return UINT64_MAX;
    return (order << ID_BITS | (uint32_t)own.id) << SLOT_BITS | threadIdx.x;
}

// The candidates of a step, in m.value and m.id, in any order. Returns how many there are; more
// than CHOOSE_FEW are not all there.
DEV int step_list(const struct run &run, struct filter_memory &m, float centre, int step) {
    if (threadIdx.x == 0) m.n_listed = 0;
    __syncthreads();
    run_visit(run, m, any_peak(), [&](float x, int at) {
        if (distance_step(fabsf(x - centre)) != step) return;
        const int place = atomicAdd(&m.n_listed, 1);
        if (place >= CHOOSE_FEW) return;
        m.value[place] = x;
        m.id[place] = run.id[at];
    });
    return m.n_listed;
}

// The same key when they are few, and listed: they are sorted.
DEV uint64_t cut_of_few(struct filter_memory &m, float centre, enum measure measure, int n,
                        const struct goal &goal) {
    struct one own = {0.0f, -1};
    uint64_t total;
    if ((int)threadIdx.x < n) own = {m.value[threadIdx.x], m.id[threadIdx.x]};
    own = few_sort(own, n, slot_key(distance_bits(own.x, centre), own), m);
    const uint64_t units = own.id < 0 ? 0 : measure == MEASURE_MASS ? units_of(own.x) : 1u;
    const uint64_t sum = goal.nearer + block_before(units, m.room, &total);
    if (sum < goal.wanted && sum + units >= goal.wanted)
        m.found = place_key(distance_bits(own.x, centre), own.id);
    __syncthreads();
    return m.found;
}

// All candidates of a list up to the one that reaches the goal, which is in that step.
CALLED void list_keep(struct run &run, struct filter_memory &m, float centre, enum measure measure,
                      int step, const struct goal &goal) {
    const int n = step_list(run, m, centre, step);
    const uint64_t cut = n <= CHOOSE_FEW ? cut_of_few(m, centre, measure, n, goal)
                                         : cut_of_many(run, m, centre, measure, step, goal);
    run_keep(run, m, any_peak(),
             [&](float x, int32_t id) { return place_key(distance_bits(x, centre), id) <= cut; });
}

// ---------------------------------------------------------------- sums in lanes

// Sums of floats have eight lanes: element i goes to lane i % 8, in order. Elements behind the last
// whole eight go to lane 0. The lanes are added in order. So a warp adds, and the others bring the
// elements: pair(i, x, y). m.total: of x and y.
template <class T, class F> DEV void lanes_sum(struct filter_memory &m, int n, F pair) {
    enum { TILE = TILE_BYTES / 4 / (int)sizeof(T) };
    const int thread = (int)threadIdx.x, whole = n - n % 8;
    T sum = 0;
    __syncthreads();
    for (int first = 0, turn = 0; first < n; first += TILE, turn ^= 1) {
        T *tile = (T *)m.sum + turn * 2 * TILE;
        const int end = min(n - first, (int)TILE), end_whole = min(whole - first, (int)TILE);
        for (int i = thread - 32; thread >= 32 && i < end; i += CHOOSE_THREADS - 32)
            pair(first + i, tile[i], tile[TILE + i]);
        __syncthreads();
        if (thread >= 16) continue;
        const T *own = tile + thread / 8 * TILE;
        int i = thread % 8;
        for (; i + 56 < end_whole; i += 64) {
            T next[8];
            UNROLL for (int j = 0; j < 8; j++) next[j] = own[i + 8 * j];
            UNROLL for (int j = 0; j < 8; j++) sum += next[j];
        }
        for (; i < end_whole; i += 8) sum += own[i];
        for (i = end_whole; thread % 8 == 0 && i < end; i++) sum += own[i];
    }
    if (thread < 16) m.lane[thread] = (double)sum;
    __syncthreads();
    if (thread < 2) {
        double total = 0;
        for (int j = 0; j < 8; j++) total += m.lane[thread * 8 + j];
        m.total[thread] = total;
    }
    __syncthreads();
}

// The standard deviation of the finite ones of n logits; the sums are of logit - shift.
DEV double logits_deviation(struct filter_memory &m, const float *logits, int n, float shift) {
    uint64_t count = 0;
    lanes_sum<double>(m, n, [&](int i, double &x, double &y) {
        const bool finite = isfinite(logits[i]);
        x = finite ? (double)logits[i] - (double)shift : 0.0;
        y = x * x;
        count += finite;
    });
    const int n_finite = (int)block_sum(count, m.room);
    const double mean = m.total[0] / n_finite;
    const double variance = m.total[1] / n_finite - mean * mean;
    return sqrt(variance > 0 ? variance : 0.0);
}

// The mean of n values under their own distribution; *total: their units of mass.
CALLED float values_mean(struct filter_memory &m, const float *value, int n, uint64_t *total) {
    uint64_t units = 0;
    lanes_sum<float>(m, n, [&](int i, float &x, float &y) {
        y = weight_of(value[i]);
        x = y > 0 ? y * value[i] : 0.0f;
        units += weight_units(y);
    });
    *total = block_sum(units, m.room);
    return (float)(m.total[0] / m.total[1]);
}

// ---------------------------------------------------------------- few candidates

enum filter_step { STEP_TOP_K, STEP_TYPICAL, STEP_TOP_P, STEP_MIN_P, STEP_XTC };

// Where the filters are. The step that is next may know the units that it has to reach: then the
// list need not have all of its candidates.
struct progress {
    enum filter_step next;
    float centre;    // of typical
    uint64_t wanted; // 0: not known
};

// The first n threads have a candidate.
struct few {
    struct one own;
    int n;
};

DEV void few_sort_near(struct few &few, struct filter_memory &m, float centre) {
    few.own = few_sort(few.own, few.n, slot_key(distance_bits(few.own.x, centre), few.own), m);
}

DEV void few_sort_ids(struct few &few, struct filter_memory &m) {
    few.own = few_sort(few.own, few.n, slot_key(0, few.own), m);
}

DEV void few_keep_first(struct few &few, int n) {
    if ((int)threadIdx.x >= n) few.own.id = -1;
    few.n = min(few.n, n);
}

// The shortest run of the first whose units reach the wanted sum; 0: that share of their total.
CALLED void few_keep_share(struct few &few, struct filter_memory &m, float share, uint64_t wanted) {
    const uint64_t units = few.own.id >= 0 ? units_of(few.own.x) : 0;
    uint64_t total;
    const uint64_t before = block_before(units, m.room, &total);
    if (!wanted) wanted = units_wanted(total, share);
    const bool stays = few.own.id >= 0 && before < wanted;
    few_keep_first(few, (int)block_sum(stays, m.room));
}

DEV void few_typical(struct few &few, struct filter_memory &m, float share,
                     const struct progress &at, bool by_id) {
    float centre = at.centre;
    uint64_t wanted = at.next == STEP_TYPICAL ? at.wanted : 0;
    if (!wanted) {
        uint64_t total;
        if (!by_id) few_sort_ids(few, m);
        __syncthreads();
        m.value[threadIdx.x] = few.own.x;
        __syncthreads();
        centre = values_mean(m, m.value, few.n, &total);
        wanted = units_wanted(total, share);
    }
    few_sort_near(few, m, centre);
    few_keep_share(few, m, share, wanted);
    const uint64_t top = block_max(few.own.id >= 0 ? best_key(few.own.x, 0) : 0, m.room);
    few.own.x -= best_float(top);
}

// All tokens that reach the threshold go, except the last of them in order.
DEV void few_xtc(struct few &few, struct filter_memory &m, float share) {
    const bool here = few.own.id >= 0;
    const float weight = weight_of(few.own.x);
    const uint64_t total = block_sum(here ? weight_units(weight) : 0, m.room);
    const double threshold = (double)total / (double)WEIGHT_ONE * (double)share;
    const bool reaches = here && (double)weight >= threshold;
    const uint64_t key = reaches ? place_key(distance_bits(few.own.x, 0), few.own.id) + 1 : 0;
    const uint64_t last = block_max(key, m.room);
    if (reaches && key != last) few.own.id = -1;
}

DEV bool is_share(float share) { return share > 0 && share < 1; }

// The rest of the steps. Returns the token.
DEV int32_t few_choose(const struct choose_row &row, const struct run &run, struct filter_memory &m,
                       const struct progress &at) {
    const struct choice_numbers &s = row.numbers;
    const int thread = (int)threadIdx.x;
    struct few few = {{0.0f, -1}, run.n};
    bool by_id = true, by_best = false;
    __syncthreads();
    if (thread < run.n) few.own = {run.value[thread], run.id[thread]};
    if (at.next <= STEP_TOP_K && s.top_k > 0 && s.top_k < few.n) {
        few_sort_near(few, m, 0);
        few_keep_first(few, s.top_k);
        by_id = false;
        by_best = true;
    }
    if (at.next <= STEP_TYPICAL && is_share(s.typical_p)) {
        few_typical(few, m, s.typical_p, at, by_id);
        by_best = false;
    }
    if (at.next <= STEP_TOP_P && s.top_p < 1) {
        if (!by_best) few_sort_near(few, m, 0);
        few_keep_share(few, m, s.top_p, at.next == STEP_TOP_P ? at.wanted : 0);
    }
    if (at.next <= STEP_MIN_P && s.min_p > 0 && !(weight_of(few.own.x) >= s.min_p)) few.own.id = -1;
    if (row.flags & CHOOSE_XTC) few_xtc(few, m, s.xtc_threshold);
    uint64_t key = 0;
    if (few.own.id >= 0)
        key = best_key(draw_sum(few.own.x, noise_bits(row.key, (uint32_t)few.own.id)), few.own.id);
    return best_id(block_max(key, m.room));
}

// ---------------------------------------------------------------- many candidates

// All candidates up to a step of the distance.
CALLED void run_keep_steps(struct run &run, struct filter_memory &m, float centre, int step) {
    run_keep(
        run, m, [&](float peak) { return distance_step(-peak) <= step; },
        [&](float x, int32_t) { return distance_step(fabsf(x - centre)) <= step; });
}

// The k best; there are more. False: few are left that include them.
//
// k of the peaks are candidates, of which there are fewer to look at: the step that holds k of them
// holds the k best.
DEV bool many_top_k(struct run &run, struct filter_memory &m, int k) {
    struct goal goal = {(uint64_t)k, 0};
    if (run.whole && k <= run_blocks(run) / 4 * 3) {
        sums_clear(m);
        for (int b = (int)threadIdx.x; b < run_blocks(run); b += CHOOSE_THREADS)
            step_add(m.sum + distance_step(-run_scaled(run, run.peak[b])), 1);
        run_keep_steps(run, m, 0, step_of_goal(m, goal));
        if (run.n <= CHOOSE_FEW) return false;
    }
    run_measure(run, m, 0, MEASURE_COUNT);
    goal.nearer = 0;
    const int step = step_of_goal(m, goal);
    run_keep_steps(run, m, 0, step);
    if (run.n <= CHOOSE_FEW) return false;
    list_keep(run, m, 0, MEASURE_COUNT, step, goal);
    return true;
}

// The shortest run of the nearest whose units reach a share of the total, of which the sums by
// steps of the distance are in m.sum. *wanted: those units. False: few are left that include it.
CALLED bool many_share(struct run &run, struct filter_memory &m, float centre, float share,
                       uint64_t *wanted) {
    uint64_t total = 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < CHOOSE_STEPS; i += CHOOSE_THREADS) total += m.sum[i];
    *wanted = units_wanted(block_sum(total, m.room), share);
    struct goal goal = {*wanted, 0};
    const int step = step_of_goal(m, goal);
    run_keep_steps(run, m, centre, step);
    if (run.n <= CHOOSE_FEW) return false;
    list_keep(run, m, centre, MEASURE_MASS, step, goal);
    return true;
}

// Typical's candidates are a list before it: the mean's lanes are those of its places.
DEV bool many_typical(struct run &run, struct filter_memory &m, float share,
                      struct progress &progress) {
    uint64_t total, top = 0;
    if (run.whole) run_list(run, m);
    progress.centre = values_mean(m, run.value, run.n, &total);
    run_measure(run, m, progress.centre, MEASURE_MASS);
    if (!many_share(run, m, progress.centre, share, &progress.wanted)) return false;
    for (int i = (int)threadIdx.x; i < run.n; i += CHOOSE_THREADS)
        top = max(top, best_key(run.value[i], 0));
    const float shift = best_float(block_max(top, m.room));
    for (int i = (int)threadIdx.x; i < run.n; i += CHOOSE_THREADS) run.value[i] -= shift;
    __syncthreads();
    return true;
}

// XTC, then the draw.
DEV int32_t many_draw(const struct choose_row &row, const struct run &run,
                      struct filter_memory &m) {
    double threshold = INFINITY;
    uint64_t last = 0;
    if (row.flags & CHOOSE_XTC) {
        uint64_t units = 0;
        run_visit(
            run, m, [](float peak) { return peak > -22.0f; },
            [&](float x, int) { units += units_of(x); });
        const uint64_t total = block_sum(units, m.room);
        threshold = (double)total / (double)WEIGHT_ONE * (double)row.numbers.xtc_threshold;
        const float reach = weight_distance(threshold);
        run_visit(
            run, m, [&](float peak) { return -peak <= reach; },
            [&](float x, int at) {
                const uint64_t key = place_key(distance_bits(x, 0), run_id(run, at)) + 1;
                if ((double)weight_of(x) >= threshold && key > last) last = key;
            });
        last = block_max(last, m.room);
    }
    struct best best = {0, -INFINITY};
    run_visit(run, m, any_peak(), [&](float x, int at) {
        const int32_t id = run_id(run, at);
        if (last && place_key(distance_bits(x, 0), id) + 1 != last &&
            (double)weight_of(x) >= threshold)
            return;
        draw_see(best, x, id, row.key);
    });
    return best_id(block_max(best.key, m.room));
}

// The steps while candidates are many. True: they have become few, and there are steps left.
DEV bool many_filter(const struct choose_args &args, const struct choose_row &row, int at,
                     struct run &run, struct filter_memory &m, struct progress &progress) {
    const struct choice_numbers &s = row.numbers;
    progress = {STEP_TOP_K, 0.0f, 0};
    if (s.top_n_sigma > 0) {
        const double sigma = logits_deviation(m, args.logits + at * args.ld, row.n_vocab, run.top);
        const double distance = (double)s.top_n_sigma * sigma / (double)s.temperature;
        run_keep_within(run, m, distance < (double)FLT_MAX ? (float)distance : INFINITY);
    } else if (run.n <= CHOOSE_FEW) {
        run_list(run, m);
    }
    if (run.n <= CHOOSE_FEW) return true;
    if (s.top_k > 0 && s.top_k < run.n && !many_top_k(run, m, s.top_k)) return true;
    progress.next = STEP_TYPICAL;
    if (run.n <= CHOOSE_FEW) return true;
    if (is_share(s.typical_p) && !many_typical(run, m, s.typical_p, progress)) return true;
    progress = {STEP_TOP_P, 0.0f, 0};
    if (run.n <= CHOOSE_FEW) return true;
    if (s.top_p < 1) {
        if (run.whole && row.flags & CHOOSE_MEASURE) {
            __syncthreads();
            for (int i = (int)threadIdx.x; i < CHOOSE_STEPS; i += CHOOSE_THREADS)
                m.sum[i] = args.at.mass[at * CHOOSE_STEPS + i];
        } else {
            run_measure(run, m, 0, MEASURE_MASS);
        }
        if (!many_share(run, m, 0, s.top_p, &progress.wanted)) return true;
    }
    progress = {STEP_MIN_P, 0.0f, 0};
    if (run.n <= CHOOSE_FEW) return true;
    if (s.min_p > 0) {
        const float reach = weight_distance((double)s.min_p);
        run_keep(
            run, m, [&](float peak) { return -peak <= reach; },
            [&](float x, int32_t) { return weight_of(x) >= s.min_p; });
    }
    progress.next = STEP_XTC;
    return run.n <= CHOOSE_FEW;
}

// The token of a row with filters, or -1.
DEV int32_t filter_choose(const struct choose_args &args, const struct choose_row &row, int at,
                          struct filter_memory &m) {
    struct run run = {row_logits(args, row, at),
                      args.at.peak + at * args.at.peaks,
                      args.at.value + at * args.at.stride,
                      args.at.id + at * args.at.stride,
                      0,
                      row.n_vocab,
                      true,
                      0.0f,
                      row.numbers.temperature};
    const uint64_t key = row_top(args, row, at, &run.n);
    struct progress progress;
    run.top = best_float(key);
    if (!key || !isfinite(run.top)) return -1;
    const bool few = many_filter(args, row, at, run, m, progress);
    return few ? few_choose(row, run, m, progress) : many_draw(row, run, m);
}

#endif
