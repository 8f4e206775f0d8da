// Every allocation of create and render is made to fail once: each failure is reported as such,
// nothing leaks (a leak is seen by count), and the next call works.
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "render_text.h"

#include "failing_malloc.h"

// Enough of everything to need many chunks of the arenas and several sizes of the output.
static const char source[] =
    "{% macro m(x) %}{{ x|tojson(indent=2) }}{% endmacro %}"
    "{% set ns = namespace(text='') %}"
    "{% for i in range(400) %}{% set ns.text = ns.text ~ ('%d '|format(i)) ~ "
    "m({'a': [i, 'x']}) %}{% endfor %}"
    "{{ ns.text.split()|map('upper')|sort|join(',') }}{{ ns.text }}";

static bool attempt(rn_status *status) {
    struct template *tmpl = NULL;
    rn_error err = {0};
    char *text = NULL;
    size_t len;
    *status = template_create(source, sizeof source - 1, &tmpl, &err);
    if (*status == RN_OK) *status = render_text(tmpl, NULL, "{\"a\": 1}", 0, &text, &len, &err);
    template_destroy(tmpl);
    free(text);
    return *status == err.status || *status == RN_OK;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    long n = 0;
    rn_status status = RN_ERR_NOMEM;
    for (; status != RN_OK; n++) {
        const long before = live;
        fail_at = n;
        const bool is_told = attempt(&status);
        fail_at = -1;
        check(status == RN_OK || status == RN_ERR_NOMEM, "allocation %ld: status %d", n, status);
        check(is_told, "allocation %ld", n);
        check(live == before, "allocation %ld: %ld blocks are lost", n, live - before);
    }
    check(n > 10, "%ld allocations", n); // or nothing was tested
}

TEST_PROGRAM(template_memory) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
