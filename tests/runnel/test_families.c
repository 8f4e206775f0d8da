// The reference models of families.json. The build makes the original weights, and the carried
// logits agree with the continuation. Models of known architectures (families.def) give these
// logits from the folder, and from the GGUF where that is the same model. Chunks and threads do not
// change the bits of either. test_golden_ways_families.c runs more ways.
#include "golden_carried.h"
#include "golden_families.h"

static void check_form(struct golden *g, const char *form) {
    struct golden_run whole, parts;
    char what[96];
    golden_check_reference(g, form);
    golden_generate(g, &(rn_engine_options){.kv_type = "f32", .n_threads = 1, .logit_rows = 512},
                    &whole);
    golden_generate(
        g,
        &(rn_engine_options){.kv_type = "f32", .n_threads = 2, .batch_tokens = 7, .logit_rows = 7},
        &parts);
    snprintf(what, sizeof what, "%s, %s: chunks of 7", g->name, form);
    golden_check_same_bits(&whole, &parts, what);
    golden_run_free(&whole);
    golden_run_free(&parts);
    rn_model_close(g->model);
    g->model = NULL;
}

static void has_the_reference_logits(void **state) {
    struct golden g = golden_load(*state);
    if (g.has_gguf) {
        golden_open_gguf(&g);
        check_form(&g, "GGUF");
    }
    golden_open_folder(&g);
    check_form(&g, "folder");
    golden_unload(&g);
}

TEST_PROGRAM(families) {
    return data_run_tests(GOLDEN_FAMILIES, "is_carried", golden_is_carried, NULL) |
           golden_run_families("has_the_reference_logits", has_the_reference_logits);
}
