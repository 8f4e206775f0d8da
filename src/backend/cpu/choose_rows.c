// The last stage of a run: a token for each row of logits that has a choice, on all threads. A
// thread has a chooser of its own, with the passes of the backend's instruction set.
#include <stdlib.h>

#include "backend/cpu/choose.h"
#include "backend/cpu/choose_passes.h"
#include "backend/cpu/cpu.h"

rn_status cpu_choose_init(struct cpu_backend *b, rn_error *err) {
    const int n = pool_size(b->pool);
    b->token = calloc((size_t)b->max_logits, sizeof *b->token);
    b->chooser = calloc((size_t)n, sizeof *b->chooser);
    if (!b->token || !b->chooser)
        return err_set(err, RN_ERR_NOMEM, "no memory for choices of %d rows", b->max_logits);
    for (; b->n_choosers < n; b->n_choosers++) {
        const rn_status status = chooser_init(&b->chooser[b->n_choosers], b->plan->n_vocab,
                                              choose_passes_for(b->ops->isa), err);
        if (status) return status;
    }
    return RN_OK;
}

void cpu_choose_deinit(struct cpu_backend *b) {
    for (int i = 0; i < b->n_choosers; i++) chooser_deinit(&b->chooser[i]);
    free(b->chooser);
    free(b->token);
}

struct choose_job {
    struct cpu_backend *b;
    const struct choice *choice; // [n_logits]
};

static void choose_some(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct choose_job *job = ctx;
    struct cpu_backend *b = job->b;
    for (int64_t row = begin; row < end; row++)
        if (job->choice[row].numbers)
            b->token[row] = chooser_choose(&b->chooser[worker], &job->choice[row],
                                           cpu_row_at(b, b->plan->logits, row));
}

void cpu_choose_rows(struct cpu_backend *b, const struct batch *batch) {
    int n_choices = 0;
    for (int row = 0; row < batch->n_logits; row++) {
        const struct choice *choice = batch->choice ? &batch->choice[row] : NULL;
        b->token[row] = -1;
        b->logits[row] =
            !choice || choice->wants_logits ? cpu_row_at(b, b->plan->logits, row) : NULL;
        n_choices += choice && choice->numbers;
    }
    struct choose_job job = {b, batch->choice};
    if (n_choices == 0) return;
    const int n_workers = cpu_workers(b, (int64_t)n_choices * b->plan->n_vocab);
    pool_run_on(b->pool, n_workers, choose_some, &job, batch->n_logits, 1);
}
