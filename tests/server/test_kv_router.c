// A router, written from the rules of llm-d's: it re-hashes the tokens of stored blocks, keeps
// which replica has which block, and chooses the replica with the longest run of blocks from the
// prompt's start. With the events of three replicas it finds the one that has most of a prompt.
#ifdef RUNNEL_ZMQ
#include "kv_events_world.h"

enum { PODS = 3, BLOCKS = 512 };

// ---------------------------------------------------------------- the router

// FNV-64a over the canonical CBOR of [parent, tokens, extra].
static uint64_t fnv(const uint8_t *data, size_t n) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++) hash = (hash ^ data[i]) * 0x100000001b3;
    return hash;
}

static uint64_t rehash(uint64_t parent, const int32_t *token) {
    uint8_t text[512];
    size_t n = cbor_put(text, 4, 3);
    text[n++] = 0x1b; // eight bytes
    for (int i = 0; i < 8; i++) text[n++] = (uint8_t)(parent >> (56 - 8 * i));
    n += cbor_put(text + n, 4, KV_PAGE_TOKENS);
    for (int i = 0; i < KV_PAGE_TOKENS; i++) n += cbor_put(text + n, 0, (uint32_t)token[i]);
    text[n++] = 0xf6;
    return fnv(text, n);
}

struct router {
    struct entry {
        uint64_t engine, key; // the replica's hash; the router's own
        bool stored;
    } entry[PODS][BLOCKS];
    int n[PODS];
    int pod; // whose events come
};

static struct entry *entry_of(struct router *router, int pod, uint64_t engine) {
    for (int i = 0; i < router->n[pod]; i++)
        if (router->entry[pod][i].engine == engine) return &router->entry[pod][i];
    return NULL;
}

static void stored(struct router *router, const json_t *event) {
    const json_t *hashes = event_get(event, "block_hashes"), *hash;
    const json_t *tokens = event_get(event, "token_ids");
    const json_t *parent = event_get(event, "parent_block_hash");
    uint64_t key = fnv(NULL, 0);
    if (!json_is_null(parent)) {
        const struct entry *known =
            entry_of(router, router->pod, (uint64_t)json_integer_value(parent));
        check(known, "a parent is not known");
        key = known->key;
    }
    size_t i;
    json_array_foreach(hashes, i, hash) {
        int32_t token[KV_PAGE_TOKENS];
        for (size_t j = 0; j < KV_PAGE_TOKENS; j++)
            token[j] = (int32_t)json_integer_value(json_array_get(tokens, i * KV_PAGE_TOKENS + j));
        key = rehash(key, token);
        const uint64_t engine = (uint64_t)json_integer_value(hash);
        struct entry *entry = entry_of(router, router->pod, engine);
        if (!entry) {
            check(router->n[router->pod] < BLOCKS, "too many blocks");
            entry = &router->entry[router->pod][router->n[router->pod]++];
        }
        *entry = (struct entry){.engine = engine, .key = key, .stored = true};
    }
}

static void on_event(void *ctx, const json_t *event) {
    struct router *router = ctx;
    const char *type = json_string_value(event_get(event, "type"));
    if (!strcmp(type, "BlockStored")) {
        stored(router, event);
    } else if (!strcmp(type, "BlockRemoved")) {
        const json_t *hash;
        size_t i;
        json_array_foreach(event_get(event, "block_hashes"), i, hash)
            entry_of(router, router->pod, (uint64_t)json_integer_value(hash))
                ->stored = false;
    } else {
        router->n[router->pod] = 0;
    }
}

static bool has_key(const struct router *router, int pod, uint64_t key) {
    for (int i = 0; i < router->n[pod]; i++)
        if (router->entry[pod][i].stored && router->entry[pod][i].key == key) return true;
    return false;
}

// Blocks of the prompt from its start on that the replica has.
static int score(const struct router *router, int pod, const int32_t *prompt, int n_prompt) {
    uint64_t key = fnv(NULL, 0);
    int n = 0;
    while ((n + 1) * KV_PAGE_TOKENS <= n_prompt) {
        key = rehash(key, prompt + n * KV_PAGE_TOKENS);
        if (!has_key(router, pod, key)) break;
        n++;
    }
    return n;
}

// ---------------------------------------------------------------- the replicas

static rn_model *model;
static struct world *pod[PODS];
static const char *const names[PODS] = {"a", "b", "c"};

static int open_all(void **state) {
    model = world_model();
    for (int i = 0; i < PODS; i++) pod[i] = world_open(model, names[i], 12, NULL);
    return 0;
}

static int close_all(void **state) {
    for (int i = 0; i < PODS; i++) world_close(pod[i]);
    rn_model_close(model);
    return 0;
}

// All batches of a replica from `*next` on, which it is known to have published.
static void follow(struct router *router, int which, uint64_t *next) {
    for (int tries = 0; tries < 200 && *next < (uint64_t)pod[which]->n_snapshots; tries++) {
        void *dealer = socket_open(pod[which], ZMQ_DEALER, pod[which]->replay);
        if (tries) usleep(5000);
        replay_ask(dealer, *next);
        router->pod = which;
        for (bool is_end = false; !is_end;) {
            struct message message = message_take(dealer, true);
            is_end = message.sequence == UINT64_MAX;
            if (!is_end) {
                batch_read(&message, on_event, router);
                *next = message.sequence + 1;
            }
            free(message.data);
        }
        zmq_close(dealer);
    }
}

CASE(the_replica_with_the_longest_prefix_is_chosen) {
    struct router *router = calloc(1, sizeof *router);
    uint64_t next[PODS] = {0};
    int n_chosen[PODS] = {0};
    srand(11);
    assert_non_null(router);
    for (int i = 0; i < 60; i++) {
        int32_t prompt[120];
        const int of = rand() % 5, n = 65 + rand() % 50, shared = 32 * (1 + rand() % 3);
        for (int j = 0; j < n; j++) prompt[j] = j < shared ? 10 + of : 5 + rand() % 400;
        int best = rand() % PODS; // where no replica has anything, any will do
        for (int p = 0; p < PODS; p++)
            if (score(router, p, prompt, n - 1) > score(router, best, prompt, n - 1)) best = p;
        const int expected = score(router, best, prompt, n - 1) * KV_PAGE_TOKENS;
        const int cached = world_ask(pod[best], prompt, n, 3, NULL);
        assert_int_equal(cached, expected); // the router knows exactly what the replica has
        n_chosen[best] += expected > 0;
        for (int p = 0; p < PODS; p++) follow(router, p, &next[p]);
    }
    check(n_chosen[0] + n_chosen[1] + n_chosen[2] > 30, "%d hits",
          n_chosen[0] + n_chosen[1] + n_chosen[2]);
    free(router);
}

TEST_PROGRAM(kv_router) { return cases_run(open_all, close_all); }

#else
#include "check.h"

CASE(built_without_libzmq) { skip(); }

TEST_PROGRAM(kv_router) { return cases_run(NULL, NULL); }
#endif
