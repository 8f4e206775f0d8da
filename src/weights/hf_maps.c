// The maps that a tensor row can name: a view of the file's bytes, a slice of an expert tensor, a
// copy in another layout, or nothing. Each checks dtype and shape before it moves a byte. Called by
// hf_tensors.c through the rows.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "weights/derived.h"

// --- checks ---

static const enum format_id formats[] = {
    [ST_F32] = FORMAT_F32,   [ST_F16] = FORMAT_F16,   [ST_BF16] = FORMAT_BF16,
    [ST_Q4_0] = FORMAT_Q4_0, [ST_Q5_0] = FORMAT_Q5_0, [ST_Q8_0] = FORMAT_Q8_0};

static enum format_id format_of(const struct st_tensor *tensor) { return formats[tensor->dtype]; }

static size_t element_bytes(const struct st_tensor *tensor) {
    return (size_t)format_at(format_of(tensor))->block_bytes;
}

static bool check_dtype(struct hf_mapper *m) {
    const struct st_tensor *t = m->tensor;
    if (t->dtype == ST_F32 || t->dtype == ST_F16 || t->dtype == ST_BF16 ||
        t->codes == CODES_INTEGERS)
        return true;
    hf_mapper_fail(m, RN_ERR_UNSUPPORTED, "dtype %s is not supported, only F32, F16 and BF16",
                   t->dtype_name);
    return false;
}

// A tensor of one to four dimensions, none empty.
static bool check_float(struct hf_mapper *m) {
    const struct st_tensor *t = m->tensor;
    if (!check_dtype(m)) return false;
    bool ok = t->n_dims >= 1 && t->n_dims <= WEIGHTS_MAX_DIMS && t->bytes > 0;
    for (int i = 0; i < WEIGHTS_MAX_DIMS; i++) ok = ok && t->dim[i] > 0;
    if (!ok)
        hf_mapper_fail(m, RN_ERR_MODEL, "%d dimensions, or an empty one, expected 1 to %d",
                       t->n_dims, WEIGHTS_MAX_DIMS);
    return ok;
}

// The same of a tensor whose numbers are read at open.
static bool check_plain(struct hf_mapper *m) {
    if (m->tensor->codes == CODES_NONE) return check_float(m);
    hf_mapper_fail(m, RN_ERR_UNSUPPORTED, "dtype %s is supported for matrices alone",
                   m->tensor->dtype_name);
    return false;
}

// The tensor must have these dimensions, slowest first as the files write them; 0 is any.
static bool check_shape(struct hf_mapper *m, const struct st_tensor *t, int n_dims, int64_t a,
                        int64_t b, int64_t c, int64_t d) {
    const int64_t want[4] = {a, b, c, d};
    bool ok = t->n_dims == n_dims && t->bytes > 0;
    char have_text[100] = "", want_text[100] = "";
    size_t have_len = 0, want_len = 0;
    for (int i = 0; i < n_dims; i++) {
        const int64_t have = t->n_dims == n_dims ? t->dim[n_dims - 1 - i] : 0;
        ok = ok && have > 0 && (want[i] == 0 || have == want[i]);
        have_len += (size_t)snprintf(have_text + have_len, sizeof have_text - have_len,
                                     "%s%" PRId64, i ? ", " : "", have);
        want_len += (size_t)snprintf(want_text + want_len, sizeof want_text - want_len,
                                     "%s%" PRId64, i ? ", " : "", want[i]);
    }
    if (!ok && t->n_dims != n_dims) {
        hf_mapper_fail(m, RN_ERR_MODEL, "%d dimensions, expected %d", t->n_dims, n_dims);
    } else if (!ok) {
        hf_mapper_fail(m, RN_ERR_MODEL, "shape [%s], expected [%s]", have_text, want_text);
    }
    return ok;
}

// The same of a tensor with all experts. A config without experts or without their width would
// check nothing.
static bool check_experts(struct hf_mapper *m, const struct st_tensor *t, int n_dims, int64_t b,
                          int64_t c, int64_t d) {
    if (m->c->n_expert > 0 && m->c->n_ff_expert > 0)
        return check_shape(m, t, n_dims, m->c->n_expert, b, c, d);
    hf_mapper_fail(m, RN_ERR_MODEL, "experts, the config has %" PRId64 " of width %" PRId64,
                   m->c->n_expert, m->c->n_ff_expert);
    return false;
}

// --- maps ---

