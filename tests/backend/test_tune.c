// From passes to the way of reading weights: the fastest way is chosen, the default stays where no
// way is clearly faster, and phases of a shared machine do not decide. Passes are made up, or those
// of a kernel that reads nothing and is slow on purpose.
// label: threads
#define _GNU_SOURCE 1
#include "backend/cpu/tune.h"

#include <math.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "base/clock.h"
#include "check.h"

enum { DEFAULT_NS = 100000 };

typedef uint64_t (*times_fn)(int way, int call);

struct machine {
    times_fn times, alone; // of all threads, of one
    int n_calls;
};

static uint64_t machine_pass(void *ctx, int way, bool alone, int turn) {
    struct machine *m = ctx;
    check(way >= 0 && way < MATMUL_WAYS, "way %d", way);
    check(turn >= 0 && turn < TUNE_TURNS, "turn %d", turn);
    return (alone ? m->alone : m->times)(way, m->n_calls++);
}

static int choose_of_two(times_fn times, times_fn alone, double *gain) {
    struct machine m = {.times = times, .alone = alone};
    return tune_choose(&(struct tune_passes){machine_pass, &m}, gain);
}

static int choose(times_fn times, double *gain) { return choose_of_two(times, times, gain); }

static uint64_t times_alike(int way, int call) { return DEFAULT_NS; }

static uint64_t times_one_better(int way, int call) {
    return way == 6 ? DEFAULT_NS / 2 : way == 3 ? DEFAULT_NS * 3 / 4 : DEFAULT_NS;
}

static uint64_t times_little_better(int way, int call) {
    return way == 5 ? DEFAULT_NS * 995 / 1000 : DEFAULT_NS;
}

static uint64_t times_all_worse(int way, int call) { return way ? DEFAULT_NS * 2 : DEFAULT_NS; }

// The machine is twice as fast in phases of 7 passes.
static uint64_t times_phases(int way, int call) {
    return call / 7 % 2 ? DEFAULT_NS / 2 : DEFAULT_NS;
}

// Way 2 is better in every phase.
static uint64_t times_phases_one_better(int way, int call) {
    return times_phases(way, call) * (way == 2 ? 80 : 100) / 100;
}

// The first look at way 4 meets a stall of the default.
static uint64_t times_lucky_once(int way, int call) {
    return way == 0 && call < 20 ? 3 * DEFAULT_NS : DEFAULT_NS;
}

CASE(the_fastest_way_is_chosen) {
    double gain;
    assert_int_equal(choose(times_one_better, &gain), 6);
    check(fabs(gain - 2) < 0.01, "gain %g", gain);
    assert_int_equal(choose(times_phases_one_better, &gain), 2);
    check(fabs(gain - 1.25) < 0.01, "gain %g", gain);
}

// With one thread, ways 1, 4 and 6 are better than the default.
static uint64_t times_alone(int way, int call) {
    static const uint64_t percent[] = {[1] = 70, [4] = 80, [6] = 90};
    return way == 1 || way == 4 || way == 6 ? DEFAULT_NS * percent[way] / 100 : DEFAULT_NS;
}

// With all, way 1 is worse.
static uint64_t times_one_worse(int way, int call) {
    return way == 1 ? DEFAULT_NS * 5 / 4 : DEFAULT_NS;
}

// With all, way 6 is better than the default, and way 4 as good as way 6.
static uint64_t times_two_better(int way, int call) {
    return way == 6 ? DEFAULT_NS * 80 / 100 : way == 4 ? DEFAULT_NS * 81 / 100 : DEFAULT_NS;
}

// With one, all ways are worse than the default, but way 6 less.
static uint64_t times_alone_worse(int way, int call) {
    return way == 0 ? DEFAULT_NS : way == 6 ? DEFAULT_NS * 105 / 100 : DEFAULT_NS * 110 / 100;
}

CASE(one_thread_decides_between_ways_that_are_alike) {
    double gain;
    assert_int_equal(choose_of_two(times_one_better, times_alone_worse, &gain), 6);
    assert_int_equal(choose_of_two(times_one_worse, times_alone, &gain), 4);
    check(gain == 1, "gain %g", gain);
    assert_int_equal(choose_of_two(times_two_better, times_alone, &gain), 4);
    check(fabs(gain - 1 / 0.81) < 0.01, "gain %g", gain);
    assert_int_equal(choose_of_two(times_one_better, times_alone, &gain), 6);
}

