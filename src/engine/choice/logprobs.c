// See logprobs.h. logprob = (logit - top) - log(sum of exp(logit - top)), summed in double. The
// exponential is that of the choice (plan/noise.h). It is exact to 1e-6 of each weight, and so of
// the sum.
#include "engine/choice/logprobs.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "plan/noise.h"

// The largest logits in order, with their ids; at least one is wanted. Ids ascend, so among equal
// logits the lower id stays first.
static int find_likeliest(const float *logits, int n_vocab, int most, rn_logprob *out) {
    int n = 0;
    for (int32_t id = 0; id < n_vocab; id++) {
        const float logit = logits[id];
        if (n == most && !(logit > out[n - 1].logprob)) continue;
        if (!isfinite(logit)) continue;
        int at = n < most ? n++ : n - 1;
        for (; at > 0 && logit > out[at - 1].logprob; at--) out[at] = out[at - 1];
        out[at] = (rn_logprob){.token = id, .logprob = logit};
    }
    return n;
}

static int by_logit(const void *a, const void *b) {
    const rn_logprob *x = a, *y = b;
    if (x->logprob != y->logprob) return x->logprob > y->logprob ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

// The whole vocabulary in the same order.
static int sort_all(const float *logits, int n_vocab, rn_logprob *out) {
    int n = 0;
    for (int32_t id = 0; id < n_vocab; id++)
        if (isfinite(logits[id])) out[n++] = (rn_logprob){.token = id, .logprob = logits[id]};
    qsort(out, (size_t)n, sizeof *out, by_logit);
    return n;
}

// NaN and infinity have no part in the sum: top is the largest finite logit. -infinity weighs 0.
static double log_of_sum(const float *logits, int n_vocab, float top) {
    double sum = 0;
    for (int i = 0; i < n_vocab; i++) {
        const float logit = logits[i] <= top ? logits[i] : -INFINITY;
        sum += (double)weight_of(logit - top);
    }
    return rmath_log(sum);
}

int logprobs_fill(const float *logits, int n_vocab, int32_t token, int n_top, rn_logprob *out) {
    assert(n_top >= 0 && (n_top <= RN_MAX_TOP_LOGPROBS || n_top == n_vocab));
    const bool all = n_top > RN_MAX_TOP_LOGPROBS;
    rn_logprob few[RN_MAX_TOP_LOGPROBS], *best = all ? out + 1 : few;
    best[0] = (rn_logprob){0};
    const int found = all ? sort_all(logits, n_vocab, best)
                          : find_likeliest(logits, n_vocab, n_top > 1 ? n_top : 1, best);
    const int n = 1 + (found < n_top ? found : n_top);
    const float top = best[0].logprob;
    const double log_sum = log_of_sum(logits, n_vocab, top);
    out[0] = (rn_logprob){.token = token, .logprob = logits[token]};
    for (int i = 1; i < n; i++) out[i] = best[i - 1];
    for (int i = 0; i < n; i++)
        out[i].logprob = (float)((double)out[i].logprob - (double)top - log_sum);
    if (!isfinite(logits[token])) out[0].logprob = -INFINITY;
    return n;
}

int32_t logprobs_rank(const float *logits, int n_vocab, int32_t token) {
    const float own = isfinite(logits[token]) ? logits[token] : -INFINITY;
    int32_t rank = 1;
    for (int32_t id = 0; id < n_vocab; id++)
        rank += (logits[id] > own && isfinite(logits[id])) || (logits[id] == own && id < token);
    return rank;
}