static struct tensor_view *view_push(struct hf_mapper *m, const char *name) {
    struct hf_config *c = m->c;
    const char *copy = arena_strdup(&c->weights->arena, name, strlen(name));
    struct tensor_view *view = copy ? store_tensor_push(c->weights) : NULL;
    if (!view) {
        hf_mapper_fail(m, RN_ERR_NOMEM, "out of memory");
        return NULL;
    }
    const struct st_tensor *t = m->tensor;
    *view = (struct tensor_view){.name = copy,
                                 .format = format_of(t),
                                 .n_dims = t->n_dims,
                                 .dim = {t->dim[0], t->dim[1], t->dim[2], t->dim[3]},
                                 .data = t->data,
                                 .bytes = t->bytes,
                                 .offset = t->offset,
                                 .file = t->file,
                                 .codes = t->codes};
    return view;
}

void hf_map_view(struct hf_mapper *m) {
    char name[HF_GGUF_NAME_MAX];
    if (!check_float(m)) return;
    hf_mapper_name(m, "", name);
    if (view_push(m, name) && strcmp(name, "token_embd.weight") == 0) {
        if (!check_plain(m)) return; // its rows are looked up
        if (m->tensor->dim[1] > UINT32_MAX)
            hf_mapper_fail(m, RN_ERR_MODEL, "%" PRId64 " rows are more than a vocabulary can have",
                           m->tensor->dim[1]);
        hf_put_u32(m->c, "vocab_size", m->tensor->dim[1]);
    }
}

void hf_map_number(struct hf_mapper *m) {
    const struct st_tensor *t = m->tensor;
    const int64_t one = 1;
    char name[HF_GGUF_NAME_MAX];
    void *data;
    if (!check_dtype(m)) return;
    if (t->bytes != element_bytes(t) || t->codes != CODES_NONE) {
        hf_mapper_fail(m, RN_ERR_MODEL, "%llu bytes, expected one number",
                       (unsigned long long)t->bytes);
        return;
    }
    const void *from = hf_tensor_plain(m->c, t);
    hf_mapper_name(m, "", name);
    if (from && hf_tensor_new(m->c, name, FORMAT_F32, 1, &one, &data) == RN_OK)
        format_decode(format_of(t), from, data, 1);
}

void hf_map_add_one(struct hf_mapper *m) {
    char name[HF_GGUF_NAME_MAX];
    void *data;
    if (!check_plain(m) || !check_shape(m, m->tensor, 1, 0, 0, 0, 0)) return;
    const void *from = hf_tensor_plain(m->c, m->tensor);
    hf_mapper_name(m, "", name);
    if (from && hf_tensor_new(m->c, name, FORMAT_F32, 1, m->tensor->dim, &data) == RN_OK)
        hf_copy_add_one(data, from, format_of(m->tensor), m->tensor->dim[0]);
}

void hf_map_minus_exp(struct hf_mapper *m) {
    char name[HF_GGUF_NAME_MAX];
    void *data;
    if (!check_plain(m) || !check_shape(m, m->tensor, 1, 0, 0, 0, 0)) return;
    const void *from = hf_tensor_plain(m->c, m->tensor);
    hf_mapper_name(m, "", name);
    if (from && hf_tensor_new(m->c, name, FORMAT_F32, 1, m->tensor->dim, &data) == RN_OK)
        hf_copy_minus_exp(data, from, format_of(m->tensor), m->tensor->dim[0]);
}

// With the factors of the channels, in f32.
static void taps_scaled(struct hf_mapper *m, const char *name) {
    const struct st_tensor *t = m->tensor;
    const int64_t dim[] = {t->dim[0], t->dim[2]};
    float *data;
    if (!check_shape(m, t, 3, m->c->n_tap_scale, 1, 0, 0)) return;
    const void *from = hf_tensor_plain(m->c, t);
    if (!from || hf_tensor_new(m->c, name, FORMAT_F32, 2, dim, (void **)&data) != RN_OK) return;
    format_decode(format_of(t), from, data, dim[0] * dim[1]);
    for (int64_t i = 0; i < dim[0] * dim[1]; i++) data[i] *= m->c->tap_scale[i / dim[0]];
}

void hf_map_taps(struct hf_mapper *m) {
    char name[HF_GGUF_NAME_MAX];
    if (!check_plain(m) || !check_shape(m, m->tensor, 3, 0, 1, 0, 0)) return;
    hf_mapper_name(m, "", name);
    if (m->c->tap_scale) {
        taps_scaled(m, name);
        return;
    }
    struct tensor_view *view = view_push(m, name);
    if (!view) return;
    view->n_dims = 2;
    view->dim[1] = m->tensor->dim[2];
    view->dim[2] = 1;
}

