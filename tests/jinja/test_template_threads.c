// One template, rendered by several threads at once.
// label: threads
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "render_text.h"

struct job {
    const struct template *tmpl;
    bool is_ok;
};

static void *render_many(void *data) {
    struct job *job = data;
    job->is_ok = true;
    for (int i = 0; i < 50; i++) {
        char *text;
        size_t len;
        const char *globals = "{\"messages\": [{\"role\": \"user\", \"content\": \"Grüße\"}]}";
        if (render_text(job->tmpl, NULL, globals, 0, &text, &len, NULL) != RN_OK) {
            job->is_ok = false;
            return NULL;
        }
        job->is_ok = job->is_ok && strcmp(text, "user: GRÜSSE 5 é 1\n\n") == 0;
        free(text);
    }
    return NULL;
}

CASE(threads_may_share_a_template) {
    const char *source =
        "{% macro m(x) %}{{ x|upper }} {{ x|length }} {{ 'é' }} {{ 'é'|length }}{% endmacro %}"
        "{% for m_ in messages %}{{ m_.role }}: {{ m(m_.content) }}\n\n{% endfor %}";
    struct template *tmpl;
    pthread_t threads[4];
    struct job jobs[4];
    assert_int_equal(template_create(source, strlen(source), &tmpl, NULL), RN_OK);
    for (int i = 0; i < 4; i++) {
        jobs[i].tmpl = tmpl;
        assert_int_equal(pthread_create(&threads[i], NULL, render_many, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) assert_true(jobs[i].is_ok);
    template_destroy(tmpl);
}

TEST_PROGRAM(template_threads) { return cases_run(NULL, NULL); }
