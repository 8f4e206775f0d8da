// Runs a grid on one host thread: each thread of a block is a fiber with its own stack. It finds
// hangs and unordered accesses that a real device shows only now and then.
// 1. A fiber runs until it waits or polls. The next one is a lane of the same warp, mostly in turn;
//    at random, and where the warp has none, it is any runnable fiber of the resident blocks.
// 2. A fiber that waits is woken only by fibers of its own block or by a copy of its block. So a
//    block without runnable fibers and without copies in flight is a deadlock.
// 3. Only polls wait for other blocks. Polls without end and without progress are a hang.
// 4. The runtime's lock is held during a launch, so the state here needs none.
#include "emulator_device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <vector>

// ---------------------------------------------------------------- contexts

#if defined(__x86_64__)
extern "C" void emulator_context_switch(void **save, void *load);
asm(".text\n.globl emulator_context_switch\n.hidden emulator_context_switch\n"
    ".type emulator_context_switch,@function\nemulator_context_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size emulator_context_switch,.-emulator_context_switch\n");
typedef void *context_state;
static void state_switch(context_state *from, context_state *to) {
    emulator_context_switch(from, *to);
}
static void state_make(context_state *c, uint8_t *, uint8_t *top, void (*entry)()) {
    void **sp = (void **)((uintptr_t)top & ~(uintptr_t)15);
    *--sp = nullptr; // where entry would return to
    *--sp = (void *)entry;
    for (int i = 0; i < 6; i++) *--sp = nullptr;
    *c = sp;
}
#else
#include <ucontext.h>
typedef ucontext_t context_state;
static void state_switch(context_state *from, context_state *to) { swapcontext(from, to); }
static void state_make(context_state *c, uint8_t *bottom, uint8_t *top, void (*entry)()) {
    getcontext(c);
    c->uc_stack.ss_sp = bottom;
    c->uc_stack.ss_size = (size_t)(top - bottom);
    c->uc_link = nullptr;
    makecontext(c, entry, 0);
}
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else
#define __sanitizer_start_switch_fiber(fake, bottom, bytes)  (void)0
#define __sanitizer_finish_switch_fiber(fake, bottom, bytes) (void)0
#endif

