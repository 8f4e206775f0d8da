// The parts of OpenAI's answers that several endpoints write. Writers run on the I/O thread, once
// per token: the part that all chunks of a call share was rendered by the worker that prepared it.
#include "openai.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"

// ---------------------------------------------------------------- state

static void state_free(void *own) {
    struct openai_state *state = own;
    jbuf_deinit(&state->head);
    free(state);
}

struct openai_state *openai_state_of(const struct call *call) {
    return call->generation->own;
}

static void head_write(const struct call *call, const char *id, const char *object,
                       struct jbuf *out) {
    const struct served *served = call->served;
    if (call->generation->params.stream) jbuf_text(out, "data: ");
    jbuf_text(out, "{\"id\":");
    jbuf_cstring(out, id);
    jbuf_printf(out, ",\"object\":\"%s\",\"created\":%lld,\"model\":", object,
                (long long)call->created);
    jbuf_cstring(out, served->name);
    jbuf_text(out, ",\"system_fingerprint\":");
    jbuf_cstring(out, served->fingerprint);
    jbuf_text(out, ",\"choices\":[{\"index\":");
}

bool openai_state_create(struct call *call, const char *prefix, const char *object) {
    char id[CALL_ID_BYTES];
    snprintf(id, sizeof id, "%s%s", prefix, call->id);
    return openai_state_named(call, id, object);
}

