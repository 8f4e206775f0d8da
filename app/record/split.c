// Rounding with a fixed sum: every part is rounded down, and the units that are then missing go to
// the parts with the largest remainders.
#include "record/split.h"

#include <stdio.h>
#include <string.h>

static void parts_take(struct split *out, const rn_share *share) {
    *out = (struct split){0};
    for (int i = 0; i < RN_CAUSE_COUNT; i++) {
        if (!share->cause_ns[i]) continue;
        int at = out->n++;
        for (; at > 0 && out->part[at - 1].ns < share->cause_ns[i]; at--)
            out->part[at] = out->part[at - 1];
        out->part[at] = (struct split_part){.cause = (rn_cause)i, .ns = share->cause_ns[i]};
    }
}

// Returns the units that the parts have together: `units`, or more where a share's parts are more
// than its sum.
static uint64_t parts_round(struct split *out, long double units_per_ns, uint64_t units) {
    long double rest[RN_CAUSE_COUNT];
    uint64_t given = 0;
    for (int i = 0; i < out->n; i++) {
        const long double exact = (long double)out->part[i].ns * units_per_ns;
        out->part[i].units = (uint64_t)exact;
        rest[i] = exact - (long double)out->part[i].units;
        given += out->part[i].units;
    }
    while (given < units) {
        int largest = 0;
        for (int i = 1; i < out->n; i++)
            if (rest[i] > rest[largest]) largest = i;
        out->part[largest].units++;
        rest[largest] = -1;
        given++;
    }
    return given;
}

void split_time(struct split *out, const rn_share *share, uint64_t unit_ns) {
    parts_take(out, share);
    if (!out->n) return;
    const uint64_t units = share->ns / unit_ns + (share->ns % unit_ns >= (unit_ns + 1) / 2);
    out->units = parts_round(out, 1.0L / (long double)unit_ns, units);
}

void split_percent(struct split *out, const rn_share *share) {
    parts_take(out, share);
    if (!out->n) return;
    out->units = parts_round(out, 100.0L / (long double)share->ns, 100);
}

bool split_is_tiny(uint64_t ns, uint64_t whole_ns) { return (double)ns < 0.005 * (double)whole_ns; }

struct split_scale split_scale(uint64_t total_ns) {
    static const struct {
        uint64_t least_ns;
        struct split_scale scale;
    } row[] = {{10000000000, {10000000, "s", 2}},
               {100000000, {1000000, "ms", 0}},
               {10000000, {100000, "ms", 1}},
               {1000000, {10000, "ms", 2}},
               {0, {1000, "ms", 3}}};
    int at = 0;
    while (total_ns < row[at].least_ns) at++;
    return row[at].scale;
}

const char *split_count(uint64_t value, char out[SPLIT_TEXT_BYTES]) {
    char digits[24];
    const int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    char *at = out;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0) *at++ = ',';
        *at++ = digits[i];
    }
    *at = '\0';
    return out;
}

const char *split_text(const struct split_scale *scale, uint64_t units,
                       char out[SPLIT_TEXT_BYTES]) {
    uint64_t power = 1;
    for (int i = 0; i < scale->digits; i++) power *= 10;
    split_count(units / power, out);
    const size_t used = strlen(out);
    if (scale->digits) {
        snprintf(out + used, SPLIT_TEXT_BYTES - used, ".%0*llu %s", scale->digits,
                 (unsigned long long)(units % power), scale->unit);
    } else {
        snprintf(out + used, SPLIT_TEXT_BYTES - used, " %s", scale->unit);
    }
    return out;
}
