// The filters that keep a run of the nearest candidates keep exactly the set of the plain
// definition, with every instruction set. The run may end among few, among equals, among candidates
// whose distances differ in their last bits, or where a unit of mass decides.
// label: no-address
#include "backend/cpu/choose_steps.h"
#include "check.h"
#include "choose_plain.h"

#define RANDOM_SEED 521288629546311u
#include "engine/random.h"

#ifdef TEST_EMULATED
enum { PART = 8 }; // of the cases
#else
enum { PART = 1 };
#endif
enum { MOST = 20000 };

static double bell(void) { return uniform() + uniform() + uniform() + uniform() - 2; }

enum kind { BELL, PEAKED, HEAVY_TAIL, EQUAL, COARSE, LAST_BITS, LAST_FEW_BITS, TWO_HILLS, N_KINDS };

static float logit_of(enum kind kind, double spread) {
    switch (kind) {
    case EQUAL:
        return 3;
    case COARSE:
        return (float)(rint(2 * spread * bell()) / 2);
    case LAST_BITS:
        return -1 - (float)below(1 << 20) * 0x1p-23f;
    case LAST_FEW_BITS:
        return -1 - (float)below(100) * 0x1p-23f;
    case HEAVY_TAIL:
        return (float)(spread * log(1 - uniform()));
    case TWO_HILLS:
        return (float)(0.1 * bell() + (below(2) ? 0 : -spread));
    default:
        return (float)(spread * bell());
    }
}

// A peak is a few tokens so far above the rest that these weigh little, or about as much.
static void fill_random(float *logits, int n, enum kind kind) {
    const double spread = exp(3 * uniform()), above = 2 * spread + 14 * uniform();
    for (int i = 0; i < n; i++) logits[i] = logit_of(kind, spread);
    const int n_peak = kind == PEAKED ? 1 + below(60) : 0;
    for (int i = 0; i < n_peak; i++) logits[below(n)] = (float)(above - 3 * uniform());
    if (kind == LAST_BITS || kind == LAST_FEW_BITS) logits[below(n)] = 0;
}

static rn_sampling sampling_random(int i, int n) {
    rn_sampling s = sampling_neutral();
    s.temperature = below(2) ? 1 : (float)(0.3 + uniform());
    const float share = (float)(below(2) ? uniform() : 1 - exp(-14 * uniform()));
    if (i % 3 == 0) s.top_p = below(20) ? share : 0;
    if (i % 3 == 1) s.typical_p = share;
    if (i % 3 == 2) s.top_k = 1 + below(below(2) ? n - 1 : 1 + n / 50);
    return s;
}

static void apply(struct cpu_choice *choice) {
    choose_step_temperature(choice);
    choose_step_top_k(choice);
    choose_step_typical(choice);
    choose_step_top_p(choice);
}

