// Spans of calls without a server around them: numbers at the edges of their types, choices that
// never ended, more choices than have spans, gaps with parts.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "json_at.h"
#include "otlp_span.h"
#include "routes.h"

enum { CHOICES = 12 };

// A call as it is after its end; nothing of it is owned.
struct ended {
    struct server server;
    struct served served;
    struct call call;
    struct generation generation;
    struct generation_prompt prompt;
    struct generation_choice choice[CHOICES];
    struct otlp_moment now;
};

static const struct route chat = {.method = "POST",
                                  .path = "/v1/chat/completions",
                                  .prepare = chat_prepare};

static void ended_init(struct ended *e, int n_choices) {
    *e = (struct ended){.server = {.config = {.host = "::1"}, .port = 80},
                        .served = {.name = "a \"b\""},
                        .call = {.route = &chat, .status = 200, .start_ns = 1000},
                        .now = {.monotonic_ns = 900001000, .unix_ns = 2000000000}};
    e->call.server = &e->server;
    e->call.served = &e->served;
    e->call.generation = &e->generation;
    e->call.trace = (struct otlp_context){.known = true, .sampled = true};
    strcpy(e->call.trace.trace_id, "0af7651916cd43dd8448eb211c80319c");
    strcpy(e->call.trace.span_id, "b7ad6b7169203331");
    e->generation.prompt = &e->prompt;
    e->generation.n_prompts = 1;
    e->generation.params.n = e->generation.n_choices = n_choices;
    e->generation.choice = e->choice;
    e->generation.began = true;
    e->generation.submit_ns = 100001000;
    e->generation.first_ns = 300001000;
    for (int i = 0; i < n_choices; i++) {
        struct generation_choice *choice = &e->choice[i];
        choice->index = i;
        choice->ended = true;
        choice->finish = RN_FINISH_STOP;
        choice->n_output = 3;
        choice->first_ns = 300001000;
        choice->last_ns = 500001000;
        choice->timings = (rn_timings){.queue_ms = 50, .prompt_ms = 150, .decode_ms = 200};
    }
}

static const json_t *spans_of(const struct ended *e, bool gone, int want) {
    struct jbuf out = {0};
    jbuf_text(&out, "[");
    const int n = otlp_spans_write(&e->call, gone, e->now, &out);
    jbuf_text(&out, "]");
    const json_t *spans = json_of(out.data, out.len);
    jbuf_deinit(&out);
    assert_int_equal(json_array_size(spans), want);
    assert_int_equal(n, want);
    return spans;
}

// The value of an attribute; NULL: there is none.
static const json_t *value_of(const json_t *span, const char *key, const char *kind) {
    size_t i;
    const json_t *one;
    json_array_foreach(json_object_get(span, "attributes"), i, one) {
        if (!strcmp(string_at(one, "key"), key))
            return json_object_get(json_object_get(one, "value"), kind);
    }
    return NULL;
}

static void expect_times(const json_t *span, const char *name, const char *begin, const char *end) {
    assert_string_equal(string_at(span, "name"), name);
    assert_string_equal(string_at(span, "startTimeUnixNano"), begin);
    assert_string_equal(string_at(span, "endTimeUnixNano"), end);
}

CASE(test_phases_are_where_the_times_say) {
    struct ended e;
    ended_init(&e, 1);
    const json_t *spans = spans_of(&e, false, 5);
    // 1970 is 1.1 s before the monotonic clock's zero
    expect_times(json_array_get(spans, 0), "chat a \"b\"", "1100000000", "2000000000");
    expect_times(json_array_get(spans, 1), "prepare", "1100000000", "1200000000");
    expect_times(json_array_get(spans, 2), "queue", "1200000000", "1250000000");
    expect_times(json_array_get(spans, 3), "prompt", "1250000000", "1400000000");
    expect_times(json_array_get(spans, 4), "decode", "1400000000", "1600000000");
    assert_null(json_object_get(json_array_get(spans, 0), "parentSpanId"));
    for (size_t i = 1; i < 5; i++)
        assert_string_equal(string_at(json_array_get(spans, i), "parentSpanId"),
                            "b7ad6b7169203331");
    json_kept_free();
}

