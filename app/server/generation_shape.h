// The shape of a generation's texts: read from the request, made into one source with the request's
// tools and the template's marks, and compiled. All on a worker: the step's thread only follows it.
#ifndef RN_SERVER_GENERATION_SHAPE_H
#define RN_SERVER_GENERATION_SHAPE_H

#include "generation.h"

// The fields of the family: its shape, and of APIs with tools which of them are called. False:
// refused.
bool generation_shape_read(struct call *call, struct generation *generation, const json_t *body,
                           enum family family);
// Compiles what was read; does nothing where no shape is needed. tools: those that the template
// was given, as OpenAI has them; NULL: none. False: refused, by the field and the place in it.
bool generation_shape_make(struct call *call, struct generation *generation, const json_t *tools);

#endif
