// A server of several models: they are loaded when requests name them, and replace each other where
// memory holds one at a time. No stream is lost, every text is the one of its model alone, and
// nothing stays counted.
// label: threads
#include <signal.h>

#include "serve_clients.h"
#include "store_folder.h"

enum { MODELS = 3, TOKENS = 40 };

// Models of a test: each takes one byte.
struct set;

struct source {
    struct set *set;
    const char *path;
    rn_model *model;
    rn_engine *engine;
};

struct set {
    struct serve serve;
    struct source of[MODELS];
    struct server_source source[MODELS];
    _Atomic int n_loaded, n_loads, most_loaded;
    _Atomic int load_ms;    // that a load takes at least
    _Atomic bool is_broken; // loads fail
    _Atomic bool is_held;   // loads do not end
    const char *store;      // a folder for pages; NULL: none
};

static const char *const names[MODELS] = {"one", "two", "three"};
static const char *const aliases[] = {"two", "zwei"}; // of the second
static const char *const paths[MODELS] = {TEST_DATA "/golden/llama/model.gguf",
                                          TEST_DATA "/golden/qwen2/model.gguf",
                                          TEST_DATA "/golden/gpt2/model.gguf"};

static rn_status on_plan(void *ctx, struct server_need *out, rn_error *err) {
    (void)ctx;
    (void)err;
    *out = (struct server_need){.bytes = 1, .available = 1000};
    return RN_OK;
}

static void parts_close(struct source *of) {
    if (of->engine) rn_engine_stop(of->engine, false);
    rn_engine_destroy(of->engine);
    rn_model_close(of->model);
    of->engine = NULL;
    of->model = NULL;
}

static rn_status on_load(void *ctx, struct server_model *out, rn_error *err) {
    struct source *of = ctx;
    struct set *set = of->set;
    const rn_engine_options options = {.n_threads = 1,
                                       .n_ctx = 256,
                                       .kv_pages = 128,
                                       .max_seqs = 4,
                                       .max_waiting = 64,
                                       .page_store = set->store,
                                       .page_store_bytes = 1 << 20,
                                       .self_check = true};
    set->n_loads++;
    serve_sleep_ms(set->load_ms);
    while (set->is_held) serve_sleep_ms(1);
    if (set->is_broken) {
        *err = (rn_error){.status = RN_ERR_MODEL, .message = "it is broken"};
        return RN_ERR_MODEL;
    }
    if (rn_model_open(of->path, &of->model, err) ||
        rn_engine_create(of->model, &options, &of->engine, err)) {
        parts_close(of);
        return err->status;
    }
    const int n = ++set->n_loaded;
    if (n > set->most_loaded) set->most_loaded = n;
    *out = (struct server_model){.model = of->model,
                                 .engine = of->engine,
                                 .sampling = rn_sampling_neutral(),
                                 .max_tokens = 16};
    out->sampling.temperature = 0;
    return RN_OK;
}

static void on_unload(void *ctx) {
    struct source *of = ctx;
    if (of->engine) of->set->n_loaded--;
    parts_close(of);
}

static rn_status on_describe(void *ctx, struct server_description *out, rn_error *err) {
    const struct source *of = ctx;
    rn_model *model;
    *out = (struct server_description){.n_ctx = 123, .sampling = rn_sampling_neutral()};
    if (of->set->is_broken) {
        *err = (rn_error){.status = RN_ERR_NOMEM, .message = "no memory"};
        return RN_ERR_NOMEM;
    }
    if (rn_model_open(of->path, &model, err)) return err->status;
    out->model = out->held = model;
    return RN_OK;
}

static void on_describe_end(struct server_description *description) {
    rn_model_close(description->held);
}

static void set_start(struct set *set, struct server_config config, uint64_t bytes_max) {
    rn_error err = {0};
    for (int i = 0; i < MODELS; i++) {
        set->of[i] = (struct source){.set = set, .path = paths[i]};
        set->source[i].name = names[i];
        set->source[i].aliases = aliases;
        set->source[i].n_aliases = i == 1 ? 2 : 0;
        set->source[i].places = 64;
        set->source[i].ctx = &set->of[i];
    }
    config.loading = (struct server_loading){.source = set->source,
                                             .n_sources = MODELS,
                                             .bytes_max = bytes_max,
                                             .plan = on_plan,
                                             .load = on_load,
                                             .unload = on_unload,
                                             .describe = on_describe,
                                             .describe_end = on_describe_end};
    check(!server_create(&config, &set->serve.server, &err), "%s", err.message);
    set->serve.port = server_port(set->serve.server);
}

