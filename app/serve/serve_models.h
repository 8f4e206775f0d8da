// The models of `runnel serve --models`: the file's sections, and how one of them is loaded.
#ifndef RN_SERVE_SERVE_MODELS_H
#define RN_SERVE_SERVE_MODELS_H

#include "serve/models_file.h"
#include "serve/serve_model.h"

// A model of the set. The loader's thread alone uses it while the server runs.
struct serve_source {
    struct serve_model model;
    const char *name;
    uint64_t bytes_max; // of --models-memory; 0: not given
    bool quiet;
};

struct serve_models {
    struct models_file file;
    struct serve_source *of;      // [n]
    struct server_source *source; // [n], what the server gets
    int n;
    int n_broken; // sections whose files cannot be loaded as they are
};

// Reads the file of --models. default_name is the name of the model of -m, which comes first; NULL:
// there is none. Returns an exit code; a refusal has been printed.
int serve_models_open(const struct options *options, const struct term *term, bool quiet,
                      const char *default_name, struct serve_models *out,
                      struct server_loading *loading);
void serve_models_close(struct serve_models *models); // the server has ended; zeros are fine

#endif
