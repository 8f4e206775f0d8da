// Engines whose blocks are published, and what subscribers make of it: a mirror of the page table,
// kept from events alone, with the rules of the published protocol. For test_kv_events.c and
// test_kv_router.c.
#ifndef RN_TESTS_SERVER_KV_EVENTS_WORLD_H
#define RN_TESTS_SERVER_KV_EVENTS_WORLD_H

#include <openssl/sha.h>
#include <stdio.h>
#include <unistd.h>
#include <zmq.h>

#include "check.h"
#include "engine/pages/kv_internal.h"
#include "kv_events.h"
#include "msgpack_reader.h"
#include "runnel_model.h"

enum { KEYS_MAX = 512, SNAPSHOTS_MAX = 4096, FOLDER_BYTES = 64 };

// A sorted set of stored blocks: the hash's number, with the group in the low bits.
struct keys {
    uint64_t key[KEYS_MAX];
    int n;
};

static inline uint64_t key_of(int64_t hash, int64_t group) {
    return (uint64_t)hash << 1 ^ (uint64_t)group;
}

static inline int keys_find(const struct keys *keys, uint64_t key) {
    int i = 0;
    while (i < keys->n && keys->key[i] < key) i++;
    return i;
}

static inline bool keys_have(const struct keys *keys, uint64_t key) {
    const int at = keys_find(keys, key);
    return at < keys->n && keys->key[at] == key;
}

static inline void keys_set(struct keys *keys, uint64_t key, bool present) {
    const int at = keys_find(keys, key);
    if (keys_have(keys, key) == present) return;
    const size_t rest = (size_t)(keys->n - at) * sizeof *keys->key;
    check(keys->n < KEYS_MAX, "too many blocks");
    if (present) {
        memmove(keys->key + at + 1, keys->key + at, rest);
        keys->key[at] = key;
        keys->n++;
    } else {
        memmove(keys->key + at, keys->key + at + 1, rest - sizeof *keys->key);
        keys->n--;
    }
}

static inline bool keys_equal(const struct keys *a, const struct keys *b) {
    return a->n == b->n && !memcmp(a->key, b->key, (size_t)a->n * sizeof *a->key);
}

struct world {
    rn_engine *engine;
    struct kv_events *events;
    char folder[FOLDER_BYTES], endpoint[FOLDER_BYTES + 16], replay[FOLDER_BYTES + 16];
    char topic[32];
    struct keys snapshot[SNAPSHOTS_MAX]; // by sequence: the engine's page table
    int n_snapshots;
    bool partial; // blocks are told again, a part in each step: no snapshots
    int deny;     // every so many changes find no room; 0: all find some
    int n_told;
    void *zmq;
};

// ---------------------------------------------------------------- the engine's page table

// CBOR's head of an unsigned number, a text, bytes or an array.
static inline size_t cbor_put(uint8_t *out, int major, uint32_t value) {
    if (value < 24) {
        out[0] = (uint8_t)(major << 5 | (int)value);
        return 1;
    }
    const int n = value < 256 ? 1 : value < 65536 ? 2 : 4;
    out[0] = (uint8_t)(major << 5 | (n == 1 ? 24 : n == 2 ? 25 : 26));
    for (int i = 0; i < n; i++) out[1 + i] = (uint8_t)(value >> 8 * (n - 1 - i));
    return 1 + (size_t)n;
}

// The hash of a node by the published rule, from its chain alone.
static inline void chain_hash(const struct kv *kv, uint32_t at, uint8_t out[32]) {
    const struct kv_node *node = &kv->node[at], *parent = &kv->node[node->parent];
    uint8_t text[1024], above[32];
    size_t n = 0;
    if (node->parent == KV_ROOT || parent->n_salt) {
        n = cbor_put(text, 3, 14);
        memcpy(text + n, "vllm-none-hash", 14);
        SHA256(text, n + 14, above);
    } else {
        chain_hash(kv, node->parent, above);
    }
    n = cbor_put(text, 4, 3);
    n += cbor_put(text + n, 2, 32);
    memcpy(text + n, above, 32);
    n += 32;
    n += cbor_put(text + n, 4, KV_PAGE_TOKENS);
    for (int i = 0; i < KV_PAGE_TOKENS; i++) n += cbor_put(text + n, 0, (uint32_t)node->token[i]);
    if (parent->n_salt) {
        n += cbor_put(text + n, 4, 1);
        n += cbor_put(text + n, 3, parent->n_salt);
        memcpy(text + n, parent->token, parent->n_salt);
        n += parent->n_salt;
    } else {
        text[n++] = 0xf6;
    }
    SHA256(text, n, out);
}

