// The file of --logits. It is opened before the model is loaded, so that a bad path is known early.
// It is emptied only when the first row comes, so that a refused request leaves it as it was.
#ifndef RN_APP_LOGITS_H
#define RN_APP_LOGITS_H

#include "app.h"

struct logits_file {
    const char *path; // borrowed
    FILE *file;       // NULL: not wanted, or closed
    bool created;     // by us: removed if no row comes
    bool started;     // a row came
};

// A run must not write a file that it reads, even under another name: refuses such a path of an
// option. On failure the error has been printed and the exit code is returned.
int output_check(const struct options *options, const rn_model *model, enum option_id option,
                 const char *path);
// Opens the file of --logits, if it is given. A file that the run reads is refused. On failure the
// error has been printed and the exit code is returned.
int logits_open(struct logits_file *logits, const struct options *options, const rn_model *model);
// False: it could not be written (errno).
bool logits_write(struct logits_file *logits, const float *row, int n_vocab);
// To be called on every way out; a second call does nothing.
int logits_close(struct logits_file *logits);

#endif
