// Finds the matrices of packed integers in a folder. Each has a tensor of codes and others beside
// it: X.qweight has X.scales, X.qzeros and maybe X.g_idx; X.weight_packed has X.weight_scale,
// X.weight_shape, and maybe X.weight_zero_point and X.weight_g_idx; X.weight in I8 has the same
// without X.weight_shape. Numbers of inputs, outputs and bits follow from the shapes. All numbers
// but the codes are read here once: they are checked, and they decide the format. See integers.h.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "weights/derived.h"

enum {
    BLOCK = 32,
    WORD_BITS = 32,
    WORD_BYTES = 4,
    CHUNK = 256,
    SIGN = 128, // of a byte
    BYTES = 256,
};

// The matrix at hand.
struct adopting {
    struct hf_config *c;
    struct st_table *table;
    char stem[ST_NAME_MAX + 1]; // X
    struct st_tensor *codes;
    struct integers in;
    bool is_exact; // all scales are numbers of F16
};

static rn_status fail(const struct adopting *a, const struct st_tensor *t, rn_status status,
                      const char *text) {
    return err_set(a->c->err, status, "%s: tensor %.128s: %s", a->c->weights->files[t->file].path,
                   t->name, text);
}

static rn_status fail_shape(const struct adopting *a, const struct st_tensor *t, int64_t rows,
                            int64_t cols) {
    char text[160];
    snprintf(text, sizeof text,
             "shape [%" PRId64 ", %" PRId64 "] of %d dimensions, expected [%" PRId64 ", %" PRId64
             "]",
             t->dim[1], t->dim[0], t->n_dims, rows, cols);
    return fail(a, t, RN_ERR_MODEL, text);
}

// NULL: there is none.
static struct st_tensor *part_find(const struct adopting *a, const char *end) {
    char full[2 * ST_NAME_MAX];
    snprintf(full, sizeof full, "%s%s", a->stem, end);
    const struct st_tensor *found = st_find(a->table, full);
    if (!found) return NULL;
    struct st_tensor *part = &a->table->tensors[found - a->table->tensors];
    part->is_known = true;
    return part;
}

// So that it can be read here.
static rn_status part_bring(const struct adopting *a, const struct st_tensor *t) {
    return store_bring(a->c->weights, t->data, t->bytes, a->c->err);
}

static bool is_matrix(const struct st_tensor *t, const char *dtype, int64_t rows, int64_t cols) {
    return strcmp(t->dtype_name, dtype) == 0 && t->n_dims == 2 && t->dim[1] == rows &&
           t->dim[0] == cols && t->bytes > 0;
}

static rn_status check_words(const struct adopting *a, const struct st_tensor *t, int64_t rows,
                             int64_t cols) {
    if (is_matrix(t, "I32", rows, cols)) return RN_OK;
    if (strcmp(t->dtype_name, "I32") == 0) return fail_shape(a, t, rows, cols);
    return fail(a, t, RN_ERR_UNSUPPORTED, "packed integers are expected in I32");
}

static int64_t words_of(int64_t n, int bits) { return (n * bits + WORD_BITS - 1) / WORD_BITS; }

// ---------------------------------------------------------------- numbers

static rn_status scales_find(struct adopting *a, const char *end, struct st_tensor **out) {
    struct st_tensor *t = *out = part_find(a, end);
    char text[80];
    snprintf(text, sizeof text, "its scales are missing: NAME%s", end);
    if (!t) return fail(a, a->codes, RN_ERR_MODEL, text);
    if (t->codes != CODES_NONE || (t->dtype != ST_F16 && t->dtype != ST_BF16 && t->dtype != ST_F32))
        return fail(a, t, RN_ERR_UNSUPPORTED, "scales are expected in F16, BF16 or F32");
    if (t->bytes == 0 || t->n_dims < 1 || t->n_dims > 2)
        return fail(a, t, RN_ERR_MODEL, "scales are expected to be a matrix");
    a->in.scale = t->data;
    a->in.scale_bytes = t->bytes;
    a->in.scale_file = t->file;
    a->in.scale_format = t->dtype == ST_F32   ? FORMAT_F32
                         : t->dtype == ST_F16 ? FORMAT_F16
                                              : FORMAT_BF16;
    return RN_OK;
}

