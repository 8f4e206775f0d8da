// The listener of the prefix cache's blocks: what it was told is what the cache has, however deep
// chains are, in whatever order their nodes lie, and however little room the listener has. A step
// tells a bounded part.
#include "check.h"
#include "engine/pages/kv_internal.h"

enum {
    BLOCKS = 6000, // of the deep chain
    PAGES = 2 * BLOCKS,
    TOKENS = BLOCKS * KV_PAGE_TOKENS,
    STEP_MOST = 2048 + 2, // changes of a walk and the marks around it
};

// What a listener makes of the changes: it has room for some, and takes a number after each step.
struct listener {
    struct kv *kv;
    int room, most, takes;
    int n_before;          // changes up to one that is refused for another reason; 0: none is
    int n_told, n_cleared; // since the step began; of all time
    uint8_t is_named[PAGES + 128], is_stored[PAGES + 128];
};

static bool listen(void *ctx, const rn_block_event *event) {
    struct listener *l = ctx;
    if (l->room == 0 || (l->n_before > 0 && --l->n_before == 0)) return false;
    l->room--;
    l->n_told++;
    switch (event->change) {
    case RN_BLOCK_NAMED:
        check(event->parent == KV_ROOT || l->is_named[event->parent], "%u has no parent",
              event->block);
        assert_int_equal(event->parent, l->kv->node[event->block].parent);
        l->is_named[event->block] = 1;
        l->is_stored[event->block] = 0;
        break;
    case RN_BLOCK_STORED:
    case RN_BLOCK_REMOVED:
        assert_true(l->is_named[event->block]);
        check(l->is_stored[event->block] == (event->change == RN_BLOCK_REMOVED), "%u twice",
              event->block);
        l->is_stored[event->block] = event->change == RN_BLOCK_STORED;
        break;
    case RN_BLOCKS_CLEARED:
        memset(l->is_named, 0, sizeof l->is_named);
        memset(l->is_stored, 0, sizeof l->is_stored);
        l->n_cleared++;
        break;
    default:
        break;
    }
    return true;
}

static bool knows_all(const struct listener *l) {
    for (uint32_t at = 1; at < l->kv->n_node_used; at++) {
        const struct kv_node *node = &l->kv->node[at];
        if (l->is_stored[at] != (node->used && node->page[0] != KV_NO_PAGE)) return false;
    }
    return true;
}

// The end of a step. Returns what was told in it.
static int settle(struct listener *l) {
    kv_tell_settled(l->kv);
    const int n = l->n_told;
    l->n_told = 0;
    l->room = l->most - l->room > l->takes ? l->room + l->takes : l->most;
    return n;
}

// ---------------------------------------------------------------- a cache

static int32_t token[TOKENS];
static struct listener listener;

static void release(struct backend *backend, int group, uint32_t page) {}
static const struct backend_class no_memory = {.name = "none", .page_release = release};
static struct backend nowhere = {.cls = &no_memory};

static struct kv *cache_make(int room, int takes) {
    const struct kv_config config = {.n_group = 1,
                                     .group = {{.kind = KV_FULL, .page_bytes = 1}},
                                     .budget = PAGES,
                                     .max_tables = 2,
                                     .max_page_ops = PAGES};
    rn_error err = {0};
    struct kv *kv;
    check(!kv_create(&config, &nowhere, &kv, &err), "%s", err.message);
    listener = (struct listener){.kv = kv, .room = room, .most = room, .takes = takes};
    kv_listen(kv, listen, &listener);
    return kv;
}

// A chain's table, empty.
static struct kv_table table_make(struct kv *kv, int32_t first) {
    struct kv_table table = {0};
    int n_op;
    assert_int_equal(kv_table_init(&table, 1, TOKENS, NULL), RN_OK);
    token[0] = first;
    kv_hit(kv, &table, token, 1, NULL, 0);
    kv_take_ops(kv, &n_op);
    return table;
}

static void grow(struct kv *kv, struct kv_table *table, int from, int n_block) {
    int n_op;
    const int begin = from * KV_PAGE_TOKENS, n = n_block * KV_PAGE_TOKENS;
    assert_true(kv_grow(kv, table, begin, n));
    kv_take_ops(kv, &n_op);
    kv_commit(kv, table, token, begin + n);
}

static void table_end(struct kv *kv, struct kv_table *table) {
    kv_release(kv, table);
    kv_table_deinit(table);
}

