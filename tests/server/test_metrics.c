// /metrics and the access log, without HTTP: events are fed, the text is read back.
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "helpers.h"
#include "json_at.h"
#include "log_sink.h"
#include "metrics.h"
#include "routes.h"
#include "tale.h"

#define LABELS "model_name=\"tale\",engine=\"0\""

struct fixture {
    struct server server;
    struct served served;
    struct call call;
    char *text; // the last scrape, NUL-terminated
};

static void fixture_init(struct fixture *f, const char *name) {
    memset(f, 0, sizeof *f);
    f->server.served = &f->served;
    f->server.n_served = 1;
    f->served.server = &f->server;
    f->served.name = name;
    f->server.metrics = metrics_create(&f->server);
    f->served.metrics = model_metrics_create();
    assert_non_null(f->server.metrics);
    assert_non_null(f->served.metrics);
}

static void fixture_deinit(struct fixture *f) {
    metrics_destroy(f->server.metrics);
    model_metrics_destroy(f->served.metrics);
    jbuf_deinit(&f->call.out);
    free(f->text);
    json_kept_free();
}

static const char *scrape(struct fixture *f) {
    jbuf_deinit(&f->call.out);
    f->call = (struct call){.server = &f->server, .served = &f->served};
    metrics_get(&f->call);
    assert_int_equal(f->call.status, 200);
    assert_string_equal(f->call.content_type, "text/plain; version=0.0.4; charset=utf-8");
    free(f->text);
    f->text = strndup(f->call.out.data, f->call.out.len);
    assert_non_null(f->text);
    return f->text;
}

// The value of the sample that is written exactly so.
static double value_of(const char *text, const char *sample) {
    const size_t len = strlen(sample);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, sample, len) && line[len] == ' ') return strtod(line + len, NULL);
    }
    fail_msg("no sample %s", sample);
    return 0;
}

static void expect_sample(const char *text, const char *sample, double want) {
    const double got = value_of(text, sample);
    check(got == want, "%s is %.17g, not %.17g", sample, got, want);
}

static void token(struct fixture *f, const struct generation_choice *choice, double at_ms,
                  double gap_ms, rn_cause gap) {
    const rn_event event = {.token = 1,
                            .time_ns = choice->start_ns + (uint64_t)(at_ms * 1e6),
                            .gap_ms = gap_ms,
                            .cause = gap};
    metrics_token(&f->served, choice, &event);
}

// ---------------------------------------------------------------- histograms

CASE(test_first_tokens_and_gaps_fall_into_their_buckets) {
    struct fixture f;
    fixture_init(&f, "tale");
    const struct generation_choice choice = {.start_ns = 1000000000};
    token(&f, &choice, 5, 0, RN_CAUSE_NONE); // a bound belongs to its bucket
    token(&f, &choice, 5.1, 0, RN_CAUSE_NONE);
    token(&f, &choice, 3000e3, 0, RN_CAUSE_NONE);
    token(&f, &choice, 20, 15, RN_CAUSE_WEIGHTS);
    token(&f, &choice, 220, 200, RN_CAUSE_PROMPTS);
    const rn_event textual = {.token = -1, .time_ns = 2000000000, .cause = RN_CAUSE_NONE};
    metrics_token(&f.served, &choice, &textual);

    const char *text = scrape(&f);
#define TTFT "vllm:time_to_first_token_seconds"
    expect_sample(text, TTFT "_bucket{" LABELS ",le=\"0.001\"}", 0);
    expect_sample(text, TTFT "_bucket{" LABELS ",le=\"0.005\"}", 1);
    expect_sample(text, TTFT "_bucket{" LABELS ",le=\"0.01\"}", 2);
    expect_sample(text, TTFT "_bucket{" LABELS ",le=\"2560.0\"}", 2);
    expect_sample(text, TTFT "_bucket{" LABELS ",le=\"+Inf\"}", 3);
    expect_sample(text, TTFT "_count{" LABELS "}", 3);
    check_near(value_of(text, TTFT "_sum{" LABELS "}"), 3000.0101, 1e-9);
#define ITL "vllm:inter_token_latency_seconds"
    expect_sample(text, ITL "_bucket{" LABELS ",le=\"0.01\"}", 0);
    expect_sample(text, ITL "_bucket{" LABELS ",le=\"0.025\"}", 1);
    expect_sample(text, ITL "_count{" LABELS "}", 2);
#define GAP "runnel:gap_seconds"
    expect_sample(text, GAP "_count{" LABELS ",cause=\"weights\"}", 1);
    check_near(value_of(text, GAP "_sum{" LABELS ",cause=\"prompts\"}"), 0.2, 1e-9);
    expect_sample(text, GAP "_count{" LABELS ",cause=\"host\"}", 0);

    assert_int_equal(metrics_ttft(f.served.metrics)->total, 3);
    assert_int_equal(metrics_itl(f.served.metrics)->count[1], 1);
    fixture_deinit(&f);
}

