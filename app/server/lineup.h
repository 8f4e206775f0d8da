// Which of several models is loaded or unloaded next. A decision from the models' states alone:
// waiting.c asks for it whenever the loader is idle, and carries it out. I/O thread only.
//
//   1. Models are loaded in the order in which they were first asked for.
//   2. A model is unloaded if it is idle: no call has it, and no engine request runs.
//   3. If memory is short, the idle model that was used least recently goes. If none is idle, the
//      least recently used one yields: its calls end as usual, and new calls for it wait. It
//      yields until there is room or nobody waits for the other model any more.
//   4. Calls that waited for a model have it as soon as it is ready, so it serves them before it
//      goes. No client can make two models replace each other without being served.
//   5. Models of different devices do not share memory.
#ifndef RN_SERVER_LINEUP_H
#define RN_SERVER_LINEUP_H

#include "served.h"

enum lineup_act {
    LINEUP_NOTHING, // until something changes
    LINEUP_PLAN,    // find out how much memory it needs
    LINEUP_LOAD,
    LINEUP_UNLOAD,
    LINEUP_FAIL, // it can never fit: `reason` of the model says why
};

struct lineup_step {
    enum lineup_act act;
    struct served *served;
};

// The loader is idle. *due_ns: when to ask again even if nothing changes; 0: never.
struct lineup_step lineup_next(struct served *served, int n_served, uint64_t now_ns,
                               uint64_t *due_ns);

#endif