void hf_map_shared_gate_up(struct hf_mapper *m) {
    static const char *const shared[] = {"gate_shexp", "up_shexp"}, *const dense[] = {"gate", "up"};
    const struct st_tensor *t = m->tensor;
    if (!check_float(m) || !check_shape(m, t, 2, 0, 0, 0, 0)) return;
    if (t->dim[1] % 2 != 0) {
        hf_mapper_fail(m, RN_ERR_MODEL, "%" PRId64 " rows, expected two halves", t->dim[1]);
        return;
    }
    for (int i = 0; i < 2; i++) {
        char name[HF_GGUF_NAME_MAX];
        hf_mapper_name(m, m->c->n_expert ? shared[i] : dense[i], name);
        struct tensor_view *view = view_push(m, name);
        if (!view) return;
        view->dim[1] = t->dim[1] / 2;
        view->bytes = t->bytes / 2;
        view->data = t->data + (uint64_t)i * view->bytes;
        view->offset += (uint64_t)i * view->bytes;
    }
}

void hf_map_shared_down(struct hf_mapper *m) {
    char name[HF_GGUF_NAME_MAX];
    if (!check_float(m) || !check_shape(m, m->tensor, 2, 0, 0, 0, 0)) return;
    hf_mapper_name(m, m->c->n_expert ? "down_shexp" : "down", name);
    view_push(m, name);
}

void hf_map_transposed(struct hf_mapper *m) {
    const struct st_tensor *t = m->tensor;
    char name[HF_GGUF_NAME_MAX];
    void *data;
    if (!check_plain(m) || !check_shape(m, t, 2, 0, 0, 0, 0)) return;
    const int64_t rows = t->dim[0], cols = t->dim[1];
    const void *from = hf_tensor_plain(m->c, t);
    hf_mapper_name(m, "", name);
    if (from &&
        hf_tensor_new(m->c, name, format_of(t), 2, (const int64_t[]){cols, rows}, &data) == RN_OK)
        hf_copy_transposed(data, from, rows, cols, rows, 0, 1, element_bytes(t));
}

// A tensor whose slices of the third dimension are given one by one.
static struct tensor_view *parts_push(struct hf_mapper *m, const char *name, int64_t cols,
                                      int64_t rows, int64_t n, const void ***parts) {
    struct hf_config *c = m->c;
    uint64_t bytes = format_row_bytes(format_of(m->tensor), cols);
    const bool fits = ck_mul(bytes, (uint64_t)rows, &bytes) && ck_mul(bytes, (uint64_t)n, &bytes);
    *parts = arena_array(&c->weights->arena, (size_t)n, sizeof **parts);
    if (!fits || !*parts) {
        hf_mapper_fail(m, RN_ERR_NOMEM, "out of memory for %" PRId64 " matrices", n);
        return NULL;
    }
    struct tensor_view *view = view_push(m, name);
    if (!view) return NULL;
    view->n_dims = 3;
    view->dim[0] = cols;
    view->dim[1] = rows;
    view->dim[2] = n;
    view->dim[3] = 1;
    view->data = NULL;
    view->parts = *parts;
    view->bytes = bytes;
    return view;
}

void hf_map_expert(struct hf_mapper *m) {
    struct hf_config *c = m->c;
    const struct st_tensor *t = m->tensor;
    if (m->number[1] >= c->n_expert) {
        hf_mapper_fail(m, RN_ERR_MODEL, "expert %" PRId64 ", the config has %" PRId64, m->number[1],
                       c->n_expert);
        return;
    }
    if (!check_float(m) || !check_shape(m, t, 2, 0, 0, 0, 0)) return;
    int *slices = hf_mapper_slices(m);
    if (*slices < 0) {
        char name[HF_GGUF_NAME_MAX];
        const void **parts;
        hf_mapper_name(m, "", name);
        // Each part is a tensor of the files; a few of them must not claim room for many.
        m->n_parts += c->n_expert;
        if (m->n_parts > m->table->n) {
            hf_mapper_fail(m, RN_ERR_MODEL,
                           "the files have too few tensors for %" PRId64 " experts", c->n_expert);
            return;
        }
        if (!parts_push(m, name, t->dim[0], t->dim[1], c->n_expert, &parts)) return;
        *slices = c->weights->n_tensors - 1;
    }
    struct tensor_view *view = &c->weights->tensors[*slices];
    if (t->codes != CODES_NONE) view->codes = t->codes;
    if (view->format != format_of(t) || view->dim[0] != t->dim[0] || view->dim[1] != t->dim[1]) {
        hf_mapper_fail(m, RN_ERR_MODEL,
                       "%s [%" PRId64 ", %" PRId64 "], other experts have %s [%" PRId64 ", %" PRId64
                       "]",
                       t->dtype_name, t->dim[1], t->dim[0], format_at(view->format)->name,
                       view->dim[1], view->dim[0]);
        return;
    }
    const void **slot = (const void **)(uintptr_t)&view->parts[m->number[1]];
    if (*slot) hf_mapper_fail(m, RN_ERR_MODEL, "expert %" PRId64 " is there twice", m->number[1]);
    *slot = t->data;
}

