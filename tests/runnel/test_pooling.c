// Poolings of embeddings: the one that a model's files declare, the names, and the vectors.
// label: memory
#include <math.h>
#include <sys/stat.h>

#include "gguf_patch.h"
#include "golden_folder.h"
#include "streams.h"

#define TINY TEST_DATA "/golden/llama/model.gguf"

// ---------------------------------------------------------------- files

static void expect_declared(const rn_model *model, const char *name, int normalizes,
                            rn_pooling pooling) {
    const rn_model_info *info = rn_model_get_info(model);
    rn_pooling found = RN_POOLING_NONE;
    rn_error err = {0};
    const rn_status status = rn_model_pooling(model, NULL, &found, &err);
    check(name ? info->pooling && !strcmp(info->pooling, name) : !info->pooling, "%s, not %s",
          info->pooling ? info->pooling : "none", name ? name : "none");
    assert_int_equal(info->normalizes, normalizes);
    if (pooling) {
        check(!status && found == pooling, "%s: %d: %s", name, (int)found, err.message);
        return;
    }
    check(status == RN_ERR_UNSUPPORTED && strstr(err.message, name) &&
              strstr(err.message, "mean, last, cls"),
          "%s: %s", name, err.message);
}

// The tiny model with a key, opened from memory.
static void gguf_expect(struct writer more, const char *name, int normalizes, rn_pooling pooling) {
    const struct data_file file = data_file_read(TINY);
    const struct data_file copy = gguf_with_keys(&file, &more);
    rn_model *model;
    rn_error err;
    check(!rn_model_open_memory("copy", copy.data, copy.size, &model, &err), "%s", err.message);
    expect_declared(model, name, normalizes, pooling);
    rn_model_close(model);
    free(copy.data);
    free(file.data);
}

