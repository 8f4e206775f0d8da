// POST /v1/chat/completions/derender and /v1/completions/derender: answers of
// /inference/v1/generate become answers of OpenAI's routes. Their token ids become text, which is
// taken apart as a text of the engine is, and the route's own writer writes it. Workers only; the
// engine does nothing for it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "json_edit.h"
#include "openai.h"
#include "prompt_ids.h"
#include "routes.h"
#include "streams.h"

enum { PATH_SIZE = 96, ID_BYTES_MAX = 256 };

// ---------------------------------------------------------------- logprobs

// "token_id:5", as a token is written where its text need not be one.
static bool token_read(struct call *call, const json_t *entry, const char *path, rn_logprob *out) {
    static const char before[] = "token_id:";
    const struct fields fields = fields_of(call, entry, path);
    const char *text = "";
    char *end = NULL;
    double logprob = -9999;
    if (!field_string(&fields, "token", SIZE_MAX, &text, NULL)) return false;
    const bool is_id = !strncmp(text, before, strlen(before));
    const char *digits = text + strlen(before);
    const long id = is_id && *digits >= '0' && *digits <= '9' ? strtol(digits, &end, 10) : -1;
    if (!end || *end || id < 0 || id >= call->served->info->n_vocab)
        return field_refuse(&fields, "token", "expected \"token_id:N\" with the id of a token");
    if (!field_real(&fields, "logprob", -1e30, 1e30, &logprob)) return false;
    *out = (rn_logprob){(int32_t)id, (float)logprob};
    return true;
}

static bool tops_read(struct call *call, const json_t *entry, const char *path,
                      struct generation_choice *choice, struct token_logprob *own) {
    const struct fields fields = fields_of(call, entry, path);
    const json_t *list = NULL;
    if (!field_array(&fields, "top_logprobs", TOP_LOGPROBS_MAX, &list)) return false;
    own->first_top = choice->n_top;
    own->n_top = (int)json_array_size(list);
    for (int i = 0; i < own->n_top; i++) {
        char at[2 * PATH_SIZE];
        snprintf(at, sizeof at, "%s.top_logprobs[%d]", path, i);
        if (!token_read(call, json_array_get(list, (size_t)i), at, &choice->top[choice->n_top]))
            return false;
        choice->n_top++;
    }
    if (own->n_top > call->generation->params.top_logprobs)
        call->generation->params.top_logprobs = own->n_top;
    return true;
}

static size_t tops_size(const json_t *list) {
    const json_t *entry;
    size_t i, n = 0;
    json_array_foreach(list, i, entry) {
        n += json_array_size(json_object_get(entry, "top_logprobs"));
    }
    return n;
}

// {"content":[...]} of a choice, as /inference/v1/generate writes it.
static bool logprobs_read(struct call *call, const struct fields *of,
                          struct generation_choice *choice) {
    const json_t *logprobs = NULL, *list = NULL;
    char path[PATH_SIZE + 32];
    if (!field_object(of, "logprobs", &logprobs)) return false;
    if (!logprobs) return true;
    snprintf(path, sizeof path, "%.*s.logprobs", PATH_SIZE, of->path);
    const struct fields fields = fields_of(call, logprobs, path);
    if (!field_array(&fields, "content", (size_t)call->served->engine_info.n_ctx, &list))
        return false;
    const size_t n = json_array_size(list);
    call->generation->params.logprobs = true;
    choice->logprob = calloc(n + 1, sizeof *choice->logprob);
    choice->top = calloc(tops_size(list) + 1, sizeof *choice->top);
    if (!choice->logprob || !choice->top) return call_refuse_memory(call);
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(list, i);
        struct token_logprob *own = &choice->logprob[i];
        rn_logprob token;
        snprintf(path, sizeof path, "%.64s.logprobs.content[%zu]", of->path, i);
        if (!json_is_object(entry))
            return call_refuse(call, 400, path, "invalid_type", "%s: expected an object", path);
        if (!token_read(call, entry, path, &token) || !tops_read(call, entry, path, choice, own))
            return false;
        own->token = token.token;
        own->logprob = token.logprob;
        choice->n_logprob++;
    }
    return true;
}

// ---------------------------------------------------------------- text

