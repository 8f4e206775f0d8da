// Shapes of texts, through the public interface: every complete text has its shape, with and
// without drafts, behind a reasoning, and beside the other rules of a request. tests/mix.h tests
// that they hold to the bit beside any other requests.
// label: async
#define _GNU_SOURCE // memmem
#include "engine/choice/shape.h"
#include "streams.h"
#include "tale.h"

enum { N_OUTPUT = 60, N_CHOICES = 3 };

static const char beginning[] = "Once upon a time, there was a little fox who lived in the";
static int32_t *prompt;
static size_t n_prompt;

static const struct source {
    rn_shape_kind kind;
    const char *text;
} sources[] = {
    {RN_SHAPE_SCHEMA, "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"
                      "\"age\":{\"type\":\"integer\"},\"kind\":{\"enum\":[\"fox\",\"hare\"]}},"
                      "\"required\":[\"name\",\"kind\"],\"additionalProperties\":false}"},
    {RN_SHAPE_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":2,"
                      "\"maxItems\":5}"},
    {RN_SHAPE_OBJECT, ""},
    {RN_SHAPE_REGEX, "(yes|no|maybe), [a-z ]{4,20}\\."},
    {RN_SHAPE_GRAMMAR, "root ::= sum\nsum ::= one (\"+\" one){1,6}\none ::= [0-9]{1,3} | \"(\" sum "
                       "\")\""},
    {RN_SHAPE_CHOICES, "[\"a little fox\",\"a small hare\",\"nobody\"]"},
    {RN_SHAPE_STRUCTURE,
     "{\"type\":\"structural_tag\",\"format\":{\"type\":\"triggered_tags\",\"triggers\":[\" the\"],"
     "\"tags\":[{\"begin\":\" the\",\"content\":{\"type\":\"regex\",\"pattern\":\"( "
     "[a-z]{1,8}){1,4}\"},"
     "\"end\":\".\"}]}}"},
};
enum { N_SOURCES = sizeof sources / sizeof *sources };

static rn_shape *shape_of(rn_shape_kind kind, const char *text) {
    rn_shape *shape;
    rn_error err = {0};
    check(rn_shape_compile(model, kind, text, strlen(text), &shape, &err) == RN_OK, "%s",
          err.message);
    return shape;
}

static rn_request request_of(const rn_shape *shape, float temperature, uint64_t seed) {
    rn_request request = {.prompt = prompt,
                          .n_prompt = n_prompt,
                          .max_tokens = N_OUTPUT,
                          .sampling = rn_sampling_neutral(),
                          .shape = shape};
    request.sampling.temperature = temperature;
    request.sampling.has_seed = true;
    request.sampling.seed = seed;
    return request;
}

// Whether the text is the start of one that has the shape, or has it.
static bool walks(const rn_shape *shape, const char *text, size_t len, bool is_complete) {
    struct constraint_run *run;
    assert_int_equal(constraint_open(shape->constraint, 1, &run, NULL), RN_OK);
    bool fits = constraint_feed(run, 0, text, len);
    if (is_complete) fits = fits && constraint_may_end(run, 0);
    constraint_close(run);
    return fits;
}

static void check_text(const rn_shape *shape, const char *text, size_t len, bool is_complete) {
    check(walks(shape, text, len, is_complete), "%s: %.*s", is_complete ? "complete" : "a start",
          (int)len, text);
}

static void check_shape(const rn_shape *shape, const struct stream *s) {
    check(s->finish == RN_FINISH_STOP || s->finish == RN_FINISH_LENGTH, "status %d: %.*s",
          (int)s->status, (int)s->n_text, s->text);
    check_text(shape, s->text, s->n_text, s->finish == RN_FINISH_STOP);
}

// On engines with and without drafts: both give the same.
static void run(const rn_request *request, struct stream *out) {
    static struct stream drafted[N_CHOICES];
    const int n = request->n ? request->n : 1;
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.speculate = "off"});
    streams_submit(engine, request, out);
    streams_drain(engine, out, n);
    rn_engine_destroy(engine);
    engine =
        streams_engine(model, &(rn_engine_options){.draft_min = 4, .max_seqs = 2, .draft = model});
    for (int i = 0; i < 2; i++) { // the second time with the first one's text to draft from
        streams_submit(engine, request, drafted);
        streams_drain(engine, drafted, n);
        for (int k = 0; k < n; k++) streams_check_same(&drafted[k], &out[k]);
    }
    check(drafted->timings.accepted_tokens > 0 || out->n_ids < 8, "no draft was right");
    rn_engine_destroy(engine);
}

