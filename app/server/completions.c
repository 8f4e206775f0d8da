// POST /v1/completions: prompts as text or token ids, continued as they are. Choices are numbered
// through all prompts: choice = prompt * n + choice of the prompt.
#include <string.h>

#include "helpers.h"
#include "openai.h"
#include "routes.h"

// ---------------------------------------------------------------- logprobs

struct bytes {
    const char *data;
    size_t len;
};

static struct bytes bytes_of(const struct call *call, int32_t token) {
    struct bytes bytes;
    bytes.data = rn_token_bytes(call->server->model, token, &bytes.len);
    return bytes;
}

// A token's text is also a key, so tokens that are no text of their own must differ: half a
// character is written as "bytes:\xe2\x80", as OpenAI does.
static void token_write(struct bytes bytes, struct jbuf *out) {
    if (unicode_is_valid(bytes.data, bytes.len)) {
        jbuf_string(out, bytes.data, bytes.len);
        return;
    }
    jbuf_text(out, "\"bytes:");
    for (size_t i = 0; i < bytes.len; i++) {
        jbuf_printf(out, "\\\\x%02x", (unsigned)(unsigned char)bytes.data[i]);
    }
    jbuf_text(out, "\"");
}

static size_t characters(struct bytes bytes) {
    size_t n = 0;
    for (size_t i = 0; i < bytes.len; i++) n += ((unsigned char)bytes.data[i] & 0xC0) != 0x80;
    return n;
}

// {"text": logprob, ...}: the chosen token and the likeliest ones. Tokens may have equal bytes; an
// object has a key once, and the likelier one keeps it.
static void tops_write(const struct call *call, const struct generation_choice *choice,
                       const struct token_logprob *token, struct jbuf *out) {
    struct bytes written[1 + RN_MAX_TOP_LOGPROBS];
    int n = 0;
    jbuf_text(out, "{");
    for (int i = 0; i <= token->n_top && n <= RN_MAX_TOP_LOGPROBS; i++) {
        const rn_logprob one = i < token->n_top ? choice->top[token->first_top + i]
                                                : (rn_logprob){token->token, token->logprob};
        const struct bytes bytes = bytes_of(call, one.token);
        bool known = false;
        for (int j = 0; j < n && !known; j++) {
            known = bytes.len == written[j].len &&
                    (!bytes.len || !memcmp(bytes.data, written[j].data, bytes.len));
        }
        if (known) continue;
        if (n) jbuf_text(out, ",");
        written[n++] = bytes;
        token_write(bytes, out);
        jbuf_text(out, ":");
        openai_logprob(one.logprob, out);
    }
    jbuf_text(out, "}");
}

static void logprob_lists_write(const struct call *call, const struct generation_choice *choice,
                                struct jbuf *out) {
    const int n = choice->n_logprob;
    jbuf_text(out, "\"tokens\":[");
    for (int i = 0; i < n; i++) {
        if (i) jbuf_text(out, ",");
        token_write(bytes_of(call, choice->logprob[i].token), out);
    }
    jbuf_text(out, "],\"token_logprobs\":[");
    for (int i = 0; i < n; i++) {
        if (i) jbuf_text(out, ",");
        openai_logprob(choice->logprob[i].logprob, out);
    }
    jbuf_text(out, "],\"top_logprobs\":[");
    for (int i = 0; i < n; i++) {
        if (i) jbuf_text(out, ",");
        tops_write(call, choice, &choice->logprob[i], out);
    }
    jbuf_text(out, "],\"text_offset\":[");
}

// ,"logprobs":... and the choice's are taken. Offsets count characters of the choice's text.
static void logprobs_take(const struct call *call, struct generation_choice *choice,
                          struct jbuf *out) {
    if (!call->generation->params.logprobs) {
        jbuf_text(out, ",\"logprobs\":null");
        return;
    }
    struct openai_choice *state = &openai_state_of(call)->choice[choice->index];
    jbuf_text(out, ",\"logprobs\":{");
    logprob_lists_write(call, choice, out);
    for (int i = 0; i < choice->n_logprob; i++) {
        if (i) jbuf_text(out, ",");
        jbuf_uint(out, state->text_offset);
        state->text_offset += characters(bytes_of(call, choice->logprob[i].token));
    }
    jbuf_text(out, "]}");
    choice->n_logprob = choice->n_top = 0;
}