// Whether a token has no text but its name.
static bool is_special(const rn_model *model, int32_t token) {
    char *text = NULL;
    size_t len = 1;
    if (rn_detokenize(model, &token, 1, false, &text, &len, NULL)) return false;
    rn_free(text);
    size_t name_len;
    rn_token_bytes(model, token, &name_len);
    return len == 0 && name_len > 0;
}

// The text up to the stop string that ended it.
static size_t stop_cut(const struct generation *generation, const struct generation_choice *choice,
                       const char *text, size_t len) {
    const size_t n = choice->stop ? strlen(choice->stop) : 0;
    if (!n || generation->params.include_stop) return len;
    for (size_t at = len >= n ? len - n + 1 : 0; at-- > 0;)
        if (!memcmp(text + at, choice->stop, n)) return at;
    return len;
}

// Whether the last token ended the text, and so is no part of it.
static bool ends_text(const struct call *call, const struct generation_choice *choice,
                      int32_t token) {
    const struct params *params = &call->generation->params;
    if (choice->finish != RN_FINISH_STOP || choice->stop) return false;
    if (choice->is_token_stop) return token == choice->stop_token && !params->include_stop;
    return !params->ignore_eos && is_special(call->served->model, token);
}

static bool text_take(struct call *call, struct generation_choice *choice, const int32_t *ids,
                      size_t n_ids) {
    const struct generation *generation = call->generation;
    const rn_model *model = call->served->model;
    char *text = NULL;
    size_t len = 0;
    rn_error err = {0};
    if (n_ids && ends_text(call, choice, ids[n_ids - 1])) n_ids--;
    if (rn_detokenize(model, ids, n_ids, generation->special_text, &text, &len, &err))
        return call_refuse_error(call, "token_ids", &err);
    const bool ok = streams_feed(call, choice, text, stop_cut(generation, choice, text, len));
    rn_free(text);
    return ok || call_refuse_memory(call);
}

// ---------------------------------------------------------------- choices

// The stop string that ended the text, or the id of the token that did; null or absent for others.
static bool stop_reason_read(const struct fields *fields, struct generation_choice *choice) {
    const json_t *reason = json_object_get(fields->object, "stop_reason");
    int64_t token = 0;
    if (json_is_string(reason)) {
        choice->stop = strdup(json_string_value(reason));
        return choice->stop || call_refuse_memory(fields->call);
    }
    if (!field_int(fields, "stop_reason", 0, params_vocab(fields->call) - 1, &token)) return false;
    choice->is_token_stop = json_is_given(fields->object, "stop_reason");
    choice->stop_token = (int32_t)token;
    return true;
}

static bool finish_read(const struct fields *fields, struct generation_choice *choice) {
    static const rn_finish finishes[] = {RN_FINISH_STOP, RN_FINISH_LENGTH, RN_FINISH_STOP,
                                         RN_FINISH_CACHE};
    int finish = 0;
    if (!field_choice(fields, "finish_reason", "stop|length|tool_calls|cache_threshold", &finish))
        return false;
    choice->finish = finishes[finish];
    return stop_reason_read(fields, choice);
}

// The tokens of a choice; a choice that ended with its prompt has none.
static bool ids_read(const struct fields *fields, int32_t **ids, size_t *n_ids) {
    const json_t *list = NULL;
    char path[PATH_SIZE + 16];
    *ids = NULL;
    *n_ids = 0;
    if (!field_array(fields, "token_ids", (size_t)fields->call->served->engine_info.n_ctx, &list))
        return false;
    if (!list) return field_refuse(fields, "token_ids", "missing");
    if (!json_array_size(list)) return true;
    snprintf(path, sizeof path, "%.*s.token_ids", PATH_SIZE, fields->path);
    return prompt_ids_of_list(fields->call, list, path, ids, n_ids);
}

static bool choice_take(struct call *call, const json_t *given, const char *path,
                        struct generation_choice *choice) {
    const struct fields fields = fields_of(call, given, path);
    int64_t index = choice->index % call->generation->params.n;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    if (!json_is_object(given))
        return call_refuse(call, 400, path, "invalid_type", "%s: expected an object", path);
    if (!field_int(&fields, "index", index, index, &index)) return false;
    if (!ids_read(&fields, &ids, &n_ids)) return false;
    choice->ended = true;
    choice->n_output = choice->timings.output_tokens = (int)n_ids;
    const bool ok = finish_read(&fields, choice) && logprobs_read(call, &fields, choice) &&
                    text_take(call, choice, ids, n_ids);
    rn_free(ids);
    return ok;
}

