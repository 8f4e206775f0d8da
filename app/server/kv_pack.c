// See kv_pack.h. Changes of one group that follow each other are one event: a chain of stored
// blocks, or a list of removed ones. Changes of different groups do not depend on each other, so
// each group has an open event of its own.
#include "kv_pack.h"

#include <assert.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS_MAX = 1 << 22, BLOCKS_FIRST = 1024, CBOR_BYTES = 512 };

struct known {
    uint8_t hash[KV_HASH_BYTES];
    bool is_named;
};

// The event of a group that further changes may join.
struct open {
    rn_block_change change; // STORED or REMOVED, where n > 0
    int n;                  // blocks
    uint32_t last;          // of STORED: the block that a next one may follow
    bool has_parent;
    uint64_t parent;
    struct jbuf hashes, tokens; // items in msgpack
    char salt[RN_MAX_SALT_BYTES];
    size_t n_salt; // of the first block
};

struct kv_pack {
    rn_block_group group[KV_PACK_GROUPS];
    int n_groups;
    bool arrays;
    uint8_t none[KV_HASH_BYTES]; // the parent of first blocks
    struct known *known;         // [n_known] by block
    uint32_t n_known;
    struct open open[KV_PACK_GROUPS];
    struct jbuf events, batch;
    int n_events;
};

// ---------------------------------------------------------------- msgpack

static void put_byte(struct jbuf *out, unsigned byte) {
    const char c = (char)(unsigned char)byte;
    jbuf_bytes(out, &c, 1);
}

static void put_big_endian(struct jbuf *out, uint64_t value, int n_bytes) {
    for (int shift = 8 * (n_bytes - 1); shift >= 0; shift -= 8)
        put_byte(out, (unsigned)(value >> shift & 0xff));
}

static void put_uint(struct jbuf *out, uint64_t value) {
    if (value < 0x80) {
        put_byte(out, (unsigned)value);
    } else if (value <= UINT8_MAX) {
        put_byte(out, 0xcc);
        put_big_endian(out, value, 1);
    } else if (value <= UINT16_MAX) {
        put_byte(out, 0xcd);
        put_big_endian(out, value, 2);
    } else {
        put_byte(out, value <= UINT32_MAX ? 0xce : 0xcf);
        put_big_endian(out, value, value <= UINT32_MAX ? 4 : 8);
    }
}

// Always eight bytes: some readers tell a hash from other numbers by its size.
static void put_hash(struct jbuf *out, uint64_t hash) {
    put_byte(out, 0xcf);
    put_big_endian(out, hash, 8);
}

static void put_nil(struct jbuf *out) { put_byte(out, 0xc0); }

static void put_real(struct jbuf *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_byte(out, 0xcb);
    put_big_endian(out, bits, 8);
}

static void put_text(struct jbuf *out, const char *text, size_t len) {
    assert(len <= UINT8_MAX);
    if (len < 32) {
        put_byte(out, 0xa0 | (unsigned)len);
    } else {
        put_byte(out, 0xd9);
        put_big_endian(out, len, 1);
    }
    jbuf_bytes(out, text, len);
}

static void put_array(struct jbuf *out, size_t n) {
    if (n < 16) {
        put_byte(out, 0x90 | (unsigned)n);
    } else if (n <= UINT16_MAX) {
        put_byte(out, 0xdc);
        put_big_endian(out, n, 2);
    } else {
        put_byte(out, 0xdd);
        put_big_endian(out, n, 4);
    }
}

// ---------------------------------------------------------------- hashes

struct cbor {
    uint8_t byte[CBOR_BYTES];
    size_t len;
};

static void cbor_head(struct cbor *out, unsigned major, uint64_t value) {
    const int n = value < 24 ? 0 : value <= UINT8_MAX ? 1 : value <= UINT16_MAX ? 2 : 4;
    const unsigned code = n == 0 ? (unsigned)value : n == 1 ? 24 : n == 2 ? 25 : 26;
    out->byte[out->len++] = (uint8_t)(major << 5 | code);
    for (int shift = 8 * (n - 1); shift >= 0; shift -= 8)
        out->byte[out->len++] = (uint8_t)(value >> shift);
}

static void cbor_bytes(struct cbor *out, unsigned major, const void *data, size_t len) {
    cbor_head(out, major, len);
    memcpy(out->byte + out->len, data, len);
    out->len += len;
}

enum { CBOR_UINT = 0, CBOR_BYTE_STRING = 2, CBOR_TEXT = 3, CBOR_ARRAY = 4, CBOR_NULL = 0xf6 };
_Static_assert(CBOR_BYTES >= 8 + KV_HASH_BYTES + 5 * RN_PAGE_TOKENS + RN_MAX_SALT_BYTES + 8,
               "a block has room");