static rn_status scales_check(struct adopting *a, const struct st_tensor *t) {
    const int64_t n = t->dim[0] * t->dim[1], size = format_at(a->in.scale_format)->block_bytes;
    float scale[CHUNK];
    char text[80];
    const rn_status status = part_bring(a, t);
    if (status) return status;
    a->is_exact = true;
    for (int64_t i = 0; i < n; i += CHUNK) {
        const int64_t count = n - i < CHUNK ? n - i : CHUNK;
        format_decode(a->in.scale_format, t->data + i * size, scale, count);
        for (int64_t k = 0; k < count; k++) {
            if (!isfinite(scale[k])) {
                snprintf(text, sizeof text, "scale %" PRId64 " is %g", i + k, (double)scale[k]);
                return fail(a, t, RN_ERR_MODEL, text);
            }
            if (a->in.scale_format != FORMAT_F16)
                a->is_exact &= f16_to_f32(f32_to_f16(scale[k])) == scale[k];
        }
    }
    return RN_OK;
}

// The columns of a group: the config's number where it gives as many groups, and the last one may
// be shorter. Other sizes follow from the number of groups, and must be powers of two: any other
// quotient is more likely a size with a shorter last group. compressed-tensors has no sizes but
// those of its schemes.
static rn_status group_fit(struct adopting *a, const struct st_tensor *scales) {
    struct integers *in = &a->in;
    const int64_t told = a->c->quant.group, n = in->n_group, even = in->cols / n;
    const bool is_free = told == 0 || a->c->quant.integers != HF_INTEGERS_PACKED;
    in->group = n == 1                                                                ? in->cols
                : told > 0 && (in->cols - 1) / told + 1 == n                          ? told
                : is_free && even > 0 && even * n == in->cols && !(even & (even - 1)) ? even
                                                                                      : 0;
    if (in->group > 0) return RN_OK;
    char text[160];
    snprintf(text, sizeof text,
             "%" PRId64 " groups do not fit %" PRId64 " inputs and group_size %" PRId64, n,
             in->cols, told);
    return fail(a, scales, RN_ERR_MODEL, text);
}

// ---------------------------------------------------------------- groups of inputs

// Of an input.
static int32_t group_at(const struct st_tensor *t, int64_t input) {
    int32_t group;
    memcpy(&group, t->data + input * (int64_t)sizeof group, sizeof group);
    return group;
}

static bool is_in_order(const struct integers *in, const struct st_tensor *t) {
    for (int64_t i = 0; i < in->cols; i++)
        if (group_at(t, i) != i / in->group) return false;
    return true;
}

// Columns by their groups, and in these as they come.
static rn_status order_make(struct adopting *a, const struct st_tensor *t) {
    struct integers *in = &a->in;
    struct arena *arena = &a->c->weights->arena;
    int32_t *order = arena_array(arena, (size_t)in->cols, sizeof *order);
    int32_t *first = arena_array(arena, (size_t)in->n_group + 2, sizeof *first);
    if (!order || !first || in->cols > INT32_MAX) return fail(a, t, RN_ERR_NOMEM, "out of memory");
    for (int64_t i = 0; i < in->cols; i++) first[group_at(t, i) + 2]++;
    for (int64_t g = 2; g < in->n_group + 2; g++) first[g] += first[g - 1];
    for (int64_t i = 0; i < in->cols; i++) order[first[group_at(t, i) + 1]++] = (int32_t)i;
    in->order = order;
    in->first = first;
    return RN_OK;
}

// The groups that a tensor gives the inputs. In compressed-tensors -1 of any means that they are in
// order.
static rn_status order_read(struct adopting *a, const char *end) {
    const struct integers *in = &a->in;
    const struct st_tensor *t = end ? part_find(a, end) : NULL;
    if (!t) return RN_OK;
    if (strcmp(t->dtype_name, "I32") != 0 || t->n_dims != 1 || t->dim[0] != in->cols)
        return fail(a, t, RN_ERR_MODEL, "a group in I32 is expected for each input");
    const rn_status status = part_bring(a, t);
    if (status) return status;
    for (int64_t i = 0; a->c->quant.integers == HF_INTEGERS_PACKED && i < in->cols; i++)
        if (group_at(t, i) == -1) return RN_OK;
    for (int64_t i = 0; i < in->cols; i++) {
        if (group_at(t, i) >= 0 && group_at(t, i) < in->n_group) continue;
        char text[120];
        snprintf(text, sizeof text, "input %" PRId64 " is of group %d, there are %" PRId64, i,
                 group_at(t, i), in->n_group);
        return fail(a, t, RN_ERR_MODEL, text);
    }
    return is_in_order(in, t) ? RN_OK : order_make(a, t);
}

