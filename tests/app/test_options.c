// The option table and its parser. Every row of every command is walked, so a new option is tested
// by its row alone. tests/e2e tests the effect of the values in a process.
#include <inttypes.h>
#include <math.h>

#include "app/parsed.h"

// Calls fn for each option of each command.
typedef void (*row_fn)(enum command_id command, enum option_id id, const struct option_row *row);

static void each_row(row_fn fn) {
    for (int command = 0; command < COMMAND_COUNT; command++) {
        for (int id = 0; id < OPT_COUNT; id++) {
            struct option_row row;
            if (option_row_get((enum command_id)command, (enum option_id)id, &row))
                fn((enum command_id)command, (enum option_id)id, &row);
        }
    }
}

// "--flag=value" alone.
static void parse_one(struct parsed *out, enum command_id command, const char *flag,
                      const char *value) {
    char argument[8192];
    snprintf(argument, sizeof argument, "--%s=%s", flag, value);
    parse(out, command, argument);
}

// ---------------------------------------------------------------- defaults

// The default that help shows is the default that the program uses.
static void default_is_as_shown(enum command_id command, enum option_id id,
                                const struct option_row *row) {
    char text[OPTION_INITIAL_SIZE];
    if (!row->initial.shown || row->initial.words || row->initial.more) return;
    struct parsed open, given;
    parse(&open, command);
    check_accepted(&open);
    assert_false(option_given(&open.options, id));
    parse_one(&given, command, row->flag, option_initial_text(row, text));
    check_accepted(&given);
    const struct option_value *a = &open.options.value[id], *b = &given.options.value[id];
    check(a->integer == b->integer && (float)a->real == (float)b->real && a->flag == b->flag &&
              a->n_list == b->n_list,
          "%s --%s: '%s' is not the default", command_name(command), row->flag, text);
    if (row->initial.text) assert_string_equal(a->text, b->text);
    for (int i = 0; i < a->n_list; i++) assert_string_equal(a->list[i], b->list[i]);
    parsed_free(&open);
    parsed_free(&given);
}

CASE(defaults_are_what_help_shows) { each_row(default_is_as_shown); }

static bool has_type(const struct option_row *row) {
    const struct option_initial *i = &row->initial;
    switch (row->kind) {
    case OPTION_INT:
    case OPTION_SIZE:
    case OPTION_SEED:
        return i->real == 0 && !i->text;
    case OPTION_FLOAT:
        return i->integer == 0 && !i->text;
    case OPTION_FLAG:
        return i->integer == 0 && i->real == 0 && !i->text && !i->words;
    default:
        return i->integer == 0 && i->real == 0;
    }
}

static void default_has_its_type(enum command_id command, enum option_id id,
                                 const struct option_row *row) {
    check(has_type(row), "%s --%s", command_name(command), row->flag);
}

CASE(defaults_have_the_type_of_their_kind) { each_row(default_has_its_type); }

CASE(defaults_are_values) {
    struct parsed p;
    parse(&p, COMMAND_SERVE);
    check_accepted(&p);
    assert_int_equal(option_int(&p.options, OPT_PORT), 8080);
    assert_string_equal(option_text(&p.options, OPT_HOST), "127.0.0.1");
    assert_int_equal(p.options.value[OPT_MAX_BODY].integer, 16 << 20);
    assert_true(option_real(&p.options, OPT_HEADER_TIMEOUT) == 10);
    assert_int_equal(option_int(&p.options, OPT_DRAFT_MAX), RN_DEFAULT_DRAFT);
    assert_null(option_text(&p.options, OPT_MODEL));
    assert_int_equal(option_int(&p.options, OPT_N_GEN), 0); // bench's
    assert_int_equal(p.options.value[OPT_N_GEN].n_list, 0);
    parsed_free(&p);
    parse(&p, COMMAND_BENCH);
    check_accepted(&p);
    assert_int_equal(option_int(&p.options, OPT_BATCH_TOKENS), 512);
    assert_int_equal(p.options.value[OPT_N_GEN].n_list, 1);
    assert_string_equal(p.options.value[OPT_N_GEN].list[0], "128");
    assert_int_equal(option_int(&p.options, OPT_PORT), 0); // serve's
    parsed_free(&p);
}

