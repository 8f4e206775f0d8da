// Read-only file mappings, and reads beside them.
#ifndef RN_BASE_FILE_H
#define RN_BASE_FILE_H

#include "base/status.h"

struct file_map {
    const uint8_t *data;
    size_t size;
};

// Fails with the path and the reason (missing, a directory, not a regular file, empty).
rn_status file_map_open(const char *path, struct file_map *out, rn_error *err);
// The same, and the descriptor for file_read, which file_close ends; -1 when it fails.
rn_status file_map_open_read(const char *path, struct file_map *out, int *fd, rn_error *err);
// A file that a folder may do without: where it is not there, *out is empty (data NULL). A dangling
// link exists, and fails; so does a file of more than max bytes.
rn_status file_map_open_optional(const char *path, size_t max, struct file_map *out, rn_error *err);
// Takes the pages of a mapping, or of a part of one, out of this process; they come back from the
// file when touched.
void file_map_drop(const struct file_map *map);
// Asks the disk for the pages of a mapping, or of a part of one, and does not wait.
void file_map_want(const struct file_map *map);
void file_map_close(struct file_map *map);

// Copies a range of the file to dst. Beside a mapping: no page of it becomes resident, and a file
// that was cut since it was mapped is an error, where the mapping would raise a signal. Any number
// of threads may read at once; path is for messages.
rn_status file_read(const char *path, int fd, uint64_t offset, uint64_t bytes, void *dst,
                    rn_error *err);
// RN_ERR_IO: the file has fewer bytes than `size` by now, so that a mapping of them would raise a
// signal.
rn_status file_check_size(const char *path, int fd, uint64_t size, rn_error *err);
void file_close(int *fd); // -1 is fine

// The state of a file: equal stamps mean that nobody changed it in between. A change moves its
// ctime, which no program can set. Clocks have grains: only a file that was left alone for two
// seconds before its stamp was taken has a settled one.
struct file_stamp {
    uint64_t device, inode, size;
    int64_t modified_ns, changed_ns;
    bool is_settled;
};
rn_status file_stamp(const char *path, int fd, struct file_stamp *out, rn_error *err);
bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b);

#endif
