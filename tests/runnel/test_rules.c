// The rules of a request, through the public interface: ends, bad words, bounded reasoning, and
// logprobs of the prompt. tests/mix.h tests that they hold to the bit beside any other requests.
// label: async
#define _GNU_SOURCE // memmem
#include <math.h>

#include "streams.h"
#include "tale.h"

enum { N_OUTPUT = 40, MAX_PROMPT = 400 };

static const char beginning[] = "Once upon a time, there was a little fox who lived in the";
static int32_t *prompt;
static size_t n_prompt;
static struct stream plain; // the greedy text of the prompt

static rn_request request_of(void) {
    return (rn_request){.prompt = prompt,
                        .n_prompt = n_prompt,
                        .max_tokens = N_OUTPUT,
                        .ignore_eos = true};
}

// On engines with and without drafts: both give the same.
static void run(const rn_request *request, struct stream *out) {
    struct stream drafted;
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.speculate = "off"});
    streams_run(engine, request, out);
    rn_engine_destroy(engine);
    engine =
        streams_engine(model, &(rn_engine_options){.speculate = "lookup,shared", .draft_min = 4});
    for (int i = 0; i < 2; i++) { // the second time with the first one's text to draft from
        streams_run(engine, request, &drafted);
        streams_check_same(&drafted, out);
        assert_int_equal(drafted.stop_token, out->stop_token);
    }
    check(drafted.timings.accepted_tokens > 0 || out->n_ids < 8, "no draft was right");
    rn_engine_destroy(engine);
}

// The text of some tokens; to be used before the next but three.
static const char *text_of(const int32_t *ids, int n) {
    static char texts[4][256];
    static int turn;
    char *out = texts[turn++ % 4];
    *out = 0;
    for (int i = 0; i < n; i++) {
        size_t len;
        const char *bytes = rn_token_bytes(model, ids[i], &len);
        strncat(out, bytes, len);
    }
    return out;
}

static int open_all(void **state) {
    if (open_model(state)) return 1;
    const size_t len = strlen(beginning);
    if (rn_tokenize(model, beginning, len, RN_TOKENIZE_BOS, &prompt, &n_prompt, NULL)) return 1;
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.speculate = "off"});
    const rn_request request = request_of();
    streams_run(engine, &request, &plain);
    rn_engine_destroy(engine);
    return plain.n_ids != N_OUTPUT;
}

static int close_all(void **state) {
    rn_free(prompt);
    return close_model(state);
}

static bool starts_as_plain(const struct stream *s, int n) {
    return s->n_ids >= n && !memcmp(s->ids, plain.ids, (size_t)n * sizeof *s->ids);
}

// ---------------------------------------------------------------- ends

CASE(ends_wait_for_min_tokens) {
    const rn_logit_bias bias = {rn_token_eos(model), 100};
    struct stream got;
    rn_request request = request_of();
    request.ignore_eos = false;
    request.sampling.logit_bias = &bias;
    request.sampling.n_logit_bias = 1;
    run(&request, &got);
    assert_int_equal(got.n_ids, 1);
    request.min_tokens = 7;
    run(&request, &got);
    assert_int_equal(got.finish, RN_FINISH_STOP);
    assert_int_equal(got.n_ids, 8); // the end itself is the last
    assert_true(starts_as_plain(&got, 7));
}

CASE(stop_strings_wait_for_min_tokens) {
    const char *stop = text_of(plain.ids, 1);
    struct stream got;
    rn_request request = request_of();
    request.stop = &stop;
    request.n_stop = 1;
    run(&request, &got);
    assert_int_equal(got.n_ids, 1);
    assert_int_equal(got.n_text, 0);
    request.min_tokens = 1; // the text may end with that token
    run(&request, &got);
    assert_int_equal(got.n_ids, 1);
    request.min_tokens = 2;
    run(&request, &got);
    assert_true(got.n_ids > 1 && starts_as_plain(&got, got.n_ids));
    assert_memory_equal(got.text, plain.text, strlen(stop));
}

CASE(a_stop_token_ends_the_text) {
    const int32_t ids[] = {4095, plain.ids[9], 4000};
    int first = 0;
    while (plain.ids[first] != ids[1]) first++;
    struct stream got;
    rn_request request = request_of();
    request.stop_tokens = ids;
    request.n_stop_tokens = 3;
    run(&request, &got);
    assert_int_equal(got.n_ids, first + 1);
    assert_int_equal(got.finish, RN_FINISH_STOP);
    assert_int_equal(got.stop_token, ids[1]);
    const size_t len = strlen(text_of(plain.ids, first));
    assert_int_equal(got.n_text, len);
    request.include_stop = true;
    run(&request, &got);
    assert_int_equal(got.n_text, len + strlen(text_of(&ids[1], 1)));
    request.min_tokens = first + 1;
    run(&request, &got);
    assert_true(starts_as_plain(&got, first) && got.ids[first] != ids[1]);
}

