// The options of `runnel bench`: lists, defaults, and the message for each value and combination
// that is refused. Nothing is measured here.
#include "bench/figures.h"

#include "bench_world.h"

static struct bench_config config;

static int config_read(const struct options *options) {
    return bench_config_init(options, &config);
}

static void taken(const char *line) {
    static struct caught caught;
    const int code = line_run(line, config_read, &caught);
    check(code == APP_OK, "bench %s: %s", line, caught.err);
}

static void refused(const char *line, const char *message) {
    static struct caught caught;
    const int code = line_run(line, config_read, &caught);
    check(code == APP_USAGE, "bench %s: status %d", line, code);
    check(strstr(caught.err, message), "bench %s: '%s' is not in: %s", line, message, caught.err);
    check(occurrences(caught.err, "\n") == 1, "bench %s: more than a line: %s", line, caught.err);
}

static void list_is(const char *what, const struct bench_list *list, int n, const double *wanted) {
    check(list->count == n, "%s: %d items instead of %d", what, list->count, n);
    for (int i = 0; i < n; i++) near(what, list->value[i], wanted[i]);
}

CASE(test_defaults) {
    taken("");
    assert_int_equal(config.measure, MEASURE_STEPS);
    assert_int_equal(config.n_models, 1);
    assert_int_equal(config.model[0].source, SOURCE_EMBEDDED);
    list_is("prompts", &config.n_prompt, 1, (const double[]){512});
    list_is("decoding", &config.n_gen, 1, (const double[]){128});
    list_is("depths", &config.n_depth, 1, (const double[]){0});
    list_is("threads", &config.threads, 1, (const double[]){0});
    list_is("streams", &config.streams, 1, (const double[]){1});
    list_is("verify", &config.verify, 0, NULL);
    assert_int_equal(config.repetitions, 5);
    assert_int_equal(config.batch_tokens, 512);
    assert_null(config.kv_type); // the device's default
    assert_int_equal(config.place.device, 0);
    assert_string_equal(config.output, "md");
    assert_int_equal(config.shared_prefix, -1);
    bench_config_deinit(&config);
    taken("--batch 1,2");
    assert_int_equal(config.measure, MEASURE_STREAMS);
    assert_int_equal(config.repetitions, 1);
    taken("--arrive 300");
    assert_int_equal(config.measure, MEASURE_STREAMS);
    list_is("streams that run", &config.batch, 1, (const double[]){8});
    taken("--speculate");
    assert_int_equal(config.measure, MEASURE_DRAFTS);
    assert_int_equal(config.repetitions, 9);
    list_is("lengths", &config.lengths, 5, (const double[]){0, 1, 2, 4, 8});
    list_is("acceptances", &config.acceptances, 2, (const double[]){0.8, 0});
    list_is("temperatures", &config.temperatures, 1, (const double[]){0});
    list_is("drafters: all there are", &config.drafters, 0, NULL);
}

CASE(test_the_device_is_found_before_a_model_is_opened) {
    taken("--backend cpu --device 0 -m /nowhere/model.gguf");
    assert_string_equal(config.device.backend, "cpu");
    assert_string_equal(config.device.name, "");
    bench_config_deinit(&config);
    refused("--backend cpu --device 7", "backend 'cpu': device is 7, expected 0");
    refused("--device -1", "--device: '-1' is not a whole number from 0 to 1023");
    refused("--device x", "--device: 'x' is not a whole number from 0 to 1023");
    refused("--backend nosuch", "backend: 'nosuch' is not known (known: cpu; no runnel_nosuch.so");
    refused("--draft-backend cpu", "--draft-backend is for drafts, and --speculate is missing");
    refused("--speculate --draft-device 1", "--draft-device belongs to --draft-backend");
    taken("--speculate --draft-backend cpu --draft-device 1");
    assert_non_null(config.draft_backend);
    assert_int_equal(config.draft_device, 1);
}

CASE(test_lists_have_commas_and_add_up) {
    taken("-p 4 -p 8,16 -n 0 -t 1,2");
    list_is("prompts", &config.n_prompt, 3, (const double[]){4, 8, 16});
    list_is("threads", &config.threads, 2, (const double[]){1, 2});
    taken("--speculate --drafters synthetic,none --draft-lengths 31,auto --acceptance .5,1 "
          "--temperatures 0,0.7");
    list_is("drafters", &config.drafters, 2, (const double[]){DRAFTER_SYNTHETIC, DRAFTER_NONE});
    list_is("lengths", &config.lengths, 2, (const double[]){31, 0});
    list_is("acceptances", &config.acceptances, 2, (const double[]){0.5, 1});
    list_is("temperatures", &config.temperatures, 2, (const double[]){0, 0.7});
    taken("-pg 64,8 -pg 4,2");
    list_is("pairs", &config.prompt_gen, 4, (const double[]){64, 8, 4, 2});
    refused("-pg 64", "--prompt-gen: '64' is not P,N");
    refused("-pg 64,0", "--prompt-gen: '0' is not a whole number from 1");
    refused("--batch 2 -pg 4,2", "--batch cannot be combined with --prompt-gen");
    refused("--tour -o sql", "--output: sql: the rows of --tour have different columns");
    char line[512] = "-p 1";
    for (int i = 1; i < BENCH_MAX_LIST; i++) strcat(line, ",1");
    taken(line);
    strcat(line, ",1");
    refused(line, "--n-prompt: '1' is one too many: at most 64 are possible");
}

