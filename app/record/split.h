// A time divided among its causes, in whole units that add up to the rounded total: the numbers of
// a sentence, a table or a bar agree with each other.
#ifndef RN_RECORD_SPLIT_H
#define RN_RECORD_SPLIT_H

#include "runnel.h"

struct split_part {
    rn_cause cause;
    uint64_t ns;
    uint64_t units; // the largest remainders were rounded up
};

struct split {
    struct split_part part[RN_CAUSE_COUNT]; // the largest first; causes without time are left out
    int n;
    uint64_t units; // of all parts
};

// Units of unit_ns each.
void split_time(struct split *out, const rn_share *share, uint64_t unit_ns);
// Percents: 100 units, or none where no time passed.
void split_percent(struct split *out, const rn_share *share);

// Below 0.5% of the whole: such parts are not named but added up as "other".
bool split_is_tiny(uint64_t ns, uint64_t whole_ns);

// How times of about this size are written: "812 ms", "12.3 ms", "0.45 ms", "10.20 s".
struct split_scale {
    uint64_t unit_ns;
    const char *unit;
    int digits; // after the point
};
struct split_scale split_scale(uint64_t total_ns);
enum { SPLIT_TEXT_BYTES = 48 };
// "1,812 ms" of that many units.
const char *split_text(const struct split_scale *scale, uint64_t units, char out[SPLIT_TEXT_BYTES]);
// "12,345".
const char *split_count(uint64_t value, char out[SPLIT_TEXT_BYTES]);

#endif
