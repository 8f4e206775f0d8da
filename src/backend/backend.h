// The contract between the engine and a device: memory, steps in flight, choices, faults. Nothing
// here names a kind of processor. A backend owns the compiled program, its copy of the weights, the
// buffers of a step and the memory of the KV pages, whose layout is its own. The engine owns which
// page belongs to whom, and the threads of the host, which it lends. Calls come from one thread.
//
// Steps: submit hands a batch over, wait brings the result of the oldest batch in flight. At most
// `depth` steps are in flight. Steps take effect in the order of their submits, and so do the
// clears and copies of pages that they bring, and page_release.
//
//             submit                     wait
//   (batch) ---------> in flight ------------------> (result), or one of three faults:
//                                                    RN_ERR_STEP    nothing of this step happened,
//                                                                   as far as the engine can tell
//                                                    RN_ERR_DEVICE  the device is lost for good
//                                                    RN_ERR_IO      so is the model: a file that
//                                                                   steps read was written to
#ifndef RN_BACKEND_BACKEND_H
#define RN_BACKEND_BACKEND_H

#include "base/pool.h"
#include "plan/batch.h"
#include "plan/cost.h"

enum { BACKEND_MAX_DEPTH = 2 }; // a token may refer to the step before, and no further
enum { BACKEND_IDENTITY = 256 };

// Reports done of total bytes while loading; may be NULL.
typedef void (*backend_progress)(void *ctx, uint64_t done, uint64_t total);

// Memory of KV pages. LAZY: a page takes memory when it is written, and page_release gives it back,
// so the groups share one budget. FIXED: create takes the memory of all pages.
enum page_memory { PAGES_LAZY, PAGES_FIXED };

struct backend_device {
    char name[64];                      // for people
    uint64_t memory_total, memory_free; // bytes; 0: unknown
    bool on_host; // it is the host: its memory is the process's own, so limits of its addresses
                  // apply, and the host's threads compute
    enum page_memory pages;
    int depth;        // steps in flight, 1 to BACKEND_MAX_DEPTH; 1: a token never refers to one
    int step_tokens;  // of prompts that fill a step; 0: the host's default is enough
    bool runs_blocks; // plans may have a draft block (plan_begin_draft)
};

struct backend_sizes {
    int max_tokens; // rows of a batch; out rows are some of them
    int max_logits; // logit rows of a batch
    int max_seqs;
    bool bf16_states; // of recurrent groups: the part that is not exact (plan.h); else f32
};

// Bytes that a plan takes on the device.
struct backend_need {
    uint64_t weights, step;
    struct kv_bytes kv; // a page of each group
};

struct backend_config {
    int device;          // its number, as device() took it
    const char *variant; // a set of kernels, by the backend's own name; NULL: the best here
    const char *kv_type; // one of the class's; NULL: its default
    struct backend_sizes sizes;
    uint32_t n_pages[PLAN_MAX_KV_GROUPS];
    struct pool *pool; // the host's threads: lent, they outlive the backend. Its calls may use them
    backend_progress progress;
    void *progress_ctx;
    uint64_t (*now)(void *ctx); // the host's clock in ns, for devices without one; NULL: the usual
    void *now_ctx;
};

// The time of a part of the step.
struct step_stage {
    const char *name; // kind and weights, for people; borrowed. A stage of one op starts with
                      // op_name(): predictions of `runnel plan` are measured by these names
    uint64_t ns;
};

// Valid until the next submit or wait.
struct step_result {
    const int32_t *token;       // [n_logits] chosen where that was asked; -1: no token is possible
    const float *const *logits; // [n_logits] the row's logits, where they were asked for
    // [n_out] the input of the vocabulary's product: from n_logits on, and from 0 on where the
    // backend runs draft blocks
    const float *const *hidden;
    const rn_status *seq_status;    // [n_seqs] not RN_OK: the fault of that sequence; NULL: all are
    uint64_t run_ns, choose_ns;     // by the device's own clock
    uint64_t idle_ns;               // by that clock, from the end of the step before to the start
                                    // of this one; 0: not measured
    bool is_late;                   // the step before had ended when this one was handed over
    uint64_t ops_ns[OPS_COUNT];     // of run_ns, by the class of the ops; all 0: not measured
    uint64_t expert_bytes;          // of experts' weights that were read; 0 without experts
    const struct step_stage *stage; // [n_stage] while profile is on
    int n_stage;
};

// For people, and for a share of the peak. Strings are borrowed.
struct backend_info {
    const char *variant;      // the set of kernels
    const char *kv_type;      // as created
    const char *slow_formats; // that run on the slow reference, "Q4_K, Q6_K"; "": none
    uint64_t cache_bytes;     // of the last-level cache; 0: unknown
    const char *note;         // what else people should know, one line; NULL: nothing
};

enum backend_math { BACKEND_INTEGERS, BACKEND_FLOATS };

struct backend;