// ---------------------------------------------------------------- layouts

// Scales of [groups, outputs].
static void scales_by_group(struct integers *in, const struct st_tensor *scales) {
    in->rows = in->scale_col = scales->dim[0];
    in->n_group = scales->dim[1];
    in->scale_row = 1;
}

// Zero points of [groups, outputs], packed along the outputs.
static void zeros_by_group(struct integers *in, const struct st_tensor *zeros) {
    in->zero = (struct packed){.data = zeros->data,
                               .bytes = zeros->bytes,
                               .file = zeros->file,
                               .bits = in->code.bits,
                               .is_mixed = in->code.is_mixed,
                               .row_per = WORD_BITS / in->code.bits,
                               .col_per = 1,
                               .row_bytes = WORD_BYTES,
                               .col_bytes = WORD_BYTES * zeros->dim[0]};
}

static rn_status fail_bits(const struct adopting *a, const struct st_tensor *zeros) {
    char text[120];
    snprintf(text, sizeof text,
             "%" PRId64 " words for %" PRId64 " outputs are of neither 2, 4 nor 8 bits",
             zeros->dim[0], a->in.rows);
    return fail(a, zeros, RN_ERR_UNSUPPORTED, text);
}

static rn_status gptq_read(struct adopting *a, const struct st_tensor *scales) {
    struct integers *in = &a->in;
    const struct st_tensor *codes = a->codes, *zeros = part_find(a, ".qzeros");
    rn_status s;
    if (!zeros) return fail(a, codes, RN_ERR_MODEL, "its zero points are missing: NAME.qzeros");
    scales_by_group(in, scales);
    const int64_t words = zeros->dim[0]; // any number, where the tensor is empty
    const int64_t bits = words <= in->rows ? words * WORD_BITS / in->rows : 0;
    if (bits != 2 && bits != 4 && bits != 8) return fail_bits(a, zeros);
    if ((s = check_words(a, zeros, in->n_group, words_of(in->rows, (int)bits)))) return s;
    if ((s = check_words(a, codes, codes->dim[1], in->rows))) return s;
    in->cols = codes->dim[1] * WORD_BITS / bits;
    in->code = (struct packed){.bits = (int)bits,
                               .row_per = 1,
                               .col_per = WORD_BITS / (int)bits,
                               .row_bytes = WORD_BYTES,
                               .col_bytes = WORD_BYTES * in->rows};
    zeros_by_group(in, zeros);
    // 1 was subtracted from whole words, so a zero point of 0 borrows from its neighbour.
    if (a->c->quant.is_less_one) in->zero.word_add = UINT32_MAX / ((1U << bits) - 1);
    return RN_OK;
}

static rn_status awq_read(struct adopting *a, const struct st_tensor *scales) {
    enum { BITS = 4 };
    struct integers *in = &a->in;
    const struct st_tensor *codes = a->codes, *zeros = part_find(a, ".qzeros");
    rn_status s;
    if (!zeros) return fail(a, codes, RN_ERR_MODEL, "its zero points are missing: NAME.qzeros");
    scales_by_group(in, scales);
    if (in->rows * BITS % WORD_BITS != 0)
        return fail(a, scales, RN_ERR_MODEL, "outputs are expected in words of 8");
    if ((s = check_words(a, zeros, in->n_group, words_of(in->rows, BITS)))) return s;
    if ((s = check_words(a, codes, codes->dim[1], words_of(in->rows, BITS)))) return s;
    in->cols = codes->dim[1];
    in->code = (struct packed){.bits = BITS,
                               .is_mixed = true,
                               .row_per = WORD_BITS / BITS,
                               .col_per = 1,
                               .row_bytes = WORD_BYTES,
                               .col_bytes = WORD_BYTES * codes->dim[0]};
    zeros_by_group(in, zeros);
    return RN_OK;
}

