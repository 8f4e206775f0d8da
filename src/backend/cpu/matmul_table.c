// THE table of tuned kernels: which function serves which format, instruction set and number of
// tokens. Every kernel of a format reads the same packed layout, so a matrix is packed once for
// every instruction set. `runnel bench --kernels` prints it. The other table has the ways to read
// weights for one token, of which tune.c chooses.
#include "backend/cpu/matmul_table.h"

#define SHAPES(one, few, many, panel)                                                              \
    { [SHAPE_ONE] = one, [SHAPE_FEW] = few, [SHAPE_MANY] = many, [SHAPE_PANEL] = panel }

#define KERNEL(id, isa_id, layout, run_shapes, name_shapes)                                        \
    {.format = FORMAT_##id,                                                                        \
     .isa = ISA_##isa_id,                                                                          \
     .group_bytes = matmul_group_bytes_##layout,                                                   \
     .pack = matmul_pack_##layout,                                                                 \
     .run = run_shapes,                                                                            \
     .name = name_shapes,                                                                          \
     .has_ways = ISA_##isa_id != ISA_NEON},

// Floats use no VNNI: the sets that have it take the kernels of AVX512BW.
#define FLOAT_AVX512BW_AS(id, n, layout, isa)                                                      \
    KERNEL(id, isa, layout,                                                                        \
           SHAPES(matmul_##n##_one_avx512bw, matmul_##n##_avx512bw, matmul_##n##_avx512bw,         \
                  matmul_##n##_avx512bw),                                                          \
           SHAPES("fma 2x1", "fma 2x8", "fma 2x8", "fma 2x8"))
#define FLOAT_AVX512BW(id, n, layout) FLOAT_AVX512BW_AS(id, n, layout, AVX512BW)
#define FLOAT_AVX512(id, n, layout)   FLOAT_AVX512BW_AS(id, n, layout, AVX512)
#define FLOAT_AMX(id, n, layout)      FLOAT_AVX512BW_AS(id, n, layout, AMX)
#define BLOCK_AVX512BW(id, n, layout)                                                              \
    KERNEL(id, AVX512BW, layout,                                                                   \
           SHAPES(matmul_##n##_one_avx512bw, matmul_##n##_avx512bw, matmul_##n##_avx512bw,         \
                  matmul_##n##_panel_avx512bw),                                                    \
           SHAPES("maddubs 1x1", "maddubs 1x8", "maddubs 1x16", "1x16, panel 2x4"))
#define BLOCK_AVX512(id, n, layout)                                                                \
    KERNEL(id, AVX512, layout,                                                                     \
           SHAPES(matmul_##n##_one_avx512, matmul_##n##_avx512, matmul_##n##_avx512,               \
                  matmul_##n##_panel_avx512),                                                      \
           SHAPES("vnni 1x1", "vnni 1x8", "vnni 1x16, 2x4", "1x16, panel 2x4"))
#define BLOCK_AMX(id, n, layout)                                                                   \
    KERNEL(id, AMX, layout,                                                                        \
           SHAPES(matmul_##n##_one_avx512, matmul_##n##_avx512, matmul_##n##_amx,                  \
                  matmul_##n##_amx),                                                               \
           SHAPES("vnni 1x1", "vnni 1x8", "amx panel 2x16", "amx panel 2x16"))
// Spans of 16: two products and twice the float work for 32 columns, so tiles pay only where many
// tokens share a panel.
#define SPANS_AMX(id, n, layout)                                                                   \
    KERNEL(id, AMX, layout,                                                                        \
           SHAPES(matmul_##n##_one_avx512, matmul_##n##_avx512, matmul_##n##_avx512,               \
                  matmul_##n##_amx),                                                               \
           SHAPES("vnni 1x1", "vnni 1x8", "vnni 1x16, 2x4", "amx panel 2x16"))
#define UNTILED_AMX(id, n, layout)                                                                 \
    KERNEL(id, AMX, layout,                                                                        \
           SHAPES(matmul_##n##_one_avx512, matmul_##n##_avx512, matmul_##n##_avx512,               \
                  matmul_##n##_panel_avx512),                                                      \
           SHAPES("vnni 1x1", "vnni 1x8", "vnni 1x16, 2x4", "1x16, panel 2x4"))
#define FLOAT_NEON(id, n, layout)                                                                  \
    KERNEL(id, NEON, layout,                                                                       \
           SHAPES(matmul_##n##_neon, matmul_##n##_neon, matmul_##n##_neon, matmul_##n##_neon),     \
           SHAPES("fma 2x1", "fma 2x2, 1x4", "fma 1x4", "fma 1x4"))
#define BLOCK_NEON(id, n, layout)                                                                  \
    KERNEL(id, NEON, layout,                                                                       \
           SHAPES(matmul_##n##_neon, matmul_##n##_neon, matmul_##n##_neon,                         \
                  matmul_##n##_panel_neon),                                                        \
           SHAPES("sdot 1x1", "sdot 1x4", "sdot 1x4", "sdot panel 1x4"))

#define FLOAT_AVX2(id, n, layout)                                                                  \
    KERNEL(id, AVX2, layout,                                                                       \
           SHAPES(matmul_##n##_avx2, matmul_##n##_avx2, matmul_##n##_avx2, matmul_##n##_avx2),     \
           SHAPES("fma 2x1", "fma 2x3, 1x6", "fma 1x6", "fma 1x6"))
#define FLOAT_AVXVNNI(id, n, layout)                                                               \
    KERNEL(id, AVXVNNI, layout,                                                                    \
           SHAPES(matmul_##n##_avx2, matmul_##n##_avx2, matmul_##n##_avx2, matmul_##n##_avx2),     \
           SHAPES("fma 2x1", "fma 2x3, 1x6", "fma 1x6", "fma 1x6"))
#define BLOCK_AVX2(id, n, layout)                                                                  \
    KERNEL(id, AVX2, layout,                                                                       \
           SHAPES(matmul_##n##_avx2, matmul_##n##_avx2, matmul_##n##_panel_avx2,                   \
                  matmul_##n##_panel_avx2),                                                        \
           SHAPES("maddubs 1x1", "maddubs 1x4", "maddubs panel 1x4", "maddubs panel 1x4"))
#define BLOCK_AVXVNNI(id, n, layout)                                                               \
    KERNEL(id, AVXVNNI, layout,                                                                    \
           SHAPES(matmul_##n##_avxvnni, matmul_##n##_avxvnni, matmul_##n##_panel_avxvnni,          \
                  matmul_##n##_panel_avxvnni),                                                     \
           SHAPES("vnni 1x1", "vnni 1x4", "vnni panel 1x4", "vnni panel 1x4"))

static const struct matmul_kernel kernels[] = {
#if defined(__x86_64__)
    MATMUL_FLOATS(FLOAT_AVX2) MATMUL_BLOCKS(BLOCK_AVX2) MATMUL_FLOATS(FLOAT_AVXVNNI)
        MATMUL_BLOCKS(BLOCK_AVXVNNI) MATMUL_FLOATS(FLOAT_AVX512BW) MATMUL_BLOCKS(BLOCK_AVX512BW)
            MATMUL_FLOATS(FLOAT_AVX512) MATMUL_BLOCKS(BLOCK_AVX512) MATMUL_FLOATS(FLOAT_AMX)
                MATMUL_BLOCKS_32(BLOCK_AMX) SPANS_AMX(Q6_K, q6_k, q6_k) MATMUL_UNTILED(UNTILED_AMX)
#elif defined(__aarch64__)
    MATMUL_FLOATS(FLOAT_NEON) MATMUL_BLOCKS(BLOCK_NEON)
#endif
                    {.format = FORMAT_COUNT} // the end; an array needs a member
};

const struct matmul_kernel *matmul_kernel_find(enum format_id format, enum cpu_isa isa) {
    for (const struct matmul_kernel *k = kernels; k->format != FORMAT_COUNT; k++)
        if (k->format == format && k->isa == isa) return k;
    return NULL;
}

const struct matmul_way matmul_ways[MATMUL_WAYS] = {
    {.fetch = FETCH_NONE},
    {.fetch = FETCH_L1, .ahead = 1024},
    {.fetch = FETCH_L1, .ahead = 2048},
    {.fetch = FETCH_L1, .ahead = 4096},
    {.fetch = FETCH_L1, .ahead = 8192},
    {.fetch = FETCH_L2, .ahead = 2048},
    {.fetch = FETCH_L2, .ahead = 4096},
    {.fetch = FETCH_L2, .ahead = 8192},
    {.fetch = FETCH_NTA, .ahead = 2048},
    {.fetch = FETCH_NTA, .ahead = 4096},
    {.fetch = FETCH_NTA, .ahead = 8192},
    {.fetch = FETCH_BOTH, .ahead = 8192},
    {.fetch = FETCH_BOTH, .ahead = 16384},
    {.fetch = FETCH_NONE, .wide = true},
    {.fetch = FETCH_L1, .ahead = 2048, .wide = true},
    {.fetch = FETCH_L2, .ahead = 4096, .wide = true},
};
