// Text to tokens and back, and messages to text, without the engine: /tokenize, /detokenize,
// /apply-template, with the fields of llama.cpp and of vLLM. Workers run it.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chat_messages.h"
#include "fields.h"
#include "helpers.h"
#include "params.h"
#include "prompt_ids.h"
#include "routes.h"
#include "template_input.h"

// ---------------------------------------------------------------- messages

static bool dump(const json_t *value, char **out) {
    *out = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    return *out || !value;
}

// The text that the model would get, guards included; to be freed with rn_free. NULL: refused.
static char *chat_render(struct call *call, const struct chat_messages *chat, size_t *len) {
    rn_error err = {0};
    char *text = NULL, *messages = NULL, *tools = NULL, *variables = NULL;
    if (!call->served->tmpl) {
        call_refuse(call, 400, "messages", "no_chat_template",
                    "messages: the model has no chat template");
    } else if (!dump(chat->messages, &messages) || !dump(chat->tools, &tools) ||
               !template_variables_text(call->served->variables, chat->variables, &variables)) {
        call_refuse_memory(call);
    } else {
        const rn_chat given = {.messages = messages,
                               .tools = tools,
                               .variables = variables,
                               .add_generation_prompt = chat->add_generation_prompt,
                               .continue_final = chat->continue_final,
                               .guard = true,
                               .now = time(NULL)};
        if (rn_chat_render(call->served->tmpl, &given, &text, len, &err))
            call_refuse_error(call, "messages", &err);
    }
    free(messages);
    free(tools);
    free(variables);
    return text;
}

// Reads the body's conversation and renders it, as above.
static char *body_render(struct call *call, const json_t *body, size_t *len) {
    struct chat_messages chat;
    if (!chat_messages_read(call, body, &chat)) return NULL;
    char *text = chat_render(call, &chat, len);
    chat_messages_deinit(&chat);
    return text;
}

// The tokenizer drops guards.
static size_t guards_drop(char *text, size_t len) {
    const size_t guard_len = strlen(RN_GUARD);
    size_t kept = 0;
    for (size_t i = 0; i < len;) {
        if (len - i >= guard_len && !memcmp(text + i, RN_GUARD, guard_len)) {
            i += guard_len;
        } else {
            text[kept++] = text[i++];
        }
    }
    return kept;
}

void tokens_apply_template(struct call *call) {
    const json_t *body = call_json(call);
    if (!body || !params_model(call, body)) return;
    size_t len;
    char *text = body_render(call, body, &len);
    if (!text) return;
    jbuf_text(&call->out, "{\"prompt\":");
    jbuf_string(&call->out, text, guards_drop(text, len));
    jbuf_text(&call->out, "}");
    rn_free(text);
    call_answer(call);
}

// ---------------------------------------------------------------- tokenize

// The input of /tokenize: one of content (llama.cpp), prompt and messages (vLLM).
struct tokenize {
    const json_t *text; // content or prompt; NULL: messages
    const char *name;   // its name
    bool is_vllm;
    int flags;
    bool pieces, strings;
};

static bool sources_read(const struct fields *fields, struct tokenize *out) {
    static const char *const names[] = {"content", "prompt", "messages"};
    for (int i = 0; i < 3; i++) {
        const json_t *value = json_object_get(fields->object, names[i]);
        if (!value || json_is_null(value)) continue;
        if (out->name)
            return field_refuse(fields, names[i], "excludes '%s'; give one of them", out->name);
        out->name = names[i];
        out->is_vllm = i > 0;
        if (i < 2) out->text = value;
    }
    return out->name || field_refuse(fields, "content",
                                     "missing ('prompt' or 'messages' would "
                                     "do as well)");
}

static bool tokenize_read(const struct fields *fields, struct tokenize *out) {
    *out = (struct tokenize){0};
    if (!sources_read(fields, out)) return false;
    bool bos = out->is_vllm, special = true;
    field_bool(fields, "add_special", &bos);
    field_bool(fields, "add_special_tokens", &bos);
    field_bool(fields, "parse_special", &special);
    field_bool(fields, "with_pieces", &out->pieces);
    field_bool(fields, "return_token_strs", &out->strings);
    out->flags = (bos ? RN_TOKENIZE_BOS : 0) | (special ? RN_TOKENIZE_SPECIAL : 0);
    return !call_refused(fields->call);
}

