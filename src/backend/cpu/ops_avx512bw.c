// The ops for AVX-512 without VNNI: the source of ops_avx512.c, whose products of bytes and of
// words take what the compiler's options allow.
#if defined(__x86_64__) && defined(__AVX512VNNI__)
#error "compiled for processors without VNNI"
#endif

#include "backend/cpu/ops_avx512.c"
