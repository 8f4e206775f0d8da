// The arithmetic of a plan: users and their lengths against a model and a machine. Nothing here
// measures or prints.
#ifndef RN_APP_PLAN_SIZING_H
#define RN_APP_PLAN_SIZING_H

#include "plan/machine.h"

// The users, all alike.
struct workload {
    int n_ctx;           // positions that are kept for each
    int n_prompt, n_gen; // together at most n_ctx
    int n_shared;        // tokens at the start of the prompts that are the same for all
    int users;
    int n_draft;              // tokens of a draft; 0: none
    const rn_model *draft;    // drafts; NULL if drafting itself is not counted
    double acceptance;        // of a drafted token
    int batch_tokens;         // most tokens of a step,
    bool has_batch_tokens;    // as the user says; otherwise the machine's own
    struct tools_place place; // whose pages hold the KV
    const char *kv_type;
};

// That many users decode together, in the middle of their output.
struct sizing_row {
    int users;
    bool fits; // into memory, or that is unknown
    struct prediction step;
    double draft_ms;    // that the draft model takes in a step
    double draft_gain;  // the speed over that without drafts; 1 without
    double step_tokens; // of each user: 1, or more with drafts
    double token_ms;    // between tokens of a user
    double user_ts, total_ts;
    double intensity; // operations for each byte of weights and KV
    double ttft_ms;   // of a prompt that arrives while the others decode
};

// Parameters that a token is multiplied with: without tables of which it reads a row, without the
// experts that it does not choose, and without the model's own draft block.
uint64_t sizing_active_params(const rn_model *model);
// The same workload on that machine: its place, and its tokens of a step.
struct workload workload_on(const struct workload *workload, const struct machine *machine);
// Tokens of a step that verifies n_draft drafted ones.
double workload_step_tokens(const struct workload *workload);
// All of a row but its TTFT, which takes longer to predict than the rest.
void sizing_step(const struct plan *plan, const struct tools_memory *memory,
                 const struct machine *machine, const struct workload *workload, int users,
                 struct sizing_row *out);
double sizing_ttft_ms(const struct plan *plan, const struct tools_memory *memory,
                      const struct machine *machine, const struct workload *workload, int users);
// The first step of a prompt that comes alone.
void sizing_prompt_step(const struct plan *plan, const struct tools_memory *memory,
                        const struct machine *machine, const struct workload *workload,
                        struct prediction *out);
void sizing_row(const struct plan *plan, const struct tools_memory *memory,
                const struct machine *machine, const struct workload *workload, int users,
                struct sizing_row *out);
rn_status sizing_memory(const rn_model *model, const struct workload *workload, uint64_t memory,
                        struct tools_memory *out, rn_error *err);

#endif
