// The reference models from their GGUF files: every logit within 1e-3 of the reference, and the
// same greedy continuation.
// label: async-long
#include "golden.h"

static bool has_gguf(const json_t *entry) { return json_is_true(json_object_get(entry, "gguf")); }

static void from_gguf_equals_its_reference(void **state) {
    struct golden g = golden_load(*state);
    golden_open_gguf(&g);
    golden_check_reference(&g, "GGUF");
    golden_unload(&g);
}

TEST_PROGRAM(golden) {
    return data_run_tests(GOLDEN_LIST, "from_gguf_equals_its_reference",
                          from_gguf_equals_its_reference, has_gguf);
}
