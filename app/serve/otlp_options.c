// Options and environment into an exporter. An empty variable is as good as none. A value that
// cannot be used is named and ends the program; values of headers may be secrets and are not shown.
#include "serve/otlp_options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "app.h"
#include "client/client.h"
#include "helpers.h"
#include "server/otlp.h"
#include "server/otlp_context.h"
#include "server/otlp_post.h"
#include "server/reader.h"

enum { PAIRS_MAX = 64 };

// NULL: not set.
static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

// The name of the variable for traces where it is set, else of the one for all signals.
static const char *variable_name(const char *traces, const char *all) {
    return variable(traces) ? traces : all;
}

static bool is_off(void) {
    const char *disabled = variable("OTEL_SDK_DISABLED");
    const char *exporter = variable("OTEL_TRACES_EXPORTER");
    return (disabled && !strcasecmp(disabled, "true")) || (exporter && !strcmp(exporter, "none"));
}

// ---------------------------------------------------------------- the endpoint

static bool ends_with(const char *text, const char *end) {
    const size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && !strcmp(text + len - end_len, end);
}

// The address that traces are posted to. The variable for traces holds all of it; the other one and
// the option hold the collector's, to which the path of traces is added.
static int endpoint_get(const struct options *options, struct client_url *out, bool *given) {
    static const char path[] = "/v1/traces";
    static const char traces[] = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    char buffer[OPTION_NAME_SIZE];
    const bool own = option_given(options, OPT_OTLP_ENDPOINT);
    const char *name = variable_name(traces, "OTEL_EXPORTER_OTLP_ENDPOINT");
    const char *text = variable(name);
    bool whole = name == traces;
    *given = own || (text && !is_off());
    if (!*given) return APP_OK;
    if (own) {
        name = option_name(options, OPT_OTLP_ENDPOINT, buffer);
        text = option_text(options, OPT_OTLP_ENDPOINT);
    }
    struct client_url url;
    rn_error err = {0};
    if (client_url_parse(text, &url, &err)) return app_fail(APP_USAGE, "%s: %s", name, err.message);
    if (own) whole = ends_with(url.path, path);
    if (whole) {
        *out = url;
    } else if (!client_url_join(&url, path, out)) {
        return app_fail(APP_USAGE, "%s: the path has more than %d bytes", name, URL_PATH_SIZE);
    }
    return APP_OK;
}

// ---------------------------------------------------------------- lists of pairs

// In place.
static bool percent_decode(char *text) {
    char *to = text;
    for (const char *at = text; *at; to++) {
        const int high = *at == '%' ? hex_digit(at[1]) : -1;
        const int low = high >= 0 ? hex_digit(at[2]) : -1;
        if (*at == '%' && (low < 0 || !(high | low))) return false;
        *to = low >= 0 ? (char)(high << 4 | low) : *at;
        at += low >= 0 ? 3 : 1;
    }
    *to = '\0';
    return true;
}

static char *trim(char *text) {
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len && strchr(" \t", text[len - 1])) text[--len] = '\0';
    return text;
}

// "key=value,key=value" with percent-encoded values, cut up in place. Returns their number; -1: it
// is no such list.
static int pairs_cut(char *list, struct otlp_pair *out, int most) {
    int n = 0;
    for (char *rest = list; rest;) {
        char *item = trim(strsep(&rest, ","));
        char *value = strchr(item, '=');
        if (!*item) continue;
        if (!value || value == item || n == most) return -1;
        *value++ = '\0';
        out[n] = (struct otlp_pair){.key = trim(item), .value = trim(value)};
        if (!*out[n].key || !percent_decode((char *)(uintptr_t)out[n].value)) return -1;
        n++;
    }
    return n;
}

