// Makes an engine and runs one request on it to its end, for commands that have one at a time.
#ifndef RN_APP_DRIVE_H
#define RN_APP_DRIVE_H

#include "app.h"
#include "terminal/term.h"

// What --kv-memory asks for.
void drive_kv_memory(const struct options *options, rn_engine_options *out);

// Makes the engine that the options ask for, with a progress bar unless quiet; `run` says before
// where the memory of a file goes, on a terminal. draft: the model that drafts, outlives the
// engine; NULL: none. all_logits: requests want the logits of every position. On failure the error
// has been printed and the exit code is returned.
int drive_engine_create(const struct options *options, const rn_model *model, const rn_model *draft,
                        const struct term *term, bool quiet, bool all_logits, rn_engine **out);

// Why an engine could not be created: what the model or its draft (NULL: none) asks for may be too
// much for the machine, or not fit together. Returns the exit code.
int drive_create_fail(const rn_model *model, const rn_model *draft, const rn_error *err);

// Called for every event; false ends the request (it still gets its last event).
typedef bool (*drive_event_fn)(void *ctx, const rn_event *event);

// Submits the request and steps until it ends or the user interrupts. On failure the error has been
// printed and the exit code is returned. model: the engine's, for its name.
int drive_request(rn_engine *engine, const rn_model *model, const rn_request *request,
                  drive_event_fn on_event, void *ctx);

#endif
