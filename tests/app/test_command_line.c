// The command line and the environment: what is taken, which message names a mistake, and which of
// two values is used.
#include "app/parsed.h"

CASE(of_an_option_given_twice_the_last_is_used) {
    struct parsed p;
    parse(&p, COMMAND_RUN, "--seed", "3", "-n5", "-s", "4", "--max-tokens=6");
    check_accepted(&p);
    assert_int_equal(option_int(&p.options, OPT_SEED), 4);
    assert_int_equal(option_int(&p.options, OPT_MAX_TOKENS), 6);
    parsed_free(&p);
}

CASE(unknown_options_are_refused_with_a_guess) {
    refused("--tempature; did you mean --temperature?", COMMAND_RUN, "--tempature", "1");
    refused("--max; did you mean --max-tokens?", COMMAND_RUN, "--max", "3");
    refused("--ctx-siz; did you mean --ctx-size?", COMMAND_RUN, "--ctx-siz", "3");
    // no guess that asks for the opposite, or that is near only because both are short
    refused("--enable-prefix-cache; see 'runnel serve --help'", COMMAND_SERVE,
            "--enable-prefix-cache");
    refused("--disable-log; see 'runnel serve --help'", COMMAND_SERVE, "--disable-log");
    refused("--kee; see 'runnel run --help'", COMMAND_RUN, "--kee", "5");
    refused("unknown option -Z", COMMAND_RUN, "-Z");
    refused("-p=hi: write -p hi or --prompt=hi", COMMAND_RUN, "-p=hi");
    refused("-q=no: write -q or --quiet=no", COMMAND_RUN, "-q=no");
    refused("--seed needs a value: N", COMMAND_RUN, "--seed");
    // a value cannot break the line or drive the terminal
    refused("--seed: '?[31m?x'", COMMAND_RUN, "--seed", "\033[31m\nx");
}

CASE(options_of_other_commands_are_named) {
    refused("--jsonl is an option of tokenize and detokenize, not of run", COMMAND_RUN, "--jsonl");
    refused("--port is an option of serve, not of run", COMMAND_RUN, "--port=1");
    refused("--api-key is an option of serve, explain and bench serve, not of eval", COMMAND_EVAL,
            "--api-key", "x");
    refused("-np is an option of serve and plan, not of run", COMMAND_RUN, "-np", "4");
    refused("--num-prompts is an option of bench serve, not of bench", COMMAND_BENCH,
            "--num-prompts", "4");
}

// A word of several letters is never a letter with a value.
CASE(letters_take_values_that_are_no_words) {
    struct parsed p;
    parse(&p, COMMAND_RUN, "-n5", "-n-1", "-t2", "-mmodel.gguf", "-pOnce upon");
    check_accepted(&p);
    assert_int_equal(option_int(&p.options, OPT_MAX_TOKENS), -1);
    assert_int_equal(option_int(&p.options, OPT_THREADS), 2);
    assert_string_equal(option_text(&p.options, OPT_MODEL), "model.gguf");
    assert_string_equal(option_text(&p.options, OPT_PROMPT), "Once upon");
    parsed_free(&p);
    parse(&p, COMMAND_BENCH, "-p1,2");
    check_accepted(&p);
    assert_string_equal(p.options.value[OPT_N_PROMPT].list[0], "1,2");
    parsed_free(&p);
    refused("unknown option -temp; did you mean --temp?", COMMAND_RUN, "-temp", "1");
    refused("unknown option -model; did you mean --model?", COMMAND_RUN, "-model", "x");
    refused("unknown option -messages; did you mean --messages?", COMMAND_RUN, "-messages", "x");
    refused("unknown option -nthreads; did you mean --threads?", COMMAND_RUN, "-nthreads", "3");
    refused("unknown option -nx; as a value of -n: -n x", COMMAND_RUN, "-nx");
    refused("unknown option -fxyz; as a value of -f: -f xyz", COMMAND_RUN, "-fxyz");
    refused("unknown option -qx", COMMAND_RUN, "-qx");
}

CASE(arguments_without_a_flag_are_options) {
    struct parsed p;
    parse(&p, COMMAND_INSPECT, "--json", "--", "--model");
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_MODEL), "--model");
    parsed_free(&p);
    parse(&p, COMMAND_RUN, "a.gguf", "-n", "3", "Once upon");
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_MODEL), "a.gguf");
    assert_string_equal(option_text(&p.options, OPT_PROMPT), "Once upon");
    parsed_free(&p);
    parse(&p, COMMAND_RUN, "hello", "-m", "a.gguf"); // the model is given, so it is the prompt
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_PROMPT), "hello");
    parsed_free(&p);
    setenv("RUNNEL_MODEL", "other", 1); // the command line is first
    parse(&p, COMMAND_SERVE, "a.gguf");
    unsetenv("RUNNEL_MODEL");
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_MODEL), "a.gguf");
    parsed_free(&p);
    parse(&p, COMMAND_BENCH, "a.gguf", "-m", "b", "c");
    check_accepted(&p);
    assert_int_equal(p.options.value[OPT_MODEL].n_list, 3);
    parsed_free(&p);
}

