// The program of a step as the kernels read it: plain data, for C and CUDA alike. program.c writes
// the list of stages once; upload.c writes a `struct step` for each batch; launches.c launches a
// kernel for each stage.
//
// Words. A *tile* is 16 output rows of a matrix, a *unit* is a tile's part of 32 columns: the piece
// of weights that a warp decodes at a time (codec.h). Units of a tile follow each other by columns,
// tiles by rows. A *slice* is an eighth of a tile's units: slice s has units [s * n / 8, (s + 1) *
// n / 8). A block has 8 warps, one for each slice; of a product it has one more.
#ifndef RN_BACKEND_CUDA_STAGE_H
#define RN_BACKEND_CUDA_STAGE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    UNIT_ROWS = 16,
    UNIT_COLS = 32,
    N_SLICES = 8,
    BLOCK_THREADS = 256,
    N_WARPS = BLOCK_THREADS / 32,
    PRODUCT_THREADS = BLOCK_THREADS + 32, // of a product: a warp more ends the tiles
    ASKED_THREADS = PRODUCT_THREADS + 32, // and one more asks for the weights
    SMALL_ROWS = 8,   // rows of a small step: the columns of one matrix instruction
    MAX_PRODUCTS = 3, // of a stage
    STEP_GROUPS = 4,  // PLAN_MAX_KV_GROUPS
};

enum stage_kind {
    STAGE_PAGES,      // clears and copies of KV pages
    STAGE_EMBED,      // rows of a table
    STAGE_GATHER,     // rows of tokens to out rows
    STAGE_NORM,       // f32 to f32
    STAGE_PREPARE,    // the input of a product: normed or not, to 16 bits
    STAGE_PRODUCT,    // matrix products with a common input
    STAGE_ROPE_TABLE, // cosines and sines of the rows, once a step
    STAGE_ROPE,       // f32, in place
    STAGE_APPEND,     // keys and values to pages
    STAGE_ATTENTION,  // with or without norm, rope and append before it
    STAGE_GATE,
    STAGE_ROUTE,
    STAGE_WEIGH, // inputs of experts times their weights
    STAGE_UP,    // of small steps: a route and the gated pairs of its experts
    STAGE_DOWN,  // of small steps: the experts' products of those, and their sum
    STAGE_COMBINE,
    STAGE_SOFTCAP,
    STAGE_TEMPER, // f32, in place
    STAGE_INPUT,  // rows that the batch brings, to f32 rows
    STAGE_COLUMNS,
    STAGE_CONV, // the ops with a state: state.cuh
    STAGE_DELTA,
    STAGE_SCAN,
    STAGE_HEADS,     // a product for each head
    STAGE_NORM_GATE, // norms of parts of a row, which gates multiply
    STAGE_KINDS
};

enum stage_rows { STAGE_TOKENS, STAGE_OUT, STAGE_LOGITS }; // enum row_domain

// How a product gets its input.
enum input_kind {
    INPUT_16,    // 16-bit rows in memory
    INPUT_F32,   // f32 rows, rounded to 16 bits
    INPUT_RMS,   // f32 rows, normed, then rounded
    INPUT_LAYER, // the same by layer norm
};

// A norm of a row.
struct norm_by {
    const float *weight, *bias; // bias: layer norm only
    float eps;
    int is_layer;
};

// Rows of 16-bit numbers, which products read. n_groups 0: row after row. Otherwise tiled, for the
// matrix instructions of larger steps: [unit of 32 columns][n_groups][4][8 rows][8 columns]. Part j
// of the four has the columns 8 t + 2 j + {0, 1} of t = 0 .. 3.
struct rows16 {
    uint16_t *at; // NULL: none
    int32_t ld;   // n_groups 0: elements from row to row
    int32_t n_groups;
    int32_t is_bf16, pad;
};

// One matrix of a stage.
struct product {
    const uint8_t *weight;              // units
    const uint8_t *const *expert;       // [n_expert] the same for each expert; NULL: none
    const float *bias;                  // [rows], of experts [n_expert, rows]; NULL: none
    float *out;                         // f32 [rows of the batch, ld]; NULL: out16
    struct rows16 out16;                // of gated pairs
    int32_t codec, n_tiles, n_rows, ld; // n_rows: output rows that are stored
    int32_t unit_bytes, pad;
    int32_t add, gate;    // add: out += ; gate: 1 + enum gate_kind of pairs: tile
                          // rows 0 to 7 are gates, 8 to 15 the factors
    float scale, softcap; // softcap 0: none
};