static int open_all(void **state) {
    if (open_model(state)) return 1;
    return rn_tokenize(model, beginning, strlen(beginning), RN_TOKENIZE_BOS, &prompt, &n_prompt,
                       NULL) != RN_OK;
}

static int close_all(void **state) {
    rn_free(prompt);
    return close_model(state);
}

// ---------------------------------------------------------------- shapes alone

CASE(complete_texts_have_their_shape) {
    static struct stream got[N_CHOICES];
    int complete = 0;
    for (int i = 0; i < N_SOURCES; i++) {
        rn_shape *shape = shape_of(sources[i].kind, sources[i].text);
        for (int hot = 0; hot < 2; hot++) {
            rn_request request = request_of(shape, hot ? 1.5f : 0, (uint64_t)i);
            request.n = hot ? N_CHOICES : 1;
            request.ignore_eos = hot; // a shape has an end nevertheless
            run(&request, got);
            for (int k = 0; k < request.n; k++) check_shape(shape, &got[k]);
            for (int k = 0; k < request.n; k++) complete += got[k].finish == RN_FINISH_STOP;
        }
        rn_shape_release(shape);
    }
    check(complete > N_SOURCES, "%d complete texts", complete);
}

CASE(a_request_keeps_a_shape_that_was_released) {
    struct stream got;
    rn_engine *engine = streams_engine(model, &(rn_engine_options){0});
    rn_shape *shape = shape_of(RN_SHAPE_CHOICES, "[\"fox\"]");
    const rn_request request = request_of(shape, 0, 0);
    streams_submit(engine, &request, &got);
    rn_shape_release(shape);
    streams_drain(engine, &got, 1);
    assert_int_equal(got.finish, RN_FINISH_STOP);
    assert_int_equal(got.n_text, 3);
    assert_memory_equal(got.text, "fox", 3);
    rn_engine_destroy(engine);
}

// Names of properties are forced text.
CASE(forced_text_is_drafted) {
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a long name of a property\":{\"const\":\"a long "
        "value of it\"},\"another little name\":{\"const\":\"the end of the text\"}},\"required\":["
        "\"a long name of a property\",\"another little name\"],\"additionalProperties\":false}";
    static struct stream want, got;
    rn_shape *shape = shape_of(RN_SHAPE_SCHEMA, schema);
    rn_request request = request_of(shape, 0.5f, 1);
    run(&request, &want);
    check_shape(shape, &want);
    for (int drafts = 0; drafts < 2; drafts++) {
        rn_engine *engine =
            streams_engine(model, &(rn_engine_options){.speculate = "shape", .draft_min = 3});
        request.draft_max = drafts ? 0 : -1;
        streams_run(engine, &request, &got);
        streams_check_same(&got, &want);
        const rn_draft_stats stats = streams_stats(engine).draft[RN_DRAFTER_SHAPE];
        check(drafts ? stats.accepted > 4 : stats.tokens == 0, "%llu of %llu were accepted",
              (unsigned long long)stats.accepted, (unsigned long long)stats.tokens);
        rn_engine_destroy(engine);
    }
    rn_shape_release(shape);
}

// ---------------------------------------------------------------- behind a reasoning

// The answer behind the mark and a few blanks.
static const char *answer_of(const struct stream *s, const char *mark, size_t *len) {
    const char *at = memmem(s->text, s->n_text, mark, strlen(mark));
    check(at != NULL, "no %s: %.*s", mark, (int)s->n_text, s->text);
    at += strlen(mark);
    for (int i = 0; i < 4 && at < s->text + s->n_text && strchr(" \t\r\n", *at); i++) at++;
    *len = (size_t)(s->text + s->n_text - at);
    return at;
}