// Scales of [outputs, groups] or [outputs], or one for all.
static rn_status scales_by_row(struct adopting *a, const struct st_tensor *scales) {
    struct integers *in = &a->in;
    const bool is_row = scales->n_dims == 1;
    in->n_group = is_row ? 1 : scales->dim[0];
    in->scale_row = in->n_group;
    in->scale_col = 1;
    if ((is_row ? scales->dim[0] : scales->dim[1]) == in->rows) return RN_OK;
    if (scales->dim[0] != 1 || scales->dim[1] != 1) return fail_shape(a, scales, in->rows, 1);
    in->scale_row = 0;
    return RN_OK;
}

// The shape behind the words, which may have padding.
static rn_status shape_read(struct adopting *a) {
    const struct st_tensor *t = part_find(a, ".weight_shape");
    int64_t dim[2] = {0, 0};
    if (!t) return fail(a, a->codes, RN_ERR_MODEL, "its shape is missing: NAME.weight_shape");
    if (t->n_dims != 1 || t->dim[0] != 2)
        return fail(a, t, RN_ERR_MODEL, "two numbers are expected");
    const rn_status status = part_bring(a, t);
    if (status) return status;
    if (strcmp(t->dtype_name, "I64") == 0) {
        memcpy(dim, t->data, sizeof dim);
    } else if (strcmp(t->dtype_name, "I32") == 0) {
        int32_t small[2];
        memcpy(small, t->data, sizeof small);
        dim[0] = small[0];
        dim[1] = small[1];
    } else {
        return fail(a, t, RN_ERR_UNSUPPORTED, "a shape is expected in I64 or I32");
    }
    a->in.rows = dim[0];
    a->in.cols = dim[1];
    if (dim[0] > 0 && dim[1] > 0 && dim[0] == a->codes->dim[1] && dim[1] <= INT32_MAX) return RN_OK;
    char text[160];
    snprintf(text, sizeof text,
             "[%" PRId64 ", %" PRId64 "] does not fit the %" PRId64 " rows of codes", dim[0],
             dim[1], a->codes->dim[1]);
    return fail(a, t, RN_ERR_MODEL, text);
}

// Zero points of [outputs, groups]: packed along the outputs like codes, or bytes with a sign as
// the first folders have them. None: they are in the middle of the codes.
static rn_status zeros_by_row(struct adopting *a) {
    struct integers *in = &a->in;
    const int bits = in->code.bits;
    const struct st_tensor *zeros = part_find(a, ".weight_zero_point");
    in->zero.all = 1 << (bits - 1);
    if (!zeros) return RN_OK;
    if (is_matrix(zeros, "I8", in->rows, in->n_group)) {
        in->zero_add = in->zero.all - SIGN;
        in->zero = (struct packed){.data = zeros->data,
                                   .bytes = zeros->bytes,
                                   .file = zeros->file,
                                   .bits = 8,
                                   .flip = SIGN,
                                   .row_per = 1,
                                   .col_per = 1,
                                   .row_bytes = in->n_group,
                                   .col_bytes = 1};
        return RN_OK;
    }
    in->zero = (struct packed){.data = zeros->data,
                               .bytes = zeros->bytes,
                               .file = zeros->file,
                               .bits = bits,
                               .row_per = WORD_BITS / bits,
                               .col_per = 1,
                               .row_bytes = WORD_BYTES * in->n_group,
                               .col_bytes = WORD_BYTES};
    return check_words(a, zeros, words_of(in->rows, bits), in->n_group);
}

static rn_status packed_read(struct adopting *a, const struct st_tensor *scales) {
    struct integers *in = &a->in;
    const struct st_tensor *codes = a->codes;
    rn_status s = shape_read(a);
    if (s) return s;
    const int told = a->c->quant.bits;
    const int bits = told ? told : words_of(in->cols, 4) == codes->dim[0] ? 4 : 8;
    if ((s = check_words(a, codes, in->rows, words_of(in->cols, bits)))) return s;
    if ((s = scales_by_row(a, scales))) return s;
    in->code = (struct packed){.bits = bits,
                               .row_per = 1,
                               .col_per = WORD_BITS / bits,
                               .row_bytes = WORD_BYTES * codes->dim[0],
                               .col_bytes = WORD_BYTES};
    return zeros_by_row(a);
}

