// Attention of prompts: its items, and the ring of pages that the third warpgroup of a block fills.
// attention_prompt.cuh has the rest.
#ifndef RN_BACKEND_CUDA_ATTENTION_PROMPT_RING_CUH
#define RN_BACKEND_CUDA_ATTENTION_PROMPT_RING_CUH

#include "attention_item.cuh"
#include "attention_prompt.h"

// Barriers of warps, by number.
enum {
    PROMPT_EMPTY = 1, // [slot]: both teams have read it
    PROMPT_OWN = 5,   // [team]
    PROMPT_BOTH = 7,  // both teams
};

// The kernel's form. BLOCKS: of 32 elements of keys, of a stage; KEYS: such stages of 4 pages.
// GROUPS: of 64 elements of values, of a stage. PASSES: stages of elements of values. HAS_CAP:
// scores have a soft cap.
template <class F, int BLOCKS_, int KEYS_, int GROUPS_, int PASSES_, bool HAS_CAP_>
struct prompt_form {
    typedef F KV;
    static constexpr bool HAS_CAP = HAS_CAP_;
    static constexpr int BLOCKS = BLOCKS_, KEYS = KEYS_, GROUPS = GROUPS_, PASSES = PASSES_;
    static constexpr bool IS_WIDE = kv_is_wide<F>(), IS_BF16 = F::TYPE == KV_BF16;
    // running results are in shared memory; of long heads in the block's state
    static constexpr bool IS_KEPT = PASSES == 1;
    static constexpr bool IS_SHORT = KEYS == 1 && PASSES == 1;
    static constexpr int KEPT = GROUPS * PASSES * 8; // float4 of a thread
    // float4 of a slot of runs: KEPT of each thread, then m and l of its two queries
    static constexpr int SLOT = (KEPT + 1) * 256;
    static constexpr int QUERIES_AT = PROMPT_HEAD;
    static constexpr int KEPT_AT = QUERIES_AT + PROMPT_KEY_BYTES * KEYS;
    static constexpr int SCRATCH = IS_KEPT ? KEPT * 4096 : (int)PROMPT_SCRATCH;
    static constexpr int RING_AT = KEPT_AT + SCRATCH;
    // threads that fill the ring
    static constexpr int FILLERS = IS_WIDE ? 32 : 128;
};

// ---------------------------------------------------------------- the work

// 128 queries of a KV head, or a *run* of their splits: where a launch has few items, several
// blocks share one. The first run leaves its running results, the others o of each split. The block
// that is last there folds them, in order.
struct prompt_item {
    const struct step_seq *seq;
    const uint32_t *table;
    int head_kv, first, n;
    int page_first, page_last;   // that the queries see
    int split_first, split_last; // of this run
    int run, n_runs;             // n_runs 1: all splits
    int n_slots;                 // of all runs: the first run's, and one for each split of others
    int slot;                    // of split_first
    float4 *slots;
    uint32_t *counter;
    // The page that is read as `page`.
    DEV int page(int page) const {
        return page < page_first ? page_first : page > page_last ? page_last : page;
    }
};

// Into how many runs an item is cut, and the slots that each has.
struct prompt_plan {
    int runs, slots;
};

DEV uint32_t prompt_tiles(const struct stage_attention &s, const struct step_seq &seq, int rows) {
    const int n = (rows == STAGE_OUT ? seq.n_out : seq.n_tokens) * s.ratio;
    return (uint32_t)(n + PROMPT_QUERIES - 1) / PROMPT_QUERIES;
}

// The runs of an item with n splits: the first has `first` of them, the others `length` each. Runs
// are at least two splits. The first has one slot for all of its splits, so it is longer where
// slots are few.
struct prompt_cut {
    int runs, first, length;
};
DEV struct prompt_cut prompt_cut_of(int n, int runs, int slots) {
    enum { LEAST = 2 };
    int length = (n + runs - 1) / runs;
    if (length < LEAST) length = LEAST;
    if (runs == 1 || length >= n || slots < 2) return {1, n, 0};
    const int rest = n - length < slots - 1 ? n - length : slots - 1;
    length = (rest + runs - 2) / (runs - 1);
    return {1 + (rest + length - 1) / length, n - rest, length};
}

// The number of splits that the last query of the sequence sees.
DEV int prompt_splits(const struct stage_attention &s, const struct step &step,
                      const struct step_seq &seq, int rows) {
    const int n = rows == STAGE_OUT ? seq.n_out : seq.n_tokens;
    const int pos = query_at(s, step, seq, rows, 0, n * s.ratio - 1).pos;
    return pos / SPLIT_TOKENS - lowest_seen(s, pos) / SPLIT_TOKENS + 1;
}

