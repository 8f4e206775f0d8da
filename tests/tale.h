// The small trained model, opened once for all tests of a program: setup and teardown of its group.
// A file whose tests take any model with 500 tokens sets TALE_ANY: under the thread sanitizer it
// gets a reference model, which is faster.
#ifndef RN_TESTS_TALE_H
#define RN_TESTS_TALE_H

#include "runnel.h"

static rn_model *model;

static int open_model(void **state) {
    (void)state;
    rn_error err;
#if defined(TALE_ANY) && defined(__SANITIZE_THREAD__)
    const char *path = TEST_DATA "/golden/llama/model.gguf";
#else
    const char *path = MODELS_DIR "/tale-1m-f16.gguf";
#endif
    return rn_model_open(path, &model, &err) != RN_OK;
}

static int close_model(void **state) {
    (void)state;
    rn_model_close(model);
    return 0;
}

#endif
