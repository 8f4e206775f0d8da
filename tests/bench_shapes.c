// The price of a shape: streams whose texts have one against streams of any text, in turn, on one
// engine. Prints tokens per second, the median of several rounds, and the ratio of both. The texts
// are cut by their length, so that all streams run for the whole of a round. Run by hand on a quiet
// machine:
//   bench_shapes MODEL [STREAMS [TOKENS [ROUNDS [SHAPE]]]]
// MODEL is a file, or a synthetic model such as 1b:Q4_0. SPECULATE=auto drafts.
#define BY_HAND "bench_shapes"
#include "base/clock.h"
#include "by_hand.h"

enum { MAX_STREAMS = 256, MAX_ROUNDS = 32, N_PROMPT = 16 };

static const struct {
    const char *name;
    rn_shape_kind kind;
    const char *source;
} shapes[] = {
    {"a string", RN_SHAPE_SCHEMA, "{\"type\":\"string\",\"minLength\":4000}"},
    {"an array of objects", RN_SHAPE_SCHEMA,
     "{\"type\":\"array\",\"minItems\":200,\"items\":{\"type\":\"object\",\"properties\":{"
     "\"name\":{\"type\":\"string\",\"maxLength\":40},\"age\":{\"type\":\"integer\"},"
     "\"kind\":{\"enum\":[\"fox\",\"hare\",\"owl\"]},\"tags\":{\"type\":\"array\",\"items\":"
     "{\"type\":\"string\",\"maxLength\":12}},\"seen\":{\"type\":\"string\",\"format\":\"date\"}},"
     "\"required\":[\"name\",\"age\",\"kind\",\"tags\",\"seen\"],\"additionalProperties\":false}}"},
    {"an expression", RN_SHAPE_REGEX, "([A-Z][a-z]{1,12}( [a-z]{1,9}){2,14}\\. ){200,}"},
    {"a grammar", RN_SHAPE_GRAMMAR,
     "root ::= (call \"\\n\"){200,}\ncall ::= name \"(\" list? \")\"\nname ::= [a-z]{1,9}\n"
     "list ::= item (\", \" item)*\nitem ::= [0-9]{1,6} | call | \"\\\"\" [^\"\\n]* \"\\\"\""},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static const char *const part_name[] = {"schedule", "draft", "batch", "run", "sample", "publish"};
enum { N_PARTS = 6 };

// The time of each part of all steps, in ns.
static void parts_get(rn_engine *engine, double *part) {
    rn_engine_stats stats;
    rn_engine_get_stats(engine, &stats);
    part[0] = (double)stats.schedule_ns;
    part[1] = (double)stats.draft_ns;
    part[2] = (double)stats.batch_ns;
    part[3] = (double)stats.run_ns;
    part[4] = (double)stats.sample_ns;
    part[5] = (double)stats.publish_ns;
}

// Seconds of a round; *n_tokens: that were written; part: microseconds of
// a token in each part of a step, and between steps.
static double run_round(rn_engine *engine, const rn_shape *shape, int n_streams, int n_tokens,
                        int n_vocab, int round, long *written, double *part) {
    int32_t prompt[N_PROMPT];
    rn_error err = {0};
    *written = 0;
    double before[N_PARTS];
    parts_get(engine, before);
    const uint64_t begin = clock_ns();
    for (int i = 0; i < n_streams; i++) {
        uint64_t id;
        for (int k = 0; k < N_PROMPT; k++) prompt[k] = (i * 7919 + k * 104729 + 33) % n_vocab;
        rn_request request = {.prompt = prompt,
                              .n_prompt = N_PROMPT,
                              .max_tokens = n_tokens,
                              .ignore_eos = true,
                              .sampling = rn_sampling_neutral(),
                              .shape = shape};
        request.sampling.temperature = 0.8f;
        request.sampling.top_p = 0.95f;
        request.sampling.has_seed = true;
        request.sampling.seed = (uint64_t)(round * n_streams + i);
        if (rn_engine_submit(engine, &request, &id, &err)) fail(&err);
    }
    for (bool busy = true; busy;) {
        rn_engine_step(engine, &busy);
        for (rn_event event; rn_engine_next_event(engine, &event);) *written += event.token >= 0;
    }
    const double seconds = (double)(clock_ns() - begin) * 1e-9;
    parts_get(engine, part);
    part[N_PARTS] = seconds * 1e6 / (double)*written;
    for (int i = 0; i < N_PARTS; i++) {
        part[i] = (part[i] - before[i]) * 1e-3 / (double)*written;
        part[N_PARTS] -= part[i];
    }
    return seconds;
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return values[n / 2];
}

// One row: both speeds, and where the difference is, in microseconds of a token.
static void compare(rn_model *model, rn_engine *engine, int s, int n_streams, int n_tokens,
                    int n_rounds) {
    double rate[2][MAX_ROUNDS], ratio[MAX_ROUNDS], more[N_PARTS + 1][MAX_ROUNDS];
    const int n_vocab = rn_model_get_info(model)->n_vocab;
    rn_shape *shape;
    rn_error err = {0};
    long written = 0, all = 0;
    if (rn_shape_compile(model, shapes[s].kind, shapes[s].source, strlen(shapes[s].source), &shape,
                         &err))
        fail(&err);
    for (int round = -1; round < n_rounds; round++) { // the first one warms up
        const int at = round < 0 ? 0 : round;
        double part[2][N_PARTS + 1];
        for (int with = 0; with < 2; with++) {
            const double seconds = run_round(engine, with ? shape : NULL, n_streams, n_tokens,
                                             n_vocab, round + 1, &written, part[with]);
            rate[with][at] = (double)written / seconds;
            if (round >= 0 && with) all += written;
        }
        ratio[at] = rate[1][at] / rate[0][at];
        for (int i = 0; i <= N_PARTS; i++) more[i][at] = part[1][i] - part[0][i];
    }
    printf("| %s | %.0f | %.0f | %.3f | %ld |", shapes[s].name, median(rate[1], n_rounds),
           median(rate[0], n_rounds), median(ratio, n_rounds), all);
    for (int i = 0; i <= N_PARTS; i++) printf(" %+.2f |", median(more[i], n_rounds));
    printf("\n");
    fflush(stdout);
    rn_shape_release(shape);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    const char *name = argv[1];
    const int n_streams = argc > 2 ? atoi(argv[2]) : 16, n_tokens = argc > 3 ? atoi(argv[3]) : 96;
    const int n_rounds = argc > 4 ? atoi(argv[4]) : 5, only = argc > 5 ? atoi(argv[5]) : -1;
    rn_error err = {0};
    if (n_streams < 1 || n_streams > MAX_STREAMS || n_rounds < 1 || n_rounds > MAX_ROUNDS) return 2;
    rn_model *model = open_model(name);
    const rn_engine_options options = {.max_seqs = n_streams,
                                       .n_ctx = N_PROMPT + n_tokens,
                                       .no_prefix_cache = true,
                                       .speculate =
                                           getenv("SPECULATE") ? getenv("SPECULATE") : "off"};
    rn_engine *engine;
    if (rn_engine_create(model, &options, &engine, &err)) fail(&err);
    const int n_vocab = rn_model_get_info(model)->n_vocab;
    printf("%s, %d tokens of vocabulary, %d streams of %d tokens\n", name, n_vocab, n_streams,
           n_tokens);
    printf("| shape | tokens/s | without | ratio | tokens |");
    for (int i = 0; i < N_PARTS; i++) printf(" %s |", part_name[i]);
    printf(" rest |\n|---|---:|---:|---:|---:|");
    for (int i = 0; i <= N_PARTS; i++) printf("---:|");
    printf("\n");
    for (int s = 0; s < N_SHAPES; s++)
        if (only < 0 || only == s) compare(model, engine, s, n_streams, n_tokens, n_rounds);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return 0;
}