CASE(eval_takes_a_text_and_may_take_a_model) {
    static const struct {
        const char *argv[4], *model, *text;
    } cases[] = {{{"text"}, NULL, "text"},
                 {{"a", "text"}, "a", "text"},
                 {{"text", "-m", "a"}, "a", "text"},
                 {{"a", "--loss", "text"}, "a", "text"},
                 {{"a.gguf"}, "a.gguf", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct parsed p;
        parse_list(&p, COMMAND_EVAL, (char **)(uintptr_t)cases[i].argv);
        check_accepted(&p);
        const char *model = option_text(&p.options, OPT_MODEL),
                   *text = option_text(&p.options, OPT_LOSS);
        check(!model == !cases[i].model && !text == !cases[i].text, "case %zu", i);
        if (model) assert_string_equal(model, cases[i].model);
        if (text) assert_string_equal(text, cases[i].text);
        parsed_free(&p);
    }
}

CASE(arguments_that_cannot_be_meant_are_named) {
    refused("'Tell me a joke' is not a file; the first argument is the model", COMMAND_RUN,
            "Tell me a joke");
    refused("'b.gguf' would be the prompt, because the model is given already", COMMAND_RUN, "-m",
            "a.gguf", "b.gguf");
    refused("one argument too many: 'hi'; --file gives the prompt", COMMAND_RUN, "a", "hi", "-f",
            "x");
    refused("one argument too many: 'c'", COMMAND_RUN, "a", "b", "c");
    refused("one argument too many: 'c'", COMMAND_RUN, "-m", "a", "-p", "b", "c");
    refused("one argument too many: 'b'", COMMAND_INSPECT, "a", "b");
    refused("--model and 'b' exclude each other", COMMAND_SERVE, "-m", "a", "b");
    refused("'' is not a file name", COMMAND_SERVE, "");
    refused("'' is not a file name", COMMAND_EVAL, "a", "");
    refused("unexpected argument 'a'", COMMAND_VERSION, "a");
}

CASE(help_is_seen_where_a_flag_may_be) {
    static char *const argv[][4] = {{"--seed", "x", "--help"},
                                    {"--help", "--seed", "x"},
                                    {"--nonsense", "-h"},
                                    {"a", "-h"}};
    struct parsed p;
    for (size_t i = 0; i < sizeof argv / sizeof *argv; i++) {
        parse_list(&p, COMMAND_RUN, (char **)(uintptr_t)argv[i]);
        check_accepted(&p);
        assert_true(p.options.help);
        parsed_free(&p);
    }
    parse(&p, COMMAND_RUN, "-p", "--help");
    check_accepted(&p);
    assert_false(p.options.help);
    assert_string_equal(option_text(&p.options, OPT_PROMPT), "--help");
    parsed_free(&p);
}

// As llama.cpp reads them; an unknown escape stays.
CASE(escapes_are_read_when_asked_for) {
    struct parsed p;
    parse(&p, COMMAND_RUN, "-p", "a\\nb", "--stop", "\\n");
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_PROMPT), "a\\nb");
    parsed_free(&p);
    parse(&p, COMMAND_RUN, "-e", "-p", "a\\nb\\t\\\\n\\q\\x41\\x4\\x00\\'\\\"\\r\\", "--stop",
          "\\n\\n", "--stop", "x", "--system", "\\xc3\\xA9");
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_PROMPT), "a\nb\t\\n\\q"
                                                             "A\\x4\\x00'\"\r\\");
    assert_string_equal(option_text(&p.options, OPT_SYSTEM), "é");
    assert_int_equal(p.options.value[OPT_STOP].n_list, 2);
    assert_string_equal(p.options.value[OPT_STOP].list[0], "\n\n");
    assert_string_equal(p.options.value[OPT_STOP].list[1], "x");
    parsed_free(&p);
    parse(&p, COMMAND_TOKENIZE, "-e", "--no-escape", "-p", "\\n");
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_PROMPT), "\\n");
    parsed_free(&p);
}

// ---------------------------------------------------------------- the environment

// Parses with one variable.
static void parse_with(struct parsed *out, const char *name, const char *value,
                       enum command_id command, char *flag, char *text) {
    setenv(name, value, 1);
    if (flag) {
        parse(out, command, flag, text);
    } else {
        parse(out, command);
    }
    unsetenv(name);
}

CASE(the_command_line_beats_the_environment) {
    struct parsed p;
    char name[OPTION_NAME_SIZE];
    parse_with(&p, "RUNNEL_SEED", "7", COMMAND_RUN, NULL, NULL);
    check_accepted(&p);
    assert_int_equal(option_int(&p.options, OPT_SEED), 7);
    assert_string_equal(option_name(&p.options, OPT_SEED, name), "RUNNEL_SEED");
    parsed_free(&p);
    parse_with(&p, "RUNNEL_SEED", "7", COMMAND_RUN, "--seed", "8");
    check_accepted(&p);
    assert_int_equal(option_int(&p.options, OPT_SEED), 8);
    assert_string_equal(option_name(&p.options, OPT_SEED, name), "--seed");
    parsed_free(&p);
    parse_with(&p, "RUNNEL_STOP", "a\nb", COMMAND_RUN, "--stop", "c");
    check_accepted(&p);
    assert_int_equal(p.options.value[OPT_STOP].n_list, 1);
    assert_string_equal(p.options.value[OPT_STOP].list[0], "c");
    parsed_free(&p);
}

