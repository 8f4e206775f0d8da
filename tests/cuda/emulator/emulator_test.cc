// Tests of the emulator itself: each kernel uses one means of communication, and each fault that
// the emulator promises to find is made on purpose in a child process.
#include "device.cuh"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CUDA(x) CHECK((x) == cudaSuccess)

// ---------------------------------------------------------------- kernels

__global__ void __launch_bounds__(256) sum_kernel(const int *in, int *out, int n) {
    SHARED_MEMORY(shared);
    int *part = (int *)shared;
    int sum = 0;
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n;
         i += (int)(gridDim.x * blockDim.x))
        sum += in[i];
    part[threadIdx.x] = sum;
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
KERNEL_ENTRY(sum_entry, sum_kernel, (const int *, int *, int))

template <int A, int B> __global__ void warp_kernel(uint32_t *out) {
    const int lane = (int)threadIdx.x;
    float v = (float)lane;
    for (int bits = 16; bits; bits /= 2) v += __shfl_xor_sync(0xffffffff, v, bits);
    const uint64_t wide = __shfl_sync(0xffffffff, (uint64_t)lane << 40, (lane + A) % 32);
    const int up = __shfl_up_sync(0xffffffff, lane, 3);
    const unsigned down = __shfl_down_sync(0xffffffff, (unsigned)lane, 4, 8);
    uint32_t odd = 0;
    if (lane & 1) odd = __ballot_sync(0xaaaaaaaa, lane > B);
    __syncwarp();
    out[lane] = v == 496.0f && wide >> 40 == (uint64_t)((lane + A) % 32) &&
                up == (lane < 3 ? lane : lane - 3) &&
                down == (unsigned)((lane & 7) < 4 ? lane + 4 : lane) &&
                odd == (lane & 1 ? 0xaaaaaaaa & ~((2u << B) - 1) : 0) &&
                __any_sync(0xffffffff, lane == 5) && !__all_sync(0xffffffff, lane == 5);
}
KERNEL_ENTRY(warp_entry, (warp_kernel<7, 9>), (uint32_t *))

__global__ void mma_kernel(const uint16_t *a, const uint16_t *b, float *c, int is_bf16) {
    const int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    uint32_t av[4], bv[2];
    for (int i = 0; i < 4; i++)
        av[i] = *(const uint32_t *)&a[(g + 8 * (i & 1)) * 16 + 2 * t + 8 * (i >> 1)];
    for (int i = 0; i < 2; i++) bv[i] = *(const uint32_t *)&b[g * 16 + 2 * t + 8 * i];
    float cv[4];
    for (int i = 0; i < 4; i++) cv[i] = c[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)];
    if (is_bf16)
        mma_bf16(cv, av, bv[0], bv[1]);
    else
        mma_f16(cv, av, bv[0], bv[1]);
    for (int i = 0; i < 4; i++) c[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)] = cv[i];
}
KERNEL_ENTRY(mma_entry, mma_kernel, (const uint16_t *, const uint16_t *, float *, int))

enum { RING_SLOTS = 3, RING_BYTES = 1024, RING_CHUNKS = 11 };
enum ring_fault { RING_FINE, RING_NO_WAIT, RING_NO_SYNC, RING_LOST };

// Each warp brings its chunks through its own ring and adds their words.
__global__ void ring_kernel(const uint8_t *in, uint32_t *out, int fault) {
    SHARED_MEMORY(shared);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    uint64_t *barrier = (uint64_t *)shared + warp * RING_SLOTS;
    uint8_t *slots = shared + 1024 + warp * RING_SLOTS * RING_BYTES;
    if (lane < RING_SLOTS) fetch_init(&barrier[lane]);
    fetch_init_done();
    __syncthreads();
    const uint8_t *from =
        in + (blockIdx.x * (blockDim.x / 32) + (unsigned)warp) * (RING_BYTES * RING_CHUNKS);
    for (int i = 0; i < RING_SLOTS; i++)
        fetch(slots + i * RING_BYTES, from + i * RING_BYTES, RING_BYTES, &barrier[i], lane);
    uint32_t sum = 0;
    for (int i = 0; i < RING_CHUNKS; i++) {
        const int slot = i % RING_SLOTS, next = i + RING_SLOTS;
        if (fault != RING_NO_WAIT) fetch_wait(&barrier[slot], (uint32_t)(i / RING_SLOTS) & 1);
        const uint32_t at = shared_address(slots + slot * RING_BYTES) + (uint32_t)lane * 16;
        for (uint32_t j = 0; j < RING_BYTES; j += 512) {
            const uint4 v = shared_u128(at + j);
            sum += v.x + v.y + v.z + shared_u32(at + j + 12);
        }
        if (fault != RING_NO_SYNC) __syncwarp();
        if (next < RING_CHUNKS && !(fault == RING_LOST && i == 4))
            fetch(slots + slot * RING_BYTES, from + next * RING_BYTES, RING_BYTES, &barrier[slot],
                  lane);
    }
    for (int bits = 16; bits; bits /= 2) sum += __shfl_xor_sync(0xffffffff, sum, bits);
    if (lane == 0) out[blockIdx.x * (blockDim.x / 32) + (unsigned)warp] = sum;
}
KERNEL_ENTRY(ring_entry, ring_kernel, (const uint8_t *, uint32_t *, int))

