// Files of a reference model that the repository has in part: the build makes the original
// weights, and the logits agree with the continuation. For tests/runnel/test_hybrids.c and
// test_families.c.
#ifndef RN_TESTS_GOLDEN_CARRIED_H
#define RN_TESTS_GOLDEN_CARRIED_H

#include "golden.h"

static inline void golden_check_step(const struct golden *g, int step) {
    const int position = g->n_prompt - 1 + step;
    const float *best = golden_logit(g, position, g->next[step]);
    int n_carried = 0;
    assert_true(g->lead[step] > 0);
    for (int id = 0; id < g->n_vocab; id++) {
        const float *logit = golden_logit(g, position, id);
        if (!logit) continue;
        n_carried++;
        assert_true(isfinite(*logit));
        check(!best || id == g->next[step] || (double)(*best - *logit) >= g->lead[step] - 1e-5,
              "%s: step %d, id %d", g->name, step, id);
    }
    assert_int_equal(n_carried, g->n_vocab / g->ids_every);
}

static inline void golden_is_carried(void **state) {
    struct golden g = golden_load(*state);
    const struct data_file file = golden_safetensors(g.name);
    check(data_checksum(file.data, file.size) == g.checksum, "%s: other weights", g.name);
    free(file.data);
    for (int i = 0; i < g.n_next; i++) golden_check_step(&g, i);
    golden_unload(&g);
}

#endif
