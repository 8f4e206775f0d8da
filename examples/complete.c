// Continues a text with one call.
//
//   cc complete.c $(pkg-config --cflags --libs runnel) -o complete
//   ./complete model.gguf "Once upon a time"
#include <stdio.h>
#include <stdlib.h>

#include <runnel.h>

static void fail(const rn_error *err) {
    fprintf(stderr, "complete: %s\n", err->message); // it names the file or the value
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: complete MODEL TEXT\n");
        return 2;
    }
    rn_error err;
    rn_model *model;
    rn_engine *engine;
    if (rn_model_open(argv[1], &model, &err)) fail(&err);
    if (rn_engine_create(model, NULL, &engine, &err)) fail(&err);

    rn_request request = {.sampling = rn_sampling_defaults(model), .max_tokens = 100};
    char *text;
    size_t len;
    if (rn_complete(engine, argv[2], &request, &text, &len, &err)) fail(&err);
    printf("%s%s\n", argv[2], text);

    rn_free(text);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return 0;
}