// ---------------------------------------------------------------- names

static void environment_follows_the_flag(enum command_id command, enum option_id id,
                                         const struct option_row *row) {
    char buffer[OPTION_NAME_SIZE], expected[OPTION_NAME_SIZE] = "RUNNEL_";
    const bool is_exception = (command == COMMAND_BENCH && id == OPT_SPECULATE) ||
                              (command == COMMAND_BENCH_SERVE &&
                               (id == OPT_JSON || id == OPT_PROMPT_IDS || id == OPT_TRACE));
    size_t n = strlen(expected);
    if (is_exception) n += (size_t)sprintf(expected + n, "BENCH_");
    for (const char *c = row->flag; *c; c++)
        expected[n++] = (char)(*c == '-' ? '_' : *c - ('a' - 'A'));
    assert_string_equal(option_environment(row, buffer), expected);
}

CASE(environment_names_follow_from_the_flags) { each_row(environment_follows_the_flag); }

// Of one command, every spelling is one option's.
static void spelling_is_its_own(enum command_id command, enum option_id id,
                                const struct option_row *row) {
    assert_int_equal(option_find(command, row->flag, strlen(row->flag)), id);
    assert_true(strlen(row->flag) < 32 && strlen(row->help) > 4);
    for (int other = 0; row->short_flag && other < OPT_COUNT; other++) {
        struct option_row its;
        if (other == (int)id || !option_row_get(command, (enum option_id)other, &its)) continue;
        check(its.short_flag != row->short_flag, "%s: -%c is --%s and --%s", command_name(command),
              row->short_flag, row->flag, its.flag);
    }
}

CASE(spellings_are_one_options) {
    each_row(spelling_is_its_own);
    assert_int_equal(option_find(COMMAND_RUN, "temp", 4), OPT_TEMPERATURE);
    assert_int_equal(option_find(COMMAND_SERVE, "parallel", 8), OPT_MAX_SEQS);
    assert_int_equal(option_find(COMMAND_RUN, "parallel", 8), -1);
    assert_int_equal(option_find(COMMAND_RUN, "temperatur", 10), -1);
    for (int id = 0; id < OPT_COUNT; id++) {
        const char *alias;
        for (int i = 0; (alias = option_alias((enum option_id)id, i)); i++) {
            const char *next = option_alias((enum option_id)id, i + 1);
            check(!next || strcmp(next, alias) != 0, "%s twice", alias);
            for (int command = 0; command < COMMAND_COUNT; command++) {
                struct option_row row;
                if (!option_row_get((enum command_id)command, (enum option_id)id, &row)) continue;
                const int found = option_find_alias((enum command_id)command, alias, strlen(alias));
                check(found == id, "%s: %s", command_name((enum command_id)command), alias);
                check(alias[1] == '-' || alias[2] ||
                          option_find_short((enum command_id)command, alias[1]) < 0,
                      "%s: %s is a letter already", command_name((enum command_id)command), alias);
            }
        }
    }
}

CASE(one_flag_may_have_another_kind_in_another_command) {
    struct parsed p;
    parse(&p, COMMAND_RUN, "-t", "3", "--speculate", "lookup", "-m", "a");
    check_accepted(&p);
    assert_int_equal(option_int(&p.options, OPT_THREADS), 3);
    assert_string_equal(option_text(&p.options, OPT_SPECULATE), "lookup");
    assert_string_equal(option_text(&p.options, OPT_MODEL), "a");
    parsed_free(&p);
    parse(&p, COMMAND_BENCH, "-t", "3,4", "-t", "5", "--speculate", "-m", "a", "-m", "b");
    check_accepted(&p);
    assert_int_equal(p.options.value[OPT_THREADS].n_list, 2);
    assert_string_equal(p.options.value[OPT_THREADS].list[1], "5");
    assert_true(option_flag(&p.options, OPT_SPECULATE));
    assert_int_equal(p.options.value[OPT_MODEL].n_list, 2);
    parsed_free(&p);
    refused("-t: '3,4' is not a whole number from 1 to 1024", COMMAND_RUN, "-t", "3,4");
    refused("--speculate: 'lookup' is not yes or no", COMMAND_BENCH, "--speculate=lookup");
}

