// Copies a key of an opened model into a GGUF file that is being written.
#ifndef RN_TESTS_GGUF_COPY_H
#define RN_TESTS_GGUF_COPY_H

#include "gguf_writer.h"
#include "weights/weights.h"

static inline void writer_kv_copy(struct writer *writer, const struct meta_view *meta) {
    if (meta->type == META_STRING) {
        writer_kv(writer, meta->key, WRITER_STRING, NULL, 0);
        writer_put_string(&writer->kv, (const char *)meta->data, meta->bytes);
    } else if (meta->type == META_ARRAY) {
        writer_kv_array(writer, meta->key, meta->item_type, meta->count);
        writer_put(&writer->kv, meta->data, meta->bytes);
    } else {
        writer_kv(writer, meta->key, meta->type, meta->data, meta->bytes);
    }
}

#endif
