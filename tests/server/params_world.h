// A call made by hand, whose body is read as the generation fields of a family. Used by
// test_params.c and test_param_fields.c.
#ifndef RN_TESTS_SERVER_PARAMS_WORLD_H
#define RN_TESTS_SERVER_PARAMS_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "helpers.h"
#include "params.h"
#include "tale.h"

struct world {
    struct server server;
    rn_model_info info;
    struct served served;
    struct call call;
    struct params params;
    bool ok;
};

static const char *const aliases[] = {"second", "third"};

static inline struct world *world_read(const char *body, size_t len, unsigned family) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->info.n_vocab = 1000;
    world->server.config =
        (struct server_config){.request_s = 60, .all_logprobs = true, .strict_model = true};
    world->served = (struct served){.name = "first",
                                    .aliases = aliases,
                                    .n_aliases = 2,
                                    .model = model,
                                    .info = &world->info,
                                    .sampling = rn_sampling_neutral(),
                                    .max_tokens = 77};
    world->served.sampling.temperature = 0.25f;
    world->call.server = &world->server;
    world->call.served = &world->served;
    world->call.body = malloc(len + 1);
    assert_non_null(world->call.body);
    memcpy(world->call.body, body, len);
    world->call.body[len] = '\0';
    world->call.body_len = len;
    const json_t *json = call_json(&world->call);
    world->ok = json && params_read(&world->call, json, (enum family)family, &world->params);
    return world;
}

static inline struct world *world_of(const char *body, unsigned family) {
    return world_read(body, strlen(body), family);
}

static inline void world_destroy(struct world *world) {
    json_decref(world->call.json);
    jbuf_deinit(&world->call.out);
    free(world->call.body);
    free(world);
}

// A member of the refusal's error object, to be freed; "": null.
static inline char *error_member(const struct world *world, const char *name) {
    json_t *answer = json_loadb(world->call.out.data, world->call.out.len, 0, NULL);
    check(answer, "%.200s: the error is no JSON", world->call.body);
    const json_t *error = json_object_get(answer, "error");
    const char *text = json_string_value(json_object_get(error, name));
    char *copy = strdup(text ? text : "");
    json_decref(answer);
    return copy;
}

static inline void expect_refusal(const char *body, unsigned family, int status, const char *param,
                                  const char *message) {
    struct world *world = world_of(body, family);
    check(!world->ok && world->call.status == status, "%.200s: status %d", body,
          world->call.status);
    char *got = error_member(world, "param");
    char *text = error_member(world, "message");
    check(strcmp(got, param) == 0, "%.200s: param %s", body, got);
    check(strstr(text, message), "%.200s: message %s", body, text);
    free(got);
    free(text);
    world_destroy(world);
}

// {"a":VALUE}, or {"a":{"b":VALUE}}, and the fields that the family requires. To be freed.
static inline char *body_of(const char *name, const char *value, unsigned family) {
    const char *dot = strchr(name, '.');
    const int parent = dot ? (int)(dot - name) : 0;
    const char *base =
        family == FAMILY_MESSAGES && strcmp(name, "max_tokens") != 0 ? "\"max_tokens\":5," : "";
    const size_t size = strlen(name) + strlen(value) + strlen(base) + 64;
    char *body = malloc(size);
    assert_non_null(body);
    if (dot) {
        snprintf(body, size, "{%s\"%.*s\":{\"%s\":%s}}", base, parent, name, dot + 1, value);
    } else {
        snprintf(body, size, "{%s\"%s\":%s}", base, name, value);
    }
    return body;
}

static inline char *repeated(const char *open, int n, const char *middle, const char *close) {
    const size_t open_len = strlen(open), close_len = strlen(close), middle_len = strlen(middle);
    char *text = malloc((open_len + close_len) * (size_t)n + middle_len + 1);
    assert_non_null(text);
    char *at = text;
    for (int i = 0; i < n; i++, at += open_len) memcpy(at, open, open_len);
    memcpy(at, middle, middle_len);
    at += middle_len;
    for (int i = 0; i < n; i++, at += close_len) memcpy(at, close, close_len);
    *at = '\0';
    return text;
}

#endif
