// A call's life, and the handlers' tools: read its body, refuse, answer. Invariants: a call is in
// server->calls, and part of counts.active, from the time it leaves READING until it is freed. It
// is in server->woken at most once.
#include "call.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "fields.h"
#include "helpers.h"
#include "routes.h"

// ---------------------------------------------------------------- life

static void id_draw(char out[25]) {
    static const char letters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ01";
    unsigned char bytes[24];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        const uint64_t now = clock_ns();
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(now >> (i % 8 * 8));
    }
    for (size_t i = 0; i < sizeof bytes; i++) out[i] = letters[bytes[i] & 63];
    out[24] = '\0';
}

// In place. An escaped NUL becomes '?': it would end the path, which could then match another
// route.
static void unescape(char *text) {
    char *to = text;
    for (const char *at = text; *at; to++) {
        const int high = *at == '%' ? hex_digit(at[1]) : -1;
        const int low = high >= 0 ? hex_digit(at[2]) : -1;
        const char byte = low >= 0 ? (char)(high << 4 | low) : *at;
        at += low >= 0 ? 3 : 1;
        *to = byte ? byte : '?';
    }
    *to = '\0';
}

// A target is a path and perhaps a query, perhaps behind "http://name".
static bool target_split(struct call *call) {
    const char *target = call->head.text ? head_target(&call->head) : "";
    const char *scheme = *target == '/' ? NULL : strstr(target, "://");
    const char *path = scheme ? scheme + 3 + strcspn(scheme + 3, "/?") : target;
    const size_t len = strcspn(path, "?");
    call->path = len || !scheme ? strndup(path, len) : strdup("/");
    if (!call->path) return false;
    unescape(call->path);
    if (path[len]) call->query = path + len + 1;
    return true;
}

struct call *call_create(struct server *server, struct head *head) {
    struct call *call = calloc(1, sizeof *call);
    if (call) call->head = *head;
    if (!call || !target_split(call)) {
        head_deinit(head);
        free(call);
        return NULL;
    }
    call->server = server;
    call->served = &server->served[0];
    call->out.most = server->config.answer_bytes_max;
    call->head_only = head->text && !strcmp(head_method(head), "HEAD");
    call->created = (int64_t)time(NULL);
    call->start_ns = clock_ns();
    id_draw(call->id);
    *head = (struct head){0};
    return call;
}

// The queue of woken calls is short: each turn of the loop empties it.
static void unwake(struct call *call) {
    if (!call->is_woken) return;
    struct call **at = &call->server->woken;
    while (*at != call) at = &(*at)->woken;
    *at = call->woken;
}

// The generation was destroyed before: layers above a call are not known here.
void call_destroy(struct call *call) {
    assert(!call->generation && call->state != CALL_WORKING);
    if (call->on_gone) call->on_gone(call);
    unwake(call);
    if (call->state != CALL_READING) {
        if (call->next) call->next->prev = call->prev;
        *(call->prev ? &call->prev->next : &call->server->calls) = call->next;
        call->server->counts.active--;
    }
    call->server->counts.body_bytes -= call->body_cost;
    call->server->counts.answer_bytes -= call->answer_cost;
    json_decref(call->json);
    free(call->body);
    jbuf_deinit(&call->out);
    head_deinit(&call->head);
    free(call->path);
    free(call);
}

void call_state_set(struct call *call, enum call_state state) {
    struct server *server = call->server;
    if (call->state == CALL_READING && state != CALL_READING) {
        call->next = server->calls;
        if (call->next) call->next->prev = call;
        server->calls = call;
        server->counts.active++;
    }
    call->state = state;
}

void call_wake(struct call *call) {
    if (call->is_woken || !call->conn) return;
    call->is_woken = true;
    call->woken = call->server->woken;
    call->server->woken = call;
}

struct call *call_woken(struct server *server) {
    struct call *call = server->woken;
    if (!call) return NULL;
    server->woken = call->woken;
    call->is_woken = false;
    return call;
}

void call_stream(struct call *call, void (*on_gone)(struct call *call)) {
    call_state_set(call, CALL_STREAMING);
    call->status = 200;
    call->on_gone = on_gone;
    call->written_ns = clock_ns();
    call_wake(call);
}

void call_end(struct call *call) {
    call_state_set(call, CALL_ENDED);
    call_wake(call);
}

void call_fail(struct call *call) {
    call->failed = true;
    call_end(call);
}

