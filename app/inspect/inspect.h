// The findings of `runnel inspect`, for its two printers.
#ifndef RN_APP_INSPECT_H
#define RN_APP_INSPECT_H

#include "app.h"
#include "tools.h"

enum { INSPECT_ITEMS = 4 }; // items of an array that are shown

struct inspect_format {
    uint64_t tensors, params, bytes;
};

struct inspect {
    const struct weights *weights;
    const rn_model *opened;     // NULL with model
    const rn_model_info *model; // NULL: runnel cannot run it
    const struct plan *plan;    // NULL with model
    const char *reason;         // why it cannot
    const char *chat_template;  // NULL: none
    rn_engine_options engine;   // the options that memory depends on
    struct tools_place place;   // of these options,
    struct tools_device device; // and the device there
    struct inspect_format format[FORMAT_COUNT];
    struct inspect_format total;
};

const char *inspect_type_name(enum meta_type type);
// A value of type META_U64 that needs all 64 bits.
uint64_t inspect_u64(const struct meta_view *meta, uint64_t index);
// The double with the fewest digits that is this float: 0.95 instead of 0.949999988.
double inspect_shortest(float value);

// For each KV type.
struct inspect_cost {
    uint64_t token_bytes;   // KV that one more token keeps
    uint64_t page_bytes;    // of a page of each group, as the device keeps it; states apart
    uint64_t context_bytes; // KV of a full context
    uint64_t state_bytes;   // all states of a sequence; 0: there are none
    int state_interval;     // tokens from one state that prefixes continue from to the next
    uint64_t first_step;    // bytes that a decode step reads with an empty cache, and those of
                            // states that it writes
    uint64_t last_step;     // with a full one
};
void inspect_cost(const struct inspect *inspect, const char *kv_type, struct inspect_cost *out);

// On the device, now. *n_contexts: full contexts that fit at a time into the KV memory that was
// asked for, or into all that is free.
rn_status inspect_here(const struct inspect *inspect, const char *kv_type, rn_memory_plan *out,
                       uint64_t *n_contexts, rn_error *err);

// The bytes that ops of one kind read in a decode step with a full context.
struct inspect_read {
    int ops;
    uint64_t weight_bytes, kv_bytes;
    uint64_t state_bytes; // read and written
    double share;         // of all that the step reads, and writes of states
};
// In the device's default KV type.
void inspect_reads(const struct inspect *inspect, struct inspect_read out[OP_COUNT]);

// Blocks behind the layers, which draft tokens (nextn, mtp): the engine uses the first one.
struct inspect_block {
    int n_tensors; // of the first; 0: the file has none
    uint64_t bytes;
    bool is_used; // the device runs it
};
void inspect_block(const struct inspect *inspect, struct inspect_block *out);
// Whether the tensor is one of such a block's. False where runnel cannot run the model.
bool inspect_is_block(const struct inspect *inspect, const struct tensor_view *tensor);
// Tensors of codes, which are listed as the format that they are read as.
int inspect_codes_count(const struct weights *weights, enum tensor_codes codes);

int inspect_json_print(const struct inspect *inspect);

#endif
