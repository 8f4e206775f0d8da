// Reads the headers of safetensors files: 8 bytes of length, then JSON that gives each tensor's
// type, shape and place in the rest of the file. The file is hostile until checked:
// 1. the header is inside the file and has at most ST_MAX_HEADER bytes;
// 2. a tensor is inside the data behind the header, and its size is that of its shape and type;
// 3. tensors of one file share no bytes, and no name occurs twice;
// 4. tables grow as entries are found and are capped.
// Called by hf_folder.c.
#include "weights/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/jread.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors is read by plain loads");

enum { LENGTH_BYTES = 8, SHAPE_MAX = 8 };

static const struct {
    const char *name;
    int bits; // of an element
    enum st_dtype dtype;
} dtypes[] = {
    {"F32", 32, ST_F32},      {"F16", 16, ST_F16},      {"BF16", 16, ST_BF16},
    {"U8", 8, ST_U8},         {"BOOL", 8, ST_OTHER},    {"I8", 8, ST_OTHER},
    {"F8_E4M3", 8, ST_OTHER}, {"F8_E5M2", 8, ST_OTHER}, {"F8_E8M0", 8, ST_OTHER},
    {"F4", 4, ST_OTHER},      {"F6_E2M3", 6, ST_OTHER}, {"F6_E3M2", 6, ST_OTHER},
    {"I16", 16, ST_OTHER},    {"U16", 16, ST_OTHER},    {"I32", 32, ST_OTHER},
    {"U32", 32, ST_OTHER},    {"I64", 64, ST_OTHER},    {"U64", 64, ST_OTHER},
    {"F64", 64, ST_OTHER},    {"C64", 64, ST_OTHER},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

struct reader {
    struct st_table *table;
    const struct store_file *file;
    int file_index;
    rn_error *err;
    struct jread json;
    uint64_t data_start; // offset of the data in the file
};

// One entry of the header as it stands there.
struct entry {
    char name[ST_NAME_MAX + 1];
    struct jread_text dtype;
    int64_t shape[SHAPE_MAX];
    int n_dims;
    int64_t begin, end; // in the data
};

#define FAIL(reader, status, fmt, ...)                                                             \
    err_set((reader)->err, status, "%s: " fmt, (reader)->file->path, __VA_ARGS__)

static rn_status nomem(const char *path, rn_error *err) {
    return err_set(err, RN_ERR_NOMEM, "%s: out of memory", path);
}

// The JSON reader's complaint, at the place in the file.
static rn_status json_status(const struct reader *r) {
    if (!r->json.error) return RN_OK;
    return FAIL(r, RN_ERR_MODEL, "header: offset %zu: %s", r->json.error_at + LENGTH_BYTES,
                r->json.error);
}

// A name with its escapes resolved. It is used as a C string from here on.
static bool name_read(struct jread *json, const struct jread_text *text,
                      char name[ST_NAME_MAX + 1]) {
    if (text->len == 0 || text->len > ST_NAME_MAX)
        return jread_fail(json, "a name that is empty or too long");
    const size_t len = jread_unescape(text, name);
    if (memchr(name, 0, len)) return jread_fail(json, "a name with a NUL");
    name[len] = 0;
    return true;
}

static bool shape_read(struct jread *json, struct entry *entry) {
    if (!jread_enter_array(json)) return false;
    entry->n_dims = 0;
    while (jread_next_item(json)) {
        if (entry->n_dims == SHAPE_MAX) return jread_fail(json, "more than 8 dimensions");
        int64_t *dim = &entry->shape[entry->n_dims++];
        if (!jread_i64(json, dim)) return false;
        if (*dim < 0) return jread_fail(json, "a negative dimension");
    }
    return !json->error;
}

static bool offsets_read(struct jread *json, struct entry *entry) {
    int64_t offset[2];
    int count = 0;
    if (!jread_enter_array(json)) return false;
    while (jread_next_item(json)) {
        if (count == 2) return jread_fail(json, "more than two data_offsets");
        if (!jread_i64(json, &offset[count++])) return false;
    }
    if (json->error) return false;
    if (count != 2) return jread_fail(json, "data_offsets are not two numbers");
    if (offset[0] < 0 || offset[1] < offset[0])
        return jread_fail(json, "data_offsets that are negative or not in order");
    entry->begin = offset[0];
    entry->end = offset[1];
    return true;
}

static bool entry_read(struct jread *json, struct entry *entry) {
    enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 };
    int seen = 0;
    struct jread_text key;
    if (!jread_enter_object(json)) return false;
    while (jread_next_key(json, &key)) {
        const int field = jread_equals(&key, "dtype")          ? HAS_DTYPE
                          : jread_equals(&key, "shape")        ? HAS_SHAPE
                          : jread_equals(&key, "data_offsets") ? HAS_OFFSETS
                                                               : 0;
        if (seen & field) return jread_fail(json, "a key that was there before");
        seen |= field;
        const bool ok = field == HAS_DTYPE     ? jread_string(json, &entry->dtype)
                        : field == HAS_SHAPE   ? shape_read(json, entry)
                        : field == HAS_OFFSETS ? offsets_read(json, entry)
                                               : jread_skip(json);
        if (!ok) return false;
    }
    if (json->error) return false;
    return seen == HAS_ALL || jread_fail(json, "a tensor without dtype, shape or data_offsets");
}

