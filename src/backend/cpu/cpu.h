// The CPU backend's own state. It is created and destroyed by cpu.c, gets its memory from layout.c,
// and its weights are packed by pack.c. Stages are compiled and run by program.c; attention.c,
// state.c, experts.c and heads.c have those of attention, ops with a state, mixtures of experts and
// products by head. KV pages
// are cleared and copied by pages.c; tokens are chosen by choose_rows.c.
//
// Invariant: after create nothing here is allocated or moved, except the profile when it is first
// switched on. A run writes only into `memory` and `kv`, the matmuls' n, and the members that are
// marked as a run's.
#ifndef RN_BACKEND_CPU_CPU_H
#define RN_BACKEND_CPU_CPU_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/region.h"
#include "base/pool.h"

struct cpu_weight {
    const struct matmul_kernel *kernel; // NULL: the reference on the file's rows
    const void *packed;                 // the packed weights; NULL: not used by a MATMUL
    const void **expert;                // [n_expert] the same for each expert
    // Rows as the file has them: of tables, and of matrices without a kernel. NULL of a cold table
    // on disk, whose rows are fetched one by one, and of weights that need none.
    const uint8_t *rows;
    bool has_rows;       // they are a copy, in b->rows
    const float *vector; // norm weights, biases (of experts: row by row), sinks as f32
};

struct cpu_buffer {
    float *data; // [rows, ld]
    int64_t ld;  // floats from row to row
};

enum {
    CPU_CHUNK_BYTES = 128 << 10, // of weights that a thread takes at a time, at most
    // The same for float formats, whose kernels read several runs side by side: long ones.
    CPU_CHUNK_BYTES_FLOAT = 512 << 10,
};

// One product of a stage; the stage's row groups count through its products.
struct cpu_matmul {
    const struct matmul_kernel *kernel;
    enum format_id format;
    const struct cpu_weight *weight;
    struct matmul_args args; // complete but for n; of experts and heads also for w and the bias
    int64_t group_first, group_end;
};

// A stage covers ops [first, first + n) of the plan, all of one kind.
struct cpu_stage {
    int first, n;
    enum op_class ops;
    // MATMUL, EXPERTS: products that share an input run as one. HEADS: the product of a head
    struct cpu_matmul *matmul; // [n]
    int64_t n_groups, group_chunk;
    uint64_t bytes;               // of the weights: of all products, of one expert or head
    int n_workers;                // MATMUL: of a run with one row
    const struct cpu_stage *next; // the product after this stage, maybe of the next step
    int token_tile;               // tokens whose activations stay in the core's cache
    bool quantize;                // the input must be quantized first
    bool gather;                  // EXPERTS: the input's rows must be put in the pairs' order first
    bool weigh;                   // EXPERTS: times the weight of the pair, before it is quantized
    int64_t in_cols;              // of the input
};

// Query rows of one sequence that share a pass over its pages; attention.c says how a tile becomes
// items.
struct cpu_tile {
    int seq, first_row, n_rows;
    int n_ranges; // of splits; 1: the tile is whole
    int64_t first_item;
    int64_t head_floats; // of parts, for each KV head
    float *parts;        // [n_head_kv, head_floats]
};

// Which token goes to which expert. A pair is a token and one of its experts. Pairs are sorted by
// expert, then in the tokens' order. So an expert's weights are read once for all of its tokens.
struct cpu_route {
    int buffer;      // the ROUTE that this holds: its out
    int n_pairs;     // rows * experts used
    int32_t *row;    // [pairs] the row of each pair
    int32_t *pair;   // [rows * used] the index of the pair of (row, rank)
    int32_t *first;  // [n_expert + 1] the first pair of each expert
    int32_t *active; // [n_expert] experts that have pairs
    int n_active;
};

struct cpu_backend {
    struct backend base;
    const struct plan *plan;
    const struct cpu_ops *ops;
    struct pool *pool; // the engine's
    int max_tokens, max_logits, max_seqs;
    enum kv_type kv_type;
    bool bf16_states;

    struct arena arena;        // the arrays below
    struct cpu_weight *weight; // [plan->n_weight]
    struct cpu_buffer *buffer; // [plan->n_buffer]
    float **rope_table;        // [plan->n_rope] -> [max_tokens, n_rot]
    const float *ones, *zeros; // of norms without a weight or a bias; NULL where there are none
    struct cpu_stage *stage;
    int n_stage;     // of the model
    int n_stage_all; // with those of the draft block

