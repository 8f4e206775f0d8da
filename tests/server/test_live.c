// The live view: its record of streams, and its JSON, from engine states made by hand.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "json_at.h"
#include "live_picture.h"
#include "metrics.h"

enum { MS = 1000000 };

static rn_event token_at(uint64_t request, int choice, uint64_t ms, rn_cause gap) {
    return (rn_event){
        .request = request, .choice = choice, .token = 7, .time_ns = ms * MS, .cause = gap};
}

static void feed(struct live_streams *streams, rn_event event) {
    live_streams_token(streams, "cmpl-x", (struct owner){0}, event.choice, &event);
}

static void show(struct live_streams *streams, uint64_t ms, const rn_stream_view *view, size_t n) {
    live_streams_view(streams, &(rn_view){.time_ns = ms * MS, .stream = view, .n_streams = n});
}

// ---------------------------------------------------------------- JSON

struct fixture {
    struct server server;
    struct served served;
    struct live_streams streams;
    struct live_moments moments;
    struct jbuf pages;
    rn_engine_stats stats;
    rn_step step[2];
    size_t n_steps;
};

static void fixture_init(struct fixture *f) {
    memset(f, 0, sizeof *f);
    f->served.server = &f->server;
    f->served.name = "tale \"1\"";
    f->served.engine_info = (rn_engine_info){
        .kv_type = "f16", .n_ctx = 512, .max_seqs = 4, .max_waiting = 13, .kv_bytes = 1 << 20};
    f->served.metrics = model_metrics_create();
    atomic_store(&f->server.phase, PHASE_READY);
    assert_non_null(f->served.metrics);
}

static void fixture_deinit(struct fixture *f) {
    model_metrics_destroy(f->served.metrics);
    live_streams_clear(&f->streams);
    jbuf_deinit(&f->pages);
    json_kept_free();
}

static const json_t *picture(const struct fixture *f, uint64_t ms) {
    struct jbuf out = {0};
    live_picture_write(&out, &(struct live_picture){.served = &f->served,
                                                    .start_ns = 1000 * (uint64_t)MS,
                                                    .streams = &f->streams,
                                                    .moments = &f->moments,
                                                    .stats = &f->stats,
                                                    .step = f->step,
                                                    .n_steps = f->n_steps,
                                                    .pages = &f->pages,
                                                    .time_ns = ms * MS});
    assert_false(out.failed);
    check(!memchr(out.data, '\n', out.len), "an event's data is one line");
    const json_t *json = json_of(out.data, out.len);
    jbuf_deinit(&out);
    return json;
}

// ---------------------------------------------------------------- streams

CASE(test_a_stream_keeps_its_number_and_shows_each_token_once) {
    struct fixture f;
    fixture_init(&f);
    const rn_stream_view view[] = {{.request = 5,
                                    .state = RN_STREAM_DECODE,
                                    .prompt_tokens = 40,
                                    .cached_tokens = 32,
                                    .done_tokens = 42,
                                    .output_tokens = 3,
                                    .draft_tokens = 6,
                                    .accepted_tokens = 1,
                                    .pages = 2}};
    feed(&f.streams, token_at(5, 0, 1100, RN_CAUSE_NONE));
    feed(&f.streams, token_at(5, 0, 1125, RN_CAUSE_PROMPTS));
    show(&f.streams, 1130, view, 1);
    const json_t *json = picture(&f, 1130);
    expect_rows(json, {"streams.0.n", "1"}, {"streams.0.id", "'cmpl-x'"},
                {"streams.0.state", "'decode'"}, {"streams.0.prompt", "40"},
                {"streams.0.cached", "32"}, {"streams.0.done", "42"}, {"streams.0.output", "3"},
                {"streams.0.drafted", "6"}, {"streams.0.accepted", "1"}, {"streams.0.pages", "2"},
                {"streams.0.tokens.0.1", "'first'"}, {"streams.0.tokens.1.1", "'prompts'"});
    check_near(number_at(json, "streams.0.tokens.0.0"), 100, 1e-6);
    assert_int_equal(size_at(json, "streams.0.tokens"), 2);

    live_streams_shown(&f.streams);
    feed(&f.streams, token_at(5, 0, 1140, RN_CAUSE_WEIGHTS));
    show(&f.streams, 1150, view, 1);
    json = picture(&f, 1150);
    expect_json(json, "streams.0.n", "1");
    assert_int_equal(size_at(json, "streams.0.tokens"), 1);
    fixture_deinit(&f);
}

