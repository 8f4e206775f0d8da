// Models, requests, and engines on the fake backend beside the same engines on the CPU's, for tests
// of steps in flight and of faults. All engines must give the texts of the CPU's plain engine.
#ifndef RN_TESTS_FLIGHT_WORLD_H
#define RN_TESTS_FLIGHT_WORLD_H

#include "backend/table.h"
#include "bare_engine.h"
#include "fake/fake_backend.h"
#include "mix_toys.h"
#include "recurrent_model.h"
#include "streams.h"

enum { WORLD_VOCAB = 512, WORLD_CTX = 320, WORLD_PAGE = KV_PAGE_TOKENS, WORLD_MOST = 8 };

static rn_model *plain_model, *window_model, *recurrent_model;
static int32_t world_prompt[WORLD_MOST][WORLD_CTX];
static struct stream want[WORLD_MOST], got[WORLD_MOST];

static inline int world_open(void **state) {
    (void)state;
    rn_error err = {0};
    plain_model = bare_open(TEST_DATA "/golden/llama/model.gguf");
    window_model = bare_open(TEST_DATA "/golden/gemma3/model.gguf");
    recurrent_model = calloc(1, sizeof *recurrent_model);
    assert_non_null(recurrent_model);
    if (model_weights_open_vocab(TEST_DATA "/golden/gemma3/model.gguf", &recurrent_model->weights,
                                 &err) ||
        vocab_load(recurrent_model->weights, WORLD_VOCAB, &recurrent_model->tokenizer, NULL,
                   &err) ||
        recurrent_model_init(&recurrent_model->model, WORLD_VOCAB, FORMAT_F32, &err))
        return 1;
    recurrent_model->model.hp.n_ctx = WORLD_CTX;
    bare_fill_info(recurrent_model);
    return 0;
}

static inline int world_close(void **state) {
    (void)state;
    bare_close(plain_model);
    bare_close(window_model);
    recurrent_model_deinit(&recurrent_model->model);
    tokenizer_destroy(recurrent_model->tokenizer);
    weights_close(recurrent_model->weights);
    free(recurrent_model);
    return 0;
}

// A request with a prompt of its own: at most WORLD_MOST differ.
static inline rn_request world_request(int which, int n_prompt, int max_tokens) {
    for (int i = 0; i < n_prompt; i++)
        world_prompt[which][i] = (i * 29 + i * i + 3 + which * 7 + (i == 0) * which) % 256;
    return (rn_request){.prompt = world_prompt[which],
                        .n_prompt = (size_t)n_prompt,
                        .max_tokens = max_tokens,
                        .ignore_eos = true};
}

static inline rn_request world_sampled(int which, int n_prompt, int max_tokens) {
    rn_request request = world_request(which, n_prompt, max_tokens);
    request.sampling.temperature = 0.9f;
    request.sampling.seed = (uint64_t)which + 1;
    return request;
}

// Defaults: one thread, no drafts.
static inline rn_engine *world_engine(const struct backend_class *cls, const rn_model *model,
                                      rn_engine_options options) {
    if (!options.n_threads) options.n_threads = 1;
    if (!options.speculate) options.speculate = "off";
    bare_class = cls;
    rn_engine *engine = streams_engine(model, &options);
    bare_class = NULL;
    return engine;
}

// The results of the requests alone on the CPU: into want, one stream for each choice.
static inline void world_alone(const rn_model *model, const rn_request *request, int n) {
    int at = 0;
    for (int i = 0; i < n; i++) {
        rn_engine *engine =
            world_engine(&backend_cpu, model,
                         (rn_engine_options){.max_seqs = 4, .no_prefix_cache = true});
        const int n_choices = request[i].n ? request[i].n : 1;
        rn_request plain = request[i];
        plain.draft_max = -1;
        streams_submit(engine, &plain, &want[at]);
        streams_drain(engine, &want[at], n_choices);
        at += n_choices;
        rn_engine_destroy(engine);
    }
}

static inline void world_submit(rn_engine *engine, const rn_request *request, int n) {
    for (int i = 0; i < n; i++) streams_submit(engine, &request[i], &got[i]);
}

static inline void world_check_texts(int first, int n) {
    for (int i = first; i < first + n; i++) {
        check(got[i].finish == want[i].finish, "stream %d: finish %d, expected %d", i,
              got[i].finish, want[i].finish);
        streams_check_same(&want[i], &got[i]);
    }
}

// The text so far is a beginning of the whole one, but for a character that was cut off.
static inline void world_check_begins(int i) {
    size_t n_text = got[i].n_text;
    if (n_text >= 3 && memcmp(got[i].text + n_text - 3, "\xef\xbf\xbd", 3) == 0) n_text -= 3;
    assert_true(got[i].n_ids <= want[i].n_ids);
    assert_memory_equal(got[i].ids, want[i].ids, (size_t)got[i].n_ids * sizeof *got[i].ids);
    assert_true(n_text <= want[i].n_text);
    assert_memory_equal(got[i].text, want[i].text, n_text);
}

// A stop string from the stream's text, at `from` or later; "": there is none.
struct world_stop {
    char text[4];
};

static inline struct world_stop world_stop_in(const struct stream *stream, size_t from) {
    struct world_stop stop = {{0}};
    size_t n = 0;
    for (size_t at = from; at < stream->n_text && n < 3; at++) {
        const char c = stream->text[at];
        if (c > 0)
            stop.text[n++] = c;
        else
            n = 0;
    }
    if (n < 3) stop.text[0] = 0;
    return stop;
}

// One step, whose status may be that of a lost device.
static inline rn_status world_step(rn_engine *engine, int n, bool *busy) {
    const rn_status status = rn_engine_step(engine, busy);
    for (rn_event event; rn_engine_next_event(engine, &event);)
        streams_take(streams_find(got, n, &event), &event, 0);
    return status;
}

// A drafter that knows the texts: the request's data is its stream of `want`.
static inline struct toy_truth world_truth(void *data, int choice) {
    const struct stream *stream = (const struct stream *)data + choice;
    const long which = (const struct stream *)data - want;
    return (struct toy_truth){.prompt = world_prompt[which],
                              .n_prompt = stream->timings.prompt_tokens,
                              .ids = stream->ids,
                              .n_ids = stream->n_ids};
}

#endif