CASE(a_shape_starts_behind_the_reasoning) {
    static const char mark[] = "was", other[] = " the end.";
    static struct stream got[N_CHOICES];
    rn_shape *shape = shape_of(sources[0].kind, sources[0].text);
    for (int budget = -1; budget < 8; budget += 3) {
        rn_request request = request_of(shape, 1, 7);
        request.n = N_CHOICES;
        request.max_tokens = 120;
        request.reasoning = (rn_reasoning){.has_budget = budget >= 0,
                                           .budget = budget,
                                           .close = budget < 0 ? mark : other};
        run(&request, got);
        for (int i = 0; i < N_CHOICES; i++) {
            size_t len;
            if (got[i].finish == RN_FINISH_LENGTH && budget < 0) continue; // it thinks for long
            const char *answer = answer_of(&got[i], request.reasoning.close, &len);
            check_text(shape, answer, len, got[i].finish == RN_FINISH_STOP);
        }
    }
    rn_shape_release(shape);
}

// The model may open a reasoning, or answer at once.
CASE(a_model_may_think_or_not) {
    static struct stream got[1];
    rn_shape *shape = shape_of(RN_SHAPE_REGEX, "(Tom|One|The)[a-z ]{1,12}");
    int thought = 0, answered = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        rn_request request = request_of(shape, 1.5f, seed);
        request.reasoning =
            (rn_reasoning){.has_budget = true, .budget = 3, .open = "The", .close = "! "};
        run(&request, got);
        size_t blanks = 0, len;
        while (blanks < 4 && strchr(" \t\r\n", got->text[blanks])) blanks++;
        const bool thinks = got->n_text >= blanks + 3 && !memcmp(got->text + blanks, "The", 3);
        const char *answer = got->text + blanks;
        len = got->n_text - blanks;
        if (thinks) answer = answer_of(got, "! ", &len);
        check_text(shape, answer, len, got->finish == RN_FINISH_STOP);
        thought += thinks;
        answered += !thinks;
    }
    check(thought > 0 && answered > 0, "%d thought, %d answered", thought, answered);
    rn_shape_release(shape);
}

// The id of the one token that a text has behind other text.
static int32_t token_of(const char *text) {
    const int n_vocab = rn_model_get_info(model)->n_vocab;
    for (int32_t id = 0; id < n_vocab; id++) {
        size_t len;
        const char *bytes = rn_token_bytes(model, id, &len);
        if (len == strlen(text) && !memcmp(bytes, text, len)) return id;
    }
    fail_msg("no token is \"%s\"", text);
    return -1;
}

static void run_biased(rn_request *request, int32_t id, struct stream *out) {
    const rn_logit_bias bias = {id, 100};
    request->sampling.logit_bias = &bias;
    request->sampling.n_logit_bias = 1;
    run(request, out);
}

// Of blanks as of nothing else, a model that wants them writes four.
CASE(a_few_blanks_are_free) {
    static struct stream got;
    rn_shape *shape = shape_of(RN_SHAPE_CHOICES, "[\"fox\"]");
    for (int thinks = 0; thinks < 2; thinks++) {
        rn_request request = request_of(shape, 1, 2);
        request.reasoning = (rn_reasoning){.has_budget = thinks,
                                           .budget = 2,
                                           .open = thinks ? NULL : "[",
                                           .close = "!"};
        run_biased(&request, token_of("\n"), &got);
        const char *text = thinks ? memchr(got.text, '!', got.n_text) : got.text;
        assert_non_null(text);
        text += thinks;
        const size_t len = (size_t)(got.text + got.n_text - text);
        check(len == 7 && !memcmp(text, "\n\n\n\nfox", len), "%.*s", (int)len, text);
    }
    rn_shape_release(shape);
}

CASE(a_model_that_thinks_has_to_answer) {
    static struct stream got;
    rn_shape *shape = shape_of(RN_SHAPE_CHOICES, "[\"fox\"]");
    rn_request request = request_of(shape, 0, 0);
    request.max_tokens = 12;
    request.reasoning = (rn_reasoning){.close = "</never written>"};
    run_biased(&request, rn_token_eos(model), &got);
    assert_int_equal(got.finish, RN_FINISH_LENGTH);
    assert_int_equal(got.n_ids, 12);
    rn_shape_release(shape);
}

