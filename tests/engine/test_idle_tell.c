// An engine's own thread with a listener of blocks, and without requests: what the listener missed
// is told all the same.
// label: threads
#include <unistd.h>

#include "bare_engine.h"
#include "streams.h"

enum { PROMPT = 100, WAIT_MS = 10000 };

struct listener {
    _Atomic bool has_room;
    _Atomic int n_refused, n_cleared, n_stored, n_settled;
};

static bool listen(void *ctx, const rn_block_event *event) {
    struct listener *l = ctx;
    if (!l->has_room) {
        l->n_refused++;
        return false;
    }
    l->n_cleared += event->change == RN_BLOCKS_CLEARED;
    l->n_stored += event->change == RN_BLOCK_STORED;
    l->n_settled += event->change == RN_BLOCKS_SETTLED;
    return true;
}

CASE(a_listener_that_lost_blocks_is_told_while_nothing_runs) {
    struct listener l = {0};
    int32_t prompt[PROMPT];
    for (int i = 0; i < PROMPT; i++) prompt[i] = 3 + i % 200;
    rn_model *model = bare_open(TEST_DATA "/golden/llama/model.gguf");
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = 2,
                                                                   .n_ctx = 2 * PROMPT,
                                                                   .speculate = "off"});
    assert_int_equal(rn_engine_on_blocks(engine, listen, &l), RN_OK);
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    const rn_request request = {.prompt = prompt, .n_prompt = PROMPT, .max_tokens = 2};
    rn_event event = {0};
    uint64_t id;
    assert_int_equal(rn_engine_submit(engine, &request, &id, NULL), RN_OK);
    while (!event.last) assert_int_equal(rn_engine_wait(engine, &event, 1, WAIT_MS), 1);
    usleep(20000); // the thread has nothing to do
    assert_true(l.n_refused > 0 && l.n_cleared == 0);
    l.has_room = true;
    for (int ms = 0; ms < WAIT_MS && l.n_settled == 0; ms++) usleep(1000);
    check(l.n_cleared == 1 && l.n_stored == PROMPT / KV_PAGE_TOKENS && l.n_settled == 1,
          "%d blocks were told", l.n_stored);
    rn_engine_destroy(engine);
    rn_model_close(model);
}

TEST_PROGRAM(idle_tell) { return cases_run(NULL, NULL); }