// Blocks without anything in common come and go, so that nodes are taken from the highest one on:
// children lie before their parents.
static void turn_nodes_round(struct kv *kv) {
    for (int i = 0; i < BLOCKS; i++) {
        struct kv_table table = table_make(kv, 1000 + i);
        grow(kv, &table, 0, 1);
        table_end(kv, &table);
        settle(&listener);
    }
    kv_forget_prefixes(kv);
    while (!knows_all(&listener)) settle(&listener);
}

// ---------------------------------------------------------------- cases

// A chain that is longer than the listener's room grows while all is told again.
static void chain_grows(bool is_round, int room, int takes) {
    struct kv *kv = cache_make(is_round ? INT32_MAX : room, takes);
    if (is_round) turn_nodes_round(kv);
    listener.room = listener.most = room;
    const int first = BLOCKS - 1000;
    struct kv_table table = table_make(kv, 7);
    for (int at = 0; at < first; at += 20) {
        grow(kv, &table, at, 20);
        settle(&listener);
    }
    listener.room = 0; // the next change is lost
    int n_steps = 0, at = first, n_most = 0;
    for (; at < BLOCKS; at += 4, n_steps++) {
        grow(kv, &table, at, 4);
        if (n_steps == 0) listener.room = 0;
        const int n = settle(&listener);
        if (n > n_most) n_most = n;
    }
    check(n_most <= STEP_MOST + 4 * 256, "a step told %d changes", n_most);
    check(listener.n_cleared > 0, "nothing was lost");
    const int n_cleared = listener.n_cleared;
    check(n_cleared < 20, "all was told again %d times in %d steps", n_cleared, n_steps);
    for (int i = 0; i < 400 && !knows_all(&listener); i++) settle(&listener);
    assert_true(knows_all(&listener));
    assert_int_equal(listener.n_cleared, n_cleared); // alone it needs no other beginning
    table_end(kv, &table);
    kv_destroy(kv);
}

CASE(a_chain_that_is_deeper_than_the_listeners_room_is_told_in_the_end) {
    chain_grows(false, 2500, 2500);
}

CASE(the_order_of_the_nodes_does_not_matter) { chain_grows(true, 2500, 2500); }

CASE(a_listener_that_takes_little_is_told_all_the_same) { chain_grows(false, 1000, 150); }

CASE(a_listener_that_takes_little_of_nodes_in_any_order_is_told_too) {
    chain_grows(true, 1000, 150);
}

// A listener that has no room for some steps, now and then, is told no slower for that afterwards.
CASE(waiting_for_room_does_not_slow_the_telling_down) {
    enum { ROUNDS = 8, REFUSED = 10, MOST_STEPS = 30 };
    struct kv *kv = cache_make(INT32_MAX, 0);
    struct kv_table table = table_make(kv, 7);
    grow(kv, &table, 0, BLOCKS - ROUNDS);
    settle(&listener);
    for (int i = 0; i < ROUNDS; i++) {
        listener.room = listener.most = 0;
        grow(kv, &table, BLOCKS - ROUNDS + i, 1);
        for (int k = 0; k < REFUSED; k++) settle(&listener);
        listener.room = listener.most = INT32_MAX;
        int n = 0;
        for (; n < 400 && (kv_is_telling(kv) || !knows_all(&listener)); n++) settle(&listener);
        assert_true(knows_all(&listener) && listener.n_cleared == i + 1);
        check(n <= MOST_STEPS, "round %d: it took %d steps", i, n);
    }
    table_end(kv, &table);
    kv_destroy(kv);
}

// A change that is refused in the walk makes all void, too, and the listener is told so.
CASE(what_is_lost_in_a_walk_makes_all_void) {
    struct kv *kv = cache_make(INT32_MAX, 0);
    struct kv_table table = table_make(kv, 7);
    for (int at = 0; at < 2000; at += 20) grow(kv, &table, at, 20);
    settle(&listener);
    listener.room = 0;
    grow(kv, &table, 2000, 1);
    settle(&listener);
    listener.room = listener.most = INT32_MAX;
    listener.n_before = 100; // in the middle of the walk
    settle(&listener);
    assert_int_equal(listener.n_cleared, 1);
    settle(&listener);
    assert_int_equal(listener.n_cleared, 2);
    for (int i = 0; i < 100 && !knows_all(&listener); i++) settle(&listener);
    assert_true(knows_all(&listener));
    assert_int_equal(listener.n_cleared, 2);
    table_end(kv, &table);
    kv_destroy(kv);
}

TEST_PROGRAM(kv_tell) { return cases_run(NULL, NULL); }
