// logit_bias: tokens by their ids, or by a text whose tokens all get the bias, as llama.cpp takes
// them. Workers call it.
#ifndef RN_SERVER_LOGIT_BIAS_H
#define RN_SERVER_LOGIT_BIAS_H

#include "params.h"

// Reads {"15043": -1, "text": false} or [[15043, -1], ["text", false]] into out->bias, at most max
// tokens. False: refused.
bool logit_bias_read(const struct fields *fields, const char *name, size_t max, struct params *out);

#endif
