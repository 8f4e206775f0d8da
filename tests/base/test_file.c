// File mappings: the bytes, the refusals, and reads beside them.
// label: memory
#define _GNU_SOURCE 1
#include "check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char folder[64], path[128];

static int folder_make(void **state) {
    snprintf(folder, sizeof folder, "test_file.XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int folder_remove(void **state) {
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

CASE(mapping_holds_the_bytes_of_the_file) {
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

CASE(missing_file_is_named) { expect_message(path, RN_ERR_IO, "No such file or directory"); }

CASE(directory_is_refused) {
    expect_message(folder, RN_ERR_IO, "is a directory, not a model file");
}

CASE(empty_file_is_refused) {
    write_file("", 0);
    expect_message(path, RN_ERR_MODEL, "is empty");
    unlink(path);
}

// Must not wait for a writer either.
CASE(fifo_is_refused) {
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_message(path, RN_ERR_IO, "is not a regular file");
    unlink(path);
}

CASE(an_optional_file_may_be_absent_but_not_broken) {
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

enum { N_LARGE = 3 << 20 };

static uint8_t *write_large(void) {
    uint8_t *bytes = malloc(N_LARGE);
    assert_non_null(bytes);
    for (int i = 0; i < N_LARGE; i++) bytes[i] = (uint8_t)(i * 31 + (i >> 8));
    write_file((const char *)bytes, N_LARGE);
    return bytes;
}

// How many pages of the mapping this process has; -1: the system does not say.
static int resident_pages(const struct file_map *map) {
    const int fd = open("/proc/self/pagemap", O_RDONLY);
    const long page = sysconf(_SC_PAGESIZE);
    int n = 0;
    for (size_t at = 0; fd >= 0 && n >= 0 && at < map->size; at += (size_t)page) {
        uint64_t entry;
        const off_t where = (off_t)(((uintptr_t)map->data + at) / (size_t)page * sizeof entry);
        n = pread(fd, &entry, sizeof entry, where) == sizeof entry ? n + (int)(entry >> 63) : -1;
    }
    if (fd >= 0) close(fd);
    return fd < 0 ? -1 : n;
}

CASE(reads_give_the_bytes_and_no_page_of_the_mapping_becomes_resident) {
    static const int parts[][2] = {{0, N_LARGE}, {1, 4097}, {N_LARGE - 1, 1}, {5000, 0}};
    uint8_t *bytes = write_large(), *read = malloc(N_LARGE);
    assert_non_null(read);
    struct file_map map;
    int fd;
    assert_int_equal(file_map_open_read(path, &map, &fd, NULL), RN_OK);
    for (int cold = 0; cold < 2; cold++) {
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            const int at = parts[i][0], n = parts[i][1];
            if (cold) assert_int_equal(fdatasync(fd), 0);
            if (cold) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            memset(read, 0, N_LARGE);
            assert_int_equal(file_read(path, fd, (uint64_t)at, (uint64_t)n, read, NULL), RN_OK);
            assert_memory_equal(read, bytes + at, n);
            assert_true(n == N_LARGE || read[n] == 0);
        }
    }
    const int before = resident_pages(&map);
    assert_true(before <= 0);
    assert_memory_equal(map.data, bytes, N_LARGE);
    if (before == 0) assert_true(resident_pages(&map) > 0);
    file_map_drop(&map);
    assert_true(resident_pages(&map) <= 0);
    assert_memory_equal(map.data, bytes, N_LARGE);
    file_map_close(&map);
    file_close(&fd);
    assert_int_equal(fd, -1);
    file_close(&fd);
    free(read);
    free(bytes);
    unlink(path);
}

CASE(a_file_that_was_cut_is_an_error) {
    uint8_t *bytes = write_large();
    struct file_map map;
    int fd;
    rn_error err = {0};
    assert_int_equal(file_map_open_read(path, &map, &fd, NULL), RN_OK);
    assert_int_equal(truncate(path, 70000), 0);
    assert_int_equal(file_read(path, fd, 60000, 20000, bytes, &err), RN_ERR_IO);
    assert_non_null(strstr(err.message, "file: ends at 70000, before 60000 + 20000 bytes"));
    assert_int_equal(file_read(path, fd, 1 << 20, 1, bytes, &err), RN_ERR_IO);
    assert_int_equal(file_read(path, fd, 60000, 10000, bytes, &err), RN_OK);
    file_map_close(&map);
    file_close(&fd);
    assert_int_equal(file_read(path, fd, 0, 1, bytes, &err), RN_ERR_IO);
    free(bytes);
    unlink(path);
}

CASE(a_file_that_cannot_be_mapped_leaves_no_descriptor) {
    struct file_map map;
    int fd = 7;
    const int lowest = dup(0);
    close(lowest);
    assert_int_equal(file_map_open_read(folder, &map, &fd, NULL), RN_ERR_IO);
    assert_int_equal(fd, -1);
    write_file("abc", 3);
    assert_int_equal(file_map_open(path, &map, NULL), RN_OK);
    file_map_close(&map);
    unlink(path);
    const int after = dup(0);
    close(after);
    assert_int_equal(after, lowest);
}

TEST_PROGRAM(file) { return cases_run(folder_make, folder_remove); }
