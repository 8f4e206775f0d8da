// Wrong fields over HTTP, on every route that takes a body. An answer always comes, 200 or a 4xx
// that names the field, and the server continues as before.
// label: threads
#include <jansson.h>

#include "params.h"
#include "serve.h"

static const struct {
    const char *path;
    unsigned family; // 0: no generation
    const char *base;
} routes[] = {
    {"/v1/chat/completions", FAMILY_CHAT,
     "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_completion_tokens\":2"},
    {"/v1/completions", FAMILY_COMPLETIONS, "\"prompt\":\"a\",\"max_tokens\":2"},
    {"/completion", FAMILY_NATIVE, "\"prompt\":\"a\",\"n_predict\":2"},
    {"/v1/responses", FAMILY_RESPONSES, "\"input\":\"a\",\"max_output_tokens\":2"},
    {"/v1/messages", FAMILY_MESSAGES,
     "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":2"},
};
enum { N_ROUTES = sizeof routes / sizeof *routes };

static const struct {
    unsigned families;
    const char *name;
} rows[] = {
#define FIELD_INT(which, json, ...)      {which, json},
#define FIELD_REAL(which, json, ...)     {which, json},
#define FIELD_BOOL(which, json, ...)     {which, json},
#define FIELD_STRING(which, json, ...)   {which, json},
#define FIELD_STRINGS(which, json, ...)  {which, json},
#define FIELD_OWN(which, json, ...)      {which, json},
#define FIELD_REFUSED(which, json, ...)  {which, json},
#define FIELD_REPLACED(which, json, ...) {which, json},
#include "fields.def"
#define SAMPLING_NUMBER(kind, id, field, neutral, min, max, json, ...) {FAMILY_ANY, json},
#define SAMPLING_LIST(id, field, item, max, json, ...)                 {FAMILY_ANY, json},
#define SAMPLING_JSON_ALIAS(id, json)                                  {FAMILY_ANY, json},
#include "plan/sampling.def"
    {FAMILY_ANY, "model"},
};

static const char *const probes[] = {"\"x\"", "-1",  "1e300",    "9223372036854775807",
                                     "{}",    "[1]", "\"\xFF\"", "NaN"};

// The field takes the place of the base's own where that has it too.
static void body_write(const char *base, const char *name, const char *value, char *out,
                       size_t size) {
    char kept[256], own[64];
    snprintf(kept, sizeof kept, "%s", base);
    snprintf(own, sizeof own, ",\"%s\":", name);
    char *at = strstr(kept, own);
    if (at) *at = '\0';
    const char *dot = strchr(name, '.');
    if (dot) {
        snprintf(out, size, "{%s,\"%.*s\":{\"%s\":%s}}", kept, (int)(dot - name), name, dot + 1,
                 value);
    } else {
        snprintf(out, size, "{%s,\"%s\":%s}", kept, name, value);
    }
}

static void refusal_names_the_field(const struct reply *reply, const char *name, const char *body) {
    json_t *answer = json_loads(reply->body, 0, NULL);
    const json_t *error = json_object_get(answer, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    check(message && strstr(message, strcmp(name, "model") == 0 ? "model" : name), "%s: %s", body,
          reply->data);
    json_decref(answer);
}

CASE(a_wrong_field_is_answered_on_every_route) {
    const struct serve *serve = *state;
    int taken = 0, refused = 0;
    for (int r = 0; r < N_ROUTES; r++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (size_t p = 0; p < sizeof probes / sizeof *probes; p++) {
                if (!(rows[i].families & routes[r].family)) continue;
                char body[1024];
                body_write(routes[r].base, rows[i].name, probes[p], body, sizeof body);
                struct reply reply = serve_post(serve, routes[r].path, body);
                check(reply.status == 200 || (reply.status >= 400 && reply.status < 500),
                      "%s %s: %s", routes[r].path, body, reply.data);
                if (reply.status != 200) refusal_names_the_field(&reply, rows[i].name, body);
                taken += reply.status == 200;
                refused += reply.status != 200;
                reply_free(&reply);
            }
    check(taken > 0 && refused > taken, "%d taken, %d refused", taken, refused);
    serve_is_well(serve, "wrong fields");
}

static const char *const bodies[] = {
    "",
    "{",
    "null",
    "[]",
    "\"a\"",
    "{}",
    "{\"messages\":null,\"prompt\":null,\"input\":null,\"content\":null,\"tokens\":null}",
    "{\"messages\":{},\"prompt\":{},\"input\":{},\"content\":{},\"tokens\":{},\"max_tokens\":1}",
    "{\"messages\":[],\"prompt\":[],\"input\":[],\"content\":[],\"tokens\":[],\"max_tokens\":1}",
    "{\"messages\":[1],\"prompt\":[-1],\"input\":[-1],\"content\":5,\"tokens\":[-1],"
    "\"max_tokens\":1}",
    "{\"messages\":[{}],\"prompt\":[[]],\"input\":[[]],\"content\":true,\"tokens\":[1.5],"
    "\"max_tokens\":1}",
    "{\"messages\":[{\"role\":5,\"content\":\"a\"}],\"prompt\":[9223372036854775807],"
    "\"input\":[4294967296],\"content\":[\"a\"],\"tokens\":[9223372036854775807],"
    "\"max_tokens\":1}",
    "{\"messages\":[{\"role\":\"user\",\"content\":{\"a\":1}}],\"prompt\":[\"a\",[1],{}],"
    "\"input\":[null],\"tokens\":[null],\"max_tokens\":1}",
    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}],\"prompt\":[true],"
    "\"input\":[{\"type\":\"x\"}],\"tokens\":\"a\",\"max_tokens\":1}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"prompt\":\"a\",\"input\":\"a\","
    "\"content\":\"a\",\"tokens\":[1],\"max_tokens\":1,\"stream\":false,\"tools\":5}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"prompt\":\"a\",\"input\":\"a\","
    "\"content\":\"a\",\"tokens\":[1],\"max_tokens\":1,\"stream\":false,\"tools\":[{}],\"system\":"
    "5}",
};

CASE(a_wrong_body_is_answered_on_every_route) {
    const struct serve *serve = *state;
    static const char *const paths[] = {
#define ROUTE_AT_ONCE(...)
#define ROUTE_PREPARE(verb, path, api, handler) path,
#include "routes.def"
    };
    for (size_t r = 0; r < sizeof paths / sizeof *paths; r++)
        for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++) {
            struct reply reply = serve_post(serve, paths[r], bodies[b]);
            check(reply.status == 200 || (reply.status >= 400 && reply.status < 500) ||
                      (reply.status == 501 && !strcmp(paths[r], "/api/pull")),
                  "%s %s: %s", paths[r], bodies[b], reply.data);
            check(b > 4 || reply.status == 400, "%s %s: %s", paths[r], bodies[b], reply.data);
            json_t *answer = json_loads(reply.body, 0, NULL);
            check(answer, "%s %s: %s", paths[r], bodies[b], reply.data);
            json_decref(answer);
            reply_free(&reply);
        }
    serve_is_well(serve, "wrong bodies");
}

// The same request before and after all that gets the same text.
CASE(the_text_of_others_is_not_touched) {
    const struct serve *serve = *state;
    static const char body[] = "{\"prompt\":\"once\",\"max_tokens\":8,\"temperature\":0}";
    char *text[2];
    for (int i = 0; i < 2; i++) {
        struct reply reply = serve_post(serve, "/v1/completions", body);
        json_t *answer = json_loads(reply.body, 0, NULL);
        const json_t *choice = json_array_get(json_object_get(answer, "choices"), 0);
        const char *got = json_string_value(json_object_get(choice, "text"));
        check(got, "%s", reply.data);
        text[i] = strdup(got);
        json_decref(answer);
        reply_free(&reply);
        for (size_t b = 0; b < sizeof bodies / sizeof *bodies && i == 0; b++) {
            reply = serve_post(serve, "/v1/completions", bodies[b]);
            reply_free(&reply);
        }
    }
    assert_string_equal(text[0], text[1]);
    free(text[0]);
    free(text[1]);
}

TEST_PROGRAM(http_fields) { return cases_run(serve_setup, serve_teardown); }