CASE(test_models_are_files_shapes_or_the_embedded_one) {
    taken("-m " SMALL "," BLOCKS " -m " SMALL " --synthetic tiny:Q4_0,tiny:Q8_0");
    assert_int_equal(config.n_models, 5);
    assert_string_equal(config.model[1].name, BLOCKS);
    assert_int_equal(config.model[1].source, SOURCE_FILE);
    assert_string_equal(config.model[4].name, "tiny:Q8_0");
    assert_int_equal(config.model[4].source, SOURCE_SYNTHETIC);
    bench_config_deinit(&config);
    refused("-m a,,b", "'' is not a model");
    char path[] = "/tmp/rn,bench,XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    char line[128];
    snprintf(line, sizeof line, "-m %s", path);
    taken(line);
    assert_int_equal(config.n_models, 1); // a file's name may have commas
    assert_string_equal(config.model[0].name, path);
    bench_config_deinit(&config);
    close(file);
    unlink(path);
}

CASE(test_numbers_are_checked) {
    static const char *const names[] = {"n-prompt", "n-gen", "n-depth"};
    static const char *const values[] = {"x",  "-1",       "1.5",
                                         "1,", ",1",       "1,,2",
                                         "1x", "16777217", "99999999999999999999"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            char line[96], message[96];
            snprintf(line, sizeof line, "--%s=%s", names[i], values[j]);
            snprintf(message, sizeof message, "runnel: --%s: '", names[i]);
            refused(line, message);
            refused(line, "' is not a whole number from 0 to 16777216");
        }
    }
    refused("-n 1,2,3x", "--n-gen: '3x' is not");
    refused("-t 1,0", "--threads: '0' is not a whole number from 1 to 1024");
    refused("--streams 4097", "--streams: '4097' is not a whole number from 1 to 4096");
    refused("--verify 0", "--verify: '0' is not");
    refused("--batch 1,0", "--batch: '0' is not a whole number from 1 to 4096");
    refused("-r 0", "-r: '0' is not a whole number from 1 to 1000");
    assert_int_equal(SAMPLES_MAX, 1000); // figures.c has room for as many
    refused("--output xml", "--output: 'xml' is not one of md|json|jsonl|csv|sql");
    refused("--speculate --acceptance 0,1.5", "--acceptance: '1.5' is not a number from 0 to 1");
    refused("--speculate --temperatures=-1", "--temperatures: '-1' is not a number from 0 to 100");
    refused("--speculate --drafters lookup,luck",
            "--drafters: 'luck' is not one of none|model|lookup|shared|mtp|auto|synthetic");
    static const char *const lengths[] = {"0", "32", "x", "1.5", ""};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char line[96], message[96];
        snprintf(line, sizeof line, "--speculate --draft-lengths 1,%s", lengths[i]);
        snprintf(message, sizeof message,
                 "--draft-lengths: '%s' is neither auto nor a whole number from 1 to 31",
                 lengths[i]);
        refused(line, message);
    }
}

CASE(test_combinations_without_a_meaning_are_refused) {
    static const char *const steps[] = {"--n-depth 1", "--streams 2",      "--verify 2",
                                        "--stages",    "--peer x",         "--peer-args x",
                                        "--speculate", "--drafters lookup"};
    static const char *const not_drafts[] = {"--n-depth 1", "--verify 2", "--stages",
                                             "--peer x",    "--batch 2",  "--arrive 9",
                                             "--sample",    "--itl-ms 5", "--shared-prefix 4"};
    static const char *const drafts[] = {"--drafters lookup", "--draft-lengths 2",
                                         "--acceptance 1",    "--temperatures 0",
                                         "--forced 5",        "--draft " SMALL};
    char line[256], message[128];
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        snprintf(line, sizeof line, "--batch 2 %s", steps[i]);
        refused(line, "cannot be combined with --");
    }
    for (size_t i = 0; i < sizeof not_drafts / sizeof *not_drafts; i++) {
        snprintf(line, sizeof line, "--speculate %s", not_drafts[i]);
        snprintf(message, sizeof message, "--speculate cannot be combined with %.*s",
                 (int)strcspn(not_drafts[i], " "), not_drafts[i]);
        refused(line, message);
    }
    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++) {
        snprintf(message, sizeof message, "%.*s is for drafts, and --speculate is missing",
                 (int)strcspn(drafts[i], " "), drafts[i]);
        refused(drafts[i], message);
    }
    refused("--batch 2 --n-depth 1", "--batch cannot be combined with --n-depth");
    refused("--arrive 10 --shared-prefix 4", "--arrive cannot be combined with --shared-prefix");
    refused("--arrive 10 --plot x.svg", "--arrive has no plot");
}

