// `runnel serve`: options become the server's configuration; the socket is opened first, so that
// /health answers while the model is loaded. Access is decided here: keys, hosts, TLS.
// Once the configuration is read, nothing here waits for a reader of its output: standard error,
// the access log and the service manager each have a sink.
#define _GNU_SOURCE 1 // fopencookie
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "helpers.h"
#include "models/name.h"
#include "record/trace.h"
#include "serve/certificates.h"
#include "serve/notify.h"
#include "serve/otlp_options.h"
#include "serve/routing_options.h"
#include "serve/serve_model.h"
#include "serve/serve_models.h"
#include "server/kv_events.h"
#include "server/log_sink.h"
#include "server/otlp.h"

enum { KEYS_MAX = 256, KEY_BYTES = 512, KEY_FILE_BYTES = 1 << 20 };
// For the sinks, at the end. Standard error has what is to be said of the others, so it gets more
// than a thread waits for a core of a busy machine.
enum { FLUSH_MS = 2000, QUICK_MS = 50, ERRORS_MS = 500 };

struct serve {
    const struct options *options;
    struct term term;
    bool quiet;
    struct server_config config;
    struct certificates certificates;
    char *keys[KEYS_MAX];
    char name[256];
    struct serve_model model;   // of a server of one model
    struct serve_models models; // of --models
    struct server *server;
    bool at_once;            // a second signal came
    struct log_sink *errors; // standard error's, while `stderr` is not `plain`
    FILE *plain;
    struct log_sink *manager;
    struct log_sink *trace_sink; // of config.trace
    struct trace trace;
    struct routing_options routing;
    struct kv_events *kv_events; // NULL: none
    _Atomic bool reloading;      // the manager is to be told when the log was opened again
};

// ---------------------------------------------------------------- configuration

static bool is_loopback(const char *host) {
    unsigned char bytes[16];
    if (!strcmp(host, "localhost") || !strcmp(host, "::1")) return true;
    return inet_pton(AF_INET, host, bytes) == 1 && bytes[0] == 127;
}

// Takes the key without the blanks around it. The message does not hold the key.
static int key_add(struct serve *serve, const char *text, const char *from) {
    static const char blanks[] = " \t\r\n";
    text += strspn(text, blanks);
    size_t len = strlen(text);
    while (len && strchr(blanks, text[len - 1])) len--;
    if (!len || len > KEY_BYTES) {
        return app_fail(APP_USAGE, "%s: a key has %zu bytes, expected 1 to %d", from, len,
                        KEY_BYTES);
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] >= ' ' && text[i] <= '~') continue;
        return app_fail(APP_USAGE,
                        "%s: byte %zu of key %d is 0x%02x; a key has printable ASCII characters",
                        from, i + 1, serve->config.n_keys + 1, (unsigned char)text[i]);
    }
    if (serve->config.n_keys == KEYS_MAX) {
        return app_fail(APP_USAGE, "%s: more than %d keys", from, KEYS_MAX);
    }
    char *key = strndup(text, len);
    if (!key) return app_fail(APP_FAILED, "out of memory");
    serve->keys[serve->config.n_keys++] = key;
    return APP_OK;
}

static void keys_free(struct serve *serve) {
    for (int i = 0; i < serve->config.n_keys; i++) free(serve->keys[i]);
}

// One key per line; empty lines and lines that start with # are ignored.
static int key_file_read(struct serve *serve, const char *path) {
    struct text file = {0};
    int code = source_read(path, KEY_FILE_BYTES, &file);
    char *rest = file.data;
    if (!code && file.len && memchr(file.data, '\0', file.len))
        code = app_fail(APP_USAGE, "%s: holds a NUL byte", err_path(path));
    while (!code && rest) {
        const char *line = strsep(&rest, "\n"), *begin = line + strspn(line, " \t\r");
        if (*begin && *begin != '#') code = key_add(serve, begin, err_path(path));
    }
    text_free(&file);
    if (!code && !serve->config.n_keys) {
        return app_fail(APP_USAGE, "%s: holds no key", err_path(path));
    }
    return code;
}

static int host_get(struct serve *serve) {
    char name[64];
    serve->config.host = option_text(serve->options, OPT_HOST);
    if (*serve->config.host) return APP_OK;
    return app_fail(APP_USAGE, "%s: '' is not an address",
                    option_name(serve->options, OPT_HOST, name));
}

