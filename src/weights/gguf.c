// Reads GGUF versions 2 and 3, little-endian. The file is hostile until every field was checked:
// 1. nothing is read except through take(), which knows how many bytes are left and brings them;
// 2. every size computed from the file goes through base/checked.h, before it is padded or used;
// 3. counts are never believed: tables grow as entries are found, and are capped (store.h);
// 4. nothing recurses: arrays of arrays are refused.
// A message names the file, the field, the value and the offset. Called by weights.c, and for each
// part of a split file by gguf_split.c.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "weights/store.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF is read by plain loads");

enum {
    GGUF_MAGIC = 0x46554747, // "GGUF"
    ALIGNMENT_DEFAULT = 32,
    ALIGNMENT_MAX = 1 << 20,
    KEY_MAX = 65535,
    TENSOR_NAME_MAX = 127, // the format says 64; writers in use exceed it
    WALKED_MAX = 1 << 24,  // strings and bools looked at one by one, in the whole file
};

struct reader {
    struct weights *weights;
    const struct store_file *file;
    int file_index;
    struct store_metas *metas;
    rn_error *err;
    uint64_t at;     // offset of the next byte; never past the file's size
    uint64_t walked; // see WALKED_MAX
    // The part that is being read, for messages: "key" 4, once known also its name.
    const char *part;
    int64_t index; // -1: the part has none
    const char *name;
};

// "key 4", "value of key 4 (general.alignment)", "tensor 7 (blk.0.attn_q.weight)", "header"
static void place_text(const struct reader *reader, char *text, size_t size) {
    int len = snprintf(text, size, "%s", reader->part);
    if (reader->index >= 0) {
        len += snprintf(text + len, size - (size_t)len, " %" PRId64, reader->index);
    }
    if (reader->name) snprintf(text + len, size - (size_t)len, " (%.128s)", reader->name);
}

// The status is repeated so that the compiler sees which values are set on success only.
#define FAIL(reader, status, fmt, ...)                                                             \
    ((void)err_set((reader)->err, status, "%s: " fmt, (reader)->file->path, __VA_ARGS__), status)

static rn_status nomem(const struct reader *reader) {
    return err_set(reader->err, RN_ERR_NOMEM, "%s: out of memory", reader->file->path);
}

static rn_status take(struct reader *reader, uint64_t bytes, const uint8_t **out) {
    const uint64_t left = reader->file->size - reader->at;
    if (bytes > left) {
        char place[192];
        place_text(reader, place, sizeof place);
        return FAIL(reader, RN_ERR_MODEL,
                    "truncated at offset %" PRIu64 " while reading %s: %" PRIu64
                    " bytes are needed and %" PRIu64 " are left",
                    reader->at, place, bytes, left);
    }
    *out = reader->file->data + reader->at;
    reader->at += bytes;
    return store_header_read(reader->weights, reader->file_index, reader->at, reader->err);
}

static rn_status read_u32(struct reader *reader, uint32_t *out) {
    const uint8_t *bytes;
    const rn_status status = take(reader, sizeof *out, &bytes);
    if (status == RN_OK) memcpy(out, bytes, sizeof *out);
    return status;
}

static rn_status read_u64(struct reader *reader, uint64_t *out) {
    const uint8_t *bytes;
    const rn_status status = take(reader, sizeof *out, &bytes);
    if (status == RN_OK) memcpy(out, bytes, sizeof *out);
    return status;
}

static rn_status read_string(struct reader *reader, const uint8_t **text, uint64_t *len) {
    const rn_status status = read_u64(reader, len);
    return status == RN_OK ? take(reader, *len, text) : status;
}

// A key or a tensor's name, copied. `limit` is the longest that is taken.
static rn_status read_name(struct reader *reader, uint64_t limit, const char **out) {
    const uint64_t start = reader->at;
    const uint8_t *text;
    uint64_t len, total;
    const rn_status status = read_string(reader, &text, &len);
    if (status != RN_OK) return status;
    char place[192];
    place_text(reader, place, sizeof place);
    if (len == 0 || len > limit) {
        return FAIL(reader, RN_ERR_MODEL,
                    "%s at offset %" PRIu64 ": a name of %" PRIu64
                    " bytes is not between 1 and %" PRIu64,
                    place, start, len, limit);
    }
    const uint8_t *nul = memchr(text, 0, (size_t)len);
    if (nul) {
        return FAIL(reader, RN_ERR_MODEL, "%s at offset %" PRIu64 ": NUL at byte %td of the name",
                    place, start, nul - text);
    }
    if (!ck_add(reader->weights->name_bytes, len, &total) || total > STORE_MAX_NAME_BYTES) {
        return FAIL(reader, RN_ERR_MODEL,
                    "%s at offset %" PRIu64 ": the names take %" PRIu64
                    " bytes, over the limit of %d",
                    place, start, total, STORE_MAX_NAME_BYTES);
    }
    *out = store_name_dup(reader->weights, text, len);
    return *out ? RN_OK : nomem(reader);
}

