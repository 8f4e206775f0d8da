// The kernels that choose tokens. `tops` applies mask and edits and finds the best logit of each
// row; where the temperature is 0, that is the token. `mass` measures rows whose first filter is
// top-p. `filter` carries out the filters of a row and draws, one block for each row. `draw` draws
// from rows without filters. docs/NUMERICS.md, "Sampling", defines the result to the bit.
//
// All but `filter` divide a row among blocks. The last block of a row to arrive joins their
// results.
#include "backend/cuda/choose_filter.cuh"

// ---------------------------------------------------------------- the best logit

// True for the last of the row's blocks. It sees the data of the others. room: [ROOM + 1].
DEV bool last_to_arrive(uint32_t *arrived, int n, uint64_t *room) {
    if (threadIdx.x == 0) {
        room[ROOM] = add_acq_rel(arrived, 1) + 1 == (uint32_t)n;
        if (room[ROOM]) *arrived = 0;
    }
    __syncthreads();
    return room[ROOM] != 0;
}

DEV void chosen_put(const struct choose_args &args, int row, int32_t token) {
    args.chosen[row] = token;
    if (args.clock) atomicMax((unsigned long long *)args.clock, device_ns());
}

// The block's key among those of its row: the last block to arrive writes the token.
DEV void choose_best(const struct choose_args &args, uint64_t *keys, uint64_t key, int row,
                     int part, int n_parts, uint64_t *room) {
    uint64_t best = 0;
    if (threadIdx.x == 0) keys[part] = key;
    if (!last_to_arrive(args.at.arrived + row, n_parts, room)) return;
    for (int i = (int)threadIdx.x; i < n_parts; i += (int)blockDim.x) {
        const uint2 other = load_l2((const uint2 *)keys + i);
        const uint64_t its = (uint64_t)other.y << 32 | other.x;
        if (its > best) best = its;
    }
    best = block_max(best, room);
    if (threadIdx.x == 0)
        chosen_put(args, row, best && isfinite(best_float(best)) ? best_id(best) : -1);
}

// A part of a row whose logits change.
struct staged {
    float x[CHOOSE_PART_IDS];
    int32_t first[CHOOSE_PART_IDS], last[CHOOSE_PART_IDS]; // of an id's rows of edits
};
static_assert(CHOOSE_HEAD_SHARED + sizeof(struct staged) <= CHOOSE_TOPS_SHARED, "it has the room");

// The mask, then the edits of ids [begin, begin + n). The thread with the first row of an id
// applies all of that id, in their order. Mostly they are adjacent.
DEV void part_edit(const struct choose_args &args, const struct choose_row &row,
                   struct staged &staged, int begin, int n) {
    const struct choice_edit *edit = (const struct choice_edit *)(args.base + row.edit_at);
    const uint32_t *allowed = (const uint32_t *)(args.base + row.allowed_at) + begin / 32;
    for (int i = (int)threadIdx.x; i < n; i += CHOOSE_PART_THREADS) {
        staged.first[i] = INT32_MAX;
        staged.last[i] = -1;
        if (row.allowed_at && !(allowed[i / 32] >> i % 32 & 1)) staged.x[i] = -INFINITY;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < row.n_edit; i += CHOOSE_PART_THREADS) {
        const int at = edit[i].id - begin;
        if (at < 0 || at >= n) continue;
        atomicMin(&staged.first[at], i);
        atomicMax(&staged.last[at], i);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < row.n_edit; i += CHOOSE_PART_THREADS) {
        const int at = edit[i].id - begin;
        if (at < 0 || at >= n || staged.first[at] != i) continue;
        float x = staged.x[at];
        for (int j = i; j <= staged.last[at]; j++)
            if (edit[j].id == edit[i].id) x = edit_logit(row.numbers, edit[j], x);
        staged.x[at] = x;
    }
    __syncthreads();
}

// A warp has PART_LOADS times 32 ids one after the other.
enum { PART_LOADS = CHOOSE_PART_IDS / CHOOSE_PART_THREADS };

