// Token ids instead of answers, and answers from token ids: what a render says is what
// /inference/v1/generate takes, field by field. Headers of routers fill in where the body is
// silent.
#include "calls.h"
#include "routing.h"

// ---------------------------------------------------------------- render

CASE(a_prompt_becomes_its_ids_and_settings) {
    const json_t *answer = answered(render_completions, "{'prompt':'Hi','max_tokens':7}", 200);
    assert_int_equal(json_array_size(answer), 1);
    const json_t *one = json_array_get(answer, 0);
    expect_json(one, "token_ids", "[0,43,76]");
    expect_json(one, "sampling_params.max_tokens", "7");
    expect_json(one, "sampling_params.n", "1");
    expect_json(one, "model", "'tale'");
    expect_json(one, "stream", "false");
    expect_json(one, "features", "null");
    expect_json(one, "priority", "0");
}

CASE(each_prompt_of_a_list_has_an_item) {
    const json_t *answer = answered(render_completions, "{'prompt':['H','Hi',[5,6]]}", 200);
    const json_t *list = json_array_get(answer, 2);
    assert_int_equal(json_array_size(answer), 3);
    expect_json(list, "token_ids", "[5,6]");
    expect_json(list, "sampling_params.max_tokens", "254"); // up to the context
}

CASE(a_conversation_is_rendered_by_the_template) {
    const char *body = "{'messages':[{'role':'user','content':'Hi'}],'cache_salt':'s','seed':9,"
                       "'stream':true,'stream_options':{'include_usage':true},'priority':3}";
    const json_t *answer = answered(render_chat, body, 200);
    expect_json(answer, "token_ids", "[0,1,202,43,76,3,202,2,202]");
    expect_json(answer, "cache_salt", "'s'");
    expect_json(answer, "sampling_params.seed", "9");
    expect_json(answer, "stream", "true");
    expect_json(answer, "stream_options.include_usage", "true");
    expect_json(answer, "priority", "3");
}

CASE(a_render_leaves_nothing_for_the_engine) {
    struct call *call = call_new("{'prompt':'Hi'}");
    render_completions(call);
    assert_null(call->generation);
    assert_int_equal(call->status, 200);
}

CASE(a_render_refuses_what_the_endpoint_refuses) {
    static const struct refusal cases[] = {
        {"{}", "prompt", "missing"},
        {"{'prompt':'Hi','temperature':-1}", "temperature", "-1"},
        {"{'prompt':[99999]}", "prompt[0]", "99999"},
    };
    expect_refusals(render_completions, cases);
    expect_refusal(render_chat, "{'messages':[]}", "messages", "empty");
}

// ---------------------------------------------------------------- derender

// The answer of /v1/chat/completions/derender for tokens of this text, and one more that ended it.
static const json_t *derendered(const char *text, int32_t last, const char *finish,
                                const char *request) {
    char body[2048] = "{'generate_response':{'request_id':'a','choices':[{'token_ids':[";
    int32_t *ids = NULL;
    size_t n = 0;
    assert_int_equal(rn_tokenize(model, text, strlen(text), 0, &ids, &n, NULL), RN_OK);
    for (size_t i = 0; i < n; i++) sprintf(body + strlen(body), "%d,", (int)ids[i]);
    sprintf(body + strlen(body), "%d],%s}]}%s}", (int)last, finish, request);
    rn_free(ids);
    return answered(derender_chat, body, 200);
}

#define CHAT_REQUEST                                                                               \
    ",'chat_request':{'messages':[{'role':'user','content':'Hi'}],'tools':[{'type':'function','"   \
    "function':{'name':'f'}}]}"
#define CALL_TEXT "<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n</tool_call>"

CASE(tokens_are_taken_apart_as_the_text_of_the_chat) {
    const struct answer_marks marks = served.marks;
    const char *source = served.tmpl_source;
    const int32_t eos = rn_token_eos(model);
    served.tmpl_source = "{{ tools }}<think></think><tool_call>\n{\"name\"";
    served.marks = answer_marks_of(served.tmpl_source);
    const char *text = "<think>hm</think>Hello" CALL_TEXT;
    const json_t *answer = derendered(text, eos, "'finish_reason':'stop'", CHAT_REQUEST);
    expect_rows(answer, {"choices.0.message.reasoning_content", "'hm'"},
                {"choices.0.message.content", "'Hello'"},
                {"choices.0.message.tool_calls.0.function.name", "'f'"},
                {"choices.0.message.tool_calls.0.function.arguments", "'{\\'a\\':1}'"},
                {"choices.0.finish_reason", "'tool_calls'"}, {"id", "'a'"},
                {"object", "'chat.completion'"});
    assert_int_equal(number_at(answer, "usage.prompt_tokens"), 9); // of the request
    // without the request all is content; the token that ended it has no text
    answer = derendered(text, eos, "'finish_reason':'stop'", "");
    assert_string_equal(string_at(answer, "choices.0.message.content"), text);
    expect_json(answer, "usage.prompt_tokens", "0");
    // a request's own stop token, or stop string
    answer = derendered("Hello", 76, "'stop_reason':76", CHAT_REQUEST);
    expect_rows(answer, {"choices.0.message.content", "'Hello'"}, {"choices.0.stop_reason", "76"});
    answer = derendered("Hello", 76, "'stop_reason':'ell'", CHAT_REQUEST);
    expect_json(answer, "choices.0.message.content", "'H'");
    answer = derendered("Hello", 76, "'finish_reason':'length'", CHAT_REQUEST);
    expect_json(answer, "choices.0.message.content", "'Helloi'");
    served.tmpl_source = source;
    served.marks = marks;
}

