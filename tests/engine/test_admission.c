// Admission where memory is short: a sequence that waits for pages starts as soon as there is room
// for it, whatever made the room. No other sequence has to come or to end for that.
// label: threads
#include "bare_engine.h"
#include "data_file.h"
#include "fake/fake_backend.h"
#include "streams.h"

enum { CTX = 512, VOCAB = 512, PAGE = KV_PAGE_TOKENS, CHUNK = 256 };

static int32_t prompt[CTX];

static int fill_prompt(void **state) {
    (void)state;
    for (int i = 0; i < CTX; i++) prompt[i] = 3 + (i * 29 + i * i * 7) % 200;
    return 0;
}

static rn_request request_of(int n_prompt, int max_tokens) {
    return (rn_request){.prompt = prompt,
                        .n_prompt = (size_t)n_prompt,
                        .max_tokens = max_tokens,
                        .ignore_eos = true};
}

// The first one runs a step before the second comes, and writes for much longer than that one.
static void run_two(rn_engine *engine, const rn_request *first, const rn_request *second) {
    static struct stream s[2];
    streams_submit(engine, first, &s[0]);
    streams_step(engine, s, 1, 0, 0);
    streams_submit(engine, second, &s[1]);
    streams_step(engine, s, 2, 1, 0);
    assert_int_equal(streams_stats(engine).waiting, 1);
    for (int step = 2; streams_step(engine, s, 2, step, 0);) step++;
    assert_int_equal(s[1].n_ids, second->max_tokens);
    check(s[1].last_step < s[0].last_step / 2, "it ends in step %d, the other one in %d",
          s[1].last_step, s[0].last_step);
    assert_int_equal(streams_stats(engine).preemptions, 0);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

// A prompt holds the checkpoints of its last chunk until it goes on.
CASE(checkpoints_that_a_prompt_has_passed_make_room) {
    enum { BLOCK = 8192, STATE = 15 * 1068 };
    rn_model *model = bare_open_states(VOCAB, CTX, BARE_STATES(2));
    const rn_request first = request_of(256, 200), second = request_of(10, 5);
    // while it has five states, there is no room for another prompt's and for its own next page
    const rn_engine_options options = {.max_seqs = 4,
                                       .batch_tokens = 256,
                                       .n_ctx = CTX,
                                       .kv_bytes = 9 * BLOCK + 5 * STATE + 3 * (BLOCK + STATE) / 2,
                                       .speculate = "off"};
    run_two(streams_engine(model, &options), &first, &second);
    rn_model_close(model);
}

// A prompt needs the pages of a chunk beside those of its window, a stream does not.
CASE(a_window_that_needs_no_more_chunks_makes_room) {
    enum { FEW = 128 };
    rn_model *model = bare_open(TEST_DATA "/golden/gemma3/model.gguf");
    const rn_request first = request_of(256, 60), second = request_of(10, 5);
    rn_engine_options options = {.max_seqs = 4,
                                 .batch_tokens = FEW,
                                 .n_ctx = 256 + 60,
                                 .no_prefix_cache = true,
                                 .speculate = "off"};
    rn_engine *engine = streams_engine(model, &options);
    const struct kv_config *config = &engine->engine.kv_config;
    options.kv_bytes = kv_need(config, 256 + 1, FEW) + kv_need(config, 10 + 1, 10 + 1) - 1;
    rn_engine_destroy(engine);
    run_two(streams_engine(model, &options), &first, &second);
    rn_model_close(model);
}

// Blocks that a prompt has evaluated are blocks that the next one need not have room for.
CASE(a_prompt_that_others_share_makes_room) {
    rn_model *model = bare_open(TEST_DATA "/golden/llama/model.gguf");
    const rn_request first = request_of(6 * PAGE, 60), second = request_of(6 * PAGE, 5);
    const rn_engine_options options = {.max_seqs = 4,
                                       .batch_tokens = 2 * PAGE,
                                       .n_ctx = 11 * PAGE,
                                       .kv_pages = 11,
                                       .speculate = "off"};
    run_two(streams_engine(model, &options), &first, &second);
    rn_model_close(model);
}

// ---------------------------------------------------------------- memory of each group's own

// The number behind a key of a file's metadata.
static void set_number(const struct data_file *file, const char *key, uint32_t number) {
    const size_t n_key = strlen(key), type = 4;
    uint8_t *at = file->data;
    while (memcmp(at, key, n_key) != 0)
        assert_true(++at + n_key + type + sizeof number < file->data + file->size);
    memcpy(at + n_key + type, &number, sizeof number);
}

// A model whose windows have that many positions.
static rn_model *open_windows(struct data_file *file, uint32_t window, uint32_t longest) {
    rn_model *model;
    rn_error err = {0};
    *file = data_file_read(TEST_DATA "/golden/gemma3/model.gguf");
    set_number(file, "gemma3.attention.sliding_window", window);
    set_number(file, "gemma3.context_length", longest);
    check(!rn_model_open_memory("gemma3", file->data, file->size, &model, &err), "%s", err.message);
    return model;
}

// An engine on a device, with memory for that many texts of n_ctx positions.
static rn_engine *device_engine(const rn_model *model, rn_engine_options options, int contexts) {
    rn_engine *engine = streams_engine(model, &options);
    const struct engine *inside = &engine->engine;
    options.kv_bytes =
        (uint64_t)contexts * kv_need(&inside->kv_config, inside->n_ctx, contexts > 1 ? CHUNK : 1);
    rn_engine_destroy(engine);
    bare_class = &backend_fake;
    engine = streams_engine(model, &options);
    bare_class = NULL;
    return engine;
}

// The memory is divided for long texts, so many short ones fill that of the windows alone. As many
// run as it has pages for. The others wait: they would only take each other's pages.
CASE(a_group_without_pages_admits_nobody) {
    enum { LONGEST = 16384, WINDOW = 512, CONTEXTS = 3, N = 40, PROMPT = 200 };
    static struct stream s[N];
    static int32_t own[N][PROMPT];
    struct data_file file;
    rn_model *model = open_windows(&file, WINDOW, LONGEST);
    rn_engine *engine = device_engine(
        model, (rn_engine_options){.max_seqs = 32, .batch_tokens = CHUNK, .speculate = "off"},
        CONTEXTS);
    const struct kv_config *config = &engine->engine.kv_config;
    assert_true(config->group[1].kind == KV_WINDOW && config->group[1].max_pages < 100);
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < PROMPT; k++) own[i][k] = 3 + (i * 31 + k * 7 + i * k) % 200;
        rn_request request = request_of(PROMPT, 100);
        request.prompt = own[i];
        streams_submit(engine, &request, &s[i]);
    }
    streams_drain(engine, s, N);
    for (int i = 0; i < N; i++) assert_int_equal(s[i].n_ids, 100);
    const int preemptions = (int)streams_stats(engine).preemptions;
    check(preemptions < N, "%d preemptions of %d sequences", preemptions, N);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
    rn_model_close(model);
    free(file.data);
}

