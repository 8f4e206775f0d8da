// Models with recurrent layers, a window and full attention in mixes. States move from block to
// block, and are found as checkpoints and tails by equal prefixes. The tokens do not change. The
// engine's invariants are tested after every step. The models differ in the blocks between their
// checkpoints: one, four, and more than a context has.
// label: async
#include "bare_engine.h"
#include "engine/pages/kv_internal.h"
#include "mix.h"
#include "recurrent_model.h"
#include "streams.h"
#include "view_check.h"

#define N_REQUESTS test_scale(14, 200, 400)
enum { N_VOCAB = 512, N_CTX = 320, PAGE = 32 };

enum { EVERY, FOURTH, FAR, N_MODELS };

static const int intervals[N_MODELS] = {1, 4, 32};
static rn_model *models[N_MODELS];

static int open_models(void **state) {
    (void)state;
    for (int i = 0; i < N_MODELS; i++)
        models[i] = intervals[i] == 1 ? bare_open_recurrent(N_VOCAB, N_CTX)
                                      : bare_open_states(N_VOCAB, N_CTX, BARE_STATES(intervals[i]));
    return 0;
}

static int close_models(void **state) {
    (void)state;
    for (int i = 0; i < N_MODELS; i++) rn_model_close(models[i]);
    return 0;
}

