// Row stages around attention: the table of rope, and clears and copies of KV pages.
#ifndef RN_BACKEND_CUDA_PAGES_CUH
#define RN_BACKEND_CUDA_PAGES_CUH

#include "rmath.cuh"
#include "stage.h"

// Cosines and sines of the rows, times the magnitude: out is [n_rows, n_rot / 2, 2].
DEV_CALL void rope_table_run(const struct stage_rows_op &s, const struct step &step, int n_rows) {
    const int n_pairs = s.n_rot / 2;
    const int64_t n = (int64_t)n_rows * n_pairs, stride = (int64_t)gridDim.x * BLOCK_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * BLOCK_THREADS + threadIdx.x; i < n; i += stride) {
        const float angle = (float)(step.pos[i / n_pairs] + s.offset) * s.inv_freq[i % n_pairs];
        double sine, cosine;
        rmath_sincos((double)angle, &sine, &cosine);
        float2 turn;
        turn.x = (float)cosine * s.magnitude;
        turn.y = (float)sine * s.magnitude;
        ((float2 *)s.out)[i] = turn;
    }
}

// Clears and copies of pages, in order. A byte of a page depends only on the same byte of other
// pages of its group, so a thread walks the whole list for its 16 bytes of the page.
DEV_CALL void pages_run(const struct step &step) {
    const uint64_t stride = (uint64_t)gridDim.x * BLOCK_THREADS;
    for (int group = 0; group < STEP_GROUPS; group++) {
        const struct step_kv &kv = step.kv[group];
        const uint64_t bytes = kv.page_bytes * kv.n_layer;
        for (uint64_t i = ((uint64_t)blockIdx.x * BLOCK_THREADS + threadIdx.x) * 16; i < bytes;
             i += stride * 16) {
            const uint64_t layer = i / kv.page_bytes;
            uint8_t *at = kv.at + layer * kv.layer_bytes + (i - layer * kv.page_bytes);
            for (int p = 0; p < step.n_pages; p++) {
                const struct step_page &page = step.page[p];
                if (page.group != group) continue;
                uint4 v = {0, 0, 0, 0};
                if (page.from != UINT32_MAX)
                    v = load_l2((const uint4 *)(at + page.from * kv.page_bytes));
                *(uint4 *)(at + page.page * kv.page_bytes) = v;
            }
        }
    }
}

#endif
