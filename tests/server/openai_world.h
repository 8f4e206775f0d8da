// A server without sockets or engine for tests of OpenAI's endpoints. Calls are made by hand, and
// their prepare handlers run. Choices are scripts of parts, which writers write as a stream, cut
// anywhere, or whole.
#ifndef RN_TESTS_OPENAI_WORLD_H
#define RN_TESTS_OPENAI_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engine/random.h"
#include "generation.h"
#include "routes.h"
#include "tale.h"

static struct server server;
static rn_chat_template *tmpl;

static int open_server(void **state) {
    if (open_model(state)) return 1;
    if (rn_chat_template_create(model, NULL, &tmpl, NULL)) return 1;
    static const char *const aliases[] = {"other", "org/third"};
    server = (struct server){.config = {.model_name = "tale",
                                        .aliases = aliases,
                                        .n_aliases = 2,
                                        .sampling = rn_sampling_neutral(),
                                        .max_tokens = -1},
                             .model = model,
                             .info = rn_model_get_info(model),
                             .engine_info = {.n_ctx = 256, .max_seqs = 8, .max_waiting = 1024},
                             .tmpl = tmpl,
                             .marks = answer_marks_of(rn_model_chat_template(model)),
                             .created = 1700000000,
                             .fingerprint = "fp_test"};
    return 0;
}

static int close_server(void **state) {
    rn_chat_template_destroy(tmpl);
    return close_model(state);
}

static struct call *call_new(const char *body) {
    struct call *call = calloc(1, sizeof *call);
    assert_non_null(call);
    call->server = &server;
    call->created = 1700000001;
    strcpy(call->id, "abcdefghijklmnop");
    call->body = strdup(body);
    call->body_len = strlen(body);
    return call;
}

static void call_free(struct call *call) {
    generation_destroy(call->generation);
    json_decref(call->json);
    jbuf_deinit(&call->out);
    free(call->body);
    free(call);
}

