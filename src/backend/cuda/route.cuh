// Routers: the experts of each row with their weights, and the table of rows by expert. A row has
// the bits of the CPU's reference (backend/cpu/reference_route.c) for the same logits: the same
// operations, and sums over all experts in the same sixteen virtual lanes. One thing differs: a NaN
// is chosen last, wherever it stands.
#ifndef RN_BACKEND_CUDA_ROUTE_CUH
#define RN_BACKEND_CUDA_ROUTE_CUH

#include "rmath.cuh"
#include "route.h"
#include "step.cuh"

enum : uint32_t { ALL_LANES = 0xffffffffu };
// Experts of a lane whose keys are in registers; of more they are in memory of the thread.
enum { UNROLLED = 16 };

// ---------------------------------------------------------------- keys

// Keys as numbers whose order is that of the keys. 0 stands for an expert that is not open.
DEV uint32_t order_of(float key) {
    const uint32_t bits = __float_as_uint(key + 0.0f); // -0 is equal to 0
    if (isnan(key)) return 1;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
DEV float key_of(uint32_t order) {
    return __uint_as_float(order & 0x80000000u ? order ^ 0x80000000u : ~order);
}

// The total of sixteen virtual lanes, whose sums the first sixteen lanes have.
DEV float virtual_total(float sum) {
    UNROLL for (int o = 8; o > 0; o /= 2) sum = sum + __shfl_xor_sync(ALL_LANES, sum, o);
    return __shfl_sync(ALL_LANES, sum, 0);
}
// Adds this step's 32 elements: virtual lane v has v, then v + 16.
DEV float virtual_add(float sum, float x) {
    sum = sum + x;
    return sum + __shfl_xor_sync(ALL_LANES, x, 16);
}

// The sum of exp(logit - top) over all experts.
DEV float softmax_total(const float *logit, int n, float top, int lane) {
    float sum = 0.0f;
    for (int at = 0; at < n; at += 32)
        sum = virtual_add(sum, at + lane < n ? rmath_exp(load_l2(logit + at + lane) - top) : 0.0f);
    return virtual_total(sum);
}

// A softmax over all experts.
struct softmax {
    float top, total;
};

DEV float score_of(const struct stage_route &s, const struct softmax &all, float logit) {
    return s.score == SCORE_SIGMOID ? 1.0f / (1.0f + rmath_exp(-logit))
                                    : rmath_exp(logit - all.top) / all.total;
}

// ---------------------------------------------------------------- the choice

// Lane l of a warp has experts l, l + 32, ...: PER of them at most. The best open one, which is
// closed; of equals the lowest.
template <int PER> DEV int best_take(uint32_t (&key)[PER], int lane) {
    uint32_t best = 0, at = 0;
#pragma unroll(PER <= UNROLLED ? PER : 1)
    for (int j = 0; j < PER; j++) {
        if (key[j] > best) {
            best = key[j];
            at = (uint32_t)(32 * j + lane);
        }
    }
    const uint32_t top = __reduce_max_sync(ALL_LANES, best);
    const int id = (int)__reduce_min_sync(ALL_LANES, best == top ? at : UINT32_MAX);
#pragma unroll(PER <= UNROLLED ? PER : 1)
    for (int j = 0; j < PER; j++)
        if (32 * j + lane == id) key[j] = 0;
    return id;
}

// The score of experts [first, first + size): their best key, or the sum of their two best ones.
template <int PER>
DEV float group_score(const uint32_t (&key)[PER], int first, int size, int n_best, int lane) {
    uint32_t own[PER];
#pragma unroll(PER <= UNROLLED ? PER : 1)
    for (int j = 0; j < PER; j++) {
        const int i = 32 * j + lane;
        own[j] = i >= first && i < first + size ? key[j] : 0;
    }
    float score = 0.0f;
    for (int k = 0; k < n_best && k < size; k++) {
        uint32_t best = 0;
#pragma unroll(PER <= UNROLLED ? PER : 1)
        for (int j = 0; j < PER; j++) best = own[j] > best ? own[j] : best;
        best = __reduce_max_sync(ALL_LANES, best);
        score = k ? score + key_of(best) : key_of(best);
        if (k + 1 < n_best) best_take<PER>(own, lane);
    }
    return score;
}

// Closes the experts of all groups but the best ones.
template <int PER>
DEV void groups_keep(const struct stage_route &s, uint32_t (&key)[PER], int lane) {
    const int size = s.table.n_expert / s.n_group;
    uint32_t order[1] = {0}, kept = 0; // of lane's group
    for (int g = 0; g < s.n_group; g++) {
        const float score = group_score<PER>(key, g * size, size, s.group_best, lane);
        if (lane == g) order[0] = order_of(score);
    }
    for (int k = 0; k < s.n_group_used; k++) kept |= 1u << best_take<1>(order, lane);
#pragma unroll(PER <= UNROLLED ? PER : 1)
    for (int j = 0; j < PER; j++) {
        const int group = (32 * j + lane) / size;
        if (group >= s.n_group || !(kept >> group & 1)) key[j] = 0;
    }
}

// Keys are scores where a bias or a second score is added to them, else logits.
template <int PER>
DEV struct softmax keys_make(const struct stage_route &s, const float *logit, uint32_t (&key)[PER],
                             int lane) {
    const int n = s.table.n_expert;
    struct softmax all = {0.0f, 1.0f};
#pragma unroll(PER <= UNROLLED ? PER : 1)
    for (int j = 0; j < PER; j++) {
        const int i = 32 * j + lane;
        key[j] = i < n ? order_of(load_l2(logit + i)) : 0;
    }
    if (!s.is_by_scores) return all;
    if (s.score == SCORE_SOFTMAX) {
        uint32_t best = 0;
#pragma unroll(PER <= UNROLLED ? PER : 1)
        for (int j = 0; j < PER; j++) best = key[j] > best ? key[j] : best;
        all.top = key_of(__reduce_max_sync(ALL_LANES, best));
        all.total = softmax_total(logit, n, all.top, lane);
    }
#pragma unroll(PER <= UNROLLED ? PER : 1)
    for (int j = 0; j < PER; j++) {
        const int i = 32 * j + lane;
        if (i >= n) continue;
        float x = score_of(s, all, load_l2(logit + i));
        if (s.bias) x = x + s.bias[i];
        key[j] = order_of(x);
    }
    return all;
}

// ---------------------------------------------------------------- weights

// Lane l has ranks l and l + 32.
struct ranks {
    int id[2];
    float weight[2];
};

// In the order of rank.
DEV float ranks_total(const struct ranks &r, int n_used) {
    float sum = 0.0f;
    for (int j = 0; j < n_used; j++)
        sum = sum + __shfl_sync(ALL_LANES, j < 32 ? r.weight[0] : r.weight[1], j % 32);
    return sum;
}

// A softmax by logits: over the chosen, or over all.
DEV void weights_of_logits(const struct stage_route &s, const float *logit, struct ranks &r,
                           int lane) {
    const float top = load_l2(logit + __shfl_sync(ALL_LANES, r.id[0], 0));
    UNROLL for (int h = 0; h < 2; h++) if (h * 32 + lane < s.table.n_used) r.weight[h] =
        rmath_exp(load_l2(logit + r.id[h]) - top);
    const float sum = s.normalize ? ranks_total(r, s.table.n_used)
                                  : softmax_total(logit, s.table.n_expert, top, lane);
    UNROLL for (int h = 0; h < 2; h++) r.weight[h] = r.weight[h] / sum;
}

DEV void weights_of_scores(const struct stage_route &s, const struct softmax &all,
                           const float *logit, struct ranks &r, int lane) {
    UNROLL for (int h = 0; h < 2; h++) if (h * 32 + lane < s.table.n_used) r.weight[h] =
        score_of(s, all, load_l2(logit + r.id[h]));
    if (!s.normalize) return;
    const float sum = ranks_total(r, s.table.n_used) + s.least;
    UNROLL for (int h = 0; h < 2; h++) r.weight[h] = r.weight[h] / sum;
}

// Each expert's share of the experts whose logits are close to its own. The first expert takes no
// part in the second one's share.
DEV void weights_sparse(const struct stage_route &s, const float *logit, struct ranks &r,
                        int lane) {
    const int first = __shfl_sync(ALL_LANES, r.id[0], 0);
    for (int j = 0; j < s.table.n_used; j++) {
        const int own = __shfl_sync(ALL_LANES, j < 32 ? r.id[0] : r.id[1], j % 32);
        const float top = load_l2(logit + own);
        float sum = 0.0f;
        for (int at = 0; at < s.table.n_expert; at += 32) {
            const int i = at + lane;
            float x = 0.0f;
            if (i < s.table.n_expert && !(j > 0 && i == first)) {
                const float l = load_l2(logit + i), size = fabsf(l) > top ? fabsf(l) : top;
                if (!((top - l) / size > 2.0f * s.jitter)) x = rmath_exp(l - top);
            }
            sum = virtual_add(sum, x);
        }
        const float weight = 1.0f / virtual_total(sum);
        if (j == lane) r.weight[0] = weight;
        if (j == lane + 32) r.weight[1] = weight;
    }
}

// ---------------------------------------------------------------- a row

// The experts of a row, without their weights. A warp; afterwards each lane has its ranks.
template <int PER>
DEV struct ranks ranks_choose(const struct stage_route &s, const float *logit, struct softmax &all,
                              int lane) {
    uint32_t key[PER];
    struct ranks r = {};
    all = keys_make<PER>(s, logit, key, lane);
    if (s.n_group > 0) groups_keep<PER>(s, key, lane);
    for (int j = 0; j < s.table.n_used; j++) {
        const int id = best_take<PER>(key, lane);
        if (j == lane) r.id[0] = id;
        if (j == lane + 32) r.id[1] = id;
    }
    return r;
}

DEV void ranks_weigh(const struct stage_route &s, const float *logit, const struct softmax &all,
                     struct ranks &r, int lane) {
    if (s.score == SCORE_SPARSEMIXER)
        weights_sparse(s, logit, r, lane);
    else if (s.score == SCORE_SIGMOID || s.is_by_scores)
        weights_of_scores(s, all, logit, r, lane);
    else
        weights_of_logits(s, logit, r, lane);
    UNROLL for (int h = 0; h < 2; h++) {
        if (h * 32 + lane >= s.table.n_used) continue;
        if (s.scale != 0.0f) r.weight[h] = r.weight[h] * s.scale;
        if (s.factor) r.weight[h] = r.weight[h] * s.factor[r.id[h]];
    }
}

template <int PER>
DEV struct ranks ranks_of(const struct stage_route &s, const float *logit, int lane) {
    struct softmax all;
    struct ranks r = ranks_choose<PER>(s, logit, all, lane);
    ranks_weigh(s, logit, all, r, lane);
    return r;
}

DEV void ranks_store(const struct stage_route &s, const struct ranks &r, int row, int lane) {
    float *out = s.out + (int64_t)row * s.ld_out;
    UNROLL for (int h = 0; h < 2; h++) {
        const int rank = h * 32 + lane;
        if (rank >= s.table.n_used) continue;
        out[rank] = (float)r.id[h];
        out[s.table.n_used + rank] = r.weight[h];
    }
}

// ---------------------------------------------------------------- the table

struct route_sums {
    int n, padded, active;
};
DEV struct route_sums sums_add(const struct route_sums &a, const struct route_sums &b) {
    return {a.n + b.n, a.padded + b.padded, a.active + b.active};
}
DEV struct route_sums sums_up(const struct route_sums &a, int by) {
    return {__shfl_up_sync(ALL_LANES, a.n, (unsigned)by),
            __shfl_up_sync(ALL_LANES, a.padded, (unsigned)by),
            __shfl_up_sync(ALL_LANES, a.active, (unsigned)by)};
}

// The sums of all threads before this one. of_warp: [ROUTE_WARPS_MAX] of shared memory.
DEV struct route_sums sums_before(const struct route_sums &own, struct route_sums *of_warp) {
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    struct route_sums sum = own;
    for (int o = 1; o < 32; o *= 2) {
        const struct route_sums other = sums_up(sum, o);
        if (lane >= o) sum = sums_add(sum, other);
    }
    if (lane == 31) of_warp[warp] = sum;
    __syncthreads();
    struct route_sums before = sums_up(sum, 1);
    if (lane == 0) before = {0, 0, 0};
    for (int w = 0; w < warp; w++) before = sums_add(before, of_warp[w]);
    return before;
}

// The table of n_pairs pairs, by one block. id_of(pair): its expert. `shared` has
// route_shared_bytes. Pairs are cut into ranges, one for each counting warp, so that a sort by
// expert keeps their order.
template <class ID>
DEV void table_make(const struct route_table &t, int n_pairs, int n_counting, uint8_t *shared,
                    const ID &id_of) {
    const int thread = (int)threadIdx.x, n_threads = (int)blockDim.x;
    const int warp = thread / 32, lane = thread % 32, n = t.n_expert;
    struct route_sums *of_warp = (struct route_sums *)shared;
    int *shift = (int *)(of_warp + ROUTE_WARPS_MAX); // [n] pairs, then from `first` to padded
    int *count = shift + n;                          // [n_counting, n]
    const int steps = (n_pairs + 32 * n_counting - 1) / (32 * n_counting);
    const int begin = warp * steps * 32, end = min(begin + steps * 32, n_pairs);
    int *own = count + warp * n;
    for (int i = thread; i < n_counting * n; i += n_threads) count[i] = 0;
    __syncthreads();
    if (warp < n_counting)
        for (int p = begin + lane; p < end; p += 32) atomicAdd(own + id_of(p), 1);
    __syncthreads();
    // experts [e, e_end) are this thread's
    const int each = (n + n_threads - 1) / n_threads;
    const int e_first = min(thread * each, n), e_end = min(e_first + each, n);
    struct route_sums sums = {0, 0, 0};
    for (int e = e_first; e < e_end; e++) {
        int total = 0;
        for (int w = 0; w < n_counting; w++) {
            const int here = count[w * n + e];
            count[w * n + e] = total;
            total += here;
        }
        shift[e] = total;
        sums = sums_add(sums, {total, ROUTE_PADDED(total), total > 0});
    }
    sums = sums_before(sums, of_warp);
    for (int e = e_first; e < e_end; e++) {
        const int total = shift[e];
        t.first[e] = sums.n;
        t.first_padded[e] = sums.padded;
        shift[e] = sums.padded - sums.n;
        for (int w = 0; w < n_counting; w++) count[w * n + e] += sums.n;
        if (total > 0) t.active[sums.active] = e;
        sums = sums_add(sums, {total, ROUTE_PADDED(total), total > 0});
    }
    if (e_end == n && e_first < n) {
        t.first[n] = sums.n;
        t.first_padded[n] = sums.padded;
        *t.n_active = sums.active;
    }
    __syncthreads();
    if (warp >= n_counting) return;
    for (int p = begin; p < end; p += 32) {
        const bool is_here = p + lane < end;
        const int id = is_here ? id_of(p + lane) : -1;
        const uint32_t same = __match_any_sync(ALL_LANES, id);
        const int rank = __popc(same & ((1u << lane) - 1));
        if (is_here) {
            const int at = own[id] + rank;
            t.pair[at] = p + lane;
            t.position[p + lane] = at + shift[id];
        }
        __syncwarp();
        if (is_here && rank == 0) own[id] += __popc(same);
        __syncwarp();
    }
}

// ---------------------------------------------------------------- a stage

// All rows, a warp each; then the table, by the block that is last.
template <int PER> DEV void route_run(const struct router_args &args, uint8_t *shared) {
    const struct stage_route &s = args.stage;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int n_warps = (int)blockDim.x / 32;
    const int n_rows = min(args.n_rows, step_rows(*args.step, args.rows));
    for (int r = (int)blockIdx.x * n_warps + warp; r < n_rows; r += (int)gridDim.x * n_warps)
        ranks_store(s, ranks_of<PER>(s, s.logit + (int64_t)r * s.ld_in, lane), r, lane);
    __syncthreads();
    if (gridDim.x > 1) {
        uint32_t *place = (uint32_t *)shared;
        if (threadIdx.x == 0) *place = add_acq_rel(s.table.arrived, 1);
        __syncthreads();
        const uint32_t before = *place;
        __syncthreads();
        if (before + 1 < gridDim.x) return;
        if (threadIdx.x == 0) *s.table.arrived = 0;
    }
    const int n_used = s.table.n_used;
    table_make(s.table, n_rows * n_used, args.n_counting, shared, [&](int p) {
        return (int)load_l2(s.out + (int64_t)(p / n_used) * s.ld_out + p % n_used);
    });
    // the last thread that has experts wrote the number of active ones
    __syncthreads();
    if (threadIdx.x == 0)
        *args.step->touched += (uint64_t)(uint32_t)load_l2(s.table.n_active) * s.expert_bytes;
}

#endif