// Which row goes to which expert, written by STAGE_ROUTE. A pair is row * n_used + rank.
struct route_table {
    int32_t *first;        // [n_expert + 1] the first pair of each expert in `pair`
    int32_t *active;       // [n_expert] experts that have pairs, ascending
    int32_t *pair;         // [rows * n_used] pairs by expert, then in order
    int32_t *first_padded; // [n_expert + 1] `first` where each expert has a multiple of 8 rows
    int32_t *position;     // [rows * n_used] the padded position of each pair
    int32_t *n_active;
    uint32_t *arrived; // blocks whose rows are routed; 0 between launches
    int32_t n_expert, n_used;
};

// enum route_score
enum { SCORE_SOFTMAX, SCORE_SIGMOID, SCORE_SPARSEMIXER };

// The fields of op.route.
struct stage_route {
    const float *logit;         // [rows, ld_in]
    float *out;                 // [rows, ld_out] ids, then weights
    const float *bias, *factor; // [n_expert]; NULL: none
    int32_t ld_in, ld_out;
    int32_t score, is_by_scores,
        normalize; // is_by_scores: experts are chosen by scores, not logits
    int32_t n_group, n_group_used, group_best;
    float scale, least, jitter;
    struct route_table table;
    uint64_t expert_bytes; // of one expert, in all products that read the route
};

struct stage_product {
    const float *x;    // INPUT_F32 and normed ones: [rows, ldx]
    struct rows16 x16; // INPUT_16
    int32_t input, ldx;
    int32_t cols, n_units;       // n_units: of a tile; cols of the last one are padded
    int32_t n_products, n_tiles; // of all products together
    struct norm_by norm;
    int32_t is_routed; // experts: the rows are those of `route`
    int32_t slots_in;  // experts: the input has a row for each (row, rank), not for each row
    struct route_table route;
    struct product product[MAX_PRODUCTS];
};

// Experts of small steps: STAGE_UP and STAGE_DOWN, see experts.cuh.
struct stage_experts {
    struct stage_product product; // UP: of a gated pair; DOWN: its input has a row for each pair
    struct stage_route route;     // UP: the choice; DOWN: its rows are read
    float *sum;                   // DOWN: [rows, ld_sum]
    int32_t ld_sum, add;          // add: sum += instead of sum =
};

enum { GATE_KIND_XIELU = 6 }; // GATE_XIELU of enum gate_kind

// A row operation: fields as the kind needs them.
struct stage_rows_op {
    const float *in, *in2;
    float *out;
    struct rows16 out16; // PREPARE, GATE, WEIGH
    // PREPARE for experts of a larger step: the rows of out16 that each row goes to; NULL: its own
    const int32_t *position;
    int32_t n_position; // of a row
    int32_t ld_in, ld_in2, ld_out, width;
    int32_t add, positions;             // EMBED, NORM, COMBINE
    int32_t group;                      // NORM: elements normed together
    int32_t weight_step;                // NORM: from a group's weights to the next group's, or 0
    int32_t input;                      // PREPARE, WEIGH: enum input_kind
    int32_t gate, slots;                // GATE; gate: enum gate_kind
    int32_t is_factor;                  // GATE: `in` has one number for a row
    int32_t n_head, dim, n_rot, halves; // ROPE
    int32_t from;                       // ROPE: of each head, its first rotated element
    int32_t n_used;                     // WEIGH, COMBINE
    int32_t codec, unit_bytes, n_units; // EMBED
    int32_t n_rows_table;               // EMBED: rows of the table
    int32_t length, offset;             // TEMPER; ROPE_TABLE: the offset is added to positions
    float scale, cap;      // scale: of EMBED; of NORM, afterwards: 0 where there is none
    float xielu[4];        // GATE of that kind: above, below, linear, eps
    int32_t n_parts, len;  // COLUMNS; ld_in2: a part of in, dim: of out
    const uint8_t *table;  // EMBED: units
    const float *inv_freq; // ROPE [n_rot / 2]
    float magnitude;
    struct norm_by norm;
};

// How a page stores keys and values; kv.h has their names, kv.cuh the layout.
enum kv_type { KV_F16, KV_BF16, KV_INT8, KV_FP8, KV_TYPES };