CASE(the_default_stays_where_no_way_is_clearly_faster) {
    const times_fn times[] = {times_alike, times_little_better, times_all_worse, times_phases,
                              times_lucky_once};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        double gain;
        check(choose(times[i], &gain) == 0, "machine %d", (int)i);
        check(gain == 1, "machine %d: gain %g", (int)i, gain);
    }
}

// ---------------------------------------------------------------- reading

enum { COLS = 4096, PIECE = 128 << 10, FAST_WAY = 6 };

static int64_t group_bytes(int64_t cols) { return cols; }

static bool is_way(struct matmul_way a, struct matmul_way b) {
    return a.fetch == b.fetch && a.ahead == b.ahead && a.wide == b.wide;
}

// The memory of the kernel below, and what its calls were.
static struct {
    const uint8_t *base;
    int64_t n_pieces, last; // last: the piece of the last call; -1: no call yet
    bool alone;             // one thread calls
    uint64_t slow_ns;       // of a call in another way than the fast one
    atomic_uint ways;       // a bit for each way that was called
    atomic_int faults;
} reads;

static void expect(bool is_right) {
    if (!is_right) atomic_fetch_add(&reads.faults, 1);
}

static bool are_zeros(const struct matmul_args *args) {
    double sum = 0;
    for (int i = 0; i < COLS; i++) sum += fabs((double)args->x[i]) + abs(args->xq[i]);
    for (int i = 0; i < COLS / 16; i++) sum += fabs((double)args->xd[i / 2]) + abs(args->xsum[i]);
    return sum == 0;
}

static int way_index(struct matmul_way way) {
    for (int i = 0; i < MATMUL_WAYS; i++)
        if (is_way(way, matmul_ways[i])) return i;
    return -1;
}

// The piece is the next one, or at the start of a pass the one behind it.
static void piece_expect(int64_t piece) {
    const int64_t step = (piece - reads.last + reads.n_pieces) % reads.n_pieces;
    expect(piece >= 0 && piece < reads.n_pieces);
    if (!reads.alone) return;
    expect(reads.last < 0 || step == 1 || step == 2);
    reads.last = piece;
}

// Reads no weights. What it writes stays while it waits: other threads have other memory.
static void slow_run(const struct matmul_args *args, int64_t group_begin, int64_t group_end) {
    enum { SCRATCH_END = MATMUL_SCRATCH_BYTES / sizeof(uint64_t) - 1 };
    const uint64_t start = clock_ns();
    const int64_t rows = group_end * MATMUL_GROUP;
    const int way = way_index(args->way);
    const float mine = (float)(start % 100003);
    uint64_t *scratch = args->scratch;
    bool is_mine = true;
    expect(way >= 0);
    if (!(atomic_fetch_or(&reads.ways, 1u << way) >> way & 1)) expect(are_zeros(args));
    expect(group_begin == 0 && group_end == PIECE / group_bytes(COLS));
    expect(args->n == 1 && args->cols == COLS && args->rows == rows);
    expect((uintptr_t)scratch % 64 == 0);
    piece_expect(((const uint8_t *)args->w - reads.base) / PIECE);
    for (int64_t i = 0; i < rows; i++) args->y[i] = mine;
    scratch[0] = scratch[SCRATCH_END] = start;
    while (way != FAST_WAY && clock_ns() - start < reads.slow_ns) {
    }
    for (int64_t i = 0; i < rows; i++) is_mine = is_mine && args->y[i] == mine;
    expect(is_mine && scratch[0] == start && scratch[SCRATCH_END] == start);
}