// A device is a number, and for a plan also a name of its table.
CASE(devices_are_numbers_but_for_plans) {
    static const enum command_id commands[] = {COMMAND_RUN, COMMAND_SERVE, COMMAND_EVAL,
                                               COMMAND_BENCH, COMMAND_INSPECT};
    struct parsed p;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        parse(&p, commands[i], "--backend", "auto", "--device", "3");
        check_accepted(&p);
        assert_string_equal(option_text(&p.options, OPT_BACKEND), "auto");
        assert_int_equal(option_int(&p.options, OPT_DEVICE), 3);
        parsed_free(&p);
        refused("--device: '-1' is not a whole number from 0 to 1023", commands[i], "--device",
                "-1");
        refused("--device: 'x' is not a whole number from 0 to 1023", commands[i], "--device=x");
    }
    parse(&p, COMMAND_PLAN, "--device", "h200");
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_DEVICE), "h200");
    parsed_free(&p);
    parse(&p, COMMAND_SERVE, "--draft-backend", "cpu", "--draft-device", "2");
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_DRAFT_BACKEND), "cpu");
    assert_int_equal(option_int(&p.options, OPT_DRAFT_DEVICE), 2);
    parsed_free(&p);
}

// ---------------------------------------------------------------- values

static void range_holds(enum command_id command, enum option_id id, const struct option_row *row) {
    if (row->kind != OPTION_INT && row->kind != OPTION_FLOAT) return;
    const bool whole = row->kind == OPTION_INT;
    const double min = whole ? (double)row->int_min : row->float_min;
    const double max = whole ? (double)row->int_max : row->float_max;
    char value[64], name[64];
    snprintf(name, sizeof name, "--%s: '", row->flag);
    for (int end = 0; end < 2; end++) {
        struct parsed p;
        snprintf(value, sizeof value, "%.9g", end ? max : min);
        if (whole) snprintf(value, sizeof value, "%" PRId64, end ? row->int_max : row->int_min);
        parse_one(&p, command, row->flag, value);
        check_accepted(&p);
        assert_true(option_given(&p.options, id));
        parsed_free(&p);
        snprintf(value, sizeof value, "%.10g", end ? max + 1 : min - 1);
        parse_one(&p, command, row->flag, value);
        check_refused(&p, name);
    }
    static const char *const junk[] = {"",    "x",   "1x",       " 1",     "0x10",   "nan",
                                       "inf", "+1e", "infinity", "1e9999", "--help", "1,5"};
    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
        struct parsed p;
        parse_one(&p, command, row->flag, junk[i]);
        if (!strcmp(junk[i], "--help")) assert_false(p.options.help);
        check_refused(&p, name);
    }
}

CASE(numbers_stay_in_their_ranges) {
    each_row(range_holds);
    refused("--max-tokens: '1.5' is not a whole number from -1 to 2147483647", COMMAND_RUN,
            "--max-tokens=1.5");
    refused("--top-k: '99999999999999999999' is not", COMMAND_RUN, "--top-k=99999999999999999999");
    refused("--temperature: '0x1p-3' is not a number from 0 to 100", COMMAND_RUN,
            "--temperature=0x1p-3");
}

static void choice_holds(enum command_id command, enum option_id id, const struct option_row *row) {
    if (row->kind != OPTION_CHOICE) return;
    char words[128];
    snprintf(words, sizeof words, "%s", row->choices);
    for (char *rest = words, *word; (word = strsep(&rest, "|"));) {
        struct parsed p;
        parse_one(&p, command, row->flag, word);
        check_accepted(&p);
        assert_string_equal(option_text(&p.options, id), word);
        parsed_free(&p);
    }
    struct parsed p;
    char expected[192];
    snprintf(expected, sizeof expected, "--%s: 'mmx' is not one of %s", row->flag, row->choices);
    parse_one(&p, command, row->flag, "mmx");
    check_refused(&p, expected);
}

