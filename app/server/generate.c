// POST /inference/v1/generate: token ids in, token ids out, with vLLM's names. The settings are in
// sampling_params; the prompt is continued as it is, as /v1/completions continues one. A stream has
// a chunk for each token, also for tokens whose text is not certain yet.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generation_shape.h"
#include "helpers.h"
#include "openai.h"
#include "prompt_ids.h"
#include "routes.h"
#include "routing.h"
#include "template_input.h"

#define PREFIX "generate-tokens-"

// ---------------------------------------------------------------- parts of an answer

static void id_put(const struct call *call, struct jbuf *out) {
    jbuf_key(out, "request_id");
    jbuf_text(out, "\"" PREFIX);
    const char *id = routing_id(call);
    jbuf_escape(out, id, strlen(id));
    jbuf_text(out, "\"");
}

static void logprob_put(rn_logprob token, struct jbuf *out) {
    jbuf_printf(out, "{\"token\":\"token_id:%d\",\"logprob\":", (int)token.token);
    openai_logprob(token.logprob, out);
    jbuf_text(out, ",\"bytes\":null");
}

// The choice's logprobs are taken.
static void logprobs_put(const struct call *call, struct generation_choice *choice,
                         struct jbuf *out) {
    jbuf_key(out, "logprobs");
    if (!call->generation->params.logprobs) {
        jbuf_text(out, "null");
        return;
    }
    jbuf_text(out, "{\"content\":[");
    for (int i = 0; i < choice->n_logprob; i++) {
        const struct token_logprob *own = &choice->logprob[i];
        if (i) jbuf_text(out, ",");
        logprob_put((rn_logprob){own->token, own->logprob}, out);
        jbuf_text(out, ",\"top_logprobs\":[");
        for (int j = 0; j < own->n_top; j++) {
            if (j) jbuf_text(out, ",");
            logprob_put(choice->top[own->first_top + j], out);
            jbuf_text(out, "}");
        }
        jbuf_text(out, "]}");
    }
    jbuf_text(out, "]}");
    choice->n_logprob = choice->n_top = 0;
}

// {"index":...,"token_ids":[...],"logprobs":... and the tokens are taken. The brace stays open.
static void choice_put(const struct call *call, struct generation_choice *choice,
                       struct jbuf *out) {
    jbuf_text(out, "{\"index\":");
    jbuf_int(out, choice->index);
    jbuf_text(out, ",\"token_ids\":[");
    for (int i = 0; i < choice->n_tokens; i++) {
        if (i) jbuf_text(out, ",");
        jbuf_int(out, choice->token[i]);
    }
    jbuf_text(out, "]");
    choice->n_tokens = 0;
    logprobs_put(call, choice, out);
}

// ---------------------------------------------------------------- writer

static void chunk_put(struct call *call, struct generation_choice *choice) {
    struct jbuf *out = &call->out;
    jbuf_text(out, "data: {");
    id_put(call, out);
    jbuf_text(out, ",\"choices\":[");
    choice_put(call, choice, out);
    if (choice->ended)
        openai_finish(choice, out);
    else
        jbuf_text(out, ",\"finish_reason\":null");
    jbuf_text(out, "}]}\n\n");
}

static void stream_delta(struct call *call, const struct delta *delta) {
    (void)call; // the tokens are the answer
    (void)delta;
}

// The last token goes with the end of the choice.
static void stream_token(struct call *call, struct generation_choice *choice) {
    if (!choice->ended) chunk_put(call, choice);
}

static void stream_end(struct call *call) {
    struct jbuf *out = &call->out;
    if (call->generation->params.include_usage) {
        jbuf_text(out, "data: {");
        id_put(call, out);
        jbuf_text(out, ",\"choices\":[],");
        openai_usage(call->generation, false, out);
        jbuf_text(out, ",");
        generation_timings(call, out);
        jbuf_text(out, "}\n\n");
    }
    jbuf_text(out, "data: [DONE]\n\n");
}

