// KV events as a subscriber sees them: decoded by a reader of its own they equal the engine's page
// table at every sequence number, live and after a replay. Peers that ask for nonsense change
// nothing.
#ifdef RUNNEL_ZMQ
#include "kv_events_world.h"

#include "kv_pack.h"

static rn_model *model;

static int open_all(void **state) {
    model = world_model();
    return model ? 0 : 1;
}

static int close_all(void **state) {
    rn_model_close(model);
    return 0;
}

// Prompts that share prefixes, more of them than the pages hold.
static void work(struct world *world, int n_requests, unsigned seed) {
    static const char *const salts[] = {NULL, NULL, "pepper"};
    srand(seed);
    for (int i = 0; i < n_requests; i++) {
        int32_t prompt[120];
        const int first = rand() % 4, n = 33 + rand() % 80, shared = 32 * (1 + rand() % 2);
        for (int j = 0; j < n; j++) prompt[j] = j < shared ? 5 + first : 5 + rand() % 400;
        world_ask(world, prompt, n, rand() % 8, salts[rand() % 3]);
    }
}

// ---------------------------------------------------------------- the page table

// Replays all batches and compares each with the table at its time. Returns the last sequence + 1.
static uint64_t replay_check(struct world *world, uint64_t from) {
    void *dealer = socket_open(world, ZMQ_DEALER, world->replay);
    struct keys keys = {.n = 0};
    if (from) keys = world->snapshot[from - 1];
    replay_ask(dealer, from);
    uint64_t next = from;
    for (bool is_end = false; !is_end;) {
        struct message message = message_take(dealer, true);
        is_end = message.sequence == UINT64_MAX;
        if (!is_end) {
            assert_string_equal(message.topic, world->topic);
            assert_int_equal(message.sequence, next);
            batch_read(&message, mirror, &keys);
            check(keys_equal(&keys, &world->snapshot[next]),
                  "batch %d: %d blocks, the engine has %d", (int)next, keys.n,
                  world->snapshot[next].n);
            next++;
        } else {
            check(!message.len && !*message.topic, "the end has a batch");
        }
        free(message.data);
    }
    zmq_close(dealer);
    return next;
}

// The publisher has packed all batches when a replay gives the last one.
static void replay_all(struct world *world) {
    uint64_t n = 0;
    for (int tries = 0; tries < 200 && n < (uint64_t)world->n_snapshots; tries++) {
        if (tries) usleep(10000);
        n = replay_check(world, 0);
    }
    assert_int_equal(n, world->n_snapshots);
}

CASE(events_equal_the_page_table_at_every_sequence_number) {
    for (int arrays = 0; arrays < 2; arrays++) {
        const struct kv_events_config config = {.arrays = arrays};
        struct world *world = world_open(model, "a", 12, &config);
        work(world, 40, 7);
        replay_all(world);
        struct kv_stats stats;
        kv_get_stats(world->engine->engine.kv, &stats);
        check(stats.evictions > 10 && world->n_snapshots > 20, "%d evictions, %d batches",
              (int)stats.evictions, world->n_snapshots);
        assert_int_equal(replay_check(world, (uint64_t)world->n_snapshots - 3), world->n_snapshots);
        assert_int_equal(replay_check(world, (uint64_t)world->n_snapshots), world->n_snapshots);
        rn_engine_forget_prefixes(world->engine);
        work(world, 2, 8);
        replay_all(world);
        world_close(world);
    }
}

// A subscriber that joins late, or loses messages, asks for the missing ones.
CASE(a_live_subscriber_keeps_the_same_table) {
    struct world *world = world_open(model, "a", 12, NULL);
    void *sub = socket_open(world, ZMQ_SUB, world->endpoint);
    assert_int_equal(zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "kv@", 3), 0);
    work(world, 3, 1);
    usleep(50000); // the subscription arrives
    work(world, 10, 2);
    struct keys keys = {.n = 0};
    uint64_t next = 0;
    while (next < (uint64_t)world->n_snapshots) {
        struct message message = message_take(sub, false);
        assert_string_equal(message.topic, world->topic);
        check(message.sequence >= next, "sequence %d again", (int)message.sequence);
        if (message.sequence > next) { // as a router does: the missing ones first
            replay_check(world, next);
            keys = world->snapshot[message.sequence - 1];
        }
        batch_read(&message, mirror, &keys);
        check(keys_equal(&keys, &world->snapshot[message.sequence]), "batch %d",
              (int)message.sequence);
        next = message.sequence + 1;
        free(message.data);
    }
    zmq_close(sub);
    world_close(world);
}

