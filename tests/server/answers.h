// The bytes of a connection, taken apart into answers as by a strict client. Each answer has one
// head with a status and fields, and a body of the length that the head states. Anything else is a
// fault.
#ifndef RN_TESTS_SERVER_ANSWERS_H
#define RN_TESTS_SERVER_ANSWERS_H

#include <jansson.h>
#include <strings.h>

#include "serve.h"

enum { ANSWERS_MAX = 256 };

struct answer {
    int status;
    char type[64]; // Content-Type
    bool close;    // it says that the connection ends
    char *body;    // without chunk framing, NUL-terminated
    size_t body_len;
};

struct answers {
    struct answer at[ANSWERS_MAX];
    int n, n_continue; // those with 100 are counted, not kept
    const char *fault; // NULL: none
};

static inline void answers_free(struct answers *answers) {
    for (int i = 0; i < answers->n; i++) free(answers->at[i].body);
}

static inline bool answer_field_is(const char *line, size_t len, const char *name) {
    const size_t n = strlen(name);
    return len > n && line[n] == ':' && !strncasecmp(line, name, n);
}

// The length that the head says; -1: chunks, -2: none is said, -3: a fault.
static inline long answer_head(struct answer *answer, const char *at, const char *end) {
    long length = -2;
    int n_length = 0, n_chunked = 0;
    if (sscanf(at, "HTTP/1.1 %3d ", &answer->status) != 1) return -3;
    for (at = strstr(at, "\r\n") + 2; at < end;) {
        const char *next = strstr(at, "\r\n"), *colon = memchr(at, ':', (size_t)(next - at));
        const size_t len = (size_t)(next - at);
        if (!colon || colon == at || colon[-1] == ' ' || memchr(at, '\n', len)) return -3;
        if (answer_field_is(at, len, "Content-Length")) {
            char *rest;
            n_length++;
            length = strtol(colon + 1, &rest, 10);
            if (rest != next || length < 0) return -3;
        } else if (answer_field_is(at, len, "Transfer-Encoding")) {
            n_chunked++;
            if (strncasecmp(colon + 1, " chunked\r\n", 10)) return -3;
        } else if (answer_field_is(at, len, "Content-Type")) {
            snprintf(answer->type, sizeof answer->type, "%.*s", (int)(next - colon - 2), colon + 2);
        } else if (answer_field_is(at, len, "Connection")) {
            answer->close = !strncasecmp(colon + 2, "close", 5);
        }
        at = next + 2;
    }
    if (n_length > 1 || n_chunked > 1 || (n_length && n_chunked)) return -3;
    return n_chunked ? -1 : length;
}

// Takes a chunked body apart. Where it ends; NULL: it is cut off or wrong.
static inline const char *answer_chunks(struct answer *answer, const char *at, const char *end) {
    for (;;) {
        char *rest;
        const unsigned long len = strtoul(at, &rest, 16);
        if (rest == at || end - rest < 2 || memcmp(rest, "\r\n", 2)) return NULL;
        at = rest + 2;
        if ((unsigned long)(end - at) < len + 2 || memcmp(at + len, "\r\n", 2)) return NULL;
        memcpy(answer->body + answer->body_len, at, len);
        answer->body_len += len;
        at += len + 2;
        if (!len) return at;
    }
}

// One answer from `at`. Where it ends; NULL: at a fault.
static inline const char *answer_take(struct answers *answers, const char *at, const char *end,
                                      bool head_only, bool closed) {
    struct answer answer = {0};
    const char *body = strstr(at, "\r\n\r\n");
    if (!body) return answers->fault = "a head is cut off", NULL;
    const long length = answer_head(&answer, at, body + 2);
    body += 4;
    if (length == -3) return answers->fault = "a head is wrong", NULL;
    if (answer.status == 100) return answers->n_continue++, body;
    if (answers->n == ANSWERS_MAX) return answers->fault = "too many answers", NULL;
    answer.body = calloc(1, (size_t)(end - body) + 1);
    assert_non_null(answer.body);
    const char *next = body;
    if (head_only || answer.status == 204 || answer.status == 304) {
    } else if (length == -1) {
        next = answer_chunks(&answer, body, end);
        if (!next) answers->fault = "chunks are wrong or cut off";
    } else if (length == -2 ? !closed : end - body < length) {
        next = NULL;
        answers->fault = length == -2 ? "a body has no length" : "a body is cut off";
    } else {
        answer.body_len = length == -2 ? (size_t)(end - body) : (size_t)length;
        memcpy(answer.body, body, answer.body_len);
        next = body + answer.body_len;
    }
    answers->at[answers->n++] = answer;
    return next;
}

// head_only: the first answer is to a HEAD.
static inline void answers_of(const struct reply *reply, bool head_only, struct answers *answers) {
    *answers = (struct answers){0};
    const char *at = reply->data, *end = reply->data + reply->len;
    while (at && at < end) {
        at = answer_take(answers, at, end, head_only && answers->n == 0, reply->closed);
    }
}

// {"error":{"message":"...","type":"...",...}} and nothing else, said to be JSON.
static inline bool answer_is_json_error(const struct answer *answer) {
    json_t *json = json_loadb(answer->body, answer->body_len, 0, NULL);
    const json_t *error = json_object_get(json, "error");
    const bool is = json_is_string(json_object_get(error, "message")) &&
                    json_is_string(json_object_get(error, "type")) &&
                    !strncmp(answer->type, "application/json", 16);
    json_decref(json);
    return is;
}

#endif
