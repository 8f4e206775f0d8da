// Predicts how long a step takes, so that prompts can be cut to fit between two tokens of the
// streams that run. time = rows(n) + KV bytes * ns_per_byte + attention's FLOPs * ns_per_flop.
// rows(n) is a table over the number of rows, in geometric buckets: averages of measured steps
// without their attention part. Both rates start from the first step and are corrected by what was
// mispredicted, each part in proportion to its square (normalised least mean squares).
//
// A step that the system interrupted may take ten times as long, but none is faster than the
// machine: what is much slower than predicted counts in part, what is much faster at once.
#ifndef RN_ENGINE_PRICE_PACE_H
#define RN_ENGINE_PRICE_PACE_H

#include "plan/cost_rates.h"

enum { PACE_MIN_CHUNK = 8, PACE_BUCKETS = 96 };

struct pace {
    const struct cost_rates *rates;
    double ns_per_byte, ns_per_flop; // 0: nothing was measured
    struct pace_bucket {
        double rows, ns; // averages of what fell into it
        int count;       // of measurements; 0: none
        int age;         // mixed steps since the last one
        bool was_slow;   // the last one took much longer than predicted
    } bucket[PACE_BUCKETS];
    int n_point; // the table as it is read: measured buckets, ascending in both
    struct pace_point {
        double rows, ns;
    } point[PACE_BUCKETS];
    int inertia;        // a new measurement has at least 1 / this of its bucket
    int lifetime;       // steps after which a bucket is forgotten; 0: mixed steps alone count
    double recent_rows; // the most of a mixed step lately
    int n_slow;         // steps in a row that were slower than predicted, and by how much at least
    double slow_ratio;
};

void pace_init(struct pace *pace, const struct cost_rates *rates); // rates outlive it
// ns; 0: nothing was measured yet.
uint64_t pace_predict(const struct pace *pace, const struct batch_shape *shape);
// What a step took. Steps without logits skip part of the model and are not learned from.
void pace_learn(struct pace *pace, const struct batch_shape *shape, uint64_t ns);
// The most tokens of a prompt at first_pos, 1 to wanted, for which the step that has `base` already
// is predicted to stay within bound_ns; at least one, so that prompts progress, and PACE_MIN_CHUNK
// where nothing was measured yet or the step is beyond the bound without a prompt too.
int pace_chunk(const struct pace *pace, const struct plan *plan, const struct batch_shape *base,
               int first_pos, int wanted, uint64_t bound_ns);

#endif
