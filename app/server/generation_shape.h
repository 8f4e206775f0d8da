// The shape of a generation's texts: read from the request, made into one source with the request's
// tools and the template's marks, and compiled. A handler only says what it wants: the workers have
// threads for compilations (workers.h). The step's thread only follows the shape.
#ifndef RN_SERVER_GENERATION_SHAPE_H
#define RN_SERVER_GENERATION_SHAPE_H

#include "generation.h"

// The fields of the family: its shape, and of APIs with tools which of them are called. False:
// refused.
bool generation_shape_read(struct call *call, struct generation *generation, const json_t *body,
                           enum family family);
// Finds the shape of what was read, or notes that it is to be compiled. tools: the tools that the
// template was given, as OpenAI has them; NULL if there are none. False: refused.
bool generation_shape_want(struct call *call, struct generation *generation, const json_t *tools);
// The bytes of the source that is to be compiled; 0 if there is none, or the call was refused.
size_t generation_shape_due(const struct call *call);
// Compiles it. Refuses with the field and the place in it.
void generation_shape_compile(struct call *call);

#endif