// ---------------------------------------------------------------- what was asked

const char *call_path(const struct call *call) { return call->path; }

void call_answer_id(const struct call *call, char out[CALL_ID_BYTES]) {
    static const struct {
        const char *path, *prefix;
    } api[] = {{"/chat/completions", "chatcmpl-"},
               {"/v1/completions", "cmpl-"},
               {"/v1/messages", "msg_"},
               {"/responses", "resp_"},
               {"/inference/v1/generate", "generate-tokens-"}};
    const char *prefix = "";
    for (size_t i = 0; i < sizeof api / sizeof *api; i++) {
        if (strstr(call->route->path, api[i].path)) {
            prefix = api[i].prefix;
            break;
        }
    }
    snprintf(out, CALL_ID_BYTES, "%s%s", prefix, call->id);
}

const char *call_header(const struct call *call, const char *name) {
    return call->head.text ? head_field(&call->head, name) : NULL;
}

const char *call_query(const struct call *call, const char *key, char *out, size_t size) {
    const size_t key_len = strlen(key);
    for (const char *at = call->query; at && *at;) {
        const size_t len = strcspn(at, "&");
        if (len >= key_len && !strncmp(at, key, key_len) &&
            (len == key_len || at[key_len] == '=')) {
            const size_t skip = len == key_len ? key_len : key_len + 1;
            snprintf(out, size, "%.*s", (int)(len - skip), at + skip);
            unescape(out);
            return out;
        }
        at += len + (at[len] == '&');
    }
    return NULL;
}

// ---------------------------------------------------------------- refusing

// llama.cpp's clients know a prompt that is too long by its type, OpenAI's by its code.
#define TOO_LONG "context_length_exceeded"

static const char *error_type(enum call_api api, int status, const char *code) {
    if (api == API_OPENAI && code && !strcmp(code, TOO_LONG)) return "exceed_context_size_error";
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return api == API_ANTHROPIC ? "request_too_large" : "invalid_request_error";
    case 429:
        return "rate_limit_error";
    case 503:
        return api == API_ANTHROPIC ? "overloaded_error" : "unavailable_error";
    default:
        if (status < 500) return "invalid_request_error";
        return api == API_ANTHROPIC ? "api_error" : "server_error";
    }
}

// Anthropic's clients know these codes, and read them here.
static void details_put(const char *param, const char *code, struct jbuf *out) {
    static const char unsupported[] = "thread_unsupported_request";
    if (!code || strncmp(code, "thread_", strlen("thread_")) != 0) return;
    jbuf_key(out, "details");
    jbuf_text(out, "{\"error_code\":");
    jbuf_cstring(out, code);
    if (!strcmp(code, unsupported)) {
        jbuf_text(out, ",\"unsupported\":[");
        jbuf_cstring(out, param);
        jbuf_text(out, "]");
    }
    jbuf_text(out, "}");
}

// n_prompt 0: the error is not about the length of a prompt.
static void error_write(enum call_api api, int status, const char *param, const char *code,
                        const char *message, size_t n_prompt, int n_ctx, struct jbuf *out) {
    if (api == API_OLLAMA) {
        jbuf_text(out, "{\"error\":");
        jbuf_cstring(out, message);
        jbuf_text(out, "}");
        return;
    }
    jbuf_text(out, api == API_ANTHROPIC ? "{\"type\":\"error\",\"error\":{\"type\":"
                                        : "{\"error\":{\"type\":");
    jbuf_cstring(out, error_type(api, status, code));
    jbuf_key(out, "message");
    jbuf_cstring(out, message);
    if (api == API_OPENAI) {
        jbuf_key(out, "param");
        jbuf_cstring(out, param);
        jbuf_key(out, "code");
        if (code) {
            jbuf_cstring(out, code);
        } else if (status == 503) { // as the peers' health checks have it
            jbuf_int(out, status);
        } else {
            jbuf_text(out, "null");
        }
        if (n_prompt) jbuf_printf(out, ",\"n_prompt_tokens\":%zu,\"n_ctx\":%d", n_prompt, n_ctx);
    }
    if (api == API_ANTHROPIC) details_put(param, code, out);
    jbuf_text(out, "}}");
}

void call_error_object(enum call_api api, int status, const char *param, const char *code,
                       const char *message, struct jbuf *out) {
    error_write(api, status, param, code, message, 0, 0, out);
}

