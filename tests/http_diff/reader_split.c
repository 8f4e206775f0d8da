// The reader's split of byte streams into requests: streams come on standard input, the requests of
// each go to standard output. http_diff.mjs compares them with another parser.
//
//   in   u32 len, u32 seed (0: in one piece; else the seed of the sizes of pieces), the bytes
//   out  u32 len of what follows; u8 end, u8 state, u16 status, u32 n_requests;
//        each request: u8 complete | keep_alive << 1 | minor << 2, u32 len, the head's text
//        (METHOD, target, names and values in order, each ended by a NUL), u32 len, the body;
//        refused: code, NUL, why, NUL
// Numbers are little-endian. After a request that does not keep the connection nothing is read.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"

enum end { END_MORE, END_REFUSED, END_CLOSED };

struct buffer {
    char *data;
    size_t len, capacity;
};

static char *buffer_add(struct buffer *buffer, const void *data, size_t len) {
    if (buffer->len + len > buffer->capacity) {
        buffer->capacity = (buffer->len + len) * 2;
        buffer->data = realloc(buffer->data, buffer->capacity);
        if (!buffer->data) abort();
    }
    char *at = buffer->data + buffer->len;
    if (len && data) memcpy(at, data, len);
    buffer->len += len;
    return at;
}

static void add_u32(struct buffer *buffer, size_t number) {
    const uint32_t value = (uint32_t)number;
    buffer_add(buffer, &value, sizeof value);
}

static void set_u32(struct buffer *buffer, size_t at, size_t number) {
    const uint32_t value = (uint32_t)number;
    memcpy(buffer->data + at, &value, sizeof value);
}

struct split {
    struct reader reader;
    struct buffer *out;
    uint32_t n_requests;
    size_t flags_at, body_at; // in out, of the request that is being read
    bool keep_alive;
};

static void head_add(struct split *split) {
    const struct head *head = &split->reader.head;
    split->flags_at = split->out->len;
    split->keep_alive = head->keep_alive;
    split->n_requests++;
    *buffer_add(split->out, NULL, 1) = (char)(head->keep_alive << 1 | head->minor << 2);
    // The version stood between the target and the first field, and was overwritten.
    const size_t line_len = head->target + strlen(head_target(head)) + 1;
    add_u32(split->out, line_len + (head->len - head->fields));
    buffer_add(split->out, head->text, line_len);
    buffer_add(split->out, head->text + head->fields, head->len - head->fields);
    split->body_at = split->out->len;
    add_u32(split->out, 0);
}

// False: nothing more is to be read.
static bool event_add(struct split *split, enum reader_event event,
                      const struct reader_bytes *bytes) {
    struct buffer *out = split->out;
    if (event == READER_HEAD) head_add(split);
    if (event == READER_BODY) {
        buffer_add(out, bytes->body, bytes->body_len);
        set_u32(out, split->body_at, out->len - split->body_at - 4);
    }
    if (event == READER_END) out->data[split->flags_at] |= 1;
    return event != READER_REFUSE && (event != READER_END || split->keep_alive);
}

static bool feed(struct split *split, const char *data, size_t len) {
    for (size_t at = 0;;) {
        struct reader_bytes bytes;
        const enum reader_event event = reader_next(&split->reader, data + at, len - at, &bytes);
        at += bytes.taken;
        if (event == READER_MORE) return true;
        if (!event_add(split, event, &bytes)) return false;
    }
}

static size_t piece_len(size_t left, uint32_t *seed) {
    if (!*seed) return left;
    *seed = *seed * 1664525u + 1013904223u;
    const size_t len = 1 + (*seed >> 8) % (*seed >> 31 ? 32 : 3);
    return len < left ? len : left;
}

static void stream_split(const char *data, size_t size, uint32_t seed, struct buffer *out) {
    struct split split = {.out = out};
    const size_t begin = out->len;
    bool goes_on = true;
    buffer_add(out, NULL, 12);
    for (size_t at = 0; at < size && goes_on;) {
        const size_t len = piece_len(size - at, &seed);
        goes_on = feed(&split, data + at, len);
        at += len;
    }
    const struct reader *reader = &split.reader;
    const bool refused = reader->state == READER_REFUSED;
    if (refused) {
        buffer_add(out, reader->code, strlen(reader->code) + 1);
        buffer_add(out, reader->why, strlen(reader->why) + 1);
    }
    const enum end end = refused ? END_REFUSED : goes_on ? END_MORE : END_CLOSED;
    set_u32(out, begin, out->len - begin - 4);
    set_u32(out, begin + 4,
            (unsigned)end | (unsigned)reader->state << 8 | (unsigned)reader->status << 16);
    set_u32(out, begin + 8, split.n_requests);
    reader_deinit(&split.reader);
}

int main(void) {
    struct buffer in = {0}, out = {0};
    for (uint32_t header[2]; fread(header, sizeof header, 1, stdin) == 1;) {
        in.len = 0;
        buffer_add(&in, NULL, header[0]);
        if (header[0] && fread(in.data, header[0], 1, stdin) != 1) return 1;
        stream_split(in.data, header[0], header[1], &out);
        // An empty stream ends a batch: the results so far are sent.
        if (out.len < 1 << 16 && header[0]) continue;
        if (fwrite(out.data, out.len, 1, stdout) != 1 || fflush(stdout)) return 1;
        out.len = 0;
    }
    free(in.data);
    free(out.data);
    return 0;
}