CASE(test_numbers_keep_to_their_types) {
    struct ended e;
    ended_init(&e, 1);
    rn_sampling *sampling = &e.generation.params.sampling;
    *sampling = (rn_sampling){.temperature = 0.7f, .top_p = 1, .has_seed = true, .seed = INT64_MAX};
    const json_t *span = json_array_get(spans_of(&e, false, 5), 0);
    assert_string_equal(json_string_value(value_of(span, "gen_ai.request.seed", "intValue")),
                        "9223372036854775807");
    assert_true(json_real_value(value_of(span, "gen_ai.request.temperature", "doubleValue")) ==
                0.7); // not the nearest float
    assert_true(json_number_value(value_of(span, "gen_ai.request.top_p", "doubleValue")) == 1);
    sampling->seed++; // beyond int64_t
    span = json_array_get(spans_of(&e, false, 5), 0);
    assert_null(value_of(span, "gen_ai.request.seed", "intValue"));
    json_kept_free();
}

// The engine's times come with a choice's end: without it only tokens are known.
CASE(test_a_choice_that_was_given_up_has_the_phases_that_are_known) {
    struct ended e;
    ended_init(&e, 1);
    e.choice[0].ended = false;
    const json_t *spans = spans_of(&e, true, 4);
    expect_times(json_array_get(spans, 2), "queue and prompt", "1200000000", "1400000000");
    expect_times(json_array_get(spans, 3), "decode", "1400000000", "1600000000");
    const json_t *span = json_array_get(spans, 0);
    assert_string_equal(json_string_value(value_of(span, "error.type", "stringValue")),
                        "client_disconnected");
    assert_null(value_of(span, "gen_ai.latency.time_in_queue", "doubleValue"));
    e.choice[0].first_ns = e.choice[0].last_ns = e.generation.first_ns = 0;
    spans = spans_of(&e, true, 3);
    expect_times(json_array_get(spans, 2), "queue and prompt", "1200000000", "2000000000");
    json_kept_free();
}

CASE(test_times_that_do_not_fit_are_cut_to_the_request) {
    struct ended e;
    ended_init(&e, 1);
    e.choice[0].timings.queue_ms = 1e6;
    e.choice[0].last_ns = 5000000000;
    const json_t *spans = spans_of(&e, false, 5);
    expect_times(json_array_get(spans, 2), "queue", "1200000000", "1400000000");
    expect_times(json_array_get(spans, 4), "decode", "1400000000", "2000000000");
    json_kept_free();
}

CASE(test_only_some_of_many_choices_have_spans) {
    struct ended e;
    ended_init(&e, CHOICES);
    const json_t *spans = spans_of(&e, false, 2 + 8 * 3);
    const json_t *reasons =
        value_of(json_array_get(spans, 0), "gen_ai.response.finish_reasons", "arrayValue");
    assert_int_equal(json_array_size(json_object_get(reasons, "values")), CHOICES);
    json_kept_free();
}

CASE(test_refused_calls_have_one_span) {
    struct ended e;
    ended_init(&e, 1);
    e.call.generation = NULL;
    e.call.status = 503;
    const json_t *span = json_array_get(spans_of(&e, false, 1), 0);
    assert_string_equal(json_string_value(value_of(span, "error.type", "stringValue")), "503");
    assert_int_equal(json_integer_value(at_path(span, "status.code")), 2);
    e.call.status = 429;
    span = json_array_get(spans_of(&e, false, 1), 0);
    assert_null(value_of(span, "error.type", "stringValue"));
    json_kept_free();
}

// ---------------------------------------------------------------- gaps

CASE(test_the_longest_gaps_are_kept_in_their_order) {
    static const double ms[] = {5, 1, 9, 0, 3, 7, 2, 7, 8};
    static const int kept[] = {2, 5, 7, 8};
    struct otlp_gaps gaps = {0};
    for (int i = 0; i < 9; i++) {
        const rn_event event = {.gap_ms = ms[i], .time_ns = (uint64_t)i};
        otlp_gaps_add(&gaps, &event, i);
    }
    assert_int_equal(gaps.n, OTLP_GAPS_KEPT);
    for (int i = 0; i < OTLP_GAPS_KEPT; i++) {
        assert_int_equal(gaps.gap[i].token, kept[i]);
        assert_int_equal(gaps.gap[i].end_ns, kept[i]);
    }
}

