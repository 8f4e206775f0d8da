// The step's kernels, for the host: their arguments and the division of a block's shared memory.
#ifndef RN_BACKEND_CUDA_STEP_H
#define RN_BACKEND_CUDA_STEP_H

#include "stage.h"

enum {
    PRODUCT_BLOCKS = 2,  // of a product on a multiprocessor, where it has tiles for them
    RING_SLOTS_MAX = 8,  // of a warp
    PRODUCT_HEAD = 1152, // barriers of the rings, sums of norms
    ROWS_BLOCKS = 2,     // of row stages of larger steps on a multiprocessor
    ROWS_JOINED = 4,     // stages that one launch runs at most
    ROWS_SHARED = 6144,  // of a launch of row stages
};

// Units of a slot of a ring: a constant of the codec, so that a slot's arithmetic is one piece of
// code.
#define SLOT_UNITS(unit_bytes) ((unit_bytes) >= 1024 ? 4 : 8)
// Forms of a product (product.cuh). Staged: each block brings the input to shared memory. Asked:
// staged, and one more warp asks for the weights. Pairs: asked, and a block has two tiles at a
// time.
enum product_form { PRODUCT_READ, PRODUCT_STAGED, PRODUCT_ASKED, PRODUCT_PAIRS, PRODUCT_FORMS };
// Units of asked forms have at most so many bytes.
#define ASKED_UNIT_MOST 320

// Nanoseconds of the device when a launch began (row stages only) and ended; NULL: not wanted.
struct launch_clock {
    uint64_t *begin, *end;
};

// A product. Its stage is in the arguments, so a block has it before it reads any memory.
struct product_args {
    struct stage_product stage;
    struct launch_clock clock;
    int32_t n_rows;
    int32_t n_items;             // tiles of all products, or pairs of tiles; of one expert
    int32_t n_slots, slot_bytes; // of a slice's ring
    int32_t n_early;             // slots that are asked for before the launch waits
};

// Products of larger steps (product_many.cuh). A block has 128 rows of a matrix, and 64, 128 or 160
// columns: rows of the batch.
enum {
    MANY_THREADS = BLOCK_THREADS + 128, // a warpgroup more, which gives its registers away
    MANY_TILES = 8,
    MANY_FEW = 64, // columns of the three forms
    MANY_MIDDLE = 128,
    MANY_WIDE = 160,
    MANY_STAGES_MAX = 12,
    MANY_ENDS = 20480,            // ends of tiles
    MANY_HEAD = 2048 + MANY_ENDS, // barriers of the ring, then the ends
    MANY_SUMS_MOST = 64 << 20,    // bytes of the sums of parts
    MANY_ITEMS_MAX = 4096,        // that have parts
};
// Units of a stage.
#define MANY_UNITS(columns, unit_bytes) ((columns) == MANY_FEW && (unit_bytes) < 1024 ? 4 : 2)

struct many_args {
    struct stage_product stage; // its products have one codec
    struct launch_clock clock;
    int32_t n_rows, n_stages;
    int32_t n_whole;    // items that have all slices; the others have parts
    int32_t parts_log;  // a part has 8 >> parts_log slices
    float *sums;        // of parts
    uint32_t *counters; // of parts: [items, 2], all 0 between launches
};

static inline uint32_t many_stage_bytes(int columns, int unit_bytes) {
    return (uint32_t)(MANY_UNITS(columns, unit_bytes) * (MANY_TILES * unit_bytes + columns * 64));
}
// Bytes of the sums of one item.
static inline uint64_t many_sums_bytes(int columns) {
    return (uint64_t)(N_SLICES * MANY_TILES * UNIT_ROWS * columns * 4);
}

struct attention_args {
    struct stage_attention stage;
    const struct step *step;
    struct launch_clock clock;
    int32_t kind, rows, n_rows; // enum stage_kind: APPEND or ATTENTION
    int32_t run;                // splits of an item, of a small step
    int32_t part;               // enum step_part: its sequences; STEP_PARTS: all
    int32_t is_early;           // no stage of the step clears or copies pages
};

// STAGE_PREPARE.
struct prepare_args {
    struct stage_rows_op stage;
    struct launch_clock clock;
    int32_t n_rows;
    // of rows that go to places of their own: a launch may have more rows than the step
    const struct step *step; // NULL: n_rows
    int32_t rows;            // enum stage_rows
};

// Row stages that read nothing of each other.
struct rows_args {
    const struct stage *stages;
    const struct step *step;
    struct launch_clock clock;
    int32_t n_stages;
    int32_t n_rows[ROWS_JOINED];
};

// Bytes of shared memory: the head, rings, sums of slices, x. tiles: that a block has at a time.
static inline uint32_t product_shared_bytes(int n_slots, int slot_bytes, int tiles,
                                            uint32_t x_bytes) {
    return PRODUCT_HEAD + (uint32_t)(N_SLICES * n_slots * slot_bytes) +
           (uint32_t)(tiles * 2 * N_SLICES * 512) + x_bytes;
}
// Items of the products: tiles of each, so many at a time.
static inline int product_items(const struct stage_product *s, int tiles) {
    int n = 0;
    for (int i = 0; i < s->n_products; i++) n += (s->product[i].n_tiles + tiles - 1) / tiles;
    return n;
}

#ifdef __cplusplus
extern "C" {
#endif
// Kernels, for cudaLaunchKernel.
// codec: enum codec_id; CODEC_COUNT: any, also of several products, but none of BF16 among others.
// form: enum product_form; asked ones have ASKED_THREADS threads.
const void *product_small(int codec, int form);
// columns: MANY_FEW, MANY_MIDDLE or MANY_WIDE.
const void *product_many(int codec, int columns);
// Of attention_small_run.
const void *attention_small(int kv_type, int dim_k, int dim_v);
// Of attention_long_run, which has heads of 64 or 128 elements; NULL: others. A fold follows it.
const void *attention_long(int kv_type, int dim_k, int dim_v);
const void *attention_fold(void);
const void *attention_any(int kv_type);
// input: enum input_kind, but INPUT_16.
const void *prepare_kernel(int input);
const void *rows_kernel(void);
const void *read_kernel(void);
#ifdef __cplusplus
}
#endif

#endif
