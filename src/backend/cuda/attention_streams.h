// Attention of many streams: the list of work that the host plans (attention_streams.c) and the
// kernels run (attention_streams.cuh).
//
// A *team* is a block of 4 warps. An item of a team is a *run*, some splits that follow each other,
// of one KV head of a sequence, with up to `tiles` tiles of 8 queries. Where a run has all splits
// that its queries see, the team writes the results. Otherwise each team leaves parts, and the last
// one folds them.
#ifndef RN_BACKEND_CUDA_ATTENTION_STREAMS_H
#define RN_BACKEND_CUDA_ATTENTION_STREAMS_H

#include "stage.h"

enum {
    STREAM_WARPS = 4,
    STREAM_THREADS = 32 * STREAM_WARPS,
    // counters that teams share: items that were taken, teams that have ended
    STREAM_TAKEN = ATTENTION_COUNTERS - 2,
    STREAM_ENDED = ATTENTION_COUNTERS - 1,
};

// Teams of a multiprocessor, and their shared memory: tiles of more queries have more registers.
#define STREAM_TEAMS(tiles)  ((tiles) == 1 ? 4 : 2)
#define STREAM_SHARED(tiles) ((tiles) == 1 ? 57344 : 98304)
// Tiles of a team at most; heads have `dim` elements.
#define STREAM_TILES(dim) ((dim) <= 128 ? 4 : 2)
// A warp's part of a split: float4 of each pair of queries.
#define STREAM_PAIR_SLOTS(dim_v) (1 + (dim_v) / (16 * STREAM_WARPS) * 8)

// A run, for all KV heads.
struct stream_entry {
    int32_t seq, first, n; // queries of a KV head: the first one and their number
    int32_t split_first, split_last;
    int32_t page_first, page_last; // that the queries see
    int32_t n_runs;                // of these queries; 1: nothing is folded by others
    int32_t n_folded;              // splits of the first run, which leaves a single part
    int32_t counter;               // of the queries' first head
    uint32_t slot;                 // float4: the same
    int32_t cost;                  // in pages, about
};

// What a list depends on beyond the batch: stages of one kind share it.
struct stream_kind {
    int32_t group, is_out; // is_out: rows are out rows
    int32_t n_head_kv, ratio, dim;
    int32_t window, is_chunk;
    int32_t is_draft; // of the draft block
};

#ifdef __cplusplus
extern "C" {
#endif
// Whether the form has such heads.
int stream_has(int dim_k, int dim_v);
// Tiles of a team for sequences of up to n_rows rows.
int stream_tiles(const struct stream_kind *kind, int n_rows);
// Runs of n sequences of up to n_rows rows, at most.
int stream_plan_most(const struct stream_kind *kind, int n, int n_rows, int n_sm);
// The list, expensive runs first: index names n sequences of seqs. out_row: of the step, where
// is_out. Returns the number of runs.
int stream_plan(const struct stream_kind *kind, const struct step_seq *seqs, const int32_t *index,
                int n, const int32_t *out_row, int tiles, int n_sm, struct stream_entry *out);
// The kernel, for cudaLaunchKernel; NULL: none for these heads.
const void *attention_streams(int kv_type, int dim_k, int dim_v, int tiles);
const void *attention_append(int kv_type); // BLOCK_THREADS threads and ATTENTION_SHARED bytes
#ifdef __cplusplus
}
#endif

#endif
