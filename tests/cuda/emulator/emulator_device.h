// What kernel sources see in an emulated build: the functions of device.cuh and the built-in names
// of CUDA, with the same signatures and meaning. A thread is a fiber of one host thread: it runs
// until it waits (a barrier, a warp collective, a copy) or polls (load_acquire, spin, an atomic),
// so the other threads see its stores only in an order that the real machine could show as well.
// device.cuh includes this file; emulator.cc implements what is not inline.
#ifndef RN_EMULATOR_DEVICE_H
#define RN_EMULATOR_DEVICE_H

#include "cuda_runtime_api.h"

#include <map>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define DEV_CALL     [[maybe_unused]] static
#define DEV          __device__ __forceinline__
#define UNROLL

namespace emulator {

struct place { // of a block
    uint3 block;
    dim3 block_size, grid_size;
    uint8_t *shared;
    uint32_t shared_bytes;
};
struct thread {
    uint3 index;
    const place *at;
};
extern thread *now; // the running thread; NULL outside of kernels

// A warp collective: `finish` runs once, when every lane of the mask has brought its data.
struct collective_kind {
    const char *name;
    void (*finish)(void *const *data, uint32_t mask);
    bool exited_lanes_may_miss;
};
extern const collective_kind KIND_SYNCWARP, KIND_SHUFFLE, KIND_VOTE, KIND_MATCH, KIND_MMA_F16,
    KIND_MMA_BF16, KIND_GROUP_F16, KIND_GROUP_BF16;
void collective(const collective_kind *kind, uint32_t mask, void *data);

void barrier_arrive(int number, int n);
void barrier_wait(int barrier, int n); // barrier 0: all threads of the block
void poll();                           // another thread may run; nothing happened yet
void progress();                       // the running thread changed what others may wait for
void atomic_point();                   // both, at random
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void trap();

struct shuffle_data {
    uint64_t value, result;
    int from; // a lane; negative: the value of the lane itself
};
struct vote_data {
    bool yes;
    uint32_t ballot;
};
struct match_data {
    uint32_t value, same;
};
struct mma_data {
    float *c;
    const uint32_t *a;
    uint32_t b0, b1;
};
struct group_mma_data {
    float *d;
    const uint32_t *a;
    uint32_t at; // of the second matrix, in shared memory
    int n_live;
    bool is_add;
};

inline int lane_here() {
    const dim3 &n = now->at->block_size;
    return (int)((now->index.x + n.x * (now->index.y + n.y * now->index.z)) & 31);
}

template <class T> T shuffle(uint32_t mask, T value, int from) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 64 bits");
    shuffle_data d = {0, 0, from};
    memcpy(&d.value, &value, sizeof value);
    collective(&KIND_SHUFFLE, mask, &d);
    memcpy(&value, &d.result, sizeof value);
    return value;
}
inline uint32_t vote(uint32_t mask, bool yes) {
    vote_data d = {yes, 0};
    collective(&KIND_VOTE, mask, &d);
    return d.ballot;
}

// A load as the device does it: an address that is not aligned is an error.
template <class T> T aligned(const T *p) {
    if ((uintptr_t)p % sizeof(T)) fail("a load of %zu bytes is not aligned: %p", sizeof(T), p);
    return *p;
}
template <class T> T shared_at(uint32_t at) {
    if (at % sizeof(T) || at + sizeof(T) > now->at->shared_bytes)
        fail("shared memory of %u bytes has no %zu bytes at %u", now->at->shared_bytes, sizeof(T),
             at);
    T v;
    memcpy(&v, now->at->shared + at, sizeof v);
    return v;
}

template <class To, class From> To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "sizes differ");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

