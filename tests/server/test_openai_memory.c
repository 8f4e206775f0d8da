// Every allocation of OpenAI's prepare handlers and writers is made to fail once. The call is
// refused with 503 or knows that its answer is lost. Nothing leaks, and the next call works.
#define _GNU_SOURCE // memmem, asprintf
#define RANDOM_SEED 53
#include "openai_world.h"

#include "chat_messages.h"
#include "failing_malloc.h"

struct request {
    void (*prepare)(struct call *call);
    const char *body;
};

// Reading the conversation alone: rendering it has tests of its own. Results are complete.
static void conversation_read(struct call *call) {
    struct chat_messages chat;
    const json_t *body = call_json(call);
    if (!body || !chat_messages_read(call, body, &chat)) return;
    const long rest = fail_at;
    fail_at = -1;
    for (size_t i = 0; i < 4; i++) {
        const json_t *one = json_array_get(chat.messages, i);
        check(json_object_size(one) == (i == 2 ? 3 : 2), "message %zu is not whole", i);
    }
    assert_int_equal(json_object_size(chat.variables), 2);
    chat_messages_deinit(&chat);
    fail_at = rest;
}

static const struct request requests[] = {
    {conversation_read,
     "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"Be\"},"
     "{\"type\":\"text\",\"text\":\"brief\"}]},{\"role\":\"user\",\"content\":\"Hi\"},"
     "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\","
     "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]},{\"role\":\"user\","
     "\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
     "\"chat_template_kwargs\":{\"x\":1},\"reasoning_effort\":\"low\",\"stream\":true,\"n\":2}"},
    {completions_prepare, "{\"prompt\":[\"Once\",[1,2,3],\"\"],\"echo\":true,\"n\":2}"},
    {embeddings_prepare, "{\"input\":[\"Once\",[1,2,3]]}"},
};

static void each_failed_allocation_of_a_handler_is_a_503_and_leaks_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const long before = live;
        int refused = 0;
        bool failed = true;
        for (long at = 0; failed; at++) {
            struct call *call = call_new(requests[i].body);
            // the body's own parsing is not tested here: jansson takes some failures for bad syntax
            assert_non_null(call_json(call));
            fail_at = at;
            requests[i].prepare(call);
            failed = fail_at < 0;
            fail_at = -1;
            check(call->status == 0 || (failed && call->status == 503),
                  "allocation %ld: status %d, %.*s", at, call->status, (int)call->out.len,
                  call->out.data);
            refused += call->status == 503;
            call_free(call);
            check(live == before, "allocation %ld: %ld blocks leak", at, live - before);
        }
        assert_true(refused > 5);
    }
}

static const struct script script = {
    {{PART_CONTENT, "A text that is long enough to be worth a few allocations of its own"},
     {PART_CONTENT, ", and more of it."}},
    RN_FINISH_STOP,
    NULL};

static void lost_memory_of_an_answer_is_remembered(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        char text[128];
        snprintf(text, sizeof text, "{%s%s}",
                 i < 2 ? "\"prompt\":\"Once\",\"echo\":true,\"n\":2"
                       : "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]",
                 i % 2 ? ",\"stream\":true" : "");
        const long before = live;
        bool failed = true;
        for (long at = 0; failed; at++) {
            struct call *call = call_new(text);
            (i < 2 ? completions_prepare : chat_prepare)(call);
            assert_int_equal(call->status, 0);
            choices_create(call->generation);
            jbuf_text(&call->generation->choice[0].text, script.piece[0].text);
            fail_at = at;
            for (int j = 0; i % 2 && j < call->generation->n_choices; j++) {
                struct generation_choice *choice = &call->generation->choice[j];
                part_feed(call, choice, PART_CONTENT, script.piece[0].text, 20);
                choice_finish(call, choice, &script);
            }
            generation_write_end(call);
            call_fill(call, SIZE_MAX);
            failed = fail_at < 0;
            fail_at = -1;
            assert_int_equal(call->out.failed, failed);
            call_free(call);
            check(live == before, "allocation %ld: %ld blocks leak", at, live - before);
        }
    }
}

TEST_PROGRAM(openai_memory) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failed_allocation_of_a_handler_is_a_503_and_leaks_nothing),
        cmocka_unit_test(lost_memory_of_an_answer_is_remembered),
    };
    return cmocka_run_group_tests(tests, open_server, close_server);
}
