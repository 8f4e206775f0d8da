// /v1/embeddings: both forms of a vector hold the same numbers; refusals. Also /v1/models.
// label: memory
#define _GNU_SOURCE // memmem, asprintf
#define RANDOM_SEED 47
#include "openai_world.h"

#include <math.h>

static struct call *prepare(const char *body) {
    struct call *call = call_new(body);
    embeddings_prepare(call);
    return call;
}

// The answer for one vector.
static json_t *answer(const char *body, const float *vector) {
    struct call *call = prepare(body);
    check(!call->status, "%s: %.*s", body, (int)call->out.len, call->out.data);
    const size_t bytes = (size_t)server.info->n_embd * sizeof *vector;
    choices_create(call->generation);
    for (int i = 0; i < call->generation->n_choices; i++) {
        call->generation->choice[i].embedding = malloc(bytes);
        memcpy(call->generation->choice[i].embedding, vector, bytes);
        call->generation->choice[i].timings.cached_tokens = 1;
    }
    generation_write_end(call);
    call_fill(call, SIZE_MAX);
    json_t *json = json_of(call->out.data, call->out.len);
    call_free(call);
    return json;
}

static const json_t *embedding_at(const json_t *body, size_t index) {
    const json_t *one = json_array_get(json_object_get(body, "data"), index);
    expect_keys(one, "object index embedding");
    assert_string_equal(string_at(one, "object"), "embedding");
    assert_int_equal(json_integer_value(json_object_get(one, "index")), index);
    return json_object_get(one, "embedding");
}

// Decodes into at most max bytes and returns how many they are.
static size_t base64_decode(const char *text, unsigned char *out, size_t max) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    unsigned bits = 0;
    int n_bits = 0;
    assert_int_equal(strlen(text) % 4, 0);
    for (; *text && *text != '='; text++) {
        const char *digit = strchr(digits, *text);
        assert_non_null(digit);
        bits = bits << 6 | (unsigned)(digit - digits);
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        assert_true(n < max);
        out[n++] = (unsigned char)(bits >> n_bits);
    }
    assert_true(strlen(text) <= 2);
    return n;
}

static void numbers_and_base64_are_the_same_vector(void **state) {
    (void)state;
    const int n = server.info->n_embd;
    float vector[4096], decoded[4096];
    assert_true(n <= 4096);
    for (int i = 0; i < n; i++) {
        vector[i] = (float)(uniform() - 0.5) * powf(10.0f, -(float)below(9));
    }
    const float edges[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 0.1f, 1e-10f, -1e-12f, 123456.5f, 2e7f};
    memcpy(vector, edges, sizeof edges);
    json_t *numbers = answer("{\"input\":\"Hi\"}", vector);
    json_t *base64 = answer("{\"input\":\"Hi\",\"encoding_format\":\"base64\"}", vector);
    const json_t *list = embedding_at(numbers, 0);
    assert_int_equal(json_array_size(list), n);
    for (int i = 0; i < n; i++) {
        const double got = json_number_value(json_array_get(list, (size_t)i));
        check(fabs(got - (double)vector[i]) <= 0.6e-10 + fabs((double)vector[i]) * 1e-9,
              "%.12g is written as %.12g", (double)vector[i], got);
    }
    const size_t bytes = base64_decode(json_string_value(embedding_at(base64, 0)),
                                       (unsigned char *)decoded, sizeof decoded);
    assert_int_equal(bytes, (size_t)n * sizeof *vector);
    assert_memory_equal(decoded, vector, bytes);
    json_decref(numbers);
    json_decref(base64);
}

static void an_answer_has_the_keys_of_the_reference(void **state) {
    (void)state;
    float vector[4096] = {0};
    json_t *body = answer("{\"input\":[\"Hi\",\"there\",\"all\"]}", vector);
    expect_keys(body, "object data model usage timings");
    assert_string_equal(string_at(body, "object"), "list");
    assert_string_equal(string_at(body, "model"), "tale");
    for (size_t i = 0; i < 3; i++) embedding_at(body, i);
    const json_t *usage = json_object_get(body, "usage");
    expect_keys(usage, "prompt_tokens total_tokens prompt_tokens_details");
    assert_true(json_integer_value(json_object_get(usage, "prompt_tokens")) >= 3);
    json_decref(body);
}

static void requests_ask_for_one_normalized_vector_and_no_text(void **state) {
    (void)state;
    struct call *call = prepare("{\"input\":[1,2,3],\"stream\":true,\"n\":5,\"max_tokens\":9,"
                                "\"pooling\":\"last\",\"dimensions\":128}");
    assert_int_equal(call->status, 0);
    const struct generation *generation = call->generation;
    assert_int_equal(generation->pooling, RN_POOLING_LAST);
    assert_true(generation->normalize);
    assert_int_equal(generation->params.n, 1);
    assert_false(generation->params.stream);
    assert_int_equal(generation->prompt[0].n_ids, 3);
    call_free(call);
    call = prepare("{\"input\":\"x\"}");
    assert_int_equal(call->generation->pooling, RN_POOLING_MEAN);
    call_free(call);
}

static void wrong_requests_are_refused_by_the_name_of_what_is_wrong(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"{}", "input", "missing"},
        {"{\"input\":{}}", "input", "{}"},
        {"{\"input\":[\"a\",7]}", "input[1]", "7"},
        {"{\"input\":[[4096]]}", "input[0][0]", "4096"},
        {"{\"input\":\"a\",\"encoding_format\":\"hex\"}", "encoding_format", "hex"},
        {"{\"input\":\"a\",\"dimensions\":64}", "dimensions", "64"},
        {"{\"input\":\"a\",\"dimensions\":0}", "dimensions", "0"},
        {"{\"input\":\"a\",\"pooling\":\"cls\"}", "pooling", "cls"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct call *call = prepare(cases[i][0]);
        expect_refusal(call, cases[i][1], cases[i][2]);
        call_free(call);
    }
}

static void the_model_is_listed_under_all_of_its_names(void **state) {
    (void)state;
    struct call *call = call_new("");
    models_list(call);
    assert_int_equal(call->status, 200);
    json_t *body = json_of(call->out.data, call->out.len);
    expect_keys(body, "object data");
    const char *const names[] = {"tale", "other", "org/third"};
    assert_int_equal(json_array_size(json_object_get(body, "data")), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_array_get(json_object_get(body, "data"), i);
        expect_keys(one, "id object created owned_by max_model_len meta");
        assert_string_equal(string_at(one, "id"), names[i]);
        assert_string_equal(string_at(one, "object"), "model");
        assert_int_equal(json_integer_value(json_object_get(one, "created")), 1700000000);
        assert_int_equal(json_integer_value(json_object_get(one, "max_model_len")), 256);
        const json_t *meta = json_object_get(one, "meta");
        expect_keys(meta, "n_ctx n_ctx_train n_vocab n_embd n_params size");
        assert_int_equal(json_integer_value(json_object_get(meta, "n_vocab")), 4096);
        assert_int_equal(json_integer_value(json_object_get(meta, "n_ctx_train")), 1024);
    }
    json_decref(body);
    call_free(call);
}

TEST_PROGRAM(openai_embeddings) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_base64_are_the_same_vector),
        cmocka_unit_test(an_answer_has_the_keys_of_the_reference),
        cmocka_unit_test(requests_ask_for_one_normalized_vector_and_no_text),
        cmocka_unit_test(wrong_requests_are_refused_by_the_name_of_what_is_wrong),
        cmocka_unit_test(the_model_is_listed_under_all_of_its_names),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
