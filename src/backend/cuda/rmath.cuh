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

#endif