namespace {

struct context {
    context_state state;
    const void *bottom; // of the stack
    size_t bytes;
    void *fake; // the address sanitizer's own
};
context *context_left; // the last one that another one took over from

// What a context does first when it runs.
inline void context_enter(context *c) {
    (void)c;
    __sanitizer_finish_switch_fiber(c->fake, &context_left->bottom, &context_left->bytes);
}
inline void context_switch(context *from, context *to) {
    context_left = from;
    __sanitizer_start_switch_fiber(&from->fake, to->bottom, to->bytes);
    state_switch(&from->state, &to->state);
    context_enter(from);
}
inline void context_make(context *c, uint8_t *bottom, uint8_t *top, void (*entry)()) {
    c->bottom = bottom;
    c->bytes = (size_t)(top - bottom);
    c->fake = nullptr;
    state_make(&c->state, bottom, top, entry);
}

} // namespace

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator {

thread *now;

namespace {

enum {
    WARP = 32,
    MAX_WARPS = 32,
    MAX_THREADS = 1024,
    N_BARRIERS = 16,
    MAX_SLOTS = 64,
    STACK_BYTES = 128 << 10
};
enum : uint16_t { BARRIER_MAGIC = 0xba99, MEET_MAGIC = 0xba9a };

struct block;
struct fiber;

struct open_collective {
    const collective_kind *kind;
    uint32_t mask, arrived;
};

struct warp {
    block *owner;
    fiber *lanes; // [WARP]
    int number;
    uint32_t runnable, live; // by lane
    int n_open;
    open_collective open[WARP];
    void *data[WARP];
};

struct fiber : thread {
    context at_rest;
    warp *team;
    int lane;
    int stack;            // of the block; negative: it has not run yet
    const char *waits_at; // of a waiting fiber
    uint64_t waits_for;
};

struct named_barrier {
    int n, arrived;
    uint32_t lanes[MAX_WARPS];
};

struct copy {
    uint8_t *to;
    const uint8_t *from;
    uint32_t n, arrived; // arrived: lanes
    uint64_t *barrier;
    const warp *by;
};

struct copy_waiter {
    fiber *who;
    uint64_t *barrier;
    uint32_t parity;
};

// The word of a fetch barrier.
struct fetch_word {
    uint16_t magic, phase; // phase: how many have ended
    uint32_t busy;         // 1 + index of its copy; 0: none
};

// The word of a barrier that warps arrive at.
struct meet_word {
    uint16_t magic, phase;
    uint16_t n, left; // warps that arrive; those of this phase
};

// Memory of a resident block, used again by later ones.
struct block {
    place at;
    uint32_t runnable; // warps
    int n_warps, live; // live: threads
    warp warps[MAX_WARPS];
    fiber *fibers; // [MAX_THREADS]
    named_barrier barriers[N_BARRIERS];
    std::vector<copy> copies;
    std::vector<uint32_t> free_copies, ready; // ready: all lanes arrived
    std::vector<copy_waiter> copy_waiters;
    uint8_t *stacks;
    int n_stacks;
    std::vector<int> free_stacks;
    std::vector<uint8_t *> shared_maps; // by their pages: launches of one size come again
};

struct {
    uint64_t random, seed;
    bool is_seeded, gave_up, arch_80;
    uint32_t turn;
    uint64_t polls, poll_limit; // polls: since the last progress
    const kernel *running;
    void **args;
    context host;
    block *slots[MAX_SLOTS];
    int n_slots;
} state;

inline fiber *self() { return static_cast<fiber *>(now); }

uint32_t random32() {
    uint64_t x = state.random;
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    state.random = x;
    return (uint32_t)((x * 0x2545f4914f6cdd1d) >> 32);
}

void seed_read() {
    const char *text = getenv("RUNNEL_EMULATOR_SEED");
    const uint64_t seed = text ? strtoull(text, nullptr, 0) : 1;
    if (state.is_seeded && seed == state.seed) return;
    state.is_seeded = true;
    state.seed = seed;
    state.random = (seed + 1) * 0x9e3779b97f4a7c15;
    if (!state.random) state.random = 1;
    for (int i = 0; i < 8; i++) random32();
}

uint8_t *map(size_t bytes) {
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) fail("no memory for %zu bytes of a block", bytes);
    return (uint8_t *)p;
}

// ---------------------------------------------------------------- reports

void report_waiting(const block *b) {
    int lines = 0;
    for (int w = 0; w < b->n_warps; w++)
        for (int lane = 0; lane < WARP; lane++) {
            const fiber *f = &b->warps[w].lanes[lane];
            if (!(b->warps[w].live >> lane & 1) || (b->warps[w].runnable >> lane & 1)) continue;
            const bool is_like_before = lane && (b->warps[w].live >> (lane - 1) & 1) &&
                                        f[-1].waits_at == f->waits_at &&
                                        f[-1].waits_for == f->waits_for;
            if (is_like_before || lines++ >= 24) continue;
            fprintf(stderr,
                    "  block (%u,%u,%u) thread %d (warp %d lane %d) and on: wait at %s %llx\n",
                    b->at.block.x, b->at.block.y, b->at.block.z, w * WARP + lane, w, lane,
                    f->waits_at, (unsigned long long)f->waits_for);
        }
    fprintf(stderr, "  %d threads of the block have not ended\n", b->live);
}

[[noreturn]] void deadlock(const block *b) {
    fprintf(stderr, "emulator: kernel %s, seed %llu: deadlock: all threads of a block wait\n",
            state.running->name, (unsigned long long)state.seed);
    report_waiting(b);
    abort();
}

// ---------------------------------------------------------------- the choice of the next fiber

void wake(fiber *f) {
    f->team->runnable |= 1u << f->lane;
    f->team->owner->runnable |= 1u << f->team->number;
}

inline int next_bit(uint32_t bits, uint32_t from) {
    from &= 31;
    const uint32_t turned = bits >> from | bits << (-from & 31);
    return (int)((from + (uint32_t)__builtin_ctz(turned)) & 31);
}

bool is_phase_over(const uint64_t *barrier, uint32_t parity) {
    return (((const fetch_word *)barrier)->phase & 1) != (parity & 1);
}

// Fibers that wait for the end of the barrier's phase go on.
void phase_end(block *b, const uint64_t *barrier) {
    for (size_t i = 0; i < b->copy_waiters.size();) {
        const copy_waiter w = b->copy_waiters[i];
        if (w.barrier == barrier && is_phase_over(w.barrier, w.parity)) {
            wake(w.who);
            b->copy_waiters[i] = b->copy_waiters.back();
            b->copy_waiters.pop_back();
        } else
            i++;
    }
    progress();
}

// The copy happens: it is the end of its barrier's phase.
void deliver(block *b, uint32_t index) {
    copy *c = &b->copies[index];
    for (uint32_t i = 0; i < c->n; i++)
        if (c->to[i] != 0xff)
            fail("shared byte %zu was written while a copy to it was in flight",
                 (size_t)(c->to + i - b->at.shared));
    memcpy(c->to, c->from, c->n);
    fetch_word *word = (fetch_word *)c->barrier;
    word->phase++;
    word->busy = 0;
    b->free_copies.push_back(index);
    for (size_t i = 0; i < b->ready.size(); i++)
        if (b->ready[i] == index) {
            b->ready[i] = b->ready.back();
            b->ready.pop_back();
            break;
        }
    c->to = nullptr;
    phase_end(b, c->barrier);
}

void deliver_any(block *b) { deliver(b, b->ready[random_below((uint32_t)b->ready.size())]); }

// A runnable fiber of the resident blocks. There is one while a block is live.
fiber *choose_anywhere() {
    const uint32_t n = (uint32_t)state.n_slots, first = random_below(n);
    for (uint32_t i = 0; i < n; i++) {
        block *b = state.slots[(first + i) % n];
        if (!b->live) continue;
        if (!b->ready.empty() && random32() % 4 == 0) deliver_any(b);
        while (!b->runnable && !b->ready.empty()) deliver_any(b);
        if (!b->runnable) deadlock(b);
        warp *w = &b->warps[next_bit(b->runnable, random32())];
        return &w->lanes[next_bit(w->runnable, random32())];
    }
    return nullptr;
}

void thread_main();

// The first run of a fiber: it takes a stack. The one that was given back last is in the caches.
// Stacks begin at different places of their pages, so that their lines do not compete for the same
// sets of the caches.
void fiber_begin(fiber *f) {
    block *b = f->team->owner;
    f->stack = b->free_stacks.back();
    b->free_stacks.pop_back();
    uint8_t *bottom = b->stacks + (size_t)f->stack * STACK_BYTES;
    context_make(&f->at_rest, bottom, bottom + STACK_BYTES - (size_t)(f->stack % 64) * 448,
                 thread_main);
}

inline void set_now(fiber *f) {
    now = f;
    threadIdx = f->index;
    blockIdx = f->at->block;
}

inline void run_instead(fiber *next) {
    fiber *before = self();
    if (next == before) return;
    if (next->stack < 0) fiber_begin(next);
    set_now(next);
    context_switch(&before->at_rest, &next->at_rest);
}

// The fiber that runs when the running one does not any more.
inline fiber *next_fiber() {
    const warp *w = self()->team;
    if (w->runnable && ++state.turn % 64)
        return &w->lanes[next_bit(w->runnable, (uint32_t)self()->lane + 1)];
    return choose_anywhere();
}

// Others run until the fiber is woken. Inlined: each frame of a fiber at rest is lines of a cache.
__attribute__((always_inline)) inline void wait_at(const char *what, uint64_t detail) {
    fiber *f = self();
    f->waits_at = what;
    f->waits_for = detail;
    f->team->runnable &= ~(1u << f->lane);
    if (!f->team->runnable) {
        block *b = f->team->owner;
        b->runnable &= ~(1u << f->team->number);
        if (!b->runnable && b->ready.empty()) deadlock(b);
    }
    run_instead(next_fiber());
}

void to_host() {
    fiber *f = self();
    now = nullptr;
    context_switch(&f->at_rest, &state.host);
    abort(); // a fiber that left for good does not run again
}

// ---------------------------------------------------------------- the life of a block

void barrier_open(block *b, named_barrier *barrier) {
    for (int w = 0; w < b->n_warps; w++)
        if (barrier->lanes[w]) {
            b->warps[w].runnable |= barrier->lanes[w];
            b->runnable |= 1u << w;
            barrier->lanes[w] = 0;
        }
    barrier->arrived = 0;
    progress();
}

void collective_end(warp *w, int which) {
    const open_collective o = w->open[which];
    if (o.kind->finish) o.kind->finish(w->data, o.mask);
    w->open[which] = w->open[--w->n_open];
    w->runnable |= o.arrived;
    w->owner->runnable |= 1u << w->number;
    state.polls = 0;
}

// The fiber's last act: fibers that waited for it may have to run. It returns where a fiber of the
// block that has not run yet takes over the stack.
void thread_end() {
    fiber *f = self();
    warp *w = f->team;
    block *b = w->owner;
    const uint32_t bit = 1u << f->lane;
    w->live &= ~bit;
    w->runnable &= ~bit;
    if (!w->runnable) b->runnable &= ~(1u << w->number);
    b->live--;
    for (int i = 0; i < w->n_open;) {
        const open_collective *o = &w->open[i];
        if ((o->mask & bit) && !o->kind->exited_lanes_may_miss)
            fail("the thread ends, but lanes %08x wait for it at %s", o->arrived, o->kind->name);
        if (!(o->mask & w->live & ~o->arrived))
            collective_end(w, i);
        else
            i++;
    }
    if (b->live && b->barriers[0].arrived == b->live) barrier_open(b, &b->barriers[0]);
    progress();
    if (!b->live) {
        for (const copy &c : b->copies)
            if (c.to) fail("the block ends while a copy to its shared memory is in flight");
        to_host();
    }
    if (!b->runnable && b->ready.empty()) deadlock(b);
    fiber *next = next_fiber();
    if (next->stack >= 0 || next->team->owner != b) {
        b->free_stacks.push_back(f->stack);
        run_instead(next);
        abort();
    }
    next->stack = f->stack;
    next->at_rest = f->at_rest;
    set_now(next);
}

void thread_main() {
    context_enter(&self()->at_rest);
    for (;;) {
        state.running->call(state.running->function, state.args);
        thread_end();
    }
}

void stacks_reserve(block *b, int n) {
    b->free_stacks.clear();
    for (int i = n; i > 0; i--) b->free_stacks.push_back(i - 1);
    if (b->n_stacks >= n) return;
    if (b->stacks) munmap(b->stacks, (size_t)b->n_stacks * STACK_BYTES);
    b->stacks = map((size_t)n * STACK_BYTES);
    b->n_stacks = n;
    for (int i = 0; i < n; i++)
        mprotect(b->stacks + (size_t)i * STACK_BYTES, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE);
}

// Shared memory is between two pages that cannot be touched. It ends where the second one starts.
void shared_reserve(block *b, uint32_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t rounded = ((size_t)bytes + 127) & ~(size_t)127;
    const size_t n = (rounded + page - 1) / page;
    if (b->shared_maps.size() <= n) b->shared_maps.resize(n + 1);
    uint8_t *&at = b->shared_maps[n];
    if (!at) {
        at = map((n + 2) * page);
        mprotect(at, page, PROT_NONE);
        mprotect(at + (n + 1) * page, page, PROT_NONE);
    }
    b->at.shared = at + (n + 1) * page - rounded;
    b->at.shared_bytes = bytes;
    memset(b->at.shared, 0xcd, rounded);
}

void block_start(block *b, uint64_t number, dim3 grid, dim3 size, uint32_t shared_bytes) {
    const int n = (int)(size.x * size.y * size.z);
    b->at.block.x = (unsigned)(number % grid.x);
    b->at.block.y = (unsigned)(number / grid.x % grid.y);
    b->at.block.z = (unsigned)(number / grid.x / grid.y);
    b->at.block_size = size;
    b->at.grid_size = grid;
    stacks_reserve(b, n);
    shared_reserve(b, shared_bytes);
    b->live = n;
    b->n_warps = (n + WARP - 1) / WARP;
    b->runnable = UINT32_MAX >> (MAX_WARPS - b->n_warps);
    memset(b->barriers, 0, sizeof b->barriers);
    b->copies.clear();
    b->free_copies.clear();
    b->ready.clear();
    b->copy_waiters.clear();
    for (int w = 0; w < b->n_warps; w++) {
        const int n_lanes = n - w * WARP < WARP ? n - w * WARP : WARP;
        warp *team = &b->warps[w];
        team->owner = b;
        team->lanes = b->fibers + w * WARP;
        team->number = w;
        team->live = team->runnable = UINT32_MAX >> (WARP - n_lanes);
        team->n_open = 0;
    }
    for (int i = 0; i < n; i++) {
        fiber *f = &b->fibers[i];
        f->index.x = (unsigned)i % size.x;
        f->index.y = (unsigned)i / size.x % size.y;
        f->index.z = (unsigned)i / size.x / size.y;
        f->at = &b->at;
        f->team = &b->warps[i / WARP];
        f->lane = i % WARP;
        f->stack = -1;
    }
}

} // namespace

