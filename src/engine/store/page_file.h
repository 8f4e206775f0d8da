// Files of a store: a page each, in a folder of their own. Nothing here knows which pages there
// should be.
//
//   DIR/           0700
//     ab/NAME-G    a page: the key in hexadecimal (it starts with ab) and the group; 0600
//     tmp/         files that are being written; a crash leaves them, a later start removes them
//     models/      hashes of models, by the stamps of their files
//     slots/       saved slots: lists of tokens
//
// A file appears under its name by a rename, whole: readers never see a part of it. Nothing is
// synced. A crash of the process loses no file; a crash of the machine may lose the last ones, or
// leave some without their bytes. Every file has a checksum, and a wrong one is removed.
#ifndef RN_ENGINE_STORE_PAGE_FILE_H
#define RN_ENGINE_STORE_PAGE_FILE_H

#include <sys/types.h>

#include "base/status.h"
#include "engine/store/page_record.h"

// The calls that change files or read them, for tests that cut or fail them: as the system's, with
// a context. Names are relative to the folder.
struct page_io {
    void *ctx;
    int (*open)(void *ctx, int dir, const char *name, int flags);
    ssize_t (*read)(void *ctx, int fd, void *to, size_t n);
    ssize_t (*write)(void *ctx, int fd, const void *from, size_t n);
    int (*rename)(void *ctx, int dir, const char *from, const char *to);
    int (*unlink)(void *ctx, int dir, const char *name);
    int (*mkdir)(void *ctx, int dir, const char *name);
};
extern const struct page_io page_io_system;

struct page_dir {
    int fd;
    const struct page_io *io;
    int refusal;   // of a disk that takes nothing: its error when the folder was opened; 0: none
    uint64_t salt; // of the names of files that are being written
    _Atomic uint64_t n_tmp;
};

enum page_file_status {
    PAGE_FILE_OK,
    PAGE_FILE_MISSING,
    PAGE_FILE_BAD,   // wrong bytes: it is to be removed
    PAGE_FILE_ERROR, // the system failed; errno says how
};

// Makes the folder if it is not there; its parent must be. A disk that is full, or that can only be
// read, is no failure: then the folder has a refusal, and no descriptor if it is not there.
rn_status page_dir_open(const char *path, const struct page_io *io, struct page_dir *out,
                        rn_error *err);
void page_dir_close(struct page_dir *dir);
// Whether users other than the owner and the group may add files.
bool page_dir_is_open_to_all(const struct page_dir *dir);

// 0, or the error of the system, which leaves no file. A page that is there already is replaced by
// the same bytes.
int page_file_put(struct page_dir *dir, const struct page_facts *facts, const void *bytes);
// to: [bytes], as the name promises; out: its record. The file may go at any time: it is opened
// once.
enum page_file_status page_file_get(const struct page_dir *dir, const struct page_name *name,
                                    uint64_t bytes, struct page_record *out, void *to);
// The facts alone, without the checksum of the bytes.
enum page_file_status page_file_facts(const struct page_dir *dir, const struct page_name *name,
                                      struct page_facts *out);
void page_file_remove(const struct page_dir *dir, const struct page_name *name);
void page_file_touch(const struct page_dir *dir, const struct page_name *name); // it was used now

// Calls `found` for each page in the folder ab/, and says when that was changed last; 0: there is
// no such folder.
enum { PAGE_DIR_PARTS = 256 };
typedef void (*page_found_fn)(void *ctx, const struct page_name *name, uint64_t bytes,
                              int64_t used_ns);
int64_t page_dir_now(void); // by the clock of these times
int64_t page_dir_changed(const struct page_dir *dir, int part);
// False: the folder is there and cannot be read.
bool page_dir_scan(const struct page_dir *dir, int part, page_found_fn found, void *ctx);
// Removes what a crash left of files that were being written.
void page_dir_clean(const struct page_dir *dir);

// --- small files beside the pages: models/, slots/ ---

// 0, or the error of the system. The name is one that page_small_name made.
int page_small_put(struct page_dir *dir, const char *name, const void *data, size_t n);
bool page_small_has(const struct page_dir *dir, const char *name);
// A file of that name is new. While its folder has more than `most` files, or its group more than
// `most_alike`, the one of the others that was written or touched first is removed.
void page_small_age(const struct page_dir *dir, const char *name, int most_alike, int most);
void page_small_touch(const struct page_dir *dir, const char *name); // it was used now
// The length of the file's data, which is in `to`, at most max bytes; -1: it is missing, wrong or
// larger, or cannot be read. A wrong one is removed.
ssize_t page_small_get(const struct page_dir *dir, const char *name, void *to, size_t max);
bool page_small_remove(const struct page_dir *dir, const char *name); // false: there was none
enum { PAGE_SMALL_NAME = 96 };
// FOLDER/HEX of a key, so that no text of a client is ever part of a path.
void page_small_name(const char *folder, const struct page_key *key, char out[PAGE_SMALL_NAME]);
// FOLDER/GROUP-HEX: files of a group start alike.
void page_small_group_name(const char *folder, const struct page_key *group,
                           const struct page_key *key, char out[PAGE_SMALL_NAME]);

#endif