CASE(mixes_give_the_tokens_of_alone_runs) {
    for (int m = 0; m < N_MODELS; m++) {
        struct mix_cases cases;
        struct mix_totals totals = {0};
        mix_cases_create(&cases, models[m], "f16", 5 + (uint64_t)m, N_REQUESTS / 2);
        mix_run_many(&cases, 5 + (uint64_t)m, N_REQUESTS, 0, &totals);
        mix_cases_destroy(&cases);
        mix_print_totals("recurrent", &totals);
        assert_int_equal(totals.mismatches, 0);
        assert_true(MIX_IS_SHORT || (totals.hits > 0 && totals.preemptions > 0));
    }
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

static int larger(int a, int b) { return a > b ? a : b; }

// The last checkpoint that a prompt leaves for the same prompt: of the interval, or before its end.
static int checkpoint_of(int m, int n_prompt) {
    const int step = intervals[m] * PAGE, end = (n_prompt - 8) / PAGE * PAGE;
    return larger((n_prompt - 1) / step * step, end > 0 ? end : 0);
}

// The state depends on every token before it: were it wrong, the tokens would differ. Drafts take
// states too, as many as the times of steps decide, so there are none here.
CASE(a_checkpoint_gives_the_state_of_its_prefix) {
    static const int n_prompts[] = {1, 31, 32, 33, 39, 40, 64, 65, 71, 72, 200, 250};
    for (int m = 0; m < N_MODELS; m++) {
        rn_engine *without =
            streams_engine(models[m], &(rn_engine_options){.no_prefix_cache = true});
        for (size_t p = 0; p < sizeof n_prompts / sizeof *n_prompts; p++) {
            rn_engine *with = streams_engine(models[m], &(rn_engine_options){.speculate = "off"});
            const int n_prompt = n_prompts[p], expected = checkpoint_of(m, n_prompt);
            assert_int_equal(with->engine.kv_config.group[2].interval, intervals[m]);
            rn_request request = request_for(n_prompt, 40);
            streams_run(without, &request, &stream[0]);
            for (int repeat = 0; repeat < 2; repeat++) {
                streams_run(with, &request, &stream[1]);
                streams_check_same(&stream[0], &stream[1]);
                const int found = stream[1].timings.cached_tokens;
                check(found == (repeat ? expected : 0), "model %d, prompt of %d: %d are found", m,
                      n_prompt, found);
            }
            rn_engine_destroy(with);
        }
        rn_engine_destroy(without);
    }
}

// A conversation whose turns continue the text of the turn before: each evaluates its new tokens,
// and the last token of the answer, which was chosen and not evaluated. Drafts would be evaluated
// too.
CASE(a_turn_evaluates_its_new_tokens) {
    enum { TURNS = 20 };
    for (int m = 0; m < N_MODELS; m++) {
        rn_engine *with =
            streams_engine(models[m], &(rn_engine_options){.max_seqs = 2, .speculate = "off"});
        rn_engine *without =
            streams_engine(models[m], &(rn_engine_options){.no_prefix_cache = true});
        int n_text = 0, n_done = 0;
        for (int turn = 0; turn < TURNS; turn++) {
            const int n_new = turn == 0 ? 40 : 3 + turn % 7;
            for (int i = 0; i < n_new; i++) prompt[n_text++] = (turn * 31 + i * 17 + 5) % N_VOCAB;
            const rn_request request = {.prompt = prompt,
                                        .n_prompt = (size_t)n_text,
                                        .max_tokens = 2 + turn % 6,
                                        .ignore_eos = true};
            const uint64_t computed = streams_stats(with).computed_tokens;
            streams_run(with, &request, &stream[0]);
            streams_run(without, &request, &stream[1]);
            streams_check_same(&stream[0], &stream[1]);
            check(stream[0].timings.cached_tokens == n_done, "model %d, turn %d: %d of %d found", m,
                  turn, stream[0].timings.cached_tokens, n_done);
            for (int i = 0; i < stream[0].n_ids; i++) prompt[n_text++] = stream[0].ids[i];
            const uint64_t evaluated = streams_stats(with).computed_tokens - computed;
            assert_int_equal(evaluated, n_text - 1 - n_done);
            n_done = n_text - 1;
        }
        // a tail that is continued is no tail any more: there is the last one, and checkpoints
        const struct kv *kv = with->engine.kv;
        const int n_states = (int)(kv->stats.state_cached_bytes / kv->group[2].page_bytes);
        assert_in_range(n_states, 1, m == EVERY ? n_text / PAGE + 1 : TURNS / 2);
        rn_engine_destroy(with);
        rn_engine_destroy(without);
    }
}

// A letter behind the first two as a stop string; false: there is none.
static bool find_stop(const struct stream *from, char stop[2]) {
    for (size_t i = 2; i < from->n_text && !stop[0]; i++)
        if (from->text[i] > ' ') stop[0] = from->text[i];
    return stop[0] != 0;
}

// A sequence that stops while a step of it is in flight leaves the state behind that step's token.
CASE(a_turn_after_a_stop_evaluates_its_new_tokens) {
    for (int m = 0; m < N_MODELS; m++) {
        rn_engine *engine =
            streams_engine(models[m], &(rn_engine_options){.max_seqs = 2, .speculate = "off"});
        rn_engine *without =
            streams_engine(models[m], &(rn_engine_options){.no_prefix_cache = true});
        int n_stopped = 0;
        for (int n_prompt = 50; n_prompt < 110; n_prompt += 7) {
            rn_request request = request_for(n_prompt, 30);
            prompt[0] = n_prompt; // a text of its own
            streams_run(without, &request, &stream[0]);
            char stop[2] = "";
            const char *const stops[] = {stop};
            if (!find_stop(&stream[0], stop)) continue;
            n_stopped++;
            request.stop = stops;
            request.n_stop = 1;
            streams_run(engine, &request, &stream[1]);
            assert_int_equal(stream[1].finish, RN_FINISH_STOP);
            int n = n_prompt;
            for (int i = 0; i < stream[1].n_ids; i++) prompt[n++] = stream[1].ids[i];
            const int n_text = n;
            for (int i = 0; i < 11; i++) prompt[n++] = i;
            const rn_request next = {.prompt = prompt,
                                     .n_prompt = (size_t)n,
                                     .max_tokens = 20,
                                     .ignore_eos = true};
            streams_run(without, &next, &stream[0]);
            streams_run(engine, &next, &stream[1]);
            streams_check_same(&stream[0], &stream[1]);
            assert_in_range(stream[1].timings.cached_tokens, n_text - 1, n_text);
        }
        assert_true(n_stopped > 4);
        rn_engine_destroy(engine);
        rn_engine_destroy(without);
    }
}

// The positions of the furthest tail.
static int last_tail(const rn_engine *engine) {
    const struct kv *kv = engine->engine.kv;
    int last = 0;
    for (uint32_t at = 1; at < kv->n_node_used; at++) {
        if (!kv->node[at].used || kv->node[at].n_token == PAGE) continue;
        int n = 0;
        for (uint32_t up = at; up != KV_ROOT; up = kv->node[up].parent) n += kv->node[up].n_token;
        last = larger(last, n);
    }
    return last;
}

// Three tokens that are never right, or hardly ever.
static int draft_sevens(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                        int32_t *out, int most) {
    (void)ctx, (void)data, (void)choice, (void)token, (void)n_token;
    const int n = most < 3 ? most : 3;
    for (int i = 0; i < n; i++) out[i] = 7;
    return n;
}

// Steps in flight may have gone further than the tokens that are known, or through a draft: that
// state is not left.
CASE(a_cancelled_sequence_leaves_no_state_behind_unknown_tokens) {
    rn_engine *without = streams_engine(models[FAR], &(rn_engine_options){.no_prefix_cache = true});
    for (int run = 2; run < 48; run++) {
        const int n_steps = run / 2;
        rn_engine_options options = {.max_seqs = 2, .speculate = "off"};
        if (run % 2)
            options = (rn_engine_options){.max_seqs = 2,
                                          .speculate = "custom",
                                          .draft_fn = draft_sevens,
                                          .draft_min = 3,
                                          .draft_max = 3};
        rn_engine *engine = streams_engine(models[FAR], &options);
        rn_request request = request_for(70, 60);
        streams_submit(engine, &request, &stream[0]);
        for (int step = 0; step < n_steps; step++) streams_step(engine, stream, 1, step, 0);
        rn_engine_cancel(engine, stream[0].id);
        streams_drain(engine, stream, 1);
        assert_int_equal(stream[0].finish, RN_FINISH_CANCELLED);
        int n = 70;
        for (int i = 0; i < stream[0].n_ids; i++) prompt[n++] = stream[0].ids[i];
        check(last_tail(engine) <= n, "a tail of %d, %d are known", last_tail(engine), n);
        for (int i = 0; i < 9; i++) prompt[n++] = 0;
        request.n_prompt = (size_t)n;
        request.max_tokens = 12;
        streams_run(engine, &request, &stream[0]);
        streams_run(without, &request, &stream[1]);
        streams_check_same(&stream[0], &stream[1]);
        rn_engine_destroy(engine);
    }
    rn_engine_destroy(without);
}

// One place, and a request of higher priority takes it for a while: no token is evaluated twice.
CASE(a_preempted_sequence_resumes_where_it_was) {
    for (int m = 0; m < N_MODELS; m++) {
        rn_engine *engine = streams_engine(models[m], &(rn_engine_options){.max_seqs = 1,
                                                                           .speculate = "off",
                                                                           .kv_pages = 100});
        rn_request request = request_for(45, 60);
        streams_run(engine, &request, &stream[2]);
        rn_engine_forget_prefixes(engine);
        const uint64_t before = streams_stats(engine).computed_tokens;
        streams_submit(engine, &request, &stream[0]);
        for (int step = 0; step < 25; step++) streams_step(engine, stream, 1, step, 0);
        const rn_request other = {.prompt = prompt + 7,
                                  .n_prompt = 30,
                                  .max_tokens = 20,
                                  .priority = 1,
                                  .ignore_eos = true};
        streams_submit(engine, &other, &stream[1]);
        streams_drain(engine, stream, 2);
        streams_check_same(&stream[2], &stream[0]);
        assert_int_equal(stream[0].timings.preemptions, 1);
        assert_int_equal(streams_stats(engine).computed_tokens - before, 45 + 59 + 30 + 19);
        rn_engine_destroy(engine);
    }
}

// The next turn leaves out the answer and changes the last tokens of the prompt.
CASE(a_turn_with_another_end_finds_the_checkpoint_before_it) {
    for (int m = 0; m < N_MODELS; m++) {
        for (int n_prompt = 80; n_prompt < 150; n_prompt += 9) {
            rn_engine *engine = streams_engine(models[m], &(rn_engine_options){0});
            rn_request request = request_for(n_prompt, 12);
            streams_run(engine, &request, &stream[0]);
            for (int i = n_prompt - 8; i < n_prompt + 20; i++) prompt[i] = N_VOCAB - 1 - i;
            request.n_prompt = (size_t)n_prompt + 20;
            streams_run(engine, &request, &stream[0]);
            check(stream[0].timings.cached_tokens == (n_prompt - 8) / PAGE * PAGE,
                  "model %d, prompt of %d: %d found", m, n_prompt, stream[0].timings.cached_tokens);
            rn_engine_destroy(engine);
        }
    }
}

// Requests share the first tokens. The second one finds no state there and leaves one.
CASE(requests_that_part_where_others_did_find_a_state_there) {
    enum { SHARED = 140, ALL = 250 };
    rn_engine *engine = streams_engine(models[FAR], &(rn_engine_options){0});
    rn_engine *without = streams_engine(models[FAR], &(rn_engine_options){.no_prefix_cache = true});
    for (int which = 0; which < 5; which++) {
        const rn_request request = request_for(ALL, 9);
        for (int i = SHARED; i < ALL; i++) prompt[i] = (prompt[i] + which * 3) % N_VOCAB;
        streams_run(engine, &request, &stream[0]);
        streams_run(without, &request, &stream[1]);
        streams_check_same(&stream[0], &stream[1]);
        check(stream[0].timings.cached_tokens == (which < 2 ? 0 : SHARED / PAGE * PAGE),
              "request %d: %d found", which, stream[0].timings.cached_tokens);
    }
    rn_engine_destroy(engine);
    rn_engine_destroy(without);
}

// The same prompt four times at once, in chunks: the others wait for the state that the first one
// leaves before its end, and evaluate the rest.
CASE(prompts_wait_for_the_state_that_another_computes) {
    enum { N = 4, ALL = 250 };
    for (int m = 0; m < N_MODELS; m++) {
        rn_engine *engine =
            streams_engine(models[m], &(rn_engine_options){.max_seqs = N, .batch_tokens = 48});
        rn_request request = request_for(ALL, 5);
        for (int i = 0; i < N; i++) streams_submit(engine, &request, &stream[i]);
        streams_drain(engine, stream, N);
        for (int i = 1; i < N; i++) streams_check_same(&stream[0], &stream[i]);
        const int rest = ALL - checkpoint_of(m, ALL) + 4, all = ALL + 4 + (N - 1) * rest;
        check(streams_stats(engine).computed_tokens <= (uint64_t)all, "model %d: %llu, not %d", m,
              (unsigned long long)streams_stats(engine).computed_tokens, all);
        streams_check_empty(engine);
        rn_engine_destroy(engine);
    }
}

// Full groups hold every block, a recurrent one only its state.
CASE(a_stream_holds_one_state) {
    rn_engine *engine = streams_engine(models[EVERY], &(rn_engine_options){.no_prefix_cache = true,
                                                                           .n_threads = 1});
    const rn_request request = request_for(20, 280);
    streams_submit(engine, &request, &stream[0]);
    uint32_t held_max = 0;
    for (int step = 0; streams_step(engine, stream, 1, step, 0); step++) {
        const rn_engine_stats stats = streams_stats(engine);
        if (stats.pages_held > held_max) held_max = stats.pages_held;
        // the step of a draft writes another state, and a snapshot
        assert_in_range(stats.states_held, stats.pages_held > 0, stats.pages_held > 0 ? 3 : 0);
    }
    assert_int_equal(stream[0].n_ids, 280);
    const uint32_t full = (299 + PAGE - 1) / PAGE;
    // a window of 40 touches at most 3 blocks
    check(held_max <= full + 3, "%u pages are held, %u of them full ones", held_max, full);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// Choices part at the prompt's last token, inside a block or at its end.
CASE(choices_share_the_state_of_their_prompt) {
    static struct stream single;
    for (int n_prompt = 62; n_prompt <= 67; n_prompt++)
        for (int way = 0; way < 2 * N_MODELS; way++) {
            const bool no_cache = way % 2;
            rn_engine *engine =
                streams_engine(models[way / 2], &(rn_engine_options){.max_seqs = 4,
                                                                     .n_threads = 1,
                                                                     .no_prefix_cache = no_cache});
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
    rn_engine *engine =
        streams_engine(models[EVERY], &(rn_engine_options){.n_threads = 1, .max_seqs = 4});
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

TEST_PROGRAM(recurrent) { return cases_run(open_models, close_models); }
