// A simulation of the engine's scheduling with predicted times of steps: places, the budget of a
// step, prompts in chunks, continuous batching, prefixes that are computed once. It is what
// src/engine/step/schedule.c does without users, priorities, preemption and bounds on gaps. Times
// are in ms of the simulated clock; nothing here reads a real one.
#ifndef RN_APP_PLAN_QUEUE_H
#define RN_APP_PLAN_QUEUE_H

#include "tools.h"

enum { QUEUE_BLOCK = 512 }; // tokens of the prompt for each id of a block

struct queue_request {
    double arrive_ms;
    int n_prompt, n_output; // at least 1
    const int64_t *block;   // [n_block] equal ids in equal places of equal starts: equal tokens
    int n_block;
    uint64_t kv_bytes;       // pages of its prompt and output
    double first_ms, end_ms; // out: of the first token and of the last
    int n_cached;            // out: tokens of the prompt that were not computed
};

struct queue_config {
    const struct plan *plan;
    const struct kv_bytes *kv;
    const struct predict_machine *machine;
    int max_seqs, batch_tokens;
    uint64_t kv_bytes; // of all running requests; 0: no limit
    double token_ms;   // of the host, for each token that is chosen
};

struct queue_totals {
    double end_ms, busy_ms;     // the end of the last step; the time of all steps
    uint64_t n_steps, n_tokens; // tokens written
    int most_running;
};

// Requests are in the order of their arrivals. False: out of memory.
bool queue_run(const struct queue_config *config, struct queue_request *requests, int n,
               struct queue_totals *out);

#endif
