// What a draft model's steps take: time over the number of sequences, at powers of two with
// straight lines between. Measured once before the first draft, then corrected by each step. A step
// that the system interrupted takes much longer, so one that is slower than expected counts for
// little; several of them still move the table. Plain arithmetic; the drafter "model" calls it.
#ifndef RN_ENGINE_DRAFT_DRAFT_COST_H
#define RN_ENGINE_DRAFT_DRAFT_COST_H

enum { DRAFT_COST_SIZES = 13 }; // 1 to 4096

struct draft_cost {
    double ns[DRAFT_COST_SIZES]; // of 2^i sequences; ascending when it is made
};

// measured: of 1, 2, 4, ... sequences, n >= 1 of them; the rest is continued.
void draft_cost_init(struct draft_cost *cost, const double *measured, int n);
double draft_cost_ns(const struct draft_cost *cost, int n_seqs);
void draft_cost_learn(struct draft_cost *cost, int n_seqs, double ns);

// The same for a single number: what it becomes when `ns` was measured.
double draft_cost_corrected(double expected_ns, double ns);

#endif
