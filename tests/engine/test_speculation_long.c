// The tests of test_speculation.c, with the trained pair of models in every way, and with models of
// several architectures.
// label: long
#include "speculation_ways.h"

static struct {
    rn_model *model, *draft;
    struct token_list story;
} tale;

static int open_tale(void **state) {
    (void)state;
    tale.model = bare_open(MODELS_DIR "/tale-20m-q8_0.gguf");
    tale.draft = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    tale.story = story_read(tale.model);
    return 0;
}

static int close_tale(void **state) {
    (void)state;
    token_list_deinit(&tale.story);
    rn_model_close(tale.draft);
    rn_model_close(tale.model);
    return 0;
}

static struct mix_text story(void) {
    return (struct mix_text){tale.story.id, (int)tale.story.count};
}

CASE(drafts_do_not_show_with_a_smaller_model) {
    struct mix_cases cases;
    mix_cases_create_from(&cases, tale.model, "f16", story(), 21, 25);
    ways_run(&cases, tale.draft, KIN_RELATIVE, 21, 12, 2, 3);
    mix_cases_destroy(&cases);
}

// Their drafts are strangers with the same vocabulary.
CASE(drafts_do_not_show_in_other_architectures) {
    static const struct {
        const char *model, *draft, *kv_type;
    } pairs[] = {
        {"gemma3", "gemma2", "f16"},         // a window and full attention
        {"mixtral", "mistral-full", "int4"}, // experts
        {"qwen3moe", "qwen3", "int8"},       // the same, and norms of q and k
        {"gpt2", "olmo2", "f32"},            // learned positions
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char path[DATA_PATH_BYTES];
        snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", pairs[i].model);
        rn_model *model = bare_open(path);
        snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", pairs[i].draft);
        rn_model *draft = bare_open(path);
        struct mix_cases cases;
        int32_t noise[2000];
        const struct mix_text text = noise_fill(noise, 2000, model->info.n_vocab);
        print_message("%s with %s\n", pairs[i].model, pairs[i].draft);
        const uint64_t seed = 41 + i;
        mix_cases_create_from(&cases, model, pairs[i].kv_type, text, seed, 30);
        ways_run(&cases, draft, KIN_STRANGER, seed, 20, (int)i % 3, 3);
        mix_cases_destroy(&cases);
        rn_model_close(draft);
        rn_model_close(model);
    }
}

TEST_PROGRAM(speculation_long) { return cases_run(open_tale, close_tale); }