// A region of that size, at an address that is not read.
static struct matmul_way tune_here(int n_threads, uint64_t bytes) {
    const struct matmul_kernel kernel = {.format = FORMAT_Q4_0,
                                         .group_bytes = group_bytes,
                                         .run = {[SHAPE_ONE] = slow_run}};
    const struct region packed = {.base = (uint8_t *)((uintptr_t)PIECE * 1000), .bytes = bytes};
    struct matmul_way way = {.ahead = -1};
    struct pool *pool;
    double gain;
    reads.base = packed.base;
    reads.n_pieces = (int64_t)(bytes / PIECE);
    reads.last = -1;
    reads.alone = n_threads == 1;
    reads.slow_ns = reads.alone ? 50000 : 2000;
    reads.ways = 0;
    reads.faults = 0;
    assert_int_equal(pool_create(n_threads, &pool, NULL), RN_OK);
    assert_int_equal(tune_region(pool, &kernel, &packed, &way, &gain, NULL), RN_OK);
    pool_destroy(pool);
    assert_int_equal(reads.faults, 0);
    check(gain >= 1 && (gain == 1 || !is_way(way, matmul_ways[0])), "gain %g", gain);
    return way;
}

static void check_all_ways(void) { assert_int_equal(reads.ways, (1u << MATMUL_WAYS) - 1); }

CASE(passes_read_piece_after_piece_in_each_way) {
    enum { TRIES = 10 };
    bool is_chosen = false; // other programs may take the core from its first passes
    for (int i = 0; i < TRIES && !is_chosen; i++) {
        is_chosen = is_way(tune_here(1, 64 << 20), matmul_ways[FAST_WAY]);
        check_all_ways();
    }
    assert_true(is_chosen);
}

CASE(threads_have_results_and_scratch_of_their_own) {
    tune_here(4, 64 << 20);
    check_all_ways();
}

CASE(many_threads_have_memory_enough_to_tell_ways_apart) {
    enum { MANY = 24 };
    struct pool *pool;
    assert_int_equal(pool_create(MANY, &pool, NULL), RN_OK);
    const uint64_t bytes = tune_bytes(pool);
    pool_destroy(pool);
    tune_here(MANY, bytes);
    check_all_ways();
}

CASE(the_default_stays_where_memory_is_too_small) {
    static const uint64_t bytes[] = {0, COLS, PIECE, 5 * PIECE};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        assert_true(is_way(tune_here(2, bytes[i]), matmul_ways[0]));
        assert_int_equal(reads.ways, 0);
    }
}

// ---------------------------------------------------------------- a backend's weights

enum { WEIGHTS = 5, THREADS = 2, STAGES = 3 };

// Weights that read as zeros, each at the end of its memory: a read past it is a fault. Two lengths
// of rows, one of them of two experts, are enough of one format together. A matrix of it is too
// small for a piece, a weight is in no product, and another format has little.
struct weights {
    struct plan_weight plan[WEIGHTS];
    struct cpu_weight own[WEIGHTS];
    const void *expert[2];
    void *memory[WEIGHTS + 1];
    size_t bytes[WEIGHTS + 1]; // with the page behind the end
};

