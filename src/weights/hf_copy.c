// Tensors that a folder has in another form than GGUF: copies in memory that the weights own, made
// once at open. Everything below moves bytes and decides nothing; sizes were checked by
// hf_tensors.c.
#include <string.h>

#include "base/checked.h"
#include "base/rmath.h"
#include "weights/derived.h"

rn_status hf_tensor_new(struct hf_config *c, const char *name, enum format_id format, int n_dims,
                        const int64_t *dim, void **data) {
    if (c->status != RN_OK) return c->status;
    struct weights *weights = c->weights;
    uint64_t bytes = format_row_bytes(format, dim[0]);
    bool fits = true;
    for (int i = 1; i < n_dims; i++) fits = fits && ck_mul(bytes, (uint64_t)dim[i], &bytes);
    *data = fits && bytes <= SIZE_MAX / 2 ? arena_alloc(&weights->arena, (size_t)bytes) : NULL;
    const char *copy = arena_strdup(&weights->arena, name, strlen(name));
    struct tensor_view *tensor = *data && copy ? store_tensor_push(weights) : NULL;
    if (!tensor) {
        c->status =
            err_set(c->err, RN_ERR_NOMEM, "%s: tensor %s: out of memory", weights->name, name);
        return c->status;
    }
    *tensor = (struct tensor_view){.name = copy,
                                   .format = format,
                                   .n_dims = n_dims,
                                   .dim = {1, 1, 1, 1},
                                   .data = *data,
                                   .bytes = bytes};
    for (int i = 0; i < n_dims; i++) tensor->dim[i] = dim[i];
    return RN_OK;
}

const uint8_t *hf_tensor_plain(struct hf_config *c, const struct st_tensor *tensor) {
    struct weights *weights = c->weights;
    if (tensor->codes == CODES_NONE) {
        c->status = store_bring(weights, tensor->data, tensor->bytes, c->err);
        return c->status == RN_OK ? tensor->data : NULL;
    }
    uint8_t *copy = arena_alloc(&weights->arena, (size_t)tensor->bytes);
    if (!copy)
        c->status = err_set(c->err, RN_ERR_NOMEM, "%s: tensor %s: out of memory", weights->name,
                            tensor->name);
    else
        c->status = derived_read(weights, &weights->derived[tensor->derived], tensor->data,
                                 tensor->bytes, copy, c->err);
    return c->status == RN_OK ? copy : NULL;
}

// Squares that fit the cache on both sides: rows of the one are columns of the other.
enum { TILE = 32 };

void hf_copy_transposed(void *dst, const void *src, int64_t rows, int64_t cols, int64_t stride,
                        int64_t first, int64_t step, size_t size) {
    char *out = dst;
    const char *in = src;
    for (int64_t r0 = 0; r0 < rows; r0 += TILE) {
        const int64_t r1 = r0 + TILE < rows ? r0 + TILE : rows;
        for (int64_t c0 = 0; c0 < cols; c0 += TILE) {
            const int64_t c1 = c0 + TILE < cols ? c0 + TILE : cols;
            for (int64_t r = r0; r < r1; r++)
                for (int64_t c = c0; c < c1; c++)
                    memcpy(out + (size_t)(r * cols + c) * size,
                           in + (size_t)(c * stride + first + r * step) * size, size);
        }
    }
}

void hf_copy_strided(void *dst, const void *src, int64_t count, int64_t first, int64_t step,
                     size_t size) {
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)dst + (size_t)i * size,
               (const char *)src + (size_t)(first + i * step) * size, size);
}

void hf_copy_add_one(float *dst, const void *src, enum format_id format, int64_t n) {
    format_decode(format, src, dst, n);
    for (int64_t i = 0; i < n; i++) dst[i] += 1;
}

void hf_copy_minus_exp(float *dst, const void *src, enum format_id format, int64_t n) {
    format_decode(format, src, dst, n);
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)dst[i];
        dst[i] = x > -700 && x < 700 ? (float)-rmath_exp_double(x) : x < 0 ? -0.0f : -INFINITY;
    }
}

// A folder's byte j has element 2j low and 2j + 1 high; GGUF's byte i has element i low and i + 16
// high. The scale, a power of two, is the same byte in both.
void hf_copy_mxfp4(uint8_t *dst, const uint8_t *nibbles, const uint8_t *scales, int64_t n_blocks) {
    for (int64_t b = 0; b < n_blocks; b++, dst += 17, nibbles += 16) {
        dst[0] = scales[b];
        for (int j = 0; j < 8; j++) {
            const uint8_t low = nibbles[j], high = nibbles[j + 8];
            dst[1 + 2 * j] = (uint8_t)((low & 15) | (high & 15) << 4);
            dst[2 + 2 * j] = (uint8_t)(low >> 4 | (high & 0xf0));
        }
    }
}
