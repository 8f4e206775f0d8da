// Marks: every operation of the language keeps the marks of the bytes it copies, and the template's
// own text has none. The result is written as text with brackets around marked stretches.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "jinja/template.h"
#include "jinja/value.h"

enum { MARK = 1, OTHER = 0x10 }; // OTHER is lost in lists

static const char variables[] =
    "{\"s\": \"ab c\", \"u\": \"\\u00dfX\", \"l\": [\"x\", \"y z\"], \"n\": 12, \"key!\": \"v\","
    " \"role\": \"user\", \"type\": \"a b\", \"q\": \"it's \\\"\\n\"}";

// Renders with the object's members as marked variables, and puts [ ] around marked bytes.
static void bracketed(const char *source, char *out) {
    struct template *tmpl;
    rn_error err = {0};
    struct value v;
    char *text;
    uint8_t *marks;
    size_t len, n = 0;
    check(template_create(source, strlen(source), &tmpl, &err) == RN_OK, "%s", err.message);
    struct render *r = template_begin(tmpl, NULL, 0, &err);
    check(template_read(r, "v", variables, strlen(variables), MARK, &v) == RN_OK, "%s",
          err.message);
    for (size_t i = 0; i < v.d->n; i++) {
        const struct str *key = v.d->entries[i].key.s;
        template_set(r, key->data, key->len, v.d->entries[i].value);
    }
    template_set(r, "all", 3, v);
    struct value *s = value_member(v, "s");
    check(template_mark(r, s, 3, MARK | OTHER, "") == RN_OK, "%s", err.message);
    template_set(r, "ended", 5, *s);
    check(template_run(r, &text, &marks, &len) == RN_OK, "%s: %s", source, err.message);
    for (size_t i = 0; i < len; i++) {
        const uint8_t before = i ? marks[i - 1] : 0;
        if (before && !marks[i]) out[n++] = ']';
        if (!before && marks[i]) out[n++] = '[';
        if (marks[i] & OTHER) out[n++] = '^';
        out[n++] = text[i];
    }
    if (len && marks[len - 1]) out[n++] = ']';
    out[n] = 0;
    free(text);
    free(marks);
    template_end(r);
    template_destroy(tmpl);
}

static void every_operation_keeps_marks(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"{{ s }}-{{ 's' }}", "[ab c]-s"},
        {"{{ strftime_now(s) }}.{{ strftime_now('%Y') }}", "[ab c].1970"},
        {"{{ '<' + s + '>' ~ s ~ 1 }}", "<[ab c]>[ab c]1"},
        {"{{ s ~ '-' ~ 's' ~ s ~ 1 ~ s }}{{ 'a' ~ 'b' ~ 'c' ~ s ~ 'd' }}",
         "[ab c]-s[ab c]1[ab c]abc[ab c]d"},
        {"{{ s[1:3] }}.{{ s[0] }}.{{ l[::-1]|join }}", "[b ].[a].[y zx]"},
        {"{{ s|upper }} {{ u|upper }} {{ s.title() }}", "[AB C] [SSX] [Ab C]"},
        {"{{ ('  ' ~ s ~ '  ')|trim }}.{{ s.strip('a') }}", "[ab c].[b c]"},
        {"{{ s.replace('b', '--') }}.{{ 'xyz'.replace('y', s) }}", "[a]--[ c].x[ab c]z"},
        {"{{ s.split(' ')|join('|') }}.{{ s.split()[1] }}", "[ab]|[c].[c]"},
        {"{{ l|join(', ') }}.{{ l|map('upper')|list }}", "[x], [y z].['[X]', '[Y Z]']"},
        {"{{ q|tojson }}.{{ [q] }}", "\"[it's \\\"\\n]\".['[it\\'s \"\\n]']"},
        {"{{ all|tojson }}",
         "{\"s\": \"[ab ^c]\", \"u\": \"[\xc3\x9fX]\", \"l\": [\"[x]\", \"[y z]\"], \"n\": 12, "
         "\"[key!]\": \"[v]\", \"role\": \"user\", \"type\": \"[a b]\", \"q\": \"[it's "
         "\\\"\\n]\"}"},
        {"{% set b %}a{{ s }}b{% endset %}{{ b|upper }}", "A[AB C]B"},
        {"{% macro m(x) %}({{ x }}){% endmacro %}{{ m(s) }}{{ m('t') }}", "([ab c])(t)"},
        {"{% set ns = namespace(t='') %}{% for c in l %}{% set ns.t = ns.t ~ c ~ ';' %}{% endfor %}"
         "{{ ns.t }}",
         "[x];[y z];"},
        {"{{ '%s=%d'|format(s, n) }}.{{ '{}!'.format(s) }}", "[ab c]=12.[ab c]!"},
        {"{{ ('a\\n' ~ s)|indent(1) }}.{{ s * 2 }}", "a\n [ab c].[ab cab c]"},
        {"{{ '<'|safe + s + '>' }}", "<[ab c]&gt;"},
        {"{{ s == 'ab c' }} {{ 'b c' in s }} {{ s|length }} {{ all.role }}", "True True 4 user"},
        {"{{ [ended] }}.{{ [ended]|tojson }}", "['[ab c]'].[\"[ab ^c]\"]"},
        {"{{ ended|upper }}.{{ ended[:-1] ~ ended[-1] }}.{{ s }}", "[AB ^C].[ab ^c].[ab c]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[1024];
        bracketed(cases[i][0], out);
        check(!strcmp(out, cases[i][1]), "%s gave\n%s, expected\n%s", cases[i][0], out,
              cases[i][1]);
    }
}

TEST_PROGRAM(template_marks) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_operation_keeps_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