    bool is_slow[FORMAT_COUNT]; // formats without a kernel
    char slow[128];             // the same, for people

    struct matmul_way way[FORMAT_COUNT]; // of products for one token

    struct region packed; // weights, in the layout of their kernels
    struct region rows;   // weights, in the layout of their files
    struct region memory; // buffers and scratch, carved by layout.c
    struct region kv[PLAN_MAX_KV_GROUPS];
    uint64_t page_bytes[PLAN_MAX_KV_GROUPS];

    // of a run: scratch in `memory`, and its batch
    uint8_t *cold_row;   // [threads, cold_bytes] a row of a cold table
    uint64_t cold_bytes; // 0: there is none on disk
    _Atomic bool
        has_failed; // a row could not be fetched: the thread that sets it sets the next two
    rn_status failed;
    rn_error fault;
    int8_t *xq;    // rows * cols: quantized input of the next matmuls, in matmul.h's order
    float *xd;     // a 32nd as many
    int16_t *xsum; // a 16th
    float *xg;     // [pairs, cols] input rows of experts, in the pairs' order
    uint8_t *matmul_scratch; // [threads, MATMUL_SCRATCH_BYTES]
    struct cpu_route route;
    uint64_t expert_bytes; // of experts that the run touched
    int32_t *row_seq;      // [max_tokens] the sequence of a token row
    int32_t *out_pos;      // [max_tokens] the positions of the out rows
    struct cpu_tile *tile;
    int n_tile;
    float *attention; // [threads, attention_floats]
    int64_t attention_floats;
    float *parts; // [parts_floats] of splits, for tiles that are cut
    int64_t parts_floats;
    _Atomic int32_t *ranges_left; // [tiles, KV heads] of a tile's ranges, those not yet done
    const struct batch *batch;    // of the run in progress
    struct chooser *chooser;      // [n_choosers] one for each thread
    int n_choosers;
    int32_t *token; // [max_logits] of the last run

    uint64_t cache_bytes;     // of one last-level cache; 0: unknown
    uint64_t cache_bytes_all; // of all of them

    bool profiling;
    struct step_stage *profile; // [n_stage] times of the stages; NULL: never switched on

    // the result of the last step
    const float **logits;    // [max_logits] the rows of the buffer, where they are wanted
    const float **hidden;    // [max_tokens]
    bool in_flight;          // submitted, and not waited for
    uint64_t (*now)(void *); // the host's clock
    void *now_ctx;
    uint64_t run_ns, choose_ns;
    uint64_t ops_ticks[OPS_COUNT]; // of the run, by class
};

static inline int64_t cpu_groups(int64_t rows) { return (rows + MATMUL_GROUP - 1) / MATMUL_GROUP; }

// Query heads of a KV head, and the rows that a tile of them takes.
enum { TILE_QUERIES = 128 };
static inline int cpu_tile_rows(const struct plan *plan, const struct op *op) {
    const int ratio = op->kv.n_head / plan->group[op->kv.group].n_head_kv;
    return ratio >= TILE_QUERIES ? 1 : TILE_QUERIES / ratio;
}

// A stage's rows, one after the other by some thread.
struct cpu_rows_job {
    struct cpu_backend *b;
    const struct cpu_stage *stage;
    const struct op *op;
};

static inline float *cpu_row_at(const struct cpu_backend *b, int buffer, int64_t row) {
    return b->buffer[buffer].data + row * b->buffer[buffer].ld;
}

// Where the op's layer begins in a page of its group.
static inline uint64_t cpu_layer_at(const struct cpu_backend *b, const struct op *op) {
    return b->page_bytes[op->kv.group] / (uint64_t)b->plan->group[op->kv.group].n_layer *
           (uint64_t)op->kv.layer;
}

// Rows of a domain in the run's batch.
static inline int cpu_rows_of(const struct batch *batch, enum row_domain rows) {
    return rows == ROWS_TOKENS ? batch->n_tokens
           : rows == ROWS_OUT  ? batch->n_out
                               : batch->n_logits;
}

// The workers that a stage is worth, by the rates of one thread in its caches. Threads that wait
// for memory are slower than that, but then the stage is large and takes all of them.
static inline int cpu_workers(const struct cpu_backend *b, int64_t elements) {
    return pool_workers_for(b->pool, (double)elements / 8);
}
static inline int cpu_product_workers(const struct cpu_backend *b, uint64_t bytes, int64_t n_rows) {
    return pool_workers_for(b->pool, (double)bytes / 24 * (1 + (double)(n_rows - 1) / 8));
}

