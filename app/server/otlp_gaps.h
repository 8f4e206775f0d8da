// The longest times between a choice's tokens, with their causes. A choice keeps a few of them; its
// decode span shows them as events.
#ifndef RN_SERVER_OTLP_GAPS_H
#define RN_SERVER_OTLP_GAPS_H

#include "runnel.h"

enum { OTLP_GAPS_KEPT = 4 };

struct otlp_gap {
    uint64_t end_ns; // when the token came, CLOCK_MONOTONIC
    double ms;
    int token; // of the output's: its index
    rn_gap cause;
};

struct otlp_gaps {
    struct otlp_gap gap[OTLP_GAPS_KEPT]; // [n], in the order of time
    int n;
};

// A token of a choice; `token` is its index.
void otlp_gaps_add(struct otlp_gaps *gaps, const rn_event *event, int token);

#endif
