// Error records: one line for any input.
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

CASE(every_status_has_its_text) {
#define X(name, text) assert_string_equal(rn_status_text(RN_##name), text);
    RN_STATUS_LIST(X)
#undef X
    assert_non_null(rn_status_text((rn_status)12345));
}

CASE(set_formats_and_returns_the_status) {
    rn_error err = {0};
    assert_int_equal(err_set(&err, RN_ERR_IO, "%s: %d", "x", 7), RN_ERR_IO);
    assert_int_equal(err.status, RN_ERR_IO);
    assert_string_equal(err.message, "x: 7");
}

CASE(null_error_is_accepted) {
    assert_int_equal(err_set(NULL, RN_ERR_ARG, "%d", 1), RN_ERR_ARG);
    assert_int_not_equal(err_prefix(NULL, "x"), RN_OK);
}

CASE(long_paths_leave_room_for_the_reason) {
    char path[1200];
    for (size_t i = 0; i < sizeof path; i++) path[i] = i % 60 == 0 ? '/' : 'd';
    snprintf(path + 1100, 100, "/model.gguf");
    const char *shown = err_path(path);
    assert_true(strlen(shown) <= 200 && strlen(shown) > 100);
    assert_non_null(strstr(shown, "model.gguf"));
    assert_true(shown[-1] == '/'); // whole names
    assert_string_equal(err_path("a/b.gguf"), "a/b.gguf");
}

CASE(control_characters_become_question_marks) {
    rn_error err;
    err_set(&err, RN_ERR_MODEL, "%s", "a\nb\r\x1b[31mc\x7f\xc2\x9b\xc3\xa9");
    assert_string_equal(err.message, "a?b??[31mc???\xc3\xa9");
}

CASE(long_message_is_cut_and_ended) {
    rn_error err;
    memset(&err, 'x', sizeof err);
    char text[2000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = 0;
    err_set(&err, RN_ERR_MODEL, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    err_prefix(&err, "file");
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    assert_memory_equal(err.message, "file: yyy", 9);
}

CASE(prefix_keeps_the_status) {
    rn_error err;
    err_set(&err, RN_ERR_UNSUPPORTED, "tensor a");
    assert_int_equal(err_prefix(&err, "m.gguf"), RN_ERR_UNSUPPORTED);
    assert_string_equal(err.message, "m.gguf: tensor a");
    assert_int_equal(err.status, RN_ERR_UNSUPPORTED);
}

TEST_PROGRAM(status) { return cases_run(NULL, NULL); }