CASE(test_tokens_that_come_together_are_no_gaps) {
    struct fixture f;
    fixture_init(&f, "tale");
    const struct generation_choice choice = {.start_ns = 1000000000};
    token(&f, &choice, 5, 0, RN_CAUSE_NONE);
    token(&f, &choice, 35, 30, RN_CAUSE_WEIGHTS);
    for (int i = 0; i < 3; i++) token(&f, &choice, 35, 0, RN_CAUSE_WEIGHTS); // accepted drafts
    token(&f, &choice, 65, 30, RN_CAUSE_WEIGHTS);
    const char *text = scrape(&f);
    expect_sample(text, TTFT "_count{" LABELS "}", 1);
    expect_sample(text, ITL "_count{" LABELS "}", 2);
    check_near(value_of(text, ITL "_sum{" LABELS "}"), 0.06, 1e-9);
    expect_sample(text, GAP "_count{" LABELS ",cause=\"weights\"}", 2);
    fixture_deinit(&f);
}

CASE(test_the_ends_of_choices_give_the_times_of_requests) {
    struct fixture f;
    fixture_init(&f, "tale");
    struct generation_choice choice = {.start_ns = clock_ns() - 1200000000,
                                       .finish = RN_FINISH_STOP,
                                       .timings = {.prompt_tokens = 30,
                                                   .output_tokens = 11,
                                                   .queue_ms = 600,
                                                   .prompt_ms = 100,
                                                   .decode_ms = 400}};
    metrics_choice_end(f.served.metrics, &choice);
    choice.finish = RN_FINISH_LENGTH; // one token has no time between tokens
    choice.timings = (rn_timings){.prompt_tokens = 3, .output_tokens = 1, .prompt_ms = 50};
    metrics_choice_end(f.served.metrics, &choice);
    choice.finish = RN_FINISH_CANCELLED; // while it waited
    choice.timings = (rn_timings){.prompt_tokens = 3, .queue_ms = 100};
    metrics_choice_end(f.served.metrics, &choice);

    const char *text = scrape(&f);
    const struct {
        const char *name;
        double count, sum;
    } want[] = {
        {"vllm:request_queue_time_seconds", 3, 0.7},
        {"vllm:request_prefill_time_seconds", 2, 0.15},
        {"vllm:request_decode_time_seconds", 2, 0.4},
        {"vllm:request_inference_time_seconds", 2, 0.55},
        {"vllm:request_time_per_output_token_seconds", 1, 0.04},
        {"vllm:request_prompt_tokens", 3, 36},
        {"vllm:request_generation_tokens", 3, 12},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char sample[128];
        snprintf(sample, sizeof sample, "%s_count{" LABELS "}", want[i].name);
        check(value_of(text, sample) == want[i].count, "%s", sample);
        snprintf(sample, sizeof sample, "%s_sum{" LABELS "}", want[i].name);
        check(fabs(value_of(text, sample) - want[i].sum) < 1e-9, "%s", sample);
    }
#define E2E "vllm:e2e_request_latency_seconds"
    expect_sample(text, E2E "_count{" LABELS "}", 3);
    expect_sample(text, E2E "_bucket{" LABELS ",le=\"1.0\"}", 0);
    fixture_deinit(&f);
}

