// The watchers of the engine, and when pictures are taken. A picture is requested every PERIOD_NS
// and written at a later tick, when the step's thread has taken it. So no thread waits for a step.
// During a very long step a picture is made from known facts. Figures are for all watchers, and the
// ids of streams for their owner.
// Invariant: without watchers only the numbers of the streams are kept.
#include "live.h"

#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "live_picture.h"
#include "routes.h"
#include "streams.h"
#include "waiting.h"

enum {
    WATCHERS_MAX = 16,
    UNSENT_BYTES_MAX = 256 << 10,
    PERIOD_NS = 250000000,    // between pictures
    PATIENCE_NS = 1000000000, // for the step
    POLL_NS = 10000000,
    STEPS_SHOWN = 24,
};

struct live_watcher {
    struct call *call;
    bool once; // one picture is the whole answer
};

struct live {
    struct served *served;
    uint64_t start_ns;
    rn_watcher *engine; // made with the first watcher
    struct live_watcher watcher[WATCHERS_MAX];
    int n_watchers;
    uint64_t due_ns;   // when the next picture is to be asked for
    uint64_t asked_ns; // 0: none is
    struct live_streams streams;
    struct live_moments moments;
    struct jbuf pages, text;
};

struct live *live_create(struct served *served) {
    struct live *live = calloc(1, sizeof *live);
    if (!live) return NULL;
    live->served = served;
    live->start_ns = clock_ns();
    return live;
}

static void forget(struct live *live) {
    live_streams_clear(&live->streams);
    live->moments.n = 0;
    live->asked_ns = 0;
    jbuf_deinit(&live->pages);
    jbuf_deinit(&live->text);
}

// The engine goes before its watchers where its model is unloaded.
void live_destroy(struct live *live) {
    if (!live) return;
    while (live->n_watchers) {
        const struct live_watcher watcher = live->watcher[--live->n_watchers];
        watcher.call->on_gone = NULL;
        if (watcher.once) waiting_refuse(watcher.call);
        call_end(watcher.call);
    }
    forget(live);
    if (live->engine) rn_watcher_destroy(live->engine);
    free(live);
}

// ---------------------------------------------------------------- watchers

static void leave(struct call *call) {
    struct live *live = call->served->live;
    for (int i = 0; i < live->n_watchers; i++) {
        if (live->watcher[i].call != call) continue;
        live->watcher[i] = live->watcher[--live->n_watchers];
        break;
    }
    if (!live->n_watchers) forget(live);
}

static bool attach(struct call *call, bool once) {
    struct live *live = call->served->live;
    rn_error err;
    if (!waiting_needs(call)) return false;
    if (live->n_watchers == WATCHERS_MAX) {
        return call_refuse(call, 429, NULL, NULL, "%d others watch the engine already",
                           WATCHERS_MAX);
    }
    if (!live->engine && rn_watcher_create(live->served->engine, &live->engine, &err)) {
        return call_refuse_memory(call);
    }
    if (!live->n_watchers) { // rates start from here
        rn_engine_stats stats;
        const uint64_t now = clock_ns();
        rn_engine_get_stats(live->served->engine, &stats);
        live_moments_add(&live->moments, now, &stats);
        live->due_ns = now + PERIOD_NS / 2;
    }
    live->watcher[live->n_watchers++] = (struct live_watcher){.call = call, .once = once};
    return true;
}

void live_stream(struct call *call) {
    if (attach(call, false)) call_stream(call, leave);
}

void live_get(struct call *call) {
    if (!attach(call, true)) return;
    call->on_gone = leave;
    call_state_set(call, CALL_RUNNING);
}

// ---------------------------------------------------------------- streams' names

void live_token(struct live *live, const struct call *call, const struct generation_choice *choice,
                const rn_event *event) {
    if (!live || !live->n_watchers) return;
    char id[CALL_ID_BYTES];
    call_answer_id(call, id);
    live_streams_token(&live->streams, id, call->owner, choice->index, event);
}

// Streams that wait have no event that would name them.
static void name_streams(struct live *live) {
    for (int i = 0; i < live->streams.n; i++) {
        struct live_stream *stream = &live->streams.stream[i];
        if (stream->id[0] || stream->ended) continue;
        const struct stream *of = streams_find(live->served, stream->request);
        if (!of) continue;
        snprintf(stream->id, sizeof stream->id, "%s", of->id);
        stream->owner = of->owner;
        stream->index = of->first_choice + stream->choice;
    }
}