struct grid_args {
    uint32_t *count, *cells;
    int rounds, gives_up;
};

// Rounds with a barrier of the grid between them: each block adds what its neighbour wrote.
__global__ void grid_kernel(const __grid_constant__ struct grid_args args) {
    const unsigned n = gridDim.x;
    for (int round = 0; round < args.rounds; round++) {
        if (threadIdx.x == 1)
            args.cells[(unsigned)(round + 1) * n + blockIdx.x] =
                load_l2(&args.cells[(unsigned)round * n + blockIdx.x]) +
                load_l2(&args.cells[(unsigned)round * n + (blockIdx.x + 1) % n]);
        __syncthreads();
        if (threadIdx.x == 0) {
            add_acq_rel(args.count, 1);
            while (load_acquire(args.count) < (unsigned)(round + 1) * n) spin();
            if (args.gives_up) give_up();
        }
        __syncthreads();
    }
}
KERNEL_ENTRY(grid_entry, grid_kernel, (struct grid_args))

// Two halves of a block count at their own barriers, a different number of times.
__global__ void halves_kernel(int *out) {
    SHARED_MEMORY(shared);
    const int half = (int)(blockDim.x / 2), team = (int)threadIdx.x / half;
    const int i = (int)threadIdx.x % half;
    int *cells = (int *)shared + team * half;
    cells[i] = i;
    for (int round = 0; round < 5 + team; round++) {
        barrier_sync(1 + team, half);
        const int v = cells[(i + 1) % half];
        barrier_sync(1 + team, half);
        cells[i] = v;
    }
    __syncthreads();
    out[threadIdx.x] = cells[i];
}
KERNEL_ENTRY(halves_entry, halves_kernel, (int *))

// One warp hands numbers to another through two places, and goes on while they are read.
__global__ void hand_kernel(int *out) {
    SHARED_MEMORY(shared);
    int *cells = (int *)shared;
    const int lane = (int)threadIdx.x % 32;
    for (int i = 0; i < 9; i++) {
        const int place = i % 2;
        if (threadIdx.x < 32) {
            if (i >= 2) barrier_sync(3 + place, 64);
            cells[place * 32 + lane] = 100 * i + lane;
            barrier_arrive(1 + place, 64);
        } else {
            barrier_sync(1 + place, 64);
            out[i * 32 + lane] = cells[place * 32 + lane];
            if (i + 2 < 9) barrier_arrive(3 + place, 64);
        }
    }
}
KERNEL_ENTRY(hand_entry, hand_kernel, (int *))

enum fault {
    FAULT_BARRIER,
    FAULT_LANES,
    FAULT_EXIT,
    FAULT_POLL,
    FAULT_SHARED,
    FAULT_GROUP,
    FAULT_GUARD
};

__global__ void fault_kernel(int kind, uint32_t *p) {
    const bool is_odd = threadIdx.x & 1;
    if (kind == FAULT_BARRIER && threadIdx.x != 5) __syncthreads();
    if (kind == FAULT_BARRIER && threadIdx.x == 5) barrier_sync(3, 64);
    if (kind == FAULT_LANES && is_odd) __syncwarp();
    if (kind == FAULT_LANES && !is_odd) __ballot_sync(0xffffffff, 1);
    if (kind == FAULT_EXIT && !is_odd) __ballot_sync(0xffffffff, 1);
    while (kind == FAULT_POLL && load_acquire(p) != 1) spin();
    if (kind == FAULT_SHARED) shared_u128(8);
    if (kind == FAULT_GROUP) {
        float d[32] = {0};
        const uint32_t a[4] = {0};
        warpgroup_mma<false, 64>(d, a, is_odd ? 0 : 16, true, 1);
        warpgroup_end();
        warpgroup_wait<0>();
    }
    if (kind == FAULT_GUARD) p[64] = 1;
}
KERNEL_ENTRY(fault_entry, fault_kernel, (int, uint32_t *))

