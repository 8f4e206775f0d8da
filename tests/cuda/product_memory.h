// What the checks of products share: failures, random numbers, memory of the device and a launch.
#ifndef RN_TESTS_CUDA_PRODUCT_MEMORY_H
#define RN_TESTS_CUDA_PRODUCT_MEMORY_H

#include <stdio.h>
#include <stdlib.h>
#include <vector>

#include "cuda_runtime_api.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CUDA(call) CHECK((call) == cudaSuccess)

static uint64_t state = 88172645463325252u;
static uint32_t random_below(uint32_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % n;
}
static float random_float() { return (float)random_below(2001) / 1000.0f - 1.0f; }

// Halves of about the size of weights.
static uint16_t random_half(bool is_bf16) {
    return (uint16_t)((random_below(2) << 15) |
                      (is_bf16 ? 0x3c00 + random_below(0x100) : 0x2000 + random_below(0x800)));
}

// Arrays on the device, which end together.
struct memory {
    std::vector<void *> all;
    template <class T> T *put(const std::vector<T> &data) {
        T *at;
        CUDA(cudaMalloc((void **)&at, data.size() * sizeof(T) + 256));
        CUDA(cudaMemcpy(at, data.data(), data.size() * sizeof(T), cudaMemcpyHostToDevice));
        all.push_back(at);
        return at;
    }
    float *floats(size_t n) {
        std::vector<float> data(n);
        for (float &v : data) v = random_float();
        return put(data);
    }
    ~memory() {
        for (void *at : all) cudaFree(at);
    }
};

static void launch(const void *kernel, int blocks, int threads, uint32_t shared, void *args) {
    void *list[] = {args};
    CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448));
    CUDA(cudaLaunchKernel(kernel, dim3((unsigned)blocks), dim3((unsigned)threads), list, shared,
                          nullptr));
    CUDA(cudaDeviceSynchronize());
}

#endif