static void whole_write(struct call *call, int i) {
    struct jbuf *out = &call->out;
    if (!i) {
        jbuf_text(out, "{");
        id_put(call, out);
        jbuf_key(out, "model");
        jbuf_cstring(out, call->served->name);
        jbuf_put_int(out, "created", call->created);
        jbuf_text(out, ",\"choices\":[");
    } else {
        jbuf_text(out, ",");
    }
    choice_put(call, &call->generation->choice[i], out);
    openai_finish(&call->generation->choice[i], out);
    jbuf_text(out, "}");
    if (i < call->generation->n_choices - 1) return;
    jbuf_text(out, "],");
    openai_usage(call->generation, false, out);
    if (call->generation->params.prompt_logprobs)
        openai_prompt_logprobs(call, 0, out);
    else
        jbuf_text(out, ",\"prompt_logprobs\":null");
    jbuf_text(out, ",\"kv_transfer_params\":null,");
    generation_timings(call, out);
    jbuf_text(out, "}");
}

static const struct writer writer = {.whole = whole_write,
                                     .delta = stream_delta,
                                     .token = stream_token,
                                     .choice_end = chunk_put,
                                     .end = stream_end,
                                     .error = openai_error};

// ---------------------------------------------------------------- reading

// One object for the readers of fields: sampling_params with the fields of the request beside it.
// Its values belong to the body as well, so strings outlive it. NULL: refused.
static json_t *settings_join(struct call *call, const json_t *body) {
    static const char *const beside[] = {"model",          "stream",
                                         "stream_options", "cache_salt",
                                         "priority",       "timeout_ms",
                                         "user",           "cache_hit_threshold"};
    const struct fields fields = fields_of(call, body, "");
    const json_t *given = NULL;
    if (!field_object(&fields, "sampling_params", &given)) return NULL;
    json_t *all = given ? json_copy((json_t *)(uintptr_t)given) : json_object();
    for (size_t i = 0; all && i < sizeof beside / sizeof *beside; i++) {
        json_t *value = json_object_get(body, beside[i]);
        if (value && json_object_set(all, beside[i], value)) {
            json_decref(all);
            all = NULL;
        }
    }
    if (!all) call_refuse_memory(call);
    call->big_seed[SEED_BODY] = call->big_seed[SEED_SETTINGS]; // the settings are read as a body
    return all;
}

static bool prompt_read(struct call *call, const json_t *body) {
    const struct fields fields = fields_of(call, body, "");
    const json_t *list = json_object_get(body, "token_ids");
    int32_t *ids;
    size_t n_ids;
    if (!list || json_is_null(list)) return field_refuse(&fields, "token_ids", "missing");
    return prompt_ids_of_list(call, list, "token_ids", &ids, &n_ids) &&
           generation_add(call, call->generation, ids, n_ids);
}

// The body's id is the request's, where no header has one.
static bool id_read(struct call *call, const json_t *body) {
    const struct fields fields = fields_of(call, body, "");
    const char *id = "";
    if (!field_string(&fields, "request_id", CALL_REQUEST_ID_BYTES - 1, &id, NULL)) return false;
    for (const char *at = id; *at; at++)
        if (*at <= ' ' || *at > '~')
            return field_refuse(&fields, "request_id", "it has characters that are not visible");
    if (!*call->request_id) memcpy(call->request_id, id, strlen(id) + 1);
    return field_unsupported(&fields, "features", false, CONTENT_TEXT_ALONE) &&
           field_unsupported(&fields, "content_parts", false, CONTENT_TEXT_ALONE);
}

static bool settings_read(struct call *call, const json_t *settings) {
    struct generation *generation = call->generation;
    struct params *params = &generation->params;
    if (!params_read(call, settings, FAMILY_COMPLETIONS, params)) return false;
    if (!generation_shape_read(call, generation, settings, FAMILY_COMPLETIONS)) return false;
    generation->scores = params->prompt_logprobs;
    generation->top_prompt = params->top_prompt_logprobs;
    generation->keep_tokens = true;
    return true;
}

void generate_prepare(struct call *call) {
    const json_t *body = call_json(call);
    if (!body || !generation_create(call, &writer)) return;
    json_t *settings = settings_join(call, body);
    if (!settings) return;
    if (id_read(call, body) && settings_read(call, settings) && prompt_read(call, body) &&
        generation_check(call, call->generation, "token_ids"))
        generation_shape_want(call, call->generation, NULL);
    json_decref(settings);
}
