// The batches of a parity case, the same for every backend. Sequences start at different depths,
// one continues in copies of another one's pages, and batches have 1 to 64 rows of any of them.
// Tables name only visible pages; pages that no row can see any more are given back.
#ifndef RN_TESTS_PARITY_FEED_H
#define RN_TESTS_PARITY_FEED_H

#include "parity_case.h"
#include "plan/batch.h"

enum {
    PARITY_SEQS = 5,
    PARITY_ROWS = 64,
    PARITY_BLOCKS = PARITY_PAGED / KV_PAGE_TOKENS,
    PARITY_PAGES = PARITY_SEQS * PARITY_BLOCKS,    // of a group, that tables name
    PARITY_ALL_PAGES = PARITY_PAGES + PARITY_SEQS, // with one beside each table
    PARITY_OPS = 2 * PARITY_PAGES,
    PARITY_SIZES = 6,
};

struct parity_seq {
    int n_done, depth; // depth: positions before the batches of many sizes
    int n_page;
    int first[PLAN_MAX_KV_GROUPS];                    // blocks before it were given back
    uint32_t page[PLAN_MAX_KV_GROUPS][PARITY_BLOCKS]; // its own
    uint32_t table[PLAN_MAX_KV_GROUPS][PARITY_BLOCKS];
};

struct parity_feed {
    const struct plan *plan;
    uint64_t random;
    int n_seqs, n_sized;
    int size[PARITY_SIZES];
    bool forked;
    struct parity_seq seq[PARITY_SEQS];
    int32_t token[PARITY_ROWS], pos[PARITY_ROWS], out_row[PARITY_ROWS];
    struct batch_seq batch_seq[PARITY_SEQS];
    struct batch_page page[PARITY_OPS];
    struct batch_page gone[PARITY_OPS]; // to be released once the batch is submitted
    int n_gone;
    struct batch batch;
    const struct parity_case *of;
    const float *input[PARITY_ROWS];
};

static inline int feed_below(struct parity_feed *f, int n) { return random_below(&f->random, n); }

// Whether the state of a recurrent group goes on in the page of the block before.
static inline bool feed_moves(const struct parity_feed *f, int group, int block) {
    return f->plan->group[group].kind == KV_RECURRENT && block % 3 != 0;
}

static inline void feed_init(struct parity_feed *f, const struct parity_case *c) {
    static const int sizes[PARITY_SIZES] = {1, 2, 3, 8, 17, PARITY_ROWS};
    static const int depths[] = {0, 0, 1, 20, 31, 33, 100, 290};
    memset(f, 0, sizeof *f);
    f->plan = &c->plan;
    f->of = c;
    f->random = (uint64_t)c->kind * 31 + (uint64_t)c->index * 1009 + 77;
    f->n_seqs = 1 + feed_below(f, PARITY_SEQS);
    f->forked = f->n_seqs < 2 || c->plan.n_group == 0 || feed_below(f, 2);
    memcpy(f->size, sizes, sizeof sizes);
    for (int i = PARITY_SIZES - 1; i > 0; i--) {
        const int j = feed_below(f, i + 1), kept = f->size[i];
        f->size[i] = f->size[j];
        f->size[j] = kept;
    }
    for (int s = 0; s < f->n_seqs; s++) {
        struct parity_seq *seq = &f->seq[s];
        if (c->plan.n_group > 0)
            seq->depth = depths[feed_below(f, (int)(sizeof depths / sizeof *depths))];
        else
            seq->depth = seq->n_done = feed_below(f, c->n_positions - 2 * PARITY_ROWS);
        for (int g = 0; g < c->plan.n_group; g++)
            for (int b = 0; b < PARITY_BLOCKS; b++) { // neither ordered nor dense
                seq->page[g][b] = (uint32_t)(PARITY_PAGES - 1 - b * PARITY_SEQS - (s + g) % 5);
                if (feed_moves(f, g, b)) seq->page[g][b] = seq->page[g][b - 1];
            }
    }
}

// The first block that a row at pos or later sees.
static inline int feed_first_seen(const struct plan_kv_group *group, int pos) {
    if (group->kind == KV_FULL) return 0;
    if (group->kind == KV_CHUNK) return pos / group->window * group->window / KV_PAGE_TOKENS;
    const int back = group->kind == KV_RECURRENT ? 1 : group->window - 1;
    return pos < back ? 0 : (pos - back) / KV_PAGE_TOKENS;
}

static inline void feed_tables(struct parity_feed *f, struct parity_seq *seq, int n_page) {
    for (int g = 0; g < f->plan->n_group; g++) {
        const int seen = feed_first_seen(&f->plan->group[g], seq->n_done);
        for (int b = seq->n_page; b < n_page; b++)
            if (!feed_moves(f, g, b))
                f->page[f->batch.n_pages++] = (struct batch_page){g, seq->page[g][b], BATCH_ZERO};
        for (; seq->first[g] < seen; seq->first[g]++)
            if (!feed_moves(f, g, seq->first[g] + 1))
                f->gone[f->n_gone++] =
                    (struct batch_page){g, seq->page[g][seq->first[g]], BATCH_ZERO};
        for (int b = 0; b < PARITY_BLOCKS; b++)
            seq->table[g][b] = b < seen || b >= n_page ? UINT32_MAX : seq->page[g][b];
    }
    seq->n_page = n_page;
}

