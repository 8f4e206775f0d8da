// The live view and the counters of a real server, over a loopback socket.
// label: threads
#include <arpa/inet.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"
#include "server.h"
#include "tale.h"

enum { ANSWER_MAX = 1 << 20, CHOICES = 5, TOKENS = 40 };

struct served {
    rn_engine *engine;
    struct server *server;
};

static struct served served_start(void) {
    struct served served;
    rn_error err = {0};
    const struct server_config config = {.host = "127.0.0.1",
                                         .model_name = "tale",
                                         .body_bytes_max = 1 << 16,
                                         .pending_bytes_max = 1 << 20,
                                         .answer_bytes_max = 8 << 20,
                                         .connections_max = 64,
                                         .workers = 1,
                                         .header_s = 10,
                                         .body_s = 10,
                                         .idle_s = 10,
                                         .keepalive_s = 10,
                                         .stall_s = 10,
                                         .stuck_s = 60,
                                         .stream_bytes_max = 1 << 16,
                                         .sampling = rn_sampling_neutral(),
                                         .max_tokens = -1};
    const rn_engine_options options = {.max_seqs = 2, .n_threads = 1, .max_waiting = 64};
    check(!rn_engine_create(model, &options, &served.engine, &err), "%s", err.message);
    check(!server_create(&config, &served.server, &err), "%s", err.message);
    check(!server_ready(served.server, model, served.engine, NULL, NULL, 1e9, &err), "%s",
          err.message);
    return served;
}

static void served_stop(struct served *served) {
    server_destroy(served->server);
    rn_engine_destroy(served->engine);
}

// ---------------------------------------------------------------- a client

struct client {
    int fd;
    char *data; // received bytes that were not taken yet, NUL-terminated
    size_t len;
};

// HTTP/1.0: the answer is not cut into chunks and ends with the connection.
static struct client client_send(const struct served *served, const char *what, const char *body) {
    struct client client = {.fd = socket(AF_INET, SOCK_STREAM, 0), .data = calloc(1, ANSWER_MAX)};
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)server_port(served->server)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = 20};
    char head[512];
    assert_true(client.fd >= 0 && client.data);
    setsockopt(client.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(client.fd, (const struct sockaddr *)&address, sizeof address), 0);
    const int len = snprintf(head, sizeof head,
                             "%s HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n\r\n%s",
                             what, strlen(body), body);
    assert_int_equal(send(client.fd, head, (size_t)len, MSG_NOSIGNAL), len);
    return client;
}

static void client_close(struct client *client) {
    close(client->fd);
    free(client->data);
}

static bool client_more(struct client *client) {
    const ssize_t n = recv(client->fd, client->data + client->len, ANSWER_MAX - 1 - client->len, 0);
    check(n >= 0, "nothing came");
    client->len += (size_t)n;
    client->data[client->len] = 0;
    return n > 0;
}

static void client_take(struct client *client, size_t n) {
    client->len -= n;
    memmove(client->data, client->data + n, client->len + 1);
}

// Takes the head; its status. type: what Content-Type must begin with.
static int client_head(struct client *client, const char *type) {
    const char *end;
    while (!(end = strstr(client->data, "\r\n\r\n")))
        check(client_more(client), "no head: %s", client->data);
    const char *given = strstr(client->data, "\r\nContent-Type: ");
    check(given && given < end && !strncmp(given + 16, type, strlen(type)), "%s", client->data);
    const int status = atoi(client->data + 9);
    client_take(client, (size_t)(end + 4 - client->data));
    return status;
}

static json_t *parse(const char *text, size_t len) {
    json_error_t problem;
    json_t *json = json_loadb(text, len, 0, &problem);
    check(json, "%s: %.*s", problem.text, (int)len, text);
    return json;
}

// The whole answer's body.
static json_t *client_json(struct client *client) {
    while (client_more(client)) continue;
    return parse(client->data, client->len);
}

static json_t *client_picture(struct client *client) {
    const char *end;
    while (!(end = strstr(client->data, "\n\n")))
        check(client_more(client), "the stream ended: %s", client->data);
    check(!strncmp(client->data, "data: ", 6), "%s", client->data);
    json_t *json = parse(client->data + 6, (size_t)(end - client->data - 6));
    client_take(client, (size_t)(end + 2 - client->data));
    return json;
}

static json_t *get_json(const struct served *served, const char *what, const char *body) {
    struct client client = client_send(served, what, body);
    assert_int_equal(client_head(&client, "application/json"), 200);
    json_t *json = client_json(&client);
    client_close(&client);
    return json;
}

static int64_t integer(const json_t *json, const char *key) {
    const json_t *value = json_object_get(json, key);
    check(json_is_integer(value), "%s", key);
    return json_integer_value(value);
}

// ---------------------------------------------------------------- tests

static json_t *complete(const struct served *served) {
    char body[256];
    snprintf(body, sizeof body,
             "{\"prompt\":\"Once upon a time\",\"n\":%d,\"max_tokens\":%d,\"ignore_eos\":true}",
             CHOICES, TOKENS);
    return get_json(served, "POST /v1/completions", body);
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
    json_array_foreach(json_object_get(picture, "streams"), at, stream) {
        const int64_t choice = integer(stream, "choice");
        check(choice >= 0 && choice < CHOICES, "choice %lld", (long long)choice);
        struct sight *one = &sight[choice];
        check(!one->number || one->number == integer(stream, "n"), "another number");
        check(!one->done, "choice %lld after its end", (long long)choice);
        one->number = integer(stream, "n");
        one->tokens += (int)json_array_size(json_object_get(stream, "tokens"));
        one->done = !strcmp(json_string_value(json_object_get(stream, "state")), "done");
        done += one->done;
        *id = json_string_value(json_object_get(stream, "id"));
        if (one->done) assert_int_equal(integer(stream, "output"), TOKENS);
    }
    return done;
}

