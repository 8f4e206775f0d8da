// A model: hyper-parameters read from metadata, weights bound by name and checked for shape, the
// plan its architecture built. Adding an architecture is a file that builds the plan and a row in
// arch.c.
#ifndef RN_MODEL_MODEL_H
#define RN_MODEL_MODEL_H

#include "plan/plan.h"
#include "weights/weights.h"

// Larger than any vocabulary in use; what a hostile one can make us allocate is bounded by it.
enum { MODEL_MAX_VOCAB = 1 << 19 };

// What the metadata says, checked: every count is in a sane range, so products fit 64 bits and row
// widths fit int.
struct hparams {
    int n_layer, n_ctx, n_embd, n_ff, n_vocab;
    int n_head, n_head_kv, dim_k, dim_v; // dim_*: per head
    int n_rot;
    float norm_eps;
    float rope_base;
    float rope_linear; // positions are divided by it; 1: none
};

struct model {
    const struct arch *arch;
    struct hparams hp;
    struct plan plan;
    uint64_t n_params;
};

// Reads hyper-parameters and builds the plan. weights outlives the model.
rn_status model_init(struct model *model, const struct weights *weights, rn_error *err);
void model_deinit(struct model *model);
const char *model_arch_name(const struct model *model);

#endif
