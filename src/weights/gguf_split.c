// GGUF in several files, NAME-00001-of-00003.gguf and on, as gguf-split writes them. Each part says
// which one it is (split.no, from 0), of how many (split.count), and how many tensors they hold
// together (split.tensors.count). The model's metadata are those of the first part; another part
// may only repeat them. The tensors are those of all. Given any part, all are opened; a part that
// is missing, misnamed or of another model is refused by name. Called by weights.c.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/store.h"

enum {
    NAME_TAIL = sizeof "-00001-of-00003.gguf" - 1,
    NAME_TAIL_MAX = sizeof "--2147483648-of--2147483648.gguf",
};

static rn_status read_key(const struct store_metas *metas, const char *path, const char *key,
                          int64_t max, int64_t *out, rn_error *err) {
    const struct meta_view *meta = store_metas_find(metas, key);
    if (!meta) return err_set(err, RN_ERR_MODEL, "%s: key %s is missing", path, key);
    if (!meta_get_i64(meta, out))
        return err_set(err, RN_ERR_MODEL, "%s: key %s at offset %" PRIu64 " is not an integer",
                       path, key, meta->offset);
    if (*out < 0 || *out > max)
        return err_set(err, RN_ERR_MODEL,
                       "%s: key %s at offset %" PRIu64 " is %" PRId64 ", expected 0 to %" PRId64,
                       path, key, meta->offset, *out, max);
    return RN_OK;
}

rn_status gguf_split_count(const struct store_metas *metas, const char *path, int *count,
                           rn_error *err) {
    *count = 1;
    if (!store_metas_find(metas, "split.count")) return RN_OK;
    int64_t value;
    const rn_status status = read_key(metas, path, "split.count", STORE_MAX_FILES, &value, err);
    if (status == RN_OK && value > 1) *count = (int)value;
    return status;
}

static void name_tail(char *tail, int number, int count) {
    snprintf(tail, NAME_TAIL_MAX, "-%05d-of-%05d.gguf", number + 1, count);
}

// A part under another name has no neighbours to look for.
static rn_status check_name(const struct weights *weights, int count, rn_error *err) {
    int64_t number;
    rn_status status =
        read_key(&weights->metas, weights->name, "split.no", count - 1, &number, err);
    if (status != RN_OK) return status;
    char tail[NAME_TAIL_MAX];
    name_tail(tail, (int)number, count);
    const size_t len = strlen(weights->path);
    if (len >= NAME_TAIL && strcmp(weights->path + len - NAME_TAIL, tail) == 0) return RN_OK;
    return err_set(err, RN_ERR_MODEL,
                   "%s: part %d of %d of a split file (split.no is %d, split.count is %d): its "
                   "name must end in %s, and the other parts must be beside it",
                   weights->name, (int)number + 1, count, (int)number, count, tail);
}

// The keys that part `number` must have; n_tensors is the number of all tensors by the first part.
static rn_status check_part(const struct store_metas *metas, const char *path, int number,
                            int count, int64_t *n_tensors, rn_error *err) {
    int64_t own_number, own_count, own_tensors;
    rn_status status = read_key(metas, path, "split.no", STORE_MAX_FILES, &own_number, err);
    if (status == RN_OK)
        status = read_key(metas, path, "split.count", STORE_MAX_FILES, &own_count, err);
    if (status == RN_OK)
        status = read_key(metas, path, "split.tensors.count", STORE_MAX_TENSORS, &own_tensors, err);
    if (status != RN_OK) return status;
    if (own_number != number || own_count != count)
        return err_set(err, RN_ERR_MODEL,
                       "%s: split.no is %" PRId64 " and split.count %" PRId64
                       ", by its name they are %d and %d",
                       path, own_number, own_count, number, count);
    if (number == 0) *n_tensors = own_tensors;
    if (own_tensors != *n_tensors)
        return err_set(err, RN_ERR_MODEL,
                       "%s: split.tensors.count is %" PRId64 ", in the first part it is %" PRId64
                       ": this is a part of another model",
                       path, own_tensors, *n_tensors);
    return RN_OK;
}

// Keys that describe the part itself.
static bool is_own_key(const char *key) {
    static const char *const keys[] = {"split.no", "split.count", "split.tensors.count",
                                       "general.alignment"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

// A key that would have no effect is refused, so that no part of another model is taken.
static rn_status check_repeated(const struct store_metas *first, const struct store_metas *own,
                                const char *path, rn_error *err) {
    for (int i = 0; i < own->n; i++) {
        const struct meta_view *meta = &own->items[i];
        const struct meta_view *known = store_metas_find(first, meta->key);
        if (is_own_key(meta->key)) continue;
        if (!known || known->type != meta->type || known->item_type != meta->item_type ||
            known->bytes != meta->bytes || memcmp(known->data, meta->data, meta->bytes) != 0)
            return err_set(err, RN_ERR_MODEL,
                           "%s: key %.100s is %s: this is a part of another model", path, meta->key,
                           known ? "another one than in the first part" : "not in the first part");
    }
    return RN_OK;
}

// A part that cannot be read makes the whole model a bad one.
static rn_status part_missing(int number, int count, rn_error *err) {
    if (!err) return RN_ERR_MODEL;
    const rn_error reason = *err;
    return err_set(err, RN_ERR_MODEL, "%s: part %d of %d of the model", reason.message, number + 1,
                   count);
}

static rn_status part_open(struct weights *weights, const char *path, int number, int count,
                           int64_t *n_tensors, rn_error *err) {
    struct store_metas own = {0};
    struct store_metas *metas = number == 0 ? &weights->metas : &own;
    rn_status status = store_file_open(weights, path, err);
    if (status == RN_ERR_IO) status = part_missing(number, count, err);
    if (status == RN_OK) status = gguf_parse(weights, number, metas, err);
    if (status == RN_OK)
        status = check_part(metas, weights->files[number].path, number, count, n_tensors, err);
    if (status == RN_OK)
        status = check_repeated(&weights->metas, &own, weights->files[number].path, err);
    store_metas_deinit(&own);
    return status;
}

rn_status gguf_split_open(struct weights *weights, int count, rn_error *err) {
    rn_status status = check_name(weights, count, err);
    if (status != RN_OK) return status;
    const size_t len = strlen(weights->path), stem = len - NAME_TAIL;
    char *path = malloc(stem + NAME_TAIL_MAX);
    if (!path) return err_set(err, RN_ERR_NOMEM, "%s: out of memory", weights->name);
    memcpy(path, weights->path, stem);
    store_reset(weights);
    int64_t n_tensors = 0;
    for (int i = 0; status == RN_OK && i < count; i++) {
        name_tail(path + stem, i, count);
        status = part_open(weights, path, i, count, &n_tensors, err);
    }
    free(path);
    if (status == RN_OK) status = store_tensors_index(weights, err);
    if (status == RN_OK && weights->n_tensors != n_tensors)
        status = err_set(err, RN_ERR_MODEL,
                         "%s: split.tensors.count is %" PRId64 ", the %d parts have %d tensors",
                         weights->name, n_tensors, count, weights->n_tensors);
    return status;
}
