// Measures steps of a model without the engine: prompts (pp), decoding of one or several sequences
// (tg), both together (pp+tg), and steps with several tokens of one sequence (verify). A runner
// gets hand-made batches. The bandwidth is measured before and after each repetition, so that a
// share compares rates of the same second. A peer runs after each repetition of ours, for the same
// reason.
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/figures.h"
#include "terminal/interrupt.h"

enum {
    WARM_STEPS = 4,
    VERIFY_STEPS = 32, // where nothing is to be decoded
};

struct test {
    int n_prompt, n_gen, n_verify; // of verify: n_gen steps
    struct tools_work work[2];     // one after the other, timed together; the second of pp+tg alone
    int n_works;
};

struct tests {
    struct test *test;        // [n], in the order of the rows
    struct tools_work *works; // [n_works] theirs
    int n, n_works;
};

// A model on a runner, and the row at hand.
struct bed {
    struct bench_place *place;
    struct tools_runner *runner;
    uint64_t cache_bytes; // of the machine
    const struct test *test;
    struct row *row;
    struct samples samples;
};

// ---------------------------------------------------------------- tests

static struct test test_prompt(int n_prompt, int depth, int batch) {
    return (struct test){.n_prompt = n_prompt,
                         .n_works = 1,
                         .work = {{.n_seqs = 1,
                                   .depth = depth,
                                   .n_positions = n_prompt,
                                   .step_tokens = n_prompt < batch ? n_prompt : batch,
                                   .advance = batch}}};
}

// n_verify 0: decoding.
static struct test test_steps(int n_gen, int depth, int n_seqs, int n_verify) {
    const int tokens = n_verify ? n_verify : 1;
    return (struct test){.n_gen = n_gen,
                         .n_verify = n_verify,
                         .n_works = 1,
                         .work = {{.n_seqs = n_seqs,
                                   .depth = depth,
                                   .n_positions = n_gen - 1 + tokens,
                                   .step_tokens = tokens,
                                   .advance = 1,
                                   .all_logits = true}}};
}

static struct test test_both(int n_prompt, int n_gen, int depth, int batch) {
    struct test test = test_prompt(n_prompt, depth, batch);
    test.n_gen = n_gen;
    test.work[test.n_works++] = test_steps(n_gen, depth + n_prompt, 1, 0).work[0];
    return test;
}

// The last work has the most positions.
static const struct tools_work *last_work(const struct test *test) {
    return &test->work[test->n_works - 1];
}

static void tests_at_depth(const struct bench_config *c, int depth, struct tests *out) {
    int steps = VERIFY_STEPS;
    for (int i = 0; i < c->n_prompt.count; i++)
        if (bench_list_at(&c->n_prompt, i))
            out->test[out->n++] =
                test_prompt(bench_list_at(&c->n_prompt, i), depth, c->batch_tokens);
    for (int i = 0; i < c->n_gen.count; i++) {
        if (!bench_list_at(&c->n_gen, i)) continue;
        steps = bench_list_at(&c->n_gen, i);
        for (int s = 0; s < c->streams.count; s++)
            out->test[out->n++] = test_steps(steps, depth, bench_list_at(&c->streams, s), 0);
    }
    for (int i = 0; i + 1 < c->prompt_gen.count; i += 2)
        out->test[out->n++] =
            test_both(bench_list_at(&c->prompt_gen, i), bench_list_at(&c->prompt_gen, i + 1), depth,
                      c->batch_tokens);
    for (int i = 0; i < c->verify.count; i++)
        out->test[out->n++] = test_steps(steps, depth, 1, bench_list_at(&c->verify, i));
}

static void works_collect(struct tests *tests) {
    tests->n_works = 0;
    for (int i = 0; i < tests->n; i++)
        for (int j = 0; j < tests->test[i].n_works; j++)
            tests->works[tests->n_works++] = tests->test[i].work[j];
}

static void tests_deinit(struct tests *tests) {
    free(tests->test);
    free(tests->works);
}

static bool tests_init(const struct bench_config *config, struct tests *out) {
    const int most = config->n_depth.count *
                     (config->n_prompt.count + config->n_gen.count * config->streams.count +
                      config->prompt_gen.count / 2 + config->verify.count);
    *out = (struct tests){.test = calloc((size_t)most, sizeof *out->test),
                          .works = calloc(2 * (size_t)most, sizeof *out->works)};
    if (!out->test || !out->works) {
        tests_deinit(out);
        return false;
    }
    for (int i = 0; i < config->n_depth.count; i++)
        tests_at_depth(config, bench_list_at(&config->n_depth, i), out);
    works_collect(out);
    return true;
}