CASE(a_stop_string_may_be_part_of_the_text) {
    const char *stop = text_of(plain.ids + 6, 2);
    struct stream got, kept;
    rn_request request = request_of();
    request.stop = &stop;
    request.n_stop = 1;
    run(&request, &got);
    request.include_stop = true;
    run(&request, &kept);
    assert_string_equal(kept.stop, stop);
    assert_int_equal(kept.n_text, got.n_text + strlen(stop));
    assert_memory_equal(kept.text, plain.text, kept.n_text);
}

// ---------------------------------------------------------------- bad words

// The plain text up to the word's last token, which is another one there.
CASE(a_bad_word_is_not_finished) {
    for (int n = 1; n <= 3; n++) {
        const char *word = text_of(plain.ids + 8, n);
        struct stream got;
        rn_request request = request_of();
        request.bad_words = &word;
        request.n_bad_words = 1;
        run(&request, &got);
        int end = n - 1; // of its first occurrence
        while (memcmp(plain.ids + end - n + 1, plain.ids + 8, (size_t)n * sizeof(int32_t)) != 0)
            end++;
        assert_true(starts_as_plain(&got, end));
        assert_int_not_equal(got.ids[end], plain.ids[end]);
        for (int at = 0; at + n <= got.n_ids; at++)
            assert_true(memcmp(got.ids + at, plain.ids + 8, (size_t)n * sizeof(int32_t)) != 0);
    }
}

// Three tokens, of which the text has the first and the last in their places.
CASE(a_bad_word_is_all_of_its_tokens) {
    int32_t *ids = NULL;
    size_t n_ids = 0;
    char word[256];
    for (int i = 0; i < N_OUTPUT; i++) {
        const int32_t row[] = {plain.ids[8], plain.ids[i], plain.ids[10]};
        strcpy(word, text_of(row, 3));
        rn_free(ids);
        assert_int_equal(rn_tokenize(model, word, strlen(word), 0, &ids, &n_ids, NULL), RN_OK);
        if (plain.ids[i] != plain.ids[9] && n_ids == 3 && !memcmp(ids, row, sizeof row)) break;
        assert_true(i < N_OUTPUT - 1);
    }
    rn_free(ids);
    const char *const words[] = {word};
    struct stream got;
    rn_request request = request_of();
    request.bad_words = words;
    request.n_bad_words = 1;
    run(&request, &got);
    assert_true(starts_as_plain(&got, 11));
}

CASE(a_bad_word_is_banned_with_a_space_and_without) {
    int at = 0;
    while (*text_of(plain.ids + at, 1) != ' ') at++;
    char word[256];
    strcpy(word, text_of(plain.ids + at, 1) + 1);
    const char *const words[] = {word};
    struct stream got;
    rn_request request = request_of();
    request.bad_words = words;
    request.n_bad_words = 1;
    run(&request, &got);
    for (int i = 0; i < got.n_ids; i++) {
        const char *text = text_of(got.ids + i, 1);
        assert_true(strcmp(text + (*text == ' '), word) != 0);
    }
}

// ---------------------------------------------------------------- reasoning

// The text behind the mark is that of a prompt with all tokens before it.
static void check_rest(const struct stream *got, int n_before) {
    static int32_t longer[MAX_PROMPT];
    struct stream rest;
    memcpy(longer, prompt, n_prompt * sizeof *longer);
    memcpy(longer + n_prompt, got->ids, (size_t)n_before * sizeof *longer);
    rn_request request = request_of();
    request.prompt = longer;
    request.n_prompt = n_prompt + (size_t)n_before;
    request.max_tokens = N_OUTPUT - n_before;
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.speculate = "off"});
    streams_run(engine, &request, &rest);
    rn_engine_destroy(engine);
    assert_int_equal(got->n_ids - n_before, rest.n_ids);
    assert_memory_equal(got->ids + n_before, rest.ids, (size_t)rest.n_ids * sizeof *rest.ids);
}

CASE(reasoning_is_closed_when_its_budget_is_spent) {
    static const char close[] = "</think>";
    int32_t *mark;
    size_t n_mark;
    assert_int_equal(rn_tokenize(model, close, strlen(close), 0, &mark, &n_mark, NULL), RN_OK);
    for (int budget = 0; budget <= N_OUTPUT; budget += 6) {
        struct stream got;
        rn_request request = request_of();
        request.reasoning = (rn_reasoning){.has_budget = true, .budget = budget, .close = close};
        run(&request, &got);
        assert_int_equal(got.n_ids, N_OUTPUT);
        assert_true(starts_as_plain(&got, budget));
        const int n = N_OUTPUT - budget < (int)n_mark ? N_OUTPUT - budget : (int)n_mark;
        assert_memory_equal(got.ids + budget, mark, (size_t)n * sizeof *mark);
        if (n == (int)n_mark) check_rest(&got, budget + n);
    }
    rn_free(mark);
}