// To nearest even, once. Beyond the range: infinity. Not a number: 0x7fff, as the device has it.
inline uint16_t f16_of_double(double x) {
    uint64_t u = bits_as<uint64_t>(x);
    const uint16_t sign = (uint16_t)(u >> 48 & 0x8000);
    u &= UINT64_MAX >> 1;
    if (u > 0x7ff0000000000000) return 0x7fff;
    if (u >= 0x40effe0000000000) return (uint16_t)(sign | 0x7c00); // 65520
    if (u < 0x3f10000000000000) {                                  // 2^-14: steps of 2^-24
        const double steps = fabs(x) * 0x1p24 + 0x1p52;
        return (uint16_t)(sign | (uint16_t)(bits_as<uint64_t>(steps) & 0xffff));
    }
    u += ((uint64_t)1 << 41) - 1 + (u >> 42 & 1);
    return (uint16_t)(sign | (uint16_t)((u >> 42) - (1008 << 10)));
}
inline float f32_of_half(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, m = h & 0x3ff;
    if (exponent == 31) return bits_as<float>(m ? 0x7fffffff : sign | 0x7f800000);
    if (!exponent) return bits_as<float>(sign | bits_as<uint32_t>((float)m * 0x1p-24f));
    return bits_as<float>(sign | (exponent + 112) << 23 | m << 13);
}
// a * b + c with a last bit that says whether the sum is exact: rounding it again is rounding once.
inline double fma_to_odd(double a, double b, double c) {
    const double p = a * b, sum = p + c;
    if (!isfinite(sum)) return sum;
    const double back = sum - p, error = (p - (sum - back)) + (c - back);
    uint64_t u = bits_as<uint64_t>(sum);
    if (error != 0 && !(u & 1)) u += (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
    return bits_as<double>(u);
}
template <class F> uint32_t each_half(uint32_t a, uint32_t b, uint32_t c, F f) {
    uint32_t d = 0;
    for (int i = 0; i < 32; i += 16)
        d |= (uint32_t)f16_of_double(f((double)f32_of_half((uint16_t)(a >> i)),
                                       (double)f32_of_half((uint16_t)(b >> i)),
                                       (double)f32_of_half((uint16_t)(c >> i))))
             << i;
    return d;
}

// What a launch needs to know of a kernel.
struct kernel {
    uint32_t magic;
    const char *name;
    void (*function)();
    void (*call)(void (*function)(), void **args);
    int n_args;
    const size_t *arg_bytes;
    size_t shared_limit;
};
enum : uint32_t { KERNEL_MAGIC = 0x4b524e4c };

template <class... A, size_t... I>
void call_by_index(void (*function)(), void **args, std::index_sequence<I...>) {
    (void)args;
    reinterpret_cast<void (*)(A...)>(function)(*static_cast<A *>(args[I])...);
}
template <class... A> void call_with(void (*function)(), void **args) {
    call_by_index<A...>(function, args, std::index_sequence_for<A...>());
}
template <class... A> kernel kernel_of(const char *name, void (*function)(A...)) {
    static const size_t bytes[] = {sizeof(A)..., 0};
    return {KERNEL_MAGIC,
            name,
            reinterpret_cast<void (*)()>(function),
            call_with<A...>,
            (int)sizeof...(A),
            bytes,
            48 << 10};
}

// Runs all blocks. False: a thread gave up.
bool run_grid(const kernel *k, void **args, dim3 grid, dim3 block, uint32_t shared_bytes,
              int blocks_at_once);
uint32_t random_below(uint32_t n);
bool is_arch_80();
uint64_t clock_ns();

bool is_device_memory(const void *p, size_t n);
void fetch_begin(void *to, const void *from, uint32_t n, uint64_t *barrier, int lane);
void fetch_end(uint64_t *barrier, uint32_t parity);
void fetch_barrier_init(uint64_t *barrier);
void meet_init(uint64_t *barrier, int n);
void meet_arrive(uint64_t *barrier);
void fetch_barrier_end(uint64_t *barrier);

} // namespace emulator

