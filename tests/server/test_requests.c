// /requests and /requests/ID/trace of a real server: requests are listed, kept and forgotten, found
// by both of their names, and explained while they are still running.
// label: threads
#include "json_at.h"
#include "record/record.h"
#include "serve.h"

enum { KEPT = 4 };

static int setup(void **state) {
    struct server_config config = serve_config();
    config.keep_requests = KEPT;
    config.stream_bytes_max = 512; // a stream that is not read is paused soon
    return serve_setup_with(state, &config);
}

static const json_t *got(const struct serve *serve, const char *path) {
    struct reply reply = serve_get(serve, path);
    check(reply.status == 200, "%s: %.300s", path, reply.data);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return json;
}

// The id of the answer to one completion.
static const char *complete(const struct serve *serve, const char *more) {
    char body[256];
    snprintf(body, sizeof body,
             "{\"prompt\":\"Once upon a time\",\"max_tokens\":8,\"ignore_eos\":true%s}", more);
    struct reply reply = serve_post(serve, "/v1/completions", body);
    check(reply.status == 200, "%.300s", reply.data);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return string_at(json, "id");
}

enum { PATH_BYTES = 128 };
static void path_of(char out[PATH_BYTES], const char *id) {
    snprintf(out, PATH_BYTES, "/requests/%s/trace", id);
}

// The engine's number of an answer.
static int number_of(const struct serve *serve, const char *id) {
    const json_t *list = at_path(got(serve, "/requests"), "requests");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        if (!strcmp(string_at(row, "id"), id)) return (int)number_at(row, "request");
    }
    return 0;
}

CASE(a_finished_request_is_found_by_both_names) {
    const struct serve *serve = *state;
    const char *id = complete(serve, "");
    char path[PATH_BYTES], number[16];
    path_of(path, id);
    const json_t *by_id = got(serve, path);
    snprintf(number, sizeof number, "%d", number_of(serve, id));
    path_of(path, number);
    const json_t *by_number = got(serve, path);
    assert_true(json_equal(by_id, by_number));
    assert_string_equal(string_at(by_id, "schema"), RECORD_SCHEMA);
    assert_string_equal(string_at(by_id, "id"), id);
    assert_string_equal(string_at(by_id, "model"), "tiny");
    expect_rows(by_id, {"n", "1"}, {"choices.0.finish", "'length'"},
                {"choices.0.timings.output_tokens", "8"}, {"choices.0.state", "'finished'"});
    assert_true(size_at(by_id, "choices.0.text") >= 2);
    struct record record;
    rn_error err = {0};
    struct reply reply = serve_get(serve, path);
    check(!record_read("served", reply.body, strlen(reply.body), &record, &err), "%s", err.message);
    record_free(&record);
    reply_free(&reply);
}

CASE(the_list_has_the_newest_first_and_forgets_the_oldest) {
    const struct serve *serve = *state;
    const char *id[KEPT + 2];
    for (int i = 0; i < KEPT + 2; i++) id[i] = complete(serve, "");
    const json_t *list = got(serve, "/requests");
    assert_int_equal(size_at(list, "requests"), KEPT);
    for (int i = 0; i < KEPT; i++) {
        char path[32];
        snprintf(path, sizeof path, "requests.%d.id", i);
        assert_string_equal(string_at(list, path), id[KEPT + 1 - i]);
    }
    expect_rows(list, {"requests.0.state", "'finished'"}, {"requests.0.output_tokens", "8"},
                {"requests.0.choices", "1"});
    assert_true(number_at(list, "requests.0.ttft_ms") > 0);
    assert_non_null(string_at(list, "requests.0.cause"));
    char path[PATH_BYTES];
    path_of(path, id[1]);
    reply_expect(serve_get(serve, path), 404, "\"code\":\"request_not_found\"");
}

// Each choice takes a place.
CASE(choices_are_kept_together) {
    const struct serve *serve = *state;
    const char *id = complete(serve, ",\"n\":3,\"temperature\":1");
    char path[PATH_BYTES];
    path_of(path, id);
    const json_t *trace = got(serve, path);
    expect_rows(trace, {"n", "3"});
    assert_int_equal(size_at(trace, "choices"), 3);
    complete(serve, ",\"n\":2");
    assert_int_equal(size_at(got(serve, "/requests"), "requests"), 1);
    const char *many = complete(serve, ",\"n\":6");
    path_of(path, many);
    trace = got(serve, path);
    expect_rows(trace, {"n", "6"});
    assert_int_equal(size_at(trace, "choices"), KEPT);
    const json_t *text = at_path(trace, "choices.3.text");
    const char *last = json_string_value(json_array_get(text, json_array_size(text) - 1));
    check(last && !strncmp(last, "2 of its 6 choices have no record", 33), "%s", last);
}

