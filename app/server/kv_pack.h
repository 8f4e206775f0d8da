// Changes of the prefix cache as vLLM publishes them: batches of events in msgpack, with hashes of
// chained blocks. Knows no socket and no thread; kv_events.c calls it.
//
//   batch   [time, [event, ...], 0]
//   event   a map with "type" (the form since 2026), or an array with the type first (before)
//   hash    of a block: SHA-256 over the canonical CBOR of [parent's hash, tokens, extra keys], its
//           last 63 bits as an integer. The first block's parent is SHA-256 of CBOR's
//           "vllm-none-hash"; a cache_salt is the extra key of the first block.
#ifndef RN_SERVER_KV_PACK_H
#define RN_SERVER_KV_PACK_H

#include "jbuf.h"
#include "runnel.h"

enum { KV_HASH_BYTES = 32, KV_PACK_GROUPS = 8 };

struct kv_pack;

// groups: [n_groups] as rn_engine_block_groups gives them; arrays: the older form. NULL: out of
// memory.
struct kv_pack *kv_pack_create(const rn_block_group *groups, int n_groups, bool arrays);
void kv_pack_destroy(struct kv_pack *pack);
// Takes a change. False: out of memory, or a change of a block that was not named. Everything is
// void then: the caller starts again with RN_BLOCKS_CLEARED.
bool kv_pack_add(struct kv_pack *pack, const rn_block_event *event);
// After RN_BLOCKS_SETTLED: the batch of all changes since, in a buffer that stays the pack's until
// the next call. False: out of memory.
bool kv_pack_batch(struct kv_pack *pack, double time_s, const char **data, size_t *len);
// The number that events have for the hash.
uint64_t kv_pack_number(const uint8_t hash[KV_HASH_BYTES]);

#endif