static void set_stop(struct set *set) {
    server_destroy(set->serve.server);
    for (int i = 0; i < MODELS; i++) on_unload(&set->of[i]);
    assert_int_equal(set->n_loaded, 0);
    free(set);
}

static struct set *set_create(void) {
    struct set *set = calloc(1, sizeof *set);
    assert_non_null(set);
    return set;
}

// ---------------------------------------------------------------- clients

static int ask(const struct set *set, int model, int max_tokens, bool stream) {
    char body[512];
    snprintf(body, sizeof body,
             "{\"model\":\"%s\",\"prompt\":\"once upon\",\"max_tokens\":%d,\"ignore_eos\":true,"
             "\"stream\":%s}",
             names[model], max_tokens, stream ? "true" : "false");
    return serve_ask(&set->serve, "HTTP/1.1", "/v1/completions", body, false);
}

// The texts of a stream's events, to be freed.
static char *texts_of(const char *body) {
    char *out = calloc(1, strlen(body) + 1), *to = out;
    assert_non_null(out);
    for (const char *at = body; (at = strstr(at, "\"text\":\""));) {
        at += 8;
        while (*at && !(*at == '"' && at[-1] != '\\')) *to++ = *at++;
    }
    return out;
}

static char *finish(int fd) {
    struct reply reply = serve_finish(fd);
    check(reply.status == 200 && reply.closed && reply_dechunk(&reply), "%d: %.400s", reply.status,
          reply.data);
    check(strstr(reply.body, "data: [DONE]\n\n"), "no [DONE]: %.400s", reply.body);
    char *text = texts_of(reply.body);
    reply_free(&reply);
    return text;
}

// Reads until this comes.
static void watcher_read(int fd, const char *part) {
    char data[1 << 16];
    size_t len = 0;
    for (struct pollfd wait = {.fd = fd, .events = POLLIN};
         poll(&wait, 1, SERVE_PATIENCE_MS) > 0;) {
        if (len > sizeof data / 2) {
            memmove(data, data + len - 16, 16);
            len = 16;
        }
        const ssize_t n = recv(fd, data + len, sizeof data - len - 1, 0);
        check(n > 0, "%s did not come", part);
        data[len += (size_t)n] = '\0';
        if (strstr(data, part)) return;
    }
    check(false, "%s did not come in time", part);
}

static void expect_state(const struct set *set, int model, const char *state) {
    char path[64], part[64];
    snprintf(path, sizeof path, "/v1/models/%s", names[model]);
    snprintf(part, sizeof part, "\"status\":{\"value\":\"%s\"", state);
    for (int tries = 500; tries > 0; tries--) {
        struct reply reply = serve_get(&set->serve, path);
        const bool is_so = reply.status == 200 && strstr(reply.body, part);
        check(is_so || tries > 1, "%s is not %s: %.300s", names[model], state, reply.body);
        reply_free(&reply);
        if (is_so) return;
        serve_sleep_ms(10);
    }
}

static double metric(const struct set *set, const char *sample) {
    struct reply reply = serve_get(&set->serve, "/metrics");
    const char *at = strstr(reply.data, sample);
    check(at, "no %s", sample);
    const double value = strtod(at + strlen(sample), NULL);
    reply_free(&reply);
    return value;
}

// ---------------------------------------------------------------- cases

// Each model's text while it is the only one.
static void texts_alone(char *text[MODELS]) {
    for (int i = 0; i < MODELS; i++) {
        struct set *set = set_create();
        set_start(set, serve_config(), 0);
        text[i] = finish(ask(set, i, TOKENS, true));
        check(strlen(text[i]) > 10, "'%s'", text[i]);
        set_stop(set);
    }
    assert_string_not_equal(text[0], text[1]);
    assert_string_not_equal(text[1], text[2]);
}