static inline void table_read(const struct kv *kv, struct keys *out) {
    out->n = 0;
    for (uint32_t at = 1; at < kv->n_node_used; at++) {
        const struct kv_node *node = &kv->node[at];
        if (!node->used || node->n_salt || node->n_token != KV_PAGE_TOKENS) continue;
        for (int g = 0; g < kv->n_group; g++) {
            if (node->page[g] == KV_NO_PAGE) continue;
            uint8_t hash[32];
            uint64_t number = 0;
            chain_hash(kv, at, hash);
            for (int i = 24; i < 32; i++) number = number << 8 | hash[i];
            keys_set(out, key_of((int64_t)(number & INT64_MAX), g), true);
        }
    }
}

static inline bool world_listen(void *ctx, const rn_block_event *event) {
    struct world *world = ctx;
    if (world->deny && ++world->n_told % world->deny == 0) return false;
    if (!kv_events_take(world->events, event)) return false;
    if (event->change != RN_BLOCKS_SETTLED || world->partial) return true;
    check(world->n_snapshots < SNAPSHOTS_MAX, "too many batches");
    table_read(world->engine->engine.kv, &world->snapshot[world->n_snapshots++]);
    return true;
}

// ---------------------------------------------------------------- life

static inline rn_model *world_model(void) {
    rn_model *model = NULL;
    rn_error err = {0};
    check(!rn_model_open(TEST_DATA "/golden/llama/model.gguf", &model, &err), "%s", err.message);
    return model;
}

// more: further settings, or NULL.
static inline struct world *world_open(const rn_model *model, const char *pod, int kv_pages,
                                       const struct kv_events_config *more) {
    struct world *world = calloc(1, sizeof *world);
    rn_error err = {0};
    assert_non_null(world);
    snprintf(world->folder, sizeof world->folder, "/tmp/runnel-kv-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    snprintf(world->endpoint, sizeof world->endpoint, "ipc://%s/pub", world->folder);
    snprintf(world->replay, sizeof world->replay, "ipc://%s/replay", world->folder);
    snprintf(world->topic, sizeof world->topic, "kv@%s@tiny", pod);
    const rn_engine_options options = {.n_threads = 1,
                                       .max_seqs = 2,
                                       .n_ctx = 128,
                                       .kv_pages = (uint32_t)kv_pages,
                                       .speculate = "off",
                                       .self_check = true};
    check(!rn_engine_create(model, &options, &world->engine, &err), "%s", err.message);
    struct kv_events_config config = more ? *more : (struct kv_events_config){0};
    config.endpoint = world->endpoint;
    config.replay = world->replay;
    config.topic = world->topic;
    config.n_groups = (int)rn_engine_block_groups(world->engine, config.group);
    check(!kv_events_create(&config, &world->events, &err), "%s", err.message);
    assert_int_equal(rn_engine_on_blocks(world->engine, world_listen, world), RN_OK);
    world->zmq = zmq_ctx_new();
    assert_non_null(world->zmq);
    return world;
}

static inline void world_close(struct world *world) {
    char path[FOLDER_BYTES + 16];
    rn_engine_destroy(world->engine);
    kv_events_destroy(world->events);
    zmq_ctx_term(world->zmq);
    snprintf(path, sizeof path, "%s/pub", world->folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/replay", world->folder);
    unlink(path);
    rmdir(world->folder);
    free(world);
}

// Evaluates a prompt and writes n tokens; returns the tokens that were cached.
static inline int world_ask(struct world *world, const int32_t *prompt, int n_prompt, int n,
                            const char *salt) {
    const rn_request request = {.prompt = prompt,
                                .n_prompt = (size_t)n_prompt,
                                .max_tokens = n,
                                .prompt_only = n == 0,
                                .ignore_eos = true,
                                .cache_salt = salt};
    uint64_t id;
    rn_error err = {0};
    int cached = -1;
    check(!rn_engine_submit(world->engine, &request, &id, &err), "%s", err.message);
    while (cached < 0) {
        rn_event event;
        bool busy;
        assert_int_equal(rn_engine_step(world->engine, &busy), RN_OK);
        while (rn_engine_next_event(world->engine, &event))
            if (event.timings) cached = event.timings->cached_tokens;
    }
    return cached;
}

// ---------------------------------------------------------------- subscribers

struct message {
    char topic[64];
    uint64_t sequence;
    char *data; // owned
    size_t len;
};

// The next part of a message; NULL where there is none within the time.
static inline size_t part_take(void *socket, void *out, size_t size, bool *more) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    check(zmq_msg_recv(&part, socket, 0) >= 0, "no message: %s", zmq_strerror(zmq_errno()));
    const size_t len = zmq_msg_size(&part);
    check(len <= size, "a part has %zu bytes", len);
    memcpy(out, zmq_msg_data(&part), len);
    *more = zmq_msg_more(&part);
    zmq_msg_close(&part);
    return len;
}

static inline uint64_t sequence_of(const uint8_t *bytes) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value = value << 8 | bytes[i];
    return value;
}

