// Recorded arrivals in Mooncake's format: a JSON object per line with timestamp (ms), input_length,
// output_length (tokens) and hash_ids. An id names a block of 512 tokens of the prompt: equal ids
// mean equal text, so a prefix cache works as it did when the trace was recorded.
#ifndef RN_APP_LOAD_ARRIVALS_H
#define RN_APP_LOAD_ARRIVALS_H

#include <stdint.h>

#include "app.h"

enum { ARRIVALS_BLOCK = 512 };

struct arrival {
    double at_s;
    int input, output; // tokens
    int first_block;   // of the trace's blocks
    int n_blocks;
};

struct arrivals {
    struct arrival *item; // [n], by time
    int n;
    int64_t *block; // [n_blocks]
    int n_blocks;
};

// On failure the error has been printed, with the file's name and the line, and the exit code is
// returned.
int arrivals_read(const char *path, struct arrivals *out);
// The same from a text.
int arrivals_parse(const char *name, const char *text, size_t len, struct arrivals *out);
void arrivals_free(struct arrivals *arrivals);

#endif
