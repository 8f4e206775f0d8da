// Rules of a request over HTTP with a real engine: echoed and scored prompts, ends, and how long
// the model thinks. The template opens the reasoning.
// label: threads
#define SERVE_TURN "<think>"
#include "json_at.h"
#include "serve.h"

static const json_t *ask(const struct serve *serve, const char *path, const char *body,
                         int status) {
    char *quoted = json_quoted(body);
    struct reply reply = serve_finish(serve_ask(serve, "HTTP/1.0", path, quoted, false));
    free(quoted);
    check(reply.status == status, "%s: %.400s", body, reply.data);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return json;
}

static const json_t *complete(const struct serve *serve, const char *body) {
    return ask(serve, "/v1/completions", body, 200);
}

#define PROMPT "'prompt':[5,6,7,300,9],'ignore_eos':true,"

static const char *const lists[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};

static const json_t *list_of(const json_t *answer, int i) {
    return at_path(at_path(answer, "choices.0.logprobs"), lists[i]);
}

// ---------------------------------------------------------------- prompts

CASE(an_echo_with_logprobs_has_those_of_the_prompt) {
    const json_t *alone = complete(*state, "{" PROMPT "'logprobs':2,'max_tokens':3}");
    const json_t *echo = complete(*state, "{" PROMPT "'logprobs':2,'max_tokens':3,'echo':true}");
    const json_t *none = complete(*state, "{" PROMPT "'logprobs':2,'max_tokens':0,'echo':true}");
    const json_t *longer =
        complete(*state, "{'prompt':[5,6,7],'ignore_eos':true,'logprobs':2,'max_tokens':0,"
                         "'echo':true}");
    const char *text = string_at(none, "choices.0.text"); // the prompt's
    expect_json(echo, "choices.0.logprobs.token_logprobs.0", "null");
    expect_json(echo, "choices.0.logprobs.top_logprobs.0", "null");
    expect_json(none, "usage.completion_tokens", "0");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(json_array_size(list_of(echo, i)), 8);
        assert_int_equal(json_array_size(list_of(none, i)), 5);
        for (size_t k = 0; k < 5; k++)
            assert_true(json_equal(json_array_get(list_of(echo, i), k),
                                   json_array_get(list_of(none, i), k)));
        for (size_t k = 0; k < 3; k++) {
            assert_true(json_equal(json_array_get(list_of(longer, i), k),
                                   json_array_get(list_of(none, i), k)));
            if (i < 3)
                assert_true(json_equal(json_array_get(list_of(echo, i), 5 + k),
                                       json_array_get(list_of(alone, i), k)));
        }
    }
    const char *both = string_at(echo, "choices.0.text");
    assert_memory_equal(both, text, strlen(text));
    assert_string_equal(both + strlen(text), string_at(alone, "choices.0.text"));
}

// vLLM's -1: the whole vocabulary. As keys tokens with the same bytes are one; a NUL is a key, too,
// which our reader of JSON does not take.
CASE(all_logprobs_may_be_wanted) {
    const struct serve *serve = *state;
    const size_t n_vocab = (size_t)rn_model_get_info(serve->model)->n_vocab;
    char *body = json_quoted("{" PROMPT "'logprobs':-1,'max_tokens':2,'echo':true}");
    struct reply reply = serve_post(*state, "/v1/completions", body);
    free(body);
    size_t n = 0;
    for (const char *at = reply.body; (at = strstr(at, "\":-")); at++) n++;
    check(reply.status == 200 && n > 3 * n_vocab && n <= 6 * n_vocab, "%zu keys", n);
    check(strstr(reply.body, "\"\\u0000\":-"), "the NUL is there");
    reply_free(&reply);
    const json_t *all =
        ask(*state, "/v1/chat/completions",
            "{'messages':[{'role':'user','content':'a'}],'max_tokens':2,'logprobs':true,"
            "'top_logprobs':-1,'prompt_logprobs':-1}",
            200);
    assert_int_equal(size_at(all, "choices.0.logprobs.content.1.top_logprobs"), n_vocab);
    assert_int_equal(size_at(all, "prompt_logprobs.1"), n_vocab);
    ask(*state, "/v1/completions", "{" PROMPT "'logprobs':-2}", 400);
    // what would take more than answers may is refused before anything runs
    char large[2048] = "{'prompt':[5";
    for (int i = 0; i < 200; i++) strcat(large, ",6");
    expect_json(ask(*state, "/v1/completions", strcat(large, "],'prompt_logprobs':-1}"), 413),
                "error.code", "'answer_too_large'");
    reply =
        serve_post(*state, "/v1/completions",
                   "{\"prompt\":[5,6],\"logprobs\":-1,\"max_tokens\":3,\"stream\":true,\"n\":2}");
    check(reply.status == 200 && strstr(reply.data, "[DONE]"), "%.400s", reply.data);
    reply_free(&reply);
}

