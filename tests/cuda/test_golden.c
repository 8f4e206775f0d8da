// The reference models on the CUDA backend: bits do not depend on the chunks of the prompt, and
// logits are as near to the reference as the rounding of weights and inputs to 16 bits allows.
#include "cuda_engine.h"
#include "golden.h"

enum { N_CHUNKS = 5 };

// The lead of the best logit of a row over the second.
static float lead_of(const float *row, int n) {
    float best = -INFINITY, second = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (row[i] > best) {
            second = best;
            best = row[i];
        } else if (row[i] > second) {
            second = row[i];
        }
    }
    return best - second;
}

// The ids are the reference's up to the first position whose lead is within the difference.
static void check_ids(const struct golden *g, const struct golden_run *run, float difference) {
    for (int i = 0; i < g->n_next; i++) {
        if (run->ids[i] == g->next[i]) continue;
        const float lead = lead_of(golden_row(g, g->n_prompt - 1 + i), g->n_vocab);
        check(lead <= 2 * difference, "%s: token %d is %d, expected %d by %g, difference %g",
              g->name, i, run->ids[i], g->next[i], (double)lead, (double)difference);
        return;
    }
}

// The same tokens where only the last row's logits are wanted: steps of a prompt have no out rows
// then, and must append their keys and values all the same.
static void check_quiet_prompt(const struct golden *g, const struct golden_run *first) {
    const rn_engine_options o = {.batch_tokens = 7};
    rn_engine *engine;
    rn_error err;
    uint64_t id;
    int n = 0;
    check(rn_engine_create(g->model, &o, &engine, &err) == RN_OK, "%s: %s", g->name, err.message);
    const rn_request request = {.prompt = g->prompt,
                                .n_prompt = (size_t)g->n_prompt,
                                .max_tokens = g->n_next,
                                .ignore_eos = true};
    check(rn_engine_submit(engine, &request, &id, &err) == RN_OK, "%s", err.message);
    for (bool busy = true; busy;) {
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);) {
            if (event.token < 0) continue;
            check(n < first->n_ids && event.token == first->ids[n], "%s: token %d is %d", g->name,
                  n, event.token);
            n++;
        }
    }
    assert_int_equal(n, first->n_ids);
    rn_engine_destroy(engine);
}

static void runs_with_the_same_bits_in_every_chunking(void **state) {
    static const int chunks[N_CHUNKS] = {512, 7, 1, 8, 33};
    struct golden g = golden_load(*state);
    struct golden_run first = {0};
    if (g.has_gguf)
        golden_open_gguf(&g);
    else
        golden_open_folder(&g);
    const int n_chunks = cuda_wanted() ? N_CHUNKS : test_is_whole() ? 3 : 2;
    for (int i = 0; i < n_chunks; i++) {
        struct golden_run run;
        const rn_engine_options o = {.batch_tokens = chunks[i], .logit_rows = chunks[i]};
        golden_generate(&g, &o, &run);
        if (i == 0) {
            first = run;
            continue;
        }
        char what[64];
        snprintf(what, sizeof what, "%s, chunks of %d", g.name, chunks[i]);
        golden_check_same_bits(&first, &run, what);
        golden_run_free(&run);
    }
    check_quiet_prompt(&g, &first);
    const float difference = golden_difference(&g, &first);
    print_message("%-16s largest difference to the f32 reference %.2e\n", g.name,
                  (double)difference);
    check_ids(&g, &first, difference);
    check(difference < 0.25f, "%s: %g", g.name, (double)difference);
    golden_run_free(&first);
    golden_unload(&g);
}

TEST_PROGRAM(golden) {
    return data_run_tests(GOLDEN_LIST, "runs_with_the_same_bits_in_every_chunking",
                          runs_with_the_same_bits_in_every_chunking, NULL);
}
