// How a program of this folder ends when it cannot go on. The including file defines PROGRAM, its
// name.
#ifndef RN_TESTS_DATA_DIE_H
#define RN_TESTS_DATA_DIE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs(PROGRAM ": ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    exit(1);
}

static inline void *must(void *memory) {
    if (!memory) die("out of memory");
    return memory;
}

static inline FILE *must_open(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (!file) die("%s cannot be opened", path);
    return file;
}

// Under another name first, so that an interrupted build leaves no half of a file.
static inline void file_write(const char *path, const void *data, size_t bytes) {
    char part[1024];
    snprintf(part, sizeof part, "%s.part", path);
    FILE *file = must_open(part, "wb");
    const bool whole = fwrite(data, 1, bytes, file) == bytes;
    if (fclose(file) || !whole || rename(part, path)) die("%s cannot be written", path);
}

#endif
