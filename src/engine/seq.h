// A sequence: one request from submit to its last event.
//
//   submit          schedule admits           publish, or schedule if cancelled
//   -------> WAITING ---------------> RUNNING -----------------------------------> DONE --> freed
//   before the next step
//              |                                                                    ^
//              +---------------- schedule, if cancelled --------------------+
#ifndef RN_ENGINE_SEQ_H
#define RN_ENGINE_SEQ_H

#include "engine/kv.h"
#include "engine/output.h"
#include "engine/sampler.h"
#include "runnel.h"

enum seq_state { SEQ_WAITING, SEQ_RUNNING, SEQ_DONE };

struct seq {
    struct seq *next; // in the waiting queue or the list of the done
    uint64_t id;
    enum seq_state state;
    int32_t *token; // [limit] prompt and output
    int n_prompt;
    int n_token; // known tokens
    int n_done;  // positions whose KV is in the pages; n_token - n_done are to be evaluated
    int limit;   // most tokens: the prompt and what may be added
    bool ignore_eos;
    bool cancelled;            // ends with the next step
    rn_sampling sampling;      // with its seed drawn; owns its biases
    struct token_set breakers; // of DRY; owned
    rn_logits_fn on_logits;
    void *on_logits_ctx;
    struct kv_table table;
    struct output output;
    uint64_t submit_ns, start_ns, first_ns,
        last_ns; // submitted, first scheduled, first and last token
    rn_timings timings;
};

// Copies what the request points to; n_ctx bounds prompt and output together.
rn_status seq_create(const rn_request *request, const struct tokenizer *tokenizer, int n_ctx,
                     int n_group, size_t token_bytes_max, struct seq **out, rn_error *err);
void seq_destroy(struct seq *seq);

#endif