static int compare_ids(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static struct plain plain_of(const float *logits, int n, const struct choice_numbers *s,
                             struct candidate *at) {
    float top = -INFINITY;
    for (int i = 0; i < n; i++) top = fmaxf(top, logits[i]);
    for (int i = 0; i < n; i++) at[i] = (struct candidate){logits[i] - top, i};
    struct plain plain = {at, n};
    plain_filters(&plain, s, 0, 1);
    qsort(at, (size_t)plain.n, sizeof *at, compare_ids);
    return plain;
}

// All instruction sets, from logits where they are and from gathered ones.
static void check_kept(struct chooser *chooser, const float *logits, const rn_sampling *s) {
    static struct candidate at[MOST];
    const int n = chooser->n_vocab;
    const struct choice_numbers numbers = numbers_of(s);
    const struct choice wanted = {.numbers = &numbers, .n_vocab = n};
    const struct plain plain = plain_of(logits, n, &numbers, at);
    for (int k = 0; choose_passes_all[k]; k++) {
        if (!choose_passes_all[k]->is_here()) continue;
        chooser->passes = choose_passes_all[k];
        bool holes;
        struct cpu_choice choice = {.chooser = chooser,
                                    .wanted = &wanted,
                                    .raw = logits,
                                    .logit = logits,
                                    .n = n,
                                    .is_whole = true,
                                    .scale = 1,
                                    .set = {chooser->logit, chooser->id, 0}};
        choice.top = chooser->passes->peaks(logits, n, chooser->peak, &holes);
        if (below(2)) {
            choice.n = chooser->passes->gather(logits, n, NULL, chooser->logit, chooser->id);
            choice.logit = chooser->logit;
            choice.id = chooser->id;
        }
        apply(&choice);
        check(choice.set.n == plain.n, "%s: %d of %d are kept, not %d", chooser->passes->name,
              choice.set.n, n, plain.n);
        for (int i = 0; i < plain.n; i++)
            check(choice.set.id[i] == at[i].id && choice.set.logit[i] == at[i].logit,
                  "%s: token %d at %d, not %d", chooser->passes->name, choice.set.id[i], i,
                  at[i].id);
    }
}

CASE(the_nearest_are_those_of_the_plain_definition) {
    static float logits[MOST];
    static const int sizes[] = {2, 100, 300, 4096, 4099, MOST};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int size = 0; size < SIZES; size++) {
        struct chooser chooser;
        assert_int_equal(chooser_init(&chooser, sizes[size], &choose_passes_base, NULL), RN_OK);
        const int cases = (sizes[size] == MOST ? 72 : 480) / PART;
        for (int i = 0; i < cases; i++) {
            fill_random(logits, sizes[size], (enum kind)(i / 3 % N_KINDS));
            const rn_sampling s = sampling_random(i, sizes[size]);
            check_kept(&chooser, logits, &s);
        }
        chooser_deinit(&chooser);
    }
}

// The share is just above the run's, so that the run ends where a unit, or a part of one, is
// missing.
CASE(a_run_that_lacks_a_part_of_a_unit_is_not_enough) {
    float logits[2] = {0};
    struct chooser chooser;
    int decided = 0;
    assert_int_equal(chooser_init(&chooser, 2, &choose_passes_base, NULL), RN_OK);
    for (int i = 1; i < 8000; i += PART) {
        rn_sampling s = sampling_neutral();
        logits[1] = (float)i * -0.001f;
        const double best = 0x1p30, total = best + (double)plain_units(logits[1]);
        s.top_p = (float)(best / total);
        while (!(total * (double)s.top_p > best)) s.top_p = nextafterf(s.top_p, 1);
        decided += total * (double)s.top_p < best + 1;
        check_kept(&chooser, logits, &s);
    }
    check(decided > 20 / PART, "only %d cases are decided by a part of a unit", decided);
    chooser_deinit(&chooser);
}

// Many tokens that weigh next to nothing each, in blocks of which a bound alone says too much: the
// share is just above or below what the best token has.
CASE(far_tokens_weigh_to_the_last_unit) {
    static float logits[MOST];
    struct chooser chooser;
    assert_int_equal(chooser_init(&chooser, MOST, &choose_passes_base, NULL), RN_OK);
    for (int i = 0; i < 120 / PART; i++) {
        rn_sampling s = sampling_neutral();
        double total = 0, best = 0x1p30;
        const double low = 14 + 8 * uniform();
        for (int k = 0; k < MOST; k++) logits[k] = (float)(-low - 3 * uniform());
        logits[below(MOST)] = 0;
        logits[below(MOST)] = i % 3 ? -1 : 0;
        for (int k = 0; k < MOST; k++) total += (double)plain_units(logits[k]);
        if (i % 2) best += (double)plain_units(i % 3 ? -1 : 0);
        s.top_p = (float)(best / total);
        for (int k = below(9) - 4; k != 0; k += k > 0 ? -1 : 1)
            s.top_p = nextafterf(s.top_p, k > 0 ? 1 : 0);
        if (s.top_p < 1) check_kept(&chooser, logits, &s);
    }
    chooser_deinit(&chooser);
}

TEST_PROGRAM(choose_select) { return cases_run(NULL, NULL); }
