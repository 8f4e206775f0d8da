// Regular files as memory, and reads of their parts into memory of the caller's. No file is mapped:
// a mapping of a file that somebody cuts raises a signal, and one that somebody writes to changes.
// Called by the readers of weights and of vocabularies.
#define _GNU_SOURCE 1
#include "base/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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

static rn_status descriptor_reserve(const char *path, int fd, struct file_image *out,
                                    rn_error *err) {
    struct stat info;
    if (fstat(fd, &info) != 0) return fail_errno(path, errno, err);
    if (S_ISDIR(info.st_mode)) {
        return err_set(err, RN_ERR_IO, "%s: is a directory, not a model file", err_path(path));
    }
    if (!S_ISREG(info.st_mode))
        return err_set(err, RN_ERR_IO, "%s: is not a regular file", err_path(path));
    if (info.st_size == 0) return err_set(err, RN_ERR_MODEL, "%s: is empty", err_path(path));

    const size_t size = (size_t)info.st_size;
    void *data = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return fail_map(path, size, errno, err);
    *out = (struct file_image){.data = data, .size = size};
    return RN_OK;
}

rn_status file_image_reserve(const char *path, struct file_image *out, int *fd, rn_error *err) {
    *out = (struct file_image){0};
    // Without O_NONBLOCK, opening a FIFO waits for a writer that may never come.
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return fail_open(path, errno, err);
    const rn_status status = descriptor_reserve(path, *fd, out, err);
    if (status != RN_OK) file_close(fd);
    return status;
}

// Whole pages around a part of the image: *from to *to.
static void pages_of(const struct file_image *image, uint64_t at, uint64_t bytes, uint64_t *from,
                     uint64_t *to) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = at + bytes;
    assert(at <= image->size && bytes <= image->size - at);
    *from = at / page * page;
    *to = end == image->size || end % page == 0 ? end : end + page - end % page;
    if (*to > image->size) *to = image->size;
}

rn_status file_image_bring(const struct file_image *image, const char *path, int fd, uint64_t at,
                           uint64_t bytes, rn_error *err) {
    uint64_t from, to;
    if (bytes == 0) return RN_OK;
    pages_of(image, at, bytes, &from, &to);
    uint8_t *data = (uint8_t *)(uintptr_t)image->data + from;
    if (mprotect(data, to - from, PROT_READ | PROT_WRITE) != 0) return fail_errno(path, errno, err);
    return file_read(path, fd, from, to - from, data, err);
}

void file_image_drop(const struct file_image *image, uint64_t at, uint64_t bytes) {
    uint64_t from, to;
    if (bytes == 0) return;
    pages_of(image, at, bytes, &from, &to);
    uint8_t *data = (uint8_t *)(uintptr_t)image->data + from;
    madvise(data, to - from, MADV_DONTNEED);
    mprotect(data, to - from, PROT_NONE); // if it fails, the bytes read as zeros
}

rn_status file_image_open(const char *path, size_t max, struct file_image *out, rn_error *err) {
    int fd;
    rn_status status = file_image_reserve(path, out, &fd, err);
    if (status == RN_OK && out->size > max)
        status = err_set(err, RN_ERR_MODEL, "%s: has %zu bytes, expected at most %zu",
                         err_path(path), out->size, max);
    if (status == RN_OK) status = file_image_bring(out, path, fd, 0, out->size, err);
    file_close(&fd);
    if (status != RN_OK) file_image_close(out);
    return status;
}

rn_status file_image_open_optional(const char *path, size_t max, struct file_image *out,
                                   rn_error *err) {
    struct stat info;
    *out = (struct file_image){0};
    if (lstat(path, &info) != 0 && errno == ENOENT) return RN_OK;
    return file_image_open(path, max, out, err);
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

static void time_text(int64_t ns, char *text, size_t size) {
    const time_t seconds = (time_t)(ns / 1000000000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    if (!strftime(text, size, "%Y-%m-%d %H:%M:%S UTC", &parts)) *text = '\0';
}

rn_status file_check_same(const char *path, int fd, const struct file_stamp *stamp, rn_error *err) {
    struct file_stamp now;
    char when[40];
    const rn_status status = file_stamp(path, fd, &now, err);
    if (status) return status;
    if (now.size == stamp->size && now.modified_ns == stamp->modified_ns) return RN_OK;
    time_text(now.modified_ns, when, sizeof when);
    return err_set(err, RN_ERR_IO,
                   "%s: changed since it was opened: has %" PRIu64 " bytes, had %" PRIu64
                   "; last written %s",
                   err_path(path), now.size, stamp->size, when);
}

void file_image_close(struct file_image *image) {
    if (image->data) munmap((void *)(uintptr_t)image->data, image->size);
    *image = (struct file_image){0};
}
