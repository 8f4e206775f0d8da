// The option table: names, defaults and values. Every row of every command is walked, so a new
// option is tested by its row alone. tests/e2e tests the effect of the values in a process.
#include <inttypes.h>
#include <math.h>

#include "app/rows.h"

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
    if (id == OPT_MODELS) strcpy(expected + n, "_FILE"); // RUNNEL_MODELS is a search path
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

CASE(values_of_some_lists_have_several_items) {
    struct parsed p;
    parse(&p, COMMAND_SERVE, "--alias", "one, two ,three", "-a", "four");
    check_accepted(&p);
    static const char *const names[] = {"one", "two", "three", "four"};
    assert_int_equal(p.options.value[OPT_ALIAS].n_list, 4);
    for (int i = 0; i < 4; i++) assert_string_equal(p.options.value[OPT_ALIAS].list[i], names[i]);
    parsed_free(&p);
    refused("--alias: text 2, '', is empty", COMMAND_SERVE, "--alias", "one, ");
    parse(&p, COMMAND_SERVE, "--cors-origin", "a,b"); // others keep their commas
    check_accepted(&p);
    assert_int_equal(p.options.value[OPT_CORS_ORIGIN].n_list, 1);
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

TEST_PROGRAM(options) { return cases_run(NULL, NULL); }
