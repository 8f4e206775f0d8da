// Members and routes that clients of llama.cpp and vLLM ask for, over HTTP with a real engine: how
// far a prompt is, times and token ids beside texts, prompts that are too long, names of models.
// label: threads memory
#include "json_at.h"
#include "serve.h"

static const json_t *parsed(struct reply reply, int status) {
    check(reply.status == status, "%.300s", reply.data);
    const json_t *json = json_of(reply.body, strlen(reply.body));
    reply_free(&reply);
    return json;
}

static const json_t *post(const struct serve *serve, const char *path, const char *body,
                          int status) {
    char *quoted = json_quoted(body);
    const json_t *json = parsed(serve_post(serve, path, quoted), status);
    free(quoted);
    return json;
}

// The events of a stream, without [DONE]. As HTTP/1.0, which has no chunks, the body is they alone.
static const json_t *events(const struct serve *serve, const char *path, const char *body) {
    char *quoted = json_quoted(body);
    struct reply reply = serve_finish(serve_ask(serve, "HTTP/1.0", path, quoted, false));
    json_t *list = json_keep(json_array());
    for (const char *at = strstr(reply.body, "data: "), *end; at; at = strstr(end, "\ndata: ")) {
        at = strchr(at, ':') + 2;
        end = strchr(at, '\n');
        check(end, "%.300s", reply.data);
        if (*at == '{') json_array_append(list, json_of(at, (size_t)(end - at)));
    }
    check(reply.status == 200 && json_array_size(list), "%s: %.400s", path, reply.data);
    reply_free(&reply);
    free(quoted);
    return list;
}

#define TURN "'messages':[{'role':'user','content':'a fox and a lantern in the deep wood'}]"

static const struct {
    const char *path, *prompt;
} streams[] = {{"/completion", "'prompt':[5,6,7,8,9,10,11],'n_predict':5"},
               {"/v1/completions", "'prompt':[5,6,7,8,9,10,11],'max_tokens':5"},
               {"/v1/chat/completions", TURN ",'max_tokens':5"},
               {"/v1/responses", "'input':'a fox and a lantern','max_output_tokens':5"}};

// ---------------------------------------------------------------- progress and times

// Each tells more than the one before; the first is the cached part, the last all of it.
static void progress_check(const json_t *list, const char *path) {
    json_int_t total = 0, processed = -1;
    const json_t *event;
    size_t i;
    json_array_foreach(list, i, event) {
        const json_t *progress = json_object_get(event, "prompt_progress");
        if (!progress) continue;
        expect_keys(progress, "total cache processed time_ms");
        if (processed < 0)
            check(json_equal(at_path(progress, "cache"), at_path(progress, "processed")), "%s",
                  path);
        check((json_int_t)number_at(progress, "processed") > processed, "%s", path);
        check(!strstr(path, "completion") || !at_path(event, "choices.0.delta.content"), "%s",
              path);
        processed = (json_int_t)number_at(progress, "processed");
        total = (json_int_t)number_at(progress, "total");
    }
    check(processed > 0 && processed == total, "%s: %lld of %lld", path, (long long)processed,
          (long long)total);
}

CASE(a_stream_tells_how_far_its_prompt_is) {
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        char body[512];
        snprintf(body, sizeof body, "{%s,'stream':true,'return_progress':true}", streams[i].prompt);
        progress_check(events(*state, streams[i].path, body), streams[i].path);
        snprintf(body, sizeof body, "{%s,'stream':true}", streams[i].prompt);
        const json_t *list = events(*state, streams[i].path, body), *event;
        size_t k;
        json_array_foreach(list, k, event)
            check(!json_object_get(event, "prompt_progress"), "%s: nobody asked", streams[i].path);
    }
}

