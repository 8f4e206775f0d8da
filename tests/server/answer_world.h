// Calls without a connection and answers without an engine, for the tests of writers. A body goes
// through its route's prepare with the smallest model's vocabulary. Then pieces of an answer are
// played to the writer as by the I/O thread. For test_messages.c and test_responses.c.
#ifndef RN_TESTS_ANSWER_WORLD_H
#define RN_TESTS_ANSWER_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "generation.h"
#include "routes.h"

struct world {
    rn_model *model;
    rn_chat_template *tmpl;
    struct server server;
    struct route route;
    struct call call;
};

struct piece {
    enum answer_part part;
    int tool;
    const char *text;
};

static inline int world_setup(void **state) {
    static const char tmpl[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
                               "{% if add_generation_prompt %}<assistant>{% endif %}";
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    rn_error err = {0};
    check(rn_model_open_vocab(MODELS_DIR "/tale-1m-f16.gguf", &world->model, &err) == RN_OK, "%s",
          err.message);
    check(rn_chat_template_create(world->model, tmpl, &world->tmpl, &err) == RN_OK, "%s",
          err.message);
    struct server *server = &world->server;
    server->config.model_name = "tale";
    server->config.max_tokens = -1;
    server->config.sampling = rn_sampling_neutral();
    server->model = world->model;
    server->info = rn_model_get_info(world->model);
    server->tmpl = world->tmpl;
    server->marks = answer_marks_of(tmpl);
    server->engine_info.n_ctx = 512;
    server->engine_info.max_seqs = 1;
    server->engine_info.max_waiting = 16;
    *state = world;
    return 0;
}

static inline void call_reset(struct world *world) {
    struct call *call = &world->call;
    generation_destroy(call->generation);
    json_decref(call->json);
    jbuf_deinit(&call->out);
    free(call->body);
    *call = (struct call){0};
}

static inline int world_teardown(void **state) {
    struct world *world = *state;
    call_reset(world);
    rn_chat_template_destroy(world->tmpl);
    rn_model_close(world->model);
    free(world);
    return 0;
}

// A new call with this body; nothing has read it yet.
static inline struct call *call_make(struct world *world, enum call_api api, const char *body) {
    call_reset(world);
    struct call *call = &world->call;
    world->route.api = api;
    call->server = &world->server;
    call->route = &world->route;
    call->created = 1700000000;
    snprintf(call->id, sizeof call->id, "0123456789abcdef01234567");
    call->body = strdup(body);
    assert_non_null(call->body);
    call->body_len = strlen(body);
    return call;
}

// The same, prepared to be answered by one choice.
static inline struct call *call_prepare(struct world *world, enum call_api api,
                                        void (*prepare)(struct call *call), const char *body) {
    struct call *call = call_make(world, api, body);
    prepare(call);
    check(!call_refused(call), "%s: %.*s", body, (int)call->out.len, call->out.data);
    struct generation *generation = call->generation;
    assert_non_null(generation);
    generation->choice = calloc(1, sizeof *generation->choice);
    assert_non_null(generation->choice);
    generation->n_choices = generation->n_live = 1;
    return call;
}

// ---------------------------------------------------------------- answers

static inline void piece_play(struct call *call, struct generation_choice *choice,
                              const struct piece *piece) {
    const size_t len = strlen(piece->text);
    if (piece->part == PART_TOOL) {
        choice->tool = realloc(choice->tool, (size_t)(piece->tool + 1) * sizeof *choice->tool);
        assert_non_null(choice->tool);
        struct tool_call *tool = &choice->tool[choice->n_tools++];
        *tool = (struct tool_call){0};
        snprintf(tool->id, sizeof tool->id, "call_%d", piece->tool);
        jbuf_bytes(&tool->name, piece->text, len);
    }
    if (piece->part == PART_TOOL_ARGUMENTS) {
        jbuf_bytes(&choice->tool[piece->tool].arguments, piece->text, len);
    }
    if (call->generation->params.stream) {
        call->generation->writer->delta(call, &(struct delta){choice, piece->part, piece->tool,
                                                              piece->text, len});
    } else if (piece->part == PART_CONTENT) {
        jbuf_bytes(&choice->text, piece->text, len);
    } else if (piece->part == PART_REASONING) {
        jbuf_bytes(&choice->reasoning, piece->text, len);
    }
}

// 7 tokens were written, 2 of them reasoning; 3 of the prompt's were found in the cache.
static inline void answer_play(struct call *call, const struct piece *pieces, size_t n,
                               rn_finish finish, const char *stop) {
    struct generation *generation = call->generation;
    struct generation_choice *choice = &generation->choice[0];
    const bool stream = generation->params.stream;
    if (stream && generation->writer->begin) generation->writer->begin(call);
    for (size_t i = 0; i < n; i++) piece_play(call, choice, &pieces[i]);
    choice->ended = true;
    choice->finish = finish;
    choice->stop = stop ? strdup(stop) : NULL;
    choice->n_reasoning = 2;
    choice->timings = (rn_timings){.output_tokens = 7, .cached_tokens = 3};
    generation->n_live = 0;
    if (stream) generation->writer->choice_end(call, choice);
    generation_write_end(call);
    call_fill(call, SIZE_MAX);
    check(!call->out.failed, "out of memory");
}

// The answer as JSON; of a stream an array of the events' data, each of which names its event.
static inline json_t *whole_parse(const struct call *call) {
    json_error_t problem;
    json_t *answer = json_loadb(call->out.data, call->out.len, JSON_REJECT_DUPLICATES, &problem);
    check(answer, "%s in %.*s", problem.text, (int)call->out.len, call->out.data);
    return answer;
}

static inline json_t *events_parse(const struct call *call) {
    const char *at = call->out.data, *const end = at + call->out.len;
    json_t *events = json_array();
    while (at < end) {
        json_error_t problem;
        char name[64];
        const char *line = memchr(at, '\n', (size_t)(end - at));
        assert_non_null(line);
        // a copy: scanning goes to a NUL, which the answer does not end with
        snprintf(name, sizeof name, "%.*s", (int)(line - at), at);
        check(!strncmp(name, "event: ", 7), "no event at %s", name);
        memmove(name, name + 7, strlen(name) - 6);
        check(!strncmp(line + 1, "data: ", 6), "no data after %s", name);
        const char *stop = memchr(line + 1, '\n', (size_t)(end - line - 1));
        check(stop && stop + 1 < end && stop[1] == '\n', "%s does not end", name);
        json_t *data =
            json_loadb(line + 7, (size_t)(stop - line - 7), JSON_REJECT_DUPLICATES, &problem);
        check(data, "%s: %s in %.*s", name, problem.text, (int)(stop - line), line);
        check(!strcmp(json_string_value(json_object_get(data, "type")), name), "%s", name);
        json_array_append_new(events, data);
        at = stop + 2;
    }
    return events;
}

// ---------------------------------------------------------------- looking at JSON

// "a.b.2.c"; NULL: there is no such thing.
static inline json_t *at_path(const json_t *value, const char *path) {
    while (value && *path) {
        char key[64];
        const size_t len = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)len, path);
        value = json_is_array(value) ? json_array_get(value, (size_t)atoi(key))
                                     : json_object_get(value, key);
        path += len + (path[len] == '.');
    }
    return (json_t *)value;
}

