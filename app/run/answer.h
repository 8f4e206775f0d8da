// One request on an engine, from submit to its end. The text is written to standard output as it
// becomes certain, kept, or both; ids and figures are kept. Used by a run with one prompt, by every
// turn of a conversation, and by eval for each chunk.
#ifndef RN_APP_ANSWER_H
#define RN_APP_ANSWER_H

#include "app.h"
#include "inspect/logits.h"
#include "run/observe.h"
#include "run/report.h"
#include "terminal/term.h"
#include "terminal/wrap.h"

struct id_list {
    int32_t *id; // owned
    size_t count, cap;
};
// False: out of memory.
bool ids_add(struct id_list *list, int32_t id);

struct answer {
    // to be set before answer_run
    const struct term *term;
    bool shown, kept;           // the text is written, and kept
    struct logits_file *logits; // NULL: not wanted
    struct observe *observe;    // sees its events; NULL: nobody does
    struct progress *progress;  // ended before a failure is printed; NULL: none
    bool is_waited;             // a bar on a terminal says how much of the prompt is evaluated
    struct wrap wrap;           // where the text on the terminal is
    // text goes there instead of being written, at its end with final; false: out of memory. NULL:
    // it is written
    bool (*take)(void *ctx, const char *text, size_t len, bool final);
    void *take_ctx;
    bool special_text;    // special tokens are text, too
    struct report report; // model, engine and load_ms
    // the result
    struct id_list ids; // all sampled tokens, an end token included
    struct text text;   // not NUL-terminated
    size_t text_cap;
    char last;            // last byte of the text
    int write_error;      // errno of a failed write, 0: none
    const char *write_to; // its destination
    bool no_memory;
};

// Submits the request and steps until it ends or the user interrupts; on a terminal the text then
// ends with a line feed. model: the engine's, for its name. On failure the error has been printed
// and the exit code is returned.
int answer_run(struct answer *answer, rn_engine *engine, const rn_model *model,
               rn_request *request);
void answer_deinit(struct answer *answer);
// Writes text, for `take`.
void answer_show(struct answer *answer, const char *text, size_t len);

#endif
