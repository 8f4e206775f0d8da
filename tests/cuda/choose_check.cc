// Random choices: for the same logits and the same description the kernels choose the token that
// the CPU's chooser chooses. Runs on the emulator and on a real device alike. The first argument is
// the number of batches for each kind of vocabulary, the second one a seed.
//
// Built with CHOOSE_THREADS=64, small vocabularies have many candidates for a block, so that all
// ways through the filters are taken.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "backend/cuda/choose.h"
#include "kernel_check.h"

#define _Static_assert static_assert
extern "C" {
#include "backend/cpu/choose.h"
#include "plan/noise.h"
extern const struct choose_passes choose_passes_base;
}

// ---------------------------------------------------------------- random numbers

static uint64_t random_state = 1181783497276652981u;

static double uniform() {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) * 0x1p-53;
}
static int below(int n) { return (int)(uniform() * n); }

// ---------------------------------------------------------------- logits

// Bells, ties, all alike, heavy tails, extremes, tiny numbers, both zeros; some with holes.
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
    case 4:
        return (float)(1e-43 * spread * uniform());
    case 5:
        return below(3) ? -1.0f : below(2) ? 0.0f : -0.0f;
    default:
        return (float)(spread * (uniform() + uniform() + uniform() + uniform() - 2));
    }
}

static void logits_fill(float *logits, int n) {
    static const float holes[] = {NAN, -INFINITY, NAN, -INFINITY, INFINITY};
    const int kind = below(10);
    const double spread = exp(4 * uniform() - 1);
    const double share = below(3) ? 0 : below(10) ? uniform() * uniform() : 1;
    const int n_kinds = below(20) ? 4 : 5; // an infinity leaves no choice
    for (int i = 0; i < n; i++) {
        logits[i] = logit_of(kind, spread);
        if (uniform() < share) logits[i] = holes[below(n_kinds)];
    }
    for (int i = 0; kind == 8 && i < 5; i++) logits[below(n)] = (float)(2 * spread + 8 * uniform());
}

// Two levels with the same mass, so that the mean is between them: which one is nearer depends on
// the last bits of sums. The last eighth is far below.
static void logits_fill_levels(float *logits, int n) {
    const int ratio = 1 + below(4), n_near = n - n / 8;
    const float top = (float)(8 * uniform() - 4);
    const float step = (float)(log((double)ratio) * (1 + 3e-7 * (2 * uniform() - 1)));
    for (int i = 0; i < n; i++) logits[i] = top - 50;
    for (int i = 0; i + ratio < n_near; i += ratio + 1) {
        const int at = below(ratio + 1);
        for (int j = 0; j <= ratio; j++) logits[i + j] = j == at ? top : top - step;
    }
}

// ---------------------------------------------------------------- descriptions

enum { MAX_EDITS = 48 };

// One choice and all that it points to.
struct wish {
    struct choice choice;
    struct choice_numbers numbers;
    struct choice_edit edit[MAX_EDITS];
    std::vector<uint64_t> allowed;
};

enum mood { MOOD_ANY, MOOD_GREEDY, MOOD_ALONE, MOOD_PLAIN, MOOD_LEVELS, MOODS };

static void numbers_neutral(struct choice_numbers *numbers) {
#define SAMPLING_NUMBER(kind, id, field, neutral, ...) numbers->field = neutral;
#include "plan/sampling.def"
}

// One filter alone.
static void numbers_alone(struct choice_numbers *numbers, int n_vocab) {
    numbers_neutral(numbers);
    numbers->temperature = (float)exp(4 * uniform() - 2);
    switch (below(7)) {
    case 0:
        numbers->top_n_sigma = (float)(4 * uniform());
        break;
    case 1:
        numbers->top_k = 1 + below(below(2) ? 60 : n_vocab);
        break;
    case 2:
        numbers->typical_p = (float)uniform();
        break;
    case 3:
        numbers->top_p =
            below(5) ? (float)below(16) / 16 + (below(2) ? (float)uniform() / 16 : 0) : 0.9999f;
        break;
    case 4:
        numbers->min_p = (float)(uniform() * uniform() * uniform());
        break;
    case 5:
        numbers->xtc_probability = 1;
        numbers->xtc_threshold = (float)(0.2 * uniform() * uniform());
        break;
    default: // the usual
        numbers->top_k = below(3) ? 40 : below(2) ? 0 : n_vocab - 1;
        numbers->top_p = 0.95f;
        numbers->min_p = 0.05f;
    }
}

