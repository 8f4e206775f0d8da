// --explain and --trace of a run: the account of its last answer, and the file of the trace. Used
// by answer.c with every event, and by run.c and converse.c after an answer.
#ifndef RN_APP_OBSERVE_H
#define RN_APP_OBSERVE_H

#include "app.h"
#include "record/trace.h"
#include "run/report.h"

struct observe {
    struct record_choice *choice; // owned; NULL: no explanation is wanted
    uint64_t request;             // of the choice; 0: none has ended
    const char *path;             // of the trace
    FILE *file;                   // NULL: none
    bool seekable;                // a regular file, which is a whole document at any moment
    int error_number;             // of a failed write; 0: none
    long good;                    // the end of the last whole piece, where it is seekable
    struct trace trace;
};

// On failure the error has been printed and the exit code is returned.
int observe_open(struct observe *observe, const struct options *options, const rn_model *model);
void observe_event(struct observe *observe, const rn_event *event);
void observe_step(struct observe *observe, const rn_engine *engine);
// The last answer's record as JSON; NULL: out of memory. report: measured.
json_t *observe_json(const struct observe *observe, const struct report *report, rn_engine *engine);
// Words and pictures on stderr.
void observe_print(const struct observe *observe, const struct report *report, rn_engine *engine,
                   const struct term *term);
// Ends the trace. To be called on every way out; a second call does nothing.
int observe_close(struct observe *observe);

#endif
