// See kv_events.h. Everything that peers can make grow has a bound: requests by their size, replays
// by their number and by the time that they may stand still, batches by number and bytes, messages
// to slow subscribers by a mark above which they are dropped (a subscriber sees the gap and asks
// for a replay).
#include "kv_events.h"

#include "helpers.h"

#ifndef RUNNEL_ZMQ

rn_status kv_events_create(const struct kv_events_config *config, struct kv_events **out,
                           rn_error *err) {
    (void)config;
    *out = NULL;
    return err_set(err, RN_ERR_UNSUPPORTED,
                   "KV events need libzmq, which this program was built "
                   "without");
}

void kv_events_destroy(struct kv_events *events) { (void)events; }

bool kv_events_take(void *ctx, const rn_block_event *event) {
    (void)ctx;
    (void)event;
    return true;
}

void kv_events_metrics(const struct kv_events *events, const char *labels, size_t n_labels,
                       struct jbuf *out) {
    (void)events;
    (void)labels;
    (void)n_labels;
    (void)out;
}

#else

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "kv_pack.h"
#include "kv_ring.h"
#include "kv_zmq.h"

enum {
    RING_SLOTS = 16384,   // changes that wait to be packed
    KEEP_BATCHES = 10000, // for replays
    KEEP_BYTES = 64 << 20,
    SEND_MARK = 10000, // messages that wait for one peer
    PEER_BYTES = 256,  // of a message that a peer sends
    PEER_ID_BYTES = 255,
    BACKLOG = 64,
    REPLAYS_MAX = 8,        // at a time; further requests wait in the socket
    REPLAY_BURST = 256,     // messages of a replay between two looks at the ring
    REPLAY_STILL_MS = 5000, // a peer that takes nothing for this time is given up
    SEQUENCE_BYTES = 8,
};

struct batch {
    uint64_t sequence;
    size_t len;
    char *data;
};

// A peer that gets the batches from `next` on.
struct replay {
    char peer[PEER_ID_BYTES];
    size_t n_peer;
    uint64_t next, end;
    uint64_t moved_ns; // when it last took something
};

struct kv_events {
    char *endpoint, *replay_endpoint, *topic;
    struct kv_ring ring;
    struct kv_pack *pack;
    int fd; // eventfd: the ring has a step's changes, or it is to end
    struct kv_zmq zmq;
    void *context, *pub, *router;
    pthread_t thread;
    bool has_thread;
    _Atomic bool stopping;
    _Atomic bool restart; // the engine is to tell all blocks again
    // own thread
    struct batch *kept; // [keep_batches], by sequence
    uint64_t sequence;  // of the next batch
    uint64_t oldest;    // of the kept ones
    uint64_t keep_batches;
    size_t kept_bytes, keep_bytes;
    bool is_void; // the pack ran out of memory: nothing is packed until the blocks were cleared
    struct replay replay[REPLAYS_MAX];
    int n_replays;
    // any thread
    _Atomic uint64_t n_batches, n_cleared, n_replayed, n_bytes;
};

// ---------------------------------------------------------------- the step's thread

bool kv_events_take(void *ctx, const rn_block_event *event) {
    struct kv_events *events = ctx;
    if (atomic_exchange_explicit(&events->restart, false, memory_order_relaxed)) return false;
    if (!kv_ring_put(&events->ring, event)) return false;
    if (event->change == RN_BLOCKS_SETTLED) {
        const uint64_t one = 1;
        const ssize_t n = write(events->fd, &one, sizeof one);
        (void)n; // a counter that is full wakes as well
    }
    return true;
}

// ---------------------------------------------------------------- batches

static struct batch *batch_at(const struct kv_events *events, uint64_t sequence) {
    return &events->kept[sequence % events->keep_batches];
}

static void batch_forget_oldest(struct kv_events *events) {
    struct batch *batch = batch_at(events, events->oldest++);
    events->kept_bytes -= batch->len;
    free(batch->data);
    *batch = (struct batch){0};
}