// Neither a ban nor a bias takes the mark away, and the rest of the text has them.
CASE(a_mark_is_written_whatever_is_banned) {
    const char *close = "</think>", *bad[] = {"</think>", "<", "</", "think", ">"};
    struct stream got;
    rn_request request = request_of();
    request.reasoning = (rn_reasoning){.has_budget = true, .budget = 5, .close = close};
    request.bad_words = bad;
    request.n_bad_words = 5;
    run(&request, &got);
    assert_true(memmem(got.text, got.n_text, close, strlen(close)) != NULL);
}

CASE(reasoning_that_the_model_closes_is_left_alone) {
    const char *close = text_of(plain.ids + 10, 2);
    struct stream got;
    rn_request request = request_of();
    request.reasoning = (rn_reasoning){.has_budget = true, .budget = 12, .close = close};
    run(&request, &got);
    streams_check_same(&got, &plain);
    request.reasoning.budget = 11; // one token of the mark is written: the other one follows
    run(&request, &got);
    streams_check_same(&got, &plain);
}

CASE(an_answer_that_started_is_not_cut_by_the_budget) {
    const char *const answer[] = {"<never written>", text_of(plain.ids + 8, 2), NULL};
    struct stream got;
    rn_request request = request_of();
    request.reasoning =
        (rn_reasoning){.has_budget = true, .budget = 12, .close = "</a>", .answer = answer};
    run(&request, &got);
    streams_check_same(&got, &plain);
    request.reasoning.budget = 8; // it is spent before the mark
    run(&request, &got);
    assert_true(starts_as_plain(&got, 8) && !starts_as_plain(&got, 9));
}

CASE(reasoning_begins_with_its_mark) {
    const char *open = text_of(plain.ids, 2);
    struct stream got;
    rn_request request = request_of();
    request.reasoning = (rn_reasoning){.has_budget = true,
                                       .budget = 3,
                                       .open = open + strspn(open, " "),
                                       .close = "</a>",
                                       .last = "</a>So:"};
    run(&request, &got);
    const char *text = text_of(plain.ids, 5);
    assert_memory_equal(got.text, text, strlen(text));
    assert_memory_equal(got.text + strlen(text), "</a>So:", 7);
    request.reasoning.open = "<think>"; // never written
    run(&request, &got);
    streams_check_same(&got, &plain);
}

// ---------------------------------------------------------------- logprobs of the prompt

struct scores {
    rn_logprob logprob[MAX_PROMPT][4];
    int32_t rank[MAX_PROMPT];
    int n, n_events, cached;
};

static void score(rn_engine *engine, const rn_request *request, struct scores *out) {
    uint64_t id;
    *out = (struct scores){0};
    assert_int_equal(rn_engine_submit(engine, request, &id, NULL), RN_OK);
    for (bool busy = true; busy;) {
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);) {
            if (event.timings && event.choice == 0) out->cached = event.timings->cached_tokens;
            if (!event.prompt_logprob) continue;
            assert_true(event.choice == 0 && event.token < 0);
            out->n = event.n_prompt_logprobs;
            out->n_events++;
            memcpy(out->logprob, event.prompt_logprob, (size_t)out->n * sizeof out->logprob[0]);
            memcpy(out->rank, event.prompt_rank, (size_t)out->n * sizeof out->rank[0]);
        }
    }
}

static void compare(void *ctx, int position, const float *logits, int n_vocab) {
    struct scores *scores = ctx;
    if (position + 1 >= scores->n + 1) return;
    double sum = 0;
    int rank = 1;
    const rn_logprob *row = scores->logprob[position];
    for (int i = 0; i < n_vocab; i++) {
        sum += exp((double)logits[i]);
        rank += logits[i] > logits[row[0].token];
    }
    for (int k = 0; k < 4; k++)
        check(fabs((double)logits[row[k].token] - log(sum) - (double)row[k].logprob) < 1e-5,
              "position %d, place %d", position, k);
    assert_int_equal(scores->rank[position], rank);
    scores->n_events++;
}

