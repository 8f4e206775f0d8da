// The steps of the sampling table, one by one and as a chain, against slow definitions. Also the
// edges of their parameters, and that a choice leaves nothing behind for the next one.
#include <float.h>
#include <stdlib.h>

#include "check.h"
#include "choose_reference.h"
#include "engine/choice/sampling.h"
#include "sampler_chain.h"

#define RANDOM_SEED 88172645463325252u
#include "random.h"

enum { HISTORY = 64 };

// A case: everything that a choice depends on.
struct scene {
    float logits[VOCAB];
    int32_t token[HISTORY];
    rn_logit_bias bias[4];
    uint64_t breakers[1], allowed[1];
    rn_sampling s;
    struct sampler_view view;
};

// Coarse logits have many ties; some are no candidates.
static void scene_logits(struct scene *scene) {
    const bool coarse = below(4) == 0, holes = below(4) == 0;
    const double spread = 1 + 9 * uniform();
    for (int i = 0; i < VOCAB; i++) {
        const double x = spread * (uniform() + uniform() + uniform() - 1.5);
        scene->logits[i] = (float)(coarse ? rint(2 * x) / 2 : x);
        if (holes && below(4) == 0) scene->logits[i] = below(2) ? NAN : -INFINITY;
    }
    scene->logits[below(VOCAB)] = 0.25f; // one is a candidate
}

// Now and then a constraint, which leaves few tokens or most; the token that scene_logits made a
// candidate stays one.
static void scene_mask(struct scene *scene) {
    const double share = uniform();
    scene->view.allowed = below(3) ? NULL : scene->allowed;
    scene->allowed[0] = 0;
    for (int i = 0; i < VOCAB; i++)
        if (scene->logits[i] == 0.25f || uniform() < share) scene->allowed[0] |= UINT64_C(1) << i;
}

// Few distinct tokens, so that sequences repeat themselves.
static void scene_view(struct scene *scene) {
    const int n = below(HISTORY + 1), kinds = 1 + below(6);
    for (int i = 0; i < n; i++) scene->token[i] = below(kinds) * 5 + below(2);
    scene->breakers[0] = below(3) == 0 ? UINT64_C(1) << scene->token[0] : 0;
    scene->view = (struct sampler_view){.token = scene->token,
                                        .n_prompt = below(n + 1),
                                        .n_token = n,
                                        .choice = (uint32_t)below(3),
                                        .breakers = {scene->breakers}};
}

// Each step is on with that chance.
static void scene_sampling(struct scene *scene, double chance) {
    rn_sampling *s = &scene->s;
    *s = rn_sampling_neutral();
    s->seed = (uint64_t)below(1 << 30);
    s->temperature = (float)(0.3 + 1.5 * uniform());
    for (int i = 0; i < 4; i++)
        scene->bias[i] =
            (rn_logit_bias){below(VOCAB), below(4) ? (float)(8 * uniform() - 4) : -100};
    s->logit_bias = scene->bias;
    if (uniform() < chance) s->n_logit_bias = (size_t)below(5);
    if (uniform() < chance) s->repetition_penalty = (float)(0.5 + 1.5 * uniform());
    if (uniform() < chance) s->repeat_last_n = below(HISTORY + 2) - 1;
    if (uniform() < chance) s->presence_penalty = (float)(4 * uniform() - 2);
    if (uniform() < chance) s->frequency_penalty = (float)(4 * uniform() - 2);
    if (uniform() < chance) s->dry_multiplier = (float)uniform();
    if (uniform() < chance) s->dry_base = (float)(1 + uniform());
    if (uniform() < chance) s->dry_allowed_length = below(5);
    if (uniform() < chance) s->dry_penalty_last_n = below(HISTORY + 2) - 1;
    if (uniform() < chance) s->top_n_sigma = (float)(2 * uniform());
    if (uniform() < chance) s->top_k = 1 + below(VOCAB);
    if (uniform() < chance) s->typical_p = (float)uniform();
    if (uniform() < chance) s->top_p = (float)uniform();
    if (uniform() < chance) s->min_p = (float)(uniform() * uniform());
    if (uniform() < chance) s->xtc_probability = (float)uniform();
    if (uniform() < chance) s->xtc_threshold = (float)(0.4 * uniform());
}

