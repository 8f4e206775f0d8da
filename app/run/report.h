// The figures of a run: the summary on stderr and the --json object come from this record.
#ifndef RN_APP_REPORT_H
#define RN_APP_REPORT_H

#include "terminal/json.h"
#include "terminal/term.h"

struct report {
    const rn_model_info *model;
    const char *name; // of the model, for people; borrowed
    rn_engine_info engine;
    rn_timings timings;
    rn_finish finish;
    char *stop; // the stop string that matched, or NULL; owned
    uint64_t seed;
    double load_ms;
    int conversation_tokens; // of a conversation; 0: none
    // of the machine for this working set, bytes/s; 0: not measured
    double bandwidth;
    bool in_cache; // it was measured, and the working set fits the last-level cache
};

// Measures the machine's bandwidth for the bytes that a decode step reads; takes up to 300 ms.
void report_measure(struct report *report, rn_engine *engine);
void report_print(const struct report *report, const struct term *term);
// One dim line: tokens, their rate, the first one's time, and how it ended where not by itself.
void report_print_line(const struct report *report, const struct term *term);
// One dim line: the memory of weights and KV cache, out of the free memory.
void report_print_plan(const rn_memory_plan *plan, const struct term *term);
// The memory of serving: weights, KV of a token and of a context, and the number of users that fit.
void report_print_serving(const rn_memory_plan *plan, int max_seqs, const struct term *term);
// One dim line: the drafters, and the draft model; draft NULL: none. Or the model's draft block.
void report_print_drafters(const rn_engine_info *engine, const rn_model_info *model,
                           const rn_model_info *draft, const struct term *term);
// Adds the figures to object; undefined ones are null. False: out of memory.
bool report_json(const struct report *report, json_t *object);

#endif
