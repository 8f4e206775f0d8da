// Files as memory: the bytes, the refusals, what happens to a file afterwards, and reads.
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
    struct file_image image;
    rn_error err = {0};
    assert_int_equal(file_image_open(at, SIZE_MAX, &image, &err), status);
    char expected[256];
    snprintf(expected, sizeof expected, "%s: %s", at, tail);
    assert_string_equal(err.message, expected);
    assert_null(image.data);
    file_image_close(&image);
    assert_int_equal(file_image_open(at, SIZE_MAX, &image, NULL), status);
}

CASE(an_image_holds_the_bytes_of_the_file) {
    write_file("hello\0world", 11);
    struct file_image image;
    assert_int_equal(file_image_open(path, SIZE_MAX, &image, NULL), RN_OK);
    assert_int_equal(image.size, 11);
    assert_memory_equal(image.data, "hello\0world", 11);
    file_image_close(&image);
    assert_null(image.data);
    file_image_close(&image);
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
    struct file_image image = {.size = 7};
    rn_error err = {0};
    unlink(path);
    assert_int_equal(file_image_open_optional(path, 3, &image, &err), RN_OK);
    assert_true(image.data == NULL && image.size == 0);
    write_file("abc", 3);
    assert_int_equal(file_image_open_optional(path, 3, &image, &err), RN_OK);
    assert_memory_equal(image.data, "abc", 3);
    file_image_close(&image);
    assert_int_equal(file_image_open_optional(path, 2, &image, &err), RN_ERR_MODEL);
    assert_non_null(strstr(err.message, "file: has 3 bytes, expected at most 2"));
    assert_null(image.data);
    unlink(path);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(file_image_open_optional(path, 3, &image, &err), RN_ERR_IO);
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

CASE(reads_give_the_bytes) {
    static const int parts[][2] = {{0, N_LARGE}, {1, 4097}, {N_LARGE - 1, 1}, {5000, 0}};
    uint8_t *bytes = write_large(), *read = malloc(N_LARGE);
    assert_non_null(read);
    struct file_image image;
    int fd;
    assert_int_equal(file_image_reserve(path, &image, &fd, NULL), RN_OK);
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
    file_image_close(&image);
    file_close(&fd);
    assert_int_equal(fd, -1);
    file_close(&fd);
    free(read);
    free(bytes);
    unlink(path);
}

// Parts come with the pages around them. What was brought stays as it was when the file is cut,
// written over or removed.
CASE(what_was_brought_no_longer_needs_the_file) {
    static const int parts[][2] = {{100, 5}, {200000, 70000}, {N_LARGE - 10, 10}, {7, 0}};
    uint8_t *bytes = write_large();
    for (int damage = 0; damage < 3; damage++) {
        struct file_image image;
        int fd;
        rn_error err = {0};
        write_file((const char *)bytes, N_LARGE);
        assert_int_equal(file_image_reserve(path, &image, &fd, NULL), RN_OK);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            assert_int_equal(file_image_bring(&image, path, fd, (uint64_t)parts[i][0],
                                              (uint64_t)parts[i][1], NULL),
                             RN_OK);
        if (damage == 0) assert_int_equal(truncate(path, 0), 0);
        if (damage == 1) write_file("other bytes", 11);
        if (damage == 2) assert_int_equal(unlink(path), 0);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            assert_memory_equal(image.data + parts[i][0], bytes + parts[i][0], parts[i][1]);
        assert_int_equal(file_image_bring(&image, path, fd, 1 << 20, 100, &err),
                         damage < 2 ? RN_ERR_IO : RN_OK);
        file_image_drop(&image, 0, N_LARGE);
        assert_int_equal(file_image_bring(&image, path, fd, 0, 100, &err),
                         damage < 2 ? RN_ERR_IO : RN_OK);
        file_image_close(&image);
        file_close(&fd);
    }
    free(bytes);
    unlink(path);
}

// A write and a cut are changes. Another name, other rights and no name are none: the bytes are the
// same.
CASE(a_file_that_was_written_to_is_noticed) {
    enum { TOUCH, CHMOD, LINK, RENAME, UNLINK, WRITE, GROW, CUT, N_ACTS };
    char other[160];
    snprintf(other, sizeof other, "%s.other", path);
    for (int act = 0; act < N_ACTS; act++) {
        struct file_image image;
        struct file_stamp stamp;
        int fd;
        rn_error err = {0};
        write_file("some bytes", 10);
        const struct timespec past[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
        assert_int_equal(utimensat(AT_FDCWD, path, past, 0), 0);
        assert_int_equal(file_image_reserve(path, &image, &fd, NULL), RN_OK);
        assert_int_equal(file_stamp(path, fd, &stamp, NULL), RN_OK);
        assert_int_equal(file_check_same(path, fd, &stamp, &err), RN_OK);
        if (act == CHMOD) assert_int_equal(chmod(path, 0600), 0);
        if (act == LINK) assert_int_equal(link(path, other), 0);
        if (act == RENAME) assert_int_equal(rename(path, other), 0);
        if (act == UNLINK) assert_int_equal(unlink(path), 0);
        if (act == TOUCH) assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0);
        if (act == GROW) assert_int_equal(truncate(path, 11), 0);
        if (act == CUT) assert_int_equal(truncate(path, 9), 0);
        if (act == WRITE) {
            const int to = open(path, O_WRONLY);
            assert_int_equal(pwrite(to, "S", 1, 0), 1);
            close(to);
        }
        const bool is_change = act == TOUCH || act >= WRITE;
        assert_int_equal(file_check_same(path, fd, &stamp, &err), is_change ? RN_ERR_IO : RN_OK);
        char want[80];
        snprintf(want, sizeof want, "file: changed since it was opened: has %d bytes, had 10;",
                 act == GROW  ? 11
                 : act == CUT ? 9
                              : 10);
        if (is_change) check(strstr(err.message, want), "%s", err.message);
        file_image_close(&image);
        file_close(&fd);
        unlink(path);
        unlink(other);
    }
}

CASE(a_file_that_was_cut_is_an_error) {
    uint8_t *bytes = write_large();
    struct file_image image;
    int fd;
    rn_error err = {0};
    assert_int_equal(file_image_reserve(path, &image, &fd, NULL), RN_OK);
    assert_int_equal(truncate(path, 70000), 0);
    assert_int_equal(file_read(path, fd, 60000, 20000, bytes, &err), RN_ERR_IO);
    assert_non_null(strstr(err.message, "file: ends at 70000, before 60000 + 20000 bytes"));
    assert_int_equal(file_read(path, fd, 1 << 20, 1, bytes, &err), RN_ERR_IO);
    assert_int_equal(file_read(path, fd, 60000, 10000, bytes, &err), RN_OK);
    file_image_close(&image);
    file_close(&fd);
    assert_int_equal(file_read(path, fd, 0, 1, bytes, &err), RN_ERR_IO);
    free(bytes);
    unlink(path);
}

CASE(a_file_that_cannot_be_read_leaves_no_descriptor) {
    struct file_image image;
    int fd = 7;
    const int lowest = dup(0);
    close(lowest);
    assert_int_equal(file_image_reserve(folder, &image, &fd, NULL), RN_ERR_IO);
    assert_int_equal(fd, -1);
    write_file("abc", 3);
    assert_int_equal(file_image_open(path, SIZE_MAX, &image, NULL), RN_OK);
    file_image_close(&image);
    unlink(path);
    const int after = dup(0);
    close(after);
    assert_int_equal(after, lowest);
}

TEST_PROGRAM(file) { return cases_run(folder_make, folder_remove); }