static void scene_random(struct scene *scene, double chance) {
    scene_logits(scene);
    scene_view(scene);
    scene_mask(scene);
    scene_sampling(scene, chance);
}

// ---------------------------------------------------------------- one step alone

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
static const char *const names[] = {
#define SAMPLING_STEP(phase, name) #name,
#include "plan/sampling.def"
};

// A choice as a filter finds it, and its description.
struct filtering {
    struct choice_numbers numbers;
    struct choice wanted;
    struct cpu_choice choice;
};

// The candidates shifted, and scaled as the temperature does.
static void filtering_init(struct filtering *f, const struct scene *scene, bool scaled) {
    struct chooser *chooser = &sampler.chooser;
    struct candidates *set = &f->choice.set;
    f->numbers = numbers_of(&scene->s);
    f->wanted = (struct choice){.numbers = &f->numbers,
                                .n_vocab = VOCAB,
                                .key = view_key(&scene->s, &scene->view)};
    f->choice = (struct cpu_choice){.chooser = chooser,
                                    .wanted = &f->wanted,
                                    .raw = scene->logits,
                                    .logit = scene->logits,
                                    .set = {chooser->logit, chooser->id, 0}};
    f->choice.top = reference_largest(scene->logits);
    for (int id = 0; id < VOCAB; id++) {
        if (!(scene->logits[id] > -INFINITY)) continue;
        set->logit[set->n] = scene->logits[id] - f->choice.top;
        if (scaled) set->logit[set->n] /= scene->s.temperature;
        set->id[set->n++] = id;
    }
}

static void filter(struct filtering *f, enum step step) {
    filters[step - STEP_TEMPERATURE](&f->choice);
}

// The parameters of that step alone.
static rn_sampling sampling_of(const rn_sampling *s, enum step step) {
    rn_sampling only = rn_sampling_neutral();
    if (step == STEP_BIAS) {
        only.logit_bias = s->logit_bias;
        only.n_logit_bias = s->n_logit_bias;
    }
    if (step == STEP_PENALTIES) {
        only.repetition_penalty = s->repetition_penalty;
        only.repeat_last_n = s->repeat_last_n;
        only.presence_penalty = s->presence_penalty;
        only.frequency_penalty = s->frequency_penalty;
    }
    if (step == STEP_DRY) {
        only.dry_multiplier = s->dry_multiplier;
        only.dry_base = s->dry_base;
        only.dry_allowed_length = s->dry_allowed_length;
        only.dry_penalty_last_n = s->dry_penalty_last_n;
    }
    return only;
}

static void check_survivors(const struct cpu_choice *choice, const struct reference *r,
                            const char *name) {
    bool alive[VOCAB] = {false};
    int n = 0;
    for (int i = 0; i < choice->set.n; i++) alive[choice->set.id[i]] = true;
    for (int id = 0; id < VOCAB; id++) {
        check(alive[id] == r->alive[id], "%s: token %d is %s", name, id,
              alive[id] ? "left, and should not be" : "gone, and should not be");
        n += alive[id];
    }
    assert_int_equal(n, choice->set.n); // none twice
    assert_true(n > 0);
}

CASE(each_filter_keeps_what_its_definition_keeps) {
    struct scene scene;
    for (enum step step = STEP_TOP_N_SIGMA; step < STEP_COUNT; step++) {
        int unsure = 0, dropped = 0;
        enum { CASES = TEST_IS_SLOW ? 1000 : 4000 };
        for (int i = 0; i < CASES; i++) {
            scene_random(&scene, 0.8);
            struct reference r;
            reference_init(&r, &scene.s, &scene.view, scene.logits);
            reference_temperature(&r);
            reference_step(&r, step);
            unsure += r.unsure;
            if (r.unsure) continue;
            struct filtering f;
            filtering_init(&f, &scene, true);
            const int before = f.choice.set.n;
            filter(&f, step);
            check_survivors(&f.choice, &r, names[step]);
            dropped += f.choice.set.n < before;
        }
        check(unsure < CASES / 4, "%s: %d of %d cases are unsure", names[step], unsure, CASES);
        check(dropped > CASES / 8, "%s: only %d cases drop a token", names[step], dropped);
    }
}

