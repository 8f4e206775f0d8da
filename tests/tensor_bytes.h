// The bytes of a tensor, wherever they are: in memory, or brought from the file.
#ifndef RN_TESTS_TENSOR_BYTES_H
#define RN_TESTS_TENSOR_BYTES_H

#include <stdlib.h>

#include "check.h"
#include "plan/plan.h"
#include "weights/weights.h"

// Valid until the program ends.
static inline const void *bytes_brought(const struct weights *weights, const void *data,
                                        uint64_t bytes) {
    struct brought {
        struct brought *before;
        _Alignas(16) uint8_t bytes[];
    };
    static struct brought *last; // all of them can be reached, so none is a leak
    struct brought *room = malloc(sizeof *room + (size_t)bytes);
    const void *at;
    rn_error err = {0};
    check(room, "%llu bytes", (unsigned long long)bytes);
    room->before = last;
    last = room;
    check(weights_read(weights, data, bytes, room->bytes, &at, &err) == RN_OK, "%s", err.message);
    return at;
}

// The same of a plan's weight, in memory of the caller's. Its bytes may be where they were.
static inline const void *weight_brought(const struct plan *plan, const void *data, uint64_t bytes,
                                         void *room) {
    const void *at = data;
    rn_error err = {0};
    if (plan->fetch)
        check(plan->fetch(plan->fetch_ctx, data, bytes, room, &at, &err) == RN_OK, "%s",
              err.message);
    return at;
}

// The tensor with bytes that can be read.
static inline struct tensor_view tensor_brought(const struct weights *weights, int index) {
    struct tensor_view tensor = *weights_tensor_at(weights, index);
    tensor.data = bytes_brought(weights, tensor.data, tensor.bytes);
    return tensor;
}

static inline const void *tensor_bytes(const struct weights *weights,
                                       const struct tensor_view *tensor) {
    return bytes_brought(weights, tensor->data, tensor->bytes);
}

#endif
