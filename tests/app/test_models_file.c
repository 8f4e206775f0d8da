// The file of --models: values of its sections, and a message with the line for every mistake.
#include "serve/models_file.h"

#include <unistd.h>

#include "app/parsed.h"

#define MODEL "model = " TEST_DATA "/golden/llama/model.gguf\n"

struct world {
    char path[64];
    struct options options;
    struct models_file file;
};

static int setup(void **state) {
    static char *arguments[] = {"--ctx", "100", "--temp", "0.5", "-m", "given"};
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    strcpy(world->path, "/tmp/runnel-test-models-XXXXXX");
    const int fd = mkstemp(world->path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(options_parse(&world->options, COMMAND_SERVE, 6, arguments));
    *state = world;
    return 0;
}

static int teardown(void **state) {
    struct world *world = *state;
    unlink(world->path);
    options_deinit(&world->options);
    free(world);
    return 0;
}

// Reads this text. Returns the message, to be freed; it is "" where the file was taken.
static char *read_text(struct world *world, const char *text) {
    struct caught caught;
    FILE *out = fopen(world->path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, strlen(text), out), strlen(text));
    assert_int_equal(fclose(out), 0);
    catch_begin(&caught, &stderr);
    const bool ok = models_file_read(&world->options, world->path, &world->file);
    catch_end(&caught);
    check(ok == !*caught.text, "'%s' for '%s'", caught.text, text);
    return caught.text;
}

static void expect_refusal(struct world *world, const char *text, const char *part) {
    char *message = read_text(world, text);
    check(strstr(message, part) && strstr(message, world->path), "'%s' does not hold '%s'", message,
          part);
    check(strchr(message, '\n') == message + strlen(message) - 1, "'%s' is not one line", message);
    free(message);
}

CASE_WITH(test_sections_have_values_of_their_own, setup, teardown) {
    struct world *world = *state;
    char *message = read_text(world, "# all\nmax-seqs = 3\n[one]\n" MODEL
                                     "ctx = 64\nalias = eins, ein\nalias = uno\n"
                                     "pooling = last\nkeep = yes\n\n"
                                     "[two] \n " MODEL "max-seqs=5\nidle-seconds = 2.5\n");
    assert_string_equal(message, "");
    const struct models_file *file = &world->file;
    const struct models_section *one = &file->section[0], *two = &file->section[1];
    assert_int_equal(file->n_sections, 2);
    assert_string_equal(one->name, "one");
    assert_int_equal(option_int(&one->options, OPT_CTX), 64);
    assert_int_equal(option_int(&one->options, OPT_MAX_SEQS), 3);
    assert_int_equal(one->options.value[OPT_ALIAS].n_list, 3);
    assert_string_equal(one->options.value[OPT_ALIAS].list[1], "ein");
    assert_string_equal(one->options.value[OPT_ALIAS].list[2], "uno");
    assert_string_equal(option_text(&one->options, OPT_POOLING), "last");
    assert_null(option_text(&two->options, OPT_POOLING));
    assert_true(one->keep && !two->keep && two->idle_s == 2.5);
    // the command line gives the rest, but for the model
    assert_int_equal(option_int(&two->options, OPT_CTX), 100);
    assert_int_equal(option_int(&two->options, OPT_MAX_SEQS), 5);
    assert_true(option_real(&two->options, OPT_TEMPERATURE) == 0.5);
    assert_int_equal(two->options.value[OPT_ALIAS].n_list, 0);
    assert_non_null(strstr(option_text(&two->options, OPT_MODEL), "llama/model.gguf"));
    free(message);
    models_file_free(&world->file);
}

CASE_WITH(test_mistakes_are_named_with_their_line, setup, teardown) {
    struct world *world = *state;
    expect_refusal(world, "", "holds no section");
    expect_refusal(world, "ctx = 5\n", "holds no section");
    expect_refusal(world, "[a\n", ":1: '[a': expected [NAME]");
    expect_refusal(world, "\n[ ]\n", ":2: '': a name has");
    expect_refusal(world, "[\xff]\n", ":1: ");
    expect_refusal(world, "[a]\nmodel\n", ":2: 'model': expected NAME = VALUE");
    expect_refusal(world, "[a]\nmodel = /nowhere.gguf\n", ":2: '/nowhere.gguf' is no file");
    expect_refusal(world, "[a model of no store]\n", ":1: 'a model of no store' is no file");
    expect_refusal(world, "[a]\n" MODEL "modle = x\n", ":3: unknown option 'modle'");
    expect_refusal(world, "[a]\n" MODEL "port = 7\n", ":3: port: is an option of the whole server");
    expect_refusal(world, "[a]\n" MODEL "models = x\n", ":3: models: is an option of the whole");
    expect_refusal(world, "[a]\n" MODEL "ctx = two\n", ":3: ctx: 'two' is not");
    expect_refusal(world, "[a]\n" MODEL "ctx = 1\nctx = 2\n", ":4: ctx: is given on line 3");
    expect_refusal(world, MODEL "[a]\n", ":1: model: belongs to a section");
    expect_refusal(world, "[a]\n" MODEL "keep = maybe\n", ":3: keep: 'maybe' is not yes or no");
    expect_refusal(world, "[a]\nidle-seconds = -1\n", ":2: idle-seconds: '-1' is not");
    expect_refusal(world, "[a]\nidle-seconds = nan\n", ":2: idle-seconds: 'nan' is not");
    // a client that adds ":latest" may mean either
    expect_refusal(world, "[a]\n" MODEL "[a:latest]\n" MODEL,
                   ":3: [a:latest]: another model has this name");
    expect_refusal(world, "[a]\n" MODEL "[a]\n" MODEL, ":3: [a]: another model has this name");
    expect_refusal(world, "[a]\n" MODEL "[b]\n" MODEL "alias = a\n",
                   ":3: [b]: another model has the name a");
}

TEST_PROGRAM(models_file) { return cases_run(NULL, NULL); }
