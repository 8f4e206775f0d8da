// The steps that change logits by token id. They write to the chooser's copy, so the model's logits
// stay as they are. The mask needs no copy: tokens that it leaves out are not gathered (choose.c).
//
// Invariants: a finite logit stays finite; NaN and infinities stay what they are; except that a
// banned logit becomes -INFINITY.
#include <float.h>
#include <math.h>

#include "backend/cpu/choose_steps.h"

// ---------------------------------------------------------------- the edits of a row

// Computed in double, so that only the result can leave the range.
static float bounded(double logit) {
    return (float)(logit > (double)FLT_MAX    ? (double)FLT_MAX
                   : logit < (double)-FLT_MAX ? (double)-FLT_MAX
                                              : logit);
}

static float edit_bias(const struct choice_numbers *numbers, const struct choice_edit *edit,
                       float logit) {
    (void)numbers;
    if (edit->bias <= CHOICE_BAN) return -INFINITY;
    if (edit->bias == 0 || !isfinite(logit)) return logit;
    return bounded((double)logit + (double)edit->bias);
}

// Repetition as Keskar et al. (2019) and Hugging Face have it: once per token, however often it is
// there.
static float edit_penalties(const struct choice_numbers *numbers, const struct choice_edit *edit,
                            float logit) {
    const double factor = (double)numbers->repetition_penalty;
    if (edit->repeats && factor != 0 && factor != 1 && isfinite(logit)) {
        const double x = (double)logit;
        logit = bounded(x > 0 ? x / factor : x * factor);
    }
    if (edit->n_output > 0 && isfinite(logit)) {
        const double penalty = (double)numbers->presence_penalty +
                               (double)numbers->frequency_penalty * (double)edit->n_output;
        logit = bounded((double)logit - penalty);
    }
    return logit;
}

// By multiplications alone, so that it is the same everywhere.
static double power(double base, int exponent) {
    double result = 1;
    for (; exponent > 0; exponent /= 2, base *= base)
        if (exponent % 2) result *= base;
    return result;
}

static float edit_dry(const struct choice_numbers *numbers, const struct choice_edit *edit,
                      float logit) {
    if (edit->dry < 0 || numbers->dry_multiplier == 0 || !isfinite(logit)) return logit;
    const double penalty =
        (double)numbers->dry_multiplier * power((double)numbers->dry_base, edit->dry);
    return bounded((double)logit - penalty);
}

void choose_edit(struct cpu_choice *choice) {
    const struct choice *wanted = choice->wanted;
    const struct choice_numbers *numbers = wanted->numbers;
    float *logit = choice->chooser->logit;
    if (wanted->n_edit == 0) return;
    memcpy(logit, choice->raw, (size_t)wanted->n_vocab * sizeof *logit);
    choice->logit = logit;
    for (int i = 0; i < wanted->n_edit; i++) {
        const struct choice_edit *edit = &wanted->edit[i];
        if (edit->id >= wanted->n_vocab) continue; // a larger vocabulary's
        float x = logit[edit->id];
#define SAMPLING_STEP(phase, name) STEP_##phase(name)
#define STEP_MASK(name)
#define STEP_EDIT(name) x = edit_##name(numbers, edit, x);
#define STEP_FILTER(name)
#include "plan/sampling.def"
#undef STEP_MASK
#undef STEP_EDIT
#undef STEP_FILTER
        logit[edit->id] = x;
    }
}
