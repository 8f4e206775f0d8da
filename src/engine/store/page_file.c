// See page_file.h.
#define _GNU_SOURCE 1
#include "engine/store/page_file.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/entropy.h"

enum {
    STALE_S = 15 * 60, // a file that was being written so long ago has no writer any more
    NAME_BYTES = 96,
};

// ---------------------------------------------------------------- the system

// Not to wait for the other end of a pipe that somebody put there: it is read as an empty file.
static int system_open(void *ctx, int dir, const char *name, int flags) {
    (void)ctx;
    return openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
}
static ssize_t system_read(void *ctx, int fd, void *to, size_t n) {
    (void)ctx;
    return read(fd, to, n);
}
static ssize_t system_write(void *ctx, int fd, const void *from, size_t n) {
    (void)ctx;
    return write(fd, from, n);
}
static int system_rename(void *ctx, int dir, const char *from, const char *to) {
    (void)ctx;
    return renameat(dir, from, dir, to);
}
static int system_unlink(void *ctx, int dir, const char *name) {
    (void)ctx;
    return unlinkat(dir, name, 0);
}
static int system_mkdir(void *ctx, int dir, const char *name) {
    (void)ctx;
    return mkdirat(dir, name, 0700);
}
const struct page_io page_io_system = {.open = system_open,
                                       .read = system_read,
                                       .write = system_write,
                                       .rename = system_rename,
                                       .unlink = system_unlink,
                                       .mkdir = system_mkdir};

static int write_all(const struct page_dir *dir, int fd, const void *from, size_t n) {
    for (size_t done = 0; done < n;) {
        const ssize_t some =
            dir->io->write(dir->io->ctx, fd, (const uint8_t *)from + done, n - done);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) return some < 0 ? errno : EIO;
        done += (size_t)some;
    }
    return 0;
}

// The bytes that were there, up to n; -1: the system failed.
static ssize_t read_all(const struct page_dir *dir, int fd, void *to, size_t n) {
    size_t done = 0;
    while (done < n) {
        const ssize_t some = dir->io->read(dir->io->ctx, fd, (uint8_t *)to + done, n - done);
        if (some < 0 && errno == EINTR) continue;
        if (some < 0) return -1;
        if (some == 0) break;
        done += (size_t)some;
    }
    return (ssize_t)done;
}

// ---------------------------------------------------------------- the folder

static bool is_of_disk(int code) { return code == EROFS || code == ENOSPC || code == EDQUOT; }

rn_status page_dir_open(const char *path, const struct page_io *io, struct page_dir *out,
                        rn_error *err) {
    char text[128];
    int code = 0;
    *out = (struct page_dir){.fd = -1, .io = io ? io : &page_io_system, .salt = entropy_u64()};
    if (mkdir(path, 0700) != 0 && errno != EEXIST) code = errno;
    if (is_of_disk(code)) out->refusal = code;
    if (code == 0 || is_of_disk(code)) {
        out->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (out->fd < 0 && errno == ENOENT && code) return RN_OK; // it would have to be made
        code = out->fd < 0 || faccessat(out->fd, ".", R_OK | W_OK | X_OK, 0) != 0 ? errno : 0;
        if (is_of_disk(code)) out->refusal = code;
    }
    if (code && !is_of_disk(code)) {
        page_dir_close(out);
        return err_set(err, RN_ERR_ARG, "page store %s: %s", err_path(path),
                       strerror_r(code, text, sizeof text));
    }
    static const char *const folders[] = {"tmp", "models", "slots"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        out->io->mkdir(out->io->ctx, out->fd, folders[i]);
    return RN_OK;
}

void page_dir_close(struct page_dir *dir) {
    if (dir->fd >= 0) close(dir->fd);
    dir->fd = -1;
}

bool page_dir_is_open_to_all(const struct page_dir *dir) {
    struct stat info;
    return fstat(dir->fd, &info) == 0 && (info.st_mode & S_IWOTH);
}

static void hex_of(const struct page_key *key, char out[2 * SHA256_BYTES + 1]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < SHA256_BYTES; i++) {
        out[2 * i] = digits[key->at[i] >> 4];
        out[2 * i + 1] = digits[key->at[i] & 15];
    }
    out[2 * SHA256_BYTES] = 0;
}