// Each report's times are of the tokens that were evaluated until then.
CASE(a_report_has_the_times_so_far) {
    const json_t *list = events(*state, "/completion",
                                "{'prompt':[40,41,42,43,44,45],'n_predict':2,'stream':true,"
                                "'return_progress':true,'timings_per_token':true}"),
                 *event;
    int n = 0;
    size_t i;
    json_array_foreach(list, i, event) {
        if (!json_object_get(event, "prompt_progress")) continue;
        const double done = number_at(event, "prompt_progress.processed");
        check(number_at(event, "timings.prompt_n") ==
                  done - number_at(event, "prompt_progress.cache"),
              "%g tokens", done);
        n++;
    }
    check(n > 1, "%d reports", n);
}

// The prompts of one request tell of themselves, each with its own index.
CASE(several_prompts_tell_of_themselves) {
    const json_t *list = events(*state, "/completion",
                                "{'prompt':[[5,6,7],[8,9]],'n_predict':2,'stream':true,"
                                "'return_progress':true}"),
                 *event;
    json_int_t last[2] = {0};
    size_t i;
    json_array_foreach(list, i, event) {
        if (json_object_get(event, "prompt_progress"))
            last[(int)number_at(event, "index")] =
                (json_int_t)number_at(event, "prompt_progress.processed");
    }
    assert_int_equal(last[0], 3);
    assert_int_equal(last[1], 2);
}

CASE(a_streams_pieces_have_times) {
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        char body[512];
        snprintf(body, sizeof body, "{%s,'stream':true,'timings_per_token':true}",
                 streams[i].prompt);
        const json_t *list = events(*state, streams[i].path, body), *event;
        json_int_t most = 0;
        int n = 0, n_ends = 0;
        size_t k;
        json_array_foreach(list, k, event) {
            const json_t *timings = json_object_get(event, "timings");
            if (!timings) continue;
            check((json_int_t)number_at(timings, "predicted_n") >= most, "%s", streams[i].path);
            most = (json_int_t)number_at(timings, "predicted_n");
            check(number_at(timings, "prompt_n") + number_at(timings, "cache_n") > 3, "%s",
                  streams[i].path);
            n_ends += json_object_get(event, "response") != NULL;
            n++;
        }
        check(n > 1 && most > 0, "%s: %d pieces", streams[i].path, n);
        assert_int_equal(n_ends, strstr(streams[i].path, "responses") != NULL);
    }
}

// ---------------------------------------------------------------- token ids

static void ids_add(json_t *all, const json_t *more) {
    if (more) json_array_extend(all, (json_t *)(uintptr_t)more);
}

#define IDS "'return_token_ids':true,'temperature':0"

CASE(completions_have_the_ids_of_their_texts) {
    const char *asked = "'prompt':[5,6,7],'n':2,'max_tokens':6,'ignore_eos':true," IDS;
    char body[256];
    snprintf(body, sizeof body, "{%s}", asked);
    const json_t *whole = post(*state, "/v1/completions", body, 200);
    snprintf(body, sizeof body, "{%s,'stream':true}", asked);
    const json_t *list = events(*state, "/v1/completions", body), *event;
    json_t *ids[2] = {json_keep(json_array()), json_keep(json_array())};
    json_t *prompts[2] = {json_keep(json_array()), json_keep(json_array())};
    size_t k;
    json_array_foreach(list, k, event) {
        const int i = (int)number_at(event, "choices.0.index");
        ids_add(ids[i], at_path(event, "choices.0.token_ids"));
        ids_add(prompts[i], at_path(event, "choices.0.prompt_token_ids"));
    }
    for (int i = 0; i < 2; i++) {
        const json_t *choice = json_array_get(at_path(whole, "choices"), (size_t)i);
        assert_int_equal(size_at(choice, "token_ids"), 6);
        expect_json(choice, "prompt_token_ids", "[5,6,7]");
        check(json_equal(ids[i], at_path(choice, "token_ids")), "choice %d", i);
        expect_json(prompts[i], "", "[5,6,7]"); // once
    }
}