CASE(choices_are_the_tables) {
    each_row(choice_holds);
    static const char *const names[][2] = {{"q8_0", "int8"}, {"q4_0", "int4"}, {"f16", "f16"}};
    for (int i = 0; i < 3; i++) { // llama.cpp's names and ours
        struct parsed p;
        parse(&p, COMMAND_RUN, "--cache-type-k", (char *)(uintptr_t)names[i][0]);
        check_accepted(&p);
        assert_string_equal(option_text(&p.options, OPT_KV_TYPE), names[i][1]);
        parsed_free(&p);
    }
    refused("--cache-type-k: 'q5_0' is not one of f16|f32|bf16|int8|fp8|int4", COMMAND_RUN,
            "--cache-type-k", "q5_0");
    refused("-ctv: 'f16' differs from 'int8': keys and values have one format", COMMAND_RUN, "-ctk",
            "q8_0", "-ctv", "f16");
    struct parsed p;
    parse(&p, COMMAND_RUN, "-ctk", "q4_0", "-ctv", "q8_0", "-ctk", "q8_0");
    check_refused(&p, "-ctv: 'q8_0' differs from 'int4'");
    parse(&p, COMMAND_RUN, "-ctk", "q8_0", "-ctv", "q8_0", "--color", "off");
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_KV_TYPE), "int8");
    assert_string_equal(option_text(&p.options, OPT_COLOR), "never");
    parsed_free(&p);
    parse(&p, COMMAND_RUN, "--color", "-q"); // a flag elsewhere
    check_accepted(&p);
    assert_string_equal(option_text(&p.options, OPT_COLOR), "always");
    assert_true(option_flag(&p.options, OPT_QUIET));
    parsed_free(&p);
}

static void flag_holds(enum command_id command, enum option_id id, const struct option_row *row) {
    static const char *const words[] = {"no", "off", "false", "0", "yes", "on", "true", "1"};
    if (row->kind != OPTION_FLAG) return;
    for (int i = 0; i < 8; i++) {
        struct parsed p;
        parse_one(&p, command, row->flag, words[i]);
        check_accepted(&p);
        assert_int_equal(option_flag(&p.options, id), i >= 4);
        parsed_free(&p);
    }
    struct parsed p;
    parse_one(&p, command, row->flag, "maybe");
    check_refused(&p, "'maybe' is not yes or no");
}

CASE(flags_are_switched_on_and_off) {
    each_row(flag_holds);
    struct parsed p;
    parse(&p, COMMAND_RUN, "--json", "-q");
    check_accepted(&p);
    assert_true(option_flag(&p.options, OPT_JSON) && option_flag(&p.options, OPT_QUIET));
    assert_false(option_flag(&p.options, OPT_CHAT));
    parsed_free(&p);
}

static void path_holds(enum command_id command, enum option_id id, const struct option_row *row) {
    if (row->kind != OPTION_PATH) return;
    struct parsed p;
    parse_one(&p, command, row->flag, "");
    check_refused(&p, "'' is not a file name");
}

CASE(paths_are_not_empty) {
    each_row(path_holds);
    refused("-m: '' is not a file name", COMMAND_RUN, "-m", "");
    refused("'' is not a file name", COMMAND_INSPECT, "");
}

static void list_holds(enum command_id command, enum option_id id, const struct option_row *row) {
    if (row->kind != OPTION_LIST) return;
    char *argv[2 * 1025 + 3], flag[64], name[96];
    snprintf(flag, sizeof flag, "--%s", row->flag);
    assert_in_range(row->int_max, 1, 1024);
    for (int i = 0; i <= row->int_max; i++) {
        argv[2 * i] = flag;
        argv[2 * i + 1] = (char *)(uintptr_t)(i < row->int_max ? "x" : "last");
    }
    argv[2 * row->int_max] = NULL;
    struct parsed p;
    parse_list(&p, command, argv);
    check_accepted(&p);
    assert_int_equal(p.options.value[id].n_list, row->int_max);
    parsed_free(&p);
    argv[2 * row->int_max] = flag;
    argv[2 * row->int_max + 2] = NULL;
    snprintf(name, sizeof name, "%s: 'last' is one too many", flag);
    parse_list(&p, command, argv);
    check_refused(&p, name);
}

