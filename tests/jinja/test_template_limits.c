// The limits of templates, and their failures: statuses, places in messages, and hostile templates
// that would recurse, loop or grow without end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data_file.h"
#include "jinja/render.h"
#include "render_text.h"

struct result {
    rn_status status;
    rn_error err;
    char *text;
    size_t len;
};

static struct result render_limited(const char *source, size_t len, const char *globals,
                                    const struct template_limits *limits) {
    struct result result = {0};
    struct template *tmpl;
    result.status = template_create(source, len, &tmpl, &result.err);
    if (result.status != RN_OK) {
        assert_null(tmpl);
        return result;
    }
    result.status = render_text(tmpl, limits, globals, 0, &result.text, &result.len, &result.err);
    if (result.status != RN_OK) assert_null(result.text);
    template_destroy(tmpl);
    return result;
}

static struct result render(const char *source) {
    return render_limited(source, strlen(source), NULL, NULL);
}

static void check_text(const char *source, const char *text) {
    struct result result = render(source);
    check(result.status == RN_OK, "%.200s: %s", source, result.err.message);
    check(strcmp(result.text, text) == 0, "%.200s: %.200s", source, result.text);
    free(result.text);
}

static void check_fails(struct result result, rn_status status, const char *message) {
    check(result.status == status && result.err.status == status &&
              strstr(result.err.message, message),
          "wanted status %d, '%s'; got %d, '%s', '%.100s'", status, message, result.status,
          result.err.message, result.text ? result.text : "");
}

static void check_refused(const char *source, const char *message) {
    check_fails(render(source), RN_ERR_MODEL, message);
}

// open n times, middle, close n times; the caller frees it.
static char *nested(const char *open, const char *middle, const char *close, size_t n) {
    const size_t len = n * (strlen(open) + strlen(close)) + strlen(middle) + 1;
    char *text = malloc(len), *at = text;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) at = stpcpy(at, open);
    at = stpcpy(at, middle);
    for (size_t i = 0; i < n; i++) at = stpcpy(at, close);
    return text;
}

static char *inside(const char *before, char *middle, const char *after) {
    char *text = malloc(strlen(before) + strlen(middle) + strlen(after) + 1);
    assert_non_null(text);
    stpcpy(stpcpy(stpcpy(text, before), middle), after);
    free(middle);
    return text;
}

static void check_too_deep(char *source) {
    check_refused(source, "deeper than 64");
    free(source);
}

CASE(sixty_thousand_levels_are_refused_by_the_parser) {
    const size_t n = 60000;
    check_too_deep(inside("{{ ", nested("(", "1", ")", n), " }}"));
    check_too_deep(inside("{{ ", nested("[", "1", "]", n), " }}"));
    check_too_deep(inside("{{ ", nested("{1:", "1", "}", n), " }}"));
    check_too_deep(inside("{{ ", nested("f(", "1", ")", n), " }}"));
    check_too_deep(inside("{{ ", nested("a[", "1", "]", n), " }}"));
    check_too_deep(inside("{{ ", nested("-", "1", "", n), " }}"));
    check_too_deep(inside("{{ ", nested("not ", "1", "", n), " }}"));
    check_too_deep(inside("{{ ", nested("1|d(", "1", ")", n), " }}"));
    check_too_deep(inside("{{ ", nested("(1 if ", "1", ")", n), " }}"));
    check_too_deep(nested("{% if 1 %}", "x", "{% endif %}", n / 4));
    check_too_deep(nested("{% for i in x %}", "x", "{% endfor %}", n / 4));
    check_too_deep(nested("{% macro m() %}", "x", "{% endmacro %}", n / 4));
    check_too_deep(nested("{% filter upper %}", "x", "{% endfilter %}", n / 4));
    check_too_deep(nested("{% set x %}", "x", "{% endset %}", n / 4));
    check_too_deep(nested("{% if 1 %}{% else %}", "x", "{% endif %}", n / 4));
}

