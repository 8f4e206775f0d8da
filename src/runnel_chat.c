// Chat of the public interface: a parsed template together with the model whose tokens it names.
// What a caller gives is JSON text; it is checked here and put together into the one object that a
// render sees. Invariant: every part of that object is whole, so that no part can end another.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jinja/template.h"
#include "runnel_chat.h"
#include "text/tokenizer.h"
#include "tools.h"

struct rn_chat_template {
    struct template *tmpl;
    const rn_model *model;
    bool is_own; // the model's: messages name it
};

static void prefix_error(const rn_chat_template *tmpl, rn_error *err) {
    err_prefix(err, "chat template");
    if (tmpl->is_own) err_prefix(err, err_path(rn_model_get_info(tmpl->model)->path));
}

rn_status rn_chat_template_create(const rn_model *model, const char *source, rn_chat_template **out,
                                  rn_error *err) {
    *out = NULL;
    const char *path = err_path(rn_model_get_info(model)->path);
    const char *text = source ? source : rn_model_chat_template(model);
    if (!text) return err_set(err, RN_ERR_ARG, "%s: the model has no chat template", path);
    rn_chat_template *tmpl = calloc(1, sizeof *tmpl);
    if (!tmpl) return err_set(err, RN_ERR_NOMEM, "no memory for a chat template");
    tmpl->model = model;
    tmpl->is_own = !source;
    const rn_status status = template_create(text, strlen(text), &tmpl->tmpl, err);
    if (status) {
        prefix_error(tmpl, err);
        free(tmpl);
        return status;
    }
    *out = tmpl;
    return RN_OK;
}

void rn_chat_template_destroy(rn_chat_template *tmpl) {
    if (!tmpl) return;
    template_destroy(tmpl->tmpl);
    free(tmpl);
}

// ---------------------------------------------------------------- globals

// One whole value of this kind; `what` names it in the message.
static rn_status check_value(const char *json, enum jread_kind kind, const char *what,
                             rn_error *err) {
    struct jread r;
    jread_init(&r, json, strlen(json));
    if (jread_peek(&r) != kind)
        return err_set(err, RN_ERR_ARG, "%s: not a JSON %s", what,
                       kind == JREAD_ARRAY ? "array" : "object");
    if (jread_skip(&r) && jread_finish(&r)) return RN_OK;
    return err_set(err, RN_ERR_ARG, "%s: offset %zu: %s", what, r.error_at, r.error);
}

static rn_status check_chat(const rn_chat *chat, rn_error *err) {
    if (chat->continue_final && chat->add_generation_prompt)
        return err_set(err, RN_ERR_ARG,
                       "a message cannot be continued and a new turn opened at the same time");
    rn_status status =
        check_value(chat->messages ? chat->messages : "", JREAD_ARRAY, "messages", err);
    if (!status && chat->tools) status = check_value(chat->tools, JREAD_ARRAY, "tools", err);
    if (!status && chat->variables)
        status = check_value(chat->variables, JREAD_OBJECT, "variables", err);
    return status;
}

enum { GLOBAL_MESSAGES, GLOBAL_TOOLS, GLOBAL_PROMPT, GLOBAL_DOCUMENTS, GLOBAL_BOS, GLOBAL_EOS };
static const char *const global_names[] = {[GLOBAL_MESSAGES] = "messages",
                                           [GLOBAL_TOOLS] = "tools",
                                           [GLOBAL_PROMPT] = "add_generation_prompt",
                                           [GLOBAL_DOCUMENTS] = "documents",
                                           [GLOBAL_BOS] = "bos_token",
                                           [GLOBAL_EOS] = "eos_token"};
enum { GLOBAL_COUNT = sizeof global_names / sizeof *global_names };

