// Files for tests: reading and writing whole files, the checksum of rebuilt files, and temporary
// folders. A folder is made in the working directory and removed with its contents. A failure fails
// the test. Also tests made from a list, one for each entry.
#ifndef RN_TESTS_DATA_FILE_H
#define RN_TESTS_DATA_FILE_H

#include <dirent.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

enum { DATA_PATH_BYTES = 512 };

struct data_file {
    uint8_t *data;
    size_t size;
};

// A file, or nothing (NULL) where there is none. The caller frees data.
static inline struct data_file data_file_find(const char *path) {
    struct data_file file = {0};
    struct stat info;
    FILE *stream = fopen(path, "rb");
    if (!stream) return file;
    assert_int_equal(fstat(fileno(stream), &info), 0);
    file.size = (size_t)info.st_size;
    file.data = malloc(file.size + 1);
    assert_non_null(file.data);
    check(fread(file.data, 1, file.size, stream) == file.size, "%s", path);
    file.data[file.size] = 0; // so that text may be read as a string
    fclose(stream);
    return file;
}

static inline struct data_file data_file_read(const char *path) {
    const struct data_file file = data_file_find(path);
    check(file.data != NULL, "%s", path);
    return file;
}

static inline json_t *data_json_read(const char *path) {
    json_error_t problem;
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, &problem);
    check(json != NULL, "%s: %s", path, problem.text);
    return json;
}

static inline void data_file_write(const char *folder, const char *name, const void *data,
                                   size_t size) {
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *stream = fopen(path, "wb");
    check(stream != NULL, "%s", path);
    check(fwrite(data, 1, size, stream) == size, "%s", path);
    assert_int_equal(fclose(stream), 0);
}

// Copies a file into a folder; false when there is none.
static inline bool data_file_copy(const char *path, const char *folder, const char *name) {
    const struct data_file file = data_file_find(path);
    if (!file.data) return false;
    data_file_write(folder, name, file.data, file.size);
    free(file.data);
    return true;
}

// 64-bit FNV-1a.
static inline uint64_t data_checksum(const void *data, size_t size) {
    const uint8_t *bytes = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

struct data_folder {
    char path[32];
};

static inline struct data_folder data_folder_make(void) {
    struct data_folder folder = {"test-data.XXXXXX"};
    check(mkdtemp(folder.path) != NULL, "%s", folder.path);
    return folder;
}

// Its files with it; folders inside are not expected.
static inline void data_folder_remove(const struct data_folder *folder) {
    DIR *dir = opendir(folder->path);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
    closedir(dir);
    assert_int_equal(rmdir(folder->path), 0);
}

// ---------------------------------------------------------------- lists

enum { DATA_MAX_TESTS = 32 };

typedef bool (*data_filter)(const json_t *entry);

// Runs one test for each entry of a JSON list that the filter keeps (NULL: all). The entry's "name"
// is the test's state and the beginning of its name.
static inline int data_run_tests(const char *list_path, const char *property,
                                 CMUnitTestFunction test, data_filter filter) {
    char names[DATA_MAX_TESTS][2][96];
    struct CMUnitTest tests[DATA_MAX_TESTS] = {0}; // cmocka skips the empty ones
    size_t n = 0, index;
    json_t *list = json_load_file(list_path, 0, NULL);
    const json_t *entry;
    json_array_foreach(list, index, entry) {
        if (filter && !filter(entry)) continue;
        if (n == DATA_MAX_TESTS) return 1;
        const char *name = json_string_value(json_object_get(entry, "name"));
        snprintf(names[n][0], sizeof names[n][0], "%s", name);
        snprintf(names[n][1], sizeof names[n][1], "%s_%s", name, property);
        tests[n] = (struct CMUnitTest){.name = names[n][1],
                                       .test_func = test,
                                       .initial_state = names[n][0]};
        n++;
    }
    json_decref(list);
    return n ? cmocka_run_group_tests_name(property, tests, NULL, NULL) : 1;
}

#endif
