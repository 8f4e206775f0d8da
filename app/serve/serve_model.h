// A model of the server, from its options: the files, then the engine. One of them for `-m`, one
// for each section of --models.
#ifndef RN_SERVE_SERVE_MODEL_H
#define RN_SERVE_SERVE_MODEL_H

#include "app.h"
#include "run/sampling.h"
#include "server/server.h"
#include "terminal/term.h"

struct serve_model {
    const struct options *options;
    const struct term *term;
    bool quiet;
    uint64_t kv_bytes; // where --kv-memory is not given; 0: the engine's choice
    // from serve_model_open on
    rn_model *model, *draft; // draft NULL: none
    struct sampling sampling;
    rn_chat_template *tmpl;
    char *tmpl_source;
    char *variables; // of --chat-template-kwargs, or NULL
    // from serve_model_load on
    rn_engine *engine;
    double bandwidth, peak; // measured when it was first loaded
};

// All return an exit code; the error has been printed.
int serve_model_describe(struct serve_model *model); // opens the model, without its draft model
int serve_model_open(struct serve_model *model);
int serve_model_load(struct serve_model *model, struct server_model *out);
void serve_model_close(struct serve_model *model); // in any state; it can be opened again
// The template's text; NULL: none.
const char *serve_model_template(const struct serve_model *model);
// The engine's options.
int serve_model_wanted(const struct serve_model *model, rn_engine_options *out);

#endif
