// See wait.h. Text may stand before the cursor: then the bar is on the next line, and the cursor
// returns.
#include "run/wait.h"

#include <signal.h>
#include <time.h>

#include "helpers.h"

enum { WAIT_MS = 500 }; // before the bar appears

static uint64_t tokens_done(const rn_engine *engine) {
    rn_engine_stats stats;
    rn_engine_get_stats(engine, &stats);
    return stats.cached_tokens + stats.computed_tokens;
}

static void show(struct wait *wait, uint64_t done) {
    if (!wait->is_shown && wait->column) fputc('\n', stderr);
    wait->is_shown = true;
    progress_update(&wait->bar, done, wait->total);
}

// Steps may take seconds, so the first bar does not wait for the end of one.
static void *watch(void *ctx) {
    struct wait *wait = ctx;
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    due.tv_nsec += WAIT_MS * 1000000l;
    due.tv_sec += due.tv_nsec / 1000000000;
    due.tv_nsec %= 1000000000;
    pthread_mutex_lock(&wait->lock);
    while (!wait->is_over && !wait->is_shown &&
           !pthread_cond_timedwait(&wait->ends, &wait->lock, &due)) {
    }
    if (!wait->is_over && !wait->is_shown) show(wait, 0);
    pthread_mutex_unlock(&wait->lock);
    return NULL;
}

// Without a watcher the bar appears after a step. Signals are the caller's.
static void watcher_start(struct wait *wait) {
    pthread_condattr_t monotonic;
    sigset_t all, before;
    pthread_mutex_init(&wait->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&wait->ends, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    wait->has_watcher = !pthread_create(&wait->watcher, NULL, watch, wait);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void wait_begin(struct wait *wait, const struct term *term, bool quiet, const rn_engine *engine,
                size_t n_prompt, int column) {
    *wait = (struct wait){.total = n_prompt, .column = column};
    progress_begin(&wait->bar, term, quiet || !term->moves, "prompt");
    if (!wait->bar.term) return;
    wait->before = tokens_done(engine);
    watcher_start(wait);
}

void wait_end(struct wait *wait) {
    if (!wait->bar.term) return;
    pthread_mutex_lock(&wait->lock);
    wait->is_over = true;
    pthread_cond_signal(&wait->ends);
    pthread_mutex_unlock(&wait->lock);
    if (wait->has_watcher) pthread_join(wait->watcher, NULL);
    pthread_cond_destroy(&wait->ends);
    pthread_mutex_destroy(&wait->lock);
    progress_end(&wait->bar);
    if (wait->is_shown && wait->column) {
        fprintf(stderr, "\033[A\r\033[%dC", wait->column);
        fflush(stderr);
    }
    wait->bar.term = NULL;
}

void wait_step(struct wait *wait, const rn_engine *engine) {
    if (!wait->bar.term) return;
    const uint64_t done = tokens_done(engine) - wait->before;
    if (done >= wait->total) {
        wait_end(wait);
        return;
    }
    pthread_mutex_lock(&wait->lock);
    if (wait->is_shown || clock_ns() - wait->bar.start_ns >= WAIT_MS * 1000000ull) show(wait, done);
    pthread_mutex_unlock(&wait->lock);
}