CASE(sixty_levels_are_fine) {
    char *source = inside("{{ ", nested("(", "7", ")", 60), " }}");
    check_text(source, "7");
    free(source);
    source = nested("{% if 1 %}", "x", "{% endif %}", 60);
    check_text(source, "x");
    free(source);
}

// Chains are not depth: they are walked, not recursed into.
CASE(long_chains_are_fine) {
    const struct {
        const char *before, *link, *after;
    } cases[] = {
        {"{{ (1", "+0", ") == 1 }}"},
        {"{{ (2", "*1", ") == 2 }}"},
        {"{{ ('a'", "|trim", ") == 'a' }}"},
        {"{{ ('a'", ".strip()", ") == 'a' }}"},
        {"{{ true", " and true", " }}"},
        {"{{ true", " or false", " }}"},
        {"{{ (1", "~''", ") == '1' }}"},
        {"{{ true", " if true else 0", " }}"},
        {"{% if 0 %}", "{% elif 0 %}", "{% else %}True{% endif %}"},
        {"{{ ('a' ", "'b'", ")|length > 1 }}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *source =
            inside(cases[i].before, nested(cases[i].link, "", "", 20000), cases[i].after);
        check_text(source, "True");
        free(source);
    }
}

CASE(messages_name_line_and_column) {
    check_refused("a\n{% if x %}", "line 2, column 11: expected 'endif'");
    check_refused("é {{ 1 + }}", "line 1, column 10: expected an expression, got '}}'");
    check_refused("\n\n  {{ x.y }}", "line 3, column 8: 'x' is undefined");
    check_refused("{{ 1 }}\r\n{{ 1 + 'a' }}", "line 2, column 6: '+' is not supported");
    check_refused("{% for i in [1] %}\n{{ i() }}{% endfor %}", "line 2, column 5: 'int'");
    check_refused("{{ 'a'|nosuch }}", "line 1, column 8: there is no filter 'nosuch'");
    check_refused("{% nosuch %}", "line 1, column 4: unknown tag 'nosuch'");
    check_refused("{# x", "line 1, column 1: the comment has no end");
    check_refused("{{ 'x", "line 1, column 4: the string has no end");
    check_refused("{% if 1 %}{% endfor %}", "expected 'endif'");
    check_refused("{{ nosuch() }}", "'nosuch' is undefined");
    check_refused("{{ {}.a.b }}", "'dict' object has no attribute 'a'");
    check_refused("{{ [].append(1) }}", "'append' of 'list' object is unsafe");
}

CASE(raised_messages_come_as_they_are) {
    check_fails(render("\n{{ raise_exception('Roles must \"alternate\"!') }}"), RN_ERR_ARG,
                "Roles must \"alternate\"!");
    struct result result = render("{{ raise_exception('no place') }}");
    assert_string_equal(result.err.message, "no place");
    result = render("{{ raise_exception('é' * 1000) }}");
    assert_int_equal(result.status, RN_ERR_ARG);
    assert_true(strlen(result.err.message) >= sizeof result.err.message - 3);
}

CASE(errors_may_be_unwanted) {
    struct template *tmpl;
    char *text;
    size_t len;
    assert_int_equal(template_create("{{", 2, &tmpl, NULL), RN_ERR_MODEL);
    assert_int_equal(template_create("{{ x.y }}", 9, &tmpl, NULL), RN_OK);
    assert_int_equal(render_text(tmpl, NULL, NULL, 0, &text, &len, NULL), RN_ERR_MODEL);
    assert_null(text);
    template_destroy(tmpl);
    template_destroy(NULL);
}

CASE(sources_have_limits) {
    char *source = nested("x", "", "", TEMPLATE_MAX_SOURCE + 1);
    check_refused(source, "bytes, more than");
    source[TEMPLATE_MAX_SOURCE] = 0;
    check_text(source, source);
    free(source);
    check_refused("a\xff", "not valid UTF-8");
    source = inside("{{ ", nested("a", "", "", 300), " }}");
    check_refused(source, "longer than 256 bytes");
    free(source);
    check_text("", "");
    check_refused("{{ 9223372036854775808 }}", "64 bits");
}

CASE(steps_are_limited) {
    const char *steps = "more than 4194304 steps";
    check_refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                  steps);
    // Work on long text costs steps, too: comparing, searching, counting characters, splitting.
    check_refused(
        "{% set s = 'ab' * 999999 %}{% set t = s ~ '' %}{% for i in range(99999) %}{% if s == t %}"
        "{% endif %}{% endfor %}",
        steps);
    check_refused("{% set s = 'é' * 999999 %}{% for i in range(99999) %}{% if s[9] %}{% endif "
                  "%}{% endfor %}",
                  steps);
    if (TEST_IS_SLOW) return; // the others take seconds there, each
    check_refused("{% set s = 'a' * 999999 %}{% for i in range(99999) %}{% if 'b' in s %}{% endif "
                  "%}{% endfor %}",
                  steps);
    check_refused(
        "{% set l = range(99999)|list %}{% for i in l %}{% if -1 in l %}{% endif %}{% endfor %}",
        steps);
    check_refused("{{ range(99999)|unique|list }}", steps); // numbers share a hash
    check_refused("{% set l = range(99999)|list %}{% for i in l %}{% set x = l|sort %}{% endfor %}",
                  "");
    check_refused(
        "{% macro m() %}{% for i in range(99999) %}{{ m() }}{% endfor %}{% endmacro %}{{ m() }}",
        "");
}

