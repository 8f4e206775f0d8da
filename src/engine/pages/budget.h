// How memory is divided: weights, the buffers of a step, and the rest for KV pages. The engine
// chooses its budget here when it is created, and programs ask before (rn_engine_plan_memory), so
// that both say the same. Nothing is allocated or measured: the memory that is free is an argument.
#ifndef RN_ENGINE_PAGES_BUDGET_H
#define RN_ENGINE_PAGES_BUDGET_H

#include "engine/pages/kv.h"
#include "plan/cost.h"

// The sizes of an engine, as in rn_engine_options.
struct budget_sizes {
    int n_ctx, max_seqs, batch_tokens, logit_rows;
};

struct budget_request {
    const struct backend_class *cls; // knows the plan's needs
    const char *device;              // its name, for messages; NULL or "": the host
    const struct plan *plan;
    int n_ctx_max;              // the model's
    const char *kv_type;        // one of the class's
    bool bf16_states;           // as in backend_sizes
    struct budget_sizes wanted; // 0: the default. A context that is given is not shortened
    int step_tokens;            // as in backend_device: tokens of a step where none are wanted
    int draft_rows;             // logit rows beside those of the default
    bool no_block;              // the plan's draft block is not run, and gets no KV memory
    uint64_t kv_bytes;          // for KV pages; 0: kv_pages says
    uint32_t kv_pages;          // of all groups together; 0: the memory that the rest leaves free
    uint64_t total;             // memory of the device; 0: unknown
    uint64_t available;         // free memory; 0: unknown
    uint64_t address_room;      // of a device on the host: memory_address_room(); 0: no limit
    uint64_t stack_bytes;       // addresses that the threads' stacks will take, where there is one
    struct budget_beside {
        const struct plan *plan; // NULL: none
        int n_ctx_max;
        const struct backend_class *cls;
        const char *kv_type;
        bool is_apart;      // on a device of its own, which has
        uint64_t available; // this much free memory; 0: unknown
        const char *device; // and this name, for messages; NULL or "": the host
    } beside; // a draft model, which takes its part of the same memory unless it is apart
};

// Hidden rows of a sequence that are kept for the plan's draft block; one, where it reads the
// model's keys.
enum { BUDGET_HIDDEN_ROWS = 128 };

struct budget {
    struct budget_sizes sizes; // defaults filled in; n_ctx as wanted, or as the KV memory allows
    uint64_t weight_bytes;     // memory that loading takes
    uint64_t step_bytes;       // of the buffers of a step, and of rows kept for a draft block
    uint64_t free_bytes;       // of the available memory, after these and a reserve
    uint64_t kv_bytes;         // of the KV pages
    uint64_t page_bytes;       // of a page of each group: 32 tokens
    uint64_t block_bytes;      // of 32 tokens of a long text: states by their share of an interval
    uint64_t context_bytes;    // bytes that a lone sequence of n_ctx positions needs
    struct kv_bytes kv;        // a page of each group
    double block_share;        // KV bytes of the plan's draft block for each of kv_bytes
    uint64_t block_kv_bytes;   // of its pages; 0: there are none
    bool has_block;            // the plan's draft block runs
    struct {
        int n_ctx; // positions of a sequence that it can follow
        uint64_t weight_bytes, step_bytes, kv_bytes;
        struct kv_bytes kv;
    } beside; // all 0 without; not counted in the sums above, but for free_bytes
};

// The groups of a plan as the page manager wants them, with the interval of checkpoints of states:
// the blocks whose KV is as large as the states, at most 1,024 tokens. The rest is zero.
struct kv_config budget_kv_config(const struct plan *plan, const struct kv_bytes *kv);
// That interval in tokens; 0: the plan has no states.
int budget_state_interval(const struct plan *plan, const struct kv_bytes *kv);

// KV memory as asked for, or the free memory, at most twice the need of max_seqs full contexts;
// once, where the free memory is unknown. A reserve of 5% is left free. Limited addresses also
// leave the stacks and 17 to 64 MiB for uses that are not counted here, such as requests.
// RN_ERR_ARG: a size is out of its range, or the memory asked for exceeds the total. RN_ERR_ARG
// too: it holds no page of each group, or not the context asked for. RN_ERR_NOMEM: the free memory
// does not hold them. A draft model gets KV memory in proportion to the needs of both for a
// sequence, and at least a context. Where an amount was asked for, the draft model's comes on top
// of it.
rn_status budget_choose(const struct budget_request *request, struct budget *out, rn_error *err);

// KV bytes of the plan's draft block beside kv_bytes of the model's: in proportion, a context at
// least. 0: the plan has none.
uint64_t budget_block_bytes(const struct plan *plan, const struct kv_bytes *kv, uint64_t kv_bytes,
                            int n_ctx);

#endif