// row_work: elements of a row, weighted by the cost of one. Little work stays on the calling
// thread.
void cpu_rows_run(struct cpu_backend *b, pool_fn fn, struct cpu_rows_job *job, int64_t n_rows,
                  int64_t row_work);
// Groups [begin, end) of a product, tile tokens at a time. scratch: of the calling thread.
void cpu_matmul_run(const struct cpu_matmul *m, int tile, int64_t begin, int64_t end,
                    void *scratch);
static inline void *cpu_matmul_scratch(const struct cpu_backend *b, int worker) {
    return b->matmul_scratch + (int64_t)worker * MATMUL_SCRATCH_BYTES;
}
// One row of a product's input, quantized to its place in xq, xd and xsum.
void cpu_quantize(const struct cpu_backend *b, const float *x, int64_t n, struct matmul_x at);
// Tokens [first, first + n) of a product; first is a multiple of MATMUL_TILE, or begins a product
// of its own.
struct matmul_args cpu_matmul_part(const struct matmul_args *args, int64_t first, int n);

void cpu_attention_stage(struct cpu_backend *b, const struct op *op);
void cpu_state_stage(struct cpu_backend *b, const struct op *op);
void cpu_route_stage(struct cpu_backend *b, const struct cpu_stage *stage, int n_rows);
void cpu_experts_stage(struct cpu_backend *b, struct cpu_stage *stage, int n_rows);
void cpu_heads_stage(struct cpu_backend *b, struct cpu_stage *stage, int n_rows);
void cpu_combine_stage(struct cpu_backend *b, const struct cpu_stage *stage, int n_rows);

rn_status cpu_layout(struct cpu_backend *b, const struct backend_config *config, rn_error *err);
rn_status cpu_pack(struct cpu_backend *b, const struct backend_config *config, rn_error *err);
rn_status cpu_program_compile(struct cpu_backend *b, rn_error *err);
void cpu_program_run(struct cpu_backend *b, const struct batch *batch);

// place.c: where the machine has several memory nodes, weights are stored near the thread that
// reads them, and KV pages are spread over the nodes. Before the memory is touched.
void cpu_place_weights(const struct cpu_backend *b);
void cpu_place_kv(const struct cpu_backend *b);
// Calls fn for the ranges of a product's weights that the workers of one node read; their bounds
// are whole huge pages, but for those of the matrices themselves.
typedef void (*cpu_place_fn)(void *ctx, const uint8_t *begin, const uint8_t *end, int node);
void cpu_place_stage(const struct pool *pool, const struct cpu_stage *stage, cpu_place_fn fn,
                     void *ctx);

// tune.c: tries the ways of reading on the packed weights, and sets those of all products.
void cpu_tune(struct cpu_backend *b);

// choose_rows.c: a token for each row of logits that has a choice.
rn_status cpu_choose_init(struct cpu_backend *b, rn_error *err);
void cpu_choose_deinit(struct cpu_backend *b);
void cpu_choose_rows(struct cpu_backend *b, const struct batch *batch);

// pages.c: the batch's clears and copies, in order.
void cpu_pages_run(struct cpu_backend *b, const struct batch *batch);
void cpu_page_release(struct backend *backend, int group, uint32_t page);
rn_status cpu_page_read(struct backend *backend, int group, uint32_t page, void *to, rn_error *err);
rn_status cpu_page_write(struct backend *backend, int group, uint32_t page, const void *from,
                         rn_error *err);
void cpu_page_identity(const struct backend *backend, char out[BACKEND_IDENTITY]);

// ahead.c: links each stage to the product after it, names that one while a product runs, and
// fetches from it. The name is in the pool's slot, for all backends that run on its threads.
void cpu_ahead_link(struct cpu_backend *b);
void cpu_ahead_name(struct cpu_backend *b, const struct cpu_stage *stage, int n_rows);
void cpu_ahead_enter(struct cpu_backend *b);
void cpu_ahead_leave(struct cpu_backend *b); // nothing of this one is fetched from any more
bool cpu_ahead_fetch(void *ctx, int worker, int64_t step);

double cpu_bandwidth(struct backend *backend, uint64_t working_set, int budget_ms);
double cpu_peak_macs(struct backend *backend, enum backend_math math);

void cpu_profile_switch(struct backend *backend, bool on);

#endif
