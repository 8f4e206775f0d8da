// The CPU backend's own state. cpu.c creates and destroys it, layout.c gives it memory, pack.c
// packs the weights, program.c compiles and runs the stages.
//
// Invariant: after create nothing here is allocated or moved; a run writes only into `memory` and
// `kv`, and the matmuls' n.
#ifndef RN_BACKEND_CPU_CPU_H
#define RN_BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/region.h"
#include "base/pool.h"

struct cpu_weight {
    const struct matmul_kernel *kernel; // NULL: the reference on the file's rows
    const void *packed;                 // what the kernel reads; NULL: not used by a MATMUL
    const float *vector;                // norm weights and biases as f32
};

struct cpu_buffer {
    float *data; // [rows, ld]
    int64_t ld;  // floats from row to row
};

// One product of a stage; the stage's row groups count through its products.
struct cpu_matmul {
    const struct matmul_kernel *kernel;
    enum format_id format;
    struct matmul_args args; // complete but for n
    int64_t group_first, group_end;
};

// A stage covers ops [first, first + n) of the plan, all of one kind.
struct cpu_stage {
    int first, n;
    // MATMUL: products that share an input run as one
    struct cpu_matmul *matmul; // [n]
    int64_t n_groups, group_chunk;
    int token_tile;  // tokens whose activations stay in the core's cache
    bool quantize;   // the input must be quantized first
    int64_t in_cols; // of the input
};

// Query rows of one sequence that share a pass over its pages.
struct cpu_tile {
    int seq, first_row, n_rows;
};

struct cpu_backend {
    struct backend base;
    const struct plan *plan;
    const struct cpu_ops *ops;
    struct pool *pool;
    int max_tokens, max_logits, max_seqs;
    enum kv_type kv_type;

    struct arena arena;        // the arrays below
    struct cpu_weight *weight; // [plan->n_weight]
    struct cpu_buffer *buffer; // [plan->n_buffer]
    float **rope_table;        // [plan->n_rope] -> [max_tokens, n_rot]
    struct cpu_stage *stage;
    int n_stage;

    struct region packed; // weights, in the layout of their kernels
    struct region memory; // buffers and scratch, carved by layout.c
    struct region kv[PLAN_MAX_KV_GROUPS];
    uint64_t page_bytes[PLAN_MAX_KV_GROUPS];

    // scratch of a run
    int8_t *xq;         // [rows, cols] quantized input of the next matmuls
    float *xd;          // [rows, cols / 32]
    int16_t *xsum;      // [rows, cols / 16]
    int32_t *row_seq;   // [max_tokens] the sequence of a token row
    int32_t *logit_pos; // [max_logits]
    struct cpu_tile *tile;
    int n_tile;
    float *attention; // [threads, attention_floats]
    int64_t attention_floats;
    const struct batch *batch; // of the run in progress
    uint64_t cache_bytes;      // of one last-level cache
    uint64_t cache_bytes_all;  // of all of them
};

static inline int64_t cpu_groups(int64_t rows) { return (rows + MATMUL_GROUP - 1) / MATMUL_GROUP; }

// Query heads of a KV head, and the rows that a tile of them takes.
enum { TILE_QUERIES = 32 };
static inline int cpu_tile_rows(const struct plan *plan, const struct op *op) {
    const int ratio = op->kv.n_head / plan->group[op->kv.group].n_head_kv;
    return ratio >= TILE_QUERIES ? 1 : TILE_QUERIES / ratio;
}

rn_status cpu_layout(struct cpu_backend *b, const struct backend_config *config, rn_error *err);
rn_status cpu_pack(struct cpu_backend *b, const struct backend_config *config, rn_error *err);
rn_status cpu_program_compile(struct cpu_backend *b, rn_error *err);
void cpu_program_run(struct cpu_backend *b, const struct batch *batch);

void cpu_cache_find(uint64_t *one, uint64_t *all);
double cpu_bandwidth(struct backend *backend, uint64_t working_set, int budget_ms);

#endif
