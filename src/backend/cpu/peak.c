// The machine's arithmetic peak, with which the efficiency of a prompt is compared. All threads run
// a loop of the backend's best dot product in registers, for about 20 ms; the peak is the best
// pass. Called by the backend's class only.
#include "backend/cpu/peak.h"

#include <math.h>
#include <stdatomic.h>

#include "backend/cpu/cpu.h"
#include "base/clock.h"

enum { BUDGET_NS = 20000000, PASS_NS = 2000000, FIRST_ROUNDS = 1 << 12, CHUNKS_PER_THREAD = 4 };

static uint64_t scalar_int8(int64_t n_rounds) {
    uint32_t sum[PEAK_CHAINS];
    for (uint32_t i = 0; i < PEAK_CHAINS; i++) sum[i] = i;
    for (int64_t n = 0; n < n_rounds; n++)
        for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = sum[i] * 5 + 3;
    uint32_t all = 0;
    for (int i = 0; i < PEAK_CHAINS; i++) all ^= sum[i];
    return all;
}

static uint64_t scalar_f32(int64_t n_rounds) {
    float sum[PEAK_CHAINS], all = 0;
    for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = (float)i;
    for (int64_t n = 0; n < n_rounds; n++)
        for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = fmaf(sum[i], 0.5f, 1);
    for (int i = 0; i < PEAK_CHAINS; i++) all += sum[i];
    return (uint64_t)all;
}

const struct peak_loop peak_scalar_int8 = {scalar_int8, PEAK_CHAINS};
const struct peak_loop peak_scalar_f32 = {scalar_f32, PEAK_CHAINS};

static const struct peak_loop *loop_find(enum cpu_isa isa, bool integer) {
#if defined(__x86_64__)
    if (isa == ISA_AMX) return integer ? &peak_amx_int8 : &peak_avx512bw_f32;
    if (isa == ISA_AVX512) return integer ? &peak_avx512_int8 : &peak_avx512bw_f32;
    if (isa == ISA_AVX512BW) return integer ? &peak_avx512bw_int8 : &peak_avx512bw_f32;
    if (isa == ISA_AVXVNNI) return integer ? &peak_avxvnni_int8 : &peak_avx2_f32;
    if (isa == ISA_AVX2) return integer ? &peak_avx2_int8 : &peak_avx2_f32;
#elif defined(__aarch64__)
    if (isa == ISA_NEON) return integer ? &peak_neon_int8 : &peak_neon_f32;
#endif
    (void)isa;
    return integer ? &peak_scalar_int8 : &peak_scalar_f32;
}

struct peak_job {
    const struct peak_loop *loop;
    int64_t n_rounds;
    _Atomic uint64_t sink; // keeps the results alive
};

static void chunks_compute(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    struct peak_job *job = ctx;
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_xor_explicit(&job->sink, job->loop->run(job->n_rounds), memory_order_relaxed);
}

double cpu_peak_macs(struct backend *backend, enum backend_math math) {
    struct cpu_backend *b = (struct cpu_backend *)backend;
    struct peak_job job = {.loop = loop_find(b->ops->isa, math == BACKEND_INTEGERS),
                           .n_rounds = FIRST_ROUNDS};
    const int64_t n_chunks = (int64_t)CHUNKS_PER_THREAD * pool_size(b->pool);
    uint64_t now = clock_ns();
    const uint64_t end = now + BUDGET_NS;
    double best = 0;
    do {
        pool_run(b->pool, chunks_compute, &job, n_chunks, 1);
        const uint64_t took = clock_ns() - now;
        const double macs = (double)n_chunks * (double)job.n_rounds * job.loop->round_macs;
        const double rate = macs * 1e9 / (double)(took ? took : 1);
        if (rate > best) best = rate;
        if (took < PASS_NS) job.n_rounds *= 2;
        now += took;
    } while (now < end);
    return best;
}
