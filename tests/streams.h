// An engine through the public interface, for test programs: submit, step, and keep the results of
// each choice of a request. For tests/runnel/.
#ifndef RN_TESTS_STREAMS_H
#define RN_TESTS_STREAMS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "runnel.h"

enum { STREAM_MAX_IDS = 1024, STREAM_MAX_TEXT = 8192, STREAM_MAX_EMBD = 512 };

// The results of one choice so far.
struct stream {
    uint64_t id;
    int choice;
    int32_t ids[STREAM_MAX_IDS];
    int n_ids;
    char text[STREAM_MAX_TEXT];
    size_t n_text;
    rn_finish finish;
    rn_status status;
    bool last; // its finish was the request's last event
    char stop[64];
    int32_t stop_token; // of its last event
    int last_step;      // of streams_step, in which its last event came
    float embedding[STREAM_MAX_EMBD];
    bool has_embedding;
    rn_timings timings;
};

// One thread where the options name no number.
static inline rn_engine *streams_engine(const rn_model *model, const rn_engine_options *options) {
    rn_engine *engine;
    rn_error err = {0};
    rn_engine_options own = *options;
    if (!own.n_threads) own.n_threads = 1;
    const rn_status status = rn_engine_create(model, &own, &engine, &err);
    check(status == RN_OK, "%s", err.message);
    return engine;
}

// One stream for each choice.
static inline void streams_submit(rn_engine *engine, const rn_request *request,
                                  struct stream *streams) {
    rn_error err = {0};
    uint64_t id;
    const rn_status status = rn_engine_submit(engine, request, &id, &err);
    check(status == RN_OK, "%s", err.message);
    for (int i = 0; i < (request->n ? request->n : 1); i++) {
        memset(&streams[i], 0, sizeof streams[i]);
        streams[i].id = id;
        streams[i].choice = i;
    }
}

static inline struct stream *streams_find(struct stream *streams, int n, const rn_event *event) {
    for (int i = 0; i < n; i++)
        if (streams[i].id == event->request && streams[i].choice == event->choice)
            return &streams[i];
    fail_msg("event of unknown request %llu, choice %d", (unsigned long long)event->request,
             event->choice);
    return NULL;
}

static inline void streams_take(struct stream *stream, const rn_event *event, int n_embd) {
    assert_int_equal(stream->finish, RN_FINISH_NONE); // nothing follows the last event
    if (event->token >= 0) {
        assert_true(stream->n_ids < STREAM_MAX_IDS);
        stream->ids[stream->n_ids++] = event->token;
    }
    assert_true(stream->n_text + event->text_len <= STREAM_MAX_TEXT);
    if (event->text_len) memcpy(stream->text + stream->n_text, event->text, event->text_len);
    stream->n_text += event->text_len;
    stream->finish = event->finish;
    stream->status = event->status;
    stream->last = event->last;
    stream->stop_token = event->stop_token;
    if (event->stop) snprintf(stream->stop, sizeof stream->stop, "%s", event->stop);
    if (event->timings) stream->timings = *event->timings;
    if (!event->embedding) return;
    assert_true(n_embd > 0 && n_embd <= STREAM_MAX_EMBD);
    memcpy(stream->embedding, event->embedding, (size_t)n_embd * sizeof(float));
    stream->has_embedding = true;
}

// One step and its events; n_embd may be 0 where no request wants an embedding. Returns whether
// there was something to do.
static inline bool streams_step(rn_engine *engine, struct stream *streams, int n, int step,
                                int n_embd) {
    bool busy;
    assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
    for (rn_event event; rn_engine_next_event(engine, &event);) {
        struct stream *stream = streams_find(streams, n, &event);
        streams_take(stream, &event, n_embd);
        stream->last_step = step;
    }
    return busy;
}

// Until nothing is left to do; returns the steps. For requests without pooling.
static inline int streams_drain(rn_engine *engine, struct stream *streams, int n) {
    int steps = 0;
    while (streams_step(engine, streams, n, steps, 0)) steps++;
    return steps;
}

// One request of one choice, to its end.
static inline void streams_run(rn_engine *engine, const rn_request *request,
                               struct stream *stream) {
    streams_submit(engine, request, stream);
    streams_drain(engine, stream, 1);
}

static inline void streams_check_same(const struct stream *a, const struct stream *b) {
    assert_int_equal(a->n_ids, b->n_ids);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids);
    assert_int_equal(a->n_text, b->n_text);
    assert_memory_equal(a->text, b->text, a->n_text);
    assert_int_equal(a->finish, b->finish);
}

static inline rn_engine_stats streams_stats(const rn_engine *engine) {
    rn_engine_stats stats;
    rn_engine_get_stats(engine, &stats);
    return stats;
}

// Nothing runs, waits or is held.
static inline void streams_check_empty(const rn_engine *engine) {
    const rn_engine_stats s = streams_stats(engine);
    check(s.running == 0 && s.waiting == 0, "%d run, %d wait", s.running, s.waiting);
    check(s.pages_held == 0 && s.kv_held_bytes == 0, "%u pages, %llu bytes are held", s.pages_held,
          (unsigned long long)s.kv_held_bytes);
}

#endif