// The API in whose form errors are written where no route was found.
static enum call_api api_of_path(const char *path) {
    static const struct {
        const char *path;
        enum call_api api;
    } theirs[] = {{"/v1/messages", API_ANTHROPIC}, {"/api", API_OLLAMA}};
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
        const size_t len = strlen(theirs[i].path);
        if (!strncmp(path, theirs[i].path, len) && (!path[len] || path[len] == '/'))
            return theirs[i].api;
    }
    return API_OPENAI;
}

// Anthropic's clients send a header of their own, also to paths that other clients know.
enum call_api call_api_of(const struct call *call) {
    const enum call_api api = call->route  ? call->route->api
                              : call->path ? api_of_path(call->path)
                                           : API_OPENAI;
    return api == API_OPENAI && call_header(call, "anthropic-version") ? API_ANTHROPIC : api;
}

bool call_refused(const struct call *call) { return call->status >= 400; }

bool call_refuse(struct call *call, int status, const char *param, const char *code,
                 const char *fmt, ...) {
    if (call_refused(call)) return false;
    char message[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    jbuf_clear(&call->out);
    call_error_object(call_api_of(call), status, param, code, message, &call->out);
    call->content_type = NULL;
    call->status = status;
    if ((status == 429 || status == 503) && !call->retry_after_s) call->retry_after_s = 1;
    return false;
}

bool call_refuse_length(struct call *call, const char *param, size_t n_prompt, int n_ctx,
                        const char *message) {
    if (call_refused(call)) return false;
    call_refuse(call, 400, param, TOO_LONG, "%s", message);
    jbuf_clear(&call->out);
    error_write(call_api_of(call), 400, param, TOO_LONG, message, n_prompt, n_ctx, &call->out);
    return false;
}

bool call_refuse_error(struct call *call, const char *param, const rn_error *err) {
    const char *message = err->message;
    const char *path = err_path(call->served->info->path);
    const size_t len = strlen(path);
    if (len && !strncmp(message, path, len) && !strncmp(message + len, ": ", 2)) message += len + 2;
    if (err->status == RN_ERR_NOMEM) return call_refuse_memory(call);
    return call_refuse(call, 400, param, NULL, "%s: %s", param, message);
}

bool call_refuse_memory(struct call *call) {
    return call_refuse(call, 503, NULL, "out_of_memory", "out of memory");
}

// The estimated time until all calls that wait now have been served.
static int retry_after(const struct served *served) {
    const int seqs = served->engine_info.max_seqs;
    const double rounds = (double)served->load / (seqs > 0 ? seqs : 1);
    const double seconds = ceil(served->answer_s * rounds / 2);
    return seconds < 1 ? 1 : seconds > 60 ? 60 : (int)seconds;
}

bool call_refuse_full(struct call *call) {
    const struct served *served = call->served;
    const int taken = served->load + served->preparing + served->n_waiting;
    call->retry_after_s = retry_after(served);
    return call_refuse(call, 429, NULL, "queue_full",
                       "The server is busy: %d of %d places are taken. Try again in %d s.", taken,
                       served_places(served), call->retry_after_s);
}

// ---------------------------------------------------------------- answering

// False: it has grown, and all answers together take more than they may.
static bool recount(struct call *call) {
    struct server *server = call->server;
    const size_t before = call->answer_cost, reserved = call->answer_reserved;
    const size_t now = reserved > call->answer_kept ? reserved : call->answer_kept;
    call->answer_cost = now;
    server->counts.answer_bytes += now - before;
    if (now > call->answer_cost_max) call->answer_cost_max = now;
    return now <= before || server->counts.answer_bytes <= server->config.answer_bytes_max;
}

bool call_count(struct call *call, size_t before, size_t now) {
    call->answer_kept += now - before;
    return recount(call);
}

bool call_count_out(struct call *call) {
    const size_t before = call->out_counted;
    call->out_counted = call->out.capacity;
    return call_count(call, before, call->out_counted);
}

bool call_reserve(struct call *call, size_t bytes) {
    call->answer_reserved = bytes;
    if (recount(call)) return true;
    call->answer_reserved = 0;
    recount(call);
    return false;
}

bool call_refuse_answers(struct call *call) {
    jbuf_deinit(&call->out);
    call_count_out(call);
    call->more = NULL;
    call->status = 0;
    return call_refuse(call, 503, NULL, "answers_full",
                       "The answers of other requests take %zu bytes, at most %zu are kept. Try "
                       "again in 1 s.",
                       call->server->counts.answer_bytes - call->answer_cost,
                       call->server->config.answer_bytes_max);
}

bool call_fill(struct call *call, size_t bytes) {
    bool fits = true;
    while (call->more && call_unsent(call) < bytes) {
        if (!call->more(call)) call->more = NULL;
        fits &= call_count_out(call);
    }
    return fits;
}

void call_answer(struct call *call) {
    if (call_refused(call)) return;
    if (call->out.full) {
        call_refuse(call, 413, NULL, "answer_too_large",
                    "The answer has more than %zu bytes; ask for less of it at a time",
                    call->out.most);
        return;
    }
    if (call->out.failed) {
        call_refuse_memory(call);
        return;
    }
    call->status = 200;
}

// If memory for a character runs out, jansson continues: it takes the shortened text for the whole,
// or reports bad syntax. The state is per thread, because jansson passes its allocator only a size.
static _Thread_local bool json_starved;

static void *json_allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) json_starved = true;
    return memory;
}