CASE(test_a_stream_that_ended_is_shown_once_more) {
    struct fixture f;
    fixture_init(&f);
    const rn_timings timings = {.prompt_tokens = 40,
                                .cached_tokens = 32,
                                .output_tokens = 9,
                                .draft_tokens = 8,
                                .accepted_tokens = 5};
    rn_event event = token_at(5, 0, 1100, RN_CAUSE_NONE);
    event.finish = RN_FINISH_STOP;
    event.timings = &timings;
    feed(&f.streams, event);
    // the picture was taken before its end
    show(&f.streams, 1050, (rn_stream_view[]){{.request = 5, .state = RN_STREAM_DECODE}}, 1);
    const json_t *json = picture(&f, 1110);
    expect_rows(json, {"streams.0.state", "'done'"}, {"streams.0.output", "9"},
                {"streams.0.drafted", "8"}, {"streams.0.accepted", "5"});
    assert_int_equal(size_at(json, "streams.0.tokens"), 1);
    live_streams_shown(&f.streams);
    show(&f.streams, 1200, NULL, 0);
    expect_json(picture(&f, 1200), "streams", "[]");
    fixture_deinit(&f);
}

CASE(test_a_stream_that_two_pictures_lack_has_ended) {
    struct fixture f;
    fixture_init(&f);
    show(&f.streams, 1000, (rn_stream_view[]){{.request = 5}}, 1);
    show(&f.streams, 1100, NULL, 0);
    assert_int_equal(f.streams.n, 1);
    assert_false(f.streams.stream[0].ended);
    show(&f.streams, 1200, (rn_stream_view[]){{.request = 5}}, 1); // it was there after all
    show(&f.streams, 1300, NULL, 0);
    assert_false(f.streams.stream[0].ended);
    show(&f.streams, 1400, NULL, 0);
    assert_true(f.streams.stream[0].ended);
    live_streams_shown(&f.streams);
    assert_int_equal(f.streams.n, 0);
    fixture_deinit(&f);
}

CASE(test_a_stream_that_is_newer_than_the_picture_waits_for_the_next) {
    struct fixture f;
    fixture_init(&f);
    feed(&f.streams, token_at(5, 0, 1100, RN_CAUSE_NONE));
    for (int i = 0; i < 3; i++) {
        show(&f.streams, 1050, NULL, 0);
        expect_json(picture(&f, 1110), "streams", "[]");
        live_streams_shown(&f.streams);
    }
    show(&f.streams, 1150, (rn_stream_view[]){{.request = 5, .state = RN_STREAM_DECODE}}, 1);
    assert_int_equal(size_at(picture(&f, 1150), "streams.0.tokens"), 1); // none was lost
    fixture_deinit(&f);
}

CASE(test_choices_are_apart_and_numbers_are_never_given_twice) {
    struct fixture f;
    fixture_init(&f);
    feed(&f.streams, token_at(9, 1, 1, RN_CAUSE_NONE));
    feed(&f.streams, token_at(7, 0, 1, RN_CAUSE_NONE));
    feed(&f.streams, token_at(9, 0, 1, RN_CAUSE_NONE));
    assert_int_equal(f.streams.n, 3);
    assert_int_equal(live_streams_number(&f.streams, 7), 2);
    assert_int_equal(live_streams_number(&f.streams, 9), 3); // of its first choice
    assert_int_equal(live_streams_number(&f.streams, 8), 0);
    assert_int_equal(f.streams.stream[2].choice, 1);
    assert_int_equal(f.streams.stream[2].number, 1);
    live_streams_clear(&f.streams);
    feed(&f.streams, token_at(7, 0, 1, RN_CAUSE_NONE));
    assert_int_equal(live_streams_number(&f.streams, 7), 4);
    fixture_deinit(&f);
}

CASE(test_what_a_picture_shows_is_bounded) {
    struct fixture f;
    fixture_init(&f);
    enum { N = 1000 };
    rn_stream_view *view = calloc(N, sizeof *view);
    assert_non_null(view);
    for (int i = 0; i < N; i++) {
        view[i].request = (uint64_t)i + 1;
        view[i].state = i == N - 1 ? RN_STREAM_PAUSED : RN_STREAM_WAITING;
    }
    for (int i = 0; i < N; i++) feed(&f.streams, token_at(N, 0, 1, RN_CAUSE_WEIGHTS));
    show(&f.streams, 1000, view, N);
    const json_t *json = picture(&f, 1000);
    assert_int_equal(size_at(json, "streams"), 256);
    // waiting ones are left out first
    expect_rows(json, {"streams.0.state", "'paused'"}, {"paused", "1"});
    assert_int_equal(size_at(json, "streams.0.tokens"), LIVE_TOKENS_MAX);
    free(view);
    fixture_deinit(&f);
}

// ---------------------------------------------------------------- pages

static const json_t *pages(const struct live_streams *streams, const rn_page_view *page, size_t n) {
    struct jbuf out = {0};
    jbuf_text(&out, "{");
    live_picture_pages(&out, streams, page, n);
    jbuf_text(&out, "}");
    const json_t *json = json_of(out.data, out.len);
    jbuf_deinit(&out);
    return json;
}

