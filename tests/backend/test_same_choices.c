// Many random choices: the same logits and the same description give the same token on every
// backend. A part of them is also compared with the plain loops. The rows of `variants` are the
// only knowledge of a backend here: batches go in, tokens come out. The logits are the rows of an
// embedding, which the plan copies.
// label: threads no-address
#include "backend/table.h"
#include "choose_plain.h"
#include "parts.h"
#if !defined(TEST_EMULATED)
#include "fake/fake_backend.h"
#endif

#define RANDOM_SEED 1181783497276652981u
#include "engine/random.h"

#define CHOICES (TEST_FOR_RACES ? 3000 : test_scale(10000, 100000, 300000))
enum { PLAIN_EVERY = TEST_IS_SLOW ? 5 : 20 };

static const struct variant {
    const struct backend_class *cls;
    const char *variant;
    int n_threads;
} variants[] = {
    {&backend_cpu, "scalar", 1}, // the first is what the others are compared with
    {&backend_cpu, "scalar", 3},   {&backend_cpu, "avx2", 2},   {&backend_cpu, "avxvnni", 2},
    {&backend_cpu, "avx512bw", 2}, {&backend_cpu, "avx512", 2}, {&backend_cpu, "amx", 2},
    {&backend_cpu, "neon", 2},
#if !defined(TEST_EMULATED)
    {&backend_fake, NULL, 2},
#endif
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static const char *variant_name(int v) {
    return variants[v].variant ? variants[v].variant : variants[v].cls->name;
}

// A vocabulary, how many rows of logits there are, and how many of the choices it gets.
static const struct size {
    int n_vocab, n_rows;
    double share;
} sizes[] = {{1, 50, 0.01},    {7, 400, 0.09},   {40, 1000, 0.4},
             {150, 500, 0.36}, {700, 200, 0.11}, {2501, 100, 0.03}};
enum { SIZES = sizeof sizes / sizeof *sizes, BATCH = 500, MAX_EDITS = 48, MAX_VOCAB = 2501 };

// ---------------------------------------------------------------- logits

// Bells, ties, all alike, heavy tails, extremes; some with holes.
static float logit_of(int kind, double spread) {
    static const float edges[] = {FLT_MAX, -FLT_MAX, 0, -0.0f, 1e-45f, 1e30f, -1e30f, 88.7f, 1, -1};
    switch (kind) {
    case 0:
        return (float)(rint(2 * spread * (uniform() + uniform() - 1)) / 2);
    case 1:
        return 3;
    case 2:
        return (float)(spread * log(1 - uniform()));
    case 3:
        return edges[below(sizeof edges / sizeof *edges)];
    default:
        return (float)(spread * (uniform() + uniform() + uniform() + uniform() - 2));
    }
}

static void logits_fill(float *logits, int n) {
    static const float holes[] = {NAN, -INFINITY, NAN, -INFINITY, INFINITY};
    const int kind = below(8);
    const double spread = exp(4 * uniform() - 1);
    const double share = below(3) ? 0 : uniform() * uniform();
    const int n_kinds = below(20) ? 4 : 5; // an infinity leaves no choice
    for (int i = 0; i < n; i++) {
        logits[i] = logit_of(kind, spread);
        if (uniform() < share) logits[i] = holes[below(n_kinds)];
    }
    for (int i = 0; kind == 7 && i < 5; i++) logits[below(n)] = (float)(2 * spread + 8 * uniform());
}

// ---------------------------------------------------------------- descriptions

// One choice and all that it points to.
struct wish {
    struct choice choice;
    struct choice_numbers numbers;
    struct choice_edit edit[MAX_EDITS];
    uint64_t allowed[(MAX_VOCAB + 63) / 64];
    int row; // of the embedding: its logits
};

// Each number of the table is at its neutral value, in a range where it matters, or at an edge.
static void numbers_fill(struct choice_numbers *numbers) {
    const double chance = uniform() * uniform();
#define DRAW_FLOAT(low, high) (float)((low) + ((high) - (low)) * uniform())
#define DRAW_INT(low, high)   (int)((low) + ((high) - (low)) * uniform())
#define SAMPLING_NUMBER(kind, id, field, neutral, min, max, ...)                                   \
    numbers->field = neutral;                                                                      \
    if (uniform() < chance)                                                                        \
        numbers->field = DRAW_##kind((double)(min), (double)(max) < 4 ? (double)(max) : 4);        \
    if (uniform() < chance / 16) numbers->field = below(2) ? (min) : (max);
#include "plan/sampling.def"
#undef DRAW_FLOAT
#undef DRAW_INT
    if (below(5) == 0) numbers->temperature = 0;
    if (below(5) == 0) numbers->temperature = (float)(0.2 + 1.5 * uniform());
    if (numbers->top_k > 0 && below(2)) numbers->top_k = 1 + below(60);
    if (numbers->min_p > 0 && below(2)) numbers->min_p *= numbers->min_p * numbers->min_p;
    if (numbers->xtc_threshold > 0) numbers->xtc_threshold *= 0.3f;
}

// Rows of one id are adjacent: now and then there are several.
static int edits_fill(struct choice_edit *edit, int n_vocab) {
    const int n = below(3) ? 0 : below(MAX_EDITS + 1);
    for (int i = 0; i < n; i++) {
        const bool again = i > 0 && below(4) == 0;
        edit[i] = (struct choice_edit){.id = again ? edit[i - 1].id : below(n_vocab), .dry = -1};
        if (below(3) == 0) edit[i].bias = (float)(20 * uniform() - 10);
        if (below(12) == 0) edit[i].bias = below(2) ? -100 : 100;
        if (below(3) == 0) edit[i].n_output = 1 + below(below(9) ? 5 : 100000);
        if (below(3) == 0) edit[i].dry = (int16_t)below(below(9) ? 6 : 1025);
        edit[i].repeats = below(2);
    }
    return n;
}

static void wish_fill(struct wish *wish, const struct size *size) {
    numbers_fill(&wish->numbers);
    wish->row = below(size->n_rows);
    wish->choice = (struct choice){.numbers = &wish->numbers,
                                   .edit = wish->edit,
                                   .n_edit = edits_fill(wish->edit, size->n_vocab),
                                   .n_vocab = below(4) ? size->n_vocab : 1 + below(size->n_vocab),
                                   .key = noise_mix((uint64_t)below(1 << 30))};
    if (below(4)) return;
    const double share = uniform();
    wish->choice.allowed = wish->allowed;
    for (size_t i = 0; i < token_set_words(size->n_vocab); i++) {
        wish->allowed[i] = below(3) ? UINT64_MAX : 0; // bits behind the vocabulary mean nothing
        for (int bit = 0; bit < 64 && below(2); bit++)
            if (uniform() < share) wish->allowed[i] ^= UINT64_C(1) << bit;
    }
}

// ---------------------------------------------------------------- backends

struct world {
    struct plan plan;
    float *logits; // [n_rows, n_vocab]
    struct pool *pool[VARIANTS];
    struct backend *backend[VARIANTS]; // NULL: not here
};

static float *logits_alloc(const struct size *size) {
    float *logits = malloc((size_t)size->n_rows * (size_t)size->n_vocab * sizeof *logits);
    assert_non_null(logits);
    return logits;
}

static float *logits_random(const struct size *size) {
    float *logits = logits_alloc(size);
    for (int row = 0; row < size->n_rows; row++)
        logits_fill(logits + (size_t)row * (size_t)size->n_vocab, size->n_vocab);
    return logits;
}

// Takes the logits.
static void world_init(struct world *w, const struct size *size, float *logits) {
    w->logits = logits;
    plan_init(&w->plan);
    plan_end_with_rows(&w->plan, logits, size->n_rows, size->n_vocab);
    for (int i = 0; i < VARIANTS; i++) {
        rn_error err = {0};
        check(pool_create(variants[i].n_threads, &w->pool[i], &err) == RN_OK, "%s", err.message);
        const struct backend_config config = {.variant = variants[i].variant,
                                              .sizes = {.max_tokens = BATCH,
                                                        .max_logits = BATCH,
                                                        .max_seqs = 1},
                                              .pool = w->pool[i]};
        const rn_status status = variants[i].cls->create(&w->plan, &config, &w->backend[i], &err);
        check(!status || (status == RN_ERR_UNSUPPORTED && i > 0), "%s: %s", variant_name(i),
              err.message);
        if (status) w->backend[i] = NULL;
    }
}

static void world_deinit(struct world *w) {
    for (int i = 0; i < VARIANTS; i++) {
        backend_destroy(w->backend[i]);
        pool_destroy(w->pool[i]);
    }
    plan_deinit(&w->plan);
    free(w->logits);
}

// *logits: the rows of logits; may be NULL.
static const int32_t *run(struct backend *backend, const struct wish *wish, int n,
                          const float *const **logits) {
    static struct choice choice[BATCH];
    static int32_t token[BATCH];
    struct batch_builder builder;
    for (int i = 0; i < n; i++) {
        choice[i] = wish[i].choice;
        token[i] = wish[i].row;
    }
    assert_int_equal(batch_builder_init(&builder, 0, n, n, 1, NULL), RN_OK);
    batch_begin(&builder, choice);
    batch_add(&builder, &(struct batch_rows){.n_tokens = n, .token = token, .n_out = n});
    static struct step_result result;
    rn_error err = {0};
    check(backend_run(backend, &builder.batch, &result, &err) == RN_OK, "%s", err.message);
    batch_builder_deinit(&builder);
    if (logits) *logits = result.logits;
    return result.token;
}

// ---------------------------------------------------------------- the test

struct tally {
    int chosen, none, greedy, plain;
};

static void check_batch(struct world *w, const struct size *size, const struct wish *wish, int n,
                        struct tally *tally) {
    static int32_t expected[BATCH];
    memcpy(expected, run(w->backend[0], wish, n, NULL), (size_t)n * sizeof *expected);
    for (int v = 1; v < VARIANTS; v++) {
        if (!w->backend[v]) continue;
        const int32_t *got = run(w->backend[v], wish, n, NULL);
        for (int i = 0; i < n; i++)
            check(got[i] == expected[i], "%s %s: %d, not %d", variants[v].cls->name,
                  variants[v].variant ? variants[v].variant : "", got[i], expected[i]);
    }
    for (int i = 0; i < n; i++) {
        const struct choice *choice = &wish[i].choice;
        const float *logits = w->logits + (size_t)wish[i].row * (size_t)size->n_vocab;
        check(expected[i] < choice->n_vocab, "%d of %d tokens", expected[i], choice->n_vocab);
        tally->chosen += expected[i] >= 0;
        tally->none += expected[i] < 0;
        tally->greedy += choice->numbers->temperature == 0;
        if (i % PLAIN_EVERY) continue;
        const int32_t plain = plain_sample(choice, logits);
        check(expected[i] == plain, "vocabulary %d: %d, not %d", size->n_vocab, expected[i], plain);
        tally->plain++;
    }
}

CASE(every_backend_chooses_the_same_token) {
    struct wish *wish = calloc(BATCH, sizeof *wish);
    struct tally tally = {0};
    assert_non_null(wish);
    for (int s = 0; s < SIZES; s++) {
        struct world w;
        world_init(&w, &sizes[s], logits_random(&sizes[s]));
        const int n_batches = (int)ceil(CHOICES * sizes[s].share / BATCH);
        for (int b = 0; b < n_batches; b++) {
            for (int i = 0; i < BATCH; i++) wish_fill(&wish[i], &sizes[s]);
            check_batch(&w, &sizes[s], wish, BATCH, &tally);
        }
        world_deinit(&w);
    }
    free(wish);
    const int all = tally.chosen + tally.none;
    check(all >= CHOICES * 0.99, "only %d choices", all);
    check(tally.none > all / 200 && tally.chosen > all / 2 && tally.greedy > all / 8,
          "%d without a token, %d with one, %d greedy", tally.none, tally.chosen, tally.greedy);
    check(tally.plain >= all / PLAIN_EVERY, "only %d by the plain loops", tally.plain);
}

// Three tokens, of which the second has edits. In even rows the first has the very float that they
// give, in odd rows the third: of equals the lower id is chosen, so an edit that gives more or less
// by a bit shows.
static void pin_fill(struct wish *wish, float *logits, int row) {
    const float x = (float)(40 * (uniform() + uniform() - 1));
    wish->row = row;
    numbers_fill(&wish->numbers);
    wish->numbers.temperature = 0;
    wish->numbers.presence_penalty = (float)(4 * uniform() - 2);
    wish->numbers.frequency_penalty = (float)(4 * uniform() - 2);
    wish->numbers.repetition_penalty = (float)(0.5 + uniform());
    wish->numbers.dry_multiplier = (float)uniform();
    wish->numbers.dry_base = (float)(1 + uniform());
    const int n_edit = 1 + below(3);
    float value = x;
    for (int i = 0; i < n_edit; i++) {
        wish->edit[i] = (struct choice_edit){.id = 1,
                                             .bias = below(2) ? (float)(8 * uniform() - 4) : 0,
                                             .n_output = below(2) ? below(1000) : 0,
                                             .dry = (int16_t)(below(12) - 1),
                                             .repeats = below(2)};
        value = plain_edit(&wish->numbers, &wish->edit[i], value);
    }
    wish->choice = (struct choice){.numbers = &wish->numbers,
                                   .edit = wish->edit,
                                   .n_edit = n_edit,
                                   .n_vocab = 3};
    logits[0] = row % 2 ? -INFINITY : value;
    logits[1] = x;
    logits[2] = row % 2 ? value : -INFINITY;
}

CASE(edits_are_exact_to_the_bit) {
    const int rounds = CHOICES / 50000 + 1;
    static const struct size size = {3, BATCH, 0};
    static struct wish wish[BATCH];
    for (int round = 0; round < rounds; round++) {
        struct world w;
        float *logits = logits_alloc(&size);
        for (int i = 0; i < BATCH; i++) pin_fill(&wish[i], logits + 3 * (size_t)i, i);
        world_init(&w, &size, logits);
        for (int v = 0; v < VARIANTS; v++) {
            if (!w.backend[v]) continue;
            const int32_t *got = run(w.backend[v], wish, BATCH, NULL);
            for (int i = 0; i < BATCH; i++) check(got[i] == i % 2, "%s: %d", variant_name(v), i);
        }
        world_deinit(&w);
    }
}

// Rows without numbers have no token, and change nothing for their neighbours.
CASE(a_row_without_a_choice_has_no_token) {
    static struct wish wish[BATCH];
    static int32_t expected[BATCH];
    struct world w;
    world_init(&w, &sizes[2], logits_random(&sizes[2]));
    for (int i = 0; i < BATCH; i++) wish_fill(&wish[i], &sizes[2]);
    memcpy(expected, run(w.backend[0], wish, BATCH, NULL), sizeof expected);
    for (int i = 0; i < BATCH; i += 2) wish[i].choice = (struct choice){0};
    for (int v = 0; v < VARIANTS; v++) {
        if (!w.backend[v]) continue;
        const int32_t *got = run(w.backend[v], wish, BATCH, NULL);
        for (int i = 0; i < BATCH; i++) assert_int_equal(got[i], i % 2 ? expected[i] : -1);
    }
    world_deinit(&w);
}

// Logits come home only for rows that want them; a batch without choices wants all.
CASE(logits_are_there_for_rows_that_want_them) {
    static struct wish wish[BATCH];
    struct world w;
    const struct size *size = &sizes[3];
    world_init(&w, size, logits_random(size));
    for (int i = 0; i < BATCH; i++) {
        wish_fill(&wish[i], size);
        wish[i].choice.wants_logits = i % 3 == 0;
    }
    for (int v = 0; v < VARIANTS; v++) {
        struct backend *backend = w.backend[v];
        if (!backend) continue;
        const float *const *logits;
        run(backend, wish, BATCH, &logits);
        for (int i = 0; i < BATCH; i++) assert_true((logits[i] != NULL) == (i % 3 == 0));
        for (int i = 0; i < BATCH; i += 3)
            assert_memory_equal(logits[i], w.logits + (size_t)wish[i].row * (size_t)size->n_vocab,
                                (size_t)size->n_vocab * sizeof(float));
    }
    world_deinit(&w);
}

TEST_PROGRAM(same_choices) { return cases_run(NULL, NULL); }
