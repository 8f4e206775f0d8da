// The parts of OpenAI's answers that several endpoints write. Writers run on the I/O thread, once
// per token: the part that all chunks of a call share was rendered by the worker that prepared it.
#include "openai.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"

// ---------------------------------------------------------------- state

static void state_free(void *own) {
    struct openai_state *state = own;
    jbuf_deinit(&state->head);
    json_decref(state->echoed);
    free(state);
}

struct openai_state *openai_state_of(const struct call *call) {
    return call->generation->own;
}

static void head_write(const struct call *call, const char *prefix, const char *object,
                       struct jbuf *out) {
    const struct served *served = call->served;
    if (call->generation->params.stream) jbuf_text(out, "data: ");
    jbuf_printf(out, "{\"id\":\"%s%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", prefix,
                call->id, object, (long long)call->created);
    jbuf_cstring(out, served->name);
    jbuf_text(out, ",\"system_fingerprint\":");
    jbuf_cstring(out, served->fingerprint);
    jbuf_text(out, ",\"choices\":[{\"index\":");
}

bool openai_state_create(struct call *call, const char *prefix, const char *object) {
    struct generation *generation = call->generation;
    const size_t n = (size_t)generation->n_prompts * (size_t)generation->params.n;
    struct openai_state *state = calloc(1, sizeof *state + n * sizeof *state->choice);
    if (state) head_write(call, prefix, object, &state->head);
    if (!state || state->head.failed) {
        if (state) state_free(state);
        return call_refuse_memory(call);
    }
    state->body_len = state->head.len - strlen("{\"index\":");
    generation->own = state;
    generation->own_free = state_free;
    return true;
}

// ---------------------------------------------------------------- chunks

void openai_chunk_open(struct call *call, const struct generation_choice *choice) {
    const struct openai_state *state = openai_state_of(call);
    jbuf_bytes(&call->out, state->head.data, state->head.len);
    jbuf_uint(&call->out, (unsigned)choice->index);
}

// Where the usage comes in a chunk of its own, the others say that they have none.
#define NO_LOGPROBS ",\"logprobs\":null"
#define NO_FINISH   ",\"finish_reason\":null}]"
#define NO_USAGE    ",\"usage\":null"
void openai_chunk_close(struct call *call, bool bare) {
    if (call->generation->params.include_usage) {
        jbuf_text(&call->out,
                  bare ? NO_LOGPROBS NO_FINISH NO_USAGE "}\n\n" : NO_FINISH NO_USAGE "}\n\n");
    } else {
        jbuf_text(&call->out, bare ? NO_LOGPROBS NO_FINISH "}\n\n" : NO_FINISH "}\n\n");
    }
}

void openai_choice_close(struct call *call) {
    const struct generation *generation = call->generation;
    struct openai_state *state = openai_state_of(call);
    const bool last = ++state->n_ended == generation->n_choices;
    if (generation->params.include_usage) {
        jbuf_text(&call->out, "}]" NO_USAGE "}\n\n");
    } else if (last) {
        jbuf_text(&call->out, "}],");
        generation_timings(call, &call->out);
        jbuf_text(&call->out, "}\n\n");
    } else {
        jbuf_text(&call->out, "}]}\n\n");
    }
}

void openai_usage(const struct generation *generation, struct jbuf *out) {
    const struct usage usage = generation_usage(generation);
    jbuf_text(out, "\"usage\":{\"prompt_tokens\":");
    jbuf_int(out, usage.prompt_tokens);
    jbuf_text(out, ",\"completion_tokens\":");
    jbuf_int(out, usage.completion_tokens);
    jbuf_text(out, ",\"total_tokens\":");
    jbuf_int(out, (int64_t)usage.prompt_tokens + usage.completion_tokens);
    jbuf_text(out, ",\"prompt_tokens_details\":{\"cached_tokens\":");
    jbuf_int(out, usage.cached_tokens);
    jbuf_text(out, "}");
    if (generation->family == FAMILY_CHAT) {
        jbuf_text(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":");
        jbuf_int(out, usage.reasoning_tokens);
        jbuf_text(out, "}");
    }
    jbuf_text(out, "}");
}

static void whole_begin(struct call *call) {
    const struct openai_state *state = openai_state_of(call);
    jbuf_bytes(&call->out, state->head.data, state->body_len);
}

static void whole_end(struct call *call) {
    struct jbuf *out = &call->out;
    jbuf_text(out, "],");
    openai_usage(call->generation, out);
    if (openai_state_of(call)->is_chat) openai_prompt_logprobs(call, 0, out);
    jbuf_text(out, ",");
    generation_timings(call, out);
    jbuf_text(out, "}");
}

void openai_whole_open(struct call *call, const struct generation_choice *choice) {
    if (!choice->index) whole_begin(call);
    jbuf_text(&call->out, choice->index ? ",{\"index\":" : "{\"index\":");
    jbuf_int(&call->out, choice->index);
}