// An embedding has no token, and one token has no time between tokens.
CASE(times_that_a_request_does_not_have_are_null) {
    const struct serve *serve = *state;
    reply_expect(serve_post(serve, "/v1/embeddings", "{\"input\":\"Once\"}"), 200, "embedding");
    expect_rows(got(serve, "/requests"), {"requests.0.output_tokens", "0"},
                {"requests.0.ttft_ms", "null"}, {"requests.0.tpot_ms", "null"});
    complete(serve, ",\"max_completion_tokens\":1");
    const json_t *list = got(serve, "/requests");
    assert_true(number_at(list, "requests.0.ttft_ms") > 0);
}

CASE(unknown_names_and_formats_are_refused) {
    const struct serve *serve = *state;
    reply_expect(serve_get(serve, "/requests/999/trace"), 404, "No request '999'");
    reply_expect(serve_get(serve, "/requests/chatcmpl-nobody/trace"), 404, "not_found_error");
    reply_expect(serve_get(serve, "/requests/0/trace"), 404, "No request '0'");
    reply_expect(serve_get(serve, "/requests/1"), 404, "/requests/ID/trace");
    reply_expect(serve_get(serve, "/requests/1/trace/2"), 404, "/requests/ID/trace");
    reply_expect(serve_get(serve, "/requests//trace"), 404, "/requests/ID/trace");
    char path[160];
    snprintf(path, sizeof path, "/requests/%s/trace?format=xml", complete(serve, ""));
    reply_expect(serve_get(serve, path), 400, "'xml' is not one of json, perfetto");
}

// Its reader takes nothing, so the stream is paused in the middle.
CASE(a_running_request_answers) {
    const struct serve *serve = *state;
    const int fd = serve_ask(serve, "HTTP/1.1", "/v1/completions",
                             "{\"prompt\":\"a\",\"max_tokens\":500,\"ignore_eos\":true,"
                             "\"logprobs\":5,\"stream\":true}",
                             true);
    const json_t *row = NULL;
    for (int tries = 0; tries < 3000; tries++) {
        row = at_path(got(serve, "/requests"), "requests.0");
        if (row && !strcmp(string_at(row, "state"), "decode") &&
            number_at(row, "output_tokens") > 2)
            break;
        json_kept_free();
        usleep(2000);
    }
    char path[PATH_BYTES];
    const int number = (int)number_at(row, "request");
    path_of(path, string_at(row, "id"));
    const json_t *trace = got(serve, path);
    assert_int_equal(number_at(trace, "request"), number);
    expect_rows(trace, {"choices.0.state", "'running'"}, {"choices.0.finish", "null"});
    assert_true(number_at(trace, "choices.0.timings.output_tokens") > 2);
    assert_true(number_at(trace, "choices.0.account.first.ns") > 0);
    strncat(path, "?format=perfetto", sizeof path - strlen(path) - 1);
    assert_true(size_at(got(serve, path), "traceEvents") > 4);
    close(fd);
    for (int tries = 0; tries < 3000; tries++) { // a client that hung up leaves its record
        path_of(path, string_at(trace, "id"));
        const json_t *kept = got(serve, path);
        if (!strcmp(string_at(kept, "choices.0.state"), "finished")) {
            expect_rows(kept, {"choices.0.finish", "'cancelled'"});
            break;
        }
        check(tries < 2999, "it is still running");
        usleep(2000);
    }
}

CASE(nothing_is_kept_where_nothing_is_wanted) {
    struct server_config config = serve_config();
    struct serve serve;
    config.keep_requests = 0;
    serve_start(&serve, &config);
    char path[PATH_BYTES];
    path_of(path, complete(&serve, ""));
    assert_int_equal(size_at(got(&serve, "/requests"), "requests"), 0);
    reply_expect(serve_get(&serve, path), 404, "request_not_found");
    serve_stop(&serve);
}

static int teardown(void **state) {
    json_kept_free();
    return serve_teardown(state);
}

TEST_PROGRAM(requests) { return cases_run(setup, teardown); }
