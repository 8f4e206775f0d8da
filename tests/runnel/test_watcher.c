// Pictures of an engine, through the public interface. States of streams and pages are known
// beforehand. Pictures are taken at the right moments, from engines that run, sleep, or wait for
// their reader.
// label: threads
#include <pthread.h>
#include <time.h>

#define TALE_ANY
#include "streams.h"
#include "tale.h"
#include "view_check.h"

enum { PAGE = 32, MAX_STREAMS = 4, N_LOAD = TEST_IS_SLOW ? 25 : 60 };

static int32_t prompt[512];
static struct stream stream[MAX_STREAMS];

static rn_request request_for(int seed, int n_prompt, int max_tokens) {
    for (int i = 0; i < n_prompt; i++) prompt[i] = (seed * 577 + i * 31 + 7) % 500;
    return (rn_request){.prompt = prompt,
                        .n_prompt = (size_t)n_prompt,
                        .max_tokens = max_tokens,
                        .ignore_eos = true,
                        .data = &stream[seed % MAX_STREAMS]};
}

// An engine without drafts: single steps have known tokens.
#define undrafted(...) streams_engine(model, &(rn_engine_options){.speculate = "off", __VA_ARGS__})

static rn_watcher *new_watcher(rn_engine *engine) {
    rn_watcher *watcher;
    rn_error err = {0};
    check(rn_watcher_create(engine, &watcher, &err) == RN_OK, "%s", err.message);
    return watcher;
}

static void end(rn_engine *engine, rn_watcher *watcher) {
    rn_watcher_destroy(watcher);
    rn_engine_destroy(engine);
}

// The picture after one more step.
static const rn_view *view_after_step(rn_engine *engine, rn_watcher *watcher) {
    rn_watcher_ask(watcher);
    assert_null(rn_watcher_view(watcher));
    streams_step(engine, stream, MAX_STREAMS, 0, 0);
    const rn_view *view = rn_watcher_view(watcher);
    assert_non_null(view);
    check(!view_check(view), "%s", view_check(view));
    return view;
}

static const rn_stream_view *stream_of(const rn_view *view, uint64_t id, int choice) {
    for (size_t i = 0; i < view->n_streams; i++)
        if (view->stream[i].request == id && view->stream[i].choice == choice)
            return &view->stream[i];
    fail_msg("request %llu is not in the picture", (unsigned long long)id);
    return NULL;
}

static int count_pages(const rn_view *view, rn_page_state state, uint64_t owner, int holders) {
    int n = 0;
    for (size_t i = 0; i < view->n_pages; i++)
        n += view->page[i].state == state && view->page[i].owner == owner &&
             view->page[i].holders == holders;
    return n;
}

CASE(an_idle_engine_has_free_pages) {
    rn_engine *engine = undrafted(.n_threads = 1, .kv_pages = 64);
    rn_watcher *watcher = new_watcher(engine);
    assert_null(rn_watcher_view(watcher));
    const rn_view *view = view_after_step(engine, watcher);
    assert_int_equal(view->n_streams, 0);
    assert_int_equal(view->n_pages, 64);
    assert_int_equal(count_pages(view, RN_PAGE_FREE, 0, 0), 64);
    assert_true(view->time_ns > 0);
    end(engine, watcher);
}

CASE(a_stream_is_seen_on_its_way) {
    rn_engine *engine = undrafted(.n_threads = 1, .batch_tokens = 40, .kv_pages = 64);
    rn_watcher *watcher = new_watcher(engine);
    rn_request request = request_for(1, 70, 10);
    request.priority = 7;
    streams_submit(engine, &request, &stream[0]);
    request = request_for(2, 20, 10);
    streams_submit(engine, &request, &stream[1]);
    const rn_view *view = view_after_step(engine, watcher);
    const rn_stream_view *s = stream_of(view, stream[0].id, 0);
    assert_ptr_equal(s->data, &stream[1 % MAX_STREAMS]);
    assert_int_equal(s->state, RN_STREAM_PROMPT);
    assert_int_equal(s->priority, 7);
    assert_int_equal(s->prompt_tokens, 70);
    assert_int_equal(s->done_tokens, 40);
    assert_int_equal(s->output_tokens, 0);
    assert_int_equal(s->pages, 2);
    assert_int_equal(count_pages(view, RN_PAGE_HELD, stream[0].id, 1), 2);
    s = stream_of(view, stream[1].id, 0); // there is one place
    assert_ptr_equal(s->data, &stream[2 % MAX_STREAMS]);
    assert_int_equal(s->state, RN_STREAM_WAITING);
    assert_int_equal(s->done_tokens, 0);
    view = view_after_step(engine, watcher);
    s = stream_of(view, stream[0].id, 0);
    assert_int_equal(s->state, RN_STREAM_DECODE);
    assert_int_equal(s->done_tokens, 70);
    assert_int_equal(s->output_tokens, 1);
    assert_int_equal(s->pages, 3);
    rn_engine_pause(engine, stream[0].id, true);
    view = view_after_step(engine, watcher);
    assert_int_equal(stream_of(view, stream[0].id, 0)->state, RN_STREAM_PAUSED);
    rn_engine_pause(engine, stream[0].id, false);
    streams_drain(engine, stream, 2);
    view = view_after_step(engine, watcher);
    assert_int_equal(view->n_streams, 0);
    // two full blocks of one, none of the other: 79 and 29 positions were evaluated
    assert_int_equal(count_pages(view, RN_PAGE_CACHED, 0, 0), 2);
    assert_int_equal(count_pages(view, RN_PAGE_HELD, 0, 0), 0);
    end(engine, watcher);
}