bool openai_state_named(struct call *call, const char *id, const char *object) {
    struct generation *generation = call->generation;
    const struct params *params = &generation->params;
    const size_t n = (size_t)generation->n_prompts * (size_t)params->n;
    struct openai_state *state = calloc(1, sizeof *state + n * sizeof *state->choice);
    if (state) head_write(call, id, object, &state->head);
    if (!state || state->head.failed) {
        if (state) state_free(state);
        return call_refuse_memory(call);
    }
    state->body_len = state->head.len - strlen("{\"index\":");
    state->has_extras = params->return_token_ids || params->timings_per_token ||
                        (params->include_usage && params->continuous_usage);
    generation->keep_tokens |= params->return_token_ids;
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

// ,"prompt_token_ids":[...] of the choice's prompt, where ids are asked for.
static void prompt_ids_write(const struct generation *generation, int index, struct jbuf *out) {
    const struct generation_prompt *prompt = &generation->prompt[index];
    if (!generation->params.return_token_ids) return;
    jbuf_put_ids(out, "prompt_token_ids", prompt->ids, prompt->n_ids);
}

// ,"token_ids":[...] of the first n tokens that no chunk has yet, where they are asked for. The ids
// of a prompt are beside those of a choice in completions, beside all choices in chats.
static void choice_ids_write(const struct call *call, const struct generation_choice *choice, int n,
                             struct jbuf *out) {
    struct openai_state *state = openai_state_of(call);
    struct openai_choice *own = &state->choice[choice->index];
    if (!call->generation->params.return_token_ids) return;
    if (!state->is_chat && !own->has_prompt) {
        prompt_ids_write(call->generation, choice->prompt, out);
        own->has_prompt = true;
    }
    jbuf_put_ids(out, "token_ids", choice->token ? choice->token + own->n_shown : NULL,
                 (size_t)(n - own->n_shown));
    own->n_shown = n;
}

// The usage of a choice with n tokens.
static void usage_now(const struct generation *generation, const struct generation_choice *choice,
                      int n, struct jbuf *out) {
    const int n_prompt = (int)generation->prompt[choice->prompt].n_ids;
    jbuf_printf(out,
                ",\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}",
                n_prompt, n, n_prompt + n);
}

// Members of a chunk that few requests ask for, after its choice.
static void extras_write(struct call *call, const struct generation_choice *choice, int n_output,
                         struct jbuf *out) {
    const struct generation *generation = call->generation;
    struct openai_state *state = openai_state_of(call);
    if (state->is_chat && !state->has_prompt) {
        prompt_ids_write(generation, 0, out);
        state->has_prompt = true;
    }
    if (generation->params.include_usage) {
        if (generation->params.continuous_usage)
            usage_now(generation, choice, n_output, out);
        else
            jbuf_text(out, NO_USAGE);
    }
    generation_timings_now(call, choice, out);
}

// is_head: it comes before all tokens.
static void chunk_close(struct call *call, const struct generation_choice *choice, bool bare,
                        bool is_head) {
    struct jbuf *out = &call->out;
    if (bare) jbuf_text(out, NO_LOGPROBS);
    jbuf_text(out, ",\"finish_reason\":null");
    choice_ids_write(call, choice, is_head ? 0 : choice->n_tokens, out);
    jbuf_text(out, "}]");
    extras_write(call, choice, is_head ? 0 : choice->n_output, out);
}

void openai_chunk_progress(struct call *call, const struct generation_choice *choice,
                           const rn_event *event) {
    chunk_close(call, choice, true, true);
    generation_progress(call, choice, event, &call->out);
    jbuf_text(&call->out, "}\n\n");
}

static void chunk_end(struct call *call, const struct generation_choice *choice, bool bare,
                      bool is_head) {
    if (openai_state_of(call)->has_extras) {
        chunk_close(call, choice, bare, is_head);
        jbuf_text(&call->out, "}\n\n");
    } else if (call->generation->params.include_usage) {
        jbuf_text(&call->out,
                  bare ? NO_LOGPROBS NO_FINISH NO_USAGE "}\n\n" : NO_FINISH NO_USAGE "}\n\n");
    } else {
        jbuf_text(&call->out, bare ? NO_LOGPROBS NO_FINISH "}\n\n" : NO_FINISH "}\n\n");
    }
}

void openai_head_close(struct call *call, const struct generation_choice *choice, bool bare) {
    chunk_end(call, choice, bare, true);
}

void openai_chunk_close(struct call *call, const struct generation_choice *choice, bool bare) {
    chunk_end(call, choice, bare, false);
}

// The last chunk has the timings of all, instead of its own.
void openai_choice_close(struct call *call, const struct generation_choice *choice) {
    const struct generation *generation = call->generation;
    struct openai_state *state = openai_state_of(call);
    const bool last = ++state->n_ended == generation->n_choices;
    struct jbuf *out = &call->out;
    choice_ids_write(call, choice, choice->n_tokens, out);
    jbuf_text(out, "}]");
    if (generation->params.include_usage || !last)
        extras_write(call, choice, choice->n_output, out);
    if (last && !generation->params.include_usage) {
        jbuf_text(out, ",");
        generation_timings(call, out);
    }
    jbuf_text(out, "}\n\n");
}

void openai_usage(const struct generation *generation, bool has_reasoning, struct jbuf *out) {
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
    if (has_reasoning) {
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

// Members of the answer whose tokens these are.
static void beside_write(const struct openai_state *state, struct jbuf *out) {
    if (state->prompt_logprobs) {
        jbuf_key(out, "prompt_logprobs");
        jbuf_json(out, state->prompt_logprobs);
    }
    if (state->kv_transfer_params) {
        jbuf_key(out, "kv_transfer_params");
        jbuf_json(out, state->kv_transfer_params);
    }
}

// A derendered text does not say how many of its tokens are the reasoning.
static void whole_end(struct call *call) {
    const struct openai_state *state = openai_state_of(call);
    struct jbuf *out = &call->out;
    jbuf_text(out, "],");
    openai_usage(call->generation, state->is_chat && !state->is_derendered, out);
    if (state->is_chat) {
        openai_prompt_logprobs(call, 0, out);
        if (!call->generation->params.stream) prompt_ids_write(call->generation, 0, out);
    }
    if (state->is_derendered) {
        beside_write(state, out);
    } else {
        jbuf_text(out, ",");
        generation_timings(call, out);
    }
    jbuf_text(out, "}");
}

void openai_whole_open(struct call *call, const struct generation_choice *choice) {
    if (!choice->index) whole_begin(call);
    jbuf_text(&call->out, choice->index ? ",{\"index\":" : "{\"index\":");
    jbuf_int(&call->out, choice->index);
}

void openai_whole_close(struct call *call, const struct generation_choice *choice) {
    openai_finish(choice, &call->out);
    choice_ids_write(call, choice, choice->n_tokens, &call->out);
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

static void logprob_write(const struct call *call, rn_logprob token, struct jbuf *out) {
    jbuf_text(out, "{\"token\":");
    if (call->generation->params.tokens_as_ids)
        jbuf_printf(out, "\"token_id:%d\"", (int)token.token);
    else
        token_text(call->served, token.token, out);
    jbuf_text(out, ",\"logprob\":");
    openai_logprob(token.logprob, out);
    jbuf_text(out, ",\"bytes\":");
    token_bytes(call->served, token.token, out);
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

void openai_logprobs_take(const struct call *call, struct generation_choice *choice,
                          bool is_content, struct jbuf *out) {
    for (int i = 0; i < choice->n_logprob; i++) {
        const struct token_logprob *token = &choice->logprob[i];
        if (is_content && token->is_apart) continue;
        if (out->len && out->data[out->len - 1] != '[') jbuf_text(out, ",");
        logprob_write(call, (rn_logprob){token->token, token->logprob}, out);
        jbuf_text(out, ",\"top_logprobs\":[");
        for (int j = 0; j < token->n_top; j++) {
            if (j) jbuf_text(out, ",");
            logprob_write(call, choice->top[token->first_top + j], out);
            jbuf_text(out, "}");
        }
        jbuf_text(out, "]}");
    }
    choice->n_logprob = choice->n_top = 0;
}