// ---------------------------------------------------------------- tests

template <class T> static T *device_copy(const std::vector<T> &v) {
    T *p;
    CUDA(cudaMalloc((void **)&p, v.size() * sizeof(T)));
    CUDA(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}
template <class T> static std::vector<T> host_copy(T *p, size_t n) {
    std::vector<T> v(n);
    CUDA(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    CUDA(cudaFree(p));
    return v;
}

static void test_sum() {
    std::vector<int> in(10000);
    int want = 0;
    for (size_t i = 0; i < in.size(); i++) want += in[i] = (int)(i * 7919 % 1000) - 300;
    int *d = device_copy(in), *out = device_copy(std::vector<int>(1)), n = (int)in.size();
    void *args[] = {&d, &out, &n};
    CUDA(cudaLaunchKernel(sum_entry(), 13, 256, args, 1024, nullptr));
    CHECK(host_copy(out, 1)[0] == want);
    CUDA(cudaFree(d));
    CHECK(cudaLaunchKernel(sum_entry(), 13, 256, args, 50000, nullptr) == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
}

static void test_warp() {
    uint32_t *out = device_copy(std::vector<uint32_t>(32));
    void *args[] = {&out};
    CUDA(cudaLaunchKernel(warp_entry(), 1, 32, args, 0, nullptr));
    for (uint32_t v : host_copy(out, 32)) CHECK(v == 1);
}

static void test_mma() {
    for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
        std::vector<uint16_t> a(256), b(128);
        std::vector<float> c(128);
        uint32_t x = 12345;
        auto next = [&] { return (float)((int)((x = x * 1664525 + 1013904223) >> 8) - (1 << 23)); };
        auto of = [&](float v) { return is_bf16 ? bf16_of(v) : f16_of(v); };
        auto f32 = [&](uint16_t v) { return is_bf16 ? f32_of_bf16(v) : f32_of_f16(v); };
        for (auto &v : a) v = of(next() * 0x1p-20f);
        for (auto &v : b) v = of(next() * 0x1p-24f);
        for (auto &v : c) v = next() * 0x1p-22f;
        uint16_t *da = device_copy(a), *db = device_copy(b);
        float *dc = device_copy(c);
        void *args[] = {&da, &db, &dc, &is_bf16};
        CUDA(cudaLaunchKernel(mma_entry(), 1, 32, args, 0, nullptr));
        const std::vector<float> got = host_copy(dc, 128);
        for (size_t row = 0; row < 16; row++)
            for (size_t col = 0; col < 8; col++) {
                double sum = (double)c[row * 8 + col];
                for (size_t k = 0; k < 16; k++)
                    sum += (double)f32(a[row * 16 + k]) * (double)f32(b[col * 16 + k]);
                CHECK(got[row * 8 + col] == (float)sum);
            }
        CUDA(cudaFree(da));
        CUDA(cudaFree(db));
    }
}

static cudaError_t ring(int fault, bool *is_right) {
    const size_t n = 8 * RING_BYTES * RING_CHUNKS;
    std::vector<uint8_t> in(n);
    std::vector<uint32_t> want(8);
    for (size_t i = 0; i < n; i++) {
        in[i] = (uint8_t)(i * i >> 3);
        want[i / (RING_BYTES * RING_CHUNKS)] += (uint32_t)in[i] << i % 4 * 8;
    }
    uint8_t *d = device_copy(in);
    uint32_t *out = device_copy(std::vector<uint32_t>(8));
    void *args[] = {&d, &out, &fault};
    const cudaError_t e = cudaLaunchKernel(ring_entry(), 2, 128, args, 1024 + 4 * 3072, nullptr);
    *is_right = host_copy(out, 8) == want;
    CUDA(cudaFree(d));
    return e;
}

static void test_ring() {
    bool is_right;
    CUDA(ring(RING_FINE, &is_right));
    CHECK(is_right);
}

static void test_grid() {
    const int rounds = 9;
    for (unsigned n = 1; n <= 6; n++) {
        std::vector<uint32_t> want((size_t)(rounds + 1) * n);
        for (unsigned i = 0; i < n; i++) want[i] = i * i + 1;
        struct grid_args args = {device_copy(std::vector<uint32_t>(1)), device_copy(want), rounds,
                                 0};
        for (size_t i = n; i < want.size(); i++)
            want[i] = want[i - n] + want[(i / n - 1) * n + (i + 1) % n];
        void *list[] = {&args};
        CUDA(cudaLaunchCooperativeKernel(grid_entry(), n, 64, list, 0, nullptr));
        CHECK(host_copy(args.cells, want.size()) == want);
        CUDA(cudaFree(args.count));
    }
}

static void test_halves() {
    int *out = device_copy(std::vector<int>(128));
    void *args[] = {&out};
    CUDA(cudaLaunchKernel(halves_entry(), 1, 128, args, 512, nullptr));
    const std::vector<int> got = host_copy(out, 128);
    for (int i = 0; i < 128; i++) CHECK(got[(size_t)i] == (i % 64 + 5 + i / 64) % 64);
}

static void test_hand() {
    int *out = device_copy(std::vector<int>(9 * 32));
    void *args[] = {&out};
    CUDA(cudaLaunchKernel(hand_entry(), 1, 64, args, 256, nullptr));
    const std::vector<int> got = host_copy(out, 9 * 32);
    for (int i = 0; i < 9 * 32; i++) CHECK(got[(size_t)i] == 100 * (i / 32) + i % 32);
}

// Copies and launches of two streams, ordered by an event; then the same as a graph, twice.
static void test_streams() {
    cudaStream_t s, t;
    cudaEvent_t e;
    CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    int *in = device_copy(std::vector<int>(64)), *out, *host, n = 64;
    CUDA(cudaMalloc((void **)&out, sizeof *out));
    CUDA(cudaMallocHost((void **)&host, 65 * sizeof *host));
    void *args[] = {&in, &out, &n};
    auto work = [&] {
        CUDA(cudaMemcpyAsync(in, host, 64 * sizeof *host, cudaMemcpyHostToDevice, s));
        CUDA(cudaMemsetAsync(out, 0, sizeof *out, s));
        CUDA(cudaEventRecord(e, s));
        CUDA(cudaStreamWaitEvent(t, e, 0));
        CUDA(cudaLaunchKernel(sum_entry(), 2, 32, args, 128, t));
        CUDA(cudaMemcpyAsync(host + 64, out, sizeof *out, cudaMemcpyDeviceToHost, t));
    };
    for (int i = 0; i < 64; i++) host[i] = i;
    work();
    CUDA(cudaStreamSynchronize(t));
    CHECK(host[64] == 2016);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    work();
    CUDA(cudaStreamEndCapture(s, &graph));
    n = 0;
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 1; round < 3; round++) {
        host[0] = round * 1000;
        CUDA(cudaGraphLaunch(exec, s));
        CUDA(cudaStreamSynchronize(s));
        CHECK(host[64] == 2016 + round * 1000);
    }
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaFree(in));
    CUDA(cudaFree(out));
    CUDA(cudaFreeHost(host));
    CUDA(cudaEventDestroy(e));
    CUDA(cudaStreamDestroy(s));
    CUDA(cudaStreamDestroy(t));
}

