// A synthetic model in the making, for synthetic.c and its two makers.
#ifndef RN_WEIGHTS_SYNTHETIC_MAKER_H
#define RN_WEIGHTS_SYNTHETIC_MAKER_H

#include "weights/store.h"
#include "weights/synthetic_mixes.h"
#include "weights/synthetic_shapes.h"

enum { TENSOR_ALIGN = 64 };

// The model in the making. The first error is kept in status and stops the rest.
struct maker {
    struct weights *weights;
    const struct shape *shape;
    struct mix mix;
    int layer;
    uint64_t bytes; // of the tensors so far
    rn_status status;
    rn_error *err;
};

// synthetic_keys.c: all metadata.
void maker_put_keys(struct maker *m);
void maker_no_memory(struct maker *m);
bool maker_has_block(const struct maker *m); // whether a block that drafts follows the layers
// synthetic_tensors.c: names, formats, shapes and places of all tensors.
void maker_add_tensors(struct maker *m);

#endif
