// The queue between the step's thread and the publisher's: changes come out whole and in order, and
// a full queue says so.
// label: threads
#include <pthread.h>
#include <stdio.h>

#include "check.h"
#include "kv_ring.h"

enum { SLOTS = 7 };

// Every part of the change tells its number.
static rn_block_event event_of(uint32_t number, int32_t *token, char *salt) {
    for (int i = 0; i < RN_PAGE_TOKENS; i++) token[i] = (int32_t)number + i;
    const int n_salt = number % 3 ? 0 : snprintf(salt, RN_MAX_SALT_BYTES, "salt-%u", number);
    return (rn_block_event){.change = RN_BLOCK_STORED,
                            .block = number,
                            .parent = number / 2,
                            .token = token,
                            .salt = salt,
                            .n_salt = (size_t)n_salt};
}

static void event_check(const rn_block_event *event, uint32_t number) {
    int32_t token[RN_PAGE_TOKENS];
    char salt[RN_MAX_SALT_BYTES];
    const rn_block_event want = event_of(number, token, salt);
    check(event->block == number && event->parent == want.parent && event->n_salt == want.n_salt &&
              !memcmp(event->token, token, sizeof token) && !memcmp(event->salt, salt, want.n_salt),
          "change %u, expected %u", event->block, number);
}

CASE(a_full_queue_takes_nothing) {
    struct kv_ring ring;
    int32_t token[RN_PAGE_TOKENS];
    char salt[RN_MAX_SALT_BYTES];
    assert_true(kv_ring_init(&ring, SLOTS));
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < SLOTS; i++) {
            const rn_block_event event = event_of(round * SLOTS + i, token, salt);
            assert_true(kv_ring_put(&ring, &event));
        }
        const rn_block_event more = event_of(99, token, salt);
        assert_false(kv_ring_put(&ring, &more));
        for (uint32_t i = 0; i < SLOTS; i++) {
            event_check(kv_ring_first(&ring), round * SLOTS + i);
            kv_ring_drop(&ring);
        }
        assert_null(kv_ring_first(&ring));
    }
    kv_ring_deinit(&ring);
}

struct reading {
    struct kv_ring *ring;
    uint32_t n;
};

static void *read_all(void *arg) {
    const struct reading *reading = arg;
    for (uint32_t i = 0; i < reading->n;) {
        const rn_block_event *event = kv_ring_first(reading->ring);
        if (!event) continue;
        event_check(event, i++);
        kv_ring_drop(reading->ring);
    }
    return NULL;
}

CASE(two_threads_pass_changes_on) {
    struct kv_ring ring;
    pthread_t reader;
    assert_true(kv_ring_init(&ring, SLOTS));
    struct reading reading = {.ring = &ring, .n = (uint32_t)test_scale(2000, 20000, 20000)};
    assert_int_equal(pthread_create(&reader, NULL, read_all, &reading), 0);
    for (uint32_t i = 0; i < reading.n;) {
        int32_t token[RN_PAGE_TOKENS];
        char salt[RN_MAX_SALT_BYTES];
        const rn_block_event event = event_of(i, token, salt);
        i += kv_ring_put(&ring, &event);
    }
    pthread_join(reader, NULL);
    kv_ring_deinit(&ring);
}

TEST_PROGRAM(kv_ring) { return cases_run(NULL, NULL); }
