// Requests of editors that complete code, over HTTP with a real engine: the fields that llama.cpp's
// plugins send with /infill and with chats. The model is a reference model whose file names its
// marks for a text between two others by id.
// label: threads
static const char *model_path(void);
#define SERVE_MODEL model_path()
#include "data_file.h"
#include "gguf_copy.h"
#include "json_at.h"
#include "serve.h"
#include "tensor_bytes.h"

enum { PREFIX = 300, SUFFIX = 301, MIDDLE = 302, SEPARATOR = 303 };

static struct data_folder folder;
static char path[DATA_PATH_BYTES];

static const char *model_path(void) { return path; }

// The suffix has the key of older files, and one key names no token.
static void keys_put(struct writer *writer) {
    writer_kv_u32(writer, "tokenizer.ggml.fim_pre_token_id", PREFIX);
    writer_kv_u32(writer, "tokenizer.ggml.fim_suf_token_id", 99999);
    writer_kv_u32(writer, "tokenizer.ggml.suffix_token_id", SUFFIX);
    writer_kv_u32(writer, "tokenizer.ggml.fim_mid_token_id", MIDDLE);
    writer_kv_u32(writer, "tokenizer.ggml.fim_sep_token_id", SEPARATOR);
}

static void model_write(void) {
    struct writer writer = writer_begin(3);
    struct weights *from;
    size_t size;
    assert_int_equal(weights_open(TEST_DATA "/golden/llama/model.gguf", &from, NULL), RN_OK);
    for (int i = 0; i < weights_meta_count(from); i++)
        writer_kv_copy(&writer, weights_meta_at(from, i));
    keys_put(&writer);
    for (int i = 0; i < weights_tensor_count(from); i++) {
        const struct tensor_view brought = tensor_brought(from, i), *t = &brought;
        uint64_t dims[WEIGHTS_MAX_DIMS];
        for (int d = 0; d < t->n_dims; d++) dims[d] = (uint64_t)t->dim[d];
        writer_tensor(&writer, t->name, (uint32_t)t->n_dims, dims, 0, t->data, t->bytes);
    }
    weights_close(from);
    uint8_t *image = writer_finish(&writer, &size);
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    data_file_write(folder.path, "model.gguf", image, size);
    free(image);
}

static int start(void **state) {
    folder = data_folder_make();
    model_write();
    return serve_setup(state);
}

static int stop(void **state) {
    json_kept_free();
    const int failed = serve_teardown(state);
    data_folder_remove(&folder);
    return failed;
}

static const json_t *ask(const struct serve *serve, const char *to, const char *body) {
    char *quoted = json_quoted(body);
    struct reply reply = serve_post(serve, to, quoted);
    free(quoted);
    check(reply.status == 200, "%s: %.400s", body, reply.data);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return json;
}

// ---------------------------------------------------------------- what plugins send

#define PLACE                                                                                      \
    "'id_slot':0,'input_prefix':'int f(int a) {\\n','input_suffix':'\\n}\\n','input_extra':["      \
    "{'filename':'g.c','text':'int g(void);','time':3}],'prompt':'    ret',"
#define CACHED "'stream':false,'cache_prompt':true,'t_max_prompt_ms':500,"

CASE(a_completion_of_an_editor_is_answered) {
    const json_t *answer =
        ask(*state, "/infill",
            "{" PLACE CACHED "'n_predict':8,'stop':[],'n_indent':4,'top_k':40,'top_p':0.9,"
            "'samplers':['top_k','top_p','infill'],'t_max_predict_ms':1000,"
            "'response_fields':['content','timings/prompt_n','truncated','tokens_cached']}");
    check(at_path(answer, "content"), "it has a text");
    assert_int_equal(json_object_size(answer), 4);
    answer = ask(*state, "/infill",
                 "{" PLACE CACHED "'n_predict':8,'n_cmpl':2,'top_k':40,'top_p':0.99,"
                 "'samplers':['top_k','top_p','infill'],'n_indent':4,'t_max_predict_ms':500}");
    assert_int_equal(json_array_size(answer), 2);
    expect_json(answer, "1.generation_settings.samplers", "['top_k','top_p']");
    expect_json(answer, "1.generation_settings.temperature", "1");
}

// It brings the files to the cache, and no token is written.
CASE(a_warm_up_writes_nothing) {
    const json_t *answer = ask(*state, "/infill",
                               "{" PLACE CACHED "'n_predict':0,'temperature':0.0,'samplers':[],"
                               "'t_max_predict_ms':1,'response_fields':['']}");
    expect_json(answer, "", "{}");
    answer = ask(*state, "/infill", "{" PLACE CACHED "'n_predict':0,'samplers':[]}");
    expect_json(answer, "tokens_predicted", "0");
    expect_json(answer, "content", "''");
    expect_json(answer, "generation_settings.samplers", "[]");
    answer = ask(*state, "/infill",
                 "{'id_slot':0,'input_prefix':'','input_suffix':'','input_extra':[],'prompt':'',"
                 "'n_predict':0,'samplers':[]}");
    expect_json(answer, "tokens_predicted", "0");
    answer = ask(*state, "/v1/chat/completions",
                 "{" CACHED "'id_slot':17,'messages':[{'role':'user','content':'a'}],'samplers':[],"
                 "'n_predict':0,'response_fields':['']}");
    expect_json(answer, "usage.completion_tokens", "0");
    expect_json(answer, "choices.0.message.content", "''");
}

