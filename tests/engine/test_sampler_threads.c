// Choices on several threads at once, each with scratch of its own, over the same logits, history
// and parameters. They are the choices of a single thread.
// label: threads
#include <pthread.h>

#include "check.h"
#include "sampler_chain.h"

enum { VOCAB = 2000, HISTORY = 200, N_THREADS = 4, N_CHOICES = 60 };

// The input of all threads.
struct shared {
    float logits[VOCAB];
    int32_t token[HISTORY];
    rn_sampling sampling[4];
};

struct worker {
    const struct shared *shared;
    pthread_t thread;
    int32_t chosen[N_CHOICES];
};

static void shared_init(struct shared *shared) {
    static const rn_logit_bias ban = {7, -100};
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < VOCAB; i++) {
        state = noise_mix(state + NOISE_GOLDEN);
        shared->logits[i] = (float)(state >> 40) * 0x1p-21f; // 0..8
    }
    for (int i = 0; i < HISTORY; i++) shared->token[i] = i * i % 40;
    for (int i = 0; i < 4; i++) shared->sampling[i] = rn_sampling_neutral();
    shared->sampling[1].top_p = 0.9f;
    shared->sampling[1].repetition_penalty = 1.2f;
    shared->sampling[2].top_k = 40;
    shared->sampling[2].dry_multiplier = 1;
    shared->sampling[3].logit_bias = &ban;
    shared->sampling[3].n_logit_bias = 1;
}

static void *work(void *ctx) {
    struct worker *worker = ctx;
    const struct shared *shared = worker->shared;
    struct sampler sampler;
    sampler_open(&sampler, VOCAB);
    for (int i = 0; i < N_CHOICES; i++) {
        const struct sampler_view view = {.token = shared->token,
                                          .n_prompt = HISTORY / 2,
                                          .n_token = HISTORY,
                                          .choice = (uint32_t)i};
        worker->chosen[i] =
            sampler_choose(&sampler, &shared->sampling[i % 4], &view, shared->logits);
    }
    sampler_close(&sampler);
    return NULL;
}

CASE(choices_on_several_threads_are_those_of_one) {
    static struct shared shared;
    static struct worker alone, worker[N_THREADS];
    shared_init(&shared);
    alone.shared = &shared;
    work(&alone);
    for (int i = 0; i < N_THREADS; i++) {
        worker[i].shared = &shared;
        assert_int_equal(pthread_create(&worker[i].thread, NULL, work, &worker[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) pthread_join(worker[i].thread, NULL);
    for (int i = 0; i < N_THREADS; i++)
        assert_memory_equal(worker[i].chosen, alone.chosen, sizeof alone.chosen);
    assert_memory_not_equal(alone.chosen, (int32_t[N_CHOICES]){0}, sizeof alone.chosen);
}

TEST_PROGRAM(sampler_threads) { return cases_run(NULL, NULL); }
