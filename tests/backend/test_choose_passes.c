// The passes over many logits: every instruction set gives the bits of the plain loops, for any
// length and content of a run. So every instruction set makes the same choice.
#include "backend/cpu/choose_passes.h"

#include <inttypes.h>

#include "backend/cpu/choose_steps.h"
#include "base/half.h"
#include "check.h"
#include "choose_plain.h"

#define RANDOM_SEED 362436069123456789u
#include "engine/random.h"

enum { MOST = 3000 }; // tokens: blocks enough for their own peaks

// Bells, heavy tails, ties, all alike, weights that vanish, a few far above the rest.
static void fill_random(float *logits, int n, bool holes) {
    const int kind = below(7);
    const double spread = exp(7 * uniform() - 2), share = uniform() * uniform();
    for (int i = 0; i < n; i++) {
        double x = spread * (uniform() + uniform() + uniform() + uniform() - 2);
        if (kind == 1) x = spread * log(1 - uniform());
        if (kind == 2) x = rint(x * 2) / 2;
        if (kind == 3) x = spread;
        if (kind == 4) x *= 1e35;
        logits[i] = (float)x;
        if (holes && uniform() < share) logits[i] = below(2) ? NAN : -INFINITY;
    }
    for (int i = 0; kind > 4 && i < 20; i++)
        logits[below(n)] = (float)(2 * spread + 10 * uniform());
    logits[below(n)] = (float)spread; // one is a candidate
}

static int size_random(void) { return below(2) ? 1 + below(300) : 1 + below(MOST); }

static float temperature_random(void) {
    static const float some[] = {1, 0.8f, 1e-38f, 100};
    return below(2) ? some[below(4)] : (float)(0.2 + 1.5 * uniform());
}

#define for_tables(passes)                                                                         \
    for (int table = 0; choose_passes_all[table]; table++)                                         \
        for (const struct choose_passes *passes = choose_passes_all[table]; passes; passes = NULL) \
            if (passes->is_here())

// ---------------------------------------------------------------- the model's logits

CASE(peaks_are_the_largest_of_their_blocks) {
    static float logits[MOST], peak[MOST];
    for (int i = 0; i < 400; i++) {
        const int n = size_random();
        fill_random(logits, n, i % 3 == 0);
        for_tables(passes) {
            float top = -INFINITY;
            bool expected_holes = false, holes;
            const float got = passes->peaks(logits, n, peak, &holes);
            for (int at = 0; at < n; at += CHOOSE_BLOCK) {
                float most = -INFINITY;
                for (int j = at; j < n && j < at + CHOOSE_BLOCK; j++) {
                    most = logits[j] > most ? logits[j] : most;
                    expected_holes |= !isfinite(logits[j]);
                }
                check(peak[at / CHOOSE_BLOCK] == most, "%s: %d of %d", passes->name, at, n);
                top = most > top ? most : top;
            }
            check(got == top && holes == expected_holes, "%s: %g, holes %d", passes->name,
                  (double)got, holes);
        }
    }
}

CASE(one_hole_is_seen_wherever_it_is) {
    static const float hole[] = {NAN, -INFINITY};
    float logits[150], peak[3];
    bool holes;
    for_tables(passes) {
        for (int i = 0; i < 150; i++) logits[i] = (float)i;
        passes->peaks(logits, 150, peak, &holes);
        assert_false(holes);
        for (int i = 0; i < 300; i++) {
            const float was = logits[i / 2];
            logits[i / 2] = hole[i % 2];
            passes->peaks(logits, 150, peak, &holes);
            check(holes, "%s: %d", passes->name, i / 2);
            logits[i / 2] = was;
        }
    }
}

