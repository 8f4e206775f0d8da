// The blocks that an architecture's layer function is made of. They work on the residual stream of
// the layer that is being built, in the layer's current rows. These are all tokens; in the last
// layer, behind its KV append, the out rows only. A block returns the buffer that holds its result,
// or adds to the stream. Tensor names are GGUF's, without "blk.N." and ".weight".
//
// Adding a kind of block is adding a function here; no block asks which architecture calls it.
#ifndef RN_MODEL_BLOCKS_H
#define RN_MODEL_BLOCKS_H

#include "model/arch.h"

// A buffer of the current rows. Blocks that ask for the same name, width and slots share it.
int block_buffer(struct builder *b, const char *name, int width, int slots);
// All buffers of a layer's blocks below, for stack.c, which fixes their order.
void blocks_declare(struct builder *b, const struct layer *l);

// --- the residual stream ---
int block_stream(struct builder *b);                                             // itself
int block_norm(struct builder *b, enum norm_kind kind, const char *name);        // its norm
void block_add(struct builder *b, int in, const char *name);                     // += scale * W in
void block_add_scaled(struct builder *b, int in, const char *name, float scale); // a second scale
void block_add_normed(struct builder *b, int in, const char *name,
                      const char *norm); // += norm(W in)

// --- attention ---
struct qkv {
    int q, k, v;
};
// Three matrices; without those of keys and values where the layer reads an earlier layer's, and
// without that of values where they come from the keys' product: v is the caller's to fill then.
struct qkv block_qkv(struct builder *b, const struct layer *l, int in);
struct qkv block_qkv_fused(struct builder *b, const struct layer *l, int in);    // attn_qkv
void block_norm_heads(struct builder *b, const struct layer *l, struct qkv qkv); // q, k by head
void block_norm_qk(struct builder *b, const struct layer *l, struct qkv qkv);    // q, k as a whole
void block_rope(struct builder *b, const struct layer *l, struct qkv qkv); // if the layer has one
void block_norm_bare(struct builder *b, const struct layer *l, struct qkv qkv); // the same
void block_temper(struct builder *b, const struct layer *l, struct qkv qkv);    // the same
// Keys and values are kept, then the heads' results. sinks: a vector that takes part in the
// softmax; PLAN_NONE: none.
int block_attend(struct builder *b, const struct layer *l, struct qkv qkv, int sinks);
// The same where later blocks read more than the stream: *beside, such as the row that attention
// read, continues in the rows of the result, under its name. PLAN_NONE: nothing does. A layer
// without keys of its own reads those of an earlier one.
int block_attend_beside(struct builder *b, const struct layer *l, struct qkv qkv, int *beside);

// Qwen's gated attention: attn_q gives each head's query, then the gate of its result.
struct qkv block_qkv_gated(struct builder *b, const struct layer *l, int in, int *gate);
int block_attend_gated(struct builder *b, const struct layer *l, struct qkv qkv, int gate);

// Attention over a latent. Leads to attn_output.
int block_latent(struct builder *b, const struct layer *l, int in);

// --- recurrence: the input of the product that leads back to the stream ---
// LFM2: a convolution between two gates. Leads to shortconv.out_proj.
int block_short_conv(struct builder *b, const struct layer *l, int in);
// Qwen's gated delta rule. Leads to ssm_out.
int block_delta(struct builder *b, const struct layer *l, int in);
// Mamba-2. Leads to ssm_out.
int block_mamba(struct builder *b, const struct layer *l, int in);

// --- feed-forward: the input of ffn_down ---
int block_gated(struct builder *b, const struct layer *l, int in, enum gate_kind gate);
int block_gated_fused(struct builder *b, const struct layer *l, int in, enum gate_kind gate);
int block_plain(struct builder *b, const struct layer *l, int in, enum gate_kind act);
int block_plain_xielu(struct builder *b, const struct layer *l, int in,
                      const struct gate_xielu *xielu);
// Experts, added to the stream: with gate matrices, and without.
void block_experts(struct builder *b, const struct layer *l, int in, enum gate_kind gate);
void block_experts_plain(struct builder *b, const struct layer *l, int in, enum gate_kind act);
// Their two parts, where the router has an input of its own: the choice, from scale * W in; then
// the sum, in a buffer of its own.
void block_router(struct builder *b, const struct layer *l, int in, float scale);
int block_experts_sum(struct builder *b, const struct layer *l, int in, enum gate_kind gate);

// The expert of all tokens, added to the stream: with a gate matrix or without, its result times a
// sigmoid of its own where the file has ffn_gate_inp_shexp.
void block_shared_expert(struct builder *b, const struct layer *l, int in, enum gate_kind gate,
                         bool is_gated);

// --- pieces that several architectures share ---
// Experts where the layer has them, else block_gated and ffn_down; added to the stream.
void block_feed_forward(struct builder *b, const struct layer *l, int in, enum gate_kind gate);
// The same, and the shared expert where the layer has one.
void block_feed_forward_shared(struct builder *b, const struct layer *l, int in,
                               enum gate_kind gate);
// Llama's layer; Qwen 3's, which norms q and k head by head; OLMoE's, which norms them as a whole.
void layer_llama(struct builder *b, const struct layer *l);
void layer_qwen3(struct builder *b, const struct layer *l);
void layer_olmoe(struct builder *b, const struct layer *l);

// blocks.c, for blocks_state.c and blocks_latent.c: behind the last mixing of rows, the stream and
// these buffers continue with the out rows. PLAN_NONE and NULL if there are none.
void block_go_over(struct builder *b, int *carried, int *more);

#endif