static rn_status check_bools(const struct reader *reader, const uint8_t *bytes, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (bytes[i] > 1) {
            return FAIL(reader, RN_ERR_MODEL,
                        "key %.128s: bool at offset %" PRIu64 " is %d, expected 0 or 1",
                        reader->name, (uint64_t)(bytes - reader->file->data) + i, bytes[i]);
        }
    }
    return RN_OK;
}

static rn_status read_type(struct reader *reader, enum meta_type *out) {
    const uint64_t start = reader->at;
    uint32_t number;
    const rn_status status = read_u32(reader, &number);
    if (status != RN_OK) return status;
    if (number >= META_TYPE_COUNT) {
        return FAIL(reader, RN_ERR_MODEL,
                    "key %.128s: value type %" PRIu32 " at offset %" PRIu64 " is unknown",
                    reader->name, number, start);
    }
    *out = (enum meta_type)number;
    return RN_OK;
}

// Strings are walked, so that a cursor over them later cannot leave the value; they are not
// indexed.
static rn_status read_array_strings(struct reader *reader, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *text;
        uint64_t len;
        const rn_status status = read_string(reader, &text, &len);
        if (status != RN_OK) return status;
    }
    return RN_OK;
}

static rn_status read_array_numbers(struct reader *reader, const struct meta_view *meta) {
    const uint64_t start = reader->at, size = store_type_bytes[meta->item_type];
    uint64_t bytes;
    const uint8_t *items;
    if (!ck_mul(meta->count, size, &bytes)) {
        return FAIL(reader, RN_ERR_MODEL,
                    "key %.128s: %" PRIu64 " items of %" PRIu64 " bytes at offset %" PRIu64
                    " overflow",
                    reader->name, meta->count, size, start);
    }
    const rn_status status = take(reader, bytes, &items);
    if (status != RN_OK || meta->item_type != META_BOOL) return status;
    return check_bools(reader, items, meta->count);
}

static rn_status read_array(struct reader *reader, struct meta_view *meta) {
    const uint64_t start = reader->at;
    rn_status status = read_type(reader, &meta->item_type);
    if (status == RN_OK) status = read_u64(reader, &meta->count);
    if (status != RN_OK) return status;
    if (meta->item_type == META_ARRAY) {
        return FAIL(reader, RN_ERR_MODEL,
                    "key %.128s: array of arrays at offset %" PRIu64 " is not supported",
                    reader->name, start);
    }
    if (meta->item_type == META_STRING || meta->item_type == META_BOOL) {
        if (meta->count > WALKED_MAX - reader->walked) {
            return FAIL(reader, RN_ERR_MODEL,
                        "key %.128s: array of %" PRIu64 " items at offset %" PRIu64
                        " is over the limit of %d",
                        reader->name, meta->count, start, WALKED_MAX);
        }
        reader->walked += meta->count;
    }
    meta->offset = reader->at;
    return meta->item_type == META_STRING ? read_array_strings(reader, meta->count)
                                          : read_array_numbers(reader, meta);
}

// Leaves offset at the value's first byte and reader->at behind its last.
static rn_status read_value(struct reader *reader, struct meta_view *meta) {
    const uint8_t *bytes;
    if (meta->type == META_ARRAY) return read_array(reader, meta);
    if (meta->type == META_STRING) {
        const rn_status status = read_u64(reader, &meta->count);
        if (status != RN_OK) return status;
        meta->offset = reader->at;
        return take(reader, meta->count, &bytes);
    }
    meta->count = 1;
    meta->offset = reader->at;
    const rn_status status = take(reader, store_type_bytes[meta->type], &bytes);
    if (status != RN_OK || meta->type != META_BOOL) return status;
    return check_bools(reader, bytes, 1);
}

