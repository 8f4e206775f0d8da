// The memory of the kernels that choose tokens (choose.h), laid out without the CUDA runtime.
#ifndef RN_BACKEND_CUDA_CHOOSE_SCRATCH_H
#define RN_BACKEND_CUDA_CHOOSE_SCRATCH_H

#include <stdint.h>

enum {
    CHOOSE_PEAK_IDS = 64,    // ids whose largest logit is kept
    CHOOSE_PART_IDS = 2048,  // ids of a block of the kernels that share a row
    CHOOSE_STEPS = 2048,     // of distances: digits of sums of mass
    CHOOSE_ROWS_LEAST = 64,  // rows with room for candidates, where a step has as many
    CHOOSE_ROOM = 288 << 20, // bytes that more of them take at most
};

// Memory of the kernels, shared by the launches of one stream.
struct choose_scratch {
    uint64_t *top;                // [rows, parts] the best logit of each part with its id
    uint64_t *drawn;              // [rows, parts] the best sum of logit and noise
    uint64_t *mass;               // [room, CHOOSE_STEPS] units by distance from the best
    float *peak;                  // [room, peaks] the largest logit of each CHOOSE_PEAK_IDS ids
    float *value;                 // [room, stride] edited logits, then candidates
    int32_t *id;                  // [room, stride] of candidates
    int32_t *count;               // [rows, parts] logits that are candidates
    uint32_t *arrived;            // [rows] 0 between launches
    int64_t stride, peaks, parts; // of a row
    int64_t room;                 // rows with room for candidates: those of a launch that needs it
};

#ifdef __cplusplus
extern "C" {
#endif
uint64_t choose_scratch_bytes(int max_rows, int n_vocab);
// memory: on the device, aligned to 256 bytes, all zero.
void choose_scratch_init(struct choose_scratch *scratch, int max_rows, int n_vocab,
                         uint8_t *memory);
#ifdef __cplusplus
}
#endif

#endif
