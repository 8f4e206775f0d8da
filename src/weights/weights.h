// A model's files as named tensors and metadata, from any container: one GGUF file, a split GGUF, a
// Hugging Face folder. Names, keys and shapes are GGUF's in every case, so that nothing above knows
// where a model came from. Facts that GGUF cannot express have keys of their own (hf_config.c).
// Owns addresses for all bytes of its files, from which views borrow. Metadata are in memory. A
// tensor's bytes come by weights_read: files are not mapped, so what happens to a file becomes a
// status and no signal. Invariant: after a successful open every view is inside these addresses or
// inside memory that this owns.
#ifndef RN_WEIGHTS_WEIGHTS_H
#define RN_WEIGHTS_WEIGHTS_H

#include "quant/format.h"

enum { WEIGHTS_MAX_DIMS = 4 };

// What a folder has in place of a tensor's numbers.
enum tensor_codes {
    CODES_NONE,
    CODES_FP8,      // 8-bit floats
    CODES_INTEGERS, // packed integers with scales
};

struct tensor_view {
    const char *name; // NUL-terminated
    enum format_id format;
    int n_dims;
    int64_t dim[WEIGHTS_MAX_DIMS]; // dim[0] is the row length (fastest); unused ones are 1
    const void *data;              // an address for weights_read; NULL where parts is set
    // Slices of the third dimension that are stored apart (one file tensor per expert): [dim[2]],
    // each of bytes / dim[2]. NULL: all of it is at data.
    const void *const *parts;
    uint64_t bytes;
    uint64_t offset;         // in its file; 0 where it was computed at open
    int file;                // which of weights_file_at
    enum tensor_codes codes; // what weights_read makes its bytes of
};

// As GGUF numbers them.
enum meta_type {
    META_U8,
    META_I8,
    META_U16,
    META_I16,
    META_U32,
    META_I32,
    META_F32,
    META_BOOL,
    META_STRING,
    META_ARRAY,
    META_U64,
    META_I64,
    META_F64
};
enum { META_TYPE_COUNT = META_F64 + 1 };

struct meta_view {
    const char *key; // NUL-terminated
    enum meta_type type;
    enum meta_type item_type; // of an array
    uint64_t count;           // items of an array; bytes of a string; 1 otherwise
    const uint8_t *data;      // little-endian value, string bytes, or the packed items of an array
    uint64_t bytes;           // length of data
    uint64_t offset;          // of data in the file
};

struct weights;
struct hf_arch;

// Opens a GGUF file, all parts of a split one (given any part: NAME-00001-of-00003.gguf). An
// error's message begins with the path.
rn_status weights_open(const char *path, struct weights **out, rn_error *err);
// The same, or a folder with config.json and safetensors, which is read by the rows of `archs`
// (hf_arch.h; see model_weights_open). With is_vocab only the metadata of a folder are read, and
// its config.json need not be there.
rn_status weights_open_any(const char *path, const struct hf_arch *archs, bool is_vocab,
                           struct weights **out, rn_error *err);
// A GGUF file from memory that outlives it; name is used in messages.
rn_status weights_open_memory(const char *name, const void *data, size_t size, struct weights **out,
                              rn_error *err);
void weights_close(struct weights *weights);
// A config.json alone, for a plan without weights: its metadata, and the tensors whose shapes it
// says. weights_describe_add adds further ones, and weights_describe_end gives them sizes; nothing
// has data before weights_reformat (synthetic.h).
rn_status weights_describe_config(const char *path, const struct hf_arch *archs,
                                  struct weights **out, rn_error *err);
const struct tensor_view *weights_describe_add(struct weights *weights, const char *name,
                                               int64_t cols, int64_t rows,
                                               int64_t n_expert); // NULL: no memory
// In place of weights_tensor_find, which needs the end.
const struct tensor_view *weights_describe_find(const struct weights *weights, const char *name);
rn_status weights_describe_end(struct weights *weights, rn_error *err);

// Brings a tensor's bytes: *at is where [data, data + bytes) can be read. Of a file on disk that is
// buffer, which has room for them; of memory it is data itself. With 0 bytes it only tells which of
// the two. A file that was cut since open is an error. Any number of threads may read at once.
rn_status weights_read(const struct weights *weights, const void *data, uint64_t bytes,
                       void *buffer, const void **at, rn_error *err);
// RN_ERR_IO: a file was written to since it was opened (file_check_same), so bytes that were read
// since then may be of two models. The message says what changed.
rn_status weights_check_files(const struct weights *weights, rn_error *err);

// --- the identity of a model, see weights_hash.c ---

enum { WEIGHTS_HASH = 16, WEIGHTS_STAMP = 32 };
// The hash of everything that is known of the model: every byte of its files, its metadata, and its
// tensors, wherever they are. Takes as long as reading all of it. RN_ERR_CANCELLED: *stop became
// true. RN_ERR_IO: a file changed since it was opened, or cannot be read.
rn_status weights_hash(const struct weights *weights, const _Atomic bool *stop,
                       uint8_t out[WEIGHTS_HASH], rn_error *err);
// A name for the files as they were opened, by which their hash may be remembered. Models with
// equal stamps have equal hashes. False: there is none, because a file changed just before it was
// opened, or is none on disk.
bool weights_stamp(const struct weights *weights, uint8_t out[WEIGHTS_STAMP]);

const char *weights_path(const struct weights *weights); // as opened
const char *weights_name(const struct weights *weights); // the end of a long path, for messages
const char *weights_container(const struct weights *weights); // "GGUF v3", "safetensors"
uint64_t weights_bytes(const struct weights *weights);        // of all files
// The folder that tokenizer.json and its like are in; NULL: the metadata has the vocabulary.
const char *weights_folder(const struct weights *weights);
int weights_file_count(const struct weights *weights);
const char *weights_file_at(const struct weights *weights, int index); // its name without folders

int weights_tensor_count(const struct weights *weights);
const struct tensor_view *weights_tensor_at(const struct weights *weights, int index);
const struct tensor_view *weights_tensor_find(const struct weights *weights,
                                              const char *name); // NULL: none

// Tensors of a folder that are known and not read, such as the part that reads images.
struct weights_left_out {
    const char *pattern; // of their names: "visual.*"
    int n_tensors;
};
// The index-th kind; NULL: there are no more.
const struct weights_left_out *weights_left_out_at(const struct weights *weights, int index);

int weights_meta_count(const struct weights *weights);
const struct meta_view *weights_meta_at(const struct weights *weights, int index);
const struct meta_view *weights_meta_find(const struct weights *weights,
                                          const char *key); // NULL: none

// Scalars of any integer or bool type; false when the value is no integer or does not fit.
bool meta_get_i64(const struct meta_view *meta, int64_t *out);
// Any number.
bool meta_get_f64(const struct meta_view *meta, double *out);
bool meta_get_bool(const struct meta_view *meta, bool *out);
// Bytes without NUL at the end.
bool meta_get_string(const struct meta_view *meta, const char **text, size_t *len);

// Walks an array: strings one after another, numbers by index.
struct meta_cursor {
    const uint8_t *at, *end;
    uint64_t left;
};
bool meta_strings_begin(const struct meta_view *meta,
                        struct meta_cursor *cursor); // false: not an array of strings
bool meta_strings_next(struct meta_cursor *cursor, const char **text, size_t *len);
bool meta_item_i64(const struct meta_view *meta, uint64_t index, int64_t *out);
bool meta_item_f64(const struct meta_view *meta, uint64_t index, double *out);

#endif
