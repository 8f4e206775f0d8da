// The instructions that the kernels use, one function each. This is the only file with PTX. A build
// for a CPU (tests/cuda/emulator) has its own file of the same functions, so kernels use these, the
// built-in variables and the warp intrinsics of CUDA, and nothing else of the device.
#ifndef RN_BACKEND_CUDA_DEVICE_CUH
#define RN_BACKEND_CUDA_DEVICE_CUH

#ifdef RN_EMULATED
#include <emulator_device.h>
#else

#include <math.h>
#include <stdint.h>

#define DEV                 __device__ __forceinline__
// A function that is called, not inlined: it has registers of its own.
#define DEV_CALL            static __device__ __noinline__
#define UNROLL              _Pragma("unroll")

// The block's shared memory, all of it dynamic.
#define SHARED_MEMORY(name) extern __shared__ __align__(128) uint8_t name[]

DEV uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// ---------------------------------------------------------------- loads and stores

// Data that other blocks wrote in this launch: from the L2 cache.
DEV uint4 load_l2(const uint4 *p) { return __ldcg(p); }
DEV float4 load_l2(const float4 *p) { return __ldcg(p); }
DEV float2 load_l2(const float2 *p) { return __ldcg(p); }
DEV float load_l2(const float *p) { return __ldcg(p); }
DEV uint32_t load_l2(const uint32_t *p) { return __ldcg(p); }
DEV int32_t load_l2(const int32_t *p) { return __ldcg(p); }
DEV uint2 load_l2(const uint2 *p) { return __ldcg(p); }
DEV uint16_t load_l2(const uint16_t *p) { return __ldcg(p); }
DEV uint8_t load_l2(const uint8_t *p) { return __ldcg(p); }

// Data that is read once: past the first-level cache.
DEV uint4 load_once(const uint4 *p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3},[%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

// Asks for the line of 128 bytes, for the L2 cache.
DEV void prefetch_l2(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// Ordinary loads, which the compiler may move between two barriers.
DEV uint4 shared_u128(uint32_t at) { return *(const uint4 *)__cvta_shared_to_generic(at); }
DEV uint2 shared_u64(uint32_t at) { return *(const uint2 *)__cvta_shared_to_generic(at); }
DEV uint32_t shared_u32(uint32_t at) { return *(const uint32_t *)__cvta_shared_to_generic(at); }

// The first operand of a matrix instruction: lane l has the word l of each of four matrices of 8 x
// 8 halves. A matrix is 128 bytes; the second one is 512 bytes behind the first, the other two are
// 128 bytes behind these.
DEV void shared_matrices(uint32_t (&a)[4], uint32_t at, int lane) {
    at += (uint32_t)((lane / 8 & 1) * 512 + lane / 16 * 128 + lane % 8 * 16);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(at));
}

// The same of four matrices at any distance: rows of a matrix are 16 neighbouring bytes, the second
// matrix is `second` bytes behind the first, and the other two are `third` bytes behind these.
// IS_TURNED: a lane has of each matrix the column lane / 4, instead of the row.
template <bool IS_TURNED>
DEV void shared_matrices_at(uint32_t (&a)[4], uint32_t at, uint32_t second, uint32_t third,
                            int lane) {
    at += (uint32_t)(lane / 8 & 1) * second + (uint32_t)(lane / 16) * third +
          (uint32_t)(lane % 8) * 16;
    if (IS_TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                     : "r"(at));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                     : "r"(at));
}

// ---------------------------------------------------------------- ordering

// Waits for n threads of the block. All of them name the same barrier, 1 to 15.
DEV void barrier_sync(int barrier, int n) {
    asm volatile("bar.sync %0,%1;" ::"r"(barrier), "r"(n) : "memory");
}
// One of the n threads, but it does not wait.
DEV void barrier_arrive(int barrier, int n) {
    asm volatile("bar.arrive %0,%1;" ::"r"(barrier), "r"(n) : "memory");
}

// Adds, and returns what was there. This thread sees what the threads that added before it had
// written before, and so on.
DEV uint32_t add_acq_rel(uint32_t *p, uint32_t v) {
    uint32_t old;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0,[%1],%2;"
                 : "=r"(old)
                 : "l"(p), "r"(v)
                 : "memory");
    return old;
}

