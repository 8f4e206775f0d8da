// Makes the engine of a command. app_engine_options fills the fields that all commands have; the
// command adds its own and calls app_engine_create.
#ifndef RN_APP_ENGINE_H
#define RN_APP_ENGINE_H

#include "app.h"
#include "terminal/term.h"

// The options of backend, threads, context, batch and KV cache; the rest is zero.
void app_engine_options(const struct options *options, rn_engine_options *out);
// --backend and --device alone.
void app_engine_place(const struct options *options, rn_engine_options *out);
// --kv-memory alone.
void app_engine_memory(const struct options *options, rn_engine_options *out);

// Makes the engine, with a progress bar, notes and warnings unless quiet. options name the options
// in messages; the draft model of `wanted` outlives the engine. On failure the error has been
// printed and the exit code is returned.
int app_engine_create(const struct options *options, const rn_model *model,
                      const rn_engine_options *wanted, const struct term *term, bool quiet,
                      rn_engine **out);

// Prints why an engine could not be created: the model or its draft (NULL: none) may need more than
// the machine has, or the two may not fit together. Returns the exit code.
int app_engine_fail(const rn_model *model, const rn_model *draft, const rn_error *err);

#endif
