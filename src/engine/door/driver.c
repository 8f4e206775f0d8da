// The engine's own thread, and the reader's side of its ring; see driver.h.
#define _GNU_SOURCE 1
#include "engine/door/driver.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    MIN_EVENTS = 1024,
    EVENTS_PER_SEQ = 4,
    FETCH_WAIT_NS = 100000000,
    TELL_WAIT_NS =
        10000000, // between steps that only tell blocks: the listener makes room meanwhile
};

static void ring_bell(void *ctx) { bell_ring(&((struct driver *)ctx)->bell); }

rn_status driver_init(struct driver *driver, struct engine *engine, rn_error *err) {
    memset(driver, 0, sizeof *driver);
    driver->engine = engine;
    driver->fd = -1;
    if (pthread_mutex_init(&driver->life, NULL))
        return err_set(err, RN_ERR_NOMEM, "no memory for a lock");
    engine->intake.wake = ring_bell;
    engine->intake.wake_ctx = driver;
    engine->maker.wake = ring_bell;
    engine->maker.wake_ctx = driver;
    if (engine->store) page_store_set_wake(engine->store, ring_bell, driver);
    stats_board_write(&driver->board, &engine->stats);
    return RN_OK;
}

void driver_deinit(struct driver *driver) {
    driver_stop(driver, false);
    if (driver->fd >= 0) close(driver->fd);
    event_ring_deinit(&driver->ring); // the sequences in it are the intake's to free
    pthread_mutex_destroy(&driver->life);
}

void driver_get_stats(const struct driver *driver, rn_engine_stats *out) {
    stats_board_read(&driver->board, out);
    const uint64_t begin = atomic_load_explicit(&driver->engine->begin_ns, memory_order_relaxed);
    const uint64_t now = engine_now(driver->engine);
    out->step_ms = begin && now > begin ? (double)(now - begin) * 1e-6 : 0;
}

void driver_forget_prefixes(struct driver *driver) {
    atomic_store(&driver->engine->forget, true);
    bell_ring(&driver->bell);
}

// ---------------------------------------------------------------- steps

// The descriptor becomes readable, if it is not. The event is in the ring before `raised` is
// looked at, and the reader looks at the ring after it lowered `raised`: one sees the other.
static void raise_fd(struct driver *driver) {
    if (atomic_exchange(&driver->raised, true)) return;
    const uint64_t one = 1;
    while (write(driver->fd, &one, sizeof one) < 0 && errno == EINTR) continue;
}

static bool step(struct driver *driver) {
    bool busy;
    const rn_status status = engine_step(driver->engine, &busy);
    assert(status == RN_OK || status == RN_ERR_DEVICE); // events were collected
    if (status == RN_ERR_DEVICE && !driver->is_told) {
        driver->is_told = true;
        if (driver->fd >= 0) raise_fd(driver); // no event may say so
    }
    stats_board_write(&driver->board, &driver->engine->stats);
    watcher_take_all(driver);
    return busy;
}

rn_status driver_step(struct driver *driver, bool *busy) {
    *busy = false;
    if (atomic_load(&driver->state) != DRIVER_IDLE) return RN_ERR_ARG;
    if (driver->engine->next_event < driver->engine->n_event) return RN_ERR_ARG;
    const uint32_t seen = bell_read(&driver->bell);
    *busy = step(driver);
    const bool waits = driver->engine->n_fetching > 0 || driver->engine->n_ordered > 0;
    if (!*busy && waits) { // the caller has nothing else to wait for
        bell_wait(&driver->bell, seen, FETCH_WAIT_NS);
        *busy = true;
    }
    return atomic_load(&driver->engine->is_lost) ? RN_ERR_DEVICE : RN_OK;
}

bool driver_next_event(struct driver *driver, rn_event *out) {
    if (atomic_load(&driver->state) != DRIVER_IDLE) return false;
    return engine_next_event(driver->engine, out);
}

// Whether some request has not ended. A request submitted before the intake was closed is seen.
static bool has_requests(const struct engine *engine) {
    return engine->n_running > 0 || engine->n_waiting > 0 || engine->n_flight > 0 ||
           atomic_load(&engine->intake.inbox);
}

