// A copy of a GGUF image with further keys, which stand before its own.
#ifndef RN_TESTS_GGUF_PATCH_H
#define RN_TESTS_GGUF_PATCH_H

#include "data_file.h"
#include "gguf_writer.h"

// Takes the keys of `more`, and frees it. The tensors' data are moved by whole alignments, so all
// offsets stay. The caller frees data.
static inline struct data_file gguf_with_keys(const struct data_file *file, struct writer *more) {
    enum { HEAD = 24, KV_COUNT = 16, FILLER = 8 + 11 + 4 + 8, ALIGN = 32 }; // its key and length
    char blanks[ALIGN];
    uint64_t n_kv;
    memset(blanks, ' ', sizeof blanks);
    const size_t rest = (more->kv.size + FILLER) % ALIGN;
    writer_kv(more, "test.filler", WRITER_STRING, NULL, 0);
    writer_put_string(&more->kv, blanks, (ALIGN - rest) % ALIGN);
    struct writer_buffer image = {0};
    writer_put(&image, file->data, HEAD);
    memcpy(&n_kv, image.data + KV_COUNT, sizeof n_kv);
    n_kv += more->n_kv;
    memcpy(image.data + KV_COUNT, &n_kv, sizeof n_kv);
    writer_put(&image, more->kv.data, more->kv.size);
    writer_put(&image, file->data + HEAD, file->size - HEAD);
    free(more->kv.data);
    return (struct data_file){.data = image.data, .size = image.size};
}

#endif