// A head's rows are those of its keys, then those of its values. Products with a key go the other
// way in GGUF, from the query to the latent.
void hf_map_kv_b(struct hf_mapper *m) {
    const struct hf_config *c = m->c;
    const struct st_tensor *t = m->tensor;
    const int64_t nope = c->dim_nope, value = c->dim_value, cols = c->n_latent;
    char name[HF_GGUF_NAME_MAX];
    void *keys;
    const void **values;
    if (!check_float(m) || !check_shape(m, t, 2, c->n_head * (nope + value), cols, 0, 0)) return;
    const size_t size = element_bytes(t), head = (size_t)((nope + value) * cols) * size;
    const uint8_t *data = hf_tensor_plain(m->c, t);
    if (!data) return;
    hf_mapper_name(m, "k", name);
    if (hf_tensor_new(m->c, name, format_of(t), 3, (const int64_t[]){nope, cols, c->n_head},
                      &keys) != RN_OK)
        return;
    hf_mapper_name(m, "v", name);
    struct tensor_view *view = parts_push(m, name, cols, value, c->n_head, &values);
    if (!view) return;
    view->codes = CODES_NONE;
    for (int64_t h = 0; h < c->n_head; h++) {
        const uint8_t *from = data + (size_t)h * head;
        hf_copy_transposed((char *)keys + (size_t)(h * nope * cols) * size, from, cols, nope, cols,
                           0, 1, size);
        values[h] = from + (size_t)(nope * cols) * size;
    }
}

void hf_map_linears_gate_up(struct hf_mapper *m) {
    const struct hf_config *c = m->c;
    const struct st_tensor *t = m->tensor;
    static const char *const which[] = {"gate", "up"};
    if (!check_float(m) || !check_experts(m, t, 3, 2 * c->n_ff_expert, c->n_embd, 0)) return;
    const uint64_t slice = t->bytes / (uint64_t)c->n_expert;
    for (int i = 0; i < 2; i++) {
        char name[HF_GGUF_NAME_MAX];
        const void **parts;
        hf_mapper_name(m, which[i], name);
        if (!parts_push(m, name, t->dim[0], c->n_ff_expert, c->n_expert, &parts)) return;
        for (int64_t e = 0; e < c->n_expert; e++)
            parts[e] = t->data + (uint64_t)e * slice + (uint64_t)i * (slice / 2);
    }
}

// Rows of width and of 2 ff must differ: otherwise the shape does not tell which axis is which.
void hf_map_experts_gate_up(struct hf_mapper *m) {
    if (2 * m->c->n_ff_expert == m->c->n_embd)
        hf_mapper_fail(m, RN_ERR_UNSUPPORTED,
                       "the two axes are of one length, so their order is unknown");
    else
        hf_map_linears_gate_up(m);
}

void hf_map_experts_down(struct hf_mapper *m) {
    const struct hf_config *c = m->c;
    if (!check_float(m) || !check_experts(m, m->tensor, 3, c->n_embd, c->n_ff_expert, 0)) return;
    if (c->n_ff_expert == c->n_embd) {
        hf_mapper_fail(m, RN_ERR_UNSUPPORTED,
                       "the two axes are of one length, so their order is unknown");
        return;
    }
    hf_map_view(m);
}

// A tensor of an expert's matrices that is copied, one after the other.
struct expert_reader {
    struct hf_mapper *m;
    uint64_t bytes; // of a matrix
    uint8_t *room;  // [bytes]
};