// ---------------------------------------------------------------- what kernels call

uint32_t random_below(uint32_t n) { return (uint32_t)((uint64_t)random32() * n >> 32); }
uint64_t clock_ns() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
bool is_arch_80() {
    const char *text = getenv("RUNNEL_EMULATOR_ARCH");
    return text && atoi(text) == 80;
}

void fail(const char *format, ...) {
    fputs("emulator: ", stderr);
    if (state.running)
        fprintf(stderr, "kernel %s, seed %llu, ", state.running->name,
                (unsigned long long)state.seed);
    if (now)
        fprintf(stderr, "block (%u,%u,%u), thread (%u,%u,%u): ", now->at->block.x, now->at->block.y,
                now->at->block.z, now->index.x, now->index.y, now->index.z);
    va_list ap;
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    abort();
}

void trap() {
    fprintf(stderr, "emulator: kernel %s, block (%u,%u,%u), thread (%u,%u,%u): gave up\n",
            state.running->name, now->at->block.x, now->at->block.y, now->at->block.z, now->index.x,
            now->index.y, now->index.z);
    state.gave_up = true;
    to_host();
    abort();
}

void progress() { state.polls = 0; }

void poll() {
    if (++state.polls > state.poll_limit) {
        fprintf(stderr, "emulator: kernel %s, seed %llu: threads poll and nothing else happens\n",
                state.running->name, (unsigned long long)state.seed);
        for (int i = 0; i < state.n_slots; i++)
            if (state.slots[i]->live) report_waiting(state.slots[i]);
        fail("polls in vain");
    }
    run_instead(choose_anywhere());
}

