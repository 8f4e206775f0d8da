// Read-only file mappings.
#ifndef RN_BASE_FILE_H
#define RN_BASE_FILE_H

#include "base/status.h"

struct file_map {
    const uint8_t *data;
    size_t size;
};

// Fails with the path and the reason (missing, a directory, not a regular file, empty).
rn_status file_map_open(const char *path, struct file_map *out, rn_error *err);
// A file that a folder may do without: where it is not there, *out is empty (data NULL). A link to
// nowhere is there, and fails; so do more than max bytes.
rn_status file_map_open_optional(const char *path, size_t max, struct file_map *out, rn_error *err);
void file_map_close(struct file_map *map);

#endif