// name(): the kernel for cudaLaunchKernel. A kernel with a comma in its template
// arguments needs parentheses around it.
#define KERNEL_ENTRY(name, function, types)                                                        \
    extern "C" const void *name(void) {                                                            \
        static emulator::kernel entry =                                                            \
            emulator::kernel_of(#name, static_cast<void(*) types>(function));                      \
        return &entry;                                                                             \
    }

// ---------------------------------------------------------------- built-in names of CUDA

// Plain variables: a change of the running thread writes them.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

DEV void __syncthreads() { emulator::barrier_wait(0, 0); }
DEV void __syncwarp(uint32_t mask = 0xffffffff) {
    emulator::collective(&emulator::KIND_SYNCWARP, mask, nullptr);
}
DEV void __threadfence() {}
DEV void __threadfence_block() {}
DEV void __threadfence_system() {}

template <class T> DEV T __shfl_sync(uint32_t mask, T v, int from, int width = 32) {
    const int first = emulator::lane_here() & ~(width - 1);
    return emulator::shuffle(mask, v, first | (from & (width - 1)));
}
template <class T> DEV T __shfl_xor_sync(uint32_t mask, T v, int bits, int width = 32) {
    const int lane = emulator::lane_here(), from = lane ^ bits;
    return emulator::shuffle(mask, v, from < (lane & ~(width - 1)) + width ? from : -1);
}
template <class T> DEV T __shfl_up_sync(uint32_t mask, T v, unsigned by, int width = 32) {
    const int lane = emulator::lane_here();
    return emulator::shuffle(mask, v, (unsigned)(lane & (width - 1)) >= by ? lane - (int)by : -1);
}
template <class T> DEV T __shfl_down_sync(uint32_t mask, T v, unsigned by, int width = 32) {
    const int lane = emulator::lane_here();
    const bool is_inside = by < (unsigned)(width - (lane & (width - 1)));
    return emulator::shuffle(mask, v, is_inside ? lane + (int)by : -1);
}
DEV uint32_t __ballot_sync(uint32_t mask, int yes) { return emulator::vote(mask, yes != 0); }
DEV int __any_sync(uint32_t mask, int yes) { return emulator::vote(mask, yes != 0) != 0; }
DEV int __all_sync(uint32_t mask, int yes) { return emulator::vote(mask, yes != 0) == mask; }

// Lanes of the mask with the same value.
template <class T> DEV uint32_t __match_any_sync(uint32_t mask, T v) {
    static_assert(sizeof(T) == 4, "a match compares 32 bits");
    emulator::match_data d = {emulator::bits_as<uint32_t>(v), 0};
    emulator::collective(&emulator::KIND_MATCH, mask, &d);
    return d.same;
}
// Of the whole warp.
DEV uint32_t __reduce_max_sync(uint32_t mask, uint32_t v) {
    if (mask != 0xffffffff) emulator::fail("a reduction of lanes %08x is not emulated", mask);
    for (int o = 16; o > 0; o /= 2) {
        const uint32_t other = __shfl_xor_sync(mask, v, o);
        v = other > v ? other : v;
    }
    return v;
}
DEV uint32_t __reduce_min_sync(uint32_t mask, uint32_t v) { return ~__reduce_max_sync(mask, ~v); }

DEV int __popc(uint32_t x) { return __builtin_popcount(x); }
DEV int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
DEV int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
DEV int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
DEV int __ffs(int x) { return __builtin_ffs(x); }
DEV int __ffsll(long long x) { return __builtin_ffsll(x); }
DEV uint32_t __umulhi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }
DEV uint64_t __umul64hi(uint64_t a, uint64_t b) {
    return (uint64_t)((unsigned __int128)a * b >> 64);
}
DEV uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t d = 0;
    for (int i = 0; i < 4; i++)
        d |= (uint32_t)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return d;
}
DEV uint32_t __float_as_uint(float x) { return emulator::bits_as<uint32_t>(x); }
DEV int __float_as_int(float x) { return emulator::bits_as<int>(x); }
DEV float __uint_as_float(uint32_t x) { return emulator::bits_as<float>(x); }
DEV float __int_as_float(int x) { return emulator::bits_as<float>(x); }
DEV long long __double_as_longlong(double x) { return emulator::bits_as<long long>(x); }
DEV double __longlong_as_double(long long x) { return emulator::bits_as<double>(x); }
template <class T> DEV T __ldcg(const T *p) { return emulator::aligned(p); }
template <class T> DEV T __ldg(const T *p) { return emulator::aligned(p); }

