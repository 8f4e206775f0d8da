// The plan of attention of many streams: runs of splits that keep all multiprocessors busy to the
// end, the most expensive ones first. It decides who does what, and nothing of a row's bits.
#include "backend/cuda/attention_streams.h"

#include <assert.h>
#include <string.h>

enum {
    COST_EXTRA = 2, // of a run beyond its pages
    COST_PART = 3,  // the same, where others have runs of the same queries
    N_BUCKETS = 64, // by cost
    // Runs are tried that fill all teams once, twice, ... and longer ones
    CUT_ROUNDS = 3,
    CUT_LONGER = 3,
    CUT_SLACK = SPLIT_PAGES / 2, // pages that a run may have more
    // Of a page, where all other teams are idle, and beyond that where all are busy: as measured
    TIME_ALONE = 900,
    TIME_SHARED = 1000,
};

// The runs of a step that is cut into runs of `run` splits at most.
struct cut {
    int run;
    int64_t n_full, n_rest;     // runs of `run` splits, and all others
    int64_t all, rest, longest; // costs: of all runs, of the others, of the longest one of these
};

struct planner {
    const struct stream_kind *kind;
    const int32_t *out_row;
    int tiles;
    int run;      // splits of a run
    int64_t most; // the largest cost
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
    // a rest of each, and full runs of all: see cuts_make
    return n * groups_of(n_queries, tiles) + CUT_ROUNDS * STREAM_TEAMS(1) * n_sm;
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

static int splits_of(const struct stream_entry *e) {
    return e->page_last / SPLIT_PAGES - e->page_first / SPLIT_PAGES + 1;
}

// ---------------------------------------------------------------- the length of runs

// A run that is not full, of each head.
static void rest_add(struct cut *c, int cost, int n_head_kv) {
    c->n_rest += n_head_kv;
    c->all += (int64_t)cost * n_head_kv;
    c->rest += (int64_t)cost * n_head_kv;
    if (cost > c->longest) c->longest = cost;
}

// The last split of a run that begins with `first`. A few pages behind it are part of it.
static int run_end(const struct stream_entry *e, int first, int run) {
    const int end = e->page_last / SPLIT_PAGES;
    if (run > end - first) return end;
    return e->page_last - (first + run) * SPLIT_PAGES < CUT_SLACK ? end : first + run - 1;
}

static void cut_add(struct cut *c, const struct stream_entry *e, int n_head_kv) {
    const int begin = e->page_first / SPLIT_PAGES, full = c->run * SPLIT_PAGES + COST_PART;
    if (run_end(e, begin, c->run) == e->page_last / SPLIT_PAGES) {
        rest_add(c, cost_of(e), n_head_kv);
        return;
    }
    const int n_pages = e->page_last + 1 - begin * SPLIT_PAGES;
    const int64_t n_full = n_pages / (c->run * SPLIT_PAGES);
    const int rest = n_pages % (c->run * SPLIT_PAGES);
    if (rest > CUT_SLACK) rest_add(c, rest + COST_PART, n_head_kv);
    c->n_full += n_full * n_head_kv;
    c->all += n_full * full * n_head_kv;
}

static int64_t rounds_of(int64_t n, int64_t n_teams) { return (n + n_teams - 1) / n_teams; }

// Until the last team ends, about: long runs are first, in rounds, then the others.
static int64_t cut_time(const struct cut *c, int64_t n_teams) {
    const int64_t rounds = rounds_of(c->n_full, n_teams), n = c->n_full + c->n_rest;
    int64_t time = rounds * (c->run * SPLIT_PAGES + COST_PART);
    if (n > rounds * n_teams)
        time += c->longest + (rounds_of(n - rounds * n_teams, n_teams) - 1) * (c->rest / c->n_rest);
    if (time < c->all / n_teams) time = c->all / n_teams;
    return time * (TIME_ALONE + TIME_SHARED * (n < n_teams ? n : n_teams) / n_teams);
}

static const struct cut *cut_best(const struct cut *cuts, int n, int64_t n_teams) {
    const struct cut *best = cuts;
    for (int i = 1; i < n; i++)
        if (cut_time(&cuts[i], n_teams) < cut_time(best, n_teams)) best = &cuts[i];
    return best;
}

// ---------------------------------------------------------------- runs

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
    const int n_splits = splits_of(&e), run = p->run;
    const int n_pairs = e.n <= 2 ? 1 : e.n <= 4 ? 2 : 4;
    const uint64_t slots = (uint64_t)kind->n_head_kv * (uint64_t)n_splits * STREAM_WARPS *
                           (uint64_t)((e.n + 7) / 8 * n_pairs * STREAM_PAIR_SLOTS(kind->dim));
    const uint64_t counters = (uint64_t)kind->n_head_kv * STREAM_WARPS;
    const int first = run_end(&e, begin, run);
    if (first == end || p->n_slots + slots > ATTENTION_PARTS / 16 ||
        p->n_counters + counters > STREAM_TAKEN) {
        run_put(p, e, begin, end);
        return;
    }
    e.n_runs = 0;
    for (int i = begin; i <= end; i = run_end(&e, i, run) + 1) e.n_runs++;
    e.n_folded = first + 1 - begin;
    e.slot = (uint32_t)p->n_slots;
    e.counter = (int32_t)p->n_counters;
    p->n_slots += slots;
    p->n_counters += counters;
    for (int i = begin, last; i <= end; i = last + 1) {
        last = run_end(&e, i, run);
        run_put(p, e, i, last);
    }
}

