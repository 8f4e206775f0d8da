// The longest times between a choice's tokens, with their causes. A choice keeps a few of them; its
// decode span shows them as events.
#ifndef RN_SERVER_OTLP_GAPS_H
#define RN_SERVER_OTLP_GAPS_H

#include "runnel.h"

enum { OTLP_GAPS_KEPT = 4 };

struct otlp_gap {
    uint64_t end_ns; // when the token came, CLOCK_MONOTONIC
    uint64_t ns;
    int token;                         // of the output's: its index
    rn_cause cause;                    // the largest
    uint64_t cause_ns[RN_CAUSE_COUNT]; // the parts; zeros: not known
};

struct otlp_gaps {
    struct otlp_gap gap[OTLP_GAPS_KEPT]; // [n], in the order of time
    int n;
    uint64_t first_ns[RN_CAUSE_COUNT]; // the time to the first token, by its causes; when ended
};

// A token of a choice; `token` is its index.
void otlp_gaps_add(struct otlp_gaps *gaps, const rn_event *event, int token);
// The choice has ended: its account divides its gaps among their causes.
void otlp_gaps_end(struct otlp_gaps *gaps, const rn_account *account);

#endif
