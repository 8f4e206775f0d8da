// A server whose device fails. A failed step ends its requests with an error, and the server
// continues. A lost device ends every answer with an error, health reports it, and the server exits
// for its supervisor to restart it. Engines here run on the fake backend.
// label: threads device waits
#include "fake/fake_backend.h"
#include "serve_watch.h"

enum { SOON_MS = 10000 };

static char *body_of(int max_tokens, bool stream) {
    static char body[256];
    snprintf(body, sizeof body,
             "{\"prompt\":\"go on\",\"max_tokens\":%d,\"ignore_eos\":true,\"stream\":%s}",
             max_tokens, stream ? "true" : "false");
    return body;
}

// Begins a request and leaves the answer to be read.
static int begin(const struct serve *serve, int max_tokens, bool stream) {
    return serve_ask(serve, "HTTP/1.1", "/v1/completions", body_of(max_tokens, stream), false);
}

static struct reply complete(const struct serve *serve, bool stream) {
    return serve_post(serve, "/v1/completions", body_of(12, stream));
}

static void await_submits(long n) {
    for (int waited_ms = 0; fake_control.n_submit < n; waited_ms += 5) {
        assert_true(waited_ms < SERVE_PATIENCE_MS);
        serve_sleep_ms(5);
    }
}

CASE(a_failed_step_is_told_and_the_next_request_works) {
    const struct server_config config = serve_config();
    struct serve serve;
    fake_reset();
    serve_start(&serve, &config);
    for (int by_submit = 0; by_submit < 2; by_submit++) {
        fake_fail_at(by_submit ? FAKE_SUBMIT : FAKE_STEP, 4);
        reply_expect(complete(&serve, false), 500, "step_failed");
        fake_fail_at(by_submit ? FAKE_SUBMIT : FAKE_STEP, 4);
        struct reply stream = complete(&serve, true);
        assert_null(strstr(stream.data, "[DONE]"));
        reply_expect(stream, 200, "The device failed in a step");
        reply_expect(complete(&serve, false), 200, "\"finish_reason\":\"length\"");
        serve_is_well(&serve, "a failed step");
    }
    serve_stop(&serve);
}

// Three streams, one of which is not read, and two whole answers, one of which waits for a place.
CASE(a_lost_device_is_told_to_all_and_ends_the_server) {
    for (int way = 0; way < 2; way++) {
        const struct server_config config = serve_config();
        struct serve serve;
        fake_reset();
        serve_start(&serve, &config);
        fake_control.delay_us = 20000;
        const int stream[] = {begin(&serve, 400, true), begin(&serve, 400, true),
                              begin(&serve, 400, true)};
        const int whole[] = {begin(&serve, 400, false), begin(&serve, 400, false)};
        await_submits(5);
        fake_fail_at(way ? FAKE_LOST_SUBMIT : FAKE_LOST, 5);
        for (int i = 0; i < 2; i++) {
            struct reply reply = serve_finish(stream[i]);
            assert_null(strstr(reply.data, "[DONE]"));
            reply_expect(reply, 200, "The device was lost");
            reply_expect(serve_finish(whole[i]), 503, "device_lost");
        }
        reply_expect(serve_finish(stream[2]), 200, "The device was lost");
        assert_int_equal(abs(server_wait(serve.server)), SERVER_LOST);
        rn_error err = {0};
        assert_int_equal(rn_engine_health(serve.engine, &err), RN_ERR_DEVICE);
        assert_non_null(strstr(err.message, "was to fail"));
        serve_stop(&serve);
    }
}

// The same where a file is written to that steps read. What is said names the file.
CASE(a_changed_file_is_told_to_all_and_ends_the_server) {
    const struct server_config config = serve_config();
    struct serve serve;
    rn_error err = {0};
    fake_reset();
    serve_start(&serve, &config);
    fake_control.delay_us = 20000;
    const int stream = begin(&serve, 400, true), whole = begin(&serve, 400, false);
    await_submits(5);
    fake_fail_at(FAKE_FILE_SUBMIT, 5);
    struct reply reply = serve_finish(stream);
    assert_null(strstr(reply.data, "[DONE]"));
    reply_expect(reply, 200, "m.gguf: was to change");
    reply_expect(serve_finish(whole), 503, "\"code\":\"model_changed\"");
    assert_int_equal(abs(server_wait(serve.server)), SERVER_LOST);
    assert_int_equal(rn_engine_health(serve.engine, &err), RN_ERR_IO);
    assert_string_equal(err.message, "m.gguf: was to change");
    serve_stop(&serve);
}

// The reader keeps the server for a while, and not for longer: meanwhile health and new requests
// are answered.
static void check_shown(enum fake_fault fault, const char *code) {
    struct server_config config = serve_config();
    struct serve serve;
    config.stream_bytes_max = 16 << 10;
    fake_reset();
    serve_start(&serve, &config);
    const int unread = serve_ask(&serve, "HTTP/1.1", "/v1/completions",
                                 "{\"prompt\":\"go on\",\"max_tokens\":200,\"ignore_eos\":true,"
                                 "\"logprobs\":20,\"stream\":true}",
                                 true);
    for (long before = -1; before != fake_control.n_submit; serve_sleep_ms(300))
        before = fake_control.n_submit; // until it is paused
    assert_true(fake_control.n_submit > 0);
    fake_fail_at(fault, 3);
    reply_expect(complete(&serve, false), 503, code);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    reply_expect(serve_get(&serve, "/health"), 503, code);
    reply_expect(serve_get(&serve, "/health/live"), 503, code);
    reply_expect(complete(&serve, false), 503, "");
    assert_int_equal(abs(server_wait(serve.server)), SERVER_LOST);
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_true((to.tv_sec - from.tv_sec) * 1000 < SOON_MS);
    close(unread);
    serve_stop(&serve);
}

CASE(an_engine_that_ended_shows_while_a_reader_reads_nothing) {
    check_shown(FAKE_LOST, "device_lost");
    check_shown(FAKE_FILE_SUBMIT, "model_changed");
}

TEST_PROGRAM(lost_device) { return cases_run(NULL, NULL); }