CASE(each_edit_gives_the_logits_of_its_definition) {
    struct scene scene;
    for (enum step step = STEP_MASK; step <= STEP_DRY; step++) {
        int edited = 0;
        for (int i = 0; i < 4000; i++) {
            scene_random(&scene, 0.8);
            struct reference r;
            reference_init(&r, &scene.s, &scene.view, scene.logits);
            reference_step(&r, step);
            const rn_sampling only = sampling_of(&scene.s, step);
            struct sampler_view view = scene.view;
            if (step != STEP_MASK) view.allowed = NULL;
            float logit[VOCAB];
            edited += sampler_edit(&sampler, &only, &view, scene.logits, logit);
            for (int id = 0; id < VOCAB; id++) {
                const double got = (double)logit[id];
                check((got > (double)-INFINITY) == r.alive[id], "%s: token %d is %g", names[step],
                      id, got);
                check(!r.alive[id] || fabs(got - r.logit[id]) <= 1e-5 * (1 + fabs(r.logit[id])),
                      "%s: token %d is %g, not %g", names[step], id, got, r.logit[id]);
            }
        }
        check(edited > 1000, "%s: only %d cases change a logit", names[step], edited);
    }
}

CASE(neutral_values_change_no_bit) {
    struct scene scene;
    const rn_sampling zero = {.temperature = 1, .top_p = 1}; // a zero is neutral as well
    for (int i = 0; i < 500; i++) {
        scene_random(&scene, 0);
        scene.view.allowed = NULL;
        scene.s = i % 2 ? zero : rn_sampling_neutral();
        float logit[VOCAB];
        int32_t id[VOCAB];
        assert_false(sampler_edit(&sampler, &scene.s, &scene.view, scene.logits, logit));
        struct filtering f;
        filtering_init(&f, &scene, false);
        const struct candidates before = f.choice.set;
        memcpy(logit, before.logit, sizeof logit);
        memcpy(id, before.id, sizeof id);
        for (enum step step = STEP_TEMPERATURE; step < STEP_COUNT; step++) {
            filter(&f, step);
            check(f.choice.set.n == before.n, "%s drops", names[step]);
            assert_memory_equal(f.choice.set.logit, logit, (size_t)before.n * sizeof *logit);
            assert_memory_equal(f.choice.set.id, id, (size_t)before.n * sizeof *id);
        }
    }
}

// ---------------------------------------------------------------- the chain

static int32_t reference_chain(struct reference *r, const struct scene *scene,
                               const enum step *order) {
    reference_init(r, &scene->s, &scene->view, scene->logits);
    for (int i = 0; i < STEP_COUNT; i++) reference_step(r, order[i]);
    return reference_choose(r, false);
}

CASE(the_chain_chooses_as_the_slow_reference) {
    enum { CASES = TEST_IS_SLOW ? 4000 : 20000 };
    static const enum step order[STEP_COUNT] = {STEP_MASK,  STEP_BIAS,        STEP_PENALTIES,
                                                STEP_DRY,   STEP_TEMPERATURE, STEP_TOP_N_SIGMA,
                                                STEP_TOP_K, STEP_TYPICAL,     STEP_TOP_P,
                                                STEP_MIN_P, STEP_XTC};
    struct scene scene;
    struct reference r;
    int unsure = 0;
    for (int i = 0; i < CASES; i++) {
        scene_random(&scene, 0.5);
        const int32_t expected = reference_chain(&r, &scene, order);
        unsure += r.unsure;
        const int32_t got = sampler_choose(&sampler, &scene.s, &scene.view, scene.logits);
        check(r.unsure || got == expected, "case %d: %d, not %d", i, got, expected);
    }
    check(unsure < CASES / 4, "%d of %d cases are unsure", unsure, CASES);
}

