// The live view and the counters of a real server, over a loopback socket.
// label: threads
#include "json_at.h"
#include "serve.h"

enum { ANSWER_MAX = 1 << 20, CHOICES = 5, TOKENS = 40 };

// ---------------------------------------------------------------- a client

struct client {
    int fd;
    char *data; // received bytes that were not taken yet, NUL-terminated
    size_t len;
};

// HTTP/1.0: the answer is not cut into chunks and ends with the connection.
static struct client client_get(const struct serve *serve, const char *path) {
    struct client client = {.fd = serve_connect(serve), .data = calloc(1, ANSWER_MAX)};
    char head[128];
    const int len = snprintf(head, sizeof head, "GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", path);
    assert_true(client.data && serve_send(client.fd, head, (size_t)len));
    return client;
}

static void client_close(struct client *client) {
    close(client->fd);
    free(client->data);
}

static void client_more(struct client *client) {
    struct pollfd wait = {.fd = client->fd, .events = POLLIN};
    const ssize_t n =
        poll(&wait, 1, SERVE_PATIENCE_MS) > 0
            ? recv(client->fd, client->data + client->len, ANSWER_MAX - 1 - client->len, 0)
            : 0;
    check(n > 0, "nothing came after %s", client->data);
    client->len += (size_t)n;
    client->data[client->len] = 0;
}

static void client_take(struct client *client, size_t n) {
    client->len -= n;
    memmove(client->data, client->data + n, client->len + 1);
}

// Takes the head; its status. type: what Content-Type must begin with.
static int client_head(struct client *client, const char *type) {
    const char *end;
    while (!(end = strstr(client->data, "\r\n\r\n"))) client_more(client);
    const char *given = strstr(client->data, "\r\nContent-Type: ");
    check(given && given < end && !strncmp(given + 16, type, strlen(type)), "%s", client->data);
    const int status = atoi(client->data + 9);
    client_take(client, (size_t)(end + 4 - client->data));
    return status;
}

static const json_t *client_picture(struct client *client) {
    const char *end;
    while (!(end = strstr(client->data, "\n\n"))) client_more(client);
    check(!strncmp(client->data, "data: ", 6), "%s", client->data);
    const json_t *json = json_of(client->data + 6, (size_t)(end - client->data - 6));
    client_take(client, (size_t)(end + 2 - client->data));
    return json;
}

static const json_t *parsed(struct reply reply) {
    check(reply.status == 200, "%.300s", reply.data);
    check(strstr(reply.data, "\r\nContent-Type: application/json"), "%.300s", reply.data);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return json;
}

// ---------------------------------------------------------------- tests

static const json_t *complete(const struct serve *serve) {
    char body[256];
    snprintf(body, sizeof body,
             "{\"prompt\":\"Once upon a time\",\"n\":%d,\"max_tokens\":%d,\"ignore_eos\":true}",
             CHOICES, TOKENS);
    return parsed(serve_post(serve, "/v1/completions", body));
}

// The record of a stream over several pictures.
struct sight {
    int64_t number;
    int tokens;
    bool done;
};

// Adds the picture's streams, which must all be the call's.
static int look(const json_t *picture, struct sight *sight, const char **id) {
    size_t at;
    const json_t *stream;
    int done = 0;
    json_array_foreach(at_path(picture, "streams"), at, stream) {
        const int64_t choice = (int64_t)number_at(stream, "choice");
        check(choice >= 0 && choice < CHOICES, "choice %lld", (long long)choice);
        struct sight *one = &sight[choice];
        check(!one->number || one->number == (int64_t)number_at(stream, "n"), "another number");
        check(!one->done, "choice %lld after its end", (long long)choice);
        one->number = (int64_t)number_at(stream, "n");
        one->tokens += (int)size_at(stream, "tokens");
        one->done = !strcmp(string_at(stream, "state"), "done");
        done += one->done;
        *id = string_at(stream, "id");
        if (one->done) assert_int_equal((int64_t)number_at(stream, "output"), TOKENS);
    }
    return done;
}

