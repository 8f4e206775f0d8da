// The CUDA runtime without a GPU: memory, streams, events, launches, graphs. A stream's work is a
// list of functions. It runs when the host hands it over or, where RUNNEL_EMULATOR_LAZY is 1, when
// the host waits for it: so both ends of what a device may do are tested. Device memory has guard
// bytes at both ends, checked when it is freed, and starts as 0xcd bytes.
//
// One lock covers all calls. A launch that gave up is an error for good, as on a device.
#include "emulator_device.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

typedef std::function<void()> work;

struct CUgraph_st {
    std::vector<work> ops;
    std::vector<cudaStream_t> streams; // those that record into it
};
struct CUgraphExec_st {
    std::vector<work> ops;
};
struct CUstream_st {
    std::deque<work> queue;
    bool is_blocking;
    cudaGraph_t capture;
};
struct CUevent_st {
    uint64_t recorded, done; // numbers of records
    cudaStream_t stream;
    cudaGraph_t capture;
    double time_ms;
    bool has_time;
};

namespace {

enum memory_kind { MEMORY_DEVICE, MEMORY_HOST, MEMORY_REGISTERED };
struct allocation {
    size_t bytes;
    memory_kind kind;
    void *base; // of malloc
};
enum { GUARD_BYTES = 256, N_PROCESSORS = 3, BLOCKS_PER_PROCESSOR = 2 };
constexpr size_t SHARED_PROCESSOR = 233472;

std::recursive_mutex lock;
cudaError_t last = cudaSuccess, lost = cudaSuccess;
std::map<uintptr_t, allocation> memory;
size_t device_bytes;
CUstream_st stream_zero = {{}, true, nullptr};
std::set<cudaStream_t> streams = {&stream_zero};

// A call: takes the lock, and answers with the error for good where there is one.
struct call {
    std::lock_guard<std::recursive_mutex> held{lock};
    cudaError_t status = lost;
    bool ok() const { return status == cudaSuccess; }
    cudaError_t end(cudaError_t e) {
        if (ok()) status = lost != cudaSuccess ? lost : e;
        if (status != cudaSuccess && status != cudaErrorNotReady) last = status;
        return status;
    }
};
int calls_left; // until memory is short
bool is_short() { return calls_left > 0 && --calls_left == 0; }

#define BEGIN_CALL                                                                                 \
    call c;                                                                                        \
    if (!c.ok()) return c.end(c.status)

// Shared memory that a block can have: 227 KB as sm_90 has it, or what RUNNEL_EMULATOR_SHARED says.
size_t shared_optin() {
    const char *text = getenv("RUNNEL_EMULATOR_SHARED");
    return text ? (size_t)strtoull(text, nullptr, 0) : 232448;
}
size_t device_total() {
    const char *text = getenv("RUNNEL_EMULATOR_BYTES");
    return text ? (size_t)strtoull(text, nullptr, 0) : (size_t)4 << 30;
}
bool is_lazy() {
    const char *text = getenv("RUNNEL_EMULATOR_LAZY");
    return text && atoi(text);
}
cudaStream_t stream_of(cudaStream_t s) { return !s || s == cudaStreamLegacy ? &stream_zero : s; }

void run_one(cudaStream_t s) {
    work w = std::move(s->queue.front());
    s->queue.pop_front();
    w();
}
void drain(cudaStream_t s) {
    while (!s->queue.empty()) run_one(s);
}
void drain_all() {
    const std::vector<cudaStream_t> all(streams.begin(), streams.end());
    const size_t first = emulator::random_below((uint32_t)all.size());
    for (size_t i = 0; i < all.size(); i++) drain(all[(first + i) % all.size()]);
}
void drain_event(cudaStream_t s, cudaEvent_t e, uint64_t record) {
    while (e->done < record) run_one(s);
}
// Stream zero runs after the work of blocking streams, and they after its own.
void order_with_zero(cudaStream_t s) {
    if (!s->is_blocking) return;
    for (cudaStream_t other : streams)
        if (other != s && other->is_blocking && (s == &stream_zero || other == &stream_zero))
            drain(other);
}
cudaError_t hand_over(cudaStream_t stream, work w) {
    cudaStream_t s = stream_of(stream);
    if (!streams.count(s)) return cudaErrorInvalidResourceHandle;
    if (s->capture) {
        s->capture->ops.push_back(std::move(w));
        return cudaSuccess;
    }
    order_with_zero(s);
    s->queue.push_back(std::move(w));
    if (!is_lazy()) drain(s);
    return cudaSuccess;
}

// ---------------------------------------------------------------- memory

const allocation *memory_of(const void *p, size_t n, uintptr_t *at) {
    auto next = memory.upper_bound((uintptr_t)p);
    if (next == memory.begin()) return nullptr;
    --next;
    if ((uintptr_t)p + n > next->first + next->second.bytes) return nullptr;
    if (at) *at = next->first;
    return &next->second;
}
bool is_device(const void *p, size_t n) {
    const allocation *a = memory_of(p, n, nullptr);
    return a && a->kind == MEMORY_DEVICE;
}

cudaError_t allocate(void **p, size_t n, memory_kind kind) {
    if (!p) return cudaErrorInvalidValue;
    *p = nullptr;
    if (!n) return cudaSuccess;
    if (kind == MEMORY_DEVICE && (n > device_total() || device_bytes > device_total() - n))
        return cudaErrorMemoryAllocation;
    void *base = nullptr;
    if (posix_memalign(&base, 256, (n + 255) / 256 * 256 + 2 * GUARD_BYTES))
        return cudaErrorMemoryAllocation;
    uint8_t *at = (uint8_t *)base + GUARD_BYTES;
    memset(base, 0xa5, GUARD_BYTES);
    memset(at, 0xcd, n);
    memset(at + n, 0xa5, GUARD_BYTES);
    memory[(uintptr_t)at] = {n, kind, base};
    if (kind == MEMORY_DEVICE) device_bytes += n;
    *p = at;
    return cudaSuccess;
}

void guards_check(uintptr_t at, const allocation &a) {
    for (int side = 0; side < 2; side++) {
        const uint8_t *guard = side ? (const uint8_t *)at + a.bytes : (const uint8_t *)a.base;
        for (int i = 0; i < GUARD_BYTES; i++)
            if (guard[i] != 0xa5)
                emulator::fail("memory of %zu bytes at %p: byte %td was overwritten", a.bytes,
                               (void *)at, guard + i - (const uint8_t *)at);
    }
}

cudaError_t release(void *p, memory_kind kind) {
    if (!p) return cudaSuccess;
    drain_all();
    auto at = memory.find((uintptr_t)p);
    if (at == memory.end() || at->second.kind != kind) return cudaErrorInvalidValue;
    if (kind != MEMORY_REGISTERED) {
        guards_check(at->first, at->second);
        free(at->second.base);
    }
    if (kind == MEMORY_DEVICE) device_bytes -= at->second.bytes;
    memory.erase(at);
    return cudaSuccess;
}

cudaError_t copy_check(const void *to, const void *from, size_t n, cudaMemcpyKind kind) {
    if ((unsigned)kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (kind == cudaMemcpyDefault) return cudaSuccess;
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (is_device(to, n) != to_device || is_device(from, n) != from_device) {
        fprintf(stderr, "emulator: a copy of %zu bytes, %p to %p, is not of kind %d\n", n, from, to,
                (int)kind);
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

cudaError_t copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                      size_t height, cudaMemcpyKind kind, cudaStream_t stream, bool is_sync) {
    if (!width || !height) return cudaSuccess;
    const size_t to_bytes = to_pitch * (height - 1) + width;
    const size_t from_bytes = from_pitch * (height - 1) + width;
    cudaError_t e = copy_check(to, from, width, kind);
    if (e == cudaSuccess)
        e = copy_check((char *)to + to_bytes - width, (const char *)from + from_bytes - width,
                       width, kind);
    if (e != cudaSuccess) return e;
    // Host memory that is not pinned: the call has read it, or has written it, when it returns.
    const bool is_captured = stream_of(stream)->capture;
    std::vector<uint8_t> staged;
    if (!is_captured && !is_sync && !memory_of(from, from_bytes, nullptr) && is_lazy())
        staged.assign((const uint8_t *)from, (const uint8_t *)from + from_bytes);
    const bool is_now = !is_captured && (is_sync || !memory_of(to, to_bytes, nullptr));
    e = hand_over(stream, [=, data = std::move(staged)] {
        const uint8_t *source = data.empty() ? (const uint8_t *)from : data.data();
        for (size_t i = 0; i < height; i++)
            memmove((uint8_t *)to + i * to_pitch, source + i * from_pitch, width);
    });
    if (e == cudaSuccess && is_now) drain(stream_of(stream));
    return e;
}

cudaError_t fill(void *p, int value, size_t n, cudaStream_t stream) {
    if (!n) return cudaSuccess;
    if (!memory_of(p, n, nullptr)) return cudaErrorInvalidValue;
    return hand_over(stream, [=] { memset(p, value, n); });
}

// ---------------------------------------------------------------- launches

emulator::kernel *kernel_at(const void *func) {
    emulator::kernel *k = (emulator::kernel *)const_cast<void *>(func);
    return k && k->magic == emulator::KERNEL_MAGIC ? k : nullptr;
}

int blocks_per_processor(size_t threads, size_t shared_bytes) {
    const size_t by_threads = 2048 / threads, by_shared = SHARED_PROCESSOR / (shared_bytes + 1024);
    return (int)std::min<size_t>(BLOCKS_PER_PROCESSOR, std::min(by_threads, by_shared));
}

cudaError_t launch(const void *func, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                   cudaStream_t stream, bool is_cooperative) {
    const emulator::kernel *k = kernel_at(func);
    if (!k) return cudaErrorInvalidDeviceFunction;
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    if (!threads || threads > 1024 || block.z > 64 || !blocks || grid.x > INT32_MAX ||
        grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    if (shared_bytes > k->shared_limit) return cudaErrorInvalidValue;
    const int at_once = N_PROCESSORS * blocks_per_processor(threads, shared_bytes);
    if (is_cooperative && blocks > (uint64_t)at_once) return cudaErrorCooperativeLaunchTooLarge;
    std::vector<std::vector<uint8_t>> values;
    for (int i = 0; i < k->n_args; i++) {
        const uint8_t *from = (const uint8_t *)args[i];
        values.emplace_back(from, from + k->arg_bytes[i]);
    }
    return hand_over(stream, [=, copies = std::move(values)] {
        if (lost != cudaSuccess) return;
        std::vector<void *> pointers;
        for (const auto &v : copies) pointers.push_back(const_cast<uint8_t *>(v.data()));
        if (!emulator::run_grid(k, pointers.data(), grid, block, (uint32_t)shared_bytes, at_once))
            lost = cudaErrorLaunchFailure;
    });
}

} // namespace

// Kernels run within calls of this file, which have the lock.
bool emulator::is_device_memory(const void *p, size_t n) { return is_device(p, n); }

extern "C" {

// ---------------------------------------------------------------- errors and the device

#define ERROR_NAME(name, value, text)                                                              \
    case name:                                                                                     \
        return #name;
#define ERROR_TEXT(name, value, text)                                                              \
    case name:                                                                                     \
        return text;
const char *cudaGetErrorName(cudaError_t e) {
    switch (e) { EMULATED_ERRORS(ERROR_NAME) }
    return "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t e) {
    switch (e) { EMULATED_ERRORS(ERROR_TEXT) }
    return "unrecognized error code";
}
cudaError_t cudaGetLastError(void) {
    std::lock_guard<std::recursive_mutex> held(lock);
    const cudaError_t e = last;
    last = lost;
    return e;
}
cudaError_t cudaPeekAtLastError(void) {
    std::lock_guard<std::recursive_mutex> held(lock);
    return last;
}
cudaError_t cudaDriverGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
    BEGIN_CALL;
    return c.end(device ? cudaErrorInvalidDevice : cudaSuccess);
}
cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
    BEGIN_CALL;
    if (device) return c.end(cudaErrorInvalidDevice);
    struct cudaDeviceProp p = {};
    snprintf(p.name, sizeof p.name, "emulated");
    p.totalGlobalMem = device_total();
    p.sharedMemPerBlock = 48 << 10;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32;
    p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = INT32_MAX;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.totalConstMem = 65536;
    p.major = emulator::is_arch_80() ? 8 : 9;
    p.multiProcessorCount = N_PROCESSORS;
    p.canMapHostMemory = p.concurrentKernels = p.asyncEngineCount = p.unifiedAddressing = 1;
    p.memoryBusWidth = 5120;
    p.l2CacheSize = 1 << 20;
    p.maxThreadsPerMultiProcessor = 2048;
    p.sharedMemPerMultiprocessor = SHARED_PROCESSOR;
    p.cooperativeLaunch = 1;
    p.sharedMemPerBlockOptin = shared_optin();
    p.maxBlocksPerMultiProcessor = 32;
    p.reservedSharedMemPerBlock = 1024;
    *prop = p;
    return c.end(cudaSuccess);
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device) {
    BEGIN_CALL;
    if (device) return c.end(cudaErrorInvalidDevice);
    switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = 1024;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = 48 << 10;
        break;
    case cudaDevAttrWarpSize:
        *value = 32;
        break;
    case cudaDevAttrClockRate:
        *value = 1000000;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = N_PROCESSORS;
        break;
    case cudaDevAttrMemoryClockRate:
        *value = 1000000;
        break;
    case cudaDevAttrGlobalMemoryBusWidth:
        *value = 5120;
        break;
    case cudaDevAttrL2CacheSize:
        *value = 1 << 20;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = 2048;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = emulator::is_arch_80() ? 8 : 9;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = (int)SHARED_PROCESSOR;
        break;
    case cudaDevAttrCooperativeLaunch:
        *value = 1;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)shared_optin();
        break;
    default:
        return c.end(cudaErrorInvalidValue);
    }
    return c.end(cudaSuccess);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    return *least = 0, *greatest = -5, cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
    BEGIN_CALL;
    drain_all();
    return c.end(cudaSuccess);
}
cudaError_t cudaDeviceReset(void) {
    std::lock_guard<std::recursive_mutex> held(lock);
    drain_all();
    last = lost = cudaSuccess;
    return cudaSuccess;
}

