// The row-level functions that the program calls, one table of them per instruction set. All tables
// give the bits of the scalar one (reference.c), which is the definition; matrix products have a
// table of their own (matmul.h).
//
// kv_layout.h says where a page of a KV group stores its keys and values.
#ifndef RN_BACKEND_CPU_OPS_H
#define RN_BACKEND_CPU_OPS_H

#include <math.h>

#include "backend/cpu/kv_layout.h"
#include "backend/cpu/matmul.h"
#include "base/half.h"
#include "plan/batch.h"

// tanh's GELU: 0.5 g (1 + tanh(SCALE (g + CUBE g^3)))
#define GELU_SCALE 0.7978845608f
#define GELU_CUBE  0.044715f

enum {
    ATTENTION_SPLIT = 256, // positions whose softmax is one; splits are folded in ascending order
    ATTENTION_SPLIT_PAGES = ATTENTION_SPLIT / KV_PAGE_TOKENS,
    ATTENTION_BLOCK = 8,  // queries that a kernel takes at a time, at most
    ATTENTION_CHUNK = 64, // elements of a latent whose values are made at a time
};

enum { KV_SCALE_NAN = 0x7e00 }; // f16: the scale of codes that stand for no finite numbers

// The scale, as f16, of elements whose largest is `top` and whose smallest is -low, both at least
// 0: int8 gives the largest magnitude the code 127 or -127, int4 the code -8.
static inline uint16_t kv_scale(float top, float low, bool is_finite, enum kv_type type) {
    const float most = top >= low ? top : -low;
    const uint16_t scale = f32_to_f16(type == KV_INT4 ? most / -8.0f : fabsf(most) / 127.0f);
    return is_finite && (scale & 0x7fff) < 0x7c00 ? scale : KV_SCALE_NAN;
}

// Of a query that meets codes: its codes are x * factor, rounded; their scale is the result. 0 as
// factor: the codes are 0.
static inline float query_scale(float most, bool is_finite, float *factor) {
    const float by = 127.0f / most;
    const bool is_small = most == 0.0f || by == INFINITY;
    *factor = is_finite && !is_small ? by : 0.0f;
    return !is_finite ? NAN : is_small ? 0.0f : most / 127.0f;
}

// The weights of a latent's int8 values, probability times scale, are whole numbers up to
// WEIGHT_MOST: fmaf(weight, factor, WEIGHT_MAGIC) - WEIGHT_MAGIC, the largest of a split and block
// being WEIGHT_MOST. The low bits of the fmaf are that number. They are in two parts of 7 bits
// where bytes are multiplied. A sum over a split fits 31 bits.
enum { WEIGHT_BITS = 7, WEIGHT_MOST = (1 << 2 * WEIGHT_BITS) - 1 };
#define WEIGHT_MAGIC 0x1p23f
_Static_assert(WEIGHT_MOST * 128ll * ATTENTION_SPLIT < INT32_MAX, "sums are exact");

// most: the largest weight. 0: all whole numbers are 0.
static inline float weight_factor(float most) {
    const float by = (float)WEIGHT_MOST / most;
    return by == INFINITY ? 0.0f : by;
}

// Elements of a key that are rotated together: the largest power of two that divides dim.
static inline int kv_rotation(int dim) { return dim & -dim; }
// Of a latent key: it divides the value's size too, so that values can be rotated back.
static inline int kv_rotation_of(int dim_k, int dim_v, bool is_latent) {
    return kv_rotation(is_latent ? dim_k | dim_v : dim_k);
}

