// Calls as JSON. An object has a name and arguments in any order, perhaps within "function", and
// other members, which are checked and dropped. Arguments are an object, or a string that holds
// one. They are let out as they come if the name came before; else they wait for the name. Where a
// member comes twice, the first name that has arguments and the first arguments are taken.
#include "answer_objects.h"

#include <string.h>

#include "answer_literals.h"

enum role { ROLE_OTHER, ROLE_NAME, ROLE_ARGUMENTS, ROLE_TEXT }; // ROLE_TEXT: arguments in a string

static bool is_one_of(const struct call_object *object, const char *const *names) {
    while (*names &&
           (strlen(*names) != object->key_len || memcmp(*names, object->key, object->key_len) != 0))
        names++;
    return *names != NULL;
}

static void key_add(struct call_object *object, const char *text, size_t n) {
    if (object->key_len + n <= sizeof object->key)
        memcpy(object->key + object->key_len, text, n);
    else
        object->key_len = sizeof object->key; // with what follows it is too long
    object->key_len += n;
}

static bool name_add(struct parts_call *call, const char *text, size_t n) {
    if (call->name_len + n > sizeof call->name) return false;
    memcpy(call->name + call->name_len, text, n);
    call->name_len += n;
    return true;
}

static bool object_begin(struct call_run *run, char c) {
    struct call_object *const object = &run->call->object;
    if (c != '{') return false;
    call_start(run);
    object->key_len = 0;
    object->n_members = 0;
    object->role = ROLE_OTHER;
    object->is_nested = object->is_keyed = object->has_arguments = false;
    return true;
}

// {"name": {arguments}}
static bool keyed_begin(struct call_run *run) {
    struct call_object *const object = &run->call->object;
    object->is_keyed = object->has_arguments = true;
    object->role = ROLE_ARGUMENTS;
    return object->key_len <= sizeof object->key && call_name(run, object->key, object->key_len);
}

static bool arguments_begin(struct call_object *object, char c) {
    if (object->has_arguments) return true;
    if (c != '{' && c != '"') return false;
    object->has_arguments = true;
    object->role = c == '{' ? ROLE_ARGUMENTS : ROLE_TEXT;
    return true;
}

// The value of a member starts.
static bool member_begin(struct call_run *run, char c) {
    static const char *const names[] = {"name", "function", "tool_name", NULL};
    static const char *const function[] = {"function", NULL};
    static const char *const arguments[] = {"arguments", "parameters", NULL};
    struct parts_call *const call = run->call;
    struct call_object *const object = &call->object;
    bool good = !object->is_keyed;
    object->role = ROLE_OTHER;
    if (is_one_of(object, names) && c == '"') {
        if (!call->is_open && !call->safe_text) { // nothing was or will be let out under another
            object->role = ROLE_NAME;
            call->name_len = 0;
        }
    } else if (is_one_of(object, arguments)) {
        good = good && arguments_begin(object, c);
    } else if (is_one_of(object, function) && c == '{' && !object->is_nested) {
        object->is_nested = true;
    } else if (run->parts->marks.tools.keyed && c == '{' && object->n_members == 0) {
        good = good && keyed_begin(run);
    }
    object->n_members++;
    object->key_len = 0;
    return good;
}

// The member's value has ended.
static bool member_end(struct call_run *run) {
    struct parts_call *const call = run->call;
    const int role = call->object.role;
    call->object.role = ROLE_OTHER;
    if (role == ROLE_TEXT) return call->is_complete;
    if (role != ROLE_NAME || !call->name_len) return true;
    return call_name(run, call->name, call->name_len);
}

// Without a mark before it, an object is a call only if it has arguments.
static bool object_end(struct call_run *run, size_t end) {
    const struct call_object *const object = &run->call->object;
    if (!object->has_arguments && (run->parts->marks.tools.bare || !call_put(run, "{}", 2, end)))
        return false;
    return call_close(run, end);
}

// A character of the key or of the member's value.
static bool character_read(struct call_run *run, size_t end) {
    struct parts_call *const call = run->call;
    struct call_object *const object = &call->object;
    const struct json_walk *const walk = &object->walk;
    if (walk->is_key) {
        key_add(object, walk->text, (size_t)walk->n_text);
        return true;
    }
    if (object->role == ROLE_NAME) return name_add(call, walk->text, (size_t)walk->n_text);
    return object->role != ROLE_TEXT || call_put(run, walk->text, (size_t)walk->n_text, end);
}

// A byte of JSON, from the token that ends at `end`. GOOD: the value has ended.
static enum call_verdict byte_read(struct call_run *run, char c, size_t end) {
    struct call_object *const object = &run->call->object;
    struct json_walk *const walk = &object->walk;
    const int before = walk->depth;
    const unsigned events = json_walk_push(walk, c);
    if (events & JSON_FAULT) return CALL_BAD;
    int level = object->is_list + 1 + object->is_nested; // of the members
    bool good = true;
    if (events & JSON_BEGIN && before == 0 && c == '[')
        object->is_list = true;
    else if (events & JSON_BEGIN && before == object->is_list)
        good = object_begin(run, c);
    else if (events & JSON_BEGIN && before == level)
        good = member_begin(run, c);
    level = object->is_list + 1 + object->is_nested;
    if (good && object->role == ROLE_ARGUMENTS) good = call_put(run, &c, 1, end);
    if (good && events & JSON_CHAR && walk->depth == level) good = character_read(run, end);
    if (good && events & JSON_END && walk->depth == level) good = member_end(run);
    if (!good) return CALL_BAD;
    if (!(events & JSON_END) || walk->depth >= level) return CALL_MORE;
    if (object->is_nested) {
        object->is_nested = false;
        return CALL_MORE;
    }
    if (walk->depth == object->is_list && c == '}' && !object_end(run, end)) return CALL_BAD;
    if (walk->depth > 0) return CALL_MORE;
    return run->call->n_calls > 0 ? CALL_GOOD : CALL_BAD;
}

enum call_verdict objects_read(struct call_run *run) {
    struct parts_call *const call = run->call;
    while (call->at < run->len) {
        const enum call_verdict verdict = byte_read(run, run->text[call->at], call->at + 1);
        if (verdict == CALL_BAD) return CALL_BAD;
        call->at++;
        if (verdict == CALL_GOOD) return CALL_GOOD;
    }
    return CALL_MORE;
}

enum call_verdict objects_read_python(struct call_run *run) {
    struct parts_call *const call = run->call;
    for (;;) {
        size_t len, n = 0;
        const char *const text = call_rest(run, &len);
        const struct call_place before = call_place_of(call);
        jbuf_clear(&call->json);
        enum call_verdict verdict =
            literal_next(&call->literal, &call->object.walk, text, len, &n, &call->json);
        if (verdict == CALL_MORE) return CALL_MORE;
        if (verdict == CALL_GOOD) verdict = call->json.failed ? CALL_BAD : CALL_MORE;
        for (size_t i = 0; i < call->json.len && verdict == CALL_MORE; i++)
            verdict = byte_read(run, call->json.data[i], call->at + n);
        if (verdict == CALL_BAD) call_return(call, &before);
        call->at += n;
        if (verdict != CALL_MORE) return verdict;
    }
}
