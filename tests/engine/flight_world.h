// Models, requests, and engines on the fake backend beside the same engines on the CPU's, for tests
// of steps in flight and of faults. All engines must give the texts of the CPU's plain engine.
#ifndef RN_TESTS_FLIGHT_WORLD_H
#define RN_TESTS_FLIGHT_WORLD_H

#include "backend/table.h"
#include "bare_engine.h"
#include "fake/fake_backend.h"
#include "mix_toys.h"
#include "streams.h"

enum { WORLD_VOCAB = 512, WORLD_CTX = 320, WORLD_PAGE = KV_PAGE_TOKENS, WORLD_MOST = 8 };

enum { PLAIN, WINDOW, RECURRENT, N_KINDS, STORY = N_KINDS, N_MODELS }; // story: a trained one

static rn_model *world_model[N_MODELS];
static rn_engine *world_cpu[N_MODELS]; // of world_alone; NULL: not yet
static int32_t world_prompt[WORLD_MOST][WORLD_CTX];
static struct stream want[WORLD_MOST], got[WORLD_MOST];

static inline int world_open(void **state) {
    (void)state;
    world_model[PLAIN] = bare_open(TEST_DATA "/golden/llama/model.gguf");
    world_model[WINDOW] = bare_open(TEST_DATA "/golden/gemma3/model.gguf");
    world_model[RECURRENT] = bare_open_states(WORLD_VOCAB, WORLD_CTX, BARE_STATES(2));
    world_model[STORY] = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    return 0;
}

static inline int world_close(void **state) {
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        rn_engine_destroy(world_cpu[i]);
        rn_model_close(world_model[i]);
    }
    return 0;
}

// A request with a prompt of its own: at most WORLD_MOST differ.
static inline rn_request world_request(int which, int n_prompt, int max_tokens) {
    for (int i = 0; i < n_prompt; i++)
        world_prompt[which][i] = (i * 29 + i * i + 3 + which * 7 + (i == 0) * which) % 256;
    return (rn_request){.prompt = world_prompt[which],
                        .n_prompt = (size_t)n_prompt,
                        .max_tokens = max_tokens,
                        .prompt_only = max_tokens == 0,
                        .ignore_eos = true};
}

static inline rn_request world_sampled(int which, int n_prompt, int max_tokens) {
    rn_request request = world_request(which, n_prompt, max_tokens);
    request.sampling.temperature = 0.9f;
    request.sampling.seed = (uint64_t)which + 1;
    return request;
}

// Defaults: one thread, no drafts.
static inline rn_engine *world_engine_on(const struct backend_class *cls, int model,
                                         rn_engine_options options) {
    if (!options.n_threads) options.n_threads = 1;
    if (!options.speculate) options.speculate = "off";
    bare_class = cls;
    rn_engine *engine = streams_engine(world_model[model], &options);
    bare_class = NULL;
    return engine;
}

static inline rn_engine *world_engine(int model, rn_engine_options options) {
    return world_engine_on(&backend_fake, model, options);
}

// The results of the requests alone on the CPU: into want, one stream for each choice.
static inline void world_alone(int model, const rn_request *request, int n) {
    int at = 0;
    if (!world_cpu[model])
        world_cpu[model] =
            world_engine_on(&backend_cpu, model,
                            (rn_engine_options){.max_seqs = 4, .no_prefix_cache = true});
    for (int i = 0; i < n; i++) {
        const int n_choices = request[i].n ? request[i].n : 1;
        streams_submit(world_cpu[model], &request[i], &want[at]);
        streams_drain(world_cpu[model], &want[at], n_choices);
        at += n_choices;
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

// Until all have ended: their texts are those of the CPU, nothing is held, and the engine goes.
static inline void world_end(rn_engine *engine, int n) {
    streams_drain(engine, got, n);
    world_check_texts(0, n);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
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

static inline void world_steps(rn_engine *engine, int n, int n_steps) {
    for (bool busy; n_steps > 0; n_steps--) assert_int_equal(world_step(engine, n, &busy), RN_OK);
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

// Options of an engine that tries drafts of n tokens, of which `right` percent are right.
static inline rn_engine_options world_drafts(int max_seqs, int n, int right) {
    static struct toy_drafter drafter;
    drafter = (struct toy_drafter){.truth = world_truth, .right = right, .n_vocab = WORLD_VOCAB};
    return (rn_engine_options){.max_seqs = max_seqs,
                               .speculate = "custom",
                               .draft_fn = toy_draft,
                               .draft_ctx = &drafter,
                               .draft_min = n,
                               .draft_max = n};
}

#endif