// Without memory for it, nothing before it can be replayed either: a replay has no gap.
static void batch_keep(struct kv_events *events, const char *data, size_t len) {
    char *copy = events->router ? malloc(len) : NULL;
    while (events->oldest < events->sequence &&
           (!copy || events->sequence - events->oldest == events->keep_batches ||
            events->kept_bytes + len > events->keep_bytes))
        batch_forget_oldest(events);
    if (!copy) {
        events->oldest = events->sequence + 1;
        return;
    }
    memcpy(copy, data, len);
    *batch_at(events, events->sequence) =
        (struct batch){.sequence = events->sequence, .len = len, .data = copy};
    events->kept_bytes += len;
}

static void sequence_write(uint64_t sequence, uint8_t out[SEQUENCE_BYTES]) {
    for (int i = 0; i < SEQUENCE_BYTES; i++) out[i] = (uint8_t)(sequence >> (56 - 8 * i));
}

// Out of memory: the engine tells all blocks again, behind the event that makes the earlier void.
static void give_up(struct kv_events *events) {
    events->is_void = true;
    atomic_store_explicit(&events->restart, true, memory_order_relaxed);
}

static void batch_send(struct kv_events *events) {
    struct timespec now;
    const char *data;
    size_t len;
    uint8_t sequence[SEQUENCE_BYTES];
    clock_gettime(CLOCK_REALTIME, &now);
    if (!kv_pack_batch(events->pack, (double)now.tv_sec + (double)now.tv_nsec * 1e-9, &data,
                       &len)) {
        give_up(events);
        return;
    }
    sequence_write(events->sequence, sequence);
    batch_keep(events, data, len);
    if (events->zmq.send(events->pub, events->topic, strlen(events->topic),
                         ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
        events->zmq.send(events->pub, sequence, sizeof sequence, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        events->zmq.send(events->pub, data, len, ZMQ_DONTWAIT);
    events->sequence++;
    atomic_fetch_add_explicit(&events->n_batches, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&events->n_bytes, len, memory_order_relaxed);
}

static void ring_take(struct kv_events *events) {
    for (const rn_block_event *event; (event = kv_ring_first(&events->ring));
         kv_ring_drop(&events->ring)) {
        if (event->change == RN_BLOCKS_CLEARED) {
            events->is_void = false;
            atomic_fetch_add_explicit(&events->n_cleared, 1, memory_order_relaxed);
        }
        if (events->is_void) continue;
        if (!kv_pack_add(events->pack, event)) {
            give_up(events);
        } else if (event->change == RN_BLOCKS_SETTLED) {
            batch_send(events);
        }
    }
}

// ---------------------------------------------------------------- replays

static bool parts_send(struct kv_events *events, const struct replay *replay, const void *topic,
                       size_t n_topic, uint64_t number, const void *data, size_t len) {
    uint8_t sequence[SEQUENCE_BYTES];
    sequence_write(number, sequence);
    const int more = ZMQ_SNDMORE | ZMQ_DONTWAIT;
    if (events->zmq.send(events->router, replay->peer, replay->n_peer, more) < 0) return false;
    events->zmq.send(events->router, "", 0, more); // the first part decides whether there is room
    events->zmq.send(events->router, topic, n_topic, more);
    events->zmq.send(events->router, sequence, sizeof sequence, more);
    events->zmq.send(events->router, data, len, ZMQ_DONTWAIT);
    return true;
}

// True: it is over, or its peer has gone.
static bool replay_advance(struct kv_events *events, struct replay *replay) {
    const size_t n_topic = strlen(events->topic);
    for (int i = 0; i < REPLAY_BURST; i++) {
        if (replay->next < events->oldest) replay->next = events->oldest;
        const bool is_end = replay->next >= replay->end;
        const struct batch *batch = is_end ? NULL : batch_at(events, replay->next);
        if (!parts_send(events, replay, is_end ? "" : events->topic, is_end ? 0 : n_topic,
                        is_end ? UINT64_MAX : replay->next, is_end ? "" : batch->data,
                        is_end ? 0 : batch->len)) {
            const bool is_still = clock_ns() - replay->moved_ns > REPLAY_STILL_MS * 1000000ull;
            return events->zmq.last_error() != EAGAIN || is_still;
        }
        replay->moved_ns = clock_ns();
        if (is_end) return true;
        replay->next++;
        atomic_fetch_add_explicit(&events->n_replayed, 1, memory_order_relaxed);
    }
    return false;
}

static void replays_advance(struct kv_events *events) {
    for (int i = events->n_replays - 1; i >= 0; i--)
        if (replay_advance(events, &events->replay[i]))
            events->replay[i] = events->replay[--events->n_replays];
}

// A request is [peer, "", start]. Others are read to their end and forgotten.
static void request_take(struct kv_events *events) {
    struct replay replay = {.end = events->sequence, .moved_ns = clock_ns()};
    uint8_t start[SEQUENCE_BYTES + 1];
    int n_parts = 0, more = 1;
    bool ok = true;
    while (more) {
        size_t size = sizeof more;
        char nothing[1];
        void *to = n_parts == 0 ? (void *)replay.peer : n_parts == 2 ? (void *)start : nothing;
        const size_t room = n_parts == 0 ? sizeof replay.peer : n_parts == 2 ? sizeof start : 1;
        const int n = events->zmq.recv(events->router, to, room, ZMQ_DONTWAIT);
        if (n < 0) return;
        if (n_parts == 0) replay.n_peer = (size_t)n;
        ok &= n_parts == 0 ? (size_t)n <= sizeof replay.peer
                           : n == (n_parts == 2 ? SEQUENCE_BYTES : 0);
        n_parts++;
        if (events->zmq.getsockopt(events->router, ZMQ_RCVMORE, &more, &size)) return;
    }
    if (!ok || n_parts != 3) return;
    for (int i = 0; i < SEQUENCE_BYTES; i++) replay.next = replay.next << 8 | start[i];
    events->replay[events->n_replays++] = replay;
}

// ---------------------------------------------------------------- own thread

static void *publish(void *arg) {
    enum { REQUESTS = 16, IDLE_MS = 1000, REPLAY_MS = 2 };
    struct kv_events *events = arg;
    zmq_pollitem_t item[2] = {{.fd = events->fd, .events = ZMQ_POLLIN},
                              {.socket = events->router, .events = ZMQ_POLLIN}};
    while (!atomic_load(&events->stopping)) {
        const bool has_room = events->router && events->n_replays < REPLAYS_MAX;
        item[1].revents = 0;
        events->zmq.poll(item, has_room ? 2 : 1, events->n_replays ? REPLAY_MS : IDLE_MS);
        uint64_t count;
        if (item[0].revents) {
            const ssize_t n = read(events->fd, &count, sizeof count);
            (void)n;
        }
        ring_take(events);
        for (int i = 0; item[1].revents && events->n_replays < REPLAYS_MAX && i < REQUESTS; i++)
            request_take(events);
        replays_advance(events);
    }
    return NULL;
}

// ---------------------------------------------------------------- life

// As vLLM decides it.
static bool is_bound(const char *endpoint) {
    return strchr(endpoint, '*') || strstr(endpoint, "::") || strstr(endpoint, "0.0.0.0") ||
           !strncmp(endpoint, "ipc://", 6) || !strncmp(endpoint, "inproc://", 9);
}

static void *socket_open(struct kv_events *events, int type, const char *endpoint, rn_error *err) {
    void *socket = events->zmq.socket(events->context, type);
    const int zero = 0, one = 1, mark = SEND_MARK, backlog = BACKLOG;
    const int64_t bytes = PEER_BYTES;
    if (!socket) {
        err_set(err, RN_ERR_NOMEM, "%s: %s", endpoint,
                events->zmq.error_text(events->zmq.last_error()));
        return NULL;
    }
    events->zmq.setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    events->zmq.setsockopt(socket, ZMQ_SNDHWM, &mark, sizeof mark);
    events->zmq.setsockopt(socket, ZMQ_RCVHWM, &backlog, sizeof backlog);
    events->zmq.setsockopt(socket, ZMQ_BACKLOG, &backlog, sizeof backlog);
    events->zmq.setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes, sizeof bytes);
    if (type == ZMQ_ROUTER) events->zmq.setsockopt(socket, ZMQ_ROUTER_MANDATORY, &one, sizeof one);
    const bool binds = type == ZMQ_ROUTER || is_bound(endpoint);
    if (!(binds ? events->zmq.bind : events->zmq.connect)(socket, endpoint)) return socket;
    err_set(err, RN_ERR_ARG, "'%s': %s", endpoint,
            events->zmq.error_text(events->zmq.last_error()));
    events->zmq.close(socket);
    return NULL;
}

static rn_status sockets_open(struct kv_events *events, rn_error *err) {
    if (kv_zmq_load(&events->zmq, err)) return err->status;
    events->context = events->zmq.ctx_new();
    if (!events->context) return err_set(err, RN_ERR_NOMEM, "no memory for KV events");
    events->pub = socket_open(events, ZMQ_PUB, events->endpoint, err);
    if (!events->pub) return err->status;
    if (!events->replay_endpoint) return RN_OK;
    events->router = socket_open(events, ZMQ_ROUTER, events->replay_endpoint, err);
    return events->router ? RN_OK : err->status;
}

static bool fill(struct kv_events *events, const struct kv_events_config *config) {
    events->keep_batches = config->keep_batches ? (uint64_t)config->keep_batches : KEEP_BATCHES;
    events->keep_bytes = config->keep_bytes ? config->keep_bytes : KEEP_BYTES;
    events->endpoint = strdup(config->endpoint);
    events->topic = strdup(config->topic);
    if (config->replay && !(events->replay_endpoint = strdup(config->replay))) return false;
    events->pack = kv_pack_create(config->group, config->n_groups, config->arrays);
    events->kept = calloc(events->keep_batches, sizeof *events->kept);
    events->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return events->endpoint && events->topic && events->pack && events->kept && events->fd >= 0 &&
           kv_ring_init(&events->ring, config->ring_slots ? config->ring_slots : RING_SLOTS);
}

rn_status kv_events_create(const struct kv_events_config *config, struct kv_events **out,
                           rn_error *err) {
    struct kv_events *events = calloc(1, sizeof *events);
    *out = NULL;
    if (!events) return err_set(err, RN_ERR_NOMEM, "no memory for KV events");
    events->fd = -1;
    rn_status status = RN_OK;
    if (!fill(events, config)) status = err_set(err, RN_ERR_NOMEM, "no memory for KV events");
    if (!status) status = sockets_open(events, err);
    if (!status && pthread_create(&events->thread, NULL, publish, events))
        status = err_set(err, RN_ERR_NOMEM, "no thread for KV events");
    events->has_thread = !status;
    if (status)
        kv_events_destroy(events);
    else
        *out = events;
    return status;
}

void kv_events_destroy(struct kv_events *events) {
    if (!events) return;
    if (events->has_thread) {
        const uint64_t one = 1;
        atomic_store(&events->stopping, true);
        const ssize_t n = write(events->fd, &one, sizeof one);
        (void)n;
        pthread_join(events->thread, NULL);
    }
    if (events->pub) events->zmq.close(events->pub);
    if (events->router) events->zmq.close(events->router);
    if (events->context) events->zmq.ctx_term(events->context);
    for (uint64_t i = 0; events->kept && i < events->keep_batches; i++) free(events->kept[i].data);
    free(events->kept);
    kv_pack_destroy(events->pack);
    kv_ring_deinit(&events->ring);
    if (events->fd >= 0) close(events->fd);
    free(events->endpoint);
    free(events->replay_endpoint);
    free(events->topic);
    free(events);
}

void kv_events_metrics(const struct kv_events *events, const char *labels, size_t n_labels,
                       struct jbuf *out) {
    const struct {
        const char *name, *help;
        uint64_t value;
    } row[] = {
        {"runnel:kv_event_batches_total", "Batches of KV events that were published.",
         atomic_load(&events->n_batches)},
        {"runnel:kv_event_bytes_total", "Bytes of these batches.", atomic_load(&events->n_bytes)},
        {"runnel:kv_event_resyncs_total",
         "Times that all blocks were told again, because the publisher could not follow.",
         atomic_load(&events->n_cleared)},
        {"runnel:kv_event_replayed_batches_total", "Batches that were sent again.",
         atomic_load(&events->n_replayed)},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        jbuf_printf(out, "# HELP %s %s\n# TYPE %s counter\n%s{", row[i].name, row[i].help,
                    row[i].name, row[i].name);
        jbuf_bytes(out, labels, n_labels);
        jbuf_printf(out, "} %llu\n", (unsigned long long)row[i].value);
    }
}

#endif
