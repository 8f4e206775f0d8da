// /v1/completions: prompts in all their forms, echoes, legacy logprobs, and streams with the
// content of the whole answer.
#include "calls.h"

static struct call *prepare(const char *body) { return call_prepared(completions_prepare, body); }

// The ids of a text, to be given back by rn_free.
static int32_t *ids_of(const char *text, size_t len, int flags, size_t *n_ids) {
    int32_t *ids;
    assert_int_equal(rn_tokenize(model, text, len, flags, &ids, n_ids, NULL), RN_OK);
    return ids;
}

static void expect_ids(const struct generation_prompt *prompt, const int32_t *ids, size_t n_ids) {
    assert_int_equal(prompt->n_ids, n_ids);
    assert_memory_equal(prompt->ids, ids, n_ids * sizeof *ids);
}

enum { AS_PROMPT = RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL };

// ---------------------------------------------------------------- prompts

CASE(prompts_are_texts_or_ids_one_or_several) {
    size_t n_ids;
    int32_t *ids = ids_of("Once upon", 9, AS_PROMPT, &n_ids);
    char list[256] = "[";
    for (size_t i = 0; i < n_ids; i++) sprintf(list + strlen(list), "%s%d", i ? "," : "", ids[i]);
    strcat(list, "]");
    const char *const forms[][2] = {{"'Once upon'", ""},
                                    {list, ""},
                                    {"'Once upon'", "'Once upon'"},
                                    {list, list},
                                    {list, "'Once upon'"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const int n = *forms[i][1] ? 2 : 1;
        char body[700];
        snprintf(body, sizeof body, n == 1 ? "{'prompt':%s%s}" : "{'prompt':[%s,%s]}", forms[i][0],
                 forms[i][1]);
        const struct generation *generation = prepare(body)->generation;
        assert_int_equal(generation->n_prompts, n);
        for (int j = 0; j < n; j++) expect_ids(&generation->prompt[j], ids, n_ids);
    }
    rn_free(ids);
}

// As llama.cpp takes them, and in the order of the list.
CASE(a_prompt_may_mix_texts_and_ids) {
    static const struct {
        const char *prompt;
        int n_prompts;
        int32_t ids[4]; // of the last prompt
        size_t n_ids;
        const char *echo;
    } cases[] = {
        {"[3,'Hi',4]", 1, {3, 43, 76, 4}, 4, "<|end|>Hi"},
        {"['Hi',3]", 1, {0, 43, 76, 3}, 4, "<|endoftext|>Hi<|end|>"},
        {"['a',[3,'Hi']]", 2, {3, 43, 76}, 3, "<|end|>Hi"},
        {"[{'prompt_string':'H'},'Hi']", 2, {0, 43, 76}, 3, "Hi"},
        {"{'prompt_string':'Hi'}", 1, {0, 43, 76}, 3, "Hi"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[128];
        snprintf(body, sizeof body, "{'prompt':%s,'echo':true}", cases[i].prompt);
        const struct generation *generation = prepare(body)->generation;
        assert_int_equal(generation->n_prompts, cases[i].n_prompts);
        const struct generation_prompt *prompt = &generation->prompt[cases[i].n_prompts - 1];
        expect_ids(prompt, cases[i].ids, cases[i].n_ids);
        check(!strncmp(prompt->text, cases[i].echo, strlen(cases[i].echo)), "'%s'", prompt->text);
    }
}

CASE(a_prompt_is_cut_at_the_side_that_is_named) {
    static const int32_t start[] = {5, 6}, end[] = {7, 8};
#define CUT "{'prompt':[5,6,7,8],'truncate_prompt_tokens':2"
    expect_ids(&prepare(CUT "}")->generation->prompt[0], end, 2);
    expect_ids(&prepare(CUT ",'truncation_side':'left'}")->generation->prompt[0], end, 2);
    expect_ids(&prepare(CUT ",'truncation_side':'right'}")->generation->prompt[0], start, 2);
    expect_refusal(completions_prepare, CUT ",'truncation_side':'both'}", "truncation_side",
                   "both");
}

CASE(a_prompt_may_hold_a_nul) {
    size_t n_ids;
    int32_t *ids = ids_of("a\0b", 3, AS_PROMPT, &n_ids);
    const struct call *call = prepare("{'prompt':'a\\u0000b','echo':true}");
    const struct generation_prompt *prompt = &call->generation->prompt[0];
    expect_ids(prompt, ids, n_ids);
    assert_int_equal(prompt->text_len, 3);
    assert_memory_equal(prompt->text, "a\0b", 3);
    rn_free(ids);
}

CASE(an_empty_prompt_is_the_token_that_begins_texts) {
    const int32_t bos = rn_token_bos(model);
    expect_ids(&prepare("{'prompt':''}")->generation->prompt[0], &bos, 1);
}

static const struct refusal refusals[] = {
    {"{}", "prompt", "missing"},
    {"{'prompt':null}", "prompt", "missing"},
    {"{'prompt':[]}", "prompt", "empty"},
    {"{'prompt':3}", "prompt", "got 3"},
    {"{'prompt':{'a':[]}}", "prompt", "{'a':[]}"},
    {"{'prompt':[1,-1]}", "prompt[1]", "-1 is not"},
    {"{'prompt':[4096]}", "prompt[0]", "4096 is not a token id, an integer from 0 to 4095"},
    {"{'prompt':[9223372036854775807]}", "prompt[0]", "9223372036854775807"},
    {"{'prompt':[-9223372036854775808]}", "prompt[0]", "-9223372036854775808"},
    {"{'prompt':[1.5]}", "prompt[0]", "1.5 is not"},
    {"{'prompt':[1,'a',4096]}", "prompt[2]", "4096 is not a token id"},
    {"{'prompt':[1,'a',null]}", "prompt[2]", "got null"},
    {"{'prompt':['a',null]}", "prompt[1]", "got null"},
    {"{'prompt':['a',['b',-1]]}", "prompt[1][1]", "-1 is not a token id"},
    {"{'prompt':{'prompt_string':3}}", "prompt.prompt_string", "expected a string"},
    {"{'prompt':[{'prompt_string':'a','multimodal_data':'x'}]}", "prompt[0].multimodal_data",
     "text"},
    {"{'prompt':[[1],[]]}", "prompt[1]", "empty"},
    {"{'prompt':[[1],[2,[3]]]}", "prompt[1][1]", "[3] is not"},
    {"{'prompt':[[1],null]}", "prompt[1]", "got null"},
    {"{'prompt':'a','echo':1}", "echo", "1"},
    {"{'prompt':'a','prompt_logprobs':21}", "prompt_logprobs", "21 is not between -1 and 20"},
    {"{'prompt':'a','logprobs':-1}", "logprobs", "is for servers with --all-logprobs"},
    {"{'prompt':'a','prompt_logprobs':-2}", "prompt_logprobs", "-2 is not"},
    {"{'prompt':'a','stream':true,'prompt_logprobs':0}", "prompt_logprobs", "0 is given"},
    {"{'prompt':'a','min_tokens':-1}", "min_tokens", "-1 is not"},
    {"{'prompt':'a','min_tokens':5,'max_tokens':4}", "min_tokens", "5 is more than the 4"},
    {"{'prompt':'a','stop_token_ids':7}", "stop_token_ids", "got 7"},
    {"{'prompt':'a','stop_token_ids':[3,4096]}", "stop_token_ids[1]", "4096 is not"},
    {"{'prompt':'a','stop_token_ids':['a']}", "stop_token_ids[0]", "'a' is not"},
    {"{'prompt':'a','bad_words':[3]}", "bad_words[0]", "got 3"},
    {"{'prompt':'a','bad_words':['a','']}", "bad_words[1]", "empty"},
    {"{'prompt':'a','bad_words':['a',' \\n']}", "bad_words[1]", "blank"},
    {"{'prompt':'a','include_stop_str_in_output':1}", "include_stop_str_in_output", "1"},
};

CASE(wrong_prompts_are_refused_by_the_name_of_what_is_wrong) {
    expect_refusals(completions_prepare, refusals);
}

// {'prompt':[X,X,...]}
static const char *list_of(const char *item, int n) {
    static char body[1024];
    strcpy(body, "{'prompt':[");
    for (int i = 0; i < n; i++) sprintf(body + strlen(body), "%s%s", i ? "," : "", item);
    return strcat(body, "]}");
}

CASE(a_call_has_at_most_64_prompts) {
    prepare(list_of("'a'", 64));
    expect_refusal(completions_prepare, list_of("'a'", 65), "prompt", "65");
}

CASE(a_prompt_beyond_the_context_gets_the_sentence_that_clients_match) {
    expect_refusal(completions_prepare, list_of("5", 300), "prompt",
                   "This model's maximum context length is 256 tokens. However, your messages "
                   "resulted in 300 tokens. Please reduce the length of the messages.");
}

// ---------------------------------------------------------------- answers

static const struct script scripts[] = {
    {{{PART_CONTENT, " a time \xC3\xA9\xE2\x82\xAC \"x\""}}, RN_FINISH_STOP, "\n\n"},
    {{{PART_CONTENT, " a hill\n"}}, RN_FINISH_LENGTH, NULL},
    {{{PART_CONTENT, NULL}}, RN_FINISH_STOP, NULL},
};
enum { N_SCRIPTS = sizeof scripts / sizeof *scripts };

static struct call *answer(const char *fields) {
    char body[512];
    snprintf(body, sizeof body, "{'prompt':['Once','Up']%s}", fields);
    struct call *call = prepare(body);
    scripts_tell(call, scripts, N_SCRIPTS);
    return call;
}

static void logprobs_join(json_t *choice, const json_t *part) {
    const json_t *more = json_object_get(part, "logprobs");
    if (json_is_null(more)) return;
    json_t *all = json_object_get(choice, "logprobs");
    if (!all) json_object_set_new(choice, "logprobs", all = json_object());
    const char *key;
    json_t *list;
    expect_keys(more, "tokens token_logprobs top_logprobs text_offset");
    json_object_foreach((json_t *)more, key, list) {
        if (!json_object_get(all, key)) json_object_set_new(all, key, json_array());
        json_array_extend(json_object_get(all, key), list);
    }
}

static json_t *stream_join(const struct call *call, int n_choices) {
    json_t *events = events_of(call, true), *choices = json_keep(json_array());
    for (int i = 0; i < n_choices; i++)
        json_array_append_new(choices, json_pack("{ss}", "text", ""));
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *chunk = json_array_get(events, i);
        expect_json(chunk, "object", "'text_completion'");
        expect_json(chunk, "id", "'cmpl-0123456789abcdef01234567'");
        const json_t *part = at_path(chunk, "choices.0");
        if (!part) continue;
        json_t *choice = json_array_get(choices, (size_t)number_at(part, "index"));
        assert_null(json_object_get(choice, "finish_reason"));
        string_append(choice, "text", string_at(part, "text"));
        logprobs_join(choice, part);
        if (json_is_null(json_object_get(part, "finish_reason"))) {
            expect_keys(part, "index text logprobs finish_reason");
            continue;
        }
        expect_keys(part, "index text logprobs finish_reason stop_reason");
        json_object_set(choice, "finish_reason", json_object_get(part, "finish_reason"));
        json_object_set(choice, "stop_reason", json_object_get(part, "stop_reason"));
    }
    return choices;
}

CASE(a_stream_cut_anywhere_says_what_the_whole_answer_says) {
    static const char *const fields[] = {",'n':3", ",'n':3,'logprobs':2", ",'n':3,'echo':true",
                                         ",'stream_options':{'include_usage':true}"};
    for (int round = 0; round < 40; round++) {
        const int n = round % 4 == 3 ? 2 : 6;
        char more[128];
        strcpy(more, fields[round % 4]);
        const json_t *body = answer_of(answer(more));
        const json_t *joined = stream_join(answer(strcat(more, ",'stream':true")), n);
        expect_keys(body, "id object created model system_fingerprint choices usage timings");
        assert_int_equal(size_at(body, "choices"), n);
        for (size_t i = 0; i < (size_t)n; i++) {
            json_t *one = json_array_get(at_path(body, "choices"), i);
            expect_keys(one, "index text logprobs finish_reason stop_reason");
            assert_int_equal(number_at(one, "index"), i);
            json_object_del(one, "index");
            if (json_is_null(json_object_get(one, "logprobs"))) json_object_del(one, "logprobs");
            check(json_equal(one, json_array_get(joined, i)), "round %d, choice %zu", round, i);
        }
    }
}

// Token 0 is 13 bytes of text.
CASE(the_echo_of_ids_is_bounded) {
    enum { IDS = 1400000 };
    char *body = malloc(2 * IDS + 64);
    assert_non_null(body);
    char *at = body + sprintf(body, "{'echo':true,'prompt':[0");
    for (int i = 0; i < IDS; i++) at = stpcpy(at, ",0");
    strcpy(at, "]}");
    expect_refusal(completions_prepare, body, "prompt", "at most 16777216 are possible");
    free(body);
}

CASE(an_echo_puts_the_prompt_before_each_of_its_choices) {
    const json_t *choices = at_path(answer_of(answer(",'n':2,'echo':true")), "choices");
    for (size_t i = 0; i < 4; i++) {
        char expected[64];
        const char *own = scripts[i % N_SCRIPTS].piece[0].text;
        snprintf(expected, sizeof expected, "%s%s", i < 2 ? "Once" : "Up", own ? own : "");
        assert_string_equal(string_at(json_array_get(choices, i), "text"), expected);
    }
}

CASE(ids_are_echoed_as_what_they_stand_for) {
    size_t n_ids;
    int32_t *ids = ids_of("Once upon", 9, 0, &n_ids);
    char body[256] = "{'echo':true,'prompt':[";
    for (size_t i = 0; i < n_ids; i++) sprintf(body + strlen(body), "%s%d", i ? "," : "", ids[i]);
    assert_string_equal(prepare(strcat(body, "]}"))->generation->prompt[0].text, "Once upon");
    rn_free(ids);
}

// ---------------------------------------------------------------- logprobs

// Of a call whose one choice wrote these tokens, each with `top` as its rivals.
static const json_t *logprobs_of(const int32_t *token, size_t n, const int32_t *top, int n_top) {
    struct call *call = prepare("{'prompt':'a','logprobs':3}");
    struct generation_choice *choice = &call->generation->choice[0];
    for (size_t i = 0; i < n; i++) {
        token_add(call, choice, token[i]);
        choice->logprob[i].n_top = n_top;
        for (int j = 0; j < n_top; j++)
            choice->top[choice->logprob[i].first_top + j] = (rn_logprob){top[j], -1.0f - (float)j};
    }
    answer_end(call);
    return at_path(answer_of(call), "choices.0.logprobs"); // equal keys are refused
}

CASE(offsets_count_characters_of_the_text) {
    const char text[] = "A \xF0\x9F\x98\x80 caf\xC3\xA9";
    size_t n_ids;
    int32_t *ids = ids_of(text, strlen(text), 0, &n_ids);
    const json_t *offsets = at_path(logprobs_of(ids, n_ids, NULL, 0), "text_offset");
    json_int_t expected = 0;
    for (size_t i = 0; i < n_ids; i++) {
        assert_int_equal(json_integer_value(json_array_get(offsets, i)), expected);
        size_t len;
        const char *bytes = rn_token_bytes(model, ids[i], &len);
        for (size_t j = 0; j < len; j++) expected += ((unsigned char)bytes[j] & 0xC0) != 0x80;
    }
    assert_int_equal(expected, 8);
    rn_free(ids);
}

CASE(half_characters_are_told_apart_by_their_bytes) {
    size_t n_ids;
    int32_t *ids = ids_of("\xF0\x9F\x98\x80", 4, 0, &n_ids);
    assert_true(n_ids > 1);
    // a token that is among its own rivals, and one twice
    const int32_t top[] = {ids[0], ids[1], ids[0]};
    const json_t *logprobs = logprobs_of(ids, 1, top, 3);
    const char *token = string_at(logprobs, "tokens.0");
    check(!strncmp(token, "bytes:\\xf0", 10), "%s", token);
    assert_int_equal(size_at(logprobs, "top_logprobs.0"), 2);
    expect_json(json_object_get(at_path(logprobs, "top_logprobs.0"), token), "", "-1");
    rn_free(ids);
}

CASE(the_chosen_token_is_among_the_likeliest) {
    size_t n_ids;
    int32_t *ids = ids_of("abc", 3, 0, &n_ids);
    const int32_t top[] = {(ids[0] + 1) % 256 + 1000};
    const json_t *logprobs = logprobs_of(ids, 1, top, 1);
    assert_int_equal(size_at(logprobs, "top_logprobs.0"), 2);
    assert_non_null(
        json_object_get(at_path(logprobs, "top_logprobs.0"), string_at(logprobs, "tokens.0")));
    rn_free(ids);
}

TEST_PROGRAM(openai_completions) { return cases_run(open_server, close_server); }
