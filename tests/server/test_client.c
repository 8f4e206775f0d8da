// The client's parsers: URLs, responses, event streams. Every response is read whole, byte by byte,
// and cut at every place, and the results have to be the same.
// label: memory
#include "check.h"

#include <stdio.h>

#include "client/client.h"
#include "client/response.h"
#include "client/sse.h"

// ---------------------------------------------------------------- URLs

static void url_is(const char *text, bool tls, const char *host, int port, const char *authority,
                   const char *path) {
    struct client_url url;
    rn_error err = {0};
    check(client_url_parse(text, &url, &err) == RN_OK, "%s: %s", text, err.message);
    assert_int_equal(url.tls, tls);
    assert_string_equal(url.host, host);
    assert_int_equal(url.port, port);
    assert_string_equal(url.authority, authority);
    assert_string_equal(url.path, path);
}

CASE(a_url_is_split) {
    url_is("http://localhost:8080", false, "localhost", 8080, "localhost:8080", "/");
    url_is("http://a.example/v1/", false, "a.example", 80, "a.example", "/v1/");
    url_is("https://a.example:443", true, "a.example", 443, "a.example", "/");
    url_is("https://10.0.0.1:8443/x?y=1", true, "10.0.0.1", 8443, "10.0.0.1:8443", "/x?y=1");
    url_is("http://[::1]:81/p", false, "::1", 81, "[::1]:81", "/p");
    url_is("https://[fe80::1]", true, "fe80::1", 443, "[fe80::1]", "/");
    url_is("http://h?q", false, "h", 80, "h", "/?q");
}

CASE(a_bad_url_is_refused_by_name) {
    static const char *const bad[] = {
        "",
        "localhost:8080",
        "ftp://h",
        "http://",
        "http://:80",
        "http://h:0",
        "http://h:65536",
        "http://h:",
        "http://h:8x",
        "http://h:123456",
        "http://[::1",
        "http://[]:1",
        "http://[g]:1",
        "http://h/a b",
        "http://h/\r\nX: y",
        "http://h/#f",
        "http://h/\x80",
        "http://[::1]x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct client_url url;
        rn_error err = {0};
        check(client_url_parse(bad[i], &url, &err) == RN_ERR_ARG, "%s", bad[i]);
        char named[160];
        snprintf(named, sizeof named, "'%.6s", bad[i]);
        check(strstr(err.message, named), "%s: %s", bad[i], err.message);
    }
    // a user's password is in no message
    static const char *const secret[] = {"http://u@h/", "https://u:sekret@h:4318", "http://u:p@"};
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++) {
        struct client_url url;
        rn_error err = {0};
        check(client_url_parse(secret[i], &url, &err) == RN_ERR_ARG, "%s", secret[i]);
        check(strstr(err.message, "a user before the host") && !strstr(err.message, "sekret"), "%s",
              err.message);
    }
    url_is("http://h/a@b", false, "h", 80, "h", "/a@b");
    char longest[URL_PATH_SIZE + 32] = "http://h/";
    memset(longest + 9, 'a', URL_PATH_SIZE);
    struct client_url url;
    assert_int_equal(client_url_parse(longest, &url, NULL), RN_ERR_ARG);
    memset(longest + 7, 'a', URL_HOST_SIZE);
    assert_int_equal(client_url_parse(longest, &url, NULL), RN_ERR_ARG);
}

CASE(a_path_is_put_behind_that_of_the_url) {
    struct client_url base, out;
    client_url_parse("http://h/v1/", &base, NULL);
    assert_true(client_url_join(&base, "/models", &out));
    assert_string_equal(out.path, "/v1/models");
    client_url_parse("http://h", &base, NULL);
    assert_true(client_url_join(&base, "/metrics", &out));
    assert_string_equal(out.path, "/metrics");
    memset(base.path + 1, 'a', URL_PATH_SIZE - 2);
    assert_false(client_url_join(&base, "/metrics", &out));
}

CASE(a_header_cannot_hold_a_line_end) {
    char headers[CLIENT_HEADERS_SIZE] = "";
    assert_int_equal(client_bearer_add(headers, "abc", NULL), RN_OK);
    assert_int_equal(client_header_add(headers, "X-A", "b c", NULL), RN_OK);
    assert_string_equal(headers, "Authorization: Bearer abc\r\nX-A: b c\r\n");
    assert_int_equal(client_bearer_add(headers, "a\r\nb", NULL), RN_ERR_ARG);
    rn_error err = {0};
    assert_int_equal(client_header_add(headers, "a:b", "c", &err), RN_ERR_ARG);
    assert_string_equal(err.message, "'a:b' is not the name of a header");
    assert_int_equal(client_header_add(headers, "", "c", NULL), RN_ERR_ARG);
    char big[CLIENT_HEADERS_SIZE];
    memset(big, 'k', sizeof big);
    big[sizeof big - 1] = '\0';
    assert_int_equal(client_bearer_add(headers, big, NULL), RN_ERR_ARG);
    assert_string_equal(headers, "Authorization: Bearer abc\r\nX-A: b c\r\n");
}

