// A model: hyper-parameters read from metadata, weights bound by name and checked for shape, the
// plan its architecture built. Adding an architecture is a file that says how it differs and a row
// in arch.c.
#ifndef RN_MODEL_MODEL_H
#define RN_MODEL_MODEL_H

#include "plan/plan.h"
#include "weights/weights.h"

// Larger than any vocabulary in use; what a hostile one can make us allocate is bounded by it.
enum { MODEL_MAX_VOCAB = 1 << 19, MODEL_MAX_LAYER = 1024 };

enum rope_scaling { ROPE_SCALING_NONE, ROPE_SCALING_LINEAR, ROPE_SCALING_YARN };

struct hparams_rope {
    enum rope_style style;
    int n_rot;
    float base, base_local; // base_local: of the layers with a window
    enum rope_scaling scaling;
    float factor;               // positions are divided by it; 1: none
    int n_ctx_original;         // before scaling; 0: not said
    float beta_fast, beta_slow; // yarn: rotations over the original context between which it mixes
    bool truncate;              // yarn: these ends are rounded to whole dimensions
    float magnitude;            // multiplies cos and sin, besides yarn's own
    int skip_every;             // every so many layers one has no rope; 0: all have
};

// What the metadata says, checked: every count is in a sane range, so products fit 64 bits and row
// widths fit int.
struct hparams {
    int n_layer, n_ctx, n_embd, n_ff, n_vocab;
    int n_head, n_head_kv, dim_k, dim_v; // dim_*: per head
    float norm_eps;
    struct hparams_rope rope;
    float attn_scale;                              // of the scores
    float attn_softcap, logit_softcap;             // 0: none
    int window;                                    // 0: none
    bool is_local[MODEL_MAX_LAYER];                // the layers that have the window
    float embd_scale, residual_scale, logit_scale; // multiply; 1: none
    int n_expert, n_expert_used, n_ff_expert;      // 0: no experts
    bool normalize_experts;                        // the weights of a token's experts sum to 1
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
