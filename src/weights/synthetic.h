// Models of known shapes with random weights and no file, for benchmarks: a speed depends on shapes
// and formats, not on the values of weights. A spec is SHAPE:FORMAT, as "1b:Q4_K_M", of any case.
#ifndef RN_WEIGHTS_SYNTHETIC_H
#define RN_WEIGHTS_SYNTHETIC_H

#include "weights/weights.h"

// The same spec always has the same bytes. An unknown shape or format is RN_ERR_ARG with a list of
// the known ones. RN_ERR_NOMEM: the machine has no memory for the weights and for the copy that a
// backend packs of them.
rn_status weights_open_synthetic(const char *spec, struct weights **out, rn_error *err);
// The same with keys, tensors and sizes alone: all weights read as zeros and take no memory.
rn_status weights_describe_synthetic(const char *spec, struct weights **out, rn_error *err);
// Whether the spec could be opened, without doing so.
rn_status weights_check_synthetic(const char *spec, rn_error *err);

// Whether the part of the spec before a colon names a shape.
bool weights_is_shape(const char *spec);
// The format of a known shape where the spec names none.
const char *weights_shape_format(const char *spec);
// The names of the list below, one by one; NULL: no more.
const char *weights_shape_at(int index);
// "135m, 360m, ...", for messages.
enum { SHAPES_LIST = 500 };
void weights_shapes_list(char *out, size_t size);
// Gives the matrices of opened weights other formats: a format or a mix, such as Q4_K_M. Sizes are
// exact; all weights read as zeros from then on and take no memory. For plans of memory and time.
rn_status weights_reformat(struct weights *weights, const char *format, rn_error *err);
// The base of a format or mix, where most of the weights got another format because their rows are
// no whole blocks of it: *cols is the length of such rows. NULL if that did not happen, or the name
// is unknown.
const char *weights_format_missed(const struct weights *weights, const char *format, int64_t *cols);

// synthetic_fill.c, for synthetic.c: gives every tensor, whose data may be written, its values.
rn_status synthetic_fill(const struct weights *weights, rn_error *err);

#endif