CASE(test_the_tour_has_numbers_of_its_own) {
    taken("--tour");
    assert_int_equal(config.measure, MEASURE_TOUR);
    assert_int_equal(config.repetitions, 5);
    list_is("prompts", &config.n_prompt, 1, (const double[]){256});
    list_is("decoding", &config.n_gen, 1, (const double[]){32});
    list_is("streams", &config.streams, 7, (const double[]){1, 2, 4, 8, 16, 32, 64});
    list_is("depths: by the model's context", &config.n_depth, 0, NULL);
    taken("--tour -p 4 -n 3 -d 5,6 --streams 2 -r 1");
    list_is("prompts", &config.n_prompt, 1, (const double[]){4});
    list_is("depths", &config.n_depth, 2, (const double[]){5, 6});
    list_is("streams", &config.streams, 1, (const double[]){2});
    refused("--tour -n 1", "--n-gen: --tour takes one number, at least 2");
    refused("--tour -p 1,2", "--n-prompt: --tour takes one number, at least 1");
    refused("--tour -t 1,2", "--threads: --tour takes one number, at least 1");
    refused("--tour -o csv", "--output: csv: the rows of --tour have different columns");
    refused("--tour --streams 4,2", "--streams: --tour takes rising numbers");
    refused("--tour -d 8,8", "--n-depth: --tour takes rising numbers");
    refused("--tour --batch 2", "--tour cannot be combined with --batch");
    refused("--tour --speculate", "--tour cannot be combined with --speculate");
    refused("--tour --verify 2", "--tour cannot be combined with --verify");
}

CASE(test_options_of_the_engine_need_it) {
    refused("--kv-memory 4p",
            "--kv-memory is for the engine, and --batch, --arrive or --speculate is missing");
    refused("--itl-ms 5", "--itl-ms is for the engine, and --batch or --arrive is missing");
    refused("--sample", "--sample is for the engine, and --batch or --arrive is missing");
    refused("--shared-prefix 5", "--shared-prefix is for the engine, and --batch is missing");
    taken("--speculate --kv-memory 4p");
    assert_int_equal(config.memory.kv_pages, 4);
}

CASE(test_requests_have_lengths) {
    refused("-p 0 -n 0", "nothing to measure");
    refused("--batch 2 -p 4,8 --shared-prefix 9",
            "--shared-prefix: 9 is more than the prompt's 8 tokens");
    refused("--batch 1 -p 0", "--batch: prompts of 0 tokens are no requests");
    refused("--batch 1 -n 1", "--batch: --n-gen 1 has no gaps");
    refused("--speculate -n 1", "--n-gen: --speculate takes one number of tokens, at least 2");
    refused("--speculate --n-prompt 8,16", "--n-prompt: --speculate takes one length, at least 1");
    refused("--speculate --forced ''", "--forced: '' is no text");
    refused("--speculate --draft-lengths auto --plot x.svg", "--plot draws lengths of drafts");
}

CASE(test_drafting_models_and_peers_need_files) {
    refused("--speculate -m " SMALL " --drafters model",
            "--drafters: 'model' drafts with a model, and --draft names none");
    refused("--speculate --draft none --drafters model", "--drafters: 'model' drafts with a model");
    taken("--speculate --drafters model"); // the embedded model has one
    assert_true(bench_has_draft(&config, &config.model[0]));
    refused("--peer ./peer", "--peer needs a model that is a file: the embedded one has none");
    refused("--peer ./peer --synthetic 1b:Q4_0",
            "--peer needs a model that is a file: --synthetic 1b:Q4_0 has none");
    refused("--peer-args x", "--peer-args is for a peer, and --peer is missing");
}

// A variable may be meant for other commands; a message names it.
CASE(test_the_environment) {
    setenv("RUNNEL_KV_MEMORY", "1p", 1);
    setenv("RUNNEL_DRAFT", "/nonexistent", 1);
    taken("");
    unsetenv("RUNNEL_KV_MEMORY");
    unsetenv("RUNNEL_DRAFT");
    setenv("RUNNEL_BATCH", "2", 1);
    refused("--streams 2", "RUNNEL_BATCH cannot be combined with --streams");
    unsetenv("RUNNEL_BATCH");
    setenv("RUNNEL_ARRIVE", "9", 1);
    refused("--plot x.svg", "RUNNEL_ARRIVE has no plot");
    unsetenv("RUNNEL_ARRIVE");
    setenv("RUNNEL_N_GEN", "x", 1);
    refused("", "RUNNEL_N_GEN: 'x' is not");
    unsetenv("RUNNEL_N_GEN");
}

TEST_PROGRAM(bench_options) { return cases_run(environment_clean, NULL); }
