// Matrix products of the CPU backend: the reference, the packed layouts, and the table of tuned
// kernels.
//
// A tuned kernel reads weights that were packed at load: 16 rows interleaved (a SIMD lane is a
// row), blocks in the order they are read. One packed layout per format serves every instruction
// set (matmul_layout.h). Rows past the matrix are packed as zeros and never stored. Every kernel
// gives the bits of matmul_reference() for any n.
#ifndef RN_BACKEND_CPU_MATMUL_H
#define RN_BACKEND_CPU_MATMUL_H

#include "plan/plan.h"

enum cpu_isa {
    ISA_SCALAR,
    ISA_AVX2,
    ISA_AVXVNNI,
    ISA_AVX512BW,
    ISA_AVX512,
    ISA_AMX,
    ISA_NEON,
    ISA_COUNT
};

enum {
    MATMUL_GROUP = 16, // rows interleaved
    MATMUL_TILE = 16,  // tokens whose quantized blocks are stored together
    MATMUL_SPAN = 32,  // columns of a quantized block
    // Groups between which kernels for many tokens share work.
    MATMUL_PANEL_GROUPS = 4,
    MATMUL_SCRATCH_BYTES = 160 << 10,
};

// How a kernel for one token requests its weights. Bits never depend on it. All 0: few streams,
// left to the hardware's prefetchers, or with AVX2 the format's own way.
enum matmul_fetch { // into which cache
    FETCH_NONE,
    FETCH_L1,
    FETCH_L2,
    FETCH_NTA,
    FETCH_BOTH, // L2, and from there into L1 when the line is near
};
enum { FETCH_NEAR = 8 }; // part of `ahead` at which it is
struct matmul_way {
    enum matmul_fetch fetch;
    int ahead; // bytes from the line that is read to the line that is requested
    bool wide; // twice as many runs of groups are read side by side
};

enum { MATMUL_WAYS = 16 };
extern const struct matmul_way matmul_ways[MATMUL_WAYS]; // tune.c chooses one of them

struct matmul_args {
    const void *w; // the packed weight (tuned kernels), or the file's rows (reference)
    int64_t rows, cols;
    int n;          // tokens
    const float *x; // [n, ldx] activations; read by float formats
    int64_t ldx;
    // Quantized activations, read by block formats. Tokens are stored in tiles of 16, the last of
    // which may be narrower; inside a tile block after block, in a block token after token
    // (matmul_x).
    const int8_t *xq;    // 32 per block
    const float *xd;     // 1: their scale
    const int16_t *xsum; // 2: exact sums of xq over each 16
    float *y;            // [n, ldy]
    int64_t ldy;
    const float *bias;     // [rows] or NULL
    float scale;           // 1: none
    bool add;              // y += instead of y =
    struct matmul_way way; // for kernels of one token that have ways
    // MATMUL_SCRATCH_BYTES of the calling thread, aligned to 64; for kernels of one token or many.
    // Too much for a stack whose size is not ours to choose.
    void *scratch;
};

// Where a token's quantized blocks are stored: block b is number first + b * stride.
struct matmul_x {
    int64_t first, stride;
};

static inline struct matmul_x matmul_x_of(int n, int64_t token, int64_t cols) {
    const int64_t tile = token / MATMUL_TILE * MATMUL_TILE;
    const int64_t width = n - tile < MATMUL_TILE ? n - tile : MATMUL_TILE;
    return (struct matmul_x){tile * (cols / MATMUL_SPAN) + token - tile, width};
}

// Computes rows of groups [group_begin, group_end) for all n tokens; group g is rows [16 g, 16 g +
// 16).
typedef void (*matmul_fn)(const struct matmul_args *args, int64_t group_begin, int64_t group_end);

// A kernel is chosen by format, instruction set, and this: the number of tokens.
enum matmul_shape { SHAPE_ONE, SHAPE_FEW, SHAPE_MANY, SHAPE_PANEL, SHAPE_COUNT };
enum { SHAPE_FEW_MAX = 8, SHAPE_MANY_MAX = 32 };

static inline enum matmul_shape matmul_shape_of(int n) {
    return n <= 1                ? SHAPE_ONE
           : n <= SHAPE_FEW_MAX  ? SHAPE_FEW
           : n <= SHAPE_MANY_MAX ? SHAPE_MANY
                                 : SHAPE_PANEL;
}

struct matmul_kernel {
    enum format_id format;
    enum cpu_isa isa;
    // Bytes of one packed group of a matrix with that many columns; a multiple of 64.
    int64_t (*group_bytes)(int64_t cols);
    // Packs groups [group_begin, group_end); dst is where group 0 begins.
    void (*pack)(const struct plan_weight *weight, int64_t group_begin, int64_t group_end,
                 void *dst);
    matmul_fn run[SHAPE_COUNT];
    const char *name[SHAPE_COUNT]; // the kernel's description, for people
    bool has_ways;                 // of reading, for one token (matmul_ways)
};

// NULL: no tuned kernel; use matmul_reference on the file's rows.
const struct matmul_kernel *matmul_kernel_find(enum format_id format, enum cpu_isa isa);

// The definition. Reads the file's layout (args->w = weight->data).
void matmul_reference(enum format_id format, const struct matmul_args *args, int64_t group_begin,
                      int64_t group_end);

// The definition of activation quantization for one row; n is a multiple of 32. Block b goes to
// place b * stride: q + 32 b stride, d + b stride, sum + 2 b stride.
void quantize_reference(const float *x, int64_t n, int8_t *q, float *d, int16_t *sum,
                        int64_t stride);

#endif