// Bytes with a sign. With the highest bit inverted they are codes around 128.
static rn_status bytes_read(struct adopting *a, const struct st_tensor *scales) {
    struct integers *in = &a->in;
    const struct st_tensor *codes = a->codes;
    if (codes->n_dims != 2 || codes->bytes == 0)
        return fail(a, codes, RN_ERR_UNSUPPORTED, "I8 is supported for matrices alone");
    in->rows = codes->dim[1];
    in->cols = codes->dim[0];
    in->code = (struct packed){
        .bits = 8, .flip = SIGN, .row_per = 1, .col_per = 1, .row_bytes = in->cols, .col_bytes = 1};
    const rn_status status = scales_by_row(a, scales);
    return status ? status : zeros_by_row(a);
}

// ---------------------------------------------------------------- formats

static void range_add(int zero, int *least, int *most) {
    if (zero < *least) *least = zero;
    if (zero > *most) *most = zero;
}

// The bytes of all zero points, where none is padding.
static void bytes_range(const struct integers *in, int *least, int *most) {
    const struct packed *p = &in->zero;
    const int64_t n = in->rows * p->bits / 8 * in->n_group;
    bool seen[BYTES] = {0};
    for (int64_t i = 0; i < n; i++) seen[integers_byte(p, i)] = true;
    for (int byte = 0; byte < BYTES; byte++)
        for (int shift = 0; seen[byte] && shift < 8; shift += p->bits)
            range_add((byte >> shift & ((1 << p->bits) - 1)) + in->zero_add, least, most);
}

static void zeros_range(const struct integers *in, int *least, int *most) {
    *least = *most = integers_zero(in, 0, 0);
    if (!in->zero.data) return;
    if (in->rows % in->zero.row_per == 0) {
        bytes_range(in, least, most);
        return;
    }
    for (int64_t r = 0; r < in->rows; r++)
        for (int64_t g = 0; g < in->n_group; g++) range_add(integers_zero(in, r, g), least, most);
}

// The first that has all code - zero point, if groups are whole blocks and scales stay what they
// are.
static enum st_dtype dtype_choose(const struct adopting *a) {
    const struct integers *in = &a->in;
    int least, most;
    zeros_range(in, &least, &most);
    const int low = -most, high = (1 << in->code.bits) - 1 - least;
    const bool is_blocks = in->cols % BLOCK == 0 && (in->n_group == 1 || in->group % BLOCK == 0);
    if (is_blocks && a->is_exact && !in->order) {
        if (low >= -8 && high < 8) return ST_Q4_0;
        if (low >= -16 && high < 16) return ST_Q5_0;
        if (low >= -128 && high < 128) return ST_Q8_0;
    }
    return in->scale_format == FORMAT_F16 ? ST_F16 : ST_BF16;
}

static const enum format_id formats[] = {[ST_F16] = FORMAT_F16,
                                         [ST_BF16] = FORMAT_BF16,
                                         [ST_Q4_0] = FORMAT_Q4_0,
                                         [ST_Q5_0] = FORMAT_Q5_0,
                                         [ST_Q8_0] = FORMAT_Q8_0};

static const enum st_dtype ranks[] = {ST_Q4_0, ST_Q5_0, ST_Q8_0, ST_F16, ST_BF16};

int integers_rank(enum st_dtype dtype) {
    int rank = 0;
    while (ranks[rank] != dtype) rank++;
    return rank;
}

enum st_dtype integers_dtype(int rank) { return ranks[rank]; }

void integers_widen(struct weights *weights, struct st_tensor *t, enum st_dtype dtype) {
    struct integers *in = &weights->derived[t->derived].integers;
    in->format = formats[dtype];
    t->dtype = dtype;
    t->bytes = format_row_bytes(in->format, in->cols) * (uint64_t)in->rows;
}

enum st_dtype integers_plain(const struct weights *weights, const struct st_tensor *t) {
    const struct integers *in = &weights->derived[t->derived].integers;
    return in->scale_format == FORMAT_F16 ? ST_F16 : ST_BF16;
}

// ---------------------------------------------------------------- all of them