CASE(lists_grow_to_their_limit) {
    each_row(list_holds);
    refused("--stop: text 2, '', is empty", COMMAND_RUN, "--stop", "x", "--stop", "");
    refused("--stop: text 1, 'a?b', is not valid UTF-8", COMMAND_RUN, "--stop",
            "a\xff"
            "b");
    char text[4098];
    memset(text, 'x', sizeof text - 1);
    text[4097] = '\0';
    refused("xxx...', has 4097 bytes; at most 4096 are possible", COMMAND_RUN, "--stop", text);
    struct parsed p;
    parse(&p, COMMAND_RUN, "--stop", text + 1);
    check_accepted(&p);
    parsed_free(&p);
}

CASE(seeds_have_64_bits) {
    struct parsed p;
    parse(&p, COMMAND_RUN, "--seed", "18446744073709551615");
    check_accepted(&p);
    assert_true((uint64_t)p.options.value[OPT_SEED].integer == UINT64_MAX);
    parsed_free(&p);
    static char *const bad[] = {"", "-1", "x", "1x", " 1", "1.5", "18446744073709551616"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused("-s: '", COMMAND_RUN, "-s", bad[i]);
}

CASE(sizes_have_suffixes) {
    static const struct {
        const char *text;
        int64_t value;
        bool pages;
    } good[] = {{"8388608", 8 << 20, false}, {"8m", 8 << 20, false}, {"8M", 8 << 20, false},
                {"8MiB", 8 << 20, false},    {"0.5k", 512, false},   {"1.5G", 3ll << 29, false},
                {"1T", 1ll << 40, false},    {"64p", 64, true}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct parsed p;
        parse_one(&p, COMMAND_RUN, "kv-memory", good[i].text);
        check_accepted(&p);
        assert_true(p.options.value[OPT_KV_MEMORY].integer == good[i].value);
        assert_int_equal(p.options.value[OPT_KV_MEMORY].flag, good[i].pages);
        parsed_free(&p);
    }
    static const char *const bad[] = {"",        "x",           "1x",      "0",   "0p",  "1.5",
                                      "1.5p",    "-1",          "1e5",     "+1",  "G",   "p",
                                      "inf",     "0x10",        " 1",      "2GB", "1Gi", "1kk",
                                      "0.0001K", "4294967296p", "8388608T"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct parsed p;
        parse_one(&p, COMMAND_RUN, "kv-memory", bad[i]);
        check_refused(&p, "is not a size such as 512M, 1.5G or 4096p");
    }
    refused("--max-body: '4p' is not a size", COMMAND_SERVE, "--max-body=4p");
}

// ---------------------------------------------------------------- the command line

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

// ---------------------------------------------------------------- what is generated

// Line breaks and runs of blanks become one blank.
static void flatten(char *text) {
    char *to = text;
    for (const char *c = text; *c; c++) {
        const char shown = *c == '\n' ? ' ' : *c;
        if (shown != ' ' || to == text || to[-1] != ' ') *to++ = shown;
    }
    *to = '\0';
}

// roff's escapes as the characters that they stand for.
static void unescape(char *text) {
    static const char *const escapes[][2] = {{"\\-", "-"},   {"\\e", "\\"}, {"\\(ha", "^"},
                                             {"\\(ti", "~"}, {"\\%", ""},   {"\\&", ""}};
    char *to = text;
    for (const char *c = text; *c;) {
        size_t i = 0;
        while (i < 6 && strncmp(c, escapes[i][0], strlen(escapes[i][0])) != 0) i++;
        if (i == 6) {
            *to++ = *c++;
            continue;
        }
        c += strlen(escapes[i][0]);
        to = stpcpy(to, escapes[i][1]);
    }
    *to = '\0';
}

static char *written(void (*write)(FILE *out, enum command_id command), enum command_id command) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    write(out, command);
    fclose(out);
    return text;
}

static void holds(const char *text, const char *what, enum command_id command, const char *part) {
    check(strstr(text, part), "%s of %s lacks '%s'", what, command_name(command), part);
}