CASE(chats_have_the_ids_of_their_texts) {
    const char *asked = TURN ",'max_tokens':6,'ignore_eos':true," IDS;
    char body[512];
    snprintf(body, sizeof body, "{%s}", asked);
    const json_t *whole = post(*state, "/v1/chat/completions", body, 200);
    snprintf(body, sizeof body, "{%s,'stream':true}", asked);
    const json_t *list = events(*state, "/v1/chat/completions", body), *event;
    json_t *ids = json_keep(json_array()), *prompts = json_keep(json_array());
    size_t k;
    json_array_foreach(list, k, event) {
        ids_add(ids, at_path(event, "choices.0.token_ids"));
        ids_add(prompts, json_object_get(event, "prompt_token_ids"));
    }
    assert_int_equal(size_at(whole, "choices.0.token_ids"), 6);
    check(json_equal(ids, at_path(whole, "choices.0.token_ids")), "the same tokens");
    check(json_equal(prompts, at_path(whole, "prompt_token_ids")), "the prompt, once");
    assert_int_equal(json_array_size(prompts), number_at(whole, "usage.prompt_tokens"));
    expect_json(json_array_get(list, 0), "choices.0.token_ids", "[]"); // the role
    check(!at_path(json_array_get(list, 1), "prompt_token_ids"), "in the first chunk alone");
}

// The ids of a prompt that was evaluated elsewhere stand for the messages.
CASE(a_chat_can_bring_the_ids_of_its_prompt) {
    const json_t *first =
        post(*state, "/v1/chat/completions", "{" TURN ",'max_tokens':6," IDS "}", 200);
    char *ids = json_dumps(at_path(first, "prompt_token_ids"), JSON_COMPACT);
    char body[1024];
    snprintf(body, sizeof body,
             "{'messages':[{'role':'user','content':'other'}],'max_tokens':6," IDS
             ",'kv_transfer_params':{'do_remote_prefill':true,'prompt_token_ids':%s}}",
             ids);
    const json_t *second = post(*state, "/v1/chat/completions", body, 200);
    check(json_equal(at_path(first, "choices.0.message"), at_path(second, "choices.0.message")),
          "the same answer");
    check(json_equal(at_path(first, "prompt_token_ids"), at_path(second, "prompt_token_ids")),
          "the same prompt");
    free(ids);
    const json_t *answer = post(*state, "/v1/chat/completions",
                                "{" TURN ",'kv_transfer_params':{'prompt_token_ids':[-1]}}", 400);
    expect_json(answer, "error.param", "'kv_transfer_params.prompt_token_ids[0]'");
    post(*state, "/v1/chat/completions", "{" TURN ",'kv_transfer_params':{'prompt_token_ids':[]}}",
         200);
}

CASE(logprobs_can_name_tokens_by_their_ids) {
#define NAMED "'max_tokens':3,'return_tokens_as_token_ids':true," IDS
    char want[32];
    const json_t *chat = post(*state, "/v1/chat/completions",
                              "{" TURN ",'logprobs':true,'top_logprobs':2," NAMED "}", 200);
    snprintf(want, sizeof want, "'token_id:%d'", (int)number_at(chat, "choices.0.token_ids.0"));
    expect_json(chat, "choices.0.logprobs.content.0.token", want);
    check(!strncmp(string_at(chat, "choices.0.logprobs.content.0.top_logprobs.1.token"),
                   "token_id:", 9),
          "the others, too");
    const json_t *text =
        post(*state, "/v1/completions", "{'prompt':[5,6],'logprobs':2," NAMED "}", 200);
    snprintf(want, sizeof want, "'token_id:%d'", (int)number_at(text, "choices.0.token_ids.0"));
    expect_json(text, "choices.0.logprobs.tokens.0", want);
    const char *key = json_object_iter_key(
        json_object_iter((json_t *)(uintptr_t)at_path(text, "choices.0.logprobs.top_logprobs.0")));
    check(key && !strncmp(key, "token_id:", 9), "'%s'", key ? key : "");
}

