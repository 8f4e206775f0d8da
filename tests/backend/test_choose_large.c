// The filters over a vocabulary that is large enough for their shortcuts: blocks of candidates that
// are skipped together, and thresholds that spare an order of all.
// label: no-address
#define VOCAB 1027 // no multiple of a block
#include "backend/cpu/choose_steps.h"
#include "check.h"
#include "choose_reference.h"

#define RANDOM_SEED 1234567890123u
#include "engine/random.h"

static void (*const filters[])(struct cpu_choice *) = {
#define SAMPLING_STEP(phase, name) STEP_##phase(name)
#define STEP_MASK(name)
#define STEP_EDIT(name)
#define STEP_FILTER(name) choose_step_##name,
#include "plan/sampling.def"
#undef STEP_MASK
#undef STEP_EDIT
#undef STEP_FILTER
};

// A few good tokens over many bad ones; or all alike; or so far apart that weights vanish.
static void fill(float *logits, int kind) {
    static const double spread[] = {4, 0.01, 3000, 20};
    for (int i = 0; i < VOCAB; i++) {
        logits[i] = (float)(spread[kind] * (uniform() + uniform() + uniform() - 3));
        if (uniform() < 0.01) logits[i] = uniform() < 0.5 ? NAN : -INFINITY;
    }
    for (int i = 0; kind == 0 && i < 5; i++)
        logits[(int)(uniform() * VOCAB)] = (float)(2 * uniform());
    logits[VOCAB - 1] = (float)spread[kind]; // the best, in the last place
}

static rn_sampling sampling_for(enum step step, int i) {
    rn_sampling s = sampling_neutral();
    s.temperature = (float)(0.5 + uniform());
    if (step == STEP_TOP_N_SIGMA) s.top_n_sigma = (float)(4 * uniform());
    if (step == STEP_TOP_K) s.top_k = 1 + (int)(uniform() * VOCAB);
    if (step == STEP_TYPICAL) s.typical_p = (float)uniform();
    if (step == STEP_TOP_P) s.top_p = i % 10 ? (float)uniform() : 0.9999f;
    if (step == STEP_MIN_P) s.min_p = (float)(uniform() * uniform() * uniform());
    if (step == STEP_XTC) s.xtc_threshold = (float)(0.2 * uniform());
    if (step == STEP_XTC) s.xtc_probability = 1;
    return s;
}

static void candidates_of(struct cpu_choice *choice, const float *logits) {
    choice->top = reference_largest(logits);
    for (int32_t id = 0; id < VOCAB; id++) {
        if (!(logits[id] > -INFINITY)) continue;
        choice->set.logit[choice->set.n] =
            (logits[id] - choice->top) / choice->wanted->numbers->temperature;
        choice->set.id[choice->set.n++] = id;
    }
}

CASE(filters_of_many_candidates_keep_what_their_definitions_keep) {
    static float logits[VOCAB];
    static struct reference r;
    struct chooser chooser;
    assert_int_equal(chooser_init(&chooser, VOCAB, &choose_passes_base, NULL), RN_OK);
    for (enum step step = STEP_TOP_N_SIGMA; step < STEP_COUNT; step++) {
        int sure = 0;
        for (int i = 0; i < 120; i++) {
            fill(logits, i % 4);
            const rn_sampling s = sampling_for(step, i);
            const struct sampler_view view = {0};
            reference_init(&r, &s, &view, logits);
            reference_temperature(&r);
            reference_step(&r, step);
            if (r.unsure) continue;
            sure++;
            const struct choice_numbers numbers = numbers_of(&s);
            const struct choice wanted = {.numbers = &numbers,
                                          .n_vocab = VOCAB,
                                          .key = view_key(&s, &view)};
            struct cpu_choice choice = {.chooser = &chooser,
                                        .wanted = &wanted,
                                        .raw = logits,
                                        .logit = logits,
                                        .set = {chooser.logit, chooser.id, 0}};
            candidates_of(&choice, logits);
            filters[step - STEP_TEMPERATURE](&choice);
            bool alive[VOCAB] = {false};
            for (int k = 0; k < choice.set.n; k++) alive[choice.set.id[k]] = true;
            for (int id = 0; id < VOCAB; id++)
                check(alive[id] == r.alive[id], "step %d, case %d: token %d", (int)step, i, id);
        }
        check(sure > 40, "step %d: only %d cases are sure", (int)step, sure);
    }
    chooser_deinit(&chooser);
}

TEST_PROGRAM(choose_large) { return cases_run(NULL, NULL); }
