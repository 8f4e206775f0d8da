// The limits of the HTTP reader, to the byte. Fuzzers and the comparison with another parser
// (http_diff) look at everything else.
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "reader.h"

// The status by which a request of these bytes is refused; 0: its head is taken.
static int refusal(const char *data, size_t len) {
    struct reader reader = {0};
    struct reader_bytes bytes;
    const enum reader_event event = reader_next(&reader, data, len, &bytes);
    const int status = event == READER_REFUSE ? reader.status : 0;
    check(event == READER_HEAD || event == READER_REFUSE, "event %d", (int)event);
    reader_deinit(&reader);
    return status;
}

// A head of n bytes, the fill in the target or in a field.
static int refusal_of_size(const char *before, const char *after, size_t n) {
    char *data = malloc(n);
    const size_t n_before = strlen(before), n_after = strlen(after);
    assert_non_null(data);
    memset(data, 'a', n);
    memcpy(data, before, n_before);
    memcpy(data + n - n_after, after, n_after);
    const int status = refusal(data, n);
    free(data);
    return status;
}

CASE(a_head_has_at_most_its_limit) {
    static const char line[] = "GET /", after_line[] = " HTTP/1.1\r\nHost: h\r\n\r\n";
    static const char field[] = "GET / HTTP/1.1\r\nHost: h\r\nX: ", after_field[] = "\r\n\r\n";
    assert_int_equal(refusal_of_size(line, after_line, READER_HEAD_BYTES), 0);
    assert_int_equal(refusal_of_size(line, after_line, READER_HEAD_BYTES + 1), 431);
    assert_int_equal(refusal_of_size(field, after_field, READER_HEAD_BYTES), 0);
    assert_int_equal(refusal_of_size(field, after_field, READER_HEAD_BYTES + 1), 431);
}

TEST_PROGRAM(reader) { return cases_run(NULL, NULL); }
