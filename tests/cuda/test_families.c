// The models of families.def on the CUDA backend: it refuses one by the name of what it lacks, or
// its logits are near the reference. Its 16-bit numbers move logits by less than a tenth, and a
// setting that it ignored would move them by more than one.
#include <malloc.h>

#include "cuda_engine.h"
#include "golden_families.h"

enum { N_NEXT = 3 };

#define MOST_REFERENCE 0.15f

// Rows that may be far from the reference. Rounding changes the router's choice of a near tie, or
// whether an expert is close to another one (phimoe), and the rows behind see the changed one. A
// setting that is ignored moves all rows.
static int far_most(const struct golden *g) {
    static const struct {
        const char *name;
        int n;
    } far[] = {{"granitemoe", 10}, {"phimoe", 10}, {"llama4", 2}, {"gemma4-moe", 8}};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        if (strcmp(g->name, far[i].name) == 0) return far[i].n;
    return 0;
}

static int far_rows(const struct golden *g, const struct golden_run *run) {
    int n = 0;
    for (int row = 0; row < run->n_rows; row++)
        n += !(golden_row_difference(g, run, row) <= MOST_REFERENCE);
    return n;
}

// False where the backend cannot run the model. The message names an op or a setting.
static bool runs_here(const struct golden *g) {
    rn_engine *engine;
    rn_error err = {0};
    const rn_status status = rn_engine_create(g->model, &(rn_engine_options){0}, &engine, &err);
    if (status == RN_OK) {
        rn_engine_destroy(engine);
        return true;
    }
    check(status == RN_ERR_UNSUPPORTED && err.message[0], "%s: status %d: %s", g->name, status,
          err.message);
    print_message("%s is refused: %s\n", g->name, err.message);
    return false;
}

static void is_refused_or_near_the_reference(void **state) {
    struct golden g = golden_load(*state);
    struct golden_run run;
    if (g.has_gguf)
        golden_open_gguf(&g);
    else
        golden_open_folder(&g);
    if (runs_here(&g)) {
        g.n_next = N_NEXT;
        golden_generate(&g, &(rn_engine_options){.logit_rows = 512}, &run);
        const float difference = golden_difference(&g, &run);
        const int n_far = far_rows(&g, &run);
        print_message("%s: largest difference %.2e, %d of %d rows are far\n", g.name,
                      (double)difference, n_far, run.n_rows);
        check(n_far <= far_most(&g), "%s: largest difference is %g; %d of %d rows are far", g.name,
              (double)difference, n_far, run.n_rows);
        golden_run_free(&run);
    }
    golden_unload(&g);
}

// Memory that is freed is kept for the next backend, as in test_golden.c.
TEST_PROGRAM(families) {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    return golden_run_families("is_refused_or_near_the_reference",
                               is_refused_or_near_the_reference);
}