// The chunks joined are the whole answer.
CASE(a_stream_echoes_the_same) {
    const json_t *whole = complete(*state, "{" PROMPT "'logprobs':1,'max_tokens':4,'echo':true}");
    char *body =
        json_quoted("{" PROMPT "'logprobs':1,'max_tokens':4,'echo':true,'stream':true,'n':2}");
    struct reply reply =
        serve_finish(serve_ask(*state, "HTTP/1.0", "/v1/completions", body, false));
    free(body);
    char text[1024] = "";
    json_t *joined[4];
    for (int i = 0; i < 4; i++) joined[i] = json_keep(json_array());
    for (const char *at = reply.body, *end; strncmp(at, "data: [DONE]", 12); at = end + 2) {
        end = strstr(at, "\n\n");
        check(!strncmp(at, "data: ", 6) && end, "'%.60s' is no event", at);
        const json_t *chunk = json_of(at + 6, (size_t)(end - at - 6));
        if (number_at(chunk, "choices.0.index") != 1) continue;
        strcat(text, string_at(chunk, "choices.0.text"));
        for (int i = 0; i < 4; i++)
            json_array_extend(joined[i], (json_t *)(uintptr_t)list_of(chunk, i));
    }
    reply_free(&reply);
    assert_string_equal(text, string_at(whole, "choices.0.text"));
    for (int i = 0; i < 4; i++)
        check(json_equal(joined[i], list_of(whole, i)), "%s differ", lists[i]);
}

CASE(prompts_are_scored_as_vllm_writes_them) {
    const json_t *echo = complete(*state, "{" PROMPT "'logprobs':2,'max_tokens':0,'echo':true}");
    const json_t *both =
        complete(*state, "{" PROMPT "'prompt_logprobs':2,'max_tokens':1,'n':2,'temperature':1}");
    const json_t *chat = ask(*state, "/v1/chat/completions",
                             "{'messages':[{'role':'user','content':'a'}],'max_tokens':1,"
                             "'prompt_logprobs':0}",
                             200);
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "choices.%d.prompt_logprobs", i);
        assert_int_equal(size_at(both, path), 5);
        expect_json(at_path(both, path), "0", "null");
        assert_true(number_at(at_path(both, path), "3.300.logprob") ==
                    number_at(echo, "choices.0.logprobs.token_logprobs.3"));
        assert_true(number_at(at_path(both, path), "3.300.rank") >= 1);
        assert_true(string_at(at_path(both, path), "3.300.decoded_token") != NULL);
        assert_true(size_at(at_path(both, path), "3") >= 2);
    }
    assert_int_equal(size_at(chat, "prompt_logprobs"),
                     (size_t)number_at(chat, "usage.prompt_tokens"));
    assert_int_equal(size_at(chat, "prompt_logprobs.1"), 1);
    const json_t *none = complete(*state, "{" PROMPT "'max_tokens':1}");
    assert_null(at_path(none, "choices.0.prompt_logprobs"));
}

// ---------------------------------------------------------------- ends

CASE(a_stop_token_is_the_reason) {
    const json_t *plain =
        ask(*state, "/completion", "{" PROMPT "'n_predict':8,'return_tokens':true}", 200);
    const int id = (int)number_at(plain, "tokens.3");
    char body[256];
    int first = 0;
    for (char path[32];
         snprintf(path, sizeof path, "tokens.%d", first), (int)number_at(plain, path) != id;)
        first++;
    snprintf(body, sizeof body, "{" PROMPT "'max_tokens':8,'stop_token_ids':[%d]}", id);
    const json_t *stopped = complete(*state, body);
    assert_int_equal((int)number_at(stopped, "choices.0.stop_reason"), id);
    expect_json(stopped, "choices.0.finish_reason", "'stop'");
    assert_int_equal((int)number_at(stopped, "usage.completion_tokens"), first + 1);
    snprintf(body, sizeof body, "{" PROMPT "'max_tokens':8,'stop_token_ids':[%d],'min_tokens':8}",
             id);
    const json_t *longer = complete(*state, body);
    expect_json(longer, "usage.completion_tokens", "8");
    expect_json(longer, "choices.0.stop_reason", "null");
}