CASE(variables_are_checked_as_flags_are) {
    struct parsed p;
    parse_with(&p, "RUNNEL_TEMPERATURE", "hot", COMMAND_RUN, NULL, NULL);
    check_refused(&p, "RUNNEL_TEMPERATURE: 'hot' is not a number from 0 to 100");
    parse_with(&p, "RUNNEL_KV_TYPE", "q8_0", COMMAND_RUN, NULL, NULL);
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_KV_TYPE), "int8");
    parsed_free(&p);
    parse_with(&p, "RUNNEL_STOP", "a\n\nb", COMMAND_RUN, NULL, NULL);
    check_accepted(&p);
    assert_int_equal(p.options.value[OPT_STOP].n_list, 2);
    parsed_free(&p);
    parse_with(&p, "RUNNEL_STOP", "ok\n\xff", COMMAND_RUN, NULL, NULL);
    check_refused(&p, "RUNNEL_STOP: text 2, '?', is not valid UTF-8");
    parse_with(&p, "RUNNEL_PORT", "x", COMMAND_RUN, NULL, NULL); // serve's
    check_accepted(&p);
    parsed_free(&p);
}

CASE(bench_speculates_by_a_variable_of_its_own) {
    struct parsed p;
    parse_with(&p, "RUNNEL_SPECULATE", "lookup", COMMAND_BENCH, NULL, NULL);
    check_accepted(&p);
    assert_false(option_flag(&p.options, OPT_SPECULATE));
    parsed_free(&p);
    parse_with(&p, "RUNNEL_BENCH_SPECULATE", "yes", COMMAND_BENCH, NULL, NULL);
    check_accepted(&p);
    assert_true(option_flag(&p.options, OPT_SPECULATE));
    parsed_free(&p);
}

// A server that starts without the keys that someone meant to give would be open.
CASE(an_empty_variable_is_unset_but_for_keys) {
    struct parsed p;
    parse_with(&p, "RUNNEL_STOP", "", COMMAND_RUN, NULL, NULL);
    check_accepted(&p);
    assert_false(option_given(&p.options, OPT_STOP));
    parsed_free(&p);
    static const char *const none[] = {"", "\n", "\n\n"};
    for (int i = 0; i < 3; i++) {
        parse_with(&p, "RUNNEL_API_KEY", none[i], COMMAND_SERVE, NULL, NULL);
        check_refused(&p, "RUNNEL_API_KEY: text 1, '', is empty");
    }
    parse_with(&p, "RUNNEL_API_KEY_FILE", "", COMMAND_SERVE, NULL, NULL);
    check_refused(&p, "RUNNEL_API_KEY_FILE: '' is not a file name");
}

CASE(variables_that_nothing_reads_are_named) {
    static const char *const cases[][2] = {
        {"RUNNEL_MAX_TOKEN", "; did you mean RUNNEL_MAX_TOKENS?"},
        {"RUNNEL_N_PREDICT", "; did you mean RUNNEL_MAX_TOKENS?"},
        {"RUNNEL_TEMP", "; did you mean RUNNEL_TEMPERATURE?"},
        {"RUNNEL_XYZZY", ""},
        {"RUNNEL_", ""},
    };
    static const char *const read[] = {"RUNNEL_MODELS",       "RUNNEL_PORT",
                                       "RUNNEL_BENCH_JSON",   "RUNNEL_LIBRARY",
                                       "RUNNEL_SERVICE_HOST", "RUNNEL_PORT_80_TCP"};
    struct parsed p;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[128];
        snprintf(expected, sizeof expected, "runnel: warning: unknown variable %s%s\n", cases[i][0],
                 cases[i][1]);
        parse_with(&p, cases[i][0], "2", COMMAND_RUN, NULL, NULL);
        check_accepted(&p);
        assert_string_equal(p.errors.text, expected);
        assert_false(option_given(&p.options, OPT_MAX_TOKENS));
        parsed_free(&p);
        parse_with(&p, cases[i][0], "2", COMMAND_RUN, "-n", "3");
        assert_string_equal(p.errors.text, expected);
        parsed_free(&p);
    }
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        parse_with(&p, read[i], "2", COMMAND_RUN, NULL, NULL);
        check_accepted(&p);
        assert_string_equal(p.errors.text, "");
        parsed_free(&p);
    }
    setenv("RUNNEL_MAX_TOKEN", "2", 1);
    parse(&p, COMMAND_RUN, "-q");
    assert_string_equal(p.errors.text, "");
    parsed_free(&p);
    setenv("RUNNEL_MAX_TOKEN", "", 1);
    parse(&p, COMMAND_RUN);
    assert_string_equal(p.errors.text, "");
    parsed_free(&p);
    unsetenv("RUNNEL_MAX_TOKEN");
}

TEST_PROGRAM(command_line) { return cases_run(NULL, NULL); }