static void row_is_in_help_and_manual(enum command_id command, enum option_id id,
                                      const struct option_row *row) {
    char name[OPTION_NAME_SIZE], initial[OPTION_INITIAL_SIZE], part[256];
    char *help = written(help_command, command), *page = written(man_command, command);
    flatten(help);
    unescape(page);
    option_initial_text(row, initial);
    snprintf(part, sizeof part, "--%s ", row->flag);
    holds(help, "help", command, part);
    snprintf(part, sizeof part, "\n\\fB--%s\\fR", row->flag);
    if (row->short_flag) snprintf(part, sizeof part, ", \\fB--%s\\fR", row->flag);
    holds(page, "manual", command, part);
    snprintf(part, sizeof part, "%s%s%s[%s]", *initial ? "(default: " : "", initial,
             *initial ? ") " : " ", option_environment(row, name));
    holds(help, "help", command, part);
    snprintf(part, sizeof part, "%s%s%sEnvironment: %s.", *initial ? "Default: " : "", initial,
             *initial ? ".\n" : "", name[0] ? option_environment(row, name) : "");
    holds(page, "manual", command, part);
    holds(page, "manual", command, row->help);
    free(help);
    free(page);
}

CASE(help_and_manual_show_every_row_with_its_default) {
    each_row(row_is_in_help_and_manual);
    char *help = written(help_command, COMMAND_SERVE);
    flatten(help);
    holds(help, "help", COMMAND_SERVE, "(default: 8080) [RUNNEL_PORT]");
    holds(help, "help", COMMAND_SERVE, "(default: 16M) [RUNNEL_MAX_BODY]");
    holds(help, "help", COMMAND_SERVE, "(default: the model's, else 0.8) [RUNNEL_TEMPERATURE]");
    free(help);
    help = written(help_command, COMMAND_BENCH);
    flatten(help);
    holds(help, "help", COMMAND_BENCH, "(default: 5; batch: 1; speculate: 9; tour: 5)");
    free(help);
}

static void aliases_are_in_help_and_manual(enum command_id command, enum option_id id,
                                           const struct option_row *row) {
    const char *alias;
    char part[64];
    if (!option_alias(id, 0)) return;
    char *help = written(help_command, command), *page = written(man_command, command);
    flatten(help);
    unescape(page);
    for (int i = 0; (alias = option_alias(id, i)); i++) {
        snprintf(part, sizeof part, "%s%s", i ? ", " : "(also ", alias);
        holds(help, "help", command, part);
        snprintf(part, sizeof part, "%s\\fB%s\\fR", i ? ", " : "Also ", alias);
        holds(page, "manual", command, part);
    }
    free(help);
    free(page);
}

CASE(help_and_manual_show_other_spellings) { each_row(aliases_are_in_help_and_manual); }

CASE(manuals_name_chat_commands_routes_and_options_of_other_programs) {
    char *page = written(man_command, COMMAND_RUN);
    holds(page, "manual", COMMAND_RUN, ".SH CONVERSATION");
    holds(page, "manual", COMMAND_RUN, "\\fB/help\\fR");
    holds(page, "manual", COMMAND_RUN, "\\fB\\-ub\\fR, \\fB\\-\\-ubatch\\-size\\fR\nrefused: ");
    free(page);
    page = written(man_command, COMMAND_SERVE);
    holds(page, "manual", COMMAND_SERVE, "POST /v1/messages\n");
    assert_null(strstr(page, ".SH CONVERSATION"));
    free(page);
}