void openai_whole_close(struct call *call, const struct generation_choice *choice) {
    openai_finish(choice, &call->out);
    jbuf_text(&call->out, "}");
    if (choice->index == call->generation->n_choices - 1) whole_end(call);
}

void openai_stream_end(struct call *call) {
    if (call->generation->params.include_usage) {
        whole_begin(call);
        whole_end(call);
        jbuf_text(&call->out, "\n\n");
    }
    jbuf_text(&call->out, "data: [DONE]\n\n");
}

void openai_error(struct call *call, const struct failure *failure) {
    jbuf_text(&call->out, "data: ");
    call_error_object(API_OPENAI, failure->status, failure->param, failure->code, failure->message,
                      &call->out);
    jbuf_text(&call->out, "\n\n");
}

void openai_finish(const struct generation_choice *choice, struct jbuf *out) {
    const char *reason = choice->finish == RN_FINISH_LENGTH  ? "length"
                         : choice->finish == RN_FINISH_CACHE ? "cache_threshold"
                         : choice->n_tools                   ? "tool_calls"
                                                             : "stop";
    jbuf_text(out, ",\"finish_reason\":\"");
    jbuf_text(out, reason);
    jbuf_text(out, "\",\"stop_reason\":");
    if (choice->is_token_stop) {
        jbuf_int(out, choice->stop_token);
    } else {
        jbuf_cstring(out, choice->stop);
    }
}

// ---------------------------------------------------------------- tokens

static void token_text(const struct served *served, int32_t token, struct jbuf *out) {
    size_t len;
    const char *bytes = rn_token_bytes(served->model, token, &len);
    jbuf_string(out, bytes, len);
}

static void token_bytes(const struct served *served, int32_t token, struct jbuf *out) {
    size_t len;
    const char *bytes = rn_token_bytes(served->model, token, &len);
    jbuf_text(out, "[");
    for (size_t i = 0; i < len; i++) {
        if (i) jbuf_text(out, ",");
        jbuf_uint(out, (unsigned char)bytes[i]);
    }
    jbuf_text(out, "]");
}

// Clients take numbers only; an impossible token has the value that OpenAI gives it.
void openai_logprob(float logprob, struct jbuf *out) {
    jbuf_printf(out, "%.8g", isfinite(logprob) && logprob > -9999.0f ? (double)logprob : -9999.0);
}

static void logprob_write(const struct served *served, rn_logprob token, struct jbuf *out) {
    jbuf_text(out, "{\"token\":");
    token_text(served, token.token, out);
    jbuf_text(out, ",\"logprob\":");
    openai_logprob(token.logprob, out);
    jbuf_text(out, ",\"bytes\":");
    token_bytes(served, token.token, out);
}

// "id":{"logprob":...,"rank":...,"decoded_token":...}
static void score_write(const struct served *served, rn_logprob token, int rank, struct jbuf *out) {
    jbuf_printf(out, "\"%d\":{\"logprob\":", (int)token.token);
    openai_logprob(token.logprob, out);
    jbuf_printf(out, ",\"rank\":%d,\"decoded_token\":", rank);
    token_text(served, token.token, out);
    jbuf_text(out, "}");
}

void openai_prompt_logprobs(const struct call *call, int index, struct jbuf *out) {
    const struct generation *generation = call->generation;
    const struct generation_prompt *prompt = &generation->prompt[index];
    const int n_top = generation->params.top_prompt_logprobs;
    if (!generation->params.prompt_logprobs) return;
    jbuf_text(out, ",\"prompt_logprobs\":[null");
    for (size_t i = 0; prompt->logprob && i + 1 < prompt->n_ids; i++) {
        const rn_logprob *row = prompt->logprob + i * (1 + (size_t)generation->top_prompt);
        jbuf_text(out, ",{");
        score_write(call->served, row[0], prompt->rank[i], out);
        for (int j = 1; j <= n_top && row[j].token >= 0; j++) {
            if (row[j].token == row[0].token) continue;
            jbuf_text(out, ",");
            score_write(call->served, row[j], j, out);
        }
        jbuf_text(out, "}");
    }
    jbuf_text(out, "]");
}

void openai_logprobs_take(const struct served *served, struct generation_choice *choice,
                          bool is_content, struct jbuf *out) {
    for (int i = 0; i < choice->n_logprob; i++) {
        const struct token_logprob *token = &choice->logprob[i];
        if (is_content && token->is_apart) continue;
        if (out->len && out->data[out->len - 1] != '[') jbuf_text(out, ",");
        logprob_write(served, (rn_logprob){token->token, token->logprob}, out);
        jbuf_text(out, ",\"top_logprobs\":[");
        for (int j = 0; j < token->n_top; j++) {
            if (j) jbuf_text(out, ",");
            logprob_write(served, choice->top[token->first_top + j], out);
            jbuf_text(out, "}");
        }
        jbuf_text(out, "]}");
    }
    choice->n_logprob = choice->n_top = 0;
}