static int stop(void **state) {
    json_kept_free();
    return serve_teardown(state);
}

CASE_WITH(test_a_watcher_sees_every_token_of_every_stream_once, serve_setup, stop) {
    struct client watcher = client_get(*state, "/engine/live");
    assert_int_equal(client_head(&watcher, "text/event-stream"), 200);
    client_picture(&watcher); // it is being watched from here on
    const json_t *answer = complete(*state);
    struct sight sight[CHOICES] = {0};
    for (int done = 0; done < CHOICES;) {
        const char *id = NULL;
        done += look(client_picture(&watcher), sight, &id);
        if (id) assert_string_equal(id, string_at(answer, "id"));
    }
    for (int i = 0; i < CHOICES; i++) {
        check(sight[i].tokens == TOKENS, "choice %d: %d tokens", i, sight[i].tokens);
        for (int k = 0; k < i; k++) assert_true(sight[k].number != sight[i].number);
    }
    const json_t *last = client_picture(&watcher);
    assert_int_equal(size_at(last, "streams"), 0);
    assert_int_equal(number_at(last, "output_tokens"), CHOICES * TOKENS);
    client_close(&watcher);
}

CASE_WITH(test_one_picture_is_an_answer_of_its_own, serve_setup, stop) {
    complete(*state);
    struct client client = client_get(*state, "/engine");
    const json_t *json = parsed(serve_finish(client.fd)), *run;
    free(client.data);
    expect_rows(json, {"model", "'tiny'"}, {"max_seqs", "4"}, {"page_scale", "1"});
    assert_int_equal(number_at(json, "output_tokens"), CHOICES * TOKENS);
    int64_t cells = 0, cached = 0;
    size_t at;
    json_array_foreach(at_path(json, "pages"), at, run) {
        const int64_t count = (int64_t)number_at(run, "3");
        cells += count;
        if (number_at(run, "0") == RN_PAGE_CACHED) cached += count;
    }
    assert_int_equal(cells, number_at(json, "kv.total"));
    assert_int_equal(cached, number_at(json, "kv.cached"));
    assert_true(cached > 0);
}

CASE_WITH(test_the_seventeenth_watcher_is_refused_until_one_leaves, serve_setup, stop) {
    enum { MOST = 16 };
    struct client watcher[MOST];
    for (int i = 0; i < MOST; i++) {
        watcher[i] = client_get(*state, "/engine/live");
        assert_int_equal(client_head(&watcher[i], "text/event-stream"), 200);
    }
    struct client late = client_get(*state, "/engine/live");
    assert_int_equal(client_head(&late, "application/json"), 429);
    client_close(&late);
    client_close(&watcher[3]);
    for (int status = 429; status != 200;) { // until the hang-up is seen
        late = client_get(*state, "/engine");
        status = client_head(&late, "application/json");
        client_close(&late);
    }
    serve_stop(*state); // while they watch
    for (int i = 0; i < MOST; i++)
        if (i != 3) client_close(&watcher[i]);
    const struct server_config config = serve_config();
    serve_start(*state, &config); // for the teardown
}

CASE_WITH(test_metrics_count_what_was_answered, serve_setup, stop) {
    complete(*state);
    struct reply reply = serve_get(*state, "/metrics");
    assert_non_null(strstr(reply.data, "\r\nContent-Type: text/plain; version=0.0.4"));
#define TINY "{model_name=\"tiny\",engine=\"0\""
    static const char *const want[] = {
        "\nvllm:time_to_first_token_seconds_count" TINY "} 5\n",
        "\nvllm:time_to_first_token_seconds_bucket" TINY ",le=\"160.0\"} 5\n",
        "\nvllm:inter_token_latency_seconds_count" TINY "} 195\n",
        "\nvllm:e2e_request_latency_seconds_count" TINY "} 5\n",
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        check(strstr(reply.body, want[i]), "no %s", want[i]);
    reply_free(&reply);
}

TEST_PROGRAM(live_http) { return cases_run(NULL, NULL); }