// Bytes of the shape; false when the number overflows.
static bool shape_bytes(const struct entry *entry, int bits, uint64_t *out) {
    uint64_t total = (uint64_t)bits;
    for (int i = 0; i < entry->n_dims; i++) {
        // An empty tensor is empty for all other dimensions.
        if (entry->shape[i] == 0) {
            *out = 0;
            return true;
        }
    }
    for (int i = 0; i < entry->n_dims; i++)
        if (!ck_mul(total, (uint64_t)entry->shape[i], &total)) return false;
    if (total % 8 != 0) return false;
    *out = total / 8;
    return true;
}

static rn_status tensor_size(const struct reader *r, const struct entry *entry, int bits) {
    const uint64_t have = (uint64_t)(entry->end - entry->begin),
                   data = r->file->size - r->data_start;
    uint64_t want;
    if ((uint64_t)entry->end > data)
        return FAIL(r, RN_ERR_MODEL,
                    "tensor %s: data_offsets %" PRId64 " to %" PRId64
                    " are past the end of the data, %" PRIu64,
                    entry->name, entry->begin, entry->end, data);
    if (bits == 0) return RN_OK; // an unknown type: refused where the tensor is needed
    if (!shape_bytes(entry, bits, &want))
        return FAIL(r, RN_ERR_MODEL, "tensor %s: the bytes of its shape overflow", entry->name);
    if (want != have)
        return FAIL(r, RN_ERR_MODEL,
                    "tensor %s: data_offsets %" PRId64 " to %" PRId64 " are not the %" PRIu64
                    " bytes of its shape",
                    entry->name, entry->begin, entry->end, want);
    return RN_OK;
}

static int places_compare(const void *a, const void *b) {
    const struct st_place *left = a, *right = b;
    return strcmp(left->name, right->name);
}

// Whether the index wants this tensor from this file.
static bool is_placed(const struct reader *r, const char *name) {
    const struct st_table *table = r->table;
    if (!table->places) return true;
    const struct st_place wanted = {.name = name};
    struct st_place *place = bsearch(&wanted, table->places, (size_t)table->n_places,
                                     sizeof *table->places, places_compare);
    if (!place || place->file != r->file_index) return false;
    place->is_found = true;
    return true;
}

static rn_status name_dup(struct st_table *table, const char *path, const char *name,
                          const char **out, rn_error *err) {
    const size_t len = strlen(name);
    if (table->name_bytes + len > ST_MAX_NAME_BYTES)
        return err_set(err, RN_ERR_MODEL, "%s: the names of the tensors take over %d bytes", path,
                       ST_MAX_NAME_BYTES);
    table->name_bytes += len;
    *out = arena_strdup(&table->arena, name, len);
    return *out ? RN_OK : nomem(path, err);
}

