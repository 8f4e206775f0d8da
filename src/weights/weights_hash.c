// The identity of a model: a hash of all its bytes, and the stamp by which a hash is remembered.
// Stored KV pages are wrong if any weight differs, so nothing is sampled and no name is believed.
// XXH3 finds every accident; a model's files are the operator's own, so nobody aims at it.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/sha256.h"
#include "weights/derived.h"

enum { PIECE = 1 << 20 };

struct hashing {
    XXH3_state_t *state;
    const _Atomic bool *stop;
    uint8_t *buffer; // [PIECE]
};

static void add(struct hashing *h, const void *data, size_t n) {
    XXH3_128bits_update(h->state, data, n);
}

static void add_u64(struct hashing *h, uint64_t value) { add(h, &value, sizeof value); }

static void add_text(struct hashing *h, const char *text) { add(h, text, strlen(text) + 1); }

static bool is_stopped(const struct hashing *h) {
    return h->stop && atomic_load_explicit(h->stop, memory_order_relaxed);
}

static rn_status add_memory(struct hashing *h, const uint8_t *data, uint64_t n, rn_error *err) {
    for (uint64_t at = 0; at < n; at += PIECE) {
        if (is_stopped(h)) return err_set(err, RN_ERR_CANCELLED, "hashing was stopped");
        add(h, data + at, n - at < PIECE ? (size_t)(n - at) : (size_t)PIECE);
    }
    return RN_OK;
}

static rn_status add_file(struct hashing *h, const struct store_file *file, rn_error *err) {
    add_u64(h, file->size);
    if (file->fd < 0) return add_memory(h, file->data, file->size, err);
    for (uint64_t at = 0; at < file->size; at += PIECE) {
        const uint64_t n = file->size - at < PIECE ? file->size - at : (uint64_t)PIECE;
        if (is_stopped(h)) return err_set(err, RN_ERR_CANCELLED, "hashing was stopped");
        const rn_status status = file_read(file->path, file->fd, at, n, h->buffer, err);
        if (status) return status;
        add(h, h->buffer, (size_t)n);
    }
    struct file_stamp now;
    const rn_status status = file_stamp(file->path, file->fd, &now, err);
    if (status) return status;
    if (!file_stamp_equal(&now, &file->stamp))
        return err_set(err, RN_ERR_IO, "%s: changed since it was opened", file->path);
    return RN_OK;
}

// Where the bytes are: in a file, which is hashed as a whole, or beside them.
static rn_status add_data(struct hashing *h, const struct weights *weights, const uint8_t *data,
                          uint64_t n, rn_error *err) {
    const struct derived *derived = derived_of(weights, data);
    if (derived) { // its codes and scales are in the files
        uint64_t number[DERIVED_NUMBERS];
        derived_numbers(derived, number);
        add(h, number, sizeof number);
        add_u64(h, (uint64_t)(data - derived->at));
        data = derived->code;
    }
    for (int i = 0; i < weights->n_files; i++) {
        const struct store_file *file = &weights->files[i];
        const uint64_t at = (uintptr_t)data - (uintptr_t)file->data;
        if (at >= file->size) continue;
        add_u64(h, (uint64_t)i);
        add_u64(h, at);
        return RN_OK;
    }
    return add_memory(h, data, n, err);
}

static rn_status add_tensor(struct hashing *h, const struct weights *weights,
                            const struct tensor_view *tensor, rn_error *err) {
    add_text(h, tensor->name);
    add_u64(h, (uint64_t)tensor->format);
    for (int i = 0; i < WEIGHTS_MAX_DIMS; i++) add_u64(h, (uint64_t)tensor->dim[i]);
    const int64_t n_part = tensor->parts ? tensor->dim[2] : 1;
    for (int64_t i = 0; i < n_part; i++) {
        const uint8_t *data = tensor->parts ? tensor->parts[i] : tensor->data;
        const rn_status status =
            data ? add_data(h, weights, data, tensor->bytes / (uint64_t)n_part, err) : RN_OK;
        if (status) return status;
    }
    return RN_OK;
}

static rn_status add_all(struct hashing *h, const struct weights *weights, rn_error *err) {
    rn_status status = RN_OK;
    add_text(h, weights->container);
    for (int i = 0; i < weights->metas.n; i++) {
        const struct meta_view *meta = &weights->metas.items[i];
        add_text(h, meta->key);
        add_u64(h, (uint64_t)meta->type);
        add_u64(h, (uint64_t)meta->item_type);
        add_u64(h, meta->count);
        add_u64(h, meta->bytes);
        add(h, meta->data, (size_t)meta->bytes);
    }
    for (int i = 0; i < weights->n_tensors && !status; i++)
        status = add_tensor(h, weights, &weights->tensors[i], err);
    for (int i = 0; i < weights->n_files && !status; i++)
        status = add_file(h, &weights->files[i], err);
    return status;
}

rn_status weights_hash(const struct weights *weights, const _Atomic bool *stop,
                       uint8_t out[WEIGHTS_HASH], rn_error *err) {
    struct hashing h = {.state = XXH3_createState(), .stop = stop, .buffer = malloc(PIECE)};
    rn_status status = h.state && h.buffer
                           ? RN_OK
                           : err_set(err, RN_ERR_NOMEM, "no memory to hash a model's files");
    if (!status) {
        XXH3_128bits_reset(h.state);
        status = add_all(&h, weights, err);
    }
    if (!status) {
        XXH128_canonical_t canonical;
        _Static_assert(sizeof canonical == WEIGHTS_HASH, "the hash of a model");
        XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(h.state));
        memcpy(out, &canonical, sizeof canonical);
    }
    XXH3_freeState(h.state);
    free(h.buffer);
    return status;
}

bool weights_stamp(const struct weights *weights, uint8_t out[WEIGHTS_STAMP]) {
    struct sha256 sha;
    sha256_init(&sha);
    if (weights->n_files == 0) return false;
    for (int i = 0; i < weights->n_files; i++) {
        const struct file_stamp *stamp = &weights->files[i].stamp;
        if (weights->files[i].fd < 0 || !stamp->is_settled) return false;
        const uint64_t numbers[] = {stamp->device, stamp->inode, stamp->size,
                                    (uint64_t)stamp->modified_ns, (uint64_t)stamp->changed_ns};
        sha256_add(&sha, numbers, sizeof numbers);
    }
    for (int i = 0; i < weights->metas.n; i++) { // a folder's come from files without a stamp
        const struct meta_view *meta = &weights->metas.items[i];
        sha256_add(&sha, meta->key, strlen(meta->key) + 1);
        if (weights->folder) sha256_add(&sha, meta->data, (size_t)meta->bytes);
    }
    for (int i = 0; i < weights->n_derived; i++) { // the config says what the codes mean
        uint64_t number[DERIVED_NUMBERS];
        derived_numbers(&weights->derived[i], number);
        sha256_add(&sha, number, sizeof number);
    }
    sha256_end(&sha, out);
    return true;
}
