// See integers.h. Here they are decoded; integers_adopt.c finds them in a folder. Codes, zero
// points and scales are in memory while a tensor is read.
#include "weights/integers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "quant/q4_0.h"
#include "quant/q5_0.h"
#include "quant/q8_0.h"
#include "weights/derived.h"

enum {
    BLOCK = 32,
    WORD = sizeof(uint32_t),
    TILE = 256, // rows at a time, so that a packed line of memory is used while it is in the cache
    TILE_NUMBERS = 16, // the same where whole rows are filled column by column
};

// ---------------------------------------------------------------- one code

struct place {
    int64_t at; // byte
    int shift;
};

// The word's bits begin at k codes.
static struct place place_of(int64_t word, int64_t word_bytes, int k, int bits) {
    return (struct place){word * word_bytes + k * bits / 8, k * bits % 8};
}

static struct place row_place(const struct packed *p, int64_t row) {
    static const uint8_t mixed[] = {0, 4, 1, 5, 2, 6, 3, 7};
    const int k = (int)(row % p->row_per);
    return place_of(row / p->row_per, p->row_bytes, p->is_mixed ? mixed[k] : k, p->bits);
}

static struct place col_place(const struct packed *p, int64_t col) {
    return place_of(col / p->col_per, p->col_bytes, (int)(col % p->col_per), p->bits);
}

uint8_t integers_byte(const struct packed *p, int64_t at) {
    uint32_t word;
    if (!p->word_add) return p->data[at] ^ p->flip;
    memcpy(&word, p->data + (at - at % WORD), sizeof word);
    return (uint8_t)((word + p->word_add) >> 8 * (at % WORD));
}

// Of codes, which have nothing to add.
static uint8_t code_at(const struct packed *p, struct place row, struct place col) {
    const uint8_t byte = p->data[row.at + col.at] ^ p->flip;
    return (uint8_t)(byte >> (row.shift + col.shift) & ((1 << p->bits) - 1));
}

int integers_zero(const struct integers *in, int64_t row, int64_t group) {
    const struct packed *p = &in->zero;
    if (!p->data) return p->all;
    const struct place r = row_place(p, row), g = col_place(p, group);
    const int byte = integers_byte(p, r.at + g.at);
    return (byte >> (r.shift + g.shift) & ((1 << p->bits) - 1)) + in->zero_add;
}

// ---------------------------------------------------------------- rows

// What rows [row, row + n) have for the columns of a group.
struct rows {
    const struct integers *in;
    int64_t row, group;
    int n;
    struct place place[TILE];
    int16_t zero[TILE];
    float scale[TILE];
};

static void rows_init(struct rows *rows, const struct integers *in, int64_t row, int n) {
    rows->in = in;
    rows->row = row;
    rows->n = n;
    rows->group = -1;
    for (int r = 0; r < n; r++) rows->place[r] = row_place(&in->code, row + r);
}

static void rows_group(struct rows *rows, int64_t group) {
    const struct integers *in = rows->in;
    const int size = format_at(in->scale_format)->block_bytes;
    if (rows->group == group) return;
    rows->group = group;
    for (int r = 0; r < rows->n; r++) {
        const int64_t at = (rows->row + r) * in->scale_row + group * in->scale_col;
        rows->zero[r] = (int16_t)integers_zero(in, rows->row + r, group);
        format_decode(in->scale_format, in->scale + at * size, &rows->scale[r], 1);
    }
}

// Codes of a block of columns. The order is that of the memory.
static void block_codes(const struct rows *rows, int64_t col, uint8_t code[TILE][BLOCK]) {
    const struct packed *p = &rows->in->code;
    struct place place[BLOCK];
    for (int c = 0; c < BLOCK; c++) place[c] = col_place(p, col + c);
    if (p->row_bytes > p->col_bytes) {
        for (int r = 0; r < rows->n; r++)
            for (int c = 0; c < BLOCK; c++) code[r][c] = code_at(p, rows->place[r], place[c]);
    } else {
        for (int c = 0; c < BLOCK; c++)
            for (int r = 0; r < rows->n; r++) code[r][c] = code_at(p, rows->place[r], place[c]);
    }
}

