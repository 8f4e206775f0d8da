// The reference models of hybrids.json. The build makes the original weights, and the carried
// logits agree with the continuation. Models of known architectures (hybrids.def) give these logits
// from both forms, and the same bits in every way to run them.
#include "golden_carried.h"
#include "golden_ways.h"

static bool is_known(const json_t *entry) {
    static const char *const names[] = {
#define HYBRID(name) name,
#include "hybrids.def"
#undef HYBRID
        NULL};
    return golden_is_one_of(entry, names);
}

// A state is carried from chunk to chunk, so chunks end inside of blocks and at their ends. For
// sanitizers one of each is enough.
static void check_form(struct golden *g, const char *form) {
    static const int chunks[] = {512, 1, 7, 16, 64};
    struct golden_run first, run;
    golden_check_reference(g, form);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i += (size_t)test_scale(2, 1, 1)) {
        const rn_engine_options options = {.kv_type = "f32",
                                           .batch_tokens = chunks[i],
                                           .logit_rows = chunks[i]};
        char what[96];
        golden_generate(g, &options, i ? &run : &first);
        if (i == 0) continue;
        snprintf(what, sizeof what, "%s, %s: chunks of %d", g->name, form, chunks[i]);
        golden_check_same_bits(&first, &run, what);
        golden_run_free(&run);
    }
    golden_check_ids(g, &first);
    golden_run_free(&first);
    rn_model_close(g->model);
    g->model = NULL;
}

// Rounded states have other bits, the same ones for every chunk.
static void has_the_same_bits_with_rounded_states(void **state) {
    struct golden g = golden_load(*state);
    struct golden_run first, run;
    golden_open_gguf(&g);
    for (int chunk = 512; chunk > 0; chunk -= 505) {
        const rn_engine_options options = {.kv_type = "f32",
                                           .state_type = "bf16",
                                           .batch_tokens = chunk,
                                           .logit_rows = chunk};
        golden_generate(&g, &options, chunk == 512 ? &first : &run);
    }
    golden_check_same_bits(&first, &run, g.name);
    print_message("%s: largest difference with states in bf16 %.2e\n", g.name,
                  (double)golden_difference(&g, &first));
    golden_run_free(&first);
    golden_run_free(&run);
    golden_unload(&g);
}

static void has_the_reference_logits(void **state) {
    struct golden g = golden_load(*state);
    golden_open_gguf(&g);
    check_form(&g, "GGUF");
    golden_open_folder(&g);
    check_form(&g, "folder");
    golden_unload(&g);
}

TEST_PROGRAM(hybrids) {
    return data_run_tests(GOLDEN_HYBRIDS, "is_carried", golden_is_carried, NULL) |
           data_run_tests(GOLDEN_HYBRIDS, "has_the_reference_logits", has_the_reference_logits,
                          is_known) |
           data_run_tests(GOLDEN_HYBRIDS, "has_the_same_bits_with_rounded_states",
                          has_the_same_bits_with_rounded_states, is_known) |
           // sanitizers see every instruction set in tests/backend
           (TEST_IS_SLOW ? 0
                         : data_run_tests(GOLDEN_HYBRIDS, "has_the_same_bits_every_way",
                                          golden_has_the_same_bits_every_way, is_known));
}
