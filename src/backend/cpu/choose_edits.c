// The steps that change logits by token id: the mask, then the rows of edits. They write to the
// chooser's copy, made by the first that has something to write; the model's logits stay as they
// are.
//
// Invariants: a finite logit stays finite; NaN and infinities stay what they are; except that a
// banned or masked logit becomes -INFINITY.
#include <float.h>
#include <math.h>

#include "backend/cpu/choose_steps.h"

static float *logits_edit(struct cpu_choice *choice) {
    struct chooser *chooser = choice->chooser;
    if (choice->logit != chooser->logit) {
        memcpy(chooser->logit, choice->raw,
               (size_t)choice->wanted->n_vocab * sizeof *chooser->logit);
        choice->logit = chooser->logit;
    }
    return chooser->logit;
}

static void mask(struct cpu_choice *choice) {
    const uint64_t *allowed = choice->wanted->allowed;
    if (!allowed) return;
    const int n_vocab = choice->wanted->n_vocab;
    float *logit = logits_edit(choice);
    for (int begin = 0; begin < n_vocab; begin += 64) {
        const uint64_t word = allowed[begin / 64];
        const int n = n_vocab - begin < 64 ? n_vocab - begin : 64;
        if (word == UINT64_MAX) continue;
        for (int i = 0; i < n; i++)
            logit[begin + i] = (word >> i & 1) != 0 ? logit[begin + i] : -INFINITY;
    }
}

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
    mask(choice);
    if (wanted->n_edit == 0) return;
    float *logit = logits_edit(choice);
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