void atomic_point() {
    if (random32() % 8 == 0) run_instead(choose_anywhere());
    progress();
}

void barrier_wait(int number, int n) {
    fiber *f = self();
    block *b = f->team->owner;
    named_barrier *barrier = &b->barriers[number];
    if (number && barrier->arrived && barrier->n != n)
        fail("barrier %d of %d threads, but others wait there for %d", number, n, barrier->n);
    barrier->n = n;
    barrier->lanes[f->team->number] |= 1u << f->lane;
    if (++barrier->arrived == (number ? n : b->live)) {
        barrier_open(b, barrier);
        run_instead(choose_anywhere());
        return;
    }
    wait_at(number ? "barrier_sync" : "__syncthreads", (uint64_t)number);
}

void barrier_arrive(int number, int n) {
    block *b = self()->team->owner;
    named_barrier *barrier = &b->barriers[number];
    if (barrier->arrived && barrier->n != n)
        fail("barrier %d of %d threads, but others wait there for %d", number, n, barrier->n);
    barrier->n = n;
    if (++barrier->arrived == n) barrier_open(b, barrier);
}

void collective(const collective_kind *kind, uint32_t mask, void *data) {
    fiber *f = self();
    warp *w = f->team;
    const uint32_t bit = 1u << f->lane;
    if (!(mask & bit)) fail("%s: the mask %08x lacks the lane itself", kind->name, mask);
    if ((mask & ~w->live) && !kind->exited_lanes_may_miss)
        fail("%s: lanes %08x of the mask have ended", kind->name, mask & ~w->live);
    w->data[f->lane] = data;
    int i = 0;
    for (; i < w->n_open; i++) {
        const open_collective *o = &w->open[i];
        if (o->kind == kind && o->mask == mask) break;
        if ((o->mask & bit) && (o->arrived & mask))
            fail("lanes diverge: this one is at %s of %08x, lanes %08x are at %s of %08x",
                 kind->name, mask, o->arrived, o->kind->name, o->mask);
    }
    if (i == w->n_open) w->open[w->n_open++] = {kind, mask, 0};
    w->open[i].arrived |= bit;
    if (mask & w->live & ~w->open[i].arrived)
        wait_at(kind->name, mask);
    else
        collective_end(w, i);
}