#define EMULATED_MIN_MAX(T)                                                                        \
    DEV T min(T a, T b) { return a < b ? a : b; }                                                  \
    DEV T max(T a, T b) { return a < b ? b : a; }
EMULATED_MIN_MAX(int)
EMULATED_MIN_MAX(unsigned)
EMULATED_MIN_MAX(long)
EMULATED_MIN_MAX(unsigned long)
EMULATED_MIN_MAX(long long)
EMULATED_MIN_MAX(unsigned long long)
#undef EMULATED_MIN_MAX
DEV unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
DEV unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
DEV unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
DEV unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
DEV float min(float a, float b) { return fminf(a, b); }
DEV float max(float a, float b) { return fmaxf(a, b); }

// There is none for floats: the order of such sums would be that of the threads.
#define EMULATED_ATOMIC(T, name, value)                                                            \
    DEV T name(T *p, T v) {                                                                        \
        emulator::atomic_point();                                                                  \
        const T old = *p;                                                                          \
        __atomic_store_n(p, (T)(value), __ATOMIC_RELAXED);                                         \
        return old;                                                                                \
    }
#define EMULATED_ATOMICS(T)                                                                        \
    EMULATED_ATOMIC(T, atomicAdd, (unsigned long long)old + (unsigned long long)v)                 \
    EMULATED_ATOMIC(T, atomicMax, old < v ? v : old)                                               \
    EMULATED_ATOMIC(T, atomicMin, v < old ? v : old)                                               \
    EMULATED_ATOMIC(T, atomicOr, old | v)                                                          \
    EMULATED_ATOMIC(T, atomicAnd, old &v)                                                          \
    EMULATED_ATOMIC(T, atomicXor, old ^ v)                                                         \
    EMULATED_ATOMIC(T, atomicExch, v)                                                              \
    DEV T atomicCAS(T *p, T expected, T v) {                                                       \
        emulator::poll();                                                                          \
        const T old = *p;                                                                          \
        if (old == expected && v != old) {                                                         \
            __atomic_store_n(p, v, __ATOMIC_RELAXED);                                              \
            emulator::progress();                                                                  \
        }                                                                                          \
        return old;                                                                                \
    }
EMULATED_ATOMICS(int)
EMULATED_ATOMICS(unsigned)
EMULATED_ATOMICS(unsigned long long)
#undef EMULATED_ATOMICS
#undef EMULATED_ATOMIC

// ---------------------------------------------------------------- the functions of device.cuh

#define SHARED_MEMORY(name) uint8_t *const name = emulator::now->at->shared

DEV uint32_t shared_address(const void *p) {
    const uintptr_t at = (uintptr_t)p - (uintptr_t)emulator::now->at->shared;
    if (at > emulator::now->at->shared_bytes) emulator::fail("%p is not in shared memory", p);
    return (uint32_t)at;
}

template <class T> DEV T load_l2(const T *p) { return emulator::aligned(p); }
DEV void prefetch_l2(const void *p) { (void)*(const volatile uint8_t *)p; }
DEV uint4 load_once(const uint4 *p) { return emulator::aligned(p); }
DEV uint4 shared_u128(uint32_t at) { return emulator::shared_at<uint4>(at); }
DEV uint2 shared_u64(uint32_t at) { return emulator::shared_at<uint2>(at); }
DEV uint32_t shared_u32(uint32_t at) { return emulator::shared_at<uint32_t>(at); }

DEV void shared_matrices(uint32_t (&a)[4], uint32_t at, int lane) {
    for (uint32_t i = 0; i < 4; i++)
        a[i] = emulator::shared_at<uint32_t>(at + i % 2 * 512 + i / 2 * 128 + (uint32_t)lane * 4);
}