static int keys_get(struct serve *serve) {
    const struct option_value *given = &serve->options->value[OPT_API_KEY];
    const char *path = option_text(serve->options, OPT_API_KEY_FILE);
    char name[64];
    int code = APP_OK;
    serve->config.keys = (const char *const *)serve->keys;
    for (int i = 0; !code && i < given->n_list; i++) {
        code = key_add(serve, given->list[i], option_name(serve->options, OPT_API_KEY, name));
    }
    if (!code && path) code = key_file_read(serve, path);
    if (!code && !serve->config.n_keys && !is_loopback(serve->config.host) &&
        !option_flag(serve->options, OPT_ALLOW_ANYONE)) {
        code = app_fail(APP_USAGE,
                        "%s %s: others than this machine could connect, so --api-key, "
                        "--api-key-file or --allow-anyone is needed",
                        option_name(serve->options, OPT_HOST, name), serve->config.host);
    }
    return code;
}

// "*", or an origin as browsers send it: scheme, "://", host, perhaps a port; another form would
// never match.
static int origins_check(const struct serve *serve) {
    const struct option_value *given = &serve->options->value[OPT_CORS_ORIGIN];
    for (int i = 0; i < given->n_list; i++) {
        const char *host = strstr(given->list[i], "://");
        if (!strcmp(given->list[i], "*")) continue;
        if (host && host > given->list[i] && host[3] && !strchr(host + 3, '/')) continue;
        char name[64];
        return app_fail(APP_USAGE, "%s: '%s' is not an origin such as https://chat.example, or *",
                        option_name(serve->options, OPT_CORS_ORIGIN, name), given->list[i]);
    }
    return APP_OK;
}

// A name alone: with a scheme, a path, a port, brackets or a blank it would never match.
static int hosts_check(const struct serve *serve) {
    const struct option_value *given = &serve->options->value[OPT_ALLOW_HOST];
    for (int i = 0; i < given->n_list; i++) {
        const char *text = given->list[i], *colon = strchr(text, ':');
        const bool has_port = colon && !strchr(colon + 1, ':'); // an IPv6 address has more
        if (!strpbrk(text, "/[ \t") && !has_port) continue;
        char name[64];
        return app_fail(APP_USAGE,
                        "%s: '%s' is not a name such as chat.example, without scheme and port",
                        option_name(serve->options, OPT_ALLOW_HOST, name), app_short(text).text);
    }
    return APP_OK;
}

// On the log's own thread.
static void on_reopened(void *ctx, const char *path, int error_number) {
    struct serve *serve = ctx;
    if (error_number) {
        app_fail(APP_OK, "warning: %s: %s; the access log stays with the old file", err_path(path),
                 strerror(error_number));
    }
    if (atomic_exchange(&serve->reloading, false)) notify_send(serve->manager, "READY=1");
}

static int log_get(struct serve *serve) {
    const char *path = option_text(serve->options, OPT_ACCESS_LOG);
    if (!path) return APP_OK;
    serve->config.access_log =
        strcmp(path, "-") ? sink_open(path, on_reopened, serve) : sink_create(STDOUT_FILENO);
    if (serve->config.access_log) return APP_OK;
    return app_fail_output(serve->options, OPT_ACCESS_LOG, path, errno);
}

static bool trace_write(void *ctx, const char *data, size_t len) {
    const struct serve *serve = ctx;
    return sink_write(serve->trace_sink, data, len);
}

static void on_trace_full(void *ctx) {
    const struct serve *serve = ctx;
    app_fail(APP_OK, "warning: %s: the trace stops at its limit of %llu MB",
             err_path(option_text(serve->options, OPT_TRACE)),
             (unsigned long long)(serve->trace.limit >> 20));
}

