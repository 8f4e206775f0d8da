// POST /v1/completions: prompts as text or token ids, continued as they are. Choices are numbered
// through all prompts: choice = prompt * n + choice of the prompt.
#include <stdlib.h>
#include <string.h>

#include "fim.h"
#include "generation_shape.h"
#include "helpers.h"
#include "openai.h"
#include "prompt_ids.h"
#include "routes.h"

// ---------------------------------------------------------------- logprobs

struct bytes {
    const char *data;
    size_t len;
};

static struct bytes bytes_of(const struct call *call, int32_t token) {
    struct bytes bytes;
    bytes.data = rn_token_bytes(call->served->model, token, &bytes.len);
    return bytes;
}

// A token's text is also a key, so tokens that are no text of their own must differ: half a
// character is written as "bytes:\xe2\x80", as OpenAI does. As vLLM does, its id stands for the
// text where the request asks for that.
static void token_write(const struct call *call, int32_t token, struct jbuf *out) {
    const struct bytes bytes = bytes_of(call, token);
    if (call->generation->params.tokens_as_ids) {
        jbuf_printf(out, "\"token_id:%d\"", (int)token);
        return;
    }
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

// A token of the answer: of the prompt, where it is echoed with logprobs, then of the choice's
// text.
struct item {
    int32_t token;
    float logprob;
    bool has_logprob; // the first token of a prompt has none
    const rn_logprob *top;
    int n_top;
};

static struct item prompt_item(const struct generation *generation, int index, int i) {
    const struct generation_prompt *prompt = &generation->prompt[index];
    struct item item = {.token = prompt->ids[i]};
    if (i == 0 || !prompt->logprob) return item;
    const rn_logprob *row =
        prompt->logprob + ((size_t)i - 1) * (1 + (size_t)generation->top_prompt);
    item.has_logprob = true;
    item.logprob = row[0].logprob;
    item.top = row + 1;
    while (item.n_top < generation->params.top_logprobs && item.top[item.n_top].token >= 0)
        item.n_top++;
    return item;
}

static struct item item_at(const struct call *call, const struct generation_choice *choice,
                           int n_echo, int i) {
    if (i < n_echo) return prompt_item(call->generation, choice->prompt, i);
    const struct token_logprob *token = &choice->logprob[i - n_echo];
    return (struct item){.token = token->token,
                         .logprob = token->logprob,
                         .has_logprob = true,
                         .top = choice->top + token->first_top,
                         .n_top = token->n_top};
}

// The tokens whose bytes were written, in open addressing: 0, or an id and 1.
struct written {
    int32_t few[64], *slot;
    size_t mask;
};

static bool written_init(struct written *written, int n_top) {
    size_t size = sizeof written->few / sizeof *written->few;
    memset(written->few, 0, sizeof written->few);
    while (size < 2 * (1 + (size_t)n_top)) size *= 2;
    written->mask = size - 1;
    written->slot =
        n_top > RN_MAX_TOP_LOGPROBS ? calloc(size, sizeof *written->slot) : written->few;
    return written->slot != NULL;
}

static void written_deinit(struct written *written) {
    if (written->slot != written->few) free(written->slot);
}

// False: the token is there, or, where the text of a token is its bytes, one with the same bytes.
static bool written_add(const struct call *call, struct written *written, int32_t token) {
    const bool has_ids = call->generation->params.tokens_as_ids; // which differ for equal bytes
    const struct bytes bytes = bytes_of(call, token);
    size_t at = 0xcbf29ce4u; // FNV-1a
    for (size_t i = 0; i < bytes.len; i++) at = (at ^ (unsigned char)bytes.data[i]) * 0x01000193u;
    for (at &= written->mask; written->slot[at]; at = (at + 1) & written->mask) {
        const int32_t known = written->slot[at] - 1;
        const struct bytes other = bytes_of(call, known);
        if (has_ids && known != token) continue;
        if (bytes.len == other.len && (!bytes.len || !memcmp(bytes.data, other.data, bytes.len)))
            return false;
    }
    written->slot[at] = token + 1;
    return true;
}

// {"text": logprob, ...}: the chosen token and the likeliest ones. Tokens may have equal bytes; an
// object has a key once, and the likelier one keeps it.
static void tops_write(const struct call *call, const struct item *item, struct jbuf *out) {
    struct written written;
    int n = 0;
    if (!written_init(&written, item->n_top)) {
        out->failed = true;
        return;
    }
    jbuf_text(out, "{");
    for (int i = 0; i <= item->n_top; i++) {
        const rn_logprob one =
            i < item->n_top ? item->top[i] : (rn_logprob){item->token, item->logprob};
        if (!written_add(call, &written, one.token)) continue;
        if (n++) jbuf_text(out, ",");
        token_write(call, one.token, out);
        jbuf_text(out, ":");
        openai_logprob(one.logprob, out);
    }
    jbuf_text(out, "}");
    written_deinit(&written);
}

// Items of the first n_echo are the prompt's.
static void logprob_lists_write(const struct call *call, const struct generation_choice *choice,
                                int n_echo, int n, struct jbuf *out) {
    jbuf_text(out, "\"tokens\":[");
    for (int i = 0; i < n; i++) {
        if (i) jbuf_text(out, ",");
        token_write(call, item_at(call, choice, n_echo, i).token, out);
    }
    jbuf_text(out, "],\"token_logprobs\":[");
    for (int i = 0; i < n; i++) {
        const struct item item = item_at(call, choice, n_echo, i);
        if (i) jbuf_text(out, ",");
        if (item.has_logprob)
            openai_logprob(item.logprob, out);
        else
            jbuf_text(out, "null");
    }
    jbuf_text(out, "],\"top_logprobs\":[");
    for (int i = 0; i < n; i++) {
        const struct item item = item_at(call, choice, n_echo, i);
        if (i) jbuf_text(out, ",");
        if (item.has_logprob)
            tops_write(call, &item, out);
        else
            jbuf_text(out, "null");
    }
    jbuf_text(out, "],\"text_offset\":[");
}

static bool starts_with(struct bytes text, struct bytes start) {
    return text.len >= start.len && (!start.len || !memcmp(text.data, start.data, start.len));
}

// The part of the echoed text that a token stands for. The tokenizer may have put a token before
// the text, and a space before its first word: these are no part of it.
static struct bytes echo_part(struct bytes rest, struct bytes bytes) {
    if (!starts_with(rest, bytes) && bytes.len && bytes.data[0] == ' ')
        bytes = (struct bytes){bytes.data + 1, bytes.len - 1};
    if (!starts_with(rest, bytes)) bytes.len = 0;
    return bytes;
}

static void offsets_write(const struct call *call, const struct generation_choice *choice,
                          int n_echo, int n, struct jbuf *out) {
    const struct generation_prompt *prompt = &call->generation->prompt[choice->prompt];
    struct openai_choice *state = &openai_state_of(call)->choice[choice->index];
    const struct bytes text = {prompt->text, prompt->text_len};
    struct bytes rest = text;
    for (int i = 0; i < n; i++) {
        struct bytes bytes = bytes_of(call, item_at(call, choice, n_echo, i).token);
        if (i == n_echo && n_echo > 0) state->text_offset = characters(text);
        if (i) jbuf_text(out, ",");
        jbuf_uint(out, state->text_offset);
        if (i < n_echo) {
            bytes = echo_part(rest, bytes);
            rest = (struct bytes){rest.data + bytes.len, rest.len - bytes.len};
        }
        state->text_offset += characters(bytes);
    }
    if (n_echo == n && n_echo > 0) state->text_offset = characters(text);
}

static bool echoes_logprobs(const struct call *call) {
    return openai_state_of(call)->echo && call->generation->params.logprobs;
}

static int echo_size(const struct call *call, const struct generation_choice *choice) {
    return echoes_logprobs(call) ? (int)call->generation->prompt[choice->prompt].n_ids : 0;
}

// ,"logprobs":{...} of the first n_echo tokens of the prompt, and of the choice's n_own.
static void logprobs_write(const struct call *call, const struct generation_choice *choice,
                           int n_echo, int n_own, struct jbuf *out) {
    jbuf_text(out, ",\"logprobs\":{");
    logprob_lists_write(call, choice, n_echo, n_echo + n_own, out);
    offsets_write(call, choice, n_echo, n_echo + n_own, out);
    jbuf_text(out, "]}");
}

// ,"logprobs":... and the choice's are taken. Offsets count characters of the choice's text.
static void logprobs_take(const struct call *call, struct generation_choice *choice, int n_echo,
                          struct jbuf *out) {
    if (!call->generation->params.logprobs) {
        jbuf_text(out, ",\"logprobs\":null");
        return;
    }
    logprobs_write(call, choice, n_echo, choice->n_logprob, out);
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
    const bool bare = !echoes_logprobs(call);
    if (!bare) logprobs_write(call, choice, echo_size(call, choice), 0, &call->out);
    openai_head_close(call, choice, bare);
}

static void stream_delta(struct call *call, const struct delta *delta) {
    if (!delta->len) return;
    choice_begin(call, delta->choice);
    chunk_open(call, delta->choice, delta->text, delta->len);
    const bool bare = !call->generation->params.logprobs;
    if (!bare) logprobs_take(call, delta->choice, 0, &call->out);
    openai_chunk_close(call, delta->choice, bare);
}

static void stream_progress(struct call *call, const struct generation_choice *choice,
                            const rn_event *event) {
    chunk_open(call, choice, "", 0);
    openai_chunk_progress(call, choice, event);
}

static void stream_choice_end(struct call *call, struct generation_choice *choice) {
    choice_begin(call, choice);
    chunk_open(call, choice, "", 0);
    logprobs_take(call, choice, 0, &call->out);
    openai_finish(choice, &call->out);
    openai_choice_close(call, choice);
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
    logprobs_take(call, choice, echo_size(call, choice), out);
    openai_prompt_logprobs(call, choice->prompt, out);
    openai_whole_close(call, choice);
}

// ---------------------------------------------------------------- the handler

const struct writer completions_writer = {.whole = whole_write,
                                          .delta = stream_delta,
                                          .progress = stream_progress,
                                          .choice_end = stream_choice_end,
                                          .end = openai_stream_end,
                                          .error = openai_error};

// An echo with logprobs has those of the prompt.
static void scores_want(struct generation *generation, bool echo) {
    const struct params *params = &generation->params;
    const int n_echo = echo && params->logprobs ? params->top_logprobs : 0;
    generation->scores = params->prompt_logprobs || (echo && params->logprobs);
    generation->top_prompt =
        params->top_prompt_logprobs > n_echo ? params->top_prompt_logprobs : n_echo;
}

// `suffix`: the text between each prompt and it. The prompts were read as they are, with their
// texts.
static bool suffix_apply(struct call *call, struct generation *generation, struct fim_text suffix) {
    struct generation_prompt *prompt = generation->prompt;
    const int n_prompts = generation->n_prompts;
    bool ok = true;
    generation->prompt = NULL;
    generation->n_prompts = 0;
    for (int i = 0; i < n_prompts; i++) {
        const struct fim fim = {.prefix = {prompt[i].text, prompt[i].text_len}, .suffix = suffix};
        ok = ok && fim_add(call, generation, &fim, "suffix");
        rn_free(prompt[i].ids);
        free(prompt[i].text);
    }
    free(prompt);
    return ok;
}

static bool prompts_read(struct call *call, struct generation *generation, const json_t *body,
                         bool echo) {
    const struct fields fields = fields_of(call, body, "");
    struct fim_text suffix = {0};
    if (!field_string(&fields, "suffix", PROMPT_TEXT_MAX, &suffix.data, &suffix.len)) return false;
    if (suffix.len && echo) return field_refuse(&fields, "suffix", "cannot be combined with echo");
    if (!openai_prompts(call, body, "prompt", echo || suffix.len)) return false;
    return !suffix.len || suffix_apply(call, generation, suffix);
}

void completions_prepare(struct call *call) {
    const json_t *body = call_json(call);
    if (!body) return;
    struct generation *generation = generation_create(call, &completions_writer);
    if (!generation) return;
    if (!params_read(call, body, FAMILY_COMPLETIONS, &generation->params)) return;
    if (!generation_shape_read(call, generation, body, FAMILY_COMPLETIONS)) return;
    const struct fields fields = fields_of(call, body, "");
    bool echo = false;
    if (!field_bool(&fields, "echo", &echo)) return;
    scores_want(generation, echo);
    if (!prompts_read(call, generation, body, echo)) return;
    if (!generation_check(call, generation, "prompt")) return;
    if (!generation_shape_want(call, generation, NULL)) return;
    if (openai_state_create(call, "cmpl-", "text_completion")) openai_state_of(call)->echo = echo;
}
