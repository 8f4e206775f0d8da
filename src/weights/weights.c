// Owns struct weights: opening and closing, the growing tables that a container reader fills, and
// find by name. The tables are sorted once, after the container is read.
#define _GNU_SOURCE 1
#include "weights/weights.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "weights/derived.h"

static rn_status weights_create(const char *path, struct weights **out, rn_error *err) {
    *out = NULL;
    struct weights *weights = calloc(1, sizeof *weights);
    char *copy = strdup(path);
    if (!weights || !copy) {
        free(weights);
        free(copy);
        return err_set(err, RN_ERR_NOMEM, "%s: out of memory", err_path(path));
    }
    weights->path = copy;
    weights->name = err_path(copy);
    *out = weights;
    return RN_OK;
}

void store_reset(struct weights *weights) {
    for (int i = 0; i < weights->n_files; i++) {
        file_image_close(&weights->files[i].image);
        file_close(&weights->files[i].fd);
    }
    derived_close(weights);
    free(weights->derived);
    arena_deinit(&weights->arena);
    store_metas_deinit(&weights->metas);
    free(weights->files);
    free(weights->tensors);
    free(weights->tensor_names);
    *weights = (struct weights){.path = weights->path, .name = weights->name};
}

void weights_close(struct weights *weights) {
    if (!weights) return;
    store_reset(weights);
    free(weights->path);
    free(weights);
}

// Ends an open: gives the weights away, or closes them.
static rn_status open_end(rn_status status, struct weights *weights, struct weights **out) {
    if (status == RN_OK) {
        *out = weights;
    } else {
        weights_close(weights);
    }
    return status;
}

static rn_status memory_parse(struct weights *weights, const void *data, size_t size,
                              rn_error *err) {
    int count;
    rn_status status = store_file_add(weights, weights->path, data, size, err);
    if (status == RN_OK) status = gguf_parse(weights, 0, &weights->metas, err);
    if (status == RN_OK) status = store_tensors_index(weights, err);
    if (status == RN_OK) status = gguf_split_count(&weights->metas, weights->name, &count, err);
    if (status == RN_OK && count > 1)
        status = err_set(err, RN_ERR_UNSUPPORTED,
                         "%s: one part of a split file (split.count is %d), which can be opened by "
                         "its path alone",
                         weights->name, count);
    return status == RN_OK ? gguf_ollama_adopt(weights, err) : status;
}

rn_status weights_open_memory(const char *name, const void *data, size_t size, struct weights **out,
                              rn_error *err) {
    struct weights *weights;
    *out = NULL;
    const rn_status status = weights_create(name, &weights, err);
    if (status != RN_OK) return status;
    return open_end(memory_parse(weights, data, size, err), weights, out);
}