static bool experts_begin(struct hf_mapper *m, struct expert_reader *out) {
    const uint64_t bytes = m->tensor->bytes / (uint64_t)m->c->n_expert;
    *out = (struct expert_reader){.m = m, .bytes = bytes, .room = malloc((size_t)bytes)};
    if (!out->room) hf_mapper_fail(m, RN_ERR_NOMEM, "out of memory");
    return out->room != NULL;
}

// NULL: an error.
static const uint8_t *expert_at(struct expert_reader *r, int64_t expert) {
    struct hf_config *c = r->m->c;
    const void *at = NULL;
    if (c->status == RN_OK)
        c->status = weights_read(c->weights, r->m->tensor->data + (uint64_t)expert * r->bytes,
                                 r->bytes, r->room, &at, c->err);
    return c->status == RN_OK ? at : NULL;
}

// Of [experts, in, 2 ff] the columns [first], [first + step], ... become the rows of gate and up.
static void gate_up_transposed(struct hf_mapper *m, const int64_t first[2], int64_t step) {
    const struct hf_config *c = m->c;
    const struct st_tensor *t = m->tensor;
    static const char *const which[] = {"gate", "up"};
    const int64_t ff = c->n_ff_expert, in = c->n_embd;
    struct expert_reader reader;
    void *data[2];
    if (!check_float(m) || !check_experts(m, t, 3, in, 2 * ff, 0)) return;
    const size_t size = element_bytes(t);
    for (int i = 0; i < 2; i++) {
        char name[HF_GGUF_NAME_MAX];
        hf_mapper_name(m, which[i], name);
        const int64_t dim[] = {in, ff, c->n_expert};
        if (hf_tensor_new(m->c, name, format_of(t), 3, dim, &data[i]) != RN_OK) return;
    }
    if (!experts_begin(m, &reader)) return;
    for (int64_t e = 0; e < c->n_expert; e++) {
        const uint8_t *from = expert_at(&reader, e);
        for (int i = 0; from && i < 2; i++)
            hf_copy_transposed((char *)data[i] + (size_t)(e * ff * in) * size, from, ff, in, 2 * ff,
                               first[i], step, size);
    }
    free(reader.room);
}

void hf_map_turns_gate_up(struct hf_mapper *m) {
    gate_up_transposed(m, (const int64_t[]){0, 1}, 2);
}

void hf_map_columns_gate_up(struct hf_mapper *m) {
    gate_up_transposed(m, (const int64_t[]){0, m->c->n_ff_expert}, 1);
}

void hf_map_turns_bias(struct hf_mapper *m) {
    const struct hf_config *c = m->c;
    const struct st_tensor *t = m->tensor;
    static const char *const which[] = {"gate", "up"};
    if (!check_plain(m) || !check_experts(m, t, 2, 2 * c->n_ff_expert, 0, 0)) return;
    const void *from = hf_tensor_plain(m->c, t);
    for (int i = 0; from && i < 2; i++) {
        char name[HF_GGUF_NAME_MAX];
        void *data;
        hf_mapper_name(m, which[i], name);
        const int64_t dim[] = {c->n_ff_expert, c->n_expert};
        if (hf_tensor_new(m->c, name, format_of(t), 2, dim, &data) == RN_OK)
            hf_copy_strided(data, from, c->n_ff_expert * c->n_expert, i, 2, element_bytes(t));
    }
}

void hf_map_turns_down(struct hf_mapper *m) {
    const struct hf_config *c = m->c;
    const struct st_tensor *t = m->tensor;
    const int64_t ff = c->n_ff_expert, out = c->n_embd;
    struct expert_reader reader;
    char name[HF_GGUF_NAME_MAX];
    void *data;
    if (!check_float(m) || !check_experts(m, t, 3, ff, out, 0)) return;
    const size_t size = element_bytes(t);
    hf_mapper_name(m, "", name);
    if (hf_tensor_new(m->c, name, format_of(t), 3, (const int64_t[]){ff, out, c->n_expert},
                      &data) != RN_OK)
        return;
    if (!experts_begin(m, &reader)) return;
    for (int64_t e = 0; e < c->n_expert; e++) {
        const uint8_t *from = expert_at(&reader, e);
        if (from)
            hf_copy_transposed((char *)data + (size_t)(e * ff * out) * size, from, out, ff, out, 0,
                               1, size);
    }
    free(reader.room);
}