// The steps of f16 around a value, by integers: the nearest one, ties to even.
static void test_halves_of_numbers() {
    for (uint32_t h = 0; h < 0x7c00; h++) {
        const double x = (double)f32_of_f16((uint16_t)h);
        const double next = h == 0x7bff ? 65536.0 : (double)f32_of_f16((uint16_t)(h + 1));
        CHECK(f16_of((float)x) == h && f16_of((float)-x) == (h | 0x8000));
        const double middle = (x + next) / 2;
        CHECK(emulator::f16_of_double(middle) == h + (h & 1));
        CHECK(emulator::f16_of_double(nextafter(middle, 0)) == h);
        CHECK(emulator::f16_of_double(nextafter(middle, 1e9)) == h + 1);
    }
    CHECK(f16_of(1e9f) == 0x7bff && f16_of(INFINITY) == 0x7c00 && f16_of(NAN) == 0x7fff);
    CHECK(bf16_of(1.00390625f) == 0x3f80 && bf16_of(1.01171875f) == 0x3f82);
    CHECK(half2_add(0x68003c00, 0x3c003c00) == 0x68004000);
    CHECK(half2_mul(0x7bff4000, 0x40004200) == 0x7c004600);
    CHECK(bytes_of(0x33221100, 0x77665544, 0x7250) == 0x77225500);
    CHECK((and_or<0x0f0f, 0x6400>(0xabcd) == 0x6f0d));
}

