// Every allocation of reading parameters is made to fail once: the call is refused with 503, or
// reads what it would have read; nothing leaks.
#include "params.h"

#include <stdlib.h>

#include "check.h"
#include "failing_malloc.h"

static const char body[] =
    "{\"logit_bias\":[[1,2],[3,false]],\"response_format\":{\"type\":\"text\"},"
    "\"tool_choice\":\"auto\",\"modalities\":[\"text\"],\"min_tokens\":0,\"stop\":[\"a\",\"b\"],"
    "\"stream_options\":{\"include_usage\":true},\"dry_sequence_breakers\":[\"x\"]}";

static void each_failed_allocation_is_a_503_and_leaks_nothing(void **state) {
    (void)state;
    rn_model_info info = {.n_vocab = 10};
    struct server server = {.info = &info};
    json_t *json = json_loads(body, 0, NULL);
    assert_non_null(json);
    const long before = live;
    int refused = 0;
    bool failed = true;
    for (long at = 0; failed; at++) {
        struct call call = {.server = &server};
        struct params params;
        fail_at = at;
        const bool ok = params_read(&call, json, FAMILY_CHAT, &params);
        failed = fail_at < 0;
        fail_at = -1;
        check(ok || (failed && call.status == 503), "allocation %ld: status %d", at, call.status);
        if (ok) check(params.sampling.n_logit_bias == 2 && params.n_stop == 2, "%ld", at);
        refused += !ok;
        jbuf_deinit(&call.out);
        check(live == before, "allocation %ld: %ld blocks leak", at, live - before);
    }
    json_decref(json);
    assert_true(refused > 5);
}

TEST_PROGRAM(params_memory) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failed_allocation_is_a_503_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