// Launches that follow each other. The next launch may begin when every block of this one has
// called dependents_launch or ended. dependency_wait returns when the launch before has ended and
// all that it wrote is visible; so had the launches before it. Without such launches both are
// nothing.
DEV void dependents_launch() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
DEV void dependency_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Nanoseconds of the device.
DEV uint64_t device_ns() {
    uint64_t t;
    asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(t));
    return t;
}

// A hang becomes an error.
DEV void give_up() { __trap(); }

// ---------------------------------------------------------------- copies into shared memory

#if __CUDA_ARCH__ >= 900
enum { FETCH_ARRIVALS = 1 };
#else
enum { FETCH_ARRIVALS = 32 };
#endif

DEV void fetch_init(uint64_t *barrier) {
    asm volatile("mbarrier.init.shared.b64 [%0],%1;" ::"r"(shared_address(barrier)),
                 "r"((int)FETCH_ARRIVALS)
                 : "memory");
}
// After fetch_init of all barriers, before the block's first barrier.
DEV void fetch_init_done() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::
                     : "memory");
#endif
}

// The barrier is not used any more; its memory may be.
DEV void fetch_end(uint64_t *barrier) {
    asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// The whole warp: starts a copy of n bytes (a multiple of 16) whose end the barrier reports. The
// warp has read all that was in `to` before. IS_ONCE: the bytes are not read again soon, so they
// leave the L2 cache first.
template <bool IS_ONCE = false>
DEV void fetch(void *to, const void *from, uint32_t n, uint64_t *barrier, int lane) {
#if __CUDA_ARCH__ >= 900
    if (lane == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _,[%0],%1;" ::"r"(
                         shared_address(barrier)),
                     "r"(n)
                     : "memory");
        if (IS_ONCE)
            asm volatile("{.reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy; "
                         "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                         ".L2::cache_hint [%0],[%1],%2,[%3],policy;}" ::"r"(shared_address(to)),
                         "l"(from), "r"(n), "r"(shared_address(barrier))
                         : "memory");
        else
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                         "[%0],[%1],%2,[%3];" ::"r"(shared_address(to)),
                         "l"(from), "r"(n), "r"(shared_address(barrier))
                         : "memory");
    }
#else
    for (uint32_t i = (uint32_t)lane * 16; i < n; i += 512)
        asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(shared_address(to) + i),
                     "l"((const char *)from + i)
                     : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier))
                 : "memory");
#endif
}

// The whole warp: each lane starts N copies of n bytes, 0 for none, whose ends a barrier of its own
// reports. From one copy to the next are step_to and step_from bytes. They leave the L2 cache
// first.
template <int N>
DEV void fetch_each(void *to, uint32_t step_to, const void *from, uint64_t step_from, uint32_t n,
                    uint64_t *barrier, int lane) {
#if __CUDA_ARCH__ >= 900
    if (n == 0) return;
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _,[%0],%1;" ::"r"(shared_address(barrier)),
                 "r"(N * n)
                 : "memory");
    UNROLL for (int i = 0; i < N; i++) asm volatile(
        "{.reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy; "
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0],[%1],%2,[%3],policy;}" ::"r"(shared_address(to) +
                                                           (uint32_t)i * step_to),
        "l"((const char *)from + i * step_from), "r"(n), "r"(shared_address(barrier)) : "memory");
#else
    __syncwarp(); // all lanes write where one has waited, and shuffles order no memory
    for (uint32_t rest = __ballot_sync(0xffffffffu, n > 0); rest; rest &= rest - 1) {
        const int of = __ffs((int)rest) - 1;
        const uint32_t at = __shfl_sync(0xffffffffu, shared_address(to), of);
        const uint32_t full = __shfl_sync(0xffffffffu, shared_address(barrier), of);
        const uint32_t bytes = __shfl_sync(0xffffffffu, n, of);
        const char *source = (const char *)__shfl_sync(0xffffffffu, (unsigned long long)from, of);
        const uint64_t step = __shfl_sync(0xffffffffu, (unsigned long long)step_from, of);
        UNROLL for (int i = 0; i < N;
                    i++) for (uint32_t b = (uint32_t)lane * 16; b < bytes;
                              b += 512) asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::
                                                         "r"(at + (uint32_t)i * step_to + b),
                                                     "l"(source + i * step + b) : "memory");
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(full) : "memory");
    }