// How many of the cases come out otherwise when that step and the next change places.
static int cases_that_see(enum step first) {
    enum step order[STEP_COUNT];
    for (int i = 0; i < STEP_COUNT; i++) order[i] = (enum step)i;
    order[first] = (enum step)(first + 1);
    order[first + 1] = first;
    int seen = 0;
    for (int i = 0; i < 6000; i++) {
        struct scene scene;
        struct reference r;
        scene_random(&scene, 0.9);
        const int32_t swapped = reference_chain(&r, &scene, order);
        seen +=
            !r.unsure && swapped != sampler_choose(&sampler, &scene.s, &scene.view, scene.logits);
    }
    return seen;
}

CASE(two_steps_that_change_places_are_seen) {
    if (TEST_IS_SLOW) skip(); // the steps run in the other cases
    for (int first = 0; first + 1 < STEP_COUNT; first++) {
        const int seen = cases_that_see((enum step)first);
        // sigma is the model's, so that step commutes with the temperature and with top-k; masked
        // tokens stay masked with any bias
        if (first == STEP_MASK || first == STEP_TEMPERATURE || first == STEP_TOP_N_SIGMA) {
            check(seen == 0, "%s and %s do not commute: %d", names[first], names[first + 1], seen);
        } else {
            check(seen > 3, "%s and %s: only %d cases", names[first], names[first + 1], seen);
        }
    }
}

CASE(the_table_has_the_order_of_the_design) {
    static const char *const order[] = {"mask",        "bias",        "penalties", "dry",
                                        "temperature", "top_n_sigma", "top_k",     "typical",
                                        "top_p",       "min_p",       "xtc"};
    assert_int_equal(sizeof names / sizeof *names, STEP_COUNT);
    for (int i = 0; i < STEP_COUNT; i++) assert_string_equal(names[i], order[i]);
}

CASE(a_choice_depends_on_nothing_but_its_arguments) {
    struct sampler fresh;
    struct scene scene;
    for (int i = 0; i < 3000; i++) {
        scene_random(&scene, 0.7);
        if (i % 7 == 0) scene.s.temperature = 0;
        const int32_t used = sampler_choose(&sampler, &scene.s, &scene.view, scene.logits);
        for (int id = 0; id < VOCAB; id++) assert_int_equal(sampler.scratch.row[id], 0);
        sampler_open(&fresh, VOCAB);
        assert_int_equal(sampler_choose(&fresh, &scene.s, &scene.view, scene.logits), used);
        sampler_close(&fresh);
    }
}

// ---------------------------------------------------------------- greedy

CASE(greedy_sees_the_edits_and_no_filter) {
    struct scene scene;
    struct reference r;
    int changed = 0;
    for (int i = 0; i < 5000; i++) {
        scene_random(&scene, 0.6);
        scene.s.temperature = 0;
        reference_init(&r, &scene.s, &scene.view, scene.logits);
        const int32_t plain = reference_choose(&r, true);
        r.unsure = false;
        for (enum step step = STEP_MASK; step <= STEP_DRY; step++) reference_step(&r, step);
        const int32_t expected = reference_choose(&r, true);
        if (r.unsure) continue;
        changed += expected != plain;
        assert_int_equal(sampler_choose(&sampler, &scene.s, &scene.view, scene.logits), expected);
    }
    check(changed > 500, "only %d choices changed", changed);
}

