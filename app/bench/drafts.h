// The requests of `runnel bench --speculate`: prompts, forced texts, and a drafter that knows the
// text. drafts_text.c makes them, measure_drafts.c uses them.
#ifndef RN_APP_BENCH_DRAFTS_H
#define RN_APP_BENCH_DRAFTS_H

#include "bench/crowd.h"

// The requests that all rows of a model share, and their texts without drafts.
struct drafts_text {
    const rn_model *model;
    int n_streams;    // most at a time; there are as many prompts again, for others' requests
    int32_t **prompt; // [2 * n_streams]
    int *n_prompt;
    int32_t *forced; // [n_forced] is written over and over; NULL: the model writes
    int n_forced;
    int n_gen;
    int n_temperatures;
    int32_t *known; // [n_temperatures][n_streams][n_gen]
    bool *is_known; // [n_temperatures]
};

// On failure the error has been printed and the exit code is returned.
int drafts_text_init(struct drafts_text *text, const struct bench_place *place);
void drafts_text_deinit(struct drafts_text *text);
int drafts_text_positions(const struct drafts_text *text); // of the longest request
int32_t *drafts_text_known(const struct drafts_text *text, int temperature, int stream);

// How far a request's forced text is.
struct drafts_forced {
    const int32_t *token; // [n]
    int n, at;
};
rn_constraint drafts_forced_constraint(struct drafts_forced *forced);

// A drafter that has read the texts: right with a probability, else wrong; it costs nothing.
struct drafts_oracle {
    const struct drafts_text *text;
    const struct crowd_stream *first; // of the streams at hand
    int temperature;                  // index of theirs
    double acceptance;
    uint64_t round; // other tokens are wrong in another one
};
int drafts_oracle_draft(void *oracle, void *stream, int choice, const int32_t *token, int n_token,
                        int32_t *out, int most); // an rn_draft_fn

#endif
