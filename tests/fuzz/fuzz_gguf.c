// Fuzzes the GGUF reader: any bytes either are refused with a message, or open, and then everything
// that the reader offers is inside them.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../gguf_walk.h"
#include "weights/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct weights *weights;
    rn_error err = {0};
    if (weights_open_memory("fuzz", data, size, &weights, &err) != RN_OK) {
        if (weights || err.status == RN_OK || strncmp(err.message, "fuzz: ", 6) != 0) abort();
        return 0;
    }
    if (gguf_walk(weights, data, size)) abort();
    weights_close(weights);
    return 0;
}