static int headers_get(char headers[CLIENT_HEADERS_SIZE]) {
    const char *name =
        variable_name("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
    const char *text = variable(name);
    struct otlp_pair pair[PAIRS_MAX];
    headers[0] = '\0';
    if (!text) return APP_OK;
    char *list = strdup(text);
    if (!list) return app_fail(APP_FAILED, "out of memory");
    const int n = pairs_cut(list, pair, PAIRS_MAX);
    int code =
        n < 0 ? app_fail(APP_USAGE, "%s: expected a list such as key1=value1,key2=value2", name)
              : APP_OK;
    for (int i = 0; !code && i < n; i++) {
        rn_error err = {0};
        if (client_header_add(headers, pair[i].key, pair[i].value, &err))
            code = app_fail(APP_USAGE, "%s: header %d: %s", name, i + 1, err.message);
    }
    free(list);
    return code;
}

// ---------------------------------------------------------------- numbers

static int number_get(const char *name, int min, int *out) {
    const char *text = variable(name);
    if (!text) return APP_OK;
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (*end || errno || value < min || value > INT_MAX / 2) {
        return app_fail(APP_USAGE, "%s: '%s' is not a whole number from %d to %d", name, text, min,
                        INT_MAX / 2);
    }
    *out = (int)value;
    return APP_OK;
}

static int numbers_get(struct otlp_config *config) {
    int code = number_get("OTEL_BSP_SCHEDULE_DELAY", 0, &config->delay_ms);
    if (!code) code = number_get("OTEL_BSP_MAX_QUEUE_SIZE", 1, &config->queue_spans);
    if (config->batch_spans > config->queue_spans) config->batch_spans = config->queue_spans;
    if (!code) code = number_get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1, &config->batch_spans);
    if (!code && config->batch_spans > config->queue_spans) {
        return app_fail(APP_USAGE,
                        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE: %d is more than the queue's %d spans",
                        config->batch_spans, config->queue_spans);
    }
    if (!code)
        code = number_get(variable_name("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
                                        "OTEL_EXPORTER_OTLP_TIMEOUT"),
                          1, &config->post_ms);
    return code;
}

// ---------------------------------------------------------------- the exporter

// The attributes of the process. service.name is the first: the variable's, the list's, or ours.
struct resource {
    char *list; // owned; cut up
    char host[256], instance[37];
    struct otlp_pair pair[PAIRS_MAX + 4];
    int n;
};

static const char *pair_find(const struct otlp_pair *pair, int n, const char *key) {
    for (int i = 0; i < n; i++)
        if (!strcmp(pair[i].key, key)) return pair[i].value;
    return NULL;
}

static void pair_add(struct resource *out, const char *key, const char *value) {
    if (!pair_find(out->pair, out->n, key))
        out->pair[out->n++] = (struct otlp_pair){.key = key, .value = value};
}

// A random UUID, version 4: a process number is 1 in every container.
static void uuid_draw(char out[37]) {
    char a[OTLP_SPAN_ID_SIZE], b[OTLP_SPAN_ID_SIZE];
    otlp_span_id_draw(a);
    otlp_span_id_draw(b);
    snprintf(out, 37, "%.8s-%.4s-4%.3s-8%.3s-%.12s", a, a + 8, a + 12, b, b + 4);
}

static int resource_get(struct resource *out) {
    static const char name[] = "OTEL_RESOURCE_ATTRIBUTES";
    const char *text = variable(name), *service = variable("OTEL_SERVICE_NAME");
    struct otlp_pair given[PAIRS_MAX];
    int n = 0;
    *out = (struct resource){.list = text ? strdup(text) : NULL};
    if (text && !out->list) return app_fail(APP_FAILED, "out of memory");
    if (text && (n = pairs_cut(out->list, given, PAIRS_MAX)) < 0)
        return app_fail(APP_USAGE, "%s: '%s' is not a list such as key1=value1,key2=value2", name,
                        text);
    if (!service) service = pair_find(given, n, "service.name");
    pair_add(out, "service.name", service ? service : "runnel");
    for (int i = 0; i < n; i++) pair_add(out, given[i].key, given[i].value);
    pair_add(out, "service.version", RN_VERSION);
    if (!gethostname(out->host, sizeof out->host - 1)) pair_add(out, "host.name", out->host);
    uuid_draw(out->instance);
    pair_add(out, "service.instance.id", out->instance);
    return APP_OK;
}

// On the exporter's thread.
static void on_told(void *ctx, const char *problem) {
    (void)ctx;
    if (problem) {
        app_fail(APP_OK, "warning: spans cannot be exported: %s", problem);
    } else {
        app_fail(APP_OK, "spans are exported again");
    }
}

int otlp_open(const struct options *options, bool quiet, struct otlp **out) {
    struct otlp_config config = otlp_config_usual();
    struct client_url url;
    struct resource resource;
    char headers[CLIENT_HEADERS_SIZE];
    bool given;
    *out = NULL;
    int code = endpoint_get(options, &url, &given);
    if (code || !given || (code = headers_get(headers)) || (code = numbers_get(&config)))
        return code;
    code = resource_get(&resource);
    if (!code) {
        config.resource = resource.pair;
        config.n_resource = resource.n;
        config.post = otlp_collector_post;
        config.post_stop = otlp_collector_stop;
        config.post_free = otlp_collector_free;
        config.post_ctx = otlp_collector_create(&url, headers, quiet ? NULL : on_told, NULL);
        if (config.post_ctx) *out = otlp_create(&config);
        if (!*out) code = app_fail(APP_FAILED, "the exporter of spans: %s", strerror(errno));
    }
    free(resource.list);
    return code;
}
