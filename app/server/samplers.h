// `samplers` of llama.cpp's clients: the steps of the choice of a token that a request wants. The
// names are columns of plan/sampling.def. Workers read them, the I/O thread writes them.
#ifndef RN_SERVER_SAMPLERS_H
#define RN_SERVER_SAMPLERS_H

#include "fields.h"

// A list of names, or a string of letters. A bit of *off is set for every named step that it
// lacks; unknown names are passed over, as llama.cpp does. False: refused.
bool samplers_read(const struct fields *fields, const char *name, unsigned *off);
// The parameters of these steps become neutral.
void samplers_apply(unsigned off, rn_sampling *sampling);
// The names of the other steps, as an array.
void samplers_write(struct jbuf *out, unsigned off);

#endif