// A token that has the mark and more text would start the answer with that text.
CASE(an_answer_starts_with_a_token_of_its_own) {
    static struct stream got;
    rn_shape *shape = shape_of(RN_SHAPE_CHOICES, "[\"fox\"]");
    static const struct { const char *mark, *token; } cases[] = {{" wa", " was"}, {"p wa", " was"}};
    for (int i = 0; i < 2; i++) {
        rn_request request = request_of(shape, 1, 0);
        request.reasoning = (rn_reasoning){.has_budget = true, .budget = 5, .close = cases[i].mark};
        run_biased(&request, token_of(cases[i].token), &got);
        size_t len;
        const char *answer = answer_of(&got, cases[i].mark, &len);
        check_text(shape, answer, len, true);
    }
    rn_shape_release(shape);
}

// The answer of some families starts with a header.
CASE(a_shape_starts_behind_the_last_text) {
    static struct stream got;
    rn_shape *shape = shape_of(RN_SHAPE_CHOICES, "[\"fox\"]");
    rn_request request = request_of(shape, 1, 0);
    request.reasoning =
        (rn_reasoning){.has_budget = true, .budget = 3, .close = "!", .last = "! So: "};
    run_biased(&request, token_of("!"), &got);
    size_t len;
    const char *answer = answer_of(&got, "! So: ", &len);
    check_text(shape, answer, len, true);
    assert_int_equal(got.finish, RN_FINISH_STOP);
    rn_shape_release(shape);
}

#define NEVER "</never written>"

// A special token, as the marks of calls are in most families.
CASE(an_answer_may_start_with_its_mark_inside_of_the_reasoning) {
    static const char *const mark[] = {"<|other|>", "<|user|>", NULL};
    static struct stream got;
    for (int shaped = 0; shaped < 2; shaped++) {
        rn_shape *shape = shape_of(RN_SHAPE_STRUCTURE,
                                   shaped ? "{\"type\":\"const_string\",\"value\":\"<|user|>fox\"}"
                                          : "{\"type\":\"const_string\",\"value\":\"fox\"}");
        rn_request request = request_of(shape, 1, 0);
        request.max_tokens = 20;
        request.special_text = true;
        request.reasoning = (rn_reasoning){.close = NEVER, .answer = mark};
        run_biased(&request, token_of("<|user|>"), &got);
        const char *at = memmem(got.text, got.n_text, mark[1], strlen(mark[1]));
        check((at != NULL) == shaped, "%.*s", (int)got.n_text, got.text);
        assert_int_equal(got.finish, shaped ? RN_FINISH_STOP : RN_FINISH_LENGTH);
        if (at) assert_memory_equal(got.text + got.n_text - 11, "<|user|>fox", 11);
        rn_shape_release(shape);
    }
}

// The mark in the tokens that the model writes by itself, perhaps with text behind it. A shape that
// does not start with the mark keeps it out of the reasoning.
CASE(an_answers_mark_may_be_plain_text) {
    static struct stream plain, got;
    static char mark[64], source[128];
    rn_request request = request_of(NULL, 0, 0);
    run(&request, &plain);
    for (int cut = 0; cut < 4; cut++) {
        size_t len = 0, before = 0;
        for (int i = 0; i < 12; i++) {
            size_t n;
            const char *bytes = rn_token_bytes(model, plain.ids[i], &n);
            if (i < 10) before += n;
            if (i >= 10) memcpy(mark + len, bytes, n), len += n;
        }
        const size_t n_cut = cut & 1; // of the last token
        mark[len] = 0;
        snprintf(source, sizeof source, "[\"%s%s fox\"]", cut & 2 ? "A" : "", mark);
        mark[len - n_cut] = 0;
        rn_shape *shape = shape_of(RN_SHAPE_CHOICES, source);
        request = request_of(shape, 0, 0);
        request.reasoning =
            (rn_reasoning){.close = NEVER, .answer = (const char *const[]){mark, NULL}};
        run(&request, &got);
        const char *at = memmem(got.text, got.n_text, mark, strlen(mark));
        assert_int_equal(got.finish, at ? RN_FINISH_STOP : RN_FINISH_LENGTH);
        check((at != NULL) == !(cut & 2), "%.*s", (int)got.n_text, got.text);
        if (at) check_text(shape, at, (size_t)(got.text + got.n_text - at), true);
        if (at) assert_true((size_t)(at - got.text) == before);
        rn_shape_release(shape);
    }
}

