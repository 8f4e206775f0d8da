// The tensors that safetensors files list, as the files have them: original names and types. Their
// meaning to a model is decided in hf_tensors.c.
#ifndef RN_WEIGHTS_SAFETENSORS_H
#define RN_WEIGHTS_SAFETENSORS_H

#include "weights/store.h"

enum {
    ST_MAX_HEADER = 100 << 20,
    ST_MAX_TENSORS = 262144, // 384 experts in 61 layers, each matrix with its scales, are 140000
    ST_NAME_MAX = 255,
    ST_MAX_NAME_BYTES = 48 << 20, // of the index and of the files together
};

// Types that a view can have, and U8, which MXFP4 comes in; others are known by name alone. Blocks
// are made of codes (integers.h); no file has a tensor of them.
enum st_dtype { ST_F32, ST_F16, ST_BF16, ST_Q4_0, ST_Q5_0, ST_Q8_0, ST_U8, ST_OTHER };

struct st_tensor {
    const char *name;
    char dtype_name[12];
    enum st_dtype dtype;
    int n_dims;     // may be 0, and above WEIGHTS_MAX_DIMS
    int64_t dim[4]; // fastest first; unused ones are 1. Of more dimensions the fastest four
    const uint8_t *data;
    uint64_t bytes, offset; // in the file
    int file;
    const char *as;          // the name that it is mapped by; NULL: its own
    enum tensor_codes codes; // if there are any, nobody may read it in place; see derived.h
    int derived;             // which of the weights' derived tensors it is then
    bool is_known;           // it belongs to another tensor, and is not mapped
};

// The shards' tensors as the index tells them: which file has which.
struct st_place {
    const char *name;
    int file;
    bool is_found;
};

struct st_table {
    struct weights *weights; // whose files they are
    struct arena arena;      // names, for the time of the opening
    uint64_t name_bytes;
    struct st_tensor *tensors; // [n], in the files' order
    int n, cap;
    struct store_name *names; // the same, sorted by name; after st_finish
    struct st_place *places;  // [n_places] sorted by name; NULL: there is no index
    int n_places, cap_places;
};

void st_deinit(struct st_table *table);

// Reads weight_map of model.safetensors.index.json (text). Opens every file that it names, in
// `folder`, as one of the weights' files; a name that could leave the folder is refused.
rn_status st_index_read(struct st_table *table, const char *folder, const char *path,
                        const char *text, size_t len, rn_error *err);

// Adds the tensors that files[file] lists. With places, tensors that the index does not place in
// this file are passed over, as the reference loader does.
rn_status st_file_read(struct st_table *table, int file, rn_error *err);

// After all files: every tensor of the index was found, no name occurs twice.
rn_status st_finish(struct st_table *table, rn_error *err);

// NULL: none. After st_finish.
const struct st_tensor *st_find(const struct st_table *table, const char *name);

#endif