CASE(test_pages_are_runs_with_their_owners_numbers) {
    struct fixture f;
    fixture_init(&f);
    feed(&f.streams, token_at(70, 0, 1, RN_CAUSE_NONE));
    feed(&f.streams, token_at(90, 0, 1, RN_CAUSE_NONE));
    const rn_page_view page[] = {
        {.owner = 70, .holders = 1, .state = RN_PAGE_HELD},
        {.owner = 70, .holders = 1, .state = RN_PAGE_HELD},
        {.owner = 70, .holders = 2, .state = RN_PAGE_HELD},
        {.owner = 90, .holders = 2, .state = RN_PAGE_HELD},
        {.state = RN_PAGE_CACHED},
        {.state = RN_PAGE_FREE},
        {.state = RN_PAGE_FREE},
        {.owner = 55, .holders = 1, .state = RN_PAGE_HELD}, // of an unknown stream
    };
    // runs of state, owner, holders, count
    expect_rows(pages(&f.streams, page, sizeof page / sizeof *page),
                {"pages", "[[1,1,1,2],[1,1,2,1],[1,2,2,1],[2,0,0,1],[0,0,0,2],[1,0,1,1]]"},
                {"page_scale", "1"});
    fixture_deinit(&f);
}

CASE(test_many_pages_are_merged_into_the_fullest) {
    enum { N = 3 * 4096 - 1 };
    struct live_streams streams = {0};
    rn_page_view *page = calloc(N, sizeof *page);
    assert_non_null(page);
    page[1].state = RN_PAGE_CACHED;                                                // cell 0
    page[3] = (rn_page_view){.owner = 2, .holders = 3, .state = RN_PAGE_HELD};     // cell 1
    page[4].state = RN_PAGE_CACHED;                                                // the same
    page[5] = (rn_page_view){.owner = 1, .holders = 1, .state = RN_PAGE_HELD};     // the same
    page[N - 1] = (rn_page_view){.owner = 1, .holders = 1, .state = RN_PAGE_HELD}; // the last
    expect_rows(pages(&streams, page, N), {"pages", "[[2,0,0,1],[1,0,3,1],[0,0,0,4093],[1,0,1,1]]"},
                {"page_scale", "3"});
    json_kept_free();
    free(page);
}

CASE(test_states_are_a_picture_of_their_own) {
    struct live_streams streams = {0};
    const rn_page_view page[] = {
        {.state = RN_PAGE_HELD, .owner = 7, .holders = 1, .is_state = true},
        {.state = RN_PAGE_CACHED, .is_state = true},
        {.state = RN_PAGE_FREE, .is_state = true, .group = 0},
        {.state = RN_PAGE_CACHED, .group = 1},
        {.state = RN_PAGE_FREE, .group = 1},
        {.state = RN_PAGE_CACHED, .group = 2, .is_state = true},
    };
    expect_rows(pages(&streams, page, sizeof page / sizeof *page),
                {"pages", "[[2,0,0,1],[0,0,0,1]]"},
                {"states", "[[1,0,1,1],[2,0,0,1],[0,0,0,1],[2,0,0,1]]"}, {"page_scale", "1"},
                {"state_scale", "1"});
    expect_rows(pages(&streams, page + 3, 2), {"pages", "[[2,0,0,1],[0,0,0,1]]"}, {"states", "[]"});
    json_kept_free();
}

// ---------------------------------------------------------------- the whole

CASE(test_a_picture_has_the_servers_and_the_engines_numbers) {
    struct fixture f;
    fixture_init(&f);
    f.stats = (rn_engine_stats){.steps = 10,
                                .running = 2,
                                .waiting = 3,
                                .output_tokens = 50,
                                .prompt_tokens = 60,
                                .cached_tokens = 32,
                                .preemptions = 1,
                                .draft = {{.tokens = 9, .accepted = 8}, {.tokens = 3}},
                                .pages_total = 64,
                                .pages_held = 5,
                                .pages_shared = 1,
                                .pages_cached = 2,
                                .kv_held_bytes = 4096,
                                .states_total = 6,
                                .states_held = 2,
                                .states_cached = 1,
                                .state_held_bytes = 2048,
                                .state_cached_bytes = 1024};
    const struct generation_choice choice = {.start_ns = 0};
    const rn_event first = {.token = 1, .time_ns = 2 * MS};
    metrics_token(&f.served, &choice, &first);
    const json_t *json = picture(&f, 1234);
    expect_rows(json, {"time_ms", "234"}, {"n_ctx", "512"}, {"max_seqs", "4"}, {"max_waiting", "9"},
                {"steps", "10"}, {"running", "2"}, {"waiting", "3"}, {"paused", "0"},
                {"output_tokens", "50"}, {"prompt_tokens", "60"}, {"cached_tokens", "32"},
                {"preemptions", "1"}, {"draft_tokens", "12"}, {"accepted_tokens", "8"},
                {"kv.page_tokens", "32"}, {"kv.total", "64"}, {"kv.held", "5"}, {"kv.shared", "1"},
                {"kv.cached", "2"}, {"kv.bytes_held", "4096"}, {"kv.bytes_total", "1048576"},
                {"kv.states.total", "6"}, {"kv.states.held", "2"}, {"kv.states.cached", "1"},
                {"kv.states.bytes_held", "2048"}, {"kv.states.bytes_cached", "1024"},
                {"kv.states.bytes_sequence", "0"}, {"tokens_per_s", "0"},
                {"bandwidth.measured", "0"}, {"bandwidth.share", "0"}, {"page_scale", "1"},
                {"ttft.le.0", "0.001"}, {"ttft.count.0", "0"}, {"ttft.count.1", "1"},
                {"ttft.count.22", "1"}, {"model", "'tale \\\"1\\\"'"}, {"phase", "'ready'"},
                {"kv_type", "'f16'"});
    assert_int_equal(size_at(json, "ttft.count"), size_at(json, "ttft.le") + 1);
    assert_int_equal(size_at(json, "itl.count"), size_at(json, "itl.le") + 1);
    fixture_deinit(&f);
}