static bool ends_with(const char *text, const char *end) {
    const size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static rn_status gguf_open(struct weights *weights, rn_error *err) {
    const char *path = weights->path;
    int count;
    rn_status status = store_file_open(weights, path, err);
    if (status == RN_OK && (ends_with(path, ".safetensors") || ends_with(path, ".json")))
        return err_set(err, RN_ERR_MODEL,
                       "%s: is one file of a model's folder: give the folder that it is in",
                       weights->name);
    if (status == RN_OK) status = gguf_parse(weights, 0, &weights->metas, err);
    if (status == RN_OK) status = store_tensors_index(weights, err);
    if (status == RN_OK) status = gguf_split_count(&weights->metas, weights->name, &count, err);
    if (status == RN_OK && count > 1) status = gguf_split_open(weights, count, err);
    return status == RN_OK ? gguf_ollama_adopt(weights, err) : status;
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

rn_status weights_open(const char *path, struct weights **out, rn_error *err) {
    struct weights *weights;
    *out = NULL;
    const rn_status status = weights_create(path, &weights, err);
    return status == RN_OK ? open_end(gguf_open(weights, err), weights, out) : status;
}

rn_status weights_open_any(const char *path, const struct hf_arch *archs, bool is_vocab,
                           struct weights **out, rn_error *err) {
    struct weights *weights;
    if (!is_folder(path)) return weights_open(path, out, err);
    *out = NULL;
    const rn_status status = weights_create(path, &weights, err);
    if (status != RN_OK) return status;
    return open_end(hf_open(weights, archs, is_vocab, err), weights, out);
}

rn_status weights_describe_config(const char *path, const struct hf_arch *archs,
                                  struct weights **out, rn_error *err) {
    struct weights *weights;
    *out = NULL;
    const rn_status status = weights_create(path, &weights, err);
    if (status != RN_OK) return status;
    return open_end(hf_describe(weights, archs, err), weights, out);
}

// From the end: mostly it is the last one, because parts of a matrix are bound one after another.
static int described_at(const struct weights *weights, const char *name) {
    int i = weights->n_tensors - 1;
    while (i >= 0 && strcmp(weights->tensors[i].name, name) != 0) i--;
    return i;
}

const struct tensor_view *weights_describe_find(const struct weights *weights, const char *name) {
    const int at = described_at(weights, name);
    return at < 0 ? NULL : &weights->tensors[at];
}

struct tensor_view *store_tensor_describe(struct weights *weights, const char *name, int64_t cols,
                                          int64_t rows, int64_t n_expert) {
    const int known = described_at(weights, name);
    if (known >= 0) return &weights->tensors[known];
    const char *copy = arena_strdup(&weights->arena, name, strlen(name));
    struct tensor_view *tensor = copy ? store_tensor_push(weights) : NULL;
    if (!tensor) return NULL;
    const enum format_id format = rows > 1 ? FORMAT_BF16 : FORMAT_F32;
    *tensor =
        (struct tensor_view){.name = copy,
                             .format = format,
                             .n_dims = n_expert > 1 ? 3
                                       : rows > 1   ? 2
                                                    : 1,
                             .dim = {cols, rows, n_expert, 1},
                             .bytes = format_row_bytes(format, cols) * (uint64_t)(rows * n_expert)};
    return tensor;
}

const struct tensor_view *weights_describe_add(struct weights *weights, const char *name,
                                               int64_t cols, int64_t rows, int64_t n_expert) {
    return store_tensor_describe(weights, name, cols, rows, n_expert);
}

rn_status weights_describe_end(struct weights *weights, rn_error *err) {
    return store_tensors_index(weights, err);
}

static struct store_file *file_push(struct weights *weights, const char *path, rn_error *err) {
    struct store_file *grown = store_table_grow(weights->files, weights->n_files,
                                                &weights->cap_files, sizeof *weights->files);
    if (grown) weights->files = grown;
    const char *copy = arena_strdup(&weights->arena, path, strlen(path));
    if (!grown || !copy) {
        err_set(err, RN_ERR_NOMEM, "%s: out of memory", err_path(path));
        return NULL;
    }
    struct store_file *file = &grown[weights->n_files++];
    const char *slash = strrchr(copy, '/');
    *file = (struct store_file){.path = err_path(copy), .name = slash ? slash + 1 : copy, .fd = -1};
    return file;
}

rn_status store_file_add(struct weights *weights, const char *path, const void *data, size_t size,
                         rn_error *err) {
    struct store_file *file = file_push(weights, path, err);
    if (!file) return RN_ERR_NOMEM;
    file->data = data;
    file->size = file->n_here = size;
    return RN_OK;
}

rn_status store_file_open(struct weights *weights, const char *path, rn_error *err) {
    struct file_image image;
    int fd;
    rn_status status = file_image_reserve(path, &image, &fd, err);
    if (status != RN_OK) return status;
    struct file_stamp stamp = {0};
    status = file_stamp(path, fd, &stamp, err);
    if (status == RN_OK) status = store_file_add(weights, path, image.data, image.size, err);
    if (status != RN_OK) {
        file_image_close(&image);
        file_close(&fd);
        return status;
    }
    struct store_file *file = &weights->files[weights->n_files - 1];
    file->image = image;
    file->fd = fd;
    file->stamp = stamp;
    file->n_here = 0;
    file->stamp.size = file->size; // between the two looks at it the size may have changed
    return file_check_same(file->path, fd, &file->stamp, err);
}

// The file on disk, or its stand-in, that has an address; NULL if there is none.
static const struct store_file *file_of(const struct weights *weights, const void *data) {
    for (int i = 0; i < weights->n_files; i++) {
        const struct store_file *file = &weights->files[i];
        const bool on_disk = file->fd >= 0 || file->is_stand_in;
        if (on_disk && (uintptr_t)data - (uintptr_t)file->data < file->size) return file;
    }
    return NULL;
}

rn_status weights_read(const struct weights *weights, const void *data, uint64_t bytes,
                       void *buffer, const void **at, rn_error *err) {
    const struct derived *derived = derived_of(weights, data);
    const struct store_file *file = derived ? NULL : file_of(weights, data);
    *at = derived || file ? buffer : data;
    if (bytes == 0) return RN_OK;
    if (derived) return derived_read(weights, derived, data, bytes, buffer, err);
    if (!file) return RN_OK;
    return store_file_read(file, (uintptr_t)data - (uintptr_t)file->data, bytes, buffer, err);
}

rn_status weights_check_files(const struct weights *weights, rn_error *err) {
    for (int i = 0; i < weights->n_files; i++) {
        const struct store_file *file = &weights->files[i];
        const rn_status status =
            file->fd < 0 ? RN_OK : file_check_same(file->name, file->fd, &file->stamp, err);
        if (status) return status;
    }
    return RN_OK;
}

rn_status store_file_read(const struct store_file *file, uint64_t at, uint64_t bytes, void *dst,
                          rn_error *err) {
    assert(at <= file->size && bytes <= file->size - at);
    if (file->fd >= 0) return file_read(file->name, file->fd, at, bytes, dst, err);
    memcpy(dst, file->data + at, (size_t)bytes);
    return RN_OK;
}

rn_status store_bring(struct weights *weights, const void *data, uint64_t bytes, rn_error *err) {
    struct store_file *file = (struct store_file *)(uintptr_t)file_of(weights, data);
    if (!file || bytes == 0) return RN_OK;
    const uint64_t at = (uintptr_t)data - (uintptr_t)file->data, end = at + bytes;
    if (file->brought == file->brought_end) file->brought = at;
    if (at < file->brought) file->brought = at;
    if (end > file->brought_end) file->brought_end = end;
    return file_image_bring(&file->image, file->path, file->fd, at, bytes, err);
}

void store_bring_end(struct weights *weights) {
    for (int i = 0; i < weights->n_files; i++) {
        struct store_file *file = &weights->files[i];
        file_image_drop(&file->image, file->brought, file->brought_end - file->brought);
        file->brought = file->brought_end = 0;
    }
}

rn_status store_header_read(struct weights *weights, int index, uint64_t end, rn_error *err) {
    enum { PIECE = 64 << 10 };
    _Static_assert((uint64_t)PIECE * STORE_MAX_FILES <= STORE_MAX_HEADER_BYTES, "a piece of each");
    struct store_file *file = &weights->files[index];
    if (end <= file->n_here) return RN_OK;
    const uint64_t more = end - file->n_here, bytes = (more + PIECE - 1) / PIECE * PIECE;
    const uint64_t rest = file->size - file->n_here, n = bytes < rest ? bytes : rest;
    if (n > STORE_MAX_HEADER_BYTES - weights->header_bytes)
        return err_set(err, RN_ERR_MODEL, "%s: the header takes over %d bytes", file->path,
                       STORE_MAX_HEADER_BYTES);
    const rn_status status =
        file_image_bring(&file->image, file->path, file->fd, file->n_here, n, err);
    if (status) return status;
    file->n_here += n;
    weights->header_bytes += n;
    return RN_OK;
}

const char *store_name_dup(struct weights *weights, const uint8_t *text, uint64_t len) {
    weights->name_bytes += len;
    return arena_strdup(&weights->arena, (const char *)text, (size_t)len);
}

void *store_table_grow(void *table, int count, int *cap, size_t size) {
    if (count < *cap) return table;
    const int cap_new = *cap ? *cap * 2 : 32;
    void *grown = realloc(table, (size_t)cap_new * size);
    if (grown) *cap = cap_new;
    return grown;
}

struct meta_view *store_meta_push(struct store_metas *metas) {
    assert(metas->n < STORE_MAX_METAS);
    struct meta_view *grown = store_table_grow(metas->items, metas->n, &metas->cap, sizeof *grown);
    if (!grown) return NULL;
    metas->items = grown;
    struct meta_view *meta = &grown[metas->n++];
    memset(meta, 0, sizeof *meta);
    return meta;
}

void store_metas_deinit(struct store_metas *metas) {
    free(metas->items);
    free(metas->names);
    *metas = (struct store_metas){0};
}

struct tensor_view *store_tensor_push(struct weights *weights) {
    assert(weights->n_tensors < STORE_MAX_TENSORS);
    struct tensor_view *grown = store_table_grow(weights->tensors, weights->n_tensors,
                                                 &weights->cap_tensors, sizeof *grown);
    if (!grown) return NULL;
    weights->tensors = grown;
    struct tensor_view *tensor = &grown[weights->n_tensors++];
    memset(tensor, 0, sizeof *tensor);
    return tensor;
}

static int names_compare(const void *a, const void *b) {
    const struct store_name *left = a, *right = b;
    return strcmp(left->name, right->name);
}

const struct store_name *store_names_sort(struct store_name *names, int count) {
    if (count < 2) return NULL;
    qsort(names, (size_t)count, sizeof *names, names_compare);
    for (int i = 1; i < count; i++) {
        if (strcmp(names[i - 1].name, names[i].name) == 0) return &names[i - 1];
    }
    return NULL;
}

int store_names_find(const struct store_name *names, int count, const char *name) {
    const struct store_name wanted = {.name = name};
    if (count == 0) return -1;
    const struct store_name *found =
        bsearch(&wanted, names, (size_t)count, sizeof *names, names_compare);
    return found ? found->index : -1;
}

rn_status store_metas_index(struct store_metas *metas, const char *path, rn_error *err) {
    struct store_name *names = calloc((size_t)metas->n + 1, sizeof *names);
    if (!names) return err_set(err, RN_ERR_NOMEM, "%s: out of memory", path);
    metas->names = names;
    for (int i = 0; i < metas->n; i++) names[i] = (struct store_name){metas->items[i].key, i};
    const struct store_name *pair = store_names_sort(names, metas->n);
    if (!pair) return RN_OK;
    const int a = pair[0].index, b = pair[1].index;
    return err_set(err, RN_ERR_MODEL, "%s: key %.200s: the name is there twice, as key %d and %d",
                   path, pair->name, a < b ? a : b, a < b ? b : a);
}

static rn_status tensor_twice(const struct weights *weights, const struct store_name *pair,
                              rn_error *err) {
    const int first = pair[0].index < pair[1].index ? 0 : 1;
    const int a = pair[first].index, b = pair[1 - first].index;
    const struct store_file *files = weights->files;
    const struct tensor_view *tensors = weights->tensors;
    if (weights->n_files < 2)
        return err_set(err, RN_ERR_MODEL,
                       "%s: tensor %.200s: the name is there twice, as tensor %d and %d",
                       weights->name, pair->name, a, b);
    return err_set(err, RN_ERR_MODEL, "%s: tensor %.100s: the name is there twice, in %s and in %s",
                   weights->name, pair->name, files[tensors[a].file].name,
                   files[tensors[b].file].name);
}

rn_status store_tensors_index(struct weights *weights, rn_error *err) {
    const int count = weights->n_tensors;
    struct store_name *names = calloc((size_t)count + 1, sizeof *names);
    if (!names) return err_set(err, RN_ERR_NOMEM, "%s: out of memory", weights->name);
    free(weights->tensor_names);
    weights->tensor_names = names;
    for (int i = 0; i < count; i++) names[i] = (struct store_name){weights->tensors[i].name, i};
    const struct store_name *pair = store_names_sort(names, count);
    return pair ? tensor_twice(weights, pair, err) : RN_OK;
}

struct extent {
    uint64_t start;
    const struct tensor_view *tensor;
};

static int extents_compare(const void *a, const void *b) {
    const struct extent *left = a, *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

rn_status store_tensors_check_overlap(const struct weights *weights, int first, rn_error *err) {
    const size_t count = (size_t)(weights->n_tensors - first);
    if (count < 2) return RN_OK;
    const struct tensor_view *tensors = weights->tensors + first;
    const char *path = weights->files[tensors->file].path;
    struct extent *extents = calloc(count, sizeof *extents);
    if (!extents) return err_set(err, RN_ERR_NOMEM, "%s: out of memory", path);
    for (size_t i = 0; i < count; i++) extents[i] = (struct extent){tensors[i].offset, &tensors[i]};
    qsort(extents, count, sizeof *extents, extents_compare);
    rn_status status = RN_OK;
    for (size_t i = 1; status == RN_OK && i < count; i++) {
        const struct tensor_view *a = extents[i - 1].tensor, *b = extents[i].tensor;
        if (a->offset + a->bytes > b->offset)
            status = err_set(err, RN_ERR_MODEL,
                             "%s: tensor %s: offset %llu is inside tensor %s, %llu + %llu bytes",
                             path, b->name, (unsigned long long)b->offset, a->name,
                             (unsigned long long)a->offset, (unsigned long long)a->bytes);
    }
    free(extents);
    return status;
}

const char *weights_path(const struct weights *weights) { return weights->path; }
const char *weights_name(const struct weights *weights) { return weights->name; }
const char *weights_container(const struct weights *weights) { return weights->container; }
const char *weights_folder(const struct weights *weights) { return weights->folder; }

uint64_t weights_bytes(const struct weights *weights) {
    uint64_t bytes = 0;
    for (int i = 0; i < weights->n_files; i++) bytes += weights->files[i].size;
    return bytes;
}

int weights_file_count(const struct weights *weights) { return weights->n_files; }

const struct weights_left_out *weights_left_out_at(const struct weights *weights, int index) {
    return index < weights->n_left_out ? &weights->left_out[index] : NULL;
}

const char *weights_file_at(const struct weights *weights, int index) {
    assert(index >= 0 && index < weights->n_files);
    return weights->files[index].name;
}

int weights_tensor_count(const struct weights *weights) { return weights->n_tensors; }

const struct tensor_view *weights_tensor_at(const struct weights *weights, int index) {
    assert(index >= 0 && index < weights->n_tensors);
    return &weights->tensors[index];
}

const struct tensor_view *weights_tensor_find(const struct weights *weights, const char *name) {
    const int index = store_names_find(weights->tensor_names, weights->n_tensors, name);
    return index < 0 ? NULL : &weights->tensors[index];
}

int weights_meta_count(const struct weights *weights) { return weights->metas.n; }

const struct meta_view *weights_meta_at(const struct weights *weights, int index) {
    assert(index >= 0 && index < weights->metas.n);
    return &weights->metas.items[index];
}

const struct meta_view *store_metas_find(const struct store_metas *metas, const char *key) {
    const int index = store_names_find(metas->names, metas->n, key);
    return index < 0 ? NULL : &metas->items[index];
}

const struct meta_view *weights_meta_find(const struct weights *weights, const char *key) {
    return store_metas_find(&weights->metas, key);
}
