// The machine of a plan: this one with rates that were measured, a device of the table by its
// public figures, or figures from the command line.
#ifndef RN_APP_PLAN_MACHINE_H
#define RN_APP_PLAN_MACHINE_H

#include "terminal/term.h"
#include "tools.h"

enum machine_kind { MACHINE_NONE, MACHINE_HERE, MACHINE_DEVICE, MACHINE_GIVEN };

struct device_class {
    const char *name;
    double bandwidth_share, math_share, stage_us, step_us;
    int step_tokens;
};

struct device {
    const char *name, *title;
    const struct device_class *class;
    const char *backend; // that runs models there; NULL if runnel has none for its GPU
    int block_kb;        // shared memory of a block; 0 if the device has no such blocks
    double memory_gib, bandwidth_gbs, tflops, int8_tops;
};
const struct device *device_at(int index); // NULL if there are no more
const struct device *device_find(const char *name);

struct machine {
    enum machine_kind kind;
    char name[128];
    uint64_t memory;                    // bytes; 0: unknown
    double bandwidth, flops;            // peak, of memory and of arithmetic; flops 0: no limit
    double bandwidth_share, math_share; // that predictions assume; 1 where rates were measured
    const struct device *device;        // NULL: it is none of the table
    struct predict_machine predict;     // its rates are `rates`
    struct predict_rates *rates;        // owned; NULL: figures alone
    struct tools_place place;           // whose layouts, KV types and rates these are,
    struct tools_device on;             // and the device there; empty for MACHINE_NONE
    bool is_kept;                       // all rates were in the file of rates
    double busy_share;                  // that other programs took while they were measured
};

// The option's values are checked first; kind is MACHINE_NONE where no option names a machine.
int machine_read(const struct options *options, struct machine *out);
void machine_of_device(const struct device *device, uint64_t memory, struct machine *out);
// A machine without rates, for sums of bytes alone: of the CPU, or of the backend that has the KV
// type.
void machine_of_bytes(const char *kv_type, struct machine *out);
bool machine_has_kv_type(const struct machine *machine, const char *kv_type);
// Whether the device's backend runs the model there; RN_ERR_UNSUPPORTED: the message says why not.
rn_status machine_runs(const struct machine *machine, const rn_model *model, const char *kv_type,
                       rn_error *err);
// Refuses a KV type that the machine's backend lacks, and names its own.
int machine_kv_check(const struct options *options, const struct machine *machine);
// The rates of this machine that the plan needs, from the file of rates or measured now.
// draft: the draft model's plan; NULL if there is none. Its attention is predicted by the model's.
int machine_measure(const struct options *options, const struct plan *plan,
                    const struct plan *draft, const struct term *term, struct machine *out);
void machine_forget(struct machine *machine);
// Most tokens of a step there, where nobody says.
int machine_step_tokens(const struct machine *machine);
// Operations for each byte above which arithmetic is the limit, by the peaks; 0: no such limit.
double machine_balance(const struct machine *machine);
// The same at the shares that predictions assume: "bound by" agrees with it. 0: no such limit, or
// rates were measured.
double machine_ridge(const struct machine *machine);

// rates_file.c: rates that were measured before, by a key of the machine and the program.
#define RATES_KEY 320
// machine.c: the key of this machine's device. n_threads 0: all cores. A device that is not the
// processor has one key for all threads and instruction sets.
void rates_key_make(const struct tools_device *device, int n_threads, const char *isa,
                    char out[RATES_KEY]);
struct rates_attention_key {
    const char *kv_type;
    int n_head, n_head_kv, dim_k, dim_v;
    bool is_latent;
};
// The share of the cores' time that other programs took while a part was measured; -1: unknown.
struct rates_busy {
    double base, attention, product[FORMAT_COUNT];
};
// False: there are none, or the file is broken. out->attention is that of the key, is_attention
// false: it was not measured yet.
bool rates_load(const char *key, const struct rates_attention_key *heads, struct predict_rates *out,
                struct rates_busy *busy, bool *has_attention);
// Adds to the rates of the file. A file that cannot be written is no failure of the plan.
void rates_save(const char *key, const struct rates_attention_key *heads,
                const struct predict_rates *rates, const struct rates_busy *busy);

#endif