// The caller's variables as members, each followed by a comma; `given` gets a bit for each global
// among them. The first three have fields of their own in rn_chat.
static rn_status write_variables(struct chat_copy *copy, const char *json, unsigned *given) {
    FILE *const out = copy->out;
    struct jread r;
    struct jread_text key;
    jread_init(&r, json, strlen(json));
    jread_enter_object(&r);
    while (jread_next_key(&r, &key)) {
        for (int i = 0; i < GLOBAL_COUNT; i++) {
            if (!jread_equals(&key, global_names[i])) continue;
            if (i <= GLOBAL_PROMPT)
                return err_set(copy->err, RN_ERR_ARG,
                               "variables: '%s' is set by the caller of the chat", global_names[i]);
            *given |= 1u << i;
        }
        fputc('"', out);
        fwrite(key.data, 1, key.len, out);
        fputs("\":", out);
        const rn_status status = chat_copy_member(copy, &r);
        if (status) return status;
        fputc(',', out);
    }
    return RN_OK;
}

// Empty for a model that has no such token: what templates add up stays a text.
static void write_token(const rn_model *model, int global, int32_t id, FILE *out) {
    const struct tokenizer *tokenizer = tools_tokenizer(model);
    const struct text_span text =
        id < 0 ? (struct text_span){"", 0} : tokenizer_bytes(tokenizer, id);
    fprintf(out, "\"%s\":", global_names[global]);
    chat_write_string(text.data, text.len, out);
    fputc(',', out);
}

// Absent tools and documents are none, as templates expect, and not undefined.
static rn_status write_globals(const rn_chat_template *tmpl, const rn_chat *chat,
                               struct chat_copy *copy) {
    const struct tokenizer *tokenizer = tools_tokenizer(tmpl->model);
    FILE *const out = copy->out;
    unsigned given = 0;
    rn_status status = RN_OK;
    fputc('{', out);
    if (chat->variables) status = write_variables(copy, chat->variables, &given);
    if (status) return status;
    if (!(given >> GLOBAL_BOS & 1u))
        write_token(tmpl->model, GLOBAL_BOS, tokenizer_bos(tokenizer), out);
    if (!(given >> GLOBAL_EOS & 1u))
        write_token(tmpl->model, GLOBAL_EOS, tokenizer_eos(tokenizer), out);
    if (!(given >> GLOBAL_DOCUMENTS & 1u)) fputs("\"documents\":null,", out);
    fputs("\"messages\":", out);
    status = chat_copy_messages(copy, chat->messages, chat->continue_final);
    if (status) return status;
    fputs(",\"tools\":", out);
    status = chat_copy_value(copy, chat->tools ? chat->tools : "null");
    fprintf(out, ",\"add_generation_prompt\":%s}", chat->add_generation_prompt ? "true" : "false");
    return status;
}

// The one object that the template sees. *globals is to be freed, also after a failure.
static rn_status make_globals(const rn_chat_template *tmpl, const rn_chat *chat,
                              struct chat_copy *copy, char **globals, size_t *len) {
    copy->out = open_memstream(globals, len);
    if (!copy->out) return err_set(copy->err, RN_ERR_NOMEM, "no memory for a conversation");
    rn_status status = write_globals(tmpl, chat, copy);
    const bool failed = ferror(copy->out) != 0;
    // closing may leave no text where there is no memory, and say nothing
    if ((fclose(copy->out) != 0 || failed || !*globals) && !status)
        status = err_set(copy->err, RN_ERR_NOMEM, "no memory for a conversation of %zu bytes",
                         strlen(chat->messages));
    return status;
}

rn_status rn_chat_render(const rn_chat_template *tmpl, const rn_chat *chat, char **text,
                         size_t *len, rn_error *err) {
    *text = NULL;
    *len = 0;
    rn_status status = check_chat(chat, err);
    if (status) return status;
    struct chat_copy copy = {.guard_for = chat->guard ? tools_tokenizer(tmpl->model) : NULL,
                             .err = err};
    char *globals = NULL;
    size_t globals_len = 0;
    status = make_globals(tmpl, chat, &copy, &globals, &globals_len);
    if (!status) {
        status = template_render(tmpl->tmpl, globals, globals_len, chat->now, text, len, err);
        if (status) prefix_error(tmpl, err);
    }
    free(globals);
    if (!status && chat->continue_final) {
        status = chat_cut(&copy, *text, len, err);
        if (status) {
            rn_free(*text);
            *text = NULL;
        }
    }
    chat_copy_deinit(&copy);
    return status;
}