void fetch_barrier_init(uint64_t *barrier) {
    if (shared_address(barrier) % 8) fail("a fetch barrier is not aligned");
    fetch_word *word = (fetch_word *)barrier;
    if (word->magic == BARRIER_MAGIC && word->busy - 1 < self()->team->owner->copies.size())
        fail("fetch_init of a barrier with a copy in flight");
    *word = {BARRIER_MAGIC, 0, 0};
}

void fetch_barrier_end(uint64_t *barrier) {
    fetch_word *word = (fetch_word *)barrier;
    if (word->magic == BARRIER_MAGIC && word->busy - 1 < self()->team->owner->copies.size())
        fail("fetch_end of a barrier with a copy in flight");
    *word = {};
}

static fetch_word *fetch_word_at(uint64_t *barrier) {
    fetch_word *word = (fetch_word *)barrier;
    if (shared_address(barrier) % 8 || word->magic != BARRIER_MAGIC)
        fail("shared byte %u is not a fetch barrier", shared_address(barrier));
    return word;
}

void fetch_begin(void *to, const void *from, uint32_t n, uint64_t *barrier, int lane) {
    fiber *f = self();
    block *b = f->team->owner;
    fetch_word *word = fetch_word_at(barrier);
    const uint32_t at = shared_address(to);
    if (lane != f->lane) fail("fetch: the lane is %d, not %d", f->lane, lane);
    if (at % 16 || (uintptr_t)from % 16 || n % 16 || !n || n >= 1 << 20 ||
        at + (uint64_t)n > b->at.shared_bytes)
        fail("fetch of %u bytes from %p to shared byte %u is not possible", n, from, at);
    if (!word->busy) {
        if (!is_device_memory(from, n)) fail("fetch of %u bytes at %p: no such memory", n, from);
        for (const copy &c : b->copies)
            if (c.to && c.to < (uint8_t *)to + n && (uint8_t *)to < c.to + c.n)
                fail("fetch to shared byte %u: another copy to it is in flight", at);
        if (b->free_copies.empty()) {
            b->free_copies.push_back((uint32_t)b->copies.size());
            b->copies.emplace_back();
        }
        word->busy = b->free_copies.back() + 1;
        b->free_copies.pop_back();
        b->copies[word->busy - 1] = {(uint8_t *)to, (const uint8_t *)from, n, 0, barrier, f->team};
    }
    copy *c = &b->copies[word->busy - 1];
    if (c->by != f->team || (c->arrived >> lane & 1))
        fail("two copies are in flight with the fetch barrier at %u", shared_address(barrier));
    if (c->to != to || c->from != from || c->n != n)
        fail("fetch: the lanes of the warp name different copies");
    c->arrived |= 1u << lane;
    if (!state.arch_80 && lane == 0) memset(to, 0xff, n);
    if (state.arch_80)
        for (uint32_t i = (uint32_t)lane * 16; i < n; i += 512) memset(c->to + i, 0xff, 16);
    if (c->arrived == UINT32_MAX) b->ready.push_back(word->busy - 1);
}