CASE(shared_pages_belong_to_the_oldest) {
    rn_engine *engine = undrafted(.n_threads = 1, .max_seqs = 4, .kv_pages = 64);
    rn_watcher *watcher = new_watcher(engine);
    rn_request request = request_for(1, 2 * PAGE + 5, 100);
    streams_submit(engine, &request, &stream[0]);
    streams_step(engine, stream, 1, 0, 0);
    request = request_for(1, 2 * PAGE + 20, 100);
    streams_submit(engine, &request, &stream[1]);
    const rn_view *view = view_after_step(engine, watcher);
    const uint64_t first = stream[0].id, second = stream[1].id;
    assert_int_equal(count_pages(view, RN_PAGE_HELD, first, 2), 2);
    assert_int_equal(count_pages(view, RN_PAGE_HELD, first, 1), 1);
    assert_int_equal(count_pages(view, RN_PAGE_HELD, second, 1), 1);
    assert_int_equal(stream_of(view, second, 0)->cached_tokens, 2 * PAGE);
    assert_int_equal(stream_of(view, second, 0)->pages, 3);
    rn_engine_cancel(engine, first);
    view = view_after_step(engine, watcher);
    assert_int_equal(count_pages(view, RN_PAGE_HELD, second, 1), 3);
    assert_int_equal(view->n_streams, 1);
    rn_engine_cancel(engine, second);
    streams_drain(engine, stream, 2);
    end(engine, watcher);
}

CASE(choices_hold_their_prompt_together) {
    rn_engine *engine = undrafted(.n_threads = 1, .max_seqs = 4, .kv_pages = 64);
    rn_watcher *watcher = new_watcher(engine);
    rn_request request = request_for(1, 2 * PAGE + 5, 100);
    request.n = 3;
    request.sampling = rn_sampling_neutral();
    streams_submit(engine, &request, stream);
    for (int i = 0; i < 3; i++) streams_step(engine, stream, 3, 0, 0);
    const rn_view *view = view_after_step(engine, watcher);
    assert_int_equal(view->n_streams, 3);
    assert_int_equal(count_pages(view, RN_PAGE_HELD, stream[0].id, 3), 2);
    assert_int_equal(count_pages(view, RN_PAGE_HELD, stream[0].id, 1), 3);
    for (int i = 0; i < 3; i++) assert_int_equal(stream_of(view, stream[0].id, i)->choice, i);
    rn_engine_cancel(engine, stream[0].id);
    streams_drain(engine, stream, 3);
    end(engine, watcher);
}

CASE(a_picture_stays_until_the_next_is_asked_for) {
    rn_engine *engine = undrafted(.n_threads = 1);
    rn_watcher *watcher = new_watcher(engine), *other = new_watcher(engine);
    const rn_request request = request_for(1, 8, 20);
    streams_submit(engine, &request, &stream[0]);
    const rn_view *view = view_after_step(engine, watcher);
    assert_null(rn_watcher_view(other)); // it did not ask
    streams_drain(engine, stream, 1);
    assert_ptr_equal(rn_watcher_view(watcher), view);
    assert_int_equal(view->n_streams, 1);
    assert_int_equal(view->stream[0].output_tokens, 1);
    rn_watcher_ask(watcher);
    rn_watcher_ask(watcher);
    rn_watcher_ask(other);
    assert_null(rn_watcher_view(watcher));
    streams_drain(engine, stream, 1);
    assert_int_equal(rn_watcher_view(watcher)->n_streams, 0);
    assert_int_equal(rn_watcher_view(other)->n_streams, 0);
    rn_watcher_destroy(watcher); // not the last that was created
    view_after_step(engine, other);
    rn_watcher_destroy(other);
    rn_watcher_destroy(NULL);
    streams_drain(engine, stream, 1);
    rn_engine_destroy(engine);
}