static void q4_0_make(const uint8_t code[BLOCK], int zero, uint16_t d, struct q4_0_block *out) {
    const int add = 8 - zero;
    out->d = d;
    for (int i = 0; i < BLOCK / 2; i++)
        out->qs[i] = (uint8_t)((code[i] + add) | (code[i + BLOCK / 2] + add) << 4);
}

static void q5_0_make(const uint8_t code[BLOCK], int zero, uint16_t d, struct q5_0_block *out) {
    uint8_t level[BLOCK];
    out->d = d;
    for (int i = 0; i < BLOCK; i++) level[i] = (uint8_t)(code[i] + 16 - zero);
    five_bits_put(level, out->bits);
}

static void q8_0_make(const uint8_t code[BLOCK], int zero, uint16_t d, struct q8_0_block *out) {
    out->d = d;
    for (int i = 0; i < BLOCK; i++) out->q[i] = (int8_t)(code[i] - zero);
}

static void block_make(enum format_id format, const uint8_t code[BLOCK], int zero, uint16_t d,
                       void *out) {
    if (format == FORMAT_Q4_0)
        q4_0_make(code, zero, d, out);
    else if (format == FORMAT_Q5_0)
        q5_0_make(code, zero, d, out);
    else
        q8_0_make(code, zero, d, out);
}

// Columns [from, to) of the rows as blocks.
static void rows_blocks(struct rows *rows, int64_t from, int64_t to, uint8_t *out,
                        uint64_t row_bytes) {
    const struct integers *in = rows->in;
    const int size = format_at(in->format)->block_bytes;
    uint8_t code[TILE][BLOCK];
    for (int64_t col = from; col < to; col += BLOCK, out += size) {
        rows_group(rows, col / in->group);
        block_codes(rows, col, code);
        for (int r = 0; r < rows->n; r++)
            block_make(in->format, code[r], rows->zero[r], f32_to_f16(rows->scale[r]),
                       out + (uint64_t)r * row_bytes);
    }
}

// A column of the rows as numbers, of the group that they have at hand.
static void rows_column(const struct rows *rows, int64_t col, uint8_t *out, uint64_t row_bytes) {
    const struct packed *p = &rows->in->code;
    const struct place place = col_place(p, col);
    float number[TILE];
    uint16_t half[TILE];
    for (int r = 0; r < rows->n; r++)
        number[r] = (float)(code_at(p, rows->place[r], place) - rows->zero[r]) * rows->scale[r];
    format_encode(rows->in->format, number, half, rows->n);
    for (int r = 0; r < rows->n; r++)
        memcpy(out + (uint64_t)r * row_bytes, &half[r], sizeof half[r]);
}

// Columns [from, to) of the rows as numbers, group after group.
static void rows_numbers(struct rows *rows, int64_t from, int64_t to, uint8_t *out,
                         uint64_t row_bytes) {
    const struct integers *in = rows->in;
    for (int64_t group = 0; group < in->n_group; group++) {
        const int64_t begin = in->first ? in->first[group] : group * in->group;
        const int64_t end = in->first ? in->first[group + 1] : begin + in->group; // or behind `to`
        for (int64_t i = begin; i < end; i++) {
            const int64_t col = in->order ? in->order[i] : i;
            if (col < from || col >= to) continue;
            rows_group(rows, group);
            rows_column(rows, col, out + 2 * (col - from), row_bytes);
        }
    }
}

static void part_decode(const struct integers *in, int64_t row, int64_t n, int64_t from, int64_t to,
                        uint8_t *out) {
    const uint64_t row_bytes = format_row_bytes(in->format, in->cols);
    const bool is_blocks = format_at(in->format)->span > 0;
    const int step = is_blocks ? TILE : TILE_NUMBERS;
    struct rows rows;
    for (int64_t end = row + n; row < end; row += step, out += (uint64_t)step * row_bytes) {
        rows_init(&rows, in, row, end - row < step ? (int)(end - row) : step);
        if (is_blocks)
            rows_blocks(&rows, from, to, out, row_bytes);
        else
            rows_numbers(&rows, from, to, out, row_bytes);
    }
}

// ---------------------------------------------------------------- any part of a tensor

static uint64_t padded(uint64_t bytes) { return (bytes + WORD - 1) / WORD * WORD; }

