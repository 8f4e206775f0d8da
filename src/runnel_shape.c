// Shapes of the public interface: compiled constraints over the vocabulary of a model.
#include <stdlib.h>

#include "constraint/constraint.h"
#include "runnel_model.h"

_Static_assert((int)RN_SHAPE_SCHEMA == (int)CONSTRAINT_SCHEMA &&
                   (int)RN_SHAPE_STRUCTURE == (int)CONSTRAINT_STRUCTURE,
               "runnel.h has the kinds of constraints");

rn_status model_shapes_create(struct model_shapes **out, rn_error *err) {
    struct model_shapes *shapes = calloc(1, sizeof *shapes);
    *out = NULL;
    if (!shapes || pthread_mutex_init(&shapes->lock, NULL)) {
        free(shapes);
        return err_set(err, RN_ERR_NOMEM, "no memory for a model");
    }
    const rn_status status = marks_kept_init(&shapes->marks, err);
    if (status) {
        pthread_mutex_destroy(&shapes->lock);
        free(shapes);
        return status;
    }
    *out = shapes;
    return RN_OK;
}

void model_shapes_destroy(struct model_shapes *shapes) {
    if (!shapes) return;
    constraint_vocab_release(shapes->vocab);
    marks_kept_deinit(&shapes->marks);
    pthread_mutex_destroy(&shapes->lock);
    free(shapes);
}

static struct constraint_token token_of(void *ctx, int32_t id) {
    const struct tokenizer *tokenizer = ctx;
    const struct text_span text = tokenizer_bytes(tokenizer, id);
    return (struct constraint_token){.data = text.data,
                                     .len = text.len,
                                     .is_special = tokenizer_is_special(tokenizer, id),
                                     .is_end = tokenizer_is_end(tokenizer, id)};
}

// Whichever thread comes first reads the vocabulary; others wait for it.
static rn_status vocab_get(const rn_model *model, struct constraint_vocab **out, rn_error *err) {
    struct model_shapes *shapes = model->shapes;
    rn_status status = RN_OK;
    pthread_mutex_lock(&shapes->lock);
    if (!shapes->vocab)
        status = constraint_vocab_create(tokenizer_size(model->tokenizer), token_of,
                                         model->tokenizer, &shapes->vocab, err);
    *out = shapes->vocab;
    pthread_mutex_unlock(&shapes->lock);
    return status;
}

static rn_shape *shape_of(const rn_model *model) {
    struct rn_shape *shape = calloc(1, sizeof *shape);
    if (!shape) return NULL;
    shape->tokenizer = model->tokenizer;
    shape->marks = &model->shapes->marks;
    return shape;
}

rn_status rn_shape_compile(const rn_model *model, rn_shape_kind kind, const char *source,
                           size_t len, rn_shape **out, rn_error *err) {
    struct constraint_vocab *vocab;
    *out = NULL;
    if (!model->tokenizer)
        return err_set(err, RN_ERR_ARG, "%s: opened without its vocabulary", model->info.path);
    rn_status status = vocab_get(model, &vocab, err);
    if (status) return status;
    struct rn_shape *shape = shape_of(model);
    if (!shape) return err_set(err, RN_ERR_NOMEM, "no memory for a shape");
    status = constraint_compile(vocab, (enum constraint_kind)kind, source, len, NULL,
                                &shape->constraint, err);
    if (status)
        free(shape);
    else
        *out = shape;
    return status;
}

// A vocabulary that is being read has no shapes yet.
rn_shape *rn_shape_find(const rn_model *model, rn_shape_kind kind, const char *source, size_t len) {
    struct model_shapes *shapes = model->shapes;
    if (!model->tokenizer || pthread_mutex_trylock(&shapes->lock)) return NULL;
    struct constraint_vocab *vocab = shapes->vocab;
    pthread_mutex_unlock(&shapes->lock);
    struct rn_shape *shape = vocab ? shape_of(model) : NULL;
    if (shape) shape->constraint = constraint_find(vocab, (enum constraint_kind)kind, source, len);
    if (shape && shape->constraint) return shape;
    free(shape);
    return NULL;
}

void rn_shape_release(rn_shape *shape) {
    if (!shape) return;
    constraint_release(shape->constraint);
    free(shape);
}
