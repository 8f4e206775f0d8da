// Engines of the tests here run on the CUDA backend: the emulated one, or the one that the
// environment names (RUNNEL_TEST_BACKEND=cuda on a machine with a GPU).
#ifndef RN_TESTS_CUDA_ENGINE_H
#define RN_TESTS_CUDA_ENGINE_H

#include "backend/backend.h"

const struct backend_class *cuda_emulated(void);
// The name that the environment gives; NULL: the emulated backend.
const char *cuda_wanted(void);
// The class that engines run on; it must be here.
const struct backend_class *cuda_class(void);

#endif
