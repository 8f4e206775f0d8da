// Internal interface for the program's tools (inspect, eval, bench): calls that the public header
// does not promise. Linked statically into the program. The server has no part in it
// (tools/check-includes).
#ifndef RN_TOOLS_H
#define RN_TOOLS_H

#include "helpers.h"
#include "plan/cost_rates.h"
#include "plan/predict.h"
#include "runnel.h"
#include "weights/weights.h"

// Opens a model's files alone: a GGUF file or a folder.
rn_status tools_weights_open(const char *path, struct weights **out, rn_error *err);

// The file behind a model, and its plan (NULL when opened for the vocabulary alone). Borrowed.
const struct weights *tools_weights(const rn_model *model);
const struct plan *tools_plan(const rn_model *model);
const struct tokenizer *tools_tokenizer(const rn_model *model);

// A model of a known shape with random weights and no file, for benchmarks: "1b:Q4_K_M" (see
// weights/synthetic.h).
rn_status tools_model_open_synthetic(const char *spec, rn_model **out, rn_error *err);
// A model for plans of memory and time: no weight and no vocabulary is read. name is a GGUF file, a
// folder, a config.json alone or in a folder, or a shape, SHAPE or SHAPE:FORMAT. A format (NULL:
// the model's own, of a shape that of published files) replaces the formats of its matrices.
#define TOOLS_CONFIG_FORMAT "BF16" // of a config.json
rn_status tools_model_describe(const char *name, const char *format, rn_model **out, rn_error *err);
// As weights_format_missed (weights/synthetic.h), of a described model.
const char *tools_format_missed(const rn_model *model, const char *format, int64_t *cols);
const char *tools_shape_at(int index); // the names of shapes; NULL if there are no more
bool tools_is_shape(const char *name); // SHAPE or SHAPE:FORMAT, of a known shape
rn_status tools_synthetic_check(const char *spec, rn_error *err); // whether it could be opened

// ---------------------------------------------------------------- architectures (tools_kernels.c)

// An architecture that can be run: its name in GGUF, and the names of its Hugging Face classes.
enum { TOOLS_ARCH_CLASSES = 8 };
struct tools_arch {
    const char *name;
    const char *classes[TOOLS_ARCH_CLASSES + 1]; // each once; NULL ends them
};
bool tools_arch_at(int index, struct tools_arch *out); // false: no more

// ---------------------------------------------------------------- kernels (tools_kernels.c)

// Which kernel serves a format on an instruction set, for 1, 2 to 8, 9 to 32 and more tokens.
struct tools_kernel {
    const char *format, *isa;
    bool built, here; // this program has it; this machine has it
    const char *name[4];
    double file_bits, packed_bits; // per weight
};
bool tools_kernel_at(int index, struct tools_kernel *out); // false: no more

// How this machine reads the weights of one token fastest, such as "L2 +4096"; "" where a kernel
// has no choice, or this machine has a better instruction set. Measured, on n_threads (0: all
// cores).
enum { TOOLS_WAY_TEXT = 32 };
struct tools_ways;
rn_status tools_ways_create(int n_threads, struct tools_ways **out, rn_error *err);
void tools_ways_destroy(struct tools_ways *ways);
rn_status tools_ways_find(struct tools_ways *ways, int index, char out[TOOLS_WAY_TEXT],
                          rn_error *err);

// ---------------------------------------------------------------- devices (tools_runner.c)

// Where a tool computes, as in rn_engine_options. Zeros: the first device of the best backend here.
struct tools_place {
    const char *backend;
    int device;
    bool is_absent; // a machine that is not here, with this backend: for sums of bytes alone
};
#define TOOLS_PLACE_CPU ((struct tools_place){.backend = "cpu", .is_absent = true})

enum { TOOLS_NOTE = 256 };

// The device of a place. Its pointers stay valid.
struct tools_device {
    const char *backend;         // its name
    char name[RN_DEVICE_NAME];   // for people; "": the processor of this machine
    const char *const *kv_types; // that it has; NULL ends them
    const char *kv_default;
    bool runs_blocks;                   // it runs a model's own draft block
    int step_tokens;                    // most tokens of a step; 0: RN_DEFAULT_BATCH_TOKENS
    uint64_t memory_total, memory_free; // 0: unknown
    char note[TOOLS_NOTE];              // as in rn_engine_info
};
rn_status tools_device_find(const struct tools_place *place, struct tools_device *out,
                            rn_error *err);