// ---------------------------------------------------------------- stream

static void chunk_open(struct call *call, const struct generation_choice *choice, const char *text,
                       size_t len) {
    openai_chunk_open(call, choice);
    jbuf_text(&call->out, ",\"text\":");
    jbuf_string(&call->out, text, len);
}

// The prompt's text, where it is to be echoed.
static void choice_begin(struct call *call, const struct generation_choice *choice) {
    struct openai_state *state = openai_state_of(call);
    if (state->choice[choice->index].began) return;
    state->choice[choice->index].began = true;
    if (!state->echo) return;
    const struct generation_prompt *prompt = &call->generation->prompt[choice->prompt];
    chunk_open(call, choice, prompt->text, prompt->text_len);
    openai_chunk_close(call, true); // an echo has no logprobs
}

static void stream_delta(struct call *call, const struct delta *delta) {
    if (!delta->len) return;
    choice_begin(call, delta->choice);
    chunk_open(call, delta->choice, delta->text, delta->len);
    const bool bare = !call->generation->params.logprobs;
    if (!bare) logprobs_take(call, delta->choice, &call->out);
    openai_chunk_close(call, bare);
}

static void stream_choice_end(struct call *call, struct generation_choice *choice) {
    choice_begin(call, choice);
    chunk_open(call, choice, "", 0);
    logprobs_take(call, choice, &call->out);
    openai_finish(choice, &call->out);
    openai_choice_close(call);
}

// ---------------------------------------------------------------- whole

// One string of two texts: the prompt's, where it is echoed, and the choice's.
static void text_write(const struct call *call, const struct generation_choice *choice,
                       struct jbuf *out) {
    const struct generation_prompt *prompt = &call->generation->prompt[choice->prompt];
    if (!openai_state_of(call)->echo) {
        jbuf_string(out, choice->text.data, choice->text.len);
        return;
    }
    struct jbuf joined = {0};
    jbuf_bytes(&joined, prompt->text, prompt->text_len);
    jbuf_bytes(&joined, choice->text.data, choice->text.len);
    jbuf_string(out, joined.data, joined.len);
    if (joined.failed) out->failed = true;
    jbuf_deinit(&joined);
}

static void whole_write(struct call *call, int i) {
    struct generation_choice *choice = &call->generation->choice[i];
    struct jbuf *out = &call->out;
    openai_whole_open(call, choice);
    jbuf_text(out, ",\"text\":");
    text_write(call, choice, out);
    logprobs_take(call, choice, out);
    openai_whole_close(call, choice);
}

// ---------------------------------------------------------------- the handler

static const struct writer completions_writer = {.whole = whole_write,
                                                 .delta = stream_delta,
                                                 .choice_end = stream_choice_end,
                                                 .end = openai_stream_end,
                                                 .error = openai_error};

void completions_prepare(struct call *call) {
    const json_t *body = call_json(call);
    if (!body) return;
    struct generation *generation = generation_create(call, &completions_writer);
    if (!generation) return;
    if (!params_read(call, body, FAMILY_COMPLETIONS, &generation->params)) return;
    const struct fields fields = fields_of(call, body, "");
    bool echo = false;
    if (!field_bool(&fields, "echo", &echo)) return;
    if (echo && generation->params.logprobs) {
        field_refuse(&fields, "echo", "true together with logprobs is not supported");
        return;
    }
    if (!openai_prompts(call, body, "prompt", echo)) return;
    if (!generation_check(call, generation, "prompt")) return;
    if (openai_state_create(call, "cmpl-", "text_completion")) openai_state_of(call)->echo = echo;
}
