// See text_file.h.
#include "models/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The whole file, to be freed; NULL: problem says why.
static char *file_read(const char *path, size_t limit, size_t *len, char *problem, size_t size) {
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0) {
        snprintf(problem, size, "%s", strerror(errno));
        if (fd >= 0) close(fd);
        return NULL;
    }
    char *data = NULL;
    size_t n = 0;
    if (!S_ISREG(info.st_mode)) {
        snprintf(problem, size, "is not a file");
    } else if ((size_t)info.st_size > limit) {
        snprintf(problem, size, "has %lld bytes, expected at most %zu", (long long)info.st_size,
                 limit);
    } else if (!(data = malloc(limit + 1))) {
        snprintf(problem, size, "out of memory");
    }
    for (ssize_t got = 1; data && got > 0 && n<limit; n += got> 0 ? (size_t)got : 0)
        got = read(fd, data + n, limit - n);
    close(fd);
    if (data) data[n] = '\0';
    *len = n;
    return data;
}

bool text_file_line(const char *path, char *out, size_t size) {
    char problem[64];
    size_t len = 0;
    *out = '\0';
    char *text = file_read(path, size - 1, &len, problem, sizeof problem);
    if (!text) return false;
    len = strcspn(text, "\r\n");
    while (len && (text[len - 1] == ' ' || text[len - 1] == '\t')) len--;
    memcpy(out, text, len);
    out[len] = '\0';
    free(text);
    return true;
}

json_t *text_file_object(const char *path, size_t limit, char *problem, size_t size) {
    size_t len = 0;
    json_error_t error;
    char *text = file_read(path, limit, &len, problem, size);
    if (!text) return NULL;
    json_t *object = json_loadb(text, len, 0, &error);
    free(text);
    if (!object)
        snprintf(problem, size, "is not JSON: line %d: %s", error.line, error.text);
    else if (!json_is_object(object))
        snprintf(problem, size, "is not a JSON object");
    if (object && !json_is_object(object)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

bool text_file_member(const char *path, size_t limit, const char *key, char *out, size_t size) {
    char problem[256];
    json_t *object = text_file_object(path, limit, problem, sizeof problem);
    const char *value = json_string_value(json_object_get(object, key));
    const int len = snprintf(out, size, "%s", value ? value : "");
    if (len >= (int)size) *out = '\0';
    json_decref(object);
    return *out != '\0';
}
