// Owns struct weights: opening and closing, the growing tables that a container reader fills, and
// find by name. The tables are sorted once, after the container is read.
#include "weights/weights.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "weights/store.h"

static rn_status open_common(const char *name, const void *data, size_t size, struct weights **out,
                             rn_error *err) {
    *out = NULL;
    struct weights *weights = calloc(1, sizeof *weights);
    if (!weights) return err_set(err, RN_ERR_NOMEM, "%s: out of memory", err_path(name));
    weights->data = data;
    weights->size = size;
    weights->path = arena_strdup(&weights->arena, name, strlen(name));
    if (weights->path) weights->name = err_path(weights->path);
    const rn_status status = weights->name
                                 ? gguf_parse(weights, err)
                                 : err_set(err, RN_ERR_NOMEM, "%s: out of memory", err_path(name));
    if (status != RN_OK) {
        weights_close(weights);
        return status;
    }
    *out = weights;
    return RN_OK;
}

rn_status weights_open_memory(const char *name, const void *data, size_t size, struct weights **out,
                              rn_error *err) {
    return open_common(name, data, size, out, err);
}

rn_status weights_open(const char *path, struct weights **out, rn_error *err) {
    *out = NULL;
    struct file_map map;
    rn_status status = file_map_open(path, &map, err);
    if (status != RN_OK) return status;
    status = open_common(path, map.data, map.size, out, err);
    if (status != RN_OK) {
        file_map_close(&map);
        return status;
    }
    (*out)->map = map;
    return RN_OK;
}

void weights_close(struct weights *weights) {
    if (!weights) return;
    file_map_close(&weights->map);
    arena_deinit(&weights->arena);
    free(weights->metas);
    free(weights->tensors);
    free(weights->meta_names);
    free(weights->tensor_names);
    free(weights);
}

const char *store_name_dup(struct weights *weights, const uint8_t *text, uint64_t len) {
    weights->name_bytes += len;
    return arena_strdup(&weights->arena, (const char *)text, (size_t)len);
}

// Room for one more of `size` bytes: doubles, so that the count in the file's header is never
// believed.
static void *table_grow(void *table, int count, int *cap, size_t size) {
    if (count < *cap) return table;
    const int cap_new = *cap ? *cap * 2 : 32;
    void *grown = realloc(table, (size_t)cap_new * size);
    if (grown) *cap = cap_new;
    return grown;
}

struct meta_view *store_meta_push(struct weights *weights) {
    assert(weights->n_metas < STORE_MAX_METAS);
    struct meta_view *grown =
        table_grow(weights->metas, weights->n_metas, &weights->cap_metas, sizeof *grown);
    if (!grown) return NULL;
    weights->metas = grown;
    struct meta_view *meta = &grown[weights->n_metas++];
    memset(meta, 0, sizeof *meta);
    return meta;
}