CASE(gathering_keeps_the_allowed_candidates_in_their_order_also_in_place) {
    static float logits[MOST], out[MOST];
    static int32_t id[MOST];
    static uint64_t allowed[MOST / 64 + 1];
    for (int i = 0; i < 400; i++) {
        const int n = size_random();
        const uint64_t *mask = i % 3 ? allowed : NULL;
        fill_random(logits, n, i % 5);
        for (int k = 0; k <= n / 64; k++) { // words of all, of none, of few and of many tokens
            const double share = below(3) ? uniform() : 1.5 * below(2);
            allowed[k] = 0;
            for (int j = 0; j < 64; j++) allowed[k] |= (uint64_t)(uniform() < share) << j;
        }
        for_tables(passes) {
            const bool in_place = i % 2;
            if (in_place) memcpy(out, logits, sizeof out);
            const int kept = passes->gather(in_place ? out : logits, n, mask, out, id);
            int expected = 0;
            for (int k = 0; k < n; k++) {
                if (!(logits[k] > -INFINITY) || (mask && !token_set_has(mask, k))) continue;
                check(expected < kept && id[expected] == k && out[expected] == logits[k],
                      "%s: %d of %d", passes->name, k, n);
                expected++;
            }
            assert_int_equal(kept, expected);
        }
    }
}

CASE(the_deviation_has_the_bits_of_the_plain_loop) {
    static float logits[MOST];
    for (int i = 0; i < 400; i++) {
        const int n = size_random();
        fill_random(logits, n, i % 2);
        const double expected = plain_deviation(logits, n, 3);
        for_tables(passes) {
            const double got = passes->deviation(logits, n, 3);
            check(memcmp(&got, &expected, sizeof got) == 0, "%s: %.17g, not %.17g", passes->name,
                  got, expected);
        }
    }
}

// ---------------------------------------------------------------- runs

// A run and the same candidates for the plain loops.
struct scene {
    float logits[MOST], peak[MOST];
    int32_t id[MOST];
    struct candidate candidate[MOST];
    struct run run;
    struct plain plain;
};

static void scene_random(struct scene *scene) {
    const int n = size_random();
    bool holes;
    fill_random(scene->logits, n, false);
    const float top = choose_passes_base.peaks(scene->logits, n, scene->peak, &holes);
    scene->run = (struct run){.logit = scene->logits,
                              .peak = scene->peak,
                              .id = below(2) ? scene->id : NULL,
                              .n = n,
                              .shift = top,
                              .scale = temperature_random()};
    for (int i = 0; i < n; i++) {
        scene->id[i] = 7 * i % n + below(2) * n;
        scene->candidate[i] = (struct candidate){(scene->logits[i] - top) / scene->run.scale,
                                                 scene->run.id ? scene->id[i] : i};
    }
    scene->plain = (struct plain){scene->candidate, n};
}

CASE(counts_masses_and_means_have_the_bits_of_the_plain_loops) {
    static struct scene scene;
    static struct candidate within[MOST];
    for (int i = 0; i < 1500; i++) {
        scene_random(&scene);
        const float centre = i % 3 ? 0 : plain_mean(&scene.plain);
        const float distance = i % 4 ? (float)exp(8 * uniform() - 3) : INFINITY;
        const int count = plain_within(&scene.plain, centre, distance, within);
        const uint64_t mass = plain_mass(&scene.plain, centre, distance);
        const uint64_t total = plain_mass(&scene.plain, centre, INFINITY);
        const float mean = plain_mean(&scene.plain);
        for_tables(passes) {
            const uint64_t got = passes->mass_within(&scene.run, centre, distance);
            check(got == mass, "%s: n %d, mass %" PRIu64 ", not %" PRIu64, passes->name,
                  scene.run.n, got, mass);
            uint64_t units;
            const float got_mean = passes->mean(&scene.run, &units);
            check(memcmp(&got_mean, &mean, sizeof mean) == 0, "%s: n %d, mean %.9g, not %.9g",
                  passes->name, scene.run.n, (double)got_mean, (double)mean);
            assert_true(units == total);
            assert_int_equal(passes->count_within(&scene.run, centre, distance), count);
        }
    }
}

// Those within a distance, without ids above the last at that very distance.
static int plain_until(const struct plain *plain, float centre, float distance, int32_t last_id,
                       struct candidate *out) {
    const int n = plain_within(plain, centre, distance, out);
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (out[i].id <= last_id || fabsf(out[i].logit - centre) < distance) out[kept++] = out[i];
    return kept;
}