// The account has the longest first, and more than a span shows.
CASE(test_the_account_of_a_choice_replaces_its_gaps) {
    struct ended e;
    rn_account account = {.n_slow = 5};
    ended_init(&e, 1);
    for (int i = 0; i < 5; i++) {
        rn_slow_gap *slow = &account.slow[i];
        slow->token = 5 - i;
        slow->end_ns = 310001000 + (uint64_t)(i * 37 % 5) * 10000000; // out of order
        slow->share.ns = 100 - (uint64_t)i;
        slow->share.cause_ns[RN_CAUSE_WEIGHTS] = 20;
        slow->share.cause_ns[RN_CAUSE_HOST] = slow->share.ns - 20;
    }
    account.first.cause_ns[RN_CAUSE_QUEUE] = 50000000;
    otlp_gaps_add(&e.choice[0].slow, &(rn_event){.gap_ms = 1, .time_ns = 1}, 9);
    otlp_gaps_end(&e.choice[0].slow, &account);
    const json_t *spans = spans_of(&e, false, 5);
    const json_t *events = json_object_get(json_array_get(spans, 4), "events");
    assert_int_equal(json_array_size(events), OTLP_GAPS_KEPT);
    for (size_t i = 0; i < OTLP_GAPS_KEPT; i++) {
        const json_t *event = json_array_get(events, i);
        if (i) {
            assert_true(strcmp(string_at(json_array_get(events, i - 1), "timeUnixNano"),
                               string_at(event, "timeUnixNano")) < 0);
        }
        const char *token = json_string_value(value_of(event, "runnel.gap.token", "intValue"));
        check(strcmp(token, "1") != 0 && strcmp(token, "9") != 0, "token %s", token);
        assert_string_equal(json_string_value(value_of(event, "runnel.gap.cause", "stringValue")),
                            "host");
        assert_true(json_number_value(value_of(event, "runnel.gap.part.weights", "doubleValue")) ==
                    20e-9);
        assert_null(value_of(event, "runnel.gap.part.kv", "doubleValue"));
    }
    assert_true(json_number_value(value_of(json_array_get(spans, 3), "runnel.first_token.queue",
                                           "doubleValue")) == 0.05);
    json_kept_free();
}

CASE(test_a_gap_is_an_event_with_its_causes) {
    static const struct otlp_cause part[] = {{"weights", 250000000}, {"host", 1}};
    struct jbuf out = {0};
    jbuf_text(&out, "[");
    for (int i = 0; i < 2; i++)
        otlp_gap_event(&out, (struct otlp_moment){.monotonic_ns = 10, .unix_ns = 110},
                       &(struct otlp_gap_event){.end_ns = 7,
                                                .ns = 250000001,
                                                .token = 4,
                                                .cause = "weights",
                                                .part = part,
                                                .n_parts = i ? 2 : 0});
    jbuf_text(&out, "]");
    const json_t *events = json_of(out.data, out.len);
    const json_t *event = json_array_get(events, 1);
    assert_string_equal(string_at(event, "timeUnixNano"), "107");
    assert_string_equal(string_at(event, "name"), "runnel.gap");
    assert_string_equal(json_string_value(value_of(event, "runnel.gap.cause", "stringValue")),
                        "weights");
    assert_true(json_real_value(value_of(event, "runnel.gap.duration", "doubleValue")) ==
                0.250000001);
    assert_true(json_real_value(value_of(event, "runnel.gap.part.host", "doubleValue")) == 1e-9);
    assert_null(value_of(json_array_get(events, 0), "runnel.gap.part.host", "doubleValue"));
    jbuf_deinit(&out);
    json_kept_free();
}

// A server of one model takes any text for a name; a label may be one of its names alone.
CASE(the_model_that_was_asked_for_has_a_name_of_the_model) {
    static const char *const aliases[] = {"other"};
    static const char *const names[][2] = {{"{\"model\":\"gpt-3.5-turbo\"}", "a \"b\""},
                                           {"{\"model\":\"other\"}", "other"},
                                           {"{}", "a \"b\""}};
    for (size_t i = 0; i < 3; i++) {
        struct ended e;
        ended_init(&e, 1);
        e.served.aliases = aliases;
        e.served.n_aliases = 1;
        e.call.json = json_keep(json_loads(names[i][0], 0, NULL));
        const json_t *span = json_array_get(spans_of(&e, false, 5), 0);
        assert_string_equal(json_string_value(
                                value_of(span, "gen_ai.request.model", "stringValue")),
                            names[i][1]);
    }
    json_kept_free();
}

TEST_PROGRAM(otlp_span) { return cases_run(NULL, NULL); }