// Query rows of one sequence against one KV head.
struct attention_args {
    const float *q; // [n_rows, ldq]: all heads of a row
    int64_t ldq;
    float *out; // [n_rows, ldo]
    int64_t ldo;
    const int32_t *pos; // [n_rows] ascending
    int n_rows;
    int head_kv, n_head, n_head_kv; // query heads [head_kv * r, head_kv * r + r), r their ratio
    int dim_k, dim_v;               // per head
    bool is_latent;                 // values are the first dim_v elements of keys
    int window;                     // 0: none
    bool is_chunked;                // the window is of the chunk that the query is in
    float scale, softcap;           // softcap 0: none
    const float *sinks;             // [n_head] a logit that takes part without a value; NULL: none
    enum kv_type type;
    const uint8_t *pages; // the group's memory
    uint64_t page_bytes;
    uint64_t head_at; // where this layer's and head's K begins in a page
    const uint32_t *page_table;
    // Splits [split_begin, split_end) alone, each into its part; attention_fold makes rows of the
    // parts. NULL: all splits, into rows.
    float *parts; // [splits, attention_part_floats], from attention_split_begin on
    int split_begin, split_end;
};

// One token's keys and values into its slot.
struct kv_append_args {
    const float *k, *v; // [n_head_kv * dim_k], [n_head_kv * dim_v]; is_latent: v is not used
    uint8_t *layer;     // where the layer's first head begins in the token's page
    int slot;
    int n_head_kv, dim_k, dim_v;
    bool is_latent;
    enum kv_type type;
};

// The ops with a state work on rows of one sequence, in order. `before` is the state before the
// first row (NULL: zeros), `after` that behind the last one; they may be the same.

// n neighbouring channels.
struct conv_args {
    const float *x; // [n_rows, ldx]
    float *y;       // [n_rows, ldy], not x
    int64_t ldx, ldy;
    int n_rows, n, taps;
    const float *w;    // [taps, ld]
    const float *bias; // NULL: none
    const float *before;
    float *after; // [taps - 1, ld]: the last inputs, the oldest first
    int64_t ld;   // all channels
    bool silu;
};

// n neighbouring columns of one head. A row's logits are one apart from the next row's by their ld.
struct delta_args {
    const float *q, *k, *v; // [n_rows, ld]: dim_k, dim_k and n of them
    int64_t ld;
    const float *a, *b; // [n_rows, ld_a], [n_rows, ld_b]
    int64_t ld_a, ld_b;
    float decay, bias; // A and dt of the head
    float *y;          // [n_rows, ldy]
    int64_t ldy;
    int n_rows, n, dim_k;
    const void *before;
    void *after;    // [dim_k, lds] floats, or bf16: then each row's state is rounded to it
    int64_t lds;    // of both
    bool is_bf16;   // both
    float eps;      // in the norms of q and k
    float *scratch; // [2 * dim_k]
};

struct scan_args {
    const float *x, *b, *c; // [n_rows, ld]: n, dim_k and dim_k of them
    int64_t ld;
    const float *dt; // [n_rows, ld_dt]
    int64_t ld_dt;
    float decay, bias, skip; // A, the bias of dt, and D of the head
    float dt_min, dt_max;
    float *y; // [n_rows, ldy]
    int64_t ldy;
    int n_rows, n, dim_k;
    const void *before;
    void *after; // as of delta_args
    int64_t lds;
    bool is_bf16;
};

struct cpu_ops {
    enum cpu_isa isa;
    const char *name;
    bool (*is_here)(void); // whether this machine has the instructions

    // As quantize_reference.
    void (*quantize)(const float *x, int64_t n, int8_t *q, float *d, int16_t *sum, int64_t stride);
    // n elements normed together; y may be x. add: y += instead of y =.
    void (*norm_rms)(const float *x, const float *w, float *y, int n, float eps, bool add);
    void (*norm_layer)(const float *x, const float *w, const float *bias, float *y, int n,
                       float eps, bool add);
    // cos and sin of one position, [n_rot]: pair i at (2i, 2i + 1) for interleaved, at (i, i +
    // n_rot / 2) for halves.
    void (*rope_table)(const struct plan_rope *rope, int32_t pos, float *table);
    // Rotates the heads of one row in place.
    void (*rope)(const struct plan_rope *rope, const float *table, int n_head, int dim, float *x);
    // act(g) * u, or act(g) where u is NULL; y may be g or u.
    void (*gate[GATE_COUNT])(const float *g, const float *u, float *y, int64_t n);
    // y may be x.
    void (*xielu)(const struct gate_xielu *gate, const float *x, float *y, int64_t n);
    // y += the k rows x[i] weighted by w[i], in their order.
    void (*combine)(const float *const *x, const float *w, int k, float *y, int64_t n);
    // In place.
    void (*softcap)(float *x, float cap, int64_t n);
    void (*kv_append)(const struct kv_append_args *args);
    void (*conv)(const struct conv_args *args);
    void (*delta)(const struct delta_args *args);
    void (*scan)(const struct scan_args *args);
    // scratch: attention_scratch() floats, aligned to 64 bytes.
    void (*attention)(const struct attention_args *args, float *scratch);
    // Folds the parts of all splits in ascending order, so that the bits are those of one call
    // however the splits were shared out. NULL: attention makes no parts.
    void (*attention_fold)(const struct attention_args *args, float *scratch);
    // Reads bytes (a multiple of 512) with prefetches `ahead` bytes in front (0: none); the result
    // keeps the reads alive.
    uint64_t (*stream_read)(const void *data, int64_t bytes, int64_t ahead);
};

