// Llama 4 with chunks of a few pages: a chunk's pages are given back when the next one begins.
// Prefixes are found where the pages of their last chunk are still there. The tokens do not depend
// on the company, on the memory or on how a prompt is cut.
// label: async no-address
#include "mix.h"
#include "model/described.h"
#include "streams.h"

#define N_REQUESTS test_scale(40, 80, 160)
enum { PAGE = 32, CHUNK = 64 };

// The reference model with another chunk. *image is to be freed after the model.
static rn_model *open_with_chunk(uint32_t chunk, uint8_t **image) {
    const struct change change = {.key = "llama4.attention.chunk_size", .value = chunk};
    size_t size;
    rn_model *model;
    rn_error err;
    *image = changed_image("llama4-8192", change, &size);
    check(rn_model_open_memory("llama4", *image, size, &model, &err) == RN_OK, "%s", err.message);
    return model;
}

static void prompt_fill(int32_t *prompt, int n, int step) {
    for (int i = 0; i < n; i++) prompt[i] = (i * step + 3) % 500;
}

CASE(mixes_give_the_tokens_of_alone_runs) {
    static const uint32_t chunks[] = {CHUNK, 40};
    for (int i = 0; i < 2; i++) {
        uint8_t *image;
        rn_model *model = open_with_chunk(chunks[i], &image);
        struct mix_cases cases;
        struct mix_totals totals = {0};
        mix_cases_create(&cases, model, "f16", chunks[i], N_REQUESTS / 2);
        mix_run_many(&cases, chunks[i], N_REQUESTS, 0, &totals);
        mix_cases_destroy(&cases);
        rn_model_close(model);
        free(image);
        mix_print_totals("llama4", &totals);
        check(totals.mismatches == 0, "chunks of %u", chunks[i]);
        assert_true(MIX_IS_SHORT || (totals.hits > 0 && totals.preemptions > 0));
    }
}

// A long stream holds all blocks in the full group, and those of one chunk in the other.
CASE(a_chunk_gives_its_pages_back) {
    uint8_t *image;
    rn_model *model = open_with_chunk(CHUNK, &image);
    static struct stream stream;
    static int32_t prompt[200];
    prompt_fill(prompt, 200, 7);
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.speculate = "off",
                                                                   .batch_tokens = 16,
                                                                   .no_prefix_cache = true});
    const rn_request request = {.prompt = prompt,
                                .n_prompt = 200,
                                .max_tokens = 250,
                                .ignore_eos = true};
    streams_submit(engine, &request, &stream);
    uint32_t held_max = 0;
    while (streams_step(engine, &stream, 1, 0, 0)) {
        const uint32_t held = streams_stats(engine).pages_held;
        if (held > held_max) held_max = held;
    }
    assert_int_equal(stream.n_ids, 250);
    // chunks begin where pages do; a step may touch the next one
    const uint32_t full = (450 + PAGE - 1) / PAGE;
    check(held_max > full && held_max <= full + CHUNK / PAGE + 1, "%u held, full groups hold %u",
          held_max, full);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
    rn_model_close(model);
    free(image);
}

// However a prompt is cut, and whether its start was there before: the same tokens. The second run
// continues inside of a chunk, or where one begins.
static void run_cuts(rn_model *model, const int32_t *prompt, int n, int n_cached) {
    static const int batches[] = {256, 1, 7, 31, 32, 63, 64, 65, 100};
    static struct stream first, stream;
    const rn_request request = {.prompt = prompt,
                                .n_prompt = n,
                                .max_tokens = 20,
                                .ignore_eos = true};
    for (int i = 0; i < (int)(sizeof batches / sizeof *batches); i++) {
        rn_engine *engine = streams_engine(model, &(rn_engine_options){.speculate = "off",
                                                                       .batch_tokens = batches[i]});
        for (int again = 0; again < 2; again++) {
            streams_run(engine, &request, &stream);
            if (i + again == 0) first = stream;
            streams_check_same(&first, &stream);
            check(stream.timings.cached_tokens == again * n_cached, "%d tokens, batches of %d: %d",
                  n, batches[i], stream.timings.cached_tokens);
        }
        streams_check_empty(engine);
        rn_engine_destroy(engine);
    }
}

CASE(ways_of_cutting_a_prompt_do_not_show) {
    uint8_t *image;
    rn_model *model = open_with_chunk(CHUNK, &image);
    static int32_t prompt[300];
    prompt_fill(prompt, 300, 11);
    run_cuts(model, prompt, 300, 288);
    run_cuts(model, prompt, 193, 192);
    rn_model_close(model);
    free(image);
}

TEST_PROGRAM(chunks) { return cases_run(NULL, NULL); }
