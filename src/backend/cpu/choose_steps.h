// The choice in the making and the steps of the table, as the files of the chooser share them.
//
// Filters see logits shifted by their maximum, so no temperature can overflow them and the best
// candidate's logit is 0; a filter that drops the best shifts again.
#ifndef RN_BACKEND_CPU_CHOOSE_STEPS_H
#define RN_BACKEND_CPU_CHOOSE_STEPS_H

#include "backend/cpu/choose.h"
#include "backend/cpu/choose_passes.h"
#include "plan/noise.h"

// The candidates that are left, written out; their ids ascend.
struct candidates {
    float *logit;
    int32_t *id;
    int n;
};

// One choice in the making.
struct cpu_choice {
    struct chooser *chooser;
    const struct choice *wanted;
    const float *raw;   // [n_vocab] as the model gave them
    const float *logit; // [n] raw, the chooser's copy after edits, or gathered
    const int32_t *id;  // [n] of gathered ones; NULL: all tokens are there
    int n;
    float top;             // the largest of them
    bool is_whole;         // no filter has dropped one: these are the candidates
    float scale;           // while whole: the temperature's divisor
    struct candidates set; // unless whole
};

// choose_edits.c: on a copy where there is something to write.
void choose_edit(struct cpu_choice *choice);

#define SAMPLING_STEP(phase, name) STEP_##phase(name)
#define STEP_MASK(name)
#define STEP_EDIT(name)
#define STEP_FILTER(name) void choose_step_##name(struct cpu_choice *choice);
#include "plan/sampling.def"
#undef STEP_MASK
#undef STEP_EDIT
#undef STEP_FILTER

// The candidates as one run, wherever they are.
struct run choose_run(const struct cpu_choice *choice);

// --- choose_select.c: the candidates nearest to a centre ---

// Where a run of the nearest ends: at that distance, among equals at that id.
struct cut {
    float distance;
    int32_t id;
};

// The candidates up to the cut become the set.
void choose_keep_until(struct cpu_choice *choice, float centre, struct cut cut);
// The k candidates with the largest logits; there are more.
void choose_keep_best(struct cpu_choice *choice, int k);
// The shortest run of the nearest whose units of mass reach `share` of their total, which is below
// 1; at least one. The total, or 0: not known, and the centre is the best.
void choose_keep_share(struct cpu_choice *choice, float centre, float share, uint64_t total);

#endif