static rn_status read_meta(struct reader *reader, int64_t index) {
    reader->part = "key";
    reader->index = index;
    reader->name = NULL;
    struct meta_view meta = {0};
    rn_status status = read_name(reader, KEY_MAX, &meta.key);
    if (status != RN_OK) return status;
    reader->part = "value of key";
    reader->name = meta.key;
    status = read_type(reader, &meta.type);
    if (status == RN_OK) status = read_value(reader, &meta);
    if (status != RN_OK) return status;
    meta.data = reader->file->data + meta.offset;
    meta.bytes = reader->at - meta.offset;
    struct meta_view *slot = store_meta_push(reader->metas);
    if (!slot) return nomem(reader);
    *slot = meta;
    return RN_OK;
}

static rn_status read_alignment(struct reader *reader, uint64_t *out) {
    *out = ALIGNMENT_DEFAULT;
    const struct meta_view *meta = store_metas_find(reader->metas, "general.alignment");
    if (!meta) return RN_OK;
    if (meta->type != META_U32) {
        return FAIL(reader, RN_ERR_MODEL,
                    "key general.alignment: value type %d at offset %" PRIu64
                    " is not %d, a 32-bit unsigned integer",
                    (int)meta->type, meta->offset, META_U32);
    }
    uint32_t value;
    memcpy(&value, meta->data, sizeof value);
    if (value == 0 || (value & (value - 1)) != 0 || value > ALIGNMENT_MAX) {
        return FAIL(reader, RN_ERR_MODEL,
                    "key general.alignment: %" PRIu32 " at offset %" PRIu64
                    " is not a power of two between 1 and %d",
                    value, meta->offset, ALIGNMENT_MAX);
    }
    *out = value;
    return RN_OK;
}

static rn_status read_dims(struct reader *reader, struct tensor_view *tensor) {
    const uint64_t start = reader->at;
    uint32_t n_dims;
    rn_status status = read_u32(reader, &n_dims);
    if (status != RN_OK) return status;
    if (n_dims < 1 || n_dims > WEIGHTS_MAX_DIMS) {
        return FAIL(reader, RN_ERR_MODEL,
                    "tensor %s: %" PRIu32 " dimensions at offset %" PRIu64 ", expected 1 to %d",
                    tensor->name, n_dims, start, WEIGHTS_MAX_DIMS);
    }
    tensor->n_dims = (int)n_dims;
    for (int i = 0; i < WEIGHTS_MAX_DIMS; i++) tensor->dim[i] = 1;
    uint64_t product = 1;
    for (int i = 0; i < tensor->n_dims; i++) {
        const uint64_t at = reader->at;
        uint64_t dim;
        status = read_u64(reader, &dim);
        if (status != RN_OK) return status;
        if (dim == 0 || !ck_mul(product, dim, &product) || product > INT64_MAX) {
            return FAIL(reader, RN_ERR_MODEL,
                        "tensor %s: dimension %d at offset %" PRIu64 " is %" PRIu64 ": %s",
                        tensor->name, i, at, dim,
                        dim == 0 ? "it must be at least 1" : "the number of elements overflows");
        }
        tensor->dim[i] = (int64_t)dim;
    }
    return RN_OK;
}

static rn_status format_fail(const struct reader *reader, const char *tensor, uint32_t number,
                             uint64_t start) {
    const char *name = format_gguf_name(number), *advice = format_gguf_advice(number);
    if (*name != '?')
        return FAIL(reader, RN_ERR_UNSUPPORTED,
                    "tensor %s: format %s (%" PRIu32 ") at offset %" PRIu64 " is not supported%s%s",
                    tensor, name, number, start, advice ? ": " : "", advice ? advice : "");
    return FAIL(reader, RN_ERR_UNSUPPORTED,
                "tensor %s: format %" PRIu32 " at offset %" PRIu64 " is unknown: %s", tensor,
                number, start, advice ? advice : "the file is damaged, or newer than this program");
}

static rn_status read_format(struct reader *reader, struct tensor_view *tensor) {
    const uint64_t start = reader->at;
    uint32_t number;
    const rn_status status = read_u32(reader, &number);
    if (status != RN_OK) return status;
    const int id = format_find_gguf(number);
    if (id < 0) return format_fail(reader, tensor->name, number, start);
    tensor->format = (enum format_id)id;
    return RN_OK;
}