// Of the windows' 17 pages a stream has ten, and another text takes seven. A stream that writes on
// needs its next page, so the other one waits. Where it ends in its last page both run.
CASE(a_stream_is_promised_its_next_page_of_a_group) {
    enum { LONGEST = 1024, WINDOW = 512 };
    static const int n_output[] = {40, 18}, n_other[] = {30, 1};
    struct data_file file;
    rn_model *model = open_windows(&file, WINDOW, LONGEST);
    for (int i = 0; i < 2; i++) {
        static struct stream s[2];
        rn_engine *engine = device_engine(model,
                                          (rn_engine_options){.max_seqs = 2,
                                                              .batch_tokens = CHUNK,
                                                              .n_ctx = LONGEST,
                                                              .no_prefix_cache = true,
                                                              .speculate = "off"},
                                          1);
        assert_int_equal(engine->engine.kv_config.group[1].max_pages, 17);
        const rn_request first = request_of(300, n_output[i]);
        const rn_request second = request_of(223, n_other[i]);
        streams_submit(engine, &first, &s[0]);
        while (s[0].n_ids == 0) streams_step(engine, s, 1, 0, 0);
        streams_submit(engine, &second, &s[1]);
        for (int step = 1; streams_step(engine, s, 2, step, 0);) step++;
        assert_true(s[0].n_ids == n_output[i] && s[1].n_ids == n_other[i]);
        check((s[1].last_step < s[0].last_step) == (i == 1), "it ends in step %d, the stream in %d",
              s[1].last_step, s[0].last_step);
        assert_int_equal(streams_stats(engine).preemptions, 0);
        streams_check_empty(engine);
        rn_engine_destroy(engine);
    }
    rn_model_close(model);
    free(file.data);
}

