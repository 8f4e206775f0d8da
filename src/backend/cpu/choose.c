// The choice: the steps of the table in their order, and the Gumbel-max choice among the candidates
// that they leave. A mask gathers the logits that it allows. As long as no filter has dropped a
// token, nothing else is written out: the passes read the logits where they are. Called once for
// each row of logits that has a choice.
#include "backend/cpu/choose.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "backend/cpu/choose_steps.h"

typedef void step_fn(struct cpu_choice *choice);

// The order is part of the contract; temperature 0 skips the filters.
#define SAMPLING_STEP(phase, name) STEP_##phase(name)
static step_fn *const filters[] = {
#define STEP_MASK(name)
#define STEP_EDIT(name)
#define STEP_FILTER(name) choose_step_##name,
#include "plan/sampling.def"
#undef STEP_MASK
#undef STEP_EDIT
#undef STEP_FILTER
};

rn_status chooser_init(struct chooser *chooser, int n_vocab, const struct choose_passes *passes,
                       rn_error *err) {
    const size_t n = (size_t)n_vocab;
    const int n_peaks = choose_blocks(n_vocab);
    const size_t n_near = (size_t)n_peaks * CHOOSE_BLOCK;
    *chooser = (struct chooser){.n_vocab = n_vocab, .passes = passes};
    chooser->logit = calloc(n, sizeof *chooser->logit);
    chooser->peak = calloc((size_t)n_peaks + (size_t)choose_blocks(n_peaks), sizeof *chooser->peak);
    chooser->id = calloc(n, sizeof *chooser->id);
    chooser->distance = calloc(n_near, sizeof *chooser->distance);
    chooser->units = calloc(n_near, sizeof *chooser->units);
    chooser->near_id = calloc(n_near, sizeof *chooser->near_id);
    if (chooser->logit && chooser->peak && chooser->id && chooser->distance && chooser->units &&
        chooser->near_id)
        return RN_OK;
    chooser_deinit(chooser);
    return err_set(err, RN_ERR_NOMEM, "no memory for %d candidates", n_vocab);
}

void chooser_deinit(struct chooser *chooser) {
    free(chooser->logit);
    free(chooser->peak);
    free(chooser->id);
    free(chooser->distance);
    free(chooser->units);
    free(chooser->near_id);
    memset(chooser, 0, sizeof *chooser);
}

struct run choose_run(const struct cpu_choice *choice) {
    const struct chooser *chooser = choice->chooser;
    const struct candidates *set = &choice->set;
    if (choice->is_whole)
        return (struct run){.logit = choice->logit,
                            .peak = chooser->peak,
                            .id = choice->id,
                            .n = choice->n,
                            .shift = choice->top,
                            .scale = choice->scale};
    bool holes;
    chooser->passes->peaks(set->logit, set->n, chooser->peak, &holes);
    return (struct run){
        .logit = set->logit, .peak = chooser->peak, .id = set->id, .n = set->n, .scale = 1};
}

// The first token whose logit is the largest: in the first block whose peak it is.
static int32_t choose_greedy(const struct cpu_choice *choice) {
    const float *peak = choice->chooser->peak;
    int32_t at = 0;
    while (peak[at / CHOOSE_BLOCK] != choice->top) at += CHOOSE_BLOCK;
    while (choice->logit[at] != choice->top) at++;
    return choice->id ? choice->id[at] : at;
}

// Only these tokens, less NaN and -INFINITY, are candidates; NULL: all of them.
static void gather(struct cpu_choice *choice, const uint64_t *allowed) {
    const struct candidates *set = &choice->set;
    choice->n =
        choice->chooser->passes->gather(choice->logit, choice->n, allowed, set->logit, set->id);
    choice->logit = set->logit;
    choice->id = set->id;
}

int32_t chooser_choose(struct chooser *chooser, const struct choice *wanted, const float *logits) {
    assert(wanted->n_vocab > 0 && wanted->n_vocab <= chooser->n_vocab);
    const struct choose_passes *passes = chooser->passes;
    struct cpu_choice choice = {.chooser = chooser,
                                .wanted = wanted,
                                .raw = logits,
                                .logit = logits,
                                .n = wanted->n_vocab,
                                .is_whole = true,
                                .scale = 1,
                                .set = {chooser->logit, chooser->id, 0}};
    choose_edit(&choice);
    if (wanted->allowed) gather(&choice, wanted->allowed);
    bool holes; // NaN and -INFINITY are no candidates; mostly there are none of them
    choice.top = passes->peaks(choice.logit, choice.n, chooser->peak, &holes);
    if (!isfinite(choice.top)) return -1;
    if (wanted->numbers->temperature == 0) return choose_greedy(&choice);
    if (holes) {
        gather(&choice, NULL);
        passes->peaks(choice.logit, choice.n, chooser->peak, &holes);
    }
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) filters[i](&choice);
    const struct run left = choose_run(&choice);
    return passes->choose(&left, wanted->key);
}
