// The inside of struct weights, for the container readers in this folder alone: they fill it
// through these calls; other modules see weights.h.
#ifndef RN_WEIGHTS_STORE_H
#define RN_WEIGHTS_STORE_H

#include "base/arena.h"
#include "base/file.h"
#include "weights/weights.h"

// Together these bound the memory that a hostile file can make us allocate: 64 MB beside the bytes
// of headers.
enum {
    STORE_MAX_METAS = 65536,
    STORE_MAX_TENSORS = 262144,
    STORE_MAX_NAME_BYTES = 16 << 20, // all keys and tensor names together
    STORE_MAX_FILES = 4096,
    STORE_MAX_HEADER_BYTES =
        256 << 20, // of GGUF: keys, vocabulary and tensors' names, of all parts
};

struct derived;

struct store_name {
    const char *name;
    int index; // in tensors or metas
};

// Of a file on disk only its first n_here bytes are in memory, and what store_bring brings; the
// rest comes by store_file_read.
struct store_file {
    const uint8_t *data; // addresses of the whole file
    uint64_t size, n_here;
    struct file_image image; // the memory behind data, if this owns it
    int fd;                  // of a file on disk; -1: all of it is in memory
    bool is_stand_in;        // memory without bytes, for a file that is on disk elsewhere
    struct file_stamp stamp; // of a file on disk, when it was opened
    uint64_t brought, brought_end;
    const char *path; // the end of its path, for messages
    const char *name; // without folders
};

struct store_metas {
    struct meta_view *items;  // [n], in the file's order
    struct store_name *names; // the same, sorted by name
    int n, cap;
};

enum { STORE_MAX_LEFT_OUT = 8 }; // patterns of a class

struct weights {
    struct store_file *files; // [n_files]
    int n_files, cap_files;
    struct arena arena; // names, values and tensors that no file has
    char *path;
    const char *name;   // the end of path, for messages
    const char *folder; // see weights_folder
    char container[16];
    struct store_metas metas;
    struct tensor_view *tensors;     // [n_tensors], in the files' order
    struct store_name *tensor_names; // the same, sorted by name
    int n_tensors, cap_tensors;
    uint64_t name_bytes, header_bytes;
    // [n_derived] by their addresses, which are in [derived_base, derived_base + derived_bytes)
    struct derived *derived;
    int n_derived, cap_derived;
    void *derived_base;
    uint64_t derived_bytes;
    struct weights_left_out left_out[STORE_MAX_LEFT_OUT]; // [n_left_out]
    int n_left_out;
};

// Back to the path alone.
void store_reset(struct weights *weights);

// Opens a file and puts it at the end of the list; its index is n_files - 1 then.
rn_status store_file_open(struct weights *weights, const char *path, rn_error *err);
// The same with memory that outlives the weights; path is used in messages.
rn_status store_file_add(struct weights *weights, const char *path, const void *data, size_t size,
                         rn_error *err);

// Bytes [at, at + bytes) of the file into dst. Any number of threads may read at once.
rn_status store_file_read(const struct store_file *file, uint64_t at, uint64_t bytes, void *dst,
                          rn_error *err);
// While a model is opened: brings bytes of a file into memory, at their addresses in it. Those of a
// file in memory, or of none, are there.
rn_status store_bring(struct weights *weights, const void *data, uint64_t bytes, rn_error *err);
// Gives back the memory of all that was brought.
void store_bring_end(struct weights *weights);
// The first `end` bytes of the file, which has as many, for the reader of its header.
rn_status store_header_read(struct weights *weights, int file, uint64_t end, rn_error *err);

// A NUL-terminated copy of a name; NULL when there is no memory. The caller keeps name_bytes within
// STORE_MAX_NAME_BYTES.
const char *store_name_dup(struct weights *weights, const uint8_t *text, uint64_t len);

// A new zeroed entry at the end, or NULL when there is no memory. Moves the earlier ones.
struct meta_view *store_meta_push(struct store_metas *metas);
struct tensor_view *store_tensor_push(struct weights *weights);

// Sorts the names, so that find works, and refuses duplicates. `path` is for messages.
rn_status store_metas_index(struct store_metas *metas, const char *path, rn_error *err);
rn_status store_tensors_index(struct weights *weights, rn_error *err);
const struct meta_view *store_metas_find(const struct store_metas *metas, const char *key);
void store_metas_deinit(struct store_metas *metas);

// Sorts and returns the first of two equal names, or NULL.
const struct store_name *store_names_sort(struct store_name *names, int count);
// The index that the name has; -1: none.
int store_names_find(const struct store_name *names, int count, const char *name);

// Refuses tensors that share bytes. So the size of a file bounds the bytes that it makes us pack.
// Looks at those from index `first` on, which are of one file.
rn_status store_tensors_check_overlap(const struct weights *weights, int first, rn_error *err);

// Room for one more item of `size` bytes in a table that doubles, so that a count in a file's
// header is never believed. NULL: no memory, the table is as it was.
void *store_table_grow(void *table, int count, int *cap, size_t size);

// Bytes of a value of a fixed size; 0 for strings and arrays.
extern const uint8_t store_type_bytes[META_TYPE_COUNT];

// gguf.c: reads files[file]: its keys into metas, its tensors behind the present ones. The tensors'
// names are not indexed yet.
rn_status gguf_parse(struct weights *weights, int file, struct store_metas *metas, rn_error *err);
// gguf_split.c: of how many parts the file is one; 1 when the keys do not say.
rn_status gguf_split_count(const struct store_metas *metas, const char *path, int *count,
                           rn_error *err);
// gguf_split.c: the weights hold one part of `count`, alone; replaces it by all of them.
rn_status gguf_split_open(struct weights *weights, int count, rn_error *err);

// gguf_ollama.c: gives a file in a form of Ollama's own the names and keys of llama.cpp's.
rn_status gguf_ollama_adopt(struct weights *weights, rn_error *err);

// hf_folder.c: fills everything from weights->folder.
rn_status hf_open(struct weights *weights, const struct hf_arch *archs, bool is_vocab,
                  rn_error *err);

// The same from weights->path, a config.json without tensors: of these, only the embedding and a
// head of its own are there.
rn_status hf_describe(struct weights *weights, const struct hf_arch *archs, rn_error *err);
// A tensor of that shape without data, in BF16 (vectors: F32); NULL: no memory. One of that name
// that was described before is returned again. Earlier tensors move.
struct tensor_view *store_tensor_describe(struct weights *weights, const char *name, int64_t cols,
                                          int64_t rows, int64_t n_expert);

#endif
