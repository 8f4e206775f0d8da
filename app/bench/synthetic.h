// A model of random weights for commands that know nothing else of the benchmarks (serve).
#ifndef RN_APP_BENCH_SYNTHETIC_H
#define RN_APP_BENCH_SYNTHETIC_H

#include "runnel.h"

// spec: SHAPE:FORMAT, as --synthetic takes it.
rn_status synthetic_open(const char *spec, rn_model **out, rn_error *err);

#endif