CASE(usage_comes_with_every_chunk) {
    const json_t *list = events(*state, "/v1/completions",
                                "{'prompt':[5,6,7],'max_tokens':4,'ignore_eos':true,'stream':true,"
                                "'stream_options':{'include_usage':true,"
                                "'continuous_usage_stats':true}}"),
                 *event;
    json_int_t most = 0;
    size_t i;
    json_array_foreach(list, i, event) {
        assert_int_equal(number_at(event, "usage.prompt_tokens"), 3);
        const json_int_t n = (json_int_t)number_at(event, "usage.completion_tokens");
        check(n >= most && (json_int_t)number_at(event, "usage.total_tokens") == n + 3, "chunk %zu",
              i);
        most = n;
    }
    assert_int_equal(most, 4);
}

// ---------------------------------------------------------------- refusals and routes

CASE(a_prompt_that_is_too_long_is_told_in_numbers) {
    static char ids[16384], body[16600];
    strcpy(ids, "5");
    for (int i = 0; i < 3000; i++) strcat(ids, ",6");
    static const char *const paths[] = {"/completion", "/v1/completions", "/embedding"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        snprintf(body, sizeof body, "{'%s':[%s]}", i == 2 ? "content" : "prompt", ids);
        const json_t *error = at_path(post(*state, paths[i], body, 400), "error");
        expect_json(error, "type", "'exceed_context_size_error'");
        expect_json(error, "code", "'context_length_exceeded'");
        assert_int_equal(number_at(error, "n_prompt_tokens"), 3001);
        check(number_at(error, "n_ctx") > 0 && number_at(error, "n_ctx") < 3000, "n_ctx");
    }
    for (size_t i = 0; ids[i]; i++) ids[i] = i % 2 ? ' ' : 'x';
    snprintf(body, sizeof body, "{'max_tokens':4,'messages':[{'role':'user','content':'%s'}]}",
             ids);
    const json_t *error = at_path(post(*state, "/v1/chat/completions", body, 400), "error");
    expect_json(error, "type", "'exceed_context_size_error'");
    error = at_path(post(*state, "/v1/messages", body, 400), "error");
    expect_keys(error, "type message");
    expect_json(error, "type", "'invalid_request_error'");
}

CASE(the_tokens_of_a_chat_are_counted) {
    const json_t *chat = post(*state, "/v1/chat/completions", "{" TURN ",'max_tokens':1}", 200);
    static const char *const paths[] = {"/v1/chat/completions/input_tokens",
                                        "/chat/completions/input_tokens"};
    for (int i = 0; i < 2; i++) {
        const json_t *count = post(*state, paths[i], "{" TURN "}", 200);
        check(json_equal(at_path(count, "input_tokens"), at_path(chat, "usage.prompt_tokens")),
              "%s", paths[i]);
        post(*state, paths[i], "{'messages':5}", 400);
    }
}

CASE(the_tokens_of_a_chat_that_is_too_long_are_counted) {
    static char text[16384], body[16600];
    for (size_t i = 0; i < sizeof text - 1; i++) text[i] = i % 2 ? ' ' : 'x';
    snprintf(body, sizeof body, "{'max_tokens':4,'messages':[{'role':'user','content':'%s'}]}",
             text);
    const json_t *refused = post(*state, "/v1/chat/completions", body, 400);
    const json_t *count = post(*state, "/v1/chat/completions/input_tokens", body, 200);
    check(number_at(count, "input_tokens") > number_at(refused, "error.n_ctx"), "it is too long");
    check(json_equal(at_path(count, "input_tokens"), at_path(refused, "error.n_prompt_tokens")),
          "the same number");
}

// A request by hand: DELETE has no function of its own.
static struct reply without_body(const struct serve *serve, const char *method, const char *path) {
    char text[256];
    const int len =
        snprintf(text, sizeof text,
                 "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", method, path);
    return serve_exchange(serve, text, (size_t)len);
}