// topic, sequence and batch; is_dealt: behind an empty part, as a dealer's answers are.
static inline struct message message_take(void *socket, bool is_dealt) {
    static char data[1 << 20];
    struct message message = {.topic = ""};
    uint8_t number[8];
    bool more = true;
    if (is_dealt) assert_int_equal(part_take(socket, data, sizeof data, &more), 0);
    assert_true(more);
    message.topic[part_take(socket, message.topic, sizeof message.topic - 1, &more)] = '\0';
    assert_true(more);
    assert_int_equal(part_take(socket, number, sizeof number, &more), 8);
    message.sequence = sequence_of(number);
    assert_true(more);
    message.len = part_take(socket, data, sizeof data, &more);
    assert_false(more);
    message.data = malloc(message.len + 1);
    assert_non_null(message.data);
    memcpy(message.data, data, message.len);
    return message;
}

static inline void *socket_open(struct world *world, int type, const char *endpoint) {
    const int patience_ms = 10000, zero = 0;
    void *socket = zmq_socket(world->zmq, type);
    assert_non_null(socket);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    assert_int_equal(zmq_connect(socket, endpoint), 0);
    return socket;
}

static inline void replay_ask(void *dealer, uint64_t from) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(from >> (56 - 8 * i));
    assert_int_equal(zmq_send(dealer, "", 0, ZMQ_SNDMORE), 0);
    assert_int_equal(zmq_send(dealer, bytes, 8, 0), 8);
}

// ---------------------------------------------------------------- events

// The member of an event, by its name or (in an array) by its place.
static inline json_t *event_get(const json_t *event, const char *name) {
    static const char *const stored[] = {
        "type",      "block_hashes",       "parent_block_hash",
        "token_ids", "block_size",         "lora_id",
        "medium",    "lora_name",          "extra_keys",
        "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window"};
    static const char *const removed[] = {"type", "block_hashes", "medium", "group_idx"};
    if (json_is_object(event)) return json_object_get(event, name);
    const bool is_stored = !strcmp(json_string_value(json_array_get(event, 0)), "BlockStored");
    const char *const *names = is_stored ? stored : removed;
    for (size_t i = 0; i < json_array_size(event); i++)
        if (!strcmp(names[i], name)) return json_array_get(event, i);
    return NULL;
}

typedef void (*event_fn)(void *ctx, const json_t *event);

// Each event of the batch, which must have the form [time, events, 0].
static inline void batch_read(const struct message *message, event_fn fn, void *ctx) {
    json_t *batch = msgpack_read(message->data, message->len), *event;
    size_t i;
    assert_int_equal(json_array_size(batch), 3);
    check(json_real_value(json_array_get(batch, 0)) > 1.6e9, "the time");
    json_array_foreach(json_array_get(batch, 1), i, event) fn(ctx, event);
    json_decref(batch);
}

// Applies an event to a set of blocks.
static inline void mirror(void *ctx, const json_t *event) {
    struct keys *keys = ctx;
    const char *type = json_string_value(event_get(event, "type"));
    if (!strcmp(type, "AllBlocksCleared")) {
        keys->n = 0;
        return;
    }
    const bool is_stored = !strcmp(type, "BlockStored");
    check(is_stored || !strcmp(type, "BlockRemoved"), "%s", type);
    const json_t *hashes = event_get(event, "block_hashes"), *hash;
    const int64_t group = json_integer_value(event_get(event, "group_idx"));
    size_t i;
    json_array_foreach(hashes, i, hash) {
        const uint64_t key = key_of(json_integer_value(hash), group);
        check(keys_have(keys, key) != is_stored, "%s of a block that %s", type,
              is_stored ? "is there" : "is not");
        keys_set(keys, key, is_stored);
    }
    if (!is_stored) return;
    assert_int_equal(json_integer_value(event_get(event, "block_size")), KV_PAGE_TOKENS);
    assert_int_equal(json_array_size(event_get(event, "token_ids")),
                     json_array_size(hashes) * KV_PAGE_TOKENS);
    assert_string_equal(json_string_value(event_get(event, "medium")), "GPU");
}

#endif