CASE(test_models_replace_each_other_under_load_and_no_text_changes) {
    enum { STREAMS = 24 };
    char *alone[MODELS];
    int fd[STREAMS];
    struct set *set = set_create();
    texts_alone(alone);
    set_start(set, serve_config(), 1);
    for (int i = 0; i < STREAMS; i++) {
        fd[i] = ask(set, i % MODELS, TOKENS, true);
        if (i % 5 == 4) serve_sleep_ms(5);
    }
    for (int i = 0; i < STREAMS; i++) {
        char *text = finish(fd[i]);
        check(!strcmp(text, alone[i % MODELS]), "stream %d: '%s', alone '%s'", i, text,
              alone[i % MODELS]);
        free(text);
    }
    assert_int_equal(set->most_loaded, 1);
    assert_true(set->n_loads >= MODELS);
    double tokens = 0; // counters outlive their engines
    for (int i = 0; i < MODELS; i++) {
        char sample[128];
        snprintf(sample, sizeof sample,
                 "vllm:generation_tokens_total{model_name=\"%s\",engine=\"0\"} ", names[i]);
        tokens += metric(set, sample);
        free(alone[i]);
    }
    assert_int_equal((int)tokens, STREAMS * TOKENS);
    set_stop(set);
}

CASE(test_a_stream_ends_before_its_model_goes) {
    struct set *set = set_create();
    set_start(set, serve_config(), 1);
    const int first = ask(set, 0, 200, true);
    expect_state(set, 0, "loaded");
    const int second = ask(set, 1, 4, true);
    struct reply dismissed = serve_post(&set->serve, "/models/unload", "{\"model\":\"one\"}");
    reply_expect(dismissed, 200, "{\"success\":true}");
    char *text = finish(first), *other = finish(second);
    check(strlen(text) > 100 && *other, "'%s' '%s'", text, other);
    expect_state(set, 0, "unloaded");
    expect_state(set, 1, "loaded");
    free(text);
    free(other);
    set_stop(set);
}

CASE(test_counters_of_the_page_store_outlive_its_engine) {
    static const char ready[] = "runnel:store_ready{model_name=\"one\",engine=\"0\"} ";
    static const char misses[] = "runnel:store_misses_total{model_name=\"one\",engine=\"0\"} ";
    const struct store_folder folder = store_folder_make();
    char body[1024];
    struct set *set = set_create();
    set->store = folder.path;
    set_start(set, serve_config(), 1);
    free(finish(ask(set, 0, 4, true)));
    for (int tries = 0; metric(set, ready) != 1 && tries < 500; tries++) serve_sleep_ms(10);
    int len = snprintf(body, sizeof body, "{\"model\":\"one\",\"max_tokens\":4,\"prompt\":[1");
    for (int i = 0; i < 100; i++) len += snprintf(body + len, sizeof body - (size_t)len, ",%d", i);
    snprintf(body + len, sizeof body - (size_t)len, "]}");
    reply_expect(serve_post(&set->serve, "/v1/completions", body), 200, "length");
    const double before = metric(set, misses);
    check(before >= 1, "%g misses", before);
    free(finish(ask(set, 1, 4, true)));
    expect_state(set, 0, "unloaded");
    assert_true(metric(set, misses) == before);
    set_stop(set);
    store_folder_remove(&folder);
}

// Watchers of a model's engine do not keep it: their streams end.
CASE(test_watchers_end_with_their_model) {
    struct set *set = set_create();
    set_start(set, serve_config(), 1);
    free(finish(ask(set, 0, 4, true)));
    const int watcher = text_open(&set->serve, WATCH, sizeof WATCH - 1, false);
    watcher_read(watcher, "\"model\":\"one\"");
    free(finish(ask(set, 1, 4, true)));
    watcher_read(watcher, "0\r\n\r\n");
    close(watcher);
    reply_expect(serve_get(&set->serve, "/engine?model=two"), 200, "\"model\":\"two\"");
    set_stop(set);
}

// The model goes between the request for a picture and the next look at it, so the picture is made
// in the turn of the loop that unloads the model. Other timings are fine, too.
CASE(test_a_picture_is_sent_while_its_model_goes) {
    struct set *set = set_create();
    set->source[0].idle_s = 0.131;
    set_start(set, serve_config(), 1);
    for (int i = 0; i < 3; i++) {
        free(finish(ask(set, 0, 4, true)));
        struct reply reply = serve_get(&set->serve, "/engine?model=one");
        check(reply.status == 200 ? strstr(reply.body, "\"model\":\"one\"") != NULL
                                  : reply.status == 503,
              "%d: %.200s", reply.status, reply.data);
        reply_free(&reply);
    }
    set_stop(set);
}

