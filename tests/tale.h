// The small trained model, opened once for all tests of a program: setup and teardown of its group.
#ifndef RN_TESTS_TALE_H
#define RN_TESTS_TALE_H

#include "runnel.h"

static rn_model *model;

static int open_model(void **state) {
    (void)state;
    rn_error err;
    return rn_model_open(MODELS_DIR "/tale-1m-f16.gguf", &model, &err) != RN_OK;
}

static int close_model(void **state) {
    (void)state;
    rn_model_close(model);
    return 0;
}

#endif