// ---------------------------------------------------------------- responses

struct bytes {
    char data[256];
    size_t len;
};

static void bytes_add(void *ctx, const char *data, size_t len) {
    struct bytes *bytes = ctx;
    assert_true(bytes->len + len < sizeof bytes->data);
    memcpy(bytes->data + bytes->len, data, len);
    bytes->len += len;
    bytes->data[bytes->len] = '\0';
}

// Feeds text[0, cut), then the rest in pieces of `piece`; returns the bytes that were used.
static size_t feed(struct response *r, const char *text, size_t len, size_t cut, size_t piece,
                   struct bytes *body) {
    *body = (struct bytes){0};
    response_init(r, false);
    size_t at = response_feed(r, text, cut, bytes_add, body);
    if (at < cut) return at;
    while (at < len) {
        const size_t n = len - at < piece ? len - at : piece;
        const size_t used = response_feed(r, text + at, n, bytes_add, body);
        at += used;
        if (used < n) break;
    }
    return at;
}

// The state, status, body and use of the text, whichever way it is cut.
static void response_is(const char *text, bool closed, enum response_state state, int status,
                        const char *body, bool keep_alive, size_t rest) {
    const size_t len = strlen(text);
    for (size_t cut = 0; cut <= len; cut++) {
        static const size_t pieces[] = {1, 3, 1000};
        for (int i = 0; i < 3; i++) {
            struct response r;
            struct bytes got;
            const size_t used = feed(&r, text, len, cut, pieces[i], &got);
            if (closed) response_close(&r);
            check(r.state == state, "%s: cut at %zu: state %d, %s", text, cut, r.state,
                  r.error ? r.error : "");
            check((r.error != NULL) == (state == RESPONSE_BAD), "%s", text);
            if (state == RESPONSE_BAD) continue;
            assert_int_equal(r.status, status);
            assert_string_equal(got.data, body);
            assert_int_equal(r.keep_alive, keep_alive);
            assert_int_equal(len - used, rest);
        }
    }
}

