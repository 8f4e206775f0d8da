// The table of architectures: what a row is, and the helpers that every architecture's file builds
// its plan with.
#ifndef RN_MODEL_ARCH_H
#define RN_MODEL_ARCH_H

#include "model/model.h"

// While a plan is built: the file, the plan, and the first error. Helpers do nothing after an
// error, so builders read as the architecture does, and check once at the end.
struct builder {
    const struct weights *weights;
    struct model *model;
    struct plan *plan;
    rn_status status;
    rn_error *err;
    int layer;  // for names and ops; -1 outside the layers
    bool *used; // [tensors of the file] bound by someone
};

// How an architecture differs from the others in the stack of layers that decoder.c builds.
enum qk_norm { QK_NORM_NONE, QK_NORM_HEAD, QK_NORM_ALL };

struct decoder {
    enum norm_kind norm;
    // Norms before and after the two blocks; NULL: none.
    const char *attn_norm, *attn_post_norm, *ffn_norm, *ffn_post_norm;
    enum qk_norm qk_norm;
    bool fused_qkv;  // attn_qkv holds q, k and v
    bool fused_gate; // ffn_up holds gate and up
    enum gate_kind gate;
    bool plain_ffn; // no gate: down(act(up(x)))
    bool sinks;     // attn_sinks takes part in the softmax
    bool learned_positions;
};

struct arch {
    const char *name; // general.architecture
    // Reads what is particular to the architecture into hp (the common part is read), and refuses
    // what it cannot run.
    rn_status (*read)(struct hparams *hp, const struct weights *weights, rn_error *err);
    struct decoder decoder;
};

const struct arch *arch_find(const char *name, size_t len);
// The names that arch_find knows, separated by commas, for messages.
void arch_known(char *out, size_t size);

extern const struct arch arch_llama, arch_qwen2, arch_qwen3, arch_qwen3moe, arch_gemma, arch_gemma2,
    arch_gemma3, arch_phi3, arch_gpt2, arch_granite, arch_olmo2, arch_smollm3, arch_gpt_oss;

// --- hyper-parameters: "<arch>.<key>"; a missing optional key leaves *out as it is ---
rn_status hparams_int(const struct weights *weights, const char *key, int min, int max,
                      bool required, int *out, rn_error *err);
rn_status hparams_float(const struct weights *weights, const char *key, double min, double max,
                        bool required, float *out, rn_error *err);
rn_status hparams_bool(const struct weights *weights, const char *key, bool *out, rn_error *err);
// What decoders with RMS norms and rope share: epsilon, factor and cap of the scores, cap of the
// logits, rope in that style (interleaved: unless the file says halves), experts if there are any,
// and the window. What the architecture has put into hp before (a cap, a window, rope.base_local)
// is the default where the file says nothing. Layers have the window as the file's own list says,
// else all but each period-th (period 1: all; 0: the architecture has none).
rn_status hparams_decoder(struct hparams *hp, const struct weights *weights, enum rope_style style,
                          int window_period, rn_error *err);
// Refuses a file without experts.
rn_status hparams_need_experts(const struct hparams *hp, const struct weights *weights,
                               rn_error *err);

// gemma.c, for all Gemmas: the factors of embedding and scores. GGUF files do not say the latter:
// it is that of the head's size, but in the largest model (known by its layers) that of width /
// heads.
void gemma_scales(struct hparams *hp, int n_layer_largest);

// --- binding: name is the tensor's without "blk.N." and ".weight" ---
int bind_matrix(struct builder *b, const char *name, int64_t rows, int64_t cols);
int bind_vector(struct builder *b, const char *name, int64_t n); // a float format
bool bind_present(const struct builder *b, const char *name);
// The n values of a vector as f32 into out; false when it is absent or an error came.
bool bind_values(struct builder *b, const char *name, float *out, int64_t n);

// --- ops. Widths come from the buffers; a bias (NAME.bias) is used where the file has one. ---
struct linear {
    const char *name;
    int64_t first, total; // rows [first, first + width of out) of a matrix of `total`; 0: all of it
    float scale;          // 0: 1
    bool add;
};
void build_embed(struct builder *b, int out, int weight, float scale);
void build_positions(struct builder *b, int out, const char *name);
void build_gather(struct builder *b, int in, int out);
void build_norm(struct builder *b, enum norm_kind kind, int in, int out, const char *name,
                int group, bool add);
void build_linear(struct builder *b, int in, int out, struct linear linear);
void build_head(struct builder *b, int in, int out, int weight, float scale);
void build_rope(struct builder *b, int buffer, int rope, int n_head, int dim);
void build_kv_append(struct builder *b, int k, int v, int group, int layer);
void build_attention(struct builder *b, int q, int out, int group, int layer, int sinks);
void build_gate(struct builder *b, enum gate_kind kind, int gate, int up, int out);
void build_route(struct builder *b, int logits, int route);
void build_experts(struct builder *b, int in, int route, int out, const char *name);
void build_combine(struct builder *b, int in, int route, int out);
void build_softcap(struct builder *b, int buffer, float cap);

// rope.c: the frequencies of hp->rope for layers with a window (local) or without; PLAN_NONE after
// an error.
int build_frequencies(struct builder *b, bool local);

// decoder.c: the plan of the model whose hyper-parameters are read.
void decoder_build(struct builder *b);

#endif