CASE(an_instruction_is_answered) {
    char *quoted = json_quoted("{'id_slot':18,'messages':[{'role':'user','content':'a'}],"
                               "'min_p':0.1,'temperature':0.1,'samplers':['min_p','temperature'],"
                               "'stream':true,'cache_prompt':true,'n_predict':3}");
    struct reply reply = serve_post(*state, "/v1/chat/completions", quoted);
    check(reply.status == 200 && strstr(reply.data, "[DONE]"), "%.400s", reply.data);
    reply_free(&reply);
    free(quoted);
}

CASE(slots_wrap_around) {
    expect_json(ask(*state, "/completion", "{'prompt':'a','n_predict':1,'id_slot':6}"), "id_slot",
                "2"); // of four
}

// ---------------------------------------------------------------- lines

// A text of this shape, without bounds.
#define LINES "'prompt':'a','n_predict':40,'structured_outputs':{'regex':'a\\n  b\\n c\\n(d\\n)+'}"

CASE(a_line_with_too_few_blanks_ends_each_choice) {
    const json_t *answer = ask(*state, "/completion", "{" LINES ",'n_indent':2,'n_cmpl':3}");
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_array_get(answer, i);
        expect_json(one, "content", "'a\\n  b\\n '");
        expect_json(one, "stop_type", "'limit'");
        expect_json(one, "truncated", "false");
        expect_json(one, "has_new_line", "true");
    }
    answer = ask(*state, "/v1/completions", "{" LINES ",'n_indent':1}");
    expect_json(answer, "choices.0.text", "'a\\n  b\\n c\\n'");
    expect_json(answer, "choices.0.finish_reason", "'length'");
}

// More than 0.000001 ms pass from one token to the next.
CASE(a_line_that_ends_late_ends_the_text) {
    const json_t *answer = ask(*state, "/completion",
                               "{" LINES ",'t_max_predict_ms':0.000001,'logit_bias':[['a',1]]}");
    expect_json(answer, "content", "'a\\n'");
    expect_json(answer, "stop_type", "'limit'");
    answer = ask(*state, "/completion", "{" LINES ",'t_max_predict_ms':-1}");
    assert_true(number_at(answer, "tokens_predicted") > 8);
    struct reply reply = serve_post(*state, "/completion", "{\"prompt\":\"a\",\"n_indent\":-1}");
    check(reply.status == 400 && strstr(reply.data, "n_indent: -1 is not"), "%s", reply.data);
    reply_free(&reply);
}

// ---------------------------------------------------------------- marks

static int place_of(const json_t *ids, int id, int from) {
    for (int i = from; i < (int)json_array_size(ids); i++)
        if (json_integer_value(json_array_get(ids, (size_t)i)) == id) return i;
    fail_msg("no token %d behind %d", id, from);
    return -1;
}

CASE(marks_are_those_that_the_file_names) {
    const struct serve *serve = *state;
    assert_int_equal(rn_token_fim(serve->model, RN_FIM_PREFIX), PREFIX);
    assert_int_equal(rn_token_fim(serve->model, RN_FIM_SUFFIX), SUFFIX);
    assert_int_equal(rn_token_fim(serve->model, RN_FIM_MIDDLE), MIDDLE);
    assert_int_equal(rn_token_fim(serve->model, RN_FIM_FILE), SEPARATOR);
    assert_int_equal(rn_token_fim(serve->model, RN_FIM_REPOSITORY), -1);
    assert_int_equal(rn_token_fim(serve->model, (rn_fim)99), -1);
    const json_t *answer =
        ask(*state, "/v1/completions/render", "{'prompt':'ab','suffix':'cd','n_indent':3}");
    if (json_is_array(answer)) answer = json_array_get(answer, 0);
    const json_t *ids = at_path(answer, "token_ids");
    const int prefix = place_of(ids, PREFIX, 0);
    const int suffix = place_of(ids, SUFFIX, prefix + 1);
    assert_int_equal(place_of(ids, MIDDLE, suffix + 1), json_array_size(ids) - 1);
    expect_json(answer, "sampling_params.n_indent", "3");
    expect_json(answer, "sampling_params.stop_token_ids", "[511,303]");
}

TEST_PROGRAM(editors) { return cases_run(start, stop); }
