// See fp8.h. Scales have a tensor of their own: NAME_scale_inv, NAME_scale or NAME_weight_scale
// beside NAME. Their shape says what they belong to: all matrices of the tensor, each of them, its
// rows, or blocks of the config's size.

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "weights/derived.h"

enum {
    CHUNK = 256, // elements at a time
    CODES = 256, // of a byte
};

// ---------------------------------------------------------------- reading

static float code_value(uint8_t code) {
    const int exponent = code >> 3 & 15, fraction = code & 7;
    float value =
        ldexpf((float)(exponent ? 8 + fraction : fraction), (exponent ? exponent : 1) - 10);
    if (exponent == 15 && fraction == 7) value = NAN;
    return code & 0x80 ? -value : value;
}

static float scale_at(const struct fp8 *fp8, int64_t matrix, int64_t row, int64_t col) {
    const int64_t at = (matrix * fp8->scale_rows + row / fp8->block_rows) * fp8->scale_cols +
                       col / fp8->block_cols;
    float scale;
    if (fp8->is_exponent) return fp8->scale[at] == 255 ? NAN : ldexpf(1, fp8->scale[at] - 127);
    const int size = format_at(fp8->scale_format)->block_bytes;
    format_decode(fp8->scale_format, fp8->scale + at * size, &scale, 1);
    return scale;
}

// Codes become numbers: elements from `first` on, at most CHUNK. Those of a row and a block have
// one scale.
static void chunk_decode(const struct fp8 *fp8, const float value[CODES], int64_t first, int n,
                         const uint8_t *code, void *out) {
    float number[CHUNK];
    for (int i = 0, run; i < n; i += run) {
        const int64_t row = (first + i) / fp8->cols, col = (first + i) % fp8->cols;
        const int64_t block = fp8->block_cols - col % fp8->block_cols, rest = fp8->cols - col;
        const int64_t most = block < rest ? block : rest;
        const float scale = scale_at(fp8, row / fp8->rows, row % fp8->rows, col);
        run = most < n - i ? (int)most : n - i;
        for (int k = i; k < i + run; k++) number[k] = value[code[k]] * scale;
    }
    format_encode(FORMAT_BF16, number, out, n);
}

// The codes are read into the second half of the room, and replaced from the front.
rn_status fp8_read(const struct weights *weights, const struct derived *derived, uint64_t at,
                   uint64_t bytes, void *out, rn_error *err) {
    const struct fp8 *fp8 = &derived->fp8;
    const struct store_file *file = &weights->files[derived->file];
    const uint64_t first = at / 2, n = bytes / 2;
    const uint8_t *code = (const uint8_t *)out + n;
    float value[CODES];
    assert(bytes % 2 == 0 && at % 2 == 0);
    const uint64_t place = (uint64_t)(derived->code - file->data) + first;
    const rn_status status = store_file_read(file, place, n, (uint8_t *)out + n, err);
    if (status) return status;
    for (int i = 0; i < CODES; i++) value[i] = code_value((uint8_t)i);
    for (uint64_t i = 0; i < n; i += CHUNK) {
        const int count = n - i < CHUNK ? (int)(n - i) : CHUNK;
        uint8_t own[CHUNK];
        memcpy(own, code + i, (size_t)count);
        chunk_decode(fp8, value, (int64_t)(first + i), count, own, (uint8_t *)out + 2 * i);
    }
    return RN_OK;
}

void fp8_numbers(const struct fp8 *fp8, uint64_t *out) {
    out[0] = (uint64_t)fp8->block_rows;
    out[1] = (uint64_t)fp8->block_cols;
}

// ---------------------------------------------------------------- tensors

struct adopting {
    struct hf_config *c;
    struct st_table *table;
};

static rn_status fail(const struct adopting *a, const struct st_tensor *t, rn_status status,
                      const char *text) {
    return err_set(a->c->err, status, "%s: tensor %.128s: %s", a->c->weights->files[t->file].path,
                   t->name, text);
}

static struct st_tensor *find(const struct adopting *a, const char *name, const char *end) {
    char full[ST_NAME_MAX + 1];
    if ((size_t)snprintf(full, sizeof full, "%s%s", name, end) >= sizeof full) return NULL;
    const struct st_tensor *found = st_find(a->table, full);
    return found ? &a->table->tensors[found - a->table->tensors] : NULL;
}