void meet_init(uint64_t *barrier, int n) {
    if (shared_address(barrier) % 8) fail("a barrier is not aligned");
    if (n < 1 || n > MAX_WARPS) fail("a barrier of %d warps", n);
    const meet_word word = {MEET_MAGIC, 0, (uint16_t)n, (uint16_t)n};
    memcpy(barrier, &word, sizeof word);
}

void meet_arrive(uint64_t *barrier) {
    meet_word *word = (meet_word *)barrier;
    if (shared_address(barrier) % 8 || word->magic != MEET_MAGIC)
        fail("shared byte %u is not a barrier to meet at", shared_address(barrier));
    if (--word->left > 0) return;
    word->left = word->n;
    word->phase++;
    phase_end(self()->team->owner, barrier);
}

void fetch_end(uint64_t *barrier, uint32_t parity) {
    block *b = self()->team->owner;
    const bool is_meet = ((const meet_word *)barrier)->magic == MEET_MAGIC;
    const fetch_word *word = is_meet ? nullptr : fetch_word_at(barrier);
    if (parity > 1) fail("fetch_wait: the parity is %u", parity);
    if (is_phase_over(barrier, parity)) return;
    if (word && word->busy && b->copies[word->busy - 1].arrived == UINT32_MAX && random32() % 2) {
        deliver(b, word->busy - 1);
        return;
    }
    b->copy_waiters.push_back({self(), barrier, parity});
    wait_at("fetch_wait", shared_address(barrier));
}

