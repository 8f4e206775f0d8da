// Every allocation of the reader of answers is made to fail once: no text is lost (it becomes
// content), and nothing leaks.
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "answer_parts.h"

#include "failing_malloc.h"

struct seen {
    char content[4096];
    size_t len;
    int n_calls;
};

static void on_part(void *ctx, enum answer_part part, int tool, const char *text, size_t len) {
    struct seen *seen = ctx;
    (void)tool;
    seen->n_calls += part == PART_TOOL;
    if (part != PART_CONTENT) return;
    memcpy(seen->content + seen->len, text, len);
    seen->len += len;
}

static void without_memory_all_is_content(void **state) {
    (void)state;
    char text[2048] = "<tool_call><function=f><parameter=a>";
    memset(text + strlen(text), 'x', 1500);
    strcat(text, "</parameter></function></tool_call>");
    const size_t len = strlen(text);
    long n = 0;
    bool failed = true;
    for (; failed; n++) {
        struct seen seen = {.len = 0};
        struct answer_parts parts;
        const long before = live;
        fail_at = n;
        parts_init(&parts, answer_marks_of("<function="), true, false);
        for (size_t at = 0; at < len; at += 7)
            parts_feed(&parts, text + at, at + 7 < len ? 7 : len - at, false, on_part, &seen);
        parts_feed(&parts, "", 0, true, on_part, &seen);
        parts_deinit(&parts);
        failed = fail_at < 0;
        fail_at = -1;
        check(seen.n_calls == !failed, "allocation %ld: %d calls", n, seen.n_calls);
        const size_t close = strlen("</tool_call>"); // dropped, or content behind the call
        check(!failed || (seen.len >= len - close && !memcmp(seen.content, text, seen.len)),
              "allocation %ld: %zu of %zu bytes", n, seen.len, len);
        check(live == before, "allocation %ld: %ld blocks are lost", n, live - before);
    }
    check(n > 3, "%ld allocations", n); // or nothing was tested
}

TEST_PROGRAM(parts_memory) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_memory_all_is_content)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
