// The history file. Nothing here prints: a conversation works as well without it.
#include "run/past.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_LIMIT = 4096, FILE_LIMIT = 64 << 20 };

// Makes the folders of path that are missing, each for the user alone.
static bool folders_make(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        *slash = '/';
        if (failed) return false;
    }
    return true;
}

// NULL: there is no place for it.
static char *path_find(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const bool has_state = state && state[0] == '/'; // others are to be ignored
    if (!has_state && !(home && home[0] == '/')) return NULL;
    char path[PATH_LIMIT];
    const int len = snprintf(path, sizeof path, "%s%s/runnel/history", has_state ? state : home,
                             has_state ? "" : "/.local/state");
    if (len < 0 || len >= PATH_LIMIT || !folders_make(path)) return NULL;
    return strdup(path);
}

// ---------------------------------------------------------------- reading

// Undoes the escapes in place; returns the length.
static size_t unescape(char *line, size_t len) {
    size_t to = 0;
    for (size_t i = 0; i < len; i++) {
        const bool escaped = line[i] == '\\' && i + 1 < len;
        if (escaped) i++;
        line[to++] = escaped && line[i] == 'n' ? '\n' : line[i];
    }
    return to;
}

// The last `keep` lines of the text; *count is how many it has.
static const char *lines_last(const char *data, size_t len, size_t keep, size_t *count) {
    *count = 0;
    for (size_t i = 0; i < len; i++) *count += data[i] == '\n';
    const char *at = data;
    for (size_t skip = *count > keep ? *count - keep : 0; skip; skip--) {
        at = (const char *)memchr(at, '\n', len - (size_t)(at - data)) + 1;
    }
    return at;
}

// Rewrites a file that has grown too long to its last messages; a reader sees the old one or the
// new one.
static void file_cut(const char *path, const char *data, size_t len) {
    char temporary[PATH_LIMIT + 8];
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    const int fd = mkstemp(temporary); // mode 0600
    if (fd < 0) return;
    FILE *file = fdopen(fd, "wb");
    if (!file) close(fd);
    const bool written = file && fwrite(data, 1, len, file) == len;
    const bool closed = file && fclose(file) == 0;
    if (!written || !closed || rename(temporary, path) != 0) unlink(temporary);
}

static void lines_hand_out(char *data, size_t len, past_fn fn, void *ctx) {
    for (char *line = data; line < data + len;) {
        char *end = memchr(line, '\n', len - (size_t)(line - data));
        if (!end) break; // half a line: another program is writing it
        fn(ctx, line, unescape(line, (size_t)(end - line)));
        line = end + 1;
    }
}

void past_open(struct past *past, past_fn fn, void *ctx) {
    past->path = path_find();
    const int fd =
        past->path ? open(past->path, O_RDONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0600) : -1;
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        if (fd >= 0) close(fd);
        past_close(past);
        return;
    }
    const size_t size = info.st_size < FILE_LIMIT ? (size_t)info.st_size : FILE_LIMIT;
    char *data = malloc(size + 1);
    const ssize_t len = data ? read(fd, data, size) : -1;
    close(fd);
    if (len > 0) {
        size_t count;
        const char *last = lines_last(data, (size_t)len, PAST_SIZE, &count);
        const size_t last_len = (size_t)(data + len - last);
        if (count > 2 * PAST_SIZE) file_cut(past->path, last, last_len);
        lines_hand_out(data + (last - data), last_len, fn, ctx);
    }
    free(data);
}

// ---------------------------------------------------------------- writing

void past_add(const struct past *past, const char *message, size_t len) {
    char *line = past->path ? malloc(2 * len + 1) : NULL;
    if (!line) return;
    size_t to = 0;
    for (size_t i = 0; i < len; i++) {
        const char c = message[i];
        if (c == '\n' || c == '\\') line[to++] = '\\';
        line[to++] = c == '\n' ? 'n' : c;
    }
    line[to++] = '\n';
    // one write, so that lines of two programs do not mix
    const int fd = open(past->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        const ssize_t written = write(fd, line, to);
        (void)written;
        close(fd);
    }
    free(line);
}

void past_close(struct past *past) {
    free(past->path);
    past->path = NULL;
}