// A scale that is itself codes with a scale is none: it may have become BF16 before.
static bool scale_format_of(const struct st_tensor *scale, struct fp8 *out) {
    if (scale->codes != CODES_NONE) return false;
    out->is_exponent = strcmp(scale->dtype_name, "F8_E8M0") == 0;
    out->scale_format = scale->dtype == ST_F32   ? FORMAT_F32
                        : scale->dtype == ST_F16 ? FORMAT_F16
                                                 : FORMAT_BF16;
    return out->is_exponent || scale->dtype == ST_F32 || scale->dtype == ST_F16 ||
           scale->dtype == ST_BF16;
}

static int64_t count(const struct st_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < WEIGHTS_MAX_DIMS; i++) n *= t->dim[i];
    return n;
}

// A number for all, for each matrix, for each row, or for each block.
static bool scale_fit(const struct hf_config *c, const struct st_tensor *scale, struct fp8 *out) {
    const int64_t rows = c->quant.fp8_rows, cols = c->quant.fp8_cols;
    out->block_rows = out->rows;
    out->block_cols = out->cols;
    out->scale_rows = out->scale_cols = 1;
    if (count(scale) == out->n) return true;
    out->scale_rows = 0; // from one matrix to the next
    if (count(scale) == 1) return true;
    out->block_rows = 1;
    out->scale_rows = out->rows;
    if (scale->n_dims == 1 && scale->dim[0] == out->rows && out->n == 1) return true;
    if (scale->dim[0] == 1 && scale->dim[1] == out->rows && scale->dim[2] == out->n) return true;
    out->block_rows = rows;
    out->block_cols = cols;
    out->scale_rows = (out->rows + rows - 1) / rows;
    out->scale_cols = (out->cols + cols - 1) / cols;
    return scale->dim[0] == out->scale_cols && scale->dim[1] == out->scale_rows &&
           scale->dim[2] == (scale->n_dims > 2 ? out->n : 1) && out->n == scale->dim[2];
}

static rn_status tensor_adopt(struct adopting *a, struct st_tensor *t) {
    struct weights *weights = a->c->weights;
    struct st_tensor *scale = find(a, t->name, "_scale_inv");
    struct fp8 fp8 = {.n = t->dim[2], .rows = t->dim[1], .cols = t->dim[0]};
    if (!scale) scale = find(a, t->name, "_scale");
    if (!scale) scale = find(a, t->name, "_weight_scale"); // of fused experts
    if (!scale)
        return fail(a, t, RN_ERR_MODEL, "its scale is missing: NAME_scale_inv or NAME_scale");
    if (t->n_dims < 2 || t->n_dims > 3 || t->bytes == 0)
        return fail(a, t, RN_ERR_UNSUPPORTED, "F8_E4M3 is supported for matrices alone");
    if (!scale_format_of(scale, &fp8))
        return fail(a, scale, RN_ERR_UNSUPPORTED,
                    "a scale is expected in F32, F16, BF16 or F8_E8M0");
    if (scale->n_dims > WEIGHTS_MAX_DIMS || scale->bytes == 0 || !scale_fit(a->c, scale, &fp8))
        return fail(a, scale, RN_ERR_MODEL,
                    "its shape is not that of scales by matrix, by row, or by block of the "
                    "config's weight_block_size");
    uint8_t *numbers =
        scale->bytes <= SIZE_MAX / 2 ? arena_alloc(&weights->arena, (size_t)scale->bytes) : NULL;
    if (!numbers) return fail(a, scale, RN_ERR_NOMEM, "out of memory");
    const struct store_file *file = &weights->files[scale->file];
    const rn_status status = store_file_read(file, scale->offset, scale->bytes, numbers, a->c->err);
    if (status) return status;
    fp8.scale = numbers;
    if (!ck_mul(t->bytes, 2, &t->bytes)) return fail(a, t, RN_ERR_MODEL, "the tensor is too large");
    struct derived *derived = derived_push(weights, t, CODES_FP8);
    if (!derived) return fail(a, t, RN_ERR_NOMEM, "out of memory");
    derived->fp8 = fp8;
    t->dtype = ST_BF16;
    scale->is_known = true;
    return RN_OK;
}

rn_status fp8_adopt(struct hf_config *c, struct st_table *table) {
    struct adopting a = {.c = c, .table = table};
    if (!c->quant.has_fp8) return RN_OK;
    for (int i = 0; i < table->n; i++) {
        struct st_tensor *t = &table->tensors[i];
        const bool is_code = strcmp(t->dtype_name, "F8_E4M3") == 0;
        const rn_status status = is_code ? tensor_adopt(&a, t) : RN_OK;
        if (status) return status;
    }
    return RN_OK;
}