static rn_status tensor_add(struct reader *r, const struct entry *entry, enum st_dtype dtype) {
    struct st_table *table = r->table;
    if (table->n == ST_MAX_TENSORS)
        return FAIL(r, RN_ERR_MODEL, "more than %d tensors", ST_MAX_TENSORS);
    struct st_tensor *grown =
        store_table_grow(table->tensors, table->n, &table->cap, sizeof *grown);
    if (!grown) return nomem(r->file->path, r->err);
    table->tensors = grown;
    const char *name;
    const rn_status status = name_dup(table, r->file->path, entry->name, &name, r->err);
    if (status != RN_OK) return status;
    struct st_tensor *tensor = &grown[table->n++];
    const uint64_t offset = r->data_start + (uint64_t)entry->begin;
    *tensor = (struct st_tensor){.name = name,
                                 .dtype = dtype,
                                 .n_dims = entry->n_dims,
                                 .dim = {1, 1, 1, 1},
                                 .data = r->file->data + offset,
                                 .bytes = (uint64_t)(entry->end - entry->begin),
                                 .offset = offset,
                                 .file = r->file_index};
    for (int i = 0; i < entry->n_dims && i < WEIGHTS_MAX_DIMS; i++)
        tensor->dim[i] = entry->shape[entry->n_dims - 1 - i];
    const size_t len = entry->dtype.len;
    memcpy(tensor->dtype_name, entry->dtype.data,
           len < sizeof tensor->dtype_name ? len : sizeof tensor->dtype_name - 1);
    return RN_OK;
}

static rn_status tensor_read(struct reader *r, const struct jread_text *key) {
    struct entry entry;
    if (!name_read(&r->json, key, entry.name) || !entry_read(&r->json, &entry))
        return json_status(r);
    int kind = 0;
    while (kind < DTYPE_COUNT && !jread_equals(&entry.dtype, dtypes[kind].name)) kind++;
    const rn_status status = tensor_size(r, &entry, kind < DTYPE_COUNT ? dtypes[kind].bits : 0);
    if (status != RN_OK || !is_placed(r, entry.name)) return status;
    return tensor_add(r, &entry, kind < DTYPE_COUNT ? dtypes[kind].dtype : ST_OTHER);
}

struct extent {
    uint64_t start, bytes;
    const char *name;
};