// Each number of the table is at its neutral value, in a range where it matters, or at an edge.
static void numbers_any(struct choice_numbers *numbers) {
    const double chance = uniform() * uniform();
#define DRAW_FLOAT(low, high) (float)((low) + ((high) - (low)) * uniform())
#define DRAW_INT(low, high)   (int)((low) + ((high) - (low)) * uniform())
#define SAMPLING_NUMBER(kind, id, field, neutral, min, max, ...)                                   \
    numbers->field = neutral;                                                                      \
    if (uniform() < chance)                                                                        \
        numbers->field = DRAW_##kind((double)(min), (double)(max) < 4 ? (double)(max) : 4);        \
    if (uniform() < chance / 16) numbers->field = below(2) ? (min) : (max);
#include "plan/sampling.def"
    if (below(5) == 0) numbers->temperature = 0;
    if (below(5) == 0) numbers->temperature = (float)(0.2 + 1.5 * uniform());
    if (below(30) == 0) numbers->temperature = below(2) ? 1e-45f : 1e-30f;
    if (numbers->top_k > 0 && below(2)) numbers->top_k = 1 + below(60);
    if (numbers->min_p > 0 && below(2)) numbers->min_p *= numbers->min_p * numbers->min_p;
    if (numbers->xtc_threshold > 0) numbers->xtc_threshold *= 0.3f;
}

// Now and then there are several rows of one id. They need not be adjacent.
static int edits_fill(struct choice_edit *edit, int n_vocab) {
    const int n = below(3) ? 0 : below(MAX_EDITS + 1);
    int32_t id = below(n_vocab);
    for (int i = 0; i < n; i++) {
        if (i > 0 && below(4)) id = below(n_vocab);
        edit[i] = choice_edit{id, 0, 0, -1, below(2) != 0};
        if (below(3) == 0) edit[i].bias = (float)(20 * uniform() - 10);
        if (below(12) == 0) edit[i].bias = below(2) ? -100.0f : 100.0f;
        if (below(3) == 0) edit[i].n_output = 1 + below(below(9) ? 5 : 100000);
        if (below(3) == 0) edit[i].dry = (int16_t)below(below(9) ? 6 : 1025);
    }
    return n;
}

static void allowed_fill(std::vector<uint64_t> &allowed, int n_vocab) {
    const double share = uniform();
    const bool none = below(10) == 0;
    allowed.assign(token_set_words(n_vocab), 0);
    for (uint64_t &word : allowed) {
        word = !none && below(3) ? UINT64_MAX : 0; // bits behind the vocabulary mean nothing
        for (int bit = 0; !none && bit < 64 && below(2); bit++)
            if (uniform() < share) word ^= UINT64_C(1) << bit;
    }
}

// Typical, now and then after another filter.
static void numbers_levels(struct choice_numbers *numbers, int n_vocab) {
    numbers_neutral(numbers);
    numbers->typical_p = (float)(0.05 + 0.4 * uniform());
    if (below(2)) numbers->top_k = n_vocab - n_vocab / 8;
    if (below(3) == 0) numbers->top_n_sigma = (float)(3 * uniform());
    if (below(3) == 0) numbers->top_p = (float)uniform();
}

static void wish_fill(struct wish *wish, int n_vocab, enum mood mood) {
    if (mood == MOOD_ALONE)
        numbers_alone(&wish->numbers, n_vocab);
    else
        numbers_any(&wish->numbers);
    if (mood == MOOD_PLAIN) numbers_neutral(&wish->numbers);
    if (mood == MOOD_LEVELS) numbers_levels(&wish->numbers, n_vocab);
    if (mood == MOOD_GREEDY) wish->numbers.temperature = 0;
    wish->choice = choice{};
    wish->choice.numbers = below(20) ? &wish->numbers : NULL;
    wish->choice.n_vocab = below(4) ? n_vocab : 1 + below(n_vocab);
    wish->choice.key = noise_mix((uint64_t)below(1 << 30));
    if (mood == MOOD_LEVELS) wish->choice.n_vocab = n_vocab;
    if (mood != MOOD_ANY && (mood == MOOD_LEVELS || below(2))) return;
    wish->choice.edit = wish->edit;
    wish->choice.n_edit = edits_fill(wish->edit, n_vocab);
    if (below(4)) return;
    allowed_fill(wish->allowed, n_vocab);
    wish->choice.allowed = wish->allowed.data();
}

// ---------------------------------------------------------------- the device

struct device {
    uint8_t *description, *scratch_memory;
    float *logits;
    int32_t *chosen;
    struct choose_scratch scratch;
    size_t description_cap;
};

static void device_init(struct device *d, int max_rows, int n_vocab, int64_t ld, size_t cap) {
    const uint64_t bytes = choose_scratch_bytes(max_rows, n_vocab);
    d->description_cap = cap;
    CUDA(cudaMalloc((void **)&d->description, cap));
    CUDA(cudaMalloc((void **)&d->scratch_memory, bytes));
    CUDA(cudaMalloc((void **)&d->logits, (size_t)max_rows * (size_t)ld * sizeof(float)));
    CUDA(cudaMalloc((void **)&d->chosen, (size_t)max_rows * sizeof(int32_t)));
    CUDA(cudaMemset(d->scratch_memory, 0, bytes));
    choose_scratch_init(&d->scratch, max_rows, n_vocab, d->scratch_memory);
}

static void device_deinit(struct device *d) {
    CUDA(cudaFree(d->description));
    CUDA(cudaFree(d->scratch_memory));
    CUDA(cudaFree(d->logits));
    CUDA(cudaFree(d->chosen));
}

