// A sequence: one choice of a request, from submit to its last event.
//
//   submit          schedule admits         publish, or schedule: cancelled, late
//   -------> WAITING ---------------> RUNNING ---------------------> DONE --> buried, then freed
//              ^  |                     |                             ^
//              |  +-------------------- | - schedule: cancelled, late +
//              +---- schedule preempts -+  (its pages go; its tokens stay)
#ifndef RN_ENGINE_SEQ_H
#define RN_ENGINE_SEQ_H

#include <stdatomic.h>

#include "engine/kv.h"
#include "engine/output.h"
#include "engine/sampler.h"
#include "runnel.h"

enum seq_state { SEQ_WAITING, SEQ_RUNNING, SEQ_DONE };

// What the choices of one request share; freed with the last of them.
struct seq_family {
    int n_live;         // choices that have not ended; the step's
    int n_alive;        // choices that were not freed; under the intake's lock
    struct seq *leader; // choice 0 while it is not done: others fork its prompt; the step's
};

struct seq {
    struct seq *next;        // in the inbox, the list of the done, the grave
    struct seq *same_bucket; // in the intake's table
    struct seq_family *family;
    uint64_t id;
    int choice;
    void *data;
    enum seq_state state;
    int32_t *token; // [limit] prompt and output
    int n_prompt;
    int n_token; // known tokens
    int n_done;  // positions whose KV is in the pages; n_token - n_done are to be evaluated
    int limit;   // most tokens: the prompt and what may be added
    bool ignore_eos;
    int priority;
    uint64_t user;                // hash of the user's name; 0: none
    int user_at;                  // in the engine's users, from the inbox to its end
    int waiting_at;               // in the engine's waiting ones, while it waits
    uint64_t deadline_ns;         // UINT64_MAX: none
    _Atomic bool cancelled;       // set by other threads: ends with the next step
    _Atomic bool paused;          // set by other threads
    bool is_paused;               // as the step saw it last
    char salt[RN_MAX_SALT_BYTES]; // of the prefix cache
    size_t n_salt;
    rn_sampling sampling;      // with its seed drawn; owns its biases
    struct token_set breakers; // of DRY; owned
    rn_logits_fn on_logits;
    void *on_logits_ctx;
    rn_pooling pooling;
    bool normalize;
    float *embedding; // [n_embd] the sum so far, then the result; NULL without pooling
    struct kv_table table;
    struct output output;
    int n_heard;       // positions whose logits on_logits was given
    bool was_admitted; // at least once
    uint64_t submit_ns, start_ns, first_ns,
        last_ns; // submitted, first scheduled, first and last token
    rn_timings timings;
};

// What requests are checked against; constant after the engine's creation.
struct seq_limits {
    const struct tokenizer *tokenizer;
    int n_ctx, n_group, n_embd;
    size_t token_bytes_max;
    uint64_t (*now)(void *ctx); // the engine's clock
    void *now_ctx;
};

// One choice of the request. Copies what the request points to; n_ctx bounds prompt and output
// together. family stays NULL.
rn_status seq_create(const rn_request *request, int choice, uint64_t seed,
                     const struct seq_limits *limits, struct seq **out, rn_error *err);
// The request's seed: the one it has, or one that is drawn.
uint64_t seq_seed(const rn_request *request);
void seq_destroy(struct seq *seq); // its table holds nothing; not its family

#endif