// Work on single characters costs more than copies.
CASE(work_on_characters_is_limited) {
    const char *const expressions[] = {
        "'a'.strip(s)",        "s.upper()",    "s.title()", "s|tojson",     "[s]|string",
        "s.split()",           "s|indent",     "s|format",  "s.split('q')", "s.format()",
        "s.replace('bB', '')", "'x'|safe + s",
    };
    const struct template_limits limits = {.steps = 1 << 16, .output = 1 << 24, .memory = 1 << 28};
    for (size_t i = 0; i < sizeof expressions / sizeof expressions[0]; i++) {
        char source[200];
        snprintf(source, sizeof source,
                 "{%% set s = 'bB' * 99999 %%}{%% for i in range(999) %%}{%% if %s %%}{%% endif %%}"
                 "{%% endfor %%}",
                 expressions[i]);
        check_fails(render_limited(source, strlen(source), NULL, &limits), RN_ERR_MODEL,
                    "more than 65536 steps");
    }
}

CASE(calls_are_limited) {
    check_refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
                  "calls are nested deeper than 64");
    check_refused(
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        "calls are nested deeper than 64");
    check_text(
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% else %}end{% endif %}{% endmacro %}{{ m(60) }}",
        "end");
    // Many frames in each call: the C stack is bounded for any calls.
    char *body = nested("{% if 1 %}", "{{ m() }}", "{% endif %}", 50);
    char *source = inside("{% macro m() %}", body, "{% endmacro %}{{ m() }}");
    check_refused(source, "nested too deep");
    free(source);
}

// Shared tuples are walked as often as they are shared, and filters may name each other.
CASE(walks_of_shared_values_are_limited) {
    static const char *const uses[] = {"ns.t in {}", "{ns.t: 1}", "{}.get(ns.t)"};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        char source[256];
        snprintf(source, sizeof source,
                 "{%% set ns = namespace(t=(1, 1)) %%}{%% for i in range(45) %%}"
                 "{%% set ns.t = (ns.t, ns.t) %%}{%% endfor %%}{{ %s }}",
                 uses[i]);
        check_refused(source, "steps");
    }
    char *names = nested("'map', ", "'upper'", "", 5000);
    char *source = inside("{{ 'a'|map(", names, ")|list }}");
    check_refused(source, "nested too deep");
    free(source);
}

