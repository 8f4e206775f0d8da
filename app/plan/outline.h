// `runnel plan`: the parts of its report. plan.c reads the options and calls them; each prints
// text, or adds to a JSON object. A function that fails has printed the error, and returns the exit
// code.
#ifndef RN_APP_PLAN_OUTLINE_H
#define RN_APP_PLAN_OUTLINE_H

#include "plan/sizing.h"
#include "terminal/json.h"

enum { REPORT_ROWS = 16 };

// A model on a machine.
struct outline {
    const struct options *options;
    const struct term *term;
    json_t *json; // the object that parts are added to; NULL: text
    const rn_model *model;
    const struct plan *plan;
    struct workload workload;
    struct machine machine;
    struct tools_memory memory;
    struct sizing_row row[REPORT_ROWS]; // 1, 2, 4, ... users, and those asked for
    int n_rows;
};

enum { BOUND_TEXT = 32 };

void outline_section(const struct outline *outline, const char *title);
// "arithmetic 62%": the largest part of a step's time.
const char *outline_bound(const struct sizing_row *row, char out[BOUND_TEXT]);
// A note below a table with TTFT, where many streams leave prompts little room in a step.
void outline_room_note(const struct outline *outline, int most_users, int batch_tokens);
// assumed.c: what the results depend on, in "assumed".
void assumed_print(const struct outline *outline);
bool assumed_put(const struct outline *outline);
bool assumed_has_experts(const struct plan *plan);
// outline.c: model, machine, memory, rows.
int outline_print(const struct outline *outline);
int outline_machine(const struct outline *outline);

// matrix.c
int matrix_report(const struct outline *outline, const char *spec);
int matrix_measure(struct outline *outline); // the rates of its format, on this machine
// need.c: devices on which each of the users gets `speed` tokens/s, or changes that would help.
int need_report(const struct outline *outline, double speed);
// replay.c: the trace is read before anything is printed or measured.
struct replay_trace;
int replay_open(const struct outline *outline, const char *path, struct replay_trace **out);
void replay_close(struct replay_trace *trace); // NULL too
int replay_report(const struct outline *outline, struct replay_trace *trace);
// roofline.c
int roofline_write(const struct outline *outline, const char *path);
int memory_write(const struct outline *outline, const char *path);

#endif
