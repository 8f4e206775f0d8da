// llama.cpp's own completion: prompts that are texts, ids or both, answered by one object for each,
// whole or piece by piece. The fields are those of its server's documentation.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "fim.h"
#include "generation_shape.h"
#include "helpers.h"
#include "native_settings.h"
#include "openai.h"
#include "prompt_ids.h"
#include "routes.h"

enum { RESPONSE_FIELDS_MAX = 64 };

// The writer's state besides the generation.
struct native {
    bool return_tokens;
    const json_t *response_fields; // of the call's JSON; NULL: all
    struct native_choice {
        int n_written; // tokens that are in earlier chunks
        bool has_new_line;
    } choice[]; // [n_choices]
};

static struct native *native_of(const struct call *call) { return call->generation->own; }

// ---------------------------------------------------------------- parts of an answer

static void tokens_write(struct jbuf *out, const int32_t *token, int n) {
    jbuf_key(out, "tokens");
    jbuf_text(out, "[");
    for (int i = 0; i < n; i++) {
        if (i) jbuf_text(out, ",");
        jbuf_int(out, token[i]);
    }
    jbuf_text(out, "]");
}

// The members of an object; its brace is open.
static void logprob_write(struct jbuf *out, const rn_model *model, int32_t token, float logprob) {
    size_t len;
    const char *bytes = rn_token_bytes(model, token, &len);
    jbuf_key(out, "id");
    jbuf_int(out, token);
    jbuf_key(out, "token");
    jbuf_string(out, bytes, len);
    jbuf_key(out, "bytes");
    jbuf_text(out, "[");
    for (size_t i = 0; i < len; i++) {
        if (i) jbuf_text(out, ",");
        jbuf_uint(out, (unsigned char)bytes[i]);
    }
    jbuf_text(out, "]");
    jbuf_key(out, "logprob");
    jbuf_real(out, (double)logprob, 6);
}

static void probabilities_write(struct jbuf *out, const rn_model *model,
                                const struct generation_choice *choice) {
    jbuf_key(out, "completion_probabilities");
    jbuf_text(out, "[");
    for (int i = 0; i < choice->n_logprob; i++) {
        const struct token_logprob *own = &choice->logprob[i];
        jbuf_text(out, i ? ",{" : "{");
        logprob_write(out, model, own->token, own->logprob);
        jbuf_key(out, "top_logprobs");
        jbuf_text(out, "[");
        for (int j = 0; j < own->n_top; j++) {
            const rn_logprob *top = &choice->top[own->first_top + j];
            jbuf_text(out, j ? ",{" : "{");
            logprob_write(out, model, top->token, top->logprob);
            jbuf_text(out, "}");
        }
        jbuf_text(out, "]}");
    }
    jbuf_text(out, "]");
}

static const char *stop_type(const struct generation_choice *choice) {
    switch (choice->finish) {
    case RN_FINISH_STOP:
        return choice->stop ? "word" : "eos";
    case RN_FINISH_LENGTH:
        return "limit";
    default:
        return "none";
    }
}

static bool has_new_line(const struct call *call, const struct generation_choice *choice) {
    if (native_of(call)->choice[choice->index].has_new_line) return true;
    return choice->text.len && memchr(choice->text.data, '\n', choice->text.len);
}

static void int_write(struct jbuf *out, const char *key, int64_t value) {
    jbuf_key(out, key);
    jbuf_int(out, value);
}

// Timings of this choice alone: the sums see it as a call of its own.
static void timings_write(const struct call *call, const struct generation_choice *choice,
                          struct jbuf *out) {
    struct generation one = *call->generation;
    struct call its = *call;
    one.choice = (struct generation_choice *)choice;
    one.n_choices = 1;
    its.generation = &one;
    jbuf_text(out, ",");
    generation_timings(&its, out);
}