CASE(bodies_of_all_three_kinds_are_read) {
    response_is("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloX", false, RESPONSE_DONE, 200,
                "hello", true, 1);
    response_is("HTTP/1.1 404 \r\nCONTENT-LENGTH:0\r\nConnection: Close\r\n\r\n", false,
                RESPONSE_DONE, 404, "", false, 0);
    response_is("HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n1\r\n!\r\n"
                "0\r\nTrailer: x\r\n\r\n",
                false, RESPONSE_DONE, 200, "hello!", true, 0);
    response_is(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n00\r\n\r\n", false,
        RESPONSE_DONE, 200, "0123456789", true, 0);
    response_is("HTTP/1.1 200 OK\r\n\r\nto the end", false, RESPONSE_BODY_CLOSE, 200, "to the end",
                false, 0);
    response_is("HTTP/1.1 200 OK\r\n\r\nto the end", true, RESPONSE_DONE, 200, "to the end", false,
                0);
    response_is("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", false, RESPONSE_DONE, 200, "x",
                false, 0);
    response_is("HTTP/1.1 204 No Content\r\n\r\n", false, RESPONSE_DONE, 204, "", true, 0);
    response_is("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                false, RESPONSE_DONE, 200, "ok", true, 0);
    response_is("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", false,
                RESPONSE_DONE, 200, "ok", true, 0);
}

CASE(a_response_that_is_cut_off_is_bad) {
    response_is("", true, RESPONSE_BAD, 0, "", false, 0);
    response_is("HTTP/1.1 200 OK\r\nContent-Le", true, RESPONSE_BAD, 200, "", false, 0);
    response_is("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", true, RESPONSE_BAD, 200, "hell",
                false, 0);
    response_is("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", true,
                RESPONSE_BAD, 200, "hello", false, 0);
}

CASE(garbage_is_bad) {
    static const char *const bad[] = {
        "garbage\r\n",
        "HTTP/2 200 OK\r\n",
        "HTTP/1.1 2000 OK\r\n",
        "HTTP/1.1 99 OK\r\n",
        "HTTP/1.1 600 OK\r\n",
        "HTTP/1.1 101 Switching\r\n",
        "HTTP/1.1 200 OK\n",
        "HTTP/1.1 200 O\x01K\r\n",
        "HTTP/1.1 200 OK\r\n folded: x\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n",
        "HTTP/1.1 200 OK\r\n: x\r\n",
        "HTTP/1.1 200 OK\r\nname : x\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1234567890123456\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        response_is(bad[i], false, RESPONSE_BAD, 0, "", false, 0);
}

CASE(lines_and_heads_are_bounded) {
    static char line[RESPONSE_LINE_MAX + 8];
    struct response r;
    struct bytes body = {0};
    memset(line, 'a', sizeof line);
    response_init(&r, false);
    response_feed(&r, line, sizeof line, bytes_add, &body);
    assert_int_equal(r.state, RESPONSE_BAD);
    response_init(&r, false);
    const char *start = "HTTP/1.1 200 OK\r\n";
    response_feed(&r, start, strlen(start), bytes_add, &body);
    line[4] = ':';
    memcpy(line + 1000, "\r\n", 2);
    int lines = 0;
    while (r.state == RESPONSE_HEADERS && lines < 1000) {
        response_feed(&r, line, 1002, bytes_add, &body);
        lines++;
    }
    assert_int_equal(r.state, RESPONSE_BAD);
    assert_int_equal(lines, 1 + (RESPONSE_HEAD_MAX - (int)strlen(start)) / 1002);
    response_init(&r, false);
    const char *interim = "HTTP/1.1 102 Wait\r\n\r\n";
    for (int i = 0; i < RESPONSE_INTERIM_MAX; i++)
        response_feed(&r, interim, strlen(interim), bytes_add, &body);
    assert_int_equal(r.state, RESPONSE_STATUS_LINE);
    response_feed(&r, interim, strlen(interim), bytes_add, &body);
    assert_int_equal(r.state, RESPONSE_BAD);
}

CASE(the_media_type_is_known_without_its_parameters) {
    struct response r;
    struct bytes body;
    const char *text = "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n\r\n";
    feed(&r, text, strlen(text), 0, 7, &body);
    assert_string_equal(r.type, "text/event-stream");
}

// ---------------------------------------------------------------- event streams

static void event_add(void *ctx, const char *data, size_t len) {
    assert_int_equal(data[len], '\0');
    bytes_add(ctx, "<", 1);
    bytes_add(ctx, data, len);
    bytes_add(ctx, ">", 1);
}

static void events_are(const char *text, const char *events) {
    const size_t len = strlen(text);
    for (size_t cut = 0; cut <= len; cut++) {
        for (size_t piece = 1; piece < 1000; piece *= 4) {
            struct bytes got = {0};
            struct sse sse;
            sse_init(&sse);
            assert_true(sse_feed(&sse, text, cut, event_add, &got));
            for (size_t at = cut; at < len; at += piece)
                assert_true(sse_feed(&sse, text + at, len - at < piece ? len - at : piece,
                                     event_add, &got));
            sse_deinit(&sse);
            check(!strcmp(got.data, events), "%s: cut at %zu: %s", text, cut, got.data);
        }
    }
}

CASE(events_are_split_whatever_their_line_ends) {
    events_are("data: a\n\ndata: b\r\n\r\ndata:c\r\rdata: cut off", "<a><b><c>");
    events_are("event: x\nid: 1\ndata: {\ndata:  }\n\n", "<{\n }>");
    events_are("data: {\r\ndata: }\r\n\r\n", "<{\n}>");
    events_are(": comment\n\n\n\ndata\n\n", "<>");
    events_are("\xEF\xBB\xBF"
               "data: a\n\n",
               "<a>");
    events_are("database: x\n\ndata: y\n", "");
    events_are("data: [DONE]\n\n", "<[DONE]>");
}

CASE(an_endless_event_is_refused) {
    static char block[1 << 16];
    struct bytes got = {0};
    struct sse sse;
    memset(block, 'x', sizeof block);
    sse_init(&sse);
    int fed = 0;
    while (sse_feed(&sse, block, sizeof block, event_add, &got) && fed < 1000) fed++;
    assert_string_equal(sse.error, "an event is too long");
    assert_int_equal(fed, SSE_EVENT_MAX / (int)sizeof block);
    sse_deinit(&sse);
    sse_init(&sse);
    block[sizeof block - 1] = '\n';
    memcpy(block, "data:", 5);
    for (fed = 0; sse_feed(&sse, block, sizeof block, event_add, &got) && fed < 1000;) fed++;
    assert_string_equal(sse.error, "an event is too long");
    assert_false(sse_feed(&sse, "\n\n", 2, event_add, &got));
    assert_string_equal(got.data, "");
    sse_deinit(&sse);
}

TEST_PROGRAM(client) { return cases_run(NULL, NULL); }