CASE(test_models_stay_where_memory_holds_them) {
    struct set *set = set_create();
    set->source[2].keep = true; // and is loaded without a request
    set_start(set, serve_config(), 0);
    for (int tries = 0; !set->n_loaded && tries < 1000; tries++) serve_sleep_ms(10);
    assert_int_equal(set->n_loaded, 1);
    for (int i = 0; i < 6; i++) free(finish(ask(set, i % 2, 4, true)));
    expect_state(set, 2, "loaded");
    assert_int_equal(set->n_loads, MODELS);
    reply_expect(serve_post(&set->serve, "/models/unload", "{\"model\":\"three\"}"), 400,
                 "model_is_kept");
    set_stop(set);
}

CASE(test_a_waiting_stream_gets_comments_and_then_its_text) {
    struct server_config config = serve_config();
    struct set *set = set_create();
    config.keepalive_s = 0.02;
    set->is_held = true;
    set_start(set, config, 1);
    const int whole = ask(set, 0, 4, false), stream = ask(set, 0, TOKENS, true);
    watcher_read(stream, "HTTP/1.1 200 OK\r\n");
    watcher_read(stream, ": keep-alive\n\n");
    assert_int_equal(metric(set, "vllm:num_requests_waiting{model_name=\"one\",engine=\"0\"} "), 2);
    reply_expect(serve_get(&set->serve, "/load"), 200, "{\"server_load\":2}");
    set->is_held = false;
    struct reply reply = serve_finish(stream);
    check(reply.closed && strstr(reply.data, "data: [DONE]\n\n"), "no end: %.300s", reply.data);
    char *text = texts_of(reply.data), *again = finish(ask(set, 0, TOKENS, true));
    assert_string_equal(text, again);
    reply_expect(serve_finish(whole), 200, "\"finish_reason\":\"length\"");
    free(text);
    free(again);
    reply_free(&reply);
    set_stop(set);
}

CASE(test_a_load_that_fails_is_told_and_tried_again_later) {
    struct server_config config = serve_config();
    struct set *set = set_create();
    config.keepalive_s = 0.02;
    set->is_broken = true;
    set_start(set, config, 1);
    reply_expect(serve_finish(ask(set, 0, 4, false)), 500, "cannot be loaded: it is broken");
    expect_state(set, 0, "unloaded\",\"failed\":true,\"message\":\"it is broken");
    const int loads = set->n_loads;
    reply_expect(serve_finish(ask(set, 0, 4, true)), 500, "it is broken"); // at once
    assert_int_equal(set->n_loads, loads);
    set->is_held = true;
    const int stream = ask(set, 1, 4, true); // it has its head before the failure
    watcher_read(stream, ": keep-alive\n\n");
    set->is_held = false;
    struct reply reply = serve_finish(stream);
    check(reply.closed && strstr(reply.data, "data: {\"error\":") && !strstr(reply.data, "[DONE]"),
          "%.300s", reply.data);
    reply_free(&reply);
    set->is_broken = false;
    free(finish(ask(set, 2, 4, true)));
    serve_is_well(&set->serve, "failures");
    set_stop(set);
}

CASE(test_a_request_waits_only_as_long_as_it_may) {
    struct server_config config = serve_config();
    struct set *set = set_create();
    config.request_s = 0.05;
    set->load_ms = 300;
    set_start(set, config, 1);
    reply_expect(
        serve_finish(ask(set, 0, 4, false)), 504,
        "longer than the server's --request-timeout allows\",\"param\":null,\"code\":\"timeout\"");
    set_stop(set);
}

// Clients that hang up while they wait leave nothing behind.
CASE(test_hang_ups_while_a_model_is_loaded_leave_nothing_behind) {
    struct set *set = set_create();
    set->load_ms = 20;
    set_start(set, serve_config(), 1);
    for (int i = 0; i < 12; i++) {
        const int fd = ask(set, i % MODELS, TOKENS, i % 2);
        serve_sleep_ms(i * 3 % 11);
        close(fd);
    }
    free(finish(ask(set, 0, 4, true)));
    serve_expect_idle(&set->serve);
    set_stop(set);
}

CASE(test_the_server_ends_while_a_model_is_loaded) {
    struct set *set = set_create();
    set->load_ms = 100;
    set_start(set, serve_config(), 1);
    const int fd = ask(set, 0, 4, false);
    expect_state(set, 0, "loading");
    set_stop(set);
    close(fd);
}