extern const struct cpu_ops ops_scalar;
#if defined(__x86_64__)
extern const struct cpu_ops ops_avx2, ops_avxvnni, ops_avx512bw, ops_avx512, ops_amx;
#elif defined(__aarch64__)
extern const struct cpu_ops ops_neon;
#endif

// NULL name: the best that this machine has. An unknown name is RN_ERR_ARG, a set that is not here
// RN_ERR_UNSUPPORTED.
rn_status ops_find(const char *name, const struct cpu_ops **out, rn_error *err);
const char *ops_name(enum cpu_isa isa);
// By number, for tests: NULL when this program was built without it or the machine lacks it.
const struct cpu_ops *ops_at(enum cpu_isa isa);

static inline int64_t attention_padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Floats of a split's result for n_queries = rows * heads of one call: o, m and l of each.
static inline int64_t attention_part_floats(int64_t n_queries, int64_t dim_v) {
    return attention_padded(n_queries * (attention_padded(dim_v, 16) + 2), 16);
}

// Floats of scratch for n_queries of one call: two parts, a block's scores and weights, a split's
// keys and values, the queries.
static inline int64_t attention_scratch(int64_t n_queries, int64_t dim_k, int64_t dim_v) {
    return 2 * attention_part_floats(n_queries, dim_v) +
           (2 * ATTENTION_BLOCK + dim_k + attention_padded(dim_v, 32)) * ATTENTION_SPLIT +
           n_queries * (attention_padded(dim_k, KV_BLOCK) + 16);
}

// Of a latent group: the scores of all queries, and values by chunks.
static inline int64_t attention_scratch_latent(int64_t n_queries, int64_t dim_k, int64_t dim_v) {
    return attention_scratch(n_queries, dim_k, attention_padded(dim_v, ATTENTION_CHUNK)) +
           n_queries * ATTENTION_SPLIT;
}

static inline struct kv_layout attention_layout(const struct attention_args *args) {
    return args->is_latent ? kv_layout_latent(args->type, args->dim_k)
                           : kv_layout_of(args->type, args->dim_k, args->dim_v);
}

static inline const uint8_t *attention_page(const struct attention_args *args, int64_t index) {
    return args->pages + args->page_table[index] * args->page_bytes + args->head_at;
}

// The first position that a query at pos sees.
static inline int attention_first(const struct attention_args *args, int pos) {
    if (args->window == 0) return 0;
    return (int)kv_first_seen(args->is_chunked ? KV_CHUNK : KV_WINDOW, args->window, pos);
}

// The splits that the rows see something of: [begin, end).
static inline int attention_split_begin(const struct attention_args *args) {
    return attention_first(args, args->pos[0]) / ATTENTION_SPLIT;
}
static inline int attention_split_end(const struct attention_args *args) {
    return args->pos[args->n_rows - 1] / ATTENTION_SPLIT + 1;
}

static inline float *attention_part_at(const struct attention_args *args, int split) {
    const int64_t queries = (int64_t)args->n_rows * (args->n_head / args->n_head_kv);
    return args->parts +
           (split - attention_split_begin(args)) * attention_part_floats(queries, args->dim_v);
}

#endif