// The choices of an answer; all answers have the same number of them.
static bool choices_find(struct call *call, const json_t *response, const char *path,
                         const json_t **out) {
    const struct fields fields = fields_of(call, response, path);
    *out = NULL;
    if (!json_is_object(response))
        return call_refuse(call, 400, path, "invalid_type", "%s: expected an object", path);
    if (!field_array(&fields, "choices", RN_MAX_CHOICES, out)) return false;
    return json_array_size(*out) || field_refuse(&fields, "choices", "it has none");
}

static bool choices_take(struct call *call, const json_t *response, const char *path, int index) {
    const int n = call->generation->params.n;
    const json_t *list;
    if (!choices_find(call, response, path, &list)) return false;
    if ((int)json_array_size(list) != n)
        return call_refuse(call, 400, path, "invalid_value",
                           "%s.choices: %zu of them, the first answer has %d", path,
                           json_array_size(list), n);
    for (int i = 0; i < n; i++) {
        char at[PATH_SIZE];
        snprintf(at, sizeof at, "%.64s.choices[%d]", path, i);
        if (!choice_take(call, json_array_get(list, (size_t)i), at,
                         &call->generation->choice[index * n + i]))
            return false;
    }
    return true;
}

// ---------------------------------------------------------------- the answer

// What a request of chat or completions has besides: no engine is going to look at it.
static void settings_drop(struct generation *generation) {
    struct params *params = &generation->params;
    params->stream = params->logprobs = params->prompt_logprobs = false;
    params->return_token_ids = params->tokens_as_ids = false;
    params->top_logprobs = 0;
    generation->keep_tokens = false;
    generation->shape_due = 0;
}

static void answer_write(struct call *call) {
    const struct generation *generation = call->generation;
    for (int i = 0; i < generation->n_choices; i++) generation->writer->whole(call, i);
    call_answer(call);
}

// Nothing is left for the engine.
static void forget(struct call *call) {
    generation_destroy(call->generation);
    call->generation = NULL;
}

// The state of the writer: the id of the first answer, and members that go through.
static bool state_make(struct call *call, const json_t *first, const json_t *kv, bool is_chat) {
    const struct fields fields = fields_of(call, first, "generate_response");
    const char *id = "";
    char own[CALL_ID_BYTES];
    if (!field_string(&fields, "request_id", ID_BYTES_MAX, &id, NULL)) return false;
    if (!*id) call_answer_id(call, own);
    if (!openai_state_named(call, *id ? id : own, is_chat ? "chat.completion" : "text_completion"))
        return false;
    struct openai_state *state = openai_state_of(call);
    const json_t *scores = json_object_get(first, "prompt_logprobs");
    state->is_chat = is_chat;
    state->is_derendered = true;
    state->kv_transfer_params = kv && !json_is_null(kv) ? kv : NULL;
    state->prompt_logprobs = is_chat && scores && !json_is_null(scores) ? scores : NULL;
    return streams_choices_create(call) || call_refuse_memory(call);
}

// The length of a prompt; absent and null leave it as it is. The sum over all prompts of a request
// is an int.
static bool count_read(const struct fields *fields, const json_t *given, size_t *n) {
    enum { COUNT_MAX = INT32_MAX / PROMPTS_MAX };
    const json_int_t value = json_integer_value(given);
    char shown[JSON_SHOWN_BYTES];
    if (!given || json_is_null(given)) return true;
    *n = (size_t)value;
    return (json_is_integer(given) && value >= 0 && value <= COUNT_MAX) ||
           field_refuse(fields, "prompt_tokens", "expected a number of tokens, 0 to %d, got %s",
                        COUNT_MAX, json_shown(given, shown));
}

// ---------------------------------------------------------------- chat

