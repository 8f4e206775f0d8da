// Chat of the public interface: a parsed template together with the model whose tokens it names.
// The caller's JSON text is read once, into the values that the template sees; checks walk these.
// Each byte of the caller's strings carries a mark through the render, so the rendered text says
// which bytes are input. With `guard` that input is then guarded (text/guard.h).
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "jinja/chars.h"
#include "jinja/template.h"
#include "jinja/value.h"
#include "text/guard.h"
#include "text/tokenizer.h"
#include "tools.h"
#include "unicode/unicode.h"

// Marks are sets of these.
enum {
    MARK_INPUT = 1,
    MARK_END = 0x10, // the end of the message to be continued: its last character that is no
                     // blank, and the blanks behind it
};

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

// ---------------------------------------------------------------- the message to be continued

// The text that is continued: the content, or its last part that has a text.
static struct value *final_text(struct value message) {
    struct value *const content = value_member(message, "content"), *text = NULL;
    if (!content || content->kind == V_STR) return content;
    for (size_t i = content->kind == V_SEQ ? content->q->n : 0; i > 0 && !text; i--) {
        text = value_member(content->q->items[i - 1], "text");
        if (text && text->kind != V_STR) text = NULL;
    }
    return text;
}

// Marks the end of a copy of the text. *is_made asks for an 'x' as its end; a text without another
// character gets one, too.
static rn_status mark_end(struct render *r, struct value *text, bool *is_made) {
    const struct str *const s = text->s;
    size_t from = s->len - chars_blank_suffix(s->data, s->len);
    *is_made = *is_made || from == 0;
    if (*is_made)
        from = s->len;
    else
        chars_before(s->data, from, &from);
    return template_mark(r, text, from, MARK_INPUT | MARK_END, *is_made ? "x" : "");
}

static rn_status mark_final(struct render *r, struct value messages, bool *is_made, rn_error *err) {
    const struct seq *const q = messages.q;
    if (q->n == 0)
        return err_set(err, RN_ERR_ARG, "messages: there is none that could be continued");
    const struct value last = q->items[q->n - 1];
    const struct value *const role = value_member(last, "role");
    if (!role || role->kind != V_STR)
        return err_set(err, RN_ERR_ARG,
                       "messages: the last one has no role; only an assistant's is continued");
    if (role->s->len != 9 || memcmp(role->s->data, "assistant", 9) != 0) {
        char quoted[32];
        unicode_quote(role->s->data, role->s->len, quoted, sizeof quoted);
        return err_set(err, RN_ERR_ARG,
                       "messages: the last one is of role '%s'; only an assistant's is continued",
                       quoted);
    }
    struct value *const text = final_text(last);
    if (!text || text->kind != V_STR)
        return err_set(err, RN_ERR_ARG,
                       "messages: the last one has no text that could be continued");
    return mark_end(r, text, is_made);
}

// Behind the last byte that is marked as the end, where the template would have ended the content;
// 0: there is none.
static size_t end_find(const uint8_t *marks, size_t len) {
    while (len > 0 && !(marks[len - 1] & MARK_END)) len--;
    return len;
}

// Ends the text where the content ends.
static rn_status cut(char *text, const uint8_t *marks, size_t *len, bool is_made, rn_error *err) {
    const size_t end = end_find(marks, *len);
    if (end == 0)
        return err_set(err, RN_ERR_ARG,
                       "messages: the last one cannot be continued, the template does not write "
                       "its content as it is");
    *len = end - is_made;
    text[*len] = 0;
    return RN_OK;
}

// ---------------------------------------------------------------- variables

static rn_status set(struct render *r, const char *name, struct value v) {
    return template_set(r, name, strlen(name), v);
}

// Reads a variable that is of this kind; `name` names it in messages.
static rn_status read_checked(struct render *r, const char *name, const char *json,
                              enum value_kind kind, struct value *out, rn_error *err) {
    const rn_status status = template_read(r, name, json, strlen(json), MARK_INPUT, out);
    if (status || out->kind == kind) return status;
    return err_set(err, RN_ERR_ARG, "%s: not a JSON %s", name, kind == V_SEQ ? "array" : "object");
}

// The caller's variables. Three names have fields of their own in rn_chat.
static rn_status set_variables(struct render *r, const char *json, rn_error *err) {
    static const char *const fields[] = {"messages", "tools", "add_generation_prompt"};
    struct value v;
    rn_status status = read_checked(r, "variables", json, V_DICT, &v, err);
    for (size_t i = 0; i < 3 && !status; i++) {
        if (value_member(v, fields[i]))
            return err_set(err, RN_ERR_ARG, "variables: '%s' is set by the caller of the chat",
                           fields[i]);
    }
    for (size_t i = 0; !status && i < v.d->n; i++) {
        const struct str *const key = v.d->entries[i].key.s;
        status = template_set(r, key->data, key->len, v.d->entries[i].value);
    }
    return status;
}

// Empty for a model that has no such token: templates may still add it to text.
static rn_status set_token(struct render *r, const rn_model *model, const char *name, int32_t id) {
    const struct text_span text =
        id < 0 ? (struct text_span){"", 0} : tokenizer_bytes(tools_tokenizer(model), id);
    return template_set_text(r, name, text.data, text.len);
}

// A member that is absent or null.
static void fill(struct render *r, struct value object, const char *name, struct value v) {
    const struct value *const there = value_member(object, name);
    if (!there || there->kind == V_NONE) jinja_dict_set(r, object.d, jinja_str_literal(r, name), v);
}