bool driver_is_idle(const struct driver *driver) {
    const struct engine *engine = driver->engine;
    return atomic_load(&driver->state) == DRIVER_IDLE && engine->next_event == engine->n_event &&
           !has_requests(engine);
}

// ---------------------------------------------------------------- events

// The ring was found empty. A writer that raised but has not written yet leaves the descriptor
// readable without an event, so it is read every time.
static void lower_fd(struct driver *driver) {
    uint64_t count;
    while (read(driver->fd, &count, sizeof count) < 0 && errno == EINTR) continue;
    atomic_exchange(&driver->raised, false);
    if (event_ring_waits(&driver->ring)) raise_fd(driver);
}

// Moves the last step's events into the ring; false: some found no room. The last event carries the
// sequences that ended in the step, so that their memory outlives their events.
static bool deliver(struct driver *driver) {
    struct engine *engine = driver->engine;
    const int first = engine->next_event;
    bool fits = true;
    while (engine->next_event < engine->n_event) {
        struct seq *over = engine->next_event + 1 == engine->n_event ? engine->done : NULL;
        fits = event_ring_put(&driver->ring, &engine->event[engine->next_event], over);
        if (!fits) break;
        if (over) engine->done = NULL;
        engine->next_event++;
    }
    if (engine->next_event > first) raise_fd(driver);
    return fits;
}

// ---------------------------------------------------------------- the thread

// Until the earliest deadline of a request, or until more blocks are told; a fake clock makes this
// a guess, which is harmless.
static uint64_t time_to_step(const struct engine *engine) {
    const uint64_t most = kv_is_telling(engine->kv) ? TELL_WAIT_NS : UINT64_MAX;
    if (engine->next_deadline == UINT64_MAX) return most;
    const uint64_t now = engine_now(engine);
    const uint64_t left = engine->next_deadline > now ? engine->next_deadline - now : 0;
    return left < most ? left : most;
}

// Sleeps until the reader made room; it rings when it sees `starved`.
static void wait_for_room(struct driver *driver, uint32_t seen) {
    atomic_exchange(&driver->starved, true);
    if (deliver(driver)) return;
    watcher_take_all(driver);
    bell_wait(&driver->bell, seen, UINT64_MAX);
}

static void *thread_main(void *arg) {
    struct driver *driver = arg;
    struct engine *engine = driver->engine;
    pthread_setname_np(pthread_self(), "runnel-step");
    for (;;) {
        const uint32_t seen = bell_read(&driver->bell);
        const bool halting = atomic_load(&driver->halting);
        const bool ends = halting || atomic_load(&driver->draining);
        if (!deliver(driver)) {
            if (halting) break; // the reader brings the rest
            wait_for_room(driver, seen);
            continue;
        }
        if (step(driver)) continue;
        if (ends && !has_requests(engine)) break;
        bell_wait(&driver->bell, seen, time_to_step(engine));
    }
    atomic_store(&driver->state, DRIVER_STOPPED);
    atomic_store(&driver->raised, false);
    raise_fd(driver); // a reader that waits for more is to see the end
    return NULL;
}

// ---------------------------------------------------------------- start, stop

static rn_status prepare(struct driver *driver, rn_error *err) {
    const struct engine *engine = driver->engine;
    if (driver->fd >= 0) return RN_OK;
    const uint64_t n_event = (uint64_t)engine->max_seqs * EVENTS_PER_SEQ;
    const rn_status status =
        event_ring_init(&driver->ring, n_event > MIN_EVENTS ? n_event : MIN_EVENTS,
                        1 + (uint64_t)tokenizer_size(engine->tokenizer),
                        output_text_max(RN_MAX_STOP_BYTES, engine->intake.limits.token_bytes_max),
                        err);
    if (status) return status;
    driver->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (driver->fd >= 0) return RN_OK;
    event_ring_deinit(&driver->ring);
    return err_set(err, RN_ERR_IO, "eventfd: %s", strerrordesc_np(errno));
}

