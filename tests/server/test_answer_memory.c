// Every allocation between a parsed body and the last byte of its answer is made to fail once, for
// Anthropic's messages and OpenAI's responses. The call is refused with 503, or its answer is
// marked as failed, or the answer is unchanged. Nothing leaks (a leak is seen by count).
#include "answer_world.h"

#include "failing_malloc.h"

struct kind {
    enum call_api api;
    void (*prepare)(struct call *call);
    const char *body;
};

static const struct kind kinds[] = {
    {API_ANTHROPIC, messages_prepare,
     "{\"max_tokens\":9,\"stream\":true,\"system\":\"be kind\",\"messages\":[{\"role\":\"user\","
     "\"content\":\"w?\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
     "\"hm\"},{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"get\",\"input\":{\"x\":1}}]},"
     "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":"
     "\"sun\"},{\"type\":\"text\",\"text\":\"go\"}]}],\"thinking\":{\"type\":\"disabled\"},"
     "\"tools\":[{\"name\":\"get\",\"description\":\"d\",\"input_schema\":{}}]}"},
    {API_OPENAI, responses_prepare,
     "{\"stream\":true,\"instructions\":\"be kind\",\"input\":[{\"role\":\"user\",\"content\":"
     "\"w?\"},{\"type\":\"reasoning\",\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}]},"
     "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"get\",\"arguments\":\"{}\"},"
     "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"sun\"}],\"metadata\":"
     "{\"k\":\"v\"},\"tools\":[{\"type\":\"function\",\"name\":\"get\"}]}"},
    {API_ANTHROPIC, messages_count, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"},
};

// Pieces that make every kind of block, the text longer than a buffer's first memory.
static void play(struct call *call) {
    static const struct piece pieces[] = {
        {PART_REASONING, 0, "hm"},
        {PART_CONTENT, 0,
         "a text that is long enough to let the buffers of this answer grow more than once, which "
         "takes a sentence or two; so this is the second one, and with a third one, that says no "
         "more than the others did, it should be more than two hundred and fifty-six bytes long"},
        {PART_TOOL, 0, "get"},
        {PART_TOOL_ARGUMENTS, 0, "{}"},
    };
    struct generation *generation = call->generation;
    struct generation_choice *choice = &generation->choice[0];
    if (generation->writer->begin) generation->writer->begin(call);
    for (int i = 0; i < 4; i++) {
        generation->writer->delta(call, &(struct delta){choice, pieces[i].part, pieces[i].tool,
                                                        pieces[i].text, strlen(pieces[i].text)});
    }
    generation->writer->choice_end(call, choice);
    generation_write_end(call);
    call_fill(call, SIZE_MAX);
}

// The I/O thread's state when the answer's first piece comes.
static void choice_make(struct generation *generation) {
    generation->choice = calloc(1, sizeof *generation->choice);
    assert_non_null(generation->choice);
    generation->n_choices = 1;
    struct generation_choice *choice = &generation->choice[0];
    choice->tool = calloc(1, sizeof *choice->tool);
    assert_non_null(choice->tool);
    choice->n_tools = 1;
    jbuf_text(&choice->tool[0].name, "get");
    choice->finish = RN_FINISH_STOP;
}

// The k-th allocation fails. Whether there was one.
static bool prepare_fail(struct world *world, const struct kind *kind, long k) {
    struct call *call = call_make(world, kind->api, kind->body);
    assert_non_null(call_json(call));
    fail_at = k;
    kind->prepare(call);
    const bool failed = fail_at < 0;
    fail_at = -1;
    check(call->status == 0 || call->status == 200 || (failed && call->status == 503),
          "allocation %ld: %d %.*s", k, call->status, (int)call->out.len, call->out.data);
    return failed;
}

static void requests_without_memory_are_refused(void **state) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        long k = 0;
        call_reset(*state);
        const long before = live;
        while (prepare_fail(*state, &kinds[i], k)) {
            k++;
            call_reset(*state);
            check(live == before, "allocation %ld: %ld blocks leak", k, live - before);
        }
        check(k > 20, "only %ld allocations", k);
    }
}

static void answers_without_memory_are_marked(void **state) {
    for (size_t i = 0; i < 2; i++) {
        struct jbuf want = {0};
        bool failed = true;
        for (long k = -1; failed; k++) {
            struct call *call = call_make(*state, kinds[i].api, kinds[i].body);
            kinds[i].prepare(call);
            choice_make(call->generation);
            fail_at = k;
            play(call);
            failed = fail_at < 0;
            fail_at = -1;
            if (k < 0) jbuf_bytes(&want, call->out.data, call->out.len);
            check(call->out.failed || call->out.len == want.len, "allocation %ld: another answer",
                  k);
        }
        jbuf_deinit(&want);
    }
}

TEST_PROGRAM(answer_memory) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_without_memory_are_refused),
        cmocka_unit_test(answers_without_memory_are_marked),
    };
    return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
