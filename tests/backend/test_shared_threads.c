// Backends on one lent pool of threads: each gives the same results as alone, after any other
// backend and in any order. The pool stays, and does other work between their steps.
// label: threads
#include <assert.h>

#include "backend/cpu/cpu.h"
#include "backend_here.h"
#include "recurrent_model.h"

enum { TOKENS = 24, VOCAB_LARGE = 300, VOCAB_SMALL = 50, THREADS = 3, BACKENDS = 4 };

struct world {
    struct model model;
    struct backend *backend;
    struct step_result result;
    int n_vocab;
    float logits[TOKENS][VOCAB_LARGE]; // of a run alone
};

static struct pool *pool_make(void) {
    struct pool *pool;
    rn_error err = {0};
    check(whole_pool_create(THREADS, &pool, &err) == RN_OK, "%s", err.message);
    return pool;
}

static void world_init(struct world *w, int n_vocab, struct pool *pool) {
    const struct backend_class *cls;
    struct backend_device device;
    rn_error err = {0};
    w->n_vocab = n_vocab;
    check(recurrent_model_init(&w->model, n_vocab, FORMAT_F32, &err) == RN_OK, "%s", err.message);
    const struct backend_config config = {.sizes = {TOKENS, TOKENS, 1, false},
                                          .n_pages = {1, 1, 1},
                                          .pool = pool};
    check(backend_find("cpu", 0, &cls, &device, &err) == RN_OK, "%s", err.message);
    check(cls->create(&w->model.plan, &config, &w->backend, &err) == RN_OK, "%s", err.message);
}

static void world_deinit(struct world *w) {
    backend_destroy(w->backend);
    recurrent_model_deinit(&w->model);
}

// The tokens from an empty sequence on.
static void run(struct world *w) {
    uint32_t page = 0, *table[] = {&page, &page, &page};
    int32_t token[TOKENS];
    for (int i = 0; i < TOKENS; i++) token[i] = i * 7 % w->n_vocab;
    const struct batch_page clear[] = {{0, 0, BATCH_ZERO}, {1, 0, BATCH_ZERO}, {2, 0, BATCH_ZERO}};
    struct batch_builder builder;
    assert_int_equal(batch_builder_init(&builder, 3, TOKENS, TOKENS, 1, NULL), RN_OK);
    batch_begin(&builder, NULL);
    builder.batch.n_pages = 3;
    builder.batch.page = clear;
    batch_add(&builder, &(struct batch_rows){.page_table = table,
                                             .n_tokens = TOKENS,
                                             .token = token,
                                             .n_out = TOKENS});
    assert_int_equal(backend_run(w->backend, &builder.batch, &w->result, NULL), RN_OK);
    batch_builder_deinit(&builder);
}

// Runs it on threads of its own, and keeps the logits.
static void run_alone(struct world *w, int n_vocab) {
    struct pool *pool = pool_make();
    world_init(w, n_vocab, pool);
    run(w);
    for (int i = 0; i < TOKENS; i++)
        memcpy(w->logits[i], w->result.logits[i], (size_t)w->n_vocab * sizeof(float));
    world_deinit(w);
    pool_destroy(pool);
}

static void check_same(struct world *w, const struct world *alone) {
    run(w);
    for (int i = 0; i < TOKENS; i++)
        assert_memory_equal(w->result.logits[i], alone->logits[i],
                            (size_t)w->n_vocab * sizeof(float));
}

static void sum(void *ctx, int64_t begin, int64_t end, int worker) {
    assert(worker < THREADS);
    atomic_fetch_add((_Atomic int64_t *)ctx, end - begin);
}

CASE(backends_that_share_threads_give_what_they_give_alone) {
    static struct world alone[2], large, small;
    run_alone(&alone[0], VOCAB_LARGE);
    run_alone(&alone[1], VOCAB_SMALL);
    struct pool *pool = pool_make();
    world_init(&large, VOCAB_LARGE, pool);
    for (int life = 0; life < 3; life++) { // of the second one
        world_init(&small, VOCAB_SMALL, pool);
        for (int i = 0; i < test_scale(6, 20, 20); i++) {
            check_same(&small, &alone[1]);
            if (i % 3 == 0) check_same(&large, &alone[0]);
        }
        _Atomic int64_t n = 0;
        pool_run(pool, sum, &n, 1000, 3);
        assert_int_equal(n, 1000);
        world_deinit(&small);
        check_same(&large, &alone[0]);
    }
    world_deinit(&large);
    pool_destroy(pool);
}

// Whichever goes, the first or the last or one between them, the others run as before.
CASE(any_backend_on_a_pool_may_go_first) {
    static struct world alone[2], world[BACKENDS];
    run_alone(&alone[0], VOCAB_LARGE);
    run_alone(&alone[1], VOCAB_SMALL);
    for (int first = 0; first < BACKENDS; first++) {
        struct pool *pool = pool_make();
        for (int i = 0; i < BACKENDS; i++) {
            world_init(&world[i], i % 2 ? VOCAB_SMALL : VOCAB_LARGE, pool);
            run(&world[i]);
        }
        for (int gone = 0; gone < BACKENDS; gone++) {
            world_deinit(&world[(first + gone) % BACKENDS]);
            for (int i = gone + 1; i < BACKENDS; i++)
                check_same(&world[(first + i) % BACKENDS], &alone[(first + i) % BACKENDS % 2]);
        }
        _Atomic int64_t n = 0;
        pool_run(pool, sum, &n, 1000, 3); // the lender's as before
        assert_int_equal(n, 1000);
        pool_destroy(pool);
    }
}

CASE(a_backend_has_no_threads_of_its_own) {
    static struct world one, two;
    struct pool *pool = pool_make();
    world_init(&one, VOCAB_LARGE, pool);
    world_init(&two, VOCAB_SMALL, pool);
    assert_ptr_equal(((struct cpu_backend *)(void *)one.backend)->pool, pool);
    assert_ptr_equal(((struct cpu_backend *)(void *)two.backend)->pool, pool);
    assert_int_equal(pool_size(pool), THREADS);
    world_deinit(&one);
    world_deinit(&two);
    pool_destroy(pool);
}

TEST_PROGRAM(shared_threads) { return cases_run(NULL, NULL); }