// ---------------------------------------------------------------- overflow

static bool was_cleared;

static void mirror_from_cleared(void *ctx, const json_t *event) {
    const char *type = json_string_value(event_get(event, "type"));
    was_cleared |= !strcmp(type, "AllBlocksCleared");
    if (was_cleared) mirror(ctx, event);
}

// Changes that find no room make all earlier ones void. The last state is the table's all the same.
CASE(a_publisher_that_cannot_follow_is_told_all_again) {
    struct world *world = world_open(model, "a", 24, NULL);
    world->partial = true;
    world->deny = 9;
    work(world, 12, 3);
    struct keys table, keys = {.n = 0};
    table_read(world->engine->engine.kv, &table);
    bool same = false;
    for (int tries = 0; tries < 500 && !same; tries++) {
        bool busy;
        world->deny = tries < 3 ? 5 : 0;
        rn_engine_step(world->engine, &busy); // the walk goes on
        usleep(1000);
        void *dealer = socket_open(world, ZMQ_DEALER, world->replay);
        replay_ask(dealer, 0);
        keys.n = 0;
        was_cleared = false;
        for (bool is_end = false; !is_end;) {
            struct message message = message_take(dealer, true);
            is_end = message.sequence == UINT64_MAX;
            if (!is_end) batch_read(&message, mirror_from_cleared, &keys);
            free(message.data);
        }
        zmq_close(dealer);
        same = was_cleared && keys_equal(&keys, &table);
    }
    check(same && was_cleared && table.n > 4, "%d blocks, the engine has %d", keys.n, table.n);
    world_close(world);
}

// ---------------------------------------------------------------- peers

CASE(requests_that_make_no_sense_are_forgotten) {
    struct world *world = world_open(model, "a", 12, NULL);
    work(world, 4, 5);
    static const char large[4096];
    for (int i = 0; i < 40; i++) {
        void *dealer = socket_open(world, ZMQ_DEALER, world->replay);
        zmq_send(dealer, large, i % 5 == 4 ? sizeof large : (size_t)(i % 12), 0);
        if (i % 2) {
            for (int j = 0; j < i % 7; j++) zmq_send(dealer, large, 3, ZMQ_SNDMORE);
            zmq_send(dealer, large, 8, 0);
        }
        zmq_close(dealer);
    }
    replay_all(world);
    world_close(world);
}

// More replays than are served at a time, of peers that read nothing.
CASE(peers_that_do_not_read_do_not_stop_the_others) {
    struct world *world = world_open(model, "a", 12, NULL);
    work(world, 6, 6);
    replay_all(world);
    void *idle[24];
    for (int i = 0; i < 24; i++) {
        const int one = 1;
        idle[i] = zmq_socket(world->zmq, ZMQ_DEALER);
        zmq_setsockopt(idle[i], ZMQ_RCVHWM, &one, sizeof one);
        const int zero = 0;
        zmq_setsockopt(idle[i], ZMQ_LINGER, &zero, sizeof zero);
        zmq_connect(idle[i], world->replay);
        replay_ask(idle[i], 0);
    }
    work(world, 2, 9);
    replay_all(world);
    for (int i = 0; i < 24; i++) zmq_close(idle[i]);
    world_close(world);
}

// More requests at once than replays are served at a time.
CASE(every_request_for_a_replay_is_answered) {
    enum { ASKED = 40 };
    struct world *world = world_open(model, "a", 12, NULL);
    work(world, 6, 6);
    replay_all(world);
    void *dealer = socket_open(world, ZMQ_DEALER, world->replay);
    for (int i = 0; i < ASKED; i++) replay_ask(dealer, (uint64_t)i % 4);
    for (int n_ended = 0; n_ended < ASKED;) {
        struct message message = message_take(dealer, true);
        n_ended += message.sequence == UINT64_MAX;
        free(message.data);
    }
    zmq_close(dealer);
    world_close(world);
}

