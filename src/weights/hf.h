// A Hugging Face folder on its way to the form of a GGUF file; for the hf_*.c files alone. Files
// are found by hf_folder.c, and hf_value.c takes values out of JSON. The metadata come from
// config.json by hf_config.c, hf_rope.c and hf_quant.c. The row of each tensor is found by
// hf_tensors.c and carried out by hf_maps.c; hf_copy.c computes tensors that the files have in
// another form. All of them run the rows of hf_arch.h and know no model.
#ifndef RN_WEIGHTS_HF_H
#define RN_WEIGHTS_HF_H

#include "weights/hf_arch.h"
#include "weights/safetensors.h"

// --- hf_value.c ---

void hf_put_string(struct hf_config *c, const char *suffix, const char *value);
// The index-th member's value; text is NULL where there are no more.
struct hf_value hf_member_at(const struct hf_object *object, int index);
// Metadata under any key; the data are copied.
rn_status hf_put(struct weights *weights, const char *key, enum meta_type type, const void *data,
                 size_t bytes, rn_error *err);

// --- hf_folder.c ---

enum { HF_JSON_MAX = 4 << 20 }; // bytes of a JSON file that is read whole

// A file of the folder; data is NULL where it is not there.
struct hf_part {
    char *path;
    const char *name; // the end of path, for messages
    struct file_image image;
};
rn_status hf_part_open(const struct weights *weights, const char *file, size_t max,
                       struct hf_part *out, rn_error *err);
void hf_part_close(struct hf_part *part);
// To read the file's values with: messages name the file.
struct hf_config hf_part_config(struct weights *weights, const struct hf_part *part, rn_error *err);

// --- hf_foreign.c ---

// RN_ERR_UNSUPPORTED: the folder holds an adapter, or weights in another form, and the message says
// what to do. RN_OK: it does not.
rn_status hf_foreign_check(const struct weights *weights, rn_error *err);

// --- hf_pooling.c ---

// How embeddings are made of a model, from the files that sentence-transformers adds to a folder.
// A fault of these files becomes metadata, since the model's text does not depend on them.
rn_status hf_pooling_read(const struct hf_config *config);

// --- hf_config.c, hf_rope.c, hf_quant.c ---

// Only the metadata of the class, for a vocabulary: false when it is unknown.
bool hf_config_class(struct hf_config *c, const char *text, size_t len);
void hf_config_read(struct hf_config *c, const char *text, size_t len);
void hf_rope_read(struct hf_config *c);
void hf_quant_read(struct hf_config *c);

// --- hf_tensors.c, hf_maps.c, hf_copy.c ---

rn_status hf_tensors_map(struct hf_config *c, struct st_table *table);

// While tensors are mapped.
struct hf_mapper {
    struct hf_config *c;
    const struct st_table *table;
    int n_rows;      // of the class's tables together
    int64_t n_nextn; // blocks behind the layers
    int *slices;     // [n_layer][n_rows]: see hf_mapper_slices; -1: none yet
    int64_t n_parts; // that these tensors have room for
    // The tensor at hand.
    const struct st_tensor *tensor;
    const struct hf_tensor *row;
    int64_t number[2]; // layer, expert
};

// In messages the file and the tensor's own name, which is what the user can look for.
void hf_mapper_fail(struct hf_mapper *m, rn_status status, const char *fmt, ...) RN_PRINTF(3, 4);
// The tensor's GGUF name; `which` is put for @.
enum { HF_GGUF_NAME_MAX = 64 };
void hf_mapper_name(const struct hf_mapper *m, const char *which, char out[HF_GGUF_NAME_MAX]);
// Where the index of the tensor is kept that the row's experts are slices of. Rows of one GGUF name
// have one place.
int *hf_mapper_slices(struct hf_mapper *m);

// A new tensor at the end whose data are in owned memory: *data is room for its bytes. Its shape is
// dim[n_dims], fastest first.
rn_status hf_tensor_new(struct hf_config *c, const char *name, enum format_id format, int n_dims,
                        const int64_t *dim, void **data);

// The tensor's numbers as they can be read: brought from the file until the tensor is mapped, or of
// codes a copy in its format, in owned memory. NULL: an error.
const uint8_t *hf_tensor_plain(struct hf_config *c, const struct st_tensor *tensor);

// dst[r][c] = src[c * stride + first + r * step]: elements of `size` bytes, dst of rows x cols.
void hf_copy_transposed(void *dst, const void *src, int64_t rows, int64_t cols, int64_t stride,
                        int64_t first, int64_t step, size_t size);
// dst[r] = src[first + r * step]
void hf_copy_strided(void *dst, const void *src, int64_t count, int64_t first, int64_t step,
                     size_t size);
void hf_copy_add_one(float *dst, const void *src, enum format_id format, int64_t n);
void hf_copy_minus_exp(float *dst, const void *src, enum format_id format, int64_t n);
// GGUF's blocks of 17 bytes from the nibbles, 16 bytes for a block, and the scales.
void hf_copy_mxfp4(uint8_t *dst, const uint8_t *nibbles, const uint8_t *scales, int64_t n_blocks);

#endif