template <bool IS_TURNED>
DEV void shared_matrices_at(uint32_t (&a)[4], uint32_t at, uint32_t second, uint32_t third,
                            int lane) {
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t matrix = at + i % 2 * second + i / 2 * third;
        if (matrix % 16) emulator::fail("a matrix at %u is not aligned", matrix);
        if (!IS_TURNED) {
            a[i] = emulator::shared_at<uint32_t>(matrix + (uint32_t)lane * 4);
            continue;
        }
        const uint32_t column = matrix + (uint32_t)(lane % 4 * 32 + lane / 4 * 2);
        a[i] = (uint32_t)emulator::shared_at<uint16_t>(column) |
               (uint32_t)emulator::shared_at<uint16_t>(column + 16) << 16;
    }
}

// Copies of single threads: done when they are waited for, and not before.
namespace emulator {
struct late_copy {
    uint32_t to;
    const void *from;
    int group;
};
struct late_copies {
    std::vector<late_copy> list;
    int group = 0;
};
inline late_copies &late_here() {
    static std::map<std::pair<unsigned, unsigned>, late_copies> all;
    return all[{blockIdx.x, threadIdx.x}];
}
} // namespace emulator
DEV void dependents_launch() {}
DEV void dependency_wait() {}
DEV void copies_may_follow() {}
DEV void copy_16(uint32_t to, const void *from) {
    emulator::late_copies &late = emulator::late_here();
    late.list.push_back({to, from, late.group});
}
DEV void copies_commit() { emulator::late_here().group++; }
template <int N> DEV void copies_wait() {
    emulator::late_copies &late = emulator::late_here();
    size_t kept = 0;
    for (const emulator::late_copy &copy : late.list) {
        if (copy.group >= late.group - N)
            late.list[kept++] = copy;
        else
            memcpy(emulator::now->at->shared + copy.to, copy.from, 16);
    }
    late.list.resize(kept);
}

