// The shapes of synthetic models: sizes of published models as tables, and the parts that some
// families have beyond them. Read by the makers of keys and tensors (synthetic_maker.h).
#ifndef RN_WEIGHTS_SYNTHETIC_SHAPES_H
#define RN_WEIGHTS_SYNTHETIC_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum shape_flag {
    SHAPE_TIED = 1,     // the head is the embedding
    SHAPE_QK_NORM = 2,  // q and k are normed head by head
    SHAPE_OSS = 4,      // gpt-oss: biases, sinks, a window, yarn
    SHAPE_HIDDEN = 8,   // for tests and measurements, in no list
    SHAPE_DELTA = 16,   // Qwen 3.5: see struct delta
    SHAPE_4 = 32,       // Gemma 4: see struct gemma
    SHAPE_LATENT = 64,  // DeepSeek, Kimi, GLM-4.7-Flash: see struct latent
    SHAPE_SPARSE = 128, // GLM 4.6, MiniMax M2: see struct sparse
    SHAPE_PART = 256,   // the first layers of a model alone, in no list
    SHAPE_GEMMA = SHAPE_4 | SHAPE_TIED | SHAPE_QK_NORM,
};

struct shape {
    const char *name, *arch;
    int n_layer, n_embd, n_ff, n_head, n_head_kv, head_dim, n_vocab;
    int flags;
    float rope_base;
    int n_expert, n_expert_used; // n_ff is the width of one expert then
};

const struct shape *shape_at(int index); // NULL: no more
// Of that name, or of another model with the same sizes; NULL: there is none. len: of the name.
const struct shape *shape_named(const char *name, size_t len);
// The format in which people get the model: its maker's own, or the usual one.
const char *shape_format(const struct shape *shape);

// Attention over a latent: head_dim of the shape is the latent and the rotated part. The first
// layers are dense; the others have experts, and a shared one as wide as several.
enum { LATENT_ROT = 64, TINY_ROT = 32 };
struct latent {
    const char *shape;
    int n_q;         // rank of the queries; 0: they have one matrix
    int nope, value; // of a head
    int n_dense;     // layers
    int n_ff;        // of a dense layer
    int n_shared;
    int n_group, n_group_used; // of experts; 0: there are no groups
    float scale; // of the experts' weights, by sigmoids; 0: by a softmax, and yarn for positions
    bool has_block;
};
const struct latent *latent_of(const struct shape *shape); // NULL: none
int latent_rotated(const struct shape *shape);

// Experts by sigmoids with a bias, after dense layers; a part of each head is rotated.
struct sparse {
    const char *shape;
    int n_dense, n_ff; // dense layers and their width
    int n_shared;
    int n_rot;
    float scale; // of the experts' weights
    bool has_qkv_bias;
    bool is_wide; // norms of q and k are as wide as all heads together
    bool has_block;
};
const struct sparse *sparse_of(const struct shape *shape); // NULL: none

// Layers with a state, all but each DELTA_INTERVAL-th. The other layers have gated attention that
// rotates a quarter of a head. The shared expert is as wide as the others.
enum { DELTA_INTERVAL = 4, DELTA_TAPS = 4 };
struct delta {
    const char *shape;
    int n_key, n_value, dim; // heads of keys and of values, and their size
};
const struct delta *delta_of(const struct shape *shape); // NULL: none

// Layers with a window, all but each period-th. The others have heads of twice the size. The last
// `shared` layers have no keys and values.
struct gemma {
    const char *shape;
    int window, period, shared;
    int full_kv;    // KV heads of layers without a window
    bool k_is_v;    // these have no attn_v
    bool is_double; // layers without keys have twice the feed-forward
    int n_input;    // width of a layer's own input; 0: none
    int n_ff;       // of the feed-forward beside experts
};
const struct gemma *gemma_of(const struct shape *shape); // NULL: none
bool gemma_is_windowed(const struct gemma *g, int layer);
int64_t gemma_ff(const struct shape *s, const struct gemma *g, int layer); // its width in a layer

// Shapes whose layers differ, with a letter for each layer: M is Mamba-2, C a short convolution, *
// attention, - a feed-forward. Where some layer is a feed-forward alone, the others have none.
struct pattern {
    const char *shape, *layers;
    int taps;
    int n_state, n_group, n_head, dim; // of Mamba-2
    int n_ff_shared;                   // width of the expert of all tokens; 0: none
};
const struct pattern *pattern_of(const struct shape *shape); // NULL: all layers are alike
bool pattern_is_single(const struct pattern *p);

#endif