CASE(output_and_memory_are_limited) {
    check_refused("{{ 'x' * 99999999999 }}", "output is longer than");
    check_refused("{{ 'x' * 9223372036854775807 }}", "output is longer than");
    check_refused("{{ range(100001) }}", "range has more than 100000 items");
    check_refused("{{ range(-9223372036854775807, 9223372036854775807) }}", "range has more");
    check_refused("{{ [1]|tojson(indent=99999999999) }}", "longer than");
    check_refused("{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ "
                  "ns.s %}{% endfor %}",
                  "values take more than");
    if (TEST_IS_SLOW) return; // filling the memory takes seconds there
    check_refused("{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + "
                  "ns.s %}{% endfor %}",
                  "values take more than");
    check_refused("{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + "
                  "ns.s %}{% endfor %}",
                  "values take more than");
    check_refused(
        "{% for i in range(99999) %}{% for j in range(999) %}0123456789{% endfor %}{% endfor %}",
        "");
    check_refused("{{ 'a'.replace('', 'b' * 999999).replace('b', 'c' * 999) }}", "more than");
}

// What a template makes of a short conversation is bounded by less than what a long one needs.
CASE(memory_follows_the_input) {
    static const char source[] = "{% for m in messages %}{{ '<|' + m.role + '|>' }}"
                                 "{% set t = m.content|trim %}{{ t + '\n' }}{% endfor %}";
    enum { MESSAGES = 20000, TEXT = 200 };
    char *globals = malloc(MESSAGES * (TEXT + 64)), *at = globals;
    assert_non_null(globals);
    at = stpcpy(at, "{\"messages\":[");
    for (int i = 0; i < MESSAGES; i++)
        at += sprintf(at, "%s{\"role\":\"user\",\"content\":\"%0*d\"}", i ? "," : "", TEXT, i);
    strcpy(at, "]}");
    struct result result = render_limited(source, strlen(source), globals, NULL);
    check(!result.status && result.len > MESSAGES * TEXT, "%s", result.err.message);
    free(result.text);
    free(globals);
    check_refused("{% for i in range(20) %}{{ 'x' * 1000000 }}{% endfor %}",
                  "more than 33554432 bytes");
    check_refused("{% set ns = namespace(l=[]) %}{% for i in range(40) %}{% set ns.l = ns.l + "
                  "['x' * 1000000] %}{% endfor %}",
                  "more than 33554432 bytes");
}

// Text that a loop builds piece by piece grows in place: memory follows its length, not the square.
CASE(text_grows_in_place) {
    const char *sources[] = {
        "{% set ns = namespace(s='') %}{% for i in range(4000) %}{% set ns.s = ns.s ~ 'x' * 99 ~ "
        "'\n' %}"
        "{% endfor %}{{ ns.s|length }}",
        "{% set ns = namespace(s='') %}{% for i in range(4000) %}{% set ns.s = ns.s + 'x' * 100 %}"
        "{% endfor %}{{ ns.s|length }}",
    };
    const struct template_limits limits = {.steps = 1 << 20, .output = 1 << 20, .memory = 4 << 20};
    for (size_t i = 0; i < 2; i++) {
        struct result result = render_limited(sources[i], strlen(sources[i]), NULL, &limits);
        check(result.status == RN_OK, "%s", result.err.message);
        assert_string_equal(result.text, "400000");
        free(result.text);
    }
    // Strings that were there before keep their own text.
    check_text(
        "{% set a = 'x' ~ 'y' %}{% set b = a ~ '1' %}{% set c = b ~ '2' %}{% set d = b ~ '3' %}"
        "{% set e = c ~ '4' %}{{ [a, b, c, d, e]|join(' ') }}",
        "xy xy1 xy12 xy13 xy124");
}