// ---------------------------------------------------------------- form

// Every family is announced once, right before its samples, and samples of a histogram never
// decrease from bucket to bucket.
static void check_form(char *text) {
    char family[128] = "", seen[16384] = "\n";
    double bucket = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (!strncmp(line, "# HELP ", 7)) {
            const size_t len = strcspn(line + 7, " ");
            snprintf(family, sizeof family, "%.*s", (int)len, line + 7);
            char entry[132];
            snprintf(entry, sizeof entry, "\n%s\n", family);
            check(!strstr(seen, entry), "%s comes twice", family);
            strcat(seen, entry + 1);
            check(line[7 + len] == ' ' && line[8 + len], "%s has no help", family);
            line = strtok(NULL, "\n");
            check(line && !strncmp(line, "# TYPE ", 7), "%s has no type", family);
            check(!strncmp(line + 7, family, strlen(family)), "%s: %s", family, line);
            continue;
        }
        check(!strncmp(line, family, strlen(family)), "%s among those of %s", line, family);
        const char *value = strrchr(line, ' ');
        assert_non_null(value);
        if (!strstr(line, "_bucket{")) continue;
        check(strtod(value, NULL) >= bucket, "%s", line);
        bucket = strstr(line, "+Inf") ? 0 : strtod(value, NULL);
    }
}

CASE(test_families_are_announced_once_before_their_samples) {
    struct fixture f;
    fixture_init(&f, "tale");
    const struct generation_choice choice = {.start_ns = 1};
    for (int i = 0; i < 100; i++) token(&f, &choice, i, i, i ? RN_CAUSE_WEIGHTS : RN_CAUSE_NONE);
    scrape(&f);
    check_form(f.text);
    fixture_deinit(&f);
}

CASE(test_the_names_that_dashboards_read_are_there) {
    static const char *const samples[] = {
        "vllm:time_to_first_token_seconds_bucket",
        "vllm:inter_token_latency_seconds_bucket",
        "vllm:request_time_per_output_token_seconds_bucket",
        "vllm:e2e_request_latency_seconds_bucket",
        "vllm:request_queue_time_seconds_bucket",
        "vllm:request_prefill_time_seconds_bucket",
        "vllm:request_decode_time_seconds_bucket",
        "vllm:request_inference_time_seconds_bucket",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:gpu_prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_hits_total",
        "vllm:lora_requests_info",
        "vllm:cache_config_info",
        "vllm:kv_cache_usage_perc",
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
        "vllm:num_preemptions_total",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:request_success_total",
        "vllm:spec_decode_num_drafts_total",
        "vllm:spec_decode_num_draft_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:iteration_tokens_total_bucket",
        "vllm:request_max_num_generation_tokens_bucket",
        "runnel:step_bytes",
        "runnel:bandwidth_share",
        "runnel:gap_seconds_bucket",
        "runnel:draft_tokens_total",
        "runnel:accepted_tokens_total",
        "runnel:draft_seconds_total",
        "runnel:draft_speedup",
    };
    struct fixture f;
    fixture_init(&f, "tale");
    const char *text = scrape(&f);
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        char begin[128];
        snprintf(begin, sizeof begin, "\n%s{" LABELS, samples[i]);
        check(strstr(text, begin), "%s is missing", samples[i]);
    }
    fixture_deinit(&f);
}

static bool holds(const char *begin, const char *end, const char *part) {
    const char *found = strstr(begin, part);
    return found && found < end;
}