// Layers of two kinds: pages of both, of which those of the window are given back.
CASE(every_group_has_its_pages) {
    rn_model *windowed;
    assert_int_equal(rn_model_open(TEST_DATA "/golden/gemma3/model.gguf", &windowed, NULL), RN_OK);
    const int n_vocab = rn_model_get_info(windowed)->n_vocab;
    rn_engine *engine =
        streams_engine(windowed, &(rn_engine_options){.speculate = "off", .n_threads = 1});
    rn_watcher *watcher = new_watcher(engine);
    const rn_request request = request_for(1, 60, 60);
    for (int i = 0; i < 60; i++) prompt[i] = prompt[i] % n_vocab;
    streams_submit(engine, &request, &stream[0]);
    const rn_view *view = NULL;
    for (int i = 0; i < 50; i++) view = view_after_step(engine, watcher);
    int held[2] = {0};
    for (size_t i = 0; i < view->n_pages; i++) {
        assert_true(view->page[i].group < 2 &&
                    (i == 0 || view->page[i].group >= view->page[i - 1].group));
        held[view->page[i].group] += view->page[i].state == RN_PAGE_HELD;
    }
    check((held[0] == 4) != (held[1] == 4) && held[0] > 0 && held[1] > 0,
          "of 109 positions %d and %d pages are held", held[0], held[1]);
    end(engine, watcher);
    rn_model_close(windowed);
}

// ---------------------------------------------------------------- the engine's own thread

static const rn_view *view_of_thread(rn_watcher *watcher) {
    rn_watcher_ask(watcher);
    const rn_view *view;
    while (!(view = rn_watcher_view(watcher)))
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    check(!view_check(view), "%s", view_check(view));
    return view;
}

// Nobody submits anything, or collects: only the watcher wakes it.
CASE(a_thread_that_sleeps_wakes_for_a_picture) {
    enum { RING_EVENTS = 1024, N_MANY = 30 };
    rn_engine *engine = undrafted(.n_threads = 1, .max_seqs = 8, .n_ctx = 128);
    rn_watcher *watcher = new_watcher(engine);
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(view_of_thread(watcher)->n_streams, 0);
    const rn_request request = request_for(1, 8, 100);
    uint64_t id;
    for (int i = 0; i < N_MANY; i++)
        assert_int_equal(rn_engine_submit(engine, &request, &id, NULL), RN_OK);
    while (streams_stats(engine).output_tokens <= RING_EVENTS) view_of_thread(watcher);
    const uint64_t steps = view_of_thread(watcher)->stats->steps; // it waits for its reader
    for (int i = 0; i < 5; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        const rn_view *view = view_of_thread(watcher);
        assert_int_equal(view->stats->steps, steps);
        assert_true(view->n_streams > 0);
    }
    rn_engine_stop(engine, false);
    end(engine, watcher);
}

static void *collect(void *arg) {
    rn_event event[16];
    int n_open = N_LOAD;
    while (n_open > 0) {
        const int n = rn_engine_wait(arg, event, 16, -1);
        for (int i = 0; i < n; i++) n_open -= event[i].last;
    }
    return NULL;
}

CASE(pictures_under_load_are_valid) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_threads = 2,
                                                                   .max_seqs = 6,
                                                                   .n_ctx = 256,
                                                                   .kv_pages = 20,
                                                                   .batch_tokens = 64});
    rn_watcher *watcher = new_watcher(engine);
    pthread_t reader;
    assert_int_equal(rn_engine_start(engine, NULL), RN_OK);
    assert_int_equal(pthread_create(&reader, NULL, collect, engine), 0);
    int n_busy = 0;
    for (int i = 0; i < N_LOAD; i++) {
        rn_request request = request_for(i % 5, 20 + 10 * (i % 9), 5 + i % 40);
        uint64_t id;
        request.n = 1 + i % 3;
        request.sampling = rn_sampling_neutral();
        request.priority = i % 3;
        assert_int_equal(rn_engine_submit(engine, &request, &id, NULL), RN_OK);
        if (i % 4 == 0) rn_engine_pause(engine, id, true);
        n_busy += view_of_thread(watcher)->n_streams > 0;
        if (i % 4 == 0) rn_engine_pause(engine, id, false);
        if (i % 7 == 0) rn_engine_cancel(engine, id);
    }
    while (view_of_thread(watcher)->n_streams > 0) n_busy++;
    assert_true(n_busy > N_LOAD / 2);
    pthread_join(reader, NULL);
    rn_engine_stop(engine, true);
    end(engine, watcher);
}

TEST_PROGRAM(watcher) { return cases_run(open_model, close_model); }
