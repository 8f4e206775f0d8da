// Publishes the changes of the prefix cache over ZeroMQ, as vLLM does, for routers that look for
// the replica with the longest prefix. The step's thread puts changes into a ring and never waits;
// a thread of its own packs (kv_pack.h) and sends them. A message is [topic, sequence, batch], one
// for each step that changed something; the sequence counts from 0, in eight bytes, big-endian.
//
//   step's thread:  rn_block_event -> ring; a full ring says so, and the engine starts again later
//   own thread:     ring -> batch -> PUB socket, and into the buffer for replays
//                   ROUTER socket: a start sequence -> the batches from there on, then -1
#ifndef RN_SERVER_KV_EVENTS_H
#define RN_SERVER_KV_EVENTS_H

#include "jbuf.h"
#include "runnel.h"

struct kv_events;

// Strings are copied.
struct kv_events_config {
    const char *endpoint; // of the PUB socket: bound where it has a '*' or is local, else connected
    const char *replay;   // of the ROUTER socket, bound; NULL: none
    const char *topic;
    bool arrays; // the older form of events
    rn_block_group group[RN_MAX_BLOCK_GROUPS];
    int n_groups;
    int ring_slots, keep_batches; // 0: the usual numbers
    size_t keep_bytes;
};

// RN_ERR_UNSUPPORTED: built without libzmq. RN_ERR_ARG: an endpoint cannot be had; the message has
// it.
rn_status kv_events_create(const struct kv_events_config *config, struct kv_events **out,
                           rn_error *err);
// The engine is gone, or takes no more steps.
void kv_events_destroy(struct kv_events *events);
// An rn_block_fn; ctx is the struct kv_events.
bool kv_events_take(void *ctx, const rn_block_event *event);
// The families of /metrics about it. labels: the text in the braces.
void kv_events_metrics(const struct kv_events *events, const char *labels, size_t n_labels,
                       struct jbuf *out);

#endif
