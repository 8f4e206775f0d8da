// The two products of attention over a latent's int8 pages, as tiles: latent_amx.c has them, and
// the AVX-512 kernel (ops_avx512.c) runs them where the machine has AMX. Their bits are those of
// latent_simd.h.
#ifndef RN_BACKEND_CPU_LATENT_H
#define RN_BACKEND_CPU_LATENT_H

#include "backend/cpu/ops.h"

// n queries against the pages [page_a, page_b) of a split.
struct latent_scores {
    const uint8_t *const *page; // [ATTENTION_SPLIT_PAGES]
    int page_a, page_b;
    int ahead; // a page is prefetched while the one before is read: pages below this one
    uint32_t scale, bytes; // of a page: the offset of its scales, f16 [blocks][tokens]; all of it
    const int8_t *q;       // [n, ldq] codes, zeros past dim
    int64_t ldq;
    const float *q_scale; // [n]
    int n, dim;
    float *s;      // [n, ATTENTION_SPLIT]
    void *scratch; // LATENT_SCRATCH bytes, aligned to 64
};

// The values of ATTENTION_CHUNK elements for n queries, over the pages [page_a, page_b) of a split.
struct latent_values {
    const uint8_t *const *page; // [ATTENTION_SPLIT_PAGES]
    int page_a, page_b;
    int group, n_group;   // the chunk's first group of four elements, and how many a page has
    const uint8_t *ahead; // ahead_bytes to prefetch meanwhile
    int64_t ahead_bytes;
    const float *p;         // [n, ATTENTION_SPLIT] 0 where a query does not see the token
    const float *scale;     // [ATTENTION_SPLIT] of the tokens, finite
    bool is_first, is_last; // chunk of the split
    int n, width;           // width: elements to be stored, a multiple of 16
    float *o;               // [n, ldo]
    int64_t ldo;
    void *scratch; // LATENT_SCRATCH bytes, aligned to 64
};

enum { LATENT_SCRATCH = ATTENTION_CHUNK * ATTENTION_SPLIT * 4 }; // the room of a chunk's values

struct latent_kernels {
    void (*scores)(const struct latent_scores *job);
    void (*values)(const struct latent_values *job);
};

#if defined(__x86_64__)
extern const struct latent_kernels latent_amx;
extern const struct latent_kernels latent_amx_model; // tests only
// The AVX-512 op with kernels as tiles; their user has checked that the machine has them.
void attention_avx512_tiles(const struct attention_args *args, float *scratch,
                            const struct latent_kernels *tiles);
#endif

#endif