// A product and a sum are exact in long double, so the nearest half is known.
static void test_half2_fma() {
    uint32_t x = 1;
    for (int i = 0; i < 300000; i++) {
        uint16_t h[3];
        for (auto &v : h) {
            x = x * 1664525 + 1013904223;
            v = (uint16_t)(x >> 16);
            if ((v >> 10 & 31) > 15 + i % 15) v = (uint16_t)(v & 0x83ff); // small ones as well
        }
        const uint32_t d = half2_fma(h[0], h[1], h[2]) & 0xffff;
        auto f = [](uint32_t v) { return (long double)f32_of_f16((uint16_t)v); };
        const long double exact = f(h[0]) * f(h[1]) + f(h[2]);
        if ((d & 0x7fff) >= 0x7bff) {
            CHECK(fabsl(exact) > 65488.0L);
            continue;
        }
        const long double error = fabsl(f(d) - exact);
        for (int by = -1; by <= 1; by += 2) {
            if (!(d & 0x7fff) && by < 0) continue;
            const long double other = fabsl(f((uint32_t)((int)d + by)) - exact);
            CHECK(error < other || (error == other && !(d & 1)));
        }
    }
}

// ---------------------------------------------------------------- faults

template <class F> static bool aborts(F f) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        if (!getenv("VERBOSE")) CHECK(freopen("/dev/null", "w", stderr));
        f();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void fault(int kind) {
    uint32_t *p = device_copy(std::vector<uint32_t>(64));
    void *args[] = {&kind, &p};
    CUDA(cudaLaunchKernel(fault_entry(), 2, 64, args, 1024, nullptr));
    CUDA(cudaFree(p));
}

static void test_faults() {
    CHECK(!aborts([] { fault(-1); }));
    for (int kind = FAULT_BARRIER; kind <= FAULT_GUARD; kind++) CHECK(aborts([=] { fault(kind); }));
    bool is_right = true;
    CHECK(aborts([&] { ring(RING_LOST, &is_right); }));
    CHECK(aborts([&] { ring(RING_NO_WAIT, &is_right); }));
    CHECK(aborts([&] { ring(RING_NO_SYNC, &is_right), is_right ? (void)0 : abort(); }));
}

// A thread that gives up makes an error that stays.
static void test_give_up() {
    struct grid_args args = {device_copy(std::vector<uint32_t>(1)),
                             device_copy(std::vector<uint32_t>(6)), 1, 1};
    void *list[] = {&args};
    cudaError_t e = cudaLaunchCooperativeKernel(grid_entry(), 3, 64, list, 0, nullptr);
    if (e == cudaSuccess) e = cudaDeviceSynchronize();
    CHECK(e == cudaErrorLaunchFailure && cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    cudaFree(args.count);
    cudaFree(args.cells);
    CUDA(cudaDeviceReset());
    test_sum();
}

static void test_memory() {
    void *p;
    size_t free_bytes, total;
    setenv("RUNNEL_EMULATOR_BYTES", "1000000", 1);
    CHECK(cudaMalloc(&p, 1000001) == cudaErrorMemoryAllocation && !p);
    CUDA(cudaMalloc(&p, 600000));
    CUDA(cudaMemGetInfo(&free_bytes, &total));
    CHECK(free_bytes == 400000 && total == 1000000 && *(uint8_t *)p == 0xcd);
    CHECK(cudaMemset(p, 0, 600001) == cudaErrorInvalidValue);
    CUDA(cudaFree(p));
    unsetenv("RUNNEL_EMULATOR_BYTES");
    cudaGetLastError();
}

int main() {
    for (int seed = 0; seed < 24; seed++) {
        setenv("RUNNEL_EMULATOR_SEED", std::to_string(seed).c_str(), 1);
        setenv("RUNNEL_EMULATOR_LAZY", seed & 1 ? "1" : "0", 1);
        setenv("RUNNEL_EMULATOR_ARCH", seed & 2 ? "80" : "90", 1);
        test_sum();
        test_warp();
        test_mma();
        test_ring();
        test_grid();
        test_halves();
        test_hand();
        test_streams();
        if (seed < 2) test_faults();
        if (seed < 2) test_give_up();
    }
    test_halves_of_numbers();
    test_half2_fma();
    test_memory();
    puts("ok");
    return 0;
}