// The value at a path must be this JSON.
static inline void expect_json(const json_t *value, const char *path, const char *expected) {
    json_error_t problem;
    json_t *want = json_loads(expected, JSON_DECODE_ANY, &problem);
    check(want, "%s: %s", expected, problem.text);
    json_t *got = at_path(value, path);
    char *text = got ? json_dumps(got, JSON_ENCODE_ANY) : NULL;
    check(got && json_equal(got, want), "%s: %s, expected %s", path, text ? text : "nothing",
          expected);
    free(text);
    json_decref(want);
}

// The call must be refused with 400 and a message that holds this text.
static inline void expect_refusal(const struct call *call, const char *message) {
    check(call->status == 400, "%s: status %d", call->body, call->status);
    json_t *answer = whole_parse(call);
    const char *text = json_string_value(at_path(answer, "error.message"));
    check(text && strstr(text, message), "%s: %s, expected %s", call->body, text, message);
    json_decref(answer);
}

// ---------------------------------------------------------------- random answers

enum { PIECES_MAX = 40 };

static inline unsigned draw(uint64_t *seed, unsigned n) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % n;
}

// Pieces in any order that a reader of answers may give: a tool call starts before its arguments.
static inline size_t pieces_draw(uint64_t *seed, struct piece pieces[PIECES_MAX]) {
    static const char *const texts[] = {"a",  "",  "\"quoted\"\n", "h\xC3\xA9", "{\"x\":",
                                        "1}", " b"};
    const size_t n = draw(seed, PIECES_MAX + 1);
    int n_tools = 0;
    for (size_t i = 0; i < n; i++) {
        enum answer_part part = (enum answer_part)draw(seed, 4);
        if (part == PART_TOOL_ARGUMENTS && !n_tools) part = PART_TOOL;
        if (part == PART_TOOL) n_tools++;
        pieces[i] = (struct piece){
            part,
            part == PART_TOOL || part == PART_TOOL_ARGUMENTS ? n_tools - 1 : 0,
            part == PART_TOOL ? "get" : texts[draw(seed, sizeof texts / sizeof texts[0])],
        };
    }
    return n;
}

// The joined text of all pieces of a part; part TOOL_ARGUMENTS: of all tools, one after the other.
static inline void pieces_join(const struct piece *pieces, size_t n, enum answer_part part,
                               struct jbuf *out) {
    for (size_t i = 0; i < n; i++)
        if (pieces[i].part == part) jbuf_text(out, pieces[i].text);
}

static inline void expect_joined(const struct piece *pieces, size_t n, enum answer_part part,
                                 const struct jbuf *got) {
    struct jbuf want = {0};
    pieces_join(pieces, n, part, &want);
    check(want.len == got->len &&
              !memcmp(want.len ? want.data : "", got->len ? got->data : "", want.len),
          "part %d: %.*s, expected %.*s", (int)part, (int)got->len, got->data, (int)want.len,
          want.data);
    jbuf_deinit(&want);
}

#endif
