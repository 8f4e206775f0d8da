// Clients of a running server that behave badly: chats whose stream does not fit the system's
// buffers, readers that are slow, and one request of each kind.
#ifndef RN_TESTS_SERVER_SERVE_CLIENTS_H
#define RN_TESTS_SERVER_SERVE_CLIENTS_H

#include "serve_watch.h"

#define WATCH "GET /engine/live HTTP/1.1\r\nHost: localhost\r\n\r\n"

enum { CHAT_TOKENS = 480 }; // so many that an answer does not fit the system's buffers

// A chat whose every token has many logprobs.
static inline int chat_ask(const struct serve *serve, const char *version, int max_tokens,
                           bool stream, bool slow) {
    char body[512];
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"go on\"}],\"max_tokens\":%d,"
             "\"ignore_eos\":true,\"logprobs\":true,\"top_logprobs\":20,\"stream\":%s}",
             max_tokens, stream ? "true" : "false");
    return serve_ask(serve, version, "/v1/chat/completions", body, slow);
}

static inline int chat_open(const struct serve *serve, int max_tokens, bool stream) {
    return chat_ask(serve, "HTTP/1.1", max_tokens, stream, false);
}

static inline int slow_chat(const struct serve *serve, const char *version) {
    return chat_ask(serve, version, CHAT_TOKENS, true, true);
}

static inline int slow_whole(const struct serve *serve) {
    return chat_ask(serve, "HTTP/1.1", CHAT_TOKENS, false, true);
}

static inline int text_open(const struct serve *serve, const char *text, size_t len, bool slow) {
    const int fd = serve_connect_to(serve->port, slow);
    assert_true(fd >= 0 && serve_send(fd, text, len));
    return fd;
}

// The whole stream's text, to be freed; closes the connection.
static inline char *chat_finish(int fd, bool chunked) {
    struct reply reply = serve_finish(fd);
    check(reply.status == 200 && reply.closed, "%d: %.300s", reply.status, reply.data);
    check(!chunked || reply_dechunk(&reply), "the stream has no end: ...%s",
          reply.data + (reply.len > 200 ? reply.len - 200 : 0));
    check(strstr(reply.body, "data: [DONE]\n\n"), "no [DONE] in %zu bytes", reply.len);
    char *text = stream_text(reply.body);
    reply_free(&reply);
    return text;
}

// A path and a body of each kind of request.
static const char *const bodies[][2] = {
    {"/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"go on\"}],\"max_tokens\":300,"
     "\"ignore_eos\":true,\"stream\":true}"},
    {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"go on\"}],"
                             "\"max_tokens\":300,\"ignore_eos\":true}"},
    {"/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"n\":3,\"max_tokens\":100,\"ignore_eos\":true,"
                        "\"logprobs\":2,\"stream\":true}"},
    {"/v1/embeddings", "{\"input\":[\"a b c\",\"d\"]}"},
    {"/v1/messages", "{\"model\":\"tiny\",\"max_tokens\":200,\"stream\":true,"
                     "\"messages\":[{\"role\":\"user\",\"content\":\"go on\"}]}"},
    {"/v1/responses", "{\"model\":\"tiny\",\"input\":\"go on\",\"stream\":true}"},
    {"/completion", "{\"prompt\":\"go on\",\"n_predict\":200,\"ignore_eos\":true,\"stream\":true}"},
    {"/tokenize", "{\"content\":\"go on\"}"},
};
enum { BODIES = sizeof bodies / sizeof *bodies };

static inline int post_write(char *out, size_t size, int which) {
    return snprintf(out, size,
                    "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                    bodies[which][0], strlen(bodies[which][1]), bodies[which][1]);
}

#endif