// The scales of the nibbles, checked, or NULL. `rows` of `blocks` blocks for each expert.
static const uint8_t *mx_scales(struct hf_mapper *m, int64_t rows, int64_t blocks) {
    const struct st_tensor *t = m->tensor;
    char name[ST_NAME_MAX + 1];
    const size_t stem = strlen(t->name) - strlen("blocks");
    snprintf(name, sizeof name, "%.*sscales", (int)stem, t->name);
    const struct st_tensor *scales = st_find(m->table, name);
    if (!scales) {
        hf_mapper_fail(m, RN_ERR_MODEL, "its %.100s is missing", name);
        return NULL;
    }
    if (t->dtype != ST_U8 || scales->dtype != ST_U8) {
        hf_mapper_fail(m, RN_ERR_UNSUPPORTED, "dtype %s, scales %s: expected U8", t->dtype_name,
                       scales->dtype_name);
        return NULL;
    }
    if (!check_experts(m, t, 4, rows, blocks, 16) || !check_experts(m, scales, 3, rows, blocks, 0))
        return NULL;
    return hf_tensor_plain(m->c, scales);
}

// Whether a row's length is whole blocks.
static bool check_blocks(struct hf_mapper *m, int64_t cols) {
    if (cols % 32 == 0) return true;
    hf_mapper_fail(m, RN_ERR_MODEL, "rows of %" PRId64 " elements are not whole blocks of 32",
                   cols);
    return false;
}

void hf_map_mxfp4_gate_up(struct hf_mapper *m) {
    const struct hf_config *c = m->c;
    static const char *const which[] = {"gate", "up"};
    const int64_t ff = c->n_ff_expert, in = c->n_embd, blocks = in / 32;
    if (!check_blocks(m, in)) return;
    const uint8_t *scales = mx_scales(m, 2 * ff, blocks);
    const uint8_t *nibbles = scales ? hf_tensor_plain(m->c, m->tensor) : NULL;
    if (!nibbles) return;
    for (int i = 0; i < 2; i++) {
        char name[HF_GGUF_NAME_MAX];
        void *data;
        hf_mapper_name(m, which[i], name);
        const int64_t dim[] = {in, ff, c->n_expert};
        if (hf_tensor_new(m->c, name, FORMAT_MXFP4, 3, dim, &data) != RN_OK) return;
        for (int64_t row = 0; row < ff * c->n_expert; row++) {
            const int64_t from = (2 * row + i) * blocks;
            hf_copy_mxfp4((uint8_t *)data + row * blocks * 17, nibbles + from * 16, scales + from,
                          blocks);
        }
    }
}

void hf_map_mxfp4_down(struct hf_mapper *m) {
    const struct hf_config *c = m->c;
    const int64_t ff = c->n_ff_expert, out = c->n_embd, blocks = ff / 32;
    char name[HF_GGUF_NAME_MAX];
    void *data;
    if (!check_blocks(m, ff)) return;
    const uint8_t *scales = mx_scales(m, out, blocks);
    const uint8_t *nibbles = scales ? hf_tensor_plain(m->c, m->tensor) : NULL;
    if (!nibbles) return;
    hf_mapper_name(m, "", name);
    const int64_t dim[] = {ff, out, c->n_expert};
    if (hf_tensor_new(m->c, name, FORMAT_MXFP4, 3, dim, &data) == RN_OK)
        hf_copy_mxfp4(data, nibbles, scales, out * c->n_expert * blocks);
}

void hf_map_mxfp4_scales(struct hf_mapper *m) {
    char name[ST_NAME_MAX + 1];
    const size_t stem = strlen(m->tensor->name) - strlen("scales");
    snprintf(name, sizeof name, "%.*sblocks", (int)stem, m->tensor->name);
    if (!st_find(m->table, name)) hf_mapper_fail(m, RN_ERR_MODEL, "its %.100s is missing", name);
}

void hf_map_ignore(struct hf_mapper *m) { (void)m; }

void hf_map_left_out(struct hf_mapper *m) {
    struct weights *weights = m->c->weights;
    int i = 0;
    while (i < weights->n_left_out && weights->left_out[i].pattern != m->row->pattern) i++;
    if (i == STORE_MAX_LEFT_OUT) return;
    if (i == weights->n_left_out) {
        weights->left_out[i] = (struct weights_left_out){.pattern = m->row->pattern};
        weights->n_left_out++;
    }
    weights->left_out[i].n_tensors++;
}

void hf_map_head(struct hf_mapper *m) {
    if (!m->c->is_tied) hf_map_view(m);
}