// The file is emptied, and then written as a log is. A FIFO or a device cannot be emptied.
static int trace_get(struct serve *serve) {
    const char *path = option_text(serve->options, OPT_TRACE);
    char name[OPTION_NAME_SIZE];
    if (!path) return app_belongs(serve->options, OPT_TRACE_LIMIT, OPT_TRACE);
    if (option_given(serve->options, OPT_MODELS))
        return app_fail(APP_USAGE,
                        "%s: is for a server of one model; with --models each request has a trace "
                        "at /requests/ID/trace",
                        option_name(serve->options, OPT_TRACE, name));
    serve->trace_sink = sink_open(path, NULL, NULL);
    if (!serve->trace_sink || (truncate(path, 0) && errno != EINVAL))
        return app_fail_output(serve->options, OPT_TRACE, path, errno);
    const uint64_t limit = (uint64_t)option_int(serve->options, OPT_TRACE_LIMIT) << 20;
    if (!trace_open(&serve->trace, trace_write, serve, limit))
        return app_fail(APP_FAILED, "out of memory");
    serve->trace.on_full = on_trace_full;
    serve->config.trace = &serve->trace;
    return APP_OK;
}

// The model's names for clients: --alias, else the name of a store's model as given, else the
// file's or folder's name without its ending.
static void names_get(struct serve *serve) {
    const struct option_value *given = &serve->options->value[OPT_ALIAS];
    serve->config.aliases = given->list;
    serve->config.n_aliases = given->n_list;
    serve->config.model_name = serve->name;
    if (given->n_list) {
        snprintf(serve->name, sizeof serve->name, "%s", given->list[0]);
        return;
    }
    const char *asked = option_text(serve->options, OPT_MODEL);
    const struct model_name name = model_name_short(asked, rn_model_get_info(serve->model.model));
    // a remark follows the embedded model's name
    const size_t len = asked ? strlen(name.text) : strcspn(name.text, " ");
    snprintf(serve->name, sizeof serve->name, "%.*s", (int)len, name.text);
    if (asked && access(asked, F_OK) != 0) return; // a store's name stays as it was asked for
    char *ending = strstr(serve->name, ".gguf");
    if (ending && !ending[5] && ending > serve->name) *ending = '\0';
}

static void limits_get(struct serve *serve) {
    const struct options *options = serve->options;
    struct server_config *config = &serve->config;
    config->body_bytes_max = (size_t)options->value[OPT_MAX_BODY].integer;
    config->pending_bytes_max =
        config->body_bytes_max > SIZE_MAX / 8 ? SIZE_MAX : 8 * config->body_bytes_max;
    config->answer_bytes_max = config->pending_bytes_max;
    config->connections_max = option_int(options, OPT_MAX_CONNECTIONS);
    config->workers = option_int(options, OPT_WORKERS);
    config->header_s = option_real(options, OPT_HEADER_TIMEOUT);
    config->body_s = option_real(options, OPT_BODY_TIMEOUT);
    config->idle_s = option_real(options, OPT_IDLE_TIMEOUT);
    config->stall_s = option_real(options, OPT_STALL_TIMEOUT);
    config->request_s = option_real(options, OPT_REQUEST_TIMEOUT);
    config->keepalive_s = option_real(options, OPT_KEEP_ALIVE);
    config->stuck_s = option_real(options, OPT_STUCK_AFTER);
    config->drain_s = option_real(options, OPT_DRAIN_TIMEOUT);
    config->stream_bytes_max = 256 << 10;
}

// Descriptors for the connections, if the system lets us; otherwise fewer connections.
static void descriptors_raise(struct server_config *config) {
    enum { OTHERS = 128 }; // of the spare connections, files and threads
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    const rlim_t wanted = (rlim_t)config->connections_max + OTHERS;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted) return;
    rlim_t left = limit.rlim_cur / 4;
    if (limit.rlim_cur > OTHERS && limit.rlim_cur - OTHERS > left) left = limit.rlim_cur - OTHERS;
    config->connections_max = left > 0 ? (int)left : 1;
}

