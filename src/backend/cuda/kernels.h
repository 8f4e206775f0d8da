// The types of pages and the codecs that kernels are compiled for. A build with RN_FEW_KERNELS
// shows that the kernels compile, in half the time; its plug-in lacks the others.
#ifndef RN_BACKEND_CUDA_KERNELS_H
#define RN_BACKEND_CUDA_KERNELS_H

#include "codec.h"

#ifdef RN_FEW_KERNELS
#define KERNEL_TYPES(X)  X(F16) X(INT8)
#define KERNEL_CODECS(X) X(BF16, 1024, true) X(Q4, 256 + 32, false) X(Q6, 256 + 128 + 64, false)
#else
#define KERNEL_TYPES(X)  X(F16) X(BF16) X(INT8) X(FP8)
#define KERNEL_CODECS(X) CODEC_LIST(X)
#endif

#endif
