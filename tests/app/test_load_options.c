// The options of `runnel bench serve` as a configuration, and bad ones refused by name.
#include "app/parsed.h"

#include <limits.h>

#include "load/load.h"

// The configuration of a command line; its message where it is refused.
static int configure(struct load_config *out, char message[1024], char **argv) {
    struct parsed parsed;
    struct caught caught;
    parse_list(&parsed, COMMAND_BENCH_SERVE, argv);
    check_accepted(&parsed);
    catch_begin(&caught, &stderr);
    const int code = load_config_init(&parsed.options, out);
    snprintf(message, 1024, "%s", catch_end(&caught));
    free(caught.text);
    options_deinit(&parsed.options);
    free(parsed.errors.text);
    return code;
}
#define ARGS(...) ((char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

CASE(the_defaults_are_a_closed_load_on_the_own_server) {
    struct load_config c;
    char message[1024];
    check(configure(&c, message, ARGS()) == APP_OK, "%s", message);
    assert_null(c.url);
    assert_true(c.chat && !c.open && !c.ramp && c.poisson && !c.slo.any);
    assert_int_equal(c.n_levels, 1);
    assert_int_equal(c.level[0], 8);
    assert_int_equal(c.requests, 100);
    assert_int_equal(c.input.kind, DIST_FIXED);
    check_near(c.input.a, 256, 0);
    check_near(c.timeout_s, 600, 0);
    assert_int_equal(c.turns, 1);
    load_config_deinit(&c);
}

CASE(lists_and_bounds_are_read) {
    struct load_config c;
    char message[1024];
    check(configure(&c, message,
                    ARGS("--concurrency", "1,2", "--concurrency", "4", "--goodput",
                         "ttft:500 tpot:50.5", "--goodput", "e2el:9", "--extra",
                         "{\"temperature\": 0, \"a\": [1]}", "--duration", "2.5",
                         "--prompt-ids")) == APP_OK,
          "%s", message);
    assert_int_equal(c.n_levels, 3);
    assert_int_equal(c.level[2], 4);
    check_near(c.slo.ttft_ms, 500, 0);
    check_near(c.slo.tpot_ms, 50.5, 0);
    check_near(c.slo.e2el_ms, 9, 0);
    assert_true(c.slo.any);
    assert_string_equal(c.extra, ",\"temperature\":0,\"a\":[1]");
    check_near(c.duration_s, 2.5, 0);
    assert_int_equal(c.requests, 100000000); // the duration is the only bound
    assert_false(c.chat);
    load_config_deinit(&c);
    check(configure(&c, message,
                    ARGS("--rate", "0.5,20", "--concurrency", "64", "--extra", "{}")) == APP_OK,
          "%s", message);
    assert_true(c.open);
    assert_int_equal(c.n_levels, 2);
    check_near(c.rate[1], 20, 0);
    assert_int_equal(c.most_at_once, 64);
    assert_null(c.extra);
    load_config_deinit(&c);
    check(configure(&c, message, ARGS("--compare", "http://a", "http://b")) == APP_OK, "%s",
          message);
    assert_string_equal(c.side[1], "http://b");
    load_config_deinit(&c);
    // sides that are options of the own server
    check(configure(&c, message,
                    ARGS("--compare", "--speculate off", "--no-pin", "--requests", "5")) == APP_OK,
          "%s", message);
    assert_string_equal(c.side[0], "--speculate off");
    assert_string_equal(c.side[1], "--no-pin");
    assert_int_equal(c.requests, 5);
    load_config_deinit(&c);
    // a blank makes it a side, though this command has -m as well
    check(configure(&c, message, ARGS("--compare", "-m a.gguf", "-m b.gguf")) == APP_OK, "%s",
          message);
    assert_string_equal(c.side[1], "-m b.gguf");
    load_config_deinit(&c);
}

