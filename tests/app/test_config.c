// Options from a file: the values that it sets, the sources that override it, and a message with
// the line for every mistake.
#include <unistd.h>

#include "app/parsed.h"

// A file with these bytes; the name is good until the next call.
static const char *file_of(const char *bytes, size_t len) {
    static char path[] = "/tmp/runnel-test-config-XXXXXX";
    static bool is_named;
    if (!is_named) {
        const int fd = mkstemp(path);
        assert_true(fd >= 0);
        close(fd);
        is_named = true;
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    return path;
}

static char *argument_of(const char *text) {
    static char argument[128];
    snprintf(argument, sizeof argument, "--config=%s", file_of(text, strlen(text)));
    return argument;
}

static int remove_file(void **state) { return unlink(file_of("", 0)); }

// ---------------------------------------------------------------- values

static void options_come_from_the_file(void **state) {
    struct parsed p;
    char name[OPTION_NAME_SIZE];
    parse(&p, COMMAND_RUN,
          argument_of("# comment\n   # and another\nprompt = Once upon a time\n\nmax-tokens=4\n"
                      "  temp =\t0.5  \nchunk = 7\nport = 8081\njson = yes"));
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_PROMPT), "Once upon a time");
    assert_int_equal(option_int(&p.options, OPT_MAX_TOKENS), 4);
    assert_true(option_real(&p.options, OPT_TEMPERATURE) == 0.5);
    assert_true(option_flag(&p.options, OPT_JSON));
    assert_false(option_given(&p.options, OPT_PORT)); // another command's
    assert_false(option_given(&p.options, OPT_CHUNK));
    assert_non_null(strstr(option_name(&p.options, OPT_MAX_TOKENS, name), ":5: max-tokens"));
    parsed_free(&p);
}

static void lines_may_end_in_either_way(void **state) {
    struct parsed p;
    parse(&p, COMMAND_RUN, argument_of("prompt = Once # upon = a time\r\nmax-tokens = 4\r"));
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_PROMPT), "Once # upon = a time");
    assert_int_equal(option_int(&p.options, OPT_MAX_TOKENS), 4);
    parsed_free(&p);
    parse(&p, COMMAND_RUN, argument_of(""));
    check_accepted(&p);
    assert_false(option_given(&p.options, OPT_PROMPT));
    parsed_free(&p);
}

static void a_list_is_built_by_repetition(void **state) {
    struct parsed p;
    parse(&p, COMMAND_RUN, argument_of("stop = .\nstop = zzz\n"));
    check_accepted(&p);
    assert_int_equal(p.options.value[OPT_STOP].n_list, 2);
    assert_string_equal(p.options.value[OPT_STOP].list[1], "zzz");
    parsed_free(&p);
    parse(&p, COMMAND_BENCH, argument_of("n-gen = 1\n")); // instead of its default
    check_accepted(&p);
    assert_int_equal(p.options.value[OPT_N_GEN].n_list, 1);
    assert_string_equal(p.options.value[OPT_N_GEN].list[0], "1");
    parsed_free(&p);
}

static void command_line_and_environment_beat_the_file(void **state) {
    struct parsed p;
    char *config = argument_of("max-tokens = 4\nstop = .\njson = yes\nthreads = 2\n");
    setenv("RUNNEL_MAX_TOKENS", "6", 1);
    parse(&p, COMMAND_RUN, config);
    check_accepted(&p);
    assert_int_equal(option_int(&p.options, OPT_MAX_TOKENS), 6);
    assert_int_equal(option_int(&p.options, OPT_THREADS), 2);
    parsed_free(&p);
    parse(&p, COMMAND_RUN, config, "-n", "8", "--stop", "q", "--json=no");
    unsetenv("RUNNEL_MAX_TOKENS");
    check_accepted(&p);
    assert_int_equal(option_int(&p.options, OPT_MAX_TOKENS), 8);
    assert_int_equal(p.options.value[OPT_STOP].n_list, 1);
    assert_string_equal(p.options.value[OPT_STOP].list[0], "q");
    assert_false(option_flag(&p.options, OPT_JSON));
    parsed_free(&p);
}

static void a_variable_may_name_the_file(void **state) {
    struct parsed p;
    setenv("RUNNEL_CONFIG", file_of("threads = 3\n", 12), 1);
    parse(&p, COMMAND_RUN);
    unsetenv("RUNNEL_CONFIG");
    check_accepted(&p);
    assert_int_equal(option_int(&p.options, OPT_THREADS), 3);
    parsed_free(&p);
}

// ---------------------------------------------------------------- mistakes

static void mistakes_are_named_with_their_line(void **state) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"max-tokens = many\n", ":1: max-tokens: 'many' is not a whole number"},
        {"\n# x\ntemperature = 101\n", ":3: temperature: '101' is not a number from 0 to 100"},
        {"\nisa=mmx", ":2: isa: 'mmx' is not one of"},
        {"tempature = 1\n", ":1: unknown option 'tempature'; did you mean 'temperature'?"},
        {"xyzzy = 1\n", ":1: unknown option 'xyzzy'"},
        {"--seed = 1\n", ":1: unknown option '--seed'"},
        {"threads = 1\nthreads = 1\n", ":2: threads: is given on line 1 already"},
        {"max-tokens =\n", ":1: max-tokens: has no value"},
        {"max-tokens\n", ":1: 'max-tokens': expected NAME = VALUE"},
        {"max-tokens 4\n", ":1: 'max-tokens 4': expected NAME = VALUE"},
        {"config = other.conf\n", ":1: config: cannot be given in such a file"},
        {"json = maybe\n", ":1: json: 'maybe' is not yes or no"},
        {"stop=1\nstop=2\nstop=3\nstop=4\nstop=5\nstop=6\nstop=7\nstop=8\nstop=9\nstop=10\n"
         "stop=11\nstop=12\nstop=13\nstop=14\nstop=15\nstop=16\nstop=q",
         ":17: stop: 'q' is one too many"},
        {"= 3\n", ":1: unknown option ''"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].message, COMMAND_RUN, argument_of(cases[i].text));
}

static void a_value_is_checked_even_where_it_is_beaten(void **state) {
    refused(":1: threads: '0' is not a whole number from 1 to 1024", COMMAND_RUN,
            argument_of("threads = 0\n"), "--threads", "4");
}

static void files_that_are_no_text_are_refused(void **state) {
    char argument[128];
    snprintf(argument, sizeof argument, "--config=%s", file_of("max-tokens = 1\n\0\n", 17));
    refused("holds a NUL byte", COMMAND_RUN, argument);
    refused("none.conf: No such file", COMMAND_RUN, "--config=/nonexistent/none.conf");
    refused("--config: '' is not a file name", COMMAND_RUN, "--config=");
    char *large = malloc(1100000);
    memset(large, '#', 1100000);
    snprintf(argument, sizeof argument, "--config=%s", file_of(large, 1100000));
    refused("is longer than the limit of 1 MiB", COMMAND_RUN, argument);
    free(large);
}

TEST_PROGRAM(config) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_come_from_the_file),
        cmocka_unit_test(lines_may_end_in_either_way),
        cmocka_unit_test(a_list_is_built_by_repetition),
        cmocka_unit_test(command_line_and_environment_beat_the_file),
        cmocka_unit_test(a_variable_may_name_the_file),
        cmocka_unit_test(mistakes_are_named_with_their_line),
        cmocka_unit_test(a_value_is_checked_even_where_it_is_beaten),
        cmocka_unit_test(files_that_are_no_text_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, remove_file);
}
