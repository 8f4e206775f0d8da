// The CUDA backend's own state. cuda.c creates and destroys it; sizes/layout.c says where each
// thing is; weights.c packs and uploads; program*.c write the lists of stages; submit.c runs steps:
// upload.c makes what a step brings, launches.c what it runs, graphs.c records it. attention.c has
// the launches of attention. launch.h is one launch. page_bytes.c copies pages for a store.
//
// Invariants: after create nothing on the device is allocated or moved. Steps run in the order of
// their submits, in one stream. Each of the two flights has upload and result memory of its own, so
// the next step is handed over while the last one runs.
#ifndef RN_BACKEND_CUDA_CUDA_H
#define RN_BACKEND_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include "backend/backend.h"
#include "backend/cuda/attention_streams.h"
#include "backend/cuda/choose.h"
#include "backend/cuda/experts.h"
#include "backend/cuda/kv.h"
#include "backend/cuda/layout.h"
#include "backend/cuda/route.h"
#include "backend/cuda/step.h"

enum { N_FLIGHTS = BACKEND_MAX_DEPTH, CUDA_PARTS = 2 };

enum { CUDA_CHOOSE_AT = 512 }; // of the choices' description in an upload, behind `struct step`

// A list of stages, and its copy on the device.
struct cuda_list {
    struct stage *stage;
    const char **name; // for people
    int n, cap;
    bool is_small; // of steps of up to SMALL_ROWS rows
    struct stage *device;
};

// All that the launches of a step depend on; the rest is in the memory that they read. Launches are
// made of it alone, so a recorded step serves every step of its shape. Numbers of rows are those of
// launches: cuda_rows_class.
struct cuda_shape {
    const uint8_t *upload; // of the flight, on the device
    int32_t chosen_now;
    int32_t n_tokens, n_out, n_logits;
    int32_t has_pages, has_hidden, is_choosing; // has_hidden: hidden rows are wanted
    int32_t is_draft;
    int32_t n_seqs;                      // of models with states; else 0
    int32_t n_splits, n_pages, seq_rows; // of attention, see cuda_attention_size
    int32_t has_long;                    // a sequence of more than two splits
    int32_t n_part[2][STEP_PARTS]; // sequences of each part of struct step, or some more; 0: none
    int32_t few_rows[2];           // the most rows of a sequence of PART_FEW
    struct choose_plan choose;
};

// A step's launches, recorded: one call hands all of them over.
struct cuda_graph {
    struct cuda_shape shape;
    cudaGraphExec_t exec; // NULL: none yet
    uint64_t used;        // the number of the step that used it last
};

enum {
    N_GRAPHS = 64,
    GRAPH_ROWS = 512, // larger steps are never recorded
};

struct cuda_graphs {
    struct cuda_graph graph[N_GRAPHS];
    struct cuda_shape seen[N_GRAPHS]; // the last ones that came without a graph
    int next_seen;
    bool is_full; // a recording failed: there are no further ones
    uint64_t n_steps, n_recorded, n_replayed;
};

// Rows for the host.
struct cuda_rows {
    float *at; // pinned
    uint64_t cap;
};

struct cuda_flight {
    uint8_t *upload;        // pinned
    uint8_t *upload_device; // its copy
    uint64_t upload_cap;
    struct cuda_result *result; // pinned: its numbers, and the tokens behind them
    struct cuda_rows rows;      // logits and hidden rows that were asked for
    struct cuda_rows hidden;    // of a backend with a draft block: those of all out rows
    cudaEvent_t brought;        // the upload is on the device
    cudaEvent_t ran;            // the launches have ended
    cudaEvent_t end;            // the results are with the host
    int n_logits, n_out;
    bool has_run, is_choosing;
    bool is_late;                 // the device had nothing to do when the launches were handed over
    const struct cuda_list *list; // that ran while profiling; NULL: no times
    uint8_t *wants;               // [max_tokens] out rows that came back
};

struct cuda_backend {
    struct backend base;
    const struct plan *plan;
    int device, n_sm;
    bool has_experts, has_states;
    struct cudaDeviceProp prop;
    struct backend_sizes sizes;
    const char *kv_name;
    int kv_type;
    struct arena arena;
    struct cuda_layout layout;
    uint8_t *weights, *memory; // device
    struct step_kv kv[PLAN_MAX_KV_GROUPS];
    struct cuda_list list[2]
                         [CUDA_PARTS]; // of small steps and wide ones: the model, its draft block
    bool has_block;                    // the draft block is run, so hidden rows are wanted
    int input_width;                   // of the draft block's op INPUT; 0: it has none
    uint32_t shared_most;              // of a block
    uint32_t staged_most;              // of a product's input in shared memory
    bool overlaps;                     // launches may begin before the one before has ended
    struct cuda_graphs graphs;
    struct stream_kind kind[STEP_WORKS]; // of attention's stages in wide_list
    int n_kinds;
    cudaStream_t stream;             // launches
    cudaStream_t up, down;           // copies: they must not hold up the launches of the next step
    cudaStream_t page_up, page_down; // copies of pages, by other threads
    struct cuda_flight flight[N_FLIGHTS];
    int n_in_flight, next;         // steps in flight; the flight of the next submit
    struct cuda_result *chosen[2]; // device: of this step and of the one before
    int chosen_now;
    struct choose_scratch choose;
    uint64_t end_ns; // of the last step that was waited for, by the device's clock; 0: none yet
    bool profiling, is_lost;
    uint64_t *times, *times_host; // for profiles: when stages ended; the host's copy is pinned
    struct step_stage *profile;
    // results of the last wait
    const float **logits, **hidden;
    struct batch_seq *seqs; // of a batch, and runs of hidden rows behind them: cuda_seqs_extend
    char variant[32];
};