CASE(a_banned_token_is_never_chosen) {
    float logits[VOCAB];
    for (int i = 0; i < VOCAB; i++) logits[i] = -FLT_MAX;
    logits[3] = FLT_MAX;
    rn_logit_bias bias[] = {{3, -100}, {3, 100}, {3, 100}};
    for (int temperature = 0; temperature < 2; temperature++) {
        rn_sampling s = rn_sampling_neutral();
        s.temperature = (float)temperature;
        s.logit_bias = bias;
        s.n_logit_bias = 3;
        for (int i = 0; i < 100; i++)
            assert_int_not_equal(sampler_choose(&sampler, &s, &(struct sampler_view){.n_token = i},
                                                logits),
                                 3);
        // the only candidate, banned
        for (int i = 0; i < VOCAB; i++) logits[i] = i == 3 ? 1 : NAN;
        assert_int_equal(sampler_choose(&sampler, &s, &(struct sampler_view){0}, logits), -1);
        for (int i = 0; i < VOCAB; i++) logits[i] = (float)i;
    }
}

// ---------------------------------------------------------------- what the penalties count

static float edited(const rn_sampling *s, const int32_t *token, int n_prompt, int n_token,
                    const float *logits, int32_t id) {
    const struct sampler_view view = {.token = token, .n_prompt = n_prompt, .n_token = n_token};
    float out[VOCAB];
    sampler_edit(&sampler, s, &view, logits, out);
    return out[id];
}

CASE(repetition_counts_prompt_and_output_presence_and_frequency_output_alone) {
    const int32_t token[] = {1, 2, 2, 3, 2, 3, 3, 4}; // the prompt: 1 2 2 3
    float logits[VOCAB] = {0};
    for (int i = 1; i <= 4; i++) logits[i] = 4;
    rn_sampling s = rn_sampling_neutral();
    s.repetition_penalty = 2;
    for (int id = 1; id <= 4; id++) assert_true(edited(&s, token, 4, 8, logits, id) == 2);
    s.repeat_last_n = 3; // 3 3 4
    const float windowed[] = {0, 4, 4, 2, 2};
    for (int id = 1; id <= 4; id++)
        assert_true(edited(&s, token, 4, 8, logits, id) == windowed[id]);
    s.repeat_last_n = 0;
    for (int id = 1; id <= 4; id++) assert_true(edited(&s, token, 4, 8, logits, id) == 4);

    s = rn_sampling_neutral();
    s.presence_penalty = 0.5f;
    const float present[] = {0, 4, 3.5f, 3.5f, 3.5f};
    for (int id = 1; id <= 4; id++) assert_true(edited(&s, token, 4, 8, logits, id) == present[id]);
    s.frequency_penalty = 0.25f;
    const float counted[] = {0, 4, 3.25f, 3, 3.25f};
    for (int id = 1; id <= 4; id++) assert_true(edited(&s, token, 4, 8, logits, id) == counted[id]);
    s.repeat_last_n = 1; // is the window of the repetition penalty alone
    for (int id = 1; id <= 4; id++) assert_true(edited(&s, token, 4, 8, logits, id) == counted[id]);
}

CASE(repetition_divides_positive_and_multiplies_negative_logits) {
    const int32_t token[] = {0, 1, 2, 3, 4};
    float logits[VOCAB] = {3, -3, 0, -INFINITY, NAN, 3};
    rn_sampling s = rn_sampling_neutral();
    s.repetition_penalty = 1.5f;
    assert_true(edited(&s, token, 5, 5, logits, 0) == 2);
    assert_true(edited(&s, token, 5, 5, logits, 1) == -4.5f);
    assert_true(edited(&s, token, 5, 5, logits, 2) == 0);
    assert_true(edited(&s, token, 5, 5, logits, 3) == -INFINITY);
    assert_true(isnan(edited(&s, token, 5, 5, logits, 4)));
    assert_true(edited(&s, token, 5, 5, logits, 5) == 3); // not in the history
}

// ---------------------------------------------------------------- edges

