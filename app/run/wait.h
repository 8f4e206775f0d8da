// The bar of a prompt that takes long to evaluate. It appears on a terminal half a second after the
// start, also inside of the first step, and ends with the prompt.
#ifndef RN_APP_WAIT_H
#define RN_APP_WAIT_H

#include <pthread.h>

#include "runnel.h"
#include "terminal/term.h"

struct wait {
    struct progress bar; // term is NULL: not wanted, or over
    uint64_t before;     // tokens that were evaluated or found before the request
    uint64_t total;
    int column; // of the cursor, behind text that came before
    // The watcher shows the bar once; it and the caller share what follows and the bar.
    pthread_t watcher;
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool has_watcher, is_over, is_shown;
};

// quiet: there is no bar.
void wait_begin(struct wait *wait, const struct term *term, bool quiet, const rn_engine *engine,
                size_t n_prompt, int column);
void wait_step(struct wait *wait, const rn_engine *engine); // after each step
void wait_end(struct wait *wait);                           // again where it is over: nothing

#endif
