// Read-only mappings of whole regular files, and reads of their parts into memory of the caller's.
// A mapping lives until file_map_close, with or without its descriptor. Called by the readers of
// weights and of vocabularies.
#define _GNU_SOURCE 1
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { AHEAD_BYTES = 32 << 20 }; // read ahead of a read that had to wait for the disk

static rn_status fail_errno(const char *path, int code, rn_error *err) {
    char text[128];
    return err_set(err, code == ENOMEM ? RN_ERR_NOMEM : RN_ERR_IO, "%s: %s", err_path(path),
                   strerror_r(code, text, sizeof text));
}

// Models of hundreds of files may meet the limit of a shell.
static rn_status fail_open(const char *path, int code, rn_error *err) {
    struct rlimit limit;
    if (code != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0) return fail_errno(path, code, err);
    return err_set(err, RN_ERR_IO,
                   "%s: Too many open files: the limit of this process is %llu (ulimit -n)",
                   err_path(path), (unsigned long long)limit.rlim_cur);
}

static rn_status fail_map(const char *path, size_t size, int code, rn_error *err) {
    char text[128];
    return err_set(err, code == ENOMEM ? RN_ERR_NOMEM : RN_ERR_IO,
                   "%s: its %zu bytes cannot be mapped: %s", err_path(path), size,
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
    if (data == MAP_FAILED) return fail_map(path, size, errno, err);
    *out = (struct file_map){.data = data, .size = size};
    return RN_OK;
}

rn_status file_map_open_read(const char *path, struct file_map *out, int *fd, rn_error *err) {
    *out = (struct file_map){0};
    // Without O_NONBLOCK, opening a FIFO waits for a writer that may never come.
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return fail_open(path, errno, err);
    const rn_status status = descriptor_map(path, *fd, out, err);
    if (status != RN_OK) file_close(fd);
    return status;
}

rn_status file_map_open(const char *path, struct file_map *out, rn_error *err) {
    int fd;
    const rn_status status = file_map_open_read(path, out, &fd, err);
    file_close(&fd);
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

// Cached pages come at once. Where they end, the disk is asked for the bytes ahead, so that it
// works while the caller does.
static ssize_t read_some(int fd, void *dst, size_t bytes, off_t offset, bool *is_late) {
    const struct iovec part = {.iov_base = dst, .iov_len = bytes};
    if (!*is_late) {
        const ssize_t n = preadv2(fd, &part, 1, offset, RWF_NOWAIT);
        if (n > 0) return n;
        *is_late = true;
        posix_fadvise(fd, offset + AHEAD_BYTES, (off_t)bytes, POSIX_FADV_WILLNEED);
    }
    return pread(fd, dst, bytes, offset);
}

rn_status file_read(const char *path, int fd, uint64_t offset, uint64_t bytes, void *dst,
                    rn_error *err) {
    bool is_late = false;
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t at = offset + done;
        const ssize_t n =
            read_some(fd, (uint8_t *)dst + done, (size_t)(bytes - done), (off_t)at, &is_late);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno(path, errno, err);
        if (n == 0)
            return err_set(err, RN_ERR_IO, "%s: ends at %llu, before %llu + %llu bytes",
                           err_path(path), (unsigned long long)at, (unsigned long long)offset,
                           (unsigned long long)bytes);
        done += (uint64_t)n;
    }
    return RN_OK;
}

rn_status file_check_size(const char *path, int fd, uint64_t size, rn_error *err) {
    struct stat info;
    if (fstat(fd, &info) != 0) return fail_errno(path, errno, err);
    if ((uint64_t)info.st_size >= size) return RN_OK;
    return err_set(err, RN_ERR_IO, "%s: has %llu bytes, and had %llu when it was opened",
                   err_path(path), (unsigned long long)info.st_size, (unsigned long long)size);
}

void file_close(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static int64_t ns_of(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

rn_status file_stamp(const char *path, int fd, struct file_stamp *out, rn_error *err) {
    enum { GRAIN_S = 2 };
    struct stat info;
    struct timespec now;
    if (fstat(fd, &info) != 0) return fail_errno(path, errno, err);
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct file_stamp){.device = (uint64_t)info.st_dev,
                               .inode = (uint64_t)info.st_ino,
                               .size = (uint64_t)info.st_size,
                               .modified_ns = ns_of(info.st_mtim),
                               .changed_ns = ns_of(info.st_ctim)};
    out->is_settled = ns_of(now) - out->changed_ns > GRAIN_S * INT64_C(1000000000);
    return RN_OK;
}

bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b) {
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

static void map_advise(const struct file_map *map, int advice) {
    const uintptr_t before = (uintptr_t)map->data % (uintptr_t)sysconf(_SC_PAGESIZE);
    if (map->data) madvise((void *)((uintptr_t)map->data - before), map->size + before, advice);
}

void file_map_drop(const struct file_map *map) { map_advise(map, MADV_DONTNEED); }

void file_map_want(const struct file_map *map) { map_advise(map, MADV_WILLNEED); }

void file_map_close(struct file_map *map) {
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (struct file_map){0};
}
