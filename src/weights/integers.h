// Matrices of packed integers, as folders of GPTQ, AWQ and compressed-tensors have them: a weight
// is (code - zero point) * scale of its row and its group of columns. Where the scales are numbers
// of F16 and groups are whole blocks of 32, these are the blocks of Q4_0, Q5_0 or Q8_0, whichever
// is the first that has all code - zero point: then nothing is rounded. Elsewhere the weights
// become F16 or BF16. They are decoded while they are read; see derived.h.
#ifndef RN_WEIGHTS_INTEGERS_H
#define RN_WEIGHTS_INTEGERS_H

#include <pthread.h>

#include "weights/hf.h"

// Codes or zero points: where that of a row and a column is, or that of a row and a group.
struct packed {
    const uint8_t *data; // in a file, or in memory (integers_read); NULL: each is `all`
    uint64_t bytes;
    int file;
    int bits, all;
    uint8_t flip;                 // stored with these bits inverted
    uint32_t word_add;            // to a stored word, with carries
    bool is_mixed;                // outputs of a word are in the order of AWQ
    int row_per, col_per;         // codes of a word
    int64_t row_bytes, col_bytes; // to the next word
};

struct integers {
    enum format_id format; // that it is read as
    int64_t rows, cols;
    int64_t n_group, group; // columns of a group
    // [cols] columns, group after group, and [n_group + 1] where each group begins there. NULL:
    // groups are runs of columns.
    const int32_t *order, *first;
    struct packed code, zero;
    int zero_add;         // to a zero point
    const uint8_t *scale; // in a file, or in memory (integers_read)
    uint64_t scale_bytes;
    int scale_file;
    enum format_id scale_format;
    int64_t scale_row, scale_col; // scales to that of the next row, of the next group
};

// Before tensors are mapped: finds the parts of all such tensors, checks every number in them but
// the codes, and chooses the formats. The tensors have the names of weights then. Does nothing
// where the config has no such tensors.
rn_status integers_adopt(struct hf_config *c, struct st_table *table);
// The tensor will be read as that, which must have all values of its own format.
void integers_widen(struct weights *weights, struct st_tensor *t, enum st_dtype dtype);
// The dtypes by what they hold: each has, but for rounding, the values of all before it.
int integers_rank(enum st_dtype dtype);
enum st_dtype integers_dtype(int rank);
// F16 or BF16, whichever is that of its scales; BF16 for scales in F32.
enum st_dtype integers_plain(const struct weights *weights, const struct st_tensor *t);

// Codes, zero points and scales in memory, while the tensor is read.
struct integers_held {
    pthread_mutex_t lock;
    uint8_t *bytes; // NULL: they are not there
    int n_readers;
    uint64_t left; // bytes of the tensor that were not read since
};

// The bytes from `at` on of the tensor in its format, whole blocks, into out.
struct derived;
rn_status integers_read(const struct weights *weights, const struct derived *derived, uint64_t at,
                        uint64_t bytes, void *out, rn_error *err);
void integers_numbers(const struct integers *in, uint64_t *out); // see derived_numbers
struct integers_held *integers_held_create(void);                // NULL if there is no memory
void integers_held_destroy(struct integers_held *held);

// For the two files: the zero point of a row and a group. The byte that is stored at an offset.
int integers_zero(const struct integers *in, int64_t row, int64_t group);
uint8_t integers_byte(const struct packed *p, int64_t at);

#endif
