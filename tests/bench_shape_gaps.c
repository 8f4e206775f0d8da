// The gaps of a stream without a shape, beside requests whose shapes have expensive masks: in turn
// beside the same requests without their shapes, and with them. Printed for each shape: the 99th of
// 100 and the longest of the stream's gaps, as medians over the rounds, and the tokens per second
// of the stream and of the requests. Every round compiles sources that are new. Run by hand on a
// quiet machine:
//   bench_shape_gaps MODEL [THREADS [SECONDS [ROUNDS [SHAPE]]]]
// MODEL is a file, a folder, or a synthetic model such as 0.6b:Q4_0. THREADS 0: all cores.
#define BY_HAND "bench_shape_gaps"
#include "base/clock.h"
#include "by_hand.h"

enum { SOURCE_BYTES = 1 << 18, MAX_ROUNDS = 32, MAX_GAPS = 1 << 20, TOKENS = 60, CTX = 2048 };

struct text {
    char *at, data[SOURCE_BYTES];
};

#define ADD(text, ...)                                                                             \
    ((text)->at +=                                                                                 \
     snprintf((text)->at, (size_t)((text)->data + SOURCE_BYTES - (text)->at), __VA_ARGS__))

// n rules, each a repetition of `period` characters with an end of its own.
static void add_periods(struct text *t, int n, int period, int salt) {
    ADD(t, "root ::= ");
    for (int i = 0; i < n; i++) ADD(t, "%sr%d", i ? " | " : "", i);
    for (int i = 0; i < n; i++)
        ADD(t, "\nr%d ::= ([a-zA-Z ,.%d]{%d})* \"{%d,%d\"", i, salt % 10,
            period ? period : 2 + i % 29, salt, i);
}

static void few_periods(struct text *t, int salt) { add_periods(t, 250, 7, salt); }
static void many_periods(struct text *t, int salt) { add_periods(t, 250, 13, salt); }
static void long_periods(struct text *t, int salt) { add_periods(t, 120, 31, salt); }
static void mixed_periods(struct text *t, int salt) { add_periods(t, 200, 0, salt); }

static void alphabets(struct text *t, int salt) {
    ADD(t, "root ::= ");
    for (int i = 0; i < 200; i++) ADD(t, "%sr%d", i ? " | " : "", i);
    for (int i = 0; i < 200; i++)
        ADD(t, "\nr%d ::= ([a-zA-Z ,.%d]{%d}[^%c])* \"{%d,%d\"", i, i % 10, 2 + i % 29,
            'a' + i % 26, salt, i);
}

static void patterns(struct text *t, int salt) {
    ADD(t, "{\"title\":\"%d\",\"anyOf\":[", salt);
    for (int i = 0; i < 200; i++)
        ADD(t, "%s{\"type\":\"string\",\"pattern\":\"^([a-zA-Z %d]{%d})*[A-Z]{%d}$\"}",
            i ? "," : "", salt % 10, i % 17 + 2, i / 17);
    ADD(t, "]}");
}

static void terminals(struct text *t, int salt) {
    ADD(t, "start: (");
    for (int i = 0; i < 120; i++) ADD(t, "%sT%d \"%d,%d;\"", i ? " | " : "", i, salt, i);
    ADD(t, ")+\n");
    for (int i = 0; i < 120; i++)
        ADD(t, "T%d: /([a-z]{3}[A-Z ,.]?)+[a-y%d]{2}[a-z]*/\n", i, i % 10);
}

static void strings(struct text *t, int salt) {
    ADD(t, "{\"title\":\"%d\",\"type\":\"array\",\"items\":{\"type\":\"string\"},\"minItems\":100}",
        salt);
}

