// The expected time of a step on a machine, op by op: the bytes and operations of cost.h against
// the machine's rates. A machine is either figures (bandwidth, arithmetic) or rates that were
// measured on small matrices (tools_rates.c). Nothing here runs a model or reads a clock. Callers:
// `runnel plan` and the programs that compare it with measurements.
#ifndef RN_PLAN_PREDICT_H
#define RN_PLAN_PREDICT_H

#include "plan/cost.h"

// Kernels change behind 8 and behind 32 rows, so both sides of these places are points.
enum { PREDICT_POINTS = 11 };
extern const int predict_rows[PREDICT_POINTS]; // 1, 2, 4, 8, 9, 12, 16, 32, 33, 64, 256

// Of a weight format, when a product has predict_rows[i] rows; the time that every stage takes is
// not in it. Narrow matrices have many outputs for their bytes, so outputs have a rate of their
// own. Some kernels compute while the next weights arrive, others read first.
struct predict_product {
    bool is_known;
    double share;                   // of the bandwidth, that a product of one row reaches
    double cached[PREDICT_POINTS];  // ns for each byte of weights in the cache
    double output[PREDICT_POINTS];  // ns for each row of the matrix
    double input[PREDICT_POINTS];   // ns for each column of the matrix, once a stage
    double overlap[PREDICT_POINTS]; // of reading and computing: 1 the shorter one is hidden, 0 both
                                    // add up
};

// A matrix, or several of one stage: bytes of weights, rows, and columns whose inputs are made.
struct predict_matrix {
    double bytes, outputs, inputs;
};

// Ops over rows: ns of an op, and of each float that it reads or writes. Products have the time of
// a stage alone, which one or several of them are.
struct predict_op {
    double fixed_ns, float_ns;
};

// One query for each sequence, and the append before it.
struct predict_kv {
    double seq_ns;    // of each sequence
    double byte_ns;   // of each KV byte read
    double append_ns; // of each sequence
};

// Attention of one KV type and head shape.
struct predict_attention {
    double fixed_ns; // of an op
    struct predict_kv cached, memory;
    double row_ns;  // of each query of a sequence but the first
    double flop_ns; // of each operation, where that takes longer than the bytes
};

// Working sets, as parts of the cache, at which memory's share is known.
enum { PREDICT_SETS = 6 };
extern const double predict_sets[PREDICT_SETS]; // 0.5, 0.75, 1, 1.5, 2, 3

struct predict_rates {
    double bandwidth;   // bytes/s of memory
    double int_flops;   // operations/s of block formats: twice the multiply-adds
    double float_flops; // of float formats
    uint64_t cache_bytes;
    // the share of a working set's bytes that comes from memory, when it is predict_sets[i] of the
    // cache: 0 to 1
    double memory_share[PREDICT_SETS];
    double step_ns; // of a step beside its ops
    struct predict_product product[FORMAT_COUNT];
    struct predict_op op[OP_COUNT];
    struct predict_attention attention;
};

struct predict_machine {
    double bandwidth; // bytes/s that a step reaches
    double flops;     // operations/s that products reach
    double stage_ns;  // of each product and each attention, beside its bytes and operations
    double step_ns;
    double stored[FORMAT_COUNT]; // bytes that a product reads for each byte of a format; 0: one
    const struct predict_rates *rates; // NULL: the figures above are used
};

// Whether an op that was measured to take ns is bound by arithmetic and not by its bytes.
bool predict_is_math(double bytes_ns, double ns);

// What the time of a step is spent on: weights that are read, KV that is read or written,
// arithmetic, and the rest (small ops, starts of stages, the host).
// An op by figures is bound by the larger of two times: of its bytes and of its operations.
enum predict_bound { BOUND_WEIGHTS, BOUND_KV, BOUND_MATH, BOUND_HOST, BOUND_COUNT };

struct prediction {
    double ns;
    double part_ns[BOUND_COUNT]; // they add up to ns
    double kind_ns[OP_COUNT];    // by kind of op; with the step's own time they add up to ns
    enum predict_bound bound;    // the largest part
    struct cost cost;
};

// "bandwidth", "KV", "arithmetic", "host".
const char *predict_bound_name(enum predict_bound bound);

void predict_step(const struct plan *plan, const struct kv_bytes *kv,
                  const struct predict_machine *machine, const struct batch_shape *shape,
                  struct prediction *out);

// A rate at that number of rows, between the measured points in proportion; beyond the last in
// proportion to the rows.
double predict_rate(const double point[PREDICT_POINTS], double rows);

// ns of a product of that many rows, when all that its step reads are working_set bytes.
double predict_product_ns(const struct predict_rates *rates, enum format_id format, double rows,
                          const struct predict_matrix *matrix, double working_set);

#endif
