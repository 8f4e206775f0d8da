// The options of drafting: the draft model, the other drafters, the lengths.
#ifndef RN_APP_DRAFT_H
#define RN_APP_DRAFT_H

#include "app.h"

// Checks the options and opens the draft model: the file of --draft, or the embedded model's own
// draft model where the embedded model is used. A file that is a draft block is attached to the
// model instead. *out NULL: there is no draft model, or it is not wanted. On failure the error has
// been printed and the exit code is returned.
int draft_open(const struct options *options, rn_model *model, rn_model **out);
int draft_open_embedded(rn_model **out); // the embedded model's own
// Fills the fields of the engine's options; draft NULL: none.
void draft_engine_options(const struct options *options, const rn_model *draft,
                          rn_engine_options *out);
// Warns when the draft model is no smaller than the model; draft NULL: says nothing.
void draft_warn_large(const rn_model *draft, const rn_model *model);
// For an error of the engine that names neither file: both, and the error. Returns the exit code.
int draft_fail(const rn_model *draft, const rn_model *model, const rn_error *err);
// For a place of its own that was given to a draft block. Returns the exit code.
int draft_fail_place(const struct options *options, const char *block);

#endif
