// `runnel explain`: where the time of a request went, in words and as a picture. The request is on
// a running server (--url) or in a saved file. With --url alone the server's requests are listed.
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "explain/picture.h"
#include "helpers.h"
#include "terminal/json.h"
#include "terminal/term.h"

enum { FETCH_MS = 30000, DOCUMENT_LIMIT = 64 << 20, ID_BYTES_MAX = 128, CAUSE_BYTES_MAX = 64 };
// Of the list: all columns but cause, age and id; the age; a cause, in full and at least.
enum { FIXED_COLUMNS = 47, AGE_COLUMNS = 11, CAUSE_COLUMNS = 33, CAUSE_COLUMNS_MIN = 8 };

struct explain {
    const struct options *options;
    struct term term;
    struct text document;
    const char *name; // of its file or server, for messages
    bool served;      // it is a server
};

// ---------------------------------------------------------------- the server

// The message of the server's error; "": it has none.
static void error_message(const struct client_reply *reply, char *out, size_t size) {
    json_t *answer = json_loadb(reply->body, reply->body_len, 0, NULL);
    const char *message =
        json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
    snprintf(out, size, "%s", message ? message : "");
    json_decref(answer);
}

static int status_fail(const struct explain *explain, const struct client_reply *reply) {
    char message[256];
    error_message(reply, message, sizeof message);
    const char *why = *message ? message : "no further message";
    if (reply->status == 401)
        return app_fail(APP_FAILED, "%s: the key is refused: %s; --api-key gives it", explain->name,
                        why);
    return app_fail(reply->status == 404 ? APP_USAGE : APP_FAILED, "%s: status %d: %s",
                    explain->name, reply->status, why);
}

// GET path of the server of --url into explain->document.
static int fetch(struct explain *explain, const char *path) {
    const char *key = option_text(explain->options, OPT_API_KEY);
    char headers[CLIENT_HEADERS_SIZE] = "";
    struct client_url base, url;
    struct client_reply reply;
    rn_error err = {0};
    char name[OPTION_NAME_SIZE];
    if (client_url_parse(explain->name, &base, &err)) {
        return app_fail(APP_USAGE, "%s: %s", option_name(explain->options, OPT_URL, name),
                        err.message);
    }
    if (!client_url_join(&base, path, &url))
        return app_fail(APP_USAGE, "%s: the address is too long", app_short(explain->name).text);
    if (key && client_bearer_add(headers, key, &err))
        return app_fail(APP_USAGE, "%s: %s", option_name(explain->options, OPT_API_KEY, name),
                        err.message);
    if (client_fetch_url(&url, "GET", headers, NULL, 0, FETCH_MS, DOCUMENT_LIMIT, &reply, &err))
        return app_fail(APP_FAILED, "%s", err.message);
    int code = APP_OK;
    if (reply.status == 200) {
        explain->document = (struct text){.data = reply.body, .len = reply.body_len};
        return APP_OK;
    }
    code = status_fail(explain, &reply);
    client_reply_free(&reply);
    return code;
}

// ---------------------------------------------------------------- one request

static int document_print(const struct explain *explain) {
    fwrite(explain->document.data, 1, explain->document.len, stdout);
    putchar('\n');
    return APP_OK;
}

static void heading_print(const struct explain *explain, const struct record *record) {
    const bool color = explain->term.out_color;
    printf("%s%srequest %llu", "  ", term_bold(color), (unsigned long long)record->request);
    if (*record->id) {
        fputs(", ", stdout);
        term_print_escaped(stdout, record->id, strlen(record->id), RECORD_ID_BYTES);
    }
    printf("%s%s of ", term_reset(color), term_dim(color));
    term_print_escaped(stdout, record->model, strlen(record->model), RECORD_MODEL_BYTES);
    printf("%s\n\n", term_reset(color));
}

static int request_print(const struct explain *explain) {
    struct record record;
    rn_error err = {0};
    const struct text *text = &explain->document;
    if (record_read(err_path(explain->name), text->data, text->len, &record, &err))
        return app_fail(explain->served ? APP_FAILED : APP_USAGE, "%s", err.message);
    int code = APP_OK;
    if (option_flag(explain->options, OPT_JSON)) {
        code = document_print(explain);
    } else {
        heading_print(explain, &record);
        const struct picture picture = picture_on(stdout, &explain->term);
        if (!picture_print(&picture, &record)) code = app_fail(APP_FAILED, "out of memory");
    }
    record_free(&record);
    return code;
}

// An id is a number or a word with a prefix: nothing that has to be escaped in a path.
static int id_check(const char *id) {
    const size_t len = strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "-_");
    if (*id && !id[len] && len <= ID_BYTES_MAX) return APP_OK;
    return app_fail(APP_USAGE,
                    "'%s' is no id of a request: a number, or the id of a response such as "
                    "chatcmpl-...",
                    app_short(id).text);
}

static int explain_served(struct explain *explain, const char *id) {
    char path[ID_BYTES_MAX + 32];
    int code = id_check(id);
    if (code) return code;
    snprintf(path, sizeof path, "/requests/%s/trace", id);
    if ((code = fetch(explain, path))) return code;
    return request_print(explain);
}

