// The interface of an architecture, and the helpers that its file writes a plan with: readers of
// hyper-parameters, binding of weights, ops. The blocks that layers are made of are in blocks.h.
#ifndef RN_MODEL_ARCH_H
#define RN_MODEL_ARCH_H

#include "model/model.h"
#include "weights/hf_arch.h"

// A layer's KV group, and which of the group's layers it is.
struct kv_place {
    int group, layer;
};

// While a plan is built: the file, the plan, and the first error. Helpers do nothing after an
// error, so builders read as the architecture does, and check once at the end.
struct builder {
    const struct weights *weights;
    struct model *model;
    struct plan *plan;
    rn_status status;
    rn_error *err;
    int layer;                              // for names and ops; -1 outside the layers
    enum row_domain rows;                   // that blocks work on: OUT behind the last KV append
    bool *used;                             // [tensors of the file] bound by someone
    int embd, head;                         // the weights of the embedding and of the head
    int rope[MODEL_MAX_ROPE];               // in the plan, for each of hparams.rope
    struct kv_place place[MODEL_MAX_LAYER]; // [n_layer] of keys and values
    struct kv_place state[MODEL_MAX_LAYER]; // [n_layer] of the recurrence
    int last_mixer; // the last layer in which rows meet: behind it, only out rows are computed
    int mixers;     // blocks of that layer in which rows meet, and that are not built yet
    const struct model *target; // of a draft block in a file of its own: its model; else NULL
    // Tensors that are missing are added to these weights, with the shape that they should have;
    // NULL: a missing tensor is an error. The same weights as above.
    struct weights *describe;
};

// One architecture: everything that runnel knows about it is in the file that defines it.
struct arch {
    const char *name; // general.architecture
    bool is_hybrid;   // layers may be without attention or feed-forward, and differ in them
    bool has_nextn;   // files may end with blocks that predict further tokens: hparams.n_nextn
    // Files of it are draft blocks, for models of this architecture: no text comes from them alone.
    // build() adds the block's ops behind the model's. NULL: they are models
    const char *drafts_for;
    // Reads the hyper-parameters that are the architecture's own (the common part is read), and
    // refuses a file that it cannot run. Layers that differ are made different here.
    rn_status (*read)(struct hparams *hp, const struct weights *weights, rn_error *err);
    // One layer, in calls of blocks.
    void (*layer)(struct builder *b, const struct layer *l);
    // All of the plan from the embedding to the logits: stack_build, or a function of its own.
    void (*build)(struct builder *b);
    // Its Hugging Face classes: keys, tensor names and their GGUF forms. Ends with a row of zeros.
    const struct hf_class *classes;
};

#define ARCH(name) extern const struct arch arch_##name;
#include "model/arch.def"
#undef ARCH

enum {
    ARCH_COUNT = 0
#define ARCH(name) +1
#include "model/arch.def"
#undef ARCH
};

const struct arch *arch_find(const char *name, size_t len);

// The part of the table that a reader of folders needs; out ends with a row of zeros.
void arch_folders(struct hf_arch out[ARCH_COUNT + 1]);

// model.c: model_init with an architecture that need not be in the table.
rn_status model_init_arch(struct model *model, const struct arch *arch,
                          const struct weights *weights, rn_error *err);

// --- hyper-parameters: "<arch>.<key>"; a missing optional key leaves *out as it is ---
rn_status hparams_int(const struct weights *weights, const char *key, int min, int max,
                      bool required, int *out, rn_error *err);
rn_status hparams_float(const struct weights *weights, const char *key, double min, double max,
                        bool required, float *out, rn_error *err);
// One value for each layer, [hp->n_layer]: a number for all of them, or a list.
rn_status hparams_layers(const struct hparams *hp, const struct weights *weights, const char *key,
                         int min, int max, bool required, int *out, rn_error *err);
// The same for values of 0 and 1; they stay where the file has none.
rn_status hparams_flags(const struct hparams *hp, const struct weights *weights, const char *key,
                        int *out, rn_error *err);
rn_status hparams_bool(const struct weights *weights, const char *key, bool *out, rn_error *err);
bool hparams_has(const struct weights *weights, const char *key);
// Refuses the file: "FILE: key ARCH.KEY " and the text.
rn_status hparams_fail(const struct weights *weights, const char *key, rn_error *err,
                       const char *fmt, ...) RN_PRINTF(4, 5);

// An architecture's values where the file has none.
struct hparams_defaults {
    enum norm_kind norm;        // whose epsilon the file has
    enum rope_style rope_style; // INTERLEAVED: unless the file says halves
    bool no_rope;               // no layer is rotated, whatever the file says of rope
    float rope_base_local;      // of layers with a window; 0: that of the others
    bool is_local_unscaled;     // layers with a window are rotated without the file's scaling
    float attn_softcap, logit_softcap;
    int window;
    // Layers have the window as the file's own list says, else all but each period-th. 1: all; 0:
    // the architecture has no window, and a file with one is refused.
    int window_period;
};
// Reads the part that decoders with RMS norms and rope share: epsilon, factor and cap of the
// scores, cap of the logits, rope, experts if there are any, windows. Before the call hp->layer[0]
// stands for all layers, so an architecture may change it; afterwards layers differ in window and
// rope.
rn_status hparams_decoder(struct hparams *hp, const struct weights *weights,
                          const struct hparams_defaults *defaults, rn_error *err);
// Reads the length and the factor of a temper; where the file has none they stay.
rn_status hparams_temper(const struct weights *weights, struct temper *out, rn_error *err);
// Rotates layers with a window alone.
void hparams_rope_windows(struct hparams *hp);
// Reads the router's kind, scale and groups, and the width of the shared expert, for all layers
// with experts. The first layers may be dense (leading_dense_block_count). score: where the file
// says none. A group's score is its best expert's with a softmax, and that of its best two with
// sigmoids.
rn_status hparams_router(struct hparams *hp, const struct weights *weights, enum route_score score,
                         rn_error *err);