void call_json_init(void) { json_set_alloc_funcs(json_allocate, free); }

// A byte order mark, which some programs write before JSON, becomes blanks: places in the body stay
// what they are.
static void body_skip_mark(struct call *call) {
    static const char mark[] = "\xEF\xBB\xBF";
    const size_t len = sizeof mark - 1;
    if (call->body_len >= len && !memcmp(call->body, mark, len)) memset(call->body, ' ', len);
}

static json_t *body_load(struct call *call, json_error_t *problem) {
    json_starved = false;
    return json_loadb(call->body ? call->body : "", call->body_len,
                      JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, problem);
}

json_t *call_json_kept(const char *text, size_t len) {
    json_starved = false;
    json_t *value = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    if (!json_starved) return value;
    json_decref(value);
    return NULL;
}

static bool body_is_blank(const struct call *call) {
    for (size_t i = 0; i < call->body_len; i++)
        if (!memchr(" \t\r\n", call->body[i], 4)) return false;
    return true;
}

// The number before the place where the parser stopped is larger than any double.
static void number_refuse(struct call *call, size_t end, const char *path) {
    enum { SHOWN = 32 };
    size_t start = end;
    while (start > 0 && strchr("0123456789+-.eE", call->body[start - 1])) start--;
    const int len = end - start < SHOWN ? (int)(end - start) : SHOWN;
    call_refuse(call, 400, *path ? path : NULL, "invalid_value",
                "%s%sthe number %.*s%s is out of range: at most 1.8e308, at least -1.8e308", path,
                *path ? ": " : "", len, call->body + start, end - start > SHOWN ? "..." : "");
}

static void syntax_refuse(struct call *call, const json_error_t *problem) {
    char path[256] = "";
    json_path_at(call->body ? call->body : "", call->body_len, (size_t)problem->position, path,
                 sizeof path);
    if (json_error_code(problem) == json_error_numeric_overflow) {
        number_refuse(call, (size_t)problem->position, path);
        return;
    }
    call_refuse(call, 400, *path ? path : NULL, "invalid_json",
                "the body is not valid JSON: %s (at byte %d%s%s)", problem->text, problem->position,
                *path ? ", in " : "", path);
}

json_t *call_json(struct call *call) {
    if (call->json) return call->json;
    json_error_t problem;
    body_skip_mark(call);
    call->json = body_load(call, &problem);
    if (!call->json && json_error_code(&problem) == json_error_numeric_overflow) {
        call->big_seed[SEED_BODY].place = "seed";
        call->big_seed[SEED_OPTIONS].place = "options.seed";
        call->big_seed[SEED_SETTINGS].place = "sampling_params.seed";
        json_integers_fit(call->body, call->body_len, call->big_seed, SEED_PLACES);
        call->json = body_load(call, &problem);
    }
    if (call->json && !json_starved && json_is_object(call->json)) return call->json;
    if (json_starved) {
        call_refuse_memory(call);
    } else if (call->json) {
        call_refuse(call, 400, NULL, "invalid_type", "the body must be a JSON object");
    } else if (body_is_blank(call)) {
        call_refuse(call, 400, NULL, "invalid_json", "the body is empty, expected a JSON object");
    } else if (!*problem.text) { // jansson has no message for running out of memory
        call_refuse_memory(call);
    } else {
        syntax_refuse(call, &problem);
    }
    json_decref(call->json);
    call->json = NULL;
    return NULL;
}
