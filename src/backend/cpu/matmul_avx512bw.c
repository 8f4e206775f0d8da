// AVX-512's codecs of block formats with the products of matmul_avx512bw.h. The loops over panels
// are in matmul_panel_avx512bw.c. Reached through matmul_table.c.
#if defined(__x86_64__)

#if defined(__AVX512VNNI__)
#error "compiled for processors without VNNI"
#endif

#include "backend/cpu/matmul_blocks_avx512.c"
#include "backend/cpu/matmul_k_avx512.c"

#endif