#endif
}

// The whole warp: each lane starts a copy of its own of n bytes, 0 for none. The barrier reports
// the end of all of them. At least one lane has a copy. IS_ONCE: as in fetch.
template <bool IS_ONCE = false>
DEV void fetch_all(void *to, const void *from, uint32_t n, uint64_t *barrier, int lane) {
#if __CUDA_ARCH__ >= 900
    const uint32_t all = __reduce_add_sync(0xffffffffu, n);
    if (lane == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _,[%0],%1;" ::"r"(
                         shared_address(barrier)),
                     "r"(all)
                     : "memory");
    __syncwarp();
    if (n > 0 && IS_ONCE)
        asm volatile("{.reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy; "
                     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                     ".L2::cache_hint [%0],[%1],%2,[%3],policy;}" ::"r"(shared_address(to)),
                     "l"(from), "r"(n), "r"(shared_address(barrier))
                     : "memory");
    if (n > 0 && !IS_ONCE)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0],[%1],%2,[%3];" ::"r"(shared_address(to)),
                     "l"(from), "r"(n), "r"(shared_address(barrier))
                     : "memory");
#else
    // copy by copy, by all lanes
    for (uint32_t left = __ballot_sync(0xffffffffu, n > 0); left; left &= left - 1) {
        const int l = __ffs((int)left) - 1;
        const uint32_t bytes = __shfl_sync(0xffffffffu, n, l);
        const uint32_t at = __shfl_sync(0xffffffffu, shared_address(to), l);
        const char *source = (const char *)__shfl_sync(0xffffffffu, (unsigned long long)from, l);
        for (uint32_t i = (uint32_t)lane * 16; i < bytes; i += 512)
            asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(at + i), "l"(source + i)
                         : "memory");
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier))
                 : "memory");
#endif
}

// This thread's writes come before copies that the warp starts behind a __syncwarp.
DEV void copies_may_follow() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async;" ::: "memory");
#endif
}

// The whole warp: lane 0 starts N copies of n bytes, number i from from(i) to to(i). The barrier
// reports the end of all of them. GPUs before 9.0 have none.
template <int N, class A, class B>
DEV void fetch_list(uint64_t *barrier, int lane, uint32_t n, A to, B from) {
#if __CUDA_ARCH__ >= 900
    if (lane != 0) return;
    const uint32_t end = shared_address(barrier);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _,[%0],%1;" ::"r"(end), "r"(N * n)
                 : "memory");
    UNROLL for (int i = 0; i < N; i++) asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::
            "r"(shared_address(to(i))),
        "l"(from(i)), "r"(n), "r"(end) : "memory");
#else
    (void)barrier, (void)lane, (void)n, (void)to, (void)from;
    give_up();
#endif
}

// Waits until the copy with that parity (0 for the first use of the barrier, then 1, 0, ...) is in.
DEV void fetch_wait(uint64_t *barrier, uint32_t parity) {
    uint32_t done, tries = 0;
    do {
#if __CUDA_ARCH__ >= 900
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p,[%1],%2; "
                     "selp.u32 %0,1,0,p;}"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
#else
        asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p,[%1],%2; "
                     "selp.u32 %0,1,0,p;}"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
#endif
        if (++tries > 1u << 26) give_up();
    } while (!done);
}

// A barrier that n warps arrive at, again and again. fetch_wait waits for all n.
DEV void meet_init(uint64_t *barrier, int n) {
    asm volatile("mbarrier.init.shared.b64 [%0],%1;" ::"r"(shared_address(barrier)), "r"(n)
                 : "memory");
}
// The whole warp.
DEV void meet_arrive(uint64_t *barrier, int lane) {
    __syncwarp();
    if (lane == 0)
        asm volatile("{.reg .b64 state; mbarrier.arrive.shared.b64 state,[%0];}" ::"r"(
                         shared_address(barrier))
                     : "memory");
}