// ---------------------------------------------------------------- there and back

// Every setting that a request can have, so that none is lost on the way.
#define SETTINGS                                                                                   \
    "'max_tokens':11,'min_tokens':2,'n':2,'temperature':0.7,'top_p':0.9,'top_k':40,'min_p':0.05,"  \
    "'seed':18446744073709551615,'stop':['a','b'],'stop_token_ids':[5,6],'bad_words':['no'],"      \
    "'ignore_eos':true,'include_stop_str_in_output':true,'logprobs':3,'prompt_logprobs':2,"        \
    "'logit_bias':{'5':-3.5},'presence_penalty':0.5,'frequency_penalty':0.25,"                     \
    "'repetition_penalty':1.5,'cache_salt':'pepper','priority':-4,'dry_sequence_breakers':['x'],"  \
    "'structured_outputs':{'choice':['red','blue']}"

static const struct params *params_of(struct call *call, call_handler handler) {
    handle(handler, call);
    check(!call_refused(call), "%.*s", (int)call->out.len, call->out.data);
    return &call->generation->params;
}

CASE(a_render_gives_generate_the_same_settings) {
    const struct params *want =
        params_of(call_new("{'prompt':'Hi'," SETTINGS "}"), completions_prepare);
    const json_t *answer = answered(render_completions, "{'prompt':'Hi'," SETTINGS "}", 200);
    char *body = json_dumps(json_array_get(answer, 0), JSON_COMPACT);
    struct call *call = call_new(body);
    const struct params *got = params_of(call, generate_prepare);
    free(body);
    rn_sampling a = want->sampling, b = got->sampling;
    assert_int_equal(b.n_logit_bias, 1);
    check(a.logit_bias->token == b.logit_bias->token && a.logit_bias->bias == b.logit_bias->bias,
          "bias %g", (double)b.logit_bias->bias);
    assert_int_equal(b.n_dry_sequence_breakers, 1);
    assert_string_equal(b.dry_sequence_breakers[0], "x");
    a.logit_bias = b.logit_bias = NULL;
    a.dry_sequence_breakers = b.dry_sequence_breakers = NULL;
    assert_memory_equal(&a, &b, sizeof a);
    check(got->n == 2 && got->max_tokens == 11 && got->min_tokens == 2 && got->priority == -4 &&
              got->top_logprobs == 3 && got->logprobs && got->top_prompt_logprobs == 2 &&
              got->ignore_eos && got->include_stop,
          "n %d, max %d, min %d", got->n, got->max_tokens, got->min_tokens);
    assert_string_equal(got->cache_salt, "pepper");
    check(got->n_stop == 2 && !strcmp(got->stop[1], "b") && got->n_stop_token == 2 &&
              got->stop_token[1] == 6 && got->n_bad_words == 1,
          "%zu stops", got->n_stop);
    check(call->generation->compiled != NULL, "the shape is lost");
}

CASE(generate_takes_ids_alone) {
    static const struct refusal cases[] = {
        {"{}", "token_ids", "missing"},
        {"{'token_ids':[]}", "token_ids", "empty"},
        {"{'token_ids':'Hi'}", "token_ids", "Hi"},
        {"{'token_ids':[1,'x']}", "token_ids[1]", "x"},
        {"{'token_ids':[1,-1]}", "token_ids[1]", "-1"},
        {"{'token_ids':[1,99999]}", "token_ids[1]", "99999"},
        {"{'token_ids':[[1]]}", "token_ids[0]", "array"},
        {"{'token_ids':[1],'sampling_params':7}", "sampling_params", "7"},
        {"{'token_ids':[1],'sampling_params':{'temperature':-1}}", "temperature", "-1"},
        {"{'token_ids':[1],'features':{'mm_hashes':{}}}", "features", "text"},
        {"{'token_ids':[1],'request_id':'a b'}", "request_id", "visible"},
    };
    expect_refusals(generate_prepare, cases);
    char *body = malloc(4096);
    size_t at = (size_t)sprintf(body, "{'token_ids':[1");
    for (int i = 0; i < 300; i++) at += (size_t)sprintf(body + at, ",1");
    sprintf(body + at, "]}");
    expect_refusal(generate_prepare, body, "token_ids", "301 tokens");
    free(body);
}