// promtool's output for a text, and its exit status. Colons are how vLLM's names are, and all that
// it has to say about them; plain: without them. One of vLLM's histograms ends in _total, which
// promtool keeps for counters: it is left out.
static int promtool(const char *text, bool plain, char *said, size_t size) {
    char path[] = "/tmp/runnel-metrics-XXXXXX", command[128];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    for (const char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n") + 1;
        if (holds(line, next, "vllm:iteration_tokens_total")) continue;
        for (const char *c = line; c < next; c++) fputc(plain && *c == ':' ? '_' : *c, file);
    }
    fclose(file);
    snprintf(command, sizeof command, "promtool check metrics <%s 2>&1", path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    said[fread(said, 1, size - 1, pipe)] = 0;
    const int status = pclose(pipe);
    unlink(path);
    return WEXITSTATUS(status);
}

CASE(test_promtool_has_nothing_to_say_but_of_colons) {
    if (system("promtool --version >/dev/null 2>&1")) skip();
    struct fixture f;
    fixture_init(&f, "a \"quoted\\ name\nof \xFF two lines");
    const struct generation_choice choice = {.start_ns = 1};
    for (int i = 0; i < 100; i++) token(&f, &choice, i, i, (rn_cause)(i % RN_CAUSE_COUNT));
    struct call call = {.server = &f.server, .served = &f.served, .status = 404};
    metrics_call_end(f.server.metrics, &call, false);
    char said[16384];
    scrape(&f);
    const int status = promtool(f.text, true, said, sizeof said);
    check(status == 0 && !*said, "status %d: %s", status, said);
    promtool(f.text, false, said, sizeof said);
    for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n"))
        check(strstr(line, "metric names should not contain ':'"), "%s", line);
    fixture_deinit(&f);
}

CASE(test_label_values_are_escaped) {
    struct fixture f;
    fixture_init(&f, "a\"b\\c\nd\xFF");
    const char *text = scrape(&f);
    assert_non_null(strstr(text, "{model_name=\"a\\\"b\\\\c\\nd\xEF\xBF\xBD\",engine=\"0\"} "));
    fixture_deinit(&f);
}

// ---------------------------------------------------------------- the engine's numbers

static rn_engine *run_engine(void) {
    rn_engine *engine;
    rn_error err = {0};
    check(!rn_engine_create(model, &(rn_engine_options){.max_seqs = 2, .n_threads = 1}, &engine,
                            &err),
          "%s", err.message);
    int32_t prompt[70];
    for (int i = 0; i < 70; i++) prompt[i] = i + 5;
    for (int i = 0; i < 2; i++) { // the second finds the first one's pages
        const rn_request request = {.prompt = prompt,
                                    .n_prompt = 70,
                                    .max_tokens = 9,
                                    .ignore_eos = true};
        uint64_t id;
        check(!rn_engine_submit(engine, &request, &id, &err), "%s", err.message);
        if (i) rn_engine_cancel(engine, id);
        for (bool busy = true; busy;) {
            assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
            for (rn_event event; rn_engine_next_event(engine, &event);) continue;
        }
    }
    return engine;
}

static void server_take(struct fixture *f, rn_engine *engine, double bandwidth) {
    f->served.engine = engine;
    rn_engine_get_info(engine, &f->served.engine_info);
    f->served.bandwidth = bandwidth;
    atomic_store(&f->server.phase, PHASE_READY);
}

CASE(test_counters_are_the_engines) {
    struct fixture f;
    fixture_init(&f, "tale");
    const char *text = scrape(&f); // while the model is loaded
    expect_sample(text, "vllm:prompt_tokens_total{" LABELS "}", 0);
    assert_true(isnan(value_of(text, "runnel:bandwidth_share{" LABELS "}")));

    rn_engine *engine = run_engine();
    server_take(&f, engine, 1e15);
    rn_engine_stats stats;
    rn_engine_get_stats(engine, &stats);
    text = scrape(&f);
    assert_true(stats.prompt_tokens >= 70);
    expect_sample(text, "vllm:prompt_tokens_total{" LABELS "}", (double)stats.prompt_tokens);
    expect_sample(text, "vllm:prefix_cache_hits_total{" LABELS "}", (double)stats.cached_tokens);
    expect_sample(text, "vllm:generation_tokens_total{" LABELS "}", 9);
#define SUCCESS "vllm:request_success_total{" LABELS ",finished_reason="
    expect_sample(text, SUCCESS "\"length\"}", 1);
    expect_sample(text, SUCCESS "\"abort\"}", 1);
    expect_sample(text, SUCCESS "\"stop\"}", 0);
    expect_sample(text, SUCCESS "\"error\"}", 0);
    expect_sample(text, "runnel:steps_total{" LABELS "}", (double)stats.steps);
#define STEP "vllm:iteration_tokens_total"
    expect_sample(text, STEP "_count{" LABELS "}", (double)stats.steps);
    expect_sample(text, STEP "_sum{" LABELS "}", (double)stats.step_tokens);
    expect_sample(text, STEP "_bucket{" LABELS ",le=\"+Inf\"}", (double)stats.steps);
    expect_sample(text, STEP "_bucket{" LABELS ",le=\"1.0\"}", (double)stats.steps_of[0]);
    expect_sample(text, STEP "_bucket{" LABELS ",le=\"64.0\"}",
                  (double)stats.steps - 1); // all but the prompt's
    expect_sample(text, "runnel:read_bytes_total{" LABELS ",kind=\"weights\"}",
                  (double)stats.weight_bytes);
    expect_sample(text, "vllm:kv_cache_usage_perc{" LABELS "}", 0);
    const double step = value_of(text, "runnel:step_bytes{" LABELS "}");
    check_near(step, (double)(stats.weight_bytes + stats.kv_bytes) / (double)stats.steps,
               1e-3 * step);
    const double share = value_of(text, "runnel:bandwidth_share{" LABELS "}");
    check(share > 0 && share < 0.01, "%g", share);
    f.served.bandwidth = 1; // one that was measured far too low
    check_near(value_of(scrape(&f), "runnel:bandwidth_share{" LABELS "}"), 1, 0);
    rn_engine_destroy(engine);
    fixture_deinit(&f);
}

// ---------------------------------------------------------------- calls

static const struct route chat_route = {.method = "POST", .path = "/v1/chat/completions"};

CASE(test_calls_are_counted_by_route_and_status) {
    struct fixture f;
    fixture_init(&f, "tale");
    struct call call = {.server = &f.server,
                        .served = &f.served,
                        .route = &chat_route,
                        .status = 200};
    metrics_call_end(f.server.metrics, &call, false);
    metrics_call_end(f.server.metrics, &call, true);
    call.status = 429;
    metrics_call_end(f.server.metrics, &call, false);
    call.status = 0; // gone before there was an answer
    metrics_call_end(f.server.metrics, &call, true);
    call.route = NULL;
    for (call.status = 400; call.status < 440; call.status++)
        metrics_call_end(f.server.metrics, &call, false);
    const char *text = scrape(&f);
#define CALLS "runnel:http_requests_total{route=\"/v1/chat/completions\",method=\"POST\",status="
    expect_sample(text, CALLS "\"200\"}", 2);
    expect_sample(text, CALLS "\"429\"}", 1);
    expect_sample(text, CALLS "\"499\"}", 1);
    expect_sample(text, "runnel:http_requests_total{route=\"\",method=\"\",status=\"439\"}", 1);
    expect_sample(text, "runnel:requests_refused_total{" LABELS "}", 2);
    expect_sample(text, "runnel:requests_gone_total{" LABELS "}", 2);
    fixture_deinit(&f);
}

// A call of two choices that the engine has answered; nothing of it is owned.
struct answered {
    struct generation generation;
    struct generation_choice choice[2];
    struct call call;
};

static void answered_init(struct answered *a, struct fixture *f, const struct route *of) {
    *a = (struct answered){
        .call = {.server = &f->server, .served = &f->served, .route = of, .status = 200}};
    a->call.generation = &a->generation;
    a->call.start_ns = clock_ns() - 2000000000;
    a->generation.params.n = 2;
    a->generation.choice = a->choice;
    a->generation.n_choices = 2;
    a->generation.began = true;
    a->generation.first_ns = a->call.start_ns + 300000000;
    for (int i = 0; i < 2; i++) {
        a->choice[i].ended = true;
        a->choice[i].finish = RN_FINISH_STOP;
        a->choice[i].n_output = a->choice[i].timings.output_tokens = i ? 1 : 11;
        a->choice[i].timings.decode_ms = i ? 0 : 600;
    }
}

CASE(test_requests_are_counted_as_the_conventions_for_gen_ai_say) {
    static const struct route chat = {.method = "POST", .path = "/", .prepare = chat_prepare};
    struct fixture f;
    struct answered a;
    fixture_init(&f, "tale");
    answered_init(&a, &f, &chat);
    metrics_call_end(f.server.metrics, &a.call, false);
    metrics_call_end(f.server.metrics, &a.call, false);
    metrics_call_end(f.server.metrics, &a.call, true); // its client has gone
    a.choice[1].ended = false;
    a.choice[0].finish = RN_FINISH_ERROR;
    a.choice[0].status = RN_ERR_DEADLINE;
    metrics_call_end(f.server.metrics, &a.call, false);
    a.generation.began = false; // refused before the engine
    metrics_call_end(f.server.metrics, &a.call, false);
    a.generation.began = true;
    a.call.route = &chat_route; // one that generates nothing
    metrics_call_end(f.server.metrics, &a.call, false);

    const char *text = scrape(&f);
#define GEN_AI                                                                                     \
    "gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"runnel\",gen_ai_request_model="         \
    "\"tale\",gen_ai_response_model=\"tale\""
#define DURATION "gen_ai_server_request_duration_seconds"
    expect_sample(text, DURATION "_count{" GEN_AI "}", 2);
    expect_sample(text, DURATION "_bucket{" GEN_AI ",le=\"1.28\"}", 0);
    expect_sample(text, DURATION "_bucket{" GEN_AI ",le=\"81.92\"}", 2);
    expect_sample(text, DURATION "_count{" GEN_AI ",error_type=\"client_disconnected\"}", 1);
    expect_sample(text, DURATION "_count{" GEN_AI ",error_type=\"timeout\"}", 1);
    expect_sample(text, "gen_ai_server_time_to_first_token_seconds_count{" GEN_AI "}", 2);
    check_near(value_of(text, "gen_ai_server_time_to_first_token_seconds_sum{" GEN_AI "}"), 0.6,
               1e-9);
    expect_sample(text, "gen_ai_server_time_to_first_token_seconds_bucket{" GEN_AI ",le=\"10.0\"}",
                  2);
    expect_sample(text, "gen_ai_server_time_per_output_token_seconds_count{" GEN_AI "}", 2);
    check_near(value_of(text, "gen_ai_server_time_per_output_token_seconds_sum{" GEN_AI "}"), 0.12,
               1e-9);
    expect_sample(text, "gen_ai_server_time_per_output_token_seconds_bucket{" GEN_AI ",le=\"2.5\"}",
                  2);
    // the longest choice of each request whose choices have all ended
    expect_sample(text, "vllm:request_max_num_generation_tokens_count{" LABELS "}", 3);
    expect_sample(text, "vllm:request_max_num_generation_tokens_sum{" LABELS "}", 33);
    check_form(f.text);
    fixture_deinit(&f);
}

// The log's only line.
static const json_t *log_line(const struct call *call, bool gone) {
    char text[PIPE_BUF + 1];
    int end[2];
    struct server *server = call->server;
    assert_int_equal(pipe(end), 0);
    server->config.access_log = sink_create(end[1]);
    assert_non_null(server->config.access_log);
    metrics_call_end(server->metrics, call, gone);
    assert_int_equal(sink_close(server->config.access_log, 10000), 0);
    server->config.access_log = NULL;
    close(end[1]);
    const ssize_t len = read(end[0], text, PIPE_BUF);
    close(end[0]);
    assert_true(len > 0);
    text[len] = '\0';
    check(strchr(text, '\n') == text + len - 1, "not one line: %s", text);
    return json_of(text, (size_t)len);
}

CASE(test_the_log_has_a_line_of_json_for_a_refused_call) {
    struct fixture f;
    fixture_init(&f, "tale");
    const struct call call = {.server = &f.server,
                              .served = &f.served,
                              .id = "abc",
                              .status = 404,
                              .start_ns = clock_ns() - 5000000};
    const json_t *json = log_line(&call, false);
    expect_rows(json, {"id", "'abc'"}, {"route", "null"}, {"status", "404"}, {"gone", "false"});
    assert_true(number_at(json, "total_ms") >= 5);
    const char *time = string_at(json, "time");
    int year, month, day, hour, minute, second, ms;
    check(strlen(time) == 24 && sscanf(time, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ", &year, &month, &day,
                                       &hour, &minute, &second, &ms) == 7,
          "%s", time);
    fixture_deinit(&f);
}

CASE(test_the_log_sums_over_choices_and_has_no_text) {
    struct fixture f;
    fixture_init(&f, "tale");
    struct generation_choice choice[2] = {
        {.finish = RN_FINISH_STOP, .n_output = 3, .timings = {.queue_ms = 2}},
        {.finish = RN_FINISH_LENGTH, .n_output = 4, .timings = {.queue_ms = 7}}};
    jbuf_text(&choice[0].text, "secret answer");
    choice[0].gap_ms[RN_CAUSE_WEIGHTS] = 20;
    choice[1].gap_ms[RN_CAUSE_WEIGHTS] = 30;
    choice[1].gap_ms[RN_CAUSE_PROMPTS] = 100;
    for (int i = 0; i < 2; i++) gaps_add(&choice[0].gaps, 10);
    for (int i = 0; i < 2; i++) gaps_add(&choice[1].gaps, 15);
    gaps_add(&choice[1].gaps, 100);
    struct generation_prompt prompt = {.n_ids = 11, .text = "secret prompt"};
    char user[300];
    memset(user, 'u', sizeof user);
    user[299] = 0;
    struct generation generation = {.prompt = &prompt,
                                    .n_prompts = 1,
                                    .choice = choice,
                                    .n_choices = 2,
                                    .first_ns = clock_ns() - 4000000,
                                    .params = {.stream = true, .user = user}};
    const struct call call = {.server = &f.server,
                              .served = &f.served,
                              .route = &chat_route,
                              .status = 200,
                              .body = "secret body",
                              .body_len = 11,
                              .start_ns = generation.first_ns - 9000000,
                              .generation = &generation};
    const json_t *json = log_line(&call, true);
    expect_rows(json, {"gone", "true"}, {"stream", "true"}, {"output_tokens", "7"},
                {"choices", "2"}, {"queue_ms", "7"}, {"gap_ms", "{'weights':50.0,'prompts':100.0}"},
                {"finish", "{'stop':1,'length':1}"});
    check_near(number_at(json, "ttft_ms"), 9, 1e-3);
    check_near(number_at(json, "itl_ms_p50"), 15, 1);
    check_near(number_at(json, "itl_ms_p99"), 100, 5);
    assert_int_equal(strlen(string_at(json, "user")), 128);
    char *dump = json_dumps(json, 0);
    assert_null(strstr(dump, "secret"));
    free(dump);
    for (int i = 0; i < 2; i++) gaps_deinit(&choice[i].gaps);
    jbuf_deinit(&choice[0].text);
    fixture_deinit(&f);
}

TEST_PROGRAM(metrics) { return cases_run(open_model, close_model); }