// How the choice went: the members that streams and whole answers have in common.
static void result_write(struct call *call, const struct generation_choice *choice,
                         struct jbuf *out) {
    const struct generation *generation = call->generation;
    const struct served *served = call->served;
    const rn_timings *timings = &choice->timings;
    const struct generation_prompt *prompt = &generation->prompt[choice->prompt];
    const bool full = timings->prompt_tokens + timings->output_tokens >= served->engine_info.n_ctx;
    jbuf_printf(out, ",\"id_slot\":%d,\"stop\":true", generation->params.id_slot);
    jbuf_key(out, "model");
    jbuf_cstring(out, served->name);
    int_write(out, "tokens_predicted", timings->output_tokens);
    int_write(out, "tokens_evaluated", timings->prompt_tokens);
    int_write(out, "tokens_cached", timings->cached_tokens);
    jbuf_key(out, "generation_settings");
    native_settings_write(out, served, &generation->params, &generation->shape, &choice->seed);
    jbuf_key(out, "prompt");
    jbuf_string(out, prompt->text ? prompt->text : "", prompt->text ? prompt->text_len : 0);
    jbuf_key(out, "has_new_line");
    jbuf_bool(out, has_new_line(call, choice));
    jbuf_key(out, "truncated");
    jbuf_bool(out, choice->finish == RN_FINISH_LENGTH && full);
    jbuf_key(out, "stop_type");
    jbuf_cstring(out, stop_type(choice));
    jbuf_key(out, "stopping_word");
    jbuf_cstring(out, choice->stop ? choice->stop : "");
    timings_write(call, choice, out);
}

// ---------------------------------------------------------------- response_fields

// Fields are picked from the answer's text, which is our own and so is valid: no JSON tree is
// built.
struct span {
    const char *at, *end;
};

static const char *string_skip(const char *at) {
    for (at++; *at != '"'; at++) at += *at == '\\';
    return at + 1;
}

static const char *value_skip(const char *at) {
    int depth = 0;
    while (depth || !strchr(",}]", *at)) {
        if (*at == '"') {
            at = string_skip(at);
            continue;
        }
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        at++;
    }
    return at;
}

// The value of an object's member; at is NULL where there is none.
static struct span member_find(struct span object, const char *name, size_t len) {
    const char *at = object.at;
    while (at && *at != '}' && (*at == '{' || *at == ',') && at[1] == '"') {
        const char *key = at + 1, *value = string_skip(key) + 1;
        at = value_skip(value);
        if ((size_t)(value - key) == len + 3 && !memcmp(key + 1, name, len))
            return (struct span){value, at};
    }
    return (struct span){0};
}

// "a/b/c" is the value of c in b in a. Its key is the whole path, once.
static void field_pick(struct span object, const json_t *list, size_t index, struct jbuf *out) {
    const char *path = json_string_value(json_array_get(list, index)), *part = path;
    for (size_t i = 0; i < index; i++)
        if (!strcmp(json_string_value(json_array_get(list, i)), path)) return;
    for (const char *slash; (slash = strchr(part, '/')); part = slash + 1)
        object = member_find(object, part, (size_t)(slash - part));
    const struct span value = member_find(object, part, strlen(part));
    if (!value.at) return;
    jbuf_key(out, path);
    jbuf_bytes(out, value.at, (size_t)(value.end - value.at));
}

// The object that was written at `from` on, reduced to the fields that were asked for.
static void fields_pick(struct call *call, size_t from) {
    struct jbuf *out = &call->out, picked = {0};
    const json_t *list = native_of(call)->response_fields;
    if (!list || !json_array_size(list) || out->failed) return;
    const struct span object = {out->data + from, out->data + out->len};
    jbuf_text(&picked, "{");
    for (size_t i = 0; i < json_array_size(list); i++) field_pick(object, list, i, &picked);
    jbuf_text(&picked, "}");
    out->len = from;
    out->failed = picked.failed;
    jbuf_bytes(out, picked.data, picked.len);
    jbuf_deinit(&picked);
}

// ---------------------------------------------------------------- writer

// A chunk with this text and the tokens that came since the last one. Its brace stays open.
static void chunk_open(struct call *call, const struct generation_choice *choice, const char *text,
                       size_t len) {
    struct jbuf *out = &call->out;
    struct native_choice *own = &native_of(call)->choice[choice->index];
    jbuf_text(out, "data: {\"index\":");
    jbuf_int(out, choice->index);
    jbuf_key(out, "content");
    jbuf_string(out, text, len);
    tokens_write(out, choice->token + own->n_written, choice->n_tokens - own->n_written);
    own->n_written = choice->n_tokens;
    jbuf_printf(out, ",\"stop\":false,\"id_slot\":%d", call->generation->params.id_slot);
    int_write(out, "tokens_predicted", choice->n_tokens);
    int_write(out, "tokens_evaluated", (int64_t)call->generation->prompt[choice->prompt].n_ids);
}

