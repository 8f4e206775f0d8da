// `runnel explain`: where the time of a request went, in words and as a picture. The request is on
// a running server (--url) or in a saved file. With --url alone the server's requests are listed.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "explain/picture.h"
#include "helpers.h"
#include "terminal/json.h"
#include "terminal/term.h"

enum { FETCH_MS = 30000, DOCUMENT_LIMIT = 64 << 20, ID_BYTES_MAX = 128, CAUSE_COLUMNS = 33 };

struct explain {
    const struct options *options;
    struct term term;
    struct text document;
    const char *name; // of its file or server, for messages
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
        return app_fail(APP_USAGE, "%s: the key is refused: %s; --api-key gives it", explain->name,
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
    if (client_url_parse(explain->name, &base, &err)) {
        char name[OPTION_NAME_SIZE];
        return app_fail(APP_USAGE, "%s: %s", option_name(explain->options, OPT_URL, name),
                        err.message);
    }
    if (!client_url_join(&base, path, &url))
        return app_fail(APP_USAGE, "%s: the address is too long", app_short(explain->name).text);
    if (key && client_bearer_add(headers, key, &err))
        return app_fail(APP_USAGE, "--api-key: %s", err.message);
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
        return app_fail(APP_USAGE, "%s", err.message);
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

static void row_print(const json_t *row) {
    char ttft[32], tpot[32];
    printf("  %7.0f  %-8.8s  %7.0f s  %7.0f  %9s  %8s  ", member_number(row, "request"),
           member_text(row, "state"), member_number(row, "age_s"),
           member_number(row, "output_tokens"),
           number_text(member_number(row, "ttft_ms"), 1, ttft, sizeof ttft),
           number_text(member_number(row, "tpot_ms"), 2, tpot, sizeof tpot));
    const char *cause = member_text(row, "cause_text"), *id = member_text(row, "id");
    term_print_escaped(stdout, cause, strlen(cause), 64);
    printf("%*s", (int)(strlen(cause) < CAUSE_COLUMNS ? CAUSE_COLUMNS - strlen(cause) : 0) + 2, "");
    term_print_escaped(stdout, id, strlen(id), RECORD_ID_BYTES);
    putchar('\n');
}

static int list_print(const struct explain *explain) {
    json_error_t problem;
    const struct text *text = &explain->document;
    json_t *answer = json_loadb(text->data, text->len, JSON_REJECT_DUPLICATES, &problem);
    const json_t *rows = json_object_get(answer, "requests");
    int code = APP_OK;
    if (!json_is_array(rows)) {
        code = app_fail(APP_USAGE, "%s: no list of requests: %s", explain->name,
                        answer ? "'requests' is missing" : problem.text);
    } else if (!json_array_size(rows)) {
        puts("  no request is running or kept");
    } else {
        printf("  %s%7s  %-8s  %9s  %7s  %9s  %8s  %-*s  %s%s\n", term_dim(explain->term.out_color),
               "request", "state", "age", "tokens", "ttft ms", "tpot ms", CAUSE_COLUMNS,
               "largest cause", "id", term_reset(explain->term.out_color));
        for (size_t i = 0; i < json_array_size(rows); i++) row_print(json_array_get(rows, i));
    }
    json_decref(answer);
    return code;
}

static int explain_list(struct explain *explain) {
    const int code = fetch(explain, "/requests");
    if (code) return code;
    return option_flag(explain->options, OPT_JSON) ? document_print(explain) : list_print(explain);
}

// ---------------------------------------------------------------- the command

static int explain_file(struct explain *explain, const char *path) {
    explain->name = path;
    const int code = text_read(path, DOCUMENT_LIMIT, &explain->document);
    return code ? code : request_print(explain);
}

int command_explain(const struct options *options) {
    struct explain explain = {.options = options, .name = option_text(options, OPT_URL)};
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