// Callers may leave out what a tool does and its parameters; some templates expect both.
static void fill_tools(struct render *r, struct value tools) {
    for (size_t i = 0; i < tools.q->n; i++) {
        const struct value *const function = value_member(tools.q->items[i], "function");
        const struct value tool = function ? *function : tools.q->items[i];
        if (tool.kind != V_DICT) continue;
        struct dict *const parameters = jinja_dict_new(r);
        fill(r, tool, "description", jinja_str_literal(r, ""));
        fill(r, value_dict(parameters), "type", jinja_str_literal(r, "object"));
        fill(r, value_dict(parameters), "properties", value_dict(jinja_dict_new(r)));
        fill(r, tool, "parameters", value_dict(parameters));
    }
}

// Sets everything that the template sees. Absent tools and documents are none, as templates expect,
// and not undefined. The caller's variables come after the defaults that they may replace. fills:
// tools have all of their members.
static rn_status set_globals(struct render *r, const rn_model *model, const rn_chat *chat,
                             bool fills, bool *is_made, rn_error *err) {
    const struct tokenizer *const tokenizer = tools_tokenizer(model);
    struct value messages, tools = value_none();
    const char *const json = chat->messages ? chat->messages : "";
    rn_status status = read_checked(r, "messages", json, V_SEQ, &messages, err);
    if (!status && chat->tools) status = read_checked(r, "tools", chat->tools, V_SEQ, &tools, err);
    if (!status && fills && tools.kind == V_SEQ) fill_tools(r, tools);
    if (!status && chat->continue_final) status = mark_final(r, messages, is_made, err);
    if (!status) status = set_token(r, model, "bos_token", tokenizer_bos(tokenizer));
    if (!status) status = set_token(r, model, "eos_token", tokenizer_eos(tokenizer));
    if (!status) status = set(r, "documents", value_none());
    if (!status && chat->variables) status = set_variables(r, chat->variables, err);
    if (!status) status = set(r, "messages", messages);
    if (!status) status = set(r, "tools", tools);
    if (!status) status = set(r, "add_generation_prompt", value_bool(chat->add_generation_prompt));
    return status;
}

// ---------------------------------------------------------------- rendering

// The text with guards in its input, in place of *text.
static rn_status guard(const rn_model *model, char **text, const uint8_t *marks, size_t *len,
                       rn_error *err) {
    struct text_buffer out = {0};
    rn_status status = guard_input(tools_tokenizer(model), *text, marks, *len, &out, err);
    if (!status && !text_buffer_put(&out, "", 1))
        status = err_set(err, RN_ERR_NOMEM, "no memory for %zu bytes of text", *len);
    if (status) {
        text_buffer_deinit(&out);
        return status;
    }
    free(*text);
    *text = (char *)out.data;
    *len = out.len - 1;
    return RN_OK;
}

static rn_status render_as(const rn_chat_template *tmpl, const rn_chat *chat, bool fills,
                           bool *is_made, char **text, uint8_t **marks, size_t *len,
                           rn_error *err) {
    struct render *const r = template_begin(tmpl->tmpl, NULL, chat->now, err);
    if (!r) return RN_ERR_NOMEM;
    rn_status status = set_globals(r, tmpl->model, chat, fills, is_made, err);
    const bool is_set = !status;
    if (is_set) status = template_run(r, text, marks, len);
    if (status && (is_set || status == RN_ERR_MODEL)) prefix_error(tmpl, err);
    template_end(r);
    return status;
}

// A template that fails over tools as they came may expect what their caller left out.
static rn_status render(const rn_chat_template *tmpl, const rn_chat *chat, bool *is_made,
                        char **text, uint8_t **marks, size_t *len, rn_error *err) {
    rn_error other;
    bool made = *is_made;
    const rn_status status = render_as(tmpl, chat, false, is_made, text, marks, len, err);
    if (status != RN_ERR_MODEL || !chat->tools) return status;
    if (render_as(tmpl, chat, true, &made, text, marks, len, &other)) return status;
    *is_made = made;
    return RN_OK;
}

static rn_status render_whole(const rn_chat_template *tmpl, const rn_chat *chat, char **text,
                              size_t *len, rn_error *err) {
    if (chat->continue_final && chat->add_generation_prompt)
        return err_set(err, RN_ERR_ARG,
                       "a message cannot be continued and a new turn opened at the same time");
    uint8_t *marks = NULL;
    bool is_made = false;
    rn_status status = render(tmpl, chat, &is_made, text, &marks, len, err);
    // A template that drops the end of the content, as of "</think>", may still write text behind
    // it.
    if (!status && chat->continue_final && !is_made && end_find(marks, *len) == 0) {
        free(*text);
        free(marks);
        *text = NULL;
        marks = NULL;
        is_made = true;
        status = render(tmpl, chat, &is_made, text, &marks, len, err);
    }
    if (!status && chat->continue_final) status = cut(*text, marks, len, is_made, err);
    if (!status && chat->guard) status = guard(tmpl->model, text, marks, len, err);
    free(marks);
    if (!status) return RN_OK;
    rn_free(*text);
    *text = NULL;
    *len = 0;
    return status;
}

rn_status rn_chat_render_sized(const rn_chat_template *tmpl, const rn_chat *chat, size_t chat_size,
                               char **text, size_t *len, rn_error *err) {
    rn_chat own;
    *text = NULL;
    *len = 0;
    const rn_status status = sized_read("chat", chat, chat_size, &own, sizeof own, err);
    return status ? status : render_whole(tmpl, &own, text, len, err);
}
