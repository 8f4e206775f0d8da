// The plan of attention of many streams: runs of splits that keep all multiprocessors busy to the
// end, the most expensive ones first. It decides who does what, and nothing of a row's bits.
#include "backend/cuda/attention_streams.h"

#include <assert.h>
#include <string.h>

enum {
    COST_EXTRA = 2, // of a run beyond its pages
    N_BUCKETS = 64, // by cost
    // Parts of a multiprocessor's share. Queries that cost more than WHOLE of it are cut into runs
    // of CUT. Fewer runs leave multiprocessors idle at the end; more of them are more parts
    SHARE = 100,
    SHARE_WHOLE = 55,
    SHARE_CUT = 12,
};

struct planner {
    const struct stream_kind *kind;
    const int32_t *out_row;
    int tiles;
    int64_t share; // pages, about, that a multiprocessor reads
    int64_t most;  // the largest cost
    uint64_t n_slots, n_counters;
    int n_of[N_BUCKETS], first_of[N_BUCKETS];
    struct stream_entry *out; // NULL: runs are counted only
};

int stream_has(int dim_k, int dim_v) {
    return dim_k == dim_v && (dim_k == 64 || dim_k == 128 || dim_k == 256);
}

int stream_tiles(const struct stream_kind *kind, int n_rows) {
    return n_rows * kind->ratio <= 8 ? 1 : STREAM_TILES(kind->dim);
}

static int groups_of(int n_queries, int tiles) { return (n_queries + 8 * tiles - 1) / (8 * tiles); }

int stream_plan_most(const struct stream_kind *kind, int n, int n_rows, int n_sm) {
    const int n_queries = n_rows * kind->ratio, tiles = stream_tiles(kind, n_rows);
    // runs are at least half as long as planned; the first and the last split of queries may be
    // short
    return 3 * n * groups_of(n_queries, tiles) + 2 * n_sm * SHARE / SHARE_CUT + 1;
}

// Queries `first` and the n - 1 behind it, without a run yet.
static struct stream_entry queries_of(const struct planner *p, const struct step_seq *seq,
                                      int index, int first, int n) {
    const struct stream_kind *kind = p->kind;
    int pos[2];
    for (int i = 0; i < 2; i++) {
        const int row = (i ? first + n - 1 : first) / kind->ratio;
        const int token = kind->is_out ? p->out_row[seq->first_out + row] : seq->first_row + row;
        pos[i] = seq->first_pos + (token - seq->first_row);
    }
    int lowest = 0; // as lowest_seen
    if (kind->window > 0 && pos[0] >= kind->window)
        lowest = kind->is_chunk ? pos[0] - pos[0] % kind->window : pos[0] - kind->window + 1;
    return (struct stream_entry){.seq = index,
                                 .first = first,
                                 .n = n,
                                 .page_first = lowest / PAGE_TOKENS,
                                 .page_last = pos[1] / PAGE_TOKENS,
                                 .n_runs = 1};
}

static int cost_of(const struct stream_entry *e) {
    return e->page_last - e->page_first + 1 + COST_EXTRA;
}

static void run_put(struct planner *p, struct stream_entry e, int split_first, int split_last) {
    const int first = split_first * SPLIT_PAGES, last = split_last * SPLIT_PAGES + SPLIT_PAGES - 1;
    e.split_first = split_first;
    e.split_last = split_last;
    e.cost = (last < e.page_last ? last : e.page_last) -
             (first > e.page_first ? first : e.page_first) + 1 + COST_EXTRA;
    const int bucket = (int)(N_BUCKETS - 1 - e.cost * (N_BUCKETS - 1) / p->most);
    if (!p->out)
        p->n_of[bucket]++;
    else
        p->out[p->first_of[bucket]++] = e;
}

// All runs of some queries.
static void queries_cut(struct planner *p, struct stream_entry e) {
    const struct stream_kind *kind = p->kind;
    const int begin = e.page_first / SPLIT_PAGES, end = e.page_last / SPLIT_PAGES;
    const int n_splits = end - begin + 1;
    const int n_pairs = e.n <= 2 ? 1 : e.n <= 4 ? 2 : 4;
    const uint64_t slots = (uint64_t)kind->n_head_kv * (uint64_t)n_splits * STREAM_WARPS *
                           (uint64_t)((e.n + 7) / 8 * n_pairs * STREAM_PAIR_SLOTS(kind->dim));
    const uint64_t counters = (uint64_t)kind->n_head_kv * STREAM_WARPS;
    int run = (int)(p->share * SHARE_CUT / SHARE / SPLIT_PAGES);
    if (run < 1) run = 1;
    if (cost_of(&e) * SHARE <= p->share * SHARE_WHOLE || run >= n_splits ||
        p->n_slots + slots > ATTENTION_PARTS / 16 || p->n_counters + counters > STREAM_TAKEN) {
        run_put(p, e, begin, end);
        return;
    }
    e.n_runs = (n_splits + run - 1) / run;
    e.n_folded = run;
    e.slot = (uint32_t)p->n_slots;
    e.counter = (int32_t)p->n_counters;
    p->n_slots += slots;
    p->n_counters += counters;
    for (int i = begin; i <= end; i += run) run_put(p, e, i, i + run - 1 < end ? i + run - 1 : end);
}

static int n_queries_of(const struct stream_kind *kind, const struct step_seq *seq) {
    return (kind->is_out ? seq->n_out : seq->n_tokens) * kind->ratio;
}

int stream_plan(const struct stream_kind *kind, const struct step_seq *seqs, const int32_t *index,
                int n, const int32_t *out_row, int tiles, int n_sm, struct stream_entry *out) {
    struct planner p = {.kind = kind, .out_row = out_row, .tiles = tiles, .most = 1};
    int64_t all = 0;
    for (int pass = 0; pass < 3; pass++) {
        p.n_slots = p.n_counters = 0;
        for (int i = 0; i < n; i++) {
            const struct step_seq *seq = &seqs[index[i]];
            const int n_queries = n_queries_of(kind, seq);
            for (int first = 0; first < n_queries; first += 8 * tiles) {
                const int rest = n_queries - first;
                const struct stream_entry e =
                    queries_of(&p, seq, index[i], first, rest < 8 * tiles ? rest : 8 * tiles);
                const int cost = cost_of(&e);
                if (pass > 0) {
                    queries_cut(&p, e);
                    continue;
                }
                all += (int64_t)cost * kind->n_head_kv;
                if (cost > p.most) p.most = cost;
            }
        }
        p.share = all / n_sm;
        if (pass != 1) continue;
        for (int i = 1; i < N_BUCKETS; i++) p.first_of[i] = p.first_of[i - 1] + p.n_of[i - 1];
        p.out = out;
    }
    return p.first_of[N_BUCKETS - 1];
}