// Programs of GPTQ give every matrix a bias, of zeros where the model has none.
static rn_status bias_forget(const struct adopting *a) {
    char full[2 * ST_NAME_MAX];
    snprintf(full, sizeof full, "%s.bias", a->stem);
    const struct st_tensor *found = st_find(a->table, full);
    if (!found) return RN_OK;
    const rn_status status = part_bring(a, found);
    for (uint64_t i = 0; !status && i < found->bytes; i++)
        if (found->data[i]) return RN_OK;
    a->table->tensors[found - a->table->tensors].is_known = true;
    return status;
}

static rn_status name_make(struct adopting *a) {
    char full[2 * ST_NAME_MAX];
    snprintf(full, sizeof full, "%s.weight", a->stem);
    const struct st_tensor *other = st_find(a->table, full);
    if (other && other != a->codes)
        return fail(a, a->codes, RN_ERR_MODEL, "its NAME.weight is there too");
    a->codes->as = arena_strdup(&a->table->arena, full, strlen(full));
    return a->codes->as ? RN_OK : fail(a, a->codes, RN_ERR_NOMEM, "out of memory");
}

struct layout {
    enum hf_integers kind;
    const char *end, *dtype;    // of the tensor of codes; dtype NULL: any
    const char *scales, *order; // order NULL: inputs are always in order
    rn_status (*read)(struct adopting *a, const struct st_tensor *scales);
};

static rn_status tensor_adopt(struct adopting *a, const struct layout *layout) {
    struct st_tensor *t = a->codes, *scales;
    rn_status s;
    a->in = (struct integers){0};
    if ((s = name_make(a)) || (s = scales_find(a, layout->scales, &scales)) ||
        (s = layout->read(a, scales)) || (s = group_fit(a, scales)) ||
        (s = scales_check(a, scales)) || (s = order_read(a, layout->order)))
        return s;
    a->in.code.data = t->data;
    a->in.code.bytes = t->bytes;
    a->in.code.file = t->file;
    if (a->c->quant.needs_order && a->in.n_group > 1 && !part_find(a, layout->order))
        return fail(a, t, RN_ERR_MODEL, "its g_idx is missing, the config has desc_act");
    if ((s = bias_forget(a))) return s;
    s = store_bring(a->c->weights, a->in.zero.data, a->in.zero.bytes, a->c->err);
    if (s) return s;
    const enum st_dtype dtype = dtype_choose(a);
    struct derived *derived = derived_push(a->c->weights, t, CODES_INTEGERS);
    if (!derived) return fail(a, t, RN_ERR_NOMEM, "out of memory");
    derived->integers = a->in;
    t->n_dims = 2;
    t->dim[0] = a->in.cols;
    t->dim[1] = a->in.rows;
    integers_widen(a->c->weights, t, dtype);
    return RN_OK;
}

static const struct layout *layout_of(struct adopting *a, const struct st_tensor *t) {
    static const struct layout layouts[] = {
        {HF_INTEGERS_GPTQ, ".qweight", NULL, ".scales", ".g_idx", gptq_read},
        {HF_INTEGERS_AWQ, ".qweight", NULL, ".scales", NULL, awq_read},
        {HF_INTEGERS_PACKED, ".weight_packed", NULL, ".weight_scale", ".weight_g_idx", packed_read},
        {HF_INTEGERS_PACKED, ".weight", "I8", ".weight_scale", ".weight_g_idx", bytes_read},
    };
    const size_t len = strlen(t->name);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const struct layout *layout = &layouts[i];
        const size_t end = strlen(layout->end);
        if (layout->kind != a->c->quant.integers || len <= end ||
            strcmp(t->name + len - end, layout->end) != 0 ||
            (layout->dtype && strcmp(t->dtype_name, layout->dtype) != 0))
            continue;
        snprintf(a->stem, sizeof a->stem, "%.*s", (int)(len - end), t->name);
        return layout;
    }
    return NULL;
}

rn_status integers_adopt(struct hf_config *c, struct st_table *table) {
    struct adopting a = {.c = c, .table = table};
    if (c->quant.integers == HF_INTEGERS_NONE) return RN_OK;
    for (int i = 0; i < table->n; i++) {
        const struct layout *layout = layout_of(&a, &table->tensors[i]);
        a.codes = &table->tensors[i];
        const rn_status status = layout ? tensor_adopt(&a, layout) : RN_OK;
        store_bring_end(c->weights);
        if (status) return status;
    }
    return RN_OK;
}
