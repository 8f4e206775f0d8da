// Prompts that ask for the text between two others (fill in the middle), with the marks that code
// models have in their vocabularies. For `suffix` of completions and for /infill. Workers call it.
#ifndef RN_SERVER_FIM_H
#define RN_SERVER_FIM_H

#include "generation.h"

struct fim_text {
    const char *data;
    size_t len;
};

struct fim {
    struct fim_text prefix, suffix; // the text is written between them
    struct fim_text start;          // how the written text starts; it is not written again
    const json_t *extra;            // array of {"filename", "text"}, or NULL
};

// Adds the prompt to the generation, and the marks that end such a text to its stop tokens. `field`
// is the field that asks for it. False: refused, also where the vocabulary has no such marks.
bool fim_add(struct call *call, struct generation *generation, const struct fim *fim,
             const char *field);

#endif