static rn_status size_tensor(const struct reader *reader, struct tensor_view *tensor) {
    const struct format *format = format_at(tensor->format);
    if (tensor->dim[0] % format->block != 0) {
        return FAIL(reader, RN_ERR_MODEL,
                    "tensor %s: row length %" PRId64 " is not a multiple of %d, the block of %s",
                    tensor->name, tensor->dim[0], format->block, format->name);
    }
    uint64_t bytes;
    bool fits =
        ck_mul((uint64_t)(tensor->dim[0] / format->block), (uint64_t)format->block_bytes, &bytes);
    for (int i = 1; i < WEIGHTS_MAX_DIMS; i++) {
        fits = fits && ck_mul(bytes, (uint64_t)tensor->dim[i], &bytes);
    }
    if (!fits) {
        return FAIL(reader, RN_ERR_MODEL,
                    "tensor %s: the bytes of %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
                    " elements of %s overflow",
                    tensor->name, tensor->dim[0], tensor->dim[1], tensor->dim[2], tensor->dim[3],
                    format->name);
    }
    tensor->bytes = bytes;
    return RN_OK;
}

// Leaves in tensor->offset the file's value, which is relative to the data; see place_tensor.
static rn_status read_tensor(struct reader *reader, int64_t index, uint64_t alignment) {
    reader->part = "tensor";
    reader->index = index;
    reader->name = NULL;
    struct tensor_view tensor = {.file = reader->file_index};
    rn_status status = read_name(reader, TENSOR_NAME_MAX, &tensor.name);
    if (status != RN_OK) return status;
    reader->name = tensor.name;
    status = read_dims(reader, &tensor);
    if (status == RN_OK) status = read_format(reader, &tensor);
    if (status == RN_OK) status = size_tensor(reader, &tensor);
    if (status == RN_OK) status = read_u64(reader, &tensor.offset);
    if (status != RN_OK) return status;
    if (tensor.offset % alignment != 0) {
        return FAIL(reader, RN_ERR_MODEL,
                    "tensor %s: offset %" PRIu64 " is not a multiple of the alignment, %" PRIu64,
                    tensor.name, tensor.offset, alignment);
    }
    struct tensor_view *slot = store_tensor_push(reader->weights);
    if (!slot) return nomem(reader);
    *slot = tensor;
    return RN_OK;
}

// Turns the offset in the data into an offset in the file, and checks that the tensor is inside the
// file.
static rn_status place_tensor(const struct reader *reader, uint64_t data_start,
                              struct tensor_view *tensor) {
    const uint64_t relative = tensor->offset;
    uint64_t start, end;
    if (!ck_add(data_start, relative, &start) || !ck_add(start, tensor->bytes, &end)) {
        return FAIL(reader, RN_ERR_MODEL,
                    "tensor %s: offset %" PRIu64 " + %" PRIu64 " + %" PRIu64 " bytes overflows",
                    tensor->name, data_start, relative, tensor->bytes);
    }
    if (end > reader->file->size) {
        return FAIL(reader, RN_ERR_MODEL,
                    "tensor %s: offset %" PRIu64 " + %" PRIu64
                    " bytes is past the end of the file, %" PRIu64,
                    tensor->name, start, tensor->bytes, reader->file->size);
    }
    tensor->offset = start;
    tensor->data = reader->file->data + start;
    return RN_OK;
}

static rn_status read_count(struct reader *reader, const char *field, uint64_t limit,
                            uint64_t *out) {
    const uint64_t start = reader->at;
    const rn_status status = read_u64(reader, out);
    if (status != RN_OK || *out <= limit) return status;
    return FAIL(reader, RN_ERR_MODEL,
                "%s at offset %" PRIu64 " is %" PRIu64 ", over the limit of %" PRIu64, field, start,
                *out, limit);
}