// Short texts need a page of states each, and no checkpoint. So as many run as there are pages.
CASE(a_short_text_needs_one_page_of_states) {
    enum { MOST = 32 };
    static struct stream s[MOST];
    rn_model *model = bare_open_states(VOCAB, CTX, BARE_STATES(2));
    rn_engine *engine = device_engine(model,
                                      (rn_engine_options){.max_seqs = MOST,
                                                          .batch_tokens = CHUNK,
                                                          .n_ctx = CTX,
                                                          .no_prefix_cache = true,
                                                          .speculate = "off"},
                                      1);
    const struct engine *inside = &engine->engine;
    int n = 0;
    for (int g = 0; g < inside->kv_config.n_group; g++)
        if (inside->kv_config.group[g].kind == KV_RECURRENT)
            n = (int)inside->kv_config.group[g].max_pages;
    check(n > 1 && n < MOST, "%d pages of states", n);
    const rn_request request = request_of(10, 10);
    for (int i = 0; i < n + 1; i++) streams_submit(engine, &request, &s[i]);
    streams_step(engine, s, n + 1, 0, 0);
    assert_int_equal(inside->n_running, n);
    streams_drain(engine, s, n + 1);
    for (int i = 0; i < n + 1; i++) assert_int_equal(s[i].n_ids, 10);
    assert_int_equal(streams_stats(engine).preemptions, 0);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
    rn_model_close(model);
}

// ---------------------------------------------------------------- places of lower priority

// The rest of a long prompt is promised to it. It makes way with that, so nobody else has to.
CASE(a_sequence_that_makes_way_gives_its_promise_back) {
    enum { KEPT, LOW, LONG, HIGH, N };
    static const rn_request request[N] = {
        {.n_prompt = 10, .max_tokens = 60, .priority = 1},
        {.n_prompt = 10, .max_tokens = 60},
        {.n_prompt = 300, .max_tokens = 5}, // ten pages
        {.n_prompt = 140, .max_tokens = 5, .priority = 1},
    };
    static struct stream s[N];
    rn_model *model = bare_open(TEST_DATA "/golden/llama/model.gguf");
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = N,
                                                                   .batch_tokens = 2 * PAGE,
                                                                   .n_ctx = 15 * PAGE,
                                                                   .kv_pages = 15,
                                                                   .no_prefix_cache = true,
                                                                   .speculate = "off"});
    for (int i = 0; i < N; i++) {
        rn_request own = request[i];
        own.prompt = prompt;
        own.ignore_eos = true;
        if (i == HIGH) streams_step(engine, s, i, 0, 0);
        streams_submit(engine, &own, &s[i]);
    }
    assert_int_equal(engine->engine.n_running, HIGH);
    streams_step(engine, s, N, 1, 0);
    assert_int_equal(engine->engine.n_running, N - 1);
    assert_int_equal(engine->engine.running[1]->id, s[HIGH].id);
    for (int step = 2; streams_step(engine, s, N, step, 0);) step++;
    for (int i = 0; i < N; i++) {
        check(s[i].timings.preemptions == (i == LONG), "%d: %d preemptions", i,
              s[i].timings.preemptions);
        assert_int_equal(s[i].n_ids, request[i].max_tokens);
    }
    streams_check_empty(engine);
    rn_engine_destroy(engine);
    rn_model_close(model);
}

TEST_PROGRAM(admission) { return cases_run(fill_prompt, NULL); }