// ---------------------------------------------------------------- beside other rules

CASE(bans_yield_to_a_shape) {
    static const char *const bad[] = {"fox", "f"};
    struct stream got;
    rn_shape *shape = shape_of(RN_SHAPE_CHOICES, "[\"fox\"]");
    rn_request request = request_of(shape, 1, 3);
    request.min_tokens = 30;
    request.bad_words = bad;
    request.n_bad_words = 2;
    run(&request, &got);
    assert_int_equal(got.finish, RN_FINISH_STOP);
    assert_int_equal(got.n_text, 3);
    assert_memory_equal(got.text, "fox", 3);
    rn_shape_release(shape);
}

// Where something else is left, bans hold.
CASE(bans_hold_where_a_shape_leaves_others) {
    struct stream got;
    rn_shape *shape = shape_of(RN_SHAPE_CHOICES, "[\"a\",\"b\"]");
    rn_shape *endless = shape_of(RN_SHAPE_REGEX, "[a-z ]*");
    for (int i = 0; i < 2; i++) {
        const char *const bad = i ? "a" : "b";
        rn_request request = request_of(shape, 1, 3);
        request.bad_words = &bad;
        request.n_bad_words = 1;
        run(&request, &got);
        assert_int_equal(got.n_text, 1);
        assert_int_equal(got.text[0], i ? 'b' : 'a');
    }
    rn_request request = request_of(endless, 1, 4);
    const rn_logit_bias bias = {rn_token_eos(model), 100};
    request.sampling.logit_bias = &bias;
    request.sampling.n_logit_bias = 1;
    request.min_tokens = 9;
    run(&request, &got);
    assert_int_equal(got.finish, RN_FINISH_STOP);
    assert_int_equal(got.n_ids, 10);
    rn_shape_release(shape);
    rn_shape_release(endless);
}

CASE(stops_cut_a_shape_or_end_it) {
    static const char *const stop[] = {" fox"};
    struct stream got;
    rn_shape *shape = shape_of(RN_SHAPE_CHOICES, "[\"a little fox\"]");
    rn_request request = request_of(shape, 0, 0);
    request.stop = stop;
    request.n_stop = 1;
    run(&request, &got);
    assert_int_equal(got.finish, RN_FINISH_STOP);
    assert_string_equal(got.stop, " fox");
    assert_int_equal(got.n_text, 8);
    // a stop token may come where the text may end, though it is no part of the shape
    const int32_t id = 300;
    const rn_logit_bias bias[] = {{id, 100}, {rn_token_eos(model), -100}};
    request = request_of(shape, 1, 0);
    request.stop_tokens = &id;
    request.n_stop_tokens = 1;
    request.sampling.logit_bias = bias;
    request.sampling.n_logit_bias = 2;
    run(&request, &got);
    assert_int_equal(got.finish, RN_FINISH_STOP);
    assert_int_equal(got.stop_token, id);
    check_text(shape, got.text, got.n_text, true);
    rn_shape_release(shape);
}

static void mask_nothing(void *ctx, int choice, uint64_t *allowed, int n_vocab) {
    const int *left = ctx;
    (void)choice;
    if (*left <= 0) memset(allowed, 0, (size_t)(n_vocab + 63) / 64 * sizeof *allowed);
}
static void step_on(void *ctx, int choice, int32_t token) {
    (void)choice;
    (void)token;
    --*(int *)ctx;
}
static void step_back(void *ctx, int choice, int n_tokens) {
    (void)choice;
    *(int *)ctx += n_tokens;
}

// A constraint of the program's beside a shape: both masks apply, and an empty one ends the text.
CASE(no_token_left_says_why) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){0});
    static const struct {
        const char *choices;
        int tokens;
        rn_finish finish;
    } cases[] = {
        {"[\"a very long answer\"]", 2, RN_FINISH_ERROR},
        {"[\"a\"]", 1, RN_FINISH_STOP}, // it has its shape
    };
    for (int i = 0; i < 2; i++) {
        int left = cases[i].tokens;
        rn_shape *shape = shape_of(RN_SHAPE_CHOICES, cases[i].choices);
        rn_request request = request_of(shape, 0, 0);
        request.constraint = (rn_constraint){&left, mask_nothing, step_on, step_back};
        uint64_t id;
        assert_int_equal(rn_engine_submit(engine, &request, &id, NULL), RN_OK);
        rn_event event = {0};
        for (bool busy = true; busy;) {
            assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
            while (rn_engine_next_event(engine, &event)) {
                if (!event.last) continue;
                assert_int_equal(event.finish, cases[i].finish);
                assert_int_equal(event.reason != NULL, event.finish == RN_FINISH_ERROR);
                if (event.reason) assert_non_null(strstr(event.reason, "shape"));
            }
        }
        assert_true(event.last);
        rn_shape_release(shape);
    }
    rn_engine_destroy(engine);
}