static int config_get(struct serve *serve) {
    const struct options *options = serve->options;
    struct server_config *config = &serve->config;
    config->port = option_int(options, OPT_PORT);
    config->origins = options->value[OPT_CORS_ORIGIN].list;
    config->n_origins = options->value[OPT_CORS_ORIGIN].n_list;
    config->hosts = options->value[OPT_ALLOW_HOST].list;
    config->n_hosts = options->value[OPT_ALLOW_HOST].n_list;
    config->ui = !option_flag(options, OPT_NO_UI);
    config->all_logprobs = option_flag(options, OPT_ALL_LOGPROBS);
    config->strict_model = option_flag(options, OPT_STRICT_MODEL);
    config->keep_requests = option_int(options, OPT_KEEP_REQUESTS);
    config->keep_responses = option_int(options, OPT_KEEP_RESPONSES);
    config->response_bytes_max = (size_t)options->value[OPT_RESPONSE_MEMORY].integer;
    limits_get(serve);
    descriptors_raise(config);
    int code = host_get(serve);
    if (!code) code = keys_get(serve);
    if (!code) code = certificates_get(serve->options, &serve->certificates, config);
    if (!code) code = origins_check(serve);
    if (!code) code = hosts_check(serve);
    if (!code) code = log_get(serve);
    if (!code) code = trace_get(serve);
    if (!code) code = routing_get(options, &serve->routing, config);
    if (!code) code = otlp_open(options, serve->quiet, &config->otlp);
    return code;
}

// ---------------------------------------------------------------- output

static ssize_t errors_write(void *ctx, const char *data, size_t len) {
    sink_write(ctx, data, len);
    return (ssize_t)len;
}

// From here on all output on `stderr` goes through the sink, line by line. A closed standard error
// stays closed.
static int errors_open(struct serve *serve) {
    serve->errors = sink_create(STDERR_FILENO);
    if (!serve->errors && errno == EBADF) return APP_OK;
    FILE *file = NULL;
    if (serve->errors) {
        file = fopencookie(serve->errors, "w", (cookie_io_functions_t){.write = errors_write});
    }
    if (!file) return app_fail(APP_FAILED, "standard error: %s", strerror(errno));
    setvbuf(file, NULL, _IOLBF, BUFSIZ);
    serve->plain = stderr;
    stderr = file;
    if (option_flag(serve->options, OPT_VERBOSE)) serve->config.request_lines = serve->errors;
    return APP_OK;
}

static void errors_close(struct serve *serve, int wait_ms) {
    if (serve->plain) {
        fclose(stderr);
        stderr = serve->plain;
    }
    sink_close(serve->errors, wait_ms);
}

// Writes as much as the readers take at once. False: more is left.
static bool sinks_flush(const struct serve *serve) {
    struct log_sink *const sink[] = {serve->config.access_log, serve->trace_sink, serve->manager,
                                     serve->errors};
    bool all = true;
    for (size_t i = 0; i < sizeof sink / sizeof *sink; i++)
        if (sink[i] && !sink_flush(sink[i], QUICK_MS)) all = false;
    return all;
}

static void on_late_signal(int signal_number) {
    (void)signal_number;
    _exit(APP_INTERRUPTED);
}