// Running streams finish, and every request is answered, also while it waits for a model.
CASE(test_a_drain_answers_calls_that_wait) {
    struct set *set = set_create();
    set_start(set, serve_config(), 1);
    const int running = ask(set, 0, 200, true);
    expect_state(set, 0, "loaded");
    const int other = ask(set, 1, 4, false);
    const int behind = ask(set, 0, 4, false);
    set->is_held = true;
    serve_sleep_ms(2);
    kill(getpid(), SIGTERM);
    assert_int_equal(server_wait(set->serve.server), SIGTERM);
    set->is_held = false;
    char *text = finish(running);
    check(strlen(text) > 100, "'%s'", text);
    free(text);
    for (int i = 0; i < 2; i++) { // served before, refused, or it came too late
        struct reply reply = serve_finish(i ? behind : other);
        check(reply.status == 200 || reply.status == 503 || !reply.status, "%.300s", reply.data);
        reply_free(&reply);
    }
    set_stop(set);
}

CASE(test_names_and_routes) {
    struct set *set = set_create();
    set_start(set, serve_config(), 0);
    const struct serve *serve = &set->serve;
    reply_expect(serve_get(serve, "/health"), 200, "ok");
    reply_expect(serve_get(serve, "/props"), 503, "model_not_loaded");
    reply_expect(serve_get(serve, "/props?model=none"), 404, "model_not_found");
    reply_expect(serve_post(serve, "/v1/completions", "{\"model\":\"x\",\"prompt\":\"a\"}"), 404,
                 "This server has `one`, `two` (also `zwei`), `three`.");
    reply_expect(serve_post(serve, "/v1/completions", "{\"model\":5,\"prompt\":\"a\"}"), 400,
                 "model");
    reply_expect(serve_post(serve, "/v1/completions", "{\"prompt\":"), 400, "invalid_json");
    reply_expect(serve_post(serve, "/models/unload", "{}"), 400, "model: missing");
    reply_expect(serve_post(serve, "/api/pull", "{\"name\":\"two\"}"), 200, "success");
    assert_int_equal(set->n_loads, 0);
    // a body is not needed to erase a slot; here are no slots to be saved
    reply_expect(serve_post(serve, "/slots/0?action=erase&model=two", ""), 501, "not_supported");
    expect_state(set, 1, "loaded");
    // without a name: the first model
    reply_expect(serve_post(serve, "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":1}"), 200,
                 "\"model\":\"one\"");
    reply_expect(serve_post(serve, "/tokenize", "{\"model\":\"two:latest\",\"content\":\"a\"}"),
                 200, "tokens");
    reply_expect(serve_post(serve, "/models/load", "{\"model\":\"three\"}"), 200, "true");
    expect_state(set, 2, "loaded");
    reply_expect(serve_get(serve, "/props?model=one"), 200, "\"model_alias\":\"one\"");
    reply_expect(serve_get(serve, "/requests"), 200, "\"model\":\"one\"");
    reply_expect(serve_get(serve, "/requests/1/trace"), 200, "\"one\"");
    set_stop(set);
}

// Clients of Ollama describe every model of a list. The loaded one stays, and a description does
// not wait for a load.
CASE(test_a_model_is_described_from_its_file) {
    struct set *set = set_create();
    set_start(set, serve_config(), 1);
    const struct serve *serve = &set->serve;
    free(finish(ask(set, 0, 4, true)));
    reply_expect(serve_post(serve, "/api/show", "{\"model\":\"two:latest\"}"), 200,
                 "\"family\":\"qwen2\"");
    set->is_held = true;
    const int waiting = ask(set, 2, 4, true);
    reply_expect(serve_post(serve, "/api/show", "{\"name\":\"two\"}"), 200, " 123\\n");
    set->is_held = false;
    free(finish(waiting));
    assert_int_equal(set->n_loads, 2);
    expect_state(set, 1, "unloaded");
    reply_expect(serve_post(serve, "/api/show", "{\"model\":\"three\"}"), 200, " 256\\n");
    set->is_broken = true;
    reply_expect(serve_post(serve, "/api/show", "{\"model\":\"two\"}"), 503,
                 "The model `two` cannot be read: no memory");
    set_stop(set);
}

TEST_PROGRAM(several) { return cases_run(NULL, NULL); }