// Where blocks take all runs in one round, the launch takes as long as the longest one. The number
// of runs is the one with the shortest time. A run costs a split more than it has: queries come,
// results go. The fold of FOLDED slots takes as long as a split. Shorter runs in two rounds took
// half as long again as two long ones.
template <class P>
DEV struct prompt_plan prompt_plan_of(const struct stage_attention &s, const struct step &step,
                                      int rows, const struct attention_seqs &seqs) {
    enum { RUNS_MOST = 16, FOLDED = 16 };
    uint32_t n = 0;
    int splits = 1;
    for (int i = 0; i < seqs.n; i++) {
        const struct step_seq &seq = step.seq[seqs.at(i)];
        const int seen = prompt_splits(s, step, seq, rows);
        n += prompt_tiles(s, seq, rows) * (uint32_t)s.n_head_kv;
        splits = seen > splits ? seen : splits;
    }
    const uint32_t grid = gridDim.x;
    if (n == 0) return {1, 0};
    struct prompt_plan plan = {1, (int)(s.parts_bytes / 16 / P::SLOT / n)};
    uint32_t best = (n + grid - 1) / grid * (uint32_t)(splits + 1);
    for (int runs = 2; runs <= RUNS_MOST && n * (uint32_t)runs <= grid; runs++) {
        const struct prompt_cut cut = prompt_cut_of(splits, runs, plan.slots);
        if (cut.runs < 2) break;
        const int longest = cut.first > cut.length ? cut.first : cut.length;
        const uint32_t time = (uint32_t)(longest + 1) + (uint32_t)(splits - cut.first) / FOLDED;
        if (time >= best) continue;
        best = time;
        plan.runs = runs;
    }
    return plan;
}

// The splits of a run of an item, where its queries see n splits.
template <class P>
DEV void prompt_run_of(const struct stage_attention &s, const struct prompt_plan &plan,
                       uint32_t item, struct prompt_item &w) {
    const int n = w.split_last - w.split_first + 1;
    const struct prompt_cut cut = prompt_cut_of(n, plan.runs, plan.slots);
    w.n_runs = cut.runs, w.n_slots = 0, w.slot = 0;
    w.slots = nullptr, w.counter = nullptr;
    if (cut.runs == 1) return;
    const int begin = w.run == 0 ? 0 : cut.first + (w.run - 1) * cut.length;
    const int end = w.run == 0 ? cut.first : begin + cut.length < n ? begin + cut.length : n;
    w.n_slots = 1 + n - cut.first;
    w.slot = w.run == 0 ? 0 : 1 + (w.run - 1) * cut.length;
    w.split_last = w.split_first + end - 1;
    w.split_first += begin;
    w.slots = (float4 *)s.parts + ATTENTION_STATES / 16 + (int64_t)item * plan.slots * P::SLOT;
    w.counter = s.counters + item;
}

// Item `index` of the launch; false: there are fewer. Of a sequence the last queries come first:
// they see most. The KV heads of the same queries follow each other, so that blocks read the same
// pages at a time.
template <class P>
DEV bool prompt_item_find(const struct stage_attention &s, const struct step &step, int rows,
                          const struct attention_seqs &seqs, const struct prompt_plan &plan,
                          uint32_t index, struct prompt_item &w) {
    const uint32_t item = index / (uint32_t)plan.runs;
    uint32_t at = item;
    w.run = (int)(index % (uint32_t)plan.runs);
    for (int i = 0; i < seqs.n; i++) {
        w.seq = &step.seq[seqs.at(i)];
        const uint32_t tiles = prompt_tiles(s, *w.seq, rows);
        const uint32_t items = tiles * (uint32_t)s.n_head_kv;
        if (at >= items) {
            at -= items;
            continue;
        }
        const int n = (rows == STAGE_OUT ? w.seq->n_out : w.seq->n_tokens) * s.ratio;
        w.head_kv = (int)(at % (uint32_t)s.n_head_kv);
        w.first = (int)(tiles - 1 - at / (uint32_t)s.n_head_kv) * PROMPT_QUERIES;
        w.n = n - w.first < PROMPT_QUERIES ? n - w.first : (int)PROMPT_QUERIES;
        w.table = step.tables + w.seq->table[s.group];
        const int pos = query_at(s, step, *w.seq, rows, w.head_kv, w.first).pos;
        w.page_first = lowest_seen(s, pos) / PAGE_TOKENS;
        w.page_last =
            query_at(s, step, *w.seq, rows, w.head_kv, w.first + w.n - 1).pos / PAGE_TOKENS;
        w.split_first = w.page_first / SPLIT_PAGES;
        w.split_last = w.page_last / SPLIT_PAGES;
        prompt_run_of<P>(s, plan, item, w);
        return true;
    }
    return false;
}