struct backend_class {
    const char *name;
    const char *const *kv_types; // the names that a configuration may have; NULL ends them
    const char *kv_default;
    // The device of that number, from 0 on. RN_ERR_UNSUPPORTED: there is none on this machine.
    // RN_ERR_ARG: there are some, and none of that number; the message names it and the range.
    rn_status (*device)(int index, struct backend_device *out, rn_error *err);
    // kv_type is one of kv_types.
    rn_status (*need)(const struct plan *plan, const struct backend_sizes *sizes,
                      const char *kv_type, struct backend_need *out, rn_error *err);
    // The bytes that the device stores for each byte of a format. NULL if it stores weights about
    // as they are.
    void (*stored)(double out[FORMAT_COUNT]);
    // Whether a device runs the plan if a block of its threads has that much shared memory.
    // RN_ERR_UNSUPPORTED: the message names the device. NULL if the backend has no such bound.
    rn_status (*block_check)(const struct plan *plan, const char *kv_type, uint32_t block_bytes,
                             const char *device, rn_error *err);
    // plan outlives the backend. An unknown variant is RN_ERR_ARG, a variant that this machine
    // lacks RN_ERR_UNSUPPORTED.
    rn_status (*create)(const struct plan *plan, const struct backend_config *config,
                        struct backend **out, rn_error *err);
    void (*destroy)(struct backend *backend); // steps in flight are waited for
    // The batch and all that it points to was read when submit returns. A fault here is that of the
    // step, which then is not in flight.
    rn_status (*submit)(struct backend *backend, const struct batch *batch, rn_error *err);
    rn_status (*wait)(struct backend *backend, struct step_result *out, rn_error *err);
    // The contents of the page are not wanted any more, by steps that are submitted later: a batch
    // clears it or copies to it before it is used again. NULL with PAGES_FIXED.
    void (*page_release)(struct backend *backend, int group, uint32_t page);
    // --- the bytes of pages, for a store of them; all three, or none ---
    // Copies the bytes of a page, as many as `need` said, to host memory or from it. Any thread,
    // also beside steps: no step in flight writes the page, or at page_write uses it, and none is
    // submitted that does before the call returns. Two threads may call at once, for other pages.
    rn_status (*page_read)(struct backend *backend, int group, uint32_t page, void *to,
                           rn_error *err);
    rn_status (*page_write)(struct backend *backend, int group, uint32_t page, const void *from,
                            rn_error *err);
    // All that determines a page's bytes beside the model, the KV type and the tokens, as text: the
    // arithmetic, the layout, the device. Backends with equal texts fill equal pages.
    void (*page_identity)(const struct backend *backend, char out[BACKEND_IDENTITY]);
    void (*describe)(const struct backend *backend, struct backend_info *out);
    // --- measuring, with nothing in flight; each may be NULL --- The sustained read bandwidth in
    // bytes/s over a working set of that many bytes. It is the median of the best way to read, over
    // budget_ms (more where the system is slow to give memory). Larger than the last-level cache:
    // main memory. 0 when memory is too short, or the budget 0.
    double (*bandwidth)(struct backend *backend, uint64_t working_set, int budget_ms);
    // Multiply-adds per second without any memory traffic; takes about 20 ms.
    double (*peak_macs)(struct backend *backend, enum backend_math math);
    // Results carry the times of stages from now on, or no more.
    void (*profile)(struct backend *backend, bool on);
};

struct backend {
    const struct backend_class *cls; // first member of every backend's own struct
};

// The contract that a backend in a shared object was built for (plugin.h). The version changes with
// any change of the structs of backend.h, plan.h, batch.h and pool.c, or of their meaning. The
// sizes are part of the number, so that most changes are noticed without a new version.
enum { BACKEND_VERSION = 10 };
#define BACKEND_CONTRACT                                                                           \
    ((unsigned)(BACKEND_VERSION * 1000000u + sizeof(struct backend_class) +                        \
                sizeof(struct backend_config) + sizeof(struct backend_device) +                    \
                sizeof(struct backend_need) + sizeof(struct backend_info) +                        \
                sizeof(struct step_result) + sizeof(struct batch) + sizeof(struct batch_seq) +     \
                sizeof(struct plan) + sizeof(struct plan_weight) + sizeof(struct op)))

// A hash of the sources of the arithmetic and of the readers of models, made by the build.
extern const char backend_fingerprint[];

// Whether no backend is named: NULL or "auto".
bool backend_is_auto(const char *name);
// The class of that name, or of the shared object at that path; "auto" or NULL: the best one whose
// device is here. *out_device is its device of that number. RN_ERR_ARG: no such backend, or no
// device of that number. RN_ERR_UNSUPPORTED: it has no device here. RN_ERR_IO: its shared object is
// broken. Other failures are the device's own.
rn_status backend_find(const char *name, int device, const struct backend_class **out,
                       struct backend_device *out_device, rn_error *err);
// backend_find without a name. A better one whose device is not here is passed over, and note says
// so in a line for people; "": the best one was taken. Other failures are never passed over, a
// number that the best one does not have included.
enum { BACKEND_NOTE = 256 };
rn_status backend_best(int device, const struct backend_class **out,
                       struct backend_device *out_device, char note[BACKEND_NOTE], rn_error *err);
// The class's own string for a name of a KV type; NULL: its default. RN_ERR_ARG: it has none such.
rn_status backend_kv_type(const struct backend_class *cls, const char *name, const char **out,
                          rn_error *err);
void backend_destroy(struct backend *backend); // NULL is fine

// One step by itself: submit, then wait. Nothing is in flight.
rn_status backend_run(struct backend *backend, const struct batch *batch, struct step_result *out,
                      rn_error *err);

#endif
