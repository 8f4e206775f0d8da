// A model: hyper-parameters read from metadata, weights bound by name and checked for shape, the
// plan its architecture built. Adding an architecture is a file and a row in arch.def.
#ifndef RN_MODEL_MODEL_H
#define RN_MODEL_MODEL_H

#include "plan/plan.h"
#include "weights/weights.h"

// Larger than any vocabulary in use; it bounds the memory that a hostile one can make us allocate.
enum { MODEL_MAX_VOCAB = 1 << 19, MODEL_MAX_LAYER = 1024, MODEL_MAX_ROPE = 2 };

enum rope_scaling { ROPE_SCALING_NONE, ROPE_SCALING_LINEAR, ROPE_SCALING_YARN };

struct hparams_rope {
    enum rope_style style;
    int n_rot;
    float base;
    enum rope_scaling scaling;
    float factor;               // positions are divided by it; 1: none
    int n_ctx_original;         // before scaling; 0: not said
    float beta_fast, beta_slow; // yarn: rotations over the original context between which it mixes
    bool truncate;              // yarn: these ends are rounded to whole dimensions
    float magnitude;            // multiplies cos and sin, besides yarn's own
    bool is_undivided;          // the file's divisors of frequencies are not for it
};

// The recurrence of a layer: a convolution, which may lead to a head-wise state.
struct recurrence {
    int taps, n_channel;             // of the convolution; taps 0: the layer has none
    int n_head, n_key, dim_k, dim_v; // of the state behind it, as in op.state; n_head 0: none
    bool is_tiled;                   // as in op.state
    bool is_normed;                  // SCAN: a norm by group follows the gate
    float dt_min, dt_max;
    float z_scale, dt_scale, out_scale; // multiply the gate, dt and the result; 0: nothing does
};

// Attention over a latent: keys and values of all heads come from one row of a token, [dim_v of the
// layer | dim_rot]. The heads' own matrices are multiplied into queries and results.
struct latent {
    int n_q;                      // rank of the queries; 0: they have one matrix
    int dim_nope, dim_rot, dim_v; // of a head: not rotated, rotated; its value. dim_rot 0: none
};

// The factor of queries that grows with their position, as in op.temper; length 0: none.
struct temper {
    int length, offset;
    float factor;
};

// One layer. Layers of a model may differ in each of these.
struct layer {
    enum kv_kind kind;                   // of the attention's keys and values
    int n_head, n_head_kv, dim_k, dim_v; // dim_*: per head. n_head_kv 0: no attention
    int kv_back; // it reads the keys and values of the layer this far before it; 0: its own
    bool k_is_v; // values come from the keys' product; there is no attn_v
    struct recurrence recurrence;
    struct latent latent; // with it, n_head_kv is 1
    int window;           // positions that it sees, or of a chunk; 0: all
    int rope;             // index into hparams.rope; PLAN_NONE: not rotated
    bool has_bare_norms;  // rotated q and k are normed, without weights
    struct temper temper;
    float attn_scale, attn_softcap;           // of the scores; softcap 0: none
    float attn_out_scale;                     // multiplies attention's result; 0: nothing does
    float gate_scale, ff_out_scale;           // the same of the dense feed-forward
    int n_ff;                                 // width of the dense feed-forward; 0: none
    int n_ff_shared;                          // width of the expert of all tokens; 0: none
    int n_expert, n_expert_used, n_ff_expert; // n_expert 0: the feed-forward is dense
    bool normalize_experts;                   // the weights of a token's experts sum to 1
    enum route_score score;                   // of the router's logits
    float expert_scale;                       // multiplies these weights; 0: none
    float expert_least;                       // these as in op.route
    int n_expert_group, n_expert_group_used, expert_group_best;
    float expert_jitter;
    bool needs_choice_bias;   // a file without exp_probs_b is refused
    bool needs_shared_gate;   // the same of ffn_gate_inp_shexp
    bool experts_weigh_input; // an expert's input is multiplied by its weight, not its result
};

// The metadata's numbers, checked: every count is in a sane range, so products fit 64 bits and row
// widths fit int.
struct hparams {
    int n_layer, n_ctx, n_embd, n_vocab;
    int n_embd_layer; // width of the input that each layer has of its own; 0: none
    int n_nextn; // blocks behind the layers that predict further tokens; the first one may draft
    struct layer layer[MODEL_MAX_LAYER]; // [n_layer]
    struct hparams_rope rope[MODEL_MAX_ROPE];
    float norm_eps;
    float logit_softcap;                           // 0: none
    float embd_scale, residual_scale, logit_scale; // multiply; 1: none
};

struct model {
    const struct arch *arch;
    struct hparams hp;
    struct plan plan;
    uint64_t n_params;
};

// weights_open_any with the architectures that are known here: a GGUF file or a folder.
rn_status model_weights_open(const char *path, struct weights **out, rn_error *err);
// The metadata alone: of a folder, its config.json need not be there.
rn_status model_weights_open_vocab(const char *path, struct weights **out, rn_error *err);

// A config.json alone: its metadata and the tensors that such a model has, without biases that are
// optional. They have no data (see weights_describe_config).
rn_status model_weights_describe(const char *path, struct weights **out, rn_error *err);

// Reads hyper-parameters and builds the plan. weights outlives the model.
rn_status model_init(struct model *model, const struct weights *weights, rn_error *err);
// A draft block in a file of its own, and whether a file is one. Its ops are added to the plan of a
// model that has no block. RN_ERR_ARG: the file is a model, or the model has a block. After an
// error the model is as it was; otherwise weights outlives it.
rn_status model_attach(struct model *model, const struct weights *weights, rn_error *err);
bool model_is_draft_block(const struct weights *weights);
void model_deinit(struct model *model);
const char *model_arch_name(const struct model *model);

#endif