// Bytes that a product reads there for each byte of a weight format. False: one, about.
bool tools_stored(const struct tools_place *place, double out[FORMAT_COUNT]);
// Whether a GPU that is not here runs the model, by the shared memory of its blocks (0: it does).
// RN_ERR_UNSUPPORTED: the message names the device.
rn_status tools_block_check(const rn_model *model, const struct tools_place *place,
                            const char *kv_type, uint32_t block_bytes, const char *device,
                            rn_error *err);
// The bytes of KV pages there; NULL: of its default type.
rn_status tools_kv_bytes(const rn_model *model, const struct tools_place *place,
                         const char *kv_type, struct kv_bytes *out, rn_error *err);
// Tokens from one state that is kept for prefixes to the next; 0: the model has no states.
int tools_state_interval(const rn_model *model, const struct kv_bytes *kv);

// ---------------------------------------------------------------- memory (tools_memory.c)

struct tools_memory_wanted {
    struct tools_place place; // whose layouts and pages the bytes are
    const char *kv_type;      // NULL: the default
    int n_ctx, users;         // positions of each user
    int batch_tokens;         // most tokens of a step
    int shared_tokens;        // of a prefix that all users share
    int draft_tokens;         // of each user in a step
    const rn_model *draft;    // the draft model, on the same device; NULL if there is none
    uint64_t memory;          // of the device; 0: unknown
};

enum { TOOLS_MOST_USERS = 4096 }; // that are tried; an engine has no more sequences

struct tools_memory {
    uint64_t weight_bytes, step_bytes;
    uint64_t table_bytes;      // of tables that stay in their file, beside the weights
    uint64_t user_bytes;       // KV pages and states of one user, without the shared pages
    uint64_t shared_bytes;     // KV pages that all users share
    uint64_t kv_bytes;         // pages and states of all users
    uint64_t state_bytes;      // all states of a sequence, whatever its length; 0: there are none
    uint64_t state_user_bytes; // of user_bytes: the running state, and one checkpoint of it
    int state_interval;        // tokens from one checkpoint to the next
    uint64_t mtp_bytes;        // KV of the model's own draft block, all users; 0: it has none
    uint64_t reserve_bytes;    // that an engine leaves free
    uint64_t draft_weight_bytes, draft_step_bytes, draft_kv_bytes; // of the draft model
    uint64_t total_bytes; // weights, step, KV, states, the draft block's KV and the draft model
    uint64_t kv_token_bytes;
    struct kv_bytes kv, draft_kv; // a page of each group
    bool fits;                    // total and reserve into the memory, or that is unknown
    int most_users; // that fit, up to TOOLS_MOST_USERS; 0 where the memory is unknown, too
    const char *kv_type;
    uint64_t here_total, here_free; // memory of the place; 0: unknown
};

// Whether its parts and the reserve fit into that memory; true where that is 0, unknown.
bool tools_memory_fits(const struct tools_memory *parts, uint64_t memory);
// As an engine divides memory, for a device of any size.
rn_status tools_memory(const rn_model *model, const struct tools_memory_wanted *wanted,
                       struct tools_memory *out, rn_error *err);

// ---------------------------------------------------------------- measuring (tools_runner.c)

// A backend of its own, driven by batches that are made by hand: any number of sequences at any
// depth. It needs no scheduler, no sampler, and no prompt to reach a depth.
struct tools_runner;

// Steps over n_seqs sequences at a time. Step i of a sequence evaluates step_tokens positions from
// depth + i * advance on, until n_positions are covered. A prompt in chunks advances by as many
// positions as it evaluates, decoding has steps of 1, verifying drafts evaluates several and
// advances by 1.
struct tools_work {
    int n_seqs;
    int depth;       // positions that are in the cache before
    int n_positions; // beyond the depth
    int step_tokens; // at most, of each sequence
    int advance;
    bool all_logits; // logits of every row; otherwise of the last row of the last step alone
};

struct tools_cost {
    uint64_t steps, tokens; // tokens of all sequences
    uint64_t weight_bytes;  // read; expert_bytes of them are an expectation
    uint64_t expert_bytes;
    uint64_t kv_bytes;             // read
    uint64_t int_macs, float_macs; // multiply-adds, by the type that the operands are multiplied as
};

struct tools_runner_options {
    struct tools_place place;
    const char *isa;         // NULL: the best of this machine
    int n_threads;           // 0: all cores that this process may use
    bool no_pin;             // as in rn_engine_options
    const char *kv_type;     // NULL: the default
    rn_progress_fn progress; // of loading; may be NULL
    void *progress_ctx;
};