static json_t *json_of(const char *data, size_t len) {
    json_error_t problem;
    json_t *json = json_loadb(data, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    check(json, "%s in %.*s", problem.text, (int)len, data);
    return json;
}

static const char *string_at(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

// The call was refused with 400, this param, and a message that holds this text.
static inline void expect_refusal(const struct call *call, const char *param, const char *message) {
    check(call->status == 400, "%s: status %d, not refused for %s", call->body, call->status,
          param);
    json_t *answer = json_of(call->out.data, call->out.len);
    const json_t *error = json_object_get(answer, "error");
    const char *got = string_at(error, "param"), *text = string_at(error, "message");
    check(got && !strcmp(got, param), "%s: param %s, not %s", call->body, got, param);
    check(text && strstr(text, message), "%s: message %s, not %s", call->body, text, message);
    json_decref(answer);
}

// Its keys are these, "a b c", in this order.
static inline void expect_keys(const json_t *object, const char *keys) {
    char got[256] = "";
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (*got) strncat(got, " ", sizeof got - strlen(got) - 1);
        strncat(got, key, sizeof got - strlen(got) - 1);
    }
    check(!strcmp(got, keys), "keys are %s, not %s", got, keys);
}

// ---------------------------------------------------------------- choices

struct piece {
    enum answer_part part;
    const char *text; // NULL: the script's end
};

// The text of a choice, and how it ended.
struct script {
    struct piece piece[8];
    rn_finish finish;
    const char *stop;
};

// Choices as the I/O thread makes them.
static void choices_create(struct generation *generation) {
    const int n = generation->params.n;
    generation->n_choices = generation->n_live = n * generation->n_prompts;
    generation->choice = calloc((size_t)generation->n_choices, sizeof *generation->choice);
    assert_non_null(generation->choice);
    for (int i = 0; i < generation->n_choices; i++) {
        generation->choice[i].index = i;
        generation->choice[i].prompt = i / n;
    }
}

// A token of the choice, with its likeliest rivals: always the same ones for the same number.
static void token_add(struct call *call, struct generation_choice *choice, int number) {
    const struct params *params = &call->generation->params;
    if (!params->logprobs) return;
    choice->logprob =
        realloc(choice->logprob, ((size_t)choice->n_logprob + 1) * sizeof *choice->logprob);
    choice->top = realloc(choice->top,
                          ((size_t)choice->n_top + 1 + RN_MAX_TOP_LOGPROBS) * sizeof *choice->top);
    choice->logprob[choice->n_logprob++] =
        (struct token_logprob){.token = number * 37 % 4096,
                               .logprob = -0.25f * (float)(number % 9),
                               .first_top = choice->n_top,
                               .n_top = params->top_logprobs};
    for (int i = 0; i < params->top_logprobs; i++) {
        choice->top[choice->n_top++] =
            (rn_logprob){(number * 37 + i * 11) % 4096, -0.5f * (float)(i + 1)};
    }
}

static void part_feed(struct call *call, struct generation_choice *choice, enum answer_part part,
                      const char *text, size_t len) {
    const struct generation *generation = call->generation;
    if (part == PART_TOOL) {
        choice->tool = realloc(choice->tool, ((size_t)choice->n_tools + 1) * sizeof *choice->tool);
        struct tool_call *tool = &choice->tool[choice->n_tools++];
        *tool = (struct tool_call){0};
        snprintf(tool->id, sizeof tool->id, "call_%d_%d", choice->index, choice->n_tools);
        jbuf_bytes(&tool->name, text, len);
    } else if (part == PART_TOOL_ARGUMENTS) {
        jbuf_bytes(&choice->tool[choice->n_tools - 1].arguments, text, len);
    }
    if (generation->params.stream) {
        generation->writer->delta(call, &(struct delta){.choice = choice,
                                                        .part = part,
                                                        .tool = choice->n_tools - 1,
                                                        .text = text,
                                                        .len = len});
    } else if (part == PART_CONTENT || part == PART_REASONING) {
        jbuf_bytes(part == PART_CONTENT ? &choice->text : &choice->reasoning, text, len);
    }
}

// A piece cut at random borders of characters, names of tools whole; tokens come at every byte, so
// that they are the same ones however the text is cut.
static void piece_feed(struct call *call, struct generation_choice *choice,
                       const struct piece *piece, int *number) {
    const size_t len = strlen(piece->text);
    size_t from = 0;
    for (size_t at = 1; at <= len; at++) {
        token_add(call, choice, (*number)++);
        const bool border = at == len || ((unsigned char)piece->text[at] & 0xC0) != 0x80;
        if (at < len && (!border || piece->part == PART_TOOL || below(3))) continue;
        part_feed(call, choice, piece->part, piece->text + from, at - from);
        from = at;
    }
}

static void choice_finish(struct call *call, struct generation_choice *choice,
                          const struct script *script) {
    struct generation *generation = call->generation;
    choice->ended = true;
    choice->finish = script->finish;
    choice->stop = script->stop ? strdup(script->stop) : NULL;
    choice->timings = (rn_timings){.prompt_tokens = 5, .output_tokens = 7, .cached_tokens = 2};
    generation->n_live--;
    token_add(call, choice, 4000); // one whose text is not shown
    if (generation->params.stream) generation->writer->choice_end(call, choice);
}

// Tells every choice its script, pieces of different choices in turn, and ends the answer. Uses
// scripts over again when there are fewer.
static inline void generation_tell(struct call *call, const struct script *script, int n_scripts) {
    struct generation *generation = call->generation;
    choices_create(generation);
    int number[RN_MAX_CHOICES] = {0};
    if (generation->params.stream && generation->writer->begin) generation->writer->begin(call);
    for (int p = 0; p < 8; p++) {
        for (int i = 0; i < generation->n_choices; i++) {
            const struct piece *piece = &script[i % n_scripts].piece[p];
            if (piece->text) piece_feed(call, &generation->choice[i], piece, &number[i]);
        }
    }
    for (int i = generation->n_choices - 1; i >= 0; i--) {
        choice_finish(call, &generation->choice[i], &script[i % n_scripts]);
    }
    generation_write_end(call);
    call_fill(call, SIZE_MAX);
    assert_false(call->out.failed);
}

// ---------------------------------------------------------------- streams

// The events of a stream: an array of what "data: " brought. [DONE] must be there and last, and is
// left out.
static inline json_t *events_of(const struct call *call, bool with_done) {
    json_t *events = json_array();
    const char *at = call->out.data, *end = at + call->out.len;
    bool done = false;
    while (at < end) {
        check(!done, "something follows [DONE]: %.*s", (int)(end - at), at);
        const char *stop = memmem(at, (size_t)(end - at), "\n\n", 2);
        check(stop && !strncmp(at, "data: ", 6), "no event: %.*s", (int)(end - at), at);
        const size_t len = (size_t)(stop - at) - 6;
        assert_null(memchr(at, '\n', (size_t)(stop - at)));
        done = len == 6 && !memcmp(at + 6, "[DONE]", 6);
        if (!done) json_array_append_new(events, json_of(at + 6, len));
        at = stop + 2;
    }
    assert_int_equal(done, with_done);
    return events;
}

static inline void string_append(json_t *object, const char *key, const char *more) {
    if (!more) return;
    const char *before = string_at(object, key);
    char *joined = NULL;
    assert_true(asprintf(&joined, "%s%s", before ? before : "", more) >= 0);
    json_object_set_new(object, key, json_string(joined));
    free(joined);
}

#endif