// ---------------------------------------------------------------- one test

static double larger(double a, double b) { return a > b ? a : b; }

// Before and after the repetitions.
static void peaks_measure(struct bed *bed) {
    struct samples *samples = &bed->samples;
    if (!bed->test->n_prompt && !bed->place->bench->config->peaks) return;
    samples->int_peak = larger(samples->int_peak, tools_runner_peak(bed->runner, true));
    samples->float_peak = larger(samples->float_peak, tools_runner_peak(bed->runner, false));
}

static int status_fail(rn_status status, const rn_error *err) {
    if (status == RN_ERR_CANCELLED) return APP_INTERRUPTED;
    return status ? app_fail_error(err) : APP_OK;
}

static int work_run(const struct bed *bed, const struct tools_work *work, int max_steps,
                    uint64_t *ns, uint64_t *expert_bytes) {
    rn_error err = {0};
    return status_fail(tools_runner_run(bed->runner, work, max_steps, interrupt_seen, ns,
                                        expert_bytes, &err),
                       &err);
}

static int warm_up(const struct bed *bed) {
    uint64_t ns, expert_bytes;
    return work_run(bed, &bed->test->work[0], bed->test->n_prompt ? 1 : WARM_STEPS, &ns,
                    &expert_bytes);
}

// As many steps of one token at the same depth; the cost of a step of several tokens is relative to
// them.
static int cost_measure(const struct bed *bed, struct sample *sample) {
    struct tools_work one = bed->test->work[0];
    uint64_t ns, expert_bytes;
    one.n_positions = bed->test->n_gen;
    one.step_tokens = 1;
    const int code = work_run(bed, &one, 0, &ns, &expert_bytes);
    if (!code) sample->cost = (double)sample->ns / (double)(ns ? ns : 1);
    return code;
}

// *bandwidth is the last measured one; 0: none. The test itself has read its bytes, so its rate is
// a measurement of the bandwidth too. Otherwise a share could exceed 100% on a shared machine.
static int sample_take(const struct bed *bed, uint64_t working_set, double *bandwidth,
                       struct sample *sample) {
    const struct tools_cost *cost = &bed->samples.cost;
    const int budget_ms = bed->place->bench->config->bandwidth_ms;
    const double before =
        *bandwidth > 0 ? *bandwidth : tools_runner_bandwidth(bed->runner, working_set, budget_ms);
    uint64_t expert_bytes = 0;
    for (int i = 0; i < bed->test->n_works; i++) {
        uint64_t ns, bytes;
        const int code = work_run(bed, &bed->test->work[i], 0, &ns, &bytes);
        if (code) return code;
        sample->ns += ns;
        expert_bytes += bytes;
    }
    sample->idle_ns = tools_runner_idle_ns(bed->runner);
    sample->bytes =
        (double)(cost->weight_bytes - cost->expert_bytes + expert_bytes) + (double)cost->kv_bytes;
    *bandwidth = tools_runner_bandwidth(bed->runner, working_set, budget_ms);
    sample->bandwidth = larger(before, *bandwidth);
    if (sample->bandwidth > 0)
        sample->bandwidth =
            larger(sample->bandwidth, sample->bytes * 1e9 / (double)(sample->ns ? sample->ns : 1));
    return bed->test->n_verify ? cost_measure(bed, sample) : APP_OK;
}

static int repetitions_run(struct bed *bed, struct sample *samples) {
    const struct bench_config *config = bed->place->bench->config;
    const uint64_t working_set = tools_runner_working_set(bed->runner, last_work(bed->test));
    // a peer measures one sequence only, and no steps of several tokens
    const bool with_peer = config->peer && !bed->test->n_verify && bed->test->work[0].n_seqs == 1;
    double bandwidth = 0;
    int code = APP_OK;
    row_bool(bed->row, COLUMN_IN_CACHE, working_set <= bed->cache_bytes);
    for (int i = 0; !code && i < config->repetitions; i++) {
        if (interrupt_seen()) return APP_INTERRUPTED;
        if (i == 0 || with_peer) code = warm_up(bed);
        if (!code) code = sample_take(bed, working_set, &bandwidth, &samples[i]);
        if (!code && with_peer) {
            code = peer_run(config, bed->place->source->name, bed->row, &samples[i].peer_ts);
            bandwidth = 0; // the peer took its time
        }
        if (!code) bench_progress_step(bed->place->bench);
    }
    return code;
}

