// SplitMix64 and the distributions on top of it.
#include "load/draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t draw_next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double draw_unit(uint64_t *state) { return (double)(draw_next(state) >> 11) * 0x1p-53; }

uint64_t draw_seed(uint64_t seed, uint64_t a, uint64_t b) {
    uint64_t state = seed;
    state = draw_next(&state) ^ a;
    state = draw_next(&state) ^ b;
    return draw_next(&state);
}

double draw_gap(double rate, bool poisson, uint64_t *state) {
    return poisson ? -log1p(-draw_unit(state)) / rate : 1 / rate;
}

// ---------------------------------------------------------------- lengths

// A number from `least` on, which ends at `end`; NULL: there is none.
static const char *number_take(const char *text, double least, char end, double *out) {
    if (*text < '0' || *text > '9') return NULL;
    char *rest = NULL;
    *out = strtod(text, &rest);
    const size_t plain = strspn(text, "0123456789.");
    if (rest != text + plain || *rest != end || !(*out >= least) || !(*out <= LENGTH_MAX))
        return NULL;
    return rest + (end != '\0');
}

bool dist_parse(const char *text, struct dist *out) {
    static const char *const names[] = {[DIST_NORMAL] = "normal:", [DIST_LOGNORMAL] = "lognormal:"};
    for (int kind = DIST_NORMAL; kind <= DIST_LOGNORMAL; kind++) {
        const size_t len = strlen(names[kind]);
        if (strncmp(text, names[kind], len) != 0) continue;
        out->kind = (enum dist_kind)kind;
        const char *at = number_take(text + len, 1, ':', &out->a);
        return at && number_take(at, 0, '\0', &out->b);
    }
    if (strchr(text, '.')) return false; // no part of a token
    out->kind = DIST_FIXED;
    out->b = 0;
    if (number_take(text, 1, '\0', &out->a)) return true;
    out->kind = DIST_UNIFORM;
    const char *at = number_take(text, 1, '-', &out->a);
    return at && number_take(at, out->a, '\0', &out->b);
}

// Of the standard normal distribution (Box and Muller).
static double draw_normal(uint64_t *state) {
    const double u = 1 - draw_unit(state), v = draw_unit(state);
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

static double length_draw(const struct dist *dist, uint64_t *state) {
    switch (dist->kind) {
    case DIST_UNIFORM:
        return dist->a + floor(draw_unit(state) * (dist->b - dist->a + 1));
    case DIST_NORMAL:
        return dist->a + dist->b * draw_normal(state);
    case DIST_LOGNORMAL: {
        const double variance = log1p(dist->b * dist->b / (dist->a * dist->a));
        return exp(log(dist->a) - variance / 2 + sqrt(variance) * draw_normal(state));
    }
    default:
        return dist->a;
    }
}

int dist_draw(const struct dist *dist, uint64_t *state) {
    const double length = round(length_draw(dist, state));
    return (int)fmin(fmax(length, 1), LENGTH_MAX);
}
