// exp, tanh, log, sine and cosine on the device: the functions of base/rmath.h as they are, so that
// the operations are the same. Kernels are compiled without contraction and fast math.
#ifndef RN_BACKEND_CUDA_RMATH_CUH
#define RN_BACKEND_CUDA_RMATH_CUH

#include "device.cuh"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define inline __host__ __device__ inline
#include "base/rmath.h"
#undef inline

// Where they are rare they are called, not inlined: code that runs once is fetched at some cost.
DEV_CALL float rmath_exp_called(float x) { return rmath_exp(x); }
// cap * tanh(x / cap)
DEV_CALL float rmath_capped(float x, float cap) { return cap * rmath_tanh(x / cap); }

#endif
