// The file of --models: a section for each model.
//
//   ctx = 8192                   before the first section: for all models
//   [small]                      the name for clients
//   model = /models/small.gguf   as -m; without it the section's name is looked for
//   keep = yes                   loaded at the start, never unloaded
//   idle-seconds = 600           unloaded when it was not used for this time
//
// A section takes the options of `runnel serve` that concern a model. They are stronger than the
// command line, whose values are the defaults of all models.
#ifndef RN_SERVE_MODELS_FILE_H
#define RN_SERVE_MODELS_FILE_H

#include "app.h"

enum { MODELS_MAX = 64 };

struct models_section {
    const char *name; // for clients
    int line;
    struct options options; // of `runnel serve`, with the section's values
    char *path;             // owned; of its model
    bool keep;
    double idle_s;
};

struct models_file {
    struct text text;
    struct options common;          // values before the first section
    struct models_section *section; // [n_sections], at least one
    int n_sections;
};

// The options outlive the file. False: refused (printed).
bool models_file_read(const struct options *options, const char *path, struct models_file *out);
void models_file_free(struct models_file *file); // zeros are fine
// Whether a client that says `name` may mean this model.
bool models_section_is_named(const struct models_section *section, const char *name);

#endif
