// Pages through the backend's interface: clears and copies happen in the order of the batch's list
// on any number of threads. Releasing touches one page alone. The threads stay the lender's.
// label: threads
#include <stdatomic.h>

#include "backend/cpu/cpu.h"
#include "backend_here.h"
#include "parts.h"

enum { PAGES = 6, GROUPS = 3, OPS = 40, VOCAB = 4, MAX_THREADS = 3 };

// Floats of a page: less than a cache line, an odd number of lines, and enough for all threads.
static const int page_floats[GROUPS] = {5, 5000, 100003};

static const float rows[VOCAB * VOCAB];

static void plan_make(struct plan *plan) {
    plan_init(plan);
    for (int g = 0; g < GROUPS; g++) {
        const struct plan_kv_group group = {.kind = KV_RECURRENT,
                                            .n_layer = 1,
                                            .state = page_floats[g]};
        plan_add_kv_group(plan, &group);
    }
    plan_end_with_rows(plan, rows, VOCAB, VOCAB);
}

static struct cpu_backend *create(struct here *here, const struct plan *plan, int threads) {
    const struct backend_config config = {.sizes = {1, 1, 1}, .n_pages = {PAGES, PAGES, PAGES}};
    here_create(here, plan, &config, threads);
    return (struct cpu_backend *)here->backend;
}

static void pages_fill(struct cpu_backend *b) {
    for (int g = 0; g < GROUPS; g++)
        for (uint64_t i = 0; i < b->kv[g].bytes; i++)
            b->kv[g].base[i] = (uint8_t)rng_below(255) + 1;
}

static uint8_t *pages_dup(const struct cpu_backend *b, int g) {
    uint8_t *copy = malloc(b->kv[g].bytes);
    assert_non_null(copy);
    return memcpy(copy, b->kv[g].base, b->kv[g].bytes);
}

CASE(clears_and_copies_happen_in_order) {
    struct plan plan;
    plan_make(&plan);
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        struct here here;
        struct cpu_backend *b = create(&here, &plan, threads);
        uint8_t *want[GROUPS];
        pages_fill(b);
        for (int g = 0; g < GROUPS; g++) want[g] = pages_dup(b, g);
        struct batch_page page[OPS];
        for (int i = 0; i < OPS; i++) {
            const int g = rng_below(GROUPS);
            const uint64_t bytes = (uint64_t)page_floats[g] * sizeof(float);
            const uint32_t to = rng() % PAGES, from = (to + 1 + rng() % (PAGES - 1)) % PAGES;
            const bool zero = rng_below(4) == 0;
            page[i] = (struct batch_page){g, to, zero ? BATCH_ZERO : from};
            if (zero)
                memset(want[g] + to * bytes, 0, bytes);
            else
                memcpy(want[g] + to * bytes, want[g] + from * bytes, bytes);
        }
        const struct batch batch = {.n_pages = OPS, .page = page};
        here_run(&here, &batch);
        for (int g = 0; g < GROUPS; g++) {
            assert_memory_equal(b->kv[g].base, want[g], b->kv[g].bytes);
            free(want[g]);
        }
        here_destroy(&here);
    }
    plan_deinit(&plan);
}

// Bytes at the ends of a page, in system pages that it shares with its neighbours, may stay.
CASE(releasing_a_page_leaves_its_neighbours) {
    struct plan plan;
    plan_make(&plan);
    struct here here;
    struct cpu_backend *b = create(&here, &plan, 1);
    pages_fill(b);
    for (int g = 0; g < GROUPS; g++) {
        const uint64_t bytes = b->page_bytes[g];
        uint8_t *before = pages_dup(b, g);
        b->base.cls->page_release(&b->base, g, 2);
        assert_memory_equal(b->kv[g].base, before, 2 * bytes);
        assert_memory_equal(b->kv[g].base + 3 * bytes, before + 3 * bytes, (PAGES - 3) * bytes);
        uint64_t kept = 0;
        for (uint64_t i = 2 * bytes; i < 3 * bytes; i++) kept += b->kv[g].base[i] != 0;
        if (bytes > 64 << 10)
            assert_true(kept < bytes / 2);
        else if (bytes < 4096)
            assert_int_equal(kept, bytes);
        const struct batch_page copy = {g, 2, 1}; // and is of use again
        const struct batch batch = {.n_pages = 1, .page = &copy};
        here_run(&here, &batch);
        assert_memory_equal(b->kv[g].base + 2 * bytes, before + bytes, bytes);
        free(before);
    }
    here_destroy(&here);
    plan_deinit(&plan);
}

struct visits {
    _Atomic int item[1000];
    _Atomic int n_strangers; // calls by a worker that does not exist
    int n_threads;
};

static void visit(void *ctx, int64_t begin, int64_t end, int worker) {
    struct visits *visits = ctx;
    if (worker < 0 || worker >= visits->n_threads) visits->n_strangers++;
    for (int64_t i = begin; i < end; i++) visits->item[i]++;
}

CASE(between_steps_the_threads_do_other_work) {
    struct plan plan;
    plan_make(&plan);
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        struct here here;
        const struct batch_page clear = {GROUPS - 1, 0, BATCH_ZERO};
        const struct batch step = {.n_pages = 1, .page = &clear};
        create(&here, &plan, threads);
        for (int chunk = 1; chunk <= 1000; chunk += 111) {
            struct visits visits = {.n_threads = pool_size(here.pool)};
            assert_int_equal(visits.n_threads, threads);
            here_run(&here, &step);
            pool_run(here.pool, visit, &visits, 1000 - chunk / 2, chunk);
            for (int i = 0; i < 1000; i++)
                assert_int_equal(visits.item[i], i < 1000 - chunk / 2 ? 1 : 0);
            assert_int_equal(visits.n_strangers, 0);
        }
        here_destroy(&here);
    }
    plan_deinit(&plan);
}

TEST_PROGRAM(page_ops) { return cases_run(NULL, NULL); }