static int n_queries_of(const struct stream_kind *kind, const struct step_seq *seq) {
    return (kind->is_out ? seq->n_out : seq->n_tokens) * kind->ratio;
}

// The lengths of runs that are tried; the last one cuts nothing. Returns their number.
static int cuts_make(int64_t n_splits, int64_t n_teams, struct cut *out) {
    int n = 0;
    for (int rounds = 1; rounds <= CUT_ROUNDS; rounds++) {
        const int64_t least = rounds_of(n_splits, rounds * n_teams);
        for (int i = 0; i < CUT_LONGER; i++) out[n++] = (struct cut){.run = (int)least + i};
    }
    out[n++] = (struct cut){.run = INT32_MAX / SPLIT_PAGES - COST_PART};
    return n;
}

// A pass over all queries: the splits and the largest cost, the costs of each cut, the number of
// runs of each cost, the runs.
enum pass { PASS_SIZE, PASS_CUTS, PASS_COUNT, PASS_PUT, N_PASSES };

int stream_plan(const struct stream_kind *kind, const struct step_seq *seqs, const int32_t *index,
                int n, const int32_t *out_row, int tiles, int n_sm, struct stream_entry *out) {
    struct planner p = {.kind = kind, .out_row = out_row, .tiles = tiles, .most = 1};
    struct cut cuts[CUT_ROUNDS * CUT_LONGER + 1];
    const int64_t n_teams = (int64_t)n_sm * STREAM_TEAMS(tiles);
    int64_t n_splits = 0;
    int n_cuts = 0;
    for (enum pass pass = 0; pass < N_PASSES; pass++) {
        p.n_slots = p.n_counters = 0;
        for (int i = 0; i < n; i++) {
            const struct step_seq *seq = &seqs[index[i]];
            const int n_queries = n_queries_of(kind, seq);
            for (int first = 0; first < n_queries; first += 8 * tiles) {
                const int rest = n_queries - first;
                const struct stream_entry e =
                    queries_of(&p, seq, index[i], first, rest < 8 * tiles ? rest : 8 * tiles);
                if (pass == PASS_SIZE) {
                    n_splits += (int64_t)splits_of(&e) * kind->n_head_kv;
                    if (cost_of(&e) > p.most) p.most = cost_of(&e);
                } else if (pass == PASS_CUTS) {
                    for (int c = 0; c < n_cuts; c++) cut_add(&cuts[c], &e, kind->n_head_kv);
                } else {
                    queries_cut(&p, e);
                }
            }
        }
        if (pass == PASS_SIZE) n_cuts = cuts_make(n_splits, n_teams, cuts);
        if (pass == PASS_CUTS) p.run = cut_best(cuts, n_cuts, n_teams)->run;
        if (pass != PASS_COUNT) continue;
        for (int i = 1; i < N_BUCKETS; i++) p.first_of[i] = p.first_of[i - 1] + p.n_of[i - 1];
        p.out = out;
    }
    return p.first_of[N_BUCKETS - 1];
}