CASE(a_gguf_declares_its_pooling_by_a_number) {
    static const struct {
        uint32_t number;
        const char *name;
        rn_pooling pooling;
    } cases[] = {
        {0, "none", RN_POOLING_NONE},
        {1, "mean", RN_POOLING_MEAN},
        {2, "cls", RN_POOLING_CLS},
        {3, "last", RN_POOLING_LAST},
        {4, "rank", RN_POOLING_NONE},
        {77, "77", RN_POOLING_NONE},
        {UINT32_MAX, "4294967295", RN_POOLING_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct writer more = writer_begin(3);
        writer_kv_u32(&more, "llama.pooling_type", cases[i].number);
        gguf_expect(more, cases[i].name, -1, cases[i].pooling);
    }
    struct writer more = writer_begin(3);
    writer_kv(&more, "llama.pooling_type", WRITER_I32, &(const int32_t){-1}, 4);
    writer_kv_bool(&more, "llama.normalize_embeddings", true);
    gguf_expect(more, NULL, 1, RN_POOLING_MEAN); // -1: not said
    more = writer_begin(3);
    writer_kv_str(&more, "llama.pooling_type", "last"); // no number: not said
    gguf_expect(more, NULL, -1, RN_POOLING_MEAN);
}

// A folder with these files; NULL leaves one out. The status is that of opening it.
static rn_status folder_open(const char *modules, const char *pooling, rn_model **out,
                             rn_error *err) {
    const struct data_folder folder = golden_folder_make("llama", "gpt-2");
    char inner[64];
    snprintf(inner, sizeof inner, "%s/1_Pooling", folder.path);
    if (modules) data_file_write(folder.path, "modules.json", modules, strlen(modules));
    if (pooling) {
        assert_int_equal(mkdir(inner, 0700), 0);
        data_file_write(inner, "config.json", pooling, strlen(pooling));
    }
    const rn_status status = rn_model_open(folder.path, out, err);
    if (pooling) {
        char file[96];
        snprintf(file, sizeof file, "%s/config.json", inner);
        assert_int_equal(unlink(file), 0);
        assert_int_equal(rmdir(inner), 0);
    }
    data_folder_remove(&folder);
    return status;
}

#define STEP(name) "{\"idx\":0,\"type\":\"sentence_transformers.models." name "\"}"

CASE(a_folder_declares_its_pooling_and_its_steps) {
    static const struct {
        const char *modules, *pooling, *name;
        int normalizes;
        rn_pooling is;
    } cases[] = {
        {NULL, NULL, NULL, -1, RN_POOLING_MEAN},
        {"[" STEP("Transformer") "," STEP("Pooling") "," STEP("Normalize") "]",
         "{\"word_embedding_dimension\":64,\"pooling_mode_mean_tokens\":false,"
         "\"pooling_mode_lasttoken\":true,\"include_prompt\":true}",
         "last", 1, RN_POOLING_LAST},
        {"[" STEP("Transformer") "," STEP("Pooling") "]", "{\"pooling_mode_cls_token\":true}",
         "cls", 0, RN_POOLING_CLS},
        {NULL, "{\"pooling_mode_mean_tokens\":true}", "mean", -1, RN_POOLING_MEAN},
        {NULL, "{\"pooling_mode\":\"lasttoken\"}", "last", -1, RN_POOLING_LAST},
        {NULL, "{\"pooling_mode_max_tokens\":true}", "max", -1, RN_POOLING_NONE},
        {NULL, "{\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":true}", "cls+mean",
         -1, RN_POOLING_NONE},
        {"[" STEP("Transformer") "," STEP("Pooling") "," STEP("Dense") "," STEP("Normalize") "]",
         "{\"pooling_mode_mean_tokens\":true}", "Dense", 1, RN_POOLING_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rn_model *model;
        rn_error err;
        check(!folder_open(cases[i].modules, cases[i].pooling, &model, &err), "%s", err.message);
        expect_declared(model, cases[i].name, cases[i].normalizes, cases[i].is);
        rn_model_close(model);
    }
}

// Its text does not depend on the file, so the model opens. A vector needs the name of a pooling.
CASE(a_damaged_pooling_is_refused_only_for_vectors) {
    static const char *const cases[][3] = {
        {"{}", NULL, "modules.json: offset 0"},
        {"[{]", NULL, "modules.json: offset 2"},
        {"[" STEP("Pooling"), NULL, "modules.json: offset"},
        {"[{\"type\":7}]", NULL, "modules.json: offset 9: type is 7"},
        {NULL, "{\"pooling_mode_lasttoken\":1}",
         "1_Pooling/config.json: offset 26: pooling_mode_lasttoken is 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rn_model *model;
        rn_error err;
        rn_pooling found;
        check(!folder_open(cases[i][0], cases[i][1], &model, &err), "%s", err.message);
        expect_declared(model, "damaged", -1, RN_POOLING_NONE);
        assert_int_equal(rn_model_pooling(model, NULL, &found, &err), RN_ERR_UNSUPPORTED);
        check(strstr(err.message, cases[i][2]) != NULL, "%s, not %s", err.message, cases[i][2]);
        assert_int_equal(rn_model_pooling(model, "last", &found, &err), RN_OK);
        assert_int_equal(found, RN_POOLING_LAST);
        rn_model_close(model);
    }
}

// ---------------------------------------------------------------- names and vectors

CASE(a_pooling_is_found_by_its_name) {
    rn_pooling found;
    rn_error err;
    assert_int_equal(rn_model_pooling(NULL, "mean", &found, &err), RN_OK);
    assert_int_equal(found, RN_POOLING_MEAN);
    assert_int_equal(rn_model_pooling(NULL, "last", &found, &err), RN_OK);
    assert_int_equal(found, RN_POOLING_LAST);
    assert_int_equal(rn_model_pooling(NULL, "cls", &found, &err), RN_OK);
    assert_int_equal(found, RN_POOLING_CLS);
    assert_int_equal(rn_model_pooling(NULL, "rank", &found, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "'rank' is not supported: reranking needs"));
    assert_int_equal(rn_model_pooling(NULL, "sum", &found, &err), RN_ERR_ARG);
    assert_string_equal(err.message, "'sum' is not supported (supported: mean, last, cls)");
}

static void embed(rn_engine *engine, int n, rn_pooling pooling, float *out, int n_embd) {
    int32_t prompt[40];
    struct stream stream;
    for (int i = 0; i < n; i++) prompt[i] = 3 + i * 7;
    const rn_request request = {.prompt = prompt, .n_prompt = (size_t)n, .pooling = pooling};
    streams_submit(engine, &request, &stream);
    while (streams_step(engine, &stream, 1, 0, n_embd)) continue;
    assert_true(stream.has_embedding);
    memcpy(out, stream.embedding, (size_t)n_embd * sizeof *out);
}

// In a causal model the first token's state is that of a text of this token alone, however the
// prompt is cut into steps.
CASE(cls_is_the_state_of_the_first_token) {
    rn_model *model;
    rn_error err;
    float first[STREAM_MAX_EMBD], alone[STREAM_MAX_EMBD], last[STREAM_MAX_EMBD];
    check(!rn_model_open(TINY, &model, &err), "%s", err.message);
    const int n_embd = rn_model_get_info(model)->n_embd;
    const size_t bytes = (size_t)n_embd * sizeof *first;
    for (int batch = 4; batch <= 64; batch *= 16) {
        rn_engine *engine =
            streams_engine(model, &(rn_engine_options){.max_seqs = 1, .batch_tokens = batch});
        embed(engine, 1, RN_POOLING_LAST, alone, n_embd);
        embed(engine, 40, RN_POOLING_CLS, first, n_embd);
        embed(engine, 40, RN_POOLING_LAST, last, n_embd);
        assert_memory_equal(first, alone, bytes);
        assert_memory_not_equal(first, last, bytes);
        embed(engine, 40, RN_POOLING_CLS, first, n_embd); // the prefix is cached now
        assert_memory_equal(first, alone, bytes);
        rn_engine_destroy(engine);
    }
    rn_model_close(model);
}

TEST_PROGRAM(pooling) { return cases_run(NULL, NULL); }