// ---------------------------------------------------------------- headers

// name and value pairs, NULL behind them
static void head_set(struct call *call, const char *const *fields) {
    char *text = calloc(1, 8192);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "POST") + 1;
    call->head.target = at;
    at += (size_t)sprintf(text + at, "/") + 1;
    call->head.fields = at;
    for (; *fields; fields++) at += (size_t)sprintf(text + at, "%s", *fields) + 1;
    for (const char *end = text + call->head.fields; end < text + at; end += strlen(end) + 1)
        call->head.n_fields++;
    call->head.n_fields /= 2;
    call->head.text = text;
    call->head.len = at;
}

static struct params asked(const char *body, const char *const *fields) {
    struct call *call = call_new(body);
    head_set(call, fields);
    const struct params *params = params_of(call, generate_prepare);
    static char user[64];
    struct params copy = *params;
    snprintf(user, sizeof user, "%s", params->user ? params->user : "");
    copy.user = user;
    head_deinit(&call->head);
    return copy;
}

#define ONE "{'token_ids':[1]}"

CASE(headers_say_whose_share_a_request_takes) {
    static const char *const now[] = {"X-LLM-D-Inference-Fairness-Id", "team", NULL};
    static const char *const before[] = {"x-gateway-inference-fairness-id", "old", NULL};
    assert_string_equal(asked(ONE, now).user, "team");
    assert_string_equal(asked(ONE, before).user, "old");
    assert_string_equal(asked("{'token_ids':[1],'user':'body'}", now).user, "body");
    char longest[USER_BYTES_MAX + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const large[] = {"x-llm-d-inference-fairness-id", longest, NULL};
    struct call *call = call_new(ONE);
    head_set(call, large);
    generate_prepare(call);
    head_deinit(&call->head);
    assert_int_equal(call->status, 400);
}

CASE(objectives_stand_for_priorities) {
    static const char *const urgent[] = {"x-llm-d-inference-objective", "urgent", NULL};
    static const char *const older[] = {"x-gateway-inference-objective", "batch", NULL};
    static const char *const other[] = {"x-llm-d-inference-objective", "other", NULL};
    struct routing_objective table[2];
    assert_true(routing_objective_parse("urgent=50", &table[0]));
    assert_true(routing_objective_parse("batch=-100", &table[1]));
    server.config.objectives = table;
    server.config.n_objectives = 2;
    assert_int_equal(asked(ONE, urgent).priority, -50);
    assert_int_equal(asked(ONE, older).priority, 100);
    assert_int_equal(asked(ONE, other).priority, 0);
    assert_int_equal(asked("{'token_ids':[1],'priority':2}", urgent).priority, 2);
    server.config.n_objectives = 0;
}

CASE(objectives_that_are_none_are_refused) {
    static const char *const wrong[] = {"",    "=",    "a",     "a=",     "=5",
                                        "a=x", "a=5x", "a=101", "a=-101", "a=99999999999999999999"};
    struct routing_objective out;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check(!routing_objective_parse(wrong[i], &out), "'%s'", wrong[i]);
}

CASE(ids_of_requests_are_visible_and_short) {
    char longest[130];
    memset(longest, 'x', 129);
    longest[129] = '\0';
    static const struct {
        const char *id, *want;
    } cases[] = {{"abc-1", "abc-1"}, {"", ""}, {"a b", ""}, {"a\x7f", ""}, {"\xC3\xA9", ""}};
    char out[CALL_REQUEST_ID_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct call call = {0};
        const char *const fields[] = {"X-Request-Id", cases[i].id, NULL};
        head_set(&call, fields);
        routing_id_read(&call.head, out);
        assert_string_equal(out, cases[i].want);
        head_deinit(&call.head);
    }
    struct call call = {0};
    const char *const fields[] = {"X-Request-Id", longest, NULL};
    head_set(&call, fields);
    routing_id_read(&call.head, out);
    assert_string_equal(out, "");
    head_deinit(&call.head);
}

static int open_all(void **state) {
    route.path = "/v1/completions/render"; // ids have its prefix
    return open_server(state);
}

TEST_PROGRAM(render) { return cases_run(open_all, close_server); }
