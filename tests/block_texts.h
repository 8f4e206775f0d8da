// Texts of a model with a block that drafts, with and without its drafts.
#ifndef RN_TESTS_BLOCK_TEXTS_H
#define RN_TESTS_BLOCK_TEXTS_H

#include "streams.h"

enum { TEXT_TOKENS = 40, N_TEXTS = 4 };

static inline void block_texts_run(const rn_model *model, const char *speculate,
                                   struct stream *stream, rn_engine_stats *stats) {
    static int32_t prompt[N_TEXTS][120];
    const int n_vocab = rn_model_get_info(model)->n_vocab;
    static const int lengths[N_TEXTS] = {1, 30, 33, 120};
    const rn_engine_options options = {
        .speculate = speculate, .draft_min = 3, .draft_max = 3, .max_seqs = N_TEXTS, .n_ctx = 256};
    rn_engine *engine = streams_engine(model, &options);
    for (int i = 0; i < N_TEXTS; i++) {
        uint32_t seed = (uint32_t)i + 1;
        for (int k = 0; k < lengths[i]; k++) {
            seed = seed * 1664525u + 1013904223u;
            prompt[i][k] = (int32_t)((seed >> 12) % (uint32_t)(n_vocab - 32)) + 8;
        }
        rn_request request = {.prompt = prompt[i],
                              .n_prompt = (size_t)lengths[i],
                              .max_tokens = TEXT_TOKENS,
                              .ignore_eos = true};
        if (i % 2) {
            request.sampling.temperature = 0.8f;
            request.sampling.seed = 3;
            request.sampling.has_seed = true;
        }
        if (i == 0) request.draft_max = -1; // a stream that need not wait for the host
        streams_submit(engine, &request, &stream[i]);
        // requests come one after the other, so their streams are out of step
        for (int step = 0; step < 3; step++) streams_step(engine, stream, i + 1, step, 0);
    }
    streams_drain(engine, stream, N_TEXTS);
    *stats = streams_stats(engine);
    rn_engine_destroy(engine);
}

// Drafts do not change the texts, which are left in `got`. Returns the numbers of drafted tokens.
static inline rn_draft_stats block_texts_check(const rn_model *model, struct stream *got) {
    static struct stream want[N_TEXTS];
    rn_engine_stats stats;
    block_texts_run(model, "off", want, &stats);
    block_texts_run(model, "mtp", got, &stats);
    for (int i = 0; i < N_TEXTS; i++) streams_check_same(&want[i], &got[i]);
    return stats.draft[RN_DRAFTER_MTP];
}

#endif