// ---------------------------------------------------------------- pictures

static void send_one(struct call *call, const struct jbuf *text) {
    if (call->state == CALL_ENDED) return;            // the server drains
    if (call_unsent(call) > UNSENT_BYTES_MAX) return; // a slow reader misses some
    if (!jbuf_reserve(&call->out, text->len + sizeof "data: \n\n")) {
        call->out.failed = false; // as if it were slow: the bytes that are there are whole
        return;
    }
    jbuf_text(&call->out, "data: ");
    jbuf_bytes(&call->out, text->data, text->len);
    jbuf_text(&call->out, "\n\n");
    call_wake(call);
}

static void answer_once(struct call *call, const struct jbuf *text) {
    call->on_gone = NULL; // the model may be unloaded before all of it is sent
    jbuf_bytes(&call->out, text->data, text->len);
    call_answer(call);
    call_end(call);
}

// One text serves all watchers of an owner, if they follow each other in the list.
static void picture_send(struct live *live, const struct live_picture *picture) {
    struct live_picture own = *picture;
    bool is_written = false;
    for (int i = live->n_watchers - 1; i >= 0; i--) { // backwards: those of one picture leave
        const struct live_watcher watcher = live->watcher[i];
        if (!is_written || !owner_is(own.owner, watcher.call->owner)) {
            own.owner = watcher.call->owner;
            jbuf_clear(&live->text);
            live_picture_write(&live->text, &own);
            is_written = true;
        }
        if (live->text.failed || live->pages.failed) continue;
        if (!watcher.once) {
            send_one(watcher.call, &live->text);
            continue;
        }
        live->watcher[i] = live->watcher[--live->n_watchers];
        answer_once(watcher.call, &live->text);
    }
}

static void picture_take(struct live *live, uint64_t time_ns, const rn_engine_stats *stats) {
    rn_step step[STEPS_SHOWN];
    const uint64_t before = stats->steps > STEPS_SHOWN ? stats->steps - STEPS_SHOWN : 0;
    const size_t n_steps = rn_engine_steps(live->served->engine, before, step, STEPS_SHOWN);
    live_moments_add(&live->moments, time_ns, stats);
    picture_send(live, &(struct live_picture){.served = live->served,
                                              .start_ns = live->start_ns,
                                              .streams = &live->streams,
                                              .moments = &live->moments,
                                              .stats = stats,
                                              .step = step,
                                              .n_steps = n_steps,
                                              .pages = &live->pages,
                                              .time_ns = time_ns});
    live_streams_shown(&live->streams);
    if (!live->n_watchers) forget(live);
}

static void picture_of_view(struct live *live, const rn_view *view) {
    live_streams_view(&live->streams, view);
    name_streams(live);
    jbuf_clear(&live->pages);
    live_picture_pages(&live->pages, &live->streams, view->page, view->n_pages);
    picture_take(live, view->time_ns, view->stats);
}

// Without the facts that only the step's thread knows: streams and pages are as they were last
// seen.
static void picture_of_stats(struct live *live, uint64_t now_ns) {
    rn_engine_stats stats;
    rn_engine_get_stats(live->served->engine, &stats);
    picture_take(live, now_ns, &stats);
}

uint64_t live_tick(struct live *live, uint64_t now_ns) {
    if (!live || !live->n_watchers) return 0;
    if (!live->asked_ns) {
        if (now_ns < live->due_ns) return live->due_ns;
        rn_watcher_ask(live->engine);
        live->asked_ns = now_ns;
        live->due_ns += PERIOD_NS;
        if (live->due_ns < now_ns) live->due_ns = now_ns + PERIOD_NS;
        return now_ns + POLL_NS;
    }
    const rn_view *view = rn_watcher_view(live->engine);
    if (view) {
        live->asked_ns = 0;
        picture_of_view(live, view);
    } else if (now_ns - live->asked_ns > PATIENCE_NS) {
        live->asked_ns = now_ns; // the picture is still to come
        picture_of_stats(live, now_ns);
    } else {
        return now_ns + POLL_NS;
    }
    return live->n_watchers ? live->due_ns : 0;
}