static void none_hash(uint8_t out[KV_HASH_BYTES]) {
    static const char seed[] = "vllm-none-hash";
    struct cbor cbor = {.len = 0};
    cbor_bytes(&cbor, CBOR_TEXT, seed, sizeof seed - 1);
    SHA256(cbor.byte, cbor.len, out);
}

static void block_hash(const uint8_t parent[KV_HASH_BYTES], const rn_block_event *event,
                       uint8_t out[KV_HASH_BYTES]) {
    struct cbor cbor = {.len = 0};
    cbor_head(&cbor, CBOR_ARRAY, 3);
    cbor_bytes(&cbor, CBOR_BYTE_STRING, parent, KV_HASH_BYTES);
    cbor_head(&cbor, CBOR_ARRAY, RN_PAGE_TOKENS);
    for (int i = 0; i < RN_PAGE_TOKENS; i++) cbor_head(&cbor, CBOR_UINT, (uint32_t)event->token[i]);
    if (event->n_salt) {
        cbor_head(&cbor, CBOR_ARRAY, 1);
        cbor_bytes(&cbor, CBOR_TEXT, event->salt, event->n_salt);
    } else {
        cbor.byte[cbor.len++] = CBOR_NULL;
    }
    SHA256(cbor.byte, cbor.len, out);
}

uint64_t kv_pack_number(const uint8_t hash[KV_HASH_BYTES]) {
    uint64_t number = 0;
    for (int i = KV_HASH_BYTES - 8; i < KV_HASH_BYTES; i++) number = number << 8 | hash[i];
    return number & INT64_MAX; // as readers with a sign and readers without one have it
}

// ---------------------------------------------------------------- blocks

static bool known_grow(struct kv_pack *pack, uint32_t block) {
    if (block < pack->n_known) return true;
    if (block >= BLOCKS_MAX) return false;
    uint32_t n = pack->n_known ? pack->n_known : BLOCKS_FIRST;
    while (n <= block) n *= 2;
    struct known *known = realloc(pack->known, n * sizeof *known);
    if (!known) return false;
    memset(known + pack->n_known, 0, (n - pack->n_known) * sizeof *known);
    pack->known = known;
    pack->n_known = n;
    return true;
}

static const struct known *known_at(const struct kv_pack *pack, uint32_t block) {
    return block < pack->n_known && pack->known[block].is_named ? &pack->known[block] : NULL;
}

static bool name_block(struct kv_pack *pack, const rn_block_event *event) {
    const struct known *parent = event->parent ? known_at(pack, event->parent) : NULL;
    if ((event->parent && !parent) || !known_grow(pack, event->block)) return false;
    struct known named = {.is_named = true};
    parent = event->parent ? known_at(pack, event->parent) : NULL; // the list may have moved
    block_hash(parent ? parent->hash : pack->none, event, named.hash);
    pack->known[event->block] = named;
    return true;
}

// ---------------------------------------------------------------- events

struct member {
    struct jbuf *out;
    bool arrays;
};

// The name of a map's next member; arrays have members by their places.
static struct jbuf *member(const struct member *of, const char *name) {
    if (!of->arrays) put_text(of->out, name, strlen(name));
    return of->out;
}

static void put_items(struct jbuf *out, size_t n, const struct jbuf *items) {
    put_array(out, n);
    jbuf_bytes(out, items->data, items->len);
    if (items->failed) out->failed = true;
}

static void event_begin(const struct member *of, const char *type, unsigned n_members) {
    if (of->arrays)
        put_array(of->out, n_members);
    else
        put_byte(of->out, 0x80 | n_members); // fewer than 16
    put_text(member(of, "type"), type, strlen(type));
}

// One entry for each block: only the first block of a salted text has a key.
static void put_extra_keys(struct jbuf *out, const struct open *open) {
    if (!open->n_salt) {
        put_nil(out);
        return;
    }
    put_array(out, (size_t)open->n);
    put_array(out, 1);
    put_text(out, open->salt, open->n_salt);
    for (int i = 1; i < open->n; i++) put_nil(out);
}

static void put_stored(const struct kv_pack *pack, const struct member *of, int g,
                       const struct open *open) {
    const rn_block_group *group = &pack->group[g];
    event_begin(of, "BlockStored", 12);
    put_items(member(of, "block_hashes"), (size_t)open->n, &open->hashes);
    struct jbuf *out = member(of, "parent_block_hash");
    if (open->has_parent)
        put_hash(out, open->parent);
    else
        put_nil(out);
    put_items(member(of, "token_ids"), (size_t)open->n * RN_PAGE_TOKENS, &open->tokens);
    put_uint(member(of, "block_size"), RN_PAGE_TOKENS);
    put_nil(member(of, "lora_id"));
    put_text(member(of, "medium"), "GPU", 3); // the memory that steps read
    put_nil(member(of, "lora_name"));
    put_extra_keys(member(of, "extra_keys"), open);
    put_uint(member(of, "group_idx"), (uint64_t)g);
    put_text(member(of, "kv_cache_spec_kind"), group->kind, strlen(group->kind));
    out = member(of, "kv_cache_spec_sliding_window");
    if (group->window)
        put_uint(out, (uint64_t)group->window);
    else
        put_nil(out);
}