CASE(responses_have_a_route_without_their_version) {
    const json_t *made = post(*state, "/responses", "{'input':'a fox','max_output_tokens':4}", 200);
    const char *id = string_at(made, "id");
    char path[96];
    check(!strncmp(id, "resp_", 5), "%s", id);
    static const char *const prefixes[] = {"/responses", "/v1/responses"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", prefixes[i], id);
        expect_json(parsed(without_body(*state, "GET", path), 200), "object", "'response'");
    }
    snprintf(path, sizeof path, "/responses/%s/input_items", id);
    assert_int_equal(size_at(parsed(without_body(*state, "GET", path), 200), "data"), 1);
    snprintf(path, sizeof path, "/responses/%s", id);
    expect_json(parsed(without_body(*state, "DELETE", path), 200), "deleted", "true");
    parsed(without_body(*state, "GET", path), 404);
}

// `content` asks for llama.cpp's form, `input` for OpenAI's.
CASE(embeddings_have_the_form_of_their_field) {
    static const char *const paths[] = {"/embeddings", "/v1/embeddings"};
    for (int i = 0; i < 2; i++) {
        const json_t *openai = post(*state, paths[i], "{'input':[[5,6],[7]]}", 200);
        const json_t *native = post(*state, paths[i], "{'content':[[5,6],[7]]}", 200);
        assert_int_equal(json_array_size(native), 2);
        check(json_equal(at_path(native, "1.embedding.0"), at_path(openai, "data.1.embedding")),
              "%s", paths[i]);
        expect_json(post(*state, paths[i], "{}", 400), "error.param", "'input'");
    }
}

// ---------------------------------------------------------------- derender

// What /inference/v1/generate gave for the request's own render becomes the answer of its route.
static const json_t *generated(const struct serve *serve, const json_t *rendered) {
    char *body = json_dumps(rendered, JSON_COMPACT);
    const json_t *answer = parsed(serve_post(serve, "/inference/v1/generate", body), 200);
    free(body);
    return answer;
}

// {"NAME":..., ...} of three members, as a body.
static const json_t *derendered(const struct serve *serve, const char *path, json_t *body,
                                int status) {
    char *text = json_dumps(body, JSON_COMPACT);
    const json_t *answer = parsed(serve_post(serve, path, text), status);
    free(text);
    json_decref(body);
    return answer;
}

CASE(a_chat_can_be_put_together_from_its_tokens) {
    static const char *const requests[] = {
        "{" TURN ",'max_tokens':8,'temperature':0,'n':2}",
        "{" TURN ",'max_tokens':8,'temperature':0,'logprobs':true,'top_logprobs':2}",
        "{" TURN ",'max_tokens':30,'temperature':0,'stop':['e'],'include_stop_str_in_output':true}",
        "{" TURN ",'max_tokens':30,'temperature':0,'stop':['e']}",
        "{" TURN ",'max_tokens':0}",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const json_t *whole = post(*state, "/v1/chat/completions", requests[i], 200);
        const json_t *rendered = post(*state, "/v1/chat/completions/render", requests[i], 200);
        const json_t *made = generated(*state, rendered);
        char *quoted = json_quoted(requests[i]);
        json_t *body = json_pack("{s:O,s:o,s:i}", "generate_response", made, "chat_request",
                                 json_loads(quoted, 0, NULL), "prompt_tokens",
                                 (int)size_at(rendered, "token_ids"));
        const json_t *answer = derendered(*state, "/v1/chat/completions/derender", body, 200);
        check(json_equal(at_path(answer, "choices"), at_path(whole, "choices")), "%s: %s",
              requests[i], json_dumps(answer, 0));
        static const char *const same[] = {"object", "model", "usage.prompt_tokens",
                                           "usage.completion_tokens", "usage.total_tokens"};
        for (size_t k = 0; k < sizeof same / sizeof *same; k++)
            check(json_equal(at_path(answer, same[k]), at_path(whole, same[k])), "%s", same[k]);
        check(json_equal(at_path(answer, "id"), at_path(made, "request_id")), "its id");
        check(!json_object_get(answer, "timings"), "no engine has times of it");
        check(!at_path(answer, "usage.completion_tokens_details"), "its reasoning is not counted");
        free(quoted);
    }
}