// The block's items: every second round goes backwards, since items become shorter.
DEV uint32_t prompt_index(uint32_t round) {
    return round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
}

// ---------------------------------------------------------------- the ring

// A part of 4 pages: keys of the elements from 128 * part on, or values.
struct prompt_stage {
    int page; // the first one
    bool is_value;
    int part;
};

// Calls f for the stages of an item, in order.
template <class P, class T> DEV void prompt_stages(const struct prompt_item &w, T f) {
    for (int split = w.split_first; split <= w.split_last; split++) {
        ROLLED for (int i = 0; i < 2 * (P::KEYS + P::PASSES); i++) {
            struct prompt_stage stage;
            stage.is_value = i >= 2 * P::KEYS;
            stage.part = stage.is_value ? i / 2 - P::KEYS : i % P::KEYS;
            stage.page =
                split * SPLIT_PAGES + (stage.is_value ? i % 2 : i / P::KEYS) * PROMPT_PAGES;
            f(stage);
        }
    }
}

// A stage's slot is free.
template <class P> DEV void slot_wait(uint32_t count) {
    if (count >= PROMPT_SLOTS)
        barrier_sync(PROMPT_EMPTY + (int)(count % PROMPT_SLOTS), 256 + P::FILLERS);
}
template <class P> DEV void slots_end(uint32_t count) { // what the teams arrived at last
    for (uint32_t i = 0; i < PROMPT_SLOTS && i < count; i++)
        barrier_sync(PROMPT_EMPTY + (int)((count + i) % PROMPT_SLOTS), 256 + P::FILLERS);
}

// The pages around the split that is filled: a lane has one of 32, and one of the next 32.
struct prompt_ids {
    int first; // a multiple of 32
    uint32_t now, next;
};
DEV uint32_t prompt_id(const struct prompt_item &w, int page) { return w.table[w.page(page)]; }
DEV void ids_seek(struct prompt_ids &ids, const struct prompt_item &w, int page, int lane) {
    const int first = page / 32 * 32;
    if (first == ids.first) return;
    ids.now = first == ids.first + 32 ? ids.next : prompt_id(w, first + lane);
    ids.next = prompt_id(w, first + 32 + lane);
    ids.first = first;
}

// Pages of 16 bits. In a slot keys are [block of 32 elements][page][position], values
// [page][element]. Lane 0 asks for all of them: copies of several lanes take turns, which is
// slower. Where elements beyond the head's last one are copies of others, lanes have a block each.
template <class P>
DEV void fill_wide(const struct stage_attention &s, const struct prompt_item &w,
                   const struct prompt_stage &stage, const struct prompt_ids &ids, uint8_t *shared,
                   uint32_t &count, int lane) {
    enum { BYTES = 2048, N = P::BLOCKS, V = P::GROUPS * 2 };
    typedef typename P::KV F;
    const uint32_t k_bytes = kv_k_bytes<F>(s.dim_k), slot = count % PROMPT_SLOTS;
    const uint32_t end =
        stage.is_value ? (uint32_t)kv_units(s.dim_v) * kv_unit_bytes<F>() : k_bytes;
    const uint32_t first = (uint32_t)(stage.part * 4 * BYTES);
    const uint32_t n = stage.is_value ? (uint32_t)V : (uint32_t)N;
    uint8_t *to = shared + P::RING_AT + slot * PROMPT_STAGE;
    uint64_t *full = (uint64_t *)shared + slot;
    const uint8_t *from[PROMPT_PAGES];
    UNROLL for (int i = 0; i < PROMPT_PAGES; i++) from[i] =
        kv_head_in<F>(s, __shfl_sync(0xffffffffu, ids.now, w.page(stage.page + i) % 32),
                      w.head_kv) +
        (stage.is_value ? k_bytes : 0) + first;
    slot_wait<P>(count++);
    if (first + n * BYTES > end) {
        const int i = lane / 4, piece = lane % 4;
        uint32_t at = (uint32_t)(piece * BYTES), bytes = 0;
        if (first + at >= end) at = 0u - first;
        if (i < PROMPT_PAGES && (uint32_t)piece < n)
            bytes = end - first - at < BYTES ? end - first - at : (uint32_t)BYTES;
        const int place = stage.is_value ? i * 4 + piece : piece * 4 + i;
        const uint8_t *of = i == 0 ? from[0] : i == 1 ? from[1] : i == 2 ? from[2] : from[3];
        fetch_all(to + place * BYTES, of + (int32_t)at, bytes, full, lane);
    } else if (stage.is_value) {
        fetch_list<PROMPT_PAGES>(
            full, lane, V * BYTES, [&](int i) { return to + i * 4 * BYTES; },
            [&](int i) { return from[i]; });
    } else {
        fetch_list<PROMPT_PAGES * N>(
            full, lane, BYTES, [&](int i) { return to + (i % N * 4 + i / N) * BYTES; },
            [&](int i) { return from[i / N] + i % N * BYTES; });
    }
}