// This thread's copies of 16 bytes from the L2 cache, in groups. A thread may read what its own
// groups brought after copies_wait; other threads after a barrier behind that.
DEV void copy_16(uint32_t to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(to), "l"(from) : "memory");
}
// Ends a group, which may be empty.
DEV void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most the last N groups are on their way.
template <int N> DEV void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// ---------------------------------------------------------------- arithmetic

// c += a * b, 16 x 8 outputs over 16 k; a: rows, b: columns. The layout is PTX's m16n8k16.
DEV void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEV void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The larger one; not a number where one of them is not.
DEV float max_or_nan(float a, float b) {
    float d;
    asm("max.NaN.f32 %0,%1,%2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

// 2^x; 0 below 2^-126. Within 2 units in the last place.
DEV float exp2_device(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}

// Two halves in a register, the first in the low bits. Each operation rounds once, to nearest even.
DEV uint32_t half2_add(uint32_t a, uint32_t b) {
    uint32_t d;
    asm("add.rn.f16x2 %0,%1,%2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}
DEV uint32_t half2_mul(uint32_t a, uint32_t b) {
    uint32_t d;
    asm("mul.rn.f16x2 %0,%1,%2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}
DEV uint32_t half2_fma(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t d;
    asm("fma.rn.f16x2 %0,%1,%2,%3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// f32 to 16 bits, to nearest even. A finite f32 beyond the range of f16 becomes its largest number.
DEV uint16_t f16_of(float x) {
    uint16_t h;
    const float bounded = x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x;
    asm("cvt.rn.f16.f32 %0,%1;" : "=h"(h) : "f"(isinf(x) ? x : bounded));
    return h;
}
DEV uint16_t bf16_of(float x) {
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0,%1;" : "=h"(h) : "f"(x));
    return h;
}
DEV float f32_of_f16(uint16_t h) {
    float x;
    asm("cvt.f32.f16 %0,%1;" : "=f"(x) : "h"(h));
    return x;
}
DEV float f32_of_bf16(uint16_t h) { return __uint_as_float((uint32_t)h << 16); }

// Two of them in a register, the first in the low bits; beyond the range of f16: infinity.
DEV uint32_t f16x2_of(float low, float high) {
    uint32_t d;
    asm("cvt.rn.f16x2.f32 %0,%1,%2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}
DEV uint32_t bf16x2_of(float low, float high) {
    uint32_t d;
    asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}

// Bytes of a and b by the 4 low digits of the selector, which are below 8. __byte_perm would mask a
// selector that is no constant, with an instruction more.
DEV uint32_t bytes_of(uint32_t a, uint32_t b, uint32_t selector) {
    uint32_t d;
    asm("prmt.b32 %0,%1,%2,%3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
    return d;
}
// w & mask | bits, one instruction.
template <uint32_t MASK, uint32_t BITS> DEV uint32_t and_or(uint32_t w) {
    uint32_t d;
    asm("lop3.b32 %0,%1,%2,%3,0xEA;" : "=r"(d) : "r"(w), "n"(MASK), "n"(BITS));
    return d;
}

// ---------------------------------------------------------------- a warpgroup

// Four neighbouring warps, the first of which has a multiple of 4 as its number, multiply together:
// d += a * b, 64 x N outputs over 16 k; is_add false: d = a * b. Warp w has the rows from 16 w on,
// with a and d[4 i ..] as mma_f16 has them for the columns from 8 i on. b lies in shared memory:
// [N / 8][GROUP_BYTES: two halves of k][8 columns][8 k]. The bits are those of a chain of mma_f16.
//
// The instructions run on while the warps go on. warpgroup_begin comes before them, then
// warpgroup_end; warpgroup_wait<n> waits until at most the last n such groups run. Until then a
// and d may not be touched, so a next group needs registers of its own (warpgroup_hold: from here
// on d is read). n_live: 8 columns of the first n_live groups are wanted.
//
// warpgroup_mma_first is d = a * b: before it, the compiler may use the registers of d.
// warpgroup_mma_shared has a in shared memory, too, so it takes no registers: [two halves of k,
// FIRST_HALF_BYTES apart][64 rows / 8][8 rows][8 k]. Offsets are multiples of 16.
enum { GROUP_BYTES = 512, FIRST_HALF_BYTES = 1024 + 16 }; // 16: stores of a warp hit all banks

// The warpgroup's threads have n registers from here on, a multiple of 8: more, which others gave,
// or less. A block that asks for more than it was launched with waits for ever: the sum over its
// threads is at most 65536 / (blocks * threads), rounded down to 8, times its threads.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
template <int N> DEV void registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> DEV void registers_give() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
#else
template <int N> DEV void registers_take() {}
template <int N> DEV void registers_give() {}
#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
DEV void warpgroup_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void warpgroup_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEV void warpgroup_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
template <int N> DEV void warpgroup_hold(float (&d)[N]) {
    UNROLL for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
// No swizzle. The offset is added to the finished word, so that operands of a stage share the rest.
DEV uint64_t warpgroup_operand(uint32_t at, uint32_t offset, uint32_t half, uint32_t group) {
    const uint32_t low = ((at & 0x3ffff) >> 4 | (half >> 4) << 16) + (offset >> 4);
    return (uint64_t)(group >> 4) << 32 | low;
}
// Outputs that are added to, and those of a first instruction, whose old registers are not read.
#define WARPGROUP_ADDED_8(d, i)                                                                    \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define WARPGROUP_FIRST_8(d, i)                                                                    \
    "=&f"(d[i]), "=&f"(d[i + 1]), "=&f"(d[i + 2]), "=&f"(d[i + 3]), "=&f"(d[i + 4]),               \
        "=&f"(d[i + 5]), "=&f"(d[i + 6]), "=&f"(d[i + 7])
#define OUTPUTS_32(kind, d, i) kind(d, i), kind(d, i + 8), kind(d, i + 16), kind(d, i + 24)
#define NAMES_32                                                                                   \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"   \
    "%25,%26,%27,%28,%29,%30,%31"
#define NAMES_64                                                                                   \
    NAMES_32                                                                                       \
    ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,"    \
    "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NAMES_80 NAMES_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define INPUTS(a, at, is_add)                                                                      \
    "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(at), "r"((int)(is_add))
#define WARPGROUP_64(kind, type, d, a, at, is_add)                                                 \
    asm volatile("{.reg .pred p; setp.ne.b32 p,%37,0; "                                            \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" NAMES_32         \
                 "},{%32,%33,%34,%35},%36,p,1,1,0;}"                                               \
                 : OUTPUTS_32(kind, d, 0)                                                          \
                 : INPUTS(a, at, is_add))
#define WARPGROUP_128(kind, type, d, a, at, is_add)                                                \
    asm volatile("{.reg .pred p; setp.ne.b32 p,%69,0; "                                            \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" NAMES_64        \
                 "},{%64,%65,%66,%67},%68,p,1,1,0;}"                                               \
                 : OUTPUTS_32(kind, d, 0), OUTPUTS_32(kind, d, 32)                                 \
                 : INPUTS(a, at, is_add))
#define WARPGROUP_160(kind, type, d, a, at, is_add)                                                \
    asm volatile("{.reg .pred p; setp.ne.b32 p,%85,0; "                                            \
                 "wgmma.mma_async.sync.aligned.m64n160k16.f32." type "." type " {" NAMES_80        \
                 "},{%80,%81,%82,%83},%84,p,1,1,0;}"                                               \
                 : OUTPUTS_32(kind, d, 0), OUTPUTS_32(kind, d, 32), kind(d, 64), kind(d, 72)       \
                 : INPUTS(a, at, is_add))
#define WARPGROUP_128_SHARED(kind, type, d, a_at, at, is_add)                                      \
    asm volatile("{.reg .pred p; setp.ne.b32 p,%66,0; "                                            \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" NAMES_64        \
                 "},%64,%65,p,1,1,0,0;}"                                                           \
                 : OUTPUTS_32(kind, d, 0), OUTPUTS_32(kind, d, 32)                                 \
                 : "l"(a_at), "l"(at), "r"((int)(is_add)))
#define WARPGROUP_TYPED(form, kind, d, a, at, is_add)                                              \
    do {                                                                                           \
        if constexpr (IS_BF16)                                                                     \
            form(kind, "bf16", d, a, at, is_add);                                                  \
        else                                                                                       \
            form(kind, "f16", d, a, at, is_add);                                                   \
    } while (0)
template <bool IS_BF16, int N>
DEV void warpgroup_mma(float (&d)[N / 2], const uint32_t (&a)[4], uint32_t at, bool is_add, int,
                       uint32_t offset = 0) {
    static_assert(N == 64 || N == 128 || N == 160, "a width that is here");
    const uint64_t b = warpgroup_operand(at, offset, 128, GROUP_BYTES);
    if constexpr (N == 64)
        WARPGROUP_TYPED(WARPGROUP_64, WARPGROUP_ADDED_8, d, a, b, is_add);
    else if constexpr (N == 128)
        WARPGROUP_TYPED(WARPGROUP_128, WARPGROUP_ADDED_8, d, a, b, is_add);
    else
        WARPGROUP_TYPED(WARPGROUP_160, WARPGROUP_ADDED_8, d, a, b, is_add);
}
template <bool IS_BF16, int N>
DEV void warpgroup_mma_first(float (&d)[N / 2], const uint32_t (&a)[4], uint32_t at,
                             uint32_t offset) {
    static_assert(N == 64 || N == 128, "a width that is here");
    const uint64_t b = warpgroup_operand(at, offset, 128, GROUP_BYTES);
    if constexpr (N == 64)
        WARPGROUP_TYPED(WARPGROUP_64, WARPGROUP_FIRST_8, d, a, b, false);
    else
        WARPGROUP_TYPED(WARPGROUP_128, WARPGROUP_FIRST_8, d, a, b, false);
}
template <bool IS_BF16>
DEV void warpgroup_mma_shared(float (&d)[64], uint32_t a_at, uint32_t a_offset, uint32_t at,
                              uint32_t offset, bool is_first) {
    const uint64_t a = warpgroup_operand(a_at, a_offset, FIRST_HALF_BYTES, 128);
    const uint64_t b = warpgroup_operand(at, offset, 128, GROUP_BYTES);
    if (is_first)
        WARPGROUP_TYPED(WARPGROUP_128_SHARED, WARPGROUP_FIRST_8, d, a, b, false);
    else
        WARPGROUP_TYPED(WARPGROUP_128_SHARED, WARPGROUP_ADDED_8, d, a, b, true);
}
#else
DEV void warpgroup_begin() {}
DEV void warpgroup_end() {}
template <int N> DEV void warpgroup_wait() {}
template <int N> DEV void warpgroup_hold(float (&)[N]) {}
template <bool IS_BF16, int N>
DEV void warpgroup_mma(float (&d)[N / 2], const uint32_t (&a)[4], uint32_t at, bool is_add,
                       int n_live, uint32_t offset = 0) {
    at += offset + threadIdx.x % 32 * 4;
    UNROLL for (int i = 0; i < N / 8; i++) {
        if (i >= n_live) break;
        float c[4];
        UNROLL for (int e = 0; e < 4; e++) c[e] = is_add ? d[4 * i + e] : 0.0f;
        const uint32_t b0 = shared_u32(at + (uint32_t)(i * GROUP_BYTES));
        const uint32_t b1 = shared_u32(at + (uint32_t)(i * GROUP_BYTES) + 128);
        if constexpr (IS_BF16)
            mma_bf16(c, a, b0, b1);
        else
            mma_f16(c, a, b0, b1);
        UNROLL for (int e = 0; e < 4; e++) d[4 * i + e] = c[e];
    }
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
    const uint32_t a[4] = {shared_u32(row), shared_u32(row + 128),
                           shared_u32(row + FIRST_HALF_BYTES),
                           shared_u32(row + FIRST_HALF_BYTES + 128)};
    warpgroup_mma<IS_BF16, 128>(d, a, at, !is_first, 16, offset);
}
#endif

// ---------------------------------------------------------------- kernels for the host

// name(): the kernel for cudaLaunchKernel. A kernel with a comma in its template arguments needs
// parentheses around it.
#define KERNEL_ENTRY(name, kernel, types)                                                          \
    extern "C" const void *name(void) { return (const void *)static_cast<void(*) types>(kernel); }

#endif
#endif