static void chunk_write(struct call *call, struct generation_choice *choice, const char *text,
                        size_t len) {
    struct jbuf *out = &call->out;
    chunk_open(call, choice, text, len);
    if (choice->n_logprob) probabilities_write(out, call->served->model, choice);
    choice->n_logprob = choice->n_top = 0;
    generation_timings_now(call, choice, out);
    jbuf_text(out, "}\n\n");
}

static void write_progress(struct call *call, const struct generation_choice *choice,
                           const rn_event *event) {
    chunk_open(call, choice, "", 0);
    generation_timings_now(call, choice, &call->out);
    generation_progress(call, choice, event, &call->out);
    jbuf_text(&call->out, "}\n\n");
}

static void write_delta(struct call *call, const struct delta *delta) {
    struct native_choice *own = &native_of(call)->choice[delta->choice->index];
    if (delta->len && memchr(delta->text, '\n', delta->len)) own->has_new_line = true;
    chunk_write(call, delta->choice, delta->text, delta->len);
}

static void write_choice_end(struct call *call, struct generation_choice *choice) {
    struct jbuf *out = &call->out;
    // an end token and the tokens of a stop string have no text
    if (native_of(call)->choice[choice->index].n_written < choice->n_tokens || choice->n_logprob)
        chunk_write(call, choice, "", 0);
    jbuf_text(out, "data: ");
    const size_t from = out->len;
    jbuf_text(out, "{\"index\":");
    jbuf_int(out, choice->index);
    jbuf_text(out, ",\"content\":\"\",\"tokens\":[]");
    result_write(call, choice, out);
    jbuf_text(out, "}");
    fields_pick(call, from);
    jbuf_text(out, "\n\n");
}

static void choice_write(struct call *call, const struct generation_choice *choice) {
    struct jbuf *out = &call->out;
    const size_t from = out->len;
    const bool tokens = native_of(call)->return_tokens;
    jbuf_text(out, "{\"index\":");
    jbuf_int(out, choice->index);
    jbuf_key(out, "content");
    jbuf_string(out, choice->text.data, choice->text.len);
    tokens_write(out, choice->token, tokens ? choice->n_tokens : 0);
    result_write(call, choice, out);
    if (call->generation->params.logprobs) probabilities_write(out, call->served->model, choice);
    jbuf_text(out, "}");
    fields_pick(call, from);
}

// One result is an object, several are an array.
static void whole_write(struct call *call, int i) {
    const struct generation *generation = call->generation;
    const bool many = generation->n_choices > 1;
    if (many) jbuf_text(&call->out, i ? "," : "[");
    choice_write(call, &generation->choice[i]);
    if (many && i == generation->n_choices - 1) jbuf_text(&call->out, "]");
}

static const struct writer writer = {.whole = whole_write,
                                     .delta = write_delta,
                                     .progress = write_progress,
                                     .choice_end = write_choice_end,
                                     .error = openai_error};

// ---------------------------------------------------------------- reading

// The text of the last prompt, for the answer.
static bool prompt_show(struct call *call, const struct generation *generation, const char *path) {
    struct generation_prompt *prompt = &generation->prompt[generation->n_prompts - 1];
    return prompt_text_of(call, prompt->ids, prompt->n_ids, path, &prompt->text, &prompt->text_len);
}

// A prompt, and the text that shows it.
static bool prompt_add(struct call *call, struct generation *generation, const json_t *value,
                       const char *name) {
    char path[64];
    snprintf(path, sizeof path, "%s", name);
    int32_t *ids;
    size_t n_ids;
    if (!prompt_ids_unwrap(call, &value, path, sizeof path) ||
        !prompt_ids_read(call, value, path, RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL, &ids, &n_ids))
        return false;
    if (!generation_add(call, generation, ids, n_ids)) return false;
    return prompt_show(call, generation, path);
}