enum {
    PAGE_TOKENS = 32, // KV_PAGE_TOKENS
    SPLIT_PAGES = 8,  // a split: the positions of one partial softmax
    SPLIT_TOKENS = SPLIT_PAGES * PAGE_TOKENS,
    ATTENTION_SHARED = 35200,   // of a block
    ATTENTION_PARTS = 96 << 20, // bytes for results of splits, at least
    PROMPT_PARTS = 256 << 20,   // the same where steps have PROMPT_PARTS_ROWS rows: of prompts
    PROMPT_PARTS_ROWS = 1024,
    ATTENTION_STATES = 32 << 20,   // bytes for running results, a place for each block
    ATTENTION_COUNTERS = 64 << 10, // a split or a segment of splits has few
};

// Attention of long contexts: threads and shared memory of its two launches.
enum {
    LONG_THREADS = 512,
    LONG_SHARED = 217600,
    FOLD_SHARED = 100736,
};

// Pages come to shared memory in chunks of units of 16 positions or elements (kv.cuh).
enum {
    KV_CHUNK_UNITS = 4,
    KV_SLOTS_MAX = 4,
};

// See attention.cuh.
struct stage_attention {
    const float *q, *k, *v; // f32 rows of tokens [.., ld]; k and v: of the fused form and APPEND
    struct rows16 out16;
    float *out; // f32 [rows, ld_out] instead, where there is no out16
    int32_t ld_q, ld_k, ld_v, ld_out;
    int32_t q_is_out;             // q has a row for each out row, not for each token
    int32_t group;                // KV group
    int32_t n_head_kv, ratio;     // ratio: query heads of a KV head
    int32_t dim_k, dim_v, window; // window 0: none
    int32_t is_chunk; // positions see those of their chunk of `window`, not the last ones
    int32_t is_alone; // of small steps: an earlier stage appended, so pages are read
                      // behind the wait
    float scale, softcap;
    const float *sinks; // [n_head]; NULL: none
    // before: norm of each head, rope, append. Fused where `fused` is not 0
    int32_t fused;
    int32_t q_norm, k_norm;           // whether there is one
    const float *q_weight, *k_weight; // [dim_k]
    float q_eps, k_eps;
    int32_t n_rot, halves; // n_rot 0: no rope
    const float *rope;     // [tokens, n_rot / 2, 2] cosines and sines, of STAGE_ROPE_TABLE
    int32_t kv_type;       // enum kv_type
    int32_t is_latent;     // attention_latent.cuh
    uint64_t page_bytes;   // of a page, of this layer
    uint8_t *pages;        // of this layer
    uint64_t parts_bytes;  // of parts, behind ATTENTION_STATES
    // of a latent: from element joined_at on a head is another row's, rotated; NULL: it is not
    const float *joined;
    int32_t ld_joined, joined_step, joined_at; // step: from a head to the next
    float *parts;                              // scratch: ATTENTION_STATES bytes, then parts_bytes
    uint32_t *counters;                        // scratch [ATTENTION_COUNTERS], all 0 between stages
    int32_t page_slots;                        // chunks of a warp: 1, 2 or 4, as a launch has room
    int32_t work;                              // of larger steps: of step.work; negative: none
};

// Ops with a state. A head's state of DELTA and SCAN is [dim_k, dim_v]: units of 32 rows, tiles of
// 8 columns. state_heads.cuh has the order of a tile's numbers.
enum {
    STATE_UNIT = 32,                // dim_k is padded to 1, 2, 4 or 8 of them
    STATE_DIM_MAX = 8 * STATE_UNIT, // of dim_k
    STATE_COLS = 8,                 // columns of a warp
    STATE_WARPS = 4,                // with columns; one more prepares rows
    STATE_BLOCK_COLS = STATE_WARPS * STATE_COLS,
    STATE_THREADS = (STATE_WARPS + 1) * 32,
    STATE_CHUNK = 16, // rows that are prepared at a time
    STATE_SLOTS = 3,  // chunks in shared memory
    CONV_THREADS = 128,
    CONV_ROWS = 8, // of a thread, at most
};

static inline int state_units(int dim_k) {
    return dim_k <= STATE_UNIT ? 1 : dim_k <= 2 * STATE_UNIT ? 2 : dim_k <= 4 * STATE_UNIT ? 4 : 8;
}
// Macros where device code asks too.
#define STATE_TILE_BYTES(units, is_bf16)                                                           \
    ((uint32_t)((units)*STATE_UNIT * STATE_COLS * ((is_bf16) ? 2 : 4)))
static inline uint64_t state_head_bytes(int dim_k, int dim_v, bool is_bf16) {
    return (uint64_t)((dim_v + STATE_COLS - 1) / STATE_COLS) *
           STATE_TILE_BYTES(state_units(dim_k), is_bf16);
}