CASE(what_is_up_to_a_cut_is_kept_also_in_place) {
    static struct scene scene;
    static struct candidate kept[MOST];
    static float out[MOST];
    static int32_t id[MOST];
    for (int i = 0; i < 3000; i++) {
        scene_random(&scene);
        const float centre = i % 3 ? 0 : plain_mean(&scene.plain);
        float distance = i % 4 ? (float)exp(8 * uniform() - 3) : INFINITY;
        if (i % 5 < 2) distance = fabsf(scene.candidate[below(scene.run.n)].logit - centre);
        const int32_t last_id = below(2) ? INT32_MAX : below(2 * scene.run.n);
        const int n = plain_until(&scene.plain, centre, distance, last_id, kept);
        for_tables(passes) {
            struct run run = scene.run;
            memcpy(out, scene.logits, sizeof out);
            memcpy(id, scene.id, sizeof id);
            if (i % 2) run.logit = out;
            if (i % 2 && run.id) run.id = id;
            assert_int_equal(passes->keep_within(&run, centre, distance, last_id, out, id), n);
            for (int k = 0; k < n; k++)
                check(out[k] == kept[k].logit && id[k] == kept[k].id, "%s: %d of %d", passes->name,
                      k, n);
        }
    }
}

static int plain_digit(float distance, const struct ruler *ruler) {
    const int64_t above = (int64_t)f32_to_bits(distance) - ruler->low;
    const int64_t digit = above < 0 ? 0 : above >> ruler->shift;
    return (int)(digit < CHOOSE_DIGITS ? digit : CHOOSE_DIGITS - 1);
}

static uint64_t plain_measure(float logit, const struct ruler *ruler) {
    return ruler->measure == MEASURE_COUNT ? 1 : plain_units(logit);
}

// The digit's candidates that count for something.
static int plain_list(const struct plain *plain, const struct ruler *ruler, int digit,
                      struct candidate *out) {
    int n = 0;
    for (int i = 0; i < plain->n; i++) {
        const float logit = plain->at[i].logit, distance = fabsf(logit - ruler->centre);
        if (plain_measure(logit, ruler) == 0) continue;
        if (digit < 0 || plain_digit(distance, ruler) == digit) out[n++] = plain->at[i];
    }
    return n;
}

static struct ruler ruler_random(const struct scene *scene, float some, float centre) {
    struct ruler ruler = {.centre = centre, .reach = INFINITY, .shift = 20};
    if (below(2)) ruler.measure = MEASURE_COUNT;
    if (below(2)) {
        ruler.reach = fabsf(scene->candidate[below(scene->run.n)].logit - centre);
        ruler.reach = fmaxf(ruler.reach, some) * 1.2f + 1;
        ruler.low = (int32_t)f32_to_bits(ruler.reach) - (2046 << 14);
        ruler.shift = 14;
    }
    if (!isfinite(ruler.reach)) ruler = (struct ruler){centre, INFINITY, ruler.measure, 0, 20};
    return ruler;
}

CASE(a_digit_has_the_sum_and_the_candidates_of_the_plain_loop) {
    static struct scene scene;
    static struct candidate listed[MOST];
    static uint32_t distance[MOST + CHOOSE_BLOCK], units[MOST + CHOOSE_BLOCK];
    static int32_t id[MOST + CHOOSE_BLOCK];
    static uint64_t sum[CHOOSE_DIGITS];
    const struct near near = {distance, units, id};
    for (int i = 0; i < 2000; i++) {
        scene_random(&scene);
        const float centre = i % 3 ? 0 : plain_mean(&scene.plain);
        const float some = fabsf(scene.candidate[below(scene.run.n)].logit - centre);
        const struct ruler ruler = ruler_random(&scene, some, centre);
        const int digit = plain_digit(some, &ruler);
        const int n = plain_list(&scene.plain, &ruler, digit, listed);
        uint64_t expected = 0;
        for (int k = 0; k < n; k++) expected += plain_measure(listed[k].logit, &ruler);
        const uint64_t total = plain_mass(&scene.plain, centre, INFINITY);
        for_tables(passes) {
            memset(sum, 0, sizeof sum);
            const uint64_t seen = passes->measure(&scene.run, &ruler, &near, sum);
            check(sum[digit] == expected, "%s: digit %d", passes->name, digit);
            if (ruler.measure == MEASURE_MASS)
                assert_true(seen + passes->mass_left_out(&scene.run, centre, ruler.reach) == total);
            assert_int_equal(passes->list(&scene.run, &ruler, digit, &near), n);
            for (int k = 0; k < n; k++)
                check(id[k] == listed[k].id &&
                          distance[k] == f32_to_bits(fabsf(listed[k].logit - centre)) &&
                          units[k] == plain_measure(listed[k].logit, &ruler),
                      "%s: %d of %d", passes->name, k, n);
        }
    }
}

