// The bytes of files: images in memory, and reads.
#ifndef RN_BASE_FILE_H
#define RN_BASE_FILE_H

#include "base/status.h"

// Addresses for a whole file, and memory for the parts that were read. Reading elsewhere is a fault
// of the program. What was read stays as it is, whatever happens to the file.
struct file_image {
    const uint8_t *data;
    size_t size;
};

// Reads the file. Fails with the path and the reason (missing, a directory, not a regular file,
// empty, of more than max bytes).
rn_status file_image_open(const char *path, size_t max, struct file_image *out, rn_error *err);
// A file that a folder may do without: where it is not there, *out is empty (data NULL). A dangling
// link exists, and fails.
rn_status file_image_open_optional(const char *path, size_t max, struct file_image *out,
                                   rn_error *err);
// The addresses alone, and the descriptor for reads, which file_close ends; -1 when it fails.
rn_status file_image_reserve(const char *path, struct file_image *out, int *fd, rn_error *err);
// Reads a part of the file to its addresses; bytes of the pages around it come along. One thread at
// a time for an image.
rn_status file_image_bring(const struct file_image *image, const char *path, int fd, uint64_t at,
                           uint64_t bytes, rn_error *err);
// Gives the memory of a part back, with that of the pages around it. The addresses stay.
void file_image_drop(const struct file_image *image, uint64_t at, uint64_t bytes);
void file_image_close(struct file_image *image);

// Copies a range of the file to dst. A file that ends before the range does is an error. Any number
// of threads may read at once; path is for messages.
rn_status file_read(const char *path, int fd, uint64_t offset, uint64_t bytes, void *dst,
                    rn_error *err);
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
// RN_ERR_IO: the file was written to since the stamp was taken: it has another size or modification
// time. Its ctime does not matter here: renaming, unlinking and changing rights move it too.
// A write is noticed from its begin on, but two writes within a tick of the file system's clock (1
// to 10 ms) are one. Writes through a shared mapping are noticed when their first page is touched
// or written back; on tmpfs they are not.
rn_status file_check_same(const char *path, int fd, const struct file_stamp *stamp, rn_error *err);

#endif
