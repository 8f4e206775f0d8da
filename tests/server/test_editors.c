// Requests of llama.cpp's clients, over HTTP with a real engine: the fields that plugins of
// editors, SillyTavern and llama.cpp's page send. The model is a reference model whose file names
// its marks for a text between two others by id.
// label: threads
static const char *model_path(void);
#define SERVE_MODEL model_path()
#include "gguf_patch.h"
#include "json_at.h"
#include "serve.h"

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
    const struct data_file file = data_file_read(TEST_DATA "/golden/llama/model.gguf");
    struct writer more = writer_begin(3);
    keys_put(&more);
    const struct data_file copy = gguf_with_keys(&file, &more);
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    data_file_write(folder.path, "model.gguf", copy.data, copy.size);
    free(copy.data);
    free(file.data);
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

// A stream of a chat, which has this text and ends.
static void stream_check(const struct serve *serve, const char *body, const char *has) {
    char *quoted = json_quoted(body);
    struct reply reply = serve_post(serve, "/v1/chat/completions", quoted);
    check(reply.status == 200 && strstr(reply.data, has) && strstr(reply.data, "[DONE]"), "%.400s",
          reply.data);
    reply_free(&reply);
    free(quoted);
}

// ---------------------------------------------------------------- what clients send

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
    stream_check(*state,
                 "{'id_slot':18,'messages':[{'role':'user','content':'a'}],'min_p':0.1,"
                 "'temperature':0.1,'samplers':['min_p','temperature'],'stream':true,"
                 "'cache_prompt':true,'n_predict':3}",
                 "");
}

// It has the fields of many servers at once, and names all samplers.
CASE(a_text_of_sillytavern_is_answered) {
    const json_t *answer = ask(
        *state, "/completion",
        "{'prompt':'Tell me.\\nA:','model':'tiny','max_new_tokens':8,'max_tokens':8,'n_predict':8,"
        "'num_predict':8,'temperature':0.7,'top_p':0.5,'typical_p':1,'typical':1,'min_p':0,"
        "'repetition_penalty':1,'frequency_penalty':0,'presence_penalty':0,'top_k':40,'skew':0,"
        "'min_tokens':0,'add_bos_token':true,'dynatemp_low':1,'dynatemp_high':1,'dynatemp_range':0,"
        "'dynatemp_exponent':1,'smoothing_factor':0,'smoothing_curve':1,'dry_allowed_length':2,"
        "'dry_multiplier':0,'dry_base':1.75,'dry_sequence_breakers':['\\n',':','\\'','*'],"
        "'dry_penalty_last_n':0,'max_tokens_second':0,'samplers':['penalties','dry','top_n_sigma',"
        "'top_k','typ_p','top_p','min_p','xtc','temperature'],'stopping_strings':['\\nUser:'],"
        "'stop':['\\nUser:'],'truncation_length':1024,'ban_eos_token':false,"
        "'skip_special_tokens':true,'include_reasoning':true,'top_a':0,'tfs':1,'mirostat_mode':0,"
        "'mirostat_tau':5,'mirostat_eta':0.1,'custom_token_bans':'','banned_strings':[],"
        "'api_type':'llamacpp','api_server':'http://127.0.0.1:8080/','legacy_api':false,"
        "'xtc_threshold':0.1,'xtc_probability':0,'nsigma':0,'top_n_sigma':0,'min_keep':0,"
        "'adaptive_target':-0.01,'adaptive_decay':0.9,'n':1,'rep_pen':1,'rep_pen_range':0,"
        "'repetition_penalty_range':0,'guidance_scale':1,'negative_prompt':'','repeat_penalty':1,"
        "'repeat_last_n':0,'num_ctx':1024,'n_ctx':1024,'mirostat':0,'ignore_eos':false,'n_probs':0,"
        "'rep_pen_slope':1,'logit_bias':[],'grammar':'','cache_prompt':true}");
    expect_json(answer, "generation_settings.samplers",
                "['penalties','dry','temperature','top_n_sigma','top_k','typ_p','top_p','min_p',"
                "'xtc']");
    expect_json(answer, "generation_settings.top_k", "40");
    expect_json(answer, "generation_settings.n_predict", "8");
    check(number_at(answer, "tokens_predicted") > 0, "it has a text");
}

CASE(a_chat_of_llama_cpps_page_is_answered) {
    stream_check(
        *state,
        "{'messages':[{'role':'user','content':'a'}],'stream':true,'return_progress':true,"
        "'sse_ping_interval':1,'model':'tiny','reasoning_format':'auto','reasoning_control':true,"
        "'chat_template_kwargs':{'enable_thinking':true},'thinking_budget_tokens':512,"
        "'temperature':0.8,'max_tokens':8,'dynatemp_range':0,'dynatemp_exponent':1,'top_k':40,"
        "'top_p':0.95,'min_p':0.05,'xtc_probability':0,'xtc_threshold':0.1,'typ_p':1,"
        "'repeat_last_n':64,'repeat_penalty':1,'presence_penalty':0,'frequency_penalty':0,"
        "'dry_multiplier':0,'dry_base':1.75,'dry_allowed_length':2,'dry_penalty_last_n':-1,"
        "'samplers':['top_k','typ_p','top_p','min_p','temperature'],'backend_sampling':false,"
        "'timings_per_token':true}",
        "\"prompt_progress\":");
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
