// A model whose layers differ (tests/layered_model.h) runs as any other: in mixes, on every
// instruction set, with every kind of KV, and the tokens depend on the request alone.
#include "bare_engine.h"
#include "layered_model.h"
#include "mix.h"
#include "streams.h"

#define N_REQUESTS test_scale(14, 60, 120)
enum { N_VOCAB = 512, N_CTX = 320, N_TOKENS = TEST_IS_SLOW ? 20 : 100 };

static rn_model *model;
static struct layered_model layered;

static int open_model(void **state) {
    (void)state;
    model = bare_open_vocab(N_VOCAB);
    layered_open(&layered, N_VOCAB);
    model->model = layered.model;
    bare_fill_info(model, N_CTX);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    model->has_plan = false; // it is the layered model's
    rn_model_close(model);
    layered_close(&layered);
    return 0;
}

CASE(mixes_give_the_tokens_of_alone_runs) {
    static const char *const types[] = {"f32", "f16", "int8", "int4"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct mix_cases cases;
        struct mix_totals totals = {0};
        mix_cases_create(&cases, model, types[i], 7, N_REQUESTS / 2);
        mix_run_many(&cases, 7, N_REQUESTS, 0, &totals);
        mix_cases_destroy(&cases);
        mix_print_totals(types[i], &totals);
        assert_int_equal(totals.mismatches, 0);
    }
}

// Tuned kernels choose the tokens that the reference kernels choose.
CASE(every_instruction_set_gives_one_text) {
    static struct stream wanted, got;
    static int32_t prompt[200];
    for (int i = 0; i < 200; i++) prompt[i] = (i * 29 + i * i + 3) % N_VOCAB;
    const rn_request request = {.prompt = prompt,
                                .n_prompt = 200,
                                .max_tokens = N_TOKENS,
                                .ignore_eos = true};
    for (int fast = 0; fast < 2; fast++) {
        rn_engine *engine =
            streams_engine(model, &(rn_engine_options){.isa = fast ? NULL : "scalar",
                                                       .n_threads = 1 + fast});
        streams_submit(engine, &request, fast ? &got : &wanted);
        streams_drain(engine, fast ? &got : &wanted, 1);
        rn_engine_destroy(engine);
    }
    assert_int_equal(wanted.n_ids, N_TOKENS);
    streams_check_same(&wanted, &got);
}

TEST_PROGRAM(layers_run) { return cases_run(open_model, close_model); }