CASE(equal_logits_are_told_apart_by_their_ids) {
    struct scene scene = {.s = rn_sampling_neutral()};
    for (int i = 0; i < VOCAB; i++) scene.logits[i] = 7;
    rn_sampling *s = &scene.s;
    s->top_n_sigma = 1;
    s->top_k = VOCAB / 2;
    s->typical_p = 0.45f; // of 20 equal ones 9
    s->top_p = 0.5f;      // of 9 equal ones 5
    s->min_p = 1;
    s->xtc_probability = 1;
    s->xtc_threshold = 0.1f;
    const int left[] = {VOCAB, VOCAB / 2, 9, 5, 5, 1};
    struct filtering f;
    const struct candidates *set = &f.choice.set;
    filtering_init(&f, &scene, false);
    for (int i = 0; i < 6; i++) {
        filter(&f, (enum step)(STEP_TOP_N_SIGMA + i));
        check(set->n == left[i], "%s leaves %d", names[STEP_TOP_N_SIGMA + i], set->n);
        for (int k = 0; i < 5 && k < set->n; k++) assert_true(set->id[k] < left[i]);
    }
    assert_int_equal(set->id[0], 4); // XTC leaves the last in the order of likelihood
    assert_int_equal(sampler_choose(&sampler, s, &scene.view, scene.logits), 4);
}

static const float float_edges[] = {0, 1e-38f, 1e-3f, 0.5f, 0.99999f, 1, 2, 50, 100, -1, -2};
static const int int_edges[] = {-1, 0, 1, 2, 3, VOCAB, INT32_MAX};

static void edges_fill(rn_sampling *s) {
    enum { FLOATS = sizeof float_edges / sizeof *float_edges };
    enum { INTS = sizeof int_edges / sizeof *int_edges };
#define EDGE_FLOAT float_edges[below(FLOATS)]
#define EDGE_INT   int_edges[below(INTS)]
#define SAMPLING_NUMBER(kind, id, field, neutral, min, max, ...)                                   \
    do s->field = EDGE_##kind;                                                                     \
    while (s->field < (min) || s->field > (max));
#include "plan/sampling.def"
#undef EDGE_FLOAT
#undef EDGE_INT
}

CASE(at_the_edges_of_all_parameters_a_candidate_is_chosen) {
    static const float values[] = {FLT_MAX, -FLT_MAX, 0, -0.0f,     1e-45f, 1e30f, -1e30f,
                                   88.7f,   -88.7f,   1, -INFINITY, NAN,    -1};
    struct scene scene;
    for (int i = 0; i < test_scale(6000, 30000, 30000); i++) {
        scene_random(&scene, 0.5);
        const int kinds = 1 + below(sizeof values / sizeof *values);
        for (int id = 0; i % 2 && id < VOCAB; id++) scene.logits[id] = values[below(kinds)];
        edges_fill(&scene.s);
        rn_error err = {0};
        check(sampling_check(&scene.s, &err) == RN_OK, "%s", err.message);
        bool any = false, banned[VOCAB] = {false};
        for (size_t k = 0; k < scene.s.n_logit_bias; k++)
            if (scene.bias[k].bias == -100) banned[scene.bias[k].token] = true;
        for (int id = 0; id < VOCAB; id++)
            if (scene.view.allowed && (scene.allowed[0] >> id & 1) == 0) banned[id] = true;
        for (int id = 0; id < VOCAB; id++) any |= isfinite(scene.logits[id]) && !banned[id];
        const int32_t got = sampler_choose(&sampler, &scene.s, &scene.view, scene.logits);
        check(got >= (any ? 0 : -1) && got < (any ? VOCAB : 0), "case %d: %d", i, got);
        assert_true(got < 0 || (isfinite(scene.logits[got]) && !banned[got]));
    }
}

CASE(a_single_candidate_survives_every_filter) {
    struct scene scene;
    for (int i = 0; i < 2000; i++) {
        scene_random(&scene, 0.5);
        edges_fill(&scene.s);
        scene.s.n_logit_bias = 0;
        scene.view.allowed = NULL;
        for (int id = 0; id < VOCAB; id++) scene.logits[id] = id % 2 ? NAN : -INFINITY;
        const int32_t only = below(VOCAB);
        scene.logits[only] = (float)(100 * uniform() - 50);
        assert_int_equal(sampler_choose(&sampler, &scene.s, &scene.view, scene.logits), only);
    }
}

