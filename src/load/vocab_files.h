// The data that the readers of vocabularies fill for vocab.c: vocab_gguf.c from metadata,
// vocab_folder.c from the files beside the weights. Internal to src/load.
#ifndef RN_LOAD_VOCAB_FILES_H
#define RN_LOAD_VOCAB_FILES_H

#include "base/arena.h"
#include "base/file.h"
#include "load/vocab.h"

enum { VOCAB_MAX_FILES = 8, VOCAB_MAX_TEMPLATE = 1 << 20 };

struct vocab_files {
    const struct weights *weights;
    rn_error *err;
    struct arena arena;
    struct file_image
        image[VOCAB_MAX_FILES]; // the source points into these, besides weights and arena
    int n_image;
    struct vocab_source source;
    struct text_span chat_template; // data is NULL: none
};

// All of these set the whole message of an error.
rn_status vocab_read_gguf(struct vocab_files *files);
rn_status vocab_read_folder(struct vocab_files *files, const char *folder);
// Where generation ends; behind the filling up, since a row without a text can be an end.
rn_status vocab_read_folder_ends(struct vocab_files *files, const char *folder);

#endif