// ---------------------------------------------------------------- collectives

static void shuffle_finish(void *const *data, uint32_t mask) {
    for (uint32_t rest_of = mask; rest_of; rest_of &= rest_of - 1) {
        const int lane = __builtin_ctz(rest_of);
        shuffle_data *d = (shuffle_data *)data[lane];
        const int from = d->from < 0 ? lane : d->from;
        if (!(mask >> from & 1)) fail("a shuffle of %08x: lane %d reads lane %d", mask, lane, from);
        d->result = ((const shuffle_data *)data[from])->value;
    }
}

static void vote_finish(void *const *data, uint32_t mask) {
    uint32_t ballot = 0;
    for (int i = 0; i < WARP; i++)
        if ((mask >> i & 1) && ((const vote_data *)data[i])->yes) ballot |= 1u << i;
    for (int i = 0; i < WARP; i++)
        if (mask >> i & 1) ((vote_data *)data[i])->ballot = ballot;
}

static void match_finish(void *const *data, uint32_t mask) {
    for (int i = 0; i < WARP; i++) {
        if (!(mask >> i & 1)) continue;
        match_data *own = (match_data *)data[i];
        own->same = 0;
        for (int k = 0; k < WARP; k++)
            if ((mask >> k & 1) && ((const match_data *)data[k])->value == own->value)
                own->same |= 1u << k;
    }
}

// Lane 4 g + t has of a: rows g and g + 8, columns 2t, 2t + 1 and these + 8; of b: column g; of c:
// rows g and g + 8, columns 2t and 2t + 1.
struct f16_of_mma {
    static double value(uint32_t word, int half) {
        return (double)f32_of_half((uint16_t)(word >> 16 * half));
    }
};
struct bf16_of_mma {
    static double value(uint32_t word, int half) {
        return (double)f32_of_bf16((uint16_t)(word >> 16 * half));
    }
};

template <class T> struct mma_matrix {
    double a[16][16];
    void load(int lane, const uint32_t *words) {
        const int g = lane >> 2, t = lane & 3;
        for (int i = 0; i < 8; i++)
            a[g + 8 * (i >> 1 & 1)][2 * t + (i & 1) + 8 * (i >> 2)] =
                T::value(words[i >> 1], i & 1);
    }
    // c += a b; lanes have their words of b and their four numbers of c.
    void multiply(const uint32_t (*b_words)[2], float *const *c_of) const {
        double b[16][8], c[16][8];
        for (int lane = 0; lane < WARP; lane++) {
            const int g = lane >> 2, t = lane & 3;
            for (int i = 0; i < 4; i++) {
                b[2 * t + (i & 1) + 8 * (i >> 1)][g] = T::value(b_words[lane][i >> 1], i & 1);
                c[g + 8 * (i >> 1)][2 * t + (i & 1)] = (double)c_of[lane][i];
            }
        }
        for (int row = 0; row < 16; row++)
            for (int k = 0; k < 16; k++)
                for (int col = 0; col < 8; col++) c[row][col] += a[row][k] * b[k][col];
        for (int lane = 0; lane < WARP; lane++)
            for (int i = 0; i < 4; i++) {
                const double sum = c[(lane >> 2) + 8 * (i >> 1)][2 * (lane & 3) + (i & 1)];
                c_of[lane][i] = isnan(sum) ? __uint_as_float(0x7fffffff) : (float)sum;
            }
    }
};