// Long text with many places to cut: the work is that of one walk, not of one for each place.
CASE(many_places_in_long_text_are_fine) {
    check_text("{% set s = 'ab, ' * 50000 %}{{ s.split(', ')|length }} {{ s.split()|length }} "
               "{{ s.replace(', ', ',')|length }} {{ s.replace('b', 'cc')|length }} "
               "{{ s|tojson|length }} {{ (s ~ s).strip(', ')|length }} {{ s.upper()|length }} "
               "{{ s|indent|length }}",
               "50001 50000 150000 250000 200002 399998 200000 200000");
}

// Objects with many members, and with long keys that are equal up to their ends.
CASE(large_objects_are_fine) {
    enum { N = 20000, ROOM = N * 260 + 100 };
    char *globals = malloc(ROOM);
    assert_non_null(globals);
    char *at = stpcpy(globals, "{\"d\":{");
    for (int i = 0; i < N; i++) at += sprintf(at, "%s\"%0240d\":%d", i ? "," : "", i, i);
    stpcpy(at, "}}");
    const char *source =
        "{% for k in d %}{% if d[k] != loop.index0 %}{{ k }}{% endif %}{% endfor %}"
        "{{ d|length }} {{ 'x' in d }}";
    struct result result = render_limited(source, strlen(source), globals, NULL);
    check(result.status == RN_OK, "%s", result.err.message);
    assert_string_equal(result.text, "20000 False");
    free(result.text);
    free(globals);
}

CASE(values_nest_to_a_limit) {
    check_refused(
        "{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l] %}{% endfor %}",
        "values are nested deeper than 64");
    check_refused("{% set ns = namespace(l={}) %}{% for i in range(99) %}{% set ns.l = {'a': ns.l} "
                  "%}{% endfor %}",
                  "values are nested deeper than 64");
    // Shared parts: 2^50 items in 50 lists.
    check_refused("{% set ns = namespace(l=[]) %}{% for i in range(50) %}{% set ns.l = [ns.l, "
                  "ns.l] %}{% endfor %}"
                  "{{ ns.l == ns.l + [] }}{{ ns.l }}",
                  "");
    char *globals = inside("{\"a\":", nested("[", "", "]", 70), "}");
    check_fails(render_limited("x", 1, globals, NULL), RN_ERR_ARG, "variables: offset");
    free(globals);
}

// Newer than the jinja2 that the snippets are compared with (3.1.5).
CASE(members_of_a_namespace_are_set_together) {
    check_text("{% set ns = namespace(x=0, y=1) %}{% set ns.x, ns.y = ns.y, ns.x %}"
               "{{ ns.x }}{{ ns.y }}",
               "10");
}

CASE(integers_have_64_bits) {
    check_text("{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }}",
               "9223372036854775807 -9223372036854775808");
    check_refused("{{ 9223372036854775807 + 1 }}", "64 bits");
    check_refused("{{ 99999999999 * 99999999999 }}", "64 bits");
    check_refused("{{ -(-9223372036854775807 - 1) }}", "64 bits");
    check_text("{{ (-9223372036854775807 - 1) % -1 }}", "0");
}

static void check_globals(const char *globals, const char *source, const char *text) {
    struct result result = render_limited(source, strlen(source), globals, NULL);
    check(result.status == RN_OK, "%s: %s", globals, result.err.message);
    check(strcmp(result.text, text) == 0, "%s: %s", globals, result.text);
    free(result.text);
}