static const void *matrix_map(struct weights *w, int at, int64_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t whole = ((size_t)bytes + page - 1) / page * page;
    uint8_t *p = mmap(NULL, whole + page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(mprotect(p + whole, page, PROT_NONE), 0);
    w->memory[at] = p;
    w->bytes[at] = whole + page;
    return p + whole - bytes;
}

static void weights_init(struct weights *w, enum cpu_isa isa) {
    *w = (struct weights){.plan = {{.format = FORMAT_Q4_0, .rows = 16 * 4001 - 5, .cols = 1024},
                                   {.format = FORMAT_Q4_0, .rows = 16 * 1001, .cols = 2048},
                                   {.format = FORMAT_Q4_0, .rows = 7, .cols = 512},
                                   {.format = FORMAT_Q4_0, .rows = 16 * 9999, .cols = 1024},
                                   {.format = FORMAT_F16, .rows = 160, .cols = 1024}}};
    for (int i = 0; i < WEIGHTS; i++) {
        struct plan_weight *plan = &w->plan[i];
        struct cpu_weight *own = &w->own[i];
        const struct matmul_kernel *kernel = matmul_kernel_find(plan->format, isa);
        plan->bytes = (uint64_t)plan->rows * format_row_bytes(plan->format, plan->cols);
        if (i == 3 || !kernel) continue; // in no product
        const int64_t bytes = kernel->group_bytes(plan->cols) * cpu_groups(plan->rows);
        own->kernel = kernel;
        own->packed = matrix_map(w, i, bytes);
        if (i != 1) continue;
        plan->n_expert = 2;
        plan->bytes *= 2;
        w->expert[0] = own->packed;
        w->expert[1] = matrix_map(w, WEIGHTS, bytes);
        own->expert = w->expert;
        own->packed = NULL;
    }
}

static void weights_protect(const struct weights *w, int protection) {
    for (int i = 0; i <= WEIGHTS; i++)
        if (w->memory[i]) assert_int_equal(mprotect(w->memory[i], w->bytes[i], protection), 0);
}

static void weights_deinit(struct weights *w) {
    for (int i = 0; i <= WEIGHTS; i++)
        if (w->memory[i]) munmap(w->memory[i], w->bytes[i]);
}

// The way of all products. The last stage is the draft block's, the one before it no product.
static struct matmul_way backend_tune(struct weights *w, const struct cpu_ops *ops,
                                      uint64_t cache_bytes) {
    const struct matmul_way none = {.fetch = FETCH_BOTH, .ahead = 12345, .wide = true};
    struct cpu_matmul first[2] = {{.format = FORMAT_Q4_0, .args.way = none},
                                  {.format = FORMAT_F16, .args.way = none}};
    struct cpu_matmul last = {.format = FORMAT_Q4_0, .args.way = none};
    struct cpu_stage stage[STAGES] = {{.n = 2, .matmul = first},
                                      {.n = 1},
                                      {.n = 1, .matmul = &last}};
    const struct plan plan = {.weight = w->plan, .n_weight = WEIGHTS};
    struct cpu_backend *b = calloc(1, sizeof *b);
    assert_non_null(b);
    assert_int_equal(pool_create(THREADS, &b->pool, NULL), RN_OK);
    b->matmul_scratch = aligned_alloc(64, (size_t)THREADS * MATMUL_SCRATCH_BYTES);
    assert_non_null(b->matmul_scratch);
    b->plan = &plan;
    b->ops = ops;
    b->weight = w->own;
    b->stage = stage;
    b->n_stage = STAGES - 1;
    b->n_stage_all = STAGES;
    b->cache_bytes_all = cache_bytes;
    for (int format = 0; format < FORMAT_COUNT; format++) b->way[format] = none;
    cpu_tune(b);
    const struct matmul_way way = b->way[FORMAT_Q4_0];
    assert_true(way_index(way) >= 0);
    for (int format = 0; format < FORMAT_COUNT; format++) // others have less, or nothing
        assert_true(is_way(b->way[format], way));
    assert_true(is_way(first[0].args.way, way));
    assert_true(is_way(first[1].args.way, way));
    assert_true(is_way(last.args.way, way));
    pool_destroy(b->pool);
    free(b->matmul_scratch);
    free(b);
    return way;
}

CASE(every_product_has_the_way_of_the_format_with_the_most_weights) {
    const struct cpu_ops *ops;
    struct weights w;
    assert_int_equal(ops_find(NULL, &ops, NULL), RN_OK);
    weights_init(&w, ops->isa);
    backend_tune(&w, ops, 0);
    weights_deinit(&w);
}

CASE(without_a_tuned_kernel_nothing_is_tried) {
    struct weights w;
    weights_init(&w, ISA_SCALAR);
    assert_true(is_way(backend_tune(&w, ops_at(ISA_SCALAR), 0), matmul_ways[0]));
    weights_deinit(&w);
}

// All of the format is more than the caches have, each length less.
CASE(weights_that_the_caches_may_hold_are_not_read) {
    const struct cpu_ops *ops;
    struct weights w;
    assert_int_equal(ops_find(NULL, &ops, NULL), RN_OK);
    weights_init(&w, ops->isa);
    weights_protect(&w, PROT_NONE); // a read is a fault
    assert_true(is_way(backend_tune(&w, ops, 60 << 20), matmul_ways[0]));
    weights_deinit(&w);
}

CASE(a_way_has_a_name) {
    char name[32];
    tune_name(&(struct matmul_way){.fetch = FETCH_L2, .ahead = 4096, .wide = true}, name,
              sizeof name);
    assert_string_equal(name, "L2 +4096 wide");
    tune_name(&(struct matmul_way){.fetch = FETCH_BOTH, .ahead = 16384}, name, sizeof name);
    assert_string_equal(name, "L2+L1 +16384");
    tune_name(&matmul_ways[0], name, sizeof name);
    assert_string_equal(name, "plain");
}

TEST_PROGRAM(tune) { return cases_run(NULL, NULL); }
