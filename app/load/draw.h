// Random numbers of a load: lengths of prompts and answers, and times between arrivals. All of them
// follow from the seed, so a run can be repeated.
#ifndef RN_APP_LOAD_DRAW_H
#define RN_APP_LOAD_DRAW_H

#include <stdbool.h>
#include <stdint.h>

enum { LENGTH_MAX = 1 << 24 }; // tokens

enum dist_kind { DIST_FIXED, DIST_UNIFORM, DIST_NORMAL, DIST_LOGNORMAL };

// FIXED: always a. UNIFORM: from a to b, both included. The others: mean a, standard deviation b.
struct dist {
    enum dist_kind kind;
    double a, b;
};

// "128", "64-256", "normal:128:32", "lognormal:128:64". False: the text is none of these.
bool dist_parse(const char *text, struct dist *out);
// A length of at least 1.
int dist_draw(const struct dist *dist, uint64_t *state);

uint64_t draw_next(uint64_t *state);                       // 64 random bits
double draw_unit(uint64_t *state);                         // from 0 to below 1
uint64_t draw_seed(uint64_t seed, uint64_t a, uint64_t b); // of an independent sequence
// Seconds to the next arrival at `rate` a second: always the same, or of a Poisson process.
double draw_gap(double rate, bool poisson, uint64_t *state);

#endif