CASE(completions_can_be_put_together_from_their_tokens) {
    static const char request[] =
        "{'prompt':[[5,6,7],[8,9]],'n':2,'max_tokens':5,'temperature':0,'logprobs':1}";
    const json_t *whole = post(*state, "/v1/completions", request, 200);
    const json_t *rendered = post(*state, "/v1/completions/render", request, 200);
    json_t *list = json_array();
    for (size_t i = 0; i < 2; i++)
        json_array_append(list,
                          (json_t *)(uintptr_t)generated(*state, json_array_get(rendered, i)));
    json_t *body = json_pack("{s:o,s:[i,i]}", "generate_responses", list, "prompt_tokens", 3, 2);
    const json_t *answer = derendered(*state, "/v1/completions/derender", body, 200);
    check(json_equal(at_path(answer, "choices"), at_path(whole, "choices")), "%s",
          json_dumps(answer, 0));
    expect_json(answer, "usage.total_tokens", "25");
}

CASE(what_cannot_be_put_together_is_named) {
    static const char *const chats[][2] = {
        {"{}", "generate_response"},
        {"{'generate_response':5}", "generate_response"},
        {"{'generate_response':{}}", "generate_response.choices"},
        {"{'generate_response':{'choices':[5]}}", "generate_response.choices[0]"},
        {"{'generate_response':{'choices':[{}]}}", "generate_response.choices[0].token_ids"},
        {"{'generate_response':{'choices':[{'token_ids':[5,-1]}]}}",
         "generate_response.choices[0].token_ids[1]"},
        {"{'generate_response':{'choices':[{'index':1,'token_ids':[5]}]}}",
         "generate_response.choices[0].index"},
        {"{'generate_response':{'choices':[{'token_ids':[5],'finish_reason':'x'}]}}",
         "generate_response.choices[0].finish_reason"},
        {"{'generate_response':{'choices':[{'token_ids':[5],'stop_reason':4294967301}]}}",
         "generate_response.choices[0].stop_reason"},
        {"{'generate_response':{'choices':[{'token_ids':[5],'stop_reason':[]}]}}",
         "generate_response.choices[0].stop_reason"},
        {"{'generate_response':{'choices':[{'token_ids':[5],'logprobs':{'content':[{'token':'a'}]"
         "}}]}}",
         "generate_response.choices[0].logprobs.content[0].token"},
        {"{'generate_response':{'choices':[{'token_ids':[5],'logprobs':{'content':[{'token':"
         "'token_id: 5'}]}}]}}",
         "generate_response.choices[0].logprobs.content[0].token"},
        {"{'generate_response':{'choices':[{'token_ids':[5]}]},'prompt_tokens':-1}",
         "prompt_tokens"},
        {"{'generate_response':{'choices':[{'token_ids':[5]}]},'prompt_tokens':33554432}",
         "prompt_tokens"},
        {"{'generate_response':{'choices':[{'token_ids':[5]}]},'chat_request':{}}", "messages"},
        {"{'generate_response':{'choices':[{'token_ids':[5]}]},'stream':true}", "stream"},
    };
    static const char *const texts[][2] = {
        {"{}", "generate_responses"},
        {"{'generate_responses':[{'choices':[{'token_ids':[5]}]},{'choices':[{'token_ids':[5]}]}],"
         "'prompt_tokens':[2147483647,2147483647]}",
         "prompt_tokens"},
        {"{'generate_responses':[{'choices':[{'token_ids':[5]}]}],'prompt_tokens':[1,2]}",
         "prompt_tokens"},
        {"{'generate_responses':[{'choices':[{'token_ids':[5]}]},{'choices':[{'token_ids':[5]},{'"
         "token_ids':[6]}]}]}",
         "generate_responses[1]"},
    };
    for (size_t i = 0; i < sizeof chats / sizeof *chats; i++) {
        const json_t *answer = post(*state, "/v1/chat/completions/derender", chats[i][0], 400);
        check(!strcmp(string_at(answer, "error.param"), chats[i][1]), "%s: %s", chats[i][0],
              string_at(answer, "error.param"));
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const json_t *answer = post(*state, "/v1/completions/derender", texts[i][0], 400);
        check(!strcmp(string_at(answer, "error.param"), texts[i][1]), "%s: %s", texts[i][0],
              string_at(answer, "error.param"));
    }
    post(*state, "/v1/chat/completions/derender",
         "{'generate_response':{'choices':[{'token_ids':[5,6]}]}}", 200);
}