static void put_removed(const struct member *of, int g, const struct open *open) {
    event_begin(of, "BlockRemoved", 4);
    put_items(member(of, "block_hashes"), (size_t)open->n, &open->hashes);
    put_text(member(of, "medium"), "GPU", 3);
    put_uint(member(of, "group_idx"), (uint64_t)g);
}

static void open_close(struct kv_pack *pack, int g) {
    struct open *open = &pack->open[g];
    const struct member of = {.out = &pack->events, .arrays = pack->arrays};
    if (!open->n) return;
    if (open->change == RN_BLOCK_STORED)
        put_stored(pack, &of, g, open);
    else
        put_removed(&of, g, open);
    pack->n_events++;
    open->n = 0;
    jbuf_clear(&open->hashes);
    jbuf_clear(&open->tokens);
}

static bool joins(const struct open *open, const rn_block_event *event) {
    if (!open->n || open->change != event->change) return false;
    return event->change == RN_BLOCK_REMOVED || open->last == event->parent;
}

static void open_begin(const struct kv_pack *pack, struct open *open, const rn_block_event *event) {
    open->change = event->change;
    open->has_parent = event->parent != 0;
    if (open->has_parent) open->parent = kv_pack_number(pack->known[event->parent].hash);
    open->n_salt = event->n_salt;
    memcpy(open->salt, event->salt, event->n_salt);
}

static bool page_change(struct kv_pack *pack, const rn_block_event *event) {
    if (event->group < 0 || event->group >= pack->n_groups) return false;
    const struct known *known = known_at(pack, event->block);
    if (!known || (event->parent && !known_at(pack, event->parent))) return false;
    struct open *open = &pack->open[event->group];
    if (!joins(open, event)) {
        open_close(pack, event->group);
        open_begin(pack, open, event);
    }
    open->n++;
    open->last = event->block;
    put_hash(&open->hashes, kv_pack_number(known->hash));
    for (int i = 0; event->change == RN_BLOCK_STORED && i < RN_PAGE_TOKENS; i++)
        put_uint(&open->tokens, (uint32_t)event->token[i]);
    return !open->hashes.failed && !open->tokens.failed;
}

static void clear_all(struct kv_pack *pack) {
    for (int g = 0; g < pack->n_groups; g++) {
        pack->open[g].n = 0;
        jbuf_clear(&pack->open[g].hashes);
        jbuf_clear(&pack->open[g].tokens);
    }
    jbuf_clear(&pack->events);
    const struct member of = {.out = &pack->events, .arrays = pack->arrays};
    event_begin(&of, "AllBlocksCleared", 1);
    pack->n_events = 1;
    if (pack->known) memset(pack->known, 0, pack->n_known * sizeof *pack->known);
}

// ---------------------------------------------------------------- interface

struct kv_pack *kv_pack_create(const rn_block_group *groups, int n_groups, bool arrays) {
    struct kv_pack *pack = calloc(1, sizeof *pack);
    if (!pack) return NULL;
    assert(n_groups <= KV_PACK_GROUPS);
    memcpy(pack->group, groups, (size_t)n_groups * sizeof *groups);
    pack->n_groups = n_groups;
    pack->arrays = arrays;
    none_hash(pack->none);
    return pack;
}

void kv_pack_destroy(struct kv_pack *pack) {
    if (!pack) return;
    for (int g = 0; g < pack->n_groups; g++) {
        jbuf_deinit(&pack->open[g].hashes);
        jbuf_deinit(&pack->open[g].tokens);
    }
    jbuf_deinit(&pack->events);
    jbuf_deinit(&pack->batch);
    free(pack->known);
    free(pack);
}

bool kv_pack_add(struct kv_pack *pack, const rn_block_event *event) {
    switch (event->change) {
    case RN_BLOCK_NAMED:
        return name_block(pack, event);
    case RN_BLOCK_STORED:
    case RN_BLOCK_REMOVED:
        return page_change(pack, event);
    case RN_BLOCKS_CLEARED:
        clear_all(pack);
        return true;
    default:
        return true;
    }
}

bool kv_pack_batch(struct kv_pack *pack, double time_s, const char **data, size_t *len) {
    for (int g = 0; g < pack->n_groups; g++) open_close(pack, g);
    jbuf_clear(&pack->batch);
    put_array(&pack->batch, 3);
    put_real(&pack->batch, time_s);
    put_items(&pack->batch, (size_t)pack->n_events, &pack->events);
    put_uint(&pack->batch, 0); // of the replicas inside of a process, the first
    jbuf_clear(&pack->events);
    pack->n_events = 0;
    *data = pack->batch.data;
    *len = pack->batch.len;
    return !pack->batch.failed;
}