CASE(only_so_many_batches_are_kept) {
    const struct kv_events_config config = {.keep_batches = 4};
    struct world *world = world_open(model, "a", 12, &config);
    work(world, 12, 4);
    const uint64_t n = (uint64_t)world->n_snapshots;
    uint64_t next = 0;
    for (int tries = 0; tries < 200 && next < n; tries++) {
        usleep(5000);
        next = replay_check(world, n - 4);
    }
    assert_int_equal(next, n);
    void *dealer = socket_open(world, ZMQ_DEALER, world->replay);
    replay_ask(dealer, 0);
    struct message first = message_take(dealer, true);
    assert_int_equal(first.sequence, n - 4);
    free(first.data);
    zmq_close(dealer);
    world_close(world);
}

CASE(endpoints_that_cannot_be_had_are_named) {
    static const char *const wrong[] = {"nonsense", "tcp://*", "ipc:///no/such/folder/x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rn_error err = {0};
        struct kv_events *events = NULL;
        const struct kv_events_config config = {.endpoint = wrong[i], .topic = "kv@a@b"};
        check(kv_events_create(&config, &events, &err) && !events, "%s", wrong[i]);
        check(strstr(err.message, wrong[i]), "%s", err.message);
    }
}

// ---------------------------------------------------------------- hashes

// Numbers of vLLM's rule (sha256_cbor), computed by another program.
CASE(hashes_follow_the_published_rule) {
    const rn_block_group group = {.kind = "full_attention"};
    struct kv_pack *pack = kv_pack_create(&group, 1, false);
    int32_t first[RN_PAGE_TOKENS], second[RN_PAGE_TOKENS];
    for (int i = 0; i < RN_PAGE_TOKENS; i++) first[i] = 1000 * i, second[i] = 7;
    const rn_block_event events[] = {
        {.change = RN_BLOCK_NAMED, .block = 1, .token = first, .salt = ""},
        {.change = RN_BLOCK_STORED, .block = 1, .token = first, .salt = ""},
        {.change = RN_BLOCK_NAMED, .block = 2, .parent = 1, .token = second, .salt = ""},
        {.change = RN_BLOCK_STORED, .block = 2, .parent = 1, .token = second, .salt = ""},
        {.change = RN_BLOCK_NAMED, .block = 3, .token = first, .salt = "pepper", .n_salt = 6},
        {.change = RN_BLOCK_STORED, .block = 3, .token = first, .salt = "pepper", .n_salt = 6},
    };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        assert_true(kv_pack_add(pack, &events[i]));
    const char *data;
    size_t len;
    assert_true(kv_pack_batch(pack, 2e9, &data, &len));
    json_t *batch = msgpack_read(data, len);
    json_t *list = json_array_get(batch, 1);
    const json_t *chain = json_array_get(list, 0), *salted = json_array_get(list, 1);
    assert_int_equal(json_array_size(list), 2);
    const json_t *hashes = event_get(chain, "block_hashes");
    assert_int_equal(json_integer_value(json_array_get(hashes, 0)), 0x3947511db3ed3023);
    assert_int_equal(json_integer_value(json_array_get(hashes, 1)), 0x4e53ad0e66fb54d5);
    assert_true(json_is_null(event_get(chain, "parent_block_hash")));
    hashes = event_get(salted, "block_hashes");
    assert_int_equal(json_integer_value(json_array_get(hashes, 0)), 0x17eb4edc0f7de001);
    const json_t *extra = json_array_get(event_get(salted, "extra_keys"), 0);
    assert_string_equal(json_string_value(json_array_get(extra, 0)), "pepper");
    json_decref(batch);
    // a block that was not named is refused, and so is a child of one
    const rn_block_event orphan = {
        .change = RN_BLOCK_NAMED, .block = 9, .parent = 8, .token = first, .salt = ""};
    assert_false(kv_pack_add(pack, &orphan));
    const rn_block_event stored = {
        .change = RN_BLOCK_STORED, .block = 1, .parent = 1 << 20, .token = first, .salt = ""};
    assert_false(kv_pack_add(pack, &stored));
    kv_pack_destroy(pack);
}

TEST_PROGRAM(kv_events) { return cases_run(open_all, close_all); }

#else
#include "check.h"

CASE(built_without_libzmq) { skip(); }

TEST_PROGRAM(kv_events) { return cases_run(NULL, NULL); }
#endif
