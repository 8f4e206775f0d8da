// A text in the shape of a JSON Schema: whatever the model is, the answer is such an object.
//
//   cc shape.c $(pkg-config --cflags --libs runnel) -o shape
//   ./shape model.gguf "The animal of the story, as JSON: "
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel.h>

static void fail(const rn_error *err) {
    fprintf(stderr, "shape: %s\n", err->message); // it names the file or the place in the schema
    exit(1);
}

int main(int argc, char **argv) {
    static const char schema[] =
        "{\"type\": \"object\","
        " \"properties\": {\"animal\": {\"enum\": [\"fox\", \"dog\", \"owl\"]},"
        "                  \"name\": {\"type\": \"string\", \"maxLength\": 20},"
        "                  \"legs\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 8}},"
        " \"required\": [\"animal\", \"name\", \"legs\"], \"additionalProperties\": false}";
    if (argc != 3) {
        fprintf(stderr, "usage: shape MODEL TEXT\n");
        return 2;
    }
    rn_error err;
    rn_model *model;
    rn_engine *engine;
    rn_shape *shape;
    if (rn_model_open(argv[1], &model, &err)) fail(&err);
    if (rn_engine_create(model, NULL, &engine, &err)) fail(&err);
    if (rn_shape_compile(model, RN_SHAPE_SCHEMA, schema, strlen(schema), &shape, &err)) fail(&err);

    const rn_request request = {.shape = shape, .max_tokens = 200}; // greedy
    char *text;
    size_t len;
    if (rn_complete(engine, argv[2], &request, &text, &len, &err)) fail(&err);
    printf("%s\n", text);

    rn_free(text);
    rn_shape_release(shape);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return 0;
}
