// The reference models of hybrids.json, before an engine runs them: the build makes the original
// weights, and the carried logits agree with the continuation.
#include "golden.h"

static void check_step(const struct golden *g, int step) {
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

static void is_carried(void **state) {
    struct golden g = golden_load(*state);
    const struct data_file file = golden_safetensors(g.name);
    check(data_checksum(file.data, file.size) == g.checksum, "%s: other weights", g.name);
    free(file.data);
    for (int i = 0; i < g.n_next; i++) check_step(&g, i);
    golden_unload(&g);
}

TEST_PROGRAM(hybrids) { return data_run_tests(GOLDEN_HYBRIDS, "is_carried", is_carried, NULL); }
