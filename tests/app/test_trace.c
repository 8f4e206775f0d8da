// The trace: valid JSON wherever it stops, lanes whose slices nest without overlap, and parts that
// add up to their slice, for a made record and for an engine with several requests.
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "check.h"
#include "made_record.h"
#include "record/trace.h"

enum { SLICES_MAX = 1 << 16, DEPTH_MAX = 8 };

struct slice {
    int64_t lane, from_ns, to_ns;
    const char *name;
};

static struct slice slices[SLICES_MAX];
static int n_slices;

static int64_t ns_of(const json_t *event, const char *key) {
    return llround(json_number_value(json_object_get(event, key)) * 1000);
}

static int by_time(const void *a, const void *b) {
    const struct slice *x = a, *y = b;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    if (x->from_ns != y->from_ns) return x->from_ns < y->from_ns ? -1 : 1;
    return x->to_ns > y->to_ns ? -1 : x->to_ns < y->to_ns;
}

static json_t *slices_of(const char *text, size_t len) {
    json_error_t problem;
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &problem);
    check(json, "%s at %d", problem.text, problem.position);
    const json_t *events = json_object_get(json, "traceEvents");
    n_slices = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0) continue;
        assert_true(n_slices < SLICES_MAX);
        const int64_t from_ns = ns_of(event, "ts");
        slices[n_slices++] =
            (struct slice){.lane = json_integer_value(json_object_get(event, "pid")) << 32 |
                                   json_integer_value(json_object_get(event, "tid")),
                           .from_ns = from_ns,
                           .to_ns = from_ns + ns_of(event, "dur"),
                           .name = json_string_value(json_object_get(event, "name"))};
    }
    qsort(slices, (size_t)n_slices, sizeof *slices, by_time);
    return json;
}

// Every slice is inside the one that is open, or behind it. Returns the sum of the children of the
// slices with this name, and in *whole the sum of these slices.
static int64_t nested(const char *name, int64_t *whole) {
    const struct slice *open[DEPTH_MAX];
    int depth = 0;
    int64_t parts = 0;
    *whole = 0;
    for (int i = 0; i < n_slices; i++) {
        const struct slice *at = &slices[i];
        while (depth &&
               (open[depth - 1]->lane != at->lane || open[depth - 1]->to_ns <= at->from_ns))
            depth--;
        if (depth) {
            check(at->to_ns <= open[depth - 1]->to_ns,
                  "%s %" PRId64 "-%" PRId64 " overlaps %s %" PRId64 "-%" PRId64, at->name,
                  at->from_ns, at->to_ns, open[depth - 1]->name, open[depth - 1]->from_ns,
                  open[depth - 1]->to_ns);
            if (!strcmp(open[depth - 1]->name, name)) parts += at->to_ns - at->from_ns;
        }
        if (!strcmp(at->name, name)) *whole += at->to_ns - at->from_ns;
        assert_true(depth < DEPTH_MAX);
        open[depth++] = at;
    }
    return parts;
}

static void adds_up(const char *name) {
    int64_t whole;
    const int64_t parts = nested(name, &whole);
    check(whole > 0 && parts == whole, "%s: %" PRId64 " of %" PRId64, name, parts, whole);
}

static int64_t total_of(const char *name) {
    int64_t total = 0;
    for (int i = 0; i < n_slices; i++)
        if (!strcmp(slices[i].name, name)) total += slices[i].to_ns - slices[i].from_ns;
    return total;
}

CASE(the_trace_of_a_record_adds_up) {
    struct record record;
    struct record_choice choice;
    struct jbuf out = {0};
    made_record(&record, &choice);
    trace_record(&out, &record);
    json_t *json = slices_of(out.data, out.len);
    adds_up("to first token");
    adds_up("slow gap");
    adds_up("request 18");
    json_decref(json);
    jbuf_deinit(&out);
}

// ---------------------------------------------------------------- an engine

struct memory {
    struct jbuf text;
    int times_full;
};

static bool memory_write(void *ctx, const char *data, size_t len) {
    jbuf_bytes(&((struct memory *)ctx)->text, data, len);
    return true;
}

static void on_full(void *ctx) { ((struct memory *)ctx)->times_full++; }

static rn_step steps_sum; // of the engine's steps

// Three requests, more than run at a time.
static void engine_trace(struct trace *trace, const struct jbuf *out) {
    const int32_t prompt[40] = {1, 5, 7, 9, 11};
    const rn_engine_options options = {
        .n_threads = 1, .max_seqs = 2, .batch_tokens = 8, .speculate = "off", .self_check = true};
    rn_model *model;
    rn_engine *engine;
    rn_error err = {0};
    check(!rn_model_open(TEST_DATA "/golden/llama/model.gguf", &model, &err), "%s", err.message);
    check(!rn_engine_create(model, &options, &engine, &err), "%s", err.message);
    for (int i = 0; i < 3; i++) {
        const rn_request request = {.prompt = prompt,
                                    .n_prompt = 10 + 10 * (size_t)i,
                                    .n = i == 1 ? 2 : 1,
                                    .max_tokens = 12,
                                    .ignore_eos = true};
        assert_false(rn_engine_submit(engine, &request, &(uint64_t){0}, &err));
    }
    for (bool busy = true; busy;) {
        assert_false(rn_engine_step(engine, &busy));
        for (rn_event event; rn_engine_next_event(engine, &event);)
            trace_event(trace, "an-id", &event);
        trace_steps(trace, engine, 0);
    }
    trace_close(trace);
    assert_false(out->failed);
    rn_step step[256];
    const size_t n_steps = rn_engine_steps(engine, 0, step, 256);
    steps_sum = (rn_step){0};
    for (size_t i = 0; i < n_steps; i++) {
        steps_sum.run_ns += step[i].run_ns;
        steps_sum.choice_ns += step[i].choice_ns;
        steps_sum.host_ns += step[i].host_ns;
    }
    rn_engine_destroy(engine);
    rn_model_close(model);
}

CASE(the_trace_of_an_engine_adds_up) {
    struct memory memory = {0};
    struct jbuf *out = &memory.text;
    struct trace trace;
    assert_true(trace_open(&trace, memory_write, &memory, 64 << 20));
    engine_trace(&trace, out);
    assert_false(trace.full || trace.lost);
    json_t *json = slices_of(out->data, out->len);
    adds_up("step");
    assert_int_equal(total_of("run"), steps_sum.run_ns);
    assert_int_equal(total_of("choice"), steps_sum.choice_ns);
    assert_int_equal(total_of("host"), steps_sum.host_ns);
    adds_up("to first token");
    for (int i = 1; i <= 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "request %d", i);
        adds_up(name);
    }
    json_decref(json);
    jbuf_deinit(out);
}

CASE(a_full_trace_stops_and_is_valid) {
    struct memory memory = {0};
    struct jbuf *out = &memory.text;
    struct trace trace;
    assert_true(trace_open(&trace, memory_write, &memory, 4096));
    trace.on_full = on_full;
    engine_trace(&trace, out);
    assert_true(trace.full && out->len > 1000 && out->len <= 4096);
    assert_int_equal(memory.times_full, 1);
    json_t *json = slices_of(out->data, out->len);
    json_decref(json);
    jbuf_deinit(out);
}

TEST_PROGRAM(trace) { return cases_run(NULL, NULL); }
