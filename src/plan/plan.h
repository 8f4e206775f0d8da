// The plan: an architecture compiled, once, into a flat list of semantic ops over named buffers and
// weights. A backend compiles it into its own program; plan_cost() gives the bytes and operations
// of each op for a given batch. Built by model/<arch>.c through the plan_add_* calls; read by
// backends, the ledger and the tools.
//
// Invariants of a finished plan:
//  1. ops are in execution order; an op reads only buffers that an earlier op wrote;
//  2. a buffer has one row domain. Two ops cross: GATHER from TOKENS to OUT or LOGITS, MATMUL from
//  OUT to LOGITS, row i to row i;
//  3. every weight's shape fits its op (checked when the op is added; the model checks files
//  before).
#ifndef RN_PLAN_PLAN_H
#define RN_PLAN_PLAN_H

#include "base/arena.h"
#include "quant/format.h"

enum {
    KV_PAGE_TOKENS = 32, // positions of a KV page
    KV_DIM_MAX = 1024,   // elements of a head
};
enum { PLAN_MAX_TAPS = 16 }; // of a convolution
enum { PLAN_MAX_KV_GROUPS = 4, PLAN_NONE = -1 };
enum { PLAN_MAX_EXPERT = 4096, PLAN_MAX_USED = 64 }; // USED: experts of a token

enum op_kind {
#define OP(name, text, class) OP_##name,
#include "plan/ops.def"
#undef OP
    OP_COUNT
};

// Classes of ops, for the ledger of bytes, operations and time.
enum op_class { OPS_WEIGHTS, OPS_EXPERTS, OPS_ATTENTION, OPS_RECURRENT, OPS_OTHER, OPS_COUNT };

// Which rows an op works on: every token of the batch; those whose last hidden state is wanted; the
// first of these, whose scores over the vocabulary are wanted too.
enum row_domain { ROWS_TOKENS, ROWS_OUT, ROWS_LOGITS };

struct plan_buffer {
    const char *name;
    int width; // floats per row
    enum row_domain rows;
    int slots; // rows for each row of the domain: 1, or the experts of a token. The backend chooses
               // the order of a batch's slots; ops that read and write slots keep it.
    bool has_slots; // an op writes slots to it: one for each expert of a token, which may be one
};

// A matrix [rows, cols] stored row after row in the file's format; a vector has rows = 1.
struct plan_weight {
    const char *name;
    enum format_id format;
    int64_t rows, cols;
    const void *data;               // NULL with experts
    uint64_t bytes;                 // of the file's format, all experts together
    int n_expert;                   // 0: one matrix
    bool is_fetched;                // data are addresses for plan_fetch alone
    const void *const *expert_data; // [n_expert], each a matrix [rows, cols]
    bool is_cold; // EMBED alone reads it, a row for a token: it stays in its file, from which each
                  // row is fetched, and no memory is set aside for it
};

// How a pair of elements is chosen: GGUF's llama family stores (2i, 2i + 1), others (i, i + n_rot /
// 2).
enum rope_style { ROPE_INTERLEAVED, ROPE_HALVES };

struct plan_rope {
    enum rope_style style;
    int n_rot;             // rotated elements of each head, the first ones
    const float *inv_freq; // [n_rot / 2], scaling applied
    float magnitude;       // multiplies cos and sin (yarn); 1 otherwise
    int ahead;             // is added to a row's position; see op.kv
};

enum kv_kind { KV_FULL, KV_WINDOW, KV_RECURRENT, KV_CHUNK };

// The first position that a query at pos sees. It never decreases with pos.
static inline int64_t kv_first_seen(enum kv_kind kind, int window, int64_t pos) {
    if (kind == KV_WINDOW) return pos < window ? 0 : pos - window + 1;
    return kind == KV_CHUNK ? pos - pos % window : 0;
}

// Layers of one kind and width share a page table.
struct plan_kv_group {
    enum kv_kind kind;
    int n_layer, n_head_kv, dim_k, dim_v; // dim_*: per head
    int window; // KV_WINDOW: key j is seen from i when i - j < window; KV_CHUNK: when both are in
                // the same chunk of that many positions
    int state;  // KV_RECURRENT: numbers of a layer's state; a page holds one of each layer, and
                // n_head_kv and dim_* are 0
    int exact;  // of them, the first ones, which are f32 where the others are bf16: inputs of a
                // convolution. An op's part is on one side
    bool is_latent; // a value is the first dim_v elements of its key: no values are stored
};

enum norm_kind { NORM_RMS, NORM_LAYER, NORM_LAYER_PLAIN, NORM_COUNT }; // PLAIN: without a bias
enum gate_kind {
    GATE_SILU,
    GATE_GELU,
    GATE_SWIGLU_OAI,
    GATE_SIGMOID,
    GATE_RELU2, // the square of the positive part
    GATE_NONE,  // the input itself: a plain product
    GATE_COUNT,
    GATE_XIELU = GATE_COUNT, // has numbers of its own, and no second input
};
enum route_score {
    ROUTE_SOFTMAX,
    ROUTE_SIGMOID,
    ROUTE_SPARSEMIXER, // PhiMoE's two: each has a softmax over the logits close to its own
};

