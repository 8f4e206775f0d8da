// Every allocation of a draft model's creation is made to fail once: each failure is reported and
// nothing leaks. And nothing is allocated afterwards.
#include <stdlib.h>

#include "check.h"

#include "drafter_world.h"
#include "failing_malloc.h"

enum { N_CTX = 100 };

// A vocabulary that is smaller than the target's by padding, so that all parts are there.
static struct tokenizer *padded;
static rn_model *model;
static rn_engine *engine;

static int open_all(void **state) {
    (void)state;
    rn_error err = {0};
    model = bare_open(TEST_DATA "/golden/gemma3/model.gguf");
    check(vocab_load(model->weights, model->info.n_vocab + 4, &padded, NULL, &err) == RN_OK, "%s",
          err.message);
    engine = streams_engine(model, &(rn_engine_options){.n_threads = 2, .n_ctx = N_CTX});
    return 0;
}

static int close_all(void **state) {
    (void)state;
    rn_engine_destroy(engine);
    tokenizer_destroy(padded);
    rn_model_close(model);
    return 0;
}

static rn_status create(struct drafter **out, rn_error *err) {
    const struct drafter_model_config config = {.model = &model->model,
                                                .tokenizer = model->tokenizer,
                                                .target_tokenizer = padded,
                                                .place = &engine->engine.draft_place,
                                                .pool = engine->engine.pool,
                                                .n_ctx = N_CTX,
                                                .max_seqs = 3,
                                                .batch_tokens = 40,
                                                .kv_bytes = 1 << 20,
                                                .scratch = engine->engine.scratch,
                                                .now = world_now};
    return drafter_model_create(&config, out, err);
}

CASE(each_failed_allocation_of_create_is_reported) {
    const long before = live;
    int failures = 0, reported = 0;
    for (bool failed = true; failed;) {
        struct drafter *drafter;
        rn_error err = {0};
        fail_at = failures;
        const rn_status status = create(&drafter, &err);
        failed = fail_at < 0;
        fail_at = -1;
        // the backend does without some
        check(status == (drafter ? RN_OK : RN_ERR_NOMEM), "allocation %d: %s", failures,
              rn_status_text(status));
        check(drafter || err.message[0], "allocation %d: no message", failures);
        if (drafter) drafter->cls->destroy(drafter);
        reported += status == RN_ERR_NOMEM;
        failures += failed;
        check(live == before, "allocation %d: %ld blocks are left", failures, live - before);
    }
    assert_true(reported > 20);
}

CASE(a_draft_allocates_nothing) {
    struct drafter *drafter;
    assert_int_equal(create(&drafter, NULL), RN_OK);
    struct world w = {engine, drafter};
    struct story *story = story_random(60, N_CTX, 1, model->info.n_vocab);
    fail_at = 0;
    for (int round = 0; round < 6; round++) {
        const int made = world_draft(&w, story, 5);
        world_settle(&w, story, story->seq.n_token + round % (made + 1));
        story->seq.n_token += round % (made + 1) + 1;
        if (round == 3) world_leave(&w, story);
    }
    assert_int_equal(fail_at, 0);
    fail_at = -1;
    drafter->cls->destroy(drafter);
    story_destroy(story);
}

TEST_PROGRAM(drafter_memory) { return cases_run(open_all, close_all); }