// It ended with its prompt.
CASE(an_answer_without_tokens_can_be_put_together) {
    static const char *const finishes[] = {"length", "stop", "cache_threshold"};
    for (size_t i = 0; i < sizeof finishes / sizeof *finishes; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{'generate_response':{'choices':[{'token_ids':[],'finish_reason':'%s'}]},"
                 "'prompt_tokens':33554431}",
                 finishes[i]);
        const json_t *answer = post(*state, "/v1/chat/completions/derender", body, 200);
        expect_json(answer, "choices.0.message.content", "''");
        check(!strcmp(string_at(answer, "choices.0.finish_reason"), finishes[i]), "%s",
              finishes[i]);
        expect_json(answer, "usage",
                    "{'prompt_tokens':33554431,'completion_tokens':0,'total_tokens':33554431,"
                    "'prompt_tokens_details':{'cached_tokens':0}}");
    }
    const json_t *answer =
        post(*state, "/v1/completions/derender",
             "{'generate_responses':[{'choices':[{'token_ids':[],'finish_reason':'length'}]}]}",
             200);
    expect_json(answer, "choices.0.text", "''");
}

// ---------------------------------------------------------------- names

static const char *const named[][2] = {
    {"/v1/chat/completions", TURN ",'max_tokens':1"},
    {"/v1/completions", "'prompt':'a','max_tokens':1"},
    {"/v1/responses", "'input':'a','max_output_tokens':1"},
    {"/v1/messages", TURN ",'max_tokens':1"},
    {"/v1/messages/count_tokens", TURN},
    {"/v1/embeddings", "'input':'a'"},
    {"/completion", "'prompt':'a','n_predict':1"},
    {"/tokenize", "'content':'a'"},
    {"/api/chat", TURN ",'stream':false,'options':{'num_predict':1}"},
    {"/inference/v1/generate", "'token_ids':[5,6],'sampling_params':{'max_tokens':1}"},
};

CASE(the_only_model_answers_to_every_name) {
    char body[256];
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        snprintf(body, sizeof body, "{'model':'gpt-3.5-turbo',%s}", named[i][1]);
        const json_t *answer = post(*state, named[i][0], body, 200);
        const char *name = string_at(answer, "model");
        if (!name) continue;
        const bool is_ollamas = !strncmp(named[i][0], "/api", 4); // which repeats the client's
        check(!strcmp(name, is_ollamas ? "gpt-3.5-turbo" : "tiny"), "%s: %s", named[i][0], name);
    }
    parsed(serve_get(*state, "/v1/models/gpt-3.5-turbo"), 404);
    post(*state, "/api/show", "{'model':'gpt-3.5-turbo'}", 404);
    struct reply metrics = serve_get(*state, "/metrics");
    check(strstr(metrics.body, "tiny") && !strstr(metrics.body, "gpt"), "labels are few");
    reply_free(&metrics);
}

CASE(a_strict_server_knows_its_names_alone) {
    struct server_config config = serve_config();
    static const char *const aliases[] = {"tiny", "small"};
    struct serve serve;
    char body[256];
    config.strict_model = true;
    config.aliases = aliases;
    config.n_aliases = 2;
    serve_start(&serve, &config);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        snprintf(body, sizeof body, "{'model':'gpt-3.5-turbo',%s}", named[i][1]);
        post(&serve, named[i][0], body, 404);
        snprintf(body, sizeof body, "{'model':'small',%s}", named[i][1]);
        post(&serve, named[i][0], body, 200);
    }
    serve_stop(&serve);
}

static int stop(void **state) {
    json_kept_free();
    return serve_teardown(state);
}

TEST_PROGRAM(peer_forms) { return cases_run(serve_setup, stop); }