CASE(variables_are_read_as_python_reads_json) {
    check_globals("{\"d\": {\"z\": 1, \"a\": 2, \"z\": 3}}", "{{ d }}", "{'z': 3, 'a': 2}");
    check_globals("{\"n\": [1, -0, 1.0, 1e2, 12345678901234567890, 0.1]}", "{{ n }}|{{ n|tojson }}",
                  "[1, 0, 1.0, 100.0, 12345678901234567890, 0.1]|"
                  "[1, 0, 1.0, 100.0, 12345678901234567890, 0.1]");
    check_globals("{\"s\": \"\\u00e9\\ud83d\\ude00\\\"\\\\\"}", "{{ s }}{{ s|length }}", "é😀\"\\4");
    check_globals("{\"range\": 5}", "{{ range }}", "5"); // the caller's come before ours
    check_globals("{}", "{{ x }}", "");
    const char *bad[] = {"", "{\"a\": }", "{\"a\": 1} x", "{\"a\": \"\xff\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_fails(render_limited("x", 1, bad[i], NULL), RN_ERR_ARG, "variables: offset");
    }
    // A NUL in text goes through.
    struct result result = render_limited("{{ s }}", 7, "{\"s\": \"a\\u0000b\"}", NULL);
    assert_int_equal(result.status, RN_OK);
    assert_int_equal(result.len, 3);
    assert_memory_equal(result.text, "a\0b", 4);
    free(result.text);
}

// The README lists every row, between blanks or backquotes.
static bool readme_has(const char *readme, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = readme; (at = strstr(at, name)); at++) {
        if (at > readme && strchr(" `", at[-1]) && strchr(" `", at[n])) return true;
    }
    return false;
}

CASE(tables_are_in_order_and_in_the_readme) {
    const struct table *const tables[] = {&jinja_filters,      &jinja_tests,
                                          &jinja_functions,    &jinja_str_methods,
                                          &jinja_list_methods, &jinja_tuple_methods,
                                          &jinja_dict_methods};
    const struct data_file readme = data_file_read(SOURCE_DIR "/src/jinja/README.md");
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        for (size_t i = 0; i < tables[t]->n; i++) {
            const char *name = tables[t]->entries[i].name;
            const struct str text = {.data = name, .len = strlen(name)};
            check(i == 0 || strcmp(tables[t]->entries[i - 1].name, name) < 0, "%s", name);
            check(jinja_table_find(tables[t], &text) == &tables[t]->entries[i], "%s", name);
            check(jinja_names_find(tables[t]->left_out, name, text.len) < 0, "%s is there", name);
            check(readme_has((const char *)readme.data, name), "the README lacks %s", name);
        }
    }
    free(readme.data);
}

static void check_time(int64_t now, const char *format, const char *text) {
    struct template *tmpl;
    rn_error err = {0};
    char source[200], *out;
    size_t len;
    snprintf(source, sizeof source, "{{ strftime_now('%s') }}", format);
    assert_int_equal(template_create(source, strlen(source), &tmpl, &err), RN_OK);
    check(render_text(tmpl, NULL, NULL, now, &out, &len, &err) == RN_OK, "%s", err.message);
    check(strcmp(out, text) == 0, "%lld: %s", (long long)now, out);
    free(out);
    template_destroy(tmpl);
}

CASE(dates_are_computed_in_utc) {
    const char *all = "%Y-%m-%d %H:%M:%S %a %j %U %W %V %G";
    check_time(0, all, "1970-01-01 00:00:00 Thu 001 00 00 01 1970");
    check_time(-1, all, "1969-12-31 23:59:59 Wed 365 52 52 01 1970");
    check_time(951782400, all, "2000-02-29 00:00:00 Tue 060 09 09 09 2000");
    check_time(1609459199, all, "2020-12-31 23:59:59 Thu 366 52 52 53 2020");
    check_time(1609459200, all, "2021-01-01 00:00:00 Fri 001 00 00 53 2020");
    check_time(4107542400, all, "2100-03-01 00:00:00 Mon 060 09 09 09 2100");
    check_time(253402300799, all, "9999-12-31 23:59:59 Fri 365 52 52 52 9999");
    check_time(1753885800, "%d %B %Y, %I:%M %p", "30 July 2025, 02:30 PM");
}

TEST_PROGRAM(template_limits) { return cases_run(NULL, NULL); }
