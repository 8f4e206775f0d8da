// The identity of a model: its hash changes with every byte of its file, and a file that changed is
// noticed. A remembered hash is found by a stamp, which a change of the file changes too.
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "weights/weights.h"

static const char source[] = TEST_DATA "/golden/llama/model.gguf";

static void copy_file(const char *to) {
    char command[600];
    snprintf(command, sizeof command, "cp %s %s", source, to);
    assert_int_equal(system(command), 0);
}

static void hash_of(const char *path, uint8_t out[WEIGHTS_HASH]) {
    struct weights *weights;
    rn_error err = {0};
    check(weights_open(path, &weights, &err) == RN_OK, "%s", err.message);
    check(weights_hash(weights, NULL, out, &err) == RN_OK, "%s", err.message);
    weights_close(weights);
}

static void flip(const char *path, off_t at) {
    uint8_t byte;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

CASE(every_byte_matters) {
    static const char path[] = "test-hash.gguf";
    uint8_t want[WEIGHTS_HASH], got[WEIGHTS_HASH];
    struct stat info;
    copy_file(path);
    assert_int_equal(stat(path, &info), 0);
    hash_of(source, want);
    hash_of(path, got);
    assert_memory_equal(got, want, sizeof want); // another place of the same bytes
    for (int i = 0; i < 20; i++) { // the weights of the second half: the header stays readable
        const off_t at = info.st_size / 2 + (info.st_size / 2 - 1) * i / 19;
        flip(path, at);
        hash_of(path, got);
        assert_true(memcmp(got, want, sizeof want) != 0);
        flip(path, at);
    }
    hash_of(path, got);
    assert_memory_equal(got, want, sizeof want);
    unlink(path);
}

CASE(a_file_that_changes_after_it_was_opened_is_refused) {
    static const char path[] = "test-hash-2.gguf";
    uint8_t hash[WEIGHTS_HASH], stamp[WEIGHTS_STAMP];
    struct weights *weights;
    rn_error err = {0};
    struct stat info;
    copy_file(path);
    assert_int_equal(weights_open(path, &weights, &err), RN_OK);
    assert_false(weights_stamp(weights, stamp)); // too young
    assert_int_equal(weights_hash(weights, NULL, hash, &err), RN_OK);
    assert_int_equal(stat(path, &info), 0);
    usleep(20000); // clocks of files have grains
    flip(path, info.st_size - 1);
    // its times are as they were, but for the one that nobody can set
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(weights_hash(weights, NULL, hash, &err), RN_ERR_IO);
    assert_non_null(strstr(err.message, "changed since it was opened"));
    weights_close(weights);
    unlink(path);
}

CASE(a_stamp_is_of_a_file_that_was_left_alone) {
    uint8_t a[WEIGHTS_STAMP], b[WEIGHTS_STAMP];
    struct weights *weights;
    rn_error err = {0};
    assert_int_equal(weights_open(source, &weights, &err), RN_OK);
    assert_true(weights_stamp(weights, a) && weights_stamp(weights, b));
    assert_memory_equal(a, b, sizeof a);
    weights_close(weights);
    assert_int_equal(weights_open(TEST_DATA "/golden/gemma3/model.gguf", &weights, &err), RN_OK);
    assert_true(weights_stamp(weights, b) && memcmp(a, b, sizeof a) != 0);
    weights_close(weights);
}

CASE(hashing_stops_when_it_is_told_to) {
    uint8_t hash[WEIGHTS_HASH];
    struct weights *weights;
    rn_error err = {0};
    _Atomic bool stop = true;
    assert_int_equal(weights_open(source, &weights, &err), RN_OK);
    assert_int_equal(weights_hash(weights, &stop, hash, &err), RN_ERR_CANCELLED);
    weights_close(weights);
}

TEST_PROGRAM(weights_hash) { return cases_run(NULL, NULL); }
