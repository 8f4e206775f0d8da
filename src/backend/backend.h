// The interface of a backend, and the table of backends. A backend owns the compiled program, its
// packed weights, the step's buffers and the memory of the KV pages (whose layout is its own); the
// engine owns which page belongs to whom. Calls come from one thread, the engine's. After create,
// run() allocates nothing and cannot fail for want of memory.
#ifndef RN_BACKEND_BACKEND_H
#define RN_BACKEND_BACKEND_H

#include "base/pool.h"
#include "plan/batch.h"

// Reports done of total bytes while loading; may be NULL.
typedef void (*backend_progress)(void *ctx, uint64_t done, uint64_t total);

struct backend;

struct backend_config {
    const char *name; // "cpu"; NULL: the best one that works
    const char *isa;  // CPU: "scalar", "avx2", "avxvnni", "avx512", "neon"; NULL: the best here
    int n_threads;    // 0: all cores that this process may use
    bool no_pin;      // threads are never bound to a cache or memory node of their own
    int max_tokens;   // rows of a batch; out rows are some of them
    int max_logits;   // logit rows of a batch
    int max_seqs;
    enum kv_type kv_type;
    uint32_t n_pages[PLAN_MAX_KV_GROUPS];
    backend_progress progress;
    void *progress_ctx;
    // Of the same class: its threads are used instead of own ones, n_threads and no_pin are its. It
    // outlives this one, and the two do not run at the same time. NULL: own ones.
    struct backend *threads_of;
};

struct backend_class {
    const char *name;
    // plan outlives the backend. An unknown isa is RN_ERR_ARG, one that this machine lacks
    // RN_ERR_UNSUPPORTED.
    rn_status (*create)(const struct plan *plan, const struct backend_config *config,
                        struct backend **out, rn_error *err);
    void (*destroy)(struct backend *backend);
    // Runs the batch: its clears and copies of pages, then its rows, then its choices. Afterwards
    // logits(i) and hidden(i), the input of the vocabulary's product, are the rows for
    // batch->out_row[i], valid until the next run. logits: of rows whose choice wants them. hidden:
    // of a plan that names such a buffer.
    void (*run)(struct backend *backend, const struct batch *batch);
    // [n_logits] The tokens that the last run chose, as plan/choice.h defines them. -1: no token is
    // possible, or the row has no choice.
    const int32_t *(*tokens)(const struct backend *backend);
    // The time that the last run's choices took, as a part of the run.
    uint64_t (*choose_ns)(const struct backend *backend);
    const float *(*logits)(const struct backend *backend, int row);
    const float *(*hidden)(const struct backend *backend, int row);
    // Bytes of experts' weights that the last run read; 0 without experts.
    uint64_t (*expert_bytes)(const struct backend *backend);
    // Gives the memory of a page back to the system, as far as it can. What the page holds is lost:
    // a batch clears it or copies to it before the page is used again.
    void (*kv_forget)(struct backend *backend, int group, uint32_t page);
    // Between runs: pool_run on the backend's own threads; workers are below threads().
    void (*parallel)(struct backend *backend, pool_fn fn, void *ctx, int64_t n_items,
                     int64_t chunk);
    // The read bandwidth in bytes/s over a working set of that many bytes, sustained: the best
    // way to read, by its median over budget_ms (more where the system is slow to give memory).
    // Larger than the last-level cache: main memory. 0 when memory is too short, or the budget 0.
    double (*bandwidth)(struct backend *backend, uint64_t working_set, int budget_ms);
    // Multiply-adds per second that all threads reach in registers, of bytes into integers or of
    // floats; takes about 20 ms.
    double (*peak_macs)(struct backend *backend, bool integer);
    // Switches the timing of stages on, from zero, or off.
    void (*profile)(struct backend *backend, bool on);
    // What it found for stage index, borrowed: kind and weights, time, runs. False: no such stage,
    // or it was never on.
    bool (*stage_time)(const struct backend *backend, int index, const char **name, uint64_t *ns,
                       uint64_t *runs);
    // Size of the last-level cache in bytes, 0 if unknown.
    uint64_t (*cache_bytes)(const struct backend *backend);
    // Formats whose products run on the slow reference for want of a kernel, "Q4_K, Q6_K"; "": none
    const char *(*slow)(const struct backend *backend);
    // "avx512", for people
    const char *(*isa)(const struct backend *backend);
    int (*threads)(const struct backend *backend);
};

struct backend {
    const struct backend_class *cls; // first member of every backend's own struct
};

// Creates the named backend, or walks the table for one that works.
rn_status backend_create(const struct plan *plan, const struct backend_config *config,
                         struct backend **out, rn_error *err);
void backend_destroy(struct backend *backend); // NULL is fine

#endif
