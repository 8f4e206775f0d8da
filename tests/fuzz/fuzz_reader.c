// Bytes of a connection: however they are cut into pieces, the reader finds the same requests and
// comes to the same end. A refusal is final, and nothing outside the given bytes is read or named.
//
// Input: the bytes, as a client would send them.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum way { WHOLE, BYTES, PIECES };

// The reader's events, one after the other: heads, bodies, ends.
struct record {
    char *data;
    size_t len, capacity;
    size_t body_len; // of the request that is being read
    bool has_head;
};

static void add(struct record *record, const void *data, size_t len) {
    if (len > record->capacity - record->len) abort();
    if (len) memcpy(record->data + record->len, data, len);
    record->len += len;
}

static void add_number(struct record *record, uint64_t number) {
    add(record, &number, sizeof number);
}

static void add_text(struct record *record, const char *text) {
    add(record, text, strlen(text) + 1);
}

// The fields cover the text: each is reached by head_next, and the first of its name by head_field.
static void head_add(struct record *record, const struct head *head) {
    if (record->has_head) abort();
    record->has_head = true;
    add_text(record, head_method(head));
    add_text(record, head_target(head));
    int n_fields = 0;
    size_t end = head->fields;
    for (const char *name = head_next(head, NULL); name; name = head_next(head, name)) {
        const char *value = field_value(name);
        const char *first = head_field(head, name);
        if (!*name || !first || first > value) abort();
        add_text(record, name);
        add_text(record, value);
        end = (size_t)(value - head->text) + strlen(value) + 1;
        n_fields++;
    }
    if (n_fields != head->n_fields || end != head->len) abort();
    if (head->chunked && head->length) abort();
    if (head->host && !head_field(head, "Host")) abort();
    add_number(record, (uint64_t)head->minor << 4 | (uint64_t)head->keep_alive << 3 |
                           (uint64_t)head->expects << 2 | (uint64_t)head->chunked << 1);
    add_number(record, head->length);
}

static void event_add(struct record *record, struct reader *reader, enum reader_event event,
                      const struct reader_bytes *bytes, enum way way) {
    if (event == READER_HEAD && way == BYTES) {
        head_add(record, &reader->head); // left with the reader
    } else if (event == READER_HEAD) {
        struct head head;
        reader_take_head(reader, &head);
        head_add(record, &head);
        head_deinit(&head);
    } else if (event == READER_BODY) {
        if (!record->has_head || !bytes->body_len) abort();
        add(record, bytes->body, bytes->body_len);
        record->body_len += bytes->body_len;
    } else if (event == READER_END) {
        if (!record->has_head || !reader_is_idle(reader) || reader->head.text) abort();
        add_number(record, record->body_len);
        record->body_len = 0;
        record->has_head = false;
    }
}

static enum reader_event feed(struct reader *reader, struct record *record, const char *piece,
                              size_t len, enum way way) {
    enum reader_event event = READER_BODY;
    for (size_t at = 0; event != READER_MORE && event != READER_REFUSE;) {
        struct reader_bytes bytes;
        event = reader_next(reader, piece + at, len - at, &bytes);
        if (bytes.taken > len - at) abort();
        if (event == READER_BODY &&
            (bytes.body < piece + at || bytes.body + bytes.body_len != piece + at + bytes.taken))
            abort();
        at += bytes.taken;
        if (event == READER_MORE && at != len) abort();
        event_add(record, reader, event, &bytes, way);
    }
    return event;
}

static void end_add(struct record *record, struct reader *reader, enum reader_event event) {
    add_number(record, (uint64_t)reader->state);
    if ((event == READER_REFUSE) != (reader->state == READER_REFUSED)) abort();
    if (event != READER_REFUSE) return;
    if (reader->status < 400 || reader->status > 505) abort();
    add_number(record, (uint64_t)reader->status);
    add_text(record, reader->code);
    add_text(record, reader->why);
    static const char valid[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    struct reader_bytes bytes;
    if (reader_next(reader, valid, sizeof valid - 1, &bytes) != READER_REFUSE) abort();
    if (bytes.taken || reader->state != READER_REFUSED) abort();
}

static size_t piece_len(enum way way, size_t left, uint64_t *hash) {
    if (way == WHOLE) return left;
    if (way == BYTES) return 1;
    *hash = (*hash ^ left) * 0x9E3779B97F4A7C15u;
    const size_t len = 1 + (*hash >> 40) % (*hash >> 63 ? 64 : 5);
    return len < left ? len : left;
}

static struct record run(const uint8_t *data, size_t size, enum way way) {
    // A byte of input gives at most a byte and its share of a request's numbers.
    struct record record = {.capacity = size * 4 + 256};
    record.data = malloc(record.capacity);
    if (!record.data) abort();
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ data[i]) * 0x100000001B3u;
    // Each piece ends where this memory ends, so that the sanitizers see any read past it.
    char *memory = malloc(size + 1);
    if (!memory) abort();
    struct reader reader = {0};
    enum reader_event event = READER_MORE;
    for (size_t at = 0; at < size && event != READER_REFUSE;) {
        const size_t len = piece_len(way, size - at, &hash);
        char *piece = memory + size + 1 - len;
        memcpy(piece, data + at, len);
        event = feed(&reader, &record, piece, len, way);
        at += len;
    }
    end_add(&record, &reader, event);
    reader_deinit(&reader);
    free(memory);
    return record;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct record whole = run(data, size, WHOLE);
    for (enum way way = BYTES; way <= PIECES; way++) {
        struct record cut = run(data, size, way);
        if (whole.len != cut.len || memcmp(whole.data, cut.data, whole.len) != 0) abort();
        free(cut.data);
    }
    free(whole.data);
    return 0;
}