static const struct {
    const char *name;
    rn_shape_kind kind;
    int n_requests, n_choices;
    void (*write)(struct text *text, int salt);
} shapes[] = {
    {"an array of strings", RN_SHAPE_SCHEMA, 1, 1, strings},
    {"250 rules, period 7", RN_SHAPE_GRAMMAR, 1, 1, few_periods},
    {"250 rules, period 13", RN_SHAPE_GRAMMAR, 1, 1, many_periods},
    {"120 rules, period 31", RN_SHAPE_GRAMMAR, 1, 1, long_periods},
    {"200 rules, 29 periods", RN_SHAPE_GRAMMAR, 1, 1, mixed_periods},
    {"200 rules, other alphabets", RN_SHAPE_GRAMMAR, 1, 1, alphabets},
    {"anyOf of 200 patterns", RN_SHAPE_SCHEMA, 1, 1, patterns},
    {"Lark, 120 terminals", RN_SHAPE_GRAMMAR, 1, 1, terminals},
    {"250 rules, period 7, n = 16", RN_SHAPE_GRAMMAR, 1, 16, few_periods},
    {"12 requests, 120 rules, period 31", RN_SHAPE_GRAMMAR, 12, 1, long_periods},
    {"12 requests, other alphabets", RN_SHAPE_GRAMMAR, 12, 1, alphabets},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

struct round {
    double p99, max, rate, other_rate; // ms, ms, tokens per second
};

static double gap[MAX_GAPS];

static rn_shape *compile(const rn_model *model, int s, int salt) {
    static struct text text;
    rn_error err = {0};
    rn_shape *out;
    text.at = text.data;
    shapes[s].write(&text, salt);
    if (rn_shape_compile(model, shapes[s].kind, text.data, strlen(text.data), &out, &err))
        fail(&err);
    return out;
}

static uint64_t submit(rn_engine *engine, const rn_shape *shape, int n, int n_tokens,
                       uint64_t seed) {
    const int32_t prompt[] = {11, 12, 13, 14};
    rn_request request = {.prompt = prompt,
                          .n_prompt = 4,
                          .max_tokens = n_tokens,
                          .n = n,
                          .ignore_eos = true,
                          .shape = shape,
                          .sampling = rn_sampling_neutral()};
    rn_error err = {0};
    uint64_t id;
    request.sampling.temperature = 1;
    request.sampling.has_seed = true;
    request.sampling.seed = seed;
    if (rn_engine_submit(engine, &request, &id, &err)) fail(&err);
    return id;
}

// For some seconds: as soon as one of the requests ends, the same one comes again.
static struct round run(const rn_model *model, rn_engine *engine, int s, bool has_shape, int salt,
                        double seconds) {
    rn_shape *shape[16];
    const int n_requests = shapes[s].n_requests;
    uint64_t id[16];
    int n_gap = 0;
    long n_own = 0, n_other = 0;
    for (int i = 0; i < n_requests; i++) shape[i] = compile(model, s, salt * 16 + i);
    const uint64_t stream = submit(engine, NULL, 1, CTX - 8, 1);
    uint64_t own = stream;
    for (int i = 0; i < n_requests; i++)
        id[i] = submit(engine, has_shape ? shape[i] : NULL, shapes[s].n_choices, TOKENS,
                       2 + (uint64_t)i);
    const uint64_t begin = clock_ns();
    bool is_over = false;
    int n_live = 1 + n_requests;
    while (n_live > 0) {
        rn_event event[64];
        const int n = rn_engine_wait(engine, event, 64, 100);
        if (!is_over && (double)(clock_ns() - begin) > seconds * 1e9) {
            is_over = true;
            rn_engine_cancel(engine, own);
            for (int i = 0; i < n_requests; i++) rn_engine_cancel(engine, id[i]);
        }
        for (int k = 0; k < n; k++) {
            const rn_event *e = &event[k];
            const bool is_own = e->request == own;
            if (e->token >= 0 && !is_over) *(is_own ? &n_own : &n_other) += 1;
            if (is_own && e->token >= 0 && e->gap_ms > 0 && !is_over && n_gap < MAX_GAPS)
                gap[n_gap++] = e->gap_ms;
            if (!e->last) continue;
            n_live--;
            if (is_over) continue;
            n_live++;
            if (is_own) {
                own = submit(engine, NULL, 1, CTX - 8, 1);
                continue;
            }
            for (int i = 0; i < n_requests; i++)
                if (id[i] == e->request)
                    id[i] = submit(engine, has_shape ? shape[i] : NULL, shapes[s].n_choices, TOKENS,
                                   2 + (uint64_t)(i + n_own));
        }
    }
    for (int i = 0; i < n_requests; i++) rn_shape_release(shape[i]);
    qsort(gap, (size_t)n_gap, sizeof *gap, compare_doubles);
    if (!n_gap) return (struct round){.p99 = seconds * 1e3, .max = seconds * 1e3};
    return (struct round){gap[n_gap - 1 - n_gap / 100], gap[n_gap - 1], (double)n_own / seconds,
                          (double)n_other / seconds};
}

static double median_of(const struct round *round, int n, size_t at) {
    double value[MAX_ROUNDS];
    for (int i = 0; i < n; i++) memcpy(&value[i], (const char *)&round[i] + at, sizeof *value);
    qsort(value, (size_t)n, sizeof *value, compare_doubles);
    return value[n / 2];
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const int n_threads = argc > 2 ? atoi(argv[2]) : 0, n_rounds = argc > 4 ? atoi(argv[4]) : 3;
    const double seconds = argc > 3 ? atof(argv[3]) : 3;
    const int only = argc > 5 ? atoi(argv[5]) : -1;
    if (n_rounds < 1 || n_rounds > MAX_ROUNDS || !(seconds > 0)) return 2;
    rn_error err = {0};
    rn_model *model = open_model(argv[1]);
    const rn_engine_options options = {.max_seqs = 17,
                                       .n_ctx = CTX,
                                       .n_threads = n_threads,
                                       .speculate = "off"};
    rn_engine *engine;
    if (rn_engine_create(model, &options, &engine, &err)) fail(&err);
    if (rn_engine_start(engine, &err)) fail(&err);
    printf("%s, %d tokens of vocabulary\n", argv[1], rn_model_get_info(model)->n_vocab);
    printf("| shape | p99 ms without | with | max ms without | with | tokens/s without | with | "
           "requests' tokens/s without | with |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int s = 0; s < N_SHAPES; s++) {
        struct round round[2][MAX_ROUNDS];
        if (only >= 0 && only != s) continue;
        for (int i = 0; i < n_rounds; i++)
            for (int with = 0; with < 2; with++)
                round[with][i] = run(model, engine, s, with, s * MAX_ROUNDS + i, seconds);
        printf("| %s |", shapes[s].name);
        for (size_t at = 0; at < sizeof(struct round); at += sizeof(double))
            printf(" %.2f | %.2f |", median_of(round[0], n_rounds, at),
                   median_of(round[1], n_rounds, at));
        printf("\n");
        fflush(stdout);
    }
    rn_engine_destroy(engine);
    rn_model_close(model);
    return 0;
}