template <class T> static void mma_finish(void *const *data, uint32_t) {
    mma_matrix<T> m;
    uint32_t b[WARP][2];
    float *c[WARP];
    for (int lane = 0; lane < WARP; lane++) {
        const mma_data *d = (const mma_data *)data[lane];
        m.load(lane, d->a);
        b[lane][0] = d->b0, b[lane][1] = d->b1;
        c[lane] = d->c;
    }
    m.multiply(b, c);
}

// A warp's part of a warpgroup's instruction: 8 columns after the other.
template <class T> static void group_mma_finish(void *const *data, uint32_t) {
    const group_mma_data *first = (const group_mma_data *)data[0];
    mma_matrix<T> m;
    uint32_t b[WARP][2];
    float *c[WARP];
    for (int lane = 0; lane < WARP; lane++) {
        const group_mma_data *d = (const group_mma_data *)data[lane];
        if (d->at != first->at || d->is_add != first->is_add || d->n_live != first->n_live)
            fail("warpgroup_mma: lane %d has other arguments", lane);
        m.load(lane, d->a);
    }
    for (int i = 0; i < first->n_live; i++) {
        for (int lane = 0; lane < WARP; lane++) {
            const uint32_t at = first->at + (uint32_t)(i * GROUP_BYTES + lane * 4);
            b[lane][0] = shared_u32(at), b[lane][1] = shared_u32(at + 128);
            c[lane] = ((const group_mma_data *)data[lane])->d + 4 * i;
            if (!first->is_add) memset(c[lane], 0, 4 * sizeof(float));
        }
        m.multiply(b, c);
    }
}

const collective_kind KIND_SYNCWARP = {"__syncwarp", nullptr, true};
const collective_kind KIND_SHUFFLE = {"a shuffle", shuffle_finish, false};
const collective_kind KIND_VOTE = {"a vote", vote_finish, false};
const collective_kind KIND_MATCH = {"a match", match_finish, false};
const collective_kind KIND_MMA_F16 = {"mma_f16", mma_finish<f16_of_mma>, false};
const collective_kind KIND_MMA_BF16 = {"mma_bf16", mma_finish<bf16_of_mma>, false};
const collective_kind KIND_GROUP_F16 = {"warpgroup_mma", group_mma_finish<f16_of_mma>, false};
const collective_kind KIND_GROUP_BF16 = {"warpgroup_mma", group_mma_finish<bf16_of_mma>, false};

// ---------------------------------------------------------------- launches

bool run_grid(const kernel *k, void **args, dim3 grid, dim3 size, uint32_t shared_bytes,
              int blocks_at_once) {
    if (now) fail("a kernel cannot launch");
    seed_read();
    const uint64_t n = (uint64_t)grid.x * grid.y * grid.z;
    // Blocks start in an order by chance: a step without a common divisor with n meets them all.
    const uint64_t first = random32() % n;
    uint64_t step = 1 + random32() % n;
    for (uint64_t x = n, y = step; y != 0 || x != 1;) {
        if (y == 0) step++, x = n, y = step;
        const uint64_t r = x % y;
        x = y, y = r;
    }
    blockDim = size;
    gridDim = grid;
    state.running = k;
    state.args = args;
    state.gave_up = false;
    state.arch_80 = is_arch_80();
    if (blocks_at_once > MAX_SLOTS) blocks_at_once = MAX_SLOTS;
    state.n_slots = n < (uint64_t)blocks_at_once ? (int)n : blocks_at_once;
    state.polls = 0;
    state.poll_limit = 1000000 + 200 * (uint64_t)state.n_slots * size.x * size.y * size.z;
    for (int i = 0; i < state.n_slots; i++) {
        if (!state.slots[i]) {
            state.slots[i] = new block();
            state.slots[i]->fibers = new fiber[MAX_THREADS]();
        }
        state.slots[i]->live = 0;
    }
    uint64_t started = 0;
    for (;;) {
        for (int i = 0; i < state.n_slots && started < n; i++)
            if (!state.slots[i]->live)
                block_start(state.slots[i], (first + step * started++) % n, grid, size,
                            shared_bytes);
        fiber *f = choose_anywhere();
        if (!f) break;
        if (f->stack < 0) fiber_begin(f);
        set_now(f);
        context_switch(&state.host, &f->at_rest); // until a block ends or a thread gives up
        if (state.gave_up) break;
    }
    state.running = nullptr;
    return !state.gave_up;
}

} // namespace emulator
