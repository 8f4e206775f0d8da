// The pooling of embeddings in all dialects: a request's, then the server's, then the file's.
// label: threads
#define SERVE_MODEL copy_path

static const char *copy_path;

#include "serve.h"

#include "gguf_patch.h"
#include "json_at.h"

#define IDS "[5,6,7,8,9,10,11,12]"

static const json_t *post(const struct serve *serve, const char *path, const char *body,
                          int status) {
    struct reply reply = serve_post(serve, path, body);
    check(reply.status == status, "%s %s: %d: %s", path, body, reply.status, reply.body);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return json;
}

static const json_t *get(const struct serve *serve, const char *path) {
    struct reply reply = serve_get(serve, path);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return json;
}

// A server of the tiny model, whose file declares this pooling.
struct world {
    struct data_folder folder;
    char path[64];
    struct serve serve;
};

static void world_open(struct world *world, uint32_t number, int normalizes) {
    const struct data_file file = data_file_read(TEST_DATA "/golden/llama/model.gguf");
    const struct server_config config = serve_config();
    struct writer more = writer_begin(3);
    writer_kv_u32(&more, "llama.pooling_type", number);
    if (normalizes >= 0) writer_kv_bool(&more, "llama.normalize_embeddings", normalizes);
    const struct data_file copy = gguf_with_keys(&file, &more);
    world->folder = data_folder_make();
    data_file_write(world->folder.path, "copy.gguf", copy.data, copy.size);
    snprintf(world->path, sizeof world->path, "%s/copy.gguf", world->folder.path);
    free(copy.data);
    free(file.data);
    copy_path = world->path;
    serve_start(&world->serve, &config);
}

static void world_close(struct world *world) {
    serve_stop(&world->serve);
    data_folder_remove(&world->folder);
    json_kept_free();
}

static void expect_same(const json_t *a, const json_t *b, const char *what) {
    const size_t n = json_array_size(a);
    assert_true(n > 0 && n == json_array_size(b));
    check(json_equal(a, b), "%s: the vectors differ", what);
}

static void expect_pooling(const struct serve *serve, const char *name) {
    char body[200];
    snprintf(body, sizeof body, "{\"input\":" IDS ",\"pooling\":\"%s\"}", name);
    const json_t *want = at_path(post(serve, "/v1/embeddings", body, 200), "data.0.embedding");
    expect_same(at_path(post(serve, "/v1/embeddings", "{\"input\":" IDS "}", 200),
                        "data.0.embedding"),
                want, "/v1/embeddings");
    expect_same(at_path(post(serve, "/embedding", "{\"content\":" IDS "}", 200), "0.embedding.0"),
                want, "/embedding");
    expect_same(at_path(post(serve, "/api/embed", "{\"model\":\"tiny\",\"input\":" IDS "}", 200),
                        "embeddings.0"),
                want, "/api/embed");
    snprintf(body, sizeof body, "{\"content\":" IDS ",\"embd_normalize\":-1,\"pooling\":\"%s\"}",
             name);
    expect_same(at_path(post(serve, "/api/embeddings", "{\"model\":\"tiny\",\"prompt\":" IDS "}",
                             200),
                        "embedding"),
                at_path(post(serve, "/embedding", body, 200), "0.embedding.0"), "/api/embeddings");
    assert_string_equal(string_at(get(serve, "/props"), "pooling"), name);
    assert_string_equal(string_at(get(serve, "/v1/models"), "data.0.meta.pooling"), name);
}

CASE(every_dialect_takes_the_pooling_of_the_file) {
    static const char *const names[] = {[1] = "mean", "cls", "last"};
    for (uint32_t number = 1; number <= 3; number++) {
        struct world world;
        world_open(&world, number, -1);
        expect_pooling(&world.serve, names[number]);
        const json_t *own =
            at_path(post(&world.serve, "/v1/embeddings", "{\"input\":" IDS "}", 200),
                    "data.0.embedding");
        for (int other = 1; other <= 3; other++) { // the request's wins
            char body[200];
            snprintf(body, sizeof body, "{\"input\":" IDS ",\"pooling\":\"%s\"}", names[other]);
            const json_t *vector =
                at_path(post(&world.serve, "/v1/embeddings", body, 200), "data.0.embedding");
            assert_int_equal(json_equal(vector, own), other == (int)number);
        }
        world_close(&world);
    }
}

CASE(a_pooling_that_is_not_computed_is_refused_where_a_vector_is_asked_for) {
    static const struct {
        const char *path, *body, *error;
    } refused[] = {
        {"/v1/embeddings", "{\"input\":\"a\"}", "error.message"},
        {"/embedding", "{\"content\":\"a\"}", "error.message"},
        {"/api/embed", "{\"model\":\"tiny\",\"input\":\"a\"}", "error"},
        {"/api/embeddings", "{\"model\":\"tiny\",\"prompt\":\"a\"}", "error"},
    };
    struct world world;
    world_open(&world, 4, -1);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const char *text =
            string_at(post(&world.serve, refused[i].path, refused[i].body, 400), refused[i].error);
        check(text && strstr(text, "'rank', which the model's files declare, is not supported: "
                                   "reranking needs"),
              "%s: %s", refused[i].path, text ? text : "");
    }
    post(&world.serve, "/v1/embeddings", "{\"input\":\"a\",\"pooling\":\"last\"}", 200);
    post(&world.serve, "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":1}", 200);
    assert_string_equal(string_at(get(&world.serve, "/props"), "pooling"), "rank");
    world_close(&world);
}

static double length_of(const json_t *vector) {
    double squares = 0;
    for (size_t i = 0; i < json_array_size(vector); i++)
        squares += json_number_value(json_array_get(vector, i)) *
                   json_number_value(json_array_get(vector, i));
    return squares;
}

// Ollama's /api/embed has vectors of length 1 whatever the file says.
CASE(vectors_have_the_length_that_the_file_declares) {
    for (int normalizes = 0; normalizes <= 1; normalizes++) {
        const struct {
            const char *path, *body, *vector;
            bool is_one;
        } cases[] = {
            {"/v1/embeddings", "{\"input\":" IDS "}", "data.0.embedding", normalizes},
            {"/v1/embeddings", "{\"input\":" IDS ",\"use_activation\":true}", "data.0.embedding",
             true},
            {"/v1/embeddings", "{\"input\":" IDS ",\"use_activation\":false}", "data.0.embedding",
             false},
            {"/embedding", "{\"content\":" IDS "}", "0.embedding.0", normalizes},
            {"/embedding", "{\"content\":" IDS ",\"embd_normalize\":2}", "0.embedding.0", true},
            {"/api/embed", "{\"model\":\"tiny\",\"input\":" IDS "}", "embeddings.0", true},
            {"/api/embeddings", "{\"model\":\"tiny\",\"prompt\":" IDS "}", "embedding", normalizes},
        };
        struct world world;
        world_open(&world, 3, normalizes);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const double length = length_of(
                at_path(post(&world.serve, cases[i].path, cases[i].body, 200), cases[i].vector));
            check((length > 0.999 && length < 1.001) == cases[i].is_one, "%d: %s %s: %g",
                  normalizes, cases[i].path, cases[i].body, length);
        }
        world_close(&world);
    }
}

TEST_PROGRAM(pooling) { return cases_run(NULL, NULL); }
