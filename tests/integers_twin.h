// Runs of folders of packed integers beside those of their twins: a GGUF file of the same blocks,
// or a folder of the numbers.
#ifndef RN_TESTS_INTEGERS_TWIN_H
#define RN_TESTS_INTEGERS_TWIN_H

#include "gguf_copy.h"
#include "integers_folder.h"
#include "model/model.h"

// A GGUF file with the metadata of the reference model and the folder's tensors, which are read as
// an engine reads them.
static inline struct data_folder
integers_twin_make(const char *name, const struct data_folder *folder, enum format_id format) {
    char path[DATA_PATH_BYTES];
    struct weights *model, *coded;
    rn_error err = {0};
    size_t size;
    int n = 0;
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
    check(weights_open(path, &model, &err) == RN_OK, "%s", err.message);
    check(model_weights_open(folder->path, &coded, &err) == RN_OK, "%s", err.message);
    struct writer writer = writer_begin(3);
    for (int i = 0; i < weights_meta_count(model); i++)
        writer_kv_copy(&writer, weights_meta_at(model, i));
    for (int i = 0; i < weights_tensor_count(coded); i++) {
        const struct tensor_view *t = weights_tensor_at(coded, i);
        uint64_t dims[WEIGHTS_MAX_DIMS];
        uint8_t *data = malloc(t->bytes);
        assert_non_null(data);
        const int64_t n_part = t->parts ? t->dim[2] : 1;
        const uint64_t part = t->bytes / (uint64_t)n_part;
        for (int64_t k = 0; k < n_part; k++) {
            const void *at, *from = t->parts ? t->parts[k] : t->data;
            uint8_t *to = data + (uint64_t)k * part;
            check(weights_read(coded, from, part, to, &at, &err) == RN_OK, "%s", err.message);
            if (at != to) memcpy(to, at, part);
        }
        for (int d = 0; d < t->n_dims; d++) dims[d] = (uint64_t)t->dim[d];
        writer_tensor(&writer, t->name, (uint32_t)t->n_dims, dims, format_at(t->format)->gguf_type,
                      data, t->bytes);
        check(t->codes == CODES_NONE || t->format == format, "%s: %s: %s, expected %s", name,
              t->name, format_at(t->format)->name, format_at(format)->name);
        n += t->codes == CODES_INTEGERS;
        free(data);
    }
    check(n > 0, "%s: no tensor of integers", name);
    const struct data_folder twin = data_folder_make();
    uint8_t *image = writer_finish(&writer, &size);
    data_file_write(twin.path, "model.gguf", image, size);
    free(image);
    weights_close(model);
    weights_close(coded);
    return twin;
}

static inline struct data_folder integers_file_of(const struct data_folder *folder) {
    struct data_folder file = *folder;
    const size_t len = strlen(file.path);
    snprintf(file.path + len, sizeof file.path - len, "/model.gguf");
    return file;
}

static inline void integers_check_same(const char *name, const struct fp8_rows *a,
                                       const struct fp8_rows *b) {
    check(a->n == b->n && a->n > 0 && a->n_vocab == b->n_vocab, "%s: %d rows, %d", name, a->n,
          b->n);
    check(memcmp(a->logits, b->logits, (size_t)a->n * (size_t)a->n_vocab * sizeof(float)) == 0,
          "%s: other logits", name);
}

// The root of the mean square of what differs, as a share of b's.
static inline double integers_difference(const struct fp8_rows *a, const struct fp8_rows *b) {
    double sum = 0, all = 0;
    assert_true(a->n == b->n && a->n_vocab == b->n_vocab);
    for (int i = 0; i < a->n * a->n_vocab; i++) {
        const double d = (double)a->logits[i] - (double)b->logits[i];
        sum += d * d;
        all += (double)b->logits[i] * (double)b->logits[i];
    }
    return sqrt(sum / all);
}

// Blocks give the bits of a GGUF file of them (has_twin: one of this family can be made), and
// nearly those of the numbers.
static inline void integers_check_blocks(const char *name, const struct integers_way *way,
                                         enum format_id format, bool has_twin) {
    static struct stream got, want;
    struct data_folder folder[2];
    integers_folders_make(name, way, false, folder);
    struct fp8_rows a = fp8_run(&folder[0], 12, &got), b = fp8_run(&folder[1], 12, &want);
    const double off = integers_difference(&(struct fp8_rows){a.logits, 1, a.n_vocab},
                                           &(struct fp8_rows){b.logits, 1, b.n_vocab});
    check(off < 0.05, "%s: logits differ by %g", name, off);
    if (has_twin) {
        const struct data_folder twin = integers_twin_make(name, &folder[0], format),
                                 file = integers_file_of(&twin);
        struct fp8_rows c = fp8_run(&file, 12, &want);
        integers_check_same(name, &a, &c);
        free(c.logits);
        data_folder_remove(&twin);
    }
    free(a.logits);
    free(b.logits);
    for (int i = 0; i < 2; i++) data_folder_remove(&folder[i]);
}

// Numbers in 16 bits give the bits of a folder of them.
static inline void integers_check_numbers(const char *name, const struct integers_way *way) {
    static struct stream got, want;
    struct data_folder folder[2];
    integers_folders_make(name, way, true, folder);
    struct fp8_rows a = fp8_run(&folder[0], 12, &got), b = fp8_run(&folder[1], 12, &want);
    integers_check_same(name, &a, &b);
    streams_check_same(&want, &got);
    free(a.logits);
    free(b.logits);
    for (int i = 0; i < 2; i++) data_folder_remove(&folder[i]);
}

#endif
