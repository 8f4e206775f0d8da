// The engine: requests in, events out, one step at a time. A step is five calls: schedule,
// build_batch, run, sample, publish. One thread owns it. After create, a step allocates nothing,
// takes no lock and reads no environment.
//
// Invariants between steps:
//  1. a slot is empty or holds a RUNNING sequence whose pages were promised;
//  2. a RUNNING sequence has n_done < n_token <= limit: there is something to evaluate;
//  3. what a sequence produces depends on the sequence alone: never on its slot, its neighbours or
//  the chunk sizes.
#ifndef RN_ENGINE_ENGINE_H
#define RN_ENGINE_ENGINE_H

#include "engine/seq.h"
#include "model/model.h"
#include "plan/cost_rates.h"
#include "text/tokenizer.h"

enum { ENGINE_MAX_WAITING = 1024 };

// What one sequence does in the step at hand.
struct work {
    struct seq *seq;
    int slot;
    int n_tokens;   // evaluated this step
    int n_logits;   // of them, rows that need logits: the last ones
    bool samples;   // a token is chosen after its last row
    int32_t chosen; // the token; -1: no finite logit
};

struct engine {
    const struct plan *plan;
    const struct tokenizer *tokenizer;
    struct backend *backend;
    struct kv kv;
    struct sampler sampler;
    enum kv_type kv_type;
    int n_ctx, max_seqs, batch_tokens, logit_rows;
    size_t token_bytes_max;
    uint64_t next_id;

    struct seq **slot; // [max_seqs] running
    struct seq *waiting_first, **waiting_end;
    int n_waiting;
    struct seq *done; // finished; their events may still be read

    struct work *work; // [max_seqs] this step
    int n_work;
    struct batch batch; // points to the arrays below
    int32_t *token, *pos, *logit_row;
    struct batch_seq *batch_seq;
    struct cost_rates rates; // of the plan
    struct cost step_cost;   // of the last step

    rn_event *event; // [max_seqs + ENGINE_MAX_WAITING]
    int n_event, next_event;
};

struct engine_config {
    struct backend_config backend; // n_pages is filled by the engine
    int n_ctx;                     // 0: the model's
};

rn_status engine_init(struct engine *engine, const struct model *model,
                      const struct tokenizer *tokenizer, const struct engine_config *config,
                      rn_error *err);
void engine_deinit(struct engine *engine);

rn_status engine_submit(struct engine *engine, const rn_request *request, uint64_t *id,
                        rn_error *err);
void engine_cancel(struct engine *engine, uint64_t id);
rn_status engine_step(struct engine *engine, bool *busy);
bool engine_next_event(struct engine *engine, rn_event *out);

// Page accounting is sound; debug builds look after every step.
bool engine_check(const struct engine *engine);

// --- the parts of a step, one file each ---
bool engine_schedule(struct engine *engine);    // schedule.c: false when there is nothing to do
void engine_build_batch(struct engine *engine); // batch.c
void engine_run(struct engine *engine);         // engine.c
void engine_sample(struct engine *engine);      // engine.c
void engine_publish(struct engine *engine);     // publish.c

// publish.c: ends a sequence of any state: its pages go back, its last event is queued.
void engine_finish(struct engine *engine, struct seq *seq, rn_event *event, rn_finish finish,
                   rn_status status);
rn_event *engine_new_event(struct engine *engine, const struct seq *seq);

#endif