static rn_status read_version(struct reader *reader) {
    const uint64_t start = reader->at;
    uint32_t version;
    const rn_status status = read_u32(reader, &version);
    if (status != RN_OK) return status;
    const uint32_t swapped = __builtin_bswap32(version);
    if (swapped >= 1 && swapped <= 3) {
        return FAIL(reader, RN_ERR_UNSUPPORTED,
                    "version at offset %" PRIu64 " is 0x%08" PRIx32 ": a big-endian GGUF v%" PRIu32
                    " file, only little-endian is supported",
                    start, version, swapped);
    }
    if (version != 2 && version != 3) {
        return FAIL(reader, RN_ERR_UNSUPPORTED,
                    "version at offset %" PRIu64 " is %" PRIu32
                    ": only GGUF versions 2 and 3 are supported",
                    start, version);
    }
    snprintf(reader->weights->container, sizeof reader->weights->container, "GGUF v%u", version);
    return RN_OK;
}

// Files that people take for a model; NULL if it is none of them.
static const char *magic_find(uint32_t magic) {
    static const struct {
        char first[5];
        const char *what;
    } files[] = {
        {"PK\3\4",
         "a ZIP file, as PyTorch writes weights: convert the model to GGUF or safetensors"},
        {"vers", "the pointer of Git LFS to a file: 'git lfs pull' brings the file itself"},
        {"lmgg", "a file in a form before GGUF: take a GGUF file of the model"},
        {"tjgg", "a file in a form before GGUF: take a GGUF file of the model"},
        {"fmgg", "a file in a form before GGUF: take a GGUF file of the model"},
        {"<!do", "a web page: download the file itself"},
        {"<!DO", "a web page: download the file itself"},
        {"<htm", "a web page: download the file itself"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!memcmp(files[i].first, &magic, sizeof magic)) return files[i].what;
    return NULL;
}

static rn_status read_header(struct reader *reader, uint64_t *n_metas, uint64_t *n_tensors) {
    reader->part = "header";
    reader->index = -1;
    uint32_t magic;
    rn_status status = read_u32(reader, &magic);
    if (status != RN_OK) return status;
    const char *what = magic_find(magic);
    if (what) return FAIL(reader, RN_ERR_MODEL, "not a GGUF file: it is %s", what);
    if (magic != GGUF_MAGIC) {
        return FAIL(reader, RN_ERR_MODEL,
                    "not a GGUF file: magic is 0x%08" PRIx32 ", expected 0x%08x (\"GGUF\")", magic,
                    GGUF_MAGIC);
    }
    status = read_version(reader);
    if (status == RN_OK) status = read_count(reader, "n_tensors", STORE_MAX_TENSORS, n_tensors);
    if (status == RN_OK) status = read_count(reader, "n_kv", STORE_MAX_METAS, n_metas);
    return status;
}

static rn_status read_tensors(struct reader *reader, uint64_t n_tensors) {
    struct weights *weights = reader->weights;
    const int first = weights->n_tensors;
    uint64_t alignment, data_start;
    if (n_tensors > (uint64_t)(STORE_MAX_TENSORS - first)) {
        return FAIL(reader, RN_ERR_MODEL,
                    "%" PRIu64 " tensors beside the %d of other parts are over the limit of %d",
                    n_tensors, first, STORE_MAX_TENSORS);
    }
    rn_status status = read_alignment(reader, &alignment);
    for (uint64_t i = 0; status == RN_OK && i < n_tensors; i++) {
        status = read_tensor(reader, (int64_t)i, alignment);
    }
    if (status != RN_OK) return status;
    if (!ck_pad(reader->at, alignment, &data_start)) {
        return FAIL(reader, RN_ERR_MODEL, "offset %" PRIu64 " of the data overflows", reader->at);
    }
    for (int i = first; status == RN_OK && i < weights->n_tensors; i++) {
        status = place_tensor(reader, data_start, &weights->tensors[i]);
    }
    return status == RN_OK ? store_tensors_check_overlap(weights, first, reader->err) : status;
}

rn_status gguf_parse(struct weights *weights, int file, struct store_metas *metas, rn_error *err) {
    struct reader reader = {.weights = weights,
                            .file = &weights->files[file],
                            .file_index = file,
                            .metas = metas,
                            .err = err};
    uint64_t n_metas = 0, n_tensors = 0;
    rn_status status = read_header(&reader, &n_metas, &n_tensors);
    for (uint64_t i = 0; status == RN_OK && i < n_metas; i++) {
        status = read_meta(&reader, (int64_t)i);
    }
    if (status == RN_OK) status = store_metas_index(metas, reader.file->path, err);
    return status == RN_OK ? read_tensors(&reader, n_tensors) : status;
}