// Each option is listed once: the most used first, in commands with many options.
CASE(help_is_grouped) {
    static const struct {
        enum command_id command;
        const char *first[10];
    } cases[] = {{COMMAND_RUN,
                  {"model", "prompt", "file", "chat", "system", "max-tokens", "temperature", "seed",
                   "ctx", "threads"}},
                 {COMMAND_SERVE, {"model", "host", "port"}},
                 {COMMAND_EVAL, {"model", "loss"}},
                 {COMMAND_BENCH, {"model", "synthetic"}},
                 {COMMAND_BENCH_SERVE, {"model", "url"}},
                 {COMMAND_PLAN, {"model", "device"}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *help = written(help_command, cases[i].command);
        const char *end = strstr(strstr(help, "\nmost used:\n") + 2, "\n\n");
        const char *at = strstr(help, "\nmost used:\n");
        int n = 0;
        for (const char *c = at; (c = strstr(c + 1, "\n  ")) && c < end;)
            n += c[3] == '-' || !strncmp(c + 3, "    --", 6);
        check(n == 10, "%s: %d", command_name(cases[i].command), n);
        for (int k = 0; k < 10 && cases[i].first[k]; k++) {
            char part[40];
            snprintf(part, sizeof part, "--%s ", cases[i].first[k]);
            at = strstr(at, part);
            check(at && at < end, "%s: %s", command_name(cases[i].command), part);
        }
        const char *model = strstr(help, "\n  -m, --model ");
        check(model && !strstr(model + 1, "\n  -m, --model "), "%s: listed twice",
              command_name(cases[i].command));
        free(help);
    }
    char *help = written(help_command, COMMAND_SERVE);
    const char *server = strstr(help, "\nserver:\n"),
               *limits = strstr(help, "\nlimits and timeouts:\n");
    assert_true(server && limits && server < limits);
    assert_true(strstr(help, "--tls-cert FILE") > server && strstr(help, "--max-body") > limits);
    assert_null(strstr(help, "\nshape of the answer:\n")); // run's
    free(help);
    help = written(help_command, COMMAND_TOKENIZE); // few options are one list
    assert_non_null(strstr(help, "\noptions:\n"));
    assert_null(strstr(help, "\nmost used:\n"));
    free(help);
}

// Splits at blanks; quotes hold them.
static int words_split(char *line, char **argv) {
    int n = 0;
    while (*line) {
        const bool quoted = *line == '"';
        argv[n++] = line += quoted;
        line += strcspn(line, quoted ? "\"" : " ");
        if (*line) *line++ = '\0';
        line += strspn(line, " ");
    }
    argv[n] = NULL;
    return n;
}

CASE(examples_are_command_lines) {
    const struct example *example;
    for (int i = 0; (example = example_at(i)); i++) {
        char line[128], name[64], *argv[24];
        snprintf(line, sizeof line, "%s", example->line);
        snprintf(name, sizeof name, "runnel %s ", command_name(example->command));
        check(!strncmp(line, name, strlen(name)), "%s", example->line);
        words_split(line + strlen(name), argv);
        struct parsed p;
        parse_list(&p, example->command, argv);
        check(p.ok, "%s: %s", example->line, p.errors.text);
        parsed_free(&p);
        char *help = written(help_command, example->command);
        holds(help, "help", example->command, example->line);
        free(help);
    }
}

CASE(help_fits_100_columns) {
    for (int command = 0; command < COMMAND_COUNT; command++) {
        char *help = written(help_command, (enum command_id)command);
        for (char *rest = help, *line; (line = strsep(&rest, "\n"));)
            check(strlen(line) <= 100, "%s: %s", command_name((enum command_id)command), line);
        free(help);
    }
}

CASE(completions_name_every_option) {
    static const char *const shells[] = {"bash", "zsh", "fish"};
    for (int i = 0; i < 3; i++) {
        const struct options options = {.command = COMMAND_COMPLETIONS, .positional = shells[i]};
        struct caught caught;
        catch_begin(&caught, &stdout);
        const int code = command_completions(&options);
        catch_end(&caught);
        assert_int_equal(code, APP_OK);
        for (int id = 0; id < OPT_COUNT; id++) {
            for (int command = 0; command < COMMAND_COUNT; command++) {
                struct option_row row;
                if (!option_row_get((enum command_id)command, (enum option_id)id, &row)) continue;
                char part[80];
                snprintf(part, sizeof part, "%s%s", i == 2 ? "-l " : "--", row.flag);
                check(strstr(caught.text, part), "%s lacks '%s'", shells[i], part);
            }
        }
        free(caught.text);
    }
}

TEST_PROGRAM(options) { return cases_run(NULL, NULL); }
