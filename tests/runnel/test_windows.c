// Models with sliding windows in mixes. A window's pages are given back when no later position can
// see them. Prefixes are found where the window's part of them is still there. The tokens do not
// change. The reference models' windows are shorter than a page; here the file's number is also
// overwritten with windows that span several pages.
// label: async no-address
#include "data_file.h"
#include "mix.h"
#include "streams.h"

#define N_REQUESTS test_scale(50, 100, 200)
enum { PAGE = 32 };

struct window_model {
    const char *name, *key; // of tests/data/golden, and of the window in its metadata
    uint32_t window;        // 0: the file's own
};

static const struct window_model window_40 = {"gemma3", "gemma3.attention.sliding_window", 40};

// Opens the model from memory, with another window. *bytes is to be freed after the model.
static rn_model *open_with_window(const struct window_model *m, uint8_t **bytes) {
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", m->name);
    const struct data_file file = data_file_read(path);
    *bytes = file.data;
    if (m->window) {
        // the key, a type of 4 bytes, the number
        const size_t n_key = strlen(m->key);
        uint8_t *at = file.data;
        while (memcmp(at, m->key, n_key) != 0)
            assert_true(++at + n_key + 8 < file.data + file.size);
        memcpy(at + n_key + 4, &m->window, sizeof m->window);
    }
    rn_model *model;
    rn_error err;
    check(rn_model_open_memory(m->name, file.data, file.size, &model, &err) == RN_OK, "%s",
          err.message);
    return model;
}

static void run_mixes(const struct window_model *m) {
    uint8_t *bytes;
    rn_model *model = open_with_window(m, &bytes);
    struct mix_cases cases;
    struct mix_totals totals = {0};
    mix_cases_create(&cases, model, "f16", m->window, N_REQUESTS / 2);
    mix_run_many(&cases, m->window, N_REQUESTS, 0, &totals);
    mix_cases_destroy(&cases);
    rn_model_close(model);
    free(bytes);
    mix_print_totals(m->name, &totals);
    check(totals.mismatches == 0, "%s, window %u", m->name, m->window);
    assert_true(MIX_IS_SHORT || (totals.hits > 0 && totals.preemptions > 0));
}

CASE(mixes_give_the_tokens_of_alone_runs) {
    static const struct window_model models[] = {
        {"gemma2", "gemma2.attention.sliding_window", 0},
        {"gemma2", "gemma2.attention.sliding_window", 40},
        {"gemma3", "gemma3.attention.sliding_window", 0},
        {"gemma3", "gemma3.attention.sliding_window", 100},
        {"gptoss", "gpt-oss.attention.sliding_window", 33},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) run_mixes(&models[i]);
}

// A long stream holds all blocks in full groups, and the window's in windowed ones.
CASE(a_window_gives_its_pages_back) {
    uint8_t *bytes;
    rn_model *model = open_with_window(&window_40, &bytes);
    static struct stream stream;
    static int32_t prompt[200];
    for (int i = 0; i < 200; i++) prompt[i] = (i * 7 + 1) % 512;
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.speculate = "off",
                                                                   .batch_tokens = 16,
                                                                   .no_prefix_cache = true});
    const rn_request request = {.prompt = prompt,
                                .n_prompt = 200,
                                .max_tokens = 250,
                                .ignore_eos = true};
    streams_submit(engine, &request, &stream);
    uint32_t held_max = 0, held = 0;
    while (streams_step(engine, &stream, 1, 0, 0)) {
        held = streams_stats(engine).pages_held;
        if (held > held_max) held_max = held;
    }
    assert_int_equal(stream.n_ids, 250);
    // a window of 40 touches at most 3 blocks; a step of 16 may touch one more
    const uint32_t full = (450 + PAGE - 1) / PAGE;
    check(held_max > full && held_max <= full + 4, "%u pages held, full groups hold %u", held_max,
          full);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
    rn_model_close(model);
    free(bytes);
}

#ifndef TEST_ASYNC // it looks at single steps, and results trail by one there
// With the least memory that an engine accepts for its context, a prompt is cut to the pages that
// its windows leave, and the tokens are the same.
CASE(a_prompt_is_cut_to_the_pages_that_there_are) {
    enum { N_CTX = 512, N_PROMPT = 480, BATCH = 256 };
    uint8_t *bytes;
    rn_model *model = open_with_window(&window_40, &bytes);
    static struct stream plenty, least;
    static int32_t prompt[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = (i * 29 + 3) % 512;
    const rn_request request = {.prompt = prompt,
                                .n_prompt = N_PROMPT,
                                .max_tokens = N_CTX - N_PROMPT,
                                .ignore_eos = true};
    rn_engine_options options = {.speculate = "off", .n_ctx = N_CTX, .batch_tokens = BATCH};
    rn_engine *engine = streams_engine(model, &options);
    streams_submit(engine, &request, &plenty);
    const int steps = streams_drain(engine, &plenty, 1);
    rn_engine_destroy(engine);
    rn_status status = RN_ERR_ARG;
    while (status == RN_ERR_ARG) { // the first that holds the context
        options.kv_bytes += 1024;
        status = rn_engine_create(model, &options, &engine, NULL);
    }
    assert_int_equal(status, RN_OK);
    streams_submit(engine, &request, &least);
    assert_true(streams_drain(engine, &least, 1) > steps + 2); // cut smaller than the batch
    streams_check_same(&plenty, &least);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
    rn_model_close(model);
    free(bytes);
}
#endif

// The same prompt again: all that the next position sees of it is there.
CASE(a_prefix_is_found_with_its_window) {
    uint8_t *bytes;
    rn_model *model = open_with_window(&window_40, &bytes);
    static struct stream stream[3];
    static int32_t prompt[300];
    for (int i = 0; i < 300; i++) prompt[i] = (i * 11 + 5) % 512;
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.speculate = "off"});
    rn_request request = {.prompt = prompt, .n_prompt = 300, .max_tokens = 20, .ignore_eos = true};
    for (int i = 0; i < 3; i++) {
        rn_engine_stats before = streams_stats(engine);
        streams_run(engine, &request, &stream[i]);
        streams_check_same(&stream[0], &stream[i]);
        const uint64_t computed = streams_stats(engine).computed_tokens - before.computed_tokens;
        if (i) check(computed <= 300 % PAGE + PAGE + 20, "%d computed", (int)computed);
        if (i) assert_true(stream[i].timings.cached_tokens >= 256);
    }
    rn_engine_destroy(engine);
    rn_model_close(model);
    free(bytes);
}

TEST_PROGRAM(windows) { return cases_run(NULL, NULL); }
