// Runs one request on an engine to its end, for commands that have one at a time.
#ifndef RN_APP_DRIVE_H
#define RN_APP_DRIVE_H

#include "app.h"

// Called for every event; false ends the request (it still gets its last event).
typedef bool (*drive_event_fn)(void *ctx, const rn_event *event);

// Submits the request and steps until it ends or the user interrupts. On failure the error has been
// printed and the exit code is returned.
int drive_request(rn_engine *engine, const rn_request *request, drive_event_fn on_event, void *ctx);

// The options that run and eval share. isa "auto" is the engine's choice.
void drive_engine_options(const struct options *options, rn_engine_options *out);
// Rows of logits per step that keep their buffer within 256 MiB.
int drive_logit_rows(const rn_engine_options *options, int n_vocab);

// From now on the first Ctrl-C asks the request to stop; the second kills the program.
void interrupt_watch(void);
bool interrupt_seen(void);

#endif
