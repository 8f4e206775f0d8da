// A Hugging Face folder on its way to become what a GGUF file would be; for the hf_*.c files alone.
// hf_folder.c finds the files; hf_value.c picks values out of JSON; hf_config.c and hf_rope.c turn
// config.json into metadata; hf_tensors.c turns names into GGUF's and hf_copy.c computes the
// tensors that the files have in another form.
#ifndef RN_WEIGHTS_HF_H
#define RN_WEIGHTS_HF_H

#include "weights/safetensors.h"

// Every key that is looked at, of config.json, its nested objects and generation_config.json.
enum hf_field {
#define FIELD(name) HF_##name,
#include "weights/hf_fields.def"
#undef FIELD
    HF_FIELD_COUNT
};

// The JSON text of a value; text is NULL where there is none.
struct hf_value {
    const char *text;
    size_t len;
};

// An object's values by field.
struct hf_object {
    struct hf_value value[HF_FIELD_COUNT];
};

// What the architectures differ in. Bits, so that a table's row can name several.
enum hf_family {
    HF_LLAMA = 1 << 0,
    HF_MISTRAL = 1 << 1,
    HF_MIXTRAL = 1 << 2,
    HF_QWEN2 = 1 << 3,
    HF_QWEN3 = 1 << 4,
    HF_QWEN3MOE = 1 << 5,
    HF_GEMMA = 1 << 6,
    HF_GEMMA2 = 1 << 7,
    HF_GEMMA3 = 1 << 8,
    HF_PHI3 = 1 << 9,
    HF_GPT2 = 1 << 10,
    HF_GRANITE = 1 << 11,
    HF_OLMO2 = 1 << 12,
    HF_SMOLLM3 = 1 << 13,
    HF_GPTOSS = 1 << 14,

    HF_ALL = (1 << 15) - 1,
    HF_ALL_GEMMA = HF_GEMMA | HF_GEMMA2 | HF_GEMMA3, // norms to which 1 is added
    HF_ALL_MOE = HF_MIXTRAL | HF_QWEN3MOE | HF_GPTOSS,
    HF_ALL_LLAMA =
        HF_LLAMA | HF_MISTRAL | HF_MIXTRAL | HF_GRANITE | HF_SMOLLM3, // GGUF permutes q, k
};

// The state of the reading of config.json. The first error is kept in status and stops the rest:
// every call below returns at once then, with a harmless value.
struct hf_config {
    struct weights *weights;
    rn_error *err;
    rn_status status;
    const char *path; // of the file, for messages
    const char *text; // its first byte, for offsets in messages
    struct hf_object root, rope, rope_local;
    enum hf_family family;
    const char *arch; // GGUF's name
    // Numbers that the tensors need.
    int64_t n_layer, n_embd, n_head, n_head_kv, n_ff, n_ctx, head_dim, n_rot;
    int64_t n_expert, n_expert_used, n_ff_expert; // n_expert is 0: there are none
    bool is_tied;
};

// --- hf_value.c ---

// Takes the fields of the object at value, over those that are there already.
void hf_object_read(struct hf_config *c, struct hf_value value, struct hf_object *out);
const char *hf_field_name(enum hf_field field);
// There, and not null.
bool hf_has(const struct hf_object *object, enum hf_field field);

// A value of a wrong kind or out of its range is an error; one that is absent or null gives the
// fallback, without range check.
int64_t hf_int(struct hf_config *c, const struct hf_object *object, enum hf_field field,
               int64_t min, int64_t max, int64_t fallback);
double hf_number(struct hf_config *c, const struct hf_object *object, enum hf_field field,
                 double min, double max, double fallback);
bool hf_bool(struct hf_config *c, const struct hf_object *object, enum hf_field field,
             bool fallback);
// "" where it is absent; of longer strings the beginning.
void hf_string(struct hf_config *c, const struct hf_object *object, enum hf_field field, char *out,
               size_t size);
// Any of: the number, 0 or 1 of a bool, the number of items of an array.
double hf_measure(struct hf_config *c, const struct hf_object *object, enum hf_field field,
                  double fallback);

void hf_fail(struct hf_config *c, rn_status status, const char *fmt, ...) RN_PRINTF(3, 4);
// "config.json: offset 31: hidden_size is -1, expected 1 to 131072"
void hf_fail_value(struct hf_config *c, rn_status status, const struct hf_object *object,
                   enum hf_field field, const char *expected);

// Metadata under "<arch>.<suffix>".
void hf_put_u32(struct hf_config *c, const char *suffix, int64_t value);
void hf_put_f32(struct hf_config *c, const char *suffix, double value);
void hf_put_bool(struct hf_config *c, const char *suffix, bool value);
void hf_put_string(struct hf_config *c, const char *suffix, const char *value);
void hf_put_bools(struct hf_config *c, const char *suffix, const uint8_t *values, int64_t count);
// Metadata under any key; the data are copied.
rn_status hf_put(struct weights *weights, const char *key, enum meta_type type, const void *data,
                 size_t bytes, rn_error *err);

// --- hf_config.c, hf_rope.c ---

// Only what the class tells, for a vocabulary: false when it is unknown.
bool hf_config_class(struct hf_config *c, const char *text, size_t len);
void hf_config_read(struct hf_config *c, const char *text, size_t len);
void hf_rope_read(struct hf_config *c);

// --- hf_tensors.c, hf_copy.c ---

rn_status hf_tensors_map(struct hf_config *c, const struct st_table *table);

// A new tensor at the end whose data are in owned memory: *data is room for its bytes. Its shape is
// dim[n_dims], fastest first.
rn_status hf_tensor_new(struct hf_config *c, const char *name, enum format_id format, int n_dims,
                        const int64_t *dim, void **data);

// dst[r][c] = src[c * stride + first + r * step]: elements of `size` bytes, dst of rows x cols.
void hf_copy_transposed(void *dst, const void *src, int64_t rows, int64_t cols, int64_t stride,
                        int64_t first, int64_t step, size_t size);
// dst[r] = src[first + r * step]
void hf_copy_strided(void *dst, const void *src, int64_t count, int64_t first, int64_t step,
                     size_t size);
void hf_copy_add_one(float *dst, const struct st_tensor *src, enum format_id format);
// GGUF's blocks of 17 bytes from the nibbles, 16 bytes for a block, and the scales.
void hf_copy_mxfp4(uint8_t *dst, const uint8_t *nibbles, const uint8_t *scales, int64_t n_blocks);

#endif