static void device_choose(struct device *d, const std::vector<struct choice> &choice,
                          const std::vector<float> &logits, int64_t ld, int32_t *out) {
    const int n = (int)choice.size();
    const uint64_t bytes = choose_bytes(choice.data(), n, n);
    struct choose_plan plan;
    CHECK(bytes <= d->description_cap, "%zu bytes", (size_t)bytes);
    std::vector<uint64_t> description(bytes / 8);
    choose_write(choice.data(), n, n, (uint8_t *)description.data(), &plan);
    CHECK(plan.bytes == bytes, "%zu, not %zu bytes", (size_t)plan.bytes, (size_t)bytes);
    CUDA(cudaMemcpy(d->description, description.data(), bytes, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(d->logits, logits.data(), (size_t)n * (size_t)ld * sizeof(float),
                    cudaMemcpyHostToDevice));
    CUDA(cudaMemset(d->chosen, 0x55, (size_t)n * sizeof(int32_t)));
    const int64_t room = d->scratch.room;
    if (below(2)) d->scratch.room = 1 + below((int)room); // in several turns
    CUDA(choose_launch(&plan, d->description, d->logits, ld, n, &d->scratch, d->chosen, NULL, false,
                       NULL));
    d->scratch.room = room;
    CUDA(cudaMemcpy(out, d->chosen, (size_t)n * sizeof(int32_t), cudaMemcpyDeviceToHost));
}

// ---------------------------------------------------------------- the check

struct tally {
    int all, none, greedy;
};

static void batch_check(struct device *d, struct chooser *chooser, int n_vocab, int64_t ld,
                        int n_rows, struct tally *tally) {
    static const char *const mood_name[] = {"any", "greedy", "alone", "plain", "levels"};
    const enum mood mood = (enum mood)below(MOODS);
    std::vector<struct wish> wish((size_t)n_rows);
    std::vector<struct choice> choice((size_t)n_rows);
    std::vector<float> logits((size_t)n_rows * (size_t)ld);
    std::vector<int32_t> got((size_t)n_rows);
    for (int i = 0; i < n_rows; i++) {
        if (mood == MOOD_LEVELS)
            logits_fill_levels(&logits[(size_t)i * (size_t)ld], (int)ld);
        else
            logits_fill(&logits[(size_t)i * (size_t)ld], (int)ld);
        wish_fill(&wish[(size_t)i], n_vocab, mood);
        choice[(size_t)i] = wish[(size_t)i].choice;
    }
    device_choose(d, choice, logits, ld, got.data());
    for (int i = 0; i < n_rows; i++) {
        const struct choice *c = &choice[(size_t)i];
        const int32_t expected =
            c->numbers ? chooser_choose(chooser, c, &logits[(size_t)i * (size_t)ld]) : -1;
        tally->all++;
        tally->none += expected < 0;
        tally->greedy += c->numbers && c->numbers->temperature == 0;
        if (got[(size_t)i] == expected) continue;
        fprintf(stderr, "%s row %d of %d, %d of %d ids: %d, not %d\n", mood_name[mood], i, n_rows,
                c->n_vocab, n_vocab, got[(size_t)i], expected);
        if (c->numbers) {
#define SAMPLING_NUMBER(kind, id, field, ...)                                                      \
    fprintf(stderr, "  %s %.9g\n", #field, (double)c->numbers->field);
#include "plan/sampling.def"
        }
        fprintf(stderr, "  %d edits%s\n", c->n_edit, c->allowed ? ", a mask" : "");
        exit(1);
    }
}

int main(int n_args, char **arg) {
    static const struct {
        int n_vocab, n_rows;
        double share;
    } sizes[] = {{1, 3, 0.2},    {7, 20, 1},     {40, 40, 1},      {64, 9, 1},
                 {150, 70, 1},   {700, 16, 1},   {1200, 5, 0.5},   {2501, 8, 0.6},
                 {5000, 4, 0.6}, {9001, 2, 0.3}, {130001, 1, 0.02}};
    const int n_batches = n_args > 1 ? atoi(arg[1]) : 100;
    struct tally tally = {};
    if (n_args > 2) random_state += strtoull(arg[2], NULL, 10) * NOISE_GOLDEN;
    for (const auto &size : sizes) {
        const int64_t ld = size.n_vocab + below(5);
        const size_t cap = (size_t)size.n_rows *
                           (sizeof(struct choose_row) + MAX_EDITS * sizeof(struct choice_edit) +
                            (size_t)size.n_vocab / 8 + 32);
        struct device device;
        struct chooser chooser;
        CHECK(chooser_init(&chooser, size.n_vocab, &choose_passes_base, NULL) == 0, "no memory");
        device_init(&device, size.n_rows, size.n_vocab, ld, cap);
        for (int i = 0; i < ceil(n_batches * size.share); i++)
            batch_check(&device, &chooser, size.n_vocab, ld, 1 + below(size.n_rows), &tally);
        device_deinit(&device);
        chooser_deinit(&chooser);
    }
    CHECK(tally.none > tally.all / 200 && tally.greedy > tally.all / 10, "%d without a token",
          tally.none);
    printf("%d choices, %d greedy, %d without a token: as the CPU's\n", tally.all, tally.greedy,
           tally.none);
    return 0;
}
