// The inside of struct weights, for the container readers in this folder alone: they fill it
// through these calls, everybody else sees weights.h.
#ifndef RN_WEIGHTS_STORE_H
#define RN_WEIGHTS_STORE_H

#include "base/arena.h"
#include "base/file.h"
#include "weights/weights.h"

// Together these bound what a hostile file can make us allocate, below 64 MB.
enum {
    STORE_MAX_METAS = 65536,
    STORE_MAX_TENSORS = 262144,
    STORE_MAX_NAME_BYTES = 16 << 20, // all keys and tensor names together
};

struct store_name {
    const char *name;
    int index; // in tensors or metas
};

struct weights {
    const uint8_t *data; // the whole file
    uint64_t size;
    struct file_map map; // what data points into, if this owns it
    struct arena arena;  // names
    char *path;
    const char *name; // the end of path, for messages
    char container[16];
    struct meta_view *metas;                      // [n_metas], in the file's order
    struct tensor_view *tensors;                  // [n_tensors], in the file's order
    struct store_name *meta_names, *tensor_names; // the same, sorted by name
    int n_metas, n_tensors, cap_metas, cap_tensors;
    uint64_t name_bytes;
};

// A NUL-terminated copy of a name; NULL when there is no memory. The caller keeps name_bytes within
// STORE_MAX_NAME_BYTES.
const char *store_name_dup(struct weights *weights, const uint8_t *text, uint64_t len);

// A new zeroed entry at the end, or NULL when there is no memory. Moves the earlier ones.
struct meta_view *store_meta_push(struct weights *weights);
struct tensor_view *store_tensor_push(struct weights *weights);

// Sorts the names, so that find works, and refuses duplicates.
rn_status store_metas_index(struct weights *weights, rn_error *err);
rn_status store_tensors_index(struct weights *weights, rn_error *err);

// Refuses tensors that share bytes: what a file makes us pack is then bounded by its size.
rn_status store_tensors_check_overlap(const struct weights *weights, rn_error *err);

// Bytes of a value of a fixed size; 0 for strings and arrays.
extern const uint8_t store_type_bytes[META_TYPE_COUNT];

// gguf.c: fills metas and tensors from data.
rn_status gguf_parse(struct weights *weights, rn_error *err);

#endif