static bool tokenize_run(struct call *call, const struct tokenize *tokenize, int32_t **ids,
                         size_t *n_ids) {
    if (tokenize->text)
        return prompt_ids_read(call, tokenize->text, tokenize->name, tokenize->flags, ids, n_ids);
    size_t len;
    char *text = body_render(call, call->json, &len);
    if (!text) return false;
    const bool ok =
        prompt_ids_of_text(call, text, len, "messages",
                           tokenize->flags | RN_TOKENIZE_SPECIAL | RN_TOKENIZE_GUARDED, ids, n_ids);
    rn_free(text);
    return ok;
}

// A string, or the bytes where they are no text by themselves.
static void piece_write(struct jbuf *out, const rn_model *model, int32_t id) {
    size_t len;
    const char *bytes = rn_token_bytes(model, id, &len);
    if (unicode_is_valid(bytes, len)) {
        jbuf_string(out, bytes, len);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        jbuf_text(out, i ? "," : "[");
        jbuf_uint(out, (unsigned char)bytes[i]);
    }
    jbuf_text(out, "]");
}

static void tokens_write(struct jbuf *out, const rn_model *model, const int32_t *ids, size_t n_ids,
                         bool pieces) {
    jbuf_key(out, "tokens");
    jbuf_text(out, "[");
    for (size_t i = 0; i < n_ids; i++) {
        if (i) jbuf_text(out, ",");
        if (pieces) jbuf_text(out, "{\"id\":");
        jbuf_int(out, ids[i]);
        if (!pieces) continue;
        jbuf_text(out, ",\"piece\":");
        piece_write(out, model, ids[i]);
        jbuf_text(out, "}");
    }
    jbuf_text(out, "]");
}

static void strings_write(struct jbuf *out, const rn_model *model, const int32_t *ids,
                          size_t n_ids) {
    jbuf_key(out, "token_strs");
    jbuf_text(out, "[");
    for (size_t i = 0; i < n_ids; i++) {
        size_t len;
        const char *bytes = rn_token_bytes(model, ids[i], &len);
        if (i) jbuf_text(out, ",");
        jbuf_string(out, bytes, len);
    }
    jbuf_text(out, "]");
}

void tokens_tokenize(struct call *call) {
    const json_t *body = call_json(call);
    if (!body || !params_model(call, body)) return;
    const struct fields fields = fields_of(call, body, "");
    struct tokenize tokenize;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    if (!tokenize_read(&fields, &tokenize) || !tokenize_run(call, &tokenize, &ids, &n_ids)) return;
    const struct served *served = call->served;
    struct jbuf *out = &call->out;
    jbuf_text(out, "{");
    if (tokenize.is_vllm) {
        jbuf_key(out, "count");
        jbuf_uint(out, n_ids);
        jbuf_key(out, "max_model_len");
        jbuf_int(out, served->engine_info.n_ctx);
    }
    tokens_write(out, served->model, ids, n_ids, tokenize.pieces);
    if (tokenize.strings) strings_write(out, served->model, ids, n_ids);
    jbuf_text(out, "}");
    rn_free(ids);
    call_answer(call);
}

// ---------------------------------------------------------------- detokenize

static void detokenize_answer(struct call *call, const int32_t *ids, size_t n_ids) {
    char *text = NULL;
    size_t len;
    if (!prompt_text_of(call, ids, n_ids, "tokens", &text, &len)) return;
    jbuf_text(&call->out, "{\"content\":");
    jbuf_string(&call->out, text, len);
    jbuf_text(&call->out, ",\"prompt\":");
    jbuf_string(&call->out, text, len);
    jbuf_text(&call->out, "}");
    rn_free(text);
    call_answer(call);
}

static bool ids_read(struct call *call, const json_t *list, int32_t *ids) {
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) {
        char path[32];
        snprintf(path, sizeof path, "tokens[%zu]", i);
        if (!token_id_read(call, item, path, &ids[i])) return false;
    }
    return true;
}

void tokens_detokenize(struct call *call) {
    const json_t *body = call_json(call), *list = NULL;
    if (!body || !params_model(call, body)) return;
    const struct fields fields = fields_of(call, body, "");
    if (!field_array(&fields, "tokens", PROMPT_IDS_MAX, &list)) return;
    if (!list) {
        field_refuse(&fields, "tokens", "missing");
        return;
    }
    const size_t n_ids = json_array_size(list);
    int32_t *ids = malloc((n_ids + 1) * sizeof *ids);
    if (!ids) {
        call_refuse_memory(call);
        return;
    }
    if (ids_read(call, list, ids)) detokenize_answer(call, ids, n_ids);
    free(ids);
}