static inline const float *cuda_row_at(const struct cuda_backend *b, int buffer, int row) {
    const struct cuda_buffer *own = &b->layout.buffer[buffer];
    return (const float *)(const void *)(b->memory + own->at) + (int64_t)row * own->ld;
}

// weights.c
rn_status cuda_weights_load(struct cuda_backend *b, const struct backend_config *config,
                            rn_error *err);
// program.c
rn_status cuda_program_make(struct cuda_backend *b, rn_error *err);
void cuda_program_free(struct cuda_backend *b);
// submit.c
rn_status cuda_flights_make(struct cuda_backend *b, rn_error *err);
void cuda_flights_free(struct cuda_backend *b);
rn_status cuda_submit(struct backend *backend, const struct batch *batch, rn_error *err);
rn_status cuda_wait(struct backend *backend, struct step_result *out, rn_error *err);
// page_bytes.c
rn_status cuda_page_read(struct backend *backend, int group, uint32_t page, void *to,
                         rn_error *err);
rn_status cuda_page_write(struct backend *backend, int group, uint32_t page, const void *from,
                          rn_error *err);
void cuda_page_identity(const struct backend *backend, char out[BACKEND_IDENTITY]);
// upload.c
rn_status cuda_upload_grow(struct cuda_flight *f, uint64_t bytes, rn_error *err);
// The upload of a step with all rows, and each page in one table: a larger one is rare. Its address
// is part of recorded steps, so they are lost with it.
uint64_t cuda_upload_usual(const struct cuda_backend *b);
// A bound of the batch's bytes. batch->seq has n_seqs_out sequences: cuda_seqs_extend.
uint64_t cuda_upload_bytes(const struct cuda_backend *b, const struct batch *batch, int n_seqs_out);
// Writes `struct step` to the start of the upload and the rest of the batch from `at` on; its end.
uint64_t cuda_upload_write(const struct cuda_backend *b, const struct batch *batch, int n_seqs_out,
                           const struct cuda_flight *f, uint64_t at, struct cuda_shape *shape);
// launches.c
// The list that a step of the shape runs.
const struct cuda_list *cuda_list_of(const struct cuda_backend *b, const struct cuda_shape *shape);
// All launches of a step. times: the list whose stages' ends are wanted; NULL if there is none.
cudaError_t cuda_launch_step(struct cuda_backend *b, const struct cuda_shape *shape,
                             const struct cuda_list *times);
// Whether the blocks of a product bring n rows of its input to shared memory themselves, by RMS
// norm where it is asked for. A stage of their own prepares other rows: wide ones, many, other
// norms. input: enum input_kind.
bool cuda_is_staged(const struct cuda_backend *b, int input, int cols, int n_rows);
// graphs.c
int cuda_rows_class(int n, int most);
// The same, by a recorded step where the shape has come before.
cudaError_t cuda_graph_run(struct cuda_backend *b, const struct cuda_shape *shape);
void cuda_graphs_free(struct cuda_graphs *graphs);
// attention.c
// What a launch of attention needs to know of the batch.
void cuda_attention_size(const struct batch *batch, int n_seqs_out, struct cuda_shape *shape);
// The batch's sequences, then runs of hidden rows that are not among the out rows of theirs
// (batch_add_hidden): stages of out rows have these as sequences of their own. Returns the number.
int cuda_seqs_extend(const struct batch *batch, struct batch_seq *out);
// The kinds of the stages of larger steps, once.
void cuda_attention_kinds(struct cuda_backend *b);
// Whether a step of n_seqs sequences has the lists below.
bool cuda_attention_has_lists(const struct cuda_shape *shape, int n_seqs);
// The lists of a step with the form of streams: a bound of their bytes, and the lists, whose bytes
// are returned. step has the sequences already; seqs: the same for the host.
uint64_t cuda_attention_bytes(const struct cuda_backend *b, int n_seqs_out);
uint64_t cuda_attention_write(const struct cuda_backend *b, const struct batch *batch,
                              const struct step_seq *seqs, uint8_t *host, const uint8_t *device,
                              struct step *step, struct cuda_shape *shape);
cudaError_t cuda_attention_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                                  const struct cuda_shape *shape, struct launch_clock clock);
// attention_latent.c
rn_status cuda_latent_prepare(struct cuda_backend *b, rn_error *err);
cudaError_t cuda_latent_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                               const struct cuda_shape *shape, struct launch_clock clock);
// gate.c
// Whether the stage is a gate that has a launch of its own.
bool cuda_gate_is_alone(const struct stage *s, bool is_small);
cudaError_t cuda_gate_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                             const struct cuda_shape *shape, struct launch_clock clock);
// state.c
// The kernels may take as much shared memory as a block can have.
cudaError_t cuda_state_prepare(const struct cuda_backend *b);
cudaError_t cuda_state_launch(struct cuda_backend *b, const struct stage *s,
                              const struct cuda_shape *shape, struct launch_clock clock);

// routes.c
cudaError_t cuda_route_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                              const struct cuda_shape *shape, struct launch_clock clock);
cudaError_t cuda_experts_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                                const struct cuda_shape *shape, struct launch_clock clock);
cudaError_t cuda_weigh_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                              const struct cuda_shape *shape, struct launch_clock clock);
cudaError_t cuda_combine_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                                struct launch_clock clock);

// program_heads.c
rn_status cuda_heads_prepare(struct cuda_backend *b, rn_error *err);
cudaError_t cuda_heads_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                              struct launch_clock clock);

// product_many.c
cudaError_t cuda_many_launch(struct cuda_backend *b, const struct stage *stage, int n_rows,
                             struct launch_clock clock);

rn_status cuda_fault(cudaError_t code, rn_status status, const char *what, rn_error *err);

#endif