// ---------------------------------------------------------------- memory

int emulator_short_at(int n) {
    const int left = calls_left;
    calls_left = n;
    return left;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    BEGIN_CALL;
    *total_bytes = device_total();
    *free_bytes = *total_bytes > device_bytes ? *total_bytes - device_bytes : 0;
    return c.end(cudaSuccess);
}
cudaError_t cudaMalloc(void **p, size_t n) {
    BEGIN_CALL;
    return c.end(allocate(p, n, MEMORY_DEVICE));
}
cudaError_t cudaFree(void *p) {
    call c; // memory is given back after an error as well
    const cudaError_t e = release(p, MEMORY_DEVICE);
    return c.end(e);
}
cudaError_t cudaMallocHost(void **p, size_t n) { return cudaHostAlloc(p, n, 0); }
cudaError_t cudaHostAlloc(void **p, size_t n, unsigned) {
    BEGIN_CALL;
    if (is_short()) return c.end(cudaErrorMemoryAllocation);
    return c.end(allocate(p, n, MEMORY_HOST));
}
cudaError_t cudaFreeHost(void *p) {
    call c;
    const cudaError_t e = release(p, MEMORY_HOST);
    return c.end(e);
}
cudaError_t cudaHostRegister(void *p, size_t n, unsigned) {
    BEGIN_CALL;
    if (memory_of(p, 1, nullptr)) return c.end(cudaErrorHostMemoryAlreadyRegistered);
    memory[(uintptr_t)p] = {n, MEMORY_REGISTERED, nullptr};
    return c.end(cudaSuccess);
}
cudaError_t cudaHostUnregister(void *p) {
    call c;
    const cudaError_t e = release(p, MEMORY_REGISTERED);
    return c.end(e == cudaSuccess ? e : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) {
    BEGIN_CALL;
    if (!memory_of(host, 1, nullptr)) return c.end(cudaErrorInvalidValue);
    *device = host;
    return c.end(cudaSuccess);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind kind) {
    BEGIN_CALL;
    return c.end(copy_rows(to, n, from, n, n, 1, kind, nullptr, true));
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    BEGIN_CALL;
    return c.end(copy_rows(to, n, from, n, n, 1, kind, stream, false));
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream) {
    BEGIN_CALL;
    return c.end(copy_rows(to, to_pitch, from, from_pitch, width, height, kind, stream, false));
}
cudaError_t cudaMemset(void *p, int value, size_t n) {
    BEGIN_CALL;
    return c.end(fill(p, value, n, nullptr));
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t stream) {
    BEGIN_CALL;
    return c.end(fill(p, value, n, stream));
}

// ---------------------------------------------------------------- streams and events

cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int) {
    return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    BEGIN_CALL;
    *stream = new CUstream_st{{}, !(flags & cudaStreamNonBlocking), nullptr};
    streams.insert(*stream);
    return c.end(cudaSuccess);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    call c;
    if (!stream || !streams.count(stream)) return c.end(cudaErrorInvalidResourceHandle);
    drain(stream);
    streams.erase(stream);
    delete stream;
    return c.end(cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    BEGIN_CALL;
    cudaStream_t s = stream_of(stream);
    if (!streams.count(s)) return c.end(cudaErrorInvalidResourceHandle);
    if (s->capture) return c.end(cudaErrorStreamCaptureUnsupported);
    drain(s);
    return c.end(cudaSuccess);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    BEGIN_CALL;
    cudaStream_t s = stream_of(stream);
    if (s->queue.empty()) return c.end(cudaSuccess);
    run_one(s);
    return c.end(cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    BEGIN_CALL;
    cudaStream_t s = stream_of(stream);
    if (event->capture && !s->capture) { // a fork: the stream records into the same graph
        s->capture = event->capture;
        event->capture->streams.push_back(s);
    }
    if (s->capture || event->done == event->recorded) return c.end(cudaSuccess);
    cudaStream_t from = event->stream;
    const uint64_t record = event->recorded;
    return c.end(hand_over(stream, [=] { drain_event(from, event, record); }));
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *user_data) {
    BEGIN_CALL;
    return c.end(hand_over(stream, [=] { fn(user_data); }));
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    BEGIN_CALL;
    *event = new CUevent_st{0, 0, nullptr, nullptr, 0, !(flags & cudaEventDisableTiming)};
    return c.end(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    BEGIN_CALL;
    cudaStream_t s = stream_of(stream);
    event->capture = s->capture;
    if (s->capture) return c.end(cudaSuccess);
    const uint64_t record = ++event->recorded;
    event->stream = s;
    return c.end(hand_over(stream, [=] {
        event->done = std::max(event->done, record);
        event->time_ms = (double)emulator::clock_ns() * 1e-6;
    }));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    BEGIN_CALL;
    drain_event(event->stream, event, event->recorded);
    return c.end(cudaSuccess);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    BEGIN_CALL;
    if (event->done == event->recorded) return c.end(cudaSuccess);
    run_one(event->stream);
    return c.end(cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    BEGIN_CALL;
    if (!from->recorded || !to->recorded || !from->has_time || !to->has_time)
        return c.end(cudaErrorInvalidResourceHandle);
    if (from->done != from->recorded || to->done != to->recorded) return c.end(cudaErrorNotReady);
    *ms = (float)(to->time_ms - from->time_ms);
    return c.end(cudaSuccess);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    call c;
    if (!event) return c.end(cudaErrorInvalidResourceHandle);
    drain_all(); // work that waits for it or reports to it
    delete event;
    return c.end(cudaSuccess);
}

// ---------------------------------------------------------------- launches

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value) {
    BEGIN_CALL;
    emulator::kernel *k = kernel_at(func);
    if (!k) return c.end(cudaErrorInvalidDeviceFunction);
    if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize) return c.end(cudaSuccess);
    if (value < 0 || (size_t)value > shared_optin()) return c.end(cudaErrorInvalidValue);
    k->shared_limit = (size_t)value;
    return c.end(cudaSuccess);
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func) {
    BEGIN_CALL;
    const emulator::kernel *k = kernel_at(func);
    if (!k) return c.end(cudaErrorInvalidDeviceFunction);
    *attr = {0, 0, 0, 1024, 64, 90, 90, (int)k->shared_limit};
    return c.end(cudaSuccess);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *func, int threads,
                                                          size_t shared_bytes) {
    BEGIN_CALL;
    const emulator::kernel *k = kernel_at(func);
    if (!k) return c.end(cudaErrorInvalidDeviceFunction);
    if (threads <= 0) return c.end(cudaErrorInvalidValue);
    const bool is_possible = threads <= 1024 && shared_bytes <= k->shared_limit;
    *n = is_possible ? blocks_per_processor((size_t)threads, shared_bytes) : 0;
    return c.end(cudaSuccess);
}
cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args,
                             size_t shared_bytes, cudaStream_t stream) {
    BEGIN_CALL;
    return c.end(launch(func, grid, block, args, shared_bytes, stream, false));
}
cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args,
                                        size_t shared_bytes, cudaStream_t stream) {
    BEGIN_CALL;
    return c.end(launch(func, grid, block, args, shared_bytes, stream, true));
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args) {
    BEGIN_CALL;
    if (is_short()) return c.end(cudaErrorMemoryAllocation);
    bool is_cooperative = false;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute *a = &config->attrs[i];
        if (a->id == cudaLaunchAttributeCooperative) is_cooperative = a->val.cooperative;
        if (a->id == cudaLaunchAttributeClusterDimension &&
            (a->val.clusterDim.x != 1 || a->val.clusterDim.y != 1 || a->val.clusterDim.z != 1))
            return c.end(cudaErrorNotSupported);
    }
    return c.end(launch(func, config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
                        config->stream, is_cooperative));
}