__global__ void __launch_bounds__(CHOOSE_PART_THREADS)
    tops_kernel(const __grid_constant__ struct choose_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    dependency_wait();
    uint64_t *room = (uint64_t *)shared;
    struct staged &staged = *(struct staged *)(shared + CHOOSE_HEAD_SHARED);
    const int at = (int)blockIdx.x / args.n_parts, part = (int)blockIdx.x % args.n_parts;
    const struct choose_row &row = args.row[at];
    const uint32_t flags = row.flags;
    if (!(flags & CHOOSE_WANTED)) {
        if (part == 0 && threadIdx.x == 0) chosen_put(args, at, -1);
        return;
    }
    const int first = part * CHOOSE_PART_IDS, n_parts = row_parts(row);
    if (part >= n_parts) return;
    const int n = min(row.n_vocab - first, (int)CHOOSE_PART_IDS);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const float *logits = args.logits + at * args.ld + first;
    float x[PART_LOADS];
    UNROLL for (int j = 0; j < PART_LOADS; j++) {
        const int i = (warp * PART_LOADS + j) * 32 + lane;
        x[j] = i < n ? logits[i] : -INFINITY;
    }
    if (flags & CHOOSE_EDITED) {
        float *edited = args.at.value + at * args.at.stride + first;
        UNROLL for (int j = 0; j < PART_LOADS; j++) {
            staged.x[(warp * PART_LOADS + j) * 32 + lane] = x[j];
        }
        __syncthreads();
        part_edit(args, row, staged, first, n);
        UNROLL for (int j = 0; j < PART_LOADS; j++) {
            const int i = (warp * PART_LOADS + j) * 32 + lane;
            x[j] = staged.x[i];
            if (!(flags & CHOOSE_GREEDY) && i < n) edited[i] = x[j];
        }
    }
    uint64_t best = 0;
    int count = 0;
    UNROLL for (int j = 0; j < PART_LOADS; j++) {
        if (!(x[j] > -INFINITY)) continue; // no candidate
        const uint64_t key = best_key(x[j], first + (warp * PART_LOADS + j) * 32 + lane);
        best = key > best ? key : best;
        count++;
    }
    best = block_max(best, room);
    if (flags & CHOOSE_GREEDY) {
        choose_best(args, args.at.top + at * args.at.parts, best, at, part, n_parts, room);
        return;
    }
    count = (int)block_sum((uint64_t)count, room);
    if (threadIdx.x == 0) {
        args.at.top[at * args.at.parts + part] = best;
        args.at.count[at * args.at.parts + part] = count;
    }
    if (!(flags & CHOOSE_FILTERS)) return;
    UNROLL for (int j = 0; j < PART_LOADS; j += PEAK_LOADS) {
        float peak = -INFINITY;
        UNROLL for (int k = 0; k < PEAK_LOADS; k++) peak = x[j + k] > peak ? x[j + k] : peak;
        UNROLL for (int d = 16; d > 0; d /= 2) {
            const float other = __shfl_xor_sync(ALL_LANES, peak, d);
            peak = other > peak ? other : peak;
        }
        const int block = (first / 32 + warp * PART_LOADS + j) / PEAK_LOADS;
        if (lane == 0 && block < args.at.peaks) args.at.peak[at * args.at.peaks + block] = peak;
    }
    for (int i = (int)threadIdx.x; flags & CHOOSE_MEASURE && part == 0 && i < CHOOSE_STEPS;
         i += CHOOSE_PART_THREADS)
        args.at.mass[at * CHOOSE_STEPS + i] = 0;
}

// ---------------------------------------------------------------- the mass of a row