struct stage_state {
    const float *in;            // CONV: channels; DELTA: q, k, v; SCAN: x, B, C
    const float *time, *beta;   // DELTA: a and b of each head; SCAN: dt
    float *out;                 // f32, as all rows here [tokens, ld]
    const float *weight, *bias; // CONV: [width, taps], and NULL where it has none; else A and dt
    const float *skip;          // SCAN: D of each head
    int32_t ld_in, ld_time, ld_beta, ld_out;
    int32_t group;       // KV group
    int32_t width, taps; // CONV
    int32_t n_head, n_key, dim_k, dim_v;
    int32_t silu, is_tiled, is_bf16;
    float eps, dt_min, dt_max;
    uint64_t page_bytes; // of a page, of this layer
    uint8_t *pages;      // of this layer: the op's part of page 0
};

// Products of heads, see heads.cuh.
struct stage_heads {
    const float *in;
    float *out;
    const uint8_t *const *weight; // [n] units of each head's matrix [n_rows, cols]
    int32_t ld_in, ld_out;
    int32_t n; // heads
    int32_t from, stride_from, to, stride_to;
    int32_t cols, n_units, n_tiles, n_rows; // n_units: of a tile
    int32_t codec, pad;
};

struct stage {
    int32_t kind;  // enum stage_kind
    int32_t rows;  // enum stage_rows
    int32_t ops;   // enum op_class, for times
    int32_t flags; // STAGE_*
    union {
        struct stage_product product;
        struct stage_rows_op row;
        struct stage_attention attention;
        struct stage_state state;
        struct stage_route route;
        struct stage_heads heads;
        struct stage_experts experts;
    };
} __attribute__((aligned(16)));

enum {
    STAGE_JOINS = 1,     // the next stage reads nothing of this one: one launch runs both
    STAGE_IF_HIDDEN = 2, // only where hidden rows are wanted
    STAGE_IF_UNFIT = 4,  // PREPARE: only where products do not make their input themselves
    STAGE_APPENDS = 8,   // attention that appends: runs for every token, whatever rows are wanted
};

struct step_seq {
    int32_t first_row, n_tokens, first_pos;
    int32_t first_out, n_out;
    uint32_t table[STEP_GROUPS]; // its page table of each group: an index into step.tables
    // of recurrent groups, as in batch_seq
    uint32_t state_from[STEP_GROUPS], snapshot[STEP_GROUPS];
    int32_t n_snapshot;
};

// The sequences of a step that have rows in attention, by the number of them: up to SMALL_ROWS
// (streams, drafts that are verified), or more (parts of prompts). Each has a form of its own.
enum step_part { PART_FEW, PART_MANY, STEP_PARTS };
struct step_seqs {
    const int32_t *index; // into step.seq, ascending
    int32_t n, pad;
};

// Work of attention that the host planned (attention_streams.h), for stages of one kind.
enum { STEP_WORKS = 8 };
struct step_work {
    const struct stream_entry *entry;
    int32_t n, pad;
};

struct step_page {
    int32_t group;
    uint32_t page, from; // from UINT32_MAX: zeros
    uint32_t pad;
};

// The pages of a group: of each layer all pages, one after the other. A step reads one layer after
// the other, so it needs few entries of the address tables at a time.
struct step_kv {
    uint8_t *at;
    uint64_t page_bytes, layer_bytes; // of a page, and of all pages, of one layer
    uint64_t n_layer;
};

// A batch on the device. Everything it points to is in one buffer that one copy brings. A launch
// may have more rows than the step: a kernel that reads anything here by its row stops at the
// step's number (step_rows), and so does one whose rows change anything beside their own buffers.
struct step {
    int32_t n_tokens, n_out, n_logits, n_seqs, n_pages;
    int32_t n_seqs_out;     // of stages of out rows: with runs of further out rows of a sequence
    const int32_t *token;   // [n_tokens] negative: -1 - the row of the step before
    const int32_t *pos;     // [n_tokens]
    const int32_t *out_row; // [n_out]
    const int32_t *row_seq; // [n_tokens] the sequence of a row
    const struct step_seq *seq;
    struct step_seqs part[2][STEP_PARTS]; // [of token rows, of out rows]; small steps have none
    struct step_work work[STEP_WORKS];    // of PART_FEW, by stage_attention.work
    const uint32_t *tables;
    const struct step_page *page;
    const int32_t *before; // tokens that the step before chose
    const float *input;    // [n_tokens, the op's width] of STAGE_INPUT
    uint64_t *touched;     // bytes of experts that were read
    struct step_kv kv[STEP_GROUPS];
};

#endif
