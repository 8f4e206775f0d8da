// The ops of the CUDA backend against the CPU's reference, on the random plans of
// backend/test_parity.c. The CPU rounds inputs of block formats to 8 bits and the GPU all inputs to
// 16, and fp8 pages have 4 bits of precision: rows agree to a tenth of their largest number.
//
// Cases of EXPERTS are not compared: products of gates are beyond the range of f16, and a chain of
// two products into few numbers has no larger number beside it. The reference models have experts,
// and so have the cases of COMBINE. Heads of an odd size are refused.
#include "check.h"
#include "cuda_engine.h"

// The cases are always the same ones: a single output of a product may be the small rest of large
// terms, and then no bound holds for every case.
#define test_scale(slow, quick, whole) (quick)

// No product is in their cases: they differ by the rounding of tables to f16, and of states to
// bf16. Logits of routes have few bits, so the experts are the same.
#define STATE_OPS                                                                                  \
    (1u << OP_CONV | 1u << OP_DELTA | 1u << OP_SCAN | 1u << OP_COLUMNS | 1u << OP_ROUTE)
#define TABLE_LINES                                                                                \
    {.way = {.find = cuda_class, .n_threads = 2},                                                  \
     .reference = SCALAR,                                                                          \
     .tolerance = 0.12,                                                                            \
     .has_gaps = true,                                                                             \
     .without = 1u << OP_EXPERTS | STATE_OPS},                                                     \
        {.way = {.find = cuda_class, .n_threads = 1},                                              \
         .reference = SCALAR,                                                                      \
         .tolerance = 0.03,                                                                        \
         .without = ~(STATE_OPS)},

#include "backend/test_parity.c"