DEV void barrier_sync(int barrier, int n) {
    if (barrier < 1 || barrier > 15 || n < 32 || n % 32)
        emulator::fail("barrier %d of %d threads is not possible", barrier, n);
    emulator::barrier_wait(barrier, n);
}
DEV void barrier_arrive(int barrier, int n) {
    if (barrier < 1 || barrier > 15 || n < 32 || n % 32)
        emulator::fail("barrier %d of %d threads is not possible", barrier, n);
    emulator::barrier_arrive(barrier, n);
}
DEV void store_release(uint32_t *p, uint32_t v) {
    emulator::atomic_point();
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
DEV uint32_t load_acquire(const uint32_t *p) {
    emulator::poll();
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
DEV void add_release(uint32_t *p, uint32_t v) { atomicAdd(p, v); }
DEV uint32_t add_acq_rel(uint32_t *p, uint32_t v) {
    emulator::atomic_point();
    return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL);
}
DEV uint64_t device_ns() { return emulator::clock_ns(); }
DEV void spin() { emulator::poll(); }
DEV void give_up() { emulator::trap(); }

// All 32 lanes must call fetch here, as sm_80 has it; lane 0 starts all of the copy where arch
// is 90.
enum { FETCH_ARRIVALS = 32 };
DEV void fetch_init(uint64_t *barrier) { emulator::fetch_barrier_init(barrier); }
DEV void fetch_init_done() {}
DEV void fetch_end(uint64_t *barrier) { emulator::fetch_barrier_end(barrier); }
template <bool IS_ONCE = false>
DEV void fetch(void *to, const void *from, uint32_t n, uint64_t *barrier, int lane) {
    emulator::fetch_begin(to, from, n, barrier, lane);
}
// The last copy of a lane is late; so one that is not waited for is found.
template <int N>
DEV void fetch_each(void *to, uint32_t step_to, const void *from, uint64_t step_from, uint32_t n,
                    uint64_t *barrier, int lane) {
    for (uint32_t rest = __ballot_sync(0xffffffffu, n > 0); rest; rest &= rest - 1) {
        const int of = __builtin_ctz(rest);
        if (lane == of)
            for (int i = 0; i < N - 1; i++)
                memcpy((char *)to + (uint32_t)i * step_to, (const char *)from + i * step_from, n);
        const uintptr_t last_to = (uintptr_t)to + (N - 1) * (uintptr_t)step_to;
        const uintptr_t last_from = (uintptr_t)from + (N - 1) * step_from;
        emulator::fetch_begin((void *)__shfl_sync(0xffffffffu, last_to, of),
                              (const void *)__shfl_sync(0xffffffffu, last_from, of),
                              __shfl_sync(0xffffffffu, n, of),
                              (uint64_t *)__shfl_sync(0xffffffffu, (uintptr_t)barrier, of), lane);
    }
}
// The copy of the last lane is late; so one that is not waited for is found.
template <bool IS_ONCE = false>
DEV void fetch_all(void *to, const void *from, uint32_t n, uint64_t *barrier, int lane) {
    const uint32_t has = __ballot_sync(0xffffffffu, n > 0);
    if (!has) emulator::fail("fetch_all of nothing");
    const int last = 31 - __builtin_clz(has);
    if (n > 0 && lane != last) memcpy(to, from, n);
    emulator::fetch_begin((void *)__shfl_sync(0xffffffffu, (uintptr_t)to, last),
                          (const void *)__shfl_sync(0xffffffffu, (uintptr_t)from, last),
                          __shfl_sync(0xffffffffu, n, last), barrier, lane);
}
// The last copy is late.
template <int N, class A, class B>
DEV void fetch_list(uint64_t *barrier, int lane, uint32_t n, A to, B from) {
    if (lane == 0)
        for (int i = 0; i < N - 1; i++) memcpy(to(i), from(i), n);
    emulator::fetch_begin(to(N - 1), from(N - 1), n, barrier, lane);
}
DEV void fetch_wait(uint64_t *barrier, uint32_t parity) { emulator::fetch_end(barrier, parity); }
DEV void meet_init(uint64_t *barrier, int n) { emulator::meet_init(barrier, n); }
DEV void meet_arrive(uint64_t *barrier, int lane) {
    __syncwarp();
    if (lane == 0) emulator::meet_arrive(barrier);
}

DEV void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    emulator::mma_data d = {c, a, b0, b1};
    emulator::collective(&emulator::KIND_MMA_F16, 0xffffffff, &d);
}
DEV void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    emulator::mma_data d = {c, a, b0, b1};
    emulator::collective(&emulator::KIND_MMA_BF16, 0xffffffff, &d);
}

