// The reference models from Hugging Face folders, whose model.safetensors the build draws byte for
// byte: every logit within 1e-3 of the reference, and the same greedy continuation.
// label: no-address
#include "golden.h"

static void from_a_folder_equals_its_reference(void **state) {
    struct golden g = golden_load(*state);
    const struct data_file file = golden_safetensors(g.name);
    const uint64_t checksum = data_checksum(file.data, file.size);
    free(file.data);
    check(checksum == g.checksum, "%s: model.safetensors is not the original one", g.name);
    golden_open_folder(&g);
    golden_check_reference(&g, "folder");
    golden_unload(&g);
}

TEST_PROGRAM(golden_folder) {
    return data_run_tests(GOLDEN_LIST, "from_a_folder_equals_its_reference",
                          from_a_folder_equals_its_reference, NULL);
}