// The text may end where its shape fails; it was not the model that ended it.
CASE(a_shape_that_fails_is_an_error) {
    rn_shape *shape = shape_of(RN_SHAPE_GRAMMAR, "root ::= x x x x x x x x\n"
                                                 "x ::= [a-z ,.]* y [a-z ,.]*\n"
                                                 "y ::= [a-z ,.]* z? [a-z ,.]*\n"
                                                 "z ::= \"q\"");
    const int32_t stop = token_of("a");
    for (size_t n_stop = 0; n_stop < 2; n_stop++) {
        rn_request request = request_of(shape, 0, 0);
        request.stop_tokens = &stop;
        request.n_stop_tokens = n_stop;
        static struct stream out;
        run(&request, &out);
        check(out.finish == RN_FINISH_ERROR && out.status == RN_ERR_AMBIGUOUS,
              "finish %d, \"%.*s\"", (int)out.finish, (int)out.n_text, out.text);
    }
    rn_shape_release(shape);
}

// ---------------------------------------------------------------- refusals

CASE(wrong_sources_and_requests_are_refused) {
    static const struct {
        rn_shape_kind kind;
        const char *text, *error;
    } cases[] = {
        {RN_SHAPE_SCHEMA, "{\"properties\":{\"a\":{\"not\":{}}}}", "/properties/a/not"},
        {RN_SHAPE_REGEX, "a(?=b)", "offset 1"},
        {RN_SHAPE_GRAMMAR, "root ::= x", "x"},
        {RN_SHAPE_CHOICES, "[1]", ""},
        {(rn_shape_kind)99, "", "99"},
    };
    rn_error err = {0};
    rn_shape *shape = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const rn_status status = rn_shape_compile(model, cases[i].kind, cases[i].text,
                                                  strlen(cases[i].text), &shape, &err);
        check(status == RN_ERR_ARG && !shape && strstr(err.message, cases[i].error), "%d: %s",
              (int)status, err.message);
    }
    rn_engine *engine = streams_engine(model, &(rn_engine_options){0});
    shape = shape_of(RN_SHAPE_OBJECT, "");
    uint64_t id;
    rn_request request = request_of(shape, 0, 0);
    request.pooling = RN_POOLING_MEAN;
    assert_int_equal(rn_engine_submit(engine, &request, &id, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "pooling"));
    rn_model *vocab;
    assert_int_equal(rn_model_open_vocab(MODELS_DIR "/tale-1m-f16.gguf", &vocab, NULL), RN_OK);
    rn_shape *foreign;
    assert_int_equal(rn_shape_compile(vocab, RN_SHAPE_OBJECT, "", 0, &foreign, NULL), RN_OK);
    request = request_of(foreign, 0, 0);
    assert_int_equal(rn_engine_submit(engine, &request, &id, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "another model"));
    rn_shape_release(foreign);
    rn_model_close(vocab);
    rn_shape_release(shape);
    rn_engine_destroy(engine);
}

CASE(a_shape_is_found_once_it_was_compiled) {
    assert_null(rn_shape_find(model, RN_SHAPE_REGEX, "found?", 6));
    rn_shape *shape = shape_of(RN_SHAPE_REGEX, "found?");
    rn_shape *again = rn_shape_find(model, RN_SHAPE_REGEX, "found?", 6);
    assert_non_null(again);
    assert_null(rn_shape_find(model, RN_SHAPE_CHOICES, "found?", 6));
    rn_shape_release(again);
    rn_shape_release(shape);
}

TEST_PROGRAM(shapes) { return cases_run(open_all, close_all); }