// Ctrl-C during this run costs the row only its stages.
static int stages_measure(struct bed *bed) {
    struct row *row = bed->row;
    rn_error err = {0};
    if (bed->test->n_works > 1) return APP_OK; // steps of two kinds have no stages in common
    row->n_steps = bed->samples.cost.steps;
    const rn_status status =
        tools_runner_stages(bed->runner, &bed->test->work[0], interrupt_seen, &row->stages,
                            &row->n_stages, &row->stages_ns, &err);
    return status == RN_ERR_CANCELLED ? APP_OK : status_fail(status, &err);
}

static void costs_add(struct bed *bed) {
    struct tools_cost *sum = &bed->samples.cost;
    for (int i = 0; i < bed->test->n_works; i++) {
        struct tools_cost cost;
        tools_runner_cost(bed->runner, &bed->test->work[i], &cost);
        sum->steps += cost.steps;
        sum->tokens += cost.tokens;
        sum->weight_bytes += cost.weight_bytes;
        sum->expert_bytes += cost.expert_bytes;
        sum->kv_bytes += cost.kv_bytes;
        sum->int_macs += cost.int_macs;
        sum->float_macs += cost.float_macs;
    }
}

static int test_measure(struct bed *bed, struct sample *samples) {
    const struct bench_config *config = bed->place->bench->config;
    costs_add(bed);
    peaks_measure(bed);
    const int code = repetitions_run(bed, samples);
    if (code) return code;
    peaks_measure(bed);
    bed->samples.sample = samples;
    bed->samples.n = config->repetitions;
    figures_steps(&bed->samples, bed->row);
    return config->stages ? stages_measure(bed) : APP_OK;
}

// ---------------------------------------------------------------- rows

static void row_init(const struct bed *bed, struct row *row) {
    const struct bench_config *config = bed->place->bench->config;
    const struct test *test = bed->test;
    char cpu[128], label[64];
    app_cpu_name(cpu, sizeof cpu);
    bench_row_init(bed->place, TABLE_STEPS, row);
    row_whole(row, COLUMN_BUILD_NUMBER, 0);
    row_text(row, COLUMN_CPU_INFO, cpu);
    row_text(row, COLUMN_GPU_INFO, config->device.name);
    row_whole(row, COLUMN_MODEL_SIZE, (int64_t)bed->place->info->weight_bytes);
    row_whole(row, COLUMN_MODEL_N_PARAMS, (int64_t)bed->place->info->n_params);
    row_whole(row, COLUMN_N_BATCH, config->batch_tokens);
    row_whole(row, COLUMN_N_UBATCH, config->batch_tokens);
    row_text(row, COLUMN_TYPE_K, bed->place->kv_type);
    row_text(row, COLUMN_TYPE_V, bed->place->kv_type);
    row_whole(row, COLUMN_N_PROMPT, test->n_prompt);
    row_whole(row, COLUMN_N_GEN, test->n_gen);
    row_whole(row, COLUMN_N_DEPTH, test->work[0].depth);
    row_whole(row, COLUMN_N_SEQS, test->work[0].n_seqs);
    row_whole(row, COLUMN_N_VERIFY, test->n_verify);
    row_text(row, COLUMN_LABEL, figure_test(row, test->work[0].n_seqs, test->work[0].depth, label));
}

static int test_run(struct bed *bed) {
    struct bench *bench = bed->place->bench;
    struct row row;
    struct sample *samples = calloc((size_t)bench->config->repetitions, sizeof *samples);
    if (!samples) return app_fail(APP_FAILED, "out of memory");
    row_init(bed, &row);
    bed->row = &row;
    bed->samples = (struct samples){0};
    bench_progress_begin(bench);
    int code = test_measure(bed, samples);
    bench_progress_end(bench);
    if (code)
        row_deinit(&row);
    else
        code = bench_row_add(bench, &row);
    free(samples);
    return code;
}

// ---------------------------------------------------------------- models

static uint64_t test_pages(const struct test *test) { return tools_work_pages(last_work(test)); }

// Takes the test with the most KV pages out.
static void largest_skip(const struct bench_place *place, struct tests *tests, const char *why) {
    struct row row = {.table = TABLE_STEPS};
    char label[64];
    int most = 0;
    for (int i = 1; i < tests->n; i++)
        if (test_pages(&tests->test[i]) > test_pages(&tests->test[most])) most = i;
    const struct test *test = &tests->test[most];
    row_whole(&row, COLUMN_N_PROMPT, test->n_prompt);
    row_whole(&row, COLUMN_N_GEN, test->n_gen);
    row_whole(&row, COLUMN_N_VERIFY, test->n_verify);
    figure_test(&row, test->work[0].n_seqs, test->work[0].depth, label);
    app_fail(APP_OK, "%s: %s is skipped: %s", err_path(place->info->path), label, why);
    row_deinit(&row);
    tests->n--;
    for (int i = most; i < tests->n; i++) tests->test[i] = tests->test[i + 1];
    works_collect(tests);
    place->bench->total -= (uint64_t)place->bench->config->repetitions;
}

