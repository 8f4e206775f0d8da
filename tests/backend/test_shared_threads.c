// Two backends on one pool of threads: each gives what it gives alone, whoever ran before, and the
// one that borrows may go first.
#include <assert.h>

#include "backend/cpu/cpu.h"
#include "check.h"
#include "recurrent_model.h"

enum { TOKENS = 24, VOCAB_LARGE = 300, VOCAB_SMALL = 50, THREADS = 3 };

struct world {
    struct model model;
    struct backend *backend;
    int n_vocab;
    float logits[TOKENS][VOCAB_LARGE]; // of a run alone
};

static void world_init(struct world *w, int n_vocab, struct backend *threads_of) {
    rn_error err = {0};
    w->n_vocab = n_vocab;
    check(recurrent_model_init(&w->model, n_vocab, FORMAT_F32, &err) == RN_OK, "%s", err.message);
    const struct backend_config config = {.n_threads = THREADS,
                                          .max_tokens = TOKENS,
                                          .max_logits = TOKENS,
                                          .max_seqs = 1,
                                          .n_pages = {1, 1, 1},
                                          .threads_of = threads_of};
    check(backend_create(&w->model.plan, &config, &w->backend, &err) == RN_OK, "%s", err.message);
}

static void world_deinit(struct world *w) {
    backend_destroy(w->backend);
    recurrent_model_deinit(&w->model);
}

// The tokens from an empty sequence on.
static void run(struct world *w) {
    static const uint32_t page;
    int32_t token[TOKENS], at[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        token[i] = i * 7 % w->n_vocab;
        at[i] = i;
    }
    const struct batch_page clear[] = {{0, 0, BATCH_ZERO}, {1, 0, BATCH_ZERO}, {2, 0, BATCH_ZERO}};
    const struct batch_seq seq = {.n_tokens = TOKENS,
                                  .n_out = TOKENS,
                                  .page_table = {&page, &page, &page}};
    const struct batch batch = {.n_tokens = TOKENS,
                                .n_seqs = 1,
                                .n_out = TOKENS,
                                .n_logits = TOKENS,
                                .token = token,
                                .pos = at,
                                .out_row = at,
                                .seq = &seq,
                                .n_pages = 3,
                                .page = clear};
    w->backend->cls->run(w->backend, &batch);
}

static void keep(struct world *w) {
    run(w);
    for (int i = 0; i < TOKENS; i++)
        memcpy(w->logits[i], w->backend->cls->logits(w->backend, i),
               (size_t)w->n_vocab * sizeof(float));
}

static void check_same(struct world *w, const struct world *alone) {
    run(w);
    for (int i = 0; i < TOKENS; i++)
        assert_memory_equal(w->backend->cls->logits(w->backend, i), alone->logits[i],
                            (size_t)w->n_vocab * sizeof(float));
}

static void sum(void *ctx, int64_t begin, int64_t end, int worker) {
    assert(worker < THREADS);
    atomic_fetch_add((_Atomic int64_t *)ctx, end - begin);
}

static void backends_that_share_threads_give_what_they_give_alone(void **state) {
    (void)state;
    static struct world alone[2], large, small;
    world_init(&alone[0], VOCAB_LARGE, NULL);
    world_init(&alone[1], VOCAB_SMALL, NULL);
    keep(&alone[0]);
    keep(&alone[1]);
    world_init(&large, VOCAB_LARGE, NULL);
    for (int life = 0; life < 3; life++) { // of the one that borrows
        world_init(&small, VOCAB_SMALL, large.backend);
        assert_int_equal(small.backend->cls->threads(small.backend), THREADS);
        for (int i = 0; i < 20; i++) {
            check_same(&small, &alone[1]);
            if (i % 3 == 0) check_same(&large, &alone[0]);
        }
        _Atomic int64_t n = 0;
        small.backend->cls->parallel(small.backend, sum, &n, 1000, 3);
        assert_int_equal(n, 1000);
        world_deinit(&small);
        check_same(&large, &alone[0]);
    }
    world_deinit(&large);
    for (int i = 0; i < 2; i++) world_deinit(&alone[i]);
}

static void a_borrower_has_no_threads_of_its_own(void **state) {
    (void)state;
    static struct world lender, borrower, second;
    world_init(&lender, VOCAB_LARGE, NULL);
    world_init(&borrower, VOCAB_SMALL, lender.backend);
    world_init(&second, VOCAB_SMALL, borrower.backend); // what was borrowed can be lent
    const struct pool *pool = ((struct cpu_backend *)(void *)lender.backend)->pool;
    assert_ptr_equal(((struct cpu_backend *)(void *)borrower.backend)->pool, pool);
    assert_ptr_equal(((struct cpu_backend *)(void *)second.backend)->pool, pool);
    world_deinit(&borrower);
    run(&second);
    world_deinit(&second);
    run(&lender);
    world_deinit(&lender);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backends_that_share_threads_give_what_they_give_alone),
        cmocka_unit_test(a_borrower_has_no_threads_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