// Of the gate kind that clamps: the bound of both inputs, and the factor inside the sigmoid.
#define GATE_OAI_LIMIT 7.0f
#define GATE_OAI_ALPHA 1.702f

// Apertus: `above` x^2 above 0, `below` (exp(x) - 1 - x) elsewhere, and `linear` x in both. The exp
// is that of `eps` where x is greater: between eps and 0.
struct gate_xielu {
    enum gate_kind kind; // GATE_XIELU
    float above, below, linear, eps;
};

struct op {
    enum op_kind kind;
    enum row_domain rows;
    int layer;  // -1 outside the layers
    int in[2];  // buffers; PLAN_NONE where unused
    int out;    // buffer
    int weight; // PLAN_NONE where unused; ATTENTION: the sinks, one logit per query head; NORM:
                // PLAN_NONE stands for ones; ROUTE: a factor of each expert's weight
    int bias;   // MATMUL, NORM_LAYER, CONV: a vector; EXPERTS: a row per expert; ROUTE: added to
                // the scores for the choice alone; DELTA, SCAN: of the time step; PLAN_NONE: none
    union {
        struct {
            float scale;    // multiplies the row (gemma, granite); 1 otherwise
            bool positions; // the row of the token's position instead of its id
            bool add;       // out += instead of out =
        } embed;
        struct {
            enum norm_kind kind;
            int group; // elements normed together: the width, or a head's size. The weight has
                       // that many elements, for all groups, or as many as the row
            float eps;
            bool add;    // out += norm (a norm after the block) instead of out =
            float scale; // multiplies out afterwards, the sum with `add`; 0: nothing does
        } norm;
        struct {
            bool add;    // out += in * W (residual) instead of out =
            float scale; // multiplies the product; 1 otherwise
        } matmul;
        struct {
            int rope; // index into plan->rope; in place on out
            int n_head, dim;
            int from; // of each head, its first rotated element
        } rope;
        struct {
            int group, layer; // layer inside its group; in[0] = k, in[1] = v (KV_APPEND; of latent
                              // groups PLAN_NONE); in[0] = q (ATTENTION)
            int n_head;       // ATTENTION: query heads
            float scale;      // ATTENTION: of the scores
            float softcap;    // ATTENTION: cap * tanh(s / cap); 0: none
            int ahead; // ATTENTION: the query's position is that far after its row's, which is the
                       // last one that it sees: a window begins later. 1 in a draft block that
                       // reads the model's keys; 0 elsewhere
        } kv;
        // Ops with a state, see docs/HYBRID.md. All start like kv.
        //   CONV   in[0]: channels. weight: [channels, taps]
        //   DELTA  in[0]: q, k of all key heads, v of all heads. in[1]: a of each head. weight: A
        //   SCAN   in[0]: x of all heads, B and C of all groups. in[1]: dt of each head. weight: A
        struct {
            int group, layer;
            int at;               // where the op's part of the layer's state begins, in floats
            int n_head;           // DELTA: of values; SCAN: of x
            int n_key;            // DELTA: key heads; SCAN: groups of B and C
            int dim_k, dim_v;     // a head's state is [dim_k, dim_v]
            int taps;             // CONV
            bool silu;            // CONV: act
            bool is_tiled;        // DELTA: head h has key head h % n_key, else h / (n_head / n_key)
            int beta;             // DELTA: the buffer of b of each head
            int skip;             // SCAN: the weight D
            float eps;            // DELTA: in the norms of q and k
            float dt_min, dt_max; // SCAN: bounds of dt
        } state;
        // out = act(in[0]) * in[1]; in[1] PLAN_NONE: act alone. An in[0] of width 1 is the factor
        // of the whole row.
        enum gate_kind gate;
        struct gate_xielu xielu; // GATE_XIELU; begins as gate does
        // COLUMNS: of each of n parts of a row, `len` floats from `from` on go to `to` of out's
        // part. Other floats of out stay.
        struct {
            int n, len;
            int from, stride_from; // stride: floats of a part
            int to, stride_to;
        } columns;
        // HEADS: a product for each of n heads, whose matrices are the weight's experts. Head h
        // reads the weight's columns from `from + h * stride_from` on, and writes its rows from
        // `to + h * stride_to` on. Other floats of out stay.
        struct {
            int n;
            int from, stride_from;
            int to, stride_to;
        } heads;
        struct {
            int n_used;     // ROUTE: the best n_used of in[0]'s logits; out is [ids, weights]
            bool normalize; // weights sum to 1 over the chosen; otherwise over all
            enum route_score score;
            float scale; // multiplies the weights; 0: nothing does
            float least; // is added to the sum that scores are normalized by
            int n_group; // experts are in groups of one size, and the best n_group_used groups are
            int n_group_used; // kept; 0: no groups
            int group_best;   // a group's score is the sum of its best ones: 1 or 2
            float jitter;     // SPARSEMIXER: half the distance at which a logit is close
        } route;
        // EXPERTS: in[0] is the input (slots 1: each of a token's experts gets the row), in[1] the
        // route, out has a slot for each expert used. COMBINE: out += the slots of in[0], weighted
        // by the route in[1], in the order of rank.
        struct {
            bool weighs_input; // EXPERTS: an expert's row is the input times the expert's weight.
                               // COMBINE: the slots are added as they are. Both or neither
            bool set;          // COMBINE: out = instead of out +=
        } experts;
        struct {
            float cap; // SOFTCAP: out = cap * tanh(out / cap)
        } softcap;
        // TEMPER: out *= log(floor((position + offset) / length) + 1) * factor + 1: queries of far
        // positions are larger. All tokens have it.
        struct {
            int length, offset;
            float factor;
        } temper;
    };
};

