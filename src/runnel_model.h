// The inside of rn_model and rn_engine, for the files that implement the public interface and for
// tests.
#ifndef RN_RUNNEL_MODEL_H
#define RN_RUNNEL_MODEL_H

#include <pthread.h>

#include "engine/door/driver.h"
#include "model/model.h"
#include "runnel.h"
#include "text/tokenizer.h"
#include "weights/weights.h"

struct rn_model {
    struct weights *weights, *block; // block: of rn_model_attach; NULL: none
    struct tokenizer *tokenizer;
    char *chat_template; // NULL: none
    struct model model;  // valid when has_plan
    bool has_plan;
    rn_model_info info;
    char name[128], pooling[32];
    struct model_shapes *shapes; // what its shapes share
};

struct rn_engine {
    const rn_model *model;
    struct engine engine;
    struct driver driver;
};

// The vocabulary as shapes read it, made with the first one.
struct model_shapes {
    pthread_mutex_t lock;
    struct constraint_vocab *vocab; // NULL: no shape was compiled yet
    struct marks_kept marks;        // of reasonings that shapes start behind
};
rn_status model_shapes_create(struct model_shapes **out, rn_error *err);
void model_shapes_destroy(struct model_shapes *shapes); // NULL is fine

// Fills the model's pooling and its members of the info.
void model_pooling_read(rn_model *model);

// The caller's options, of `size` bytes, as they are here; NULL: the defaults.
rn_status model_engine_options(const rn_engine_options *options, size_t size,
                               rn_engine_options *out, rn_error *err);

// The configuration that the options describe, with defaults of speculation filled in. RN_ERR_ARG:
// a name or a number is wrong, or a drafter lacks its model or function.
rn_status model_engine_config(const rn_engine_options *options, struct engine_config *out,
                              rn_error *err);

#endif
