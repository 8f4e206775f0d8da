// The codes of refusals are the ones that Anthropic's clients know: they then send the whole
// conversation, as a new thread or as none.
#include "threads.h"

#include <string.h>

#include "fields.h"
#include "helpers.h"
#include "turns_read.h"

static const char *const shared[] = {"system", "tools"};
enum { SHARED = sizeof shared / sizeof *shared };
static const char id_field[] = "thread.previous_message_id";

// ---------------------------------------------------------------- continuing

static bool claim_refuse(struct call *call, const char *id, enum turn_next why) {
    static const struct {
        int status;
        const char *code, *why;
    } refusals[] = {
        [TURN_OPEN] = {404, "thread_not_found",
                       "names no kept message: send all messages, with {\"type\":\"create\"}"},
        [TURN_CLAIMED] = {400, "thread_continue_in_flight",
                          "is being continued by another request"},
        [TURN_CONTINUED] = {400, "thread_already_continued",
                            "was continued: continue from the last message of its thread"},
    };
    char shown[80];
    unicode_quote(id, strlen(id), shown, sizeof shown);
    return call_refuse(call, refusals[why].status, id_field, refusals[why].code, "%s: '%s' %s",
                       id_field, shown, refusals[why].why);
}

// A field that all turns share comes from the thread. The same value may be sent again.
static bool shared_put(struct call *call, json_t *body, const char *name, json_t *kept) {
    json_t *given = json_object_get(body, name);
    if (given && !json_is_null(given) && !(kept && json_equal(given, kept)))
        return call_refuse(call, 400, name, "thread_fingerprint_mismatch",
                           "%s: a continued thread has the value of its first request; leave it "
                           "out, or start a thread",
                           name);
    return !kept || !json_object_set(body, name, kept) || call_refuse_memory(call);
}

static bool shared_read(struct call *call, json_t *body, const struct turn *turn) {
    while (turn->previous) turn = turn->previous;
    const char *head = turn->text.data + turn->input_len + turn->output_len;
    json_t *object = call_json_kept(head, turn->head_len);
    bool ok = object || call_refuse_memory(call);
    for (int i = 0; ok && i < SHARED; i++)
        ok = shared_put(call, body, shared[i], json_object_get(object, shared[i]));
    json_decref(object);
    return ok;
}

static bool continue_read(const struct fields *fields, json_t *body, struct thread *out) {
    const char *id = NULL;
    enum turn_next why;
    if (!field_string(fields, "previous_message_id", SIZE_MAX, &id, NULL)) return false;
    if (!id) return field_refuse(fields, "previous_message_id", "is required: a message's id");
    out->previous = turns_claim(out->store, id, fields->call->owner, &why);
    return out->previous ? shared_read(fields->call, body, out->previous)
                         : claim_refuse(fields->call, id, why);
}

bool thread_read(struct call *call, json_t *body, struct thread *out) {
    static const char types[] = "create|continue";
    const struct fields top = fields_of(call, body, "");
    const json_t *object = NULL;
    int type = -1;
    *out = (struct thread){.store = call->server->turns};
    if (!field_object(&top, "thread", &object)) return false;
    if (!object) return true;
    const struct fields fields = fields_of(call, object, "thread");
    if (!field_choice(&fields, "type", types, &type)) return false;
    if (type < 0) return field_refuse(&fields, "type", "is required: one of %s", types);
    if (!turns_keeps(out->store))
        return call_refuse(call, 400, "thread", "thread_unsupported_request",
                           "thread: no conversations are kept here (--keep-responses 0): send all "
                           "messages, without thread");
    out->is_kept = true;
    return type == 0 || continue_read(&fields, body, out);
}

void thread_deinit(struct thread *thread) {
    turns_unclaim(thread->store, thread->previous);
    jbuf_deinit(&thread->text);
    jbuf_deinit(&thread->shared);
    *thread = (struct thread){0};
}

bool thread_messages(struct call *call, const struct thread *thread, json_t **out) {
    *out = thread->previous ? turns_items(call, thread->previous, id_field) : NULL;
    return *out || !thread->previous;
}

// ---------------------------------------------------------------- keeping

static void shared_write(const json_t *body, struct jbuf *out) {
    jbuf_text(out, "{");
    for (int i = 0; i < SHARED; i++) {
        const json_t *value = json_object_get(body, shared[i]);
        if (!value || json_is_null(value)) continue;
        jbuf_key(out, shared[i]);
        jbuf_json(out, value);
    }
    jbuf_text(out, "}");
}

bool thread_take(struct call *call, struct thread *thread, const json_t *body) {
    const json_t *message;
    size_t i;
    if (!thread->is_kept) return true;
    json_array_foreach(json_object_get(body, "messages"), i, message) {
        jbuf_json(&thread->text, message);
        jbuf_bytes(&thread->text, "\n", 1);
    }
    thread->input_len = thread->text.len;
    if (!thread->previous) shared_write(body, &thread->shared);
    return !(thread->text.failed || thread->shared.failed) || call_refuse_memory(call);
}

// As one line: the model may write blanks into the arguments of a call, line ends among them.
static void content_write(const char *content, size_t len, struct jbuf *out) {
    const size_t from = out->len;
    jbuf_bytes(out, content, len);
    for (char *at = out->failed ? NULL : out->data + from;
         at && (at = memchr(at, '\n', out->len - (size_t)(at - out->data)));)
        *at = ' ';
}

void thread_keep(const struct call *call, struct thread *thread, const char *content, size_t len) {
    struct jbuf *text = &thread->text;
    if (!thread->is_kept) return;
    jbuf_text(text, "{\"role\":\"assistant\",\"content\":");
    content_write(content, len, text);
    jbuf_text(text, "}\n");
    struct turn turn = {.kind = TURN_MESSAGE,
                        .owner = call->owner,
                        .previous = thread->previous,
                        .input_len = thread->input_len,
                        .output_len = text->len - thread->input_len,
                        .head_len = thread->shared.len};
    jbuf_bytes(text, thread->shared.data, thread->shared.len);
    call_answer_id(call, turn.id);
    turn.text = *text;
    *text = (struct jbuf){0};
    thread->is_kept = false;
    turns_keep(thread->store, &turn);
}