CASE(the_choice_of_a_run_is_that_of_the_plain_loop) {
    static struct scene scene;
    for (int i = 0; i < 4000; i++) {
        scene_random(&scene);
        const uint64_t key = noise_mix((uint64_t)i);
        const int32_t expected = plain_choose(&scene.plain, key);
        for_tables(passes) {
            const int32_t got = passes->choose(&scene.run, key);
            check(got == expected, "%s: n %d, %d, not %d", passes->name, scene.run.n, got,
                  expected);
        }
    }
}

// ---------------------------------------------------------------- all of it

static rn_sampling sampling_random(double chance) {
    rn_sampling s = sampling_neutral();
    s.seed = (uint64_t)below(1 << 30);
    s.temperature = temperature_random();
    if (uniform() < chance) s.top_n_sigma = (float)(4 * uniform());
    if (uniform() < chance) s.top_k = 1 + below(below(2) ? 30 : MOST);
    if (uniform() < chance) s.typical_p = (float)uniform();
    if (uniform() < chance) s.top_p = (float)(below(2) ? uniform() : 1 - exp(-12 * uniform()));
    if (uniform() < chance) s.min_p = (float)(below(2) ? exp(-90 * uniform()) : uniform());
    if (uniform() < chance) s.xtc_probability = 1;
    if (uniform() < chance) s.xtc_threshold = (float)(0.3 * uniform() * uniform());
    return s;
}

CASE(every_instruction_set_chooses_as_the_plain_loops) {
    static float logits[MOST];
    enum { VOCABULARIES = 60, CHOICES = 40 };
    for (int i = 0; i < VOCABULARIES; i++) {
        const int n_vocab = size_random();
        struct chooser chooser;
        assert_int_equal(chooser_init(&chooser, n_vocab, &choose_passes_base, NULL), RN_OK);
        for (int k = 0; k < CHOICES; k++) {
            fill_random(logits, n_vocab, k % 4 == 0);
            const rn_sampling s = sampling_random(k % 2 ? 0.2 : 0.5);
            const struct choice_numbers numbers = numbers_of(&s);
            const struct choice choice = {.numbers = &numbers,
                                          .n_vocab = n_vocab,
                                          .key = noise_key(s.seed, (uint32_t)k, 0)};
            const int32_t expected = plain_sample(&choice, logits);
            for_tables(passes) {
                chooser.passes = passes;
                const int32_t got = chooser_choose(&chooser, &choice, logits);
                check(got == expected, "%s: case %d of vocabulary %d (%d): %d, not %d",
                      passes->name, k, i, n_vocab, got, expected);
            }
        }
        chooser_deinit(&chooser);
    }
}

// An instruction set of the backend has the passes of the same one, where there are some.
CASE(the_passes_are_those_of_the_instruction_set) {
    static const struct {
        enum cpu_isa isa;
        const char *name;
    } cases[] = {{ISA_SCALAR, "base"},       {ISA_AVX2, "avx2"},       {ISA_AVXVNNI, "avx2"},
                 {ISA_AVX512BW, "avx512bw"}, {ISA_AVX512, "avx512bw"}, {ISA_AMX, "avx512bw"},
                 {ISA_NEON, "base"}};
    for (int i = 0; i < ISA_COUNT; i++) {
        if (!ops_at(cases[i].isa)) continue;
        const struct choose_passes *passes = choose_passes_for(cases[i].isa);
        assert_string_equal(passes->name, cases[i].name);
        assert_true(passes->is_here());
    }
}

TEST_PROGRAM(choose_passes) { return cases_run(NULL, NULL); }
