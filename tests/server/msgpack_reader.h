// A reader of msgpack, written from its specification, for the tests of published events. Values
// become JSON; integers beyond int64_t, extensions and bytes are refused.
#ifndef RN_TESTS_SERVER_MSGPACK_READER_H
#define RN_TESTS_SERVER_MSGPACK_READER_H

#include <jansson.h>
#include <string.h>

#include "check.h"

struct msgpack {
    const uint8_t *at, *end;
};

static inline uint64_t msgpack_number(struct msgpack *in, int n_bytes) {
    uint64_t value = 0;
    check(in->end - in->at >= n_bytes, "the text ends in a number of %d bytes", n_bytes);
    for (int i = 0; i < n_bytes; i++) value = value << 8 | *in->at++;
    return value;
}

static inline json_t *msgpack_value(struct msgpack *in);

static inline json_t *msgpack_text(struct msgpack *in, uint64_t len) {
    check((uint64_t)(in->end - in->at) >= len, "the text ends in a string");
    json_t *text = json_stringn((const char *)in->at, (size_t)len);
    assert_non_null(text);
    in->at += len;
    return text;
}

static inline json_t *msgpack_list(struct msgpack *in, uint64_t n) {
    json_t *list = json_array();
    for (uint64_t i = 0; i < n; i++) json_array_append_new(list, msgpack_value(in));
    return list;
}

static inline json_t *msgpack_map(struct msgpack *in, uint64_t n) {
    json_t *map = json_object();
    for (uint64_t i = 0; i < n; i++) {
        json_t *key = msgpack_value(in);
        check(json_is_string(key), "a key is no string");
        check(!json_object_get(map, json_string_value(key)), "%s comes twice",
              json_string_value(key));
        json_object_set_new(map, json_string_value(key), msgpack_value(in));
        json_decref(key);
    }
    return map;
}

static inline json_t *msgpack_value(struct msgpack *in) {
    const unsigned type = (unsigned)msgpack_number(in, 1);
    if (type < 0x80) return json_integer(type);
    if (type < 0x90) return msgpack_map(in, type & 0xf);
    if (type < 0xa0) return msgpack_list(in, type & 0xf);
    if (type < 0xc0) return msgpack_text(in, type & 0x1f);
    switch (type) {
    case 0xc0:
        return json_null();
    case 0xc2:
    case 0xc3:
        return json_boolean(type & 1);
    case 0xcb: {
        const uint64_t bits = msgpack_number(in, 8);
        double value;
        memcpy(&value, &bits, sizeof value);
        return json_real(value);
    }
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf: {
        const uint64_t value = msgpack_number(in, 1 << (type - 0xcc));
        check(value <= INT64_MAX, "%llu has no sign", (unsigned long long)value);
        return json_integer((json_int_t)value);
    }
    case 0xd9:
    case 0xda:
        return msgpack_text(in, msgpack_number(in, 1 << (type - 0xd9)));
    case 0xdc:
    case 0xdd:
        return msgpack_list(in, msgpack_number(in, 2 << (type - 0xdc)));
    case 0xde:
        return msgpack_map(in, msgpack_number(in, 2));
    default:
        fail_msg("0x%02x is no type that events have", type);
        return NULL;
    }
}

// The whole text is one value; to be given back with json_decref.
static inline json_t *msgpack_read(const void *data, size_t len) {
    struct msgpack in = {.at = data, .end = (const uint8_t *)data + len};
    json_t *value = msgpack_value(&in);
    check(in.at == in.end, "%d bytes are left", (int)(in.end - in.at));
    return value;
}

#endif
