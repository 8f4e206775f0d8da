// Calls without connections and answers without an engine, for the tests of handlers and writers.
// A body goes through its handler; then the pieces of an answer are given to the writer as by the
// I/O thread. JSON is written with ' for ". Calls and JSON values are kept until the group's end,
// so that tests need not give them back.
#ifndef RN_TESTS_SERVER_CALLS_H
#define RN_TESTS_SERVER_CALLS_H

#define _GNU_SOURCE 1 // memmem
#define RANDOM_SEED 41
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engine/random.h"
#include "generation_shape.h"
#include "json_at.h"
#include "routes.h"
#include "tale.h"

enum { CALL_TIME = 1700000001 };

static struct server server;
static struct served served;
static struct route route; // of all calls: whose form errors have
static rn_chat_template *tmpl;
static struct call **kept; // [n_kept]
static int n_kept;

typedef void (*call_handler)(struct call *call);

// ---------------------------------------------------------------- the server

// A template that takes every role, and tools.
#define PLAIN_TEMPLATE                                                                             \
    "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{% for m in messages %}<{{ "      \
    "m.role }}>{{ m.content }}\n{% endfor %}"                                                      \
    "{% if add_generation_prompt %}<assistant>{% endif %}"

// source NULL: the model's own template.
static inline int server_open(void **state, const char *source) {
    static const char *const aliases[] = {"other", "org/third"};
    if (open_model(state) || rn_chat_template_create(model, source, &tmpl, NULL)) return 1;
    if (!source) source = rn_model_chat_template(model);
    server = (struct server){.created = CALL_TIME - 1, .served = &served, .n_served = 1};
    served = (struct served){.server = &server,
                             .name = "tale",
                             .aliases = aliases,
                             .n_aliases = 2,
                             .state = SERVED_READY,
                             .sampling = rn_sampling_neutral(),
                             .max_tokens = -1,
                             .model = model,
                             .info = rn_model_get_info(model),
                             .engine_info = {.n_ctx = 256, .max_seqs = 4, .max_waiting = 1024},
                             .tmpl = tmpl,
                             .tmpl_source = source,
                             .marks = answer_marks_of(source),
                             .fingerprint = "fp_test"};
    atomic_store(&server.phase, PHASE_READY);
    return 0;
}

static inline int open_server(void **state) { return server_open(state, NULL); }

static inline void call_free(struct call *call) {
    generation_destroy(call->generation);
    json_decref(call->json);
    jbuf_deinit(&call->out);
    free(call->body);
    free(call);
}

static inline int close_server(void **state) {
    while (n_kept) call_free(kept[--n_kept]);
    free(kept);
    json_kept_free();
    rn_chat_template_destroy(tmpl);
    return close_model(state);
}

// ---------------------------------------------------------------- calls

static inline void *grown(void *list, int n, size_t size) {
    list = realloc(list, (size_t)n * size);
    assert_non_null(list);
    return list;
}

// To be freed.
static inline struct call *call_make(const char *body) {
    struct call *call = calloc(1, sizeof *call);
    assert_non_null(call);
    call->server = &server;
    call->served = &served;
    call->route = &route;
    call->created = CALL_TIME;
    strcpy(call->id, "0123456789abcdef01234567");
    call->body = json_quoted(body);
    call->body_len = strlen(body);
    return call;
}

static inline struct call *call_new(const char *body) {
    kept = grown(kept, n_kept + 1, sizeof *kept);
    return kept[n_kept++] = call_make(body);
}

// The body as it was read.
static inline const json_t *body_of(struct call *call) {
    const json_t *json = call_json(call);
    check(json, "%s: %.*s", call->body, (int)call->out.len, call->out.data);
    return json;
}

static inline const json_t *answer_of(const struct call *call) {
    return json_of(call->out.data, call->out.len);
}

// What workers do with a call.
static inline void handle(call_handler handler, struct call *call) {
    handler(call);
    if (generation_shape_due(call)) generation_shape_compile(call);
}

// The handler's answer, which must have this status.
static inline const json_t *answered(call_handler handler, const char *body, int status) {
    struct call *call = call_new(body);
    handle(handler, call);
    check(call->status == status, "%.200s: status %d, expected %d: %.*s", body, call->status,
          status, (int)call->out.len, call->out.data ? call->out.data : "");
    return answer_of(call);
}

static inline void expect_answer(call_handler handler, const char *body, const char *want) {
    expect_json(answered(handler, body, 200), "", want);
}

// The handler must refuse with 400, this param (NULL: any), and a message with this part.
static inline void expect_refusal(call_handler handler, const char *body, const char *param,
                                  const char *part) {
    const json_t *answer = answered(handler, body, 400);
    const char *got = string_at(answer, "error.param");
    const char *message = string_at(answer, "error.message");
    check(!param || (got && !strcmp(got, param)), "%.200s: param %s, expected %s (%s)", body,
          got ? got : "null", param, message);
    char *quoted = json_quoted(part); // an apostrophe, or JSON
    check(message && (strstr(message, part) || strstr(message, quoted)), "%.200s: '%s' lacks '%s'",
          body, message, part);
    free(quoted);
}

