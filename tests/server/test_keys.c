// Every route of the table without a key, with wrong keys and with the right one. Without the right
// key only public routes answer; all others are refused, and so are unknown paths.
// label: threads
#include "routes.h"
#include "serve.h"

static const char *const keys[] = {"first-key", "second-key"};

static const struct {
    const char *method, *path;
    enum route_access access;
} routes[] = {
#define ROUTE_AT_ONCE(verb, where, access, api, always, handler) {verb, where, ROUTE_##access},
#define ROUTE_PREPARE(verb, where, api, handler)                 {verb, where, ROUTE_KEY},
#include "routes.def"
};
enum { N_ROUTES = sizeof routes / sizeof *routes };

static int setup(void **state) {
    struct server_config config = serve_config();
    config.keys = keys;
    config.n_keys = 2;
    config.ui = true;
    return serve_setup_with(state, &config);
}

// The status of a request with that header line. A stream is not read to its end.
static int status_of(const struct serve *serve, const char *method, const char *path,
                     const char *header) {
    char text[512];
    const int len = snprintf(text, sizeof text,
                             "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s"
                             "Content-Length: 2\r\n\r\n{}",
                             method, path, header);
    const int fd = serve_connect(serve);
    assert_true(serve_send(fd, text, (size_t)len));
    char head[16] = "";
    size_t n = 0;
    while (n < 12) {
        const ssize_t got = recv(fd, head + n, 12 - n, 0);
        check(got > 0, "%s %s: no answer", method, path);
        n += (size_t)got;
    }
    close(fd);
    return atoi(head + 9);
}

CASE(every_route_but_the_open_ones_needs_a_key) {
    static const char *const wrong[] = {
        "",
        "Authorization: Bearer \r\n",
        "Authorization: Bearer first-ke\r\n",
        "Authorization: Bearer first-key1\r\n",
        "Authorization: Bearer FIRST-KEY\r\n",
        "Authorization: Bearer first-keyfirst-key\r\n",
        "Authorization: Basic first-key\r\n",
        "Authorization: first-key\r\n",
        "x-api-key: \r\n",
        "x-api-key: second\r\n",
        "Cookie: key=first-key\r\n",
    };
    for (int i = 0; i < N_ROUTES; i++)
        for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
            const int status = status_of(*state, routes[i].method, routes[i].path, wrong[w]);
            check((status == 401) == (routes[i].access != ROUTE_OPEN), "%s %s with '%s': %d",
                  routes[i].method, routes[i].path, wrong[w], status);
        }
}

CASE(the_open_routes_are_health_and_the_page_alone) {
    for (int i = 0; i < N_ROUTES; i++) {
        const char *path = routes[i].path;
        const bool expected = strstr(path, "health") || !strcmp(path, "/ping") ||
                              !strncmp(path, "/assets/", 8) || !strcmp(path, "/") ||
                              !strcmp(path, "/favicon.ico");
        check((routes[i].access == ROUTE_OPEN) == expected, "%s", path);
    }
}

CASE(each_key_opens_every_route) {
    static const char *const right[] = {
        "Authorization: Bearer first-key\r\n",
        "Authorization: bearer  second-key\r\n",
        "x-api-key: second-key\r\n",
    };
    for (int i = 0; i < N_ROUTES; i++)
        for (size_t r = 0; r < sizeof right / sizeof *right; r++) {
            const int status = status_of(*state, routes[i].method, routes[i].path, right[r]);
            check(status && status != 401 && status != 403, "%s %s with '%s': %d", routes[i].method,
                  routes[i].path, right[r], status);
        }
}

CASE(without_a_key_nothing_is_said_about_what_exists) {
    static const char *const requests[][2] = {
        {"GET", "/nothing"},     {"POST", "/v1/models"},     {"DELETE", "/v1/completions"},
        {"GET", "/v1/"},         {"GET", "/health/nothing"}, {"GET", "//v1/models"},
        {"GET", "/v1/./models"}, {"GET", "/%761/models"},    {"HEAD", "/v1/models"},
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const int status = status_of(*state, requests[i][0], requests[i][1], "");
        check(status == 401, "%s %s: %d", requests[i][0], requests[i][1], status);
    }
}

TEST_PROGRAM(keys) { return cases_run(setup, serve_teardown); }
