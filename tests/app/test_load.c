// The parts of `runnel bench serve` that need no server: lengths, traces, events, figures, the
// comparison of two sides, the server's histograms.
// label: memory
#include "app/parsed.h"
#include "check.h"

#include <math.h>

#include "load/agree.h"
#include "load/arrivals.h"
#include "load/draw.h"
#include "load/event.h"
#include "load/record.h"

// ---------------------------------------------------------------- lengths

CASE(lengths_are_parsed) {
    static const struct {
        const char *text;
        enum dist_kind kind;
        double a, b;
    } good[] = {
        {"128", DIST_FIXED, 128, 0},
        {"64-256", DIST_UNIFORM, 64, 256},
        {"7-7", DIST_UNIFORM, 7, 7},
        {"normal:128:32.5", DIST_NORMAL, 128, 32.5},
        {"lognormal:100:0", DIST_LOGNORMAL, 100, 0},
    };
    static const char *const bad[] = {"",          "0",        "-1",    "1e3",         "128x",
                                      "64-",       "-64",      "64-32", "normal:128",  "normal:0:1",
                                      "normal:",   "1.5",      "0x10",  "normal:5:-1", "16777217",
                                      "gamma:1:2", "64-256-3", "inf",   " 5"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct dist dist;
        check(dist_parse(good[i].text, &dist), "%s", good[i].text);
        assert_int_equal(dist.kind, good[i].kind);
        check_near(dist.a, good[i].a, 0);
        check_near(dist.b, good[i].b, 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct dist dist;
        check(!dist_parse(bad[i], &dist), "%s", bad[i]);
    }
}

// Mean and deviation of many draws.
static void draws_have(const char *text, double mean, double std) {
    enum { N = 20000 };
    struct dist dist;
    uint64_t state = 1;
    double sum = 0, squares = 0;
    assert_true(dist_parse(text, &dist));
    for (int i = 0; i < N; i++) {
        const int n = dist_draw(&dist, &state);
        assert_true(n >= 1);
        sum += n;
        squares += (double)n * n;
    }
    check_near(sum / N, mean, 0.02 * mean);
    check_near(sqrt(squares / N - sum / N * sum / N), std, 0.04 * std + 0.01);
}

CASE(lengths_are_drawn_from_their_distributions) {
    draws_have("100", 100, 0);
    draws_have("1-3", 2, sqrt(2.0 / 3));
    draws_have("normal:500:50", 500, 50);
    draws_have("lognormal:500:200", 500, 200);
}

CASE(the_seed_decides_everything) {
    uint64_t a = 7, b = 7, c = 8;
    assert_true(draw_next(&a) == draw_next(&b));
    assert_true(draw_next(&a) != draw_next(&c));
    assert_true(draw_seed(1, 2, 3) == draw_seed(1, 2, 3));
    assert_true(draw_seed(1, 2, 3) != draw_seed(1, 3, 2));
    uint64_t zero = 0; // the reference value of SplitMix64
    assert_true(draw_next(&zero) == 0xe220a8397b1dcdafu);
    check_near(draw_gap(4, false, &a), 0.25, 0);
    double sum = 0;
    for (int i = 0; i < 20000; i++) sum += draw_gap(4, true, &a);
    check_near(sum / 20000, 0.25, 0.01);
}

// ---------------------------------------------------------------- traces

static int trace_read(const char *text, struct arrivals *out, char message[512]) {
    struct caught caught;
    catch_begin(&caught, &stderr);
    const int code = arrivals_parse("t.jsonl", text, strlen(text), out);
    snprintf(message, 512, "%s", catch_end(&caught));
    free(caught.text);
    return code;
}

CASE(a_trace_is_read) {
    struct arrivals trace;
    char message[512];
    const char *text =
        "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": "
        "[0,1,2,3,4,5,6,7,8,9,10,11,12,13]}\n\n"
        "{\"hash_ids\":[7],\"timestamp\":27482.5,\"extra\":{},\"output_length\":1,\"input_length\":"
        "5}\n"
        "{\"timestamp\":27483,\"input_length\":5,\"output_length\":2}";
    check(trace_read(text, &trace, message) == APP_OK, "%s", message);
    assert_int_equal(trace.n, 3);
    assert_int_equal(trace.item[0].input, 6758);
    assert_int_equal(trace.item[0].n_blocks, 14);
    check_near(trace.item[1].at_s, 27.4825, 1e-12);
    assert_int_equal(trace.block[trace.item[1].first_block], 7);
    assert_int_equal(trace.item[2].output, 2);
    assert_int_equal(trace.item[2].n_blocks, 0);
    arrivals_free(&trace);
}

CASE(a_bad_trace_is_refused_with_its_line) {
    static const char *const bad[][2] = {
        {"", "t.jsonl: holds no arrivals"},
        {"\n\n", "t.jsonl: holds no arrivals"},
        {"[]\n", "t.jsonl:1: column 1:"},
        {"{\"timestamp\":0,\"input_length\":1}",
         "t.jsonl:1: column 33: expected timestamp, input_length"},
        {"{\"timestamp\":0,\"input_length\":0,\"output_length\":1}",
         "expected a length of 1 to 16777216"},
        {"{\"timestamp\":-1,\"input_length\":1,\"output_length\":1}", "a time of at least 0"},
        {"{\"timestamp\":0,\"input_length\":513,\"output_length\":1,\"hash_ids\":[1]}",
         "a hash id for each 512 tokens"},
        {"{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[\"a\"]}",
         "t.jsonl:1:"},
        {"{\"timestamp\":5,\"input_length\":1,\"output_length\":1}\n"
         "{\"timestamp\":4,\"input_length\":1,\"output_length\":1}",
         "t.jsonl:2: column 51: the timestamp is before the last one"},
        {"{\"timestamp\":5,\"input_length\":1,\"output_length\":1} x", "t.jsonl:1:"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct arrivals trace;
        char message[512];
        assert_int_equal(trace_read(bad[i][0], &trace, message), APP_USAGE);
        check(strstr(message, bad[i][1]), "%s: %s", bad[i][0], message);
        assert_null(trace.item);
        assert_null(trace.block);
    }
}

// ---------------------------------------------------------------- events

static struct load_event event_of(const char *text, struct jbuf *out) {
    struct load_event event;
    load_event_read(text, strlen(text), out, &event);
    return event;
}

CASE(pieces_of_text_are_found) {
    static const struct {
        const char *data;
        bool has_text, finished, done;
    } events[] = {
        {"[DONE]", false, false, true},
        {"{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}", false, false,
         false},
        {"{\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}", true, false,
         false},
        {"{\"choices\":[{\"delta\":{\"reasoning_content\":\"r\"}}]}", true, false, false},
        {"{\"choices\":[{\"delta\":{\"tool_calls\":[{}]}}]}", true, false, false},
        {"{\"choices\":[{\"text\":\"b\",\"finish_reason\":\"length\"}]}", true, true, false},
        {"{\"choices\":[{\"text\":\"\\u0000\"}]}", true, false, false},
        {"{\"choices\":[]}", false, false, false},
        {"{\"choices\":{\"a\":1}}", false, false, false},
        {"{\"choices\":[7]}", false, false, false},
        {"{}", false, false, false},
    };
    struct jbuf text = {0};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        const struct load_event event = event_of(events[i].data, &text);
        check(event.has_text == events[i].has_text && event.finished == events[i].finished &&
                  event.done == events[i].done && !event.fault[0],
              "%s", events[i].data);
    }
    assert_int_equal(text.len, 3); // reasoning is not said again
    assert_memory_equal(text.data, "ab\0", 3);
    jbuf_deinit(&text);
}

CASE(numbers_and_errors_are_found) {
    struct load_event event =
        event_of("{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,"
                 "\"prompt_tokens_details\":{\"cached_tokens\":3}},\"timings\":{\"draft_n\":8,"
                 "\"draft_n_accepted\":5}}",
                 NULL);
    assert_int_equal(event.input_tokens, 9);
    assert_int_equal(event.output_tokens, 4);
    assert_int_equal(event.cached_tokens, 3);
    assert_int_equal(event.draft_tokens, 8);
    assert_int_equal(event.draft_accepted, 5);
    event = event_of("{\"usage\":{\"prompt_tokens\":-2,\"completion_tokens\":1e99}}", NULL);
    assert_int_equal(event.input_tokens, -1);
    assert_int_equal(event.output_tokens, -1);
    event = event_of("{\"error\":{\"message\":\"no room\"}}", NULL);
    assert_string_equal(event.fault, "error event: no room");
    event = event_of("{\"error\":null,\"choices\":[]}", NULL);
    assert_string_equal(event.fault, "");
    event = event_of("not json", NULL);
    assert_string_equal(event.fault, "an event of the stream is not a JSON object");
    char fault[32];
    load_fault_text("{\"error\":{\"message\":\"a\\nb\"}}", 28, fault, sizeof fault);
    assert_string_equal(fault, "a b");
    load_fault_text("<html>\x1b[2J", 10, fault, sizeof fault);
    assert_string_equal(fault, "<html> [2J");
    load_fault_text("{\"error\":\"x\"}", 13, fault, 2);
    assert_string_equal(fault, "x");
}

// ---------------------------------------------------------------- figures

CASE(a_spread_is_numpys) {
    double values[] = {4, 1, 3, 2};
    struct spread s;
    spread_of(values, 4, &s);
    assert_int_equal(s.n, 4);
    check_near(s.mean, 2.5, 0);
    check_near(s.std, sqrt(1.25), 1e-15);
    check_near(s.p[LOAD_P50], 2.5, 1e-15);
    check_near(s.p[LOAD_P90], 3.7, 1e-15);
    check_near(s.p[LOAD_P99], 3.97, 1e-15);
    check_near(s.p[LOAD_P1], 1.03, 1e-15);
    check_near(s.min + 10 * s.max, 41, 0);
    spread_of(values, 1, &s);
    check_near(s.p[LOAD_P99], 1, 0);
    check_near(s.std, 0, 0);
    spread_of(NULL, 0, &s);
    check_near(s.mean, 0, 0);
}

static void record_put(struct load_records *records, bool ok, double start_ms, double ttft_ms,
                       const float *gaps, int n_gaps, double tail_ms, int input, int output) {
    struct load_record r = {.ok = ok,
                            .n_pieces = n_gaps + 1,
                            .input_tokens = input,
                            .output_tokens = output,
                            .cached_tokens = -1,
                            .draft_tokens = -1,
                            .draft_accepted = -1,
                            .planned_input = 10};
    double last = start_ms + ttft_ms;
    r.gap_ms = malloc((size_t)(n_gaps + 1) * sizeof *r.gap_ms);
    for (int i = 0; i < n_gaps; i++) {
        r.gap_ms[i] = gaps[i];
        last += (double)gaps[i];
    }
    r.start_ns = (uint64_t)(start_ms * 1e6);
    r.first_ns = (uint64_t)((start_ms + ttft_ms) * 1e6);
    r.last_ns = (uint64_t)((last + tail_ms) * 1e6);
    assert_true(load_records_add(records, &r));
    assert_null(r.gap_ms);
}

// Two requests that ended well, one that failed. Everything is worked out by hand.
CASE(figures_are_vllms) {
    struct load_records records = {.duration_s = 2};
    struct load_figures f;
    record_put(&records, true, 1000, 100, (float[]){10, 0, 30}, 3, 0, 20, 5); // 40 ms for 4 tokens
    record_put(&records, true, 1500, 300, (float[]){20}, 1, 10, -1, -1); // tokens: its 2 pieces
    record_put(&records, false, 1000, 1, (float[]){999}, 1, 0, 7, 7);
    const struct load_slo slo = {.ttft_ms = 200, .any = true};
    assert_true(load_figures_of(&records, &slo, &f));
    assert_int_equal(f.completed, 2);
    assert_int_equal(f.failed, 1);
    assert_int_equal(f.input_tokens, 30);
    assert_int_equal(f.output_tokens, 7);
    assert_int_equal(f.by_pieces, 1);
    assert_int_equal(f.by_plan, 1);
    check_near(f.request_rate, 1, 0);
    check_near(f.output_rate, 3.5, 0);
    check_near(f.total_rate, 18.5, 0);
    assert_int_equal(f.good, 1);
    check_near(f.request_goodput, 0.5, 0);
    check_near(f.ttft_ms.mean, 200, 1e-6);
    check_near(f.tpot_ms.mean, (10 + 30.0) / 2, 1e-6); // (140 - 100) / 4, (330 - 300) / 1
    check_near(f.itl_ms.mean, 15, 1e-6);               // 10, 0, 30 and 20
    assert_int_equal(f.itl_ms.n, 4);
    check_near(f.arrival_gap_ms, 20, 1e-6); // without the 0
    check_near(f.e2el_ms.mean, (140 + 330) / 2.0, 1e-6);
    check_near(f.ttst_ms.mean, 15, 1e-6);
    check_near(f.user_rate.mean, (100 + 1000 / 30.0) / 2, 1e-6);
    check_near(f.input_len.mean, 15, 0);
    check_near(f.output_len.max, 5, 0);
    assert_int_equal(f.cached_tokens, -1);
    assert_int_equal(f.draft_tokens, -1);
    assert_int_equal(f.output_rate_max, 6); // all pieces are in the first second
    assert_int_equal(f.concurrent_max, 2);
    load_records_free(&records);
}

CASE(the_speed_of_one_user_needs_a_time_between_tokens) {
    struct load_records records = {.duration_s = 1};
    struct load_figures f;
    record_put(&records, true, 0, 100, (float[]){20, 20}, 2, 0, 1, 3); // 20 ms a token
    record_put(&records, true, 0, 100, NULL, 0, 0, 1, 1);              // one token
    record_put(&records, true, 0, 100, NULL, 0, 0, 1, 8);              // eight in one piece
    assert_true(load_figures_of(&records, &(struct load_slo){0}, &f));
    assert_int_equal(f.completed, 3);
    assert_int_equal(f.user_rate.n, 1);
    check_near(f.user_rate.mean, 50, 1e-6);
    assert_int_equal(f.tpot_ms.n, 2); // 20 and 0, as vLLM has them
    check_near(f.tpot_ms.mean, 10, 1e-6);
    load_records_free(&records);
}

CASE(a_long_fault_ends_with_dots) {
    struct load_records records = {0};
    char text[2 * LOAD_FAULT_SIZE];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    load_records_fault(&records, text);
    load_records_fault(&records, text);
    assert_int_equal(records.n_faults, 1); // the same one
    assert_int_equal(records.fault[0].count, 2);
    assert_int_equal(strlen(records.fault[0].text), LOAD_FAULT_SIZE - 1);
    assert_string_equal(records.fault[0].text + LOAD_FAULT_SIZE - 5, "x...");
    text[LOAD_FAULT_SIZE - 1] = '\0'; // it fits
    load_records_fault(&records, text);
    assert_string_equal(records.fault[1].text, text);
    load_records_free(&records);
}

CASE(a_good_request_is_within_all_bounds) {
    struct load_records records = {.duration_s = 1};
    struct load_figures f;
    record_put(&records, true, 0, 100, (float[]){50}, 1, 0, 1, 2);
    static const struct {
        struct load_slo slo;
        int good;
    } cases[] = {
        {{0}, 1},
        {{.ttft_ms = 100, .tpot_ms = 50, .e2el_ms = 150}, 1},
        {{.ttft_ms = 99}, 0},
        {{.tpot_ms = 49}, 0},
        {{.e2el_ms = 149}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(load_figures_of(&records, &cases[i].slo, &f));
        check(f.good == cases[i].good, "case %zu", i);
    }
    records.item[0].output_tokens = 1; // no TPOT: no bound on it
    assert_true(load_figures_of(&records, &(struct load_slo){.tpot_ms = 1}, &f));
    assert_int_equal(f.good, 1);
    assert_int_equal(f.tpot_ms.n, 0);
    load_records_free(&records);
}

CASE(no_request_gives_zeros) {
    struct load_records records = {0};
    struct load_figures f;
    assert_true(load_figures_of(&records, &(struct load_slo){0}, &f));
    assert_int_equal(f.completed, 0);
    check_near(f.output_rate, 0, 0);
    check_near(f.ttft_ms.p[LOAD_P99], 0, 0);
    record_put(&records, false, 0, 1, NULL, 0, 0, 1, 1);
    assert_true(load_figures_of(&records, &(struct load_slo){0}, &f));
    assert_int_equal(f.failed, 1);
    load_records_free(&records);
}

CASE(failures_are_counted_by_their_text) {
    struct load_records records = {0};
    char text[16];
    for (int i = 0; i < 3; i++) load_records_fault(&records, "status 500: sorry");
    for (int i = 0; i < 20; i++) {
        snprintf(text, sizeof text, "fault %d", i);
        load_records_fault(&records, text);
    }
    assert_int_equal(records.n_faults, LOAD_FAULTS);
    assert_int_equal(records.fault[0].count, 3);
    assert_int_equal(records.fault[1].count, 1);
    assert_string_equal(records.fault[LOAD_FAULTS - 1].text, "other errors");
    assert_int_equal(records.fault[LOAD_FAULTS - 1].count, 20 - (LOAD_FAULTS - 2));
}

CASE(a_difference_has_students_interval) {
    // differences 1, 2, 3: mean 2, standard error 1 / sqrt(3), t of 2 degrees 4.303
    const double a[] = {10, 10, 10}, b[] = {11, 12, 13};
    struct difference d = difference_of(a, b, 3);
    check_near(d.a, 10, 1e-12);
    check_near(d.b, 12, 1e-12);
    check_near(d.mean, 2, 1e-12);
    check_near(d.error, 4.303 / sqrt(3), 1e-9);
    d = difference_of(a, a, 2);
    check_near(d.mean, 0, 0);
    check_near(d.error, 0, 0);
}

// ---------------------------------------------------------------- the server's histograms

CASE(histograms_of_all_labels_are_added_up) {
    static const char text[] =
        "# HELP vllm:time_to_first_token_seconds Time.\n"
        "vllm:time_to_first_token_seconds_bucket{le=\"1\"} 7\n"
        "vllm:time_to_first_token_seconds_sum{model_name=\"a}\\\" 9\"} 0.5\n"
        "vllm:time_to_first_token_seconds_count{model_name=\"a\"} 2\n"
        "vllm:time_to_first_token_seconds_sum{model_name=\"b\"} 0.25\n"
        "vllm:time_to_first_token_seconds_count{model_name=\"b\"} 1\n"
        "vllm:time_to_first_token_seconds_sum_of_others 99\n"
        "vllm:e2e_request_latency_seconds_sum 3\nvllm:e2e_request_latency_seconds_count 4";
    struct agree_state got;
    agree_parse(text, sizeof text - 1, &got);
    assert_true(got.figure[AGREE_TTFT].has);
    check_near(got.figure[AGREE_TTFT].sum_s, 0.75, 0);
    check_near(got.figure[AGREE_TTFT].count, 3, 0);
    check_near(got.figure[AGREE_E2EL].sum_s, 3, 0);
    check_near(got.figure[AGREE_E2EL].count, 4, 0);
    assert_false(got.figure[AGREE_ITL].has);
    agree_parse("vllm:time_to_first_token_seconds_sum{a=\"b", 41, &got);
    assert_false(got.figure[AGREE_TTFT].has);
}

CASE(drafts_are_the_growth_of_the_counters) {
    static const char first[] = "vllm:spec_decode_num_drafts_total{a=\"b\"} 3\n"
                                "vllm:spec_decode_num_draft_tokens_total{a=\"b\"} 10\n"
                                "vllm:spec_decode_num_accepted_tokens_total 4\n"
                                "vllm:spec_decode_num_accepted_tokens_per_pos_total 99\n";
    static const char second[] = "vllm:spec_decode_num_drafts_total 5\n"
                                 "vllm:spec_decode_num_draft_tokens_total 30\n"
                                 "vllm:spec_decode_num_accepted_tokens_total 9\n";
    struct agree_state before, after, none = {0};
    struct load_drafts drafts;
    agree_parse(first, sizeof first - 1, &before);
    agree_parse(second, sizeof second - 1, &after);
    assert_true(agree_drafts(&before, &after, &drafts));
    assert_int_equal(drafts.drafts, 2);
    assert_int_equal(drafts.tokens, 20);
    assert_int_equal(drafts.accepted, 5);
    assert_false(agree_drafts(&none, &after, &drafts));
    assert_false(agree_drafts(&after, &after, &drafts));
}

CASE(means_agree_within_a_tenth_and_a_millisecond) {
    struct agree_state before = {0}, after = {0};
    struct agree_row rows[AGREE_COUNT];
    struct load_figures f = {0};
    for (int i = AGREE_TTFT; i <= AGREE_ITL; i++) {
        before.figure[i].has = after.figure[i].has = true;
        before.figure[i].sum_s = 1;
        before.figure[i].count = 1;
        after.figure[i].sum_s = 1.2;
        after.figure[i].count = 3; // 100 ms
    }
    f.ttft_ms.mean = 110.9;
    f.arrival_gap_ms = 111.1;
    agree_compare(&before, &after, &f, rows);
    check_near(rows[AGREE_TTFT].server_ms, 100, 1e-9);
    assert_true(rows[AGREE_TTFT].has && rows[AGREE_TTFT].agrees);
    assert_true(rows[AGREE_ITL].has && !rows[AGREE_ITL].agrees);
    assert_false(rows[AGREE_TPOT].has);
    agree_compare(&after, &after, &f, rows); // nothing happened
    assert_false(rows[AGREE_TTFT].has);
}

TEST_PROGRAM(load) { return cases_run(NULL, NULL); }
