// The times between a choice's tokens, without tokens of the same step, in buckets of about 4%.
// They give percentiles in little memory for any length of text.
#ifndef RN_SERVER_GAPS_H
#define RN_SERVER_GAPS_H

#include <stdint.h>

enum { GAPS_PER_OCTAVE = 16, GAPS_OCTAVES = 30, GAPS_BUCKETS = GAPS_PER_OCTAVE * GAPS_OCTAVES };

struct gaps {
    uint32_t total;
    uint32_t *count; // [GAPS_BUCKETS] from 1 microsecond on; NULL until the first
};

void gaps_deinit(struct gaps *gaps);
void gaps_add(struct gaps *gaps, double ms);                   // lost where memory runs out
double gaps_percentile(const struct gaps *gaps, double share); // ms; NaN: none

#endif
