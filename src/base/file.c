// Read-only mappings of whole regular files. The descriptor is closed at once; the mapping lives
// until file_map_close. Called by the readers of weights and of vocabularies.
#define _GNU_SOURCE 1
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static rn_status fail_errno(const char *path, int code, rn_error *err) {
    char text[128];
    return err_set(err, code == ENOMEM ? RN_ERR_NOMEM : RN_ERR_IO, "%s: %s", err_path(path),
                   strerror_r(code, text, sizeof text));
}

static rn_status descriptor_map(const char *path, int fd, struct file_map *out, rn_error *err) {
    struct stat info;
    if (fstat(fd, &info) != 0) return fail_errno(path, errno, err);
    if (S_ISDIR(info.st_mode)) {
        return err_set(err, RN_ERR_IO, "%s: is a directory, not a model file", err_path(path));
    }
    if (!S_ISREG(info.st_mode))
        return err_set(err, RN_ERR_IO, "%s: is not a regular file", err_path(path));
    if (info.st_size == 0) return err_set(err, RN_ERR_MODEL, "%s: is empty", err_path(path));

    const size_t size = (size_t)info.st_size;
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return fail_errno(path, errno, err);
    *out = (struct file_map){.data = data, .size = size};
    return RN_OK;
}

rn_status file_map_open(const char *path, struct file_map *out, rn_error *err) {
    *out = (struct file_map){0};
    // Without O_NONBLOCK, opening a FIFO waits for a writer that may never come.
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail_errno(path, errno, err);
    const rn_status status = descriptor_map(path, fd, out, err);
    close(fd);
    return status;
}

rn_status file_map_open_optional(const char *path, size_t max, struct file_map *out,
                                 rn_error *err) {
    struct stat info;
    *out = (struct file_map){0};
    if (lstat(path, &info) != 0 && errno == ENOENT) return RN_OK;
    const rn_status status = file_map_open(path, out, err);
    if (status != RN_OK || out->size <= max) return status;
    const size_t size = out->size;
    file_map_close(out);
    return err_set(err, RN_ERR_MODEL, "%s: has %zu bytes, expected at most %zu", err_path(path),
                   size, max);
}

void file_map_close(struct file_map *map) {
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (struct file_map){0};
}
