// The thread that makes expensive masks of shapes, beside the steps and with a lower priority. The
// step's thread orders the next mask of a choice and looks later whether it is made; meanwhile the
// maker alone uses the choice's place in the run. Requests take turns, whatever their number of
// choices: a turn is a slice of bounded work. Orders come by a stack without a lock, since the
// maker may lose its core at any moment. It starts with the first request that has a shape.
#ifndef RN_ENGINE_CHOICE_MASK_MAKER_H
#define RN_ENGINE_CHOICE_MASK_MAKER_H

#include <pthread.h>

#include "base/bell.h"
#include "base/status.h"

struct text_shape;

enum mask_state { MASK_IDLE, MASK_ORDERED, MASK_MADE };

// The next mask of one choice.
struct mask_order {
    struct mask_order *next;
    struct text_shape *shape; // holds a reference to it
    int choice;
    _Atomic int state;       // enum mask_state
    _Atomic bool is_dropped; // nobody wants it any more
};

struct mask_maker {
    pthread_mutex_t life; // of the start
    pthread_t thread;
    _Atomic bool has_thread, ends;
    _Atomic(struct mask_order *) inbox;
    struct bell bell;
    void (*wake)(void *ctx); // called by the thread after each mask; NULL: none
    void *wake_ctx;
    struct text_shape *first, *last; // the thread's: shapes with orders, in turn
};

rn_status mask_maker_init(struct mask_maker *maker, rn_error *err);
// No step runs any more. Orders are dropped.
void mask_maker_deinit(struct mask_maker *maker);
// Any thread may call it, again and again.
rn_status mask_maker_start(struct mask_maker *maker, rn_error *err);

// The step's thread: the maker has been started. The mask of the choice's place is not made yet.
void mask_maker_order(struct mask_maker *maker, struct text_shape *shape, int choice);

#endif