// However the prompt is cut, whatever is cached, and with several choices.
CASE(prompts_are_scored_whole) {
    static int32_t ids[MAX_PROMPT];
    static struct scores want, got;
    for (int i = 0; i < MAX_PROMPT; i++) ids[i] = (i * 31 + 7) % 500;
    rn_request request = {.prompt = ids,
                          .n_prompt = 150,
                          .prompt_only = true,
                          .prompt_logprobs = true,
                          .top_prompt_logprobs = 3};
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.speculate = "off"});
    score(engine, &request, &want);
    assert_int_equal(want.n, 149);
    assert_int_equal(want.n_events, 1);
    for (int i = 0; i < want.n; i++) assert_int_equal(want.logprob[i][0].token, ids[i + 1]);
    rn_request plainly = request;
    plainly.prompt_logprobs = false;
    plainly.on_logits = compare;
    plainly.on_logits_ctx = &want;
    want.n_events = 0;
    score(engine, &plainly, &got);
    assert_int_equal(want.n_events, 149);
    plainly.on_logits = NULL;
    score(engine, &plainly, &got); // everything is in the cache
    assert_true(got.cached >= 128);
    score(engine, &request, &got);
    assert_true(got.cached == 0 && got.n_events == 1);
    assert_memory_equal(got.logprob, want.logprob, sizeof want.logprob);
    rn_engine_destroy(engine);
    for (int n = 1; n <= 3; n++) {
        engine = streams_engine(model, &(rn_engine_options){.batch_tokens = 5 * n,
                                                            .logit_rows = 7,
                                                            .max_seqs = 3});
        request.n = n;
        request.prompt_only = false;
        request.max_tokens = n;
        score(engine, &request, &got);
        assert_int_equal(got.n_events, 1);
        assert_memory_equal(got.logprob, want.logprob, sizeof want.logprob);
        assert_memory_equal(got.rank, want.rank, sizeof want.rank);
        rn_engine_destroy(engine);
    }
    engine = streams_engine(model, &(rn_engine_options){0});
    request.n_prompt = 1;
    score(engine, &request, &got);
    assert_int_equal(got.n_events, 0);
    rn_engine_destroy(engine);
}

// ---------------------------------------------------------------- refusals

CASE(wrong_rules_are_refused_by_their_values) {
    static char bad[RN_MAX_BAD_WORD_BYTES + 2];
    static const char *const blank[] = {"a", " \n"}, *const broken[] = {"\xff"};
    static const char *const words[RN_MAX_BAD_WORDS + 1];
    static const int32_t ids[RN_MAX_STOP_TOKENS + 1] = {3, 5000};
    memset(bad, 'a', sizeof bad - 1);
    const char *long_word = bad;
    const struct {
        rn_request request;
        const char *says;
    } cases[] = {
        {{.min_tokens = -1}, "min_tokens is -1"},
        {{.min_tokens = 41}, "min_tokens is 41, expected at most max_tokens, 40"},
        {{.stop_tokens = ids, .n_stop_tokens = 2}, "stop token 1 is 5000"},
        {{.stop_tokens = ids, .n_stop_tokens = RN_MAX_STOP_TOKENS + 1}, "129 stop tokens"},
        {{.bad_words = blank, .n_bad_words = 2}, "bad word 1 is blank"},
        {{.bad_words = broken, .n_bad_words = 1}, "bad word 0 is not valid UTF-8"},
        {{.bad_words = &long_word, .n_bad_words = 1}, "bad word 0 is too long"},
        {{.bad_words = words, .n_bad_words = RN_MAX_BAD_WORDS + 1}, "257 bad words"},
        {{.reasoning = {.has_budget = true, .budget = -2, .close = "x"}}, "budget is -2"},
        {{.reasoning = {.has_budget = true}}, "reasoning.close is empty"},
        {{.reasoning = {.has_budget = true, .close = "x", .last = "y"}}, "does not start with"},
        {{.reasoning = {.close = "x", .answer = (const char *const[]){"", NULL}}},
         "reasoning.answer is empty"},
        {{.reasoning = {.close = "x",
                        .answer = (const char *const[]){"a", "b", "c", "d", "e", NULL}}},
         "more than 4 marks in reasoning.answer"},
        {{.prompt_logprobs = true, .top_prompt_logprobs = 21}, "top_prompt_logprobs is 21"},
        {{.prompt_logprobs = true, .pooling = RN_POOLING_MEAN}, "prompt_logprobs with pooling"},
    };
    rn_engine *engine = streams_engine(model, &(rn_engine_options){0});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rn_request request = cases[i].request;
        rn_error err = {0};
        uint64_t id;
        request.prompt = prompt;
        request.n_prompt = n_prompt;
        request.max_tokens = N_OUTPUT;
        assert_int_equal(rn_engine_submit(engine, &request, &id, &err), RN_ERR_ARG);
        check(strstr(err.message, cases[i].says), "'%s' does not say '%s'", err.message,
              cases[i].says);
    }
    rn_engine_destroy(engine);
}

TEST_PROGRAM(rules) { return cases_run(open_all, close_all); }
