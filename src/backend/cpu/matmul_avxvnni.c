// The AVX2 kernels of block formats with AVX-VNNI's vpdpbusd in place of vpmaddubsw and its
// company. The panel driver and the float formats are AVX2's own. Reached through matmul_table.c.
#if defined(__x86_64__)

#define MATMUL_VNNI 1
#if defined(__AVXVNNI__)
#define MATMUL_SUFFIX avxvnni
#else
#define MATMUL_SUFFIX evex // tests only: the same instruction as AVX-512 encodes it
#endif

#include "backend/cpu/matmul_blocks_avx2.c"
#include "backend/cpu/matmul_k_avx2.c"

#endif
