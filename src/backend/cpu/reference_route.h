// The definition of routers. It is the same for every instruction set, and for other backends.
#ifndef RN_BACKEND_CPU_REFERENCE_ROUTE_H
#define RN_BACKEND_CPU_REFERENCE_ROUTE_H

#include "plan/plan.h"

// How an op chooses experts.
struct route_args {
    int n, k;          // the best k of n
    const float *bias; // [n] added to the scores for the choice alone; NULL: none
    enum route_score score;
    bool normalize;
    float scale;                           // 0: none
    const float *factor;                   // [n] of each expert's weight; NULL: none
    float least;                           // these as in op.route
    int n_group, n_group_used, group_best; // n_group 0: none
    float jitter;
};
// The k best of n logits, by rank, and their weights; see ROUTE in docs/NUMERICS.md.
void reference_route(const struct route_args *args, const float *logit, float *id, float *weight);

#endif