static bool prompts_read(struct call *call, struct generation *generation, const json_t *body) {
    const json_t *value = json_object_get(body, "prompt"), *item;
    if (!value || json_is_null(value))
        return call_refuse(call, 400, "prompt", NULL, "prompt: missing");
    if (!json_is_array(value) || prompt_ids_are_one(value))
        return prompt_add(call, generation, value, "prompt");
    if (json_array_size(value) > PROMPTS_MAX)
        return call_refuse(call, 400, "prompt", NULL,
                           "prompt: %zu prompts; at most %d are possible", json_array_size(value),
                           PROMPTS_MAX);
    size_t i;
    json_array_foreach(value, i, item) {
        char path[32];
        snprintf(path, sizeof path, "prompt[%zu]", i);
        if (!prompt_add(call, generation, item, path)) return false;
    }
    return true;
}

static bool response_fields_read(const struct fields *fields, const json_t **out) {
    const json_t *item;
    size_t i;
    if (!field_array(fields, "response_fields", RESPONSE_FIELDS_MAX, out)) return false;
    json_array_foreach(*out, i, item) {
        if (!json_is_string(item) || strlen(json_string_value(item)) != json_string_length(item))
            return field_refuse(fields, "response_fields", "item %zu is not the name of a field",
                                i);
    }
    return true;
}

static bool count_read(struct call *call, struct generation *generation, const json_t *body) {
    const struct fields fields = fields_of(call, body, "");
    int64_t n = generation->params.n;
    field_int(&fields, "n", 1, RN_MAX_CHOICES, &n);
    if (!field_int(&fields, "n_cmpl", 1, RN_MAX_CHOICES, &n)) return false;
    generation->params.n = (int)n;
    return true;
}

static bool own_create(struct call *call, struct generation *generation, const json_t *body) {
    const size_t n_choices = (size_t)generation->n_prompts * (size_t)generation->params.n;
    struct native *own = calloc(1, sizeof *own + n_choices * sizeof *own->choice);
    if (!own) return call_refuse_memory(call);
    generation->own = own;
    generation->own_free = free;
    const struct fields fields = fields_of(call, body, "");
    field_bool(&fields, "return_tokens", &own->return_tokens);
    if (!response_fields_read(&fields, &own->response_fields)) return false;
    generation->keep_tokens = own->return_tokens || generation->params.stream;
    return !call_refused(call);
}

// /infill: the text between input_prefix and input_suffix, which starts with prompt.
static bool infill_read(struct call *call, struct generation *generation, const json_t *body) {
    const struct fields fields = fields_of(call, body, "");
    struct fim fim = {0};
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "input_suffix" : "input_prefix";
        if (!json_is_string(json_object_get(body, name)))
            return field_refuse(&fields, name, "expected a string");
    }
    return field_string(&fields, "input_prefix", PROMPT_TEXT_MAX, &fim.prefix.data,
                        &fim.prefix.len) &&
           field_string(&fields, "input_suffix", PROMPT_TEXT_MAX, &fim.suffix.data,
                        &fim.suffix.len) &&
           field_string(&fields, "prompt", PROMPT_TEXT_MAX, &fim.start.data, &fim.start.len) &&
           field_array(&fields, "input_extra", PROMPTS_MAX, &fim.extra) &&
           fim_add(call, generation, &fim, "input_suffix") &&
           prompt_show(call, generation, "input_prefix");
}

static void prepare(struct call *call,
                    bool (*read)(struct call *, struct generation *, const json_t *)) {
    const json_t *body = call_json(call);
    if (!body) return;
    struct generation *generation = generation_create(call, &writer);
    if (!generation) return;
    if (params_read(call, body, FAMILY_NATIVE, &generation->params) &&
        generation_shape_read(call, generation, body, FAMILY_NATIVE) &&
        count_read(call, generation, body) && read(call, generation, body) &&
        own_create(call, generation, body) && generation_check(call, generation, "prompt"))
        generation_shape_want(call, generation, NULL);
}

void native_prepare(struct call *call) { prepare(call, prompts_read); }
void native_infill(struct call *call) { prepare(call, infill_read); }