// RN_ERR_CONTEXT: one of the works goes beyond the model's context.
rn_status tools_works_check(const rn_model_info *info, const struct tools_work *works, int n_works,
                            rn_error *err);
// Whether a device with memory of its own has room for all of them; RN_ERR_NOMEM: it has not, and
// the message has the parts. Nothing is loaded. The works were checked.
rn_status tools_works_fit(const rn_model *model, const struct tools_runner_options *options,
                          const struct tools_work *works, int n_works, rn_error *err);
uint64_t tools_work_pages(const struct tools_work *work); // KV pages of each group
// Everything that the works need is allocated, and KV pages are there; the works are checked too.
// The model outlives the runner. RN_ERR_NOMEM before anything is loaded: a device with memory of
// its own has too little.
rn_status tools_runner_create(const rn_model *model, const struct tools_runner_options *options,
                              const struct tools_work *works, int n_works,
                              struct tools_runner **out, rn_error *err);
void tools_runner_destroy(struct tools_runner *runner); // NULL is fine

// Runs the work, of at most max_steps steps (0: all), with random tokens; *ns is the time of its
// steps, *expert_bytes the bytes of experts that they read. RN_ERR_CANCELLED: stop (may be NULL),
// which is asked between steps, said so.
rn_status tools_runner_run(struct tools_runner *runner, const struct tools_work *work,
                           int max_steps, bool (*stop)(void), uint64_t *ns, uint64_t *expert_bytes,
                           rn_error *err);
// The mean time in ns that the device took between two steps of the last run, by its own clock; 0:
// it does not say. The host does next to nothing there, so it is the least that an engine can have.
double tools_runner_idle_ns(const struct tools_runner *runner);
// The bytes that the work must read, and its operations; the same for every run of it, but for the
// experts.
void tools_runner_cost(const struct tools_runner *runner, const struct tools_work *work,
                       struct tools_cost *out);
// Bytes that the steps of a work go over: the weights that a step reads, and the KV at its end.
uint64_t tools_runner_working_set(const struct tools_runner *runner, const struct tools_work *work);

// As backend_class says.
double tools_runner_bandwidth(struct tools_runner *runner, uint64_t working_set, int budget_ms);
double tools_runner_peak(struct tools_runner *runner, bool integer);

struct tools_runner_info {
    const char *backend, *isa, *kv_type;
    const char *device;       // as in rn_engine_info
    const char *slow_formats; // as in rn_engine_info
    int n_threads;
    uint64_t cache_bytes;
    bool has_bandwidth, has_stages; // it can measure them
};
void tools_runner_get_info(const struct tools_runner *runner, struct tools_runner_info *out);

// Where the time of a work goes: stages of one name added up over the layers, in the order of their
// first use; none where the backend does not time them. The caller frees out. *total_ns is the time
// of all steps, stages or not. RN_ERR_CANCELLED: stop (may be NULL) said so.
struct tools_stage {
    char name[96];
    uint64_t ns, runs;
};
rn_status tools_runner_stages(struct tools_runner *runner, const struct tools_work *work,
                              bool (*stop)(void), struct tools_stage **out, int *n_out,
                              uint64_t *total_ns, rn_error *err);

// ---------------------------------------------------------------- rates (tools_rates.c)

struct tools_rates_options {
    struct tools_place place;
    const char *isa; // as in tools_runner_options
    int n_threads;
    bool no_pin;
    const char *kv_type;
    bool (*stop)(void); // asked between steps; may be NULL. RN_ERR_CANCELLED: it said so
    bool is_rough;      // few bytes, one repetition: for tests, which want no figures
};

// Everything but products and attention: bandwidth, peaks, cache, ops over rows.
rn_status tools_rates_base(const struct tools_rates_options *options, struct predict_rates *out,
                           rn_error *err);
// Products of a format; base is measured already. Takes about a second.
rn_status tools_rates_product(const struct tools_rates_options *options,
                              const struct predict_rates *base, enum format_id format,
                              struct predict_product *out, rn_error *err);
// Attention of n_head query heads over such a group's heads, in the options' KV type.
rn_status tools_rates_attention(const struct tools_rates_options *options,
                                const struct plan_kv_group *group, int n_head, uint64_t cache_bytes,
                                struct predict_attention *out, rn_error *err);

#endif
