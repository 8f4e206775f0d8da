// Drafts do not change a text. Requests of every kind, in mixes with others, give the same results
// as alone and without drafts, for all drafters and lengths of drafts. The invariants of the engine
// are tested after every step. test_speculation_long.c has more.
// label: async-long no-address
#include "speculation_ways.h"

static void run(rn_model *model, const rn_model *draft, struct mix_text text, uint64_t seed,
                int n_cases, int n_requests, int first, int stride) {
    struct mix_cases cases;
    mix_cases_create_from(&cases, model, "f16", text, seed, n_cases / test_scale(4, 3, 2));
    ways_run(&cases, draft ? draft : model, KIN_SELF, seed, n_requests, first, stride);
    mix_cases_destroy(&cases);
}

CASE(drafts_do_not_show_in_stories) {
    rn_model *model = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    struct token_list story = story_read(model);
    run(model, NULL, (struct mix_text){story.id, (int)story.count}, 11, 250, 40, 0, 1);
    token_list_deinit(&story);
    rn_model_close(model);
}

// Its own weights in another format; test_speculation_long.c has a smaller model.
CASE(drafts_do_not_show_with_a_relative) {
    rn_model *model = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    rn_model *draft = bare_open(MODELS_DIR "/tale-1m-q8_0.gguf");
    struct token_list story = story_read(model);
    run(model, draft, (struct mix_text){story.id, (int)story.count}, 13, 60, 40, 2, 9);
    token_list_deinit(&story);
    rn_model_close(draft);
    rn_model_close(model);
}

// States go back, and windows have given nothing away that is still seen.
CASE(drafts_do_not_show_in_recurrent_states) {
    rn_model *model = bare_open_recurrent(512, 320);
    int32_t noise[2000];
    run(model, NULL, noise_fill(noise, 2000, model->info.n_vocab), 15, 100, 40, 0, 1);
    rn_model_close(model);
}

CASE(drafts_do_not_show_with_windows_and_experts) {
    rn_model *model = bare_open(TEST_DATA "/golden/gptoss/model.gguf");
    int32_t noise[2000];
    run(model, NULL, noise_fill(noise, 2000, model->info.n_vocab), 14, 100, 40, 1, 2);
    rn_model_close(model);
}

static struct toy_truth truth_of(void *data, int choice) {
    (void)choice;
    return *(const struct toy_truth *)data;
}

// One request; returns the steps that it took.
static int run_greedy(const rn_model *model, const rn_engine_options *options, rn_request *request,
                      int32_t *ids, rn_engine_stats *stats) {
    rn_engine *engine;
    rn_error err = {0};
    uint64_t id;
    int n = 0;
    check(rn_engine_create(model, options, &engine, &err) == RN_OK, "%s", err.message);
    check(rn_engine_submit(engine, request, &id, &err) == RN_OK, "%s", err.message);
    for (bool busy = true; busy;) {
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);)
            if (event.token >= 0) ids[n++] = event.token;
    }
    assert_int_equal(n, request->max_tokens);
    rn_engine_get_stats(engine, stats);
    rn_engine_destroy(engine);
    return (int)stats->steps;
}

CASE(a_right_draft_of_n_tokens_saves_n_steps) {
    enum { N_PROMPT = 20, N_OUTPUT = 97 };
    static const int lengths[] = {1, 3, 15, 31};
    rn_model *model = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    struct token_list story = story_read(model);
    int32_t ids[N_OUTPUT], again[N_OUTPUT];
    rn_engine_stats stats;
    rn_request request = {.prompt = story.id,
                          .n_prompt = N_PROMPT,
                          .max_tokens = N_OUTPUT,
                          .ignore_eos = true};
    const rn_engine_options without = {.speculate = "off", .n_threads = 1};
    assert_int_equal(run_greedy(model, &without, &request, ids, &stats), N_OUTPUT);
    struct toy_truth truth = {story.id, ids, N_PROMPT, N_OUTPUT};
    request.data = &truth;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int n = lengths[i];
        struct toy_drafter toy = {truth_of, 100, model->info.n_vocab, 1, 0, 0};
        const rn_engine_options options = {.speculate = "custom",
                                           .n_threads = 1,
                                           .draft_fn = toy_draft,
                                           .draft_ctx = &toy,
                                           .draft_min = n,
                                           .draft_max = n};
        // the prompt's step gives a token, each other one n + 1
        assert_int_equal(run_greedy(model, &options, &request, again, &stats),
                         1 + (N_OUTPUT - 1) / (n + 1));
        assert_memory_equal(ids, again, sizeof ids);
        assert_int_equal(stats.accepted_at[n - 1], (N_OUTPUT - 1) / (n + 1));
        assert_int_equal(stats.computed_tokens, N_PROMPT + N_OUTPUT - 1); // drafts too
    }
    token_list_deinit(&story);
    rn_model_close(model);
}

TEST_PROGRAM(speculation) { return cases_run(NULL, NULL); }