// The I/O thread has ended, so that a signal would wait for the rest of the flush.
static void signals_end_it(void) {
    struct sigaction action = {.sa_handler = on_late_signal};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    action.sa_mask = set;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int ms_until(uint64_t ns) {
    const uint64_t now = clock_ns();
    return ns > now + QUICK_MS * 1000000ull ? (int)((ns - now) / 1000000) : QUICK_MS;
}

// All sinks and the exporter of spans together have FLUSH_MS; a sink that is not stuck always gets
// some time. keep_errors: another thread may still write to `stderr`.
static void sinks_close(struct serve *serve, bool keep_errors) {
    uint64_t until = clock_ns();
    const bool has_spans = serve->config.otlp && otlp_get_counts(serve->config.otlp).held;
    if ((!sinks_flush(serve) || has_spans) && !serve->at_once) {
        until += FLUSH_MS * 1000000ull;
        signals_end_it();
    }
    const uint64_t dropped = otlp_close(serve->config.otlp, ms_until(until));
    if (dropped && !serve->quiet) {
        fprintf(stderr, "runnel: warning: %llu span%s could not be exported\n",
                (unsigned long long)dropped, dropped == 1 ? "" : "s");
    }
    const uint64_t lost = sink_close(serve->config.access_log, ms_until(until));
    if (lost) {
        fprintf(stderr, "runnel: warning: %llu line%s of the access log could not be written\n",
                (unsigned long long)lost, lost == 1 ? "" : "s");
    }
    if (sink_close(serve->trace_sink, ms_until(until)))
        fputs("runnel: warning: pieces of the trace could not be written (no room, or no time)\n",
              stderr);
    sink_close(serve->manager, ms_until(until));
    const int rest = ms_until(until), wait_ms = rest < ERRORS_MS ? ERRORS_MS : rest;
    if (!keep_errors)
        errors_close(serve, wait_ms);
    else if (serve->errors)
        sink_flush(serve->errors, wait_ms);
}

// ---------------------------------------------------------------- signals

static void on_early_signal(void *ctx, int signal_number) {
    struct serve *serve = ctx;
    if (isatty(STDERR_FILENO)) fputc('\n', stderr);
    trace_close(&serve->trace);
    sinks_flush(serve);
    _exit(signal_number == SIGINT ? APP_INTERRUPTED : APP_OK); // nothing was started
}

static void on_drain(void *ctx, int signal_number, int n_active) {
    struct serve *serve = ctx;
    atomic_store(&serve->reloading, false);
    notify_send(serve->manager, "STOPPING=1");
    if (signal_number != SIGINT && !isatty(STDERR_FILENO)) return;
    if (n_active) {
        fprintf(stderr, "\nrunnel: finishing %d request%s; once more ends at once\n", n_active,
                n_active == 1 ? "" : "s");
    } else {
        fputc('\n', stderr);
    }
}

// The last part of a reload.
static void log_reload(void *ctx) {
    struct serve *serve = ctx;
    if (serve->config.access_log && sink_reopen(serve->config.access_log)) return;
    if (atomic_exchange(&serve->reloading, false)) notify_send(serve->manager, "READY=1");
}

static void note_print(void *ctx, const char *line) {
    (void)ctx;
    fprintf(stderr, "runnel: warning: %s\n", line);
}

static void on_reload(void *ctx, bool ready) {
    struct serve *serve = ctx;
    if (ready) {
        char state[64];
        snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%llu",
                 (unsigned long long)(clock_ns() / 1000));
        notify_send(serve->manager, state);
    }
    atomic_store(&serve->reloading, ready);
    if (!certificates_reload(&serve->certificates)) log_reload(serve);
}

// ---------------------------------------------------------------- the command

static void ready_print(const struct serve *serve, double bandwidth) {
    const struct server_config *config = &serve->config;
    const bool wildcard = !strcmp(config->host, "0.0.0.0") || !strcmp(config->host, "::");
    const char *host = wildcard ? "127.0.0.1" : config->host;
    const bool v6 = strchr(host, ':') != NULL;
    char url[320];
    snprintf(url, sizeof url, "http%s://%s%s%s:%d", config->tls_cert ? "s" : "", v6 ? "[" : "",
             host, v6 ? "]" : "", server_port(serve->server));
    const char *bold = term_bold(serve->term.err_color), *reset = term_reset(serve->term.err_color);
    char broken[64] = "";
    if (serve->models.n_broken)
        snprintf(broken, sizeof broken, ", of which %d cannot be loaded,", serve->models.n_broken);
    if (serve->models.n)
        fprintf(stderr, "runnel: a server of %d models%s is ready at %s%s%s", serve->models.n,
                broken, bold, url, reset);
    else
        fprintf(stderr, "runnel: %s is ready at %s%s%s", serve->name, bold, url, reset);
    if (bandwidth > 0) fprintf(stderr, " (memory gives %.1f GB/s)", bandwidth / 1e9);
    fputc('\n', stderr);
    if (serve->quiet) return;
    const bool chats = serve->model.tmpl || serve->models.n;
    char model[512] = "";
    if (serve->models.n) snprintf(model, sizeof model, "\"model\":\"%s\",", serve->models.of->name);
    fprintf(stderr, "  curl %s%s/v1/%s%s -d '{%s%s}'\n", config->tls_cert ? "-k " : "", url,
            chats ? "chat/completions" : "completions",
            config->n_keys ? " -H \"Authorization: Bearer $KEY\"" : "", model,
            chats
                ? "\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story about a fox.\"}]"
                : "\"prompt\":\"Once upon a time\",\"max_tokens\":64");
    if (config->keep_requests)
        fprintf(stderr, "  runnel explain --url %s%s   lists requests, and says why one was slow\n",
                url, config->n_keys ? " --api-key \"$KEY\"" : "");
}

static void ready_say(const struct serve *serve, double bandwidth) {
    notify_send(serve->manager, "READY=1");
    ready_print(serve, bandwidth);
}