// Leaves the tests that fit the device's memory together. Where not even the smallest test fits
// alone, all stay, and the runner's error says it.
static void tests_fit(const struct bench_place *place, const struct tools_runner_options *options,
                      struct tests *tests) {
    rn_error err = {0};
    int least = 0;
    for (int i = 1; i < tests->n; i++)
        if (test_pages(&tests->test[i]) < test_pages(&tests->test[least])) least = i;
    const struct test *smallest = &tests->test[least];
    if (tools_works_fit(place->model, options, smallest->work, smallest->n_works, &err)) return;
    while (tools_works_fit(place->model, options, tests->works, tests->n_works, &err) ==
           RN_ERR_NOMEM)
        largest_skip(place, tests, err.message);
}

static int runner_make(const struct bench_place *place, int n_threads, struct tests *tests,
                       struct tools_runner **out) {
    const struct bench_config *config = place->bench->config;
    struct progress progress;
    const struct tools_runner_options options = {.place = config->place,
                                                 .isa = config->isa,
                                                 .n_threads = n_threads,
                                                 .no_pin = config->no_pin,
                                                 .kv_type = config->kv_type,
                                                 .progress = progress_update,
                                                 .progress_ctx = &progress};
    rn_error err = {0};
    if (tools_works_check(place->info, tests->works, tests->n_works, &err))
        return app_fail_error(&err);
    tests_fit(place, &options, tests);
    progress_begin(&progress, place->bench->term, config->quiet, "loading");
    const rn_status status =
        tools_runner_create(place->model, &options, tests->works, tests->n_works, out, &err);
    progress_end(&progress);
    if (status == RN_ERR_NOMEM)
        return app_fail(APP_FAILED, "%s: %s", err_path(place->info->path), err.message);
    return status ? app_fail_error(&err) : APP_OK;
}

// Tests that do not fit the device are taken out of the list.
static int threads_run(struct bench_place *place, int n_threads, struct tests *tests) {
    struct bed bed = {.place = place};
    int code = runner_make(place, n_threads, tests, &bed.runner);
    if (code) return code;
    struct tools_runner_info info;
    tools_runner_get_info(bed.runner, &info);
    bed.cache_bytes = info.cache_bytes;
    bench_place_set(place, info.backend, info.isa, info.kv_type, info.n_threads);
    bench_warn_slow(place->bench, info.slow_formats, info.isa);
    if (place->bench->config->stages && !info.has_stages && !place->bench->config->quiet)
        app_fail(APP_OK, "--stages: backend '%s' does not time its stages", info.backend);
    interrupt_watch(); // from now on there may be rows to show
    for (int i = 0; !code && i < tests->n; i++) {
        bed.test = &tests->test[i];
        code = interrupt_seen() ? APP_INTERRUPTED : test_run(&bed);
    }
    tools_runner_destroy(bed.runner);
    return code;
}

static int steps_run(struct bench_place *place) {
    const struct bench_list *threads = &place->bench->config->threads;
    struct tests tests;
    int code = APP_OK;
    if (!tests_init(place->bench->config, &tests)) return app_fail(APP_FAILED, "out of memory");
    for (int t = 0; !code && t < threads->count; t++)
        code = threads_run(place, bench_list_at(threads, t), &tests);
    tests_deinit(&tests);
    return code;
}

static rn_status steps_check(const struct bench_config *config, const rn_model_info *info,
                             rn_error *err) {
    struct tests tests;
    if (!tests_init(config, &tests)) return err_set(err, RN_ERR_NOMEM, "out of memory");
    const rn_status status = tools_works_check(info, tests.works, tests.n_works, err);
    tests_deinit(&tests);
    return status;
}

static uint64_t steps_count(const struct bench_config *config) {
    struct tests tests;
    if (!tests_init(config, &tests)) return 0;
    const uint64_t n_runners = (uint64_t)config->n_models * (uint64_t)config->threads.count;
    const uint64_t n_runs = (uint64_t)tests.n * n_runners * (uint64_t)config->repetitions;
    tests_deinit(&tests);
    return n_runs;
}

const struct measure measure_steps = {.count = steps_count, .run = steps_run, .check = steps_check};
