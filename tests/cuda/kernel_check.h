// Shared by the checks of single parts: failures, random numbers, memory of the device, a launch.
#ifndef RN_TESTS_CUDA_KERNEL_CHECK_H
#define RN_TESTS_CUDA_KERNEL_CHECK_H

#include <initializer_list>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#include <cuda_runtime_api.h>

// ---------------------------------------------------------------- failures

inline int case_now = -1; // of checks whose cases have numbers

inline void check_place(const char *file, int line, const char *condition) {
    fprintf(stderr, "%s:%d: ", file, line);
    if (case_now >= 0) fprintf(stderr, "case %d: ", case_now);
    fprintf(stderr, "%s", condition);
}
[[noreturn]] inline void check_failed(const char *file, int line, const char *condition) {
    check_place(file, line, condition);
    fprintf(stderr, "\n");
    exit(1);
}
[[noreturn]] __attribute__((format(printf, 4, 5))) inline void
check_failed(const char *file, int line, const char *condition, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    check_place(file, line, condition);
    fprintf(stderr, ": ");
    vfprintf(stderr, format, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    exit(1);
}

// A format and its arguments may follow the condition, for printf.
#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) check_failed(__FILE__, __LINE__, #condition, ##__VA_ARGS__);             \
    } while (0)
#define CUDA(call) CHECK((call) == cudaSuccess, "%s", cudaGetErrorString(cudaGetLastError()))

// ---------------------------------------------------------------- random numbers

inline uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

struct random_source {
    uint64_t state;
    uint64_t next() { return mix(state += 0x9e3779b97f4a7c15u); }
    int below(int n) { return (int)(next() % (uint64_t)n); }
    int in(int low, int high) { return low + below(high - low + 1); }
    bool one_in(int n) { return below(n) == 0; }
    float number() { return (float)below(2001) / 1000.0f - 1.0f; } // from -1 to 1
    // A half of about the size of weights.
    uint16_t half(bool is_bf16) {
        return (uint16_t)(below(2) << 15 |
                          (is_bf16 ? 0x3c00 + below(0x100) : 0x2000 + below(0x800)));
    }
    template <class T> T of(std::initializer_list<T> list) {
        return list.begin()[below((int)list.size())];
    }
};

inline random_source draw = {1}; // of checks whose cases have no numbers

// Of a key, from -2 to 2, about normal.
inline float number_of(uint64_t key) {
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += (float)(mix(key * 4 + (uint64_t)i + 1) >> 40) * 0x1p-24f;
    return sum - 2.0f;
}

// ---------------------------------------------------------------- memory of the device

template <class T> void device_put(T *to, const std::vector<T> &from) {
    if (!from.empty())
        CUDA(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
}
template <class T> std::vector<T> device_get(const T *from, size_t n) {
    std::vector<T> to(n);
    if (n) CUDA(cudaMemcpy(to.data(), from, n * sizeof(T), cudaMemcpyDeviceToHost));
    return to;
}

// An array that grows.
template <class T> struct device_array {
    T *at = nullptr;
    size_t n = 0;
    device_array() = default;
    explicit device_array(const std::vector<T> &from) { put(from); }
    device_array(const device_array &) = delete;
    device_array &operator=(const device_array &) = delete;
    ~device_array() { cudaFree(at); }
    void resize(size_t size) {
        if (at && size <= n) return;
        cudaFree(at);
        CUDA(cudaMalloc((void **)&at, size * sizeof(T) + 256));
        n = size;
    }
    T *put(const std::vector<T> &from) {
        resize(from.size());
        device_put(at, from);
        return at;
    }
    std::vector<T> get(size_t size) const { return device_get(at, size); }
    std::vector<T> get() const { return get(n); }
};

// Arrays that end together.
struct device_memory {
    std::vector<void *> all;
    device_memory() = default;
    device_memory(const device_memory &) = delete;
    device_memory &operator=(const device_memory &) = delete;
    ~device_memory() {
        for (void *at : all) cudaFree(at);
    }
    template <class T> T *take(size_t n) {
        T *at;
        CUDA(cudaMalloc((void **)&at, n * sizeof(T) + 256));
        all.push_back(at);
        return at;
    }
    template <class T> T *put(const std::vector<T> &from) {
        T *at = take<T>(from.size());
        device_put(at, from);
        return at;
    }
};

// ---------------------------------------------------------------- launches

template <class T>
void launch(const void *kernel, int blocks, int threads, size_t shared, T *args) {
    void *list[] = {args};
    CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    CUDA(cudaLaunchKernel(kernel, dim3((unsigned)blocks), dim3((unsigned)threads), list, shared,
                          nullptr));
    CUDA(cudaDeviceSynchronize());
}

#endif