// At times the state before the first row is beside the table, and the table's page has none.
static inline void feed_state_from(struct parity_feed *f, const struct parity_seq *seq,
                                   struct batch_seq *out) {
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) out->state_from[g] = BATCH_ZERO;
    for (int g = 0; g < f->plan->n_group; g++) {
        if (f->plan->group[g].kind != KV_RECURRENT || seq->n_done == 0 || feed_below(f, 2))
            continue;
        const uint32_t page = seq->table[g][(seq->n_done - 1) / KV_PAGE_TOKENS];
        const uint32_t beside = (uint32_t)(PARITY_PAGES + (seq - f->seq));
        f->page[f->batch.n_pages++] = (struct batch_page){g, beside, page};
        f->page[f->batch.n_pages++] = (struct batch_page){g, page, BATCH_ZERO};
        out->state_from[g] = beside;
    }
}

// The next n tokens of a sequence, which may be none.
static inline void feed_add(struct parity_feed *f, struct parity_seq *seq, int n) {
    struct batch *batch = &f->batch;
    struct batch_seq *out = &f->batch_seq[batch->n_seqs++];
    *out =
        (struct batch_seq){.first_row = batch->n_tokens, .n_tokens = n, .first_pos = seq->n_done};
    for (int i = 0; i < n; i++, batch->n_tokens++) {
        f->token[batch->n_tokens] = feed_below(f, PARITY_VOCAB);
        f->pos[batch->n_tokens] = seq->n_done + i;
    }
    const int n_page = (seq->n_done + n + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    if (f->plan->n_group > 0) feed_tables(f, seq, n_page > seq->n_page ? n_page : seq->n_page);
    for (int g = 0; g < f->plan->n_group; g++) out->page_table[g] = seq->table[g];
    for (int g = 0; n == 0 && g < PLAN_MAX_KV_GROUPS; g++) out->state_from[g] = BATCH_ZERO;
    if (n > 0) feed_state_from(f, seq, out);
    seq->n_done += n;
}

// Results of most rows, or of the last row of each sequence; some of them as logits.
static inline void feed_outs(struct parity_feed *f, bool most) {
    struct batch *batch = &f->batch;
    const bool backwards = feed_below(f, 2);
    for (int i = 0; i < batch->n_seqs; i++) {
        struct batch_seq *seq = &f->batch_seq[backwards ? batch->n_seqs - 1 - i : i];
        seq->first_out = batch->n_out;
        for (int r = 0; r < seq->n_tokens; r++) {
            const bool last = r == seq->n_tokens - 1;
            if (!last && (!most || feed_below(f, 4) == 0)) continue;
            f->out_row[batch->n_out++] = seq->first_row + r;
        }
        seq->n_out = batch->n_out - seq->first_out;
    }
    batch->n_logits = feed_below(f, batch->n_out + 1);
    if (f->plan->hidden == PLAN_NONE || feed_below(f, 3) == 0) batch->n_logits = batch->n_out;
}

// The second sequence continues where the first one is, in copies of the visible pages.
static inline void feed_fork(struct parity_feed *f) {
    const struct parity_seq *from = &f->seq[0];
    struct parity_seq *to = &f->seq[1];
    f->forked = true;
    to->n_done = from->n_done;
    to->n_page = from->n_page;
    for (int g = 0; g < f->plan->n_group; g++) {
        to->first[g] = feed_first_seen(&f->plan->group[g], from->n_done);
        if (to->first[g] < from->first[g]) to->first[g] = from->first[g];
        for (int b = to->first[g]; b < from->n_page; b++)
            if (b == to->first[g] || !feed_moves(f, g, b))
                f->page[f->batch.n_pages++] =
                    (struct batch_page){g, to->page[g][b], from->page[g][b]};
    }
}

// Rows that bring sequences to their depth; false: all are there.
static inline bool feed_deepen(struct parity_feed *f) {
    for (int s = 0; s < f->n_seqs; s++) {
        struct parity_seq *seq = &f->seq[s];
        int n = seq->depth - seq->n_done;
        if (n > PARITY_ROWS - f->batch.n_tokens) n = PARITY_ROWS - f->batch.n_tokens;
        if (n > 0) feed_add(f, seq, n);
    }
    return f->batch.n_tokens > 0;
}

static inline void feed_sized(struct parity_feed *f, int n_rows) {
    int count[PARITY_SEQS] = {0};
    for (int r = 0; r < n_rows; r++) count[feed_below(f, f->n_seqs)]++;
    for (int s = 0; s < f->n_seqs; s++)
        if (count[s] > 0 || feed_below(f, 2)) feed_add(f, &f->seq[s], count[s]);
}

// The next batch into f->batch; false: there is none.
static inline bool feed_next(struct parity_feed *f) {
    f->batch = (struct batch){.token = f->token,
                              .pos = f->pos,
                              .out_row = f->out_row,
                              .seq = f->batch_seq,
                              .page = f->page};
    f->n_gone = 0;
    const bool deepens = feed_deepen(f);
    if (!deepens) {
        if (f->n_sized == PARITY_SIZES) return false;
        if (!f->forked) feed_fork(f);
        feed_sized(f, f->size[f->n_sized++]);
    }
    feed_outs(f, !deepens);
    f->batch.is_draft = f->of->input != NULL;
    f->batch.input = f->of->input ? f->input : NULL;
    for (int r = 0; f->of->input && r < f->batch.n_tokens; r++)
        f->input[r] = f->of->input + f->token[r] * f->of->input_width;
    return true;
}

// Spoils the batch's arrays: the backend may not read them any more.
static inline void feed_spoil(struct parity_feed *f) {
    memset(f->token, 0xff, sizeof f->token);
    memset(f->pos, 0xff, sizeof f->pos);
    memset(f->out_row, 0xff, sizeof f->out_row);
    memset(f->batch_seq, 0xff, sizeof f->batch_seq);
    memset(f->page, 0xff, sizeof f->page);
    for (int s = 0; s < PARITY_SEQS; s++) memset(f->seq[s].table, 0xff, sizeof f->seq[s].table);
}

#endif
