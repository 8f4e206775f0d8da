// One matrix of packed integers in a folder, for the tests of what it gives and of its faults.
#ifndef RN_TESTS_INTEGERS_IMAGE_H
#define RN_TESTS_INTEGERS_IMAGE_H

#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "integers_folder.h"

enum { ROWS = 40, COLS = 192, ELEMENTS = ROWS * COLS, ROOM = 4 * ELEMENTS };

#define STEM   "model.layers.0.self_attn.q_proj"
#define TENSOR "blk.0.attn_q.weight"

static float numbers[ELEMENTS];

static inline void fill(void) {
    srand(5);
    for (int i = 0; i < ELEMENTS; i++) numbers[i] = (float)(rand() % 2001 - 1000) / 1000;
}

static inline void config_of(const struct data_folder *folder, const struct integers_way *way,
                             const char *class_name, const char *more) {
    char quant[256], text[512];
    integers_config(way, quant, sizeof quant);
    snprintf(text, sizeof text, ", 'quantization_config': %s%s", quant, more);
    config_write(folder, class_name, text);
}

static inline struct weights *open_image(struct fp8_image *image, const struct integers_way *way,
                                         const char *class_name, const char *more) {
    const struct data_folder folder = data_folder_make();
    config_of(&folder, way, class_name, more);
    fp8_image_write(image, &folder);
    struct weights *weights = folder_open(&folder);
    data_folder_remove(&folder);
    return weights;
}

// The data of the tensor whose name ends so.
static inline void *entry_data(struct fp8_image *image, const char *end, struct fp8_entry **out) {
    for (int i = 0; i < image->n; i++) {
        struct fp8_entry *e = &image->entry[i];
        const size_t len = strlen(e->name), tail = strlen(end);
        if (len < tail || strcmp(e->name + len - tail, end) != 0) continue;
        if (out) *out = e;
        return e->data;
    }
    check(false, "%s is in no image", end);
    return NULL;
}

static const struct integers_way gptq_way = {.kind = KIND_GPTQ, .bits = 4, .group = 64};
static const struct integers_way packed_way = {.kind = KIND_PACKED,
                                               .bits = 4,
                                               .group = 64,
                                               .has_zeros = true};

static inline void image_make(struct fp8_image *image, const struct integers_way *way) {
    fill();
    struct integers_matrix m = integers_matrix_make(way, ROWS, COLS, numbers);
    integers_add(image, STEM, &m);
    integers_matrix_free(&m);
}

#endif
