// Runs one file of a module's tests: `test_engine kv` runs engine/test_kv.c, `test_engine kv
// 'a_fork*'` its cases of such names, `test_engine` alone lists the files. TEST_LIST is written by
// CMake: TEST(name) for each file. One process runs one file, so that a crash or a change of the
// process's state stays there.
#include <stdio.h>
#include <string.h>

#include "check.h"

#define TEST(name) int test_file_##name(void);
#include TEST_LIST
#undef TEST

static const struct {
    const char *name;
    int (*run)(void);
} files[] = {
#define TEST(name) {#name, test_file_##name},
#include TEST_LIST
#undef TEST
};
enum { N_FILES = sizeof files / sizeof *files };

int main(int argc, char **argv) {
    if (argc < 2) {
        for (int i = 0; i < N_FILES; i++) puts(files[i].name);
        return 0;
    }
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    for (int i = 0; i < N_FILES; i++)
        if (strcmp(files[i].name, argv[1]) == 0) return files[i].run();
    fprintf(stderr, "%s: no tests of the name %s\n", argv[0], argv[1]);
    return 2;
}
