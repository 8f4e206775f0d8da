// Bounds on time that requests bring: the first token within so many ms of the submit, then a token
// every so many ms on average. When such a request arrives, its times are predicted: the schedule
// is played forward with the prices of steps. A request whose bound cannot be kept is refused at
// once, with the numbers. An admitted one is a promise, which the schedule keeps:
//
//  1. while a promised stream runs, a step takes at most its time per token: prompts are cut;
//  2. no sequence is admitted that would make steps of all streams longer than a promise allows;
//  3. prompts behind a promised one take no more of a step than its first token has time for.
//
// Requests without bounds are never refused here, and nothing changes while no promise is held.
// Not foreseen: later requests of higher priority or of less served users, and a machine that
// becomes slower.
#ifndef RN_ENGINE_STEP_PROMISE_H
#define RN_ENGINE_STEP_PROMISE_H

#include "engine/step/engine.h"

struct forecast {
    double first_ns; // from the submit to the first token; more where it stopped early
    double token_ns; // between its later tokens, the mean; more where it stopped early
    int n_before;    // sequences that run or wait before it
    int n_streams;   // in its steps, itself included
    int n_prompt;    // tokens of its prompt that are to be evaluated
};

rn_status engine_promises_init(struct engine *engine, rn_error *err);
void engine_promises_deinit(struct engine *engine);
// A sequence has arrived; has ended.
void engine_bound_enter(struct engine *engine, const struct seq *seq);
void engine_bound_leave(struct engine *engine, const struct seq *seq, rn_finish finish);
// Sequences with a bound that have just arrived: they are refused, or stay. Where there are many,
// some are looked at in the next steps.
void engine_check_bounds(struct engine *engine, uint64_t now);
// The prediction. It ends early when the first token is later than first_ns, or the others come
// more slowly than every token_ns.
void engine_forecast(const struct engine *engine, struct seq *seq, uint64_t now, double first_ns,
                     double token_ns, struct forecast *out);

// Rule 1: the longest step that running streams allow; UINT64_MAX: any.
uint64_t engine_step_bound(const struct engine *engine);
// Rule 2: whether the promises allow another stream.
bool engine_keeps_promises(const struct engine *engine, const struct seq *seq);
// Rule 3: the time that the prompt's first token has from now on; UINT64_MAX: any.
uint64_t engine_prompt_bound(const struct engine *engine, const struct seq *seq);

#endif
