// One answer of the engine: its text is written to standard output as it becomes certain, kept, or
// both; its ids and figures are kept. Used by a run with one prompt and by every turn of a
// conversation.
#ifndef RN_APP_ANSWER_H
#define RN_APP_ANSWER_H

#include "app.h"
#include "inspect/logits.h"
#include "run/report.h"
#include "terminal/term.h"

struct id_list {
    int32_t *id; // owned
    size_t count, cap;
};
// False: out of memory.
bool ids_add(struct id_list *list, int32_t id);

struct answer {
    // to be set before answer_run
    const struct term *term;
    bool shown, kept;           // what happens to the text
    struct logits_file *logits; // NULL: not wanted
    struct report report;       // model, engine and load_ms
    // the result
    struct id_list ids; // all sampled tokens, an end token included
    struct text text;   // not NUL-terminated
    size_t text_cap;
    char last;            // last byte of the text
    int write_error;      // errno of a failed write, 0: none
    const char *write_to; // what it was
    bool no_memory;
};

// Runs the request to its end or to Ctrl-C; on a terminal the text ends with a line feed then. On
// failure the error has been printed and the exit code is returned.
int answer_run(struct answer *answer, rn_engine *engine, const rn_model *model,
               rn_request *request);
void answer_deinit(struct answer *answer);

#endif
