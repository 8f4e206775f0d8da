// Every allocation of the native handlers and their writer is made to fail once: the call is
// refused with 503 or knows that its answer is lost, and nothing leaks.
#include "served.h"

#include "failing_malloc.h"
#include "routes.h"

#define MODEL MODELS_DIR "/tale-20m-q8_0.gguf"

static int setup(void **state) {
    *state = served_create(MODEL);
    return 0;
}

static int teardown(void **state) {
    served_destroy(*state);
    return 0;
}

struct request {
    void (*handler)(struct call *call);
    const char *body;
};

static const struct request requests[] = {
    {tokens_tokenize, "{\"content\":[\"Once upon\",3,\" a time\"],\"with_pieces\":true}"},
    {tokens_tokenize, "{\"prompt\":\"Once upon a time\",\"return_token_strs\":true}"},
    {tokens_detokenize, "{\"tokens\":[43,76,3,131,106]}"},
    {native_prepare, "{\"prompt\":[\"Once\",[3,\"x\"],{\"prompt_string\":\"y\"}],\"n_cmpl\":2}"},
    {native_props, "{}"},
};

static void each_failed_allocation_of_a_handler_is_a_503_and_leaks_nothing(void **state) {
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const long before = live;
        int refused = 0;
        bool failed = true;
        for (long at = 0; failed; at++) {
            struct call *call = call_new(*state, requests[i].body);
            // the body's own parsing is not tested here: jansson takes some failures for bad syntax
            assert_non_null(call_json(call));
            fail_at = at;
            requests[i].handler(call);
            failed = fail_at < 0;
            fail_at = -1;
            check(call->status < 400 || (failed && call->status == 503),
                  "%s, allocation %ld: status %d, %.*s", requests[i].body, at, call->status,
                  (int)call->out.len, call->out.data);
            refused += call->status == 503;
            call_free(call);
            check(live == before, "allocation %ld: %ld blocks leak", at, live - before);
        }
        check(refused > 1, "%s: %d failed", requests[i].body, refused);
    }
}

static void lost_memory_of_an_answer_is_remembered(void **state) {
    static const char *const bodies[] = {
        "{\"prompt\":\"Once\"}", "{\"prompt\":\"Once\",\"stream\":true}",
        "{\"prompt\":\"Once\",\"response_fields\":[\"content\",\"generation_settings/stop\"]}"};
    for (int i = 0; i < 3; i++) {
        const long before = live;
        bool failed = true;
        for (long at = 0; failed; at++) {
            struct call *call = call_new(*state, bodies[i]);
            native_prepare(call);
            assert_int_equal(call->status, 0);
            struct generation *generation = call->generation;
            generation->choice = calloc(1, sizeof *generation->choice);
            generation->n_choices = 1;
            jbuf_text(&generation->choice->text, "x");
            fail_at = at;
            if (generation->params.stream) {
                const struct delta delta = {.choice = generation->choice, .text = "x", .len = 1};
                generation->writer->delta(call, &delta);
                generation->writer->choice_end(call, generation->choice);
            }
            generation_write_end(call);
            call_fill(call, SIZE_MAX);
            failed = fail_at < 0;
            fail_at = -1;
            check(call->out.failed == failed, "%s: allocation %ld", bodies[i], at);
            call_free(call);
            check(live == before, "allocation %ld: %ld blocks leak", at, live - before);
        }
    }
}

TEST_PROGRAM(native_memory) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failed_allocation_of_a_handler_is_a_503_and_leaks_nothing),
        cmocka_unit_test(lost_memory_of_an_answer_is_remembered),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