// The prompt of the request says how the answer is to be taken apart. Only its length is needed
// then, which may be given.
static bool chat_read(struct call *call, const json_t *body) {
    struct generation *generation = call->generation;
    const struct fields fields = fields_of(call, body, "");
    const json_t *request = NULL;
    if (!field_object(&fields, "chat_request", &request)) return false;
    if (!(request ? chat_prompt(call, request, generation)
                  : generation_add(call, generation, NULL, 0)))
        return false;
    struct generation_prompt *prompt = &generation->prompt[0];
    rn_free(prompt->ids);
    prompt->ids = NULL;
    return count_read(&fields, json_object_get(body, "prompt_tokens"), &prompt->n_ids);
}

static bool chat_make(struct call *call, const json_t *body, const json_t *response) {
    const json_t *choices;
    if (!chat_read(call, body)) return false;
    settings_drop(call->generation);
    if (!choices_find(call, response, "generate_response", &choices)) return false;
    call->generation->params.n = (int)json_array_size(choices);
    return state_make(call, response, json_object_get(response, "kv_transfer_params"), true) &&
           choices_take(call, response, "generate_response", 0);
}

// The body, and a generation for it. `stream` would be a piece of an answer.
static const json_t *body_read(struct call *call, const struct writer *writer) {
    const json_t *body = call_json(call);
    if (!body || !params_model(call, body)) return NULL;
    const struct fields fields = fields_of(call, body, "");
    if (!field_unsupported(&fields, "stream", true, "whole answers alone are derendered"))
        return NULL;
    return generation_create(call, writer) ? body : NULL;
}

void derender_chat(struct call *call) {
    const json_t *body = body_read(call, &chat_writer), *response = NULL;
    if (!body) return;
    const struct fields fields = fields_of(call, body, "");
    if (field_object(&fields, "generate_response", &response)) {
        if (!response)
            field_refuse(&fields, "generate_response", "missing");
        else if (chat_make(call, body, response))
            answer_write(call);
    }
    forget(call);
}

// ---------------------------------------------------------------- completions

// kv_transfer_params where all answers have the same.
static const json_t *kv_of(const json_t *list) {
    const json_t *first = json_object_get(json_array_get(list, 0), "kv_transfer_params");
    for (size_t i = 1; i < json_array_size(list); i++) {
        json_t *other = json_object_get(json_array_get(list, i), "kv_transfer_params");
        if (!json_equal(first, other)) return NULL;
    }
    return first;
}

static bool prompts_count(struct call *call, const struct fields *fields, size_t n) {
    const json_t *counts = NULL;
    if (!field_array(fields, "prompt_tokens", PROMPTS_MAX, &counts)) return false;
    if (counts && json_array_size(counts) != n)
        return field_refuse(fields, "prompt_tokens", "%zu numbers for %zu answers",
                            json_array_size(counts), n);
    for (size_t i = 0; i < n; i++) {
        size_t length = 0;
        if (!count_read(fields, json_array_get(counts, i), &length) ||
            !generation_add(call, call->generation, NULL, length))
            return false;
    }
    return true;
}

static bool completions_make(struct call *call, const json_t *body) {
    const struct fields fields = fields_of(call, body, "");
    const json_t *list = NULL, *request = NULL, *choices;
    static const char name[] = "generate_responses";
    if (!field_array(&fields, name, PROMPTS_MAX, &list)) return false;
    if (!field_object(&fields, "completion_request", &request)) return false;
    const size_t n = json_array_size(list);
    if (!n) return field_refuse(&fields, name, "at least one answer is needed");
    if (request && !params_read(call, request, FAMILY_COMPLETIONS, &call->generation->params))
        return false;
    settings_drop(call->generation);
    const json_t *first = json_array_get(list, 0);
    if (!choices_find(call, first, "generate_responses[0]", &choices)) return false;
    call->generation->params.n = (int)json_array_size(choices);
    if (!prompts_count(call, &fields, n) || !state_make(call, first, kv_of(list), false))
        return false;
    for (size_t i = 0; i < n; i++) {
        char path[PATH_SIZE];
        snprintf(path, sizeof path, "%s[%zu]", name, i);
        if (!choices_take(call, json_array_get(list, i), path, (int)i)) return false;
    }
    return true;
}

void derender_completions(struct call *call) {
    const json_t *body = body_read(call, &completions_writer);
    if (!body) return;
    if (completions_make(call, body)) answer_write(call);
    forget(call);
}
