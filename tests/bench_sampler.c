// What a choice costs, as a table: microseconds per choice, the median of several rounds, for each
// instruction set that this machine has. The logits are those of a model that knows what comes
// next (a few tokens far above the rest), and of one that does not ("flat"). Rows of logits take
// turns, so that a choice finds its row where a step leaves it, in the caches that cores share.
// Run by hand on a quiet machine: bench_sampler [VOCABULARY [TOKENS OF HISTORY]]
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/sampler.h"
#include "engine/sampler_passes.h"

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
    struct sampler_view view;
};

static double choice_us(struct sampler *sampler, const struct scene *scene,
                        const struct setting *setting) {
    double round[N_ROUNDS];
    struct sampler_view view = scene->view;
    for (int i = 0; i < N_ROUNDS; i++) {
        const uint64_t start = clock_ns();
        for (int k = 0; k < N_CHOICES; k++) {
            view.choice = (uint32_t)k;
            sampler_choose(sampler, &setting->sampling, &view,
                           scene->row[setting->flat][k % N_ROWS]);
        }
        round[i] = (double)(clock_ns() - start) / N_CHOICES / 1e3;
    }
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
    scene->view =
        (struct sampler_view){.token = token, .n_prompt = n_history / 2, .n_token = n_history};
    return true;
}

int main(int argc, char **argv) {
    const int n_vocab = argc > 1 ? atoi(argv[1]) : 128256;
    const int n_history = argc > 2 ? atoi(argv[2]) : 8192;
    struct scene scene;
    struct sampler sampler;
    if (n_vocab < 1 || n_history < 0 || !scene_init(&scene, n_vocab, n_history)) return 1;
    if (sampler_init(&sampler, n_vocab, NULL)) return 1;
    printf("%d tokens of vocabulary, %d of history\nus per choice                ", n_vocab,
           n_history);
    for (int k = 0; sampler_passes_all[k]; k++) printf("  %8s", sampler_passes_all[k]->name);
    printf("\n");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        printf("%-29s", settings[i].name);
        for (int k = 0; sampler_passes_all[k]; k++) {
            if (!sampler_passes_all[k]->is_here()) {
                printf("  %8s", "-");
                continue;
            }
            sampler.passes = sampler_passes_all[k];
            printf("  %8.1f", choice_us(&sampler, &scene, &settings[i]));
        }
        printf("\n");
    }
    sampler_deinit(&sampler);
    for (int i = 0; i < 2 * N_ROWS; i++) free(scene.row[i / N_ROWS][i % N_ROWS]);
    free((int32_t *)scene.view.token);
    return 0;
}