// ---------------------------------------------------------------- thinking

#define HI      "'messages':[{'role':'user','content':'a'}],'max_tokens':12,'ignore_eos':true"
#define THINKS  "choices.0.message.reasoning_content"
#define ANSWERS "choices.0.message.content"

static const json_t *chat(const struct serve *serve, const char *more) {
    char body[512];
    snprintf(body, sizeof body, "{" HI "%s}", more);
    return ask(serve, "/v1/chat/completions", body, 200);
}

CASE(reasoning_ends_with_its_budget) {
    const json_t *plain = chat(*state, "");
    const char *thought = string_at(plain, THINKS);
    expect_json(plain, ANSWERS, "''");
    assert_true(strlen(thought) > 0);
    const json_t *some = chat(*state, ",'thinking_token_budget':3");
    const char *start = string_at(some, THINKS);
    assert_true(strlen(start) > 0 && strlen(start) < strlen(thought));
    assert_memory_equal(start, thought, strlen(start));
    const json_t *none = chat(*state, ",'reasoning_effort':'none'");
    assert_null(at_path(none, THINKS));
    assert_true(strlen(string_at(none, ANSWERS)) > 0);
    const json_t *much = chat(*state, ",'reasoning_effort':'high'");
    assert_string_equal(string_at(much, THINKS), thought);
}

CASE(every_route_has_a_budget) {
    const json_t *messages = ask(*state, "/v1/messages",
                                 "{" HI ",'thinking':{'type':'enabled','budget_tokens':3}}", 200);
    const json_t *same = chat(*state, ",'thinking_budget_tokens':3");
    assert_string_equal(string_at(messages, "content.0.thinking"), string_at(same, THINKS));
    assert_string_equal(string_at(messages, "content.1.text"), string_at(same, ANSWERS));
    const json_t *responses = ask(*state, "/v1/responses",
                                  "{'input':'a','max_output_tokens':12,'ignore_eos':true,"
                                  "'reasoning':{'effort':'none'}}",
                                  200);
    expect_json(responses, "output.0.type", "'message'");
    ask(*state, "/v1/messages", "{" HI ",'thinking':{'type':'enabled','budget_tokens':12}}", 400);
    ask(*state, "/v1/messages", "{" HI ",'thinking':{'type':'enabled','budget_tokens':0}}", 400);
    ask(*state, "/v1/chat/completions", "{" HI ",'reasoning_effort':'some'}", 400);
    ask(*state, "/v1/responses", "{'input':'a','reasoning':{'effort':'some'}}", 400);
}

// It starts behind the reasoning; a text that is cut off is a start of it.
CASE(an_answer_has_the_shape_that_was_asked_for) {
    for (int seed = 0; seed < 3; seed++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{'messages':[{'role':'user','content':'a'}],'max_tokens':60,'seed':%d,"
                 "'temperature':1.5,'thinking_token_budget':3,"
                 "'structured_outputs':{'choice':['ab','cd']}}",
                 seed);
        const json_t *answer = ask(*state, "/v1/chat/completions", body, 200);
        const char *text = string_at(answer, ANSWERS);
        check(!strcmp(text, "ab") || !strcmp(text, "cd"), "%s", text);
        expect_json(answer, "choices.0.finish_reason", "'stop'");
        assert_non_null(string_at(answer, THINKS));
    }
    const json_t *cut = complete(*state, "{" PROMPT "'guided_regex':'[ab]{9}','max_tokens':3}");
    const char *text = string_at(cut, "choices.0.text");
    check(strlen(text) > 0 && strspn(text, "ab") == strlen(text), "%s", text);
    expect_json(cut, "choices.0.finish_reason", "'length'");
}

static int stop(void **state) {
    json_kept_free();
    return serve_teardown(state);
}

static int start(void **state) {
    struct server_config config = serve_config();
    config.all_logprobs = true;
    return serve_setup_with(state, &config);
}

TEST_PROGRAM(rules_http) { return cases_run(start, stop); }