CASE(bad_values_are_refused_by_name) {
    static const struct {
        char *argv[6];
        const char *message;
    } bad[] = {
        {{"--concurrency", "0"}, "--concurrency: '0' is not a whole number from 1 to 65536"},
        {{"--concurrency", "2,x"}, "--concurrency: 'x' is not"},
        {{"--concurrency", ","}, "--concurrency: the list is empty"},
        {{"--rate", "0"}, "--rate: '0' is not a rate"},
        {{"--rate", "1e3"}, "--rate: '1e3' is not a rate"},
        {{"--input-tokens", "many"}, "--input-tokens: 'many' is not a length"},
        {{"--output-tokens", "9-3"}, "--output-tokens: '9-3' is not a length"},
        {{"--goodput", "itl:5"}, "--goodput: 'itl:5' is not ttft:MS, tpot:MS or e2el:MS"},
        {{"--goodput", "ttft:0"}, "--goodput: 'ttft:0' is not"},
        {{"--goodput", "ttft:11111111111111111111111111111111"}, "--goodput: 'ttft:111"},
        {{"--extra", "[1]"}, "--extra: '[1]' is not a JSON object"},
        {{"--extra", "{\"a\":1,\"a\":2}"}, "--extra: '{\"a\":1,\"a\":2}' is not a JSON object"},
        {{"--trace", "/nonexistent"}, "/nonexistent: No such file or directory"},
        {{"--json", "/nonexistent/x"}, "--json: '/nonexistent/x': No such file or directory"},
        {{"--plot", "/nonexistent/x"}, "--plot: '/nonexistent/x': No such file or directory"},
        {{"--url", "http://h", "-m", "x"}, "--url and --model exclude each other"},
        {{"--url", "http://h", "--compare", "a"}, "--url and --compare exclude each other"},
        {{"--compare", "a", "b", "--ramp"}, "--compare and --ramp exclude each other"},
        {{"--compare", "a"}, "--compare: 'a' is one side; two are needed"},
        {{"--compare", "a", "--ramp"}, "--compare and --ramp exclude each other"},
        {{"--compare", "--speculate off", "--requests", "5"},
         "--compare: '--speculate off' is one side; two are needed"},
        {{"--compare", "a", "b", "--concurrency", "1,2"},
         "--compare takes one level of load, not 2"},
        {{"--url", "http://h", "b"}, "--url and --model exclude each other"},
        {{"--speedup", "2"}, "--speedup belongs to --trace, which is missing"},
        {{"--rounds", "3"}, "--rounds belongs to --compare, which is missing"},
        {{"--think-ms", "5"}, "--think-ms belongs to --turns, which is missing"},
        {{"--prefix-groups", "2"}, "--prefix-groups belongs to --shared-prefix, which is missing"},
        {{"--arrivals", "constant"}, "--arrivals belongs to --rate, which is missing"},
        {{"--ramp", "--rate", "1,2"}, "--ramp takes one level of load, not 2"},
        {{"--ramp", "--concurrency", "1,2,4"}, "--ramp takes one level of load, not 3"},
        {{"--rate", "5", "--concurrency", "1,2"},
         "--concurrency takes one number beside --rate, not 2"},
        {{"--trace", "x", "--rate", "3"}, "--trace and --rate exclude each other"},
        {{"--prompt-ids", "--turns", "2"}, "--prompt-ids and --turns exclude each other"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct load_config c;
        char message[1024], *argv[7] = {NULL};
        memcpy(argv, bad[i].argv, sizeof bad[i].argv);
        check(configure(&c, message, argv) == APP_USAGE, "%s", bad[i].message);
        check(strstr(message, bad[i].message), "'%s' instead of '%s'", message, bad[i].message);
        assert_null(c.extra);
    }
}

// ---------------------------------------------------------------- the table

// The widest line of the table, and whether it has a column.
static int table_width(const struct load_config *config, int room, const char *title, bool *has) {
    static const struct load_level level = {.concurrency = 4, .figures = {.completed = 3}};
    struct caught caught;
    const unsigned shown = load_report_columns(config, room);
    catch_begin(&caught, &stdout);
    load_report_row_head(config, shown);
    load_report_row(config, &level, shown);
    load_report_level(config, &level, room);
    const char *text = catch_end(&caught);
    *has = strstr(text, title) != NULL;
    int widest = 0;
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        const int width = (int)strcspn(at, "\n");
        if (*at == '|' && width > widest) widest = width;
    }
    free(caught.text);
    return widest;
}

CASE(the_table_fits_the_terminal) {
    const struct load_config plain = {0}, bound = {.slo = {.any = true}};
    bool has;
    assert_int_equal(table_width(&plain, INT_MAX, " E2EL ms |\n", &has), 124);
    assert_true(has);
    assert_int_equal(table_width(&bound, INT_MAX, " E2EL ms |   good/s |\n", &has), 135);
    assert_true(has);
    for (int room = 41; room < 140; room++) {
        const int width = table_width(&bound, room, "good/s", &has);
        check(width <= room, "%d columns in %d", width, room);
        assert_true(has == (room >= 78));
    }
    table_width(&plain, 80,
                "| at a time | requests | failed | tokens/s | per user |   TTFT ms |  TPOT ms |\n",
                &has);
    assert_true(has);
}

CASE(requests_without_a_speed_are_counted) {
    const struct load_config config = {0};
    struct load_level level = {.figures = {.completed = 3, .user_rate = {.n = 1}}};
    struct caught caught;
    catch_begin(&caught, &stdout);
    load_report_level(&config, &level, INT_MAX);
    assert_non_null(strstr(catch_end(&caught), "\nper user: 2 of 3 requests are left out, "));
    free(caught.text);
    level.figures.user_rate.n = 3;
    catch_begin(&caught, &stdout);
    load_report_level(&config, &level, INT_MAX);
    assert_null(strstr(catch_end(&caught), "left out"));
    free(caught.text);
}

TEST_PROGRAM(load_options) { return cases_run(NULL, NULL); }