static void test_a_watcher_sees_every_token_of_every_stream_once(void **state) {
    (void)state;
    struct served served = served_start();
    struct client watcher = client_send(&served, "GET /engine/live", "");
    assert_int_equal(client_head(&watcher, "text/event-stream"), 200);
    json_decref(client_picture(&watcher)); // it is being watched from here on
    json_t *answer = complete(&served);
    struct sight sight[CHOICES] = {0};
    for (int done = 0; done < CHOICES;) {
        const char *id = NULL;
        json_t *picture = client_picture(&watcher);
        done += look(picture, sight, &id);
        if (id) assert_string_equal(id, json_string_value(json_object_get(answer, "id")));
        json_decref(picture);
    }
    for (int i = 0; i < CHOICES; i++) {
        check(sight[i].tokens == TOKENS, "choice %d: %d tokens", i, sight[i].tokens);
        for (int k = 0; k < i; k++) assert_true(sight[k].number != sight[i].number);
    }
    json_t *last = client_picture(&watcher);
    assert_int_equal(json_array_size(json_object_get(last, "streams")), 0);
    assert_int_equal(integer(last, "output_tokens"), CHOICES * TOKENS);
    json_decref(last);
    json_decref(answer);
    client_close(&watcher);
    served_stop(&served);
}

static void test_one_picture_is_an_answer_of_its_own(void **state) {
    (void)state;
    struct served served = served_start();
    json_decref(complete(&served));
    json_t *json = get_json(&served, "GET /engine", "");
    assert_string_equal(json_string_value(json_object_get(json, "model")), "tale");
    assert_int_equal(integer(json, "output_tokens"), CHOICES * TOKENS);
    assert_int_equal(integer(json, "max_seqs"), 2);
    const json_t *kv = json_object_get(json, "kv");
    int64_t cells = 0, cached = 0;
    size_t at;
    const json_t *run;
    json_array_foreach(json_object_get(json, "pages"), at, run) {
        const int64_t count = json_integer_value(json_array_get(run, 3));
        cells += count;
        if (json_integer_value(json_array_get(run, 0)) == RN_PAGE_CACHED) cached += count;
    }
    assert_int_equal(integer(json, "page_scale"), 1);
    assert_int_equal(cells, integer(kv, "total"));
    assert_int_equal(cached, integer(kv, "cached"));
    assert_true(cached > 0);
    json_decref(json);
    served_stop(&served);
}

static void test_the_seventeenth_watcher_is_refused_until_one_leaves(void **state) {
    (void)state;
    enum { MOST = 16 };
    struct served served = served_start();
    struct client watcher[MOST];
    for (int i = 0; i < MOST; i++) {
        watcher[i] = client_send(&served, "GET /engine/live", "");
        assert_int_equal(client_head(&watcher[i], "text/event-stream"), 200);
    }
    struct client late = client_send(&served, "GET /engine/live", "");
    assert_int_equal(client_head(&late, "application/json"), 429);
    client_close(&late);
    client_close(&watcher[3]);
    for (int status = 429; status != 200;) { // until the hang-up is seen
        late = client_send(&served, "GET /engine", "");
        status = client_head(&late, "application/json");
        client_close(&late);
    }
    served_stop(&served); // while they watch
    for (int i = 0; i < MOST; i++)
        if (i != 3) client_close(&watcher[i]);
}

static double sample(const char *text, const char *name) {
    const char *found = strstr(text, name);
    check(found, "no%s", name);
    return strtod(found + strlen(name), NULL);
}

static void test_metrics_count_what_was_answered(void **state) {
    (void)state;
    struct served served = served_start();
    json_decref(complete(&served));
    struct client client = client_send(&served, "GET /metrics", "");
    assert_int_equal(client_head(&client, "text/plain; version=0.0.4"), 200);
    while (client_more(&client)) continue;
#define TALE "{model_name=\"tale\",engine=\"0\"}"
    char want[256];
    snprintf(want, sizeof want, "\nvllm:time_to_first_token_seconds_count" TALE " %d\n", CHOICES);
    assert_non_null(strstr(client.data, want));
    // accepted drafts come with the token before them
    const int together =
        (int)sample(client.data, "\nvllm:spec_decode_num_accepted_tokens_total" TALE " ");
    const int gaps = (int)sample(client.data, "\nvllm:inter_token_latency_seconds_count" TALE " ");
    check(gaps + together == CHOICES * (TOKENS - 1), "%d gaps, %d without", gaps, together);
    snprintf(want, sizeof want, "\nvllm:e2e_request_latency_seconds_count" TALE " %d\n", CHOICES);
    assert_non_null(strstr(client.data, want));
    assert_non_null(strstr(client.data, "\nvllm:time_to_first_token_seconds_bucket{model_name="
                                        "\"tale\",engine=\"0\",le=\"160.0\"} 5\n"));
    client_close(&client);
    served_stop(&served);
}

TEST_PROGRAM(live_http) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_watcher_sees_every_token_of_every_stream_once),
        cmocka_unit_test(test_one_picture_is_an_answer_of_its_own),
        cmocka_unit_test(test_the_seventeenth_watcher_is_refused_until_one_leaves),
        cmocka_unit_test(test_metrics_count_what_was_answered),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
