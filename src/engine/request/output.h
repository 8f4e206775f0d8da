// The text of one sequence: tokens become characters, stop strings end it and never leak, not even
// their beginning. Owned by a sequence; sized at submit so that the step allocates nothing.
#ifndef RN_ENGINE_REQUEST_OUTPUT_H
#define RN_ENGINE_REQUEST_OUTPUT_H

#include "text/detokenizer.h"

struct output {
    struct detokenizer detok;
    char *text;    // [given out][held: may be the start of a stop string][room for a token's text]
    size_t n_out;  // bytes that were given out since output_begin
    size_t n_held; // bytes behind them that were not
    size_t capacity;
    struct text_span *stop; // owned copies
    size_t n_stop;
    int matched;     // index of the stop string that ended the text; -1: none
    bool keeps_stop; // that string is a part of the text
    size_t n_past;   // held bytes that no stop string ends in: it came too early
    int indent_min;  // blanks that each line after the first must start with; 0: any line may come
    int indent;      // of the last line, while it has nothing else; -1: it has, or is the first
    bool is_outdented; // a line with fewer ended the text
};

// The longest text that a call gives out, with stop strings of up to that many bytes. Room for one
// token, with the bytes before it that were held back: a stop string's start, half a character.
static inline size_t output_token_max(size_t token_bytes_max) { return 3 * (token_bytes_max + 4); }
static inline size_t output_text_max(size_t stop_bytes_max, size_t token_bytes_max) {
    return stop_bytes_max + output_token_max(token_bytes_max);
}

// token_bytes_max: the longest token of the vocabulary; n_tokens: the most that are fed between two
// calls of output_begin. Stops must be valid UTF-8 and not empty.
rn_status output_init(struct output *output, const char *const *stop, size_t n_stop,
                      size_t token_bytes_max, int n_tokens, rn_error *err);
void output_deinit(struct output *output);

// Drops the text that was given out.
void output_begin(struct output *output);

// Adds a token's bytes; returns the text that is now certain (it may be empty, and is valid until
// output_begin). last: no more will come, so nothing is held back. may_stop: a stop string that
// ends in these bytes ends the text. After a match nothing may follow.
struct text_span output_feed(struct output *output, struct text_span bytes, bool may_stop,
                             bool last);

#endif
