// A model with recurrent layers, a window and full attention in mixes. States are carried from
// block to block, found as checkpoints by equal prefixes, and recomputed after a preemption. The
// tokens do not change. The engine's invariants are tested after every step.
// label: async
#include "bare_engine.h"
#include "mix.h"
#include "recurrent_model.h"
#include "streams.h"
#include "view_check.h"

#define N_REQUESTS test_scale(14, 200, 400)
enum { N_VOCAB = 512, N_CTX = 320, PAGE = 32 };

static rn_model *model;

static int open_model(void **state) {
    (void)state;
    model = bare_open_recurrent(N_VOCAB, N_CTX);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    rn_model_close(model);
    return 0;
}

CASE(mixes_give_the_tokens_of_alone_runs) {
    struct mix_cases cases;
    struct mix_totals totals = {0};
    mix_cases_create(&cases, model, "f16", 5, N_REQUESTS / 2);
    mix_run_many(&cases, 5, N_REQUESTS, 0, &totals);
    mix_cases_destroy(&cases);
    mix_print_totals("recurrent", &totals);
    assert_int_equal(totals.mismatches, 0);
    assert_true(MIX_IS_SHORT || (totals.hits > 0 && totals.preemptions > 0));
}

static struct stream stream[6];
static int32_t prompt[N_CTX];

static rn_request request_for(int n_prompt, int max_tokens) {
    for (int i = 0; i < n_prompt; i++) prompt[i] = (i * 29 + i * i + 3) % N_VOCAB;
    return (rn_request){.prompt = prompt,
                        .n_prompt = (size_t)n_prompt,
                        .max_tokens = max_tokens,
                        .ignore_eos = true};
}

// The state depends on every token before it: were it wrong, the tokens would differ.
CASE(a_checkpoint_gives_the_state_of_its_prefix) {
    static const int n_prompts[] = {1, 31, 32, 33, 64, 65, 200, 250};
    rn_engine *without =
        streams_engine(model, &(rn_engine_options){.no_prefix_cache = true, .n_threads = 1});
    for (size_t p = 0; p < sizeof n_prompts / sizeof *n_prompts; p++) {
        rn_engine *with = streams_engine(model, &(rn_engine_options){.n_threads = 1});
        const int n_prompt = n_prompts[p];
        rn_request request = request_for(n_prompt, 40);
        streams_run(without, &request, &stream[0]);
        for (int repeat = 0; repeat < 2; repeat++) {
            streams_run(with, &request, &stream[1]);
            streams_check_same(&stream[0], &stream[1]);
            if (repeat)
                assert_int_equal(stream[1].timings.cached_tokens, (n_prompt - 1) / PAGE * PAGE);
        }
        rn_engine_destroy(with);
    }
    rn_engine_destroy(without);
}

// Full groups hold every block, a recurrent one only its state.
CASE(a_stream_holds_one_state) {
    rn_engine *engine =
        streams_engine(model, &(rn_engine_options){.no_prefix_cache = true, .n_threads = 1});
    const rn_request request = request_for(20, 280);
    streams_submit(engine, &request, &stream[0]);
    uint32_t held_max = 0;
    for (int step = 0; streams_step(engine, stream, 1, step, 0); step++)
        if (streams_stats(engine).pages_held > held_max)
            held_max = streams_stats(engine).pages_held;
    assert_int_equal(stream[0].n_ids, 280);
    const uint32_t full = (299 + PAGE - 1) / PAGE;
    // a window of 40 touches at most 3 blocks; the state is read from one page into the next
    check(held_max <= full + 3 + 2, "%u pages are held, %u of them full ones", held_max, full);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// Choices part at the prompt's last token, inside a block or at its end.
CASE(choices_share_the_state_of_their_prompt) {
    static struct stream single;
    for (int n_prompt = 62; n_prompt <= 67; n_prompt++)
        for (int no_cache = 0; no_cache < 2; no_cache++) {
            rn_engine *engine =
                streams_engine(model, &(rn_engine_options){.max_seqs = 4,
                                                           .n_threads = 1,
                                                           .no_prefix_cache = no_cache != 0});
            rn_request request = request_for(n_prompt, 20);
            streams_run(engine, &request, &single);
            request.n = 4; // greedy, so all are equal
            streams_submit(engine, &request, stream);
            streams_drain(engine, stream, 4);
            for (int i = 0; i < 4; i++) streams_check_same(&single, &stream[i]);
            streams_check_empty(engine);
            rn_engine_destroy(engine);
        }
}

// A picture has the pages of all three groups: every block's of the full one, those that the window
// sees, and one state.
CASE(a_picture_has_the_pages_of_all_groups) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_threads = 1, .max_seqs = 4});
    rn_watcher *watcher;
    assert_int_equal(rn_watcher_create(engine, &watcher, NULL), RN_OK);
    const rn_request request = request_for(5 * PAGE + 3, 100);
    uint64_t id[2];
    for (int i = 0; i < 2; i++) // the second finds the first one's checkpoint
        assert_int_equal(rn_engine_submit(engine, &request, &id[i], NULL), RN_OK);
    const rn_view *view = NULL;
    for (int step = 0; step < 20; step++) {
        bool busy;
        rn_watcher_ask(watcher);
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);) continue;
        view = rn_watcher_view(watcher);
        assert_non_null(view);
        check(!view_check(view), "step %d: %s", step, view_check(view));
    }
    int held[RECURRENT_GROUPS] = {0}, shared = 0;
    for (size_t i = 0; i < view->n_pages; i++) {
        held[view->page[i].group] += view->page[i].owner == id[0];
        shared += view->page[i].holders == 2;
    }
    assert_int_equal(held[RECURRENT_GROUP_FULL], 6);
    assert_in_range(held[RECURRENT_GROUP_WINDOW], 2, 3);
    assert_int_equal(held[RECURRENT_GROUP_STATE], 1);
    assert_true(shared >= 5);
    rn_watcher_destroy(watcher);
    rn_engine_destroy(engine);
}

TEST_PROGRAM(recurrent) { return cases_run(open_model, close_model); }
