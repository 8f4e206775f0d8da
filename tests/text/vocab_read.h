// Reading vocabularies in tests: the arena that their texts are in, and comparisons. Each case ends
// with vocab_teardown.
#ifndef RN_TESTS_TEXT_VOCAB_READ_H
#define RN_TESTS_TEXT_VOCAB_READ_H

#include "data_file.h"
#include "text/vocab.h"

#define MARKER "\xe2\x96\x81"

static struct arena arena;

static inline int vocab_teardown(void **state) {
    arena_deinit(&arena);
    return 0;
}

static inline bool is(struct text_span span, const char *text) {
    return span.len == strlen(text) && memcmp(span.data, text, span.len) == 0;
}

// A copy in which single quotes have become double ones.
static inline char *json_quoted(const char *text) {
    char *const json = arena_strdup(&arena, text, strlen(text));
    for (char *at = json; (at = strchr(at, '\''));) *at = '"';
    return json;
}

// A whole file, as a string.
static inline char *file_read(const char *path, size_t *len) {
    const struct data_file file = data_file_read(path);
    char *const data = arena_strdup(&arena, (const char *)file.data, file.size);
    *len = file.size;
    free(file.data);
    return data;
}

#endif