struct tensor_view *store_tensor_push(struct weights *weights) {
    assert(weights->n_tensors < STORE_MAX_TENSORS);
    struct tensor_view *grown =
        table_grow(weights->tensors, weights->n_tensors, &weights->cap_tensors, sizeof *grown);
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

// Sorts and returns the first of two equal names, or NULL.
static const struct store_name *names_sort(struct store_name *names, int count) {
    if (count < 2) return NULL;
    qsort(names, (size_t)count, sizeof *names, names_compare);
    for (int i = 1; i < count; i++) {
        if (strcmp(names[i - 1].name, names[i].name) == 0) return &names[i - 1];
    }
    return NULL;
}

static int names_find(const struct store_name *names, int count, const char *name) {
    const struct store_name wanted = {.name = name};
    if (count == 0) return -1;
    const struct store_name *found =
        bsearch(&wanted, names, (size_t)count, sizeof *names, names_compare);
    return found ? found->index : -1;
}

static rn_status duplicate_fail(const struct weights *weights, const char *kind,
                                const struct store_name *pair, rn_error *err) {
    const int a = pair[0].index, b = pair[1].index;
    return err_set(err, RN_ERR_MODEL, "%s: %s %.200s: the name is there twice, as %s %d and %d",
                   weights->name, kind, pair->name, kind, a < b ? a : b, a < b ? b : a);
}

rn_status store_metas_index(struct weights *weights, rn_error *err) {
    const int count = weights->n_metas;
    struct store_name *names = calloc((size_t)count + 1, sizeof *names);
    if (!names) return err_set(err, RN_ERR_NOMEM, "%s: out of memory", weights->name);
    weights->meta_names = names;
    for (int i = 0; i < count; i++) names[i] = (struct store_name){weights->metas[i].key, i};
    const struct store_name *pair = names_sort(names, count);
    return pair ? duplicate_fail(weights, "key", pair, err) : RN_OK;
}

rn_status store_tensors_index(struct weights *weights, rn_error *err) {
    const int count = weights->n_tensors;
    struct store_name *names = calloc((size_t)count + 1, sizeof *names);
    if (!names) return err_set(err, RN_ERR_NOMEM, "%s: out of memory", weights->name);
    weights->tensor_names = names;
    for (int i = 0; i < count; i++) names[i] = (struct store_name){weights->tensors[i].name, i};
    const struct store_name *pair = names_sort(names, count);
    return pair ? duplicate_fail(weights, "tensor", pair, err) : RN_OK;
}

struct extent {
    uint64_t start;
    const struct tensor_view *tensor;
};

static int extents_compare(const void *a, const void *b) {
    const struct extent *left = a, *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

rn_status store_tensors_check_overlap(const struct weights *weights, rn_error *err) {
    const size_t count = (size_t)weights->n_tensors;
    struct extent *extents = calloc(count + 1, sizeof *extents);
    if (!extents) return err_set(err, RN_ERR_NOMEM, "%s: out of memory", weights->name);
    for (size_t i = 0; i < count; i++)
        extents[i] = (struct extent){weights->tensors[i].offset, &weights->tensors[i]};
    qsort(extents, count, sizeof *extents, extents_compare);
    rn_status status = RN_OK;
    for (size_t i = 1; status == RN_OK && i < count; i++) {
        const struct tensor_view *a = extents[i - 1].tensor, *b = extents[i].tensor;
        if (a->offset + a->bytes > b->offset)
            status = err_set(err, RN_ERR_MODEL,
                             "%s: tensor %s: offset %llu is inside tensor %s, %llu + %llu bytes",
                             weights->name, b->name, (unsigned long long)b->offset, a->name,
                             (unsigned long long)a->offset, (unsigned long long)a->bytes);
    }
    free(extents);
    return status;
}

const char *weights_path(const struct weights *weights) { return weights->path; }
const char *weights_name(const struct weights *weights) { return weights->name; }
const char *weights_container(const struct weights *weights) { return weights->container; }
uint64_t weights_bytes(const struct weights *weights) { return weights->size; }

int weights_tensor_count(const struct weights *weights) { return weights->n_tensors; }

const struct tensor_view *weights_tensor_at(const struct weights *weights, int index) {
    assert(index >= 0 && index < weights->n_tensors);
    return &weights->tensors[index];
}

const struct tensor_view *weights_tensor_find(const struct weights *weights, const char *name) {
    const int index = names_find(weights->tensor_names, weights->n_tensors, name);
    return index < 0 ? NULL : &weights->tensors[index];
}

int weights_meta_count(const struct weights *weights) { return weights->n_metas; }

const struct meta_view *weights_meta_at(const struct weights *weights, int index) {
    assert(index >= 0 && index < weights->n_metas);
    return &weights->metas[index];
}

const struct meta_view *weights_meta_find(const struct weights *weights, const char *key) {
    const int index = names_find(weights->meta_names, weights->n_metas, key);
    return index < 0 ? NULL : &weights->metas[index];
}
