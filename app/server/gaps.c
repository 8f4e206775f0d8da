// Buckets of a sixteenth of an octave, from 1 microsecond on.
#include "gaps.h"

#include <math.h>
#include <stdlib.h>

void gaps_deinit(struct gaps *gaps) {
    free(gaps->count);
    *gaps = (struct gaps){0};
}

static int bucket_of(double ms) {
    const double octaves = log2(ms * 1e3);
    if (!(octaves > 0)) return 0;
    const int bucket = (int)(octaves * GAPS_PER_OCTAVE);
    return bucket < GAPS_BUCKETS ? bucket : GAPS_BUCKETS - 1;
}

void gaps_add(struct gaps *gaps, double ms) {
    if (!gaps->count) gaps->count = calloc(GAPS_BUCKETS, sizeof *gaps->count);
    if (!gaps->count) return;
    gaps->count[bucket_of(ms)]++;
    gaps->total++;
}

double gaps_percentile(const struct gaps *gaps, double share) {
    if (!gaps->total) return (double)NAN;
    const double wanted = share * (double)gaps->total;
    double before = 0;
    int bucket = 0;
    while (bucket < GAPS_BUCKETS - 1 && before + (double)gaps->count[bucket] < wanted) {
        before += (double)gaps->count[bucket++];
    }
    const double inside = gaps->count[bucket] ? (wanted - before) / (double)gaps->count[bucket] : 0;
    return exp2(((double)bucket + inside) / GAPS_PER_OCTAVE) * 1e-3;
}
