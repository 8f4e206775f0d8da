// POST /v1/completions/render and /v1/chat/completions/render: the token ids that the request would
// evaluate, and its settings, as a request of /inference/v1/generate. Routers ask for them, to look
// for the replica that has the longest part of the prompt. The engine does nothing for it. Workers
// only: the request is prepared as its own endpoint does, then written instead of submitted.
#include <string.h>

#include "generation_shape.h"
#include "native_settings.h"
#include "openai.h"
#include "routes.h"

// ---------------------------------------------------------------- sampling parameters

static void strings_put(struct jbuf *out, const char *key, const char *const *list, size_t n) {
    if (!n) return;
    jbuf_key(out, key);
    for (size_t i = 0; i < n; i++) {
        jbuf_text(out, i ? "," : "[");
        jbuf_cstring(out, list[i]);
    }
    jbuf_text(out, "]");
}

static void bool_put(struct jbuf *out, const char *key, bool value) {
    jbuf_key(out, key);
    jbuf_bool(out, value);
}

static void bias_put(struct jbuf *out, const rn_sampling *sampling) {
    if (!sampling->n_logit_bias) return;
    jbuf_key(out, "logit_bias");
    jbuf_text(out, "{");
    for (size_t i = 0; i < sampling->n_logit_bias; i++) {
        if (i) jbuf_text(out, ",");
        jbuf_printf(out, "\"%d\":%.9g", (int)sampling->logit_bias[i].token,
                    (double)sampling->logit_bias[i].bias);
    }
    jbuf_text(out, "}");
}

// A shape that the request asks for. Shapes that its tools make are left out.
static void shape_put(struct jbuf *out, const struct shape *shape) {
    static const char *const names[] = {
        [SHAPE_SCHEMA] = "json",    [SHAPE_OBJECT] = "json_object",
        [SHAPE_REGEX] = "regex",    [SHAPE_GRAMMAR] = "grammar",
        [SHAPE_CHOICES] = "choice", [SHAPE_STRUCTURE] = "structural_tag"};
    if (shape->kind == SHAPE_NONE) return;
    jbuf_text(out, ",\"structured_outputs\":{");
    jbuf_key(out, names[shape->kind]);
    if (shape->kind == SHAPE_OBJECT) {
        jbuf_text(out, "true");
    } else if (shape->kind == SHAPE_CHOICES) {
        jbuf_bytes(out, shape->text.data, shape->text.len);
    } else {
        jbuf_string(out, shape->text.data, shape->text.len);
    }
    jbuf_text(out, "}");
}

static void tokens_put(struct jbuf *out, const struct params *params, int max_tokens) {
    jbuf_put_int(out, "n", params->n);
    jbuf_put_int(out, "max_tokens", max_tokens);
    jbuf_put_int(out, "min_tokens", params->min_tokens);
    if (params->indent_min) jbuf_put_int(out, "n_indent", params->indent_min);
    if (params->line_ms_max > 0) jbuf_put_real(out, "t_max_predict_ms", params->line_ms_max, 3);
    // the same 64 bits, as the signed number that every reader of JSON takes
    if (params->sampling.has_seed) jbuf_put_int(out, "seed", (int64_t)params->sampling.seed);
    if (params->logprobs) jbuf_put_int(out, "logprobs", params_tops(params->top_logprobs));
    if (params->prompt_logprobs)
        jbuf_put_int(out, "prompt_logprobs", params_tops(params->top_prompt_logprobs));
}

static void sampling_put(struct jbuf *out, const struct generation *generation, int max_tokens) {
    const struct params *params = &generation->params;
    const rn_sampling *sampling = &params->sampling;
    jbuf_key(out, "sampling_params");
    jbuf_text(out, "{");
    tokens_put(out, params, max_tokens);
    native_numbers_write(out, sampling);
    strings_put(out, "dry_sequence_breakers", sampling->dry_sequence_breakers,
                sampling->n_dry_sequence_breakers);
    strings_put(out, "stop", params->stop, params->n_stop);
    strings_put(out, "bad_words", params->bad_words, params->n_bad_words);
    if (params->n_stop_token)
        jbuf_put_ids(out, "stop_token_ids", params->stop_token, params->n_stop_token);
    bool_put(out, "ignore_eos", params->ignore_eos);
    bool_put(out, "include_stop_str_in_output", params->include_stop);
    bias_put(out, sampling);
    shape_put(out, &generation->shape);
    jbuf_text(out, "}");
}

// ---------------------------------------------------------------- the answer

static void prompt_put(const struct call *call, int index, struct jbuf *out) {
    const struct generation *generation = call->generation;
    const struct params *params = &generation->params;
    const struct generation_prompt *prompt = &generation->prompt[index];
    const int left = call->served->engine_info.n_ctx - (int)prompt->n_ids;
    const int asked = params->max_tokens;
    char id[CALL_ID_BYTES];
    call_answer_id(call, id);
    jbuf_text(out, "{");
    jbuf_key(out, "request_id");
    jbuf_cstring(out, id);
    jbuf_put_ids(out, "token_ids", prompt->ids, prompt->n_ids);
    jbuf_text(out, ",\"features\":null");
    sampling_put(out, generation, asked < 0 || asked > left ? left : asked);
    jbuf_key(out, "model");
    jbuf_cstring(out, call->served->name);
    bool_put(out, "stream", params->stream);
    jbuf_text(out, ",\"stream_options\":");
    jbuf_text(out, params->include_usage ? "{\"include_usage\":true}" : "null");
    jbuf_key(out, "cache_salt");
    jbuf_cstring(out, params->cache_salt);
    jbuf_put_int(out, "priority", params->priority);
    jbuf_text(out, ",\"kv_transfer_params\":null}");
}

// Nothing is left for the engine.
static void forget(struct call *call) {
    generation_destroy(call->generation);
    call->generation = NULL;
    call_answer(call);
}

// Writes the answer after the shape was compiled: a shape that is wrong is refused.
static void render(struct call *call, void (*write)(struct call *call)) {
    if (call_refused(call) || !call->generation) return;
    if (generation_shape_due(call))
        call->generation->on_compiled = write;
    else
        write(call);
}

static void chat_write(struct call *call) {
    prompt_put(call, 0, &call->out);
    forget(call);
}

// A list, with an item for each prompt.
static void completions_write(struct call *call) {
    for (int i = 0; i < call->generation->n_prompts; i++) {
        jbuf_text(&call->out, i ? "," : "[");
        prompt_put(call, i, &call->out);
    }
    jbuf_text(&call->out, "]");
    forget(call);
}

void render_chat(struct call *call) {
    chat_prepare(call);
    render(call, chat_write);
}

void render_completions(struct call *call) {
    completions_prepare(call);
    render(call, completions_write);
}
