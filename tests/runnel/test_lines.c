// Lines that end a text: what was written stays, the request's pages go back at once, and drafts
// and other choices change nothing.
#include "streams.h"
#include "tale.h"

enum { N_CHOICES = 3 };

static struct stream stream[N_CHOICES];

// Every token is an end of a line.
static void run(const char *speculate, int n, int indent_min) {
    static const int32_t prompt[] = {1, 300, 301, 302};
    rn_engine *engine =
        streams_engine(model, &(rn_engine_options){.n_ctx = 64, .speculate = speculate});
    int32_t *ids;
    size_t n_ids;
    assert_int_equal(rn_tokenize(model, "\n", 1, 0, &ids, &n_ids, NULL), RN_OK);
    const rn_logit_bias bias = {.token = ids[n_ids - 1], .bias = 100};
    rn_free(ids);
    const rn_request request = {.prompt = prompt,
                                .n_prompt = 4,
                                .n = n,
                                .max_tokens = 20,
                                .indent_min = indent_min,
                                .sampling = {.logit_bias = &bias, .n_logit_bias = 1}};
    streams_submit(engine, &request, stream);
    streams_drain(engine, stream, n);
    streams_check_empty(engine);
    rn_engine_destroy(engine);
}

CASE(an_outdented_line_ends_its_own_choice) {
    static const char *const ways[] = {"off", "lookup"};
    for (int way = 0; way < 2; way++) {
        run(ways[way], N_CHOICES, 1);
        for (int i = 0; i < N_CHOICES; i++) {
            assert_int_equal(stream[i].n_ids, 2); // the second line is empty
            assert_int_equal(stream[i].n_text, 1);
            assert_memory_equal(stream[i].text, "\n", 1);
            assert_int_equal(stream[i].finish, RN_FINISH_LENGTH);
            assert_int_equal(stream[i].timings.output_tokens, 2);
        }
        run(ways[way], 1, 0);
        assert_int_equal(stream[0].n_ids, 20);
    }
}

CASE(bounds_on_lines_have_a_range) {
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.n_ctx = 64});
    const int32_t prompt[] = {1};
    rn_request request = {.prompt = prompt, .n_prompt = 1, .indent_min = -1};
    rn_error err = {0};
    uint64_t id;
    assert_int_equal(rn_engine_submit(engine, &request, &id, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "indent_min is -1"));
    request.indent_min = 0;
    request.line_ms_max = -2;
    assert_int_equal(rn_engine_submit(engine, &request, &id, &err), RN_ERR_ARG);
    assert_non_null(strstr(err.message, "line_ms_max is -2"));
    rn_engine_destroy(engine);
}

TEST_PROGRAM(lines) { return cases_run(open_model, close_model); }
