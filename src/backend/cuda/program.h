// The compiler of plans, for the files that write stages: program.c has the list, files named
// program_*.c have groups of ops.
#ifndef RN_BACKEND_CUDA_PROGRAM_H
#define RN_BACKEND_CUDA_PROGRAM_H

#include "backend/cuda/cuda.h"

struct compiler {
    struct cuda_backend *b;
    const struct plan *plan;
    struct cuda_list *list;
    bool is_small;
    int first, end;  // the list's ops: the model's, or those of its draft block
    int *norm_of;    // [n_op_all] of a product: the norm that is fused into it; PLAN_NONE
    bool *is_folded; // [n_op_all] nothing is left of this op but its part in another stage
    uint64_t pair_bias_at;
    rn_status status;
    rn_error *err;
};

// A stage of the list being written, zeroed but its kind, rows and class of ops. op NULL: of no op.
// The name is borrowed. The next call may move it.
struct stage *stage_add(struct compiler *c, enum stage_kind kind, const struct op *op,
                        const char *name);

// program_state.c
// The norm in front of the gate that the gate's stage has too; NULL if there is none.
const struct op *gated_norm_of(const struct compiler *c, int gate);
void columns_add(struct compiler *c, const struct op *op);
void state_add(struct compiler *c, const struct op *op);
// program_latent.c
// The ops right before an append or an attention over a latent that it takes over, and their part.
int latent_before(const struct compiler *c, int index);
void latent_set(const struct compiler *c, int index, struct stage_attention *s);

// program_heads.c
void heads_add(struct compiler *c, const struct op *op);

// ---------------------------------------------------------------- addresses

static inline float *buffer_f32(const struct compiler *c, int buffer) {
    return (float *)(void *)(c->b->memory + c->b->layout.buffer[buffer].at);
}

// In the order that the products of this list read.
static inline struct rows16 rows16_of(const struct compiler *c, int buffer, int type) {
    const struct cuda_buffer *b = &c->b->layout.buffer[buffer];
    struct rows16 rows = {.ld = b->ld16, .is_bf16 = type};
    if (!c->is_small) rows.n_groups = b->n_groups;
    if (b->at16[type]) rows.at = (uint16_t *)(void *)(c->b->memory + b->at16[type]);
    return rows;
}

static inline int ld_of(const struct compiler *c, int buffer) {
    return c->b->layout.buffer[buffer].ld;
}

static inline const float *vector_of(const struct compiler *c, int weight) {
    if (weight == PLAN_NONE) return NULL;
    return (const float *)(const void *)(c->b->weights + c->b->layout.weight[weight].at);
}

// As many zeros or ones as a norm has weights.
static inline const float *constants_of(const struct compiler *c, int value) {
    return (const float *)(const void *)(c->b->weights + c->b->layout.constant_at[value]);
}

// ---------------------------------------------------------------- groups of ops

static inline bool writes(const struct op *op, int buffer) {
    return op->out == buffer && op->kind != OP_KV_APPEND;
}

// program_route.c
struct route_table route_table_of(const struct compiler *c, int n_expert, int n_used);
// The stages of a router, and in small steps of its experts; the number of ops that they cover.
int route_add(struct compiler *c, int index);
void combine_add(struct compiler *c, const struct op *op);
// Of experts whose input is multiplied by their weights: a 16-bit row for each pair.
void weigh_add(struct compiler *c, int index);
struct rows16 weighed_rows(const struct compiler *c, const struct op *op);

// program.c
const char *name_of(struct compiler *c, int first, int n);

// program_product.c
// Folds a norm of whole rows whose readers are products. Its input stays as it is until the last of
// them.
void norm_fold(struct compiler *c, int index);
// Whether the op at `writer` writes 16-bit rows. Attention and gates do where only products of one
// type read them; *type is theirs.
bool is_written_as_16(const struct compiler *c, int writer, int *type);
// The table of the route that the experts at `index` read.
struct route_table route_of_experts(const struct compiler *c, int index);
// PREPARE, unless the rows exist in that type already or, without `always`, every step stages them
// itself. Products of one input are neighbours, so each type is prepared once.
void prepare_input(struct compiler *c, int index, bool always);
// The products of one input from `index` on; their number.
int product_fill(struct compiler *c, struct stage_product *p, int index);
int product_add(struct compiler *c, int index);

// program_attention.c
// The ops before and after the append or the attention at `index` that its stages take over.
void attention_takes(const struct compiler *c, int index, int *n_before, int *n_after);
// The stages of an append, and of the attention that follows it; the number of ops that they cover.
int append_add(struct compiler *c, int index);
// Of an attention whose keys an earlier stage appended.
void attention_add(struct compiler *c, int index);

// program_rows.c
// Whether each group of a row has weights of its own.
bool has_weight_per_element(const struct plan *plan, const struct op *norm);
// A norm without a weight has ones, so its kernels are those of other norms.
const float *norm_weight(const struct compiler *c, const struct op *norm);
struct norm_by norm_by_of(const struct compiler *c, const struct op *norm);
int norm_input(const struct op *norm); // enum input_kind
void norm_add(struct compiler *c, const struct op *op, int flags);
// waits: it has a launch of its own.
void gather_add(struct compiler *c, const struct op *op, bool waits);
void embed_add(struct compiler *c, const struct op *op);
void input_add(struct compiler *c, const struct op *op);
void rope_add(struct compiler *c, const struct op *op);
void gate_add(struct compiler *c, int index);
void softcap_add(struct compiler *c, const struct op *op);
void temper_add(struct compiler *c, const struct op *op);

#endif