// ---------------------------------------------------------------- graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode) {
    BEGIN_CALL;
    cudaStream_t s = stream_of(stream);
    if (s == &stream_zero) return c.end(cudaErrorStreamCaptureUnsupported);
    if (s->capture) return c.end(cudaErrorIllegalState);
    s->capture = new CUgraph_st{{}, {s}};
    return c.end(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    BEGIN_CALL;
    cudaStream_t s = stream_of(stream);
    *graph = s->capture;
    if (!s->capture || s->capture->streams[0] != s) return c.end(cudaErrorIllegalState);
    for (cudaStream_t other : (*graph)->streams) other->capture = nullptr;
    return c.end(cudaSuccess);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    BEGIN_CALL;
    *status =
        stream_of(stream)->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return c.end(cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
    BEGIN_CALL;
    *exec = new CUgraphExec_st{graph->ops};
    return c.end(cudaSuccess);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    BEGIN_CALL;
    if (is_short()) return c.end(cudaErrorMemoryAllocation);
    cudaError_t e = cudaSuccess;
    for (const work &w : exec->ops)
        if (e == cudaSuccess) e = hand_over(stream, w);
    return c.end(e);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    call c;
    delete graph;
    return c.end(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    call c;
    delete exec;
    return c.end(cudaSuccess);
}

} // extern "C"
