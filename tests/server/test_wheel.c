// Timers: each fires once, never early and at most one slot late, for any distance, also if it was
// moved or removed before.
#include "wheel.h"

#define RANDOM_SEED 0x2545F4914F6CDD1Du

#include "check.h"
#include "engine/random.h"

enum { TIMERS = 300, SLOT_NS = 1 << WHEEL_SLOT_BITS };

struct world {
    struct wheel wheel;
    struct timer timer[TIMERS];
    uint64_t due_ns[TIMERS]; // 0: not set
    uint64_t now_ns;
};

static void set(struct world *world, int i, uint64_t due_ns) {
    world->due_ns[i] = due_ns;
    wheel_set(&world->wheel, &world->timer[i], due_ns);
}

static void take_due(struct world *world) {
    for (struct timer *timer; (timer = wheel_due(&world->wheel, world->now_ns));) {
        const long i = timer - world->timer;
        check(world->due_ns[i], "timer %ld was not set", i);
        check(world->due_ns[i] < world->now_ns, "timer %ld is early", i);
        world->due_ns[i] = 0;
    }
    for (int i = 0; i < TIMERS; i++) {
        check(!world->due_ns[i] || world->due_ns[i] + SLOT_NS >= world->now_ns,
              "timer %d is late by %.1f ms", i, (double)(world->now_ns - world->due_ns[i]) * 1e-6);
    }
}

// Whoever waits as long as the wheel says misses none.
static void check_wait(const struct world *world) {
    uint64_t first_ns = 0;
    for (int i = 0; i < TIMERS; i++) {
        if (world->due_ns[i] && (!first_ns || world->due_ns[i] < first_ns))
            first_ns = world->due_ns[i];
    }
    const int ms = wheel_wait_ms(&world->wheel, world->now_ns);
    if (!first_ns) return; // it may look for what was taken away
    check(ms >= 0, "a timer is set and nobody waits for it");
    const uint64_t until_ns = world->now_ns + (uint64_t)ms * 1000000;
    check(until_ns <= first_ns + 2 * SLOT_NS || until_ns <= world->now_ns + 2 * SLOT_NS,
          "%d ms are too long", ms);
}

CASE(timers_come_once_and_in_time) {
    static struct world world;
    world = (struct world){.now_ns = 123456789012};
    wheel_init(&world.wheel, world.now_ns);
    assert_int_equal(wheel_wait_ms(&world.wheel, world.now_ns), -1);
    for (int step = 0; step < 20000; step++) {
        const int i = below(TIMERS);
        const int kind = below(10);
        // within a slot, within the wheel, and rounds of it away
        const double span = kind < 3 ? SLOT_NS : kind < 7 ? 3e9 : 60e9;
        if (kind == 9) {
            wheel_unset(&world.wheel, &world.timer[i]);
            world.due_ns[i] = 0;
        } else {
            set(&world, i, world.now_ns + (uint64_t)(uniform() * span));
        }
        check_wait(&world);
        world.now_ns += (uint64_t)(uniform() * (step % 1000 ? 30e6 : 20e9));
        take_due(&world);
    }
    world.now_ns += 100000000000;
    take_due(&world);
    for (int i = 0; i < TIMERS; i++) assert_int_equal(world.due_ns[i], 0);
}

// A deadline that has passed when it is set comes with the next look.
CASE(what_is_past_comes_soon) {
    static struct world world;
    world = (struct world){.now_ns = 5000000000};
    wheel_init(&world.wheel, world.now_ns);
    set(&world, 0, 1000);
    world.now_ns += 2 * SLOT_NS;
    take_due(&world);
    assert_int_equal(world.due_ns[0], 0);
}

TEST_PROGRAM(wheel) { return cases_run(NULL, NULL); }