static int extents_compare(const void *a, const void *b) {
    const struct extent *left = a, *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

static rn_status check_overlap(const struct reader *r, int first) {
    const struct st_table *table = r->table;
    struct extent *extents = calloc((size_t)(table->n - first) + 1, sizeof *extents);
    if (!extents) return nomem(r->file->path, r->err);
    size_t count = 0;
    for (int i = first; i < table->n; i++) {
        const struct st_tensor *tensor = &table->tensors[i];
        if (tensor->bytes == 0) continue;
        extents[count++] = (struct extent){tensor->offset, tensor->bytes, tensor->name};
    }
    qsort(extents, count, sizeof *extents, extents_compare);
    rn_status status = RN_OK;
    for (size_t i = 1; status == RN_OK && i < count; i++) {
        const struct extent *a = &extents[i - 1], *b = &extents[i];
        if (a->start + a->bytes > b->start)
            status = FAIL(r, RN_ERR_MODEL,
                          "tensor %.100s: offset %" PRIu64 " is inside tensor %.100s, %" PRIu64
                          " + %" PRIu64 " bytes",
                          b->name, b->start, a->name, a->start, a->bytes);
    }
    free(extents);
    return status;
}

static rn_status header_find(struct reader *r) {
    struct weights *weights = r->table->weights;
    uint64_t len;
    if (r->file->size < LENGTH_BYTES)
        return FAIL(r, RN_ERR_MODEL, "truncated: %" PRIu64 " bytes are no safetensors file",
                    r->file->size);
    rn_status status = store_bring(weights, r->file->data, LENGTH_BYTES, r->err);
    if (status) return status;
    memcpy(&len, r->file->data, sizeof len);
    if (!memcmp(&len, "version ", sizeof len))
        return FAIL(r, RN_ERR_MODEL, "%s",
                    "no safetensors file but the pointer of Git LFS to it: 'git lfs pull' brings "
                    "the file itself");
    if (len > ST_MAX_HEADER || len > r->file->size - LENGTH_BYTES)
        return FAIL(r, RN_ERR_MODEL,
                    "header of %" PRIu64 " bytes at offset 0, expected at most %d and at most the "
                    "file's %" PRIu64 ": truncated, or no safetensors file",
                    len, ST_MAX_HEADER, r->file->size - LENGTH_BYTES);
    r->data_start = LENGTH_BYTES + len;
    status = store_bring(weights, r->file->data, r->data_start, r->err);
    if (!status) jread_init(&r->json, (const char *)r->file->data + LENGTH_BYTES, (size_t)len);
    return status;
}

static rn_status header_read(struct st_table *table, int file, rn_error *err) {
    struct reader r = {.table = table,
                       .file = &table->weights->files[file],
                       .file_index = file,
                       .err = err};
    const int first = table->n;
    struct jread_text key;
    rn_status status = header_find(&r);
    if (status != RN_OK) return status;
    if (!jread_enter_object(&r.json)) return json_status(&r);
    while (status == RN_OK && jread_next_key(&r.json, &key)) {
        if (!jread_equals(&key, "__metadata__")) {
            status = tensor_read(&r, &key);
        } else if (!jread_skip(&r.json)) {
            break;
        }
    }
    if (status != RN_OK) return status;
    jread_finish(&r.json);
    status = json_status(&r);
    return status == RN_OK ? check_overlap(&r, first) : status;
}

rn_status st_file_read(struct st_table *table, int file, rn_error *err) {
    const rn_status status = header_read(table, file, err);
    store_bring_end(table->weights);
    return status;
}

// --- the index of several files ---

struct index_reader {
    struct st_table *table;
    const char *folder, *path; // of the index, for messages
    rn_error *err;
    struct jread json;
};

// Names come from a file: none may lead out of the folder.
static bool is_shard_name(const char *name) {
    static const char ending[] = ".safetensors";
    const size_t len = strlen(name), ending_len = sizeof ending - 1;
    if (len <= ending_len || strcmp(name + len - ending_len, ending) != 0) return false;
    if (name[0] == '.' || strstr(name, "..")) return false;
    return !strpbrk(name, "/\\");
}

// The index that the file has among the weights' files; it is opened when it is new.
static rn_status shard_find(struct index_reader *r, const char *name, int *out) {
    struct weights *weights = r->table->weights;
    for (int i = weights->n_files - 1; i >= 0; i--) {
        if (strcmp(weights->files[i].name, name) == 0) {
            *out = i;
            return RN_OK;
        }
    }
    if (!is_shard_name(name))
        return err_set(r->err, RN_ERR_MODEL,
                       "%s: weight_map names the file \"%.100s\", expected NAME.safetensors in the "
                       "same folder",
                       r->path, name);
    if (weights->n_files == STORE_MAX_FILES)
        return err_set(r->err, RN_ERR_MODEL, "%s: weight_map names more than %d files", r->path,
                       STORE_MAX_FILES);
    const size_t size = strlen(r->folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (!path) return nomem(r->path, r->err);
    snprintf(path, size, "%s/%s", r->folder, name);
    *out = weights->n_files;
    const rn_status status = store_file_open(weights, path, r->err);
    free(path);
    return status;
}

static rn_status place_read(struct index_reader *r, const struct jread_text *key) {
    struct st_table *table = r->table;
    struct jread_text value;
    char name[ST_NAME_MAX + 1], shard[ST_NAME_MAX + 1];
    if (!name_read(&r->json, key, name) || !jread_string(&r->json, &value) ||
        !name_read(&r->json, &value, shard))
        return jread_status(&r->json, r->path, r->err);
    if (table->n_places == ST_MAX_TENSORS)
        return err_set(r->err, RN_ERR_MODEL, "%s: more than %d tensors", r->path, ST_MAX_TENSORS);
    struct st_place *grown =
        store_table_grow(table->places, table->n_places, &table->cap_places, sizeof *grown);
    if (!grown) return nomem(r->path, r->err);
    table->places = grown;
    struct st_place place = {0};
    rn_status status = shard_find(r, shard, &place.file);
    if (status == RN_OK) status = name_dup(table, r->path, name, &place.name, r->err);
    if (status == RN_OK) grown[table->n_places++] = place;
    return status;
}

static rn_status map_read(struct index_reader *r) {
    struct jread_text key;
    rn_status status = RN_OK;
    if (!jread_enter_object(&r->json)) return jread_status(&r->json, r->path, r->err);
    while (status == RN_OK && jread_next_key(&r->json, &key)) status = place_read(r, &key);
    return status;
}

static rn_status places_sort(const struct index_reader *r) {
    struct st_table *table = r->table;
    if (table->n_places == 0)
        return err_set(r->err, RN_ERR_MODEL, "%s: weight_map is missing or empty", r->path);
    qsort(table->places, (size_t)table->n_places, sizeof *table->places, places_compare);
    for (int i = 1; i < table->n_places; i++)
        if (places_compare(&table->places[i - 1], &table->places[i]) == 0)
            return err_set(r->err, RN_ERR_MODEL, "%s: weight_map names tensor %.200s twice",
                           r->path, table->places[i].name);
    return RN_OK;
}

rn_status st_index_read(struct st_table *table, const char *folder, const char *path,
                        const char *text, size_t len, rn_error *err) {
    struct index_reader r = {.table = table, .folder = folder, .path = path, .err = err};
    struct jread_text key;
    rn_status status = RN_OK;
    jread_init(&r.json, text, len);
    if (!jread_enter_object(&r.json)) return jread_status(&r.json, path, err);
    while (status == RN_OK && jread_next_key(&r.json, &key)) {
        if (jread_equals(&key, "weight_map")) {
            status = map_read(&r);
        } else if (!jread_skip(&r.json)) {
            break;
        }
    }
    if (status != RN_OK) return status;
    jread_finish(&r.json);
    status = jread_status(&r.json, path, err);
    return status == RN_OK ? places_sort(&r) : status;
}

rn_status st_finish(struct st_table *table, rn_error *err) {
    const struct weights *weights = table->weights;
    for (int i = 0; i < table->n_places; i++) {
        const struct st_place *place = &table->places[i];
        if (!place->is_found)
            return err_set(err, RN_ERR_MODEL,
                           "%s: has no tensor %.200s, which the index says it has",
                           weights->files[place->file].path, place->name);
    }
    table->names = calloc((size_t)table->n + 1, sizeof *table->names);
    if (!table->names) return nomem(weights->name, err);
    for (int i = 0; i < table->n; i++)
        table->names[i] = (struct store_name){table->tensors[i].name, i};
    const struct store_name *pair = store_names_sort(table->names, table->n);
    if (!pair) return RN_OK;
    const struct st_tensor *tensor = &table->tensors[pair->index];
    return err_set(err, RN_ERR_MODEL, "%s: tensor %.200s: the name is there twice",
                   weights->files[tensor->file].path, tensor->name);
}

const struct st_tensor *st_find(const struct st_table *table, const char *name) {
    const int index = store_names_find(table->names, table->n, name);
    return index < 0 ? NULL : &table->tensors[index];
}

void st_deinit(struct st_table *table) {
    arena_deinit(&table->arena);
    free(table->tensors);
    free(table->names);
    free(table->places);
    *table = (struct st_table){0};
}