// Signals belong to the program's own threads: this one is born with all of them blocked.
static int create_thread(struct driver *driver) {
    sigset_t all, saved;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    const int code = pthread_create(&driver->thread, NULL, thread_main, driver);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return code;
}

static rn_status start(struct driver *driver, rn_error *err) {
    if (driver->has_thread)
        return err_set(err, RN_ERR_ARG, "the engine's thread is running already");
    const rn_status status = prepare(driver, err);
    if (status) return status;
    const int before = atomic_load(&driver->state);
    atomic_store(&driver->draining, false);
    atomic_store(&driver->halting, false);
    atomic_store(&driver->state, DRIVER_RUNNING);
    const int code = create_thread(driver);
    if (code) {
        atomic_store(&driver->state, before);
        return err_set(err, RN_ERR_NOMEM, "the engine's thread: %s", strerrordesc_np(code));
    }
    driver->has_thread = true;
    intake_close(&driver->engine->intake, false);
    return RN_OK;
}

rn_status driver_start(struct driver *driver, rn_error *err) {
    pthread_mutex_lock(&driver->life);
    const rn_status status = start(driver, err);
    pthread_mutex_unlock(&driver->life);
    return status;
}

// No request is taken after this; requests already taken end, or are cancelled.
static void ask_to_stop(struct driver *driver, bool drain) {
    intake_close(&driver->engine->intake, true);
    if (!drain) intake_cancel_all(&driver->engine->intake);
    atomic_store(drain ? &driver->draining : &driver->halting, true);
    bell_ring(&driver->bell);
}

void driver_stop(struct driver *driver, bool drain) {
    // without the lock: another stop may hold it that waits for requests, and this one may hurry it
    if (driver_is_running(driver)) ask_to_stop(driver, drain);
    pthread_mutex_lock(&driver->life);
    if (driver->has_thread) {
        ask_to_stop(driver, drain); // again, in case of a start in between
        pthread_join(driver->thread, NULL);
        driver->has_thread = false;
    }
    pthread_mutex_unlock(&driver->life);
}

// ---------------------------------------------------------------- the reader

// Gives back the events of the last call, and takes more.
static int collect(struct driver *driver, rn_event *out, int max) {
    intake_bury(&driver->engine->intake, event_ring_release(&driver->ring));
    intake_reap(&driver->engine->intake);
    // only then: the thread sees the new room, or is told of it
    if (atomic_exchange(&driver->starved, false)) bell_ring(&driver->bell);
    return event_ring_take(&driver->ring, out, max);
}

// The remains of a thread that had to end at once: events without room, and requests whose
// cancellation no step has seen. The ring is empty; false: it stays so.
static bool bring_rest(struct driver *driver) {
    bool more = true;
    pthread_mutex_lock(&driver->life);
    while (more && atomic_load(&driver->state) == DRIVER_STOPPED) {
        deliver(driver);
        if (event_ring_waits(&driver->ring)) break;
        more = has_requests(driver->engine) && step(driver);
    }
    pthread_mutex_unlock(&driver->life);
    return more;
}

static int ms_until(uint64_t end_ns) {
    const uint64_t now = clock_ns();
    return end_ns > now ? (int)((end_ns - now + 999999) / 1000000) : 0;
}

int driver_wait(struct driver *driver, rn_event *out, int max, int timeout_ms) {
    if (atomic_load(&driver->state) == DRIVER_IDLE || max <= 0) return 0;
    const uint64_t end = clock_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
    for (;;) {
        const int n = collect(driver, out, max);
        if (n > 0) return n;
        lower_fd(driver);
        if (event_ring_waits(&driver->ring)) continue;
        if (!driver_is_running(driver)) {
            if (bring_rest(driver)) continue;
            return 0;
        }
        const int left = timeout_ms < 0 ? -1 : ms_until(end);
        if (left == 0) return 0;
        struct pollfd fd = {.fd = driver->fd, .events = POLLIN};
        poll(&fd, 1, left);
    }
}