// The weights of experts sum to 1 only where the file says so.
void hparams_plain_weights(struct hparams *hp, const struct weights *weights);
// Refuse a layer without feed-forward.
rn_status hparams_need_ff(const struct hparams *hp, const struct weights *weights, rn_error *err);
// Refuse a number under a key that means something that is not supported; 0 and absence are fine.
rn_status hparams_refuse(const struct weights *weights, const char *key, const char *thing,
                         rn_error *err);
// Refuse a file without experts, and one with them.
rn_status hparams_need_experts(const struct hparams *hp, const struct weights *weights,
                               rn_error *err);
rn_status hparams_refuse_experts(const struct hparams *hp, const struct weights *weights,
                                 rn_error *err);

// --- binding: name is the tensor's without "blk.N." and ".weight" ---
int bind_matrix(struct builder *b, const char *name, int64_t rows, int64_t cols);
// A matrix whose rows are looked up. It stays in its file: a token reads one row.
int bind_table(struct builder *b, const char *name, int64_t rows, int64_t cols);
int bind_vector(struct builder *b, const char *name, int64_t n); // a float format
// A tensor that files may have and that the model does not use.
void bind_ignore(struct builder *b, const char *name);
bool bind_present(const struct builder *b, const char *name);
// The n values of a vector as f32 into out; false when it is absent or an error came. A tensor that
// is only described has none, and out stays.
bool bind_values(struct builder *b, const char *name, float *out, int64_t n);

// --- ops. Widths come from the buffers; a bias (NAME.bias) is used where the file has one. ---
struct linear {
    const char *name;
    int64_t first, total; // rows [first, first + width of out) of a matrix of `total`; 0: all of it
    float scale;          // 0: 1
    bool add;
};
void build_input(struct builder *b, int out);
void build_embed(struct builder *b, int out, int weight, float scale);
void build_embed_add(struct builder *b, int out, int weight, float scale); // out +=
void build_positions(struct builder *b, int out, const char *name);
void build_gather(struct builder *b, int in, int out);
// name NULL: a norm without a weight.
void build_norm(struct builder *b, enum norm_kind kind, int in, int out, const char *name,
                int group, bool add);
// out = (out + the RMS norm of in) * scale.
void build_norm_sum(struct builder *b, int in, int out, const char *name, float scale);
// An RMS norm of the whole row with an epsilon of its own.
void build_norm_eps(struct builder *b, int in, int out, const char *name, float eps);
// An RMS norm by group with a factor for each element: [n_group, group], or all in one row.
void build_norm_each(struct builder *b, int in, int out, const char *name, int group);
void build_linear(struct builder *b, int in, int out, struct linear linear);
void build_head(struct builder *b, int in, int out, int weight, float scale);
void build_head_biased(struct builder *b, int in, int out, int weight, const char *name);
void build_rope(struct builder *b, int buffer, int rope, int n_head, int dim);
// The same from an element of each head on.
void build_rope_from(struct builder *b, int buffer, int rope, int n_head, int dim, int from);
void build_temper(struct builder *b, int buffer, const struct temper *temper);
void build_kv_append(struct builder *b, int k, int v, struct kv_place place);
void build_attention(struct builder *b, const struct layer *l, int q, int out,
                     struct kv_place place, int sinks);
void build_gate(struct builder *b, enum gate_kind kind, int gate, int up, int out);
void build_xielu(struct builder *b, const struct gate_xielu *xielu, int in, int out);
void build_route(struct builder *b, const struct layer *l, int logits, int route);
// Of linear its name, first and total are used: rows of each expert's matrix.
void build_experts(struct builder *b, const struct layer *l, int in, int route, int out,
                   struct linear linear);
void build_combine(struct builder *b, const struct layer *l, int in, int route, int out);
// out =, not out +=
void build_combine_set(struct builder *b, const struct layer *l, int in, int route, int out);
// A product for each of n heads: `rows` by `cols`, from the start of a head's part of a row to the
// start of its part of out.
void build_heads(struct builder *b, int in, int out, const char *name, int n, int rows, int cols);
void build_columns(struct builder *b, int in, int out, int n, int len, int from, int stride_from,
                   int to, int stride_to);
// Names of tensors are as files have them: `a` and `d` without ".weight", `dt` with ".bias".
void build_conv(struct builder *b, const struct layer *l, int in, int out, const char *name,
                bool silu);
void build_delta(struct builder *b, const struct layer *l, int in, int a, int beta, int out);
void build_scan(struct builder *b, const struct layer *l, int in, int dt, int out);
void build_softcap(struct builder *b, int buffer, float cap);

// rope.c: the frequencies of one of hparams.rope; PLAN_NONE after an error.
int build_frequencies(struct builder *b, const struct hparams_rope *rope);

// --- stack.c: the frame around the layers ---
// Buffers, KV groups and frequencies; called before arch->build.
void stack_begin(struct builder *b);
void stack_ropes(struct builder *b); // the frequencies alone
// Embedding, layers, head with an RMS norm.
void stack_build(struct builder *b);
// Its parts.
void stack_embed(struct builder *b);
void stack_layers(struct builder *b);
void stack_head(struct builder *b, enum norm_kind norm);
// The first of the blocks behind the layers, where the file has it: it predicts a token from the
// next token and a hidden row. Becomes the plan's draft block.
void stack_draft(struct builder *b);
void stack_head_named(struct builder *b, enum norm_kind norm, const char *name);
// A head of its own with a bias, without a scale or cap of the logits.
void stack_head_biased(struct builder *b, enum norm_kind norm);

#endif
