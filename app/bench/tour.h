// The sections of `runnel bench --tour`, and the sentences above their tables. tour.c measures and
// shows; tour_text.c turns rows into sentences, so tests can call it with plain numbers.
#ifndef RN_APP_BENCH_TOUR_H
#define RN_APP_BENCH_TOUR_H

#include "bench/bench.h"

// The point of a section, with its figures in it.
struct tour_says {
    char sentence[2][512];
};

// rows [n] are one section, n is at least 1. Every statement follows from the rows' figures.
void tour_says(const struct row *rows, int n, struct tour_says *out);

// The row up to which each doubling of the streams brought enough tokens/s; n - 1: no knee was
// seen. Rows are in the order of their streams.
int tour_knee(const struct row *rows, int n);

#endif