// A warpgroup's instructions run when they are waited for, and not before. So operands that are
// written again too early are found, and results that are read too early.
enum { GROUP_BYTES = 512, FIRST_HALF_BYTES = 1024 + 16 };
namespace emulator {
struct late_mma {
    const collective_kind *kind;
    float *d;
    const uint32_t *a; // NULL: in shared memory
    uint32_t a_at, at;
    int n_live, group;
    bool is_add;
};
struct late_mmas {
    std::vector<late_mma> list;
    int group = 0;
};
inline late_mmas &mmas_here() {
    static std::map<std::pair<unsigned, unsigned>, late_mmas> all;
    return all[{blockIdx.x, threadIdx.x}];
}
inline void mma_later(bool is_bf16, float *d, const uint32_t *a, uint32_t a_at, uint32_t at,
                      bool is_add, int n_live) {
    late_mmas &late = mmas_here();
    late.list.push_back(
        {is_bf16 ? &KIND_GROUP_BF16 : &KIND_GROUP_F16, d, a, a_at, at, n_live, late.group, is_add});
}
inline void mma_now(const late_mma &m) {
    uint32_t a[4];
    for (uint32_t i = 0; i < 4; i++)
        a[i] = m.a ? m.a[i] : shared_at<uint32_t>(m.a_at + i % 2 * 128 + i / 2 * FIRST_HALF_BYTES);
    group_mma_data data = {m.d, a, m.at, m.n_live, m.is_add};
    collective(m.kind, 0xffffffff, &data);
}
} // namespace emulator
template <int N> DEV void registers_take() {}
template <int N> DEV void registers_give() {}
DEV void warpgroup_begin() {}
DEV void warpgroup_end() { emulator::mmas_here().group++; }
template <int N> DEV void warpgroup_wait() {
    emulator::late_mmas &late = emulator::mmas_here();
    size_t n = 0;
    while (n < late.list.size() && late.list[n].group < late.group - N)
        emulator::mma_now(late.list[n++]);
    late.list.erase(late.list.begin(), late.list.begin() + (ptrdiff_t)n);
}
template <int N> DEV void warpgroup_hold(float (&)[N]) {}
template <bool IS_BF16, int N>
DEV void warpgroup_mma(float (&d)[N / 2], const uint32_t (&a)[4], uint32_t at, bool is_add,
                       int n_live, uint32_t offset = 0) {
    emulator::mma_later(IS_BF16, d, a, 0, at + offset, is_add, n_live);
}
template <bool IS_BF16, int N>
DEV void warpgroup_mma_first(float (&d)[N / 2], const uint32_t (&a)[4], uint32_t at,
                             uint32_t offset) {
    warpgroup_mma<IS_BF16, N>(d, a, at, false, N / 8, offset);
}
template <bool IS_BF16>
DEV void warpgroup_mma_shared(float (&d)[64], uint32_t a_at, uint32_t a_offset, uint32_t at,
                              uint32_t offset, bool is_first) {
    const uint32_t row = a_at + a_offset + threadIdx.x / 32 % 4 * 256 + threadIdx.x % 32 * 4;
    emulator::mma_later(IS_BF16, d, nullptr, row, at + offset, !is_first, 16);
}

DEV float exp2_device(float x) {
    const float y = exp2f(x);
    return y < 0x1p-126f ? 0.0f : y;
}
DEV float max_or_nan(float a, float b) { return isnan(a) ? a : isnan(b) || b > a ? b : a; }
DEV uint32_t half2_add(uint32_t a, uint32_t b) {
    return emulator::each_half(a, b, 0, [](double x, double y, double) { return x + y; });
}
DEV uint32_t half2_mul(uint32_t a, uint32_t b) {
    return emulator::each_half(a, b, 0, [](double x, double y, double) { return x * y; });
}
DEV uint32_t half2_fma(uint32_t a, uint32_t b, uint32_t c) {
    return emulator::each_half(a, b, c, emulator::fma_to_odd);
}
DEV uint16_t f16_of(float x) {
    const float bounded = x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x;
    return emulator::f16_of_double((double)(isinf(x) ? x : bounded));
}
DEV uint32_t f16x2_of(float low, float high) {
    return (uint32_t)emulator::f16_of_double((double)low) |
           (uint32_t)emulator::f16_of_double((double)high) << 16;
}
DEV uint16_t bf16_of(float x) {
    const uint32_t u = emulator::bits_as<uint32_t>(x);
    return isnan(x) ? 0x7fff : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
DEV uint32_t bf16x2_of(float low, float high) {
    return (uint32_t)bf16_of(low) | (uint32_t)bf16_of(high) << 16;
}
DEV float f32_of_f16(uint16_t h) { return emulator::f32_of_half(h); }
DEV float f32_of_bf16(uint16_t h) { return __uint_as_float((uint32_t)h << 16); }
DEV uint32_t bytes_of(uint32_t a, uint32_t b, uint32_t selector) {
    return __byte_perm(a, b, selector);
}
template <uint32_t MASK, uint32_t BITS> DEV uint32_t and_or(uint32_t w) {
    return (w & MASK) | BITS;
}

#endif