// ---------------------------------------------------------------- the list

static const char *member_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double member_number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

// "-" where it is not known yet.
static const char *number_text(double value, int digits, char *out, size_t size) {
    if (value > 0)
        snprintf(out, size, "%.*f", digits, value);
    else
        snprintf(out, size, "-");
    return out;
}

// The parts of a row that depend on the terminal's width.
struct layout {
    int cause; // columns
    bool age, id;
};

static struct layout layout_of(const json_t *rows, int room) {
    struct layout layout = {.cause = CAUSE_COLUMNS};
    int id = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const int len = (int)strlen(member_text(json_array_get(rows, i), "id"));
        if (len > id) id = len;
    }
    room -= FIXED_COLUMNS + 2;
    if (layout.cause > room) layout.cause = room < CAUSE_COLUMNS_MIN ? CAUSE_COLUMNS_MIN : room;
    room -= layout.cause;
    layout.age = room >= AGE_COLUMNS;
    if (layout.age) room -= AGE_COLUMNS;
    layout.id = room >= 2 + id;
    return layout;
}

// Cut to its columns, with dots where something is missing.
static void cause_print(const struct layout *layout, const char *cause) {
    const int len = (int)strlen(cause);
    const bool cut = len > layout->cause;
    term_print_escaped(stdout, cause, (size_t)(cut ? layout->cause - 3 : len), CAUSE_BYTES_MAX);
    if (cut) fputs("...", stdout);
    if (layout->id) printf("%*s", layout->cause > len ? layout->cause - len : 0, "");
}

static void row_print(const struct layout *layout, const json_t *row) {
    char ttft[32], tpot[32];
    printf("  %7.0f  %-8.8s", member_number(row, "request"), member_text(row, "state"));
    if (layout->age) printf("  %7.0f s", member_number(row, "age_s"));
    printf("  %7.0f  %8s  %7s  ", member_number(row, "output_tokens"),
           number_text(member_number(row, "ttft_ms"), 1, ttft, sizeof ttft),
           number_text(member_number(row, "tpot_ms"), 2, tpot, sizeof tpot));
    cause_print(layout, member_text(row, "cause_text"));
    if (layout->id) {
        const char *id = member_text(row, "id");
        fputs("  ", stdout);
        term_print_escaped(stdout, id, strlen(id), RECORD_ID_BYTES);
    }
    putchar('\n');
}

static void rows_print(const struct explain *explain, const json_t *rows) {
    const int room = explain->term.out_tty ? term_columns(STDOUT_FILENO) : INT_MAX;
    const struct layout layout = layout_of(rows, room);
    printf("  %s%7s  %-8s", term_dim(explain->term.out_color), "request", "state");
    if (layout.age) printf("  %9s", "age");
    printf("  %7s  %8s  %7s  ", "tokens", "ttft ms", "tpot ms");
    printf("%-*s%s%s\n", layout.id ? layout.cause : 0, "largest cause", layout.id ? "  id" : "",
           term_reset(explain->term.out_color));
    for (size_t i = 0; i < json_array_size(rows); i++) row_print(&layout, json_array_get(rows, i));
}

static int list_print(const struct explain *explain) {
    json_error_t problem;
    const struct text *text = &explain->document;
    json_t *answer = json_loadb(text->data, text->len, JSON_REJECT_DUPLICATES, &problem);
    const json_t *rows = json_object_get(answer, "requests");
    int code = APP_OK;
    if (!json_is_array(rows)) {
        code = app_fail(APP_FAILED, "%s: no list of requests: %s", explain->name,
                        answer ? "'requests' is missing" : problem.text);
    } else if (option_flag(explain->options, OPT_JSON)) {
        code = document_print(explain);
    } else if (!json_array_size(rows)) {
        puts("  no request is running or kept");
    } else {
        rows_print(explain, rows);
    }
    json_decref(answer);
    return code;
}

static int explain_list(struct explain *explain) {
    const int code = fetch(explain, "/requests");
    return code ? code : list_print(explain);
}

// ---------------------------------------------------------------- the command

static int explain_file(struct explain *explain, const char *path) {
    explain->name = path;
    if (access(path, F_OK) != 0 && path[strspn(path, "0123456789")] == '\0')
        return app_fail(APP_USAGE, "%s: no such file; a request of a server needs --url",
                        app_short(path).text);
    const int code = source_read(path, DOCUMENT_LIMIT, &explain->document);
    return code ? code : request_print(explain);
}

int command_explain(const struct options *options) {
    struct explain explain = {.options = options, .name = option_text(options, OPT_URL)};
    explain.served = explain.name != NULL;
    const char *what = options->positional;
    int code;
    term_init(&explain.term, options);
    if (explain.name) {
        code = what ? explain_served(&explain, what) : explain_list(&explain);
    } else if (what) {
        code = explain_file(&explain, what);
    } else {
        code = app_fail(APP_USAGE, "what to explain? a saved FILE, or --url of a server, with the "
                                   "ID of a request or alone for a list");
    }
    free(explain.document.data);
    return code;
}
