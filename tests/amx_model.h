// A model of AMX's tiles in plain C, by the manual: for the kernels of src/backend/cpu that are
// built with RUNNEL_AMX_MODEL (tests/CMakeLists.txt, library matmul_amx_model). Each thread has its
// own tiles. The first use that the processor would answer with a fault is kept as a sentence.
#ifndef RN_TESTS_AMX_MODEL_H
#define RN_TESTS_AMX_MODEL_H

#include <stdbool.h>
#include <stdint.h>

// Since the last call: NULL where there was no fault and all tiles are released.
const char *amx_model_fault(void);
// Tile products since the last call.
int64_t amx_model_dots(void);

#endif