// Pages of 8 bits: a warp has one of the 4, and writes it as 16 bits.
template <class P>
DEV void fill_narrow(const struct stage_attention &s, const struct prompt_item &w,
                     const struct prompt_stage &stage, uint8_t *shared, uint32_t &count, int warp,
                     int lane) {
    enum { N = 4 }; // units at a time
    typedef typename P::KV F;
    const int all = stage.is_value ? kv_units(s.dim_v) : kv_blocks(s.dim_k) * 2;
    const int n = stage.is_value ? P::GROUPS * 4 : P::BLOCKS * 2;
    const uint32_t slot = count % PROMPT_SLOTS;
    const uint8_t *from = kv_head_at<F>(s, w.table, w.page(stage.page + warp), w.head_kv) +
                          (stage.is_value ? kv_k_bytes<F>(s.dim_k) : 0);
    uint8_t *to = shared + P::RING_AT + slot * PROMPT_STAGE + lane * 4;
    ROLLED for (int first = 0; first < n; first += N) {
        uint4 v[N];
        UNROLL for (int i = 0; i < N; i++) {
            int unit = stage.part * 8 + first + i;
            if (unit >= all) unit = stage.is_value ? 0 : unit % 2; // keys of the same positions
            v[i] = load_l2((const uint4 *)(from + unit * kv_unit_bytes<F>()) + lane);
        }
        if (first == 0) slot_wait<P>(count);
        UNROLL for (int i = 0; i < N; i++) {
            const int u = first + i;
            uint32_t a[2][4];
            kv_fragments<F>(a, v[i]);
            if (F::TYPE == KV_FP8 && !stage.is_value && stage.part == 0 && u < 2) {
                const uint32_t bad = fp8_bad(v[i]);
                if (bad & 1) a[0][0] = 0x7fff7fffu;
                if (bad & 2) a[0][1] = 0x7fff7fffu;
            }
            uint8_t *unit = to + (stage.is_value ? warp * 8192 + u * 1024
                                                 : u / 2 * 8192 + warp * 2048 + u % 2 * 1024);
            UNROLL for (int j = 0; j < 8; j++) *
                (uint32_t *)(unit + j % 2 * 512 + j / 4 * 256 + j / 2 % 2 * 128) = a[j / 4][j % 4];
        }
    }
    copies_may_follow(); // the matrix units read behind them
    meet_arrive((uint64_t *)shared + slot, lane);
    count++;
}

template <class P>
DEV void fillers_run(const struct stage_attention &s, const struct step &step, int rows,
                     const struct attention_seqs &seqs, uint8_t *shared) {
    const int warp = (int)threadIdx.x / 32 - 8, lane = (int)threadIdx.x % 32;
    uint32_t count = 0;
    struct prompt_item w;
    const struct prompt_plan plan = prompt_plan_of<P>(s, step, rows, seqs);
    if (P::IS_WIDE && warp > 0) return;
    for (uint32_t round = 0; prompt_item_find<P>(s, step, rows, seqs, plan, prompt_index(round), w);
         round++) {
        if (w.run >= w.n_runs) continue;
        struct prompt_ids ids = {-64, 0, 0};
        prompt_stages<P>(w, [&](const struct prompt_stage &stage) {
            if constexpr (P::IS_WIDE) {
                ids_seek(ids, w, stage.page, lane);
                fill_wide<P>(s, w, stage, ids, shared, count, lane);
            } else {
                fill_narrow<P>(s, w, stage, shared, count, warp, lane);
            }
        });
    }
    slots_end<P>(count);
}

#endif