struct refusal {
    const char *body, *param, *part;
};

#define expect_refusals(handler, rows)                                                             \
    for (size_t row_ = 0; row_ < sizeof rows / sizeof *rows; row_++)                               \
    expect_refusal(handler, rows[row_].body, rows[row_].param, rows[row_].part)

// The choices of a prepared call, as the I/O thread makes them.
static inline void choices_make(struct call *call) {
    struct generation *generation = call->generation;
    check(!call_refused(call) && generation, "%s: %.*s", call->body, (int)call->out.len,
          call->out.data);
    const int n = generation->params.n;
    generation->n_choices = generation->n_live = n * generation->n_prompts;
    generation->choice = calloc((size_t)generation->n_choices, sizeof *generation->choice);
    assert_non_null(generation->choice);
    for (int i = 0; i < generation->n_choices; i++) {
        generation->choice[i].index = i;
        generation->choice[i].prompt = i / n;
    }
}

// A call that was prepared for the engine, with its choices.
static inline struct call *call_prepared(call_handler prepare, const char *body) {
    struct call *call = call_new(body);
    handle(prepare, call);
    choices_make(call);
    return call;
}

// ---------------------------------------------------------------- answers

struct piece {
    enum answer_part part;
    const char *text;
};

// A token of the choice with its likeliest rivals, as far as the call wants them.
static inline void token_add(struct call *call, struct generation_choice *choice, int32_t token) {
    const struct generation *generation = call->generation;
    choice->n_output++;
    if (generation->keep_tokens) {
        choice->token = grown(choice->token, choice->n_tokens + 1, sizeof *choice->token);
        choice->token[choice->n_tokens++] = token;
    }
    if (!generation->params.logprobs) return;
    const int n_top = generation->params.top_logprobs;
    choice->logprob = grown(choice->logprob, choice->n_logprob + 1, sizeof *choice->logprob);
    choice->top = grown(choice->top, choice->n_top + RN_MAX_TOP_LOGPROBS, sizeof *choice->top);
    choice->logprob[choice->n_logprob++] =
        (struct token_logprob){.token = token,
                               .logprob = -0.25f * (float)(token % 9),
                               .first_top = choice->n_top,
                               .n_top = n_top};
    for (int i = 0; i < n_top; i++)
        choice->top[choice->n_top++] = (rn_logprob){(token + i) % 4096, -0.5f * (float)(i + 1)};
}

static inline void part_feed(struct call *call, struct generation_choice *choice,
                             enum answer_part part, const char *text, size_t len) {
    const struct generation *generation = call->generation;
    if (part == PART_TOOL) {
        choice->tool = grown(choice->tool, choice->n_tools + 1, sizeof *choice->tool);
        struct tool_call *tool = &choice->tool[choice->n_tools];
        *tool = (struct tool_call){0};
        snprintf(tool->id, sizeof tool->id, "call_%d", choice->n_tools++);
        tool->is_custom = custom_tool_is(generation->custom, text, len);
        jbuf_bytes(&tool->name, text, len);
    } else if (part == PART_TOOL_ARGUMENTS) {
        jbuf_bytes(&choice->tool[choice->n_tools - 1].arguments, text, len);
    } else if (part == PART_TOOL_END) {
        choice->tool[choice->n_tools - 1].is_complete = true;
    }
    if (generation->params.stream) {
        generation->writer->delta(call,
                                  &(struct delta){choice, part, choice->n_tools - 1, text, len});
    } else if (part == PART_CONTENT || part == PART_REASONING) {
        jbuf_bytes(part == PART_CONTENT ? &choice->text : &choice->reasoning, text, len);
    }
}

// 7 tokens were written unless they were counted, 2 of them reasoning; 3 of the prompt's were found
// in the cache.
static inline void choice_finish(struct call *call, struct generation_choice *choice,
                                 rn_finish finish, const char *stop) {
    struct generation *generation = call->generation;
    choice->ended = true;
    choice->finish = finish;
    choice->stop = stop ? strdup(stop) : NULL;
    choice->seed = 77;
    choice->n_reasoning = 2;
    choice->timings.prompt_tokens = (int)generation->prompt[choice->prompt].n_ids;
    choice->timings.cached_tokens = 3;
    if (!choice->timings.output_tokens) choice->timings.output_tokens = 7;
    generation->n_live--;
    if (generation->params.stream) generation->writer->choice_end(call, choice);
}

static inline void answer_begin(struct call *call) {
    const struct writer *writer = call->generation->writer;
    if (call->generation->params.stream && writer->begin) writer->begin(call);
}

static inline void answer_end(struct call *call) {
    generation_write_end(call);
    call_fill(call, SIZE_MAX);
    check(!call->out.failed, "out of memory");
}

// The answer of one choice, from its beginning to its end.
static inline struct call *answer_play(struct call *call, const struct piece *pieces, size_t n,
                                       rn_finish finish, const char *stop) {
    struct generation_choice *choice = &call->generation->choice[0];
    answer_begin(call);
    for (size_t i = 0; i < n; i++)
        part_feed(call, choice, pieces[i].part, pieces[i].text, strlen(pieces[i].text));
    choice_finish(call, choice, finish, stop);
    answer_end(call);
    return call;
}