static void name_of(const struct page_name *name, char out[NAME_BYTES]) {
    char hex[2 * SHA256_BYTES + 1];
    hex_of(&name->key, hex);
    snprintf(out, NAME_BYTES, "%.2s/%s-%d", hex, hex, name->group);
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool name_read(const char *text, struct page_name *out) {
    for (int i = 0; i < SHA256_BYTES; i++) {
        const int high = digit_of(text[2 * i]);
        const int low = high < 0 ? -1 : digit_of(text[2 * i + 1]);
        if (low < 0) return false;
        out->key.at[i] = (uint8_t)(high << 4 | low);
    }
    const char *rest = text + 2 * SHA256_BYTES;
    if (rest[0] != '-' || rest[1] < '0' || rest[1] > '9' || rest[2]) return false;
    out->group = rest[1] - '0';
    return true;
}

static void part_name(int part, char out[4]) { snprintf(out, 4, "%02x", (unsigned)part & 255); }

static int64_t ns_of(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t page_dir_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ns_of(now);
}

int64_t page_dir_changed(const struct page_dir *dir, int part) {
    char name[4];
    struct stat info;
    part_name(part, name);
    return fstatat(dir->fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 ? ns_of(info.st_mtim) : 0;
}

// An open folder's entries; NULL: there is none.
static DIR *folder_open(const struct page_dir *dir, const char *name) {
    const int fd = openat(dir->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !folder) close(fd);
    return folder;
}

bool page_dir_scan(const struct page_dir *dir, int part, page_found_fn found, void *ctx) {
    char text[4];
    part_name(part, text);
    DIR *folder = folder_open(dir, text);
    if (!folder) return errno == ENOENT;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        struct page_name name;
        struct stat info;
        if (!name_read(entry->d_name, &name) || name.key.at[0] != part) continue;
        if (fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (!S_ISREG(info.st_mode) || info.st_size <= (off_t)sizeof(struct page_record)) continue;
        found(ctx, &name, (uint64_t)info.st_size - sizeof(struct page_record), ns_of(info.st_mtim));
    }
    closedir(folder);
    return true;
}

void page_dir_clean(const struct page_dir *dir) {
    const int64_t now = page_dir_now();
    DIR *folder = folder_open(dir, "tmp");
    if (!folder) return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        struct stat info;
        char name[NAME_BYTES];
        if (strlen(entry->d_name) > 32 || entry->d_name[0] == '.') continue;
        if (fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (!S_ISREG(info.st_mode) || now - ns_of(info.st_mtim) < STALE_S * INT64_C(1000000000))
            continue;
        snprintf(name, sizeof name, "tmp/%.32s", entry->d_name);
        dir->io->unlink(dir->io->ctx, dir->fd, name);
    }
    closedir(folder);
}

// ---------------------------------------------------------------- writing

// Writes a file of two parts under its name, or leaves none.
static int put(struct page_dir *dir, const char *name, const struct page_record *record,
               const void *bytes, size_t n) {
    const struct page_io *io = dir->io;
    char tmp[NAME_BYTES];
    snprintf(tmp, sizeof tmp, "tmp/%016llx-%llu", (unsigned long long)dir->salt,
             (unsigned long long)dir->n_tmp++);
    int fd = io->open(io->ctx, dir->fd, tmp, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0 && errno == ENOENT) { // somebody emptied the folder, or the disk was full at first
        io->mkdir(io->ctx, dir->fd, "tmp");
        fd = io->open(io->ctx, dir->fd, tmp, O_WRONLY | O_CREAT | O_EXCL);
    }
    if (fd < 0) return errno;
    int code = write_all(dir, fd, record, sizeof *record);
    if (!code) code = write_all(dir, fd, bytes, n);
    if (close(fd) != 0 && !code) code = errno; // some systems say only now that the disk is full
    if (!code && io->rename(io->ctx, dir->fd, tmp, name) != 0) {
        code = errno;
        if (code == ENOENT) { // the first page of its folder
            char folder[NAME_BYTES];
            snprintf(folder, sizeof folder, "%.*s", (int)strcspn(name, "/"), name);
            io->mkdir(io->ctx, dir->fd, folder);
            code = io->rename(io->ctx, dir->fd, tmp, name) != 0 ? errno : 0;
        }
    }
    if (code) io->unlink(io->ctx, dir->fd, tmp);
    return code;
}

int page_file_put(struct page_dir *dir, const struct page_facts *facts, const void *bytes) {
    struct page_record record;
    char name[NAME_BYTES];
    page_record_fill(&record, PAGE_RECORD_PAGE, facts, bytes);
    name_of(&facts->name, name);
    return put(dir, name, &record, bytes, (size_t)facts->bytes);
}

// ---------------------------------------------------------------- reading

// Opens a page's file and reads its record.
static enum page_file_status record_read(const struct page_dir *dir, const struct page_name *name,
                                         int *fd, struct page_record *record) {
    char text[NAME_BYTES];
    struct stat info;
    name_of(name, text);
    *fd = dir->io->open(dir->io->ctx, dir->fd, text, O_RDONLY);
    if (*fd < 0) return errno == ENOENT ? PAGE_FILE_MISSING : PAGE_FILE_ERROR;
    const ssize_t n = read_all(dir, *fd, record, sizeof *record);
    if (n < 0 || fstat(*fd, &info) != 0) return PAGE_FILE_ERROR;
    if (n < (ssize_t)sizeof *record || !page_record_is(record, PAGE_RECORD_PAGE))
        return PAGE_FILE_BAD;
    const uint64_t bytes = le64toh(record->bytes);
    const bool is_whole = info.st_size >= 0 && bytes <= (uint64_t)info.st_size &&
                          (uint64_t)info.st_size == sizeof *record + bytes;
    return is_whole && page_record_is_of(record, name) ? PAGE_FILE_OK : PAGE_FILE_BAD;
}

enum page_file_status page_file_get(const struct page_dir *dir, const struct page_name *name,
                                    uint64_t bytes, struct page_record *out, void *to) {
    int fd;
    enum page_file_status status = record_read(dir, name, &fd, out);
    if (status == PAGE_FILE_OK && le64toh(out->bytes) != bytes) status = PAGE_FILE_BAD;
    if (status == PAGE_FILE_OK) {
        const ssize_t n = read_all(dir, fd, to, (size_t)bytes);
        if (n < 0)
            status = PAGE_FILE_ERROR;
        else if ((uint64_t)n < bytes || !page_record_has(out, to, (size_t)bytes))
            status = PAGE_FILE_BAD;
    }
    if (fd >= 0) close(fd);
    return status;
}

enum page_file_status page_file_facts(const struct page_dir *dir, const struct page_name *name,
                                      struct page_facts *out) {
    struct page_record record;
    int fd;
    const enum page_file_status status = record_read(dir, name, &fd, &record);
    if (fd >= 0) close(fd);
    if (status == PAGE_FILE_OK) *out = page_record_facts(&record);
    return status;
}

void page_file_remove(const struct page_dir *dir, const struct page_name *name) {
    char text[NAME_BYTES];
    name_of(name, text);
    dir->io->unlink(dir->io->ctx, dir->fd, text);
}

void page_file_touch(const struct page_dir *dir, const struct page_name *name) {
    char text[NAME_BYTES];
    name_of(name, text);
    utimensat(dir->fd, text, NULL, AT_SYMLINK_NOFOLLOW);
}

// ---------------------------------------------------------------- small files

void page_small_name(const char *folder, const struct page_key *key, char out[PAGE_SMALL_NAME]) {
    char hex[2 * SHA256_BYTES + 1];
    hex_of(key, hex);
    snprintf(out, PAGE_SMALL_NAME, "%.8s/%s", folder, hex);
}

void page_small_group_name(const char *folder, const struct page_key *group,
                           const struct page_key *key, char out[PAGE_SMALL_NAME]) {
    enum { GROUP_DIGITS = 16 };
    char hex[2 * SHA256_BYTES + 1], digits[2 * SHA256_BYTES + 1];
    hex_of(key, hex);
    hex_of(group, digits);
    snprintf(out, PAGE_SMALL_NAME, "%.8s/%.*s-%s", folder, GROUP_DIGITS, digits, hex);
}

bool page_small_has(const struct page_dir *dir, const char *name) {
    return faccessat(dir->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// The files of a folder, or the ones that start alike, and the oldest of them.
struct shelf {
    int n;
    int64_t used_ns;
    char oldest[PAGE_SMALL_NAME];
};

// stays: the name cannot be the oldest.
static void shelf_add(struct shelf *shelf, const char *name, int64_t used_ns, bool stays) {
    shelf->n++;
    if (stays || (*shelf->oldest && shelf->used_ns <= used_ns)) return;
    shelf->used_ns = used_ns;
    snprintf(shelf->oldest, sizeof shelf->oldest, "%.*s", (int)sizeof shelf->oldest - 1, name);
}

// prefix: a name, which stays; it starts as the names in `alike` do, by [len].
static bool shelves_read(const struct page_dir *dir, const char *folder, const char *prefix,
                         size_t len, struct shelf *alike, struct shelf *all) {
    *alike = *all = (struct shelf){0};
    DIR *open = folder_open(dir, folder);
    if (!open) return false;
    for (const struct dirent *entry; (entry = readdir(open));) {
        struct stat info;
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= PAGE_SMALL_NAME - 8) continue;
        if (fstatat(dirfd(open), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        const bool stays = !strcmp(entry->d_name, prefix);
        shelf_add(all, entry->d_name, ns_of(info.st_mtim), stays);
        if (!strncmp(entry->d_name, prefix, len))
            shelf_add(alike, entry->d_name, ns_of(info.st_mtim), stays);
    }
    closedir(open);
    return true;
}

void page_small_age(const struct page_dir *dir, const char *name, int most_alike, int most) {
    const char *prefix = strchr(name, '/') + 1, *dash = strchr(prefix, '-');
    char folder[PAGE_SMALL_NAME], path[2 * PAGE_SMALL_NAME];
    struct shelf alike, all;
    snprintf(folder, sizeof folder, "%.*s", (int)(prefix - 1 - name), name);
    const size_t len = dash ? (size_t)(dash + 1 - prefix) : 0;
    while (shelves_read(dir, folder, prefix, len, &alike, &all)) {
        const bool is_full = alike.n > most_alike;
        if (!is_full && all.n <= most) break;
        snprintf(path, sizeof path, "%s/%s", folder, is_full ? alike.oldest : all.oldest);
        if (dir->io->unlink(dir->io->ctx, dir->fd, path) != 0 && errno != ENOENT) break;
    }
}

void page_small_touch(const struct page_dir *dir, const char *name) {
    utimensat(dir->fd, name, NULL, AT_SYMLINK_NOFOLLOW);
}

int page_small_put(struct page_dir *dir, const char *name, const void *data, size_t n) {
    struct page_record record;
    page_record_fill(&record, PAGE_RECORD_NOTE, &(struct page_facts){.bytes = n}, data);
    return put(dir, name, &record, data, n);
}

// The same from an open file; BAD: it is wrong.
static enum page_file_status small_read(const struct page_dir *dir, int fd, void *to, size_t max,
                                        size_t *out) {
    struct page_record record;
    uint8_t more;
    const ssize_t n_record = read_all(dir, fd, &record, sizeof record);
    if (n_record < 0) return PAGE_FILE_ERROR;
    if (n_record < (ssize_t)sizeof record || !page_record_is(&record, PAGE_RECORD_NOTE))
        return PAGE_FILE_BAD;
    if (le64toh(record.bytes) > max) return PAGE_FILE_ERROR;
    *out = (size_t)le64toh(record.bytes);
    const ssize_t n = read_all(dir, fd, to, *out), n_more = read_all(dir, fd, &more, 1);
    if (n < 0 || n_more < 0) return PAGE_FILE_ERROR;
    const bool is_whole = n == (ssize_t)*out && n_more == 0;
    return is_whole && page_record_has(&record, to, *out) ? PAGE_FILE_OK : PAGE_FILE_BAD;
}

ssize_t page_small_get(const struct page_dir *dir, const char *name, void *to, size_t max) {
    const int fd = dir->io->open(dir->io->ctx, dir->fd, name, O_RDONLY);
    size_t n = 0;
    if (fd < 0) return -1;
    const enum page_file_status status = small_read(dir, fd, to, max, &n);
    close(fd);
    if (status == PAGE_FILE_BAD) dir->io->unlink(dir->io->ctx, dir->fd, name);
    return status == PAGE_FILE_OK ? (ssize_t)n : -1;
}

bool page_small_remove(const struct page_dir *dir, const char *name) {
    return dir->io->unlink(dir->io->ctx, dir->fd, name) == 0;
}