CASE(test_rates_are_over_the_last_second) {
    struct fixture f;
    fixture_init(&f);
    f.served.bandwidth = 1e9;
    f.stats.output_tokens = 1000000; // long ago
    for (int i = 0; i <= 40; i++) {
        live_moments_add(&f.moments, (uint64_t)(1000 + i * 250) * MS, &f.stats);
        // in each quarter: 5 steps of 25 ms, 10 tokens, 20 tokens of prompts
        f.stats.steps += 5;
        f.stats.output_tokens += 10;
        f.stats.computed_tokens += 33; // 3 of them drafted in vain
        f.stats.draft[RN_DRAFTER_MODEL].tokens += 4;
        f.stats.draft[RN_DRAFTER_MODEL].accepted += 2;
        f.stats.draft[RN_DRAFTER_LOOKUP].tokens += 1;
        f.stats.run_ns += 100 * MS;
        f.stats.schedule_ns += 4 * MS;
        f.stats.draft_ns += 6 * MS;
        f.stats.sample_ns += 15 * MS;
        f.stats.weight_bytes += 40000000;
        f.stats.kv_bytes += 10000000;
        f.stats.cause_ns[RN_CAUSE_WEIGHTS] += 150 * MS;
        f.stats.cause_ns[RN_CAUSE_PROMPTS] += 50 * MS;
    }
    const json_t *json = picture(&f, 11000);
    check_near(number_at(json, "causes_ms.weights"), 600, 0.001);
    check_near(number_at(json, "causes_ms.prompts"), 200, 0.001);
    assert_int_equal(size_at(json, "causes_ms"), 2);
    check_near(number_at(json, "tokens_per_s"), 40, 0.01);
    check_near(number_at(json, "prompt_tokens_per_s"), 80, 0.01);
    check_near(number_at(json, "step_ms"), 25, 0.001);
    check_near(number_at(json, "busy"), 0.5, 0.001);
    check_near(number_at(json, "bandwidth.now"), 5e8, 1);
    check_near(number_at(json, "bandwidth.share"), 0.5, 1e-4);
    f.served.bandwidth = 1e8; // a share is never over 1
    expect_json(picture(&f, 11000), "bandwidth.share", "1");

    // A second without work is a rate of nothing.
    live_moments_add(&f.moments, (uint64_t)12500 * MS, &f.stats);
    live_moments_add(&f.moments, (uint64_t)13500 * MS, &f.stats);
    expect_rows(picture(&f, 13500), {"tokens_per_s", "0"}, {"busy", "0"});
    fixture_deinit(&f);
}

// Operations, bytes and time of each step that has all three.
CASE(test_steps_are_dots_of_a_roofline) {
    struct fixture f;
    fixture_init(&f);
    f.served.peak = 2e12;
    f.step[0] = (rn_step){.run_ns = 7 * MS, .stream_tokens = 2, .draft_tokens = 3};
    f.step[0].ops_flops[RN_OPS_WEIGHTS] = 1000;
    f.step[0].ops_flops[RN_OPS_ATTENTION] = 11;
    f.step[0].ops_bytes[RN_OPS_WEIGHTS] = 500;
    f.step[1] = f.step[0];
    f.step[1].run_ns = 0; // the backend does not say
    f.n_steps = 2;
    const json_t *json = picture(&f, 2000);
    expect_rows(json, {"peak", "2000000000000"}, {"last_steps", "[[1011,500,7000000,0,5]]"});
    fixture_deinit(&f);
}

TEST_PROGRAM(live) { return cases_run(NULL, NULL); }