// Reads a part into the room; *data is then where it is.
static rn_status part_bring(const struct weights *weights, int file, uint64_t bytes, uint8_t **room,
                            const uint8_t **data, rn_error *err) {
    const struct store_file *from = &weights->files[file];
    uint8_t *to = *room;
    *room += padded(bytes);
    const uint64_t at = (uint64_t)(*data - from->data);
    *data = to;
    return store_file_read(from, at, bytes, to, err);
}

static rn_status held_fill(const struct weights *weights, const struct integers *of,
                           struct integers_held *held, rn_error *err) {
    struct integers in = *of;
    const uint64_t zeros = in.zero.data ? in.zero.bytes : 0;
    uint8_t *room = malloc(padded(in.code.bytes) + padded(in.scale_bytes) + padded(zeros));
    if (!room) return err_set(err, RN_ERR_NOMEM, "%s: out of memory", weights->name);
    held->bytes = room;
    rn_status s = part_bring(weights, in.code.file, in.code.bytes, &room, &in.code.data, err);
    if (!s) s = part_bring(weights, in.scale_file, in.scale_bytes, &room, &in.scale, err);
    if (!s && zeros) s = part_bring(weights, in.zero.file, zeros, &room, &in.zero.data, err);
    if (!s) return RN_OK;
    free(held->bytes);
    held->bytes = NULL;
    return s;
}

// The rows of a matrix may be packed across, so that a few rows are a few bytes everywhere. So the
// first reader brings all of it, and it goes when every byte of the tensor was read.
static rn_status held_enter(const struct weights *weights, const struct derived *derived,
                            struct integers *out, rn_error *err) {
    const struct integers *in = &derived->integers;
    struct integers_held *held = derived->held;
    rn_status status = RN_OK;
    pthread_mutex_lock(&held->lock);
    if (!held->bytes) {
        held->left = (uint64_t)in->rows * format_row_bytes(in->format, in->cols);
        status = held_fill(weights, in, held, err);
    }
    if (!status) held->n_readers++;
    *out = *in;
    out->code.data = held->bytes;
    out->scale = held->bytes + padded(in->code.bytes);
    if (in->zero.data) out->zero.data = out->scale + padded(in->scale_bytes);
    pthread_mutex_unlock(&held->lock);
    return status;
}

static void held_leave(struct integers_held *held, uint64_t bytes) {
    pthread_mutex_lock(&held->lock);
    held->left -= bytes < held->left ? bytes : held->left;
    if (--held->n_readers == 0 && held->left == 0) {
        free(held->bytes);
        held->bytes = NULL;
    }
    pthread_mutex_unlock(&held->lock);
}

struct integers_held *integers_held_create(void) {
    struct integers_held *held = calloc(1, sizeof *held);
    if (held) pthread_mutex_init(&held->lock, NULL);
    return held;
}

void integers_held_destroy(struct integers_held *held) {
    if (!held) return;
    pthread_mutex_destroy(&held->lock);
    free(held->bytes);
    free(held);
}

rn_status integers_read(const struct weights *weights, const struct derived *derived, uint64_t at,
                        uint64_t bytes, void *out, rn_error *err) {
    struct integers in;
    const struct format *format = format_at(derived->integers.format);
    const uint64_t row_bytes = format_row_bytes(derived->integers.format, derived->integers.cols),
                   size = (uint64_t)format->block_bytes, end = at + bytes;
    uint8_t *to = out;
    assert(at % size == 0 && bytes % size == 0);
    const rn_status status = held_enter(weights, derived, &in, err);
    if (status) return status;
    for (uint64_t n; at < end; at += n, to += n) { // a part of a row, or rows
        const uint64_t row = at / row_bytes, from = at % row_bytes, rest = row_bytes - from;
        const bool is_whole = from == 0 && end - at >= row_bytes;
        n = is_whole ? (end - at) / row_bytes * row_bytes : end - at < rest ? end - at : rest;
        const uint64_t until = is_whole ? row_bytes : from + n;
        part_decode(&in, (int64_t)row, is_whole ? (int64_t)(n / row_bytes) : 1,
                    (int64_t)(from / size) * format->block, (int64_t)(until / size) * format->block,
                    to);
    }
    held_leave(derived->held, bytes);
    return RN_OK;
}

void integers_numbers(const struct integers *in, uint64_t *out) {
    out[0] = in->format;
    out[1] = (uint64_t)in->group;
    out[2] = (uint64_t)in->zero_add + in->zero.word_add;
    out[3] = (uint64_t)in->code.is_mixed;
}
