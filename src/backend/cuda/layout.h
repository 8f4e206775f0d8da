// Where a GPU's memory stores weights, buffers and scratch of a plan, and how many bytes these
// take. The files of sizes/ compute it without the CUDA runtime: they are a part of the program,
// too, which plans for GPUs that are not here. layout.c has the layout, state_bytes.c the pages of
// recurrent groups, need.c the sums.
#ifndef RN_BACKEND_CUDA_LAYOUT_H
#define RN_BACKEND_CUDA_LAYOUT_H

#include "backend/backend.h"
#include "backend/cuda/codec.h"
#include "base/arena.h"

// What a weight is on the device.
enum weight_use {
    USE_NONE,
    USE_MATRIX, // units
    USE_FIRST,  // units of a pair of matrices whose results are gated: this one has the gates
    USE_SECOND, // the other one of a pair; its units are the first one's
    USE_VECTOR, // f32
};

struct cuda_weight {
    enum weight_use use;
    int pair; // USE_FIRST: the second
    enum codec_id codec;
    int n_units;       // of a tile
    int64_t n_tiles;   // of one matrix
    uint64_t bytes;    // of one matrix on the device
    uint64_t at;       // of the weights' memory; experts follow each other
    uint64_t table_at; // experts: of their addresses
};

struct cuda_buffer {
    uint64_t at; // of the step's memory: f32 [rows * slots, ld]
    int ld;
    uint64_t at16[2]; // 16-bit rows [rows * slots, ld16], f16 and bf16; 0: none
    int ld16;
    int n_groups;   // of 8 rows, where 16-bit rows are tiled
    int64_t n_rows; // rows * slots
};

// The device's memory, by offsets: the same for `need` and for `create`.
struct cuda_layout {
    struct cuda_weight *weight; // [n_weight]
    struct cuda_buffer *buffer; // [n_buffer]
    uint64_t weight_bytes;      // of all
    uint64_t step_bytes;
    uint64_t rope_at[8];     // [n_rope] tables: [max_tokens, n_rot / 2] of cosine and sine
    uint64_t inv_freq_at[8]; // of the weights' memory
    uint64_t pair_bias_at;   // of the weights' memory: biases of pairs, one after the other
    uint64_t constant_at[2]; // of the weights' memory: n_constants zeros, and as many ones
    int n_constants;
    uint64_t route_at;   // tables of routes
    uint64_t weighed_at; // 16-bit rows of STAGE_WEIGH
    uint64_t parts_at, counters_at;
    uint64_t sums_at, sums_bytes, sums_counters_at; // of products that are cut into parts
    uint64_t choose_at, chosen_at;
    int max_expert, max_used;
    int64_t max_pairs;
};

enum { CUDA_MAX_ROPE = 8 };

// What the device leaves of a step for the host, and the next step: numbers, then the tokens.
struct cuda_result {
    uint64_t clock[3];     // nanoseconds: start of the stages, their end, end of the choice
    uint64_t expert_bytes; // that were read
};
#define CUDA_CHOSEN_BYTES(n) (sizeof(struct cuda_result) + ((uint64_t)(n)*4 + 255) / 256 * 256)

// Floats from row to row of a buffer of that width.
static inline int cuda_ld(int width) { return (width + 31) / 32 * 32; }

// layout.c
rn_status cuda_layout_make(const struct plan *plan, const struct backend_sizes *sizes,
                           struct arena *arena, struct cuda_layout *out, rn_error *err);
// need.c
// The layout refuses ops by their names, so it comes first. Then groups are refused that pages have
// no layout for.
rn_status cuda_layout_check(const struct plan *plan, const struct backend_sizes *sizes,
                            const char *kv_type, struct arena *arena, struct cuda_layout *out,
                            rn_error *err);
// Bytes of a page of a group: all its layers. kv_type: enum kv_type.
uint64_t cuda_group_bytes(const struct plan *plan, int group, const struct backend_sizes *sizes,
                          int kv_type);
// backend_class.need
rn_status cuda_need(const struct plan *plan, const struct backend_sizes *sizes, const char *kv_type,
                    struct backend_need *out, rn_error *err);
// backend_class.stored
void cuda_stored(double out[FORMAT_COUNT]);
// planned.c
// What all GPUs have alike, here or not; the rest of the device is zeros.
void cuda_traits(struct backend_device *out);
// latent_room.c
// backend_class.block_check
rn_status cuda_block_check(const struct plan *plan, const char *kv_type, uint32_t block_bytes,
                           const char *device, rn_error *err);
// state_bytes.c
// Where the op's part begins in its layer's part of a page.
uint64_t cuda_state_at(const struct plan *plan, const struct op *op, bool is_bf16);
// Bytes of a page of a recurrent group, of one layer.
uint64_t cuda_state_bytes(const struct plan *plan, int group, bool is_bf16);
// layout.c: questions about a plan
// The end of the part of the plan that has the op: the model, or its draft block.
int cuda_part_end(const struct plan *plan, int op);
bool cuda_is_product(const struct op *op);
// Experts whose input is multiplied by their weights.
bool cuda_weighs(const struct op *op);
bool cuda_reads(const struct op *op, int buffer);
// The op that makes the pair of two products, or NULL: OP_GATE whose inputs they are.
const struct op *cuda_pair_of(const struct plan *plan, int op, int *second);
// How a product's input is rounded: f16 (0) or bf16 (1).
int cuda_input_type(const struct plan *plan, const struct op *op);
// Whether each reader of the rows that op wrote is a product that reads 16-bit rows of one type;
// *type is theirs.
bool cuda_only_products_read(const struct plan *plan, int op, int *type);

#endif
