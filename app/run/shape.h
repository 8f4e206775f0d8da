// The options that give an answer its shape: a schema, a grammar, an expression, a list of choices.
#ifndef RN_APP_RUN_SHAPE_H
#define RN_APP_RUN_SHAPE_H

#include "app.h"

// *out NULL: no shape is wanted. On failure the error has been printed and the exit code is
// returned.
int shape_open(const struct options *options, const rn_model *model, rn_shape **out);

#endif
