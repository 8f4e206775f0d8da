// How kernels of one token read their weights with AVX-512: a way (matmul.h) says how far ahead
// lines are requested, and how many runs of groups are read side by side. The choice is the
// machine's (tune.c). Used by matmul_one_avx512.h and the kernels of floats.
#ifndef RN_BACKEND_CPU_MATMUL_RUNS_AVX512_H
#define RN_BACKEND_CPU_MATMUL_RUNS_AVX512_H

#include "backend/cpu/matmul_base_avx512.h"

enum {
    ONE_STREAMS = 4,
    NEXT_BYTES = 2048, // of a run that are requested before it begins
};

// Requests `lines` lines in the way's kind, which is a constant where this is used; `at` is the
// address that is read now.
INLINE void fetch(const uint8_t *at, const int lines, const enum matmul_fetch kind, int ahead) {
    const char *p = (const char *)at + ahead, *near = (const char *)at + ahead / FETCH_NEAR;
    for (int i = 0; i < lines && kind == FETCH_BOTH; i++)
        _mm_prefetch(near + PACK_VECTOR * i, _MM_HINT_T0);
    for (int i = 0; i < lines; i++) {
        if (kind == FETCH_L1) _mm_prefetch(p + PACK_VECTOR * i, _MM_HINT_T0);
        if (kind == FETCH_L2 || kind == FETCH_BOTH) _mm_prefetch(p + PACK_VECTOR * i, _MM_HINT_T1);
        if (kind == FETCH_NTA) _mm_prefetch(p + PACK_VECTOR * i, _MM_HINT_NTA);
    }
}

// Calls read(..., kind), with a copy of it for each kind. Asked in a loop over lines, the kind
// takes registers and branches, and all requests together were slower than none.
#define FETCH_SWITCH(kind, read, ...)                                                              \
    switch (kind) {                                                                                \
    case FETCH_NONE:                                                                               \
        read(__VA_ARGS__, FETCH_NONE);                                                             \
        break;                                                                                     \
    case FETCH_L1:                                                                                 \
        read(__VA_ARGS__, FETCH_L1);                                                               \
        break;                                                                                     \
    case FETCH_L2:                                                                                 \
        read(__VA_ARGS__, FETCH_L2);                                                               \
        break;                                                                                     \
    case FETCH_NTA:                                                                                \
        read(__VA_ARGS__, FETCH_NTA);                                                              \
        break;                                                                                     \
    case FETCH_BOTH:                                                                               \
        read(__VA_ARGS__, FETCH_BOTH);                                                             \
        break;                                                                                     \
    }

// A call cuts its groups into runs of equal length, which are read side by side.
struct runs {
    int64_t length, bytes; // of a run, in groups and in bytes
    int64_t last_row;      // of the first run's last group
};

INLINE struct runs runs_make(int64_t begin, int64_t n, int64_t group_bytes) {
    return (struct runs){n, n * group_bytes, (begin + n - 1) * MATMUL_GROUP};
}

// Requests the lines that continue the run in the thread's next call. Prefetchers are of no help
// there: the lines behind this run are those of the call's next run.
INLINE void fetch_next(const uint8_t *at, const int lines, const struct runs *runs,
                       const int streams) {
    const uint8_t *next = at + NEXT_BYTES + (streams - 1) * runs->bytes;
    for (int i = 0; i < lines; i++) _mm_prefetch((const char *)next + PACK_VECTOR * i, _MM_HINT_T1);
}

#endif