static int one_model(struct serve *serve) {
    rn_error err = {0};
    struct server_model model;
    int code = serve_model_open(&serve->model);
    if (code) return code;
    names_get(serve);
    if (server_create(&serve->config, &serve->server, &err)) return app_fail_error(&err);
    if ((code = serve_model_load(&serve->model, &model))) return code;
    code = routing_events_open(serve->options, serve->model.engine, server_port(serve->server),
                               serve->name, &serve->kv_events);
    if (code) return code;
    model.kv_events = serve->kv_events;
    if (server_ready(serve->server, &model, &err)) return app_fail_error(&err);
    ready_say(serve, model.bandwidth);
    return APP_OK;
}

// The model of -m is opened here once, for errors and its name.
static int several_models(struct serve *serve) {
    const struct options *options = serve->options;
    const bool has_default =
        option_given(options, OPT_MODEL) || option_given(options, OPT_SYNTHETIC);
    rn_error err = {0};
    char name[OPTION_NAME_SIZE];
    if (option_given(options, OPT_KV_EVENTS_ENDPOINT))
        return app_fail(APP_USAGE, "%s: KV events are of one model, and --models has several",
                        option_name(options, OPT_KV_EVENTS_ENDPOINT, name));
    if (option_given(options, OPT_ALIAS) && !has_default)
        return app_fail(APP_USAGE,
                        "%s: names the model of --model, which is not given; a section of --models "
                        "has alias = NAME",
                        option_name(options, OPT_ALIAS, name));
    int code = has_default ? serve_model_open(&serve->model) : APP_OK;
    if (!code && has_default) names_get(serve);
    serve_model_close(&serve->model);
    if (!code)
        code =
            serve_models_open(options, &serve->term, serve->quiet, has_default ? serve->name : NULL,
                              &serve->models, &serve->config.loading);
    if (code) return code;
    if (server_create(&serve->config, &serve->server, &err)) return app_fail_error(&err);
    ready_say(serve, 0);
    return APP_OK;
}

static int serve_steps(struct serve *serve) {
    rn_error err = {0};
    int code = config_get(serve);
    if (code || (code = errors_open(serve))) return code;
    serve->manager = notify_open();
    code = option_given(serve->options, OPT_MODELS) ? several_models(serve) : one_model(serve);
    if (code) return code;
    atomic_store(&serve->certificates.server, serve->server);
    const int ended = server_wait(serve->server);
    if (ended == SERVER_LOST ||
        ended == -SERVER_LOST) { // for the supervisor, which starts a new process
        const rn_status status = rn_engine_health(serve->model.engine, &err);
        return app_fail(APP_FAILED, "%s%s",
                        status == RN_ERR_IO ? "" : "the device was lost: ", err.message);
    }
    if (ended < 0) {
        serve->at_once = true;
        if (isatty(STDERR_FILENO)) fputc('\n', stderr); // after the terminal's ^C
        return APP_INTERRUPTED;
    }
    return ended == SIGINT ? APP_INTERRUPTED : APP_OK;
}

// A load cannot be interrupted, and nobody waits for it any more. Its thread may still write to
// `stderr`, so that stays open; its lines are flushed as the other sinks are closed.
static void leave_loading(struct serve *serve, int code) {
    if (!serve->server || !server_is_loading(serve->server)) return;
    sinks_close(serve, true);
    _exit(code);
}

int command_serve(const struct options *options) {
    struct serve serve = {.options = options, .quiet = option_flag(options, OPT_QUIET)};
    serve.config.on_early_signal = on_early_signal;
    serve.config.on_drain = on_drain;
    serve.config.on_reload = on_reload;
    serve.config.note = serve.quiet ? NULL : note_print;
    serve.config.signal_ctx = &serve;
    serve.certificates.done = log_reload;
    serve.certificates.done_ctx = &serve;
    term_init(&serve.term, options);
    serve.model =
        (struct serve_model){.options = options, .term = &serve.term, .quiet = serve.quiet};
    const int code = serve_steps(&serve);
    leave_loading(&serve, code);
    certificates_close(&serve.certificates);
    server_destroy(serve.server);
    serve_model_close(&serve.model);
    serve_models_close(&serve.models);
    kv_events_destroy(serve.kv_events);
    keys_free(&serve);
    trace_close(&serve.trace);
    sinks_close(&serve, false);
    return code;
}
