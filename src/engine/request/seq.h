// A sequence: one choice of a request, from submit to its last event.
//
//   submit          schedule admits         publish, or schedule: cancelled, late
//   -------> WAITING ---------------> RUNNING ---------------------> DONE --> buried, then freed
//                                                     (with steps in flight it leaves: it keeps its
//                                                      pages until they have landed)
//              ^  |                     |                             ^
//              |  +-------------------- | - schedule: cancelled, late +
//              +---- schedule preempts -+  (its pages go; its tokens stay)
#ifndef RN_ENGINE_REQUEST_SEQ_H
#define RN_ENGINE_REQUEST_SEQ_H

#include <stdatomic.h>

#include "engine/account/account.h"
#include "engine/choice/choice.h"
#include "engine/choice/sampling.h"
#include "engine/pages/kv.h"
#include "engine/request/output.h"
#include "runnel.h"

enum seq_state { SEQ_WAITING, SEQ_RUNNING, SEQ_DONE };

// The common part of a request's choices; freed with the last of them.
struct seq_family {
    int n_live;               // choices that have not ended; the step's
    int n_alive;              // choices that were not freed; under the intake's lock
    struct seq *leader;       // choice 0 while it is not done: others fork its prompt; the step's
    struct rules *rules;      // of all choices, owned; NULL: none
    struct text_shape *shape; // the same
    // for the accounts of the others, which wait for the prompt; the step's
    uint64_t start_ns, done_ns;          // choice 0 was admitted; had its prompt; 0: not yet
    rn_share waited;                     // of choice 0, up to start_ns
    uint64_t blocked_ns[ACCOUNT_BLOCKS]; // the block clocks at done_ns
};

// The draft room's data of a sequence (engine/draft/drafter.h): opaque here.
struct seq_draft;

// Its bounds on time (step/promise.h).
struct seq_bound {
    uint64_t first_ns, token_ns; // UINT64_MAX: none
    bool is_checked;
    char reason[256]; // why it was refused
};

// Members that every step reads and writes come first.
struct seq {
    int32_t *token; // [limit] prompt and output, then, while a step verifies it, a draft
    int n_prompt;
    int n_token;   // known tokens
    int n_done;    // positions whose KV is in the pages; n_token - n_done are to be evaluated
    int limit;     // most tokens: the prompt and the output
    int n_ahead;   // tokens behind n_token that steps in flight choose, and later rows may refer to
    int ahead_row; // the logit row of the last step that chooses the last of them
    int n_told;    // tokens of the prompt that were told as done; INT_MAX if nobody asks
    int n_steps;   // in flight that have rows of it
    int n_again;   // known tokens before the last to evaluate again: a recurrent state went too far
    int draft_max; // most tokens of a draft; 0: nothing is drafted for it
    struct seq_draft *draft; // NULL: nothing is drafted for it
    enum seq_state state;
    uint64_t id;
    void *data;
    struct seq_family *family;
    int user_at;    // in the engine's users, from the inbox to its end
    int waiting_at; // in the engine's waiting ones, while it waits
    int priority;
    rn_pooling pooling;
    bool ignore_eos;
    bool is_paused;    // as the step saw it last
    bool was_admitted; // at least once
    bool is_starved;   // the last schedule found no page for its prompt
    int mask_at;       // the number of tokens behind which its shape's mask is made
    bool is_shaped;    // the shape had followed its tokens when the last step was prepared
    bool is_ordered;   // the mask is left to the maker (step/prepare.c)
    bool lacks_mask;   // it has no row in the last schedule, since its mask is not made
    bool leaves_state; // done: no step of it failed, so its last state may be found by others
    int n_lost;        // positions that preemptions took, which are evaluated again
    // pages that the store brings, while its table expects them (step/fetch.c); NULL: none
    struct page_fetch *fetch;
    int fetch_positions;  // that it will have then
    uint64_t fetch_after; // steps that must have landed before the store may write
    int n_fetches;        // tried since it was admitted
    rn_logits_fn on_logits;
    rn_logprob *logprob; // [1 + top_logprobs] of each token of its last step; NULL: not asked for
    // of the prompt, for choice 0: [n_prompt - 1][1 + top_prompt_logprobs] of the token behind each
    // position, its own first; NULL: not asked for
    rn_logprob *prompt_logprob;
    bool special_text; // special tokens have text
    uint64_t line_ns;  // a line that ends this long after the first token ends the text
    struct kv_table table;
    struct output output;
    rn_timings timings;
    struct choices choices; // its sampling and breakers are owned
    struct account account; // of its time, with the times of its submit, start and tokens

    // --- at its start and end, or for some requests alone ---
    struct seq *next;        // in the inbox, the list of the done, the grave
    struct seq *same_bucket; // in the intake's table
    uint64_t user;           // hash of the user's name; 0: none
    uint64_t deadline_ns;    // UINT64_MAX: none
    struct seq_bound *bound; // NULL: none
    double cache_share;      // of the prompt, that has to be cached
    _Atomic bool cancelled;  // set by other threads: ends with the next step
    _Atomic bool paused;     // set by other threads
    bool normalize;
    char salt[RN_MAX_SALT_BYTES]; // of the prefix cache
    size_t n_salt;
    int top_logprobs;
    int32_t *prompt_rank; // [n_prompt - 1]
    int top_prompt_logprobs;
    int n_scored;   // positions whose logits are in them
    bool is_scored; // their event was given
    void *on_logits_ctx;
    int n_heard;      // positions whose logits on_logits was given
    float *embedding; // [n_embd] the sum so far, then the result; NULL without pooling
};

// The first position that no step was given.
static inline int seq_next(const struct seq *seq) { return seq->n_done + seq->table.n_flight; }
// Tokens that are known, or are being chosen.
static inline int seq_known(const struct seq *seq) { return seq->n_token + seq->n_ahead; }

// Whether the text ends with that token.
static inline bool seq_ends_with(const struct seq *seq, const struct tokenizer *tokenizer,
                                 int32_t token) {
    return (!seq->ignore_eos && tokenizer_is_end(tokenizer, token)) ||
           rules_stops(seq->choices.rules, token);
}
// Whether positions of the prompt are still to be scored.
static inline bool seq_is_unscored(const struct seq *seq) {
    return seq->prompt_logprob && seq->n_scored < seq->n_prompt - 1;
}

// How the draft room makes and frees its data of a sequence. Any thread calls them.
struct seq_draft_class {
    // limit: most tokens of the sequence
    rn_status (*create)(void *ctx, int limit, struct seq_draft **out, rn_error *err);
    void (*destroy)(struct seq_draft *draft);
};

// The limits that requests are checked against; constant after the engine's creation.
struct seq_limits {
    const struct tokenizer *tokenizer;
    int n_ctx, n_group, n_embd;
    size_t token_bytes_max;
    int draft_max;                       // of the engine; 0: it drafts nothing
    const struct seq_draft_class *draft; // NULL where it drafts nothing
    void *draft_ctx;
    uint64_t (*now)(void *ctx); // the engine's clock
    void *now_ctx;
};

// One choice of the request. Copies everything that the request points to; n_ctx bounds prompt and
// output together. family: the request's, with its rules and its shape.
rn_status seq_create(const rn_request *request, int choice, uint64_t seed,
                     struct seq_family *family, const struct seq_limits *limits, struct seq **out,
                     rn_error *err);
// The request's seed: its own, or a random one.
uint64_t seq_seed(const rn_request *request);
// Its table holds nothing. Its family stays. limits: those it was created with.
void seq_destroy(struct seq *seq, const struct seq_limits *limits);

#endif
