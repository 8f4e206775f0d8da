// File mappings: the bytes, and what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char folder[64], path[128];

static int folder_make(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "test_file.XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int folder_remove(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_file(const char *text, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    fclose(file);
}

static void expect_message(const char *at, rn_status status, const char *tail) {
    struct file_map map;
    rn_error err = {0};
    assert_int_equal(file_map_open(at, &map, &err), status);
    char expected[256];
    snprintf(expected, sizeof expected, "%s: %s", at, tail);
    assert_string_equal(err.message, expected);
    assert_null(map.data);
    file_map_close(&map);
    assert_int_equal(file_map_open(at, &map, NULL), status);
}

static void mapping_holds_the_bytes_of_the_file(void **state) {
    (void)state;
    write_file("hello\0world", 11);
    struct file_map map;
    assert_int_equal(file_map_open(path, &map, NULL), RN_OK);
    assert_int_equal(map.size, 11);
    assert_memory_equal(map.data, "hello\0world", 11);
    file_map_close(&map);
    assert_null(map.data);
    file_map_close(&map);
    unlink(path);
}

static void missing_file_is_named(void **state) {
    (void)state;
    expect_message(path, RN_ERR_IO, "No such file or directory");
}

static void directory_is_refused(void **state) {
    (void)state;
    expect_message(folder, RN_ERR_IO, "is a directory, not a model file");
}

static void empty_file_is_refused(void **state) {
    (void)state;
    write_file("", 0);
    expect_message(path, RN_ERR_MODEL, "is empty");
    unlink(path);
}

// Must not wait for a writer either.
static void fifo_is_refused(void **state) {
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_message(path, RN_ERR_IO, "is not a regular file");
    unlink(path);
}

static void an_optional_file_may_be_absent_but_not_broken(void **state) {
    (void)state;
    struct file_map map = {.size = 7};
    rn_error err = {0};
    unlink(path);
    assert_int_equal(file_map_open_optional(path, 3, &map, &err), RN_OK);
    assert_true(map.data == NULL && map.size == 0);
    write_file("abc", 3);
    assert_int_equal(file_map_open_optional(path, 3, &map, &err), RN_OK);
    assert_memory_equal(map.data, "abc", 3);
    file_map_close(&map);
    assert_int_equal(file_map_open_optional(path, 2, &map, &err), RN_ERR_MODEL);
    assert_non_null(strstr(err.message, "file: has 3 bytes, expected at most 2"));
    assert_null(map.data);
    unlink(path);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(file_map_open_optional(path, 3, &map, &err), RN_ERR_IO);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_optional_file_may_be_absent_but_not_broken),
        cmocka_unit_test(mapping_holds_the_bytes_of_the_file),
        cmocka_unit_test(missing_file_is_named),
        cmocka_unit_test(directory_is_refused),
        cmocka_unit_test(empty_file_is_refused),
        cmocka_unit_test(fifo_is_refused),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
