// /v1/embeddings: both forms of a vector hold the same numbers; refusals. Also /v1/models.
// label: memory
#include "calls.h"

#include <math.h>

// The answer for one vector.
static const json_t *answer(const char *body, const float *vector) {
    struct call *call = call_prepared(embeddings_prepare, body);
    const size_t bytes = (size_t)served.info->n_embd * sizeof *vector;
    for (int i = 0; i < call->generation->n_choices; i++) {
        struct generation_choice *choice = &call->generation->choice[i];
        choice->embedding = malloc(bytes);
        memcpy(choice->embedding, vector, bytes);
        choice->timings.cached_tokens = 1;
    }
    answer_end(call);
    return answer_of(call);
}

static const json_t *embedding_at(const json_t *body, size_t index) {
    const json_t *one = json_array_get(at_path(body, "data"), index);
    expect_keys(one, "object index embedding");
    expect_json(one, "object", "'embedding'");
    assert_int_equal(number_at(one, "index"), index);
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

CASE(numbers_and_base64_are_the_same_vector) {
    const int n = served.info->n_embd;
    float vector[4096], decoded[4096];
    assert_true(n <= 4096);
    for (int i = 0; i < n; i++) {
        vector[i] = (float)(uniform() - 0.5) * powf(10.0f, -(float)below(9));
    }
    const float edges[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 0.1f, 1e-10f, -1e-12f, 123456.5f, 2e7f};
    memcpy(vector, edges, sizeof edges);
    const json_t *numbers = answer("{'input':'Hi'}", vector);
    const json_t *base64 = answer("{'input':'Hi','encoding_format':'base64'}", vector);
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
}

CASE(an_answer_has_the_keys_of_the_reference) {
    float vector[4096] = {0};
    const json_t *body = answer("{'input':['Hi','there','all']}", vector);
    expect_keys(body, "object data model usage timings");
    expect_rows(body, {"object", "'list'"}, {"model", "'tale'"});
    for (size_t i = 0; i < 3; i++) embedding_at(body, i);
    expect_keys(at_path(body, "usage"), "prompt_tokens total_tokens prompt_tokens_details");
    assert_true(number_at(body, "usage.prompt_tokens") >= 3);
}

CASE(requests_ask_for_one_normalized_vector_and_no_text) {
    const struct call *call =
        call_prepared(embeddings_prepare, "{'input':[1,2,3],'stream':true,'n':5,'max_tokens':9,"
                                          "'pooling':'last','dimensions':128}");
    const struct generation *generation = call->generation;
    assert_int_equal(generation->pooling, RN_POOLING_LAST);
    assert_true(generation->normalize);
    assert_int_equal(generation->params.n, 1);
    assert_false(generation->params.stream);
    assert_int_equal(generation->prompt[0].n_ids, 3);
    call = call_prepared(embeddings_prepare, "{'input':'x'}");
    assert_int_equal(call->generation->pooling, RN_POOLING_MEAN);
}

CASE(inputs_may_mix_texts_and_ids_and_be_cut) {
    const struct call *call =
        call_prepared(embeddings_prepare, "{'input':[[3,'Hi',4],{'prompt_string':'Hi'}],'truncate_"
                                          "prompt_tokens':3,'truncation_side':'right'}");
    const struct generation_prompt *prompt = call->generation->prompt;
    static const int32_t mixed[] = {3, 43, 76}, text[] = {0, 43, 76};
    assert_int_equal(call->generation->n_prompts, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(prompt[i].n_ids, 3);
        assert_memory_equal(prompt[i].ids, i ? text : mixed, sizeof text);
    }
}

CASE(the_pooling_of_the_server_is_that_of_requests_without_one) {
    served.pooling = "cls";
    const struct call *none = call_prepared(embeddings_prepare, "{'input':'x','pooling':null}"),
                      *native = call_prepared(embeddings_native, "{'content':'x'}"),
                      *own = call_prepared(embeddings_prepare, "{'input':'x','pooling':'last'}");
    served.pooling = NULL;
    assert_int_equal(none->generation->pooling, RN_POOLING_CLS);
    assert_int_equal(native->generation->pooling, RN_POOLING_CLS);
    assert_int_equal(own->generation->pooling, RN_POOLING_LAST);
}

CASE(wrong_requests_are_refused_by_the_name_of_what_is_wrong) {
    static const struct refusal cases[] = {
        {"{}", "input", "missing"},
        {"{'input':{}}", "input", "{}"},
        {"{'input':['a',7,4096]}", "input[2]", "4096"},
        {"{'input':[[4096]]}", "input[0][0]", "4096"},
        {"{'input':'a','encoding_format':'hex'}", "encoding_format", "hex"},
        {"{'input':'a','dimensions':64}", "dimensions", "64"},
        {"{'input':'a','dimensions':0}", "dimensions", "0"},
        {"{'input':'a','pooling':'max'}", "pooling", "'max' is not supported"},
        {"{'input':'a','pooling':'rank'}", "pooling", "reranking needs"},
        {"{'input':'a','pooling':1}", "pooling", "1"},
    };
    expect_refusals(embeddings_prepare, cases);
}

CASE(the_model_is_listed_under_all_of_its_names) {
    const json_t *body = answered(models_list, "", 200);
    expect_keys(body, "object data models has_more first_id last_id");
    expect_json(body, "models",
                "[{'name':'tale','model':'tale','type':'model','tags':[],"
                "'capabilities':['completion']}]");
    expect_rows(body, {"data.0.id", "'tale'"}, {"data.1.id", "'other'"},
                {"data.2.id", "'org/third'"}, {"has_more", "false"}, {"first_id", "'tale'"},
                {"last_id", "'org/third'"});
    assert_int_equal(size_at(body, "data"), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_array_get(at_path(body, "data"), i);
        expect_keys(one, "id object created owned_by type display_name created_at "
                         "max_input_tokens max_tokens aliases tags root parent max_model_len meta");
        check(json_equal(at_path(one, "display_name"), at_path(one, "id")), "the name");
        expect_rows(one, {"type", "'model'"}, {"created_at", "'2023-11-14T22:13:20Z'"},
                    {"aliases", "['other','org/third']"}, {"tags", "[]"}, {"root", "'tale'"},
                    {"parent", "null"});
        expect_keys(at_path(one, "meta"), "n_ctx n_ctx_train n_vocab n_embd n_params size pooling");
        expect_rows(one, {"object", "'model'"}, {"created", "1700000000"}, {"max_model_len", "256"},
                    {"meta.n_vocab", "4096"}, {"meta.n_ctx_train", "1024"});
    }
}

TEST_PROGRAM(openai_embeddings) { return cases_run(open_server, close_server); }