CASE(an_edit_leaves_finite_logits_finite) {
    struct scene scene;
    for (int i = 0; i < 2000; i++) {
        scene_random(&scene, 1);
        edges_fill(&scene.s);
        for (int id = 0; id < VOCAB; id++) scene.logits[id] = below(2) ? FLT_MAX : -FLT_MAX;
        for (int k = 0; k < 4; k++) scene.bias[k].bias = below(2) ? 100 : -99;
        float logit[VOCAB];
        scene.view.allowed = NULL;
        sampler_edit(&sampler, &scene.s, &scene.view, scene.logits, logit);
        for (int id = 0; id < VOCAB; id++) assert_true(isfinite(logit[id]));
    }
}

CASE(top_n_sigma_does_not_depend_on_the_temperature) {
    struct scene scene;
    for (int i = 0; i < 500; i++) {
        scene_random(&scene, 0);
        scene.s.top_n_sigma = (float)(3 * uniform());
        scene.s.temperature = 1;
        struct filtering f;
        filtering_init(&f, &scene, true);
        filter(&f, STEP_TOP_N_SIGMA);
        const int n = f.choice.set.n;
        scene.s.temperature = 0.25f; // a power of two, so that the division is exact
        filtering_init(&f, &scene, true);
        filter(&f, STEP_TOP_N_SIGMA);
        assert_int_equal(f.choice.set.n, n);
    }
}

// ---------------------------------------------------------------- XTC's draw

CASE(xtc_comes_as_often_as_asked_for) {
    enum { DRAWS = 20000 };
    float logits[VOCAB];
    for (int i = 0; i < VOCAB; i++) logits[i] = -50;
    logits[5] = 2; // the two that reach the threshold; the better one goes
    logits[6] = 1.5f;
    static const float probabilities[] = {0, 0.1f, 0.5f, 0.9f, 1};
    for (int k = 0; k < 5; k++) {
        rn_sampling s = rn_sampling_neutral();
        s.xtc_probability = probabilities[k];
        int applied = 0;
        for (int i = 0; i < DRAWS; i++) {
            s.seed = (uint64_t)i; // over seeds and positions
            const struct sampler_view view = {.n_token = i % 17};
            const bool xtc =
                sampler_xtc_draw(s.seed, 0, (uint32_t)view.n_token) < (double)s.xtc_probability;
            const int32_t got = sampler_choose(&sampler, &s, &view, logits);
            check(!xtc || got == 6, "%d was chosen after XTC", got);
            applied += xtc;
        }
        const double p = (double)s.xtc_probability, expected = DRAWS * p;
        const double deviation = sqrt(DRAWS * p * (1 - p));
        check(fabs(applied - expected) <= 5 * deviation, "%d of %d for %g", applied, DRAWS, p);
    }
}

CASE(xtc_draws_from_a_stream_of_its_own) {
    const double draw = sampler_xtc_draw(1, 2, 3);
    assert_true(draw == sampler_xtc_draw(1, 2, 3));
    assert_true(draw != sampler_xtc_draw(2, 2, 3) && draw != sampler_xtc_draw(1, 3, 3) &&
                draw != sampler_xtc_draw(1, 2, 4));
    for (uint32_t token = 0; token < 5000; token++) // it is no token's
        assert_true(fabs(-log(-log(draw)) - (double)sampler_noise(1, 2, 3, token)) > 1e-6);
    // no relation with the tokens' noise: means of the noise given a low or a high draw
    enum { N = 40000 };
    double sum[2] = {0};
    int n[2] = {0};
    for (uint32_t i = 0; i < N; i++) {
        const bool high = sampler_xtc_draw(9, 0, i) > 0.5;
        sum[high] += (double)sampler_noise(9, 0, i, i % 50);
        n[high]++;
    }
    check(fabs(sum[0] / n[0] - sum[1] / n[1]) < 0.06, "%g and %g", sum[0] / n[0], sum[1] / n[1]);
    assert_true(abs(n[0] - N / 2) < 600);
}

TEST_PROGRAM(sampler_steps) { return cases_run(sampler_setup, sampler_teardown); }
