// Every allocation of a render with guards, of an answer to be continued, is made to fail once:
// each failure is reported as such and nothing leaks.
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "runnel.h"

#include "failing_malloc.h"

static char *messages_make(void) {
    static const char head[] = "[{\"role\": \"assistant\", \"content\": \"";
    char *const json = calloc(1, 1 << 16);
    check(json != NULL, "memory");
    strcpy(json, head);
    for (int i = 0; i < 2000; i++) strcat(json, "\\u003c|end|> and ");
    strcat(json, "\"}]");
    return json;
}

CASE(every_allocation_may_fail) {
    rn_model *model = NULL;
    rn_chat_template *tmpl = NULL;
    check(rn_model_open_vocab(MODELS_DIR "/tale-20m-q8_0.gguf", &model, NULL) == RN_OK, "model");
    check(rn_chat_template_create(model, NULL, &tmpl, NULL) == RN_OK, "template");
    char *const messages = messages_make();
    const rn_chat chat = {.messages = messages, .guard = true, .continue_final = true};
    rn_status status = RN_ERR_NOMEM;
    long n = 0;
    for (; status != RN_OK; n++) {
        char *text;
        size_t len;
        rn_error err = {0};
        const long before = live;
        fail_at = n;
        status = rn_chat_render(tmpl, &chat, &text, &len, &err);
        fail_at = -1;
        check(status == RN_OK || status == RN_ERR_NOMEM, "allocation %ld: %s", n, err.message);
        check(status == err.status && !text == (status != RN_OK), "allocation %ld: %s", n,
              err.message);
        rn_free(text);
        check(live == before, "allocation %ld: %ld blocks are lost", n, live - before);
    }
    check(n > 10, "%ld allocations", n); // or nothing was tested
    free(messages);
    rn_chat_template_destroy(tmpl);
    rn_model_close(model);
}

TEST_PROGRAM(chat_memory) { return cases_run(NULL, NULL); }