__global__ void __launch_bounds__(CHOOSE_MASS_THREADS)
    mass_kernel(const __grid_constant__ struct choose_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    dependency_wait();
    uint64_t *sum = (uint64_t *)(shared + CHOOSE_HEAD_SHARED);
    const int at = (int)blockIdx.x / args.n_parts, part = (int)blockIdx.x % args.n_parts;
    const struct choose_row &row = args.row[at];
    const int first = part * CHOOSE_MASS_IDS;
    if (!(row.flags & CHOOSE_MEASURE) || first >= row.n_vocab) return;
    const float *logits = row_logits(args, row, at);
    const int end = min(first + (int)CHOOSE_MASS_IDS, row.n_vocab);
    int n_candidates;
    const uint64_t key = row_top(args, row, at, &n_candidates);
    const float top = best_float(key), scale = row.numbers.temperature;
    if (!key || !isfinite(top)) return;
    for (int i = (int)threadIdx.x; i < CHOOSE_STEPS; i += CHOOSE_MASS_THREADS) sum[i] = 0;
    __syncthreads();
    UNROLL for (int j = 0; j < CHOOSE_MASS_IDS / CHOOSE_MASS_THREADS; j++) {
        const int i = first + j * CHOOSE_MASS_THREADS + (int)threadIdx.x;
        const float logit = i < end ? logits[i] : -INFINITY, x = (logit - top) / scale;
        if (!(logit > -INFINITY && x > -22.0f)) continue; // without a unit
        const uint32_t units = units_of(x);
        if (units) step_add(sum + distance_step(-x), units);
    }
    __syncthreads();
    unsigned long long *mass = (unsigned long long *)args.at.mass + at * CHOOSE_STEPS;
    for (int i = (int)threadIdx.x; i < CHOOSE_STEPS; i += CHOOSE_MASS_THREADS)
        if (sum[i]) atomicAdd(mass + i, (unsigned long long)sum[i]);
}

// ---------------------------------------------------------------- a draw without filters

__global__ void __launch_bounds__(CHOOSE_PART_THREADS)
    draw_kernel(const __grid_constant__ struct choose_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    dependency_wait();
    uint64_t *room = (uint64_t *)shared;
    const int at = (int)blockIdx.x / args.n_parts, part = (int)blockIdx.x % args.n_parts;
    const struct choose_row &row = args.row[at];
    const int first = part * CHOOSE_PART_IDS, n_parts = row_parts(row);
    if (!(row.flags & CHOOSE_PLAIN) || part >= n_parts) return;
    const float *logits = row_logits(args, row, at);
    int n_candidates;
    const uint64_t top = row_top(args, row, at, &n_candidates);
    const float shift = best_float(top), scale = row.numbers.temperature;
    // The best logit is a candidate, so its sum is a bound.
    struct best best = {0, -INFINITY};
    if (top && isfinite(shift)) {
        best.bound = draw_sum(0, noise_bits(row.key, (uint32_t)best_id(top)));
        UNROLL for (int j = 0; j < PART_LOADS; j++) {
            const int i = first + j * CHOOSE_PART_THREADS + (int)threadIdx.x;
            const float logit = i < row.n_vocab ? logits[i] : -INFINITY;
            if (logit > -INFINITY) draw_see(best, (logit - shift) / scale, i, row.key);
        }
    }
    const uint64_t key = block_max(best.key, room);
    choose_best(args, args.at.drawn + at * args.at.parts, key, at, part, n_parts, room);
}

// ---------------------------------------------------------------- filters

__global__ void __launch_bounds__(CHOOSE_THREADS)
    filter_kernel(const __grid_constant__ struct choose_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    dependency_wait();
    const int at = (int)blockIdx.x;
    const struct choose_row &row = args.row[at];
    if (!(row.flags & CHOOSE_FILTERS)) return;
    const int32_t token = filter_choose(args, row, at, *(struct filter_memory *)shared);
    if (threadIdx.x == 0) chosen_put(args, at, token);
}

KERNEL_ENTRY(choose_tops, tops_kernel, (struct choose_args))
KERNEL_ENTRY(choose_mass, mass_kernel, (struct choose_args))
KERNEL_ENTRY(choose_draw, draw_kernel, (struct choose_args))
KERNEL_ENTRY(choose_filter, filter_kernel, (struct choose_args))