// Brings bytes of a weight: *at is where they are then, data itself or buffer, which has room for
// them. With 0 bytes it only tells which of the two. Several threads may call it at once.
typedef rn_status (*plan_fetch)(const void *ctx, const void *data, uint64_t bytes, void *buffer,
                                const void **at, rn_error *err);
// RN_ERR_IO: the bytes that were fetched may be of two models, because a file was written to
// meanwhile.
typedef rn_status (*plan_check)(const void *ctx, rn_error *err);

struct plan {
    struct arena arena; // owns the arrays and names below
    struct op *op;
    int n_op, cap_op; // of the model
    int n_op_all;     // with those of the draft block behind them (plan_begin_draft); else n_op
    struct plan_buffer *buffer;
    int n_buffer, cap_buffer;
    struct plan_weight *weight;
    int n_weight, cap_weight;
    struct plan_rope *rope;
    int n_rope, cap_rope;
    struct plan_kv_group group[PLAN_MAX_KV_GROUPS];
    int n_group;     // of the model
    int n_group_all; // with the draft block's
    int n_vocab;
    plan_fetch fetch; // NULL: weights are read in place
    plan_check check; // after the last fetch; NULL if there is nothing to check
    const void *fetch_ctx;
    bool failed;   // memory ran out while building
    bool in_draft; // while the draft block is built, and afterwards
    int logits;    // the buffer that run() leaves the logits in, rows = ROWS_LOGITS
    int hidden; // the input of the vocabulary's product, rows = ROWS_OUT; PLAN_NONE: the plan has
                // none to give
};

// Whether a weight's bytes are on disk alone: then they have to be fetched.
bool plan_on_disk(const struct plan *plan, const struct plan_weight *weight);
// Calls plan->check, if there is one.
rn_status plan_check_files(const struct plan *plan, rn_error *err);
// Whether the op reads and writes a page of a recurrent group.
bool op_has_state(enum op_kind kind);
// Whether the op multiplies by a weight: MATMUL, EXPERTS, HEADS.
bool op_is_product(enum op_kind kind);
// The floats of a layer's state that the op of a kind with op.state has.
int64_t op_state_floats(const struct plan *plan, const struct op *op);
// The number that the op TEMPER multiplies a row at that position by.
float op_temper_factor(const struct op *op, int pos);
const char *op_name(enum op_kind kind);
enum op_class op_class_of(enum op_kind kind);
// The kinds of the ops [first, first + n), each once, and the weights that they read, for people:
// "matmul attn_q+attn_k".
enum { PLAN_NAME = 96 };
void plan_ops_name(const struct plan *plan, int first, int n, char out[PLAN_NAME]);

// --- building. Out of memory marks the plan as failed, which plan_finish reports, so that builders
// need no checks between; wrong shapes are asserts. Names are borrowed: literals, or strings that
// outlive the plan. ---
void plan_init(struct plan *plan);
void plan_deinit(struct plan *plan);
int plan_add_buffer(struct plan *plan, const char *name, int width, enum row_domain rows);
int plan_add_slots(struct plan *plan, const char *name, int width, enum row_domain rows, int slots);
int plan_add_weight(struct plan *plan, const struct plan_weight *weight);
int plan_add_rope(struct plan *plan, const struct plan_rope *rope); // copies inv_freq
int plan_add_kv_group(struct plan *plan, const struct plan_kv_group *group);
void plan_add_op(struct plan *plan, const struct op *op);
// The ops and groups that are added from here on are those of a block that drafts tokens. Batches
// that ask for it (batch.is_draft) run these ops instead of the model's; both leave their results
// in `logits` and `hidden`. The block's INPUT rows are hidden rows, of the model or of its own.
void plan_begin_draft(struct plan *plan);
// Whether the plan has a draft block, and whether that one reads the model's keys and values
// instead of keeping its own.
bool plan_has_block(const struct plan *plan);
bool plan_block_reads(const struct plan *plan);
// Whether the model's ops, or those of its draft block, use a rope.
bool plan_rope_is_used(const struct plan *plan, int rope, bool in_block);
// The window of an ATTENTION; 0: it sees everything.
int op_window(const struct plan *plan, const struct op *op);
rn_status plan_finish(struct plan *plan, rn_error *err);

#endif