// The events of a stream. A named event's type is its name. [DONE] is there or not, and last.
static inline json_t *events_of(const struct call *call, bool with_done) {
    json_t *events = json_keep(json_array());
    const char *at = call->out.data, *const end = at + call->out.len;
    bool done = false;
    while (at < end) {
        check(!done, "something follows [DONE]: %.*s", (int)(end - at), at);
        const char *stop = memmem(at, (size_t)(end - at), "\n\n", 2), *data = at;
        check(stop, "no end: %.*s", (int)(end - at), at);
        if (!strncmp(at, "event: ", 7))
            data = (const char *)memchr(at, '\n', (size_t)(stop - at)) + 1;
        check(!strncmp(data, "data: ", 6), "no data: %.*s", (int)(stop - at), at);
        data += 6;
        const size_t len = (size_t)(stop - data);
        assert_null(memchr(data, '\n', len));
        done = len == 6 && !memcmp(data, "[DONE]", 6);
        if (!done) json_array_append(events, json_of(data, len));
        if (*at == 'e') {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)(data - at) - 14, at + 7);
            const json_t *event = json_array_get(events, json_array_size(events) - 1);
            assert_string_equal(string_at(event, "type"), name);
        }
        at = stop + 2;
    }
    assert_int_equal(done, with_done);
    return events;
}

// ---------------------------------------------------------------- scripts

// The text of a choice, and how it ended.
struct script {
    struct piece piece[8]; // text NULL: the end
    rn_finish finish;
    const char *stop;
};

// A piece cut at random borders of characters, names of tools whole; tokens come at every byte, so
// that they are the same ones however the text is cut.
static inline void piece_feed(struct call *call, struct generation_choice *choice,
                              const struct piece *piece, int *number) {
    const size_t len = strlen(piece->text);
    size_t from = 0;
    for (size_t at = 1; at <= len; at++) {
        token_add(call, choice, (*number)++ * 37 % 4096);
        const bool border = at == len || ((unsigned char)piece->text[at] & 0xC0) != 0x80;
        if (at < len && (!border || piece->part == PART_TOOL || below(3))) continue;
        part_feed(call, choice, piece->part, piece->text + from, at - from);
        from = at;
    }
}

// Tells every choice its script, pieces of different choices in turn, and ends the answer. Uses
// scripts over again when there are fewer.
static inline void scripts_tell(struct call *call, const struct script *script, int n_scripts) {
    struct generation *generation = call->generation;
    int number[RN_MAX_CHOICES] = {0};
    answer_begin(call);
    for (int p = 0; p < 8; p++) {
        for (int i = 0; i < generation->n_choices; i++) {
            const struct piece *piece = &script[i % n_scripts].piece[p];
            if (piece->text) piece_feed(call, &generation->choice[i], piece, &number[i]);
        }
    }
    for (int i = generation->n_choices - 1; i >= 0; i--) {
        struct generation_choice *choice = &generation->choice[i];
        token_add(call, choice, 4000); // one whose text is not shown
        choice_finish(call, choice, script[i % n_scripts].finish, script[i % n_scripts].stop);
    }
    answer_end(call);
}

// Adds a piece of a stream to a text that a client joins.
static inline void string_append(json_t *object, const char *key, const char *more) {
    const char *before = string_at(object, key);
    if (more) json_object_set_new(object, key, json_sprintf("%s%s", before ? before : "", more));
}

// ---------------------------------------------------------------- random answers

enum { PIECES_MAX = 40 };

// Pieces in any order that a reader of answers may give: a tool call starts before its arguments.
static inline size_t pieces_draw(struct piece pieces[PIECES_MAX]) {
    static const char *const texts[] = {"a",  "",  "\"quoted\"\n", "h\xC3\xA9", "{\"x\":",
                                        "1}", " b"};
    const size_t n = (size_t)below(PIECES_MAX + 1);
    bool has_tool = false;
    for (size_t i = 0; i < n; i++) {
        enum answer_part part = (enum answer_part)below(5);
        if (part >= PART_TOOL_ARGUMENTS && !has_tool) part = PART_TOOL;
        has_tool = (has_tool || part == PART_TOOL) && part != PART_TOOL_END;
        pieces[i] = (struct piece){part, part == PART_TOOL       ? "get"
                                         : part == PART_TOOL_END ? ""
                                                                 : texts[below(7)]};
    }
    return n;
}

// The joined text of all pieces of a part must be this; of arguments: of all tools.
static inline void expect_joined(const struct piece *pieces, size_t n, enum answer_part part,
                                 struct jbuf *got) {
    struct jbuf want = {0};
    for (size_t i = 0; i < n; i++)
        if (pieces[i].part == part) jbuf_text(&want, pieces[i].text);
    check(want.len == got->len && (!want.len || !memcmp(want.data, got->data, want.len)),
          "part %d: %.*s, expected %.*s", (int)part, (int)got->len, got->data, (int)want.len,
          want.data);
    jbuf_deinit(&want);
    jbuf_deinit(got);
}

#endif
