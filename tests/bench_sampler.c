// The cost of a choice, as a table: microseconds per choice, the median of several rounds, for each
// instruction set of this machine. The logits are those of a confident model (a few tokens far
// above the rest) and of an unsure one ("flat"). Rows of logits take turns, so that a choice finds
// its row where a step leaves it, in the caches that cores share. A choice is its description by
// the engine and its execution by the CPU backend. Run by hand on a quiet machine: bench_sampler
// [VOCABULARY [TOKENS OF HISTORY]]
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cpu/choose.h"
#include "backend/cpu/choose_passes.h"
#include "base/clock.h"
#include "engine/choice/choice.h"

enum { N_ROWS = 8, N_ROUNDS = 15, N_CHOICES = 32 };

static const struct setting {
    const char *name;
    rn_sampling sampling;
    bool flat;
} settings[] = {
    {"greedy", {.temperature = 0}, false},
    {"usual: top-k 40, top-p, min-p",
     {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f},
     false},
    {"usual, flat", {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f}, true},
    {"top-k 1000", {.temperature = 0.8f, .top_k = 1000, .top_p = 1}, false},
    {"top-p 0.95", {.temperature = 0.8f, .top_p = 0.95f}, false},
    {"top-p 0.95, flat", {.temperature = 0.8f, .top_p = 0.95f}, true},
    {"min-p 0.05", {.temperature = 0.8f, .top_p = 1, .min_p = 0.05f}, false},
    {"top-n-sigma 1", {.temperature = 0.8f, .top_p = 1, .top_n_sigma = 1}, false},
    {"typical 0.9", {.temperature = 0.8f, .top_p = 1, .typical_p = 0.9f}, false},
    {"typical 0.9, flat", {.temperature = 0.8f, .top_p = 1, .typical_p = 0.9f}, true},
    {"XTC", {.temperature = 1, .top_p = 1, .xtc_probability = 1, .xtc_threshold = 0.1f}, false},
    {"unfiltered", {.temperature = 1, .top_p = 1}, false},
    {"unfiltered, temperature 0.8", {.temperature = 0.8f, .top_p = 1}, false},
    {"unfiltered, flat", {.temperature = 1, .top_p = 1}, true},
    {"greedy, penalties",
     {.temperature = 0, .repetition_penalty = 1.1f, .repeat_last_n = -1},
     false},
    {"usual, penalties",
     {.temperature = 0.8f,
      .top_k = 40,
      .top_p = 0.95f,
      .repetition_penalty = 1.1f,
      .repeat_last_n = -1,
      .presence_penalty = 0.5f},
     false},
    {"usual, DRY",
     {.temperature = 0.8f,
      .top_k = 40,
      .top_p = 0.95f,
      .dry_multiplier = 0.8f,
      .dry_base = 1.75f,
      .dry_allowed_length = 2,
      .dry_penalty_last_n = -1},
     false},
    {"usual, a token banned",
     {.temperature = 0.8f,
      .top_k = 40,
      .top_p = 0.95f,
      .logit_bias = &(const rn_logit_bias){7, -100},
      .n_logit_bias = 1},
     false},
};

static double uniform(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) * 0x1p-53;
}

static void fill(float *logits, int n_vocab, bool flat, uint64_t *state) {
    for (int i = 0; i < n_vocab; i++) {
        double sum = -3;
        for (int k = 0; k < 6; k++) sum += uniform(state);
        logits[i] = (float)(3 * sum);
    }
    for (int i = 0; !flat && i < 50; i++)
        logits[(int)(uniform(state) * n_vocab)] = (float)(18 - 0.2 * i - uniform(state));
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct scene {
    int n_vocab;
    float *row[2][N_ROWS]; // [flat]
    int32_t *token;        // [n_token]
    int n_token;
    struct choices choices;
    struct choice_scratch scratch;
};

static double choice_us(struct chooser *chooser, struct scene *scene,
                        const struct setting *setting) {
    double round[N_ROUNDS];
    struct choices *choices = &scene->choices;
    struct choice choice;
    choices->sampling = setting->sampling;
    if (choices_init(choices, scene->n_vocab, scene->n_token, 1, NULL)) return 0;
    for (int i = 0; i < N_ROUNDS; i++) {
        const uint64_t start = clock_ns();
        for (int k = 0; k < N_CHOICES; k++) {
            choices->index = k;
            choice_describe(&scene->scratch, choices, scene->n_token, 0, &choice);
            chooser_choose(chooser, &choice, scene->row[setting->flat][k % N_ROWS]);
        }
        round[i] = (double)(clock_ns() - start) / N_CHOICES / 1e3;
    }
    choices_deinit(choices);
    qsort(round, N_ROUNDS, sizeof *round, compare);
    return round[N_ROUNDS / 2];
}

static bool scene_init(struct scene *scene, int n_vocab, int n_history) {
    uint64_t state = 88172645463325252u;
    scene->n_vocab = n_vocab;
    for (int i = 0; i < 2 * N_ROWS; i++) {
        float *row = malloc((size_t)n_vocab * sizeof *row);
        if (!row) return false;
        fill(row, n_vocab, i >= N_ROWS, &state);
        scene->row[i / N_ROWS][i % N_ROWS] = row;
    }
    int32_t *token = malloc(((size_t)n_history + 1) * sizeof *token);
    if (!token) return false;
    for (int i = 0; i < n_history; i++)
        token[i] = (int32_t)(pow(uniform(&state), 4) * n_vocab); // few are many, as in a text
    scene->token = token;
    scene->n_token = n_history;
    scene->choices = (struct choices){.token = token, .n_prompt = n_history / 2};
    return choice_scratch_init(&scene->scratch, n_vocab, NULL) == RN_OK;
}

int main(int argc, char **argv) {
    const int n_vocab = argc > 1 ? atoi(argv[1]) : 128256;
    const int n_history = argc > 2 ? atoi(argv[2]) : 8192;
    static struct scene scene;
    struct chooser chooser;
    if (n_vocab < 1 || n_history < 0 || !scene_init(&scene, n_vocab, n_history)) return 1;
    if (chooser_init(&chooser, n_vocab, &choose_passes_base, NULL)) return 1;
    printf("%d tokens of vocabulary, %d of history\nus per choice                ", n_vocab,
           n_history);
    for (int k = 0; choose_passes_all[k]; k++) printf("  %8s", choose_passes_all[k]->name);
    printf("\n");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        printf("%-29s", settings[i].name);
        for (int k = 0; choose_passes_all[k]; k++) {
            if (!choose_passes_all[k]->is_here()) {
                printf("  %8s", "-");
                continue;
            }
            chooser.passes = choose_passes_all[k];
            printf("  %8.1f", choice_us(&chooser, &scene, &settings[i]));
        }
        printf("\n");
    }
    chooser_deinit(&chooser);
    choice_scratch_deinit(&scene.scratch);
    for (int i = 0; i < 2 * N_ROWS; i++) free(scene.row[i / N_ROWS][i % N_ROWS]);
    free(scene.token);
    return 0;
}
