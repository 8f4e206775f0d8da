// See mask_maker.h.
#define _GNU_SOURCE 1
#include "engine/choice/mask_maker.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

#include "base/background.h"
#include "engine/choice/shape.h"

enum { SLICE_UNITS = 1 << 19 }; // a few milliseconds

rn_status mask_maker_init(struct mask_maker *maker, rn_error *err) {
    memset(maker, 0, sizeof *maker);
    if (pthread_mutex_init(&maker->life, NULL) == 0) return RN_OK;
    return err_set(err, RN_ERR_NOMEM, "no memory for a lock");
}

// ---------------------------------------------------------------- the turns

static void turn_add(struct mask_maker *maker, struct text_shape *shape) {
    shape->next_turn = NULL;
    *(maker->last ? &maker->last->next_turn : &maker->first) = shape;
    maker->last = shape;
}

static struct text_shape *turn_take(struct mask_maker *maker) {
    struct text_shape *shape = maker->first;
    maker->first = shape->next_turn;
    if (!maker->first) maker->last = NULL;
    return shape;
}

// Orders that came since, in their order, behind the others of their requests.
static void take_orders(struct mask_maker *maker) {
    struct mask_order *list = atomic_exchange(&maker->inbox, NULL), *order = NULL;
    while (list) { // the last one came first
        struct mask_order *next = list->next;
        list->next = order;
        order = list;
        list = next;
    }
    while (order) {
        struct mask_order *next = order->next;
        struct text_shape *shape = order->shape;
        order->next = NULL;
        if (!shape->first_order) turn_add(maker, shape);
        *(shape->first_order ? &shape->last_order->next : &shape->first_order) = order;
        shape->last_order = order;
        order = next;
    }
}

// The first order of the shape is over. The shape may be gone then.
static void end_order(struct mask_maker *maker, struct text_shape *shape) {
    struct mask_order *order = shape->first_order;
    shape->first_order = order->next;
    if (shape->first_order) turn_add(maker, shape);
    atomic_store_explicit(&order->state, MASK_MADE, memory_order_release);
    if (maker->wake) maker->wake(maker->wake_ctx);
    shape_destroy(shape);
}

static void make_some(struct mask_maker *maker) {
    struct text_shape *shape = turn_take(maker);
    struct mask_order *order = shape->first_order;
    const uint64_t least = constraint_slice(shape->run);
    if (atomic_load(&order->is_dropped) ||
        constraint_prepare(shape->run, order->choice, least > SLICE_UNITS ? least : SLICE_UNITS))
        end_order(maker, shape);
    else
        turn_add(maker, shape);
}

// ---------------------------------------------------------------- the thread

static void *thread_main(void *arg) {
    struct mask_maker *maker = arg;
    pthread_setname_np(pthread_self(), "runnel-masks");
    background_begin();
    while (!atomic_load(&maker->ends)) {
        const uint32_t seen = bell_read(&maker->bell);
        take_orders(maker);
        if (maker->first)
            make_some(maker);
        else if (!atomic_load(&maker->ends))
            bell_wait(&maker->bell, seen, UINT64_MAX);
    }
    return NULL;
}

// Signals belong to the program's own threads: this one is born with all of them blocked.
static int create_thread(struct mask_maker *maker) {
    sigset_t all, saved;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    const int code = pthread_create(&maker->thread, NULL, thread_main, maker);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return code;
}

rn_status mask_maker_start(struct mask_maker *maker, rn_error *err) {
    if (atomic_load(&maker->has_thread)) return RN_OK;
    int code = 0;
    pthread_mutex_lock(&maker->life);
    if (!atomic_load(&maker->has_thread)) {
        code = create_thread(maker);
        atomic_store(&maker->has_thread, code == 0);
    }
    pthread_mutex_unlock(&maker->life);
    if (code) return err_set(err, RN_ERR_NOMEM, "the thread for masks: %s", strerrordesc_np(code));
    return RN_OK;
}

void mask_maker_deinit(struct mask_maker *maker) {
    if (atomic_load(&maker->has_thread)) {
        atomic_store(&maker->ends, true);
        bell_ring(&maker->bell);
        pthread_join(maker->thread, NULL);
    }
    maker->wake = NULL;
    take_orders(maker);
    while (maker->first) end_order(maker, turn_take(maker));
    pthread_mutex_destroy(&maker->life);
}

void mask_maker_order(struct mask_maker *maker, struct text_shape *shape, int choice) {
    struct mask_order *order = &shape->order[choice];
    assert(atomic_load(&maker->has_thread) && atomic_load(&order->state) != MASK_ORDERED);
    shape->refs++;
    order->shape = shape;
    order->choice = choice;
    atomic_store_explicit(&order->state, MASK_ORDERED, memory_order_relaxed);
    order->next = atomic_load_explicit(&maker->inbox, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&maker->inbox, &order->next, order)) continue;
    bell_ring(&maker->bell);
}
